"""Attributes of operations as Python expressions.

Numbers, strings and plain tuples are written out; anything else becomes a name of the program's namespace. An attribute with
symbolic dimensions in it (in tuples, slices and types) is an expression of the sizes. Nothing here knows what attributes mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gradtape.dtypes import DType
from gradtape.ir.dims import Dim, symbols_in
from gradtape.ir.types import ListSpec, TensorSpec

Naming = Callable[[str], str | None]  # the name of a symbol's size; None where it is not known


class Attributes:
    """Writes attributes; `constant(value, stem)` gives a name to a value."""

    def __init__(self, constant: Callable[..., str]) -> None:
        self.constant = constant

    def text(self, attr: Any, size: Naming) -> str:
        """The expression of an attribute. Unknown sizes (`size` gives None) are None: only types may have them."""
        if _is_plain(attr):
            return repr(attr)
        if symbols_in(attr):
            return self._symbolic(attr, size)
        if isinstance(attr, DType):
            return self.constant(attr, attr.name)
        return self.constant(attr)

    def _symbolic(self, attr: Any, size: Naming) -> str:
        if isinstance(attr, Dim):
            names = {symbol: size(symbol) for symbol in attr.symbols}
            if None in names.values():
                return "None"
            return re.sub(r"[A-Za-z_]\w*", lambda word: names.get(word[0]) or word[0], str(attr))
        if isinstance(attr, slice):
            return f"slice({', '.join(self.text(part, size) for part in (attr.start, attr.stop, attr.step))})"
        if isinstance(attr, TensorSpec):
            make = self.constant(TensorSpec, "TensorSpec")
            return f"{make}({self._parts(attr.shape, size)}, {self.constant(attr.dtype, attr.dtype.name)})"
        if isinstance(attr, ListSpec):
            return f"{self.constant(ListSpec, 'ListSpec')}({self.text(attr.item, size)})"
        if isinstance(attr, dict):
            return "{" + ", ".join(f"{key!r}: {self.text(part, size)}" for key, part in attr.items()) + "}"
        return f"[{self._parts(attr, size)[1:-1]}]" if isinstance(attr, list) else self._parts(attr, size)

    def _parts(self, parts: Any, size: Naming) -> str:
        return f"({''.join(self.text(part, size) + ', ' for part in parts).rstrip(' ')})"


def _is_plain(attr: Any) -> bool:
    kind = attr.__class__
    if kind is int or kind is bool or kind is str or attr is None or attr is Ellipsis:
        return True
    if kind is float:
        return attr - attr == 0  # inf and nan have no literal
    return kind is tuple and all(_is_plain(part) for part in attr)
