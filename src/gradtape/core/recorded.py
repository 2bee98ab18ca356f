"""From an operation that ran to its record: on every tape and accumulator that watches one of its inputs.

`record` is the short way when only plain tapes record and all of them know the inputs; `record_mixed` when some inputs are not
watched but have a past; `record_general` for everything else. Invariant: a record stands in the lists of all its open tapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import _getframe
from typing import Any

from gradtape.core.opdef import Op
from gradtape.core.record import (
    INTERNAL,
    RULES,
    SCOPE,
    Keys,
    Nodes,
    Past,
    Record,
    RecordingScope,
    RecordList,
    Unwatched,
    leaf,
    past_of,
    pasts,
)
from gradtape.core.save_plan import save_plan
from gradtape.core.tensor import Tensor


def record(
    scope: RecordingScope,
    op: Op,
    nodes: Nodes,
    saved: tuple[Any, ...],
    attrs: dict[str, Any] | None,
    out: Tensor,
    data: Any,
    depth: int,
) -> Tensor:
    """The hot path: only plain tapes record, every watched input is known to all. The frame `depth` up may be the user's."""
    entry = Record()
    entry.op = op
    entry.nodes = nodes
    entry.saved = saved
    entry.attrs = attrs
    entry.keys = scope.keys
    shape = entry.shape = data.shape
    entry.when = scope.when
    frame: Any = _getframe(depth)
    code = frame.f_code
    # most operations come from the code of the one before, which was found to be the user's
    if code is not scope.code:
        while code.co_filename in INTERNAL and frame.f_back is not None:
            # a rule that runs in a recorded backward pass: its line is the one that asked for the gradient
            if scope.site is not None and code.co_filename in RULES:
                frame, code = scope.site, scope.site.f_code
                break
            frame = frame.f_back
            code = frame.f_code
        scope.code = code
    entry.code = code
    entry.lasti = frame.f_lasti
    out._node = entry
    records = scope.records
    # (several tapes: the record stands in the list of each)
    if records is None:
        _append_to(scope.lists, entry, data.nbytes + 200)
        return out
    records.append(entry)
    # 200: about what a record itself takes
    budget = records.budget - (data.nbytes + 200 if shape else 200)
    records.budget = budget
    if budget < 0:
        records.sweep()
    return out


def record_mixed(
    scope: RecordingScope, op: Op, datas: Sequence[Any], nodes: Nodes, attrs: dict[str, Any], out: Tensor, result: Any
) -> Tensor:
    """Some input is not a version that all recorders know: often one that nobody watches, which has a past at most, or one
    that only an inner tape watches, beside another that all know."""
    # nobody watches it: the result has the same past, and nothing is made for it
    if len(nodes) == 1 and nodes[0].__class__ is Past:
        out._node = nodes[0]
        return out
    fast, covers, meets = scope.fast, scope.covers, scope.meets
    watched, bit = 0, 1
    known_to_all = False
    known: list[Record | None] = []
    unknown: list[Unwatched] = []
    for node in nodes:
        if node is None:
            known.append(None)
        elif not (keys := node.keys):
            known.append(None)
            unknown.append(node)  # type: ignore[arg-type]  # a version without keys is one
        # key tuples are few and shared, so what was found out of one holds for all versions that have it
        elif (whole := keys is fast or keys in covers) or keys in meets:
            known_to_all = known_to_all or whole
            known.append(node)
            watched += bit
        else:
            return record_general(scope, op, tuple(datas), nodes, attrs, out)
        bit += bit
    if not watched:
        out._node = past_of(op, nodes)
        return out
    if not known_to_all:  # who records it depends on whom the inputs know together
        return record_general(scope, op, tuple(datas), nodes, attrs, out)
    if result.dtype.kind == "c":
        for records in scope.lists:
            records.complex = True
    record(scope, op, tuple(known), save_plan(op).savers[watched](datas, result), attrs, out, result, 3)
    if unknown:
        out._node.when = (scope.when, tuple(unknown))  # type: ignore[union-attr]
    return out


