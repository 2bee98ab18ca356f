"""Tensor: conversion and dtype rules, operators, indexing, item assignment, leaving the tape, printing, copies."""

import copy
import operator
import pickle
import sys

import numpy as np
import pytest

import gradtape as gt

RNG = np.random.default_rng(11)
A = RNG.normal(size=(4, 3, 5))

# -- from Python and NumPy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.0, gt.float32),
        ([1.0, 2], gt.float32),
        (1, gt.int32),
        ([[1], [2]], gt.int32),
        (True, gt.bool),
        (1j, gt.complex128),
        (2**40, gt.int64),
        ("text", gt.string),
        ([], gt.float32),
        (np.float64(1.0), gt.float64),
        (np.arange(3), gt.int64),
        (np.float16(1.0), gt.float16),
        (np.ones(2, np.uint8), gt.uint8),
        ([np.float64(1.0), np.float64(2.0)], gt.float64),
        ([gt.constant(1.0), 2.0], gt.float32),
        ((gt.constant(1), gt.constant(2)), gt.int32),
    ],
)
def test_default_dtypes(value, dtype):
    t = gt.convert_to_tensor(value)
    assert t.dtype == dtype
    assert gt.constant(value).dtype == dtype


def test_requested_dtype():
    assert gt.constant(1, dtype=gt.float64).dtype == gt.float64
    assert gt.constant([1.5], dtype="float16").dtype == gt.float16
    assert gt.convert_to_tensor(np.ones(2), dtype=gt.float32).dtype == gt.float32
    assert gt.convert_to_tensor(1, dtype_hint=gt.float32).dtype == gt.float32
    with pytest.raises(TypeError, match="without losing its fraction"):
        gt.constant(1.5, dtype=gt.int32)
    with pytest.raises(ValueError, match=r"requested dtype float64.*gt\.cast"):
        gt.convert_to_tensor(gt.constant(1.0), dtype=gt.float64)


@pytest.mark.parametrize("value", [None, object(), [1, [2, 3]], {"a": 1}, [object()], lambda: 0])
def test_what_cannot_be_a_tensor(value):
    with pytest.raises((TypeError, ValueError)):
        gt.convert_to_tensor(value)


def test_numpy_data_is_copied_in():
    array = np.array([1.0, 2.0])
    t = gt.constant(array)
    array[0] = 9.0
    assert t.numpy()[0] == 1.0


def test_packing_lists_of_tensors_is_recorded():
    x = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = gt.convert_to_tensor([[x, 2.0 * x], [1.0, x * x]])
    assert y.shape == (2, 2)
    assert tape.gradient(y, x).numpy() == 1 + 2 + 6


# -- promotion -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (gt.float32, gt.float64, gt.float64),
        (gt.float32, gt.int64, gt.float32),
        (gt.float16, gt.int32, gt.float16),
        (gt.int32, gt.int64, gt.int64),
        (gt.uint8, gt.int8, gt.int16),
        (gt.float32, gt.bool, gt.float32),
        (gt.int32, gt.bool, gt.int32),
        (gt.complex64, gt.float32, gt.complex64),
        (gt.float16, gt.float32, gt.float32),
        (gt.complex64, gt.float64, gt.complex128),
        (gt.complex64, gt.int64, gt.complex64),
    ],
)
def test_mixed_dtypes_promote(a, b, result):
    x, y = gt.ones(2, a), gt.ones(2, b)
    for operate in (operator.add, operator.mul):
        assert operate(x, y).dtype == result
        assert operate(y, x).dtype == result


@pytest.mark.parametrize("dtype", [gt.float16, gt.float32, gt.float64, gt.complex64, gt.int32, gt.int64, gt.uint8])
def test_python_scalars_are_weak(dtype):
    t = gt.ones(2, dtype)
    for out in (t + 1, 1 + t, t * 2, 2 - t, t**2):
        assert out.dtype == dtype
    if dtype.is_differentiable:
        for out in (t + 1.5, 0.5 * t, t / 3.0, 2.0**t):
            assert out.dtype == dtype
    scalar = gt.constant(1, dtype)
    assert (scalar * 2).dtype == dtype


def test_python_float_with_integer_tensor_is_float():
    assert (gt.constant([1, 2]) * 1.5).dtype == gt.float32
    np.testing.assert_allclose((gt.constant([1, 2]) * 1.5).numpy(), [1.5, 3.0])
    assert (gt.constant([1, 2]) / 2).dtype == gt.float64  # TensorFlow's rule for int32


