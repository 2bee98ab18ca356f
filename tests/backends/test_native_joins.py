"""Joins, reshapes, gathers, transpositions and slices of one another: eager code, the reference and native code agree.

Debug mode is on: expanded programs are verified, and the door compares every result with the type that the program says.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import gradtape as gt
from gradtape import config
from tests.backends.agreement import agree, compared
from tests.backends.random_joins import nested
from tests.harness.seeds import everything

SEEDS = range(24)


@pytest.fixture(autouse=True)
def _debug_mode() -> Iterator[None]:
    before = config.passes_debugged()
    config.debug_passes(True)
    yield
    config.debug_passes(before)


def check(seed: int, programs: int = 10) -> None:
    run, arguments = nested(seed, programs)
    xs = [gt.constant(a) for a in arguments]
    values, slopes = _with_gradients(run, xs)
    with compared():
        function = gt.function(run, autograph=False)
        plain = function(*xs)
        natively, native_slopes = _with_gradients(function, xs)
    for i, (want, *got) in enumerate(zip(values, plain, natively, strict=True)):
        for answer in got:
            agree(answer._data, want._data, f"seed {seed}, program {i}", 1.0)
    for i, (answer, want) in enumerate(zip(native_slopes, slopes, strict=True)):
        agree(answer._data, want._data, f"seed {seed}, gradient {i}", 1.0)


def _with_gradients(function: Any, xs: list[Any]) -> tuple[list[Any], list[Any]]:
    with gt.GradientTape() as tape:
        tape.watch(xs)
        values = function(*xs)
        total = gt.add_n([gt.reduce_sum(value * value) for value in values])
    slopes = tape.gradient(total, xs, unconnected_gradients="zero")
    return values, [gt.convert_to_tensor(slope) for slope in slopes]


@pytest.mark.parametrize("seed", SEEDS if everything() else SEEDS[::2])
def test_nested_joins(seed: int) -> None:
    check(seed)


def test_the_programs_are_nested_enough() -> None:
    names: dict[str, int] = {}
    empty = 0
    for seed in SEEDS:
        run, arguments = nested(seed, 10)
        program = gt.function(run, autograph=False).get_concrete_function(*[gt.constant(a) for a in arguments])
        for operation in program.program.block.operations:
            names[operation.op.name] = names.get(operation.op.name, 0) + 1
            empty += any(0 in tuple(value.type.shape) for value in operation.results)
    assert empty > 50
    assert all(
        names.get(name, 0) > 20
        for name in ("stack", "concat", "reshape", "take", "transpose", "getitem", "reverse", "pad_zeros")
    )
