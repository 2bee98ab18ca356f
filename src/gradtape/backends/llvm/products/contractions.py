"""Sums of products of two arrays, as axes: which of the operands and the result each axis steps through, and how far.

`matmul`, `einsum` of two operands, a convolution and a sum over a batch of products are the same thing here. An axis is of one
of four classes: batch (in both operands and the result), m (first operand and result), n (second and result), k (both
operands: summed). Axes that lie densely behind one another become one; `chosen` picks the axes that one product of matrices
runs over, the rest are loops around it. All of it is arithmetic on sizes and steps, done before code is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from gradtape.backends.llvm.planning.layouts import dense, is_one
from gradtape.backends.llvm.planning.values import Layout
from gradtape.ir.graph import Operation
from gradtape.ops.contract import split_equation

APART = 64  # elements between neighbours along an axis that is better not the one a product runs over
Size = Any


class Axis(NamedTuple):
    """Steps are None where the axis is not there."""

    size: Size
    a: Size | None
    b: Size | None
    c: Size | None

    @property
    def role(self) -> str:
        return _ROLES[(self.a is not None, self.b is not None, self.c is not None)]


# An operand's axis that nobody else has is summed over like one that both have: Σ_k a_k b = (Σ_k a_k) b.
_ROLES = {
    (True, True, True): "batch",
    (True, False, True): "m",
    (False, True, True): "n",
    (True, True, False): "k",
    (True, False, False): "k",
    (False, True, False): "k",
    (False, False, True): "c",
    (False, False, False): "none",
}


class Choice(NamedTuple):
    """One product of matrices (an axis is None where its size is 1) and the loops around it."""

    m: Axis | None
    n: Axis | None
    k: Axis | None
    loops: list[Axis]
    turned: bool  # the result lies transposed: operands change places


def of_matmul(operation: Operation, a: Layout, b: Layout, result: Sequence[Size], steps: Sequence[Size | None]) -> list[Axis]:
    """The axes of a matrix product; `steps` are those of the result, None for axes that are summed over."""
    left, right = (tuple(v.type.shape) for v in operation.operands)
    axes = []
    for axis in range(len(result) - 2):
        back, size = len(result) - axis, result[axis]  # counted from the end
        axes.append(_without(Axis(size, _batch_step(left, a, back, size), _batch_step(right, b, back, size), steps[axis])))
    axes.append(Axis(left[-2], a.steps[-2], None, steps[-2]))
    axes.append(Axis(right[-1], None, b.steps[-1], steps[-1]))
    axes.append(Axis(left[-1], a.steps[-1], b.steps[-2], None))
    return tidy(axes)


def _batch_step(shape: Sequence[Size], layout: Layout, back: int, size: Size) -> Size | None:
    axis = len(shape) - back
    return 0 if axis < 0 or (is_one(shape[axis]) and not is_one(size)) else layout.steps[axis]


def _without(axis: Axis) -> Axis:
    """An operand that is the same all along an axis of the result does not have it; one of the two must."""
    if axis.c is None or axis.a is None or axis.b is None:
        return axis
    if isinstance(axis.b, int) and axis.b == 0:
        return axis._replace(b=None)
    return axis._replace(a=None) if isinstance(axis.a, int) and axis.a == 0 else axis


def of_pair(terms: Sequence[str], out: str, sizes: dict[str, Size], a: Layout, b: Layout, steps: Sequence[Size]) -> list[Axis]:
    """The axes of a contraction of two operands named by letters."""
    axes = []
    for letter in dict.fromkeys("".join([out, *terms])):
        step = [
            layout[term.index(letter)] if letter in term else None
            for term, layout in ((terms[0], a.steps), (terms[1], b.steps), (out, steps))
        ]
        axes.append(_without(Axis(sizes[letter], *step)))
    return tidy(axes)


def pair_sizes(operation: Operation) -> tuple[tuple[str, ...], str, dict[str, Size]]:
    """Letters of the operands and the result of an einsum, and the size of each."""
    terms, out = split_equation(operation.attrs["equation"])
    sizes = {c: n for term, v in zip(terms, operation.operands, strict=True) for c, n in zip(term, v.type.shape, strict=True)}
    return terms, out, sizes


def tidy(axes: Sequence[Axis]) -> list[Axis]:
    """Without axes of size 1; axes that are dense behind one another as one."""
    kept = [axis for axis in axes if not is_one(axis.size)]
    # (i, j) with steps (n·s, s), n the size of j, is one axis of step s in every array that has the two: one merge may make
    # another possible, so the search begins again after each.
    again = True
    while again:
        again = False
        for outer, inner in itertools.permutations(kept, 2):
            if outer.role == inner.role and all(
                (x is None and y is None) or (x is not None and y is not None and x == y * inner.size)
                for x, y in zip(outer[1:], inner[1:], strict=True)
            ):
                kept[kept.index(outer)] = Axis(outer.size * inner.size, *inner[1:])
                kept.remove(inner)
                again = True
                break
    return kept


def of_role(axes: Sequence[Axis], role: str) -> list[Axis]:
    """The axes of one class."""
    return [axis for axis in axes if axis.role == role]


def weight(size: Size) -> int:
    """A size as a number, for comparing; unknown ones count as medium."""
    return size if isinstance(size, int) else 64


def chosen(axes: Sequence[Axis]) -> Choice:
    """The largest product of matrices in a contraction; best one whose matrices have dense rows or columns, all close by."""
    options: list[tuple[Any, Choice]] = []
    lists: list[list[Axis | None]] = [[*of_role(axes, role)] or [None] for role in ("m", "n", "k")]
    for m, n, k in itertools.product(*lists):
        rest = [axis for axis in axes if axis not in (m, n, k)]
        total = prod(1 if axis is None else weight(axis.size) for axis in (m, n, k))
        # Rows far apart cost a cache line for each element: such a product must be four times as large to be worth it.
        for axis in (m, k):
            if axis is not None and _is_apart(axis):
                total //= 4
        # (either rows or columns must lie densely, or packing reads a cache line for each element)
        dense_a = m is None or k is None or is_one(m.a) or is_one(k.a)
        dense_b = k is None or n is None or is_one(k.b) or is_one(n.b)
        # The kernels write rows of c densely: along n, or, with the operands in each other's places (cᵀ = bᵀaᵀ), along m.
        for turned in (False, True):
            along = m if turned else n
            if along is None or is_one(along.c):
                close = -sum(step for axis in (m, k) if axis is not None for step in axis[1:] if isinstance(step, int))
                options.append(((total, dense_a + dense_b, not turned, close), Choice(m, n, k, rest, turned)))
    if not options:  # no axis of the result is dense: vectors
        m, k = lists[0][0], lists[2][0]
        return Choice(m, None, k, [axis for axis in axes if axis not in (m, k)], False)
    return max(options, key=lambda option: option[0])[1]


def _is_apart(axis: Axis) -> bool:
    """Whether what follows along an axis is never in the same piece of memory."""
    return all(isinstance(step, int) and step >= APART for step in axis[1:] if step is not None)


def packed(axes: Sequence[Axis], which: str) -> tuple[list[Axis], list[Axis]]:
    """The axes with one operand (or the result) copied to dense memory, and the axes of that memory in order."""
    order = {"a": ("batch", "m", "k"), "b": ("batch", "k", "n"), "c": ("batch", "m", "n")}[which]
    inside = [axis for role in order for axis in axes if axis.role == role and getattr(axis, which) is not None]
    steps = dict(zip(inside, dense([axis.size for axis in inside]), strict=True))
    changed = [axis._replace(**{which: steps[axis]}) if axis in steps else axis for axis in axes]
    return changed, inside


def work(axes: Sequence[Axis]) -> int | None:
    """How many multiplications one product of the batch takes; None if that is not known now."""
    sizes = [axis.size for axis in axes if axis.role != "batch"]
    return prod(sizes) if all(isinstance(size, int) for size in sizes) else None
