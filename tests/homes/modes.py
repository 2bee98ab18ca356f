"""How a case is run: the second axis of the home test.

Every mode gives an `Answer`: the numbers of the result, the gradient of a weighted sum of them with respect to every floating
tensor and variable it can see, and the gradient of that gradient in a fixed direction; or in forward mode, these along a fixed
direction. Nothing here compares (`compare.py`).
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import gradtape as gt
from tests.homes.cases import Case
from tests.homes.homes import ARGUMENT, Home, Placed, placed
from tests.zoo.checks import SEED, directions, floating, weighted


@dataclass
class Answer:
    """What a run gave. Derivatives are lists with one entry per source; None where the mode cannot see that source."""

    values: list[Any]
    first: list[Any] = field(default_factory=list)
    second: list[Any] = field(default_factory=list)
    slopes: list[Any] = field(default_factory=list)  # of the value, and of the gradient in its direction, in forward mode


@dataclass(frozen=True)
class Mode:
    """A mode: `run` gives one answer per example."""

    name: str
    run: Callable[[Case, list[Home]], list[Answer]]
    count: int = 1  # examples

    def __str__(self) -> str:
        return self.name


def leaves(result: Any) -> list[Any]:
    """The numbers of a result as tensors."""
    made = []
    for leaf in gt.nest.flatten(result):
        if isinstance(leaf, gt.TensorArray):
            leaf = leaf.stack()
        if isinstance(leaf, (bool, int, float, np.ndarray, np.generic)) or gt.is_tensor(leaf):
            made.append(gt.convert_to_tensor(leaf))
    return made


def against(gradients: list[Any], sources: list[Any]) -> Any:
    """<gradient, u> for the fixed directions u."""
    along = directions(sources, 2.0)
    parts = [gt.reduce_sum(gt.convert_to_tensor(g) * gt.constant(u)) for g, u in zip(gradients, along, strict=True)]
    return gt.add_n(parts)


def tangents_of(sources: list[Any]) -> list[Any]:
    return [gt.constant(u, source.dtype) for u, source in zip(directions(sources, 1.0), sources, strict=True)]


def differentiated(call: Callable[[], Any], sources: list[Any], order: int) -> tuple[list[Any], list[Any], list[Any]]:
    """The leaves of the result, and derivatives with respect to the sources by tapes that are opened here."""
    if not order or not sources:
        return leaves(call()), [], []
    if order == 1:
        with gt.GradientTape(through_assignments=True) as tape:
            tape.watch(sources)
            result = call()
            loss = weighted(result)
        return leaves(result), tape.gradient(loss, sources, unconnected_gradients="zero"), []
    with gt.GradientTape(through_assignments=True) as outer:
        outer.watch(sources)
        with gt.GradientTape(through_assignments=True) as tape:
            tape.watch(sources)
            result = call()
            loss = weighted(result)
        first = tape.gradient(loss, sources, unconnected_gradients="zero")
        total = against(first, sources)
    return leaves(result), first, outer.gradient(total, sources, unconnected_gradients="zero")


class Stage:
    """One run: a fresh copy of the case with its tensors in their homes."""

    def __init__(self, case: Case, homes: list[Home], arrays: list[Any] | None = None) -> None:
        self.case = case
        self.instance = case.make()
        self.place: Placed = placed(homes, case.arrays() if arrays is None else arrays)
        gt.random.set_seed(SEED)

    def compiled(self, function: Any, **options: Any) -> Any:
        if self.place.signature is not None:
            options["input_signature"] = self.place.signature
        return gt.function(function, **options)

    def call(self, tensors: list[Any]) -> Any:
        return self.instance.step(*self.case.packed(tensors))

    def sources(self, tensors: list[Any]) -> list[Any]:
        return [t for t in tensors if floating(t)] + list(self.instance.variables)

    def inside(self, *passed: Any) -> Any:
        """The run with its tapes inside."""
        tensors = self.place.settle(passed)
        return differentiated(lambda: self.call(tensors), self.sources(tensors), self.case.order)

    def plain(self, *passed: Any) -> Any:
        """The run without tapes."""
        return self.call(self.place.settle(passed))

    def seen(self) -> list[Any]:
        return self.sources([t for t in self.place.visible if t is not None])

    def hidden(self) -> bool:
        """Whether some floating tensor cannot be seen from outside."""
        pairs = zip(self.place.visible, self.case.arrays(), strict=True)
        return any(outside is None and array.dtype.kind == "f" for outside, array in pairs)

    def spread(self, found: list[Any]) -> list[Any]:
        """Derivatives of the sources seen from outside, with None for those that are not."""
        if not found:
            return []
        rest = iter(found)
        kinds = [array.dtype.kind == "f" for array in self.case.arrays()]
        spread = [
            None if outside is None else next(rest) for outside, kind in zip(self.place.visible, kinds, strict=True) if kind
        ]
        return [*spread, *rest]


def numbers(tensors: Any) -> list[Any]:
    return [None if t is None else np.asarray(t) for t in tensors]


def _eager(case: Case, homes: list[Home]) -> list[Answer]:
    stage = Stage(case, homes)
    return [Answer(*map(numbers, stage.inside(*stage.place.passed)))]


def _inside(**options: Any) -> Callable[..., list[Answer]]:
    def run(case: Case, homes: list[Home]) -> list[Answer]:
        stage = Stage(case, homes)
        return [Answer(*map(numbers, stage.compiled(stage.inside, **options)(*stage.place.passed)))]

    return run


def _outside(**options: Any) -> Callable[..., list[Answer]]:
    def run(case: Case, homes: list[Home]) -> list[Answer]:
        stage = Stage(case, homes)
        step = stage.compiled(stage.plain, **options)
        # a second derivative is one of the gradient in a direction: of all sources, or it is another number
        order = min(case.order, 1 if stage.hidden() else 2)
        values, first, second = differentiated(lambda: step(*stage.place.passed), stage.seen(), order)
        return [Answer(numbers(values), numbers(stage.spread(first)), numbers(stage.spread(second)))]

    return run


def _forward(compile: bool, **options: Any) -> Callable[..., list[Answer]]:
    """An accumulator around a call of the function, with a tape for the second order between them."""

    def run(case: Case, homes: list[Home]) -> list[Answer]:
        stage = Stage(case, homes)
        step = stage.compiled(stage.plain, **options) if compile else stage.plain
        sources = stage.seen()
        if not case.order or not sources:
            return [Answer(numbers(leaves(step(*stage.place.passed))))]
        tangents = tangents_of(sources)
        with gt.autodiff.ForwardAccumulator(sources, tangents) as accumulator:
            if case.order == 1:
                result = step(*stage.place.passed)
                targets = [weighted(result)]
            else:
                with gt.GradientTape(through_assignments=True) as tape:
                    tape.watch(sources)
                    result = step(*stage.place.passed)
                    loss = weighted(result)
                targets = [loss, against(tape.gradient(loss, sources, unconnected_gradients="zero"), sources)]
        if stage.hidden():  # eager code moves in directions that are not seen here
            return [Answer(numbers(leaves(result)))]
        slopes = [accumulator.jvp(t, unconnected_gradients="zero") for t in targets]
        return [Answer(numbers(leaves(result)), slopes=numbers(slopes))]

    return run


def _forward_inside(case: Case, homes: list[Home]) -> list[Answer]:
    stage = Stage(case, homes)

    def pushed(*passed: Any) -> Any:
        tensors = stage.place.settle(passed)
        sources = stage.sources(tensors)
        if not case.order or not sources:
            return leaves(stage.call(tensors)), []
        tangents = tangents_of(sources)
        with gt.autodiff.ForwardAccumulator(sources, tangents) as accumulator:
            result = stage.call(tensors)
            loss = weighted(result)
        return leaves(result), [accumulator.jvp(loss, unconnected_gradients="zero")]

    values, slopes = stage.compiled(pushed, jit_compile=False)(*stage.place.passed)
    return [Answer(numbers(values), slopes=numbers(slopes))]


def examples(case: Case, homes: list[Home], count: int) -> list[list[Any]]:
    """The case's arrays, and the same with what is passed a little moved, integers as they are."""
    given = list(zip(homes, case.arrays(), strict=True))
    return [
        [
            a + (1e-3 * k * np.cos(a)).astype(a.dtype) if home.visible == "passed" and a.dtype.kind == "f" else a
            for home, a in given
        ]
        for k in range(count)
    ]


