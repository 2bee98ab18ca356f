"""Discrete Fourier transforms over the last one, two or three axes; leading axes are a batch.

Linear primitives whose adjoints are one another. For the real transforms only half of the spectrum is stored: an inner
element of that half stands for two of the full spectrum, the first (and, for even length, the last) for one; the adjoints
carry these weights. Lengths are fitted (cut or zero-padded) by ordinary ops before a primitive runs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, convert
from gradtape.core.opdef import Memory, Op, Sample, composite, linear
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Axes, Dims, Integers, Size, TensorLike
from gradtape.dtypes import as_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.create import static_shape
from gradtape.ops.sampling import normal
from gradtape.ops.shape import listed_axes, normal_axis


def _axes(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def points(shape: Dims, rank: int, like: Tensor) -> float | Tensor:
    """How many elements one transform works on, as a factor of `like`."""
    # Of a program that does not know its sizes the count is a dimension, and enters as a tensor.
    count = math.prod(tuple(shape)[-rank:])
    return float(count) if count.__class__ is int else cast(number_of(count), like.dtype)


def half_weights(n: Size, inner: float, spec: TensorSpec) -> Tensor | Array:
    """1 for the elements of a half spectrum of length-n data that stand for themselves, `inner` for the others."""
    if n.__class__ is not int:
        place = grid(n // 2 + 1, 0, 1)
        alone = logical_or(equal(place, 0), equal(2 * place, number_of(n)))
        return cast(where(alone, 1.0, inner), as_dtype(spec.dtype).real_dtype)
    # A real signal has X_{n-k} = conj(X_k): element k of the half stands for both, except where k = n - k (mod n): at 0 and,
    # if n is even, at n/2.
    weights = np.full(n // 2 + 1, inner, as_dtype(spec.dtype).real_dtype.dtype)
    weights[0] = 1.0
    if n % 2 == 0:
        weights[-1] = 1.0
    return weights


def _complex(x: Tensor | TensorSpec) -> str:
    return "complex64" if x.dtype.size == 4 else "complex128"


def _complex_samples() -> list[Sample]:
    return [
        Sample(normal(4, 3) + 1j * normal(4, 3), 1),
        Sample(normal(2, 3, 2) + 1j * normal(2, 3, 2), 2),
        Sample(normal(2, 3, 2) + 1j * normal(2, 3, 2), 3),
        Sample(normal(0, 3) + 0j, 1),
        Sample(normal(3) + 0j, 2, raises=(ValueError, "rank")),
    ]


# -- the primitives: `rank` is the number of transformed axes ------------------------------------------------------------

# F is unnormalised and symmetric: Fᴴ = n·F⁻¹
FFT: Op = linear(
    "fft", "x",
    lambda x, *, rank: np.fft.fftn(x, axes=_axes(rank)),
    lambda ct, rank: apply(IFFT, ct, rank=rank) * points(ct.shape, rank, ct),
    infer=inference.same, batch=batching.leading,
    call=lambda x, rank: (fft, fft2d, fft3d)[rank - 1](x),
    memory=Memory.FRESH, samples=_complex_samples,
)  # fmt: skip
IFFT: Op = linear(
    "ifft", "x",
    lambda x, *, rank: np.fft.ifftn(x, axes=_axes(rank)),
    lambda ct, rank: apply(FFT, ct, rank=rank) * (1.0 / points(ct.shape, rank, ct)),
    infer=inference.same, batch=batching.leading,
    call=lambda x, rank: (ifft, ifft2d, ifft3d)[rank - 1](x),
    memory=Memory.FRESH, samples=_complex_samples,
)  # fmt: skip
# x̄_j = Re Σ_k ct_k e^{2πi jk/n} over the half spectrum; n·irfft counts inner elements twice
RFFT: Op = linear(
    "rfft", "x",
    lambda x, *, rank: np.fft.rfftn(x, axes=_axes(rank)),
    lambda ct, x_spec, rank: (
        apply(IRFFT, ct * half_weights(x_spec.shape[-1], 0.5, ct), rank=rank, length=x_spec.shape[-1])
        * points(x_spec.shape, rank, x_spec)
    ),
    infer=lambda x, *, rank: TensorSpec((*x.shape[:-1], x.shape[-1] // 2 + 1), _complex(x)),
    batch=batching.leading,
    call=lambda x, rank: _real_transform(x, None, rank, "rfft"),
    memory=Memory.FRESH,
    samples=lambda: [
        Sample(normal(2, 6), 1),
        Sample(normal(5), 1),
        Sample(normal(2, 3, 4), 2),
        Sample(normal(3, 2, 3), 3),
        Sample(normal(1), 1),
        Sample(normal(3, 2), 1),
        Sample(normal(3) + 0j, 1, raises=(ValueError, "real")),
    ],
)  # fmt: skip
# The adjoint of the above: inner elements of the half spectrum act twice on the result, so they get twice the cotangent.
IRFFT: Op = linear(
    "irfft", "x",
    lambda x, *, rank, length: np.fft.irfftn(x, s=(*x.shape[-rank:-1], length), axes=_axes(rank)),
    lambda ct, x_spec, rank, length: (
        apply(RFFT, ct, rank=rank) * half_weights(length, 2.0, x_spec) * (1.0 / points(ct.shape, rank, ct))
    ),
    infer=lambda x, *, rank, length: TensorSpec((*x.shape[:-1], length), x.dtype.real_dtype),
    batch=batching.leading,
    memory=Memory.FRESH,
    samples=lambda: [
        Sample(normal(2, 4) + 1j * normal(2, 4), 1, 6),
        Sample(normal(2, 4) + 1j * normal(2, 4), 1, 7),
        Sample(normal(3, 3) + 1j * normal(3, 3), 2, 4),
        Sample(normal(2, 3, 2) + 1j * normal(2, 3, 2), 3, 3),
        Sample(normal(1) + 1j * normal(1), 1, 1),
    ],
)  # fmt: skip

# -- lengths -----------------------------------------------------------------------------------------------------------


def _checked(x: TensorLike, rank: int, op: str) -> Tensor:
    x = floating(x)
    if x.ndim < rank:
        raise InvalidArgumentError(f"{op}: the input needs rank {rank} or more, got shape {tuple(x.shape)}")
    # NumPy has no transforms of half precision.
    if x.dtype.size < 4:
        x = cast(x, "float32")
    return x


def _transform(op: Op, x: TensorLike, rank: int, name: str) -> Tensor:
    x = _checked(x, rank, name)
    return apply(op, x if x.dtype.is_complex else cast(x, _complex(x)), rank=rank)


def _lengths(fft_length: Integers | None, rank: int, op: str) -> tuple[Any, ...] | None:
    if fft_length is None:
        return None
    lengths = static_shape(fft_length)
    if len(lengths) != rank or any(n < 1 for n in lengths):
        raise InvalidArgumentError(f"{op}: fft_length needs {rank} positive numbers, got {list(lengths)}")
    return lengths


def fitted(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    """The last axes cut or zero-padded to these sizes."""
    have = tuple(int(d) for d in x.shape)[-len(sizes) :]
    lead = x.ndim - len(sizes)
    if any(h > n for h, n in zip(have, sizes, strict=True)):
        cut: Any = (..., *(slice(0, min(h, n)) for h, n in zip(have, sizes, strict=True)))
        x = x[cut]
    if any(h < n for h, n in zip(have, sizes, strict=True)):
        x = pad(x, [(0, 0)] * lead + [(0, max(n - h, 0)) for h, n in zip(have, sizes, strict=True)])
    return x


def _real_transform(x: TensorLike, fft_length: Integers | None, rank: int, op: str) -> Tensor:
    x = _checked(x, rank, op)
    if x.dtype.is_complex:
        raise InvalidArgumentError(f"{op}: the input must be real, got dtype {x.dtype.name}; use the complex transform")
    lengths = _lengths(fft_length, rank, op)
    return apply(RFFT, x if lengths is None else fitted(x, lengths), rank=rank)


def _inverse_real_transform(x: TensorLike, fft_length: Integers | None, rank: int, op: str) -> Tensor:
    x = _checked(x, rank, op)
    if not x.dtype.is_complex:
        x = cast(x, _complex(x))
    lengths = _lengths(fft_length, rank, op)
    if lengths is None:
        # Half a spectrum does not tell an even length from an odd one; even is everybody's convention.
        lengths = (*tuple(x.shape)[x.ndim - rank : -1], 2 * (x.shape[-1] - 1))
        if lengths[-1] < 1:
            raise InvalidArgumentError(f"{op}: a half spectrum of shape {tuple(x.shape)} needs an explicit fft_length")
    x = fitted(x, (*lengths[:-1], lengths[-1] // 2 + 1))
    return apply(IRFFT, x, rank=rank, length=lengths[-1])


# -- the public functions ----------------------------------------------------------------------------------------------


def fft(input: TensorLike, name: str | None = None) -> Tensor:
    """Fourier transform over the last axis: out_k = Σ_j x_j exp(-2πi jk/n). Real input becomes complex.

    >>> gt.signal.fft([1.0, 0.0]).numpy()
    array([1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _transform(FFT, input, 1, "fft")


def ifft(input: TensorLike, name: str | None = None) -> Tensor:
    """Inverse of `fft`.

    >>> gt.signal.ifft([2.0, 0.0]).numpy()
    array([1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _transform(IFFT, input, 1, "ifft")


def fft2d(input: TensorLike, name: str | None = None) -> Tensor:
    """Fourier transform over the last two axes.

    >>> gt.signal.fft2d(gt.ones((2, 2), gt.complex64)).shape
    TensorShape([2, 2])
    """
    return _transform(FFT, input, 2, "fft2d")


def ifft2d(input: TensorLike, name: str | None = None) -> Tensor:
    """Inverse of `fft2d`.

    >>> gt.signal.ifft2d(gt.ones((2, 2), gt.complex64)).shape
    TensorShape([2, 2])
    """
    return _transform(IFFT, input, 2, "ifft2d")


def fft3d(input: TensorLike, name: str | None = None) -> Tensor:
    """Fourier transform over the last three axes.

    >>> gt.signal.fft3d(gt.ones((2, 2, 2), gt.complex64)).shape
    TensorShape([2, 2, 2])
    """
    return _transform(FFT, input, 3, "fft3d")


def ifft3d(input: TensorLike, name: str | None = None) -> Tensor:
    """Inverse of `fft3d`.

    >>> gt.signal.ifft3d(gt.ones((2, 2, 2), gt.complex64)).shape
    TensorShape([2, 2, 2])
    """
    return _transform(IFFT, input, 3, "ifft3d")


@composite(
    samples=lambda: [
        Sample(normal(2, 5)),
        Sample(normal(2, 5), 8),
        Sample(normal(6), [3]),
        Sample(normal(4), 0, raises=(ValueError, "positive")),
    ]
)
def rfft(input_tensor: TensorLike, fft_length: Integers | None = None, name: str | None = None) -> Tensor:
    """Fourier transform of real data over the last axis: the n//2 + 1 elements that determine the rest.

    >>> gt.signal.rfft([1.0, 0.0, 0.0]).numpy()
    array([1.+0.j, 1.+0.j], dtype=complex64)
    """
    return _real_transform(input_tensor, fft_length, 1, "rfft")


@composite(
    samples=lambda: [
        Sample(normal(2, 4) + 1j * normal(2, 4)),
        Sample(normal(2, 4) + 1j * normal(2, 4), [7]),
        Sample(normal(3) + 1j * normal(3), 9),
        Sample(normal(4) + 1j * normal(4), 3),
        Sample(normal(1) + 0j, raises=(ValueError, "fft_length")),
    ]
)
def irfft(input_tensor: TensorLike, fft_length: Integers | None = None, name: str | None = None) -> Tensor:
    """Inverse of `rfft`; `fft_length` (default 2·(m - 1)) says whether the data had even or odd length.

    >>> gt.signal.irfft([1.0, 1.0], fft_length=[3]).numpy()
    array([1., 0., 0.], dtype=float32)
    """
    return _inverse_real_transform(input_tensor, fft_length, 1, "irfft")


@composite(samples=lambda: [Sample(normal(3, 4)), Sample(normal(2, 3, 3), [2, 5])])
def rfft2d(input_tensor: TensorLike, fft_length: Integers | None = None, name: str | None = None) -> Tensor:
    """Fourier transform of real data over the last two axes."""
    return _real_transform(input_tensor, fft_length, 2, "rfft2d")


@composite(samples=lambda: [Sample(normal(3, 3) + 1j * normal(3, 3)), Sample(normal(2, 2) + 1j * normal(2, 2), [3, 5])])
def irfft2d(input_tensor: TensorLike, fft_length: Integers | None = None, name: str | None = None) -> Tensor:
    """Inverse of `rfft2d`."""
    return _inverse_real_transform(input_tensor, fft_length, 2, "irfft2d")


@composite(samples=lambda: [Sample(normal(2, 3, 4))])
def rfft3d(input_tensor: TensorLike, fft_length: Integers | None = None, name: str | None = None) -> Tensor:
    """Fourier transform of real data over the last three axes."""
    return _real_transform(input_tensor, fft_length, 3, "rfft3d")


@composite(samples=lambda: [Sample(normal(2, 2, 3) + 1j * normal(2, 2, 3))])
def irfft3d(input_tensor: TensorLike, fft_length: Integers | None = None, name: str | None = None) -> Tensor:
    """Inverse of `rfft3d`."""
    return _inverse_real_transform(input_tensor, fft_length, 3, "irfft3d")


def _shifted(x: TensorLike, axes: Axes, sign: int, op: str) -> Tensor:
    x = convert(x)
    places = [normal_axis(a, x.ndim, op) for a in (range(x.ndim) if axes is None else listed_axes(axes))]
    return roll(x, [sign * (x.shape[a] // 2) for a in places], places)


@composite(samples=lambda: [Sample(normal(5)), Sample(normal(2, 4), [1])])
def fftshift(x: TensorLike, axes: Axes = None, name: str | None = None) -> Tensor:
    """The zero frequency moved to the centre.

    >>> gt.signal.fftshift([0.0, 1.0, -1.0]).numpy()
    array([-1.,  0.,  1.], dtype=float32)
    """
    return _shifted(x, axes, 1, "fftshift")


@composite(samples=lambda: [Sample(normal(5)), Sample(normal(2, 4), [1])])
def ifftshift(x: TensorLike, axes: Axes = None, name: str | None = None) -> Tensor:
    """Inverse of `fftshift`.

    >>> gt.signal.ifftshift([-1.0, 0.0, 1.0]).numpy()
    array([ 0.,  1., -1.], dtype=float32)
    """
    return _shifted(x, axes, -1, "ifftshift")


OPS = (FFT, IFFT, RFFT, IRFFT)

from gradtape.ops.activations import floating
from gradtape.ops.compare import equal, logical_or
from gradtape.ops.create import grid
from gradtape.ops.elementwise import cast
from gradtape.ops.extending import pad
from gradtape.ops.select import where
from gradtape.ops.shape import roll
from gradtape.ops.staged import number_of

__all__ = [
    "fft", "fft2d", "fft3d", "fftshift", "ifft", "ifft2d", "ifft3d", "ifftshift", "irfft", "irfft2d", "irfft3d", "rfft",
    "rfft2d", "rfft3d",
]  # fmt: skip
