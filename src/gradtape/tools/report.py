"""What `gradtape run` finds out about a script while it runs: a `Collector` that every tape of the process reports to.

Tapes made at the same source line are one entry with counts, and all lists are bounded, so that a script may make as many tapes
as it likes. Pictures, profiles and explanations are made for some of them: the first ones, then more and more rarely. The
script is never disturbed: what fails in here is noted and reported. Nothing is written here (`report_page.py` does).
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

from gradtape.core.dispatch import PART
from gradtape.core.observers import SESSION, TOOLS
from gradtape.core.record import TRACING
from gradtape.core.tensor import Tensor
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools.picture import Picture
from gradtape.tools.picture_model import models
from gradtape.tools.picture_sites import CodeSite, Sites, call_arguments, is_named, names_of, user_frames
from gradtape.tools.profile import Profiler, profile
from gradtape.tools.profile_table import Profile
from gradtape.variables.variable import Variable

PLACES = 150  # source lines with tapes, and with gradient calls, that are told apart
LISTED = 40  # Nones, NaNs, traces listed one by one
PROFILED = 20  # tapes of a line that are profiled at first; then every 25th
PATIENCE = 2.0  # seconds that pictures may always take; then a tenth of the script's time


@dataclass
class Missing:
    """A source without a gradient: how often, and why."""

    source: str
    target: str
    cause: str
    location: str | None
    message: str
    count: int = 1


@dataclass
class Bad:
    """Non-finite gradients or targets: how often, and where the first came from."""

    what: str  # "sqrt in the forward pass"
    location: str | None
    message: str
    count: int = 1


@dataclass
class Asked:
    """The gradient calls at one source line."""

    site: CodeSite
    targets: str
    sources: list[str]
    count: int = 0
    gradients: int = 0  # answers, over all calls
    missing: dict[Any, Missing] = field(default_factory=dict)
    bad: list[Bad] = field(default_factory=list)
    bad_count: int = 0


@dataclass
class ProfileTotal:
    """One operation of one line, added up over the profiled tapes."""

    location: str | None
    op: str
    within: str | None
    code: str
    count: int = 0
    forward: float = 0.0
    backward: float = 0.0
    bytes: int = 0


@dataclass
class TapesAtLine:
    """The tapes made at one source line."""

    site: CodeSite
    traced: bool  # inside a compiled function: made while it was traced
    tapes: int = 0
    asks: int = 0
    largest: int = 0  # operations of the longest of them
    asked: dict[Any, Asked] = field(default_factory=dict)
    rows: dict[Any, ProfileTotal] = field(default_factory=dict)
    profiled: int = 0
    forward: float = 0.0
    backward: float = 0.0
    bytes: int = 0  # most saved bytes of one tape
    advice: Sequence[str] = ()
    picture: Picture | None = None
    pictured: int = 0  # which ask the picture is of


@dataclass
class TraceEntry:
    """One trace of a compiled function."""

    number: int
    reasons: list[str]
    seconds: float
    where: str


@dataclass
class FunctionTraces:
    """The traces of one compiled function."""

    name: str
    location: str
    count: int = 0
    seconds: float = 0.0
    traces: list[TraceEntry] = field(default_factory=list)


def _undisturbed(method: Callable[..., None]) -> Callable[..., None]:
    """What goes wrong while looking is the tool's problem, not the script's; and looking is not looked at."""

    @wraps(method)
    def guarded(self: Collector, *args: Any) -> None:
        if threading.get_ident() in self._busy:
            return
        with self._lock:
            self._busy.add(threading.get_ident())
            try:
                method(self, *args)
            except Exception as error:  # shown in the report, under its problems
                note = f"{method.__name__}: {type(error).__name__}: {error}"
                self.problems[note] = self.problems.get(note, 0) + 1
            finally:
                self._busy.discard(threading.get_ident())

    return guarded


class Collector:
    """An observer of the session (see `tape/tape_tools.py`)."""

    def __init__(self, profile: bool = True, pictures: bool = True) -> None:
        self.profile = profile
        self.pictures = pictures
        self.made_at: dict[Any, TapesAtLine] = {}
        self.functions: dict[Any, FunctionTraces] = {}
        self.tapes = 0
        self.asks = 0
        self.missing = 0
        self.bad = 0
        self.left_out = 0  # tapes and calls at further lines
        self.problems: dict[str, int] = {}
        self.started = time.perf_counter()
        self.seconds = 0.0  # from then to the end
        self._drawing = 0.0
        self._entries: WeakKeyDictionary[Any, TapesAtLine] = WeakKeyDictionary()
        self._lock = threading.RLock()
        self._busy: set[int] = set()
        self._sites = Sites()
        self._codes: list[Any] = []  # kept alive: sites know them by identity

    # -- what the session tells ------------------------------------------------------------------------------------

    @_undisturbed
    def tape_made(self, tape: GradientTape) -> None:
        """A tape exists."""
        self.tapes += 1
        entry = self._place(self.made_at, lambda site: TapesAtLine(site, TRACING.get() is not None))
        if entry is None:
            return
        entry.tapes += 1
        self._entries[tape] = entry
        # The first tapes of a line are slow because everything is cold; later ones are looked at now and then, so that a long
        # run costs little and the report still speaks of its end.
        chosen = entry.tapes <= PROFILED or entry.tapes % 25 == 0 or _is_power(entry.tapes)
        if self.profile and chosen and not entry.traced and not _profiled(tape):
            TOOLS["observe_profile"](tape)

    @_undisturbed
    def asked(self, tape: GradientTape, targets: Sequence[Any], sources: Sequence[Any], answers: Sequence[Any]) -> None:
        """A tape was asked for derivatives; its values are still there."""
        self.asks += 1
        entry = self._entries.get(tape)
        if entry is None:
            return
        entry.asks += 1
        entry.largest = max(entry.largest, len(tape.records))
        call = self._place(entry.asked, lambda site: Asked(site, *_written(site, targets, sources)))
        if call is not None:
            call.count += 1
            call.gradients += sum(answer is not None for answer in answers)
            for place, answer in enumerate(answers):
                if answer is None:
                    self._note_missing(call, tape, targets, sources[place], place)
            if tape._nan is not None:
                self._note_bad(call, tape)
        # More and more rarely: the picture of the last call that was drawn stands for the tapes of the line.
        if _is_power(entry.asks):
            self._draw(entry, tape, targets)

    @_undisturbed
    def released(self, tape: GradientTape) -> None:
        """A tape is about to forget its records."""
        self._settle(tape)

    @_undisturbed
    def traced(self, name: str, function: Callable[..., Any], number: int, reasons: Sequence[Any], seconds: float) -> None:
        """A compiled function was traced."""
        code = getattr(function, "__code__", None)
        where = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}"
        entry = self.functions.get((name, where))
        if entry is None:
            if len(self.functions) >= PLACES:
                self.left_out += 1
                return
            entry = self.functions[name, where] = FunctionTraces(name, where)
        entry.count += 1
        entry.seconds += seconds
        if len(entry.traces) < LISTED:
            frame = next(iter(user_frames()), None)
            call = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
            entry.traces.append(TraceEntry(number, [reason.text for reason in reasons], seconds, call))

    @contextmanager
    def listening(self) -> Iterator[None]:
        """All tapes of the process are reported here; at the end those that are still there count too."""
        SESSION.observers.append(self)
        try:
            yield
        finally:
            SESSION.observers.remove(self)
            self.seconds = time.perf_counter() - self.started
            for tape in list(self._entries):
                self._settle_alive(tape)

    # -- bookkeeping -----------------------------------------------------------------------------------------------

    @_undisturbed
    def _settle_alive(self, tape: GradientTape) -> None:
        self._settle(tape)

    def _settle(self, tape: GradientTape) -> None:
        entry = self._entries.pop(tape, None)
        if entry is None:
            return
        entry.largest = max(entry.largest, len(tape.records))
        if entry.picture is None:
            self._draw(entry, tape, ())
        if _profiled(tape):
            self._add_profile(entry, profile(tape))

    def _place(self, entries: dict[Any, Any], make: Callable[[CodeSite], Any]) -> Any:
        """The entry for the line of the user's that runs now; None when there are too many."""
        frame = next(iter(user_frames()), None)
        if frame is None:
            return None
        key = (id(frame.f_code), frame.f_lineno, TRACING.get() is not None)
        if key not in entries:
            if len(entries) >= PLACES:
                self.left_out += 1
                return None
            # The key has the identity of the code object, which must not be given to another one.
            self._codes.append(frame.f_code)
            entries[key] = make(self._sites.at(frame.f_code, frame.f_lasti))
        return entries[key]

    def _note_missing(
        self, call: Asked, tape: GradientTape, targets: Sequence[Any], source: Tensor | Variable, place: int
    ) -> None:
        self.missing += 1
        known = call.missing.get(place)
        if known is not None:
            known.count += 1
        elif len(call.missing) < LISTED:
            name = call.sources[place] if place < len(call.sources) else f"source {place}"
            explanation = tape.explain(list(targets), source)
            call.missing[place] = Missing(name, call.targets, explanation.cause, explanation.location, explanation.message)

    def _note_bad(self, call: Asked, tape: GradientTape) -> None:
        self.bad += 1
        call.bad_count += 1
        report = tape.nan_report()
        if report is None:
            return
        known = next((bad for bad in call.bad if bad.location == report.location), None)
        if known is not None:
            known.count += 1
        elif len(call.bad) < LISTED:
            call.bad.append(Bad(f"{report.op} in the {report.phase} pass", report.location, str(report)))

    def _draw(self, entry: TapesAtLine, tape: GradientTape, targets: Sequence[Any]) -> None:
        spent = time.perf_counter() - self.started
        if not self.pictures or self._drawing > PATIENCE + spent / 10 or not tape.records:
            return
        begun = time.perf_counter()
        entry.picture = Picture(*models(tape, targets))
        entry.pictured = entry.asks
        self._drawing += time.perf_counter() - begun

    def _add_profile(self, entry: TapesAtLine, profile: Profile) -> None:
        entry.profiled += 1
        entry.forward += profile.forward
        entry.backward += profile.backward
        entry.bytes = max(entry.bytes, profile.bytes)
        for row in profile.rows:
            key = (row.location, row.op, row.within)
            total = entry.rows.get(key)
            if total is None:
                if len(entry.rows) >= 20 * LISTED:
                    continue
                total = entry.rows[key] = ProfileTotal(row.location, row.op, row.within, row.code)
            total.count += row.count
            total.forward += row.forward
            total.backward += row.backward
            total.bytes = max(total.bytes, row.bytes)
        entry.advice = profile.advice  # of the latest: the first ones are slow because everything is cold


