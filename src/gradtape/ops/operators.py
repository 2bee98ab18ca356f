"""Python's operators on tensors, bound to the ops; and on anything that reads as a tensor (variables)."""

from __future__ import annotations

from opcode import opmap
from sys import _getframe, getrefcount
from typing import Any

import numpy as np

from gradtape.core import inference
from gradtape.core.dispatch import apply, convert, plain, promote, twin
from gradtape.core.opdef import Rule
from gradtape.core.record import SCOPE, TRACING, UNSHARED, user_frame, warn_at
from gradtape.core.tensor import Operators, Tensor
from gradtape.core.typing import Index, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ops import compare, elementwise, index, select
from gradtape.ops.create import fits
from gradtape.ops.dynamic import is_dynamic, update_at
from gradtape.ops.index import gather
from gradtape.ops.matmul import matmul, multiplied
from gradtape.ops.segment import unsorted_segment_sum
from gradtape.ops.shape import reshape, transpose

# -- sparse matrices ---------------------------------------------------------------------------------------------------
# Products of SciPy's sparse matrices with tensors: `a @ x` and `x @ a`, differentiable in the tensor.
# The matrix is data: its numbers and places are read at the call, its zeros cost nothing. SciPy is not imported here; whoever
# has a sparse matrix has imported it. How SciPy leaves `a @ x` to the tensor is in `core/sparse_deferral.py`.


def is_sparse_matrix(value: object) -> bool:
    """Whether a value is one of SciPy's sparse matrices or arrays."""
    return type(value).__module__.startswith("scipy.sparse.") and hasattr(value, "tocoo")


def sparse_times_tensor(matrix: Any, x: TensorLike) -> Tensor:
    """matrix @ x, for vectors and matrices x."""
    places = matrix.tocoo()
    values, x = promote(places.data, convert(x))
    _check(matrix.ndim == 2 and x.ndim in (1, 2) and x.shape[0] == matrix.shape[1], matrix.shape, x.shape)
    columns = x[:, None] if x.ndim == 1 else x
    # Only what is there is multiplied; rows without any element come out as zeros.
    terms = values[:, None] * gather(columns, places.col)
    out = unsorted_segment_sum(terms, places.row, matrix.shape[0])
    return out[:, 0] if x.ndim == 1 else out


def tensor_times_sparse(x: TensorLike, matrix: Any) -> Tensor:
    """x @ matrix; axes of x before the last are rows."""
    x = convert(x)
    _check(matrix.ndim == 2 and x.ndim >= 1 and x.shape[-1] == matrix.shape[0], x.shape, matrix.shape)
    if x.ndim == 1:
        return sparse_times_tensor(matrix.T, x)
    # x·A = (Aᵀ·xᵀ)ᵀ
    rows = reshape(x, (-1, x.shape[-1]))
    out = transpose(sparse_times_tensor(matrix.T, transpose(rows)))
    return reshape(out, (*x.shape[:-1], matrix.shape[1]))


def _check(fits: bool, left: Any, right: Any) -> None:
    if not fits:
        raise InvalidArgumentError(f"@: a sparse matrix and a tensor do not fit: shapes {tuple(left)} and {tuple(right)}")


# -- operators ---------------------------------------------------------------------------------------------------------


def _power(x: Tensor, y: TensorLike) -> Tensor:
    if (y.__class__ is int or y.__class__ is float) and x.__class__ is Tensor and x._data.dtype.kind == "f":
        return apply(elementwise.POWER, x, exponent=y)
    return elementwise.pow(x, y)


def _logic_or_bits(logic: Rule, bits: Rule) -> Rule:
    def operate(x: TensorLike, y: TensorLike) -> Tensor:
        x, y = promote(x, y)  # a Python number takes the integer's dtype
        return logic(x, y) if x.dtype.is_bool and y.dtype.is_bool else bits(x, y)

    return operate


