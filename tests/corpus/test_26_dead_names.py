"""Names that nobody reads after a branch had to have one type on both sides of it.

`if …: return …` followed by `x = x[:2]` was refused because `x` had shape (3,) on one path and (2,) on the other, although no
path reads it after they meet. Each side of a branch has an end of its own: a side that returns, breaks, continues or raises
keeps only what is read where it goes. `random_source` writes functions that change shapes on sides that leave, under loops,
`try`, `with` and `match`.
"""

from __future__ import annotations

from random import Random

import pytest

import gradtape as gt
from tests.corpus.modes import agree
from tests.harness.seeds import everything

POINTS = [([0.7, -0.4, 1.1],), ([-0.9, 0.8, 0.3],)]
PROGRAMS = []


def program(*inputs):
    def register(function):
        PROGRAMS.append((function, inputs or POINTS))
        return function

    return register


@program()
def early_return(x):
    if x[0] > 0.0:
        return gt.reduce_sum(x * x)
    x = x[:2]
    return gt.reduce_sum(x * x * x)


@program()
def bound_in_a_test(x):
    if (first := x[0]) > 0.0:
        s = first * (rest := x[1:])[0]
    elif (rest := gt.reduce_sum(x)) > 0.2:
        return rest * first
    else:
        s = rest - first
    return s * x[1]


@program()
def bound_in_one_side(x):
    if x[0] > 0.0 and (w := gt.sin(x[1])) < 0.5:
        return w * x[0]
    while (y := gt.reduce_sum(x * x)) < 2.0:
        x = x * 1.5
    return y * (z if (z := x[2]) > 0.0 else -z)


@program()
def bound_in_loops(x):
    total = x[0] * 0.0
    for i in gt.range(3):
        if (part := gt.gather(x, i)) > 0.0:
            total = total + (square := part * part) * part
        else:
            square = part[None]
            total = total - square[0]
    return total + (last := [(kept := x[k] * 2.0) for k in range(2)][1]) * last + kept


@program()
def a_list_changed_on_one_side(x):
    values = [x[0], x[1]]
    if x[0] > 0.0:
        values.append(x[2] * 2.0)
        s = values[2]
    else:
        s = values[0]
    return s * x[1]


@program()
def both_sides_rebind(x):
    if x[0] > 0.0:
        x = x[:2]
        s = gt.reduce_sum(gt.sin(x))
    else:
        x = x[1]
        s = x * x
    return s


@program()
def nested_returns(x):
    if x[0] > 0.0:
        x = x[:2]
        if x[1] > 0.0:
            x = x[:1]
            return gt.sin(x[0])
        x = x[1:]
        return x[0] * x[0]
    return x[2] ** 3


@program()
def fall_through_after_an_inner_return(x):
    z = 0.5
    if x[0] > 0.0:
        if x[1] > 0.0:
            x = x[:2]
            return gt.reduce_sum(x * x)
        z = gt.cos(x[1])
    return gt.reduce_sum(x) * z


@program(*[(x, n) for (x,) in POINTS for n in (gt.constant(0), gt.constant(3))])
def return_from_a_loop(x, n):
    s = x[0] * 0.0
    for _ in gt.range(n):
        if s > 0.5:
            x = x[:2]
            return gt.reduce_sum(x * x) + s
        x = gt.sin(x) + 0.1
        s = s + x[0] * x[1] + 0.4
    return s + x[2]


@program(*[(x, n) for (x,) in POINTS for n in (gt.constant(1), gt.constant(4))])
def continue_with_another_shape(x, n):
    s = x[0]
    for i in gt.range(n):
        y = x * 0.5
        if i % 2 == 0:
            y = y[:2]
            s += gt.reduce_sum(y * y)
            continue
        y = y[2]
        s = gt.sin(s) * y
    return s


@program()
def break_of_a_while(x):
    s = x[0] * 0.1
    while s < 2.0:
        y = x + s
        if y[0] > 1.2:
            y = y[1:]
            s = s * gt.reduce_sum(y)
            break
        y = y[:1]
        s = s + 0.3 + 0.1 * gt.reduce_sum(y * y)
    return s


