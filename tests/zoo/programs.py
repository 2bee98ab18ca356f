"""Random Python source: functions of nested loops, branches, exits, updates in place, lists, dicts, TensorArrays and Variables.

`programs()` is a hypothesis strategy of `Program`s. A program is text with marked conditions, rendered in two ways that
differ in nothing else: plain (what users write and what is compiled), and watched (each data-dependent decision is
logged), so that the tests can choose constants for which finite differences meet no jump. All operations are smooth and
keep values of moderate size; all trip counts are small.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import strategies as st

_MARK = re.compile(r"<<(.*?)\|(.*?)>>")
RESULT = (
    "return a, t * b, gt.reduce_sum(gt.stack(log)), cells[0] * cells[2], d['p'] + pair[1], d['q'], ta.stack(), "
    "o.u + d['l'][1], m, a if best is None else best, gt.cast(k, gt.float64) * b, gt.cast(flag, gt.float64)"
)
HEAD = """\
import gradtape as gt


class Box:
    def __init__(self, u):
        self.u = u
        self.calls = 0

    def push(self, z):
        self.u = gt.sin(self.u) + 0.2 * z
        self.calls += 1
        return self.u


@gt.custom_gradient
def ruled(z):
    return gt.tanh(z), lambda ct: ct * (1.0 - gt.tanh(z) ** 2)


again = gt.recompute_grad(lambda z: gt.sin(z) * 0.9 + gt.tanh(z * z))


"""
START = """\
def {name}(x, n, v):
    a, b, t = x[0], gt.sin(x[1]), x * 1.0
    cells, log = [a, b, x[2]], [b]
    d = {{"p": a * b, "q": gt.tanh(x), "l": [a, b]}}
    pair = (a, b * 0.5)
    ta = gt.TensorArray(gt.float64, size=4, clear_after_read=False, element_shape=())
    o, m = Box(b), gt.stack([x, gt.cos(x), x[::-1] * 0.5])
    best, k, flag = None, 0, False

    def nudge(z):
        nonlocal a, k
        a = 0.6 * a + 0.3 * z
        k += 1
        return gt.cos(a)

