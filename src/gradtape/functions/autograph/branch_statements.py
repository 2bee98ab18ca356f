"""`if` statements: both branches become functions that share the state names with the function around them.

For each side `ag__.if_stmt` is told which of them nobody reads after it.
"""

from __future__ import annotations

import ast
from typing import Any

from gradtape.functions.autograph import build
from gradtape.functions.autograph.emitter import FunctionEmitter, Table, join
from gradtape.functions.autograph.expressions import tested


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


BRANCHES: Table = {ast.If: _if}
