"""Compiling a long program called itself as often as the program is long: RecursionError.

Each kind of chain is longer than Python may recurse here, and irregular, so that no loop is found in it: everything between
source and object code must go through it without recursion. Also: strings as `shape_invariants` recursed for ever.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.ad.reverse import split
from gradtape.backends.llvm import compile_block
from gradtape.functions.staging.trials import Trials
from gradtape.ir.graph import Block
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import program
from gradtape.passes.pipeline import prepared
from tests.harness.seeds import everything

LENGTH = 200  # operations, at least
ROOM = 180  # calls that compiling may need above one another


@contextmanager
def little_room() -> Iterator[None]:
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + ROOM)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@pytest.fixture(autouse=True)
def _turn_by_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The long programs of this file come from loops that are traced turn by turn."""
    monkeypatch.setattr(Trials, "few", 10**9)


def irregular(length: int = LENGTH) -> list[int]:
    return [random.Random(seed).randrange(60) for seed in range(length)]


def elementwise(x: Any) -> Any:
    for i in irregular():
        x = gt.sin(x) if i % 3 else x * 1.01 + 0.1 * i
    return x


def scalars(x: Any) -> Any:
    s = x[0]
    for i in irregular():
        s = gt.sin(s) if i % 3 else s * 1.01 + 0.1 * i
    return s + x


def sums(x: Any) -> Any:
    y = x
    for i in irregular():
        y = y + (x * float(i) if i % 2 else gt.sin(x + float(i)))
    return y


def maps(x: Any) -> Any:
    for i in irregular(2 * LENGTH):
        ways: list[Callable[[Any], Any]] = [
            lambda v: gt.reshape(v, [2, 2]), gt.transpose, lambda v: gt.reshape(v, [4]), lambda v: gt.reverse(v, [0]),
            lambda v: v * 1.01,
        ]  # fmt: skip
        x = ways[i % 5](x)
    return gt.reshape(x, [4]) * 2.0


def joins(x: Any) -> Any:
    for i in irregular():
        x = gt.concat([x[1:], x[:1]], 0) if i % 3 else gt.stack([x, x * 0.5 + float(i)], 0)[i % 2]
    return x


def gathers(x: Any) -> Any:
    for i in irregular():
        x = gt.gather(x, [i % 4, (i + 1) % 4, (i * i) % 4, 3]) * 1.01 if i % 3 else gt.sin(x) + x[0]
    return x


def products(x: Any) -> Any:
    m = gt.reshape(x, [2, 2])
    for i in irregular():
        m = gt.transpose(m) if i % 3 else gt.matmul(m, gt.reshape(gt.gather(x, [i % 4, 1, (i * i) % 4, 3]), [2, 2])) * 0.5
    return gt.reduce_sum(m) * x