"""


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
        return START.format(name=name) + body + "\n"

    def __repr__(self) -> str:
        return "\n" + self.text("program")


class Writer:
    """Draws statements; knows which names exist where it is."""

    def __init__(self, random: Random, size: int) -> None:
        self.random = random
        self.size = size  # of blocks
        self.scalars = ["a", "b", "d['p']", "pair[0]", "pair[1]", "log[-1]", "o.u", "d['l'][0]"]
        self.loops: list[str] = []  # names of the integer counters in scope
        self.count = 0

    def block(self, depth: int, limit: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, min(limit, self.size))):
            lines += self.statement(depth)
        return lines

    def statement(self, depth: int) -> list[str]:
        kinds = ["scalar", "vector", "item", "slice", "cell", "append", "pop", "dict", "pair", "array", "assign", "swap"]
        kinds += ["object", "nested", "best", "count", "flag", "matrix", "alias", "comprehension", "closure", "ruled"]
        if depth < 3:
            kinds += ["if", "if", "if", "loop", "loop", "loop", "loop", "ternary", "tape", "control"] * (3 - depth)
        if self.loops:
            kinds += ["exit", "exit"]
        return getattr(self, "write_" + self.random.choice(kinds))(depth)

    def coin(self) -> bool:
        return self.random.random() < 0.5

    def constant(self) -> float:
        return round(self.random.randint(-140, 140) / 100 + 0.00371, 5)

    # -- expressions -----------------------------------------------------------------------------------------------------

    def place(self, count: int) -> str:
        """An index below `count`: a constant, or one made of a loop's counter."""
        if self.loops and self.coin():
            return f"{self.random.choice(self.loops)} % {count}"
        return str(self.random.randint(0, count - 1))

    def atom(self) -> str:
        kind = self.random.choice(["name", "name", "name", "t", "x", "cell", "v", "array", "counter"])
        if kind == "name":
            return self.random.choice(self.scalars)
        if kind == "counter" and self.loops:
            return f"0.1 * gt.cast({self.random.choice(self.loops)}, gt.float64)"
        if kind == "cell":
            return f"cells[{self.place(3)}]"
        if kind == "array":
            return f"ta.read({self.place(4)})"
        return f"{kind if kind in ('t', 'x', 'v') else 't'}[{self.place(3)}]"

    def scalar(self) -> str:
        first, second = self.atom(), self.atom()
        form = self.random.choice([
            "gt.sin({0}) + 0.3 * {1}", "gt.tanh({0} * {1})", "0.7 * {0} + {2}", "gt.cos({0} - {1})", "gt.exp(-{0} * {0}) * 0.9",
            "{0} / (1.5 + {1} * {1})", "-0.8 * {0}", "gt.reduce_mean(gt.sin(t)) + 0.2 * {0}", "0.5 * ({0} + {1})",
        ])  # fmt: skip
        return form.format(first, second, self.constant())

    def vector(self) -> str:
        form = self.random.choice([
            "gt.sin(t) + 0.2 * x", "gt.tanh(t * {0})", "0.6 * t + 0.3 * {0}", "t[::-1] * 0.9 + 0.1", "0.5 * (t + v)",
            "d['q'] + 0.4 * gt.cos(t)", "gt.stack([{0}, {1}, t[0]])", "gt.sin(gt.stack(cells))",
        ])  # fmt: skip
        return form.format(self.atom(), self.atom())

    def condition(self) -> str:
        plain = f"<<{self.atom()}|{self.constant()}>>"
        form = self.random.choice(["{0}", "{0}", "{0}", "not {0}", "{0} and {1}", "{0} or {1}", "{0} or n > 2"])
        return form.format(plain, f"<<{self.atom()}|{self.constant()}>>")

    # -- simple statements -----------------------------------------------------------------------------------------------

    def write_scalar(self, depth: int) -> list[str]:
        return [f"{self.random.choice(['a', 'b'])} = {self.scalar()}"]

    def write_vector(self, depth: int) -> list[str]:
        return [f"t = {self.vector()}"]

    def write_item(self, depth: int) -> list[str]:
        return [f"t[{self.place(3)}] {self.random.choice(['=', '+=', '*='])} {self.scalar()}"]

    def write_slice(self, depth: int) -> list[str]:
        return [self.random.choice(["t[1:] += 0.3 * t[:-1]", "t[:2] = gt.sin(v[1:])", "t[::2] *= 0.7"])]

    def write_cell(self, depth: int) -> list[str]:
        return [f"cells[{self.place(3)}] = {self.scalar()}"]

    def write_append(self, depth: int) -> list[str]:
        return [f"log.append({self.scalar()})"]

    def write_pop(self, depth: int) -> list[str]:
        return [f"log.append({self.scalar()})", f"a = 0.5 * log.pop() + {self.atom()}"]

    def write_dict(self, depth: int) -> list[str]:
        if self.coin():
            return [f"d['p'] = {self.scalar()}"]
        return [f"d['q'] = {self.vector()}"]

    def write_pair(self, depth: int) -> list[str]:
        return [f"pair = (pair[1], {self.scalar()})"]

    def write_swap(self, depth: int) -> list[str]:
        return [f"a, b = b, {self.scalar()}"]

    def write_array(self, depth: int) -> list[str]:
        return [f"ta = ta.write({self.place(4)}, {self.scalar()})"]

    def write_assign(self, depth: int) -> list[str]:
        # always something that depends on x: whether a constant that a loop may put there is a new start, only eager code knows
        form = self.random.choice(["v.assign({0} + 0.05 * x)", "v.assign_add(0.2 * t)", "v.assign(0.5 * v + 0.1 * {0})"])
        return [form.format(self.vector())]

    def write_object(self, depth: int) -> list[str]:
        return [self.random.choice(["a = o.push({0})", "o.u = {0}", "b = 0.5 * b + o.push(a)"]).format(self.scalar())]

    def write_nested(self, depth: int) -> list[str]:
        place = self.random.choice(["0", "1", "-1"])
        return [f"d['l'][{place}] {self.random.choice(['=', '+='])} {self.scalar()}"]

    def write_best(self, depth: int) -> list[str]:
        # a comparison of two values that move: watched as a condition against a constant
        return [f"if best is None or <<{self.atom()} - best|{self.constant()}>>:", f"    best = {self.scalar()}"]

    def write_count(self, depth: int) -> list[str]:
        return [self.random.choice(["k += 1", "k = k + 2", "b = b + 0.1 * gt.cast(k, gt.float64)"])]

    def write_flag(self, depth: int) -> list[str]:
        if self.coin():
            return [f"flag = {self.condition()}"]
        return [f"if flag or {self.condition()}:", *indented(self.write_scalar(depth)), "    flag = not flag"]

    def write_matrix(self, depth: int) -> list[str]:
        i, j = self.place(3), self.place(3)
        form = self.random.choice([
            "m[{0}, {1}] = {2}", "m[{0}] = {3}", "m[{0}, 1:] += 0.3 * {2}", "m = 0.4 * m @ m",
            "t = gt.linalg.matvec(m, t) * 0.5",
            "m[:, {0}] *= 0.8", "a = gt.reduce_sum(m[{0}, :{1}]) + 0.1 * a", "m = gt.transpose(m) + 0.1 * t",
        ])  # fmt: skip
        return [form.format(i, j, self.scalar(), self.vector())]

    def write_alias(self, depth: int) -> list[str]:
        form = self.random.choice([
            ["u = t", "u[{0}] = {1}"], ["other = cells", "other[{0}] = {1}"],
            ["s = t * 1.0", "s[{0}] = {1}", "t = t + 0.2 * s"],
            ["for c in [t, m[0]]:", "    c[{0}] *= 0.9", "    a = a + 0.1 * c[1]"],
        ])  # fmt: skip
        return [line.format(self.place(3), self.scalar()) for line in form]

    def write_comprehension(self, depth: int) -> list[str]:
        form = self.random.choice([
            "cells = [gt.sin(c) + {0} for c in cells]", "t = gt.stack([0.7 * e + {0} for e in t])",
            "b = sum([c * 0.3 for c in cells])", "a = sum(e * 0.2 for e in t) + {0}",
            "cells = [c for c in reversed(cells)]", "t = gt.stack([p * q for p, q in zip(cells, t)]) * 0.5",
            "b = 0.3 * sum([row[{1}] for row in m])",
        ])  # fmt: skip
        return [form.format(self.atom(), self.place(3))]

    def write_closure(self, depth: int) -> list[str]:
        return [
            self.random.choice(["b = nudge({0})", "nudge({0})", "cells[1] = (lambda z: gt.sin(z) * b)({0})"]).format(
                self.atom()
            )
        ]

    def write_ruled(self, depth: int) -> list[str]:
        return [self.random.choice(["a = ruled({0}) + 0.1 * b", "t = again(t) * 0.8", "b = again({0})"]).format(self.atom())]

    def write_tape(self, depth: int) -> list[str]:
        self.count += 1
        tape, w, z = f"tape{self.count}", f"w{self.count}", f"z{self.count}"
        source = self.random.choice(["a", "b", "t"])
        # a new tensor is watched: no other name, changed on some path only, stands for it too
        return [
            f"{w} = {source} = {source} * 1.0", f"with gt.GradientTape() as {tape}:", f"    {tape}.watch({w})",
            *indented(self.block(depth + 2, 2)), f"    {z} = gt.reduce_sum(gt.sin(a) * b + t * 0.3)",
            f"{source} = 0.5 * {tape}.gradient({z}, {w}, unconnected_gradients='zero') + 0.1 * {w}",
        ]  # fmt: skip

    def write_control(self, depth: int) -> list[str]:
        form = self.random.choice([
            "a = gt.cond({c}, lambda: {0}, lambda: {1})", "t = gt.scan(lambda p, q: 0.5 * p + gt.sin(q), t)",
            "b = gt.foldl(lambda p, q: 0.6 * p + gt.cos(q) * b, t)", "t = gt.map_fn(lambda e: gt.sin(e) * a, t)",
            "_, a = gt.while_loop(lambda i, z: i < n, lambda i, z: (i + 1, gt.sin(z) + 0.2 * b), (gt.constant(0), a))",
            "b = gt.switch_case(n - 2, [lambda: {0}, lambda: {1}])",
        ])  # fmt: skip
        return [form.format(self.scalar(), self.scalar(), c=self.condition())]

    def write_ternary(self, depth: int) -> list[str]:
        return [f"b = {self.scalar()} if {self.condition()} else {self.scalar()}"]

    def write_exit(self, depth: int) -> list[str]:
        way = self.random.choice(["break", "continue", "continue", RESULT])
        return [f"if {self.condition()}:", *indented(self.maybe_simple()), f"    {way}"]

    def maybe_simple(self) -> list[str]:
        if self.coin():
            return []
        return self.random.choice([self.write_scalar, self.write_item, self.write_append])(0)

    # -- nested statements -----------------------------------------------------------------------------------------------

    def write_if(self, depth: int) -> list[str]:
        lines = [f"if {self.condition()}:", *indented(self.block(depth + 1, 2))]
        if self.random.randint(0, 3) == 0:
            lines += [f"elif {self.condition()}:", *indented(self.block(depth + 1, 2))]
        if self.coin():
            lines += ["else:", *indented(self.block(depth + 1, 2))]
        return lines

    def write_loop(self, depth: int) -> list[str]:
        kind = self.random.choice(["python", "staged", "staged", "rows", "while", "forever", "enumerate", "zip"])
        self.count += 1
        i, y = f"i{self.count}", f"y{self.count}"
        bound = self.random.randint(1, 3)
        before: list[str] = []
        start: list[str] = []
        inner = [i]
        if kind == "python":
            head = f"for {i} in range({bound}):"
        elif kind == "staged":
            head = f"for {i} in gt.range({self.random.choice(['n', 'n', 'n - 1', str(bound)])}):"
        elif kind == "rows":
            rows = self.random.choice(["x", "d['q']"])
            head, inner = f"for {y} in {rows}:", []
        elif kind == "zip":
            rows = self.random.choice(["x", "m[0]", "cells"])
            head = f"for {y}, {i} in zip({rows}, range(3)):"
        elif kind == "enumerate":
            head = f"for {i}, {y} in enumerate(x):"
        else:
            before, start = [f"{i} = 0"], [f"{i} += 1"]
            head = f"while {i} < {bound} and ({self.condition()}):"
            if kind == "forever":
                head, start = "while True:", [f"{i} += 1", f"if {i} > {bound}:", "    break"]
        scalars, loops = self.scalars, self.loops
        self.loops = self.loops + inner
        if kind in ("rows", "enumerate", "zip"):
            self.scalars = [*self.scalars, y]
        body = start + self.block(depth + 1, 3)
        self.scalars, self.loops = scalars, loops
        lines = [*before, head, *indented(body)]
        if kind != "forever" and self.random.randint(0, 5) == 0:
            lines += ["else:", *indented(self.write_scalar(depth))]
        return lines


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


@st.composite
def programs(draw: Any) -> Program:
    """Functions of (x: float64[3], n: int32 scalar, v: Variable float64[3]).

    Statements come from a random generator that hypothesis seeds, not from hypothesis' own choices: these repeat themselves.
    A failing program shrinks in the size and number of its blocks.
    """
    size, length = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    writer = Writer(Random(draw(st.integers(0, 2**32))), size)
    return Program(tuple(line for _ in range(length) for line in writer.statement(0)))
