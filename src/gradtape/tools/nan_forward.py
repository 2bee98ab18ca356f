"""Non-finite values of a recorded forward pass: which operations made them, and which of them reach what was asked for.

`scan` goes through the record once, oldest first, with values that were saved, kept, or computed again, and notes each
operation with a non-finite output: its `Trouble`. `trace` then follows lanes from the ends of interest back to their origins.
Masked lanes (the unselected side of a `where`) are on no such way. Invariant: values that were computed again are dropped after
their last use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import count_nonzero

from gradtape.ad.custom import CUSTOM
from gradtape.core.dispatch import PART
from gradtape.core.record import NOBODY, Record, Unwatched, scope_of
from gradtape.core.save_plan import save_plan
from gradtape.core.tensor import Tensor, box
from gradtape.functions.compiled import FUNCTION
from gradtape.tape.memory_limit import OutputRecipe, at_hand
from gradtape.tools.lanes import Mask, bad, cleaned, lanewise, sources_of, targets_of
from gradtape.tools.operands import UNKNOWN, Kept, repeated

MOST_GAPS = 3  # named in a report


@dataclass
class RecordedRun:
    """A recorded computation, and where its values may be found besides the records."""

    records: Sequence[Record]
    kept: Mapping[Record, Kept] = field(default_factory=dict)  # all operands, where somebody kept them
    known: dict[Record, Any] = field(default_factory=dict)  # values of versions: variables, watched tensors, targets
    prepare: Callable[[Record], None] | None = None  # brings the values of a record back (memory_limit)
    rows: dict[int, int] = field(default_factory=dict)  # the example looked at, by level of batching
    cut: bool = False  # assignments cut gradients

    def attrs(self, record: Record) -> Any:
        kept = self.kept.get(record)
        return record.attrs if kept is None else kept.attrs

    def plain(self, record: Record) -> Record:
        """The record with its values there, and bare: of batched ones, the example looked at."""
        if self.prepare is not None:
            self.prepare(record)
        if not self.rows:
            return record
        twin = Record()
        for name in ("op", "nodes", "attrs", "keys", "shape", "code", "lasti", "when"):
            setattr(twin, name, getattr(record, name))
        twin.saved = tuple(
            tuple(picked(v, self.rows) for v in value) if isinstance(value, tuple) else picked(value, self.rows)
            for value in record.saved
        )
        return twin


@dataclass
class Trouble:
    """One operation with non-finite outputs: masks per output; for each non-finite input its mask and the lanes of the
    outputs it alone accounts for; what was not kept on the way to the other inputs."""

    position: int
    record: Record
    masks: list[Mask]
    alone: dict[int, tuple[Mask, list[Mask]]]
    gaps: tuple[tuple[Record, int], ...]
    inputs: list[Any]
    sure: list[Any]  # the inputs, UNKNOWN where not kept or guessed
    outs: tuple[Any, ...]


@dataclass
class Origin:
    """Where non-finite values come from: an operation, or (`index` set) one of its inputs that came in like this."""

    position: int
    record: Record
    lanes: Mask
    inputs: list[Any]
    out: Any
    index: int | None = None
    gaps: tuple[tuple[Record, int], ...] = ()  # inputs of operations that were not kept: one of them may be to blame


def picked(value: object, rows: dict[int, int]) -> Any:
    """A bare value: of a batched tensor, the example looked at."""
    levels = []
    bare: Any = value
    while isinstance(bare, Tensor):
        if bare.wraps:
            levels.append(bare.level)  # type: ignore[attr-defined]
        bare = bare._data
    for level in reversed(levels):
        bare = bare[rows.get(level, 0)]
    return bare


def owner_of(node: Record) -> tuple[Record | None, int]:
    """The record that made a version, and which of its outputs it is."""
    if node.op is not PART:
        return node, 0
    return (node.nodes[0] if node.nodes else None), node.attrs["index"] if node.attrs else 0


def made_by(record: Record, attrs: Mapping[str, Any] | None) -> list[Record | None]:
    """Of a custom gradient: the versions its outputs were computed as, where they are alive."""
    if record.op is not CUSTOM or not attrs:
        return []
    nodes = [None if ref is None else ref() for ref in attrs["rule"].outputs]
    return [None if isinstance(node, Unwatched) else node for node in nodes]


def ancestors(run: RecordedRun, ends: Iterable[Record]) -> set[Record]:
    """Everything the ends were computed from, through whatever operations."""
    reached = set(ends)
    for record in reversed(run.records):
        if record in reached:
            reached.update(node for node in (*record.nodes, *made_by(record, run.attrs(record))) if node is not None)
    return reached


# -- values ----------------------------------------------------------------------------------------------------------


class Values:
    """The values of a run, as far as they can be known while it is gone through in order.

    Where a constant was not kept, an operation is repeated with ones in its place: a guess, good enough to see which lanes
    pass a non-finite value on. Operations whose result depends on more than that saved what they need.
    """

    def __init__(self, run: RecordedRun) -> None:
        self.run = run
        self.known: dict[Record, Any] = dict(run.known)
        self.guesses: set[Record] = set()
        # under a memory limit: how the output of each record was made
        self._cells: dict[Record, tuple[OutputRecipe, Any]] = {r: r.saved for r in run.records if _has_cell(r)}
        for record in run.records:
            # Nothing is computed that some record has at hand.
            for index, value in _saved(record):  # what a record saved are values of other versions too
                node = record if index < 0 else record.nodes[index]
                if node is not None:
                    self.known.setdefault(node, value)
        self._parts: dict[Record, dict[int, Any]] = {}  # of ops with several outputs: those that are known
        for node, value in self.known.items():
            owner, index = owner_of(node)
            if owner is not None and owner is not node:
                self._parts.setdefault(owner, {})[index] = value

    def of(self, node: Record) -> Any:
        """The value of a version, or UNKNOWN."""
        if node in self.known:
            return self.known[node]
        owner, index = owner_of(node)
        whole = self.known.get(owner, UNKNOWN) if owner is not None and owner is not node else UNKNOWN
        return whole[index] if isinstance(whole, tuple) and index < len(whole) else UNKNOWN

    def guessed(self, node: Record | None) -> bool:
        """Whether the value of a version is a guess."""
        return node is not None and owner_of(node)[0] in self.guesses and node not in self.run.known

    def resolved(self, node: Record, depth: int = 8) -> Any:
        """The value of a version, computed from what it was made of if need be."""
        value = self.of(node)
        owner, index = owner_of(node)
        if value is not UNKNOWN or not depth or owner is None or owner.op is None:
            return value
        inputs = self.inputs(owner)
        for i, source in enumerate(owner.nodes):
            if inputs[i] is UNKNOWN and source is not None:
                inputs[i] = self.resolved(source, depth - 1)
        out = repeated(owner.op, inputs, self.run.attrs(owner))
        return out[index] if isinstance(out, tuple) and owner is not node else out

    def inputs(self, record: Record) -> list[Any]:
        """The inputs of a record, UNKNOWN where they were not kept."""
        values: list[Any] = [UNKNOWN] * len(record.nodes)
        kept = self.run.kept.get(record)
        attrs = self.run.attrs(record)
        if record.op is not CUSTOM and kept is not None:
            values = list(kept.inputs)
            if not self.run.rows:
                return values
        elif record.op is FUNCTION and attrs and attrs["inputs"] is not None:
            values = list(attrs["inputs"])
        elif record in self._cells:
            values = [UNKNOWN if (value := _held(arg)) is None else value for arg in self._cells[record][0].args]
        for index, value in _saved(record):
            if index >= 0 and values[index] is UNKNOWN:
                values[index] = value
        for i, node in enumerate(record.nodes):
            if values[i] is UNKNOWN and node is not None:
                values[i] = self.of(node)
        return [value if value is UNKNOWN else picked(value, self.run.rows) for value in values]

    def output(self, record: Record) -> Any:
        """The output of a record (several: a tuple) if it was kept, or UNKNOWN."""
        kept = self.run.kept.get(record)
        value = self.known.get(record, UNKNOWN) if kept is None else kept.out
        if isinstance(value, tuple):
            return tuple(picked(v, self.run.rows) for v in value)
        return value if value is UNKNOWN else picked(value, self.run.rows)

    def computed(self, record: Record, inputs: list[Any]) -> tuple[Any, bool]:
        """The output of a record, computed again, and whether it is a guess."""
        attrs = self.run.attrs(record)
        if record.op is CUSTOM:
            return self._custom(record, inputs, attrs)
        guess = any(self.guessed(node) for node in record.nodes)
        if any(x is UNKNOWN for x in inputs):
            guess = True
            saved = self._cells[record][1] if record in self._cells else record.saved
            inputs = [_placeholder(record, saved, i) if x is UNKNOWN else x for i, x in enumerate(inputs)]
        out = repeated(record.op, inputs, attrs)
        # The operation cannot be repeated, but later records saved some of its outputs.
        if out is UNKNOWN and record in self._parts:
            known = self._parts[record]
            return tuple(picked(known[i], self.run.rows) if i in known else UNKNOWN for i in range(len(record.shape))), guess
        # Ones in the place of an index or a shape give something else altogether.
        if guess and out is not UNKNOWN and not isinstance(out, tuple) and np.shape(out) != tuple(record.shape):
            return UNKNOWN, False
        return out, guess

    def _custom(self, record: Record, inputs: list[Any], attrs: Mapping[str, Any] | None) -> tuple[Any, bool]:
        """The outputs of a custom gradient are those of its function."""
        outputs = made_by(record, attrs)
        values = [UNKNOWN if node is None else self.of(node) for node in outputs]
        if outputs and not any(v is UNKNOWN for v in values):
            return tuple(picked(v, self.run.rows) for v in values), any(self.guessed(node) for node in outputs)
        again = attrs["rule"].again if attrs else None
        if again is None or not again.repeatable or any(x is UNKNOWN for x in inputs):
            return UNKNOWN, False
        with scope_of(NOBODY), np.errstate(all="ignore"):
            return tuple(t._data for t in again.run([box(x) for x in inputs])), False


def _placeholder(record: Record, saved: Sequence[Any], index: int) -> Any:
    """Ones of the shape of an input that was not kept."""
    plan = save_plan(record.op)
    last = len(record.op.args) - 1
    for (place, spec), value in zip(plan.entries, saved, strict=False):
        if spec and value is not None and plan.variadic and place == last and index >= last:
            return np.ones(value[index - last].shape, value[index - last].dtype)
        if spec and value is not None and place == index:
            return np.ones(value.shape, value.dtype)
    return np.float32(1.0) if lanewise(record.op) else UNKNOWN


def _has_cell(record: Record) -> bool:
    return bool(record.saved) and record.saved[0].__class__ is OutputRecipe


def _held(arg: object) -> Any:
    """What a cell's argument is, if it is at hand."""
    source = arg[0] if isinstance(arg, tuple) else arg
    return None if isinstance(source, OutputRecipe) and source.value is None else at_hand(arg)  # one of several may be None


