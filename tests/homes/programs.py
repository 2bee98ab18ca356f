"""Random Python source for the home test: functions of floats, a matrix, a count and indices, about what homes can break.

Tapes inside that are persistent and asked twice, that watch constants, or whose gradient is differentiated on the same tape;
loops of no turns; masks; integers as counts, indices and labels; joins, reshapes, gathers, transposes, slices of one another;
tensors that grow; lists, TensorArrays, nested functions, custom gradients. `program(seed)` is the text of one; all of them are
smooth where they are evaluated and keep numbers of moderate size.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

GIVEN = (
    np.array([0.31, -0.52, 0.77, 0.18]),
    np.float64(0.64),
    np.array([[0.45, -0.35, 0.85], [-0.15, 0.62, 0.27]]),
    np.int32(2),
    np.array([2, 0, 1], np.int32),
)
HEAD = """\
import gradtape as gt


@gt.custom_gradient
def ruled(z):
    return gt.tanh(z), lambda ct: ct * (1.0 - gt.tanh(z) ** 2)


@gt.custom_gradient
def ruled_pair(z, s):
    def rule(ct):
        return ct * s * gt.cos(z), gt.reduce_sum(ct * gt.sin(z))

    return gt.sin(z) * s, rule


@gt.function
def nested(z):
    for _ in gt.range(2):
        z = gt.sin(z) + 0.1 * z
    return z


@gt.function
def nested_pair(z, s):
    if s > 0.0:
        return gt.tanh(z * s)
    return gt.sin(z) - s


class Box:
    def __init__(self, u):
        self.u = u


again = gt.recompute_grad(lambda z: gt.sin(z) * 0.9 + gt.tanh(z * z))


