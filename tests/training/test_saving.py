"""`save` and `load`, the optional package, and files that are written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.train import checkpoint_file


def test_structures_come_back(tmp_path: Path) -> None:
    structure = {
        "weights": [gt.Variable([1.0, 2.0]), (gt.constant(3), np.float64(0.5))],
        "a/b": {"c": 1}, "a": {"b/c": 2, "b\\": True}, 7: None, "text": "é\n", "nothing": [], "empty": {}, "x": float("inf"),
    }  # fmt: skip
    loaded = gt.load(gt.save(tmp_path / "file", structure))
    assert list(loaded) == list(structure)
    assert loaded["weights"][0].numpy().tolist() == [1.0, 2.0]
    assert isinstance(loaded["weights"][1], tuple)
    assert loaded["weights"][1][0].numpy() == np.int32(3)
    assert loaded["weights"][1][1].dtype == gt.float64
    for key in ("a/b", "a", 7, "text", "nothing", "empty", "x"):
        assert loaded[key] == structure[key]


def test_modules_and_optimizers_come_back_as_dicts(tmp_path: Path) -> None:
    class Layer(gt.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = gt.Variable([1.0])
            self.size = 1

    layer, optimizer = Layer(), gt.optimizers.SGD(0.5, momentum=0.5)
    optimizer.apply_gradients([([1.0], layer.w)])
    loaded = gt.load(gt.save(tmp_path / "file", {"layer": layer, "optimizer": optimizer}))
    assert {k: v.numpy().tolist() for k, v in loaded["layer"].items()} == {"w": [0.5]}
    assert loaded["optimizer"]["slots/0/momentum"].numpy().tolist() == [-0.5]


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    for structure, error, text in [
        ({"f": len}, TypeError, "cannot save 'f' of type builtin_function_or_method"),
        ({(1, 2): 3}, TypeError, "must be a string or a number"),
        ({1: 2, "1": 3}, ValueError, "same text"),
        (loop, ValueError, "contains itself"),
        ({"s": gt.constant("text")}, TypeError, "'s' holds strings"),
    ]:
        with pytest.raises(error, match=text):
            gt.save(tmp_path / "file", structure)
    with pytest.raises(gt.errors.NotFoundError, match="does not exist"):
        gt.save(tmp_path / "missing" / "file", 1)
    assert os.listdir(tmp_path) == []


def test_missing_package_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.numpy", None)
    with pytest.raises(ImportError, match="pip install safetensors"):
        gt.save(tmp_path / "file", 1)
    with pytest.raises(ImportError, match="pip install safetensors"):
        gt.load(tmp_path / "file")


# -- whole or not at all -------------------------------------------------------------------------------------------------


def test_an_error_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = gt.save(tmp_path / "file", {"n": 1})

    def fail(handle: int) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(checkpoint_file.os, "fsync", fail)
    with pytest.raises(OSError, match="disk is full"):
        gt.save(path, {"n": 2})
    monkeypatch.undo()
    assert gt.load(path) == {"n": 1}
    assert os.listdir(tmp_path) == ["file"]


def test_a_failed_save_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = gt.train.Checkpoint(v=gt.Variable(1.0))
    monkeypatch.setattr(checkpoint_file.os, "replace", lambda a, b: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        checkpoint.save(tmp_path / "ckpt")
    monkeypatch.undo()
    assert checkpoint.save(tmp_path / "ckpt") == str(tmp_path / "ckpt-1")


def killed(program: str, path: Path, after: float) -> str:
    """Run a program until it prints a line, and kill it `after` seconds later; the line."""
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            time.sleep(after)
        finally:
            process.kill()
    return line


KILLED = """
import os, sys, time
import gradtape as gt
from gradtape.train import checkpoint_file
path = sys.argv[1]
gt.save(path, {"n": 1, "w": gt.ones(1000)})
def slow(file):  # half of the file is on the disk, then nothing more happens
    file.write(b"x" * 2000)
    file.flush()
    print("writing", flush=True)
    time.sleep(60)
checkpoint_file.replace_file(path, slow)
"""


def test_a_kill_while_writing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    assert killed(KILLED, path, after=0.0) == "writing\n"
    loaded = gt.load(path)
    assert loaded["n"] == 1
    assert loaded["w"].numpy().sum() == 1000


def test_kills_at_random_moments_leave_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    program = (
        "import sys, gradtape as gt\n"
        "n = 0\n"
        "while True:\n"
        "    gt.save(sys.argv[1], {'n': n, 'w': gt.fill([20000], float(n))})\n"
        "    n += 1\n"
        "    print(n, flush=True)\n"
    )
    for wait in (0.0, 0.003, 0.007):
        assert killed(program, path, after=wait)
        loaded = gt.load(path)
        assert np.all(loaded["w"].numpy() == loaded["n"])


@pytest.mark.parametrize("name", ["state", "objects", "values", "late"])
def test_a_checkpoint_takes_any_name_but_those_of_its_methods(tmp_path, name):
    v = gt.Variable([1.0, 2.0])
    checkpoint = gt.train.Checkpoint(**{name: [v]})
    path = checkpoint.save(tmp_path / "c")
    v.assign([0.0, 0.0])
    checkpoint.restore(path).assert_consumed()
    assert v.numpy().tolist() == [1.0, 2.0]
    outer = gt.train.Checkpoint(inner=checkpoint)
    assert outer.read(outer.write(tmp_path / "outer")) is not None
