"""What a tape remembers: records, the keys that say which tapes own them, and the scope that says who records now.

A `Record` is one executed operation and at the same time the identity of the tensor version it produced: tensors and
later records point to it, so a record nobody can reach any more is recognised by its reference count and dropped.
Records point to `TapeKey`s, never to tapes, and tapes own lists of records: there are no cycles.
What happens to watched values where nobody records (`Past`, and the exits in `core/exits.py`) is kept for `tape.explain` only.
This file knows nothing about derivatives.
"""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from sys import _getframe, getrefcount
from threading import Lock, RLock
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy import ndarray

from gradtape.core.hinting import Completing
from gradtape.core.hooks import HOOKS, ProgramTrace


def _unshared() -> int:
    item = [object()].pop()
    return getrefcount(item)


# what getrefcount says of an object that only one local name holds: 2, or 1 where arguments are borrowed
UNSHARED = _unshared()
WATCHING = RLock()  # taken while a version gets one more watcher: threads may share tensors and variables

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Clock:
    """Counts what tapes do (enter, pause, resume, leave), so that `explain` can say what ran before and what after; `open` are
    the tapes that were entered and may still be asked: while there is none, nobody wants to know more than variables. A set,
    since threads and the garbage collector open and close tapes too: adding and discarding are single steps."""

    __slots__ = ("now", "open")

    def __init__(self) -> None:
        self.now = 0
        self.open: set[TapeKey] = set()


CLOCK = Clock()


class TapeKey:
    """The identity of one recorder. `open` turns False when its tape is spent or closed; `holds` says it keeps a list."""

    __slots__ = ("exits", "history", "holds", "open")

    def __init__(self, holds: bool) -> None:
        self.open = True
        self.holds = holds
        self.history: list[tuple[int, str]] = []  # (time, what began then): "recording", "paused", "left"
        self.exits: dict[Any, Any] | None = None  # where watched values became NumPy arrays or numbers (core/exits.py)

    def became(self, state: str) -> None:
        """The tape does something else from now on. Called before the scope changes: scopes carry the time they began."""
        now = CLOCK.now = CLOCK.now + 1
        # (when it is entered first: a tape that was only made cannot be asked for anything)
        if not self.history and self.open:
            CLOCK.open.add(self)
        self.history.append((now, state))

    def close(self) -> None:
        """The tape is spent, closed or deleted."""
        self.open = False
        CLOCK.open.discard(self)

    def state_at(self, time: int) -> str:
        """What the tape did then: "before" it was entered, or a state of its history."""
        return next((state for since, state in reversed(self.history) if since <= time), "before")


class Record:
    """One operation that ran while a tape was watching, or (op None) one watched leaf."""

    __slots__ = ("__weakref__", "attrs", "code", "keys", "lasti", "nodes", "op", "saved", "shape", "when")
    op: Any  # Op, or None for a leaf
    nodes: tuple[Record | None, ...]  # the version each input was, None for a constant
    saved: tuple[Any, ...]  # in the order of the op's save plan; None where no rule needs the value
    attrs: dict[str, Any] | None
    keys: tuple[TapeKey, ...]  # the recorders that know this version
    shape: Any  # of the output; for several outputs a tuple of (shape, dtype)
    code: CodeType | Line | None  # the user's code object ...
    lasti: int  # ... and instruction offset: `location` makes file and line of them
    when: int | tuple[int, tuple[Unwatched, ...]]  # the clock; and what its recorders do not know of its inputs

    @property
    def location(self) -> tuple[str, int] | None:
        """File and line of the user's call, resolved when asked."""
        return None if self.code is None else location(self.code, self.lasti)


Nodes = tuple[Record | None, ...]  # the versions of an operation's inputs, None for a constant
Keys = tuple[TapeKey, ...]


def location(code: CodeType | Line, lasti: int) -> tuple[str, int]:
    """File and line of an instruction."""
    # a code object and an offset are kept and not a line: finding the line takes longer than recording the operation
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return code.co_filename, line
    return code.co_filename, code.co_firstlineno


class Line:
    """A line of the user's in the place of a code object: of a record made by running a program operation by operation."""

    __slots__ = ("co_filename", "co_firstlineno", "co_name")

    def __init__(self, file: str, line: int, name: str) -> None:
        self.co_filename = file
        self.co_firstlineno = line
        self.co_name = name

    def co_lines(self) -> tuple[tuple[int, int, int | None], ...]:
        """No instructions: the line is the first one."""
        return ()


