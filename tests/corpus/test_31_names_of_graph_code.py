"""Names that code written for TensorFlow's functions uses and that were missing."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import agree


def slices_in_a_loop(x, n):
    s = gt.IndexedSlices(x, gt.constant([0, 1, 1]), dense_shape=[3])
    for _ in gt.range(n):
        s = gt.IndexedSlices(gt.sin(s.values) * 1.5, s.indices, dense_shape=[3])
    return gt.convert_to_tensor(s), s.values


def slices_in_while_loop(x, n):
    start = gt.IndexedSlices(x, gt.constant([0, 1, 1]), dense_shape=[3])

    def body(i, s):
        return i + 1, gt.IndexedSlices(s.values * s.values, (s.indices + 1) % 3, dense_shape=[3])

    _, s = gt.while_loop(lambda i, s: i < n, body, (gt.constant(0), start))
    return gt.convert_to_tensor(s)


@pytest.mark.parametrize("function", [slices_in_a_loop, slices_in_while_loop])
def test_indexed_slices_as_loop_variable(function):
    agree(function, ([0.3, -0.7, 1.2], gt.constant(3)), ([0.3, -0.7, 1.2], gt.constant(0)))


def test_concrete_functions_can_be_looked_at():
    v, w = gt.Variable([1.0, 2.0], name="v"), gt.Variable(3.0, trainable=False, name="w")

    @gt.function
    def f(x, scale=2.0):
        return {"y": x * v * scale + w}

    concrete = f.get_concrete_function(gt.TensorSpec([2], gt.float32))
    assert [a is b for a, b in zip(concrete.variables, (v, w), strict=True)] == [True, True]
    assert [x.name for x in concrete.trainable_variables] == ["v:0"]
    assert concrete.captured_inputs[0] is v
    assert list(concrete.function_type.parameters) == ["x", "scale"]
    assert concrete.function_type.parameters["x"].annotation == gt.TensorSpec([2], gt.float32, name="x")
    assert concrete.function_type.return_annotation["y"].shape == (2,)
    assert concrete.pretty_printed_signature(verbose=False) == "f(x, scale=2.0)"
    assert "returns: {'y': TensorSpec(shape=(2,)" in concrete.pretty_printed_signature()
    graph = concrete.graph
    assert [spec.shape for spec in graph.inputs] == [(2,)]
    assert {"multiply", "add"} <= {operation.type for operation in graph.get_operations()}
    names = [operation.name for operation in graph.get_operations()]
    assert len(set(names)) == len(names)


def abs_by_hand(x):
    if x > 0:
        return x * x
    return -x


def test_to_graph():
    converted = gt.autograph.to_graph(abs_by_hand)
    agree(lambda x: converted(x) * 1.0, (0.7,), (-0.7,))
    f = gt.function(converted, autograph=False)
    assert [float(f(gt.constant(x))) for x in (3.0, -2.0)] == [9.0, 2.0]
    with pytest.raises(TypeError, match="to_graph needs a Python function, got 3"):
        gt.autograph.to_graph(3)


def test_identity_n_and_shape_n():
    def f(x):
        a, b = gt.identity_n([x, x * x])
        return a * b, [s[0] for s in gt.shape_n([x, a])]

    agree(f, ([0.3, 0.4],))
    assert gt.shape_n([gt.ones([2, 3])], out_type=gt.int64)[0].dtype == gt.int64
    for function in (gt.identity_n, gt.shape_n):
        with pytest.raises(TypeError, match="`input` must be a list of tensors, got float"):
            function(1.0)


def test_get_static_value():
    seen = []

    @gt.function
    def f(x):
        seen.append((gt.get_static_value(x), gt.get_static_value(gt.constant([1, 2]))))
        return x

    f(gt.constant(1.0))
    assert seen[0][0] is None
    np.testing.assert_array_equal(seen[0][1], [1, 2])
    np.testing.assert_array_equal(gt.get_static_value(gt.Variable([1.0])), [1.0])


def test_variable_creator_scope():
    asked = []

    def outer(next_creator, **kwargs):
        asked.append(("outer", sorted(kwargs)))
        return next_creator(**kwargs)

    def inner(next_creator, **kwargs):
        asked.append(("inner", sorted(kwargs)))
        return next_creator(**{**kwargs, "trainable": False, "name": "made"})

    with gt.variable_creator_scope(outer), gt.variable_creator_scope(inner):
        v = gt.Variable(2.0, dtype=gt.float64)
    assert asked == [("inner", ["dtype", "initial_value"]), ("outer", ["dtype", "initial_value", "name", "trainable"])]
    assert (v.name, v.trainable, float(v), v.dtype) == ("made:0", False, 2.0, gt.float64)
    assert gt.Variable(1.0).trainable
    with gt.variable_creator_scope(lambda next_creator, **kwargs: v):
        assert gt.Variable(5.0) is v
    assert float(v) == 2.0
    with (
        pytest.raises(TypeError, match="`variable_creator` must be a function, got 3"),
        gt.variable_creator_scope(3),
    ):
        pass


def test_variable_creator_scope_in_a_function():
    made = []

    @gt.function
    def f(x):
        if not made:
            with gt.variable_creator_scope(lambda next_creator, **kwargs: next_creator(**{**kwargs, "name": "w"})):
                made.append(gt.Variable(2.0))
        return made[0] * x

    assert [float(f(gt.constant(3.0))) for _ in range(2)] == [6.0, 6.0]
    assert made[0].name == "w:0"
