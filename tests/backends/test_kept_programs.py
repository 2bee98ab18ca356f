"""Programs on disk by the digest of what was traced: found without passes and writing, and only where they mean the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends import object_cache
from gradtape.backends.llvm.entry import kept_programs
from gradtape.backends.llvm.runtime import machine
from tests.harness.process import PATIENCE

X = gt.constant([0.5, 1.0, 2.0])
PARTS = {"allocator", "blas", "depthwise", "threads", "tiles", "trampoline", "turning"}  # modules whose routines programs call


@pytest.fixture
def directory(tmp_path: Path) -> Any:
    before = config.native_cache_directory()
    config.set_native_cache_directory(tmp_path / "cache")
    yield tmp_path / "cache"
    config.set_native_cache_directory(before)


def compiled(body: Any, *args: Any, name: str = "kept") -> Any:
    """The executable of a function that was called once, and the result."""
    f = gt.function(body, name=name)
    result = f(*args)
    (traced,) = f._state.cache.all()
    return traced.program.compiled._executable, result


def was_found(executable: Any) -> bool:
    """Whether neither passes nor writing were needed."""
    return executable._prepared is None and executable._written is None


def texts_in(file: Path) -> list[str]:
    """What is kept of a program: the key of its code, LLVM's level, then each name with its declaration."""
    return (object_cache.load(file.stem, "p") or b"").decode().split("\0")


def body(x: Any) -> Any:
    return gt.reduce_sum(gt.tanh(x) * x) * 7.125


def test_a_program_that_assigns_variables_under_a_tape_is_found(directory: Path) -> None:
    """As Keras's steps do, whose metrics are variables; the text has their names, and which is which."""

    def step(first: gt.Variable, second: gt.Variable) -> tuple[Any, list[Any]]:
        def body(x: Any) -> Any:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = gt.reduce_sum(first.assign_add(x) * second.assign(x * 3.0) * 4.125)
            return tape.gradient(y, x)

        return compiled(body, X)

    def variables() -> list[gt.Variable]:
        return [gt.Variable([1.0, 2.0, 3.0], name="counter"), gt.Variable([0.0, 0.5, 1.0], name="counter")]

    results = []
    for _ in range(2):
        both = variables()
        executable, gradient = step(*both)
        results.append((was_found(executable), [gradient.numpy(), *[v.numpy() for v in both]]))
    assert [known for known, _ in results] == [False, True]
    np.testing.assert_array_equal(results[0][1], results[1][1])
    first, second = variables()
    executable, gradient = step(second, first)  # the same names, the other way round
    expected = np.array(X) + np.array([0.0, 0.5, 1.0])
    np.testing.assert_allclose(second, expected, rtol=1e-6)
    np.testing.assert_allclose(first, np.array(X) * 3.0, rtol=1e-6)
    one = gt.Variable([1.0, 2.0, 3.0], name="counter")
    assert not was_found(step(one, one)[0])  # another program


def test_a_program_is_found_without_passes_and_writing(directory: Path) -> None:
    first, value = compiled(body, X)
    assert not was_found(first)
    again, same = compiled(body, X)
    assert was_found(again)
    assert again.cached
    np.testing.assert_array_equal(value, same)
    assert not was_found(compiled(lambda x: gt.reduce_sum(gt.tanh(x) * x) * 7.25, X)[0])  # another constant
    assert not was_found(compiled(body, gt.ones(4))[0])  # another shape


def test_long_constants_are_data(directory: Path) -> None:
    """They stand neither in the text of a module nor in what is digested, and lie on disk once, whoever uses them."""

    def rows(x: Any, number: float) -> Any:
        table = gt.eye(300) * number
        return gt.reduce_sum(table * x, axis=1) + table[0] * x

    x = gt.constant(np.linspace(0, 1, 300, dtype=np.float32))
    first, value = compiled(rows, x, 3.5)
    assert len(first.source) < 12_000
    assert [len(raw) for raw in first.program.constants.values()].count(300 * 300 * 4) == 1
    np.testing.assert_array_equal(value, np.eye(300, dtype=np.float32)[0] * 3.5 * x + 3.5 * x)
    del first
    again, same = compiled(rows, x, 3.5)
    assert was_found(again)
    np.testing.assert_array_equal(value, same)
    assert not was_found(compiled(rows, x, 4.5)[0])
    for file in directory.glob("*/*.c"):
        file.write_bytes(b"damaged")
    mended, back = compiled(rows, x, 3.5)
    assert not was_found(mended)
    np.testing.assert_array_equal(value, back)