def reductions(x: Any) -> Any:
    for i in irregular(LENGTH // 2):
        x = x / (1.0 + gt.reduce_sum(x * x)) + 0.1 if i % 3 else gt.sin(x) - gt.reduce_max(x)
    return x


def choices(x: Any) -> Any:
    for i in irregular(LENGTH // 2):
        x = gt.where(x > 0.1 * i, x * 0.99, gt.sin(x) + 0.1 * i) if i % 3 else gt.where(x < 0.1, x, gt.cos(x))
    return x


def updates(x: Any) -> Any:
    t = x * 1.0
    for i in irregular(LENGTH // 2):
        if i % 3:
            t[i % 4] = t[(i + 1) % 4] * t[(i * i) % 4] * 0.5
        else:
            t[1:3] = gt.sin(t[0:2])
    return t


def lists(x: Any) -> Any:
    kept = [x * float(i) if i % 3 else gt.sin(x + float(i)) for i in irregular(LENGTH // 2)]
    for i in irregular(LENGTH // 2):
        x = x + kept.pop() * float(i) if i % 2 else x * kept.pop()
    return x


def branches(x: Any) -> Any:
    for i in irregular(50):
        x = gt.cond(x[0] > 0.1 * i, lambda v=x: v * 0.99, lambda v=x, i=i: gt.sin(v) + 0.1 * i)
    return x


def nested_tuples(x: Any) -> Any:
    parts: Any = (x,)
    for i in irregular(80):
        parts = (parts, x * float(i) if i % 3 else gt.sin(x))
    while len(parts) == 2:
        parts, y = parts
        x = x + y
    return x


def mapped(x: Any) -> Any:
    def one(v: Any) -> Any:
        for i in irregular(LENGTH // 2):
            v = gt.where(v > 0.0, v * 0.9, gt.sin(v)) if i % 2 else v + 0.01 * i
        return v

    return gt.vectorized_map(one, x)


KINDS = (elementwise, scalars, sums, maps, joins, gathers, products, reductions, choices, updates, lists, branches,
         nested_tuples, mapped)  # fmt: skip
TWICE = KINDS if everything() else KINDS[::3]  # kinds that are differentiated twice


def traced(function: Callable[[Any], Any]) -> Block:
    x = gt.constant(np.array([0.3, -0.5, 0.7, 0.2]))
    block: Block = gt.function(function, autograph=False).get_concrete_function(x).program.block
    return block


def halves_of(block: Block, order: int) -> list[Block]:
    """The program's two halves, and, of order 2, those of its derivative: what a derivative of that order compiles."""
    first = split(block, frozenset({0}), (0,))
    if order == 1:
        return [first.forward, first.backward]
    floats = [i for i, p in enumerate(first.backward.params) if isinstance(p.type, TensorSpec) and p.type.dtype.is_floating]
    second = split(first.backward, frozenset(floats), (0,))
    return [first.forward, first.backward, second.forward, second.backward]


@pytest.mark.parametrize("function", KINDS)
def test_a_long_program_is_written_without_recursion(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Passes, derivatives and native code, up to the text that LLVM gets: that is where the time would go."""
    from gradtape.backends.llvm.entry import native_executable as executable

    class Written(Exception):  # noqa: N818
        pass

    def library(text: str, level: int, constants: Any) -> Any:
        raise Written

    compile_block(traced(lambda x: gt.sin(x) + 1.0))  # what all programs share is loaded, whichever test is the first
    monkeypatch.setattr(executable.machine, "Library", library)
    with little_room():
        block = traced(function)
        assert sum(1 for _ in program(block)) > ROOM  # no loop was found in it
        for part in (block, *halves_of(block, 2 if function in TWICE else 1)):
            with pytest.raises(Written):
                compile_block(prepared(part))


def written(tmp_path: Path, lines: list[str]) -> Any:
    """A function of these lines, with a source that AutoGraph finds."""
    path = tmp_path / "written.py"
    path.write_text("def f(x):\n" + "".join(f"    {line}\n" for line in lines))
    scope: dict[str, Any] = {"gt": gt}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    return scope["f"]


def elifs(count: int) -> list[str]:
    chain = [line for i in range(count) for line in (f"elif x[0] > {count - i}.5:", f"    x = x * 1.{i}")]
    return ["if x[1] > 1e9:", "    x = gt.sin(x)", *chain, "return x"]


def returns(count: int) -> list[str]:
    return [line for i in range(count) for line in (f"if x[0] > {count - i}.5:", f"    return x * 1.{i}")] + ["return x"]


def skips(count: int) -> list[str]:
    body = [line for i in range(count) for line in (f"    if x[0] > {count - i}.5:", "        continue", f"    x = x + 0.{i}")]
    return ["for k in gt.range(2):", *body, "return x"]


def conjunctions(count: int) -> list[str]:
    return ["if " + " and ".join(f"x[1] < {i}.5" for i in range(count)) + ":", "    return gt.sin(x)", "return x"]


def answers(count: int) -> list[str]:
    chain = [line for i in range(count) for line in (f"elif x[0] > {count - i}.5:", f"    return x * 1.{i}")]
    return ["if x[1] > 1e9:", "    y = gt.sin(x)", *chain, "else:", "    y = -x", "return y"]


def new_names(count: int) -> list[str]:
    chain = [line for i in range(count) for line in (f"elif x[0] > {count - i}.5:", f"    y = x * 1.{i}")]
    return ["if x[1] > 1e9:", "    y = gt.sin(x)", *chain, "else:", "    y = -x", "return y"]


def choices(count: int) -> list[str]:
    return ["return " + "".join(f"x * 1.{i} if x[0] > {count - i}.5 else " for i in range(count)) + "x"]


def terms(count: int) -> list[str]:
    return ["return " + " + ".join(f"x * 0.{i}" for i in range(3 * count))]


def methods(count: int) -> list[str]:
    return ["return x" + ".reshape(2)" * count]


@pytest.mark.parametrize("kind", [elifs, answers, new_names, returns, skips, conjunctions, choices, terms, methods])
def test_as_many_branches_and_terms_as_are_written(tmp_path: Path, kind: Any) -> None:
    """From the forty-first on, the function was said to call itself; later more than 80 were refused, and 240 not converted."""
    count = {choices: 45, skips: 60, elifs: 130}.get(kind, 90)
    plain = written(tmp_path, kind(count))
    compiled = gt.function(plain, jit_compile=False)
    for value in (0.3, 17.0, 200.0):
        found = []
        for f in (plain, compiled):
            x = gt.constant([value, 0.2], gt.float64)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            found.append([y, tape.gradient(y, x)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_hundreds_that_python_decides(tmp_path: Path) -> None:
    chain = [line for i in range(1, 1500) for line in (f"elif k == {i}:", f"    x = x * {i}.5")]
    plain = written(tmp_path, ["k = len(x) - 1", "if k == 0:", "    x = gt.sin(x)", *chain, "return x"])
    before = sys.getrecursionlimit()
    for size in (1, 2, 500):
        x = gt.ones([size])
        np.testing.assert_array_equal(gt.function(plain, jit_compile=False)(x), plain(x))
    assert sys.getrecursionlimit() == before


def test_conditional_expressions_without_end_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(RecursionError, match=r"are nested more than 80 deep in `f`.*gt.switch_case"):
        gt.function(written(tmp_path, choices(120)))(gt.constant([0.5, 0.2]))


def test_a_function_that_calls_itself_without_end_is_named() -> None:
    def down(x: Any) -> Any:
        return down(x - 1.0) if x > 0.0 else x

    with pytest.raises(RecursionError, match="`down` calls itself inside branches that depend on tensors, 40 deep"):
        gt.function(lambda x: down(x))(gt.constant(3.0))


def runge_kutta(y: Any, p: Any) -> Any:
    def slope(y: Any) -> Any:
        s = gt.where(y > 0.0, y * p, gt.sin(y))
        return gt.where(gt.abs(s) > 1.0, s / (1.0 + gt.abs(s)), s)

    k1 = slope(y)
    k2 = slope(y + 0.005 * k1)
    k3 = slope(y + 0.005 * k2)
    k4 = slope(y + 0.01 * k3)
    return y + 0.01 / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def by_scan(y: Any, p: Any) -> Any:
    return gt.scan(lambda y, _: gt.vectorized_map(lambda v: runge_kutta(v, p), y), gt.range(100), initializer=y)[-1]


def by_loop(y: Any, p: Any) -> Any:
    for _ in range(100):
        y = gt.vectorized_map(lambda v: runge_kutta(v, p), y)
    return y


def by_recomputing(y: Any, p: Any) -> Any:
    step = gt.recompute_grad(runge_kutta)
    for _ in range(100):
        y = step(y, p)
    return y


def plain(y: Any, p: Any) -> Any:
    for _ in range(100):
        y = runge_kutta(y, p)
    return y


@pytest.mark.parametrize("steps", [by_scan, by_loop, by_recomputing])
def test_code_traced_in_each_turn_is_one_code(steps: Any) -> None:
    """No two turns were alike, as each had a callee of its own: no loop was found, and compiling took minutes."""
    y, p = gt.constant([-0.9, 0.1, 0.8], gt.float64), gt.constant(0.7, gt.float64)
    function = gt.function(lambda y, p: gt.reduce_sum(steps(y, p) ** 2))
    block = function.get_concrete_function(y, p).program.block
    assert sum(1 for _ in program(block)) < 120
    answers = []
    for f in (function, lambda y, p: gt.reduce_sum(plain(y, p) ** 2)):
        with gt.GradientTape() as outer:
            outer.watch([y, p])
            with gt.GradientTape() as inner:
                inner.watch([y, p])
                value = f(y, p)
            slopes = inner.gradient(value, [y, p])
            total = gt.reduce_sum(slopes[0] ** 2) + slopes[1]
        answers.append([value, *slopes, *outer.gradient(total, [y, p])])
    for a, b in zip(*answers, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize("given", [("a", "b"), ("ab",), ["x", None], (3.5, None), ({"a": "b"}, None)])
def test_shape_invariants_that_are_no_shapes(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="while_loop: shape_invariants has"):
        gt.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v), (gt.constant(0), gt.ones([2])), given)
    with pytest.raises((TypeError, ValueError), match="while_loop: shape_invariants has"):
        gt.function(
            lambda x: gt.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v), (gt.constant(0), x), given)
        )(gt.ones([2]))  # fmt: skip
