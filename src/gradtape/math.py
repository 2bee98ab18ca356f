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
from gradtape.ops.compare import (
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    is_finite as is_finite,
    is_inf as is_inf,
    is_nan as is_nan,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    logical_xor as logical_xor,
    not_equal as not_equal,
)
from gradtape.ops.composite import *
from gradtape.ops.cumulative import cumprod as cumprod, cumsum as cumsum, cumulative_logsumexp as cumulative_logsumexp
from gradtape.ops.elementwise import *
from gradtape.ops.incomplete import betainc as betainc, igamma as igamma, igammac as igammac, zeta as zeta
from gradtape.ops.matrix import norm as norm
from gradtape.ops.permutations import invert_permutation as invert_permutation
from gradtape.ops.reduce import (
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_euclidean_norm as reduce_euclidean_norm,
    reduce_logsumexp as reduce_logsumexp,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_std as reduce_std,
    reduce_sum as reduce_sum,
    reduce_variance as reduce_variance,
)
from gradtape.ops.segment import *
from gradtape.ops.select import (
    ceil as ceil,
    clip_by_value as clip_by_value,
    floor as floor,
    floordiv as floordiv,
    maximum as maximum,
    minimum as minimum,
    mod as mod,
    rint as rint,
    round as round,
    where as where,
)
from gradtape.ops.sorting import (
    argmax as argmax,
    argmin as argmin,
    argsort as argsort,
    in_top_k as in_top_k,
    searchsorted as searchsorted,
    sort as sort,
    top_k as top_k,
    unique as unique,
)
from gradtape.ops.special import *
from gradtape.train.gradient_clipping import (
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    global_norm as global_norm,
)
