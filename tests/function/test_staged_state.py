"""Python state written on paths that may not be taken: each call starts from what is there and leaves what eager code would."""

import copy

import numpy as np
import pytest

import gradtape as gt

INPUTS = (1.0, -1.0, 2.0, 0.5)


class Everything:
    def __init__(self):
        self.count = 0
        self.total = 0.0
        self.table = {"hits": 0, "scale": 2.5}
        self.items = [1, 2]
        self.tensor = gt.constant(1.0)
        self.seen = False
        self.steps = 3

    def step(self, x):
        if x > 0:
            self.count += 1
            self.table["hits"] += 1
            self.items[1] = self.items[1] + 1
            self.tensor = self.tensor + x
            self.seen = True
        self.total = self.total + x * 2.0
        self.table["scale"] = self.table["scale"] * 2
        while x < 3.0:
            x = x + 1.0
            self.steps = self.steps + 1
        return x * self.table["scale"] + self.steps

    def state(self):
        numbers = (self.count, self.table, self.items, self.seen, int(self.steps))
        return numbers, float(self.total), float(self.tensor)


def test_state_in_branches_and_loops():
    eager, compiled = Everything(), Everything()
    step = gt.function(compiled.step)
    for value in INPUTS:
        x = gt.constant(value)
        assert float(step(x)) == float(eager.step(x))
        assert compiled.state() == eager.state()
    assert [type(v) for v in (compiled.count, compiled.seen, compiled.steps)] == [int, bool, int]
    assert isinstance(compiled.total, gt.Tensor)  # a tensor went into it, as in eager code


def test_a_number_that_became_a_tensor_passes_gradients_on():
    class Model:
        total = 0.0

        @gt.function
        def add(self, x):
            self.total = self.total + x * 2.0
            return x

    model, x = Model(), gt.constant(3.0)
    with gt.GradientTape() as tape:
        tape.watch(x)
        model.add(x)
        model.add(x)
        y = model.total * 1.0
    assert float(y) == 12.0
    assert float(tape.gradient(y, x)) == 4.0


def test_a_dict_keyed_by_the_loop_index():
    @gt.function
    def f(x):
        parts = {}
        for i, v in enumerate(x):
            parts[i] = v * 2.0
        return parts[0] + parts[2]

    assert float(f(gt.constant([1.0, 5.0, 3.0]))) == 8.0


def test_a_numpy_array_cannot_hold_a_traced_value():
    @gt.function
    def f(x):
        a = np.zeros(3)
        a[0] = x
        return a

    with pytest.raises(gt.errors.InvalidArgumentError, match="make it a tensor"):
        f(gt.constant(1.0))


def test_branches_of_different_ranks_are_refused_with_line_and_cure():
    @gt.function
    def f(x):
        y = x
        if gt.reduce_sum(x) > 0:
            y = x[0]
        return y

    with pytest.raises(ValueError, match=r"line \d+: `y` has shape \(\) on one path and shape \(3,\).*same rank"):
        f(gt.constant([1.0, 2.0, 3.0]))


# -- gradients and hessians without a tape --------------------------------------------------------------------------


def test_gradients_inside_a_function():
    @gt.function
    def f(x, w):
        y = gt.sin(x * w)
        for _ in gt.range(3):
            y = y * w
        return gt.gradients(y, [x, w]), gt.gradients(y, x, grad_ys=gt.constant(3.0))[0]

    x, w = gt.constant(0.7), gt.constant(1.3)
    with gt.GradientTape() as tape:
        tape.watch([x, w])
        y = gt.sin(x * w) * w * w * w
    expected = tape.gradient(y, [x, w])
    found, scaled = f(x, w)
    np.testing.assert_allclose([float(g) for g in found], [float(g) for g in expected], rtol=1e-5)
    np.testing.assert_allclose(float(scaled), 3.0 * float(expected[0]), rtol=1e-5)


def test_gradients_stop_and_unconnected():
    @gt.function
    def f(x, z):
        y = x * x
        return (
            gt.gradients(y * x, x, stop_gradients=[y])[0],
            gt.gradients(y, z),
            gt.gradients(y, z, unconnected_gradients="zero")[0],
        )

    stopped, nothing, zero = f(gt.constant(3.0), gt.constant(1.0))
    assert float(stopped) == 9.0
    assert nothing == [None]
    assert float(zero) == 0.0


def test_hessians_inside_a_function():
    @gt.function
    def f(x):
        return gt.hessians(gt.reduce_sum(x**3.0), x)[0]

    np.testing.assert_allclose(f(gt.constant([1.0, 2.0])).numpy(), [[6.0, 0.0], [0.0, 12.0]])


def test_gradients_outside_a_function():
    with pytest.raises(RuntimeError, match="GradientTape"):
        gt.gradients(gt.constant(1.0), gt.constant(1.0))


def test_deep_copies_are_not_connected_to_what_they_were_copied_from():
    def f(x):
        d = {"a": [x[0]], "t": x * 1.0}
        deep, shallow = copy.deepcopy(d), copy.copy(d)
        if x[0] > 0.5:
            d["a"][0] = x[1]
            d["t"][1] = x[0]
        return d["t"] * deep["t"] * shallow["t"] + d["a"][0] * shallow["a"][0]

    for values in ([0.3, 0.8], [1.3, 0.7]):
        x = gt.constant(values)
        answers = []
        for function in (f, gt.function(f)):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            answers.append((y.numpy(), tape.gradient(y, x).numpy()))
        np.testing.assert_allclose(answers[1][0], answers[0][0], rtol=1e-6)
        np.testing.assert_allclose(answers[1][1], answers[0][1], rtol=1e-6)
