"""What happens to a program between tracing and running: trace → passes → [derivative] → passes → backend."""

from __future__ import annotations

from gradtape.ir.graph import Block, Operation
from gradtape.ir.walk import Rebuild, rebuild
from gradtape.ops.regions import CUSTOM
from gradtape.passes.bufferize import bufferize
from gradtape.passes.pipeline import optimize
from gradtape.passes.reroll import reroll

WORTH_ROLLING = 12  # operations: fewer have no loop worth finding


def traced_program(block: Block) -> Block:
    """What tracing gave, with the Python loops that ran while tracing as loops again."""
    return reroll(block) if len(block.operations) >= WORTH_ROLLING else block


def prepared(block: Block) -> Block:
    """The optimised program, with updates in place where the old version is dead."""
    return bufferize(optimize(rebuild(block, _forget_rules)))


def _forget_rules(scope: Rebuild, operation: Operation) -> None:
    """Once derivatives are taken, an operation with a derivative of its own is just its values."""
    if operation.op is CUSTOM:
        scope.replace(operation, scope.groups(operation)["values"])
    else:
        scope.copy(operation)