def _is_power(number: int) -> bool:
    """Whether it is 1, 2, 4, 8, ...: more and more rarely."""
    return number & (number - 1) == 0


def _profiled(tape: GradientTape) -> bool:
    return any(isinstance(observer, Profiler) for observer in tape._observers)


def _written(site: CodeSite, targets: Sequence[Any], sources: Sequence[Any]) -> tuple[str, list[str]]:
    """The target and the sources of a gradient call, as the program calls them."""
    frames = user_frames()
    target, written = call_arguments(site.expression, ("target", "sources"))
    if not target:
        names = names_of(targets, frames)
        target = ", ".join(names[id(t)][1] if id(t) in names else _described(t) for t in targets[:4])
    names = names_of(sources, frames)
    names_written = []
    for place, source in enumerate(sources):
        own = source.name.removesuffix(":0") if isinstance(source, Variable) else ""
        if own and is_named(own):
            names_written.append(own)
        elif id(source) in names:
            names_written.append(names[id(source)][1])
        elif len(written) == len(sources):
            names_written.append(written[place])
        else:
            names_written.append(f"{written[0]}[{place}]" if len(written) == 1 else own or _described(source))
    return target, names_written


def _described(tensor: Tensor | Variable) -> str:
    """A tensor without a name: the operation that made it, or its shape."""
    node = tensor._node if isinstance(tensor, Tensor) else None
    while node is not None and node.op is PART and node.nodes:
        node = node.nodes[0]
    op = "a tensor" if node is None or node.op is None else f"{node.op.name}(…)"
    return f"{op} of shape {tuple(tensor.shape)}"


def peak_memory() -> int | None:
    """The most memory this process had, in bytes; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024
