"""Small pipelines, each a function of the namespace it is written for: what TensorFlow's `tf.data` gave for them is recorded
beside (`recorded.json`), and ours must give the same. `python -m tests.data.pipelines tensorflow` writes that file anew, where
TensorFlow is installed.

A result is described in plain values: elements, element types, lengths, or the kind of error.
"""

from __future__ import annotations

import collections
import importlib
import json
import sys
from pathlib import Path

import numpy as np

RECORDED = Path(__file__).with_name("recorded.json")
Point = collections.namedtuple("Point", "x y")
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def plain(value):
    """An element in JSON's values."""
    if isinstance(value, dict):
        return {"dict": [[key, plain(part)] for key, part in value.items()]}
    if isinstance(value, tuple):
        return {type(value).__name__: [plain(part) for part in value]}
    if hasattr(value, "element_spec"):  # a dataset
        return {"dataset": [plain(part) for part in value]}
    array = np.asarray(value.numpy() if hasattr(value, "numpy") else value)
    if array.dtype.kind in "OS":
        return {"string": [b.decode() for b in array.ravel().tolist()] if array.ndim else array.item().decode()}
    return {array.dtype.name: array.tolist()}


def spec(value):
    """A type in JSON's values."""
    if isinstance(value, dict):
        return {"dict": [[key, spec(part)] for key, part in value.items()]}
    if isinstance(value, tuple) and not hasattr(value, "rank"):
        return {type(value).__name__: [spec(part) for part in value]}
    if hasattr(value, "element_spec"):
        return {"dataset": spec(value.element_spec)}
    return [value.dtype.name, None if value.shape.rank is None else list(value.shape)]


def described(run, tf):
    """What a pipeline gives: elements (at most 30), their type and number; or its error."""
    try:
        result = run(tf)
        if not hasattr(result, "element_spec"):
            return {"value": result}
        elements = [plain(element) for element in result.take(30)]
        return {"elements": elements, "spec": spec(result.element_spec), "size": int(result.cardinality().numpy())}
    except Exception as error:
        return {"error": [k.__name__ for k in type(error).__mro__ if k.__name__ in KINDS] or [type(error).__name__]}


KINDS = (
    "InvalidArgumentError", "OutOfRangeError", "FailedPreconditionError", "TypeError", "ValueError", "StopIteration",
)  # fmt: skip


# -- sources ---------------------------------------------------------------------------------------------------------


@case
def slices_of_a_list(tf):
    return tf.data.Dataset.from_tensor_slices([1, 2, 3])


@case
def slices_of_floats(tf):
    return tf.data.Dataset.from_tensor_slices([[1.5, 2.0], [3.0, 4.0]])


@case
def slices_of_a_tuple(tf):
    return tf.data.Dataset.from_tensor_slices(([1, 2], [[1.0], [2.0]]))


@case
def slices_of_a_dict(tf):
    return tf.data.Dataset.from_tensor_slices({"b": [1, 2], "a": np.array([3.0, 4.0])})


@case
def slices_of_a_named_tuple(tf):
    return tf.data.Dataset.from_tensor_slices(Point([1, 2], ([3, 4], {"z": [5, 6]})))


@case
def slices_of_strings(tf):
    return tf.data.Dataset.from_tensor_slices(["a", "bc"])


@case
def slices_of_nothing(tf):
    return tf.data.Dataset.from_tensor_slices(np.zeros((0, 3), np.float32))


@case
def slices_of_a_scalar(tf):
    return tf.data.Dataset.from_tensor_slices(3)


@case
def slices_of_unequal_lengths(tf):
    return tf.data.Dataset.from_tensor_slices(([1, 2, 3], [1, 2]))


@case
def slices_of_ragged_lists(tf):
    return tf.data.Dataset.from_tensor_slices([[1, 2], [3]])


@case
def tensors(tf):
    return tf.data.Dataset.from_tensors([1, 2, 3])