def _saved(record: Record) -> list[tuple[int, Any]]:
    """(input index, or -1 for the output; value) for each value a record saved."""
    if not record.saved or _has_cell(record):
        return []
    plan = save_plan(record.op)
    last = len(record.op.args) - 1
    saved: list[tuple[int, Any]] = []
    for (index, spec), value in zip(plan.entries, record.saved, strict=True):
        if spec or value is None:
            continue
        if plan.variadic and index == last:
            saved += [(index + i, v) for i, v in enumerate(value)]
        else:
            saved.append((index, value))
    return saved


# -- troubles --------------------------------------------------------------------------------------------------------


def scan(run: RecordedRun, ends: Iterable[Record]) -> dict[Record, Trouble]:
    """The operations with non-finite outputs among what the ends were computed from."""
    wanted = ancestors(run, ends)
    values = Values(run)
    # A long run would not fit into memory if every value that is computed again were kept: each goes after its last use.
    last: dict[Record, int] = {}
    for position, record in enumerate(run.records):
        if record in wanted:
            last.update((owner_of(node)[0] or node, position) for node in record.nodes if node is not None)
    dying: dict[int, list[Record]] = {}
    for node, position in last.items():
        dying.setdefault(position, []).append(node)
    troubles: dict[Record, Trouble] = {}
    computed: set[Record] = set()
    for position, record in enumerate(run.records):
        if record not in wanted or record.op is PART or record.op is None:
            continue
        if run.prepare is not None:
            run.prepare(record)
        inputs = values.inputs(record)
        out, guess = values.output(record), False
        if out is UNKNOWN:
            out, guess = values.computed(record, inputs)
        if guess:
            values.guesses.add(record)
        if out is not UNKNOWN:
            if record not in values.known:
                values.known[record] = out
                computed.add(record)
            outs = out if isinstance(out, tuple) else (out,)
            masks = [np.zeros((), bool) if o is UNKNOWN else bad(o) for o in outs]
            if any([count_nonzero(mask) for mask in masks]):  # noqa: C419  (quicker than a generator)
                troubles[record] = _trouble(position, record, inputs, values, masks, outs, troubles)
        for node in dying.get(position, ()):
            if node in computed:
                del values.known[node]
    return troubles


