"""Golden tests of passes: a program as text before, and as text after."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from gradtape.ir.graph import Block
from gradtape.ir.parser import parse
from gradtape.ir.printer import to_text
from gradtape.ir.verify import verify
from gradtape.ops.registry import op_by_name


def block_of(text: str, objects: Sequence[Any] = ()) -> Block:
    """The program of a text, checked."""
    return verify(parse(textwrap.dedent(text).lstrip("\n"), op_by_name, objects))


def text_after(function: Callable[[Block], Block], before: str, objects: Sequence[Any] = ()) -> str:
    """What a pass makes of a program; the program itself must stay as it is."""
    block = block_of(before, objects)
    text = to_text(block, locations=False)
    new = verify(function(block))
    assert to_text(block, locations=False) == text
    return to_text(new, locations=False)


def check(function: Callable[[Block], Block], before: str, after: str, objects: Sequence[Any] = ()) -> None:
    """A pass turns one text into another."""
    assert text_after(function, before, objects) == textwrap.dedent(after).lstrip("\n")
