"""A range of floats had one item more or less than TensorFlow's in a third of the cases: bounds were rounded to float32 and
then counted in float64. The count belongs to the dtype of the result; the digests below are of the lengths TensorFlow 2.21
gives for every start, stop and step in tenths."""

import hashlib

import numpy as np
import pytest

import gradtape as gt

# (start, stop, step) in tenths
TENTHS = [(start, stop, step) for start in (0, 3, -7) for stop in range(start, 101) for step in range(1, 31)]
LENGTHS = {"float32": "0a1a0766545d89ae", "float64": "7d4d3908d961e04d"}


def digest(lengths):
    return hashlib.sha256(bytes(np.array(lengths, np.uint8))).hexdigest()[:16]


@pytest.mark.parametrize("dtype", LENGTHS)
def test_lengths_of_all_pairs_of_tenths(dtype):
    lengths = [len(gt.range(a / 10, b / 10, c / 10, dtype=dtype)) for a, b, c in TENTHS]
    assert digest(lengths) == LENGTHS[dtype]


@pytest.mark.parametrize("dtype", LENGTHS)
@pytest.mark.parametrize("native", [True, False], ids=["native", "interpreted"])
def test_bounds_known_at_run_time(dtype, native):
    count = gt.function(lambda a, b, c: gt.range(a, b, c), jit_compile=native)
    for a, b, c in [(0, 3, 1), (0, 70, 7), (3, 45, 6), (-7, 99, 11), (0, 0, 5)]:
        bounds = [gt.constant(v / 10, dtype) for v in (a, b, c)]
        want = gt.range(a / 10, b / 10, c / 10, dtype=dtype).numpy()
        got = count(*bounds).numpy()
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_constants_inside_a_function():
    assert gt.function(lambda: gt.range(0.0, 0.3, 0.1))().shape == (3,)
    assert gt.function(lambda: gt.range(0.0, 7.0, 0.7), jit_compile=False)().shape == (10,)


def test_values_are_start_plus_multiples_of_the_step():
    want = np.float32(0.3) + np.arange(897).astype(np.float32) * np.float32(0.1)
    np.testing.assert_array_equal(gt.range(0.3, 90.0, 0.1).numpy(), want)


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ((0.0, 0.3, 0.1, "float16"), 4),
        ((0.0, 0.3, 0.1, "bfloat16"), 3),
        ((1.0, 0.0, -0.1), 10),
        ((3,), 3),
        ((5, 0, -2), 3),
        ((2.0, 1.0), 0),
    ],
    ids=str,
)
def test_other_dtypes_and_directions(arguments, want):
    assert len(gt.range(*arguments)) == want


def test_python_bounds_take_the_dtype_of_a_tensor():
    assert gt.range(gt.constant(0.0, gt.float64), 0.3, 0.1).numpy().tolist() == [0.0, 0.1, 0.2]


@pytest.mark.parametrize("native", [True, False])
def test_refusals(native):
    count = gt.function(lambda a, b, c: gt.range(a, b, c), jit_compile=native)
    for run in (gt.range, count):
        with pytest.raises(gt.errors.InvalidArgumentError, match="delta must not be 0"):
            run(gt.constant(0.0), gt.constant(1.0), gt.constant(0.0))
        with pytest.raises(gt.errors.InvalidArgumentError, match="no finite number of steps"):
            run(gt.constant(0.0), gt.constant(np.inf, gt.float32), gt.constant(1.0))
    with pytest.raises(gt.errors.InvalidArgumentError, match="scalars"):
        gt.range([0.0, 1.0], 2.0)
    with pytest.raises(TypeError, match="fraction"):
        gt.range(0.5, 2.0, dtype=gt.int32)
