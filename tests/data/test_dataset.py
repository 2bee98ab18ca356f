"""What the recorded pipelines do not show: threads end, errors name element, line and cure, random order is reproducible,
memory is bounded, and loops of functions."""

import gc
import itertools
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import gradtape as gt
from gradtape.data import Dataset
from gradtape.data.sources import SlicedTensors
from tests.harness.process import PATIENCE


def data_threads():
    return [t for t in threading.enumerate() if t.name.startswith("gradtape-data")]


@pytest.fixture(autouse=True)
def _threads_end():
    yield
    gc.collect()
    deadline = time.monotonic() + PATIENCE
    while data_threads() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert data_threads() == []


def busy():
    """A pipeline with worker threads and a reading thread."""
    return Dataset.range(1000).map(lambda x: x + 1, num_parallel_calls=2).prefetch(4)


# -- threads -----------------------------------------------------------------------------------------------------------


def test_threads_end_with_the_pass():
    assert sum(int(x) for x in busy()) == 500500


def test_threads_end_when_an_iterator_is_forgotten():
    it = iter(busy())
    next(it)
    assert data_threads()
    del it


def test_threads_end_when_a_loop_is_left():
    for x in busy():
        if x > 5:
            break


def test_threads_end_after_an_exception_of_the_reader():
    def read():
        for x in busy():
            raise RuntimeError(int(x))

    with pytest.raises(RuntimeError):
        read()


def test_threads_end_after_an_exception_in_a_map():
    dataset = Dataset.range(100).map(lambda x: gt.debugging.assert_less(x, gt.constant(7, gt.int64)) or x, num_parallel_calls=2)
    it = iter(dataset.prefetch(2))
    assert [int(next(it)) for _ in range(7)] == list(range(7))
    with pytest.raises(gt.errors.InvalidArgumentError):
        next(it)
    with pytest.raises(StopIteration):
        next(it)


def test_threads_do_not_keep_the_process():
    code = (
        "import gradtape as gt\n"
        "it = iter(gt.data.Dataset.range(10**9).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2))\n"
        "print(int(next(it)))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, env=dict(os.environ)
    )
    assert (result.stdout, result.returncode) == ("1\n", 0), result.stderr


def test_two_passes_at_once():
    dataset = busy()
    assert [(int(a), int(b)) for a, b in itertools.islice(zip(dataset, dataset, strict=True), 3)] == [(1, 1), (2, 2), (3, 3)]


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda ds: ds.prefetch(3), lambda ds: ds.map(lambda x: x, num_parallel_calls=2)])
def test_no_more_is_read_than_buffers_hold(wrap):
    read = itertools.count()
    count = [0]

    def numbers():
        for i in read:
            count[0] = i
            yield i

    it = iter(wrap(Dataset.from_generator(numbers, output_signature=gt.TensorSpec((), gt.int64))))
    for _ in range(5):
        next(it)
    time.sleep(0.05)
    assert count[0] <= 5 + 4 * 64


def test_rows_are_gathered_a_batch_at_a_time(monkeypatch):
    rows = np.arange(2000.0).reshape(1000, 2)
    dataset = Dataset.from_tensor_slices((rows, np.arange(1000))).skip(100).shuffle(1000, seed=1).repeat(2).batch(250)
    gathered = []
    gather = SlicedTensors.gather
    monkeypatch.setattr(SlicedTensors, "gather", lambda self, places: gathered.append(len(places)) or gather(self, places))
    batches = [(x.numpy(), y.numpy()) for x, y in dataset]
    assert gathered == [250, 250, 250, 150, 100, 250, 250, 250, 50]
    assert all(np.array_equal(x[:, 0], 2 * y) for x, y in batches)
    assert sorted(np.concatenate([y for _, y in batches])) == sorted([*range(100, 1000)] * 2)


# -- errors ------------------------------------------------------------------------------------------------------------


def test_an_exception_in_a_map_names_the_element_and_the_line():
    def check(x):
        gt.debugging.assert_less(x, gt.constant(3, gt.int64), "too large")
        return x

    for workers in (None, 2):
        with pytest.raises(gt.errors.InvalidArgumentError, match="too large") as caught:
            list(Dataset.range(10).map(check, num_parallel_calls=workers))
        note = caught.value.__notes__[-1]
        assert note.startswith("while computing element 3 of Dataset.map(check), ")
        assert note.endswith(f"test_dataset.py:{check.__code__.co_firstlineno}")


