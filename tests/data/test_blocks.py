"""Functions of elements that are computed for blocks: what anybody sees is what calls for each element give."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.config import settings
from gradtape.data import streams

ROWS = 300
VALUES = np.random.default_rng(0).normal(size=(ROWS, 3)).astype(np.float32)
SLICES = gt.data.Dataset.from_tensor_slices({"x": VALUES, "k": np.arange(ROWS)})
PAIRS = gt.data.Dataset.zip((SLICES, gt.data.Dataset.range(ROWS)))


def chosen(element: Any) -> Any:
    return element["k"] % 7 < 3


def branched(element: Any) -> Any:
    y = element["x"]
    if element["k"] % 3 == 0:
        y = gt.sin(y)
    return {"x": y * gt.cast(element["k"], gt.float32), "k": element["k"]}


def two_draws(element: Any) -> Any:
    first, second = gt.random.normal([2], seed=4), gt.random.uniform([2], seed=4)
    # (no sum of a product: whether that is rounded once or twice differs between programs)
    return {
        "x": first * second,
        "shuffled": gt.random.shuffle(element["x"])[:2],
        "k": gt.random.uniform([], 0, element["k"] + 1, gt.int64),
    }


def drawn_in_a_branch(element: Any) -> Any:
    return element["x"] + gt.random.normal([3]) if element["k"] % 2 == 0 else element["x"]


def pipelines() -> dict[str, gt.data.Dataset]:
    mapped = SLICES.map(branched)
    return {
        "map": mapped,
        "of a tuple": PAIRS.map(lambda element, i: (element["x"] + 1.0, i)),
        "a scalar": SLICES.map(lambda element: gt.reduce_sum(element["x"])),
        "filter": SLICES.filter(chosen),
        "filter none": SLICES.filter(lambda element: element["k"] < 0),
        "filter late": SLICES.filter(lambda element: element["k"] > 290),
        "both": mapped.filter(chosen).map(branched),
        "batch": mapped.batch(7),
        "batch of chosen": SLICES.filter(chosen).batch(7, drop_remainder=True),
        "unknown": mapped.batch(7).map(lambda element: element["x"] * 2.0),
        "take and repeat": mapped.take(50).repeat(3).skip(7),
        "shuffle": mapped.shuffle(20, seed=3, reshuffle_each_iteration=False),
        "workers": SLICES.map(branched, num_parallel_calls=3),
        "prefetch": mapped.prefetch(2),
        "prefetch rows": SLICES.prefetch(gt.data.AUTOTUNE),
        "concatenate": mapped.concatenate(SLICES.filter(chosen)),
        "zip": gt.data.Dataset.zip((mapped, SLICES.filter(chosen))),
        "cache": mapped.cache(),
        "unbatch": mapped.batch(7).unbatch(),
        "while": SLICES.take_while(lambda element: element["k"] < 250),
        "random": SLICES.map(lambda element: element["x"] + gt.random.uniform([3], seed=4)),
        "random keys": SLICES.map(two_draws, num_parallel_calls=2),
        "random in a branch": SLICES.map(drawn_in_a_branch),
        "random words": gt.data.Dataset.random(3).take(100),
        "chosen": gt.data.Dataset.choose_from_datasets([mapped, SLICES], gt.data.Dataset.range(2).repeat(40)),
        "sampled": gt.data.Dataset.sample_from_datasets([mapped, SLICES], seed=2),
        "while at once": SLICES.take_while(lambda element: element["k"] < 0),
        "while after others": mapped.filter(chosen).take_while(lambda element: element["k"] % 100 < 90).repeat(2),
        "while random": SLICES.take_while(lambda element: gt.random.uniform([]) < 0.99),
        "unbatch twice": mapped.batch(7).batch(3).unbatch().unbatch().batch(4),
        "scan": mapped.scan(np.float32(0), lambda s, e: (s + e["x"][0], s)),
        "window": mapped.window(5).flat_map(lambda w: w["x"].batch(5)),
        "interleave": gt.data.Dataset.range(9).interleave(lambda i: mapped.skip(30 * i).take(4), cycle_length=3),
    }


NAMES = list(pipelines())


def leaves(element: Any) -> list[Any]:
    parts = element.values() if isinstance(element, dict) else element if isinstance(element, tuple) else [element]
    return [leaf for part in parts for leaf in (leaves(part) if isinstance(part, (dict, tuple)) else [np.asarray(part)])]


def read(many: int, name: str, monkeypatch: pytest.MonkeyPatch) -> list[list[Any]]:
    monkeypatch.setattr(streams, "_MANY", many)
    gt.random.set_seed(1)
    dataset = pipelines()[name]
    return [leaves(element) for element in dataset] + [leaves(element) for element in dataset.take(5)]


@pytest.mark.parametrize("name", NAMES)
def test_elements_are_those_of_single_calls(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    singly, blocks = read(10**9, name, monkeypatch), read(1, name, monkeypatch)
    assert len(singly) == len(blocks)
    for a, b in zip(singly, blocks, strict=True):
        for leaf, other in zip(a, b, strict=True):
            assert leaf.dtype == other.dtype
            np.testing.assert_array_equal(leaf, other)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("name", ["map", "filter", "both", "batch", "take and repeat", "workers", "prefetch", "cache"])
def test_loops_of_functions_see_them_too(name: str, native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MANY", 1)
    monkeypatch.setitem(settings, "native", native)
    dataset = pipelines()[name]

    def total() -> Any:
        total, count = gt.constant(0.0, gt.float64), gt.constant(0.0, gt.float64)
        for element in dataset:
            count += 1.0
            total += count * gt.reduce_sum(gt.cast(element["x"], gt.float64))
        return total, count

    np.testing.assert_allclose(gt.function(total)(), total(), rtol=1e-12)


@pytest.fixture(params=["eager", "function", "batch", "workers", "prefetch", "repeat"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads a dataset of numbers: (what came before an error, the error)."""
    monkeypatch.setattr(streams, "_MANY", 1)

    def read(dataset: gt.data.Dataset, function: Any) -> Any:
        seen: list[int] = []

        def see(x: Any) -> Any:
            seen.append(int(x))
            return x

        dataset = dataset.map(function, num_parallel_calls=2 if request.param == "workers" else None)
        if request.param == "prefetch":
            dataset = dataset.prefetch(3)
        if request.param == "repeat":
            dataset = dataset.take(150).concatenate(dataset.repeat(2))
        if request.param == "batch":
            dataset = dataset.batch(10)

        def run() -> None:
            for x in dataset:
                gt.numpy_function(see, [gt.reduce_max(x)], gt.TensorSpec((), gt.int64))

        with pytest.raises(gt.errors.InvalidArgumentError) as error:
            (gt.function(run) if request.param == "function" else run)()
        return request.param, seen, error

    return read


