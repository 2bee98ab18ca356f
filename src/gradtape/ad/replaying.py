"""Running a block again, operation by operation, on other tensors: how derivatives and batches of programs are made.

Each operation goes through its op function, so it is recorded, traced or batched as its operands are. Invariant: one on traced
tensors is emitted with the type and the location it had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from gradtape.core.dispatch import apply
from gradtape.core.tensor import Tensor
from gradtape.ir.dims import match, substitute, symbol, symbols_in
from gradtape.ir.graph import Block, Value
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import clone, renamed
from gradtape.ops.collective import MESSAGES
from gradtape.ops.staged import SIZED
from gradtape.trace.tracing import TracedTensor, current_trace, type_of


def replay(
    block: Block, inputs: Sequence[Any], sizes: Literal["same", "matched", "new"] = "matched", world: Any = None
) -> list[Any]:
    """Run a block's operations again on other tensors, through the op functions: recorded, traced or batched as they are.

    Under a trace the operations are emitted with the types and locations they had, regions being copied. Sizes are "matched":
    called as the inputs call them. "new": and those that the block makes get new names, so that it can run here twice. `world`
    takes the place of the other ranks in messages: who watches it has a record of each.
    """
    trace = current_trace()
    if sizes != "same":
        # two replays of one block in one program would otherwise define the same symbols twice, with different sizes
        block = renamed(block, [type_of(t) for t in inputs], fresh=sizes == "new")
    known: dict[Value, Any] = dict(zip(block.params, inputs, strict=True))
    env: dict[str, Any] = {}  # sizes that operations on other tensors (a batch) made, where the block's own made others
    settled: set[str] = set()
    if not all(isinstance(t, TracedTensor) for t in inputs):
        # `renamed` made these the names of the inputs
        settled.update(symbols_in([p.type for p in block.params]))
    before = trace.loc
    for operation in block.operations:
        trace.loc = operation.loc
        operands = [known[v] for v in operation.operands]
        # the last operand of a message stands for the other ranks
        if world is not None and operation.op in MESSAGES:
            operands[-1] = world
        types = [v.type if not env else substitute(v.type, env) for v in operation.results]
        attrs = operation.attrs if not env else substitute(dict(operation.attrs), env)
        if operation.op.kind == "region":
            groups, start = {}, 0
            for name, count in operation.layout.items():
                groups[name] = operands[start : start + count]
                start += count
            regions = {
                name: clone(block, (lambda thing: substitute(thing, env)) if env else None)
                for name, block in operation.regions.items()
            }
            results = trace.structured(operation.op, groups, regions, attrs, (types, dict(operation.result_layout)))
            outs: Any = [t for group in results.values() for t in group]
        else:
            plainly = all(isinstance(t, TracedTensor) for t in operands)
            # inferred again, sizes that only run time knows would be new symbols, apart from those that others mention
            trace.types = types if plainly else None
            if operands and any(isinstance(t, Tensor) and t.wraps for t in operands):
                out = apply(operation.op, *operands, **attrs)
            else:
                out = trace.emit(operation.op, operands, attrs)
            trace.types = None
            outs = out if isinstance(out, tuple) else (out,)
        if not all(isinstance(t, TracedTensor) for t in outs):
            outs = [_learn_sizes(*pair, env, settled) for pair in zip(operation.results, outs, strict=True)]
        known.update(zip(operation.results, outs, strict=True))
    trace.loc = before
    return [known[v] for v in block.results]


def _learn_sizes(value: Value, tensor: Any, env: dict[str, Any], settled: set[str]) -> Any:
    """Note what the sizes of a value are called in a tensor that stands for it, where it introduces them. Sizes that were
    `settled` before have their names: the tensor gets these."""
    spec, type = substitute(value.type, env) if env else value.type, type_of(tensor)
    names = symbols_in(spec)
    if isinstance(spec, TensorSpec) and tuple(spec.shape) != tuple(type.shape) and names <= settled:
        return apply(SIZED, tensor, shape=tuple(spec.shape), caller=None)
    settled |= names | symbols_in(type)
    sizes: dict[str, Any] = {}
    match(value.type, type, sizes)
    env |= {name: size for name, size in sizes.items() if size != symbol(name)}
    return tensor
