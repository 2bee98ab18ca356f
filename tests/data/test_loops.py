"""Loops of programs over datasets: the elements of eager code, in its order, whether they come one by one or in blocks."""

import gc
import threading
import time
from collections import Counter
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


THREADS = 24


def _reading(native: bool) -> int:
    """Threads that read datasets ahead; those whose passes are closed have a moment to end."""
    if not native:  # a frame of the reference lives as long as the error that left it
        gc.collect()
    for _ in range(200):
        count = sum(thread.name.startswith("gradtape-data") for thread in threading.enumerate())
        if not count:
            break
        time.sleep(0.01)
    return count


@pytest.mark.parametrize("native", [True, False])
def test_each_run_has_its_own_pass_however_many_there_are(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings, "native", native)
    dataset, together, answers = gt.data.Dataset.range(300).prefetch(2), threading.Barrier(THREADS), []

    def wait() -> Any:
        together.wait(60)
        return np.int32(0)

    @gt.function
    def total(limit: Any) -> Any:
        total, count = gt.constant(0, gt.int64), gt.constant(0)
        for x in dataset:
            if count == 5:  # by now all of them have begun, and none has ended
                gt.numpy_function(wait, [], gt.TensorSpec((), gt.int32))
            count += 1
            gt.debugging.assert_less(x, limit)
            total += x
        return total

    def run(limit: int) -> None:
        try:
            answers.append(int(total(gt.constant(limit, gt.int64))))
        except gt.errors.InvalidArgumentError:
            answers.append(-1)

    total.get_concrete_function(gt.TensorSpec((), gt.int64))
    runs = [threading.Thread(target=run, args=(200 + 200 * (i % 2),)) for i in range(THREADS)]
    for each in runs:
        each.start()
    for each in runs:
        each.join()
    assert Counter(answers) == {-1: THREADS // 2, 299 * 150: THREADS // 2}
    assert not _reading(native)


@pytest.mark.parametrize("native", [True, False])
def test_a_run_that_fails_closes_its_passes_and_no_other(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(settings, "native", native)
    dataset = gt.data.Dataset.range(9).prefetch(1)

    def again(x: Any) -> Any:
        if depth:
            depth.pop()
            with pytest.raises(ZeroDivisionError):  # inside the run around, whose pass goes on
                total(gt.constant(3, gt.int64))
        return x

    def divided(x: Any, failing: Any) -> Any:
        return np.int64(1 // int(x != failing))

    @gt.function
    def total(failing: Any) -> Any:
        total = gt.constant(0, gt.int64)
        for x in dataset:
            total += gt.numpy_function(again, [x], gt.TensorSpec((), gt.int64))
            gt.numpy_function(divided, [x, failing], gt.TensorSpec((), gt.int64))
        return total

    depth: list[int] = []
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            total(gt.constant(4, gt.int64))
        assert not _reading(native)
    depth += [1, 1]
    assert int(total(gt.constant(-1, gt.int64))) == 36
    assert not depth
    assert not _reading(native)
