"""What a rank does, noted where `gradtape launch` finds it when the rank was killed: who is killed says nothing.

A file per rank, mapped into memory: a note is a copy of some bytes, and is there whatever happens to the process. When one
dies, launchers kill the others and name any of them; who died first is seen by watching all (`pidfd`, so on Linux only).
"""

from __future__ import annotations

import mmap
import os
import select
import threading
from pathlib import Path

_BYTES = 1024
_ENDED, _FAILED = "ended", "failed"  # notes of ranks that have said themselves how it went
_LOOK = 0.01  # seconds between two looks for ranks that have just come


class LastWords:
    """The notes of this rank."""

    def __init__(self, folder: str, rank: int) -> None:
        path = Path(folder) / f"{rank}.new"
        path.write_bytes(f"{os.getpid()}\n".encode().ljust(_BYTES, b"\0"))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _BYTES)
        self._start = self._map.find(b"\n") + 1
        path.rename(path.with_suffix(""))  # whole, for who looks

    def note(self, words: object) -> None:
        """This is what it does now."""
        room = _BYTES - self._start
        self._map[self._start :] = str(words).encode()[-room:].ljust(room, b"\0")

    def end(self, failed: bool = False) -> None:
        """It has said itself how it ended."""
        self.note(_FAILED if failed else _ENDED)


class Deaths(threading.Thread):
    """Watches the ranks that note into a folder; `first` are those that died first, without a word, with their last notes."""

    def __init__(self, folder: str) -> None:
        super().__init__(daemon=True)
        self._folder, self._over = Path(folder), threading.Event()
        self._ranks: dict[int, int] = {}  # descriptor of a process → its rank
        self.first: dict[int, str] = {}

    def run(self) -> None:
        """Until somebody has died, or all is over."""
        poll = select.poll()
        while not self._over.is_set() and not self.first:
            missed: list[int] = []
            for path in self._folder.iterdir():
                if path.suffix or int(path.name) in self._ranks.values():
                    continue
                try:
                    descriptor = os.pidfd_open(int(path.read_bytes().partition(b"\n")[0]))
                except ProcessLookupError:  # gone before anybody looked: one of those that are gone by now
                    descriptor = -1 - int(path.name)
                    missed.append(descriptor)
                self._ranks[descriptor] = int(path.name)
                if descriptor >= 0:
                    poll.register(descriptor, select.POLLIN)
            gone = [descriptor for descriptor, _ in poll.poll(1000 * _LOOK)]
            for descriptor in gone:
                poll.unregister(descriptor)
            gone += missed
            notes = {self._ranks[descriptor]: self._note(self._ranks[descriptor]) for descriptor in gone}
            self.first = {rank: words for rank, words in notes.items() if words != _ENDED}

    def _note(self, rank: int) -> str:
        return (self._folder / str(rank)).read_bytes().rstrip(b"\0").decode(errors="replace").partition("\n")[2]

    def words(self) -> str:
        """When nobody is left: who died first, in which operation; empty if nobody did, or one told its failure, which ended
        the others."""
        self._over.set()
        self.join()
        for descriptor in self._ranks:
            if descriptor >= 0:
                os.close(descriptor)
        notes = {int(path.name): self._note(int(path.name)) for path in self._folder.iterdir() if not path.suffix}
        # several, where all died between two looks, or came and went between them
        first = self.first or {rank: words for rank, words in notes.items() if words != _ENDED}
        if not first or _FAILED in notes.values():
            return ""
        said = [f"rank {rank}: {first[rank] or 'none'}" for rank in sorted(first)]
        who = " or ".join(f"rank {rank}" for rank in sorted(first))
        return f"{who} was killed, and so all were ended; the last operation between ranks that it began: {'; '.join(said)}"
