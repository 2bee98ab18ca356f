"""The reference backend on blocks made by hand, against NumPy."""

from __future__ import annotations

import gc
import inspect
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradtape.backends.numpy import compile_block
from gradtape.core.opdef import Op
from gradtape.errors import InternalError, InvalidArgumentError, OutOfRangeError
from gradtape.ir.dims import symbol
from gradtape.ir.graph import Block, Operation
from gradtape.ops.compare import GREATER, LESS
from gradtape.ops.elementwise import ADD, EXP, MULTIPLY, NEGATIVE, SIN, SUBTRACT
from gradtape.ops.index import GETITEM, UPDATE
from gradtape.ops.list_values import TensorList
from gradtape.ops.lists import LIST_GET, LIST_NEW, LIST_PUSH, LIST_STACK
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.ops.shape import BROADCAST_TO, RESHAPE
from gradtape.ops.sorting import UNIQUE
from gradtape.ops.staged import ASSERT, FILLED, PY_CALL, VOID
from gradtape.ops.structured import CUSTOM, SCAN
from gradtape.passes.bufferize import bufferize
from tests.backends.build import INT, Build, items, program, tensor

X = np.array([1.0, 2.0, 3.0])


def run(block: Block, *arrays: Any) -> Any:
    results = compile_block(block)(*arrays)
    return results[0] if len(results) == 1 else results


# --- straight lines


def test_straight_line() -> None:
    block = program([tensor(3), tensor(3)], lambda b, x, y: [b(ADD, b(SIN, x), b(MULTIPLY, x, y)), y], ["x", "y"])
    total, same = compile_block(block)(X, 2 * X)
    np.testing.assert_array_equal(total, np.sin(X) + 2 * X * X)
    assert same[1] == 4.0


def test_source_reads_like_the_program() -> None:
    executable = compile_block(program([tensor(3)], lambda b, x: b(SIN, b(MULTIPLY, x, x)), ["x"]), "wave")
    lines = executable.source.splitlines()
    assert any("x_2 * x_2" in line and "test_numpy.py:" in line for line in lines)
    assert any("= sin(" in line for line in lines)
    assert repr(executable) == "<executable wave>"


def test_scalars_stay_numpy_scalars() -> None:
    out = run(program([tensor()], lambda b, x: b(MULTIPLY, x, b.constant(3.0))), np.float64(2.0))
    assert out == 6.0
    assert type(out) is np.float64


def test_no_results_and_no_params() -> None:
    assert compile_block(program([], lambda b: []))() == ()
    assert run(program([], lambda b: b.constant([1.0, 2.0]))).tolist() == [1.0, 2.0]


def test_an_unused_parameter_and_an_unused_result() -> None:
    def make(b: Build, x: Any, y: Any) -> Any:
        b(SIN, x)
        return b(NEGATIVE, x)

    np.testing.assert_array_equal(run(program([tensor(3), tensor(3)], make), X, X), -X)


def test_the_same_value_twice() -> None:
    a, b = compile_block(program([tensor(3)], lambda b, x: [x, x]))(X)
    assert a is b is X


def test_several_results_of_one_op() -> None:
    block = program([tensor(4)], lambda b, x: b(UNIQUE, x, dtype="int32", by_value=False, equal_nan=True))
    first, places, *_ = compile_block(block)(np.array([2.0, 1.0, 2.0, 1.0]))
    assert first.tolist() == [0, 1]
    assert places.tolist() == [0, 1, 0, 1]


def test_attributes_that_are_arrays() -> None:
    key = (np.array([2, 0]),)
    block = program([tensor(3)], lambda b, x: [b.block.append(Operation(GETITEM, [x], [tensor(2)], {"key": key})).result])
    assert run(block, X).tolist() == [3.0, 1.0]


