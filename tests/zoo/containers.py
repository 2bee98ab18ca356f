"""Containers in loops: lists appended, popped, overwritten, dicts and lists keyed by the index; TensorArrays, comprehension."""

from __future__ import annotations

import collections
import heapq

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

VECTORS = [([0.4, -0.9, 1.7],), ([-0.6, 0.2, -1.1],)]
COUNTED = [(0.7, np.int32(4)), (-0.4, np.int32(1))]


@zoo(VECTORS)
def append_in_a_tensor_loop(v):
    out = []
    for x in v:
        out.append(gt.sin(x) * x)
    return gt.stack(out)


@zoo(COUNTED)
def append_in_a_staged_loop(x, n):
    out = []
    for i in gt.range(n):
        out.append(x * gt.cast(i, gt.float64))
        x = x + 0.1
    return gt.reduce_sum(gt.sin(gt.stack(out)))


@zoo(COUNTED)
def append_and_return_the_stack(x, n):
    history = [x]
    for _ in gt.range(n):
        history.append(gt.sin(history[-1]) + 0.2)
    return history[-1] * history[0]


@zoo([(3.0,), (0.7,)])
def append_in_a_while_loop(x):
    history = []
    while x > 0.5:
        history.append(x * x)
        x = x * 0.6
    return gt.reduce_sum(gt.stack(history)) + x


@zoo(VECTORS)
def conditional_append(v):
    kept = []
    for x in v:
        if x > 0:
            kept.append(x * x)
        else:
            kept.append(gt.exp(x))
    return kept[0] * kept[2] + kept[1]


@zoo([([0.4, -0.9, 1.7],), ([0.6, 0.2, -1.1],)])
def append_only_when_positive(v):
    kept = []
    for x in v:
        if x > 0:
            kept.append(x)
    return gt.reduce_sum(gt.stack(kept) ** 2) * float(len(kept))


@zoo([([0.4, -0.9, 1.7, 0.3],)])
def pop_from_a_list(v):
    stack = [x for x in v]
    total = 0.0
    while stack:
        total = total * 0.5 + gt.sin(stack.pop())
    return total


@zoo([(0.7, np.int32(3))])
def push_and_pop_in_a_staged_loop(x, n):
    stack = [x, x * x]
    for _ in gt.range(n):
        top = stack.pop()
        stack.append(gt.sin(top) + stack[0])
    return stack[0] * stack[1]


@zoo(COUNTED)
def overwrite_list_items_in_a_staged_loop(x, n):
    cells = [x, x * x, gt.exp(x)]
    for _ in gt.range(n):
        cells[0] = gt.sin(cells[1])
        cells[2] = cells[0] * cells[2]
    return cells


@zoo([(0.7, np.int32(5))])
def list_indexed_by_the_loop_index(x, n):
    cells = [x * 0.0, x * 0.0, x, x * x, x]
    for i in gt.range(n):
        cells[i] = cells[i] + gt.cast(i, gt.float64) * x
    return gt.stack(cells)


@zoo([([0.4, -0.9, 1.7],)])
def dict_keyed_by_the_loop_index(v):
    table = {}
    for i in range(3):
        table[i] = v[i] * (i + 1)
    for i in range(3):
        table[i] = table[i] * table[(i + 1) % 3]
    return table[0] + table[1] * table[2]


@zoo(COUNTED)
def dict_state_in_a_staged_loop(x, n):
    state = {"position": x, "speed": x * 0.0}
    for _ in gt.range(n):
        state["speed"] = state["speed"] - 0.1 * state["position"]
        state["position"] = state["position"] + state["speed"]
    return state


@zoo(COUNTED)
def nested_containers_in_a_staged_loop(x, n):
    state = {"pair": (x, x * x), "list": [x, {"deep": gt.sin(x)}]}
    for _ in gt.range(n):
        a, b = state["pair"]
        state["pair"] = (b * 0.5, a + 0.1)
        state["list"][1]["deep"] = state["list"][1]["deep"] * a
        state["list"][0] += b
    return state


@zoo([(0.7, 3)])
def dict_methods(x, n):
    d = {"a": x, "b": x * x}
    d.update(c=gt.sin(x))
    d.setdefault("d", gt.exp(x))
    total = d.pop("a")
    for key, value in d.items():
        total = total + value * len(key) * n
    return total * d.get("zzz", 2.0)


@zoo([(0.7, 3)])
def list_methods(x, n):
    items = [x]
    items.extend([x * 2.0, x * 3.0])
    items.insert(0, gt.sin(x))
    items += [gt.exp(x)]
    items.reverse()
    del items[1]
    return items[0] * items[1] - items[-1] + len(items) * n


@zoo([(0.7,), (-0.7,)])
def branch_appends(x):
    out = [x]
    if x > 0:
        out.append(x * x)
    else:
        out.append(gt.exp(x))
    return out


@zoo([(0.7,), (-0.7,)])
def branch_changes_a_dict(x):
    d = {"y": x, "z": x}
    if x > 0:
        d["y"] = x * x
    else:
        d["z"] = gt.sin(x)
    return d


