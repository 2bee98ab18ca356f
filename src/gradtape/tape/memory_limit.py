"""`memory_limit`: saved values within a byte budget, the rest recomputed on the backward pass.

Under a limit a record keeps an `OutputRecipe` instead of its saved values: how its output was made, and the value while it
is held. The record is cut into segments of equal length. A value is kept if a later segment uses it; what only its own segment
uses is dropped, and computed again, once, when the backward pass arrives there. When the values kept do not fit, segments are
merged in pairs. Time is at most one more forward pass; memory is what crosses the boundaries plus one segment, O(√n) for a
loop of n steps. (Checkpointing without knowing the length in advance; after A. Griewank, "Achieving logarithmic growth", 1992,
with a single level.) A call of a compiled function is one record: its residuals are outputs like any other, and running its
forward half again brings them back.

Known limits: records shared with another open tape keep their values; functions without a repeatable implementation (custom
gradients, numpy_function, compiled functions with effects) are never dropped; inputs that no tape watches are kept as they
are and not counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from gradtape.ad.custom import CUSTOM
from gradtape.core.dispatch import PART, stored
from gradtape.core.opdef import Op
from gradtape.core.record import Record, TapeKey
from gradtape.core.save_plan import save_plan
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array
from gradtape.functions.compiled import FUNCTION, forget_call, recall_call
from gradtape.ops.stop import GRADIENT
from gradtape.tape.tape_messages import warn

Output: TypeAlias = np.ndarray | np.generic | tuple[Any, ...]  # of an op with several outputs, those that are there
_UNREPEATABLE = (CUSTOM, GRADIENT)
_FIRST_LENGTH = 4  # records per segment to begin with


class HeldBytes:
    """Bytes held now, the most that were, and the limit."""

    __slots__ = ("held", "limit", "peak")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.peak = 0


class OutputRecipe:
    """The output of one record: its value or None, and how to make it: op(*args), an arg being a recipe, (recipe, index)
    or an array. Of several outputs some may be there and others None: a later segment often uses one of them."""

    __slots__ = ("__weakref__", "args", "attrs", "budget", "held", "last", "lasts", "nbytes", "needed", "op", "order", "value")

    def __init__(
        self, op: Op, attrs: dict[str, Any] | None, args: tuple[Any, ...], nbytes: int, budget: HeldBytes, order: int
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.args = args
        self.nbytes = nbytes  # of all its outputs
        self.budget = budget
        self.order = order  # of recording
        self.last = order  # the last record that uses it
        self.lasts: dict[int, int] = {}  # the same by output, of several
        self.needed = False  # some rule asks for it
        self.value: Any = None
        self.held = 0  # bytes of what is there

    def repeatable(self) -> bool:
        if self.op.effect or self.op in _UNREPEATABLE:
            return False
        return self.op is not FUNCTION or (self.attrs or {})["again"] is not None

    def crosses(self, length: int) -> bool:
        """Whether a later segment uses it."""
        return self.last // length > self.order // length

    def whole(self) -> bool:
        """Whether all of it is there."""
        return self.value is not None and not (self.value.__class__ is tuple and any(part is None for part in self.value))

    def used(self, index: int | None, order: int) -> None:
        """A record uses it, or output `index` of it."""
        self.last = order
        if index is not None:
            self.lasts[index] = order

    def hold(self, value: Output) -> None:
        if not self.whole():
            self._become(value)

    def hold_part(self, index: int, count: int, value: Array) -> None:
        """Hold one of `count` outputs."""
        parts = [None] * count if self.value is None else list(self.value)
        if parts[index] is None:
            parts[index] = value
            self._become(tuple(parts))

    def shrink(self, length: int) -> None:
        """Drop what no later segment uses."""
        if self.value is None or not self.repeatable():
            return
        if not self.crosses(length):
            self._become(None)
        elif self.value.__class__ is tuple:
            mine = self.order // length
            self._become(tuple([v if self.lasts.get(i, 0) // length > mine else None for i, v in enumerate(self.value)]))

    def drop(self) -> None:
        if self.repeatable():
            self._become(None)

    def _become(self, value: Output | None) -> None:
        held = _nbytes(value)
        self.budget.held += held - self.held
        self.budget.peak = max(self.budget.peak, self.budget.held)
        self.value, self.held = value, held

    def compute(self) -> None:
        if not self.whole():
            with np.errstate(all="ignore"):
                self.hold(self.op.impl(*[at_hand(a) for a in self.args], **(self.attrs or {})))

    def __del__(self) -> None:
        self.budget.held -= self.held


Origin: TypeAlias = OutputRecipe | tuple[OutputRecipe, int]  # the second: one output of several


class MemoryManager:
    """The memory of one tape: turns records into cells, keeps the budget, brings segments back."""

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"memory_limit must not be negative, got {limit}")
        self.budget = HeldBytes(int(limit))
        self.length = _FIRST_LENGTH
        self._cells: list[weakref.ref[OutputRecipe]] = []  # by order of recording
        self._swept = 0  # cells before this place were looked at with the present length
        self._needed_bytes = 0  # of all values some rule asks for, kept or not
        self._restored: int | None = None  # the segment whose values are all there
        self._prepared: tuple[Record, tuple[Any, ...]] | None = None
        self._patience = 0  # no merging before the record is this long
        self._largest = 0
        self._warned = False

    # -- recording -----------------------------------------------------------------------------------------------

    def recorded(self, key: TapeKey, record: Record, inputs: Sequence[Any], out: Tensor | tuple[Tensor, ...]) -> None:
        """Replace the saved values of a record that belongs to this tape alone by a cell."""
        # Another tape that knows the record reads its saved values as they are; wrapped inputs (batched or traced) have no
        # bytes of their own to drop; and a pending gradient holds what its expansion needs.
        if record.keys != (key,) or any(isinstance(x, Tensor) for x in inputs) or record.op is GRADIENT:
            return
        args = tuple(_origin(x, node) for x, node in zip(inputs, record.nodes, strict=True))
        value = tuple(stored(o) for o in out) if isinstance(out, tuple) else stored(out)
        if any(isinstance(v, Tensor) for v in (value if isinstance(value, tuple) else (value,))):
            return
        order = len(self._cells)
        cell = OutputRecipe(record.op, record.attrs, args, _nbytes(value), self.budget, order)
        self._cells.append(weakref.ref(cell))
        wanted = _wanted(record)
        for i, arg in enumerate(args):
            node = record.nodes[i]
            if node is not None and isinstance(arg, (OutputRecipe, tuple)):
                self._use(arg, node, inputs[i], order, i in wanted)
        if -1 in wanted:
            self._need(cell)
        # Of several outputs it is not known yet which will be used, so all are held until their segment is left.
        if cell.needed or not cell.repeatable() or isinstance(value, tuple):
            cell.hold(value)
        if record.op is FUNCTION:
            forget_call(record)
        plan = save_plan(record.op)
        specs = tuple(s if e[1] else None for s, e in zip(record.saved, plan.entries, strict=True))
        record.saved = (cell, specs)
        self._largest = max(self._largest, cell.nbytes)
        if len(self._cells) >= self._swept + self.length and self._tight():
            self._shrink()

    def _use(self, arg: Origin, node: Record, value: Array, order: int, needed: bool) -> None:
        """A record uses the output of an earlier one: hold it if a rule needs it, or if it crosses a boundary."""
        source, index = arg if isinstance(arg, tuple) else (arg, None)
        source.used(index, order)
        if needed:
            self._need(source)
        if needed or source.crosses(self.length):
            if index is None:
                source.hold(value)
            else:
                source.hold_part(index, len(node.nodes[0].shape), value)  # type: ignore[union-attr]  # a part has its owner

    def _need(self, cell: OutputRecipe) -> None:
        if not cell.needed:
            cell.needed = True
            self._needed_bytes += cell.nbytes

    def _shrink(self) -> None:
        """Drop what is inside complete segments; merge segments in pairs while that makes room."""
        self._drop_inner()
        while self._tight() and len(self._cells) >= self._patience:
            # Longer segments cross fewer boundaries but are larger when they come back: merging pays only while the sum
            # shrinks.
            if self._total(2 * self.length) >= self._total(self.length):
                self._patience = 2 * len(self._cells)  # as good as it gets until the record is much longer
                break
            # The boundaries of the longer segments are among those of the shorter ones, so nothing that was dropped is needed
            # to be kept.
            self.length *= 2
            self._swept = 0
            self._drop_inner()

    def _tight(self) -> bool:
        """Whether one more segment might not fit."""
        return self.budget.held + self._segment_bytes(self.length) > self.budget.limit

    def _segment_bytes(self, length: int) -> float:
        """What the rules of one segment need, on average."""
        return length * self._needed_bytes / max(len(self._cells), 1)

    def _drop_inner(self) -> None:
        end = len(self._cells) // self.length * self.length  # the segment being recorded stays whole
        for ref in self._cells[self._swept : end]:
            cell = ref()
            if cell is not None:
                cell.shrink(self.length)
        self._swept = end

    def _total(self, length: int) -> float:
        """What segments of this length take: what crosses their boundaries, and one segment's own values."""
        cells = [cell for cell in (ref() for ref in self._cells) if cell is not None and cell.value is not None]
        crossing = sum(cell.held for cell in cells if cell.crosses(length))
        return crossing + self._segment_bytes(length)

    # -- the backward pass ----------------------------------------------------------------------------------------

    def prepare(self, record: Record) -> None:
        """Give a record its saved values back; those of the record prepared before go back into its cell."""
        self._put_back()
        if not record.saved or record.saved[0].__class__ is not OutputRecipe:
            return
        self._prepared = (record, record.saved)
        cell, specs = record.saved
        # The walk goes from the newest record to the oldest, so each segment is brought back once and left once.
        segment = cell.order // self.length
        if segment != self._restored:
            self._leave_segment()
            self._restore(segment)
        if record.op is FUNCTION:
            recall_call(record, tuple(at_hand(a) for a in cell.args), cell.value)
        plan = save_plan(record.op)
        wanted = _wanted(record)
        last = len(record.op.args) - 1
        saved: list[Any] = []
        for k, (index, spec) in enumerate(plan.entries):
            if spec or index not in wanted:
                saved.append(specs[k])
            elif index < 0:
                saved.append(cell.value)
            elif plan.variadic and index == last:
                saved.append(tuple(at_hand(a) for a in cell.args[last:]))
            else:
                saved.append(at_hand(cell.args[index]))
        record.saved = tuple(saved)

    def finish(self) -> None:
        """The walk is over: say so if the limit was not met (one operation's values may stand beside it)."""
        self._put_back()
        self._leave_segment()
        if self.budget.peak > self.budget.limit + 3 * self._largest and not self._warned:
            self._warned = True
            warn(
                f"memory_limit={self.budget.limit} bytes cannot be met: at least {self.budget.peak} bytes are needed here, for "
                "values that cross from one part of the computation to the next and for one part being recomputed; raise "
                "the limit or split the step"
            )

    def _put_back(self) -> None:
        if self._prepared is not None:
            record, kept = self._prepared
            self._prepared = None
            if record.saved or record.op is FUNCTION:
                record.saved = kept
            if record.op is FUNCTION:
                forget_call(record)

    def _segment(self, segment: int) -> list[OutputRecipe]:
        refs = self._cells[segment * self.length : (segment + 1) * self.length]
        return [cell for cell in (ref() for ref in refs) if cell is not None]

    def _restore(self, segment: int) -> None:
        """Compute what was dropped inside a segment, in order; what no rule needs goes as soon as it was used."""
        self._restored = segment
        for cell in self._segment(segment):
            cell.compute()
            for arg in cell.args:
                source = arg[0] if isinstance(arg, tuple) else arg
                if (
                    isinstance(source, OutputRecipe)
                    and not source.needed
                    and source.last == cell.order
                    and not source.crosses(self.length)
                ):
                    source.drop()

    def _leave_segment(self) -> None:
        if self._restored is not None:
            for cell in self._segment(self._restored):
                cell.shrink(self.length)
            self._restored = None


