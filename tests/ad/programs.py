"""Small functions of loops, branches, calls and custom gradients, with arguments: what `test_programs.py` differentiates.

Each is registered with `@program(*arguments, ...)`; floating arrays among the arguments are what derivatives are taken in.
All are smooth at their arguments, and every construct on a tensor's value is staged when they are compiled.
"""

# ruff: noqa: SIM108, RET504  (loops and branches as users write them)

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gradtape as gt

VECTOR = np.array([0.3, -0.7, 1.1])
LONG = np.array([0.9, -0.4, 0.2, 1.3, -1.2])
MATRIX = np.array([[0.5, 0.2], [-0.3, 0.8]])
COMPLEX = np.array([0.3 + 0.2j, -0.5 + 0.9j, 1.1 - 0.4j])
ANY = gt.TensorSpec([None], gt.float64)


class Program(NamedTuple):
    """A function and how to check it."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    signature: Any = None
    order: int = 2  # up to which it is differentiated
    slopes: bool = True  # whether finite differences of it mean anything: not where it stops or bends derivatives


PROGRAMS: dict[str, Program] = {}


def program(*args: Any, **options: Any) -> Callable[[Any], Any]:
    """Register a function under its name (several times: with a number) with arguments and fields of `Program`."""

    def register(function: Any) -> Any:
        count = sum(name.partition("-")[0] == function.__name__ for name in PROGRAMS)
        PROGRAMS[f"{function.__name__}-{count}"] = Program(function, args, **options)
        return function

    return register


# -- branches --------------------------------------------------------------------------------------------------------------


@program(VECTOR)
@program(-VECTOR)
def branch(x):
    if gt.reduce_sum(x) > 0.0:
        y = x * x
    else:
        y = gt.sin(x)
    return y


@program(VECTOR, np.float64(0.4))
@program(VECTOR, np.float64(-0.4))
def branch_uses_other_inputs(x, a):
    """Each branch is connected to inputs of its own."""
    if a > 0.0:
        y = x * x
    else:
        y = gt.exp(a) * gt.ones_like(x)
    return y


@program(VECTOR)
@program(VECTOR + 1.0)
@program(VECTOR - 2.0)
def branches_in_branches(x):
    total = gt.reduce_sum(x)
    if total > 0.0:
        if total > 2.0:
            y = x**3
        else:
            y = x * total
    elif total < -4.0:
        y = gt.exp(x)
    else:
        y = gt.cos(x) * x[0]
    return y, total


@program(VECTOR, signature=[ANY])
@program(LONG, signature=[ANY])
def branch_of_unknown_size(x):
    """What the branch that does not run would have saved must not tell anybody a size."""
    if x[0] > 0.5:
        y = gt.exp(x) * x
    else:
        y = gt.zeros_like(x) + gt.reduce_sum(x)
    return y


@program(VECTOR)
def expression_and_short_circuit(x):
    y = x * 2.0 if x[0] > 0.0 and x[1] < 0.0 else gt.sin(x)
    z = gt.cos(x) if x[0] < 0.0 or x[1] > 0.0 else y * y
    return z


@program(VECTOR, 1)
@program(VECTOR, 2)
@program(VECTOR, 7)
def cases(x, n):
    return gt.switch_case(gt.constant(n), [lambda: x * x, lambda: gt.exp(x), lambda: gt.sin(x) * x])


# -- while -----------------------------------------------------------------------------------------------------------------


@program(VECTOR, 4)
@program(VECTOR, 0)
def counted_while(x, n):
    i = 0
    while gt.reduce_sum(x * x) > 0.01 and i < n:
        x = x * gt.sin(x)
        i += 1
    return x, i


@program(VECTOR)
@program(VECTOR * 100.0)
def while_that_may_not_run(x):
    y = x
    while gt.reduce_max(gt.abs(y)) < 10.0:
        y = y * 1.7 + gt.sin(x)
    return y


@program(VECTOR, np.float64(0.11))
def unconnected_inputs(x, a):
    """`a` only decides how long the loop runs."""
    i = gt.constant(0.0, gt.float64)
    while i < a * 30.0:
        x = gt.sin(x) + 0.5
        i = i + 1.0
    return x


@program(LONG)
def break_and_continue(x):
    s = gt.constant(0.0, gt.float64)
    for i in gt.range(5):
        if x[i] < -1.0:
            break
        if x[i] < 0.0:
            continue
        s = s * x[i] + gt.exp(x[i])
    return s


@program(LONG)
def return_from_a_loop(x):
    s = gt.constant(1.0, gt.float64)
    for i in gt.range(5):
        s = s * gt.cos(x[i])
        if x[i] > 1.0:
            return s * s
    return s


@program(np.float64(2.0))
@program(np.float64(0.5))
def while_loop_function(a):
    i, y = gt.while_loop(lambda i, y: y < 20.0, lambda i, y: (i + 1, y * 1.5 + a), [gt.constant(0), a * a])
    return y, i


@program(VECTOR)
def while_with_a_bound(x):
    (y,) = gt.while_loop(lambda y: gt.reduce_sum(y) < 1e6, lambda y: [y * y + x], [x], maximum_iterations=3)
    return y


@program(np.float64(0.7))
def bools_and_integers_carried(a):
    up, n, y = gt.constant(True), gt.constant(0), a
    while n < 5:
        if up:
            y = y * gt.cast(n + 1, gt.float64) * a
        else:
            y = gt.sin(y)
        up = gt.logical_not(up)
        n += 1
    return y, up, n


# -- scans -----------------------------------------------------------------------------------------------------------------


@program(MATRIX)
def matrix_powers(a):
    y = a
    for i in gt.range(3):
        y = gt.matmul(y, a) + 0.1 * gt.cast(i, gt.float64)
    return y


@program(VECTOR)
def loops_in_loops(x):
    s = gt.constant(0.0, gt.float64)
    for i in gt.range(3):
        for j in gt.range(i):
            if x[j] > 0.0:
                s = s + x[i] * x[j] * s + x[i]
            else:
                s = s - gt.exp(x[j])
    return s


@program(LONG, signature=[ANY])
@program(np.zeros(0), signature=[ANY], order=1)
def over_unknown_length(x):
    s, p = gt.constant(0.5, gt.float64), x
    for v in x:
        s = s * v + gt.sin(v)
        p = p * v
    return s, p


@program(VECTOR)
def several_run_time_lengths(x):
    """Each range has a size of its own, known at run time only."""
    s = gt.constant(0.0, gt.float64)
    for i in gt.range(gt.constant(3)):
        for j in gt.range(i + 1):
            for k in gt.range(j):
                s = s * x[k] + x[j]
            s = gt.sin(s) + x[i]
    return s


@program(VECTOR, 0)
@program(VECTOR, 1)
@program(VECTOR, 3)
def runtime_length(x, n):
    y = x
    for i in gt.range(gt.constant(n)):
        y = gt.tanh(y) * x + gt.cast(i, gt.float64)
    return y


@program(VECTOR)
def several_outputs(x):
    a, b, c = x, gt.constant(1.0, gt.float64), gt.constant(0)
    for v in x:
        a, b, c = a * b, b + v * v, c + 1
    return {"a": a, "b": (b, c)}


@program(VECTOR, VECTOR[::-1].copy())
def rotating_state(x, y):
    """Values go around: only after three iterations has everything met."""
    z = gt.zeros_like(x)
    for _ in gt.range(4):
        x, y, z = y, z + x, gt.sin(x)
    return z


@program(VECTOR, slopes=False)
def stopped(x):
    y = x
    for _ in gt.range(3):
        y = y * gt.stop_gradient(y) + x
    return y


@program(VECTOR, VECTOR, slopes=False)
def only_one_matters(x, y):
    kept = y
    for _ in gt.range(3):
        x = gt.sin(x)
        kept = kept * 2.0
    return x + gt.stop_gradient(kept)


@program(VECTOR)
def folds(x):
    total = gt.foldl(lambda a, v: a * v + gt.sin(v), x, gt.constant(1.0, gt.float64))
    return total, gt.scan(lambda a, v: a + v * v, x), gt.map_fn(lambda v: gt.exp(v) * v, x)


# -- lists and arrays ------------------------------------------------------------------------------------------------------


@program(VECTOR)
def list_filled_and_read(x):
    out = []
    for i in gt.range(3):
        out.append(x[i] * x[i])
    s = gt.constant(0.0, gt.float64)
    for v in out:
        s = s * v + v
    return s, gt.stack(out)


@program(LONG)
def list_as_a_stack(x):
    items = [x[0], x[1]]
    for v in x:
        if v > 0.0:
            items.append(v * v)
        else:
            items.append(items.pop() * gt.sin(v))
    items[0] = items[0] * items[1]
    return gt.stack(items)


@program(VECTOR)
@program(-VECTOR)
def list_replaced_in_a_branch(x):
    items = []
    for i in gt.range(3):
        items.append(gt.exp(x[i]))
    if x[0] > 0.0:
        items = [x[0] * x[1]]
    items.append(x[2])
    return gt.stack(items)


@program(VECTOR)
def list_overwritten(x):
    items = []
    for i in gt.range(3):
        items.append(x[i])
    for i in gt.range(1, 3):
        items[i] = items[i] * items[i - 1]
    return gt.stack(items)


@program(LONG, 4)
@program(LONG, 0)
def parts_of_many_sizes(x, n):
    out = [x[:1]]
    for i in gt.range(gt.constant(n)):
        out.append(x[: i + 1] * x[i])
    return gt.concat(out, 0)


@program(LONG)
def masks_in_a_loop(x):
    s = gt.constant(0.0, gt.float64)
    for i in gt.range(3):
        s = s + gt.reduce_sum(x[x > 0.1 * gt.cast(i, gt.float64)] ** 2)
        x = x * 0.9
    return s


@program(LONG)
def elements_written(x):
    y = gt.zeros_like(x)
    for i in gt.range(1, 5):
        y[i] = y[i - 1] * x[i] + x[i - 1]
    y[1:3] += x[0]
    return y


@program(LONG)
def slices_written_in_branches(x):
    for i in gt.range(4):
        if x[i] > 0.5:
            x[i] = x[i] * x[i + 1]
        x[i:] *= 1.1
    return x


@program(MATRIX)
def tensor_array(a):
    states = gt.TensorArray(gt.float64, size=0, dynamic_size=True)
    y = a[0]
    for i in gt.range(3):
        y = gt.linalg.matvec(a, y)
        states = states.write(i, y * y)
    return states.stack() * states.read(1)


# -- calls, custom gradients, derivatives inside -----------------------------------------------------------------------------

sine = gt.function(lambda v: gt.sin(v) * v)
positive = gt.function(lambda v: v[v > 0.0] * 2.0)
recomputed = gt.recompute_grad(gt.function(lambda v, w: gt.sin(v * w) * v))


@gt.function(input_signature=[ANY])
def halves(v):
    """A called function of unknown size, with a branch."""
    if v[0] > 0.0:
        v = v * v
    return v / 2.0


@gt.custom_gradient
def cube(v):
    return v * v * v, lambda ct: 3.0 * v * v * ct


@gt.custom_gradient
def odd_rule(v):
    """A derivative that is not the derivative: whoever drops the rule is found out."""
    return gt.exp(v), lambda ct: ct * gt.sin(v)


@program(VECTOR)
def calls(x):
    y = sine(x)
    for _ in gt.range(2):
        y = sine(y) + x
    if y[0] > 0.0:
        y = sine(y)
    return y


@program(LONG, VECTOR)
def one_callee_two_sizes(x, y):
    one, other = positive(x), positive(-x)  # of one type, but not of one size
    product = gt.reduce_sum(one**2) * gt.reduce_sum(gt.exp(other))
    return product, gt.reduce_sum(positive(y) ** 3) * one, gt.concat([other, one], 0)


@program(LONG, VECTOR)
def callee_of_unknown_size(x, y):
    return halves(x), gt.reduce_sum(halves(y)), halves(-x)


@program(VECTOR, VECTOR)
def calls_run_again(x, w):
    y = recomputed(x, w)
    for _ in gt.range(2):
        y = recomputed(y, w)
    return y


@program(VECTOR)
def custom(x):
    y = x
    for _ in gt.range(2):
        y = cube(y) + x
    if x[0] > 0.0:
        y = cube(y)
    return y


@program(VECTOR)
def gradient_in_a_loop(x):
    """Descent: each step takes a gradient, the whole is differentiated again."""
    for _ in gt.range(3):
        with gt.GradientTape() as tape:
            tape.watch(x)
            loss = gt.reduce_sum(gt.sin(x) * x)
        x = x - 0.1 * tape.gradient(loss, x)
    return x


@program(np.float64(0.8))
def newton(a):
    """Two derivatives inside a loop whose length depends on them."""
    x = a * 1.0  # another tensor: what the tape watches is x alone
    step = gt.constant(1.0, gt.float64)
    n = 0
    while gt.abs(step) > 1e-4 and n < 4:
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as tape:
                tape.watch(x)
                f = gt.exp(x) - a * x - 1.5
            slope = tape.gradient(f, x)
        step = f / slope * 0.5
        x = x - step + 0.01 * outer.gradient(slope, x)
        n += 1
    return x


@program(VECTOR)
def loop_in_a_tape_in_a_loop(x):
    y = x * 1.0  # another tensor: what the tape watches is y alone
    for _ in gt.range(2):
        with gt.GradientTape() as tape:
            tape.watch(y)
            z = y
            for v in x:
                z = gt.sin(z) * v + y
        y = tape.gradient(z, y) * y
    return y


@program(VECTOR)
def forward_mode_in_a_loop(x):
    for _ in gt.range(2):
        with gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)) as acc:
            y = gt.sin(x) * x
        x = x + 0.1 * acc.jvp(y)
    return x


@program(VECTOR)
def jacobian_inside(x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.sin(x) * gt.reduce_sum(x)
    return tape.jacobian(y, x)


@program(VECTOR)
def jacobian_of_a_loop_inside(x):
    """The rows of the Jacobian go through a loop with a branch and a list, all at once."""
    with gt.GradientTape() as tape:
        tape.watch(x)
        items = []
        y = x
        for v in x:
            if v > 0.0:
                y = sine(y) * v
            items.append(y[0])
        z = y * gt.reduce_sum(gt.stack(items))
    return tape.jacobian(z, x)


@program(VECTOR[:2], order=1)
def jacobian_in_a_loop(x):
    for _ in gt.range(2):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y, k = cube(x), gt.constant(0)
            while k < 2:
                y = y * gt.sin(x)
                k += 1
        x = gt.linalg.matvec(tape.jacobian(y, x), x) * 0.1 + x
    return x


@program(MATRIX)
def vectorized_inside(a):
    rows = gt.vectorized_map(lambda row: gt.sin(row) * gt.reduce_sum(row * row), a)
    for _ in gt.range(2):
        rows = gt.vectorized_map(lambda row: row * gt.cos(row), rows)
    return rows


@program(VECTOR, slopes=False)
def custom_rules_kept(x):
    y = odd_rule(x) * x
    for v in x:
        if v > 0.0:
            y = odd_rule(y * 0.1) + v
    return y


def wandering(row):
    y = row
    for i in gt.range(3):
        if i > 0:
            y = gt.sin(y) * row[0]
        y = sine(y)
    return y


@program(MATRIX)
def vectorized_loops(a):
    return gt.vectorized_map(wandering, a)


@program(MATRIX)
def gradients_of_examples(a):
    """A tape for each example, around a loop, in a loop."""

    def one(row):
        with gt.GradientTape() as tape:
            tape.watch(row)
            y = wandering(row) * gt.reduce_sum(a)
        return tape.gradient(y, row)

    for _ in gt.range(2):
        a = a + 0.1 * gt.vectorized_map(one, a)
    return a


# -- complex numbers ---------------------------------------------------------------------------------------------------------


@program(COMPLEX)
def complex_loop(z):
    w = z
    for i in gt.range(3):
        if gt.abs(w[0]) < 1.0:
            w = w * w + z
        else:
            w = gt.exp(w) * gt.cast(i, gt.complex128)
    return w, gt.abs(w)
