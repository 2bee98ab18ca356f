"""The one reverse walk: cotangents from targets back to the wanted versions.

It visits records newest first, without recursion, and only those that lie between the targets and what is wanted.
Un-broadcasting, missing cotangents and accumulation happen here and nowhere else. Rules come from a `Binding`: bare
arrays (nobody records the pass) or tensors (somebody does). In-place additions go only into buffers the walk allocated.
"""

from __future__ import annotations

from cmath import isfinite
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape.dtypes import as_dtype
from gradtape.ops.binding import BOXED, BOXED_CAREFUL, RAW, RAW_CAREFUL, Binding, raw
from gradtape.ops.create import zeros
from gradtape.ops.dispatch import PART
from gradtape.ops.index import TAKE
from gradtape.ops.record import TRACING, Record
from gradtape.ops.shape import unbroadcast
from gradtape.ops.stop import ASSIGN
from gradtape.ops.tensor import Tensor

_raw_unbroadcast = raw(unbroadcast)


class SparseRows:
    """A cotangent of a gathered table: rows and where they go. Becomes dense when added to a dense one."""

    __slots__ = ("indices", "shape", "values")

    def __init__(self, values: list[Any], indices: list[Any], shape: tuple[int, ...]) -> None:
        self.values = values
        self.indices = indices
        self.shape = shape

    def joined(self) -> tuple[Any, Any]:
        """(values, indices) as one array each."""
        rest = self.shape[1:]
        indices = [np.reshape(i, -1) for i in self.indices]
        values = [np.reshape(v, (i.size, *rest)) for v, i in zip(self.values, indices, strict=True)]  # -1 is no size of nothing
        return np.concatenate(values), np.concatenate(indices)

    def dense(self) -> Any:
        values, indices = self.joined()
        out = np.zeros(self.shape, values.dtype)
        np.add.at(out, indices, values)
        return out


def needed_records(records: Iterable[Record], wanted: Iterable[Record], cut: bool) -> set[Record]:
    """`wanted` and every record that depends on one of them through differentiable operations."""
    needed = set(wanted)
    for record in records:
        for node in record.nodes:
            if node in needed:
                op = record.op
                if op.kind != "nondiff" and not (cut and op is ASSIGN):
                    needed.add(record)
                break
    return needed


def reverse_walk(
    records: Sequence[Record],
    cotangents: dict[Record, Any],
    wanted: set[Record],
    *,
    boxed: bool,
    careful: bool,
    cut: bool = False,
    sparse: bool = False,
    reached: set[Record] | None = None,
    prepare: Callable[[Record], None] | None = None,
) -> dict[Record, Any]:
    """Carry `cotangents` (of the targets) back; the answer holds those of the `wanted` records that were reached.

    `cut` stops at assignments; `sparse` lets a gathered leaf keep a `SparseRows`; `reached` collects the visited
    records for whoever wants to know; `prepare` is called before a record's rules run (values kept elsewhere).
    """
    binding: Binding = (BOXED_CAREFUL if careful else BOXED) if boxed else (RAW_CAREFUL if careful else RAW)
    reduce_to = unbroadcast if boxed else _raw_unbroadcast
    needed = needed_records(records, wanted, cut)
    owned: set[Record] = set()
    for record in reversed(records):
        if record not in needed:
            continue
        ct = cotangents.pop(record, None)
        if ct is None:
            continue
        keep = record in wanted
        if keep:
            cotangents[record] = ct
        if reached is not None:
            reached.add(record)
        if prepare is not None:
            prepare(record)
        op = record.op
        nodes = record.nodes
        if op is PART:
            _add_part(cotangents, record, ct)
            continue
        if cut and op is ASSIGN:
            continue
        if op.kind == "region":
            wants = tuple([node in needed for node in nodes])
            for node, grad in zip(nodes, REGION_RULE[0](record, ct, wants), strict=True):
                if grad is not None and node in needed:
                    _accumulate(cotangents, owned, node, grad)
            continue
        if ct.__class__ is list:
            ct = _filled(ct, record, boxed)
        rules = binding[op]
        if rules.joint is not None:
            wants = tuple([node in needed for node in nodes])
            answers = rules.joint(ct, record, wants)
            for node, grad in zip(nodes, answers, strict=True):
                if grad is not None and node in needed:
                    _accumulate(cotangents, owned, node, grad)
            continue
        for i, rule in rules.steps:
            node = nodes[i]
            if node not in needed:
                continue
            if i == 0:
                if rules.add_into is not None and node.shape:
                    if sparse and op is TAKE and node.op is None and record.attrs["axis"] == 0:  # type: ignore[index]
                        grad = SparseRows([ct], [record.saved[_INDICES]], node.shape)
                        _accumulate(cotangents, owned, node, grad)
                    else:
                        _add_into(rules.add_into, cotangents, owned, node, ct, record)
                    continue
                if rules.in_place is not None and ct.__class__ is ndarray:
                    if keep or record not in owned:
                        ct = ct.copy()
                    rules.in_place(ct, record)
                    fresh = node not in cotangents
                    _accumulate(cotangents, owned, node, ct)
                    if fresh:
                        owned.add(node)
                    continue
            grad = rule(ct, record)
            if grad is None:
                continue
            if rules.broadcasts and grad.shape != node.shape:
                grad = reduce_to(grad, node.shape)
            if node in cotangents:
                _accumulate(cotangents, owned, node, grad)
            else:
                cotangents[node] = grad
    return {node: cotangents[node] for node in wanted if node in cotangents}


