"""Which object a name refers to depends on the path: changes made under one name show under every other name of the object.

The third input of each entry takes a path of its own through nested tests.
"""

from __future__ import annotations

from collections import namedtuple

import gradtape as gt
from tests.zoo.registry import zoo

Pair = namedtuple("Pair", ["first", "second"])
VECTORS = [([0.3, -0.5, 0.8],), ([1.3, 1.5, 0.7],), ([1.3, 1.1, 0.95],)]


class Box:
    """Attributes."""


# -- branches ----------------------------------------------------------------------------------------------------------------


@zoo(VECTORS)
def other_name_keeps_the_old_list(x):
    cells = [x[0], x[1]]
    first = cells
    if x[0] > 0.9:
        cells = [x[2], x[2]]
    cells[0] = gt.sin(cells[1])
    return cells[0] * first[0]


@zoo(VECTORS)
def other_name_keeps_the_list_that_grows(x):
    a = [x]
    b = a
    if x[0] > 0.9:
        a = [x * 2.0]
    a.append(x * 3.0)
    a += [x * x]
    return gt.add_n(a), gt.add_n(b)


@zoo(VECTORS)
def change_by_the_other_name(x):
    t = x * 1.0
    u = t
    if x[0] > 0.9:
        t = t * 2.0
    u[0] = x[1] * x[2]
    return t, u


@zoo(VECTORS)
def both_paths_make_one_object_with_two_names(x):
    if x[0] > 0.9:
        a = [x[0]]
        b = a
    else:
        a = [x[1]]
        b = a
    a[0] = a[0] * x[2]
    return a[0], b[0]


@zoo(VECTORS)
def one_object_on_one_path_only(x):
    b = [x[2]]
    if x[0] > 0.9:
        a = [x[0]]
        b = a
    else:
        a = [x[1]]
    a[0] = a[0] * x[2]
    b[0] = b[0] + x[1]
    return a[0], b[0]


@zoo(VECTORS)
def tensors_that_are_one_on_one_path(x):
    t, u = x * 2.0, x * 3.0
    if x[0] > 0.9:
        u = t
    t[0] = x[1] * x[1]
    u[1] = x[0]
    return t, u


@zoo(VECTORS)
def rebound_in_nested_branches(x):
    a = [x[0], x[1]]
    b = a
    if x[0] > 0.9:
        if x[1] > 1.4:
            a = [x[2], x[2]]
    elif x[2] > 0.75:
        a = [x[1], x[2]]
    a[0] = x[2] * x[2]
    b[1] = b[1] * 2.0
    return a[0] * a[1], b[0] * b[1]


@zoo(VECTORS)
def rebound_twice(x):
    a = x * 1.0
    b = a
    if x[0] > 0.9:
        a = a * 2.0
    c = a
    if x[1] > 0.0:
        a = a * 3.0
    a[0] = 0.5
    c[1] = 0.25
    return a * b * c


@zoo(VECTORS)
def other_name_made_after_the_paths_met(x):
    a = [x[0]]
    if x[0] > 0.9:
        a = [x[1]]
    b = a
    a[0] = x[2] * x[2]
    return b[0] * a[0]


@zoo(VECTORS)
def changed_in_the_next_branch(x):
    a = x * 1.0
    b = a
    if x[0] > 0.9:
        a = a * 2.0
    if x[1] > 0.0:
        a[0] = x[2] * x[2]
    else:
        b[0] = x[1]
    return a * b


@zoo(VECTORS)
def conditional_expression_gives_one_of_two_lists(x):
    a, b = [x[0]], [x[1]]
    c = a if x[0] > 0.9 else b
    c.append(x[2] * x[2])
    return gt.add_n(a), gt.add_n(b), gt.add_n(c)


@zoo(VECTORS)
def largest_of_two_tensors_is_changed(x):
    cells = [x * 1.0, x * 2.0]
    best = max(cells, key=gt.reduce_sum)
    best[0] = 9.0
    return cells[0] * cells[1]


@zoo(VECTORS)
def item_of_a_dict(x):
    d = {"a": x * 1.0}
    t = d["a"]
    if x[0] > 0.9:
        d["a"] = t * 2.0
    d["a"][0] = x[1] * x[2]
    t[1] = x[0]
    return d["a"] * t


@zoo(VECTORS)
def attributes_of_an_object(x):
    box = Box()
    box.a = [x[0]]
    box.b = box.a
    if x[0] > 0.9:
        box.a = [x[1]]
    box.a.append(x[2])
    box.b[0] = x[2] * x[1]
    return gt.add_n(box.a), gt.add_n(box.b)


