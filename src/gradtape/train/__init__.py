"""Checkpoints of training runs. This file only re-exports."""

from gradtape.train.checkpoint import Checkpoint, CheckpointManager, latest_checkpoint

__all__ = ["Checkpoint", "CheckpointManager", "latest_checkpoint"]
