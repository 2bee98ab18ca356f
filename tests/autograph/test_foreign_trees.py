"""Trees of other tools: what they hang on the marks (`<`, `+`, load and store), which all trees of a process share."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

import gradtape as gt


@pytest.fixture
def parents() -> Iterator[None]:
    """As IPython's tracebacks leave them (`executing`): each node knows the node that it stands in, marks too."""
    marks = set()
    tree = ast.parse("def f(a, b):\n    return a + b if not a < b <= 3 and a else -b")
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node  # type: ignore[attr-defined]
            marks |= {child} if not child._fields else set()
    yield
    for mark in marks:
        del mark.parent  # type: ignore[attr-defined]


def test_a_function_is_converted_after_a_traceback_in_a_notebook(parents: None) -> None:
    """It copied the other tool's tree, in which one comes from every node to every other, until memory was full."""

    @gt.function
    def f(a: gt.Tensor) -> gt.Tensor:
        return a + 1.0 if not 0.0 < a <= 3.0 and a != 0.0 else -a

    assert [float(f(gt.constant(number))) for number in (-1.0, 2.0)] == [0.0, -2.0]
