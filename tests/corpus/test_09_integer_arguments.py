"""Derivatives at integer arguments came out as zeros. They are refused, with the argument's name and the cure."""

import numpy as np
import pytest

import gradtape as gt


def f(weights, scale=1.0):
    """A scalar function."""
    return gt.reduce_sum(gt.cast(weights, gt.float64) ** 2) * scale


INTEGERS = {
    "array": (np.array([1, 2]), "int64"),
    "tensor": (gt.constant([1, 2]), "int32"),
    "number": (3, "the Python int 3"),
    "truth": (True, "the Python bool True"),
    "bools": (np.array([True, False]), "bool"),
    "list": ([1, 2], "Python int 1"),
    "variable": (gt.Variable([1, 2], name="steps"), "int32 .variable 'steps:0'"),
    "bytes": (np.array([1, 2], np.uint8), "uint8"),
}
ASKED = {
    "grad": lambda x: gt.grad(f)(x),
    "value_and_grad": lambda x: gt.value_and_grad(f)(x),
    "jacobian": lambda x: gt.jacobian(f)(x),
    "hessian": lambda x: gt.hessian(f)(x),
    "vjp": lambda x: gt.vjp(f, x),
    "jvp": lambda x: gt.jvp(f, [x], [gt.ones_like(x)]),
    "hvp": lambda x: gt.hvp(f, [x], [gt.ones_like(x)]),
}


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("asked", ASKED)
def test_integers_are_refused(asked, kind):
    value, described = INTEGERS[kind]
    with pytest.raises(TypeError, match=rf"^{asked}: argument 'weights' .*{described}.*no derivative.*astype\(float\)"):
        ASKED[asked](value)


def test_only_what_is_differentiated_must_be_floating():
    scaled = lambda x, n: gt.reduce_sum(x) * gt.cast(n, x.dtype)  # noqa: E731
    np.testing.assert_array_equal(gt.grad(scaled)(np.ones(2), np.array(3)), [3.0, 3.0])
    with pytest.raises(TypeError, match="grad: argument 'n' has dtype int64"):
        gt.grad(scaled, (0, 1))(np.ones(2), np.array(3))


def test_inside_structures_and_of_unnamed_arguments():
    with pytest.raises(TypeError, match="grad: argument 'p' has dtype int64"):
        gt.grad(lambda p: p["w"] * 2.0)({"w": gt.constant(1.0), "n": np.array(1)})
    with pytest.raises(TypeError, match="grad: argument 0 is the Python int 2"):
        gt.grad(lambda *args: args[0] * 2.0)(2)


def test_nested_derivatives_take_what_the_inner_ones_give():
    assert float(gt.grad(gt.grad(lambda x: x**3))(2.0)) == 12.0
    assert gt.hessian(f)(np.array([1.0, 2.0])).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    assert gt.grad(lambda z: gt.abs(z))(1.0 + 1.0j).dtype.is_complex
