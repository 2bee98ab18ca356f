"""`t[i] = v`: new versions of a tensor object, at any order, with O(1) steps and untouched earlier uses."""

import numpy as np
import pytest

import gradtape as gt
from tests.harness.memory import allocated, tracing
from tests.tape.util import check_orders, close, tape_gradient, wide


def test_block_of_zeros_at_orders_one_and_two():
    def f(a):
        b = gt.zeros((4, 4), gt.float64)
        b[:2, :2] = a
        return gt.reduce_sum(b * b * b)

    check_orders(f, [[0.5, 1.0], [-1.0, 2.0]])


def test_plain_sum_of_a_filled_block():
    a = wide([[1.0, 2.0], [3.0, 4.0]])
    with gt.GradientTape() as outer:
        outer.watch(a)
        with gt.GradientTape() as inner:
            inner.watch(a)
            b = gt.zeros((4, 4), gt.float64)
            b[:2, :2] = a
            y = gt.reduce_sum(b)
        g = inner.gradient(y, a)
    close(g, np.ones((2, 2)))
    h = outer.gradient(g, a, unconnected_gradients="zero")
    close(h, np.zeros((2, 2)))


def test_loop_carried_updates_with_conditional_accumulation():
    def f(x):
        e = gt.zeros(61, gt.float64)
        e[0] = x[0]
        total = x[1] * 0.0
        for i in range(60):
            e[i + 1] = gt.sin(e[i]) * x[1] + 0.5 * e[i]
            if e[i + 1] > 0.6:
                total = total + e[i + 1] ** 2
        return total + e[60]

    check_orders(f, [0.9, 0.7])


