"""Every op natively against its `impl`: all samples in both precisions, element operations on all dtypes and odd numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from gradtape.backends.llvm import compile_block
from gradtape.backends.llvm.kernels.table import LOWERINGS
from gradtape.backends.numpy import compile_block as reference_block
from gradtape.core.opdef import Op
from gradtape.dtypes import as_dtype
from gradtape.ir.types import ListSpec
from gradtape.ops import registry
from gradtape.ops.composite import ADD_N
from gradtape.passes.inplace import is_twin
from tests.backends.native_calls import Answer, Call, arguments, batches, block_of, known, run
from tests.backends.numpy_ops import ALONE, CALL_NUMPY, IN_PART
from tests.harness.cases import Case, all_cases, in_precision, tensor
from tests.harness.spy import Spy, spied
from tests.harness.tolerances import NATIVE_ULPS

OPS = [op for op in registry.OPS if op.samples is not None]


@cache
def sampled() -> dict[str, list[Call]]:
    """The primitive calls of each op's own samples, in double and single precision."""
    found: dict[str, list[Call]] = {op.name: [] for op in OPS}
    for case in all_cases():
        if case.fails or not isinstance(case.owner, Op):
            continue
        for double in (True, False):
            for call in _calls(case, double):
                if call.op.name in found and call.op is case.owner and known(call):
                    found[call.op.name].append(call)
    return found


def _calls(case: Case, double: bool) -> list[Call]:
    leaves = [in_precision(np.asarray(x), double) for x in case.leaves]
    with np.errstate(all="ignore"):
        return [Call(c.op, c.inputs, c.attrs, f"{case.id}, {'double' if double else 'single'}") for c in spied(case, leaves)[1]]


@cache
def answered() -> dict[str, list[tuple[Call, Answer]]]:
    """All samples, run natively."""
    found: dict[str, list[tuple[Call, Answer]]] = {op.name: [] for op in OPS}
    for batch in batches(call for calls in sampled().values() for call in calls):
        for call, answer in zip(batch, run(batch), strict=True):
            found[call.op.name].append((call, answer))
    return found


LIMITS = {"ndtr": 500.0}  # SciPy rounds x/√2, which costs x² ulp
EXACT = frozenset({"cast", "where", "abs", "sign"})
# where a sum cancels, what was added up is the measure: x·(1 + tanh …), zeros of functions that SciPy misses too
MEASURES: dict[str, Callable[[Call, Any], Any]] = {
    "gelu": lambda call, expected: call.inputs[0],
    "lgamma": lambda call, expected: np.maximum(np.abs(expected), expected.dtype.type(1)),
    "digamma": lambda call, expected: np.maximum(np.abs(expected), expected.dtype.type(1)),
}

# where SciPy is wrong: it takes log Γ of subnormal numbers for infinite, and cannot tell ψ next to its poles
WRONG: dict[str, Callable[[Any], Any]] = {
    "lgamma": lambda x: (x != 0) & (np.abs(x) < 1e-37),
    "digamma": lambda x: (x < -0.5) & np.isclose(x, np.rint(x), 0, 1e-6),
}


def ulps(a: Any, b: Any, scale: Any) -> Any:
    """The distances of two arrays in units of the last place of `scale`."""
    if a.dtype.kind == "c":
        return np.maximum(ulps(a.real, b.real, scale.real), ulps(a.imag, b.imag, scale.imag))
    with np.errstate(all="ignore"):
        gap = np.abs(a.astype(np.longdouble) - b.astype(np.longdouble)) / np.spacing(np.abs(scale)).astype(np.longdouble)
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.where(np.isnan(gap), np.inf, gap))


def agrees(call: Call, answer: Answer) -> None:
    assert answer.results is not None
    for got, expected in zip(answer.results, call.expected(), strict=True):
        expected = np.asarray(expected)
        what = f"{call.label}: {call.op.name} of {call.specs} with {call.attrs}"
        assert got.dtype == expected.dtype, f"{what} is {got.dtype}, not {expected.dtype}"
        assert got.shape == expected.shape, f"{what} has the shape {got.shape}, not {expected.shape}"
        if call.op.kind == "elementwise" or call.op.name in EXACT or expected.dtype.kind not in "fc":
            same_elements(call, what, got, expected)
        else:
            eps = np.finfo(expected.dtype).eps
            scale = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0))
            np.testing.assert_allclose(got, expected, rtol=16 * eps, atol=16 * eps * scale, err_msg=what)


def same_elements(call: Call, what: str, got: Any, expected: Any) -> None:
    got = np.asarray(got)
    if expected.dtype.kind in "fc":
        measure = MEASURES.get(call.op.name)
        distance = ulps(got, expected, expected if measure is None else measure(call, expected))
        wrong = distance > LIMITS.get(call.op.name, NATIVE_ULPS)
        if call.op.name in WRONG:
            wrong &= ~WRONG[call.op.name](call.inputs[0])
    else:
        distance = wrong = got != expected
    if wrong.any():
        k = np.unravel_index(np.argmax(distance), distance.shape)
        given = [np.broadcast_to(x, expected.shape)[k] for x in call.inputs]
        raise AssertionError(f"{what}: at {given} {got[k]!r}, not {expected[k]!r} ({float(distance[k]):.1f} ulp)")


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_samples(op: Op) -> None:
    for call, answer in answered()[op.name]:
        if answer.results is not None:
            agrees(call, answer)


def test_ops_that_call_numpy() -> None:
    """An op that stops calling NumPy is struck out of the list, none may join unnoticed."""
    answers = {name: [a.in_numpy for call, a in each if call.real] for name, each in answered().items()}
    calling = {name for name, flags in answers.items() if any(flags)}
    listed = {name for name in {*CALL_NUMPY} | ALONE | IN_PART if answers.get(name)}
    assert not calling - listed, f"now call NumPy: {sorted(calling - listed)}"
    assert not listed - calling, f"are native now, strike them out: {sorted(listed - calling)}"


