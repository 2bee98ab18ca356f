"""How an op is written natively: one record per op, each fact by its name.

Every module of writers has a table `LOWERINGS` from ops to records, beside the code that the records name; `table.py` joins
the tables. An op without a record calls its NumPy `impl` (`callbacks.py`). No op is known here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from gradtape.backends.llvm.planning.values import Layout, Lowered
from gradtape.backends.llvm.writing.element_types import is_native, name_of
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec

Asked = Callable[[Operation], bool]


def always(operation: Operation) -> bool:
    """A fact that holds for every operation of an op."""
    return True


def never(operation: Operation) -> bool:
    """A fact that holds for none."""
    return False


def folded_axes(operation: Operation) -> tuple[int, ...]:
    """The axes that a reduction folds away, in order."""
    rank, axis = len(operation.operands[0].type.shape), operation.attrs["axis"]
    if axis is None:
        return tuple(range(rank))
    return tuple(sorted(a % rank for a in ((axis,) if isinstance(axis, int) else axis)))


@dataclass(frozen=True, slots=True)
class Fold:
    """How elements are folded: what to start with, how two become one, what becomes of the last."""

    start: Callable[[Operation], str]
    combine: Callable[..., str]  # (scope, operation, a, b) → register
    finish: Callable[..., str] | None = None  # (scope, operation, the last one) → register
    blocked: bool = False  # long ones lose digits unless they are made of blocks
    ordered: bool = False  # elements are taken in order
    axes: Callable[[Operation], tuple[int, ...]] = folded_axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowering:
    """How one op is written, and what the planner must know about it.

    An op has an `element` (its elements can be computed one by one, on demand), a `fold`, or code of its own on whole arrays
    (`memory`). With an `element` and a `memory`, the latter writes operations that `accepts` refuses, and those on lists.
    """

    element: Callable[..., str] | None = None  # (scope, operation, place) → register
    fold: Fold | None = None
    memory: Callable[..., list[Lowered]] | None = None  # (scope, operation) → results
    rewrite: Callable[..., Value | None] | None = None  # (make, *operands, **attrs) → its value by other operations, or None
    complex: bool = False  # whether that holds for complex numbers too

    # --- of elements
    accepts: Asked = always  # whether they can be written for these types and attributes
    prepare: Callable[..., Any] | None = None  # (scope, operation) → what all elements share, written where it stands
    cost: int | Callable[[Operation], int] = 1  # of one, about that of an addition
    kinds: str = ""  # of a formula: the kinds of dtype it holds for: floating, signed integers, unsigned ones, bool
    pointwise: Asked = never  # element i of the result needs only element i of operands of its shape
    broadcasts: bool = False  # operands are broadcast against each other
    shape_only: bool = False  # elements of operands are not read
    repeats: Asked = never  # needs elements of its operands several times
    fails: Asked = never  # may leave the program
    free: bool = False  # a constant: a recipe that other blocks can have too
    # (operation, shape of an operand, shape of the result) → leading axes along which element i needs only what is at i
    aligned: Callable[[Operation, tuple[Any, ...], tuple[Any, ...]], int] | None = None

    # --- of memory
    alias: bool = False  # the same elements in the same order: may be the operand's memory; without an `element`, always is
    strided: Asked = never  # an index map that steps and an offset can express, as `layout` does
    layout: Callable[[Operation, Layout], Layout | None] | None = None  # of the result, from that of the operand
    part: bool = False  # a part of the first operand: may be its memory while that does not change
    changes: Asked = never  # works in place on its first operand
    finds_sizes: bool = False  # of its results, which nobody knew before
    # (operation, operand, table) → how it reads one: as "memory", a "view" (index maps over memory) or a "recipe"
    reads: Callable[[Operation, Value, Lowerings], str] | None = None


NUMPY = Lowering()  # of ops without a record: they call back


class Lowerings(dict[Op, Lowering]):
    """The records of all ops, and what the planner asks about an operation."""

    def __init__(self, *tables: Mapping[Op, Lowering]) -> None:
        super().__init__()
        for table in tables:
            # two records of one op would be decided by the order of imports
            twice = [op.name for op in table if op in self]
            if twice:
                raise TypeError(f"written in two places: {', '.join(twice)}")
            self.update(table)

    def __missing__(self, op: Op) -> Lowering:
        return NUMPY

    def kind(self, operation: Operation) -> str:
        """element, scalar, reduce, alias or memory: see `plan.py`."""
        lowering = self[operation.op]
        if lowering.alias and lowering.element is None:
            return "alias"
        values = (*operation.operands, *operation.results)
        if (
            operation.regions
            or len(operation.results) != 1
            or any(isinstance(value.type, ListSpec) or not computable(value.type) for value in values)
        ):
            return "memory"
        if lowering.fold is not None and _foldable(operation) and lowering.accepts(operation):
            return "reduce"
        if lowering.element is not None and lowering.accepts(operation):
            return "element" if len(operation.result.type.shape) else "scalar"
        return "memory"

    def calls_numpy(self, operation: Operation) -> bool:
        """Whether there is no code for an operation, with its types."""
        return self.kind(operation) == "memory" and self[operation.op].memory is None

    def cost(self, operation: Operation) -> int:
        """What an element costs."""
        cost = self[operation.op].cost
        return cost if isinstance(cost, int) else cost(operation)

    def space(self, operation: Operation) -> tuple[Any, ...]:
        """What the loops of a root go over."""
        value = operation.result if self[operation.op].fold is None else operation.operands[0]
        return tuple(value.type.shape)

    def axes(self, operation: Operation) -> tuple[int, ...]:
        """What a reduction folds away."""
        fold = self[operation.op].fold
        assert fold is not None
        return fold.axes(operation)

    def kept_axes(self, operation: Operation, k: int) -> int:
        """The leading axes of the result along which element i needs of operand k only what is at i."""
        shape, result = tuple(operation.operands[k].type.shape), tuple(operation.result.type.shape)
        lowering = self[operation.op]
        if not shape:
            return len(result)
        if lowering.pointwise(operation):
            return common(shape, result) if len(shape) == len(result) else 0
        return 0 if lowering.aligned is None else lowering.aligned(operation, shape, result)

    def reads(self, operation: Operation, value: Value) -> str:
        """How an operation on memory reads an operand."""
        how = self[operation.op].reads
        return "memory" if how is None else how(operation, value, self)


def computable(type: TensorSpec | ListSpec) -> bool:
    """Whether elements of a type can be computed with."""
    return isinstance(type, TensorSpec) and is_native(type.dtype)


def _foldable(operation: Operation) -> bool:
    """Operands have the dtype of the result: expansions see to that where NumPy converts first."""
    return name_of(operation.operands[0].type.dtype) == name_of(operation.result.type.dtype)


def count_of(shape: Iterable[Any], unknown: int) -> int:
    """How many elements; what is not known of the sizes counts as so many."""
    return prod(size if isinstance(size, int) else unknown for size in shape)


def common(a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """How many first entries are the same."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count


def as_recipes(*places: int) -> Callable[[Operation, Value, Lowerings], str]:
    """Operands at these places may be recipes, others are read from memory; without places, all may be."""

    def reads(operation: Operation, value: Value, table: Lowerings) -> str:
        mine = [k for k, operand in enumerate(operation.operands) if operand is value]
        return "recipe" if not places or all(k in places for k in mine) else "memory"

    return reads
