"""Objects and their names: rebound on one path and changed on the other, changed after an early return, known by two names."""

from __future__ import annotations

from collections import namedtuple

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

Pair = namedtuple("Pair", ["first", "second"])
VECTORS = [([0.3, -0.5, 0.8],), ([1.3, 1.5, 0.7],)]


@zoo(VECTORS)
def list_rebound_or_changed(x):
    cells = [x[0], x[1]]
    if x[0] > 0.9:
        cells = [gt.sin(c) for c in cells]
    else:
        cells[0] = gt.tanh(x[2])
    return cells


@zoo(VECTORS)
def dict_rebound_or_changed(x):
    d = {"a": x[0]}
    if x[0] > 0.9:
        d = {"a": x[1] * x[2]}
    else:
        d["a"] = gt.sin(x[2])
    return d["a"] * x[0]


@zoo(VECTORS)
def tensor_rebound_or_changed(x):
    t = x * 1.0
    if x[0] > 0.9:
        t = gt.sin(t)
    else:
        t[0] = t[1] * t[2]
    return t


@zoo(VECTORS)
def list_rebound_or_changed_in_a_loop(x):
    cells = [x[0], x[1]]
    first = cells
    for i in gt.range(3):
        if i > 1:
            cells = [gt.sin(c) for c in cells]
        else:
            cells[0] = cells[0] * cells[1]
    return cells[0], first[1]


@zoo(VECTORS)
def list_changed_after_an_early_return(x):
    m = [x[0]]
    if x[1] > 1.1:
        if x[2] > 0.4:
            return m
    m[0] = gt.sin(x[2])
    return m


@zoo(VECTORS)
def matrix_changed_after_a_return_in_a_loop(x):
    m = gt.stack([x, gt.cos(x)])
    t = x * 1.0
    if t[1] > 1.1:
        for i in range(2):
            if x[2] > 0.4:
                t[i] += 0.5
                return t, m
    for i in range(2):
        m[i, 1:] += x[0]
    return t, m


@zoo(VECTORS)
def dict_changed_after_a_break(x):
    d = {"a": x[0], "n": 0.0}
    for y in x:
        if y > 1.4:
            break
        d["a"] = d["a"] * y + 0.3
        d["n"] += 1.0
    d["a"] = gt.sin(d["a"])
    return d


@zoo(VECTORS)
def zip_of_a_list_and_a_tensor(x):
    cells = [x[0], x[1], x[2]]
    t = gt.sin(x)
    total = 0.0
    for p, q in zip(cells, t):
        total = total + p * q
    return total + gt.reduce_sum(gt.stack([p * q for p, q in zip(cells, t)]))


@zoo(VECTORS)
def enumerate_of_a_list(x):
    total = 0.0
    for i, c in enumerate([x[0], x[1], x[2]]):
        if c > 0.5:
            total += c * c * (i + 1)
    return total + x[0]


@zoo(VECTORS)
def two_names_of_one_list_in_a_loop(x):
    cells = [x[0], x[1]]
    other = cells
    for _ in gt.range(2):
        other[0] = gt.sin(cells[0]) + cells[1]
        cells[1] = other[0] * 0.5
    return other[1] * cells[0]


@zoo(VECTORS)
def list_holds_the_tensor_that_changes(x):
    t = x * 1.0
    holder = [t, {"t": t}]
    for i in gt.range(2):
        t[i] = t[i + 1] * 0.5
    return holder[0] * holder[1]["t"]


@zoo(VECTORS)
def argument_and_alias_in_a_call(x):
    def shift(a, b):
        a[0] = b[1] * 2.0
        b[1] = a[0] + b[2]

    t = x * 1.0
    shift(t, t)
    return t


@zoo(VECTORS)
def name_is_dead_after_branches_of_different_shapes(x):
    w = x[0]
    y = w * w
    if x[0] > 0.9:
        w = x[1]
        y = y + w
    else:
        w = x[1:]
        y = y * gt.reduce_sum(w)
    return y


@zoo([([0.3, -0.5, 0.8], np.int32(2)), ([1.3, 1.5, 0.7], np.int32(3))])
def list_of_lists_in_a_loop(x, n):
    grid = [[x[0], x[1]], [x[2], x[0] * x[1]]]
    for i in gt.range(n):
        grid[0][1] = gt.sin(grid[1][0]) + grid[0][0]
        grid[1] = [grid[0][1], grid[1][1] * 0.5]
    return grid


@zoo([([0.3, -0.5, 0.8], np.int32(2)), ([1.3, 1.5, 0.7], np.int32(3))])
def swap_of_list_items(x, n):
    cells = [x[0], x[1], x[2]]
    for _ in gt.range(n):
        cells[0], cells[1], cells[2] = cells[1], cells[2] * 0.9, cells[0]
    return cells


@zoo(VECTORS)
def list_copied_then_changed(x):
    cells = [x[0], x[1]]
    copy = list(cells)
    sliced = cells[:]
    if x[0] > 0.9:
        cells[0] = x[2]
    copy[1] = x[2] * x[2]
    return cells[0] * copy[0] + copy[1] * sliced[0]


@zoo(VECTORS)
def shallow_copy_shares_inner_lists(x):
    outer = [[x[0]], [x[1]]]
    other = list(outer)
    if x[0] > 0.9:
        other[0][0] = gt.sin(x[2])
    other[1] = [x[2]]
    return outer[0][0] * outer[1][0] + other[1][0]


@zoo(VECTORS)
def maybe_none_returned_from_a_loop(x):
    best = None
    if x[0] > 0.9:
        best = x[1]
    for y in x:
        if y > 0.4:
            return x[0] if best is None else best * y
    return x[2]


@zoo(VECTORS)
def tensor_changed_after_a_return_in_a_while(x):
    m = gt.stack([x, gt.cos(x)])
    i = 0
    while i < 2 and x[0] > 0.9:
        if x[2] > 0.9:
            return x, m
        i += 1
    m[1] = x * 0.9
    return x, m


@zoo(VECTORS)
def changed_list_inside_a_new_tuple_on_both_paths(x):
    cells = [x[0], x[1]]
    if x[0] > 0.9:
        cells[0] = gt.sin(x[2])
        pair = (cells, x[0])
    else:
        cells[0] = x[2] * x[2]
        pair = (cells, x[1])
    pair[0][1] = x[2]
    return cells[0] * cells[1] + pair[1]


@zoo(VECTORS)
def changed_tensor_inside_a_named_tuple(x):
    t = x * 1.0
    if x[0] > 0.9:
        t[0] = t[1] * t[2]
        p = Pair(t, x[0])
    else:
        p = Pair(x * 2.0, x[1])
    return p.first * p.second
