"""Detours that cannot be told from leaving a tape on purpose lost gradients without a word: `np.asarray(f(x))` of a list of
vectors, a function of NumPy under another name, `math.sin(t)`, a deep copy, `gt.jvp` of a function that gives numbers.

Each is refused, carried, or named in a warning with its line; what is on purpose stays silent.
"""

from __future__ import annotations

import array
import cmath
import collections
import copy
import functools
import gc
import math
import warnings

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.escapes import _FOLLOWED, _NUMBER_CURES
from gradtape.errors import GradientWarning
from tests.corpus.modes import agree

X = np.array([1.0, 2.0, 3.0])


class Rows:
    def __init__(self, x):
        self.kept = [x, 2.0 * x]

    def get(self):
        return self.kept


def rows(x):
    return [x, 2.0 * x]


LOST = {
    "a call": lambda x: np.asarray(rows(x)),
    "a method": lambda x: np.asarray(Rows(x).get()),
    "one row": lambda x: np.asarray(rows(x)[:1]),
    "an item": lambda x: np.asarray({"a": rows(x)}["a"]),
    "a condition": lambda x: np.asarray(rows(x) if X[0] else 0),
    "an assignment": lambda x: np.asarray(both := rows(x)) + np.size(both),
    "another sequence": lambda x: np.asarray(collections.deque(rows(x))),
    "contiguous": lambda x: np.ascontiguousarray(rows(x)),
    "in place of another": lambda x: (np.asarray if X[0] else None)(rows(x)),
    "partial": lambda x: functools.partial(np.array, dtype=float)(rows(x)),
    "getattr": lambda x: getattr(np, "ar" + "ray")(rows(x)),
    "map": lambda x: list(map(np.asarray, [rows(x)])),
    "a loop over map": lambda x: [a for a in map(np.asarray, [rows(x)])],  # noqa: C416  (as people write it)
    "with a dtype": lambda x: np.asarray(rows(x), dtype=np.float32),
    "math": lambda x: math.sin(x[0]),
    "math of two": lambda x: math.hypot(x[0], 1.0),
    "math of a list": lambda x: math.fsum([x[0]]),
    "cmath": lambda x: cmath.exp(x[0]),
    "array.array": lambda x: array.array("d", [x[0]]),
}
ON_PURPOSE = {
    "a call": lambda x: np.asarray(x * 2.0),
    "twice": lambda x: [np.asarray(x * float(i)) for i in range(3)],
    "an item": lambda x: np.asarray(rows(x)[0]),
    "discarded": lambda x: (np.asarray(x * 2.0), None)[1],
    "map": lambda x: list(map(np.asarray, rows(x))),
    "with a dtype": lambda x: np.asarray(x * 2.0, dtype=np.float32),
    "columns": lambda x: np.ascontiguousarray(gt.transpose(gt.stack(rows(x)))),
    "an order": lambda x: np.asarray(gt.stack(rows(x)), order="F"),
    "more axes": lambda x: np.array(x * 2.0, ndmin=3, copy=None),
    "partial": lambda x: functools.partial(np.asarray, dtype=float)(x * 2.0),
    "compared": lambda x: (rows(x)[0] == X, x[0] in [1.0, 2.0]),
    "numbers": lambda x: (float(x[0]), list(map(float, x)), np.float32(x[0]), f"{x[0]:.2f}"),
    "pieces": lambda x: (math.floor(x[0]), math.isfinite(x[0]), math.ceil(x[0])),
    "a constant": lambda x: math.sin(gt.stop_gradient(x)[0]),
}
HOMES = {
    "tensor": (gt.constant, lambda x: gt.GradientTape()),
    "variable": (gt.Variable, lambda x: gt.GradientTape()),
    "forward": (gt.constant, lambda x: gt.autodiff.ForwardAccumulator(x, gt.ones_like(x))),
}


def run(program, home):
    make, recorder = HOMES[home]
    x = make(X)
    with recorder(x) as active:
        if home == "tensor":
            active.watch(x)
        return program(x)


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", LOST)
def test_what_is_lost_is_named_with_its_line(name, home):
    program = LOST[name]
    line = program.__code__.co_firstlineno
    with pytest.warns(
        GradientWarning, match=rf"test_07_calls_that_cannot_be_read\.py:{line} .* no gradient; .*t\.numpy\(\)"
    ) as said:
        run(program, home)
    assert {w.lineno for w in said} == {line}


@pytest.mark.parametrize("home", HOMES)
@pytest.mark.parametrize("name", ON_PURPOSE)
def test_what_is_on_purpose_stays_silent(name, home):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(ON_PURPOSE[name], home)
        gc.collect(1)  # what was made just now: a full collection takes a second in a process with many tests behind it


