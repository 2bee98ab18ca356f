"""Non-finite cotangents: the reverse walk done once more, record by record, and the records whose rules made them.

A rule that answers something non-finite for a finite cotangent and finite values is an origin. If the values it works with are
non-finite themselves, the trouble is in the forward pass, and `nan_forward` goes on from there. Only what reaches a requested
gradient counts. Invariant: each step is the one reverse walk (`ad/backward.py`) on a single record, with masked lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.ad.backward import binding, reverse_walk
from gradtape.ad.straight import needed_records
from gradtape.ad.sweep import Cotangent, SparseRows
from gradtape.core.dispatch import PART
from gradtape.core.record import Record
from gradtape.ops.stop import ASSIGN
from gradtape.tools.lanes import Mask, bad, cleaned, lanewise, shrunk, targets_of, widened
from gradtape.tools.nan_forward import Origin, RecordedRun, owner_of
from gradtape.tools.operands import UNKNOWN

Cotangents = dict[Record, Any]
Operands = Callable[[Record], tuple[list[Any], list[Any]]]  # inputs and outputs of a record


@dataclass
class Fault:
    """One record whose rules gave something non-finite: for each input version the lanes that are non-finite whatever the
    cotangent (`own`), and those that a non-finite cotangent brought (`passed`)."""

    position: int
    record: Record
    ct: Any
    own: dict[Record, Mask]
    passed: dict[Record, Mask]


def faults(run: RecordedRun, seeds: Mapping[Record, Any], wanted: Iterable[Record]) -> tuple[list[Fault], Cotangents]:
    """The faulty steps of the walk from the seeds to the wanted versions, and the cotangents of those."""
    ends = set(wanted)
    _, needed = needed_records(run.records, ends, binding(cut=run.cut))
    cotangents: Cotangents = dict(seeds)
    answers: Cotangents = {}
    faulty: list[Fault] = []
    for position in range(len(run.records) - 1, -1, -1):
        record = run.records[position]
        ct = cotangents.pop(record, None)
        if ct is None or record not in needed:
            continue
        if record in ends:
            answers[record] = ct
        if run.cut and record.op is ASSIGN:
            continue
        # One record at a time through the tape's own walk: what it finds is what `tape.gradient` computed.
        step = run.plain(record)
        grads = _step(step, ct, needed)
        for node, grad in grads.items():
            _add(cotangents, node, grad)
        fault = None if record.op is PART else _fault(position, record, step, ct, grads, needed)
        if fault is not None:
            faulty.append(fault)
    answers.update((node, cotangents[node]) for node in ends if node in cotangents)
    return faulty[::-1], answers


def _step(record: Record, ct: Cotangent | None, needed: set[Record]) -> Cotangents:
    wanted = {node for node in record.nodes if node is not None and node in needed}
    with np.errstate(all="ignore"):
        return reverse_walk((record,), {record: ct}, wanted, binding(careful=True))


def _add(cotangents: Cotangents, node: Record, grad: Cotangent) -> None:
    old = cotangents.get(node)
    if isinstance(grad, SparseRows):
        grad = grad.dense()
    if old is None:
        cotangents[node] = grad
    elif grad.__class__ is list:  # slots of several outputs
        cotangents[node] = [b if a is None else a if b is None else a + b for a, b in zip(old, grad, strict=True)]
    else:
        with np.errstate(all="ignore"):
            cotangents[node] = old + grad


def _slots(ct: Cotangent) -> list[Any]:
    """The cotangents of the outputs, None where none arrived."""
    return ct if ct.__class__ is list else [ct]


def _fault(
    position: int, record: Record, step: Record, ct: Cotangent, grads: Cotangents, needed: set[Record]
) -> Fault | None:  # fmt: skip
    masks = {node: mask for node, grad in grads.items() if (mask := bad(grad)).any()}
    if not masks:
        return None
    # A rule is to blame for lanes that are non-finite although their cotangent is not. Where lanes stay apart that can be read
    # off the masks; elsewhere the rule runs once more with a healthy cotangent.
    own = masks
    if lanewise(record.op):
        if (ill := bad(ct)).any():
            own = {node: mask & ~shrunk(ill, mask.shape) for node, mask in masks.items()}
    elif any(slot is not None and bad(slot).any() for slot in _slots(ct)):
        healthy = [None if slot is None else cleaned(slot) for slot in _slots(ct)]
        again = _step(step, healthy if ct.__class__ is list else healthy[0], needed)
        own = {node: bad(again[node]) & mask if node in again else np.zeros_like(mask) for node, mask in masks.items()}
    passed = {node: mask & ~own[node] for node, mask in masks.items()}
    return Fault(position, record, ct, own, passed)


# -- origins ---------------------------------------------------------------------------------------------------------


@dataclass
class BackwardOrigins:
    """What a trace found: rules to blame, last operation first; forward versions to go on from; lanes of bad seeds."""

    rules: list[Origin]
    forward: dict[tuple[Record, int], Mask]
    inputs: list[Origin]  # leaves and constants that are non-finite themselves
    seeds: list[Origin]


def origins(
    run: RecordedRun, faulty: list[Fault], answers: Cotangents, seeds: Mapping[Record, Any], values: Operands
) -> BackwardOrigins:
    """From the non-finite lanes of the answers to what made them. `values` knows the operands of records."""
    lanes: dict[Record, Mask] = {node: mask for node, ct in answers.items() if (mask := _whole(ct)).any()}
    result = BackwardOrigins([], {}, [], [])
    parts: dict[Record, list[Record]] = {}  # the versions of the outputs of ops with several
    for record in run.records:
        if record.op is PART and record.nodes and record.nodes[0] is not None:
            parts.setdefault(record.nodes[0], []).append(record)
    for fault in faulty:  # oldest first: cotangents come from newer records
        record = fault.record
        for node in dict.fromkeys(n for n in record.nodes if n is not None):
            wanted = lanes.get(node)
            if wanted is None:
                continue
            own = _hit(fault.own.get(node), wanted)
            if own is not None:
                _blame(result, fault, node, own, values)
            passed = _hit(fault.passed.get(node), wanted)
            if passed is not None:
                _pass_on(lanes, fault, node, passed, run, parts)
    for record, seed in seeds.items():
        mask = bad(seed) if seed.__class__ is not list else np.zeros((), bool)
        if record in lanes and mask.any():
            result.seeds.append(Origin(len(run.records), record, mask, [seed], seed))
    result.rules.sort(key=lambda o: -o.position)
    return result


def _whole(ct: Cotangent) -> Mask:
    return np.zeros((), bool) if ct.__class__ is list else bad(ct)


def _hit(mask: Mask | None, wanted: Mask) -> Mask | None:
    if mask is None:
        return None
    hit = mask & wanted
    return hit if hit.any() else None


def _blame(result: BackwardOrigins, fault: Fault, node: Record, lanes: Mask, values: Operands) -> None:
    """The rule itself, unless the values it works with are non-finite on these lanes."""
    record = fault.record
    inputs, outs = values(record)
    ill = False
    # A rule that divides by an infinite operand did nothing wrong: then the search goes on in the forward pass.
    for i, value in enumerate((*inputs, *outs)):
        mask = np.zeros((), bool) if value is UNKNOWN else bad(value)
        if lanewise(record.op) and mask.any():
            mask = mask & _between(lanes, mask.shape)
        if not mask.any():
            continue
        ill = True
        source = record.nodes[i] if i < len(inputs) else None
        if i >= len(inputs):
            _mark(result.forward, (record, i - len(inputs)), mask)
        elif source is None or source.op is None:
            result.inputs.append(Origin(fault.position, record, mask, [value], value, i))
        else:
            owner, place = owner_of(source)
            _mark(result.forward, (owner or source, place), mask)
    if not ill:
        index = next(i for i, n in enumerate(record.nodes) if n is node)
        result.rules.append(Origin(fault.position, record, lanes, inputs, fault.ct, index))


def _mark(starts: dict[tuple[Record, int], Mask], key: tuple[Record, int], mask: Mask) -> None:
    starts[key] = starts[key] | mask if key in starts else mask


def _between(lanes: Mask, shape: tuple[int, ...]) -> Mask:
    """Lanes of one input or output as lanes of another of the same lane-wise op."""
    return shrunk(lanes, shape) if lanes.ndim > len(shape) or lanes.size > int(np.prod(shape)) else widened(lanes, shape)


def _pass_on(
    lanes: dict[Record, Mask], fault: Fault, node: Record, hit: Mask, run: RecordedRun, parts: Mapping[Record, list[Record]]
) -> None:
    """The lanes of a record's cotangent that brought these lanes of an input's."""
    record, ct = fault.record, fault.ct
    if ct.__class__ is list:
        for part in parts.get(record, ()):
            slot = ct[part.attrs["index"]]  # type: ignore[index]
            if slot is not None and (mask := bad(slot)).any():
                lanes[part] = lanes[part] | mask if part in lanes else mask
        return
    index = next(i for i, n in enumerate(record.nodes) if n is node)
    mask = bad(ct) & targets_of(record, index, hit, run.attrs(record), ct)
    if mask.any():
        lanes[record] = lanes[record] | mask if record in lanes else mask
