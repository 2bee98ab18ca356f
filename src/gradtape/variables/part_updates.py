"""Updates of a part of a variable: `v[i] = x`, `v[i].assign(x)`, `v.scatter_add(rows)`, `v.scatter_nd_add(places, values)`.

Each is an assignment of the whole: the current version with a part replaced, an operation that is recorded as any other, so
gradients flow to the part and to the rest. Reading and writing happen under the variable's lock, or an update of another
thread between the two would get lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, TypeVar

from gradtape.core.dispatch import apply, convert
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Index, TensorLike
from gradtape.dtypes import DType
from gradtape.ir.types import TensorShape
from gradtape.ops import index as indexing
from gradtape.ops.dynamic import is_dynamic, update_at
from gradtape.ops.elementwise import cast
from gradtape.variables.indexed_slices import IndexedSlices
from gradtape.variables.locking import acquired

Update = TypeVar("Update", bound=Callable[..., Any])


def _locked(update: Update) -> Update:
    """A method that updates a variable, while no other thread does."""

    @functools.wraps(update)
    def method(self: PartUpdates, *args: Any) -> Any:
        held = acquired(self._lock)
        try:
            return update(self, *args)
        finally:
            if held:
                self._lock.release()

    return method  # type: ignore[return-value]


class PartUpdates(Readable):
    """What a variable does with a part of itself."""

    __slots__ = ()
    if TYPE_CHECKING:  # what the methods use of the variable
        _lock: RLock

        @property
        def shape(self) -> TensorShape: ...
        @property
        def dtype(self) -> DType: ...
        def assign(self, value: TensorLike) -> Self: ...

    def __setitem__(self, key: Index, value: TensorLike) -> None:
        self._replace(key, value)

    @_locked
    def _step_part(self, key: Index, operate: Callable[[Tensor], Tensor]) -> Self:
        return self._replace(key, operate(self.read()[key]))

    @_locked
    def _replace(self, key: Index, value: TensorLike) -> Self:
        current = self.read()
        tensor = convert(value, hint=self.dtype)
        if tensor.dtype != self.dtype:
            tensor = cast(tensor, self.dtype)
        if is_dynamic(current, key):
            return self.assign(update_at(current, key, tensor))
        normal = indexing.normal_key(key, tuple(self.shape))
        return self.assign(apply(indexing.UPDATE, current, tensor, key=normal))

    # -- scattered updates ---------------------------------------------------------------------------------------

    def scatter_add(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Self:
        return self._scatter(sparse_delta, "add")

    def scatter_sub(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Self:
        return self._scatter(sparse_delta, "sub")

    def scatter_mul(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Self:
        return self._scatter(sparse_delta, "mul")

    def scatter_div(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Self:
        return self._scatter(sparse_delta, "div")

    def scatter_max(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Self:
        return self._scatter(sparse_delta, "max")

    def scatter_min(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Self:
        return self._scatter(sparse_delta, "min")

    def scatter_update(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Self:
        return self._scatter(sparse_delta, "update")

    @_locked
    def _scatter(self, sparse_delta: IndexedSlices, mode: str) -> Self:
        from gradtape.ops.scatter import scatter_rows

        return self.assign(scatter_rows(self.read(), sparse_delta.indices, sparse_delta.values, mode))

    def scatter_nd_add(self, indices: TensorLike, updates: TensorLike, name: str | None = None) -> Self:
        return self._scatter_nd(indices, updates, "add")

    def scatter_nd_sub(self, indices: TensorLike, updates: TensorLike, name: str | None = None) -> Self:
        return self._scatter_nd(indices, updates, "sub")

    def scatter_nd_update(self, indices: TensorLike, updates: TensorLike, name: str | None = None) -> Self:
        return self._scatter_nd(indices, updates, "update")

    def scatter_nd_max(self, indices: TensorLike, updates: TensorLike, name: str | None = None) -> Self:
        return self._scatter_nd(indices, updates, "max")

    def scatter_nd_min(self, indices: TensorLike, updates: TensorLike, name: str | None = None) -> Self:
        return self._scatter_nd(indices, updates, "min")

    @_locked
    def _scatter_nd(self, indices: TensorLike, updates: TensorLike, mode: str) -> Self:
        from gradtape.ops.scatter import scatter_nd_into

        return self.assign(scatter_nd_into(self.read(), indices, updates, mode))
