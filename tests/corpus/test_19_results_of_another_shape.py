"""A native result had another shape than the program's, with memory in it that nobody wrote.

The native backend writes joins out as simpler operations, and made one of them only once per operands, whatever its shape: a
value that was stacked along two axes was seen in the shape of the first stack in both.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends.llvm.entry import native_executable as executable
from gradtape.backends.llvm.entry.conformity import check_results
from gradtape.backends.llvm.kernels import table
from gradtape.errors import InternalError
from gradtape.ops.shape import RESHAPE, STACK
from tests.backends.build import program, tensor

X = np.array([1.0, 2.0, 3.0], np.float32)

CASES: dict[str, Any] = {
    "gather of a stack": lambda x: gt.stack([gt.gather(gt.reshape(gt.stack([x, x]), [-1]), [4, 1, 3]), x], axis=1),
    "gather of joined stacks": lambda x: gt.stack(
        [gt.gather(gt.reshape(gt.concat([gt.stack([x, x]), gt.stack([x])], 0), [-1]), [4, 1, 8]), x], axis=1
    ),
    "two stacks of one value": lambda x: (gt.stack([x, x], 0), gt.stack([x, x], 1)),
    "three ways": lambda x: [gt.stack([gt.stack([x], a), gt.stack([x], a)], b) for a in (0, 1) for b in (0, 1, 2)],
}


@pytest.mark.parametrize("name", CASES)
def test_native_results_have_the_shape_of_the_program(name: str) -> None:
    body = CASES[name]
    wanted = gt.nest.flatten(body(gt.constant(X)))
    for jit_compile in (True, False):
        results = gt.nest.flatten(gt.function(body, jit_compile=jit_compile)(gt.constant(X)))
        for result, want in zip(results, wanted, strict=True):
            assert result.shape == want.shape
            np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize(("first", "second"), list(itertools.permutations(range(3), 2)))
def test_stacks_of_one_value_along_two_axes(first: int, second: int) -> None:
    def both(x: Any) -> Any:
        return gt.stack([x, 2.0 * x], first), gt.stack([x, x], second)

    x = gt.constant(np.arange(6.0).reshape(2, 3))
    for result, want in zip(gt.function(both)(x), both(x), strict=True):
        np.testing.assert_array_equal(result, want)


def test_an_expansion_of_another_type_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the reference backend runs the program: a result never has another shape than the program's."""
    wrong = replace(table.LOWERINGS[STACK], rewrite=lambda make, *xs, axis: make(RESHAPE, xs[0], shape=(3, 1)))
    monkeypatch.setitem(table.LOWERINGS, STACK, wrong)
    block = program([tensor(3)], lambda build, x: [build(STACK, x, x, axis=0)])
    with pytest.raises(executable.UnsupportedError, match=r"stack written out is .*\(3, 1\).*, not .*\(2, 3\)"):
        executable.compile_block(block)
    function = gt.function(lambda x: gt.stack([x, x]))
    np.testing.assert_array_equal(function(gt.constant(X)), [X, X])


def test_debug_mode_compares_results_with_the_program() -> None:
    block = program([tensor(3)], lambda build, x: [build(STACK, x, x, axis=0)])
    fine = np.zeros((2, 3))
    check_results("f", block, [np.zeros(3)], [fine])
    for wrong in (np.zeros((3, 2)), np.zeros(6), fine.astype(np.float32)):
        with pytest.raises(InternalError, match=r"f: result 0 of native code is float.*the program says .*\(2, 3\)"):
            check_results("f", block, [np.zeros(3)], [wrong])
    with pytest.raises(InternalError, match="gave 2 results, the program has 1"):
        check_results("f", block, [np.zeros(3)], [fine, fine])


def test_debug_mode_stands_at_the_door(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(executable, "check_results", lambda name, *rest: asked.append(name))
    function = gt.function(lambda x: gt.stack([x, x]))
    config.debug_passes(True)
    try:
        for _ in range(3):
            function(gt.constant(X))
    finally:
        config.debug_passes(False)
    assert len(asked) == 3
