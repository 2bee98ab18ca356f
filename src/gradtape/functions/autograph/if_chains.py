"""Long `if … elif …` chains as a sequence of short ones, so that nothing nests as deep as the text is long.

Each `elif` is an `if` inside the `else` of the one before; so are the branches of the program. A flag says that no test of one
part has held yet, and the next part is asked only then. Runs before all other passes; what it leaves has at most `LONGEST`
branches in one another. It must not recurse: the tree is as deep as the user wrote it.
"""

from __future__ import annotations

import ast

from gradtape.functions.autograph import build
from gradtape.functions.autograph.trees import children

LONGEST = 12  # tests in one chain
REST = "ag__rest"


def shorten(function: ast.AST) -> None:
    """Rewrite the chains of a function and of those inside it, in place."""
    count = 0
    pending = [function]
    while pending:
        node = pending.pop()
        for field in ("body", "orelse", "finalbody"):
            statements = node.__dict__.get(field)
            if statements.__class__ is list and any(isinstance(s, ast.If) for s in statements):
                result: list[ast.stmt] = []
                for statement in statements:
                    links = _links(statement) if isinstance(statement, ast.If) else []
                    if len(links) > LONGEST:
                        count += 1
                        result += _parts(links, f"{REST}_{count}")
                    else:
                        result.append(statement)
                setattr(node, field, result)
        pending += children(node)


def _links(first: ast.If) -> list[ast.If]:
    links = [first]
    while len(orelse := links[-1].orelse) == 1 and isinstance(orelse[0], ast.If):
        links.append(orelse[0])
    return links


def _parts(links: list[ast.If], flag: str) -> list[ast.stmt]:
    parts: list[ast.stmt] = [_set(flag, False, links[0])]
    for start in range(0, len(links), LONGEST):
        first, last = links[start], links[start : start + LONGEST][-1]
        if last is not links[-1]:
            last.orelse = [_set(flag, True, last)]
        if start == 0:
            parts.append(first)
        else:
            parts.append(build.located(ast.If(build.load(flag), [_set(flag, False, first), first], []), first))
    return parts


def _set(flag: str, value: bool, where: ast.AST) -> ast.stmt:
    return build.located(build.assign(flag, build.constant(value)), where)
