"""A long function as several: its code is cut at seams, and each part is a function of its own that is called once.

LLVM's passes and its register allocator take more than twice the time for twice the code of one function. Cut into parts of
bounded size, a program of any length costs what its parts cost. A seam is a place between two operations of the outermost
block, where no loop or branch is open. What a part computes and a later one uses is kept in memory that the parts share
(`%shared`), as a spilled register would be; addresses and arguments (`Writer.cells`) are written again in each part, before
their first use. Knows LLVM IR as text, nothing of programs.

One invariant: a part reads from `%shared` only what a part before it has written there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from gradtape.backends.llvm.writing.ir_text import Writer
from gradtape.backends.llvm.writing.outline import DEFINED, NAME, type_of

LONG = 1500  # lines of a function that is left whole
PART = 500  # lines of a part, at least
REACHING = 3  # lines to get at a value of another part, an argument or a result
ALIGN = 64
_ALLOCA = re.compile(r"alloca (\w+)(?:, i64 (\d+))?(?:, align (\d+))?$")
_BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8, "ptr": 8}


def finish(writer: Writer) -> None:
    """Give a function to its module, in parts if it is long and can be cut."""
    if len(writer.lines) > LONG and len(writer.seams) > 1:
        cutting = _Cutting(writer)
        if cutting.is_possible():
            cutting.write()
    writer.finish()


class _Segment(NamedTuple):
    """Lines between two seams: what they define, and what they use of others."""

    label: str  # of the block that they begin in
    lines: list[str]
    types: dict[str, str | None]
    uses: dict[str, None]


class _Cutting:
    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        matches = map(DEFINED.match, writer.cells)
        self.early = {match.group(1): match.group(2) for match in matches if match is not None}  # cells and addresses
        self.parts = list(self._grouped(self._segments()))
        self.types = {name: type for part in self.parts for segment in part for name, type in segment.types.items()}
        self.part_of = {name: k for k, part in enumerate(self.parts) for segment in part for name in segment.types}
        self.shared: dict[str, int] = {}  # where in the shared memory registers and cells are that several parts use
        self.size = 0

    def _segments(self) -> Iterator[_Segment]:
        written = self.writer.lines  # some hold several lines: what was put in place later (`LoopFacts.close`)
        labels = {"%" + line[:-1] for text in written for line in text.split("\n") if line.endswith(":")}
        for (first, label), (end, _) in pairwise([(1, "body"), *self.writer.seams]):  # after the label of the first block
            segment = _Segment(label, [line for text in written[first:end] for line in text.split("\n")], {}, {})
            for line in segment.lines:
                match = DEFINED.match(line)
                if match is not None:
                    segment.types[match.group(1)] = type_of(match.group(2))
                segment.uses.update(dict.fromkeys(NAME.findall(match.group(2) if match is not None else line)))
            # (a loop uses registers that are defined further down: what a segment defines is known only at its end)
            for name in [name for name in segment.uses if name in segment.types or name in labels]:
                del segment.uses[name]
            yield segment

    def _grouped(self, segments: Iterator[_Segment]) -> Iterator[list[_Segment]]:
        """Segments together until there are `PART` lines, with those that a part needs to get at what others have."""
        part: list[_Segment] = []
        size, here = 0, set[str]()
        for segment in segments:
            part.append(segment)
            size += len(segment.lines) + REACHING * len(segment.uses.keys() - here)
            here.update(segment.uses, segment.types)
            if size >= PART:
                yield part
                part, size, here = [], 0, set()
        if part:
            yield part

    def is_possible(self) -> bool:
        """Whether all types and sizes of what several parts use are known; finds places for it."""
        last: dict[str, int] = {}  # registers that a later part uses → the last that does
        users: dict[str, set[int]] = {}  # cells → the parts that use them
        for number, part in enumerate(self.parts):
            for name in dict.fromkeys(name for segment in part for name in segment.uses):
                for cell in filter(self._is_cell, self._early_below(name)):
                    users.setdefault(cell, set()).add(number)
                if self.part_of.get(name, number) != number:
                    last[name] = number
        # A cell that one part alone uses stays on its stack, where LLVM makes a register of it. One that others see too, or
        # whose address gets away, lies in the shared memory.
        escaping = self._escaping(last)
        for cell in [cell for cell in self.early if cell in escaping or len(users.get(cell, ())) > 1]:
            match = _ALLOCA.match(self.early[cell])
            if match is None or match.group(1) not in _BYTES:
                return False
            self._place(cell, _BYTES[match.group(1)] * int(match.group(2) or 1), int(match.group(3) or 8))
        # registers take turns: a place is free again when the last part that reads it is over
        free: list[int] = []
        ending: list[list[int]] = [[] for _ in self.parts]  # places that nobody needs after a part
        passed = 0
        for name in sorted(last, key=self.part_of.__getitem__):
            while passed < self.part_of[name]:
                free += ending[passed]
                passed += 1
            if free:
                self.shared[name] = free.pop()
            else:
                self._place(name, 8, 8)
            ending[last[name]].append(self.shared[name])
        return all(self.types[name] in _BYTES for name in last)

    def _place(self, name: str, size: int, align: int) -> None:
        self.shared[name] = -(-self.size // align) * align
        self.size = self.shared[name] + size

    def _is_cell(self, name: str) -> bool:
        return name != "%status" and self.early.get(name, "").startswith("alloca")

    def _early_below(self, name: str) -> list[str]:
        """A cell or address and those that it is made of, what is needed first at the end."""
        order, stack = list[str](), [name]
        while stack:
            top = stack.pop()
            if top in self.early:
                order.append(top)
                stack += NAME.findall(self.early[top])
        return order

    def _escaping(self, crossing: dict[str, int]) -> set[str]:
        """Cells whose address may be known after the part that uses them: there the stack of that part is gone.

        An address may be computed with, read from, written to and given to one of LLVM's own functions. Whatever else is done
        with it lets it escape, as does its use in another part.
        """
        cells = {name: name for name in self.early if self._is_cell(name)}  # and addresses made of them
        escaping = {cell for name, text in self.early.items() for cell in NAME.findall(text) if cell in cells}
        for line in (line for part in self.parts for segment in part for line in segment.lines):
            match = DEFINED.match(line)
            text = match.group(2) if match is not None else line.lstrip()
            word = text.partition(" ")[0]
            if word == "store":
                text = text.partition(", ptr ")[0]  # what is stored, not where
            names = [name for name in NAME.findall(text) if name in cells]
            if names and match is not None and word == "getelementptr":
                cells[match.group(1)] = cells[names[0]]
            elif word not in ("load", "icmp") and not text.startswith("call void @llvm."):
                escaping.update(cells[name] for name in names)
        return escaping | {cells[name] for name in crossing if name in cells}

    # --- text

    def write(self) -> None:
        """The parts, and the calls of them in place of the code."""
        writer, lines = self.writer, ["body:", "  store i32 0, ptr %status"]
        operands = ", ".join(f"ptr {name}" for name in NAME.findall(writer.params))
        for number, part in enumerate(self.parts):
            name = f"{writer.name}.{number}"
            head = f"define internal i32 @{name}({writer.params}, ptr %shared) noinline nounwind {{"
            writer.module.functions.append("\n".join([head, *self._part(number, part), "}"]))
            lines += [
                f"  %part{number} = call i32 @{name}({operands}, ptr %shared)", f"  store i32 %part{number}, ptr %status",
                f"  %failed{number} = icmp ne i32 %part{number}, 0",
                f"  br i1 %failed{number}, label %leave, label %next{number}", f"next{number}:",
            ]  # fmt: skip
        writer.lines = lines + writer.lines[writer.seams[-1][0] :]
        writer.cells = ["  %status = alloca i32", f"  %shared = alloca i8, i64 {max(self.size, 1)}, align {ALIGN}"]

    def _part(self, number: int, part: list[_Segment]) -> list[str]:
        """The body of a part; what it needs of others stands before the segment that is the first to use it."""
        cells, lines = ["start:", "  %status = alloca i32", "  store i32 0, ptr %status"], [f"{part[0].label}:"]
        here = {"%status"}
        for segment in part:
            for name in segment.uses:
                for needed in reversed(self._early_below(name)):
                    if needed in here:
                        continue
                    if needed in self.shared:
                        lines.append(f"  {needed} = {self._address(needed)}")
                    else:
                        # (cells at the start of the function, where LLVM looks for what it can keep in registers)
                        (cells if self._is_cell(needed) else lines).append(f"  {needed} = {self.early[needed]}")
                    here.add(needed)
                if name not in here and self.part_of.get(name, number) != number:
                    lines += [f"  {name}.at = {self._address(name)}", f"  {name} = load {self.types[name]}, ptr {name}.at"]
                    here.add(name)
            lines += self._with_stores(segment)
        end = ["  br label %leave", "leave:", "  %ended = load i32, ptr %status", "  ret i32 %ended"]
        return [*cells, f"  br label %{part[0].label}", *lines, *end]

    def _address(self, name: str) -> str:
        return f"getelementptr inbounds i8, ptr %shared, i64 {self.shared[name]}"

    def _with_stores(self, segment: _Segment) -> list[str]:
        """A segment that also keeps what later parts use; stores of phis stand behind all phis of their block."""
        lines: list[str] = []
        waiting: list[str] = []
        for line in segment.lines:
            match = DEFINED.match(line)
            # LLVM wants all phis of a block before its other instructions
            if match is None or not match.group(2).startswith("phi"):
                lines += waiting
                waiting = []
            lines.append(line)
            if match is not None and match.group(1) in self.shared:
                name = match.group(1)
                waiting += [f"  {name}.at = {self._address(name)}", f"  store {self.types[name]} {name}, ptr {name}.at"]
        return lines + waiting
