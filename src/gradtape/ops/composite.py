"""Arithmetic with a convention at zero (divide_no_nan, xlogy, …) and small public functions made of other ops.

Primitives are only what a composite would compute badly: the products and quotients that are 0 by definition, log of a
sigmoid, a sum of many tensors. Norms and clipping are in `clipping.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype, float32, float64
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorShape
from gradtape.ops import batching, inference
from gradtape.ops.create import static_shape
from gradtape.ops.dispatch import apply, binary, convert, promote, unary
from gradtape.ops.opdef import Sample, composite, elementwise, general, linear, nondiff
from gradtape.ops.sampling import away, integers, normal, positive, spread
from gradtape.ops.tensor import Tensor, TensorLike

# -- products and quotients that are 0 by definition -----------------------------------------------------------------


def _pairs() -> list[Sample]:
    return [
        Sample(away(3, 2), positive(3, 2)),
        Sample(away(2, 1), positive(3)),
        Sample(away(), positive()),
        Sample(away(0), positive(0)),
        Sample(np.array([0.0, 1.0]), np.array([0.0, 0.7]), kinks=True),
        Sample(away(2), positive(3), raises=(ValueError, "broadcast")),
    ]


def _where_nonzero(switch: Any, value: Any) -> Any:
    return np.where(switch == 0, value.dtype.type(0), value)[()]


def _divide_no_nan_impl(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return _where_nonzero(y, np.true_divide(x, y))


def _multiply_no_nan_impl(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return _where_nonzero(y, np.multiply(x, y))


def _xlogy_impl(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return _where_nonzero(x, x * np.log(y))


def _xlog1py_impl(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return _where_nonzero(x, x * np.log1p(y))


def _xdivy_impl(x: Any, y: Any) -> Any:
    with np.errstate(all="ignore"):
        return _where_nonzero(x, np.true_divide(x, y))


def one_where_both_zero(x: Any, y: Any) -> Any:
    """y, and 1 on the lanes where x and y are both zero: there the derivative is 0 by convention."""
    return where(logical_and(equal(x, 0.0), equal(y, 0.0)), ones_like(y), y)


DIVIDE_NO_NAN = elementwise(
    "divide_no_nan", "x y", _divide_no_nan_impl,
    lambda y: divide_no_nan(ones_like(y), y), lambda y, out: -divide_no_nan(out, y),
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip
MULTIPLY_NO_NAN = elementwise(
    "multiply_no_nan", "x y", _multiply_no_nan_impl, lambda y: y, lambda x: x,
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip
# ∂(x log y)/∂x = log y, ∂/∂y = x/y; at x = y = 0 both are 0
XLOGY = elementwise(
    "xlogy", "x y", _xlogy_impl, lambda x, y: log(one_where_both_zero(x, y)), lambda x, y: xdivy(x, y),
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip
XLOG1PY = elementwise(
    "xlog1py", "x y", _xlog1py_impl,
    lambda x, y: log(one_where_both_zero(x, y + 1.0)) * cast(equal(y, -1.0), x.dtype) + log1p_below(y),
    lambda x, y: xdivy(x, y + 1.0),
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip
XDIVY = elementwise(
    "xdivy", "x y", _xdivy_impl, lambda x, y: 1.0 / one_where_both_zero(x, y), lambda y, out: -xdivy(out, y),
    floating=True, infer=inference.elementwise_float, samples=_pairs,
)  # fmt: skip


divide_no_nan, multiply_no_nan = binary(DIVIDE_NO_NAN), binary(MULTIPLY_NO_NAN)
xlogy, xlog1py, xdivy = binary(XLOGY), binary(XLOG1PY), binary(XDIVY)
