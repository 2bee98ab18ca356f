"""Programs as text before and after a pass: the files in `texts/<pass>/`, two programs with a line `=>` between them."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from gradtape.ir.graph import Block
from gradtape.ir.printer import to_text
from gradtape.ir.verify import verify
from gradtape.ops.registry import op_by_name
from tests.harness.program_parser import parse

TEXTS = Path(__file__).parent / "texts"


def cases() -> list[tuple[str, str]]:
    """(pass, name of the case) of every file."""
    return sorted((path.parent.name, path.stem) for path in TEXTS.glob("*/*.txt"))


def case(name: str, stem: str) -> tuple[str, str]:
    """The texts before and after."""
    before, after = (TEXTS / name / f"{stem}.txt").read_text().split("\n=>\n\n")
    return before, after


def block_of(text: str, objects: Sequence[Any] = ()) -> Block:
    """The program of a text, checked."""
    return verify(parse(textwrap.dedent(text).strip() + "\n", op_by_name, objects))


def text_after(function: Callable[[Block], Block], before: str, objects: Sequence[Any] = ()) -> str:
    """What a pass makes of a program; the program itself must stay as it is."""
    block = block_of(before, objects)
    text = to_text(block, locations=False)
    new = verify(function(block))
    assert to_text(block, locations=False) == text, "a pass must not change its input"
    return to_text(new, locations=False)
