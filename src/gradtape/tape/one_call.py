"""The gradient of a tape that holds one compiled call, as in most training steps: one run of the call's backward half.

The walk of `ad/backward.py` would visit the output and the call, and run the same machine code: this is that walk where there
is nothing to sort, to add up or to record. Whatever asks for more (other records, observers, ranks, something that is not
finite) is None here, and walked.
"""

from __future__ import annotations

from cmath import isfinite
from typing import TYPE_CHECKING, Any

from gradtape.core.dispatch import PART
from gradtape.core.hooks import HOOKS
from gradtape.core.record import SCOPE, TRACING
from gradtape.core.tensor import Tensor, box
from gradtape.tape.seeds import ones_of
from gradtape.tape.tape_messages import Source

if TYPE_CHECKING:
    from gradtape.tape.gradient_tape import Answer, GradientTape


def gradient_of_call(tape: GradientTape, target: Tensor, sources: list[Source]) -> list[Answer] | None:
    """The answers for one number as target (a `PART`) and its default seed; None where the tape has to be walked."""
    part: Any = target._node
    records, data = tape.records, target._data
    # (what another tape recorded, which is closed by now, has no past)
    if data.shape or not records or part.nodes != (call := records[0],):
        return None
    for record in records[1:]:
        if record.op is not PART:
            return None
    levels = call.attrs.get("levels")  # type: ignore[union-attr]  # an operation with several outputs has some
    if levels is None or tape.slow or tape._persistent or tape._crossed or HOOKS.among_ranks is not None or not isfinite(data):
        return None
    if TRACING.get() is not None or (SCOPE.get() is not None and tape._others() is not None):
        return None
    seeds: list[Any] = [None] * len(call.shape)
    seeds[part.attrs["index"]] = ones_of(data)
    cotangents = levels.cotangents(call, seeds)
    if cotangents is None:
        return None
    answers: list[Answer] = []
    for source in sources:
        versions = tape._versions(source)
        if not versions:
            answers.append(None)
        elif len(versions) > 1 or versions[0].op is not None:
            return None
        else:
            grad = cotangents.get(versions[0])
            answers.append(None if grad is None else box(grad))
    tape._asked = True
    return answers
