"""What a pattern of a `match` asks of its subject while converted code runs, as Python's reference has it.

`matching.py` writes the calls. Items and attributes are read as any code reads them, so that they are guarded or inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradtape.functions.autograph.reading import attr, item

# classes whose one positional pattern is matched by the object itself
OF_THEMSELVES = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def captured(value: Any) -> bool:
    """A name of a pattern was bound: nothing more is asked."""
    return True


def sequence(subject: Any, count: int, star: int | None) -> list[Any] | None:
    """The items for `count` patterns, the one at `star` taking a list of the rest."""
    if not isinstance(subject, Sequence) or isinstance(subject, (str, bytes, bytearray)):
        return None
    size = len(subject)
    if size != count if star is None else size < count - 1:
        return None
    items = [item(subject, place) for place in range(size)]
    if star is None:
        return items
    end = size - (count - 1 - star)
    return [*items[:star], items[star:end], *items[end:]]


def mapping(subject: Any, keys: tuple[Any, ...], rest: bool) -> list[Any] | None:
    """The values of the keys, and a dict of all others if `rest`."""
    if not isinstance(subject, Mapping) or any(key not in subject for key in keys):
        return None
    others = [{key: item(subject, key) for key in subject if key not in keys}] if rest else []
    return [*(item(subject, key) for key in keys), *others]


def attributes(subject: Any, kind: type, positional: int, names: tuple[str, ...]) -> list[Any] | None:
    """The attributes for the patterns of a class, the positional ones by its `__match_args__`."""
    if positional == 1 and kind in OF_THEMSELVES:
        values = [subject]
    else:
        known = getattr(kind, "__match_args__", ())
        if positional > len(known):
            plural = "" if len(known) == 1 else "s"
            raise TypeError(f"{kind.__name__}() accepts {len(known)} positional sub-pattern{plural} ({positional} given)")
        names, values = (*known[:positional], *names), []
    if not all(hasattr(subject, name) for name in names):
        return None
    return [*values, *(attr(subject, name) for name in names)]


__all__ = ["attributes", "captured", "mapping", "sequence"]