@case
def tensors_in_a_dict(tf):
    return tf.data.Dataset.from_tensors({"a": [1, 2], "b": (3.0, 4)})


@case
def numbers(tf):
    return tf.data.Dataset.range(5)


@case
def numbers_from_to(tf):
    return tf.data.Dataset.range(2, 5)


@case
def numbers_in_steps(tf):
    return tf.data.Dataset.range(10, 1, -3)


@case
def numbers_of_another_type(tf):
    return tf.data.Dataset.range(3, output_type=tf.float32)


@case
def no_numbers(tf):
    return tf.data.Dataset.range(5, 2)


@case
def numbers_without_arguments(tf):
    return tf.data.Dataset.range()


def gen(n=4):
    yield from range(n)


@case
def generator(tf):
    return tf.data.Dataset.from_generator(gen, output_signature=tf.TensorSpec((), tf.int64))


@case
def generator_with_types(tf):
    return tf.data.Dataset.from_generator(gen, output_types=tf.float32)


@case
def generator_with_shapes(tf):
    return tf.data.Dataset.from_generator(
        lambda: iter([([1, 2], 3), ([4, 5], 6)]), output_types=(tf.int32, tf.float32), output_shapes=((2,), ())
    )


@case
def generator_with_arguments(tf):
    return tf.data.Dataset.from_generator(gen, args=(3,), output_signature=tf.TensorSpec((), tf.int32))


@case
def generator_of_dicts(tf):
    signature = {"a": tf.TensorSpec((None,), tf.float32), "b": tf.TensorSpec((), tf.int32)}
    return tf.data.Dataset.from_generator(
        lambda: iter([{"a": [1.0], "b": 2}, {"a": [1.0, 2.0], "b": 3}]), output_signature=signature
    )


@case
def generator_of_the_wrong_shape(tf):
    return tf.data.Dataset.from_generator(lambda: iter([[1, 2, 3]]), output_signature=tf.TensorSpec((2,), tf.int32))


@case
def generator_of_the_wrong_type(tf):
    return tf.data.Dataset.from_generator(lambda: iter(["a"]), output_signature=tf.TensorSpec((), tf.int32))


@case
def generator_that_is_none(tf):
    return tf.data.Dataset.from_generator([1, 2], output_signature=tf.TensorSpec((), tf.int32))


@case
def generator_without_types(tf):
    return tf.data.Dataset.from_generator(gen)


@case
def generator_twice(tf):
    return tf.data.Dataset.from_generator(gen, output_signature=tf.TensorSpec((), tf.int64)).repeat(2)


# -- structure -------------------------------------------------------------------------------------------------------


@case
def zipped(tf):
    return tf.data.Dataset.zip((tf.data.Dataset.range(3), tf.data.Dataset.range(10, 20)))


@case
def zipped_arguments(tf):
    return tf.data.Dataset.zip(tf.data.Dataset.range(3), tf.data.Dataset.range(10, 20).batch(2))


@case
def zipped_in_a_dict(tf):
    return tf.data.Dataset.zip({"a": tf.data.Dataset.range(3), "b": (tf.data.Dataset.range(2), tf.data.Dataset.range(5))})


@case
def zipped_without_end(tf):
    return tf.data.Dataset.zip((tf.data.Dataset.range(3).repeat(), tf.data.Dataset.range(4)))


@case
def zipped_list(tf):
    return tf.data.Dataset.zip([tf.data.Dataset.range(3), tf.data.Dataset.range(4)])


@case
def enumerated(tf):
    return tf.data.Dataset.from_tensor_slices(["a", "b"]).enumerate(start=5)


@case
def concatenated(tf):
    return tf.data.Dataset.range(3).concatenate(tf.data.Dataset.range(7, 9))


@case
def concatenated_shapes(tf):
    a, b = tf.data.Dataset.from_tensors([1, 2]), tf.data.Dataset.from_tensors([1, 2, 3])
    return a.concatenate(b)


@case
def concatenated_types(tf):
    return tf.data.Dataset.range(3).concatenate(tf.data.Dataset.from_tensors(1.0))


