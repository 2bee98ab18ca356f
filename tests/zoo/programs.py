"""Random Python source: functions of nested loops, branches, exits, updates in place, lists, dicts, TensorArrays and Variables.

`programs()` is a hypothesis strategy of `Program`s. A program is text with marked conditions, rendered in two ways that
differ in nothing else: plain (what users write and what is compiled), and watched (each data-dependent decision is
logged), so that the tests can choose constants for which finite differences meet no jump. All operations are smooth and
keep values of moderate size; all trip counts are small.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

_MARK = re.compile(r"<<(.*?)\|(.*?)>>")
RESULT = 'return a, t * b, gt.reduce_sum(gt.stack(log)), cells[0] * cells[2], d["p"] + pair[1], d["q"], ta.stack()'
HEAD = """\
def {name}(x, n, v):
    a, b, t = x[0], gt.sin(x[1]), x * 1.0
    cells, log = [a, b, x[2]], [b]
    d = {{"p": a * b, "q": gt.tanh(x)}}
    pair = (a, b * 0.5)
    ta = gt.TensorArray(gt.float64, size=4, clear_after_read=False, element_shape=())
"""
LETTERS = st.integers(0, 2)
CONSTANTS = st.integers(-140, 140).map(lambda k: round(k / 100 + 0.00371, 5))


@dataclass(frozen=True)
class Program:
    """The lines of a function's body."""

    lines: tuple[str, ...]

    def text(self, name: str, shift: int = 0, watched: bool = False) -> str:
        """The function's source; `shift` moves the constants of all conditions."""

        def condition(match: Any) -> str:
            test = f"{match[1]} > {round(float(match[2]) + 0.0273 * shift, 5)}"
            return f"seen({test})" if watched else test

        body = "\n".join("    " + _MARK.sub(condition, line) for line in (*self.lines, RESULT))
        return HEAD.format(name=name) + body + "\n"

    def __repr__(self) -> str:
        return "\n" + self.text("program")


