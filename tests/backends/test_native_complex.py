"""Complex numbers natively, by their parts: every rule on odd numbers, and programs that never leave native code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.backends.llvm.planning.complex_parts import RULES
from gradtape.core.opdef import Op
from gradtape.dtypes import as_dtype
from gradtape.ops.elementwise import CAST, COMPLEX
from tests.backends.native_calls import Call, batches, run

PARTS = [0.0, -0.0, 1.0, -1.5, 0.1, 7.0, 1e-30, -1e18, np.inf, -np.inf, np.nan]
ONE, TWO = (
    [op for op in RULES if len(op.args) == count and (op.kind == "elementwise" or op.name in also)]
    for count, also in ((1, "abs sign conj real imag is_finite is_inf is_nan"), (2, "equal not_equal"))
)


def odd(dtype: str) -> Any:
    """Complex numbers of all pairs of odd parts."""
    re, im = np.meshgrid(np.array(PARTS), np.array(PARTS))
    numbers = np.empty(re.size, dtype)
    numbers.real, numbers.imag = re.ravel(), im.ravel()
    return numbers


def calls(op: Op) -> list[Call]:
    made = []
    for dtype in ("complex64", "complex128"):
        numbers = odd(dtype)
        if op is CAST:
            made += [Call(op, (numbers,), {"dtype": as_dtype(kind)}, dtype) for kind in ("complex64", "complex128", "float32")]
            made += [Call(op, (numbers.real.copy(),), {"dtype": as_dtype(dtype)}, dtype)]
        elif op is COMPLEX:
            made.append(Call(op, (numbers.real.copy(), numbers.imag.copy()), {}, dtype))
        else:
            grid = np.meshgrid(numbers, numbers, indexing="ij") if len(op.args) == 2 else [numbers]
            made.append(Call(op, tuple(map(np.ascontiguousarray, grid)), {}, dtype))
    return made


def same(call: Call, got: Any, expected: Any) -> None:
    """Infinities and NaNs in the same parts; numbers to rounding of what was added up for them."""
    assert got.dtype == expected.dtype
    if expected.dtype.kind == "b":
        np.testing.assert_array_equal(got, expected, err_msg=call.op.name)
        return
    eps = np.finfo(expected.dtype).eps
    with np.errstate(all="ignore"):
        size = np.abs(expected)
        if call.op.name in ("multiply", "masked_multiply", "square", "add", "subtract"):
            size = np.abs(call.inputs[0]) * np.abs(call.inputs[-1]) + sum(np.abs(x) for x in call.inputs)
    for a, b in ((got.real, expected.real), (got.imag, expected.imag)):
        bad = np.isnan(a) != np.isnan(b)
        bad |= ~np.isnan(b) & np.isinf(b) & (a != b)
        finite = np.isfinite(b)
        bad[finite] |= ~(np.abs(a - b) <= 8 * eps * np.where(np.isfinite(size), size, np.abs(b)))[finite]
        if bad.any():
            k = int(np.argmax(bad.ravel()))
            given = [np.ravel(x)[k] for x in call.inputs]
            raise AssertionError(f"{call.op.name} of {given} is {np.ravel(got)[k]}, not {np.ravel(expected)[k]}")


@pytest.mark.parametrize("op", [*ONE, *TWO, CAST, COMPLEX], ids=lambda op: op.name)
def test_odd_numbers(op: Op) -> None:
    for batch in batches(calls(op)):
        for call, answer in zip(batch, run(batch), strict=True):
            assert answer.results is not None
            assert not answer.in_numpy, f"{op.name} calls NumPy for {call.label}"
            with np.errstate(all="ignore"):
                same(call, np.asarray(answer.results[0]), np.asarray(call.expected()[0]))


# -- programs


def rotated(z: Any, w: Any) -> Any:
    """A loop that carries complex numbers, scalars and arrays."""
    turn, total = w[0], z * 0.0
    for _ in range(5):
        total = total + turn * z / (1.0 + gt.abs(z) ** 2 + 0j)
        turn = turn * w[1] + gt.math.conj(w[2])
    return total


def filled_in_place(z: Any, w: Any) -> Any:
    """Elements, rows and slices of complex arrays that change in place."""
    out = gt.zeros((6, 3), z.dtype)
    for i in gt.range(6):
        out[i] = z[i] * w
        out[i, 1:] += w[:-1]
    out[..., 0] = z[:, 0]
    return out


def chosen(z: Any, w: Any) -> Any:
    """Masks, joins, transpositions and products."""
    both = gt.concat([z, gt.transpose(gt.reshape(z, (3, 6)))], 1)
    kept = gt.where(gt.math.real(both) > 0.0, both, gt.zeros_like(both))
    return gt.matmul(kept, gt.transpose(gt.math.conj(kept))) * gt.reduce_sum(w)


def solved(z: Any, w: Any) -> Any:
    """A system whose matrix is made of complex numbers."""
    matrix = gt.matmul(gt.transpose(gt.math.conj(z)), z) + 2.0 * gt.eye(3, dtype=z.dtype)
    return gt.linalg.solve(matrix, gt.reshape(w, (3, 1))) + gt.linalg.solve(matrix, gt.transpose(z))


def collected(z: Any, w: Any) -> Any:
    """Complex items of a list, some of them of length one."""
    items = []
    for i in gt.range(6):
        items.append(z[i] * w[0] - w)
    return gt.stack(items)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("program", [rotated, filled_in_place, chosen, solved, collected], ids=lambda f: f.__name__)
def test_programs_stay_native(program: Any, dtype: str) -> None:
    """Value and gradient of a real number that depends on everything: eager, interpreted and native."""
    rng = np.random.default_rng(3)
    z, w = (gt.constant((rng.normal(size=s) + 1j * rng.normal(size=s)).astype(dtype)) for s in ((6, 3), (3,)))

    def objective(z: Any, w: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch([z, w])
            out = program(z, w)
            size = gt.reduce_sum(gt.math.real(out) ** 2 + gt.math.imag(out) * 0.5)
        return [out, size, *tape.gradient(size, [z, w])]

    native = gt.function(objective)
    expected = objective(z, w)
    tolerance = 2e-5 if dtype == "complex64" else 1e-13
    for way in (native, gt.function(objective, jit_compile=False)):
        for got, value in zip(way(z, w), expected, strict=True):
            assert got.dtype == value.dtype
            np.testing.assert_allclose(got.numpy(), value.numpy(), rtol=tolerance, atol=tolerance * np.abs(value.numpy()).max())
    assert "calls NumPy" not in native.explain()
