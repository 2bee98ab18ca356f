"""Special values of the elementwise functions: infinities, NaN, signed zeros, bounds of integers, in every dtype and pair.

NumPy's functions follow IEEE 754 and C99, as the standard asks; where they do not, ours do, and a table says so."""

import numpy as np
import pytest

import gradtape as gt
import gradtape.array_api as xp
from tests.standard.test_signatures import BINARY, DTYPES, UNARY

REAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 1e30, -1e30, 100.0]
COMPLEX = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, np.inf, -np.inf, np.nan]
# dtype kinds the standard defines each function for; all numeric ones where it is not listed
GROUPS = {
    "biu": "bitwise_and bitwise_or bitwise_xor bitwise_invert",
    "iu": "bitwise_left_shift bitwise_right_shift",
    "b": "logical_and logical_or logical_xor logical_not",
    "f": "atan2 copysign hypot logaddexp nextafter signbit",
    "iuf": "ceil floor trunc floor_divide remainder less less_equal greater greater_equal maximum minimum",
    "fc": """acos acosh asin asinh atan atanh cos cosh divide exp expm1 log log1p log2 log10 reciprocal sin sinh sqrt tan
        tanh""",
    "biufc": "equal not_equal",
    "c": "imag real",
}
KINDS = {
    **dict.fromkeys(UNARY.split() + BINARY.split(), "iufc"),
    **{name: kinds for kinds, names in GROUPS.items() for name in names.split()},
}
# NumPy's answer is not the standard's, or the standard leaves it open
LEFT_OPEN = {
    ("reciprocal", "c"): "1 / z at zeros and infinities of the plane",
    ("pow", "c"): "powers of special complex numbers",
    ("divide", "c"): "quotients with infinities in the plane",
}


def specials(dtype):
    kind = np.dtype(dtype).kind
    if kind == "f":
        return np.array(REAL, dtype)
    if kind == "b":
        return np.array([True, False])
    if kind == "c":
        z = np.empty((len(COMPLEX), len(COMPLEX)), dtype)
        z.real, z.imag = np.array(COMPLEX)[:, None], np.array(COMPLEX)
        return z.ravel()
    limits = np.iinfo(dtype)
    return np.array(sorted({0, 1, 2, 3, 7, limits.max, limits.min, max(limits.min, -1), max(limits.min, -5)}), dtype)


def same(have, want):
    """Equal lane by lane: rounding apart, with the sign of zeros; NaN is NaN."""
    if have.dtype.kind == "c":
        return same(have.real, want.real) & same(have.imag, want.imag)
    if have.dtype.kind != "f":
        return have == want
    close = np.isclose(have, want, rtol=8 * np.finfo(have.dtype).eps, atol=np.finfo(have.dtype).tiny, equal_nan=True)
    return close & (np.isnan(want) | (want != 0) | (np.signbit(have) == np.signbit(want)))


def check(name, have, want, arguments):
    assert have.dtype == want.dtype, name
    wrong = np.argwhere(~same(have, want))
    examples = [tuple(a[tuple(i)] for a in (*arguments, have, want)) for i in wrong[:5]]
    assert not len(wrong), f"{name}: {len(wrong)} lanes, e.g. (arguments, ours, wanted) {examples}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_argument(dtype):
    x = specials(dtype)
    for name in UNARY.split():
        if np.dtype(dtype).kind in KINDS[name] and (name, np.dtype(dtype).kind) not in LEFT_OPEN:
            with np.errstate(all="ignore"):
                check(name, getattr(xp, name)(xp.asarray(x)).numpy(), getattr(np, name)(x), (x,))


def two(name, dtype):
    values = specials(dtype)
    x, y = (a.copy() for a in np.broadcast_arrays(values[:, None], values))
    if np.dtype(dtype).kind in "iu":
        if name in ("floor_divide", "remainder"):
            y[y == 0] = 3
        if name in ("pow", "bitwise_left_shift", "bitwise_right_shift"):
            y = np.where((y < 0) | (y > 7), 5, y).astype(dtype)
    return x, y


