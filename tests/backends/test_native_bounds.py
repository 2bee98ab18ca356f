"""Indices at and beyond every bound: native code gives what eager code gives, or its error, and never leaves an array.

Checks are often made once before a loop, from the first and the last index: so with steps, products, wraparound, nested loops,
and conditions that keep an index from being used.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from gradtape.functions import compiled
from gradtape.ir.walk import program as whole_program
from tests.backends import edge_functions, edge_ops, edge_programs

BIG, LONG = 2**31 - 1, 2**63 - 1
X = np.arange(8.0)


def i32(value):
    return np.int32(value)


def i64(value):
    return np.int64(value)


def zero():
    return gt.constant(0.0, gt.float64)


def multiples(x, k, n):
    total = zero()
    for i in gt.range(n):
        total = total + x[gt.cast(i, k.dtype) * k]
    return total


def shifted(x, k, n):
    total = zero()
    for i in gt.range(n):
        total = total + x[gt.cast(i, k.dtype) + k]
    return total


def squares(x, n):
    total = zero()
    for i in gt.range(n):
        total = total + x[i * i - 3 * i]
    return total


def backwards(x, n):
    total = zero()
    for i in gt.range(n):
        total = total + x[n - 1 - i] * x[-i - 1]
    return total


def nested(x, n, m):
    total = zero()
    for i in gt.range(n):
        for j in gt.range(m):
            total = total + x[i + j]
    return total


def conditional(x, n):
    total = zero()
    for i in gt.range(n):
        if i < 8:
            total = total + x[i]
    return total


def left_early(x, n):
    total = zero()
    for i in gt.range(n):
        if i >= 8:
            break
        total = total + x[i]
    return total


def steps(x, n, d):
    i, total = gt.constant(0), zero()
    while i < n:
        total = total + x[i]
        i = i + d
    return total


def counted(x, a, b, d):
    total = zero()
    for i in gt.range(a, b, d):
        total = total + x[i]
    return total


def updates(x, n, k):
    y = gt.identity(x)
    for i in gt.range(n):
        y[i + k] = y[i] + 1.0
    return y


def slices(x, n, k):
    total = zero()
    for i in gt.range(n):
        total = total + gt.reduce_sum(x[i : i + k]) + gt.reduce_sum(x[i * k :])
    return total


def bounds(x, a, b):
    return x[a:b], x[a:b:2], x[b:a:-3], gt.reduce_sum(x[b:])


def matrix(x, n, m):
    a, total = gt.reshape(x, [2, 4]), zero()
    for i in gt.range(n):
        for j in gt.range(m):
            total = total + a[i, j] * a[n - 1 - i, -1 - j]
    return total


def of_floats(x, i):
    return x[gt.cast(i, "int32")], gt.gather(x, gt.cast(gt.stack([i, i]), "int64"))


def written_to(x, i):
    y = gt.identity(x)
    y[gt.cast(i, "int32")] = 1.0
    return y


def pieces(x, begin, size):
    return gt.slice(x, [begin], [size])


def piece_of_two(x, begin):
    return gt.slice(x, [begin], [2])


def rest(x, begin):
    return gt.slice(x, [begin], [-1])


def places(x, i):
    return x[i]


CASES = [
    (multiples, i64(2**62), i32(5)), (multiples, i64(LONG), i32(3)), (multiples, i64(-LONG - 1), i32(3)),
    (multiples, i64(1), i32(8)), (multiples, i64(1), i32(9)), (multiples, i64(-1), i32(8)), (multiples, i64(-1), i32(10)),
    (multiples, i32(2**30), i32(5)), (multiples, i32(BIG), i32(3)), (shifted, i64(LONG), i32(3)), (shifted, i64(-4), i32(8)),
    (shifted, i64(-9), i32(3)), (shifted, i64(6), i32(3)), (shifted, i32(BIG - 1), i32(5)), (shifted, i32(-BIG - 1), i32(2)),
    (squares, i32(5)), (squares, i32(6)), (backwards, i32(8)), (backwards, i32(9)), (nested, i32(4), i32(5)),
    (nested, i32(4), i32(6)), (nested, i32(0), i32(60)), (nested, i32(60), i32(0)), (conditional, i32(20)),
    (left_early, i32(20)), (steps, i32(8), i32(3)), (steps, i32(10), i32(3)), (counted, i32(0), i32(8), i32(3)),
    (counted, i32(7), i32(-1), i32(-2)), (counted, i32(-8), i32(8), i32(3)), (counted, i32(-9), i32(8), i32(3)),
    (counted, i32(0), i32(9), i32(8)), (counted, i32(0), i32(BIG), i32(2**30)), (updates, i32(6), i32(2)),
    (updates, i32(7), i32(2)), (updates, i32(3), i32(-1)), (updates, i32(3), i32(-9)), (slices, i32(20), i32(3)),
    (slices, i32(3), i32(-3)), (slices, i32(3), i32(BIG)), (bounds, i32(0), i32(10**9)), (bounds, i32(-(10**9)), i32(3)),
    (bounds, i32(4), i32(1)), (bounds, i32(-BIG - 1), i32(BIG)), (bounds, i32(BIG), i32(-BIG - 1)),
    (bounds, i64(-LONG - 1), i64(LONG)), (bounds, i64(LONG), i64(-LONG - 1)), (matrix, i32(2), i32(4)),
    (matrix, i32(3), i32(4)), (matrix, i32(2), i32(5)), (of_floats, np.float32(3.7)), (of_floats, np.float32(np.nan)),
    (of_floats, np.float32(-np.inf)), (of_floats, np.float64(1e30)), (of_floats, np.float64(-0.5)),
    (written_to, np.float32(np.nan)), (written_to, np.float32(2.5)), (written_to, np.float64(-1e30)),
    (places, np.int8(-128)), (places, np.uint8(255)), (places, np.uint8(7)), (places, i64(-LONG - 1)), (places, i64(LONG)),
    (places, np.array([0, -8, 7], np.int8)), (places, np.array([0, -9], np.int16)), (places, np.array([8], np.uint8)),
    (places, np.zeros((0, 3), np.int64)), (places, np.array([LONG])), (places, np.array([-LONG - 1])),
    (pieces, i32(6), i32(2)), (pieces, i32(-2), i32(1)), (pieces, i32(8), i32(0)), (pieces, i32(9), i32(0)),
    (pieces, i32(7), i32(2)), (piece_of_two, i32(6)), (piece_of_two, i32(7)), (piece_of_two, i32(-3)),
    (piece_of_two, i64(LONG)),
    (rest, i32(3)), (rest, i32(8)), (rest, i32(9)), (rest, i32(-1)), (rest, i64(-LONG - 1)),
]  # fmt: skip


def outcome(call, *values):
    with np.errstate(all="ignore"):
        try:
            found = gt.nest.flatten(call(*[gt.constant(value) for value in values]))
        except Exception as error:
            return type(error), str(error)
    return [tensor.numpy().tolist() for tensor in found]


COMPILED = {case[0]: gt.function(case[0], jit_compile=True) for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_an_index_is_where_eager_code_has_it_or_nowhere(case):
    function, *values = case
    assert outcome(COMPILED[function], X, *values) == outcome(function, X, *values)


@pytest.mark.parametrize("name", edge_programs.PROGRAMS)
def test_random_numbers_around_every_edge(name):
    function, _ = edge_programs.PROGRAMS[name]
    call = edge_programs.compiled(name)
    for values in edge_programs.cases(name, seed=1, draws=4 if name in edge_functions.NAMES else 10):
        assert repr(edge_programs.outcome(call, values)) == repr(edge_programs.outcome(function, values)), values


# native ops with integers whose results have sizes of run time: programs that go through them
OPEN = {"range": "of_range", "extent": "of_fill", "getitem_at": "of_strides"}


def test_every_native_op_with_integers_is_tried_around_the_edges():
    calls = edge_ops.calls()
    assert {
        "take",
        "take_add",
        "put_at",
        "one_hot",
        "list_get",
        "list_set",
        "update_at",
    } <= calls.keys()
    for name, tried in calls.items():
        assert any(edge_ops.alone(call) for call in tried) or OPEN[name] in edge_programs.PROGRAMS, name


def test_programs_around_the_edges_go_through_every_native_op_that_finds_places(monkeypatch):
    """What the functions of the table become: the ops that native code gives a place or a size from run time."""
    seen = set()
    compile_program = compiled.executable

    def spy(block, *rest, **options):
        seen.update(operation.op.name for operation in whole_program(block))
        return compile_program(block, *rest, **options)

    monkeypatch.setattr(compiled, "executable", spy)
    for name in OPEN.values():
        edge_programs.outcome(edge_programs.compiled(name), next(edge_programs.cases(name, seed=1, draws=1)))
    assert seen >= OPEN.keys()
