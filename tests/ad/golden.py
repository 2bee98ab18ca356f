"""Golden texts of derivatives of programs: the files in `texts/`.

A file says what the case is about, then holds the program and, each after a line `=== name`, what is made of it: the two
halves of reverse mode (`forward`, `backward`), forward mode (`jvp`), the same after all passes (`... after passes`).
`python -m tests.ad.golden --update` writes these parts anew, for all files or those named: read the difference before it stays.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import gradtape.ad.regions  # noqa: F401  (the rules of structured operations)
from gradtape.ad.dual import jvp_block
from gradtape.ad.reverse import Split, split
from gradtape.ir.graph import Block
from gradtape.ir.printer import to_text
from gradtape.ir.verify import verify
from gradtape.ops.registry import op_by_name
from gradtape.passes.pipeline import optimize
from tests.harness.program_parser import parse

TEXTS = Path(__file__).parent / "texts"
PASSED = " after passes"


def names() -> list[str]:
    """Every case."""
    return sorted(path.stem for path in TEXTS.glob("*.txt"))


class Case:
    """A program with what it is differentiated in: parameters `in` (positions), results `of`."""

    def __init__(self, name: str) -> None:
        text = (TEXTS / f"{name}.txt").read_text()
        head, *parts = re.split(r"^=== (.*)\n", text, flags=re.MULTILINE)
        self.about = head
        self.parts = dict(zip(parts[::2], [part.strip() + "\n" for part in parts[1::2]], strict=True))
        (found,) = re.findall(r"^in (.*) of (.*)$", head, flags=re.MULTILINE)
        self.wanted, self.seeded = ([int(i) for i in places.split(",")] for places in found)

    def block(self) -> Block:
        return verify(parse(self.parts["program"], op_by_name))

    def halves(self) -> Split:
        return split(self.block(), set(self.wanted), self.seeded)

    def made(self, part: str) -> Block:
        """The program a part shows."""
        if part.endswith(PASSED):
            return optimize(self.made(part.removesuffix(PASSED)))
        if part == "jvp":
            return jvp_block(self.block(), self.wanted, self.seeded)
        halves = self.halves()
        return halves.forward if part == "forward" else halves.backward

    def texts(self) -> dict[str, str]:
        """What the parts should say."""
        return {part: to_text(verify(self.made(part)), locations=False) for part in self.parts if part != "program"}

    def updated(self) -> str:
        """The whole file."""
        parts = {"program": self.parts["program"], **self.texts()}
        return self.about + "\n".join(f"=== {name}\n{text}" for name, text in parts.items())


def main() -> None:
    """Write the parts that are made, into the files named or all."""
    if "--update" not in sys.argv:
        raise SystemExit("usage: python -m tests.ad.golden --update [case ...]")
    for name in [arg for arg in sys.argv[1:] if arg != "--update"] or names():
        (TEXTS / f"{name}.txt").write_text(Case(name).updated())


if __name__ == "__main__":
    main()
