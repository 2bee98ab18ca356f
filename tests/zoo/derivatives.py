"""Derivatives inside: tapes in functions, loops and tapes; custom gradients, stop_gradient, recompute_grad, functional form."""

from __future__ import annotations

import numpy as np

import gradtape as gt
from tests.zoo.registry import Instance, stateful, zoo

SCALARS = [(0.7,), (-1.3,)]
VECTORS = [([0.4, -0.9, 1.7],), ([-0.6, 0.2, -1.1],)]


@zoo(SCALARS)
def gradient_inside(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.sin(x) * x
    return tape.gradient(y, x) * x


@zoo(SCALARS)
def gradient_of_a_branch_inside(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        if x > 0:
            y = x**3
        else:
            y = gt.exp(x)
    return y, tape.gradient(y, x)


@zoo([(0.7, np.int32(3)), (0.7, np.int32(0))])
def gradient_of_a_staged_loop_inside(x, n):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x
        for _ in gt.range(n):
            y = gt.sin(y) * x
    return tape.gradient(y, x)


@zoo([(3.7,), (0.4,)])
def gradient_of_a_while_inside(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x
        while y > 1.0:
            y = gt.sqrt(y) * 0.9
    return y * tape.gradient(y, x)


@zoo([(0.7, np.int32(2)), (0.7, np.int32(0))])
def tape_in_a_staged_loop(x, n):
    for _ in gt.range(n):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.sin(x) * x
        x = x - 0.1 * tape.gradient(y, x)
    return x


@zoo([(0.7, np.int32(2))])
def loop_in_a_tape_in_a_loop(x, n):
    for _ in gt.range(n):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in gt.range(n):
                y = gt.sin(y) + 0.1 * x
        x = x - 0.2 * tape.gradient(y, x)
    return x


@zoo(SCALARS, order=1)
def tape_in_a_loop_in_a_tape(x):
    with gt.GradientTape() as outer:
        outer.watch(x)
        z = x
        for _ in gt.range(2):
            with gt.GradientTape() as inner:
                inner.watch(z)
                y = z**3 * 0.5
            z = inner.gradient(y, z) * 0.3
    return outer.gradient(z, x)


@zoo(SCALARS)
def second_derivative_inside(x):
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = gt.sin(x) * x
        g = inner.gradient(y, x)
    return outer.gradient(g, x)


@zoo(SCALARS, order=1)
def third_derivative_inside(x):
    with gt.GradientTape() as a:
        a.watch(x)
        with gt.GradientTape() as b:
            b.watch(x)
            with gt.GradientTape() as c:
                c.watch(x)
                y = gt.exp(x) * gt.sin(x)
            first = c.gradient(y, x)
        second = b.gradient(first, x)
    return a.gradient(second, x)


@zoo(SCALARS)
def persistent_tape_inside(x):
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = gt.sin(x)
        z = y * x
    return tape.gradient(y, x) + tape.gradient(z, x) * tape.gradient(z, y)


@zoo(VECTORS)
def gradients_of_several_sources(v):
    a, b = v[:2], v[2:]
    with gt.GradientTape() as tape:
        tape.watch([a, b])
        y = gt.reduce_sum(gt.sin(a) * b) + gt.reduce_sum(b * b)
    ga, gb = tape.gradient(y, [a, b])
    return gt.concat([ga, gb], 0)


@zoo(SCALARS)
def gradient_penalty(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.tanh(x * x)
    g = tape.gradient(y, x)
    if abs(g) > 0.5:
        return y + g * g
    return y + 0.1 * g


@zoo(VECTORS)
def output_gradients_inside(v):
    with gt.GradientTape() as tape:
        tape.watch(v)
        y = gt.sin(v) * v[0]
    return tape.gradient(y, v, output_gradients=gt.cos(v))


@zoo(VECTORS, order=1)
def jacobian_inside(v):
    with gt.GradientTape() as tape:
        tape.watch(v)
        y = gt.sin(v) * v[0]
    return tape.jacobian(y, v)


@zoo(VECTORS, order=1)
def hessian_inside(v):
    return gt.hessian(lambda t: gt.reduce_sum(gt.sin(t) * t[0]))(v)


@zoo(SCALARS)
def functional_gradient_inside(x):
    slope = gt.grad(lambda t: gt.sin(t) * t)
    value, g = gt.value_and_grad(lambda t: t**3)(x)
    return slope(x) * g + value


@zoo(SCALARS)
def forward_mode_inside(x):
    with gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)) as acc:
        y = gt.sin(x) * x
    return acc.jvp(y) * x


@zoo([(0.7, np.int32(3))])
def forward_mode_through_a_loop_inside(x, n):
    with gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)) as acc:
        y = x
        for _ in gt.range(n):
            y = gt.sin(y) * x
    return acc.jvp(y)


@gt.custom_gradient
def log1pexp(x):
    e = gt.exp(x)

    def grad(upstream):
        return upstream * (1.0 - 1.0 / (1.0 + e))

    return gt.math.log(1.0 + e), grad


@zoo(SCALARS)
def custom_gradient_at_module_level(x):
    return log1pexp(x) * x


@zoo([(0.7, np.int32(3)), (-1.3, np.int32(1))])
def custom_gradient_in_a_staged_loop(x, n):
    y = x
    for _ in gt.range(n):
        y = log1pexp(y) - 0.3
    return y