@zoo(VECTORS)
def list_comprehension_over_a_tensor(v):
    squares = [x * x for x in v]
    return squares[0] - squares[1] * squares[2]


@zoo(VECTORS)
def comprehension_with_a_static_filter(v):
    odd = [v[i] for i in range(3) if i % 2 == 0]
    table = {i: x * x for i, x in enumerate(odd)}
    return table[0] * table[1]


@zoo([([[0.4, -0.9], [1.7, 0.3]],)])
def nested_comprehension(m):
    flat = [gt.sin(x) for row in m for x in row]
    grid = [[x * y for x in m[0]] for y in m[1]]
    return sum(flat) + grid[0][1] * grid[1][0]


@zoo(VECTORS)
def comprehension_with_ternary(v):
    return sum([x if x > 0 else x * x for x in v])


@zoo(COUNTED)
def tensor_array_written_and_stacked(x, n):
    ta = gt.TensorArray(gt.float64, size=0, dynamic_size=True, element_shape=())
    for i in gt.range(n):
        ta = ta.write(i, gt.sin(x * gt.cast(i + 1, gt.float64)))
    return ta.stack()


@zoo([(0.7, np.int32(5)), (0.3, np.int32(2))])
def tensor_array_read_back(x, n):
    ta = gt.TensorArray(gt.float64, size=6, clear_after_read=False, element_shape=())
    ta = ta.write(0, x)
    for i in gt.range(n):
        ta = ta.write(i + 1, gt.sin(ta.read(i)) + 0.1)
    return ta.read(n)


@zoo([([0.4, -0.9, 1.7],)])
def tensor_array_unstack_and_reverse(v):
    ta = gt.TensorArray(gt.float64, size=3, clear_after_read=False).unstack(v)
    out = gt.TensorArray(gt.float64, size=3)
    for i in gt.range(3):
        out = out.write(2 - i, ta.read(i) * ta.read(0))
    return out.stack()


@zoo([([0.4, -0.9, 1.7],)])
def tensor_array_overwritten(v):
    ta = gt.TensorArray(gt.float64, size=2, clear_after_read=False, element_shape=())
    ta = ta.write(0, v[0])
    for x in v:
        ta = ta.write(0, ta.read(0) * x + 1.0)
        ta = ta.write(1, gt.sin(x))
    return ta.stack()


@zoo([([[0.4, -0.9], [1.7, 0.3]], np.int32(3))])
def tensor_array_of_rows(m, n):
    ta = gt.TensorArray(gt.float64, size=n)
    row = m[0]
    for i in gt.range(n):
        row = gt.sin(row) + m[1]
        ta = ta.write(i, row)
    return ta.stack(), ta.concat()


@zoo([(0.7, np.int32(4))])
def tensor_array_gather(x, n):
    ta = gt.TensorArray(gt.float64, size=4, clear_after_read=False)
    for i in gt.range(n):
        ta = ta.write(i, x ** (gt.cast(i, gt.float64) + 1.0))
    return ta.gather([3, 1]) * ta.read(0)


@zoo([([0.4, -0.9, 1.7],)])
def tuple_concatenation_in_a_python_loop(v):
    out = ()
    for i in range(3):
        out = out + (v[i] * v[i],)
    return out


@zoo([([0.4, -0.9, 1.7], np.int32(2))])
def memo_table(v, n):
    memo = {}

    def value(k):
        if k not in memo:
            memo[k] = v[k] if k == 0 else value(k - 1) * gt.sin(v[k])
        return memo[k]

    return value(2) + value(1)


@zoo([(0.7, np.int32(3)), (0.7, np.int32(0))])
def list_longer_than_one_in_a_staged_loop(x, n):
    out = [x * 10.0]
    for i in gt.range(n):
        out.append(x + gt.cast(i, gt.float64))
        out.append(x * x)
    return gt.stack(out)


@zoo([([0.4, 0.9, 1.7],)])
def set_and_python_lookup(v):
    chosen = {0, 2}
    total = 0.0
    for i in range(3):
        if i in chosen:
            total += v[i] ** 2
    return total


@zoo([([0.4, 0.9, 1.7], np.int32(4))])
def ring_buffer(v, n):
    ring = [v[0], v[1], v[2]]
    for _ in gt.range(n):
        ring = [ring[1], ring[2], gt.sin(ring[0]) + ring[1] * 0.5]
    return ring


@zoo(VECTORS)
def deque_turned_in_a_staged_loop(v):
    queue = collections.deque([v[0], v[1]])
    for y in v:
        queue.append(queue.popleft() * y)
    return queue[0], queue[1]


@zoo(VECTORS)
def deque_and_heap_of_python_numbers(v):
    queue, heap = collections.deque(maxlen=4), [3, 1, 2]
    heapq.heapify(heap)
    for _ in v:
        queue.append(1)
    if v[0] > 0.5:
        heapq.heappush(heap, 0)
    else:
        heapq.heappush(heap, 5)
    return len(queue) * v + heap[0]
