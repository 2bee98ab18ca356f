"""Loops: for over tensors, range and gt.range, while, nested loops, else clauses, accumulators of every kind."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

VECTORS = [([0.4, -0.9, 1.7],), ([-0.6, 0.2, -1.1],)]
COUNTED = [(0.7, np.int32(4)), (0.7, np.int32(0)), (-0.4, np.int32(7))]


@zoo(VECTORS)
def for_over_a_tensor(v):
    total = 0.0
    for x in v:
        total = total + gt.sin(x) * x
    return total


@zoo([([[0.4, -0.9], [1.7, 0.3], [0.2, 0.8]],)])
def for_over_rows(m):
    acc = gt.ones([2], gt.float64)
    for row in m:
        acc = acc * gt.cos(row) + row
    return acc


@zoo([([0.4, -0.9, 1.7],), ([0.3],)])
def for_over_python_range(v):
    total = 0
    for i in range(len(v)):
        total += v[i] * (i + 1)
    return gt.exp(total)


@zoo(COUNTED)
def for_over_gt_range(x, n):
    y = x
    for i in gt.range(n):
        y = gt.sin(y) + gt.cast(i, gt.float64) * 0.1
    return y


@zoo(COUNTED)
def python_range_of_a_tensor(x, n):
    y = x * 1.0
    for _ in range(n):
        y = y * x + 0.5
    return y


@zoo([(0.3, np.int32(2), np.int32(9)), (0.3, np.int32(1), np.int32(2))])
def range_with_start_and_step(x, a, b):
    y = x
    for i in range(a, b, 2):
        y = y + gt.sin(x * gt.cast(i, gt.float64))
    return y


@zoo([(0.3, np.int32(5)), (0.3, np.int32(0))])
def range_backwards(x, n):
    y = x * 0.0
    for i in range(n, 0, -1):
        y = y * x + 1.0 / gt.cast(i, gt.float64)
    return y


@zoo([(3.7,), (0.4,), (12.0,)])
def while_on_data(x):
    y = x
    while y > 1.0:
        y = y * 0.6
    return y * y


@zoo([(3.7,), (0.4,)])
def while_counts_iterations(x):
    count = 0
    while x > 1.0:
        x = gt.sqrt(x) * 0.8
        count += 1
    return x, count


@zoo([(0.3,), (2.0,)])
def while_with_two_conditions(x):
    i = 0
    y = x
    while i < 10 and y < 5.0:
        y = y * 1.7 + 0.1
        i += 1
    return gt.log(y)


@zoo([(0.3, np.int32(3), np.int32(2)), (0.3, np.int32(0), np.int32(2)), (0.3, np.int32(2), np.int32(0))])
def nested_for(x, n, m):
    total = x * 0.0
    for i in gt.range(n):
        row = x
        for j in gt.range(m):
            row = row * gt.sin(x + gt.cast(i + j, gt.float64))
        total += row
    return total


@zoo([(4.0, 0.3), (9.0, 0.55)])
def while_inside_for(x, r):
    total = 0.0
    for k in range(3):
        y = x * (k + 1)
        while y > 1.0:
            y = y * r
        total = total + y
    return total


@zoo([([0.4, -0.9, 1.7],), ([-0.6, 0.2, -1.1],)])
def if_inside_for(v):
    positive, negative = 0.0, 0.0
    for x in v:
        if x > 0:
            positive += x * x
        else:
            negative -= gt.exp(x)
    return positive, negative


@zoo([([0.4, 0.9, 1.7], 1.0), ([0.4, 0.9, 0.3], 1.0)])
def for_else(v, limit):
    for x in v:
        if x > limit:
            y = x * x
            break
    else:
        y = gt.reduce_sum(gt.sin(v))
    return y


@zoo([(0.9, 0.5), (0.9, 1.2)])
def while_else(x, stop):
    n = 0
    y = x
    while n < 5:
        y = y * 0.8 + 0.3
        if y > stop:
            y = y * 2.0
            break
        n += 1
    else:
        y = gt.sin(y)
    return y


@zoo([(3.0,), (0.2,)])
def while_true_with_break(x):
    y = x
    while True:
        y = gt.sin(y) + 0.1 * x
        if y < 0.5:
            break
    return y * x


@zoo([(5.0,), (1.5,)])
def walrus_in_while(x):
    while (half := x / 2.0) > 1.0:
        x = half + 0.1
    return half * x


@zoo([(2.5,), (0.3,)])
def name_first_set_inside_a_loop(x):
    for k in range(3):
        last = gt.sin(x * (k + 1.0))
        x = x + last
    return last * x


@zoo([(2.5, np.int32(3)), (0.3, np.int32(1))])
def name_first_set_inside_a_staged_loop(x, n):
    i = 0
    while i < n:
        last = gt.sin(x)
        x = x + last
        i += 1
    return last * x


@zoo([([0.4, -0.9, 1.7],), ([0.2, 0.1, 0.3],)])
def zero_accumulator_takes_the_dtype(v):
    total = 0
    for x in v:
        total += x * x
    count = 0.0
    for x in v:
        if x > 0:
            count += 1.0
    return total / (count + 1.0)


@zoo([(0.4, np.int32(3)), (0.4, np.int32(0))])
def loop_variable_after_the_loop(x, n):
    i = -1
    for i in gt.range(n):
        x = x * 1.1
    return x * gt.cast(i, gt.float64)


@zoo([([0.4, -0.9, 1.7], np.int32(2))])
def loop_index_into_a_tensor(v, n):
    total = v[0]
    for i in gt.range(n):
        total = total * v[i + 1] + v[i]
    return total


@zoo([([0.4, -0.9, 1.7, 0.2],)])
def known_trip_count_with_growing_shape(v):
    out = v[:1]
    for i in range(3):
        out = gt.concat([out, gt.sin(out[-1:]) * v[i + 1]], axis=0)
    return out


@zoo([([0.4, -0.9, 1.7, 0.2, 0.6, -0.3, 0.8, 1.1],)])
def tournament_with_shrinking_shape(v):
    while v.shape[0] > 1:
        v = gt.sin(v[::2]) * v[1::2] + v[::2]
    return v[0]


@zoo([([0.4, -0.9, 1.7],)])
def growing_by_rows_of_a_tensor(v):
    out = gt.zeros([0], gt.float64)
    for x in v:
        out = gt.concat([out, [x * x]], 0)
    return gt.cumsum(out)


@zoo([([0.4, -0.9, 1.7],)])
def shape_driven_loop(v):
    total = v * 0.0
    for shift in range(v.shape[0]):
        total = total + gt.roll(v, shift, 0) * (0.5**shift)
    return total


@zoo([([[0.4, -0.9], [1.7, 0.3]],)])
def nested_iteration_over_a_matrix(m):
    total = 1.0
    for row in m:
        for x in row:
            total = total * (1.0 + 0.1 * x) + gt.sin(x)
    return total


@zoo([(0.5, np.int32(12)), (0.5, np.int32(3))])
def fizz_buzz(x, n):
    total = x * 0.0
    for i in gt.range(1, n + 1):
        if i % 15 == 0:
            total += gt.exp(x)
        elif i % 3 == 0:
            total += gt.sin(x)
        elif i % 5 == 0:
            total += x * x
        else:
            total += 0.1 * x
    return total


@zoo([(0.5, np.int32(27)), (0.5, np.int32(1))])
def collatz(x, n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
            x = x * 0.99 + 0.01
        else:
            n = 3 * n + 1
            x = gt.sin(x) + 0.2
        steps = steps + 1
    return x, steps, n


@zoo([(0.5, np.int32(10)), (0.5, np.int32(48))])
def euclid_with_a_passenger(x, a):
    b = gt.constant(36)
    while b != 0:
        a, b = b, a % b
        x = x * 0.9 + gt.sin(x)
    return x, a


@zoo([(1.0, 0.5), (0.2, 0.9)])
def fibonacci_tuple_state(a, b):
    pair = (a, b)
    for _ in gt.range(6):
        pair = (pair[1], pair[0] * 0.5 + gt.sin(pair[1]))
    return pair


@zoo([(0.4,), (0.9,)])
def loop_options_are_accepted(x):
    y = x
    for _ in gt.range(3):
        y = gt.sin(y) * x
    return y


@zoo([(0.5, 10), (0.5, 0)])
def python_loop_is_unrolled_and_rerolled(x, n):
    y = x
    for k in range(n):
        y = gt.sin(y) * 0.9 + 0.01 * k
    return y


@zoo([(0.7,)])
def loop_over_python_list_of_tensors(x):
    total = x
    for t in [x, x * x, gt.sin(x)]:
        total = total * t + 1.0
    return total


@zoo([(0.7, np.int32(4))])
def loop_invariant_work(x, n):
    y = x
    for _ in gt.range(n):
        heavy = gt.exp(x) * gt.sin(x)
        y = y * 0.5 + heavy
    return y


@zoo([(0.7, np.int32(6), np.int32(3))])
def triangular_loops(x, n, k):
    total = x * 0.0
    for i in gt.range(n):
        for j in gt.range(i):
            if j > k:
                break
            total = total + gt.sin(x * gt.cast(i - j, gt.float64))
    return total


@zoo([(0.7, np.int32(3)), (0.7, np.int32(0))])
def unused_iterations_do_nothing(x, n):
    y = x
    for _ in gt.range(n):
        y = y
    return y * y


@zoo([(0.7, np.int32(3)), (0.7, np.int32(1))])
def staged_loop_inside_a_loop_of_one(x, n):
    y = x * x
    for _ in gt.range(1):
        for _ in gt.range(n - 1):
            x, y = y, 0.5 * (gt.sin(y) + x)
    return x, y


@zoo([([0.4, -0.9, 1.7], np.int32(3))])
def three_nested_loops_of_unknown_and_known_length(v, n):
    for _ in gt.range(1):
        for w in [v[0], v[1]]:
            for _ in gt.range(n):
                v = gt.sin(v[::-1]) * 0.9 + w
    return v
