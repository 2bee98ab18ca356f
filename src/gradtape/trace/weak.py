"""Python numbers that became tensors in staged control flow: they give way to the dtype of the tensors they meet.

Integers are kept in 64 bits and floats in float64, so nothing is lost before a tensor decides the dtype.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape.core.dispatch import apply, promote
from gradtape.core.hooks import HOOKS
from gradtape.core.inference import promote_dtypes
from gradtape.core.opdef import Op
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import DTypeLike
from gradtape.dtypes import DType, as_dtype, complex64, int64
from gradtape.errors import OperatorNotAllowedInGraphError
from gradtape.ir.graph import Value
from gradtape.ops.compare import LEFT_SHIFT
from gradtape.ops.elementwise import ADD, CAST, MULTIPLY, POW, POWER, SUBTRACT
from gradtape.ops.shape import stack
from gradtape.ops.staged import EXACT, NARROW
from gradtape.trace.effects import refuse_in_trial
from gradtape.trace.tracing import LEVEL, TracedTensor, current_trace, traced
from gradtape.tree import flatten

_KINDS = "biufc"
GROWING = (ADD, SUBTRACT, MULTIPLY, POW, LEFT_SHIFT)  # whose results may have more than 64 bits
_DEFAULTS = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex128}  # dtypes of Python numbers as tensors


class WeakTensor(TracedTensor):
    """A Python number of the program."""

    __slots__ = ()
    weak = True

    def __copy__(self) -> WeakTensor:
        twin = weak(self._data)
        twin._node = self._node
        return twin

    def recast(self, dtype: DType) -> WeakTensor:
        """In another dtype, weak still."""
        return weak(current_trace().emit(CAST, (self,), {"dtype": dtype})._data)

    def strong(self) -> TracedTensor:
        """An ordinary tensor of this dtype."""
        twin = traced(self._data)
        twin._node = self._node
        return twin

    def like(self, value: Value) -> WeakTensor:
        return weak(value)

    def evaluate(self, op: Op, values: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        if op is CAST and self._may_not_fit(attrs["dtype"]):
            return super().evaluate(NARROW, values, attrs).strong()
        if op is POWER and self.dtype is int64 and attrs["exponent"] >= 2:
            op, values = (MULTIPLY, (self, self)) if attrs["exponent"] == 2 else (POW, (self, weak_number(attrs["exponent"])))
            attrs = {}
        if op in GROWING and _may_grow(op, values):
            op, attrs = EXACT, {"form": op.name}
        return super().evaluate(op, values, attrs)

    def giving_way(self, dtype: DType, demanded: bool = False) -> Any:
        """As a tensor of the dtype it meets, unless its own kind is richer and nobody demands the other."""
        wanted = dtype if demanded else met(self.dtype, dtype)
        return self.strong() if wanted is self.dtype else apply(CAST, self, dtype=wanted)

    def _may_not_fit(self, dtype: DType) -> bool:
        """Whether the program has to check that a number fits what it gives way to, as eager code asks of Python's own."""
        have, wanted = self.dtype.dtype, dtype.dtype
        if have.kind in "fc" and wanted.kind in "iu":
            kind = self.python_type.__name__
            raise TypeError(f"cannot convert a Python {kind} to dtype {dtype.name} without losing its fraction")
        if wanted.kind not in "iu" or have.kind == "b":
            return False
        own, limits = np.iinfo(have), np.iinfo(wanted)
        return own.min < limits.min or own.max > limits.max

    @property
    def python_type(self) -> type:
        """What Python calls such a number."""
        return {"b": bool, "i": int, "u": int, "f": float}.get(self.dtype.dtype.kind, complex)

    # of a number that Python knows, all of these would be something else

    def __array_ufunc__(self, *args: Any, **kwargs: Any) -> Any:
        refuse_in_trial("a NumPy function is given a number of the loop")
        return super().__array_ufunc__(*args, **kwargs)  # type: ignore[misc]

    def __array_function__(self, *args: Any, **kwargs: Any) -> Any:
        refuse_in_trial("a NumPy function is given a number of the loop")
        return super().__array_function__(*args, **kwargs)  # type: ignore[misc]

    def __hash__(self) -> int:
        refuse_in_trial("a number of the loop is a key or a member of a set")
        raise OperatorNotAllowedInGraphError(
            "a number that is known only when the function runs is a key or a member of a set: which others it equals is not "
            "known here. Use a list, or a tensor and gt.unique"
        )

    def __repr__(self) -> str:
        refuse_in_trial("a number of the loop becomes a text")
        return super().__repr__()

    def __str__(self) -> str:
        return self.__repr__()

    def __format__(self, spec: str) -> str:
        refuse_in_trial("a number of the loop becomes a text")
        return super().__format__(spec)


