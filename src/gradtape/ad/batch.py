"""The batching evaluator: a tensor with a hidden leading axis, and how operations run on it.

`BatchedTensor` looks like one example; underneath it holds a tensor with all of them. Each op is called once through its
batch rule. Batched operations are ordinary operations one level further out, so they can be recorded, batched again, or
run inside a backward pass: Jacobians are a reverse walk whose cotangents are batched.
"""

from __future__ import annotations

from typing import Any

from gradtape.core import batching
from gradtape.core.dispatch import apply
from gradtape.core.exits import asking_location
from gradtape.core.record import current_scope
from gradtape.core.sparse_deferral import NO_ARRAY, asked_by_sparse_matrix
from gradtape.core.tensor import Tensor
from gradtape.dtypes import DType, DTypeLike
from gradtape.errors import OpError
from gradtape.ir.types import TensorShape
from gradtape.ops.list_values import TensorList
from gradtape.ops.lists import LIST_ADD
from gradtape.ops.shape import broadcast_to


class NoSingleValue(OpError, TypeError):  # noqa: N818  (a TypeError for users)
    """The value of a batched tensor was asked for."""

    tensor: Any = None  # the one that was asked


class BatchedTensor(Tensor):
    """One tensor per example: `_data` is the tensor of all examples, axis 0 the batch."""

    __slots__ = ()
    wraps = True
    level: int

    @property
    def shape(self) -> TensorShape:
        return self._data.shape[1:]

    @property
    def dtype(self) -> DType:
        return self._data.dtype

    @property
    def ndim(self) -> int:
        return self._data.ndim - 1

    @property
    def size(self) -> int:
        return self.shape.num_elements() or 0

    def evaluate(self, op: Any, values: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """Run an op of which some inputs are batched at this level."""
        level = self.level
        flags = tuple(v.__class__ is BatchedTensor and v.level == level for v in values)
        inner = tuple(v._data if flag else v for v, flag in zip(values, flags, strict=True))
        rule = batching.rule_of(op)
        out = rule(op, flags, inner, attrs)
        if op.alike:
            return out
        return tuple(batched(o, level) for o in out) if isinstance(out, tuple) else batched(out, level)

    def __add__(self, other: Any) -> Any:
        """Of lists item by item: how the reverse walk adds their cotangents."""
        inner = self._data
        while inner.__class__ is BatchedTensor:
            inner = inner._data
        is_list = hasattr(inner, "spec") or isinstance(inner._data, TensorList)
        return apply(LIST_ADD, self, other) if is_list else super().__add__(other)

    def _no_value(self, *args: Any, **kwargs: Any) -> Any:
        error = NoSingleValue(
            f"{asking_location()}: a tensor inside vectorized_map stands for all examples at once (each {self.shape}), so it "
            "has no single value here: keep to tensor operations (gt.where for branches, gt.stack([a, b]) for np.array([a, "
            "b])), or use map_fn, which runs example by example"
        )
        error.tensor = self
        raise error

    numpy = item = tolist = __bool__ = __int__ = __float__ = __complex__ = __index__ = _no_value
    __dlpack__ = _no_value

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        return NO_ARRAY if asked_by_sparse_matrix() else self._no_value()

    def __copy__(self) -> BatchedTensor:
        twin = batched(self._data, self.level)
        twin._node = self._node
        return twin

    def __repr__(self) -> str:
        return f"<gt.Tensor of a batch: shape={self.shape}, dtype={self.dtype.name}>"

    __str__ = __repr__


def batched(value: Any, level: int) -> BatchedTensor:
    """Hide the leading axis of a tensor."""
    tensor = BatchedTensor()
    tensor._data = value
    tensor._node = None
    tensor.level = level
    return tensor


def next_level() -> int:
    """The level of a new batching evaluator: inside everything that is active now."""
    return current_scope().level + 1


def unbatched(value: Any, level: int, size: int) -> Any:
    """The tensor with all examples; a value that did not depend on the example is repeated."""
    if value.__class__ is BatchedTensor and value.level == level:
        return value._data
    return broadcast_to(value, (size, *tuple(value.shape)))
