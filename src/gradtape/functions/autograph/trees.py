"""Walking and copying syntax trees: as `ast` and `copy` do it, in a fraction of the time."""

from __future__ import annotations

import ast
from typing import Any

# nothing of interest inside, and nobody asks for them: most nodes of a tree are of these kinds
_MARKS = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
_OTHERS = frozenset({"id", "attr", "arg", "ctx", "op", "ops"})


class _Fields(dict[Any, tuple[str, ...]]):
    """Kind of node → its fields that may have nodes in them."""

    def __missing__(self, kind: Any) -> tuple[str, ...]:
        fields = self[kind] = () if kind is ast.Constant else tuple(name for name in kind._fields if name not in _OTHERS)
        return fields


_FIELDS = _Fields()


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes directly inside a node, in order; without operators, and whether a name is read or written."""
    children: list[ast.AST] = []
    values = node.__dict__
    for name in _FIELDS[node.__class__]:
        value = values.get(name)
        if value.__class__ is list:
            children += [part for part in value if isinstance(part, ast.AST)]
        elif isinstance(value, ast.AST):
            children.append(value)
    return children


def copied(node: Any) -> Any:
    """A tree of its own; operators and marks, which nobody changes, are shared."""
    # Without recursion: a chain of `elif` or of `+` is as deep as it is long.
    top = _twin(node)
    pending = [top]
    while pending:
        values = pending.pop().__dict__
        for name, value in values.items():
            if value.__class__ is list:
                values[name] = twins = [_twin(part) if isinstance(part, ast.AST) else part for part in value]
                # (marks are one object for all trees of the process, on which IPython hangs the trees it looks at)
                pending += [twin for twin in twins if isinstance(twin, ast.AST) and not isinstance(twin, _MARKS)]
            elif isinstance(value, ast.AST) and not isinstance(value, _MARKS):
                values[name] = twin = _twin(value)
                pending.append(twin)
    return top


def _twin(node: Any) -> Any:
    """The same node, with the same nodes inside."""
    if isinstance(node, _MARKS):
        return node
    kind = node.__class__
    twin = kind.__new__(kind)  # not kind(): since Python 3.13 that asks for the fields, which follow
    twin.__dict__.update(node.__dict__)
    return twin


def depth(node: ast.AST) -> int:
    """How many nodes stand in one another, once chains of `elif` are short (`if_chains.py`)."""
    deepest, pending = 0, [(node, 1)]
    while pending:
        inner, level = pending.pop()
        deepest = max(deepest, level)
        chained = inner.orelse if isinstance(inner, ast.If) else ()
        pending += [(child, level + (child not in chained)) for child in children(inner)]
    return deepest
