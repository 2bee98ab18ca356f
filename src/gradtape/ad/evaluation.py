"""Running a program operation by operation on eager tensors: recorded, batched or with tangents, as the tensors are.

Slower than an executable and used only where somebody must see each operation: backward passes of compiled functions on
batched cotangents (Jacobians) or with tangents. A list of the program is a tensor that holds a list, as in `ops/lists.py`.
Invariant: a symbol means what it means to a backend, the first size seen in the block that introduces it; a branch on a
batched predicate is refused, since it has no single course.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.ad.custom import record_custom
from gradtape.core.dispatch import PART, apply, convert
from gradtape.core.record import Line
from gradtape.ir.dims import Dim, Env, match, substitute
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.collective import CALLS
from gradtape.ops.lists import LIST_GET, LIST_NEW
from gradtape.ops.python_calls import PY_FUNCTION, called_on_tensors
from gradtape.ops.staged import VOID
from gradtape.ops.structured import CALL, CHECKPOINTED, COND, CUSTOM, LEAF, SCAN

Sizes = dict[str, Any]


def evaluate(block: Block, tensors: Sequence[Any]) -> list[Any]:
    """The results of a block on these tensors."""
    return Evaluation().run(block, tensors)


class TooLongError(Exception):
    """A program takes more steps than somebody wants to wait for."""


class Evaluation:
    """One run of a program, of so many steps at most. A subclass that wants to see the operations overrides `step`."""

    def __init__(self, steps: float = math.inf) -> None:
        self.left = steps

    def run(self, block: Block, tensors: Sequence[Any], outer: Sizes | None = None) -> list[Any]:
        """The results of a block where the sizes `outer` are known."""
        sizes = dict(outer or {})
        known: dict[Value, Any] = {}
        _bind(known, block.params, tensors, sizes)
        for operation in block.operations:
            self.left -= 1
            if self.left < 0:
                raise TooLongError
            outs = self.step(operation, [known[v] for v in operation.operands], sizes)
            _bind(known, operation.results, outs, sizes)
        return [known[v] for v in block.results]

    def step(self, operation: Operation, operands: list[Any], sizes: Sizes) -> Sequence[Any]:
        """The results of one operation."""
        if operation.op.kind == "region":
            return self._structured(operation, operands, sizes)
        attrs = operation.attrs
        # of a VOID's type only the rank matters: sizes in it may never be known
        if operation.op is not VOID:
            attrs = {key: _sized(value, sizes) for key, value in attrs.items()}
        if operation.op is PY_FUNCTION:
            return called_on_tensors(attrs["func"], operands, attrs["dtypes"])
        # their last operand, which stands for the other ranks, is made by the call itself from the recorders that are there now
        call = CALLS.get(operation.op)  # between ranks
        out = apply(operation.op, *operands, **attrs) if call is None else call(*operands[:-1], **attrs)
        return out if isinstance(out, tuple) else (out,)

    def _structured(self, operation: Operation, operands: list[Any], sizes: Sizes) -> list[Any]:
        if operation.op is CALL:
            return self._call(operation.attrs["callee"], operands, sizes)
        if operation.op is COND:
            return self.run(operation.regions["then" if bool(operands[0]) else "orelse"], operands[1:], sizes)
        if operation.op is CUSTOM:
            return self._custom(operation, operands, sizes)
        if operation.op is CHECKPOINTED:  # every iteration at once: who looks at each operation keeps its values anyway
            length, rest = _length(operation, operands, sizes)
            return self.run(operation.regions["backward"], [_index(0), _index(length), *rest], sizes)
        return self._scan(operation, operands, sizes) if operation.op is SCAN else self._while(operation, operands, sizes)

    def _call(self, callee: Block, operands: list[Any], sizes: Sizes) -> list[Any]:
        """A callee has its own sizes: what the caller calls by the same name is another call's."""
        own: set[str] = set()
        for value in (*callee.params, *(v for operation in callee.operations for v in operation.results)):
            if isinstance(value.type, TensorSpec):
                own.update(size.name for size in value.type.shape if isinstance(size, Dim) and size.name is not None)
        return self.run(callee, operands, {name: size for name, size in sizes.items() if name not in own})

    def _custom(self, operation: Operation, operands: list[Any], sizes: Sizes) -> list[Any]:
        first, second = operation.layout["inputs"], operation.layout["inputs"] + operation.layout["values"]
        inputs, values, consts = operands[:first], operands[first:second], operands[second:]
        places = operation.attrs["places"]
        # a version that is computed from watched values is no leaf: it has its own past, and counts through that
        if operation.attrs.get(LEAF) and values[0]._node is not None and values[0]._node.keys:
            return values

        def gradient(cts: tuple[Any, ...], needed: tuple[bool, ...]) -> list[Any]:
            cotangents = dict(zip(places, self.run(operation.regions["vjp"], [*cts, *consts], sizes), strict=True))
            return [cotangents.get(i) if want else None for i, want in enumerate(needed)]

        return list(record_custom(inputs, values, gradient))

    def _scan(self, operation: Operation, operands: list[Any], sizes: Sizes) -> list[Any]:
        length, rest = _length(operation, operands, sizes)
        carried, consts, lists = _parts(operation, rest)
        body, backwards = operation.regions["body"], operation.attrs["reverse"]
        rows: list[list[Any]] = []
        # the index counts down with a reversed scan, so that items and results keep their places
        for i in range(length - 1, -1, -1) if backwards else range(length):
            index = _index(i)
            outs = self.run(body, [index, *carried, *consts, *(apply(LIST_GET, values, index) for values in lists)], sizes)
            carried = outs[: len(carried)]
            rows.append(outs[len(carried) :])
        return [*carried, *_collected(operation, rows[::-1] if backwards else rows, sizes)]

    def _while(self, operation: Operation, operands: list[Any], sizes: Sizes) -> list[Any]:
        carried, consts, _ = _parts(operation, operands)
        rows: list[list[Any]] = []
        while bool(self.run(operation.regions["test"], [*carried, *consts], sizes)[0]):
            outs = self.run(operation.regions["body"], [_index(len(rows)), *carried, *consts], sizes)
            carried = outs[: len(carried)]
            rows.append(outs[len(carried) :])
        return [*carried, _index(len(rows)), *_collected(operation, rows, sizes)]


