"""Checks of derivatives: first and second order against finite differences, forward mode against reverse mode."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tests.harness.cases import Case, tensor
from tests.harness.derivatives import (
    differentiable,
    forward_over_reverse,
    gradient,
    loss,
    nested,
    persistent,
    pushed,
    reverse_over_forward,
    weights_of,
)
from tests.harness.numeric import derivative, inner, inner_all, random_like, size_all
from tests.harness.tolerances import FINITE_DIFFERENCE, IDENTITY, ROUNDING, same_array, same_number


def check_first(case: Case) -> None:
    """Every leaf's gradient against finite differences; every subset of leaves, and both bindings of the rules, agree."""
    leaves = case.doubles()
    weights = weights_of(case, leaves)
    found = gradient(case, leaves, weights)
    for g, x in zip(found, leaves, strict=True):
        assert g.shape == np.shape(x), f"{case.id}: gradient of shape {g.shape} for an input of shape {np.shape(x)}"
        assert g.dtype == x.dtype, f"{case.id}: gradient of dtype {g.dtype} for an input of dtype {x.dtype}"
    if _smooth(case, leaves):
        rounding = _rounding(case, leaves, weights)
        for i, direction in _directions(case, leaves):
            slope = derivative(lambda s, i=i, d=direction: loss(case, _moved(leaves, i, s * d), weights))
            scale = float(np.sum(np.abs(found[i]) * np.abs(direction))) + rounding
            same_number(inner(found[i], direction), slope, FINITE_DIFFERENCE, scale, f"{case.id}: derivative in leaf {i}")
    for i in range(len(leaves)) if len(leaves) > 1 else ():
        (alone,) = gradient(case, leaves, weights, [i])
        same_array(alone, found[i], IDENTITY, f"{case.id}: gradient of leaf {i} alone")
    boxed, _, _ = nested(case, leaves, weights, leaves)
    for i, (a, b) in enumerate(zip(boxed, found, strict=True)):
        same_array(a, b, IDENTITY, f"{case.id}: rules on tensors against rules on bare arrays, leaf {i}")


def _directions(case: Case, leaves: list[Any]) -> list[tuple[int, Any]]:
    """(leaf, direction): one random direction each; two for complex leaves, along the real and the imaginary axis."""
    generator = case.generator()
    directions = []
    for i, x in enumerate(leaves):
        if not np.size(x):
            continue
        real = random_like(generator, np.real(x))
        directions.append((i, real))
        if np.asarray(x).dtype.kind == "c":
            directions.append((i, 1j * random_like(generator, np.real(x))))
    return directions


def _moved(leaves: list[Any], i: int, step: Any) -> list[Any]:
    return [x + step if j == i else x for j, x in enumerate(leaves)]


def _smooth(case: Case, leaves: list[Any]) -> bool:
    """Whether finite differences mean anything here: no kink, no infinity, and not the mean of nothing."""
    return not case.sample.kinks and all(np.isfinite(v).all() for v in (*leaves, *outputs_of(case, leaves)))


def _rounding(case: Case, leaves: list[Any], weights: list[Any]) -> float:
    """How much a finite difference loses by rounding, in units of its tolerance."""
    return (1.0 + size_all(weights, outputs_of(case, leaves))) * ROUNDING / FINITE_DIFFERENCE


def outputs_of(case: Case, leaves: list[Any]) -> list[Any]:
    return [t._data for t in differentiable(case.outputs([tensor(x) for x in leaves]))]


