"""The ranks of an MPI run as a `world`: what `ops/collective.py` asks for, done by mpi4py.

Everything is posted without blocking and waited for in one place (`finish`), which sleeps where there are more ranks than
cores, listens for ranks that have failed or ended (`watching.py`), and so never waits for somebody who will not come. Before
each operation the ranks ask whether all call the same (`agreement.py`). The only file that imports mpi4py.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

import numpy as np

from gradtape.core.record import user_location
from gradtape.core.typing import Array
from gradtape.distribute.agreement import Agreement, post_of
from gradtape.distribute.last_words import noting
from gradtape.distribute.native_mpi import NATIVE_DTYPES, NativeMpi, native_mpi
from gradtape.distribute.rank_errors import DOWNWARDS, UPWARDS, ProgramStatement, RankError, Statement
from gradtape.distribute.traffic import LineTraffic, Traffic, by_line
from gradtape.distribute.watching import Post, Waiting, Watch
from gradtape.ir.graph import Block
from gradtape.ir.walk import program
from gradtape.ops.collective import COMMUNICATIONS, POSTED, OneRank

_SPINS = 200  # tests of a request before anything else is looked at


@dataclass(frozen=True, eq=False)
class PostedSum:
    """A sum on its way: MPI reads `given` and writes `out` until the request is done."""

    request: Any
    given: Array
    out: Array
    statement: Statement


class MpiWorld(OneRank):
    """All ranks that one `mpiexec` started."""

    def __init__(self) -> None:
        import mpi4py

        mpi4py.rc.thread_level = "serialized"  # one thread at a time: the locks of "multiple" treble the time of a short call
        from mpi4py import MPI

        self.mpi = MPI
        # a communicator of our own: what the user's program sends with mpi4py cannot be taken for ours
        self.comm = MPI.COMM_WORLD.Dup()
        # (by default MPI ends the process; an error that is returned becomes one of Python's, with a line)
        self.comm.Set_errhandler(MPI.ERRORS_RETURN)
        # for sums that ranks may disagree about: those of other dtypes never meet
        self.comms = {name: self.comm.Dup() for name in NATIVE_DTYPES}
        self.rank: int = self.comm.rank
        self.size: int = self.comm.size
        self.label = f"rank {self.rank} of {self.size}" if self.size > 1 else ""
        here = self.comm.Split_type(MPI.COMM_TYPE_SHARED)
        self.crowded = is_crowded(here.allgather(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else False
        self.notes = noting(here, self.rank, self.size) if self.size > 1 else None
        here.Free()
        self.watch = Watch(self)
        self.agreement = Agreement(self)
        self.debug = False  # whether every operation of compiled programs is compared, too
        self.traffic = Traffic()
        self._abandoned: Any = None  # memory of an operation that failed: MPI may still write there
        self._behind = MPI.COMM_WORLD.Dup()  # of sums that are posted while other operations run: their order is their own
        self._sums: list[PostedSum] = []  # not known to be done: MPI may still write there
        self.sums_posted = 0  # ever

    @functools.cached_property
    def natively(self) -> NativeMpi | None:
        """How native code calls MPI itself; not in debug mode, nor where every operation is measured."""
        return None if self.debug or self.traffic.lines is not None else native_mpi(self)

    def measure(self) -> None:
        """From now on, count what operations cost by the user's lines."""
        self.traffic.lines = {}

    def traffic_by_line(self) -> list[LineTraffic]:
        """What was counted, over all ranks, which must all ask; empty where nothing was."""
        own = self.traffic.lines or {}
        self.agree(ProgramStatement("the report about communication", "the end of the script", 0))
        return by_line(self.comm.allgather(own), self.rank)

    # -- waiting ----------------------------------------------------------------------------------------------------------

    def finish(self, request: Any, post: Callable[[], Post]) -> None:
        """Wait for a request; `post` says in what, if it takes long."""
        # Tested some times without a pause, as most operations end soon. On cores that ranks share, the one that is waited for
        # needs the core.
        for _ in range(1 if self.crowded else _SPINS):
            if request.Test():
                return
        waiting = Waiting(self.watch)
        try:
            while not request.Test():
                waiting.pause(post)
        finally:
            waiting.over()

    def agree(self, statement: ProgramStatement) -> bool:
        """Compare what compiled programs do; whether any rank may leave this one in the middle."""
        begun = time.perf_counter()
        if self.notes is not None:
            self.notes.note(statement)
        can_fail = self.agreement.settled(statement, self.agreement.posted(statement))
        self.traffic.total.waited += time.perf_counter() - begun
        return can_fail

    @property
    def position(self) -> tuple[int, int, tuple[int, ...]]:
        """See `NativeMpi`; nothing is loaded to answer."""
        natively = self.__dict__.get("natively")
        return (-1, 0, ()) if natively is None else natively.position

    def meet(self, words: str) -> None:
        """Compare where the ranks are."""
        self.agree(ProgramStatement(words, user_location(), crc32(words.encode())))

    def failed(self, block: Block, error: object) -> None:
        """A compiled program was left in the middle."""
        if any(operation.op in COMMUNICATIONS or operation.op in POSTED for operation in program(block)):
            self.agreement.broken = f"rank {self.rank} has left a compiled program in the middle, in which others wait: {error}"
            self.agreement.left_unheard = self.natively is not None and self.natively.is_unheard(block)

    def _run(self, statement: Statement, post: Callable[[], Iterable[Any]]) -> None:
        begun = time.perf_counter()
        if self.notes is not None:
            self.notes.note(statement)
        try:
            if statement.alike:  # first: libraries end the process if they get data of other types than they were told
                self.agreement.settled(statement, self.agreement.posted(statement))
            agreed = time.perf_counter()
            # its arrays belong to MPI until all requests are done: if one fails, they are kept
            requests = post()
            self._abandoned = post, requests
            for i, request in enumerate(requests):
                if request is not None:
                    self.finish(request, functools.partial(self._place, statement, i))
                if not statement.alike and i == 0:
                    agreed = time.perf_counter()
        except self.mpi.Exception as error:
            raise RankError(f"rank {self.rank}: {statement} failed: {error.Get_error_string()}") from None
        self._abandoned = None
        self.traffic.add(statement, agreed - begun, time.perf_counter() - agreed)

    def _place(self, statement: Statement, i: int) -> Post:
        """Where this rank waits: in request i of an operation (of a message, see `Agreement.message`)."""
        if statement.alike or i == 1:  # all are there
            return post_of(statement, self.agreement.count, "transfer")
        post = post_of(statement, self.agreement.count, "message")
        return post if i == 0 else replace(post, source=-1)

    def _message(self, statement: Statement, given: Array | None, out: Array | None) -> None:
        ends = [None if x is None else _bytes(x) for x in (given, out)]
        self._run(statement, lambda: self.agreement.message(statement, *ends))

    # -- sums behind a computation ------------------------------------------------------------------------------------------

    def sum_posted(self, x: Array) -> PostedSum:
        """Begin the sum of the ranks' arrays. Nobody compares what ranks call here: they have agreed on it before."""
        self._sums = [one for one in self._sums if not one.request.Test()]  # MPI goes on only while it is called
        out = np.empty_like(x)
        posted = PostedSum(self._behind.Iallreduce(x, out), x, out, Statement("all_reduce sum", x))
        if self.notes is not None:
            self.notes.note(posted.statement)
        self._sums.append(posted)
        self.sums_posted += 1
        return posted

    def sums_awaited(self, sums: Sequence[PostedSum]) -> None:
        """Wait for sums that all ranks have posted."""
        for one in sums:
            begun = time.perf_counter()
            self.finish(one.request, lambda: post_of(one.statement, self.agreement.count, "transfer"))  # noqa: B023
            self.traffic.add(one.statement, 0.0, time.perf_counter() - begun)
        self._sums = [one for one in self._sums if one not in sums]

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
        self._message(Statement(f"sendrecv to {dest} from {source}", x, (dest, source, tag)), given, out)
        return out[()]

    def edges(self, x: Array, periodic: bool) -> Array:
        given = _contiguous(x)
        out = np.zeros_like(given)
        below, above = self.neighbours(periodic)

        def post() -> tuple[Any, ...]:
            # two tags: on a ring of two ranks both edges go to the same one
            requests = [] if below < 0 else [self.comm.Irecv(_bytes(out[0]), below, UPWARDS)]
            requests += [] if above < 0 else [self.comm.Irecv(_bytes(out[1]), above, DOWNWARDS)]
            requests += [] if above < 0 else [self.comm.Isend(_bytes(given[1]), above, UPWARDS)]
            return (*requests, *([] if below < 0 else [self.comm.Isend(_bytes(given[0]), below, DOWNWARDS)]))

        self._run(Statement("halo_exchange", x), post)
        return out

    def neighbours(self, periodic: bool) -> tuple[int, int]:
        """The ranks below and above, -1 for nobody."""
        below, above = self.rank - 1, self.rank + 1
        if periodic:
            return below % self.size, above % self.size
        return below, above if above < self.size else -1

    def send(self, x: Array, dest: int, tag: int) -> None:
        self._message(Statement(f"send to {dest}", x, (dest, -1, tag)), _contiguous(x), None)

    def recv(self, shape: tuple[int, ...], dtype: np.dtype[Any], source: int, tag: int) -> Array:
        out = np.empty(shape, dtype)
        self._message(Statement(f"recv from {source}", out, (-1, source, tag)), None, out)
        return out[()]


def is_crowded(cores: list[set[int]]) -> bool:
    """Whether ranks of one machine share cores, given those that each may use: launchers bind ranks to cores of their own."""
    return len(cores) > len(set().union(*cores))


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
