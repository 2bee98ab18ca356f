"""recompute_grad: the same numbers with less memory."""

import tracemalloc

import numpy as np

import gradtape as gt
from tests.harness.memory import tracing
from tests.tape.util import check_orders, close, wide


def block(x):
    for _ in range(10):
        x = gt.sin(x) * 1.1
    return x


def peak_of(work):
    with tracing():
        work()
        return tracemalloc.get_traced_memory()[1]


def test_it_really_frees_memory():
    n = 20_000
    x = gt.Variable(np.ones(n))

    def run(wrap):
        with gt.GradientTape() as tape:
            y = x
            for _ in range(10):
                y = wrap(block)(y)
            y = gt.reduce_sum(y)
        return tape.gradient(y, x)

    close(run(gt.recompute_grad), run(lambda f: f))
    plain, less = peak_of(lambda: run(lambda f: f)), peak_of(lambda: run(gt.recompute_grad))
    assert plain > 90 * n * 8
    assert less < 40 * n * 8


def test_first_and_second_order():
    check_orders(lambda x: gt.reduce_sum(gt.recompute_grad(lambda t: gt.exp(t) * gt.sin(t[0]))(x) ** 2), [0.3, 0.7])


def test_several_arguments_results_and_keywords():
    def f(a, b, *, c):
        return {"s": a * b + c, "p": (a * c,)}

    a, b, c = wide(2.0), wide(3.0), wide(4.0)
    with gt.GradientTape() as tape:
        tape.watch([a, b, c])
        out = gt.recompute_grad(f)(a, b, c=c)
        y = out["s"] * out["p"][0]  # (ab + c)·ac
    ga, gb, gc_ = tape.gradient(y, [a, b, c])
    close(ga, 3 * 8.0 + 10 * 4.0)
    close(gb, 2 * 8.0)
    close(gc_, 8.0 + 10 * 2.0)


def test_variables_read_inside():
    v, x = gt.Variable(np.float64(3.0)), wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.recompute_grad(lambda t: gt.sin(t * v) * v)(x)
    gx, gv = tape.gradient(y, [x, v])
    close(gx, np.cos(6.0) * 9.0)
    close(gv, np.cos(6.0) * 2.0 * 3.0 + np.sin(6.0))


def test_a_variable_assigned_between_the_two_runs():
    v, x = gt.Variable(np.float64(3.0)), wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.recompute_grad(lambda t: gt.sin(t * v))(x)
        v.assign(100.0)
        z = y * 2.0
    gx, gv = tape.gradient(z, [x, v])
    close(gx, 2 * np.cos(6.0) * 3.0)
    close(gv, 2 * np.cos(6.0) * 2.0)
    close(v, 100.0)


def test_an_untrainable_variable_assigned_between_the_two_runs():
    v, x = gt.Variable(np.float64(3.0), trainable=False), wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.recompute_grad(lambda t: t * v)(x)
        v.assign(100.0)
    close(tape.gradient(y, x), 3.0)
    close(v, 100.0)


def test_state_written_inside_is_written_once():
    count, x = gt.Variable(0, trainable=False), wide(2.0)

    def f(t):
        count.assign_add(1)
        return t * t * gt.cast(count, gt.float64)

    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.recompute_grad(f)(x)
    close(tape.gradient(y, x), 4.0)
    assert int(count) == 1


def test_forward_mode():
    x, t = wide([0.3, 0.9]), wide([1.0, -2.0])
    with gt.autodiff.ForwardAccumulator(x, t) as acc:
        y = gt.recompute_grad(lambda z: gt.exp(z) * z[::-1])(x)
    d = x.numpy()
    close(acc.jvp(y), np.exp(d) * t.numpy() * d[::-1] + np.exp(d) * t.numpy()[::-1])


