"""The passes in their order: from a function's syntax to the code object that replaces its own.

The new code keeps file, lines and columns, names and qualified names, so tracebacks and locations are the user's. It has the
free variables of the original and two more: `ag__`, the operators, and `scope__`, its bindings.
"""

from __future__ import annotations
import __future__

import ast
import builtins
from types import CodeType
from typing import Any

from gradtape.core.float_events import unwarned
from gradtape.functions.autograph import build
from gradtape.functions.autograph.calls import CALLS
from gradtape.functions.autograph.control_statements import CONTROL
from gradtape.functions.autograph.converted_code import CONVERTED, FACTORY
from gradtape.functions.autograph.deep_trees import room_for
from gradtape.functions.autograph.desugar import desugar
from gradtape.functions.autograph.emitter import FunctionEmitter, Table
from gradtape.functions.autograph.expressions import EXPRESSIONS
from gradtape.functions.autograph.if_chains import shorten
from gradtape.functions.autograph.jumps import lower
from gradtape.functions.autograph.kept_conversions import own_builtins
from gradtape.functions.autograph.liveness import annotate
from gradtape.functions.autograph.matching import lower_matches
from gradtape.functions.autograph.names import info, spell_out
from gradtape.functions.autograph.scopes import NameScope
from gradtape.functions.autograph.source import Source, find
from gradtape.functions.autograph.statements import STATEMENTS
from gradtape.functions.autograph.stores import STORES
from gradtape.functions.autograph.trees import copied, depth

ALL_STATEMENTS: Table = {**STATEMENTS, **STORES, **CONTROL}
ALL_EXPRESSIONS: Table = {**EXPRESSIONS, **CALLS}
FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def transformed(source: Source, code: CodeType, space: dict[str, Any]) -> ast.FunctionDef:
    """The converted function as syntax, positions not yet filled in; it stands in a scope that binds the free variables."""
    function = _definition(copied(source.node), source.class_name)
    lower_matches(function)
    shorten(function)
    desugar(function)
    lower(function)
    scope = NameScope(function, None, frozenset(code.co_freevars))
    _annotate(scope)
    plain = frozenset(dir(builtins)).difference(own_builtins(space))
    FunctionEmitter(scope, plain, ALL_STATEMENTS, ALL_EXPRESSIONS).function(function, scope)
    return function


def _definition(node: Any, class_name: str | None) -> ast.FunctionDef:
    """The function without what happens when it is defined: decorators, defaults, annotations."""
    spell_out(node, class_name)
    args = node.args
    args.defaults, args.kw_defaults = [], [None for _ in args.kwonlyargs]
    for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if arg is not None:
            arg.annotation = None
    if isinstance(node, ast.Lambda):
        definition = build.located(build.define("ag__lambda_0", [], [build.located(ast.Return(node.body), node.body)]), node)
        definition.args = args
        info(definition).kind = "lambda"
        return definition
    node.decorator_list, node.returns = [], None
    node.__dict__["type_params"] = []
    return node


def _annotate(scope: NameScope) -> None:
    if not info(scope.node).plain:
        annotate(scope)
    for child in scope.children.values():
        _annotate(child)


def compiled(function: ast.FunctionDef, code: CodeType) -> CodeType:
    """The module that a transformed function stands in, in the scope of its free variables."""
    function.name = CONVERTED  # not its own name: a global of that name (recursion) must stay a global inside
    factory = build.located(build.define(FACTORY, [build.RUNTIME, build.SCOPE, *code.co_freevars], [function]), function)
    module = ast.fix_missing_locations(ast.Module([factory], []))
    flags = code.co_flags & FUTURES
    with unwarned():  # the user has seen them when the original was compiled
        return compile(module, code.co_filename, "exec", flags=flags, dont_inherit=True)


def rewritten(code: CodeType, text: str, space: dict[str, Any]) -> CodeType | None:
    """The compiled module of a function in a file with this text; None if its source is not there."""
    source = find(code, text)
    if source is None:
        return None
    # (the passes over the tree are recursive: deep expressions need more of Python's stack than it allows by itself)
    with room_for(depth(source.node)):
        return compiled(transformed(source, code, space), code)


def as_text(source: Source, code: CodeType, space: dict[str, Any]) -> str:
    """A rewritten function for readers, with the parameters as the user wrote them."""
    definition = transformed(source, code, space)
    definition.args = source.node.args
    if isinstance(source.node, ast.FunctionDef):
        definition.returns = source.node.returns
    return ast.unparse(ast.fix_missing_locations(definition))
