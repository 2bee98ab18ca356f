"""Scopes in which variables are made: prefixes for their names, and functions that are asked whenever one is about to be made.

A creator is called with the next one and the arguments of `gt.Variable` by name; the last one makes the variable. So a
creator can look at, change or replace what is made. Both stacks belong to the thread and are restored when a block ends, also
by an exception.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

Creator = Callable[..., Any]
CREATORS: ContextVar[tuple[Creator, ...]] = ContextVar("gradtape_variable_creators", default=())
_NAMES: ContextVar[str] = ContextVar("gradtape_names", default="")


class name_scope:  # noqa: N801  (TensorFlow's name)
    """A prefix for the names of variables made inside the block.

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


@contextmanager
def variable_creator_scope(variable_creator: Creator) -> Iterator[None]:
    """Variables made in the block are made by `variable_creator(next_creator, **kwargs)`; the innermost scope is asked first.

    >>> def frozen(next_creator, **kwargs):
    ...     return next_creator(**{**kwargs, "trainable": False})
    >>> with gt.variable_creator_scope(frozen):
    ...     v = gt.Variable(1.0)
    >>> v.trainable
    False
    """
    if not callable(variable_creator):
        raise TypeError(f"variable_creator_scope: `variable_creator` must be a function, got {variable_creator!r}")
    token = CREATORS.set((*CREATORS.get(), variable_creator))
    try:
        yield
    finally:
        CREATORS.reset(token)


def created(make: Creator, kwargs: dict[str, Any]) -> Any:
    """What the creators make of a call of `gt.Variable`; they do not see the variables that they make on the way."""
    creators = CREATORS.get()

    def last(**given: Any) -> Any:
        token = CREATORS.set(())
        try:
            return make(**given)
        finally:
            CREATORS.reset(token)

    following: Creator = last
    for creator in creators:
        following = partial(creator, following)
    return following(**kwargs)
