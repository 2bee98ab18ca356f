"""Reductions and running operations natively: all dtypes, axes and odd shapes, sizes known only at run time, long sums."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gradtape.backends.llvm import compile_block
from gradtape.dtypes import as_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.dims import symbol
from gradtape.ops import registry
from tests.backends.build import program, tensor
from tests.backends.native_calls import Call, known, run

DTYPES = ("float32", "float64", "bool", "int32", "uint8")
SHAPES = ((), (7,), (0,), (13, 1), (0, 4), (4, 0), (2, 3, 5))
REDUCTIONS = ("reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_all", "reduce_any", "prod_last")
RUNNING = ("cumsum", "cumprod", "running_logsumexp", "linear_recurrence", "arg_extreme")


def numbers(dtype: str, shape: tuple[int, ...]) -> Any:
    generator = np.random.default_rng(len(shape))
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.startswith("float"):
        return generator.normal(size=shape).astype(dtype)
    return generator.integers(0, 9, shape).astype(dtype) - (np.dtype(dtype).kind == "i")


def axes_of(rank: int) -> list[tuple[int, ...]]:
    return [axes for n in range(rank + 1) for axes in itertools.combinations(range(rank), n) if axes or not rank]


def calls_of(name: str, dtype: str) -> list[Call]:
    """All ways to call an op on arrays of a dtype."""
    op, found = registry.op_by_name(name), []
    for shape in SHAPES:
        x = numbers(dtype, shape)[()]
        attrs: list[dict[str, Any]]
        if name == "prod_last":
            attrs = [{}] if shape else []
        elif name in REDUCTIONS:
            attrs = [{"axis": axes, "keepdims": sum(axes) % 2 == 1} for axes in axes_of(len(shape))]
        elif name == "arg_extreme":
            sizes = [k for k, n in enumerate(shape) if n]
            attrs = [{"axis": k, "largest": big, "dtype": as_dtype("int32")} for k in sizes for big in (False, True)]
        else:
            attrs = [{"axis": k, "reverse": back} for k in range(len(shape)) for back in (False, True)]
        if name in ("cumsum", "cumprod"):
            attrs = [{**a, "exclusive": out} for a in attrs for out in (False, True)]
        inputs = (x, x) if name == "linear_recurrence" else (x,)
        for given in attrs:
            call = Call(op, inputs, given, f"{name} of {dtype}{list(shape)}")
            try:
                with np.errstate(all="ignore"):
                    usable = known(call)
            except (TypeError, ValueError, OverflowError):
                continue
            if usable:
                found.append(call)
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*REDUCTIONS, *RUNNING])
def test_all_axes_and_shapes(name: str, dtype: str) -> None:
    calls = calls_of(name, dtype)
    if name in ("running_logsumexp", "linear_recurrence") and not dtype.startswith("float"):
        return  # operations on floating-point numbers
    assert calls
    for call, answer in zip(calls, run(calls), strict=True):
        assert answer.results is not None
        (got,), (expected,) = answer.results, call.expected()
        expected = np.asarray(expected)
        assert got.dtype == expected.dtype
        assert got.shape == expected.shape
        assert not answer.in_numpy or (name == "reduce_mean" and call.inputs[0].size == 0), f"{call.label} called NumPy"
        if name in ("cumsum", "cumprod", "prod_last") or expected.dtype.kind != "f":
            np.testing.assert_array_equal(got, expected, err_msg=f"{call.label} {call.attrs}")
        else:
            eps = np.finfo(expected.dtype).eps
            np.testing.assert_allclose(got, expected, rtol=8 * eps, atol=8 * eps, err_msg=f"{call.label} {call.attrs}")


def native(name: str, x: Any, **attrs: Any) -> Any:
    op = registry.op_by_name(name)
    return compile_block(program([tensor(*x.shape, dtype=x.dtype.name)], lambda b, v: b(op, v, **attrs)))(x)[0]


def test_extremes_of_nan_and_infinity() -> None:
    x = np.array([[1.0, np.nan, 3.0], [-np.inf, 2.0, np.inf], [np.nan, np.nan, 0.0], [5.0, 5.0, -0.0]])
    for largest, reduce, place in ((True, "reduce_max", np.argmax), (False, "reduce_min", np.argmin)):
        for axis in (0, 1):
            expected = getattr(np, "max" if largest else "min")(x, axis)
            np.testing.assert_array_equal(native(reduce, x, axis=(axis,), keepdims=False), expected)
            found = native("arg_extreme", x, axis=axis, largest=largest, dtype=as_dtype("int64"))
            np.testing.assert_array_equal(found, place(x, axis))


def test_places_of_extremes_in_long_lines() -> None:
    generator = np.random.default_rng(3)
    for dtype in ("float32", "int16", "uint8", "bool"):
        x = (generator.normal(size=(5, 1001)) * 50).astype(dtype)  # with ties, of which the first counts
        for axis, largest in itertools.product((0, 1), (False, True)):
            found = native("arg_extreme", x, axis=axis, largest=largest, dtype=as_dtype("int64"))
            np.testing.assert_array_equal(found, (np.argmax if largest else np.argmin)(x, axis))


def test_running_logsumexp_of_infinities() -> None:
    x = np.array([-np.inf, -np.inf, 1.0, 700.0, -800.0, np.inf, 1.0])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(
            native("running_logsumexp", x, axis=0, reverse=False), np.logaddexp.accumulate(x), rtol=1e-15
        )


def test_sizes_known_at_run_time() -> None:
    n, m = symbol("n"), symbol("m")
    op = registry.op_by_name

    def make(b: Any, x: Any) -> list[Any]:
        return [
            b(op("reduce_sum"), x, axis=(1,), keepdims=False),
            b(op("reduce_mean"), x, axis=(0, 1), keepdims=False),
            b(op("cumsum"), x, axis=0, exclusive=True, reverse=True),
            b(op("cumprod"), x, axis=1, exclusive=False, reverse=False),
            b(op("prod_last"), x),
            b(op("arg_extreme"), x, axis=1, largest=True, dtype=as_dtype("int64")),
        ]

    executable = compile_block(program([tensor(n, m)], make))
    for shape in ((1, 1), (3, 7), (17, 2), (0, 3), (5, 8)):
        x = np.random.default_rng(0).normal(size=shape)
        total, mean, running, product, last, place = executable(x)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(total, x.sum(1), atol=1e-14)
            np.testing.assert_allclose(mean, x.sum() / x.size if x.size else np.nan, atol=1e-14)
        expected = np.flip(np.cumsum(np.flip(x, 0), 0), 0) - x
        np.testing.assert_allclose(running, expected, atol=1e-14)
        np.testing.assert_array_equal(product, np.cumprod(x, 1))
        np.testing.assert_array_equal(last, np.prod(x, -1))
        np.testing.assert_array_equal(place, np.argmax(x, 1))
    with pytest.raises(InvalidArgumentError, match="empty"):
        executable(np.zeros((3, 0)))


@pytest.mark.parametrize("shape", [(16, 16, 3), (9, 2), (1, 8, 4), (5, 13, 3), (70_000, 3), (4, 9_000, 2), ("n", "m", 3)])
def test_narrow_last_axis(shape: tuple[Any, ...]) -> None:
    """Several folds in one nest whose last axis is written out: each keeps what it keeps of it."""
    op, rank = registry.op_by_name, len(shape)
    axes = [(k,) for k in range(rank)] + [tuple(range(rank - 1)), tuple(range(rank))]

    def make(b: Any, x: Any, y: Any) -> list[Any]:
        product = b(op("multiply"), x, y)
        names = ("reduce_sum", "reduce_mean", "reduce_max")
        folds = [b(op(name), product, axis=axis, keepdims=len(axis) == 1) for axis in axes for name in names]
        return [product, *folds]

    sizes = [symbol(n) if isinstance(n, str) else n for n in shape]
    executable = compile_block(program([tensor(*sizes), tensor(*sizes[1:])], make))
    for given in ((4, 11, 3), (1, 1, 3), (20, 500, 3)) if "n" in shape else (shape,):
        generator = np.random.default_rng(1)
        x, y = generator.normal(size=given), generator.normal(size=given[1:])
        product, *folds = executable(x, y)
        np.testing.assert_array_equal(product, x * y)
        expected = [f(x * y, axis=a, keepdims=len(a) == 1) for a in axes for f in (np.sum, np.mean, np.max)]
        for got, exact in zip(folds, expected, strict=True):
            assert got.shape == np.shape(exact)
            np.testing.assert_allclose(got, exact, rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("shape", [(3, 300_000), (2, 2, 200_000), (1, 400_000)])
def test_few_long_lines(shape: tuple[int, ...]) -> None:
    """Lines that threads share: each makes a part of every fold."""
    x = np.random.default_rng(2).normal(size=shape)
    for name in ("sum", "mean", "max", "min"):
        for _ in range(2):
            got = native(f"reduce_{name}", x, axis=(len(shape) - 1,), keepdims=False)
            np.testing.assert_allclose(got, getattr(np, name)(x, -1), rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("count", [10**5, 3 * 10**6])
def test_long_sums_keep_their_digits(count: int) -> None:
    """The error of a sum of many float32 numbers is of the size of NumPy's pairwise one, not of a plain loop's."""
    for draw in ("random", "standard_normal"):
        x = getattr(np.random.default_rng(1), draw)(count).astype(np.float32)
        exact, size = x.astype(np.longdouble).sum(), np.abs(x.astype(np.longdouble)).sum()
        eps = float(np.finfo(np.float32).eps)
        for name, scale in (("reduce_sum", 1), ("reduce_mean", count)):
            error = abs(np.longdouble(native(name, x, axis=(0,), keepdims=False)) * scale - exact) / size
            assert error <= 4 * eps, f"{name} of {count}: {float(error / eps):.1f} eps"


def test_products_in_order() -> None:
    """Neighbours that cancel are multiplied before anything overflows."""
    x = np.tile([1e200, 1e-200], 1000)
    assert native("prod_last", x) == np.prod(x)
    np.testing.assert_array_equal(native("cumprod", x, axis=0, exclusive=False, reverse=False), np.cumprod(x))
