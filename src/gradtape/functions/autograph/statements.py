"""The other statements: definitions, `return`, `raise`, `assert`, `try`, `with`, `match`.

They keep Python's own form; their expressions and the statements inside them are converted. The body of a `try` runs inside
`ag__.guarded_try`, so that staged code there can be refused.
"""

from __future__ import annotations

import ast
from typing import Any

from gradtape.functions.autograph import build
from gradtape.functions.autograph.emitter import FunctionEmitter, Table, each_child, join, undefined
from gradtape.functions.autograph.expressions import tested
from gradtape.functions.autograph.names import may_swallow, unbound, yields
from gradtape.functions.autograph.scopes import converted
from gradtape.functions.autograph.stores import store


def _simple(emitter: FunctionEmitter, node: Any) -> list[ast.stmt]:
    return [each_child(emitter, node)]


def _leave(emitter: FunctionEmitter, node: Any) -> list[ast.stmt]:
    """`return` and `raise`."""
    each_child(emitter, node)
    if isinstance(node, ast.Raise) and node.exc is not None:
        node.exc = build.located(build.call("raising", node.exc), node.exc)
    # nothing behind it runs: every name counts as bound there, so that joins ask the other path only
    if not emitter.plain:
        emitter.definite = None
    return [node]


def _unchanged(emitter: FunctionEmitter, node: ast.stmt) -> list[ast.stmt]:
    return [node]


def _declaration(emitter: FunctionEmitter, node: ast.stmt) -> list[ast.stmt]:
    """`global` and `nonlocal` are written anew where a function needs them."""
    return []


def _assert(emitter: FunctionEmitter, node: ast.Assert) -> list[ast.stmt]:
    # python -O runs no assertions
    if not __debug__:
        return []
    test = emitter.expr(tested(node.test))
    message = emitter.thunk(node.msg) if node.msg else build.constant(None)
    call = build.call("assert_stmt", test, message, build.constant(node.lineno))
    return [ast.Expr(build.located(call, node.test if node.msg is None else node))]


def _definition(emitter: FunctionEmitter, node: Any) -> list[ast.stmt]:
    node.decorator_list = [emitter.expr(d) for d in node.decorator_list]
    if isinstance(node, ast.ClassDef):
        node.bases = [emitter.expr(base) for base in node.bases]
        for keyword in node.keywords:
            keyword.value = emitter.expr(keyword.value)
    else:
        node.args.defaults = [emitter.expr(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and emitter.expr(d) for d in node.args.kw_defaults]
        if isinstance(node, ast.FunctionDef) and converted(node):
            emitter.function(node, emitter.scope.of(node))
    hooks = emitter.declare([node.name])
    if not emitter.is_variable(node.name):
        return [*hooks, node]
    emitter.bind([node.name])
    if isinstance(node, ast.ClassDef):
        return [*hooks, node, ast.Expr(build.call("class_defined", build.load(node.name)))]
    return [*hooks, node]


def _try(emitter: FunctionEmitter, node: Any) -> list[ast.stmt]:
    before = emitter.definite
    # names that a `del` inside may take: an exception may come before or after it
    lost, lost_finally = unbound(node.body), unbound(node.finalbody)
    lost_anywhere = lost | unbound(node.orelse) | unbound(node.handlers)
    caught = build.strings(name for handler in node.handlers for name in _caught(handler.type))
    suspended = yields(node.body)  # other code runs meanwhile
    node.body = emitter.block(node.body)
    if node.handlers and not suspended:
        # what staged code raises, it raises when the program runs: no handler of the trace could catch it then, so it is
        # refused in here
        guard = ast.withitem(build.call("guarded_try", build.constant(node.lineno), caught), None)
        node.body = [build.located(ast.With([guard], node.body, None), node)]
    node.orelse = emitter.block(node.orelse)
    end = emitter.definite
    for handler in node.handlers:
        emitter.definite = before
        emitter.unbind(lost)
        end = join(end, _handler(emitter, handler))
    emitter.definite = before
    emitter.unbind(lost_anywhere)
    unsure = emitter.definite
    node.finalbody = emitter.block(node.finalbody)
    if end is not None and unsure is not None and emitter.definite is not None:
        # what `finally` binds is bound on every way out
        end = (end - lost_finally) | (emitter.definite - unsure)
    emitter.definite = end
    return [node, ast.Expr(build.call("after_try"))] if node.handlers and not suspended else [node]


def _caught(kind: ast.expr | None) -> list[str]:
    """The names of the exceptions a handler catches, as far as the source shows."""
    match kind:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return [name]
        case ast.Tuple(elts=parts):
            return [name for part in parts for name in _caught(part)]
    return ["BaseException"]


def _handler(emitter: FunctionEmitter, handler: ast.ExceptHandler) -> set[str] | None:
    if handler.type is not None:
        handler.type = emitter.expr(handler.type)
    name = handler.name
    if name is None:
        handler.body = emitter.block(handler.body)
        return emitter.definite
    if emitter.is_variable(name) and not emitter.exposed(name):
        handler.body = emitter.block(handler.body)
        return emitter.definite
    # Python unbinds the name at the end, however the handler is left: generated functions must find Undefined instead
    caught = f"ag__error_{emitter.number()}"
    handler.name = caught
    target = build.located(build.store(name), handler)
    bind = store(emitter, target, build.located(build.load(caught), handler))
    body = emitter.block(handler.body)
    emitter.unbind([name])
    if emitter.is_variable(name):
        owner = emitter.frame.owner(name)
        assert owner is not None
        owner.undefined.add(name)
        forget: ast.stmt = build.assign(name, undefined(name))
    else:
        kind = emitter.scope.kind(name)
        forget = ast.Expr(build.outer("forget", kind, name))
    # in a `finally`, since the handler may return or raise
    handler.body = [build.located(ast.Try([*bind, *body], [], [], [forget]), handler)]
    return emitter.definite


def _with(emitter: FunctionEmitter, node: Any) -> list[ast.stmt]:
    item, *others = node.items
    lost = unbound(node.body)
    swallows = may_swallow(item.context_expr)
    context = emitter.expr(item.context_expr)
    item.context_expr = build.located(build.call("managed", context), item.context_expr)
    before = emitter.definite
    take: list[ast.stmt] = []
    if item.optional_vars is not None:
        target = item.optional_vars
        if isinstance(target, ast.Name) and emitter.is_variable(target.id):
            emitter.bind([target.id])
        else:
            name = f"ag__value_{emitter.number()}"
            item.optional_vars = build.located(build.store(name), target)
            take = store(emitter, target, build.located(build.load(name), target))
        before = emitter.definite
    # `with a, b:` is `with a: with b:`; each may swallow exceptions of what is inside of it
    inner = build.located(ast.With(others, node.body, None), node)
    body = _with(emitter, inner) if others else emitter.block(node.body)
    node.items, node.body = [item], [*take, *body]
    if before is not None:  # the context may swallow an exception that came before a name was bound
        emitter.definite = before - lost if swallows else emitter.definite
    return [node]


STATEMENTS: Table = {
    ast.Expr: _simple, ast.Return: _leave, ast.Raise: _leave, ast.Pass: _unchanged, ast.Break: _unchanged,
    ast.Continue: _unchanged, ast.Global: _declaration, ast.Nonlocal: _declaration, ast.Assert: _assert,
    ast.FunctionDef: _definition, ast.AsyncFunctionDef: _definition, ast.ClassDef: _definition, ast.Try: _try,
    ast.TryStar: _try, ast.With: _with,
}  # fmt: skip
