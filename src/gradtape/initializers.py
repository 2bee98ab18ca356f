"""`gt.initializers`: how variables start, under Keras's names. Only re-exports."""

from gradtape.surface.name_hints import hint as _hint
from gradtape.train.initial_values import (
    Constant as Constant,
    GlorotNormal as GlorotNormal,
    GlorotUniform as GlorotUniform,
    HeNormal as HeNormal,
    HeUniform as HeUniform,
    Identity as Identity,
    Initializer as Initializer,
    LecunNormal as LecunNormal,
    LecunUniform as LecunUniform,
    Ones as Ones,
    Orthogonal as Orthogonal,
    RandomNormal as RandomNormal,
    RandomUniform as RandomUniform,
    TruncatedNormal as TruncatedNormal,
    VarianceScaling as VarianceScaling,
    Zeros as Zeros,
    get as get,
)

constant, identity, ones, orthogonal, zeros = Constant, Identity, Ones, Orthogonal, Zeros
glorot_normal, glorot_uniform, he_normal, he_uniform = GlorotNormal, GlorotUniform, HeNormal, HeUniform
lecun_normal, lecun_uniform, variance_scaling = LecunNormal, LecunUniform, VarianceScaling
random_normal, random_uniform, truncated_normal = RandomNormal, RandomUniform, TruncatedNormal

_hint(__name__)
