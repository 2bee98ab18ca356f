"""What derivatives of programs promise beyond their numbers: connections, residuals, effects, orders, modes.

The numbers of many programs are compared in `test_programs.py`.
"""

# ruff: noqa: SIM108  (loops and branches as users write them)

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

import gradtape as gt
from gradtape.ad.reverse import split
from gradtape.ir.types import ListSpec
from gradtape.ir.verify import verify
from gradtape.ir.walk import program
from tests.ad import checks
from tests.harness.tolerances import SINGLE, same_array

VECTOR = np.array([0.3, -0.7, 1.1])


def block_of(f, *args):
    """The traced program of a function."""
    return gt.function(f).get_concrete_function(*args)._traced.program.block


def halves(f, *args, wanted=(0,)):
    """The program of a function in two halves, with respect to its first result; both well formed."""
    found = split(block_of(f, *args), set(wanted), [0])
    verify(found.forward)
    verify(found.backward)
    return found


def ops_of(block):
    return [operation.op.name for operation in program(block)]


# -- connections -----------------------------------------------------------------------------------------------------------


def test_unconnected_inputs_have_no_gradient():
    @gt.function
    def f(x, y, n, limit):
        s = gt.reduce_sum(x)
        i = gt.constant(0)
        while i < n and s < limit:
            s = s * 2.0 + gt.stop_gradient(gt.reduce_sum(y))
            i += 1
        if s > 3.0:
            s = s * s
        return s, gt.reduce_sum(y)

    x, y, limit = gt.constant(VECTOR), gt.constant(VECTOR), gt.constant(100.0, gt.float64)
    with gt.GradientTape() as tape:
        tape.watch([x, y, limit])
        s, _ = f(x, y, gt.constant(3), limit)
    found = tape.gradient(s, [x, y, limit])
    assert found[0] is not None
    assert found[1] is None
    assert found[2] is None


def test_connection_is_that_of_the_output_asked_for():
    @gt.function
    def f(x, y):
        a, b = x, y
        for _ in gt.range(3):
            a, b = a * 2.0, gt.sin(b)
        return a, b

    x, y = gt.constant(VECTOR), gt.constant(VECTOR)
    for inside in (False, True):

        def gradients(x, y):
            with gt.GradientTape(persistent=True) as tape:
                tape.watch([x, y])
                a, b = f(x, y)
            return tape.gradient(a, [x, y]), tape.gradient(b, [x, y])

        of_a, of_b = (gt.function(gradients) if inside else gradients)(x, y)
        assert of_a[1] is None or not of_a[1].numpy().any()
        assert of_b[0] is None or not of_b[0].numpy().any()
        same_array(of_a[0].numpy(), np.full(3, 8.0), 1e-12, "of a")


def test_no_gradient_inside_a_function_is_none_too():
    @gt.function
    def f(x, y):
        with gt.GradientTape() as tape:
            tape.watch([x, y])
            z = x
            for _ in gt.range(2):
                z = z * x
        found = tape.gradient(z, [x, y])
        return found[1] is None, found[0]

    none, g = f(gt.constant(VECTOR), gt.constant(VECTOR))
    assert bool(none)
    same_array(g.numpy(), 3.0 * VECTOR**2, 1e-12, "gradient")


def test_integers_and_bools_have_no_gradient():
    @gt.function
    def f(n, flag, x):
        for i in gt.range(n):
            if flag:
                x = x * gt.cast(i + 1, gt.float64)
        return x

    n, flag, x = gt.constant(3), gt.constant(True), gt.constant(VECTOR)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(n, flag, x)
    same_array(tape.gradient(y, x).numpy(), np.full(3, 6.0), 1e-12, "gradient")


# -- residuals -------------------------------------------------------------------------------------------------------------


def saved(f, *args, wanted=(0,)):
    return halves(f, *args, wanted=wanted).saved


def test_linear_loops_save_nothing_per_iteration():
    def f(x, w):
        for _ in gt.range(5):
            x = x * w + 1.0
        return gt.reduce_sum(x)

    types = saved(f, gt.constant(VECTOR), gt.constant(VECTOR))
    assert not any(isinstance(t, ListSpec) for t in types), types


