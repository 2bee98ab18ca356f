"""Checkpoints of a parallel run: written when all ranks have come there, from what rank 0 has; read by all.

What is saved is the same on all ranks (variables of a strategy, an optimizer's), so a run may go on with another number of
ranks. The file appears whole or not at all (`train/checkpoint_file.py`); nobody goes on before it is there. Large arrays can be
written by all ranks, a part each, to files beside it: they are on the disk, under names that no other checkpoint has, before
the file that names them replaces the old one. Invariant: at every moment the path names one whole checkpoint, the last or
the one before.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any
from zlib import crc32

import numpy as np

from gradtape.core.hooks import HOOKS
from gradtape.train.checkpoint import Checkpoint, file_content
from gradtape.train.checkpoint_file import on_first_rank, remove_abandoned, write_file


def save_checkpoint(checkpoint: Checkpoint, path: str | os.PathLike[str], shard_above: int | None = None) -> None:
    """Write a checkpoint of all ranks; every rank calls it, and goes on when the file is there.

    Args:
        checkpoint: what to save; `checkpoint.restore(path)` reads it, on any number of ranks.
        path: the file.
        shard_above: arrays of more bytes than this are split, and every rank writes its part to a file beside `path`.

    >>> import gradtape as gt, tempfile, os
    >>> checkpoint = gt.train.Checkpoint(v=gt.Variable(1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gt.distribute.save_checkpoint(checkpoint, os.path.join(folder, "state"))
    """
    world, path = HOOKS.world, os.fspath(path)
    arrays, description = file_content(checkpoint)
    _compare(arrays)
    large = [name for name in sorted(arrays) if shard_above is not None and np.asarray(arrays[name]).nbytes > shard_above]
    if large:
        number = int(
            world.broadcast(np.array(int.from_bytes(os.urandom(6), "big")), 0)
        )  # of this checkpoint, in names of files
        names = [f"{os.path.basename(path)}.shard-{number:012x}-{rank}" for rank in range(world.size)]
        parts = {name: np.array_split(np.ravel(arrays[name]), world.size)[world.rank] for name in large}
        write_file(os.path.join(os.path.dirname(path), names[world.rank]), parts, {"kind": "shard"})
        description |= {"shards": names, "shapes": {name: list(np.shape(arrays[name])) for name in large}}
        arrays = {name: array for name, array in arrays.items() if name not in large}

    def write() -> None:  # when all ranks have come there: their parts are on the disk
        write_file(path, arrays, description)
        _remove_old_shards(path, description.get("shards", ()))

    on_first_rank(write)


def _compare(arrays: Mapping[str, Any]) -> None:
    """Say which arrays are not the same on all ranks: the file can have only one of each."""
    world = HOOKS.world
    if world.size == 1 or not arrays:
        return
    own = np.array([crc32(np.ascontiguousarray(arrays[name]).tobytes()) for name in sorted(arrays)], np.int64)
    most, least = world.all_reduce(own, "max"), world.all_reduce(own, "min")
    differ = [name for name, a, b in zip(sorted(arrays), np.atleast_1d(most), np.atleast_1d(least), strict=True) if a != b]
    if differ and world.rank == 0:
        warnings.warn(
            f"save_checkpoint: {', '.join(differ[:5])} is not the same on all ranks; the checkpoint has the value of rank 0. "
            "Variables made in a strategy's scope are kept the same; give each rank's own value a checkpoint of its own",
            UserWarning,
            stacklevel=3,
        )


def _remove_old_shards(path: str, names: Any) -> None:
    """Files of earlier checkpoints at this path, and of one that was not finished."""
    directory, prefix = os.path.dirname(path), f"{os.path.basename(path)}.shard-"
    remove_abandoned(directory)
    for name in os.listdir(directory or "."):
        if name.startswith(prefix) and name not in names:
            os.unlink(os.path.join(directory, name))
