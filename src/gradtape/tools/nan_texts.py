"""What to say about an operation that gave something non-finite: why, and what to do. Tables, and nothing else.

A text may use the names of `gt` functions a reader can paste.
"""

from __future__ import annotations

from gradtape.ad.custom import CUSTOM
from gradtape.core.opdef import Op
from gradtape.functions.compiled import FUNCTION
from gradtape.ops import elementwise as e, structured as regions
from gradtape.ops.collective import COMMUNICATIONS
from gradtape.ops.composite import ADD_N, XLOGY
from gradtape.ops.contract import EINSUM
from gradtape.ops.conv import CONV
from gradtape.ops.cumulative import CUMSUM
from gradtape.ops.linalg_det import SLOGDET
from gradtape.ops.linalg_solve import INV, SOLVE
from gradtape.ops.linalg_spectral import EIGH, SVD
from gradtape.ops.matmul import MATMUL
from gradtape.ops.python_calls import NUMPY_FUNCTION
from gradtape.ops.reduce import PROD_LAST, REDUCE_MEAN, REDUCE_SUM
from gradtape.ops.select import FLOORDIV, MOD
from gradtape.ops.special import DIGAMMA, ERFINV, LGAMMA, NDTRI

OVERFLOW = (
    "the result is larger than its dtype can hold",
    "scale the values down, subtract the largest one first (as gt.reduce_logsumexp does), or compute in float64",
)
INFINITE = ("an infinity met another or a zero: inf - inf and 0 * inf are NaN", "look where the infinity comes from")
FROM_OTHERS = ("what another rank gave is not finite", "ask tape.nan_report() on all ranks: one names the operation")
POWERS = (
    "a negative number to a fractional power is NaN, zero to a negative power is infinite, and large powers overflow",
    "keep the base positive: gt.maximum(x, 1e-12) ** p",
)
ROOT = ("the derivative of x**p is infinite at 0 for p < 1", "keep the base away from zero: gt.maximum(x, 1e-12) ** p")

# op → (why, cure), when a finite input gave a non-finite output
FORWARD: dict[Op, tuple[str, str]] = {
    e.LOG: (
        "log(0) is -inf, and the log of a negative number is NaN",
        "keep the argument positive, gt.math.log(gt.maximum(x, 1e-7)), or take gt.nn.log_softmax of the logits",
    ),
    e.LOG1P: ("log1p(-1) is -inf, and below -1 it is NaN", "keep the argument above -1: gt.maximum(x, -1.0 + 1e-7)"),
    e.SQRT: ("the square root of a negative number is NaN", "keep the argument non-negative: gt.sqrt(gt.maximum(x, 0.0))"),
    e.RSQRT: ("1/sqrt(x) is infinite at 0 and NaN below", "add a small positive number: gt.math.rsqrt(x + 1e-12)"),
    e.DIVIDE: (
        "division by zero (or an overflow)",
        "use gt.math.divide_no_nan(x, y), or keep the divisor away from zero: x / (y + 1e-12)",
    ),
    e.RECIPROCAL: ("division by zero", "keep the argument away from zero, or use gt.math.divide_no_nan(1.0, x)"),
    e.POW: POWERS,
    e.POWER: POWERS,
    e.EXP: (
        "exp overflows: in float32 above 88.7, in float64 above 709.7",
        "subtract the largest value first (gt.reduce_logsumexp and gt.nn.softmax do), or clip: gt.exp(gt.minimum(x, 80.0))",
    ),
    e.EXPM1: ("expm1 overflows: in float32 above 88.7", "clip the argument: gt.minimum(x, 80.0)"),
    **dict.fromkeys(
        (e.SINH, e.COSH, e.ADD, e.SUBTRACT, e.MULTIPLY, e.SQUARE, MATMUL, EINSUM, ADD_N, CUMSUM, PROD_LAST),
        OVERFLOW,
    ),
    **dict.fromkeys((REDUCE_SUM, REDUCE_MEAN, CONV), OVERFLOW),
    **dict.fromkeys(COMMUNICATIONS, FROM_OTHERS),
    e.ASIN: ("asin is defined between -1 and 1", "gt.math.asin(gt.clip_by_value(x, -1.0, 1.0))"),
    e.ACOS: ("acos is defined between -1 and 1", "gt.math.acos(gt.clip_by_value(x, -1.0, 1.0))"),
    e.ACOSH: ("acosh is defined from 1 on", "gt.math.acosh(gt.maximum(x, 1.0))"),
    e.ATANH: ("atanh is infinite at -1 and 1, and NaN outside", "gt.math.atanh(gt.clip_by_value(x, -1.0 + 1e-6, 1.0 - 1e-6))"),
    MOD: ("a remainder of a division by zero", "keep the divisor away from zero"),
    FLOORDIV: ("division by zero", "keep the divisor away from zero"),
    LGAMMA: ("lgamma is infinite at 0 and at negative integers", "keep the argument positive"),
    DIGAMMA: ("digamma is infinite at 0 and at negative integers", "keep the argument positive"),
    NDTRI: ("ndtri is infinite at 0 and 1", "keep the argument inside: gt.clip_by_value(x, 1e-7, 1.0 - 1e-7)"),
    ERFINV: ("erfinv is infinite at -1 and 1", "keep the argument inside: gt.clip_by_value(x, -1.0 + 1e-7, 1.0 - 1e-7)"),
    INV: ("the matrix is singular, or nearly so", "add a small multiple of the identity, or use gt.linalg.lstsq or pinv"),
    SOLVE: ("the matrix is singular, or nearly so", "add a small multiple of the identity, or use gt.linalg.lstsq"),
    SLOGDET: ("the determinant is zero: its logarithm is -inf", "add a small multiple of the identity"),
    e.CAST: ("the value is larger than the new dtype can hold", "scale the values down, or cast to a wider dtype"),
    **dict.fromkeys((CUSTOM, regions.CUSTOM), ("the function of a custom gradient gave it", "look into that function")),
    NUMPY_FUNCTION: ("the NumPy function gave it", "look into that function"),
    FUNCTION: ("some operation inside the compiled function", "gt.debugging.enable_check_numerics() stops at its line"),
}  # fmt: skip

