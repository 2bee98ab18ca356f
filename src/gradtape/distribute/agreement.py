"""Whether the ranks do the same thing, asked with every operation between them: two numbers travel beside the data.

An operation that all ranks call is compared by its name, shape and dtype before it runs. A compiled program is compared by the
operations between ranks that are in it, before it runs; where values decide which of them run, also by what was done, before it
gives results. A message carries the dtype and shape of what was sent. Only when something differs are words exchanged, to say
what each rank called.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape.core.hooks import HOOKS
from gradtape.distribute.rank_errors import ALIKE, ProgramStatement, RankError, Statement
from gradtape.distribute.watching import Post
from gradtape.ops.collective import HEADER, INLINE

if TYPE_CHECKING:
    from gradtape.distribute.mpi_world import MpiWorld

_ROOM = 512  # bytes of what a rank says it called, where all differ
_LEFT = 1 << 48  # added to the digest of what comes after an error


class Agreement:
    """Compares the statements of ranks."""

    def __init__(self, world: MpiWorld) -> None:
        self._world = world
        self.comm = world.mpi.COMM_WORLD.Dup()
        self.count = 0  # operations that all ranks call, so far
        self.broken = ""  # how this rank left a compiled program in the middle; the others must have left it, too
        self.left_unheard = False  # whether others may be inside of MPI then, since no rank had said that it may leave

    def posted(self, statement: Statement | ProgramStatement) -> Any:
        """Ask, without waiting for the answer."""
        self.count += 1
        digest = statement.digest + (_LEFT if self.broken else 0)
        # the maximum of a number and of its opposite are its largest and its least value: equal exactly if all ranks have the
        # same
        own, both = np.array((digest, -digest, statement.can_fail), np.int64), np.empty(3, np.int64)
        return self.comm.Iallreduce(own, both, self._world.mpi.MAX), own, both

    def settled(self, statement: Statement | ProgramStatement, posted: Any) -> bool:
        """Wait for the answer, and fail if the ranks do not agree. Whether any of them may leave the program in the middle."""
        request, own, both = posted
        self._world.finish(request, lambda: post_of(statement, self.count, "together"))
        if both[0] != own[0] or both[1] != own[1]:
            self._raise(statement)
        self.broken, self.left_unheard = "", False  # all have come here
        return bool(both[2])

    def _raise(self, statement: Statement | ProgramStatement) -> None:
        """All ranks have heard that they do not agree: say what each of them calls."""
        texts = np.zeros((self._world.size, _ROOM), np.uint8)
        own = _with_words(0, f"{statement}{f' ({self.broken})' if self.broken else ''}", _ROOM)
        request = self.comm.Iallgather(own, texts)
        self._world.finish(request, lambda: post_of(statement, self.count, "together"))
        calls = "; ".join(f"rank {rank} calls {_words_of(text)}" for rank, text in enumerate(texts))
        raise RankError(f"the ranks do not call the same operation: {calls}. {ALIKE}: none behind `if rank() == 0`")

    def message(self, statement: Statement, given: Any, out: Any) -> Iterator[Any]:
        """The requests of a message, one after the other as they are to be waited for (nothing, where there is none): what
        comes in, header and data, and what goes out. Few data travel with the header, which whoever receives compares."""
        few, dest, source, tag = statement.bytes <= INLINE, statement.dest, statement.source, statement.tag
        there, coming, data = None, None, self._world.comm
        packet, both = header_of(statement.digest, str(statement)), np.zeros(HEADER + INLINE, np.uint8)
        if dest >= 0:
            packet = np.concatenate((packet, given)) if few else packet
            there = self.comm.Isend(packet, dest, tag)
        yield None if source < 0 else self.comm.Irecv(both, source, tag)
        if source >= 0:
            if both[:8].view(np.uint64)[0] != statement.digest:
                refuse_header(both, str(statement), source)
            if few:
                out[:] = both[HEADER : HEADER + len(out)]
            else:  # posted before anything is sent: it finds its place, and need not be kept aside
                coming = data.Irecv(out, source, tag)
        going = None if dest < 0 or few else data.Isend(given, dest, tag)
        yield from (coming, there, going)

    def unheard(self) -> str:
        """What others sent here and nobody received; empty where there is nothing."""
        mpi, status, said = self._world.mpi, self._world.mpi.Status(), []
        while self.comm.Iprobe(mpi.ANY_SOURCE, mpi.ANY_TAG, status):
            header = np.zeros(HEADER + INLINE, np.uint8)
            self.comm.Recv(header, status.source, status.tag)
            said.append(f"rank {status.source}'s {_words_of(header[:HEADER])}")
        return "; ".join(said)


def header_of(digest: int, words: str) -> Any:
    """What goes ahead of a message: a digest of its dtype and shape, and what its sender calls."""
    return _with_words(digest, words, HEADER)


def _with_words(digest: int, words: str, size: int) -> Any:
    data, room = words.encode(), size - 8
    # the line is at the end, and matters most
    data = data if len(data) <= room else data[: room // 2] + data[-(room // 2) :]
    return np.frombuffer(digest.to_bytes(8, "little") + data.ljust(room, b"\0"), np.uint8).copy()


def _words_of(header: Any) -> str:
    return bytes(header)[8:].rstrip(b"\0").decode(errors="replace")


def refuse_header(header: Any, own: str, source: int) -> None:
    """What was sent is something else than what is received."""
    raise RankError(f"rank {HOOKS.world.rank} calls {own}, but rank {source} calls {_words_of(header[:HEADER])}")


def post_of(statement: Statement | ProgramStatement, count: int, kind: str) -> Post:
    """A statement as others must know it."""
    if isinstance(statement, Statement):
        return Post(count, kind, str(statement), statement.dest, statement.source)
    return Post(count, kind, str(statement))
