"""`tape.check`: wrong rules are caught and named, right ones pass, and kinks, integers and compiled calls are handled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.ad.backward import binding
from gradtape.ops import elementwise
from gradtape.ops.registry import OPS
from gradtape.tools.slopes import slope_of
from tests.harness.cases import public_function
from tests.tools.lines import line_of


def at(mark: str) -> str:
    return line_of(__file__, mark)


def checked(function: Callable[..., Any], *xs: Any, **options: Any) -> Any:
    sources = [x if isinstance(x, gt.Variable) else gt.constant(x) for x in xs]
    with gt.GradientTape(debug=True, **options) as tape:
        for source in sources:
            tape.watch(source)
        y = function(*sources)
    return tape.check(y, sources)


A = np.random.default_rng(0).normal(size=(3, 4))
B = np.random.default_rng(1).normal(size=(4, 5)).astype(np.float32)


@gt.custom_gradient
def square(x: Any) -> Any:
    return x * x, lambda upstream: upstream * 2.0 * x


@gt.custom_gradient
def wrong_square(x: Any) -> Any:
    return x * x, lambda upstream: upstream * 2.001 * x


# -- right ones --------------------------------------------------------------------------------------------------------

RIGHT: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "a network": (lambda a, b: gt.reduce_sum(gt.tanh(gt.matmul(a, b)) ** 2), [A, B]),
    "a custom gradient": (lambda a: gt.reduce_sum(gt.sin(square(a))), [A]),
    "complex numbers": (lambda z: gt.math.real(gt.reduce_sum(gt.sin(z) * gt.math.conj(z))), [A + 1j * A[::-1]]),
    "indices and masks": (lambda a: gt.reduce_sum(gt.gather(a, gt.argmax(a, 0)) * gt.cast(a[0] > 0, gt.float64)), [A]),
    "stopped gradients": (lambda a: gt.reduce_sum(gt.stop_gradient(a) * a), [A]),
    "decompositions": (lambda a: gt.reduce_sum(gt.linalg.svd(a)[1]) + gt.reduce_sum(gt.linalg.qr(a)[0] ** 3), [A.T]),
    "a repeated input": (lambda a: gt.reduce_sum(a * a + gt.concat([a, a], 0)[2:5]), [A]),
    "updates": (lambda a: gt.reduce_sum(gt.tensor_scatter_nd_update(a, [[0]], [a[1] * 2.0]) ** 2), [A]),
    "single precision": (lambda a: gt.reduce_mean(gt.nn.log_softmax(a * 3.0) * a), [A.astype(np.float32)]),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right_gradients_pass(name: str) -> None:
    function, xs = RIGHT[name]
    result = checked(function, *xs)
    assert result, str(result)
    assert result.ok
    assert not result.wrong
    assert all(source.ok for source in result.sources)
    assert all(row.ok is not False for row in result.rows)
    assert result.error < (1e-6 if all(np.asarray(x).dtype.itemsize >= 8 for x in xs) else 1e-3)
    assert str(result).startswith("check: the gradient agrees with finite differences")


def test_rows_have_the_op_and_its_line() -> None:
    def loss(a: Any) -> Any:
        b = gt.sin(a)  # a row
        return gt.reduce_sum(b)  # another row

    rows = {(row.op, row.location): row for row in checked(loss, A).rows}
    assert set(rows) == {("sin", at("a row")), ("reduce_sum", at("another row"))}
    assert all(row.ok and row.count == 1 and row.error < 1e-8 for row in rows.values())


def test_it_works_after_the_gradient_of_a_one_shot_tape_and_is_the_same_each_time() -> None:
    v = gt.Variable(A)
    with gt.GradientTape(debug=True) as tape:
        y = gt.reduce_sum(gt.sin(v) * v)
    np.testing.assert_allclose(tape.gradient(y, v), np.sin(A) + A * np.cos(A))
    assert str(tape.check(y, v)) == str(tape.check(y, v))
    assert tape.check(y, v).ok


def _samples() -> Iterator[tuple[str, Callable[..., Any], Any]]:
    """The first two smooth samples of every op that has a derivative."""
    for op in OPS:
        if op.samples is not None and op.differentiable:
            smooth = [s for s in op.samples() if s.raises is None and not s.kinks]
            for sample in smooth[:2]:
                yield op.name, public_function(op), sample


def test_the_rule_of_every_op_passes() -> None:
    """No false alarms: what the harness knows to be right is found to be right."""
    names = set()
    for name, call, sample in _samples():
        args = [
            gt.constant(a) if isinstance(a, np.ndarray) and a.dtype.kind in "fc" and i not in sample.fixed else a
            for i, a in enumerate(sample.args)
        ]
        sources = [a for a in args if isinstance(a, gt.Tensor)]
        with gt.GradientTape(debug=True) as tape, np.errstate(all="ignore"):
            tape.watch(sources)
            outs = [o for o in gt.nest.flatten(call(*args, **sample.kwargs)) if isinstance(o, gt.Tensor)]
            parts = [gt.cast(gt.reduce_sum(gt.sin(o)), gt.float64) for o in outs if o.dtype.is_floating]
            y = gt.add_n(parts) if parts else None
        if y is not None and sources and any(tape.explain(y, s).cause == "connected" for s in sources):
            result = tape.check(y, sources)
            assert result.ok, f"{name}: {result}"
            names.add(name)
    assert len(names) > 100


# -- wrong ones --------------------------------------------------------------------------------------------------------


def test_a_wrong_custom_gradient_is_caught_and_named() -> None:
    def loss(a: Any) -> Any:
        b = gt.sin(a)
        c = wrong_square(b)  # wrong by a twentieth of a percent
        return gt.reduce_sum(gt.exp(c))

    result = checked(loss, A)
    assert not result.ok
    assert not result
    (row,) = result.wrong
    assert (row.op, row.location) == ("custom gradient `wrong_square`", at("wrong by a twentieth of a percent"))
    assert row.error == pytest.approx(5e-4, rel=0.1)
    assert result.sources[0].ok is False
    assert f"the derivative of custom gradient `wrong_square` at {row.location} is off" in str(result)


def test_a_rule_that_forgets_an_argument_is_caught() -> None:
    @gt.custom_gradient
    def product(a: Any, b: Any) -> Any:
        return a * b, lambda upstream: (upstream * b, None)

    result = checked(lambda a, b: gt.reduce_sum(product(a, b)), A, A)
    assert [row.op for row in result.wrong] == ["custom gradient `product`"]


def test_a_rule_around_numpy_code_is_checked_too() -> None:
    @gt.custom_gradient
    def sine(x: Any) -> Any:
        return gt.constant(np.sin(x.numpy())), lambda upstream: upstream * gt.cos(x) * 1.1

    result = checked(lambda a: gt.reduce_sum(sine(a)), A)
    assert [row.op for row in result.wrong] == ["custom gradient `sine`"]
    assert "1.1" not in str(result.wrong)


def test_a_straight_through_estimator_is_no_derivative() -> None:
    result = checked(lambda a: gt.reduce_sum(gt.grad_pass_through(gt.round)(a) ** 2), A)
    assert not result.ok
    assert [row.op for row in result.wrong] == ["custom gradient `round`"]


@pytest.fixture
def broken_sine() -> Iterator[None]:
    """The rule of a built-in op, made wrong by a twentieth of a percent."""
    right = [(pulls, pulls[elementwise.SIN]) for pulls in (binding(careful=False), binding(careful=True))]
    for pulls, pull in right:
        pulls[elementwise.SIN] = lambda sweep, record, ct, pull=pull: pull(sweep, record, ct * 1.0005)
    yield
    for pulls, pull in right:
        pulls[elementwise.SIN] = pull


@pytest.mark.usefixtures("broken_sine")
def test_a_wrong_rule_of_the_library_itself_would_be_caught() -> None:
    def loss(a: Any) -> Any:
        b = gt.exp(a)
        c = gt.sin(b)  # the broken op
        return gt.reduce_sum(c)

    result = checked(loss, A)
    assert [(row.op, row.location) for row in result.wrong] == [("sin", at("the broken op"))]


def test_of_two_wrong_rules_both_are_named() -> None:
    @gt.custom_gradient
    def half(x: Any) -> Any:
        return x * 0.5, lambda upstream: upstream

    result = checked(lambda a: gt.reduce_sum(half(wrong_square(a))), A)
    assert {row.op for row in result.wrong} == {"custom gradient `wrong_square`", "custom gradient `half`"}


# -- compiled functions, state -----------------------------------------------------------------------------------------


@gt.function
def compiled(a: Any) -> Any:
    for i in gt.range(3):
        a = gt.sin(a) * gt.cast(i + 1, gt.float32)  # in a compiled loop
    return gt.reduce_sum(a)


@gt.function
def compiled_wrong(a: Any) -> Any:
    b = gt.sin(a)
    c = wrong_square(b)  # inside a compiled function
    return gt.reduce_sum(c)


def test_compiled_calls_are_repeated_operation_by_operation() -> None:
    result = checked(compiled, A.astype(np.float32))
    assert result.ok
    assert ("sin", at("in a compiled loop")) in {(row.op, row.location) for row in result.rows}


def test_a_wrong_rule_inside_a_compiled_function_is_named_with_its_line() -> None:
    result = checked(lambda a: compiled_wrong(a) * 2.0, A.astype(np.float32))
    assert [(row.op, row.location) for row in result.wrong] == [("custom gradient", at("inside a compiled function"))]


def test_variables_assignments_and_captured_variables() -> None:
    v = gt.Variable([1.0, 2.0])

    @gt.custom_gradient
    def scaled(x: Any) -> Any:
        return x * v, lambda upstream: upstream * v

    def loss(x: Any) -> Any:
        v.assign(v * x)
        return gt.reduce_sum(scaled(x) + gt.recompute_grad(lambda t: gt.sin(t * v))(x))

    x = gt.constant([3.0, 4.0])
    with gt.GradientTape(debug=True, through_assignments=True) as tape:
        tape.watch(x)
        y = loss(x)
    before = v.numpy().copy()
    result = tape.check(y, [x, v])
    assert result.ok, str(result)
    np.testing.assert_array_equal(v, before)


def test_assignments_that_cut_gradients_are_cut_in_the_check() -> None:
    v = gt.Variable(2.0)
    with gt.GradientTape(debug=True, through_assignments=False) as tape:
        v.assign(v * v)
        y = v * v * v
    assert tape.check(y, v).ok


def test_gradients_of_gradients() -> None:
    x = gt.Variable([1.0, 2.0])
    with gt.GradientTape(debug=True) as outer:
        with gt.GradientTape() as inner:
            y = gt.reduce_sum(x**3)
        slope = inner.gradient(y, x)
        z = gt.reduce_sum(slope * slope)
    assert outer.check(z, x).ok


# -- kinks, integers, what is not connected ----------------------------------------------------------------------------


def test_at_a_kink_any_slope_between_both_sides_is_right() -> None:
    result = checked(lambda a: gt.reduce_sum(gt.nn.relu(a) * 2.0), [0.0, 1.0, -1.0])
    assert result.ok
    assert result.sources[0].note == "the target has a kink here"


def test_integer_sources_and_unconnected_ones_are_said_to_be_that() -> None:
    x, n, z = gt.constant(2.0), gt.constant(3), gt.constant(1.0)
    with gt.GradientTape(debug=True) as tape:
        tape.watch([x, z])
        y = x * gt.cast(n, gt.float32)
    with pytest.warns(gt.errors.GradientWarning, match="int32"):
        result = tape.check(y, [x, n, z])
    assert result.ok
    assert [source.ok for source in result.sources] == [True, None, None]
    assert "carries no gradient" in result.sources[1].note
    assert "not connected" in result.sources[2].note


def test_rounding_of_single_precision_is_told_from_a_wrong_rule() -> None:
    def cancelling(x: Any) -> Any:
        return gt.reduce_sum((1.0 - gt.cos(x)) / (x * x))

    result = checked(cancelling, np.array([0.03, 0.05], np.float32))
    assert not result.ok
    assert not result.wrong
    assert result.rounding > 0.1
    assert "every rule is right in float64: rounding makes the difference" in str(result)
    assert checked(cancelling, np.array([0.03, 0.05])).ok


# -- what cannot be checked --------------------------------------------------------------------------------------------


def test_a_tape_without_debug_says_how_to_get_it() -> None:
    x = gt.constant(1.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(gt.errors.FailedPreconditionError, match=r"GradientTape\(debug=True\)"):
        tape.check(y, x)


def test_a_target_of_another_tape_is_refused() -> None:
    x = gt.constant(1.0)
    with gt.GradientTape(debug=True) as tape:
        tape.watch(x)
    with pytest.raises(ValueError, match="was not computed on this tape"):
        tape.check(x * x, x)


def test_sources_that_are_no_tensors_and_closed_tapes_are_refused() -> None:
    x = gt.constant(1.0)
    with gt.GradientTape(debug=True) as tape:
        tape.watch(x)
        y = x * x
    with pytest.raises(ValueError, match="must be a tensor or a variable"):
        tape.check(y, 3.0)
    tape.close()
    with pytest.raises(RuntimeError, match="closed"):
        tape.check(y, x)


def test_what_cannot_be_repeated_is_named() -> None:
    @gt.function
    def noisy(x: Any) -> Any:
        return gt.reduce_sum(x * gt.random.normal([2]))

    def loss(x: Any) -> Any:
        return noisy(x) * 2.0  # draws random numbers

    with pytest.raises(gt.errors.FailedPreconditionError, match="cannot run again") as caught:
        checked(loss, [1.0, 2.0])
    assert at("draws random numbers") in str(caught.value)


def test_debug_keeps_operands_as_long_as_the_tape_lives() -> None:
    from gradtape.tools.operands import operands_of

    x = gt.constant([1.0, 2.0])
    with gt.GradientTape(debug=True) as tape:
        tape.watch(x)
        y = gt.reduce_sum(x + 3.0)
    tape.gradient(y, x)
    kept = operands_of(tape)
    assert kept is not None
    assert [k.op.name for k in kept.kept] == ["add", "reduce_sum"]
    assert kept.kept[tape.records[0]].inputs[1] == 3.0
    tape.close()
    assert len(kept.kept) == 0 or y._node is not None


# -- slopes ------------------------------------------------------------------------------------------------------------


def test_slopes_know_kinks_from_curves() -> None:
    curve = slope_of(lambda h: float(np.exp(3.0 * h)), 1e-4)
    assert curve.smooth
    assert curve.value == pytest.approx(3.0, rel=1e-9)
    assert curve.agrees(3.0, 1e-8)
    assert curve.agrees(3.01, 1e-8) is False
    kink = slope_of(lambda h: 2.0 * h + abs(h), 1e-4)
    assert not kink.smooth
    assert kink.sides == pytest.approx((1.0, 3.0))
    assert kink.agrees(1.0, 1e-8)
    assert kink.agrees(3.5, 1e-8) is None
    assert not slope_of(lambda h: float("nan"), 1e-4).smooth
    assert slope_of(lambda h: 1e6, 1e-4).smooth
