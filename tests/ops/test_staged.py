"""Ops that only programs contain: what they print, refuse, draw and call when a program runs."""

import io
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.dispatch import apply
from gradtape.errors import InvalidArgumentError, OutOfRangeError
from gradtape.ir.slots import Field, Slot
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import walk
from gradtape.ops import collective, dynamic, index, random_state, registry, staged
from gradtape.ops.list_values import TensorList


def printed(template: Any, *values: Any, **options: Any) -> str:
    file = io.StringIO()
    staged.PRINT.impl(*values, template=template, **{"sep": " ", "end": "\n", "file": file, **options})
    return file.getvalue()


def test_print_shows_what_python_shows() -> None:
    t, s = np.array([1.5, 2.5]), np.float32(0.125)
    tensor, scalar = gt.constant(t), gt.constant(s)
    assert printed(("a", Slot(0), 3), t) == f"a {tensor!s} 3\n"
    fields = ("x=", Field(Slot(0)), " ", Field(Slot(1), "", ".2f"), " ", Field(Slot(1), "r", ">80"))
    assert printed((fields, "end"), t, s, sep="|", end="") == f"x={tensor} {scalar:.2f} {scalar!r:>80}|end"
    assert printed((Field(Slot(0), "number"),), np.int32(3)) == "3\n"
    assert printed((Slot(0),), TensorList([s])) == f"{[scalar]}\n"


def test_assert_raises_what_was_asked_for() -> None:
    refuse = staged.ASSERT.impl
    assert refuse(np.True_, template=("never",), exception=AssertionError) == ()
    with pytest.raises(AssertionError, match=r"^n is 3$"):
        refuse(np.False_, np.int32(3), template=("n is ", Field(Slot(0))), exception=AssertionError)
    with pytest.raises(UnboundLocalError, match="cannot access"):
        refuse(np.False_, template=("cannot access y",), exception=UnboundLocalError)
    with pytest.raises(AssertionError, match=r"^$"):
        refuse(np.False_, template=(), exception=AssertionError)
    with pytest.raises(ValueError, match="ambiguous"):
        refuse(np.array([True, False]), template=(), exception=AssertionError)


def test_python_functions_are_held_to_their_types() -> None:
    call = staged.PY_CALL.impl
    double = TensorSpec((None,), "float32")
    (out,) = call(np.array([1, 2]), function=lambda t: t.numpy() * 2, types=(double,))
    assert out.dtype == np.float32
    assert out.tolist() == [2.0, 4.0]
    assert call(np.float32(1.0), function=lambda t: None, types=()) == ()
    with pytest.raises(InvalidArgumentError, match="returned 1 values, 2 were declared"):
        call(function=lambda: 1.0, types=(double, double))
    with pytest.raises(InvalidArgumentError, match="shape"):
        call(function=lambda: 1.0, types=(double,))


def test_effects_are_marked() -> None:
    effects = {op.name for op in (*registry.OPS, *registry.PROGRAM_OPS) if op.effect}
    assert effects == {"print", "assert", "draw_key", "py_call", *(op.name for op in collective.COMMUNICATIONS)}
    assert all(registry.op_by_name(op.name) is op for op in registry.PROGRAM_OPS)


def test_keys_are_fresh_and_reproducible() -> None:
    gt.random.set_seed(5)
    source = random_state.KeyStream(random_state.STATE, None)
    first, second = staged.DRAW_KEY.impl(source=source), staged.DRAW_KEY.impl(source=source)
    assert staged.DRAW_KEY.infer(source=source) == TensorSpec((2,), "uint64")
    assert first.shape == (2,)
    examples = np.zeros((4, 3), np.int8)
    each = staged.DRAW_KEY.impl(examples, source=source)
    assert staged.DRAW_KEY.infer(TensorSpec((4, 3), "int8"), source=source) == TensorSpec((4, 3, 2), "uint64")
    assert len({tuple(key) for key in each.reshape(-1, 2)}) == 12
    assert not np.array_equal(first, second)
    gt.random.set_seed(5)
    assert np.array_equal(staged.DRAW_KEY.impl(source=source), first)


