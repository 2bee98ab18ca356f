"""Numbers in attributes that may differ from one iteration to the next: where they are, and how an operand takes their place.

`x[3, 2:5]` has the holes 3, 2 and 5; with operands for them it is `getitem_at`. A structured operation has the holes of
everything in its regions, in order: the operand that fills one is handed down as a parameter. `outline` gives what is left
when the holes are taken out, as a key; two operations with equal outlines differ in their holes only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Field, Slot, slots_in
from gradtape.ir.walk import Rebuild, clone, flat, groups_of, insert_param, layout_of
from gradtape.ops.dynamic import ADD_AT, GETITEM_AT, PUT_AT, UPDATE_AT, open_axes, result_axes
from gradtape.ops.index import GETITEM, PUT_SLICE, UPDATE
from gradtape.ops.padding import PAD
from gradtape.ops.staged import ASSERT, PRINT
from gradtape.ops.structured import COND, COUNT, SCAN, WHILE
from gradtape.passes.facts import attr_key, attrs_key, type_key

# op → the attribute with the template, how many operands come before those of its slots
TEMPLATES: dict[Any, tuple[str, int]] = {
    GETITEM: ("key", 1),
    GETITEM_AT: ("key", 1),
    PUT_SLICE: ("key", 1),
    PUT_AT: ("key", 1),
    UPDATE: ("key", 2),
    UPDATE_AT: ("key", 2),
    ADD_AT: ("key", 2),
    PRINT: ("template", 0),
    ASSERT: ("template", 1),
}
DYNAMIC = {GETITEM: GETITEM_AT, PUT_SLICE: PUT_AT, UPDATE: UPDATE_AT}
TEXTS = (PRINT, ASSERT)


def outline(item: Any) -> tuple[Any, tuple[int, ...]]:
    """An operation's (or item's) attributes and regions as a key, and the holes."""
    op, attrs = item.op, item.attrs
    if item.regions or item.layout:
        return _structured_outline(item)
    if not attrs:
        return (), ()
    place = TEMPLATES.get(op)
    if place is not None:
        template = attrs[place[0]]
        # True is an int to Python, and another index to NumPy
        if any(part.__class__ is bool or isinstance(part, np.ndarray) for part in template):
            return attrs_key(attrs), ()  # not for slots
        holes: list[int] = []
        key = tuple([_part_key(part, holes, op in TEXTS) for part in template])
        rest = {name: attr for name, attr in attrs.items() if name != place[0]} if len(attrs) > 1 else {}
        return (key, attrs_key(rest)), tuple(holes)
    if op is PAD:
        # by ends, not by widths: opened, it is a slice of the result (`_opened_padding`)
        ends = _ends(item)
        return ((), ends) if ends is not None else (attrs_key(attrs), ())
    return attrs_key(attrs), ()


def _ends(item: Any) -> tuple[int, ...] | None:
    """Where what stands inside a padding starts and stops on every axis: the types of operand and result say the rest."""
    shape = item.operands[0].type.shape
    pairs = zip(item.attrs["paddings"], shape, strict=True)
    numbers = tuple([end for (before, _), d in pairs for end in (before, before + d)])
    return numbers if all(number.__class__ is int for number in numbers) else None


def _part_key(part: Any, holes: list[int], text: bool) -> Any:
    kind = part.__class__
    if kind is int:
        holes.append(part)
        return int
    if kind is slice and part.start.__class__ is int and part.stop.__class__ is int and part.start >= 0 and part.stop >= 0:
        # a negative end counts from the end of the axis, an absent one is no number: neither can be computed from a loop's
        # index
        holes += (part.start, part.stop)
        return (slice, attr_key(part.step))
    if kind is tuple and text:
        return (tuple, *(_part_key(piece, holes, text) for piece in part))
    return attr_key(part)


def _structured_outline(item: Any) -> tuple[Any, tuple[int, ...]]:
    holes: list[int] = []
    attrs = item.attrs
    if item.op is SCAN and attrs["length"].__class__ is int:
        holes.append(attrs["length"])
        attrs = {name: attr for name, attr in attrs.items() if name != "length"}
    inside = tuple([(name, _block_outline(region, holes)) for name, region in item.regions.items()])
    if item.op not in (COND, WHILE, SCAN):  # nobody hands operands down there
        inside, holes = (*inside, ("holes", tuple(holes))), []
    return (attrs_key(attrs), inside, tuple(item.layout.items()), tuple(item.result_layout.items())), tuple(holes)


def _block_outline(block: Block, holes: list[int]) -> Any:
    # values by number, as in `cse.block_key`: regions of two iterations are alike up to their values
    numbers = {value: i for i, value in enumerate(block.params)}
    key: list[Any] = [tuple([type_key(v.type) for v in block.params]), tuple(block.layout.items())]
    for operation in block.operations:
        outlined, inner = outline(operation)
        holes += inner
        key.append((operation.op, outlined, tuple([numbers[v] for v in operation.operands])))
        key.append(tuple([type_key(v.type) for v in operation.results]))
        for value in operation.results:
            numbers[value] = len(numbers)
    key += (tuple([numbers[v] for v in block.results]), tuple(block.result_layout.items()))
    return tuple(key)


Opened = tuple[Any, dict[str, Any], dict[str, Block], list[Value], dict[str, int]]


def opened(item: Any, operands: Sequence[Value], holes: Sequence[int], given: Mapping[int, Value]) -> Opened:
    """An operation with these holes, those in `given` filled by operands: op, attributes, regions, operands, layout.

    `operands` are the ordinary ones, already those of the new place.
    """
    op, attrs, extra = item.op, dict(item.attrs), list(operands)
    if item.regions or item.layout:
        return _opened_structure(item, extra, holes, given)
    if not given:
        return op, attrs, {}, extra, {}
    if op is PAD:
        return _opened_padding(item, extra, holes, given)
    name, before = TEMPLATES[op]
    filler = _Filler(holes, given, len(extra) - before, op in TEXTS)
    attrs[name] = tuple([filler.part(part) for part in attrs[name]])
    if op is GETITEM or op is GETITEM_AT:
        attrs["size"] = _lengths(attrs["key"], item)
    return DYNAMIC.get(op, op), attrs, {}, extra + filler.operands, {}


class _Filler:
    """Goes through a template as `_part_key` does and puts slots where operands are given."""

    def __init__(self, holes: Sequence[int], given: Mapping[int, Value], first: int, text: bool) -> None:
        self.holes, self.given, self.first, self.text = holes, given, first, text
        self.operands: list[Value] = []
        self._place = 0

    def number(self) -> Any:
        place = self._place
        self._place += 1
        value = self.given.get(place)
        if value is None:
            return self.holes[place]
        # a number that stands in several holes is one operand
        if value not in self.operands:
            self.operands.append(value)
        slot = Slot(self.first + self.operands.index(value))
        return Field(slot, "number") if self.text else slot

    def part(self, part: Any) -> Any:
        kind = part.__class__
        if kind is int:
            return self.number()
        if kind is slice and part.start.__class__ is int and part.stop.__class__ is int and part.start >= 0 and part.stop >= 0:
            start = self.number()
            return slice(start, self.number(), part.step)
        if kind is tuple and self.text:
            return tuple([self.part(piece) for piece in part])
        return part


def _lengths(key: Any, item: Any) -> Any:
    """What `getitem_at` is told of the slices that have slots: the lengths its result's type says."""
    rank = len(item.operands[0].type.shape)
    ranks = (0,) * (1 + max(slot.index for part in key for slot in slots_in(part)))
    for place, value in enumerate(item.operands[1:]):
        ranks = (*ranks[:place], len(value.type.shape), *ranks[place + 1 :])
    sources = zip(result_axes(key, rank, ranks), item.results[0].type.shape, strict=True)
    lengths = {source[0]: d for source, d in sources if isinstance(source, tuple)}
    return tuple([lengths[axis] for axis in open_axes(key, rank)]) or None


