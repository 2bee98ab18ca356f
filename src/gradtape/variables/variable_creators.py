"""`variable_creator_scope`: functions that are asked whenever a variable is about to be made in this thread.

A creator is called with the next one and the arguments of `gt.Variable` by name; the last one makes the variable. So a
creator can look at, change or replace what is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

Creator = Callable[..., Any]
CREATORS: ContextVar[tuple[Creator, ...]] = ContextVar("gradtape_variable_creators", default=())


@contextmanager
def variable_creator_scope(variable_creator: Creator) -> Iterator[None]:
    """Variables made in the block are made by `variable_creator(next_creator, **kwargs)`; the innermost scope is asked first.

    >>> import gradtape as gt
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
