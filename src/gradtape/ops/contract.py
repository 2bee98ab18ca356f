"""Sums of products over named axes: einsum and tensordot.

`einsum` first removes what concerns one operand alone (diagonals of repeated letters, sums over letters nobody else has,
unit axes that broadcast); what is left is one primitive, `einsum`, in which each letter stands once per operand and in at
least two of the terms (operands and result). That invariant makes the primitive closed under its own derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from gradtape.core import inference
from gradtape.core.dispatch import apply, promote
from gradtape.core.opdef import Op, Sample, composite, general
from gradtape.core.typing import Array, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import normal

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
Shape = tuple[Any, ...]

# -- the primitive -----------------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """How two operands are contracted: by one (batched) matrix product, or by one broadcast product.

    An order is None where it changes nothing.
    """

    lanes: tuple[Any, Any] | None  # no letter is summed: how the two line up to be multiplied
    order_a: tuple[int, ...] | None
    order_b: tuple[int, ...] | None
    sizes: tuple[int, int, int] | None  # how many letters: batch, free in a, summed; None if the operands are matrices
    order: tuple[int, ...] | None  # of the result


@lru_cache(maxsize=1024)
def _pair(a: str, b: str, out: str) -> Pair:
    summed = [c for c in a if c in b and c not in out]
    if not summed:
        lanes_a, lanes_b = (tuple(slice(None) if c in x else None for c in out) for x in (a, b))
        order_a, order_b = (_order(x, [c for c in out if c in x]) for x in (a, b))
        return Pair((lanes_a, lanes_b), order_a, order_b, None, None)
    shared = [c for c in out if c in a and c in b]
    free_a, free_b = [c for c in out if c in a and c not in b], [c for c in out if c in b and c not in a]
    matrices = len(free_a) == len(free_b) == len(summed) == 1
    return Pair(
        None,
        _order(a, [*shared, *free_a, *summed]),
        _order(b, [*shared, *summed, *free_b]),
        None if matrices else (len(shared), len(free_a), len(summed)),
        _order([*shared, *free_a, *free_b], out),
    )


def _order(have: Sequence[str], want: Sequence[str]) -> tuple[int, ...] | None:
    order = tuple(have.index(c) for c in want)
    return None if order == tuple(range(len(order))) else order


def _contract(a: Array, b: Array, letters_a: str, letters_b: str, out: str) -> Array:
    plan = _pair(letters_a, letters_b, out)
    if plan.order_a is not None:
        a = a.transpose(plan.order_a)
    if plan.order_b is not None:
        b = b.transpose(plan.order_b)
    # Nothing is summed and nothing is free on both sides: the product of aligned lanes, which BLAS would make slower.
    if plan.lanes is not None:
        return (a[plan.lanes[0]] if a.ndim else a) * (b[plan.lanes[1]] if b.ndim else b)
    if plan.sizes is None:
        result = product(_for_blas(a), _for_blas(b))
    else:
        batch, free_a, summed = plan.sizes
        lead = a.shape[:batch]
        dims = (*a.shape[: batch + free_a], *b.shape[batch + summed :])
        # (batch…, free of a, summed) · (batch…, summed, free of b): with each group as one axis it is a matrix product.
        count = prod(a.shape[batch + free_a :])
        a = a.reshape(*lead, prod(a.shape[batch : batch + free_a]), count)
        b = b.reshape(*lead, count, prod(b.shape[batch + summed :]))
        result = product(_for_blas(a), _for_blas(b)).reshape(dims)
    if plan.order is not None:
        return result.transpose(plan.order)
    return result if result.ndim else result[()]


def _for_blas(x: Array) -> Array:
    """Matrices whose rows or columns lie together; any other layout would send NumPy to its slow loop."""
    return x if x.itemsize in x.strides[-2:] else np.ascontiguousarray(x)


@lru_cache(maxsize=512)
def contraction_path(equation: str, shapes: tuple[Shape, ...]) -> tuple[tuple[int, ...], ...]:
    """Which operands are contracted one after the other so that it costs least."""
    # NumPy's search wants arrays for their shapes; these have no memory.
    operands = [np.broadcast_to(np.empty(()), shape) for shape in shapes]
    strategy = "optimal" if len(shapes) <= 4 else "greedy"
    return tuple(tuple(step) for step in np.einsum_path(equation, *operands, optimize=strategy)[0][1:])


def _einsum_impl(*xs: Array, equation: str) -> Array:
    terms, out = _split(equation)
    if len(xs) == 2:
        return _contract(xs[0], xs[1], terms[0], terms[1], out)
    arrays, letters = list(xs), list(terms)
    for step in contraction_path(equation, tuple(x.shape for x in xs)):
        # From the back, so that the places of the others stay what they are.
        chosen = [(arrays.pop(i), letters.pop(i)) for i in sorted(step, reverse=True)]
        x, name = chosen.pop()
        while chosen:
            y, other = chosen.pop()
            rest = "".join([out, *letters, *(n for _, n in chosen)])
            # A letter that neither the result nor anybody else has is summed now; `dict.fromkeys` keeps the others in order.
            kept = out if not letters and not chosen else "".join(dict.fromkeys(c for c in name + other if c in rest))
            x, name = _contract(x, y, name, other, kept), kept
        arrays.append(x)
        letters.append(name)
    return arrays[0]


def split_equation(equation: str) -> tuple[tuple[str, ...], str]:
    """The letters of each operand, and of the result."""
    left, out = equation.split("->")
    return tuple(left.split(",")), out


_split = lru_cache(maxsize=1024)(split_equation)


def _einsum_spec(*xs: TensorSpec, equation: str) -> TensorSpec:
    terms, out = split_equation(equation)
    dims = {c: d for term, x in zip(terms, xs, strict=True) for c, d in zip(term, x.shape, strict=True)}
    return TensorSpec([dims[c] for c in out], inference.elementwise(*(TensorSpec((), x.dtype) for x in xs)).dtype)


# linear in each operand: the cotangent of operand k is ct contracted with the other operands to the letters of k
def einsum_cts(ct: Tensor, xs: tuple[Any, ...], equation: str, needed: tuple[bool, ...]) -> tuple[Any, ...]:
    """The cotangents of the operands that need one."""
    terms, out = split_equation(equation)
    cts: list[Any] = []
    for k, wanted in enumerate(needed):
        if not wanted:
            cts.append(None)
            continue
        others = [i for i in range(len(xs)) if i != k]
        turned = ",".join([out, *(terms[i] for i in others)]) + "->" + terms[k]
        cts.append(apply(EINSUM, ct, *(conj(xs[i]) if is_complex(xs[i]) else xs[i] for i in others), equation=turned))
    return tuple(cts)


def einsum_tangent(tangents: tuple[Any, ...], xs: tuple[Any, ...], equation: str) -> Tensor:
    """The sum over operands of the contraction with that operand's tangent in its place."""
    total: Any = None
    for k, t in enumerate(tangents):
        if t is not None:
            part = apply(EINSUM, *xs[:k], t, *xs[k + 1 :], equation=equation)
            total = part if total is None else total + part
    return total


