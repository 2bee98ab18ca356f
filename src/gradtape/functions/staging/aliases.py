"""Alias sets: which objects are one and the same when the program runs.

Where the path decides which object a name refers to, the name gets a phi after the paths have met: an object whose content is
that of whichever object it stands for. The phi must also BE that object: a change made through it shows under the other names
of it, and the other way round. So it is linked to each object it may be, with a flag of the program that says when it is:

    a = [x]; b = a
    if c: a = [y]         the phi is linked to b's list, where `not c`
    a.append(z)           the phi changes; then b's list becomes `the phi's content where not c, else what it was`

Links lead from newer to older objects (a phi to its operands), so two objects are one where a path of flags leads up from the
first and down to the second: `alias_set`. After every change in place (`changed`) each member gets the new content where they
are one. An item of a list that lives in the program is a value there: the `ListSlot` it stands in is a member like any other,
which gets the new content by a write to the list.

What the rest of staging must know: `before` and `changed` around each write in place, `same` for `a is b`; `taken`, `stored`
and `removed` for items of lists of the program; `frozen` objects, whose slot is no longer known, are refused by `before`.
Nothing is followed until a trace changes an object that it could matter for (a `suspect`): then the trace starts again with
`tracking`. Links made inside a branch or loop body live as long as its trace; `alias_joins.py` makes new ones outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from gradtape.core.dispatch import apply, convert
from gradtape.core.record import user_location
from gradtape.core.tensor import Tensor
from gradtape.functions.staging.conditions import Condition, Flag, alike, both, either, emitted, one_slot, opposite
from gradtape.functions.staging.escape import Escape
from gradtape.functions.staging.joins import JoinError, to_spec
from gradtape.functions.staging.places import ListContent, content_of
from gradtape.functions.staging.staged_values import staged_items
from gradtape.ops.elementwise import cast
from gradtape.ops.lists import LIST_LEN, list_set
from gradtape.ops.select import where
from gradtape.trace.tracing import TracedList, TracedTensor, current_trace
from gradtape.trace.weak import WeakTensor

TRACK = "which objects are one"  # the reason of a restart


class Restart(Exception):  # noqa: N818  (not an error: control flow of the tracer)
    """The trace must start again: a Python number read as a constant turned out to be state, or objects may be one."""

    def __init__(self, key: Any) -> None:
        self.key = key


def has_identity(value: Any) -> bool:
    """Whether a value can be changed in place, and merged where two paths meet."""
    if isinstance(value, Tensor):
        return not isinstance(value, (WeakTensor, TracedList))
    return isinstance(value, (list, dict))


# -- objects ---------------------------------------------------------------------------------------------------------


class ListSlot:
    """Item `index` of `owner`, a list of the program, where `valid` holds: `item` is what was put there or taken from there.
    Without an index it is any of the items, and must not change."""

    __slots__ = ("index", "item", "owner", "valid")

    def __init__(self, owner: list[Any], index: Any, item: Any) -> None:
        self.owner = owner
        self.index = index
        self.item = item
        self.valid: Flag = True


class Node:
    """An object that may be others: the operands of its phi, and the phis it is an operand of."""

    __slots__ = ("number", "operands", "target", "users")

    def __init__(self, target: Any, number: int) -> None:
        self.target = target
        self.number = number
        self.operands: list[tuple[Flag, Node]] = []
        self.users: list[Node] = []


class Aliases:
    """The alias sets of one trace."""

    def __init__(self, tracer: Any, choose: Callable[[Any, Callable[[], Any], Callable[[], Any]], Any], tracking: bool) -> None:
        self.tracer = tracer
        self.choose = choose  # `staging.choose`: one of two contents, as a flag of the program says
        self.tracking = tracking
        self.suspects: dict[int, Any] = {}  # while not tracking: objects whose change would make a difference
        self.nodes: dict[int, Node] = {}
        self.frozen: dict[int, Any] = {}  # objects that must not change any more
        self.slots: list[ListSlot] = []
        self.watches: list[tuple[Any, Tensor, Any, int]] = []  # (tape, tensor, block, operations in it so far)
        self.assumed: list[tuple[Flag, bool]] = []  # what holds on the path that is traced
        self.holding: list[Any] = []  # values that staged constructs hold while they trace their bodies
        self._journal: list[Callable[[], Any]] = []
        self.newest = 0  # number of the newest node; objects met only as operands are numbered downwards from 0
        self._oldest = 0

    # -- links -----------------------------------------------------------------------------------------------------

    def suspect(self, *values: Any) -> None:
        """A change of one of these would make a difference."""
        for value in values:
            if has_identity(value):
                self.suspects[id(value)] = value

    def node(self, target: Any, older: bool = False) -> Node:
        """The node of an object; a new one is the newest, or (`older`) the oldest."""
        known = self.nodes.get(id(target))
        if known is None:
            if older:
                self._oldest -= 1
            else:
                self.newest += 1
            # (a phi is newer than what it may be, so numbers order the graph: `_up` and `alias_set` need no fixpoint)
            known = self.nodes[id(target)] = Node(target, self._oldest if older else self.newest)
            self._journal.append(partial(self.nodes.pop, id(target)))
        return known

    def link(self, phi: Any, operand: Any, flag: Flag) -> None:
        """`phi`, a new object, is `operand`, an older one, where the flag holds."""
        if flag is False or phi is operand:
            return
        older, newer = self.node(operand, older=True), self.node(phi)
        # both had nodes already: being one object is symmetric, and links lead from newer to older
        if older.number > newer.number:
            older, newer = newer, older
        newer.operands.append((flag, older))
        older.users.append(newer)
        # undone in the opposite order, so each `pop` finds what it has to take
        self._journal += [newer.operands.pop, older.users.pop]

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._journal)

    def reset(self, mark: int) -> None:
        """Forget everything noted since."""
        while len(self._journal) > mark:
            self._journal.pop()()

    def may_be(self, value: Any, since: int) -> list[tuple[Any, Flag]]:
        """What older objects a value may be, and when; itself first. What those made before `since` may be is not asked; slots
        made since are left out: nobody knows them later."""
        node = self.nodes.get(id(value))
        operands = self._up(node, since).items() if node is not None else ()
        older = [
            (n, flag) for n, flag in operands if n is not node and not (n.number > since and isinstance(n.target, ListSlot))
        ]
        return [(value, True), *((n.target, flag) for n, flag in older)]

    def _up(self, node: Node, since: int = 0) -> dict[Node, Flag]:
        # is(n) = OR over phis p that have n as an operand: is(p) AND when(p, n); is(node) = True. Phis are newer than their
        # operands, so going by number each is(p) is complete before it is passed on: one pass, no fixpoint.
        reached = _closure(node, lambda n: [older for _, older in n.operands] if n.number > since else ())
        flags: dict[Node, Flag] = {n: n is node for n in sorted(reached, key=lambda n: -n.number)}
        for n in flags:  # newer before older
            for when, older in n.operands if n.number > since else ():
                flags[older] = either(flags[older], both(flags[n], when))
        return flags

    def alias_set(self, target: Any) -> list[tuple[Any, Flag]]:
        """All other objects, and slots, that may be this one, and when."""
        node = self.nodes.get(id(target))
        if node is None:
            return []
        # Two objects are one where both are the same older one: up to all operands, then down to whatever else may be those.
        flags = self._up(node)
        reached = {n for start in flags for n in _closure(start, lambda n: n.users)}
        for n in sorted(reached, key=lambda n: n.number):  # older before newer
            if n is not node:
                for when, older in n.operands:
                    if older in flags and older is not n:
                        flags[n] = either(flags.get(n, False), both(flags[older], when))
        return [(n.target, flag) for n, flag in flags.items() if n is not node and self.known(flag) is not False]

    def same(self, a: Any, b: Any) -> Flag:
        """Whether two objects are one."""
        if a is b:
            return True
        if not self.tracking:
            # objects of different classes cannot be one: no reason to trace the function again
            comparable = a.__class__ is b.__class__ or (
                isinstance(a, Tensor) and isinstance(b, Tensor)
            )  # traced, and a constant
            # Tracking costs time and is rarely needed: the trace begins without, and is made again with it when an answer
            # depends on it
            if id(a) in self.suspects and has_identity(b) and comparable:
                raise Restart(TRACK)
            return False
        return next((flag for other, flag in self.alias_set(a) if other is b), False)

    def known(self, flag: Flag, cache: dict[int, bool | None] | None = None) -> bool | None:
        """A flag that the path being traced decides."""
        if isinstance(flag, bool):
            return flag
        cache = {} if cache is None else cache
        if id(flag) not in cache:
            cache[id(flag)] = self._decided(flag, cache)
        return cache[id(flag)]

    def _decided(self, flag: Flag, cache: dict[int, bool | None]) -> bool | None:
        for assumed, value in self.assumed:
            if alike(assumed, flag):
                return value
        if not isinstance(flag, Condition) or flag.kind in ("one slot", "unknown"):
            return None
        parts = [self.known(part, cache) for part in flag.parts]
        if flag.kind == "not":
            return None if parts[0] is None else not parts[0]
        # `True` decides an "or" and `False` an "and", whatever the rest
        ends = flag.kind == "or"
        return ends if ends in parts else None if None in parts else not ends

    # -- changes in place ------------------------------------------------------------------------------------------

    def before(self, target: Any) -> None:
        """A list, dict or tensor is about to be changed."""
        if not self.tracking:
            if id(target) in self.suspects:
                raise Restart(TRACK)
            return
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
        if isinstance(new, list) and isinstance(old, list) and staged_items(new) is None:
            return [self._own(p, old[i], flag) if i < len(old) else p for i, p in enumerate(new)]
        if isinstance(new, dict) and isinstance(old, dict):
            return {k: self._own(p, old[k], flag) if k in old else p for k, p in new.items()}
        return new

    def _own(self, new: Any, old: Any, flag: Flag) -> Any:
        for a, b in ((new, old), (old, new)):
            node = self.nodes.get(id(a))
            if node is not None and any(n.target is b and alike(when, flag) for when, n in node.operands):
                return old
        return new

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

    def reference(self, escape: Escape) -> None:
        """The references that the constructs being traced have."""
        for values in self.holding:
            escape.references(values)

    def references_to(self, value: Any) -> int:
        """How many references to an object the trace itself has, besides those of the constructs being traced."""
        # each of these holds the object once: `Escape` compares with the reference count that Python has
        count = sum(id(value) in known for known in (self.nodes, self.frozen, self.suspects))
        count += sum((slot.owner is value) + (slot.item is value) for slot in self.slots)
        count += sum(tensor is value for _, tensor, _, _ in self.watches)
        if has_identity(value):
            place = content_of(value).key
            # several logs may share one `Place`, which holds the object once
            count += len({id(log.entries[place][0]) for log in self.tracer.logs if place in log.entries})
        return count

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
                if not self.tracking:
                    raise Restart(TRACK)
                raise JoinError(
                    f"{user_location()}: whether a tensor that the tape watches is the same one as another that is used here "
                    "depends on a tensor's value; its gradient would have to count both uses, or one. Watch a copy: "
                    "`y = gt.identity(x)` where it is first set"
                )

    # -- refusals --------------------------------------------------------------------------------------------------

    def freeze(self, *values: Any) -> None:
        """Objects, or what stands in slots, must not be changed from now on."""
        for value in values:
            if (has_identity(value) or isinstance(value, ListSlot)) and id(value) not in self.frozen:
                self.frozen[id(value)] = value
                self._journal.append(partial(self.frozen.pop, id(value)))

    def freeze_items(self, values: Iterable[Any]) -> None:
        """These are items of a list of the program, nobody knows which."""
        (self.freeze if self.tracking else self.suspect)(*values)

    def freeze_items_of(self, *owners: Any) -> None:
        """The items of lists are known elsewhere too: none of them must change."""
        for owner in owners if self.tracking else ():
            if not any(slot.owner is owner and slot.index is None for slot in self.slots):
                self.freeze(self._slot(owner, None, None))

    # -- slots of lists of the program -----------------------------------------------------------------------------

    def taken(self, owner: list[Any], index: Any, item: Any) -> None:
        """`item` is what `owner[index]` gave."""
        if self.tracking:
            self.link(item, self._slot(owner, _counted(owner, index), item), True)
        else:
            self.suspect(item)

    def stored(self, owner: list[Any], index: Any, value: Any, new: bool) -> None:
        """`owner[index] = value`, or `value` is a `new` item at its end."""
        if not self.tracking:
            self.suspect(value)
            return
        if isinstance(value, list) and self.tracer.can_unroll:
            # unrolled, the rows of a table stay Python lists: the derivative of a row that grows in place needs its old length
            raise JoinError(f"{user_location()}: a list becomes an item of a list whose items live in the program")
        if not new:
            index = _counted(owner, index)
            self._vacate(owner, index)
        if has_identity(value):
            self.link(self._slot(owner, index, value), value, True)

    def removed(self, owner: list[Any], item: Any) -> None:
        """`item` was the last of the list; called before the list is changed."""
        self.taken(owner, -1, item)
        if self.tracking:
            self._vacate(owner, self.slots[-1].index)

    def cleared(self, owner: list[Any]) -> None:
        """The list has no items any more."""
        self._vacate(owner, None)

    def _slots(self, owner: list[Any]) -> list[tuple[ListSlot, Flag]]:
        """The known slots of a list and of those that may be the same one, and when they are."""
        owners = [(owner, True), *self.alias_set(owner)]
        return [(slot, flag) for other, flag in owners for slot in self.slots if slot.owner is other]

    def _slot(self, owner: list[Any], index: Any, item: Any) -> ListSlot:
        """A new slot; it is each known one that has its index."""
        slot = ListSlot(owner, index, item)
        for known, flag in self._slots(owner):
            self.link(slot, known, both(both(flag, known.valid), one_slot(known.index, index)))
        self.slots.append(slot)
        self._journal.append(self.slots.pop)
        return slot

    def _vacate(self, owner: list[Any], index: Any) -> None:
        """The slot at an index (None: each) gets another object, or goes."""
        for slot, flag in self._slots(owner):
            # an item at an unknown index is any of them: it may be there still
            if slot.index is not None or index is None:
                gone = both(flag, True if index is None else one_slot(slot.index, index))
                self._journal.append(partial(setattr, slot, "valid", slot.valid))
                slot.valid = both(slot.valid, opposite(gone))

    def close(self) -> None:
        for met in (self.suspects, self.nodes, self.frozen):
            met.clear()
        for kept in (self.slots, self.watches, self.assumed, self.holding, self._journal):
            kept.clear()


IN_LIST = (
    "this {} is an item of a list whose items live in the program, and which of them it is, or whether it still is one, "
    "depends on what happened at run time: it cannot be changed in place. Put a copy into the list (gt.identity(t), list(l)), "
    "or write `list[i] = changed`"
)


def _since(block: Any, start: int) -> tuple[set[int], set[int]]:
    """What operations give, and what they use, since the `start`-th of an open block, in it and in those opened inside."""
    blocks = current_trace().blocks
    places = [i for i, open_block in enumerate(blocks) if open_block is block]
    inner = [op for other in blocks[places[0] + 1 :] for op in other.operations] if places else []
    operations = [*block.operations[start:], *inner] if places else []
    computed = {id(value) for operation in operations for value in operation.results}
    return computed, {id(value) for operation in operations for value in operation.operands}


def _closure(start: Node, step: Callable[[Node], Iterable[Node]]) -> set[Node]:
    reached, pending = {start}, [start]
    while pending:
        for n in step(pending.pop()):
            if n not in reached:
                reached.add(n)
                pending.append(n)
    return reached


def _counted(owner: list[Any], index: Any) -> Any:
    """An index counted from the start, as an int or an integer of the program."""
    staged = staged_items(owner)
    if staged is None:
        raise TypeError("not a list of the program")
    if isinstance(index, int):
        if index >= 0:
            return index
        return staged.length + index if staged.length is not None else apply(LIST_LEN, staged.items) + index
    tensor = cast(convert(index), "int32")
    if isinstance(tensor, WeakTensor):
        tensor = tensor.strong()
    return where(tensor < 0, tensor + apply(LIST_LEN, staged.items), tensor)


def _kind(value: Any) -> str:
    return "tensor" if isinstance(value, Tensor) else type(value).__name__
