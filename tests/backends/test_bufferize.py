"""In-place updates: where they must happen (counted), where they must not, and that programs mean the same."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from gradtape.backends.numpy import compile_block
from gradtape.errors import InvalidArgumentError, OpError
from gradtape.ir.graph import Block
from gradtape.ir.slots import Slot
from gradtape.ir.types import ListSpec
from gradtape.ir.walk import program as operations
from gradtape.ops.compare import LESS
from gradtape.ops.create import ZEROS_LIKE
from gradtape.ops.dynamic import ADD_AT, GETITEM_AT, UPDATE_AT
from gradtape.ops.elementwise import ADD, MULTIPLY, NEGATIVE, SIN, SUBTRACT
from gradtape.ops.index import GETITEM, UPDATE
from gradtape.ops.list_values import TensorList
from gradtape.ops.lists import (
    LIST_ADD_AT,
    LIST_DROP,
    LIST_FIT,
    LIST_GET,
    LIST_NEW,
    LIST_PUSH,
    LIST_RESIZE,
    LIST_SET,
    LIST_STACK,
    LIST_ZEROS_LIKE,
)
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.ops.scatter import EXTREME_ROWS
from gradtape.ops.shape import BROADCAST_TO, RESHAPE, TRANSPOSE
from gradtape.ops.staged import FILLED, PY_CALL
from gradtape.ops.stop import GRADIENT, IDENTITY
from gradtape.passes.bufferize import bufferize
from gradtape.passes.inplace import ARITHMETIC, TWINS, pure_op
from tests.backends.build import INT, Build, items, program, tensor
from tests.harness.checked_passes import same_bits
from tests.harness.peak_memory import peak_bytes
from tests.harness.seeds import everything

X = np.array([1.0, 2.0, 3.0])
AT = (Slot(0),)


def zeros(b: Build, *shape: int) -> Any:
    return b(FILLED, shape=shape, dtype="float64", value=0.0)


def counts(block: Block) -> dict[str, int]:
    """How many operations of each interesting name a program has."""
    found: dict[str, int] = {}
    for operation in operations(block):
        name = operation.op.name
        if name.endswith("_into") or name in ("copy", "list_copy"):
            found[name] = found.get(name, 0) + 1
    return found


def checked(block: Block, *arrays: Any) -> dict[str, int]:
    """Both programs give the same and change no parameter; what bufferize did."""
    made = bufferize(block)
    before = [_copy(a) for a in arrays]
    want = compile_block(block)(*arrays)
    for _ in range(2):
        got = compile_block(made)(*arrays)
        assert all(same_bits(a, b) for a, b in zip(want, got, strict=True)), compile_block(made).source
    assert all(same_bits(a, b) for a, b in zip(before, arrays, strict=True)), "a parameter was changed"
    return counts(made)


def _copy(value: Any) -> Any:
    return TensorList([_copy(v) for v in value]) if isinstance(value, TensorList) else np.array(value)


# --- straight lines


def test_an_update_of_a_dead_value_is_in_place() -> None:
    block = program([tensor(3)], lambda b, x: b(UPDATE, b(SIN, x), b.constant(7.0), key=(1,)))
    assert checked(block, X) == {"update_into": 1}
    assert checked(block, np.arange(3.0)[::-1]) == {"update_into": 1}


def test_a_chain_of_updates_needs_one_buffer() -> None:
    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        for i in range(3):
            y = b(UPDATE, y, b.constant(float(i)), key=(i,))
        return y

    block = program([tensor(3)], make)
    assert checked(block, X) == {"update_into": 3}
    assert peak_bytes(bufferize(block), X) == 24
    assert peak_bytes(block, X) == 48


def test_a_fill_waits_until_it_is_needed() -> None:
    """What was read before it needs no copy of its own while the array is still as it was."""

    def body(b: Build, x: Any) -> list[Any]:
        array = b(MULTIPLY, x, x)
        part = b(GETITEM, array, key=(slice(1, None),))
        cleared = b(UPDATE, array, b(ZEROS_LIKE, part, dtype=None), key=(slice(1, None),))
        twice = b(UPDATE, cleared, b.constant(1.0), key=(0,))
        return [b(SIN, part), b(NEGATIVE, part), twice]

    block = bufferize(program([tensor(3)], body))
    assert [operation.op.name for operation in block.operations][-3:] == ["negative", "update_into", "update_into"]
    np.testing.assert_array_equal(compile_block(block)(X)[2], [1.0, 0.0, 0.0])


def test_parameters_and_constants_are_not_changed() -> None:
    assert checked(program([tensor(3)], lambda b, x: b(UPDATE, x, b.constant(7.0), key=(1,))), X) == {}
    assert checked(program([], lambda b: b(UPDATE, b.constant([1.0, 2.0]), b.constant(7.0), key=(1,)))) == {}


@pytest.mark.parametrize("view", [
    lambda b, x: b(RESHAPE, x, shape=(3, 1)),
    lambda b, x: b(TRANSPOSE, b(RESHAPE, x, shape=(3, 1)), perm=(1, 0)),
    lambda b, x: b(BROADCAST_TO, x, shape=(2000, 3)),
    lambda b, x: b(IDENTITY, x),
])  # fmt: skip
def test_a_view_that_lives_on_keeps_the_buffer(view: Any) -> None:
    def used_later(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        seen = view(b, y)
        return b(UPDATE, y, b.constant(7.0), key=(1,)), seen

    def used_before(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        total = b(REDUCE_SUM, view(b, y), axis=(0,), keepdims=False)
        return b(UPDATE, y, b.constant(7.0), key=(1,)), total

    assert checked(program([tensor(3)], used_later), X) == {}
    assert "update_into" in checked(program([tensor(3)], lambda b, x: used_before(b, x)[:1]), X)


def test_a_value_that_is_used_after_its_update_is_copied() -> None:
    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        z = b(UPDATE, y, b.constant(7.0), key=(1,))
        return b(ADD, y, z)

    assert checked(program([tensor(3)], make), X) == {}


def test_a_view_of_a_dead_buffer_may_be_written() -> None:
    def make(b: Build, x: Any) -> Any:
        y = b(TRANSPOSE, b(RESHAPE, b(SIN, x), shape=(3, 1)), perm=(1, 0))
        return b(UPDATE, y, b.constant(7.0), key=(0, 1))

    assert checked(program([tensor(3)], make), X) == {"update_into": 1}


def test_views_of_several_buffers_keep_them_apart() -> None:
    """`gradient` gives each of its operands: the second may be written where nobody else has it, whoever has the first."""

    def make(b: Build, x: Any) -> Any:
        kept, dead = b(SIN, x), b(NEGATIVE, x)
        first, second = b(GRADIENT, kept, dead)
        return (b(ADD, kept, b(UPDATE, first, b.constant(5.0), key=(0,))), b(UPDATE, second, b.constant(7.0), key=(1,)))

    assert checked(program([tensor(3)], make), X) == {"update_into": 1}


def test_a_broadcast_view_is_never_written() -> None:
    block = program([tensor(3)], lambda b, x: b(UPDATE, b(BROADCAST_TO, b(SIN, x), shape=(2000, 3)), b.constant(7.0), key=(0,)))
    assert checked(block, X) == {}


def test_the_written_value_may_be_the_target() -> None:
    block = program([tensor(3)], lambda b, x: (lambda y: b(UPDATE, y, y, key=(slice(None, None, -1),)))(b(SIN, x)))
    assert checked(block, X) == {}


def test_scalars_are_left_alone() -> None:
    assert checked(program([tensor()], lambda b, x: b(UPDATE, b(SIN, x), b.constant(7.0), key=())), np.float64(1.0)) == {}


def test_large_sums_are_in_place_and_small_ones_are_not() -> None:
    def make(b: Build, x: Any, y: Any) -> Any:
        z = b(MULTIPLY, b(SIN, x), y)
        return b(SUBTRACT, b(ADD, z, y), x)

    assert checked(program([tensor(3)] * 2, make), X, X) == {}
    big = np.arange(5000.0)
    block = program([tensor(5000)] * 2, make)
    assert checked(block, big, big) == {"multiply_into": 1, "add_into": 1, "subtract_into": 1}
    assert peak_bytes(bufferize(block), big, big) == big.nbytes
    wider = program([tensor(5000), tensor(2, 5000)], lambda b, x, y: b(ADD, b(SIN, x), y))
    assert checked(wider, big, np.ones((2, 5000))) == {}


def test_other_updates() -> None:
    rows, places = np.ones((2, 2)), np.array([2, 0])

    def make(b: Build, x: Any, i: Any, v: Any) -> Any:
        y = b(UPDATE_AT, b(SIN, x), v, i, key=(Slot(0),))
        return b(EXTREME_ROWS, y, i, v, largest=True)

    block = program([tensor(3, 2), tensor(2, dtype="int64"), tensor(2, 2)], make)
    assert checked(block, np.arange(6.0).reshape(3, 2), places, rows) == {"update_at_into": 1, "extreme_rows_into": 1}


# --- lists


def test_lists_change_in_place() -> None:
    def make(b: Build, x: Any, i: Any) -> Any:
        values = b(LIST_NEW, x, x, item=None)
        values = b(LIST_PUSH, values, b(SIN, x))
        values = b(LIST_SET, values, i, b(NEGATIVE, x))
        values = b(LIST_ADD_AT, values, i, x)
        values = b(LIST_DROP, values)
        return b(LIST_RESIZE, values, b.constant(np.int32(4)), item=tensor(3))

    done = checked(program([tensor(3), INT], make), X, np.int32(-2))
    assert done == {f"list_{n}_into": 1 for n in ("push", "set", "add_at", "drop", "resize")}


@pytest.mark.parametrize(("have", "want"), [(1, 3), (3, 1), (2, 2), (0, 2), (2, 0)])
def test_fitting_a_list_in_place(have: int, want: int) -> None:
    def make(b: Build, x: Any, like: Any) -> Any:
        return b(LIST_FIT, b(LIST_NEW, *[x] * have, item=tensor(3)), like)

    block = program([tensor(3), items(3)], make)
    assert checked(block, X, TensorList([X + k for k in range(want)])) == {"list_fit_into": 1}


def test_lists_of_the_caller_stay() -> None:
    block = program([items(3), tensor(3)], lambda b, values, x: b(LIST_PUSH, values, x))
    assert checked(block, TensorList([X]), X) == {}


def test_what_went_into_a_list_is_not_changed() -> None:
    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        values = b(LIST_NEW, y, item=None)
        return b(UPDATE, y, b.constant(7.0), key=(1,)), values

    assert checked(program([tensor(3)], make), X) == {}

    def read(b: Build, x: Any) -> Any:
        y = b(LIST_GET, b(LIST_NEW, b(SIN, x), item=None), b.constant(np.int32(0)))
        return b(UPDATE, y, b.constant(7.0), key=(1,))

    assert checked(program([tensor(3)], read), X) == {}


def test_python_may_keep_what_it_was_given() -> None:
    kept: list[Any] = []

    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        b(PY_CALL, y, function=lambda t: kept.append(t.numpy()), types=())
        return b(UPDATE, y, b.constant(7.0), key=(1,))

    assert checked(program([tensor(3)], make), X) == {}
    assert all(k[1] == np.sin(2.0) for k in kept)


# --- branches and calls


@pytest.mark.parametrize("flag", [True, False])
def test_branches(flag: bool) -> None:
    def make(b: Build, p: Any, x: Any) -> Any:
        y = b(SIN, x)
        (y,) = b.cond(p, [y], lambda b, y: [b(UPDATE, y, b.constant(7.0), key=(1,))], lambda b, y: [y])
        return b(UPDATE, y, b.constant(8.0), key=(0,))

    assert checked(program([tensor(dtype="bool"), tensor(3)], make), np.bool_(flag), X) == {"update_into": 2}


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_does_not_write_what_lives_on(flag: bool) -> None:
    def make(b: Build, p: Any, x: Any) -> Any:
        y = b(SIN, x)
        (z,) = b.cond(p, [y], lambda b, y: [b(UPDATE, y, b.constant(7.0), key=(1,))], lambda b, y: [y])
        return b(UPDATE, z, b.constant(8.0), key=(0,)), y

    # z may be y itself, so neither update may write
    assert checked(program([tensor(dtype="bool"), tensor(3)], make), np.bool_(flag), X) == {}


def test_results_of_a_branch_that_share_a_buffer() -> None:
    def make(b: Build, p: Any, x: Any) -> Any:
        def both(b: Build, x: Any) -> Any:
            y = b(SIN, x)
            return [y, y]

        y, z = b.cond(p, [x], both, both)
        return b(UPDATE, y, b.constant(8.0), key=(0,)), z

    assert checked(program([tensor(dtype="bool"), tensor(3)], make), np.bool_(True), X) == {}


def test_calls() -> None:
    fresh = program([tensor(3)], lambda b, x: [b(SIN, x), x, b(UPDATE, b(SIN, x), b.constant(1.0), key=(0,))], name="fresh")

    def make(b: Build, x: Any) -> Any:
        y = b(NEGATIVE, x)
        new, same, other = b.call(fresh, y)
        return b(UPDATE, new, b.constant(8.0), key=(0,)), b(UPDATE, same, b.constant(8.0), key=(0,)), other, y

    # `same` is y, which lives on
    assert checked(program([tensor(3)], make), X) == {"update_into": 2}


def test_a_callee_does_not_write_its_arguments() -> None:
    callee = program([tensor(3)], lambda b, x: b(UPDATE, x, b.constant(1.0), key=(0,)))
    block = program([tensor(3)], lambda b, x: (lambda y: [b.call(callee, y)[0], y])(b(SIN, x)))
    assert checked(block, X) == {}


def test_a_callee_that_keeps_its_argument_in_a_list() -> None:
    callee = program([tensor(3)], lambda b, x: b(LIST_NEW, x, item=None))

    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        (values,) = b.call(callee, y)
        return b(UPDATE, y, b.constant(1.0), key=(0,)), values

    assert checked(program([tensor(3)], make), X) == {}


# --- loops: O(1) per step


STEPS = 4


def fill(start: Any) -> Any:
    def make(b: Build, x: Any) -> Any:
        return b.scan(STEPS, [start(b, x)], lambda b, i, a: ([b(UPDATE_AT, a, b.constant(2.0), i, key=AT)], []))

    return make


def test_filling_an_array_copies_nothing() -> None:
    assert checked(program([tensor(STEPS)], fill(lambda b, x: zeros(b, STEPS))), np.ones(STEPS)) == {"update_at_into": 1}


def test_filling_the_callers_array_copies_it_once() -> None:
    block = program([tensor(STEPS)], fill(lambda b, x: x))
    assert checked(block, np.ones(STEPS)) == {"update_at_into": 1, "copy": 1}
    made = bufferize(block)
    assert [o.op.name for o in made.operations] == ["copy", "scan"]


def test_an_initial_value_that_lives_on_is_copied_once() -> None:
    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        (a,) = b.scan(STEPS, [y], lambda b, i, a: ([b(UPDATE_AT, a, b.constant(2.0), i, key=AT)], []))
        return a, y

    assert checked(program([tensor(STEPS)], make), np.ones(STEPS)) == {"update_at_into": 1, "copy": 1}


def test_an_initial_value_that_is_read_in_the_loop_is_copied_once() -> None:
    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)

        def body(b: Build, i: Any, a: Any, y: Any) -> Any:
            return [b(UPDATE_AT, a, b(GETITEM_AT, y, b.constant(np.int32(0)), key=AT, size=None), i, key=AT)], []

        return b.scan(STEPS, [y], body, [y])

    assert checked(program([tensor(STEPS)], make), np.arange(4.0)) == {"update_at_into": 1, "copy": 1}


def test_one_initial_value_for_two_states() -> None:
    def make(b: Build, x: Any) -> Any:
        y = zeros(b, STEPS)

        def body(b: Build, i: Any, a: Any, c: Any) -> Any:
            return [b(UPDATE_AT, a, b.constant(2.0), i, key=AT), b(UPDATE_AT, c, b.constant(3.0), i, key=AT)], []

        return b.scan(STEPS, [y, y], body)

    assert checked(program([tensor(1)], make), np.ones(1)) == {"update_at_into": 2, "copy": 2}


def test_a_state_that_every_step_saves_is_not_written() -> None:
    def before(b: Build, i: Any, a: Any) -> Any:
        return [b(UPDATE_AT, a, b.constant(2.0), i, key=AT)], [a]

    def after(b: Build, i: Any, a: Any) -> Any:
        a = b(UPDATE_AT, a, b.constant(2.0), i, key=AT)
        return [a], [a]

    for body in (before, after):
        assert checked(program([], lambda b, body=body: b.scan(STEPS, [zeros(b, STEPS)], body))) == {}


def test_a_state_pushed_to_a_list_is_not_written() -> None:
    def body(b: Build, i: Any, a: Any, values: Any) -> Any:
        a = b(UPDATE_AT, a, b.constant(2.0), i, key=AT)
        return [a, b(LIST_PUSH, values, a)], []

    block = program([], lambda b: b.scan(STEPS, [zeros(b, STEPS), b(LIST_NEW, item=tensor(STEPS))], body))
    assert checked(block) == {"list_push_into": 1}


def test_a_state_that_was_saved_is_not_written_after_the_loop() -> None:
    def make(b: Build, x: Any) -> Any:
        a, saved = b.scan(2, [b(SIN, x)], lambda b, i, a: ([a], [a]))
        return b(UPDATE, a, b.constant(7.0), key=(0,)), saved

    assert checked(program([tensor(3)], make), X) == {}


def test_a_state_that_takes_over_a_foreign_one_is_not_written() -> None:
    def body(b: Build, i: Any, a: Any, c: Any, y: Any) -> Any:
        written = b(UPDATE_AT, a, b.constant(2.0), i, key=AT)
        return [c, y], [b(REDUCE_SUM, written, axis=(0,), keepdims=False)]

    def make(b: Build, x: Any) -> Any:
        return *b.scan(STEPS, [zeros(b, STEPS), zeros(b, STEPS)], body, [x]), x

    assert checked(program([tensor(STEPS)], make), np.ones(STEPS)) == {}


def test_states_that_swap() -> None:
    def body(b: Build, i: Any, a: Any, c: Any) -> Any:
        return [c, b(UPDATE_AT, a, b.constant(2.0), i, key=AT)], []

    block = program([], lambda b: b.scan(3, [zeros(b, STEPS), b(FILLED, shape=(STEPS,), dtype="float64", value=1.0)], body))
    assert checked(block) == {"update_at_into": 1}
    given = program([tensor(STEPS)], lambda b, x: b.scan(3, [zeros(b, STEPS), x], body))
    assert checked(given, np.arange(4.0)) == {"update_at_into": 1, "copy": 1}


def test_states_that_become_one() -> None:
    def body(b: Build, i: Any, a: Any, c: Any) -> Any:
        a = b(UPDATE_AT, a, b.constant(2.0), i, key=AT)
        return [a, a], [c]

    assert checked(program([], lambda b: b.scan(3, [zeros(b, STEPS), zeros(b, STEPS)], body))) == {}


def test_a_state_that_becomes_a_const() -> None:
    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        (a,) = b.scan(
            3, [zeros(b, STEPS)], lambda b, i, a, y: ([b(ADD, b(UPDATE_AT, a, b.constant(2.0), i, key=AT), y)], []), [y]
        )
        (c,) = b.scan(3, [zeros(b, STEPS)], lambda b, i, c, y: ([y], [b(UPDATE_AT, c, b.constant(2.0), i, key=AT)][:0]), [y])
        return a, b(UPDATE, c, b.constant(3.0), key=(0,)), y

    assert checked(program([tensor(STEPS)], make), np.ones(STEPS)).keys() == {"update_at_into"}


def test_loops_in_loops_fill_a_matrix() -> None:
    def make(b: Build, x: Any) -> Any:
        def row(b: Build, i: Any, a: Any) -> Any:
            def cell(b: Build, j: Any, a: Any, i: Any) -> Any:
                return [b(UPDATE_AT, a, b.constant(2.0), i, j, key=(Slot(0), Slot(1)))], []

            return b.scan(3, [a], cell, [i]), []

        return b.scan(2, [x], row)

    block = program([tensor(2, 3)], make)
    assert checked(block, np.ones((2, 3))) == {"update_at_into": 1, "copy": 1}
    assert [o.op.name for o in bufferize(block).operations] == ["copy", "scan"]


def test_branches_in_loops() -> None:
    def make(b: Build, x: Any) -> Any:
        def body(b: Build, i: Any, a: Any) -> Any:
            def write(b: Build, a: Any, i: Any) -> Any:
                return [b(UPDATE_AT, a, b.constant(2.0), i, key=AT)]

            return b.cond(b(LESS, i, b.constant(np.int32(2))), [a, i], write, lambda b, a, i: [a]), []

        return b.scan(STEPS, [x], body)

    assert checked(program([tensor(STEPS)], make), np.ones(STEPS)) == {"update_at_into": 1, "copy": 1}


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_while_loops_fill_too_and_the_test_may_look(steps: int) -> None:
    def make(b: Build, n: Any) -> Any:
        def test(b: Build, a: Any, n: Any) -> Any:
            return b(LESS, b(REDUCE_SUM, a, axis=(0,), keepdims=False), n)

        a, count = b.loop([zeros(b, 8)], test, lambda b, i, a, n: ([b(UPDATE_AT, a, b.constant(1.0), i, key=AT)], []), [n])
        return b(UPDATE, a, b.constant(9.0), key=(0,)), count

    assert checked(program([tensor()], make), np.float64(steps)) == {"update_at_into": 1, "update_into": 1}


def test_what_a_backward_loop_does() -> None:
    """A cotangent that is cleared step by step, one that is summed up, a list of cotangents."""

    def body(b: Build, i: Any, ct: Any, total: Any, parts: Any, x: Any) -> Any:
        part = b(GETITEM_AT, ct, i, key=AT, size=None)
        ct = b(UPDATE_AT, ct, b(ZEROS_LIKE, part, dtype=None), i, key=AT)
        total = b(ADD_AT, total, b(MULTIPLY, part, part), i, key=AT)
        return [ct, total, b(LIST_ADD_AT, parts, i, b(MULTIPLY, x, x))], []

    def make(b: Build, ct: Any, values: Any, x: Any) -> Any:
        start = [ct, b(ZEROS_LIKE, ct, dtype=None), b(LIST_ZEROS_LIKE, values)]
        return b.scan(STEPS, start, body, [x], reverse=True)

    block = program([tensor(STEPS), items(3), tensor(3)], make)
    done = checked(block, np.arange(4.0), TensorList([X] * STEPS), X)
    assert done == {"update_at_into": 1, "add_at_into": 1, "list_add_at_into": 1, "copy": 1}


def test_filling_costs_the_same_per_step_for_any_length() -> None:
    """Bytes allocated by the loop, counted: the peak of a loop in place is one buffer."""
    for size in (100, 1000):

        def make(b: Build, size: int = size) -> Any:
            return b.scan(size, [zeros(b, size)], lambda b, i, a: ([b(UPDATE_AT, a, b.constant(2.0), i, key=AT)], []))

        block = program([], make)
        assert peak_bytes(bufferize(block)) == 8 * size
        assert peak_bytes(block) == 2 * 8 * size


def test_a_list_grows_in_a_loop_without_copies() -> None:
    def body(b: Build, i: Any, values: Any, x: Any) -> Any:
        return [b(LIST_PUSH, values, b(MULTIPLY, x, x))], []

    def make(b: Build, x: Any, values: Any) -> Any:
        (own,) = b.scan(STEPS, [b(LIST_NEW, item=tensor(3))], body, [x])
        (given,) = b.scan(STEPS, [values], body, [x])
        return b(LIST_STACK, own, length=STEPS, item_shape=(3,)), given

    assert checked(program([tensor(3), items(3)], make), X, TensorList([X])) == {"list_push_into": 2, "list_copy": 1}


def test_accumulation_of_large_arrays() -> None:
    big = np.arange(5000.0)
    block = program([tensor(5000)], lambda b, x: b.scan(5, [zeros(b, 5000)], lambda b, i, s, x: ([b(ADD, s, x)], []), [x]))
    assert checked(block, big) == {"add_into": 1}
    assert peak_bytes(bufferize(block), big) == big.nbytes


def test_loops_over_lists_leave_the_items_alone() -> None:
    def body(b: Build, i: Any, s: Any, item: Any) -> Any:
        return [b(UPDATE, item, s, key=(0,))], [item]

    def make(b: Build, xs: Any) -> Any:
        return b.scan(2, [b.constant([5.0])], lambda b, i, s, item: ([b(UPDATE, item, s, key=(slice(0, 1),))], []), xs=[xs])

    assert checked(program([items(1)], make), TensorList([np.ones(1), np.ones(1)])) == {}


# --- errors


def test_errors_name_the_op_the_user_wrote() -> None:
    block = program([tensor(3), tensor(2)], lambda b, x, v: b(UPDATE, b(SIN, x), v, key=(slice(None),)))
    for made in (block, bufferize(block)):
        with pytest.raises(InvalidArgumentError, match=r"^update\(float64\[3\], float64\[2\]"):
            compile_block(made)(X, np.ones(2))


def test_pure_op() -> None:
    assert all(pure_op(twin) is op for op, twin in {**TWINS, **ARITHMETIC}.items())
    assert pure_op(SIN) is SIN


# --- random programs


@st.composite
def programs(draw: Any) -> tuple[Block, list[Any]]:
    """A program of sums, views, updates, lists, branches and loops on vectors of length 4 and lists of them."""
    block = Block([tensor(4), tensor(4), items(4), tensor(dtype="bool")])
    results = _grow(draw, Build(block), list(block.params[:3]), block.params[3], depth=2)
    block.give(outputs=results)
    arrays = [np.arange(4.0), np.ones(4), TensorList([np.full(4, 2.0), np.full(4, 3.0)]), np.bool_(draw(st.booleans()))]
    return block, arrays


def _grow(draw: Any, b: Build, values: list[Any], flag: Any, depth: int) -> list[Any]:
    for _ in range(draw(st.integers(1, 6))):
        arrays = [v for v in values if not isinstance(v.type, ListSpec)]
        lists = [v for v in values if isinstance(v.type, ListSpec)]
        kind = draw(st.sampled_from(["sin", "add", "view", "update", "update", "update", "push", "set", "get", "cond", "scan"]))
        x, y = draw(st.sampled_from(arrays)), draw(st.sampled_from(arrays))
        values_ = draw(st.sampled_from(lists))
        zero = lambda: b.constant(np.int32(draw(st.integers(0, 1))))  # noqa: E731
        if kind == "sin":
            values.append(b(SIN, x))
        elif kind == "add":
            values.append(b(ADD, x, y))
        elif kind == "view":
            values.append(b(RESHAPE, b(RESHAPE, x, shape=(2, 2)), shape=(4,)))
        elif kind == "update":
            part = b(GETITEM, y, key=(draw(st.integers(0, 3)),))
            values.append(b(UPDATE, x, part, key=(draw(st.integers(0, 3)),)))
        elif kind == "push":
            values.append(b(LIST_PUSH, values_, x))
        elif kind == "set":
            values.append(b(LIST_SET, values_, zero(), x))
        elif kind == "get":
            values.append(b(LIST_GET, values_, zero()))
        elif depth:
            values += _nest(draw, b, kind, values, flag, depth)
    return values[-draw(st.integers(1, 4)) :]


def _nest(draw: Any, b: Build, kind: str, values: list[Any], flag: Any, depth: int) -> list[Any]:
    chosen = [values[draw(st.integers(0, len(values) - 1))] for _ in range(3)]
    chosen += [next(v for v in values if isinstance(v.type, ListSpec) is wanted) for wanted in (True, False)]

    def region(b: Build, params: list[Any], flag: Any) -> list[Any]:
        """New versions of all parameters, by type, from what the region made."""
        pool = list(params)
        _grow(draw, b, pool, flag, depth - 1)
        return [draw(st.sampled_from([v for v in pool if type(v.type) is type(p.type)])) for p in params]

    if kind == "cond":
        branch = lambda b, flag, *ps: region(b, list(ps), flag)  # noqa: E731
        return list(b.cond(flag, [flag, *chosen], branch, branch))

    def body(b: Build, i: Any, *params: Any) -> Any:
        *state, flag = params
        given = region(b, state, flag)
        saved = [v for v in given if not isinstance(v.type, ListSpec)][: draw(st.integers(0, 1))]
        return given, saved

    return list(b.scan(draw(st.integers(0, 3)), chosen, body, [flag]))


@settings(max_examples=300 if everything() else 150, deadline=None)
@given(programs())
def test_random_programs_mean_the_same(made: tuple[Block, list[Any]]) -> None:
    block, arrays = made
    try:
        compile_block(block)(*arrays)
    except OpError as error:  # an index outside a list: the same error at the same line
        with pytest.raises(type(error), match=re.escape(str(error))):
            compile_block(bufferize(block))(*arrays)
    else:
        checked(block, *arrays)
