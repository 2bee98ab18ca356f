"""A scalar tensor gave an iterator that failed only when it was advanced, so that whoever asks "is this iterable?" with
`iter(t)` (plotting libraries do) took a number for a sequence."""

import numpy as np
import pytest

import gradtape as gt


def is_iterable(value):
    """How matplotlib and others ask."""
    try:
        iter(value)
    except TypeError:
        return False
    return True


def test_scalars_say_so_at_once():
    assert not is_iterable(gt.constant(1.0))
    assert not is_iterable(gt.Variable(1.0))
    assert not is_iterable(gt.Variable([1.0, 2.0])[0])
    assert not np.iterable(gt.constant(3))
    with pytest.raises(TypeError, match="cannot iterate over a scalar tensor"):
        iter(gt.constant(1.0))


def test_others_iterate():
    assert [float(x) for x in gt.constant([1.0, 2.0])] == [1.0, 2.0]
    assert [tuple(x.shape) for x in gt.zeros((2, 3))] == [(3,), (3,)]
    assert list(gt.zeros((0, 3))) == []
    assert is_iterable(gt.Variable([1.0]))


def test_while_tracing_and_batching():
    seen = []

    def look(x):
        seen.append((is_iterable(x), is_iterable(gt.reduce_sum(x))))
        return gt.add_n([part for part in x])  # noqa: C416  (the iteration is what is asked for)

    x = gt.constant([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(gt.function(look)(x), [4.0, 6.0])
    np.testing.assert_array_equal(gt.vectorized_map(look, x), [3.0, 7.0])
    assert set(seen) == {(True, False)}
