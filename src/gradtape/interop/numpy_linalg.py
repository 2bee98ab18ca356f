"""NumPy's products, `numpy.linalg` and `numpy.fft` written in gradtape's ops: a table from function to rule.

Rules have NumPy's argument names and result types (its named tuples where it has them). What NumPy offers and gradtape
has no derivative for is not in the table, and so refused by `interop/protocols.py`.
"""

# ruff: noqa: D103  (each function does what NumPy documents under its name)

from __future__ import annotations

import functools
import math
import string
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradtape.core.arguments import numeric, of_rank, promoted, real_floats, whole
from gradtape.core.dispatch import convert, promote
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Axes, DTypeLike, Integer, TensorLike
from gradtape.dtypes import numpy_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.interop.numpy_ufuncs import conjugated, floats, vecdot
from gradtape.ops import (
    elementwise as e,
    fft as f,
    linalg_det as determinants,
    linalg_solve as solving,
    linalg_spectral as spectral,
)
from gradtape.ops.compare import equal, not_equal
from gradtape.ops.contract import einsum as contraction, tensordot as contracted
from gradtape.ops.create import eye, zeros
from gradtape.ops.extending import pad
from gradtape.ops.matmul import matrix_transposed, swap_last
from gradtape.ops.operators import matmul_operator as matmul
from gradtape.ops.reduce import reduce_any, reduce_max, reduce_min, reduce_sum, safe_sqrt
from gradtape.ops.select import where
from gradtape.ops.shape import broadcast_to, concat, normal_axis, reshape, transpose

Rule = Callable[..., Any]
AxesToMove: TypeAlias = Integer | list[int] | tuple[int, ...]


def flat(x: TensorLike) -> Tensor:
    return reshape(x, (-1,))


# -- products --------------------------------------------------------------------------------------------------------