def _opened_padding(item: Any, operands: list[Value], holes: Sequence[int], given: Mapping[int, Value]) -> Opened:
    """A padding is a value put into zeros."""
    filler = _Filler(holes, given, 0, False)
    key = tuple([slice(filler.number(), filler.number()) for _ in range(len(holes) // 2)])
    shape = tuple(item.results[0].type.shape)
    return PUT_AT, {"key": key, "shape": shape}, {}, operands + filler.operands, {}


def _opened_structure(item: Any, operands: list[Value], holes: Sequence[int], given: Mapping[int, Value]) -> Opened:
    """Operands for holes in regions are handed down; a scan's length has a group of its own."""
    groups = groups_of(operands, item.layout)
    attrs = dict(item.attrs)
    place = 0
    if item.op is SCAN and attrs["length"].__class__ is int:
        # None: the length is an operand
        attrs["length"] = None if 0 in given else holes[0]
        groups = {"length": [given[0]] if 0 in given else [], **{k: v for k, v in groups.items() if k != "length"}}
        place = 1
    inner = {i: value for i, value in given.items() if i >= place}
    passed = list(dict.fromkeys(inner.values()))
    group = "inputs" if item.op is COND else "consts"
    if passed:
        groups[group] = groups.get(group, []) + passed
    regions = {}
    for name, region in item.regions.items():
        regions[name], place = _opened_block(region, holes, place, inner, passed, group)
    return item.op, attrs, regions, flat(groups), layout_of(groups)


def _opened_block(
    block: Block, holes: Sequence[int], place: int, given: Mapping[int, Value], passed: Sequence[Value], group: str
) -> tuple[Block, int]:
    """A copy of a region with parameters for what is passed down, and the number of the next hole."""
    scope = Rebuild(block)
    inside = {value: insert_param(scope.new, group, COUNT) for value in passed}
    for operation in block.operations:
        # holes are numbered in the order in which `_block_outline` met them
        count = len(outline(operation)[1])
        own = {i - place: inside[given[i]] for i in range(place, place + count) if i in given}
        numbers = holes[place : place + count]
        _copy_opened(scope, operation, numbers, own)
        place += count
    return scope.finish(), place


def _copy_opened(scope: Rebuild, operation: Operation, holes: Sequence[int], given: Mapping[int, Value]) -> None:
    if not given:
        regions = {name: clone(region) for name, region in operation.regions.items()}
        scope.copy(operation, attrs=operation.attrs, regions=regions)  # callees are shared
        return
    op, attrs, regions, operands, layout = opened(operation, scope.operands(operation), holes, given)
    rebuilt = Operation(
        op, operands, [v.type for v in operation.results], attrs, regions, operation.loc, layout, operation.result_layout
    )
    scope.replace(operation, scope.new.append(rebuilt).results)
