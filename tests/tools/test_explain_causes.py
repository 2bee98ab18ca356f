"""Every cause, with its line: before and after the gradient was taken, of one-shot and persistent tapes."""

import threading
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from gradtape.tools.explain_texts import CAUSES
from tests.tools.explained import asked, line_of, lost, no_other_tape_is_open as no_other_tape_is_open


def var(value=3.0, name="x", **options):
    return gt.Variable(value, name=name, **options)


# -- connected ----------------------------------------------------------------------------------------------------------


def test_connected():
    def build(tape):
        x = var()
        with tape:
            y = gt.sin(x) * x
        return y, x

    assert lost(build, "connected").location is None


@pytest.mark.parametrize("use", [
    lambda x: gt.where(x > 0, x, 0.0), lambda x: x * gt.cast(x > 0, gt.float32), lambda x: gt.sort(gt.stack([x, 1.0]))[1],
    lambda x: gt.stop_gradient(x) * x, lambda x: gt.stack([x, 2.0])[int(x > 5)], lambda x: x + float(x),
    lambda x: gt.reduce_max(gt.stack([x, 2.0 * x])), lambda x: gt.math.top_k(gt.stack([x, 2.0 * x]))[0],
])  # fmt: skip
def test_a_way_that_counts_beats_ways_that_do_not(use):
    def build(tape):
        x = var()
        with tape:
            y = use(x)
        return y, x

    assert asked(build).cause == "connected"


def test_the_source_is_the_target():
    def build(tape):
        x = var()
        with tape:
            y = x * x
        return y, y

    assert asked(build).cause == "connected"


# -- what the tape does not know ----------------------------------------------------------------------------------------


def test_a_tensor_nobody_watched():
    def build(tape):
        x = gt.constant(3.0)
        with tape:
            y = x * x
        return y, x

    lost(build, "not_watched", "tape.watch", "gt.Variable")


def test_variables_that_are_not_watched_by_themselves():
    def build(tape):
        x = var()
        with tape:
            y = x * x
        return y, x

    lost(build, "not_watched", "watch_accessed_variables=False", "variable 'x'", watch_accessed_variables=False)


def test_a_variable_that_is_not_trainable():
    def build(tape):
        x = var(trainable=False)
        with tape:
            y = x * x
        return y, x

    lost(build, "non_trainable_variable", "trainable=False", "variable 'x'", "tape.watch")


def test_a_slice_made_for_the_question():
    def build(tape):
        x = var([1.0, 2.0])
        with tape:
            y = x[0] * 2.0
        return y, x[0]

    lost(build, "not_watched", "slice of variable 'x'")


def test_a_source_computed_while_paused():
    def build(tape):
        x = var()
        with tape:
            y = x * x
            with tape.stop_recording():
                z = y * 2.0  # lost
            loss = z * x
        return loss, z

    lost(build, "not_watched", "while the tape was paused")


def test_the_variable_was_replaced_by_a_tensor():
    def build(tape):
        x = var()
        x = x + 1.0
        with tape:
            y = x * x
        return y, x

    lost(build, "variable_replaced_by_tensor", "variable 'x'", "assign_add")


def test_a_second_training_step_with_a_tensor_in_the_place_of_the_variable():
    x = var()
    causes = []
    for _ in range(2):
        with gt.GradientTape() as tape:
            y = x * x
        causes.append(tape.explain(y, x).cause)
        x = x - 0.1
    assert causes == ["connected", "variable_replaced_by_tensor"]


# -- computed at the wrong time -----------------------------------------------------------------------------------------


def test_the_target_was_computed_before_the_tape():
    def build(tape):
        x = var()
        y = x * x
        with tape:
            pass
        return y, x

    lost(build, "computed_before_the_tape", "variable 'x'", "into the block")


def test_a_part_was_computed_before_the_tape():
    def build(tape):
        x = var()
        y = x * x
        with tape:
            z = y + 1.0  # lost
            z = z * 2.0
        return z, x

    lost(build, "computed_before_the_tape", "'add'", "variable 'x'")


