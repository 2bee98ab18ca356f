"""Exchanges with other ranks begin as early as they can and are waited for as late as there is work to do meanwhile.

An operation becomes two halves (`HALVES` of `ops/collective.py`) where something between them takes time and cannot leave the
program: what has begun must be waited for, since others write into its memory. Its operand, and what only arranges that
(`_ARRANGING`), moves up to where the numbers are known; what needs the result, down behind the wait. All that has an effect
keeps its order, so the ranks, which run one program, keep theirs. Where there is one rank, nothing changes.

Runs after all passes that reason about values and before `bufferize`, which finds the lifetimes as they are then.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Fails
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import Rebuild, callee_of, has_effect, program, rebuild
from gradtape.ops.collective import ALL_SUM, HALVES, INLINE, SWAP_WITH
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.ops.shape import CONCAT, RESHAPE, STACK, TRANSPOSE
from gradtape.ops.staged import CONSTANT

_ARRANGING = frozenset((CONCAT, CONSTANT, RESHAPE, STACK, TRANSPOSE))
_LARGE = 4096  # elements: less is done before a message is on its way
_LONG_SUM = 8192  # elements: shorter sums are quicker in one call, which waits
_RECIPES = ("elementwise", "linear", "nondiff")  # native code computes most of these where they are used, not in their place

Step = tuple[str, Operation]  # "copy", "post" or "await"


def overlap(block: Block) -> Block:
    """The program with exchanges in halves, where that gains something."""
    if HOOKS.world.size == 1 or not any(operation.op in HALVES for operation in program(block)):
        return block

    def visit(scope: Rebuild, operation: Operation) -> None:
        if not scope.memory:  # all of the block at its first operation: the order is another one
            scope.memory["scheduled"] = True
            for step in _schedule(scope.old.operations):
                _emit(scope, *step)

    return rebuild(block, visit)


def _emit(scope: Rebuild, kind: str, operation: Operation) -> None:
    scope.loc = operation.loc
    if kind == "copy":
        scope.copy(operation)
        return
    post, wait = HALVES[operation.op]
    if kind == "post":
        types: Any = post.infer(*(value.type for value in operation.operands), **operation.attrs)
        scope.memory[operation] = scope.emit(post, scope.operands(operation), types, operation.attrs).results
    else:
        out = scope.emit(wait, scope.memory[operation], [operation.result.type], operation.attrs)
        scope.replace(operation, out.results)


def _schedule(operations: Sequence[Operation]) -> list[Step]:
    """The order of a block's operations and halves."""
    order = list(operations)
    exchanges = [operation for operation in order if _is_worth_splitting(operation)]
    for exchange in exchanges:
        _hoist(order, exchange)
    steps: list[Step] = [("copy", operation) for operation in order]
    for exchange in exchanges:
        steps = _split(steps, steps.index(("copy", exchange)))
    return steps


def _is_worth_splitting(operation: Operation) -> bool:
    if operation.op not in HALVES or not operation.operands[0].type.shape:
        return False
    size = _size(operation.operands[0])
    if operation.op is SWAP_WITH:  # few data travel with the header, in one message
        return size * operation.operands[0].type.dtype.dtype.itemsize > INLINE
    return operation.op is not ALL_SUM or size >= _LONG_SUM


def _size(value: Value) -> int:
    """The elements of a value; none where that is not known."""
    shape = value.type.shape if isinstance(value.type, TensorSpec) else (0,)
    return prod(shape) if all(isinstance(n, int) for n in shape) else 0


def _hoist(order: list[Operation], exchange: Operation) -> None:
    """Move an exchange, with what arranges its operand, to where all that is needed is there."""
    end = order.index(exchange)
    moving = {exchange}
    known: set[Operation] = set()  # what must stand before
    for operation in reversed(order[: end + 1]):
        if operation in moving:
            for value in operation.operands:
                if (producer := value.producer) is not None:
                    (moving if producer.op in _ARRANGING else known).add(producer)
    start = 0
    for i, operation in enumerate(order[:end]):
        if operation in known or (has_effect(operation) and operation not in moving):
            start = i + 1
    before, after = order[:start], order[start : end + 1]
    order[: end + 1] = [*before, *(o for o in after if o in moving), *(o for o in after if o not in moving)]


def _split(steps: list[Step], at: int) -> list[Step]:
    """The steps with the exchange at a place begun there, and waited for behind the last work that need not wait."""
    exchange = steps[at][1]
    late = set(exchange.results)  # what is known only when the wait is over
    ordered = False  # whether something with an effect is late: then all such things after it are
    meanwhile: list[Step] = []
    work = 0  # how many steps of these end with the last one that takes time
    for step in steps[at + 1 :]:
        kind, operation = step
        effect = kind != "await" and has_effect(operation)
        if (kind != "await" and not late.isdisjoint(operation.operands)) or (effect and ordered) or not _stays(operation):
            late.update(operation.results)
            ordered = ordered or effect
            continue
        meanwhile.append(step)
        if kind == "copy" and _takes_time(operation):
            work = len(meanwhile)
    if not work:
        return steps
    chosen = meanwhile[:work]
    taken = set(chosen)
    return [*steps[:at], ("post", exchange), *chosen, ("await", exchange), *(s for s in steps[at + 1 :] if s not in taken)]


def _stays(operation: Operation) -> bool:
    """Whether nothing in an operation can leave the program."""
    closed = not operation.regions and callee_of(operation) is None
    return operation.op in HALVES or (closed and operation.op.fails is Fails.NEVER and not operation.op.effect)


def _takes_time(operation: Operation) -> bool:
    works = operation.op.kind not in _RECIPES or operation.op is REDUCE_SUM
    return works and max(map(_size, (*operation.operands, *operation.results)), default=0) >= _LARGE
