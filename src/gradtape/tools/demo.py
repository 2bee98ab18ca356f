"""`gradtape demo`: a tour in under a minute. Checks a gradient, takes a second derivative, differentiates a loop and a
branch, trains a small classifier on two spirals, draws what it learned, and ends with a report on all its tapes.

It is written as a user's program would be, and observed as `gradtape run` observes one. The data are made here; nothing is
downloaded.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from gradtape.config import VERSION
from gradtape.core.record import INTERNAL
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.ops.create import constant
from gradtape.ops.elementwise import abs as absolute, exp, log, sin, tanh
from gradtape.ops.matmul import matmul
from gradtape.ops.reduce import reduce_mean, reduce_sum
from gradtape.ops.select import maximum
from gradtape.ops.shape import reshape
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools import svg
from gradtape.tools.gradcheck import compute_gradient
from gradtape.tools.picture_page import write
from gradtape.tools.report import Collector
from gradtape.tools.report_page import report_page
from gradtape.tools.runner import Ran
from gradtape.train.module import Module
from gradtape.train.optimizers.rules import Adam
from gradtape.train.optimizers.schedules import CosineDecay
from gradtape.variables.variable import Variable

BLUE, ORANGE = "#2563eb", "#ea580c"


def run(output: str, steps: int = 1000, seed: int = 0) -> dict[str, float]:
    """Run the tour, write the picture to `output` and the report beside it, and give the numbers that were printed."""
    started = time.perf_counter()
    print(f"gradtape {VERSION}: automatic differentiation with a tape")
    path = os.path.abspath(output)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    collector = Collector()
    INTERNAL.discard(__file__)  # here the lines of this file are the user's
    try:
        with collector.listening():
            numbers = _tour(path, steps, seed)
    finally:
        INTERNAL.add(__file__)
    seconds = time.perf_counter() - started
    report = write(
        os.path.join(os.path.dirname(path), "report.html"), report_page(collector, Ran("gradtape demo", 0, None, seconds))
    )
    print(f"\nPicture: {path}\nReport:  {report}  (open it in a browser: gradients, times and graphs of the tapes above)")
    print(f"Done in {time.perf_counter() - started:.1f} s. Your own script: gradtape run script.py --report report.html")
    return numbers


def _tour(path: str, steps: int, seed: int) -> dict[str, float]:
    numbers = {
        "gradient_error": _check_gradient(seed),
        "second_derivative_error": _second_derivative(),
        "loop_error": _loop(),
        "branch_error": _branch(),
    }
    print("\n5. A classifier of two spirals, trained with Adam")
    net, history = _train(steps, seed)
    accuracy, unseen = (_accuracy(net, *spirals(400, seed + i)) for i in (0, 1))
    print(f"   final loss {history[-1]:.4f}, accuracy {accuracy:.1%}, on unseen points {unseen:.1%}")
    _draw(path, net, history, *spirals(400, seed + 1), unseen)
    return {**numbers, "loss": history[-1], "accuracy": accuracy, "test_accuracy": unseen}


# -- four small exercises ------------------------------------------------------------------------------------------------


def _check_gradient(seed: int) -> float:
    print("\n1. The gradient of a small network, against central differences")
    x, w = (np.random.default_rng(seed).normal(size=size) for size in ((5, 3), (3, 2)))
    (exact,), (approximate,) = compute_gradient(lambda w: reduce_sum(sin(matmul(x, tanh(w))) ** 2), [w])
    error = float(np.max(np.abs(exact - approximate)) / np.max(np.abs(exact)))
    print(f"   {exact.size} entries, largest relative difference {error:.1e}")
    return error


def _second_derivative() -> float:
    print("\n2. A second derivative: tapes nest")
    x: Any = Variable(np.float64(1.2))
    with GradientTape() as outer:
        with GradientTape() as inner:
            y = exp(-x) * sin(x)
        slope = inner.gradient(y, x)
    curvature = float(outer.gradient(slope, x))
    exact = -2 * math.exp(-1.2) * math.cos(1.2)  # of e^(-x) sin x
    print(f"   d²/dx² e^(-x) sin x at 1.2 = {curvature:.12f}, exact {exact:.12f}")
    return abs(curvature - exact)


def _loop() -> float:
    print("\n3. A loop that runs until it has converged: Newton's square root")
    x: Any = Variable(np.float64(7.0))
    rounds = 0
    with GradientTape() as tape:
        root = x
        while abs(root * root - x) > 1e-13 * x:
            root = 0.5 * (root + x / root)
            rounds += 1
    slope = float(tape.gradient(root, x))
    exact = 0.5 / math.sqrt(7.0)
    print(f"   after {rounds} rounds √7 = {float(root):.12f}, d√x/dx = {slope:.12f}, exact {exact:.12f}")
    return abs(slope - exact)


def _branch() -> float:
    print("\n4. A branch on a value")
    error = 0.0
    for start, exact in ((2.0, 12.0), (-2.0, -1.0)):
        x: Any = Variable(np.float64(start))
        with GradientTape() as tape:
            y = x**3 if x > 0 else -x
        slope = float(tape.gradient(y, x))
        error = max(error, abs(slope - exact))
        print(f"   f(x) = x³ if x > 0 else -x: f'({start:g}) = {slope:g}")
    return error


# -- the classifier --------------------------------------------------------------------------------------------------------


def spirals(count: int, seed: int) -> tuple[Any, Any]:
    """`count` noisy points on two spirals that wind around each other, and the class of each."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    along = np.sqrt(random.uniform(0.02, 1.0, count))
    angle = along * 3.2 * np.pi + labels * np.pi
    points = np.stack([along * np.cos(angle), along * np.sin(angle)], axis=1) + random.normal(scale=0.02, size=(count, 2))
    return points.astype(np.float32), labels.astype(np.float32)