def test_a_trace_gets_the_draws() -> None:
    def draws() -> Any:
        return gt.random.normal([2]), gt.random.Generator.from_seed(1).normal([2])

    program = gt.function(draws).get_concrete_function().program
    drawn = [operation for operation in walk(program.block) if operation.op is staged.DRAW_KEY]
    assert [operation.operands for operation in drawn] == [[], []]


def test_values_without_operands() -> None:
    run = staged.nullary
    assert run(staged.CONSTANT, value=np.float32(2.0)).numpy() == np.float32(2.0)
    assert run(staged.FILLED, shape=(2, 1), dtype=gt.float64, value=3).numpy().tolist() == [[3.0], [3.0]]
    assert isinstance(run(staged.FILLED, shape=(), dtype=gt.int32, value=0)._data, np.int32)
    assert run(staged.DIMS, dims=(2, 3), dtype=gt.int32).numpy().tolist() == [2, 3]
    assert staged.VOID.infer(type=TensorSpec((2,), "bool")) == TensorSpec((2,), "bool")


def test_masked_products_ignore_dead_lanes() -> None:
    ct, partial = np.array([0.0, 0.0, 2.0, np.nan]), np.array([np.inf, np.nan, 3.0, 1.0])
    with np.errstate(all="ignore"):
        out = staged.MASKED_MULTIPLY.impl(ct, partial)
        assert staged.MASKED_MULTIPLY.impl(np.float64(0.0), np.float64(np.inf)) == 0.0
        assert np.isinf(staged.MASKED_MULTIPLY.impl(np.float32(1.0), np.float32(np.inf)))
    np.testing.assert_array_equal(out, [0.0, 0.0, 6.0, np.nan])


def test_indices_of_programs_are_checked_when_they_run() -> None:
    with pytest.raises(OutOfRangeError, match="index 4 is out of bounds for axis 0 with size 3"):
        apply(dynamic.GETITEM_AT, gt.zeros([3]), 4, key=(Slot(0),), size=None)
    with pytest.raises(OutOfRangeError, match="does not match the indexed shape"):
        apply(dynamic.MASK_INDICES, gt.constant([True, False]), shape=(3,))
    with pytest.raises(IndexError, match=r"gather: index -1 is not in \[0, 3\)"):
        apply(index.CHECKED_INDICES, gt.constant([-1]), size=3, caller="gather", what="index")


def test_updates_at_a_place_twice_differentiate_the_winner_only() -> None:
    x, v, places = gt.constant(np.zeros(3)), gt.constant([1.0, 2.0, 3.0], gt.float64), gt.constant([1, 1, 0])
    with gt.GradientTape() as tape:
        tape.watch([x, v])
        y = apply(dynamic.UPDATE_AT, x, v, places, key=(Slot(0),))
        out = gt.reduce_sum(y * [5.0, 7.0, 9.0])
    dx, dv = tape.gradient(out, [x, v])
    assert y.numpy().tolist() == [3.0, 2.0, 0.0]
    assert dx.numpy().tolist() == [0.0, 0.0, 9.0]
    assert dv.numpy().tolist() == [0.0, 7.0, 5.0]


def test_batched_indices() -> None:
    table, places = gt.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), gt.constant([2, 0, -1])
    expected = [table[int(i)].numpy().tolist() for i in places]
    assert gt.vectorized_map(lambda i: table[i], places).numpy().tolist() == expected
    parts = gt.vectorized_map(lambda i: table[i : i + 1, 0], gt.constant([0, 1]))
    assert parts.numpy().tolist() == [[1.0], [3.0]]

    def written(i: Any) -> Any:
        t = gt.identity(table)
        t[i, 1] = 0.0
        return t

    found = gt.vectorized_map(written, places)
    assert found.shape == (3, 3, 2)
    assert [int(gt.math.count_nonzero(t == 0.0)) for t in found] == [1, 1, 1]


def test_the_rows_of_a_tensor_count_as_a_list() -> None:
    t = gt.constant(np.arange(6.0).reshape(2, 3))
    assert np.array_equal(gt.stack(t, 1).numpy(), t.numpy().T)
    assert np.array_equal(gt.stack(t).numpy(), t.numpy())
    assert gt.add_n(t).numpy().tolist() == [3.0, 5.0, 7.0]
