"""`break`, `continue` and `return` inside loops and branches, as structure where possible and as flags where not.

What follows an `if` that always jumps moves into its other branch, so most functions need no flags; if there are many such,
flags decide about each part of what follows, and it stands beside the others, not inside. A loop that may be left
early tests its flags: `while` in its test, `for` in `ag_extra`. A return inside a loop or branch sets `ag__return`, which the
last statement returns; a path that ends without one returns None. Functions with no such return keep theirs.
A jump in a `finally` swallows exceptions, which no flag can do: such a function keeps Python's control flow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gradtape.functions.autograph import build
from gradtape.functions.autograph.desugar import left_alone
from gradtape.functions.autograph.names import UNENTERED, info, is_generator, own, written

RETURN, DONE, BREAK, CONTINUE = "ag__return", "ag__done", "ag__break", "ag__continue"
JUMPING = (RETURN, DONE, BREAK, CONTINUE)  # how names begin that jumps set and tests of them read
LOOPS = (ast.For, ast.While)
_COMPOUND = (ast.If, *LOOPS, ast.With, ast.Try, ast.TryStar)
Block = list[ast.stmt]
DEEPEST = 12  # branches that are nested because one jumps and the rest follows it


def lower(function: ast.FunctionDef) -> None:
    """Lower the jumps of a function and of those nested in it, in place."""
    nodes = list(own(function.body))
    for node in nodes:
        if isinstance(node, ast.FunctionDef) and not left_alone(node):
            lower(node)
    _note_names(function, nodes)
    if info(function).plain:
        return
    if is_generator(function) or _jumps_in_finally(nodes):
        # A generator stops in the middle of its loops, which therefore cannot be functions. A jump in a `finally` swallows the
        # exception that is under way: no flags can say that. So Python runs their control flow as it is.
        info(function).plain = True
        return
    _Lowering(_returns_inside(function.body)).function(function)


def _note_names(function: ast.FunctionDef, nodes: list[ast.AST]) -> None:
    notes = info(function)
    notes.bound = frozenset(written(function.body))
    notes.declared_global = frozenset(n for d in nodes if isinstance(d, ast.Global) for n in d.names)
    notes.declared_nonlocal = frozenset(n for d in nodes if isinstance(d, ast.Nonlocal) for n in d.names)


def _jumps_in_finally(nodes: list[ast.AST]) -> bool:
    tries = (node for node in nodes if isinstance(node, (ast.Try, ast.TryStar)))
    return any(_jumps(node.finalbody) for node in tries)


def _returns_inside(statements: Sequence[ast.AST]) -> bool:
    """Whether a return stands inside a loop or branch, or in a `try` that something must follow."""
    branching = (n for n in own(statements) if isinstance(n, (ast.If, *LOOPS)) or (isinstance(n, ast.Try) and n.handlers))
    return any(isinstance(inner, ast.Return) for node in branching for inner in own([node]))


def jump_of(statement: ast.stmt | None) -> str | None:
    """The kind of jump a lowered statement stands for: nothing runs after it but what a `finally` and the target hold."""
    flag = None if statement is None else statement.__dict__.get("ag_flag")
    return flag.kind if flag is not None and statement.__dict__["ag_jumps"] else None


def jumps_skipping(statement: ast.If) -> frozenset[str]:
    """Of the `if` around statements that only run when no jump is under way: the kinds of jumps that skip them."""
    kinds: frozenset[str] = statement.__dict__.get("ag_unless", frozenset())
    return kinds


class _Flag:
    def __init__(self, kind: str, name: str) -> None:
        self.kind = kind
        self.name = name
        self.read = False

    def set(self, value: bool, where: ast.AST) -> ast.stmt:
        statement: Any = build.located(build.assign(self.name, build.constant(value)), where)
        statement.ag_flag, statement.ag_jumps = self, value
        return statement

    def test(self) -> ast.expr:
        self.read = True
        return build.load(self.name)


class _Loop:
    def __init__(self, number: int) -> None:
        self.flags = {kind: _Flag(kind, f"{name}_{number}") for kind, name in (("break", BREAK), ("continue", CONTINUE))}


class _Lowering:
    def __init__(self, returns: bool) -> None:
        self.returns = returns
        self.done = _Flag("return", DONE)
        self.count = 0
        self.nested = 0  # branches into which what follows has moved

    def function(self, node: ast.FunctionDef) -> None:
        body = node.body
        if self.returns:
            if _falls(body):
                # every way out sets the result: a way without `return` gives None
                body = [*body, build.located(ast.Return(build.constant(None)), body[-1])]
            body = self.block(body, None)
            first, last = node.body[0], node.body[-1]
            body = [self.done.set(False, first), *body, build.located(ast.Return(build.load(RETURN)), last)]
        else:
            body = self.block(body, None)
        node.body = _without_unread(body)

    def block(self, statements: Block, loop: _Loop | None) -> Block:
        result: Block = []
        for place, statement in enumerate(statements):
            match statement:
                case ast.Return() if self.returns:
                    value = statement.value or build.constant(None)
                    return [*result, build.located(build.assign(RETURN, value), statement), self.done.set(True, statement)]
                case ast.Break():
                    assert loop is not None
                    return [*result, loop.flags["break"].set(True, statement)]
                case ast.Continue():
                    assert loop is not None
                    return [*result, loop.flags["continue"].set(True, statement)]
                # what stands after it is never reached, and is left out
                case ast.Raise() | ast.Return():
                    return [*result, statement]
            if not isinstance(statement, _COMPOUND):
                result.append(statement)
                continue
            lowered, finished = self.compound(statement, statements[place + 1 :], loop)
            result += lowered
            if finished:
                return result
        return result

    def compound(self, node: Any, rest: Block, loop: _Loop | None) -> tuple[Block, bool]:
        """The statement lowered, and whether `rest` is dealt with as well."""
        match node:
            case ast.If():
                return self.branch(node, rest, loop)
            case ast.While() | ast.For():
                return self.loop(node, rest, loop)
            case ast.With():
                kinds = self.kinds(node.body)
                node.body = self.block(node.body, loop)
                return self.after(node, True, kinds, rest, loop)
            case ast.Try() | ast.TryStar():
                return self.attempt(node, rest, loop)
        return [node], False

    def after(self, node: Any, falls: bool, kinds: set[str], rest: Block, loop: _Loop | None) -> tuple[Block, bool]:
        if not falls:
            return [node], True
        if not kinds:
            return [node], False
        return [node, *self.unless(kinds, rest, loop)], True

    def kinds(self, statements: Iterable[ast.stmt]) -> set[str]:
        jumps = _jumps(statements)
        return jumps if self.returns else jumps - {"return"}

    def flags(self, kinds: set[str], loop: _Loop | None) -> list[_Flag]:
        flags = [loop.flags[kind] for kind in ("break", "continue") if kind in kinds] if loop else []
        return [*flags, self.done] if "return" in kinds else flags

    def unless(self, kinds: set[str], rest: Block, loop: _Loop | None) -> Block:
        """`rest`, to run only if no jump is under way."""
        guards: Block = []
        kinds = set(kinds)
        for part in self.parts(rest):
            body = self.inside(part, loop)
            guard: Any = build.located(ast.If(_none_of(self.flags(kinds, loop)), body, []), part[0])
            guard.ag_unless = frozenset(kinds)
            guards.append(guard)
            # the next guard has to ask for the jumps of this part as well
            kinds |= self.kinds(part)
        return guards

    def parts(self, statements: Block) -> Iterator[Block]:
        """What is nested in one guard: all of it, or, where that is deep already, up to the next statement that may jump."""
        part: Block = []
        for statement in statements:
            part.append(statement)
            if self.nested >= DEEPEST and self.kinds([statement]):
                yield part
                part = []
        if part:
            yield part

    def inside(self, statements: Block, loop: _Loop | None) -> Block:
        """Statements to which others have moved."""
        self.nested += 1
        block = self.block(statements, loop)
        self.nested -= 1
        return block

    def branch(self, node: ast.If, rest: Block, loop: _Loop | None) -> tuple[Block, bool]:
        kinds = self.kinds([node])
        body_falls, orelse_falls = _falls(node.body), _falls(node.orelse)
        # a branch that only raises ends the matter: what else there is stands after it
        if not body_falls and not self.kinds(node.body):
            # so `if bad: raise ...` does not nest the rest of the function one deeper
            tail, node.body, node.orelse = node.orelse + rest, self.block(node.body, loop), []
            return [node, *self.block(tail, loop)], True
        if not orelse_falls and not self.kinds(node.orelse):
            tail, node.body = node.body + rest, self.block(node.orelse, loop)
            node.test, node.orelse = build.located(ast.UnaryOp(ast.Not(), node.test), node.test), []
            return [node, *self.block(tail, loop)], True
        # what follows moves into the side that goes on: it needs no flag there. Beyond some depth flags are better than nesting
        moves = bool(kinds) and self.nested < DEEPEST
        if moves and not body_falls:
            node.body, node.orelse = self.block(node.body, loop), self.inside(node.orelse + rest, loop)
            return [node], True
        if moves and not orelse_falls:
            node.body, node.orelse = self.inside(node.body + rest, loop), self.block(node.orelse, loop)
            return [node], True
        node.body, node.orelse = self.block(node.body, loop), self.block(node.orelse, loop)
        return self.after(node, body_falls or orelse_falls, kinds, rest, loop)

    def loop(self, node: Any, rest: Block, loop: _Loop | None) -> tuple[Block, bool]:
        kinds, falls = self.kinds(node.body), _falls([node])
        self.count += 1
        inner = _Loop(self.count)
        # a `continue` leaves the turn, not the loop
        left = self.flags(kinds - {"continue"}, inner)
        node.body = [inner.flags["continue"].set(False, node.body[0]), *self.block(node.body, inner)]
        result: Block = [inner.flags["break"].set(False, node), node]
        if isinstance(node, ast.For):
            node.ag_extra = _none_of(left) if left else None  # type: ignore[attr-defined]
        elif left:
            keep_on = _none_of(left)
            # `while True`: the flags alone decide
            constant = isinstance(node.test, ast.Constant) and node.test.value
            node.test = keep_on if constant else build.located(ast.BoolOp(ast.And(), [keep_on, node.test]), node.test)
        if not falls:
            return result, True
        tail, node.orelse = node.orelse, []
        # the `else` of a loop runs unless it was left by a break
        if tail and "break" in kinds:
            tail = [build.located(ast.If(_none_of([inner.flags["break"]]), tail, []), tail[0])]
        if "return" in kinds:
            return [*result, *self.unless({"return"}, tail + rest, loop)], True
        return [*result, *self.block(tail + rest, loop)], True

    def attempt(self, node: Any, rest: Block, loop: _Loop | None) -> tuple[Block, bool]:
        falls = _falls([node])
        inside = self.kinds(node.body)
        kinds = inside | self.kinds(node.orelse)
        node.body = self.block(node.body, loop)
        node.orelse = self.unless(inside, node.orelse, loop) if inside else self.block(node.orelse, loop)
        for handler in node.handlers:
            kinds |= self.kinds(handler.body)
            # a jump that was under way when the exception came is off
            reset = [flag.set(False, handler.body[0]) for flag in self.flags(inside, loop)]
            handler.body = [*reset, *self.block(handler.body, loop)]
        node.finalbody = self.block(node.finalbody, loop)
        return self.after(node, falls, kinds, rest, loop)


def _none_of(flags: list[_Flag]) -> ast.expr:
    tests = [flag.test() for flag in flags]
    return ast.UnaryOp(ast.Not(), tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests))


def _jumps(statements: Iterable[ast.AST]) -> set[str]:
    """The kinds of jumps that leave these statements."""
    jumps: set[str] = set()
    for node in statements:
        match node:
            case ast.Break():
                jumps.add("break")
            case ast.Continue():
                jumps.add("continue")
            case ast.Return():
                jumps.add("return")
            case ast.For() | ast.While():
                jumps |= _jumps(node.body) & {"return"} | _jumps(node.orelse)
            case ast.expr() | ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
                pass
            case _:
                jumps |= _jumps(ast.iter_child_nodes(node))
    return jumps


def _falls(statements: Sequence[ast.AST]) -> bool:
    """Whether control can reach the end of these statements."""
    return all(_statement_falls(node) for node in statements)


def _statement_falls(node: ast.AST) -> bool:
    match node:
        case ast.Return() | ast.Break() | ast.Continue() | ast.Raise():
            return False
        case ast.If():
            return _falls(node.body) or _falls(node.orelse)
        case ast.While(test=ast.Constant(value=value)) if value:
            return "break" in _jumps(node.body)
        case ast.Try() | ast.TryStar():
            if not _falls(node.finalbody):
                return False
            return _falls([*node.body, *node.orelse]) or any(_falls(handler.body) for handler in node.handlers)
    return True


def _without_unread(statements: Block) -> Block:
    """Assignments to flags that nobody reads are dropped."""
    kept: Block = []
    for node in statements:
        flag = node.__dict__.get("ag_flag")
        if flag is not None and not flag.read:
            continue
        if not isinstance(node, UNENTERED):
            _clean(node)
        kept.append(node)
    return kept


def _clean(node: Any) -> None:
    for field in ("body", "orelse", "finalbody"):
        if inner := getattr(node, field, None):
            kept = _without_unread(inner)
            setattr(node, field, kept if kept or field != "body" else [build.located(ast.Pass(), node)])
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        _clean(part)
