"""Updates in place: t[i] = v, t[a:b] += v, with static and dynamic places, in loops and branches; aliases and arguments."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import Instance, stateful, zoo

VECTORS = [([0.4, -0.9, 1.7, 0.3],), ([-0.6, 0.2, -1.1, 0.8],)]


@zoo(VECTORS)
def set_one_item(v):
    t = gt.sin(v)
    t[1] = v[0] * v[2]
    return t


@zoo(VECTORS)
def set_a_slice(v):
    t = gt.zeros([4], gt.float64)
    t[1:3] = v[:2] * v[2:]
    t[3] = gt.exp(v[0])
    return t * v


@zoo(VECTORS)
def add_to_a_slice(v):
    t = v * 1.0
    t[:2] += v[2:] * v[:2]
    t[-1] *= 2.0
    t[::2] -= 0.5
    return t


@zoo(VECTORS)
def fill_in_a_python_loop(v):
    t = gt.zeros([4], gt.float64)
    for i in range(4):
        t[i] = gt.sin(v[i]) * (i + 1)
    return t


@zoo([([0.4, -0.9, 1.7, 0.3], np.int32(4)), ([0.4, -0.9, 1.7, 0.3], np.int32(2))])
def fill_in_a_staged_loop(v, n):
    t = gt.zeros([4], gt.float64)
    for i in gt.range(n):
        t[i] = v[i] * v[3 - i]
    return t


@zoo([([0.4, -0.9, 1.7, 0.3], np.int32(3))])
def carried_through_the_array(v, n):
    e = gt.zeros([4], gt.float64)
    e[0] = v[0]
    for i in gt.range(n):
        e[i + 1] = gt.sin(e[i]) + v[i] * 0.5
    return e


@zoo([([0.4, -0.9, 1.7, 0.3],)])
def sixty_steps_of_a_recurrence(v):
    e = gt.zeros([61], gt.float64)
    e[0] = v[0]
    total = 0.0
    for i in range(60):
        e[i + 1] = gt.sin(e[i]) * 0.9 + v[i % 4] * 0.1
        if i % 7 == 0:
            total = total + e[i + 1] * e[i]
    return total + e[60]


@zoo(VECTORS)
def update_in_one_branch(v):
    t = v * 2.0
    if v[0] > 0:
        t[0] = t[1] * t[2]
    return t


@zoo(VECTORS)
def update_in_both_branches(v):
    t = v * 2.0
    if gt.reduce_sum(v) > 0:
        t[1:3] += 1.0
    else:
        t[0] = gt.exp(t[3])
    return t * t


@zoo(VECTORS)
def alias_sees_the_update(v):
    t = v * 1.0
    a = t
    a[0] = v[1] * v[2]
    return t[0] + a[1] * t[2]


@zoo(VECTORS)
def old_version_is_kept_by_earlier_uses(v):
    t = v * 1.0
    s = t * t
    for i in gt.range(2):
        t[i] = s[i + 1]
    return s + t


@zoo([([[0.4, -0.9], [1.7, 0.3]],)])
def matrix_elements(m):
    t = gt.zeros([2, 2], gt.float64)
    for i in range(2):
        for j in range(2):
            t[i, j] = m[j, i] * (i + 1) - gt.sin(m[i, j]) * j
    return t


@zoo([([[0.4, -0.9, 0.1], [1.7, 0.3, 0.6], [0.2, 0.5, -0.7]], np.int32(3))])
def matrix_elements_in_staged_loops(m, n):
    t = m * 0.0
    for i in gt.range(n):
        for j in gt.range(i + 1):
            t[i, j] = m[j, i] + gt.cast(i - j, gt.float64)
    return t


@zoo([([[0.4, -0.9, 0.1], [1.7, 0.3, 0.6], [0.2, 0.5, -0.7]], np.int32(2))])
def rows_updated_by_rows(m, n):
    t = m * 1.0
    for i in gt.range(n):
        t[i + 1] -= t[i] * (m[i + 1, 0] * 0.5)
    return t


@zoo([([[0.4, -0.9], [1.7, 0.3]],)])
def block_embedding(a):
    b = gt.zeros([4, 4], gt.float64)
    b[:2, :2] = a
    b[2:, 2:] += a @ a
    return b


@zoo([([0.4, -0.9, 1.7, 0.3], np.int32(2))])
def dynamic_slice_bounds(v, n):
    t = v * 1.0
    for i in gt.range(1, n + 1):
        t[i] = gt.reduce_sum(t[:i]) + v[i]
    return t


@zoo([([0.4, -0.9, 1.7, 0.3], np.array([2, 0], np.int32))])
def update_at_indices(v, where):
    t = v * 1.0
    for i in where:
        t[i] = t[i] * t[i]
    return t


@zoo(VECTORS)
def update_by_a_mask(v):
    t = v * 1.0
    t[v > 0] = 0.5
    return t * v


@zoo([([0.4, -0.9, 1.7, 0.3],)])
def argument_changed_in_place(t):
    t[0] = t[1] * t[2]
    return gt.reduce_sum(t * t)


@zoo([([0.4, -0.9, 1.7, 0.3], np.int32(3))])
def argument_changed_in_a_staged_loop(t, n):
    for i in gt.range(n):
        t[i] += gt.sin(t[i + 1])
    return t[0]


@zoo([([0.4, -0.9, 1.7, 0.3],)])
def helper_changes_its_argument(v):
    def normalise(t):
        t[0] = t[0] * t[3]
        t[1:] /= 2.0

    w = v * 1.0
    normalise(w)
    return w


@stateful([([0.4, -0.9],), ([0.1, 0.2],)])
def captured_tensor_changed_in_place():
    memory = gt.constant(np.zeros(3))

    def push(v):
        memory[1:] = memory[:-1] * 1.0
        memory[0] = v[0] * v[1]
        return gt.reduce_sum(memory)

    return Instance(push, lambda: memory)


@stateful([([0.4, -0.9],), ([0.1, 0.2],)])
def tensor_in_an_attribute_changed_in_place():
    class Box:
        pass

    box = Box()
    box.t = gt.constant(np.array([1.0, 2.0]))

    def push(v):
        for i in gt.range(2):
            box.t[i] = box.t[i] * 0.5 + v[i]
        return box.t * v

    return Instance(push, lambda: box.t)


@zoo([([0.4, -0.9, 1.7, 0.3],)])
def prefix_sums_in_place(v):
    t = v * 1.0
    for i in range(1, 4):
        t[i] += t[i - 1]
    return t * t


@zoo([([0.9, -0.4, 1.7, 0.3],), ([0.1, 0.4, 0.7, 0.9],)])
def bubble_sort(v):
    t = v * 1.0
    for i in range(3):
        for j in range(3 - i):
            if t[j] > t[j + 1]:
                low = t[j + 1]
                t[j + 1] = t[j]
                t[j] = low
    return t * gt.constant(np.array([1.0, 2.0, 3.0, 4.0]))


@zoo([([0.9, -0.4, 1.7, 0.3], np.int32(4)), ([0.1, 0.4, 0.7, 0.9], np.int32(4))])
def insertion_sort_staged(v, n):
    t = v * 1.0
    for i in gt.range(1, n):
        j = i
        while j > 0 and t[j - 1] > t[j]:
            t[j - 1], t[j] = t[j], t[j - 1]
            j -= 1
    return t * t[0]


@zoo([([0.9, -0.4, 1.7, 0.3], 0.2)])
def two_tensors_swapped_in_a_loop(v, c):
    old = v * 1.0
    new = gt.zeros_like(old)
    for _ in gt.range(3):
        new[1:-1] = old[1:-1] + c * (old[2:] - 2.0 * old[1:-1] + old[:-2])
        new[0] = old[0]
        new[3] = old[3]
        old, new = new, old
    return old


@zoo([([0.9, -0.4, 1.7, 0.3],)])
def update_of_an_update(v):
    t = v * 1.0
    for i in range(4):
        u = gt.sin(t)
        u[i] = t[i] * 2.0
        t = u
    return t