def test_void_is_never_read() -> None:
    def make(b: Build, x: Any) -> Any:
        nothing = b.block.append(Operation(VOID, [], [tensor(3)], {"type": tensor(3)})).result
        state, *_ = b.scan(2, [nothing], lambda b, i, s, x: ([b(SIN, x)], []), [x])
        return state

    np.testing.assert_array_equal(run(program([tensor(3)], make), X), np.sin(X))


def test_names_that_are_taken() -> None:
    block = program(
        [tensor(3)] * 4, lambda b, *xs: b(ADD, b(SIN, xs[0]), b(ADD, xs[1], b(ADD, xs[2], xs[3]))), ["sin", "int32", "def", "é"]
    )
    np.testing.assert_array_equal(run(block, X, X, X, X), np.sin(X) + (X + (X + X)))


def test_ops_of_one_name() -> None:
    twice = replace(SIN, impl=lambda x: 2 * x)
    block = program([tensor(3)], lambda b, x: b(twice, b(SIN, x)))
    np.testing.assert_array_equal(run(block, X), 2 * np.sin(X))


def test_floating_point_events_are_silent() -> None:
    with np.errstate(all="raise"):
        assert run(program([tensor(1)], lambda b, x: b(EXP, x)), np.array([1e4]))[0] == np.inf


def test_programs_are_freed_without_the_garbage_collector() -> None:
    callee = program([tensor(3)], lambda b, x: b(SIN, x))
    big = np.ones(3)

    def make(b: Build, x: Any) -> Any:
        return b(ADD, b.call(callee, x)[0], b.block.append(_constant(big)).result)

    gc.disable()
    try:
        executable = compile_block(program([tensor(3)], make))
        executable(X)
        gone = weakref.ref(executable._run)
        del executable
        assert gone() is None
    finally:
        gc.enable()


def _constant(value: Any) -> Operation:
    from gradtape.ops.staged import CONSTANT

    return Operation(CONSTANT, [], [tensor(*value.shape)], {"value": value})


# --- branches


def choice(b: Build, p: Any, x: Any, y: Any) -> Any:
    return b.cond(p, [x, y], lambda b, x, y: [b(ADD, x, y), x], lambda b, x, y: [b(SUBTRACT, x, y), y])


@pytest.mark.parametrize("flag", [True, False])
def test_cond(flag: bool) -> None:
    block = program([tensor(dtype="bool"), tensor(3), tensor(3)], choice)
    total, same = compile_block(block)(np.bool_(flag), X, 2 * X)
    np.testing.assert_array_equal(total, X + 2 * X if flag else X - 2 * X)
    np.testing.assert_array_equal(same, X if flag else 2 * X)


@pytest.mark.parametrize("flag", [True, False])
def test_cond_that_gives_constants_repeats_and_nothing(flag: bool) -> None:
    def make(b: Build, p: Any, x: Any) -> Any:
        def then(b: Build, x: Any) -> Any:
            y = b(SIN, x)
            return [y, y, b.constant([1.0]), x]

        out = b.cond(p, [x], then, lambda b, x: [x, b(SIN, x), b.constant([2.0]), x])
        b.cond(p, [], lambda b: [], lambda b: [])
        return out

    a, c, k, same = compile_block(program([tensor(dtype="bool"), tensor(3)], make))(np.bool_(flag), X)
    np.testing.assert_array_equal(a, np.sin(X) if flag else X)
    np.testing.assert_array_equal(c, np.sin(X))
    assert k.tolist() == ([1.0] if flag else [2.0])
    assert same is X


@pytest.mark.parametrize("flags", [(True, True), (True, False), (False, True), (False, False)])
def test_cond_in_cond_and_one_operand_twice(flags: tuple[bool, bool]) -> None:
    def make(b: Build, p: Any, q: Any, x: Any) -> Any:
        y = b(EXP, x)

        def then(b: Build, q: Any, u: Any, v: Any) -> Any:
            return b.cond(q, [u, v], lambda b, u, v: [b(ADD, u, v)], lambda b, u, v: [u])

        return b.cond(p, [q, y, y], then, lambda b, q, u, v: [b(NEGATIVE, v)])

    block = program([tensor(dtype="bool")] * 2 + [tensor(3)], make)
    p, q = flags
    want = (2 * np.exp(X) if q else np.exp(X)) if p else -np.exp(X)
    np.testing.assert_array_equal(run(block, np.bool_(p), np.bool_(q), X), want)


