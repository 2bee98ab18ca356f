"""A checkpoint restored before the variables exist was silently forgotten; generators' state was not saved at all."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.variables.variable import NEWCOMERS

Checkpoint = gt.train.Checkpoint


class Dense(gt.Module):
    """Makes its variables with the first call, as layers do."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.built = False

    def __call__(self, x: Any) -> Any:
        if not self.built:
            self.w = gt.Variable(gt.ones((x.shape[-1], self.width)), name="w")
            self.b = gt.Variable(gt.zeros(self.width), name="b")
            self.built = True
        return x @ self.w + self.b


class Net(gt.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [Dense(3), Dense(2)]
        self.extra: dict[str, Any] = {}
        self.alias: Any = None

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        if "scale" not in self.extra:
            self.extra["scale"] = gt.Variable(1.0)
        self.alias = self.layers[0]  # sorted before `layers`: what is saved under it is found by another path later
        return x * self.extra["scale"]


X = np.linspace(-1.0, 1.0, 8, dtype=np.float32).reshape(2, 4)


def trained(tmp_path: Path, **more: Any) -> tuple[Net, str]:
    net = Net()
    net(X)
    for i, v in enumerate(net.variables):
        v.assign(v + 0.25 * (i + 1))
    return net, Checkpoint(net=net, **more).write(tmp_path / "state")


@pytest.fixture(autouse=True)
def _nothing_waits_afterwards() -> Any:
    yield
    gc.collect()
    gt.Variable(1.0).numpy()  # asks, and finds that the objects are gone
    assert NEWCOMERS == []


def test_variables_made_after_restore(tmp_path: Path) -> None:
    net, path = trained(tmp_path)
    fresh = Net()
    status = Checkpoint(net=fresh).restore(path)  # the checkpoint itself is dropped at once
    with pytest.raises(AssertionError, match=r"no object took: .*net/alias/w"):
        status.assert_consumed()
    np.testing.assert_array_equal(fresh(X).numpy(), net(X).numpy())
    status.assert_consumed()
    assert [v.numpy().tolist() for v in fresh.variables] == [v.numpy().tolist() for v in net.variables]


def test_compiled_functions_and_gradients_see_the_restored_values(tmp_path: Path) -> None:
    net, path = trained(tmp_path)
    fresh = Net()
    Checkpoint(net=fresh).restore(path)
    for layer in fresh.layers:
        layer(X[:, : 4 if layer.width == 3 else 3])
    fresh.extra["scale"] = gt.Variable(1.0)
    f = gt.function(lambda x: fresh(x))
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(f(X))
    grads = tape.gradient(y, fresh.trainable_variables)
    with gt.GradientTape() as tape:
        expected = gt.reduce_sum(net(X))
    np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-6)
    for g, e in zip(grads, tape.gradient(expected, net.trainable_variables), strict=True):
        np.testing.assert_allclose(g.numpy(), e.numpy(), rtol=1e-6)


def test_a_value_assigned_later_wins(tmp_path: Path) -> None:
    path = Checkpoint(m=_holding(3.0)).write(tmp_path / "state")
    model = gt.Module()
    Checkpoint(m=model).restore(path)
    model.v = gt.Variable(0.0)
    model.v.assign_add(1.0)
    assert float(model.v) == 4.0


def _holding(value: Any) -> gt.Module:
    model = gt.Module()
    model.v = gt.Variable(value)
    return model


def test_a_variable_read_before_it_has_its_place(tmp_path: Path) -> None:
    path = Checkpoint(m=_holding(3.0)).write(tmp_path / "state")
    model = gt.Module()
    Checkpoint(m=model).restore(path)
    other, v = gt.Variable(7.0), gt.Variable(0.0)
    assert (float(v), float(other)) == (0.0, 7.0)
    model.v = v
    assert (float(v), float(other)) == (3.0, 7.0)
    assert type(v) is gt.Variable