def check_second(case: Case) -> None:
    """The derivative of Re⟨u, gradient⟩ against finite differences of the gradient; all ways to get it agree."""
    leaves = case.doubles()
    generator = case.generator()
    weights = weights_of(case, leaves)
    u = [random_like(generator, x) for x in leaves]
    d = [random_like(generator, x) for x in leaves]
    first, second, in_weights = nested(case, leaves, weights, u)

    def slope_at(s: float) -> float:
        return inner_all(u, gradient(case, [x + s * v for x, v in zip(leaves, d, strict=True)], weights))

    if _smooth(case, leaves):
        slope = derivative(slope_at)
        scale = size_all(second, d) + size_all(u, first) * ROUNDING / FINITE_DIFFERENCE + _rounding(case, leaves, weights)
        same_number(inner_all(second, d), slope, FINITE_DIFFERENCE, scale, f"{case.id}: second derivative")
    # Re⟨u, g⟩ is linear in the weights, so its gradient in them gives it back
    same_number(
        inner_all(in_weights, weights), inner_all(u, first), IDENTITY, size_all(in_weights, weights) + size_all(u, first),
        f"{case.id}: derivative of the gradient in its seed",
    )  # fmt: skip
    for a, b in zip(persistent(case, leaves, weights, u), second, strict=True):
        same_array(a, b, IDENTITY, f"{case.id}: second derivative by a persistent tape")


def check_jvp(case: Case) -> None:
    """⟨w, J d⟩ = ⟨Jᵀ w, d⟩; forward mode in single inputs adds up; both mixed orders give the same second derivative."""
    leaves = case.doubles()
    generator = case.generator()
    weights = weights_of(case, leaves)
    d = [random_like(generator, x) for x in leaves]
    first = gradient(case, leaves, weights)
    outputs = outputs_of(case, leaves)  # where one is NaN (the mean of nothing), so is its tangent
    tangents = [np.where(np.isfinite(y), t, 0.0) for y, t in zip(outputs, pushed(case, leaves, d), strict=True)]
    scale = size_all(weights, tangents) + size_all(first, d)
    same_number(inner_all(weights, tangents), inner_all(first, d), IDENTITY, scale, f"{case.id}: jvp against vjp")
    if len(leaves) > 1:
        single = [pushed(case, leaves, d, [i]) for i in range(len(leaves))]
        for t, *parts in zip(tangents, *single, strict=True):
            same_array(sum(parts), t, IDENTITY, f"{case.id}: jvps in single inputs against the joint one")
    _, second, _ = nested(case, leaves, weights, d)
    for a, b in zip(forward_over_reverse(case, leaves, weights, d), second, strict=True):
        same_array(a, b, IDENTITY, f"{case.id}: forward over reverse")
    for a, b in zip(reverse_over_forward(case, leaves, weights, d), second, strict=True):
        same_array(a, b, IDENTITY, f"{case.id}: reverse over forward")


def check_repeated(case: Case) -> None:
    """f(x, x): the gradient of x is the sum of those of its two places."""
    pair = alike(case)
    assert pair is not None
    i, j = pair
    leaves = case.doubles()
    for value in (leaves[i], leaves[j]):
        both = [value if k in pair else x for k, x in enumerate(leaves)]
        with np.errstate(all="ignore"):
            usable = all(np.isfinite(t._data).all() for t in case.outputs([tensor(x) for x in both]))
        if usable:
            break
    else:
        raise AssertionError(f"{case.id}: no value of this sample may stand in both places")
    weights = weights_of(case, both)
    apart = gradient(case, both, weights)
    shared = tensor(value)

    class Same(Case):
        """The case with one tensor in both places."""

        def __init__(self) -> None:
            self.__dict__.update(case.__dict__)

        def outputs(self, leaves: Any = None, constants: Any = None) -> Any:
            (x, *rest) = leaves
            remaining = iter(rest)
            return Case.outputs(self, [x if k in pair else next(remaining) for k in range(len(both))], constants)

    merged = [shared._data, *(x for k, x in enumerate(both) if k not in pair)]
    together = gradient(Same(), merged, weights)
    same_array(together[0], apart[i] + apart[j], IDENTITY, f"{case.id}: a repeated argument")


def alike(case: Case) -> tuple[int, int] | None:
    """The first two leaves with one shape and dtype that could be the same tensor."""
    for i, j in itertools.combinations(range(len(case.leaves)), 2):
        a, b = case.leaves[i], case.leaves[j]
        if np.shape(a) == np.shape(b) and a.dtype == b.dtype:
            return i, j
    return None
