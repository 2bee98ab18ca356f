"""What users of tape libraries suffer from: one test per complaint, eager mode."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gradtape as gt
from tests.harness.memory import growth
from tests.tape.util import check_orders, close, tape_gradient, wide


def test_the_numpy_source_mutated_after_recording():
    data = np.array([1.0, 2.0, 3.0])
    x = gt.constant(data)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(x * x * data)
    data[:] = 1e9
    close(tape.gradient(y, x), [2.0, 8.0, 18.0])


def test_lists_passed_as_arguments_mutated_after_recording():
    axis, perm, shape = [1], [1, 0], [3, 2]
    x = wide(np.arange(6.0).reshape(2, 3))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(gt.reduce_sum(x * x, axis)) + gt.reduce_sum(gt.reshape(gt.transpose(x, perm), shape))
    axis[0], perm[:], shape[:] = 0, [0, 1], [6, 1]
    close(tape.gradient(y, x), 2 * x.numpy() + 1.0)


def test_a_recurrence_written_into_an_array():
    def f(x):
        e = gt.zeros(61, gt.float64)
        e[0] = x
        total = x * 0.0
        for i in range(60):
            e[i + 1] = 0.9 * e[i] + 0.2 * gt.sin(3.0 * e[i])
            if e[i + 1] < 0.8:
                total = total + e[i + 1] * e[i]
        return total

    check_orders(f, 0.35)


def test_a_block_written_into_zeros():
    check_orders(lambda a: _block(a), [[1.0, 2.0], [3.0, 4.0]])


def _block(a):
    b = gt.zeros((4, 4), gt.float64)
    b[:2, :2] = a * a
    return gt.reduce_sum(b)


def test_assign_add_then_use():
    v, x = gt.Variable(np.float64(2.0)), wide(3.0)
    with gt.GradientTape(through_assignments=True) as tape:
        tape.watch(x)
        v.assign_add(x)
        y = v * v
    gv, gx = tape.gradient(y, [v, x])
    close(gx, 10.0)
    close(gv, 10.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("f", "expected"), [
    (lambda x: gt.where(x > 0, gt.sqrt(x), 0.0), [0.0, 0.0, 0.5]),
    (lambda x: gt.where(x > 0, 1.0 / x, 1.0), [0.0, 0.0, -1.0]),
    (lambda x: gt.where(x > 0, gt.math.log(x), 0.0), [0.0, 0.0, 1.0]),
])  # fmt: skip
def test_where_does_not_poison(f, expected):
    close(tape_gradient(lambda x: gt.reduce_sum(f(x)), [-1.0, 0.0, 1.0]), expected)


def test_third_derivative_through_matmul_in_a_while_loop():
    w = np.array([[0.6, 0.2], [-0.1, 0.5]])

    def f(x):
        start = (gt.constant(0), gt.eye(2, dtype=gt.float64))
        _, m = gt.while_loop(lambda i, m: i < 3, lambda i, m: (i + 1, gt.matmul(m, w) * x), start)
        return gt.reduce_sum(m)

    # f(x) = c·x³
    c = np.sum(np.linalg.matrix_power(w, 3))
    close(gt.grad(gt.grad(gt.grad(f)))(wide(1.7)), 6 * c)


def test_foldl_over_a_list_second_order():
    f = lambda x: gt.foldl(lambda a, e: a * e + x, wide([2.0, 3.0, 4.0]), initializer=x)  # noqa: E731
    # ((x·2 + x)·3 + x)·4 + x = 41x: linear
    close(gt.grad(f)(wide(0.5)), 41.0)
    g = lambda x: gt.foldl(lambda a, e: a * e * x, wide([2.0, 3.0]), initializer=x)  # noqa: E731
    close(gt.grad(gt.grad(g))(wide(0.5)), 6 * 6 * 0.5)


def test_a_gradient_inside_a_loop_body_reading_a_tensor_array():
    def f(x):
        ta = gt.TensorArray(gt.float64, size=4)
        state = x
        for i in range(4):
            with gt.GradientTape() as inner:
                inner.watch(state)
                ta = ta.write(i, gt.sin(state) * x)
                energy = ta.read(i) ** 2
            state = state - 0.1 * inner.gradient(energy, state)
        return gt.reduce_sum(ta.stack()) + state

    check_orders(f, 0.8)


def test_a_loop_whose_tensor_grows_each_step():
    def f(x):
        t = gt.reshape(x, (1,))
        for _ in range(4):
            t = gt.concat([t, t[-1:] * x + t[:1]], 0)
        return gt.reduce_sum(t * t)

    check_orders(f, 0.8)


def test_a_list_appended_in_a_loop_then_stacked():
    def f(x):
        parts = []
        for i in range(5):
            parts.append(x * float(i) + gt.sin(x) ** i)
        return gt.reduce_sum(gt.stack(parts) ** 2)

    check_orders(f, 0.8)


def test_tensor_array_stacked_after_the_block():
    x, w = gt.constant([1.0, 2.0, 3.0]), gt.constant([4.0, 5.0, 6.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        ta = gt.TensorArray(gt.float32, size=3)
        for i in range(3):
            ta = ta.write(i, x[i] * w[i])
    y = ta.stack()
    close(tape.gradient(y, x), [4.0, 5.0, 6.0])


def test_losses_added_up_outside_the_tape():
    v = gt.Variable(np.ones(50))
    total = 0.0

    def step():
        nonlocal total
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum(v * v)
        tape.gradient(loss, v)
        total = total + loss

    assert growth(step, 200) < 10_000  # a record is more than 100 bytes
    close(total, 50_000.0)


def test_a_function_given_two_variables_in_turn():
    def f(v):
        return v * v

    for v, expected in ((gt.Variable(2.0), 4.0), (gt.Variable(5.0), 10.0)):
        with gt.GradientTape() as tape:
            y = f(v)
        close(tape.gradient(y, v), expected)


def test_clip_by_norm_of_an_embedding_gradient():
    table = gt.Variable(np.ones((6, 2)))
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(gt.gather(table, [1, 3, 1]) * 3.0)
    g = tape.gradient(y, table)
    assert isinstance(g, gt.IndexedSlices)
    dense = np.zeros((6, 2))
    dense[[1, 3]] = [[6.0, 6.0], [3.0, 3.0]]
    close(gt.convert_to_tensor(g), dense)
    clipped = gt.clip_by_norm(g, 1.0)
    close(gt.convert_to_tensor(clipped), dense / np.linalg.norm(dense))


def test_arithmetic_of_sparse_gradients():
    table = gt.Variable(np.ones((4, 2)))
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(gt.gather(table, [[0, 2], [2, 0]]) * np.arange(4.0).reshape(2, 2, 1))
    g = tape.gradient(y, table)
    dense = np.zeros((4, 2))
    dense[0], dense[2] = 3.0, 3.0
    close(g.numpy(), dense)
    close((g * 2.0).values.shape, (4, 2))
    assert isinstance(g * 2.0, gt.IndexedSlices)
    close(gt.convert_to_tensor(g / 3.0 + dense), dense / 3 + dense)
    close(gt.convert_to_tensor(-g), -dense)
    close(np.sqrt(np.sum(np.asarray(g) ** 2)), np.linalg.norm(dense))


def test_a_sparse_gradient_meets_a_dense_one():
    table = gt.Variable(np.ones((4, 2)))
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(gt.gather(table, [1, 1])) + gt.reduce_sum(table**2) + gt.reduce_sum(gt.gather(table, [3]))
    expected = np.full((4, 2), 2.0)
    expected[1] += 2.0
    expected[3] += 1.0
    close(np.asarray(tape.gradient(y, table)), expected)


def test_second_order_of_a_gather():
    check_orders(lambda t: gt.reduce_sum(gt.gather(t, [1, 3, 1]) ** 3), np.arange(1.0, 6.0))


def test_unconnected_zero_on_nested_structures_with_unused_variables():
    used, unused = gt.Variable(2.0), gt.Variable([[1.0, 2.0]])
    with gt.GradientTape() as tape:
        y = used * 3.0
    g = tape.gradient(y, {"a": [used, {"b": unused}]}, unconnected_gradients="zero")
    close(g["a"][0], 3.0)
    close(g["a"][1]["b"], [[0.0, 0.0]])


def test_a_branch_flip():
    def f(x):
        return x**2 if x > 1.0 else x**3

    close(gt.grad(f)(wide(2.0)), 4.0)
    close(gt.grad(f)(wide(0.5)), 0.75)


def test_changed_state_changes_the_result():
    class Model:
        k = 2.0

        def __call__(self, x):
            return x * self.k

    model = Model()
    close(gt.grad(model)(wide(1.0)), 2.0)
    model.k = 5.0
    close(gt.grad(model)(wide(1.0)), 5.0)


def test_stop_recording_inside_a_thread_pool():
    v = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = v * v
        with ThreadPoolExecutor(3) as pool:

            def quiet(k):
                with tape.stop_recording():
                    return float(v * float(k))

            results = list(pool.map(quiet, range(6)))
        z = y * v
    assert results == [3.0 * k for k in range(6)]
    close(tape.gradient(z, v), 27.0)


def test_two_gradients_of_one_shot_tapes_in_one_call():
    a, b = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = a * a * b
    ga, gb = tape.gradient(y, [a, b])
    close(ga, 12.0)
    close(gb, 4.0)


def test_jacobian_with_an_empty_batch_mixed_dtypes_inside_its_own_tape():
    x = gt.constant(np.zeros((0, 2), np.float32))
    w = gt.Variable(np.ones((2, 3)))
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = gt.matmul(gt.cast(x, gt.float64), w)
        jx, jw = tape.jacobian(y, [x, w])
    assert jx.shape == (0, 3, 0, 2)
    assert jx.dtype == gt.float32
    assert jw.shape == (0, 3, 2, 3)
