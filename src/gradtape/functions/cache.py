"""The programs of one function (or of one object's method): found by key and guards, bounded, freed with what they serve.

A key maps to programs that differ by what they read (`guards.py`); the least recently used program goes when there are
more than `maxsize`. Keys hold objects weakly: when one dies, its programs go at once, without the garbage collector.
`Generality` knows which dimensions are symbols. Invariant: nothing here refers to the function, its arguments or its object.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from numpy import generic, ndarray

from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Tensor
from gradtape.functions.retracing import Reason, nearest
from gradtape.functions.signature import BoundCall, Leaf, Numbered
from gradtape.ir.dims import match, symbols_in
from gradtape.ir.types import TensorSpec

MAXSIZE = 64  # programs per function
_SHORT = 4  # programs that calls try before they make a key
_LOG = 100  # traces that `explain` can tell about
_PATIENCE = 10.0  # seconds a thread waits for another one's trace before it makes its own


class CacheInfo(NamedTuple):
    """Counts of a function's cache, as `functools.lru_cache` gives them."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class ShortWay(Protocol):
    """How calls of one signature reach their program without a key (`fast_call.py`)."""

    traced: Traced
    check: Callable[[], bool] | None
    run: Callable[..., Any]
    record: Callable[..., Any]


class Traced:
    """A program with what is known about its trace."""

    __slots__ = (
        "check", "constraints", "key", "leaves", "number", "program", "reasons", "seconds", "short", "shortened", "specs",
        "used",
    )  # fmt: skip

    def __init__(
        self, key: Any, program: Any, specs: list[Any], leaves: list[Leaf], reasons: list[Reason], seconds: float, number: int
    ):
        self.key, self.program, self.specs, self.leaves = key, program, specs, leaves
        self.reasons, self.seconds, self.number = reasons, seconds, number
        self.used = 0
        self.short: ShortWay | None = None
        self.shortened = 0  # how often a short way was written
        self.check = _check_of(program)
        inputs = frozenset().union(*[symbols_in(spec) for spec in specs])
        # equations with other symbols (the length of a list, ...) are checked by the program as it runs
        self.constraints = [c for c in program.constraints if symbols_in(c.left) | symbols_in(c.right) <= inputs]

    def fits(self, tensors: Sequence[Any]) -> bool:
        """Whether the equations between symbolic dimensions that the program counts on hold for these inputs; among ranks, also
        whether they are of the kinds that it counts on."""
        if any(HOOKS.rank_kind(tensors[i]) is not kind for i, kind in self.program.kinds):
            return False
        if not self.constraints:
            return True
        env: dict[str, Any] = {}
        for spec, tensor in zip(self.specs, tensors, strict=True):
            match(spec, tensor._data.type if tensor.wraps else tensor, env)
        return all(c.holds(env) for c in self.constraints)


def _check_of(program: Any) -> Callable[[], bool] | None:
    """Whether the world is still what the program was made for: its guards, and the types of what it captured."""
    guarded: Callable[[], bool] | None = program.guards.check
    captures = [
        (c, c.read, tuple(c.spec.shape), c.spec.dtype.dtype)
        for c in program.captures
        if c.kind != "versions" and (c.kind != "number" or c.target is not None) and isinstance(c.spec, TensorSpec)
    ]  # fmt: skip
    if not captures:
        return guarded

    def check() -> bool:
        if guarded is not None and not guarded():
            return False
        for capture, read, shape, dtype in captures:
            value = read()
            data = value._data if value.__class__ is Tensor else value
            # the usual things are compared here, without making a message; `changed` looks at all others
            if data.__class__ is ndarray or isinstance(data, generic):
                if data.shape != shape or data.dtype != dtype:
                    return False
            elif capture.changed() is not None:
                return False
        return True

    return check