def _trouble(
    position: int, record: Record, inputs: list[Any], values: Values, masks: list[Mask], outs: tuple[Any, ...],
    troubles: dict[Record, Trouble],
) -> Trouble:  # fmt: skip
    attrs = values.run.attrs(record)
    ill: dict[int, Mask] = {}
    for i, (x, node) in enumerate(zip(inputs, record.nodes, strict=True)):
        # The mask of an input was computed when its own operation was looked at; of several outputs it is not known which.
        known = None if node is None else troubles.get(node)
        mask = None if x is UNKNOWN else bad(x) if known is None or len(known.masks) > 1 else known.masks[0]
        if mask is not None and count_nonzero(mask):
            ill[i] = mask
    alone: dict[int, tuple[Mask, list[Mask]]] = {}
    for i, mask in ill.items():
        # An input that is alone non-finite accounts for all that came out non-finite.
        own = masks
        # which lanes are still non-finite when the other inputs are not? Of functions of each lane: those of this input
        if len(ill) > 1 and record.op.kind != "elementwise":
            again = repeated(record.op, [cleaned(x) if j in ill and j != i else x for j, x in enumerate(inputs)], attrs)
            if again is not UNKNOWN:
                own = [bad(o) & m for o, m in zip(again if isinstance(again, tuple) else (again,), masks, strict=False)]
        if len(own) == 1:
            own = [own[0] & targets_of(record, i, mask, attrs, outs[0])]
        alone[i] = (mask, own)
    if not values.guesses and not any(x is UNKNOWN for x in inputs):
        return Trouble(position, record, masks, alone, (), inputs, inputs, outs)
    gaps = _gaps(record, inputs, ill, values)
    sure = [UNKNOWN if values.guessed(node) else x for x, node in zip(inputs, record.nodes, strict=True)]
    return Trouble(position, record, masks, alone, gaps, inputs, sure, outs)


