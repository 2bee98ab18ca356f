"""Numbers of a tape for its picture: what the tape kept of each value, and how large each gradient is.

Values are found where records saved them, for the record itself or for its inputs; nothing is computed again. Gradients come
from one more reverse walk that is told every cotangent on its way, so that none has to be kept. Whatever is not there any
more gets a reason in words. Invariant: neither the tape nor its records are changed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradtape.ad.backward import all_finite, binding, innermost, reverse_walk
from gradtape.ad.custom import CUSTOM
from gradtape.ad.sweep import SparseRows
from gradtape.core.record import NOBODY, TRACING, Record, location, scope_of
from gradtape.core.save_plan import save_plan
from gradtape.core.tensor import Tensor
from gradtape.functions.compiled import FUNCTION
from gradtape.ops.stop import GRADIENT
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools.rank_labels import on_one_rank

FIRST = 6  # entries of a value that are shown
SAMPLE = 1_000_000  # larger arrays are summarised from a regular sample of about this many entries


def saved_values(records: Sequence[Record]) -> dict[Record, Any]:
    """The value of each version that some record kept, where its shape leaves no doubt."""
    values: dict[Record, Any] = {}
    plans: dict[Any, tuple[int, list[tuple[int, int]]]] = {}  # op → how many values its records keep; (which, of which input)
    for record in records:
        op, saved, nodes = record.op, record.saved, record.nodes
        if op is None or not saved or op.kind == "region":
            continue
        if op not in plans:
            entries = save_plan(op).entries
            plans[op] = len(entries), [(k, index) for k, (index, spec) in enumerate(entries) if not spec]
        count, kept = plans[op]
        # A record under a memory limit keeps a recipe instead: it has no values to show.
        for k, index in kept if count == len(saved) else ():
            value = saved[k]
            if value.__class__ is tuple and index >= 0:  # a variadic input
                for node, part in zip(nodes[index:], value, strict=False):
                    _note(values, node, part)
            elif value is not None and index < len(nodes):
                _note(values, record if index < 0 else nodes[index], value)
    return values


def _note(values: dict[Record, Any], node: Record | None, value: object) -> None:
    if node is not None and isinstance(value, (np.ndarray, np.generic)) and value.shape == node.shape:
        values.setdefault(node, value)


def saved_bytes(record: Record, counted: set[int]) -> int:
    """Bytes this record keeps that were not counted yet; arrays are often kept by several records."""
    total = _bytes(record.saved, counted)
    if record.attrs and record.op is not None and record.op.kind == "region":
        total += _bytes(record.attrs.get("saved") or (), counted)
    return total


def _bytes(values: Iterable[Any], counted: set[int]) -> int:
    total = 0
    for value in values:
        if isinstance(value, (np.ndarray, np.generic)) and id(value) not in counted:
            counted.add(id(value))
            total += value.nbytes
        elif isinstance(value, tuple):
            total += _bytes(value, counted)
    return total


def summary(value: object) -> dict[str, Any] | None:
    """Extremes, mean, the first entries and the number of NaNs and infinities of an array; None for what has no numbers."""
    array = np.asarray(value)
    if array.dtype.kind not in "biufc" or not array.size:
        return None
    step = max(array.size // SAMPLE, 1)
    flat = array.reshape(-1)[::step]
    real = np.abs(flat) if flat.dtype.kind == "c" else flat
    real = real.astype(np.float64, copy=False)
    finite = np.isfinite(real)
    bad = int(len(real) - np.count_nonzero(finite))
    good = real if not bad else real[finite]
    facts: dict[str, Any] = {"dtype": array.dtype.name, "first": [number(v) for v in array.reshape(-1)[:FIRST].tolist()]}
    if good.size:
        facts |= {"min": number(good.min()), "mean": number(good.mean()), "max": number(good.max())}
    if bad:
        facts["nonfinite"] = bad
    if step > 1:
        facts["sampled"] = True
    return facts


def number(value: complex | np.number) -> Any:
    """A number as JSON can hold it, to five digits; what JSON has no word for as text."""
    if isinstance(value, complex):
        return f"{value:.5g}"
    if isinstance(value, (bool, int)):
        return int(value)
    value = float(value)
    return float(f"{value:.5g}") if math.isfinite(value) else str(value)


# -- gradients -------------------------------------------------------------------------------------------------------------


class _Heard(dict[Record, Any]):
    """Cotangents by record, which note the size of each one that the walk takes up."""

    def __init__(self, seeds: dict[Record, Any], sizes: dict[Record, Any]) -> None:
        super().__init__(seeds)
        self._sizes = sizes

    def pop(self, record: Record, default: object = None) -> Any:
        cotangent = dict.pop(self, record, None)
        if cotangent is not None and (size := norm(cotangent)) is not None:
            self._sizes[record] = size
        return cotangent


def norm(cotangent: object) -> tuple[float, float] | None:
    """Norm and largest entry of a cotangent; several outputs count together."""
    if isinstance(cotangent, (np.float32, np.float64)):
        size = abs(float(cotangent))
        return size, size
    if cotangent.__class__ is SparseRows:
        cotangent = cotangent.values
    if isinstance(cotangent, (list, tuple)):
        parts = [n for n in (norm(part) for part in cotangent if part is not None) if n is not None]
        if not parts:
            return None
        return math.sqrt(sum(length**2 for length, _ in parts)), max(largest for _, largest in parts)
    array = np.asarray(innermost(cotangent))
    if array.dtype.kind not in "fc":
        return None
    if not array.size:
        return 0.0, 0.0
    # In double precision: squares of large float32 numbers overflow.
    entries = np.abs(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64, copy=False)).reshape(-1)
    return math.sqrt(float(np.dot(entries, entries))), float(entries.max())


@on_one_rank
def gradient_sizes(
    tape: GradientTape, targets: dict[Record, Any], leaves: dict[Record, Record]
) -> dict[Record, tuple[float, float]]:
    """The size of the gradient of `targets` (version → dtype; each seeded with ones) at every record between them and the
    leaves (version → the one it counts with: versions of a variable are added up)."""
    records = tuple(tape.records)
    seeds = {node: np.ones(node.shape, dtype)[()] for node, dtype in targets.items()}
    wanted = set(leaves)
    sizes: dict[Record, tuple[float, float]] = {}

    with scope_of(NOBODY), np.errstate(all="ignore"):
        # As `tape.gradient` does it: plain products first, and masked ones only where these are not finite.
        for careful in (False, True):
            sizes.clear()
            cotangents = reverse_walk(
                records, _Heard(seeds, sizes), wanted,
                binding(careful=careful or tape.records.complex, cut=tape._through is False),
                visit=() if tape._memory is None else (tape._memory.prepare,),
            )  # fmt: skip
            if careful or all_finite(cotangents.values()):
                break
    if tape._memory is not None:
        tape._memory.finish()
    totals: dict[Record, Any] = {}
    for node, cotangent in cotangents.items():
        total = leaves[node]
        totals[total] = totals[total] + cotangent if total in totals else cotangent
    return sizes | {node: size for node, cotangent in totals.items() if (size := norm(cotangent)) is not None}


def target_nodes(tape: GradientTape, targets: Iterable[Any]) -> dict[Record, Any]:
    """The versions of the tensors a gradient was, or would be, asked of, with their dtypes."""
    dtypes = {}
    for tensor in targets:
        node = tape._node_of(tensor) if isinstance(tensor, Tensor) else None
        if node is not None and not tensor.wraps and tensor.dtype.is_differentiable:
            dtypes[node] = tensor._data.dtype
    return dtypes


def why_no_values(tape: GradientTape) -> str | None:
    """Why the values of a tape are not there; None when they are."""
    if TRACING.get() is not None:
        return "in a compiled function there are values only when it runs"
    if tape._spent_at is None:
        return None
    file, line = location(*tape._spent_at)
    return (
        f"the gradient call at {file}:{line} freed the values of this one-shot tape; make it with "
        "GradientTape(persistent=True), or take the picture before the gradient"
    )


def _would_repeat(record: Record) -> bool:
    """Whether the rules of a record run the user's own code, which may do anything."""
    attrs = record.attrs or {}
    if record.op is CUSTOM:
        return not ("rule" in attrs and attrs["rule"].answers.rerun)
    return record.op is FUNCTION and attrs.get("again") is None


def why_no_gradients(tape: GradientTape, nodes: Iterable[Record], given: bool) -> str | None:
    """Why gradients cannot be shown; None when they can. `given`: whether there is a target at all."""
    reason = why_no_values(tape)
    nodes = set(nodes)
    if reason is None and tape.level:
        reason = "inside vectorized_map or a Jacobian the gradients are not single values"
    if reason is None and not nodes and given:
        reason = "the target was not computed from watched values while this tape recorded"
    elif reason is None and not nodes:
        reason = "gradients are those of a target: give it, tape.picture(path, target=loss)"
    if reason is None and any(_would_repeat(record) for record in tape.records):
        reason = (
            "the backward pass runs functions of yours (custom gradients, or compiled ones with effects): not for a picture"
        )
    if reason is None and any(r.op is GRADIENT and r.attrs and "pending" in r.attrs for r in tape.records):
        reached = nodes
        for record in reversed(tape.records):
            if record in reached:
                if record.op is GRADIENT and record.attrs and "pending" in record.attrs:
                    return "the target depends on an earlier gradient whose own operations are not recorded"
                reached.update(node for node in record.nodes if node is not None)
    return reason
