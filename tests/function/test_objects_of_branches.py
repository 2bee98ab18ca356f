"""Objects that a branch makes, or that are None on the other path: their attributes are theirs, whatever they are called.

What stands for such a value has fields and methods of its own; and what a branch wrote to an object that it made is known
behind the branch, where it was what the class says before.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import numpy as np
import pytest

import gradtape as gt


class Plain:
    weight = 1.0

    def __init__(self, x):
        self.weight = x * 3.0
        self.value, self.flag, self.missing = x * 2.0, x * 5.0, x * 7.0

    def get(self):
        return self.value * 11.0

    def read(self):
        return self.flag * 13.0

    def need(self, factor):
        return self.missing * factor


@dataclass
class Made:
    value: object
    weight: object = 1.0
    flag: object = 2.0
    missing: object = 3.0
    parts: list = field(default_factory=list)

    get = read = lambda self: self.value * 11.0

    def need(self, factor):
        return self.missing * factor


@dataclass(frozen=True)
class Frozen:
    value: object
    weight: object = 1.0
    flag: object = 2.0
    missing: object = 3.0

    get, read, need = Made.get, Made.read, Made.need


SHAPES = {
    "made here": "o = None\n    if x > 0: o = {kind}(x)",
    "set here": "o = None\n    if x > 0:\n        o = {kind}(x)\n        o.weight = x * 17.0",
    "from outside": "o = None\n    if x > 0: o = pool",
    "in a list": "o = None\n    if x > 0:\n        rows = [{kind}(x)]\n        o = rows[0]",
    "in a dict that was there": "d = dict(o=None)\n    if x > 0: d['o'] = {kind}(x)\n    o = d['o']",
    "in an object made here": (
        "o = None\n    if x > 0:\n        o = Plain(x)\n        o.inner = {kind}(x)\n    o = None if o is None else o.inner"
    ),
    "two branches": "o = None\n    if x > 0:\n        if x > 1: o = {kind}(x)",
}
ASKED = (
    "o.value",
    "o.flag",
    "o.missing",
    "o.weight",
    "o.get()",
    "o.read()",
    "o.need(2.0)",
    "getattr(o, 'value')",
)


@pytest.mark.parametrize("kind", ["Plain", "Made", "Frozen"])
def test_attributes_are_the_objects_own(kind, tmp_path):
    for number, ((name, shape), asked) in enumerate(itertools.product(SHAPES.items(), ASKED)):
        if kind == "Frozen" and "weight =" in shape:
            continue
        path = tmp_path / f"objects_{number}.py"
        behind = f"    if o is not None: return {asked} * x\n    return x\n"
        path.write_text(f"def f(x):\n    {shape.format(kind=kind)}\n{behind}")
        space = {"Plain": Plain, kind: globals()[kind]}
        space["pool"] = space[kind](gt.constant(4.0, gt.float64))
        exec(compile(path.read_text(), str(path), "exec"), space)
        call = gt.function(space["f"], jit_compile=False)
        for x in (2.0, -3.0):
            given, expected = (np.asarray(f(gt.constant(x, gt.float64))) for f in (call, space["f"]))
            assert given == expected, (name, path.read_text())


def test_an_attribute_of_none_is_pythons_error():
    @gt.function
    def f(x):
        o = None
        if x > 0:
            o = Plain(x)
        return o.value

    assert float(f(gt.constant(2.0))) == 4.0
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'value'"):
        f(gt.constant(-2.0))


def test_an_attribute_written_where_the_object_may_be_none():
    pool = Plain(gt.constant(4.0))

    @gt.function
    def f(x):
        o = None
        if x > 0:
            o = pool
        if o is not None:
            o.value = x * 9.0
        return pool.value

    assert float(f(gt.constant(-1.0))) == 8.0
    assert float(f(gt.constant(2.0))) == 18.0
    assert float(pool.value) == 18.0


def test_a_function_that_is_none_on_the_other_path():
    @gt.function
    def f(x):
        squash = None
        if x > 0:
            squash = gt.sin
        return squash(x)

    assert float(f(gt.constant(2.0))) == float(gt.sin(gt.constant(2.0)))
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        f(gt.constant(-2.0))
