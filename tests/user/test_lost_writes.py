"""`t[i][j] = v` changes a copy and is lost; that is said at its line, in eager code and in functions, and of nothing else."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import gradtape as gt


def two_indices(m: Any) -> None:
    m[0][1] = 2.0


def added(m: Any) -> None:
    m[0][1] += 2.0


def computed(m: Any) -> None:
    (m * 2.0)[0] = 1.0


def given(m: Any) -> None:
    next(iter([m + 1.0]))[0] = 2.0


def named(m: Any) -> None:
    m[0, 1] = 2.0
    row = m[0]
    row[1] = 3.0
    m[0] = row


def of_an_object(m: Any) -> None:
    thing = SimpleNamespace(m=m)
    thing.m[0] = 1.0


def of_containers(m: Any) -> None:
    rows, table = [m * 1.0], {"m": m * 2.0}
    rows[0][0] = 1.0
    table["m"][1] = 1.0


def of_a_loop(m: Any) -> None:
    for row in [m[0], m[1]]:
        row[0] = 1.0


def by_its_method(m: Any) -> None:
    t = m * 1.0
    t.__setitem__(0, 1.0)


LOST, KEPT = [two_indices, added, computed, given], [named, of_an_object, of_containers, of_a_loop, by_its_method]


def warned(program: Callable[[Any], None], how: Callable[[Any], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        how(program)(gt.zeros((2, 2)))
    return sorted({f"{w.filename}:{w.lineno}" for w in caught if "a copy that nobody keeps" in str(w.message)})


@pytest.mark.parametrize(
    "how", [lambda f: f, gt.function, lambda f: gt.function(f, jit_compile=False)], ids=["eager", "native", "numpy"]
)
@pytest.mark.parametrize("program", LOST + KEPT, ids=lambda program: program.__name__)
def test_what_is_lost_is_said(program: Callable[[Any], None], how: Callable[[Any], Any]) -> None:
    line = f"{__file__}:{program.__code__.co_firstlineno + 1}"
    assert warned(program, how) == ([line] if program in LOST else [])


def test_of_a_variable() -> None:
    w = gt.Variable(gt.zeros((2, 2)), name="w")
    with pytest.warns(UserWarning, match="a copy that nobody keeps"):
        w[0][1] = 2.0
    w[0, 1] = 3.0
    assert w.numpy()[0, 1] == 3.0