@case
def concatenated_structures(tf):
    return tf.data.Dataset.range(3).concatenate(tf.data.Dataset.range(3).enumerate())


# -- which elements --------------------------------------------------------------------------------------------------


@case
def taken(tf):
    return tf.data.Dataset.range(10).take(3)


@case
def taken_too_many(tf):
    return tf.data.Dataset.range(3).take(10)


@case
def taken_all(tf):
    return tf.data.Dataset.range(3).take(-1)


@case
def skipped(tf):
    return tf.data.Dataset.range(5).skip(3)


@case
def skipped_too_many(tf):
    return tf.data.Dataset.range(3).skip(10)


@case
def skipped_all(tf):
    return tf.data.Dataset.range(3).skip(-1)


@case
def repeated(tf):
    return tf.data.Dataset.range(2).repeat(3)


@case
def repeated_without_end(tf):
    return tf.data.Dataset.range(3).repeat()


@case
def repeated_minus_one(tf):
    return tf.data.Dataset.range(3).repeat(-1)


@case
def repeated_zero_times(tf):
    return tf.data.Dataset.range(3).repeat(0)


@case
def repeated_nothing(tf):
    return tf.data.Dataset.range(0).repeat(4)


@case
def sharded(tf):
    return tf.data.Dataset.range(10).shard(3, 1)


@case
def sharded_outside(tf):
    return tf.data.Dataset.range(10).shard(3, 3)


@case
def filtered(tf):
    return tf.data.Dataset.range(10).filter(lambda x: x % 3 == 0)


@case
def filtered_pairs(tf):
    return tf.data.Dataset.range(5).enumerate().filter(lambda i, x: i + x > 3)


@case
def filtered_by_a_number(tf):
    return tf.data.Dataset.range(5).filter(lambda x: x)


@case
def taken_while(tf):
    return tf.data.Dataset.range(10).take_while(lambda x: x < 4)


@case
def cached(tf):
    dataset = tf.data.Dataset.range(4).map(lambda x: x * 2).cache()
    return dataset.concatenate(dataset)


@case
def prefetched(tf):
    return tf.data.Dataset.range(4).prefetch(2)


@case
def prefetched_by_itself(tf):
    return tf.data.Dataset.range(4).batch(2).prefetch(tf.data.AUTOTUNE)


@case
def shuffled_whole(tf):
    return sorted(int(x) for x in tf.data.Dataset.range(20).shuffle(20, seed=1))


@case
def shuffled_in_a_window(tf):
    order = [int(x) for x in tf.data.Dataset.range(100).shuffle(5, seed=1)]
    return [sorted(order) == list(range(100)), all(x - i < 5 for i, x in enumerate(order)), order != sorted(order)]


@case
def shuffled_again(tf):
    dataset = tf.data.Dataset.range(50).shuffle(50, seed=3)
    first, second = ([int(x) for x in dataset] for _ in range(2))
    return [first == second, sorted(first) == sorted(second)]


@case
def shuffled_as_before(tf):
    dataset = tf.data.Dataset.range(50).shuffle(50, seed=3, reshuffle_each_iteration=False)
    first, second = ([int(x) for x in dataset] for _ in range(2))
    return [first == second]


@case
def shuffled_and_repeated(tf):
    order = [int(x) for x in tf.data.Dataset.range(30).shuffle(30, seed=3).repeat(2)]
    return [order[:30] == order[30:], sorted(order[:30]) == list(range(30))]


@case
def shuffled_by_a_seed(tf):
    first, second = ([int(x) for x in tf.data.Dataset.range(30).shuffle(30, seed=9)] for _ in range(2))
    return [first == second]


@case
def shuffled_by_the_global_seed(tf):
    orders = []
    for _ in range(2):
        tf.random.set_seed(5)
        orders.append([int(x) for x in tf.data.Dataset.range(30).shuffle(30)])
    return [orders[0] == orders[1]]


