"""Programs that use a watched value in every construct that has regions, calls or storage, and homes the value may have.

A program takes the watched value `x` (float64, shape (2,)) and a length `n`, and returns a scalar. A home says where `x` comes
from while a function runs. All of it is ordinary code: run as it is, it is the reference; decorated, it must mean the same.
"""

import gradtape as gt

VALUES = [0.7, -1.3]


# -- programs --------------------------------------------------------------------------------------------------------


def straight(x, n):
    return gt.reduce_sum(x * x * gt.sin(x))


def for_loop(x, n):
    y = x
    for _ in gt.range(n):
        y = y * y
    return gt.reduce_sum(y + x)


def for_python(x, n):
    y = x
    for i in range(3):
        y = y * x + i
    return gt.reduce_sum(y)


def for_not_carried(x, n):
    y = gt.constant(1.0, gt.float64)
    for _ in gt.range(n):
        y = y * gt.reduce_sum(x * x)
    return y


def for_never(x, n):
    y = x * x
    for _ in gt.range(n - n):
        y = y * x
    return gt.reduce_sum(y)


def for_rows(x, n):
    y = gt.constant(0.5, gt.float64)
    for row in x:
        y = y * row + gt.sin(row)
    return y


def for_with_break(x, n):
    y = x
    for i in gt.range(n):
        y = y * x
        if i > 1:
            break
    return gt.reduce_sum(y)


def while_loop(x, n):
    i = 0
    y = x
    while i < n:
        y = gt.sin(y) * x
        i += 1
    return gt.reduce_sum(y)


def while_of_library(x, n):
    _, y = gt.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * x), [gt.constant(0), x])
    return gt.reduce_sum(y)


def branch(x, n):
    if n > 2:
        y = x * x
    else:
        y = x
        y = y * 2.0
    return gt.reduce_sum(y * x)


def branch_of_itself(x, n):
    y = gt.zeros([2], gt.float64)
    if n > 2:
        y = x
    return gt.reduce_sum(y * y * y)


def branch_on_value(x, n):
    total = gt.reduce_sum(x)
    if total < 100.0:
        return gt.reduce_sum(x * x * x)
    return total


def cond(x, n):
    return gt.reduce_sum(gt.cond(n > 2, lambda: x * x * x, lambda: x))


def case(x, n):
    return gt.reduce_sum(gt.case([(n > 5, lambda: x), (n > 1, lambda: x * x * x)], default=lambda: 2.0 * x))


def switch(x, n):
    return gt.reduce_sum(gt.switch_case(n - 2, [lambda: x, lambda: x * x * x, lambda: gt.sin(x)]))


@gt.function
def _cubed(z):
    return z * z * z


def nested_function(x, n):
    return gt.reduce_sum(_cubed(x) + _cubed(x * x))


def nested_function_that_captures(x, n):
    @gt.function(jit_compile=False)
    def inner(z):
        return z * x * x

    return gt.reduce_sum(inner(x) + inner(gt.ones([2], gt.float64)))


@gt.custom_gradient
def _squared(z):
    return z * z, lambda upstream: upstream * 2.0 * z


def custom_gradient(x, n):
    return gt.reduce_sum(_squared(x) * x)


def custom_gradient_of_computed(x, n):
    return gt.reduce_sum(_squared(gt.sin(x)))


def recompute(x, n):
    return gt.reduce_sum(gt.recompute_grad(lambda z: gt.sin(z) * z)(x) * x)


def recompute_that_captures(x, n):
    return gt.reduce_sum(gt.recompute_grad(lambda z: gt.sin(x) * z)(gt.constant([1.5, 2.5], gt.float64)))


def vectorized_over_it(x, n):
    return gt.reduce_sum(gt.vectorized_map(lambda e: e * e * e, x))


def vectorized_that_captures(x, n):
    rows = gt.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], gt.float64)
    return gt.reduce_sum(gt.vectorized_map(lambda row: gt.reduce_sum(row * x * x), rows))


def mapped_over_it(x, n):
    return gt.reduce_sum(gt.map_fn(lambda e: e * e * e, x))


def mapped_that_captures(x, n):
    return gt.reduce_sum(gt.map_fn(lambda e: e * x * x, gt.constant([1.0, 2.0], gt.float64)))


def scanned(x, n):
    return gt.reduce_sum(gt.scan(lambda a, e: a * e + gt.reduce_sum(x), x, gt.constant(0.5, gt.float64)))


