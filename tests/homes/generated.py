"""The random cases of the home test, by generator: each gives the case of a number, always the same one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.ad.evaluation import evaluate
from gradtape.errors import InvalidArgumentError
from tests.backends.random_arrays import random_program
from tests.homes import programs as home_programs
from tests.homes.cases import Case, of_text
from tests.homes.homes import ARGUMENT
from tests.homes.modes import quiet, reference
from tests.tape import test_random_programs as machines, test_random_tapes as histories
from tests.zoo import object_programs, programs, sized_programs
from tests.zoo.registry import Instance

X = np.array([0.31, -0.52, 0.77])
START = np.array([0.45, -0.35, 0.85])


def _homes(seed: int) -> Case:
    return of_text(f"program {seed}", home_programs.program(seed), home_programs.GIVEN)


def _written(writer: programs.Writer, length: int) -> tuple[str, ...]:
    return tuple(line for _ in range(length) for line in writer.statement(0))


def _function(seed: int) -> Case:
    random = Random(seed)
    size, length = random.randint(1, 4), random.randint(1, 5)
    text = programs.HEAD + programs.Program(_written(programs.Writer(random, size), length)).text("program")
    return of_text(f"function {seed}", text, (X, np.int32(random.randint(0, 3))), START)


def _sized(seed: int) -> Case:
    random = Random(seed)
    size, length = random.randint(1, 3), random.randint(1, 4)
    lines = _written(sized_programs.SizedWriter(random, size), length)
    text = programs.HEAD + programs.Program((*sized_programs.FIRST, *lines, *sized_programs.LAST)).text("program")
    case = of_text(f"sized function {seed}", text, (X, np.int32(random.randint(1, 3))), START)
    try:
        with quiet():
            reference(case, [ARGUMENT, ARGUMENT])
    except InvalidArgumentError:  # sizes that do not fit, in eager code too: no program
        return _sized(seed + 100_000)
    return case


def _objects(seed: int) -> Case:
    text = "import gradtape as gt\n\n\nclass Box:\n    pass\n\n\n" + object_programs.program(seed)
    return of_text(f"objects {seed}", text, (np.array([0.6, 1.1, -0.95]), np.int32(seed % 3)), order=1 + (seed % 2))


def _arrays(seed: int) -> Case:
    """A block of array operations, run operation by operation as a user's function would be."""
    block, arrays = random_program(seed)
    doubles = [np.asarray(a, np.float64) for a in arrays]
    if any(a.dtype != np.float64 for a in map(np.asarray, arrays)) or sum(a.size for a in doubles) > 400:
        return _arrays(seed + 100_000)

    @gt.autograph.experimental.do_not_convert
    def step(*tensors: Any) -> Any:
        return evaluate(block, list(tensors))

    return Case(f"arrays {seed}", lambda: Instance(step), tuple(doubles), 2)


def _steps(random: Random, most: int, depth: int = 0) -> list[Any]:
    """A program for the machine of `tests/tape/test_random_programs.py`."""
    place, leaf = random.randrange, ["sin", "tanh", "square", "exp", "scale", "shift"]
    simple = [
        ("unary", random.choice(leaf)),
        ("setitem", place(3), place(3), random.choice(leaf)),
        ("setslice", random.choice(["add", "mul"])),
        ("append",),
        ("replace", place(3)),
        ("collect",),
        ("assign", random.choice(leaf)),
        ("assign_add", place(3)),
        ("array",),
        ("custom",),
        ("recompute", random.choice(leaf)),
        ("inner", random.choice(leaf)),
    ]
    nested = (
        [
            ("loop", random.randint(0, 3), _steps(random, 2, depth + 1)),
            ("branch", place(3), _steps(random, 2, depth + 1), _steps(random, 2, depth + 1)),
        ]
        if depth < 2
        else []
    )
    return [random.choice([*simple, *nested]) for _ in range(random.randint(1, most))]


class Machine(machines.Machine):
    """The machine with a branch that programs have: which list of steps is meant cannot depend on a tensor."""

    def branch(self, i: int, yes: Any, no: Any) -> None:
        if self.t[i] > 0.0123456789:
            self.loop(1, yes)
        else:
            self.loop(1, no)


def _machine(seed: int) -> Case:
    steps = _steps(Random(seed), 6)

    def make() -> Instance:
        state = gt.Variable(np.full(3, 0.3), trainable=False)
        return Instance(lambda x: Machine(x, state).run(steps), variables=(state,))

    return Case(f"machine {seed}: {steps}", make, (X,), 2)


def _history(seed: int) -> Case:
    """Events of `tests/tape/test_random_tapes.py`: what three tapes answer, in the middle and at the end."""
    random = Random(seed)
    slot, variable = (lambda: random.randrange(histories.SLOTS)), (lambda: random.randrange(histories.VARIABLES))
    tape = lambda: random.randrange(histories.TAPES)  # noqa: E731
    events: list[tuple[Any, ...]] = [("enter", tape()), ("watch", 0, slot()), ("watch", 1, slot()), ("watch", 2, slot())]
    for _ in range(random.randint(5, 20)):
        events.append(
            random.choice(
                [
                    ("enter", tape()),
                    ("leave", tape()),
                    ("pause", tape()),
                    ("resume", tape()),
                    ("watch", tape(), slot()),
                    ("mul", slot(), slot(), slot()),
                    ("add", slot(), slot(), slot()),
                    ("sin", slot(), slot()),
                    ("move", slot(), slot()),
                    ("read", variable(), slot(), slot()),
                    ("assign", variable(), slot()),
                    ("assign_add", variable(), slot()),
                    ("gradient", tape(), slot(), slot()),
                ]
            )
        )

    def make() -> Instance:
        variables = [gt.Variable(np.float64(v)) for v in (0.6, -0.8)]
        return Instance(lambda x: Replay(x, variables).play(events), variables=tuple(variables))

    return Case(f"history {seed}: {events}", make, (np.array([0.3, 0.7, 1.1, -0.4]),), 1)


class Replay(histories.World):
    """A history whose values are tensors of a function: its answers are collected, not compared with the model."""

    def __init__(self, x: Any, variables: Any) -> None:
        super().__init__(variables)
        self.slots = [histories.Value(0.5, x[i] * 1.0) for i in range(histories.SLOTS)]
        self.answers: list[Any] = []

    def check(self, k: int, value: Any) -> None:
        sources = [*(source.tensor for source in self.sources[k]), *self.variables]
        self.answers += [0.0 if g is None else g for g in self.tapes[k].gradient(value.tensor, sources)]

    def play(self, events: Any) -> list[Any]:
        try:
            for event in events:
                getattr(self, event[0])(*event[1:])
        finally:
            for k in range(histories.TAPES):
                self.resume(k)
                self.leave(k)
        for k in range(histories.TAPES):
            for value in self.slots:
                self.check(k, value)
        return [
            gt.add_n([gt.constant(0.0, gt.float64), *map(gt.convert_to_tensor, self.answers)]),
            *(value.tensor for value in self.slots),
        ]


GENERATORS: dict[str, tuple[Callable[[int], Case], int]] = {  # with how many cases of ten are its own
    "homes": (_homes, 3),
    "functions": (_function, 2),
    "sized functions": (_sized, 1),
    "objects": (_objects, 1),
    "arrays": (_arrays, 1),
    "machines": (_machine, 1),
    "histories": (_history, 1),
}
