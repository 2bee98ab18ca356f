"""Finding loops again: repeated segments of a straight line become scans, nested ones too.

A Python loop runs at trace time, so its program is one long line. Segments equal in op, attributes, types and wiring are
folded; what differs between them (constants, indices) is computed from the loop's index or scanned. The rounds: give equal
operations equal numbers (`line`), find where the sequence repeats (`repeats`), check which repetitions are loops (`loops`)
and which pay (`demand`), replace them (`scan`, `rewrite`), and again: scans may repeat themselves, and their bodies may
have loops.

Segments are contiguous and keep their place, so effects keep their order. Invariant: the program computes the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.walk import blocks, callee_of, walk
from gradtape.ops.staged import CONSTANT
from gradtape.ops.structured import SCAN
from gradtape.passes.cse import block_key
from gradtape.passes.reroll.demand import Demand, demand, pays
from gradtape.passes.reroll.line import OVERHEAD, StraightLine, Table
from gradtape.passes.reroll.repeats import LEAST, Run, find_runs
from gradtape.passes.reroll.rewrite import rewrite
from gradtape.passes.reroll.rolling import RolledLoop, loops_in
from gradtape.passes.reroll.tidy import with_constants_inside, without_zeros

FEW = 4
ROUNDS = 16  # at most: levels of nesting, and loops that read what other loops made


def reroll(block: Block) -> Block:
    """The program with its loops; the block itself if it has none.

    >>> from gradtape.ir.types import TensorSpec
    >>> from gradtape.ops.elementwise import MULTIPLY
    >>> block = Block([TensorSpec((), "float32")] * 2, layout={"inputs": 2})
    >>> value, factor = block.params
    >>> for _ in range(1000):
    ...     value = block.append(Operation(MULTIPLY, [value, factor], [value.type])).result
    >>> folded = reroll(block.give(outputs=[value]))
    >>> [operation.op.name for operation in folded]
    ['scan']
    """
    return _Reroll().block(block, outermost=True)


class _Reroll:
    """One run of the pass: regions and callees are done once each."""

    def __init__(self) -> None:
        self.folded = False
        self._callees: dict[Block, Block] = {}
        self._alike: dict[Any, Block] = {}
        self._keys: dict[Block, Any] = {}

    def _callee(self, old: Block) -> Block:
        """A callee with its loops; the same one for code that was traced several times, or no two calls would be alike."""
        if old not in self._callees:
            new = self.block(old)
            key = block_key(new, self._keys)
            places = tuple([operation.loc for part in blocks(new) for operation in part.operations])
            self._callees[old] = new if key is None else self._alike.setdefault((key, new.name, places), new)
        return self._callees[old]

    def block(self, block: Block, outermost: bool = False) -> Block:
        """A copy of a block with its loops folded; the outermost block itself if nothing was folded anywhere."""
        inner: dict[Operation, tuple[dict[str, Any], dict[str, Block]]] = {}
        for operation in block.operations:
            callee = callee_of(operation)
            if callee is not None or operation.regions:
                attrs = operation.attrs if callee is None else {**operation.attrs, "callee": self._callee(callee)}
                inner[operation] = (attrs, {name: self.block(region) for name, region in operation.regions.items()})
        # A loop whose results are read one by one elsewhere pays only if these readers become a loop too. First that is counted
        # on; if the program did not get shorter by it, only on what is certain.
        for hopeful in (True, False):
            line = _line(block, inner, True)
            before = sum(1 for _ in walk(block))
            if not _fold(line, hopeful):
                break
            new = with_constants_inside(_finished(line))
            for operation in new.operations:
                if operation.op is SCAN:  # loops in the bodies of the new loops
                    operation.regions["body"] = self.block(operation.regions["body"], outermost=True)
            new = without_zeros(new)
            # reads from lists were expected to be folded with the loops they are in
            if sum(1 for operation in walk(new) if operation.op is not CONSTANT) < before:
                self.folded = True
                return new
        return _finished(_line(block, inner, False)) if self.folded or not outermost else block


def _line(block: Block, inner: dict[Operation, tuple[dict[str, Any], dict[str, Block]]], by_rows: bool) -> StraightLine:
    line = StraightLine(block, by_rows)
    for operation in block.operations:
        attrs, regions = inner.get(operation) or (operation.attrs, {})
        line.add(operation, attrs, regions)
    line.outputs = line.read(block.results)
    return line


def _fold(line: StraightLine, hopeful: bool) -> bool:
    """Fold what can be folded: first segments from the same source lines, then any."""
    folded = False
    for located in (True, False):
        if located and all(item.loc is None for item in line.items):
            continue
        for _ in range(ROUNDS):
            runs = find_runs(line.tokens(located))
            if not runs:
                break
            table = Table(line)
            runs = [run for run in runs if _is_worthwhile(table, run)]
            repeated = np.zeros(len(line.items) + 1, bool)
            for run in runs:
                repeated[run.start : run.stop] = True
            chosen = _choose(table, runs, repeated, hopeful)
            if not chosen:
                break
            rewrite(line, table, chosen, repeated)
            folded = True
    return folded


def _is_worthwhile(table: Table, run: Run) -> bool:
    return 2 * (table.weight(run.start, run.start + run.period) + OVERHEAD) <= table.weight(run.start, run.stop)


def _choose(table: Table, runs: list[Run], repeated: Any, hopeful: bool) -> list[tuple[RolledLoop, Demand]]:
    """Loops that pay and do not overlap; those that need lists of other values only if no other is left."""
    chosen: list[tuple[RolledLoop, Demand]] = []
    taken = np.zeros(len(table.items), bool)
    bounds = np.array(runs).reshape(-1, 3).T
    known: dict[Run, list[RolledLoop]] = {}

    def loops_of(run: Run) -> list[RolledLoop]:
        free = _free(taken, run)
        if free is not None and free not in known:
            known[free] = loops_in(table, free)
        return [] if free is None else known[free]

    def take(loops: list[RolledLoop]) -> None:
        for loop in loops:
            if not taken[loop.start : loop.stop].any():
                wanted = demand(table, loop, repeated, hopeful)
                if pays(table, loop, wanted):
                    own = Run(loop.start, loop.stop, loop.period)
                    wanted.nested = len(loops) > 1 or _has_parts(own, bounds) or _is_part(own, bounds)
                    taken[loop.start : loop.stop] = True
                    chosen.append((loop, wanted))

    # Runs come by period. Outer loops first (long periods) where that needs few lists of constants, so that the loops in them
    # need not look alike; then inner loops, which the next round sees as one item each.
    for run in reversed(runs):
        take([loop for loop in loops_of(run) if loop.clean and (_is_simple(loop) or not _has_parts(run, bounds))])
    for run in runs:
        take([loop for loop in loops_of(run) if loop.clean])
    if not chosen:
        for run in runs:
            take([loop for loop in loops_of(run) if not loop.clean])
    return sorted(chosen, key=lambda pair: pair[0].start)


def _is_simple(loop: RolledLoop) -> bool:
    """Whether a loop is better folded before the loops in it: then these need not look alike in all iterations.

    If many constants differ they belong to the inner loops, which would have to gather them one by one afterwards.
    """
    return len({tuple(column) for column in loop.sources[:, loop.scanned].T.tolist()}) <= FEW


def _has_parts(run: Run, bounds: Any) -> bool:
    """Whether one period of a run has something in it that repeats."""
    # `bounds` are the runs as columns: thousands of them are compared with each
    starts, stops, _ = bounds
    return bool(((stops - starts <= run.period) & (starts >= run.start) & (stops <= run.stop)).any())


def _is_part(run: Run, bounds: Any) -> bool:
    """Whether a run lies in one period of something longer that repeats."""
    starts, stops, periods = bounds
    return bool(((periods >= run.stop - run.start) & (starts <= run.start) & (stops >= run.stop)).any())


def _free(taken: Any, run: Run) -> Run | None:
    """The longest part of a run that no loop has taken yet, if it is long enough."""
    part = taken[run.start : run.stop]
    if not part.any():
        return run
    edges = np.concatenate(([-1], np.flatnonzero(part), [len(part)]))
    gap = int(np.argmax(np.diff(edges)))
    start, stop = run.start + int(edges[gap]) + 1, run.start + int(edges[gap + 1])
    return Run(start, stop, run.period) if stop - start >= LEAST * run.period else None


def _finished(line: StraightLine) -> Block:
    """The line as a block; a constant is made right before its first use."""
    old = line.block
    new = Block([v.type for v in old.params], [v.name for v in old.params], old.name, old.layout)
    known: dict[Value, Value] = dict(zip(old.params, new.params, strict=True))

    def use(value: Value, loc: Any) -> Value:
        if value not in known:
            constant = new.append(Operation(CONSTANT, [], [value.type], {"value": line.constants[value]}, loc=loc)).result
            constant.name = value.name
            known[value] = constant
        return known[value]

    for item in line.items:
        operands = [use(value, item.loc) for value in item.operands]
        types = [value.type for value in item.results]
        copied = Operation(item.op, operands, types, item.attrs, item.regions, item.loc, item.layout, item.result_layout)
        for value, result in zip(item.results, new.append(copied).results, strict=True):
            result.name = value.name
            known[value] = result
    new.results = [use(value, None) for value in line.outputs]
    new.result_layout = dict(old.result_layout)
    return new