class Writer:
    """Draws statements; knows which names exist where it is."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.scalars = ["a", "b", "d['p']", "pair[0]", "pair[1]", "log[-1]"]
        self.loops: list[str] = []  # names of the integer counters in scope
        self.count = 0

    def block(self, depth: int, limit: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.draw(st.integers(1, limit))):
            lines += self.statement(depth)
        return lines

    def statement(self, depth: int) -> list[str]:
        kinds = ["scalar", "vector", "item", "slice", "cell", "append", "pop", "dict", "pair", "array", "assign", "swap"]
        if depth < 3:
            kinds += ["if", "if", "loop", "loop", "loop", "ternary"]
        if self.loops:
            kinds += ["exit", "exit"]
        return getattr(self, "write_" + self.draw(st.sampled_from(kinds)))(depth)

    # -- expressions -----------------------------------------------------------------------------------------------------

    def place(self, count: int) -> str:
        """An index below `count`: a constant, or one made of a loop's counter."""
        if self.loops and self.draw(st.booleans()):
            return f"{self.draw(st.sampled_from(self.loops))} % {count}"
        return str(self.draw(st.integers(0, count - 1)))

    def atom(self) -> str:
        kind = self.draw(st.sampled_from(["name", "name", "name", "t", "x", "cell", "v", "array", "counter"]))
        if kind == "name":
            return self.draw(st.sampled_from(self.scalars))
        if kind == "counter" and self.loops:
            return f"0.1 * float({self.draw(st.sampled_from(self.loops))})"
        if kind == "cell":
            return f"cells[{self.place(3)}]"
        if kind == "array":
            return f"ta.read({self.place(4)})"
        return f"{kind if kind in ('t', 'x', 'v') else 't'}[{self.place(3)}]"

    def scalar(self) -> str:
        first, second = self.atom(), self.atom()
        form = self.draw(st.sampled_from([
            "gt.sin({0}) + 0.3 * {1}", "gt.tanh({0} * {1})", "0.7 * {0} + {2}", "gt.cos({0} - {1})", "gt.exp(-{0} * {0}) * 0.9",
            "{0} / (1.5 + {1} * {1})", "-0.8 * {0}", "gt.reduce_mean(gt.sin(t)) + 0.2 * {0}", "0.5 * ({0} + {1})",
        ]))  # fmt: skip
        return form.format(first, second, self.draw(CONSTANTS))

    def vector(self) -> str:
        form = self.draw(st.sampled_from([
            "gt.sin(t) + 0.2 * x", "gt.tanh(t * {0})", "0.6 * t + 0.3 * {0}", "t[::-1] * 0.9 + 0.1", "0.5 * (t + v)",
            "d['q'] + 0.4 * gt.cos(t)", "gt.stack([{0}, {1}, t[0]])", "gt.sin(gt.stack(cells))",
        ]))  # fmt: skip
        return form.format(self.atom(), self.atom())

    def condition(self) -> str:
        plain = f"<<{self.atom()}|{self.draw(CONSTANTS)}>>"
        form = self.draw(st.sampled_from(["{0}", "{0}", "{0}", "not {0}", "{0} and {1}", "{0} or {1}", "{0} or n > 2"]))
        return form.format(plain, f"<<{self.atom()}|{self.draw(CONSTANTS)}>>")

    # -- simple statements -----------------------------------------------------------------------------------------------

    def write_scalar(self, depth: int) -> list[str]:
        return [f"{self.draw(st.sampled_from(['a', 'b']))} = {self.scalar()}"]

    def write_vector(self, depth: int) -> list[str]:
        return [f"t = {self.vector()}"]

    def write_item(self, depth: int) -> list[str]:
        return [f"t[{self.place(3)}] {self.draw(st.sampled_from(['=', '+=', '*=']))} {self.scalar()}"]

    def write_slice(self, depth: int) -> list[str]:
        return [self.draw(st.sampled_from(["t[1:] += 0.3 * t[:-1]", "t[:2] = gt.sin(v[1:])", "t[::2] *= 0.7"]))]

    def write_cell(self, depth: int) -> list[str]:
        return [f"cells[{self.place(3)}] = {self.scalar()}"]

    def write_append(self, depth: int) -> list[str]:
        return [f"log.append({self.scalar()})"]

    def write_pop(self, depth: int) -> list[str]:
        return [f"log.append({self.scalar()})", f"a = 0.5 * log.pop() + {self.atom()}"]

    def write_dict(self, depth: int) -> list[str]:
        if self.draw(st.booleans()):
            return [f"d['p'] = {self.scalar()}"]
        return [f"d['q'] = {self.vector()}"]

    def write_pair(self, depth: int) -> list[str]:
        return [f"pair = (pair[1], {self.scalar()})"]

    def write_swap(self, depth: int) -> list[str]:
        return [f"a, b = b, {self.scalar()}"]

    def write_array(self, depth: int) -> list[str]:
        return [f"ta = ta.write({self.place(4)}, {self.scalar()})"]

    def write_assign(self, depth: int) -> list[str]:
        form = self.draw(st.sampled_from(["v.assign({0})", "v.assign_add(0.2 * t)", "v.assign(0.5 * v + 0.1 * {0})"]))
        return [form.format(self.vector())]

    def write_ternary(self, depth: int) -> list[str]:
        return [f"b = {self.scalar()} if {self.condition()} else {self.scalar()}"]

    def write_exit(self, depth: int) -> list[str]:
        way = self.draw(st.sampled_from(["break", "continue", "continue", RESULT]))
        return [f"if {self.condition()}:", *indented(self.maybe_simple()), f"    {way}"]

    def maybe_simple(self) -> list[str]:
        if self.draw(st.booleans()):
            return []
        return self.draw(st.sampled_from([self.write_scalar, self.write_item, self.write_append]))(0)

    # -- nested statements -----------------------------------------------------------------------------------------------

    def write_if(self, depth: int) -> list[str]:
        lines = [f"if {self.condition()}:", *indented(self.block(depth + 1, 2))]
        if self.draw(st.integers(0, 3)) == 0:
            lines += [f"elif {self.condition()}:", *indented(self.block(depth + 1, 2))]
        if self.draw(st.booleans()):
            lines += ["else:", *indented(self.block(depth + 1, 2))]
        return lines

    def write_loop(self, depth: int) -> list[str]:
        kind = self.draw(st.sampled_from(["python", "staged", "staged", "rows", "while", "forever", "enumerate"]))
        self.count += 1
        i, y = f"i{self.count}", f"y{self.count}"
        bound = self.draw(st.integers(1, 3))
        before: list[str] = []
        start: list[str] = []
        inner = [i]
        if kind == "python":
            head = f"for {i} in range({bound}):"
        elif kind == "staged":
            head = f"for {i} in gt.range({self.draw(st.sampled_from(['n', 'n', 'n - 1', str(bound)]))}):"
        elif kind == "rows":
            rows = self.draw(st.sampled_from(["x", "d['q']"]))
            head, inner = f"for {y} in {rows}:", []
        elif kind == "enumerate":
            head = f"for {i}, {y} in enumerate(x):"
        else:
            before, start = [f"{i} = 0"], [f"{i} += 1"]
            head = f"while {i} < {bound} and ({self.condition()}):"
            if kind == "forever":
                head, start = "while True:", [f"{i} += 1", f"if {i} > {bound}:", "    break"]
        scalars, loops = self.scalars, self.loops
        self.loops = self.loops + inner
        if kind in ("rows", "enumerate"):
            self.scalars = [*self.scalars, y]
        body = start + self.block(depth + 1, 3)
        self.scalars, self.loops = scalars, loops
        lines = [*before, head, *indented(body)]
        if kind != "forever" and self.draw(st.integers(0, 5)) == 0:
            lines += ["else:", *indented(self.write_scalar(depth))]
        return lines


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def programs(draw: Any) -> Program:
    """Functions of (x: float64[3], n: int32 scalar, v: Variable float64[3])."""
    return Program(tuple(Writer(draw).block(0, 5)))