def test_what_was_found_can_be_explained(directory: Path) -> None:
    first, _ = compiled(body, X)
    again, _ = compiled(body, X)
    assert was_found(again)
    assert again.source == first.source
    assert [str(note) for note in again.notes] == [str(note) for note in first.notes]
    assert len(again.report()) == len(first.report())


def test_halves_are_found_too(directory: Path) -> None:
    def gradient() -> Any:
        f = gt.function(body, name="kept")
        with gt.GradientTape() as tape:
            tape.watch(X)
            y = f(X)
        grad = tape.gradient(y, X)
        (traced,) = f._state.cache.all()
        ((_, forward, backward),) = traced.program.compiled._halves.values()
        return grad, forward._executable, backward._executable

    before, *made = gradient()
    after, *found = gradient()
    assert not any(map(was_found, made))
    assert all(map(was_found, found))
    np.testing.assert_array_equal(before, after)


SCRIPT = """
import sys
import numpy as np
import gradtape as gt
from gradtape.passes import pipeline
calls = []
optimize = pipeline.optimize
pipeline.optimize = lambda block: calls.append(block.name) or optimize(block)

@gt.function
def loss(w, x):
    with gt.GradientTape() as tape:
        tape.watch(w)
        y = gt.reduce_sum(gt.nn.relu(x @ w) ** 2)
    return y, tape.gradient(y, w)

w = gt.constant(np.linspace(-1, 1, 64 * 32).reshape(64, 32).astype(np.float32))
y, grad = loss(w, gt.constant(np.ones((48, 64), np.float32)))
print(len(calls), float(y), float(gt.reduce_sum(grad)))
"""


def test_another_process_runs_no_pass(directory: Path) -> None:
    def run() -> list[str]:
        command = [sys.executable, "-c", SCRIPT]
        environment = {**os.environ, "GRADTAPE_CACHE": str(directory)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=True)
        return done.stdout.split()

    first, second = run(), run()
    assert first[0] != "0"
    assert second == ["0", *first[1:]]


CALLING = """
import numpy as np
import gradtape as gt

def turned(x):
    y = gt.zeros_like(x)
    y[..., 0] = x[..., 0]
    for j in range(1, x.shape[-1]):
        y[..., j] = 0.3 * x[..., j] + 0.9 * gt.sin(y[..., j - 1])
    return y

def ones(*shape):
    return gt.ones(shape)

calls = {
    turned: [ones(64, 40)],
    lambda x: gt.exp(gt.sin(x)) * x: [ones(1 << 18)],
    lambda a, b: a @ b: [ones(48, 64), ones(64, 33)],
    lambda a, b: a @ b - 1.0: [ones(500, 500), ones(500, 500)],
    lambda x, w: gt.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME"): [ones(1, 9, 9, 8), ones(3, 3, 8, 1)],
    lambda x, w: gt.nn.conv2d(x, w, 1, "SAME"): [ones(1, 9, 9, 8), ones(3, 3, 8, 16)],
    lambda a: a @ a + a: [gt.TensorSpec([None, None]), ones(20, 20)],
}
executables = []
for body, args in calls.items():
    signature = [args.pop(0)] if isinstance(args[0], gt.TensorSpec) else None
    f = gt.function(body, autograph=body is turned, input_signature=signature)
    f(*args)
    (traced,) = f._state.cache.all()
    executables.append(traced.program.compiled._executable)
print(*[executable._prepared is None for executable in executables])
from gradtape.backends.llvm.products import depthwise, gemm
print(*[len(room.library("float").part._module.functions) for room in (depthwise, gemm)])
texts = [text for executable in executables for text in executable.program.declared.values()]
print(*{text.split(" ; ")[1].split()[0].rpartition(".")[2] for text in texts if " ; " in text})
"""


