"""A world in which a rank looks at its own past alone: nothing is sent, and of the others' parts nothing is known.

Tools that run recorded operations once more (`nan_report`, `check`) do it on the rank that asks, while other ranks do
something else. Sums are the rank's own part, what would come from others is zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core.typing import Array
from gradtape.distribute.rank_errors import RankError
from gradtape.ir.graph import Operation
from gradtape.ops.collective import OneRank


class _NoPrograms:
    """In the place of what native code needs: its programs cannot run alone."""

    def begins(self, digest: int, line: str, can_fail: bool) -> None:
        raise RankError(
            f"the compiled program at {line} exchanges arrays with other ranks: it cannot run once more on one rank. "
            "gt.config.run_functions_eagerly(True) makes its operations visible"
        )

    def notes(self, operation: Operation) -> None:
        self.begins(0, str(operation.loc), False)


class Alone(OneRank):
    """What a rank knows by itself of a world of several."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size, self.label = rank, size, f"rank {rank} of {size}"
        self.natively: Any = _NoPrograms()

    def _row(self, x: Array, there: bool = True) -> Array:
        out = np.zeros((self.size, *np.shape(x)), x.dtype)
        if there:
            out[self.rank] = x
        return out

    def all_gather(self, x: Array) -> Array:
        return self._row(x)

    def reduce_scatter(self, x: Array) -> Array:
        return np.array(x[self.rank])[()]

    def all_to_all(self, x: Array) -> Array:
        return self._row(x[self.rank])

    def broadcast(self, x: Array, root: int) -> Array:
        return np.array(x)[()] if self.rank == root else np.zeros_like(x)[()]

    def reduce(self, x: Array, root: int) -> Array:
        return self.broadcast(x, root)

    def gather(self, x: Array, root: int) -> Array:
        return self._row(x, self.rank == root)

    def scatter(self, x: Array, root: int) -> Array:
        return self.broadcast(x[self.rank], root)

    def sendrecv(self, x: Array, dest: int, source: int, tag: int) -> Array:
        return np.array(x)[()] if source == self.rank else np.zeros_like(x)[()]

    def edges(self, x: Array, periodic: bool) -> Array:
        return np.zeros_like(x)

    def send(self, x: Array, dest: int, tag: int) -> None:
        pass

    def recv(self, shape: tuple[int, ...], dtype: np.dtype[Any], source: int, tag: int) -> Array:
        return np.zeros(shape, dtype)[()]
