"""How a concrete tensor becomes a value of the program that is being traced: the one place that decides it.

A tensor that nobody watches may stay concrete: what is computed from it is known while tracing, and a region that needs it
repeats it as a constant. One that a tape or accumulator watches may not (`ad.tracing.lift`): its object becomes a traced
tensor, an input if it comes from outside, else a constant that stands before all operations, so that every block sees it and
no part of the trace that is thrown away takes it along. Invariant: when the trace is over, the object is what it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ad.reverse import extract
from gradtape.core.tensor import Tensor, box
from gradtape.functions.staging.places import Lifted
from gradtape.ir.graph import Operation
from gradtape.ir.walk import has_effect
from gradtape.ops import staged
from gradtape.ops.list_values import item_spec
from gradtape.ops.stop import IDENTITY
from gradtape.ops.structured import LEAF
from gradtape.trace.tracing import LEVEL, TracedTensor
from gradtape.variables.variable import TracedSlice, VariableSlice

CONSTANTS = "what is computed from constants"  # the reason of a restart: see `Trace.follows_constants`


class Lifting:
    """What one trace has lifted; `constants` are operations of its outermost block."""

    __slots__ = ("_tracer", "constants")

    def __init__(self, tracer: Any) -> None:
        self._tracer = tracer
        self.constants: list[Operation] = []

    def lift(self, tensor: Any) -> None:
        """Make a concrete tensor a value of the program. It has its own: equal ones are watched apart."""
        tracer = self._tracer
        tracer.logs[0].note(Lifted(tensor))
        if tracer.trace.is_input(tensor):
            value = tracer.stand_in(tensor, lambda: tensor, "a captured tensor")._data
            tracer.stand_ins[id(tensor)] = (tensor, tensor)  # the object stands for itself, with what is known of it
            tracer.starts[id(tensor)] = value
        else:
            value = self._constant(tensor)
        tensor.__class__ = TracedSlice if isinstance(tensor, VariableSlice) else TracedTensor
        tensor._data = value
        tensor.level = LEVEL

    def value_of(self, tensor: TracedTensor, effects: bool = False) -> Tensor | None:
        """The value of a traced tensor that follows from constants alone; None if it depends on inputs, on the course of a
        loop, or (unless they are meant) on effects."""
        wanted = {tensor._data}
        kept: list[Operation] = []
        blocks = [self.constants, *(block.operations for block in self._tracer.trace.blocks)]
        for operation in reversed([operation for operations in blocks for operation in operations]):
            if not wanted.isdisjoint(operation.results):
                if operation.attrs.get(LEAF):  # the version of a variable is what was assigned
                    (value,) = operation.group("values")
                    operation, results = Operation(IDENTITY, [value], [value.type]), operation.results
                    operation.results = results
                if not effects and has_effect(operation):
                    return None
                kept.append(operation)
                wanted.update(operation.operands)
        if not wanted.issubset({value for operation in kept for value in operation.results}):
            return None
        from gradtape.backends.numpy import compile_block

        return box(compile_block(extract([], kept[::-1], "constant", outputs=[tensor._data]))()[0])

    def _constant(self, tensor: Tensor) -> Any:
        array = np.asarray(tensor._data)
        kept = array[()] if array.ndim == 0 and array.dtype.kind != "O" else array
        attrs = {"value": kept, **staged.own_value(tensor)}
        constant = Operation(staged.CONSTANT, [], [item_spec(kept)], attrs, loc=self._tracer.trace.location())
        constant.home = self._tracer.block
        self.constants.append(constant)
        return constant.results[0]
