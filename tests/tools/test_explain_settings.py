"""`explain` through nested tapes, compiled functions, TensorArrays, structures; modes of `gradient`; bad input; memory."""

import gc
import warnings
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from tests.harness.memory import allocated, tracing
from tests.tools.explained import asked, line_of, lost, no_other_tape_is_open as no_other_tape_is_open


def var(value=3.0, name="x", **options):
    return gt.Variable(value, name=name, **options)


# -- nested tapes -------------------------------------------------------------------------------------------------------


def test_the_inner_tape_is_left_while_the_outer_goes_on():
    def build(tape):
        x = var()
        with gt.GradientTape() as build.outer:
            with tape:
                y = x * x
            z = y * x  # lost
        return z, x

    lost(build, "computed_after_the_tape", "'multiply'")


def test_the_inner_tape_is_paused_while_the_outer_goes_on():
    def build(tape):
        x = var()
        with gt.GradientTape() as build.outer, tape:
            y = x * x
            with tape.stop_recording():
                z = gt.exp(y)  # lost
            z = z * 2.0
        return z, x

    lost(build, "recording_paused", "'exp'")


def test_recorded_by_the_outer_tape_before_the_inner_one():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with gt.GradientTape() as build.outer:
            y = x * x  # lost
            with tape:
                z = y * w
        return z, x

    lost(build, "computed_before_the_tape", "'multiply'")


def test_both_tapes_answer_for_themselves():
    x, w = var(), var(2.0, "w")
    with gt.GradientTape() as outer:
        y = x * w
        with gt.GradientTape() as inner:
            z = y * w * w
        g = inner.gradient(z, w)
        loss = g * w
        late = w * 3.0
    assert inner.explain(z, w).cause == "connected"
    assert inner.explain(z, x).cause == "computed_before_the_tape"
    assert outer.explain(loss, x).cause == "connected"
    assert inner.explain(late, w).cause == "computed_after_the_tape"
    outer.gradient(loss, [x, w])
    assert outer.explain(loss, x).cause == "connected"


def test_watched_late_by_the_inner_tape():
    def build(tape):
        x = gt.constant(3.0)
        with gt.GradientTape() as build.outer:
            build.outer.watch(x)
            with tape:
                y = x * x  # lost
                tape.watch(x)
        return y, x

    lost(build, "not_watched", "before tape.watch")


def test_a_gradient_of_a_persistent_tape_as_target():
    x = var()
    with gt.GradientTape(persistent=True) as tape:
        y = x**3
        g = tape.gradient(y, x)
        z = g * 2.0
    assert tape.explain(z, x).cause == "connected"
    assert float(tape.gradient(z, x)) == 36.0
    with gt.GradientTape(persistent=True) as tape:
        y = gt.stop_gradient(x) * x
        g = tape.gradient(y, x)
        z = g * 2.0
    assert tape.explain(z, x).cause == "stop_gradient"


def test_asking_changes_no_later_answer():
    x, w = var(), var(2.0, "w")
    with gt.GradientTape(persistent=True) as tape:
        y = gt.sin(x) * gt.exp(w)
        tape.explain(y, [x, w])
        z = y * x
    expected = (tape.gradient(z, x).numpy(), tape.gradient(z, w).numpy(), len(tape.records))
    for source in (x, w, gt.constant(1.0)):
        tape.explain(z, source)
    assert (tape.gradient(z, x).numpy(), tape.gradient(z, w).numpy()) == expected[:2]


# -- programs -----------------------------------------------------------------------------------------------------------


@gt.function
def stopped(a, b):
    kept = gt.stop_gradient(a)  # stopped here
    return kept * b


@gt.function
def compared(a, b):
    flag = gt.cast(a > 1.0, gt.float32)  # compared here
    return flag * b, a * b


@gt.function
def looped(a, b, n):
    for _ in gt.range(n):
        b = b * gt.stop_gradient(a)  # looped here
    return b


@gt.function
def branched(a, b):
    if a > 1.0:  # branched here
        return b * 2.0
    return b * 3.0


