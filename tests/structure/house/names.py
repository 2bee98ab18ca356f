"""What the source calls things: homonyms, vague names, `Any`."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tests.structure.house.tree import PUBLIC, Module, Tree

VAGUE = ("found", "made")


def class_homonyms(tree: Tree) -> dict[str, list[str]]:
    """Class name → the places that define it, where there are several."""
    return _several((node.name, f"{module.relative}:{node.lineno}") for module in tree for node in module.all(ast.ClassDef))


def module_homonyms(tree: Tree) -> dict[str, list[str]]:
    """Name of a file or folder → its places, where there are several. Public namespaces are called like what they re-export."""
    return _several((module.name.rpartition(".")[2], module.relative) for module in tree if module.room != PUBLIC)


def _several(pairs: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    places: dict[str, list[str]] = {}
    for name, place in pairs:
        places.setdefault(name, []).append(place)
    return {name: where for name, where in sorted(places.items(), key=lambda i: (-len(i[1]), i[0])) if len(where) > 1}


def untyped_parameters(tree: Tree) -> tuple[Counter[str], Counter[str]]:
    """File → how many parameters are typed `Any`, and file → how many there are (`self`, `*args`, `**kwargs` left out)."""
    untyped: Counter[str] = Counter()
    total: Counter[str] = Counter()
    for module in tree:
        for node in module.all(ast.FunctionDef, ast.AsyncFunctionDef):
            for parameter in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if parameter.annotation is not None:
                    total[module.relative] += 1
                    untyped[module.relative] += isinstance(parameter.annotation, ast.Name) and parameter.annotation.id == "Any"
    return untyped, total


def vague_names(tree: Tree) -> dict[str, Counter[str]]:
    """Vague name → file → how often it is a name there (prose does not count)."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in VAGUE}
    for module in tree:
        for name in _identifiers(module):
            if name in counts:
                counts[name][module.relative] += 1
    return counts


def _identifiers(module: Module) -> Iterator[str | None]:
    yield from (node.id for node in module.all(ast.Name))
    yield from (node.attr for node in module.all(ast.Attribute))
    yield from (node.arg for node in module.all(ast.arg, ast.keyword))
    yield from (node.name for node in module.all(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    yield from (name for node in module.all(ast.Global, ast.Nonlocal) for name in node.names)
