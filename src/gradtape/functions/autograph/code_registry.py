"""What is known about code objects: converted, to be converted, never to be converted. Held weakly.

Code objects are told apart by identity: two equal ones may come from different files.
"""

from __future__ import annotations

import weakref
from types import CodeType
from typing import Any


class Entry:
    """What to do with functions of one code object."""

    __slots__ = ("conversion", "converted", "generated", "higher_order", "reference")

    def __init__(
        self, conversion: Any = None, *, converted: bool = False, generated: bool = False, higher_order: bool = False
    ) -> None:
        self.conversion = conversion  # None: called as it is
        self.converted = converted  # it is the result of a conversion
        self.generated = generated  # a piece of a user's function that AutoGraph made a function of
        self.higher_order = higher_order  # a function of gradtape that calls the functions it is given
        self.reference: Any = None


ENTRIES: dict[int, Entry] = {}


def note(code: CodeType, entry: Entry) -> Entry:
    """Remember something about a code object for as long as it lives."""
    key = id(code)

    def forget(_: Any, pop: Any = ENTRIES.pop) -> None:  # the table may be gone first when the interpreter ends
        pop(key, None)

    entry.reference = weakref.ref(code, forget)
    ENTRIES[key] = entry
    return entry
