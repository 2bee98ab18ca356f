"""`if`, `while` and `for`: tests and bodies become functions that share the state names with the function around them.

`else` and the jumps are gone by now (`jumps.py`); `ag_extra` of a `for` is true while no jump has left it.
"""

from __future__ import annotations

import ast
from typing import Any

from gradtape.functions.autograph import build
from gradtape.functions.autograph.emitter import FunctionEmitter, Table, join
from gradtape.functions.autograph.expressions import tested
from gradtape.functions.autograph.liveness import certain_walrus
from gradtape.functions.autograph.names import unbound
from gradtape.functions.autograph.stores import store

ITEM = "ag__item"


def _while(emitter: FunctionEmitter, node: Any) -> list[ast.stmt]:
    if emitter.plain:
        node.test = emitter.expr(tested(node.test))
        node.body, node.orelse = emitter.block(node.body), emitter.block(node.orelse)
        return [node]
    state, number = node.ag_state, emitter.number()
    emitter.enter_state(state)
    emitter.unbind(unbound(node.body))
    head = emitter.definite
    test = emitter.thunk(tested(node.test))
    emitter.bind(certain_walrus(node.test))
    after = emitter.definite
    body = emitter.generated(f"ag__body_{number}", [], [], node.body, state, node)
    emitter.definite = None if head is None else after
    functions, arguments = emitter.state_functions(state, number, node)
    call = build.call("while_stmt", test, build.load(body.name), *arguments, build.constant(node.lineno))
    return [body, *functions, build.located(ast.Expr(build.located(call, node.test)), node.test)]


def _for(emitter: FunctionEmitter, node: Any) -> list[ast.stmt]:
    iterated = emitter.expr(node.iter)
    if emitter.plain:
        node.iter = build.located(build.call("gone_over", iterated), node.iter)
        return _plain_for(emitter, node)
    state, number = node.ag_state, emitter.number()
    emitter.enter_state(state)
    emitter.unbind(unbound(node.body))
    head = emitter.definite
    extra = emitter.thunk(node.ag_extra) if node.ag_extra is not None else build.constant(None)
    take = build.located(ast.Assign([node.target], build.load(ITEM)), node.target)
    body = emitter.generated(f"ag__body_{number}", [ITEM], [take], node.body, state, node)
    emitter.definite = head
    functions, arguments = emitter.state_functions(state, number, node)
    call = build.call("for_stmt", iterated, extra, build.load(body.name), *arguments, build.constant(node.lineno))
    return [body, *functions, build.located(ast.Expr(build.located(call, node.iter)), node.iter)]


def _plain_for(emitter: FunctionEmitter, node: Any) -> list[ast.stmt]:
    take: list[ast.stmt] = []
    if not (isinstance(node.target, ast.Name) and emitter.is_variable(node.target.id)):
        take = store(emitter, node.target, build.located(build.load(ITEM), node.target))
        node.target = build.located(build.store(ITEM), node.target)
    node.body = [*take, *emitter.block(node.body)]
    node.orelse = emitter.block(node.orelse)
    return [node]


# -- if --------------------------------------------------------------------------------------------------------------
# For each side `ag__.if_stmt` is told which of them nobody reads after it.


def _if(emitter: FunctionEmitter, node: Any) -> list[ast.stmt]:
    test = emitter.expr(tested(node.test))
    before = emitter.definite
    if emitter.plain:
        node.test, node.body, node.orelse = test, emitter.block(node.body), emitter.block(node.orelse)
        return [node]
    state, number = node.ag_state, emitter.number()
    dead = tuple(tuple(i for i, name in enumerate(state) if name in names) for names in node.ag_dead)
    emitter.enter_state(state)
    sides: list[ast.stmt] = []
    branches: list[ast.expr] = []
    after = []
    for kind, statements in (("body", node.body), ("else", node.orelse)):
        emitter.definite = before
        if statements:
            sides.append(emitter.generated(f"ag__{kind}_{number}", [], [], statements, state, node))
            branches.append(build.load(f"ag__{kind}_{number}"))
        else:
            branches.append(build.operator("nothing"))
        after.append(emitter.definite)
    emitter.definite = join(after[0], after[1])
    functions, arguments = emitter.state_functions(state, number, node)
    call = build.call("if_stmt", test, *branches, *arguments, build.constant(node.lineno), build.constant(dead))
    return [*sides, *functions, build.located(ast.Expr(build.located(call, node.test)), node.test)]


CONTROL: Table = {ast.If: _if, ast.While: _while, ast.For: _for}
