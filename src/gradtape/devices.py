"""The machine as TensorFlow's programs ask for it through `gt.config`: one CPU, no accelerators.

Questions get honest answers; settings that can only be about other devices are accepted where they say what is so anyway, and
refused where they ask for something that is not there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class PhysicalDevice(NamedTuple):
    """A device of this machine."""

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that programs run on."""

    name: str
    device_type: str


_CPU = PhysicalDevice("/physical_device:CPU:0", "CPU")
_LOGICAL_CPU = LogicalDevice("/device:CPU:0", "CPU")


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """The devices of a type, or all: one CPU, so that `if list_physical_devices("GPU")` is False.

    >>> gt.config.list_physical_devices("GPU")
    []
    >>> gt.config.list_physical_devices()
    [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    """
    return [_CPU] if _checked_type(device_type, "list_physical_devices") in (None, "CPU") else []


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices programs run on, of a type or all: one CPU."""
    return [_LOGICAL_CPU] if _checked_type(device_type, "list_logical_devices") in (None, "CPU") else []


def _checked_type(device_type: object, function: str) -> str | None:
    if device_type is not None and not isinstance(device_type, str):
        raise TypeError(f"{function}: device_type must be a string such as 'CPU', or None, got {device_type!r}")
    return device_type


def _checked_device(device: object, function: str) -> None:
    if device not in (_CPU, _LOGICAL_CPU):
        raise ValueError(f"{function}: device: there is no device {device!r}; gradtape runs on the CPU")


get_visible_devices = list_physical_devices


def set_visible_devices(devices: object, device_type: str | None = None) -> None:
    """Accepts what is so anyway: the CPU, or no device of another type.

    Raises:
        ValueError: another device is asked for, or the CPU is to be hidden.
    """
    given = [] if devices is None else list(devices) if isinstance(devices, Iterable) and devices != _CPU else [devices]
    for device in given:
        if device != _CPU:
            raise ValueError(f"set_visible_devices: there is no device {device!r}; gradtape runs on the CPU")
    if not given and _checked_type(device_type, "set_visible_devices") in (None, "CPU"):
        raise ValueError("set_visible_devices: the CPU cannot be hidden, gradtape runs on nothing else")


def get_memory_growth(device: object) -> bool:
    """Whether memory is taken as it is needed: always."""
    _checked_device(device, "get_memory_growth")
    return True


def set_memory_growth(device: object, enable: bool) -> None:
    """Accepted: memory is always taken as it is needed."""
    _checked_device(device, "set_memory_growth")
    if not isinstance(enable, bool):
        raise TypeError(f"set_memory_growth: enable must be True or False, got {enable!r}")


def get_device_details(device: object) -> dict[str, Any]:
    """What is known of a device."""
    _checked_device(device, "get_device_details")
    return {}


def set_soft_device_placement(enabled: bool) -> None:
    """Accepted: everything runs on the CPU, wherever `gt.device` puts it."""


def get_soft_device_placement() -> bool:
    """Whether operations run on the CPU when the device they name is not there: always."""
    return True


def enable_op_determinism() -> None:
    """Accepted: results are the same from run to run, whatever the number of threads."""


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: object = None) -> bool:
    """False: gradtape computes on the CPU.

    >>> gt.test.is_gpu_available()
    False
    """
    return False