# -- odd numbers -----------------------------------------------------------------------------------------------------------

DTYPES = ("float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
ATTRS: dict[str, list[dict[str, Any]]] = {
    "power": [{"exponent": n} for n in (-3, -1, 0, 0.5, 1, 2, 3, 5, 6, 7, 11, 2.5, 1.5, -0.5, -1.5, -2.5, -0.75)],
    "leaky_relu": [{"alpha": 0.2}],
    "gelu": [{"approximate": True}, {"approximate": False}],
    "is_close": [{"rtol": 1e-5, "atol": 1e-8}, {"rtol": 0.5, "atol": 0.0}],
    "cast": [{"dtype": as_dtype(name)} for name in DTYPES],
}


def odd(name: str) -> Any:
    """Numbers of a dtype where things go wrong: limits, neighbours of zero and one, halves, infinities, NaN."""
    dtype = np.dtype(name)
    if name == "bool":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        numbers = [0, 1, 2, 3, 7, 8, 31, 64, 100, info.max, info.max - 1, info.min, info.min + 1]
        return np.array(numbers + ([-1, -2, -3, -7, -100] if dtype.kind == "i" else []), dtype)
    info = np.finfo(dtype)
    positive = [0.0, 0.1, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 20.0, 90.0, 123.456, 710.0, 3e9, 1e20, np.pi, np.inf, np.nan]
    positive += [info.tiny, info.smallest_subnormal, info.max, 1 + info.eps, 1 - info.epsneg, 1e-5, 2.0**31, 2.0**63]
    with np.errstate(all="ignore"):
        return np.array(positive + [-x for x in positive]).astype(dtype)


def _odd_calls(name: str) -> list[Call]:
    op = registry.op_by_name(name)
    found = []
    for dtype in DTYPES:
        numbers = odd(dtype)
        inputs: tuple[Any, ...] = (numbers,)
        if len(op.args) == 2:
            second = numbers
            if name in ("floordiv", "mod", "pow") and numbers.dtype.kind in "iu":  # others are refused
                second = numbers[numbers > 0] if name == "pow" else numbers[numbers != 0]
            inputs = tuple(np.ascontiguousarray(part) for part in np.meshgrid(numbers, second, indexing="ij"))
        if name == "where":
            flags = np.arange(numbers.size) % 2 == 0
            inputs = (flags, numbers, numbers[::-1].copy())
        for attrs in ATTRS.get(name, [{}]):
            call = Call(op, inputs, attrs, f"{dtype} {attrs}")
            try:
                with np.errstate(all="ignore"):
                    usable = known(call)
            except (TypeError, ValueError, OverflowError):
                continue  # not for this dtype
            if usable and call.real:
                found.append(call)
    return found


ELEMENT_OPS = sorted(op.name for op, how in LOWERINGS.items() if how.broadcasts and not is_twin(op) and op is not ADD_N)


@cache
def odd_answers() -> dict[str, list[tuple[Call, Answer]]]:
    found: dict[str, list[tuple[Call, Answer]]] = {name: [] for name in ELEMENT_OPS}
    for batch in batches(call for name in ELEMENT_OPS for call in _odd_calls(name)):
        for call, answer in zip(batch, run(batch), strict=True):
            found[call.op.name].append((call, answer))
    return found


@pytest.mark.parametrize("name", ELEMENT_OPS)
def test_odd_numbers(name: str) -> None:
    answers = odd_answers()[name]
    assert len(answers) >= 2
    for call, answer in answers:
        agrees(call, answer)


def test_elements_are_native() -> None:
    """No element operation calls NumPy for floating-point numbers, nor arithmetic and comparisons for integers."""
    wide = {op.name for op, how in LOWERINGS.items() if "i" in how.kinds}
    for name, answers in odd_answers().items():
        for call, answer in answers:
            kind = np.asarray(call.inputs[-1]).dtype.kind
            if kind == "f" or (kind in "iu" and name in wide):
                assert not answer.in_numpy, f"{name} calls NumPy for {call.label}"


# -- errors ----------------------------------------------------------------------------------------------------------------


def _refused(case: Case) -> Call | None:
    """The primitive call that an error sample fails in, if types alone do not forbid it."""
    made: list[Call] = []

    class Noting(Spy):
        def evaluate(self, op: Op, values: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
            made.append(Call(op, tuple(getattr(v, "_data", v) for v in values), attrs, case.id))
            return super().evaluate(op, values, attrs)

    try:
        case.call(
            [Noting(tensor(np.asarray(x))._data, []) for x in case.leaves], lambda x: Noting(tensor(np.asarray(x))._data, [])
        )
    except Exception:
        if not made or made[-1].op is not case.owner:
            return None
    try:
        types = made[-1].op.infer(*made[-1].specs, **made[-1].attrs)
    except Exception:
        return None
    types = types if isinstance(types, tuple) else (types,)
    return made[-1] if not any(isinstance(t, ListSpec) or None in t.shape for t in types) else None


REFUSED = {case.id: call for case in all_cases() if case.fails and isinstance(case.owner, Op) and (call := _refused(case))}


@pytest.mark.parametrize("name", REFUSED)
def test_errors(name: str) -> None:
    block, given = block_of([REFUSED[name]]), arguments([REFUSED[name]])
    with pytest.raises(Exception) as expected:  # noqa: PT011  (whatever the reference raises)
        reference_block(block)(*given)
    with pytest.raises(type(expected.value)) as caught:
        compile_block(block)(*given)
    assert str(caught.value) == str(expected.value)
