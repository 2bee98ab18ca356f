"""Mathematical functions of native code: how exact they are, at all numbers, and that loops of them use vectors."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from gradtape.backends.llvm import compile_block
from gradtape.backends.llvm.kernels import math_calls
from gradtape.backends.llvm.runtime import machine
from gradtape.ops import registry
from tests.backends.build import program, tensor

L = np.longdouble
EXTRA = 0.0 if np.finfo(L).nmant > 60 else 0.75  # what the reference itself may be off
LIMIT = 2.0  # ulp
LIMITS = {"ndtr": 2.5, "erfc": 2.1}
COUNT = 12_000


# -- references in extended precision ----------------------------------------------------------------------------------------


def _erf_series(x: Any) -> Any:
    """erf x = 2/√π · exp(-x²) Σ 2ⁿ x²ⁿ⁺¹ / (1·3·…·(2n+1)): all terms positive."""
    term = total = x.copy()
    for n in range(1, 90):
        term = term * 2 * x * x / (2 * n + 1)
        total = total + term
    return total * _gauss(x) * 2 / np.sqrt(L(math.pi) + L(1.2246467991473532e-16))


def _gauss(x: Any) -> Any:
    """exp(-x²), with all digits of x²."""
    high = x.astype(np.float32).astype(L)
    return np.exp(-high * high) * np.exp(-(x - high) * (x + high))


def _erfc_fraction(x: Any) -> Any:
    """erfc x by its continued fraction, x ≥ 2."""
    f = x.copy()
    for n in range(300, 0, -1):
        f = x + (L(n) / 2) / f
    return _gauss(x) / f / np.sqrt(L(math.pi) + L(1.2246467991473532e-16))


def erf(x: Any) -> Any:
    a = np.abs(x)
    near = np.minimum(a, 2)
    return np.copysign(np.where(a < 2, _erf_series(near), 1 - _erfc_fraction(np.clip(a, 2, 30))), x)


def erfc(x: Any) -> Any:
    a = np.abs(x)
    far = _erfc_fraction(np.clip(a, 2, 200))
    return np.where(x < 2, 1 - erf(x), far)


def ndtr(x: Any) -> Any:
    return erfc(-x / np.sqrt(L(2))) / 2


REFERENCE: dict[str, Callable[..., Any]] = {
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "atan2": np.arctan2, "pow": np.power, "erf": erf, "erfc": erfc, "ndtr": ndtr,
}  # fmt: skip
NAMES = ["exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
         "atanh", "erf", "erfc", "ndtr", "pow", "atan2"]  # fmt: skip


# -- arguments ---------------------------------------------------------------------------------------------------------------


def _any_bits(generator: np.random.Generator, dtype: Any) -> Any:
    """Numbers of all magnitudes: bits at random."""
    whole = {4: np.uint32, 8: np.uint64}[dtype().itemsize]
    return generator.integers(0, np.iinfo(whole).max, COUNT, whole, endpoint=True).view(dtype)


def arguments(name: str, dtype: Any) -> list[Any]:
    """One array per argument: ordinary numbers, those near the ends of the domain, and numbers of all magnitudes."""
    generator = np.random.default_rng(len(name))
    uniform = generator.uniform
    info = np.finfo(dtype)
    if name == "pow":
        x = np.exp(np.concatenate([uniform(-5, 5, COUNT), uniform(np.log(info.tiny), np.log(info.max), COUNT)]))
        near = np.exp(uniform(-1, 1, COUNT) * 2.0 ** uniform(-18, -1, COUNT))
        x = np.concatenate([x, near, -x[:COUNT]]).astype(dtype)
        with np.errstate(all="ignore"):
            y = uniform(-1.01, 1.01, x.size) * np.log(info.max) / np.abs(np.log(np.abs(x.astype(np.float64))) + 1e-30)
        y[:COUNT] = uniform(-9, 9, COUNT)
        y[-COUNT:] = np.rint(y[-COUNT:])
        return [x, np.clip(y, -1e5, 1e5).astype(dtype)]
    if name == "atan2":
        pairs = [generator.normal(size=(2, COUNT)), generator.normal(size=(2, COUNT)) * [[1.0], [1e-3]]]
        return [np.concatenate([*(p[k] for p in pairs), _any_bits(generator, dtype)]).astype(dtype) for k in (0, 1)]
    parts = [uniform(-s, s, COUNT) for s in (1.0, 3.0, 30.0, 800.0)] + [_any_bits(generator, dtype)]
    near_one = 2.0 ** uniform(-30, 0, COUNT)
    if name in ("sin", "cos", "tan"):  # close to multiples of π/2, and far out
        half_pi = L(math.pi) / 2 + L(6.123233995736766e-17)
        parts += [(generator.integers(1, 2**22, COUNT) * half_pi), uniform(-1, 1, COUNT) * 2.0 ** uniform(0, 60, COUNT)]
    parts += {"log": [1 + uniform(-0.1, 0.1, COUNT)], "log1p": [near_one - 1], "acosh": [1 + near_one],
              "erfc": [uniform(0, 27, COUNT)], "ndtr": [uniform(-38, 5, COUNT)]}.get(name, [])  # fmt: skip
    if name in ("asin", "acos", "atanh"):
        parts = [uniform(-1, 1, COUNT), 1 - near_one, near_one - 1, _any_bits(generator, dtype)]
    return [np.concatenate([np.asarray(part).astype(dtype) for part in parts])]


@cache
def compiled(name: str, dtype: str, size: int) -> Any:
    op = registry.op_by_name(name)
    return compile_block(program([tensor(size, dtype=dtype)] * len(op.args), lambda b, *xs: b(op, *xs)))


def run(name: str, *xs: Any) -> Any:
    return compiled(name, xs[0].dtype.name, xs[0].size)(*xs)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", NAMES)
def test_accuracy(name: str, dtype: Any) -> None:
    with np.errstate(all="ignore"):
        xs = arguments(name, dtype)
        got = run(name, *xs)
        exact = REFERENCE.get(name, getattr(np, name, None))(*[x.astype(L) for x in xs])  # type: ignore[misc]
        rounded = exact.astype(dtype)
        error = np.abs(got.astype(L) - exact) / np.spacing(np.abs(rounded)).astype(L)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    error = np.where(same & ~np.isfinite(error), 0, np.where(np.isnan(error), np.inf, error))
    k = int(np.argmax(error))
    limit = LIMITS.get(name, LIMIT) + EXTRA
    assert error[k] <= limit, f"{name}{tuple(x[k] for x in xs)} = {got[k]!r}, not {exact[k]!r}: {float(error[k]):.2f} ulp"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_single_numbers(dtype: str) -> None:
    """Of a number that stands alone the C library computes some functions: the same limits hold."""
    ops = [registry.op_by_name(name) for name in NAMES]
    block = program([tensor(dtype=dtype), tensor(dtype=dtype)], lambda b, x, y: [b(op, *(x, y)[: len(op.args)]) for op in ops])
    executable = compile_block(block)
    for x in (0.3, -0.7, 1.0, 2.5, 40.0, 1e30, -1e300, 0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324):
        with np.errstate(all="ignore"):
            pair = np.dtype(dtype).type(x), np.dtype(dtype).type(1.75)
            for op, got in zip(ops, executable(*pair), strict=True):
                expected = op.impl(*pair[: len(op.args)])
                assert got.dtype == expected.dtype
                limit = 4 * np.spacing(np.abs(expected))  # NumPy and SciPy may be two off as well
                same = got == expected or (np.isnan(got) and np.isnan(expected))
                assert same or abs(got - expected) <= limit, f"{op.name}{pair}: {got!r}, not {expected!r}"


@pytest.mark.parametrize("name", [*NAMES, "mod", "floordiv"])
def test_signed_zeros(name: str) -> None:
    op = registry.op_by_name(name)
    zeros = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, 3.0, -3.0, 5e-324, -5e-324])
    xs = [zeros] if len(op.args) == 1 else [np.ascontiguousarray(part).ravel() for part in np.meshgrid(zeros, zeros)]
    with np.errstate(all="ignore"):
        got, expected = run(name, *xs), op.impl(*xs)
    zero = (expected == 0) & (got == 0)
    assert np.array_equal(np.signbit(got[zero]), np.signbit(expected[zero])), f"{name} of {[x[zero] for x in xs]}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gamma_functions(dtype: Any) -> None:
    """At whole and half numbers, log Γ and ψ are sums of logarithms and fractions; log Γ is exact near its zeros."""
    n = np.arange(1, 60)
    whole, half = np.arange(1, 60).astype(dtype), (np.arange(1, 60) - 0.5).astype(dtype)
    factorials = np.concatenate([[0], np.cumsum(np.log(n[:-1].astype(L)))])
    halves = np.concatenate([[0], np.cumsum(np.log(half[:-1].astype(L)))]) + np.log(L(math.pi)) / 2
    euler = L(0.5772156649015329) - L(4.942915152430649e-18)
    harmonic = np.concatenate([[0], np.cumsum(1 / n[:-1].astype(L))]) - euler
    odd = np.concatenate([[0], np.cumsum(2 / (2 * n[:-1].astype(L) - 1))]) - euler - 2 * np.log(L(2))
    for name, x, exact in (
        ("lgamma", whole, factorials),
        ("lgamma", half, halves),
        ("digamma", whole, harmonic),
        ("digamma", half, odd),
    ):
        error = np.abs(run(name, x).astype(L) - exact) / np.spacing(np.abs(exact).astype(dtype)).astype(L)
        assert error.max() <= 4 + EXTRA, f"{name}({x[error.argmax()]}) is {float(error.max()):.1f} ulp off"
    t = np.array([1e-3, 1e-7, -1e-5]).astype(dtype).astype(L)
    for zero, slope, bend in ((1, -euler, L(math.pi) ** 2 / 12), (2, 1 - euler, L(math.pi) ** 2 / 12 - L(1) / 2)):
        x = (zero + t).astype(dtype)
        t = x.astype(L) - zero
        np.testing.assert_allclose(run("lgamma", x), (slope * t + bend * t * t).astype(dtype), rtol=2e-6)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_arguments_among_others(name: str, dtype: Any) -> None:
    x = np.linspace(-4, 4, 1003).astype(dtype)
    plain = run(name, x)
    far = np.arange(5, x.size, 97)
    x[far] = np.geomspace(2e12, 3e38, far.size)
    got = run(name, x)
    expected = getattr(np, name)(x.astype(L))
    np.testing.assert_array_less(np.abs(got[far] - expected[far]), 2 * np.spacing(np.abs(got[far])))
    others = np.setdiff1d(np.arange(x.size), far)
    assert np.array_equal(got[others], plain[others])


def test_remainders_with_long_quotients() -> None:
    generator = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            a, b = _any_bits(generator, dtype), _any_bits(generator, dtype)
            assert np.array_equal(run("mod", a, b), np.mod(a, b), equal_nan=True)
            a, b = (generator.normal(size=COUNT) * 100).astype(dtype), generator.normal(size=COUNT).astype(dtype)
            assert np.array_equal(run("mod", a, b), np.mod(a, b))
            assert np.array_equal(run("floordiv", a, b), np.floor_divide(a, b))


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "pow"])
def test_the_same_in_and_out_of_vectors(name: str) -> None:
    """A number gives the same result wherever it stands in an array."""
    x = np.linspace(0.1, 9.0, 19)
    xs = [x] * len(registry.op_by_name(name).args)
    whole = run(name, *xs)
    for size in (1, 2, 3, 5, 8):
        assert np.array_equal(run(name, *[part[:size].copy() for part in xs]), whole[:size])


@pytest.mark.parametrize("name", [*NAMES, "sigmoid", "softplus", "gelu", "mod", "lgamma", "digamma"])
def test_loops_use_vectors(name: str) -> None:
    op = registry.op_by_name(name)
    attrs = {"approximate": False} if name == "gelu" else {}
    for dtype, kind in (("float32", "float"), ("float64", "double")):
        block = program([tensor(999, dtype=dtype)] * len(op.args), lambda b, *xs: b(op, *xs, **attrs))
        text = str(machine.optimized(compile_block(block).source)[0])
        assert re.search(rf"store <\d+ x {kind}>", text), f"{name} of {dtype} is computed one by one"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [*NAMES, "lgamma", "digamma"])
def test_functions_that_come_often_are_called(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the loops of a long program a function is code only once: the others call it on vectors, with the same results."""
    op = registry.op_by_name(name)
    x = np.abs(np.random.default_rng(2).normal(size=40)).astype(dtype) % 0.9 + 0.05
    x = x + 1.0 if name == "acosh" else x
    block = program([tensor(40, dtype=dtype)] * len(op.args), lambda b, *xs: b(op, *xs))
    inlined = compile_block(block)
    monkeypatch.setattr(math_calls, "INLINED_IN_LOOPS", 0)
    called = compile_block(block)
    if ".apart" not in called.source:  # written out where it stands: a root, an absolute value
        assert "call" not in re.findall(r"define i32 @main.*?\n}", inlined.source, re.S)[0].replace("call void @llvm", "")
        return
    text = str(machine.optimized(called.source)[0])
    assert re.search(r"call .*<\d+ x \w+> @gt\.[\w.]+\.apart\.\d+\(", text), "called one by one"
    xs = [x] * len(op.args)
    np.testing.assert_array_max_ulp(called(*xs)[0], inlined(*xs)[0], 1)


