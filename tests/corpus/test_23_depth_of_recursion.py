"""Compiling a long program called itself as often as the program is long: RecursionError.

Each kind of chain is longer than Python may recurse here, and irregular, so that no loop is found in it: everything between
source and object code must go through it without recursion. Also: strings as `shape_invariants` recursed for ever.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.ad.reverse import split
from gradtape.backends.llvm import compile_block
from gradtape.frontend.pipeline import prepared
from gradtape.ir.graph import Block

LENGTH = 320  # operations, at least
ROOM = 260  # calls that compiling may need above one another


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
        x = gt.gather(x, [i % 4, (i + 1) % 4, (i * i) % 4, 3]) * 1.01
    return x


def products(x: Any) -> Any:
    m = gt.reshape(x, [2, 2])
    for i in irregular():
        m = gt.transpose(m) if i % 3 else gt.matmul(m, gt.reshape(gt.gather(x, [i % 4, 1, (i * i) % 4, 3]), [2, 2])) * 0.5
    return gt.reduce_sum(m) * x


def reductions(x: Any) -> Any:
    for i in irregular(LENGTH // 2):
        x = x / (1.0 + gt.reduce_sum(x * x * float(1 + i % 5))) + 0.1 * i
    return x


def choices(x: Any) -> Any:
    for i in irregular(LENGTH // 2):
        x = gt.where(x > 0.1 * i, x * 0.99, gt.sin(x) + 0.1 * i)
    return x


def updates(x: Any) -> Any:
    t = x * 1.0
    for i in irregular():
        t[i % 4] = t[(i + 1) % 4] * t[(i * i) % 4] * 0.5
    return t


def lists(x: Any) -> Any:
    kept = [x * float(i) for i in irregular()]
    for i in irregular():
        x = x + kept.pop() * float(i)
    return x


def branches(x: Any) -> Any:
    for i in irregular(60):
        x = gt.cond(x[0] > 0.1 * i, lambda v=x: v * 0.99, lambda v=x, i=i: gt.sin(v) + 0.1 * i)
    return x


def nested_tuples(x: Any) -> Any:
    parts: Any = (x,)
    for i in range(80):
        parts = (parts, x * float(i))
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


def traced(function: Callable[[Any], Any]) -> Block:
    x = gt.constant(np.array([0.3, -0.5, 0.7, 0.2]))
    block: Block = gt.function(function, autograph=False).get_concrete_function(x).program.block
    return block


@pytest.mark.parametrize("function", KINDS)
def test_a_long_program_is_written_without_recursion(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    """Passes, derivative and native code, up to the text that LLVM gets: that is where the time would go."""
    from gradtape.backends.llvm import executable

    class Written(Exception):  # noqa: N818
        pass

    def library(text: str, level: int) -> Any:
        raise Written

    monkeypatch.setattr(executable.machine, "Library", library)
    with little_room():
        block = traced(function)
        halves = split(block, frozenset({0}), (0,))
        for half in (block, halves.forward, halves.backward):
            with pytest.raises(Written):
                compile_block(prepared(half))


@pytest.mark.parametrize("given", [("a", "b"), ("ab",), ["x", None], (3.5, None), ({"a": "b"}, None)])
def test_shape_invariants_that_are_no_shapes(given: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="while_loop: shape_invariants has"):
        gt.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v), (gt.constant(0), gt.ones([2])), given)
    with pytest.raises((TypeError, ValueError), match="while_loop: shape_invariants has"):
        gt.function(
            lambda x: gt.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v), (gt.constant(0), x), given)
        )(gt.ones([2]))  # fmt: skip