class Unwatched(Record):
    """Stands where a version would stand whose value no recorder knows (`keys` is empty): it says where the value came from,
    for `tape.explain`, and leads to no values. A `VariableKey`, a `Blend` of several, or a `Past`."""

    __slots__ = ()
    op = None
    nodes = ()
    saved = ()
    attrs = None
    keys = ()
    shape = ()
    code = None
    lasti = 0
    when = 0
    size = 1
    noted = False


class VariableKey(Unwatched):
    """The identity of a variable inside records: no reference back to the variable, so no cycle."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Blend(Unwatched):
    """Of a value computed from several unwatched ones; `noted` if all of them have a past."""

    __slots__ = ("noted", "parts", "size")
    noted: bool
    parts: tuple[Unwatched, ...]
    size: int


class RankKind(Unwatched):
    """What several ranks know of a value that nobody watches: whether it may differ between them (`LOCAL`), or is the same on
    all because of how it was computed (`REPLICATED`). Where one process runs alone there is none."""

    __slots__ = ("name",)
    noted = True

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class Past(Unwatched):
    """Of a value that was computed while tapes were open, but not recorded: the first such operation, where and when. `origin`
    is a weak reference to the version it was applied to, or None, and `variable` the key of the variable whose version that
    was, or None. What is computed later has the same past."""

    __slots__ = ("code", "kind", "lasti", "op", "origin", "variable", "when")
    noted = True
    kind: RankKind | None  # among several ranks
    op: Any
    code: Any
    lasti: int
    when: int
    origin: Any
    variable: VariableKey | None


LOCAL, REPLICATED = RankKind("local"), RankKind("replicated")


def join_kinds(kinds: Iterable[RankKind | None]) -> RankKind | None:
    """Of what is computed from values of these kinds (None: from numbers)."""
    kinds = set(kinds)
    return LOCAL if LOCAL in kinds else REPLICATED if REPLICATED in kinds else None


_MANY = 64  # blends after which one is written down anew ...
_FEW = 32  # ... with so many parts: a sum over thousands of losses must not remember them all


def past_of(op: Any, nodes: Iterable[Record | None]) -> Unwatched | None:
    """What to keep in mind of a value that was computed from versions `nodes` and is not recorded."""
    past: Any = None
    noted = CLOCK.open
    for node in nodes:
        if node is None or node is past:
            continue
        # while no tape is open, only the variable that a value came from is kept in mind: that costs one attribute
        if noted:
            # (what has a past keeps it: the first line that was not seen is the one to tell)
            if node.__class__ is not Past and node.__class__ is not RankKind:
                node = _begun(op, node) if node.__class__ is not Blend else _all_begun(op, node)
        elif node.keys and (node := _lasting(node)) is None:
            continue
        past = node if past is None or node is past else _blended(past, node)  # type: ignore[arg-type]
    return past


def past_of_pair(op: Any, a: Any, b: Any) -> Any:
    """The same for two versions, quicker."""
    if CLOCK.open:
        return past_of(op, (a, b))
    if a is not None and a.keys:
        a = _lasting(a)
    if b is not None and b.keys:
        b = _lasting(b)
    if b is None or a is b:
        return a
    return b if a is None else _blended(a, b)


def _lasting(node: Record) -> VariableKey | RankKind | None:
    """What is left to know of a version when all tapes that knew it are closed: its variable; among ranks, its kind."""
    return _variable_of(node) or kind_of(node)


def _variable_of(node: Record) -> VariableKey | None:
    known = node.nodes[0] if node.op is None and node.nodes else None
    return known if isinstance(known, VariableKey) else None


def kind_of(node: Record) -> RankKind | None:
    """What ranks must remember of a version; None where one process runs alone."""
    return None if HOOKS.kind_of is None else HOOKS.kind_of(node)


def pasts(op: Any, nodes: Iterable[Record | None], known: set[TapeKey]) -> tuple[Unwatched, ...]:
    """What to keep in mind of those inputs of a recorded operation that its recorders do not know."""
    return tuple([
        n if isinstance(n, Unwatched) else _begun(op, n) for n in nodes if n is not None and known.isdisjoint(n.keys)
    ])  # fmt: skip


def _begun(op: Any, node: Record) -> Past:
    frame = user_frame(2)
    past = Past()
    # weak: what is kept for a message must not keep the values of a record alive
    past.origin = weakref.ref(node) if node.keys else None
    past.variable = _variable_of(node) if node.keys else node  # type: ignore[assignment]
    past.kind = kind_of(node)
    past.op = op
    past.code = frame.f_code
    past.lasti = frame.f_lasti
    past.when = CLOCK.now
    return past


def _all_begun(op: Any, blend: Blend) -> Blend:
    if blend.noted:
        return blend
    new = Blend()
    new.parts = tuple([part if part.noted else _begun(op, part) for part in blended(blend)])
    new.size = len(new.parts)
    new.noted = True
    return new


def _blended(a: Unwatched, b: Unwatched) -> Blend:
    if a.__class__ is Blend and b in a.parts:
        return a
    blend = Blend()
    blend.parts = (a, b)
    blend.noted = a.noted and b.noted
    size = blend.size = a.size + b.size
    # kinds of ranks are kept whatever their age: they are no story for a message, results depend on them
    if size > _MANY:
        parts = blended(blend)
        blend.parts = (*(part for part in parts[:-_FEW] if part.__class__ is RankKind), *parts[-_FEW:])
        blend.size = len(blend.parts)
    return blend


def blended(node: Unwatched) -> list[Unwatched]:
    """What a value was computed from that nobody watches: each once, the oldest first, no blends among them."""
    parts: dict[Unwatched, None] = {}
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, Blend):
            stack.extend(reversed(part.parts))
        else:
            parts.setdefault(part)
    return list(parts)


def past_of_leaf(node: Record | None) -> tuple[Unwatched, ...]:
    """What the leaf of a value remembers of its version before: of one that closed tapes knew, only its kind among ranks."""
    if isinstance(node, Unwatched):
        return (node,)
    kind = None if node is None else kind_of(node)
    return () if kind is None else (kind,)


def leaf(
    keys: Keys, shape: Any, nodes: Nodes = (), op: Any = None, attrs: Any = None, code: Any = None, lasti: int = 0,
    when: Any = 0,
) -> Record:  # fmt: skip
    """The record of a watched value, with no operation (`nodes`: its variable, its past); or of an `op` that saved nothing."""
    record = Record()
    record.op = op
    record.nodes = nodes
    record.saved = ()
    record.attrs = attrs
    record.keys = keys
    record.shape = shape
    record.code = code
    record.lasti = lasti
    record.when = when or CLOCK.now
    return record


class RecordList(list[Record]):
    """The records of one tape in execution order, dropping unreachable ones as it grows.

    `budget` counts down by the size of what is recorded; when it is used up, `sweep` runs. It visits newest first, so
    one pass frees whole dead chains, and the next budget is the size of what survived: the cost is amortised O(1).
    """

    __slots__ = ("_granted", "_sweeping", "budget", "complex")
    FLOOR = 4_000_000

    def __init__(self) -> None:
        self.budget = self._granted = self.FLOOR
        self._sweeping = Lock()
        self.complex = False  # True once a complex value was recorded: rules then conjugate partials

    def sweep(self) -> None:
        """Drop what nobody can reach. Other threads may append meanwhile; only one sweeps at a time."""
        # (who finds another thread at it goes on recording)
        if not self._sweeping.acquire(blocking=False):
            return
        try:
            freed_tangents = True
            before = len(self)
            dropped = 0
            while freed_tangents:  # a dead record lets go of its tangents, which stand after it: look again
                freed_tangents = False
                dead: set[int] = set()
                size = 0
                count = len(self)
                for place in range(count - 1, -1, -1):
                    record = self[place]
                    # references left: the local name, and each open tape that lists or keeps it, this one included
                    holders = sum(key.holds and key.open for key in record.keys)
                    if getrefcount(record) <= UNSHARED + holders:
                        record.nodes = ()
                        record.saved = ()
                        record.attrs = None
                        dead.add(place)
                        freed_tangents = freed_tangents or not all([key.holds for key in record.keys])  # noqa: C419  (quicker)
                        continue
                    size += 200 + sum(value.nbytes for value in record.saved if value.__class__ is ndarray)
                # only the part that was looked at: what other threads appended meanwhile stays behind it
                self[:count] = [record for place, record in enumerate(self[:count]) if place not in dead]
                dropped += len(dead)
            # values the records do not hold count against the budget too: if little was dropped, wait longer next time
            patience = 2 * self._granted if dropped * 2 < before else 0
            self.budget = self._granted = max(self.FLOOR, size, patience)
        finally:
            self._sweeping.release()


def forget(records: RecordList, skeleton: bool) -> None:
    """Drop what the records of a closed tape hold, newest first; `skeleton` keeps what was computed from what. Versions that
    another open tape knows keep everything."""
    keys: Any = None
    shared = False
    for record in reversed(records):
        if record.keys is not keys:  # records share few tuples of keys: ask once per run of the same one
            keys = record.keys
            shared = any([key.open for key in keys])  # noqa: C419  (quicker than a generator)
        if shared:
            continue
        record.saved = ()
        if not skeleton:
            record.nodes = ()
            record.attrs = None
        elif record.attrs is not None:  # index arrays, and what a custom gradient function captured
            keep = record.op.skeleton
            record.attrs = None if keep is None else keep(record.attrs)


class Recorder(Completing):
    """Who may stand in a scope: a tape, a forward accumulator. What it is told and asked, with the answers of one that wants
    nothing; its attributes are set by those who inherit."""

    __slots__ = ()

    _INTERNAL = """
        add_assignment add_observer add_version carries carry communicated key level meets_world recorded recorded_derivative
        records sites slow watches
    """

    if TYPE_CHECKING:
        key: TapeKey  # what versions know it by
        level: int  # inside how many batching evaluators it was entered
        slow: bool  # it wants to be told of each record
        records: RecordList  # if its key `holds`

    def watches(self, variable: Any) -> bool:
        """Asked by a variable that is read: whether to follow it."""
        return False

    def carries(self, node: Record) -> bool:
        """Asked of one without a list: whether it has a tangent of a version."""
        return False

    # told by a variable of a version that is watched, of a watched value assigned; that a version got another identity; before
    # a derivative computation is recorded (of a tape asked at this instruction, or tangents: code None); of a record, if `slow`
    def add_version(self, variable: Any, node: Record) -> None: ...
    def add_assignment(self, variable: Any, node: Record) -> None: ...
    def carry(self, old: Record | None, new: Record) -> None: ...
    def recorded_derivative(self, code: CodeType | None, lasti: int) -> None: ...
    def recorded(self, record: Record, inputs: Any, nodes: Any, out: Any) -> None: ...
    # told before an operation between ranks of what stands for the other ranks in it; and of its record
    def meets_world(self, world: Record) -> None: ...
    def communicated(self, record: Record, dtype: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Examples:
    """The examples of one `vectorized_map`: how many, and what hides their axis behind a batched tensor of some level."""

    count: int
    hide: Callable[[Any, int], Any]


Batches = tuple[Examples | None, ...]


class AskedAt(NamedTuple):
    """The user's instruction whose doing everything is that derivative rules do; with the names that frames have."""

    f_code: CodeType
    f_lasti: int


