"""Every operation between ranks against finite differences of the global function: run by `mpiexec -n N python -m` this module.

The global function is what all ranks compute together from what all ranks have: a local target stands for the sum over ranks, a
replicated one for itself; a local source is N arrays, a replicated one is one. A case passes on all ranks or on none.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt

ranks = gt.distribute
N, ME = ranks.size(), ranks.rank()
RNG = np.random.default_rng(7)
STEP = 1e-5

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "all_reduce sum": lambda x: ranks.all_reduce(x),
    "all_reduce mean": lambda x: ranks.all_reduce(x, "mean"),
    "all_reduce max": lambda x: ranks.all_reduce(x, "max"),
    "all_reduce min": lambda x: ranks.all_reduce(x, "min"),
    "all_reduce prod": lambda x: ranks.all_reduce(x, "prod"),
    "all_gather": lambda x: ranks.all_gather(x),
    "all_gather axis 1": lambda x: ranks.all_gather(x, axis=1),
    "all_to_all": lambda x: ranks.all_to_all(x),
    "all_to_all axes": lambda x: ranks.all_to_all(x, split_axis=0, concat_axis=1),
    "broadcast": lambda x: ranks.broadcast(x, root=N - 1),
    "replicated": lambda x: ranks.replicated(x),
    "reduce": lambda x: ranks.reduce(x, root=N - 1),
    "reduce mean": lambda x: ranks.reduce(x, "mean"),
    "gather": lambda x: ranks.gather(x, root=N - 1),
    "gather axis 1": lambda x: ranks.gather(x, axis=1),
    "scatter": lambda x: ranks.scatter(x, root=N - 1),
    "reduce_scatter": lambda x: ranks.reduce_scatter(x),
    "sendrecv ring": lambda x: ranks.sendrecv(x, dest=(ME + 1) % N, source=(ME - 1) % N),
    "sendrecv line": lambda x: ranks.sendrecv(x, dest=ME + 1 if ME + 1 < N else None, source=ME - 1 if ME else None),
    "halo_exchange": lambda x: ranks.halo_exchange(x),
    "halo_exchange wide": lambda x: ranks.halo_exchange(x, width=2, axis=1),
    "halo_exchange periodic": lambda x: ranks.halo_exchange(x, periodic=True),
    "send and recv": lambda x: _message(x),
    "two in a row": lambda x: ranks.all_reduce(gt.sin(ranks.halo_exchange(x)), "mean") * x[0, 0],
    "one rank alone uses it": lambda x: (ranks.all_reduce(x), x)[ME > 0] * x,
    "one rank alone gives": lambda x: ranks.all_reduce(x if ME == N - 1 else gt.zeros((12, 3), gt.float64)),
}


def _message(x: Any) -> Any:
    """Rank 0 sends to the last one."""
    if N == 1:
        return x
    if ME == 0:
        ranks.send(gt.sin(x), dest=N - 1)
    return x * ranks.recv(x.shape, source=0, dtype=x.dtype) if ME == N - 1 else x


def draw(*shape: int, shared: bool = False) -> np.ndarray:
    """Numbers of this rank, or of all; every rank draws all of them, so that a sequence of draws is the same on all."""
    everybody = RNG.normal(size=(N, *shape))
    return everybody[0 if shared else ME].copy()


def total(value: float) -> float:
    return float(gt.distribute.all_reduce(gt.constant(np.float64(value))).numpy())


class Case:
    """loss(source): `shared_target`, `shared_source` say which are replicated."""

    def __init__(self, operation: Any, shared_target: bool, shared_source: bool, compiled: bool | None) -> None:
        self.operation, self.shared_target, self.shared_source = operation, shared_target, shared_source
        self.x = draw(12, 3, shared=shared_source)
        self.scale, self.weight = draw(12, 3), np.array(draw())
        self.direction = draw(12, 3, shared=shared_source)
        self.loss = self._loss if compiled is None else gt.function(self._loss, jit_compile=compiled)

    def source(self, shift: float = 0.0) -> Any:
        x = self.x + shift * self.direction
        return ranks.replicated(x) if self.shared_source else gt.constant(x)

    def _loss(self, x: Any) -> Any:
        y = self.operation(gt.sin(x) * self.scale)
        local = gt.reduce_sum(y * y * y) * self.weight
        return ranks.all_reduce(local) if self.shared_target else local

    def value(self, shift: float) -> float:
        """The global function."""
        loss = float(self.loss(self.source(shift)).numpy())
        return loss if self.shared_target else total(loss)

    def gradient(self, shift: float = 0.0) -> Any:
        x = self.source(shift)
        with gt.GradientTape() as tape:
            tape.watch(x)
            loss = self.loss(x)
        return tape.gradient(loss, x, unconnected_gradients="zero")

    def along(self, slope: Any) -> float:
        """Of a gradient, the part in our direction, over all ranks."""
        part = float(np.sum(slope.numpy() * self.direction))
        return part if self.shared_source else total(part)

    def inner(self, slope: Any) -> Any:
        """The same as a target: local for local slopes, replicated for replicated ones."""
        return gt.reduce_sum(slope * (ranks.replicated(self.direction) if self.shared_source else self.direction))

    def first(self) -> str:
        expected = (self.value(STEP) - self.value(-STEP)) / (2 * STEP)
        return compare("gradient", self.along(self.gradient()), expected)

    def forward(self) -> str:
        x = self.source()
        with gt.autodiff.ForwardAccumulator(x, gt.constant(self.direction)) as acc:
            loss = self.loss(x)
        slope = acc.jvp(loss)
        slope = 0.0 if slope is None else float(slope.numpy())
        return compare("jvp", slope if self.shared_target else total(slope), self.along(self.gradient()))

    def second(self) -> str:
        expected = (self.along(self.gradient(STEP)) - self.along(self.gradient(-STEP))) / (2 * STEP)
        x = self.source()
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as inner:
                inner.watch(x)
                loss = self.loss(x)
            slope = self.inner(inner.gradient(loss, x, unconnected_gradients="zero"))
        problem = compare("second gradient", self.along(outer.gradient(slope, x, unconnected_gradients="zero")), expected)
        if problem:
            return problem
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            loss = self.loss(x)
            slope = tape.gradient(loss, x, unconnected_gradients="zero")
            slope = self.inner(slope)
        return compare(
            "second gradient of a persistent tape", self.along(tape.gradient(slope, x, unconnected_gradients="zero")), expected
        )

    def second_forward(self) -> str:
        expected = (self.along(self.gradient(STEP)) - self.along(self.gradient(-STEP))) / (2 * STEP)
        x = self.source()
        with gt.autodiff.ForwardAccumulator(x, gt.constant(self.direction)) as acc:
            with gt.GradientTape() as tape:
                tape.watch(x)
                loss = self.loss(x)
            slope = tape.gradient(loss, x, unconnected_gradients="zero")
        return compare("jvp of the gradient", self.along(acc.jvp(slope, unconnected_gradients="zero")), expected)


def compare(what: str, actual: float, expected: float) -> str:
    fits = abs(actual - expected) <= 2e-6 * max(1.0, abs(expected))
    return "" if fits else f"{what}: {actual!r} against {expected!r}"


def main(compiled: bool | None, everything: bool) -> None:
    """All kinds of targets and sources; without `everything` one of the four pairs per operation."""
    problems: dict[str, str] = {}
    for number, (name, operation) in enumerate(OPERATIONS.items()):
        if compiled is not None and "alone" in name:
            continue  # all ranks run the same program
        for shared_target in (False, True):
            for shared_source in (False, True):
                if not everything and 2 * shared_target + shared_source != (number + N) % 4:
                    continue
                case = Case(operation, shared_target, shared_source, compiled)
                kinds = [("replicated" if shared else "local") for shared in (shared_target, shared_source)]
                label = f"{name}: {kinds[0]} target, {kinds[1]} source"
                for check in (case.first, case.forward, case.second, case.second_forward):
                    if (problem := check()) and label not in problems:
                        problems[label] = f"rank {ME}: {problem}"
                problems.setdefault(label, "")
    # what a rank sees wrong is wrong
    for label, problem in problems.items():
        bad = float(gt.distribute.all_reduce(gt.constant(float(bool(problem))), "max").numpy())
        if bad and not problem:
            problems[label] = "wrong on another rank"
    if ME == 0:
        print(json.dumps(problems), flush=True)


if __name__ == "__main__":
    main({"eager": None, "numpy": False, "native": True}[sys.argv[1]], "--all" in sys.argv)
