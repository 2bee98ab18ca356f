"""Rewritten functions on disk: found without parsing, and only where rewriting again would give the same code."""

from __future__ import annotations

import importlib
import importlib.util
import marshal
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends import object_cache
from gradtape.functions.autograph import kept_conversions
from gradtape.functions.autograph.source import find, text_of

convert: Any = importlib.import_module("gradtape.functions.autograph.convert")
PROGRAM = """
def collatz(x, n):
    while x > 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        n = n + 1
    return n

def outer(k):
    def inner(x):
        return [x * i for i in range(k)]
    return inner

pair = (lambda x: x + 1, lambda x: x - 1)
three = outer(3)

class Box:
    __size = 2
    def scaled(self, x):
        return x * self.__size if x > 0 else x
"""


@pytest.fixture
def directory(tmp_path: Path) -> Any:
    before = config.native_cache_directory()
    config.set_native_cache_directory(tmp_path / "cache")
    yield tmp_path / "cache"
    config.set_native_cache_directory(before)


def loaded(path: Path, text: str = PROGRAM) -> Any:
    """A module of its own, with code objects that nobody has converted."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    importlib.import_module("linecache").checkcache(str(path))
    return module


def parts(code: CodeType) -> list[Any]:
    """All of a code object but its identity: comparing two leaves lines and names out."""
    inner = [parts(value) if isinstance(value, CodeType) else value for value in code.co_consts]
    return [code.co_code, inner, code.co_name, code.co_qualname, code.co_filename, *code.co_positions()]


def functions(module: Any) -> list[FunctionType]:
    return [module.collatz, module.three, *module.pair, module.Box.scaled]


def test_a_function_is_found_without_parsing(directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [convert.converted_function(f).__code__ for f in functions(loaded(tmp_path / "program.py"))]
    assert len([*directory.glob("*/*.f")]) == len(made)
    monkeypatch.setattr(convert, "find", lambda *given: pytest.fail("parsed again"))
    module = loaded(tmp_path / "program.py")
    again = [convert.converted_function(f).__code__ for f in functions(module)]
    assert [parts(code) for code in again] == [parts(code) for code in made]
    assert int(gt.function(module.collatz)(gt.constant(6), gt.constant(0))) == 8
    assert [int(gt.function(f)(gt.constant(5))) for f in module.pair] == [6, 4]
    assert int(gt.function(module.Box().scaled)(gt.constant(4))) == 8


def test_what_the_rewriting_reads_is_in_the_key(directory: Path, tmp_path: Path) -> None:
    """Another text, another place, another name, and a builtin that the module calls something else."""
    path = tmp_path / "program.py"
    module = loaded(path)
    text = text_of(module.collatz.__code__, vars(module))
    key = kept_conversions.key_of(module.collatz.__code__, text, vars(module))
    assert key == kept_conversions.key_of(loaded(path).collatz.__code__, text, vars(module))
    others = [
        kept_conversions.key_of(module.collatz.__code__, text + "#", vars(module)),
        kept_conversions.key_of(module.collatz.__code__, text, vars(module) | {"range": list}),
        *[kept_conversions.key_of(f.__code__, text, vars(module)) for f in functions(module)[1:]],
        kept_conversions.key_of(loaded(tmp_path / "other.py").collatz.__code__, text, vars(module)),
    ]
    assert len({key, *others}) == 1 + len(others)
    one, two = [find(f.__code__, text) for f in module.pair]
    assert one is not two
    assert convert.converted_function(loaded(path, PROGRAM.replace("3 * x", "5 * x")).collatz)(3, 0) > 0


def test_a_damaged_one_is_made_again_and_none_is_needed(directory: Path, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    convert.converted_function(loaded(path).collatz)
    (file,) = directory.glob("*/*.f")
    file.write_bytes(file.read_bytes()[:-1])
    assert convert.converted_function(loaded(path).collatz)(6, 0) == 8
    (file,) = directory.glob("*/*.f")
    assert isinstance(marshal.loads(file.read_bytes()[len(object_cache.MAGIC) + 32 :]), CodeType)
    config.set_native_cache_directory(None)
    assert convert.converted_function(loaded(path).collatz)(6, 0) == 8
    assert [*directory.glob("*/*.f")] == [file]