def test_a_part_was_computed_before_the_tape_and_meets_a_watched_value():
    def build(tape):
        x, w = var(), var(2.0, "w")
        y = x * x * w
        with tape:
            z = y * w  # lost
        return z, x

    lost(build, "computed_before_the_tape", "'multiply'")


def test_a_part_was_computed_while_another_tape_recorded():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with gt.GradientTape(watch_accessed_variables=False):
            y = x * x  # lost
        with tape:
            z = y * w
        return z, x

    lost(build, "computed_before_the_tape", "'multiply'", "variable 'x'")


def test_a_value_of_an_earlier_tape():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with gt.GradientTape() as earlier:
            y = x * x  # lost
        build.kept = earlier
        with tape:
            z = y * w
        return z, x

    lost(build, "computed_before_the_tape")


def test_the_target_was_computed_after_the_block():
    def build(tape):
        x = var()
        with tape:
            y = x * x
        z = y * 2.0  # lost
        z = gt.sin(z)
        return z, x

    lost(build, "computed_after_the_tape", "'multiply'", "into the block")


def test_the_variable_was_only_used_after_the_block():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = w * w
        z = y + x  # lost
        return z, x

    lost(build, "computed_after_the_tape", "'add'")


def test_computed_while_paused():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = x * x
            with tape.stop_recording():
                z = gt.exp(y)  # lost
            z = z * w
        return z, x

    lost(build, "recording_paused", "'exp'", "stop_recording")


def test_a_variable_that_was_read_while_paused_only():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            with tape.stop_recording():
                z = gt.exp(x)  # lost
            z = z * w
        return z, x

    lost(build, "recording_paused", "'exp'")


def test_assigned_while_paused():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = x * x
            with tape.stop_recording():
                w.assign(y * 2.0)  # lost
            z = w * w
        return z, x

    lost(build, "recording_paused", "'multiply'")


def test_in_a_thread_in_which_the_tape_does_not_record():
    def build(tape):
        x, w = var(), var(2.0, "w")
        made = []

        def work():
            made.append(x * 2.0)  # lost

        with tape:
            x.read_value()
            worker = threading.Thread(target=work)
            worker.start()
            worker.join()
            y = made[0] * w
        return y, x

    lost(build, "recording_paused", "thread")


def test_watched_too_late():
    def build(tape):
        x = gt.constant(3.0)
        with tape:
            y = x * x
            tape.watch(x)
        return y, x

    lost(build, "independent", "watch it before it is used")


# -- left the tape -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leave", [
    lambda t: t.numpy(), lambda t: np.asarray(t), lambda t: np.array(t), lambda t: np.array([t.tolist()]),
    lambda t: np.sin(np.asarray(t)) * 2.0,
], ids=["numpy", "asarray", "array", "tolist", "sin"])  # fmt: skip
def test_left_to_numpy(leave):
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = gt.sin(x)
            a = leave(y)
            z = w * a
        return z, x

    why = asked(build)
    assert why.cause == "left_to_numpy"
    assert "test_explain_causes.py" in str(why.location)
    assert "NumPy" in why.message
    assert "custom_gradient" in why.message


def test_the_line_of_numpy():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = gt.sin(x)
            print("loss so far", float(y))
            a = np.cos(y.numpy())  # lost
            z = w * a
        return z, x

    lost(build, "left_to_numpy", ".numpy()")


@pytest.mark.parametrize("leave", [
    float, int, lambda t: t.item(), lambda t: bool(t > 1.0), lambda t: complex(t).real, lambda t: float(t) ** 2,
], ids=["float", "int", "item", "bool", "complex", "power"])  # fmt: skip
def test_converted_to_a_number(leave):
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = x * 2.0
            z = w * float(leave(y))
        return z, x

    why = asked(build)
    assert why.cause == "converted_to_python_number"
    assert "test_explain_causes.py" in str(why.location)


