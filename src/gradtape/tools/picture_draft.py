"""A tape read for its picture: records and leaves in order, their names, and what can be measured of them.

A `Draft` lives only while a picture is made. What cannot be measured has a reason in words. Invariant: reading changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradtape.core.dispatch import PART
from gradtape.core.record import Record
from gradtape.ops.stop import GRADIENT
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools.operands import operands_of
from gradtape.tools.picture_sites import Sites, is_named, names_of, user_frames
from gradtape.tools.picture_values import (
    gradient_sizes,
    saved_bytes,
    saved_values,
    target_nodes,
    why_no_gradients,
    why_no_values,
)
from gradtape.tools.profile import Profiler

IDLE = 40  # watched values nothing was computed from that are still shown
UNNAMED = (9, "watched")  # the worst rank of a name, see `names_of`


@dataclass
class Draft:
    """A tape as arrays: one entry per record, parts counted with their operation; leaves have numbers after the records."""

    records: list[Record] = field(default_factory=list)
    leaves: list[Record] = field(default_factory=list)
    places: dict[Record, int] = field(default_factory=dict)  # of records, their parts, and leaves
    first: dict[Record, Record] = field(default_factory=dict)  # version of a leaf → the one that stands for all
    labels: dict[Record, tuple[str, Any, Any]] = field(default_factory=dict)  # of leaves: kind, (rank, label), variable or None
    values: dict[Record, Any] = field(default_factory=dict)
    gradients: dict[Record, Any] = field(default_factory=dict)
    targets: set[int] = field(default_factory=set)
    bytes: list[int] = field(default_factory=list)
    seconds: dict[Record, tuple[float, float]] = field(default_factory=dict)
    measures: dict[str, Any] = field(default_factory=dict)
    sites: Sites = field(default_factory=Sites)
    codes: dict[int, Any] = field(default_factory=dict)  # of functions, by identity: the hash of a code object is slow
    backward: set[tuple[int, int]] = field(default_factory=set)  # instructions that recorded a derivative of another tape

    def owner(self, record: Record) -> Any:
        """What a record is grouped by: its function, or the call whose backward pass it is part of."""
        place = (id(record.code), record.lasti)
        return place if place in self.backward else place[0]

    def title(self, owner: int | tuple[int, int]) -> str:
        """The words for such a group."""
        if isinstance(owner, tuple):
            return "backward pass"
        code = self.codes[owner]
        return "" if code is None else str(getattr(code, "co_qualname", code.co_name)).replace("<locals>.", "")


def drafted(tape: GradientTape, targets: Sequence[Any]) -> Draft:
    """Everything a picture needs of a tape."""
    draft = Draft()
    idle = _unused_gradients(tape.records)
    for record in tape.records:
        if record in idle:
            continue
        if record.op is PART and record.nodes and (owner := record.nodes[0]) is not None:
            draft.places[record] = draft.places.get(owner, -1)
            continue
        draft.places[record] = len(draft.records)
        draft.records.append(record)
    _label(tape, draft)
    for record in draft.records:
        for node in record.nodes:
            if node is not None and node.keys and node not in draft.places:
                _add_leaf(draft, node)
    for node in [node for node in draft.labels if node not in draft.places][:IDLE]:
        _add_leaf(draft, node)  # nothing was computed from it
    counted: set[int] = set()
    reason = why_no_values(tape)
    draft.values = {} if reason else saved_values(tape.records)
    operands = operands_of(tape)
    if operands is not None:  # a tape made with debug=True keeps every value
        draft.values |= {record: kept.out for record, kept in operands.kept.items() if not isinstance(kept.out, tuple)}
    draft.bytes = [] if reason else [saved_bytes(record, counted) for record in draft.records]
    draft.measures["bytes"] = {"reason": reason} if reason else {"total": sum(draft.bytes)}
    draft.measures["values"] = {"reason": reason} if reason and operands is None else {}
    _measure_gradients(tape, draft, targets)
    _measure_time(tape, draft)
    draft.codes = {id(record.code): record.code for record in draft.records}
    draft.backward = {(id(code), lasti) for code, lasti in tape.sites if code is not None}
    return draft


def _unused_gradients(records: Sequence[Record]) -> set[Record]:
    """The marks that gradients of a persistent tape leave in case they are differentiated again, where nothing used them."""
    pending = {r for r in records if r.op is GRADIENT and r.attrs and "pending" in r.attrs}
    parts = {r for r in records if r.op is PART and r.nodes and r.nodes[0] in pending} if pending else set()
    for record in records if pending else ():
        if record not in parts:
            for node in record.nodes:
                if node in parts and node is not None:
                    pending.discard(node.nodes[0])
    return pending | {part for part in parts if part.nodes[0] in pending}


def _add_leaf(draft: Draft, node: Record) -> None:
    first = draft.first.setdefault(node, node)
    if first not in draft.places:
        draft.places[first] = len(draft.records) + len(draft.leaves)
        draft.leaves.append(first)
    draft.places[node] = draft.places[first]


def _label(tape: GradientTape, draft: Draft) -> None:
    """Names for the leaves. The versions of a variable are one leaf."""
    tensors = [(tensor(), node) for tensor, node in tape._tensors.values()]
    names = names_of([*(v for v, _ in tape._variables.values()), *(t for t, _ in tensors)], user_frames())
    for variable, versions in tape._variables.values():
        own = variable.name.removesuffix(":0")
        name = (-1, own) if is_named(own) else names.get(id(variable), (UNNAMED[0], own))
        # Versions that the tape computed are operations of the picture; the others are one leaf with the variable's name.
        first = next((node for node in versions if node not in draft.places), None)
        for node in versions:
            if node not in draft.places and first is not None:
                draft.first[node] = first
                draft.labels[node] = ("variable", name, variable)
    for tensor, node in tensors:
        if node not in draft.places:
            draft.labels.setdefault(node, ("watched", names.get(id(tensor), UNNAMED), tensor))


def _measure_gradients(tape: GradientTape, draft: Draft, targets: Sequence[Any]) -> None:
    nodes = target_nodes(tape, targets)
    if not targets and draft.records and draft.records[-1].shape == () and draft.records[-1].op.kind != "nondiff":
        last = draft.records[-1]  # a program usually ends with its loss
        value = draft.values.get(last)
        nodes = {last: "float32" if value is None or value.dtype.kind not in "fc" else value.dtype}
    reason = why_no_gradients(tape, nodes, bool(targets))
    if not reason:
        draft.gradients = gradient_sizes(tape, nodes, draft.first)
        draft.targets = {draft.places[node] for node in nodes if node in draft.places}
    draft.measures["gradient"] = {"reason": reason} if reason else {}


def _measure_time(tape: GradientTape, draft: Draft) -> None:
    """A profile adds up what ran at one instruction; each record there gets its part."""
    profiler = next((o for o in tape._observers if isinstance(o, Profiler)), None)
    if profiler is None:
        draft.measures["time"] = {"reason": "times are measured on a tape made with GradientTape(profile=True)"}
        return
    tallies = [profiler.tally_of(record) for record in draft.records]
    # Records of one instruction share a tally: each gets an equal part of it.
    shares = Counter(id(tally) for tally in tallies)
    draft.seconds = {
        record: (tally.forward / shares[id(tally)], tally.backward / shares[id(tally)])
        for record, tally in zip(draft.records, tallies, strict=True) if tally is not None
    }  # fmt: skip
    draft.measures["time"] = {"total": sum(sum(pair) for pair in draft.seconds.values())}
    if not draft.bytes:  # the tape was used up; the profile remembers
        draft.bytes = [0 if tally is None else tally.bytes // shares[id(tally)] for tally in tallies]
        draft.measures["bytes"] = {"total": sum(draft.bytes)}
