"""Random programs on all dtypes and odd sizes, on inputs in every form: native code against the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradtape.backends.llvm import compile_block as native
from gradtape.backends.numpy import compile_block as reference
from gradtape.passes.bufferize import bufferize
from gradtape.passes.pipeline import optimize
from tests.backends.agreement import agree, copied, size_of
from tests.backends.random_arrays import forms, odd_program

SEEDS = range(48)


def check(seed: int) -> None:
    block, arrays = odd_program(seed)
    block = bufferize(optimize(block)) if seed % 2 else block
    made, expect = native(block), reference(block)
    for name, given in forms(arrays):
        before = [copied(a) for a in given]
        with np.errstate(all="ignore"):
            want = expect(*[copied(a) for a in given])
            found = made(*given)
        assert made.rescued == 0, f"seed {seed}, {name}: native code gave up"
        size = size_of([*given, *want])
        for i, (a, b) in enumerate(zip(found, want, strict=True)):
            agree(a, b, f"seed {seed}, {name}, result {i}", size)
        for a, b in zip(given, before, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=f"seed {seed}, {name}: an input was changed")


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_on_inputs_in_every_form(seed: int) -> None:
    check(seed)


def test_the_programs_are_odd_enough() -> None:
    types: set[str] = set()
    empty = 0
    for seed in SEEDS:
        block, arrays = odd_program(seed)
        values: list[Any] = [value for operation in block.operations for value in operation.results]
        types.update(value.type.dtype.name for value in values)
        empty += any(not a.size for a in arrays)
    assert empty > len(SEEDS) // 10
    assert types >= {"float64", "float32", "int32", "int64", "int8", "uint8", "bool"}
