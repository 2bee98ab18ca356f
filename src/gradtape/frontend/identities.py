"""Objects that may be one and the same when the program runs.

Where the path decides which object a name refers to, the name gets a new object M after the paths have met: its content is
that of whichever object it stands for. M must also BE that object: a change made through M shows under the other names of it,
and the other way round. So M is linked to each object it may be, with a flag of the program that says when it is:

    a = [x]; b = a
    if c: a = [y]         M is linked to b's list, where `not c`
    a.append(z)           M changes; then b's list becomes `M's content where not c, else what it was`

Links lead from newer to older objects (a merged object to those it was merged from), so two objects are one where a path of
flags leads up from the first and down to the second: `related`. After every change in place (`changed`) each related object
that somebody can still see gets the new content where they are one. Items of lists that live in the program are values there:
the object that was put in or taken out has a `Home`, the slot it stands for, and a change of it is written back to the slot.

A change that cannot be followed (of an object whose slot is no longer known: `frozen`) is refused.
None of this is done until a trace changes an object that it could matter for (a `suspect`): then the trace starts again with
`tracking`. Links made inside a branch or loop body live as long as its trace; `Meeting` and loops make new ones outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from gradtape.ad.tracing import TracedList, TracedTensor, current_trace
from gradtape.ad.weak import WeakTensor
from gradtape.frontend.flags import Expr, Flag, alike, both, either, emitted, one_slot, opposite
from gradtape.frontend.holders import Holders
from gradtape.frontend.places import DictContent, ListContent, Place, TensorVersion
from gradtape.frontend.plans import JoinError, to_spec
from gradtape.frontend.staged_values import staged_items
from gradtape.ops.dispatch import apply, convert
from gradtape.ops.elementwise import cast
from gradtape.ops.lists import LIST_LEN, LIST_SET
from gradtape.ops.record import user_location
from gradtape.ops.select import where
from gradtape.ops.tensor import Tensor

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


def content_of(value: Any) -> Place:
    """The place where a list, dict or tensor keeps what it holds."""
    if isinstance(value, Tensor):
        return TensorVersion(value)
    return ListContent(value) if isinstance(value, list) else DictContent(value)


# -- objects ---------------------------------------------------------------------------------------------------------


class Home:
    """A slot of a list of the program: its object is item `index` of `owner` where `valid` holds."""

    __slots__ = ("index", "node", "owner", "valid")

    def __init__(self, node: Node, owner: list[Any], index: Any, valid: Flag) -> None:
        self.node = node
        self.owner = owner
        self.index = index
        self.valid = valid


class Node:
    """An object that may be others: those it was merged from (`cases`), those merged from it (`users`)."""

    __slots__ = ("cases", "homes", "number", "target", "users")

    def __init__(self, target: Any, number: int) -> None:
        self.target = target
        self.number = number
        self.cases: list[tuple[Flag, Node]] = []
        self.users: list[Node] = []
        self.homes: list[Home] = []


class Identities:
    """The links of one trace."""

    def __init__(self, tracer: Any, tracking: bool) -> None:
        self.tracer = tracer
        self.tracking = tracking
        self.suspects: dict[int, Any] = {}  # while not tracking: objects whose change would make a difference
        self.nodes: dict[int, Node] = {}
        self.frozen: dict[int, Any] = {}  # objects that must not change any more
        self.slots: dict[int, tuple[Any, list[Home]]] = {}  # by list of the program
        self.copied: dict[int, Any] = {}  # lists of the program that share their items with another
        self.listed: list[Any] = []  # while not tracking: what was put into lists of the program
        self.disturbed: list[Any] = []  # lists of the program some slot of which got another object
        self.watches: list[tuple[Any, Tensor, Any, int]] = []  # (tape, tensor, block, operations in it so far)
        self.assumed: list[tuple[Flag, bool]] = []  # what holds on the path that is traced
        self.holding: list[Any] = []  # values that staged constructs hold while they trace their bodies
        self._journal: list[Callable[[], Any]] = []
        self.made = 0  # nodes so far; objects met only as what others may be are numbered downwards from 0
        self._met = 0

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
                self._met -= 1
            else:
                self.made += 1
            known = self.nodes[id(target)] = Node(target, self._met if older else self.made)
            self._journal.append(lambda: self.nodes.pop(id(target)))
        return known

    def link(self, made: Any, other: Any, flag: Flag) -> None:
        """`made`, a new object, is `other`, an older one, where the flag holds."""
        if flag is False or made is other:
            return
        older = self.node(other, older=True)
        newer = self.node(made)
        if older.number > newer.number:
            older, newer = newer, older
        newer.cases.append((flag, older))
        older.users.append(newer)
        self._journal.append(newer.cases.pop)
        self._journal.append(older.users.pop)

    def mark(self) -> int:
        """A point to go back to."""
        return len(self._journal)

    def reset(self, mark: int) -> None:
        """Forget everything noted since."""
        while len(self._journal) > mark:
            self._journal.pop()()

    def may_be(self, value: Any, since: int) -> list[tuple[Any, Flag]]:
        """What older objects a value may be, and when; itself first. What those made before `since` may be is not asked."""
        node = self.nodes.get(id(value))
        found = self._up(node, since) if node is not None else {}
        return [(value, True), *((other.target, flag) for other, flag in found.items() if other is not node)]

    def _up(self, node: Node, since: int = 0) -> dict[Node, Flag]:
        reached = _closure(node, lambda n: [older for _, older in n.cases] if n.number > since else ())
        flags: dict[Node, Flag] = {n: n is node for n in sorted(reached, key=lambda n: -n.number)}
        for n in flags:  # newer before older: each flag is complete when it is passed on
            for when, older in n.cases if n.number > since else ():
                flags[older] = either(flags[older], both(flags[n], when))
        return flags

    def related(self, target: Any) -> list[tuple[Node, Flag]]:
        """All other objects that may be this one, and when."""
        node = self.nodes.get(id(target))
        if node is None:
            return []
        flags = self._up(node)
        reached = {n for start in flags for n in _closure(start, lambda n: n.users)}
        for n in sorted(reached, key=lambda n: n.number):  # older before newer
            if n is not node:
                for when, older in n.cases:
                    if older in flags and older is not n:
                        flags[n] = either(flags.get(n, False), both(flags[older], when))
        return [(n, flag) for n, flag in flags.items() if n is not node and self.known(flag) is not False]

    def same(self, a: Any, b: Any) -> Flag:
        """Whether two objects are one."""
        if a is b:
            return True
        if not self.tracking:
            comparable = a.__class__ is b.__class__ or (
                isinstance(a, Tensor) and isinstance(b, Tensor)
            )  # traced, and a constant
            if id(a) in self.suspects and has_identity(b) and comparable:
                raise Restart(TRACK)
            return False
        return next((flag for n, flag in self.related(a) if n.target is b), False)

    def known(self, flag: Flag, found: dict[int, bool | None] | None = None) -> bool | None:
        """A flag that the path being traced decides."""
        if isinstance(flag, bool):
            return flag
        found = {} if found is None else found
        if id(flag) not in found:
            found[id(flag)] = self._decided(flag, found)
        return found[id(flag)]

    def _decided(self, flag: Flag, found: dict[int, bool | None]) -> bool | None:
        for assumed, value in self.assumed:
            if alike(assumed, flag):
                return value
        if not isinstance(flag, Expr) or flag.kind == "equal":
            return None
        parts = [self.known(part, found) for part in flag.parts]
        if flag.kind == "not":
            return None if parts[0] is None else not parts[0]
        ends = flag.kind == "or"
        return ends if ends in parts else None if None in parts else not ends

    # -- changes in place ------------------------------------------------------------------------------------------

    def before(self, target: Any) -> None:
        """A list, dict or tensor is about to be changed."""
        if not self.tracking:
            if id(target) in self.suspects:
                raise Restart(TRACK)
            return
        if not self.frozen:
            return
        for value in (target, *(n.target for n, _ in self.related(target))):
            if id(value) in self.frozen:
                raise JoinError(f"{user_location()}: {IN_LIST.format(_kind(target))}")

    def changed(self, target: Any) -> None:
        """It was: so are all objects that are the same one."""
        node = self.nodes.get(id(target))
        if node is None:
            return
        related = self.related(target)
        for other, flag in related:
            if self.seen(other.target):
                self._copy(target, other.target, flag)
        for n, flag in [(node, True), *related]:
            for home in n.homes:
                self._put_back(target, home, both(flag, home.valid))

    def _copy(self, source: Any, target: Any, flag: Flag) -> None:
        """The content of one object for another, where they are one."""
        from gradtape.frontend.staging import choose

        place = content_of(target)
        self.tracer.note(place)
        old = place.read()
        new = self._own_items(content_of(source).read(), old, flag)
        try:
            found = choose(emitted(flag), lambda: new, lambda: old) if self.known(flag) is None else new
        except JoinError as error:
            raise JoinError(
                f"{user_location()}: whether this changes the {_kind(target)} that another name refers to depends on a "
                f"tensor's value, and the two outcomes do not fit into one value: {error}"
            ) from None
        if isinstance(old, Tensor) and found.dtype != old.dtype:
            found = cast(found, old.dtype)
        place.write(found)

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
            if node is not None and any(n.target is b and alike(when, flag) for when, n in node.cases):
                return old
        return new

    def _put_back(self, target: Any, home: Home, flag: Flag) -> None:
        from gradtape.frontend.staging import choose

        staged = staged_items(home.owner)
        if self.known(flag) is False or staged is None:
            return
        self.tracer.note(ListContent(home.owner))
        items = staged.items

        def put() -> Any:
            return apply(LIST_SET, items, convert(home.index), to_spec(target, items.spec.item))

        found = put() if self.known(flag) else choose(emitted(flag), put, lambda: items)
        home.owner[0] = staged.with_items(found, 0)
        self.changed(home.owner)

    def seen(self, target: Any) -> bool:
        """Whether the user's code can still see an object."""
        holders = Holders(self.references_to)
        self.reference(holders)
        holders.reference(target)
        return holders.count().elsewhere(target)

    def reference(self, holders: Holders) -> None:
        """The references that the constructs being traced have."""
        for values in self.holding:
            holders.references(values)

    def references_to(self, value: Any) -> int:
        """How many references to an object the trace itself has, besides those of the constructs being traced."""
        key = id(value)
        found = (key in self.nodes) + (key in self.frozen) + (key in self.suspects) + (key in self.copied)
        if key in self.slots:
            found += 1 + len(self.slots[key][1])
        found += sum(other is value for other in (*self.disturbed, *self.listed, *(w[1] for w in self.watches)))
        if has_identity(value):
            place = content_of(value).key
            found += len({id(log.entries[place][0]) for log in self.tracer.logs if place in log.entries})
        return found

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
            others = [n.target for n, _ in self.related(tensor)] if self.tracking else self.suspects.values()
            made, used = _since(block, start)  # what was computed since has its derivative
            values = {id(t._data): t for t in others if isinstance(t, TracedTensor) and t._data is not tensor._data}
            if any(key not in made and (key in used or id(t) in given) for key, t in values.items()):
                if not self.tracking:
                    raise Restart(TRACK)
                raise JoinError(
                    f"{user_location()}: whether a tensor that the tape watches is the same one as another that is used here "
                    "depends on a tensor's value; its gradient would have to count both uses, or one. Watch a copy: "
                    "`y = gt.identity(x)` where it is first set"
                )

    # -- refusals --------------------------------------------------------------------------------------------------

    def freeze(self, value: Any) -> None:
        """An object must not be changed from now on."""
        if has_identity(value) and id(value) not in self.frozen:
            self.frozen[id(value)] = value
            self._journal.append(lambda: self.frozen.pop(id(value)))

    def freeze_items(self, values: Iterable[Any]) -> None:
        """These are items of a list of the program, nobody knows which."""
        for value in values:
            if self.tracking:
                self.freeze(value)
            else:
                self.suspect(value)

    # -- slots of lists of the program -----------------------------------------------------------------------------

    def taken(self, owner: list[Any], index: Any, item: Any) -> None:
        """`item` is what `owner[index]` gave."""
        if not self.tracking:
            self.suspect(item)
            return
        if id(owner) in self.copied:
            self.freeze_items([item])
            return
        place = _slot(owner, index)
        self._link_to_slots(item, owner, place)
        self.settle(item, owner, place, True)

    def stored(self, owner: list[Any], index: Any, value: Any, new: bool) -> None:
        """`owner[index] = value`, or `value` is a `new` item at its end."""
        if not self.tracking:
            self.suspect(value)
            self.listed.append(value)
            return
        if id(owner) in self.copied:
            self.freeze_items([value])
            return
        place = _slot(owner, index)
        if not new:
            self._disturb(owner, place)
        if has_identity(value):
            self.settle(value, owner, place, True)

    def removed(self, owner: list[Any], item: Any) -> None:
        """`item` was the last of the list; called before the list is changed."""
        if not self.tracking:
            self.suspect(item)
            return
        place = _slot(owner, -1)
        self._link_to_slots(item, owner, place)
        self._disturb(owner, place)

    def copy(self, owner: list[Any], twin: list[Any]) -> None:
        """`twin` has the same items: what stands in their slots must not change."""
        if self.tracking:
            for value in (owner, twin):
                self.share(value, ())

    def share(self, owner: Any, values: Iterable[Any]) -> None:
        """The items of a list are known elsewhere too, `values` among them, nobody knows which: none of them must change."""
        self.unsettle(owner)
        self.freeze_items(values)
        if id(owner) not in self.copied:
            self.copied[id(owner)] = owner
            self._journal.append(lambda: self.copied.pop(id(owner)))

    def settle(self, value: Any, owner: list[Any], index: Any, valid: Flag) -> None:
        """`value` is item `index` of a list of the program where `valid` holds."""
        home = Home(self.node(value), owner, index, valid)
        homes = self.slots.setdefault(id(owner), (owner, []))[1]
        homes.append(home)
        home.node.homes.append(home)
        self._journal.append(homes.pop)
        self._journal.append(home.node.homes.pop)

    def cleared(self, owner: list[Any]) -> None:
        """The list has no items any more."""
        self._disturb(owner, None)

    def _homes(self, owner: list[Any]) -> Iterator[tuple[Home, Flag]]:
        """The known slots of a list and of those that may be the same one, and when they are."""
        for value, flag in [(owner, True), *((n.target, flag) for n, flag in self.related(owner))]:
            for home in list(self.slots.get(id(value), (None, ()))[1]):
                yield home, flag

    def _link_to_slots(self, item: Any, owner: list[Any], place: Any) -> None:
        for home, flag in list(self._homes(owner)):
            self.link(item, home.node.target, both(both(flag, home.valid), one_slot(home.index, place)))

    def _disturb(self, owner: list[Any], place: Any) -> None:
        """A slot (None: each) gets another object, or goes."""
        self.disturbed.append(owner)
        for home, flag in list(self._homes(owner)):
            before = home.valid
            gone = both(flag, True if place is None else one_slot(home.index, place))
            home.valid = both(before, opposite(gone))
            self._journal.append(partial(setattr, home, "valid", before))

    def unsettle(self, owner: Any) -> None:
        """The slots of a list are not known any more: what stands in them must not change."""
        for home, _ in list(self._homes(owner)):
            self.freeze(home.node.target)

    def homes(self) -> list[Home]:
        """All slots known."""
        return [home for _, homes in self.slots.values() for home in homes]

    def close(self) -> None:
        for met in (self.suspects, self.nodes, self.frozen, self.slots, self.copied):
            met.clear()
        for kept in (self.disturbed, self.listed, self.watches, self.assumed, self.holding, self._journal):
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
    made = {id(value) for operation in operations for value in operation.results}
    return made, {id(value) for operation in operations for value in operation.operands}


def _closure(start: Node, step: Callable[[Node], Iterable[Node]]) -> set[Node]:
    reached, pending = {start}, [start]
    while pending:
        for n in step(pending.pop()):
            if n not in reached:
                reached.add(n)
                pending.append(n)
    return reached


def _slot(owner: list[Any], index: Any) -> Any:
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
