"""Types of traced operations, and sizes that only run time knows: asked of the ops' own rules, remembered, called by names.

A rule that refuses two sizes it cannot compare counts on them being equal. Equations between sizes of the program's inputs are
checked before it runs (`Typing.constraints`); for others the operand is checked when it gets there (the op `sized`).
Nothing here adds operations: `trace/tracing.py` does.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.core.dispatch import explained
from gradtape.core.opdef import Op
from gradtape.dtypes import bool_
from gradtape.ir.dims import Constraint, Dim, fresh_symbol, infer_by_probing, match, substitute, symbol, symbols_in
from gradtape.ir.graph import Block, Value
from gradtape.ir.sizes import defined_sizes, free_sizes, sizes_of
from gradtape.ir.slots import Slot
from gradtape.ir.types import UNKNOWN, UNKNOWN_TO_RULES, TensorShape, TensorSpec
from gradtape.ir.walk import clone, has_effect
from gradtape.ops.dynamic import GETITEM_AT, MASK_INDICES, is_open, ranks_of, result_axes


class Typing:
    """The answers of type rules in one trace."""

    def __init__(self) -> None:
        self.asked: frozenset[str] = frozenset()  # symbols whose sizes are compared before the program runs
        self.constraints: dict[Constraint, None] = {}  # equations between those that the program counts on
        self.quick: dict[Any, tuple[Any, ...]] = {}  # for `trace/fast_path.py`: answers by the ids of the operands' types
        self._known: dict[Any, tuple[Any, list[Any]]] = {}  # the same for all operations
        self._types: dict[Any, Any] = {}
        self._equations: list[Constraint] = []  # between others, of the rule asked last
        self._lengths: dict[Any, Any] = {}  # of slices between bounds that run time knows

    def of(self, op: Op, types: list[Any], attrs: Mapping[str, Any]) -> Any:
        """The type of an operation's result, or the tuple of their types."""
        # Types are compared by identity, which is quicker than by shape and dtype; `_shared` makes equal ones the same object.
        question: tuple[Any, ...] = (op, *[id(type) for type in types])
        if attrs:
            question = (*question, *[(key, _frozen(attr)) for key, attr in attrs.items()])
        try:
            known = self._known.get(question)
        except TypeError:  # an attribute that has no hash
            return self._asked(op, types, attrs)
        if known is not None:
            return known[0]
        inferred = self._asked(op, types, attrs)
        if types and not symbols_in((*types, inferred)):  # a size that only run time knows is a new one each time
            shared = tuple([self._shared(t) for t in inferred]) if inferred.__class__ is tuple else self._shared(inferred)
            self._known[question] = shared, types  # the types are kept, so that their ids stay theirs
            return shared
        return inferred

    def _shared(self, type: Hashable) -> Any:
        """One object per type, so that what follows from it is found again."""
        return self._types.setdefault(type, type)

    def _asked(self, op: Op, types: list[Any], attrs: Mapping[str, Any]) -> Any:
        try:
            if any([isinstance(t, TensorSpec) and t.shape is UNKNOWN for t in types]):  # noqa: C419  (quicker than a generator)
                constraints: tuple[Constraint, ...] = ()
                inferred = _infer_without_rank(op, types, attrs)
            else:
                inferred, constraints = infer_by_probing(op, types, attrs)
        except (IndexError, ValueError) as error:  # NumPy's own, which an eager call explains too
            raise explained(op, types, attrs, error) from None
        for constraint in constraints:
            # Sizes of inputs are compared once, before the program runs; others only the program itself can check.
            if symbols_in(tuple(constraint)) <= self.asked:
                self.constraints[constraint] = None
            else:
                self._equations.append(constraint)
        if op is MASK_INDICES:  # one array per axis, all as long as there are places
            return (_named(inferred[0]),) * len(inferred)
        return tuple([_named(t) for t in inferred]) if inferred.__class__ is tuple else _named(inferred)

    def sliced(self, op: Op, operands: Sequence[Value], attrs: Mapping[str, Any], spec: TensorSpec, block: Block) -> Any:
        """The type of an operation's result, sizes called as before: slices of axes of one size between the same bounds have
        one length."""
        if op is not GETITEM_AT or attrs["size"] is not None or not any(is_open(part) for part in attrs["key"]):
            return spec
        x, *indices = operands
        # Two slices between the same bounds must have one length: added to each other they would be refused otherwise.
        shape = list(spec.shape)
        for k, source in enumerate(result_axes(attrs["key"], len(x.type.shape), ranks_of([v.type for v in indices]))):
            if isinstance(source, tuple) and is_open(source[1]):
                part = source[1]
                ends = [_meaning(indices[b.index]) if isinstance(b, Slot) else b for b in (part.start, part.stop)]
                shape[k] = self._lengths.setdefault((block, x.type.shape[source[0]], part.step, *ends), shape[k])
        return TensorSpec(shape, spec.dtype)

    def equal_shapes(self, types: list[Any]) -> dict[int, tuple[Any, ...]]:
        """The operands (by position) that must have another shape than their types say, if the rule asked last counts on it."""
        if not self._equations:
            return {}
        equations, self._equations = self._equations, []
        shapes: dict[int, tuple[Any, ...]] = {}
        for constraint in equations:
            # One symbol is replaced by what it must be: the operand then has the other's sizes, and a check at run time says if
            # that is wrong.
            name, size = _solved(constraint, symbols_in(types[0]))
            for i, spec in enumerate(types):
                if spec.__class__ is not TensorSpec:
                    continue
                if name in symbols_in(spec):
                    shapes[i] = tuple(substitute(shapes.get(i, tuple(spec.shape)), {name: size}))
                elif name is None and constraint.left in spec.shape:
                    shape = shapes.get(i, tuple(spec.shape))
                    shapes[i] = tuple(constraint.right if d == constraint.left else d for d in shape)
        return shapes


