"""A rank that fails ends all of them, within seconds, with one message that names it; nobody waits for ever.

* An exception nobody catches: its traceback is printed with the rank, then MPI ends the job.
* A rank that comes to the end of its program says so; whoever waits for it in an operation hears it and fails.
* Debug mode compares every operation between ranks before it runs: its name, shape and dtype, and that all ranks come to it.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
import time
import traceback
from types import TracebackType
from typing import Any

from gradtape.distribute.mpi_world import MpiWorld
from gradtape.distribute.rank_errors import RankError, Statement

_PATIENCE = 20.0  # seconds that debug mode waits for a rank to come to an operation
_GRACE = 0.5  # seconds for what was printed to get through before MPI ends all processes


def watch_over(world: MpiWorld, debug: bool) -> None:
    """Install what ends all ranks when one fails."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)  # lines of several ranks come whole, and at once
    before = sys.excepthook

    def fail(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stdout.flush()
        place = ""
        if not issubclass(kind, (Exception, KeyboardInterrupt)):
            before(kind, error, trace)
        else:
            where = traceback.extract_tb(trace)
            place = f" at {where[-1].filename}:{where[-1].lineno}" if where else ""
            text = "".join(traceback.format_exception(kind, error, trace))
            sys.stderr.write(f"[rank {world.rank} of {world.size} failed{place}]\n{text}")
            sys.stderr.flush()
        world.say_ended(f"failed{place}")
        time.sleep(_GRACE)
        world.mpi.COMM_WORLD.Abort(1)

    sys.excepthook = fail
    atexit.register(_end, world)  # after mpi4py's own, so it runs before that
    set_debug(world, debug)


def _end(world: MpiWorld) -> None:
    """The program of this rank is over: say so, and leave MPI together with the others."""
    sys.stdout.flush()
    world.say_ended("has come to the end of its program")
    all_here = world.control.Ibarrier()
    while not all_here.Test():
        time.sleep(1e-3)
        # words of others must be taken, or those who sent them could not leave
        while world.control.Iprobe(source=world.mpi.ANY_SOURCE):
            world.control.recv(source=world.mpi.ANY_SOURCE)


# -- debug mode ---------------------------------------------------------------------------------------------------------------


def set_debug(world: MpiWorld, enabled: bool) -> None:
    """Compare every operation between ranks before it runs, or not."""
    if enabled and not hasattr(world, "debugging"):
        world.debugging = world.mpi.COMM_WORLD.Dup()  # type: ignore[attr-defined]
    world.check = _compare if enabled else None


def _compare(world: MpiWorld, statement: Statement) -> None:
    comm: Any = world.debugging  # type: ignore[attr-defined]
    own = (statement.words if statement.alike else "a message", statement.line)

    text = "\n".join(own).encode()[:512].ljust(512, b"\0")
    out = bytearray(512 * world.size)
    request = comm.Iallgather(bytearray(text), out)
    if not world.wait(request, _PATIENCE):
        _absent(world, statement)
    texts = [bytes(out[512 * r : 512 * (r + 1)]).rstrip(b"\0").decode(errors="replace").split("\n") for r in range(world.size)]
    if len({words for words, *_ in texts}) > 1:
        said = "; ".join(f"rank {r} calls {words} at {line}" for r, (words, line) in enumerate(texts))
        raise RankError(f"the ranks do not call the same operation: {said}")


def _absent(world: MpiWorld, statement: Statement) -> None:
    raise RankError(
        f"rank {world.rank} has waited {_PATIENCE:.0f} seconds in {statement} for ranks that do not call it; every "
        f"rank must call the same operations in the same order (process {os.getpid()})"
    )
