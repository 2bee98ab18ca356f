"""Every entry of the zoo: values, effects and state, derivatives of order 1 and 2; eager and compiled alike.

Eager runs are compared with finite differences; compiled ones with the eager runs, exactly in values and state and to
rounding in derivatives, and with the same finite differences.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gradtape as gt
from tests.harness.numeric import inner_all, size_all
from tests.harness.seeds import in_sample
from tests.harness.tolerances import FINITE_DIFFERENCE, IDENTITY, ROUNDING, same_array, same_number
from tests.zoo import (  # noqa: F401  (importing registers the entries)
    aliases,
    branches,
    builtin_calls,
    callables,
    containers,
    control_functions,
    derivatives,
    exits,
    loops,
    models,
    numerics,
    program_lists,
    python_loops,
    sequences,
    shared_objects,
    simulations,
    state,
    updates,
    variables,
)  # fmt: skip
from tests.zoo.checks import SEED, gradients, run, slope, slope_of_gradient, sources_of, weighted
from tests.zoo.registry import ENTRIES, Entry, Instance, arguments, signature

pytestmark = pytest.mark.usefixtures("reference_backend")

SMOOTH = [(entry, i) for entry in ENTRIES.values() if entry.order for i in range(len(entry.inputs))]
TWICE = [(entry, i) for entry, i in SMOOTH if entry.order == 2]
SAMPLE = 2  # one entry in so many is compiled and differentiated twice
GRADIENT = 1e-9  # compiled against eager derivatives: sums in another order


def named(pairs):
    return [pytest.param(entry, i, id=f"{entry.name}-{i}") for entry, i in pairs]


every_entry = pytest.mark.parametrize("entry", ENTRIES.values(), ids=str)
once = pytest.mark.parametrize(("entry", "place"), named(SMOOTH))
twice = pytest.mark.parametrize(("entry", "place"), named(TWICE))
compiled_twice = pytest.mark.parametrize(("entry", "place"), named(p for p in TWICE if in_sample(p[0].name, SAMPLE)))


@functools.cache
def eager_run(name: str):
    return run(ENTRIES[name])


@functools.cache
def eager_gradients(name: str, place: int, order: int):
    return gradients(ENTRIES[name], ENTRIES[name].inputs[place], order=order)


@functools.cache
def numeric_slope(name: str, place: int):
    return slope(ENTRIES[name], ENTRIES[name].inputs[place])


@functools.cache
def numeric_second(name: str, place: int):
    return slope_of_gradient(ENTRIES[name], ENTRIES[name].inputs[place])


@functools.cache
def shared(step):
    return gt.function(step)


def compiler(entry: Entry):
    """`gt.function`; entries without state share one compiled function, so that each is traced once for all its tests."""
    return shared if entry.plain else gt.function


def same(actual, expected, what):
    """The same structure and, where it holds numbers, the same numbers in the same dtype."""
    if isinstance(expected, np.ndarray):
        assert isinstance(actual, np.ndarray), f"{what}: {actual!r} against {expected!r}"
        assert actual.dtype == expected.dtype, f"{what}: dtype {actual.dtype} against {expected.dtype}"
        same_array(actual, expected, IDENTITY, what)
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), f"{what}: keys {list(actual)} against {list(expected)}"
        for key in expected:
            same(actual[key], expected[key], f"{what}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert type(actual) is type(expected), f"{what}: {type(actual)} against {type(expected)}"
        assert len(actual) == len(expected), f"{what}: {len(actual)} items against {len(expected)}"
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            same(a, b, f"{what}[{i}]")
    elif isinstance(expected, (bool, int, float)):  # changed in staged control flow, it may have become a tensor
        actual = np.asarray(actual)
        assert actual.dtype.kind == np.asarray(expected).dtype.kind, f"{what}: {actual!r} against {expected!r}"
        same_array(actual, np.asarray(expected, actual.dtype), IDENTITY, what)
    else:
        assert actual == expected, f"{what}: {actual!r} against {expected!r}"


def check_first(entry: Entry, place: int, loss, found) -> None:
    expected, along = numeric_slope(entry.name, place)
    scale = size_all(found, along) + (1.0 + abs(loss)) * ROUNDING / FINITE_DIFFERENCE
    same_number(inner_all(found, along), expected, FINITE_DIFFERENCE, scale, f"{entry.name}: derivative at input {place}")


def check_second(entry: Entry, place: int, first, second) -> None:
    _, along = numeric_slope(entry.name, place)
    scale = size_all(second, along) + (1.0 + size_all(first, first)) * ROUNDING / FINITE_DIFFERENCE
    same_number(
        inner_all(second, along), numeric_second(entry.name, place), FINITE_DIFFERENCE, scale,
        f"{entry.name}: second derivative at input {place}",
    )  # fmt: skip


# -- eager ---------------------------------------------------------------------------------------------------------------


def test_the_zoo_is_large():
    assert len(ENTRIES) >= 180


@every_entry
def test_eager_runs_are_reproducible_and_finite(entry):
    first = eager_run(entry.name)
    same(run(entry), first, entry.name)
    for result, *_ in first:
        for leaf in gt.nest.flatten(result):
            if isinstance(leaf, np.ndarray) and leaf.dtype.kind == "f":
                assert np.isfinite(leaf).all(), f"{entry.name} gives {leaf}"


@once
def test_eager_first_derivative(entry, place):
    loss, found = eager_gradients(entry.name, place, 1)
    check_first(entry, place, loss, found)


@twice
def test_eager_second_derivative(entry, place):
    _, first, second = eager_gradients(entry.name, place, 2)
    for a, b in zip(first, eager_gradients(entry.name, place, 1)[1], strict=True):
        same_array(a, b, GRADIENT, f"{entry.name}: recorded against plain gradient")
    check_second(entry, place, first, second)


# -- compiled ------------------------------------------------------------------------------------------------------------


@every_entry
def test_function_values_state_and_effects(entry):
    compiled = []

    def compile(step):
        compiled.append(gt.function(step))
        return compiled[0]

    same(run(entry, compile), eager_run(entry.name), entry.name)
    wanted = entry.traces if entry.traces is not None else len({signature(given) for given in entry.inputs})
    assert compiled[0].experimental_get_tracing_count() == wanted, f"{entry.name}: {compiled[0].explain()}"


@once
def test_function_first_derivative(entry, place):
    loss, found = gradients(entry, entry.inputs[place], compiler(entry))
    same_number(loss, eager_gradients(entry.name, place, 1)[0], IDENTITY, 1.0, f"{entry.name}: value under a tape")
    for a, b in zip(found, eager_gradients(entry.name, place, 1)[1], strict=True):
        same_array(a, b, GRADIENT, f"{entry.name}: compiled against eager gradient")
    check_first(entry, place, loss, found)


@compiled_twice
def test_function_second_derivative(entry, place):
    _, first, second = gradients(entry, entry.inputs[place], compiler(entry), order=2)
    for a, b in zip(second, eager_gradients(entry.name, place, 2)[2], strict=True):
        same_array(a, b, GRADIENT, f"{entry.name}: compiled against eager second derivative")
    check_second(entry, place, first, second)


def gradient_inside(instance: Instance):
    """The gradient as a compiled function of the arguments."""

    def inside(*args):
        sources = sources_of(args, instance)
        with gt.GradientTape(through_assignments=True) as tape:
            tape.watch(sources)
            loss = weighted(instance.step(*args))
        return tape.gradient(loss, sources, unconnected_gradients="zero")

    return gt.function(inside)


@functools.cache
def shared_gradient_inside(name: str):
    return gradient_inside(ENTRIES[name].make())


@once
def test_gradient_taken_inside_the_function(entry, place):
    compiled = shared_gradient_inside(entry.name) if entry.plain else gradient_inside(entry.make())
    gt.random.set_seed(SEED)
    found = compiled(*arguments(entry.inputs[place]))
    for a, b in zip(found, eager_gradients(entry.name, place, 1)[1], strict=True):
        same_array(np.asarray(a), b, GRADIENT, f"{entry.name}: gradient inside the function")
