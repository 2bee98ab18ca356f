"""Code that the library writes and runs bears the library's name: else it would be taken for the user's own.

A Python loop that is tried as one loop of the program ends its trial when code that is not converted runs in it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gradtape as gt
from gradtape.core.save_plan import save_plan
from gradtape.functions.autograph import policy
from gradtape.ops.registry import OPS

SOURCE = Path(gt.__file__).parent


def runs() -> Iterator[Any]:
    """The calls of `eval` and `exec` in the library's own source."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
                yield pytest.param(node.args[0], id=f"{path.relative_to(SOURCE)}:{node.lineno}")


@pytest.mark.parametrize("code", list(runs()))
def test_generated_code_has_a_name(code: ast.expr) -> None:
    """What is run was compiled under a file name; where that is said in place, it is one of the library's."""
    assert not isinstance(code, (ast.Constant, ast.JoinedStr, ast.BinOp)), "text is run under the name <string>"
    if isinstance(code, ast.Call) and isinstance(code.func, ast.Name) and code.func.id == "compile":
        name = code.args[1]
        parts = name.values if isinstance(name, ast.JoinedStr) else [name]
        if isinstance(parts[0], ast.Constant):
            assert policy.of_libraries(parts[0].value)


def test_what_is_written_on_first_use_does_not_end_the_trial_of_a_loop() -> None:
    """As in the first call of a process, when no record of these operations was ever made."""
    for op in OPS:
        save_plan(op).savers.clear()

    @gt.function
    def gradient(x: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            total = gt.zeros((30, 30))
            for i in range(30):
                total[i, i:] = x[:, i] @ x[:, i:]
            loss = gt.reduce_sum(total * total)
        return tape.gradient(loss, x)

    gradient(gt.ones((5, 30)))
    assert "turn by turn" not in gradient.explain()
