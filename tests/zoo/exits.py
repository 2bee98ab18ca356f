"""Exits: break, continue and return inside loops and branches, several of them, in nested loops."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

VECTORS = [([0.4, -0.9, 1.7, 0.6],), ([1.6, 0.2, -1.1, 0.9],), ([0.1, 0.2, 0.3, 0.4],)]


@zoo(VECTORS)
def break_on_data_in_a_tensor_loop(v):
    total = 0.0
    for x in v:
        if x > 1.0:
            break
        total += gt.exp(x)
    return total + v[0]


@zoo(VECTORS)
def break_on_data_in_a_python_loop(v):
    y = v[0]
    for k in range(10):
        y = y * 1.3 + v[k % 4]
        if y > 2.0:
            break
    return y


@zoo(VECTORS)
def continue_on_data(v):
    total = 1.0
    for x in v:
        if x < 0:
            continue
        total = total * (1.0 + x)
    return total


@zoo(VECTORS)
def break_and_continue(v):
    total = 0.0
    for x in v:
        if x < 0:
            continue
        if x > 1.5:
            break
        total += gt.sin(x)
        if total > 0.6:
            total *= 0.5
            continue
        total += 0.1 * x
    return total * gt.reduce_sum(v)


@zoo([(0.4,), (1.4,), (-0.4,)])
def early_return(x):
    if x > 1.0:
        return gt.log(x)
    y = gt.sin(x)
    if y < 0:
        return y * x
    return y + x


@zoo(VECTORS)
def return_inside_a_tensor_loop(v):
    for x in v:
        if x > 1.0:
            return x * x
    return gt.reduce_sum(gt.sin(v))


@zoo([(3.0,), (0.5,), (40.0,)])
def return_inside_while(x):
    n = 0
    while n < 4:
        x = x * 0.7
        if x < 1.0:
            return x, n
        n += 1
    return gt.log(x), n


@zoo(VECTORS)
def several_returns_inside_a_loop(v):
    total = v[0] * 0.0
    for x in v:
        if x < 0:
            return total - x * x
        total = total + x
        if total > 1.4:
            return gt.exp(-total)
    return total


@zoo([([[0.4, -0.9], [1.7, 0.3]],), ([[0.4, 0.9], [0.7, 0.3]],), ([[1.4, 0.9], [0.7, 0.3]],)])
def return_inside_nested_loops(m):
    total = 0.0
    for row in m:
        for x in row:
            if x > 1.0:
                return x * x + total
            total += gt.sin(x)
    return total


@zoo([([[0.4, -0.9, 0.6], [1.7, 0.3, 0.2]],), ([[0.4, 0.9, 0.1], [-0.7, 0.3, 1.3]],)])
def break_from_the_inner_loop(m):
    total = 0.0
    for row in m:
        for x in row:
            if x < 0:
                break
            total += x * x
        total *= 0.9
    return total


@zoo([([[0.4, -0.9, 0.6], [1.7, 0.3, 0.2]],), ([[0.4, 0.9, 0.1], [-0.7, 0.3, 1.3]],)])
def continue_the_outer_by_a_flag(m):
    total = 0.0
    for row in m:
        bad = False
        for x in row:
            if x < 0:
                bad = True
                break
        if bad:
            continue
        total += gt.reduce_sum(row * row)
    return total + m[0, 0]


@zoo([(0.2, np.int32(5)), (0.2, np.int32(1)), (2.2, np.int32(5))])
def break_with_else_and_return(x, n):
    for i in gt.range(n):
        x = x * 1.2
        if x > 2.0:
            y = x
            break
        if i == 3:
            return gt.sin(x)
    else:
        y = x * x
    return y * 2.0


@zoo([(0.3,), (0.9,)])
def while_true_with_two_breaks(x):
    i = 0
    while True:
        x = x * 1.3
        if x > 2.0:
            x = gt.log(x)
            break
        i += 1
        if i == 5:
            x = gt.sin(x)
            break
    return x, i


@zoo([(0.3,), (0.9,)])
def while_true_with_return(x):
    i = 0
    while True:
        x = x * 1.3
        if x > 2.0:
            return x, i
        i = i + 1


@zoo([(4.7, 0.3), (0.2, 0.3)])
def while_with_continue(x, y):
    i = 0
    while i < 6:
        i += 1
        if x > 1.0:
            x = x * 0.5
            continue
        y = y + gt.sin(x * y)
    return x + y


@zoo([(0.4,), (-0.4,)])
def return_in_both_branches(x):
    if x > 0:
        y = x * x
        return y, gt.sin(x)
    else:
        y = gt.exp(x)
        return x, y


@zoo([(0.4,), (-0.4,)])
def return_none_sometimes_is_static(x):
    def helper(flag):
        if not flag:
            return None
        return x * x

    nothing, something = helper(False), helper(True)
    return something if nothing is None else nothing


@zoo([([0.4, -0.9, 1.7, 0.6], 0.5), ([0.4, 0.9, 1.7, 0.6], 4.0)])
def linear_search(v, wanted):
    place = -1
    for i, x in enumerate(v):
        if x > wanted:
            place = i
            break
    return gt.reduce_sum(v * v), place


@zoo([([0.1, 0.4, 0.9, 1.7], 0.6), ([0.1, 0.4, 0.9, 1.7], 1.2)])
def binary_search_then_interpolate(v, x):
    low, high = 0, 3
    while high - low > 1:
        middle = (low + high) // 2
        if v[middle] > x:
            high = middle
        else:
            low = middle
    t = (x - v[low]) / (v[high] - v[low])
    return t * t * (3.0 - 2.0 * t) + low


@zoo([([0.4, -0.9, 1.7, 0.6],), ([-1.4, -0.9, -1.7, -0.6],)])
def first_positive_or_default(v):
    found = None
    for x in v:
        if x > 0:
            found = x
            break
    if found is None:
        found = gt.reduce_sum(v)
    return found * found


@zoo([(0.5, np.int32(8)), (1.9, np.int32(8))])
def break_in_a_nested_branch(x, n):
    for i in gt.range(n):
        if x > 1.0:
            if i > 2:
                x = gt.sin(x)
                break
            else:
                x = x * 1.1
        else:
            x = x + 0.2
    return x


@zoo([(1.2, 0.3), (0.3, 1.2)])
def return_from_a_called_function_with_a_loop(x, y):
    def shrink(t):
        while t > 0.5:
            t = t * 0.7
            if t * t < 0.3:
                return t + 1.0
        return t

    return shrink(x) * shrink(y)


@zoo([([0.5, 0.1, 0.4],), ([0.2, 0.1, 2.4],)])
def return_of_structures_from_a_loop(v):
    for i in gt.range(3):
        if v[i] > 2.0:
            return {"value": v[i] * v[i], "place": i}
    return {"value": gt.reduce_sum(gt.sin(v)), "place": gt.constant(-1)}


@zoo([(0.9, 2), (0.9, 5)])
def continue_in_a_python_loop(x, skip):
    y = x
    for k in range(6):
        if k == skip:
            continue
        y = gt.sin(y) + 0.1 * k
    return y


@zoo([([0.9, 0.3, 0.8],), ([0.1, 0.3, 0.8],)])
def break_inside_try_free_code_with_pass(v):
    done = False
    y = v[0]
    for x in v:
        if not done:
            y = y * x + 1.0
            if y > 1.5:
                done = True
        else:
            pass
    return y


@zoo([([0.4, -0.9, 1.7], np.int32(2)), ([1.4, 0.9, 0.7], np.int32(1))])
def return_in_nested_staged_loops_with_a_maybe(v, n):
    best = None
    for i in gt.range(n):
        for y in v:
            if best is None or v[i] - best > 1.3:
                best = 0.7 * y + 0.8
            if y > 0.1:
                return v[0] if best is None else best * y
    return v[1]
