"""`IndexedSlices`: a gradient that touches few rows of a large table."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ad.sweep import SparseRows
from gradtape.core.arguments import integral, numeric
from gradtape.core.dispatch import apply, convert
from gradtape.core.record import Record
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.core.typing import DTypeLike, Index, Shape, TensorLike
from gradtape.dtypes import DType, bfloat16
from gradtape.ir.types import TensorShape
from gradtape.ops.index import TAKE_ADD
from gradtape.ops.staged import CONSTANT
from gradtape.trace.tracing import TracedTensor


class IndexedSlices(Readable):
    """Rows `values[k]` that belong to rows `indices[k]` of a table of `dense_shape`; repeated rows add up.

    The gradient of `gather` and `embedding_lookup`. It takes part in arithmetic and NumPy calls as the dense tensor
    it stands for; optimizers apply it row by row.

    >>> table = gt.Variable(gt.ones((4, 2)))
    >>> with gt.GradientTape() as tape:
    ...     y = gt.reduce_sum(gt.gather(table, [1, 3, 1]))
    >>> g = tape.gradient(y, table)
    >>> g.indices.numpy(), gt.convert_to_tensor(g).numpy()[:, 0]
    (array([1, 3, 1], dtype=int32), array([0., 2., 0., 1.], dtype=float32))
    """

    __slots__ = ("_dense_shape", "_indices", "_values")

    def __init__(self, values: TensorLike, indices: TensorLike, dense_shape: Shape | None = None) -> None:
        self._values = numeric(values, "values", "IndexedSlices")
        self._indices = integral(indices, "indices", "IndexedSlices")
        self._dense_shape = None if dense_shape is None else TensorShape(_sizes(dense_shape))

    @property
    def values(self) -> Tensor:
        return self._values

    @property
    def indices(self) -> Tensor:
        return self._indices

    @property
    def dense_shape(self) -> TensorShape | None:
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        if self._dense_shape is None:
            return TensorShape((None, *self._values.shape[1:]))
        return self._dense_shape

    @property
    def dtype(self) -> DType:
        return self._values.dtype

    @property
    def ndim(self) -> int:
        return self._values.ndim

    def to_dense(self) -> Tensor:
        """The full tensor, repeated rows added."""
        if self._dense_shape is None:
            raise ValueError("IndexedSlices without dense_shape cannot become a dense tensor")
        return apply(TAKE_ADD, self._values, self._indices, axis=0, shape=tuple(self._dense_shape))

    def read(self) -> Tensor:
        return self.to_dense()

    def numpy(self) -> Any:
        """The dense values."""
        return self.to_dense().numpy()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        return self.to_dense().__array__(dtype, copy)

    def __getitem__(self, key: Index) -> Tensor:
        return self.to_dense()[key]

    def __neg__(self) -> Any:
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __mul__(self, factor: TensorLike) -> Any:
        """Scaling keeps it sparse when the factor is one number; anything else works on the dense tensor."""
        if _is_number(factor):
            return IndexedSlices(self._values * factor, self._indices, self._dense_shape)
        return self.to_dense() * factor

    __rmul__ = __mul__

    def __truediv__(self, factor: TensorLike) -> Any:
        if _is_number(factor):
            return IndexedSlices(self._values / factor, self._indices, self._dense_shape)
        return self.to_dense() / factor

    def __repr__(self) -> str:
        return f"IndexedSlices(values={self._values}, indices={self._indices}, dense_shape={self._dense_shape})"


def static_value(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """The value of a tensor that is known now: concrete, or a constant of the program being traced."""
    if isinstance(tensor, TracedTensor):
        producer = tensor._data.producer
        return np.asarray(producer.attrs["value"]) if producer is not None and producer.op is CONSTANT else None
    return None if tensor.wraps else np.asarray(tensor._data)


def _sizes(dense_shape: Shape) -> Any:
    """A shape that may be written as a tensor of numbers that are known."""
    if not isinstance(dense_shape, (Tensor, Readable)):
        if isinstance(dense_shape, str):
            raise TypeError(f"IndexedSlices: dense_shape must be a list of integers, got {dense_shape!r}")
        return dense_shape
    known = static_value(convert(dense_shape))
    if known is None:
        raise ValueError("IndexedSlices: dense_shape must be known while the function is traced; give it as a list of integers")
    return tuple(known.tolist())


def _is_number(factor: TensorLike) -> bool:
    return isinstance(factor, (int, float)) or (isinstance(factor, (Tensor, Readable)) and convert(factor).ndim == 0)


def total_of(cotangents: dict[Record, Any], versions: list[Record], boxed: bool) -> Any:
    """The sum of the cotangents of the versions that were reached, as the user sees it; None if none was."""
    if len(versions) == 1 and not boxed:
        single = cotangents.get(versions[0])
        # One version, a dense cotangent, nobody records: what nearly every gradient of a training step is.
        if (single.__class__ is np.ndarray and single.ndim) or isinstance(single, np.generic):
            return box(single)
    parts = [cotangents[node] for node in dict.fromkeys(versions) if node in cotangents]
    if not parts:
        return None
    if any(p.__class__ is SparseRows for p in parts):
        # Rows stay rows as long as nothing dense is added to them.
        if all(p.__class__ is SparseRows for p in parts):
            joined = SparseRows([v for p in parts for v in p.values], [i for p in parts for i in p.indices], parts[0].shape)
            values, indices = joined.joined()
            return IndexedSlices(box(values), box(indices), dense_shape=joined.shape)
        parts = [p.dense() if p.__class__ is SparseRows else p for p in parts]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    if boxed:
        return total
    if total.__class__ is np.ndarray and not total.ndim:
        total = total[()]
    return box(total)


def like_source(answer: Tensor | IndexedSlices | None, source: Tensor | Readable) -> Any:
    """The gradient in the dtype of its source: on bare arrays NumPy makes float32 or float64 of bfloat16 numbers."""
    if answer.__class__ is Tensor and answer._data.dtype.char in "fd" and source.dtype is bfloat16:
        return box(answer._data.astype(bfloat16.dtype))
    return answer