def floor_of_quotient(x, y):
    """The standard prefers ⌊x / y⌋ at infinity; NumPy pairs `//` with `%` there."""
    return np.where(np.isinf(x) | np.isinf(y), np.floor(x / y), x // y).astype(x.dtype) if x.dtype.kind == "f" else x // y


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_arguments(dtype):
    for name in BINARY.split():
        if np.dtype(dtype).kind not in KINDS[name] or (name, np.dtype(dtype).kind) in LEFT_OPEN:
            continue
        x, y = two(name, dtype)
        with np.errstate(all="ignore"):
            want = floor_of_quotient(x, y) if name == "floor_divide" else getattr(np, name)(x, y)
            check(name, getattr(xp, name)(xp.asarray(x), xp.asarray(y)).numpy(), want, (x, y))


OPERATORS = {
    "add": lambda x, y: x + y, "subtract": lambda x, y: x - y, "multiply": lambda x, y: x * y, "divide": lambda x, y: x / y,
    "floor_divide": lambda x, y: x // y, "remainder": lambda x, y: x % y, "pow": lambda x, y: x**y, "less": lambda x, y: x < y,
    "equal": lambda x, y: x == y, "bitwise_and": lambda x, y: x & y, "bitwise_left_shift": lambda x, y: x << y,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "int32", "complex64"])
@pytest.mark.parametrize("native", [None, False, True], ids=["eager", "interpreted", "native"])
def test_operators_in_programs(dtype, native):
    names = [name for name in OPERATORS if np.dtype(dtype).kind in KINDS[name]]
    for name in names:
        if (name, np.dtype(dtype).kind) in LEFT_OPEN:
            continue
        x, y = two(name, dtype)
        run = OPERATORS[name] if native is None else gt.function(OPERATORS[name], jit_compile=native)
        with np.errstate(all="ignore"):
            want = floor_of_quotient(x, y) if name == "floor_divide" else getattr(np, name)(x, y)
            check(name, run(xp.asarray(x), xp.asarray(y)).numpy(), want, (x, y))


@pytest.mark.parametrize("name", ["copysign", "hypot", "logaddexp", "floor_divide", "signbit", "log2", "nextafter"])
@pytest.mark.parametrize("native", [False, True], ids=["interpreted", "native"])
def test_compiled_like_eager(name, native):
    function = getattr(xp, name)
    arguments = two(name, "float64") if name in BINARY.split() else (specials("float64"),)
    tensors = [xp.asarray(a) for a in arguments]
    with np.errstate(all="ignore"):
        check(
            name,
            gt.function(lambda *a: function(*a), jit_compile=native)(*tensors).numpy(),
            function(*tensors).numpy(),
            arguments,
        )


def test_clip_and_rounding():
    x = xp.asarray([np.nan, -3.0, 0.2, 3.0, -np.inf, np.inf])
    np.testing.assert_array_equal(xp.clip(x, -1, 1).numpy(), np.float32([np.nan, -1, 0.2, 1, -1, 1]))
    assert np.isnan(xp.clip(x, xp.asarray(np.nan, dtype=xp.float32)).numpy()).all()
    assert xp.clip(xp.asarray([1, 200], dtype=xp.uint8), 3, 100).dtype == xp.uint8
    assert xp.clip(x) is not x
    np.testing.assert_array_equal(xp.round(xp.asarray([0.5, 1.5, -0.5, 2.5])).numpy(), [0, 2, -0.0, 2])


def test_reductions_of_nothing_and_of_nan():
    nothing = xp.zeros((0, 3))
    assert (float(xp.sum(nothing)), float(xp.prod(nothing)), bool(xp.all(nothing)), bool(xp.any(nothing))) == (
        0,
        1,
        True,
        False,
    )
    x = xp.asarray([[1.0, np.nan], [2.0, 3.0]])
    for name in ("max", "min", "mean", "sum", "prod", "std", "var", "cumulative_sum"):
        lost = np.isnan(getattr(xp, name)(x, axis=0).numpy())
        assert lost[..., 1].any()
        assert not lost[..., 0].any()