class RecordingScope:
    """Who records in this thread now: an immutable snapshot of the stack of tapes and forward accumulators.

    `recorders` are entered outermost first. `batches` are the batching evaluators that are active, outermost first, None
    for one whose rows share a single run (a Jacobian); `level` counts them, and a recorder's own `level` says inside how
    many of them it was entered. `fast` is `keys` when only plain tapes record: the hot path of dispatch; `covers` are the
    key tuples seen so far that contain all of them, `meets` those that contain any. `listeners` want to be told of each
    record, outermost first: the tangents of an inner accumulator are computed from values whose outer tangents must be
    known. `when` is the time it began, `code` the user's code that was met last, which dispatch recognises at a glance,
    `orders` how many derivatives of one another may be asked for (0: not looked at yet; see `functions/compiled.py`), `site`
    who asked for the backward pass that is recorded, if it is one.
    """

    __slots__ = (
        "batches", "code", "covers", "fast", "keys", "level", "listeners", "lists", "meets", "orders", "passed", "recorders",
        "records", "site", "subsets", "when",
    )  # fmt: skip

    def __init__(self, recorders: tuple[Recorder, ...], batches: Batches = ()) -> None:
        self.recorders = recorders
        self.batches = batches
        self.level = len(batches)
        self.when = CLOCK.now
        self.code: CodeType | None = None
        self.orders = 0
        self.site: AskedAt | None = None
        keys: Keys = ()
        lists: list[RecordList] = []
        for recorder in recorders:
            key = recorder.key
            keys += (key,)
            if key.holds and not recorder.slow:
                lists.append(recorder.records)
        plain = 0 < len(recorders) == len(lists)
        self.keys = keys
        self.subsets: dict[Keys, Keys] = {keys: keys}
        self.listeners = () if plain else tuple([r for r in recorders if r.slow or not r.key.holds])
        self.lists: list[RecordList] = lists if plain else []
        self.fast = keys if plain else None
        self.covers: set[Keys] = set()
        self.meets: set[Keys] = set()
        self.passed: set[VariableKey] = set()  # variables that were read and that no recorder watches
        self.records: RecordList | None = lists[0] if plain and len(lists) == 1 else None

    def with_recorder(self, recorder: Recorder) -> RecordingScope:
        return RecordingScope((*self.recorders, recorder), self.batches)

    def at(self, frame: FrameType) -> tuple[RecordingScope, AskedAt]:
        """The same recorders, while the backward pass is recorded that somebody asked for in this frame; and where that is."""
        twin = RecordingScope(self.recorders, self.batches)
        # the same objects, not copies: what one scope learns of key tuples holds for the other, whose recorders are the same
        twin.covers, twin.meets, twin.subsets, twin.passed = self.covers, self.meets, self.subsets, self.passed
        twin.when = self.when
        site = twin.site = AskedAt(frame.f_code, frame.f_lasti)
        return twin, site

    def without(self, recorder: Recorder) -> RecordingScope:
        if self.recorders == (recorder,) and not self.level:  # nearly always
            return NOBODY
        rest = tuple([r for r in self.recorders if r is not recorder])
        return self if len(rest) == len(self.recorders) else RecordingScope(rest, self.batches)

    def below(self, level: int) -> RecordingScope:
        """What is outside the batching evaluator of this level: its inner operations run there."""
        return RecordingScope(tuple(r for r in self.recorders if r.level < level), self.batches[: level - 1])

    def inside(self, level: int) -> RecordingScope:
        """The recorders entered inside the batching evaluator of this level: they see its wrapped operations."""
        return RecordingScope(tuple(r for r in self.recorders if r.level >= level), self.batches)

    def subset(self, nodes: tuple[Record | None, ...]) -> tuple[TapeKey, ...]:
        """The keys of this scope that watch any of `nodes`, as one shared tuple per subset."""
        known = {key for node in nodes if node is not None for key in node.keys}
        wanted = tuple([key for key in self.keys if key in known])
        return self.subsets.setdefault(wanted, wanted)


