"""LLVM ended the process: its vectorizers made an invalid module, and code generation asserts that there are none.

The module is verified after the passes too; passes that break it are left out, one after the other.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends.llvm.runtime import machine
from gradtape.errors import InternalError

TEXT = "define i32 @one() {\n  ret i32 1\n}\n"
BROKEN = "define i32 @broken() {\n  %a = add i32 %b, 1\n  %b = add i32 1, 1\n  ret i32 %a\n}\n"


@pytest.fixture
def no_cache() -> Iterator[None]:
    before = config.native_cache_directory()
    config.set_native_cache_directory(None)
    yield
    config.set_native_cache_directory(before)


def break_modules(monkeypatch: pytest.MonkeyPatch, last: int) -> list[machine.Passes]:
    """LLVM whose passes break a module in the first attempts, as many as `last`; lists the attempts."""
    tried: list[machine.Passes] = []

    class Broken:
        def verify(self) -> None:
            if self.ran:
                raise RuntimeError("Instruction does not dominate all uses!")

        ran = False

    parsed, run = machine._parsed, machine._run_passes

    def broken_run(module: Any, text: str, passes: machine.Passes) -> None:
        tried.append(passes)
        if isinstance(module, Broken):
            module.ran = True
        else:
            run(module, text, passes)

    monkeypatch.setattr(machine, "_parsed", lambda text, target: Broken() if len(tried) < last else parsed(text, target))
    monkeypatch.setattr(machine, "_run_passes", broken_run)
    return tried


@pytest.mark.parametrize("last", range(5))
def test_passes_that_break_a_module_are_left_out(monkeypatch: pytest.MonkeyPatch, last: int) -> None:
    tried = break_modules(monkeypatch, last)
    module, passes = machine.optimized(TEXT, 3)
    assert "ret i32 1" in str(module)
    assert passes == tried[-1] == machine.attempts(3)[last]
    assert tried == list(machine.attempts(3)[: last + 1])


def test_each_attempt_does_less() -> None:
    for level in range(4):
        ways = machine.attempts(level)
        assert ways[0].level == level
        assert ways[-1] == (0, False, False)
        for way, following in itertools.pairwise(ways):
            assert following <= way
            assert following != way


def test_our_own_mistakes_are_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="does not dominate"):
        machine.optimized(BROKEN, 3)


def test_llvm_that_breaks_everything_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    break_modules(monkeypatch, 99)
    with pytest.raises(InternalError, match="refuses it when no pass has changed it"):
        machine.optimized(TEXT, 2)


@pytest.mark.usefixtures("no_cache")
def test_a_program_that_llvm_breaks_is_right_and_told_of_in_debug_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        return gt.reduce_sum(gt.sin(x) * x)

    x = gt.constant([0.5, 1.5, 2.5])
    gt.function(f)(x)  # what all programs share is compiled now
    break_modules(monkeypatch, 1)
    config.debug_passes(True)
    try:
        function = gt.function(f)
        with pytest.warns(RuntimeWarning, match=r"LLVM's passes fail on this program.*vectors in loops\).*please report it"):
            result = function(x)
    finally:
        config.debug_passes(False)
    np.testing.assert_allclose(result, f(x), rtol=1e-6)
    assert "LLVM broke the module, so it has fewer passes" in str(function.explain())


@pytest.mark.usefixtures("no_cache")
@pytest.mark.parametrize("dtype", [gt.float32, gt.float64])
@pytest.mark.parametrize("function", [gt.sin, gt.exp, gt.tanh, gt.sigmoid, gt.math.log1p, lambda x: x**1.5])
def test_modules_with_vector_functions_are_valid_at_once(monkeypatch: pytest.MonkeyPatch, function: Any, dtype: Any) -> None:
    """LLVM's own `llvm.masked.load` was taken for one of ours: the module was invalid, and compiled again without vectors."""
    modules, parse = [], machine._parsed

    def parsed(text: str, target: Any) -> Any:
        modules.append(text)
        return parse(text, target)

    monkeypatch.setattr(machine, "_parsed", parsed)
    for count in (10, 1000):
        x = gt.fill([count], gt.constant(0.1, dtype))
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.function(lambda x: gt.reduce_sum(function(x) * x))(x)
        tape.gradient(y, x)
    assert len(modules) >= 4
    assert len(modules) == len(set(modules))  # none is tried twice


def unrolled(seed: int) -> tuple[Any, list[Any]]:
    """Products of gathered and reshaped values, step after step: the programs that LLVM broke were of this kind."""
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    n, steps, state = draw.choice([2, 3, 4]), draw.choice([2, 3, 4]), draw.getrandbits(60)

    def run(x: Any, w: Any) -> Any:
        again = random.Random(state)
        h = x
        for _ in range(steps):
            flat = gt.reshape(h, [-1])
            flat = gt.gather(flat, [again.randrange(n * n) for _ in range(n * n)])
            if again.random() < 0.5:
                flat = gt.concat([flat[1:], flat[:1]], 0)
            m = gt.reshape(flat, [n, n])
            h = gt.matmul(m, w) if again.random() < 0.5 else gt.matmul(w, m, transpose_b=True)
            h = gt.tanh(h) if again.random() < 0.5 else gt.where(h > 0, h, 0.1 * h)
        return h

    return run, [numbers.normal(size=(n, n)) * 0.5 for _ in range(2)]


@pytest.mark.parametrize("seed", range(6))
def test_products_of_gathered_values(seed: int) -> None:
    run, arguments = unrolled(seed)
    answers = []
    for function in (gt.function(run, autograph=False), run):
        xs = [gt.constant(a) for a in arguments]
        with gt.GradientTape() as tape:
            tape.watch(xs)
            value = function(*xs)
            total = gt.reduce_sum(value * value)
        answers.append([value, *tape.gradient(total, xs)])
    for a, b in zip(*answers, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
