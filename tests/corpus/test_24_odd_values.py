"""Values at the edge that crashed: empty lists, other byte orders, single strings, odd questions about dtypes."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt


@pytest.mark.parametrize("dtype", [gt.int32, gt.uint8, gt.int64, gt.float16, gt.bool, gt.complex64])
@pytest.mark.parametrize("value", [[], [[]], [[], []]])
def test_empty_lists_of_any_dtype(dtype, value):
    t = gt.constant(value, dtype=dtype)
    assert t.dtype == dtype
    assert t.shape == np.shape(value)


@pytest.mark.parametrize("name", ["10%", "(2,", "f4,", "no such type", "2f4", "{'a'", ""])
def test_dtypes_are_compared_with_any_text(name):
    assert (gt.float32 == name) is False
    assert (gt.float32 != name) is True
    with pytest.raises((TypeError, ValueError), match="dtype"):
        gt.as_dtype(name)


FOREIGN = [">f8", ">f4", ">i4", ">u2", ">c16", ">f2"]


@pytest.mark.parametrize("dtype", FOREIGN)
def test_arrays_of_the_other_byte_order(dtype):
    data = np.arange(1, 7).reshape(2, 3).astype(dtype)
    native = data.astype(data.dtype.newbyteorder("="))
    functions = [
        gt.reduce_sum, gt.reduce_mean, gt.reduce_prod, lambda x: gt.add(x, x), lambda x: gt.matmul(x, gt.transpose(x)),
        gt.cumsum, lambda x: gt.gather(x, 1), lambda x: gt.concat([x, x], 0), gt.square, gt.identity,
    ]  # fmt: skip
    for f in functions:
        expected = f(native).numpy()
        for g in (f, lambda x, f=f: f(gt.constant(x)), lambda x, f=f: f([x[0], x[1]]), gt.function(f)):
            result = g(data)
            np.testing.assert_array_equal(result.numpy(), expected)
            assert result.dtype == gt.as_dtype(expected.dtype)
    assert gt.Variable(data).numpy().dtype.isnative
    if native.dtype.kind in "fc":
        x = gt.constant(data)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(gt.math.real(x * data))
        assert tape.gradient(y, x).numpy().dtype.isnative


def test_single_strings_join():
    assert (gt.constant("a") + gt.constant("b")).numpy() == b"ab"
    assert (gt.constant("a") + "b").numpy() == b"ab"
    assert ("a" + gt.constant(["b", "c"])).numpy().tolist() == [b"ab", b"ac"]
    joined = gt.constant(["a", "b"])[0] + gt.gather(gt.constant(["x", "y"]), 1)
    assert joined.numpy() == b"ay"
    assert joined.shape == ()
    assert joined.dtype == gt.string
    assert gt.reduce_sum(gt.constant(["a", "b"])).numpy() == b"ab"
    assert bool(joined == "ay")
    with pytest.raises(TypeError, match="multiply"):
        gt.constant("a") * gt.constant("b")
    with pytest.raises(TypeError, match="strings are opaque data"):
        gt.constant("a") + 1.0


def test_arrays_of_strings():
    array = gt.TensorArray(gt.string, 2)
    array = array.write(0, "x").write(1, gt.constant("y") + "z")
    assert array.stack().numpy().tolist() == [b"x", b"yz"]
    assert array.read(1).numpy() == b"yz"


def test_the_error_of_an_index_has_a_public_name():
    for call in (lambda: gt.gather([1.0, 2.0], [5]), lambda: gt.gather_nd([1.0, 2.0], [[5]])):
        with pytest.raises(gt.errors.InvalidArgumentError) as caught:
            call()
        assert type(caught.value) is gt.errors.InvalidIndexError
        assert isinstance(caught.value, IndexError)
