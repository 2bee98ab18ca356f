"""Refusals that say what to do, and warnings exactly where they are due."""

import re
import warnings

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, wide


def caught(work):
    """The GradientWarnings a piece of code gives."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        work()
    return [w for w in found if issubclass(w.category, gt.GradientWarning)]


# -- a spent tape -----------------------------------------------------------------------------------------------------


def test_second_gradient_names_the_first_line_and_both_cures():
    x = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = x * x
    tape.gradient(y, x)
    line = test_second_gradient_names_the_first_line_and_both_cures.__code__.co_firstlineno + 4
    pattern = rf"test_errors_and_warnings\.py:{line}.*persistent=True.*\[a, b\]"
    for ask in (tape.gradient, tape.jacobian, tape.hessian):
        with pytest.raises(RuntimeError, match=pattern):
            ask(y, x)


@pytest.mark.parametrize("method", ["jacobian", "hessian", "batch_jacobian"])
def test_every_question_spends_a_one_shot_tape(method):
    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x if method != "hessian" else gt.reduce_sum(x * x)
    getattr(tape, method)(y, x)
    with pytest.raises(RuntimeError, match="persistent=True"):
        tape.gradient(y, x)


@pytest.mark.parametrize("use", [
    lambda t, x, y: t.gradient(y, x), lambda t, x, y: t.watch(x), lambda t, x, y: t.__enter__(),
    lambda t, x, y: t.jacobian(y, x), lambda t, x, y: t.reset(),
])  # fmt: skip
def test_a_closed_tape_says_so(use):
    x = wide(3.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.close()
    with pytest.raises(RuntimeError, match="closed"):
        use(tape, x, y)


# -- entering, pausing ------------------------------------------------------------------------------------------------


def test_entering_an_active_tape():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        a = x * x
        with pytest.raises(ValueError, match="already recording"), tape:
            pass
        y = a * x
    close(tape.gradient(y, x), 12.0)


def test_stop_recording_outside_the_block():
    tape = gt.GradientTape()
    with pytest.raises(RuntimeError, match="not recording"), tape.stop_recording():
        pass


def test_an_exception_while_paused_resumes():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        with pytest.raises(KeyError), tape.stop_recording():
            raise KeyError
        y = x * x
    close(tape.gradient(y, x), 4.0)


def test_exceptions_inside_the_block_leave_the_state_clean():
    x = gt.Variable(2.0)
    with pytest.raises(KeyError), gt.GradientTape(), gt.GradientTape():
        raise KeyError
    with gt.GradientTape() as tape:
        y = x * x
    close(tape.gradient(y, x), 4.0)
    assert not (x * x)._node.keys


# -- targets and sources ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [None, 3.0, np.float64(2.0), np.ones(2), "x", [gt.constant(1.0), None]])
def test_bad_sources(bad):
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError, match="source"):
        tape.gradient(y, bad)
    close(tape.gradient(y, x), 4.0)  # the failed call did not spend the tape


@pytest.mark.parametrize("bad", [None, 3.0, np.ones(2), [None]])
def test_bad_targets(bad):
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x * x
    with pytest.raises(TypeError, match="target"):
        tape.gradient(bad, x)
    close(tape.gradient(y, x), 4.0)


@pytest.mark.parametrize("weights", [[1.0], [1.0, 2.0, 3.0], 1.0, np.ones((2, 1)), [[1.0, 2.0]]])
def test_wrong_shapes_of_output_gradients(weights):
    x = wide([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(ValueError, match=r"output_gradients.*\(2,\)"):
        tape.gradient(y, x, output_gradients=weights)
    close(tape.gradient(y, x), [2.0, 4.0])


def test_wrong_number_of_output_gradients():
    x = wide(1.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = [x * x, x * 3.0]
    with pytest.raises(ValueError, match="3 entries for 2 targets"):
        tape.gradient(y, x, output_gradients=[None, None, None])
    close(tape.gradient(y, x), 5.0)


def test_unknown_unconnected_mode():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = x * x
    with pytest.raises(ValueError, match="maybe"):
        tape.gradient(y, x, unconnected_gradients="maybe")
    close(tape.gradient(y, x), 4.0)


@pytest.mark.parametrize("method", ["jacobian", "batch_jacobian", "hessian"])
def test_list_targets_of_jacobians(method):
    x = wide([2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(ValueError, match=f"{method}.*one tensor.*list"):
        getattr(tape, method)([y], x)
    close(tape.gradient(y, x), [4.0])


def test_hessian_of_a_vector_and_batch_jacobian_of_unequal_batches():
    x = wide([[1.0, 2.0]])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
        z = gt.reshape(y, (2,))
    with pytest.raises(ValueError, match="scalar"):
        tape.hessian(y, x)
    with pytest.raises(ValueError, match="first dimension"):
        tape.batch_jacobian(z, x)
    close(tape.gradient(y, x), [[2.0, 4.0]])


def test_an_error_in_a_users_rule_does_not_spend_the_tape():
    attempts = []

    @gt.custom_gradient
    def shaky(t):
        def grad(upstream):
            attempts.append(1)
            if len(attempts) == 1:
                raise KeyError("first time")
            return upstream * 5.0

        return t * 1.0, grad

    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = shaky(x)
    with pytest.raises(KeyError):
        tape.gradient(y, x)
    close(tape.gradient(y, x), 5.0)


# -- integers and booleans ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3, True, [1, 2]])
def test_watching_an_integer_warns_with_the_fix(value):
    x = gt.constant(value)
    with gt.GradientTape() as tape:
        found = caught(lambda: tape.watch(x))
    assert len(found) == 1
    assert "gt.cast" in str(found[0].message)
    assert found[0].filename == __file__


def test_an_integer_source_warns_once():
    x, n = gt.Variable(2.0), gt.constant(3)
    with gt.GradientTape() as tape:
        y = x * gt.cast(n, gt.float32)
    found = caught(lambda: tape.gradient(y, [x, n]))
    assert len(found) == 1
    assert "int32" in str(found[0].message)


def test_a_source_that_reaches_the_target_only_through_an_integer():
    x = gt.Variable([2.5, 1.5])
    with gt.GradientTape() as tape:
        y = gt.cast(gt.cast(x, gt.int32), gt.float32) * 2.0
    found = caught(lambda: tape.gradient(y, x))
    assert len(found) == 1
    text = str(found[0].message)
    assert re.search(r"'cast'.*test_errors_and_warnings\.py:\d+", text)


def test_a_source_that_reaches_the_target_only_through_a_comparison():
    x = gt.Variable([2.5, -1.5])
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(gt.cast(x > 0, gt.float32))
    answers = []
    found = caught(lambda: answers.append(tape.gradient(y, x)))
    assert answers == [None]
    assert len(found) == 1
    assert "greater" in str(found[0].message)


def test_an_integer_target_warns_once():
    x = gt.Variable(2.5)
    with gt.GradientTape() as tape:
        y = gt.cast(x, gt.int32)
    answers = []
    found = caught(lambda: answers.append(tape.gradient(y, x)))
    assert answers == [None]
    assert len(found) == 1


def test_a_mask_beside_a_float_path_is_silent():
    x = gt.Variable([2.5, -1.5])
    with gt.GradientTape() as tape:
        y = x * gt.cast(x > 0, gt.float32)
    close(tape.gradient(y, x), [1.0, 0.0])


def test_indices_and_counters_are_silent():
    x = gt.Variable([2.5, -1.5])
    n = gt.Variable(0)
    with gt.GradientTape() as tape:
        n.assign_add(1)
        y = gt.gather(x, gt.constant([1])) * gt.cast(n, gt.float32)
    assert isinstance(tape.gradient(y, x), gt.IndexedSlices)


def test_plainly_unconnected_sources_are_silent():
    x, z = gt.Variable(2.0), gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = x * x
        _ = gt.cast(z, gt.int32)  # an integer, but not on a path to y
    assert tape.gradient(y, z) is None


def test_a_deliberate_stop_is_silent():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = gt.stop_gradient(x) * 3.0
    assert tape.gradient(y, x) is None


def test_a_numpy_function_on_the_path_is_not_called_an_integer():
    x = gt.Variable(2.0)
    with gt.GradientTape() as tape:
        y = gt.numpy_function(lambda a: a * a, [x], gt.float32)
    answers = []
    found = caught(lambda: answers.append(tape.gradient(y, x)))
    assert answers == [None]
    assert not any("integers or booleans" in str(w.message) for w in found)


def test_unconnected_zero_through_integers_still_warns_and_answers_zeros():
    x = gt.Variable([2.5, 1.5])
    with gt.GradientTape() as tape:
        y = gt.cast(gt.cast(x, gt.int32), gt.float32)
    with pytest.warns(gt.GradientWarning, match="cast"):
        g = tape.gradient(y, x, unconnected_gradients="zero")
    close(g, [0.0, 0.0])


def test_a_failed_operation_of_mixed_dtypes_records_nothing():
    x = gt.Variable([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        x.value()
        before = len(tape.records)
        with pytest.raises(gt.errors.InvalidArgumentError, match="broadcast"):
            x + gt.constant([1, 2])
        assert len(tape.records) == before