def test_loop_invariants_are_saved_once():
    """w, and what is computed from it and the index, is not saved for each iteration: only x is."""

    def f(x, w):
        for i in gt.range(5):
            x = gt.sin(x) * gt.exp(w * gt.cast(i, gt.float64))
        return gt.reduce_sum(x)

    types = saved(f, gt.constant(VECTOR), gt.constant(VECTOR))
    assert sum(isinstance(t, ListSpec) for t in types) == 1, types


def test_the_index_is_free():
    """An element of an array at the index: neither the index nor the element is saved."""

    def f(x, w):
        s = gt.constant(0.0, gt.float64)
        for i in gt.range(3):
            if i > 0:
                s = s * w[i - 1] + x[i]
        return s

    types = saved(f, gt.constant(VECTOR), gt.constant(VECTOR))
    assert not any(isinstance(t, ListSpec) and t.item.dtype.is_integer for t in types), types


def test_cheap_values_are_computed_again():
    """A transposed, cast or compared value is not saved beside the value it comes from."""

    def f(x):
        for _ in gt.range(3):
            y = gt.transpose(x)
            x = gt.where(x > 0.0, x * gt.transpose(y), -x)
        return gt.reduce_sum(x)

    types = [t for t in saved(f, gt.constant(np.ones((2, 2)))) if isinstance(t, ListSpec)]
    assert [t.item.dtype for t in types].count(gt.float64) == 1, types


def test_calls_with_recompute_save_their_inputs_only():
    inner = gt.recompute_grad(lambda v: gt.sin(gt.exp(v) * gt.cos(v)))

    def f(x):
        return gt.reduce_sum(inner(x))

    def plain(x):
        return gt.reduce_sum(gt.sin(gt.exp(x) * gt.cos(x)))

    assert len(saved(f, gt.constant(VECTOR))) == 1
    assert len(saved(plain, gt.constant(VECTOR))) > 1


def test_branches_save_for_both_but_placeholders_are_small():
    def f(x):
        return gt.reduce_sum(gt.exp(x) * 2.0 if x[0] > 0.0 else gt.tanh(x))

    found = halves(f, gt.constant(VECTOR))
    assert ops_of(found.forward).count("void") == 2
    assert len(found.saved) == 3  # the flag, exp(x), tanh(x)


# -- effects ---------------------------------------------------------------------------------------------------------------


def printed(run):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        run()
    return out.getvalue().split()


def speak(x):
    for i in gt.range(3):
        print(i)
        if x[0] > 0.0:
            print("yes")
            x = gt.sin(x)
    return gt.reduce_sum(x)


speaking = gt.function(speak)
SAID = printed(lambda: speak(gt.constant(VECTOR)))


def test_effects_run_once_in_a_gradient():
    x = gt.constant(VECTOR)

    def run():
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = speaking(x)
        tape.gradient(y, x)
        tape.gradient(y, x)

    assert printed(run) == SAID


def test_effects_run_once_in_derivatives_inside():
    def gradient(x):
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = speaking(x)
            g = tape.gradient(y, x)
        return outer.gradient(g, x)

    def forward(x):
        with gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)) as acc:
            y = speaking(x)
        return acc.jvp(y)

    for f in (gradient, forward):
        assert printed(lambda f=f: gt.function(f)(gt.constant(VECTOR))) == SAID


def test_effects_run_once_in_second_derivatives_outside():
    x = gt.constant(VECTOR)

    def run():
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = speaking(x)
            g = tape.gradient(y, x)
        outer.gradient(g, x)

    assert printed(run) == SAID


def test_asserts_and_prints_are_not_in_the_backward_half():
    def f(x):
        for i in gt.range(3):
            gt.debugging.assert_greater(x, -10.0)
            print(i)
            x = gt.sin(x)
        return gt.reduce_sum(x)

    found = halves(f, gt.constant(VECTOR))
    assert "print" in ops_of(found.forward)
    assert not {"print", "assert", "draw_key", "py_call"} & set(ops_of(found.backward))


def noisy(x):
    """Random masks in a loop, in a branch, and in straight line."""
    y = x * gt.cast(gt.random.uniform([3], dtype=gt.float64) > 0.5, gt.float64)
    for i in gt.range(4):
        noise = gt.random.normal([3], dtype=gt.float64)
        if i > 1:
            y = y * gt.random.uniform([3], dtype=gt.float64) + gt.sin(y)
        y = gt.sin(y * noise) + x
    return y


def with_seed(f, *args):
    gt.random.set_seed(7)
    return f(*args)


