"""`tape.profile()`: where the time and the saved bytes of a tape go, by line of the user's code.

The forward seconds of an operation are those inside it, recorded or not, as long as the block runs; its backward seconds are
those of its rules. Time that no operation accounts for (Python, dispatch, recording, this profiler) is a row of its own, so the
rows add up to the clock on the wall. A compiled call is one row, with the lines of its program below it where the NumPy backend
runs it: machine code has no lines any more.
Invariant: a tape made without `profile=True` pays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import get_ident
from time import perf_counter
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np

from gradtape.backends.numpy import Executable
from gradtape.backends.numpy.timing import TimedExecutable
from gradtape.core.dispatch import PART, WATCHERS
from gradtape.core.observers import TapeObserver
from gradtape.core.opdef import Op
from gradtape.core.record import Line, Record, location, user_frame
from gradtape.core.save_plan import save_plan
from gradtape.errors import FailedPreconditionError
from gradtape.functions.compiled import FUNCTION, RUNNERS, Compiled
from gradtape.ops.list_values import TensorList
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tape.memory_limit import OutputRecipe
from gradtape.tools.operands import program_of
from gradtape.tools.profile_table import MeasuredLine, Profile, made_profile

Key = tuple[Any, int, str]  # code object, instruction, name of the op
_TIMED: WeakKeyDictionary[Compiled, TimedExecutable] = WeakKeyDictionary()


def observe_profile(tape: GradientTape) -> None:
    """What `GradientTape(profile=True)` does."""
    tape.add_observer(Profiler(ref(tape)))


def profile(tape: GradientTape) -> Profile:
    """The profile of a tape so far."""
    profiler = next((o for o in tape._observers if isinstance(o, Profiler)), None)
    if profiler is None:
        raise FailedPreconditionError(
            "profile: this tape keeps no times; make it with gt.GradientTape(profile=True), or use `gradtape run script.py`"
        )
    return profiler.result()


class Tally:
    """What one operation at one place took."""

    __slots__ = ("backward", "bytes", "count", "forward", "inner")

    def __init__(self) -> None:
        self.count = 0
        self.forward = 0.0
        self.backward = 0.0
        self.bytes = 0
        self.inner: dict[tuple[str, int, str], list[float]] = {}  # file, line, op → count, forward, backward


class Profiler(TapeObserver):
    """The observer that keeps the times of one tape."""

    def __init__(self, tape: ref[GradientTape]) -> None:
        self._tape = tape  # a weak reference: no cycle
        self._thread: int | None = None
        self._entered_at: float | None = None
        self._asked_at: float | None = None
        self._current: tuple[Tally, float] | None = None  # whose rules run, since when
        self.fresh()

    def fresh(self) -> None:
        """Begin anew; the block may go on."""
        self._tallies: dict[Key, Tally] = {}
        self._forward_wall = 0.0
        self._backward_wall = 0.0
        self._own = 0.0  # what this profiler took
        self._inside_gradient = 0.0  # wall time of gradients asked inside the block
        if self._entered_at is not None:
            self._entered_at = perf_counter()

    # -- what the tape tells -------------------------------------------------------------------------------------

    def entered(self) -> None:
        """The clock of the forward pass runs."""
        self._thread = get_ident()
        self._asked_at = self._current = None
        WATCHERS.append(self._operation)
        _begin(self)
        self._entered_at = perf_counter()

    def left(self) -> None:
        """It stops."""
        if self._entered_at is not None:
            self._forward_wall += perf_counter() - self._entered_at
            self._entered_at = None
            WATCHERS.remove(self._operation)
            _end(self)

    def asked(self, records: Sequence[Record]) -> None:
        """The clock of a backward pass runs."""
        start = perf_counter()
        self._weigh(records)
        # A gradient asked inside the block is timed by the clock that runs already; only its own part is subtracted later.
        if self._entered_at is None:
            self._thread = get_ident()
            _begin(self)
        self._own += perf_counter() - start
        self._current = None
        self._asked_at = perf_counter()

    def prepare(self, record: Record) -> None:
        """One record's rules have ended, another's begin."""
        now = perf_counter()
        if self._current is not None:
            self._current[0].backward += now - self._current[1]
        owner = record.nodes[0] if record.op is PART and record.nodes else record
        self._current = (self._tally(owner or record), now)

    def answered(self) -> None:
        """The clock of the backward pass stops."""
        now = perf_counter()
        if self._current is not None:
            self._current[0].backward += now - self._current[1]
        if self._asked_at is not None:
            self._backward_wall += now - self._asked_at
            if self._entered_at is not None:
                self._inside_gradient += now - self._asked_at
            else:
                _end(self)
        self._current = self._asked_at = None

    # -- what dispatch tells -------------------------------------------------------------------------------------

    def _operation(self, op: Op, inputs: Sequence[Any], attrs: Mapping[str, Any], result: object, seconds: float) -> None:
        """A watcher of all operations: those of this block count, unless they belong to its own backward pass."""
        start = perf_counter()
        if get_ident() != self._thread or self._asked_at is not None:
            return
        frame = user_frame(1)
        tally = self._at((frame.f_code, frame.f_lasti, op.name))
        tally.count += 1
        tally.forward += seconds
        self._own += perf_counter() - start

    def ran(self, program: Compiled, timed: TimedExecutable | None, seconds: float) -> None:
        """A program ran for somebody: for this tape, if its block or its backward pass is at work in this thread."""
        start = perf_counter()
        if get_ident() != self._thread:
            return
        backward = self._asked_at is not None
        tally: Tally | None
        if backward:
            tally = None if self._current is None else self._current[0]
        else:
            frame = user_frame(1)
            tally = self._at((frame.f_code, frame.f_lasti, _called(program)))
            tally.count += 1
            tally.forward += seconds
        if timed is not None and tally is not None:
            _spread(tally, timed, backward)
        self._own += perf_counter() - start

    # -- bookkeeping ---------------------------------------------------------------------------------------------

    def _at(self, key: Key) -> Tally:
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally()
        return tally

    def _tally(self, record: Record) -> Tally:
        return self._at(_key(record))

    def tally_of(self, record: Record) -> Tally | None:
        """What was measured where a record was made; records of one instruction share it."""
        return self._tallies.get(_key(record))

    def _weigh(self, records: Sequence[Record]) -> None:
        """The bytes that each record keeps for the backward pass, each array at the first record that keeps it."""
        for tally in self._tallies.values():
            tally.bytes = 0
        seen: set[int] = set()
        for record in records:
            for value in _kept(record):
                # A view keeps the whole array behind it alive, and two views of one array keep it once.
                array = value.base if isinstance(value, np.ndarray) and isinstance(value.base, np.ndarray) else value
                if id(array) not in seen:
                    seen.add(id(array))
                    self._tally(record).bytes += array.nbytes

    def result(self) -> Profile:
        """What was found so far."""
        tape = self._tape()
        if tape is not None and not tape._asked:
            self._weigh(tape.records)
        forward = self._forward_wall - self._inside_gradient
        if self._entered_at is not None:
            forward += perf_counter() - self._entered_at
        lines = [
            MeasuredLine(_place(code, lasti), op, t.count, t.forward, t.backward, t.bytes, _inner(t))
            for (code, lasti, op), t in self._tallies.items()
        ]
        return made_profile(lines, forward, self._backward_wall, self._own)


# -- programs ----------------------------------------------------------------------------------------------------------

_AT_WORK: list[Profiler] = []  # whose block or backward pass runs now


def _begin(profiler: Profiler) -> None:
    _AT_WORK.append(profiler)
    if len(_AT_WORK) == 1:
        RUNNERS.append(_run)


def _end(profiler: Profiler) -> None:
    _AT_WORK.remove(profiler)
    if not _AT_WORK:
        RUNNERS.remove(_run)


def _run(program: Compiled, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Runs the programs of compiled calls, with a clock inside where there can be one."""
    timed = _timed(program)
    start = perf_counter()
    outs: tuple[Any, ...] = (timed or program._executable)(*arrays)
    seconds = perf_counter() - start
    for profiler in tuple(_AT_WORK):
        profiler.ran(program, timed, seconds)
    return outs


