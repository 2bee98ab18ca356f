"""Arrays of other libraries lost their dtype: float64 data of anything but an ndarray silently became float32, and integers
became int32 or int64 by what was in them."""

import array

import numpy as np
import pytest

import gradtape as gt


class Series:
    """As pandas objects: `__array__` and nothing else."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype) if copy else np.asarray(self.values, dtype)


class Capsule:
    """An array that speaks DLPack only."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


class Interface:
    """An array that shows its memory with NumPy's older protocol."""

    def __init__(self, values):
        self.values = values

    @property
    def __array_interface__(self):
        return self.values.__array_interface__


KINDS = {"array": Series, "dlpack": Capsule, "interface": Interface}
DTYPES = ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "bool", "complex64",
          "complex128"]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_dtype_is_kept(kind, dtype):
    values = np.array([[1, 0, 1], [1, 1, 0]], dtype)
    wrapped = KINDS[kind](values)
    for make in (gt.constant, gt.convert_to_tensor, gt.Variable, gt.identity, lambda w: gt.reshape(w, (2, 3))):
        assert make(wrapped).dtype.name == dtype
        np.testing.assert_array_equal(make(wrapped).numpy(), values)


@pytest.mark.parametrize("kind", KINDS)
def test_in_lists_too(kind):
    wrap = KINDS[kind]
    for dtype in ("float64", "int64", "int8", "float32"):
        parts = [np.array([1, 2], dtype), np.array([3, 4], dtype)]
        tensor = gt.constant([wrap(p) for p in parts])
        assert tensor.dtype.name == dtype
        np.testing.assert_array_equal(tensor.numpy(), parts)
        assert gt.constant([[wrap(np.array(1, dtype))], [wrap(np.array(2, dtype))]]).dtype.name == dtype


def test_buffers():
    for code, name in (("d", "float64"), ("f", "float32"), ("b", "int8"), ("q", "int64")):
        assert gt.constant(array.array(code, [1, 2])).dtype.name == name
        assert gt.constant(memoryview(array.array(code, [1, 2]))).dtype.name == name


@pytest.mark.parametrize("kind", KINDS)
def test_they_promote_as_numpy_arrays_do(kind):
    """Beside a tensor they take its dtype, beside a Python number they decide."""
    for dtype in ("float64", "int64", "int16"):
        values = np.array([1, 2], dtype)
        wrapped = KINDS[kind](values)
        for other in (gt.constant([0.5, 0.5]), gt.constant([2, 2]), gt.constant(np.array([0.5, 0.5])), 2, 0.5):
            for combine in (gt.multiply, gt.maximum, lambda a, b: gt.add(b, a)):
                assert combine(wrapped, other).dtype == combine(values, other).dtype, (dtype, other)


def test_values_are_copied():
    values = np.array([1.0, 2.0])
    for wrap in (*KINDS.values(), memoryview):
        tensor = gt.constant(wrap(values))
        values[0] = 7.0
        assert tensor.numpy()[0] == 1.0
        values[0] = 1.0


def test_python_numbers_keep_the_defaults():
    assert gt.constant([1.0, 2.0]).dtype == gt.float32
    assert gt.constant([1, 2]).dtype == gt.int32
    assert gt.constant(range(3)).dtype == gt.int32
    assert gt.constant([2**40]).dtype == gt.int64


def test_what_is_no_array_is_refused():
    with pytest.raises(TypeError, match="of type object to a tensor"):
        gt.constant(object())
    with pytest.raises(ValueError, match="dtype object"):
        gt.constant(Series(np.array([1.0, object()])))


@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_keep_double_precision(kind):
    x = KINDS[kind](np.array([0.1, 0.2]))
    _value, slope = gt.value_and_grad(lambda t: gt.reduce_sum(gt.sin(t)))(x)
    np.testing.assert_array_equal(np.asarray(slope), np.cos([0.1, 0.2]))


# -- in functions ------------------------------------------------------------------------------------------------------

MAKERS = {**KINDS, "buffer": memoryview, "array.array": lambda values: array.array("d", values)}


@pytest.mark.parametrize("kind", MAKERS)
def test_as_arguments_they_are_tensors(kind):
    """They were static objects: each one traced the function again, or failed where an operator met it."""

    @gt.function
    def total(x, more):
        return gt.reduce_sum(x * 2.0 + more["x"])

    for k in range(3):
        values = np.array([1.0, 2.0]) * k
        result = total(MAKERS[kind](values), {"x": MAKERS[kind](values)})
        assert (result.dtype, float(result)) == (gt.float64, 9.0 * k)
    assert total.experimental_get_tracing_count() == 1
    slope = gt.grad(lambda x: total(x, {"x": MAKERS[kind](np.ones(2))}))(MAKERS[kind](np.ones(2)))
    np.testing.assert_array_equal(np.asarray(slope), [2.0, 2.0])


@pytest.mark.parametrize("kind", KINDS)
def test_captured_they_are_read_at_each_call(kind):
    """They were constants of the first call."""
    held = KINDS[kind](np.array([1.0, 2.0]))
    box = {"held": held}
    scaled = gt.function(lambda x: x * held + x * box["held"])
    x = gt.constant(np.array([1.0, 10.0]))
    np.testing.assert_array_equal(scaled(x), [2.0, 40.0])
    held.values = np.array([3.0, 4.0])
    np.testing.assert_array_equal(scaled(x), [6.0, 80.0])
    assert scaled.experimental_get_tracing_count() == 1
    held.values = np.array([3])
    np.testing.assert_array_equal(scaled(x), [6.0, 60.0])


@pytest.mark.parametrize("kind", ["ndarray", *KINDS])
def test_captured_they_promote_as_outside_a_function(kind):
    held = KINDS.get(kind, np.asarray)(np.array([1.0, 2.0]))
    for x in (gt.constant([1.0, 1.0]), gt.constant(np.ones(2))):
        for combine in (
            lambda x: x * held,
            lambda x: gt.maximum(held, x),
            lambda x: gt.matmul(x[None], gt.reshape(held, (2, 1))),
        ):
            if kind != "ndarray" or combine(x).dtype == x.dtype:
                assert gt.function(combine)(x).dtype == combine(x).dtype


class Words:
    """An array, but not of numbers."""

    def __array__(self, dtype=None, copy=None):
        return np.array(["a", object()], object)


def test_what_has_no_numbers_stays_a_python_object():
    words = Words()
    assert float(gt.function(lambda x, w: x if w is words else -x)(gt.constant(1.0), words)) == 1.0
