"""Python's builtins on tensors: max min abs len int float range enumerate zip map filter any all sorted sum reversed."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

VECTORS = [([0.4, -0.9, 1.7],), ([-0.6, 0.2, -1.1],)]
PAIRS = [([0.4, -0.9, 1.7], [0.3, 0.8, -0.2]), ([-0.6, 0.2, -1.1], [1.3, 0.1, 0.7])]


@zoo(VECTORS)
def builtin_max_and_min_of_a_tensor(v):
    return max(v) * min(v) + v[0]


@zoo([(0.4, 0.9), (0.9, 0.4)])
def builtin_max_and_min_of_scalars(x, y):
    return max(x, y) * gt.sin(min(x, y)) + max(x * y, 0.1)


@zoo([(0.4,), (-1.4,)])
def builtin_max_with_a_python_number(x):
    return max(x, 0.0) * 2.0 + min(0.5, x) * x


@zoo(VECTORS)
def builtin_max_with_key(v):
    return max(v, key=lambda t: t * t) * 3.0 + min([t * 2.0 for t in v], key=abs)


@zoo(VECTORS)
def builtin_abs(v):
    return abs(v[0]) + gt.reduce_sum(abs(v) * v)


@zoo([(0.4, [0.1, 0.2]), (-1.4, [0.1, 0.2, 0.3])])
def builtin_len(x, v):
    return x * len(v) + gt.reduce_sum(v) / len(v)


@zoo([(2.7,), (5.2,)])
def builtin_int_of_a_tensor(x):
    n = int(x)
    y = x
    for _ in range(n):
        y = gt.sin(y) + 0.3
    return y


@zoo([(0.5, np.int32(3)), (0.5, np.int32(0))])
def builtin_float_of_an_integer_tensor(x, n):
    return x * float(n) + gt.sin(x)


@zoo(VECTORS)
def builtin_sum(v):
    return sum(v) * sum([v[0], v[1] * v[2]]) + sum(x * x for x in v)


@zoo(VECTORS)
def builtin_sum_with_start(v):
    return sum(v, v[0] * 2.0) + sum([x * x for x in v], start=1.0)


@zoo(VECTORS)
def builtin_enumerate(v):
    total = 0.0
    for i, x in enumerate(v):
        total += x * x * float(i + 1)
    return total


@zoo(VECTORS)
def builtin_enumerate_from_one(v):
    total = 0.0
    for i, x in enumerate(v, 1):
        if i == 2:
            total += gt.sin(x)
        else:
            total += x * x
    return total


@zoo(PAIRS)
def builtin_zip(u, v):
    total = 0.0
    for a, b in zip(u, v):
        total = total + a * gt.exp(b)
    return total


@zoo(PAIRS)
def builtin_zip_of_tensor_and_range(u, v):
    total = 0.0
    for a, i, w in zip(u, range(3), v):
        total = total * 0.5 + a * w * (i + 1.0)
    return total


@zoo(PAIRS)
def enumerate_of_zip(u, v):
    total = v[0] * 0.0
    for i, (a, b) in enumerate(zip(u, v, strict=True)):
        if a > b:
            total += a * b * float(i)
        else:
            total -= gt.sin(a - b)
    return total


@zoo(VECTORS)
def builtin_map(v):
    squares = list(map(lambda x: x * x, v))
    return squares[0] * squares[2] + sum(map(gt.sin, v))


@zoo(PAIRS)
def builtin_map_of_two(u, v):
    total = 0.0
    for p in map(lambda a, b: a * b + 0.1, u, v):
        total += p * p
    return total


@zoo([([0.4, 0.9, 1.7], 2), ([0.4, 0.9, 1.7], 0)])
def builtin_filter_of_python_values(v, skip):
    total = 0.0
    for i in filter(lambda k: k != skip, range(3)):
        total += v[i] * v[i]
    return total


@zoo(VECTORS)
def builtin_filter_of_tensors(v):
    total = 0.0
    for x in filter(lambda t: t > 0, v):
        total += x * x
    return total + v[0]


@zoo(VECTORS)
def builtin_any_and_all(v):
    if any(x > 1.0 for x in v):
        return gt.reduce_sum(v * v)
    if all([x > -2.0 for x in v]):
        return gt.reduce_sum(gt.sin(v))
    return v[0]


@zoo(VECTORS)
def builtin_any_of_a_tensor(v):
    y = v[0] * v[1]
    if any(v > 1.0):
        y = y * v[2]
    if not all(v < 1.0):
        y = y + 1.0
    return y


@zoo(VECTORS)
def builtin_sorted(v):
    low, middle, high = sorted(v)
    return low * 1.0 + middle * middle + gt.exp(high)


@zoo(VECTORS)
def builtin_sorted_with_key(v):
    ordered = sorted(v, key=lambda x: x * x, reverse=True)
    return ordered[0] * ordered[1] - gt.sin(ordered[2])


@zoo(VECTORS)
def builtin_reversed(v):
    y = v[0] * 0.0
    for x in reversed(v):
        y = y * 0.5 + gt.sin(x)
    return y


@zoo([(0.7, 3), (0.7, 1)])
def builtin_reversed_range(x, n):
    y = 0.0
    for k in reversed(range(n)):
        y = y * x + (k + 1)
    return y


@zoo(VECTORS)
def unpacking_a_tensor(v):
    a, b, c = v
    return a * b - gt.sin(c)


@zoo([([0.4, -0.9, 1.7, 0.3],)])
def starred_unpacking(v):
    first, *rest, last = v
    return first * last + sum(rest) * rest[0]


@zoo([([[0.4, -0.9], [1.7, 0.3]],)])
def nested_unpacking(m):
    (a, b), (c, d) = m
    return a * d - b * c


@zoo(VECTORS)
def star_call_with_a_tensor(v):
    def volume(a, b, c):
        return a * b * c + a

    return volume(*v)


@zoo([(0.7,), (-0.7,)])
def builtin_pow_round_divmod(x):
    q, r = divmod(x * 3.0, 1.0)
    return pow(x, 2) + r * r + q + round(x)


@zoo([(0.7, 0.2), (-0.7, 0.9)])
def builtin_isinstance_and_hasattr(x, y):
    if isinstance(x, gt.Tensor) and hasattr(y, "dtype"):
        return x * y
    return x


@zoo([(0.5, [0.1, 0.2, 0.3])])
def range_of_len(x, v):
    for i in range(len(v)):
        x = x * v[i] + 1.0
    return x


@zoo([([1.4, 0.9, 1.7],)])
def next_and_iter(v):
    items = iter(v)
    total = next(items)
    for x in items:
        total = total / x
    return total


@zoo([(2.0, np.int32(7)), (2.0, np.int32(2))])
def int_and_bool_casts(x, n):
    half = int(n / 2)
    y = x
    for _ in range(half):
        y = gt.log(y + 1.0)
    if bool(y > 0.5):
        y = y * y
    return y
