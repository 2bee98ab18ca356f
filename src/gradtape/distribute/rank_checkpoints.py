"""Checkpoints of a parallel run: written once, by rank 0, when all ranks have come there; read by all.

What is saved is the same on all ranks (variables of a strategy, an optimizer's), so a run may go on with another number of
ranks. The file appears whole or not at all (`train/checkpoint_file.py`); nobody goes on before it is there.
"""

from __future__ import annotations

import os

from gradtape.core.hooks import HOOKS
from gradtape.ops.rank_functions import barrier
from gradtape.train.checkpoint import Checkpoint


def save_checkpoint(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint from rank 0; every rank calls it, and goes on when the file is there.

    >>> import gradtape as gt, tempfile, os
    >>> checkpoint = gt.train.Checkpoint(v=gt.Variable(1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     gt.distribute.save_checkpoint(checkpoint, os.path.join(folder, "state"))
    """
    barrier()
    if HOOKS.world.rank == 0:
        checkpoint.write(os.fspath(path))
    barrier()
