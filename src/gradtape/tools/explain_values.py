"""What only a backward pass can tell: whether a rule answered None, and whether the gradient is zero, and since where.

The tape's own walk is run once more, unrecorded, and nothing is kept of it. A tape that freed its values has none to run on:
then what it noted when it was asked has to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.ad.backward import gradients
from gradtape.ad.sweep import Cotangent, SparseRows
from gradtape.core.dispatch import PART
from gradtape.core.record import NOBODY, TRACING, Record, scope_of
from gradtape.ir.graph import Location
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools.explain_cuts import CONNECTED, Cut
from gradtape.tools.explain_paths import line_of


def has_values(tape: GradientTape, tensors: list[Any]) -> bool:
    """Whether a backward pass can be run now, on bare arrays."""
    return tape._spent_at is None and TRACING.get() is None and tape.level == 0 and not any(t.wraps for t in tensors)


def noted_zero(tape: GradientTape, targets: list[Record | None], starts: list[Record]) -> bool:
    """Whether the answer for this source was all zeros when a one-shot tape gave it."""
    return any(set(targets) == asked and set(starts) == set(versions) for asked, versions in tape._zeros)


def gives_gradient(tape: GradientTape, tensors: list[Any], wanted: set[Record]) -> set[Record]:
    """Those of the wanted versions for which a backward pass gives a cotangent that is not zero."""
    cotangents = _walk(tape, tensors, wanted, set())
    return {node for node in wanted if _nonzero(cotangents.get(node))}


def reason(tape: GradientTape, tensors: list[Any], states: dict[Any, Cut], starts: list[Record]) -> Cut:
    """Why the walk from these targets to `starts` gives nothing, or zeros."""
    path = {node for node, state in states.items() if state is CONNECTED}
    wanted = {node for node in path if node.op is None or node.op.outputs == 1} | set(starts)
    reached: set[Record] = set()
    cotangents = _walk(tape, tensors, wanted, reached)
    if any(node in cotangents for node in starts):
        return _vanished(tape, path, cotangents)
    return _silent(tape, path, reached | set(cotangents))


def _walk(tape: GradientTape, tensors: list[Any], wanted: set[Record], reached: set[Record]) -> dict[Record, Any]:
    seeds: dict[Record, Any] = {}
    for tensor in tensors:
        node = tape._node_of(tensor)
        if node is not None and tensor.dtype.is_differentiable:
            seed = np.ones(tensor._data.shape, tensor._data.dtype)
            seeds[node] = seeds[node] + seed if node in seeds else seed
    steps = [reached.add] if tape._memory is None else [reached.add, tape._memory.prepare]
    with scope_of(NOBODY):
        cotangents = gradients(
            tuple(tape.records), seeds, wanted, boxed=False, complex_values=tape.records.complex,
            cut=tape._through is False, visit=steps,
        )  # fmt: skip
    if tape._memory is not None:
        tape._memory.finish()
    return cotangents


def _silent(tape: GradientTape, path: set[Any], reached: set[Record]) -> Cut:
    """The operation whose rule gave nothing for the inputs that matter."""
    for record in reversed(tape.records):
        if record in path and record in reached and not any(n in reached for n in record.nodes if n in path):
            return Cut("no_derivative", record.op.name, line_of(record), {"reason": "its rule gives none for these inputs"})
    return Cut("no_derivative", "", None, {"reason": "no cotangent arrives at the source"})


def _vanished(tape: GradientTape, path: set[Any], cotangents: dict[Record, Any]) -> Cut:
    """The operation, as near to the target as possible, at which a cotangent that is not zero becomes one that is."""
    for record in reversed(tape.records):
        if record not in path or not _nonzero(cotangents.get(record)):
            continue
        # Newest first, so the answer is the place nearest to the target, where a reader begins to look.
        owner = record.nodes[0] if record.op is PART and record.nodes else record
        if owner is None:
            continue
        if not any(_nonzero(cotangents.get(node)) for node in owner.nodes if node is not None and node in path):
            return Cut("zero", owner.op.name, line_of(record))
    return zero_without_place()


def zero_without_place(place: Location | None = None) -> Cut:
    """The gradient is zero; where it became so is not known any more."""
    return Cut("zero", "", place)


def _nonzero(cotangent: Cotangent | tuple[Any, ...] | None) -> bool:
    if cotangent is None:
        return False
    if isinstance(cotangent, SparseRows):
        return any(_nonzero(value) for value in cotangent.values)
    if isinstance(cotangent, (list, tuple)):
        return any(_nonzero(part) for part in cotangent)
    return bool(np.any(cotangent))
