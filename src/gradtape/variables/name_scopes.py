"""Name scopes: prefixes for the names of variables, and nothing else.

The stack of name scopes belongs to the thread and is restored when a block ends, also by an exception.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

_NAMES: ContextVar[str] = ContextVar("gradtape_names", default="")


class name_scope:  # noqa: N801  (TensorFlow's name)
    """A prefix for the names of variables made inside the block.

    >>> import gradtape as gt
    >>> with gt.name_scope("outer") as prefix:
    ...     v = gt.Variable(1.0, name="v")
    >>> prefix, v.name
    ('outer/', 'outer/v:0')

    A name that ends with "/" is taken as it is, whatever scope is in force; so a scope can be entered again.
    """

    def __init__(self, name: str) -> None:
        if not isinstance(name, str):
            raise ValueError(f"name_scope: the name must be a string, got {name!r}")
        self._name = name
        self._tokens: list[Any] = []

    @property
    def name(self) -> str:
        return self._name

    def __enter__(self) -> str:
        if not self._name:
            prefix = ""
        elif self._name.endswith("/"):
            prefix = self._name
        else:
            prefix = f"{_NAMES.get()}{self._name}/"
        self._tokens.append(_NAMES.set(prefix))
        return prefix

    def __exit__(self, *exc: object) -> None:
        _NAMES.reset(self._tokens.pop())


def scoped_name(name: str) -> str:
    """`name` behind the prefix of the scopes in force."""
    return _NAMES.get() + name
