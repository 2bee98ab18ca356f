"""What objects offer: `dir` without what is not for users; how something is done here, if they are asked as another library's.

Each name of another library is an attribute of the class that raises. (A `__getattr__` would do it too, but then Python looks
every attribute of the object up the long way: six times slower for a slot.) Invariant: a name that is there, anywhere in the
class, wins.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar, TypeVar

C = TypeVar("C")


class _Elsewhere:
    """A name that `home` does not have, and what to do instead."""

    __slots__ = ("cure", "home", "name")

    def __init__(self, home: type, name: str, cure: str) -> None:
        self.home, self.name, self.cure = home, name, cure

    def __get__(self, instance: Any, owner: type) -> Any:
        try:
            return getattr(super(self.home, owner if instance is None else instance), self.name)
        except AttributeError:
            text = f"'{owner.__name__}' object has no attribute '{self.name}'; {self.cure}"
            # without the object: Python would add a guess of its own to the cure
            raise AttributeError(text, name=self.name) from None


class Completing:
    """Completion offers what users call: not `_INTERNAL`, names by which rooms talk to one another."""

    __slots__ = ()
    _INTERNAL: ClassVar[str] = ""

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__()} - internal_names(type(self)))


def shown_as(name: str) -> Callable[[type[C]], type[C]]:
    """Of a class that is mixed in: Python's messages speak of the class that users know."""

    def renamed(mixin: type[C]) -> type[C]:
        for method in vars(mixin).values():
            if isinstance(method, FunctionType):
                method.__qualname__ = f"{name}.{method.__name__}"
        return mixin

    return renamed


def internal_names(cls: type) -> set[str]:
    """What objects of a class have for other rooms."""
    return {name for base in cls.__mro__ for name in vars(base).get("_INTERNAL", "").split()}


class Hinting(Completing):
    """`_ELSEWHERE` has, for names that a class does not have, what to do instead. A near name is Python's own to suggest."""

    __slots__ = ()
    _ELSEWHERE: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name, cure in vars(cls).get("_ELSEWHERE", {}).items():
            if not hasattr(cls, name):
                setattr(cls, name, _Elsewhere(cls, name, cure))

    def __dir__(self) -> list[str]:
        """Without the names that are not there."""
        own = type(self)
        hinted = {name for base in own.__mro__ for name in vars(base).get("_ELSEWHERE", ())}
        return sorted(name for name in super().__dir__() if name not in hinted or hasattr(own, name) or hasattr(self, name))