@pytest.mark.parametrize("name", LOST)
def test_without_a_tape_nothing_is_said(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LOST[name](gt.constant(X))


def test_a_line_is_named_once():
    x = gt.constant(X)
    with gt.GradientTape() as tape, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        tape.watch(x)
        for _ in range(5):
            math.sin(x[1])
    assert len(said) == 1


def test_arrays_in_doubt_are_forgotten_with_their_array():
    before = len(_FOLLOWED)
    x = gt.constant(X)
    with gt.GradientTape() as tape:
        tape.watch(x)
        taken = [np.asarray(x * float(i)) for i in range(4)]
    assert len(_FOLLOWED) == before + 4
    del taken
    gc.collect()
    assert len(_FOLLOWED) == before


@pytest.mark.parametrize("name", sorted(_NUMBER_CURES))
def test_the_cures_exist(name):
    cure = _NUMBER_CURES[name]
    space = {"gt": gt, "np": np, "t": gt.constant(2.0), "p": gt.constant([2.0]), "q": gt.constant([1.0]), "y": 2.0}
    for part in cure.replace("[...]", "[t]").split(" and "):
        eval(part, space)


# -- every way a tensor may be asked for its values -----------------------------------------------------------------------


def same_functions(f):
    """What `grad` refuses is refused by all that differentiate a function."""
    x = gt.constant(X)
    return {
        "grad": lambda: gt.grad(f)(x), "value_and_grad": lambda: gt.value_and_grad(f)(x), "vjp": lambda: gt.vjp(f, x),
        "jvp": lambda: gt.jvp(f, [x], [x]), "jacobian": lambda: gt.jacobian(f)(x), "hessian": lambda: gt.hessian(f)(x),
        "elementwise_grad": lambda: gt.elementwise_grad(f)(x), "grad for hvp": lambda: gt.hvp(f, [x], [x]),
        "grad for the product": lambda: gt.hessian_vector_product(f)(x, x),
    }  # fmt: skip


NUMBERS = {
    "float": lambda x: float(x[0]) ** 2,
    "complex": lambda x: complex(x[0]).real,
    "numpy": lambda x: np.sum(x.numpy() ** 2),
    "asarray": lambda x: np.asarray(x)[0] * 2.0,
    "item": lambda x: (x[0] ** 2).item(),
    "list": lambda x: x.tolist()[0],
    "dlpack": lambda x: np.from_dlpack(x)[0],
}


@pytest.mark.parametrize("ask", list(same_functions(None)))
@pytest.mark.parametrize("name", NUMBERS)
def test_a_function_of_numbers_is_refused_by_all(name, ask):
    f = NUMBERS[name]
    line = f.__code__.co_firstlineno
    with pytest.raises(TypeError, match=rf"^{ask.split()[0]}: the function returned a .*, not a tensor.*\.py:{line}\."):
        same_functions(f)[ask]()


def test_jvp_of_constants_is_zero():
    for f in (lambda x: 3.0, lambda x: 1.0 if x[0] > 0 else 2.0, lambda x: float(len(x))):
        value, slope = gt.jvp(f, [gt.constant(X)], [gt.constant(X)])
        assert (float(value), float(slope)) in [(3.0, 0.0), (1.0, 0.0)]


def copied(x):
    y = copy.deepcopy(x * x)
    y[0] = x[1]
    return y + copy.deepcopy([x, {"a": x}])[1]["a"] * copy.copy(x)


def test_copies_carry_derivatives():
    agree(copied, (X,))
    x = gt.constant(X)
    np.testing.assert_allclose(gt.jvp(copied, [x], [x])[1], gt.jacobian(copied)(x) @ x)
    batch = gt.constant(np.stack([X, X + 1.0]))
    np.testing.assert_allclose(gt.grad(lambda b: gt.reduce_sum(gt.vectorized_map(copied, b)))(batch)[0], [2.0, 9.0, 12.0])


def into_a_tensor(x):
    r = np.zeros(3, like=x)
    for i in range(3):
        r[i] = x[i] ** 2
    return r


LIKE = {
    "array": lambda x: np.array([x[0], x[1] ** 2], like=x),
    "nested": lambda x: np.array([[x[0] ** 2, 1.0], [0, x[1]]], like=x),
    "vectors": lambda x: np.asarray([x, x * x], like=x),
    "dimensions": lambda x: np.array(x[0] ** 2, ndmin=2, like=x),
    "full": lambda x: np.full((2, 2), x[0] ** 2, like=x),
    "zeros": into_a_tensor,
    "eye": lambda x: np.eye(3, like=x) @ (x * x),
    "ones": lambda x: np.ones(3, like=x) * x * x,
    "identity": lambda x: np.identity(3, like=x) @ (x * x),
    "contiguous": lambda x: np.ascontiguousarray([x[0] ** 2], like=x),
}


@pytest.mark.parametrize("name", LIKE)
def test_functions_that_make_arrays_are_carried_with_like(name):
    agree(LIKE[name], (X,))
    plain = LIKE[name](gt.constant(X))
    assert plain.dtype == gt.float64
    assert np.array([1, 2], like=plain).dtype == gt.int64


ASKING = {
    "array": lambda x: np.array([x[0], 1.0]),
    "nested": lambda x: np.array([[x[0], 1.0], [0.0, x[1]]]),
    "vectors": lambda x: np.asarray(rows(x)),
    "full": lambda x: np.full(3, x[0]),
    "r_": lambda x: np.r_[x[0], 1.0],
    "c_": lambda x: np.c_[x, x],
    "math": lambda x: math.sin(x[0]),
    "item": lambda x: x[0].item(),
    "dlpack": lambda x: np.from_dlpack(x),
}
IN_EAGER_CODE = ("array", "nested", "vectors", "full", "r_", "c_")  # functions carry these: test_07_lists_in_functions.py


@pytest.mark.parametrize("name", ASKING)
def test_functions_and_maps_name_the_line_that_asks(name):
    f = ASKING[name]
    line = f.__code__.co_firstlineno
    place = rf"test_07_calls_that_cannot_be_read\.py:{line}: .*gt\.stack\(\[a, b\]\)"
    if name not in IN_EAGER_CODE:
        with pytest.raises(TypeError, match=place):
            gt.function(f)(gt.constant(X))
    with pytest.raises(TypeError, match=place):
        gt.function(f, autograph=False)(gt.constant(X))
    with pytest.raises(TypeError, match=place):
        gt.vectorized_map(f, gt.constant(X[None]))
