"""A variable where Python asks for its value (a test, a count, an index, an argument of a builtin) means what it holds when the
function runs: as a tensor in the same place, and as in eager code."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt

PLACES = {
    "if expression": lambda v, k, b: v[0] if b else v[1],
    "not": lambda v, k, b: not b,
    "and": lambda v, k, b: b and k > 1,
    "or": lambda v, k, b: b or k > 1,
    "index of a list": lambda v, k, b: [v[0], v[1], v[2]][k],
    "index of a tuple of numbers": lambda v, k, b: (4.0, 5.0, 6.0)[k],
    "range": lambda v, k, b: [v[i] * 2.0 for i in range(k)],
    "range with start and step": lambda v, k, b: [v[i] for i in range(k, -1, -1)],
    "max": lambda v, k, b: max(k, 1),
    "min of a list": lambda v, k, b: min([k, gt.constant(5)]),
    "sorted": lambda v, k, b: sorted([k, gt.constant(1)]),
    "int": lambda v, k, b: int(k) * 3,
    "float": lambda v, k, b: float(k) * v[0],
    "bool": lambda v, k, b: bool(k),
    "abs": lambda v, k, b: abs(k),
    "any": lambda v, k, b: any([b, k]),
    "all": lambda v, k, b: all([b, k]),
    "filter": lambda v, k, b: len(list(filter(None, [k, b]))),
    "in a tuple": lambda v, k, b: k in (1, 3),
    "in itself": lambda v, k, b: 2.0 in v,
    "an object in a list": lambda v, k, b: v in [v, b, k],
    "key of a dict": lambda v, k, b: {v: 3.0, k: 4.0}[k],
    "cond": lambda v, k, b: gt.cond(b, lambda: v[0], lambda: v[2]),
    "case": lambda v, k, b: gt.case([(b, lambda: v[0])], default=lambda: v[1]),
    "switch_case": lambda v, k, b: gt.switch_case(k, [lambda: v[0], lambda: v[1], lambda: v[2]]),
    "TensorArray": lambda v, k, b: gt.TensorArray(gt.float32, size=k).write(0, v[0]).write(k - 1, v[1]).stack(),
    "TensorArray read": lambda v, k, b: gt.TensorArray(gt.float32, size=3).unstack(v).read(k),
}


def numbers(result):
    return [np.asarray(leaf) for leaf in gt.nest.flatten(result)]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("count", "flag"), [(2, True), (0, False), (1, True)])
def test_a_variable_is_what_it_holds(place, count, flag):
    if place.startswith("TensorArray") and count == 0:
        count = 2
    v, k, b = gt.Variable([1.0, 2.0, 3.0]), gt.Variable(2), gt.Variable(True)
    compiled = gt.function(lambda: PLACES[place](v, k, b), jit_compile=False)
    compiled()  # with other values: what is asked for later is not what was traced
    k.assign(count)
    b.assign(flag)
    for actual, expected in zip(numbers(compiled()), numbers(PLACES[place](v, k, b)), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_a_variable_as_the_test_of_a_while_and_of_an_assert():
    going, count = gt.Variable(True), gt.Variable(0)

    @gt.function(jit_compile=False)
    def counted():
        while going:
            count.assign_add(1)
            going.assign(count < 4)
        assert count, "nothing was counted"
        return count + 0

    assert int(counted()) == 4
    assert int(counted()) == 4
    count.assign(0)
    with pytest.raises(AssertionError, match="nothing was counted"):
        counted()