class Net(Module):
    """Two hidden layers of tanh; the sign of the output is the class."""

    def __init__(self, seed: int, width: int = 32) -> None:
        super().__init__()
        random = np.random.default_rng(seed)
        sizes = (2, width, width, 1)
        self.weights = [
            Variable(random.normal(scale=(2.0 if n == 2 else 1.0) / math.sqrt(n), size=(n, m)).astype(np.float32))
            for n, m in itertools.pairwise(sizes)
        ]
        self.biases = [Variable(np.zeros(m, np.float32)) for m in sizes[1:]]

    def __call__(self, x: TensorLike) -> Any:
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = tanh(matmul(x, w) + b)
        return reshape(matmul(x, self.weights[-1]) + self.biases[-1], [-1])


def _loss(logits: Tensor, labels: Tensor) -> Any:
    # mean of -log p(label), in the form that neither overflows nor cancels: max(z, 0) - z y + log(1 + e^-|z|)
    return reduce_mean(maximum(logits, 0.0) - logits * labels + log(1.0 + exp(-absolute(logits))))


def _train(steps: int, seed: int) -> tuple[Net, list[float]]:
    points, labels = (constant(v) for v in spirals(400, seed))
    net, optimizer = Net(seed), Adam(CosineDecay(0.02, steps))
    history = []
    for step in _progress(range(steps)):
        with GradientTape() as tape:
            loss = _loss(net(points), labels)
        variables = net.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        history.append(float(loss))
        if step % max(steps // 5, 1) == 0:
            _say(f"   step {step:5d}   loss {history[-1]:.4f}   accuracy {_accuracy(net, points, labels):.1%}")
    return net, history


def _accuracy(net: Net, points: TensorLike, labels: TensorLike) -> float:
    return float(np.mean((net(points).numpy() > 0) == (np.asarray(labels) > 0.5)))


def _progress(steps: Iterable[int]) -> Iterator[int]:
    """The steps, with a progress bar where tqdm is installed and somebody is watching."""
    bar = _tqdm()
    return iter(steps) if bar is None else iter(bar(steps, desc="   training", unit="step", leave=False, disable=None))


def _say(line: str) -> None:
    """Print without tearing the progress bar."""
    bar = _tqdm()
    (print if bar is None else bar.write)(line)


def _tqdm() -> Any:
    return import_module("tqdm").tqdm if find_spec("tqdm") else None


# -- the picture -----------------------------------------------------------------------------------------------------------


def _draw(path: str, net: Net, history: list[float], points: Array, labels: Array, accuracy: float) -> None:
    limit = 1.18
    axis = np.linspace(-limit, limit, 161, dtype=np.float32)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    logits = net(grid).numpy().reshape(len(axis), len(axis)).astype(np.float64)
    field = svg.Panel(
        80, 84, 420, 420, (-limit, limit), (-limit, limit), f"Decision boundary ({accuracy:.1%} of unseen points right)",
        "x₁", "x₂",
    )  # fmt: skip
    field.image(_shade(1.0 / (1.0 + np.exp(-np.clip(logits, -50, 50))))[::-1])
    field.segments(svg.contour(axis, axis, logits, 0.0), svg.INK, "boundary", 2.0)
    for label, color in ((0, BLUE), (1, ORANGE)):
        chosen = points[labels == label]
        field.points(chosen[:, 0], chosen[:, 1], color, f"class {label}")
    low = 10.0 ** math.floor(math.log10(max(min(history), 1e-12)))
    high = 10.0 ** math.ceil(math.log10(max(history)))
    curve = svg.Panel(590, 84, 420, 420, (0, len(history)), (low, high), "Training loss", "step", "cross-entropy", log=True)
    curve.line(range(len(history)), history, BLUE, "loss")
    document = svg.page(
        1050, 600,
        [svg.text(525, 38, "gradtape demo: two spirals, 2-32-32-1 network, Adam", 20, svg.INK, weight="600"),
         field.render(), curve.render()],
        "gradtape demo",
    )  # fmt: skip
    with open(path, "w", encoding="utf-8") as file:
        file.write(document)


def _shade(probability: Array) -> Any:
    """Light blue where class 0 is sure, white at the border, light orange where class 1 is."""
    ends = np.array([[191, 211, 250], [255, 255, 255], [254, 209, 176]], np.float64)
    t = probability[..., None] * 2
    colors = np.where(t < 1, ends[0] + t * (ends[1] - ends[0]), ends[1] + (t - 1) * (ends[2] - ends[1]))
    return colors.round().astype(np.uint8)
