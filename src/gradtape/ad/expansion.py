"""Operations written in simpler ones: each by its op's `expand`, traced on values of the operation's own types.

A backend says which operations it wants written out (those it has no code of its own for, or that it can fuse with what stands
around them). What an expansion consists of may be expanded in its turn. Invariant: the results keep their types.
"""

from __future__ import annotations

from collections.abc import Callable

from gradtape.ad.reverse import trace_value
from gradtape.core.opdef import Op
from gradtape.ir.graph import Block, Operation
from gradtape.ir.verify import fits
from gradtape.ir.walk import Rebuild, rebuild
from gradtape.trace.tracing import Trace, params_of, tracing


def expanded(block: Block, chosen: Callable[[Operation], bool]) -> Block:
    """The program with the operations that are `chosen`, and have an expansion for their types, written out."""

    def visit(scope: Rebuild, operation: Operation) -> None:
        body = expansion(operation) if operation.op.expand is not None and chosen(operation) else None
        if body is None:
            scope.copy(operation)
        else:
            types = [value.type for value in operation.results]
            scope.replace(operation, scope.inline(body, scope.operands(operation), types))

    return rebuild(block, visit)


def expansion(operation: Operation) -> Block | None:
    """What an operation means in simpler ones, as a block of its operands; None: there is no expansion for their types."""
    op: Op = operation.op
    assert op.expand is not None
    body = Block([value.type for value in operation.operands], name=op.name)
    trace = Trace(body)
    trace.loc = operation.loc
    with tracing(trace):
        outs = op.expand(*params_of(body), **operation.attrs)
    if outs is None:
        return None
    body.give(outputs=[trace_value(trace, out) for out in (outs if isinstance(outs, tuple) else (outs,))])
    for value, result in zip(body.results, operation.results, strict=True):
        if not fits(value.type, result.type):  # what reads it counts on the type of the program
            raise TypeError(f"{op.name} written out is {value.type}, not {result.type}")
    return body
