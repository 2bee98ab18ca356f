"""The gradient checker is itself checked: right rules pass, slightly wrong ones do not."""

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, wide


def test_right_programs_pass():
    assert gt.gradcheck(lambda x, y: gt.sin(x) * gt.exp(y), [1.0, 2.0], [0.3, -0.4]) is True
    assert gt.gradcheck(lambda x: x[0] ** 3 + x[1], np.array([1.0, 2.0]), order=1) is True
    assert gt.gradcheck(lambda z: z * z, np.array([1.0 + 2.0j])) is True


def scaled_rule(factor):
    @gt.custom_gradient
    def f(x):
        return gt.sin(x), lambda upstream: upstream * gt.cos(x) * factor

    return f


def test_a_rule_wrong_by_a_twentieth_of_a_percent_is_caught():
    assert gt.gradcheck(scaled_rule(1.0), [0.3, 0.7])
    with pytest.raises(AssertionError, match="order 1 in argument 0"):
        gt.gradcheck(scaled_rule(1.0005), [0.3, 0.7])


def test_a_wrong_second_derivative_is_caught():
    @gt.custom_gradient
    def f(x):
        return gt.sin(x), lambda upstream: upstream * gt.stop_gradient(gt.cos(x))

    assert gt.gradcheck(f, [0.3], order=1)
    with pytest.raises(AssertionError, match="order 2"):
        gt.gradcheck(f, [0.3], order=2)


def test_the_second_argument_is_checked_too():
    @gt.custom_gradient
    def f(x, y):
        return x * y, lambda upstream: (upstream * y, upstream * x * 1.001)

    with pytest.raises(AssertionError, match="argument 1"):
        gt.gradcheck(f, [1.0], [2.0], order=1)


def test_unknown_order():
    with pytest.raises(ValueError, match="order"):
        gt.gradcheck(lambda x: x, [1.0], order=3)


def test_compute_gradient():
    exact, numeric = gt.test.compute_gradient(lambda x, y: gt.sin(x) * y, [wide([1.0, 2.0]), wide([3.0, 4.0])])
    close(exact[0], np.diag(np.cos([1.0, 2.0]) * [3.0, 4.0]))
    close(numeric[1], np.diag(np.sin([1.0, 2.0])), 1e-6)
    with pytest.raises(ValueError, match="list"):
        gt.test.compute_gradient(lambda x: x, wide(1.0))
