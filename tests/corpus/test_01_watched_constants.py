"""A tape or accumulator inside a function lost a watched value that is concrete while tracing (a constant, a variable that was
assigned a number) on its way through loops, branches, calls, custom gradients, batches and arrays.

The systematic test of programs × homes is `tests/function/test_watched_homes.py`."""

import numpy as np
import pytest

import gradtape as gt


def _agree(f, *args):
    wanted = f(*args)
    for jit in (True, False):
        got = gt.function(f, jit_compile=jit)(*args)
        for a, b in zip(got, wanted, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    return [None if r is None else float(r) for r in wanted]


def test_through_a_loop():
    def f(n):
        x = gt.constant(3.0)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in gt.range(n):
                y = y * y
            y = y + x
        return (tape.gradient(y, x),)

    assert _agree(f, gt.constant(3)) == [17497.0]


def test_a_variable_that_was_assigned_a_number():
    v = gt.Variable(1.0)

    def f(n):
        v.assign(2.0)
        with gt.GradientTape() as tape:
            y = gt.constant(1.0)
            for _ in gt.range(n):
                y = y * v
        return (tape.gradient(y, v),)

    assert _agree(f, gt.constant(3)) == [12.0]


@pytest.mark.parametrize("mode", ["none", "zero"])
def test_unconnected_is_what_is_not_connected(mode):
    def f(n):
        x, z = gt.constant(3.0), gt.constant(4.0)
        with gt.GradientTape() as tape:
            tape.watch([x, z])
            y = gt.cond(n > 1, lambda: x * x, lambda: x)
        return tuple(tape.gradient(y, [x, z], unconnected_gradients=mode))

    assert _agree(f, gt.constant(3)) == [6.0, None if mode == "none" else 0.0]


def test_forward_mode():
    def f(n):
        x = gt.constant(3.0)
        with gt.autodiff.ForwardAccumulator(x, gt.constant(1.0)) as accumulator:
            y = x
            for _ in gt.range(n):
                y = y * x
        return y, accumulator.jvp(y)

    assert _agree(f, gt.constant(2)) == [27.0, 27.0]


def test_equal_constants_are_watched_apart():
    def f(n):
        a, b, c = gt.constant(2.0), gt.constant(2.0), gt.constant(2.0)
        with gt.GradientTape() as tape:
            tape.watch([a, b])
            y = gt.constant(1.0)
            for _ in gt.range(n):
                y = y * a + b * b + c
        return tuple(tape.gradient(y, [a, b]))

    assert _agree(f, gt.constant(2)) == [10.0, 12.0]


ARRAY = np.array([2.0, 3.0])


def test_one_array_as_two_tensors():
    """Both are one value of the program; only one of them is watched."""

    def f(n):
        a, b = gt.constant(ARRAY), gt.constant(ARRAY)
        with gt.GradientTape() as tape:
            tape.watch(a)
            y = b
            for _ in gt.range(n):
                if n > 1:
                    y = y * a + b
        return (gt.reduce_sum(tape.gradient(y, a)),)

    _agree(f, gt.constant(3))


CAPTURED = gt.constant([1.0, 2.0])


def test_what_was_lifted_is_what_it_was_afterwards():
    def f(n):
        with gt.GradientTape() as tape:
            tape.watch(CAPTURED)
            y = CAPTURED
            for _ in gt.range(n):
                y = y * CAPTURED
        return (gt.reduce_sum(tape.gradient(y, CAPTURED)),)

    wanted = float(f(gt.constant(2))[0])
    for autograph in (True, False):
        g = gt.function(f, autograph=autograph) if autograph else gt.function(_unconverted, autograph=False)
        assert float(g(gt.constant(2))[0]) == wanted
        assert type(CAPTURED) is gt.Tensor
        assert CAPTURED.numpy().tolist() == [1.0, 2.0]


def _unconverted(n):
    with gt.GradientTape() as tape:
        tape.watch(CAPTURED)
        y = gt.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * CAPTURED), [gt.constant(0), CAPTURED])[1]
    return (gt.reduce_sum(tape.gradient(y, CAPTURED)),)


def test_a_captured_tensor_is_read_at_each_call():
    holder = gt.constant([1.0, 2.0])

    def f(n):
        with gt.GradientTape() as tape:
            tape.watch(holder)
            y = gt.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * holder), [gt.constant(0), holder])[1]
        return gt.reduce_sum(tape.gradient(y, holder))

    compiled = gt.function(f, autograph=False)
    assert float(compiled(gt.constant(1))) == float(f(gt.constant(1))) == 6.0
    holder[0] = 5.0
    assert float(compiled(gt.constant(1))) == float(f(gt.constant(1))) == 14.0
