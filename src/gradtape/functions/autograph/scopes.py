"""Whose variable a name is: Python's scoping rules for a converted function and the functions nested in it.

A name is a variable of one of these functions, a free variable of the outermost one (a cell shared with code that is not
converted), or a global. Class bodies and generators inside are left alone; only what they capture matters here.
"""

from __future__ import annotations

import ast
import sys
from typing import Any

from gradtape.functions.autograph.bindings import FREE, GLOBAL, VARIABLE
from gradtape.functions.autograph.desugar import left_alone
from gradtape.functions.autograph.names import info, loaded, own, unbound, written
from gradtape.functions.autograph.source import parameters


class NameScope:
    """The variables of one function."""

    def __init__(self, node: ast.FunctionDef, parent: NameScope | None, free: frozenset[str]) -> None:
        self.node = node
        self.parent = parent
        self.free = free  # of the outermost function
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set(info(node).walrus)
        self.globals |= info(node).declared_global
        self.nonlocals |= info(node).declared_nonlocal
        if parent is not None:  # a comprehension binds its walrus names where the function around it does
            inherited = info(node).walrus & parent.globals
            self.globals |= inherited
            self.nonlocals -= inherited
        self.parameters = parameters(node.args)
        self.variables = (written(node.body) | info(node).bound | set(self.parameters)) - self.globals - self.nonlocals
        self.deleted = unbound(node.body)
        self.children: dict[int, NameScope] = {}
        self.captured: set[str] = set()  # variables that functions may read whenever they like
        self.shared: set[str] = set()  # variables that nested functions write
        for inner in own(node.body):
            if isinstance(inner, ast.FunctionDef) and converted(inner):
                child = self.children[id(inner)] = NameScope(inner, self, free)
                self._note(child.outer_reads(), child.outer_writes(), info(inner).immediate)
            elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                declared = [n for n in ast.walk(inner) if isinstance(n, ast.Nonlocal)]
                self._note(loaded(inner), {name for n in declared for name in n.names}, False)

    def _note(self, reads: set[str], writes: set[str], immediate: bool) -> None:
        if not immediate:
            self.captured |= reads & self.variables
        self.shared |= writes & self.variables

    def outer_reads(self) -> set[str]:
        """Names this function or one inside it reads from functions around it."""
        reads = {n.id for n in own(self.node.body) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
        for inner in own(self.node.body):
            if id(inner) in self.children:
                reads |= self.children[id(inner)].outer_reads()
            elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
                reads |= loaded(inner)
        return (reads | self.nonlocals) - self.variables - self.globals

    def outer_writes(self) -> set[str]:
        """Names this function or one inside it binds in functions around it."""
        writes = set(self.nonlocals)
        for inner in own(self.node.body):
            if id(inner) in self.children:
                writes |= self.children[id(inner)].outer_writes()
            elif isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                writes |= {name for n in ast.walk(inner) if isinstance(n, ast.Nonlocal) for name in n.names}
        return writes - self.variables

    def owner(self, name: str) -> NameScope | None:
        """The converted function whose variable the name is here."""
        if name in self.globals:
            return None
        if name in self.variables:
            return self
        return self.parent.owner(name) if self.parent is not None else None

    def kind(self, name: str) -> str:
        """`variable`, `free` or `global`."""
        if self.owner(name) is not None:
            return VARIABLE
        return FREE if name in self.free and not self._declared_global(name) else GLOBAL

    def _declared_global(self, name: str) -> bool:
        return name in self.globals or (self.parent is not None and self.parent._declared_global(name))

    def always_bound(self, name: str) -> bool:
        """Whether a variable of this function has a value at any time."""
        return name in self.parameters and name not in self.deleted

    def always_shared(self) -> set[str]:
        """Variables visible here that some nested function may write at any call."""
        outer = self.parent.always_shared() - self.variables - self.globals if self.parent is not None else set()
        return outer | self.shared

    def always_live(self) -> set[str]:
        """Variables that may be read by code that is not in sight."""
        return self.captured | self.shared | self.nonlocals

    def function(self) -> NameScope:
        """The function around comprehensions: the one whose first argument and class `super()` means."""
        return self.parent.function() if self.parent is not None and info(self.node).kind.endswith("comp") else self

    def is_local(self, owner: NameScope) -> bool:
        """Whether Python calls a variable of `owner` local here: since 3.12 a comprehension is part of its function."""
        return owner is (self.function() if sys.version_info >= (3, 12) else self)

    def of(self, node: Any) -> NameScope:
        """The scope of a nested function."""
        return self.children[id(node)]


def converted(node: ast.FunctionDef) -> bool:
    """Whether the body of a nested function is converted with the function around it."""
    return not left_alone(node)