def test_random_numbers_of_the_forward_pass_are_used_backward():
    """Gradient, second derivative and forward mode, tapes outside and inside, all see the numbers that were drawn."""
    compiled = gt.function(noisy)
    args = [VECTOR]
    checks.check_values(lambda x: with_seed(noisy, x), lambda x: with_seed(compiled, x), args)
    eager = with_seed(checks.first, noisy, args)
    checks.same_gradients(with_seed(checks.first, compiled, args), eager, "gradient")
    second = with_seed(checks.second, noisy, args)
    checks.same_gradients(with_seed(checks.second, compiled, args), second, "second")
    mixed = gt.function(checks.along(noisy))
    checks.same_gradients(with_seed(lambda: checks.second(mixed, args, inside=True)), second, "second, one tape inside")
    inner = gt.function(lambda x: checks.second_inside(noisy, [x]))
    checks.same_gradients([g.numpy() for g in with_seed(inner, gt.constant(VECTOR))], second, "second, inside")
    pushed = with_seed(checks.pushed, noisy, args)
    same_array(with_seed(checks.pushed, compiled, args)[0], pushed[0], checks.ALIKE, "forward mode outside")
    inside = gt.function(checks.pushed_inside(noisy))
    same_array(with_seed(inside, gt.constant(VECTOR))[0].numpy(), pushed[0], checks.ALIKE, "forward mode inside")


def test_random_keys_are_drawn_once():
    found = halves(lambda x: gt.reduce_sum(noisy(x)), gt.constant(VECTOR))
    assert "draw_key" not in ops_of(found.backward)
    assert ops_of(found.forward).count("draw_key") == ops_of(block_of(noisy, gt.constant(VECTOR))).count("draw_key")


def test_nested_forward_mode_refuses_effects():
    def twice(x):
        with gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)) as outer:
            with gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)) as acc:
                for i in gt.range(2):
                    print(i)
                    x = gt.sin(x)
            t = acc.jvp(x)
        return outer.jvp(t)

    with pytest.raises(NotImplementedError, match="nested ForwardAccumulators around the scan at"):
        gt.function(twice)(gt.constant(VECTOR))


# -- tapes and orders --------------------------------------------------------------------------------------------------------


def powers(a):
    """A while loop of products."""
    y, i = a, gt.constant(0)
    while i < 3:
        y = gt.matmul(y, a)
        i += 1
    return gt.reduce_sum(y)


def test_a_persistent_tape_runs_backward_again():
    f = gt.function(powers)
    a = gt.constant([[0.5, 0.2], [-0.3, 0.8]])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(a)
        y = f(a)
        z = y * y
    first = tape.gradient(y, a)
    assert np.array_equal(first.numpy(), tape.gradient(y, a).numpy())
    same_array(tape.gradient(z, a).numpy(), (2.0 * y * first).numpy(), SINGLE, "another target")


def derivative_of_order(f, order):
    """The gradient of the sum of the gradient of ... f."""
    if order == 0:
        return f
    inner = derivative_of_order(f, order - 1)

    def g(a):
        with gt.GradientTape() as tape:
            tape.watch(a)
            y = gt.reduce_sum(inner(a))
        return tape.gradient(y, a)

    return g


@pytest.mark.parametrize("order", [1, 2, 3])
def test_orders_through_matmul_in_a_while_loop(order):
    """All tapes outside, and all inside; compiled = eager."""
    a = np.array([[0.5, 0.2], [-0.3, 0.8]])
    expected = derivative_of_order(powers, order)(gt.constant(a)).numpy()
    outside = derivative_of_order(gt.function(powers), order)(gt.constant(a))
    same_array(outside.numpy(), expected, checks.ALIKE, "tapes outside")
    inside = gt.function(derivative_of_order(powers, order))(gt.constant(a))
    same_array(inside.numpy(), expected, checks.ALIKE, "tapes inside")


def test_third_order_against_finite_differences():
    a = np.array([[0.5, 0.2], [-0.3, 0.8]])
    f = gt.function(powers)
    third = derivative_of_order(f, 3)(gt.constant(a)).numpy()
    step = 1e-5
    for i, j in np.ndindex(2, 2):
        d = np.zeros((2, 2))
        d[i, j] = step
        ends = [derivative_of_order(f, 2)(gt.constant(a + s * d)).numpy().sum() for s in (1, -1)]
        assert abs(third[i, j] - (ends[0] - ends[1]) / (2 * step)) < 1e-6 * (1 + abs(third[i, j]))


