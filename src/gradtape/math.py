"""`gt.math`: mathematics under TensorFlow's names; `gt.math.special` are the special functions. This file only re-exports."""

from gradtape.ops import special as special
from gradtape.ops.activations import (
    log_sigmoid as log_sigmoid,
    log_softmax as log_softmax,
    sigmoid as sigmoid,
    softmax as softmax,
    softplus as softplus,
    softsign as softsign,
)
from gradtape.ops.clipping import clip_by_average_norm as clip_by_average_norm, l2_normalize as l2_normalize
from gradtape.ops.compare import *
from gradtape.ops.composite import *
from gradtape.ops.cumulative import cumprod as cumprod, cumsum as cumsum, cumulative_logsumexp as cumulative_logsumexp
from gradtape.ops.elementwise import *
from gradtape.ops.incomplete import betainc as betainc, igamma as igamma, igammac as igammac, zeta as zeta
from gradtape.ops.matrix import norm as norm
from gradtape.ops.permutations import invert_permutation as invert_permutation
from gradtape.ops.reduce import *
from gradtape.ops.segment import *
from gradtape.ops.select import *
from gradtape.ops.sorting import *
from gradtape.ops.special import *
from gradtape.surface.name_hints import hint as _hint
from gradtape.variables.gradient_clipping import (
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    global_norm as global_norm,
)

_hint(__name__)