def test_optimizer_made_after_restore(tmp_path: Path) -> None:
    model = _holding([1.0, 2.0])
    model.optimizer = gt.optimizers.Adam(0.125)
    model.optimizer.apply_gradients([(gt.constant([1.0, -1.0]), model.v)])
    path = Checkpoint(m=model).write(tmp_path / "state")
    fresh = gt.Module()
    Checkpoint(m=fresh).restore(path)
    fresh.v, fresh.optimizer = gt.Variable([0.0, 0.0]), gt.optimizers.Adam(0.5)
    for m in (model, fresh):
        m.optimizer.apply_gradients([(gt.constant([0.5, 2.0]), m.v)])
    np.testing.assert_array_equal(model.v.numpy(), fresh.v.numpy())


def test_what_does_not_fit_is_told_at_each_use(tmp_path: Path) -> None:
    path = Checkpoint(m=_holding([1.0, 2.0])).write(tmp_path / "state")
    model = gt.Module()
    Checkpoint(m=model).restore(path)
    model.v = gt.Variable(0.0, name="theta")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"variable 'theta:0' \('m/v'\) has shape \(\).*holds shape \(2,\)"):
            float(model.v)


def test_a_restore_keeps_no_model_alive(tmp_path: Path) -> None:
    path = Checkpoint(m=_holding(3.0)).write(tmp_path / "state")
    model = gt.Module()
    Checkpoint(m=model).restore(path)
    gone = weakref.ref(model)
    del model
    assert gone() is None


def test_a_second_restore_replaces_the_first(tmp_path: Path) -> None:
    first = Checkpoint(m=_holding(3.0)).write(tmp_path / "first")
    second = Checkpoint(m=_holding(5.0)).write(tmp_path / "second")
    model = gt.Module()
    checkpoint = Checkpoint(m=model)
    checkpoint.restore(first)
    checkpoint.restore(second)
    model.v = gt.Variable(0.0)
    assert float(model.v) == 5.0


def test_generators_go_on_where_they_were(tmp_path: Path) -> None:
    generator = gt.random.Generator.from_seed(3)
    generator.normal([2])
    model = _holding(1.0)
    model.noise = gt.random.Generator.from_seed(4)
    path = Checkpoint(generator=generator, m=model).write(tmp_path / "state")
    expected = [generator.normal([3]).numpy(), model.noise.uniform([3]).numpy()]
    Checkpoint(generator=generator, m=model).restore(path).assert_consumed()
    np.testing.assert_array_equal(generator.normal([3]).numpy(), expected[0])
    np.testing.assert_array_equal(model.noise.uniform([3]).numpy(), expected[1])
    saved = gt.load(gt.save(tmp_path / "structure", {"g": generator}))
    again = gt.random.Generator.from_state(saved["g"]["state"])
    np.testing.assert_array_equal(again.normal([3]).numpy(), generator.normal([3]).numpy())


def test_attributes_set_later_belong_to_the_checkpoint(tmp_path: Path) -> None:
    """TensorFlow's guide on delayed restorations: `layer = Checkpoint(bias=b)`, restored, then `layer.kernel = …`."""
    layer = Checkpoint(bias=gt.Variable([1.0]))
    layer.kernel = gt.Variable([[2.0, 3.0]])
    root = Checkpoint()
    root.net, root.step = Checkpoint(l1=layer), gt.Variable(4)
    path = root.save(tmp_path / "c")

    other_layer = Checkpoint(bias=gt.Variable([0.0]))
    other = Checkpoint(net=Checkpoint(l1=other_layer))
    other.restore(path)
    kernel, step = gt.Variable([[0.0, 0.0]]), gt.Variable(0)
    other_layer.kernel, other.step = kernel, step
    np.testing.assert_array_equal(kernel, [[2.0, 3.0]])
    assert (int(step), float(other_layer.bias[0])) == (4, 1.0)

    empty = Checkpoint()
    empty.restore(path)
    assert float(gt.Variable(7.0)) == 7.0  # one that has no place in it
    empty.step = gt.Variable(0)
    assert int(empty.step) == 4
