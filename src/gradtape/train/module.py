"""`Module`: an object that knows the variables inside it.

Attributes are searched in sorted order, through lists, tuples and dicts; the variables of a module come before those of
its submodules, as in TensorFlow. Each object is visited once, so sharing and cycles are safe. A module has no other magic.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from gradtape import tree
from gradtape.core.hinting import Hinting
from gradtape.variables import variable_scopes
from gradtape.variables.variable import Variable


def _no_call(self: Module, *args: Any, **kwargs: Any) -> Any:
    raise TypeError(f"a {type(self).__name__} cannot be called: its method `forward` is called __call__ here, as in Python")


class Module(Hinting):
    """Base class of things made of variables and other modules.

    >>> class Dense(gt.Module):
    ...     def __init__(self, n, m, name=None):
    ...         super().__init__(name=name)
    ...         self.w = gt.Variable(gt.ones((n, m)), name="w")
    ...         self.b = gt.Variable(gt.zeros(m), name="b")
    ...     def __call__(self, x):
    ...         return x @ self.w + self.b
    >>> layer = Dense(2, 3)
    >>> layer.name, [v.name for v in layer.trainable_variables]
    ('dense', ['b:0', 'w:0'])
    """

    _ELSEWHERE: ClassVar[dict[str, str]] = {
        "parameters": "use trainable_variables", "weights": "use variables", "forward": "define __call__ and call the module",
        **dict.fromkeys(("save", "save_weights", "state_dict"), "use gt.save(path, module), or gt.train.Checkpoint"),
        **dict.fromkeys(("load_weights", "load_state_dict"), "use gt.load(path), or gt.train.Checkpoint"),
        **dict.fromkeys(("train", "eval"), "give __call__ an argument `training`"), "to": "everything is on the CPU",
        **dict.fromkeys(("fit", "compile", "summary"), "write the loop with a gt.GradientTape, or use gt.keras.Model"),
    }  # fmt: skip
    _module_name: str | None = None
    _module_scope: str | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "forward" in vars(cls) and not any("__call__" in vars(base) for base in cls.__mro__):
            cls.__call__ = _no_call  # type: ignore[method-assign]

    def __init__(self, name: str | None = None) -> None:
        if name is not None and not (isinstance(name, str) and name.isidentifier()):
            raise ValueError(f"{name!r} is not a valid module name: it must be a Python identifier")
        self._module_name = name
        with variable_scopes.name_scope(self.name) as prefix:
            self._module_scope = prefix

    @property
    def name(self) -> str:
        """The name given, or the class name in snake case."""
        return _snake(type(self).__name__) if self._module_name is None else self._module_name

    @property
    def name_scope(self) -> variable_scopes.name_scope:
        """A context manager: variables made inside it are named after this module."""
        return variable_scopes.name_scope(f"{self.name}/" if self._module_scope is None else self._module_scope)

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables of this module and its submodules."""
        return tuple(self._find(Variable))

    @property
    def trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(v for v in self._find(Variable) if v.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Variable, ...]:
        return tuple(v for v in self._find(Variable) if not v.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """All modules inside this one, not itself."""
        return tuple(self._find(Module))

    def _find(self, kind: type) -> Iterator[Any]:
        seen: set[int] = {id(self)}
        waiting = [self]
        while waiting:
            module = waiting.pop(0)
            inner = []
            for key in sorted(vars(module)):
                for leaf in _leaves(vars(module)[key], seen):
                    if isinstance(leaf, kind):
                        yield leaf
                    if isinstance(leaf, Module):
                        inner.append(leaf)
            waiting = inner + waiting

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: the method runs inside the module's name scope."""

        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped


def _leaves(value: object, seen: set[int]) -> Iterator[Any]:
    """What is inside nested containers, each object once. Small values may share an identity: only what matters is marked."""
    if isinstance(value, (Variable, Module)) or tree.is_nested(value):
        if id(value) in seen:
            return
        seen.add(id(value))
    if tree.is_nested(value):
        for child in tree.children(value):
            yield from _leaves(child, seen)
    else:
        yield value


def _snake(name: str) -> str:
    """CamelCase as camel_case."""
    return re.sub(r"((?<=[a-z0-9])[A-Z]|(?!^)(?<!_)[A-Z](?=[a-z]))", r"_\1", name).lower()
