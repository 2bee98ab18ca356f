"""Optimizers: one file per family, `base.py` for what they share, `schedules.py` for learning rates."""
