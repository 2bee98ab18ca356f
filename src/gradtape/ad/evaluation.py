"""Running a program operation by operation on eager tensors: recorded, batched or with tangents, as the tensors are.

Slower than an executable and used only where somebody must see each operation: Jacobians of compiled functions (batched
cotangents) and forward mode. Lists of the program are Python lists of tensors here. A branch on a batched predicate is
refused: it has no single course.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.ir.dims import Dim, match, substitute
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec
from gradtape.ops import shape as arrays
from gradtape.ops.create import ones_like, zeros, zeros_like
from gradtape.ops.dispatch import apply, convert
from gradtape.ops.list_values import TensorList
from gradtape.ops.regions import CALL, CHECKPOINTED, COND, SCAN
from gradtape.ops.tensor import Tensor, box


def evaluate(block: Block, tensors: Sequence[Any]) -> list[Any]:
    """The results of a block on these tensors."""
    return _run(block, [_opened(t) for t in tensors], {})


def _opened(tensor: Any) -> Any:
    """A list value as a Python list of tensors."""
    if isinstance(tensor, Tensor) and isinstance(tensor._data, TensorList):
        return [_opened(box(item)) for item in tensor._data]
    return tensor


def _run(block: Block, values: Sequence[Any], sizes: dict[str, Any]) -> list[Any]:
    known: dict[Value, Any] = {}
    _bind(known, block.params, values, sizes)
    for operation in block.operations:
        operands = [known[v] for v in operation.operands]
        if operation.op.kind == "region":
            outs = _structured(operation, operands, sizes)
        elif (special := _LISTS.get(operation.op.name)) is not None:
            outs = special(operation, *operands)
            outs = outs if isinstance(outs, tuple) else (outs,)
        else:
            attrs = {k: substitute(v, sizes) if _symbolic(v) else v for k, v in operation.attrs.items()}
            if operation.op.name == "filled":
                out: Any = zeros(attrs["shape"], attrs["dtype"]) + attrs["value"] if attrs["value"] else zeros(
                    attrs["shape"], attrs["dtype"]
                )
            else:
                out = apply(operation.op, *operands, **attrs)
            outs = out if isinstance(out, tuple) else (out,)
        _bind(known, operation.results, outs, sizes)
    return [known[v] for v in block.results]


def _symbolic(value: Any) -> bool:
    return isinstance(value, (tuple, slice, Dim))


def _bind(known: dict[Value, Any], names: Sequence[Value], values: Sequence[Any], sizes: dict[str, Any]) -> None:
    for name, value in zip(names, values, strict=True):
        known[name] = value
        if not isinstance(name.type, ListSpec) and isinstance(value, Tensor):
            match(tuple(name.type.shape), tuple(value.shape), sizes)


def _structured(operation: Operation, operands: list[Any], sizes: dict[str, Any]) -> list[Any]:
    if operation.op is CALL:
        return _run(operation.attrs["callee"], operands, sizes)
    if operation.op is COND:
        return _run(operation.regions["then" if bool(operands[0]) else "orelse"], operands[1:], sizes)
    if operation.op.name == "custom":
        return operands[operation.layout["inputs"] :][: len(operation.results)]
    if operation.op is CHECKPOINTED:  # every iteration at once: who looks at each operation keeps its values anyway
        known = operation.layout["length"]
        length = int(operands[0]) if known else int(substitute(operation.attrs["length"], sizes))
        bounds = [convert(np.int32(length - 1 if operation.attrs["reverse"] else 0)), convert(np.int32(length))]
        return _run(operation.regions["reverse"], [*bounds, *operands[known:]], sizes)
    body = operation.regions["body"]
    skipped = operation.layout.get("length", 0)
    carried = operands[skipped : skipped + operation.layout["carried"]]
    consts = operands[skipped + len(carried) : skipped + len(carried) + operation.layout["consts"]]
    xs = operands[skipped + len(carried) + len(consts) :]
    collected: list[list[Any]] = [[] for _ in body.results[len(carried) :]]
    if operation.op is SCAN:
        length = int(operands[0]) if skipped else int(substitute(operation.attrs["length"], sizes))
        order: Any = range(length - 1, -1, -1) if operation.attrs["reverse"] else range(length)
        for i in order:
            outs = _run(body, [convert(np.int32(i)), *carried, *consts, *(x[i] for x in xs)], sizes)
            carried = outs[: len(carried)]
            for items, item in zip(collected, outs[len(carried) :], strict=True):
                items.append(item)
        if operation.attrs["reverse"]:
            collected = [items[::-1] for items in collected]
        return [*carried, *collected]
    count = 0
    while bool(_run(operation.regions["test"], [*carried, *consts], sizes)[0]):
        outs = _run(body, [convert(np.int32(count)), *carried, *consts], sizes)
        carried = outs[: len(carried)]
        for items, item in zip(collected, outs[len(carried) :], strict=True):
            items.append(item)
        count += 1
    return [*carried, convert(np.int32(count)), *collected]


# -- lists of the program are Python lists here ------------------------------------------------------------------------


def _like(value: Any, make: Callable[[Any], Any]) -> Any:
    return [_like(v, make) for v in value] if isinstance(value, list) else make(value)


def _added(a: Any, b: Any) -> Any:
    return [_added(x, y) for x, y in zip(a, b, strict=True)] if isinstance(a, list) else a + b


def _replaced(values: list[Any], index: Any, value: Any) -> list[Any]:
    place = int(index)
    out = list(values)
    out[place] = value
    return out


def _stacked(operation: Operation, values: list[Any]) -> Any:
    if values:
        return arrays.stack(values)
    spec = operation.result.type
    return zeros((0, *(d if isinstance(d, int) else 0 for d in spec.shape[1:])), spec.dtype)


_LISTS: dict[str, Callable[..., Any]] = {
    "list_new": lambda operation, *items: list(items),
    "list_from_tensor": lambda operation, x: list(arrays.unstack(x)),
    "list_stack": _stacked,
    "list_concat": lambda operation, values: arrays.concat(values, 0),
    "list_push": lambda operation, values, v: [*values, v],
    "list_pop": lambda operation, values: (values[:-1], values[-1]),
    "list_get": lambda operation, values, i: values[int(i)],
    "list_set": lambda operation, values, i, v: _replaced(values, i, v),
    "list_len": lambda operation, values: convert(np.int32(len(values))),
    "list_zeros_like": lambda operation, values: _like(values, zeros_like),
    "list_ones_like": lambda operation, values: _like(values, ones_like),
    "list_add": lambda operation, a, b: _added(a, b),
    "list_add_at": lambda operation, values, i, v: _replaced(values, i, _added(values[int(i)], v)),
    "void": lambda operation: box(operation.op.impl(**operation.attrs)),
    "constant": lambda operation: box(operation.attrs["value"]),
}  # fmt: skip
