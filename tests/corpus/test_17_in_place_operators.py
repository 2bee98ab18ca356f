"""`a += b` rebinds as in TensorFlow while `a[...] += b` changes the tensor, and nothing said so: NumPy programs with
`def scale(a): a *= 3` came out wrong. The rule is kept, in every mode, and the documentation says it."""

import operator
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt

DOCS = Path(__file__).parents[2] / "docs"
IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow, operator.ifloordiv, operator.imod]


@pytest.mark.parametrize("step", IN_PLACE, ids=lambda step: step.__name__)
def test_an_in_place_operator_makes_a_new_tensor(step):
    a = gt.constant([4.0, 6.0])
    alias = a
    a = step(a, 2.0)
    assert a is not alias
    np.testing.assert_array_equal(alias, [4.0, 6.0])
    alias[...] = step(alias[...], 2.0)  # what `alias[...] += 2.0` means
    np.testing.assert_array_equal(alias, a)


def scale(a):
    """Its caller does not notice."""
    a *= 3.0
    return gt.reduce_sum(a)


def scale_in_place(a):
    """Its caller does."""
    a[...] *= 3.0
    return gt.reduce_sum(a)


@pytest.mark.parametrize("mode", ["eager", "native", "interpreted"])
@pytest.mark.parametrize(("change", "left", "slope"), [(scale, [1.0, 2.0], 1.0), (scale_in_place, [3.0, 6.0], 3.0)])
def test_the_caller_of_a_function(mode, change, left, slope):
    def program(x):
        a = gt.identity(x)
        change(a)
        return a

    run = program if mode == "eager" else gt.function(program, jit_compile=mode == "native")
    x = gt.constant([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = run(x)
    np.testing.assert_array_equal(y, left)
    np.testing.assert_array_equal(tape.gradient(y, x), [slope, slope])


def test_the_documentation_says_it():
    for page in ("learn/mutation.md", "howto/numpy.md"):
        text = (DOCS / page).read_text()
        assert "a += b" in text
        assert "a[...] += b" in text
        assert "rebind" in text
