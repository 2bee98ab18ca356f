"""Simplifications and folding are exact: every rule, on every special number, in every dtype, bit by bit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gradtape.backends.numpy import compile_block
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Slot, filled
from gradtape.ir.types import TensorSpec
from gradtape.ops.dynamic import ADD_AT, UPDATE_AT
from gradtape.ops.elementwise import ADD, CAST, DIVIDE, MULTIPLY, NEGATIVE, POWER, SUBTRACT
from gradtape.ops.index import GETITEM, PUT_SLICE
from gradtape.ops.select import MAXIMUM, MINIMUM
from gradtape.ops.staged import CONSTANT, MASKED_MULTIPLY
from gradtape.passes.canonicalize import canonicalize
from gradtape.passes.pipeline import optimize
from tests.harness.checked_passes import same_bits

FLOATS = (0.0, -0.0, 1.0, -1.0, 2.0, -0.25, 3.0, 0.1, 1e-7, 6e4, np.inf, -np.inf, np.nan)
INTEGERS = (0, 1, -1, 2, 7, 127, -128)
DTYPES = ("float16", "float32", "float64", "int8", "int32", "complex64", "complex128")
OPS = (ADD, SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM, MINIMUM, MASKED_MULTIPLY)


def numbers(dtype: str) -> Any:
    if dtype.startswith("int"):
        return np.array(INTEGERS, dtype)
    if dtype.startswith("complex"):
        pairs = np.array([complex(a, b) for a, b in itertools.product(FLOATS, FLOATS)])
        return pairs.astype(dtype)
    return np.array(FLOATS, dtype)


def append(block: Block, op: Any, operands: list[Value], **attrs: Any) -> Value:
    return block.append(Operation(op, operands, [op.infer(*(v.type for v in operands), **attrs)], attrs)).result


def same_after_all_passes(block: Block, x: Any) -> None:
    before, after = compile_block(block)(x), compile_block(optimize(block))(x)
    assert all(map(same_bits, before, after)), (before, after)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # casting 6e4 to float16 is fine, 1e300 is inf
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_operations_with_constants(op: Any, dtype: str) -> None:
    values = numbers(dtype)
    x = values[:: max(1, len(values) // 40)]
    results = []
    block = Block([TensorSpec(x.shape, dtype)])
    (param,) = block.params
    for number in values[:: max(1, len(values) // 40)]:
        constant = append(block, CONSTANT, [], value=number)
        results += [
            append(block, op, [param, constant]),
            append(block, op, [constant, param]),
            append(block, op, [constant] * 2),
        ]
        if not dtype.startswith("int8"):
            minus = append(block, NEGATIVE, [param])
            results += [append(block, op, [constant, minus]), append(block, op, [minus, append(block, NEGATIVE, [param])])]
    same_after_all_passes(block.give(outputs=results), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_powers(dtype: str) -> None:
    x = numbers(dtype)
    block = Block([TensorSpec(x.shape, dtype)])
    exponents = (1, 2, 0) if dtype == "int32" else (1, 1.0, 2, 0.5, 0, -1)
    results = [append(block, POWER, [block.params[0]], exponent=e) for e in exponents]
    same_after_all_passes(block.give(outputs=results), x)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NaN as an integer
def test_every_pair_of_casts() -> None:
    kinds = ("bool", "int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128")
    source = {
        "i": np.array([0, 1, -1, 100, 2**53 + 1, -(2**62), 2**31 - 1]),
        "u": np.array([0, 1, 200, 2**53 + 1, 2**63]),
        "b": np.array([True, False]),
        "f": np.array([0.0, -0.0, 1.0, 0.1, -65504.0, 1e-30, 1e300, np.inf, np.nan]),
        "c": np.array([0.1 - 0.0j, complex(0.0, 1.0), complex(1e300, -1e-30)]),
    }
    shorter = 0
    for first, second, third in itertools.product(kinds, repeat=3):
        with np.errstate(all="ignore"):
            x = source[np.dtype(first).kind].astype(first)
        block = Block([TensorSpec(x.shape, first)])
        middle = append(block, CAST, [block.params[0]], dtype=TensorSpec((), second).dtype)
        block.give(outputs=[append(block, CAST, [middle], dtype=TensorSpec((), third).dtype)])
        new = canonicalize(block)
        last = new.results[0].producer
        shorter += last is None or last.operands[0] is new.params[0]
        before, after = compile_block(block)(x), compile_block(new)(x)
        assert same_bits(before[0], after[0]), (first, second, third)
    assert shorter > 300


def names(block: Block) -> list[str]:
    return [operation.op.name for operation in block.operations]


def test_putting_a_turned_whole_into_zeros_is_reading_it_turned() -> None:
    x = numbers("float32").reshape(1, -1)
    block = Block([TensorSpec(x.shape, "float32")])
    (param,) = block.params
    turned = (slice(None), slice(None, None, -1))
    block.give(outputs=[append(block, PUT_SLICE, [param], key=turned, shape=x.shape)])
    assert names(optimize(block)) == ["getitem"]
    same_after_all_passes(block, x)
    block = Block([TensorSpec(x.shape, "float32")])
    (param,) = block.params
    wide = (slice(None), slice(None, None, -2))  # covers every other place
    block.give(outputs=[append(block, PUT_SLICE, [param], key=wide, shape=(1, 2 * x.shape[1]))])
    assert names(optimize(block)) == ["put_slice"]
    same_after_all_passes(block, x)


@pytest.mark.parametrize("key", [(slice(1, 4),), (slice(None, Slot(0)),), (Slot(0),), (2,), (Ellipsis, slice(0, 1))], ids=str)
def test_sums_at_a_place_that_was_just_replaced(key: Any) -> None:
    x = numbers("float32")
    block = Block([TensorSpec(x.shape, "float32")])
    (param,) = block.params
    number = append(block, CONSTANT, [], value=np.int32(3))
    places = [number] if any(isinstance(k, Slot) or getattr(k, "stop", None) == Slot(0) for k in key) else []
    at = filled(key, [3])
    part = append(block, CONSTANT, [], value=x[::-1][at])
    total = append(block, UPDATE_AT, [param, append(block, CONSTANT, [], value=np.float32(-0.0)), *places], key=key)
    for _ in range(2):
        total = append(block, ADD_AT, [total, part, *places], key=key)
    block.give(outputs=[total])
    assert "add_at" not in names(optimize(block))
    same_after_all_passes(block, x)


@pytest.mark.parametrize("seen", [True, False])
def test_sums_at_other_places_or_of_values_that_are_seen_stay(seen: bool) -> None:
    x = numbers("float32")
    block = Block([TensorSpec(x.shape, "float32")])
    (param,) = block.params
    first = append(block, UPDATE_AT, [param, append(block, CONSTANT, [], value=np.float32(2.0))], key=(slice(0, 3),))
    total = append(block, ADD_AT, [first, append(block, GETITEM, [param], key=(0,))], key=(slice(0, 3 if seen else 2),))
    block.give(outputs=[total, first] if seen else [total])
    assert "add_at" in names(optimize(block))
    same_after_all_passes(block, x)
