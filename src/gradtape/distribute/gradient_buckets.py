"""Sums of derivatives over ranks that begin while the backward pass of eager code still computes others.

Sources stand in buckets in the order in which the walk completes their cotangents: small ones together, a large one alone,
whose array is summed where it is: a copy, to memory that is new, costs more than another message. A bucket is posted when all
in it are known and the ones before it are posted; nobody waits until the walk is over. What a compiled program does is
`passes/overlap.py`, and how the ranks come to sum at all, `rank_gradients.py`.

Invariant: all ranks post the same buckets in the same order, whatever each does in between. They compare `digest` before the
walk, which has how many were ever posted: after an error in the middle of a walk ranks may differ in that, and then they sum
behind the walk, one operation after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np

from gradtape.ad.sweep import SparseRows
from gradtape.core.hooks import HOOKS
from gradtape.core.record import REPLICATED, Record
from gradtape.core.tensor import Tensor, box

FULL = 1 << 19  # bytes of a bucket
_ALONE = 1 << 16  # bytes of a derivative that travels alone, without a copy
_SUMMED = "fdFD"  # what MPI adds up as it is


class _Bucket:
    """Some sources of one dtype, behind one another in one array."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self.places: dict[int, slice] = {}  # source → its part
        self.size = 0  # elements
        self.missing = 0  # versions of its sources that are not settled
        self.array: Any = None
        self.total: Any = None  # a posted sum

    def add(self, source: int, size: int) -> None:
        self.places[source] = slice(self.size, self.size + size)
        self.size += size

    def fill(self, source: int, part: Any) -> None:
        """The cotangent of a version of a source; a source that is alone lends its array."""
        data = part.dense() if part.__class__ is SparseRows else np.asarray(part)
        if self.array is None and len(self.places) == 1:
            self.array = np.ascontiguousarray(data, self.dtype).reshape(-1)
            return
        if self.array is None or not self.array.flags.owndata:
            self.array = np.zeros(self.size, self.dtype) if self.array is None else self.array.copy()
        self.array[self.places[source]] += data.reshape(-1)

    def post(self) -> None:
        self.total = HOOKS.world.sum_posted(np.zeros(self.size, self.dtype) if self.array is None else self.array)


class GradientBuckets:
    """The sums of one walk."""

    def __init__(self, records: Sequence[Record], versions: dict[int, list[Record]], flat: Sequence[Any]) -> None:
        """`versions` are those of each source that takes part: no target is among them, so that nothing arrives at them but by
        the walk."""
        self._flat = flat
        self._sources: dict[Record, list[int]] = {}
        for i, own in versions.items():
            for node in dict.fromkeys(own):
                self._sources.setdefault(node, []).append(i)
        self._homes: dict[int, _Bucket] = {}
        self._posted = 0
        self._settled: set[Record] = set()
        self._again = False
        open_ones: dict[Any, _Bucket] = {}
        for i in _by_last_use(records, versions, self._sources):
            dtype, size = flat[i].dtype.dtype, int(np.prod(flat[i].shape, dtype=np.int64))
            alone = size * dtype.itemsize >= _ALONE
            bucket = None if alone else open_ones.get(dtype)
            if bucket is None or (bucket.size + size) * dtype.itemsize > FULL:
                bucket = _Bucket(dtype)
            if not alone:
                open_ones[dtype] = bucket
            bucket.add(i, size)
            bucket.missing += len(set(versions[i]))
            self._homes[i] = bucket
        # by the last source in each: one that waits for a small derivative does not hold up large ones
        self._buckets: list[_Bucket] = list(dict.fromkeys(reversed(self._homes.values())))[::-1]

    @property
    def digest(self) -> int:
        """What ranks must have alike; 0 where there is nothing to sum."""
        text = [(bucket.places, bucket.dtype.str) for bucket in self._buckets]
        return 1 + crc32(f"{HOOKS.world.sums_posted} {text}".encode()) if text else 0

    def settled(self, node: Record, cotangent: Any) -> None:
        """Told by the walk."""
        if node in self._settled:  # it has begun anew, with masked lanes: what was posted is not the answer
            self._again = True
        if self._again or node not in self._sources:
            return
        self._settled.add(node)
        for i in self._sources[node]:
            bucket = self._homes[i]
            bucket.missing -= 1
            if cotangent is not None:
                bucket.fill(i, cotangent)
        while self._posted < len(self._buckets) and not self._buckets[self._posted].missing:
            self._post_next()

    def _post_next(self) -> None:
        self._buckets[self._posted].post()
        self._posted += 1

    def finish(self) -> bool:
        """The walk is over: post what is left. Whether what was posted is what the walk gave."""
        while self._posted < len(self._buckets):
            self._post_next()
        return not self._again

    def totals(self) -> dict[int, Tensor]:
        """The sums by source; all ranks have posted all."""
        HOOKS.world.sums_awaited([bucket.total for bucket in self._buckets])
        answers = {}
        for bucket in self._buckets:
            for i, place in bucket.places.items():
                total = bucket.total.out[place].reshape(self._flat[i].shape)
                answers[i] = box(total if total.ndim else total[()], REPLICATED)
        return answers


def can_take_part(source: Any) -> bool:
    """Whether the derivative in a source is of a kind that goes into buckets."""
    return source.dtype.dtype.char in _SUMMED


def _by_last_use(records: Sequence[Record], versions: dict[int, list[Record]], sources: dict[Record, list[int]]) -> list[int]:
    """The sources as a walk will complete them: it goes backwards, so the record that uses one first completes it."""
    waiting, first = set(sources), {}
    for place, record in enumerate(records):
        for node in record.nodes:
            if node in waiting:
                waiting.discard(node)
                first[node] = place
        if not waiting:
            break
    return sorted(versions, key=lambda i: (-min([first.get(node, -1) for node in versions[i]], default=-1), i))
