"""Variables assigned in loops and branches, optimizers inside functions, random numbers."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import Instance, stateful, zoo

SCALARS = [(0.7,), (-1.3,), (0.4,)]
COUNTED = [(0.7, np.int32(3)), (0.7, np.int32(0)), (-0.2, np.int32(2))]


@stateful(SCALARS)
def counter_variable():
    count = gt.Variable(0, trainable=False)

    def step(x):
        count.assign_add(1)
        return gt.sin(x)

    return Instance(step, lambda: count)


@stateful(SCALARS)
def variable_read_before_and_after_assign():
    v = gt.Variable(np.array(0.5))

    def step(x):
        before = v * x
        v.assign(v * 0.5 + x)
        return before + v * x

    return Instance(step, lambda: v, (v,))


@stateful(SCALARS)
def variable_assigned_in_one_branch():
    v = gt.Variable(np.array(0.5))

    def step(x):
        if x > 0:
            v.assign(gt.sin(x) * v)
        return v * x

    return Instance(step, lambda: v, (v,))


@stateful(SCALARS)
def variable_assigned_in_both_branches():
    v = gt.Variable(np.array(0.5))

    def step(x):
        if x > 0:
            v.assign_add(x)
        else:
            v.assign_sub(x * x)
        return v * v

    return Instance(step, lambda: v, (v,))


@stateful(COUNTED)
def variable_assigned_in_a_staged_loop():
    v = gt.Variable(np.array(0.5))

    def step(x, n):
        for _ in gt.range(n):
            v.assign(gt.sin(v) + 0.1 * x)
        return v * x

    return Instance(step, lambda: v, (v,))


@stateful([(3.0,), (0.5,)])
def variable_assigned_in_a_while_loop():
    v = gt.Variable(np.array(0.5))

    def step(x):
        while x > 1.0:
            v.assign_add(0.1 * x)
            x = x * 0.55
        return v * x

    return Instance(step, lambda: v, (v,))


@stateful([(3.0,), (0.5,)])
def variable_in_the_loop_test():
    level = gt.Variable(np.array(0.3))

    def step(x):
        while level < 1.5:
            level.assign(level * 1.3 + 0.1)
        return level * x

    return Instance(step, lambda: level)


@stateful([([0.4, -0.9],), ([1.1, 0.3],)])
def variable_items_assigned():
    v = gt.Variable(np.array([0.1, 0.2, 0.3]))

    def step(x):
        v[0].assign(x[0] * x[1])
        for i in gt.range(2):
            v[i + 1].assign(v[i] * 0.5 + x[i])
        return v * v

    return Instance(step, lambda: v, (v,))


@stateful([([0.4, -0.9],), ([1.1, 0.3],)])
def moving_average_of_a_vector():
    mean = gt.Variable(np.zeros(2), trainable=False)
    count = gt.Variable(0.0, dtype=gt.float64, trainable=False)

    def step(x):
        count.assign_add(1.0)
        mean.assign_add((x - mean) / count)
        return gt.reduce_sum((x - mean) ** 2)

    return Instance(step, lambda: [mean, count])


@stateful([(0.7,), (-0.7,)])
def two_variables_swapped():
    a, b = gt.Variable(np.array(1.0)), gt.Variable(np.array(2.0))

    def step(x):
        if x > 0:
            old = a.read_value()
            a.assign(b)
            b.assign(old)
        return a * x + b

    return Instance(step, lambda: [a, b], (a, b))


@stateful([(0.7, np.int32(3)), (0.2, np.int32(1))])
def list_of_variables():
    cells = [gt.Variable(np.array(0.1 * k)) for k in range(3)]

    def step(x, n):
        for _ in gt.range(n):
            for k, cell in enumerate(cells):
                cell.assign(0.5 * cell + x * (k + 1))
        return sum(cells)

    return Instance(step, lambda: cells, tuple(cells))


@stateful([([1.0, 2.0], 0.5), ([-1.0, 0.5], 0.2), ([0.3, 0.4], 0.9)], order=0)
def sgd_step():
    w = gt.Variable(np.array([0.1, -0.2]))
    optimizer = gt.optimizers.SGD(learning_rate=0.1)

    def step(x, y):
        with gt.GradientTape() as tape:
            loss = (gt.reduce_sum(w * x) - y) ** 2
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return Instance(step, lambda: w)


@stateful([([1.0, 2.0], 0.5), ([-1.0, 0.5], 0.2), ([0.3, 0.4], 0.9)], order=0)
def adam_step():
    w = gt.Variable(np.array([0.1, -0.2]))
    b = gt.Variable(np.array(0.0))
    optimizer = gt.optimizers.Adam(learning_rate=0.05)

    def step(x, y):
        with gt.GradientTape() as tape:
            loss = (gt.tanh(gt.reduce_sum(w * x) + b) - y) ** 2
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b], strict=True))
        return loss

    return Instance(step, lambda: [w, b, optimizer.iterations])


@stateful([([1.0, 2.0], np.int32(3)), ([-1.0, 0.5], np.int32(2))], order=0)
def momentum_in_a_staged_loop():
    w = gt.Variable(np.array([0.1, -0.2]))
    optimizer = gt.optimizers.SGD(learning_rate=0.1, momentum=0.9)

    def train(target, n):
        for _ in gt.range(n):
            with gt.GradientTape() as tape:
                loss = gt.reduce_sum((w - target) ** 2)
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return gt.reduce_sum(w * target)

    return Instance(train, lambda: w)


@stateful([([1.0, 2.0],), ([-1.0, 0.5],)], order=0)
def minimize_with_a_loss_function():
    w = gt.Variable(np.array([0.1, -0.2]))
    optimizer = gt.optimizers.RMSprop(learning_rate=0.01)

    def step(target):
        optimizer.minimize(lambda: gt.reduce_sum((w - target) ** 2), [w])
        return w * 1.0

    return Instance(step, lambda: w)


@stateful([([1.0, 2.0],), ([-1.0, 0.5],)], order=0)
def clipped_gradients_applied_conditionally():
    w = gt.Variable(np.array([0.1, -0.2]))

    def step(target):
        with gt.GradientTape() as tape:
            loss = gt.reduce_sum((w - target) ** 2)
        g = tape.gradient(loss, w)
        clipped, norm = gt.clip_by_global_norm([g], 1.0)
        if norm > 0.5:
            w.assign_sub(0.1 * clipped[0])
        return norm

    return Instance(step, lambda: w)


@stateful([(0.7,), (0.2,)])
def variable_as_a_default_of_a_class():
    class Scale(gt.Module):
        def __init__(self):
            super().__init__()
            self.k = gt.Variable(np.array(2.0))
            self.seen = gt.Variable(0, trainable=False)

        def __call__(self, x):
            self.seen.assign_add(1)
            return gt.sin(x * self.k)

    scale = Scale()
    return Instance(scale.__call__, lambda: scale.seen, (scale.k,))


@stateful([(0.7,), (0.2,)])
def hessian_vector_product_of_a_variable():
    w = gt.Variable(np.array([0.5, -0.3]))

    def step(x):
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                y = gt.reduce_sum(gt.sin(w * x) * w)
            g = inner.gradient(y, w)
            s = gt.reduce_sum(g * np.array([1.0, 2.0]))
        return outer.gradient(s, w)

    return Instance(step, variables=(w,))


# -- random numbers ----------------------------------------------------------------------------------------------------


@zoo(SCALARS)
def reparameterised_normal(x):
    noise = gt.random.normal([3], dtype=gt.float64)
    return gt.sin(x + 0.1 * noise)


@zoo(COUNTED)
def random_walk_in_a_staged_loop(x, n):
    for _ in gt.range(n):
        x = x + 0.1 * gt.random.normal([], dtype=gt.float64) * gt.sin(x)
    return x


@zoo([([0.4, -0.9, 1.7],)])
def dropout_by_hand(v):
    keep = gt.cast(gt.random.uniform([3]) > 0.5, gt.float64)
    return v * keep * 2.0 + v * v


@zoo([([0.4, -0.9, 1.7], 3), ([0.4, -0.9, 1.7], 8)])
def stateless_random(v, seed):
    noise = gt.random.stateless_normal([3], seed=[seed, 1], dtype=gt.float64)
    return gt.reduce_sum(v * noise)


@zoo([(0.7, np.int32(5))])
def monte_carlo_in_a_branch(x, n):
    inside = 0.0
    for _ in gt.range(n):
        u = gt.random.uniform([2], dtype=gt.float64)
        if gt.reduce_sum(u * u) < 1.0:
            inside += gt.sin(x * u[0])
    return inside + x


@stateful([(0.7,), (0.2,)])
def generator_object():
    generator = gt.random.Generator.from_seed(7)

    def step(x):
        return x * gt.reduce_sum(generator.normal([2], dtype=gt.float64))

    return Instance(step)
