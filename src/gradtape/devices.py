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

    >>> import gradtape as gt
    >>> gt.config.list_physical_devices("GPU")
    []
    >>> gt.config.list_physical_devices()
    [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    """
    return [_CPU] if device_type in (None, "CPU") else []


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """The devices programs run on, of a type or all: one CPU."""
    return [_LOGICAL_CPU] if device_type in (None, "CPU") else []


get_visible_devices = list_physical_devices


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Accepts what is so anyway: the CPU, or no device of another type.

    Raises:
        ValueError: another device is asked for, or the CPU is to be hidden.
    """
    given = [] if devices is None else list(devices) if isinstance(devices, Iterable) and devices != _CPU else [devices]
    for device in given:
        if device != _CPU:
            raise ValueError(f"set_visible_devices: there is no device {device!r}; gradtape runs on the CPU")
    if not given and device_type in (None, "CPU"):
        raise ValueError("set_visible_devices: the CPU cannot be hidden, gradtape runs on nothing else")


def get_memory_growth(device: Any) -> bool:
    """Whether memory is taken as it is needed: always."""
    return True


def set_memory_growth(device: Any, enable: bool) -> None:
    """Accepted: memory is always taken as it is needed."""


def get_device_details(device: Any) -> dict[str, Any]:
    """What is known of a device."""
    if device != _CPU:
        raise ValueError(f"get_device_details: there is no device {device!r}; gradtape runs on the CPU")
    return {}


def set_soft_device_placement(enabled: bool) -> None:
    """Accepted: everything runs on the CPU, wherever `gt.device` puts it."""


def get_soft_device_placement() -> bool:
    """Whether operations run on the CPU when the device they name is not there: always."""
    return True


def enable_op_determinism() -> None:
    """Accepted: results are the same from run to run, whatever the number of threads."""
