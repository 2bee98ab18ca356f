"""One function in every way it can run: undecorated, interpreted, as machine code; values and derivatives to order 2 agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradtape as gt
from tests.harness.seeds import in_sample
from tests.harness.tolerances import IDENTITY, same_array

DERIVATIVE = 1e-9  # sums in another order
TWICE = 6
COMPILED = {"interpreted": {"jit_compile": False}, "native": {}}


def compiled(function: Callable[..., Any], mode: str) -> Any:
    """The function, decorated for a mode of `COMPILED`."""
    return gt.function(function, **COMPILED[mode])


def values(result: Any) -> list[Any]:
    """The numbers of a result, leaf by leaf."""
    return [np.asarray(leaf) for leaf in gt.nest.flatten(result)]


def is_source(value: Any) -> bool:
    """Whether derivatives are asked for: floating-point tensors, arrays and lists of floats become such sources."""
    return isinstance(value, gt.Tensor) and value.dtype.is_floating


def arguments(given: Sequence[Any]) -> list[Any]:
    """Fresh tensors: floats and lists of floats in float64, arrays in their dtype; all else as it is."""
    made = []
    for value in given:
        if isinstance(value, (float, list)):
            value = gt.constant(np.array(value, np.float64))
        elif isinstance(value, (np.ndarray, np.generic)):
            value = gt.constant(value)
        made.append(value)
    return made


def derivatives(function: Callable[..., Any], given: Sequence[Any], order: int) -> list[list[Any]]:
    """The values, then the gradients of a weighted sum of them, then those of a weighted sum of these."""
    args = arguments(given)
    sources = [a for a in args if is_source(a)]
    with gt.GradientTape() as outer:
        outer.watch(sources if order > 1 else [])  # what a second tape asks for is compiled too
        with gt.GradientTape() as inner:
            inner.watch(sources)
            result = function(*args)
            loss = weighted(result)
        kept = [values(result)]
        if order == 0:
            return kept
        first = inner.gradient(loss, sources, unconnected_gradients="zero")
        kept.append(values(first))
        if order == 1:
            return kept
        loss = weighted(first)
    kept.append(values(outer.gradient(loss, sources, unconnected_gradients="zero")))
    return kept


def weighted(result: Any) -> Any:
    """A sum in which every element counts with a weight of its own."""
    total = gt.constant(0.0, gt.float64)
    for place, leaf in enumerate(gt.nest.flatten(result)):
        tensor = gt.convert_to_tensor(leaf)
        if tensor.dtype.is_floating:
            weights = np.sin(np.arange(1.0, tensor.numpy().size + 1.0) + place).reshape(tensor.shape) + 1.3
            total += gt.reduce_sum(gt.cast(tensor, gt.float64) * weights)
    return total


def agree(function: Callable[..., Any], *inputs: Sequence[Any], order: int = 2, modes: Sequence[str] = tuple(COMPILED)) -> None:
    """Check that the compiled function gives what the undecorated one does, for each tuple of arguments in turn.

    Where both ways are asked for, one function in some is differentiated twice as machine code: compiling takes longest.
    """
    ways = {mode: compiled(function, mode) for mode in modes}
    natively = order if "interpreted" not in modes or in_sample(function.__name__, TWICE) else min(order, 1)
    for given in inputs:
        expected = derivatives(function, given, order)
        for mode, way in ways.items():
            plain = values(way(*arguments(given)))
            compare([plain], expected[:1], f"{function.__name__}{given} {mode}, without a tape")
            depth = natively if mode == "native" else order
            compare(derivatives(way, given, depth), expected[: depth + 1], f"{function.__name__}{given} {mode}")


def compare(actual: list[list[Any]], expected: list[list[Any]], what: str) -> None:
    """The same numbers, order by order."""
    for order, (some, others) in enumerate(zip(actual, expected, strict=True)):
        for place, (a, b) in enumerate(zip(some, others, strict=True)):
            same_array(a, b, IDENTITY if order == 0 else DERIVATIVE, f"{what}: order {order}, part {place}")
