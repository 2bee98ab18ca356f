"""Derivatives written by the user: keywords, captured variables, methods, nesting, higher orders."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, wide


def test_the_rule_is_used():
    @gt.custom_gradient
    def clipped(x):
        return x * x, lambda upstream: gt.clip_by_value(upstream * 2.0 * x, -1.0, 1.0)

    x = gt.Variable([0.25, 5.0])
    with gt.GradientTape() as tape:
        y = clipped(x) * 3.0
    close(tape.gradient(y, x), [1.0, 1.0])


def test_stable_log_one_plus_exp():
    @gt.custom_gradient
    def log1pexp(x):
        e = gt.exp(x)
        return gt.math.log(1 + e), lambda upstream: upstream * (1 - 1 / (1 + e))

    x = gt.constant(100.0)
    with np.errstate(over="ignore"), gt.GradientTape() as tape:
        tape.watch(x)
        y = log1pexp(x)
    with np.errstate(all="ignore"):
        close(tape.gradient(y, x), 1.0)


def test_several_arguments_and_results():
    @gt.custom_gradient
    def f(x, y):
        def grad(a, b):
            return a * 10.0 + b, b * 100.0

        return (x + y, x * y), grad

    x, y = wide(2.0), wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch([x, y])
        s, p = f(x, y)
        z = s + 2.0 * p
    gx, gy = tape.gradient(z, [x, y])
    close(gx, 12.0)
    close(gy, 200.0)


def test_a_result_that_is_not_used_brings_zeros():
    seen = []

    @gt.custom_gradient
    def f(x):
        def grad(a, b):
            seen.append((a.numpy(), b.numpy()))
            return a + b

        return (x * 1.0, x * gt.ones(2, gt.float64)), grad

    x = wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y, _ = f(x)

    with pytest.raises(ValueError, match="shape"):
        tape.gradient(y, x)  # a + b has the shape of b
    close(seen[0][0], 1.0)
    close(seen[0][1], [0.0, 0.0])


def test_keyword_arguments():
    @gt.custom_gradient
    def f(x, *, scale, shift=1.0):
        def grad(upstream):
            return upstream * scale * 10.0, upstream * x * 100.0

        return x * scale + shift, grad

    x, s = wide(2.0), wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch([x, s])
        y = f(x, scale=s)
    gx, gs = tape.gradient(y, [x, s])
    close(gx, 30.0)
    close(gs, 200.0)


def test_structures_as_arguments_and_results():
    @gt.custom_gradient
    def f(pair):
        def grad(upstream):
            return {"a": upstream * 7.0, "b": upstream * 8.0}

        return {"out": pair["a"] * pair["b"]}, grad

    a, b = wide(2.0), wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch([a, b])
        y = f({"a": a, "b": b})["out"]
    ga, gb = tape.gradient(y, [a, b])
    close(ga, 7.0)
    close(gb, 8.0)


def test_two_captured_variables_are_differentiated_automatically():
    w, b = gt.Variable(np.float64(3.0)), gt.Variable(np.float64(5.0))

    @gt.custom_gradient
    def f(x):
        return x * w * w + b, lambda upstream: upstream * 1000.0

    x = wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x) * 2.0
    gx, gw, gb = tape.gradient(y, [x, w, b])
    close(gx, 2000.0)
    close(gw, 2 * 2.0 * 2 * 3.0)
    close(gb, 2.0)


def test_captured_variables_with_the_users_own_gradients_in_order_of_use():
    w, b = gt.Variable(np.float64(3.0), name="w"), gt.Variable(np.float64(5.0), name="b")

    @gt.custom_gradient
    def f(x):
        def grad(upstream, variables=None):
            assert [v.name for v in variables] == [b.name, w.name]
            return upstream, [upstream * 10.0, upstream * 20.0]

        return x * (b * 1.0) * w, grad

    x = wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    gw, gb = tape.gradient(y, [w, b])
    close(gb, 10.0)
    close(gw, 20.0)


def test_a_variable_as_argument_is_an_argument():
    w = gt.Variable(np.float64(3.0))

    @gt.custom_gradient
    def f(v):
        return v * v, lambda upstream: upstream * 50.0

    with gt.GradientTape() as tape:
        y = f(w)
    close(tape.gradient(y, w), 50.0)


def test_a_captured_variable_assigned_between_keeps_its_value():
    w = gt.Variable(np.float64(3.0))

    @gt.custom_gradient
    def f(x):
        return x * w * w, lambda upstream: upstream

    x = wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
        w.assign(100.0)
    close(tape.gradient(y, w), 2.0 * 2 * 3.0)


def test_methods():
    class Layer:
        def __init__(self, factor):
            self.factor = factor

        @gt.custom_gradient
        def plain(self, x):
            return x * self.factor, lambda upstream: (None, upstream * 2.0 * self.factor)

        def bound(self, x):
            return x * self.factor, lambda upstream: upstream * 3.0 * self.factor

    layer, x = Layer(5.0), wide(2.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = layer.plain(x)
        z = gt.custom_gradient(layer.bound)(x)
    close(tape.gradient(y, x), 10.0)
    close(tape.gradient(z, x), 15.0)


def test_none_means_no_gradient():
    @gt.custom_gradient
    def f(x, y):
        return x * y, lambda upstream: (upstream * 5.0, None)

    x, y = wide(2.0), wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch([x, y])
        z = f(x, y)
    gx, gy = tape.gradient(z, [x, y])
    close(gx, 5.0)
    assert gy is None


def test_second_order_honours_the_users_rule():
    @gt.custom_gradient
    def f(x):
        return x * x, lambda upstream: upstream * x**4  # not 2x

    x = wide(2.0)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        g = inner.gradient(y, x)
    close(g, 16.0)
    close(outer.gradient(g, x), 32.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    close(tape.gradient(tape.gradient(y, x), x), 32.0)


def test_nested_custom_gradients_at_second_order():
    @gt.custom_gradient
    def slope(x, upstream):
        def grad(outer):
            return outer * 1000.0, outer * 1.0

        return upstream * x**4, grad

    @gt.custom_gradient
    def f(x):
        return x * x, lambda upstream: slope(x, upstream)

    x = wide(2.0)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        g = inner.gradient(y, x)
    close(g, 16.0)
    close(outer.gradient(g, x), 1000.0)


def test_custom_inside_custom():
    @gt.custom_gradient
    def inner(x):
        return x * 1.0, lambda upstream: upstream * 7.0

    @gt.custom_gradient
    def outer(x):
        h = inner(x)

        def grad(upstream):
            return upstream * 11.0

        return h * 2.0, grad

    w = gt.Variable(np.float64(1.0))

    @gt.custom_gradient
    def around(x):
        return inner(w) * x, lambda upstream: upstream

    x = wide(3.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = outer(x)
        z = around(x)
    close(tape.gradient(y, x), 11.0)
    close(tape.gradient(z, w), 7.0 * 3.0)


def test_inside_a_vectorized_map_the_rule_is_honoured_by_inner_and_outer_tapes():
    @gt.custom_gradient
    def f(x):
        return x * x, lambda upstream: upstream * 100.0 * x

    x = wide([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.vectorized_map(f, x)
    close(y, [1.0, 4.0, 9.0])
    close(tape.gradient(y, x), [100.0, 200.0, 300.0])

    def per_example(t):
        with gt.GradientTape() as inner:
            inner.watch(t)
            z = f(t) * 2.0
        return inner.gradient(z, t)

    close(gt.vectorized_map(per_example, x), [200.0, 400.0, 600.0])


def test_inside_a_vectorized_map_a_shared_argument_gets_the_sum():
    @gt.custom_gradient
    def f(x, w):
        return x * w, lambda upstream: (upstream * 10.0, upstream * x)

    x, w = wide([1.0, 2.0, 3.0]), wide(5.0)
    with gt.GradientTape() as tape:
        tape.watch([x, w])
        y = gt.vectorized_map(lambda t: f(t, w), x)
    gx, gw = tape.gradient(y, [x, w])
    close(gx, [10.0, 10.0, 10.0])
    close(gw, 6.0)


def test_under_a_jacobian():
    @gt.custom_gradient
    def f(x):
        return x**2, lambda upstream: upstream * 5.0 * x

    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    close(tape.jacobian(y, x), np.diag([5.0, 10.0]))


def test_numpy_inside_a_custom_gradient():
    @gt.custom_gradient
    def f(x):
        value = np.sinc(x.numpy())
        return gt.constant(value), lambda upstream: upstream * gt.constant(np.gradient(value))

    x = wide([0.1, 0.2, 0.4])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    close(tape.gradient(y, x), np.gradient(np.sinc(x.numpy())))


@pytest.mark.parametrize(("answer", "text"), [
    (lambda u: (u, u), "2 gradients for 1"), (lambda u: gt.ones(3, gt.float64), r"shape \(3,\).*\(\)"),
])  # fmt: skip
def test_wrong_answers_of_the_rule(answer, text):
    @gt.custom_gradient
    def named(x):
        return x * 1.0, answer

    x = wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = named(x)
    with pytest.raises(ValueError, match=f"named.*{text}"):
        tape.gradient(y, x)


def test_a_function_that_returns_no_rule():
    @gt.custom_gradient
    def careless(x):
        return x * 2.0

    with pytest.raises(TypeError, match=r"careless.*\(result, grad_fn\)"):
        careless(wide(1.0))


def test_without_a_tape_it_is_the_function():
    @gt.custom_gradient
    def f(x):
        return x * 2.0, lambda upstream: upstream

    close(f(wide(3.0)), 6.0)
    assert f.__name__ == "f"


def test_straight_through():
    x = gt.Variable(2.6)
    with gt.GradientTape() as tape:
        y = gt.grad_pass_through(gt.round)(x) ** 2
    close(tape.gradient(y, x), 6.0)


def test_stop_gradient():
    x = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = gt.stop_gradient(x * x) * x
    close(tape.gradient(y, x), 9.0)


def test_py_function_is_recorded():
    x = wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        a, b = gt.py_function(lambda t: (t * t, t + 1.0), [x], [gt.float64, gt.float64])
        y = a * b
    close(tape.gradient(y, x), 6.0 * 4.0 + 9.0)


def test_numpy_function_has_no_derivative_and_cannot_corrupt_its_input():
    def spoil(a):
        a[0] = 100.0
        return a

    x = wide([1.0, 2.0])
    out = gt.numpy_function(spoil, [x], gt.float64)
    close(out, [100.0, 2.0])
    close(x, [1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.numpy_function(np.sin, [x], gt.float64) * 2.0
    assert tape.gradient(y, x) is None


def test_numpy_function_inside_a_custom_gradient():
    @gt.custom_gradient
    def f(x):
        y = gt.numpy_function(np.sin, [x], gt.float64)
        return y, lambda upstream: upstream * gt.cos(x)

    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    close(tape.gradient(y, x), np.cos(x.numpy()))


def test_a_function_that_updates_its_argument():
    @gt.custom_gradient
    def f(t):
        t[0] = 0.0
        return gt.reduce_sum(t), lambda upstream: upstream * wide([5.0, 6.0])

    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        h = x * 1.0
        y = f(h)
    close(tape.gradient(y, x), [5.0, 6.0])
