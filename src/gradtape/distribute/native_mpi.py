"""MPI's C functions and handles, for native code: their addresses in the library that mpi4py loaded, told to LLVM by name.

MPICH's handles are integers, Open MPI's and those of MPI's standard ABI pointers; all lie in a table that native code reads.
Invariant: the library answers through its own functions what mpi4py says of it, or native code does not call it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from gradtape.backends.llvm.runtime import machine
from gradtape.distribute.agreement import header_of, refuse_header
from gradtape.distribute.program_exchanges import ProgramExchanges
from gradtape.distribute.rank_errors import DIGEST, DOWNWARDS, UPWARDS, ProgramStatement, RankError, dtype_digest
from gradtape.distribute.watching import Post, Waiting
from gradtape.ir.graph import Block, Operation
from gradtape.ops.collective import HEADER, INLINE

if TYPE_CHECKING:
    from gradtape.distribute.mpi_world import MpiWorld

_FUNCTIONS = (
    "MPI_Iallreduce", "MPI_Iallgather", "MPI_Ireduce_scatter_block", "MPI_Ialltoall", "MPI_Ibcast", "MPI_Ireduce",
    "MPI_Igather", "MPI_Iscatter", "MPI_Irecv", "MPI_Isend", "MPI_Testall", "MPI_Allreduce",
)  # fmt: skip
NATIVE_DTYPES = {  # that MPI adds up
    "float32": "FLOAT", "float64": "DOUBLE", "int32": "INT32_T", "int64": "INT64_T", "complex64": "C_FLOAT_COMPLEX",
    "complex128": "C_DOUBLE_COMPLEX",
}  # fmt: skip


KEPT = 256  # digests: a root may be as many operations ahead of those who wait for it
_SHOWN = 200  # characters of what a program exchanges


class NativeMpi:
    """What native code needs to know of MPI."""

    def __init__(self, world: MpiWorld, library: ctypes.CDLL) -> None:
        mpi = world.mpi
        self._world = world
        self._test_all = library.MPI_Testall
        self.crowded = world.crowded
        self.tags = (UPWARDS, DOWNWARDS)
        self.prime, self.kept, self.dtype_digest = DIGEST, KEPT, dtype_digest
        self.handle = "i32" if mpi._sizeof(mpi.Comm) == 4 else "ptr"
        handles = {
            "comm": world.comm, "headers": world.agreement.comm, "byte": mpi.BYTE,
            "sum": mpi.SUM, "max": mpi.MAX, "min": mpi.MIN,
            **{name: getattr(mpi, kind) for name, kind in NATIVE_DTYPES.items()},
            **{f"comm of {name}": world.comms[name] for name in NATIVE_DTYPES},
        }  # fmt: skip
        self.places = {name: i for i, name in enumerate(handles)}
        # (masked: MPICH's handles are signed, and fill the low half of a word)
        self._table = (ctypes.c_uint64 * len(handles))(*[mpi._handleof(thing) & (1 << 64) - 1 for thing in handles.values()])
        self._texts: dict[int, str] = {}  # of programs, by their digests: said where ranks differ
        self._nobody = int(mpi.PROC_NULL)
        self.in_place = int(mpi.IN_PLACE)  # in the place of an operand: it is where the result will be
        # of this program: whether a rank may leave it in the middle; how many operations between ranks were begun in it; what
        # was done until each of the last ones, as digests
        self._done = (ctypes.c_int64 * (2 + KEPT))()
        # what is sent and what is received of a short message, with its header: one at a time is under way
        self._packets = (ctypes.c_uint8 * (2 * (HEADER + INLINE)))()
        self._number = -1  # of the program, as ranks count what they call
        machine.symbol("gt_mpi_handles", ctypes.addressof(self._table))
        machine.symbol("gt_mpi_done", ctypes.addressof(self._done))
        machine.symbol("gt_mpi_packets", ctypes.addressof(self._packets))
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
    def position(self) -> tuple[int, int, tuple[int, ...]]:
        """The program that runs, or ran last, how many operations between ranks this one has begun in it, and digests of what
        it had done at each of the last ones."""
        begun = self._done[1]
        return self._number, begun, tuple([self._done[2 + i % KEPT] for i in range(max(begun - KEPT, 0) + 1, begun + 1)])

    def is_unheard(self, block: Block) -> bool:
        """Whether the others may be inside of MPI when this rank leaves the program that runs."""
        return bool(ProgramExchanges(block).text) and not self._done[0]

    def begins(self, digest: int, line: str, can_fail: bool) -> None:
        """A program begins: all ranks must run one with the same operations between them."""
        text = self._texts.get(digest, "")
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
        words = f"a compiled program ({shown})" if shown else "a compiled program"
        can_fail = self._world.agree(ProgramStatement(words, line, digest, can_fail))
        self._done[0], self._done[1], self._done[2] = can_fail, 0, 0
        self._number = self._world.agreement.count

    def notes(self, operation: Operation) -> None:
        """A program begins in which ranks only send messages to one another."""
        if self._world.notes is not None:
            name = operation.op.name.removesuffix("_posted")
            self._world.notes.note(ProgramStatement(f"a compiled program of messages ({name}, …)", str(operation.loc), 0))

    def ends(self, line: str) -> None:
        """A program ends whose values decided which operations ran: they must have been the same on all ranks."""
        begun = self._done[1]
        digest = self._done[2 + begun % KEPT] & 0xFFFFFFFFFFFF
        # (as many may have run on all, but not the same ones)
        words = f"the end of a compiled program after {begun} operations between ranks (which ones, as a digest: {digest:x})"
        self._world.agree(ProgramStatement(words, line, digest))

    def words_of(self, operation: Operation) -> str:
        """An operation of a program as others must know it."""
        attrs, value = operation.attrs, operation.operands[0] if len(operation.operands) > 1 else operation.result
        name = operation.op.name.removesuffix("_awaited")
        if "tag" in attrs:
            name = "sendrecv" if "dest" in attrs and "source" in attrs else "send" if "dest" in attrs else "recv"
            name += "".join(f" {way} {attrs[end]}" for end, way in (("dest", "to"), ("source", "from")) if end in attrs)
        sizes = ", ".join([str(size) if isinstance(size, int) else "?" for size in value.type.shape])
        return f"{name} of {value.type.dtype.name}[{sizes}] at {operation.loc}"

    def header(self, operation: Operation) -> bytes:
        """What goes ahead of a message, the digest left out."""
        return header_of(0, self.words_of(operation)).tobytes()

    def refuse(self, header: int, operation: Operation) -> None:
        """A message is something else than what is received: say what was sent."""
        sent, own = (ctypes.c_uint8 * HEADER).from_address(header), self.words_of(operation)
        if not any(sent[:8]):
            raise RankError(f"rank {self._world.rank}: {own} failed")
        refuse_header(sent, own, operation.attrs["source"])

    def wait(self, requests: int, count: int, operation: Operation, headers: tuple[int, int]) -> None:
        """Wait for requests that native code posted and tested in vain. Of a message, they are a header that comes, one that
        goes, and data that come and go if they do not travel with it; `headers` says where this rank's and the other are."""
        words, attrs, width = self.words_of(operation), operation.attrs, 4 if self.handle == "i32" else 8

        def is_done(first: int, number: int) -> bool:
            flag, statuses = ctypes.c_int(0), (ctypes.c_uint64 * 32)()
            if self._test_all(number, ctypes.c_void_p(requests + first * width), ctypes.byref(flag), statuses):
                if headers[0]:  # longer data than those that are received
                    self.refuse(headers[1], operation)
                raise RankError(f"rank {self._world.rank}: {words} failed")
            return bool(flag.value)

        def post() -> Post:
            number = self._world.agreement.count
            if not headers[0]:
                return Post(number, "program", words)
            source, dest = (
                -1 if all(is_done(i, 1) for i in range(first, count, 2)) else attrs.get(end, -1)
                for first, end in enumerate(("source", "dest"))
            )
            return Post(number, "transfer" if source >= 0 and is_done(0, 1) else "message", words, dest, source)

        waiting = Waiting(self._world.watch)
        try:
            while not is_done(0, count):
                # of other data than were announced, none may come
                if headers[0] and attrs.get("source", -1) >= 0 and is_done(0, 1):
                    sent, own = (ctypes.c_int64.from_address(header).value for header in (headers[1], headers[0]))
                    if sent != own:
                        self.refuse(headers[1], operation)
                waiting.pause(post)
        finally:
            waiting.over()


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