class Cache:
    """Programs by key. Reading needs no lock; changes are single dictionary operations or run under `tracing`."""

    def __init__(self, maxsize: int = MAXSIZE) -> None:
        self.maxsize = maxsize
        self.hits = 0
        self.misses = 0
        self.traces = 0
        self.retraces = 0  # for Python values and shapes: what the warning counts
        self.warned = False
        self.short: tuple[ShortWay, ...] = ()  # of the programs that were found last, the last one first
        self.clock = 0  # counts uses
        self.notes: dict[str, None] = {}  # for explain: what was refused and done otherwise
        self.log: list[str] = []  # one line per trace, also of programs that are gone
        self._entries: dict[Any, list[Traced]] = {}
        self._watchers: dict[Any, list[Any]] = {}
        self._last: list[Leaf] | None = None
        self._lock = threading.RLock()
        self._busy = threading.local()

    # -- finding -------------------------------------------------------------------------------------------------------

    def find(self, key: Any, tensors: Sequence[Any]) -> Traced | None:
        """The program for a key whose guards and equations hold; it becomes the most recently used one."""
        for traced in self._entries.get(key, ()):
            if (traced.check is None or traced.check()) and traced.fits(tensors):
                self.clock = traced.used = self.clock + 1
                return traced
        return None

    def unfit(self, key: Any, tensors: Sequence[Any]) -> bool:
        """Whether a program for the key is there, unchanged, but counts on other sizes."""
        return any((t.check is None or t.check()) and not t.fits(tensors) for t in self._entries.get(key, ()))

    def why(self, key: Any, leaves: Sequence[Leaf], tensors: Sequence[Any]) -> list[Reason]:
        """Why there is no program for a call: a guard of one that has the key, or the difference to the nearest call."""
        for traced in reversed(self._entries.get(key, ())):
            # the newest first: it was made for the world as it was last
            text = traced.program.changed()
            if text is not None:
                return [Reason("guard", text)]
        histories = [traced.leaves for traced in self.all()]
        if self._last is not None:
            histories.append(self._last)
        if any(list(leaves) == old for old in histories):
            refused = any(not traced.fits(tensors) for traced in self._entries.get(key, ()))
            text = "the program for these arguments was dropped to keep the cache small"
            own = Reason("shape", "the sizes, or kinds among ranks, need a program of their own")
            return [own if refused else Reason("dropped", text)]
        return nearest(histories, leaves)

    def all(self) -> list[Traced]:
        """Every program, oldest trace first."""
        known = [traced for programs in list(self._entries.values()) for traced in programs]
        return sorted(known, key=lambda traced: traced.number)

    def info(self) -> CacheInfo:
        return CacheInfo(self.hits, self.misses, self.maxsize, sum(map(len, list(self._entries.values()))))

    # -- changing ------------------------------------------------------------------------------------------------------

    def add(self, traced: Traced, objects: Sequence[Any]) -> None:
        """Keep a program; `objects` are those its key holds weakly."""
        self.clock = traced.used = self.clock + 1
        self._last = traced.leaves
        key = traced.key
        # (what it was made for is gone, so its guards can never hold again)
        programs = [old for old in self._entries.get(key, ()) if not old.program.guards.expired()]
        if key not in self._entries and objects:
            self._watchers[key] = [weakref.ref(target, _remover(weakref.ref(self), key)) for target in objects]
        self._entries[key] = [*programs, traced]
        while self.info().currsize > self.maxsize:
            self._drop(min(self.all(), key=lambda old: old.used))

    def record(self, traced: Traced) -> None:
        """A line about a trace, for `explain`; the latest ones are kept."""
        reasons = "; ".join(reason.text for reason in traced.reasons)
        self.log.append(f"trace {traced.number}: {reasons}  [{traced.seconds * 1e3:.1f} ms]")
        del self.log[:-_LOG]

    def prefer(self, short: ShortWay) -> None:
        """Try this short way first from now on."""
        others = [other for other in self.short if other.traced is not short.traced]
        self.short = (short, *others[: _SHORT - 1])

    def _drop(self, traced: Traced) -> None:
        programs = [old for old in self._entries.get(traced.key, ()) if old is not traced]
        if programs:
            self._entries[traced.key] = programs
        else:
            self.discard(traced.key)
        self._forget_short({id(traced)})

    def discard(self, key: Any) -> None:
        """Drop the programs of a key: an object in it is gone."""
        gone = self._entries.pop(key, [])
        self._watchers.pop(key, None)
        self._forget_short({id(traced) for traced in gone})

    def _forget_short(self, gone: set[int]) -> None:
        self.short = tuple([short for short in self.short if id(short.traced) not in gone])

    def clear(self) -> None:
        """Drop all programs and counts."""
        self.short = ()
        self._entries.clear()
        self._watchers.clear()
        self.notes.clear()
        self.log.clear()
        self._last = None
        self.hits = self.misses = self.traces = self.retraces = 0
        self.warned = False

    # -- tracing -------------------------------------------------------------------------------------------------------

    @contextmanager
    def tracing(self, key: Any) -> Iterator[bool]:
        """One trace at a time, so that threads do not trace the same call twice; gives False where a call with this key
        is being traced by this very thread already: the function calls itself.

        A thread does not wait for ever: two functions that call each other may be traced in both orders, or a trace may
        wait for a thread that needs it. Tracing twice is slow, not wrong.
        """
        held = self._lock.acquire(timeout=_PATIENCE)
        stack: list[Any] = self._busy.__dict__.setdefault("keys", [])
        first = key not in stack
        stack.append(key)
        try:
            yield first
        finally:
            stack.pop()
            if held:
                self._lock.release()


