"""x[key] and x[key] = v for every combination of the parts a key may have: values, gradients and programs are NumPy's."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import gradtape as gt

X = np.random.default_rng(0).normal(size=(4, 5, 3))
FEW, TABLE = np.array([0, 2, 1]), np.array([[1], [0]])
PARTS: list[Any] = [slice(None), slice(1, 3), slice(None, None, -1), 1, -1, None, Ellipsis, FEW, TABLE, [0, 2]]


def _keys(length: int) -> Iterator[tuple[Any, ...]]:
    """Those that NumPy accepts."""
    for key in itertools.product(PARTS, repeat=length):
        try:
            X[key]
        except IndexError:  # two ellipses, too many indices, or index arrays that do not broadcast
            continue
        yield key


def _gradient(key: tuple[Any, ...]) -> Any:
    """That of Σ x[key]²."""
    total = np.zeros_like(X)
    np.add.at(total, key, 2.0 * X[key])
    return total


def test_reading() -> None:
    keys = [*_keys(1), *_keys(2), *_keys(3), *itertools.islice(_keys(4), 0, None, 9)]
    assert len(keys) > 1000
    for key in keys:
        x = gt.constant(X)
        with gt.GradientTape() as tape:
            tape.watch(x)
            part = x[key]
            total = gt.reduce_sum(part * part)
        np.testing.assert_array_equal(part, X[key], err_msg=str(key))
        np.testing.assert_allclose(tape.gradient(total, x), _gradient(key), rtol=1e-12, err_msg=str(key))


def test_writing() -> None:
    for key in [*_keys(2), *itertools.islice(_keys(3), 0, None, 3)]:
        x, expected = gt.constant(X), X.copy()
        value = np.arange(1.0 + X[key].size)[1:].reshape(X[key].shape)
        x[key] = gt.constant(value)
        expected[key] = value
        np.testing.assert_array_equal(x, expected, err_msg=str(key))


def test_programs_with_arrays_apart() -> None:
    """`...` that stands for no axes parts index arrays too: their axes come first."""
    for key in [(slice(None), TABLE, Ellipsis, -1), (slice(1, 3), -1, Ellipsis, FEW), (slice(None), FEW, Ellipsis, FEW)]:
        # as constants of the program, and as operands that run time knows
        arrays = [gt.constant(k) for k in key if isinstance(k, np.ndarray)]

        def read(x: Any, *given: Any, key: tuple[Any, ...] = key) -> Any:
            places = iter(given)
            return x[tuple(next(places) if given and isinstance(k, np.ndarray) else k for k in key)]

        for given in ((), arrays):
            np.testing.assert_array_equal(gt.function(read)(gt.constant(X), *given), X[key], err_msg=str(key))
        batch = gt.vectorized_map(lambda x, key=key: x[key], gt.constant(np.stack([X, -X])))
        np.testing.assert_array_equal(batch, np.stack([X[key], -X[key]]), err_msg=str(key))
