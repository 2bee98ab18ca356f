"""How an entry of the zoo is run and differentiated: eagerly or compiled, from outside or from inside the function.

The scalar that is differentiated is a fixed weighted sum of all floating outputs. Sources are the floating tensors among
the arguments and the instance's variables. Nothing here compares; the test files do.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt
from tests.harness.numeric import derivative, inner_all
from tests.zoo.registry import Entry, Instance, arguments

SEED = 20240607


def floating(value: Any) -> bool:
    return gt.is_tensor(value) and value.dtype.is_floating


def sources_of(args: Any, instance: Instance) -> list[Any]:
    return [x for x in gt.nest.flatten(list(args)) if floating(x)] + list(instance.variables)


def weighted(result: Any) -> Any:
    """A scalar that depends on every floating number of the result, each with a weight of its own."""
    total = gt.constant(0.0, gt.float64)
    for place, leaf in enumerate(gt.nest.flatten(result)):
        if isinstance(leaf, float):
            leaf = gt.constant(leaf)  # as a number that a staged loop or branch made a tensor of
        if isinstance(leaf, gt.TensorArray):
            leaf = leaf.stack()
        if floating(leaf):
            flat = gt.reshape(gt.cast(leaf, gt.float64), [-1])
            total = total + gt.reduce_sum(flat * gt.cos(gt.cast(gt.range(gt.size(flat)), gt.float64) + 0.7 * place + 1.0))
    return total


def values(structure: Any) -> Any:
    """The structure with NumPy values for tensors, variables and TensorArrays."""
    if isinstance(structure, gt.TensorArray):
        return np.asarray(structure.stack().numpy()) if int(structure.size()) else "empty array"
    if gt.is_tensor(structure):
        return np.asarray(structure.numpy())
    if isinstance(structure, dict):
        return {key: values(structure[key]) for key in structure}
    if isinstance(structure, (list, tuple)):
        items = [values(v) for v in structure]
        return items if isinstance(structure, list) else tuple(items)
    return structure


def run(entry: Entry, compile: Callable[[Any], Any] = lambda step: step) -> list[Any]:
    """Call one instance with all inputs in turn; what it returned, printed, and left behind in state and arguments."""
    instance = entry.make()
    step = compile(instance.step)
    seen = []
    for given in entry.inputs:
        gt.random.set_seed(SEED)
        args = arguments(given)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            result = step(*args)
        seen.append((values(result), values(instance.inspect()), values(args), out.getvalue()))
    return seen


def gradients(entry: Entry, given: Any, compile: Any = lambda step: step, move: float = 0.0, order: int = 1) -> Any:
    """(loss, gradient) at the input moved along the fixed directions; for order 2 also the gradient of <gradient, u>."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return _gradients(entry, given, compile, move, order)


def _gradients(entry: Entry, given: Any, compile: Any, move: float, order: int) -> Any:
    instance = entry.make()
    step = compile(instance.step)
    gt.random.set_seed(SEED)
    args, sources = moved(given, instance, move)
    if order == 0:
        return float(weighted(step(*args)))
    with contextlib.ExitStack() as stack:
        outer = stack.enter_context(gt.GradientTape(through_assignments=True)) if order == 2 else None
        if outer is not None:
            outer.watch(sources)
        with gt.GradientTape(through_assignments=True) as tape:
            tape.watch(sources)
            loss = weighted(step(*args))
        first = tape.gradient(loss, sources, unconnected_gradients="zero")
        if outer is None:
            return float(loss), [np.asarray(g) for g in first]
        weights = directions(sources, 2.0)
        total = gt.add_n([gt.reduce_sum(gt.convert_to_tensor(g) * u) for g, u in zip(first, weights, strict=True)])
    second = outer.gradient(total, sources, unconnected_gradients="zero")
    return float(loss), [np.asarray(g) for g in first], [np.asarray(h) for h in second]


def moved(given: Any, instance: Instance, move: float) -> tuple[Any, list[Any]]:
    """Arguments moved by `move` along the fixed directions (variables too), and the list of sources."""
    args = arguments(given)
    sources = sources_of(args, instance)
    if not move:
        return args, sources
    along = directions(sources, 1.0)
    count = len(sources) - len(instance.variables)
    fresh = iter([gt.constant(x.numpy() + move * d) for x, d in zip(sources[:count], along, strict=False)])
    args = tuple(gt.nest.map_structure(lambda x: next(fresh) if floating(x) else x, arg) for arg in args)
    for variable, d in zip(instance.variables, along[count:], strict=True):
        variable.assign(variable.numpy() + move * d)
    return args, sources_of(args, instance)


def directions(sources: list[Any], frequency: float) -> list[Any]:
    """One fixed direction per source, nowhere zero."""
    made = []
    for place, x in enumerate(sources):
        count = int(np.prod(x.shape))
        made.append((np.sin(frequency * np.arange(1.0, count + 1.0) + place) + 1.2).reshape(tuple(x.shape)))
    return made


def slope(entry: Entry, given: Any) -> tuple[float, list[Any]]:
    """Finite differences of the eager loss along the directions, and the directions."""
    instance = entry.make()
    along = directions(sources_of(arguments(given), instance), 1.0)
    return derivative(lambda s: gradients(entry, given, move=s, order=0)), along


def slope_of_gradient(entry: Entry, given: Any) -> float:
    """Finite differences of <eager gradient, u> along the directions."""
    instance = entry.make()
    u = directions(sources_of(arguments(given), instance), 2.0)
    return derivative(lambda s: inner_all(u, gradients(entry, given, move=s)[1]))
