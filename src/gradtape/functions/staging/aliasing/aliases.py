"""Alias sets: what object each object may be, and what a change in place does to the others.

A phi has roots: itself, and every object it may be, each with the flag that says when. Two objects are one where they share a
root. After a change in place (`changed`) every member of the alias set gets the new content where they are one. An item of a
list that lives in the program is a value there: the `ListSlot` it stands in is a member like any other, which gets the new
content by a write to the list. Objects whose slot is no longer known are `frozen`: `before` refuses to change them.

Invariant: links made on a path live as long as its trace (`Path`); `alias_joins` makes of them what holds outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from gradtape.core.record import user_location
from gradtape.core.tensor import Tensor
from gradtape.functions.staging.aliasing.conditions import Flag, alike, any_of, both, decided, either, emitted
from gradtape.functions.staging.aliasing.escape import Escape
from gradtape.functions.staging.aliasing.list_slots import IN_LIST, ListSlot, ListSlots
from gradtape.functions.staging.aliasing.object_parts import children, has_identity
from gradtape.functions.staging.joins import JoinError, to_spec
from gradtape.functions.staging.places import ListContent, content_of
from gradtape.functions.staging.staged_values import staged_items
from gradtape.ops.elementwise import cast
from gradtape.ops.lists import list_set
from gradtape.trace.tracing import TracedTensor, current_trace
from gradtape.tree import like

TRACK = "which objects are one"  # the reason of a restart


class Restart(Exception):  # noqa: N818  (not an error: control flow of the tracer)
    """The trace must start again: a Python number read as a constant turned out to be state, or objects may be one."""

    def __init__(self, key: Any) -> None:
        self.key = key


FIXED = "numbers are constants"  # in what a trace has learned: Python needs the value of a number that the function changes


class Node:
    """An object and its roots: by id what it may be, itself among them, and when."""

    __slots__ = ("roots", "target")

    def __init__(self, target: Any) -> None:
        self.target = target
        self.roots: dict[int, Flag] = {id(target): True}


class Path:
    """What the trace of one path knows about aliases at its end, and forgets with it."""

    def __init__(self, aliases: Aliases) -> None:
        self._aliases = aliases
        self._before = set(aliases.frozen), [(slot, slot.valid) for slot in aliases.items.slots]
        self.may_be: dict[int, list[tuple[Any, Flag]]] = {}  # for objects of its end: what older ones they may be; itself first
        self.slots: list[ListSlot] = []  # made on it
        self.frozen: list[Any] = []  # objects, and slots from before, that must not change any more

    def end(self, parts: Sequence[Any]) -> None:
        """`parts` are the objects that the path ends with."""
        aliases, (frozen, slots) = self._aliases, self._before
        self.slots = aliases.items.slots[len(slots) :]
        own = {id(slot) for slot in self.slots}
        self.frozen = [v for key, v in aliases.frozen.items() if key not in frozen and key not in own]
        self.frozen += [slot for slot, valid in slots if slot.valid is not valid]
        for part in parts:
            if (node := aliases.nodes.get(id(part))) is not None:
                # (nobody knows slots of its own later)
                older = [(aliases.nodes[key].target, f) for key, f in node.roots.items() if key != id(part) and key not in own]
                self.may_be[id(part)] = [(part, True), *older]

    def references(self) -> Iterator[Any]:
        """Every reference that is held here, as often as it is."""
        yield from self.frozen
        yield from (value for slot in self.slots for value in (slot.owner, slot.item))
        yield from (value for values in self.may_be.values() for value, _ in values)


class Aliases:
    """The alias sets of one trace."""

    def __init__(self, tracer: Any, choose: Callable[[Any, Callable[[], Any], Callable[[], Any]], Any], tracking: bool) -> None:
        self.tracer = tracer
        self.choose = choose  # `branches.choose`: one of two contents, as a flag of the program says
        self.tracking = tracking
        self.suspects: dict[int, Any] = {}  # while not tracking: objects whose change would make a difference
        self.nodes: dict[int, Node] = {}
        self.frozen: dict[int, Any] = {}  # objects that must not change any more
        self.items = ListSlots(self)
        self.watches: list[tuple[Any, Tensor, Any, int]] = []  # (tape, tensor, block, operations in it so far)
        self.assumed: list[tuple[Flag, bool]] = []  # what holds on the path that is traced
        self.holding: list[Any] = []  # values that staged constructs hold while they trace their bodies
        self.journal: list[Callable[[], Any]] = []  # how to undo what was noted, newest last

    # -- paths -----------------------------------------------------------------------------------------------------

    @contextmanager
    def path(self, starts: Any, assumed: tuple[Flag, bool] | None) -> Iterator[Path]:
        """A path is traced, on which a flag may be known; `starts` is what the construct holds meanwhile."""
        mark = self.mark()
        self.holding.append(starts)
        self.assumed += [assumed] if assumed is not None else []
        try:
            yield Path(self)
        finally:
            self.assumed[:] = self.assumed[:-1] if assumed is not None else self.assumed
            self.holding.pop()
            self.reset(mark)

    def mark(self) -> int:
        """A point to go back to."""
        return len(self.journal)

    def reset(self, mark: int) -> None:
        """Forget everything noted since."""
        while len(self.journal) > mark:
            self.journal.pop()()

    def reference(self, escape: Escape) -> None:
        """The references that the constructs being traced have."""
        for values in self.holding:
            escape.references(values)

    def references_to(self, value: Any) -> int:
        """How many references to an object the trace itself has, besides those of the constructs being traced."""
        # each of these holds the object once: `Escape` compares with the reference count that Python has
        count = sum(id(value) in known for known in (self.nodes, self.frozen, self.suspects))
        count += sum((slot.owner is value) + (slot.item is value) for slot in self.items.slots)
        count += sum(tensor is value for _, tensor, _, _ in self.watches)
        if has_identity(value):
            place = content_of(value).key
            # several logs may share one `Place`, which holds the object once
            count += len({id(log.entries[place][0]) for log in self.tracer.logs if place in log.entries})
        return count

    def close(self) -> None:
        for met in (self.suspects, self.nodes, self.frozen):
            met.clear()
        for kept in (self.items.slots, self.watches, self.assumed, self.holding, self.journal):
            kept.clear()

    # -- links -----------------------------------------------------------------------------------------------------

    def track(self) -> None:
        """An answer depends on which objects are one: trace again, and follow them."""
        # Tracking costs time and is rarely needed: a trace begins without it
        if not self.tracking:
            raise Restart(TRACK)

    def suspect(self, *values: Any) -> None:
        """A change of one of these would make a difference."""
        for value in values:
            if has_identity(value):
                self.suspects[id(value)] = value

    def _node(self, target: Any) -> Node:
        known = self.nodes.get(id(target))
        if known is None:
            known = self.nodes[id(target)] = Node(target)
            self.journal.append(partial(self.nodes.pop, id(target)))
        return known

    def link(self, phi: Any, operand: Any, flag: Flag) -> None:
        """`phi` is `operand` where the flag holds."""
        if flag is False or phi is operand:
            return
        gained, _ = self._node(operand).roots, self._node(phi)
        # mostly the phi is new, and the only one; whatever may be the phi may be now what the phi may be
        for node in self.nodes.values():
            when = both(node.roots.get(id(phi), False), flag)
            if when is not False:
                self.journal.append(partial(setattr, node, "roots", node.roots))
                more = {key: either(node.roots.get(key, False), both(when, f)) for key, f in gained.items()}
                node.roots = {**node.roots, **more}

    def alias_set(self, target: Any) -> list[tuple[Any, Flag]]:
        """All other objects, and slots, that may be this one, and when."""
        node = self.nodes.get(id(target))
        if node is None:
            return []
        others = [(other.target, _shared(node, other)) for other in self.nodes.values() if other is not node]
        return [(other, flag) for other, flag in others if self.known(flag) is not False]

    def same(self, a: Any, b: Any) -> Flag:
        """Whether two objects are one."""
        if a is b:
            return True
        if not self.tracking:
            # objects of different classes cannot be one: no reason to trace the function again (traced, and a constant: can)
            comparable = a.__class__ is b.__class__ or (isinstance(a, Tensor) and isinstance(b, Tensor))
            if id(a) in self.suspects and has_identity(b) and comparable:
                self.track()
            return False
        return _shared(self.nodes[id(a)], self.nodes[id(b)]) if id(a) in self.nodes and id(b) in self.nodes else False

    def known(self, flag: Flag) -> bool | None:
        """A flag that the path being traced decides."""
        return decided(flag, self.assumed, {})

    def freeze(self, *values: Any) -> None:
        """Objects, or what stands in slots, must not be changed from now on."""
        for value in values:
            if (has_identity(value) or isinstance(value, ListSlot)) and id(value) not in self.frozen:
                self.frozen[id(value)] = value
                self.journal.append(partial(self.frozen.pop, id(value)))

    # -- changes in place ------------------------------------------------------------------------------------------

    def before(self, target: Any) -> None:
        """A list, dict or tensor is about to be changed."""
        if id(target) in self.suspects:
            self.track()
        if self.frozen and any(id(other) in self.frozen for other, _ in [(target, True), *self.alias_set(target)]):
            raise JoinError(f"{user_location()}: {IN_LIST.format(_kind(target))}")

    def changed(self, target: Any) -> None:
        """It was: so are all objects that are the same one, then the slots that hold it."""
        members = self.alias_set(target)
        # Slots last: writing one changes its list, whose own alias set must find the objects up to date.
        for other, flag in members:
            if not isinstance(other, ListSlot):
                self._copy(target, other, flag)
        for other, flag in members:
            if isinstance(other, ListSlot):
                self._write_slot(target, other, both(flag, other.valid))

    def _copy(self, source: Any, target: Any, flag: Flag) -> None:
        """The content of one object for another, where they are one."""
        place = content_of(target)
        self.tracer.note(place)
        old = place.read()
        # Items that the target has under names of its own keep them: a copy would be one more object that is the same.
        new = self._own_items(content_of(source).read(), old, flag)
        try:
            content = self.choose(emitted(flag), lambda: new, lambda: old) if self.known(flag) is None else new
        except JoinError as error:
            raise JoinError(
                f"{user_location()}: whether this changes the {_kind(target)} that another name refers to depends on a "
                f"tensor's value, and the two outcomes do not fit into one value: {error}"
            ) from None
        # a join of an integer and a float is a float; an object changed in place keeps its dtype
        if isinstance(old, Tensor) and content.dtype != old.dtype:
            content = cast(content, old.dtype)
        place.write(content)

    def _own_items(self, new: Any, old: Any, flag: Flag) -> Any:
        """Items that are the old ones where the flag holds, as the old ones."""
        held, before = children(new), children(old)
        if not held or new.__class__ is not old.__class__:
            return new

        def linked(a: Any, b: Any) -> bool:
            return id(a) in self.nodes and alike(self.nodes[id(a)].roots.get(id(b), False), flag)

        items = {key: before.get(key) for key in held}
        keep = {key: linked(held[key], item) or linked(item, held[key]) for key, item in items.items()}
        return like(new, [items[key] if keep[key] else item for key, item in held.items()])

    def _write_slot(self, target: Any, slot: ListSlot, flag: Flag) -> None:
        staged = staged_items(slot.owner)
        if self.known(flag) is False or staged is None:
            return
        self.tracer.note(ListContent(slot.owner))
        items = staged.items

        def put() -> Any:
            return list_set(items, slot.index, to_spec(target, items.spec.item))

        slot.owner[0] = staged.with_items(put() if self.known(flag) else self.choose(emitted(flag), put, lambda: items), 0)
        # the list with the changed item is an object too, which may have other names
        self.changed(slot.owner)

    # -- tapes -----------------------------------------------------------------------------------------------------

    def watched(self, tape: Any, tensor: Tensor) -> None:
        """A tape watches a tensor: if it is another one too, that one is watched as well."""
        if id(tensor) in (self.nodes if self.tracking else self.suspects):
            block = current_trace().block
            self.watches.append((tape, tensor, block, len(block.operations)))

    def asked(self, tape: Any, sources: Iterable[Any]) -> None:
        """A tape is asked: refuse if a tensor that may be one it watches, by another name, has been used since."""
        given = {id(source) for source in sources}
        for by, tensor, block, start in self.watches:
            if by is not tape:
                continue
            others = [other for other, _ in self.alias_set(tensor)] if self.tracking else self.suspects.values()
            computed, used = _since(block, start)  # what was computed since has its derivative
            values = {id(t._data): t for t in others if isinstance(t, TracedTensor) and t._data is not tensor._data}
            if any(key not in computed and (key in used or id(t) in given) for key, t in values.items()):
                self.track()
                raise JoinError(
                    f"{user_location()}: whether a tensor that the tape watches is the same one as another that is used here "
                    "depends on a tensor's value; its gradient would have to count both uses, or one. Watch a copy: "
                    "`y = gt.identity(x)` where it is first set"
                )


def _since(block: Any, start: int) -> tuple[set[int], set[int]]:
    """What operations give, and what they use, since the `start`-th of an open block, in it and in those opened inside."""
    blocks = current_trace().blocks
    places = [i for i, open_block in enumerate(blocks) if open_block is block]
    inner = [op for other in blocks[places[0] + 1 :] for op in other.operations] if places else []
    operations = [*block.operations[start:], *inner] if places else []
    computed = {id(value) for operation in operations for value in operation.results}
    return computed, {id(value) for operation in operations for value in operation.operands}


def _shared(a: Node, b: Node) -> Flag:
    """Whether two objects have a root in common."""
    return any_of(both(flag, b.roots[key]) for key, flag in a.roots.items() if key in b.roots)


def _kind(value: Any) -> str:
    return "tensor" if isinstance(value, Tensor) else type(value).__name__
