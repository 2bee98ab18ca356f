"""Compiled code took negative indices for places counted from the end where eager code raises: labels of the sparse cross
entropy, slots of a `TensorArray`; it let a freed slot be read again; and an index of type uint64 beyond int64 wrapped around,
in index arrays even in eager code.

The table has functions with an index, label or size among their operands. Each runs eagerly, interpreted and natively, and as
one example of a batch, on values around every edge: the same value, or the same exception with the same words.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt

N = 4
X = np.arange(4.0) + 1.0
M = np.arange(12.0).reshape(4, 3) + 1.0
EDGES = (-N - 1, -N, -1, 0, N - 1, N, N + 1)
VALUES = {
    "int32": (*EDGES, -(2**31), 2**31 - 1),
    "int64": (*EDGES, -(2**31), 2**31 - 1, -(2**63), 2**63 - 1),
    "uint64": (0, N - 1, N, 2**63 - 1, 2**63, 2**64 - N, 2**64 - 1),
}
TABLE = {}
SMALL = set()  # of those whose result would not fit into memory: sizes


def row(function):
    TABLE[function.__name__] = function
    return function


def sized(function):
    SMALL.add(function.__name__)
    return row(function)


def one(i):
    return gt.reshape(i, [1, 1])


def nine():
    return gt.constant(9.0, gt.float64)


def nines():
    return gt.constant([9.0], gt.float64)


# -- reading


@row
def item(i):
    return gt.constant(X)[i], gt.constant(M)[i, 1]


@row
def gathered_by_a_list(i):
    return gt.TensorArray(gt.float64, size=N, element_shape=[], clear_after_read=False).unstack(X).gather([i, 0])


@row
def scattered_by_a_list(i):
    return gt.TensorArray(gt.float64, size=N, element_shape=[], clear_after_read=False).unstack(X).scatter([i], nines()).stack()


@row
def items(i):
    return gt.constant(X)[gt.stack([i])], gt.constant(M)[gt.stack([i]), gt.stack([i * 0])]


@row
def gather(i):
    return gt.gather(gt.constant(X), i)


@row
def gather_rows(i):
    return gt.gather(gt.constant(M), gt.stack([i, i * 0]))


@row
def gather_columns(i):
    return gt.gather(gt.constant(M.T), gt.stack([i, i]), axis=1)


@row
def gather_in_batches(i):
    return gt.gather(gt.constant(M.T), gt.stack([[i], [i], [i]]), axis=1, batch_dims=1)


@row
def batch_gather(i):
    return gt.batch_gather(gt.constant(M.T), gt.stack([[i], [i], [i]]))


@row
def gather_nd(i):
    return gt.gather_nd(gt.constant(M), gt.stack([[i, gt.ones_like(i)]]))


@row
def embedding(i):
    return gt.nn.embedding_lookup(gt.constant(M), gt.stack([i, i]))


@row
def labels(i):
    logits = gt.constant([[0.1, 0.4, 0.2, 0.3], [0.3, 0.2, 0.4, 0.1]])
    return gt.nn.sparse_softmax_cross_entropy_with_logits(labels=gt.stack([i, i * 0]), logits=logits)


@row
def in_top_k(i):
    return gt.math.in_top_k(gt.stack([i]), gt.constant([[1.0, 2.0, 3.0, 4.0]]), 2)


# -- writing


@row
def written_item(i):
    y = gt.constant(X) + 0.0
    y[i] = 9.0
    return y


@row
def written_items(i):
    y = gt.constant(M) + 0.0
    y[gt.stack([i, i])] = 9.0
    return y


@row
def written_slice(i):
    y = gt.constant(X) + 0.0
    y[i:] = 9.0
    return y


@row
def scatter_nd(i):
    return gt.scatter_nd(one(i), nines(), [4])


@row
def scatter_update(i):
    return gt.tensor_scatter_nd_update(gt.constant(X), one(i), nines())


@row
def scatter_add(i):
    return gt.tensor_scatter_nd_add(gt.constant(X), one(i), nines())


@row
def scatter_max(i):
    return gt.tensor_scatter_nd_max(gt.constant(X), one(i), nines())


@row
def segments(i):
    return gt.math.unsorted_segment_sum(gt.constant(X), gt.stack([i, i * 0, i * 0, i * 0]), 4)


@row
def segments_max(i):
    return gt.math.unsorted_segment_max(gt.constant(X), gt.stack([i, i * 0, i * 0, i * 0]), 4)


@row
def one_hot(i):
    return gt.one_hot(i, 4)


# -- slices and sizes


@row
def slice_begin(i):
    return gt.slice(gt.constant(X), [i], [1])


@row
def slices(i):
    x = gt.constant(X)
    return x[i:], x[:i], x[i::-1], x[:i:-2], x[i:3], x[1:i:2]


@row
def strided(i):
    return gt.strided_slice(gt.constant(X), [i], [4], [1])


@sized
def tiled(i):
    return gt.tile(gt.constant(X), [i])


@sized
def shapes(i):
    return gt.fill([i], 1.0), gt.zeros([i]), gt.eye(i), gt.broadcast_to(gt.constant(1.0), [i])


@sized
def counted(i):
    return gt.range(i), gt.range(i, 4), gt.range(0, 8, i)


@row
def mask(i):
    return gt.sequence_mask(gt.stack([i]), 4)


@sized
def inverted(i):
    return gt.math.invert_permutation(gt.stack([i, i * 0]))


# -- numbers that a program may know later: how many, how far, in which order


@sized
def best(i):
    return gt.math.top_k(gt.constant(X), i)[0]


@row
def within_the_best(i):
    return gt.math.in_top_k([1], gt.constant([[1.0, 2.0, 3.0, 4.0]]), gt.cast(i, gt.int64))


@sized
def parts(i):
    return gt.split(gt.constant(X), gt.stack([i, 4 - i]))


@sized
def repeated(i):
    return gt.repeat(gt.constant(X), i), gt.repeat(gt.constant(M.T), gt.stack([i, i, i, i]), axis=1)


@row
def rolled(i):
    return gt.roll(gt.constant(X), i, 0)


@sized
def padded(i):
    return gt.pad(gt.constant(X), [[i, 0]])


@sized
def padded_by_mirrors(i):
    return gt.pad(gt.constant(X), [[i, 1]], "REFLECT")


@row
def transposed(i):
    return gt.transpose(gt.constant(M), gt.stack([i, i * 0]))


@sized
def spaced(i):
    return gt.linspace(0.0, 1.0, i)


@sized
def reshaped(i):
    return gt.reshape(gt.constant(M), [i, -1]), gt.reshape(gt.constant(M), gt.stack([4, i]))


@sized
def sliced(i):
    return gt.slice(gt.constant(X), [0], [i])


@sized
def sorted_segments(i):
    return gt.math.segment_sum(gt.constant(X[:2]), gt.stack([i * 0, i]))


@sized
def number_of_segments(i):
    return gt.math.unsorted_segment_sum(gt.constant(X), [0, 3, 1, 0], i)


@sized
def counts(i):
    return gt.math.bincount(gt.stack([i, i * 0])), gt.math.bincount([1, 2], minlength=i), gt.math.bincount([1, 2], maxlength=i)


@sized
def classes(i):
    return gt.math.confusion_matrix(gt.stack([i]), [1], 4), gt.math.confusion_matrix([1], [2], i)


@sized
def depth(i):
    return gt.one_hot([0, 3], i)


@sized
def longest(i):
    return gt.sequence_mask([1, 3], i)


@row
def band(i):
    return gt.linalg.band_part(gt.constant(M), i, 0)


@sized
def draws(i):
    return gt.random.stateless_normal([i], (1, 2)), gt.random.stateless_categorical(gt.constant([[0.1, 0.4]]), i, (1, 2))


@row
def branch(i):
    return gt.switch_case(i, [lambda: gt.constant(1.0), lambda: gt.constant(2.0)])


# -- lists


def filled(**options):
    return gt.TensorArray(gt.float64, 4, **options).unstack(gt.constant(X))


@row
def array_read(i):
    return filled().read(i)


@row
def array_write(i):
    return filled().write(i, nine()).stack()


@row
def array_scatter(i):
    return filled().scatter(gt.stack([i]), nines()).stack()


@row
def array_gather(i):
    return filled().gather(gt.stack([i]))


@row
def array_read_in_a_loop(i):
    array, total = filled(), gt.constant(0.0, gt.float64)
    for _ in gt.range(2):
        total = total + array.read(i)
    return total


@row
def array_write_in_a_loop(i):
    array = filled()
    for k in gt.range(2):
        array = array.write(i, gt.cast(k, gt.float64))
    return array.stack()


@sized
def array_that_grows(i):
    array = gt.TensorArray(gt.float64, 0, dynamic_size=True).unstack(gt.constant(X))
    return array.write(i, nine()).stack()


@sized
def array_of_a_size(i):
    return gt.TensorArray(gt.float64, i, element_shape=[]).stack()


@row
def array_read_twice(i):
    array = filled(clear_after_read=True)
    return array.read(i) + array.read(i)


@row
def array_read_twice_in_a_loop(i):
    array, total = filled(clear_after_read=True), gt.constant(0.0, gt.float64)
    for _ in gt.range(2):
        total = total + array.read(i)
    return total


def looped():
    values = []
    for k in gt.range(4):
        values.append(gt.cast(k, gt.float64))
    return values


@row
def list_item(i):
    values = looped()
    return values[i]


@row
def list_written(i):
    values = looped()
    values[i] = nine()
    return gt.stack(values)


@row
def list_of_python(i):
    values = [gt.constant(1.0), gt.constant(2.0), gt.constant(3.0), gt.constant(4.0)]
    return values[i]


# -- variables


def variable():
    return VARIABLE[0]


VARIABLE = [None]


@row
def variable_read(i):
    return variable().sparse_read(i)


@row
def variable_scatter(i):
    variable().scatter_nd_update(one(i), nines())
    return variable() + 0.0


@row
def variable_item(i):
    variable()[i].assign(3.0)
    return variable() + 0.0


# -- the tests


def outcome(call, value):
    VARIABLE[0].assign(X)
    with np.errstate(all="ignore"):
        try:
            found = gt.nest.flatten(call(gt.constant(value)))
        except Exception as error:
            return type(error), str(error)
    return [tensor.numpy().tolist() for tensor in found]


def values_for(name, dtype):
    return [v for v in VALUES[dtype] if name not in SMALL or abs(v) < 100]


DTYPES = {name: ("int32", "int64")[k % 2] for k, name in enumerate(TABLE)}


@pytest.fixture(autouse=True)
def _a_variable():
    VARIABLE[0] = gt.Variable(X)
    yield
    VARIABLE[0] = None


@pytest.mark.parametrize("name", TABLE)
def test_an_index_is_refused_as_in_eager_code(name):
    function = TABLE[name]
    ways = {"interpreted": gt.function(function, jit_compile=False), "native": gt.function(function, jit_compile=True)}
    for dtype in (DTYPES[name], "uint64"):
        for value in values_for(name, dtype):
            number = np.dtype(dtype).type(value)
            expected = outcome(function, number)
            for way, call in ways.items():
                assert outcome(call, number) == expected, f"{name}({dtype} {value}), {way}"


@pytest.mark.parametrize("name", TABLE)
def test_no_example_of_a_batch_takes_what_eager_code_refuses(name):
    function = TABLE[name]

    def batched(i):
        return gt.nest.map_structure(lambda t: t[0], gt.vectorized_map(function, gt.stack([i])))

    for dtype in ("int32", "uint64"):
        for value in values_for(name, dtype):
            number = np.dtype(dtype).type(value)
            expected, found = outcome(function, number), outcome(batched, number)
            if isinstance(found, list):  # some sizes cannot differ from example to example, and are refused
                assert found == expected, f"{name}({dtype} {value})"


def test_an_index_of_a_program_with_effects_is_refused_in_words():
    """It cannot run again for the error of eager code, so the words are its own."""

    @gt.function
    def read(i):
        gt.print("reading", output_stream=lambda text: None)
        return filled().read(i)

    @gt.function
    def loss(i):
        gt.print("a loss", output_stream=lambda text: None)
        return labels(i)

    with pytest.raises(gt.errors.InvalidArgumentError, match=r"TensorArray.read: index -1 is not in \[0, 4\)"):
        read(gt.constant(-1))
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"label 4 is not in \[0, 4\)"):
        loss(gt.constant(4))


FREED = "slot 1 was already read and freed; make the array with clear_after_read=False"


def read_then_stack(i):
    array = filled(clear_after_read=True)
    return array.read(i), array.stack()


def stack_then_read(i):
    array = filled(clear_after_read=True)
    for k in gt.range(1):
        array = array.write(0, gt.cast(k, gt.float64))
    return array.stack(), array.read(i)


def gathered_twice(i):
    return filled(clear_after_read=True).gather(gt.stack([i, i * 0, i]))


def read_in_a_branch_and_after(i):
    array, total = filled(clear_after_read=True), gt.constant(0.0, gt.float64)
    if i > 0:
        total = array.read(1)
    return total + array.read(1)


@pytest.mark.parametrize("function", [read_then_stack, stack_then_read, gathered_twice, read_in_a_branch_and_after])
@pytest.mark.parametrize("native", [None, False, True], ids=["eager", "interpreted", "native"])
def test_a_freed_slot_is_not_read_again(function, native):
    call = function if native is None else gt.function(function, jit_compile=native)
    with pytest.raises(gt.errors.InvalidArgumentError, match=FREED if function is not stack_then_read else "already read"):
        call(gt.constant(1))


@pytest.mark.parametrize("native", [None, False, True], ids=["eager", "interpreted", "native"])
def test_slots_read_once_and_written_again(native):
    def twice(x):
        array = gt.TensorArray(gt.float32, 3, clear_after_read=True)
        for i in gt.range(3):
            array = array.write(i, x * gt.cast(i + 1, gt.float32))
        total = gt.constant(0.0)
        for i in gt.range(3):
            value = array.read(i)
            total = total + value * value
            array = array.write(i, value + x)
        return total + gt.reduce_sum(array.stack())

    call = twice if native is None else gt.function(twice, jit_compile=native)
    x = gt.constant(2.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = call(x)
    assert (y.numpy(), tape.gradient(y, x).numpy()) == (74.0, 65.0)