def test_another_process_finds_programs_that_call_shared_parts(directory: Path, tmp_path: Path) -> None:
    """Whichever it is: a process that writes nothing has loaded none of the modules that the parts stand in."""
    script = tmp_path / "calling.py"
    script.write_text(CALLING)

    def run() -> list[list[str]]:
        command, environment = [sys.executable, str(script)], {**os.environ, "GRADTAPE_CACHE": str(directory)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE, check=True)
        return [line.split() for line in done.stdout.splitlines()]

    _, written, _ = run()
    known, again, homes = run()
    assert known == ["True"] * len(known)
    assert set(homes) == PARTS
    assert "0" not in written
    assert again == ["0", "0"]  # the text of products is long: neither is it written for the digest of its machine code


def test_damaged_and_missing_files_are_made_again(directory: Path) -> None:
    compiled(body, X)
    (file,) = directory.glob("*/*.p")
    whole = file.read_bytes()
    for damaged in (b"", whole[:-1], whole[:60] + b"x" + whole[61:], whole + b"x"):
        file.write_bytes(damaged)
        again, value = compiled(body, X)
        assert not was_found(again)
        np.testing.assert_allclose(value, body(X), rtol=1e-6)
        assert file.read_bytes() == whole
    for code in directory.glob("*/*.o"):
        code.unlink()
    assert not was_found(compiled(body, X)[0])
    assert was_found(compiled(body, X)[0])


def test_files_of_programs_count_for_the_bound(directory: Path) -> None:
    compiled(body, X)
    object_cache.trim(directory, 0)
    assert [file for file in directory.rglob("*") if file.is_file()] == []


def test_the_key_depends_on_whatever_makes_the_code(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(body, X)
    assert was_found(compiled(body, X)[0])
    monkeypatch.setattr(object_cache, "makers", lambda: "other files")
    assert not was_found(compiled(body, X)[0])
    monkeypatch.undo()
    assert np.__version__ in object_cache.makers()
    assert sys.version in object_cache.makers() or repr(sys.version) in object_cache.makers()
    assert repr(kept_programs.__file__) in object_cache.makers()


@pytest.mark.parametrize("name", ["gt_no_such_function", "gt_descr_nothing", "gt_mm_half"])
def test_a_program_that_names_something_unknown_is_not_loaded(directory: Path, name: str) -> None:
    compiled(body, X)
    (file,) = directory.glob("*/*.p")
    texts = [*texts_in(file), name, f"declare void @{name}()"]
    object_cache.store(file.stem, "\0".join(texts).encode(), "p")
    assert kept_programs.load(file.stem) is None
    assert not was_found(compiled(body, X)[0])


def test_another_version_of_a_shared_part_is_not_called(directory: Path) -> None:
    compiled(body, X)
    (file,) = directory.glob("*/*.p")
    texts = texts_in(file)
    assert any(" ; " in text for text in texts)
    changed = [text[:-1] + ("0" if text[-1] != "0" else "1") if " ; " in text else text for text in texts]
    object_cache.store(file.stem, "\0".join(changed).encode(), "p")
    assert kept_programs.load(file.stem) is None


def test_programs_with_python_in_them_are_not_kept(directory: Path) -> None:
    def doubled(x: Any) -> Any:
        return gt.numpy_function(lambda a: a * 2.0, [x], gt.float32)

    compiled(doubled, X)
    assert not list(directory.glob("*/*.p"))


def test_errors_of_a_found_program_are_those_of_eager_code(directory: Path) -> None:
    def taken(x: Any, i: Any) -> Any:
        return gt.gather(x, i) * 3.375

    for _ in range(2):
        executable, _ = compiled(taken, X, gt.constant([0, 2]))
    assert was_found(executable)
    f = gt.function(taken, name="kept")
    f(X, gt.constant([0, 2]))
    with pytest.raises(gt.errors.OpError) as eager_error:
        taken(X, gt.constant([0, 5]))
    with pytest.raises(gt.errors.OpError) as compiled_error:
        f(X, gt.constant([0, 5]))
    assert type(compiled_error.value) is type(eager_error.value)
    assert str(compiled_error.value) == str(eager_error.value)


def test_checked_programs_are_made_anew(directory: Path) -> None:
    compiled(body, X)
    config.debug_passes(True)
    try:
        assert not was_found(compiled(body, X)[0])
    finally:
        config.debug_passes(False)


def test_names_are_asked_for_before_code_is_loaded() -> None:
    assert machine.knows("memcpy")
    assert not machine.knows("gt_no_such_function")