def test_the_line_of_a_number():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            z = w * float(x)  # lost
        return z, x

    lost(build, "converted_to_python_number", "float()", "variable 'x'")


def test_an_index_is_a_number():
    def build(tape):
        x, w = var([1.0, 5.0]), var([2.0, 3.0], "w")
        with tape:
            z = w[[0, 1][gt.argmax(x)]] * 2.0  # lost
        return z, x

    lost(build, "converted_to_python_number", "an index")


def test_a_number_used_while_paused():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = x * 1.0
            with tape.stop_recording():
                scale = float(y)  # lost
            z = w * scale
        return z, x

    lost(build, "converted_to_python_number")


def test_numpy_function():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = gt.numpy_function(np.sin, [x], gt.float32)  # lost
            z = y * w
        return z, x

    lost(build, "left_to_numpy", "gt.numpy_function", "custom_gradient")


# -- operations without a derivative -------------------------------------------------------------------------------------


def test_integers_on_the_way():
    def build(tape):
        x, w = var([1.0, 5.0, 2.0]), var(2.0, "w")
        with tape:
            i = gt.argmax(x)  # lost
            z = gt.cast(i, gt.float32) * w
        return z, x

    lost(build, "integer_or_bool_on_path", "argmax", "gt.sigmoid")


def test_booleans_on_the_way():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            mask = x > 1.0  # lost
            z = gt.where(mask, w, 0.0)
        return z, x

    lost(build, "integer_or_bool_on_path", "'greater'")


def test_a_cast_to_integers():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            i = gt.cast(x, gt.int32)  # lost
            z = gt.cast(i + 1, gt.float32) * w
        return z, x

    lost(build, "integer_or_bool_on_path", "'cast'")


def test_one_of_several_outputs_is_an_index():
    def build(tape):
        x, w = var([1.0, 5.0]), var(2.0, "w")
        with tape:
            _, places = gt.math.top_k(x)  # lost
            z = gt.cast(places[0], gt.float32) * w
        return z, x

    assert asked(build).cause == "integer_or_bool_on_path"


def test_an_integer_source():
    x = gt.Variable(3, name="n")
    w = var(2.0, "w")
    with gt.GradientTape() as tape:
        y = gt.cast(x, gt.float32) * w
    why = tape.explain(y, x)
    assert (why.cause, why.location) == ("integer_or_bool_on_path", None)
    assert "int32" in why.message
    assert "gt.cast" in why.message


def test_stop_gradient():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = gt.stop_gradient(x * 2.0)  # lost
            z = y * w
        return z, x

    lost(build, "stop_gradient", "gt.stop_gradient", "variable 'x'")


def test_the_cut_nearest_to_the_source_is_named():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = gt.stop_gradient(x)  # lost
            z = gt.stop_gradient(gt.round(y)) * w
        return z, x

    lost(build, "stop_gradient")


def test_no_derivative():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            counts = gt.random.stateless_poisson([1], [1, 2], x)  # lost
            z = gt.reduce_sum(counts) * w
        return z, x

    lost(build, "no_derivative", "random_poisson", "custom_gradient")


def test_only_the_shape_counts():
    def build(tape):
        x, w = var([1.0, 2.0]), var(2.0, "w")
        with tape:
            z = gt.reduce_sum(gt.zeros_like(x)) * w  # lost
        return z, x

    lost(build, "independent", "shape")


# -- assignments and rules -----------------------------------------------------------------------------------------------


def test_through_an_assignment_under_tensorflows_rule():
    def build(tape):
        x, state = var(), var(0.0, "state")
        with tape:
            state.assign(x * 2.0)  # lost
            y = state * state
        return y, x

    lost(build, "through_assignment", "variable 'state'", "through_assignments=False", through_assignments=False)
    assert asked(build).cause == "connected"