def test_an_exception_while_tracing_names_the_function():
    with pytest.raises(ValueError, match="shapes") as caught:
        Dataset.from_tensor_slices(np.ones((3, 2))).map(lambda x: x + np.ones(3))
    assert "while tracing Dataset.map(<lambda>)" in caught.value.__notes__[0]


def test_an_exception_in_a_generator_is_its_own():
    def numbers():
        yield 1
        raise KeyError("lost")

    it = iter(Dataset.from_generator(numbers, output_signature=gt.TensorSpec((), gt.int32)).prefetch(1))
    assert int(next(it)) == 1
    with pytest.raises(KeyError, match="lost"):
        next(it)


MISTAKES = {
    "ragged": (lambda: Dataset.from_tensor_slices({"a": [[1], [1, 2]]}), ValueError, r"tensors\['a'\] cannot be made a tensor"),
    "mixed": (lambda: Dataset.from_tensor_slices(([1, "a"],)), ValueError, r"tensors\[0\] cannot be made a tensor"),
    "scalar": (lambda: Dataset.from_tensor_slices(3.0), ValueError, "tensors is a scalar and has no rows"),
    "rows": (lambda: Dataset.from_tensor_slices(([1, 2], [1])), ValueError, r"tensors\[1\] has 1, the first has 2"),
    "batch": (lambda: Dataset.range(3).batch("two"), ValueError, "batch_size must be a positive number, got 'two'"),
    "shapes": (
        lambda: list(Dataset.range(1, 3).map(lambda n: gt.fill([n], 1.0)).batch(2)), ValueError,
        r"component 0 the first has shape \(1,\), element 1 has \(2,\). Use padded_batch",
    ),
    "generator": (lambda: Dataset.from_generator(iter([1]), gt.int32), TypeError, "generator must be a function"),
    "declared": (
        lambda: list(Dataset.from_generator(lambda: iter([1, 0.5]), output_types=gt.int32)), ValueError,
        "element 1 cannot be converted to the declared dtype int32",
    ),
    "keys": (
        lambda: list(Dataset.from_generator(lambda: iter([{"b": 1}]), output_types={"a": gt.int32})), ValueError,
        r"element 0 must have the keys \['a'\]",
    ),
    "predicate": (lambda: Dataset.range(3).filter(lambda x: x), ValueError, "the predicate must give one bool"),
    "zip": (lambda: Dataset.zip((Dataset.range(3), 4)), TypeError, "4 is no dataset"),
    "dataset": (lambda: Dataset([1, 2]), TypeError, "from_tensor_slices"),
    "length": (lambda: len(Dataset.range(3).repeat()), TypeError, "length is infinite"),
    "choice": (
        lambda: list(Dataset.choose_from_datasets([Dataset.range(2)], Dataset.range(3, 4))), ValueError, "gives 3, there are",
    ),
    "window": (lambda: list(Dataset.range(4).window(2).batch(2)), TypeError, "flat_map the windows"),
    "structure": (lambda: Dataset.range(3).concatenate(Dataset.range(3).enumerate()), TypeError, "different structures"),
    "scan": (lambda: list(Dataset.range(3).scan(gt.constant(0), lambda s, x: s)), TypeError, r"\(new_state, output\)"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name):
    run, kind, words = MISTAKES[name]
    with pytest.raises(kind, match=words):
        run()


# -- random ------------------------------------------------------------------------------------------------------------


def test_orders_of_a_seed_are_the_same_in_every_process():
    gt.random.set_seed(7)
    assert [int(x) for x in Dataset.range(8).shuffle(8, seed=1)] == [5, 2, 0, 7, 3, 6, 4, 1]
    assert [int(x) for x in Dataset.range(8).map(lambda x: x).shuffle(4, seed=1)] == [0, 1, 3, 6, 5, 2, 7, 4]


@pytest.mark.parametrize("workers", [None, 2])
def test_random_numbers_of_a_map_depend_on_the_seed_and_the_element(workers):
    def noisy(x):
        return gt.random.uniform([]) + gt.cast(x, gt.float32)

    runs = []
    for _ in range(2):
        gt.random.set_seed(3)
        dataset = Dataset.range(40).map(noisy, num_parallel_calls=workers)
        runs.append([[float(x) for x in dataset] for _ in range(2)])
    assert runs[0] == runs[1]  # whatever thread came first
    assert runs[0][0] != runs[0][1]  # another pass, other numbers
    noise = np.array(runs[0][0]) - np.arange(40)
    assert len(set(noise.round(6))) == 40
    assert noise.min() >= 0.0
    assert noise.max() < 1.0


def test_the_buffer_decides_how_far_elements_move():
    for dataset in (Dataset.range(500), Dataset.range(500).map(lambda x: x)):  # gathered by number, and held
        order = [int(x) for x in dataset.shuffle(10, seed=2)]
        assert sorted(order) == list(range(500))
        assert max(x - i for i, x in enumerate(order)) < 10
        assert max(i - x for i, x in enumerate(order)) > 10


# -- functions ---------------------------------------------------------------------------------------------------------


def test_a_tape_does_not_see_what_a_map_computes():
    v = gt.Variable(2.0)
    dataset = Dataset.from_tensor_slices([1.0, 2.0]).map(lambda x: x * v)
    with gt.GradientTape() as tape:
        y = sum((x for x in dataset), start=gt.constant(0.0)) * v
    assert float(tape.gradient(y, v)) == 6.0  # as if the elements were data: 2 + 4


def test_maps_follow_branches_and_structures():
    def f(pair, z):
        a, b = pair["a"], pair["b"]
        if gt.reduce_sum(a) > 2.0:
            a = a * 10.0
        for _ in gt.range(z):
            b = b + 1
        return {"a": a, "rest": (b, z)}

    source = ({"a": np.ones((3, 2), np.float32) * np.arange(3)[:, None].astype(np.float32), "b": [0, 0, 0]}, [1, 2, 3])
    out = list(Dataset.from_tensor_slices(source).map(f))
    assert [e["a"].numpy().tolist() for e in out] == [[0, 0], [1, 1], [20, 20]]
    assert [int(e["rest"][0]) for e in out] == [1, 2, 3]


def test_a_map_is_traced_once_for_batches_of_several_sizes():
    traces = []

    def f(x):
        traces.append(1) if not gt.executing_eagerly() else None
        return gt.reduce_sum(x)

    shown = gt.function(f)
    assert float(shown(gt.ones([2]))) == 2.0
    before = len(traces)
    assert [int(x) for x in Dataset.range(7).batch(3).map(lambda x: gt.reduce_sum(x))] == [3, 12, 6]
    assert len(traces) == before


@pytest.mark.parametrize("native", [True, False], ids=["native", "interpreted"])
def test_loop_of_a_function(native):
    x = np.linspace(-1.0, 1.0, 10)
    dataset = Dataset.from_tensor_slices((x, np.arange(10) % 3)).batch(4)

    @gt.function(jit_compile=native)
    def loss(w):
        total, count, last = gt.constant(0.0, gt.float64), 0, w * 0.0
        for values, kinds in dataset:
            total = total + gt.reduce_sum(gt.sin(w * values) * gt.cast(kinds, gt.float64))
            count += gt.shape(values)[0]
            last = values[-1] * w
        return total, count, last

    w = gt.Variable(1.3, dtype=gt.float64)
    with gt.GradientTape(persistent=True) as tape:
        total, count, last = loss(w)
    kinds = np.arange(10) % 3
    assert float(total) == pytest.approx(np.sum(np.sin(1.3 * x) * kinds))
    assert (int(count), float(last)) == (10, pytest.approx(1.3))
    assert float(tape.gradient(total, w)) == pytest.approx(np.sum(x * np.cos(1.3 * x) * kinds))
    assert float(tape.gradient(last, w)) == pytest.approx(1.0)


def test_training_in_a_loop_of_a_function():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 3)).astype(np.float32)
    y = x @ np.array([1.0, -2.0, 0.5], np.float32)
    dataset = Dataset.from_tensor_slices((x, y)).shuffle(64, seed=1).batch(16).prefetch(2)
    w, optimizer = gt.Variable(gt.zeros([3])), gt.optimizers.SGD(0.1)

    @gt.function
    def epoch():
        loss = gt.constant(0.0)
        for xs, ys in dataset:
            with gt.GradientTape() as tape:
                loss = gt.reduce_mean((gt.linalg.matvec(xs, w) - ys) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    first = float(epoch())
    for _ in range(20):
        last = float(epoch())
    assert last < 1e-3 < first
    np.testing.assert_allclose(w.numpy(), [1.0, -2.0, 0.5], atol=0.02)


def test_a_loop_that_is_left_closes_its_pass():
    @gt.function
    def first_above(limit):
        answer = gt.constant(-1, gt.int64)
        for x in busy_again:
            if x > limit:
                answer = x
                break
        return answer

    busy_again = busy()
    assert [int(first_above(gt.constant(n, gt.int64))) for n in (3, 500, 2000)] == [4, 501, -1]


def test_an_exception_in_a_loop_of_a_function():
    dataset = Dataset.range(5).map(lambda x: gt.debugging.assert_less(x, gt.constant(3, gt.int64)) or x)

    @gt.function
    def total():
        y = gt.constant(0, gt.int64)
        for x in dataset:
            y += x
        return y

    for _ in range(2):
        with pytest.raises(gt.errors.InvalidArgumentError):
            total()


def test_iterators_in_functions():
    it = iter(Dataset.range(6))

    @gt.function
    def pair():
        return it.get_next(), next(it)

    @gt.function
    def rest():
        y = gt.constant(0, gt.int64)
        for x in it:
            y += x
        return y

    assert [int(v) for v in pair()] == [0, 1]
    assert int(rest()) == 2 + 3 + 4 + 5
    with pytest.raises(gt.errors.OutOfRangeError, match="End of sequence"):
        pair()


def test_zip_and_enumerate_in_functions():
    a, b = Dataset.range(3), Dataset.range(10, 20)

    @gt.function
    def total():
        y = gt.constant(0, gt.int64)
        for i, (x, z) in enumerate(zip(a, b, strict=False)):
            y += i * (x + z)
        return y

    assert int(total()) == 1 * 12 + 2 * 14


def test_reading_while_tracing_is_refused():
    @gt.function
    def f():
        return gt.stack(list(Dataset.range(3)))

    with pytest.raises(ValueError, match="would become constants"):
        f()
    with pytest.raises(NotImplementedError, match="write the loop"):
        gt.function(lambda: Dataset.range(3).reduce(0, lambda s, x: s))()


def test_data_frames_and_arrays():
    class Frame(dict):
        """As pandas' `dict(df)`."""

    frame = Frame(a=np.array([1, 2, 3]), b=np.array([0.5, 1.5, 2.5]))
    element = next(iter(Dataset.from_tensor_slices(dict(frame)).batch(2)))
    assert {k: v.numpy().tolist() for k, v in element.items()} == {"a": [1, 2], "b": [0.5, 1.5]}
    source = np.arange(4.0)
    dataset = Dataset.from_tensor_slices(source)
    source[:] = -1.0
    assert [float(x) for x in dataset] == [0.0, 1.0, 2.0, 3.0]
    for array in Dataset.from_tensor_slices(np.ones((2, 2))).as_numpy_iterator():
        array[:] = 5.0
    assert float(gt.reduce_sum(next(iter(dataset.batch(4))))) == 6.0


def test_cached_elements_are_computed_once():
    calls = []

    def numbers():
        calls.append(1)
        yield from range(3)

    dataset = Dataset.from_generator(numbers, output_signature=gt.TensorSpec((), gt.int32)).cache()
    next(iter(dataset))
    assert [[int(x) for x in dataset] for _ in range(3)] == [[0, 1, 2]] * 3
    assert len(calls) == 2  # the pass that was left early kept nothing


def test_labels_and_logits_of_batches_in_a_loop_of_a_function():
    """Sizes of the parts of a batch are unknown, and may be the same."""
    x, y = np.random.default_rng(0).normal(size=(7, 3)), np.arange(7) % 3
    dataset = Dataset.from_tensor_slices((x, y)).batch(3)
    w = gt.Variable(np.eye(3))

    def losses(xs, ys):
        logits = xs @ w
        total = gt.reduce_sum(gt.nn.sparse_softmax_cross_entropy_with_logits(labels=ys, logits=logits))
        total += gt.reduce_sum(
            gt.nn.softmax_cross_entropy_with_logits(labels=gt.one_hot(ys, 3, dtype=gt.float64), logits=logits)
        )
        return total + gt.reduce_sum(
            gt.nn.sigmoid_cross_entropy_with_logits(labels=gt.cast(ys, gt.float64), logits=logits[:, 0])
        )

    @gt.function
    def epoch():
        total = gt.constant(0.0, gt.float64)
        for xs, ys in dataset:
            total += losses(xs, ys)
        return total

    slopes = []
    for run in (epoch, lambda: losses(gt.constant(x), gt.constant(y))):
        with gt.GradientTape() as tape:
            value = run()
        slopes.append((float(value), tape.gradient(value, w).numpy()))
    assert slopes[0][0] == pytest.approx(slopes[1][0])
    np.testing.assert_allclose(slopes[0][1], slopes[1][1], rtol=1e-9)