# op → (why, cure), when the derivative of a finite function is not
BACKWARD: dict[Op, tuple[str, str]] = {
    e.SQRT: (
        "the derivative of sqrt, 1/(2*sqrt(x)), is infinite at 0",
        "keep the argument away from zero, gt.sqrt(x + 1e-12), or choose before the root: gt.sqrt(gt.where(x > 0, x, 1.0))",
    ),
    e.RSQRT: ("the derivative of rsqrt is infinite at 0", "add a small positive number: gt.math.rsqrt(x + 1e-12)"),
    e.POW: ROOT,
    e.POWER: ROOT,
    e.LOG: ("the derivative of log, 1/x, is infinite at 0", "keep the argument positive: gt.math.log(gt.maximum(x, 1e-7))"),
    XLOGY: ("the derivative of x*log(y) in x is log(y): -inf at 0", "keep y positive: gt.math.xlogy(x, gt.maximum(y, 1e-7))"),
    e.DIVIDE: ("the derivatives 1/y and -x/y**2 overflow for a small y", "keep the divisor away from zero: x / (y + 1e-6)"),
    e.ASIN: ("the derivative of asin is infinite at -1 and 1", "clip just inside: gt.clip_by_value(x, -1 + 1e-6, 1 - 1e-6)"),
    e.ACOS: ("the derivative of acos is infinite at -1 and 1", "clip just inside: gt.clip_by_value(x, -1 + 1e-6, 1 - 1e-6)"),
    e.ACOSH: ("the derivative of acosh is infinite at 1", "keep the argument above 1: gt.maximum(x, 1.0 + 1e-6)"),
    EIGH: ("equal eigenvalues have no derivatives of their eigenvectors", "perturb the matrix, or use the eigenvalues alone"),
    SVD: ("equal or zero singular values have no derivatives of their vectors", "perturb the matrix, or use values alone"),
    **dict.fromkeys(
        (CUSTOM, regions.CUSTOM), ("the gradient function of a custom gradient gave it", "look into that gradient function")
    ),
    FUNCTION: ("some derivative inside the compiled function", "run it as Python: gt.config.run_functions_eagerly(True)"),
}  # fmt: skip

ANY_FORWARD = ("the operation gave it for finite inputs: an overflow, or values outside its domain", OVERFLOW[1])
ANY_BACKWARD = (
    "the derivative is infinite or undefined at these values, or it overflows",
    "keep the inputs away from the point where the function is not smooth, or scale the loss down",
)


def reason(op: Op, phase: str) -> tuple[str, str]:
    """Why, and what to do."""
    if phase == "backward":
        return BACKWARD.get(op, ANY_BACKWARD)
    return FORWARD.get(op, ANY_FORWARD)
