"""State that changes between calls: the function gives what the undecorated one gives, however the state is reached.

Each case is a body and a list of changes; after each change the compiled and the plain function are compared.
"""

import dataclasses
import enum
import functools
import types

import numpy as np
import pytest

import gradtape as gt

X = gt.constant([[1.0, 2.0], [3.0, 4.0]])


class Config:
    k = 2.0

    def __init__(self):
        self.layers = [1.0, 2.0]
        self.tensor = gt.constant(1.0)
        self.table = {"a": {"b": 1.0}}
        self.flag = True

    @property
    def double(self):
        return self.k * 2

    def scale(self, x):
        return x * self.k

    def __call__(self, x):
        return x + self.k

    def __getitem__(self, i):
        return self.layers[i]

    def __len__(self):
        return len(self.layers)


@dataclasses.dataclass
class Pair:
    a: float = 1.0
    other: object = None


class Mode(enum.Enum):
    FIRST = 1
    SECOND = 2


class Net(gt.Module):
    def __init__(self):
        super().__init__()
        self.weights = [gt.Variable(2.0)]
        self.training = True

    def __call__(self, x):
        for w in self.trainable_variables:
            x = x * w
        return x + 1.0 if self.training else x


class World:
    """What the bodies see, as attributes of one global; rebuilt for each case."""

    def __init__(self):
        self.number = 2.0
        self.axes = [0]
        self.array = np.array([1.0, 2.0], np.float32)
        self.tensor = gt.constant(2.0)
        self.table = {"a": 1.0}
        self.members = {1, 2}
        self.helper = lambda x: x * 2.0
        self.module = types.ModuleType("mine")
        self.module.k = 3.0
        self.partial = functools.partial(lambda x, k: x * k, k=2.0)
        self.config = Config()
        self.pair = Pair(2.0, Pair(3.0))
        self.mode = Mode.FIRST
        self.nothing = None
        self.variable = gt.Variable(2.0)
        self.tensors = [gt.constant(1.0), gt.constant(2.0)]
        self.variables = [gt.Variable(1.0), gt.Variable(2.0)]
        self.arrays = {"w": np.ones(2, np.float32)}
        self.long = list(range(200))
        self.wide = {i: float(i) for i in range(100)}
        self.net = Net()


W = World()


def put(path, value):
    """A change: assign to an attribute, reached from the world by a path."""

    def change():
        *way, last = path.split(".")
        target = functools.reduce(getattr, way, W)
        setattr(target, last, value() if callable(value) and value.__name__ == "<lambda>" else value)

    change.__name__ = path
    return change


def through(x, items):
    for item in items:
        x = x * item
    return x


