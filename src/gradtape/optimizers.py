"""Optimizers with Keras's names and formulas, and learning-rate `schedules`. This file only re-exports."""

from gradtape.surface.name_hints import hint as _hint
from gradtape.train.optimizers import schedules as schedules
from gradtape.train.optimizers.base import Optimizer as Optimizer
from gradtape.train.optimizers.rules import *

_hint(__name__)
