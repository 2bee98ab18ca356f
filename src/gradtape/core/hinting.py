"""Objects that say how something is done here if they are asked as another library's would be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar


class Hinting:
    """`_ELSEWHERE` has, for names that a class does not have, what to do instead. A near name is Python's own to suggest."""

    __slots__ = ()
    _ELSEWHERE: ClassVar[dict[str, str]] = {}
    _KNOWN_AS: ClassVar[str] = ""  # what users call it, if that is not the name of its class

    if not TYPE_CHECKING:  # type checkers still find misspelt attributes

        def __getattr__(self, name: str) -> Any:
            cure = f"; {self._ELSEWHERE[name]}" if name in self._ELSEWHERE else ""
            said = self._KNOWN_AS or type(self).__name__
            raise AttributeError(f"'{said}' object has no attribute '{name}'{cure}", name=name, obj=None if cure else self)
