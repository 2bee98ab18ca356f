"""Variables assigned inside, outside and while paused; the three rules for gradients through assignments."""

import warnings

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, sweeping_always, wide


def test_assign_add_of_a_watched_value():
    v, x = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape() as tape:
        v.assign_add(x)
        y = v * v
    with pytest.warns(gt.GradientWarning, match="own assignment"):
        gv, gx = tape.gradient(y, [v, x])
    close(gx, 10.0)
    close(gv, 10.0)


def test_only_the_other_source_asked_stays_silent():
    v, x = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape() as tape:
        v.assign_add(x)
        y = v * v
    close(tape.gradient(y, x), 10.0)


def test_through_assignments_true_is_silent():
    v = gt.Variable(2.0)
    with gt.GradientTape(through_assignments=True) as tape:
        v.assign(v * v)
        y = v * 3.0
    close(tape.gradient(y, v), 12.0)


def test_through_assignments_false_reads_are_one_symbol():
    v, x = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape(through_assignments=False) as tape:
        a = v * v  # 2v = 4
        v.assign(x * x)
        b = v * v  # 2v = 18
        y = a + b
    gv, gx = tape.gradient(y, [v, x])
    close(gv, 4.0 + 18.0)
    assert gx is None


def test_the_warning_names_variable_line_and_cures_once():
    v = gt.Variable(2.0, name="weight")
    with gt.GradientTape() as tape:
        for _ in range(3):
            v.assign(v * 2.0)
        y = v * v
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        close(tape.gradient(y, v), 2 * 16.0 * 8.0)
    assert len(caught) == 1
    text = str(caught[0].message)
    for word in ("weight", "test_assignments.py", "through_assignments=True", "False"):
        assert word in text
    assert caught[0].filename == __file__


def test_an_assigned_constant_is_a_new_leaf():
    v = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        a = v * v
        v.assign(5.0)
        y = a + v**3
    close(tape.gradient(y, v), 4.0 + 75.0)


def test_assignment_outside_the_block_is_a_new_leaf():
    v = gt.Variable(2.0)
    tape = gt.GradientTape()
    with tape:
        a = v * v
    v.assign(v * 3.0)
    with tape:
        y = a + v * v
    close(tape.gradient(y, v), 4.0 + 12.0)


def test_assignment_while_paused_is_a_new_leaf():
    v = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        a = v * v
        with tape.stop_recording():
            v.assign(v * 3.0)
        y = a + v * v
    close(tape.gradient(y, v), 4.0 + 12.0)


def test_assignment_paused_in_one_of_two_tapes():
    v = gt.Variable(2.0)
    with gt.GradientTape(through_assignments=True) as outer, gt.GradientTape(through_assignments=True) as inner:
        a = v * v
        with outer.stop_recording():
            v.assign(v * 3.0)
        y = a + v * v
    close(inner.gradient(y, v), 4.0 + 12.0 * 3.0)
    close(outer.gradient(y, v), 4.0 + 12.0)


def test_a_value_read_before_an_assignment_keeps_its_version():
    v = gt.Variable([1.0, 2.0])
    with gt.GradientTape() as tape:
        old = v.value()
        v.assign([10.0, 20.0])
        y = gt.reduce_sum(old * old)
    close(tape.gradient(y, v), [2.0, 4.0])
    close(old, [1.0, 2.0])


def test_assigning_to_an_untrainable_variable_passes_the_gradient_on():
    state, x = gt.Variable(0.0, trainable=False), gt.Variable(3.0)
    with gt.GradientTape() as tape:
        for _ in range(3):
            state.assign(state * 0.5 + x * x)
        y = state * 1.0
    close(tape.gradient(y, x), 6.0 * 1.75)


def test_second_order_through_assignments():
    v, x = gt.Variable(0.0, trainable=False), wide(1.5)
    v = gt.Variable(np.float64(0.0), trainable=False)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            v.assign(x**3)
            v.assign_add(v * x)
            y = v * 1.0  # x³ + x⁴
        g = inner.gradient(y, x)
    close(g, 3 * 1.5**2 + 4 * 1.5**3)
    close(outer.gradient(g, x), 6 * 1.5 + 12 * 1.5**2)


