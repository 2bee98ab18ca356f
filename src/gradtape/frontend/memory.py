"""`memory_limit`: saved values within a byte budget, the rest recomputed on the backward pass.

Under a limit a record keeps a `Cell` instead of its saved values: how its output was made, and the value while there is
room. When the budget is exceeded the value that is cheapest to get back, per byte, is dropped; its cost includes the dropped
values around it, so what stays spreads out evenly, like checkpoints. After M. Kirisame et al., "Dynamic Tensor
Rematerialization" (2021), with its union-find approximation of the neighbourhood cost.

Known limits: records shared with another open tape keep their values; functions without a repeatable implementation
(custom gradients, numpy_function) are never dropped; inputs that no tape watches are kept as they are.
"""

from __future__ import annotations

import heapq
import weakref
from typing import Any

import numpy as np

from gradtape.frontend.tape_messages import warn
from gradtape.ops.dispatch import PART, stored
from gradtape.ops.plan import save_plan
from gradtape.ops.record import Record
from gradtape.ops.stop import GRADIENT
from gradtape.ops.tensor import Tensor

_UNREPEATABLE = ("custom", "numpy_function", "gradient")


class Group:
    """A connected set of dropped values and what it costs to compute them again."""

    __slots__ = ("cost", "parent")

    def __init__(self, cost: float) -> None:
        self.cost = cost
        self.parent: Group | None = None

    def root(self) -> Group:
        group = self
        while group.parent is not None:
            group = group.parent
        if group is not self:
            self.parent = group
        return group

    def join(self, other: Group) -> None:
        a, b = self.root(), other.root()
        if a is not b:
            b.parent = a
            a.cost += b.cost


class Budget:
    """Bytes held now, and the limit."""

    __slots__ = ("held", "limit", "peak")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0
        self.peak = 0

    def add(self, nbytes: int) -> None:
        self.held += nbytes
        self.peak = max(self.peak, self.held)


