"""`debugging.enable_check_numerics()`: an error at the very line, eager and compiled, and nothing when it is off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.dispatch import RUNNERS, WATCHERS
from tests.tools.lines import line_of


@pytest.fixture
def checked() -> Iterator[None]:
    gt.debugging.enable_check_numerics()
    yield
    gt.debugging.disable_check_numerics()


def at(mark: str) -> str:
    return line_of(__file__, mark)


def refused(function: Any, *args: Any) -> str:
    with pytest.raises(gt.errors.InvalidArgumentError) as caught:
        function(*args)
    assert isinstance(caught.value, ValueError)
    return str(caught.value)


def test_off_nothing_watches() -> None:
    assert not WATCHERS
    assert not RUNNERS
    gt.debugging.enable_check_numerics()
    gt.debugging.enable_check_numerics()
    assert len(WATCHERS) == 1
    assert WATCHERS.quiet
    gt.debugging.disable_check_numerics()
    gt.debugging.disable_check_numerics()
    assert not WATCHERS
    assert not WATCHERS.quiet
    assert not RUNNERS


def logs(x: Any) -> Any:
    y = x * 2.0
    return gt.math.log(y)  # eager log


@pytest.mark.usefixtures("checked")
def test_eager_operations_stop_at_their_line() -> None:
    text = refused(logs, gt.constant([1.0, 0.0, -3.0]))
    assert text.startswith("check_numerics: log gave a value that is not finite")
    assert at("eager log") in text
    assert "return gt.math.log(y)" in text
    assert "1 NaN and 1 infinite of 3 elements, shape (3,), dtype float32, first at [1]" in text
    assert "x = 0.0, -6.0 → -inf" in text
    assert "cure" in text


@pytest.mark.usefixtures("checked")
def test_finite_values_pass() -> None:
    np.testing.assert_allclose(logs(gt.constant([0.5, 1.0])), [0.0, np.log(2.0)], rtol=1e-6)


@pytest.mark.usefixtures("checked")
def test_what_was_not_finite_before_is_not_new() -> None:
    bad = gt.constant([np.nan, 1.0])
    assert np.isnan((bad * 2.0)[0])
    assert np.isnan(gt.reduce_sum(bad))
    text = refused(lambda: gt.exp(bad * gt.constant([1.0, 1000.0])))
    assert "1 NaN and 1 infinite" in text


@pytest.mark.usefixtures("checked")
def test_the_state_is_as_before_the_operation() -> None:
    v = gt.Variable([1.0, 0.0])
    with gt.GradientTape() as tape:
        y = v * 2.0
        refused(lambda: v.assign(gt.math.log(y)))
        z = gt.reduce_sum(y)
    np.testing.assert_array_equal(v, [1.0, 0.0])
    np.testing.assert_array_equal(tape.gradient(z, v), [2.0, 2.0])


@gt.function
def compiled(x: Any) -> Any:
    y = x * 2.0
    z = gt.sqrt(y)  # compiled root
    return gt.reduce_sum(z)


@gt.function
def compiled_loop(x: Any) -> Any:
    total = x
    for i in gt.range(20):
        gt.print("step", i)
        total = total * total  # compiled square
    return total


@gt.function
def around(x: Any) -> Any:
    return compiled(x) + 1.0


def test_compiled_functions_stop_at_the_line_inside() -> None:
    good, bad = gt.constant([1.0, 4.0]), gt.constant([1.0, -4.0])
    for _ in range(3):
        compiled(good), around(good)  # compiled before the checks are on
    gt.debugging.enable_check_numerics()
    try:
        for function in (compiled, around):
            text = refused(function, bad)
            assert text.startswith("check_numerics: sqrt")
            assert at("compiled root") in text
        np.testing.assert_allclose(compiled(good), 2.0**0.5 + 8.0**0.5, rtol=1e-6)
    finally:
        gt.debugging.disable_check_numerics()
    with pytest.warns(RuntimeWarning, match="square root of a negative number"):
        assert np.isnan(compiled(bad))


@pytest.mark.usefixtures("checked")
def test_a_compiled_loop_with_effects(capsys: pytest.CaptureFixture[str]) -> None:
    text = refused(compiled_loop, gt.constant(1e10))
    assert at("compiled square") in text
    assert "x = 1e+20" in text
    assert capsys.readouterr().err.splitlines() == ["step 0", "step 1"]


@pytest.mark.usefixtures("checked")
def test_gradients_of_compiled_functions_are_right_meanwhile() -> None:
    x = gt.constant([1.0, 4.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = compiled(x)
    np.testing.assert_allclose(tape.gradient(y, x), [0.5 * 2.0**0.5, 0.25 * 2.0**0.5], rtol=1e-6)


@pytest.mark.usefixtures("checked")
def test_a_gradient_that_is_not_finite_raises_its_report() -> None:
    x = gt.constant([0.0, 4.0])

    def slope() -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(gt.sqrt(x))  # eager root of zero
        return tape.gradient(y, x)

    text = refused(slope)
    assert "check_numerics: NaN report" in text
    assert "sqrt (its derivative)" in text
    assert at("eager root of zero") in text

    def compiled_slope() -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = compiled(x)
        return tape.gradient(y, x)

    assert at("compiled root") in refused(compiled_slope)


@pytest.mark.usefixtures("checked")
def test_masked_partials_of_derivatives_are_no_alarm() -> None:
    x = gt.constant([0.0, 4.0])
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = gt.reduce_sum(gt.where(x > 1.0, gt.sqrt(x), x))
        slope = inner.gradient(y, x)
        total = gt.reduce_sum(slope)
    np.testing.assert_allclose(slope, [1.0, 0.25])
    np.testing.assert_allclose(outer.gradient(total, x), [0.0, -1.0 / 32.0])
    np.testing.assert_allclose(
        gt.jvp(lambda t: gt.where(t > 1.0, gt.sqrt(t), t), [x], [gt.constant([1.0, 1.0])])[1], [1.0, 0.25]
    )


@pytest.mark.usefixtures("checked")
def test_limits_of_empty_sets_and_infinite_constants_pass() -> None:
    mask = gt.constant([0.0, -np.inf])
    np.testing.assert_array_equal(gt.nn.softmax(gt.constant([1.0, 1.0]) + mask), [1.0, 0.0])
    assert gt.fill([2], np.inf).shape == (2,)
