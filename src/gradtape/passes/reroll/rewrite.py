"""One round of folding: the line with the chosen loops replaced by scans, and everybody else reading from these.

Items outside the loops stay where they are. A value of a loop is read right before the item that uses it, once for each
item, so that repeated items stay alike and can be folded in the next round.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.ir.graph import Value
from gradtape.ops.lists import LIST_CONCAT, LIST_GET, LIST_NEW, LIST_STACK
from gradtape.ops.shape import CONCAT, RESHAPE, STACK
from gradtape.passes.facts import same_type
from gradtape.passes.reroll.demand import GATHERING, Demand, covers, new_axis
from gradtape.passes.reroll.line import Item, StraightLine, Table
from gradtape.passes.reroll.rolling import RolledLoop
from gradtape.passes.reroll.scan import Scan


def rewrite(line: StraightLine, table: Table, loops: Sequence[tuple[RolledLoop, Demand]], repeated: Any) -> None:
    """Replace loops (in order, apart from each other) by scans."""
    _Rewriter(line, table, loops, repeated).run()


class _Rewriter:
    def __init__(self, line: StraightLine, table: Table, loops: Sequence[tuple[RolledLoop, Demand]], repeated: Any) -> None:
        self.line, self.table, self.loops, self.repeated = line, table, loops, repeated
        self.scans: list[Scan] = []
        self.items = line.items = []  # the table keeps the old ones
        self.bases = [loop.base for loop, _ in loops]
        self.ends = [loop.end for loop, _ in loops]
        owners = np.searchsorted(self.bases, table.sources, "right") - 1
        inside = (owners >= 0) & (table.sources < np.array(self.ends)[owners])
        # only these are looked at one by one: a program may have a hundred thousand others
        self.readers = set(table.users[inside].tolist())
        self.loc: Any = None
        self._read: dict[int, Value] = {}  # what the item at hand has read so far
        self._renamed = False
        self._uniform = False  # whether it is one of many that should read in the same way

    def run(self) -> None:
        place = 0
        for loop, wanted in self.loops:
            self._keep(place, loop.start)
            self._start(loop.start)
            scan = Scan(self.line, self.table, loop, wanted, self.fetch, self.emit)
            item = scan.item()
            self.items.append(self.line.described(item))
            self.scans.append(scan)
            place = loop.stop
        count = len(self.table.items)
        self._keep(place, count)
        self._start(count)
        numbers = self.table.operands(count, count + 1, 1)[0].tolist()
        outputs = [self.fetch(n) for n in numbers]
        self.line.outputs = self.line.renamed(outputs)

    def _start(self, place: int) -> None:
        self._read = {}
        self._uniform = bool(self.repeated[place])
        if place < len(self.table.items):
            self.loc = self.table.items[place].loc

    def _keep(self, start: int, stop: int) -> None:
        for place in range(start, stop):
            item = self.table.items[place]
            if place in self.readers:
                self._start(place)
                numbers = self.table.operands(place, place + 1, 1)[0]
                if item.op in GATHERING and self._gathered(item, numbers):
                    continue
                item.operands = [self.fetch(n) for n in numbers.tolist()]
            elif self._renamed:
                item.operands = self.line.renamed(item.operands)
            self.items.append(item)

    def fetch(self, number: int) -> Value:
        """The value with this number, read from a scan where it is a result of a loop."""
        owner = bisect_right(self.bases, number) - 1
        if owner < 0 or number >= self.ends[owner]:
            value = self.table.values[number]
            return self.line.same.get(value, value)
        if number in self._read:
            return self._read[number]
        scan = self.scans[owner]
        iteration, place = divmod(number - scan.loop.base, scan.loop.width)
        latest = scan.latest.get((place, scan.loop.count - 1 - iteration))
        listed = scan.lists.get((place, None))
        # Where many items should look alike (they are about to become a loop), all read from the list, even the last value.
        if listed is None or (latest is not None and not self._uniform):
            assert latest is not None
            value = latest
        else:
            index = self.line.constant(np.int32(iteration))
            value = self.emit(LIST_GET, [listed, index], listed.type.item)
        # an item that uses a value twice reads it once
        self._read[number] = value
        return value

    def emit(self, op: Any, operands: Sequence[Value], type: Any, attrs: dict[str, Any] | None = None) -> Value:
        """One more item, before the one at hand."""
        return self.line.emit(op, list(operands), type, attrs or {}, self.loc)

    # -- operations on all iterations ------------------------------------------------------------------------------

    def _gathered(self, item: Item, numbers: Any) -> bool:
        """A stack, concatenation or list of all values of a loop takes the loop's list; False if the item has none."""
        pieces: dict[int, tuple[Scan, int]] = {}  # position of the first operand → the list
        for scan in self.scans:
            for place, position in covers(numbers, scan.loop):
                if (place, new_axis(item)) in scan.lists:
                    pieces[position] = (scan, place)
        (result,) = item.results
        if not pieces or (item.op is LIST_NEW and not self._is_list(result, pieces, len(numbers))):
            return False
        parts: list[Value] = []
        position = 0
        while position < len(numbers):
            if position in pieces:
                scan, place = pieces[position]
                parts.append(self._whole(item, scan, place))
                position += scan.loop.count
                continue
            value = self.fetch(int(numbers[position]))
            if item.op is STACK:
                axis, shape = item.attrs["axis"], tuple(value.type.shape)
                shape = (*shape[:axis], 1, *shape[axis:])
                value = self.emit(RESHAPE, [value], _shaped(value.type, shape), {"shape": shape})
            parts.append(value)
            position += 1
        if len(parts) > 1:
            parts = [self.emit(CONCAT, parts, result.type, {"axis": item.attrs["axis"]})]
        # later items still name the old result: they are renamed as they come
        self.line.same[result] = parts[0]
        # (from here on each item is asked; before, none had to be)
        self._renamed = True
        return True

    def _is_list(self, result: Value, pieces: dict[int, tuple[Scan, int]], count: int) -> bool:
        """Whether a new list is just the list of a loop."""
        scan, place = pieces.get(0, (None, 0))
        return scan is not None and scan.loop.count == count and same_type(scan.lists[place, None].type, result.type)

    def _whole(self, item: Item, scan: Scan, place: int) -> Value:
        axis = new_axis(item)
        values, count = scan.lists[place, axis], scan.loop.count
        if item.op is LIST_NEW:
            return values
        type = values.type.item
        attrs: dict[str, Any] = {"length": count, "item_shape": tuple(type.shape)}
        if item.op is STACK and axis is None:
            return self.emit(LIST_STACK, [values], _shaped(type, (count, *type.shape)), attrs)
        axis = item.attrs["axis"]
        shape = (*type.shape[:axis], count * type.shape[axis], *type.shape[axis + 1 :])
        return self.emit(LIST_CONCAT, [values], _shaped(type, shape), {"axis": axis, **attrs})


def _shaped(type: Any, shape: tuple[Any, ...]) -> Any:
    return type.__class__(shape, type.dtype)