def test_casts_of_promotion_are_recorded():
    x = gt.constant([1.0, 2.0])
    y = gt.constant(np.array([3.0, 4.0]))
    with gt.GradientTape() as tape:
        tape.watch([x, y])
        z = x * y
    gx, gy = tape.gradient(z, [x, y])
    assert gx.dtype == gt.float32
    assert gy.dtype == gt.float64
    np.testing.assert_allclose(gx.numpy(), [3.0, 4.0])


# -- operators -------------------------------------------------------------------------------------------------------

BINARY = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.lt, operator.le,
    operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("operate", BINARY, ids=lambda o: o.__name__)
def test_binary_operators_and_reflections(operate):
    x, y = np.array([3.0, -4.0, 5.5]), np.array([2.0, 3.0, 5.5])
    tx, ty = gt.constant(x), gt.constant(y)
    for have, want in (
        (operate(tx, ty), operate(x, y)), (operate(tx, y), operate(x, y)), (operate(x, ty), operate(x, y)),
        (operate(tx, 2.0), operate(x, 2.0)), (operate(2.0, ty), operate(2.0, y)), (operate(gt.Variable(x), ty), operate(x, y)),
        (operate(tx, gt.Variable(y)), operate(x, y)), (operate(tx, [2.0, 3.0, 5.5]), operate(x, y)),
        (operate([3.0, -4.0, 5.5], ty), operate(x, y)),
    ):  # fmt: skip
        assert isinstance(have, gt.Tensor)
        np.testing.assert_allclose(have.numpy(), want)


def test_power_operator():
    x = np.array([1.5, 2.0])
    np.testing.assert_allclose((gt.constant(x) ** gt.constant(x)).numpy(), x**x)
    np.testing.assert_allclose((2.0 ** gt.constant(x)).numpy(), 2.0**x)
    np.testing.assert_allclose((gt.constant(x) ** -1).numpy(), 1 / x)
    np.testing.assert_array_equal((gt.constant([2, 3]) ** 2).numpy(), [4, 9])


