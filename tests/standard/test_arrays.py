"""Arrays of the standard: how they are made, promoted, indexed and written to; and that all of it is recorded."""

import operator

import numpy as np
import pytest

import gradtape as gt
import gradtape.array_api as xp
from tests.standard.test_signatures import DTYPES, INTEGERS

# -- creation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
def test_creation(dtype):
    like = xp.zeros((2, 3), dtype=dtype)
    for have, want in [
        (like, np.zeros((2, 3))), (xp.ones(3, dtype=dtype), np.ones(3)), (xp.empty((2,), dtype=dtype) == 0, [1, 1]),
        (xp.eye(3, 4, k=-1, dtype=dtype), np.eye(3, 4, -1)), (xp.full((2,), 1, dtype=dtype), [1, 1]),
        (xp.ones_like(like), np.ones((2, 3))), (xp.zeros_like(like), np.zeros((2, 3))),
        (xp.empty_like(like) == 0, np.ones((2, 3))),
        (xp.full_like(like, 1), np.ones((2, 3))), (xp.asarray([0, 1], dtype=dtype), [0, 1]), (xp.asarray(1, dtype=dtype), 1),
        (xp.asarray(np.array([0, 1], dtype)), [0, 1]), (xp.from_dlpack(np.array([0, 1], dtype)), [0, 1]),
    ]:  # fmt: skip
        np.testing.assert_array_equal(have.numpy(), want)
        assert have.dtype in (dtype, xp.bool)
    for other in DTYPES:
        if not (dtype.startswith("complex") and not other.startswith("complex")):
            cast = xp.astype(xp.asarray([0, 1], dtype=dtype), other)
            assert (cast.dtype, cast.numpy().tolist()) == (other, [0, 1])


def test_default_dtypes():
    made = [xp.asarray(v) for v in (True, 1, 1.0, 1j, 2**40, 2**63, [1, 2.0], [1j, 1], [[True]], np.float64(1), np.array(1j))]
    assert [x.dtype.name for x in made] == [
        "bool", "int32", "float32", "complex64", "int64", "uint64", "float32", "complex64", "bool", "float64", "complex128",
    ]  # fmt: skip
    assert [x.dtype.name for x in (xp.full(1, 2), xp.full(1, 2.0), xp.full(1, 2j), xp.full(1, True))] == [
        "int32", "float32", "complex64", "bool",
    ]  # fmt: skip
    assert {f(2).dtype.name for f in (xp.zeros, xp.ones, xp.empty, xp.eye)} == {"float32"}


def test_ranges():
    for arguments in [(5,), (1, 9, 2), (5, 0, -2), (3, 3), (0, 1, 0.1), (0.5, 3), (2**40, 2**40 + 3), (-3.0, 3.0, 0.7)]:
        want = np.arange(*arguments)
        have = xp.arange(*arguments)
        assert have.shape == want.shape
        np.testing.assert_allclose(have.numpy(), want, rtol=1e-6, atol=1e-7)
    assert [xp.arange(v).dtype.name for v in (3, 3.0, gt.constant(3))] == ["int32", "float32", "int32"]
    assert xp.arange(0, 2**64 - 1, 2**62, dtype=xp.uint64).numpy().tolist() == [0, 2**62, 2**63, 3 * 2**62]
    for options in ({}, {"endpoint": False}, {"dtype": "float64"}):
        want = np.linspace(-1.0, 0.3, 7, **options)
        np.testing.assert_allclose(xp.linspace(-1.0, 0.3, 7, **options).numpy(), want.astype(np.float32), rtol=1e-6)
    assert xp.linspace(0, 1j, 3).dtype == xp.complex64
    assert float(xp.linspace(0.0, 0.7, 50, dtype=xp.float64)[-1]) == 0.7


def test_copies_are_copies():
    x = xp.asarray([1.0, 2.0, 3.0])
    for copy in (xp.asarray(x, copy=True), xp.astype(x, x.dtype), xp.from_dlpack(x), xp.reshape(x, (3,), copy=True), +x):
        copy[0] = 9.0
    assert x.numpy().tolist() == [1, 2, 3]
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=False) is x
    assert xp.astype(x, x.dtype, copy=False) is x
    array = np.array([1.0, 2.0])
    held = xp.asarray(array)
    array[0] = 7.0
    assert held.numpy().tolist() == [1, 2]
    for call in (
        lambda: xp.asarray(array, copy=False), lambda: xp.asarray(x, dtype=xp.float64, copy=False),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="copy=False"):
            call()
    with pytest.raises(ValueError, match="device 'gpu' is not known"):
        xp.zeros(2, device="gpu")