def _remover(cache: weakref.ref[Cache], key: Any) -> Callable[[Any], None]:
    def remove(_: Any) -> None:
        alive = cache()
        if alive is not None:
            alive.discard(key)

    return remove


# -- which dimensions are symbols -------------------------------------------------------------------------------------

Pattern = tuple[tuple[Any, ...], ...]  # a shape per tensor; None for a dimension of any size


class Generality:
    """Patterns of shapes by family of calls (same ranks, dtypes and static values).

    A family that was seen with two sizes of a dimension gets a pattern with None there (`reduce_retracing`). Families whose
    trace needed a size (`StaticDimensionNeeded`) are refused: they are traced per shape.
    """

    def __init__(self) -> None:
        self._patterns: dict[Any, Pattern] = {}
        self._refused: dict[Any, None] = {}

    def pattern(self, call: BoundCall) -> Pattern | None:
        """The pattern with symbols that a call fits, or None."""
        pattern = self._patterns.get(call.family())
        return (
            pattern
            if pattern is not None and (call.family(), pattern) not in self._refused and fits(pattern, call.shapes)
            else None
        )

    def opened(self, call: BoundCall) -> Pattern | None:
        """The pattern of a call whose types have symbolic dimensions, noted for later calls; None if it has none."""
        pattern = tuple(tuple(None if isinstance(d, Numbered) else d for d in shape) for shape in call.shapes)
        if not any(None in shape for shape in pattern):
            return None
        self._patterns.setdefault(call.family(), pattern)
        return pattern

    def seen(self, call: BoundCall) -> Pattern | None:
        """Note a call that has no program; the pattern to trace it with, or None for its own shapes."""
        family = call.family()
        # a bound for programs whose Python arguments never come twice; sizes that vary are noticed again soon
        if len(self._patterns) >= 4 * MAXSIZE:
            self._patterns.clear()
        known = self._patterns.get(family)
        if known is None:
            self._patterns[family] = tuple(call.shapes)
            return None
        merged = tuple(
            tuple(a if a == b else None for a, b in zip(old, new, strict=True))
            for old, new in zip(known, call.shapes, strict=True)
        )
        if not any(None in shape for shape in merged):
            return None
        self._patterns[family] = merged
        return None if (family, merged) in self._refused else merged

    def refuse(self, family: Any, pattern: Pattern) -> None:
        if len(self._refused) >= 4 * MAXSIZE:
            self._refused.clear()
        self._refused[family, pattern] = None

    def refused(self, family: Any, pattern: Pattern) -> bool:
        return (family, pattern) in self._refused


def fits(pattern: Pattern, shapes: Sequence[tuple[Any, ...]]) -> bool:
    """Whether shapes are of the pattern's form; ranks are equal within a family."""
    return any(None in shape for shape in pattern) and all(
        a is None or a == b
        for old, new in zip(pattern, shapes, strict=True)
        for a, b in zip(old, new, strict=True)
    )  # fmt: skip
