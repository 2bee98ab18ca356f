"""Random programs of loops, branches and mutation: the eager gradient equals finite differences, however it is asked."""

import numpy as np
from hypothesis import HealthCheck, given, settings, strategies as st

import gradtape as gt
from gradtape.core.record import RecordList
from tests.tape.util import TOLERANCE, close, numeric_gradient, wide

SIZE = 3

place = st.integers(0, SIZE - 1)
leafs = st.sampled_from(["sin", "tanh", "square", "exp", "scale", "shift"])
steps = st.deferred(
    lambda: st.one_of(
        st.tuples(st.just("unary"), leafs),
        st.tuples(st.just("setitem"), place, place, leafs),
        st.tuples(st.just("setslice"), st.sampled_from(["add", "mul"])),
        st.tuples(st.just("append")),
        st.tuples(st.just("replace"), place),
        st.tuples(st.just("collect")),
        st.tuples(st.just("assign"), leafs),
        st.tuples(st.just("assign_add"), place),
        st.tuples(st.just("array")),
        st.tuples(st.just("custom")),
        st.tuples(st.just("recompute"), leafs),
        st.tuples(st.just("inner"), leafs),
        st.tuples(st.just("loop"), st.integers(0, 3), st.lists(steps, max_size=3)),
        st.tuples(st.just("branch"), place, st.lists(steps, max_size=2), st.lists(steps, max_size=2)),
    )
)
programs = st.lists(steps, min_size=1, max_size=7)


def unary(name, x):
    return {
        "sin": lambda: gt.sin(x), "tanh": lambda: gt.tanh(x), "square": lambda: x * x * 0.5, "exp": lambda: gt.exp(x * 0.3),
        "scale": lambda: x * 0.7, "shift": lambda: x + 0.4,
    }[name]()  # fmt: skip


@gt.custom_gradient
def doubled(x):
    return x * x, lambda upstream: upstream * 2.0 * x


class Machine:
    """What a program works on: a tensor, a list of tensors and a variable."""

    def __init__(self, x, v=None):
        self.t = x * 1.0
        self.parts = [x]
        self.v = gt.Variable(np.full(SIZE, 0.3), trainable=False) if v is None else v

    def run(self, program):
        for step in program:
            getattr(self, step[0])(*step[1:])
            self.t = gt.tanh(self.t) * 1.5  # keeps numbers tame
        return gt.reduce_sum(self.t * self.v) + sum(gt.reduce_sum(gt.sin(p)) for p in self.parts)

    def unary(self, name):
        self.t = unary(name, self.t)

    def setitem(self, i, j, name):
        self.t[i] = unary(name, self.t[j]) + self.t[i]

    def setslice(self, how):
        if how == "add":
            self.t[1:] += self.t[:-1]
        else:
            self.t[:2] *= self.v[1:]

    def append(self):
        self.parts.append(self.t)
        self.t = self.t + 0.1  # a new object: the one in the list stays

    def replace(self, i):
        self.parts[-1] = self.parts[-1][i] * self.t

    def collect(self):
        self.t = gt.reduce_mean(gt.stack([self.parts[-1], self.t]), 0)

    def assign(self, name):
        self.v.assign(unary(name, self.t) * 0.5)

    def assign_add(self, i):
        self.v.assign_add(gt.tanh(self.v) * self.t[i] * 0.2)

    def array(self):
        ta = gt.TensorArray(gt.float64, size=2)
        ta.write(0, self.t).write(1, self.v * 2.0)
        self.t = gt.reduce_sum(ta.stack(), 0) * ta.read(0)

    def custom(self):
        self.t = doubled(self.t) * 0.5

    def recompute(self, name):
        v = self.v
        self.t = gt.recompute_grad(lambda s: unary(name, s) * v + s[::-1])(self.t)

    def inner(self, name):
        with gt.GradientTape() as tape:
            tape.watch(self.t)
            y = gt.reduce_sum(unary(name, self.t) * self.t)
        self.t = tape.gradient(y, self.t) * 0.5

    def loop(self, count, body):
        for _ in range(count):
            for step in body:
                getattr(self, step[0])(*step[1:])
            self.t = gt.tanh(self.t)

    def branch(self, i, yes, no):
        # the threshold is far from any reachable tie with probability one
        for step in yes if self.t[i] > 0.0123456789 else no:
            getattr(self, step[0])(*step[1:])


def evaluate(program, x):
    return Machine(x).run(program)


X = np.array([0.31, -0.52, 0.77])
WEIGHTS = np.array([1.0, -0.5, 0.25])
checked = settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)


def gradient(program, x):
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = evaluate(program, x)
    return tape.gradient(y, x, unconnected_gradients="zero")


@checked
@given(programs)
def test_gradient_equals_finite_differences(program):
    close(gradient(program, wide(X)), numeric_gradient(lambda x: evaluate(program, x), X), TOLERANCE)


@checked
@given(programs)
def test_gradient_does_not_depend_on_sweeping(program):
    expected = gradient(program, wide(X)).numpy()
    floor, RecordList.FLOOR = RecordList.FLOOR, 0
    try:
        swept = gradient(program, wide(X))
    finally:
        RecordList.FLOOR = floor
    close(swept, expected)


@checked
@given(programs)
def test_forward_mode_equals_reverse_mode(program):
    x = wide(X)
    with gt.autodiff.ForwardAccumulator(x, wide(WEIGHTS)) as acc:
        y = evaluate(program, x)
    close(acc.jvp(y, unconnected_gradients="zero"), float(gradient(program, wide(X)).numpy() @ WEIGHTS), 1e-10)


@settings(checked, max_examples=40)
@given(programs)
def test_second_order_by_three_routes(program):
    x = wide(X)
    with gt.GradientTape() as outer:
        outer.watch(x)
        s = gt.reduce_sum(gradient(program, x) * WEIGHTS)
    nested = outer.gradient(s, x, unconnected_gradients="zero").numpy()
    close(nested, numeric_gradient(lambda z: gt.reduce_sum(gradient(program, z) * WEIGHTS), X), TOLERANCE)

    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = evaluate(program, x)
    g = tape.gradient(y, x, unconnected_gradients="zero")
    close(tape.gradient(g, x, output_gradients=WEIGHTS, unconnected_gradients="zero"), nested, 1e-10)

    with gt.autodiff.ForwardAccumulator(x, wide(WEIGHTS)) as acc:
        g = gradient(program, x)
    close(acc.jvp(g, unconnected_gradients="zero"), nested, 1e-10)
