"""The tester is tested: rules that are a little wrong must be caught by the check that is responsible for them."""

from typing import Any

import numpy as np
import pytest

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, convert
from gradtape.core.forms import unary
from gradtape.core.opdef import Op, Sample, elementwise, general, multilinear, nondiff
from gradtape.ir.types import TensorSpec
from gradtape.ops.elementwise import cos, sin, square
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.sampling import normal
from gradtape.ops.shape import stack
from gradtape.ops.stop import stop_gradient
from tests.harness import batches, slopes, values
from tests.harness.cases import Case, samples_of
from tests.harness.numeric import derivative
from tests.harness.tolerances import FINITE_DIFFERENCE


def cases(op: Op) -> list[Case]:
    return [Case(op, i, sample) for i, sample in enumerate(samples_of(op))]


def caught(check: Any, op: Op, *texts: str) -> None:
    """The check fails on some sample of the op, and says why."""
    with pytest.raises(AssertionError) as raised:
        passes(check, op)
    assert any(text in str(raised.value) for text in texts), str(raised.value)


def passes(check: Any, op: Op) -> None:
    for case in cases(op):
        check(case)


def sine(name: str, partial: Any) -> Op:
    op = elementwise(name, "x", np.sin, partial, samples=lambda: [Sample(normal(3)), Sample(normal(2) + 1j * normal(2))])
    return with_call(op, unary(op))


def with_call(op: Op, call: Any) -> Op:
    object.__setattr__(op, "call", call)
    return op


RIGHT = sine("right_sine", lambda x: cos(x))
ALL_CHECKS = (
    values.check_forward,
    values.check_infer,
    values.check_single,
    values.check_layouts,
    slopes.check_first,
    slopes.check_second,
    slopes.check_jvp,
    batches.check_batch_rule,
    batches.check_vectorized_map,
)


@pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda c: c.__name__)
def test_a_right_op_passes(check: Any) -> None:
    passes(check, RIGHT)


def test_scaled_partial_is_caught() -> None:
    wrong = sine("scaled_sine", lambda x: cos(x) * 1.0005)
    caught(slopes.check_first, wrong, "derivative in leaf 0")


def test_right_at_first_order_wrong_at_second_is_caught() -> None:
    wrong = sine("frozen_sine", lambda x: stop_gradient(cos(x)))
    passes(slopes.check_first, wrong)
    caught(slopes.check_second, wrong, "second derivative")


def test_slightly_wrong_second_order_is_caught() -> None:
    # cos(x) in value; its derivative is scaled by 1.0005
    wrong = sine("skewed_sine", lambda x: 1.0005 * cos(x) - 0.0005 * stop_gradient(cos(x)))
    passes(slopes.check_first, wrong)
    caught(slopes.check_second, wrong, "second derivative")


def product(name: str, **changes: Any) -> Op:
    rules: dict[str, Any] = {
        "left": lambda ct, y: ct * y,
        "right": lambda ct, x: ct * x,
        "infer": inference.elementwise,
        "batch": batching.elementwise,
    } | changes
    return multilinear(
        name, "x y", lambda x, y: x * y, rules["left"], rules["right"], infer=rules["infer"], batch=rules["batch"],
        samples=lambda: [Sample(normal(2, 3), normal(2, 3))],
    )  # fmt: skip


@pytest.mark.parametrize("check", [*ALL_CHECKS, slopes.check_repeated], ids=lambda c: c.__name__)
def test_a_right_product_passes(check: Any) -> None:
    passes(check, product("right_product"))


def test_wrong_rule_of_one_input_is_caught() -> None:
    caught(slopes.check_first, product("left_product", right=lambda ct, x: ct * x * 0.9995), "derivative in leaf 1")


def test_missing_gradient_is_caught() -> None:
    caught(slopes.check_first, product("lost_product", right=None), "derivative in leaf 1")


def test_wrong_shape_of_a_gradient_is_caught() -> None:
    caught(slopes.check_first, product("flat_product", right=lambda ct, x: reduce_sum(ct * x, 0)), "gradient of shape")


def test_double_precision_in_a_single_precision_rule_is_caught() -> None:
    wrong = product("widening_product", left=lambda ct, y: ct * y * convert(ONE))
    passes(slopes.check_first, wrong)
    caught(values.check_single, wrong, "the gradient of a float32 input is float64")


ONE = np.float64(1.0)


def test_wrong_infer_is_caught() -> None:
    caught(values.check_infer, product("flat_type", infer=lambda x, y: TensorSpec((), x.dtype)), "infer of flat_type")
    wide = product("wide_type", infer=lambda x, y: TensorSpec(x.shape, "float64"))
    caught(values.check_infer, wide, "infer of wide_type")


