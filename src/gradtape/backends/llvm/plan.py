"""What is computed where: which values of a block get memory, which are recomputed per element, which kernels there are.

Every operation is one of: `element` (its elements can be computed one by one, on demand), `reduce` (a fold over elements),
`alias` (other dims for the same memory), `memory` (works on whole arrays in memory: products, loops, branches, lists,
calls of NumPy), `scalar` (an element operation of rank 0: computed at once, in a register).

Element values without memory are recipes: evaluated inside whatever kernel needs them, so chains of them, through broadcasts,
transpositions and slices, become one loop nest. A value gets memory if something needs it there, if it would be computed
again and again at some cost, or if the memory it reads changes before its last use. A kernel computes one or more
roots over one iteration space.

One invariant: a kernel runs at the place of its first root, and all it reads is there by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import TensorSpec

CHEAP = 6  # the cost per element up to which computing again beats memory
DEEP = 400  # recipes larger than this get memory: code size


@dataclass(slots=True, eq=False)
class Kernel:
    """Roots computed in one loop nest over `space` at position `start` of the block."""

    space: tuple[Any, ...]
    start: int
    roots: list[Operation] = field(default_factory=list)


@dataclass(slots=True)
class Facts:
    """What the planner must know about ops; `table.py` says it."""

    kind: Callable[[Operation], str]
    cost: Callable[[Operation], int]
    pointwise: Callable[[Operation], bool]  # element i of the result needs only element i of operands of its shape
    changes: Callable[[Operation], bool]  # works in place on its first operand
    space: Callable[[Operation], tuple[Any, ...]]  # what a root iterates over
    free: Callable[[Operation], bool]  # constants: recipes that other blocks can have too


class Plan:
    """The decisions for one block."""

    def __init__(self, block: Block, facts: Facts) -> None:
        self.block = block
        self.facts = facts
        self.at = {operation: i for i, operation in enumerate(block.operations)}
        self.kinds = {operation: facts.kind(operation) for operation in block.operations}
        self.roots: set[Operation] = set()
        self.kernels: dict[int, Kernel] = {}  # by position
        self._home: dict[Operation, Kernel] = {}
        self._users: dict[Value, list[Operation]] = {}
        for operation in block.operations:
            for value in operation.operands:
                self._users.setdefault(value, []).append(operation)
        self._outputs = set(block.results)
        self._costs: dict[Value, tuple[int, int]] = {}
        self._latest: dict[Operation, int] = {}
        self._choose()
        self.last = self._lifetimes()

    # --- questions

    def is_lazy(self, value: Value) -> bool:
        operation = value.producer
        return operation is not None and self.kinds.get(operation) == "element" and operation not in self.roots

    def buffer(self, value: Value) -> Value:
        """The value whose memory a value has: through aliases and changes in place."""
        seen = value
        while (operation := seen.producer) is not None and operation in self.kinds:
            if self.kinds[operation] == "alias" or (self.facts.changes(operation) and operation.results[0] is seen):
                seen = operation.operands[0]
            else:
                break
        return seen

    def leaves(self, operation: Operation) -> Iterator[Value]:
        """The values with memory or in registers that evaluating an operation reads."""
        stack, seen = list(operation.operands), set()
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            if self.is_lazy(value):
                stack += value.producer.operands  # type: ignore[union-attr]
            else:
                yield value

    def when(self, operation: Operation) -> int:
        """The position at which an operation runs."""
        kernel = self._home.get(operation)
        return self.at[operation] if kernel is None else kernel.start

    # --- decisions

    def _choose(self) -> None:
        for operation, kind in self.kinds.items():
            if kind == "reduce" or (kind == "element" and self._needs_memory(operation)):
                self.roots.add(operation)
        for operation, kind in self.kinds.items():
            if kind == "element" and operation not in self.roots and self._repeated(operation):
                self.roots.add(operation)
        for _ in range(8):
            self._group()
            again = self._shared() | self._endangered()
            if not again:
                break
            self.roots |= again
            self._costs.clear()
        else:
            for kernel in list(self._home.values()):
                kernel.roots.sort(key=self.at.__getitem__)

    def _needs_memory(self, operation: Operation) -> bool:
        if self.facts.free(operation) and operation.result not in self._outputs:
            return any(
                self.kinds[user] in ("memory", "alias") and not user.regions for user in self._users.get(operation.result, ())
            )
        return operation.result in self._outputs or any(
            self.kinds[user] in ("memory", "alias") for user in self._users.get(operation.result, ())
        )

    def cost(self, value: Value) -> tuple[int, int]:
        """What computing an element costs, and how many operations that is."""
        known = self._costs.get(value)
        if known is not None:
            return known
        if not self.is_lazy(value):
            return (1 if len(value.type.shape) else 0), 1
        operation: Operation = value.producer  # type: ignore[assignment]
        cost, size = self.facts.cost(operation), 1
        for operand in dict.fromkeys(operation.operands):
            c, s = self.cost(operand)
            cost, size = cost + c, size + s
        self._costs[value] = found = min(cost, 10**6), min(size, 10**6)
        if size > DEEP:
            self.roots.add(operation)
            self._costs[value] = found = (1, 1)
        return found

    def _repeated(self, operation: Operation) -> bool:
        """Whether some user would compute an element of it several times, at a price."""
        if self.cost(operation.result)[0] <= CHEAP:
            return False
        shape = tuple(operation.result.type.shape)
        return any(
            self.kinds[user] == "element" and not self.facts.pointwise(user) and _larger(user.result.type.shape, shape)
            or self.kinds[user] == "element" and self.facts.pointwise(user) and tuple(user.result.type.shape) != shape
            for user in self._users.get(operation.result, ())
        )  # fmt: skip

    def _group(self) -> None:
        self._home.clear()
        self._latest.clear()
        kernels: list[Kernel] = []
        for operation in self.block.operations:
            if operation not in self.roots:
                continue
            space = self.facts.space(operation)
            kernel = next((k for k in reversed(kernels) if k.space == space and self._fits(operation, k)), None)
            if kernel is None:
                kernel = Kernel(space, self.at[operation])
                kernels.append(kernel)
            kernel.roots.append(operation)
            self._home[operation] = kernel
        self.kernels = {kernel.start: kernel for kernel in kernels}

    def _fits(self, operation: Operation, kernel: Kernel) -> bool:
        """Whether all an operation reads is there when the kernel runs, or made by it at the same index."""
        stack = [(value, True) for value in operation.operands]
        seen = set()
        same = tuple(kernel.space)
        while stack:
            value, aligned = stack.pop()
            if (value, aligned) in seen:
                continue
            seen.add((value, aligned))
            producer = value.producer
            aligned = aligned and (tuple(value.type.shape) == same if isinstance(value.type, TensorSpec) else False)
            if producer is None or producer not in self.at:
                continue
            if producer in self.roots and self._home.get(producer) is kernel:
                if not aligned or self.kinds[producer] != "element":
                    return False
            elif self.is_lazy(value):
                step = aligned and self.facts.pointwise(producer)
                stack += [(operand, step) for operand in producer.operands]
            elif self.when(producer) >= kernel.start:
                return False
        return True

    def _shared(self) -> set[Operation]:
        """Costly recipes that several kernels would compute."""
        evaluators: dict[Operation, set[Any]] = {}
        for operation in self.block.operations:
            if self.is_lazy_operation(operation):
                continue
            key: Any = self._home.get(operation) or operation
            stack, seen = list(operation.operands), set()
            while stack:
                value = stack.pop()
                if value in seen or not self.is_lazy(value):
                    continue
                seen.add(value)
                producer: Operation = value.producer  # type: ignore[assignment]
                evaluators.setdefault(producer, set()).add(key)
                stack += producer.operands
        found = set()
        for producer, keys in evaluators.items():
            if len(keys) > 1 and self.cost(producer.result)[0] > CHEAP and self._is_top(producer, evaluators):
                found.add(producer)
        return found

    def _is_top(self, producer: Operation, evaluators: dict[Operation, set[Any]]) -> bool:
        """Whether no recipe above it is shared by the same kernels: then that one gets memory first."""
        mine = evaluators[producer]
        return not any(
            self.is_lazy_operation(user) and evaluators.get(user, set()) >= mine
            for user in self._users.get(producer.result, ())
        )

    def is_lazy_operation(self, operation: Operation) -> bool:
        return self.kinds[operation] == "element" and operation not in self.roots

    def _endangered(self) -> set[Operation]:
        """Recipes that read memory which is changed before their last evaluation."""
        found: set[Operation] = set()
        for change in self.block.operations:
            if not self.facts.changes(change) and not change.regions:
                continue
            changed = {self.buffer(value) for value in (change.operands if change.regions else change.operands[:1])}
            place = self.at[change]
            for operation in self.block.operations[:place]:
                if not self.is_lazy_operation(operation) or operation in found:
                    continue
                if not any(self._last_use(user) > place for user in self._users.get(operation.result, ())):
                    continue
                if any(
                    self.buffer(leaf) in changed and len(leaf.type.shape)
                    for leaf in self.leaves(operation)
                    if isinstance(leaf.type, TensorSpec)
                ):
                    found.add(operation)
        return found

    def _last_use(self, operation: Operation) -> int:
        """The latest position at which an operation, or a recipe above it, is evaluated."""
        if not self.is_lazy_operation(operation):
            return self.when(operation)
        known = self._latest.get(operation)
        if known is None:
            known = max((self._last_use(user) for user in self._users.get(operation.result, ())), default=-1)
            self._latest[operation] = known
        return known

    def _lifetimes(self) -> dict[Value, int]:
        """For each buffer, the position of its last use."""
        last: dict[Value, int] = {}
        end = len(self.block.operations)
        for operation in self.block.operations:
            if self.is_lazy_operation(operation):
                continue
            place = max(self.when(operation), self.at[operation] if self.kinds[operation] == "alias" else 0)
            for leaf in self.leaves(operation):
                buffer = self.buffer(leaf)
                last[buffer] = max(last.get(buffer, -1), place)
        for value in self.block.results:
            buffer = self.buffer(value)
            last[buffer] = end
        return last


def _larger(a: Any, b: Any) -> bool:
    """Whether there are more indices into shape a than into b, as far as known."""
    if tuple(a) == tuple(b):
        return False
    try:
        sizes = [1, 1]
        for k, shape in enumerate((a, b)):
            for size in shape:
                if not isinstance(size, int):
                    return True
                sizes[k] *= size
        return sizes[0] > sizes[1]
    except TypeError:
        return True
