"""Gradients of a case by every route: one tape, nested tapes, a persistent tape, forward mode.

All take and return bare arrays; a source that is not connected has a zero gradient here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.core.dispatch import convert
from gradtape.ops.elementwise import conj, real
from gradtape.ops.reduce import reduce_sum
from tests.harness.cases import Case, tensor

Arrays = list[Any]


def differentiable(outputs: Sequence[Any]) -> list[Any]:
    return [t for t in outputs if t.dtype.is_differentiable]


def bare(answer: Any, leaf: Any) -> Any:
    """An answer of a tape as an array: None becomes zeros, a sparse answer dense."""
    return np.zeros(np.shape(leaf), np.asarray(leaf).dtype)[()] if answer is None else convert(answer)._data


def weights_of(case: Case, leaves: Arrays) -> Arrays:
    """Random weights of the differentiable outputs."""
    from tests.harness.numeric import random_like

    generator = case.generator()
    outputs = differentiable(case.outputs([tensor(x) for x in leaves]))
    return [random_like(generator, t._data).astype(t._data.dtype) for t in outputs]


def loss(case: Case, leaves: Arrays, weights: Arrays) -> float:
    """L = Re⟨w, f(leaves)⟩."""
    from tests.harness.numeric import inner_all

    outputs = differentiable(case.outputs([tensor(x) for x in leaves]))
    return inner_all(weights, [t._data for t in outputs])


def answers(case: Case, leaves: Arrays, weights: Arrays, watched: Sequence[int] | None = None) -> list[Any]:
    """What one plain tape answers for the watched leaves: tensors, sparse rows or None."""
    xs = [tensor(x) for x in leaves]
    sources = xs if watched is None else [xs[i] for i in watched]
    with gt.GradientTape() as tape:
        tape.watch(sources)
        outputs = differentiable(case.outputs(xs))
    return asked(tape, outputs, sources, [tensor(w) for w in weights])


def asked(tape: gt.GradientTape, target: Any, sources: Any, seeds: Any = None) -> list[Any]:
    """`tape.gradient` as a list."""
    return list(tape.gradient(target, sources, output_gradients=seeds))


def gradient(case: Case, leaves: Arrays, weights: Arrays, watched: Sequence[int] | None = None) -> Arrays:
    """The gradient of L by one plain tape: the rules run on bare arrays."""
    places = range(len(leaves)) if watched is None else watched
    found = answers(case, leaves, weights, watched)
    return [bare(answer, leaves[i]) for answer, i in zip(found, places, strict=True)]


def dot(weights: Arrays, tensors: Sequence[Any]) -> Any:
    """Re⟨w, t⟩ as a tensor, None where nothing is connected."""
    total = None
    for w, t in zip(weights, tensors, strict=True):
        if t is None:
            continue
        t = convert(t)
        product = conj(tensor(w)) * t
        term = reduce_sum(real(product) if product.dtype.is_complex else product)
        total = term if total is None else total + term
    return total


def nested(case: Case, leaves: Arrays, weights: Arrays, directions: Arrays) -> tuple[Arrays, Arrays, Arrays]:
    """By nested tapes: the gradient g (rules on recorded tensors), and that of Re⟨u, g⟩ in the leaves and the weights."""
    xs, ws = [tensor(x) for x in leaves], [tensor(w) for w in weights]
    with gt.GradientTape() as outer:
        outer.watch(xs)
        outer.watch(ws)
        with gt.GradientTape() as inner:
            inner.watch(xs)
            outputs = differentiable(case.outputs(xs))
        firsts = asked(inner, outputs, xs, ws)
        product = dot(directions, firsts)
    if product is None:
        seconds: list[Any] = [None] * (len(xs) + len(ws))
    else:
        seconds = asked(outer, product, xs + ws)
    found = [bare(h, x) for h, x in zip(seconds, [*leaves, *weights], strict=True)]
    return [bare(g, x) for g, x in zip(firsts, leaves, strict=True)], found[: len(xs)], found[len(xs) :]


def persistent(case: Case, leaves: Arrays, weights: Arrays, directions: Arrays) -> Arrays:
    """The gradient of Re⟨u, g⟩, both gradients asked of one persistent tape."""
    xs = [tensor(x) for x in leaves]
    with gt.GradientTape(persistent=True) as tape:
        tape.watch(xs)
        outputs = differentiable(case.outputs(xs))
        firsts = asked(tape, outputs, xs, [tensor(w) for w in weights])
        product = dot(directions, firsts)
    seconds = [None] * len(xs) if product is None else asked(tape, product, xs)
    return [bare(h, x) for h, x in zip(seconds, leaves, strict=True)]


def pushed(case: Case, leaves: Arrays, tangents: Arrays, only: Sequence[int] | None = None) -> Arrays:
    """The tangents of the differentiable outputs by forward mode, in these leaves only."""
    xs = [tensor(x) for x in leaves]
    places = range(len(xs)) if only is None else only
    with gt.autodiff.ForwardAccumulator([xs[i] for i in places], [tensor(tangents[i]) for i in places]) as accumulator:
        outputs = differentiable(case.outputs(xs))
        found = [accumulator.jvp(t) for t in outputs]
    return [bare(t, out._data) for t, out in zip(found, outputs, strict=True)]


def forward_over_reverse(case: Case, leaves: Arrays, weights: Arrays, tangents: Arrays) -> Arrays:
    """The tangent of the gradient of L."""
    xs = [tensor(x) for x in leaves]
    with gt.autodiff.ForwardAccumulator(xs, [tensor(t) for t in tangents]) as accumulator:
        with gt.GradientTape() as tape:
            tape.watch(xs)
            outputs = differentiable(case.outputs(xs))
        firsts = asked(tape, outputs, xs, [tensor(w) for w in weights])
        found = [None if g is None else accumulator.jvp(convert(g)) for g in firsts]
    return [bare(h, x) for h, x in zip(found, leaves, strict=True)]


def reverse_over_forward(case: Case, leaves: Arrays, weights: Arrays, tangents: Arrays) -> Arrays:
    """The gradient of Re⟨w, tangent of f⟩."""
    xs = [tensor(x) for x in leaves]
    with gt.GradientTape() as tape:
        tape.watch(xs)
        with gt.autodiff.ForwardAccumulator(xs, [tensor(t) for t in tangents]) as accumulator:
            outputs = differentiable(case.outputs(xs))
            product = dot(weights, [accumulator.jvp(t) for t in outputs])
    found = [None] * len(xs) if product is None else asked(tape, product, xs)
    return [bare(h, x) for h, x in zip(found, leaves, strict=True)]
