"""Programs that go to a place known at run time only, and numbers around every edge for them: of the array, of int32 and int64,
of what steps and sums can overflow to. Eager code with the same numbers says what is right.

Used in the process of the tests (`test_native_bounds.py`, `tests/corpus`) and between guard pages (`guarded_programs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gradtape as gt

BIG, LONG = 2**31 - 1, 2**63 - 1
PROGRAMS: dict[str, tuple[Callable[..., Any], int]] = {}  # by name: function of x and so many integers


def program(count: int) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        PROGRAMS[function.__name__] = (function, count)
        return function

    return register


def zero() -> Any:
    return gt.constant(0.0, gt.float64)


@program(2)
def stepped(x, a, n):
    total = zero()
    for i in gt.range(n):
        total = total + x[a + 2 * gt.cast(i, a.dtype)]
    return total


@program(2)
def stepped_back(x, a, n):
    total = zero()
    for i in gt.range(n):
        total = total + x[a - 3 * gt.cast(i, a.dtype)]
    return total


@program(2)
def doubled(x, a, n):
    total = zero()
    for i in gt.range(a, gt.maximum(a, a + gt.cast(n, a.dtype))):  # which may wrap around
        total = total + x[2 * i]
    return total


@program(2)
def cancelled(x, a, n):
    total = zero()
    for i in gt.range(n):
        total = total + x[(gt.cast(i, a.dtype) + a) - a]
    return total


@program(2)
def multiplied(x, k, n):
    total = zero()
    for i in gt.range(n):
        total = total + x[gt.cast(i, k.dtype) * 1073741824 * 4 + k]
    return total


@program(2)
def widened(x, k, n):
    """An int32 that wraps around before it becomes an int64."""
    total = zero()
    for i in gt.range(n):
        narrow = gt.cast(i, gt.int32) * 1073741824
        total = total + x[gt.cast(narrow, gt.int64) + gt.cast(k, gt.int64)]
    return total


@program(2)
def narrowed(x, a, n):
    total = zero()
    for i in gt.range(n):
        total = total + x[gt.cast(gt.cast(a, gt.int64) * 4 + gt.cast(i, gt.int64), gt.int32)]
    return total


@program(2)
def written(x, a, n):
    y = gt.identity(x)
    for i in gt.range(n):
        y[a + 2 * gt.cast(i, a.dtype)] = gt.cast(i, gt.float64)
    return y


@program(3)
def nested(x, a, b, n):
    total = zero()
    for i in gt.range(n):
        for j in gt.range(n):
            total = total + x[a + gt.cast(i, a.dtype) * 2 + (b + gt.cast(j, b.dtype))]
    return total


@program(2)
def inner_count(x, k, n):
    """The number of iterations wraps around as its type does."""
    total = zero()
    for i in gt.range(n):
        for _ in gt.range(gt.minimum(gt.cast(i, k.dtype) * k, gt.cast(5, k.dtype))):
            total = total + 1.0
    return total


@program(2)
def cut(x, a, n):
    total = zero()
    for i in gt.range(n):
        j = gt.cast(i, a.dtype)
        total = total + gt.reduce_sum(x[a + j :]) + gt.reduce_sum(x[: a * 2 - j]) + gt.reduce_sum(x[a : a + j : 2])
    return total


@program(3)
def parts(x, a, b, n):
    return x[a:b], x[b:a:-1], x[a::3], x[: b + gt.cast(n, b.dtype)]


@program(2)
def replaced(x, a, n):
    y = gt.identity(x)
    for i in gt.range(n):
        y[a + gt.cast(i, a.dtype) : a + 2] = 1.0
    return y


@program(2)
def one(x, a, n):
    return x[a], gt.gather(x, gt.stack([a, gt.cast(n, a.dtype)]))


@program(2)
def scattered(x, a, n):
    at = gt.reshape(gt.stack([a, gt.cast(n, a.dtype)]), [2, 1])
    return gt.tensor_scatter_nd_add(x, at, gt.ones([2], gt.float64)), gt.scatter_nd(at, gt.ones([2]), [5])


@program(2)
def segments(x, a, n):
    ids = gt.stack([a, gt.cast(n, a.dtype)])
    return gt.math.unsorted_segment_sum(gt.ones([2]), ids, 3), gt.math.unsorted_segment_max(gt.ones([2]), ids, 3)


@program(2)
def listed(x, a, n):
    values = []
    for i in gt.range(n):
        values.append(gt.cast(i, gt.float64))
    return values[a]


@program(2)
def array(x, a, n):
    slots = gt.TensorArray(gt.float64, 5, element_shape=[])
    for i in gt.range(n):
        slots = slots.write(gt.cast(i, a.dtype) + a, gt.cast(i, gt.float64))
    return slots.stack(), slots.read(a)


@program(3)
def matrix(x, a, b, n):
    y, total = gt.stack([x, -x, x]), zero()
    for i in gt.range(n):
        total = total + y[a + gt.cast(i, a.dtype), b - gt.cast(i, b.dtype)]
    return total


SIZES = (0, 1, 2, 5, 8)
COUNTS = (0, 1, 2, 3, 5)


def edges(size: int, dtype: str) -> list[int]:
    """Numbers at and around what an array of a size, and a type, can be asked for."""
    most = BIG if dtype == "int32" else LONG
    middle = (most + 1) // 2
    near = {base + d for base in (0, size, -size, 2 * size) for d in (-2, -1, 0, 1, 2)}
    far = {
        -most - 1,
        -most,
        most,
        most - 1,
        middle,
        -middle,
        middle - 1,
        most - size,
        size - most,
        most - 2 * size,
        2**32,
        -(2**32),
    }
    return sorted(n for n in near | far if -most - 1 <= n <= most)


def cases(name: str, seed: int, draws: int) -> Iterator[tuple[Any, ...]]:
    """Arguments of a program: an array, and integers at random around the edges."""
    _, count = PROGRAMS[name]
    draw = np.random.default_rng([seed, *name.encode()])
    for size in SIZES:
        x = np.arange(float(size)) + 1.0
        for dtype in ("int32", "int64"):
            around = edges(size, dtype)
            inside = [n for n in around if -size <= n <= size]
            for turn in range(draws):
                chosen = inside if turn % 2 else around  # so that programs of several numbers also get to run to their end
                numbers = [np.dtype(dtype).type(int(chosen[k])) for k in draw.integers(0, len(chosen), count - 1)]
                yield (x, *numbers, np.int32(draw.choice(COUNTS)))


def outcome(call: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    """What a call gives: numbers, or the type and words of its error."""
    with np.errstate(all="ignore"):
        try:
            results = gt.nest.flatten(call(*[gt.constant(value) for value in values]))
        except Exception as error:
            return type(error), str(error)
    return [tensor.numpy().tolist() for tensor in results]


def compiled(name: str) -> Callable[..., Any]:
    """A program with one compilation for all sizes and one for each type of integers."""
    function, _ = PROGRAMS[name]
    return gt.function(function, jit_compile=True, reduce_retracing=True)  # type: ignore[no-any-return]