def test_uses_recorded_before_an_update_keep_the_old_version():
    x = wide([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        t = x * 1.0
        before = gt.reduce_sum(t**2)
        t[1] = 100.0
        after = gt.reduce_sum(t**2)
        y = before + after
    close(before, 14.0)
    close(tape.gradient(y, x), [4.0, 4.0, 12.0])


def test_an_alias_sees_the_update_and_a_slice_does_not():
    t = wide([1.0, 2.0])
    alias, part = t, t[:1]
    alias[0] = 5.0
    close(t, [5.0, 2.0])
    close(part, [1.0])


def test_a_copy_keeps_its_values():
    import copy

    t = wide([1.0, 2.0])
    twin, deep = copy.copy(t), copy.deepcopy(t)
    t[0] = 5.0
    close(twin, [1.0, 2.0])
    close(deep, [1.0, 2.0])
    twin[1] = 7.0
    close(t, [5.0, 2.0])


def test_reshaped_and_viewed_results_keep_their_values():
    t = wide(np.arange(6.0))
    results = [gt.reshape(t, (2, 3)), gt.expand_dims(t, 0), gt.identity(t), gt.transpose(t), gt.reverse(t, [0])]
    kept = [np.array(r.numpy()) for r in results]
    view = t.numpy()
    t[0] = 50.0
    t[3:] = -1.0
    for result, old in zip(results, kept, strict=True):
        close(result, old)
    close(view, np.arange(6.0))
    results[0][0, 0] = 9.0
    close(t, [50.0, 1.0, 2.0, -1.0, -1.0, -1.0])


def test_numpy_source_is_copied_in():
    array = np.array([1.0, 2.0])
    x = gt.constant(array)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * array
        array[:] = 100.0
    close(tape.gradient(y, x), [1.0, 2.0])
    close(x, [1.0, 2.0])


def test_numpy_views_are_read_only():
    x = wide([1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 5.0
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(x)[0] = 5.0
    copied = np.array(x)
    copied[0] = 9.0
    close(x, [1.0, 2.0])


def test_the_lists_passed_as_arguments_can_change_later():
    x = wide(np.arange(24.0).reshape(2, 3, 4))
    axis, perm, shape, key = [0, 1], [2, 0, 1], [4, 6], [0, 1, 1]
    with gt.GradientTape() as tape:
        tape.watch(x)
        w = np.arange(24.0)
        y = gt.reduce_sum(gt.reduce_sum(x * x, axis) * np.arange(4.0))
        z = gt.reduce_sum(gt.reshape(gt.transpose(x, perm), shape) * w.reshape(4, 6))
        u = gt.reduce_sum(x[key] * 2.0)
        axis[:], perm[:], shape[:], key[:] = [2], [0, 1, 2], [24], [0, 0, 0]
    data = x.numpy()
    expected = 2 * data * np.arange(4.0)
    expected = expected + np.transpose(np.arange(24.0).reshape(4, 2, 3), (1, 2, 0))
    expected[0] += 2.0
    expected[1] += 4.0
    close(tape.gradient([y, z, u], x), expected)


def test_an_index_array_changed_later():
    x, places = wide(np.arange(5.0)), np.array([0, 3])
    with gt.GradientTape() as tape:
        tape.watch(x)
        t = x * 1.0
        t[places] = t[places] * 3.0
        y = gt.reduce_sum(t * t)
        places[:] = 4
    close(tape.gradient(y, x), 2 * np.arange(5.0) * np.array([9.0, 1, 1, 9, 1]))


def test_every_kind_of_key():
    mask = np.array([[True, False, True], [False, True, False]])
    for key in [0, -1, (0, 1), slice(None), (slice(None), 1), (Ellipsis, 0), (slice(None, None, -2), slice(0, 2)),
                [1, 0], ([0, 1], [2, 0]), mask, (slice(None), [0, 2])]:  # fmt: skip

        def f(x, key=key):
            t = gt.sin(x)
            t[key] = t[key] * x[key] + gt.reduce_sum(x)
            return gt.reduce_sum(t * t * gt.constant(np.arange(1.0, 7.0).reshape(2, 3)))

        check_orders(f, [[0.3, -0.2, 0.7], [1.1, 0.4, -0.6]])


def test_repeated_places_the_last_one_wins():
    x = wide([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        t = gt.zeros(2, gt.float64)
        t[[0, 0, 1]] = x
        y = gt.reduce_sum(t * [10.0, 100.0])
    close(t, [2.0, 3.0])
    close(tape.gradient(y, x), [0.0, 10.0, 100.0])


def test_augmented_updates():
    def f(x):
        t = gt.zeros(3, gt.float64)
        t[0:2] += x[:2]
        t[1] *= x[2]
        t[2] -= x[0] * x[1]
        t[0] /= x[1]
        t[0] **= 2
        return gt.reduce_sum(t * t)

    check_orders(f, [1.2, 0.8, -0.5])


def test_overlapping_self_assignment():
    def f(x):
        t = x * 1.0
        t[1:] = t[:-1] * t[1:]
        t[::-1] = t
        return gt.reduce_sum(t * gt.constant(np.array([1.0, 2.0, 3.0, 4.0])))

    check_orders(f, [1.2, 0.8, -0.5, 0.3])


def test_broadcast_of_the_written_value():
    def f(x):
        t = gt.ones((3, 2), gt.float64) * x[0]
        t[1:] = x
        t[0, :] = x[1] * x[0]
        return gt.reduce_sum(t * t * t)

    check_orders(f, [0.7, -1.3])


def test_updating_a_watched_tensor_inside_a_function_changes_the_callers_object():
    def fill(t, v):
        t[0] = v

    x, t = wide(3.0), gt.zeros(2, gt.float64)
    with gt.GradientTape() as tape:
        tape.watch(x)
        fill(t, x * x)
        y = gt.reduce_sum(t)
    close(tape.gradient(y, x), 6.0)


def test_an_update_by_a_constant_cuts_only_its_part():
    g = tape_gradient(_constant_part, [1.0, 2.0, 3.0])
    close(g, [2.0, 0.0, 6.0])


def _constant_part(x):
    t = x * 1.0
    t[1] = 7.0
    return gt.reduce_sum(t * t)


def test_an_update_outside_the_tape_makes_a_constant():
    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        t = x * 1.0
        with tape.stop_recording():
            t[0] = 5.0
        y = gt.reduce_sum(t * t)
    assert tape.gradient(y, x) is None


def test_a_failed_update_changes_nothing():
    x = wide([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        t = x * 2.0
        count = len(tape.records)
        for key, value in [(7, 1.0), (slice(0, 2), [1.0, 2.0, 3.0]), ((0, 0), 1.0), ("a", 1.0), (0, "text"), (0, [1.0, 2.0])]:
            with pytest.raises((IndexError, ValueError, TypeError)):
                t[key] = value
        assert len(tape.records) == count
        y = gt.reduce_sum(t * t)
    close(t, [2.0, 4.0, 6.0])
    close(tape.gradient(y, x), [8.0, 16.0, 24.0])


def test_a_failed_operation_leaves_no_record():
    x = wide([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * 2.0
        count = len(tape.records)
        for bad in (lambda: x + wide([1.0, 2.0]), lambda: gt.matmul(x, x), lambda: gt.reshape(x, (2, 2)),
                    lambda: gt.reduce_sum(x, 3), lambda: x[9], lambda: gt.concat([x, gt.ones((1, 1))], 0)):  # fmt: skip
            with pytest.raises((ValueError, IndexError)):
                bad()
        assert len(tape.records) == count
    close(tape.gradient(y, x), [2.0, 2.0, 2.0])


def test_filling_reuses_the_buffer():
    x = gt.Variable(1.0)
    n = 4000
    with tracing():
        with gt.GradientTape() as tape:
            t = gt.zeros(n)
            for i in range(n):
                t[i] = x
            y = gt.reduce_sum(t)
        held = allocated()
    assert held < 6_000_000  # a copy per step would hold (or move) n·n·4 = 64 MB
    close(tape.gradient(y, x), float(n))


def test_an_integer_tensor_can_be_updated():
    t = gt.constant([1, 2, 3])
    t[1] = 7
    assert t.numpy().tolist() == [1, 7, 3]
    assert t.dtype == gt.int32


def test_updates_inside_a_vectorized_map():
    def row(x):
        t = x * 1.0
        t[0] = x[1] * x[2]
        return gt.reduce_sum(t * t)

    x = wide(np.arange(6.0).reshape(2, 3))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.vectorized_map(row, x)
    expected = np.stack([tape_gradient(row, r).numpy() for r in x.numpy()])
    close(tape.gradient(y, x), expected)
