"""What a rank does, noted where a watcher finds it when the rank was killed: who is killed says nothing, and launchers end all
others with the same signal, at once.

The first rank of every machine starts the watcher: this file as a program, in a session of its own, which launchers leave
alone; they pass on what it writes to the rank's stderr. A file per rank, mapped into memory: a note is a copy of some bytes,
and is there whatever happens to the process. Who dies first is seen by waiting for all (`pidfd`, so on Linux only). Invariant:
nothing of gradtape is imported here, so that a watcher is small and there at once; and it ends with the ranks.
"""

from __future__ import annotations

import mmap
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_BYTES = 1024
_ENDED, _FAILED = "ended", "failed"  # notes of ranks that have said themselves how it went
_KEPT = 1000  # texts of operations: a program whose shapes go on changing has any number of them


class LastWords:
    """The notes of this rank."""

    def __init__(self, folder: str, rank: int) -> None:
        path = Path(folder) / str(rank)
        path.write_bytes(f"{os.getpid()}\n".encode().ljust(_BYTES, b"\0"))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _BYTES)
        self._start = self._map.find(b"\n") + 1
        self._texts: dict[Any, bytes] = {}

    def note(self, statement: Any) -> None:
        """This is what it does now."""
        text = self._texts.get(statement.key)
        if text is None:
            if len(self._texts) >= _KEPT:
                self._texts.clear()
            text = self._texts[statement.key] = self._padded(str(statement))
        self._map[self._start :] = text

    def end(self, failed: bool = False) -> None:
        """It has said itself how it ended."""
        self._map[self._start :] = self._padded(_FAILED if failed else _ENDED)

    def _padded(self, text: str) -> bytes:
        room = _BYTES - self._start
        return text.encode()[-room:].ljust(room, b"\0")


def noting(here: Any, rank: int, ranks: int) -> LastWords | None:
    """The notes of this rank, where its machine can watch processes; `here` has the ranks of the machine."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        folder = tempfile.mkdtemp(prefix="gradtape-ranks-") if here.rank == 0 and sys.executable else ""
    except OSError:
        folder = ""
    folder = here.bcast(folder, 0)
    try:
        notes = LastWords(folder, rank) if folder else None
    except OSError:  # a container with folders of its own
        notes = None
    here.barrier()
    if here.rank == 0 and folder:
        # not a fork: MPI may not live through one
        command = [sys.executable, "-I", "-S", __file__, folder, str(ranks)]
        watcher = subprocess.Popen(  # noqa: S603  (this file)
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
        )
        watcher.returncode = 0  # nobody waits for it: it ends after this process
    return notes


class _Watcher:
    """Waits for the ranks of this machine to end."""

    def __init__(self, folder: str, ranks: int) -> None:
        self._ranks, self._poll = ranks, select.poll()
        self._notes: dict[int, mmap.mmap] = {}
        self._alive: dict[int, int] = {}  # descriptor of a process → its rank
        self._gone: list[int] = []  # before anybody looked
        for path in Path(folder).iterdir():
            with path.open("rb") as file:
                notes = self._notes[int(path.name)] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            path.unlink()  # what is mapped stays, and nothing is left when this process is killed, too
            try:
                descriptor = os.pidfd_open(int(notes[: notes.find(b"\n")]))
            except ProcessLookupError:
                self._gone.append(int(path.name))
                continue
            self._alive[descriptor] = int(path.name)
            self._poll.register(descriptor, select.POLLIN)
        Path(folder).rmdir()

    def words(self) -> str:
        """When somebody died without a word: who, in which operation; empty when all have ended otherwise."""
        gone = self._gone
        while not (killed := [rank for rank in gone if self._note(rank) != _ENDED]) and self._alive:
            descriptors = [descriptor for descriptor, _ in self._poll.poll()]
            for descriptor in descriptors:
                self._poll.unregister(descriptor)
            gone = [self._alive.pop(descriptor) for descriptor in descriptors]
        # one that told its failure has ended the others
        if not killed or _FAILED in map(self._note, self._notes):
            return ""
        # several, where they died between two looks; all, where those of another machine did
        elsewhere = len(killed) == len(self._notes) < self._ranks
        who = " or ".join([f"rank {rank}" for rank in sorted(killed)]) + (", or one on another machine," if elsewhere else "")
        words = {f"rank {rank}: ": self._note(rank) or "none" for rank in sorted(killed)}
        said = "; ".join([f"{name if len(killed) > 1 else ''}{note}" for name, note in words.items()])
        return f"{who} of {self._ranks} was killed, and so all were ended; the last operation between ranks it began: {said}"

    def _note(self, rank: int) -> str:
        return self._notes[rank][:].rstrip(b"\0").decode(errors="replace").partition("\n")[2]


if __name__ == "__main__":
    if text := _Watcher(sys.argv[1], int(sys.argv[2])).words():
        os.write(2, f"[{text}]\n".encode())  # in one piece: the launcher writes there, too
