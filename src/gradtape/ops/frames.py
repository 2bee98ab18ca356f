"""Signals in overlapping frames: framing, overlap-add, short-time Fourier transforms, the windows they use, and the
cosine transforms. All are composites of gathers, sums and Fourier transforms, so derivatives come by themselves.

Lengths of frames, steps and transforms are Python numbers; the length of the signal may be known at run time only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core.arguments import (
    floating_dtype,
    function_of,
    numeric,
    of_rank,
    option,
    real_floats,
    real_number,
    real_numbers,
    whole,
)
from gradtape.core.dispatch import convert
from gradtape.core.opdef import Sample, composite
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Integer, TensorLike
from gradtape.dtypes import DTypeLike, float32
from gradtape.errors import InvalidArgumentError
from gradtape.ops.sampling import normal

Window = Callable[..., Any]  # window(length, dtype=...) -> tensor


# -- frames --------------------------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(normal(7), 3, 2),
        Sample(normal(2, 7), 3, 2, True, 0.5),
        Sample(normal(6, 2), 2, 3, axis=0),
        Sample(normal(2), 3, 1),
        Sample(normal(5), 0, 1, raises=(ValueError, "frame_length")),
        Sample(normal(5), 2, 0, raises=(ValueError, "frame_step")),
        Sample(normal(), 2, 1, raises=(ValueError, "rank")),
    ]
)
def frame(
    signal: TensorLike, frame_length: Integer, frame_step: Integer, pad_end: bool = False, pad_value: TensorLike = 0,
    axis: int = -1, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The windows of `frame_length` elements along an axis, one every `frame_step`: that axis becomes (frames, elements).

    With `pad_end` the last frames are filled up with `pad_value`, and every element begins or is in some frame.

    >>> gt.signal.frame([1.0, 2.0, 3.0, 4.0], frame_length=2, frame_step=1).numpy().tolist()
    [[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]]
    """
    x = of_rank(numeric(signal, "signal", "frame"), 1, "signal", "frame")
    length, step = whole(frame_length, "frame_length", "frame", least=1), whole(frame_step, "frame_step", "frame", least=1)
    pad_value = of_rank(numeric(pad_value, "pad_value", "frame", x.dtype), 0, "pad_value", "frame", most=0)
    place = normal_axis(axis, x.ndim, "frame")
    size = x.shape[place]
    if pad_end:
        count = -(-size // step)
        # (negative if steps are longer than frames: then the last frame ends before the signal does)
        missing = (count - 1) * step + length - size
        if missing.__class__ is not int or missing > 0:
            more = maximum(number_of(missing), 0) if missing.__class__ is not int else missing
            x = pad(x, [(0, more if i == place else 0) for i in range(x.ndim)], constant_values=pad_value)
    else:
        count = (size - length) // step + 1
        if count.__class__ is int:
            count = max(count, 0)
    places = grid(count, 0, 2) * step + grid(length, 1, 2)
    return gather(x, places, axis=place)


@composite(
    samples=lambda: [
        Sample(normal(3, 4), 2),
        Sample(normal(2, 3, 4), 3),
        Sample(normal(3, 2), 3),
        Sample(normal(1, 4), 4),
        Sample(normal(2, 1), 1),
        Sample(normal(4), 1, raises=(ValueError, "rank 2")),
        Sample(normal(2, 3), 0, raises=(ValueError, "frame_step")),
    ]
)
def overlap_and_add(signal: TensorLike, frame_step: Integer, name: str | None = None) -> Tensor:
    """The signal whose frames (…, frames, frame_length), one every `frame_step`, add up where they overlap.

    >>> gt.signal.overlap_and_add([[1.0, 2.0], [10.0, 20.0]], frame_step=1).numpy()
    array([ 1., 12., 20.], dtype=float32)
    """
    x = of_rank(numeric(signal, "signal", "overlap_and_add"), 2, "signal", "overlap_and_add")
    step = whole(frame_step, "frame_step", "overlap_and_add", least=1)
    *lead, frames, length = x.shape
    # each frame is cut into pieces of one step: piece p of frame f belongs to place f + p, so after the pieces are put
    # one under the other, each shifted by its number, a sum over pieces is all there is to do
    pieces = -(-length // step)
    x = pad(x, [(0, 0)] * (len(lead) + 1) + [(0, pieces * step - length)])
    x = _swapped(reshape(x, (*lead, frames, pieces, step)), -3, -2)
    x = pad(x, [(0, 0)] * (len(lead) + 1) + [(0, pieces), (0, 0)])
    flat = reshape(x, (*lead, pieces * (frames + pieces), step))[..., : pieces * (frames + pieces - 1), :]
    total = reduce_sum(reshape(flat, (*lead, pieces, frames + pieces - 1, step)), -3)
    return reshape(total, (*lead, (frames + pieces - 1) * step))[..., : (frames - 1) * step + length]


def _swapped(x: Tensor, first: int, second: int) -> Tensor:
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return transpose(x, order)


# -- windows -------------------------------------------------------------------------------------------------------------


def _raised_cosine(window_length: Integer, periodic: bool, dtype: DTypeLike, a: float, op: str) -> Tensor:
    """a - (1 - a)·cos over one period."""
    length = whole(window_length, "window_length", op, least=1)
    periodic = option(periodic, "periodic", op, (True, False))
    if length == 1:
        return _window(np.ones(1), dtype, op)
    # a periodic window of even length is the symmetric one of length + 1 without its last element
    span = length - 1 + (1 if periodic and length % 2 == 0 else 0)
    return _window(a - (1.0 - a) * np.cos(2.0 * math.pi * np.arange(length) / span), dtype, op)


def _window(values: Array, dtype: DTypeLike, op: str) -> Tensor:
    return convert(values.astype(floating_dtype(dtype, "dtype", op).dtype))


def hann_window(window_length: Integer, periodic: bool = True, dtype: DTypeLike = float32, name: str | None = None) -> Tensor:
    """The Hann window, (1 - cos)/2.

    >>> gt.signal.hann_window(4).numpy()
    array([0. , 0.5, 1. , 0.5], dtype=float32)
    """
    return _raised_cosine(window_length, periodic, dtype, 0.5, "hann_window")


def hamming_window(
    window_length: Integer, periodic: bool = True, dtype: DTypeLike = float32, name: str | None = None
) -> Tensor:
    """The Hamming window, 0.54 - 0.46 cos.

    >>> gt.signal.hamming_window(4).numpy()
    array([0.08, 0.54, 1.  , 0.54], dtype=float32)
    """
    return _raised_cosine(window_length, periodic, dtype, 0.54, "hamming_window")


def kaiser_window(window_length: Integer, beta: float = 12.0, dtype: DTypeLike = float32, name: str | None = None) -> Tensor:
    """The Kaiser window, a ratio of Bessel functions; `beta` trades the main lobe's width for low side lobes.

    >>> gt.signal.kaiser_window(3, beta=0.0).numpy()
    array([1., 1., 1.], dtype=float32)
    """
    op = "kaiser_window"
    length = whole(window_length, "window_length", op, least=1)
    return _window(np.kaiser(length, real_number(beta, "beta", op)), dtype, op)


def kaiser_bessel_derived_window(
    window_length: Integer, beta: float = 12.0, dtype: DTypeLike = float32, name: str | None = None
) -> Tensor:
    """The Kaiser-Bessel derived window of even length: its squares at distance half a window add up to 1.

    >>> w = gt.signal.kaiser_bessel_derived_window(4).numpy()
    >>> round(float(w[0] ** 2 + w[2] ** 2), 5)
    1.0
    """
    op = "kaiser_bessel_derived_window"
    length = whole(window_length, "window_length", op, least=1)
    if length % 2:
        raise InvalidArgumentError(f"{op}: window_length must be even, got {length}")
    sums = np.cumsum(np.kaiser(length // 2 + 1, real_number(beta, "beta", op)))
    half = np.sqrt(sums[:-1] / sums[-1])
    return _window(np.concatenate([half, half[::-1]]), dtype, op)


def vorbis_window(window_length: Integer, dtype: DTypeLike = float32, name: str | None = None) -> Tensor:
    """The window of the Vorbis audio format: sin(π/2 · sin²).

    >>> gt.signal.vorbis_window(2).numpy().round(4)
    array([0.7071, 0.7071], dtype=float32)
    """
    length = whole(window_length, "window_length", "vorbis_window", least=1)
    return _window(np.sin(math.pi / 2 * np.sin(math.pi * (np.arange(length) + 0.5) / length) ** 2), dtype, "vorbis_window")


# -- short-time Fourier transforms ---------------------------------------------------------------------------------------


def _frame_sizes(frame_length: Integer, frame_step: Integer, fft_length: Integer | None, op: str) -> tuple[int, int, int]:
    """Length and step of frames, and of their transforms: by default the next power of two."""
    length, step = whole(frame_length, "frame_length", op, least=1), whole(frame_step, "frame_step", op, least=1)
    points = 1 << (length - 1).bit_length() if fft_length is None else whole(fft_length, "fft_length", op, least=1)
    return length, step, points


def _window_of(window_fn: Callable[..., Any], length: int, dtype: DTypeLike, argument: str, op: str) -> Tensor:
    """The window that the user's function makes."""
    window = real_numbers(function_of(window_fn, argument, op)(length, dtype=dtype), f"the result of {argument}", op, dtype)
    if tuple(window.shape) != (length,):
        raise InvalidArgumentError(f"{op}: {argument} must give windows of shape {(length,)}, got {tuple(window.shape)}")
    return window


@composite(
    samples=lambda: [
        Sample(normal(12), 4, 2),
        Sample(normal(2, 9), 4, 3, 5, None),
        Sample(normal(7), 4, 2, pad_end=True),
        Sample(normal(7) + 0j, 4, 2, raises=(ValueError, "real")),
    ]
)
def stft(
    signals: TensorLike, frame_length: Integer, frame_step: Integer, fft_length: Integer | None = None,
    window_fn: Window | None = hann_window, pad_end: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The Fourier transforms of windowed frames of real signals: (…, samples) becomes (…, frames, fft_length//2 + 1).

    >>> gt.signal.stft(gt.ones(16), frame_length=8, frame_step=4).shape
    TensorShape([3, 5])
    """
    op = "stft"
    x = of_rank(real_floats(signals, "signals", op), 1, "signals", op)
    length, step, points = _frame_sizes(frame_length, frame_step, fft_length, op)
    framed = frame(x, length, step, pad_end)
    if window_fn is not None:
        framed = framed * _window_of(window_fn, length, x.dtype, "window_fn", op)
    return rfft(framed, [points])


def inverse_stft_window_fn(frame_step: Integer, forward_window_fn: Window = hann_window, name: str | None = None) -> Window:
    """The window with which `inverse_stft` undoes `stft` exactly.

    >>> x = gt.range(16.0)
    >>> inverse = gt.signal.inverse_stft_window_fn(4)
    >>> y = gt.signal.inverse_stft(gt.signal.stft(x, 8, 4), 8, 4, window_fn=inverse)
    >>> y.numpy()[4:12].round(3)
    array([ 4.,  5.,  6.,  7.,  8.,  9., 10., 11.], dtype=float32)
    """
    op = "inverse_stft_window_fn"
    step = whole(frame_step, "frame_step", op, least=1)
    function_of(forward_window_fn, "forward_window_fn", op)

    def inverse_window(frame_length: Integer, dtype: DTypeLike = float32) -> Tensor:
        length = whole(frame_length, "frame_length", op, least=1)
        window = _window_of(forward_window_fn, length, floating_dtype(dtype, "dtype", op), "forward_window_fn", op)
        forward = np.asarray(window.numpy(), np.float64)
        pieces = -(-length // step)
        squares = np.zeros(pieces * step)
        squares[:length] = forward**2
        # each sample is in `pieces` frames: what their squared windows add up to at its place is divided out
        weight = np.tile(squares.reshape(pieces, step).sum(0), pieces)[:length]
        return _window(np.divide(forward, weight, out=np.zeros(length), where=weight > 0), dtype, op)

    return inverse_window


@composite(
    samples=lambda: [
        Sample(normal(3, 3) + 1j * normal(3, 3), 4, 2),
        Sample(normal(2, 3, 5) + 1j * normal(2, 3, 5), 6, 3, 8, None),
        Sample(normal(3) + 0j, 4, 2, raises=(ValueError, "rank 2")),
    ]
)
def inverse_stft(
    stfts: TensorLike, frame_length: Integer, frame_step: Integer, fft_length: Integer | None = None,
    window_fn: Window | None = hann_window, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Signals from short-time Fourier transforms: the windowed inverse transforms of the frames, overlapping, added up."""
    op = "inverse_stft"
    x = of_rank(numeric(stfts, "stfts", op), 2, "stfts", op)
    if not x.dtype.is_complex:
        raise InvalidArgumentError(f"{op}: stfts must be complex, got dtype {x.dtype.name}")
    length, step, points = _frame_sizes(frame_length, frame_step, fft_length, op)
    frames = irfft(x, [points])
    frames = frames[..., :length] if points >= length else pad(frames, [(0, 0)] * (x.ndim - 1) + [(0, length - points)])
    if window_fn is not None:
        frames = frames * _window_of(window_fn, length, frames.dtype, "window_fn", op)
    return overlap_and_add(frames, step)


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20, num_spectrogram_bins: int = 129, sample_rate: float = 8000, lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0, dtype: DTypeLike = float32, name: str | None = None,
) -> Tensor:  # fmt: skip
    """The matrix (spectrogram bins, mel bins) of overlapping triangles on the mel scale; the zero frequency has none.

    >>> gt.signal.linear_to_mel_weight_matrix(4, 9).shape
    TensorShape([9, 4])
    """
    op = "linear_to_mel_weight_matrix"
    bins = whole(num_mel_bins, "num_mel_bins", op, least=1)
    spectrum = whole(num_spectrogram_bins, "num_spectrogram_bins", op, least=1)
    sample_rate = real_number(sample_rate, "sample_rate", op)
    lower_edge_hertz = real_number(lower_edge_hertz, "lower_edge_hertz", op)
    upper_edge_hertz = real_number(upper_edge_hertz, "upper_edge_hertz", op)
    if not 0.0 <= lower_edge_hertz < upper_edge_hertz <= sample_rate / 2:
        raise InvalidArgumentError(
            f"{op}: needs 0 <= lower_edge_hertz < upper_edge_hertz <= sample_rate/2, got {lower_edge_hertz}, "
            f"{upper_edge_hertz} and sample_rate {sample_rate}"
        )

    def mel(hertz: Array | float) -> Array:
        return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)

    places = mel(np.linspace(0.0, sample_rate / 2, spectrum))[1:, None]
    edges = np.linspace(mel(lower_edge_hertz), mel(upper_edge_hertz), bins + 2)
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    weights = np.maximum(0.0, np.minimum((places - low) / (centre - low), (high - places) / (high - centre)))
    return _window(np.concatenate([np.zeros((1, bins)), weights]), dtype, op)


# -- cosine transforms ---------------------------------------------------------------------------------------------------


@functools.cache
def _turn(count: int, sign: int) -> Array:
    """2·exp(±iπk/2n), k = 0 … n-1: half a sample's shift between a cosine transform and a Fourier transform of 2n."""
    return 2.0 * np.exp(sign * 0.5j * math.pi * np.arange(count) / count)


def _ortho(count: int) -> Array:
    """What makes the second cosine transform orthogonal."""
    weights = np.full(count, math.sqrt(0.5 / count))
    weights[0] = 0.5 / math.sqrt(count)
    return weights


def _cosine(x: Tensor, type: int, norm: str | None) -> Tensor:
    count = x.shape[-1]
    real: Any = x.dtype.dtype
    turning = "complex64" if x.dtype.size == 4 else "complex128"
    if type == 1:  # of the signal mirrored at both ends
        return real_part(rfft(concat([x, reverse(x, [-1])[..., 1:-1]], -1)))
    if type == 2:
        out = real_part(rfft(x, [2 * count])[..., :count] * _turn(count, -1).astype(turning))
        return out * _ortho(count).astype(real) if norm else out
    if type == 3:
        x = x * (0.5 / _ortho(count)).astype(real) if norm else x * float(count)
        return irfft(cast(x, turning) * _turn(count, 1).astype(turning), [2 * count])[..., :count]
    # type 4: the odd coefficients of the second transform of twice the length
    out = _cosine(pad(x, [(0, 0)] * (x.ndim - 1) + [(0, count)]), 2, None)[..., 1::2]
    return out * math.sqrt(0.5 / count) if norm else out


def _kind(type: int, op: str) -> int:
    """Which of the four cosine transforms."""
    number: int = option(whole(type, "type", op), "type", op, (1, 2, 3, 4))
    return number


@composite(
    samples=lambda: [
        *(Sample(normal(2, 5), t) for t in (1, 2, 3, 4)),
        *(Sample(normal(4), t, None, -1, "ortho") for t in (2, 3, 4)),
        Sample(normal(3, 2), 2, 4, 0),
        Sample(normal(5), 2, 3),
        Sample(normal(4), 5, raises=(ValueError, "type")),
        Sample(normal(4), 1, None, -1, "ortho", raises=(ValueError, "type 1")),
        Sample(normal(1), 1, raises=(ValueError, "two")),
        Sample(normal(4), 2, None, -1, "unit", raises=(ValueError, "norm")),
    ]
)
def dct(
    input: TensorLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The cosine transform of type 1, 2, 3 or 4 along an axis, as `scipy.fft.dct`; `n` cuts or zero-pads the axis first.

    >>> gt.signal.dct([1.0, 2.0, 3.0], norm="ortho").numpy().round(3)
    array([ 3.464, -1.414,  0.   ], dtype=float32)
    """
    return _transformed(input, _kind(type, "dct"), n, axis, norm, "dct")


def _transformed(input: TensorLike, type: int, n: int | None, axis: int, norm: str | None, op: str) -> Tensor:
    option(norm, "norm", op, (None, "ortho"))
    if type == 1 and norm:
        raise InvalidArgumentError(f"{op}: norm must be None for the transform of type 1, which has no orthogonal form")
    x = of_rank(real_floats(input, "input", op), 1, "input", op)
    # (NumPy's transforms know no half precision)
    if x.dtype.size < 4:
        x = cast(x, "float32")
    place = normal_axis(axis, x.ndim, op)
    x = x if place == x.ndim - 1 else _swapped(x, place, -1)
    if n is not None:
        x = fitted(x, (whole(n, "n", op, least=1),))
    count, least = x.shape[-1], 2 if type == 1 else 1
    if count.__class__ is not int:
        raise InvalidArgumentError(f"{op}: the length of the transformed axis must be known while tracing; give n")
    if count < least:
        raise InvalidArgumentError(
            f"{op}: the transform of type {type} needs an input of at least {('one element', 'two elements')[least - 1]}, got "
            f"{count} along axis {place}"
        )
    out = _cosine(x, type, norm)
    return out if place == x.ndim - 1 else _swapped(out, place, -1)


@composite(samples=lambda: [*(Sample(normal(2, 4), t) for t in (1, 2, 3, 4)), Sample(normal(4), 2, norm="ortho")])
def idct(
    input: TensorLike, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The inverse of `dct`: up to a factor of 2·n (type 1: 2·(n - 1)) without norm, exactly with norm="ortho".

    >>> gt.signal.idct(gt.signal.dct([1.0, 2.0], norm="ortho"), norm="ortho").numpy().round(4)
    array([1., 2.], dtype=float32)
    """
    return _transformed(input, {1: 1, 2: 3, 3: 2, 4: 4}[_kind(type, "idct")], n, axis, norm, "idct")


from gradtape.ops.create import grid
from gradtape.ops.elementwise import cast, real as real_part
from gradtape.ops.extending import pad
from gradtape.ops.fft import fitted, irfft, rfft
from gradtape.ops.index import gather
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.select import maximum
from gradtape.ops.shape import concat, normal_axis, reshape, reverse, transpose
from gradtape.ops.staged import number_of

__all__ = [
    "dct", "frame", "hamming_window", "hann_window", "idct", "inverse_stft", "inverse_stft_window_fn",
    "kaiser_bessel_derived_window", "kaiser_window", "linear_to_mel_weight_matrix", "overlap_and_add", "stft", "vorbis_window",
]  # fmt: skip
