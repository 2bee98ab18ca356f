"""How tensors are found by code written for the Python array API standard, `t.__array_namespace__()`, and exchanged.

The namespace itself is the module `gradtape.array_api`, made of the functions in `interop/standard/`; the package says how
to load it, at first use.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

from gradtape.core.conversion import created
from gradtape.core.dispatch import convert
from gradtape.core.dlpack import imported
from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.ops.stop import identity

DEVICE = "/CPU:0"
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


class SupportsDlpack(Protocol):
    """An array of any library that speaks DLPack."""

    def __dlpack__(self, /, *, stream: None = ...) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


def array_namespace(self: Tensor | Readable, /, *, api_version: str | None = None) -> ModuleType:
    """Tensor.__array_namespace__: the namespace of the array API standard."""
    if api_version is not None and api_version not in VERSIONS:
        raise ValueError(f"array API version {api_version!r} is not supported; the newest is {VERSIONS[-1]}")
    return import_module("gradtape.array_api")  # a public namespace, made of what this room has


def check_device(device: object) -> None:
    """There is one device, the CPU."""
    if device is not None and device != DEVICE:
        raise ValueError(f"device {device!r} is not known; gradtape has {DEVICE!r} only")


def to_device(self: Tensor | Readable, device: object, /, *, stream: object = None) -> Any:
    """Tensor.to_device: the tensor itself, there is one device."""
    check_device(device)
    if stream is not None:
        raise ValueError(f"to_device: stream must be None, the CPU has no streams; got {stream!r}")
    return convert(self)


def from_dlpack(x: SupportsDlpack, /, *, device: object = None, copy: bool | None = None) -> Tensor:
    """A tensor with the values of an array of any library that speaks DLPack: NumPy, PyTorch, JAX, bfloat16 too.

    They are copied, so that later changes of `x` cannot change a gradient. With `copy=False` the tensor has the memory of `x`:
    then leave `x` as it is while the tensor, or a tape that saw it, is in use.

    >>> import numpy as np
    >>> gt.from_dlpack(np.arange(3.0)).numpy()
    array([0., 1., 2.])
    """
    check_device(device)
    if isinstance(x, (Tensor, Readable)):
        return identity(convert(x))
    array = imported(x, copy=copy)
    return created(box(array if array.ndim else array[()], HOOKS.array_kind))