@gt.custom_gradient
def half(a, b):
    return a * b, lambda up: (None, up * a)


@gt.function
def custom(a, b):
    return half(a, b)  # custom here


@gt.function
def assigning(state, a):
    state.assign(a * 2.0)
    return state * state


@pytest.mark.parametrize(("call", "cause", "mark"), [
    (stopped, "stop_gradient", "# stopped here"),
    (lambda a, b: compared(a, b)[0], "integer_or_bool_on_path", "# compared here"),
    (lambda a, b: looped(a, b, gt.constant(3)), "stop_gradient", "# looped here"),
    (lambda a, b: looped(a, b, 3), "stop_gradient", "# looped here"),
    (branched, "independent", "# branched here"),
    (custom, "rule_returned_none", "# custom here"),
], ids=["stop", "compare", "loop", "unrolled", "branch", "custom"])  # fmt: skip
def test_inside_a_compiled_function(call, cause, mark):
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = call(x * 1.0, w) * w
        return y, x

    why = asked(build)
    assert (why.cause, why.location) == (cause, line_with(mark))


def line_with(mark):
    """ "file:line" of the first line of this file that ends with the mark."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(i for i, line in enumerate(lines, 1) if line.rstrip().endswith(mark))
    return f"tests/tools/test_explain_settings.py:{number}"


def test_the_other_result_of_a_compiled_function_is_connected():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = compared(x, w)[1]
        return y, x

    assert asked(build).cause == "connected"


def test_a_variable_that_a_compiled_function_reads():
    x, w = var(), var(2.0, "w")

    @gt.function
    def reads(b):
        return gt.stop_gradient(x) * b  # lost

    with gt.GradientTape() as tape:
        y = reads(w)
    why = tape.explain(y, x)
    assert (why.cause, why.location) == ("stop_gradient", line_of(test_a_variable_that_a_compiled_function_reads))


def test_a_compiled_call_before_and_after_the_tape():
    # functions of this test's own: one that other tests share would warn of the traces for ever new variables
    stopped_here, compared_here = (gt.function(f.python_function) for f in (stopped, compared))

    def before(tape):
        x, w = var(), var(2.0, "w")
        y = stopped_here(w, x)
        with tape:
            z = y * w  # lost
        return z, x

    def after(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = x * x
        z = compared_here(y, w)[1]  # lost
        return z, x

    lost(before, "computed_before_the_tape")
    lost(after, "computed_after_the_tape")


def test_assignments_inside_a_compiled_function():
    def build(tape):
        x, state = var(), var(0.0, "state")
        with tape:
            y = assigning(state, x)
        return y, x

    assert asked(build).cause == "connected"


def test_rule_of_the_name_inside_a_compiled_function():
    x, w = var(), var(2.0, "w")
    with gt.GradientTape() as tape:
        y = custom(x, w)
    assert "'half'" in tape.explain(y, x).message


def test_a_function_that_lost_its_name():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            y = gt.function(lambda a, b: gt.stop_gradient(a) * b)(x, w)  # lost
        return y, x

    lost(build, "stop_gradient")


# -- containers -----------------------------------------------------------------------------------------------------------


def test_through_a_tensor_array():
    def build(tape):
        x, w = var(), var(2.0, "w")
        with tape:
            items = gt.TensorArray(gt.float32, size=2)
            items = items.write(0, gt.stop_gradient(x))  # lost
            items = items.write(1, w)
            y = gt.reduce_sum(items.stack())
        return y, x

    lost(build, "stop_gradient")


def test_a_tensor_array_read_after_the_block():
    def build(tape):
        x = var()
        with tape:
            items = gt.TensorArray(gt.float32, size=1).write(0, x * x)
        return items.stack(), x

    assert asked(build).cause == "connected"


def test_updates_in_place():
    def build(tape):
        x = var()
        with tape:
            t = gt.zeros([3])
            t[0] = gt.stop_gradient(x)  # lost
            t[1] = 2.0
            y = gt.reduce_sum(t) * 2.0
        return y, x

    lost(build, "stop_gradient")


def test_structures_have_one_answer_per_source():
    x, w, v = var(), var(2.0, "w"), var(1.0, "v")
    with gt.GradientTape() as tape:
        y = gt.stop_gradient(x) * w
    why = tape.explain(y, {"a": [x, w], "b": (v,)})
    assert [e.cause for e in (*why["a"], *why["b"])] == ["stop_gradient", "connected", "independent"]
    assert isinstance(why["b"], tuple)


def test_several_targets_add_up():
    x, w = var(), var(2.0, "w")
    with gt.GradientTape() as tape:
        y, z = gt.stop_gradient(x) * w, x * w
    assert tape.explain([y, z], x).cause == "connected"
    assert tape.explain([w * 1.0, y], x).cause == "stop_gradient"


def test_printed():
    x = var()
    with gt.GradientTape() as tape:
        y = gt.stop_gradient(x) * 2.0  # lost
    head, code, text = str(tape.explain(y, x)).split("\n")
    assert head == f"stop_gradient at {line_of(test_printed)}"
    assert code.strip() == "y = gt.stop_gradient(x) * 2.0  # lost"
    assert "variable 'x'" in text


# -- modes of gradient ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["gradient", "jacobian"])
def test_raise_carries_the_explanation(ask):
    x, w = var(), var(2.0, "w")
    with gt.GradientTape() as tape:
        y = gt.stop_gradient(x) * w  # lost
    with pytest.raises(gt.errors.UnconnectedGradientError) as caught:
        getattr(tape, ask)(y, x, unconnected_gradients=gt.UnconnectedGradients.RAISE)
    text = str(caught.value)
    assert "variable 'x:0' is not connected to the target (stop_gradient)" in text
    assert line_of(test_raise_carries_the_explanation) in text


@pytest.fixture
def strict():
    gt.debugging.enable_strict_gradients()
    yield
    gt.debugging.disable_strict_gradients()


def test_strict_mode_warns_with_the_cause(strict):
    x, w = var(), var(2.0, "w")
    with gt.GradientTape(persistent=True) as tape:
        y = gt.stop_gradient(x) * w  # lost
    with pytest.warns(gt.GradientWarning, match=r"variable 'x:0' is None \(stop_gradient\).*tape\.explain") as caught:
        assert tape.gradient(y, [x, w])[0] is None
    assert len(caught) == 1
    assert line_of(test_strict_mode_warns_with_the_cause) in str(caught[0].message)
    assert caught[0].filename == __file__


def test_strict_mode_is_silent_about_connected_sources_and_zeros(strict):
    x, w = var(), var(2.0, "w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with gt.GradientTape() as tape:
                y = gt.where(w > 0.0, w * w, 0.0)
            tape.gradient(y, [x, w], unconnected_gradients="zero")
        with gt.GradientTape() as tape:
            y = w * w
        tape.gradient(y, w)


def test_without_strict_mode_none_is_silent():
    x, w = var(), var(2.0, "w")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with gt.GradientTape() as tape:
            y = gt.stop_gradient(x) * w
        assert tape.gradient(y, x) is None


# -- no false alarms --------------------------------------------------------------------------------------------------------


def test_training_steps_on_fresh_tapes():
    x, b = var([[1.0], [2.0]]), var([0.5], "b")
    optimizer = gt.optimizers.SGD(0.1)
    data = gt.constant([[1.0, 2.0], [3.0, 4.0]])
    for _ in range(3):
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean((data @ x + b) ** 2)
        grads = tape.gradient(loss, [x, b])
        assert [e.cause for e in tape.explain(loss, [x, b])] == ["connected", "connected"]
        optimizer.apply_gradients(zip(grads, [x, b], strict=True))
        float(loss)
        evaluated = gt.reduce_mean(data @ x + b)
    assert tape.explain(evaluated, x).cause == "computed_before_the_tape"  # outside the block


def test_masked_where_is_connected():
    x = var([-1.0, 4.0])
    with np.errstate(all="ignore"), gt.GradientTape() as tape:
        y = gt.reduce_sum(gt.where(x > 0.0, gt.sqrt(x), 0.0))
    assert tape.explain(y, x).cause == "connected"


# -- bad input -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "source", "error", "words"), [
    (None, "x", TypeError, "the target is None"),
    (3.0, "x", TypeError, "float 3.0"),
    (np.ones(2), "x", TypeError, "ndarray"),
    ("y", None, ValueError, "a source is None"),
    ("y", "text", ValueError, "str 'text'"),
    ("y", 2.0, ValueError, "float 2.0"),
], ids=["none", "number", "array", "no source", "text", "number source"])  # fmt: skip
def test_bad_input(target, source, error, words):
    x = var()
    with gt.GradientTape() as tape:
        y = x * x
    with pytest.raises(error, match=words):
        tape.explain(y if isinstance(target, str) else target, x if isinstance(source, str) and source == "x" else source)


def test_a_tensor_the_tape_never_saw():
    x = var()
    with gt.GradientTape() as tape:
        y = x * x
    stranger = gt.constant([1.0])
    assert tape.explain(y, stranger).cause == "not_watched"
    assert tape.explain(stranger, x).cause == "independent"


def test_a_tape_that_was_never_entered():
    x = var()
    tape = gt.GradientTape()
    y = x * x
    assert tape.explain(y, x).cause == "computed_before_the_tape"
    assert tape.explain(y, y).cause == "variable_replaced_by_tensor"


def test_while_the_tape_records():
    x = var()
    with gt.GradientTape() as tape:
        y = gt.stop_gradient(x) * 2.0
        assert tape.explain(y, x).cause == "stop_gradient"
        z = x * y
        assert tape.explain(z, x).cause == "connected"
    assert float(tape.gradient(z, x)) == 6.0


def test_under_a_memory_limit():
    x = var(np.linspace(0.0, 1.0, 100))
    with gt.GradientTape(memory_limit=10_000) as tape:
        y = x
        for _ in range(50):
            y = gt.sin(y)
    assert tape.explain(y, x).cause == "connected"
    assert tape.gradient(y, x) is not None


# -- size ---------------------------------------------------------------------------------------------------------------------


def test_a_long_record_needs_no_recursion():
    x, w = var(), var(1.0, "w")
    with gt.GradientTape() as tape:
        y = gt.stop_gradient(x)
        for _ in range(20_000):
            y = y * w
    assert tape.explain(y, x).cause == "stop_gradient"
    tape.gradient(y, w)
    assert tape.explain(y, x).cause == "stop_gradient"


def grown(work, count):
    work(300)
    with tracing():
        kept = work(count)
        gc.collect()
        size = allocated()
    return size, kept


def totals_after_the_block(count):
    w = var(np.ones(4), "w")
    total = gt.zeros([4], gt.float64)
    for _ in range(count):
        with gt.GradientTape() as tape:
            loss = w * w
        total = total * 0.9 + loss * 0.1
        tape.gradient(loss, w)
        total = total + w
    return total


def totals_beside_a_persistent_tape(count):
    w = var(np.ones(4), "w")
    tape = gt.GradientTape(persistent=True)
    with tape:
        y = w * w
    total = gt.zeros([4], gt.float64)
    for _ in range(count):
        total = total + y * w
    return total, tape


def numbers_in_a_loop(count):
    w = var(np.ones(4), "w")
    tape = gt.GradientTape()
    with tape:
        y = w * w
        for _ in range(count):
            float(y[0])
            y.numpy()
            tape.records.sweep() if count % 100 == 0 else None
    tape.records.sweep()
    return tape


@pytest.mark.parametrize("work", [totals_after_the_block, totals_beside_a_persistent_tape, numbers_in_a_loop])
def test_what_is_remembered_does_not_pile_up(work):
    small, _ = grown(work, 1000)
    large, _ = grown(work, 4000)
    assert large < small + 60_000
