"""Object code on disk: found again, made again when anything about it is not as it should be, never in the way."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import tempfile
import time

import llvmlite
import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends import object_cache
from gradtape.backends.llvm.runtime import machine
from tests.harness.process import PATIENCE


@pytest.fixture
def directory(tmp_path):
    _run_once(0.5)  # what all programs share is compiled once in a process: now, whichever test is the first
    before = config.native_cache_directory()
    config.set_native_cache_directory(tmp_path / "cache")
    yield tmp_path / "cache"
    config.set_native_cache_directory(before)


def _run_once(factor, function=lambda x, factor: x * factor):
    """The native executable of a small function, compiled or found."""
    f = gt.function(lambda x: function(x, factor), jit_compile=True)
    f(gt.ones(3))
    (traced,) = f._state.cache.all()
    traced.program.compiled.prepare()
    made = traced.program.compiled._executable
    np.testing.assert_array_equal(made(np.ones(3, np.float32))[0], function(np.ones(3, np.float32), np.float32(factor)))
    return made


def test_object_code_is_found_again(directory):
    assert not _run_once(3.25).cached
    assert len(list(directory.glob("*/*.o"))) == 1
    again = _run_once(3.25)
    assert again.cached
    np.testing.assert_array_equal(again(np.ones(3, np.float32))[0], np.full(3, 3.25, np.float32))
    assert not _run_once(3.5).cached


def test_a_damaged_file_is_made_again(directory):
    _run_once(1.25)
    (file,) = directory.glob("*/*.o")
    whole = file.read_bytes()
    flips = [0, 5, len(object_cache.MAGIC), len(object_cache.MAGIC) + 31, len(object_cache.MAGIC) + 40, len(whole) // 2]
    flipped = [whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :] for k in (*flips, len(whole) - 1)]
    cut = [whole[:k] for k in (0, 1, len(object_cache.MAGIC), len(object_cache.MAGIC) + 32, len(whole) // 2, len(whole) - 1)]
    for damaged in (*flipped, *cut, whole + b"x", bytes(len(whole)), os.urandom(len(whole))):
        file.write_bytes(damaged)
        made = _run_once(1.25)
        assert not made.cached
        np.testing.assert_array_equal(made(np.ones(3, np.float32))[0], np.full(3, 1.25, np.float32))
        assert file.read_bytes() == whole


def test_the_cache_is_bounded(directory):
    for k in range(4):
        object_cache.store(f"{k}" * 64, bytes(1000))
        (file,) = directory.glob(f"*/{k}*.o")
        os.utime(file, (k, k))
    object_cache.trim(directory, 2500)
    assert sorted(file.name[0] for file in directory.glob("*/*.o")) == ["2", "3"]


def test_the_size_is_looked_at_as_often_as_it_may_have_changed(directory, monkeypatch):
    """Every 64th file of a process was too often in a directory of many files, and its first one always."""
    keys = [hashlib.sha256(f"{k}".encode()).hexdigest() for k in range(300)]
    looks = []
    trim = object_cache.trim
    monkeypatch.setattr(object_cache, "trim", lambda *given: looks.append(given) or trim(*given))
    for key in keys:
        object_cache.store(key, bytes(10_000))
    assert len(looks) <= 2  # 3 MB of 512
    monkeypatch.setattr(config, "NATIVE_CACHE_BYTES", 1_000_000)
    for key in keys:
        object_cache.store(key[::-1], bytes(10_000))
    assert sum(file.stat().st_size for file in directory.glob("*/*.o")) < 1_200_000


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path):
    before = config.native_cache_directory()
    (tmp_path / "file").write_text("")
    config.set_native_cache_directory(tmp_path / "file" / "inside")
    try:
        assert not _run_once(5.25).cached
        config.set_native_cache_directory(None)
        assert not _run_once(5.25).cached
    finally:
        config.set_native_cache_directory(before)


def test_a_directory_in_the_place_of_a_file_is_no_error(directory):
    _run_once(1.5)
    (file,) = directory.glob("*/*.o")
    file.unlink()
    (file / "inside").mkdir(parents=True)
    assert not _run_once(1.5).cached
    assert (file / "inside").is_dir()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("where", ["mkstemp", "write", "replace"])
def test_a_disk_that_is_full_or_may_not_be_written(directory, monkeypatch, where, error):
    def fail(*args, **kwargs):
        raise OSError(error, os.strerror(error))

    class Full:
        def __init__(self, handle, mode):
            self.handle = handle

        def __enter__(self):
            return self

        def __exit__(self, *details):
            os.close(self.handle)

        def write(self, content):
            os.write(self.handle, content[: len(content) // 2])
            fail()

    monkeypatch.setattr(*{"mkstemp": (tempfile, "mkstemp", fail), "write": (os, "fdopen", Full),
                          "replace": (os, "replace", fail)}[where])  # fmt: skip
    assert not _run_once(2.25).cached
    monkeypatch.undo()
    assert [file for file in directory.rglob("*") if file.is_file()] == []
    assert not _run_once(2.25).cached
    assert _run_once(2.25).cached


def test_what_was_left_half_written_is_removed(directory):
    object_cache.store("a" * 64, b"code")
    old, new = directory / "aa" / ".newold", directory / "aa" / ".newnew"
    for file in (old, new):
        file.write_bytes(b"half")
    os.utime(old, (time.time() - 2 * object_cache.OLD,) * 2)
    object_cache.trim(directory, 1 << 20)
    assert not old.exists()
    assert new.exists()
    assert object_cache.load("a" * 64) == b"code"


def test_a_key_depends_on_all_that_matters(monkeypatch):
    base = machine.key_of("text", 3)
    assert machine.key_of("text", 3) == base
    found = {base, machine.key_of("other", 3), machine.key_of("text", 2)}
    for name in ("cpu", "features"):
        monkeypatch.setitem(machine._STATE, name, "other")
        found.add(machine.key_of("text", 3))
        monkeypatch.undo()
    whole = machine._STATE["makers"]
    for k in range(len(whole)):
        monkeypatch.setitem(machine._STATE, "makers", (*whole[:k], "other", *whole[k + 1 :]))
        found.add(machine.key_of("text", 3))
        monkeypatch.undo()
    assert len(found) == 5 + len(whole)
    assert {gt.__version__, llvmlite.__version__} <= {*whole}


def test_two_versions_of_a_function_are_two_entries(directory):
    assert not _run_once(2.0, lambda x, k: x * k).cached
    assert not _run_once(2.0, lambda x, k: x + k).cached
    assert len(list(directory.glob("*/*.o"))) == 2
    assert _run_once(2.0, lambda x, k: x * k).cached
    assert _run_once(2.0, lambda x, k: x + k).cached


PROCESS = """
import sys, time
import numpy as np
import gradtape as gt

f = gt.function(lambda x: gt.sin(x) * 3.75 + gt.exp(-x), jit_compile=True)
time.sleep(max(0.0, float(sys.argv[1]) - time.time()))
x = np.linspace(0, 1, 7)
assert np.allclose(f(gt.constant(x)).numpy(), np.sin(x) * 3.75 + np.exp(-x))
"""


def test_processes_that_write_the_same_entry_at_once(directory):
    environment = {**os.environ, "GRADTAPE_CACHE": str(directory)}
    start = str(time.time() + 2.0)
    running = [subprocess.Popen([sys.executable, "-c", PROCESS, start], env=environment) for _ in range(3)]
    assert [process.wait(PATIENCE) for process in running] == [0] * 3
    files = [file for file in directory.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} == {
        ".f",
        ".o",
        ".p",
    }  # functions, object code, where that of a program is
    for file in files:
        assert object_cache.load(file.stem, file.suffix[1:]) is not None
