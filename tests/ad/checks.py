"""Derivatives of a compiled function against those of the same Python function run eagerly, and against finite differences.

The scalar that is differentiated is a fixed weighted sum of all floating outputs. Sources are the floating arrays among the
arguments; tensors are made anew for each run, so a function may write into them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradtape as gt
from tests.harness.numeric import derivative, inner_all, size_all
from tests.harness.tolerances import FINITE_DIFFERENCE, IDENTITY, ROUNDING, same_array, same_number

ALIKE = 1e-10  # compiled against eager: sums in another order
Function = Callable[..., Any]


def is_source(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic, float)) and np.asarray(value).dtype.kind in "fc"


def tensors(args: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Arguments as tensors, and those of them that can be differentiated; the latter are arguments' copies' origins."""
    made = [gt.constant(a) if isinstance(a, (np.ndarray, np.generic, float)) else a for a in args]
    return made, [t for t, a in zip(made, args, strict=True) if is_source(a)]


def direction(x: Any, frequency: float) -> Any:
    """A fixed direction, nowhere zero; complex for complex arrays."""
    steps = np.arange(1.0, np.size(x) + 1.0).reshape(np.shape(x))
    made = np.sin(frequency * steps) + 1.2
    return (made + 1j * np.cos(frequency * steps))[()] if np.asarray(x).dtype.kind == "c" else made[()]


def weighted(result: Any) -> Any:
    """A scalar that depends on every floating number of the result, each with a weight of its own."""
    total: Any = gt.constant(0.0, gt.float64)
    for place, leaf in enumerate(gt.nest.flatten(result)):
        if not gt.is_tensor(leaf) or not leaf.dtype.is_differentiable:
            continue
        parts = [gt.math.real(leaf), gt.math.imag(leaf)] if leaf.dtype.is_complex else [leaf]
        for part in parts:
            flat = gt.reshape(gt.cast(part, gt.float64), [-1])
            total = total + gt.reduce_sum(flat * gt.cos(gt.cast(gt.range(gt.size(flat)), gt.float64) + 0.7 * place + 1.0))
    return total


def loss_of(f: Function) -> Function:
    """The scalar, as a function of the arguments; the function gets copies, so that it may write into them."""
    return lambda *args: weighted(f(*[gt.identity(a) if gt.is_tensor(a) else a for a in args]))


def value_at(f: Function, args: Sequence[Any]) -> float:
    return float(loss_of(f)(*tensors(args)[0]))


def moved(args: Sequence[Any], step: float, frequency: float = 1.0) -> list[Any]:
    """The arguments with every source moved along its direction."""
    return [a + step * direction(a, frequency) if is_source(a) else a for a in args]


def first(f: Function, args: Sequence[Any]) -> list[Any]:
    """The gradient by a tape outside; None where there is none."""
    given, sources = tensors(args)
    with gt.GradientTape() as tape:
        tape.watch(sources)
        loss = loss_of(f)(*given)
    return [None if g is None else g.numpy() for g in tape.gradient(loss, sources)]


def second(f: Function, args: Sequence[Any], inside: bool = False) -> list[Any]:
    """The gradient of <gradient, u>; with `inside` both tapes are part of `f`'s own world: see `twice`."""
    given, sources = tensors(args)
    with gt.GradientTape() as outer:
        outer.watch(sources)
        total = along(f)(*given) if not inside else f(*given)
    return [None if g is None else g.numpy() for g in outer.gradient(total, sources)]


def along(f: Function) -> Function:
    """<gradient of f's scalar, u>, by a tape, as a function of the arguments."""

    def product(*args: Any) -> Any:
        sources = [a for a in args if gt.is_tensor(a) and a.dtype.is_differentiable]
        with gt.GradientTape() as tape:
            tape.watch(sources)
            loss = loss_of(f)(*args)
        total: Any = gt.constant(0.0, gt.float64)
        for x, g in zip(sources, tape.gradient(loss, sources), strict=True):
            if g is not None:
                u = gt.constant(direction(np.ones(tuple(x.shape), x.dtype.as_numpy_dtype), 2.0))
                part = gt.math.real(gt.math.conj(u) * g) if x.dtype.is_complex else gt.cast(u, x.dtype) * g
                total = total + gt.cast(gt.reduce_sum(part), gt.float64)
        return total

    return product


def same_gradients(actual: list[Any], expected: list[Any], what: str, tolerance: float = ALIKE) -> None:
    """The same numbers. Where a run had no connection, a program may have one that this run did not take: zeros."""
    for a, e in zip(actual, expected, strict=True):
        if e is None:
            assert a is None or not a.any(), f"{what}: {actual} against {expected}"
            continue
        assert a is not None, f"{what}: {actual} against {expected}"
        assert a.dtype == e.dtype, f"{what}: {a.dtype} against {e.dtype}"
        same_array(a, e, tolerance, what)


def check_values(f: Function, compiled: Function, args: Sequence[Any], tolerance: float = IDENTITY) -> None:
    expected = gt.nest.flatten(f(*tensors(args)[0]))
    actual = gt.nest.flatten(compiled(*tensors(args)[0]))
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        same_array(gt.constant(a).numpy(), gt.constant(e).numpy(), tolerance, "value")


