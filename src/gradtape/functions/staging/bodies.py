"""A branch or loop body, traced into a block and undone again: what it ended with.

Everything the body may have changed (the names AutoGraph lists, and every place it wrote to: `places.py`) is kept as
it was at the end, then everything is put back: two branches, or a loop traced again, start from the same state. Objects that
the body made itself and nobody else holds are not its state; they are part of the values it ended with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from gradtape.core.tensor import Tensor
from gradtape.functions.staging.aliasing.conditions import Flag
from gradtape.functions.staging.aliasing.escape import Escape
from gradtape.functions.staging.aliasing.object_parts import Sight, children, everything_in, has_identity, parts_of
from gradtape.functions.staging.joins import Phi, tensors_in
from gradtape.functions.staging.places import Attribute, Cell, Content, Global, Log, VariableValue
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.ir.graph import Block, Value
from gradtape.trace.effects import active
from gradtape.trace.tracing import TracedTensor, current_trace
from gradtape.tree import LeafTuple, like

Dead = tuple[tuple[int, ...], tuple[int, ...]]  # per side of a branch: places of names whose values nobody reads afterwards
BOTH_LIVE: Dead = ((), ())


class State:
    """The names a construct assigns: how to read and set them, what they are called, and the line.

    Of a branch, `dead` says which of them count no more after each side.
    """

    __slots__ = ("dead", "get", "line", "names", "set")

    def __init__(
        self,
        get: Callable[[], tuple[Any, ...]],
        set: Callable[[Any], None],
        names: Sequence[str],
        line: int,
        dead: Dead = BOTH_LIVE,
    ) -> None:
        self.get = get
        self.set = set
        self.names = tuple(names)
        self.line = line
        self.dead = dead

    def forget(self, log: Log) -> None:
        """Names that are state are no places as well: a function inside may have noted that it changes them."""
        for cell in getattr(self.get, "__closure__", None) or ():
            log.entries.pop(("cell", id(cell)), None)

    def labels(self) -> list[str]:
        """What messages call the names."""
        return [f"`{name}`" for name in self.names]


NO_STATE = State(lambda: (), lambda values: None, (), 0)


class TracedBody:
    """A body traced into a block, and undone.

    `objects` are the values of the names at the end, the objects themselves; `ends` are their contents as they were then.
    In the same way `contents` and `places` for each place that was written, `result` and `value` for what it returned.
    `assumed` is what holds on this path; places with keys in `known` are state in any case.
    """

    def __init__(
        self,
        block: Block,
        state: State,
        run: Callable[[], Any],
        assumed: tuple[Flag, bool] | None = None,
        known: Collection[Any] = (),
    ) -> None:
        trace, tracer = current_trace(), active()
        aliases = tracer.aliases
        self.block = block
        self.captures: dict[Value, TracedTensor] = {}
        self.log = Log()
        self.own: set[int] = set()  # objects that the body made and nobody else holds
        # Everything read off the end of the path must be read before `undo`: afterwards objects hold what they held at first.
        starts = state.get()
        with aliases.path(starts, assumed) as self.path:
            tracer.logs.append(self.log)
            try:
                with trace.region(block):
                    self.result = run()
                state.forget(self.log)
                self.note_captures()
                self.objects = state.get()
                self.contents = {key: place.read() for key, (place, _) in self.log.entries.items()}
                self.ends = tuple([self.version(end) for end in self.objects])
                self.places = {key: self.version(content) for key, content in self.contents.items()}
                self.value = self.version(self.result)
                self.written = set(self.log.entries)
                self.parts = list(parts_of((*self.objects, *self.contents.values(), self.result)))
                self.path.end(self.parts)
            finally:
                tracer.logs.pop()
                self.log.undo()
                state.set(starts)
        self._find_own(known)

    def version(self, end: Any) -> Any:
        """A value as it was at the end: an object the body wrote to gets its old content back when the body is undone. Objects
        it did not write to stay themselves."""
        if isinstance(end, Tensor):
            return self.contents.get(("tensor", id(end)), end)
        if isinstance(end, Maybe):
            value = self.version(end.value)
            return end if value is end.value else Maybe(end.flag, value, end.missing)
        if end.__class__ is list or (isinstance(end, tuple) and not isinstance(end, LeafTuple)):
            now = self.see(end)
            parts = [self.version(part) for part in now]
            return end if now is end and all(a is b for a, b in zip(parts, end, strict=True)) else like(end, parts)
        if end.__class__ is dict:
            now = self.see(end)
            versions = {key: self.version(part) for key, part in now.items()}
            return end if now is end and all(versions[key] is part for key, part in end.items()) else versions
        return end

    def see(self, value: Any) -> Any:
        """A list or dict as it was at the end."""
        if isinstance(value, list):
            return self.contents.get(("list", id(value)), value)
        return self.contents.get(("dict", id(value)), value) if isinstance(value, dict) else value

    # -- what the body made ----------------------------------------------------------------------------------------

    def _find_own(self, known: Collection[Any]) -> None:
        """What the body made itself and nobody holds any more is not its state."""
        entries = self.log.entries
        aliases = active().aliases
        if not entries and not aliases.tracking:
            return
        targets = [place.target for place, _ in entries.values() if hasattr(place, "target")]
        escape = Escape(aliases.references_to, targets)
        aliases.reference(escape)
        self._reference(escape)
        escape.references(targets)
        escape.count()
        own_places = []  # of objects that the body made, for all that these say
        for key, (place, old) in entries.items():
            if key in known or isinstance(place, (Global, Cell, VariableValue)):
                continue
            target = place.target  # type: ignore[attr-defined]
            # Made by the body, if nobody else has it, or if what it held before this write was computed in the body.
            if target is None or not escape.escapes(target) or not self._existed(old):
                own_places.append(key)
        handed_out = self._handed_out(entries.keys() - set(own_places))
        for key in own_places:
            target = entries[key][0].target  # type: ignore[attr-defined]
            if not (isinstance(entries[key][0], Attribute) and id(target) in handed_out):
                self.own.add(id(target))
                del entries[key]
        for value in (*self.parts, *self.path.references()):
            if has_identity(value) and not escape.escapes(value):
                self.own.add(id(value))

    def _handed_out(self, places: Collection[Any]) -> set[int]:
        """The objects that are reached behind the body, by its names, its result and the `places` of objects from before: what
        their attributes are is asked there, whoever made them."""
        attributes: dict[int, list[Any]] = {}
        for key, (place, _) in self.log.entries.items():
            if isinstance(place, Attribute):
                attributes.setdefault(id(place.target), []).append(self.contents[key])
        # what is only held by such an object is reached by its attributes, which is why this goes on until nothing is new:
        # `node.next = Node(x)` in a branch, and behind it `node.next.value`
        pending = [*self.ends, self.value, *(self.contents[key] for key in places)]
        met: set[int] = set()
        while pending:
            for value in everything_in(pending.pop()):
                if id(value) not in met:
                    met.add(id(value))
                    pending += attributes.get(id(value), ())
        return met

    def _reference(self, escape: Escape) -> None:
        """The references held here."""
        for place, old in self.log.entries.values():
            if isinstance(place, Content):
                escape.reference(place.target)
            escape.reference(old)
        for values in (self.objects, self.ends, self.contents.values(), self.places.values(), (self.result, self.value)):
            escape.references(values)
        escape.references((*self.parts, *self.path.references()))

    def _existed(self, content: Any) -> bool:
        """Whether content can be from before the body: it holds nothing that the body computed."""
        return all(reached(t) for t in tensors_in(content))

    # -- its block -------------------------------------------------------------------------------------------------

    def note_captures(self) -> None:
        for value, tensor in current_trace().last_captures().items():
            self.captures.setdefault(value, tensor)

    def convert(self, pairs: Sequence[tuple[Phi, Any]]) -> list[Value]:
        """The ends as program values, converted inside the block."""
        trace = current_trace()
        with trace.region(self.block):
            values = [trace.operand(t) for phi, end in pairs for t in phi.tensors(end)]
        self.note_captures()
        return values


def reached(tensor: TracedTensor) -> bool:
    """Whether a traced tensor can be used here."""
    trace: Any = current_trace()
    while trace is not None and trace._home(tensor._data) is None:
        trace = trace.parent
    return trace is not None


def matched(
    x: Any, y: Any, a: Any, b: Any, sights: tuple[Sight, Sight], fresh: frozenset[int] = frozenset()
) -> tuple[Any, Any]:
    """What a name has on the two paths (`a` and `b`: versions of the objects `x` and `y`, whose items are those that `sights`
    give), with objects that are the same on both as themselves: what they hold is the business of their places. Those with
    ids in `fresh` have no place."""
    if isinstance(x, Maybe):
        stays = x is y and not any(id(part) in fresh for part in parts_of(x))
        return (x, x) if stays else (a, b)
    if x is y and id(x) not in fresh:
        return x, x
    values = sights[0](x), sights[1](y), a, b
    p, q, *_ = values
    container = p.__class__ in (list, dict) or (isinstance(p, tuple) and not isinstance(p, LeafTuple))
    if not container or p.__class__ is not q.__class__ or any(staged_items(v) is not None for v in values):
        return a, b
    one, two, three, four = map(children, values)
    if not one.keys() == two.keys() == three.keys() == four.keys():
        return a, b
    pairs = [matched(one[key], two[key], three[key], four[key], sights, fresh) for key in one]
    return like(p, [first for first, _ in pairs], one), like(q, [second for _, second in pairs], one)
