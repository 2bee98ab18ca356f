"""Private names spelled out, and questions about the names in a piece of syntax.

After `spell_out` no pass needs to know about classes. Left alone are class bodies: Python mangles those itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from gradtape.functions.autograph.source import mangle
from gradtape.functions.autograph.trees import children

_BINDING = frozenset((
    ast.Name, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar,
    ast.MatchMapping, ast.alias,
))  # fmt: skip
UNENTERED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def spell_out(node: ast.AST, class_name: str | None) -> None:
    """Replace private names by what Python calls them inside the class, in place."""
    if class_name is None:
        return
    for item in _own_nodes(node):
        for field in ("id", "attr", "arg", "name", "rest"):
            value = item.__dict__.get(field)
            if isinstance(value, str) and not isinstance(item, ast.alias):
                setattr(item, field, mangle(value, class_name))
        if isinstance(item, (ast.Global, ast.Nonlocal)):
            item.names = [mangle(name, class_name) for name in item.names]


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, ast.ClassDef):
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            yield from _own_nodes(part)
        return
    for child in children(node):
        yield from _own_nodes(child)


def own(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes that run in the same frame: nested functions and classes count, their insides do not.

    What is evaluated in the frame when a nested function or class is made (decorators, defaults, bases) counts as well.
    """
    pending = list(nodes)[::-1]
    while pending:
        node = pending.pop()
        yield node
        if node.__class__ in UNENTERED:
            pending += _evaluated(node)[::-1]
        else:
            pending += children(node)[::-1]


def _evaluated(node: Any) -> list[ast.AST]:
    """What runs where a function or class is made."""
    if isinstance(node, ast.ClassDef):
        return [*node.decorator_list, *node.bases, *(k.value for k in node.keywords)]
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return [*decorators, *node.args.defaults, *(d for d in node.args.kw_defaults if d)]


def written(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that running these nodes may bind or unbind in their frame."""
    names: set[str] = set()
    for node in own(nodes):
        if node.__class__ not in _BINDING:  # most nodes: the patterns below take longer than all the rest
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
                names |= info(node).walrus
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.MatchMapping(rest=str(name)):
                names.add(name)
            case ast.alias(name=name, asname=asname):
                names.add(asname or name.partition(".")[0])
    return names


def unbound(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that running these nodes may unbind."""
    deleted = {n.id for n in own(nodes) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}
    return deleted | {n.name for n in own(nodes) if isinstance(n, ast.ExceptHandler) and n.name}


def loaded(node: ast.AST) -> set[str]:
    """Every name read anywhere inside, nested functions included."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}


# context managers that are known to let every exception pass
_PASSING = frozenset({"GradientTape", "ForwardAccumulator", "name_scope", "device", "stop_recording"})


def may_swallow(context: ast.expr) -> bool:
    """Whether the context manager of a `with` may end an exception, so that what follows runs although the body did not."""
    match context.func if isinstance(context, ast.Call) else context:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name not in _PASSING
    return True


def in_words(name: str) -> str:
    """A name as messages call it: what AutoGraph adds has a meaning too."""
    for start, words in (
        ("ag__return", "return value"),
        ("ag__done", "return"),
        ("ag__break", "break"),
        ("ag__continue", "continue"),
    ):
        if name.startswith(start):
            return words
    return name


class Info:
    """What the passes note about a function definition they made or met."""

    __slots__ = ("bound", "declared_global", "declared_nonlocal", "immediate", "kind", "left_alone", "plain", "walrus")

    def __init__(self) -> None:
        self.kind = "def"  # or lambda, listcomp, setcomp, dictcomp, genexpr
        self.walrus: frozenset[str] = frozenset()  # names a comprehension binds in the function around it
        self.immediate = False  # runs only while the statement that follows it does
        self.left_alone: bool | None = None  # whether its body runs as it is; None until somebody asked
        self.plain = False  # control flow stays Python's
        # names bound and declared in its source, in code that cannot be reached as well
        self.bound: frozenset[str] = frozenset()
        self.declared_global: frozenset[str] = frozenset()
        self.declared_nonlocal: frozenset[str] = frozenset()


def info(node: Any) -> Info:
    """The notes on a function definition."""
    notes = node.__dict__.get("ag_info")
    if notes is None:
        notes = node.ag_info = Info()
    return notes


def yields(nodes: Iterable[ast.AST]) -> bool:
    """Whether there is a `yield` among statements, those of nested functions aside."""
    return any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in own(nodes))


def is_generator(node: ast.AST) -> bool:
    """Whether a function definition contains a `yield` of its own."""
    return yields(children(node))