def test_integer_division_and_modulo_follow_python():
    x, y = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    np.testing.assert_array_equal((gt.constant(x) // gt.constant(y)).numpy(), x // y)
    np.testing.assert_array_equal((gt.constant(x) % gt.constant(y)).numpy(), x % y)


def test_matmul_operator():
    m, v = RNG.normal(size=(2, 3)), RNG.normal(size=3)
    np.testing.assert_allclose((gt.constant(m) @ gt.constant(m.T)).numpy(), m @ m.T)
    np.testing.assert_allclose((gt.constant(m) @ v).numpy(), m @ v)
    np.testing.assert_allclose((v @ gt.constant(m.T)).numpy(), v @ m.T)
    np.testing.assert_allclose((gt.constant(v) @ gt.constant(v)).numpy(), v @ v)
    with pytest.raises(ValueError, match=r"inner dimensions differ: \(2, 3\) times \(2, 3\)"):
        gt.constant(m) @ gt.constant(m)
    with pytest.raises(ValueError, match="scalars are not matrices"):
        gt.constant(m) @ 2.0


def test_unary_and_logic_operators():
    t = gt.constant([1.0, -2.0])
    np.testing.assert_array_equal((-t).numpy(), [-1, 2])
    np.testing.assert_array_equal((+t).numpy(), [1, -2])
    np.testing.assert_array_equal(abs(t).numpy(), [1, 2])
    p, q = gt.constant([True, True, False]), gt.constant([True, False, False])
    np.testing.assert_array_equal((p & q).numpy(), [True, False, False])
    np.testing.assert_array_equal((p | q).numpy(), [True, True, False])
    np.testing.assert_array_equal((p ^ q).numpy(), [False, True, False])
    np.testing.assert_array_equal((~p).numpy(), [False, False, True])
    np.testing.assert_array_equal((gt.constant([6]) & 3).numpy(), [2])
    np.testing.assert_array_equal((~gt.constant([6])).numpy(), [-7])
    assert (True & q).numpy().tolist() == [True, False, False]


def test_equality_with_none_and_strings_is_python():
    t = gt.constant(1.0)
    assert (t == None) is False  # noqa: E711
    assert (t != None) is True  # noqa: E711
    assert t not in [None, "a"]


def test_augmented_assignment_makes_a_new_tensor():
    x = gt.constant(2.0)
    y = x
    y += 1.0
    assert x.numpy() == 2.0
    assert y.numpy() == 3.0


def test_broadcast_errors_name_shapes():
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"add\(float32\[2\], float32\[3\]\)"):
        gt.ones(2) + gt.ones(3)
    with pytest.raises((TypeError, ValueError)):
        gt.ones(2) + None


# -- properties and conversions ----------------------------------------------------------------------------------------


def test_properties():
    t = gt.zeros((2, 3), gt.float64)
    assert t.shape == (2, 3)
    assert t.shape.as_list() == [2, 3]
    assert t.get_shape() == t.shape
    assert (t.ndim, t.size, t.nbytes, len(t)) == (2, 6, 48, 2)
    assert "CPU" in t.device
    assert t.T.shape == (3, 2)
    assert t.astype("float32").dtype == gt.float32
    with pytest.raises(AttributeError, match=r"gt\.reshape"):
        t.view


def test_numpy_is_read_only_and_a_snapshot():
    t = gt.constant([1.0, 2.0])
    view = t.numpy()
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 5.0
    t[0] = 7.0
    assert view[0] == 1.0
    assert t.numpy()[0] == 7.0
    assert isinstance(gt.constant(1.0).numpy(), np.float32)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(t)[0] = 5.0
    copied = np.array(t)
    copied[0] = 5.0
    assert t.numpy()[0] == 7.0


def test_python_numbers():
    assert int(gt.constant(3)) == 3
    assert float(gt.constant([2.5])) == 2.5
    assert complex(gt.constant(1j)) == 1j
    assert bool(gt.constant(True))
    assert not gt.constant([0.0])
    assert [10, 20, 30][gt.constant(1)] == 20
    assert list(range(gt.constant(2))) == [0, 1]
    assert gt.constant([1.5, 2.5]).tolist() == [1.5, 2.5]
    assert gt.constant([1.5, 2.5]).item(1) == 2.5
    assert round(float(gt.constant(2.0))) == 2


def test_python_number_errors():
    with pytest.raises(ValueError, match=r"truth value of a tensor with shape \(2,\) is ambiguous.*reduce_any"):
        bool(gt.constant([True, False]))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(gt.zeros(0))
    with pytest.raises(TypeError, match=r"one element.*shape \(2,\)"):
        float(gt.constant([1.0, 2.0]))
    with pytest.raises(TypeError, match="only scalar integer tensors"):
        operator.index(gt.constant(1.0))
    with pytest.raises(TypeError, match="only scalar integer tensors"):
        operator.index(gt.constant([1]))
    with pytest.raises(TypeError, match=r"no len\(\)"):
        len(gt.constant(1.0))
    with pytest.raises(TypeError, match="iterate"):
        list(gt.constant(1.0))


def test_iteration_is_recorded():
    x = gt.Variable([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        total = sum(row * row for row in x)
    np.testing.assert_allclose(tape.gradient(total, x).numpy(), [2, 4, 6])
    a, b = gt.constant([[1, 2], [3, 4]])
    assert a.numpy().tolist() == [1, 2]
    assert b.numpy().tolist() == [3, 4]


def test_hash_and_ref():
    a, b = gt.constant(1.0), gt.constant(1.0)
    table = {a: "a", b: "b"}
    assert table[a] == "a"
    assert len({a, b}) == 2
    assert a.ref() == a.ref()
    assert a.ref() != b.ref()
    assert a.ref().deref() is a
    assert len({a.ref(), a.ref()}) == 1
    t = gt.constant([1.0])
    before = hash(t)
    t[0] = 2.0
    assert hash(t) == before


def test_printing():
    assert str(gt.constant([4.0, 5.0, 6.0])) == "gt.Tensor([4. 5. 6.], shape=(3,), dtype=float32)"
    assert str(gt.constant(2)) == "gt.Tensor(2, shape=(), dtype=int32)"
    assert repr(gt.constant([1.0])) == "<gt.Tensor: shape=(1,), dtype=float32, numpy=array([1.], dtype=float32)>"
    assert repr(gt.constant(1.5)) == "<gt.Tensor: shape=(), dtype=float32, numpy=1.5>"
    assert f"{gt.constant(1.23456):.2f}" == "1.23"
    assert f"{gt.constant(3):>4d}" == "   3"
    assert f"{gt.constant([1.0])}" == "[1.]"
    assert f"{gt.constant(1.5)}" == "1.5"
    assert str(gt.eye(2)) == "gt.Tensor(\n[[1. 0.]\n [0. 1.]], shape=(2, 2), dtype=float32)"
    assert repr(gt.eye(2)).startswith("<gt.Tensor: shape=(2, 2), dtype=float32, numpy=\narray([[1., 0.],\n       [0., 1.]]")
    assert "text" in str(gt.constant("text"))


# -- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1.5, [1.0, 2.0], [[True]], 3, "text", [1j]])
def test_pickle_and_deepcopy(value):
    t = gt.constant(value)
    for twin in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t), copy.copy(t)):
        assert type(twin) is gt.Tensor
        assert twin.dtype == t.dtype
        np.testing.assert_array_equal(twin.numpy(), t.numpy())


def test_copies_and_later_updates():
    t = gt.constant([1.0, 2.0])
    shallow, deep, restored = copy.copy(t), copy.deepcopy(t), pickle.loads(pickle.dumps(t))
    t[0] = 9.0
    restored[1] = 8.0
    for twin in (shallow, deep):
        assert twin.numpy().tolist() == [1.0, 2.0]
    assert restored.numpy().tolist() == [1.0, 8.0]


def test_copies_stay_on_the_tape():
    x = gt.Variable([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        y = x * x
        shallow, deep = copy.copy(y), copy.deepcopy(y)
        a, b = gt.reduce_sum(shallow * 1.0), gt.reduce_sum(deep * 1.0)
    np.testing.assert_allclose(tape.gradient(a, x).numpy(), [2, 4])
    np.testing.assert_allclose(tape.gradient(b, x).numpy(), [2, 4])


def test_dlpack():
    t = gt.constant([[1.0, 2.0], [3.0, 4.0]])
    array = np.from_dlpack(t)
    np.testing.assert_array_equal(array, t.numpy())
    if array.flags.writeable:
        array[0, 0] = 9.0
    assert t.numpy()[0, 0] == 1.0
    source = np.arange(3.0)
    back = gt.from_dlpack(source)
    source[0] = 5.0
    assert back.numpy().tolist() == [0.0, 1.0, 2.0]
    assert gt.from_dlpack(gt.constant([1, 2])).dtype == gt.int32
    assert gt.from_dlpack(gt.constant(2.0)).shape == ()
    assert np.from_dlpack(gt.Variable([1.0])).tolist() == [1.0]


# -- indexing --------------------------------------------------------------------------------------------------------

MASK = A[:, :, 0] > 0
KEYS = [
    0, -1, slice(1, 3), slice(None, None, -1), slice(3, 0, -2), slice(5, 9), (1, 2), (1, 2, 3), (slice(None), 1),
    (..., 0), (0, ...), (slice(None), ..., slice(1, None, 2)), None, (None, 0, None), (0, None, ..., None), (...,), (),
    [0, 2, 2], ([0, 1], [1, 2]), (slice(None), [0, 2]), (slice(None), [0, 2], [1, 1]), ([0, 1], slice(None), [2, 3]),
    (0, slice(None), [1, 2]), ([[0], [1]], [0, 2]), (..., [0, 1]), ([0, 1], ..., [2, 3]), (None, [0, 1]),
    (slice(1, 3), [0, 1], None), np.array([1, 0]), np.array(2), np.int64(1), (np.array([0, 1]), 1),
    MASK, A > 0.5, (slice(None), np.array([True, False, True])), (np.array([True, False, True, True]), 0),
    (MASK, 2), [True, False, True, False], (0, [True, False, True]), True, False, np.zeros(0, int),
    np.zeros((4, 3), bool), (slice(2), slice(None), [[0, 1], [2, 3]]), (1, [0, 2], slice(None, None, 2)),
    (slice(None), 0, [1, 2]), ([0], [1], [2]), (None, slice(None), None, [0, 1]),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=lambda k: repr(k).replace("\n", "")[:40])
def test_indexing_equals_numpy_with_gradient(key):
    t = gt.constant(A)
    expected = A[key]
    with gt.GradientTape() as tape:
        tape.watch(t)
        found = t[key]
        w = np.random.default_rng(1).normal(size=expected.shape)
        y = gt.reduce_sum(found * found * w)
    assert tuple(found.shape) == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)
    want = np.zeros_like(A)
    np.add.at(want, key, 2 * expected * w)
    np.testing.assert_allclose(tape.gradient(y, t).numpy(), want, atol=1e-14)


def test_indexing_with_tensors_and_variables():
    t = gt.constant(A)
    np.testing.assert_array_equal(t[gt.constant(1)].numpy(), A[1])
    np.testing.assert_array_equal(t[gt.constant([0, 2])].numpy(), A[[0, 2]])
    np.testing.assert_array_equal(t[gt.Variable(1) : gt.constant(3)].numpy(), A[1:3])
    np.testing.assert_array_equal(t[t > 0.5].numpy(), A[A > 0.5])
    np.testing.assert_array_equal(t[[gt.constant(0), gt.constant(2)]].numpy(), A[[0, 2]])


@pytest.mark.parametrize(
    ("key", "error"),
    [
        (4, IndexError),
        (-5, IndexError),
        ((0, 0, 0, 0), IndexError),
        ([7], IndexError),
        ("a", TypeError),
        (1.0, TypeError),
        (np.array([0.5]), TypeError),
        (np.array([True, False]), IndexError),
        ((..., ...), IndexError),
        (gt.constant(1.0), TypeError),
        (slice(0.5), TypeError),
    ],
)
def test_indexing_errors(key, error):
    with pytest.raises(error):
        gt.constant(A)[key]


def test_slices_are_copies():
    t = gt.constant([[1.0, 2.0], [3.0, 4.0]])
    row = t[0]
    row[0] = 9.0
    assert t.numpy()[0, 0] == 1.0
    t[1, 1] = 7.0
    assert row.numpy().tolist() == [9.0, 2.0]


# -- item assignment -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS, ids=lambda k: repr(k).replace("\n", "")[:40])
def test_item_assignment_equals_numpy(key):
    want = A.copy()
    value = RNG.normal(size=A[key].shape)
    want[key] = value
    t = gt.constant(A)
    t[key] = value
    np.testing.assert_array_equal(t.numpy(), want)
    want[key] = 0.5
    t[key] = 0.5
    np.testing.assert_array_equal(t.numpy(), want)


@pytest.mark.parametrize("key", [k for k in KEYS if k is not True and k is not False], ids=lambda k: repr(k)[:40])
def test_item_assignment_gradients(key):
    """sum(w · updated²) against its formula, by one tape (arrays) and by nested tapes (tensors)."""
    value = RNG.normal(size=A[key].shape)
    numbers = np.arange(A.size).reshape(A.shape)[key]
    last = {place: k for k, place in enumerate(numbers.ravel())}
    wins = np.zeros(value.size)
    wins[list(last.values())] = 1.0
    kept = np.ones(A.shape)
    kept[key] = 0.0
    w = RNG.normal(size=A.shape)

    def run(x, v):
        t = x * 1.0
        t[key] = v
        return gt.reduce_sum(w * t * t)

    x, v = gt.constant(A), gt.constant(value)
    with gt.GradientTape() as tape:
        tape.watch([x, v])
        y = run(x, v)
    gx, gv = tape.gradient(y, [x, v])
    np.testing.assert_allclose(gx.numpy(), 2 * w * A * kept, atol=1e-12)
    np.testing.assert_allclose(gv.numpy(), 2 * w[key] * value * wins.reshape(value.shape), atol=1e-12)
    with gt.GradientTape() as outer:
        outer.watch([x, v])
        with gt.GradientTape() as inner:
            inner.watch([x, v])
            y = run(x, v)
        gx, gv = inner.gradient(y, [x, v])
        s = gt.reduce_sum(gx * gx) + gt.reduce_sum(gv)
    hx, hv = outer.gradient(s, [x, v])
    np.testing.assert_allclose(hx.numpy(), 8 * w * w * A * kept, atol=1e-12)
    np.testing.assert_allclose(hv.numpy(), 2 * w[key] * wins.reshape(value.shape), atol=1e-12)


def test_alias_sees_the_update():
    t = gt.constant([1.0, 2.0, 3.0])
    a = t
    a[0] = 9.0
    assert a is t
    assert t.numpy().tolist() == [9.0, 2.0, 3.0]


def test_update_keeps_what_was_recorded_before():
    x = gt.constant([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        t = x * 1.0
        before = t * t
        t[0] = 5.0
        after = t * t
        y = gt.reduce_sum(before) + gt.reduce_sum(after)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [2.0, 8.0])


def test_watched_tensor_stands_for_the_version_first_watched():
    x = gt.constant([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        x[0] = x[1] * 3.0
        y = gt.reduce_sum(x * x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [0.0, 2 * 6 * 3 + 4])


def test_augmented_item_assignment():
    x = gt.constant([1.0, 2.0, 3.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        t = x * 1.0
        t[1:] += t[:2] * 2.0
        t[0] *= t[2]
        y = t[0]
    assert t.numpy().tolist() == [7.0, 4.0, 7.0]
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [7.0, 2.0, 1.0])


def test_block_assignment_from_the_pains_list():
    """B = zeros((4, 4)); B[:2, :2] = A; sum(B²) at orders 1 and 2."""
    a = gt.Variable(np.arange(4.0).reshape(2, 2))
    with gt.GradientTape() as outer:
        with gt.GradientTape() as inner:
            b = gt.zeros((4, 4), gt.float64)
            b[:2, :2] = a
            y = gt.reduce_sum(b**3)
        g = inner.gradient(y, a)
    np.testing.assert_allclose(g.numpy(), 3 * a.numpy() ** 2)
    np.testing.assert_allclose(outer.gradient(g, a).numpy(), 6 * a.numpy())


def test_loop_carried_updates_equal_finite_differences():
    def run(x):
        e = gt.zeros(61, gt.float64)
        e[0] = x
        total = gt.constant(np.float64(0.0))
        for i in range(60):
            e[i + 1] = gt.sin(e[i]) * 1.1
            if e[i + 1].numpy() > 0.4:
                total = total + e[i + 1]
        return total + gt.reduce_sum(e)

    x = gt.constant(np.float64(0.8))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = run(x)
    h = 1e-6
    numeric = (run(np.float64(0.8 + h)).numpy() - run(np.float64(0.8 - h)).numpy()) / (2 * h)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), numeric, rtol=1e-7)


def test_filling_reuses_the_buffer():
    t = gt.zeros(1000)
    place = t._data.__array_interface__["data"][0]
    for i in range(10):
        t[i] = 1.0
    assert t._data.__array_interface__["data"][0] == place
    kept = t.numpy()
    t[0] = 2.0
    assert t._data.__array_interface__["data"][0] != place
    assert kept[0] == 1.0


def test_update_never_writes_what_others_hold():
    source = gt.constant([1.0, 2.0, 3.0, 4.0])
    same = gt.identity(source)
    reshaped = gt.reshape(source, (2, 2))
    for other in (same, reshaped):
        other[0] = 9.0
        assert source.numpy().tolist() == [1.0, 2.0, 3.0, 4.0]
    source[3] = 7.0
    assert same.numpy().tolist() == [9.0, 2.0, 3.0, 4.0]
    v = gt.Variable([1.0, 2.0])
    value = v.value()
    snapshot = value.numpy()
    value[0] = 5.0
    assert snapshot[0] == 1.0


def test_value_dtype_is_cast_on_assignment():
    t = gt.zeros(3)
    t[0] = 1
    t[1] = np.float64(2.5)
    t[2] = gt.constant(3)
    assert t.dtype == gt.float32
    assert t.numpy().tolist() == [1.0, 2.5, 3.0]


def test_failed_update_changes_nothing():
    t = gt.constant([1.0, 2.0, 3.0])
    for key, value, error in (
        (5, 1.0, IndexError), (slice(0, 2), [1.0, 2.0, 3.0], ValueError), ("a", 1.0, TypeError), (0, None, ValueError),
    ):  # fmt: skip
        with pytest.raises(error):
            t[key] = value
    assert t.numpy().tolist() == [1.0, 2.0, 3.0]


def test_update_outside_any_tape_then_watched():
    t = gt.zeros(3)
    t[1] = 4.0
    with gt.GradientTape() as tape:
        tape.watch(t)
        y = gt.reduce_sum(t * t)
    assert tape.gradient(y, t).numpy().tolist() == [0.0, 8.0, 0.0]


def test_scalar_tensor_assignment():
    t = gt.constant(1.0)
    t[()] = 2.0
    assert t.numpy() == 2.0
    t[...] = 3.0
    assert t.numpy() == 3.0


def test_tensors_have_no_cycles():
    t = gt.constant([1.0]) * 2.0
    assert sys.getrefcount(t) == 2


def test_plain_tensor_filled_with_batched_values():
    def f(x):
        t = gt.zeros(3, gt.float64)
        t[0] = gt.reduce_sum(x)
        t[1:] = x * x
        return t * 2.0

    rows = np.array([[1.0, 2.0], [3.0, 4.0]])
    want = 2 * np.column_stack([rows.sum(1), rows**2])
    np.testing.assert_allclose(gt.vectorized_map(f, gt.constant(rows)).numpy(), want)
    x = gt.constant(rows[0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_allclose(tape.jacobian(y, x).numpy(), [[2, 2], [4, 0], [0, 8]])