# -- types -----------------------------------------------------------------------------------------------------------


def test_promotion_is_the_standards_table():
    for kind in (["bool"], INTEGERS, ["float32", "float64"], ["complex64", "complex128"]):
        for a in kind:
            for b in kind:
                want = np.promote_types(a, b)
                if "uint64" in (a, b) and want.kind == "f":
                    continue  # signed with uint64: the standard has no answer
                assert xp.result_type(getattr(xp, a), getattr(xp, b)).name == want.name
                if a != "bool":
                    assert (xp.ones(1, dtype=a) + xp.ones(1, dtype=b)).dtype == want
                    assert xp.concat([xp.ones(1, dtype=a), xp.ones(1, dtype=b)]).dtype == want
                    assert xp.where(xp.asarray([True]), xp.ones(1, dtype=a), xp.ones(1, dtype=b)).dtype == want


NUMBERS = {"bool": [True], **dict.fromkeys(INTEGERS, (2,)), "float32": (2, 2.0), "float64": (2, 2.0), "complex64": (2, 2.0, 2j)}
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.pow]
BITS = [operator.and_, operator.or_, operator.xor]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_python_numbers_take_the_dtype(dtype):
    x = xp.asarray([1, 3], dtype=dtype)
    operators = BITS if dtype == "bool" else ARITHMETIC + BITS * (dtype in INTEGERS) + [operator.floordiv] * (dtype in INTEGERS)
    for number in NUMBERS[dtype]:
        for operate in operators:
            assert operate(x, number).dtype == operate(number, x).dtype == dtype, (operate, number)
            assert xp.result_type(x, number) == dtype
        assert (x == number).dtype == xp.bool
    if dtype != "bool":
        for operate in (operator.iadd, operator.imul, operator.isub):
            assert operate(xp.asarray(x, copy=True), x).dtype == dtype


def test_complex_numbers_are_as_precise_as_their_array():
    for dtype, want in (("float32", "complex64"), ("float64", "complex128")):
        x = xp.ones(2, dtype=dtype)
        assert {(x * 1j).dtype.name, (1j + x).dtype.name, xp.multiply(x, 1j).dtype.name, xp.result_type(x, 1j).name} == {want}
    z = gt.complex(gt.constant([1.0, -0.0, np.inf]), gt.constant([np.inf, -0.0, np.nan])).numpy()
    np.testing.assert_array_equal((z.real, z.imag), ([1.0, -0.0, np.inf], [np.inf, -0.0, np.nan]))
    assert np.signbit(z.real[1])


def test_limits():
    for name in ("float32", "float64", "complex64"):
        have, want = xp.finfo(getattr(xp, name)), np.finfo(name)
        assert (have.bits, have.eps, have.max, have.min) == (want.bits, want.eps, want.max, want.min)
        assert (have.smallest_normal, have.dtype) == (want.smallest_normal, want.dtype.name)
        assert {type(v) for v in (have.eps, have.max, have.min, have.smallest_normal)} == {float}
    for name in INTEGERS:
        have, want = xp.iinfo(xp.ones(1, dtype=name)), np.iinfo(name)
        assert (have.bits, have.max, have.min, have.dtype) == (want.bits, want.max, want.min, name)
    assert [xp.can_cast(a, b) for a, b in ((xp.int8, xp.int16), (xp.float64, xp.float32), (xp.arange(2), xp.float64))] == [
        True, False, True,
    ]  # fmt: skip
    assert [float(xp.asarray(2.5)), int(xp.asarray(3)), bool(xp.asarray(True)), complex(xp.asarray(1j))] == [2.5, 3, True, 1j]
    assert operator.index(xp.asarray(3)) == 3
    with pytest.raises(TypeError, match="index"):
        operator.index(xp.asarray(3.0))


# -- indexing --------------------------------------------------------------------------------------------------------

KEYS = [
    0, -1, (0, 1), (0, 1, 2), slice(None), slice(1, None), slice(None, None, -1), (slice(None), slice(0, 3, 2)), ..., (..., 0),
    (0, ...), (..., slice(1, 2)), None, (None, 0), (slice(None), None), (..., None), (0, None, ..., None), (1, slice(None), -1),
    slice(5, 2), slice(-100, 100), (slice(None), slice(None, None, -2), slice(3, 0, -1)), (),
]  # fmt: skip
CUBE = np.arange(24).reshape(2, 3, 4)
ROWS, PLANE = np.array([1, 0, 1]), np.array([[0], [2]])
ARRAYS = [
    (ROWS,), (ROWS, 0), (0, ROWS), (slice(None), ROWS), (ROWS, PLANE), (slice(None), ROWS, PLANE), (..., ROWS), (ROWS, None),
    (CUBE % 3 == 0,), (CUBE[:, :, 0] > 3,), (slice(None), np.array([True, False, True])),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS + ARRAYS, ids=lambda k: str(k).replace("\n", ""))
