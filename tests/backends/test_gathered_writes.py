"""Writes to shifted boxes of one array, natively: one pass over the array, with the values that writing one by one gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.graph import Block
from gradtape.ops.dynamic import ADD_AT
from gradtape.ops.elementwise import MULTIPLY, NEGATIVE
from gradtape.ops.index import GETITEM, PUT_SLICE, UPDATE
from gradtape.passes.pipeline import prepared
from tests.backends.agreement import Both, compared
from tests.backends.build import program, tensor

SHAPES = ((7,), (70,), (6, 5), (9, 33), (5, 6, 17), (2, 3, 4, 5))


def random_key(rng: np.random.Generator, shape: tuple[int, ...], dense: bool) -> tuple[Any, ...]:
    """Most of an array, or any box of it; rarely a place, a new axis, a step."""
    key: list[Any] = []
    for size in shape:
        near = 2 if dense else size
        start, stop = int(rng.integers(min(near, size))), size - int(rng.integers(min(near, size)))
        if start >= stop or (not dense and rng.random() < 0.15):
            key.append(int(rng.integers(-size, size)))
        else:
            step = 2 if rng.random() < 0.03 else None
            key.append(slice(start or None, stop if rng.random() < 0.5 else (stop - size) or None, step))
    if rng.random() < 0.1:
        key.insert(int(rng.integers(len(key) + 1)), None)
    if rng.random() < 0.1 and key[-1] == slice(None, None, None):
        key[-1] = Ellipsis
    return tuple(key)


def chain(seed: int) -> Block:
    """Writes one after the other to an array that is a parameter, made here, or zeros; parts read others, or that array."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[rng.integers(len(SHAPES))]
    dtype, dense = str(rng.choice(["float32", "float64", "float64", "int32"])), bool(rng.random() < 0.7)

    def part(build: Any, whole: Any, key: tuple[Any, ...]) -> Any:
        value = build(GETITEM, whole, key=key)
        if rng.random() < 0.2 and value.type.shape:  # the same for all rows
            value = build(GETITEM, value, key=(slice(0, 1),))
        return build(NEGATIVE, value) if rng.random() < 0.3 else build(MULTIPLY, value, value)

    def body(build: Any, x: Any, y: Any) -> list[Any]:
        key = random_key(rng, shape, dense)
        start = rng.integers(3)
        if start == 0:
            array = build(PUT_SLICE, build(GETITEM, y, key=key), key=key, shape=shape)
        else:
            array = x if start == 1 else build(MULTIPLY, x, y)
        values = []
        for _ in range(int(rng.integers(2, 8))):
            key = random_key(rng, shape, dense)
            source = array if rng.random() < 0.15 else (x, y)[rng.integers(2)]
            op = UPDATE if rng.random() < 0.3 else ADD_AT
            array = build(op, array, part(build, source, key), key=key)
            if rng.random() < 0.05:
                values.append(build(NEGATIVE, array))
        return [array, *values]

    return program([tensor(*shape, dtype=dtype)] * 2, body)


@pytest.mark.parametrize("first", range(0, 96, 8))
def test_random_chains(first: int) -> None:
    for seed in range(first, first + 8):
        block = chain(seed)
        rng = np.random.default_rng(seed)
        shape, dtype = block.params[0].type.shape, block.params[0].type.dtype.dtype
        arrays = [rng.integers(-9, 9, size=shape).astype(dtype) for _ in range(2)]
        both = Both(prepared(block))
        both(*arrays)
        if dtype.kind == "f":  # what no write reaches keeps its value, whatever the others are
            arrays[0].flat[:: max(1, arrays[0].size // 5)] = np.nan
            arrays[1].flat[0] = np.inf
            both(*arrays)


def test_the_random_chains_are_gathered() -> None:
    notes = [Both(prepared(chain(seed))).natively.notes for seed in range(24)]
    gathered = sum(any(note.detail == "gathered" for note in those) for those in notes)
    assert gathered >= 8


def heated(a: Any) -> Any:
    return a[1:-1, 1:-1] + 0.1 * (a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2] - 4.0 * a[1:-1, 1:-1])


def stencil(steps: int) -> Any:
    @gt.function(jit_compile=True)
    def gradient(a: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(a)
            b = gt.identity(a)
            for _ in gt.range(steps):
                b[1:-1, 1:-1] = heated(b)
            loss = gt.reduce_sum(b * b)
        return tape.gradient(loss, a)

    return gradient


def test_the_backward_pass_of_a_stencil_is_one_pass() -> None:
    """Five reads of one array in a step: one kernel that adds to it, none for each read."""
    a = gt.constant(np.random.default_rng(0).normal(size=(20, 24)).astype(np.float32))
    with compared() as programs:
        stencil(3)(a)
    (one,) = programs
    notes = one.natively.notes
    assert [note.detail for note in notes if note.kind == "kernel" and "add_at_into" in note.ops] == ["gathered"]


def test_a_row_without_elements_of_a_box_is_left_alone() -> None:
    """Boxes that reach no row in common: nothing is read outside of an array that ends at the end of a page."""
    a = gt.constant(np.arange(12.0, dtype=np.float32).reshape(3, 4))
    with compared():
        stencil(2)(a)
