"""29: branches and loops under `vectorized_map` that random numbers decide: every example has numbers of its own, whichever
way the function is run, and takes its own course by them."""

import numpy as np
import pytest

import gradtape as gt

COUNT = 400


def rejection(x):
    """A point of the unit disc in the quarter plane, by trying; its distance grows with x."""
    u = gt.random.uniform([2], dtype=gt.float64)
    tries = gt.constant(1)
    while gt.reduce_sum(u * u) >= 1.0:
        u = gt.random.uniform([2], dtype=gt.float64)
        tries += 1
    return x * gt.norm(u), tries


def jumps(x):
    for _ in gt.range(5):
        u = gt.random.normal([], dtype=gt.float64)
        if u > 0.0:
            x = x + u
    return x, gt.constant(1)


class Walker:
    """Its method is reached by names only."""

    def __init__(self):
        self.generator = gt.random.Generator.from_seed(3)

    def step(self, x):
        u = self.generator.normal([], dtype=gt.float64)
        return gt.sin(x) * u if u > 0.0 else x * u

    def walk(self, x):
        return self.step(x), gt.constant(1)


WALKER = Walker()
INNER = gt.function(jumps)
PROGRAMS = {
    "rejection": rejection,
    "nested": lambda x: INNER(x),
    "jumps": jumps,
    "method": WALKER.walk,
    "named": lambda x: WALKER.walk(x),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_each_example_takes_its_own_course(name, compiled):
    gt.random.set_seed(5)
    program = PROGRAMS[name]

    def mapped(xs):
        return gt.vectorized_map(program, xs)

    values, tries = (gt.function(mapped) if compiled else mapped)(gt.ones([COUNT], gt.float64))
    values = values.numpy()
    assert len(set(values)) > 0.9 * COUNT
    if name == "rejection":
        assert values.max() < 1.0
        assert set(tries.numpy()) >= {1, 2, 3}
        assert np.mean(values**2) == pytest.approx(0.5, abs=0.08)  # uniform on the disc: r² is uniform
        assert np.mean(tries.numpy()) == pytest.approx(4 / np.pi, abs=0.12)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
def test_gradients_belong_to_the_numbers(compiled):
    gt.random.set_seed(5)

    def one(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y, _ = rejection(x)
        return y, tape.gradient(y, x)

    def mapped(xs):
        return gt.vectorized_map(one, xs)

    xs = gt.constant(np.linspace(0.5, 2.0, 7))
    y, slope = (gt.function(mapped) if compiled else mapped)(xs)
    np.testing.assert_allclose(slope, y / xs, rtol=1e-12)
    assert len(set(slope.numpy())) == 7


def test_maps_within_maps():
    gt.random.set_seed(5)

    @gt.function
    def table(xs):
        return gt.vectorized_map(lambda x: gt.vectorized_map(lambda y: jumps(y)[0], x), xs)

    assert len(set(table(gt.zeros([6, 5], gt.float64)).numpy().ravel())) >= 29