CASES = {
    "number": (lambda x: x * W.number, [put("number", 3.0), put("number", 3), put("number", True)]),
    "list given to an op": (
        lambda x: gt.reduce_sum(x, axis=W.axes),
        [lambda: W.axes.__setitem__(0, 1), lambda: W.axes.append(0)],
    ),
    "array": (
        lambda x: x * W.array,
        [
            lambda: W.array.__setitem__(0, 7.0),
            put("array", np.array([[5.0], [6.0]], np.float32)),
            put("array", np.array([5.0, 6.0])),
        ],
    ),
    "array read by NumPy": (
        lambda x: x * float(np.sum(W.array)),
        [lambda: W.array.__setitem__(0, 9.0), put("array", np.array([1.0]))],
    ),
    "tensor": (
        lambda x: x * W.tensor,
        [put("tensor", gt.constant(5.0)), put("tensor", gt.constant([5.0, 6.0])), put("tensor", 3.0)],
    ),
    "dict": (lambda x: x * W.table["a"], [lambda: W.table.update(a=4.0), put("table", {"a": 6.0})]),
    "dict asked": (
        lambda x: x * W.table.get("b", 2.0) + len(W.table) + (1.0 if "b" in W.table else 0.0),
        [lambda: W.table.update(b=4.0), lambda: W.table.pop("a")],
    ),
    "dict looped over": (
        lambda x: x * sum(v for _, v in W.table.items()),
        [lambda: W.table.update(z=4.0), lambda: W.table.pop("z")],
    ),
    "keys of a wide dict": (
        lambda x: x * 2.0 if 500 in W.wide else x,
        [lambda: (W.wide.pop(5), W.wide.update({500: 1.0})), lambda: (W.wide.pop(500), W.wide.update({501: 1.0}))],
    ),
    "set": (
        lambda x: x * len(W.members) + (1.0 if 3 in W.members else 0.0),
        [lambda: W.members.add(3), lambda: W.members.discard(1)],
    ),
    "helper": (lambda x: W.helper(x), [lambda: setattr(W, "helper", lambda x: x * 9.0)]),
    "attribute of a module": (lambda x: x * W.module.k, [put("module.k", 8.0)]),
    "partial": (lambda x: W.partial(x), [lambda: setattr(W, "partial", functools.partial(lambda x, k: x - k, k=7.0))]),
    "attribute and class attribute": (
        lambda x: x * W.config.k,
        [put("config.k", 5.0), lambda: delattr(W.config, "k")],
    ),
    "list of an object": (
        lambda x: x * W.config.layers[0],
        [lambda: W.config.layers.__setitem__(0, 5.0), lambda: W.config.layers.insert(0, 9.0)],
    ),
    "list looped over": (
        lambda x: through(x, W.config.layers),
        [lambda: W.config.layers.append(3.0), lambda: W.config.layers.pop(0), put("config.layers", [2.0])],
    ),
    "nested dicts": (
        lambda x: x * W.config.table["a"]["b"],
        [lambda: W.config.table["a"].update(b=5.0), lambda: W.config.table.update(a={"b": 7.0})],
    ),
    "tensor of an object": (
        lambda x: x * W.config.tensor,
        [put("config.tensor", gt.constant(3.0)), put("config.tensor", gt.constant([3.0, 4.0])), put("config.tensor", 2)],
    ),
    "property": (lambda x: x * W.config.double, [put("config.k", 11.0)]),
    "method": (
        lambda x: W.config.scale(x),
        [put("config.k", 12.0), lambda: setattr(W.config, "scale", lambda x: x * 100.0)],
    ),
    "callable object": (lambda x: W.config(x), [put("config.k", 13.0), put("config", lambda: Config())]),
    "special methods": (
        lambda x: x * W.config[0] * len(W.config),
        [lambda: W.config.layers.append(4.0), lambda: W.config.layers.__setitem__(0, 3.0)],
    ),
    "hasattr": (
        lambda x: x * (2.0 if hasattr(W.config, "extra") else 3.0),
        [put("config.extra", 1), lambda: delattr(W.config, "extra")],
    ),
    "getattr with a default": (
        lambda x: x * getattr(W.config, "extra", 3.0),
        [put("config.extra", 1.0), put("config.extra", 4.0), lambda: delattr(W.config, "extra")],
    ),
    "flag": (lambda x: x * 2.0 if W.config.flag else x, [put("config.flag", False), put("config.flag", True)]),
    "dataclasses": (
        lambda x: x * W.pair.a * W.pair.other.a,
        [put("pair.other.a", 9.0), put("pair.other", Pair(4.0)), put("pair", Pair(1.0, Pair(2.0)))],
    ),
    "enum": (lambda x: x * 2.0 if W.mode is Mode.FIRST else x, [put("mode", Mode.SECOND), put("mode", Mode.FIRST)]),
    "None": (
        lambda x: x if W.nothing is None else x * W.nothing,
        [put("nothing", 3.0), put("nothing", gt.constant(4.0)), put("nothing", None)],
    ),
    "variable": (
        lambda x: x * W.variable,
        [
            lambda: W.variable.assign(3.0),
            put("variable", lambda: gt.Variable(5.0)),
            put("variable", lambda: gt.Variable([1.0, 2.0])),
        ],
    ),
    "list of tensors given to an op": (
        lambda x: x * gt.add_n(W.tensors),
        [lambda: W.tensors.__setitem__(0, gt.constant(5.0)), lambda: W.tensors.append(gt.constant(7.0))],
    ),
    "list of tensors looped over": (
        lambda x: through(x, W.tensors),
        [lambda: W.tensors.__setitem__(0, gt.constant(5.0)), lambda: W.tensors.pop()],
    ),
    "list of variables": (
        lambda x: x * gt.add_n(W.variables),
        [
            lambda: W.variables.append(gt.Variable(3.0)),
            lambda: W.variables[0].assign(9.0),
            lambda: W.variables.__setitem__(1, gt.Variable(4.0)),
        ],
    ),
    "variables of a module": (
        lambda x: W.net(x),
        [
            lambda: W.net.weights.append(gt.Variable(3.0)),
            put("net.training", False),
            lambda: W.net.weights.pop(0),
        ],
    ),
    "dict of arrays": (
        lambda x: x * W.arrays["w"],
        [
            lambda: W.arrays["w"].__setitem__(0, 5.0),
            lambda: W.arrays.update(w=np.full(2, 3.0, np.float32)),
            lambda: W.arrays.update(w=np.full((1, 2), 3.0)),
        ],
    ),
    "item of a long list": (lambda x: x * W.long[3], [lambda: W.long.__setitem__(3, 50)]),
    "sum of a long list": (lambda x: x * sum(W.long), [lambda: W.long.__setitem__(150, 5000)]),
    "slice of a long list": (lambda x: x * sum(W.long[:3]), [lambda: W.long.__setitem__(2, 5000)]),
    "sorted values": (
        lambda x: x * max(W.table.values()) + sum(i * v for i, v in enumerate(sorted(W.table.values()))),
        [lambda: W.table.update(q=50.0)],
    ),
    "unpacked list": (lambda x: gt.stack([*W.tensors])[0] * x, [lambda: W.tensors.__setitem__(0, gt.constant(8.0))]),
}