def test_swap_two_variables():
    a, b = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape(through_assignments=True) as tape:
        old = a.value()
        a.assign(b)
        b.assign(old)
        y = a * a * b  # 3·3·2
    ga, gb = tape.gradient(y, [a, b])
    close(ga, 9.0)
    close(gb, 12.0)


def test_items_of_a_variable():
    v, x = gt.Variable([1.0, 2.0, 3.0]), gt.Variable(4.0)
    with gt.GradientTape(through_assignments=True) as tape:
        v[0] = x * x
        v[1].assign(x)
        v[2] += x
        y = gt.reduce_sum(v * v)
    gv, gx = tape.gradient(y, [v, x])
    close(gv, [0.0, 0.0, 14.0])
    close(gx, 2 * 16.0 * 8.0 + 2 * 4.0 + 2 * 7.0)


def test_slices_assign_add_and_sub():
    v, x = gt.Variable([1.0, 2.0, 3.0]), gt.Variable([4.0, 5.0])
    with gt.GradientTape(through_assignments=True) as tape:
        v[:2].assign_add(x)
        v[1:].assign_sub(x)
        y = gt.reduce_sum(v * [1.0, 10.0, 100.0])
    close(v.numpy(), [5.0, 3.0, -2.0])
    close(tape.gradient(y, x), [1.0 - 10.0, 10.0 - 100.0])


def test_overwritten_assignments_are_freed(monkeypatch):
    v = gt.Variable(np.zeros(1000))
    x = gt.Variable(np.ones(1000))
    with sweeping_always(monkeypatch), gt.GradientTape() as tape:
        for _ in range(50):
            v.assign(gt.exp(x))
        assert len(tape.records) < 10
        y = gt.reduce_sum(v)
    close(tape.gradient(y, x), np.exp(np.ones(1000)))


def test_through_false_counts_only_versions_that_matter(monkeypatch):
    v, x = gt.Variable(2.0), gt.Variable(3.0)
    with sweeping_always(monkeypatch), gt.GradientTape(through_assignments=False) as tape:
        for _ in range(20):
            v.assign(x * 2.0)
        y = v * v
    gv, gx = tape.gradient(y, [v, x])
    close(gv, 12.0)
    assert gx is None


def test_assignment_without_a_tape_reuses_or_copies_but_never_corrupts():
    v = gt.Variable([1.0, 2.0])
    view, tensor = v.numpy(), v.value()
    v.assign_add([1.0, 1.0])
    v.assign_sub([5.0, 5.0])
    close(view, [1.0, 2.0])
    close(tensor, [1.0, 2.0])
    close(v.numpy(), [-3.0, -2.0])


def test_a_step_after_the_gradient_does_not_change_values_saved_by_an_open_tape():
    v = gt.Variable([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        y = v**3
    first = tape.gradient(y, v).numpy()
    for _ in range(3):
        v.assign_add([10.0, 10.0])
    close(tape.gradient(y, v), first)


@pytest.mark.parametrize("method", ["assign", "assign_add", "assign_sub"])
def test_a_failed_assignment_changes_nothing(method):
    v = gt.Variable([1.0, 2.0], name="two")
    with gt.GradientTape() as tape:
        y = v * v
        with pytest.raises(ValueError, match=r"two.*shape"):
            getattr(v, method)([1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match=r"two.*dtype"):
            getattr(v, method)(gt.constant([1.0, 2.0], gt.float64))
        with pytest.raises((IndexError, ValueError)):
            v[5] = 1.0
        with pytest.raises(ValueError, match="update"):
            v[:] = [1.0, 2.0, 3.0]
        z = y * v
    close(v.numpy(), [1.0, 2.0])
    close(tape.gradient(z, v), [3.0, 12.0])


def test_a_loop_of_updates_against_finite_differences():
    def run(x0):
        v = gt.Variable(np.float64(1.0))
        with gt.GradientTape(through_assignments=True) as tape:
            tape.watch(x0)
            for k in range(20):
                if k % 3 == 0:
                    v.assign(gt.sin(v) + x0)
                elif k % 3 == 1:
                    v.assign_add(0.1 * x0 * v)
                else:
                    v.assign_sub(0.05 * v * v)
            y = v * v
        return y, tape.gradient(y, x0)

    _, g = run(wide(0.4))
    h = 1e-6
    numeric = (float(run(wide(0.4 + h))[0]) - float(run(wide(0.4 - h))[0])) / (2 * h)
    close(g, numeric, 1e-6)
