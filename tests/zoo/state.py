"""State outside the function: nonlocal names, attributes, methods that mutate, Python counters, globals read and written."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

import gradtape as gt
from tests.zoo.registry import Instance, stateful, zoo

SCALARS = [(0.7,), (-1.3,), (0.4,)]
VECTORS = [([0.3, -0.5, 0.8],), ([1.3, 1.5, 0.7],)]
COUNTED = [(0.7, np.int32(3)), (0.7, np.int32(0)), (-0.2, np.int32(2))]


@zoo(COUNTED)
def attribute_as_loop_state(x, n):
    body = SimpleNamespace(position=x, speed=x * 0.0)
    for _ in gt.range(n):
        body.speed -= 0.2 * body.position
        body.position += body.speed
    return body.position * body.speed + x


@zoo(SCALARS)
def attribute_set_in_a_branch(x):
    box = SimpleNamespace(value=x)
    if x > 0:
        box.value = x * x
    return box.value + x


@zoo(COUNTED)
def method_side_mutation(x, n):
    class Filter:
        def __init__(self):
            self.state = x * 0.0
            self.calls = 0

        def push(self, value):
            self.state = 0.9 * self.state + 0.1 * value
            self.calls += 1
            return self.state

    f = Filter()
    y = x
    for _ in gt.range(n):
        y = gt.sin(f.push(y)) + 0.5
    return y, f.state, f.calls


@zoo(COUNTED)
def nonlocal_mutation(x, n):
    total = x * 0.0
    count = 0

    def add(value):
        nonlocal total, count
        total = total + value
        count += 1

    for i in gt.range(n):
        add(gt.sin(x * gt.cast(i, gt.float64)))
    return total, count


@zoo(SCALARS)
def nonlocal_in_a_branch(x):
    best = x

    def offer(value):
        nonlocal best
        if value > best:
            best = value

    offer(gt.sin(x) * 1.5)
    offer(gt.exp(-x))
    return best * x


@zoo(COUNTED)
def two_names_for_one_object(x, n):
    a = SimpleNamespace(v=x)
    b = a
    for _ in gt.range(n):
        b.v = gt.sin(a.v) + 0.3
    return a.v * x


@zoo(COUNTED)
def object_in_a_list(x, n):
    bodies = [SimpleNamespace(p=x), SimpleNamespace(p=x * x)]
    for _ in gt.range(n):
        for k, body in enumerate(bodies):
            body.p = body.p * 0.9 + 0.1 * bodies[1 - k].p
    return bodies[0].p * bodies[1].p


@zoo(SCALARS)
def attribute_none_until_set(x):
    box = SimpleNamespace(best=None)
    for k in range(3):
        y = gt.sin(x + k)
        if box.best is None or y > box.best:
            box.best = y
    return box.best


@zoo([([0.4, -0.9, 1.7],), ([-0.4, 0.9, -1.7],)])
def best_is_none_in_a_tensor_loop(v):
    best = None
    for y in v:
        if best is None or y < best:
            best = y * 1.0
    return best * best


@stateful(SCALARS, traces=1)
def python_counter_attribute():
    box = SimpleNamespace(calls=0)

    def step(x):
        box.calls += 1
        return gt.sin(x)

    return Instance(step, lambda: box.calls)


@stateful(SCALARS)
def attribute_written_with_a_tensor():
    box = SimpleNamespace(last=None)

    def step(x):
        y = gt.sin(x) * x
        box.last = y
        return y * 2.0

    return Instance(step, lambda: box.last)


@stateful(SCALARS)
def running_average_in_an_attribute():
    box = SimpleNamespace(mean=gt.constant(0.0, gt.float64))

    def step(x):
        box.mean = 0.9 * box.mean + 0.1 * x
        return box.mean * x

    return Instance(step, lambda: box.mean)


@stateful(SCALARS)
def dict_state_between_calls():
    table = {"sum": gt.constant(0.0, gt.float64), "last": gt.constant(0.0, gt.float64)}

    def step(x):
        if x > 0:
            table["sum"] = table["sum"] + x
        table["last"] = x * x
        return table["sum"] * x

    return Instance(step, lambda: dict(table))


@stateful(SCALARS)
def closure_counter_with_nonlocal():
    total = gt.constant(0.0, gt.float64)

    def step(x):
        nonlocal total
        total = total + x * x
        return gt.sin(total)

    return Instance(step, lambda: total)


@stateful(SCALARS)
def history_list_between_calls():
    history = []

    def step(x):
        y = gt.sin(x)
        history.append(y)
        return y * x

    return Instance(step, lambda: list(history))


@stateful([(0.7, np.int32(3)), (0.2, np.int32(2))])
def history_list_appended_in_a_staged_loop():
    history = []

    def step(x, n):
        for _ in gt.range(n):
            x = gt.sin(x)
            history.append(x)
        return x

    return Instance(step, lambda: list(history))


@stateful(COUNTED)
def method_of_a_model_mutates_in_a_loop():
    class Oscillator:
        def __init__(self):
            self.x = gt.constant(1.0, gt.float64)
            self.v = gt.constant(0.0, gt.float64)
            self.log = {"steps": gt.constant(0.0, gt.float64)}

        def kick(self, force):
            self.v = self.v + 0.1 * (force - self.x)
            self.x = self.x + 0.1 * self.v

        def run(self, force, n):
            for _ in gt.range(n):
                self.kick(force)
                self.log["steps"] += 1.0
            return self.x * self.v

    o = Oscillator()
    return Instance(o.run, lambda: [o.x, o.v, o.log["steps"]])


@stateful(SCALARS)
def variable_created_once():
    class Lazy:
        def __init__(self):
            self.w = None

        def __call__(self, x):
            if self.w is None:
                self.w = gt.Variable(np.array(1.5))
            return self.w * gt.sin(x)

    lazy = Lazy()
    return Instance(lazy.__call__, lambda: lazy.w)


@zoo([(0.7, np.int32(4)), (0.7, np.int32(1))])
def python_numbers_become_tensors(x, n):
    sign, factor, alive = 1, 0.5, True
    for i in gt.range(n):
        sign = -sign
        factor = factor * 0.9
        if i > 2:
            alive = False
        x = x + sign * factor
    return x, sign, factor, alive


@zoo([(0.7, 0.3)])
def tuple_and_none_state(x, y):
    state = (x, None, {"k": y})
    for _ in gt.range(2):
        a, nothing, d = state
        state = (a * d["k"], nothing, {"k": gt.sin(a)})
    return state[0] * state[2]["k"]


@zoo([(0.7, np.int32(3)), (0.7, np.int32(0))])
def swap_state_each_iteration(x, n):
    a, b, c = x, x * x, gt.sin(x)
    for _ in gt.range(n):
        a, b, c = b, c, a
    return a - 2.0 * b + 3.0 * c


# -- containers that begin empty, or missing ---------------------------------------------------------------------------------


@zoo(VECTORS)
def list_made_by_setdefault(x):
    d = {}
    for y in x:
        d.setdefault("all", []).append(y * y)
    return gt.add_n(d["all"])


@zoo(VECTORS)
def list_got_and_put_back(x):
    d = {}
    for y in x:
        found = d.get("all", [])
        found.append(y * y)
        d["all"] = found
    return gt.add_n(d["all"])


@zoo(VECTORS)
def list_made_where_it_is_missing(x):
    holder, box = [None], SimpleNamespace(positive=None)
    for y in x:
        if holder[0] is None:
            holder[0] = []
        holder[0].append(y * y)
        if y > 0.5:
            if box.positive is None:
                box.positive = []
            box.positive.append(y)
    return gt.add_n(holder[0]), x[0] if box.positive is None else gt.add_n(box.positive)


@zoo(VECTORS)
def tensor_made_where_it_is_missing_then_changed(x):
    t = None
    for y in x:
        if t is None:
            t = x * 1.0
        t[0] = t[0] * y
    return t


@zoo(VECTORS)
def containers_that_may_be_missing(x):
    cells = d = None
    if x[0] > 0.9:
        cells, d = [x[0], x[1]], {"a": x[0]}
    if cells is not None:
        cells[0] = cells[1] * 2.0
        cells += [x[2]]
        first, second, third = cells
        total = sum(cells) + len(cells) + max(cells) + sum(c * c for c in cells)
        for c in cells:
            total = total * c
        d["a"] = d["a"] * first
        d["b"] = second
        del d["b"]
        return total + third * sum(d.values())
    return x[0]


# -- methods that Python calls -------------------------------------------------------------------------------------------------


class Meter:
    """State behind operators, items, properties and `with`."""

    def __init__(self):
        self.items = []
        self.depth = 0
        self._level = 1.0

    @property
    def level(self):
        return self._level

    @level.setter
    def level(self, value):
        if value > 2.0:
            value = 2.0 + 0.1 * value
        self._level = value

    def __iadd__(self, value):
        self.items.append(value)
        self.level = self.level + value
        return self

    def __getitem__(self, i):
        return self.items[i]

    def __setitem__(self, i, value):
        self.items[i] = value if value > 0.0 else -value

    def __delitem__(self, i):
        del self.items[i]

    def __len__(self):
        return len(self.items)

    def __contains__(self, value):
        return gt.reduce_any(gt.abs(gt.stack(self.items) - value) < 0.01)

    def __enter__(self):
        self.depth += 1
        return self

    def __exit__(self, *error):
        self.depth -= 1


@zoo(VECTORS)
def methods_of_a_class_that_python_calls(x):
    meter = Meter()
    total = x[0] * 0.0
    for y in [x[0], x[1], x[2]]:
        if y > 0.0:
            meter += y
        else:
            meter += y * y
    for y in x:
        with meter:
            if y > 0.5:
                with meter as again:
                    total = total + again.depth * y
            total = total + meter.depth
    meter[0] = x[1]
    if x[0] > 0.9:
        meter[1] = -x[2]
    if 0.8 in meter:
        total = total * 2.0
    meter += x[2]
    del meter[2]
    return total, meter.level, meter[0] * meter[1], len(meter), meter.depth


@zoo(VECTORS)
def pair_with_the_largest_first_part(x):
    pairs = [(x[0], x[1] * 1.0), (x[1], x[2] * 2.0), (x[2], x[0] * 3.0)]
    largest = max(pairs, key=lambda pair: pair[0])
    smallest = min(*pairs, key=lambda pair: pair[0])
    return largest[0] * largest[1] + smallest[1]


@zoo(VECTORS)
def class_of_the_function_counts_in_itself(x):
    class Counted:
        count = 0

        def __init__(self):
            Counted.count += 1

    for _ in range(3):
        Counted()
    if x[0] > 0.9:
        Counted.count += 10
    return x * Counted.count


@zoo(VECTORS)
def methods_of_a_class_change_what_the_function_has(x):
    calls, log, box = 0, [], [0.0, 1]

    class Visitor:
        seen = 0

        def visit(self, y):
            nonlocal calls
            calls += 1
            Visitor.seen += 1
            log.append(y * y)
            box[0] = box[0] + y
            if y > 0.5:
                box[1] += 1
                calls += 1
            return self

    visitor = Visitor()
    for y in [x[0], x[1], x[2]]:
        visitor.visit(y).visit(y * 0.5)
    return gt.add_n(log) * box[0], calls, box[1], Visitor.seen, len(log)
