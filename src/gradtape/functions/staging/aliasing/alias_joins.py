"""Which objects the phis of a join are: the links (`aliases.py`) of what names have after a branch, or in a loop.

A join has phis for the parts of its state, each a name, attribute or item at the end of a way inside a value. A phi may be an
object from outside the paths that meet, or the same object that a path made and another phi has; a flag of the program says
when. For a branch the flags come out of its two sides; a loop carries them, from before it to the end of its body.

A list of the program has values for items, not objects. An object that gets lost in one at a join while somebody else has it
must not change any more, nor must the items of the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape.functions.staging.aliasing.aliases import Aliases, Path
from gradtape.functions.staging.aliasing.conditions import Flag, any_of, both, opposite
from gradtape.functions.staging.aliasing.object_parts import (
    Way,
    as_now,
    children,
    differing,
    has_identity,
    parts_at,
    parts_of,
    there,
)
from gradtape.functions.staging.joins import FLAG
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.ir.types import TensorSpec
from gradtape.trace.tracing import TracedTensor
from gradtape.tree import like

if TYPE_CHECKING:
    from gradtape.functions.staging.bodies import TracedBody

Part = tuple[int, Way]  # the state it is in, and the way to it inside
Operands = dict[Part, list[tuple[Any, Flag]]]  # what each part may be at the end of a path, and when


class Column(NamedTuple):
    """What a name or place has on two paths (of a loop: before it and after its body): an object, or (`owner`) only what an
    object holds."""

    first: Any
    second: Any
    counts: bool = True
    owner: Any = None


# -- joins -----------------------------------------------------------------------------------------------------------


class AliasJoin:
    """What is known about the phis of one join; of a loop it grows from attempt to attempt."""

    def __init__(self, aliases: Aliases) -> None:
        self.aliases = aliases
        # a part's phi may be an object from outside (by its id), or the phi of another part (None: that has no name yet)
        self.links: dict[tuple[Part, Part | int], Any] = {}
        # parts, and objects from outside, that must not change; or (True) whose items must not
        self.stuck: dict[tuple[Part | int, bool], Any] = {}

    def meet(self, operands: Operands, path: Path, local: set[int]) -> None:
        """One more path: what its parts may be; objects with ids in `local` are not known outside."""
        # An object from outside can be named in a link. One that the path made has no name out there; that two parts have it is
        # all that can be said, a link between their phis.
        holding: dict[int, list[Part]] = {}
        for part, values in operands.items():
            for value, _ in values:
                if id(value) in local:
                    holding.setdefault(id(value), []).append(part)
                else:
                    self.links.setdefault((part, id(value)), value)
        for parts in holding.values():
            for a, b in combinations(dict.fromkeys(parts), 2):
                # (being one object goes both ways: one link is enough)
                if (b, a) not in self.links:
                    self.links.setdefault((a, b))

        def refuse(value: Any, items: bool) -> None:
            for key in holding.get(id(value), ()) if id(value) in local else (id(value),):
                self.stuck[key, items] = value if key == id(value) else None

        for value in path.frozen:
            refuse(value, False)
        for slot in path.slots:  # it is forgotten with the path: if somebody still has what stands in it, both are stuck
            if slot.item is None or id(slot.item) not in local or id(slot.item) in holding:
                refuse(slot.owner, True)
                refuse(slot.item, False)

    def flags(self, operands: Operands) -> list[Flag]:
        """At the end of a path: for each link whether it holds."""
        return [
            any_of(
                both(f, g)
                for p, f in operands.get(part, ())
                for q, g in (operands.get(other, ()) if isinstance(other, tuple) else ((value, True),))
                if p is q
            )
            for (part, other), value in self.links.items()
        ]

    def link(self, phis: dict[Part, Any], lists: dict[Part, Any], flags: Sequence[Flag]) -> None:
        """The phis, where there are some now, with their links. Parts inside `lists` (of the program) have none."""
        aliases = self.aliases
        for ((part, other), value), flag in zip(self.links.items(), flags, strict=True):
            ends = phis.get(part), phis.get(other) if isinstance(other, tuple) else value
            if ends[0] is not None and ends[1] is not None:
                aliases.link(*ends, flag)
                continue
            # A part inside a list that lives in the program now has no object in Python to link: what may be it must not change
            # any more.
            for lost, end in ((part, ends[1]), (other, ends[0])):
                if isinstance(lost, tuple) and (lost_in := _inside(lost, lists)) is not None:
                    aliases.items.known_elsewhere(lost_in)
                    aliases.freeze(end)
        for (key, items), value in self.stuck.items():
            target = phis.get(key) if isinstance(key, tuple) else value
            if target is not None:
                (aliases.items.known_elsewhere if items else aliases.freeze)(target)


def _inside(part: Part, lists: dict[Part, Any]) -> Any:
    """The list of the program in which a part has no place any more."""
    state, way = part
    return next((lists[state, way[:k]] for k in range(len(way)) if (state, way[:k]) in lists), None)


def program_lists(columns: Sequence[Column]) -> dict[Part, Any]:
    """The lists of the program among the values that a join gives (each a column's `first`)."""
    held = {part: value for part, value in _parts(columns).items() if staged_items(value) is not None}
    owners = {
        (i, ()): c.owner for i, c in enumerate(columns) if c.owner is not None and staged_items(there(c.first)) is not None
    }
    return {**held, **owners}


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
                        side[i, way] = body.path.may_be.get(id(value), [(value, True)])
        for side, body in zip(sides, bodies, strict=True):
            self.meet(side, body.path, local)
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
                # while aliases are not tracked, a change of any of these is a reason to trace again with tracking
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
            # two names that have one object on each side have one object after the branch
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
        return [FLAG] * len(self.links)

    def starts(self, columns: Sequence[Column]) -> list[Flag]:
        """The flags before the loop."""
        parts = _parts(columns)
        pairs = [
            (parts.get(part), parts.get(other) if isinstance(other, tuple) else value)
            for (part, other), value in self.links.items()
        ]
        return [False if a is None or b is None else self.aliases.same(a, b) for a, b in pairs]

    def ends(self) -> list[Flag]:
        """The flags at the end of the body."""
        return self.flags(self._end)

    def enter(self, columns: Sequence[Column], flags: Sequence[Flag]) -> None:
        """The values that the state has at the start of a body, or after the loop (`first`; `second` is before it)."""
        # (what is the very object from before the loop is no phi: nothing was carried into it)
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
                self.aliases.track()
            return False
        # What is carried only grows, and there are finitely many parts and objects from outside: the fixpoint ends.
        before = len(self.links) + len(self.stuck)
        self._end = {}
        for i, (start, end, counts, _) in open_columns:
            for way, value in parts_at(start, counts):
                self.links.setdefault(((i, way), id(value)), value)
            for way, _, value in differing(start, end, counts, sights):
                if has_identity(value):
                    self._end[i, way] = body.path.may_be.get(id(value), [(value, True)])
        self.meet(self._end, body.path, body.own | {id(value) for value in self.phis.values()})
        return len(self.links) + len(self.stuck) > before


def _parts(columns: Sequence[Column]) -> dict[Part, Any]:
    return {(i, way): part for i, column in enumerate(columns) for way, part in parts_at(column.first, column.counts)}
