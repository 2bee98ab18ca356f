"""One form for things that mean the same, so that the other passes need to know only that one.

Operations: constants last in commutative operations, no identities, one reshape / transpose / cast / broadcast instead of two,
operands not broadcast where the operation broadcasts anyway. Regions: every outside value comes in once, constants not at
all (they are repeated inside), a carried value that never changes is a constant of the loop, an output that is an input
in both branches is that input. Invariant: every result keeps its bits and its type, and no operation that can fail or has
an effect is added or removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.core.inference import broadcast_shapes
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec
from gradtape.ir.walk import Groups, Rebuild, groups_of, insert_param, rebuild
from gradtape.ops.compare import (
    BITWISE_AND,
    BITWISE_OR,
    BITWISE_XOR,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    LOGICAL_AND,
    LOGICAL_NOT,
    LOGICAL_OR,
    LOGICAL_XOR,
    NOT_EQUAL,
)
from gradtape.ops.elementwise import ADD, CAST, CONJ, DIVIDE, MULTIPLY, NEGATIVE, SUBTRACT
from gradtape.ops.select import MAXIMUM, MINIMUM, WHERE
from gradtape.ops.shape import BROADCAST_TO, CONCAT, RESHAPE, REVERSE, TRANSPOSE
from gradtape.ops.staged import CONSTANT, VOID
from gradtape.ops.stop import IDENTITY
from gradtape.ops.structured import COND, SCAN, WHILE
from gradtape.passes.facts import attrs_key, same_type, static_shape

# bit for bit, whatever the operands (a product of complex numbers is not: its two halves may round differently)
COMMUTATIVE = frozenset(
    (ADD, MULTIPLY, EQUAL, NOT_EQUAL, LOGICAL_AND, LOGICAL_OR, LOGICAL_XOR, BITWISE_AND, BITWISE_OR, BITWISE_XOR)
)
# correctly rounded or exact, so that NumPy's loop over a repeated operand gives the same bits as one over an array
BROADCASTING = frozenset((*COMMUTATIVE, SUBTRACT, DIVIDE, MAXIMUM, MINIMUM, WHERE, LESS, LESS_EQUAL, GREATER, GREATER_EQUAL))
INVOLUTIONS = frozenset((NEGATIVE, CONJ, LOGICAL_NOT, REVERSE))
_MANTISSA = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "complex64": 24, "complex128": 53}
_EXPONENT = {"float16": 5, "bfloat16": 8, "float32": 8, "float64": 11, "complex64": 8, "complex128": 11}


def canonicalize(block: Block) -> Block:
    """The program in its canonical form."""
    return rebuild(block, _visit)


def _visit(scope: Rebuild, operation: Operation) -> None:
    if operation.op is COND:
        _cond(scope, operation)
    elif operation.op is SCAN or operation.op is WHILE:
        _loop(scope, operation)
    # constants and keys have nothing to bring into a form; other regions are nobody's business here
    elif operation.regions or not operation.operands:
        scope.copy(operation)
    else:
        _ordinary(scope, operation)


def commutes(operation: Operation) -> bool:
    """True when the two operands may change places."""
    if operation.op not in COMMUTATIVE:
        return False
    return operation.op is not MULTIPLY or operation.results[0].type.dtype.kind != "c"


# -- ordinary operations


def _ordinary(scope: Rebuild, operation: Operation) -> None:
    op = operation.op
    operands = scope.operands(operation)
    x = operands[0]
    result = operation.results[0].type if operation.results else None
    if op is IDENTITY:
        scope.replace(operation, operands)
        return
    inner = x.producer
    if op in (RESHAPE, BROADCAST_TO, TRANSPOSE, CAST):
        if inner is not None and (merged := _merged(operation, inner)) is not None:
            x, attrs = inner.operands[0], merged
        else:
            attrs = operation.attrs
        # a square matrix has the same type after it is transposed
        unmoved = op is not TRANSPOSE or list(attrs["perm"]) == sorted(attrs["perm"])
        if unmoved and same_type(x.type, result):
            scope.replace(operation, [x])
        else:
            scope.copy(operation, operands=[x], attrs=attrs)
        return
    if inner is not None and op in INVOLUTIONS and _undone(inner, operation):
        scope.replace(operation, inner.operands)
        return
    if op is CONCAT and len(operands) == 1 and same_type(x.type, result):
        scope.replace(operation, operands)
        return
    if op in BROADCASTING:
        # the array that was repeated need not be made: the operation repeats by itself
        operands = _unbroadcast(operands, result)
    # constants second: so `cse` sees 2 * x and x * 2 as one, and rules look at one side only
    if len(operands) == 2 and _is_constant(operands[0]) and not _is_constant(operands[1]) and commutes(operation):
        operands = operands[::-1]
    scope.copy(operation, operands=operands)


def _undone(inner: Operation, outer: Operation) -> bool:
    """Twice the same; the types say whether it was one to begin with (`logical_not` also takes numbers)."""
    same = inner.op is outer.op and attrs_key(inner.attrs) == attrs_key(outer.attrs)
    return same and same_type(inner.operands[0].type, outer.results[0].type)


def _is_constant(value: Value) -> bool:
    producer = value.producer
    return producer is not None and (producer.op is CONSTANT or producer.op is VOID)


def _merged(outer: Operation, inner: Operation) -> dict[str, Any] | None:
    """The attributes with which `outer` gives the same when applied to the operand of `inner`; None if there are none."""
    if inner.op is not outer.op:
        return None
    if outer.op is RESHAPE:
        return outer.attrs
    if outer.op is BROADCAST_TO:
        return outer.attrs
    if outer.op is TRANSPOSE:
        return {"perm": tuple(inner.attrs["perm"][p] for p in outer.attrs["perm"])}
    first, second, third = (v.type.dtype for v in (inner.operands[0], inner.results[0], outer.results[0]))
    # the number was rounded on the way: leaving that out would give another one
    if not _exact(first, second):
        return None
    if third is first:
        return outer.attrs  # there and back
    # a number out of an integer's range becomes something else from a float than from an integer
    return None if third.kind in "iu" and second.kind in "fc" else outer.attrs


def _exact(a: Any, b: Any) -> bool:
    """True when every number of the first dtype is one of the second."""
    if a.kind == "O" or b.kind == "O":
        return False
    if a is b or a.kind == "b":
        return True
    if a.kind in "iu":
        if b.kind in "iu":
            return bool(np.can_cast(a.dtype, b.dtype, "safe"))
        return b.kind in "fc" and 8 * a.size <= _MANTISSA[b.name]
    if b.kind not in "fc" or (a.kind == "c" and b.kind == "f"):
        return False
    return _MANTISSA[a.name] <= _MANTISSA[b.name] and _EXPONENT[a.name] <= _EXPONENT[b.name]


def _unbroadcast(operands: list[Value], result: Any) -> list[Value]:
    """The operands before a `broadcast_to`, where the others have the full shape already."""
    for i, value in enumerate(operands):
        producer = value.producer
        if producer is None or producer.op is not BROADCAST_TO or isinstance(value.type, ListSpec):
            continue
        others = [tuple(v.type.shape) for j, v in enumerate(operands) if j != i]
        # somebody must still say how large the result is
        if tuple(result.shape) in others or _spans((*others, producer.operands[0].type.shape), result.shape):
            operands = [*operands[:i], producer.operands[0], *operands[i + 1 :]]
    return operands


def _spans(shapes: Sequence[Any], wanted: Any) -> bool:
    return all(map(static_shape, shapes)) and broadcast_shapes(*shapes) == tuple(wanted)


# -- what comes into regions and goes out


class _Region:
    """A region in the making, with some of its old parameters standing for others or for constants."""

    def __init__(self, old: Block, scope: Rebuild, keep: set[Value]) -> None:
        self.old = old
        self.scope = scope.inner(old, keep=keep)

    def constant(self, param: Value, value: Value) -> None:
        """A constant from outside, repeated inside."""
        producer = value.producer
        if producer is not None:
            # an error in it is still the line where the user wrote the number
            self.scope.loc = producer.loc
            self.scope[param] = self.scope.emit(producer.op, [], [value.type], producer.attrs).result

    def finish(self, drop: dict[str, set[int]]) -> Block:
        scope = self.scope
        scope.run(self.old.operations)
        groups = groups_of(self.old.results, self.old.result_layout)
        return scope.finish(
            {name: [scope[v] for i, v in enumerate(vs) if i not in drop.get(name, ())] for name, vs in groups.items()}
        )


def _first_places(values: Sequence[Value]) -> list[int]:
    """For each value the first place where it stands."""
    seen: dict[Value, int] = {}
    return [seen.setdefault(value, i) for i, value in enumerate(values)]


def _enter(region: _Region, params: list[Value], values: list[Value], first: list[int]) -> None:
    for i, (param, value) in enumerate(zip(params, values, strict=True)):
        if _is_constant(value):
            region.constant(param, value)
        elif first[i] != i:
            region.scope[param] = region.scope[params[first[i]]]


def _cond(scope: Rebuild, operation: Operation) -> None:
    groups = scope.groups(operation)
    inputs = groups["inputs"]
    first = _first_places(inputs)
    stay = [first[i] == i and not _is_constant(value) for i, value in enumerate(inputs)]
    then, orelse = operation.regions["then"], operation.regions["orelse"]
    # outputs that need no branch: the same input in both, or the same pair of values as an earlier output
    drop: set[int] = set()
    twins: dict[tuple[Value, Value], int] = {}
    for i, (a, b) in enumerate(zip(then.results, orelse.results, strict=True)):
        if (
            a.owner is then
            and b.owner is orelse
            and inputs[a.index] is inputs[b.index]
            and _fits(inputs[a.index], operation, i)
        ):
            scope[operation.results[i]] = inputs[a.index]
            drop.add(i)
        elif twins.setdefault((a, b), i) != i:
            drop.add(i)
    regions = {}
    for name, old in operation.regions.items():
        region = _Region(old, scope, {p for p, s in zip(old.params, stay, strict=True) if s})
        _enter(region, old.params, inputs, first)
        regions[name] = region.finish({"outputs": drop})
    kept = {v for i, v in enumerate(operation.results) if i not in drop}
    groups["inputs"] = [v for v, s in zip(inputs, stay, strict=True) if s]
    scope.copy(operation, operands=groups, regions=regions, keep=kept)
    for i in drop:
        # after the copy: only now has the output that stays a value
        j = twins.get((then.results[i], orelse.results[i]), i)
        if j != i:
            scope[operation.results[i]] = scope[operation.results[j]]


def _fits(value: Value, operation: Operation, place: int) -> bool:
    return same_type(value.type, operation.results[place].type)


def _unchanged(body: Block, carried: list[Value], consts: list[Value]) -> dict[int, Value]:
    """The carried values that stay what they were: place → the value from outside."""
    params = groups_of(body.params, body.layout)
    outside = dict(zip(params["consts"], consts, strict=True))
    return {
        i: init
        for i, (given, param, init) in enumerate(zip(body.result_group("carried"), params["carried"], carried, strict=True))
        # given back as it came, or set to the very value it began with
        if (given is param or outside.get(given) is init) and same_type(param.type, init.type)
    }


def _loop(scope: Rebuild, operation: Operation) -> None:
    groups = scope.groups(operation)
    body = operation.regions["body"]
    carried, consts, xs = groups["carried"], groups["consts"], groups.get("xs", [])
    fixed = _unchanged(body, carried, consts)
    # consts first, then the carried values that turned out to be constant
    # (so the places of the constants stay what they are in `stay` and `first`)
    values = [*consts, *fixed.values()]
    first = _first_places(values)
    stay = [first[i] == i and not _is_constant(value) for i, value in enumerate(values)]
    first_xs = _first_places(xs)
    given = body.result_group("ys")
    first_ys = _first_places(given)
    drop = {"carried": set(fixed), "ys": {i for i, j in enumerate(first_ys) if i != j}}
    regions = {}
    for name, old in operation.regions.items():
        params = groups_of(old.params, old.layout)
        keep = {p for group, ps in params.items() if group not in ("carried", "consts", "xs") for p in ps}
        keep |= {p for i, p in enumerate(params["carried"]) if i not in fixed}
        keep |= {p for i, p in enumerate(params["consts"]) if stay[i]}
        keep |= {p for i, p in enumerate(params.get("xs", ())) if first_xs[i] == i}
        region = _Region(old, scope, keep)
        inner = [*params["consts"], *(params["carried"][i] for i in fixed)]
        for i in range(len(consts), len(values)):
            if stay[i]:
                # a carried value that never changes costs a copy, or a phi, per iteration; a constant costs nothing
                region.scope[inner[i]] = insert_param(region.scope.new, "consts", inner[i].type, inner[i].name)
        _enter(region, inner, values, first)
        for i, p in enumerate(params.get("xs", ())):
            region.scope[p] = region.scope[params["xs"][first_xs[i]]]
        regions[name] = region.finish(drop if name == "body" else {})
    operands: Groups = {**groups, "carried": [v for i, v in enumerate(carried) if i not in fixed]}
    operands["consts"] = [v for v, s in zip(values, stay, strict=True) if s]
    if "xs" in groups:
        operands["xs"] = [v for i, v in enumerate(xs) if first_xs[i] == i]
    results = groups_of(operation.results, operation.result_layout)
    kept = {v for name, vs in results.items() for i, v in enumerate(vs) if i not in drop.get(name, ())}
    scope.copy(operation, operands=operands, regions=regions, keep=kept)
    for i, value in fixed.items():
        scope[results["carried"][i]] = value
    for i, j in enumerate(first_ys):
        scope[results["ys"][i]] = scope[results["ys"][j]]