def test_a_rule_that_returns_none():
    @gt.custom_gradient
    def half(a, b):
        return a * b, lambda up: (None, up * a)

    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = half(gt.sin(x), w)  # lost
        return y, x

    lost(build, "rule_returned_none", "half'", "input 0", "variable 'x'")


@pytest.mark.parametrize("watched", [False, True])
def test_a_rule_that_does_not_know_what_the_function_uses(watched):
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            h = gt.sin(x)

            @gt.custom_gradient
            def scaled(a):
                return a * h, lambda up: up * h

            y = scaled(w if watched else gt.constant(2.0))  # lost
            z = y * w
        build.used = h
        return z, x

    lost(build, "rule_returned_none", "without taking it as an argument", "scaled" if watched else "a custom gradient")


def test_recompute_grad_of_a_function_that_stops():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = gt.recompute_grad(lambda a, b: gt.stop_gradient(a) * b)(x, w)  # lost
        return y, x

    lost(build, "rule_returned_none", "inside")


# -- zero, independent, freed ----------------------------------------------------------------------------------------------


def test_zero():
    def build(tape):
        x, w = var(-3.0), var(2.0, "w")
        with tape:
            y = gt.nn.relu(x)  # lost
            z = y * w + w
        return z, x

    lost(build, "zero", "'relu'", "variable 'x'")


def test_zero_by_a_mask():
    def build(tape):
        x = var([1.0, 2.0])
        with tape:
            y = gt.where([False, False], gt.sqrt(x), 1.0)  # lost
            z = gt.reduce_sum(y)
        return z, x

    lost(build, "zero", "'where'")


def test_independent():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            _ = x * x
            y = w * w
        return y, x

    lost(build, "independent", "not computed from variable 'x'")


def test_independent_and_never_read():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = w * w
        return y, x

    lost(build, "independent", "not even read")


def test_a_branch_is_no_connection():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = w * 2.0
            if x > 1.0:  # lost
                y = y * 3.0
        return y, x

    lost(build, "independent", "which branch")


def test_looking_is_not_leaving():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = x * 2.0
            print(float(y), y.numpy())
            assert float(y) > 0.0
            z = w * 2.0
        return z, x

    lost(build, "independent")


def test_what_leaves_after_everything_was_computed_is_not_to_blame():
    def build(tape):
        x, w = var(), var(2.0, "w")
        history = []
        with tape:
            y = x * 2.0
            z = w * 2.0
            history.append(float(y))
        return z, x

    lost(build, "independent")


def test_the_derivative_of_something_piecewise_linear():
    def build(tape):
        x = var()
        with tape:
            with gt.GradientTape() as inner:
                y = gt.where(x > 0.0, 2.0 * x, x)
            g = inner.gradient(y, x)  # lost
            z = g * 3.0
        return z, x

    lost(build, "independent", "piecewise linear")


def test_a_closed_tape():
    def build(tape):
        x = var()
        with tape:
            y = x * x
        tape.close()  # lost
        return y, x

    tape = gt.GradientTape()
    y, x = build(tape)
    why = tape.explain(y, x)
    assert (why.cause, why.location) == ("tape_already_freed", line_of(build))
    assert "closed" in why.message


@pytest.mark.parametrize("again", ["reset", "enter"])
def test_a_value_of_the_tapes_former_life(again):
    x = var()
    tape = gt.GradientTape()
    with tape:
        y = x * x  # lost
    if again == "reset":
        tape.reset()
    else:
        tape.gradient(y, x)
    with tape:
        _ = x * 2.0
    why = tape.explain(y, x)
    assert (why.cause, why.location) == ("tape_already_freed", line_of(test_a_value_of_the_tapes_former_life))
    assert tape.explain(x * 1.0, y).cause == "tape_already_freed"


def test_every_cause_is_tested_here():
    text = Path(__file__).read_text(encoding="utf-8")
    assert [cause for cause in CAUSES if f'"{cause}"' not in text] == []
