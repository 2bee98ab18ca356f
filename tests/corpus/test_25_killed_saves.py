"""A process killed while it saved left temporary files for ever, and checkpoints that `max_to_keep` did not count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gradtape as gt

# dies at the n-th call of os.replace, os.fsync or os.unlink, before or after it: everywhere a save touches the disk
SCRIPT = """
import os, sys
import gradtape as gt
directory, name, count, after = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "after"
plain = getattr(os, name)
def deadly(*args):
    global count
    count -= 1
    if count == 0 and not after:
        os._exit(9)
    result = plain(*args)
    if count == 0:
        os._exit(9)
    return result
manager = gt.train.CheckpointManager(gt.train.Checkpoint(v=gt.Variable(1.0)), directory, max_to_keep=2)
manager.restore_or_initialize()
setattr(os, name, deadly)
for _ in range(2):
    manager.save(checkpoint_number=int(manager.checkpoint.save_counter) + 5)
"""


@pytest.mark.parametrize(
    ("name", "count", "moment"),
    [("fsync", 1, "after"), ("replace", 1, "after"), ("replace", 2, "before"), ("replace", 2, "after"), ("unlink", 1, "before"),
     ("unlink", 1, "after"), ("replace", 3, "before")],
)  # fmt: skip
def test_the_next_save_cleans_up(tmp_path: Path, name: str, count: int, moment: str) -> None:
    v = gt.Variable(2.0)
    manager = gt.train.CheckpointManager(gt.train.Checkpoint(v=v), tmp_path, max_to_keep=2)
    for _ in range(2):
        manager.save()
    ended = subprocess.run([sys.executable, "-c", SCRIPT, str(tmp_path), name, str(count), moment], check=False)
    assert ended.returncode == 9
    assert manager.restore_or_initialize() is not None  # nothing is torn
    assert float(v) == 2.0
    manager.save()
    assert len(manager.checkpoints) <= 2
    assert sorted(os.listdir(tmp_path)) == sorted(["checkpoint", *(os.path.basename(p) for p in manager.checkpoints)])


def test_files_that_are_being_written_stay(tmp_path: Path) -> None:
    from gradtape.train.checkpoint_file import _writer, remove_abandoned

    own = tmp_path / f".ckpt-1.{_writer()}-{'0' * 16}.tmp"
    elsewhere = tmp_path / f".ckpt-1.{'f' * 8}-1-{'0' * 16}.tmp"
    users = tmp_path / ".notes.tmp"
    for path in (own, elsewhere, users):
        path.write_text("")
    remove_abandoned(str(tmp_path))
    assert own.exists()
    assert elsewhere.exists()
    os.utime(elsewhere, (0, 0))
    remove_abandoned(str(tmp_path))
    assert not elsewhere.exists()
    assert users.exists()
