"""Persistent tapes: many questions, gradients of gradients in and after the block, mixed with recorded ops."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, wide


def test_several_questions():
    x = gt.Variable(3.0)
    with gt.GradientTape(persistent=True) as tape:
        y = x * x
        z = y * y
    close(tape.gradient(z, x), 108.0)
    close(tape.gradient(y, x), 6.0)
    close(tape.gradient(z, y), 18.0)
    close(tape.gradient(z, x), 108.0)


def test_gradient_of_a_gradient_after_the_block():
    x = gt.Variable(3.0)
    with gt.GradientTape(persistent=True) as tape:
        y = x**3
    g = tape.gradient(y, x)
    h = tape.gradient(g, x)
    close(g, 27.0)
    close(h, 18.0)
    tape.close()


def test_gradient_of_a_gradient_inside_the_block():
    x = gt.Variable(3.0)
    with gt.GradientTape(persistent=True) as tape:
        y = x**3
        g = tape.gradient(y, x)
        h = tape.gradient(g, x)
    close(g, 27.0)
    close(h, 18.0)


@pytest.mark.parametrize("inside", [True, False])
def test_four_orders(inside):
    x = wide(1.5)
    tape = gt.GradientTape(persistent=True)
    expected = [5 * 1.5**4, 20 * 1.5**3, 60 * 1.5**2, 120 * 1.5]
    found = []
    with tape:
        tape.watch(x)
        g = x**5
        if inside:
            for _ in range(4):
                g = tape.gradient(g, x)
                found.append(g)
    if not inside:
        for _ in range(4):
            g = tape.gradient(g, x)
            found.append(g)
    for actual, wanted in zip(found, expected, strict=True):
        close(actual, wanted)


def test_mixed_orders_used_in_recorded_operations():
    x = wide(2.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = gt.sin(x) * x
        g = tape.gradient(y, x)
        h = tape.gradient(g, x)
        mix = y * g + h * h
    s, c = np.sin(2.0), np.cos(2.0)
    f, f1, f2, f3 = s * 2, s + 2 * c, 2 * c - 2 * s, -3 * s - 2 * c
    close(tape.gradient(mix, x), f1 * f1 + f * f2 + 2 * f2 * f3)
    # the same once more: expanding a pending gradient must not change later answers
    close(tape.gradient(mix, x), f1 * f1 + f * f2 + 2 * f2 * f3)
    close(tape.gradient(g, x), f2)


def test_gradient_of_a_gradient_with_weights_and_several_sources():
    x, y = wide([1.0, 2.0]), wide([3.0, 4.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = x**2 * y
    gx, gy = tape.gradient(z, [x, y], output_gradients=wide([1.0, 10.0]))
    close(gx, [6.0, 160.0])
    gxx, gxy = tape.gradient(gx, [x, y])
    close(gxx, [6.0, 80.0])
    close(gxy, [2.0, 40.0])
    gyx, gyy = tape.gradient(gy, [x, y])
    close(gyx, [2.0, 40.0])
    assert gyy is None or not np.any(gyy.numpy())


def test_only_one_of_two_results_kept():
    x, y = wide(2.0), wide(3.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = x**3 * y**2
    g = tape.gradient(z, [x, y])[1]
    close(tape.gradient(g, [x, y])[0], 3 * 4.0 * 2 * 3.0)


def test_ordinary_operations_on_the_result_after_the_block_are_not_recorded():
    x = wide(2.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
    g = tape.gradient(y, x) * 2.0
    assert tape.gradient(g, x) is None


def test_another_tape_recording_makes_the_backward_pass_recorded_at_once():
    x = wide(2.0)
    with gt.GradientTape(persistent=True) as first:
        first.watch(x)
        y = x**3
    with gt.GradientTape() as second:
        second.watch(x)
        g = first.gradient(y, x)
        s = g * x
    # x was not watched by `second` when y was computed, yet the saved values of y's record are x itself
    close(g, 12.0)
    assert second.gradient(s, x) is not None


def test_both_tapes_see_a_gradient_taken_inside_both():
    x = wide(2.0)
    with gt.GradientTape(persistent=True) as first, gt.GradientTape(persistent=True) as second:
        first.watch(x)
        second.watch(x)
        y = x**4
        g = second.gradient(y, x)
        s = g * x
    close(first.gradient(s, x), 4 * 4 * 8.0)
    close(second.gradient(s, x), 4 * 4 * 8.0)
    close(second.gradient(g, x), 48.0)


def test_gradient_while_paused_is_right():
    x = wide(2.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        with tape.stop_recording():
            g = tape.gradient(y, x)
        z = y * 2.0
    close(g, 12.0)
    close(tape.gradient(z, x), 24.0)


def test_reset_forgets_and_goes_on():
    x = wide(2.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        tape.reset()
        tape.watch(x)
        z = x**2
    assert tape.gradient(y, x) is None
    close(tape.gradient(z, x), 4.0)


def test_reset_of_the_outer_of_two_tapes():
    x = gt.Variable(2.0)
    with gt.GradientTape() as outer:
        _ = x * x
        with gt.GradientTape() as inner:
            a = x**2
            outer.reset()
            b = a * x
        g = inner.gradient(b, x)
        s = g * x
    close(g, 12.0)
    assert outer.gradient(s, x) is not None


def test_reset_while_paused():
    x = wide(2.0)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        with tape.stop_recording():
            tape.reset()
        tape.watch(x)
        z = x**2
    assert tape.gradient(y, x) is None
    close(tape.gradient(z, x), 4.0)


def test_one_shot_gradient_while_paused_ends_the_recording():
    x = wide(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x**3
        with tape.stop_recording():
            close(tape.gradient(y, x), 12.0)
        for _ in range(5):
            x * 2.0
        assert len(tape.records) <= 3


def test_close_inside_the_block_stops_recording():
    x = gt.Variable(2.0)
    with gt.GradientTape(persistent=True) as tape:
        _ = x * x
        tape.close()
        _ = x * x
        assert len(tape.records) == 0
    tape.close()


def test_stop_recording_of_one_of_two_tapes():
    x = wide(3.0)
    with gt.GradientTape() as outer, gt.GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        with outer.stop_recording():
            a = x * x
        with inner.stop_recording():
            b = x**3
        y = a + b
    close(outer.gradient(y, x), 27.0)
    close(inner.gradient(y, x), 6.0)


def test_a_variable_first_read_while_one_tape_is_paused():
    v = gt.Variable(3.0)
    with gt.GradientTape() as outer, gt.GradientTape() as inner:
        with outer.stop_recording():
            a = v * v
        y = a * v
    close(inner.gradient(y, v), 27.0)
    close(outer.gradient(y, v), 9.0)


def test_jacobian_inside_its_own_persistent_tape_can_be_differentiated():
    x = wide([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        j = tape.jacobian(y, x)
        s = gt.reduce_sum(j * j)
    close(j, np.diag([3.0, 12.0]))
    close(tape.gradient(s, x), 36.0 * np.array([1.0, 8.0]))


def test_a_persistent_tape_across_an_exception():
    x = wide(2.0)
    tape = gt.GradientTape(persistent=True)
    kept = []

    def fail():
        with tape:
            tape.watch(x)
            kept.append(x**3)
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fail()
    y = kept[0]
    z = x * 2.0
    close(tape.gradient(y, x), 12.0)
    assert tape.gradient(z, x) is None
    with tape:
        w = y * x
    close(tape.gradient(w, x), 32.0)
