"""Expressions that decide something, or read what may be state: short circuits, comparisons, f-strings, attributes, items.

What Python evaluates only sometimes becomes a function of no arguments. Arithmetic stays as it is (tensors have operators),
except for what lists mean by it.
"""

from __future__ import annotations

import ast
from typing import Any

from gradtape.functions.autograph import build
from gradtape.functions.autograph.bindings import VARIABLE
from gradtape.functions.autograph.emitter import FunctionEmitter, Table, each_child

MANY = 8  # operands of `and` and `or`
LISTS = {ast.Add: "plus", ast.Mult: "times"}
MEMBERSHIP = {ast.Is: "is_", ast.IsNot: "is_not", ast.In: "in_", ast.NotIn: "not_in"}
COMPARISONS = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", **MEMBERSHIP,
}  # fmt: skip


def _name(emitter: FunctionEmitter, node: ast.Name) -> ast.expr:
    return emitter.read(node)


class Test(ast.BoolOp):
    """`a and b` where only its truth counts, each operand of which Python asks once: `if a and b`."""


def tested(node: Any) -> Any:
    """An expression that stands where only its truth counts."""
    if not isinstance(node, ast.BoolOp):
        return node
    return build.located(Test(node.op, [tested(value) for value in node.values]), node)


def _boolean(emitter: FunctionEmitter, node: ast.BoolOp) -> ast.expr:
    """`a and b and c` is `and_(a, lambda: and_(b, lambda: c))`; of many operands the first half is `a`."""
    if len(node.values) > MANY:  # each operand would be a branch inside the one before
        middle = len(node.values) // 2
        halves: list[ast.expr] = [
            build.located(type(node)(node.op, part), part[0]) for part in (node.values[:middle], node.values[middle:])
        ]
        node = build.located(type(node)(node.op, halves), node)
    first, *rest = node.values
    value = emitter.expr(first)
    remaining = rest[0] if len(rest) == 1 else build.located(type(node)(node.op, rest), rest[0])
    operator = ("and_" if isinstance(node.op, ast.And) else "or_") + ("test" if isinstance(node, Test) else "")
    return build.located(build.call(operator, value, emitter.thunk(remaining)), node)


def _binary(emitter: FunctionEmitter, node: ast.BinOp) -> ast.expr:
    """`+` and `*` may be about lists; other arithmetic is about tensors and numbers."""
    operator = LISTS.get(type(node.op))
    if operator is None or any(isinstance(part, ast.Constant) for part in (node.left, node.right) if operator == "plus"):
        return each_child(emitter, node)
    left, right = emitter.expr(node.left), emitter.expr(node.right)
    return build.located(build.call(operator, left, right), node)


def _unary(emitter: FunctionEmitter, node: ast.UnaryOp) -> ast.expr:
    if isinstance(node.op, ast.Not):
        return build.located(build.call("not_", emitter.expr(tested(node.operand))), node)
    return each_child(emitter, node)


def _compare(emitter: FunctionEmitter, node: ast.Compare) -> ast.expr:
    left, first = emitter.expr(node.left), emitter.expr(node.comparators[0])
    if len(node.ops) == 1:
        operator = MEMBERSHIP.get(type(node.ops[0]))
        # (of two names Python asks the items itself: a call in the place of every comparison would show in each traceback)
        if operator is None and not any(isinstance(side, (ast.Tuple, ast.List)) for side in (node.left, node.comparators[0])):
            node.left, node.comparators = left, [first]
            return node
        if operator is not None:
            return build.located(build.call(operator, left, first), node)
    names = build.strings(COMPARISONS[type(op)] for op in node.ops)
    later = [emitter.thunk(comparator) for comparator in node.comparators[1:]]
    return build.located(build.call("compare", names, left, first, *later), node)


def _choice(emitter: FunctionEmitter, node: ast.IfExp) -> ast.expr:
    test = emitter.expr(tested(node.test))
    body, orelse = emitter.thunk(node.body), emitter.thunk(node.orelse)
    return build.located(build.call("if_exp", test, body, orelse, build.constant(node.lineno)), node)


def _walrus(emitter: FunctionEmitter, node: ast.NamedExpr) -> ast.expr:
    value, name = emitter.expr(node.value), node.target.id
    kind = emitter.scope.kind(name)
    if kind != VARIABLE:
        return build.located(build.outer("set", kind, name, value), node)
    emitter.bind([name])
    node.value = value
    return node


def _fstring(emitter: FunctionEmitter, node: ast.JoinedStr) -> ast.expr:
    """Each part is formatted, or kept for later if it is traced, before the next one is evaluated."""
    parts: list[ast.expr] = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = emitter.expr(part.value)
            spec = emitter.expr(part.format_spec) if part.format_spec else build.constant("")
            parts.append(build.located(build.call("part", value, build.constant(part.conversion), spec), part.value))
        else:
            parts.append(part)
    return build.located(build.call("fstring", ast.Tuple(parts, ast.Load())), node)


def _attribute(emitter: FunctionEmitter, node: ast.Attribute) -> ast.expr:
    return build.located(build.call("attr", emitter.expr(node.value), build.constant(node.attr)), at_attribute(node))


def at_attribute(node: ast.Attribute) -> ast.expr:
    """Where Python says an attribute is read: on the line of its name, if the expression spans several."""
    if node.lineno == node.end_lineno or node.end_lineno is None or node.end_col_offset is None:
        return node
    place = build.located(ast.Name("", ast.Load()), node)
    place.lineno, place.col_offset = node.end_lineno, max(0, node.end_col_offset - len(node.attr))
    return place


def _subscript(emitter: FunctionEmitter, node: ast.Subscript) -> ast.expr:
    return build.located(build.call("item", emitter.expr(node.value), emitter.expr(node.slice)), node)


def _slice(emitter: FunctionEmitter, node: ast.Slice) -> ast.expr:
    bounds = [emitter.expr(part) if part else build.constant(None) for part in (node.lower, node.upper, node.step)]
    return build.located(build.call("slice", *bounds), node)


def _starred(emitter: FunctionEmitter, node: ast.Starred) -> ast.expr:
    taken = build.located(build.call("taken", emitter.expr(node.value)), node.value)
    return build.located(ast.Starred(taken, node.ctx), node)


def _dict(emitter: FunctionEmitter, node: ast.Dict) -> ast.expr:
    values = [emitter.expr(value) for value in node.values]
    node.values = [
        value if key else build.located(build.call("taken", value), value) for key, value in zip(node.keys, values, strict=True)
    ]
    node.keys = [key and emitter.expr(key) for key in node.keys]
    return node


def _untouched(emitter: FunctionEmitter, node: ast.expr) -> ast.expr:
    return node


EXPRESSIONS: Table = {
    ast.Name: _name, ast.BoolOp: _boolean, ast.BinOp: _binary, ast.UnaryOp: _unary, ast.Compare: _compare, ast.IfExp: _choice,
    ast.NamedExpr: _walrus, ast.JoinedStr: _fstring, ast.Attribute: _attribute, ast.Subscript: _subscript,
    Test: _boolean, ast.Slice: _slice, ast.Starred: _starred, ast.Dict: _dict, ast.Lambda: _untouched,
}  # fmt: skip
