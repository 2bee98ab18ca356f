"""Which operations between ranks a program has: what must be the same on all ranks that run it together.

Messages are left out: their two ends are different programs. What is found is a text, and the operations that run only if
values say so (in branches, in loops whose length is not known): of these the ranks can only compare what was done.
"""

from __future__ import annotations

from zlib import crc32

from gradtape.core.opdef import Fails
from gradtape.ir.graph import Block, Operation
from gradtape.ir.walk import callee_of, program
from gradtape.ops.collective import COMMUNICATIONS, MESSAGES, POSTED, SWAP_WITH
from gradtape.ops.structured import CALL, CUSTOM, SCAN


class ProgramExchanges:
    """Of one program."""

    def __init__(self, block: Block) -> None:
        self.first: Operation | None = None
        self.message: Operation | None = None  # the first one, if there is any
        self.digests: dict[Operation, int] = {}
        self.uncertain: set[Operation] = set()  # operations that run if values say so
        self.text = self._read(block, False)
        # whether this rank may leave it in the middle, while others wait in it
        self.can_fail = any(_can_fail(operation) for operation in program(block))

    @property
    def digest(self) -> int:
        """The text as a number."""
        return crc32(self.text.encode())

    def _read(self, block: Block, uncertain: bool) -> str:
        return "; ".join(filter(None, [self._of(operation, uncertain) for operation in block.operations]))

    def _of(self, operation: Operation, uncertain: bool) -> str:
        op = POSTED.get(operation.op, operation.op)
        if op in COMMUNICATIONS:
            if op in MESSAGES or op is SWAP_WITH:
                self.message = self.message or operation
                return ""
            self.first = self.first or operation
            type = operation.operands[0].type
            sizes = [size if isinstance(size, int) else "?" for size in type.shape]
            attrs = "".join(f", {name} {value}" for name, value in sorted(operation.attrs.items()))
            text = f"{op.name} of {type.dtype.name}{sizes}{attrs}"
            self.digests[operation] = crc32(text.encode())
            if uncertain:
                self.uncertain.add(operation)
            return text
        callee = callee_of(operation)
        if callee is not None:
            return self._read(callee, uncertain)
        length = operation.attrs.get("length")
        known = operation.op in (CALL, CUSTOM) or (operation.op is SCAN and isinstance(length, int))
        inner = "|".join([self._read(region, uncertain or not known) for region in operation.regions.values()])
        return f"{operation.op.name} {length or ''}({inner})" if inner.strip("|") else ""


def _can_fail(operation: Operation) -> bool:
    op = operation.op
    return op.fails is not Fails.NEVER or (op.effect and op not in COMMUNICATIONS and op not in POSTED)