@zoo(VECTORS)
def lists_in_a_tuple(x):
    pair = ([x[0]], [x[1]])
    first = pair[0]
    if x[0] > 0.9:
        pair = ([x[2]], pair[1])
    pair[0][0] = pair[0][0] * x[1]
    pair[1][0] = pair[1][0] * x[2]
    return pair[0][0], pair[1][0], first[0]


@zoo(VECTORS)
def tensors_in_a_named_tuple(x):
    p = Pair(x * 1.0, x * 2.0)
    u = p.first
    if x[0] > 0.9:
        p = Pair(x * 3.0, p.second)
    p.first[0] = x[1]
    p.second[1] = x[2]
    return p.first * p.second * u


@zoo(VECTORS)
def closure_has_the_old_list(x):
    a = [x[0]]
    b = a

    def total():
        return gt.add_n(b)

    if x[0] > 0.9:
        a = [x[1]]
    a.append(x[2] * x[2])
    return total() * gt.add_n(a)


@zoo(VECTORS)
def row_of_a_table(x):
    table = [[x[0]], [x[1]]]
    row = table[0]
    if x[0] > 0.9:
        table[0] = [x[2]]
    table[0][0] = table[0][0] * 3.0
    row[0] = row[0] * row[0]
    return table[0][0] * row[0]


@zoo(VECTORS)
def rows_copied_on_one_path(x):
    rows = [[c * 1.0, c * 2.0] for c in [x[0], x[1]]]
    row = rows[0]
    if x[0] > 0.9:
        rows = [r[:] for r in rows]
    rows[0][0] = x[2] * x[2]
    return row[0], rows[0][0], rows[1][1]


@zoo(VECTORS)
def tensor_with_a_name_and_a_place_in_a_list(x):
    t = x * 1.0
    held = [t]
    if x[0] > 0.9:
        t = x * 2.0
    held[0][0] = x[1] * x[1]
    t[1] = x[2]
    return t * held[0]


@zoo(VECTORS)
def list_changed_by_a_function_it_is_given_to(x):
    def put(cells, value):
        cells[0] = value

    a = [x[0]]
    b = a
    if x[0] > 0.9:
        a = [x[1]]
    put(a, x[2] * x[2])
    return a[0] * b[0]


@zoo(VECTORS)
def compiled_function_changes_what_it_is_given(x):
    @gt.function
    def change(cells, t):
        cells[0] = cells[0] * 2.0
        t[0] = t[1] * t[2]

    a, t = [x[0]], x * 1.0
    b, u = a, t
    if x[0] > 0.9:
        a = [x[1]]
        t = x * 3.0
    change(a, t)
    return a[0] * b[0], t * u


@zoo(VECTORS)
def argument_itself_on_one_path(x):
    t = x
    if x[0] > 0.9:
        t = x * 2.0
    for i in gt.range(2):
        t[i] = t[i] * t[i + 1]
    return t


@zoo(VECTORS)
def slices_and_methods_change_the_right_list(x):
    a = [x[0], x[1]]
    b = a
    if x[0] > 0.9:
        a = [x[1], x[2]]
    a[:] = [x[2], x[2] * 2.0]
    a.reverse()
    a.insert(0, x[0])
    a.pop()
    return a[0], a[1], b[0], b[1]


@zoo(VECTORS)
def is_asks_when_the_program_runs(x):
    a = x * 1.0
    b = a
    for y in x:
        if y > 1.4:
            a = a * 2.0
    if a is not b:
        return a
    return b * 3.0


@zoo(VECTORS)
def early_return_and_two_names(x):
    m = [x[0], x[1]]
    n = m
    if x[0] > 0.9:
        m = [x[2], x[2]]
        if x[1] > 1.2:
            return m[0] * n[0]
    m[0] = x[2] * 2.0
    return m[0] * n[0]


@zoo(VECTORS)
def set_on_one_path_to_a_tensor_with_a_name(x):
    best = None
    t = x * 1.0
    if x[0] > 0.9:
        best = t
    t[0] = x[1] * x[1]
    if best is not None:
        best[1] = x[2]
        return t + best
    return t


