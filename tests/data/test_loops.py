"""Loops of programs over datasets: the elements of eager code, in its order, whether they come one by one or in blocks."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.config import settings

ROWS = 1000
VALUES = np.random.default_rng(0).normal(size=(ROWS, 3))
NUMBERS = np.arange(ROWS)
SLICES = gt.data.Dataset.from_tensor_slices((VALUES, NUMBERS))


def rows() -> Iterator[Any]:
    yield from zip(VALUES, NUMBERS, strict=True)


SIGNATURE = (gt.TensorSpec((3,), gt.float64), gt.TensorSpec((), gt.int64))
PIPELINES = {
    "slices": SLICES,
    "empty": SLICES.take(0),
    "one": SLICES.take(1),
    "skipped": SLICES.skip(7).take(600),
    "repeated": SLICES.take(5).repeat(),
    "chained": SLICES.take(400).concatenate(SLICES.skip(100)),
    "zipped": gt.data.Dataset.zip((gt.data.Dataset.from_tensor_slices(VALUES), gt.data.Dataset.range(600))),
    "shuffled": SLICES.shuffle(50, seed=3, reshuffle_each_iteration=False),
    "batched": SLICES.batch(4, drop_remainder=True),
    "open": SLICES.batch(7),
    "cached": SLICES.cache(),
    "mapped": SLICES.map(lambda x, y: (x * 2.0, y)),
    "filtered": SLICES.filter(lambda x, y: y % 3 == 1),
    "prefetched": SLICES.prefetch(2),
    "generated": gt.data.Dataset.from_generator(rows, output_signature=SIGNATURE),
    **{name: gt.data.Dataset.from_tensor_slices((VALUES.astype(name), NUMBERS.astype(name)))
       for name in ("float16", "float32", "bool", "int8", "uint16", "complex64")},
}  # fmt: skip


@pytest.mark.parametrize("last", [0, 1, 333, 5000])
@pytest.mark.parametrize("name", PIPELINES)
def test_as_in_eager_code(name: str, last: int) -> None:
    dataset = PIPELINES[name] if name != "repeated" else PIPELINES[name].take(2000)

    def total(limit: Any) -> Any:
        total, count = gt.constant(0.0, gt.float64), gt.constant(0)
        for x, y in dataset:
            if count >= limit:
                break
            count += 1
            values = gt.cast(gt.math.real(x), gt.float64), gt.cast(gt.math.real(y), gt.float64)
            total += gt.cast(count, gt.float64) * (gt.reduce_sum(values[0]) + gt.reduce_sum(values[1]))
        return total, count

    expected, compiled = total(last), gt.function(total)(gt.constant(last))
    assert int(compiled[1]) == int(expected[1])
    np.testing.assert_allclose(compiled[0], expected[0], rtol=1e-12)


@pytest.mark.parametrize("after", ["map", "batch", "repeat", "shuffle"])
def test_code_of_the_users_runs_for_the_elements_that_are_asked_for(after: str) -> None:
    seen: list[int] = []

    def numbers() -> Iterator[int]:
        for i in range(100):
            seen.append(i)
            yield i

    given = gt.data.Dataset.from_generator(numbers, output_signature=gt.TensorSpec((), gt.int64))
    dataset = {
        "map": given.map(lambda i: i + 1), "batch": given.batch(1, drop_remainder=True).map(lambda i: i[0]),
        "repeat": given.repeat(2), "shuffle": given.shuffle(1),
    }[after]  # fmt: skip

    @gt.function
    def first() -> Any:
        total = gt.constant(0, gt.int64)
        for i in dataset:
            total += i
            if total > 2:
                break
        return total

    first()
    assert len(seen) <= 5


@pytest.mark.parametrize("native", [True, False])
def test_passes_inside_passes_and_twice(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings, "native", native)
    dataset = SLICES.take(10)

    @gt.function
    def products() -> Any:
        total = gt.constant(0, gt.int64)
        for _, a in dataset:
            for _, b in dataset:
                total += a * b
        return total

    assert [int(products()) for _ in range(3)] == [45 * 45] * 3


@pytest.mark.parametrize("native", [True, False])
def test_gradients_of_bodies(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings, "native", native)
    w = gt.Variable([1.0, 2.0, 3.0], dtype=gt.float64)

    @gt.function
    def loss() -> Any:
        total = gt.constant(0.0, gt.float64)
        for x, _ in SLICES:
            total += gt.reduce_sum(x * w) ** 2
        return total

    with gt.GradientTape() as tape:
        y = loss()
    np.testing.assert_allclose(tape.gradient(y, w), 2 * VALUES.T @ (VALUES @ w.numpy()), rtol=1e-10)
