"""The extension `fft`: discrete Fourier transforms along axes, in the precision of their input."""

# ruff: noqa: D103  (each function does what the array API standard documents under its name)

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.core.arguments import floating_dtype, numeric, real_number, whole
from gradtape.core.typing import DTypeLike, TensorLike
from gradtape.dtypes import float32
from gradtape.errors import InvalidArgumentError
from gradtape.interop import numpy_linalg as rules
from gradtape.interop.array_namespace import check_device
from gradtape.ops import elementwise as e, fft as transforms
from gradtape.ops.create import constant

_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def _along(rule: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's transform along one axis, with the standard's signature."""

    def function(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return rule(x, n, axis, norm)

    function.__name__ = function.__qualname__ = rule.__name__
    return function


def _over(rule: Callable[..., Any], name: str) -> Callable[..., Any]:
    """NumPy's transform over several axes, with the standard's signature."""

    def function(
        x: TensorLike, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
    ) -> Any:
        return rule(x, s, axes, norm)

    function.__name__ = function.__qualname__ = name
    return function


fft, ifft, rfft, irfft = map(_along, (rules.fft, rules.ifft, rules.rfft, rules.irfft))
fftn, ifftn = _over(rules.fftn, "fftn"), _over(rules.ifftn, "ifftn")
rfftn, irfftn = _over(rules.rfftn, "rfftn"), _over(rules.irfftn, "irfftn")


def hfft(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """The transform of a signal that is Hermitian, given by its first half: irfft of the conjugate, scaled the other way."""
    return rules.irfft(e.conj(numeric(x, "x", "hfft")), n, axis, _opposite(norm))


def ihfft(x: TensorLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    return e.conj(rules.rfft(x, n, axis, _opposite(norm)))


def _opposite(norm: str) -> str:
    if norm not in _OPPOSITE:
        raise ValueError(f"fft: norm must be 'backward', 'ortho' or 'forward', got {norm!r}")
    return _OPPOSITE[norm]


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: object = None) -> Any:
    return _frequencies(np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: object = None) -> Any:
    return _frequencies(np.fft.rfftfreq, n, d, dtype, device)


def _frequencies(rule: Callable[..., np.ndarray], n: int, d: float, dtype: DTypeLike | None, device: object) -> Any:
    op = rule.__name__
    check_device(device)
    length, spacing = whole(n, "n", op, least=1), real_number(d, "d", op)
    if spacing == 0.0:
        raise InvalidArgumentError(f"{op}: d must not be zero")
    return constant(rule(length, spacing).astype(floating_dtype(float32 if dtype is None else dtype, "dtype", op).dtype))


def fftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Any:
    return transforms.fftshift(x, axes)


def ifftshift(x: TensorLike, /, *, axes: int | Sequence[int] | None = None) -> Any:
    return transforms.ifftshift(x, axes)


__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq",
    "rfftn",
]  # fmt: skip


def __dir__() -> list[str]:  # completion offers no more
    return __all__
