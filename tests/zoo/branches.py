"""Branches: if/elif/else, ternaries, boolean operators, names set on one side only, sides that differ in dtype or structure."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

SCALARS = [(0.7,), (-1.3,)]
VECTORS = [([0.4, -0.9, 1.7],), ([-0.6, 0.2, -1.1],)]


@zoo(SCALARS)
def absolute_by_if(x):
    if x > 0:
        y = x
    else:
        y = -x
    return y * y * x


@zoo([(2.5,), (0.4,), (-1.7,), (-4.0,)])
def grades_by_elif(x):
    if x > 2.0:
        y = gt.log(x)
    elif x > 0.0:
        y = x * x
    elif x > -3.0:
        y = gt.sin(x)
    else:
        y = gt.exp(x) - 1.0
    return y + x


@zoo(SCALARS)
def if_without_else(x):
    y = gt.sin(x)
    if x < 0:
        y = y * x
    return y


@zoo([(0.5, 0.2), (0.5, -0.2), (-0.5, 0.2), (-0.5, -0.2)])
def nested_if(x, y):
    if x > 0:
        if y > 0:
            z = x * y
        else:
            z = x - y * y
    else:
        z = gt.exp(x)
        if y < 0:
            z = z + gt.cos(y)
    return z, x + y


@zoo(SCALARS)
def ternary(x):
    return gt.sin(x) if x > 0 else gt.exp(x) * x


@zoo([(0.3,), (1.8,), (-0.9,)])
def ternary_chain(x):
    slope = 1.0 if x > 1.0 else 0.5 if x > 0.0 else 0.1
    return slope * x * x


@zoo([(0.5, 0.5), (0.5, -0.5), (-0.5, 0.5)])
def boolean_and(x, y):
    if x > 0 and y > 0:
        return x * y * y
    return x - gt.sin(y)


@zoo([(0.5, 0.5), (-0.5, 0.5), (-0.5, -0.5)])
def boolean_or_and_not(x, y):
    if x > 0 or not (y < 0):
        z = gt.exp(x * y)
    else:
        z = x * y
    return z


@zoo([(0.5,), (1.5,), (-0.5,)])
def chained_comparison(x):
    if 0.0 < x < 1.0:
        return x**3
    return gt.cos(x)


@zoo([(0.2, 0.5, 0.9), (0.5, 0.2, 0.9), (0.2, 0.9, 0.5)])
def chained_comparison_of_three(a, b, c):
    if a < b < c:
        return a * b * c
    return a + b * c


@zoo([(0.5,), (-0.5,)])
def and_gives_the_last_operand(x):
    flag = x > 0 and x < 1
    return gt.cast(flag, gt.float64) * x * x + x


@zoo([(0.8, 3), (0.8, 0), (-0.8, 3)])
def mixed_python_and_tensor_condition(x, n):
    if n and x > 0:
        return x**n
    return gt.sin(x)


@zoo(SCALARS)
def name_set_in_one_branch_and_used_when_set(x):
    if x > 0:
        scale = gt.exp(x)
    y = x * 2.0
    if x > 0:
        y = y * scale
    return y


@zoo([(0.7, True), (0.7, False)])
def name_set_under_a_python_flag(x, wide):
    if wide:
        extra = x * x
    y = gt.sin(x)
    if wide:
        y = y + extra
    return y


@zoo(SCALARS)
def branches_promote_int_to_float(x):
    if x > 0:
        y = 1
    else:
        y = x * x
    return y * x


@zoo(SCALARS)
def branches_promote_python_float(x):
    y = 0.0
    if x > 0:
        y = x * x
    return y + x


@zoo(SCALARS)
def branches_with_tuple_and_list(x):
    if x > 0:
        pair = (x, x * x)
    else:
        pair = (gt.sin(x), gt.cos(x))
    a, b = pair
    return a * b


@zoo(SCALARS)
def branches_build_dicts(x):
    if x > 0:
        out = {"value": x * x, "slope": 2.0 * x}
    else:
        out = {"value": gt.exp(x), "slope": gt.exp(x)}
    return out


@zoo(SCALARS)
def branch_swaps_names(x):
    a, b = gt.sin(x), gt.exp(x)
    if x < 0:
        a, b = b, a
    return a - b * b


@zoo(SCALARS)
def none_until_set(x):
    best = None
    for k in range(3):
        y = gt.sin(x * (k + 1.0))
        if best is None or y < best:
            best = y
    return best


@zoo(VECTORS)
def branch_on_a_reduction(v):
    if gt.reduce_sum(v) > 0:
        return gt.reduce_sum(v * v)
    return gt.reduce_sum(gt.exp(v))


@zoo(VECTORS)
def branch_on_all_and_any(v):
    if gt.reduce_all(v > -1.0) and gt.reduce_any(v > 1.0):
        w = v * v
    else:
        w = gt.sin(v)
    return gt.reduce_sum(w * v)


@zoo([(0.6, "square"), (0.6, "cube"), (0.6, "exp")])
def static_string_selects(x, kind):
    if kind == "square":
        return x * x
    elif kind == "cube":
        return x * x * x
    return gt.exp(x)


@zoo([(0.6, None), (0.6, 0.3)])
def optional_argument(x, shift):
    if shift is None:
        shift = 1.0
    return gt.sin(x + shift)


@zoo([(0.5, np.int32(3)), (0.5, np.int32(4)), (-0.5, np.int32(0))])
def parity_of_an_integer_tensor(x, n):
    if n % 2 == 0:
        y = x * x
    else:
        y = gt.sin(x)
    if n == 0:
        y = y + 1.0
    return y


@zoo([([0.4, 0.9], np.array(True)), ([0.4, 0.9], np.array(False))])
def boolean_tensor_argument(v, flag):
    if not flag:
        v = gt.reverse(v, [0])
    return v[0] * v[1] * v[1]


@zoo(SCALARS)
def branch_inside_a_where(x):
    y = gt.where(x > 0, gt.sqrt(gt.maximum(x, 1e-3)), x * x)
    if x > 0:
        y *= 2.0
    return y


@zoo([(0.7,), (-0.7,)])
def pass_branch(x):
    if x > 0:
        pass
    else:
        x = x * x
    return gt.sin(x)


@zoo([(0.7,), (-0.7,), (3.0,)])
def walrus_in_the_test(x):
    if (y := gt.sin(x)) > 0.3:
        return y * x
    return y - x * x


@zoo([(0.7, 0.1, True), (-0.7, 0.1, False)])
def conditional_lambda(x, y, wide):
    f = gt.sin if wide else gt.exp
    g = (lambda t: t * t if t > 0.5 else t) if wide else (lambda t: -t)
    return g(f(x)) * y


@zoo([(1.2,), (-0.4,)])
def assert_with_message(x):
    assert x > -1.0, f"x must exceed -1, got {x}"
    if x > 0:
        assert x < 2.0, ("too large", x)
        return gt.log1p(x)
    return gt.log1p(x) * 2.0


@zoo([(1.5,), (-0.5,)])
def print_in_a_branch(x):
    print("called with", x)
    if x > 0:
        print("positive", x * 2.0, sep=": ")
        y = x * x
    else:
        y = gt.sin(x)
    return y


@zoo([(0.5, -0.3), (-0.5, 0.3)])
def del_in_a_branch(x, y):
    t = x * y
    if x > 0:
        z = t + x
        del t
    else:
        z = t * t
    return z


@zoo([(np.float64(0.5), np.float32(0.25)), (np.float64(-0.5), np.float32(0.25))], order=1)
def branches_promote_float32_to_float64(x, y):
    if x > 0:
        z = x * x
    else:
        z = gt.cast(y, gt.float64) * x
    return z


@zoo([(0.9,), (-0.9,)])
def match_statement_on_a_static_shape(x):
    match x.shape.rank:
        case 0:
            y = x * x
        case _:
            y = gt.reduce_sum(x)
    if x > 0:
        y = gt.sin(y)
    return y


@zoo([(0.7,), (-0.7,)])
def function_chosen_by_a_tensor(x):
    f = gt.sin if x > 0 else gt.exp
    return f(x) * x


# -- names bound in expressions that are evaluated only sometimes --------------------------------------------------------------

TRIPLES = [([0.3, -0.5, 0.8],), ([1.3, 1.5, 0.7],), ([0.4, 0.9, -0.2],)]


@zoo(TRIPLES)
def walrus_in_the_second_operand(x):
    if (n := gt.reduce_sum(x)) > 0 and (m := n * 2.0) > 1.5:
        return m * m
    return n


@zoo(TRIPLES)
def walrus_after_or(x):
    if x[0] > 1.0 or (m := x[1] * 2.0) > 0.5:
        m = x[2] * x[2]
    return m * 3.0


@zoo(TRIPLES)
def walrus_in_both_alternatives(x):
    r = (k := x[0] * 2.0) if x[0] > 0.35 else (k := x[1] * x[1])
    return r * k


@zoo(TRIPLES)
def walrus_in_a_chain_of_comparisons(x):
    k = x[2]
    if -1.0 < x[0] < (k := x[1] + 1.0) < 5.0:
        return k * k
    return k * 2.0


@zoo(TRIPLES)
def walrus_in_the_test_of_a_loop(x):
    i, t, u = 0, x[0] * 1.0, x[1]
    while t < 2.0 and (u := t * t) < 3.0:
        t = t + u + 0.2
        i += 1
    return t * u, i


@zoo(TRIPLES)
def one_of_two_walruses_binds(x):
    found = (x[0] > 0.5 and (m := x[1] * 2.0) > 0.0) or (m := x[2]) > 0.0
    return m * m if found else m


@zoo([([0.3, 0.7, 0.9], np.int32(2)), ([0.3, -7.0, 0.9], np.int32(1)), ([0.01, 0.7, 0.9], np.int32(3))])
def size_of_an_inner_branch_is_looped_over(x, n):
    u, a = x[:n], x[0]
    if x[0] > 0.06:
        if x[1] > -5.0:
            u = gt.fill([n], x[2]) * u
        for each in u:
            a = a + each * 0.2
    return a + gt.reduce_sum(u * u)