def test_an_element_that_fails_comes_after_those_before_it(reader: Any) -> None:
    def checked(x: Any) -> Any:
        gt.debugging.assert_none_equal(x, gt.constant(77, gt.int64))
        return x + 1

    how, seen, error = reader(gt.data.Dataset.range(ROWS), checked)
    assert seen == (list(range(10, 71, 10)) if how == "batch" else list(range(1, 78)))
    notes = "\n".join(error.value.__notes__)
    assert "while computing element 77 of Dataset.map(checked)" in notes
    assert "test_blocks.py" in notes


SCALE = 1


@pytest.mark.parametrize("change", ["map", "filter"])
def test_what_a_function_reads_may_change_between_elements(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MANY", 1)
    monkeypatch.setitem(globals(), "SCALE", 1)
    numbers = gt.data.Dataset.range(ROWS)
    dataset = numbers.map(lambda x: x * SCALE) if change == "map" else numbers.filter(lambda x: x % (SCALE + 1) == 0)
    taken = []
    for x in dataset.take(60):
        taken.append(int(x))
        if len(taken) == 40:
            monkeypatch.setitem(globals(), "SCALE", 4)
    expected = list(range(40)) if change == "map" else list(range(0, 80, 2))
    expected += [4 * i for i in range(40, 60)] if change == "map" else list(range(80, 180, 5))
    assert taken == expected


def test_functions_that_are_seen_run_when_their_element_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MANY", 1)
    numbers, seen, scale = gt.data.Dataset.range(ROWS), [], gt.Variable(1, dtype=gt.int64)

    def noted(x: Any) -> Any:
        seen.append(int(x))
        return x

    told = numbers.map(lambda x: gt.numpy_function(noted, [x], gt.TensorSpec((), gt.int64)))
    scaled, counted = [], []
    for i, (_, y) in enumerate(gt.data.Dataset.zip((told, numbers.map(lambda x: x * scale)))):
        scaled.append(int(y))
        scale.assign_add(1)
        counted.append(len(seen))
        if i == 40:
            break
    assert counted == list(range(1, 42))
    assert scaled == [i * (i + 1) for i in range(41)]


def test_events_are_told_with_their_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MANY", 1)
    dataset = gt.data.Dataset.range(ROWS).map(lambda x: gt.math.log(gt.nn.relu(70.0 - gt.cast(x, gt.float32))))
    told = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in dataset:
            told.append(len(caught))
    assert told[69:71] == [0, 1]


def test_slow_functions_are_not_waited_for_in_blocks() -> None:
    pace = streams.Pace(64)
    for seconds, count in ((1e-5, 2), (1e-5, 4), (1e-5, 8), (4e-4, 8), (1e-2, 4), (1e-2, 2), (1e-2, 1), (1e-2, 1)):
        pace.took(seconds)
        assert pace.count == count
    for _ in range(9):
        pace.took(0.0)
    assert pace.count == 64


def test_memory_of_elements_read_ahead_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = SLICES.map(branched)._stage, gt.data.Dataset.from_tensor_slices(np.zeros((4, 1 << 14)))._stage
    assert small.in_a_block() == (1 << 15) // (3 * 4 + 8)
    assert large.in_a_block() == 1

    def numbers() -> Iterator[int]:
        yield 1

    generated = gt.data.Dataset.from_generator(numbers, output_signature=gt.TensorSpec((), gt.int64))
    assert generated.prefetch(2)._stage.in_a_block() == 1
