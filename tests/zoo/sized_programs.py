"""Random Python source with sizes that only run time knows: slices up to a tensor, masks, lists, ranges, what is made of them.

As `programs.py`, with two vectors `u` and `r` of `n` elements that live through loops, branches and tapes, and short-lived
vectors `q1`, `q2`, … of other sizes. In loops and branches `u` and `r` grow and shrink, both alike.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.zoo.programs import Program, Writer, indented

FIRST = ("u = t[:n]", "r = gt.sin(u) * 0.7")
LAST = ("a = a + 0.1 * gt.reduce_sum(u * u)", "b = b + 0.1 * gt.reduce_mean(gt.sin(r))")
KEEPING = [  # {w} a vector, {z} one of the same size, {0} and {1} scalars
    "{w} = gt.sin({w}) * {0}", "{w} = {w} + {z} * {0}", "{w} = {w}[::-1] * 0.9", "{w}[0] = {1}", "{w}[1:] += 0.3 * {w}[:-1]",
    "a = gt.reduce_sum({w} * {z}) * 0.3 + {0}", "t = t + 0.1 * gt.reduce_mean({w})", "{w} = gt.cumsum({w}) * 0.4",
    "{w} = 0.5 * gt.linalg.matvec({w}[:, None] * {z}[None, :], {w})", "b = gt.reduce_sum(gt.concat([{w}, t], 0)) * 0.2",
    "{w} = {w} / gt.sqrt(gt.cast(gt.shape({w})[0], gt.float64))", "b = gt.reduce_sum(gt.concat([{w}, {z}], 0)) * 0.2",
    "a = 0.3 * gt.reduce_sum(gt.stack([{w}, {z}]) ** 2)", "a = sum(e * 0.2 for e in {w}) + {0}", "{w} = ruled({w})",
    "d['p'] = gt.reduce_sum(gt.zeros_like({w}) + {w} * {0}) * 0.3", "{w} = again({w}) * 0.5", "{w} = gt.ones_like({w}) * {0}",
    "b = b + gt.reduce_sum(gt.pad({w}, [[1, 0]])[1:] * 0.2)", "{w} = gt.sort({w}) * {0}", "{w} = {w} @ ({w}[:, None] * {z})",
    "b = 0.3 * b + 0.1 * gt.reduce_sum(gt.sin(t[:{i}])) + 0.1 * gt.reduce_sum(m[{i}, {j}:] * {0})",
]  # fmt: skip
CHANGING = [  # the size has another name afterwards
    "{w} = gt.map_fn(lambda e: gt.sin(e) * a, {w})", "{w} = gt.stack([0.7 * e + {0} for e in {w}])",
    "{w} = gt.concat([{w}[:1], {w}[1:] * {0}], 0)", "{w} = gt.gather({w}, gt.range(gt.shape({w})[0])) * {0}",
    "{w} = gt.reshape(gt.reshape({w}, (-1, 1)) + {0}, (-1,)) * 0.5", "{w} = gt.scan(lambda p, q: 0.5 * p + gt.sin(q), {w})",
    "{w} = gt.fill([n], {0}) * gt.cos({w})", "{w} = gt.sort({w} + gt.cast(gt.range(n), gt.float64))",
    "a = gt.reduce_sum(gt.broadcast_to({0}, [n]) * {w}) * 0.3", "t = gt.tensor_scatter_nd_update(t, gt.range(n)[:, None], {w})",
]  # fmt: skip
MAKING = [
    "t[:n] * {0}", "gt.boolean_mask(t, gt.range(3) < n) * {0}", "x[3 - n:] * {0}", "t[:1 + {i}] * {0}", "gt.stack(log) * {0}",
    "m[{j}, :n]", "gt.concat([u, r], 0)", "gt.concat([u, t], 0)", "gt.ones([n], gt.float64) * {0}", "gt.fill([n], {0})",
    "gt.broadcast_to({0}, [n])", "gt.boolean_mask(u, gt.range(n) > 0) * 0.8", "gt.sin(u[1:])",
]  # fmt: skip


RESIZING = [  # u and r together
    "u, r = gt.concat([u, [{0} * 0.5]], 0), gt.concat([r, u[:1] * 0.7], 0)", "u, r = u[:n], gt.sin(r[:n])",
    "u, r = gt.concat([t[:1], u], 0), gt.concat([r, x[:1]], 0)",
]  # fmt: skip


class SizedWriter(Writer):
    """Draws statements, every second one about sizes."""

    temporary: tuple[str, ...] = ()

    def statement(self, depth: int) -> list[str]:
        return self.sized(depth) if self.coin() else super().statement(depth)

    def sized(self, depth: int) -> list[str]:
        kinds = ["keep", "keep", "keep", "keep", "change", "resize"]
        if depth < 3:
            kinds += ["make", "loop", "if", "tape"]
        return getattr(self, "sized_" + self.random.choice(kinds))(depth)

    def vectors(self) -> tuple[str, str]:
        if self.temporary and self.coin():
            name = self.random.choice(self.temporary)
            return name, name
        return self.random.choice([("u", "r"), ("r", "u")])

    def filled(self, form: str) -> str:
        w, z = self.vectors()
        return form.format(self.scalar(), self.scalar(), w=w, z=z, i=self.place(3), j=self.place(3))

    def sized_keep(self, depth: int) -> list[str]:
        return [self.filled(self.random.choice(KEEPING))]

    def sized_change(self, depth: int) -> list[str]:
        held, self.temporary = self.temporary, ()
        line = self.filled(self.random.choice(CHANGING))
        self.temporary = held
        return [line]

    def sized_resize(self, depth: int) -> list[str]:
        held, self.temporary = self.temporary, ()
        line = self.filled(self.random.choice(RESIZING))
        self.temporary = held
        return [line]

    def sized_make(self, depth: int) -> list[str]:
        self.count += 1
        name, held = f"q{self.count}", self.temporary
        lines = [f"{name} = {self.filled(self.random.choice(MAKING))}"]
        self.temporary = (*held, name)
        for _ in range(self.random.randint(1, 3)):
            lines += self.sized(depth + 1)
        self.temporary = held
        return [*lines, f"b = 0.5 * b + 0.2 * gt.reduce_sum(gt.sin({name}))"]

    def sized_loop(self, depth: int) -> list[str]:
        self.count += 1
        i, y = f"i{self.count}", f"y{self.count}"
        w = self.vectors()[0]
        head = self.random.choice([f"for {y} in {w}:", f"for {i}, {y} in enumerate({w}):"])
        scalars, loops = self.scalars, self.loops
        self.scalars, self.loops = [*scalars, y], [*loops, i] if i in head else loops
        body = self.block(depth + 1, 3)
        self.scalars, self.loops = scalars, loops
        return [head, *indented(body)]

    def sized_if(self, depth: int) -> list[str]:
        then = [*self.block(depth + 1, 2), *self.sized(depth + 1)]
        return [f"if {self.condition()}:", *indented(then), "else:", *indented(self.sized(depth + 1))]

    def sized_tape(self, depth: int) -> list[str]:
        self.count += 1
        tape, source, z = f"tape{self.count}", f"w{self.count}", f"z{self.count}"
        w, other = self.vectors()
        return [
            f"{source} = {w} = {w} * 1.0", f"with gt.GradientTape() as {tape}:", f"    {tape}.watch({source})",
            *indented(self.block(depth + 2, 2)), f"    {z} = gt.reduce_sum(gt.sin({w}) * {w}) + gt.reduce_sum({other} * 0.3)",
            f"{w} = 0.5 * {tape}.gradient({z}, {source}, unconnected_gradients='zero') + 0.1 * {source}",
        ]  # fmt: skip


@st.composite
def sized_programs(draw: Any) -> Program:
    """Functions of (x: float64[3], n: int32 scalar, v: Variable float64[3]), as `programs` gives."""
    size, length = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    writer = SizedWriter(Random(draw(st.integers(0, 2**32))), size)
    return Program((*FIRST, *(line for _ in range(length) for line in writer.statement(0)), *LAST))
