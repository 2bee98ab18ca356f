"""Tangents of one operation: the JVP of every op, from whatever its author gave.

Elementwise ops multiply tangents by their partials, (multi)linear ones are applied to the tangent, general ones use their
jvp, and where there is none the vjp is transposed: v ↦ vjp(v)·t is linear in v, its gradient in v is the JVP.
Written in ops, so tangents can be recorded, batched and pushed forward again.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from gradtape.ad.backward import all_finite
from gradtape.ad.recording import Recording
from gradtape.core.dispatch import apply
from gradtape.core.float_events import unheard
from gradtape.core.opdef import Op, Rule
from gradtape.core.record import TRACING, current_scope
from gradtape.core.save_plan import like, parameters, shape_of
from gradtape.ops.collective import CALLS
from gradtape.ops.create import zeros_like
from gradtape.ops.elementwise import conj, real
from gradtape.ops.reduce import reduce_sum
from gradtape.ops.select import cleaned
from gradtape.ops.shape import broadcast_to
from gradtape.ops.staged import masked_multiply


def jvp_of(op: Op, inputs: tuple[Any, ...], tangents: tuple[Any, ...], out: Any, attrs: dict[str, Any]) -> Any:
    """The tangent of `out` (a tuple for several outputs, entries may be None); None if there is none.

    `inputs` and `out` are tensors, `tangents` has None where an input does not move.
    """
    if not op.differentiable or all(t is None for t in tangents):
        return None
    if op.kind == "region":
        from gradtape.ad.dual import region_jvp

        return region_jvp(attrs["operation"], inputs, tangents, out)
    with np.errstate(all="ignore"), unheard() if TRACING.get() is not None else nullcontext():
        if op.kind == "elementwise":
            return _elementwise(op, inputs, tangents, out, attrs)
        if op.kind == "linear":
            # a linear op is its own derivative, taken at the tangents
            filled = [zeros_like(x) if t is None else t for x, t in zip(inputs, tangents, strict=True)]
            call = CALLS.get(op)  # between ranks
            return apply(op, *filled, **attrs) if call is None else call(*filled[:-1], **attrs)
        if op.kind == "multilinear":
            return _multilinear(op, inputs, tangents, attrs)
        if op.jvp is not None:
            return op.jvp(*_arguments(op.jvp, op, inputs, out, attrs, tangents=tangents))
        if op.jvps:
            parts = [
                rule(*_arguments(rule, op, inputs, out, attrs, t=t))
                for rule, t in zip(op.jvps, tangents, strict=True)
                if rule is not None and t is not None
            ]
            return _sum(parts)
        return transposed(op, inputs, tangents, out, attrs)


def _sum(parts: list[Any]) -> Any:
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total


def _arguments(rule: Rule, op: Op, inputs: tuple[Any, ...], out: Any, attrs: dict[str, Any], **seeds: Any) -> list[Any]:
    """The values a rule names, in its order."""
    values: dict[str, Any] = {**attrs, **seeds, "out": out, "attrs": attrs}
    for i, name in enumerate(op.args):
        values[name.lstrip("*")] = inputs[i:] if name.startswith("*") else inputs[i]
    arguments = []
    for name in parameters(rule):
        if (shaped := shape_of(name, op.args)) is not None:
            arguments.append(tuple(values[shaped].shape))
        elif name.endswith("_spec"):
            value = values[name[:-5]]
            arguments.append(like(value))
        else:
            arguments.append(values[name])
    return arguments


def _elementwise(op: Op, inputs: tuple[Any, ...], tangents: tuple[Any, ...], out: Any, attrs: dict[str, Any]) -> Any:
    parts = []
    for partial, t in zip(op.partials, tangents, strict=True):
        if partial is None or t is None:
            continue
        if not callable(partial):
            parts.append(t * partial if partial != 1 else t)
            continue
        p = partial(*_arguments(partial, op, inputs, out, attrs))
        # a zero tangent on a lane with a non-finite partial contributes nothing
        # in a program nobody can look whether the product is finite, so the mask is always there
        if TRACING.get() is not None:
            parts.append(masked_multiply(t, p))
        else:
            product = t * p
            parts.append(product if all_finite([product]) else t * cleaned(t, p))
    total = _sum(parts)
    # the tangent of an operand that was broadcast has the operand's shape
    return None if total is None else broadcast_to(total, out.shape)


def _multilinear(op: Op, inputs: tuple[Any, ...], tangents: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    parts = []
    for i, (name, t) in enumerate(zip(op.args, tangents, strict=True)):
        if t is not None and name in op.linear_inputs:
            # linear in each input by itself: d(xy) = dx y + x dy
            parts.append(apply(op, *inputs[:i], t, *inputs[i + 1 :], **attrs))
    return _sum(parts)


def transposed(op: Op, inputs: tuple[Any, ...], tangents: tuple[Any, ...], out: Any, attrs: dict[str, Any]) -> Any:
    """J·t as the gradient of Re⟨vjp(v), t⟩ in v."""
    several = isinstance(out, tuple)
    outs = out if several else (out,)
    recording = Recording()
    with recording.recording():
        # the vjp is linear in v, so zeros are as good a place as any
        seeds = [recording.watched(zeros_like(o)) for o in outs]
        needed = tuple(t is not None for t in tangents)
        ct = tuple(seeds) if several else seeds[0]
        if op.vjp is not None:
            answers = op.vjp(*_arguments(op.vjp, op, inputs, out, attrs, ct=ct, needed=needed))
        else:
            answers = [
                rule(*_arguments(rule, op, inputs, out, attrs, ct=ct)) if rule is not None and n else None
                for rule, n in zip(op.vjps, needed, strict=True)
            ]
        total = _sum([inner(g, t) for g, t in zip(answers, tangents, strict=True) if g is not None and t is not None])
    if total is None:
        return None
    boxed = bool(current_scope().recorders) or current_scope().level > 0 or total.wraps
    ones = zeros_like(total) + 1.0
    tangent = recording.cotangents([total], [ones], [s._node for s in seeds if s._node is not None], boxed)
    recording.close()
    return tuple(tangent) if several else tangent[0]


def inner(a: Any, b: Any) -> Any:
    """Re⟨a, b⟩."""
    product = reduce_sum(conj(a) * b) if a.dtype.is_complex or b.dtype.is_complex else reduce_sum(a * b)
    return real(product) if product.dtype.is_complex else product
