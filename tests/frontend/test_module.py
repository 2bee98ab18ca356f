"""Module: what it finds, in which order, and names."""

import copy
import pickle

import pytest

import gradtape as gt


class Dense(gt.Module):
    def __init__(self, n, m, name=None):
        super().__init__(name=name)
        self.w = gt.Variable(gt.ones((n, m)), name="w")
        self.b = gt.Variable(gt.zeros(m), name="b")

    def __call__(self, x):
        return x @ self.w + self.b


class Net(gt.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Dense(2, 3), Dense(3, 1)]
        self.scale = gt.Variable(1.0, name="scale")
        self.steps = gt.Variable(0, trainable=False, name="steps")
        self.extra = {"z": (Dense(1, 1),), "a": gt.Variable(2.0, name="a")}

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * self.scale


def names(variables):
    return [v.name.removesuffix(":0") for v in variables]


def test_order_is_own_variables_first_then_submodules_sorted():
    net = Net()
    assert names(net.variables) == ["a", "scale", "steps", "b", "w", "b", "w", "b", "w"]
    assert names(net.trainable_variables) == ["a", "scale", "b", "w", "b", "w", "b", "w"]
    assert names(net.non_trainable_variables) == ["steps"]
    assert net.submodules == (net.extra["z"][0], *net.layers)
    assert net.variables[3] is net.extra["z"][0].b
    assert isinstance(net.variables, tuple)


def test_shared_objects_appear_once_and_cycles_end():
    net = Net()
    net.again = net.layers[0]
    net.myself = net
    net.layers[0].parent = net
    net.loop = []
    net.loop.append(net.loop)
    assert len(net.variables) == 9
    assert len(net.submodules) == 3
    assert net not in net.submodules


def test_attributes_that_are_not_variables_are_ignored():
    net = Dense(1, 1)
    net.text, net.number, net.nothing, net.tensor = "w", 3, None, gt.constant(1.0)
    assert names(net.variables) == ["b", "w"]


def test_deleting_and_replacing_attributes():
    net = Dense(1, 1)
    del net.b
    net.w = gt.Variable(1.0, name="new")
    assert names(net.variables) == ["new"]


def test_training_a_module():
    net = Net()
    x = gt.constant([[1.0, -1.0]])
    with gt.GradientTape() as tape:
        loss = gt.reduce_sum(net(x))
    grads = tape.gradient(loss, net.trainable_variables, unconnected_gradients="zero")
    assert len(grads) == len(net.trainable_variables)
    assert all(g.shape == v.shape for g, v in zip(grads, net.trainable_variables, strict=True))


def test_names():
    class CamelCaseHTTPModule(gt.Module):
        pass

    assert CamelCaseHTTPModule().name == "camel_case_http_module"
    assert Dense(1, 1, name="first").name == "first"
    with pytest.raises(ValueError, match="'not valid' is not a valid module name"):
        gt.Module(name="not valid")


def test_module_without_super_init():
    class Bare(gt.Module):
        def __init__(self):
            self.v = gt.Variable(1.0, name="v")

    bare = Bare()
    assert bare.name == "bare"
    assert names(bare.variables) == ["v"]
    with bare.name_scope:
        assert gt.Variable(1.0, name="x").name == "bare/x:0"


def test_name_scope_prefixes_variables():
    class Scoped(gt.Module):
        @gt.Module.with_name_scope
        def build(self):
            self.v = gt.Variable(1.0, name="v")
            return self.v.name

    assert Scoped(name="part").build() == "part/v:0"
    with gt.name_scope("outer"):
        inner = Scoped()
    assert inner.build() == "outer/scoped/v:0"
    assert inner.name_scope.name == "outer/scoped/"
    assert Scoped.build.__name__ == "build"


def test_deepcopy_and_pickle():
    net = Dense(2, 2)
    twin = copy.deepcopy(net)
    twin.w.assign_add(gt.ones((2, 2)))
    assert net.w.numpy()[0, 0] == 1.0
    assert twin.w.numpy()[0, 0] == 2.0
    back = pickle.loads(pickle.dumps(net))
    assert names(back.variables) == ["b", "w"]