def test_bounded_functions_stay_in_bounds() -> None:
    x = np.concatenate([np.linspace(-12, 12, 40_001), [np.inf, -np.inf, 1e30]]).astype(np.float32)
    for name in ("tanh", "erf"):
        got = run(name, x)
        assert np.abs(got).max() == 1.0
        assert np.array_equal(got[-3:], [1, -1, 1])
        assert np.array_equal(np.signbit(got), np.signbit(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_with_partials_that_are_not_finite(dtype: str) -> None:
    """Where the cotangent is zero so is the product, in and out of vectors."""
    values = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 5e-324, 1e-40, 3e38]).astype(dtype)
    x, y = (np.ascontiguousarray(part).ravel() for part in np.meshgrid(values, values))
    op = registry.op_by_name("masked_multiply")
    with np.errstate(all="ignore"):
        expected = op.impl(x, y)
        np.testing.assert_array_equal(run("masked_multiply", x, y), expected)
        finite = np.isfinite(y)
        assert np.array_equal(np.signbit(run("masked_multiply", x, y)[finite]), np.signbit(expected[finite]))
        single = compile_block(program([tensor(dtype=dtype)] * 2, lambda b, *xs: b(op, *xs)))
        for a, b, exact in zip(x, y, expected, strict=True):
            np.testing.assert_array_equal(single(a, b)[0], exact)


def test_long_loops_of_functions_compute_several_vectors_at_once() -> None:
    def divisions(size: int) -> int:
        block = program([tensor(size, dtype="float32")], lambda b, x: b(registry.op_by_name("tanh"), x))
        return len(re.findall(r"fdiv <\d+ x float>", str(machine.optimized(compile_block(block).source)[0])))

    assert divisions(100_000) >= 4
    assert divisions(1000) >= 2
