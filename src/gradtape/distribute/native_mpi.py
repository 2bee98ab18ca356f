"""MPI's C functions and handles, for native code: their addresses in the library that mpi4py loaded, told to LLVM by name.

MPICH's handles are integers, Open MPI's and those of MPI's standard ABI pointers; all lie in a table that native code reads. Invariant: the library answers
through its own functions what mpi4py says of it, or native code does not call it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from gradtape.backends.llvm.runtime import machine
from gradtape.distribute.program_exchanges import ProgramExchanges
from gradtape.distribute.rank_errors import DOWNWARDS, UPWARDS, ProgramStatement
from gradtape.distribute.watching import Post
from gradtape.ir.graph import Block

if TYPE_CHECKING:
    from gradtape.distribute.mpi_world import MpiWorld

_FUNCTIONS = (
    "MPI_Iallreduce", "MPI_Iallgather", "MPI_Ireduce_scatter_block", "MPI_Ialltoall", "MPI_Ibcast", "MPI_Irecv", "MPI_Isend",
    "MPI_Testall", "MPI_Allreduce",
)  # fmt: skip
_DTYPES = {
    "float32": "FLOAT", "float64": "DOUBLE", "int32": "INT32_T", "int64": "INT64_T", "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}  # fmt: skip


_SHOWN = 200  # characters of what a program exchanges


class NativeMpi:
    """What native code needs to know of MPI."""

    def __init__(self, world: MpiWorld, library: ctypes.CDLL) -> None:
        mpi = world.mpi
        self._world = world
        self._test_all = library.MPI_Testall
        self.crowded = world.crowded
        self.tags = (UPWARDS, DOWNWARDS)
        self.handle = "i32" if mpi._sizeof(mpi.Comm) == 4 else "ptr"
        handles = {
            "comm": world.comm, "sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN,
            **{name: getattr(mpi, kind) for name, kind in _DTYPES.items()},
        }  # fmt: skip
        self.places = {name: i for i, name in enumerate(handles)}
        # (masked: MPICH's handles are signed, and fill the low half of a word)
        self._table = (ctypes.c_uint64 * len(handles))(*[mpi._handleof(thing) & (1 << 64) - 1 for thing in handles.values()])
        self._texts: dict[int, str] = {}  # of programs, by their digests: said where ranks differ
        self._nobody = int(mpi.PROC_NULL)
        self.in_place = int(mpi.IN_PLACE)  # in the place of an operand: it is where the result will be
        # operations of branches and loops: a digest of which, and how many; of this program, how many were begun, and whether a
        # rank may leave it in the middle
        self._done = (ctypes.c_int64 * 4)()
        self._number = -1  # of the program, as ranks count what they call
        machine.symbol("gt_mpi_handles", ctypes.addressof(self._table))
        machine.symbol("gt_mpi_done", ctypes.addressof(self._done))
        for name in _FUNCTIONS:
            machine.symbol(f"gt_{name}", ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0)

    def peer(self, rank: int) -> int:
        """A rank as MPI numbers it; -1 is nobody."""
        return rank if rank >= 0 else self._nobody

    def exchanges(self, block: Block) -> ProgramExchanges:
        """What a program exchanges with other ranks, messages left out."""
        exchanges = ProgramExchanges(block)
        self._texts[exchanges.digest] = exchanges.text
        return exchanges

    @property
    def position(self) -> tuple[int, int]:
        """The program that runs, or ran last, and how many operations between ranks this one has begun in it."""
        return self._number, self._done[2]

    def begins(self, digest: int, line: str, can_fail: bool) -> None:
        """A program begins: all ranks must run one with the same operations between them."""
        text = self._texts.get(digest, "")
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
        words = f"a compiled program ({shown})" if shown else "a compiled program"
        self._done[3] = self._world.agree(ProgramStatement(words, line, digest, can_fail))
        self._done[2], self._number = 0, self._world.agreement.count

    def ends(self, line: str) -> None:
        """A program ends whose values decided which operations ran: they must have been the same on all ranks."""
        words = f"the end of a compiled program after {self._done[1]} operations between ranks in its loops and branches"
        self._world.agree(ProgramStatement(words, line, self._done[0] & 0xFFFFFFFFFFFF))

    def wait(self, requests: int, count: int, words: str) -> None:
        """Wait for requests that native code posted and tested in vain."""
        flag, statuses = ctypes.c_int(0), (ctypes.c_uint64 * 32)()
        waiting = None
        while not flag.value:
            if self._test_all(count, ctypes.c_void_p(requests), ctypes.byref(flag), statuses):
                raise RuntimeError(f"{words} failed")
            if not flag.value:
                waiting = waiting or self._world.watch.wait()
                waiting.pause(lambda: Post(self._world.agreement.count, "program", words, place=self._done[0]))


def native_mpi(world: MpiWorld) -> NativeMpi | None:
    """The library that mpi4py uses, if its functions can be called from native code."""
    try:
        # Asked for a symbol, a module gives that of the library it was linked to: MPICH's or Open MPI's own, or MPI's standard
        # ABI (`libmpi_abi`). Others may be loaded, too, to which a handle of this one means nothing.
        library = ctypes.CDLL(world.mpi.__file__)
        size, handle = ctypes.c_int(-1), world.mpi._handleof(world.comm)
        argument: Any = ctypes.c_int(handle) if world.mpi._sizeof(world.mpi.Comm) == 4 else ctypes.c_void_p(handle)
        known = library.MPI_Comm_size(argument, ctypes.byref(size)) == 0 and size.value == world.size
        return NativeMpi(world, library) if known else None
    except (OSError, AttributeError):
        return None
