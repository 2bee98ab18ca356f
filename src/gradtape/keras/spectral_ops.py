"""Keras's Fourier transforms: complex values go in and out as pairs of real tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import convert_to_tensor
from gradtape.keras.math_ops import extract_sequences
from gradtape.ops import fft as engine
from gradtape.ops.elementwise import complex as complex_of, imag, real
from gradtape.ops.extending import pad, tile
from gradtape.ops.frames import overlap_and_add
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.shape import reshape

Pair = tuple[TensorLike, TensorLike]


def complex_of_pair(x: Pair) -> Tensor:
    if not isinstance(x, (tuple, list)) or len(x) != 2:
        raise ValueError(f"Input `x` should be a tuple of two tensors - real and imaginary.Received: x={x}")
    a, b = (convert_to_tensor(part) for part in x)
    if tuple(a.shape) != tuple(b.shape):
        raise ValueError(
            "Input `x` should be a tuple of two tensors - real and imaginary.Both the real and imaginary parts should have the "
            f"same shape. Received: x[0].shape = {tuple(a.shape)}, x[1].shape = {tuple(b.shape)}"
        )
    if not (a.dtype.is_floating and b.dtype.is_floating):
        raise ValueError(f"At least one tensor in input `x` is not of type float.Received: x={x}.")
    return complex_of(a, b)


def _pair(z: Tensor) -> tuple[Tensor, Tensor]:
    return real(z), imag(z)


def fft(x: Pair) -> tuple[Tensor, Tensor]:
    return _pair(engine.fft(complex_of_pair(x)))


def fft2(x: Pair) -> tuple[Tensor, Tensor]:
    return _pair(engine.fft2d(complex_of_pair(x)))


def ifft2(x: Pair) -> tuple[Tensor, Tensor]:
    return _pair(engine.ifft2d(complex_of_pair(x)))


def rfft(x: TensorLike, fft_length: int | None = None) -> tuple[Tensor, Tensor]:
    tensor = convert_to_tensor(x)
    return _pair(engine.rfft(tensor, None if fft_length is None else [fft_length]))


def irfft(x: Pair, fft_length: int | None = None) -> Tensor:
    return engine.irfft(complex_of_pair(x), None if fft_length is None else [fft_length])


def _window(window: Any, length: int, fft_length: int, dtype: Any) -> Tensor | None:
    """The window in the middle of a frame of `fft_length`."""
    before = (fft_length - length) // 2
    if window is None:
        return None
    if isinstance(window, str):
        if window not in ("hann", "hamming"):
            raise ValueError(
                f'If a string is passed to `window`, it must be one of `"hann"`, `"hamming"`. Received: window={window}'
            )
        # the periodic forms
        turn = 2.0 * np.pi * np.arange(length) / length
        values = 0.5 - 0.5 * np.cos(turn) if window == "hann" else 0.54 - 0.46 * np.cos(turn)
        shape = convert_to_tensor(values, dtype)
    else:
        shape = convert_to_tensor(window, dtype)
    if shape.ndim != 1 or shape.shape[-1] != length:
        raise ValueError(
            f"The shape of `window` must be equal to [sequence_length].Received: window shape={tuple(shape.shape)}"
        )
    return pad(shape, [[before, fft_length - length - before]])


def stft(
    x: TensorLike, sequence_length: int, sequence_stride: int, fft_length: int, window: Any = "hann", center: bool = True
) -> tuple[Tensor, Tensor]:
    tensor = convert_to_tensor(x)
    if tensor.dtype.name not in ("float32", "float64"):
        raise TypeError(f"Invalid input type. Expected `float32` or `float64`. Received: input type={tensor.dtype.name}")
    if fft_length < sequence_length:
        raise ValueError(
            "`fft_length` must equal or larger than `sequence_length`. "
            f"Received: sequence_length={sequence_length}, fft_length={fft_length}"
        )
    shape = _window(window, sequence_length, fft_length, tensor.dtype)
    if center:
        half = fft_length // 2
        tensor = pad(tensor, [[0, 0]] * (tensor.ndim - 1) + [[half, half]], "REFLECT")
    frames = extract_sequences(tensor, fft_length, sequence_stride)
    return _pair(engine.rfft(frames if shape is None else frames * shape))


def istft(
    x: Pair, sequence_length: int, sequence_stride: int, fft_length: int, length: int | None = None, window: Any = "hann",
    center: bool = True,
) -> Tensor:  # fmt: skip
    """Frames transformed back, weighted so that those which overlap add up to the signal, and added."""
    spectrum = complex_of_pair(x)
    if spectrum.ndim < 2:
        raise ValueError(f"Input `x` must have at least 2 dimensions. Received shape: {tuple(spectrum.shape)}")
    frames = engine.irfft(spectrum, [fft_length])
    count = int(frames.shape[-2])
    shape = _window(window, sequence_length, fft_length, frames.dtype)
    whole = fft_length + sequence_stride * (count - 1)
    if shape is not None:
        # what the squares of all windows over a place add up to, far from both ends
        turns = -(-fft_length // sequence_stride)
        squares = reshape(pad(shape * shape, [[0, turns * sequence_stride - fft_length]]), (turns, sequence_stride))
        frames = frames * (shape / tile(reduce_sum(squares, 0), [turns])[:fft_length])
    signal = overlap_and_add(frames, sequence_stride)
    start = fft_length // 2 if center else 0
    end = start + length if length is not None else whole - fft_length // 2 if center else whole
    return signal[..., start:end]