@pytest.mark.parametrize("name", CASES)
def test_changed_state_is_seen(name, monkeypatch):
    monkeypatch.setattr(f"{__name__}.W", World())
    body, changes = CASES[name]
    f = gt.function(body)
    for place, change in enumerate([lambda: None, *changes]):
        change()
        expected = body(X)
        found = f(X)
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected), err_msg=f"after change {place}")
        again = f(X)
        np.testing.assert_array_equal(np.asarray(again), np.asarray(expected), err_msg=f"after change {place}, again")


@pytest.mark.parametrize("name", CASES)
def test_unchanged_state_is_traced_once(name, monkeypatch):
    monkeypatch.setattr(f"{__name__}.W", World())
    f = gt.function(CASES[name][0])
    for _ in range(3):
        f(X)
    assert f.experimental_get_tracing_count() == 1, f.explain()


def test_state_of_closures():
    k = 2.0
    items = []

    def body(x):
        return x * k + (items[0] if items else 0.0) + len(items)

    def change(value):
        nonlocal k
        k = value

    f = gt.function(body)
    steps = [
        lambda: change(3.0), lambda: change(gt.constant(4.0)), lambda: change(5), lambda: items.append(2.0),
        lambda: items.append(3.0), lambda: items.__setitem__(0, gt.constant(5.0)),
    ]  # fmt: skip
    for step in [lambda: None, *steps]:
        step()
        np.testing.assert_array_equal(f(X).numpy(), body(X).numpy())


def test_a_global_that_hides_a_builtin_is_noticed():
    def largest(x):
        return max(x[0], x[1])

    f = gt.function(largest)
    x = gt.constant([1.0, 2.0])
    assert float(f(x)) == 2.0
    try:
        globals()["max"] = lambda a, b: a * 100.0 + b
        assert float(f(x)) == 102.0
        globals()["max"] = lambda a, b: a - b
        assert float(f(x)) == -1.0
    finally:
        globals().pop("max", None)
    assert float(f(x)) == 2.0
