"""`gt.initializers`: how variables start, under Keras's names. Only re-exports."""

from gradtape.surface.name_hints import hint as _hint
from gradtape.train.initial_values import *

_hint(__name__)