def _key(record: Record) -> Key:
    name = "input" if record.op is None else record.op.name
    if record.op is FUNCTION and (program := program_of(record.attrs)) is not None:
        name = _called(program)
    return record.code, record.lasti, name


def _called(program: Compiled) -> str:
    return f"function `{program.name.removesuffix('_forward')}`"


def _timed(program: Compiled) -> TimedExecutable | None:
    """The program with a clock; None where another backend runs it."""
    if not isinstance(program._executable, Executable):
        return None
    timed = _TIMED.get(program)
    if timed is None:
        timed = _TIMED[program] = TimedExecutable(program.optimized, program.name)
    return timed


def _spread(tally: Tally, timed: TimedExecutable, backward: bool) -> None:
    ticker = timed.ticker
    for operation, seconds, count in zip(timed.operations, ticker.seconds, ticker.counts, strict=True):
        if count and operation.loc is not None:
            entry = tally.inner.setdefault((operation.loc.file, operation.loc.line, operation.op.name), [0, 0.0, 0.0])
            if not backward:
                entry[0] += count
            entry[1 + backward] += seconds


def _inner(tally: Tally) -> list[MeasuredLine]:
    return [
        MeasuredLine((file, line), op, int(count), forward, backward, 0, [])
        for (file, line, op), (count, forward, backward) in tally.inner.items()
    ]


def _place(code: CodeType | Line | None, lasti: int) -> tuple[str, int] | None:
    return None if code is None else location(code, lasti)


def _arrays(value: object) -> list[Any]:
    """The arrays of a value: a list of the program has one per item."""
    if isinstance(value, TensorList):
        return [array for item in value for array in _arrays(item)]
    return [value] if isinstance(value, np.ndarray) else []


def _kept(record: Record) -> list[Any]:
    """The arrays that stay alive because of a record; variables and watched tensors live anyway."""
    if record.op is None or record.op is PART:
        return []
    if record.op is FUNCTION and not (record.saved and record.saved[0].__class__ is OutputRecipe):
        saved = (record.attrs or {}).get("saved", ())
        return [array for value in saved for array in _arrays(value)]
    if record.saved and record.saved[0].__class__ is OutputRecipe:
        value = record.saved[0].value
        values = value if isinstance(value, tuple) else (value,)
        return [array for v in values for array in _arrays(v)]
    arrays: list[Any] = []
    for (index, spec), value in zip(save_plan(record.op).entries, record.saved, strict=False):
        if spec or value is None:
            continue
        values = value if isinstance(value, tuple) else (value,)
        for i, one in enumerate(values):
            node = record if index < 0 else record.nodes[index + i]
            if isinstance(one, np.ndarray) and (node is None or node.op is not None):
                arrays.append(one)
    return arrays
