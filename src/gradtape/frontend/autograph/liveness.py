"""Which names a loop or branch has as state: those it writes and somebody may read later, itself included.

A backward analysis over the structured statements that `jumps.py` leaves. Names that a branch or one iteration uses only
for itself are no state: they stay variables of the generated function, so a loop does not carry them. Where an exception
may jump, everything the handler may read is live. The result stands in `ag_state` of each `if`, `while` and `for`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from gradtape.frontend.autograph.names import info, own, written
from gradtape.frontend.autograph.scopes import Scope

Names = frozenset[str]
NONE: Names = frozenset()


def annotate(scope: Scope) -> None:
    """Give every loop and branch of a function its state, in place."""
    everything = _reads_all_locals(scope)
    _Liveness(scope, frozenset(scope.variables | scope.nonlocals) if everything else frozenset(scope.always_live())).run()


def _reads_all_locals(scope: Scope) -> bool:
    return any(isinstance(n, ast.Name) and n.id in LOOKING for n in own(scope.node.body))


LOOKING = frozenset({"locals", "vars", "eval", "exec", "dir"})


class _Liveness:
    def __init__(self, scope: Scope, always: Names) -> None:
        self.scope = scope
        self.always = always
        self.shared = frozenset(scope.always_shared())

    def run(self) -> None:
        self.block(self.scope.node.body, NONE, NONE)

    def block(self, statements: Sequence[ast.stmt], out: Names, exceptional: Names) -> Names:
        for statement in reversed(statements):
            out = self.statement(statement, out, exceptional) | exceptional
        return out

    def reads(self, nodes: Iterable[ast.AST | None]) -> Names:
        """Names read when these are evaluated, by the comprehensions they call as well."""
        found = {
            n.id
            for n in own(node for node in nodes if node is not None)
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)
        }
        for child in self.scope.children.values():
            if child.node.name in found and info(child.node).immediate:
                found |= child.outer_reads()
        return frozenset(found)

    def statement(self, node: Any, out: Names, exceptional: Names) -> Names:
        match node:
            case ast.If():
                inside = self.block(node.body, out, exceptional) | self.block(node.orelse, out, exceptional)
                self.set_state(node, written([*node.body, *node.orelse]), out | inside)
                return (inside - certain_walrus(node.test)) | self.reads([node.test])
            case ast.While():
                head = out | self.reads([node.test])
                while (inside := self.block(node.body, head, exceptional) | head) != head:
                    head = inside
                self.set_state(node, written([node.test, *node.body]), head)
                return head
            case ast.For():
                targets = written([node.target])
                head = out | self.reads([node.__dict__["ag_extra"]])
                while (inside := (self.block(node.body, head, exceptional) - targets) | head) != head:
                    head = inside
                head |= self.reads([node.target])
                self.set_state(node, written([node.target, *node.body]), head)
                return head | self.reads([node.iter])
            case ast.With():
                inside = self.block(node.body, out, exceptional | out)
                return (inside - written(node.items)) | self.reads(node.items)
            case ast.Try() | ast.TryStar():
                return self.attempt(node, out, exceptional)
            case ast.Match():
                inside = out.union(*(self.block(case.body, out, exceptional) - written([case.pattern]) for case in node.cases))
                parts = [part for case in node.cases for part in (case.pattern, case.guard)]
                return inside | self.reads([node.subject, *parts])
            case ast.Return() | ast.Raise():
                return self.reads([node]) | self.always
            case ast.FunctionDef() | ast.ClassDef():
                return (out - {node.name}) | self.reads([node])
            case ast.AugAssign():
                return out | self.reads([node]) | written([node.target])
        return (out - (written([node]) - _maybe_walrus(node))) | self.reads([node])

    def attempt(self, node: Any, out: Names, exceptional: Names) -> Names:
        final = self.block(node.finalbody, out, exceptional) | (exceptional if node.finalbody else NONE)
        caught = final if node.finalbody else exceptional
        for handler in node.handlers:
            inside = self.block(handler.body, final, exceptional | final)
            caught |= (inside - {handler.name}) | self.reads([handler.type])
        orelse = self.block(node.orelse, final, exceptional | (final if node.finalbody else NONE))
        return self.block(node.body, orelse, exceptional | caught)

    def set_state(self, node: Any, changed: set[str], live: Names) -> None:
        names = {name for name in changed & (live | self.always) if self.scope.owner(name) is not None}
        node.ag_state = sorted(names | {name for name in self.shared if self.scope.owner(name) is not None})


def certain_walrus(test: ast.expr) -> set[str]:
    """Names an expression binds whichever way it is evaluated."""
    return {n.target.id for n in own([test]) if isinstance(n, ast.NamedExpr)} - _maybe_walrus(test)


def _maybe_walrus(node: ast.AST) -> set[str]:
    """Names bound inside parts of an expression that may not be evaluated."""
    parts = (part for n in own([node]) for part in _conditional_parts(n))
    return {inner.target.id for inner in own(parts) if isinstance(inner, ast.NamedExpr)}


def _conditional_parts(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.BoolOp(values=values):
            return values[1:]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Compare(comparators=comparators):
            return comparators[1:]
        case ast.Assert(msg=ast.expr() as message):
            return [message]
    return []
