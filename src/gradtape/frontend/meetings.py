"""Where paths meet: the links (`frontend/identities.py`) of the objects that names have afterwards.

`Meeting` is the end of a branch. For each name, attribute and item whose object differs on the two paths it finds the objects
it may be, and the flags that say when: the branch's own flag, or one more output of the branch where that is decided further
in. Objects that one path made and two names have there are one object afterwards too, or linked.

`Carried` is the same for a loop. A name that gets other objects in the body has a stand-in at the start of an iteration: it is
the object from before the loop, or one the body made, as flags say that the loop carries along.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from gradtape.ad.tracing import TracedTensor, current_trace
from gradtape.frontend.bodies import Ran, Sight, as_now, like, parts_of
from gradtape.frontend.flags import Flag, both, either, emitted, opposite
from gradtape.frontend.holders import Holders
from gradtape.frontend.identities import IN_LIST, TRACK, Identities, Restart, has_identity
from gradtape.frontend.plans import FLAG, JoinError, Plan, is_missing
from gradtape.frontend.staged_values import Maybe, staged_items
from gradtape.tree import LeafTuple


class Column(NamedTuple):
    """The objects that a name or place has on two paths (or before and after), whether they themselves are objects or only
    what an object (`owner`) holds."""

    first: Any
    second: Any
    counts: bool = True
    owner: Any = None


class CarryFlag(Plan):
    """One flag."""

    def types(self) -> list[Any]:
        return [FLAG]

    def tensors(self, value: Any) -> list[Any]:
        found = emitted(value)
        return [found if isinstance(found, TracedTensor) else current_trace().constant(bool(found))]

    def value(self, feed: Iterator[Any]) -> Any:
        return next(feed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CarryFlag)

    __hash__ = None  # type: ignore[assignment]


def there(value: Any) -> Any:
    """The value itself, where it may be missing; None if it is."""
    return value.value if isinstance(value, Maybe) else None if is_missing(value) else value


def children(value: Any) -> dict[Any, Any] | None:
    """What a container holds, by place; None for anything else."""
    if isinstance(value, dict):
        return value
    plain_list = value.__class__ is list and staged_items(value) is None
    if plain_list or (isinstance(value, tuple) and not isinstance(value, LeafTuple)):
        return dict(enumerate(value))
    return None


def beside(held: dict[Any, Any], other: Any) -> dict[Any, Any] | None:
    """What `other` holds in the same places; None if it is not built alike."""
    if other is None:
        return dict.fromkeys(held)
    found = children(other)
    return found if found is not None and found.keys() == held.keys() else None


def pairs_in(x: Any, y: Any, counts: bool, sights: tuple[Sight, Sight]) -> Iterator[tuple[Any, Any]]:
    """Objects that stand in the same place of two values and are not one object."""
    x, y = there(x), there(y)
    if x is y:
        return
    if counts and (has_identity(x) or has_identity(y)):
        yield x, y
    x, y = sights[0](x), sights[1](y)
    held = children(x if x is not None else y)
    if held is not None:
        first, second = beside(held, x), beside(held, y)
        if first is not None and second is not None:
            for key in held:
                yield from pairs_in(first[key], second[key], True, sights)


def will_grow(a: Any, b: Any) -> bool:
    """Whether two lists can only meet as a list of the program, and are not both one already."""
    if not isinstance(a, list) or not isinstance(b, list):
        return False
    staged = [staged_items(value) is not None for value in (a, b)]
    return not all(staged) and (any(staged) or len(a) != len(b))


class Meeting:
    """The objects of two branches, becoming one each."""

    def __init__(self, identities: Identities, flag: TracedTensor, ran: Sequence[Ran], columns: Sequence[Column]) -> None:
        self.identities = identities
        self.flag = flag.__copy__()
        self.ran = ran
        self.columns = columns
        self.flags: list[tuple[Flag, Flag]] = []  # on each path: outputs of the branch
        self.links: dict[tuple[int, int], list[tuple[Any, Any]]] = {}  # (x, y) → what it may be: (object, when)
        self.twins: dict[tuple[int, int], list[tuple[Any, Any]]] = {}  # … → (its (x, y), when): merged of the same
        self.items: dict[tuple[int, int], list[tuple[int, Any, Any]]] = {}  # lists → objects in their slots, and when
        self.loose: dict[int, Any] = {}  # objects that become items of lists, nobody will know of which names
        if identities.tracking:
            self._find()
            self._find_items()

    def _find(self) -> None:
        own: dict[int, list[Any]] = {}  # objects made on a path → the pairs that have them, and when
        sights = (self.ran[0].see, self.ran[1].see)
        for x, y in [pair for c in self.columns for pair in pairs_in(c.first, c.second, c.counts, sights)]:
            key = (id(x), id(y))
            if key in self.links:
                continue
            found = self._candidates(x, y)
            self.links[key] = [(value, self._when(a, b)) for value, a, b in found if not self._made(value)]
            for value, a, b in found:
                if self._made(value):
                    own.setdefault(id(value), []).append((key, a, b))
        shared: dict[Any, list[Flag]] = {}
        for entries in own.values():
            for i, (key, a, b) in enumerate(entries):
                for earlier, c, d in entries[:i]:
                    flags = shared.setdefault((key, earlier), [False, False])
                    flags[0], flags[1] = either(flags[0], both(a, c)), either(flags[1], both(b, d))
        for (key, earlier), (a, b) in shared.items():
            self.twins.setdefault(key, []).append((earlier, self._when(a, b)))
        self.named = own.keys()

    def _find_items(self) -> None:
        """Objects in Python lists that become items of a list of the program: each stands for its slot."""
        sights = (self.ran[0].see, self.ran[1].see)
        pairs = [pair for c in self.columns for pair in pairs_in(c.first, c.second, c.counts, sights)]
        for x, y in [*pairs, *((c.first, c.second) for c in self.columns if not c.counts)]:
            sides = (self.ran[0].see(x), self.ran[1].see(y))
            if (id(x), id(y)) in self.items or not will_grow(*sides):
                continue
            slots = self.items[id(x), id(y)] = []
            for side, (r, items) in enumerate(zip(self.ran, sides, strict=True)):
                for i, item in enumerate(items if staged_items(items) is None else ()):
                    for value, flag in r.may_be.get(id(item), [(item, True)]):
                        if has_identity(value) and not self._made(value):
                            slots.append((i, value, self._when(False, flag) if side else self._when(flag, False)))
                    for part in parts_of(item):
                        if id(part) in self.named or (part is not item and not self._made(part)):
                            self.loose[id(part)] = part
                            slots.append((-1, part, True))

    def _made(self, value: Any) -> bool:
        return any(id(value) in r.own for r in self.ran)

    def _candidates(self, x: Any, y: Any) -> list[tuple[Any, Flag, Flag]]:
        sides = [r.may_be.get(id(v), [] if v is None else [(v, True)]) for r, v in zip(self.ran, (x, y), strict=True)]
        found: dict[int, list[Any]] = {}
        for side, candidates in enumerate(sides):
            for value, flag in candidates:
                if has_identity(value):
                    found.setdefault(id(value), [value, False, False])[1 + side] = flag
        return [(value, a, b) for value, a, b in found.values()]

    def _when(self, a: Flag, b: Flag) -> Any:
        """A flag that is `a` on the first path and `b` on the second: outside, or the index of an output."""
        if isinstance(a, bool) and isinstance(b, bool):
            return a if a is b else self.flag if a else opposite(self.flag)
        self.flags.append((a, b))
        return len(self.flags)  # from 1: bools are flags

    def settle(self, results: list[Any], flags: Sequence[Any]) -> list[Any]:
        """The results, linked; those that are one object on both paths are one object."""
        identities = self.identities
        if not identities.tracking:
            self._suspect(results)
            return results
        self.outs = flags
        self.made: dict[tuple[int, int], Any] = {}
        for result, (x, y, counts, owner) in zip(results, self.columns, strict=True):
            if not counts:
                self._put_in(owner, there(result), x, y)
        settled = [self._settled(r, c.first, c.second, c.counts) for r, c in zip(results, self.columns, strict=True)]
        for r in self.ran:
            keep_refusals(identities, r)
            for owner in r.disturbed:
                identities.unsettle(owner)
        return settled

    def _suspect(self, results: list[Any]) -> None:
        first, second = self.ran[0].see, self.ran[1].see
        for result, (x, y, counts, _) in zip(results, self.columns, strict=True):
            met = [*pairs_in(x, y, counts, (first, second))]
            met += [*pairs_in(result, x, counts, (as_now, first)), *pairs_in(result, y, counts, (as_now, second))]
            for pair in met:
                self.identities.suspect(*pair)
            if staged_items(there(result)) is not None:
                for side in (first(there(x)), second(there(y))):
                    self.identities.suspect(*parts_of(side))

    def _put_in(self, owner: Any, result: Any, x: Any, y: Any) -> None:
        """The slots of a list that is one of the program from now on."""
        if staged_items(result) is None:
            return
        for i, value, when in self.items.get((id(x), id(y)), ()):
            if i < 0:
                self.identities.share(owner, [value] if not self._made(value) else ())
            else:
                self.identities.settle(value, owner, i, self._flag(when))

    def _settled(self, result: Any, x: Any, y: Any, counts: bool = True) -> Any:
        x, y = there(x), there(y)
        if isinstance(result, Maybe):
            result.value = self._settled(result.value, x, y, counts)
            return result
        if result is x and result is y:
            return result
        if counts and has_identity(result) and (id(x), id(y)) in self.links:
            known = self.made.get((id(x), id(y)))
            if known is not None:
                return known
            if result is x or result is y:  # equal on both paths, but not one object
                result = result.copy() if isinstance(result, (dict, list)) else result.__copy__()
            self._linked(result, x, y)
            self._put_in(result, result, x, y)
        held = children(result)
        if held is None:
            return result
        first, second = beside(held, self.ran[0].see(x)), beside(held, self.ran[1].see(y))
        if first is None or second is None:
            return result
        made = {key: self._settled(child, first[key], second[key]) for key, child in held.items()}
        if isinstance(result, dict):
            result.update(made)
        elif isinstance(result, list):
            result[:] = made.values()
        elif any(made[key] is not child for key, child in held.items()):
            return like(result, list(made.values()))
        return result

    def _linked(self, result: Any, x: Any, y: Any) -> None:
        key = (id(x), id(y))
        identities = self.identities
        self.made[key] = result
        for other, when in self.links[key]:
            identities.link(result, other, self._flag(when))
        for earlier, when in self.twins.get(key, ()):
            if earlier in self.made:
                identities.link(result, self.made[earlier], self._flag(when))
        candidates = {id(value) for value, _, _ in self._candidates(x, y)}
        frozen = {id(value) for r in self.ran for value in r.frozen} | identities.frozen.keys() | self.loose.keys()
        if not candidates.isdisjoint(frozen):
            identities.freeze(result)
        if not candidates.isdisjoint({id(value) for r in self.ran for value in r.copied} | identities.copied.keys()):
            identities.share(result, ())

    def _flag(self, when: Any) -> Flag:
        return self.outs[when - 1] if isinstance(when, int) and not isinstance(when, bool) else when


Held = tuple[Any, bool, Any]  # the value of a state, whether it is an object, the object it is held by otherwise
Part = tuple[int, tuple[Any, ...]]  # the state it is in, and the way to it inside


def parts_at(
    value: Any, counts: bool = True, sight: Sight = as_now, way: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All objects inside a value that can be changed in place, with the way to each."""
    value = there(value)
    if counts and has_identity(value):
        yield way, value
    for key, child in (children(sight(value)) or {}).items():
        yield from parts_at(child, True, sight, (*way, key))