@case
def shuffled_without_a_buffer(tf):
    return tf.data.Dataset.range(30).shuffle(0)


@case
def shuffled_size(tf):
    return int(tf.data.Dataset.range(30).shuffle(4).batch(7).cardinality().numpy())


# -- several as one ----------------------------------------------------------------------------------------------------


@case
def batched(tf):
    return tf.data.Dataset.range(7).batch(3)


@case
def batched_without_the_rest(tf):
    return tf.data.Dataset.range(7).batch(3, drop_remainder=True)


@case
def batched_twice(tf):
    return tf.data.Dataset.range(7).batch(2).batch(2, drop_remainder=True)


@case
def batched_dicts(tf):
    return tf.data.Dataset.from_tensor_slices({"a": [1, 2, 3], "s": ["x", "y", "z"]}).batch(2)


@case
def batched_ragged(tf):
    return tf.data.Dataset.from_generator(lambda: iter([[1], [1, 2]]), output_signature=tf.TensorSpec((None,), tf.int32)).batch(
        2
    )


@case
def batched_by_zero(tf):
    return tf.data.Dataset.range(3).batch(0)


@case
def batched_repeats(tf):
    return tf.data.Dataset.range(5).repeat(2).batch(4)


@case
def repeated_batches(tf):
    return tf.data.Dataset.range(5).batch(4).repeat(2)


@case
def batched_of_repeats_without_end(tf):
    return tf.data.Dataset.range(3).repeat().batch(4).take(3)


@case
def padded(tf):
    rows = tf.data.Dataset.from_generator(
        lambda: iter([[1], [1, 2], [1, 2, 3]]), output_signature=tf.TensorSpec((None,), tf.int32)
    )
    return rows.padded_batch(2)


@case
def padded_to_a_shape(tf):
    return (
        tf.data.Dataset.range(3)
        .map(lambda x: tf.fill([x], x))
        .padded_batch(2, padded_shapes=[4], padding_values=tf.constant(-1, tf.int64))
    )


@case
def padded_too_small(tf):
    return tf.data.Dataset.range(6).map(lambda x: tf.fill([x], x)).padded_batch(2, padded_shapes=[4])


@case
def padded_pairs(tf):
    rows = tf.data.Dataset.range(1, 4).map(lambda x: (tf.fill([x], x), tf.cast(x, tf.float32)))
    return rows.padded_batch(2, padded_shapes=([None], []), padding_values=(tf.constant(9, tf.int64), 0.0), drop_remainder=True)


@case
def unbatched(tf):
    return tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]).unbatch()


@case
def unbatched_pairs(tf):
    return tf.data.Dataset.from_tensor_slices(([[1, 2], [3, 4]], [["a", "b"], ["c", "d"]])).unbatch()


@case
def unbatched_batches(tf):
    return tf.data.Dataset.range(5).batch(2).unbatch().batch(3)


@case
def unbatched_scalars(tf):
    return tf.data.Dataset.range(5).unbatch()


@case
def windows(tf):
    return tf.data.Dataset.range(7).window(3)


@case
def windows_that_overlap(tf):
    return tf.data.Dataset.range(5).window(3, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(3))


@case
def windows_with_strides(tf):
    return tf.data.Dataset.range(9).window(2, shift=3, stride=3)


@case
def windows_with_gaps(tf):
    return tf.data.Dataset.range(9).window(2, shift=4, drop_remainder=True)


@case
def windows_of_pairs(tf):
    pairs = tf.data.Dataset.range(4).enumerate().window(2)
    return pairs.flat_map(lambda i, x: tf.data.Dataset.zip((i.batch(2), x.batch(2))))


@case
def windows_reduced(tf):
    return tf.data.Dataset.range(6).window(2).map(lambda w: w.reduce(tf.constant(0, tf.int64), lambda a, b: a + b))


# -- functions -------------------------------------------------------------------------------------------------------


@case
def mapped(tf):
    return tf.data.Dataset.range(4).map(lambda x: x * x)


