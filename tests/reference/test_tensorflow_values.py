"""Answers of TensorFlow 2.21, written down: conventions a reader could choose otherwise, so that ours stay TensorFlow's.

Found by `python -m benchmarks.parity` and by running the same lines in both libraries. TensorFlow is not needed here.
"""

from typing import Any

import numpy as np
import pytest

import gradtape as gt


def gradients(f: Any, *values: Any) -> list[list[float] | float]:
    xs = [gt.constant(v) for v in values]
    with gt.GradientTape() as tape:
        for x in xs:
            tape.watch(x)
        y = f(*xs)
    return [g.numpy().tolist() for g in tape.gradient(y, xs)]


# -- gradients where the derivative is a convention ------------------------------------------------------------------


def test_maximum_and_minimum_give_a_tie_to_the_first_operand() -> None:
    x, y = [1.0, 2.0, 3.0], [2.0, 2.0, 2.0]
    assert gradients(gt.maximum, x, y) == [[0.0, 1.0, 1.0], [1.0, 0.0, 0.0]]
    assert gradients(gt.minimum, x, y) == [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_clip_by_value_keeps_the_gradient_at_its_limits() -> None:
    assert gradients(gt.clip_by_value, [-1.0, 0.0, 0.5, 1.0, 2.0], 0.0, 1.0) == [[0.0, 1.0, 1.0, 1.0, 0.0], 1.0, 1.0]


def test_reduce_max_shares_a_tie() -> None:
    assert gradients(gt.reduce_max, [1.0, 3.0, 3.0]) == [[0.0, 0.5, 0.5]]


# -- values ----------------------------------------------------------------------------------------------------------


def test_the_lower_limit_wins_when_limits_cross() -> None:
    assert gt.clip_by_value([0.0, 0.0], 1.0, -1.0).numpy().tolist() == [1.0, 1.0]


def test_extremes_of_nothing_are_the_neutral_elements() -> None:
    assert gt.reduce_max(gt.zeros((2, 0)), 1).numpy().tolist() == [-np.inf, -np.inf]
    assert gt.reduce_min(gt.zeros((1, 0), gt.int32), 1).numpy().tolist() == [2147483647]
    with np.errstate(divide="ignore"):
        assert gt.reduce_logsumexp(gt.zeros((0,))).numpy() == -np.inf


@pytest.mark.parametrize("operation", [gt.floordiv, gt.math.mod], ids=["floordiv", "mod"])
def test_integer_division_by_zero_is_an_error(operation: Any) -> None:
    with pytest.raises(gt.errors.InvalidArgumentError, match="integer division by zero"):
        operation(gt.constant([1, 2]), 0)


def test_scatter_can_ignore_bad_indices() -> None:
    assert gt.scatter_nd([[1], [7]], [5.0, 2.0], [3], bad_indices_policy="IGNORE").numpy().tolist() == [0.0, 5.0, 0.0]
    found = gt.tensor_scatter_nd_add([1.0, 2.0, 3.0], [[1], [7]], [5.0, 2.0], "IGNORE")
    assert found.numpy().tolist() == [1.0, 7.0, 3.0]
    with pytest.raises(ValueError, match="bad_indices_policy"):
        gt.scatter_nd([[1]], [5.0], [3], bad_indices_policy="LATER")


# -- dtypes ----------------------------------------------------------------------------------------------------------

FLOATS = gt.constant([1.0, 2.0])
INTEGERS = gt.constant([1, 2])


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (lambda: FLOATS * np.float64(2.0), gt.float32),
        (lambda: np.float64(2.0) * FLOATS, gt.float32),
        (lambda: FLOATS + np.array([1.0, 2.0]), gt.float32),
        (lambda: np.array([1.0, 2.0]) - FLOATS, gt.float32),
        (lambda: gt.Variable([1.0, 2.0]) * np.ones(2), gt.float32),
        (lambda: gt.matmul(gt.eye(2), np.eye(2)), gt.float32),
        (lambda: gt.where([True, False], FLOATS, np.zeros(2)), gt.float32),
        (lambda: gt.concat([np.zeros(2), FLOATS], 0), gt.float32),
        (lambda: gt.cast(FLOATS, gt.float16) + np.float32(1.0), gt.float16),
        (lambda: gt.cast(FLOATS, gt.float64) + np.float32(1.0), gt.float64),
        (lambda: gt.cast(FLOATS, gt.complex64) + np.array([2.5]), gt.complex64),
        (lambda: INTEGERS + np.array([1, 2]), gt.int32),
        (lambda: INTEGERS * np.int64(2), gt.int32),
        (lambda: gt.constant(5) / gt.constant(2), gt.float64),
        (lambda: gt.linspace(0, 10, 5), gt.float64),
        (lambda: gt.one_hot([0, 1], 2, on_value=2), gt.int32),
        (lambda: gt.one_hot([0, 1], 2, on_value=True, off_value=False), gt.bool),
        (lambda: gt.argmax([1, 3, 2]), gt.int64),
        (lambda: gt.argmax([1, 3, 2], output_type=gt.int32), gt.int32),
        (lambda: gt.shape(FLOATS, out_type=None), gt.int32),
        (lambda: gt.reduce_mean(INTEGERS), gt.int32),
        (lambda: gt.range(0, 1, 0.25), gt.float32),
        (
            lambda: gt.nn.softmax_cross_entropy_with_logits(
                labels=gt.constant([[0.0, 1.0]], gt.float64), logits=[[1.0, 2.0]]
            ),
            gt.float32,
        ),
    ],
)  # fmt: skip
def test_result_dtype(value: Any, dtype: Any) -> None:
    assert value().dtype == dtype


