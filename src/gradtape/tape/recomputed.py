"""`recompute_grad`: in a traced function, a call whose backward pass runs the callee again and saves only its inputs.

With a memory limit the second run keeps what fits: the loops of the callee are reversed piece by piece (`ad/checkpointing.py`),
and eager code records into a `LimitedRecording`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape import tree
from gradtape.ad.backward import Step
from gradtape.ad.recording import Recording
from gradtape.core.dispatch import convert
from gradtape.core.record import Record
from gradtape.core.tensor import Readable, Tensor
from gradtape.functions.staging.places import Log
from gradtape.ir.graph import Block
from gradtape.ops.structured import CALL
from gradtape.tape.memory_limit import MemoryManager
from gradtape.trace.effects import active
from gradtape.trace.tracing import current_trace, params_of


class LimitedRecording(Recording):
    """A recording that keeps its values within a number of bytes, and computes the rest again when it walks back."""

    __slots__ = ("_memory",)

    def __init__(self, memory_limit: int) -> None:
        super().__init__()
        self._memory = MemoryManager(memory_limit)
        self.slow = True  # be told of every record

    def recorded(
        self, record: Record, inputs: Sequence[Any], nodes: Sequence[Record | None], out: Tensor | tuple[Tensor, ...]
    ) -> None:
        """Called by dispatch: its saved values become the memory's."""
        self._memory.recorded(self.key, record, inputs, out)

    def cotangents(self, outputs: Sequence[Any], cts: Sequence[Any], wanted: Sequence[Record], boxed: bool) -> list[Any]:
        """As of any recording."""
        answers = super().cotangents(outputs, cts, wanted, boxed)
        self._memory.finish()
        return answers

    def _prepare(self) -> tuple[Step, ...]:
        return (self._memory.prepare,)


def stage_recomputed(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], memory_limit: int | None = None
) -> Any:
    """`f(*args, **kwargs)` as a call to be computed again; a function that writes state is traced as it is."""
    trace, tracer = current_trace(), active()
    leaves = tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (Tensor, Readable))]
    given = [trace.own(convert(leaves[i])) for i in places]
    block = Block([t._data.type for t in given], name=getattr(f, "__name__", "f"))
    trace.stand_for.update(zip(block.params, (t._data for t in given), strict=True))
    fresh = list(leaves)
    for place, twin in zip(places, params_of(block), strict=True):
        fresh[place] = twin
    own, keywords = tree.pack_sequence_as((args, kwargs), fresh)
    log = Log()
    tracer.logs.append(log)
    try:
        with trace.region(block):
            result = f(*own, **keywords)
            outputs = [convert(r) for r in tree.flatten(result)]
            block.give(outputs=[trace.operand(t) for t in outputs])
    finally:
        tracer.logs.pop()
        log.undo()
    if log.entries:
        return f(*args, **kwargs)
    captured = trace.close([(block, trace.last_captures())], "captured")
    block.layout = {}
    attrs: dict[str, Any] = {"callee": block, "recompute": True}
    if memory_limit is not None:
        attrs["memory_limit"] = memory_limit
    outs = trace.structured(CALL, {"inputs": [*given, *captured]}, {}, attrs)["outputs"]
    return tree.pack_sequence_as(result, outs)