# --- loops


def powers(b: Build, x: Any, limit: Any) -> Any:
    """x, x², x⁴, … while the sum is below the limit."""
    return b.loop(
        [x],
        lambda b, x, limit: b(LESS, b(REDUCE_SUM, x, axis=(0,), keepdims=False), limit),
        lambda b, i, x, limit: ([b(MULTIPLY, x, x)], [x, i]),
        [limit],
    )


@pytest.mark.parametrize(("limit", "count"), [(98.0, 2), (0.0, 0), (100.0, 3)])
def test_while(limit: float, count: int) -> None:
    state, steps, seen, places = compile_block(program([tensor(3), tensor()], powers))(X, np.float64(limit))
    np.testing.assert_array_equal(state, X ** (2**count))
    assert steps == count
    assert type(steps) is np.int32
    assert type(seen) is TensorList
    assert [s.tolist() for s in seen] == [(X ** (2**k)).tolist() for k in range(count)]
    assert places == list(range(count))
    assert all(type(p) is np.int32 for p in places)
    assert X.tolist() == [1.0, 2.0, 3.0]


def test_while_with_swapped_and_shifted_state() -> None:
    def make(b: Build, x: Any, y: Any, n: Any) -> Any:
        return b.loop([x, y, n], lambda b, x, y, n: b(GREATER, n, b.constant(np.int32(0))),
                      lambda b, i, x, y, n: ([y, x, b(SUBTRACT, n, b.constant(np.int32(1)))], []))[:2]  # fmt: skip

    block = program([tensor(3), tensor(3), INT], make)
    for n in range(4):
        a, c = compile_block(block)(X, -X, np.int32(n))
        assert (a[0], c[0]) == ((1.0, -1.0) if n % 2 == 0 else (-1.0, 1.0))


def running(b: Build, i: Any, total: Any, step: Any, *xs: Any) -> Any:
    total = b(ADD, total, b(MULTIPLY, step, xs[0]) if xs else step)
    return [total], [total, i]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [3, 0, 1])
@pytest.mark.parametrize("dynamic", [False, True])
def test_scan(length: int, reverse: bool, dynamic: bool) -> None:
    def make(b: Build, total: Any, step: Any, xs: Any, n: Any) -> Any:
        return b.scan(n if dynamic else length, [total], running, [step], [xs], reverse)

    block = program([tensor(3), tensor(3), items(3), INT], make)
    xs = TensorList([X + k for k in range(length)])
    total, ys, places = compile_block(block)(X, 2 * X, xs, np.int32(length))
    want, seen = X, {}
    for k in reversed(range(length)) if reverse else range(length):
        want = want + 2 * X * xs[k]
        seen[k] = want
    np.testing.assert_array_equal(total, want)
    assert type(ys) is TensorList
    assert [y.tolist() for y in ys] == [seen[k].tolist() for k in range(length)]
    assert places == list(range(length))


def test_scan_that_ignores_everything() -> None:
    def make(b: Build, x: Any, xs: Any) -> Any:
        return b.scan(3, [x], lambda b, i, s, c, item: ([c], []), [x], [xs])

    np.testing.assert_array_equal(run(program([tensor(3), items(3)], make), X, TensorList([X] * 3)), X)


def test_loops_in_branches_in_loops() -> None:
    def inner(b: Build, i: Any, s: Any, x: Any) -> Any:
        def deep(b: Build, s: Any, x: Any, i: Any) -> Any:
            return b.scan(2, [s], lambda b, j, s, x: ([b(ADD, s, x)], []), [x])

        (s,) = b.cond(b(GREATER, i, b.constant(np.int32(0))), [s, x, i], deep, lambda b, s, x, i: [b(NEGATIVE, s)])
        return [s], [s]

    out, ys = compile_block(program([tensor(3)], lambda b, x: b.scan(3, [x], inner, [x])))(X)
    np.testing.assert_array_equal(out, -X + 4 * X)
    assert [y[0] for y in ys] == [-1.0, 1.0, 3.0]


