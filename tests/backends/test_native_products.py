"""Products, softmax and its kin, convolutions, joined arrays, kernels of several phases: native code against the reference."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.backends.llvm import compile_block as native
from gradtape.backends.llvm.products import contractions
from gradtape.backends.llvm.products.contractions import Axis
from gradtape.backends.numpy import compile_block as reference
from gradtape.ir.dims import symbol
from gradtape.ops import conv, pool
from gradtape.ops.activations import LOG_SOFTMAX, RELU, SOFTMAX
from gradtape.ops.contract import EINSUM
from gradtape.ops.elementwise import ADD, EXP, MULTIPLY, SUBTRACT
from gradtape.ops.linalg_solve import TRIANGULAR_SOLVE
from gradtape.ops.losses import SOFTMAX_CROSS_ENTROPY, SPARSE_CROSS_ENTROPY
from gradtape.ops.matmul import MATMUL
from gradtape.ops.normalization import NORMALIZE
from gradtape.ops.padding import PAD
from gradtape.ops.reduce import REDUCE_MAX, REDUCE_MEAN, REDUCE_SUM
from gradtape.ops.shape import BROADCAST_TO, CONCAT, RESHAPE, SLICE_AXIS, STACK, TRANSPOSE
from gradtape.ops.windows import out_space
from gradtape.passes.bufferize import bufferize
from tests.backends.build import program, tensor

RNG = np.random.default_rng(7)


def draw(*shape: int, dtype: str = "float64") -> Any:
    if "int" in dtype:
        return RNG.integers(-5, 6, shape).astype(dtype)
    return RNG.normal(size=shape).astype(dtype)


def notes(made: Any, kind: str) -> list[Any]:
    return [note for note in made.notes if note.kind == kind]


def check(make: Callable[..., Any], *arrays: Any, types: Sequence[Any] | None = None, tolerance: float | None = None) -> Any:
    """The program of `make` gives natively what it gives on the reference backend; returns the native program."""
    specs = types or [tensor(*a.shape, dtype=a.dtype.name) for a in arrays]
    block = program(specs, make)
    want = reference(block)(*[a.copy() for a in arrays])
    made = native(block)
    given = [a.copy() for a in arrays]
    for _ in range(2):
        found = made(*given)
        for a, b in zip(found, want, strict=True):
            assert np.shape(a) == np.shape(b)
            assert np.asarray(a).dtype == np.asarray(b).dtype
            limit = tolerance or (1e-11 if np.asarray(b).dtype.itemsize == 8 else 2e-5)
            np.testing.assert_allclose(a, b, rtol=limit, atol=limit * max(1.0, float(np.max(np.abs(b), initial=0.0))))
    for before, after in zip(arrays, given, strict=True):
        np.testing.assert_array_equal(before, after)  # inputs are not changed
    return made


SIZES = [
    (1, 1, 1), (2, 3, 4), (3, 0, 2), (0, 3, 2), (3, 4, 0), (1, 7, 5), (7, 5, 1), (8, 8, 8), (13, 17, 11), (5, 300, 2),
    (31, 33, 64), (67, 129, 35), (130, 9, 258), (128, 257, 61),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_matrix_product(sizes: tuple[int, int, int], dtype: str) -> None:
    m, k, n = sizes
    made = check(lambda b, x, y: b(MATMUL, x, y), draw(m, k, dtype=dtype), draw(k, n, dtype=dtype))
    assert not notes(made, "numpy")


def test_product_of_one_term_is_fused() -> None:
    x, y = draw(7, 1), draw(1, 9)
    made = check(lambda b, x, y, z: b(MULTIPLY, b(MATMUL, x, y), z), x, y, draw(7, 9))
    assert not notes(made, "product")
    assert len(notes(made, "kernel")) == 1
    check(lambda b, x, y: b(MATMUL, x, y), draw(2, 5, 1), draw(1, 4))
    check(lambda b, x, y: b(MATMUL, x, y), draw(5, 1), draw(3, 1, 4))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("turns", [(False, True), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("sizes", [(2, 3, 4), (1, 40, 50), (50, 40, 1), (31, 33, 64), (70, 65, 40)], ids=str)
def test_transposed_operands_are_not_copied(sizes: tuple[int, int, int], turns: tuple[bool, bool], dtype: str) -> None:
    m, k, n = sizes
    a, c = ((k, m) if turns[0] else (m, k)), ((n, k) if turns[1] else (k, n))

    def make(b: Any, x: Any, y: Any) -> Any:
        x = b(TRANSPOSE, x, perm=(1, 0)) if turns[0] else x
        y = b(TRANSPOSE, y, perm=(1, 0)) if turns[1] else y
        return b(MATMUL, x, y)

    made = check(make, draw(*a, dtype=dtype), draw(*c, dtype=dtype))
    assert not notes(made, "kernel")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("turned", [False, True])
def test_products_with_few_columns(turned: bool, dtype: str) -> None:
    """One vector of columns: tiles have more rows, and the last ones are halved where sums are long."""
    shapes = [(m, k, n) for m in range(4, 41) for k, n in ((20, 3), (90, 6 if m % 2 else 7))]
    arrays = [a for m, k, n in shapes for a in (draw(*((k, m) if turned else (m, k)), dtype=dtype), draw(k, n, dtype=dtype))]

    def make(b: Any, *xs: Any) -> list[Any]:
        left = [b(TRANSPOSE, x, perm=(1, 0)) if turned else x for x in xs[::2]]
        return [b(MATMUL, x, y) for x, y in zip(left, xs[1::2], strict=True)]

    check(make, *arrays)


BATCHES = [
    ((4,), (4,)), ((4,), ()), ((), (4,)), ((2, 3), (3,)), ((2, 1), (1, 5)), ((1,), (1,)), ((0,), (0,)), ((2, 1, 3), (4, 1)),
]  # fmt: skip


@pytest.mark.parametrize("sizes", [(2, 3, 4), (9, 20, 17), (1, 30, 40), (40, 30, 1)], ids=str)
@pytest.mark.parametrize("batches", BATCHES, ids=str)
def test_batched_product(batches: tuple[tuple[int, ...], tuple[int, ...]], sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    check(lambda b, x, y: b(MATMUL, x, y), draw(*batches[0], m, k), draw(*batches[1], k, n))


def test_product_of_slices_and_broadcasts() -> None:
    def make(b: Any, x: Any, y: Any) -> Any:
        part = b(SLICE_AXIS, x, axis=1, start=3, size=20)
        wide = b(BROADCAST_TO, b(RESHAPE, y, shape=(1, 20, 30)), shape=(4, 20, 30))
        return b(MATMUL, part, wide)

    made = check(make, draw(25, 40), draw(20, 30))
    assert not notes(made, "kernel")


def test_heads_of_attention_are_not_copied() -> None:
    def make(b: Any, x: Any, w: Any) -> Any:
        heads = b(TRANSPOSE, b(RESHAPE, b(MATMUL, x, w), shape=(2, 10, 4, 8)), perm=(0, 2, 1, 3))
        return b(MATMUL, heads, b(TRANSPOSE, heads, perm=(0, 1, 3, 2)))

    made = check(make, draw(2, 10, 32), draw(32, 32))
    assert not notes(made, "kernel")


def test_broadcast_rows_of_an_operand() -> None:
    check(lambda b, x, y: b(MATMUL, b(BROADCAST_TO, x, shape=(30, 20)), y), draw(1, 20), draw(20, 25))
    check(lambda b, x, y: b(MATMUL, b(BROADCAST_TO, x, shape=(30, 20)), y), draw(30, 1), draw(20, 25))


@pytest.mark.parametrize(("m", "k", "n"), [(3, 4, 5), (40, 1, 7), (0, 4, 5), (3, 0, 5), (1, 64, 64)])
def test_sizes_known_only_at_run_time(m: int, k: int, n: int) -> None:
    types = [tensor(symbol("m"), symbol("k")), tensor(symbol("k"), symbol("n"))]
    check(lambda b, x, y: b(MATMUL, x, y), draw(m, k), draw(k, n), types=types)
    turned = [tensor(symbol("k"), symbol("m")), tensor(symbol("k"), symbol("n"))]
    check(lambda b, x, y: b(MATMUL, b(TRANSPOSE, x, perm=(1, 0)), y), draw(k, m), draw(k, n), types=turned)


EQUATIONS = [
    ("ij,jk->ik", (12, 20), (20, 15)), ("ij,kj->ik", (12, 20), (15, 20)), ("ij,ik->jk", (20, 12), (20, 15)),
    ("ij,jk->ki", (12, 20), (20, 15)), ("bij,bjk->bki", (5, 12, 9), (5, 9, 11)), ("ijb,jkb->ikb", (12, 9, 5), (9, 11, 5)),
    ("i,i->", (300,), (300,)), ("i,j->ij", (30,), (40,)), ("i,j->ji", (30,), (40,)), ("bi,bi->b", (30, 40), (30, 40)),
    ("bi,bi->bi", (7, 5), (7, 5)), ("bij,bj->bi", (4, 30, 20), (4, 20)), ("bhid,bhjd->bhij", (2, 3, 16, 8), (2, 3, 12, 8)),
    ("ibh,jbh->bij", (9, 4, 5), (7, 4, 5)), ("abc,bcd->ad", (6, 7, 8), (7, 8, 9)), ("abc,cbd->ad", (6, 7, 8), (8, 7, 9)),
    ("ij,jk->ik", (0, 3), (3, 2)), ("ij,jk->ik", (3, 0), (0, 2)), (",i->i", (), (9,)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("equation", "a", "c"), EQUATIONS, ids=[f"{e} {a} {c}" for e, a, c in EQUATIONS])
def test_einsum(equation: str, a: tuple[int, ...], c: tuple[int, ...], dtype: str) -> None:
    x, y = (draw(*shape, dtype=dtype) if shape else np.dtype(dtype).type(1.5) for shape in (a, c))
    made = check(lambda b, x, y: b(EINSUM, x, y, equation=equation), np.asarray(x), np.asarray(y))
    assert not notes(made, "numpy")


def test_einsum_of_several_operands() -> None:
    made = check(lambda b, x, y, z: b(EINSUM, x, y, z, equation="ij,jk,kl->il"), draw(12, 20), draw(20, 5), draw(5, 30))
    assert not notes(made, "numpy")
    check(lambda b, *xs: b(EINSUM, *xs, equation="bi,bj,bk,ij->bk"), draw(4, 5), draw(4, 6), draw(4, 7), draw(5, 6))


def test_complex_products_are_four_real_ones() -> None:
    x, y = (draw(5, 6) + 1j * draw(5, 6), draw(6, 4) + 1j * draw(6, 4))
    made = check(lambda b, x, y: b(MATMUL, x, y), x, y)
    assert not notes(made, "numpy")
    assert len(notes(made, "product")) == 4


# -- what products absorb


def test_sum_over_the_batch_happens_in_the_product() -> None:
    def make(b: Any, x: Any, y: Any) -> Any:
        return b(REDUCE_SUM, b(MATMUL, b(TRANSPOSE, x, perm=(0, 2, 1)), y), axis=(0,), keepdims=False)

    assert not notes(check(make, draw(6, 20, 12), draw(6, 20, 9)), "kernel")


@pytest.mark.parametrize(("axis", "keepdims"), [((0,), True), ((1,), False), ((0, 1), False), ((0, 1), True)])
def test_sums_over_parts_of_the_batch(axis: tuple[int, ...], keepdims: bool) -> None:
    check(lambda b, x, y: b(REDUCE_SUM, b(MATMUL, x, y), axis=axis, keepdims=keepdims), draw(3, 4, 9, 7), draw(3, 4, 7, 10))
    check(lambda b, x, y: b(REDUCE_SUM, b(MATMUL, x, y), axis=axis, keepdims=keepdims), draw(3, 4, 9, 7), draw(4, 7, 10))


def test_sum_of_two_products() -> None:
    def make(b: Any, x: Any, y: Any, u: Any, v: Any) -> Any:
        return b(RELU, b(ADD, b(MATMUL, x, y), b(MATMUL, u, v)))

    made = check(make, draw(20, 30), draw(30, 25), draw(20, 12), draw(12, 25))
    assert [note.ops for note in notes(made, "kernel")] == [("relu",)]


def test_both_products_are_needed_elsewhere_too() -> None:
    def make(b: Any, x: Any, y: Any) -> Any:
        p, q = b(MATMUL, x, y), b(MATMUL, y, x)
        return [b(ADD, p, q), p, q]

    check(make, draw(20, 20), draw(20, 20))


def test_product_added_in_place_in_a_loop() -> None:
    def make(b: Any, total: Any, x: Any) -> Any:
        def body(c: Any, i: Any, total: Any, x: Any) -> Any:
            return [c(ADD, total, c(MATMUL, c(TRANSPOSE, x, perm=(1, 0)), x))], []

        return b.scan(5, [total], body, [x])[0]

    block = bufferize(program([tensor(64, 64), tensor(40, 64)], make))
    total, x = draw(64, 64), draw(40, 64)
    found = native(block)(total.copy(), x)
    np.testing.assert_allclose(found[0], total + 5 * (x.T @ x), rtol=1e-12)


# -- rows


ROWS = [(4, 5), (3, 40), (1, 1), (7, 1), (0, 5), (5, 0), (2, 3, 33), (64, 300), (17,)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", ROWS, ids=str)
@pytest.mark.parametrize("op", [SOFTMAX, LOG_SOFTMAX], ids=lambda op: op.name)
def test_softmax(op: Any, shape: tuple[int, ...], dtype: str) -> None:
    for axis in range(len(shape)):
        made = check(lambda b, x, axis=axis: b(op, x, axis=axis), draw(*shape, dtype=dtype))
        assert not notes(made, "numpy")


def test_softmax_of_extreme_rows() -> None:
    x = draw(6, 40)
    x[0, 3], x[1, 4], x[2, 5], x[3] = np.inf, -np.inf, np.nan, -np.inf
    x[4] *= 1e300
    for op in (SOFTMAX, LOG_SOFTMAX):
        block = program([tensor(6, 40)], lambda b, x, op=op: b(op, x, axis=1))
        np.testing.assert_allclose(native(block)(x)[0], reference(block)(x)[0], rtol=1e-12)


def test_softmax_is_one_kernel_with_what_stands_around_it() -> None:
    def make(b: Any, x: Any, w: Any) -> Any:
        return b(MULTIPLY, b(SOFTMAX, b(MULTIPLY, x, w), axis=1), x)

    made = check(make, draw(50, 60), draw(60))
    assert len(notes(made, "kernel")) == 1
    assert "3 phases" in notes(made, "kernel")[0].detail


@pytest.mark.parametrize("shape", [(4, 5), (1, 1), (0, 3), (3, 70), (2, 3, 20), (9,)], ids=str)
def test_cross_entropies(shape: tuple[int, ...]) -> None:
    logits = draw(*shape)
    labels = np.abs(draw(*shape))
    labels[..., 0] = 0
    if logits.size:
        logits[..., 0] = -np.inf  # a label of 0 cancels it
    check(lambda b, y, x: b(SOFTMAX_CROSS_ENTROPY, y, x), labels, logits)
    classes = np.asarray(RNG.integers(1, max(shape[-1], 2), shape[:-1]) % shape[-1]).astype("int64")
    made = check(lambda b, y, x: b(SPARSE_CROSS_ENTROPY, y, x), classes, logits)
    assert not notes(made, "numpy")


def test_labels_out_of_range_raise_as_in_the_reference() -> None:
    block = program([tensor(3, dtype="int32"), tensor(3, 4)], lambda b, y, x: b(SPARSE_CROSS_ENTROPY, y, x))
    made, logits = native(block), draw(3, 4)
    np.testing.assert_allclose(
        made(np.array([-1, 3, 0], "int32"), logits)[0], reference(block)(np.array([-1, 3, 0], "int32"), logits)[0]
    )
    for wrong in (4, -5, 2**31 - 1):
        with pytest.raises(IndexError):
            made(np.array([0, wrong, 1], "int32"), logits)


def test_softmax_and_cross_entropy_of_the_same_logits_share_their_work() -> None:
    def make(b: Any, y: Any, x: Any) -> Any:
        return [b(REDUCE_MEAN, b(SPARSE_CROSS_ENTROPY, y, x), axis=(0,), keepdims=False), b(SOFTMAX, x, axis=1)]

    made = check(make, RNG.integers(0, 30, 20).astype("int32"), draw(20, 30))
    ops = [name for note in notes(made, "kernel") for name in note.ops]
    assert ops.count("reduce_max") == 1
    assert ops.count("exp") == 1


@pytest.mark.parametrize("axes", [(1,), (0,), (0, 1), (2,), (1, 2), (0, 2), (0, 1, 2)], ids=str)
def test_normalize(axes: tuple[int, ...]) -> None:
    shape = (6, 7, 40) if max(axes) == 2 else (9, 33)
    made = check(lambda b, x: b(NORMALIZE, x, axis=axes, epsilon=1e-3), draw(*shape))
    assert not notes(made, "numpy")


@pytest.mark.parametrize("rows", [1, 2, 31, 100])
def test_phases_with_sizes_known_only_at_run_time(rows: int) -> None:
    check(lambda b, x: b(SOFTMAX, x, axis=1), draw(rows, 37), types=[tensor(symbol("n"), symbol("d"))])
    check(lambda b, x: b(NORMALIZE, x, axis=(1,), epsilon=1e-3), draw(rows, 37), types=[tensor(symbol("n"), 37)])


def test_phases_that_fold_different_axes() -> None:
    def make(b: Any, x: Any) -> Any:
        top = b(REDUCE_MAX, x, axis=(2,), keepdims=True)
        total = b(REDUCE_SUM, b(EXP, b(SUBTRACT, x, top)), axis=(1,), keepdims=True)
        return [b(MULTIPLY, x, total), b(REDUCE_SUM, b(MULTIPLY, x, total), axis=(0,), keepdims=False)]

    check(make, draw(5, 6, 40))


# -- convolutions and pooling


def samples_of(op: Any) -> list[Any]:
    return [(op, k, sample) for k, sample in enumerate(op.samples()) if sample.raises is None]


WINDOWS = [case for op in (*conv.OPS, *pool.OPS) if op.name != "pool_winner" for case in samples_of(op)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("op", "k", "sample"), WINDOWS, ids=[f"{op.name} {k}" for op, k, _ in WINDOWS])
def test_windows(op: Any, k: int, sample: Any, dtype: str) -> None:
    arrays = [a.astype(dtype) if a.dtype.kind == "f" else a for a in map(np.asarray, sample.args)]
    made = check(lambda b, *xs: b(op, *xs, **sample.kwargs), *arrays)
    if all(a.size for a in arrays):
        assert not notes(made, "numpy")


GEOMETRIES = [
    # space, kernel, strides, padding, dilations, groups, channels of a group, results of a group
    ((9, 11), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 1, 5, 7),
    ((28, 28), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1), 1, 1, 6),
    ((14, 14), (5, 5), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, 6, 16),
    ((13, 10), (3, 2), (2, 3), ((2, 1), (0, 1)), (1, 1), 1, 4, 9),
    ((17, 12), (3, 3), (1, 2), ((0, 3), (2, 0)), (2, 3), 1, 3, 20),
    ((12, 12), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 4, 3, 5),
    ((12, 10), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 24, 1, 1),
    ((12, 10), (5, 5), (2, 1), ((1, 1), (1, 1)), (1, 1), 9, 1, 2),
    ((8, 8), (1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1, 33, 18),
    ((6, 7), (2, 2), (3, 3), ((4, 5), (5, 4)), (1, 1), 1, 2, 3),
    ((5,), (3,), (1,), ((1, 1),), (1,), 1, 300, 4),
    ((4, 5, 6), (2, 3, 2), (1, 2, 1), ((1, 0), (0, 1), (1, 1)), (1, 1, 2), 1, 3, 4),
    ((4, 5, 6), (2, 3, 2), (1, 2, 1), ((1, 0), (0, 1), (1, 1)), (1, 1, 2), 5, 1, 1),
    ((1, 1), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1), 17, 1, 1),
    ((3, 9), (1, 2), (4, 5), ((0, 0), (0, 3)), (1, 1), 40, 1, 1),  # elements that no window meets
    ((40, 40), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1), 33, 1, 1),  # large enough for threads
    ((30, 31), (3, 3), (2, 2), ((0, 1), (0, 1)), (1, 1), 20, 1, 3),
]  # fmt: skip


def drawn_geometry(number: int) -> Any:
    """A convolution of single channels: sizes, steps and padding as they come."""
    rng = np.random.default_rng(number)
    rank = int(rng.integers(1, 4))
    kernel, strides, dilations = (tuple(map(int, rng.integers(1, most, rank))) for most in (5, 4, 4))
    padding = tuple((int(low), int(high)) for low, high in rng.integers(0, 6, (rank, 2)))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    space = tuple(
        max(r - low - high, 0) + int(rng.integers(0 if low + high else 1, 9 - 2 * rank + 3))
        for r, (low, high) in zip(reach, padding, strict=True)
    )
    space = tuple(max(n, 1) for n in space)
    return space, kernel, strides, padding, dilations, int(rng.integers(2, 21)), 1, int(rng.choice([1, 1, 2, 3]))


GEOMETRIES += [drawn_geometry(number) for number in range(24)]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_convolutions(geometry: Any) -> None:
    space, kernel, strides, padding, dilations, groups, own, many = geometry
    attrs = {"strides": strides, "padding": padding, "dilations": dilations, "groups": groups}
    out = out_space(space, kernel, strides, padding, dilations, "conv")
    dtype = "float32" if groups % 2 else "float64"
    x, w = draw(3, *space, groups * own, dtype=dtype), draw(*kernel, own, groups * many, dtype=dtype)
    y = draw(3, *out, groups * many, dtype=dtype)
    assert not notes(check(lambda b, x, w: b(conv.CONV, x, w, **attrs), x, w), "numpy")
    assert not notes(check(lambda b, y, w: b(conv.CONV_INPUT, y, w, space=space, **attrs), y, w), "numpy")
    assert not notes(check(lambda b, x, y: b(conv.CONV_FILTER, x, y, kernel=kernel, **attrs), x, y), "numpy")


@pytest.mark.parametrize(
    ("ksize", "strides", "padding"),
    [((2, 2), (2, 2), ((0, 0), (0, 0))), ((3, 3), (1, 2), ((1, 1), (1, 0))), ((2, 3), (3, 4), ((0, 1), (2, 2)))],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_pooling(ksize: Any, strides: Any, padding: Any, dtype: str) -> None:
    geometry = {"ksize": ksize, "strides": strides, "padding": padding}
    x = draw(2, 9, 13, 5, dtype=dtype)

    def make(b: Any, x: Any) -> Any:
        best = b(pool.MAX_POOL, x, **geometry)
        tap = b(pool.POOL_WINNER, x, best, **geometry)
        back = b(pool.POOL_PUT, best, tap, space=(9, 13), **geometry)
        return [best, tap, back, b(pool.POOL_TAKE, x, tap, **geometry)]

    assert not notes(check(make, x), "numpy")


# -- joined arrays


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_concatenation(axis: int, dtype: str) -> None:
    shapes = [[3, 4, 5] for _ in range(4)]
    for k, size in enumerate((2, 0, 1, 7)):
        shapes[k][axis] = size
    arrays = [draw(*shape) > 0 if dtype == "bool" else draw(*shape, dtype=dtype) for shape in shapes]
    made = check(lambda b, *xs: b(CONCAT, *xs, axis=axis), *arrays)
    assert not notes(made, "numpy")
    assert len(notes(made, "kernel")) <= 4


def test_parts_are_computed_in_place() -> None:
    def make(b: Any, x: Any, y: Any) -> Any:
        return b(CONCAT, b(EXP, x), b(MULTIPLY, x, y), b(ADD, x, y), axis=1)

    made = check(make, draw(30, 20), draw(30, 20))
    assert len(notes(made, "kernel")) == 1


def test_one_operand_twice_and_in_two_arrays() -> None:
    def make(b: Any, x: Any, y: Any) -> Any:
        return [b(CONCAT, x, x, y, axis=0), b(CONCAT, x, y, axis=0), b(CONCAT, y, x, axis=1)]

    check(make, draw(4, 5), draw(4, 5))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_stack(axis: int) -> None:
    check(lambda b, *xs: b(STACK, *xs, axis=axis), draw(3, 4), draw(3, 4), draw(3, 4))
    check(lambda b, *xs: b(STACK, *[b(REDUCE_SUM, x, axis=(0, 1), keepdims=False) for x in xs], axis=0), draw(3, 4), draw(3, 4))


def test_sum_of_paddings_that_cover_everything() -> None:
    def make(b: Any, x: Any, y: Any, z: Any) -> Any:
        parts = [(y, 5, 3), (x, 0, 5), (z, 7, 0)]
        total = None
        for value, low, high in parts:
            padded = b(PAD, value, paddings=((0, 0), (low, high)))
            total = padded if total is None else b(ADD, total, padded)
        return total

    made = check(make, draw(4, 5), draw(4, 2), -np.zeros((4, 3)))
    assert not notes(made, "numpy")
    assert len(notes(made, "kernel")) <= 3
    assert not np.signbit(made(draw(4, 5), draw(4, 2), -np.zeros((4, 3)))[0][:, 7:]).any()


def test_sum_of_paddings_that_overlap() -> None:
    def make(b: Any, x: Any, y: Any) -> Any:
        return b(ADD, b(PAD, x, paddings=((0, 3),)), b(PAD, y, paddings=((2, 0),)))

    check(make, draw(5), draw(6))


# -- whole programs


def test_gradient_of_a_perceptron() -> None:
    sizes = [30, 40, 17, 5]
    weights = [draw(a, c, dtype="float32") for a, c in itertools.pairwise(sizes)]
    biases = [draw(c, dtype="float32") for c in sizes[1:]]
    x, labels = draw(23, 30, dtype="float32"), RNG.integers(0, 5, 23).astype("int32")

    def loss(x: Any, labels: Any, *parameters: Any) -> Any:
        for k in range(3):
            x = x @ parameters[2 * k] + parameters[2 * k + 1]
            x = gt.nn.relu(x) if k < 2 else x
        return gt.reduce_mean(gt.nn.sparse_softmax_cross_entropy_with_logits(labels, x))

    def gradient(*args: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(args[2:])
            value = loss(*args)
        return value, tape.gradient(value, args[2:])

    parameters = [gt.constant(a) for pair in zip(weights, biases, strict=True) for a in pair]
    args = (gt.constant(x), gt.constant(labels), *parameters)
    found, want = gt.function(gradient)(*args), gradient(*args)
    np.testing.assert_allclose(found[0], want[0], rtol=1e-5)
    for a, b in zip(found[1], want[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


# -- contractions as axes


def test_axes_that_are_dense_become_one() -> None:
    axes = contractions.tidy(
        [Axis(4, 60, None, 60), Axis(5, 12, None, 12), Axis(1, 3, 4, 5), Axis(7, None, 1, 1), Axis(12, 1, 7, None)]
    )
    assert axes == [Axis(20, 12, None, 12), Axis(7, None, 1, 1), Axis(12, 1, 7, None)]


def test_the_largest_product_is_chosen() -> None:
    batch, small, m, n, k = (
        Axis(
            3,
            1000,
            900,
            600,
        ),
        Axis(2, 500, None, 7),
        Axis(20, 30, None, 30),
        Axis(30, None, 1, 1),
        Axis(30, 1, 30, None),
    )
    choice = contractions.chosen([batch, small, m, n, k])
    assert (choice.m, choice.n, choice.k, choice.loops, choice.turned) == (m, n, k, [batch, small], False)


# -- operands that begin where only the run knows


def spans(x: Any, y: Any) -> Any:
    """Products of slices that grow and shrink, some of which change between being read and being used."""
    x = gt.identity(x)
    total = gt.zeros((), x.dtype)
    for i in gt.range(x.shape[0]):
        row, below, turned = x[i], x[i:, :i], x[i:, ::-1]
        before = x[:, i]
        x[i] = gt.tanh(row * 0.5 + y[i])
        total += gt.reduce_sum(below @ y[:i]) + gt.reduce_sum(turned @ y) + gt.tensordot(before, x[:, i], 1)
        total += gt.reduce_sum(gt.transpose(x[i:]) @ x[i:, 1:])
        x[i:, 0] = x[i:, 0] + gt.linalg.matvec(x[i:], y[:, 1])
    return total


@pytest.mark.parametrize("n", [2, 3, 12])
def test_products_of_spans(n: int) -> None:
    x, y = gt.constant(draw(n, n) * 0.3), gt.constant(draw(n, n) * 0.3)

    def derivatives(f: Any) -> list[Any]:
        with gt.GradientTape() as tape:
            tape.watch((x, y))
            out = f(x, y)
        return [out, *tape.gradient(out, (x, y))]

    compiled = gt.function(spans)
    for a, b in zip(derivatives(compiled), derivatives(spans), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9, atol=1e-9)
    with pytest.raises(gt.errors.OutOfRangeError):
        gt.function(lambda x, k: x[k] @ x[0:k])(x, gt.constant(n + 5))


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_triangular_systems_are_solved_by_blas(dtype: str, lower: bool, adjoint: bool, columns: int) -> None:
    block = program(
        [tensor(5, 5, dtype=dtype), tensor(5, columns, dtype=dtype)],
        lambda build, a, b: build(TRIANGULAR_SOLVE, a, b, lower=lower, adjoint=adjoint),
    )
    solve = native(block)
    generator = np.random.default_rng(4)
    a, b = ((generator.normal(size=size) + 3.0).astype(dtype) for size in ((5, 5), (5, columns)))
    assert not solve.program.calls
    expected = TRIANGULAR_SOLVE.impl(a, b, lower=lower, adjoint=adjoint)
    np.testing.assert_allclose(solve(a, b)[0], expected, rtol=1e-12 if dtype == "float64" else 1e-4)
    a[2, 2] = 0.0
    with pytest.raises(gt.errors.InvalidArgumentError, match="singular"):
        solve(a, b)
