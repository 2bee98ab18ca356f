"""Checks of what an op computes: results, types, precision, memory layout, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.ad.expansion import expansion
from gradtape.dtypes import ALL, DType
from gradtape.ir.graph import Block, Operation
from tests.harness import lists
from tests.harness.cases import Case, in_precision, tensor
from tests.harness.derivatives import answers, differentiable, gradient, weights_of
from tests.harness.spy import Call, spied
from tests.harness.tolerances import IDENTITY, SINGLE, same_array

_DTYPE_NAMES = {d.name for d in ALL}


def check_forward(case: Case) -> None:
    """Repeatable, finite where it is differentiated, NumPy scalars for 0-d, equal to running each `impl` bare."""
    first, second = case.outputs(), case.outputs()
    assert first, f"{case.id} returns no tensor"
    bare, _ = spied(case)
    assert len(bare) == len(first)
    for a, b, c in zip(first, second, bare, strict=True):
        assert _identical(a._data, b._data), f"{case.id}: two calls differ: {a} and {b}"
        assert _identical(a._data, c), f"{case.id}: {a} but impl on bare arrays gives {c}"
        assert np.ndim(a._data) > 0 or isinstance(a._data, np.generic) or a.dtype == "string", (
            f"{case.id}: a 0-d result is a NumPy scalar, not {type(a._data).__name__}"
        )
        if case.differentiable and not case.sample.kinks and all(np.size(x) for x in case.leaves):
            assert np.isfinite(a._data).all(), f"{case.id}: not finite: {a}"


def check_expand(case: Case) -> None:
    """What an op means in simpler ops is what it is, in double and in single precision, with the same types; traced or not."""
    for double, tolerance in ((True, IDENTITY), (False, SINGLE)):
        leaves = [in_precision(x, double) for x in case.leaves]
        for call in (call for call in spied(case, leaves)[1] if call.op.expand is not None):
            inputs = [tensor(x) for x in call.inputs]
            results = call.op.expand(*inputs, **call.attrs)
            if results is None:
                continue
            for a, b in zip(results if isinstance(results, tuple) else (results,), call.results, strict=True):
                assert a._data.dtype == np.asarray(b).dtype
                same_array(a._data, b, tolerance, f"{case.id}: {call.op.name} in simpler ops")
            operation = Operation(call.op, Block(lists.specs_of(call.inputs)).params, lists.specs_of(call.results), call.attrs)
            assert expansion(operation) is not None


def _identical(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def check_infer(case: Case) -> None:
    """The type rule agrees with the real output, in double and in single precision."""
    for double in (True, False):
        leaves = [in_precision(x, double) for x in case.leaves]
        for call in spied(case, leaves)[1]:
            check_call_type(call)


def check_call_type(call: Call) -> None:
    """The type rule of one primitive call: its dtype and shape, where a None dimension is unknown."""
    specs = lists.specs_of(call.inputs)
    inferred = call.op.infer(*specs, **call.attrs)
    inferred = inferred if isinstance(inferred, tuple) else (inferred,)
    text = f"infer of {call.op.name} on {specs} with {call.attrs}"
    assert len(inferred) == len(call.results), f"{text}: {len(inferred)} outputs, really {len(call.results)}"
    for spec, result in zip(inferred, call.results, strict=True):
        assert lists.fits(spec, result), f"{text}: {spec}, really {lists.specs_of((result,))}"


def check_single(case: Case) -> None:
    """float32 in, float32 out, and close to the float64 result; the same for gradients."""
    singles = [in_precision(x, double=False) for x in case.leaves]
    doubles = [in_precision(x, double=True) for x in singles]
    constants: Callable[[Any], Any] = lambda x: in_precision(x, double=False)  # noqa: E731
    low = case.outputs([tensor(x) for x in singles], constants)
    high = case.outputs([tensor(x) for x in doubles])
    for a, b in zip(low, high, strict=True):
        same_array(a._data, b._data, SINGLE, f"{case.id} in float32")
        if not _names_dtype(case) and b.dtype.is_differentiable:
            assert a._data.dtype == in_precision(b._data, double=False).dtype, f"{case.id}: float32 in, {a.dtype.name} out"
    if case.differentiable and differentiable(high):
        check_single_gradient(case, singles, doubles)


def check_single_gradient(case: Case, singles: list[Any], doubles: list[Any]) -> None:
    weights = weights_of(case, doubles)
    kinds = [t._data for t in differentiable(case.outputs([tensor(x) for x in singles]))]
    low = gradient(case, singles, [w.astype(k.dtype) for w, k in zip(weights, kinds, strict=True)])
    high = gradient(case, doubles, weights)
    for a, b, x in zip(low, high, singles, strict=True):
        assert a.dtype == x.dtype, f"{case.id}: the gradient of a {x.dtype} input is {a.dtype}"
        same_array(a, b, SINGLE, f"{case.id}: gradient in float32")


def _names_dtype(case: Case) -> bool:
    """Whether an argument asks for a particular dtype."""
    given = [*case.sample.args, *case.sample.kwargs.values()]
    return any(isinstance(a, DType) or (isinstance(a, str) and a in _DTYPE_NAMES) for a in given)


# images, whose integers stand for fractions of their largest value
FRACTIONS = {"convert_image_dtype", "adjust_gamma"}


def check_integers(case: Case) -> None:
    """Integers either are refused or give what the same numbers give as floats, with the type `infer` says."""
    if case.name in FRACTIONS:
        return
    whole = [np.rint(x).astype(np.int32) for x in case.leaves]
    with np.errstate(all="ignore"):
        try:
            outputs = case.outputs([tensor(x) for x in whole])
        except (ValueError, TypeError):
            return
        for call in spied(case, whole)[1]:
            check_call_type(call)
        floats = case.outputs([tensor(x.astype(np.float64)) for x in whole])
    for a, b in zip(outputs, floats, strict=True):
        x, y = np.asarray(a._data), np.asarray(b._data)
        assert x.shape == y.shape
        if x.dtype.kind in "fc":
            same_array(x, y.astype(np.float64) if y.dtype.kind == "i" else y, SINGLE, f"{case.id} on integers")
        elif y.dtype.kind == "f":
            exact = np.isfinite(y) & (y == np.rint(y)) & (np.abs(y) < 2**31)
            assert np.array_equal(x[exact], y[exact]), f"{case.id} on integers: {x} against {y}"


def check_layouts(case: Case) -> None:
    """Fortran order, negative and large strides change nothing; nothing an op was given is written to."""
    leaves = case.doubles()
    base = [np.array(t._data) for t in case.outputs([tensor(x) for x in leaves])]
    slopes = case.differentiable and bool(differentiable(case.outputs([tensor(x) for x in leaves])))
    weights = weights_of(case, leaves) if slopes else []
    expected = gradient(case, leaves, weights) if slopes else []
    for arranged in (_fortran, _backwards, _strided):
        views = [arranged(x) for x in leaves]
        before = [np.array(x) for x in views]
        for a, b in zip(case.outputs([tensor(x) for x in views]), base, strict=True):
            same_array(a._data, b, IDENTITY, f"{case.id} with {arranged.__name__} inputs")
        if slopes:
            found = gradient(case, views, [arranged(w) for w in weights])
            for a, b in zip(found, expected, strict=True):
                same_array(a, b, IDENTITY, f"{case.id}: gradient with {arranged.__name__} inputs")
        for a, b in zip(views, before, strict=True):
            assert np.array_equal(a, b, equal_nan=True), f"{case.id} changed its input"


def _fortran(x: Any) -> Any:
    return np.array(x, order="F")


def _backwards(x: Any) -> Any:
    x = np.asarray(x)
    return np.array(x[(slice(None, None, -1),) * x.ndim], order="C")[(slice(None, None, -1),) * x.ndim]


def _strided(x: Any) -> Any:
    x = np.asarray(x)
    wide = np.full(tuple(2 * d for d in x.shape), 99.0, x.dtype)
    wide[(slice(None, None, 2),) * x.ndim] = x
    return wide[(slice(None, None, 2),) * x.ndim]


def check_error(case: Case) -> None:
    """An error sample raises the promised type and text, and leaves nothing on the tape."""
    kind, text = case.sample.raises  # type: ignore[misc]
    xs = [tensor(x) for x in case.leaves]
    with gt.GradientTape() as tape:
        tape.watch(xs)
        before = len(tape.records)
        message = None
        try:
            case.call(xs)
        except kind as error:
            message = str(error)
        assert message is not None, f"{case.id}: nothing was raised, {kind.__name__} was promised"
        assert text in message, f"{case.id}: the message {message!r} does not contain {text!r}"
        assert len(tape.records) == before, f"{case.id}: a failed call left {len(tape.records) - before} records"


def check_no_gradient(case: Case) -> None:
    """An op without a derivative disconnects its sources; it never answers zeros."""
    found = answers(case, case.leaves, weights_of(case, case.leaves))
    assert all(answer is None for answer in found), f"{case.id} has no derivative but gave {found}"
