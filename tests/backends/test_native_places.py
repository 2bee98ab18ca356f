"""Places as numbers, natively: writers of the same place, index tuples, diagonals; what is out of range is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.backends.agreement import compared
from tests.harness.tolerances import same_array

ALIGNS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def native(function: Any) -> Any:
    return gt.function(function, jit_compile=True)


def calls_numpy(function: Any) -> bool:
    return "calls NumPy" in function.explain()


@pytest.mark.parametrize(
    ("rows", "columns", "k"),
    [(3, 3, (0, 0)), (3, 5, (-2, 4)), (5, 3, (-3, 1)), (1, 4, (0, 2)), (4, 1, (-3, 0)), (4, 4, (2, 2))],
)
def test_diagonals(rows: int, columns: int, k: tuple[int, int]) -> None:
    x = gt.constant(np.random.default_rng(0).normal(size=(2, rows, columns)))
    for align in ALIGNS if k[0] != k[1] else ALIGNS[:1]:

        def part(x: Any, align: str = align) -> Any:
            return gt.linalg.diag_part(x, k=k, align=align)

        def whole(p: Any, align: str = align) -> Any:
            return gt.linalg.diag(p, k=k, num_rows=rows, num_cols=columns, align=align)

        f, g = native(part), native(whole)
        packed = part(x)
        np.testing.assert_array_equal(f(x).numpy(), packed.numpy())
        np.testing.assert_array_equal(g(packed).numpy(), whole(packed).numpy())
        assert not calls_numpy(f)
        assert not calls_numpy(g)


@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(0,), (1,), (63,), (64,), (65,), (200,), (3, 0), (0, 3), (5, 70), (2, 3, 129)], ids=str)
def test_masks(shape: tuple[int, ...], density: float) -> None:
    rng = np.random.default_rng(2)
    x = gt.constant(rng.normal(size=shape))
    limit = gt.constant(np.quantile(x.numpy(), density) if density not in (0.0, 1.0) and x.shape.num_elements() else
                        (-np.inf, np.inf)[density == 1.0])  # fmt: skip

    def picked(x: Any, limit: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x[(x < limit) | (x < -1.5)]
            total = gt.reduce_sum(y**2)
        return y, tape.gradient(total, x)

    f = native(picked)
    for a, b in zip(f(x, limit), picked(x, limit), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert not calls_numpy(f)


def scattered(x: Any, indices: Any, values: Any) -> Any:
    for i in gt.range(3):
        x = gt.tensor_scatter_nd_update(x, indices, values * gt.sin(x[1, 0]) * gt.cast(i + 1, gt.float64))
    return gt.reduce_sum(x * x)


def test_rows_are_replaced_in_place() -> None:
    rng = np.random.default_rng(1)
    x, values = gt.constant(rng.normal(size=(4, 3))), gt.constant(rng.normal(size=(3, 3)))
    indices = gt.constant([[2], [0], [2]])  # the last one wins

    def derivatives(f: Any) -> list[Any]:
        with gt.GradientTape() as tape:
            tape.watch((x, values))
            y = f(x, indices, values)
        return [y.numpy(), *(g.numpy() for g in tape.gradient(y, (x, values)))]

    program = native(scattered)
    with compared():
        found = derivatives(program)
    for a, b in zip(found, derivatives(scattered), strict=True):
        same_array(a, b, 1e-12, "scattered in a loop")
    program(x, indices, values)
    assert "update_at_into" in program.to_text()
    assert not calls_numpy(program)
    with pytest.raises(ValueError, match="does not lie"):
        program(x, gt.constant([[2], [4], [0]]), values)


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint8"])
def test_extremes_of_rows(dtype: str) -> None:
    x = np.array([3, 1, 4, 1, 5], dtype)
    values = np.array([2, 9, 0, 7], dtype)
    indices = np.array([[1], [1], [0], [4]])
    for op in (gt.tensor_scatter_nd_max, gt.tensor_scatter_nd_min):
        f = native(op)
        found = f(gt.constant(x), gt.constant(indices), gt.constant(values))
        np.testing.assert_array_equal(found.numpy(), op(x, indices, values).numpy())
        assert not calls_numpy(f)


def test_extremes_of_nothing_and_nan() -> None:
    f = native(gt.tensor_scatter_nd_max)
    x = gt.constant([1.0, np.nan, -0.0])
    found = f(x, gt.constant([[0], [1], [2]]), gt.constant([np.nan, 2.0, 0.0])).numpy()
    np.testing.assert_array_equal(found, [np.nan, np.nan, 0.0])
    none = f(x, gt.constant(np.zeros((0, 1), np.int32)), gt.constant(np.zeros(0, np.float32))).numpy()
    np.testing.assert_array_equal(none, x.numpy())
