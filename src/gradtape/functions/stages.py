"""What happens to a program between tracing and running: trace → passes → [derivative] → passes → backend."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from gradtape import config
from gradtape.backends import numpy as reference
from gradtape.errors import FailedPreconditionError
from gradtape.ir.garbage import uncollected
from gradtape.ir.graph import Block, Operation
from gradtape.ir.types import UNKNOWN, TensorSpec
from gradtape.ir.walk import Rebuild, blocks, program, rebuild
from gradtape.ops.lists import LIST_REPLACE, LIST_SET
from gradtape.ops.structured import CUSTOM
from gradtape.passes.bufferize import bufferize
from gradtape.passes.loop_products import loop_products
from gradtape.passes.overlap import overlap
from gradtape.passes.pipeline import optimize
from gradtape.passes.reroll import reroll

WORTH_ROLLING = 12  # operations: fewer have no loop worth finding


def traced_program(block: Block) -> Block:
    """What tracing gave, with the Python loops that ran while tracing as loops again."""
    return reroll(block) if len(block.operations) >= WORTH_ROLLING and not _of_unknown_rank(block) else block


@uncollected()
def prepared(block: Block, native: bool = False) -> Block:
    """The optimised program, with updates in place where the old version is dead; for native code with sums in any order."""
    if any(operation.op in (CUSTOM, LIST_REPLACE) for operation in program(block)):
        block = rebuild(block, _forget_rules)
    if _of_unknown_rank(block):
        return block
    block = optimize(block)
    return bufferize(overlap(loop_products(block) if native else block))


def _of_unknown_rank(block: Block) -> bool:
    """Whether some value has a rank that only run time knows. Passes reason with shapes, so they leave such a program alone,
    which the reference backend runs."""
    for inner in blocks(block):
        for value in (*inner.params, *[value for operation in inner.operations for value in operation.results]):
            if isinstance(value.type, TensorSpec) and value.type.shape is UNKNOWN:
                return True
    return False


@uncollected()
def executable(block: Block, name: str, backend: str | None = None) -> Any:
    """A traced program that runs: as machine code, or on the reference backend where the user asks for that. It is `prepared`
    for that, unless its machine code is found without.

    A program with something native code cannot express runs on the reference backend too; `instead` then says why.
    """
    native = backend != "numpy" and (backend is not None or config.native_code_enabled())
    llvm = _native(required=backend == "llvm") if native else None
    if llvm is None:
        return reference.compile_block(prepared(block), name)
    try:
        return llvm.compile_block(block, name, partial(prepared, native=True))
    except llvm.UnsupportedError as error:
        interpreted = reference.compile_block(prepared(block), name)
        interpreted.instead = str(error)
        return interpreted


def _native(required: bool) -> Any:
    """The native backend, loaded with the first function that is compiled; None, said once, where LLVM does not work."""
    try:
        from gradtape.backends import llvm
        from gradtape.backends.llvm.runtime import machine

        machine.triple()
    except (ImportError, OSError, RuntimeError) as error:
        cure = "install llvmlite, or set GRADTAPE_NATIVE=0 to be silent about it"
        if required:
            raise FailedPreconditionError(f"there is no machine code here: {error}; {cure}") from error
        config.native_code(False)
        warnings.warn(f"functions run on the NumPy backend: machine code cannot be made here ({error}); {cure}", stacklevel=2)
        return None
    return llvm


def _forget_rules(scope: Rebuild, operation: Operation) -> None:
    """Once derivatives are taken, an operation with a derivative of its own is just its values, and nobody asks what an item of
    a list replaces."""
    if operation.op is CUSTOM:
        scope.replace(operation, scope.groups(operation)["values"])
    elif operation.op is LIST_REPLACE:
        scope.replace(operation, scope.emit(LIST_SET, scope.operands(operation)[:3], [operation.result.type]).results)
    else:
        scope.copy(operation)
