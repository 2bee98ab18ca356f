"""What happens to a program between tracing and running: trace → passes → [derivative] → passes → backend.

A program whose machine code is on disk needs neither passes nor a backend that writes: both are loaded by the first that does.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from gradtape import config
from gradtape.errors import FailedPreconditionError
from gradtape.ir.garbage import uncollected
from gradtape.ir.graph import Block
from gradtape.ir.walk import of_unknown_rank

WORTH_ROLLING = 12  # operations: fewer have no loop worth finding


def traced_program(block: Block) -> Block:
    """What tracing gave, with the Python loops that ran while tracing as loops again."""
    if len(block.operations) < WORTH_ROLLING or of_unknown_rank(block):
        return block
    from gradtape.passes.reroll import reroll

    return reroll(block)


@uncollected()
def executable(block: Block, name: str, backend: str | None = None) -> Any:
    """A traced program that runs: as machine code, or on the reference backend where the user asks for that. It is `prepared`
    for that, unless its machine code is found without.

    A program with something native code cannot express runs on the reference backend too; `instead` then says why.
    """
    native = backend != "numpy" and (backend is not None or config.native_code_enabled())
    llvm = _native(required=backend == "llvm") if native else None
    if llvm is None:
        return _interpreted(block, name)
    try:
        return llvm.compile_block(block, name, partial(_prepared, native=True))
    except llvm.UnsupportedError as error:
        interpreted = _interpreted(block, name)
        interpreted.instead = str(error)
        return interpreted


def _prepared(block: Block, native: bool = False) -> Block:
    # here, as it imports the passes and the registry of all operations
    from gradtape.passes.pipeline import prepared

    return prepared(block, native)


def _interpreted(block: Block, name: str) -> Any:
    from gradtape.backends.numpy import compile_block

    return compile_block(_prepared(block), name)


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
