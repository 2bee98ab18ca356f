"""The passes in their order: from a function's syntax to the code object that replaces its own.

The new code keeps file, lines and columns, names and qualified names, so tracebacks and locations are the user's. It has the
free variables of the original and two more: `ag__`, the operators, and `scope__`, its bindings.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import sys
from types import CodeType
from typing import Any

from gradtape.core.float_events import unwarned
from gradtape.functions.autograph import build
from gradtape.functions.autograph.calls import CALLS
from gradtape.functions.autograph.code_registry import Entry, note
from gradtape.functions.autograph.control_statements import CONTROL
from gradtape.functions.autograph.desugar import desugar
from gradtape.functions.autograph.emitter import FunctionEmitter, Table
from gradtape.functions.autograph.expressions import EXPRESSIONS
from gradtape.functions.autograph.if_chains import shorten
from gradtape.functions.autograph.jumps import lower
from gradtape.functions.autograph.liveness import annotate
from gradtape.functions.autograph.matching import lower_matches
from gradtape.functions.autograph.names import info, spell_out
from gradtape.functions.autograph.scopes import NameScope
from gradtape.functions.autograph.source import Source
from gradtape.functions.autograph.statements import STATEMENTS
from gradtape.functions.autograph.stores import STORES
from gradtape.functions.autograph.trees import copied

ALL_STATEMENTS: Table = {**STATEMENTS, **STORES, **CONTROL}
ALL_EXPRESSIONS: Table = {**EXPRESSIONS, **CALLS}
FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
FACTORY = "ag__factory"
CONVERTED = "ag__converted"
OPTIMIZED = 0x01  # a function's code, as opposed to a class body's
# how functions that the user wrote as expressions are called in tracebacks
EXPRESSION_NAMES = {"lambda": "<lambda>", "genexpr": "<genexpr>", "genlist": "<genexpr>"}
if sys.version_info < (3, 12):  # since then, comprehensions have no frames of their own
    EXPRESSION_NAMES |= {"listcomp": "<listcomp>", "setcomp": "<setcomp>", "dictcomp": "<dictcomp>"}


def own_builtins(space: dict[str, Any]) -> list[str]:
    """The names of builtins that a module has its own values for."""
    return [name for name in dir(builtins) if name in space]


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


def converted_code(module: CodeType, code: CodeType) -> CodeType:
    """The converted function of a compiled module, named like the original."""
    return _renamed(_code_named(_code_named(module, FACTORY), CONVERTED), code.co_name, code.co_qualname, generated=False)


def _code_named(code: CodeType, name: str) -> CodeType:
    return next(c for c in code.co_consts if isinstance(c, CodeType) and c.co_name == name)


def _renamed(code: CodeType, name: str, qualname: str, generated: bool) -> CodeType:
    """Names as if the user's functions stood where the user wrote them; what is converted is known as such from now on."""
    consts = tuple(_renamed_inside(c, name, qualname) if isinstance(c, CodeType) else c for c in code.co_consts)
    named = code.replace(co_name=name, co_qualname=qualname, co_consts=consts)
    note(named, Entry(converted=True, generated=generated))
    return named


def _renamed_inside(code: CodeType, owner: str, qualname: str) -> CodeType:
    raw = code.co_name
    if raw == "<lambda>" or (raw.startswith("ag__") and raw.split("_")[2] not in EXPRESSION_NAMES):
        return _renamed(code, owner, qualname, generated=True)
    name = EXPRESSION_NAMES[raw.split("_")[2]] if raw.startswith("ag__") else raw
    if not code.co_flags & OPTIMIZED:
        return _moved(code, code.co_qualname, f"{qualname}.<locals>.{name}")
    return _renamed(code, name, f"{qualname}.<locals>.{name}", generated=False)


def _moved(code: CodeType, old: str, new: str) -> CodeType:
    """A class body, which is left alone: it and what is in it keep their names, below another one."""

    def moved(value: Any) -> Any:
        if isinstance(value, CodeType):
            return _moved(value, old, new)
        return new + value[len(old) :] if isinstance(value, str) and value == old else value

    consts = tuple(moved(c) for c in code.co_consts)
    return code.replace(co_qualname=new + code.co_qualname[len(old) :], co_consts=consts)
