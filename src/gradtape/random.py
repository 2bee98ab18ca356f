"""`gt.random`: random numbers under TensorFlow's names. Only re-exports."""

from gradtape.ops.generator import (
    Generator as Generator,
    get_global_generator as get_global_generator,
    set_global_generator as set_global_generator,
)
from gradtape.ops.random import (
    categorical as categorical,
    fold_in as fold_in,
    gamma as gamma,
    normal as normal,
    poisson as poisson,
    set_seed as set_seed,
    shuffle as shuffle,
    split as split,
    stateless_binomial as stateless_binomial,
    stateless_categorical as stateless_categorical,
    stateless_gamma as stateless_gamma,
    stateless_normal as stateless_normal,
    stateless_poisson as stateless_poisson,
    stateless_shuffle as stateless_shuffle,
    stateless_truncated_normal as stateless_truncated_normal,
    stateless_uniform as stateless_uniform,
    truncated_normal as truncated_normal,
    uniform as uniform,
)
from gradtape.ops.sequence_losses import (
    log_uniform_candidate_sampler as log_uniform_candidate_sampler,
    uniform_candidate_sampler as uniform_candidate_sampler,
)
