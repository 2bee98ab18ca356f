"""NumPy's and SciPy's functions that convert what they are given, in a function: lists with tensors in them are tensors.

NumPy does not ask the items of a list, nor what fills an array; SciPy's functions in Python ask nobody. In eager code under a
tape they are refused with the cure (`test_07_numpy_detours.py`); converted code calls what they mean on tensors, with the
numbers and the dtype that the undecorated function has where nobody watches.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import scipy.stats

import gradtape as gt
from tests.corpus.modes import COMPILED, compiled

PROGRAMS = {
    "array": lambda x: np.array([x[0], x[1]]),
    "array of a tensor and a number": lambda x: np.array([x[0], 0.1]),
    "array of lists": lambda x: np.array([[x[0], 1], [2, x[1] * x[2]]]),
    "array of a dtype": lambda x: np.array([x[0], x[1]], dtype=np.float64),
    "array of integers too": lambda x: np.array([1, 2, x[0]]),
    "asarray of a tuple": lambda x: np.asarray((x[0], x[1])),
    "array of rows": lambda x: np.array([x, x**2]),
    "array of a list a loop filled": lambda x: np.array([v**2 for v in x]),
    "written to": lambda x: _written(np.array([x[0], x[1], x[2]]), x),
    "full": lambda x: np.full(3, x[0]),
    "full of rows": lambda x: np.full((2, 3), x),
    "full by keyword": lambda x: np.full(shape=(2,), fill_value=x[1]),
    "r_": lambda x: np.r_[x[0], x[1]],
    "r_ of arrays": lambda x: np.r_[x, x * 2, 5.0],
    "r_ of a slice": lambda x: np.r_[0:3, x],
    "r_ of a list": lambda x: np.r_[[x[0], 1.0], x],
    "c_": lambda x: np.c_[x, x**2],
    "c_ of numbers": lambda x: np.c_[x[0], x[1]],
    "sum": lambda x: np.sum([x[0], x[1] ** 2]),
    "mean": lambda x: np.mean([x[0], x[1] ** 2]),
    "max": lambda x: np.max([x[0], x[1] ** 2]),
    "product over an axis": lambda x: np.prod([[x[0], x[1]], [x[2], 1.0]], axis=0),
    "cumsum": lambda x: np.cumsum([x[0], x[1] ** 2]),
    "dot": lambda x: np.dot([x[0], x[1]], [x[1], 1.0]),
    "matmul": lambda x: np.matmul([[x[0], 0.0], [0.0, x[1]]], [x[1], 1.0]),
    "cross": lambda x: np.cross([x[0], x[1], x[2]], [1.0, 2.0, x[2]]),
    "outer": lambda x: np.outer([x[0], x[1]], [1.0, x[2]]),
    "norm": lambda x: np.linalg.norm([x[0], x[1] ** 2]),
    "einsum": lambda x: np.einsum("i,i->", [x[0], x[1]], [x[1], 2.0]),
    "where": lambda x: np.where([True, False], [x[0], x[1]], 0.0),
    "reshape": lambda x: np.reshape([x[0], x[1]], (2, 1)),
    "sin": lambda x: np.sin([x[0], x[1]]),
    "add": lambda x: np.add([x[0], x[1]], 1.0),
    "reduced": lambda x: np.add.reduce([x[0], x[1]]),
    "stack": lambda x: np.stack([x, x**2]),
    "stack of lists": lambda x: np.stack([[x[0], x[1]], [x[2], 1.0]]),
    "columns": lambda x: np.column_stack([x, [x[0], 1.0, 2.0]]),
    "logsumexp": lambda x: scipy.special.logsumexp(x),
    "softmax": lambda x: scipy.special.softmax(x),
    "norm density": lambda x: scipy.stats.norm.logpdf(x, 0.0, x[1]),
    "normal densities": lambda x: scipy.stats.multivariate_normal.logpdf(x, np.zeros(3), np.eye(3)),
    "t density": lambda x: scipy.stats.t.logpdf(x, 3.0),
    "gamma density": lambda x: scipy.stats.gamma.logpdf(x, 2.0),
    "beta density": lambda x: scipy.stats.beta.logpdf(x / 4.0, 2.0, 3.0),
    "poisson density": lambda x: scipy.stats.poisson.logpmf(np.array([1, 2, 3]), x),
}


def _written(r, x):
    r[1] = x[0] * x[2]
    return r


def slopes(function, x):
    """Of the sum of the results, by central differences."""
    steps = np.eye(3) * 1e-6
    sides = [[np.sum(np.asarray(function(gt.constant(x + s)))) for s in (step, -step)] for step in steps]
    return [(up - down) / 2e-6 for up, down in sides]


@pytest.mark.parametrize("name", PROGRAMS)
def test_lists_are_carried(name):
    program, values = PROGRAMS[name], np.array([1.1, 2.2, 3.3])
    for dtype in (np.float64, np.float32):
        x = gt.constant(values.astype(dtype))
        expected = np.asarray(program(x))
        for mode in COMPILED if dtype is np.float64 else ["interpreted"]:
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = compiled(program, mode)(x)
            if "scipy" not in program.__code__.co_names:  # SciPy computes in float64
                assert y.numpy().dtype == expected.dtype
            np.testing.assert_allclose(y, expected, rtol=1e-6 if dtype is np.float32 else 1e-12, atol=1e-14)
            if dtype is np.float64:
                np.testing.assert_allclose(tape.gradient(y, x), slopes(program, values), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["array of lists", "full", "r_", "c_", "dot", "sin", "norm density"])
def test_lists_of_examples(name):
    program = PROGRAMS[name]
    xs = gt.constant(np.array([[1.1, 2.2, 3.3], [0.4, 1.5, 2.6]]))
    mapped = gt.function(lambda xs: gt.vectorized_map(lambda x: program(x), xs), jit_compile=False)(xs)
    np.testing.assert_allclose(mapped, np.stack([np.asarray(program(x)) for x in xs]), rtol=1e-12)


def test_variables_in_lists():
    v = gt.Variable(np.float64(2.0))

    @gt.function
    def f(x):
        return np.array([v, x[0] * v, v**2])

    x = gt.constant([3.0], gt.float64)
    with gt.GradientTape() as tape:
        y = f(x)
    np.testing.assert_allclose(y, [2.0, 6.0, 4.0])
    np.testing.assert_allclose(tape.gradient(y, v), 1.0 + 3.0 + 4.0)


def test_one_tensor_alone_still_has_no_value():
    with pytest.raises(gt.errors.OperatorNotAllowedInGraphError, match=r"has no value while a gt\.function is being traced"):
        gt.function(lambda x: np.array(x))(gt.ones([2]))


def test_directions_in_a_string_are_refused():
    with pytest.raises(TypeError, match=r"use np\.concatenate or np\.stack"):
        gt.function(lambda x: np.r_["0,2", x, x])(gt.ones([2]))


def test_other_functions_of_scipy_are_refused_as_before():
    with pytest.raises(gt.errors.OperatorNotAllowedInGraphError, match="has no value"):
        gt.function(lambda x: scipy.stats.cauchy.logpdf(x))(gt.ones([2]))


@pytest.mark.parametrize("ufunc", [np.sin, np.multiply])
def test_a_ufunc_is_a_function(ufunc):
    x = [gt.constant([0.5, 1.5])] * ufunc.nin
    np.testing.assert_allclose(gt.function(ufunc)(*x), ufunc(*x), rtol=1e-6)
