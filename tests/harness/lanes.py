"""Checks of lane-wise ops: empty arrays, and lanes that were not chosen and must not poison the others."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradtape as gt
from gradtape.core.opdef import Op
from tests.harness.cases import Case, tensor
from tests.harness.derivatives import bare, gradient
from tests.harness.tolerances import IDENTITY, same_array

BAD = (0.0, np.inf, -np.inf, np.nan)


def lane_wise(case: Case) -> bool:
    """The first sample of a differentiable lane-wise primitive, if it is real and not 0-d."""
    return (
        isinstance(case.owner, Op)
        and case.owner.kind == "elementwise"
        and case.index == 0
        and case.differentiable
        and len(case.leaves) == len(case.owner.args)
        and all(x.dtype.kind == "f" and x.ndim for x in case.leaves)
    )


def check_empty(case: Case) -> None:
    """No elements in, no elements out, and gradients of the right shape."""
    for shape in ((0,), (2, 0)):
        leaves = [np.zeros(shape) for _ in case.leaves]
        (out,) = case.outputs([tensor(x) for x in leaves])
        assert tuple(out.shape) == shape, f"{case.id}: shape {shape} became {out.shape}"
        for g in gradient(case, leaves, [np.zeros(shape)]):
            assert g.shape == shape, f"{case.id}: gradient of shape {g.shape} for shape {shape}"


def check_masked(case: Case) -> None:
    """Behind `where`, a lane with a value outside the domain gets an exact zero, to second order, and disturbs no other."""
    good = [np.ravel(x)[:1] for x in case.doubles()]
    expected, expected_second = _behind_where(case, good, np.array([True]))
    for bad in BAD:
        leaves = [np.concatenate([x, [bad]]) for x in good]
        first, second = _behind_where(case, leaves, np.array([True, False]))
        for found, clean, order in ((first, expected, "gradient"), (second, expected_second, "second derivative")):
            for a, b in zip(found, clean, strict=True):
                assert a[1] == 0.0, f"{case.id}: {order} of an unchosen lane at {bad} is {a[1]}"
                same_array(a[:1], b, IDENTITY, f"{case.id}: {order} next to an unchosen lane at {bad}")


def _behind_where(case: Case, leaves: list[Any], chosen: Any) -> tuple[list[Any], list[Any]]:
    xs = [tensor(x) for x in leaves]
    with np.errstate(all="ignore"), gt.GradientTape() as outer:
        outer.watch(xs)
        with gt.GradientTape() as inner:
            inner.watch(xs)
            (out,) = case.outputs(xs)
            kept = gt.reduce_sum(gt.where(chosen, out, 0.0))
        firsts = inner.gradient(kept, xs, unconnected_gradients="zero")
        total = sum((gt.reduce_sum(g) for g in firsts), gt.constant(np.float64(0.0)))
    seconds = outer.gradient(total, xs, unconnected_gradients="zero")
    return [bare(g, x) for g, x in zip(firsts, leaves, strict=True)], [bare(h, x) for h, x in zip(seconds, leaves, strict=True)]
