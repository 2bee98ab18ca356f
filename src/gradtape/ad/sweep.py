"""The state of one reverse sweep: which versions matter, their cotangents, and how a cotangent is added.

Accumulation happens here and nowhere else. Invariant: an array is added to in place only if the sweep allocated it (`owned`);
what a caller gave or a rule returned may be shared.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy import ndarray

from gradtape.core.record import Record


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

    def __add__(self, other: Any) -> Any:
        if other.__class__ is SparseRows:
            return SparseRows(self.values + other.values, self.indices + other.indices, self.shape)
        return self.dense() + other

    def __radd__(self, other: Any) -> Any:
        return other + self.dense()

    __array_ufunc__ = None  # an array leaves the addition to `__radd__`


# Of bare arrays. A list is one of a program, or has a slot for each output of an operation with several.
Cotangent: TypeAlias = np.ndarray | np.generic | SparseRows | list[Any]


class Sweep:
    """What a pull (see `ad/binding.py`) works on: `needed` are the versions between targets and sources, `wanted` the sources,
    `cotangents` what arrived so far; `sparse` allows the cotangent of a gathered leaf to stay `SparseRows`; `real` says that
    no value is complex, so that no partial need be conjugated."""

    __slots__ = ("cotangents", "needed", "owned", "real", "sparse", "wanted")

    def __init__(
        self, cotangents: dict[Record, Any], needed: set[Record], wanted: Container[Record], sparse: bool, real: bool
    ) -> None:
        self.cotangents = cotangents
        self.needed = needed
        self.wanted = wanted
        self.sparse = sparse
        self.real = real
        self.owned: set[Record] = set()

    def add(self, node: Record, grad: Any) -> None:
        """Add to the cotangent of a version."""
        old = self.cotangents.get(node)
        if old is None:
            self.cotangents[node] = grad
        # owned: made by an addition here, so that nobody else holds it. The first cotangent may be an array of a rule or of the
        # user
        elif old.__class__ is ndarray and node in self.owned and grad.__class__ is not SparseRows:
            np.add(old, grad, out=old, casting="same_kind")
        else:
            total = self.cotangents[node] = old + grad
            if total.__class__ is ndarray:
                self.owned.add(node)

    def add_all(self, nodes: Iterable[Record | None], grads: Iterable[Any]) -> None:
        """The answers of a joint rule: one per input, None where there is none."""
        for node, grad in zip(nodes, grads, strict=True):
            if grad is not None and node in self.needed:
                self.add(node, grad)

    def add_into(self, add: Callable[..., None], node: Record, record: Record, ct: Any) -> None:
        """Adjoint of a read of a part: O(part), not O(whole), once the buffer exists."""
        buffer = self.cotangents.get(node)
        if buffer is None:
            buffer = np.zeros(node.shape, ct.dtype)
        elif buffer.__class__ is SparseRows:
            buffer = buffer.dense()
        elif node not in self.owned:
            # a copy: it may be somebody else's
            buffer = np.array(buffer)
        self.cotangents[node] = buffer
        self.owned.add(node)
        add(buffer, ct, record)

    def change(self, rule: Callable[..., None], node: Record, record: Record, ct: Any) -> None:
        """The cotangent of the output becomes that of the input in place, in a copy if somebody else holds it."""
        # wanted: it is an answer itself, and must stay what it is
        if record in self.wanted or record not in self.owned:
            ct = ct.copy()
        rule(ct, record)
        fresh = node not in self.cotangents
        self.add(node, ct)
        # else `add` has made a sum of its own, or `ct` was added into what was there
        if fresh:
            self.owned.add(node)


def stop(sweep: Sweep, record: Record, ct: Any) -> None:
    """The pull of an operation through which no derivative flows."""


def pull_part(sweep: Sweep, part: Record, ct: Any) -> None:
    """The cotangent of one output of an op with several goes to its slot: the owner is pulled when all have arrived."""
    owner = part.nodes[0]
    if owner is None:
        return
    slots = sweep.cotangents.get(owner)
    if slots is None:
        slots = sweep.cotangents[owner] = [None] * len(owner.shape)
    index = part.attrs["index"]  # type: ignore[index]
    slots[index] = ct if slots[index] is None else slots[index] + ct