def program(x, y, m, k, index):
"""
Shape = tuple[int, ...]
MOST = 24  # elements of a value


def _size(shape: Shape) -> int:
    return int(np.prod(shape, dtype=int))


class Writer:
    """Draws statements; `names` are the floating tensors in scope with their shapes."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.names: dict[str, Shape] = {"x": (4,), "y": (), "m": (2, 3)}
        self.counters: list[str] = ["k"]
        self.count = 0

    # -- choices ---------------------------------------------------------------------------------------------------------

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def name(self, *shapes: Shape) -> str:
        fitting = [name for name, shape in self.names.items() if not shapes or shape in shapes]
        recent = fitting[-4:]
        return self.random.choice(recent if self.random.random() < 0.6 else fitting)

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def constant(self) -> float:
        return round(self.random.randint(-90, 90) / 100 + 0.00371, 5)

    # -- expressions -----------------------------------------------------------------------------------------------------

    def scalar(self) -> str:
        """Text of a scalar."""
        name = self.name()
        if not self.names[name]:
            return self.one(name, f"gt.sin({name})", f"0.7 * {name} + {self.constant()}")
        return self.one(
            f"gt.reduce_mean({name})",
            f"gt.reduce_sum(gt.sin({name}))",
            f"gt.reduce_max({name})",
            f"{name}[{', '.join('0' for _ in self.names[name])}]",
        )

    def same(self, name: str) -> str:
        """Text of the shape of `name`, elementwise."""
        shape = self.names[name]
        forms = [
            "gt.sin({0})",
            "gt.tanh({0} * {1})",
            "0.6 * {0} + 0.3 * {s}",
            "{0} * {1}",
            "gt.exp(-{0} * {1}) * 0.8",
            "{0} - gt.cos({1})",
            "gt.where({0} > {c}, {0}, 0.5 * {1})",
            "gt.where({0} > {c}, gt.sin({0}), gt.zeros_like({0}))",
            "gt.maximum({0}, 0.3 * {1})",
            "{0} / (1.5 + {1} * {1})",
            "gt.sigmoid({0})",
            "gt.clip_by_value({0}, -0.71, 0.83) * {1}",
            "ruled({0})",
            "again({0}) * 0.8",
            "nested({0})",
            "ruled_pair({0}, {s})",
            "nested_pair({0}, {s})",
            "gt.cast({0} > {c}, gt.float64) * {1}",
            "gt.stop_gradient({0}) * {1}",
            "{0} * gt.cast({n} + 1, gt.float64) * 0.2",
            "gt.identity({0}) ** 2 * 0.5",
            "abs({0}) * {1}",
            "gt.constant({c}, gt.float64) * {0}",
            "gt.ones({shape}, gt.float64) * {0} + {1}",
            "(lambda z: z * {s})({0})",
        ]
        if shape:
            forms += [
                "gt.cumsum({0}, {axis}) * 0.4",
                "gt.nn.softmax({0}, {axis})",
                "gt.reverse({0}, [{axis}])",
                "gt.roll({0}, 1, {axis})",
                "{0}[::-1]",
                "gt.sort({0}, {axis})",
                "gt.concat([{0}[:1], gt.sin({0}[1:])], 0)",
                "gt.tensor_scatter_nd_update({0}, [[0]], {0}[-1:] * 0.5)",
                "gt.reshape(gt.reshape({0}, [-1]) * {s}, {shape})",
                "gt.map_fn(lambda e: gt.sin(e) * {s}, {0})",
                "gt.vectorized_map(lambda e: gt.tanh(e) * {s}, {0})",
                "gt.stack([gt.sin(e) for e in {0}])",
                "{0} - gt.reduce_mean({0}, {axis}, keepdims=True)",
                "gt.scan(lambda p, q: 0.5 * p + gt.sin(q), {0})",
                "gt.gather({0}, gt.range(gt.shape({0})[0]))",
                "gt.broadcast_to({s}, gt.shape({0})) * {0}",
            ]
        return self.random.choice(forms).format(
            name,
            self.name(shape),
            s=self.scalar(),
            c=self.constant(),
            n=self.one(*self.counters),
            shape=list(shape),
            axis=self.random.randrange(len(shape)) if shape else 0,
        )

    def other(self) -> tuple[str, Shape]:
        """Text of a value made of another by moving its elements, and its shape."""
        ways: list[Callable[[str, Shape], tuple[str, Shape]]] = [self.stacked, self.stacked, self.widened]
        name = self.name()
        shape = self.names[name]
        if shape:
            ways += [
                self.flat,
                self.joined,
                self.gathered,
                self.part,
                self.reduced,
                self.picked,
                self.padded,
                self.tiled,
                self.divided,
            ]
        if len(shape) > 1:
            ways += [self.transposed, self.transposed, self.product, self.column]
        text, shape = self.random.choice(ways)(name, shape)
        if self.random.random() < 0.5:  # one in another: what a compiler may see through
            inner = self.fresh("z")
            self.names[inner] = shape
            ways = [self.stacked, self.widened] + ([self.flat, self.joined, self.gathered, self.part] if shape else [])
            outer, made = self.random.choice(ways)(inner, shape)
            del self.names[inner]
            text, shape = (
                f"(lambda {inner}: {outer})({text})" if outer.count(inner) > 1 else outer.replace(inner, f"({text})"),
                made,
            )
        return text, shape

    def stacked(self, name: str, shape: Shape) -> tuple[str, Shape]:
        axis = self.random.randint(0, len(shape))
        second = self.one(name, f"gt.sin({name})", self.name(shape) if shape in self.names.values() else name)
        return f"gt.stack([{name}, {second}], axis={axis})", (*shape[:axis], 2, *shape[axis:])

    def widened(self, name: str, shape: Shape) -> tuple[str, Shape]:
        return self.one(
            (f"gt.broadcast_to({name}, {[2, *shape]})", (2, *shape)),
            (f"gt.expand_dims({name}, 0)", (1, *shape)),
            (f"gt.squeeze(gt.expand_dims({name}, -1), -1)", shape),
        )

    def flat(self, name: str, shape: Shape) -> tuple[str, Shape]:
        count = _size(shape)
        ways = [(f"gt.reshape({name}, [-1])", (count,)), (f"gt.reshape({name}, [1, -1])", (1, count))]
        ways += [(f"gt.reshape({name}, [{d}, -1])", (d, count // d)) for d in (2, 3) if count and count % d == 0]
        return self.random.choice(ways)

    def joined(self, name: str, shape: Shape) -> tuple[str, Shape]:
        axis = self.random.randrange(len(shape))
        second = self.one(name, f"0.5 * {name}")
        return f"gt.concat([{name}, {second}], {axis})", (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])

    def gathered(self, name: str, shape: Shape) -> tuple[str, Shape]:
        axis = self.random.randrange(len(shape))
        if not shape[axis]:
            return f"{name} * 1.0", shape
        places = [self.random.randrange(shape[axis]) for _ in range(3)]
        rows = self.one(str(places), f"index % {shape[axis]}", f"gt.constant({places})")
        return f"gt.gather({name}, {rows}, axis={axis})", (*shape[:axis], 3, *shape[axis + 1 :])

    def part(self, name: str, shape: Shape) -> tuple[str, Shape]:
        n, rest = shape[0], shape[1:]
        ways = [
            (f"{name}[::2]", ((n + 1) // 2, *rest)),
            (f"{name}[..., :1]", (*shape[:-1], min(1, shape[-1]))),
            (f"{name}[::-1]", shape),
        ]
        ways += (
            [(f"{name}[1:]", (n - 1, *rest)), (f"{name}[-1]", rest), (f"{name}[{self.one(*self.counters)} % {n}]", rest)]
            if n
            else []
        )
        return self.random.choice(ways)

    def reduced(self, name: str, shape: Shape) -> tuple[str, Shape]:
        axis = self.random.randrange(len(shape))
        way = self.one("reduce_sum", "reduce_mean", "reduce_logsumexp", "reduce_max") if shape[axis] else "reduce_sum"
        if self.random.random() < 0.4:
            return f"gt.{way}({name}, {axis}, keepdims=True)", (*shape[:axis], 1, *shape[axis + 1 :])
        return f"gt.{way}({name}, {axis})", (*shape[:axis], *shape[axis + 1 :])

    def picked(self, name: str, shape: Shape) -> tuple[str, Shape]:
        """Of a mask: a scalar, as the size depends on numbers."""
        mask = f"{name} > {self.constant()}"
        return self.one(
            (f"gt.reduce_sum(gt.sin(gt.boolean_mask({name}, {mask})))", ()),
            (f"gt.reduce_sum({name}[{mask}] ** 2)", ()),
            (f"gt.reduce_sum(gt.gather_nd({name}, gt.where({mask})) * 0.5)", ()),
        )

    def padded(self, name: str, shape: Shape) -> tuple[str, Shape]:
        return f"gt.pad({name}, {[[1, 0]] + [[0, 0]] * (len(shape) - 1)})", (shape[0] + 1, *shape[1:])

    def tiled(self, name: str, shape: Shape) -> tuple[str, Shape]:
        return self.one(
            (f"gt.tile({name}, {[2] + [1] * (len(shape) - 1)})", (2 * shape[0], *shape[1:])),
            (f"gt.repeat({name}, 2, axis=0)", (2 * shape[0], *shape[1:])),
        )

    def divided(self, name: str, shape: Shape) -> tuple[str, Shape]:
        if shape[0] % 2:
            return f"gt.unstack({name})[0]", shape[1:]
        return f"gt.split({name}, 2)[1]", (shape[0] // 2, *shape[1:])

    def transposed(self, name: str, shape: Shape) -> tuple[str, Shape]:
        perm = list(range(len(shape)))
        self.random.shuffle(perm)
        return f"gt.transpose({name}, {perm})", tuple(shape[p] for p in perm)

    def product(self, name: str, shape: Shape) -> tuple[str, Shape]:
        return f"gt.tanh(gt.matmul({name}, {name}, transpose_b=True))", (*shape[:-1], shape[-2])

    def column(self, name: str, shape: Shape) -> tuple[str, Shape]:
        return f"{name}[:, 0]", (shape[0], *shape[2:])

    # -- statements ------------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> list[str]:
        kinds = ["update", "update", "write", "list", "array", "integers", "closure", "labels"]
        if not depth:
            kinds += ["new", "new", "new", "grow", "object"]
        if depth < 2:
            kinds += ["loop", "loop", "branch", "tape", "persistent", "constant_tape", "control"]
        return getattr(self, "write_" + self.random.choice(kinds))(depth)

    def block(self, depth: int, most: int = 2) -> list[str]:
        return [line for _ in range(self.random.randint(1, most)) for line in self.statement(depth)]

    def inner(self, depth: int, most: int = 2) -> list[str]:
        """A block whose new names end with it."""
        names = dict(self.names)
        lines = indented(self.block(depth + 1, most))
        self.names = names
        return lines

    def changeable(self) -> str:
        """A tensor made here: arguments are written to in `write_write` only."""
        made = [name for name in self.names if name not in ("x", "y", "m")]
        return self.random.choice(made)

    def write_new(self, depth: int) -> list[str]:
        text, shape = self.other()
        if _size(shape) > MOST or len(shape) > 3:
            return self.write_update(depth)
        name = self.fresh("a")
        self.names[name] = shape
        return [f"{name} = {text}"]

    def write_update(self, depth: int) -> list[str]:
        name = self.changeable()
        return [f"{name} = {self.same(name)}"]

    def write_write(self, depth: int) -> list[str]:
        name = self.changeable()
        shape = self.names[name]
        if not shape or not shape[0]:
            return self.write_update(depth)
        place = self.one("0", "-1", f"{self.one(*self.counters)} % {shape[0]}", "1:", "::2")
        value = self.one(self.scalar(), f"0.5 * {name}[{place}]")
        return [f"{name}[{place}] {self.one('=', '+=', '*=')} {value}"]

    def write_list(self, depth: int) -> list[str]:
        cells, name = self.fresh("cells"), self.changeable()
        return [
            f"{cells} = [{name}, {self.same(name)}]",
            *self.one([], [f"{cells}.append({self.same(name)})"], [f"{cells}[0] = {self.same(name)}"]),
            self.one(f"for _ in gt.range({self.turns()}):", f"if {self.test()}:"),
            f"    {cells}[1] = {self.same(name)}",
            f"{name} = "
            + self.one("gt.add_n({0}) * 0.4", "{0}[-1] + 0.1 * {0}[0]", "gt.reduce_mean(gt.stack({0}), 0)").format(cells),
        ]

    def write_array(self, depth: int) -> list[str]:
        array, name, i = self.fresh("ta"), self.changeable(), self.fresh("i")
        lines = [
            f"{array} = gt.TensorArray(gt.float64, size=3, clear_after_read=False, element_shape={list(self.names[name])})"
        ]
        lines += [f"for {i} in {self.one('gt.range(3)', 'range(3)')}:", f"    {array} = {array}.write({i}, {self.same(name)})"]
        return [*lines, f"{name} = {self.one(f'gt.reduce_sum({array}.stack(), 0) * 0.3', f'{array}.read(k % 3) * 0.9')}"]

    def write_integers(self, depth: int) -> list[str]:
        name, j = self.changeable(), self.fresh("j")
        self_ = self.same(name)
        return self.one(
            [
                f"{j} = 0",
                f"for _ in gt.range({self.turns()}):",
                f"    {j} += 1",
                f"{name} = {self_} * gt.cast({j}, gt.float64) * 0.5",
            ],
            [f"{j} = gt.cast(gt.floor({self.scalar()}), gt.int32)", f"{name} = {self_} + 0.1 * gt.cast({j}, gt.float64)"],
            [f"{j} = gt.argmax(x)", f"{name} = {self_} * x[{j}]"],
            [f"{j} = gt.reduce_sum(index)", f"{name} = {self_} * gt.cast({j}, gt.float64) * 0.2"],
            [f"{name} = {self_} * gt.reduce_sum(gt.gather(x, index))"],
            [
                f"{j} = index * 1",
                f"{j}[0] = k",
                f"{name} = {self_} * gt.reduce_sum(gt.gather(x, {j}) * gt.cast({j}, gt.float64)) * 0.3",
            ],
            [f"{name} = {self_} * gt.reduce_sum(gt.one_hot(index, 4, dtype=gt.float64) * x)"],
        )

    def write_labels(self, depth: int) -> list[str]:
        name = self.changeable()
        loss = "gt.nn.sparse_softmax_cross_entropy_with_logits(labels={0}, logits={1})"
        return [f"{name} = {self.same(name)} * gt.reduce_mean({loss.format('index[:2]', 'm')}) * 0.5"]

    def write_object(self, depth: int) -> list[str]:
        box, name = self.fresh("box"), self.changeable()
        return [
            f"{box} = Box({name})",
            f"for _ in gt.range({self.turns()}):",
            f"    {box}.u = gt.sin({box}.u) + 0.1 * {self.same(name)}",
            f"{name} = {box}.u",
        ]

    def write_closure(self, depth: int) -> list[str]:
        name, function = self.changeable(), self.fresh("f")
        return [f"def {function}(z):", f"    return gt.sin(z) * {self.scalar()}", f"{name} = {function}({self.same(name)})"]

    def write_grow(self, depth: int) -> list[str]:
        """A tensor that grows, in a loop that Python runs."""
        grown = self.fresh("g")
        row = self.one("gt.sin({0}[:1])", "gt.reshape({s}, [1])", "{0}[-1:] * 0.7").format(grown, s=self.scalar())
        return [
            f"{grown} = x[:2]",
            f"for _ in range({self.one(0, 1, 3)}):",
            f"    {grown} = gt.concat([{grown}, {row}], 0)",
            f"{self.named(())} = gt.reduce_sum({grown} * {grown})",
        ]

    def named(self, shape: Shape) -> str:
        name = self.fresh("a")
        self.names[name] = shape
        return name

    def turns(self) -> str:
        return self.one("k", "k", "k - 2", "0", "2", "k - 1")

    def test(self) -> str:
        return self.one(
            f"{self.scalar()} > {self.constant()}",
            f"k > {self.random.randint(0, 3)}",
            f"not {self.scalar()} < {self.constant()}",
        )

    def write_loop(self, depth: int) -> list[str]:
        i, turns = self.fresh("i"), self.turns()
        head = self.one(
            f"for {i} in gt.range({turns}):", f"for {i} in range({turns}):", f"while {i} < {turns}:", f"for {i} in index:"
        )
        before, after = ([f"{i} = 0"], [f"    {i} += 1"]) if head.startswith("while") else ([], [])
        self.counters.append(i)
        body = self.inner(depth)
        self.counters.pop()
        leave = (
            [f"    if {self.test()}:", f"        {self.one('break', 'continue')}"]
            if self.random.random() < 0.2 and not after
            else []
        )
        return [*before, head, *leave, *body, *after]

    def write_branch(self, depth: int) -> list[str]:
        lines = [f"if {self.test()}:", *self.inner(depth)]
        return [*lines, "else:", *self.inner(depth)] if self.random.random() < 0.5 else lines

    def write_control(self, depth: int) -> list[str]:
        name = self.changeable()
        a, b = self.same(name), self.same(name)
        turn = f"lambda i, z: (i + 1, 0.7 * z + 0.2 * {a})"
        return self.one(
            [f"{name} = gt.cond({self.test()}, lambda: {a}, lambda: {b})"],
            [f"_, {name} = gt.while_loop(lambda i, z: i < {self.turns()}, {turn}, (gt.constant(0), {b}))"],
            [f"{name} = gt.switch_case(k % 2, [lambda: {a}, lambda: {b}])"],
            [f"{name} = gt.foldl(lambda p, q: 0.6 * p + 0.1 * q, x, initializer={a})"],
        )

    # -- tapes -----------------------------------------------------------------------------------------------------------

    def watched(self) -> tuple[list[str], str, str]:
        """Lines that make a tensor of its own to be watched, its name, and the name it stands for."""
        name, w = self.changeable(), self.fresh("w")
        return [f"{w} = {name} = {name} * 1.0"], w, name

    def write_tape(self, depth: int) -> list[str]:
        before, w, name = self.watched()
        tape, z = self.fresh("tape"), self.fresh("z")
        return [
            *before,
            f"with gt.GradientTape() as {tape}:",
            f"    {tape}.watch({w})",
            *self.inner(depth),
            f"    {z} = gt.reduce_sum(gt.sin({name}) * {self.scalar()})",
            f"{name} = 0.5 * {tape}.gradient({z}, {w}, unconnected_gradients='zero') + 0.1 * {w}",
        ]

    def write_persistent(self, depth: int) -> list[str]:
        """A persistent tape that is asked twice; the second question is about the first answer."""
        before, w, name = self.watched()
        tape, z, g = self.fresh("tape"), self.fresh("z"), self.fresh("g")
        again = self.one(
            f"{name} = 0.4 * {g} + 0.2 * {tape}.gradient({z}, {w}, unconnected_gradients='zero')",
            f"{name} = 0.3 * {tape}.gradient({g} * {w}, {w}, unconnected_gradients='zero')",
            f"{name} = 0.3 * {tape}.gradient({g}, {w}, unconnected_gradients='zero') + 0.1 * {g}",
        )
        inside = self.random.random() < 0.7
        return [
            *before,
            f"with gt.GradientTape(persistent=True) as {tape}:",
            f"    {tape}.watch({w})",
            *self.inner(depth, 1),
            f"    {z} = gt.reduce_sum({name} * gt.sin({w}))",
            f"{'    ' * inside}{g} = {tape}.gradient({z}, {w}, unconnected_gradients='zero')",
            f"{'    ' * inside}{again}",
            f"del {tape}",
        ]

    def write_constant_tape(self, depth: int) -> list[str]:
        """A tape that watches a constant made here."""
        tape, c, z, name = self.fresh("tape"), self.fresh("c"), self.fresh("z"), self.changeable()
        made = self.one(
            f"gt.constant({self.constant()}, gt.float64)",
            "gt.ones([], gt.float64)",
            f"gt.zeros([], gt.float64) + {self.constant()}",
        )
        return [
            f"{c} = {made}",
            f"with gt.GradientTape() as {tape}:",
            f"    {tape}.watch({c})",
            f"    {z} = {c} * {self.scalar()} + {c} * {c}",
            f"    for _ in gt.range({self.turns()}):",
            f"        {z} = {self.one(f'{z} * {c}', f'gt.sin({z}) + {c}', f'ruled({z}) * {c}', f'nested({z}) * {c}')}",
            f"{name} = {self.same(name)} * {tape}.gradient({z}, {c})",
        ]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def program(seed: int) -> str:
    """The text of one program; its last lines return every floating tensor it made, one per line."""
    writer = Writer(Random(seed))
    lines = ["t = x * 1.0", "s = gt.sin(y)", "q = m * 0.5"]
    writer.names |= {"t": (4,), "s": (), "q": (2, 3)}
    for _ in range(writer.random.randint(2, 6)):
        lines += writer.statement(0)
    names = [name for name in writer.names if name not in ("x", "y", "m")]
    return HEAD + "\n".join(indented([*lines, "return [", *indented([f"{name}," for name in names]), "]"])) + "\n"