NOBODY = RecordingScope(())
SCOPE: ContextVar[RecordingScope | None] = ContextVar("gradtape_scope", default=None)
TRACING: ContextVar[ProgramTrace | None] = ContextVar("gradtape_trace", default=None)  # the program being traced, if any


def enter_scope(scope: RecordingScope) -> None:
    """Make `scope` the current one; an empty one is None, which dispatch tests first."""
    SCOPE.set(scope if scope.recorders or scope.level else None)


def enter(recorder: Recorder) -> int:
    """The recorder's block begins: it records in this thread, inside whoever records already. Gives its level."""
    scope = SCOPE.get() or NOBODY
    recorder.key.became("recording")
    SCOPE.set(scope.with_recorder(recorder))
    return scope.level


def leave(recorder: Recorder) -> None:
    """The recorder's block ends."""
    recorder.key.became("left")
    enter_scope((SCOPE.get() or NOBODY).without(recorder))


@contextmanager
def scope_of(scope: RecordingScope) -> Iterator[None]:
    """Run a block in another scope."""
    before = SCOPE.get()
    enter_scope(scope)
    try:
        yield
    finally:
        SCOPE.set(before)


def current_scope() -> RecordingScope:
    """The scope of this thread, empty if nobody records."""
    return SCOPE.get() or NOBODY


# file names of gradtape's own code, whose frames are not the user's line; `ad/binding.py` adds the rules it compiles
INTERNAL: set[str] = set()
for _folder, _folders, _names in os.walk(_ROOT):
    _folders[:] = [_name for _name in _folders if _name != "__pycache__"]  # where as many files are again
    INTERNAL.update(os.path.join(_folder, _name) for _name in _names if _name.endswith(".py"))
RULES: set[str] = set()  # those of them in which only derivative rules run: what is recorded there is nobody's line


def user_frame(depth: int) -> Any:
    """The innermost frame that is not gradtape's own, starting `depth` frames up."""
    frame = _getframe(depth + 1)
    while frame.f_code.co_filename in INTERNAL and frame.f_back is not None:
        frame = frame.f_back
    return frame


def warn_at(frame: Any, line: int, message: str, category: type[Warning]) -> None:
    """A warning at a line of the user's, once for each line as Python counts it."""
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, category, frame.f_code.co_filename, line, frame.f_globals.get("__name__"), registry)


def user_location() -> str:
    """ "file:line" of the user's code that called into gradtape, for messages."""
    frame = user_frame(1)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