def folded(x, n):
    return gt.foldl(lambda a, e: a * e, x, gt.reduce_sum(x)) + gt.foldr(lambda a, e: a * e, x, gt.constant(2.0, gt.float64))


def array_of_itself(x, n):
    array = gt.TensorArray(gt.float64, size=2)
    array = array.write(0, x)
    array = array.write(1, x * x)
    return gt.reduce_sum(array.stack() * x)


def array_in_loop(x, n):
    array = gt.TensorArray(gt.float64, size=0, dynamic_size=True, element_shape=[2])
    for i in gt.range(n):
        array = array.write(i, x * gt.cast(i + 1, gt.float64))
    return gt.reduce_sum(array.stack() * x)


def array_of_itself_in_loop(x, n):
    array = gt.TensorArray(gt.float64, size=0, dynamic_size=True, element_shape=[2])
    array = array.write(0, x)
    for i in gt.range(n):
        array = array.write(i + 1, array.read(i) * x)
    return gt.reduce_sum(array.stack())


def array_unstacked(x, n):
    array = gt.TensorArray(gt.float64, size=2).unstack(x)
    y = gt.constant(1.0, gt.float64)
    for i in gt.range(2):
        y = y * array.read(i) + y
    return y


def list_in_loop(x, n):
    items = []
    for _ in gt.range(n):
        items.append(x * x)
    return gt.reduce_sum(gt.stack(items) * x)


def list_of_itself(x, n):
    items = [x]
    for _ in gt.range(n):
        items.append(items[-1] * x)
    return gt.reduce_sum(gt.stack(items))


def tuple_and_dict_in_loop(x, n):
    state = {"a": x, "b": (x, 1.0)}
    for _ in gt.range(n):
        state["a"] = state["a"] * state["b"][0]
    return gt.reduce_sum(state["a"])


def closure(x, n):
    def inner(z):
        return z * x

    y = gt.ones([2], gt.float64)
    for _ in gt.range(n):
        y = inner(y) + x
    return gt.reduce_sum(y)


def closure_called_late(x, n):
    inner = [lambda z: z * x * x]
    return gt.reduce_sum(inner[0](gt.ones([2], gt.float64)))


class _Holder:
    def __init__(self, value):
        self.value = value

    def call(self, z):
        return z * self.value * self.value


def attribute(x, n):
    holder = _Holder(x)
    y = gt.ones([2], gt.float64)
    for _ in gt.range(n):
        y = holder.call(y)
    return gt.reduce_sum(y)


def updated_in_place(x, n):
    y = gt.identity(x)
    for i in gt.range(2):
        y[i] = y[i] * x[1 - i]
    return gt.reduce_sum(y * x)


def loop_in_loop(x, n):
    y = x
    for _ in gt.range(n):
        for _ in gt.range(2):
            y = gt.sin(y) * x
    return gt.reduce_sum(y)


def branch_in_loop(x, n):
    y = gt.ones([2], gt.float64)
    for i in gt.range(n):
        if i > 0:
            y = y * x
        else:
            y = y + x
            y = y * x
    return gt.reduce_sum(y)


def loop_in_branch(x, n):
    y = gt.ones([2], gt.float64)
    if n > 1:
        for _ in gt.range(n):
            y = y * x
    return gt.reduce_sum(y)


def function_in_branch_in_loop(x, n):
    y = gt.zeros([2], gt.float64)
    for i in gt.range(n):
        if i > 0:
            y = y + _cubed(x) + _squared(x)
    return gt.reduce_sum(y)


def tape_in_loop(x, n):
    total = gt.constant(0.0, gt.float64)
    for _ in gt.range(n):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = gt.reduce_sum(x * x * x)
        total = total + gt.reduce_sum(tape.gradient(y, x) * x)
    return total


def tape_of_constant_in_loop(x, n):
    total = gt.constant(0.0, gt.float64)
    for _ in gt.range(n):
        c = gt.constant(2.0, gt.float64)
        with gt.GradientTape() as tape:
            tape.watch(c)
            y = gt.constant(1.0, gt.float64)
            for _ in gt.range(2):
                y = y * c
        total = total + gt.reduce_sum(tape.gradient(y, c) * x * x)
    return total


def tape_around_loop_of_constant(x, n):
    c = gt.constant(3.0, gt.float64)
    with gt.GradientTape() as tape:
        tape.watch(c)
        y = c
        for _ in gt.range(n):
            y = y * c
    return tape.gradient(y, c) * gt.reduce_sum(x * x)


