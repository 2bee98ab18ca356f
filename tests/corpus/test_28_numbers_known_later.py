"""Numbers that a function is given as tensors: masks of rank 2, sizes with -1, negative shifts, ids of segments, how many, how
often, how far. Eager code took them, functions refused them or took a count for a size. Values and derivatives agree now.

As machine code one program in some is differentiated twice, in `make test-all` each: compiling takes longest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError
from tests.harness.seeds import in_sample
from tests.harness.tolerances import same_array

TWICE = 4  # of so many programs one is differentiated twice as machine code
M = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]])
V = np.array([0.3, -0.7, 1.1, 0.5, -0.2, 0.8])
IMAGE = np.sin(np.arange(25.0)).reshape(1, 5, 5, 1)
IDS = [0, 0, 1, 1, 1, 3]
LOOSE = [0, 3, 1, -1, 1, 0]
FULL = [0, 2, 1, -1, 1, 0]


def replaced(x: Any) -> Any:
    r = x * x
    r[r > 0.3] = 0.5
    return r * x


def replaced_by_a_function_of_them(x: Any) -> Any:
    r = x * 1.0
    r[x > 0.0] = gt.sin(x[x > 0.0]) * 2.0
    return r * r


def added(x: Any) -> Any:
    r = x * 1.0
    r[x > 0.0] += 1.0
    r[r < 0.0] *= 0.1
    return r * r


def three_parts(x: Any, sizes: Any) -> Any:
    a, b, c = gt.split(x * x, sizes, 0)
    return gt.reduce_sum(a) * b[0] + c


def two_parts(x: Any, k: Any) -> Any:
    a, b = gt.split(x * x, [k, -1], 0)
    return gt.reduce_sum(a) * b


# name: function, the tensor to differentiate, several sets of further arguments
PROGRAMS: dict[str, tuple[Callable[..., Any], Any, list[tuple[Any, ...]]]] = {
    "mask": (lambda x: x[x > 0.0] ** 2, M, [()]),
    "mask of rows": (lambda x: x[x[:, 0] > 0.5] ** 2, M, [()]),
    "mask of columns": (lambda x: x[:, x[0] > 0.0] ** 3, M, [()]),
    "masked assignment": (replaced, M, [()]),
    "masked assignment of as many": (replaced_by_a_function_of_them, M, [()]),
    "masked update": (added, M, [()]),
    "reshape to a stack": (lambda x, k: gt.reshape(x * x, gt.stack([k, -1])) * x[0], V, [(2,), (3,), (1,)]),
    "reshape to a vector": (lambda x, k: gt.reshape(x * x, k) * x[0], V, [([3, -1],), ([-1, 2],), ([2, 3],)]),
    "slice": (lambda x, b, s: gt.slice(x * x, b, s) * x[0, 0], M, [([0, 1], [2, -1]), ([1, 0], [-1, 2]), ([0, 0], [1, 1])]),
    "roll": (lambda x, k: gt.roll(x * x, k, 0) * x, V, [(-1,), (2,), (-9,), (0,)]),
    "roll of two axes": (lambda x, k: gt.roll(x * x, k, [0, 1]) * x, M, [([-1, 2],), ([1, -2],)]),
    "segment_sum": (lambda x, i: gt.math.segment_sum(x * x, i), V, [(IDS,), ([0, 1, 2, 3, 4, 5],)]),
    "segment_mean": (lambda x, i: gt.math.segment_mean(x * x, i), V, [(IDS,), ([2] * 6,)]),
    "segment_max": (lambda x, i: gt.math.segment_max(x * x, i), V, [(IDS,)]),
    "segment_prod": (lambda x, i: gt.math.segment_prod(x * x, i), V, [(IDS,)]),
    "unsorted_segment_sum": (lambda x, i, n: gt.math.unsorted_segment_sum(x * x, i, n), V, [(LOOSE, 5), (LOOSE, 4)]),
    "unsorted_segment_mean": (lambda x, i, n: gt.math.unsorted_segment_mean(x * x, i, n), V, [(LOOSE, 5)]),
    "unsorted_segment_max": (lambda x, i, n: gt.math.unsorted_segment_max(x * x, i, n), V, [(FULL, 3)]),
    "unsorted_segment_prod": (lambda x, i, n: gt.math.unsorted_segment_prod(x * x, i, n), V, [(LOOSE, 5)]),
    "top_k": (lambda x, k: gt.math.top_k(x * x, k)[0] * x[0], V, [(2,), (6,), (0,)]),
    "top_k of rows": (lambda x, k: gt.math.top_k(x * x, k)[0], M, [(1,), (3,)]),
    "linspace": (lambda x, k: gt.linspace(x[0], x[1] * x[1], k) ** 2, V, [(4,), (1,), (2,), (0,), (7,)]),
    "pad": (lambda x, p: gt.pad(x * x, p) ** 2, M, [([[1, 0], [2, 1]],), ([[0, 0], [0, 3]],)]),
    "pad with a number": (lambda x, k: gt.pad(x * x, [[0, k], [k, 1]], constant_values=2.0), M, [(2,), (0,)]),
    "pad, reflected": (lambda x, k: gt.pad(x * x, [[k, 2]], "REFLECT"), V, [(0,), (5,)]),
    "pad, mirrored": (lambda x, k: gt.pad(x * x, [[k, 0]], "SYMMETRIC"), V, [(2,), (6,)]),
    "repeat": (lambda x, k: gt.repeat(x * x, k, 1), M, [(3,), (0,)]),
    "repeat, each": (lambda x, k: gt.repeat(x * x, k, 1), M, [([1, 0, 2],), ([0, 0, 0],)]),
    "repeat of all elements": (lambda x, k: gt.repeat(x * x, k), M, [(2,)]),
    "tile": (lambda x, k: gt.tile(x * x, k), M, [([2, 1],), ([0, 3],)]),
    "split": (three_parts, V, [([1, 2, 3],), ([0, 5, 1],)]),
    "split off": (two_parts, V, [(2,), (0,), (5,)]),
    "bincount": (lambda x, i: gt.cast(gt.math.bincount(i), gt.float64) * x[0], V, [([0, 3, 1, 1],), ([5, 5, 0, 0],)]),
    "bincount of weights": (lambda x, i, n: gt.math.bincount(i, x * x, minlength=n), V, [(IDS, 6), (IDS, 1)]),
    "bincount up to": (lambda x, i, n: gt.math.bincount(i, x * x, maxlength=n), V, [(IDS, 2), (IDS, 9)]),
    "transpose": (lambda x, p: gt.transpose(x * x, p) ** 2, M, [([1, 0],), ([0, 1],)]),
    "transpose of rank 3": (lambda x, p: gt.transpose(x * x, p), M[:, :, None] * V[:2], [([2, 0, 1],), ([1, 2, 0],)]),
    "strides": (lambda x, s: gt.nn.conv2d(x * x, np.ones((2, 2, 1, 1)), s, "SAME"), IMAGE, [(2,), (1,), (3,)]),
    "strides of a valid one": (lambda x, s: gt.nn.conv2d(x, np.ones((2, 3, 1, 1)), s, "VALID") ** 2, IMAGE, [([2, 1],)]),
    "sequence_mask": (lambda x, n: gt.cast(gt.sequence_mask(n), gt.float64) * x[0], V, [([2, 1],), ([0, 4],)]),
    "band_part": (lambda x, a, b: gt.linalg.band_part(x * x, a, b), M, [(1, 0), (-1, 1), (0, -1)]),
    "map_fn": (lambda x, n: gt.map_fn(lambda row: gt.sin(row) * row[0], x[:n]), M, [(0,), (2,)]),
}


def derivatives(function: Any, x: Any, args: tuple[Any, ...], order: int) -> list[Any]:
    x, args = gt.constant(x), tuple(gt.constant(a) for a in args)
    with gt.GradientTape() as outer:
        outer.watch([x] if order > 1 else [])
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = function(x, *args)
        first = inner.gradient(y, x, unconnected_gradients="zero")
        if order == 1:
            return [y.numpy(), first.numpy()]
        s = gt.reduce_sum(first * np.cos(np.arange(float(np.prod(x.shape)))).reshape(tuple(x.shape)))
    return [y.numpy(), first.numpy(), outer.gradient(s, x, unconnected_gradients="zero").numpy()]


@pytest.mark.parametrize("native", [False, True], ids=["interpreted", "native"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str, native: bool) -> None:
    function, x, cases = PROGRAMS[name]
    compiled = gt.function(function, jit_compile=native)
    order = 2 if not native or in_sample(name, TWICE) else 1
    for args in cases:
        for a, b in zip(derivatives(compiled, x, args, order), derivatives(function, x, args, order), strict=True):
            same_array(a, b, 1e-11, f"{name} with {args}")
    shapes = {str([np.shape(a) for a in args]) for args in cases}
    assert compiled.experimental_get_tracing_count() == len(shapes)


REFUSED: dict[str, tuple[Callable[..., Any], Any, tuple[Any, ...], str]] = {
    "top_k": (lambda x, k: gt.math.top_k(x, k)[0], V, (7,), "top_k"),
    "split": (three_parts, V, ([1, 2, 4],), "split"),
    "split off": (two_parts, V, (7,), "split|negative"),
    "segment_sum": (lambda x, i: gt.math.segment_sum(x, i), V, ([1, 0, 0, 0, 0, 0],), "sorted"),
    "num_segments": (lambda x, i, n: gt.math.unsorted_segment_sum(x, i, n), V, (LOOSE, 2), "not below num_segments"),
    "bincount": (lambda x, i: gt.math.bincount(i), V, ([0, -1],), "negative"),
    "transpose": (lambda x, p: gt.transpose(x, p), M, ([1, 1],), "permutation"),
    "reshape": (lambda x, k: gt.reshape(x, k), V, ([4, -1],), "reshape"),
    "slice": (lambda x, b, s: gt.slice(x, b, s), M, ([0, 1], [2, 3]), "slice"),
    "pad": (lambda x, k: gt.pad(x, [[k, 0]], "REFLECT"), V, (6,), "pad|gather"),
    "linspace": (lambda x, k: gt.linspace(x[0], x[1], k), V, (-1,), "negative"),
}


@pytest.mark.parametrize("native", [False, True], ids=["interpreted", "native"])
@pytest.mark.parametrize("name", REFUSED)
def test_wrong_numbers_are_refused_when_they_come(name: str, native: bool) -> None:
    function, x, args, words = REFUSED[name]
    given = gt.constant(x), *(gt.constant(a) for a in args)
    with pytest.raises((InvalidArgumentError, IndexError), match=words):
        function(*given)
    with pytest.raises((InvalidArgumentError, IndexError), match=words):
        gt.function(function, jit_compile=native)(*given)


def test_no_rows_are_mapped_by_the_types_of_the_function() -> None:
    for rows in (gt.zeros((0, 3)), gt.zeros((0, 2, 3))):
        total, parts = gt.map_fn(lambda row: (gt.reduce_sum(row), gt.cast(row, gt.int32)), rows)
        assert total.shape == (0,)
        assert tuple(parts.shape) == tuple(rows.shape)
        assert parts.dtype == gt.int32
        assert gt.function(lambda x: gt.map_fn(lambda row: gt.reduce_sum(row), x))(rows).shape == (0,)


def test_a_variable_says_where_a_slice_begins() -> None:
    v, k = gt.Variable([1.0, 2.0, 3.0]), gt.Variable(1)
    part = gt.function(lambda: (gt.slice(v, [k], [1]), gt.roll(v, [k], [0])))
    for begin in (1, 2, 0):
        k.assign(begin)
        assert [t.numpy().tolist() for t in part()] == [[1.0 + begin], np.roll([1.0, 2.0, 3.0], begin).tolist()]
