"""Assignments of every kind: names, attributes, items, patterns, augmented, `del`, imports.

The value is evaluated before the target's parts, each part once, as in Python. Names that are variables of the function
stay plain assignments; globals and captured cells are written through their bindings so that the write can be noted.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from gradtape.functions.autograph import build
from gradtape.functions.autograph.bindings import VARIABLE
from gradtape.functions.autograph.emitter import FunctionEmitter, Table, undefined
from gradtape.functions.autograph.names import written

INPLACE: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.iadd, ast.Sub: operator.isub, ast.Mult: operator.imul, ast.MatMult: operator.imatmul,
    ast.Div: operator.itruediv, ast.FloorDiv: operator.ifloordiv, ast.Mod: operator.imod, ast.Pow: operator.ipow,
    ast.LShift: operator.ilshift, ast.RShift: operator.irshift, ast.BitAnd: operator.iand, ast.BitOr: operator.ior,
    ast.BitXor: operator.ixor,
}  # fmt: skip


def store(emitter: FunctionEmitter, target: Any, value: ast.expr) -> list[ast.stmt]:
    """Statements that give an emitted value to a target."""
    match target:
        case ast.Name(id=name):
            if emitter.is_variable(name):
                emitter.bind([name])
                return [build.located(ast.Assign([target], value), target)]
            # a global, or a variable of a function that is not converted: the trace must know of the write
            write = build.outer("set", emitter.scope.kind(name), name, value)
            return [build.located(ast.Expr(build.located(write, target)), target)]
        case ast.Tuple() | ast.List():
            return _unpack(emitter, target, value)
        case ast.Starred():
            return store(emitter, target.value, value)
    # Python evaluates the value first, then the target's parts; arguments of a call would be the other way round
    before, value = _evaluated(emitter, value, target)
    if isinstance(target, ast.Attribute):
        write = build.call("set_attr", emitter.expr(target.value), build.constant(target.attr), value)
    else:
        write = build.call("set_item", added_to(emitter, target.value, "keyed"), emitter.expr(target.slice), value)
    return [*before, build.located(ast.Expr(build.located(write, target)), target)]


def added_to(emitter: FunctionEmitter, node: ast.expr, how: str = "grown") -> ast.expr:
    """The container that something is added to. (What has a name here may be looked at by that name, in ways not seen.)"""
    target = emitter.expr(node)
    return (
        target if isinstance(node, ast.Name) and emitter.is_variable(node.id) else build.located(build.call(how, target), node)
    )


def _evaluated(emitter: FunctionEmitter, value: ast.expr, where: ast.AST) -> tuple[list[ast.stmt], ast.expr]:
    """`value` under a name, if evaluating it later could give something else."""
    if isinstance(value, ast.Constant) or (isinstance(value, ast.Name) and value.id.startswith("ag__value")):
        return [], value
    name = f"ag__value_{emitter.number()}"
    return [build.located(build.assign(name, value), where)], build.located(build.load(name), where)


def _unpack(emitter: FunctionEmitter, target: Any, value: ast.expr) -> list[ast.stmt]:
    stars = [place for place, part in enumerate(target.elts) if isinstance(part, ast.Starred)]
    count, star = build.constant(len(target.elts)), build.constant(stars[0] if stars else None)
    # `a, b = b, a` needs no unpacking: a tuple that is written out has the right length
    literal = isinstance(value, ast.Tuple) and not stars and not any(isinstance(part, ast.Starred) for part in value.elts)
    unpacked = value if literal else build.located(build.call("unpack", value, count, star), target)
    inner = [part.value if isinstance(part, ast.Starred) else part for part in target.elts]
    # one Python statement where nothing has to be told to anybody
    if all(_is_plain(emitter, part) for part in inner):
        emitter.bind(written(inner))
        return [build.located(ast.Assign([target], unpacked), target)]
    # all values are taken before any is stored: `a[0], a[1] = a[1], a[0]`
    names = [f"ag__value_{emitter.number()}" for _ in inner]
    parts: list[ast.expr] = [build.store(name) for name in names]
    if stars:
        parts[stars[0]] = ast.Starred(parts[stars[0]], ast.Store())
    result: list[ast.stmt] = [build.located(ast.Assign([ast.Tuple(parts, ast.Store())], unpacked), target)]
    for name, part in zip(names, inner, strict=True):
        result += store(emitter, part, build.located(build.load(name), part))
    return result


def _is_plain(emitter: FunctionEmitter, target: Any) -> bool:
    return isinstance(target, ast.Name) and emitter.is_variable(target.id)


def _assign(emitter: FunctionEmitter, node: ast.Assign) -> list[ast.stmt]:
    value = emitter.expr(node.value)
    if len(node.targets) == 1:
        stores = store(emitter, node.targets[0], value)
        if len(stores) == 1:
            return [build.located(stores[0], node)]
        return stores
    # `a = b = f()` calls f once
    result, value = _evaluated(emitter, value, node.value)
    for target in node.targets:
        result += store(emitter, target, value)
    return result


def _annotated(emitter: FunctionEmitter, node: ast.AnnAssign) -> list[ast.stmt]:
    return store(emitter, node.target, emitter.expr(node.value)) if node.value else []


def _augmented(emitter: FunctionEmitter, node: ast.AugAssign) -> list[ast.stmt]:
    operation = build.constant(INPLACE[type(node.op)].__name__)
    target = node.target
    if isinstance(target, ast.Name):
        old = emitter.read(build.located(build.load(target.id), target))
        if isinstance(node.op, ast.Add) and not emitter.is_variable(target.id):
            old = build.located(build.call("grown", old), target)
        value = build.located(build.call("inplace", operation, old, emitter.expr(node.value)), node)
        return [build.located(part, node) for part in store(emitter, target, value)]
    # `f()[g()] += 1` calls each once, though it reads and writes
    holder = f"ag__value_{emitter.number()}"
    result: list[ast.stmt] = [build.assign(holder, emitter.expr(target.value))]
    if isinstance(target, ast.Attribute):
        key: ast.expr = build.constant(target.attr)
        read, write, held = "attr", "set_attr", []
    else:
        name = f"ag__value_{emitter.number()}"
        result.append(build.assign(name, emitter.expr(target.slice)))
        key = build.load(name)
        read, write, held = "item", "set_item", [build.constant(1)]
    old = build.located(build.call(read, build.load(holder), key), target)
    if isinstance(node.op, ast.Add):
        old = build.located(build.call("grown", old), target)
    new = build.located(build.call("inplace", operation, old, emitter.expr(node.value)), node)
    result.append(ast.Expr(build.located(build.call(write, build.load(holder), key, new, *held), node)))
    return result


def _delete(emitter: FunctionEmitter, node: ast.Delete) -> list[ast.stmt]:
    result: list[ast.stmt] = []
    for target in node.targets:
        result += [build.located(part, target) for part in _delete_one(emitter, target)]
    return result


def _delete_one(emitter: FunctionEmitter, target: Any) -> list[ast.stmt]:
    match target:
        case ast.Name(id=name) if emitter.scope.kind(name) != VARIABLE:
            kind = emitter.scope.kind(name)
            return [ast.Expr(build.outer("del", kind, name))]
        case ast.Name(id=name):
            # nobody else reads it: Python's own `del` and its errors will do
            if not emitter.exposed(name):
                return [ast.Delete([target])]
            read = emitter.read(build.located(build.load(name), target))
            owner = emitter.frame.owner(name)
            assert owner is not None
            owner.undefined.add(name)
            emitter.unbind([name])
            # deleting what has no value is an error, also where only run time knows
            check: list[ast.stmt] = [ast.Expr(read)] if isinstance(read, ast.Call) else []
            return [*check, build.assign(name, undefined(name))]
        case ast.Attribute(value=value, attr=attr):
            return [ast.Expr(build.call("del_attr", emitter.expr(value), build.constant(attr)))]
        case ast.Subscript(value=value, slice=key):
            return [ast.Expr(build.call("del_item", emitter.expr(value), emitter.expr(key)))]
    return [part for inner in target.elts for part in _delete_one(emitter, inner)]


def _import(emitter: FunctionEmitter, node: ast.Import | ast.ImportFrom) -> list[ast.stmt]:
    names = written([node])
    hooks = emitter.declare(names)
    emitter.bind(name for name in names if emitter.is_variable(name))
    return [*hooks, node]


STORES: Table = {
    ast.Assign: _assign, ast.AnnAssign: _annotated, ast.AugAssign: _augmented, ast.Delete: _delete,
    ast.Import: _import, ast.ImportFrom: _import,
}  # fmt: skip
