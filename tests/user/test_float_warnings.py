"""Floating-point events are told at the user's line, once, with the operation, the expression and the next step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.float_events import listen
from gradtape.core.record import INTERNAL
from tests.harness.cases import Case
from tests.harness.checks import cases_of
from tests.tape.test_native_forms import forms

SPECIAL = (0.0, -1.0, 1e30, np.inf, np.nan)


@contextmanager
def heard(action: str = "always") -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)  # type: ignore[arg-type]
        listen()
        yield caught


def line_of(text: str) -> int:
    return next(n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith(f"# {text}"))


def complaints(case: Case) -> list[str]:
    """What is warned of, on unlikely numbers, at another line than the one that calls, which is one of the harness."""
    found = []
    for number in SPECIAL:
        with heard() as caught, suppress(ValueError, TypeError):  # some operations refuse such numbers
            case.call([np.full_like(leaf, number) for leaf in case.leaves])
        found += [
            f"{case.id} of {number}: {warning}"
            for warning in caught
            if warning.filename in INTERNAL
            or (issubclass(warning.category, RuntimeWarning) and not warning.filename.endswith("cases.py"))
        ]
    return found


@pytest.mark.parametrize("native", [False, True])
def test_no_operation_warns_at_a_line_of_the_library(native: bool) -> None:
    """In Python's forms of dispatch, and as machine code, which has no frames."""
    with forms(native):
        assert [complaint for case in cases_of("forward") for complaint in complaints(case)] == []


def test_the_words() -> None:
    loss = gt.constant([1.0, 0.0])
    with heard() as caught:
        np.testing.assert_array_equal(gt.math.log(loss - 1), [-np.inf, np.nan])  # log
    (warning,) = caught
    assert (warning.filename, warning.lineno) == (__file__, line_of("log"))
    assert str(warning.message) == (
        "log in `gt.math.log(loss - 1)` is not finite: log(0) is -inf, and the log of a negative number is NaN; keep the "
        "argument positive, gt.math.log(gt.maximum(x, 1e-7)), or take gt.nn.log_softmax of the logits. tape.nan_report() says "
        "what comes of it, gt.debugging.enable_check_numerics() stops here"
    )


def test_once_per_line_whatever_the_numbers() -> None:
    with heard("default") as caught:
        for value in (0.0, -1.0, -2.0):
            gt.sqrt(gt.constant([value, value - 1.0])) / 0.0
    assert [str(w.message).split(" is")[0] for w in caught] == ["sqrt in `gt.sqrt(gt.constant([value, value - 1.0]))`"]


def test_a_variable_is_named_as_the_code_names_it() -> None:
    weights = gt.Variable([0.0], name="anything")
    with heard() as caught:
        weights**-1.5
    assert str(caught[0].message).startswith("power in `weights**-1.5` is not finite: a negative number to a fractional power")


def test_those_who_asked_for_something_else_get_it() -> None:
    x = gt.constant(-1.0)
    with heard() as caught, np.errstate(all="ignore"):
        gt.sqrt(x)
    assert not caught
    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        gt.sqrt(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gt.sqrt(x)
    with pytest.raises(RuntimeWarning, match=r"sqrt in `gt.sqrt\(x\)` is not finite"):  # warnings are errors in the tests
        gt.sqrt(x)


@pytest.mark.parametrize("wrap", [lambda f: f, gt.function], ids=["eager", "compiled"])
def test_what_a_line_makes_of_its_own_infinity_is_not_told_again(wrap) -> None:
    @wrap
    def entropy(p):
        return -gt.reduce_sum(p * gt.math.log(p))

    with heard("default") as caught:
        entropy(gt.constant([1.0, 0.0]))
    assert [str(w.message).partition(" in ")[0] for w in caught] == ["log"]


def test_a_function_of_the_user_warns_for_itself_and_runs_once() -> None:
    calls = []

    def function(array: np.ndarray) -> np.ndarray:
        calls.append(array)
        return np.log(array)  # NumPy

    with heard() as caught:
        gt.numpy_function(function, [gt.constant(-1.0)], gt.float32)
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line_of("NumPy"))]
    assert len(calls) == 1
    with pytest.raises(RuntimeWarning, match="invalid value encountered in log"):
        gt.numpy_function(function, [gt.constant(-1.0)], gt.float32)
    assert len(calls) == 2
