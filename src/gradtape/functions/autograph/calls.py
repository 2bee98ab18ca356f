"""Calls: the callee passes through `ag__.conv`, which converts functions and knows builtins; the user's frame calls.

So no frame of ours stands between the user's functions. Builtins that look at their caller's frame (`super()`, `locals()`,
`globals()`, `eval` and their kin) get what they would find there as arguments.
"""

from __future__ import annotations

import ast

from gradtape.functions.autograph import build
from gradtape.functions.autograph.bindings import GLOBAL, VARIABLE
from gradtape.functions.autograph.emitter import FunctionEmitter, Table
from gradtape.functions.autograph.expressions import at_attribute
from gradtape.functions.autograph.liveness import LOOKING
from gradtape.functions.autograph.stores import added_to

ADDITIONS = {"append", "extend"}  # methods of containers that change them without a look at what they hold


def _call(emitter: FunctionEmitter, node: ast.Call) -> ast.expr:
    if _internal(node.func):
        return _arguments(emitter, node)
    if isinstance(node.func, ast.Name) and emitter.scope.kind(node.func.id) == GLOBAL and node.func.id in emitter.plain_names:
        looking = _looking(emitter, node, node.func.id)
        if looking is not None:
            return build.located(looking, node)
    place: ast.expr = node
    if isinstance(node.func, ast.Attribute):
        place = at_attribute(node.func)
        place = node if place is node.func else place
        target = added_to(emitter, node.func.value) if node.func.attr in ADDITIONS else emitter.expr(node.func.value)
        method = build.call("method", target, build.constant(node.func.attr))
        node.func = build.located(method, place if place is not node else node.func)
    else:
        node.func = build.located(build.call("conv", emitter.expr(node.func)), node.func)
    call = ast.Call(node.func, node.args, node.keywords)
    return _arguments(emitter, build.located(call, place))


def _internal(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(value=ast.Name(id=build.RUNTIME)):
            return True
        case ast.Name(id=name):
            return name.startswith(build.RUNTIME)
    return False


def _arguments(emitter: FunctionEmitter, node: ast.Call) -> ast.Call:
    node.args = [emitter.expr(arg) for arg in node.args]
    for keyword in node.keywords:
        keyword.value = emitter.expr(keyword.value)
    return node


def _looking(emitter: FunctionEmitter, node: ast.Call, name: str) -> ast.expr | None:
    """Calls that look at the frame of their caller."""
    function = build.located(build.load(name), node.func)
    if name == "super" and not node.args and not node.keywords:
        method = emitter.scope.function()
        first = [a.arg for a in (*method.node.args.posonlyargs, *method.node.args.args)][:1]
        if not first or emitter.scope.kind("__class__") == GLOBAL:
            return node
        return build.call("super_", function, build.load("__class__"), emitter.read(build.load(first[0])))
    if name == "globals" and not node.args:
        return build.call("globals_", function, build.load(build.SCOPE))
    if name in LOOKING and not node.keywords and len(node.args) == (1 if name in ("eval", "exec") else 0):
        given = [emitter.expr(arg) for arg in node.args]
        return build.call("looking", function, build.load(build.SCOPE), _locals(emitter), *given)
    return None


def _locals(emitter: FunctionEmitter) -> ast.expr:
    """The local and captured variables by name, those without a value marked as such."""
    scope = emitter.scope
    seen = scope.variables | {n for n in scope.outer_reads() if scope.kind(n) == VARIABLE or n in scope.free}
    names = sorted(n for n in seen if not n.startswith(build.RUNTIME))
    if not emitter.plain:
        emitter.enter_state([n for n in names if scope.kind(n) == VARIABLE])
        return ast.Dict([build.constant(n) for n in names], [build.load(n) for n in names])
    return build.call("frame_locals")


CALLS: Table = {ast.Call: _call}
