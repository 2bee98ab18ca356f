"""A dict that got its key in a staged loop or branch, or an object its attribute, was refused; a name was not.

A key or attribute that only some paths set is now one that may be there, as a name is: reading it checks when the program runs,
with Python's own error, and `in`, `get`, `setdefault`, `pop`, `hasattr` and `getattr` ask.
"""

from __future__ import annotations

import pytest

import gradtape as gt
from tests.corpus.modes import COMPILED, agree, arguments, compiled

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


class Thing:
    """Something with attributes."""


@program
def key_in_a_loop(x, n):
    d = {}
    for i in gt.range(n):
        d["y"] = x * x * gt.cast(i, x.dtype)
    return d["y"]


@program
def key_in_a_while(x, n):
    d, i = {"a": {}}, 0
    while i < n:
        d["a"]["y"] = gt.sin(x) * (i + 1.0)
        i += 1
    return d["a"]["y"] * x


@program
def key_with_a_default(x, n):
    d = {}
    for _ in gt.range(n):
        d["s"] = d.get("s", 1.0) * x
        d.setdefault("t", x)
        d["t"] = d["t"] * gt.exp(x)
    return d["s"] + d.pop("t")


@program
def key_asked_for(x, n):
    d = {}
    for _ in gt.range(n):
        if "s" in d:
            d["s"] = d["s"] * x
        else:
            d["s"] = gt.sin(x)
    return d["s"] * x if "s" in d else x


@program
def keys_of_an_update(x, n):
    d = {}
    for _ in gt.range(n):
        d.update(y=x, z=x * x)
    return d["y"] * d["z"]


@program
def key_on_one_side(x, n):
    d = {"z": x * x}
    if n > 1:
        d["y"] = gt.exp(x)
    return d["y"] if "y" in d else d["z"]


@program
def keys_on_both_sides(x, n):
    d = {}
    if n > 1:
        d["y"] = gt.exp(x)
        d["u"] = x
    else:
        d["y"] = x * x
    return d["y"] * d.get("u", 2.0)


@program
def attribute_in_a_loop(x, n):
    thing = Thing()
    for i in gt.range(n):
        thing.y = x * x * gt.cast(i, x.dtype)
    return thing.y


@program
def attribute_asked_for(x, n):
    thing = Thing()
    for _ in gt.range(n):
        if hasattr(thing, "y"):
            thing.y = thing.y * x
        else:
            thing.y = gt.sin(x)
    return getattr(thing, "y", x) * x


@program
def attribute_on_one_side(x, n):
    thing = Thing()
    if n > 1:
        thing.y = x * x
    return thing.y


@program
def items_by_index(x, n):
    items = [None, None]
    for i in gt.range(n):
        items[0] = x * x * gt.cast(i, x.dtype)
        items[1] = items[0] * x
    return items[1]


@program
def all_keys_of_it(x, n):
    d = {}
    for i in gt.range(n):
        d["y"] = x * gt.cast(i, x.dtype)
    total = x * len(d)
    for value in d.values():
        total = total + value * x
    return total


@program
def given_back(x, n):
    d = {"x": x}
    if n > 0:
        d["y"] = x * x
    return d


@program
def key_of_a_dict_with_two_names(x, n):
    d = {"a": x}
    e = d
    if n > 2:
        d = {"a": x * x}
    d["b"] = gt.sin(x)
    return e["b"] * x if "b" in e else e["a"]


@program
def known_length(x, n):
    d, thing = {}, Thing()
    for i in gt.range(3):
        d["y"] = x * gt.cast(i, x.dtype)
        thing.last = d["y"] * x
    return d, thing.last


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_what_a_loop_or_branch_sets_first(function):
    agree(function, (0.7, gt.constant(3)), (0.7, gt.constant(2)))


UNSET = {
    key_in_a_loop: KeyError, key_in_a_while: KeyError, key_with_a_default: KeyError, keys_of_an_update: KeyError,
    attribute_in_a_loop: AttributeError, attribute_on_one_side: AttributeError,
}  # fmt: skip


@pytest.mark.parametrize("mode", COMPILED)
@pytest.mark.parametrize("function", UNSET, ids=lambda f: f.__name__)
def test_what_was_not_set_raises_what_python_raises(function, mode):
    given = arguments((0.7, gt.constant(0)))
    for call in (function, compiled(function, mode)):
        with pytest.raises(UNSET[function]):
            call(*given)


def test_the_other_side_of_a_question():
    for function in (key_asked_for, key_on_one_side, keys_on_both_sides, attribute_asked_for):
        agree(function, (0.7, gt.constant(0)))


def test_keys_of_a_result_do_not_depend_on_the_path():
    f = gt.function(given_back)
    with pytest.raises(
        gt.errors.InvalidArgumentError, match=r"the key 'y' was not set on the path that was taken.*set it before"
    ):
        f(*arguments((0.7, gt.constant(0))))


class Model:
    """Keeps something from one call to the next."""

    def __init__(self):
        self.cache = {}

    @gt.function
    def into_an_attribute(self, x, n):
        for _ in gt.range(n):
            self.last = x * x
        return x

    @gt.function
    def into_a_dict(self, x, n):
        if n > 1:
            self.cache["y"] = x * x
        return x

    @gt.function
    def in_any_case(self, x):
        for i in gt.range(3):
            self.last = x * gt.cast(i, x.dtype)
            self.cache["y"] = self.last * x
        return x


def test_objects_from_outside():
    model = Model()
    for name, what in (
        ("into_an_attribute", r"`Model.last` \(written at .*:\d+\)"),
        ("into_a_dict", r"a dict \(written at .*:\d+\)"),
    ):
        with pytest.raises(gt.errors.InvalidArgumentError, match=what + ".* is set on some paths only .*None will do"):
            getattr(model, name)(gt.constant(2.0), gt.constant(3))
    model.in_any_case(gt.constant(2.0))
    assert [float(model.last), float(model.cache["y"])] == [4.0, 8.0]
