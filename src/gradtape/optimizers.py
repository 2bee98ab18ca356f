"""Optimizers with Keras's names and formulas, and learning-rate `schedules`. This file only re-exports."""

from gradtape.frontend.optimizers import schedules
from gradtape.frontend.optimizers.adam import Adam, AdamW
from gradtape.frontend.optimizers.base import Optimizer
from gradtape.frontend.optimizers.others import Adagrad, Lion, RMSprop
from gradtape.frontend.optimizers.sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Lion", "Optimizer", "RMSprop", "schedules"]
