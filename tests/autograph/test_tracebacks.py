"""Exceptions of converted code show the user's frames and lines, and nothing else."""

import sys
import traceback
from typing import Any

import pytest

import gradtape as gt
from gradtape.functions.autograph import convert
from gradtape.functions.autograph.tracebacks import strip
from tests.autograph.compare import assert_same


def fails(x: int) -> int:
    for i in range(3):
        if i == 1:
            while True:
                y = [
                    helper(k)
                    for k in range(x)
                    if k > 2
                ]  # fmt: skip
                return y[0] and (
                    1 //
                    x
                )  # fmt: skip
    return 0


def helper(k: int) -> int:
    if k > 3:
        raise ValueError(
            f"bad {k}"
        )  # fmt: skip
    return k


def frames(error: BaseException) -> list[tuple[str, int, str]]:
    entries = traceback.extract_tb(strip(error).__traceback__)
    return [(e.filename, e.lineno or 0, e.name) for e in entries]


@pytest.mark.parametrize("x", [0, 3, 5])
def test_frames_are_those_of_the_original(x: int) -> None:
    assert_same(fails, x)


def test_lines_and_names() -> None:
    first = fails.__code__.co_firstlineno
    with pytest.raises(ValueError, match="bad 4") as caught:
        convert(fails)(5)
    seen = [(line - first, name) for file, line, name in frames(caught.value) if file == __file__][1:]
    comprehension = [(5, "fails")] if sys.version_info >= (3, 12) else [(4, "fails"), (5, "<listcomp>")]
    assert seen == [*comprehension, (18, "helper")]


def test_causes_are_cleaned_too() -> None:
    def f(x: int) -> int:
        try:
            if x:
                helper(9)
        except ValueError as error:
            if x:
                raise KeyError("outer") from error
        return 0

    with pytest.raises(KeyError) as caught:
        convert(f)(1)
    strip(caught.value)
    cause: Any = caught.value.__cause__
    names = [e.name for e in traceback.extract_tb(cause.__traceback__)]
    assert names == ["f", "helper"]


def test_records_know_the_users_line() -> None:
    def f(x: Any) -> Any:
        y = x
        if x > 0.0:
            for _ in range(2):
                y = y * x
        return y

    x = gt.constant(3.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = convert(f)(x)
    assert y._node.location == (__file__, f.__code__.co_firstlineno + 4)


def test_method_call_over_several_lines() -> None:
    def f(x: str) -> Any:
        return (
            x
            .strip()
            .index(
                "z"
            )
        )  # fmt: skip

    assert_same(f, "abc")


@gt.function
def fails_when_traced(x: Any) -> Any:
    for _ in gt.range(2):
        if x[0] > 0.0:
            x = x + gt.ones([4])
    return x


@gt.function
def fails_when_run(x: Any) -> Any:
    if x[0] > 0.0:
        raise ValueError("positive")
    return x


@pytest.mark.parametrize("function", [fails_when_traced, fails_when_run])
def test_compiled_functions_show_no_frame_of_gradtape(function: Any) -> None:
    x = gt.constant([1.0, 2.0, 3.0])
    for _ in range(2):
        with pytest.raises(ValueError, match=r"positive|\(3,\)") as caught:
            function(x)
        assert {entry.filename for entry in traceback.extract_tb(caught.value.__traceback__)} == {__file__}
