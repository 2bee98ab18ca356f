"""Items of lists whose items live in the program: changed in place, taken out, put in, known by other names."""

from __future__ import annotations

import gradtape as gt
from tests.zoo.registry import zoo

VECTORS = [([0.3, -0.5, 0.8],), ([1.3, 1.5, 0.7],)]


def products(x):
    rows = []
    for y in x:
        rows.append(x * y)
    return rows


@zoo(VECTORS)
def item_changed_in_place(x):
    rows = products(x)
    rows[1][0] = x[2] * x[2]
    return gt.stack(rows)


@zoo(VECTORS)
def item_taken_twice(x):
    rows = products(x)
    r, again = rows[0], rows[0]
    r[1] = x[2]
    again[2] = x[1] * x[1]
    return gt.stack(rows), r * again


@zoo(VECTORS)
def each_item_changed_in_a_loop(x):
    rows = products(x)
    for r in rows:
        r[0] = r[0] * r[1]
    return gt.stack(rows)


@zoo(VECTORS)
def items_changed_by_index_in_a_loop(x):
    rows = products(x)
    for i in gt.range(3):
        rows[i][0] = rows[2 - i][1] * 2.0
    return gt.stack(rows)


@zoo(VECTORS)
def item_changed_after_it_was_appended(x):
    rows = []
    for y in x:
        r = x * y
        rows.append(r)
        r[0] = y * y
    return gt.stack(rows)


@zoo(VECTORS)
def appended_popped_and_overwritten_items_keep_their_names(x):
    rows = products(x)
    a = x * 1.0
    rows.append(a)
    b = rows.pop()
    b[0] = x[1] * x[1]
    c = rows[-1]
    rows[-1] = x * 9.0
    c[0] = x[2]
    return a, b, c, gt.stack(rows)


@zoo(VECTORS)
def one_tensor_appended_three_times(x):
    rows, r = [], x * 1.0
    for i in gt.range(3):
        r[i] = r[i] * 2.0
        rows.append(r)
    return gt.stack(rows)


@zoo(VECTORS)
def versions_appended_by_copy(x):
    rows, r = [], x * 1.0
    for i in gt.range(3):
        r[i] = r[i] * r[2 - i]
        rows.append(gt.identity(r))
    return gt.stack(rows)


@zoo(VECTORS)
def copy_of_a_list_of_the_program(x):
    rows = products(x)
    others = list(rows)
    others[0] = x * 5.0
    rows.append(x * x)
    return gt.stack(rows), gt.stack(others)


@zoo(VECTORS)
def item_found_by_a_staged_index(x):
    cells = [x * 1.0, x * 2.0]
    i = gt.cast(x[0] > 0.9, gt.int32)
    cell = cells[i]
    cell[0] = x[1] * x[1]
    cells[1 - i][1] = x[2]
    return cells[0] * cells[1]


@zoo(VECTORS)
def tensor_put_at_a_staged_index_then_changed(x):
    cells, t = [x * 1.0, x * 2.0, x * 3.0], x * 4.0
    cells[gt.cast(x[0] > 0.9, gt.int32)] = t
    t[0] = x[1] * x[1]
    return cells[0], cells[1], cells[2]


@zoo(VECTORS)
def items_beside_a_tensor_changed(x):
    cells = [x * 1.0, x * 2.0, x * 3.0]
    for cell, y in zip(cells, x):
        cell[0] = y * y
    return gt.stack(cells)


@zoo(VECTORS)
def lists_in_a_list_of_the_program(x):
    table = [[y * z for z in x] for y in x]
    table[1].append(x[0])
    table[0][2] = x[1] * x[1]
    return gt.add_n(table[0]), gt.add_n(table[1]), len(table[1])


@zoo(VECTORS)
def rows_made_and_changed_on_one_path(x):
    if x[0] > 0.9:
        row = [x[0] * 2.0]
        row.append(x[1] * 3.0)
        grid = [row]
    else:
        row = [x[0], x[1]]
        grid = [[x[1], x[2]]]
    row[0] = x[2] * x[2]
    return grid[0][0], grid[0][1], row[0]


@zoo(VECTORS)
def list_joined_with_another_in_a_loop(x):
    cells, backwards = [x[0]], []
    for y in x:
        cells = cells + [y * y]
        backwards = [y] + backwards
    return gt.add_n(cells), len(cells), gt.stack(backwards)


@zoo(VECTORS)
def list_of_the_program_joined_with_another(x):
    cells = []
    for y in x:
        if y > 0.0:
            cells.append(y)
    more = cells + [x[0], x[1] * x[1]]
    cells = cells + [x[2]]
    return gt.add_n(more), len(more) + len(cells), gt.add_n(cells)


# -- values that may be missing ----------------------------------------------------------------------------------------------


@zoo(VECTORS)
def best_or_another_in_a_returned_tuple(x):
    best = None
    if x[0] > 0.9:
        best = x[1] * x[1]
    for y in x:
        if y > 0.75:
            return y, x[2] if best is None else best
    return x[0], x[2] if best is None else best


@zoo(VECTORS)
def best_or_another_returned_from_a_nested_branch(x):
    best = None
    if not x[0] > 0.5:
        if best is None or x[1] - best > 0.3:
            best = 0.7 * x[1]
    else:
        for y in x:
            if best is None or y - best > 0.1:
                best = gt.sin(y)
    if x[2] > 0.75:
        for i in range(1):
            if x[i] > 0.0:
                return {"best": x[0] if best is None else best, "items": [x[1], best]}
    return {"best": x[0] if best is None else best, "items": [x[1], best]}


@zoo(VECTORS)
def best_or_another_in_a_loop(x):
    best = None
    total = 0.0
    for y in x:
        if y > 0.75:
            best = y * y if best is None else best * y
        chosen = (x[0] if best is None else best, y)
        if y < 0.0:
            continue
        total = total + chosen[0] * chosen[1]
    return total
