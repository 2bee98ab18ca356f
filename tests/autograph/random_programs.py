"""Random Python functions: nested loops, branches, jumps, exceptions, closures; all of them end."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.autograph.compare import note

NAMES = ("a", "b", "c", "d")
numbers = st.integers(-2, 4).map(str)


class Fuel:
    """Every program stops: what it may repeat is counted."""

    left = 0


def tick() -> bool:
    Fuel.left -= 1
    return Fuel.left > 0


class Context:
    """A context manager that notes what happens and swallows one kind of exception."""

    def __enter__(self) -> str:
        return note("enter")

    def __exit__(self, kind: Any, *rest: Any) -> bool:
        note("exit")
        return kind is KeyError


@st.composite
def expressions(draw: DrawFn, depth: int = 2) -> str:
    kind = draw(st.integers(0, 12 if depth else 2))
    inner = expressions(depth - 1)
    match kind:
        case 0:
            return draw(numbers)
        case 1 | 2:
            return draw(st.sampled_from(NAMES))
        case 3:
            return f"note({draw(inner)})"
        case 4:
            return f"({draw(inner)} {draw(st.sampled_from(['+', '-', '*', '<', '==', '%', 'and', 'or']))} {draw(inner)})"
        case 5:
            return f"({draw(inner)} if {draw(inner)} else {draw(inner)})"
        case 6:
            return f"(not {draw(inner)})"
        case 7:
            return f"({draw(inner)} < {draw(inner)} <= {draw(inner)})"
        case 8:
            return f"({draw(st.sampled_from(NAMES))} := {draw(inner)})"
        case 9:
            return f"sum([{draw(inner)} for i in range({draw(st.integers(0, 3))}) if {draw(inner)}])"
        case 10:
            return f"bump({draw(inner)})"
        case 11:
            return f"(lambda v: v + {draw(inner).replace(':=', '+')})({draw(inner)})"
        case _:
            return f"len(f'{{{draw(st.sampled_from(NAMES))}}}')"


@st.composite
def blocks(draw: DrawFn, depth: int, loop: bool, final: bool = False) -> list[str]:
    count = draw(st.integers(1, 3))
    return [line for _ in range(count) for line in draw(statements(depth, loop, final))]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def statements(draw: DrawFn, depth: int, loop: bool, final: bool = False) -> list[str]:
    expression = expressions()
    name = draw(st.sampled_from(NAMES))
    kind = draw(st.integers(0, 18 if depth else 8))
    if (kind in (6, 7) and (not loop or final)) or (kind == 5 and final):
        kind = 0
    inner = blocks(depth - 1, loop, final)
    match kind:
        case 0 | 1:
            return [f"{name} = {draw(expression)}"]
        case 2:
            return [f"{name} += {draw(expression)}"]
        case 3:
            return [f"note({draw(expression)})"]
        case 4:
            write = f"box[{name!r}] = {draw(expression)}"
            return [draw(st.sampled_from([f"del {name}", write, f"{name}, b = b, {name}", "raise KeyError(a)"]))]
        case 5:
            return [f"return {draw(expression)}"]
        case 6:
            return ["break"]
        case 7:
            return ["continue"]
        case 8:
            return [f"box.setdefault('n', []).append({draw(expression)})"]
        case 9 | 10 | 11:
            lines = [f"if {draw(expression)}:", *indented(draw(inner))]
            if draw(st.booleans()):
                lines += [f"elif {draw(expression)}:", *indented(draw(inner))]
            if draw(st.booleans()):
                lines += ["else:", *indented(draw(inner))]
            return lines
        case 12 | 13:
            body = blocks(depth - 1, True, False)
            lines = [f"for {name} in range({draw(st.integers(0, 4))}):", *indented(draw(body))]
            return [*lines, "else:", *indented(draw(inner))] if draw(st.booleans()) else lines
        case 14 | 15:
            body = blocks(depth - 1, True, False)
            test = draw(st.sampled_from([f"tick() and {draw(expression)}", "tick()"]))
            lines = [f"while {test}:", *indented(draw(body))]
            return [*lines, "else:", *indented(draw(inner))] if draw(st.booleans()) else lines
        case 16:
            caught = draw(st.sampled_from(["KeyError", "TypeError", "NameError"]))
            lines = ["try:", *indented(draw(inner)), f"except {caught} as {name}:"]
            lines += indented([f"note(repr({name}))", *draw(inner)])
            if draw(st.booleans()):
                lines += ["else:", *indented(draw(inner))]
            if draw(st.booleans()):
                lines += ["finally:", *indented(draw(blocks(depth - 1, loop, draw(st.integers(0, 4)) > 0)))]
            return lines
        case 17:
            return [f"with Context() as {name}:", *indented(draw(inner))]
        case _:
            cases = ["case 0 | 1:", *indented(draw(inner)), f"case {name}:", *indented(draw(inner))]
            return [f"match {draw(expression)}:", *indented(cases)]


@st.composite
def programs(draw: DrawFn, depth: int = 3) -> str:
    body = draw(blocks(depth, False))
    shared = draw(st.sampled_from(NAMES))
    value = draw(expressions(1)).replace("bump", "note")
    helper = ["def bump(v):", f"    nonlocal {shared}", f"    {shared} = {value}", "    return v"]
    start = ["box = {}", "c = 1", "if a == 3:", "    d = 0"]
    return "\n".join(["def program(a, b):", *indented([*start, *helper, *body, "return a, b, box"]), ""])


def compiled(text: str, number: int) -> Callable[..., Any]:
    """The function of a program's text, its source known to `linecache`."""
    name = f"<random program {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"note": note, "tick": tick, "Context": Context, "__name__": "random_programs"}
    exec(compile(text, name, "exec"), space)
    return space["program"]