@program()
def loop_then_another_shape(x):
    while gt.reduce_sum(x) < 2.0:
        if x[0] > 1.0:
            return gt.reduce_sum(x * x)
        x = x + 0.4 + 0.1 * gt.sin(x)
    x = x[:1]
    return gt.reduce_sum(x * x * x)


@program()
def in_try_and_finally(x):
    s = x[0]
    try:
        if s > 0.0:
            x = x[:2]
            s = gt.reduce_sum(x * x)
        else:
            x = x[:1]
            s = gt.reduce_sum(gt.cos(x))
    finally:
        s = s * 2.0
    return s


@program()
def in_a_match(x):
    match x.shape[0]:
        case 3:
            if x[0] > 0.0:
                x = x[:2]
                return gt.reduce_sum(x * x)
            x = x * 2.0
        case _:
            x = x[0]
    return gt.reduce_sum(x * x * x)


@program()
def under_a_tape(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x
        if x[0] > 0.0:
            y = y[:2]
            s = gt.reduce_sum(y**3)
        else:
            y = y[1]
            s = y**4
        y = s * 2.0
    return tape.gradient(y, x)


@program()
def a_side_that_raises(x):
    if x[0] > 5.0:
        x = x[:1]
        raise ValueError("too large")
    return gt.reduce_sum(x * x)


@program()
def structures_and_numbers(x):
    parts, k = [x, x * 2.0], 1
    if x[0] > 0.0:
        parts, k = (parts[0][:1], "other"), 2.5
        return parts[0][0] * k
    parts, k = {"first": parts[1], "second": x[:1]}, k + 1
    return gt.reduce_sum(parts["first"]) * k + parts["second"][0]


@program()
def a_list_only_one_side_goes_on_with(x):
    if x[0] > 0.0:
        if x[1] > 0.0:
            items = [x[:2]]
            return gt.reduce_sum(items[0] ** 2)
        items = [x, gt.sin(x)]
    else:
        items = [x * x, x]
    return gt.reduce_sum(items[0] * items[1])


@program()
def updates_in_place_on_a_side_that_leaves(x):
    y = x * 1.0
    if x[0] > 0.0:
        y[0] = x[1]
        z = y
        y = y[:2]
        return gt.reduce_sum(y * y) + z[2]
    y[1] = x[0] * x[2]
    return gt.reduce_sum(y * y)


@program()
def a_closure_still_reads_it(x):
    def total():
        return gt.reduce_sum(x * x)

    if x[0] > 0.0:
        x = gt.sin(x)
    return total()


@pytest.mark.parametrize(("function", "inputs"), [pytest.param(*p, id=p[0].__name__) for p in PROGRAMS])
def test_program(function, inputs):
    agree(function, *inputs)


def test_a_name_that_is_read_afterwards_is_still_refused_with_its_line():
    @gt.function
    def f(x):
        if x[0] > 0.0:
            x = x[0]
        return gt.reduce_sum(x)

    line = f.python_function.__code__.co_firstlineno + 2
    with pytest.raises(gt.errors.InvalidArgumentError, match=rf"line {line}: `x` has shape \(\) .* shape \(3,\)"):
        f(gt.constant([1.0, 2.0, 3.0]))


RETURN = "return s * gt.reduce_sum(w)"


class Writer:
    """Random functions of x (3,) and n: `w` changes its shape wherever nobody reads it where the paths meet."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.count = 0

    def test(self) -> str:
        return f"s {self.random.choice('<>')} {self.random.randint(-15, 25) / 10 + 0.013}"

    def use(self) -> str:
        return self.random.choice([
            "s = gt.sin(s) + gt.reduce_sum(w * w) * 0.3", "s = s * 0.5 + gt.reduce_mean(gt.cos(w))",
            "s = gt.reduce_sum(w) * 0.2 - s * s * 0.1",
        ])  # fmt: skip

    def fresh(self) -> str:
        return self.random.choice(["w = x * s", "w = gt.sin(x) + s", "w = x + 0.3"])

    def leaving(self, ways: tuple[str, ...]) -> list[str]:
        """A block that changes `w` as it likes and leaves, in a way after which nobody reads it."""
        cuts = self.random.sample(["w = w[:2]", "w = w[1:] * 2.0", "w = gt.reduce_sum(w)", "w = gt.concat([w, w], 0)"], 1)
        return [*cuts, self.use(), self.random.choice(ways)]

    def closing(self) -> list[str]:
        """A block that changes `w` as it likes and falls through: `w` is set anew afterwards."""
        cut = self.random.choice(["w = w[:2]", "w = w[0]", "w = gt.stack([w, w])", "w = w + s"])
        return [self.use(), cut, self.use()]

    def block(self, depth: int, ways: tuple[str, ...]) -> list[str]:
        lines: list[str] = []
        for _ in range(self.random.randint(1, 3)):
            kinds = ["use", "leave", "leave", "close"] + (["if", "loop", "wrap"] * 2 if depth < 2 else [])
            lines += getattr(self, f"write_{self.random.choice(kinds)}")(depth, ways)
        return lines

    def write_use(self, depth: int, ways: tuple[str, ...]) -> list[str]:
        return [self.use()]

    def write_leave(self, depth: int, ways: tuple[str, ...]) -> list[str]:
        return [f"if {self.test()}:", *indented(self.leaving(ways)), *self.maybe_else(depth, ways)]

    def maybe_else(self, depth: int, ways: tuple[str, ...]) -> list[str]:
        return ["else:", *indented([self.use()])] if self.random.random() < 0.4 else []

    def write_close(self, depth: int, ways: tuple[str, ...]) -> list[str]:
        other = ["else:", *indented(self.closing())] if self.random.random() < 0.6 else []
        return [f"if {self.test()}:", *indented(self.closing()), *other, self.fresh()]

    def write_if(self, depth: int, ways: tuple[str, ...]) -> list[str]:
        return [f"if {self.test()}:", *indented(self.block(depth + 1, ways)), "else:", *indented(self.block(depth + 1, ways))]

    def write_loop(self, depth: int, ways: tuple[str, ...]) -> list[str]:
        self.count += 1
        i = f"i{self.count}"
        head = self.random.choice([[f"for {i} in gt.range(n):"], [f"for {i} in range(2):"], None])
        start, after = ([self.fresh()] if self.random.random() < 0.5 else [] for _ in range(2))
        ways = (RETURN, *(["break"] if after else []), *(["continue"] if start and after else []))
        body = [*start, *self.block(depth + 1, ways)]
        if head is None:
            return [f"{i} = 0", f"while {i} < n and s < 3.0:", *indented([f"{i} += 1", *body]), *after]
        return [*head, *indented(body), *after]

    def write_wrap(self, depth: int, ways: tuple[str, ...]) -> list[str]:
        inner = indented(self.block(depth + 1, ways))
        kind = self.random.choice(["with", "finally", "match"])
        if kind == "with":
            return ['with gt.name_scope("a"):', *inner]
        if kind == "finally":
            return ["try:", *inner, "finally:", *indented(["s = s * 0.9 + 0.01"])]
        return ["match x.shape[0]:", "    case 3:", *indented(inner), "    case _:", "        s = -s"]

    def source(self) -> str:
        body = ["s = x[0] * 0.7", self.fresh(), *self.block(0, (RETURN,)), "return s + gt.reduce_sum(w)"]
        return "def program(x, n):\n" + "\n".join(indented(body)) + "\n"


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def random_source(seed: int) -> str:
    """The text of a random program."""
    return Writer(seed).source()


def random_program(seed: int, folder):
    path = folder / f"program_{seed}.py"
    path.write_text(source := random_source(seed))
    space = {"gt": gt}
    exec(compile(source, str(path), "exec"), space)
    return space["program"]


ARGUMENTS = [([0.7, -0.4, 1.1], gt.constant(2)), ([-0.9, 0.8, 0.3], gt.constant(3))]


@pytest.mark.parametrize("seed", range(0, 24, 1 if everything() else 2))  # every other one: they take longest here
def test_random_programs(seed, tmp_path):
    agree(random_program(seed, tmp_path), *ARGUMENTS, order=1, modes=["interpreted"])


@pytest.mark.parametrize("seed", [1, 22])
def test_random_programs_as_machine_code(seed, tmp_path):
    agree(random_program(seed, tmp_path), *ARGUMENTS)
