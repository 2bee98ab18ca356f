"""Primitive calls as native programs, many in one: a program has one operation per call, each on parameters of its own.

`Batch` compiles calls together, since compiling one program of fifty operations takes little longer than one of a single
operation. Calls whose types are known only when they run are left to the reference backend and noted as such.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape.backends.llvm import UnsupportedError, compile_block
from gradtape.backends.llvm.writing.element_types import REGISTER
from gradtape.core.opdef import Op
from gradtape.ir.graph import Block, Location, Operation
from gradtape.ir.types import ListSpec
from tests.harness import lists

SIZE = 40  # calls in a program


class Call(NamedTuple):
    op: Op
    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    label: str

    @property
    def specs(self) -> list[Any]:
        return lists.specs_of(self.inputs)

    @property
    def real(self) -> bool:
        """Whether all its numbers are of dtypes that native code computes with."""
        types = self.op.infer(*self.specs, **self.attrs)
        every = [*self.specs, *(types if isinstance(types, tuple) else (types,))]
        return all(isinstance(t, ListSpec) or t.dtype.name in REGISTER for t in every)

    def expected(self) -> tuple[Any, ...]:
        """What the op's `impl` gives."""
        with np.errstate(all="ignore"):
            found = self.op.impl(*self.inputs, **self.attrs)
        return found if isinstance(found, tuple) else (found,)


class Answer(NamedTuple):
    results: tuple[Any, ...] | None  # None: cannot be native
    in_numpy: bool  # native code called NumPy for it


def block_of(calls: Sequence[Call]) -> Block:
    """A program with one operation per call."""
    block = Block([spec for call in calls for spec in call.specs], [])
    results = []
    params = iter(block.params)
    for k, call in enumerate(calls):
        types = call.op.infer(*call.specs, **call.attrs)
        operands, types = [next(params) for _ in call.inputs], types if isinstance(types, tuple) else [types]
        made = block.append(Operation(call.op, operands, types, call.attrs, loc=Location(__file__, k)))
        results += made.results
    return block.give(outputs=results)


def arguments(calls: Sequence[Call]) -> list[Any]:
    return [value if isinstance(value, lists.TensorList) else np.asarray(value)[()] for call in calls for value in call.inputs]


def run(calls: Sequence[Call]) -> list[Answer]:
    """All calls in one native program; if it cannot be made, in smaller ones."""
    try:
        block = block_of(calls)
        executable = compile_block(block, "calls")
    except UnsupportedError:
        if len(calls) == 1:
            return [Answer(None, True)]
        half = len(calls) // 2
        return run(calls[:half]) + run(calls[half:])
    found = iter(executable(*arguments(calls)))
    in_numpy = {note.loc.line for note in executable.notes if note.kind == "numpy"}
    return [
        Answer(tuple(next(found) for _ in operation.results), k in in_numpy) for k, operation in enumerate(block.operations)
    ]


def known(call: Call) -> bool:
    """Whether the types of all results are known before the call runs, and the reference agrees with them."""
    inferred = call.op.infer(*call.specs, **call.attrs)
    types = inferred if isinstance(inferred, tuple) else (inferred,)
    if any(isinstance(t, ListSpec) or any(size is None for size in t.shape) for t in types):
        return False
    results = call.expected()
    return all(t.dtype == np.asarray(r).dtype for t, r in zip(types, results, strict=True))


def batches(calls: Iterable[Call]) -> list[list[Call]]:
    """Calls in groups of SIZE, those of one op together."""
    made: list[list[Call]] = [[]]
    for call in calls:
        if len(made[-1]) >= SIZE and made[-1][-1].op is not call.op:
            made.append([])
        made[-1].append(call)
    return made
