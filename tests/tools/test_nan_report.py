"""`tape.nan_report()`: the first operation that made something non-finite, its exact line, and no false alarms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.tools.lines import line_of


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def at(mark: str) -> str:
    return line_of(__file__, mark)


def report_of(function: Callable[[Any], Any], x: Any, **options: Any) -> Any:
    """The report after the gradient of function(x)."""
    source = x if isinstance(x, gt.Variable) else gt.constant(x)
    with gt.GradientTape(**options) as tape:
        tape.watch(source)
        y = function(source)
    tape.gradient(y, source)
    return tape.nan_report()


# -- the forward pass --------------------------------------------------------------------------------------------------


def test_log_of_zero_is_named_with_line_index_and_value() -> None:
    def loss(x: Any) -> Any:
        y = gt.math.log(x * 2.0)  # log of zero
        return gt.reduce_sum(y)

    report = report_of(loss, [1.0, 0.0, -3.0])
    assert (report.phase, report.op, report.location) == ("forward", "log", at("log of zero"))
    assert report.indices == ((1,), (2,))
    np.testing.assert_array_equal(report.inputs["x"], [0.0, -6.0])
    assert report.value == -np.inf
    assert report.count == 2
    assert report.shape == (3,)
    assert report.exact
    assert report.cause == "operation"
    text = str(report)
    assert "y = gt.math.log(x * 2.0)  # log of zero" in text
    assert "x = 0.0, -6.0 → -inf" in text
    assert "gt.maximum(x, 1e-7)" in text


def test_of_two_chained_roots_of_a_negative_number_the_first_is_named() -> None:
    def roots(x: Any) -> Any:
        first = gt.sqrt(x)  # the first root
        return gt.sqrt(first)

    report = report_of(roots, -4.0)
    assert (report.op, report.location, report.indices) == ("sqrt", at("the first root"), ((),))
    assert report.inputs["x"] == -4.0
    assert np.isnan(report.value)


def test_an_overflow_is_found_where_it_happens() -> None:
    def squares(x: Any) -> Any:
        for _ in range(8):
            x = x * x  # an overflow
        return gt.reduce_sum(x)

    report = report_of(squares, [1.0, 1e5])
    assert (report.op, report.location, report.indices) == ("multiply", at("an overflow"), ((1,),))
    np.testing.assert_allclose(report.inputs["x"], [1e20], rtol=1e-6)


def test_a_nan_target_with_a_clean_backward_pass_is_reported() -> None:
    def shifted(x: Any) -> Any:
        constant = gt.math.log(gt.stop_gradient(x))  # not differentiated
        return gt.reduce_sum(x + constant)

    x = gt.constant([0.0, 1.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = shifted(x)
    np.testing.assert_array_equal(tape.gradient(y, x), [1.0, 1.0])
    report = tape.nan_report()
    assert (report.phase, report.op, report.location) == ("forward", "log", at("not differentiated"))


def test_matrix_products_name_the_elements_of_their_output() -> None:
    def product(x: Any) -> Any:
        return gt.reduce_sum(gt.matmul(x, x))  # a product

    report = report_of(product, [[1e30, 1.0], [1.0, 1e30]])
    assert (report.op, report.location, report.indices) == ("matmul", at("a product"), ((0, 0), (1, 1)))


def test_a_multi_output_op_passes_the_blame_to_what_it_was_given() -> None:
    def values(x: Any) -> Any:
        y = gt.math.log(x)  # before a split
        first, second = gt.split(y, 2)
        return gt.reduce_sum(second * 2.0) + gt.reduce_sum(first[:0])

    report = report_of(values, [1.0, 1.0, 0.0, 1.0])
    assert (report.op, report.location, report.indices) == ("log", at("before a split"), ((2,),))


# -- the backward pass -------------------------------------------------------------------------------------------------


def test_the_root_of_zero_is_a_matter_of_the_backward_pass() -> None:
    def norm(x: Any) -> Any:
        return 3.0 * gt.reduce_sum(gt.sqrt(x))  # a root of zero

    report = report_of(norm, [1.0, 0.0])
    assert (report.phase, report.op, report.location) == ("backward", "sqrt", at("a root of zero"))
    assert report.indices == ((1,),)
    assert report.cause == "derivative"
    assert report.inputs["x"] == 0.0
    assert report.inputs["cotangent"] == 3.0
    assert "infinite at 0" in str(report)
    assert "gt.sqrt(x + 1e-12)" in str(report)


def test_the_values_behind_a_gather_are_found() -> None:
    table = gt.Variable([[1.0, 0.0], [4.0, 9.0]])
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(gt.sqrt(gt.gather(table, [0, 0, 1])))  # gathered
    tape.gradient(y, table)
    report = tape.nan_report()
    assert (report.phase, report.op, report.location) == ("backward", "sqrt", at("gathered"))
    assert report.indices == ((0, 1), (1, 1))
    np.testing.assert_array_equal(report.inputs["x"], [0.0, 0.0])


def test_a_custom_gradient_is_named() -> None:
    @gt.custom_gradient
    def halved(x: Any) -> Any:
        return x * 0.5, lambda upstream: upstream / x

    def loss(x: Any) -> Any:
        return gt.reduce_sum(halved(x))  # a custom rule

    report = report_of(loss, [0.0, 1.0])
    assert (report.phase, report.op, report.location) == ("backward", "custom", at("a custom rule"))
    assert "custom gradient `halved`" in str(report)


def test_output_gradients_that_are_not_finite_are_the_users_own() -> None:
    x = gt.constant([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x, output_gradients=gt.constant([np.nan, 1.0]))
    report = tape.nan_report()
    assert report.cause == "output_gradients"
    assert report.indices == ((0,),)


def test_the_first_bad_rule_in_backward_order_is_named() -> None:
    def both(x: Any) -> Any:
        first = gt.sqrt(x)  # older, but reached later
        second = gt.sqrt(first)  # reached first
        return gt.reduce_sum(second)

    report = report_of(both, [0.0])
    assert report.location == at("reached first")


# -- what came in ------------------------------------------------------------------------------------------------------


def test_nan_in_the_data_is_said_to_be_in_the_data() -> None:
    def loss(x: Any) -> Any:
        return gt.reduce_sum(gt.sin(x) * 2.0)  # uses the data

    report = report_of(loss, [1.0, np.nan])
    assert (report.cause, report.location, report.indices) == ("input", at("uses the data"), ((1,),))
    assert "a watched tensor, used as x of sin" in str(report)


def test_a_variable_is_named() -> None:
    weights = gt.Variable([np.inf, 1.0], name="weights")
    report = report_of(lambda w: gt.reduce_sum(w * w), weights)
    assert report.cause == "input"
    assert "variable 'weights:0'" in str(report)


def test_a_constant_that_was_kept_is_blamed() -> None:
    mask = gt.constant([1.0, np.inf])
    report = report_of(lambda x: gt.reduce_sum(x * mask), [1.0, 2.0])
    assert report.cause == "input"
    assert "a constant, used as y of multiply" in str(report)
    assert report.indices == ((1,),)


def test_a_constant_that_was_not_kept_makes_the_report_say_at_or_before() -> None:
    mask = gt.constant([1.0, np.inf])

    def loss(x: Any) -> Any:
        shifted = x + mask  # a constant nobody keeps
        return gt.reduce_sum(shifted)  # where it shows

    report = report_of(loss, [1.0, 2.0])
    assert not report.exact
    assert report.location == at("where it shows")
    assert f"not kept was y of add at {at('a constant nobody keeps')}" in str(report)
    exact = report_of(loss, [1.0, 2.0], debug=True)
    assert exact.exact
    assert exact.cause == "input"
    assert exact.location == at("a constant nobody keeps")


# -- no false alarms ---------------------------------------------------------------------------------------------------


MASKED: list[Callable[[Any], Any]] = [
    lambda x: gt.where(x > 0, gt.sqrt(x), 0.0),
    lambda x: gt.where(x > 0, 1.0 / x, 1.0),
    lambda x: gt.where(x > 0, gt.math.log(x), 0.0),
    lambda x: gt.concat([x, gt.where(x > 0, gt.sqrt(x), x)], 0)[:2],
]


@pytest.mark.parametrize("function", MASKED)
@pytest.mark.parametrize("options", [{}, {"debug": True}, {"persistent": True}])
def test_masked_lanes_are_no_alarm(function: Callable[[Any], Any], options: dict[str, Any]) -> None:
    assert report_of(lambda x: gt.reduce_sum(function(x)), [-1.0, 0.0, 1.0], **options) is None


def test_a_masked_lane_is_not_blamed_for_another_one() -> None:
    def loss(x: Any) -> Any:
        masked = gt.where(x > 0, gt.sqrt(x), 0.0)
        real = gt.math.log(x - 1.0)  # the real one
        return gt.reduce_sum(masked + real)

    for options in ({}, {"debug": True}):
        report = report_of(loss, [-1.0, 3.0, 2.0], **options)
        assert (report.op, report.location, report.indices) == ("log", at("the real one"), ((0,),))


def test_the_lane_that_was_chosen_is_blamed() -> None:
    def loss(x: Any) -> Any:
        a = gt.sqrt(x)
        b = gt.math.log(x)  # the chosen lane
        return gt.reduce_sum(gt.where(x > 1, a, b))

    report = report_of(loss, [-1.0, 3.0])
    assert (report.op, report.location) == ("log", at("the chosen lane"))


def test_a_part_that_is_not_asked_for_is_not_blamed() -> None:
    def loss(x: Any) -> Any:
        both = gt.concat([gt.math.log(x), gt.sqrt(x)], 0)
        return gt.reduce_sum(gt.math.log(both[2:] - 2.0))  # the part that counts

    report = report_of(loss, [0.0, 4.0])
    assert report.location == at("the part that counts")


def test_a_second_step_on_a_fresh_tape_is_clean() -> None:
    weights = gt.Variable([0.0, 1.0])
    for step in range(2):
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum(gt.sqrt(weights))
        tape.gradient(loss, weights)
        assert (tape.nan_report() is not None) == (step == 0)
        weights.assign([1.0, 4.0])


def test_large_values_are_no_alarm() -> None:
    assert report_of(lambda x: x * 2.0, np.full(4, 1e30, np.float32)) is None
    assert report_of(lambda x: x * x, np.full(4, 1e200)) is not None


def test_a_zero_weight_masks_a_target() -> None:
    x = gt.constant([0.0, 1.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.math.log(x)
    tape.gradient(y, x, output_gradients=gt.constant([0.0, 1.0]))
    assert tape.nan_report() is None


def test_softmax_of_large_logits_is_clean() -> None:
    assert report_of(lambda x: gt.reduce_sum(gt.nn.log_softmax(x)[0]), [[1000.0, -1000.0]]) is None


# -- kinds of tapes ----------------------------------------------------------------------------------------------------


def chain(x: Any) -> Any:
    for _ in range(30):
        x = gt.sin(x) * 1.01
    x = gt.math.log(x)  # in the middle of a chain
    for _ in range(30):
        x = gt.sin(x) * 1.01
    return gt.reduce_sum(x)


@pytest.mark.parametrize("options", [{}, {"debug": True}, {"persistent": True}, {"memory_limit": 200}, {"profile": True}])
def test_every_kind_of_tape_names_the_same_line(options: dict[str, Any]) -> None:
    report = report_of(chain, [0.0, 1.0], **options)
    assert (report.op, report.location, report.indices) == ("log", at("in the middle of a chain"), ((0,),))


def test_it_is_the_same_every_time() -> None:
    reports = [report_of(chain, [0.0, 1.0]) for _ in range(3)]
    assert len({str(report) for report in reports}) == 1


def test_it_can_be_asked_before_the_gradient() -> None:
    x = gt.constant([0.0, 1.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        gt.where(x > 0, gt.math.log(x), 0.0)
        y = gt.math.log(x)  # before any gradient
        z = gt.reduce_sum(y * 2.0)
    report = tape.nan_report()
    assert report.location == at("before any gradient")
    assert z.ndim == 0


def test_a_persistent_tape_remembers_the_first_bad_gradient() -> None:
    x = gt.constant([0.0, 1.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        fine = gt.reduce_sum(x * x)
        bad = gt.reduce_sum(gt.sqrt(x))
    tape.gradient(fine, x)
    assert tape.nan_report() is None
    tape.gradient(bad, x)
    assert tape.nan_report().op == "sqrt"
    tape.gradient(fine, x)
    assert tape.nan_report().op == "sqrt"
    tape.reset()
    assert tape.nan_report() is None


def test_a_closed_tape_says_so() -> None:
    with gt.GradientTape() as tape:
        pass
    tape.close()
    with pytest.raises(RuntimeError, match="nan_report: this tape was closed"):
        tape.nan_report()


def test_a_jacobian_names_the_element() -> None:
    x = gt.constant([0.0, 1.0, 4.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.sqrt(x) * 3.0  # rows of a Jacobian
    tape.jacobian(y, x)
    report = tape.nan_report()
    assert (report.phase, report.op, report.location) == ("backward", "sqrt", at("rows of a Jacobian"))
    assert report.indices == ((0,),)
    assert report.inputs["cotangent"] == 3.0


def test_nested_tapes_report_on_what_each_recorded() -> None:
    x = gt.constant([0.0, 1.0])
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = gt.reduce_sum(x**1.5)
        slope = inner.gradient(y, x)  # the inner gradient
    outer.gradient(slope, x)
    assert inner.nan_report() is None
    report = outer.nan_report()
    assert (report.phase, report.location) == ("backward", at("the inner gradient"))
    assert "belongs to the backward pass" in str(report)


def test_per_example_gradients_name_the_example_that_is_bad() -> None:
    found = []

    def slope(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(gt.sqrt(x))  # of each example
        answer = tape.gradient(y, x)
        found.append(tape.nan_report())
        return answer

    gt.vectorized_map(slope, gt.constant([[1.0, 2.0], [3.0, 0.0]]))
    assert (found[0].op, found[0].location, found[0].indices) == ("sqrt", at("of each example"), ((1,),))


def test_assigned_variables_pass_the_blame_on() -> None:
    v, w = gt.Variable([1.0, 0.0]), gt.Variable([3.0, 3.0])
    with gt.GradientTape(through_assignments=True) as tape:
        w.assign(gt.math.log(v))  # assigned
        y = gt.reduce_sum(w * w)
    tape.gradient(y, v)
    report = tape.nan_report()
    assert (report.op, report.location, report.indices) == ("log", at("assigned"), ((1,),))


def test_complex_values() -> None:
    def loss(z: Any) -> Any:
        return gt.math.real(gt.reduce_sum(1.0 / z))  # a complex pole

    report = report_of(loss, np.array([1 + 1j, 0j]))
    assert (report.op, report.location, report.indices) == ("divide", at("a complex pole"), ((1,),))


# -- functions ---------------------------------------------------------------------------------------------------------


def test_a_line_inside_a_custom_gradient() -> None:
    @gt.custom_gradient
    def logarithm(x: Any) -> Any:
        y = gt.math.log(x)  # inside the function of a custom gradient
        return y, lambda upstream: upstream / x

    report = report_of(lambda x: gt.reduce_sum(logarithm(x) * 2.0), [0.0, 1.0])
    assert (report.op, report.location) == ("log", at("inside the function of a custom gradient"))


def test_a_line_inside_recompute_grad() -> None:
    def inner(x: Any) -> Any:
        y = gt.sqrt(x)  # computed twice
        return gt.reduce_sum(y)

    def loss(x: Any) -> Any:
        return 2.0 * gt.recompute_grad(inner)(x)  # the call that recomputes

    report = report_of(loss, [0.0, 1.0])
    assert (report.phase, report.op, report.location) == ("backward", "sqrt", at("computed twice"))
    assert report.calls == (at("the call that recomputes"),)


@gt.function
def logs(x: Any) -> Any:
    y = x * 2.0
    z = gt.math.log(y)  # compiled log
    return gt.reduce_sum(z)


@gt.function
def roots(x: Any) -> Any:
    y = gt.sqrt(x)  # compiled root
    return gt.reduce_sum(y)


@gt.function
def loop(x: Any) -> Any:
    for _ in gt.range(10):
        x = x * x  # compiled loop
    return gt.reduce_sum(x)


@gt.function
def masked(x: Any) -> Any:
    a = gt.where(x > 0, gt.sqrt(x), 0.0)
    b = gt.math.log(x - 1.0)  # compiled and not masked
    return gt.reduce_sum(a + b)


@gt.function
def outer_function(x: Any) -> Any:
    return logs(x) + 1.0


COMPILED = [
    (logs, [0.0, 1.0], "forward", "log", "compiled log"),
    (roots, [0.0, 1.0], "backward", "sqrt", "compiled root"),
    (loop, [1.0, 1e8], "forward", "multiply", "compiled loop"),
    (masked, [-1.0, 3.0], "forward", "log", "compiled and not masked"),
    (outer_function, [0.0, 1.0], "forward", "log", "compiled log"),
]


@pytest.mark.parametrize(("function", "x", "phase", "op", "mark"), COMPILED)
def test_a_line_inside_a_compiled_function(function: Any, x: list[float], phase: str, op: str, mark: str) -> None:
    def loss(t: Any) -> Any:
        return function(t) * 2.0  # the compiled call

    report = report_of(loss, x)
    assert (report.phase, report.op, report.location) == (phase, op, at(mark))
    assert report.calls == (at("the compiled call"),)


def test_masked_lanes_inside_a_function_are_no_alarm() -> None:
    function = gt.function(lambda x: gt.reduce_sum(gt.where(x > 0, gt.sqrt(x), 0.0)))
    assert report_of(function, [-1.0, 0.0, 1.0]) is None


def test_a_function_with_effects_is_named_by_its_call() -> None:
    @gt.function
    def noisy(x: Any) -> Any:
        return gt.reduce_sum(gt.math.log(x + gt.random.normal([2]) * 0.0))

    def loss(x: Any) -> Any:
        return noisy(x)  # a call that cannot run again

    report = report_of(loss, [0.0, 1.0])
    assert (report.op, report.location) == ("function", at("a call that cannot run again"))
    assert "function `noisy`" in str(report)
    assert "enable_check_numerics" in str(report)
    later = report_of(lambda x: loss(x) * 1.0, [0.0, 1.0])
    assert later.op == "multiply"
    assert not later.exact
    assert f"not kept was what function `noisy` at {at('a call that cannot run again')} gave" in str(later)


def test_a_tape_inside_a_function_refuses() -> None:
    @gt.function
    def asks(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        tape.gradient(y, x)
        return tape.nan_report()

    with pytest.raises(RuntimeError, match=r"inside a gt\.function the tape has no values"):
        asks(gt.constant(1.0))


def test_the_gradient_is_what_it_is_without_a_report() -> None:
    x = gt.constant([0.0, 4.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(gt.sqrt(x))
    np.testing.assert_array_equal(tape.gradient(y, x), [np.inf, 0.25])


def test_after_a_long_run_the_report_waits_and_the_values_with_it() -> None:
    x = gt.constant([0.5, 0.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.math.log(x)  # at the start of a long run
        for _ in range(3000):
            y = gt.sin(y) * 1.001
    tape.gradient(y, x)
    assert any(record.saved for record in tape.records)
    assert tape.nan_report().location == at("at the start of a long run")
    assert not any(record.saved for record in tape.records)
    assert tape.nan_report() is tape.nan_report()


def test_html_is_escaped() -> None:
    report = report_of(lambda x: gt.reduce_sum(gt.math.log(x) * (x < 2)), [0.0])
    assert "&lt;" in report._repr_html_()
    assert "<pre" in report._repr_html_()