class LocatedEvaluation(Evaluation):
    """A run whose records carry the line of the operation in the user's function, not that of the call."""

    def __init__(self, name: str, steps: float = math.inf) -> None:
        super().__init__(steps)
        self.name = name

    def step(self, operation: Operation, operands: list[Any], sizes: Sizes) -> Sequence[Any]:
        """One operation, at its own line."""
        outs = super().step(operation, operands, sizes)
        if operation.loc is not None and (operation.op.kind != "region" or operation.op is CUSTOM):
            line = Line(operation.loc.file, operation.loc.line, self.name)
            for node in [out._node for out in outs if out._node is not None and out._node.keys]:
                # one of several results is a PART of the record that has the operation
                for record in (node, *(node.nodes if node.op is PART else ())):
                    record.code, record.lasti = line, 0
        return outs


def _bind(known: dict[Value, Any], names: Sequence[Value], tensors: Sequence[Any], sizes: Sizes) -> None:
    for name, tensor in zip(names, tensors, strict=True):
        known[name] = tensor
        if isinstance(name.type, TensorSpec):
            match(name.type, tensor, sizes)


def _sized(attr: Any, sizes: Env) -> Any:
    """An attribute with known sizes put in; those of list items may stay unknown."""
    closed = substitute(attr, sizes)
    return _closed(closed) if isinstance(closed, (TensorSpec, ListSpec)) else closed


def _closed(spec: Any) -> Any:
    if isinstance(spec, ListSpec):
        return ListSpec(_closed(spec.item))
    return TensorSpec([None if isinstance(size, Dim) else size for size in spec.shape], spec.dtype)


def _index(place: int) -> Any:
    return convert(np.int32(place))


def _length(operation: Operation, operands: list[Any], sizes: Sizes) -> tuple[int, list[Any]]:
    """The number of iterations, and the operands without it."""
    given = operation.layout["length"]
    return int(operands[0] if given else substitute(operation.attrs["length"], sizes)), operands[given:]


def _parts(operation: Operation, operands: list[Any]) -> tuple[list[Any], list[Any], list[Any]]:
    """Carried values, constants, lists of items."""
    carried = operation.layout["carried"]
    first = carried + operation.layout["consts"]
    return operands[:carried], operands[carried:first], operands[first:]


def _collected(operation: Operation, rows: list[list[Any]], sizes: Sizes) -> list[Any]:
    """What the iterations gave, as one list each."""
    types = [_sized(value.type.item, sizes) for value in operation.result_group("ys")]
    return [apply(LIST_NEW, *(row[k] for row in rows), item=type) for k, type in enumerate(types)]
