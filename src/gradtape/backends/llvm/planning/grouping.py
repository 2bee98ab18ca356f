"""Which roots of a block share a loop nest.

A kernel has one or more phases. Roots of a phase are computed in one nest over one space, element by element at the same
index. Phases run one after the other inside loops over the first axes that they all have (`prefix`), where a phase needs of
earlier ones only what they made in the same iteration: so the maximum, the sum and the quotient of a softmax are three phases
for each row, and the row stays in the nearest cache. A kernel runs where its first root stands.

One invariant: all that a kernel reads is there when it runs, or made by it before it is read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gradtape.backends.llvm.planning.lowering import common, count_of
from gradtape.ir.graph import Operation, Value

LARGE = 200  # operations in a kernel: more take LLVM too long
NEAR = 12  # kernels that a root may join, counted from the last one
ROW = 16  # elements of a row from which on phases are run row by row: shorter rows are better off as one long loop each


@dataclass(slots=True, eq=False)
class Phase:
    """Roots computed in one nest over `space`."""

    space: tuple[Any, ...]
    roots: list[Operation] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Kernel:
    """Loop nests at position `start` of the block; several phases share the loops over the first `prefix` axes."""

    start: int
    number: int = 0  # in the order in which kernels were begun
    phases: list[Phase] = field(default_factory=list)
    prefix: int = 0
    parts: set[Operation] = field(default_factory=set)  # all operations computed in it
    readers: set[Kernel] = field(default_factory=set)  # that read what it makes, directly or through registers

    @property
    def roots(self) -> list[Operation]:
        return [root for phase in self.phases for root in phase.roots]


@dataclass(slots=True)
class Need:
    """How a root reads what another operation made, over all the ways it is reached."""

    kept: int  # leading axes of the loops that are its leading indices
    same: bool  # always at the index of the root itself


class Grouping:
    """The kernels of a block, for the roots that its plan has now."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan
        self.home: dict[Operation, Kernel] = {}
        self.phase: dict[Operation, int] = {}
        self.kernels: list[Kernel] = []
        self._ready: dict[Operation, int] = {}
        self._sources: dict[Operation, frozenset[Kernel]] = {}  # of registers: the kernels that they are made from
        for operation in plan.block.operations:
            if operation in plan.roots:
                self._place(operation)

    def when(self, operation: Operation) -> int:
        """The position after which what an operation gives is there; a register as soon as what it needs is."""
        kernel = self.home.get(operation)
        if kernel is not None:
            return kernel.start
        return self.ready(operation) if self.plan.kinds[operation] == "scalar" else self.plan.at[operation]

    def ready(self, operation: Operation) -> int:
        """The position after which all that a register needs is there; registers of registers first, however many there are."""
        stack = [operation]
        while stack:
            top = stack[-1]
            if top in self._ready:
                stack.pop()
                continue
            # what may raise does so in its place: not before what the program does earlier (a print, another error)
            if any(self.plan.lowering(part).fails(part) for part in self.plan.parts(top)):
                self._ready[top] = self.plan.at[top]
                continue
            producers = [v.producer for v in self.plan.leaves(top) if v.producer is not None]
            waiting = [p for p in producers if p not in self.home and self.plan.kinds[p] == "scalar" and p not in self._ready]
            if waiting:
                stack += waiting
            else:
                # -1: made of parameters and constants alone, ready before the first operation
                self._ready[top] = max([-1, *map(self.when, producers)])
        return self._ready[operation]

    def _place(self, root: Operation) -> None:
        space = self.plan.table.space(root)
        needs = self._needs(root)
        parts = self.plan.parts(root)
        place = self.plan.at[root]
        # the newest first: what a root reads is most often made just before. NEAR bounds the search, so grouping stays linear
        for kernel in self.kernels[: -NEAR - 1 : -1] if needs is not None else ():
            assert needs is not None
            inside = {producer: need for producer, need in needs.items() if self.home.get(producer) is kernel}
            if len(kernel.parts | parts) > LARGE:
                continue
            # the root can go up to the kernel; else the kernel may come down to the root (`_can_wait`)
            there = all(producer in inside or self.when(producer) < kernel.start for producer in needs)
            if there or self._can_wait(kernel, place):
                phase = self._joined(kernel, root, space, inside)
                if phase is not None:
                    # roots that came earlier wait with it: nobody between needs them
                    kernel.start = kernel.start if there else place
                    self._put(kernel, phase, root, parts, needs)
                    return
        kernel = Kernel(place, len(self.kernels), [Phase(space)])
        self.kernels.append(kernel)
        self._put(kernel, 0, root, parts, needs or {})

    def _put(self, kernel: Kernel, phase: int, root: Operation, parts: set[Operation], needs: dict[Operation, Need]) -> None:
        kernel.phases[phase].roots.append(root)
        self.home[root], self.phase[root] = kernel, phase
        kernel.parts |= parts
        for producer in needs:
            for source in self._made_by(producer) - {kernel}:
                # a kernel that waits must not pass one that reads it
                source.readers.add(kernel)

    def _can_wait(self, kernel: Kernel, place: int) -> bool:
        """Whether a kernel can run as late as this position: nobody needs it before, and what it reads stays as it is."""
        plan = self.plan
        for operation in plan.block.operations[kernel.start : place]:
            changed = plan.sharing.changed_by(operation)
            # it would read what an operation in between has changed in place
            if changed and any(
                not changed.isdisjoint(plan.buffers(leaf)) for root in kernel.roots for leaf in plan.leaves(root)
            ):
                return False
            if (
                not plan.is_lazy_operation(operation)
                and self.home.get(operation) is not kernel
                and self._reads(operation, kernel)
            ):
                return False
        # these read it, directly or through registers: it must stay before them
        return not any(reader.start <= place for reader in kernel.readers)

    def _reads(self, operation: Operation, kernel: Kernel) -> bool:
        return any(v.producer is not None and self.home.get(v.producer) is kernel for v in self.plan.leaves(operation))

    def _made_by(self, producer: Operation) -> frozenset[Kernel]:
        """The kernels that an operation is made from, directly or through registers, as far as a root may still join them.

        Everything before the root that is being placed has its kernel, so what is found holds for good. Only the last kernels
        can be joined: without the others these sets stay small, however long a chain of registers is.
        """
        if producer in self.home:
            return frozenset({self.home[producer]})
        if self.plan.kinds[producer] != "scalar":
            return frozenset()
        stack = [producer]
        while stack:
            top = stack[-1]
            if top in self._sources:
                stack.pop()
                continue
            below = [v.producer for v in self.plan.leaves(top) if v.producer is not None]
            registers = [p for p in below if p not in self.home and self.plan.kinds[p] == "scalar"]
            waiting = [p for p in registers if p not in self._sources]
            if waiting:
                stack += waiting
                continue
            sources = {self.home[p] for p in below if p in self.home}.union(*(self._sources[p] for p in registers))
            self._sources[top] = frozenset(kernel for kernel in sources if kernel.number >= len(self.kernels) - NEAR)
        return self._sources[producer]

    def _joined(self, kernel: Kernel, root: Operation, space: tuple[Any, ...], inside: dict[Operation, Need]) -> int | None:
        """The phase of a kernel that a root can be computed in, perhaps a new one."""
        first = self._first_axis(root)
        for g in range(len(kernel.phases) - 1, -1, -1):
            # a reduction over one of the shared axes is not complete inside of them
            if kernel.phases[g].space != space or first < kernel.prefix:
                continue
            if all(self._fits(producer, need, g, kernel.prefix) for producer, need in inside.items()):
                return g
        # sharing outer loops pays only where a phase reads what an earlier one has just made, while it is in the cache
        if not inside:
            return None
        prefix = min(
            kernel.prefix if len(kernel.phases) > 1 else min([len(space), *map(self._first_axis, kernel.roots)]),
            first,
            *(need.kept for need in inside.values()),
            *(common(space, phase.space) for phase in kernel.phases),
        )
        if prefix < 1 or max(count_of(s[prefix:], 1 << 10) for s in (space, *(phase.space for phase in kernel.phases))) < ROW:
            return None
        kernel.prefix = prefix
        kernel.phases.append(Phase(space))
        return len(kernel.phases) - 1

    def _fits(self, producer: Operation, need: Need, phase: int, prefix: int) -> bool:
        earlier = self.phase[producer]
        if earlier == phase:
            # in one loop nest an element is there at its own index only; what is folded is there after the loop
            return need.same and self.plan.kinds[producer] == "element"
        return earlier < phase and need.kept >= prefix

    def _first_axis(self, root: Operation) -> int:
        """The first axis that a root folds away: loops up to it can be shared."""
        if self.plan.kinds[root] != "reduce":
            return len(root.result.type.shape)
        return min(self.plan.table.axes(root), default=len(root.operands[0].type.shape))

    def _needs(self, root: Operation) -> dict[Operation, Need] | None:
        """What a root reads that is not a recipe; None if it must stay where it is."""
        plan = self.plan
        if plan.lowering(root).fails(root):
            return None
        needs: dict[Operation, Need] = {}
        if plan.kinds[root] == "reduce":
            rank = len(root.operands[0].type.shape)
            stack = [(root.operands[0], rank, True)]
        else:
            rank = len(root.result.type.shape)
            stack = [(value, min(rank, kept), same) for value, kept, same in plan.paths(root)]
        # a value reached again in no worse a way tells nothing new: without this, shared recipes are walked exponentially often
        best: dict[tuple[Value, bool], int] = {}
        while stack:
            value, kept, same = stack.pop()
            producer = value.producer
            if producer is None or best.get((value, same), 1 << 30) <= kept:
                continue
            best[value, same] = kept
            if plan.is_lazy(value):
                if plan.lowering(producer).fails(producer):
                    return None
                for below, axes, beside in plan.paths(producer):
                    stack.append((below, axes if axes < kept else kept, same and beside))
                continue
            need = needs.setdefault(producer, Need(kept, same))
            need.kept, need.same = min(need.kept, kept), need.same and same
        return needs
