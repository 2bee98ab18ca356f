"""Checkpoints and averages of training runs. This file only re-exports."""

from gradtape.surface.name_hints import hint as _hint
from gradtape.train.checkpoint import Checkpoint, CheckpointManager, latest_checkpoint
from gradtape.train.moving_average import ExponentialMovingAverage

__all__ = ["Checkpoint", "CheckpointManager", "ExponentialMovingAverage", "latest_checkpoint"]
_hint(__name__)