@case
def mapped_to_a_tuple(tf):
    return tf.data.Dataset.range(3).map(lambda x: (x, tf.cast(x, tf.float32) / 2.0))


@case
def mapped_to_a_dict(tf):
    return tf.data.Dataset.range(2).map(lambda x: {"b": x, "a": (x, [x, x])})


@case
def mapped_to_a_list(tf):
    return tf.data.Dataset.range(2).map(lambda x: [x, x + 1])


@case
def mapped_to_a_number(tf):
    return tf.data.Dataset.range(2).map(lambda x: 7)


@case
def mapped_tuples(tf):
    return tf.data.Dataset.range(3).enumerate().map(lambda i, x: i - x)


@case
def mapped_dicts(tf):
    return tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [3, 4]}).map(lambda d: d["a"] * d["b"])


@case
def mapped_in_parallel(tf):
    return tf.data.Dataset.range(25).map(lambda x: x + 1, num_parallel_calls=3)


@case
def mapped_in_any_order(tf):
    dataset = tf.data.Dataset.range(25).map(lambda x: x + 1, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False)
    return sorted(int(x) for x in dataset)


@case
def mapped_with_branches(tf):
    def odd(x):
        if x % 2 == 0:  # noqa: SIM108  (a branch to be converted)
            y = x * 10
        else:
            y = -x
        return y

    return tf.data.Dataset.range(4).map(odd)


@case
def mapped_with_loops(tf):
    def total(x):
        y = tf.constant(0, tf.int64)
        while x > 0:
            y += x
            x -= 1
        return y

    return tf.data.Dataset.range(5).map(total)


@case
def mapped_to_unknown_sizes(tf):
    return tf.data.Dataset.range(4).map(lambda x: tf.range(x))


@case
def mapped_python_function(tf):
    return tf.data.Dataset.range(3).map(lambda x: tf.numpy_function(lambda v: v * 2, [x], tf.int64))


@case
def mapped_wrong_arity(tf):
    return tf.data.Dataset.range(3).map(lambda x, y: x)


@case
def mapped_without_a_function(tf):
    return tf.data.Dataset.range(3).map(3)


@case
def mapped_by_zero_workers(tf):
    return tf.data.Dataset.range(3).map(lambda x: x, num_parallel_calls=0)


@case
def mapped_failure(tf):
    def small(x):
        tf.debugging.assert_less(x, tf.constant(2, tf.int64))
        return x

    return tf.data.Dataset.range(3).map(small)


@case
def mapped_batches(tf):
    return tf.data.Dataset.range(5).batch(2).map(lambda x: tf.reduce_sum(x))


@case
def flat_mapped(tf):
    return tf.data.Dataset.range(4).flat_map(lambda x: tf.data.Dataset.range(x))


@case
def flat_mapped_rows(tf):
    return tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]).flat_map(tf.data.Dataset.from_tensor_slices)


@case
def flat_mapped_tensors(tf):
    return tf.data.Dataset.range(4).flat_map(lambda x: x)


@case
def interleaved(tf):
    return tf.data.Dataset.range(1, 4).interleave(
        lambda x: tf.data.Dataset.from_tensors(x).repeat(6), cycle_length=2, block_length=4
    )


@case
def interleaved_one_by_one(tf):
    return tf.data.Dataset.range(4).interleave(lambda x: tf.data.Dataset.from_tensors(x).repeat(x + 1), cycle_length=3)


@case
def interleaved_in_parallel(tf):
    return tf.data.Dataset.range(3).interleave(
        lambda x: tf.data.Dataset.range(x * 10, x * 10 + 3), cycle_length=2, block_length=2, num_parallel_calls=2
    )


@case
def scanned(tf):
    return tf.data.Dataset.range(5).scan(tf.constant(0, tf.int64), lambda total, x: (total + x, total * 10 + x))


@case
def reduced(tf):
    return int(tf.data.Dataset.range(5).reduce(tf.constant(0, tf.int64), lambda total, x: total + x).numpy())


