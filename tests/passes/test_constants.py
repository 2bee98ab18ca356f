"""Constants are data: no mask of a matrix's size is part of a program."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from gradtape.ir.walk import program
from gradtape.ops.staged import CONSTANT
from gradtape.passes.pipeline import optimize

N = 120
MATRIX = np.tril(np.linspace(0.1, 0.9, N * N).reshape(N, N)) + N * np.eye(N)

FUNCTIONS = {
    "triangular_solve": lambda a: gt.linalg.triangular_solve(a, a[:, :2]),
    "cholesky": lambda a: gt.linalg.cholesky(a @ gt.transpose(a)),
    "band_part": lambda a: gt.linalg.band_part(a, 2, 1),
    "set_diag": lambda a: gt.linalg.set_diag(a, a[0]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_masks_are_computed_from_indices(name):
    @gt.function
    def f(a):
        with gt.GradientTape() as tape:
            tape.watch(a)
            y = gt.reduce_sum(FUNCTIONS[name](a) ** 2)
        return tape.gradient(y, a)

    block = optimize(f.get_concrete_function(gt.constant(MATRIX))._traced.program.block)
    sizes = [np.size(operation.attrs["value"]) for operation in program(block) if operation.op is CONSTANT]
    assert max(sizes, default=0) <= N, sizes
