"""What to say about an operation that gave something non-finite: why, and what to do. Tables, and nothing else.

Keys are names of ops. A text may use the names of `gt` functions a reader can paste.
"""

from __future__ import annotations

OVERFLOW = (
    "the result is larger than its dtype can hold",
    "scale the values down, subtract the largest one first (as gt.reduce_logsumexp does), or compute in float64",
)
POWER = (
    "a negative number to a fractional power is NaN, zero to a negative power is infinite, and large powers overflow",
    "keep the base positive: gt.maximum(x, 1e-12) ** p",
)
ROOT = ("the derivative of x**p is infinite at 0 for p < 1", "keep the base away from zero: gt.maximum(x, 1e-12) ** p")

# op → (why, cure), when a finite input gave a non-finite output
FORWARD: dict[str, tuple[str, str]] = {
    "log": (
        "log(0) is -inf, and the log of a negative number is NaN",
        "keep the argument positive, gt.math.log(gt.maximum(x, 1e-7)), or take gt.nn.log_softmax of the logits",
    ),
    "log1p": ("log1p(-1) is -inf, and below -1 it is NaN", "keep the argument above -1: gt.maximum(x, -1.0 + 1e-7)"),
    "sqrt": ("the square root of a negative number is NaN", "keep the argument non-negative: gt.sqrt(gt.maximum(x, 0.0))"),
    "rsqrt": ("1/sqrt(x) is infinite at 0 and NaN below", "add a small positive number: gt.math.rsqrt(x + 1e-12)"),
    "divide": (
        "division by zero (or an overflow)",
        "use gt.math.divide_no_nan(x, y), or keep the divisor away from zero: x / (y + 1e-12)",
    ),
    "reciprocal": ("division by zero", "keep the argument away from zero, or use gt.math.divide_no_nan(1.0, x)"),
    "pow": POWER,
    "power": POWER,
    "exp": (
        "exp overflows: in float32 above 88.7, in float64 above 709.7",
        "subtract the largest value first (gt.reduce_logsumexp and gt.nn.softmax do), or clip: gt.exp(gt.minimum(x, 80.0))",
    ),
    "expm1": ("expm1 overflows: in float32 above 88.7", "clip the argument: gt.minimum(x, 80.0)"),
    **dict.fromkeys(
        ("sinh", "cosh", "add", "subtract", "multiply", "square", "matmul", "einsum", "add_n", "cumsum", "prod_last"),
        OVERFLOW,
    ),
    **dict.fromkeys(("reduce_sum", "reduce_mean", "conv"), OVERFLOW),
    "asin": ("asin is defined between -1 and 1", "gt.math.asin(gt.clip_by_value(x, -1.0, 1.0))"),
    "acos": ("acos is defined between -1 and 1", "gt.math.acos(gt.clip_by_value(x, -1.0, 1.0))"),
    "acosh": ("acosh is defined from 1 on", "gt.math.acosh(gt.maximum(x, 1.0))"),
    "atanh": ("atanh is infinite at -1 and 1, and NaN outside", "gt.math.atanh(gt.clip_by_value(x, -1.0 + 1e-6, 1.0 - 1e-6))"),
    "mod": ("a remainder of a division by zero", "keep the divisor away from zero"),
    "floordiv": ("division by zero", "keep the divisor away from zero"),
    "lgamma": ("lgamma is infinite at 0 and at negative integers", "keep the argument positive"),
    "digamma": ("digamma is infinite at 0 and at negative integers", "keep the argument positive"),
    "ndtri": ("ndtri is infinite at 0 and 1", "keep the argument inside: gt.clip_by_value(x, 1e-7, 1.0 - 1e-7)"),
    "erfinv": ("erfinv is infinite at -1 and 1", "keep the argument inside: gt.clip_by_value(x, -1.0 + 1e-7, 1.0 - 1e-7)"),
    "inv": ("the matrix is singular, or nearly so", "add a small multiple of the identity, or use gt.linalg.lstsq or pinv"),
    "solve": ("the matrix is singular, or nearly so", "add a small multiple of the identity, or use gt.linalg.lstsq"),
    "slogdet": ("the determinant is zero: its logarithm is -inf", "add a small multiple of the identity"),
    "cast": ("the value is larger than the new dtype can hold", "scale the values down, or cast to a wider dtype"),
    "custom": ("the function of a custom gradient gave it", "look into that function"),
    "numpy_function": ("the NumPy function gave it", "look into that function"),
    "function": ("some operation inside the compiled function", "gt.debugging.enable_check_numerics() stops at its line"),
}  # fmt: skip

# op → (why, cure), when the derivative of a finite function is not
BACKWARD: dict[str, tuple[str, str]] = {
    "sqrt": (
        "the derivative of sqrt, 1/(2*sqrt(x)), is infinite at 0",
        "keep the argument away from zero, gt.sqrt(x + 1e-12), or choose before the root: gt.sqrt(gt.where(x > 0, x, 1.0))",
    ),
    "rsqrt": ("the derivative of rsqrt is infinite at 0", "add a small positive number: gt.math.rsqrt(x + 1e-12)"),
    "pow": ROOT,
    "power": ROOT,
    "log": ("the derivative of log, 1/x, is infinite at 0", "keep the argument positive: gt.math.log(gt.maximum(x, 1e-7))"),
    "xlogy": ("the derivative of x*log(y) in x is log(y): -inf at 0", "keep y positive: gt.math.xlogy(x, gt.maximum(y, 1e-7))"),
    "divide": ("the derivatives 1/y and -x/y**2 overflow for a small y", "keep the divisor away from zero: x / (y + 1e-6)"),
    "asin": ("the derivative of asin is infinite at -1 and 1", "clip just inside: gt.clip_by_value(x, -1 + 1e-6, 1 - 1e-6)"),
    "acos": ("the derivative of acos is infinite at -1 and 1", "clip just inside: gt.clip_by_value(x, -1 + 1e-6, 1 - 1e-6)"),
    "acosh": ("the derivative of acosh is infinite at 1", "keep the argument above 1: gt.maximum(x, 1.0 + 1e-6)"),
    "eigh": ("equal eigenvalues have no derivatives of their eigenvectors", "perturb the matrix, or use the eigenvalues alone"),
    "svd": ("equal or zero singular values have no derivatives of their vectors", "perturb the matrix, or use values alone"),
    "custom": ("the gradient function of a custom gradient gave it", "look into that gradient function"),
    "function": ("some derivative inside the compiled function", "run it as Python: gt.config.run_functions_eagerly(True)"),
}  # fmt: skip

ANY_FORWARD = ("the operation gave it for finite inputs: an overflow, or values outside its domain", OVERFLOW[1])
ANY_BACKWARD = (
    "the derivative is infinite or undefined at these values, or it overflows",
    "keep the inputs away from the point where the function is not smooth, or scale the loss down",
)


def reason(op: str, phase: str) -> tuple[str, str]:
    """Why, and what to do."""
    if phase == "backward":
        return BACKWARD.get(op, ANY_BACKWARD)
    return FORWARD.get(op, ANY_FORWARD)
