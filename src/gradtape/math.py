"""`gt.math`: mathematics under TensorFlow's names; `gt.math.special` are the special functions. This file only re-exports."""

from gradtape.frontend.clipping import (
    clip_by_global_norm as clip_by_global_norm, clip_by_norm as clip_by_norm, global_norm as global_norm,
)  # fmt: skip
from gradtape.ops import special as special
from gradtape.ops.activations import log_sigmoid as log_sigmoid, sigmoid as sigmoid, softplus as softplus
from gradtape.ops.clipping import clip_by_average_norm as clip_by_average_norm, l2_normalize as l2_normalize
from gradtape.ops.compare import (
    equal as equal, greater as greater, greater_equal as greater_equal, is_finite as is_finite, is_inf as is_inf,
    is_nan as is_nan, less as less, less_equal as less_equal, logical_and as logical_and, logical_not as logical_not,
    logical_or as logical_or, logical_xor as logical_xor, not_equal as not_equal,
)  # fmt: skip
from gradtape.ops.composite import (
    accumulate_n as accumulate_n, add_n as add_n, angle as angle, count_nonzero as count_nonzero,
    divide_no_nan as divide_no_nan, floormod as floormod, invert_permutation as invert_permutation,
    is_non_decreasing as is_non_decreasing, is_strictly_increasing as is_strictly_increasing,
    multiply_no_nan as multiply_no_nan, nextafter as nextafter, polyval as polyval,
    reciprocal_no_nan as reciprocal_no_nan, scalar_mul as scalar_mul, squared_difference as squared_difference,
    truediv as truediv, truncatediv as truncatediv, truncatemod as truncatemod, xdivy as xdivy, xlog1py as xlog1py,
    xlogy as xlogy, zero_fraction as zero_fraction,
)  # fmt: skip
from gradtape.ops.cumulative import cumprod as cumprod, cumsum as cumsum, cumulative_logsumexp as cumulative_logsumexp
from gradtape.ops.elementwise import (
    abs as abs, acos as acos, acosh as acosh, add as add, asin as asin, asinh as asinh, atan as atan, atan2 as atan2,
    atanh as atanh, complex as complex, conj as conj, cos as cos, cosh as cosh, divide as divide, exp as exp,
    expm1 as expm1, imag as imag, log as log, log1p as log1p, multiply as multiply, negative as negative, pow as pow,
    real as real, reciprocal as reciprocal, rsqrt as rsqrt, sign as sign, sin as sin, sinh as sinh, sqrt as sqrt,
    square as square, subtract as subtract, tan as tan, tanh as tanh,
)  # fmt: skip
from gradtape.ops.incomplete import betainc as betainc, igamma as igamma, igammac as igammac, zeta as zeta
from gradtape.ops.matrix import norm as norm
from gradtape.ops.reduce import (
    reduce_all as reduce_all, reduce_any as reduce_any, reduce_euclidean_norm as reduce_euclidean_norm,
    reduce_logsumexp as reduce_logsumexp, reduce_max as reduce_max, reduce_mean as reduce_mean,
    reduce_min as reduce_min, reduce_prod as reduce_prod, reduce_std as reduce_std, reduce_sum as reduce_sum,
    reduce_variance as reduce_variance,
)  # fmt: skip
from gradtape.ops.segment import (
    bincount as bincount, confusion_matrix as confusion_matrix, segment_max as segment_max,
    segment_mean as segment_mean, segment_min as segment_min, segment_prod as segment_prod, segment_sum as segment_sum,
    unsorted_segment_max as unsorted_segment_max, unsorted_segment_mean as unsorted_segment_mean,
    unsorted_segment_min as unsorted_segment_min, unsorted_segment_prod as unsorted_segment_prod,
    unsorted_segment_sqrt_n as unsorted_segment_sqrt_n, unsorted_segment_sum as unsorted_segment_sum,
)  # fmt: skip
from gradtape.ops.select import (
    ceil as ceil, clip_by_value as clip_by_value, floor as floor, floordiv as floordiv, maximum as maximum,
    minimum as minimum, mod as mod, rint as rint, round as round, where as where,
)  # fmt: skip
from gradtape.ops.sorting import (
    argmax as argmax, argmin as argmin, argsort as argsort, in_top_k as in_top_k, searchsorted as searchsorted,
    sort as sort, top_k as top_k, unique as unique,
)  # fmt: skip
from gradtape.ops.special import (
    bessel_i0 as bessel_i0, bessel_i0e as bessel_i0e, bessel_i1 as bessel_i1, bessel_i1e as bessel_i1e,
    bessel_j0 as bessel_j0, bessel_j1 as bessel_j1, bessel_k0 as bessel_k0, bessel_k0e as bessel_k0e,
    bessel_k1 as bessel_k1, bessel_k1e as bessel_k1e, bessel_y0 as bessel_y0, bessel_y1 as bessel_y1, dawsn as dawsn,
    digamma as digamma, erf as erf, erfc as erfc, erfcinv as erfcinv, erfinv as erfinv, expint as expint,
    fresnel_cos as fresnel_cos, fresnel_sin as fresnel_sin, lbeta as lbeta, lgamma as lgamma, ndtr as ndtr,
    ndtri as ndtri, polygamma as polygamma, sinc as sinc,
)  # fmt: skip
