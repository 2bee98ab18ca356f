"""What runs: the reverse walk's length and the operations it names, and the way of one small gradient through the rooms."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from tests.structure.house.tree import Module, Tree

WALK = "reverse_walk"
RULES = "<gradtape rule"  # how the files of rules that were rebuilt for bare arrays are called


def reverse_walk(tree: Tree) -> tuple[str, int, list[str]]:
    """Where the reverse walk is, how many lines it has, and which operations it names."""
    from gradtape.core.opdef import Op

    module, node = next(_functions(tree, WALK))
    space = vars(importlib.import_module(module.name))
    names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    ops = sorted(name for name in names if isinstance(space.get(name), Op))
    return f"{module.relative}:{node.lineno}", node.end_lineno - node.lineno + 1, ops  # type: ignore[operator]


def _functions(tree: Tree, name: str) -> Iterator[tuple[Module, ast.FunctionDef]]:
    for module in tree:
        for node in module.all(ast.FunctionDef):
            if node.name == name:
                yield module, node


def small_gradient() -> tuple[list[tuple[str, str, str]], int]:
    """Calls from one room to another in `sin(v) * v` and its gradient (who, whom, function), and the number of all calls.

    Each such call is two hops: there and back. A rule counts as a room of its own, as its code is in no file; calls by the
    user and by other packages are no hops.
    """
    import gradtape as gt

    source = gt.__path__[0] + "/"
    variable = gt.Variable(1.0)

    def program() -> None:
        with gt.GradientTape() as tape:
            y = gt.sin(variable) * variable
        tape.gradient(y, variable)

    def room(file: str) -> str:
        if file.startswith(RULES):
            return "rule"
        return Tree.room(file.removeprefix(source)) if file.startswith(source) else ""

    crossings = []
    calls = 0

    def watch(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls
        if event != "call" or frame.f_back is None:
            return
        caller, callee = room(frame.f_back.f_code.co_filename), room(frame.f_code.co_filename)
        calls += callee not in {"", "rule"}
        if caller and callee and caller != callee:
            crossings.append((caller, callee, frame.f_code.co_qualname))

    for _ in range(3):  # the first time, tables are filled
        program()
    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        program()
    finally:
        sys.setprofile(before)
    return crossings, calls
