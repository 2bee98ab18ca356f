"""What loops keep for their backward pass: the cheapest set of values, and never what must not run twice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradtape as gt
from gradtape.ad import keeping
from gradtape.ir.types import ListSpec
from gradtape.ir.walk import program
from gradtape.ops import registry
from tests.backends.build import program as built, tensor


def kept(f, *args):
    """The shapes of what the first loop of a gradient keeps of each iteration, and the gradient compared with eager code."""

    def gradient(*xs):
        with gt.GradientTape() as tape:
            tape.watch(xs)
            y = f(*xs)
        return tape.gradient(y, xs)

    tensors = [gt.constant(a) for a in args]
    compiled = gt.function(gradient)
    for a, b in zip(compiled(*tensors), gradient(*tensors), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=1e-5)
    block = compiled.get_concrete_function(*tensors)._traced.program.block
    loop = next(operation for operation in program(block) if operation.op.name == "scan")
    return sorted(tuple(v.type.item.shape) for v in loop.results if isinstance(v.type, ListSpec))


def numbers(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def test_sums_and_quotients_are_computed_again():
    def bodies(p, v):
        for _ in gt.range(5):
            d = p[None, :, :] - p[:, None, :]
            s = gt.reduce_sum(d * d, axis=2) + 0.1
            v = v + 0.01 * gt.reduce_sum(d / (s * gt.sqrt(s))[:, :, None], axis=1)
            p = p + 0.01 * v
        return gt.reduce_sum(p * p)

    assert kept(bodies, numbers(16, 3), numbers(16, 3)) == [(16, 3)]  # the positions; nothing for each pair


def test_costly_functions_are_kept():
    def grown(x):
        for _ in gt.range(5):
            x = gt.exp(0.1 * x) - 1.0
        return gt.reduce_sum(x)

    assert kept(grown, numbers(50)) == [(50,)]


def test_products_are_kept():
    def turned(x, w):
        for _ in gt.range(5):
            h = x @ w
            x = 0.1 * h / (1.0 + h * h)
        return gt.reduce_sum(x)

    assert kept(turned, numbers(20, 20), numbers(20, 20)) == [(20, 20), (20, 20)]  # x for w, h for x


def test_numbers_are_kept_as_they_are():
    def scalar(x):
        s = gt.reduce_sum(x)
        for _ in gt.range(5):
            t = s * s
            s = t / (1.0 + gt.sqrt(t))
        return s

    assert set(kept(scalar, numbers(4))) == {()}


def test_random_numbers_are_not_drawn_again():
    @gt.function
    def both(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            total = x * 0.0
            for _ in gt.range(3):
                noise = gt.random.normal([40])
                total = total + noise
                y = y + x * (noise + noise)
            loss = gt.reduce_sum(y)
        return tape.gradient(loss, x), total

    gradient, total = both(gt.constant(numbers(40)))
    np.testing.assert_allclose(gradient.numpy(), 1 + 2 * total.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("seed", range(12))
def test_no_other_choice_is_cheaper(seed):
    """Against all sets of values of a small program."""
    generator = np.random.default_rng(seed)
    names = ("add", "multiply", "divide", "sqrt", "exp", "reduce_sum")

    def make(b, *params):
        values = list(params)
        for _ in range(7):
            name = generator.choice(names)
            op, (x, y) = registry.op_by_name(name), generator.choice(len(values), 2)
            if name == "reduce_sum":
                values.append(b(op, values[x], axis=(1,), keepdims=True))
            else:
                values.append(b(op, *(values[x], values[y])[: len(op.args)]))
        return values[len(params) :]

    block = built([tensor(6, 20, dtype="float32"), tensor(6, 20, dtype="float32")], make)
    values = [*block.params, *(operation.result for operation in block.operations)]
    wanted = [value for value in block.results if keeping._elements(value) >= keeping.SMALL][:: 2 - seed % 2]

    def cost(keep):
        """What it costs to keep these and compute the rest that is wanted; None if it cannot be done."""
        total, pending, seen = sum(keeping._keeping(v) for v in keep), list(wanted), set()
        while pending:
            value = pending.pop()
            if value in seen or value in keep:
                continue
            seen.add(value)
            price = keeping.FOREVER if value.producer is None else keeping._price(value.producer)
            if price == keeping.FOREVER:
                return None
            total += price
            pending += value.producer.operands
        return total

    subsets = (set(keep) for n in range(len(values) + 1) for keep in itertools.combinations(values, n))
    best = min(found for found in map(cost, subsets) if found is not None)
    chosen = keeping.cheapest(wanted, lambda value: False)
    assert cost(set(wanted) if chosen is None else chosen) == best


def test_sums_and_products_of_kept_numbers_are_not_kept() -> None:
    """Of Newton's method an iteration keeps x, exp(x) and the step, not x + 1 and (x + 1) exp(x)."""

    def root(target):
        x, delta = gt.ones_like(target), gt.ones_like(target)
        while gt.abs(delta) > 1e-6:
            e = gt.exp(x)
            delta = (x * e - target) / (e * (x + 1.0))
            x = x - delta
        return x * x

    @gt.function
    def gradient(target):
        with gt.GradientTape() as tape:
            tape.watch(target)
            y = root(target)
        return tape.gradient(y, target)

    target = gt.constant(5.0, gt.float64)
    found = gradient(target)
    with gt.GradientTape() as tape:
        tape.watch(target)
        y = root(target)
    np.testing.assert_allclose(found.numpy(), tape.gradient(y, target).numpy(), rtol=1e-12)
    (loop,) = [line for line in gradient.to_text().splitlines() if " = while " in line]
    assert loop.count("list<float64[]>") == 3