REGION_RULE: list[Callable[[Record, Any, tuple[bool, ...]], list[Any]]] = []  # set by ad/regions.py, which needs this walk
_INDICES = 1  # where TAKE saves its indices; checked by a test


def _accumulate(cotangents: dict[Record, Any], owned: set[Record], node: Record, grad: Any) -> None:
    """Add to the cotangent of a node; in place only where the buffer is the walk's own."""
    old = cotangents.get(node)
    if old is None:
        cotangents[node] = grad
    elif old.__class__ is SparseRows or grad.__class__ is SparseRows:
        cotangents[node] = _add_sparse(old, grad)
    elif node in owned and old.__class__ is ndarray:
        np.add(old, grad, out=old, casting="same_kind")
    else:
        total = cotangents[node] = old + grad
        if total.__class__ is ndarray:
            owned.add(node)


def _add_sparse(a: Any, b: Any) -> Any:
    if a.__class__ is SparseRows and b.__class__ is SparseRows:
        return SparseRows(a.values + b.values, a.indices + b.indices, a.shape)
    return (a.dense() if a.__class__ is SparseRows else a) + (b.dense() if b.__class__ is SparseRows else b)


def _add_into(add: Any, cotangents: dict[Record, Any], owned: set[Record], node: Record, ct: Any, record: Record) -> None:
    """Adjoint of a read of a part: O(part), not O(whole), once the buffer exists."""
    buffer = cotangents.get(node)
    if buffer is None:
        buffer = np.zeros(node.shape, ct.dtype)
    elif buffer.__class__ is SparseRows:
        buffer = buffer.dense()
    elif node not in owned:
        buffer = np.array(buffer)
    cotangents[node] = buffer
    owned.add(node)
    add(buffer, ct, record)


def _add_part(cotangents: dict[Record, Any], part: Record, ct: Any) -> None:
    """The cotangent of one output of an op with several goes to its slot."""
    owner = part.nodes[0]
    if owner is None:
        return
    slots = cotangents.get(owner)
    if slots is None:
        slots = cotangents[owner] = [None] * len(owner.shape)
    index = part.attrs["index"]  # type: ignore[index]
    slots[index] = ct if slots[index] is None else slots[index] + ct


def _filled(slots: list[Any], record: Record, boxed: bool) -> tuple[Any, ...]:
    """Cotangents of all outputs, zeros where none arrived."""
    filled = []
    for ct, (shape, dtype) in zip(slots, record.shape, strict=True):
        if ct is None:
            ct = zeros(shape, as_dtype(dtype))
            ct = ct if boxed else ct._data
        filled.append(ct)
    return tuple(filled)


def all_finite(values: Iterable[Any], exactly: bool = False) -> bool:
    """Whether a sum over each array is finite: one cheap pass; an overflow only costs a second, careful walk. `exactly`
    looks at each element."""
    for value in values:
        if value.__class__ is SparseRows:
            if not all_finite(value.values, exactly):
                return False
            continue
        data = innermost(value)
        if data.__class__ is ndarray:
            if exactly:
                data = 0.0 if data.dtype.kind not in "fcV" or np.isfinite(data).all() else np.nan
            elif data.dtype.char in "fdFD" and data.flags.c_contiguous:
                flat = data.reshape(-1)
                data = np.dot(flat, flat)  # BLAS: less than half the time of a sum
            else:
                data = np.add.reduce(data, axis=None) if data.dtype.kind in "fcV" else 0.0  # V: bfloat16
        elif isinstance(data, list):  # of the program
            data = 0.0 if all_finite(data, exactly) else np.nan
        if not isfinite(data):
            return False
    return True


def innermost(value: Any) -> Any:
    """The bare array inside a tensor or a wrapper of tensors."""
    while isinstance(value, Tensor):
        value = value._data
    return value


def gradients(
    records: Sequence[Record],
    seeds: dict[Record, Any],
    wanted: set[Record],
    *,
    boxed: bool,
    complex_values: bool = False,
    cut: bool = False,
    sparse: bool = False,
    reached: set[Record] | None = None,
    prepare: Callable[[Record], None] | None = None,
    suspects: list[Any] | None = None,
) -> dict[Record, Any]:
    """The reverse walk, run again with masked lanes when the plain one gave something non-finite.

    In a program nobody can look: there the careful walk is the only one, one masked product per partial. `suspects` gets the
    answers that nobody has found to be finite.
    """
    staged = boxed and TRACING.get() is not None
    with np.errstate(all="ignore"):
        if not staged and (boxed or not complex_values):
            found = reverse_walk(
                records, dict(seeds), wanted, boxed=boxed, careful=False, cut=cut, sparse=sparse, reached=reached,
                prepare=prepare,
            )  # fmt: skip
            if all_finite(found.values()):
                return found
        found = reverse_walk(
            records, dict(seeds), wanted, boxed=boxed, careful=True, cut=cut, sparse=sparse, reached=reached,
            prepare=prepare,
        )  # fmt: skip
        if suspects is not None and not staged:
            suspects.extend(found.values())
        return found
