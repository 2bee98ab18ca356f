"""Who is watched: explicit watch, trainable variables, several tapes on one tensor."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, wide


def test_unwatched_constants_have_no_gradient():
    x = gt.constant(2.0)
    with gt.GradientTape() as tape:
        y = x * x
    assert tape.gradient(y, x) is None


def test_watched_constant():
    x = gt.constant(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    close(tape.gradient(y, x), 4.0)


def test_watch_a_structure():
    x, y, v = wide(2.0), wide(3.0), gt.Variable(4.0, trainable=False)
    with gt.GradientTape() as tape:
        tape.watch({"a": [x], "b": (y, v)})
        z = x * y * gt.cast(v, gt.float64)
    gx, gy, gv = tape.gradient(z, [x, y, v])
    close(gx, 12.0)
    close(gy, 8.0)
    close(gv, 6.0)


def test_watch_before_the_block_is_entered_says_what_to_do():
    x = wide(3.0)
    tape = gt.GradientTape()
    with pytest.raises(RuntimeError, match="inside `with tape:`"):
        tape.watch(x)
    with tape:
        tape.watch(x)
        y = x * x
    close(tape.gradient(y, x), 6.0)


def test_watch_in_the_middle_sees_only_what_follows():
    x = wide(3.0)
    with gt.GradientTape() as tape:
        before = x * x
        tape.watch(x)
        y = before * x
    close(tape.gradient(y, x), 9.0)


def test_watching_an_intermediate_of_nothing_makes_it_a_source():
    x = wide(3.0)
    with gt.GradientTape() as tape:
        h = x * x
        tape.watch(h)
        y = h * h
    close(tape.gradient(y, h), 18.0)


def test_watching_twice_changes_nothing():
    x = wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        tape.watch(x)
        y = y * x
    close(tape.gradient(y, x), 27.0)


@pytest.mark.parametrize("bad", [3.0, "x", None, np.ones(2), [gt.constant(1.0), 2.0]])
def test_watch_refuses_what_is_not_a_tensor(bad):
    with gt.GradientTape() as tape, pytest.raises(ValueError, match="watch"):
        tape.watch(bad)


def test_a_failed_watch_watches_nothing():
    x = wide(2.0)
    with gt.GradientTape() as tape:
        with pytest.raises(ValueError, match="watch"):
            tape.watch([x, 3.0])
        y = x * x
    assert tape.gradient(y, x) is None


def test_a_watch_stopped_by_its_own_warning_watches_nothing():
    x = wide(2.0)
    with gt.GradientTape() as tape:
        with pytest.raises(gt.GradientWarning):  # warnings are errors in this test run
            tape.watch([x, gt.constant(3)])
        y = x * x
    assert tape.gradient(y, x) is None


def test_trainable_variables_are_watched_when_read():
    v = gt.Variable(2.0)
    frozen = gt.Variable(3.0, trainable=False)
    with gt.GradientTape() as tape:
        y = v * frozen
    gv, gf = tape.gradient(y, [v, frozen])
    close(gv, 3.0)
    assert gf is None


def test_watch_accessed_variables_false():
    a, b = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(a)
        y = a * b
    ga, gb = tape.gradient(y, [a, b])
    close(ga, 3.0)
    assert gb is None
    assert tape.watched_variables() == (a,)


def test_watched_variables_in_order_of_first_use():
    a, b, c = gt.Variable(1.0), gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape() as tape:
        _ = b * 2.0 + a + b
    assert [v.name for v in tape.watched_variables()] == [b.name, a.name]
    assert c not in list(tape.watched_variables()) or c.name not in [v.name for v in tape.watched_variables()]


def test_one_tensor_watched_by_several_tapes():
    x = wide(3.0)
    with gt.GradientTape() as first, gt.GradientTape() as second:
        first.watch(x)
        second.watch(x)
        y = x * x
        z = x**3
    close(first.gradient(y, x), 6.0)
    close(second.gradient(z, x), 27.0)


def test_one_tensor_watched_by_tapes_one_after_the_other():
    x = wide(3.0)
    for power in (1, 2, 3, 4):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x**power
        close(tape.gradient(y, x), power * 3.0 ** (power - 1))


def test_two_open_persistent_tapes_do_not_disturb_one_another():
    x = wide(3.0)
    with gt.GradientTape(persistent=True) as first:
        first.watch(x)
        y = x * x
    with gt.GradientTape(persistent=True) as second:
        second.watch(x)
        z = x**3
    close(second.gradient(z, x), 27.0)
    close(first.gradient(y, x), 6.0)
    assert first.gradient(z, x) is None
    assert second.gradient(y, x) is None


def test_an_intermediate_of_one_tape_watched_by_another():
    x = wide(3.0)
    with gt.GradientTape() as outer:
        outer.watch(x)
        h = x * x
        with gt.GradientTape() as inner:
            inner.watch(h)
            y = h**3
        g = inner.gradient(y, h)
    close(g, 3 * 81.0)
    close(outer.gradient(g, x), 6.0 * 9.0 * 6.0)


def test_an_explicitly_watched_tensor_stands_for_the_version_first_watched():
    t = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(t)
        t[0] = 10.0
        y = gt.reduce_sum(t * t)
    close(tape.gradient(y, t), [0.0, 4.0])


def test_watching_again_after_an_update_keeps_the_first_version_as_source():
    t = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(t)
        t[0] = t[1] * 3.0
        tape.watch(t)
        y = gt.reduce_sum(t * t)
    close(tape.gradient(y, t), [0.0, 4.0 + 36.0])


def test_any_other_tensor_stands_for_its_current_version():
    x = wide([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        h = x * 1.0
        first = gt.reduce_sum(h * h)
        h[0] = 5.0
        second = gt.reduce_sum(h**3)
    close(tape.gradient(second, h), [75.0, 12.0])
    assert tape.gradient(first, h) is None  # the current version came after `first`


def test_a_variable_slice_can_be_watched_and_asked_for():
    v = gt.Variable([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        part = v[1:]
        y = gt.reduce_sum(part * part)
    gp, gv = tape.gradient(y, [part, v])
    close(gp, [4.0, 6.0])
    close(gv, [0.0, 4.0, 6.0])


def test_a_variable_made_inside_the_block_from_watched_values():
    x = wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        v = gt.Variable(x * 2.0)
        y = v * v
    gx, gv = tape.gradient(y, [x, v])
    close(gv, 12.0)
    close(gx, 24.0)


def test_a_variable_made_inside_the_block_from_constants():
    with gt.GradientTape() as tape:
        v = gt.Variable(3.0)
        y = v * v
    close(tape.gradient(y, v), 6.0)


def test_value_of_a_variable_is_a_snapshot():
    v = gt.Variable([1.0, 2.0])
    for take in (v.value, v.read_value, lambda: gt.convert_to_tensor(v), lambda: +v, lambda: gt.cast(v, v.dtype)):
        before = v.numpy().copy()
        t = take()
        t[0] = 100.0
        close(v.numpy(), before)
        v.assign_add([1.0, 1.0])
        close(t, [100.0, before[1]])


@pytest.mark.parametrize("same", [
    lambda x: gt.cast(x, gt.float64), lambda x: +x, gt.constant, lambda x: gt.broadcast_to(x, (2,)), gt.identity,
    gt.stop_gradient, lambda x: gt.reshape(x, (2,)), lambda x: gt.squeeze(x), lambda x: gt.concat([x], 0), lambda x: x[:],
    lambda x: x[...], lambda x: gt.transpose(x), lambda x: gt.pad(x, [[0, 0]]), lambda x: gt.roll(x, 0, 0), np.positive,
    lambda x: np.clip(x, None, None),
])  # fmt: skip
def test_changing_the_result_of_an_operation_with_nothing_to_do_leaves_its_argument(same):
    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = same(x)
        y[0] = 7.0
        z = gt.reduce_sum(x * x)
    close(x, [1.0, 2.0])
    close(y, [7.0, 2.0])
    close(tape.gradient(z, x), [2.0, 4.0])
