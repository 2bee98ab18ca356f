"""Sums of products of two arrays, as axes: which of the operands and the result each axis steps through, and how far.

`matmul`, `einsum` of two operands and a sum over a batch of products are the same thing here. An axis is of one of four
classes: batch (in both operands and the result), m (first operand and result), n (second and result), k (both operands: summed).
Axes that lie densely behind one another become one; `chosen` picks the axes that one BLAS product runs over, the rest are loops
around it. All of it is arithmetic on sizes and steps, done before code is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from gradtape.backends.llvm.layouts import Layout, dense, is_one
from gradtape.ir.graph import Operation
from gradtape.ops.contract import split_equation

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
    """One BLAS product (an axis is None where its size is 1) and the loops around it."""

    m: Axis | None
    n: Axis | None
    k: Axis | None
    loops: list[Axis]
    turned: bool  # the result lies transposed: operands change places


def of_matmul(operation: Operation, a: Layout, b: Layout, result: Sequence[Size], steps: Sequence[Size | None]) -> list[Axis]:
    """The axes of a matrix product; `steps` are those of the result, None for axes that are summed over."""
    left, right = (tuple(v.type.shape) for v in operation.operands)
    found = []
    for axis in range(len(result) - 2):
        back, size = len(result) - axis, result[axis]  # counted from the end
        found.append(_without(Axis(size, _batch_step(left, a, back, size), _batch_step(right, b, back, size), steps[axis])))
    found.append(Axis(left[-2], a.steps[-2], None, steps[-2]))
    found.append(Axis(right[-1], None, b.steps[-1], steps[-1]))
    found.append(Axis(left[-1], a.steps[-1], b.steps[-2], None))
    return tidy(found)


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
    found = []
    for letter in dict.fromkeys("".join([out, *terms])):
        step = [
            layout[term.index(letter)] if letter in term else None
            for term, layout in ((terms[0], a.steps), (terms[1], b.steps), (out, steps))
        ]
        found.append(_without(Axis(sizes[letter], *step)))
    return tidy(found)


def pair_sizes(operation: Operation) -> tuple[tuple[str, ...], str, dict[str, Size]]:
    """Letters of the operands and the result of an einsum, and the size of each."""
    terms, out = split_equation(operation.attrs["equation"])
    sizes = {c: n for term, v in zip(terms, operation.operands, strict=True) for c, n in zip(term, v.type.shape, strict=True)}
    return terms, out, sizes


def tidy(axes: Sequence[Axis]) -> list[Axis]:
    """Without axes of size 1; axes that are dense behind one another as one."""
    found = [axis for axis in axes if not is_one(axis.size)]
    again = True
    while again:
        again = False
        for outer, inner in itertools.permutations(found, 2):
            if outer.role == inner.role and all(
                (x is None and y is None) or (x is not None and y is not None and x == y * inner.size)
                for x, y in zip(outer[1:], inner[1:], strict=True)
            ):
                found[found.index(outer)] = Axis(outer.size * inner.size, *inner[1:])
                found.remove(inner)
                again = True
                break
    return found


def of_role(axes: Sequence[Axis], role: str) -> list[Axis]:
    return [axis for axis in axes if axis.role == role]


def weight(size: Size) -> int:
    """A size as a number, for comparing; unknown ones count as medium."""
    return size if isinstance(size, int) else 64


def chosen(axes: Sequence[Axis]) -> Choice | None:
    """The largest product that BLAS can do on these layouts; None if there is none worth it."""
    if any(axis.role in ("c", "none") or (axis.role == "k" and None in (axis.a, axis.b)) for axis in axes):
        return None
    options: list[tuple[int, Choice]] = []
    lists = [[*of_role(axes, role), None] if not of_role(axes, role) else of_role(axes, role) for role in ("m", "n", "k")]
    for m, n, k in itertools.product(*lists):
        rest = [axis for axis in axes if axis not in (m, n, k)]
        for turned in (False, True):
            if _fits(m, n, k, turned):
                total = 1
                for axis in (m, n, k):
                    total *= 1 if axis is None else weight(axis.size)
                options.append((total, Choice(m, n, k, rest, turned)))
                break
    return max(options, key=lambda option: option[0])[1] if options else None


def _fits(m: Axis | None, n: Axis | None, k: Axis | None, turned: bool) -> bool:
    """Whether each matrix has an axis whose elements lie side by side, the result its second one (its first, if turned)."""
    if not (_matrix(m and m.a, k and k.a, m, k) and _matrix(k and k.b, n and n.b, k, n)):
        return False
    across, along = (n, m) if turned else (m, n)
    if m is None or n is None:  # a vector: any step will do
        return True
    assert across is not None and along is not None
    return is_one(along.c) and _apart(across.c, along.size)


def _matrix(first: Any, second: Any, x: Axis | None, y: Axis | None) -> bool:
    if x is None or y is None:
        step = second if x is None else first
        return step is None or not isinstance(step, int) or step > 0
    return (is_one(second) and _apart(first, y.size)) or (is_one(first) and _apart(second, x.size))


def _apart(step: Any, size: Any) -> bool:
    """Whether rows at this step do not overlap, as far as known."""
    if isinstance(step, int):
        return step >= size if isinstance(size, int) else False
    return True


def packed(axes: Sequence[Axis], which: str) -> tuple[list[Axis], list[Axis]]:
    """The axes with one operand (or the result) copied to dense memory, and the axes of that memory in order."""
    order = {"a": ("batch", "m", "k"), "b": ("batch", "k", "n"), "c": ("batch", "m", "n")}[which]
    inside = [axis for role in order for axis in axes if axis.role == role and getattr(axis, which) is not None]
    steps = dict(zip(inside, dense([axis.size for axis in inside]), strict=True))
    changed = [axis._replace(**{which: steps[axis]}) if axis in steps else axis for axis in axes]
    return changed, inside


def made_dense(axes: Sequence[Axis]) -> tuple[list[Axis], dict[str, list[Axis]]]:
    """The axes with as few operands copied as BLAS needs, and for each copy the axes of its memory in order."""
    for which in ("", "a", "b", "c", "ab", "ac", "bc", "abc"):
        found, copies = list(axes), {}
        for letter in which:
            found, copies[letter] = packed(found, letter)
        if chosen(tidy(found)) is not None:
            return tidy(found), copies
    raise AssertionError("a dense product that BLAS cannot do")


def work(axes: Sequence[Axis]) -> int | None:
    """How many multiplications one product of the batch takes; None if that is not known now."""
    total = 1
    for axis in axes:
        if axis.role != "batch":
            if not isinstance(axis.size, int):
                return None
            total *= axis.size
    return total
