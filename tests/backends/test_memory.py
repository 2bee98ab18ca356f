"""Memory is what liveness says: values go after their last use on every path, and `peak_bytes` counts it."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradtape.backends.numpy import compile_block
from gradtape.ops.compare import LESS
from gradtape.ops.elementwise import ADD, MULTIPLY, NEGATIVE, SIN
from gradtape.ops.index import GETITEM
from gradtape.ops.list_values import TensorList
from gradtape.ops.lists import LIST_NEW, LIST_PUSH, LIST_STACK
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.ops.shape import RESHAPE
from tests.backends.build import Build, items, program, tensor
from tests.harness.peak_memory import peak_bytes

SIZE = 1000
BYTES = 8 * SIZE
X = np.arange(float(SIZE))
BIG = tensor(SIZE)


def chain(b: Build, x: Any, count: int) -> Any:
    for _ in range(count):
        x = b(SIN, x)
    return x


def test_a_chain_needs_two_buffers() -> None:
    assert peak_bytes(program([BIG], lambda b, x: chain(b, x, 20)), X) == 2 * BYTES


def test_values_that_are_used_later_stay() -> None:
    def make(b: Build, x: Any) -> Any:
        first = b(SIN, x)
        return b(ADD, chain(b, first, 5), first)

    assert peak_bytes(program([BIG], make), X) == 3 * BYTES


def test_views_count_once_and_scalars_nothing() -> None:
    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        z = b(RESHAPE, y, shape=(SIZE // 2, 2))
        return b(REDUCE_SUM, z, axis=(0, 1), keepdims=False), y

    assert peak_bytes(program([BIG], make), X) == BYTES


def test_parameters_and_constants_do_not_count() -> None:
    assert peak_bytes(program([BIG], lambda b, x: b(RESHAPE, x, shape=(2, SIZE // 2))), X) == 0
    assert peak_bytes(program([], lambda b: b.constant(X))) == 0


@pytest.mark.parametrize("flag", [True, False])
def test_branches_free_what_they_do_not_need(flag: bool) -> None:
    def make(b: Build, p: Any, x: Any) -> Any:
        y, z = b(SIN, x), b(NEGATIVE, x)
        return b.cond(p, [y, z], lambda b, y, z: [chain(b, y, 3)], lambda b, y, z: [chain(b, z, 3)])

    # y and z, then the other one is gone before the chain starts
    assert peak_bytes(program([tensor(dtype="bool"), BIG], make), np.bool_(flag), X) == 2 * BYTES


@pytest.mark.parametrize("steps", [5, 50])
def test_a_loop_needs_the_same_for_any_number_of_steps(steps: int) -> None:
    scan = program([BIG], lambda b, x: b.scan(steps, [x], lambda b, i, x: ([chain(b, x, 3)], [])))
    assert peak_bytes(scan, X) == 2 * BYTES

    def loop(b: Build, x: Any) -> Any:
        return b.loop([x, b.constant(np.int32(0))],
                      lambda b, x, n: b(LESS, n, b.constant(np.int32(steps))),
                      lambda b, i, x, n: ([chain(b, x, 3), b(ADD, n, b.constant(np.int32(1)))], []))[0]  # fmt: skip

    assert peak_bytes(program([BIG], loop), X) == 2 * BYTES


def test_initial_values_are_let_go() -> None:
    def make(b: Build, x: Any) -> Any:
        return b.scan(3, [b(SIN, x)], lambda b, i, s: ([b(NEGATIVE, s)], []))

    assert peak_bytes(program([BIG], make), X) == 2 * BYTES


def test_lists_count_by_items() -> None:
    steps = 10
    saved = program([BIG], lambda b, x: b.scan(steps, [x], lambda b, i, s: ([b(SIN, s)], [s])))
    assert peak_bytes(saved, X) == steps * BYTES  # the first item is the parameter, the last value is the state

    def scalars(b: Build, x: Any) -> Any:
        return b.scan(steps, [x], lambda b, i, s: ([b(SIN, s)], [s]))

    assert peak_bytes(program([tensor()], scalars), np.float64(1.0)) >= 8 * (steps - 1)


def test_items_made_with_a_list_count() -> None:
    def make(b: Build, x: Any) -> Any:
        values = b(LIST_PUSH, b(LIST_NEW, b(SIN, x), item=None), b(NEGATIVE, x))
        return b(LIST_STACK, values, length=2, item_shape=(SIZE,))

    assert peak_bytes(program([BIG], make), X) == 4 * BYTES


def test_callees_free_their_arguments() -> None:
    callee = program([BIG], lambda b, x: chain(b, x, 4))
    assert peak_bytes(program([BIG], lambda b, x: b.call(callee, b(SIN, x))), X) == 2 * BYTES


def test_a_list_of_arguments_is_emptied_and_its_arrays_freed() -> None:
    alive: list[bool] = []
    reference: list[Any] = []

    def watching(x: Any) -> Any:
        alive.append(reference[0]() is not None)
        return np.sin(x)

    look = replace(SIN, impl=watching)
    executable = compile_block(program([BIG], lambda b, x: b(look, b(look, b(SIN, x)))))
    arrays = [np.ones(SIZE)]
    reference.append(weakref.ref(arrays[0]))
    executable.run(arrays)
    assert arrays == []
    assert alive == [False, False]


def test_an_error_keeps_nothing_alive() -> None:
    made: list[Any] = []

    def watched(x: Any) -> Any:
        out = np.sin(x)
        made.append(weakref.ref(out))
        return out

    def make(b: Build, x: Any, xs: Any) -> Any:
        y = b(replace(SIN, impl=watched), x)
        z = b.scan(2, [], lambda b, i, item: ([], [item]), xs=[xs])  # the list has one item only
        return y, *z

    with pytest.raises(IndexError) as found:
        compile_block(program([BIG, items(2)], make))(X, TensorList([np.ones(2)]))
    assert made[0]() is None
    assert "scan(" in str(found.value)


def test_getitem_does_not_keep_the_whole() -> None:
    def make(b: Build, x: Any) -> Any:
        part = b(GETITEM, b(SIN, x), key=(slice(0, 10),))
        return chain(b, b(MULTIPLY, part, part), 5)

    assert peak_bytes(program([BIG], make), X) == BYTES + 80
