"""Programs that run twice: natively and on the reference backend, with results that must agree.

`compared()` makes every program that is compiled inside it such a one. What native code gives goes on, so that lists made
natively are read natively; a program that cannot be native is a failure. A program with effects runs once, natively.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import pytest

from gradtape.backends.llvm import compile_block
from gradtape.backends.numpy import compile_block as reference_block
from gradtape.functions import compiled
from gradtape.ir.graph import Block
from gradtape.ir.walk import has_effect
from gradtape.ops.list_values import TensorList
from gradtape.passes.pipeline import prepared

CLOSE = {"f": {2: 2e-2, 4: 2e-4, 8: 1e-9}, "c": {8: 2e-4, 16: 1e-9}}  # relative to the largest number of an array


def agree(native: Any, expected: Any, what: str, size: float = 0.0) -> None:
    """The same structure, dtypes, shapes and (to rounding) numbers; `size` is that of the numbers they were made of.

    Placeholders of the reference fit anything: they are empty arrays, or arrays of rank 0, which no value is.
    """
    if isinstance(expected, TensorList):
        assert isinstance(native, TensorList), f"{what}: {type(native)} for a list"
        assert len(native) == len(expected), f"{what}: {len(native)} items, not {len(expected)}"
        for i, (a, b) in enumerate(zip(native, expected, strict=True)):
            agree(a, b, f"{what}[{i}]", size)
        return
    a, b = np.asarray(native), np.asarray(expected)
    assert a.dtype == b.dtype, f"{what}: {a.dtype}, not {b.dtype}"
    if a.ndim == b.ndim and ((b.size == 0 and a.shape != b.shape) or (isinstance(expected, np.ndarray) and not b.ndim)):
        return
    assert a.shape == b.shape, f"{what}: shape {a.shape}, not {b.shape}"
    assert a.ndim or isinstance(native, np.generic), f"{what}: {type(native)}, not {type(expected)}"
    if b.dtype.kind not in CLOSE:
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    finite = np.isfinite(b)
    np.testing.assert_array_equal(np.isfinite(a), finite, err_msg=what)
    np.testing.assert_array_equal(a[~finite], b[~finite], err_msg=what)
    scale = np.abs(b[finite]).max(initial=0.0)
    gap = np.abs(a[finite] - b[finite]).max(initial=0.0)
    rounding = 16 * float(np.finfo(b.dtype).eps) * size
    assert gap <= CLOSE[b.dtype.kind][b.dtype.itemsize] * scale + rounding, f"{what}: {a} against {b}"


def size_of(values: Sequence[Any]) -> float:
    """The largest finite number in some values."""
    largest = 0.0
    for value in values:
        if isinstance(value, TensorList):
            largest = max(largest, size_of(list(value)))
        elif np.asarray(value).dtype.kind in CLOSE:
            found = np.abs(np.asarray(value))
            largest = max(largest, float(found[np.isfinite(found)].max(initial=0.0)))
    return largest


class Both:
    """A program, run natively and on the reference backend."""

    made: ClassVar[list[Both]] = []
    instead = None
    native = None

    def __init__(self, block: Block, name: str = "f") -> None:
        self.name = name
        self.block = block
        self.natively = compile_block(block, name)
        self.reference = reference_block(block, name)
        self.effects = any(has_effect(operation) for operation in block.operations)
        Both.made.append(self)

    def listen(self, listener: Any) -> list[int]:
        """Nobody is told of floating-point events: values are compared here."""
        return [0, 0, 0]

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        if self.effects:
            return self.natively(*arrays)
        kept = [copied(value) for value in arrays]
        try:
            expected = self.reference(*arrays)
        except Exception as error:
            self._fails_too(arrays, error)
            raise
        found = self.natively(*arrays)
        assert self.natively.rescued == 0, f"{self.name}: native code gave up where the reference does not"
        size = size_of([*arrays, *expected])
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            agree(a, b, f"{self.name}, result {i}", size)
        for i, (a, b) in enumerate(zip(arrays, kept, strict=True)):
            agree(a, b, f"{self.name}, argument {i} afterwards")
        return found

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        return self(*arrays)

    def _fails_too(self, arrays: Sequence[Any], error: Exception) -> None:
        with pytest.raises(type(error)) as found:
            self.natively(*arrays)
        assert str(found.value) == str(error)

    def report(self) -> list[str]:
        return self.natively.report()


def copied(value: Any) -> Any:
    if isinstance(value, TensorList):
        return TensorList([copied(item) for item in value], value.item)
    return np.array(value)[()] if isinstance(value, (np.ndarray, np.generic)) else value


@contextmanager
def compared() -> Iterator[list[Both]]:
    """Compile every program for both backends, and compare whatever they give; lists the programs that were compiled."""
    before, compiled.executable = compiled.executable, lambda block, name, backend=None: Both(prepared(block), name)
    start = len(Both.made)
    made: ClassVar[list[Both]] = []
    try:
        yield made
    finally:
        compiled.executable = before
        made += Both.made[start:]
        del Both.made[start:]