@zoo(VECTORS)
def tape_sees_the_change_of_both(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        a = x * 2.0
        b = a
        if x[0] > 0.9:
            a = x * 3.0
        a[0] = x[1] * x[1]
        total = gt.reduce_sum(a * b)
    return tape.gradient(total, x)


# -- loops -------------------------------------------------------------------------------------------------------------------


@zoo(VECTORS)
def other_name_keeps_the_old_tensor(x):
    t = x * 1.0
    u = t
    for i in gt.range(3):
        if i == 1:
            t = t * 2.0
        t[0] += x[1]
    return t, u


@zoo(VECTORS)
def first_iteration_changes_the_old_list(x):
    a = [x[0]]
    b = a
    for _ in gt.range(3):
        a[0] = a[0] + x[1]
        a = [x[2] * 1.0]
    return a[0] * b[0]


@zoo(VECTORS)
def rebound_in_some_iteration(x):
    a = [x[0]]
    b = a
    for y in x:
        if y > 0.75:
            a = [y * 2.0]
        a[0] = a[0] + x[1]
    a[0] = a[0] * 2.0
    return a[0] * b[0]


@zoo(VECTORS)
def becomes_another_object_from_before_the_loop(x):
    a, b = [x[0]], [x[1]]
    for y in x:
        if y > 0.75:
            a = b
        a[0] = a[0] + y
    b[0] = b[0] * b[0]
    return a[0], b[0]


@zoo(VECTORS)
def two_names_of_what_the_body_makes(x):
    a, b = [x[0]], [x[1]]
    for y in x:
        a[0] = a[0] + y
        b[0] = b[0] * 2.0
        a = [y * 1.0]
        if y > 0.75:
            b = a
    a[0] = a[0] * a[0]
    return a[0], b[0]


@zoo(VECTORS)
def buffers_that_swap(x):
    a, b = x * 1.0, x * 2.0
    c = a
    for y in x:
        a, b = b, a
        a[0] = y * b[1]
    return a, b, c


@zoo(VECTORS)
def loop_that_may_not_run(x):
    a = x * 1.0
    b = a
    while gt.reduce_sum(a) < 2.0:
        a = a + 0.5
    a[0] = x[1] * x[1]
    return a * b


@zoo(VECTORS)
def rebound_in_a_loop_in_a_loop(x):
    a = [x[0]]
    b = a
    for y in x:
        for z in x:
            if z * y > 1.0:
                a = [z * 1.0]
            a[0] = a[0] * 1.1
        b[0] = b[0] + y
    return a[0], b[0]


@zoo(VECTORS)
def break_between_rebinding_and_change(x):
    m = x * 1.0
    n = m
    i = 0
    while i < 3:
        if x[i] > 1.4:
            break
        if x[i] > 0.7:
            m = m * 2.0
        m[i] = 0.5
        i += 1
    n[2] = x[0] * x[1]
    return m * n


@zoo(VECTORS)
def one_of_two_lists_grows_in_each_iteration(x):
    d = {"a": [x[0]], "b": [x[1]]}
    for y in x:
        chosen = d["b"] if y > 0.75 else d["a"]
        chosen.append(y * y)
    return gt.add_n(d["a"]), gt.add_n(d["b"])


@zoo(VECTORS)
def tuple_of_lists_turned_around(x):
    p = ([x[0]], [x[1]])
    q = p[0]
    for y in x:
        p = (p[1], p[0])
        p[0][0] = p[0][0] + y
    return p[0][0], p[1][0], q[0] * q[0]


@zoo(VECTORS)
def items_of_a_list_swap(x):
    cells = [x * 1.0, x * 2.0]
    t = cells[0]
    for y in x:
        cells[0], cells[1] = cells[1], cells[0]
        cells[0][1] = y * y
    return cells[0], cells[1], t


@zoo(VECTORS)
def one_row_twice_in_a_table(x):
    row = [x[0], x[1]]
    table = [row, row]
    for y in x:
        if y > 0.75:
            table[1] = [y * 1.0, y * 2.0]
        table[0][0] = table[0][0] + y
        table[1][1] = table[1][1] * 2.0
    return table[0], table[1], row


@zoo(VECTORS)
def nonlocal_name_is_rebound(x):
    a = [x[0]]
    b = a

    def step(y):
        nonlocal a
        if y > 0.75:
            a = [y * 1.0]
        a[0] = a[0] * 2.0

    for y in x:
        step(y)
    b[0] = b[0] + 1.0
    return a[0] * b[0]


@zoo(VECTORS)
def list_that_grows_after_the_loop(x):
    a = [x[0]]
    b = a
    for y in x:
        if y > 1.2:
            a = [y * 1.0]
    a.append(x[1] * x[1])
    return gt.add_n(a), gt.add_n(b)


@zoo(VECTORS)
def descent_from_an_argument(x):
    y = x
    for _ in gt.range(3):
        with gt.GradientTape() as tape:
            tape.watch(y)
            loss = gt.reduce_sum(y * y * gt.sin(y))
        y = y - 0.1 * tape.gradient(loss, y)
    y[0] = y[0] * y[1]
    return y


@zoo(VECTORS)
def watched_tensor_has_another_name_at_first(x):
    y, total = x, x * 0.0
    for i in gt.range(3):
        with gt.GradientTape() as tape:
            tape.watch(y)
            z = gt.reduce_sum(x * x * y)
        total = total + tape.gradient(z, x, unconnected_gradients="zero")
        if i == 1:
            y = y * 1.0
    return total