@case
def reduced_pairs(tf):
    start = (tf.constant(0, tf.int64), tf.constant(1, tf.int64))
    total, product = tf.data.Dataset.range(1, 5).reduce(start, lambda state, x: (state[0] + x, state[1] * x))
    return [int(total.numpy()), int(product.numpy())]


@case
def reduced_nothing(tf):
    return float(tf.data.Dataset.range(0).reduce(4.0, lambda total, x: total).numpy())


@case
def applied(tf):
    return tf.data.Dataset.range(5).apply(lambda dataset: dataset.skip(1).batch(2))


# -- several datasets --------------------------------------------------------------------------------------------------


@case
def chosen(tf):
    datasets = [tf.data.Dataset.from_tensors(s).repeat(n) for s, n in (("a", 3), ("b", 3), ("c", 3))]
    return tf.data.Dataset.choose_from_datasets(datasets, tf.data.Dataset.range(3).repeat(2))


@case
def chosen_until_one_ends(tf):
    datasets = [tf.data.Dataset.range(2), tf.data.Dataset.range(10, 20)]
    return tf.data.Dataset.choose_from_datasets(datasets, tf.data.Dataset.range(2).repeat(4))


@case
def chosen_until_all_end(tf):
    datasets = [tf.data.Dataset.range(2), tf.data.Dataset.range(10, 13)]
    return tf.data.Dataset.choose_from_datasets(datasets, tf.data.Dataset.range(2).repeat(4), stop_on_empty_dataset=False)


@case
def sampled(tf):
    datasets = [tf.data.Dataset.range(5), tf.data.Dataset.range(100, 105)]
    values = [int(x) for x in tf.data.Dataset.sample_from_datasets(datasets, weights=[0.7, 0.3], seed=2)]
    return [sorted(values), [v for v in values if v < 50] == list(range(5))]


@case
def sampled_with_certainty(tf):
    datasets = [tf.data.Dataset.range(5), tf.data.Dataset.range(100, 105)]
    return [int(x) for x in tf.data.Dataset.sample_from_datasets(datasets, weights=[0.0, 1.0], stop_on_empty_dataset=True)]


@case
def random_numbers(tf):
    first, second = ([int(x) for x in tf.data.Dataset.random(seed=4).take(3)] for _ in range(2))
    return [first == second, all(0 <= x < 2**32 for x in first), int(tf.data.Dataset.random(seed=4).cardinality().numpy())]


# -- passes ------------------------------------------------------------------------------------------------------------


@case
def iterator(tf):
    it = iter(tf.data.Dataset.range(3))
    values = [int(next(it)), int(it.get_next()), bool(it.get_next_as_optional().has_value())]
    optional = it.get_next_as_optional()
    return [*values, bool(optional.has_value())]


@case
def iterator_at_its_end(tf):
    it = iter(tf.data.Dataset.range(1))
    next(it)
    return next(it)


@case
def get_next_at_its_end(tf):
    it = iter(tf.data.Dataset.range(1))
    next(it)
    return it.get_next()


@case
def numpy_elements(tf):
    elements = list(tf.data.Dataset.from_tensor_slices({"a": [1, 2], "b": [[1.0], [2.0]]}).as_numpy_iterator())
    return [[type(e["a"]).__name__, type(e["b"]).__name__, e["a"].item(), e["b"].tolist()] for e in elements]


@case
def lengths(tf):
    return [len(tf.data.Dataset.range(7).batch(2)), len(tf.data.Dataset.range(7).shuffle(3).take(4))]


@case
def length_without_end(tf):
    return len(tf.data.Dataset.range(7).repeat())


@case
def length_unknown(tf):
    return len(tf.data.Dataset.range(7).filter(lambda x: x > 2))


