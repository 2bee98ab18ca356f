"""Lambdas and comprehensions as nested functions that stand before the statement that uses them.

A function that is made but not called does nothing, so it may be made early; then every piece of code the later passes
see is a list of statements. A comprehension becomes loops that append, so it can be staged like any loop. Generator
expressions stay lazy: they get both forms, and the run time chooses. Class bodies and generators are left alone.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from gradtape.functions.autograph import build
from gradtape.functions.autograph.names import info, is_generator, own
from gradtape.functions.autograph.trees import copied

ITERATED, RESULT = "ag__iterated", "ag__result"


def desugar(function: ast.FunctionDef) -> None:
    """Rewrite the body of a function in place."""
    function.body = _Desugar().block(function.body)


class _Desugar(ast.NodeTransformer):
    def __init__(self) -> None:
        self.hoisted: list[ast.stmt] = []
        self.count = 0

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        result: list[ast.stmt] = []
        # Functions that a statement's expressions need stand before that statement, not before the whole block: names they
        # close over may be bound by the statements in between.
        outer = self.hoisted
        for statement in statements:
            self.hoisted = []
            changed = self.visit(statement)
            result += [*self.hoisted, changed]
        self.hoisted = outer
        return result

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(node, field, self.block(value))
            elif isinstance(value, list):
                setattr(node, field, [self.visit(v) if isinstance(v, ast.AST) else v for v in value])
            elif isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        self._defaults(node.args)
        if not left_alone(node):
            node.body = self.block(node.body)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.bases = [self.visit(base) for base in node.bases]
        for keyword in node.keywords:
            keyword.value = self.visit(keyword.value)
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return node

    def _defaults(self, args: ast.arguments) -> None:
        args.defaults = [self.visit(d) for d in args.defaults]
        args.kw_defaults = [d and self.visit(d) for d in args.kw_defaults]

    def _name(self, kind: str) -> str:
        self.count += 1
        return f"ag__{kind}_{self.count}"

    def visit_Call(self, node: ast.Call) -> ast.AST:
        alone = len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.GeneratorExp)
        if alone:  # consumed by the call, as in sum(x for x in xs)
            node.func = self.visit(node.func)
            # Whatever it reads has the value of now; a generator that is kept reads its variables when somebody asks it for an
            # item.
            node.args = [self._comprehension(node.args[0], immediate=True)]
            return node
        return self.generic_visit(node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        # (`lambda: (yield)`: as a function it would be a generator too, and those are left alone)
        if is_generator(node):
            return node
        defaults, named = node.args.defaults, list(zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True))
        # Defaults are evaluated where the lambda stands, each time, and the function is made before the statement: so it is
        # made without them, and they are put in where the lambda was.
        bare = copy.copy(node.args)
        bare.defaults, bare.kw_defaults = [], [None for _ in named]
        definition = build.define(self._name("lambda"), [], [build.located(ast.Return(node.body), node.body)])
        definition.args = bare
        definition.body = self.block(definition.body)
        info(definition).kind = "lambda"
        self.hoisted.append(build.located(definition, node))
        if not defaults and not any(default for _, default in named):
            return build.located(build.load(definition.name), node)
        positional = ast.Tuple([self.visit(d) for d in defaults], ast.Load())
        keys = [build.constant(arg.arg) for arg, default in named if default]
        keyword = ast.Dict([*keys], [self.visit(default) for _, default in named if default])
        call = build.call("with_defaults", build.load(definition.name), positional, keyword)
        return build.located(call, node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._comprehension(node, immediate=True)

    def visit_SetComp(self, node: ast.SetComp) -> ast.AST:
        return self._comprehension(node, immediate=True)

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._comprehension(node, immediate=True)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.AST:
        return self._comprehension(node, immediate=False)

    def _comprehension(self, node: Any, immediate: bool) -> ast.expr:
        kind = type(node).__name__.lower().replace("generatorexp", "genexpr")
        # the outermost iterable is evaluated where the comprehension stands, everything else inside
        first = self.visit(node.generators[0].iter)
        forms = [self._loops(kind, node)]
        if kind == "genexpr":
            # The lazy form for Python, a list of the items for a loop of the program, which cannot stop halfway.
            forms.append(self._loops("genlist", copied(node)))
        for form in forms:
            info(form).immediate = immediate
            info(form).walrus = frozenset(n.target.id for n in own([node]) if isinstance(n, ast.NamedExpr))
            form.body = self.block(form.body)
            self.hoisted.append(build.located(form, node))
        functions = [build.load(form.name) for form in forms]
        if kind == "genexpr":
            return build.located(build.call("generator", first, *functions), node)
        return build.located(ast.Call(functions[0], [first], []), node)

    def _loops(self, kind: str, node: Any) -> ast.FunctionDef:
        """The comprehension as nested loops around what it does with one item."""
        innermost: list[ast.stmt] = [build.located(_collect(kind, node), node)]
        for place, generator in reversed(list(enumerate(node.generators))):
            for condition in reversed(generator.ifs):
                innermost = [build.located(ast.If(condition, innermost, []), condition)]
            # Python evaluates the first iterable outside and hands it in; the others are evaluated inside, again for each item.
            iterated = generator.iter if place else build.located(build.load(ITERATED), generator.iter)
            innermost = [build.located(ast.For(generator.target, iterated, innermost, [], None), generator.iter)]
        if kind == "genexpr":
            definition = build.define(self._name(kind), [ITERATED], innermost)
            info(definition).plain = True
        else:
            start: ast.expr = ast.Dict([], []) if kind == "dictcomp" else ast.List([], ast.Load())
            if kind == "setcomp":
                start = build.call("new_set")
            before = build.located(build.assign(RESULT, start), node)
            after = build.located(ast.Return(build.load(RESULT)), node)
            definition = build.define(self._name(kind), [ITERATED], [before, *innermost, after])
        info(definition).kind = kind
        return definition


def _collect(kind: str, node: Any) -> ast.stmt:
    result = build.load(RESULT)
    if kind == "genexpr":
        return ast.Expr(build.located(ast.Yield(node.elt), node.elt))
    if kind == "dictcomp":
        return ast.Expr(build.located(build.call("put", result, node.key, node.value), node.key))
    return ast.Expr(build.located(build.call("add" if kind == "setcomp" else "append", result, node.elt), node.elt))


def left_alone(node: ast.FunctionDef) -> bool:
    """What the user marked in the source runs as it is."""
    notes = info(node)
    if notes.left_alone is None:
        marked = any(ast.unparse(d).endswith("do_not_convert") for d in node.decorator_list)
        notes.left_alone = notes.kind == "def" and marked
    return notes.left_alone
