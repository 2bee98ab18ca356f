"""A rank that fails ends all of them, within seconds, each with one message; nobody waits for ever.

* An exception nobody catches: its traceback is printed with the rank. The others are told, and whoever waits fails in turn, in
  its own operation and line. When all have spoken, or some seconds later, MPI ends the job; of ranks that could not hear it
  (they compute, or are inside of MPI) the first one that failed says so.
* A rank that comes to the end of its program says so; whoever waits for it in an operation hears it and fails.
* Ranks that call different operations, or wait for one another: `agreement.py` and `watching.py` find it.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import sys
import time
import traceback
from pathlib import Path
from types import TracebackType

from gradtape.distribute.mpi_world import MpiWorld
from gradtape.distribute.rank_errors import RankError

_LIBRARY = str(Path(__file__).parents[1])
_PATIENCE = 3.0  # seconds in which the others may say how they end
_GRACE = 0.2  # seconds for what was printed to get through before MPI ends all processes


def watch_over(world: MpiWorld) -> None:
    """Install what ends all ranks when one fails."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)  # lines of several ranks come whole, and at once
    before = sys.excepthook

    def fail(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stdout.flush()
        place, shown = "", io.StringIO()
        with contextlib.redirect_stderr(shown):  # to write it in one piece: several ranks may fail together
            before(kind, error, trace)
        if issubclass(kind, (Exception, KeyboardInterrupt)):
            frames = list(traceback.extract_tb(trace))
            own = (_LIBRARY, "<gradtape")
            where = [frame for frame in frames if not frame.filename.startswith(own)] or frames  # the user's line
            place = f" at {where[-1].filename}:{where[-1].lineno}" if where else ""
        label = f"[rank {world.rank} of {world.size} failed{place}]\n" if place else ""
        sys.stderr.write(f"{label}{shown.getvalue()}")
        sys.stderr.flush()
        # said before MPI is told to end: whoever waits for this rank can say for whom
        world.watch.say_ended(f"failed{place}", failed=True)
        _abort(world)

    sys.excepthook = fail
    atexit.register(_end, world)  # after mpi4py's own, so it runs before that


def _abort(world: MpiWorld) -> None:
    _say_last(world, failed=True)
    atexit.unregister(_end)  # MPI may come back from here by leaving the process as any other
    first = world.watch.failed == {world.rank}
    silent = world.watch.unheard_of(_PATIENCE)
    if silent and first:
        ranks = ", ".join(map(str, silent))
        sys.stderr.write(
            f"[rank {world.rank} of {world.size} ends all; nothing was heard in {_PATIENCE:g} s of rank {ranks}, which "
            "computes or is inside of MPI]\n"
        )
        sys.stderr.flush()
    time.sleep(_GRACE)
    world.mpi.COMM_WORLD.Abort(1)


def _say_last(world: MpiWorld, failed: bool = False) -> None:
    if world.notes is not None:
        world.notes.end(failed)


def _end(world: MpiWorld) -> None:
    """The program of this rank is over: say so, and leave MPI together with the others."""
    _say_last(world)
    sys.stdout.flush()
    broken = world.agreement.broken
    world.watch.say_ended(f"has come to the end of its program{f' ({broken})' if broken else ''}")
    problem = ""
    try:
        world.watch.leave()
        unheard = world.agreement.unheard()
        problem = f"messages were sent to rank {world.rank} that it did not receive: {unheard}" if unheard else ""
    except RankError as error:
        problem = str(error)
    if problem:
        sys.stderr.write(f"[rank {world.rank} of {world.size} failed at the end of its program]\n{problem}\n")
        sys.stderr.flush()
        _abort(world)