def _gaps(record: Record, inputs: list[Any], ill: dict[int, Mask], values: Values) -> tuple[tuple[Record, int], ...]:
    """What was not kept among the inputs of a record, and behind those that are guesses."""
    gaps: dict[tuple[Record, int], None] = {(record, i): None for i, x in enumerate(inputs) if x is UNKNOWN}
    waiting = [node for i, node in enumerate(record.nodes) if i not in ill and values.guessed(node)]
    seen: set[Record] = set()
    while waiting and len(gaps) < MOST_GAPS:
        node = waiting.pop()
        owner = None if node is None else owner_of(node)[0]
        if owner is None or owner in seen or owner not in values.guesses:
            continue
        seen.add(owner)
        gaps.update(((owner, i), None) for i, x in enumerate(values.inputs(owner)) if x is UNKNOWN)
        waiting += owner.nodes
    return tuple(gaps)


# -- origins ---------------------------------------------------------------------------------------------------------


def trace(run: RecordedRun, troubles: dict[Record, Trouble], starts: Mapping[tuple[Record, int], Mask]) -> list[Origin]:
    """The origins of non-finite lanes, from versions (record, output) back, oldest first."""
    lanes: dict[tuple[Record, int], Mask] = dict(starts)
    origins: list[Origin] = []

    def reach(trouble: Trouble, node: Record | None, mask: Mask, index: int) -> None:
        owner, place = (None, 0) if node is None else owner_of(node)
        if owner is not None and owner in troubles and owner is not trouble.record:
            key = (owner, place)
            lanes[key] = lanes[key] | mask if key in lanes else mask
        else:  # a constant, a leaf, or a version this tape did not record
            value = trouble.inputs[index]
            origins.append(Origin(trouble.position, trouble.record, mask, [value], value, index))

    # Newest first: when an operation is looked at, all that asks for its lanes has been looked at before.
    for trouble in sorted(troubles.values(), key=lambda t: -t.position):
        record = trouble.record
        links = made_by(record, record.attrs)
        for place, all_bad in enumerate(trouble.masks):
            wanted = lanes.get((record, place))
            if wanted is None or not count_nonzero(wanted := wanted & all_bad):
                continue
            link = links[place] if place < len(links) else None
            owner, inner = (None, 0) if link is None else owner_of(link)
            if owner is not None and owner in troubles:  # a custom gradient: its function's own operations tell more
                key = (owner, inner)
                lanes[key] = lanes[key] | wanted if key in lanes else wanted
                continue
            # What no input accounts for is the operation's own doing.
            left = wanted
            for i, (mask, own) in trouble.alone.items():
                hit = wanted & own[place] if place < len(own) else wanted
                if count_nonzero(hit):
                    left = left & ~hit
                    reach(trouble, record.nodes[i], mask & sources_of(run.plain, record, i, hit, trouble.inputs[i]), i)
            if count_nonzero(left):
                origins.append(Origin(trouble.position, record, left, trouble.sure, trouble.outs[place], None, trouble.gaps))
    return sorted(origins, key=lambda o: o.position)