def _batch_einsum(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    terms, out = split_equation(attrs["equation"])
    # A batch axis is one more letter, of the operands that have it and of the result.
    letter = _unused("".join([*terms, out]), 1)
    named = [letter + term if flag else term for term, flag in zip(terms, flags, strict=True)]
    return apply(op, *inputs, equation=",".join(named) + "->" + letter + out)


EINSUM = general(
    "einsum", "*xs", _einsum_impl,
    vjp=einsum_cts, jvp=einsum_tangent, infer=_einsum_spec, batch=_batch_einsum,
    call=lambda xs, equation: einsum(equation, *xs),
    samples=lambda: [
        Sample([normal(2, 3), normal(3, 4)], "ij,jk->ik"),
        Sample([normal(2, 3), normal(4, 3, 2)], "ij,kji"),
        Sample([normal(5, 2, 3), normal(5, 3, 4)], "bij,bjk->bki"),
        Sample([normal(2, 3, 5), normal(3, 4, 5)], "ijb,jkb->ikb"),
        Sample([normal(3), normal(4)], "i,j->ji"),
        Sample([normal(3), normal(3)], "i,i->"),
        Sample([normal(3), normal(3)], "i,i->i"),
        Sample([normal(2, 3), normal(3, 4), normal(4, 2)], "ij,jk,kl->il"),
        Sample([normal(2, 3), normal(2, 4), normal(2, 5), normal(3, 4)], "bi,bj,bk,ij->bk"),
        Sample([normal(), normal(3)], ",i->i"),
        Sample([normal(0, 3), normal(3, 2)], "ij,jk->ik"),
        Sample([normal(2, 0), normal(0, 2)], "ij,jk->ik"),
        Sample([normal(2, 2) + 1j * normal(2, 2), normal(2, 3) + 1j * normal(2, 3)], "ij,ik->jk"),
    ],
)  # fmt: skip

# -- einsum ------------------------------------------------------------------------------------------------------------


class Preparation(NamedTuple):
    """What happens to one operand before the contraction."""

    repeats: tuple[tuple[int, int], ...]  # pairs of axes whose diagonal is taken, one after the other
    shape: Shape | None  # with broadcasting unit axes left out
    sums: tuple[int, ...]  # axes nobody else has


class Contraction(NamedTuple):
    """An equation made ready for the primitive."""

    operands: tuple[Preparation, ...]
    equation: str
    order: tuple[int, ...]  # for a single operand: how its axes are put in order


def _unused(used: str, count: int) -> str:
    free = [c for c in LETTERS if c not in used][:count]
    if len(free) < count:
        raise InvalidArgumentError(f"einsum: more than {len(LETTERS)} different axes")
    return "".join(free)


def _wrong(equation: str, text: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"einsum: equation {equation!r}: {text}")


def _explicit(equation: str, ranks: tuple[int, ...]) -> tuple[list[str], str]:
    """Letters of all operands and of the result, with ellipses and an implicit result written out."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise _wrong(equation, f"{len(terms)} operands are named but {len(ranks)} were given")
    for part in [*terms, right]:
        if any(c not in LETTERS for c in part.replace("...", "", 1)):
            raise _wrong(equation, f"{part!r} is not made of letters and at most one '...'")
    extra = [rank - len(term.replace("...", "")) for term, rank in zip(terms, ranks, strict=True)]
    for term, rank, more in zip(terms, ranks, extra, strict=True):
        if more < 0 or (more and "..." not in term):
            raise _wrong(equation, f"{term!r} does not fit an operand of rank {rank}")
    # `...` becomes letters that the equation does not use, counted from the last one, as broadcasting counts axes.
    hidden = _unused(left + right, max([0, *extra]))
    terms = [term.replace("...", hidden[len(hidden) - more :]) for term, more in zip(terms, extra, strict=True)]
    if not arrow:
        letters = "".join(terms)
        # NumPy's implicit result: the broadcast axes, then all letters that occur once, in alphabetical order.
        right = hidden + "".join(sorted(c for c in set(letters) - set(hidden) if letters.count(c) == 1))
    elif "..." in right:
        right = right.replace("...", hidden)
    elif hidden:
        raise _wrong(equation, "the operands have '...' axes, so the result must name '...' too")
    if len(set(right)) != len(right):
        raise _wrong(equation, "a letter stands twice in the result")
    missing = sorted(set(right) - set("".join(terms)))
    if missing:
        raise _wrong(equation, f"{missing[0]!r} stands in the result but in no operand")
    return terms, right


@lru_cache(maxsize=1024)
def _contraction(equation: str, shapes: tuple[Shape, ...]) -> Contraction:
    terms, out = _explicit(equation, tuple(len(s) for s in shapes))
    dims: dict[str, Any] = {}
    for term, shape in zip(terms, shapes, strict=True):
        for c, d in zip(term, shape, strict=True):
            if dims.setdefault(c, d) == 1:
                dims[c] = d
            elif d not in (1, dims[c]):
                raise _wrong(equation, f"axis {c!r} has sizes {dims[c]} and {d} in operands of shapes {list(shapes)}")
    operands, left = [], []
    for term, shape in zip(terms, shapes, strict=True):
        repeats: list[tuple[int, int]] = []
        sizes = list(shape)
        # "ii": the diagonal is taken before the contraction, which then knows no repeated letters.
        while len(set(term)) < len(term):
            second = next(i for i, c in enumerate(term) if c in term[:i])
            first = term.index(term[second])
            if sizes[first] != sizes[second]:
                raise _wrong(equation, f"the axes named {term[first]!r} of one operand differ: shape {shape}")
            repeats.append((first, second))
            term = term[:second] + term[second + 1 :]
            del sizes[second]
        # A unit axis that is broadcast is left out of its operand: the letter still stands in the others.
        kept = [i for i, c in enumerate(term) if not (sizes[i] == 1 and dims[c] != 1)]
        narrow = None if len(kept) == len(term) else tuple(sizes[i] for i in kept)
        left.append("".join(term[i] for i in kept))
        operands.append((tuple(repeats), narrow))
    ready, short = [], []
    for k, (repeats_k, narrow) in enumerate(operands):
        others = "".join([out, *left[:k], *left[k + 1 :]])
        ready.append(Preparation(repeats_k, narrow, tuple(i for i, c in enumerate(left[k]) if c not in others)))
        short.append("".join(c for c in left[k] if c in others))
    order = tuple(short[0].index(c) for c in out) if len(short) == 1 else ()
    return Contraction(tuple(ready), ",".join(short) + "->" + out, order)


def _diagonal(x: Tensor, first: int, second: int) -> Tensor:
    """The diagonal over two axes, left at the place of the first one."""
    rest = [i for i in range(x.ndim) if i not in (first, second)]
    part = diag_part(transpose(x, (*rest, first, second)))
    return transpose(part, (*range(first), part.ndim - 1, *range(first, part.ndim - 1)))


@composite(
    samples=lambda: [
        Sample("ii->i", normal(3, 3)),
        Sample("iji->j", normal(3, 2, 3)),
        Sample("ij->", normal(3, 2)),
        Sample("ij->ji", normal(3, 2)),
        Sample("ba", normal(3, 2)),
        Sample("...ij,...jk->...ik", normal(2, 3, 4), normal(4, 2)),
        Sample("i...,i...", normal(3, 1, 2), normal(3, 4, 2)),
        Sample("ij,jk->ik", normal(3, 1), normal(4, 2)),
        Sample("iik,kj->ij", normal(2, 2, 3), normal(3, 2)),
        Sample("ij,kl->il", normal(2, 3), normal(4, 2)),
        Sample("ij,jk->ik", normal(3, 2), normal(3, 2), raises=(ValueError, "sizes")),
        Sample("ij,jk", normal(3, 2), raises=(ValueError, "operands")),
        Sample("ij->k", normal(3, 2), raises=(ValueError, "no operand")),
        Sample("i->ii", normal(3), raises=(ValueError, "twice")),
        Sample("i->i", normal(3, 2), raises=(ValueError, "rank")),
    ]
)
def einsum(equation: str, *inputs: TensorLike, optimize: object = "greedy", name: str | None = None) -> Tensor:
    """Products of tensors summed over the axes that the equation names but its result does not.

    `...` stands for further axes that broadcast; without `->` the result has the letters that occur once, in
    alphabetical order. Several operands are contracted pair by pair in the cheapest order (`optimize` is accepted and
    has no effect), each pair as a matrix product.

    >>> a = gt.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> gt.einsum("ij,jk->ik", a, a).numpy()
    array([[ 7., 10.],
           [15., 22.]], dtype=float32)
    >>> gt.einsum("ii", a).numpy()
    np.float32(5.0)
    """
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation comes first, einsum('ij,jk->ik', a, b), got {equation!r}")
    xs = list(promote(*inputs)) if inputs else []
    plan = _contraction(equation, tuple(tuple(x.shape) for x in xs))
    for k, todo in enumerate(plan.operands):
        for first, second in todo.repeats:
            xs[k] = _diagonal(xs[k], first, second)
        if todo.shape is not None:
            xs[k] = reshape(xs[k], todo.shape)
        if todo.sums:
            xs[k] = reduce_sum(xs[k], todo.sums)
    if len(xs) == 1:
        return transpose(xs[0], plan.order)
    return apply(EINSUM, *xs, equation=plan.equation)


# -- tensordot ---------------------------------------------------------------------------------------------------------


def _tensordot_axes(axes: TensorLike, a: Tensor, b: Tensor) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if isinstance(axes, Readable):
        axes = axes.read()
    if isinstance(axes, (Tensor, np.ndarray)):
        axes = axes.tolist()
    if isinstance(axes, (int, np.integer)):
        count = int(axes)
        if not 0 <= count <= min(a.ndim, b.ndim):
            raise InvalidArgumentError(f"tensordot: axes={count} does not fit operands of rank {a.ndim} and {b.ndim}")
        return tuple(range(a.ndim - count, a.ndim)), tuple(range(count))
    if not isinstance(axes, (list, tuple)) or len(axes) != 2:
        raise InvalidArgumentError(f"tensordot: axes must be a number or a pair of lists, got {axes!r}")
    first, second = (
        tuple(normal_axis(i, x.ndim, "tensordot") for i in listed_axes(part)) for part, x in zip(axes, (a, b), strict=True)
    )
    if len(first) != len(second) or len(set(first)) != len(first) or len(set(second)) != len(second):
        raise InvalidArgumentError(f"tensordot: axes {axes!r} must name as many different axes of a as of b")
    return first, second


@composite(
    samples=lambda: [
        Sample(normal(2, 3), normal(3, 4), 1),
        Sample(normal(2, 3), normal(3, 4), [[1], [0]]),
        Sample(normal(2, 3, 4), normal(4, 2), [[0, 2], [1, 0]]),
        Sample(normal(2, 3), normal(2, 3), 2),
        Sample(normal(2, 3), normal(3, 2), [[0, 1], [1, 0]]),
        Sample(normal(2, 3), normal(2, 4), 1, raises=(ValueError, "differ")),
        Sample(normal(2), normal(3), 0),
        Sample(normal(3), normal(3), [0, -1]),
        Sample(normal(2), normal(3), 2, raises=(ValueError, "rank")),
    ]
)
def tensordot(a: TensorLike, b: TensorLike, axes: TensorLike, name: str | None = None) -> Tensor:
    """Sum of products over axes of `a` and `b`: the last `axes` of a with the first of b, or the listed pairs.

    >>> gt.tensordot([[1.0, 2.0]], [3.0, 4.0], axes=1).numpy()
    array([11.], dtype=float32)
    """
    a, b = promote(a, b)
    first, second = _tensordot_axes(axes, a, b)
    for i, j in zip(first, second, strict=True):
        if a.shape[i] != b.shape[j]:
            raise InvalidArgumentError(
                f"tensordot: axis {i} of shape {tuple(a.shape)} and axis {j} of shape {tuple(b.shape)} differ"
            )
    if a.ndim + b.ndim > len(LETTERS):
        raise InvalidArgumentError(f"tensordot: more than {len(LETTERS)} axes")
    letters_a, letters_b = LETTERS[: a.ndim], list(LETTERS[a.ndim : a.ndim + b.ndim])
    for i, j in zip(first, second, strict=True):
        letters_b[j] = letters_a[i]
    out = "".join(c for c in (*letters_a, *letters_b) if not (c in letters_a and c in letters_b))
    return apply(EINSUM, a, b, equation=f"{letters_a},{''.join(letters_b)}->{out}")


OPS = (EINSUM,)

from gradtape.core.tensor import Readable, Tensor
from gradtape.ops.elementwise import conj, is_complex
from gradtape.ops.matmul import product
from gradtape.ops.matrix import diag_part
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.shape import listed_axes, normal_axis, reshape, transpose