def test_numpy_values_of_a_richer_kind_or_too_large_keep_their_dtype() -> None:
    # TensorFlow cuts [1.5] to [1] and wraps 2**40 to 0 without a word
    assert (INTEGERS + np.array([1.5, 2.0])).dtype == gt.float64
    assert (INTEGERS + np.array([2**40])).numpy().tolist() == [2**40 + 1, 2**40 + 2]
    assert (FLOATS + np.array([1j, 2.0])).dtype == gt.complex128


def test_booleans_are_counted_where_tensorflow_refuses_them() -> None:
    flags = gt.constant([True, False, True, True])
    assert gt.reduce_sum(flags).numpy() == 3
    assert gt.reduce_sum(flags).dtype == gt.int32
    assert gt.reduce_mean(flags).numpy() == np.float32(0.75)
    assert gt.reduce_mean(flags).dtype == gt.float32


# -- strings, printing, shapes, names --------------------------------------------------------------------------------


def test_strings_are_bytes() -> None:
    assert gt.constant("a").numpy() == b"a"
    assert gt.constant(["a", "ü"]).numpy().tolist() == [b"a", "ü".encode()]
    assert gt.zeros((2,), gt.string).numpy().tolist() == [b"", b""]
    assert gt.zeros_like(gt.constant(["a"])).numpy().tolist() == [b""]
    assert gt.constant(["a", "b"])[1].numpy() == b"b"
    assert gt.gather(gt.constant(["a", "b"]), 0).numpy() == b"a"
    assert (gt.constant(["a", "b"]) == "a").numpy().tolist() == [True, False]
    assert bool(gt.constant("a") == "a")
    assert repr(gt.constant("a")) == "<gt.Tensor: shape=(), dtype=string, numpy=b'a'>"


def test_printed_forms() -> None:
    square = gt.constant([[1.0, 2.0], [3.0, 4.0]])
    assert str(square) == "gt.Tensor(\n[[1. 2.]\n [3. 4.]], shape=(2, 2), dtype=float32)"
    assert repr(square) == (
        "<gt.Tensor: shape=(2, 2), dtype=float32, numpy=\narray([[1., 2.],\n       [3., 4.]], dtype=float32)>"
    )
    assert repr(gt.Variable(1, name="n")) == "<gt.Variable 'n:0' shape=() dtype=int32, numpy=1>"
    assert f"{gt.constant(2.0)} {gt.constant([1.0, 2.0])}" == "2.0 [1. 2.]"
    assert repr(gt.float32) == "gt.float32"
    assert str(gt.float32) == "<dtype: 'float32'>"
    assert repr(gt.TensorSpec((2,), gt.int32, name="x")) == "TensorSpec(shape=(2,), dtype=gt.int32, name='x')"


def test_shapes_compare_with_lists_and_merge() -> None:
    shape = gt.zeros((2, 3)).shape
    assert shape == [2, 3]
    assert shape == (2, 3)
    assert shape != [2]
    assert gt.TensorShape(None) != gt.TensorShape([])
    assert gt.TensorShape([2, None]).merge_with([None, 3]) == [2, 3]
    assert gt.TensorShape(None).with_rank(2).as_list() == [None, None]
    for bad in (lambda: shape.merge_with([3, 3]), lambda: shape.with_rank(3), lambda: shape.with_rank_at_least(3)):
        with pytest.raises(ValueError, match="Shape"):
            bad()


def test_factorisations_have_named_parts() -> None:
    matrix = gt.constant([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_allclose(gt.linalg.qr(matrix).r.numpy(), [[-3.16228, -4.42719], [0.0, -0.63246]], atol=1e-5)
    assert gt.linalg.lu(matrix).p.numpy().tolist() == [1, 0]
    np.testing.assert_allclose(gt.linalg.slogdet(matrix).log_abs_determinant.numpy(), 0.6931472, rtol=1e-6)


def test_numbers_out_of_arrays_are_type_errors() -> None:
    with pytest.raises(TypeError, match="one element"):
        int(gt.constant([1.0, 2.0]))
    with pytest.raises(TypeError, match="one element"):
        complex(gt.constant([1.0, 2.0]))


def test_decorator_forms() -> None:
    @gt.custom_gradient()
    def five(x: Any) -> Any:
        return x * x, lambda upstream: upstream * 5.0

    @gt.py_function(Tout=gt.float32)
    def double(x: Any) -> Any:
        return x * 2.0

    assert gradients(five, [1.0, 2.0]) == [[5.0, 5.0]]
    assert gradients(double, [1.0, 2.0]) == [[2.0, 2.0]]
    assert gt.numpy_function(Tout=gt.float32)(np.sin)(gt.constant(0.0)).numpy() == 0.0


def test_variables_with_an_open_shape_take_other_shapes() -> None:
    v = gt.Variable([1.0, 2.0, 3.0], shape=[None])
    with gt.GradientTape(persistent=True) as tape:
        y = v * v
        v.assign([4.0, 5.0])
        z = v * v
    assert tape.gradient(y, v).numpy().tolist() == [2.0, 4.0, 6.0]
    assert tape.gradient(z, v).numpy().tolist() == [8.0, 10.0]
    assert v.numpy().tolist() == [4.0, 5.0]
    with pytest.raises(ValueError, match="shape"):
        v.assign([[1.0]])
    assert gt.Variable([1.0], shape=gt.TensorShape(None)).assign([[1.0, 2.0]]).shape == [1, 2]
