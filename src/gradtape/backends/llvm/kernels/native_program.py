"""What all blocks of one native function share: the writer, the frame, the sizes of symbolic dimensions, the ways out.

`Tables` are the writers that stand above a scope, so that a block can be written without knowing who writes kernels, calls
and lists. A block written out at one place is a `Scope` (`scope.py`).

One invariant: every way out of the function sets `%status` and goes to `leave`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gradtape.backends.llvm.planning.frame import FrameLayout
from gradtape.backends.llvm.planning.grouping import Kernel
from gradtape.backends.llvm.planning.lowering import Lowerings
from gradtape.backends.llvm.planning.plan import BlockPlan, Patterns, fixed_sizes
from gradtape.backends.llvm.planning.values import Array, Lowered, NativeList
from gradtape.backends.llvm.runtime import allocator
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.runtime.unsupported import UnsupportedError
from gradtape.backends.llvm.writing.ir_text import Index, ModuleText, Writer
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.polynomial import Opaque


@dataclass(slots=True, kw_only=True)
class Tables:
    """How ops are written, and the writers that stand above a scope; filled in by `table.py`."""

    lowerings: Lowerings
    patterns: Patterns
    kernel: Callable[[Any, Kernel], None]
    fill: Callable[[Any, Value, Array], None]  # the elements of a recipe, to memory
    callback: Callable[[Any, Operation], list[Lowered]]
    failure: Callable[[Any, Operation], None]  # have Python raise what an operation raises
    free_list: Callable[[Any, NativeList], None]


class NativeProgram:
    """What the blocks of one native function share."""

    def __init__(self, module: ModuleText, name: str, tables: Tables) -> None:
        self.module = module
        params = ", ".join([f"ptr noalias %{each}" for each in ("context", "arguments", "results", "frame")])
        # inlined into its one caller it would be compiled twice
        self.writer = Writer(module, name, params, attributes="noinline nounwind")
        self.tables, self.frame = tables, FrameLayout()
        self.sizes: dict[str, Index] = {}  # of symbols
        self.calls: list[Any] = []  # callbacks.NumpyCall, by number: operations that call back into Python
        self.notes: list[Note] = []
        self.checks: list[Operation | None] = []  # operations that may fail natively, by number
        self._plans: dict[Block, BlockPlan] = {}
        self.fixed: frozenset[str] = frozenset()  # the symbols of the parameters of the function being written
        self.stack = 0  # bytes used of it
        self.effects = False  # whether the program does something that must not happen twice
        self.exchanges: Any = None  # distribute: what it exchanges with other ranks
        self.loops: list[Any] = []  # ranges.LoopFacts: counted loops around what is being written
        self.wide: dict[str, Index] = {}  # registers of 32 bits that are also known as 64-bit numbers
        self.modular: dict[str, Index] = {}  # the same, before they wrapped around: see `ranges.py`

    def plan(self, block: Block, known: frozenset[str] = frozenset()) -> BlockPlan:
        plan = self._plans.get(block)
        if plan is None:
            plan = self._plans[block] = BlockPlan(
                block, self.tables.lowerings, self.tables.patterns, self.plan, self.function, self.fixed, known
            )
        return plan

    def function(self, block: Block) -> BlockPlan:
        """The plan of a block that is called: its sizes are those of its parameters."""
        before, self.fixed = self.fixed, fixed_sizes(block)
        plan = self.plan(block)
        self.fixed = before
        return plan

    # --- sizes

    def index(self, size: Any) -> Index:
        """A dimension as an operand."""
        if not isinstance(size, Dim):
            return int(size)
        total: Index = 0
        w = self.writer
        for monomial, factor in size._terms:
            term: Index = factor
            for atom in monomial:
                term = w.multiply(term, self._opaque(atom) if isinstance(atom, Opaque) else self.index_of_symbol(atom))
            total = w.add(total, term)
        return total

    def index_of_symbol(self, name: str) -> Index:
        if name not in self.sizes:
            raise UnsupportedError(f"no value of the program has the dimension {name}")
        return self.sizes[name]

    def _opaque(self, atom: Opaque) -> Index:
        w = self.writer
        a, b = self.index(atom.left), self.index(atom.right)
        if atom.kind == "max":
            return w.larger(a, b)
        if atom.kind == "min":
            return w.smaller(a, b)
        b = w.larger(b, 1)  # whether a size is none is checked where it matters; a division by it must not end the process
        below = w.let(f"icmp slt i64 {a}, 0")  # rounds down, as Python does
        remainder = w.let(f"srem i64 {a}, {b}")
        odd = w.let(f"icmp ne i64 {remainder}, 0")
        down = w.let(f"and i1 {below}, {odd}")
        if atom.kind == "%":
            return w.let(f"add i64 {remainder}, {w.let(f'select i1 {down}, i64 {b}, i64 0')}")
        quotient = w.let(f"sdiv i64 {a}, {b}")
        return w.let(f"sub i64 {quotient}, {w.let(f'zext i1 {down} to i64')}")

    def dims(self, shape: Sequence[Any]) -> tuple[Index, ...]:
        return tuple([self.index(size) for size in shape])

    def bind(self, type: Any, dims: Sequence[Index]) -> None:
        """Symbols that a value is the first to have get their sizes from it."""
        for size, dim in zip(type.shape, dims, strict=True):
            if isinstance(size, Dim) and size.name is not None and size.name not in self.sizes:
                self.sizes[size.name] = dim

    # --- failures

    def fail_if(self, flag: str, operation: Operation | None) -> None:
        """Leave the function with the number of this operation if the flag is set."""
        self.leave_if(flag, self.check(operation))

    def leave_if(self, flag: str, status: int) -> None:
        """End the call with a status if the flag is set."""
        w = self.writer
        bad, good = w.label("bad"), w.label("good")
        w.branch(flag, bad, good, f", !prof {self.unlikely()}")
        w.start(bad)
        w.store("i32", status, "%status")
        w.go("leave")
        w.start(good)

    def check(self, operation: Operation | None) -> int:
        """The number by which a failing operation is known."""
        self.checks.append(operation)
        return len(self.checks)

    def allocated(self, count: Index) -> str:
        """New memory until it is released; the call ends if there is none."""
        w = self.writer
        address = w.let(f"call ptr {allocator.allocate(self.module)}(ptr %context, i64 {count})")
        self.no_memory_if(w.let(f"icmp eq ptr {address}, null"))
        return address

    def no_memory_if(self, flag: str) -> None:
        """End the call for lack of memory if the flag is set."""
        self.leave_if(flag, allocator.NO_MEMORY)

    def unlikely(self) -> str:
        return self.module_node("unlikely", '!{!"branch_weights", i32 1, i32 100000}')

    def module_node(self, key: str, text: str) -> str:
        nodes: dict[str, str] = self.module.__dict__.setdefault("nodes", {})
        if key not in nodes:
            nodes[key] = self.module.metadata(text)
        return nodes[key]
