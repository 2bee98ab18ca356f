"""The zoo's register: user-like functions with the inputs that drive them through their loops and branches.

An entry is a plain Python function of tensors (`@zoo`), or a factory that makes a fresh function with its state
(`@stateful`). Inputs are written as Python values: a float or a list of floats is a float64 tensor, a NumPy array or
scalar keeps its dtype, tuples and dicts are structures, anything else (int, str, None) is a static Python value.
Nothing here runs an entry; `checks.py` does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradtape as gt


@dataclass(frozen=True)
class Instance:
    """One fresh copy of an entry: what to call, what to look at afterwards, what else to differentiate with respect to."""

    step: Callable[..., Any]
    inspect: Callable[[], Any] = lambda: None
    variables: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A function of the zoo, its inputs, and what is promised about it."""

    name: str
    make: Callable[[], Instance]
    inputs: tuple[tuple[Any, ...], ...]
    order: int  # how often it is differentiated: 0 where nothing is differentiable
    traces: int | None  # traces that calls with all the inputs need; None: one per signature
    plain: bool  # a function without state: every instance is the same

    def __str__(self) -> str:
        return self.name


ENTRIES: dict[str, Entry] = {}


def _register(name: str, make: Any, inputs: Any, order: int, traces: int | None, plain: bool) -> None:
    assert name not in ENTRIES, f"two zoo entries are called {name}"
    assert inputs, f"{name} has no inputs"
    ENTRIES[name] = Entry(name, make, tuple(inputs), order, traces, plain)


def zoo(inputs: Any, order: int = 2, traces: int | None = None) -> Any:
    """Register a plain function: `inputs` is a list of argument tuples."""

    def register(function: Any) -> Any:
        _register(function.__name__, lambda: Instance(function), inputs, order, traces, plain=True)
        return function

    return register


def stateful(inputs: Any, order: int = 2, traces: int | None = None) -> Any:
    """Register a factory of `Instance`s: each call gives the function with state of its own."""

    def register(factory: Any) -> Any:
        _register(factory.__name__, factory, inputs, order, traces, plain=False)
        return factory

    return register


def arguments(values: Any) -> Any:
    """The tensors (and static values) that an input stands for, fresh ones at each call."""
    if isinstance(values, tuple):
        return tuple(arguments(v) for v in values)
    if isinstance(values, dict):
        return {key: arguments(v) for key, v in values.items()}
    if isinstance(values, (float, list)):
        return gt.constant(np.array(values, np.float64))
    if isinstance(values, (np.ndarray, np.generic)):
        return gt.constant(values)
    return values


def signature(values: Any) -> Any:
    """What a trace depends on: shapes and dtypes of tensors, static values with their types."""
    if isinstance(values, tuple):
        return tuple(signature(v) for v in values)
    if isinstance(values, dict):
        return tuple((key, signature(values[key])) for key in sorted(values))
    if isinstance(values, (float, list)):
        return ("float64", np.shape(values))
    if isinstance(values, (np.ndarray, np.generic)):
        return (str(values.dtype), values.shape)
    return (type(values), values)