class Carried:
    """Which objects the stand-ins of a loop's state are."""

    def __init__(self, identities: Identities, line: int) -> None:
        self.identities = identities
        self.line = line
        self.known: dict[tuple[Part, int], tuple[Part, Any]] = {}  # a stand-in may be an object from before the loop
        self.pairs: dict[tuple[Part, Part], None] = {}  # two stand-ins may be one
        self.seen: dict[int, Any] = {}  # what the ends of the last attempt may be
        self.waits = 0  # attempts only to see whether the same objects are met again
        self.stuck: dict[Part, None] = {}  # stand-ins that must not change
        self.copies: dict[Part, None] = {}  # stand-ins whose items must not change
        self.disturbed: dict[int, Any] = {}
        self.inputs: dict[Part, Any] = {}
        self.shared: dict[int, dict[int, Any]] = {}  # by state: objects in a list that somebody else has

    def types(self) -> list[Any]:
        return [FLAG] * (len(self.known) + len(self.pairs))

    def starts(self, columns: Sequence[Held]) -> list[Flag]:
        """The flags before the loop."""
        parts = dict(self._parts(columns))
        same = self.identities.same
        return [
            *(same(parts[part], value) if part in parts else False for part, value in self.known.values()),
            *(same(parts[a], parts[b]) if a in parts and b in parts else False for a, b in self.pairs),
        ]

    @staticmethod
    def _parts(columns: Sequence[Held]) -> Iterator[tuple[Part, Any]]:
        for i, (value, counts, _) in enumerate(columns):
            for way, part in parts_at(value, counts):
                yield (i, way), part

    def enter(self, columns: Sequence[Held], starts: Sequence[Any], flags: Sequence[Any]) -> None:
        """At the start of a body: link its stand-ins; `columns` are the values that names and places have."""
        identities = self.identities
        before = dict(self._parts([(start, counts, None) for start, (_, counts, _) in zip(starts, columns, strict=True)]))
        self.inputs = {p: value for p, value in self._parts(columns) if value is not before.get(p)}
        if not identities.tracking:
            identities.suspect(*self.inputs.values(), *(before[p] for p in self.inputs if p in before))
            for (value, _, _), start in zip(columns, starts, strict=True):
                if staged_items(there(value)) is not None and staged_items(start) is None:
                    identities.suspect(*parts_of(start))
            return
        self._by_value(columns)
        for owner in self.disturbed.values():
            identities.unsettle(owner)
        self._link(self.inputs, flags)

    def _by_value(self, columns: Sequence[Held]) -> None:
        """Objects in Python lists that became items of a list of the program, and that somebody else has."""
        for i, parts in self.shared.items():
            value, _, owner = columns[i]
            if staged_items(there(value)) is not None:
                self.identities.share(value if owner is None else owner, parts.values())

    def _link(self, made: dict[Part, Any], flags: Sequence[Any]) -> None:
        feed = iter(flags)
        for pair in self.pairs:
            for part in pair:
                if part in made:
                    self.identities.node(made[part])
        for part, value in self.known.values():
            flag = next(feed)
            if part in made:
                self.identities.link(made[part], value, flag)
        for a, b in self.pairs:
            flag = next(feed)
            if a in made and b in made and made[a] is not made[b]:
                self.identities.link(made[b], made[a], flag)
        for part in self.stuck:
            if part in made:
                self.identities.freeze(made[part])
        for part in self.copies:
            if part in made:
                self.identities.share(made[part], ())

    def learn(self, ran: Ran, columns: Sequence[Column], stays: Sequence[bool], holders: Holders) -> bool:
        """What the last attempt showed; `columns` are the objects before the loop and at the end of the body, `stays` says
        which states have no stand-ins, nor will. True if there is more to carry than thought."""
        if not self.identities.tracking:
            for (start, end, _, _), same in zip(columns, stays, strict=True):
                if not same:
                    self.identities.suspect(*parts_of(start), *(part for _, part in parts_at(end, True, ran.see)))
            if any((kind, id(value)) in ran.written for value in ran.frozen for kind in ("tensor", "list", "dict")):
                raise Restart(TRACK)
            return False
        before = self._size()
        stand_ins = {id(value) for value in self.inputs.values()}
        found: dict[Part, list[tuple[Any, Flag]]] = {}
        for i, (start, end, counts, _) in enumerate(columns):
            if stays[i]:
                continue
            for way, value in parts_at(start, counts):
                if holders.elsewhere(value):
                    if isinstance(start, list) and staged_items(start) is None and way:
                        self.shared.setdefault(i, {})[id(value)] = value
                    self.known.setdefault(((i, way), id(value)), ((i, way), value))
            for way, value in parts_at(end, counts, ran.see):
                found[(i, way)] = ran.may_be.get(id(value), [(value, True)])
        seen: dict[int, Any] = {}
        # an object that was met in the attempt before was not made by the body
        before_the_loop = {id(value) for _, value in self.known.values()} | self.seen.keys()
        holding: dict[int, list[Part]] = {}
        frozen = {id(value) for value in ran.frozen} | self.identities.frozen.keys()
        copied = {id(value) for value in ran.copied} | self.identities.copied.keys()
        for part, candidates in found.items():
            for value, _ in candidates:
                if id(value) not in stand_ins and id(value) not in ran.own:
                    seen[id(value)] = value
                    if id(value) in before_the_loop:
                        self.known.setdefault((part, id(value)), (part, value))
                        continue
                holding.setdefault(id(value), []).append(part)
                if id(value) in frozen:
                    self.stuck[part] = None
                if id(value) in copied:
                    self.copies[part] = None
        for parts in holding.values():
            for i, b in enumerate(parts):
                for a in parts[:i]:
                    if (b, a) not in self.pairs and a != b:
                        self.pairs.setdefault((a, b))
        unsure = not seen.keys() <= before_the_loop and self.waits < 2
        self.waits += unsure
        self.seen = seen
        for owner in ran.disturbed:
            if id(owner) in self.identities.slots:
                self.disturbed[id(owner)] = owner
        self.found = found
        self._check_persisting(ran, stand_ins, holding)
        return unsure or self._size() > before

    def _size(self) -> int:
        found = len(self.known) + len(self.pairs) + len(self.stuck) + len(self.copies) + len(self.disturbed)
        return found + sum(map(len, self.shared.values()))

    def _check_persisting(self, ran: Ran, stand_ins: set[int], holding: dict[int, list[Part]]) -> None:
        """An object put into a list of the program in one iteration must not be changed in the next."""
        for value in ran.frozen:
            written = any((kind, id(value)) in ran.written for kind in ("tensor", "list", "dict"))
            stays = id(value) in holding if id(value) in stand_ins else id(value) not in ran.own
            if written and stays:
                raise JoinError(f"line {self.line}: {IN_LIST.format('object')}")

    def ends(self) -> list[Flag]:
        """The flags at the end of the body."""
        flags = []
        for part, value in self.known.values():
            flags.append(_any(flag for other, flag in self.found.get(part, ()) if other is value))
        for a, b in self.pairs:
            first, second = self.found.get(a, ()), self.found.get(b, ())
            flags.append(_any(both(f, g) for p, f in first for q, g in second if p is q))
        return flags

    def settle(self, columns: Sequence[Held], starts: Sequence[Any], ran: Ran, flags: Sequence[Any]) -> None:
        """After the loop: link the results."""
        before = dict(self._parts([(start, counts, None) for start, (_, counts, _) in zip(starts, columns, strict=True)]))
        made = {p: value for p, value in self._parts(columns) if value is not before.get(p)}
        if not self.identities.tracking:
            self.identities.suspect(*made.values())
            return
        self._link(made, flags)
        self._by_value(columns)
        keep_refusals(self.identities, ran)
        for owner in self.disturbed.values():
            self.identities.unsettle(owner)


def keep_refusals(identities: Identities, ran: Ran) -> None:
    """What must not change because of what a body did."""
    for value in ran.frozen:
        if id(value) not in ran.own:
            identities.freeze(value)
    for value in ran.copied:
        if id(value) not in ran.own:
            identities.share(value, ())


def _any(flags: Iterator[Flag]) -> Flag:
    found: Flag = False
    for flag in flags:
        found = either(found, flag)
    return found


def counter(identities: Identities, ran: Ran, others: Sequence[Any]) -> Holders:
    """Who holds what, the results of an attempt being known."""
    holders = Holders(identities.references_to)
    identities.reference(holders)
    ran.reference(holders)
    holders.references(others)
    return holders.count()
