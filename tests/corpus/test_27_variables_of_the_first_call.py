"""Variables made at the first call under a Python condition were refused when the condition was a flag that the function sets.

`if not self.built: self.w = gt.Variable(…); self.built = True` in a `@gt.function` method made the flag an input of the program
and the creation a staged branch. The trace that makes the variables now leaves what it wrote in Python, and is made again.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import COMPILED

X = np.array([[0.3, -0.8, 1.2], [0.5, 0.1, -0.4]])
modes = pytest.mark.parametrize("mode", COMPILED)


class Dense(gt.Module):
    """The layer of TensorFlow's guide to modules; it also counts its calls and remembers a size."""

    def __init__(self, flag_first: bool = False) -> None:
        super().__init__()
        self.built = False
        self.calls = 0
        self.flag_first = flag_first

    def __call__(self, x):
        self.calls += 1
        if not self.built:
            if self.flag_first:
                self.built = True
            self.features = x.shape[-1]
            self.w = gt.Variable(gt.reshape(gt.range(6.0, dtype=gt.float64), [self.features, 2]) * 0.1, name="w")
            self.b = gt.Variable(gt.zeros([2], gt.float64), name="b")
            self.built = True
        return gt.tanh(x @ self.w + self.b) * float(self.features)


def derivatives(layer, call):
    """Value, gradients and second derivatives in the layer's variables, of calls one after the other."""
    kept = []
    for _ in range(3):
        with gt.GradientTape() as outer:
            with gt.GradientTape() as inner:
                y = gt.reduce_sum(call(gt.constant(X)) ** 2)
            first = inner.gradient(y, [layer.w, layer.b])
            total = gt.add_n([gt.reduce_sum(g * g) for g in first])
        kept.append([y.numpy(), *(g.numpy() for g in first), *(h.numpy() for h in outer.gradient(total, [layer.w, layer.b]))])
        layer.w.assign_sub(0.1 * first[0])
    return kept


@modes
@pytest.mark.parametrize("flag_first", [False, True])
def test_a_layer_that_is_built_at_its_first_call(mode, flag_first):
    expected_layer, layer = Dense(flag_first), Dense(flag_first)
    expected = derivatives(expected_layer, expected_layer)
    call = gt.function(layer.__call__, **COMPILED[mode])
    for actual, wanted in zip(derivatives(layer, call), expected, strict=True):
        for a, b in zip(actual, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    assert layer.built is True
    assert (layer.calls, layer.features) == (expected_layer.calls, expected_layer.features)
    assert [v.name for v in layer.trainable_variables] == ["b:0", "w:0"]
    assert call.experimental_get_tracing_count() == 1


@modes
def test_other_sizes_of_the_batch_use_the_same_variables(mode):
    layer = Dense()
    call = gt.function(layer.__call__, **COMPILED[mode])
    call(gt.constant(X))
    made = layer.w
    call(gt.constant(X[:1]))
    assert layer.w is made
    assert layer.calls == 2


def test_a_checkpoint_has_them(tmp_path):
    layer, other = Dense(), Dense()
    gt.function(layer.__call__)(gt.constant(X))
    layer.w.assign_add(gt.ones([3, 2], gt.float64))
    path = gt.train.Checkpoint(layer=layer).write(str(tmp_path / "layer"))
    gt.function(other.__call__)(gt.constant(X))
    gt.train.Checkpoint(layer=other).read(path)
    np.testing.assert_array_equal(other.w.numpy(), layer.w.numpy())


class Holder:
    def __init__(self):
        self.v = None


def by_none(holder, x):
    if holder.v is None:
        holder.v = gt.Variable(2.0, dtype=gt.float64)
        holder.seen = "yes"
    assert holder.seen == "yes"
    return holder.v * x


def by_missing_attribute(holder, x):
    if not hasattr(holder, "w"):
        holder.w = gt.Variable(2.0, dtype=gt.float64)
    return holder.w * x


@modes
@pytest.mark.parametrize("step", [by_none, by_missing_attribute])
def test_other_ways_to_say_it(mode, step):
    holder = Holder()
    function = gt.function(lambda x: step(holder, x), **COMPILED[mode])
    assert [float(function(gt.constant(3.0, gt.float64))) for _ in range(3)] == [6.0, 6.0, 6.0]


@modes
@pytest.mark.parametrize("kind", [list, dict])
def test_variables_in_a_list_or_dict(mode, kind):
    made = kind()

    @gt.function(**COMPILED[mode])
    def f(x):
        if not made:
            if isinstance(made, list):
                made.append(gt.Variable(2.0, dtype=gt.float64))
            else:
                made[0] = gt.Variable(2.0, dtype=gt.float64)
        return made[0] * x

    x = gt.constant(3.0, gt.float64)
    for _ in range(3):
        with gt.GradientTape() as tape:
            y = f(x)
        assert float(y) == 6.0
        assert float(tape.gradient(y, made[0])) == 3.0
    assert len(made) == 1


def test_a_variable_made_at_every_call_is_refused_with_its_line():
    @gt.function
    def f(x):
        v = gt.Variable(2.0)
        return v * x

    line = f.python_function.__code__.co_firstlineno + 2
    with pytest.raises(ValueError, match=rf"{__file__}:{line}: the function f creates variables each time it is called"):
        f(gt.constant(1.0))


class Scaled(gt.Module):
    """A layer that also remembers something at its first call."""

    def __init__(self, remembered, before=None):
        super().__init__()
        self.built = False
        self.remembered = remembered
        self.notes = []
        if before is not None:
            self.scale = before

    def __call__(self, x):
        if not self.built:
            self.w = gt.Variable(2.0, dtype=gt.float64)
            self.scale = self.remembered(x)
            self.built = True
        return self.w * x * self.scale


@modes
@pytest.mark.parametrize("before", [None, 0.0])
def test_a_tensor_of_the_trace_that_makes_the_variables_is_refused_by_name(mode, before):
    """It was dropped without a word, and the next line failed: "no attribute 'scale'"."""
    layer = Scaled(lambda x: x * 2.0, before)
    call = gt.function(layer.__call__, **COMPILED[mode])
    line = Scaled.__call__.__code__.co_firstlineno + 3
    for _ in range(2):
        with pytest.raises(
            gt.errors.InaccessibleTensorError,
            match=rf"{__file__}:{line}: `Scaled.scale` is set to a tensor only where .*gt\.Variable",
        ):
            call(gt.constant(3.0, gt.float64))
        assert layer.built is False


@modes
@pytest.mark.parametrize("remembered", [lambda x: gt.constant(2.0, gt.float64) * 3.0, lambda x: 6.0, lambda x: np.float64(6.0)])
def test_constants_of_that_trace_stay(mode, remembered):
    layer = Scaled(remembered)
    call = gt.function(layer.__call__, **COMPILED[mode])
    assert [float(call(gt.constant(k, gt.float64))) for k in (1.0, 2.0)] == [12.0, 24.0]
    assert float(layer.scale) == 6.0


@modes
def test_what_is_set_at_every_call_is_no_matter(mode):
    class Last(gt.Module):
        def __init__(self):
            super().__init__()
            self.v = None
            self.last = None

        def __call__(self, x):
            if self.v is None:
                self.v = gt.Variable(2.0, dtype=gt.float64)
            self.last = x * self.v
            return self.last + 1.0

    layer = Last()
    call = gt.function(layer.__call__, **COMPILED[mode])
    assert [float(call(gt.constant(k, gt.float64))) for k in (1.0, 2.0)] == [3.0, 5.0]
    assert float(layer.last) == 4.0
