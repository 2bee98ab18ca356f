"""An assignment in `init_scope` to a variable made in the same trace was lost: the block was traced like the code around it."""

import pytest

import gradtape as gt
from gradtape.errors import InaccessibleTensorError


class Model:
    def __init__(self):
        self.v = None

    @gt.function
    def made_outside_the_scope(self, x):
        if self.v is None:
            self.v = gt.Variable(1.0)
            with gt.init_scope():
                self.v.assign(5.0)
        return x * self.v

    @gt.function
    def made_in_the_scope(self, x):
        if self.v is None:
            with gt.init_scope():
                self.v = gt.Variable(1.0)
                for i in range(3):
                    self.v.assign_add(gt.constant(1.0) * i)
                self.v.assign_add(1.0)
        return x * self.v


@pytest.mark.parametrize("method", ["made_outside_the_scope", "made_in_the_scope"])
def test_a_variable_of_the_same_trace(method):
    model = Model()
    for _ in range(2):
        assert float(getattr(model, method)(gt.constant(2.0))) == 10.0
        assert float(model.v) == 5.0


def test_the_block_runs_when_the_function_is_traced():
    v = gt.Variable(0.0)

    @gt.function
    def f(x):
        with gt.init_scope():
            v.assign_add(1.0)
            c = gt.constant(2.0) * 3.0
        return x * c + v

    assert [float(f(gt.constant(1.0))) for _ in range(3)] == [7.0, 7.0, 7.0]
    assert float(v) == 1.0


def test_tapes_do_not_see_it():
    v = gt.Variable(3.0)

    def f():
        with gt.GradientTape() as tape:
            with gt.init_scope():
                a = v * v
            y = a * v
        return tape.gradient(y, v)

    assert float(f()) == float(gt.function(f)()) == 9.0


def test_values_of_the_function_are_not_there():
    v = gt.Variable(0.0)

    @gt.function
    def computes(x):
        with gt.init_scope():
            return x * 2.0

    @gt.function
    def assigns(x):
        with gt.init_scope():
            v.assign(x)
        return x

    for f in (computes, assigns):
        with pytest.raises(InaccessibleTensorError, match=r"'x'.*used outside the function that made it"):
            f(gt.constant(1.0))
    assert float(v) == 0.0
