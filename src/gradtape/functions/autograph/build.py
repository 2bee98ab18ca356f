"""Small constructors of syntax trees, so that the passes read like the code they produce.

Nothing here knows about conversion except the names `ag__` and `scope__` under which converted code finds its run time.
Every node made here has no location: `located` gives it the one of the user's node it stands for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

RUNTIME = "ag__"
SCOPE = "scope__"
Node = TypeVar("Node", bound=ast.AST)


def load(name: str) -> ast.Name:
    """`name`, read."""
    return ast.Name(name, ast.Load())


def store(name: str) -> ast.Name:
    """`name`, as a target."""
    return ast.Name(name, ast.Store())


def constant(value: Any) -> ast.Constant:
    """A literal."""
    return ast.Constant(value)


def operator(name: str) -> ast.Attribute:
    """`ag__.name`."""
    return ast.Attribute(load(RUNTIME), name, ast.Load())


def call(operator_name: str, *args: ast.expr) -> ast.Call:
    """`ag__.operator_name(args)`."""
    return ast.Call(operator(operator_name), list(args), [])


def outer(verb: str, kind: str, name: str, *args: ast.expr) -> ast.Call:
    """`ag__.verb_outer(scope__, 'kind', 'name', args)`: something is done with a name from outside the function."""
    return call(f"{verb}_outer", load(SCOPE), constant(kind), constant(name), *args)


def thunk(expression: ast.expr) -> ast.Lambda:
    """`lambda: expression`."""
    return ast.Lambda(arguments(), expression)


def arguments(*names: str) -> ast.arguments:
    """Plain positional parameters."""
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def define(name: str, parameters: Sequence[str], body: list[ast.stmt]) -> ast.FunctionDef:
    """`def name(parameters): body`."""
    definition = ast.FunctionDef(name, arguments(*parameters), body or [ast.Pass()], [], None, None)
    definition.__dict__["type_params"] = []  # a field since Python 3.12
    return definition


def assign(name: str, value: ast.expr) -> ast.Assign:
    """`name = value`."""
    return ast.Assign([store(name)], value)


def names_tuple(names: Iterable[str], context: ast.expr_context) -> ast.Tuple:
    """`(a, b,)` of names."""
    return ast.Tuple([ast.Name(name, context) for name in names], context)


def strings(values: Iterable[str]) -> ast.Tuple:
    """A tuple of string literals."""
    return ast.Tuple([constant(value) for value in values], ast.Load())


def located(node: Node, original: ast.AST) -> Node:
    """`node` at the place of `original`; what it contains without a place of its own inherits it at the end."""
    return ast.copy_location(node, original)
