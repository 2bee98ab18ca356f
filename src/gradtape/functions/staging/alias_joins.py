"""Which objects the phis of a join are: the links (`aliases.py`) of what names have after a branch, or in a loop.

A join has phis for the parts of its state, each a name, attribute or item at the end of a way inside a value. A phi may be an
object from outside the paths that meet (`outer`), and two phis may be one object that a path made (`pairs`); a flag of the
program says when. For a branch the flags come out of its two sides; a loop carries them, from before it to the end of its body.

A list of the program has values for items, not objects. An object that gets lost in one at a join while somebody else has it
must not change any more, nor must the items of the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from gradtape.functions.staging.aliases import TRACK, Aliases, Restart, has_identity
from gradtape.functions.staging.bodies import Sight, TracedBody, as_now, parts_of
from gradtape.functions.staging.conditions import Flag, both, either, emitted, opposite
from gradtape.functions.staging.joins import FLAG, Phi, is_missing
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.ir.types import TensorSpec
from gradtape.trace.tracing import TracedTensor, current_trace
from gradtape.tree import LeafTuple, like

Part = tuple[int, tuple[Any, ...]]  # the state it is in, and the way to it inside
Operands = dict[Part, list[tuple[Any, Flag]]]  # what each part may be at the end of a path, and when


class Column(NamedTuple):
    """What a name or place has on two paths (of a loop: before it and after its body): an object, or (`owner`) only what an
    object holds."""

    first: Any
    second: Any
    counts: bool = True
    owner: Any = None


class FlagPhi(Phi):
    """One flag."""

    def types(self) -> list[Any]:
        return [FLAG]

    def tensors(self, value: Flag) -> list[Any]:
        flag = emitted(value)
        return [flag if isinstance(flag, TracedTensor) else current_trace().constant(bool(flag))]

    def value(self, feed: Iterator[Any]) -> Any:
        return next(feed)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FlagPhi)


# -- parts of values -------------------------------------------------------------------------------------------------


def there(value: Any) -> Any:
    """The value itself, where it may be missing; None if it is."""
    return value.value if isinstance(value, Maybe) else None if is_missing(value) else value


def children(value: Any) -> dict[Any, Any]:
    """What a container holds, by place; nothing for anything else."""
    if isinstance(value, dict):
        return value
    plain_list = value.__class__ is list and staged_items(value) is None
    return dict(enumerate(value)) if plain_list or (isinstance(value, tuple) and not isinstance(value, LeafTuple)) else {}


def parts_at(value: Any, counts: bool, way: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """All objects inside a value that can be changed in place, with the way to each."""
    value = there(value)
    if counts and has_identity(value):
        yield way, value
    for key, child in children(value).items():
        yield from parts_at(child, True, (*way, key))


def differing(
    x: Any, y: Any, counts: bool, sights: tuple[Sight, Sight], way: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """The objects in the same place of two values that are not one object, with the way to them; None where there is none."""
    x, y = there(x), there(y)
    if x is y:
        return
    if counts and (has_identity(x) or has_identity(y)):
        yield way, x, y
    first, second = children(sights[0](x)), children(sights[1](y))
    for key in {**first, **second}:
        yield from differing(first.get(key), second.get(key), True, sights, (*way, key))


# -- joins -----------------------------------------------------------------------------------------------------------


class AliasJoin:
    """What is known about the phis of one join; of a loop it grows from attempt to attempt."""

    def __init__(self, aliases: Aliases) -> None:
        self.aliases = aliases
        self.outer: dict[tuple[Part, int], tuple[Part, Any]] = {}  # a phi may be an object from outside
        self.pairs: dict[tuple[Part, Part], None] = {}  # two phis may be one
        self.frozen: dict[Any, None] = {}  # phis that must not change
        self.frozen_lists: dict[Any, None] = {}  # phis whose items must not change
        self.refused: dict[int, Any] = {}  # the same for objects from outside
        self.refused_lists: dict[int, Any] = {}

    def meet(self, operands: Operands, body: TracedBody, local: set[int]) -> None:
        """One more path: what its parts may be; objects with ids in `local` are not known outside."""
        # An object from outside can be named in a link: (part, object). One that the path made has no name out there; that two
        # parts have it is all that can be said, a link between their phis.
        holding: dict[int, list[Part]] = {}
        for part, values in operands.items():
            for value, _ in values:
                if id(value) in local:
                    holding.setdefault(id(value), []).append(part)
                else:
                    self.outer.setdefault((part, id(value)), (part, value))
        for parts in holding.values():
            for a, b in combinations(dict.fromkeys(parts), 2):
                if (b, a) not in self.pairs:
                    self.pairs.setdefault((a, b))

        def refuse(value: Any, phis: dict[Any, None], objects: dict[int, Any]) -> None:
            if id(value) in local:
                phis.update(dict.fromkeys(holding.get(id(value), ())))
            else:
                objects[id(value)] = value

        for value in (*body.frozen, *body.vacated):
            refuse(value, self.frozen, self.refused)
        for slot in body.slots:  # it is forgotten with the body: if somebody still has what stands in it, both are stuck
            if slot.item is None or id(slot.item) not in local or id(slot.item) in holding:
                refuse(slot.owner, self.frozen_lists, self.refused_lists)
                refuse(slot.item, self.frozen, self.refused)

    def flags(self, operands: Operands) -> list[Flag]:
        """At the end of a path: for each link whether it holds."""
        outer = [_any(f for other, f in operands.get(part, ()) if other is value) for part, value in self.outer.values()]
        return outer + [
            _any(both(f, g) for p, f in operands.get(a, ()) for q, g in operands.get(b, ()) if p is q) for a, b in self.pairs
        ]

    def link(self, phis: dict[Part, Any], lists: dict[Part, Any], flags: Sequence[Flag]) -> None:
        """The phis, where there are some now, with their links. Parts inside `lists` (of the program) have none."""
        aliases = self.aliases
        for pair in self.pairs:
            for part in pair:
                if part in phis:
                    aliases.node(phis[part])
        for (part, value), flag in zip(self.outer.values(), flags[: len(self.outer)], strict=True):
            if part in phis:
                aliases.link(phis[part], value, flag)
            elif (lost_in := _inside(part, lists)) is not None:
                aliases.freeze(value)
                aliases.freeze_items_of(lost_in)
        for (a, b), flag in zip(self.pairs, flags[len(self.outer) :], strict=True):
            if a in phis and b in phis:
                aliases.link(phis[b], phis[a], flag)
            else:
                for part, other in ((a, b), (b, a)):
                    if (lost_in := _inside(part, lists)) is not None:
                        aliases.freeze_items_of(lost_in)
                        aliases.freeze(*([phis[other]] if other in phis else ()))
        aliases.freeze(*(phis[part] for part in self.frozen if part in phis), *self.refused.values())
        aliases.freeze_items_of(*(phis[part] for part in self.frozen_lists if part in phis), *self.refused_lists.values())


def _inside(part: Part, lists: dict[Part, Any]) -> Any:
    """The list of the program in which a part has no place any more."""
    state, way = part
    return next((lists[state, way[:k]] for k in range(len(way)) if (state, way[:k]) in lists), None)


def program_lists(values: Sequence[Column]) -> dict[Part, Any]:
    """The lists of the program among the values that a join gives (each a column's `first`)."""
    return dict(entry for i, column in enumerate(values) for entry in _lists_at(column.first, (i, ()), column.owner))


def _lists_at(value: Any, part: Part, owner: Any = None) -> Iterator[tuple[Part, Any]]:
    value = there(value)
    if staged_items(value) is not None:
        yield part, value if owner is None else owner
    for key, child in children(value).items():
        yield from _lists_at(child, (part[0], (*part[1], key)))


def _any(flags: Iterator[Flag]) -> Flag:
    result: Flag = False
    for flag in flags:
        result = either(result, flag)
    return result


class BranchJoin(AliasJoin):
    """The end of a branch: the objects of two sides, becoming one phi each."""

    def __init__(self, aliases: Aliases, flag: TracedTensor, bodies: Sequence[TracedBody], columns: Sequence[Column]) -> None:
        super().__init__(aliases)
        self.bodies = bodies
        self.columns = columns
        self.sights = (bodies[0].see, bodies[1].see)
        self.outputs: list[tuple[Flag, Flag]] = []  # on each side: flags that the branch must give
        self._when: list[Flag] = []  # for each link: its flag, or (None) the next output
        if not aliases.tracking:
            return
        local = bodies[0].own | bodies[1].own
        sides: tuple[Operands, Operands] = ({}, {})
        for i, column in enumerate(columns):
            for way, x, y in differing(column.first, column.second, column.counts, self.sights):
                for side, body, value in zip(sides, bodies, (x, y), strict=True):
                    if has_identity(value):
                        side[i, way] = body.may_be.get(id(value), [(value, True)])
        for side, body in zip(sides, bodies, strict=True):
            self.meet(side, body, local)
        # Where each side knows its answer, the link's flag is the branch's own (or its opposite) and costs nothing; else both
        # sides compute one, and it leaves the branch like a value.
        branch = flag.__copy__()
        for a, b in zip(self.flags(sides[0]), self.flags(sides[1]), strict=True):
            if isinstance(a, bool) and isinstance(b, bool):
                self._when.append(a if a is b else branch if a else opposite(branch))
            else:
                self._when.append(None)
                self.outputs.append((a, b))

    def settle(self, results: list[Any], outputs: Sequence[Flag]) -> list[Any]:
        """The results, with their links; those that are one object on both sides are one object."""
        if not self.aliases.tracking:
            for result, (x, y, _, _) in zip(results, self.columns, strict=True):
                if result is not x or result is not y:
                    sides = [part for _, *pair in differing(x, y, True, self.sights) for part in pair]
                    self.aliases.suspect(*sides, *parts_of(result))
            return results
        self.phis: dict[Part, Any] = {}
        self.merged: dict[tuple[int, int], Any] = {}
        settled = [
            self._phi(result, c.first, c.second, (i, ()), c.counts)
            for i, (result, c) in enumerate(zip(results, self.columns, strict=True))
        ]
        lists = program_lists([Column(r, None, c.counts, c.owner) for r, c in zip(settled, self.columns, strict=True)])
        given = iter(outputs)
        self.link(self.phis, lists, [next(given) if when is None else when for when in self._when])
        return settled

    def _phi(self, result: Any, x: Any, y: Any, part: Part, counts: bool = True) -> Any:
        """A result whose objects are its own: new ones where the two sides have different ones."""
        x, y = there(x), there(y)
        if isinstance(result, Maybe):
            result.value = self._phi(result.value, x, y, part, counts)
            return result
        if result is x and result is y:
            return result
        if counts and has_identity(result):
            known = self.merged.get((id(x), id(y)))
            if known is not None:
                self.phis[part] = known
                return known
            if result is x or result is y:  # equal on both sides, but not one object
                result = result.copy() if isinstance(result, (dict, list)) else result.__copy__()
            self.phis[part] = self.merged[id(x), id(y)] = result
        first, second = children(self.sights[0](x)), children(self.sights[1](y))
        held = children(result)
        phis = {
            key: self._phi(child, first.get(key), second.get(key), (part[0], (*part[1], key))) for key, child in held.items()
        }
        if isinstance(result, dict):
            result.update(phis)
        elif isinstance(result, list) and held:
            result[:] = phis.values()
        elif any(phis[key] is not child for key, child in held.items()):
            return like(result, list(phis.values()))
        return result


class LoopJoin(AliasJoin):
    """The start of a loop's iterations: phis of the objects from before the loop and from the end of its body."""

    def __init__(self, aliases: Aliases) -> None:
        super().__init__(aliases)
        self.phis: dict[Part, Any] = {}  # of the attempt being traced
        self._end: Operands = {}

    def types(self) -> list[TensorSpec]:
        return [FLAG] * (len(self.outer) + len(self.pairs))

    def starts(self, columns: Sequence[Column]) -> list[Flag]:
        """The flags before the loop."""
        parts = _parts(columns)
        pairs = [(parts.get(part), value) for part, value in self.outer.values()]
        pairs += [(parts.get(a), parts.get(b)) for a, b in self.pairs]
        return [False if a is None or b is None else self.aliases.same(a, b) for a, b in pairs]

    def ends(self) -> list[Flag]:
        """The flags at the end of the body."""
        return self.flags(self._end)

    def enter(self, columns: Sequence[Column], flags: Sequence[Flag]) -> None:
        """The values that the state has at the start of a body, or after the loop (`first`; `second` is before it)."""
        before = _parts([Column(c.second, None, c.counts) for c in columns])
        self.phis = {part: value for part, value in _parts(columns).items() if value is not before.get(part)}
        if not self.aliases.tracking:
            self.aliases.suspect(*self.phis.values(), *(before[part] for part in self.phis if part in before))
            for column in columns:
                if column.first is not column.second and staged_items(there(column.first)) is not None:
                    self.aliases.suspect(*parts_of(column.second))
            return
        self.link(self.phis, program_lists(columns), flags)

    def learn(self, body: TracedBody, columns: Sequence[Column], stays: Sequence[bool]) -> bool:
        """What the last attempt showed; `columns` are the objects before the loop and at the end of the body, `stays` says
        which states have no phis, nor will. True if there is more to carry than thought."""
        sights = (as_now, body.see)
        open_columns = [(i, column) for i, (column, same) in enumerate(zip(columns, stays, strict=True)) if not same]
        if not self.aliases.tracking:
            for _, (start, end, _, _) in open_columns:
                self.aliases.suspect(*parts_of(start), *(y for _, _, y in differing(start, end, True, sights)))
            # in the next iteration this write comes after what made the object a suspect
            if any(key[1] in self.aliases.suspects for key in body.written):
                raise Restart(TRACK)
            return False
        # What is carried only grows, and there are finitely many parts and objects from outside: the fixpoint ends.
        before = self._size()
        self._end = {}
        for i, (start, end, counts, _) in open_columns:
            for way, value in parts_at(start, counts):
                self.outer.setdefault(((i, way), id(value)), ((i, way), value))
            for way, _, value in differing(start, end, counts, sights):
                if has_identity(value):
                    self._end[i, way] = body.may_be.get(id(value), [(value, True)])
        self.meet(self._end, body, body.own | {id(value) for value in self.phis.values()})
        return self._size() > before

    def _size(self) -> int:
        return sum(
            map(len, (self.outer, self.pairs, self.frozen, self.frozen_lists, self.refused, self.refused_lists))  # type: ignore[arg-type]
        )


def _parts(columns: Sequence[Column]) -> dict[Part, Any]:
    return {(i, way): part for i, column in enumerate(columns) for way, part in parts_at(column.first, column.counts)}