class Cell:
    """The output of one record: its value or None, and how to make it: op(*args), an arg being a Cell, (Cell, index) or
    an array."""

    __slots__ = (
        "__weakref__",
        "args",
        "attrs",
        "budget",
        "children",
        "cost",
        "group",
        "locks",
        "nbytes",
        "op",
        "order",
        "value",
    )

    def __init__(
        self, op: Any, attrs: Any, args: tuple[Any, ...], cost: float, nbytes: int, budget: Budget, order: int
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.args = args
        self.cost = cost
        self.nbytes = nbytes
        self.budget = budget
        self.order = order  # of recording
        self.value: Any = None
        self.group: Group | None = None
        self.locks = 0
        self.children: list[weakref.ref[Cell]] = []

    def parents(self) -> list[Cell]:
        return [a[0] if isinstance(a, tuple) else a for a in self.args if isinstance(a, (Cell, tuple))]

    def neighbours(self) -> list[Cell]:
        return self.parents() + [c for c in (ref() for ref in self.children) if c is not None]

    def score(self) -> float:
        """Cost of getting this value back once dropped, per byte."""
        groups = {id(g): g for g in (n.group.root() for n in self.neighbours() if n.group is not None)}
        return (self.cost + sum(g.cost for g in groups.values())) / max(self.nbytes, 1)

    def repeatable(self) -> bool:
        return self.op.name not in _UNREPEATABLE

    def keep(self, value: Any) -> None:
        self.value = value
        self.budget.add(self.nbytes)
        if self.group is not None:
            self.group.root().cost -= self.cost
            self.group = None

    def forget(self) -> None:
        self.value = None
        self.budget.held -= self.nbytes

    def drop(self) -> None:
        """Forget the value, expecting to need it again."""
        self.forget()
        self.group = Group(self.cost)
        for neighbour in self.neighbours():
            if neighbour.value is None and neighbour.group is not None:
                self.group.join(neighbour.group)

    def __del__(self) -> None:
        if self.value is not None:
            self.budget.held -= self.nbytes


class MemoryManager:
    """The memory of one tape: turns records into cells, keeps the budget, brings values back."""

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise ValueError(f"memory_limit must not be negative, got {limit}")
        self.budget = Budget(int(limit))
        self._heap: list[tuple[float, int, weakref.ref[Cell]]] = []
        self._count = 0
        self._prepared: tuple[Record, Cell, tuple[Any, ...]] | None = None
        self._warned = False

    # -- recording -----------------------------------------------------------------------------------------------

    def recorded(self, key: Any, record: Record, inputs: Any, out: Any) -> None:
        """Replace the saved values of a record that belongs to this tape alone by a cell."""
        if record.keys != (key,) or any(isinstance(x, Tensor) for x in inputs) or record.op is GRADIENT:
            return
        args = tuple(_origin(x, node) for x, node in zip(inputs, record.nodes, strict=True))
        value = tuple(stored(o) for o in out) if isinstance(out, tuple) else stored(out)
        if any(isinstance(v, Tensor) for v in (value if isinstance(value, tuple) else (value,))):
            return
        cell = Cell(record.op, record.attrs, args, _cost(record.op, inputs, value), _nbytes(value), self.budget, self._count)
        self._count += 1
        for parent in cell.parents():
            parent.children.append(weakref.ref(cell))
        plan = save_plan(record.op)
        kept = plan.kept(tuple(n is not None for n in record.nodes)) if plan.entries else ()
        last = len(record.op.args) - 1
        for keep, (index, spec) in zip(kept, plan.entries, strict=True):
            if not keep or spec:
                continue
            if index < 0:
                self._hold(cell, value)
            else:
                span = range(index, len(args)) if plan.variadic and index == last else (index,)
                for i in span:
                    if isinstance(args[i], Cell):
                        self._hold(args[i], inputs[i])
        if not cell.repeatable() and cell.value is None:
            self._hold(cell, value)
        specs = tuple(
            saved if keep and spec else None for saved, keep, (_, spec) in zip(record.saved, kept, plan.entries, strict=True)
        )
        record.saved = (cell, specs)
        self._shrink()

    def _hold(self, cell: Cell, value: Any) -> None:
        if cell.value is None:
            cell.keep(value)
            self._queue(cell)

    def _queue(self, cell: Cell) -> None:
        if cell.repeatable():
            self._count += 1
            heapq.heappush(self._heap, (cell.score(), self._count, weakref.ref(cell)))

    def _shrink(self) -> None:
        """Drop the cheapest values until the budget holds."""
        waiting = []
        while self.budget.held > self.budget.limit and self._heap:
            score, _, ref = heapq.heappop(self._heap)
            cell = ref()
            if cell is None or cell.value is None:
                continue
            now = cell.score()
            if now > score * 1.0001:  # its neighbours were dropped meanwhile: it became dearer
                self._queue(cell)
            elif cell.locks:
                waiting.append(cell)
            else:
                cell.drop()
        for cell in waiting:
            self._queue(cell)
        if self.budget.held > self.budget.limit and not self._warned:
            self._warned = True
            warn(
                f"memory_limit={self.budget.limit} bytes cannot be met: at least {self.budget.held} bytes are needed at "
                "this point for values that cannot be recomputed or are in use; raise the limit or split the step"
            )

    # -- the backward pass ----------------------------------------------------------------------------------------

    def prepare(self, record: Record) -> None:
        """Give a record its saved values back; those of the record prepared before go back into its cell."""
        self.finish()
        if not record.saved or record.saved[0].__class__ is not Cell:
            return
        cell, specs = record.saved
        self._prepared = (record, cell, specs)
        plan = save_plan(record.op)
        kept = plan.kept(tuple(n is not None for n in record.nodes)) if plan.entries else ()
        last = len(record.op.args) - 1
        saved: list[Any] = []
        locked: list[Cell] = []
        for k, (keep, (index, spec)) in enumerate(zip(kept, plan.entries, strict=True)):
            if not keep:
                saved.append(None)
            elif spec:
                saved.append(specs[k])
            elif index < 0:
                saved.append(self._value(cell, locked))
            elif plan.variadic and index == last:
                saved.append(tuple(self._value(a, locked) for a in cell.args[last:]))
            else:
                saved.append(self._value(cell.args[index], locked))
        for held in locked:
            held.locks -= 1
        record.saved = tuple(saved)

    def finish(self) -> None:
        """The last prepared record needs its values no more."""
        if self._prepared is not None:
            record, cell, specs = self._prepared
            self._prepared = None
            if record.saved:
                record.saved = (cell, specs)
            if cell.value is not None and cell.repeatable():
                cell.forget()  # everything after it has been walked: nobody needs the output again in this pass

    def _value(self, origin: Any, locked: list[Cell]) -> Any:
        """The array an argument stands for, recomputed if it was dropped; its cell stays locked until released."""
        if isinstance(origin, tuple):
            return self._value(origin[0], locked)[origin[1]]
        if not isinstance(origin, Cell):
            return origin
        self._materialize(origin)
        origin.locks += 1
        locked.append(origin)
        return origin.value

    def _materialize(self, goal: Cell) -> None:
        """Compute dropped values bottom-up with an explicit stack; arguments at hand are locked meanwhile."""
        stack: list[tuple[Cell, list[Cell]]] = [(goal, [])]
        seen: set[int] = set()
        pinned: list[Cell] = []
        while stack:
            cell, held = stack[-1]
            missing = None
            if cell.value is None:
                for parent in cell.parents():
                    if parent.value is not None and parent not in held:
                        parent.locks += 1
                        held.append(parent)
                    elif parent.value is None and (missing is None or parent.order < missing.order):
                        missing = parent  # the oldest first: the others usually need it too
            if missing is not None:
                stack.append((missing, []))
                continue
            if cell.value is None:
                values = [_at_hand(a) for a in cell.args]
                with np.errstate(all="ignore"):
                    cell.keep(cell.op.impl(*values, **(cell.attrs or {})))
                if id(cell) in seen:  # needed twice on the way to one goal: keep it until we are there
                    pinned.append(cell)
                    cell.locks += 1
                seen.add(id(cell))
                cell.locks += 1
                self._queue(cell)
                self._shrink()
                cell.locks -= 1
            for parent in held:
                parent.locks -= 1
            stack.pop()
        for cell in pinned:
            cell.locks -= 1


def _at_hand(origin: Any) -> Any:
    if isinstance(origin, tuple):
        return origin[0].value[origin[1]]
    return origin.value if isinstance(origin, Cell) else origin


def _origin(value: Any, node: Record | None) -> Any:
    """Where an input comes from: the cell of the record that made it, or the value itself."""
    if node is None or node.op is None:
        return value
    if node.op is PART:
        owner = node.nodes[0] if node.nodes else None
        cell = _cell_of(owner)
        return value if cell is None else (cell, node.attrs["index"])  # type: ignore[index]
    cell = _cell_of(node)
    return value if cell is None else cell


def _cell_of(record: Record | None) -> Cell | None:
    if record is None or not record.saved or record.saved[0].__class__ is not Cell:
        return None
    return record.saved[0]


def _nbytes(value: Any) -> int:
    return sum(v.nbytes for v in value) if isinstance(value, tuple) else int(value.nbytes)


def _cost(op: Any, inputs: Any, value: Any) -> float:
    """A rough count of what running the op again costs: bytes moved, more for products and decompositions."""
    weight = {"elementwise": 1.0, "linear": 1.0, "nondiff": 1.0, "multilinear": 16.0}.get(op.kind, 8.0)
    moved = _nbytes(value) + sum(x.nbytes for x in inputs if isinstance(x, np.ndarray))
    return 2000.0 + weight * moved