@pytest.mark.parametrize("kind", ["cond", "scan", "while"])
def test_deeper_than_python_allows(kind: str) -> None:
    def nest(depth: int) -> Any:
        if depth == 0:
            return lambda b, x: b(ADD, x, b.constant(1.0))

        def make(b: Build, x: Any) -> Any:
            if kind == "cond":
                return b.cond(b(GREATER, x, b.constant(0.0)), [x], lambda b, x: [nest(depth - 1)(b, x)], lambda b, x: [x])[0]
            if kind == "scan":
                return b.scan(1, [x], lambda b, i, x: ([nest(depth - 1)(b, x)], []))[0]
            return b.loop([x], lambda b, x: b(LESS, x, b.constant(2.0)), lambda b, i, x: ([nest(depth - 1)(b, x)], []))[0]

        return make

    assert run(program([tensor()], nest(45)), np.float64(1.0)) == 2.0


def test_lists() -> None:
    def make(b: Build, x: Any) -> Any:
        def body(b: Build, i: Any, values: Any, x: Any) -> Any:
            return [b(LIST_PUSH, values, b(MULTIPLY, b(LIST_GET, values, i), x))], []

        values, *_ = b.scan(3, [b(LIST_NEW, x, item=None)], body, [x])
        return b(LIST_STACK, values, length=4, item_shape=(3,)), values

    stacked, values = compile_block(program([tensor(3)], make))(X)
    np.testing.assert_array_equal(stacked, [X, X**2, X**3, X**4])
    assert type(values) is TensorList


# --- calls


def test_calls_share_one_function() -> None:
    callee = program([tensor(3), tensor(3)], lambda b, x, y: [b(ADD, x, y), b(SIN, x)], name="both ways")

    def make(b: Build, x: Any) -> Any:
        total, wave = b.call(callee, x, x)
        again, _ = b.call(callee, total, wave)
        return again

    executable = compile_block(program([tensor(3)], make))
    np.testing.assert_array_equal(executable(X)[0], 2 * X + np.sin(X))
    assert executable.source.count("def both_ways") == 1


def test_calls_in_calls_and_loops() -> None:
    inner = program([tensor(3)], lambda b, x: b(SIN, x), name="inner")
    outer = program([tensor(3)], lambda b, x: b.scan(2, [x], lambda b, i, x: ([b.call(inner, x)[0]], [])), name="outer")
    block = program([tensor(3)], lambda b, x: b.call(outer, b.call(inner, x)[0]))
    np.testing.assert_array_equal(run(block, X), np.sin(np.sin(np.sin(X))))


# --- symbolic dimensions

N = symbol("n")


def test_dimensions_come_from_the_values() -> None:
    def make(b: Build, x: Any) -> Any:
        flat = b(RESHAPE, x, shape=(N * 2,))
        return b(BROADCAST_TO, flat, shape=(3, 2 * N)), b(GETITEM, flat, key=(slice(None, 2 * N - 1),))

    block = program([tensor(N, 2)], make)
    executable = compile_block(block)
    for n in (1, 2, 5):
        wide, most = executable(np.ones((n, 2)))
        assert wide.shape == (3, 2 * n)
        assert most.shape == (2 * n - 1,)


