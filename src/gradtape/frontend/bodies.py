"""A branch or loop body, traced into a block and undone again: what it ended with.

Everything the body may have changed (the names AutoGraph lists, and every place it wrote to: `frontend/places.py`) is kept as
it was at the end, then everything is put back: two branches, or a loop traced again, start from the same state. Objects that
the body made itself and nobody else holds are not its state; they are part of the values it ended with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from gradtape.ad.tracing import TracedTensor, current_trace
from gradtape.frontend.effects import active
from gradtape.frontend.flags import Flag
from gradtape.frontend.holders import Holders
from gradtape.frontend.identities import has_identity
from gradtape.frontend.places import Cell, Global, Log, VariableValue
from gradtape.frontend.plans import Plan, tensors_in
from gradtape.frontend.staged_values import Maybe, staged_items
from gradtape.ir.graph import Block, Value
from gradtape.ops.tensor import Tensor
from gradtape.tree import LeafTuple

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

    def labels(self) -> list[str]:
        """What messages call the names."""
        return [f"`{name}`" for name in self.names]


NO_STATE = State(lambda: (), lambda values: None, (), 0)


class Ran:
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
        identities = tracer.identities
        self.block = block
        self.captures: dict[Value, TracedTensor] = {}
        self.log = Log()
        self.own: set[int] = set()  # objects that the body made and nobody else holds
        starts = state.get()
        mark, made = identities.mark(), identities.made
        frozen, copied, homes = set(identities.frozen), set(identities.copied), set(map(id, identities.homes()))
        disturbed, listed = len(identities.disturbed), len(identities.listed)
        tracer.logs.append(self.log)
        identities.holding.append(starts)
        if assumed is not None:
            identities.assumed.append(assumed)
        try:
            with trace.region(block):
                self.result = run()
            self.note_captures()
            self.objects = state.get()
            self.contents = {key: place.read() for key, (place, _) in self.log.entries.items()}
            self.ends = tuple([self.version(end) for end in self.objects])
            self.places = {key: self.version(content) for key, content in self.contents.items()}
            self.value = self.version(self.result)
            self.written = set(self.log.entries)
            self.parts = list(parts_of((*self.objects, *self.contents.values(), self.result)))
            self.may_be = {id(part): identities.may_be(part, made) for part in self.parts if id(part) in identities.nodes}
            settled = [home.node.target for home in identities.homes() if id(home) not in homes]
            self.frozen = [value for key, value in identities.frozen.items() if key not in frozen]
            self.frozen += settled + identities.listed[listed:]
            self.copied = [value for key, value in identities.copied.items() if key not in copied]
            self.disturbed = identities.disturbed[disturbed:]
        finally:
            if assumed is not None:
                identities.assumed.pop()
            identities.holding.pop()
            tracer.logs.pop()
            self.log.undo()
            state.set(starts)
            identities.reset(mark)
            del identities.disturbed[disturbed:], identities.listed[listed:]
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
            made = {key: self.version(part) for key, part in now.items()}
            return end if now is end and all(made[key] is part for key, part in end.items()) else made
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
        identities = active().identities
        if not entries and not identities.tracking:
            return
        targets = [place.target for place, _ in entries.values() if hasattr(place, "target")]
        holders = Holders(identities.references_to, targets)
        identities.reference(holders)
        self.reference(holders)
        holders.references(targets)
        holders.count()
        for key in list(entries):
            place, old = entries[key]
            if key in known or isinstance(place, (Global, Cell, VariableValue)):
                continue
            target = place.target  # type: ignore[attr-defined]
            if target is None or not holders.elsewhere(target) or not self._existed(old):
                self.own.add(id(target))
                del entries[key]
        candidates = (value for found in self.may_be.values() for value, _ in found)
        for value in (*self.parts, *candidates):
            if not holders.elsewhere(value):
                self.own.add(id(value))

    def reference(self, holders: Holders) -> None:
        """The references held here."""
        for place, old in self.log.entries.values():
            if not isinstance(place, (Global, Cell, VariableValue)) and "target" in getattr(type(place), "__slots__", ()):
                holders.reference(place.target)  # type: ignore[attr-defined]
            holders.reference(old)
        holders.references(self.objects)
        holders.references(self.ends)
        holders.references(self.contents.values())
        holders.references(self.places.values())
        holders.references((self.result, self.value))
        holders.references(self.parts)
        for values in (self.frozen, self.copied, self.disturbed):
            holders.references(values)
        for found in self.may_be.values():
            holders.references(value for value, _ in found)

    def _existed(self, content: Any) -> bool:
        """Whether content can be from before the body: it holds nothing that the body computed."""
        return all(reached(t) for t in tensors_in(content))

    # -- its block -------------------------------------------------------------------------------------------------

    def note_captures(self) -> None:
        for value, tensor in current_trace().last_captures().items():
            self.captures.setdefault(value, tensor)

    def convert(self, pairs: Sequence[tuple[Plan, Any]]) -> list[Value]:
        """The ends as program values, converted inside the block."""
        trace = current_trace()
        with trace.region(self.block):
            values = [trace.operand(t) for plan, end in pairs for t in plan.tensors(end)]
        self.note_captures()
        return values


def reached(tensor: TracedTensor) -> bool:
    """Whether a traced tensor can be used here."""
    trace: Any = current_trace()
    while trace is not None and trace._home(tensor._data) is None:
        trace = trace.parent
    return trace is not None


def like(container: Any, parts: list[Any]) -> Any:
    """A list or tuple (a named one, too) with other parts."""
    kind = container.__class__
    return kind(parts) if kind is list or kind is tuple else kind(*parts)


def parts_of(value: Any) -> Iterator[Any]:
    """All objects inside a value that can be changed in place, itself among them."""
    if isinstance(value, Maybe):
        yield from parts_of(value.value)
        return
    if has_identity(value):
        yield value
    if isinstance(value, dict):
        for child in value.values():
            yield from parts_of(child)
    elif isinstance(value, list) or (isinstance(value, tuple) and not isinstance(value, LeafTuple)):
        for child in value:
            yield from parts_of(child)


Sight = Callable[[Any], Any]  # a list or dict as it was at some time


def as_now(value: Any) -> Any:
    """The sight of a value as it is."""
    return value


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
    p, q = sights[0](x), sights[1](y)
    if p.__class__ is not q.__class__ or any(staged_items(v) is not None for v in (p, q, a, b)):
        return a, b
    if p.__class__ is list or (isinstance(p, tuple) and not isinstance(p, LeafTuple)):
        if len(p) == len(q) == len(a) == len(b):
            pairs = [matched(*parts, sights, fresh) for parts in zip(p, q, a, b, strict=True)]
            return like(p, [first for first, _ in pairs]), like(q, [second for _, second in pairs])
    elif p.__class__ is dict and p.keys() == q.keys() == a.keys() == b.keys():
        found = {key: matched(p[key], q[key], a[key], b[key], sights, fresh) for key in p}
        return {key: pair[0] for key, pair in found.items()}, {key: pair[1] for key, pair in found.items()}
    return a, b
