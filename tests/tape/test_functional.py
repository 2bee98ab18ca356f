"""grad, value_and_grad, jacobian, hessian, jvp, vjp, hvp: tensors or NumPy, any argument, nested."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, wide


def test_grad_and_nesting():
    f = lambda x: x**4  # noqa: E731
    close(gt.grad(f)(wide(2.0)), 32.0)
    close(gt.grad(gt.grad(f))(wide(2.0)), 48.0)
    close(gt.grad(gt.grad(gt.grad(f)))(wide(2.0)), 48.0)


def test_argnums():
    f = lambda a, b, c=1.0: a**2 * b + c  # noqa: E731
    close(gt.grad(f, 1)(wide(2.0), wide(3.0)), 4.0)
    close(gt.grad(f, -1)(wide(2.0), wide(3.0)), 4.0)
    ga, gb = gt.grad(f, (0, 1))(wide(2.0), wide(3.0), c=7.0)
    close(ga, 12.0)
    close(gb, 4.0)
    with pytest.raises(ValueError, match="argument 5"):
        gt.grad(f, 5)(wide(2.0), wide(3.0))


def test_structures_of_arguments():
    params = {"w": wide([1.0, 2.0]), "b": (wide(3.0),)}
    g = gt.grad(lambda p: gt.reduce_sum(p["w"] ** 2) * p["b"][0])(params)
    close(g["w"], [6.0, 12.0])
    close(g["b"][0], 5.0)


def test_numbers_and_variables_as_arguments():
    close(gt.grad(lambda x: x * x)(3.0), 6.0)
    v = gt.Variable(3.0)
    close(gt.grad(lambda x: x * x)(v), 6.0)


def test_unconnected_arguments_are_zeros():
    close(gt.grad(lambda x: wide(1.0))(wide([1.0, 2.0])), [0.0, 0.0])


def test_numpy_in_numpy_out():
    value, g = gt.value_and_grad(lambda x: gt.reduce_sum(x**2))(np.array([1.0, 2.0]))
    assert isinstance(g, np.ndarray)
    assert not isinstance(value, gt.Tensor)
    assert g.flags.writeable
    assert isinstance(gt.jacobian(lambda x: x**2)(np.ones(2)), np.ndarray)
    assert isinstance(gt.hessian(lambda x: gt.reduce_sum(x**2))(np.ones(2)), np.ndarray)


def test_plugs_into_scipy():
    from scipy.optimize import minimize

    def rosenbrock(x):
        return gt.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    answer = minimize(gt.value_and_grad(rosenbrock), np.zeros(4), jac=True, method="BFGS")
    close(answer.x, np.ones(4), 1e-4)


def test_has_aux():
    f = lambda x: (x * x, {"note": "kept", "twice": x * 2.0})  # noqa: E731
    (value, aux), g = gt.value_and_grad(f, has_aux=True)(wide(3.0))
    close(value, 9.0)
    close(g, 6.0)
    assert aux["note"] == "kept"
    g, aux = gt.grad(f, has_aux=True)(wide(3.0))
    close(g, 6.0)
    close(aux["twice"], 6.0)


def test_a_vector_valued_function_is_refused():
    with pytest.raises(ValueError, match="scalar"):
        gt.grad(lambda x: x * x)(wide([1.0, 2.0]))


def test_the_argument_is_not_changed_by_updates_inside():
    def f(x):
        x[0] = x[1] * 2.0
        return gt.reduce_sum(x * x)

    x = wide([1.0, 3.0])
    close(gt.grad(f)(x), [0.0, 2 * 6 * 2.0 + 6.0])
    close(x, [1.0, 3.0])


def test_jacobian_wide_and_tall():
    a = np.arange(6.0).reshape(2, 3)
    close(gt.jacobian(lambda x: gt.constant(a) @ x)(wide(np.ones(3))), a)  # rows
    close(gt.jacobian(lambda x: gt.constant(a.T) @ x)(wide(np.ones(2))), a.T)  # columns, forward mode
    close(gt.jacobian(lambda x, y: x * y, argnums=1)(wide([1.0, 2.0]), wide([3.0, 4.0])), np.diag([1.0, 2.0]))


def test_tall_jacobian_of_a_function_that_updates_its_argument():
    def f(x):
        x[0] = x[0] * x[1]
        return gt.concat([x, x**2], 0)

    close(gt.jacobian(f)(wide([2.0, 3.0])), [[3.0, 2.0], [0, 1.0], [36.0, 24.0], [0, 6.0]])


def test_tall_jacobian_with_branches_loops_and_shared_values():
    def f(x):
        t = gt.zeros(6, gt.float64)
        for i in range(6):
            t[i] = gt.sin(x[i % 2] * float(i)) if i % 3 else gt.reduce_sum(x)
        return t

    x = wide([0.4, 0.9])
    expected = np.stack([gt.grad(lambda z, i=i: f(z)[i])(x).numpy() for i in range(6)])
    close(gt.jacobian(f)(x), expected)


def test_jacobian_of_unconnected_outputs():
    close(gt.jacobian(lambda x: wide([1.0, 2.0, 3.0]))(wide([1.0, 2.0])), np.zeros((3, 2)))
    close(gt.jacobian(lambda x: wide([1.0]))(wide([1.0, 2.0])), np.zeros((1, 2)))


def test_jacobian_inside_grad_for_wide_and_tall():
    for n in (1, 2, 3):
        w = np.arange(1.0, 2 * n + 1).reshape(n, 2)
        f = lambda x, w=w: gt.sin(gt.constant(w) @ x)  # noqa: E731
        g = gt.grad(lambda x, f=f: gt.reduce_sum(gt.jacobian(f)(x) ** 2))(wide([0.3, 0.4]))
        u = w @ np.array([0.3, 0.4])
        # Σ cos²(u_i) w_ij²  →  -Σ 2 cos(u_i) sin(u_i) |w_i|² w_ik
        expected = -np.sum((2 * np.cos(u) * np.sin(u) * np.sum(w**2, 1))[:, None] * w, axis=0)
        close(g, expected)


def test_hessian():
    h = gt.hessian(lambda x: x[0] ** 2 * x[1] + x[1] ** 3)(wide([1.0, 2.0]))
    close(h, [[4.0, 2.0], [2.0, 12.0]])
    (aa, ab), (ba, bb) = gt.hessian(lambda a, b: a**2 * b, (0, 1))(wide(2.0), wide(3.0))
    for actual, expected in ((aa, 6.0), (ab, 4.0), (ba, 4.0), (bb, 0.0)):
        close(actual, expected)


def test_vjp():
    y, pull = gt.vjp(lambda a, b: {"p": a * b, "s": a + b}, wide([1.0, 2.0]), wide([3.0, 4.0]))
    close(y["p"], [3.0, 8.0])
    ga, gb = pull({"p": wide([1.0, 1.0]), "s": wide([10.0, 20.0])})
    close(ga, [13.0, 24.0])
    close(gb, [11.0, 22.0])
    ga, _ = pull({"p": wide([0.0, 1.0]), "s": None})  # again, with other weights
    close(ga, [1.0, 5.0])


def test_jvp():
    y, d = gt.jvp(lambda a, b: a * b, [wide(2.0), wide(3.0)], [wide(1.0), wide(10.0)])
    close(y, 6.0)
    close(d, 23.0)
    y, d = gt.jvp(lambda a: a * a, [np.float64(3.0)], [1.0])
    assert not isinstance(d, gt.Tensor)
    assert d == 6.0


def test_hvp():
    g, h = gt.hvp(lambda x, y: gt.reduce_sum(x**3) * y, [wide([1.0, 2.0]), wide(2.0)], [wide([1.0, 0.0]), wide(1.0)])
    close(g[0], [6.0, 24.0])
    close(h[0], [12.0 + 3.0, 12.0])
    close(h[1], 3.0)


def test_inside_a_tape_everything_is_differentiated():
    x = wide(1.5)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.grad(lambda t: gt.sin(t) * x)(x * x)
    close(tape.gradient(y, x), np.cos(2.25) - 1.5 * np.sin(2.25) * 3.0)


def test_per_example_gradients():
    w = wide([1.0, 2.0])
    x = wide([[1.0, 1.0], [2.0, 0.0], [0.0, 3.0]])
    g = gt.vectorized_map(lambda e: gt.grad(lambda p: gt.reduce_sum(p * e) ** 2)(w), x)
    d = x.numpy()
    close(g, 2 * (d @ w.numpy())[:, None] * d)


def test_elementwise_grad():
    x = np.array([0.3, 0.7, 1.1])
    f = lambda x: np.sin(x) * np.exp(x)  # noqa: E731
    first, second = gt.elementwise_grad(f), gt.elementwise_grad(gt.elementwise_grad(f))
    np.testing.assert_allclose(first(x), np.exp(x) * (np.sin(x) + np.cos(x)))
    np.testing.assert_allclose(second(x), 2 * np.exp(x) * np.cos(x))
    close(gt.elementwise_grad(gt.function(f))(wide(x)), first(x))
    a, b = gt.elementwise_grad(lambda a, b: a * b**2, (0, 1))(x, x + 1.0)
    np.testing.assert_allclose(a, (x + 1.0) ** 2)
    np.testing.assert_allclose(b, 2 * x * (x + 1.0))
    with pytest.raises(TypeError, match=r"elementwise_grad: argument 'x' has dtype int64"):
        first(np.array([1, 2]))
    with pytest.raises(TypeError, match=r"elementwise_grad: the function returned a float"):
        gt.elementwise_grad(lambda x: float(x[0]))(x)


def test_hessian_vector_product():
    x, v = np.array([0.3, 0.7, 1.1]), np.array([1.0, -2.0, 0.5])
    f = lambda x, scale=1.0: gt.reduce_sum(gt.sin(x) * x[::-1]) * scale  # noqa: E731
    expected = gt.hessian(f)(x) @ v
    np.testing.assert_allclose(gt.hessian_vector_product(f)(x, v), expected)
    close(gt.hessian_vector_product(gt.function(f))(wide(x), wide(v)), expected)
    np.testing.assert_allclose(gt.hessian_vector_product(f)(x, v, scale=2.0), 2 * expected)
    other = gt.hessian_vector_product(lambda a, x: f(x) * gt.reduce_sum(a), argnum=1)
    np.testing.assert_allclose(other(np.ones(2), x, v), 2 * expected)
    with pytest.raises(TypeError, match="the vector last"):
        gt.hessian_vector_product(f)(x)
    with pytest.raises(TypeError, match="hessian_vector_product: argument 'x' has dtype int64"):
        gt.hessian_vector_product(f)(np.array([1, 2]), v)


def test_scipy_minimises_a_function_that_gives_a_tensor() -> None:
    """Without a gradient: SciPy asks the result for its dtype's type."""
    import scipy.optimize

    found = scipy.optimize.minimize(lambda x: gt.reduce_sum((x - 1.0) ** 2), np.zeros(2)).x
    np.testing.assert_allclose(found, [1.0, 1.0], atol=1e-6)
    assert gt.float32.type is np.float32
