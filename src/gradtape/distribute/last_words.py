"""What a rank does, noted where a watcher finds it when the rank was killed: who is killed says nothing, and launchers end all
others with the same signal, at once.

The first rank of every machine starts the watcher: this file as a program, in a session of its own, which launchers leave
alone; they pass on what it writes to the rank's stderr. A file per rank, mapped into memory: a note is a copy of some bytes,
and is there whatever happens to the process. Who dies first is asked of the kernel: each rank holds a named pipe open, and an
`epoll` (so on Linux only) that watches their other ends from before the first operation on lists them in the order in which
they closed. A launcher hears of a death when the rank's files are closed, and the pipe is one of the first of these. (A
process can be waited for only later: by then the launcher may have killed others, which may end sooner.) How it ended, `/proc`
says until its parent has asked, Linux 6.15 and newer ones afterwards. Invariant: nothing of gradtape is imported here, so that
a watcher is small and there at once; and it ends with the ranks.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

_BYTES = 1024
_ENDED, _FAILED = "ended", "failed"  # notes of ranks that have said themselves how it went
_PIPE = ".pipe"
_GET_INFO, _EXIT = 0xC040FF0B, 8  # Linux's PIDFD_GET_INFO for 64 bytes, and PIDFD_INFO_EXIT: the last four are the status
_KEPT = 1000  # texts of operations: a program whose shapes go on changing has any number of them


class LastWords:
    """The notes of this rank."""

    def __init__(self, folder: str, rank: int) -> None:
        path = Path(folder) / str(rank)
        path.write_bytes(bytes(_BYTES) + str(os.getpid()).encode())
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _BYTES)
        os.mkfifo(path.with_suffix(_PIPE))
        life = os.open(path.with_suffix(_PIPE), os.O_RDWR)  # closed when this process ends; what it forks must not hold it
        os.register_at_fork(after_in_child=lambda: os.close(life))
        self._texts: dict[Any, bytes] = {}

    def note(self, statement: Any) -> None:
        """This is what it does now."""
        text = self._texts.get(statement.key)
        if text is None:
            if len(self._texts) >= _KEPT:
                self._texts.clear()
            text = self._texts[statement.key] = _padded(str(statement))
        self._map[:] = text

    def end(self, failed: bool = False) -> None:
        """It has said itself how it ended."""
        self._map[:] = _padded(_FAILED if failed else _ENDED)


def _padded(text: str) -> bytes:
    return text.encode()[-_BYTES:].ljust(_BYTES, b"\0")


def noting(here: Any, rank: int, ranks: int) -> LastWords | None:
    """The notes of this rank, where its machine can watch processes; `here` has the ranks of the machine."""
    if not hasattr(select, "epoll"):
        return None
    try:
        folder = tempfile.mkdtemp(prefix="gradtape-ranks-") if here.rank == 0 and sys.executable else ""
    except OSError:
        folder = ""
    folder = here.bcast(folder, 0)
    try:
        notes = LastWords(folder, rank) if folder else None
    except OSError:  # a container with folders of its own, or one without pipes
        notes = None
    here.barrier()
    if here.rank == 0 and folder:
        _watch(folder, ranks)
    here.barrier()  # whoever dies from here on is seen
    return notes


def _watch(folder: str, ranks: int) -> None:
    """Start the watcher; what it waits for is there before it is."""
    watched, files = select.epoll(), []
    for path in Path(folder).glob(f"*{_PIPE}"):
        end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        path.unlink()
        watched.register(end, 0)  # (that the other end is closed is told unasked)
        process = int(path.with_suffix("").read_bytes()[_BYTES:])
        state = -1, -1
        with contextlib.suppress(OSError):  # a container that does not show processes of others
            state = os.open(f"/proc/{process}/stat", os.O_RDONLY), os.pidfd_open(process)
        files.append((int(path.stem), end, *state))
    # not a fork: MPI may not live through one
    numbers = [str(watched.fileno()), *[":".join(map(str, numbers)) for numbers in files]]
    kept = {file for _, *opened in files for file in opened if file >= 0}
    watcher = subprocess.Popen(  # noqa: S603  (this file)
        [sys.executable, "-I", "-S", __file__, folder, str(ranks), *numbers], pass_fds=(watched.fileno(), *kept),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    watcher.returncode = 0  # nobody waits for it: it ends after this process
    for file in kept:
        os.close(file)


class _Watcher:
    """Waits for the ranks of this machine to end."""

    def __init__(self, folder: str, ranks: int, watched: int, files: list[list[int]]) -> None:
        self._ranks, self._watched = ranks, select.epoll.fromfd(watched)
        self._ends = {end: rank for rank, end, *_ in files}
        # what says how a process ended: its state in /proc, and the process itself
        self._states = {rank: (state, process) for rank, _, state, process in files}
        self._notes: dict[int, mmap.mmap] = {}
        for path in Path(folder).iterdir():
            with path.open("rb") as file:
                self._notes[int(path.name)] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            path.unlink()  # what is mapped stays, and nothing is left when this process is killed, too
        Path(folder).rmdir()

    def words(self) -> str:
        """When somebody died without a word: who, in which operation; empty when all have ended otherwise."""
        note = _ENDED
        while note == _ENDED and self._ends:
            ((end, _),) = self._watched.poll(maxevents=1)  # the one that closed first
            self._watched.unregister(end)
            rank = self._ends.pop(end)
            how, note = self._how(rank), self._note(rank)
        # one that told its failure has ended the others
        if note == _ENDED or _FAILED in map(self._note, self._notes):
            return ""
        who, said = f"rank {rank} of {self._ranks}", note or "none"
        if len(self._notes) < self._ranks:
            who += f", the first on this machine (at {time.strftime('%H:%M:%S')}; others may have it that one died before),"
        return f"{who} {how}, and so all were ended; the last operation between ranks it began: {said}"

    def _how(self, rank: int) -> str:
        """How a rank ended that has said nothing."""
        import fcntl  # where there is Linux

        state, process = self._states[rank]
        about = bytearray(_EXIT.to_bytes(8, sys.byteorder).ljust(64, b"\0"))
        try:  # while it ends, its status stands last in its state
            status: int | None = int(os.pread(state, 4096, 0).split()[-1])
        except OSError:
            try:
                fcntl.ioctl(process, _GET_INFO, about)
                status = int.from_bytes(about[60:], sys.byteorder) if about[0] & _EXIT else None
            except (OSError, ValueError):
                status = None
        if status is None:
            return "was killed or left with os._exit"
        return "was killed" if status & 127 else f"left with os._exit({status >> 8})"

    def _note(self, rank: int) -> str:
        return self._notes[rank][:_BYTES].rstrip(b"\0").decode(errors="replace")


if __name__ == "__main__":
    numbers = [[int(number) for number in argument.split(":")] for argument in sys.argv[4:]]
    if text := _Watcher(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), numbers).words():
        os.write(2, f"[{text}]\n".encode())  # in one piece: the launcher writes there, too
