"""The ranks of an MPI run as a `world`: what `ops/collective.py` asks for, done by mpi4py.

Everything is posted without blocking and waited for in one place (`_done`), which sleeps where there are more ranks than cores,
listens for ranks that have failed or ended, and so never waits for somebody who will not come. The only
file that imports mpi4py.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core.typing import Array
from gradtape.distribute.native_mpi import NativeMpi, native_mpi
from gradtape.distribute.rank_errors import RankError, Statement
from gradtape.ops.collective import OneRank

_SPINS = 200  # tests of a request before anything else is looked at
_NAPS = 5e-5  # seconds between two looks where ranks share cores
_PATIENCE = 0.5  # seconds after which a rank that waits asks whether the others are still there


class MpiWorld(OneRank):
    """All ranks that one `mpiexec` started."""

    def __init__(self) -> None:
        import mpi4py

        mpi4py.rc.thread_level = "serialized"  # one thread at a time: the locks of "multiple" treble the time of a short call
        from mpi4py import MPI

        self.mpi = MPI
        self.comm = MPI.COMM_WORLD.Dup()
        self.control = MPI.COMM_WORLD.Dup()  # where ranks say that they end; collectives do not pass here
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank: int = self.comm.rank
        self.size: int = self.comm.size
        here = self.comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.crowded = here.size > len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else False
        here.Free()
        self.ended: dict[int, str] = {}  # rank → what it said when it ended
        self.statement: Statement | None = None  # the operation that runs, said when something goes wrong
        self.check: Callable[[MpiWorld, Statement], None] | None = None  # debug mode: compares the ranks' statements first
        self.seconds, self.bytes, self.calls = 0.0, 0, 0

    @functools.cached_property
    def natively(self) -> NativeMpi | None:
        """How native code calls MPI itself; not in debug mode, which looks at every operation first."""
        return None if self.check is not None else native_mpi(self)

    # -- waiting ----------------------------------------------------------------------------------------------------------

    def _done(self, *requests: Any) -> None:
        """Wait for what was posted."""
        for request in requests:
            spins, start = 0, 0.0
            while not request.Test():
                spins += 1
                if spins < _SPINS and not self.crowded:
                    continue
                start = self.paused(start or time.monotonic(), self.statement)

    def paused(self, start: float, statement: object) -> float:
        """A short pause in which others may run; after some time, a look whether all are still there. Gives the new `start`."""
        time.sleep(_NAPS if self.crowded else 0.0)
        now = time.monotonic()
        if now - start < _PATIENCE:
            return start
        self._listen(statement)
        return now

    def wait(self, request: Any, seconds: float) -> bool:
        """Whether a request is done within some time."""
        end = time.monotonic() + seconds
        while not request.Test():
            if time.monotonic() > end:
                return False
            time.sleep(_NAPS)
        return True

    def _listen(self, statement: object) -> None:
        """A rank that has ended will not answer: say so instead of waiting for it."""
        while self.control.Iprobe(source=self.mpi.ANY_SOURCE):
            status = self.mpi.Status()
            words = self.control.recv(source=self.mpi.ANY_SOURCE, status=status)
            self.ended[status.source] = words
        if self.ended and statement is not None:
            other, words = next(iter(self.ended.items()))
            raise RankError(f"rank {self.rank} waits in {statement} for rank {other}, which {words}")

    def say_ended(self, words: str) -> None:
        """Tell all others that this rank will take part in nothing any more."""
        self._last_words = [self.control.isend(words, other) for other in range(self.size) if other != self.rank]

    def _run(self, statement: Statement, post: Callable[[], tuple[Any, ...]]) -> None:
        self.statement = statement
        if self.check is not None:
            self.check(self, statement)
        start = time.perf_counter()
        try:
            self._done(*post())
        except self.mpi.Exception as error:
            raise RankError(f"rank {self.rank}: {statement} failed: {error.Get_error_string()}") from None
        self.seconds += time.perf_counter() - start
        self.bytes += statement.bytes
        self.calls += 1
        self.statement = None

    # -- operations -------------------------------------------------------------------------------------------------------

    def all_reduce(self, x: Array, kind: str) -> Array:
        """`kind` of the ranks' arrays."""
        given, back = _summable(x, kind)
        out = np.empty_like(given)
        op = {"sum": self.mpi.SUM, "max": self.mpi.MAX, "min": self.mpi.MIN}[kind]
        self._run(Statement(f"all_reduce {kind}", x), lambda: (self.comm.Iallreduce(given, out, op),))
        return back(out)

    def all_gather(self, x: Array) -> Array:
        given = _contiguous(x)
        out = np.empty((self.size, *given.shape), given.dtype)
        self._run(Statement("all_gather", x), lambda: (self.comm.Iallgather(_bytes(given), _bytes(out)),))
        return out

    def reduce_scatter(self, x: Array) -> Array:
        given, back = _summable(x, "sum")
        out = np.empty(given.shape[1:], given.dtype)
        self._run(Statement("reduce_scatter", x), lambda: (self.comm.Ireduce_scatter_block(given, out),))
        return back(out)

    def all_to_all(self, x: Array) -> Array:
        given = _contiguous(x)
        out = np.empty_like(given)
        self._run(Statement("all_to_all", x), lambda: (self.comm.Ialltoall(_bytes(given), _bytes(out)),))
        return out

    def broadcast(self, x: Array, root: int) -> Array:
        out = np.array(x, order="C")
        self._run(Statement(f"broadcast from {root}", x), lambda: (self.comm.Ibcast(_bytes(out), root),))
        return out[()]

    def reduce(self, x: Array, root: int) -> Array:
        given, back = _summable(x, "sum")
        out = np.zeros_like(given)
        self._run(Statement(f"reduce to {root}", x), lambda: (self.comm.Ireduce(given, out, root=root),))
        return back(out)

    def gather(self, x: Array, root: int) -> Array:
        given = _contiguous(x)
        out = np.zeros((self.size, *given.shape), given.dtype)
        there = _bytes(out) if self.rank == root else None
        self._run(Statement(f"gather to {root}", x), lambda: (self.comm.Igather(_bytes(given), there, root),))
        return out

    def scatter(self, x: Array, root: int) -> Array:
        given = _contiguous(x)
        out = np.empty(given.shape[1:], given.dtype)
        there = _bytes(given) if self.rank == root else None
        self._run(Statement(f"scatter from {root}", x), lambda: (self.comm.Iscatter(there, _bytes(out), root),))
        return out[()]

    def sendrecv(self, x: Array, dest: int, source: int, tag: int) -> Array:
        given = _contiguous(x)
        out = np.zeros_like(given)

        def post() -> tuple[Any, ...]:
            coming = () if source < 0 else (self.comm.Irecv(_bytes(out), source, tag),)
            return (*coming, *(() if dest < 0 else (self.comm.Isend(_bytes(given), dest, tag),)))

        self._run(Statement(f"sendrecv to {dest} from {source}", x, alike=False), post)
        return out[()]

    def edges(self, x: Array, periodic: bool) -> Array:
        given = _contiguous(x)
        out = np.zeros_like(given)
        below, above = self.neighbours(periodic)

        def post() -> tuple[Any, ...]:
            # what goes up has tag 1, what goes down tag 2: on a ring of two both go to the same rank
            requests = [] if below < 0 else [self.comm.Irecv(_bytes(out[0]), below, 1)]
            requests += [] if above < 0 else [self.comm.Irecv(_bytes(out[1]), above, 2)]
            requests += [] if above < 0 else [self.comm.Isend(_bytes(given[1]), above, 1)]
            return (*requests, *([] if below < 0 else [self.comm.Isend(_bytes(given[0]), below, 2)]))

        self._run(Statement("halo_exchange", x), post)
        return out

    def neighbours(self, periodic: bool) -> tuple[int, int]:
        """The ranks below and above, -1 for nobody."""
        below, above = self.rank - 1, self.rank + 1
        if periodic:
            return below % self.size, above % self.size
        return below, above if above < self.size else -1

    def send(self, x: Array, dest: int, tag: int) -> None:
        given = _contiguous(x)
        self._run(Statement(f"send to {dest}", x, alike=False), lambda: (self.comm.Isend(_bytes(given), dest, tag),))

    def recv(self, shape: tuple[int, ...], dtype: np.dtype[Any], source: int, tag: int) -> Array:
        out = np.empty(shape, dtype)
        statement = Statement(f"recv from {source}", out, alike=False)
        self._run(statement, lambda: (self.comm.Irecv(_bytes(out), source, tag),))
        return out[()]


def _contiguous(x: Array) -> Array:
    return np.ascontiguousarray(x).reshape(np.shape(x))


def _bytes(x: Array) -> Any:
    """The memory of an array: what only moves needs no type that MPI knows."""
    return x.reshape(-1).view(np.uint8)


def _summable(x: Array, kind: str) -> tuple[Array, Callable[[Array], Any]]:
    """An array of a type that MPI adds up and compares, and the way back: half precision is summed in single precision."""
    given = _contiguous(x)
    dtype = given.dtype
    if dtype.kind == "V" or dtype.char == "e":
        return given.astype(np.float32), lambda out: out.astype(dtype)[()]
    if dtype.kind == "b":  # the sum of truths is whether any is true, as NumPy's
        if kind == "sum":
            return given.astype(np.int32), lambda out: (out > 0)[()]
        return given.view(np.uint8), lambda out: out.view(np.bool_)[()]
    return given, lambda out: out[()]
