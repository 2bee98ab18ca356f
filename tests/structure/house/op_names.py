"""Where a string stands for an operation: facts about ops belong to the `Op` object, not to its spelling somewhere else.

Most strings that are spelled like an op name something else: an event of the profiler, an instruction of LLVM, a method in a
message. A string *means* an op where it meets an op's name, and those come from `op.name` only. So names are followed from
there, through variables, parameters, results and fields, and each string counts that is compared with one, is in a collection
asked for one, or is given to `op_by_name`. They are followed by spelling, without types: a function, field or table is known
by its last name. Only what is declared as text can hold one; what many have in common (`get`, `.type`) is followed inside its
module, or not.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from tests.structure.house.tree import Module, Tree

LOOKUP = "op_by_name"
MANY = 3  # functions, or fields, of one name
ASKING = ("get", "index", "count", "pop", "setdefault", "startswith", "endswith", "__contains__")
READ = (
    ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.comprehension, ast.Return, ast.Call, ast.Compare, ast.Subscript,
    ast.Match,
)  # fmt: skip
Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Place: TypeAlias = tuple[str, ...]  # what may hold an op's name: a variable of a function, the result of one, a field


class _Signature(NamedTuple):
    """A function with its parameters, or a class with its fields (`scope` is empty)."""

    parameters: list[str]
    module: Module
    scope: str


class _Node(NamedTuple):
    """A node with what it stands in: `scope` is the innermost function."""

    node: ast.AST
    module: Module
    scope: str


def op_strings(tree: Tree, ops: frozenset[str]) -> dict[str, list[tuple[int, str]]]:
    """File → (line, name) of each string outside `ops/` and `core/` that stands for an operation."""
    places: dict[str, set[tuple[int, int, str]]] = {}
    for module, node in _Flow(tree).strings():
        if module.room not in ("ops", "core") and node.value in ops:
            places.setdefault(module.relative, set()).add((node.lineno, node.col_offset, node.value))
    return {file: [(line, value) for line, _, value in sorted(lines)] for file, lines in sorted(places.items())}


class _Flow:
    """Which places of a tree hold names of operations."""

    def __init__(self, tree: Tree) -> None:
        self.nodes: list[_Node] = []
        self.tables: dict[str, list[tuple[Module, ast.expr]]] = {}  # global name → what is assigned to it
        self.functions: dict[str, list[_Signature]] = {}
        self.fields: Counter[str] = Counter()  # field → how many classes have one of that name
        for module in tree:
            self._read(module)
        self.named: set[Place] = set()
        while self._spread():
            pass

    def _read(self, module: Module) -> None:
        def visit(node: ast.AST, scope: str) -> None:
            if isinstance(node, Function):
                scope = f"{module.name}:{node.lineno}:{node.col_offset}"
                if not isinstance(node, ast.Lambda):
                    parameters = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                    names = [_if_text(p.arg, p.annotation) for p in parameters]
                    self.functions.setdefault(node.name, []).append(_Signature(names, module, scope))
            elif isinstance(node, ast.ClassDef):
                fields = [_if_text(_last(n.target), n.annotation) for n in node.body if isinstance(n, ast.AnnAssign)]
                self.functions.setdefault(node.name, []).append(_Signature(fields, module, ""))
                self.fields.update(fields)
            if isinstance(node, READ):
                self.nodes.append(_Node(node, module, scope))
            for child in ast.iter_child_nodes(node):
                visit(child, scope)

        visit(module.syntax, module.name)
        for statement in module.syntax.body:
            for target, value in _assigned(statement):
                self.tables.setdefault(_last(target), []).append((module, value))

    # -- names spread ----------------------------------------------------------------------------------------------

    def _spread(self) -> bool:
        """Follow all names one step further; whether there was one."""
        before = len(self.named)
        for node, module, scope in self.nodes:
            for target, value in _assigned(node):
                if self.is_name(value, module, scope):
                    self.named.add((scope, target.id) if isinstance(target, ast.Name) else ("field", _last(target)))
            if isinstance(node, ast.Return) and node.value is not None and self.is_name(node.value, module, scope):
                self.named.add(("result", scope))
            elif isinstance(node, ast.Call):
                self._pass_on(node, module, scope)
        return len(self.named) > before

    def _pass_on(self, call: ast.Call, module: Module, scope: str) -> None:
        given = [(n, arg) for n, arg in enumerate(call.args) if self.is_name(arg, module, scope)]
        keywords = [k.arg for k in call.keywords if k.arg is not None and self.is_name(k.value, module, scope)]
        if not given and not keywords:
            return
        for names, _, inner in self._called(call.func, module):
            # the `self` of a method is not in the call
            shift = int(bool(names) and names[0] in ("self", "cls"))
            for name in (*keywords, *(names[n + shift] for n, _ in given if n + shift < len(names))):
                if name in names and name != "":
                    self.named.add((inner, name) if inner else ("field", name))

    def _called(self, function: ast.expr, module: Module) -> list[_Signature]:
        all_of_them = self.functions.get(_last(function), [])
        return all_of_them if len(all_of_them) <= MANY else [f for f in all_of_them if f.module is module]

    def is_name(self, node: ast.AST, module: Module, scope: str) -> bool:
        """Whether the expression may be the name of an op."""
        match node:
            case ast.Attribute(attr="name", value=owner) if _last(owner) in ("op", "opdef"):
                return True
            case ast.Attribute(attr=field):
                return ("field", field) in self.named and self.fields[field] <= MANY and not field.startswith("__")
            case ast.Name(id=name):
                return (scope, name) in self.named or (module.name, name) in self.named
            case ast.NamedExpr(value=value) | ast.Starred(value=value):
                return self.is_name(value, module, scope)
            case ast.IfExp(body=first, orelse=second):
                return self.is_name(first, module, scope) or self.is_name(second, module, scope)
            case ast.BoolOp(values=values):
                return any(self.is_name(value, module, scope) for value in values)
            case ast.Call(func=ast.Name(id="str" | "cast" | "intern"), args=args):
                return any(self.is_name(arg, module, scope) for arg in args)
            case ast.Call(func=function):
                return any(("result", called.scope) in self.named for called in self._called(function, module))
        return False

    # -- strings that meet one ---------------------------------------------------------------------------------------

    def strings(self) -> Iterator[tuple[Module, ast.Constant]]:
        """The strings that are compared with a name, or are in what is asked for one."""
        for node, module, scope in self.nodes:
            for other in self._meetings(node, module, scope):
                for home, value in [(module, other), *self.tables.get(_last(other), ())]:
                    if home is module or not _last(other).startswith("_"):
                        yield from ((home, string) for string in _keys(value))

    def _meetings(self, node: ast.AST, module: Module, scope: str) -> Iterable[ast.expr | ast.pattern]:
        match node:
            case ast.Compare(left=left, comparators=rest, ops=[ast.Eq() | ast.NotEq() | ast.In() | ast.NotIn(), *_]):
                sides = [left, *rest]
                return sides if any(_last(side) == "op" or self.is_name(side, module, scope) for side in sides) else ()
            case ast.Subscript(value=table, slice=key) if self.is_name(key, module, scope):
                return (table,)
            case ast.Call(func=ast.Attribute(attr=method, value=owner), args=[*args]) if method in ASKING:
                if any(self.is_name(arg, module, scope) for arg in args):
                    return (owner,)
                return args if self.is_name(owner, module, scope) else ()
            case ast.Call(func=function, args=[first, *_]) if _last(function) == LOOKUP:
                return (first,)
            case ast.Match(subject=subject, cases=cases) if self.is_name(subject, module, scope):
                return [case.pattern for case in cases]
        return ()


def _if_text(name: str, annotation: ast.expr | None) -> str:
    """The parameter's or field's name if it is declared as text; `self` stays, which is in no call."""
    return name if name in ("self", "cls") or annotation is None or "str" in ast.unparse(annotation) else ""


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """(target, value) of each assignment in the statement or expression itself; loops assign the items."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
                    yield from zip(target.elts, value.elts, strict=True)
                else:
                    yield target, value
        case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
            yield target, value
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            # `for name in [op.name for op in ops]`
            if isinstance(value, ast.ListComp | ast.SetComp | ast.GeneratorExp):
                yield target, value.elt


def _last(node: ast.AST) -> str:
    """`c` of `a.b.c`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _keys(value: ast.AST) -> Iterator[ast.Constant]:
    """The strings by which a literal collection is asked; a string itself."""
    if isinstance(value, ast.Call) and _last(value.func) not in ("frozenset", "set", "tuple", "list", "dict"):
        return
    for node in ast.walk(value) if not isinstance(value, ast.Dict) else (n for key in value.keys if key for n in ast.walk(key)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node
