"""`gt.random`: random numbers under TensorFlow's names. Only re-exports."""

from gradtape.ops.generator import (
    Generator as Generator,
    get_global_generator as get_global_generator,
    set_global_generator as set_global_generator,
)
from gradtape.ops.random import *
from gradtape.ops.sequence_losses import (
    log_uniform_candidate_sampler as log_uniform_candidate_sampler,
    uniform_candidate_sampler as uniform_candidate_sampler,
)
from gradtape.surface.name_hints import hint as _hint

_hint(__name__)
