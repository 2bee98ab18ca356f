"""TensorFlow's control functions: cond, case, switch_case, while_loop, map_fn, scan, foldl, foldr, vectorized_map."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import zoo

SCALARS = [(0.7,), (-1.3,)]
VECTORS = [([0.4, -0.9, 1.7],), ([-0.6, 0.2, -1.1],)]
COUNTED = [(0.7, np.int32(4)), (0.7, np.int32(0))]


@zoo(SCALARS)
def cond_of_lambdas(x):
    return gt.cond(x > 0, lambda: x * x, lambda: gt.sin(x))


@zoo(SCALARS)
def cond_with_structures(x):
    a, b = gt.cond(x > 0, lambda: (x, x * x), lambda: (gt.sin(x), gt.exp(x)))
    return a * b


@zoo(SCALARS)
def cond_nested(x):
    def inner():
        return gt.cond(x > 0.5, lambda: x**3, lambda: x)

    return gt.cond(x > 0, inner, lambda: gt.cond(x > -1.0, lambda: -x, lambda: x * x))


@zoo([(0.7,), (-1.3,), (2.4,)])
def case_of_pairs(x):
    return gt.case([(x < 0, lambda: gt.exp(x)), (x < 1, lambda: x * x)], default=lambda: gt.math.log(x))


@zoo([(0.7, np.int32(0)), (0.7, np.int32(1)), (0.7, np.int32(2)), (0.7, np.int32(9))])
def switch_case_with_default(x, k):
    return gt.switch_case(k, [lambda: gt.sin(x), lambda: x * x, lambda: gt.exp(x)], default=lambda: x)


@zoo(COUNTED)
def while_loop_with_tuple(x, n):
    i, y = gt.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, gt.sin(y) * x), (gt.constant(0), x))
    return y * x, i


@zoo([(3.7,), (0.4,)])
def while_loop_on_data(x):
    return gt.while_loop(lambda y: y > 1.0, lambda y: [gt.sqrt(y) * 0.9], [x])[0]


@zoo(COUNTED)
def while_loop_with_structures(x, n):
    def body(i, state):
        return i + 1, {"a": state["b"] * 0.9, "b": gt.sin(state["a"])}

    _, state = gt.while_loop(lambda i, s: i < n, body, (gt.constant(0), {"a": x, "b": x * x}))
    return state


@zoo([(0.7, np.int32(5))])
def while_loop_with_maximum_iterations(x, n):
    _, y = gt.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * y + 0.1), (gt.constant(0), x), maximum_iterations=3)
    return y


@zoo([(np.array([0.7, 0.5, 0.2]), np.int32(3)), (np.array([0.7, -0.5, 0.2]), np.int32(3))])
def while_loop_that_is_not_asked_at_its_limit(x, n):
    _, y = gt.while_loop(lambda i, y: x[i] > 0.0, lambda i, y: (i + 1, y * x[i]), (n - 3, x[0]), maximum_iterations=3)
    return y


@zoo([(0.7, np.int32(3))])
def while_loop_with_a_tensor_array(x, n):
    def body(i, ta):
        return i + 1, ta.write(i, gt.sin(x * gt.cast(i + 1, gt.float64)))

    ta = gt.TensorArray(gt.float64, size=n)
    _, ta = gt.while_loop(lambda i, ta: i < n, body, (gt.constant(0), ta))
    return ta.stack()


@zoo([(0.7, np.int32(2))], order=2)
def nested_while_loops(x, n):
    def outer(i, y):
        _, z = gt.while_loop(lambda j, z: j < i + 1, lambda j, z: (j + 1, gt.sin(z) + 0.1 * x), (gt.constant(0), y))
        return i + 1, z

    return gt.while_loop(lambda i, y: i < n, outer, (gt.constant(0), x))[1]


@zoo([([[0.4, 0.2], [0.1, 0.7]],)])
def matrix_product_in_a_while_loop(m):
    _, p = gt.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p @ m), (gt.constant(0), m))
    return p


@zoo(VECTORS)
def map_fn_of_a_lambda(v):
    return gt.map_fn(lambda x: gt.sin(x) * v[0], v)


@zoo(VECTORS)
def map_fn_with_a_branch(v):
    def leaky(x):
        if x > 0:
            return x * x
        return 0.1 * x

    return gt.map_fn(leaky, v)


@zoo([([0.4, -0.9, 1.7], [0.3, 0.2, 0.1])])
def map_fn_of_pairs(u, v):
    return gt.map_fn(lambda p: (p[0] * p[1], gt.exp(p[1])), (u, v))


@zoo(VECTORS)
def scan_with_initializer(v):
    return gt.scan(lambda a, x: a * gt.sin(x) + x, v, initializer=gt.constant(0.5, gt.float64))


@zoo(VECTORS)
def scan_without_initializer(v):
    return gt.scan(lambda a, x: a * 0.5 + x * x, v)


@zoo(VECTORS)
def scan_in_reverse(v):
    return gt.scan(lambda a, x: gt.tanh(a + x), v, reverse=True)


@zoo([([[0.4, -0.9], [1.7, 0.3], [0.2, 0.6]],)])
def scan_of_structures(m):
    start = (gt.zeros([2], gt.float64), gt.ones([], gt.float64))
    return gt.scan(lambda s, row: (gt.sin(s[0]) + row, s[1] * row[0] + 0.1), m, initializer=start)


@zoo(VECTORS)
def foldl_and_foldr(v):
    left = gt.foldl(lambda a, x: a * 0.5 + gt.sin(x), v)
    right = gt.foldr(lambda a, x: a * a * 0.1 + x, v)
    return left * right


@zoo([(0.7, 0.2)])
def foldl_over_a_list(x, y):
    return gt.foldl(lambda a, t: a * t + 0.3, [x, y, x * y])


@zoo([([[0.4, -0.9], [1.7, 0.3], [0.2, 0.6]],)])
def vectorized_map_of_rows(m):
    return gt.vectorized_map(lambda row: gt.reduce_sum(row * row) * row, m)


@zoo([([0.4, -0.9, 1.7], np.int32(2))])
def scan_inside_a_staged_loop(v, n):
    for _ in gt.range(n):
        v = gt.scan(lambda a, x: gt.sin(a) * 0.5 + x, v)
    return v


@zoo([([0.4, -0.9, 1.7],)])
def staged_loop_inside_map_fn(v):
    def shrink(x):
        while x * x > 0.5:
            x = x * 0.6
        return x

    return gt.map_fn(shrink, v)


@zoo([([0.4, -0.9, 1.7], 0.5)])
def where_of_loops(v, c):
    total = gt.zeros_like(v)
    for x in v:
        total = gt.where(v > x, total + c * x, total * 0.9)
    return total


@zoo(SCALARS)
def print_and_assert_of_gradtape(x):
    gt.print("x is", x)
    gt.Assert(x > -2.0, [x])
    if x > 0:
        gt.print("positive")
    return gt.sin(x)


@zoo([(0.7, np.int32(3)), (0.7, np.int32(0))])
def print_in_a_staged_loop(x, n):
    for i in gt.range(n):
        x = gt.sin(x)
        print("step", i, x)
        gt.print(i, x)
    return x