def record_general(
    scope: RecordingScope, op: Op, inputs: tuple[Any, ...], nodes: Nodes, attrs: dict[str, Any], out: Any
) -> Any:
    """Record on every recorder of the scope that watches an input. `out` is a tensor or a tuple of them."""
    keys = scope.keys
    unknown: tuple[Unwatched, ...] = ()
    if not all([n is None or n.keys is keys for n in nodes]):  # noqa: C419  (quicker than a generator)
        keys = scope.subset(nodes)
        if not keys:
            return unrecorded(op, nodes, out)
        known = set(keys)
        if keys is scope.fast:
            seen = [n.keys for n in nodes if n is not None]
            # remembered, so that the next operation on such versions takes the quick way above
            scope.covers.update([k for k in seen if known.issubset(k)])
            scope.meets.update([k for k in seen if not known.isdisjoint(k)])
        unknown = pasts(op, nodes, known)
        # an input that none of these recorders knows is a constant to all of them
        nodes = tuple([n if n is not None and not known.isdisjoint(n.keys) else None for n in nodes])
    entry = Record()
    entry.op = op
    entry.when = (scope.when, unknown) if unknown else scope.when
    entry.nodes = nodes
    entry.attrs = attrs
    entry.keys = keys
    frame = _getframe(2)
    while frame.f_code.co_filename in INTERNAL and frame.f_back is not None:
        frame = frame.f_back
    entry.code = frame.f_code
    entry.lasti = frame.f_lasti
    several = isinstance(out, tuple)
    values: Any = tuple(stored(t) for t in out) if several else stored(out)
    entry.saved = save_plan(op).collect(inputs, nodes, values)
    entry.shape = tuple((t.shape, t.dtype) for t in values) if several else values.shape
    _append(scope, keys, entry, values)
    if several:
        for index, part in enumerate(out):
            part._node = part_of(scope, entry, index, values[index])
    else:
        out._node = entry
    # after the record is complete: a listener may look at it
    for recorder in scope.listeners:
        if recorder.key in keys:
            recorder.recorded(entry, inputs, nodes, out)
    if not any(key.holds for key in keys):  # forward mode alone: the tangent is all that is needed of the past
        entry.nodes = entry.saved = ()
    return out


def unrecorded(op: Op, nodes: Iterable[Record | None], out: Any) -> Any:
    """No recorder wants the operation: its results keep in mind where they came from, for `tape.explain`."""
    past = past_of(op, nodes)
    if past is not None:
        for tensor in out if isinstance(out, (tuple, list)) else (out,):
            if not tensor.wraps:  # what evaluators make of a value is not looked into
                tensor._node = past
    return out


def _append(scope: RecordingScope, keys: Keys, entry: Record, values: Any) -> None:
    size = 200
    is_complex = False
    for value in values if isinstance(values, tuple) else (values,):
        size += value.nbytes
        is_complex = is_complex or (value.dtype.is_complex if isinstance(value, Tensor) else value.dtype.kind == "c")
    holding = [r.records for r in scope.recorders if r.key in keys and r.key.holds]
    if is_complex:
        for records in holding:
            records.complex = True
    _append_to(holding, entry, size)


def _append_to(lists: list[RecordList], entry: Record, size: int) -> None:
    for records in lists:
        records.append(entry)
        records.budget -= size
    for records in lists:  # only now: a sweep counts on the record standing in all of them
        if records.budget < 0:
            records.sweep()


def part_of(scope: RecordingScope, owner: Record, index: int, value: Any) -> Record:
    """The record of one output of an op with several."""
    keys = scope.subset((owner,))
    entry = leaf(keys, value.shape, (owner,), PART, {"index": index}, owner.code, owner.lasti, owner.when)
    _append(scope, entry.keys, entry, ())
    return entry


def reparted(owner: Record, index: int, value: Any) -> Record | None:
    """The record of an output that an operation got later, for the tapes that record now and know the operation."""
    scope = SCOPE.get()
    if scope is None or not any(key in scope.keys for key in owner.keys):
        return None
    return part_of(scope, owner, index, value)


def _no_part(*args: Any, **attrs: Any) -> Any:
    raise TypeError("`part` is made by dispatch, not called")


PART = Op("part", "part", ("x",), _no_part, _no_part, skeleton=lambda attrs: attrs)


def stored(tensor: Tensor) -> Any:
    """What a record keeps of a tensor: its bare array, or this version of a wrapper (batched, traced): `t[i] = v` gives the
    user's object another."""
    return tensor._data if tensor.__class__ is Tensor else tensor.__copy__()