def _mapped(count: int, compile: bool = False) -> Callable[..., list[Answer]]:
    """`vectorized_map` over examples of what is passed; what has another home is the same for all."""

    def run(case: Case, homes: list[Home]) -> list[Answer]:
        homes = [
            ARGUMENT if home.unknown and a.dtype.kind == "f" else home for home, a in zip(homes, case.arrays(), strict=True)
        ]
        stage = Stage(case, homes)
        rows = [Stage(case, homes, arrays).place.passed for arrays in examples(case, homes, count)]
        moving = [p.dtype.is_floating for p in stage.place.passed]
        batch = [gt.stack(column) for column, moves in zip(zip(*rows, strict=True), moving, strict=True) if moves]

        def one(example: Any) -> Any:
            rest = iter(example[1:])
            passed = [next(rest) if moves else p for p, moves in zip(stage.place.passed, moving, strict=True)]
            return stage.inside(*passed)

        def whole(*batch: Any) -> Any:
            return gt.vectorized_map(one, [gt.zeros([count]), *batch])

        found = (gt.function(whole, jit_compile=False) if compile else whole)(*batch)
        values, first, second = ([np.asarray(t) for t in part] for part in found)
        return [Answer([v[k] for v in values], [g[k] for g in first], [h[k] for h in second]) for k in range(count)]

    return run


EAGER = Mode("eager", _eager)
MODES = (
    EAGER,
    Mode("tape inside, native", _inside(jit_compile=True)),
    Mode("tape inside, interpreted", _inside(jit_compile=False)),
    Mode("tape outside, native", _outside(jit_compile=True)),
    Mode("tape outside, interpreted", _outside(jit_compile=False)),
    Mode("mapped over one example", _mapped(1)),
    Mode("mapped over two examples", _mapped(2), 2),
    Mode("mapped in a function", _mapped(2, compile=True), 2),
    Mode("forward, eager", _forward(False)),
    Mode("forward, compiled", _forward(True, jit_compile=False)),
    Mode("forward inside", _forward_inside),
)
NATIVE = tuple(mode for mode in MODES if "native" in mode.name)
COMPILED = tuple(mode for mode in MODES if mode is not EAGER and mode not in NATIVE)


def reference(case: Case, homes: list[Home], count: int = 1) -> list[Answer]:
    """What eager code gives for tensors in these homes, one answer per example."""
    answers = []
    for arrays in examples(case, homes, count):
        stage = Stage(case, homes, arrays)
        answer = Answer(*map(numbers, stage.inside(*stage.place.passed)))
        answer.slopes = [
            sum(float(np.sum(g * u)) for g, u in zip(part, directions(part, 1.0), strict=True))
            for part in (answer.first, answer.second)
            if part
        ]
        answers.append(answer)
    return answers


@contextlib.contextmanager
def quiet() -> Any:
    """Nothing is printed; what is said about derivatives that are zero is not this test's business."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        np.errstate(all="ignore"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", gt.errors.GradientWarning)
        yield