def test_forward_over_recomputed_reverse():
    x, t = wide(0.5), wide(2.0)
    with gt.autodiff.ForwardAccumulator(x, t) as acc:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.recompute_grad(lambda z: gt.sin(z * z))(x)
        g = tape.gradient(y, x)
    close(g, np.cos(0.25) * 1.0)
    close(acc.jvp(g), 2.0 * (2 * np.cos(0.25) - np.sin(0.25)))


def test_nested():
    f = gt.recompute_grad(lambda t: gt.recompute_grad(lambda s: gt.exp(s * 0.5))(t * t))
    check_orders(lambda x: gt.reduce_sum(f(x)), [0.3, 0.7])


def test_inside_a_vectorized_map():
    x = wide([0.3, 0.7, 1.1])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.vectorized_map(gt.recompute_grad(lambda t: gt.sin(t) * t), x)
    d = x.numpy()
    close(tape.gradient(y, x), np.sin(d) + d * np.cos(d))


def test_under_a_jacobian():
    x = wide([0.3, 0.7])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.recompute_grad(lambda t: gt.sin(t) * t[0])(x)
    d = x.numpy()
    close(tape.jacobian(y, x), np.diag(np.cos(d) * d[0]) + np.outer(np.sin(d), [1.0, 0.0]))


def test_unwatched_arguments_cost_nothing():
    f = gt.recompute_grad(lambda t: gt.sin(t))
    with gt.GradientTape() as tape:
        y = f(wide(1.0))
        assert len(tape.records) == 0
    close(y, np.sin(1.0))


def test_a_function_that_updates_its_argument():
    def f(t):
        t[0] = t[0] * t[1]
        return gt.reduce_sum(t * t)

    x = wide([2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        h = x * 1.0
        y = gt.recompute_grad(f)(h)
    close(y, 36.0 + 9.0)
    close(h, [6.0, 3.0])
    close(tape.gradient(y, x), [2 * 6 * 3.0, 2 * 6 * 2.0 + 6.0])


def test_watched_tensors_captured_by_the_function():
    x, w = wide(2.0), wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch([x, w])
        h = w * w
        y = gt.recompute_grad(lambda t: gt.sin(t * h) * w)(x)
    gx, gw = tape.gradient(y, [x, w])
    close(gx, np.cos(18.0) * 27.0)
    close(gw, np.cos(18.0) * 2.0 * 6.0 * 3.0 + np.sin(18.0))


def test_captured_and_given_at_once_counts_once():
    check_orders(lambda x: gt.reduce_sum(gt.recompute_grad(lambda t: t * gt.sin(x))(x)), [0.3, 0.8])


def test_second_order_with_captured_values():
    check_orders(lambda x: gt.reduce_sum(gt.recompute_grad(lambda t: t * gt.sin(x * t))(x[::-1] * 2.0)), [0.3, 0.8])


def test_a_captured_value_returned_as_it_is():
    x, w = wide(2.0), wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch([x, w])
        a, b = gt.recompute_grad(lambda t: (t * 2.0, w))(x)
        y = a * b
    gx, gw = tape.gradient(y, [x, w])
    close(gx, 6.0)
    close(gw, 4.0)


def test_a_captured_value_in_a_vectorized_map():
    x, w = wide([0.3, 0.7, 1.1]), wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch([x, w])
        y = gt.vectorized_map(gt.recompute_grad(lambda t: gt.sin(t * w)), x)
    gx, gw = tape.gradient(y, [x, w])
    d = x.numpy()
    close(gx, 2 * np.cos(2 * d))
    close(gw, np.sum(d * np.cos(2 * d)))


def test_a_variable_that_carries_a_watched_value():
    x, v = wide(1.3), gt.Variable(np.float64(0.0), trainable=False)
    with gt.GradientTape() as tape:
        tape.watch(x)
        v.assign(x * x)
        y = gt.recompute_grad(lambda t: t * v)(x)
        v.assign(5.0)
    close(tape.gradient(y, x), 3 * 1.3**2)