def _invert(x: TensorLike) -> Tensor:
    x = convert(x)
    return compare.logical_not(x) if x.dtype.is_bool else compare.invert(x)


def _divmod(x: TensorLike, y: TensorLike) -> tuple[Tensor, Tensor]:
    return select.floordiv(x, y), select.mod(x, y)


def _round(self: Tensor, ndigits: int | None = None) -> Tensor:
    if not ndigits:
        return select.round(self)
    scale = 10.0**ndigits
    return select.round(self * scale) / scale


def _equal(x: Tensor, y: TensorLike | None) -> Tensor | bool:
    return False if y is None or (isinstance(y, str) and x.dtype.kind != "O") else compare.equal(x, y)


def _not_equal(x: Tensor, y: TensorLike | None) -> Tensor | bool:
    return True if y is None or (isinstance(y, str) and x.dtype.kind != "O") else compare.not_equal(x, y)


def matmul_operator(x: TensorLike, y: TensorLike) -> Tensor:
    """Matrices as `gt.matmul`; vectors too, a row on the left and a column on the right, as in NumPy."""
    if x.__class__ is not Tensor or y.__class__ is not Tensor:
        if is_sparse_matrix(x):
            return sparse_times_tensor(x, y)
        if is_sparse_matrix(y):
            return tensor_times_sparse(x, y)
        x, y = plain(x), plain(y)
    if x.__class__ is Tensor and y.__class__ is Tensor:  # the common case, without further ado
        a, b = x._data, y._data
        if a.ndim > 1 and b.ndim > 1 and a.dtype is b.dtype:
            return multiplied(x, y)
    x, y = promote(x, y)
    if x.ndim >= 2 and y.ndim >= 2:
        return matmul(x, y)
    if x.ndim == 0 or y.ndim == 0:
        raise InvalidArgumentError(
            f"@: scalars are not matrices, got shapes {tuple(x.shape)} and {tuple(y.shape)}; use * for scaling"
        )
    inner = y.shape[0 if y.ndim == 1 else -2]
    if x.shape[-1] != inner and not fits(x.shape[-1:], (inner,)):  # said of the shapes that are the user's
        raise InvalidArgumentError(
            f"@: inner dimensions differ: shapes {tuple(x.shape)} and {tuple(y.shape)}, {x.shape[-1]} against {inner}"
        )
    out = matmul(x[None, :] if x.ndim == 1 else x, y[:, None] if y.ndim == 1 else y)
    if y.ndim == 1:
        out = out[..., 0]
    return (out[..., 0, :] if y.ndim > 1 else out[..., 0]) if x.ndim == 1 else out


def _setitem(self: Tensor, key: Index, value: TensorLike) -> None:
    """`t[key] = value`: this tensor object gets a new version; what was recorded before keeps the old one.

    The buffer is reused when nothing else holds it, so filling an array costs O(1) per step.
    """
    trace = TRACING.get()
    if trace is not None and trace.before_write is not None and trace.after_write is not None:
        trace.before_write(self)
        _update(self, key, value)
        trace.after_write(self)
    else:
        if getrefcount(self) == _NOBODY and (asks := _getframe(1)).f_code.co_code[asks.f_lasti] == _STORE:
            warn_lost()
        _update(self, key, value)


def warn_lost() -> None:
    """For `t[i][j] = v`, which would be lost without a word."""
    frame = user_frame(1)
    said = (
        "this assignment changes a copy that nobody keeps: an item or slice of a tensor is a copy, not a view as in NumPy; use "
        "one index, t[i, j] = v for t[i][j] = v, or write the row back: row = t[i]; row[j] = v; t[i] = row"
    )
    warn_at(frame, frame.f_lineno, said, UserWarning)


def _held_by_nobody() -> int:
    """How many references `__setitem__` sees to an object that nobody else has; 0 where that cannot be told apart."""

    class Probe:
        def __setitem__(self, key: int, count: list[int]) -> None:
            count.append(getrefcount(self))

    seen: list[int] = []
    held = Probe()
    Probe()[0] = held[0] = seen
    return seen[0] if seen[0] < seen[1] else 0