def test_dimensions_in_regions_and_callees() -> None:
    callee = Block([tensor(2)], name="wide")
    wide = Build(callee)(BROADCAST_TO, callee.params[0], shape=(N, 2))
    callee.give(outputs=[wide])  # needs n, which no parameter of its own has

    def make(b: Build, x: Any, y: Any) -> Any:
        def body(b: Build, i: Any, s: Any, y: Any) -> Any:
            return [b(ADD, s, b.call(callee, y)[0])], [b(FILLED, shape=(N,), dtype="float64", value=2.0)]

        return b.scan(N, [x], body, [y])

    executable = compile_block(program([tensor(N, 2), tensor(2)], make))
    for n in (0, 3):
        total, ys = executable(np.zeros((n, 2)), np.array([1.0, 2.0]))
        np.testing.assert_array_equal(total, n * np.ones((n, 1)) * [1.0, 2.0])
        assert [y.shape for y in ys] == [(n,)] * n


@pytest.mark.parametrize("flag", [True, False])
def test_a_dimension_that_differs_by_branch(flag: bool) -> None:
    m = symbol("m")

    def make(b: Build, p: Any, x: Any) -> Any:
        def cut(stop: int) -> Any:
            def make(b: Build, x: Any) -> Any:
                return [b.block.append(Operation(GETITEM, [x], [tensor(m)], {"key": (slice(0, stop),)})).result]

            return make

        (part,) = b.cond(p, [x], cut(2), cut(3))
        return b(BROADCAST_TO, part, shape=(2, m))

    assert run(program([tensor(dtype="bool"), tensor(3)], make), np.bool_(flag), X).shape == (2, 2 if flag else 3)


def test_a_dimension_nobody_has() -> None:
    with pytest.raises(InternalError, match="no value of the program has the dimension n"):
        compile_block(program([], lambda b: b(FILLED, shape=(N,), dtype="float64", value=1.0)))


def test_a_list_knows_the_type_of_its_items() -> None:
    block = program([tensor(N), INT], lambda b, x, n: b.scan(n, [], lambda b, i, x: ([], [x]), [x]))
    assert run(block, X, np.int32(0)).item == tensor(3)


# --- effects


def recorder(seen: list[Any]) -> Any:
    def note(b: Build, x: Any) -> None:
        b(PY_CALL, x, function=lambda t: seen.append(t.numpy().tolist()), types=())

    return note


def test_effects_keep_their_order() -> None:
    seen: list[Any] = []
    note = recorder(seen)

    def make(b: Build, x: Any, p: Any) -> Any:
        note(b, x)

        def body(b: Build, i: Any, s: Any) -> Any:
            note(b, i)
            s = b(ADD, s, s)
            note(b, s)
            return [s], []

        def then(b: Build, s: Any) -> Any:
            note(b, s)
            return []

        s, *_ = b.scan(2, [x], body)
        b.cond(p, [s], then, lambda b, s: [])
        note(b, b.constant(np.int32(9)))
        return s

    run(program([tensor(), tensor(dtype="bool")], make), np.float64(1.0), np.bool_(True))
    assert seen == [1.0, 0, 2.0, 1, 4.0, 4.0, 9]


# --- errors


def line_of(function: Any, text: str) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


def test_errors_are_those_of_eager_code_with_the_line() -> None:
    def make(b: Build, x: Any, i: Any) -> Any:
        values = b(LIST_NEW, x, item=None)
        return b(LIST_GET, values, i)  # here

    with pytest.raises(
        OutOfRangeError, match=r"list index out of range: 7 in a list of length 1, at .*test_numpy.py:\d+"
    ) as found:
        run(program([tensor(3), INT], make), X, np.int32(7))
    assert found.value.gradtape_location == (__file__, line_of(make, "# here"))  # type: ignore[attr-defined]


def test_errors_of_numpy_are_explained() -> None:
    def make(b: Build, x: Any, y: Any) -> Any:
        def body(b: Build, i: Any, s: Any, y: Any) -> Any:
            return [b.block.append(Operation(ADD, [s, y], [tensor(N)])).result], []

        return b.scan(1, [x], body, [y])

    with pytest.raises(InvalidArgumentError, match=r"^add\(float64\[3\], float64\[2\]\): .*could not be broadcast"):
        run(program([tensor(N), tensor(symbol("k"))], make), X, np.ones(2))


