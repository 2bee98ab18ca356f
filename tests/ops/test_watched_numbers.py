"""Numbers among the arguments of operations, given as tensors that a tape watches: they have a gradient, or are refused.

A function that takes `float(alpha)` of its argument cuts the gradient without a word (`leaky_relu(x, alpha)` with a learned
alpha, `lstsq` with a learned regularizer did). Every float among the arguments and defaults of every sample is asked for.
"""

from __future__ import annotations

import inspect
import warnings
from functools import cache

import numpy as np
import pytest

import gradtape as gt
from gradtape import tree
from gradtape.core.opdef import Composite
from gradtape.errors import OperatorNotAllowedInGraphError
from tests.harness.cases import all_cases, tensor
from tests.harness.numeric import derivative
from tests.harness.seeds import in_sample
from tests.harness.tolerances import FINITE_DIFFERENCE, same_number

REFUSED = "where it takes a number, for which it has no derivative"
DRAWN = {"dropout", *(case.name for case in all_cases() if "random" in case.name)}  # step functions, single precision


def _arguments(case):
    """The arguments of a sample by name, arrays as tensors, and the floats among them and among the defaults."""
    bound = inspect.signature(case.function).bind(*case.sample.args, **case.sample.kwargs)
    bound.apply_defaults()
    given = {name: tensor(value) if isinstance(value, np.ndarray) else value for name, value in bound.arguments.items()}
    return given, [name for name, value in given.items() if value.__class__ is float]


@cache
def numbers() -> dict[tuple[str, str], object]:
    """A sample for each function and each of its parameters that takes a float."""
    asked: dict = {}
    zeros: dict = {}
    for case in all_cases():
        public = isinstance(case.owner, Composite) or hasattr(gt, case.name) or hasattr(gt.nn, case.name)
        if case.fails or not public or case.name in DRAWN or not any(part.dtype.is_floating for part in case.outputs()):
            continue
        given, names = _arguments(case)
        for name in names:
            (asked if given[name] else zeros).setdefault((case.name, name), case)
    return {**zeros, **asked}  # zero is the end of a domain more often than not


def total(case, name, value):
    result = case.function(**{**_arguments(case)[0], name: value})
    parts = [part for part in tree.flatten(result) if isinstance(part, gt.Tensor) and part.dtype.is_floating]
    return gt.add_n(
        [gt.reduce_sum(gt.cast(part, gt.float64) * np.cos(np.arange(part.size)).reshape(part.shape)) for part in parts]
    )


def slope(case, name, compiled):
    """The derivative with respect to a parameter; None where it is refused."""
    x = gt.constant(_arguments(case)[0][name], gt.float64)
    function = gt.function(total) if compiled else total
    with gt.GradientTape() as tape, warnings.catch_warnings():
        warnings.simplefilter("ignore", gt.GradientWarning)
        tape.watch(x)
        try:
            y = function(case, name, x)
        except TypeError as error:
            assert REFUSED in str(error) and __file__ in str(error)  # noqa: PT017, PT018  (which of both it is says the text)
            return None
        except OperatorNotAllowedInGraphError as error:
            assert compiled and __file__ in str(error)  # noqa: PT017, PT018
            return None
        gradient = tape.gradient(y, x, unconnected_gradients="zero")
    return float(gradient)


@pytest.mark.parametrize(("function", "name"), numbers(), ids=lambda part: part)
def test_a_watched_number_has_a_gradient_or_is_refused(function, name):
    case = numbers()[function, name]
    value = _arguments(case)[0][name]
    scale = value or 1.0  # a small number is moved by a part of itself
    for compiled in (False, True)[: 1 + in_sample(f"{function} {name}", 3)]:
        answer = slope(case, name, compiled)
        if answer is not None:
            expected = derivative(lambda s: float(total(case, name, np.float64(value + s * scale))))
            same_number(answer * scale, expected, FINITE_DIFFERENCE, 1.0, f"{function}, {name}, compiled: {compiled}")


def test_the_refused_ones_are_known():
    refused = {key for key, case in numbers().items() if slope(case, key[1], False) is None}
    assert refused == {("norm", "ord"), ("central_crop", "central_fraction")}