@zoo(SCALARS)
def custom_gradient_defined_inside(x):
    @gt.custom_gradient
    def cube(t):
        return t * t * t, lambda upstream: upstream * 3.0 * t * t

    return cube(x) + cube(gt.sin(x))


@zoo(SCALARS)
def custom_gradient_with_a_branch(x):
    @gt.custom_gradient
    def smooth_abs(t):
        if t > 0:
            sign = 1.0
        else:
            sign = -1.0
        return t * sign, lambda upstream: upstream * sign

    return smooth_abs(x) * x


@stateful(SCALARS)
def custom_gradient_with_a_captured_variable():
    w = gt.Variable(np.array(0.8))

    @gt.custom_gradient
    def scaled(t):
        return t * w * w, lambda upstream, variables=None: (upstream * w * w, [upstream * 2.0 * w * t])

    return Instance(lambda x: scaled(x) * x, variables=(w,))


# what a rule promises that differs from the function: derivatives are the rule's, so there is nothing to compare with
# finite differences
@zoo(SCALARS, order=0)
def clipped_gradient_rule(x):
    @gt.custom_gradient
    def clip(t):
        return t * 5.0, lambda upstream: gt.clip_by_value(upstream, -1.0, 1.0)

    with gt.GradientTape() as tape:
        tape.watch(x)
        y = clip(x) * x
    return tape.gradient(y, x)


@zoo(SCALARS, order=0)
def stop_gradient_inside_a_tape(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.stop_gradient(gt.sin(x)) * x
    return tape.gradient(y, x)


@zoo([(0.7, np.int32(3))], order=0)
def stop_gradient_in_a_staged_loop(x, n):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x
        for i in gt.range(n):
            y = gt.sin(y) * x
            if i == 1:
                y = gt.stop_gradient(y)
    return tape.gradient(y, x)


@zoo(SCALARS, order=0)
def stop_recording_inside(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.sin(x)
        with tape.stop_recording():
            factor = gt.exp(x)
        z = y * factor
    return tape.gradient(z, x)


@zoo(VECTORS)
def recompute_grad_inside(v):
    @gt.recompute_grad
    def block(t):
        for _ in range(3):
            t = gt.sin(t) * v[0] + t[::-1]
        return t

    return gt.reduce_sum(block(v) * v)


@zoo([([0.4, -0.9, 1.7], np.int32(2))])
def recompute_grad_in_a_staged_loop(v, n):
    block = gt.recompute_grad(lambda t: gt.tanh(t) * 1.2 + t * t * 0.1)
    for _ in gt.range(n):
        v = block(v)
    return gt.reduce_sum(v)


@zoo([([0.4, -0.9, 1.7],), ([0.1, 0.2, 0.3],)])
def inner_optimisation(v):
    # the loss at the point where three steps of gradient descent arrive: a gradient through gradients
    w = v * 0.0
    for _ in range(3):
        with gt.GradientTape() as tape:
            tape.watch(w)
            loss = gt.reduce_sum((w - gt.sin(v)) ** 2 * gt.exp(v))
        w = w - 0.1 * tape.gradient(loss, w)
    return gt.reduce_sum(w * w)


@zoo([(0.7, np.int32(3))])
def gradient_reads_a_tensor_array_of_the_same_iteration(x, n):
    ta = gt.TensorArray(gt.float64, size=n, clear_after_read=False, element_shape=())
    for i in gt.range(n):
        with gt.GradientTape() as tape:
            tape.watch(x)
            ta = ta.write(i, gt.sin(x))
            y = ta.read(i) * x
        x = x - 0.1 * tape.gradient(y, x)
    return x + gt.reduce_sum(ta.stack())


@stateful([([0.4, -0.9],), ([1.1, 0.3],)])
def gradient_of_variables_inside():
    w = gt.Variable(np.array([0.5, -0.2]))
    b = gt.Variable(np.array(0.1))

    def step(x):
        with gt.GradientTape() as tape:
            y = gt.tanh(gt.reduce_sum(w * x) + b)
        gw, gb = tape.gradient(y, [w, b])
        return y, gw * gb

    return Instance(step, variables=(w, b))


@zoo(SCALARS, order=0)
def unconnected_gradient_is_none(x):
    y = gt.constant(2.0, gt.float64)
    with gt.GradientTape() as tape:
        tape.watch([x, y])
        z = x * x
    nothing = tape.gradient(z, y)
    return x if nothing is None else nothing


@zoo(SCALARS)
def gradient_checked_for_none(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        z = gt.sin(x)
    g = tape.gradient(z, x)
    if g is None:
        return x
    return g * x


@zoo(VECTORS, order=1)
def implicit_layer_with_a_custom_rule(v):
    # s solves s + tanh(s) = Σ v²; its slope is 1 / (1 + sech² s), known without differentiating the solver
    @gt.custom_gradient
    def solve(c):
        s = c * 0.5
        for _ in range(20):
            s = s - (s + gt.tanh(s) - c) / (2.0 - gt.tanh(s) ** 2)
        return s, lambda upstream: upstream / (2.0 - gt.tanh(s) ** 2)

    return solve(gt.reduce_sum(v * v))
