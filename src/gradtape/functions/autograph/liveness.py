"""Which names a loop or branch has as state: those it writes and somebody may read later, itself included.

A backward analysis over the structured statements that `jumps.py` leaves. Names that a branch or one iteration uses only
for itself are no state: they stay variables of the generated function, so a loop does not carry them. Where an exception
may jump, everything the handler may read is live. The result stands in `ag_state` of each `if`, `while` and `for`.

A branch may read a name from before, rebind it, and nobody reads it afterwards: such a name is shared with the function
around, but it is no output of the branch. Each side of a branch has its own end: after one that leaves the loop or the
function, only what is read there counts, not what the statements that follow read on the other side. `ag_dead` of an `if` has
for each side the names whose values count no more at its end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Any

from gradtape.functions.autograph.jumps import JUMPING, jump_of, jumps_skipping
from gradtape.functions.autograph.names import info, may_swallow, own, written
from gradtape.functions.autograph.scopes import NameScope

Names = frozenset[str]
NONE: Names = frozenset()


def annotate(scope: NameScope) -> None:
    """Give every loop and branch of a function its state, in place."""
    everything = _reads_all_locals(scope)
    _Liveness(scope, frozenset(scope.variables | scope.nonlocals) if everything else frozenset(scope.always_live())).run()


def _reads_all_locals(scope: NameScope) -> bool:
    return any(isinstance(n, ast.Name) and n.id in LOOKING for n in own(scope.node.body))


LOOKING = frozenset({"locals", "vars", "eval", "exec", "dir"})


class _Liveness:
    def __init__(self, scope: NameScope, always: Names) -> None:
        self.scope = scope
        self.always = always
        self.shared = frozenset(scope.always_shared())
        self.flags = frozenset(name for name in scope.variables if name.startswith(JUMPING))
        self.targets: dict[str, Names] = {"return": NONE}  # by kind of jump: what is live where it goes

    def run(self) -> None:
        self.block(self.scope.node.body, NONE, NONE)

    def block(self, statements: Sequence[ast.stmt], out: Names, exceptional: Names) -> Names:
        for statement in reversed(statements):
            # an exception may leave after any statement
            out = self.statement(statement, out, exceptional) | exceptional
        return out

    def reads(self, nodes: Iterable[ast.AST | None]) -> Names:
        """Names read when these are evaluated, by the comprehensions they call as well."""
        names = {
            n.id
            for n in own(node for node in nodes if node is not None)
            if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)
        }
        for child in self.scope.children.values():
            # a comprehension is a function that is called where it stands
            if child.node.name in names and info(child.node).immediate:
                names |= child.outer_reads()
        return frozenset(names)

    def statement(self, node: Any, out: Names, exceptional: Names) -> Names:
        match node:
            case ast.If():
                inside = self.block(node.body, out, exceptional) | self.block(node.orelse, self.skipped(node, out), exceptional)
                self.set_state(node, written([*node.body, *node.orelse]), out | inside)
                self.set_dead(node, out, exceptional)
                return (inside - certain_walrus(node.test)) | self.reads([node.test])
            case ast.While():
                head = out | self.reads([node.test])
                # what a turn reads of the turn before is live at the head: a fixpoint, which grows and ends
                while (inside := self.body(node, head, out, exceptional) | head) != head:
                    head = inside
                self.set_state(node, written([node.test, *node.body]), head)
                return head
            case ast.For():
                targets = written([node.target])
                head = out | self.reads([node.__dict__["ag_extra"]])
                while (inside := (self.body(node, head, out, exceptional) - targets) | head) != head:
                    head = inside
                head |= self.reads([node.target])
                self.set_state(node, written([node.target, *node.body]), head)
                return head | self.reads([node.iter])
            case ast.With():
                # a manager may swallow the exception: then what follows the `with` reads what the body had done until then
                caught = out if any(may_swallow(item.context_expr) for item in node.items) else NONE
                inside = self.block(node.body, out, exceptional | caught)
                return (inside - written(node.items)) | self.reads(node.items)
            case ast.Try() | ast.TryStar():
                return self.attempt(node, out, exceptional)
            case ast.Return() | ast.Raise():
                # nothing after it is reached by this way
                return self.reads([node]) | self.always
            case ast.FunctionDef() | ast.ClassDef():
                return (out - {node.name}) | self.reads([node])
            case ast.AugAssign():
                # `x += 1` reads x
                return out | self.reads([node]) | written([node.target])
        if (target := self.target(node)) is not None:
            return target
        # a name that may not be bound there is still live from before
        return (out - (written([node]) - _maybe_walrus(node))) | self.reads([node])

    def body(self, node: Any, head: Names, out: Names, exceptional: Names) -> Names:
        """What is live before the body of a loop, given what is at its head and after it."""
        around, self.targets = self.targets, {**self.targets, "break": out, "continue": head}
        try:
            return self.block(node.body, head, exceptional)
        finally:
            self.targets = around

    def target(self, node: Any) -> Names | None:
        """What is live where a lowered jump goes; None if the statement is none."""
        kind = jump_of(node)
        return None if kind is None else self.targets[kind] | self.flags

    def skipped(self, node: ast.If, out: Names) -> Names:
        """What is live after the other side of an `if`: what follows, or where the jump goes that skips the rest."""
        kinds = jumps_skipping(node)
        return self.flags.union(*(self.targets[kind] for kind in kinds)) if kinds else out

    def end(self, statements: Sequence[Any], out: Names) -> Names:
        """What is live after these statements, by whatever way control leaves them."""
        last = statements[-1] if statements else None
        if (target := self.target(last)) is not None:
            return target
        match last:
            case ast.Raise():
                return NONE
            case ast.If():
                return self.end(last.body, out) | self.end(last.orelse, self.skipped(last, out))
        return out

    def attempt(self, node: Any, out: Names, exceptional: Names) -> Names:
        raised = self.block(node.finalbody, exceptional, exceptional)  # after the `finally` of an exception, only handlers read
        final = self.block(node.finalbody, out | exceptional, exceptional) if node.finalbody else out
        caught = raised
        for handler in node.handlers:
            inside = self.block(handler.body, final, raised)
            caught |= (inside - {handler.name}) | self.reads([handler.type])
        orelse = self.block(node.orelse, final, raised)
        return self.block(node.body, orelse, caught)

    def set_dead(self, node: Any, out: Names, exceptional: Names) -> None:
        ends = (self.end(node.body, out), self.end(node.orelse, self.skipped(node, out)))
        kept = exceptional | self.always | self.shared
        # by side: what nobody reads after this side needs no value there, and no phi that fits both
        node.ag_dead = tuple(frozenset(node.ag_state) - end - kept for end in ends)

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
