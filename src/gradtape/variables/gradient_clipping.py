"""Norms and clipping for lists of gradients, which may hold IndexedSlices: those stay sparse.

The norm of an IndexedSlices is that of the dense tensor it stands for: rows that occur twice are added before they are
squared. (TensorFlow takes the norm of `values` and so miscounts repeated rows.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.core.typing import Axes, TensorLike
from gradtape.ops import clipping
from gradtape.ops.segment import unsorted_segment_sum
from gradtape.ops.sorting import unique
from gradtape.variables.indexed_slices import IndexedSlices


def distinct_rows(slices: IndexedSlices) -> Any:
    """The rows of an IndexedSlices, each index once."""
    # A row that stands twice counts by the sum of its parts, not by each of them.
    if np.unique(slices.indices.numpy()).size == slices.indices.size:
        return slices.values
    rows, places = unique(slices.indices)
    return unsorted_segment_sum(slices.values, places, rows.size)


def clip_by_norm(t: TensorLike | IndexedSlices, clip_norm: TensorLike, axes: Axes = None, name: str | None = None) -> Any:
    """`t` scaled down, if need be, so that its length over `axes` (all by default) is at most `clip_norm`.

    >>> gt.clip_by_norm([3.0, 4.0], 1.0).numpy()
    array([0.6, 0.8], dtype=float32)
    """
    if not isinstance(t, IndexedSlices) or axes is not None:
        return clipping.clip_by_norm(t, clip_norm, axes)
    (clipped,), _ = clip_by_global_norm([t], clip_norm)
    return clipped


def global_norm(t_list: Sequence[TensorLike | IndexedSlices | None], name: str | None = None) -> Any:
    """The length of all tensors of a list together: √Σ|t|²; None entries are skipped.

    >>> gt.global_norm([[3.0], [[4.0]]]).numpy()
    np.float32(5.0)
    """
    listed = clipping.tensors_of(t_list, "global_norm")
    return clipping.global_norm([distinct_rows(t) if isinstance(t, IndexedSlices) else t for t in listed])


def clip_by_global_norm(
    t_list: Sequence[TensorLike | IndexedSlices | None], clip_norm: TensorLike, use_norm: TensorLike | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """(the tensors scaled so that their length together is at most `clip_norm`, that length before).

    An infinite or NaN length makes all results NaN, so that a broken step is not taken for a good one.

    >>> clipped, norm = gt.clip_by_global_norm([[3.0], [4.0]], 1.0)
    >>> [round(float(c[0]), 3) for c in clipped], norm.numpy()
    ([0.6, 0.8], np.float32(5.0))
    """
    listed = clipping.tensors_of(t_list, "clip_by_global_norm")
    norm = global_norm(listed) if use_norm is None else use_norm
    dense = [t.values if isinstance(t, IndexedSlices) else t for t in listed]
    clipped, norm = clipping.clip_by_global_norm(dense, clip_norm, norm)
    return [
        IndexedSlices(c, t.indices, t.dense_shape) if isinstance(t, IndexedSlices) else c
        for c, t in zip(clipped, listed, strict=True)
    ], norm
