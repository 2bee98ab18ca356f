"""Optimizers with Keras's names and formulas, and learning-rate `schedules`. This file only re-exports."""

from gradtape.surface.name_hints import hint as _hint
from gradtape.train.optimizers import schedules
from gradtape.train.optimizers.adam import Adam, AdamW
from gradtape.train.optimizers.adaptive import Adadelta, Adamax, Ftrl, Nadam
from gradtape.train.optimizers.base import Optimizer
from gradtape.train.optimizers.others import Adagrad, Lion, RMSprop
from gradtape.train.optimizers.sgd import SGD

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "Optimizer", "RMSprop", "schedules",
]  # fmt: skip

_hint(__name__)
