"""A recorded run, done once more in float64 from other leaf values.

Only what the tape differentiates is repeated: outputs of operations without a derivative, stopped gradients and everything
that does not depend on the moved leaves stay what they were, which is what a derivative means. Compiled calls are repeated
operation by operation, custom gradients by calling their function. Invariant: nothing is assigned, printed or drawn again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.ad.backward import binding
from gradtape.ad.custom import CUSTOM
from gradtape.ad.evaluation import LocatedEvaluation, Sizes
from gradtape.ad.straight import needed_records
from gradtape.core.dispatch import PART, apply
from gradtape.core.record import Line, Record
from gradtape.core.tensor import Tensor, box
from gradtape.dtypes import DType, as_dtype
from gradtape.errors import FailedPreconditionError
from gradtape.functions.compiled import FUNCTION
from gradtape.ir.graph import Operation
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import has_effect
from gradtape.ops.list_values import TensorList
from gradtape.ops.stop import ASSIGN
from gradtape.tools.nan_forward import RecordedRun, ancestors, made_by, owner_of
from gradtape.tools.nan_words import place_of
from gradtape.tools.operands import Kept, program_of, version

_WIDE = {"float16": "float64", "bfloat16": "float64", "float32": "float64", "complex64": "complex128"}


def wide(value: object) -> Any:
    """A value in double precision; integers and Python numbers as they are."""
    if isinstance(value, TensorList):
        return TensorList([wide(item) for item in value], _wide_spec(value.item))
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    name = _WIDE.get(as_dtype(value.dtype).name) if value.dtype.kind in "fcV" else None
    return value if name is None else value.astype(name)


def _wide_spec(spec: object) -> Any:
    return TensorSpec(spec.shape, _WIDE.get(spec.dtype.name, spec.dtype)) if isinstance(spec, TensorSpec) else spec


def wide_attrs(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with double precision where they name a dtype."""
    return {
        key: as_dtype(_WIDE.get(value.name, value.name)) if isinstance(value, DType) else _wide_spec(value)
        for key, value in attrs.items()
    }


class WideEvaluation(LocatedEvaluation):
    """A program in double precision, whatever dtypes it names."""

    def step(self, operation: Operation, operands: list[Any], sizes: Sizes) -> Sequence[Any]:
        """One operation."""
        if operation.op.kind != "region":
            twin = Operation(operation.op, operation.operands, [], wide_attrs(operation.attrs), loc=operation.loc)
            outs = super().step(twin, operands, sizes)
            return [box(wide(t._data)) if version(t) is None else t for t in outs]
        return super().step(operation, operands, sizes)


class Replay:
    """The part of a run between leaves and targets, to be repeated with other values of the leaves."""

    def __init__(
        self, records: Sequence[Record], kept: Mapping[Record, Kept], leaves: Iterable[Record], targets: Iterable[Record],
        cut: bool,
    ) -> None:  # fmt: skip
        # Only what depends on the leaves and leads to the targets changes when the leaves do.
        _, moved = needed_records(records, leaves, binding(cut=cut))
        ends = set(targets)
        wanted = ancestors(RecordedRun(records, kept), ends)
        self.kept = kept
        self.steps = [r for r in records if r in moved and r in wanted and r.op is not None]
        self.reached = ends & moved
        self.cut = cut
        for record in self.steps:
            self._check(record)

    def _check(self, record: Record) -> None:
        """Say what cannot be repeated, before anything is."""
        if record.op is PART or (self.cut and record.op is ASSIGN):
            return
        kept = self.kept.get(record)
        why = ""
        if kept is None:
            why = "its operands were not kept"
        elif record.op is FUNCTION:
            program = program_of(kept.attrs)
            if program is None or any(has_effect(operation) for operation in program.block.operations):
                why = "it prints, draws random numbers or calls Python, so it cannot run again"
        elif record.op is CUSTOM and kept.attrs["rule"].again is None and None in made_by(record, kept.attrs):
            why = "its function is not known"
        if why:
            raise FailedPreconditionError(f"check: {record.op.name} at {place_of(record)} cannot be repeated: {why}")

    def run(self, leaves: Mapping[Record, Any]) -> dict[Record, Any]:
        """The tensors of all versions on the way, from tensors of the leaves, in the current scope."""
        values: dict[Record, Any] = dict(leaves)
        for record in self.steps:
            if record in leaves:
                continue
            out = self._step(record, values)
            if out is not None:
                values[record] = out
        return values

    def _step(self, record: Record, values: dict[Record, Any]) -> Any:
        if record.op is PART:
            owner, index = owner_of(record)
            whole = None if owner is None else values.get(owner)
            return whole[index] if isinstance(whole, tuple) and index < len(whole) else None
        if self.cut and record.op is ASSIGN:
            return None
        inputs, _, attrs = self.kept[record]
        # What does not depend on the leaves is as it was in the run, in double precision.
        tensors = [
            values[node] if node is not None and node in values else _constant(x)
            for x, node in zip(inputs, record.nodes, strict=True)
        ]
        if record.op is CUSTOM and attrs["rule"].again is None:  # of a program: what its function computed was recorded too
            outputs = zip(made_by(record, attrs), self.kept[record].out, strict=True)
            return tuple(values[n] if n in values else _constant(x) for n, x in outputs)
        if record.op is CUSTOM:
            given = [t if node in values else None for t, node in zip(tensors, record.nodes, strict=True)]
            out: Any = tuple(attrs["rule"].again.call(given))
        elif record.op is FUNCTION:
            program: Any = program_of(attrs)
            return tuple(WideEvaluation(program.name).run(program.block, tensors))  # each record has its own line
        else:
            out = apply(record.op, *tensors, **wide_attrs(attrs))
        _locate(out, record)
        return out


def _constant(value: object) -> Any:
    value = wide(value)
    return box(value) if isinstance(value, (np.ndarray, np.generic, TensorList)) else value


def _locate(out: object, record: Record) -> None:
    """What is recorded now happened at the user's line then."""
    # Records of the replay would name lines of this file.
    place = record.location
    for tensor in out if isinstance(out, tuple) else (out,):
        node = version(tensor) if isinstance(tensor, Tensor) else None
        if node is not None and place is not None:
            for one in (node, *(node.nodes if node.op is PART else ())):
                if one is not None:
                    one.code, one.lasti = Line(*place, "replay"), 0
