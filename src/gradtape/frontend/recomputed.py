"""`recompute_grad` in a traced function: a call whose backward pass runs the callee again and saves only its inputs."""

from __future__ import annotations

from typing import Any

from gradtape import tree
from gradtape.ad.tracing import TracedTensor, current_trace, params_of
from gradtape.frontend.effects import active
from gradtape.frontend.places import Log
from gradtape.ir.graph import Block
from gradtape.ops.dispatch import convert
from gradtape.ops.regions import CALL
from gradtape.ops.tensor import Tensor, TensorLike


def stage_recomputed(f: Any, args: Any, kwargs: Any) -> Any:
    """`f(*args, **kwargs)` as a call to be computed again; a function that writes state is traced as it is."""
    trace, tracer = current_trace(), active()
    leaves = tree.flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (Tensor, TensorLike))]
    given = [convert(leaves[i]) for i in places]
    given = [t if isinstance(t, TracedTensor) else trace.outside(trace, t) for t in given]
    block = Block([t._data.type for t in given], name=getattr(f, "__name__", "f"))
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
    outs = trace.structured(CALL, {"inputs": [*given, *captured]}, {}, {"callee": block, "recompute": True})["outputs"]
    return tree.pack_sequence_as(result, outs)
