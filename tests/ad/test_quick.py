"""The short way of tracing: the same program as the general way, and a bounded cost per operation."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.hooks import HOOKS
from gradtape.ir.printer import to_text
from gradtape.trace.tracing import TracedTensor


def chain(x: Any, y: Any, k: Any) -> Any:
    a = gt.sin(x) * y + 0.5
    for i in range(3):
        a = 2 * a - gt.exp(-a) / 3.0 + 0.1 * i
    return gt.maximum(a, 0.0) * gt.tanh(a) ** 2, gt.sqrt(k) + 1


def other_dtypes(x: Any, y: Any, k: Any) -> Any:
    return k + 1, k * 2.5, -k, gt.cast(x, gt.float32) * 0.1 + 1, x * float("inf"), gt.cast(x, gt.complex128) * 2 + 1j, x > 0.5


def captured_and_concrete(x: Any, y: Any, k: Any) -> Any:
    return x + np.ones(3), gt.constant([1.0, 2.0, 3.0], gt.float64) * x, gt.sin(gt.constant(0.5, gt.float64)) * x


def inside_regions(x: Any, y: Any, k: Any) -> Any:
    s = x
    for _ in gt.range(k):
        s = gt.sin(s) * x + 0.25
        if s[0] > 0.1:
            s = s * y - 0.25
    return s


def under_a_tape(x: Any, y: Any, k: Any) -> Any:
    with gt.GradientTape() as tape:
        tape.watch(x)
        z = gt.sin(x) * x + 0.5 * y
    return tape.gradient(z, x)


PROGRAMS = [chain, other_dtypes, captured_and_concrete, inside_regions, under_a_tape]


def text_of(function: Any) -> str:
    """The program as it is traced, without the names of files and the numbers of sizes."""
    args = gt.constant(np.array([0.3, -0.2, 0.9])), gt.constant(np.array([0.5, 0.6, 0.7])), gt.constant(3)
    text = to_text(gt.function(function).get_concrete_function(*args).program.block, locations=False)
    return re.sub(r"\bn_\d+", "n", text)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_the_program_is_the_same_either_way(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    short = text_of(function)
    monkeypatch.delitem(HOOKS.quick, TracedTensor)
    assert text_of(function) == short


def calls_while_tracing(count: int) -> int:
    def long(x: Any) -> Any:
        s = x
        for i in range(count):
            s = gt.sin(s) * x + 0.1 * i  # four operations
        return s

    compiled = gt.function(long)
    calls = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        compiled.get_concrete_function(gt.TensorSpec((), gt.float64))
    finally:
        sys.setprofile(None)
    return calls


def test_a_traced_operation_costs_few_calls() -> None:
    """A measure of work that is the same on every machine; tracing and finding the loop again, per operation."""
    calls_while_tracing(10)
    few, many = calls_while_tracing(500), calls_while_tracing(1500)
    assert (many - few) / 4000 < 25
