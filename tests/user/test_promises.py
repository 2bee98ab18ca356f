"""Small promises that users rely on without reading about them: own results, independent numbers, derivatives again."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import gradtape as gt
from tests.tape.util import close, wide

RETURNING_THEIR_ARGUMENT = {
    "ensure_shape": lambda t: gt.ensure_shape(t, (None,)),
    "identity": gt.identity,
    "cast": lambda t: gt.cast(t, t.dtype),
    "broadcast_to": lambda t: gt.broadcast_to(t, (3,)),
    "pad": lambda t: gt.pad(t, [[0, 0]], "REFLECT"),
    "+t": lambda t: +t,
    "np.atleast_1d": np.atleast_1d,
    "np.atleast_1d of two": lambda t: np.atleast_1d(t, 1.0)[0],
    "np.diff": lambda t: np.diff(t, 0),
    "np.clip": lambda t: np.clip(t, None, None),
    "np.fft.fftn": lambda t: np.fft.fftn(t, axes=()),
    "xp.clip": lambda t: t.__array_namespace__().clip(t),
}


@pytest.mark.parametrize("name", list(RETURNING_THEIR_ARGUMENT))
def test_a_result_is_never_the_argument_itself(name):
    t = gt.constant([1.0, 2.0, 3.0])
    out = RETURNING_THEIR_ARGUMENT[name](t)
    out[0] = 9.0
    assert t.numpy().tolist() == [1.0, 2.0, 3.0]


DRAWS = {
    "normal": lambda x: gt.random.normal((2,)),
    "uniform": lambda x: gt.random.uniform((2,), 0, 2**30, gt.int32),
    "gamma": lambda x: gt.random.gamma((2,), 2.0 + x),
    "shuffle": lambda x: gt.random.shuffle(gt.range(50)),
    "dropout": lambda x: gt.nn.dropout(gt.ones((50,)) + x, 0.5),
    "generator": lambda x, g=gt.random.Generator.from_seed(3): g.normal((2,)),
    "nested": lambda x: gt.vectorized_map(lambda y: y + gt.random.normal(()), gt.zeros((2,))),
}


@pytest.mark.parametrize("name", list(DRAWS))
def test_random_numbers_in_vectorized_map_are_independent(name):
    gt.random.set_seed(1)
    rows = gt.vectorized_map(DRAWS[name], gt.zeros((6,))).numpy()
    assert len({row.tobytes() for row in rows}) == 6


def test_stateless_numbers_in_vectorized_map_are_those_of_their_seed():
    rows = gt.vectorized_map(lambda x: gt.random.stateless_normal((2,), (1, 2)), gt.zeros((3,)))
    close(rows, np.broadcast_to(gt.random.stateless_normal((2,), (1, 2)).numpy(), (3, 2)))


def test_random_numbers_in_vectorized_map_are_reproducible_and_used_once():
    draw = lambda x: x + gt.random.normal(())  # noqa: E731  (called twice)
    gt.random.set_seed(7)
    first, after = gt.vectorized_map(draw, gt.zeros((3,))).numpy(), gt.random.normal(()).numpy()
    gt.random.set_seed(7)
    close(gt.vectorized_map(draw, gt.zeros((3,))), first)
    close(gt.random.normal(()), after)
    assert after not in first
    assert gt.vectorized_map(draw, gt.zeros((0,))).shape == (0,)


def test_a_generator_and_the_global_seed_are_different_streams():
    gt.random.set_seed(1)
    assert float(gt.random.normal(())) != float(gt.random.Generator.from_seed(1).normal(()))


def test_jacobian_after_the_block_can_be_differentiated_again():
    x = wide([1.0, 2.0])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x[::-1] * x**2
    j = tape.jacobian(y, x)
    second = tape.jacobian(j, x).numpy()
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            z = x[::-1] * x**2
        k = inner.jacobian(z, x)
    close(second, outer.jacobian(k, x).numpy())


def test_batch_jacobian_and_hessian_after_the_block_can_be_differentiated_again():
    x = wide([[1.0, 2.0], [3.0, 4.0]])
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**3
        s = gt.reduce_sum(x**4)
    close(tape.gradient(tape.batch_jacobian(y, x), x), 6.0 * x.numpy())
    close(tape.gradient(tape.hessian(s, x), x), 24.0 * x.numpy())


def test_what_a_jacobian_leaves_behind_goes_with_the_tape():
    x = wide([1.0, 2.0])
    gc.disable()
    try:
        with gt.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x * x
        j = tape.jacobian(y, x)
        gone = [weakref.ref(tape), weakref.ref(y)]
        del tape, y
        assert [r() for r in gone] == [None, None]
        close(j, np.diag([2.0, 4.0]))
    finally:
        gc.enable()


def test_unused_evaluations_under_a_tape_and_an_accumulator_do_not_pile_up():
    x = wide(np.ones(5000))
    with gt.GradientTape() as tape, gt.autodiff.ForwardAccumulator(x, gt.ones_like(x)):
        tape.watch(x)
        counts = []
        for _ in range(3):
            for _ in range(500):
                gt.sin(x) * x
            counts.append(len(tape.records))
    assert max(counts) < 500


def test_operators_of_python():
    a, b = gt.constant([7, -7]), gt.constant([2, 2])
    assert [t.numpy().tolist() for t in divmod(a, b)] == [[3, -4], [1, 1]]
    assert [t.numpy().tolist() for t in divmod(9, b)] == [[4, 4], [1, 1]]
    assert (b << 3).numpy().tolist() == [16, 16]
    assert (1 << b).numpy().tolist() == [4, 4]
    assert (gt.constant([9, 5]) >> 1).numpy().tolist() == [4, 2]
    assert round(gt.constant([1.26, 2.5]), 1).numpy().tolist() == [np.float32(1.3), 2.5]
    assert round(gt.Variable(2.5)).numpy() == 2.0