def test_attributes_in_messages_are_numbers() -> None:
    def make(b: Build, x: Any) -> Any:
        return b.block.append(Operation(RESHAPE, [x], [tensor(N, 2)], {"shape": (N, 2)})).result

    with pytest.raises(InvalidArgumentError, match=r"^reshape\(float64\[3\], shape=\(3, 2\)\): cannot reshape"):
        run(program([tensor(N)], make), X)


def test_errors_in_callees_have_the_inner_line() -> None:
    def inner(b: Build, x: Any, i: Any) -> Any:
        return b(LIST_GET, b(LIST_NEW, x, item=None), i)  # inner

    callee = program([tensor(3), INT], inner)
    with pytest.raises(IndexError) as found:
        run(program([tensor(3), INT], lambda b, x, i: b.call(callee, x, i)), X, np.int32(3))
    assert found.value.gradtape_location == (__file__, line_of(inner, "# inner"))  # type: ignore[attr-defined]


def test_an_assertion_keeps_its_words() -> None:
    def make(b: Build, p: Any) -> Any:
        b(ASSERT, p, template=("not so",), exception=AssertionError)
        return []

    with pytest.raises(AssertionError) as found:
        compile_block(program([tensor(dtype="bool")], make))(np.bool_(False))
    assert str(found.value) == "not so"
    assert found.value.gradtape_location.line == line_of(make, "ASSERT")  # type: ignore[attr-defined]
    assert found.value.__notes__ == [f"at {found.value.gradtape_location}"]  # type: ignore[attr-defined]


def failing(error: BaseException) -> Op:
    def impl(x: Any) -> Any:
        raise error

    return replace(SIN, impl=impl)


def test_other_errors_keep_their_traceback_and_get_a_note() -> None:
    with pytest.raises(AttributeError, match=r"^broken") as found:
        run(program([tensor(3)], lambda b, x: b(failing(AttributeError("broken")), x)), X)
    assert "impl" in [entry.name for entry in found.traceback]
    assert found.value.__notes__[0].startswith("at ")  # type: ignore[attr-defined]


def test_an_interrupt_passes() -> None:
    with pytest.raises(KeyboardInterrupt) as found:
        run(program([tensor(3)], lambda b, x: b(failing(KeyboardInterrupt()), x)), X)
    assert "gradtape_location" not in found.value.__dict__


def test_errors_of_a_nested_program_are_located_once() -> None:
    inner = compile_block(program([tensor(3), INT], lambda b, x, i: b(LIST_GET, b(LIST_NEW, x, item=None), i)))
    nested = replace(SIN, impl=lambda x: inner(x, np.int32(5))[0])
    with pytest.raises(OutOfRangeError) as found:
        run(program([tensor(3)], lambda b, x: b(nested, x)), X)
    assert str(found.value).count(", at ") == 1


def test_a_value_with_a_derivative_of_its_own_is_the_value() -> None:
    def make(b: Build, x: Any) -> Any:
        y = b(SIN, x)
        vjp = Block([tensor(3)], layout={"cts": 1, "consts": 0}).give(grads=[])
        groups = {"inputs": 1, "values": 1, "consts": 0}
        made = Operation(CUSTOM, [x, y], [tensor(3)], {"places": (0,)}, {"vjp": vjp}, None, groups, {"outputs": 1})
        return b(UPDATE, b.block.append(made).result, b.constant(7.0), key=(0,))

    block = program([tensor(3)], make)
    for made in (block, bufferize(block)):
        assert run(made, X).tolist() == [7.0, np.sin(2.0), np.sin(3.0)]


def test_a_missing_structured_meaning() -> None:
    unknown = replace(SCAN, name="spin")
    block = Block([tensor(3)])
    block.append(Operation(unknown, block.params, [], {}, {"body": Block()}))
    with pytest.raises(InternalError, match="does not know the structured op spin"):
        compile_block(block)
