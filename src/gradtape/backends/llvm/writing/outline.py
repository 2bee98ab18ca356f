"""Code as a function of its own: instructions already written in one function, moved to another that threads can run.

What the moved code uses but does not define is captured: stored to memory by the old function, loaded by the new one. Types of
captured operands are read off the instructions that define them. Knows LLVM IR as text, nothing of programs.
"""

from __future__ import annotations

import re

from gradtape.backends.llvm.writing.ir_text import Writer

NAME = re.compile(r"%[A-Za-z_.][\w.]*")
DEFINED = re.compile(r"^\s*(%[\w.]+) = (.*)$")
_TYPE = r"(<[^>]*>|\[[^\]]*\]|\w+)"
_FLAGS = frozenset({
    "nsw", "nuw", "exact", "contract", "reassoc", "nnan", "ninf", "nsz", "arcp", "afn", "fast", "disjoint", "nneg",
    "samesign", "tail",
})  # fmt: skip
_CASTS = frozenset({
    "trunc", "zext", "sext", "fptrunc", "fpext", "fptoui", "fptosi", "uitofp", "sitofp", "ptrtoint", "inttoptr", "bitcast",
})  # fmt: skip


class UnmovableError(Exception):
    """The code cannot be a function of its own: it leaves the one it is in, or captures something unknown."""


class Outline:
    """`with Outline(writer) as outline:` writes code apart; then `finish` makes a function of it."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer

    def __enter__(self) -> Outline:
        w = self.writer
        self._outer = (w.lines, w.cells, w.current)
        w.lines, w.cells, w.current = ["body:"], [], "body"
        return self

    def __exit__(self, *failure: object) -> None:
        w = self.writer
        self.lines, self.cells, self.last = w.lines, w.cells, w.current
        w.lines, w.cells, w.current = self._outer

    def captured(self, own: frozenset[str]) -> list[tuple[str, str]]:
        """The operands from outside and their types; `own` are parameters of the new function."""
        defined, used = set(own), {}
        for line in (*self.cells, *self.lines):
            match = DEFINED.match(line)
            text = line
            if match:
                defined.add(match.group(1))
                text = match.group(2)
            elif line.endswith(":"):
                defined.add("%" + line[:-1])
                continue
            used.update(dict.fromkeys(NAME.findall(text)))
        names = [name for name in used if name not in defined]
        if "%leave" in names or "%context" in names or "%status" in names:
            raise UnmovableError
        return [(_type_of(self.writer, name), name) for name in names]

    def finish(self, name: str, params: str, own: frozenset[str]) -> tuple[str, list[tuple[str, str]]]:
        """The function's text, and what it captures, in the order of 64-bit words after `%captured`."""
        captured = self.captured(own)
        loads = []
        for k, (type, operand) in enumerate(captured):
            loads.append(f"  {operand}.at = getelementptr i64, ptr %captured, i64 {k}")
            loads.append(f"  {operand} = load {type}, ptr {operand}.at")
        head = f"define internal void @{name}(ptr noalias %captured, {params}) nounwind {{"
        lines = [head, "start:", *loads, *self.cells, "  br label %body", *self.lines, "  ret void", "}"]
        return "\n".join(lines), captured


def _type_of(writer: Writer, name: str) -> str:
    if re.fullmatch(r"%i\d+", name):
        return "i64"  # the counter of a loop that is still being written
    known: dict[str, str] = writer.__dict__.setdefault("types", {})
    if name not in known:
        _scan(writer, known)
    if name not in known:
        raise UnmovableError
    return known[name]


def _scan(writer: Writer, known: dict[str, str]) -> None:
    """Types of all that was defined since the last time."""
    head = writer.__dict__.setdefault("scanned", [0, 0])
    if not known:
        for type, name in re.findall(_TYPE + r"(?: noalias| nocapture)* (%[\w.]+)", writer.head):
            known[name] = type
    for k, lines in enumerate((writer.cells, writer.lines)):
        for line in lines[head[k] :]:
            match = DEFINED.match(line)
            if match:
                type = type_of(match.group(2))
                if type is not None:
                    known[match.group(1)] = type
        head[k] = len(lines)


def type_of(text: str) -> str | None:
    """The type of an instruction's result."""
    words = text.split()
    code = words[0]
    if code in ("alloca", "getelementptr"):
        return "ptr"
    if code in ("icmp", "fcmp"):
        return "i1" if "<" not in text else None
    if code in _CASTS:
        match = re.search(r" to " + _TYPE, text)
        return match.group(1) if match else None
    if code in ("call", "tail"):
        match = re.search(_TYPE + r" @", text)
        return match.group(1) if match else None
    if code == "select":
        match = re.match(r"select (?:\w+ )*?(?:i1|<[^>]*>) [^,]+, " + _TYPE, text)
        return match.group(1) if match else None
    if code in ("extractelement", "extractvalue", "insertelement", "insertvalue", "shufflevector", "atomicrmw", "cmpxchg"):
        return None
    rest = " ".join(word for word in words[1:] if word not in _FLAGS)
    match = re.match(_TYPE, rest)
    return match.group(1) if match else None