def _may_grow(op: Op, values: tuple[Any, ...]) -> bool:
    """Whether a result of Python's integers may have more than 64 bits. A sum that grows by a number below 2³¹ would take
    2³² turns to do so."""
    if not all(isinstance(v, WeakTensor) and v.dtype is int64 for v in values):
        return False
    from gradtape.ops.traced_numbers import bounds_of  # of programs only: `import gradtape` need not load it

    # the counter of a loop of known length times a stride, and its like: indices are to stay sums and products, which later
    # passes know how to read
    (a, b), (c, d) = (bounds_of(v._data) for v in values)
    if op in (ADD, SUBTRACT):
        steps = [max(abs(low), abs(high)) for low, high in ((a, b), (c, d))]
        return min(steps) >= 2**31 and sum(steps) >= 2**63
    return op is not MULTIPLY or max(abs(a), abs(b)) * max(abs(c), abs(d)) >= 2**63


def weak(value: Value) -> WeakTensor:
    """The number that stands for a value of the program."""
    tensor = WeakTensor()
    tensor._data = value
    tensor._node = None
    tensor.level = LEVEL
    return tensor


def weak_number(number: complex) -> WeakTensor:
    """A Python number as a constant of the program."""
    if not isinstance(number, (int, float, complex)):  # a fraction, or a number of the user's
        refuse_in_trial(f"a {type(number).__name__} meets a number of the loop")
        number = float(number)
    kind = np.bool_ if isinstance(number, bool) else np.int64 if isinstance(number, int) else None
    return weak(current_trace().constant(np.asarray(number, kind))._data)


def promote_weak(tensors: list[Any]) -> tuple[Any, ...]:
    """All values as tensors of one dtype: numbers give way, unless theirs is a richer kind."""
    numbers = [t for t in tensors if isinstance(t, WeakTensor)]
    strong = [t for t in tensors if not isinstance(t, WeakTensor) and isinstance(t, (Tensor, ndarray, np.generic))]
    if not strong:
        return _all_weak(tensors)
    wanted = functools.reduce(lambda dtype, t: met(t.dtype, dtype), numbers, promote(*strong)[0].dtype)
    given = [t.giving_way(wanted) if isinstance(t, WeakTensor) else t for t in tensors]
    return promote(*[box(t._data, t._node) if t.__class__ is Tensor else t for t in given])


def met(number: DType, strong: DType) -> DType:
    """The dtype of a Python number where it meets a tensor: the tensor's, unless its own kind is richer."""
    # NumPy's kinds, poorest first; i and u are one kind for this, and what NumPy does not know (bfloat16) is a float
    kind, other = (_KINDS.find(d.dtype.kind) if d.dtype.kind in _KINDS else 3 for d in (number, strong))
    if kind <= other or (kind in (1, 2) and other in (1, 2)):
        return strong
    if kind == 4 and strong.is_floating:
        return promote_dtypes(strong, complex64)
    return as_dtype((np.bool_, np.int32, np.int32, np.float32, np.complex128)[kind])


def _all_weak(tensors: list[Any]) -> tuple[Any, ...]:
    # a float beside an integer makes a float, an integer beside a truth value an integer, as Python has it
    numbers = [t if isinstance(t, WeakTensor) else weak_number(t) for t in tensors]
    richest = functools.reduce(promote_dtypes, [t.dtype for t in numbers])
    return tuple(t if t.dtype is richest else t.recast(richest) for t in numbers)


def default_number(value: WeakTensor) -> Any:
    """A staged Python number that leaves the program has the dtype TensorFlow gives such numbers."""
    wanted = as_dtype(_DEFAULTS[value.python_type])
    return value.strong() if wanted is value.dtype else apply(CAST, value, dtype=wanted)


def packed(values: Any, dtype: DTypeLike | None, hint: DTypeLike | None) -> Any:
    """A list of Python numbers, some of them the program's, as a tensor: it gives way as a whole, as such lists do in eager
    code. None if a tensor is among them, which decides."""
    if not all(isinstance(item, WeakTensor) or item.__class__ in _DEFAULTS for item in flatten(values)):
        return None
    numbers, wanted = _stacked(values), hint if dtype is None else dtype
    return default_number(numbers) if wanted is None else numbers.giving_way(as_dtype(wanted), dtype is not None)


def _stacked(value: Any) -> WeakTensor:
    if value.__class__ in (list, tuple):
        return weak(stack([_stacked(item) for item in value])._data)  # (truth values come back as a tensor)
    return value if isinstance(value, WeakTensor) else weak_number(value)


HOOKS.weak[WeakTensor], HOOKS.numbers = promote_weak, packed


# -- truth values in arithmetic ---------------------------------------------------------------------------------------


def _counting(operate: Callable[..., Any]) -> Callable[..., Any]:
    """An operator on numbers of the program: to Python, True is 1 in it, where a tensor's truth values are no numbers."""

    def counted(*operands: Any) -> Any:
        if all(isinstance(operand, (WeakTensor, bool, int, float, complex)) for operand in operands):
            operands = tuple(o.recast(int64) if isinstance(o, WeakTensor) and o.dtype.is_bool else o for o in operands)
        return operate(*operands)

    return counted


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift"):
    for _operator in (f"__{_name}__", f"__r{_name}__"):
        setattr(WeakTensor, _operator, _counting(getattr(WeakTensor, _operator)))
for _operator in ("__neg__", "__pos__", "__abs__", "__round__", "__invert__"):
    setattr(WeakTensor, _operator, _counting(getattr(WeakTensor, _operator)))