def at_hand(origin: object) -> Any:
    """The array an argument stands for."""
    if isinstance(origin, tuple):
        return origin[0].value[origin[1]]
    return origin.value if isinstance(origin, OutputRecipe) else origin


def _wanted(record: Record) -> set[int]:
    """The inputs (-1: the output) whose values some rule of the record needs."""
    plan = save_plan(record.op)
    kept = plan.kept(tuple(n is not None for n in record.nodes)) if plan.entries else ()
    wanted = {index for keep, (index, spec) in zip(kept, plan.entries, strict=True) if keep and not spec}
    if record.op is FUNCTION:  # its backward half needs the residuals, and an order nobody foresaw the inputs
        wanted = {-1, *range(len(record.nodes))}
    last = len(record.op.args) - 1
    if plan.variadic and last in wanted:
        wanted.update(range(last, len(record.nodes)))
    return wanted


def _origin(value: Array, node: Record | None) -> Any:
    """Where an input comes from: the cell of the record that made it, or the value itself."""
    if node is None or node.op is None:
        return value
    if node.op is PART:
        owner = node.nodes[0] if node.nodes else None
        cell = _cell_of(owner)
        return value if cell is None else (cell, node.attrs["index"])  # type: ignore[index]
    cell = _cell_of(node)
    return value if cell is None else cell


def _cell_of(record: Record | None) -> OutputRecipe | None:
    if record is None or not record.saved or record.saved[0].__class__ is not OutputRecipe:
        return None
    return record.saved[0]


def _nbytes(value: Output | None) -> int:
    if value is None:
        return 0
    return sum(v.nbytes for v in value if v is not None) if isinstance(value, tuple) else int(value.nbytes)