def dot(a: TensorLike, b: TensorLike, out: object = None) -> Any:
    a, b = promoted("dot", a=a, b=b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return contracted(a, b, ([a.ndim - 1], [max(b.ndim - 2, 0)]))


def vdot(a: TensorLike, b: TensorLike) -> Any:
    a, b = promote(a, b)
    return reduce_sum(conjugated(flat(a)) * flat(b))


def inner(a: TensorLike, b: TensorLike) -> Any:
    a, b = promote(a, b)
    return a * b if a.ndim == 0 or b.ndim == 0 else contracted(a, b, ([a.ndim - 1], [b.ndim - 1]))


def outer(a: TensorLike, b: TensorLike, out: object = None) -> Any:
    return reshape(convert(a), (-1, 1)) * reshape(convert(b), (1, -1))


def tensordot(a: TensorLike, b: TensorLike, axes: int | Sequence[Any] = 2) -> Any:
    return contracted(a, b, axes)


def einsum(*operands: Any, out: object = None, optimize: object = False) -> Any:
    """`np.einsum("ij,jk->ik", a, b)`, or with lists of axes: `np.einsum(a, [0, 1], b, [1, 2], [0, 2])`."""
    if not isinstance(operands[0], str):
        operands = _with_letters(operands)
    for operand in operands[1:]:
        numeric(operand, "an operand", "np.einsum")
    return contraction(*operands)


def _with_letters(operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Lists of axes as the letters of an equation."""
    tensors, lists = operands[0::2], operands[1::2]
    tail = ""
    if len(operands) % 2:
        tensors, tail = tensors[:-1], "->" + _letters(operands[-1])
    return (",".join(_letters(axes) for axes in lists) + tail, *tensors)


def _letters(axes: object) -> str:
    names = []
    if not isinstance(axes, (list, tuple, np.ndarray)):
        raise TypeError(f"einsum: the axes of an operand must be a list of numbers, got {axes!r}")
    for axis in axes:
        if axis is not Ellipsis and not (isinstance(axis, (int, np.integer)) and 0 <= axis < len(string.ascii_letters)):
            raise ValueError(f"einsum: an axis is a number from 0 to 51 or an ellipsis, got {axis!r}")
        names.append("..." if axis is Ellipsis else string.ascii_letters[axis])
    return "".join(names)


def kron(a: TensorLike, b: TensorLike) -> Any:
    a, b = promote(a, b)
    rank = max(a.ndim, b.ndim)
    rows = (1,) * (rank - a.ndim) + tuple(a.shape)
    cols = (1,) * (rank - b.ndim) + tuple(b.shape)
    # Every size of one beside a 1 of the other: the product broadcasts to all pairs, and joining the pairs gives the blocks.
    wide_a = reshape(a, tuple(v for d in rows for v in (d, 1)))
    wide_b = reshape(b, tuple(v for d in cols for v in (1, d)))
    return reshape(wide_a * wide_b, tuple(m * n for m, n in zip(rows, cols, strict=True)))


def _at(x: Tensor, places: list[int]) -> Any:
    return x[..., np.array(places)]


def cross(a: TensorLike, b: TensorLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """Of vectors with 3 entries, or 2, whose third is 0; of two with 2 entries only the third of the product is given."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = promoted("cross", a=a, b=b)
    a, b = moveaxis(a, axisa, -1), moveaxis(b, axisb, -1)
    if a.shape[-1] not in (2, 3) or b.shape[-1] not in (2, 3):
        raise InvalidArgumentError(f"cross: vectors must have 2 or 3 entries, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    if a.shape[-1] == b.shape[-1] == 2:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    a, b = (pad(v, [[0, 0]] * (v.ndim - 1) + [[0, 1]]) if v.shape[-1] == 2 else v for v in (a, b))
    product = _at(a, [1, 2, 0]) * _at(b, [2, 0, 1]) - _at(a, [2, 0, 1]) * _at(b, [1, 2, 0])
    return moveaxis(product, -1, axisc)


def moveaxis(a: TensorLike, source: AxesToMove, destination: AxesToMove) -> Tensor:
    a = convert(a)
    places, targets = (
        [normal_axis(axis, a.ndim, "moveaxis") for axis in (axes if isinstance(axes, (list, tuple)) else [axes])]
        for axes in (source, destination)
    )
    for argument, axes in (("source", places), ("destination", targets)):
        if len(set(axes)) != len(places):
            raise InvalidArgumentError(
                f"moveaxis: source {source} and destination {destination}: {argument} needs {len(places)} axes"
            )
    # The axes that stay keep their order; the moved ones are put between them, from left to right.
    perm = [i for i in range(a.ndim) if i not in places]
    for target, place in sorted(zip(targets, places, strict=True)):
        perm.insert(target, place)
    return transpose(a, perm)


# -- diagonals -------------------------------------------------------------------------------------------------------


def diagonal(a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    a = of_rank(numeric(a, "a", "diagonal"), 2, "a", "diagonal")
    first, second = (normal_axis(axis, a.ndim, "diagonal") for axis in (axis1, axis2))
    if first == second:
        raise InvalidArgumentError(f"diagonal: axis1 and axis2 must be different axes, both are {axis1}")
    offset = whole(offset, "offset", "diagonal")
    a = moveaxis(a, (first, second), (-2, -1))
    rows, cols = (int(d) for d in tuple(a.shape)[-2:])
    # NumPy's own matrix says where a diagonal with this offset runs.
    i, j = np.nonzero(np.eye(rows, cols, offset))
    return a[..., i, j]


def trace(
    a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None, out: object = None
) -> Any:
    total = reduce_sum(diagonal(a, offset, axis1, axis2), axis=-1)
    return total if dtype is None else e.cast(total, dtype)


def diag(v: TensorLike, k: int = 0) -> Any:
    v = convert(v)
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise InvalidArgumentError(f"diag: input must be 1- or 2-d, got shape {tuple(v.shape)}")
    n = int(v.shape[0])
    # A choice, not a product with zeros: an infinite entry of the vector must not make NaN of the rest of its row.
    square = where(np.eye(n, dtype=bool), reshape(v, (n, 1)), e.cast(0, v.dtype))
    return pad(square, [[max(-k, 0), max(k, 0)], [max(k, 0), max(-k, 0)]])


def tril(m: TensorLike, k: int = 0) -> Any:
    m = convert(m)
    return where(np.tri(int(m.shape[-2]), int(m.shape[-1]), k, bool), m, e.cast(0, m.dtype))


def triu(m: TensorLike, k: int = 0) -> Any:
    m = convert(m)
    return where(~np.tri(int(m.shape[-2]), int(m.shape[-1]), k - 1, bool), m, e.cast(0, m.dtype))


# -- numpy.linalg ----------------------------------------------------------------------------------------------------


def vector_norm(x: TensorLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Any:
    x = floats(x)
    if axis is None:
        ones = (1,) * x.ndim
        out = vector_norm(flat(x), axis=0, ord=ord)
        return reshape(out, ones) if keepdims else out
    # The absolute value of a complex number is real: norms of complex vectors need nothing more.
    size = e.abs(x)
    if ord == math.inf:
        return reduce_max(size, axis, keepdims)
    if ord == -math.inf:
        return reduce_min(size, axis, keepdims)
    if ord == 0:
        return reduce_sum(e.cast(size != 0, size.dtype), axis, keepdims)
    if ord == 1:
        return reduce_sum(size, axis, keepdims)
    if ord == 2:
        return safe_sqrt(reduce_sum(size * size, axis, keepdims))
    return e.pow(reduce_sum(e.pow(size, ord), axis, keepdims), 1.0 / ord)


def matrix_norm(x: TensorLike, /, *, keepdims: bool = False, ord: float | str | None = "fro") -> Any:
    x = floats(x)
    if ord in ("fro", "f", None):
        return vector_norm(x, axis=(-2, -1), keepdims=keepdims)
    extreme = reduce_max if ord in (1, 2, math.inf) else reduce_min
    if ord in (1, -1):
        out = extreme(reduce_sum(e.abs(x), axis=-2), axis=-1)
    elif ord in (math.inf, -math.inf):
        out = extreme(reduce_sum(e.abs(x), axis=-1), axis=-1)
    elif ord in (2, -2):
        out = extreme(spectral.svd(x, compute_uv=False), axis=-1)
    elif ord == "nuc":
        out = reduce_sum(spectral.svd(x, compute_uv=False), axis=-1)
    else:
        raise ValueError(f"matrix_norm: ord={ord!r} is not a norm of matrices")
    return out[..., None, None] if keepdims else out


def norm(x: TensorLike, ord: float | str | None = None, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Any:
    x = floats(x)
    if axis is None:
        if ord is None:
            return vector_norm(x, keepdims=keepdims)
        if x.ndim > 2:
            raise ValueError("norm: a tensor of rank above 2 needs the axis to take the norm over")
        axis = tuple(range(x.ndim))
    axes = (axis,) if isinstance(axis, int) else tuple(axis)
    if len(axes) == 1:
        order: Any = 2 if ord is None else ord
        if isinstance(order, str):
            raise ValueError(f"norm: ord={order!r} is not a norm of vectors; give two axes for a norm of matrices")
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=order)
    if len(axes) != 2:
        raise ValueError(f"norm: give one or two axes, got {axis}")
    out = matrix_norm(moveaxis(x, axes, (-2, -1)), ord=ord)
    if not keepdims:
        return out
    kept = [1 if i in [a % x.ndim for a in axes] else d for i, d in enumerate(tuple(x.shape))]
    return reshape(out, kept)


def inv(a: TensorLike) -> Any:
    return solving.inv(floats(a))


def det(a: TensorLike) -> Any:
    return determinants.det(floats(a))


def solve(a: TensorLike, b: TensorLike) -> Any:
    a, b = promote(floats(a), floats(b))
    if b.ndim == 1:
        return solving.solve(a, b[..., None])[..., 0]
    return solving.solve(a, b)


def slogdet(a: TensorLike) -> Any:
    return _named(np.linalg.slogdet(np.eye(1)), *determinants.slogdet(floats(a)))


def cholesky(a: TensorLike, /, *, upper: bool = False) -> Any:
    factor = solving.cholesky(floats(a))
    return matrix_transposed(factor) if upper else factor


def eigh(a: TensorLike, UPLO: str = "L") -> Any:
    return _named(np.linalg.eigh(np.eye(1)), *spectral.eigh(_triangle(floats(a), UPLO)))


def eig(a: TensorLike) -> Any:
    """Always complex, so that a program has one dtype whatever its values; NumPy's are real where all eigenvalues are."""
    return _named(np.linalg.eig(np.eye(1)), *spectral.eig(floats(a)))


def eigvals(a: TensorLike) -> Any:
    return spectral.eigvals(floats(a))


def eigvalsh(a: TensorLike, UPLO: str = "L") -> Any:
    return spectral.eigvalsh(_triangle(floats(a), UPLO))


def _triangle(a: Tensor, UPLO: str) -> Any:
    """The op reads the lower triangle; for the upper one, the (conjugate) transpose has it there."""
    return a if UPLO.upper() == "L" else matrix_transposed(a)


def svd(a: TensorLike, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """TensorFlow's svd gives (s, u, v); NumPy's gives (u, s, vᴴ)."""
    if not compute_uv:
        return spectral.svd(floats(a), compute_uv=False)
    s, u, v = spectral.svd(floats(a), full_matrices=full_matrices)
    return _named(np.linalg.svd(np.eye(1)), u, s, matrix_transposed(v))


def qr(a: TensorLike, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode {mode!r} has no derivative; use 'reduced', 'complete' or 'r'")
    q, r = spectral.qr(floats(a), full_matrices=mode == "complete")
    return r if mode == "r" else _named(np.linalg.qr(np.eye(1)), q, r)


def _named(example: tuple[Any, ...], *values: Any) -> Any:
    """The values in NumPy's named tuple."""
    return type(example)(*values)


def pinv(a: TensorLike, rcond: float | None = None) -> Any:
    return determinants.pinv(floats(a), rcond)


def lstsq(a: TensorLike, b: TensorLike, rcond: float | None = None) -> Any:
    """(solution, residuals, rank, singular values); without full rank, or without more rows than columns, no residuals."""
    a, b = promote(floats(a), floats(b))
    a, b = of_rank(a, 2, "a", "lstsq", most=2), of_rank(b, 1, "b", "lstsq", most=2)
    rows, columns = a.shape[0], a.shape[1]
    if b.shape[0] != rows:
        raise np.linalg.LinAlgError(f"lstsq: a and b differ in rows: shapes {tuple(a.shape)} and {tuple(b.shape)}")
    values = spectral.svd(a, compute_uv=False)
    if rcond is None or rcond < 0:
        eps = float(np.finfo(numpy_dtype(values.dtype)).eps)
        rcond = eps * max(int(rows), int(columns)) if rcond is None else eps
    rank = reduce_sum(e.cast(values > rcond * reduce_max(values), "int32"))
    flat_b = b if b.ndim == 2 else b[:, None]
    x = matmul(determinants.pinv(a, rcond), flat_b)
    if rows <= columns:
        residuals = zeros((0,), values.dtype)
    else:
        off = e.abs(matmul(a, x) - flat_b)
        residuals = reduce_sum(off * off, 0)
        residuals = residuals[broadcast_to(equal(rank, columns), residuals.shape)]
    return x if b.ndim == 2 else x[:, 0], residuals, rank, values


def matrix_rank(
    A: TensorLike, tol: TensorLike | None = None, hermitian: bool = False, *, rtol: TensorLike | None = None
) -> Any:
    """As int64; of a hermitian matrix too by its singular values, which are the absolute values of its eigenvalues."""
    a = floats(A)
    if tol is not None and rtol is not None:
        raise ValueError("matrix_rank: give tol or rtol, not both")
    if a.ndim < 2:
        return e.cast(reduce_any(not_equal(a, e.cast(0, a.dtype))), "int64")
    if rtol is not None:
        largest = reduce_max(spectral.svd(a, compute_uv=False), -1, True)
        tol = convert(rtol, hint=largest.dtype)[..., None] * largest
    elif tol is not None:
        tol = convert(tol, hint=a.dtype)[..., None]
    return e.cast(determinants.matrix_rank(a, tol), "int64")


def matrix_power(a: TensorLike, n: int) -> Any:
    a = convert(a)
    if n == 0:
        return eye(int(a.shape[-1]), batch_shape=tuple(a.shape)[:-2], dtype=a.dtype)
    base = inv(a) if n < 0 else a
    return functools.reduce(matmul, [base] * abs(n))


def multi_dot(arrays: Sequence[TensorLike], *, out: object = None) -> Any:
    return functools.reduce(dot, arrays)


def linalg_diagonal(x: TensorLike, /, *, offset: int = 0) -> Any:
    return diagonal(x, offset, -2, -1)


def linalg_trace(x: TensorLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Any:
    return trace(x, offset, -2, -1, dtype)


def linalg_cross(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Any:
    a, b = promoted("cross", x1=x1, x2=x2)
    if any(v.shape[normal_axis(axis, v.ndim, "cross")] != 3 for v in (a, b)):
        raise InvalidArgumentError(f"cross: vectors must have 3 entries, got shapes {tuple(a.shape)} and {tuple(b.shape)}")
    return cross(a, b, axis=axis)


def linalg_vecdot(x1: TensorLike, x2: TensorLike, /, *, axis: int = -1) -> Any:
    return vecdot(moveaxis(x1, axis, -1), moveaxis(x2, axis, -1))


def matrix_transpose(x: TensorLike, /) -> Any:
    return swap_last(convert(x))


# -- numpy.fft -------------------------------------------------------------------------------------------------------


def _last(a: TensorLike, n: int | None, axis: int, op: str) -> tuple[Tensor, int]:
    """The axis of a transform moved to the end, and how long the transform is asked to be: as long as the axis by default."""
    a = of_rank(numeric(a, "the input", op), 1, "the input", op)
    a = moveaxis(a, normal_axis(axis, a.ndim, op), -1)
    if n is None and a.shape[-1] == 0:
        raise InvalidArgumentError(f"{op}: the input has no elements along axis {axis}: shape {tuple(a.shape)}")
    return a, int(a.shape[-1]) if n is None else whole(n, "n", op, least=1)


def _fitted(a: TensorLike, n: int | None, axis: int, op: str) -> Tensor:
    """Cut or zero-padded to n along the last axis, where `axis` was moved."""
    a, n = _last(a, n, axis, op)
    if n == a.shape[-1]:
        return a
    return a[..., :n] if n < a.shape[-1] else concat([a, zeros((*tuple(a.shape)[:-1], n - int(a.shape[-1])), a.dtype)], -1)


def _complex(a: TensorLike, op: str) -> Tensor:
    a = numeric(a, "the input", op)
    if a.dtype.is_complex:
        return a
    return e.cast(a, "complex64" if a.dtype.name in ("float32", "float16") else "complex128")


def _scale(out: Tensor, norm: str | None, n: int, forward: bool) -> Tensor:
    factors = {None: 1.0, "backward": 1.0, "ortho": n**-0.5 if forward else n**0.5, "forward": 1.0 / n if forward else float(n)}
    if norm not in factors:
        raise ValueError(f"fft: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    return out if factors[norm] == 1.0 else out * factors[norm]


def fft(a: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> Any:
    a = _fitted(_complex(a, "np.fft.fft"), n, axis, "np.fft.fft")
    return moveaxis(_scale(f.fft(a), norm, int(a.shape[-1]), True), -1, axis)


def ifft(a: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> Any:
    a = _fitted(_complex(a, "np.fft.ifft"), n, axis, "np.fft.ifft")
    return moveaxis(_scale(f.ifft(a), norm, int(a.shape[-1]), False), -1, axis)


def rfft(a: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> Any:
    a = _fitted(real_floats(a, "the input", "np.fft.rfft"), n, axis, "np.fft.rfft")
    return moveaxis(_scale(f.rfft(a), norm, int(a.shape[-1]), True), -1, axis)


def irfft(a: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: object = None) -> Any:
    a, length = _last(_complex(a, "np.fft.irfft"), n, axis, "np.fft.irfft")
    length = 2 * (length - 1) if n is None else length
    return moveaxis(_scale(f.irfft(a, fft_length=[length]), norm, length, False), -1, axis)


def _lengths(a: TensorLike, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int | None, int]]:
    """How long the transform along each axis is (None: as the axis), and the axis; as many of the last ones as `s` has."""
    if axes is None:
        axes = range(convert(a).ndim) if s is None else range(-len(s), 0)
    return list(zip([None] * len(axes) if s is None else s, axes, strict=True))


def _each_axis(one: Rule, a: TensorLike, lengths: list[tuple[int | None, int]], norm: str | None) -> Any:
    for n, axis in lengths:
        a = one(a, n, axis, norm)
    return convert(a)


def _real_axes(a: TensorLike, lengths: list[tuple[int | None, int]], norm: str | None) -> Any:
    *others, (n, last) = lengths
    return _each_axis(fft, rfft(a, n, last, norm), others, norm)


def _inverse_real_axes(a: TensorLike, lengths: list[tuple[int | None, int]], norm: str | None) -> Any:
    *others, (n, last) = lengths
    return irfft(_each_axis(ifft, a, others, norm), n, last, norm)


def _over_axes(transform: Rule) -> tuple[Rule, Rule]:
    """A transform over several axes, one after the other: by default over all of them, and over the last two."""

    def over(default_axes: tuple[int, ...] | None) -> Rule:
        def rule(
            a: TensorLike, s: Sequence[int] | None = None, axes: Sequence[int] | None = default_axes, norm: str | None = None,
            out: object = None,
        ) -> Any:  # fmt: skip
            return transform(a, _lengths(a, s, axes), norm)

        return rule

    return over(None), over((-2, -1))


fftn, fft2 = _over_axes(functools.partial(_each_axis, fft))
ifftn, ifft2 = _over_axes(functools.partial(_each_axis, ifft))
rfftn, rfft2 = _over_axes(_real_axes)
irfftn, irfft2 = _over_axes(_inverse_real_axes)


LINALG: dict[Any, Rule] = {
    np.dot: dot, np.vdot: vdot, np.inner: inner, np.outer: outer, np.tensordot: tensordot, np.einsum: einsum,
    np.kron: kron, np.cross: cross, np.moveaxis: moveaxis, np.diagonal: diagonal, np.trace: trace, np.diag: diag,
    np.diagflat: lambda v, k=0: diag(flat(v), k),    np.tril: tril, np.triu: triu, np.matrix_transpose: matrix_transpose,
    np.linalg.norm: norm, np.linalg.vector_norm: vector_norm, np.linalg.matrix_norm: matrix_norm, np.linalg.inv: inv,
    np.linalg.det: det, np.linalg.solve: solve, np.linalg.slogdet: slogdet, np.linalg.cholesky: cholesky,
    np.linalg.eigh: eigh, np.linalg.eig: eig, np.linalg.eigvals: eigvals,
    np.linalg.eigvalsh: eigvalsh, np.linalg.svd: svd, np.linalg.qr: qr, np.linalg.pinv: pinv, np.linalg.lstsq: lstsq,
    np.linalg.matrix_rank: matrix_rank,
    np.linalg.svdvals: lambda x, /: svd(x, compute_uv=False), np.linalg.matrix_power: matrix_power,
    np.linalg.multi_dot: multi_dot, np.linalg.matmul: lambda x1, x2, /: matmul(x1, x2),
    np.linalg.outer: lambda x1, x2, /: outer(x1, x2), np.linalg.diagonal: linalg_diagonal,
    np.linalg.trace: linalg_trace, np.linalg.cross: linalg_cross, np.linalg.vecdot: linalg_vecdot,
    np.linalg.tensordot: lambda x1, x2, /, *, axes=2: contracted(x1, x2, axes),
    np.linalg.matrix_transpose: matrix_transpose,
    np.fft.fft: fft, np.fft.ifft: ifft, np.fft.rfft: rfft, np.fft.irfft: irfft, np.fft.fft2: fft2, np.fft.ifft2: ifft2,
    np.fft.fftn: fftn, np.fft.ifftn: ifftn, np.fft.rfft2: rfft2, np.fft.irfft2: irfft2, np.fft.rfftn: rfftn,
    np.fft.irfftn: irfftn, np.fft.fftshift: lambda x, axes=None: f.fftshift(x, axes),
    np.fft.ifftshift: lambda x, axes=None: f.ifftshift(x, axes),
}  # fmt: skip