def test_wrong_batch_rule_is_caught() -> None:
    def first_only(op: Op, flags: Any, inputs: Any, attrs: Any) -> Any:
        rows = [x[0] if flag else x for x, flag in zip(inputs, flags, strict=True)]
        return stack([apply(op, *rows, **attrs)] * batching.batch_size(flags, inputs))

    wrong = product("stuck_product", batch=first_only)
    caught(batches.check_batch_rule, wrong, "batch rule of stuck_product")
    caught(batches.check_vectorized_map, wrong, "vectorized_map over leaves")


def curve(name: str, jvp: Any) -> Op:
    return general(
        name, "x", lambda x: x * x * x, vjps=(lambda ct, x: ct * square(x) * 3.0,), jvps=(jvp,), infer=inference.same,
        batch=batching.elementwise, samples=lambda: [Sample(normal(3))],
    )  # fmt: skip


def test_wrong_jvp_is_caught() -> None:
    passes(slopes.check_jvp, curve("right_curve", lambda t, x: t * square(x) * 3.0))
    caught(slopes.check_jvp, curve("wrong_curve", lambda t, x: t * square(x) * 3.0005), "jvp against vjp")
    frozen = curve("frozen_curve", lambda t, x: t * stop_gradient(square(x)) * 3.0)
    caught(slopes.check_jvp, frozen, "reverse over forward")


def test_conjugation_is_caught() -> None:
    """A holomorphic rule that forgets to conjugate is right for real numbers and wrong for complex ones."""
    wrong = general(
        "unconjugated", "x", np.sin, vjps=(lambda ct, x: ct * cos(x),), jvps=(lambda t, x: t * cos(x),),
        infer=inference.same, batch=batching.elementwise, samples=lambda: [Sample(normal(2) + 1j * normal(2))],
    )  # fmt: skip
    caught(slopes.check_first, wrong, "derivative in leaf 0")


def test_an_op_that_writes_to_its_input_is_caught() -> None:
    def impl(x: Any) -> Any:
        x *= 1.0
        return x

    wrong = nondiff("writer", "x", impl, infer=inference.same, reason="test", batch=None, samples=lambda: [Sample(normal(3))])
    case = cases(wrong)[0]
    with pytest.raises(ValueError, match="read-only"):
        case.outputs([_tensor(x) for x in case.leaves])


def _tensor(x: Any) -> Any:
    from tests.harness.cases import tensor

    return tensor(x)


def test_an_unstable_result_is_caught() -> None:
    generator = np.random.default_rng(0)
    wrong = nondiff(
        "restless", "x", lambda x: x + generator.normal(), infer=inference.same, reason="test",
        batch=batching.elementwise, samples=lambda: [Sample(normal(3))],
    )  # fmt: skip
    caught(values.check_forward, wrong, "two calls differ")


def test_a_zero_dimensional_array_is_caught() -> None:
    wrong = nondiff(
        "boxed_scalar", "x", lambda x: np.asarray(x), infer=inference.same, reason="test", batch=None,
        samples=lambda: [Sample(normal())],
    )  # fmt: skip
    caught(values.check_forward, wrong, "NumPy scalar")


def failing(name: str, sample: Sample) -> Op:
    def call(x: Any) -> Any:
        y = sin(x)
        if y.ndim == 1:
            raise ValueError("one axis is not enough")
        return y

    return nondiff(name, "x", np.sin, infer=inference.same, reason="test", batch=None, samples=lambda: [sample], call=call)


def test_wrong_errors_are_caught() -> None:
    promise = (ValueError, "one axis")
    caught(values.check_error, failing("leaves_records", Sample(normal(2), raises=promise)), "left 1 records")
    caught(values.check_error, failing("raises_nothing", Sample(normal(2, 2), raises=promise)), "nothing was raised")
    caught(values.check_error, failing("other_text", Sample(normal(2), raises=(ValueError, "two"))), "does not contain")


def test_no_gradient_means_none() -> None:
    wrong = elementwise("silent_zero", "x", np.floor, lambda x: x * 0.0, samples=lambda: [Sample(normal(3))])
    caught(values.check_no_gradient, wrong, "has no derivative")


def test_finite_differences_are_accurate() -> None:
    for function, slope in ((np.exp, 1.0), (np.sin, 1.0), (lambda s: 1.0 / (0.3 + s), -1.0 / 0.09)):
        assert abs(derivative(function) - slope) <= FINITE_DIFFERENCE * 1e-3 * abs(slope)
