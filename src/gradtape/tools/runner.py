"""`gradtape run`: runs a script as Python would, while a `Collector` listens, and writes the report.

The script sees what it would see under `python script.py`: its own `__main__`, `sys.argv`, `sys.path[0]`; its output, its
traceback (without frames of this file) and its exit status are its own. Everything said here goes to stderr.
"""

from __future__ import annotations

import argparse
import builtins
import os
import runpy
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType

from gradtape.tools.picture_page import checked, write
from gradtape.tools.rank_labels import connected, own_file, traffic
from gradtape.tools.report import Collector

DEFAULT = "gradtape_report.html"
USAGE, INTERRUPTED = 2, 130
FIRST_WORD = 5.0  # seconds after which a long script is said to go on


@dataclass
class Ran:
    """How a script ended."""

    command: str
    status: int
    error: str | None  # the last line of its traceback
    seconds: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `gradtape run`. What follows the script's name is the script's, except `--report`."""
    parser.add_argument(
        "--report", metavar="FILE", help=f"where the page goes, before or after the script's own arguments ({DEFAULT})"
    )
    parser.add_argument("--no-profile", action="store_true", help="do not measure times: tapes run at full speed")
    parser.add_argument("--no-pictures", action="store_true", help="leave out the graphs")
    parser.add_argument("-m", dest="module", action="store_true", help="the script is the name of a module, as in python -m")
    parser.add_argument("script", help="the script, then its arguments; `--` ends the options of gradtape")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """The exit status of the script; 2 when it could not be started."""
    try:
        report, arguments = _own(options.report, options.arguments)
        path = checked(report)
    except (OSError, ValueError) as error:
        return _refuse(str(error))
    if not options.module and not os.path.isfile(options.script):
        return _refuse(f"there is no script {options.script!r}" + (": it is a folder" if os.path.isdir(options.script) else ""))
    connected()
    path = own_file(path)
    collector = Collector(profile=not options.no_profile, pictures=not options.no_pictures)
    owner = os.getpid()
    with collector.listening(), _progress(collector):
        ran = _module(options.script, arguments) if options.module else _script(options.script, arguments)
    if os.getpid() != owner:  # a child the script forked: the report is the parent's business
        return ran.status
    return _report(collector, ran, path)


def _own(report: str | None, arguments: Sequence[str]) -> tuple[str, list[str]]:
    """`--report` may stand among the script's arguments, unless it was given before or `--` protects them."""
    rest: list[str] = []
    items = list(arguments)
    while items:
        item = items.pop(0)
        if item == "--":
            rest += items
            break
        if report is None and item == "--report":
            if not items:
                raise ValueError("--report needs the name of a file")
            report = items.pop(0)
        elif report is None and item.startswith("--report="):
            report = item.removeprefix("--report=")
        else:
            rest.append(item)
    return report or DEFAULT, rest


def _refuse(why: str) -> int:
    _say(why)
    return USAGE


def _say(text: str) -> None:
    print(f"gradtape run: {text}", file=sys.stderr, flush=True)


# -- the script ------------------------------------------------------------------------------------------------------------


def _script(name: str, arguments: Sequence[str]) -> Ran:
    path = os.path.abspath(name)  # as Python has it, so that a script may change its folder
    # A module of its own, so that the script's names do not mix with those of the command.
    main = ModuleType("__main__")
    loader = SourceFileLoader("__main__", path)
    main.__dict__.update(__file__=path, __builtins__=builtins, __cached__=None, __package__=None, __loader__=loader)

    def body() -> None:
        with open(path, "rb") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        exec(code, main.__dict__)  # noqa: S102  (it is what this is for)

    with _as_program(name, arguments, os.path.dirname(path), main):
        return _guarded(" ".join([name, *arguments]), body)


def _module(name: str, arguments: Sequence[str]) -> Ran:
    with _as_program(name, arguments, os.getcwd(), None):
        return _guarded(" ".join(["-m", name, *arguments]), lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))


@contextmanager
def _as_program(name: str, arguments: Sequence[str], folder: str, main: ModuleType | None) -> Iterator[None]:
    """`sys` as the script expects it; afterwards as it was."""
    argv, path, old = sys.argv, sys.path[:], sys.modules["__main__"]
    sys.argv = [name, *arguments]
    # As Python does it: the script's folder comes first, unless the interpreter was told not to.
    if not sys.flags.safe_path:
        sys.path[:1] = [folder]
    if main is not None:
        sys.modules["__main__"] = main
    try:
        yield
    finally:
        sys.argv = argv
        sys.path[:] = path
        sys.modules["__main__"] = old


def _guarded(command: str, body: Callable[[], object]) -> Ran:
    started = time.perf_counter()
    status, error = 0, None
    try:
        body()
    except SystemExit as leaving:
        status = _status(leaving.code)
    except KeyboardInterrupt as stopped:
        _show(stopped)
        status, error = INTERRUPTED, "KeyboardInterrupt"
    except BaseException as failure:  # the script's own end: the report of what it did is written all the same
        _show(failure)
        status, error = 1, traceback.format_exception_only(failure)[-1].strip()
    try:
        _wait_for_threads()
    except KeyboardInterrupt as stopped:
        _show(stopped)
        status, error = INTERRUPTED, "KeyboardInterrupt"
    return Ran(command, status, error, time.perf_counter() - started)


def _status(code: object) -> int:
    """As the interpreter does it: a message goes to stderr and means 1."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _show(failure: BaseException) -> None:
    """The script's traceback, by its own hook, without the frames that started it."""
    own = _script_frames(failure.__traceback__)
    failure.__traceback__ = own
    sys.excepthook(type(failure), failure, own)


def _script_frames(tb: TracebackType | None) -> TracebackType | None:
    while tb is not None and (tb.tb_frame.f_code.co_filename == __file__ or "runpy" in tb.tb_frame.f_code.co_filename):
        tb = tb.tb_next
    return tb


def _wait_for_threads() -> None:
    """The interpreter waits for them at its end; what they record belongs to the report."""
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()


# -- what the reader sees --------------------------------------------------------------------------------------------------


@contextmanager
def _progress(collector: Collector) -> Iterator[None]:
    """A line now and then, where somebody is watching."""
    done = threading.Event()

    def tell() -> None:
        pause = FIRST_WORD
        while not done.wait(pause):
            elapsed = time.perf_counter() - collector.started
            _say(f"{elapsed:.0f} s, {collector.tapes:,} tapes, {collector.asks:,} gradient calls so far")
            pause = min(pause * 1.5, 60.0)

    if sys.stderr is not None and sys.stderr.isatty():
        threading.Thread(target=tell, daemon=True, name="gradtape-progress").start()
    try:
        yield
    finally:
        done.set()


def _report(collector: Collector, ran: Ran, path: str) -> int:
    from gradtape.tools.report_page import report_page, summary

    sys.stdout.flush()
    table = traffic() if ran.error is None else []  # who failed has ended all ranks
    try:
        written = write(path, report_page(collector, ran, table))
    except OSError as error:
        _say(f"the report could not be written: {error}")
        return ran.status or 1
    print("\n".join(summary(collector, ran, written, table)), file=sys.stderr, flush=True)
    return ran.status
