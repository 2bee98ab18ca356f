"""Jacobians, batch Jacobians and Hessians: shapes, dtypes, empty batches, chunks, and their cost in calls."""

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.opdef import Op
from gradtape.tape import jacobian as rows
from tests.tape.util import close, wide


def test_elementwise():
    x = wide([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x**2
    close(tape.jacobian(y, x), np.diag([2.0, 4.0, 6.0]))


def test_shapes_are_target_then_source():
    x, w = wide(np.arange(6.0).reshape(2, 3)), wide(np.arange(12.0).reshape(3, 4))
    with gt.GradientTape() as tape:
        tape.watch([x, w])
        y = gt.matmul(x, w)
    jx, jw = tape.jacobian(y, [x, w])
    assert jx.shape == (2, 4, 2, 3)
    assert jw.shape == (2, 4, 3, 4)
    close(jx, np.einsum("ik,lj->ijkl", np.eye(2), w.numpy()))
    close(jw, np.einsum("ik,jl->ijkl", x.numpy(), np.eye(4)))


def test_scalar_target_and_scalar_source():
    x = wide(3.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = x * wide([1.0, 2.0])
    close(tape.jacobian(y, x), 6.0)
    close(tape.jacobian(z, x), [1.0, 2.0])


def test_structures_and_unconnected_sources():
    x, u = wide([1.0, 2.0]), gt.Variable(np.ones((3,)))
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * 2.0
    answer = tape.jacobian(y, {"x": x, "u": (u,)})
    close(answer["x"], 2 * np.eye(2))
    assert answer["u"] == (None,)
    answer = tape.jacobian(y, {"x": x, "u": (u,)}, unconnected_gradients="zero")
    close(answer["u"][0], np.zeros((2, 3)))
    with pytest.raises(ValueError, match="not connected"):
        tape.jacobian(y, u, unconnected_gradients="raise")


def test_empty_target_and_empty_batch():
    x = wide(np.zeros((0, 3)))
    w = gt.Variable(np.ones((3, 2)))
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = gt.matmul(x, w)
    assert tape.jacobian(y, x).shape == (0, 2, 0, 3)
    assert tape.jacobian(y, w).shape == (0, 2, 3, 2)
    assert tape.batch_jacobian(y, x).shape == (0, 2, 3)
    assert tape.gradient(y, w).shape == (3, 2)


def test_mixed_dtypes():
    a, b = gt.constant([1.0, 2.0], gt.float32), gt.constant([3.0, 4.0], gt.float64)
    with gt.GradientTape() as tape:
        tape.watch([a, b])
        y = gt.cast(a, gt.float64) * b
    ja, jb = tape.jacobian(y, [a, b])
    assert ja.dtype == gt.float32
    assert jb.dtype == gt.float64
    close(ja, np.diag([3.0, 4.0]))
    close(jb, np.diag([1.0, 2.0]))


def test_after_the_block_of_a_persistent_tape_twice():
    x = wide([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
    close(tape.jacobian(y, x), np.diag([3.0, 12.0]))
    close(tape.jacobian(y, x), np.diag([3.0, 12.0]))
    close(tape.gradient(y, x), [3.0, 12.0])


def test_jacobian_of_a_gradient_is_the_hessian():
    x = wide([1.0, 2.0])
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = x[0] ** 2 * x[1]
        g = inner.gradient(y, x)
    close(outer.jacobian(g, x), [[4.0, 2.0], [2.0, 0.0]])


def test_jacobian_of_a_pending_gradient_on_a_persistent_tape():
    x = wide([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x[0] ** 2 * x[1]
    g = tape.gradient(y, x)
    close(tape.jacobian(g, x), [[4.0, 2.0], [2.0, 0.0]])


def test_jacobian_under_an_outer_tape_is_differentiated():
    x = wide([1.0, 2.0])
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = x**3
        j = inner.jacobian(y, x)
        s = gt.reduce_sum(j)
    close(outer.gradient(s, x), [6.0, 12.0])


def test_with_variables_updates_and_gathers():
    v = gt.Variable(np.array([1.0, 2.0, 3.0]))
    with gt.GradientTape() as tape:
        t = v * 1.0
        t[1] = v[0] * v[2]
        y = gt.gather(t, [1, 1, 0])
    close(tape.jacobian(y, v), [[3.0, 0, 1.0], [3.0, 0, 1.0], [1.0, 0, 0]])


def test_batch_jacobian():
    x = wide(np.arange(6.0).reshape(2, 3) + 1.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.stack([x[:, 0] * x[:, 1], x[:, 2] ** 2], axis=1)
    d = x.numpy()
    zero = np.zeros(2)
    expected = np.stack([np.stack([d[:, 1], d[:, 0], zero], 1), np.stack([zero, zero, 2 * d[:, 2]], 1)], axis=1)
    close(tape.batch_jacobian(y, x), expected)


def test_batch_jacobian_unconnected():
    x, u = wide(np.ones((2, 3))), wide(np.ones((2, 4)))
    with gt.GradientTape(persistent=True) as tape:
        tape.watch([x, u])
        y = x * 2.0
    assert tape.batch_jacobian(y, u) is None
    close(tape.batch_jacobian(y, u, unconnected_gradients="zero"), np.zeros((2, 3, 4)))


def test_hessian_blocks():
    x, y = wide([1.0, 2.0]), wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch([x, y])
        z = gt.reduce_sum(x**2) * y + y**3
    (xx, xy), (yx, yy) = tape.hessian(z, [x, y])
    close(xx, 6.0 * np.eye(2))
    close(xy, [2.0, 4.0])
    close(yx, [2.0, 4.0])
    close(yy, 18.0)


def test_hessian_of_a_dict_and_of_a_linear_target():
    x, y = wide([1.0, 2.0]), wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch([x, y])
        z = gt.reduce_sum(x) + y * 2.0
    h = tape.hessian(z, {"x": x, "y": y})
    close(h["x"]["x"], np.zeros((2, 2)))
    close(h["x"]["y"], np.zeros(2))
    close(h["y"]["y"], 0.0)


def test_hessian_inside_and_after_the_block_and_under_another_tape():
    x = wide([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = gt.reduce_sum(x**4)
        inside = tape.hessian(y, x)
    close(inside, np.diag([12.0, 48.0]))
    close(tape.hessian(y, x), np.diag([12.0, 48.0]))
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = gt.reduce_sum(x**4)
        s = gt.reduce_sum(inner.hessian(y, x))
    close(outer.gradient(s, x), [24.0, 48.0])


def test_chunks_give_the_same_answer(monkeypatch):
    x = wide(np.linspace(0.1, 1.0, 7))
    answers = []
    for limit in (rows.CHUNK_BYTES, 2000, 1):
        monkeypatch.setattr(rows, "CHUNK_BYTES", limit)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sin(x) * gt.reduce_sum(x)
        answers.append(tape.jacobian(y, x).numpy())
    close(answers[1], answers[0])
    close(answers[2], answers[0])


@pytest.fixture
def implementation_calls(monkeypatch):
    """Counts how often NumPy implementations of ops run through dispatch."""
    from gradtape.core import dispatch

    count = [0]
    plain = dispatch.apply

    def counted(op: Op, *inputs, **attrs):
        count[0] += 1
        return plain(op, *inputs, **attrs)

    monkeypatch.setattr(dispatch, "apply", counted)
    return count


def test_the_cost_does_not_grow_with_the_number_of_outputs(implementation_calls):
    counts = {}
    for n in (5, 500):
        x = wide(np.linspace(0.1, 1.0, n))
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sin(x) * gt.exp(x) + x
        implementation_calls[0] = 0
        j = tape.jacobian(y, x)
        counts[n] = implementation_calls[0]
        d = x.numpy()
        close(j, np.diag(np.exp(d) * (np.sin(d) + np.cos(d)) + 1.0))
    assert counts[500] == counts[5] > 0


def test_five_hundred_outputs_of_a_dense_program():
    w = np.random.default_rng(0).normal(size=(20, 500)) / 10
    x = wide(np.linspace(-1.0, 1.0, 20))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.tanh(gt.matmul(x[None, :], gt.constant(w)))[0]
    close(tape.jacobian(y, x), (1 - np.tanh(x.numpy() @ w) ** 2)[:, None] * w.T)
