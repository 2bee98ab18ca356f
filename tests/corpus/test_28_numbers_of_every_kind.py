"""Axes, sizes, strides and the like as NumPy numbers, arrays, tensors, variables and lists of them: some functions took only
Python's numbers; in functions, those that need the number while tracing failed in words about something else.

The table is complete: every public function with such a parameter is in it. Outside functions each kind of number must give
what the Python number gives; inside, a tensor does so too, or one error names function, argument, line and cure.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError, OperatorNotAllowedInGraphError, StaticDimensionNeeded
from tests.corpus.number_arguments import CALLS, M, public_functions
from tests.harness.tolerances import same_array

FUNCTIONS = {name: (function, numbers) for name, function, numbers in public_functions()}
CASES = [
    (name, number)
    for name, (_, numbers) in FUNCTIONS.items()
    for number in numbers
    if CALLS.get(name, {}).get(number) is not None
]
# these give functions
APPLIED: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("elementwise_grad", "grad", "hessian", "jacobian", "value_and_grad"), (M,)),
    "hessian_vector_product": (M, M),
    "signal.inverse_stft_window_fn": (8,),
}
# what must be known while tracing, though a tensor outside a function may say it: the shape of a program depends on it
REFUSED: dict[str, str] = {
    **dict.fromkeys((
        "argmax", "argmin", "argsort", "boolean_mask", "concat", "cumprod", "cumsum", "cumulative_logsumexp",
        "expand_dims", "l2_normalize", "linspace", "norm", "one_hot", "reduce_all", "reduce_any",
        "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod",
        "reduce_std", "reduce_sum", "reduce_variance", "repeat", "reverse", "roll", "sort", "split", "squeeze",
        "stack", "math.count_nonzero", "math.log_softmax", "math.softmax", "nn.crelu", "nn.layer_norm",
        "nn.softmax_cross_entropy_with_logits", "linalg.normalize",
    ), "axis"),
    "batch_to_space": "block_shape crops",
    **dict.fromkeys((
        "clip_by_norm", "tensordot", "nn.moments", "nn.weighted_moments", "nn.sufficient_statistics",
        "signal.fftshift", "signal.ifftshift",
    ), "axes"),
    "depth_to_space": "block_size",
    "space_to_depth": "block_size",
    "gather": "axis batch_dims",
    "gather_nd": "batch_dims",
    "space_to_batch": "block_shape paddings",
    "strided_slice": "begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask",
    "unstack": "num axis",
    **dict.fromkeys((
        "nn.avg_pool", "nn.avg_pool1d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.max_pool", "nn.max_pool1d",
        "nn.max_pool2d", "nn.max_pool3d", "nn.max_pool_with_argmax",
    ), "ksize"),
    **dict.fromkeys((
        "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.convolution",
    ), "dilations"),
    **dict.fromkeys((
        "nn.conv1d_transpose", "nn.conv2d_transpose", "nn.conv3d_transpose", "nn.conv_transpose",
    ), "output_shape strides dilations"),
    "nn.ctc_loss": "blank_index",
    "nn.depthwise_conv2d": "strides dilations",
    "nn.separable_conv2d": "strides dilations",
    "nn.nce_loss": "num_true",
    "nn.sampled_softmax_loss": "num_true",
    "linalg.diag": "k num_rows num_cols",
    "linalg.diag_part": "k",
    "linalg.set_diag": "k",
    "signal.dct": "type n axis",
    "signal.frame": "frame_length frame_step axis",
    **dict.fromkeys((
        "signal.hamming_window", "signal.hann_window", "signal.kaiser_bessel_derived_window", "signal.kaiser_window",
        "signal.vorbis_window",
    ), "window_length"),
    "signal.idct": "type axis",
    "signal.inverse_stft": "frame_length frame_step fft_length",
    "signal.stft": "frame_length frame_step fft_length",
    **dict.fromkeys((
        "signal.irfft", "signal.irfft2d", "signal.irfft3d", "signal.rfft", "signal.rfft2d", "signal.rfft3d",
    ), "fft_length"),
    "signal.linear_to_mel_weight_matrix": "num_mel_bins num_spectrogram_bins",
    "signal.overlap_and_add": "frame_step",
    "random.log_uniform_candidate_sampler": "num_sampled range_max",
    "random.uniform_candidate_sampler": "num_sampled range_max",
    "random.split": "num",
    "assert_rank": "rank",
    "unravel_index": "dims",
    "nn.dilation2d": "dilations",
    "nn.erosion2d": "dilations",
    "nn.atrous_conv2d_transpose": "output_shape",
    "debugging.assert_rank_at_least": "rank",
    "debugging.assert_rank_in": "ranks",
}  # fmt: skip


def each(value: Any, make: Any) -> Any:
    """A number, or every number of nested lists."""
    return [each(item, make) for item in value] if isinstance(value, list) else make(value)


KINDS = {
    "np.int64": lambda v: each(v, np.int64),
    "np.int32": lambda v: each(v, np.int32),
    "np.uint8": lambda v: each(v, np.uint8) if np.min(v) >= 0 else each(v, np.int8),
    "array": lambda v: np.array(v, np.int32),
    "tensor": lambda v: gt.constant(v, gt.int32),
    "long tensor": lambda v: gt.constant(v, gt.int64),
    "variable": lambda v: gt.Variable(v, dtype=gt.int32),
    "tensors": lambda v: each(v, gt.constant),
    "decided": lambda v: v,  # in a program: by a branch
}


def outcome(name: str, function: Any, arguments: dict[str, Any]) -> list[Any]:
    gt.random.set_seed(7)
    result = function(**arguments)
    if name in APPLIED:
        result = result(*APPLIED[name])
    return [np.asarray(part) for part in gt.nest.flatten(result) if part is not None]


def compare(actual: list[Any], expected: list[Any], what: str) -> None:
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == b.dtype, what
        same_array(a, b, 1e-12, what)


def test_the_table_is_complete() -> None:
    assert set(FUNCTIONS) == set(CALLS), "a function with a number among its arguments needs a call in number_arguments.py"
    for name, (_, numbers) in FUNCTIONS.items():
        assert set(numbers) <= set(CALLS[name]), name


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_of_every_kind(name: str) -> None:
    function, numbers = FUNCTIONS[name]
    call = CALLS[name]
    expected = outcome(name, function, call)
    for number in numbers:
        for kind, make in KINDS.items():
            if call[number] is not None:
                compare(outcome(name, function, {**call, number: make(call[number])}), expected, f"{name}, {number} as {kind}")


def decided(value: Any, first: Any) -> Any:
    """A number, or every number of nested lists, as a Python number that a branch of the program decides."""
    if isinstance(value, list):
        # (a comprehension's list is taken back with the trace, before the message can name the argument)
        return list(map(lambda item: decided(item, first), value))  # noqa: C417
    number = value + 1
    if first:
        number = value
    return number


def in_a_program(function: Any, call: dict[str, Any], number: str, given: Any, kind: str) -> Any:
    """The function compiled, with one of its numbers from outside (an argument, or a captured variable), or decided inside."""
    if kind == "decided":
        branching = gt.function(lambda first: function(**{**call, number: decided(given, first)}), jit_compile=False)
        return lambda: branching(gt.constant(True))
    if isinstance(given, gt.Variable):
        return gt.function(lambda: function(**{**call, number: given}), jit_compile=False)
    compiled = gt.function(lambda n: function(**{**call, number: n}), jit_compile=False)
    return lambda: compiled(given)


@pytest.mark.parametrize("kind", ["tensor", "tensors", "variable", "decided"])
@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in APPLIED and name != "gradcheck"])
def test_numbers_of_a_program(name: str, kind: str) -> None:
    function, numbers = FUNCTIONS[name]
    call = CALLS[name]
    expected = outcome(name, function, call)
    for number in numbers:
        if call[number] is None:
            continue
        run = in_a_program(function, call, number, KINDS[kind](call[number]), kind)
        if number not in REFUSED.get(name, "").split():
            compare(outcome("", run, {}), expected, f"{name}, {number} as {kind} of a program")
            continue
        words = rf"{function.__name__}: {number} must be known while tracing, but it is .*: give Python numbers"
        if name in ("nn.depthwise_conv2d", "nn.separable_conv2d") and number == "strides":
            words = "strides that only run time knows are given for the 2 space axes alone"
        with pytest.raises(
            (InvalidArgumentError, OperatorNotAllowedInGraphError, StaticDimensionNeeded), match=words
        ) as caught:
            run()
        assert f"{__file__}:" in str(caught.value) or number == "strides"


def test_an_axis_that_differs_from_example_to_example() -> None:
    words = (
        rf"^{__file__}:\d+: argmax: axis must be known while tracing, but it is a tensor inside vectorized_map \(each \(\)\)"
    )
    with pytest.raises(TypeError, match=words):
        gt.vectorized_map(lambda axis: gt.argmax(M, axis), gt.constant([0, 1]))
