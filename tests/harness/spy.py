"""An evaluator that interprets a function op by op on bare arrays and writes down every primitive call.

It enters through the same door as batching and tracing (a wrapping tensor), so type rules and batch rules are checked on
exactly the inputs and attributes that public functions hand to primitives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtape.core.opdef import Op
from gradtape.core.tensor import Tensor
from tests.harness.cases import Case, tensor


class Call(NamedTuple):
    op: Op
    inputs: tuple[Any, ...]  # bare arrays
    attrs: dict[str, Any]
    results: tuple[Any, ...]


class Spy(Tensor):
    """A tensor whose ops are run by `evaluate` and logged."""

    __slots__ = ("log",)
    wraps = True
    level = 1

    def __init__(self, data: Any, log: list[Call]) -> None:
        self._data = data
        self._node = None
        self.log = log

    def evaluate(self, op: Op, values: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        datas = tuple(v._data if isinstance(v, Tensor) else v for v in values)
        result = op.impl(*datas, **attrs)
        several = isinstance(result, tuple)
        self.log.append(Call(op, datas, attrs, result if several else (result,)))
        return tuple(Spy(r, self.log) for r in result) if several else Spy(result, self.log)


def spied(case: Case, leaves: Any = None) -> tuple[list[Any], list[Call]]:
    """The outputs (bare) and primitive calls of a case, all its array arguments being spies."""
    log: list[Call] = []

    def spy(value: Any) -> Spy:
        return Spy(tensor(np.asarray(value))._data, log)

    values = [spy(leaf) for leaf in (case.leaves if leaves is None else leaves)]
    outputs = [t._data for t in case.outputs(values, None if values else spy)]
    return outputs, log