def test_indices(key):
    ours = tuple(xp.asarray(k) if isinstance(k, np.ndarray) else k for k in key) if isinstance(key, tuple) else key
    x = xp.asarray(CUBE)
    np.testing.assert_array_equal(x[ours].numpy(), CUBE[key])
    assert x[ours].shape == CUBE[key].shape
    written, want = xp.asarray(x, copy=True), CUBE.copy()
    written[ours], want[key] = -7, -7
    np.testing.assert_array_equal(written.numpy(), want)
    np.testing.assert_array_equal(x.numpy(), CUBE)


@pytest.mark.parametrize("key", [7, (0, 5), (0, 0, 0, 0)], ids=str)
def test_indices_out_of_bounds(key):
    with pytest.raises(IndexError):
        xp.asarray(CUBE)[key]


# -- recording -------------------------------------------------------------------------------------------------------

RECORDED = {
    "asarray": lambda x: xp.asarray(x, copy=True),
    "astype": lambda x: xp.astype(x, xp.float64),
    "list": lambda x: xp.asarray([x[0], x[1]]),
    "full": lambda x: xp.full((2,), x[0, 0]),
    "cumulative_sum": lambda x: xp.cumulative_sum(x, axis=0, include_initial=True),
    "sort": lambda x: xp.sort(x, descending=True),
    "take": lambda x: xp.take(x, xp.asarray([1, 0]), axis=1),
    "unique": xp.unique_values,
    "clip": lambda x: xp.clip(x, 0.5, 2.0),
    "logaddexp": lambda x: xp.logaddexp(x, x[0]),
    "hypot": lambda x: xp.hypot(x, 1.0),
    "copysign": lambda x: xp.copysign(x, -1.0),
    "pinv": xp.linalg.pinv,
    "hfft": lambda x: xp.fft.hfft(xp.astype(x, xp.complex128)),
    "ihfft": lambda x: xp.real(xp.fft.ihfft(x)),
    "svdvals": xp.linalg.svdvals,
    "std": lambda x: xp.std(x, correction=1),
    "mT": lambda x: x.mT @ x,
    "concat": lambda x: xp.concat([x, 2 * x], axis=None),
    "where": lambda x: xp.where(x > 1, x, 0.0),
    "diff": lambda x: xp.diff(x, prepend=x),
    "log2": xp.log2,
    "matrix_power": lambda x: xp.linalg.matrix_power(x, -2),
    "vector_norm": lambda x: xp.linalg.vector_norm(x, ord=3),
    "meshgrid": lambda x: xp.meshgrid(x[0], x[1])[1],
    "repeat": lambda x: xp.repeat(x, 2, axis=1),
    "reciprocal": xp.reciprocal,
    "to_device": lambda x: x.to_device(x.device) * 2,
    "tensordot": lambda x: xp.tensordot(x, x, axes=1),
    "take_along_axis": lambda x: xp.take_along_axis(x, xp.argsort(x), axis=-1),
    "real": lambda x: xp.real(xp.log2(xp.astype(x, xp.complex128) + 1j)),
}


@pytest.mark.parametrize("name", RECORDED)
def test_watched_arrays_are_recorded(name):
    def loss(x):
        out = RECORDED[name](x)
        return xp.sum(out * out)

    start = np.array([[1.3, 0.4], [0.7, 2.6]])
    x = xp.asarray(start)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = loss(x)
    gradient, step = tape.gradient(y, x).numpy(), 1e-6
    for place in np.ndindex(2, 2):
        move = np.zeros((2, 2))
        move[place] = step
        slope = (float(loss(xp.asarray(start + move))) - float(loss(xp.asarray(start - move)))) / (2 * step)
        assert abs(slope - gradient[place]) < 1e-5 * max(1, abs(slope)), (place, slope, gradient)


def test_logaddexp_at_a_tie_to_second_order():
    f = gt.grad(lambda v: xp.logaddexp(v[0], v[1]))
    x = gt.constant([0.7, 0.7], gt.float64)
    np.testing.assert_allclose(f(x).numpy(), [0.5, 0.5])
    np.testing.assert_allclose(gt.jacobian(f)(x).numpy(), [[0.25, -0.25], [-0.25, 0.25]])
