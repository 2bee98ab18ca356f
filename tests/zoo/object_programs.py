"""Random Python source about objects and their names: lists and tensors that are rebound, shared and changed in place inside
nested loops and branches, held by other lists, attributes and dicts too, or appended to lists.

`program(number)` gives the text of one function of `x` (three numbers) and `n` (a trip count). What matters is which object is
changed by which statement, so the arithmetic is trivial.
"""

from __future__ import annotations

from random import Random

LISTS, TENSORS = ("a", "b", "c"), ("t", "u", "v")
START = """\
def program(x, n):
    a, c = [x[0], x[1]], [x[2], x[0]]
    t, v = x * 1.0, x * 2.0
    b, u, held, rows = a, t, [t, v], [x * 0.1, x * 0.2]
    box = Box()
    box.list, box.tensor = c, v
"""
END = "    return {}, t, u, v, held[0], held[1], gt.add_n(rows), rows[0], box.tensor\n"


class _Writer:
    def __init__(self, random: Random, growing: bool) -> None:
        self.random = random
        self.growing = growing  # lists change their lengths
        self.loops = 0

    def one(self, *texts: str) -> str:
        return self.random.choice(texts)

    def value(self) -> str:
        i = self.random.randrange(3)
        return self.one(f"x[{i}] * 0.9", f"{self.one(*LISTS)}[0] * 0.5", f"{self.one(*TENSORS)}[{i}] * 0.5", "x[0] - x[1]")

    def test(self, counter: str) -> str:
        i = self.random.randrange(3)
        found = [
            f"x[{i}] > {self.one('0.0', '0.5', '1.0')}",
            f"{self.one(*LISTS)}[0] > 0.7",
            f"{self.one(*TENSORS)}[{i}] < 0.4",
        ]
        return self.one(*found, *([f"{counter} == {i}"] * 3 if counter else []))

    def block(self, depth: int, counter: str) -> list[str]:
        count = self.random.randrange(1, 4) if depth else self.random.randrange(4, 9)
        return [line for _ in range(count) for line in self.statement(depth, counter)]

    def statement(self, depth: int, counter: str) -> list[str]:
        kind = self.random.random()
        if depth < 3 and kind < 0.13:
            return self.branch(depth, counter)
        if depth < 3 and kind < 0.19 and self.loops < 3:
            return self.loop(depth)
        return [self.simple()]

    def branch(self, depth: int, counter: str) -> list[str]:
        lines = [f"if {self.test(counter)}:", *indented(self.block(depth + 1, counter))]
        if self.random.random() < 0.5:
            lines += ["else:", *indented(self.block(depth + 1, counter))]
        return lines

    def loop(self, depth: int) -> list[str]:
        self.loops += 1
        counter = f"i{self.loops}"
        body = self.block(depth + 1, counter)
        if self.random.random() < 0.3:
            body.insert(self.random.choice([0, len(body)]), f"if {self.test(counter)}: {self.one('break', 'continue')}")
        return [f"for {counter} in gt.range({self.one('3', 'n')}):", *indented(body)]

    def simple(self) -> str:
        a, b = self.one(*LISTS), self.one(*LISTS)
        t, u = self.one(*TENSORS), self.one(*TENSORS)
        i, j = self.random.randrange(3), self.random.randrange(2)
        changed = [
            f"{a}[{0 if self.growing else j}] = {self.value()}",
            f"{t}[{i}] = {self.value()}",
            f"held[{j}][1] = {self.value()}",
        ]
        rebound = [
            f"{a} = {b}",
            f"{a} = [{self.value()}, {self.value()}]",
            f"{t} = {u}",
            f"{t} = {u} * 0.5",
            f"{a}, {b} = {b}, {a}",
        ]
        stored = [
            f"box.list, box.tensor = {a}, {t}",
            f"{a} = box.list",
            f"{t} = box.tensor",
            f"held[{j}] = {t}",
            f"{t} = held[{j}]",
        ]
        groups = [changed, changed, rebound, stored]
        if self.growing:
            grown = [f"{a}.append({self.value()})", f"{a} += [{self.value()}]", f"rows.append({t})", f"rows[0] = {t}"]
            grown += [f"{t} = rows[{self.one('0', '-1')}]", f"rows[{self.one('0', '-1')}][{i}] = {self.value()}"]
            groups.append(grown)
        return self.one(*self.random.choice(groups))


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def program(number: int) -> str:
    """The text of one function."""
    random = Random(number)
    growing = number % 2 == 1
    body = "\n".join(indented(_Writer(random, growing).block(0, "")))
    last = random.choice(["    a[0] = a[0] + 1.0\n    u[0] = u[0] + 1.0\n", "    b[0] = b[0] + 1.0\n    t[1] = t[1] + 1.0\n"])
    lists = "gt.add_n(a), gt.add_n(b), gt.add_n(c)" if growing else "a[0], a[1], b[0], b[1], c[0], c[1], box.list[0]"
    return START + body + "\n" + last + END.format(lists)