def test_one_tape_around_two_functions():
    """The backward program of the first gets cotangents from that of the second, both compiled."""
    f, g = gt.function(lambda x: gt.sin(x) * x), gt.function(lambda x: gt.exp(x) - x)
    expected = checks.second(lambda x: gt.exp(gt.sin(x) * x) - gt.sin(x) * x, [VECTOR])
    checks.same_gradients(checks.second(lambda x: g(f(x)), [VECTOR]), expected, "second")


# -- dtypes and lanes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [gt.float32, gt.float64, gt.complex64, gt.complex128])
def test_dtypes(dtype):
    """Gradients have the dtype of their source, in loops and branches too."""

    def f(x):
        y = x
        for i in gt.range(3):
            if i > 0:
                y = y * y + x
            else:
                y = gt.exp(y)
        return gt.reduce_sum(gt.abs(y) if y.dtype.is_complex else y)

    data = VECTOR + (0.3j if dtype.is_complex else 0.0)
    x = gt.constant(data.astype(dtype.as_numpy_dtype))
    found = []
    for g in (f, gt.function(f)):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = g(x)
        found.append(tape.gradient(y, x))
    assert found[1].dtype == dtype
    same_array(found[1].numpy(), found[0].numpy(), SINGLE if dtype.size <= 8 else checks.ALIKE, "gradient")


LANES = np.array([-1.0, 0.0, 1.0])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, of the lanes that are not chosen
@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("rule", ["sqrt", "log", "divide"])
def test_masked_lanes(rule, order):
    """where(x > 0, f(x), 0): lanes that are not chosen have no part in any derivative, compiled as eagerly."""
    function = {"sqrt": gt.sqrt, "log": gt.math.log, "divide": lambda x: 1.0 / x}[rule]

    def f(x):
        y = gt.zeros_like(x)
        for _ in gt.range(2):
            y = y + gt.where(x > 0.0, function(x), 0.0)
        return y

    eager = derivative_of_order(f, order)(gt.constant(LANES)).numpy()
    assert np.isfinite(eager).all()
    outside = derivative_of_order(gt.function(f), order)(gt.constant(LANES)).numpy()
    inside = gt.function(derivative_of_order(f, order))(gt.constant(LANES)).numpy()
    assert np.array_equal(outside, eager)
    assert np.array_equal(inside, eager)
    forward = gt.function(checks.pushed_inside(f))(gt.constant(LANES))[0].numpy()
    assert np.array_equal(forward, checks.pushed(f, [LANES])[0])


def test_square_root_at_zero_has_the_same_infinity():
    def f(x):
        for _ in gt.range(1):
            x = gt.sqrt(x)
        return x

    same_array(checks.first(gt.function(f), [LANES[1:]])[0], checks.first(f, [LANES[1:]])[0], checks.ALIKE, "gradient")


# -- loops around everything ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 4])
def test_run_time_counts(count):
    """The same program for no iteration, one, and several: values, first and second derivative."""

    def f(x, n):
        items = []
        y = x
        for i in gt.range(n):
            y = gt.sin(y) * x
            items.append(y * gt.cast(i + 1, gt.float64))
        s = gt.zeros_like(x)
        for item in items:
            s = s * s + item
        return s + y

    compiled = gt.function(f)
    n = gt.constant(count)
    checks.check_first(lambda x: f(x, n), lambda x: compiled(x, n), [VECTOR])
    checks.check_second(lambda x: f(x, n), lambda x: compiled(x, n), [VECTOR])


def test_training_step_with_derivatives_inside():
    """An optimizer step with a loop in the loss: variables get the gradients that eager code gives them."""

    def make():
        w = gt.Variable(VECTOR)
        optimizer = gt.optimizers.SGD(0.1, momentum=0.9)

        def step(x):
            with gt.GradientTape() as tape:
                loss = gt.constant(0.0, gt.float64)
                for v in x:
                    loss = loss + gt.reduce_sum(gt.sin(w * v) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
            return loss

        return w, step

    (w, step), (u, other) = make(), make()
    compiled = gt.function(other)
    for _ in range(3):
        same_array(compiled(gt.constant(VECTOR)).numpy(), step(gt.constant(VECTOR)).numpy(), checks.ALIKE, "loss")
        same_array(u.numpy(), w.numpy(), checks.ALIKE, "variable")