PROGRAMS = [
    straight, for_loop, for_python, for_not_carried, for_never, for_rows, for_with_break, while_loop, while_of_library, branch,
    branch_of_itself, branch_on_value, cond, case, switch, nested_function, nested_function_that_captures, custom_gradient,
    custom_gradient_of_computed, recompute, recompute_that_captures, vectorized_over_it, vectorized_that_captures,
    mapped_over_it, mapped_that_captures, scanned, folded, array_of_itself, array_in_loop, array_of_itself_in_loop,
    array_unstacked, list_in_loop, list_of_itself, tuple_and_dict_in_loop, closure, closure_called_late, attribute,
    updated_in_place, loop_in_loop, branch_in_loop, loop_in_branch, function_in_branch_in_loop, tape_in_loop,
    tape_of_constant_in_loop, tape_around_loop_of_constant,
]  # fmt: skip


# -- homes -----------------------------------------------------------------------------------------------------------

CAPTURED = gt.constant(VALUES, gt.float64)
VARIABLE = gt.Variable(VALUES, dtype=gt.float64)
ASSIGNED = gt.Variable([9.0, 9.0], dtype=gt.float64)


def argument(u):
    return u


def constant_made_inside(u):
    return gt.constant(VALUES, gt.float64)


def ones_made_inside(u):
    return gt.ones([2], gt.float64)


def computed_from_constants(u):
    return gt.constant([0.1, -0.4], gt.float64) * 3.0 + gt.eye(2, dtype=gt.float64)[0]


def captured_tensor(u):
    return CAPTURED


def variable(u):
    return VARIABLE


def variable_assigned_numbers(u):
    ASSIGNED.assign([0.3, -0.9])
    return ASSIGNED


def variable_assigned_ones(u):
    ASSIGNED.assign(gt.ones([2], gt.float64))
    return ASSIGNED


def own_gradient(u):
    c = gt.constant(VALUES, gt.float64)
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(c)
        y = gt.reduce_sum(c * c * c)
        return tape.gradient(y, c)


HOMES = [
    argument, constant_made_inside, ones_made_inside, computed_from_constants, captured_tensor, variable,
    variable_assigned_numbers, variable_assigned_ones, own_gradient,
]  # fmt: skip


# -- ways to differentiate -------------------------------------------------------------------------------------------

WEIGHTS = [1.5, -0.5]


def two_tapes(program, home, u, n):
    x = home(u)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = program(x, n)
        first = inner.gradient(y, x)
    return y, first, outer.gradient(first, x, output_gradients=gt.constant(WEIGHTS, gt.float64))


def watched_in_the_block(program, home, u, n):
    with gt.GradientTape() as tape:
        x = home(u)
        tape.watch(x)
        y = program(x, n)
    return y, tape.gradient(y, x)


def one_persistent_tape(program, home, u, n):
    with gt.GradientTape(persistent=True) as tape:
        x = home(u)
        tape.watch(x)
        y = program(x, n)
        first = tape.gradient(y, x)
        z = gt.reduce_sum(first * first * x)
    return y, first, tape.gradient(z, x)


def gradient_as_the_value(program, home, u, n):
    """The program runs on a gradient that its own tape gave."""
    with gt.GradientTape(persistent=True) as tape:
        x = home(u)
        tape.watch(x)
        first = tape.gradient(gt.reduce_sum(x * x * 0.5), x)
        y = program(first, n)
    return y, tape.gradient(y, x), tape.gradient(y, first)


def forward(program, home, u, n):
    x = home(u)
    t = gt.constant(WEIGHTS, gt.float64)
    with gt.autodiff.ForwardAccumulator(x, t) as outer:
        with gt.autodiff.ForwardAccumulator(x, t) as inner:
            y = program(x, n)
        first = inner.jvp(y)
    return y, first, outer.jvp(first)


def forward_over_reverse(program, home, u, n):
    x = home(u)
    with gt.autodiff.ForwardAccumulator(x, gt.constant(WEIGHTS, gt.float64)) as accumulator:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = program(x, n)
        first = tape.gradient(y, x)
    return y, first, accumulator.jvp(first)


def jacobian(program, home, u, n):
    x = home(u)
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = program(x, n)
        first = inner.gradient(y, x)
    return y, outer.jacobian(first, x)


WAYS = [
    two_tapes, watched_in_the_block, one_persistent_tape, gradient_as_the_value, forward, forward_over_reverse, jacobian,
]  # fmt: skip