_NOBODY, _STORE = _held_by_nobody(), opmap["STORE_SUBSCR"]


def _update(self: Tensor, key: Any, value: TensorLike) -> None:
    places = is_dynamic(self, key)
    if not places:
        key = index.normal_key(key, tuple(self.shape))
    value = convert(value, hint=self.dtype)
    if value.dtype != self.dtype:
        if inference.category(inference.promote_dtypes(value.dtype, self.dtype)) > inference.category(self.dtype):
            have, wanted = value.dtype.name, self.dtype.name
            raise TypeError(
                f"t[...] = v: a value of dtype {have} does not fit a tensor of dtype {wanted}; use gt.cast(v, gt.{wanted}) "
                f"to drop what does not fit, or make t with dtype {have}"
            )
        value = elementwise.cast(value, self.dtype)
    if places:
        rebind(self, update_at(self, key, value))
        return
    if value.wraps or self.wraps:
        rebind(self, apply(index.UPDATE, self, value, key=key))
        return
    data = self._data
    # references: the local name and the tensor's slot
    if data.__class__ is np.ndarray and data.base is None and getrefcount(data) == UNSHARED + 1 and not _recorders_want_copy():
        index.check_update(data, value._data, key)
        watched = self._node is not None or value._node is not None
        data[key] = value._data
        if watched:
            rebind(self, apply(index.UPDATED, self, value, key=key))
        return
    del data
    rebind(self, apply(index.UPDATE, self, value, key=key))


def _recorders_want_copy() -> bool:
    """Forward accumulators and batching need the old version: no in-place update under them."""
    scope = SCOPE.get()
    return scope is not None and (scope.level > 0 or any(not r.key.holds or r.slow for r in scope.recorders))


def rebind(tensor: Tensor, version: Tensor) -> None:
    """Give a tensor object a new version; a plain tensor updated with a batched value becomes batched."""
    if version.wraps:
        tensor.__class__ = version.__class__
        tensor.level = version.level  # type: ignore[attr-defined]
    tensor._data = version._data
    tensor._node = version._node


def _reflected(operate: Rule) -> Rule:
    def reflected(self: Tensor, other: TensorLike) -> Tensor:
        return operate(other, self)

    return reflected


_BINARY: dict[str, Rule] = {
    "add": elementwise.add,
    "sub": elementwise.subtract,
    "mul": elementwise.multiply,
    "truediv": elementwise.divide,
    "floordiv": select.floordiv,
    "mod": select.mod,
    "divmod": _divmod,
    "pow": _power,
    "matmul": matmul_operator,
    "and": _logic_or_bits(compare.logical_and, compare.bitwise_and),
    "or": _logic_or_bits(compare.logical_or, compare.bitwise_or),
    "xor": _logic_or_bits(compare.logical_xor, compare.bitwise_xor),
    "lshift": compare.left_shift,
    "rshift": compare.right_shift,
}
_OTHERS: dict[str, Any] = {
    "__lt__": compare.less,
    "__le__": compare.less_equal,
    "__gt__": compare.greater,
    "__ge__": compare.greater_equal,
    "__eq__": _equal,
    "__ne__": _not_equal,
    "__neg__": elementwise.negative,
    "__pos__": lambda self: twin(convert(self)),
    "__abs__": elementwise.abs,
    "__round__": _round,
    "__invert__": _invert,
}
_ITEMS: dict[str, Any] = {"__getitem__": index.getitem, "__setitem__": _setitem}


for _name, _operate in _BINARY.items():
    setattr(Operators, f"__{_name}__", _operate)
    setattr(Operators, f"__r{_name}__", _reflected(_operate))
for _name, _operate in _OTHERS.items():
    setattr(Operators, _name, _operate)
for _name, _operate in _ITEMS.items():
    setattr(Tensor, _name, _operate)
