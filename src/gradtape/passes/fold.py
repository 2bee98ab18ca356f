"""Constant folding: what is known at compile time is computed at compile time.

Pure operations on constants run once, through the op's own `impl`, so their results have the bits they would have at run
time; an operation that raises is left for run time to raise. Branches with a known predicate are replaced by the branch,
loops known to run never or once by nothing or by their body. Captured tensors are parameters of the program, never constants.
Results above 64 KB are not made, since the program would carry them around. Invariant: bits, dtypes and effects stay.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core.float_events import unwarned
from gradtape.dtypes import as_dtype
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec
from gradtape.ir.walk import Rebuild, groups_of, rebuild
from gradtape.ops.create import ONES_LIKE, ZEROS_LIKE
from gradtape.ops.lists import LIST_GET, LIST_NEW
from gradtape.ops.staged import CONSTANT
from gradtape.ops.stop import ASSIGN, GRADIENT
from gradtape.ops.structured import COND, SCAN, WHILE
from gradtape.passes.facts import SMALL, constant_value, emit_constant, same_type, static_bytes

_NAMED = (ASSIGN, GRADIENT)  # identities that say something to whoever differentiates the program


def fold(block: Block) -> Block:
    """The program with its constant parts computed."""
    with np.errstate(all="ignore"), unwarned():
        return rebuild(block, _visit)


def _visit(scope: Rebuild, operation: Operation) -> None:
    op = operation.op
    if op is COND:
        _cond(scope, operation)
    elif op is SCAN:
        _scan(scope, operation)
    elif op is WHILE:
        _while(scope, operation)
    # an op without operands (a constant, a random key, a filled array) is a constant already, or must not be one
    elif op.kind == "region" or op in _NAMED or not operation.operands:
        scope.copy(operation)
    else:
        values = _known_results(operation, [constant_value(v) for v in scope.operands(operation)])
        if values is None:
            scope.copy(operation)
        else:
            scope.replace(operation, [emit_constant(scope, value) for value in values])


def _known_results(operation: Operation, operands: list[Any]) -> list[Any] | None:
    """The results of a pure operation for these operands (None: not known), as arrays; None where they are not known."""
    op = operation.op
    if op is ZEROS_LIKE or op is ONES_LIKE:
        return _like(operation)
    if any(value is None for value in operands) or op.effect or operation.regions:
        return None
    types = [value.type for value in operation.results]
    sizes = [static_bytes(type) for type in types]
    # a large constant takes more room in the program, and on disk, than the time it saves
    if any(size is None or size > SMALL for size in sizes) or any(type.dtype.kind == "O" for type in types):
        return None
    if operation.attrs and symbols_in(operation.attrs):
        return None
    try:
        out = op.impl(*operands, **operation.attrs)
    except Exception:  # whatever it is, the program raises it when (and if) it gets there
        return None
    values = list(out) if op.outputs != 1 else [out]
    # an impl may give a view, or a Python number, or another dtype than the type rule promised; the program counts on the type
    return values if len(values) == len(types) and all(map(_is_of, values, types)) else None


def _is_of(value: Any, type: Any) -> bool:
    if not isinstance(value, (np.ndarray, np.generic)):
        return False
    return as_dtype(value.dtype) is type.dtype and value.shape == tuple(type.shape)


def _like(operation: Operation) -> list[Any] | None:
    """Zeros or ones: known from the type alone."""
    type = operation.results[0].type
    size = static_bytes(type)
    if size is None or size > SMALL or type.dtype.kind == "O":
        return None
    make = np.zeros if operation.op is ZEROS_LIKE else np.ones
    # [()]: a NumPy scalar for 0-d, as everywhere in a program
    return [make(tuple(type.shape), type.dtype.dtype)[()]]


# -- branches and loops


def _cond(scope: Rebuild, operation: Operation) -> None:
    groups = scope.groups(operation)
    pred = constant_value(groups["pred"][0])
    # the operation's type may have a symbol where the side has a number: its users were typed with the symbol
    if pred is None or not _exactly_typed(operation.regions["then" if pred else "orelse"].results, operation.results):
        scope.copy(operation)
    else:
        scope.replace(operation, scope.inline(operation.regions["then" if pred else "orelse"], groups["inputs"]))


def _exactly_typed(values: list[Value], wanted: list[Value]) -> bool:
    """Whether values may stand for others: a branch's result may have a more special type than the operation's."""
    return all(same_type(a.type, b.type) for a, b in zip(values, wanted, strict=True))


def _scan(scope: Rebuild, operation: Operation) -> None:
    groups = scope.groups(operation)
    attrs = operation.attrs
    length = attrs.get("length")
    if groups.get("length"):
        known = constant_value(groups["length"][0])
        if known is not None:
            length = int(known)
            attrs = {**attrs, "length": length}
            groups["length"] = []
    results = operation.result_group("carried")
    if length == 1 and _exactly_typed(operation.regions["body"].result_group("carried"), results):
        _once(scope, operation, groups)
    elif length.__class__ is int and length < 1 and _exactly_typed(operation.group("carried"), results):
        _never(scope, operation, groups["carried"])
    else:
        scope.copy(operation, operands=groups, attrs=attrs)


def _never(scope: Rebuild, operation: Operation, carried: list[Value]) -> None:
    """The results of a loop that does not run."""
    for value, init in zip(operation.result_group("carried"), carried, strict=True):
        scope[value] = init
    for value in operation.result_group("ys"):
        scope[value] = _list(scope, value, [])
    if operation.op is WHILE:
        scope[operation.result_group("count")[0]] = emit_constant(scope, np.int32(0))


def _once(scope: Rebuild, operation: Operation, groups: dict[str, list[Value]]) -> None:
    """The body of a scan of length one, in its place."""
    body = operation.regions["body"]
    index = emit_constant(scope, np.int32(0))
    items = [
        scope.emit(LIST_GET, [values, index], [param.type]).result
        for values, param in zip(groups.get("xs", ()), groups_of(body.params, body.layout).get("xs", ()), strict=True)
    ]
    given = {"index": [index], "carried": groups["carried"], "consts": groups["consts"], "xs": items}
    results = scope.inline(body, [v for name in body.layout for v in given[name]])
    ends = groups_of(results, body.result_layout)
    for value, new in zip(operation.result_group("carried"), ends["carried"], strict=True):
        scope[value] = new
    for value, item in zip(operation.result_group("ys"), ends["ys"], strict=True):
        scope[value] = _list(scope, value, [item])


def _list(scope: Rebuild, like: Value, items: list[Value]) -> Value:
    assert isinstance(like.type, ListSpec)
    return scope.emit(LIST_NEW, items, [like.type], {"item": like.type.item}).result


def _while(scope: Rebuild, operation: Operation) -> None:
    """A while whose first test is known to fail does not run. The test must be pure: it is not there afterwards."""
    test = operation.regions["test"]
    groups = scope.groups(operation)
    known = dict(zip(test.params, map(constant_value, [*groups["carried"], *groups["consts"]]), strict=True))
    for inner in test.operations:
        if inner.op.effect or inner.regions or "callee" in inner.attrs:
            break
        operands = [known.get(v) for v in inner.operands]
        # `_known_results` would compute constants too, but not large ones: here nothing is kept
        values = [inner.op.impl(**inner.attrs)] if inner.op is CONSTANT else _known_results(inner, operands)
        if values is not None:
            known.update(zip(inner.results, values, strict=True))
    else:
        flag = known.get(test.results[0])
        same = _exactly_typed(operation.group("carried"), operation.result_group("carried"))
        if flag is not None and not flag and same:
            _never(scope, operation, groups["carried"])
            return
    scope.copy(operation)