def check_first(f: Function, compiled: Function, args: Sequence[Any], slopes: bool = True) -> None:
    """Compiled = eager = finite differences (these not with `slopes=False`: where the rule is not the derivative)."""
    eager = first(f, args)
    same_gradients(first(compiled, args), eager, "gradient")
    if not slopes:
        return
    slope = derivative(lambda s: value_at(f, moved(args, s)))
    known, d = zip(*[(np.zeros_like(a) if g is None else g, direction(a, 1.0)) for a, g in _pairs(args, eager)], strict=True)
    scale = size_all(known, d) + (1.0 + abs(value_at(f, args))) * ROUNDING / FINITE_DIFFERENCE
    same_number(inner_all(known, d), slope, FINITE_DIFFERENCE, scale, "gradient against finite differences")


def _pairs(args: Sequence[Any], answers: list[Any]) -> list[tuple[Any, Any]]:
    return list(zip([a for a in args if is_source(a)], answers, strict=True))


def check_second(f: Function, compiled: Function, args: Sequence[Any], slopes: bool = True, native: bool = True) -> None:
    """Tapes outside, inside, and one of each: compiled = eager = finite differences of the compiled gradient."""
    eager = second(f, args)
    zeros = [np.zeros_like(a) if g is None else g for a, g in _pairs(args, eager)]
    same_gradients(second(compiled, args), eager, "both tapes outside")
    mixed = second(gt.function(along(f), jit_compile=native), args, inside=True)
    same_gradients(_filled(mixed, args), zeros, "one tape inside, one outside")
    inner = gt.function(lambda *given: second_inside(f, given), jit_compile=native)(*tensors(args)[0])
    same_gradients([g.numpy() for g in inner], zeros, "both tapes inside")

    if not slopes:
        return

    def slope_at(s: float) -> float:
        found = first(compiled, moved(args, s))
        pairs = [(direction(a, 2.0), g) for a, g in _pairs(args, found) if g is not None]
        return sum(inner_all([u], [g]) for u, g in pairs)

    d = [direction(a, 1.0) for a in args if is_source(a)]
    scale = size_all(zeros, d) + (1.0 + abs(slope_at(0.0))) * ROUNDING / FINITE_DIFFERENCE
    same_number(inner_all(zeros, d), derivative(slope_at), FINITE_DIFFERENCE, scale, "second derivative against differences")


def _filled(answers: list[Any], args: Sequence[Any]) -> list[Any]:
    return [np.zeros_like(a) if g is None else g for a, g in _pairs(args, answers)]


def second_inside(f: Function, given: Sequence[Any]) -> list[Any]:
    sources = [a for a in given if gt.is_tensor(a) and a.dtype.is_differentiable]
    with gt.GradientTape() as outer:
        outer.watch(sources)
        total = along(f)(*given)
    return outer.gradient(total, sources, unconnected_gradients="zero")


def pushed(f: Function, args: Sequence[Any]) -> list[Any]:
    """Tangents of the floating results along the directions, by forward mode outside."""
    given, sources = tensors(args)
    with gt.autodiff.ForwardAccumulator(sources, tangents_of(sources)) as acc:
        outs = _floating(f(*[gt.identity(a) if gt.is_tensor(a) else a for a in given]))
    return [acc.jvp(y, unconnected_gradients="zero").numpy() for y in outs]


def pushed_inside(f: Function) -> Function:
    """The same as a function of the arguments, to be compiled."""

    def push(*given: Any) -> list[Any]:
        sources = [a for a in given if gt.is_tensor(a) and a.dtype.is_differentiable]
        with gt.autodiff.ForwardAccumulator(sources, tangents_of(sources)) as acc:
            outs = _floating(f(*[gt.identity(a) if gt.is_tensor(a) else a for a in given]))
        return [acc.jvp(y, unconnected_gradients="zero") for y in outs]

    return push


def tangents_of(sources: list[Any]) -> list[Any]:
    made = [direction(np.ones(tuple(x.shape), x.dtype.as_numpy_dtype), 1.0) for x in sources]
    return [gt.constant(np.asarray(d, x.dtype.as_numpy_dtype)[()]) for d, x in zip(made, sources, strict=True)]


def _floating(result: Any) -> list[Any]:
    """The floating results as tensors: what a loop of Python numbers gives is one outside of the function only."""
    leaves = [gt.convert_to_tensor(y) if isinstance(y, float) else y for y in gt.nest.flatten(result)]
    return [y for y in leaves if gt.is_tensor(y) and y.dtype.is_differentiable]


def check_forward(f: Function, compiled: Function, args: Sequence[Any], native: bool = True) -> None:
    """Forward mode around the compiled function, and compiled: = eager; <w, J d> = <Jt w, d>."""
    eager = pushed(f, args)
    for a, e in zip(pushed(compiled, args), eager, strict=True):
        same_array(a, e, ALIKE, "forward mode around the function")
    for a, e in zip(gt.function(pushed_inside(f), jit_compile=native)(*tensors(args)[0]), eager, strict=True):
        same_array(a.numpy(), e, ALIKE, "forward mode inside the function")
    total = float(weighted([gt.constant(t) for t in eager]))
    found = [(g, direction(a, 1.0)) for a, g in _pairs(args, first(compiled, args)) if g is not None]
    product = sum(inner_all([g], [d]) for g, d in found)
    scale = sum(size_all([g], [d]) for g, d in found)
    same_number(total, product, IDENTITY * 10, max(scale, 1.0), "jvp against vjp")
