"""ForwardAccumulator: Jacobian-vector products, nested freely with itself and with tapes."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, tape_gradient, wide

Forward = gt.autodiff.ForwardAccumulator


def program(x):
    t = gt.sin(x) * x[::-1]
    t[0] = gt.reduce_sum(x**2)
    for i in range(1, 3):
        t[i] = t[i] * t[i - 1] if x[i] > 0.5 else t[i] + gt.exp(x[i])
    a, b, c = gt.unstack(t)
    return gt.stack([a * b, b / (1.0 + c * c), gt.maximum(a, c)])


def test_jvp_agrees_with_reverse_mode():
    x, t = wide([0.3, 0.7, 1.1]), wide([1.0, -2.0, 0.5])
    with Forward(x, t) as acc:
        y = program(x)
    expected = [tape_gradient(lambda z, i=i: program(z)[i], x.numpy()).numpy() @ t.numpy() for i in range(3)]
    close(acc.jvp(y), expected)


def test_several_primals_in_a_structure():
    x, y = wide(2.0), wide([1.0, 3.0])
    with Forward([x, (y,)], [wide(1.0), (wide([0.0, 1.0]),)]) as acc:
        z = x * x * y
    close(acc.jvp(z), [4.0, 12.0 + 4.0])
    answers = acc.jvp({"z": z, "x": x})
    close(answers["x"], 1.0)


def test_unconnected_values():
    x, other = wide(2.0), wide([1.0, 2.0])
    with Forward(x, wide(1.0)) as acc:
        z = other * 2.0
    assert acc.jvp(z) is None
    close(acc.jvp(z, unconnected_gradients="zero"), [0.0, 0.0])
    with pytest.raises(ValueError, match="not connected"):
        acc.jvp(z, unconnected_gradients="raise")


def test_variables_as_primals():
    v = gt.Variable(np.array([2.0, 3.0]))
    with Forward(v, wide([1.0, 10.0])) as acc:
        y = v * v
    close(acc.jvp(y), [4.0, 60.0])


def test_a_variable_assigned_inside():
    v = gt.Variable(np.float64(2.0))
    with Forward(v, wide(1.0)) as acc:
        v.assign(v * v)
        y = v * 3.0
    close(acc.jvp(y), 12.0)
    close(acc.jvp(v), 4.0)


def test_variables_read_under_a_tape_and_an_accumulator():
    v = gt.Variable(np.float64(2.0))
    acc = Forward(v, wide(1.0))
    with gt.GradientTape() as tape:
        a = v * v
        with acc:
            y = a * v  # a is a constant of the accumulator
        d = acc.jvp(y)
    close(d, 4.0)
    close(tape.gradient(d, v), 4.0)


def test_forward_over_reverse():
    x, t = wide([1.0, 2.0]), wide([1.0, -1.0])
    with Forward(x, t) as acc:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x[0] ** 3 * x[1] ** 2
        g = tape.gradient(y, x)
    h = np.array([[6 * 1 * 4, 3 * 2 * 2.0], [3 * 2 * 2.0, 2 * 1.0]])
    close(acc.jvp(g), h @ t.numpy())


def test_reverse_over_forward():
    x, t = wide([1.0, 2.0]), wide([1.0, -1.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        with Forward(x, t) as acc:
            y = x[0] ** 3 * x[1] ** 2
        d = acc.jvp(y)
    h = np.array([[6 * 1 * 4, 3 * 2 * 2.0], [3 * 2 * 2.0, 2 * 1.0]])
    close(tape.gradient(d, x), h @ t.numpy())


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_nested_accumulators(order):
    x = wide(0.7)

    def derivative(k):
        if k == 0:
            return gt.exp(2.0 * x) * x
        with Forward(x, wide(1.0)) as acc:
            y = derivative(k - 1)
        return acc.jvp(y)

    close(derivative(order), np.exp(1.4) * (2.0**order * 0.7 + order * 2.0 ** (order - 1)))


def test_nested_accumulators_do_not_confuse_perturbations():
    # d/dx [x · d/dy (x + y)] at x = 1 is 1, not 2
    x, y = wide(1.0), wide(1.0)
    with Forward(x, wide(1.0)) as outer:
        with Forward(y, wide(1.0)) as inner:
            s = x + y
        z = x * inner.jvp(s)
    close(outer.jvp(z), 1.0)


def test_two_accumulators_at_once_asked_after():
    x, y = wide(2.0), wide(3.0)
    with Forward(x, wide(1.0)) as a, Forward(y, wide(1.0)) as b:
        z = x**2 * y**3
    close(a.jvp(z), 4.0 * 27.0)
    close(b.jvp(z), 4.0 * 27.0)
    assert a.jvp(y) is None


def test_through_control_flow_and_tensor_arrays():
    x = wide(0.5)
    with Forward(x, wide(1.0)) as acc:
        ta = gt.TensorArray(gt.float64, size=3)
        _, y = gt.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (gt.constant(0), x))
        for i in range(3):
            ta.write(i, y * float(i))
        z = gt.reduce_sum(ta.stack())
    close(acc.jvp(z), 3 * 4 * 0.5**3)


def test_custom_gradients_honour_the_users_rule():
    @gt.custom_gradient
    def f(x):
        return x * x, lambda upstream: upstream * 100.0

    x = wide([1.0, 2.0])
    with Forward(x, wide([1.0, 3.0])) as acc:
        y = f(x) * 2.0
    close(acc.jvp(y), [200.0, 600.0])


def test_complex_tangents():
    z, t = wide(1.0 + 2.0j), wide(0.5 - 1.0j)
    with Forward(z, t) as acc:
        y = z * z
        r = gt.abs(z)
    close(acc.jvp(y), 2 * (1 + 2j) * (0.5 - 1j))
    close(acc.jvp(r), (1 * 0.5 + 2 * -1.0) / np.sqrt(5.0))


@pytest.mark.parametrize(("primal", "tangent", "text"), [
    (wide([1.0, 2.0]), wide(1.0), "shape"), (wide(1.0), gt.constant(1.0), "dtype"), (3.0, 1.0, "primals"),
])  # fmt: skip
def test_wrong_arguments(primal, tangent, text):
    with pytest.raises(ValueError, match=text):
        Forward(primal, tangent)


def test_wrong_structure():
    with pytest.raises((ValueError, TypeError), match="structure"):
        Forward([wide(1.0)], wide(1.0))


def test_entering_twice():
    x = wide(1.0)
    with Forward(x, wide(1.0)) as acc:
        with pytest.raises(ValueError, match="already"), acc:
            pass
        y = x * x
    close(acc.jvp(y), 2.0)


def test_an_exception_inside_leaves_the_state_clean():
    x = wide(1.0)
    with pytest.raises(KeyError), Forward(x, wide(1.0)):
        raise KeyError
    node = (x * x)._node
    assert node is None or not node.keys  # nobody records it


def test_operations_after_the_block_are_not_followed():
    x = wide(3.0)
    with Forward(x, wide(1.0)) as acc:
        y = x * x
    z = y * 2.0
    close(acc.jvp(y), 6.0)
    assert acc.jvp(z) is None


def test_several_outputs():
    x, t = wide([3.0, 1.0, 2.0]), wide([1.0, 2.0, 3.0])
    with Forward(x, t) as acc:
        a, b, c = gt.split(x * x, 3)
        y = a * c + b
    close(acc.jvp(y), [6.0 * 4.0 + 9.0 * 12.0 + 4.0])
    close(acc.jvp(b), [4.0])


def test_hvp_by_three_routes():
    def f(x):
        return gt.reduce_sum(gt.sin(x) * x[::-1] ** 2)

    x, t = wide([0.3, 0.9, 1.4]), wide([1.0, 0.5, -0.3])
    h = gt.hessian(f)(x).numpy() @ t.numpy()
    close(gt.hvp(f, [x], [t])[1][0], h)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = f(x)
        s = gt.reduce_sum(inner.gradient(y, x) * t)
    close(outer.gradient(s, x), h)
