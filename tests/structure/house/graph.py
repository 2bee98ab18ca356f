"""Who imports whom: cycles of modules, and slots that hide an arrow by being filled later.

An import inside a function counts as one at the top; those that are only there for types count too, unless left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tests.structure.house.tree import Module, Tree

Graph = dict[str, set[str]]


def arrows(tree: Tree, for_types: bool = True) -> Graph:
    """Module → modules of the package that it imports."""
    return {
        module.name: {
            item.module
            for item in module.imports
            if item.module in tree and item.module != module.name and (for_types or not item.for_types)
        }
        for module in tree
    }


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node, largest first (Tarjan 1972, without recursion)."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    waiting: set[str] = set()
    components: list[list[str]] = []
    for root in sorted(graph):
        if root in order:
            continue
        visits: list[tuple[str, Iterator[str]]] = []
        _enter(root, graph, order, lowest, stack, waiting, visits)
        while visits:
            node, targets = visits[-1]
            for target in targets:
                if target not in order:
                    _enter(target, graph, order, lowest, stack, waiting, visits)
                    break
                if target in waiting:
                    lowest[node] = min(lowest[node], order[target])
            else:
                visits.pop()
                if visits:
                    parent = visits[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[node])
                if lowest[node] == order[node]:
                    at = stack.index(node)
                    component, stack[at:] = stack[at:], []
                    waiting.difference_update(component)
                    if len(component) > 1:
                        components.append(sorted(component))
    return sorted(components, key=lambda component: (-len(component), component))


def _enter(
    node: str,
    graph: Mapping[str, set[str]],
    order: dict[str, int],
    lowest: dict[str, int],
    stack: list[str],
    waiting: set[str],
    visits: list[tuple[str, Iterator[str]]],
) -> None:
    order[node] = lowest[node] = len(order)
    stack.append(node)
    waiting.add(node)
    visits.append((node, iter(sorted(graph[node]))))


# -- slots -------------------------------------------------------------------------------------------------------------

_FILL = {"append", "insert", "extend", "update", "setdefault", "add"}
_EMPTY = {"remove", "pop", "clear", "discard", "popitem"}


def late_slots(tree: Tree) -> list[str]:
    """Containers at a module's top that are empty there and filled by another module for good: imports in disguise.

    Lists of observers, which come and go, are no slots: whoever adds to them also takes away.
    """
    slots = {(module.name, name) for module in tree for name in _empty_containers(module)}
    filled: dict[tuple[str, str], str] = {}
    emptied = set()
    for module in tree:
        for owner, name, line, method in _changes(module):
            target = _home(tree, owner, name)
            if target in slots and target[0] != module.name:
                if method in _EMPTY:
                    emptied.add(target)
                else:
                    filled.setdefault(target, f"{module.name}:{line}")
    return [f"{owner}.{name}, filled by {by}" for (owner, name), by in sorted(filled.items()) if (owner, name) not in emptied]


def _empty_containers(module: Module) -> Iterator[str]:
    for node in module.syntax.body:
        if isinstance(node, ast.AnnAssign):
            target, value = node.target, node.value
        elif isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
        else:
            continue
        empty = (isinstance(value, ast.List) and not value.elts) or (isinstance(value, ast.Dict) and not value.keys)
        if empty and isinstance(target, ast.Name):
            yield target.id


def _changes(module: Module) -> Iterator[tuple[str, str, int, str]]:
    """(module, name, line, method) of each change of a container that was imported, by name or through its module."""
    names, spaces = _imported(module)

    def resolve(node: ast.expr) -> tuple[str, str] | None:
        if isinstance(node, ast.Name):
            return names.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in spaces:
            return spaces[node.value.id], node.attr
        return None

    for call in module.all(ast.Call):
        function = call.func
        if isinstance(function, ast.Attribute) and function.attr in _FILL | _EMPTY and (target := resolve(function.value)):
            yield *target, call.lineno, function.attr
    for assignment in module.all(ast.Assign):
        for place in assignment.targets:
            if isinstance(place, ast.Subscript) and (target := resolve(place.value)):
                yield *target, assignment.lineno, "append"


def _imported(module: Module) -> tuple[dict[str, tuple[str, str]], dict[str, str]]:
    """Local name → (module, name there), and local name → module."""
    names: dict[str, tuple[str, str]] = {}
    spaces: dict[str, str] = {}
    for node in module.all(ast.ImportFrom):
        for alias in node.names:
            whole = f"{node.module}.{alias.name}"
            if whole in module.tree:
                spaces[alias.asname or alias.name] = whole
            else:
                names[alias.asname or alias.name] = (str(node.module), alias.name)
    return names, spaces


def _home(tree: Tree, owner: str, name: str) -> tuple[str, str]:
    """Where a name that may be re-exported is defined."""
    while owner in tree:
        names, _ = _imported(tree.by_name[owner])
        if name not in names:
            break
        owner, name = names[name]
    return owner, name
