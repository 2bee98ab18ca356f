"""What derivatives of structured operations are built with: more results for an operation, zeros, new regions.

Nothing here differentiates. Invariant: a region that is built here uses nothing from outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.core.dispatch import apply, reparted
from gradtape.core.record import Record, current_scope
from gradtape.errors import UnimplementedError
from gradtape.ir.graph import Block, Operation
from gradtape.ir.types import ListSpec
from gradtape.ir.walk import has_effect
from gradtape.ops import staged
from gradtape.ops.lists import LIST_ZEROS_LIKE
from gradtape.trace.tracing import TracedTensor, current_trace, params_of, traced, type_of


class Site:
    """A structured operation in the program, and the record through which outer tapes know its results."""

    def __init__(self, record: Record, operation: Operation) -> None:
        self.record = record
        self.operation = operation

    def extend(self, types: Sequence[Any]) -> list[TracedTensor]:
        """Further results in the last group, known to the tapes that know the others."""
        operation = self.operation
        start = len(operation.results)
        values = operation.add_results(list(operation.result_layout)[-1], types)
        self.record.shape = (*self.record.shape, *((v.type.shape, v.type.dtype) for v in values))
        outs = [traced(v) for v in values]
        for i, out in enumerate(outs):
            out._node = reparted(self.record, start + i, out)
        if outs:
            self._tell_forward_mode()
        return outs

    def _tell_forward_mode(self) -> None:
        """Accumulators that know the results need the tangents of the new ones too."""
        record, operation = self.record, self.operation
        for recorder in current_scope().listeners:
            if recorder.key.holds or recorder.key not in record.keys:
                continue
            if has_effect(operation):
                raise UnimplementedError(
                    f"a ForwardAccumulator around the gradient of the {operation.op.name} at {operation.loc}, which prints, "
                    "asserts, draws random numbers or calls Python inside: use a GradientTape instead, or take that out of it"
                )
            inputs: Any = record.attrs["inputs"]  # type: ignore[index]
            recorder.recorded(record, inputs, record.nodes, tuple(traced(v) for v in operation.results))


def zeros_for(tensor: Any) -> Any:
    """Zeros of the type of a traced tensor or list, as an operation of the program."""
    spec = type_of(tensor)
    return apply(LIST_ZEROS_LIKE, tensor) if isinstance(spec, ListSpec) else zeros_of_type(spec)


def zeros_of_type(spec: Any) -> Any:
    """Zeros of a type, as an operation of the program."""
    return current_trace().emit(staged.FILLED, (), {"shape": tuple(spec.shape), "dtype": spec.dtype, "value": 0})


def region(types: Sequence[Any], build: Callable[..., dict[str, Sequence[Any]]], layout: dict[str, int]) -> Block:
    """A block whose operations `build(*parameters)` traces; it must use nothing from outside."""
    trace = current_trace()
    block = Block(types, layout=layout)
    with trace.region(block):
        results = build(*params_of(block))
        block.give(**{name: [trace.operand(t) for t in group] for name, group in results.items()})
    if trace.last_captures():
        raise RuntimeError(f"a derivative region uses values from outside: {list(trace.last_captures())}")
    return block
