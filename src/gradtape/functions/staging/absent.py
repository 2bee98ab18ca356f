"""Keys of dicts, and attributes, that are there on some paths only: set in a staged loop or branch, and not before it.

What is found there is then a `Maybe` that is no None but nothing at all, like a name that a branch binds first. Reading it
checks when the program runs, with Python's error; `in`, `get`, `setdefault` and `hasattr` ask the flag. Whoever looks at the
dict as a whole (its length, a loop over it, a result) needs to know its keys: they must all be there when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.errors import InvalidArgumentError
from gradtape.functions.staging.branches import stage_if_exp
from gradtape.functions.staging.staged_values import Maybe, Undefined
from gradtape.trace.effects import active


def is_absent(value: Any) -> bool:
    """Whether a value is one that may not be there at all."""
    return value.__class__ is Maybe and isinstance(value.missing, Undefined)


def attribute(target: Any, name: str, value: Any) -> Any:
    """The value of an attribute, which must be there."""
    return value.need(AttributeError, f"'{type(target).__name__}' object has no attribute '{name}'")


def key(container: Any, name: Any) -> Any:
    """The value of a key, which must be there."""
    return container[name].need(KeyError, repr(name))


def whole(container: Any) -> None:
    """A dict is looked at as a whole: from now on all its keys are there."""
    for name in [name for name, value in container.items() if is_absent(value)]:
        text = (
            f"{container[name].missing.name}the key {name!r} was not set on the path that was taken, and which keys a dict "
            "has as a whole must not depend on the path: set it before the loop or branch (d[key] = None will do)"
        )
        active().before(container)
        container[name] = container[name].need(InvalidArgumentError, text)


def _get(container: Any, name: Any, default: Any = None) -> Any:
    value = container[name]
    return stage_if_exp(value.flag, lambda: value.value, lambda: default)


def _setdefault(container: Any, name: Any, default: Any = None) -> Any:
    container[name] = _get(container, name, default)
    return container[name]


def _pop(container: Any, name: Any, *default: Any) -> Any:
    value = _get(container, name, *default) if default else key(container, name)
    del container[name]
    return value


# methods of a dict that ask about one key; all others but those in KEYLESS look at the whole
METHODS: dict[str, Callable[..., Any]] = {"get": _get, "setdefault": _setdefault, "pop": _pop, "__getitem__": key}
KEYLESS = frozenset({"clear", "update", "copy", "__setitem__"})