@case
def sizes(tf):
    r = tf.data.Dataset.range(7)
    datasets = [
        r, r.repeat(), r.repeat().take(3), r.filter(lambda x: x > 1), r.filter(lambda x: x > 1).repeat(), r.batch(2).unbatch(),
        r.batch(2, drop_remainder=True).unbatch(), r.window(2, shift=3), r.window(3, shift=1, drop_remainder=True),
        r.flat_map(lambda x: tf.data.Dataset.range(2)), r.prefetch(1).cache().enumerate(), r.concatenate(r.repeat()),
        tf.data.Dataset.zip((r, r.repeat())), tf.data.Dataset.zip((r.repeat(), r.repeat())), r.shard(3, 0), r.skip(2).take(3),
        r.filter(lambda x: x > 1).take(2), r.repeat().skip(3), r.repeat().batch(3), r.take_while(lambda x: x < 3),
    ]  # fmt: skip
    return [int(dataset.cardinality().numpy()) for dataset in datasets]


@case
def names(tf):
    return [
        tf.data.AUTOTUNE, tf.data.experimental.AUTOTUNE, tf.data.INFINITE_CARDINALITY, tf.data.UNKNOWN_CARDINALITY,
        int(tf.data.experimental.cardinality(tf.data.Dataset.range(4)).numpy()),
    ]  # fmt: skip


@case
def options(tf):
    options = tf.data.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = 2
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf.data.Dataset.range(3).with_options(options)


@case
def option_that_is_none(tf):
    tf.data.Options().no_such_option = True


@case
def expected_size(tf):
    return tf.data.Dataset.range(5).filter(lambda x: x < 3).apply(tf.data.experimental.assert_cardinality(3))


@case
def unexpected_size(tf):
    return tf.data.Dataset.range(5).filter(lambda x: x < 3).apply(tf.data.experimental.assert_cardinality(4))


@case
def single_element(tf):
    return int(tf.data.Dataset.range(3).batch(3).get_single_element().numpy().sum())


@case
def single_of_several(tf):
    return tf.data.Dataset.range(3).get_single_element()


@case
def in_a_function(tf):
    dataset = tf.data.Dataset.range(5).map(lambda x: tf.cast(x, tf.float32))

    @tf.function
    def total(scale):
        y = tf.constant(0.0)
        for x in dataset:
            if x > 3.0:
                break
            if x < 1.0:
                continue
            y += scale * x
        return y

    return [float(total(tf.constant(2.0))), float(total(tf.constant(3.0)))]


@case
def gradient_in_a_function(tf):
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(7.0, dtype=np.float32)).batch(3)
    w = tf.Variable(2.0)

    @tf.function
    def step():
        y = tf.constant(0.0)
        with tf.GradientTape() as tape:
            for x in dataset:
                y += tf.reduce_sum(tf.sin(w * x))
        return y, tape.gradient(y, w)

    return [round(float(v), 4) for v in step()]


@case
def enumerated_in_a_function(tf):
    dataset = tf.data.Dataset.range(3, 6)

    @tf.function
    def total():
        y = tf.constant(0, tf.int64)
        for i, x in enumerate(dataset):
            y += tf.cast(i, tf.int64) * x
        return y

    return int(total())


@case
def iterator_in_a_function(tf):
    it = iter(tf.data.Dataset.range(10))

    @tf.function
    def two():
        return next(it) * 10 + next(it)

    return [int(two()), int(two())]


def agree(ours, theirs):
    """Whether two descriptions are of the same behaviour: an error of ours may be of several kinds."""
    if "error" in ours and "error" in theirs:
        return theirs["error"][0] in ours["error"]
    return ours == theirs


def main():
    module = importlib.import_module(sys.argv[1])
    results = {name: described(run, module) for name, run in CASES.items()}
    if sys.argv[1] == "tensorflow":
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(result)}" for name, result in results.items())
        RECORDED.write_text("{\n" + lines + "\n}\n")
        return
    recorded = json.loads(RECORDED.read_text())
    for name, result in results.items():
        if not agree(result, recorded.get(name)):
            print(f"{name}\n   ours {json.dumps(result)[:400]}\n   tf   {json.dumps(recorded.get(name))[:400]}")


if __name__ == "__main__":
    main()