def _meaning(value: Value, depth: int = 4) -> Any:
    """Equal for numbers that are computed in the same way from the same values."""
    producer = value.producer
    # (a few steps only: a bound is mostly `i`, `i + 1` or `n - k`, and a long way back would be looked at for each slice)
    if producer is None or not depth or len(producer.results) != 1 or len(value.type.shape):
        return value
    if producer.regions or has_effect(producer):
        return value
    attrs = {name: attr.tobytes() if isinstance(attr, np.generic) else _frozen(attr) for name, attr in producer.attrs.items()}
    meaning = (producer.op, value.type.dtype, *attrs.items(), *[_meaning(operand, depth - 1) for operand in producer.operands])
    try:
        hash(meaning)
    except TypeError:  # an attribute that has no hash
        return value
    return meaning


def _solved(constraint: Constraint, first: frozenset[str]) -> tuple[str | None, Any]:
    """A symbol and the size it must have; those of the first operand rather keep their names."""
    sides = [(a.name, b) for a, b in (constraint, tuple(constraint)[::-1]) if isinstance(a, Dim) and a.name is not None]
    sides = [(name, size) for name, size in sides if name not in symbols_in(size)]
    return min(sides or _terms_solved(constraint), key=lambda side: side[0] in first, default=(None, None))


def _terms_solved(constraint: Constraint) -> list[tuple[str, Any]]:
    """The symbols that an equation between sums tells: of n == n + m - k, these are m and k."""
    difference = constraint.left - constraint.right
    terms = difference.terms if isinstance(difference, Dim) else ()
    names = [(m[0], factor) for m, factor in terms if len(m) == 1 and isinstance(m[0], str) and abs(factor) == 1]
    sides = [(name, symbol(name) - factor * difference) for name, factor in names]
    return [(name, size) for name, size in sides if name not in symbols_in(size)]


def _frozen(attr: object) -> Any:
    """Equal only for attributes of the same types: 1, 1.0 and True differ."""
    if type(attr) is tuple:
        return (tuple, *[_frozen(part) for part in attr])
    if type(attr) is slice:
        return (slice, _frozen(attr.start), _frozen(attr.stop), _frozen(attr.step))
    return (attr.__class__, attr)


def _infer_without_rank(op: Op, types: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """The type rule where some rank is unknown: a rule that asks for it is refused, it must not pass for a scalar."""

    def seen(type: object, here: TensorShape, there: TensorShape) -> Any:
        return TensorSpec(there, type.dtype) if isinstance(type, TensorSpec) and type.shape is here else type

    inferred = op.infer(*[seen(t, UNKNOWN, UNKNOWN_TO_RULES) for t in types], **attrs)
    if inferred.__class__ is tuple:
        return tuple([seen(t, UNKNOWN_TO_RULES, UNKNOWN) for t in inferred])
    return seen(inferred, UNKNOWN_TO_RULES, UNKNOWN)


def _named(spec: object) -> Any:
    """Dimensions only run time knows get a symbol."""
    if isinstance(spec, TensorSpec) and None in tuple(spec.shape):
        return TensorSpec([fresh_symbol("n") if d is None else d for d in spec.shape], spec.dtype)
    return spec


# -- callees -----------------------------------------------------------------------------------------------------------


def renamed_types(callee: Block, operands: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """Types that a callee names, as one call of it has them: sizes of parameters are those of operands, others are new."""
    named = symbols_in(list(types))
    if not named:
        return list(types)
    env: dict[str, Any] = {}
    for param, type in zip(callee.params, operands, strict=True):
        if isinstance(type, TensorSpec):
            match(param.type, type, env)
    # sizes that the callee finds out itself are new ones at each call: two calls need not agree
    for name in sorted(named & defined_sizes(callee)):
        env.setdefault(name, fresh_symbol("n"))
    return [substitute(type, env) for type in types]


def witness(name: str) -> tuple[dict[str, Any], TensorSpec]:
    """The attributes and type of an array without elements (an operation `filled`) whose shape tells a size."""
    shape = (symbol(name), 0)
    return {"shape": shape, "dtype": bool_, "value": 0}, TensorSpec(shape, bool_)


def knowing_its_sizes(callee: Block) -> tuple[Block, list[str]]:
    """A callee that has all sizes it needs from its parameters, and the sizes that its last parameters are witnesses of."""
    needed = list(free_sizes(callee.operations, {name for p in callee.params for name in sizes_of(p)}))
    if not needed:
        return callee, []
    # (a copy: others call the callee as it is)
    closed = clone(callee)
    for name in needed:
        closed.add_param(witness(name)[1], None, next(reversed(closed.layout), None))
    return closed, needed
