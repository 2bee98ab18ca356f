"""Dimensions in types: substitution, matching, and type rules of any op on symbolic shapes.

`infer_by_probing` asks an op's own type rule about concrete sizes only: it puts different numbers for the symbols, runs the
rule, and recognises each resulting dimension as an int, a dimension seen in the operands, a sum or product of them, or a
clipped or divided one; what it cannot recognise is None (known at run time). Large sizes find the form, small ones (0, 1, 2, …)
must agree with it, so a form that is returned holds wherever the rule does. Where the rule refuses independent sizes, the
smallest set of equations that satisfies it is returned too, for the run time to check. Ops know nothing of symbols.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from gradtape.errors import StaticDimensionNeeded
from gradtape.ir.polynomial import (
    Dim as Dim,
    Opaque,
    Size,
    bounds,
    evaluate,
    fresh_symbol as fresh_symbol,
    maximum as maximum,
    minimum as minimum,
    quotient,
    symbol as symbol,
)
from gradtape.ir.types import ListSpec, TensorShape, TensorSpec

Env = Mapping[str, Size]


class Constraint(NamedTuple):
    """Two dimensions that must be equal when the program runs."""

    left: Size
    right: Size

    def holds(self, env: Env) -> bool:
        return bool(evaluate(self.left, env) == evaluate(self.right, env))

    def __str__(self) -> str:
        return f"{self.left} == {self.right}"


# --- dimensions inside types and attributes


def dims_in(thing: Any) -> Iterator[Dim]:
    """Every symbolic dimension in a type or an attribute."""
    kind = thing.__class__
    if kind is Dim:
        yield thing
    elif kind is TensorSpec:
        for size in thing.shape:
            if size.__class__ is Dim:
                yield size
    elif kind is ListSpec:
        yield from dims_in(thing.item)
    elif kind is tuple or kind is list or kind is TensorShape:
        for item in thing:
            yield from dims_in(item)
    elif kind is slice:
        yield from dims_in((thing.start, thing.stop, thing.step))
    elif kind is dict:
        yield from dims_in(tuple(thing.values()))


def symbols_in(thing: Any) -> frozenset[str]:
    """The names of all symbols in a type or an attribute."""
    return frozenset(name for dim in dims_in(thing) for name in dim.symbols)


def substitute(thing: Any, env: Env) -> Any:
    """A type or attribute with the symbols of `env` replaced by its sizes (ints or dimensions)."""
    kind = thing.__class__
    if kind is Dim:
        return thing.evaluate(env)
    if kind is TensorSpec:
        return TensorSpec([evaluate(size, env) for size in thing.shape], thing.dtype, thing.name)
    if kind is ListSpec:
        return ListSpec(substitute(thing.item, env))
    if kind is tuple or kind is list or kind is TensorShape:
        return kind([substitute(item, env) for item in thing])
    if kind is slice:
        return slice(substitute(thing.start, env), substitute(thing.stop, env), substitute(thing.step, env))
    if kind is dict:
        return {key: substitute(value, env) for key, value in thing.items()}
    return thing


def with_sizes(thing: Any, sizes: Mapping[Size, Size]) -> Any:
    """A type with whole dimensions replaced."""
    if not sizes or thing.__class__ is not TensorSpec or not any(d in sizes for d in thing.shape):
        return thing
    return TensorSpec([sizes.get(d, d) for d in thing.shape], thing.dtype, thing.name)


def match(pattern: Any, type: Any, env: dict[str, Size]) -> None:
    """Note in `env` what the lone symbols of one type are in another of the same form."""
    if isinstance(pattern, ListSpec):
        match(pattern.item, type.item, env)
        return
    if pattern.shape.rank is None:  # what Python gives back may have any shape: it names no size
        return
    for own, other in zip(pattern.shape, type.shape, strict=True):
        # only a size that is a symbol alone: n + 1 tells n too, but what introduces a symbol is always alone (`ir/sizes.py`)
        if isinstance(own, Dim) and own.name is not None:
            env.setdefault(own.name, other)


# --- type rules on symbolic shapes


def infer_by_probing(op: Any, types: Sequence[Any], attrs: Mapping[str, Any]) -> tuple[Any, tuple[Constraint, ...]]:
    """The result of `op.infer` (a type or a tuple of types) for types and attributes that may hold symbols.

    Also the equations between dimensions it relies on. Raises what the rule raises, in the program's own dimensions.
    """
    dims = list(dict.fromkeys(dims_in(tuple(types))))
    asked = list(dict.fromkeys(dims_in(tuple(attrs.values()))))
    if not dims and not asked:
        return op.infer(*types, **attrs), ()
    if not asked and len(dims) <= len(_ANY):
        # whatever holds for independent sizes holds for these: n and max(n-1, 0) are asked for as two of any size
        answer = _in_general(_Question(op, _replaced(types, dict(zip(dims, _ANY, strict=False))), attrs))
        if answer is not None:
            return substitute(answer, dict(zip(map(str, _ANY), dims, strict=False))), ()
    return _renamed(op, types, attrs, [*dims, *asked])


_ANY = tuple(symbol(f"any{i}") for i in range(8))


def _replaced(types: Iterable[Any], sizes: Mapping[Size, Size]) -> tuple[Any, ...]:
    """Types with other sizes in the places of whole ones."""
    return tuple(ListSpec(*_replaced([t.item], sizes)) if t.__class__ is ListSpec else with_sizes(t, sizes) for t in types)


@lru_cache(maxsize=2048)
def _in_general(question: _Question) -> Any:
    """The answer for sizes that have nothing to do with one another; None if the rule refuses some or the form is not found."""
    probe = _Probe(question.op, question.types, question.attrs)
    if not probe.works():
        return None
    answer = probe.recognised()
    listed = answer if isinstance(answer, tuple) else (answer,)
    return None if any(size is None for type in listed for size in _shape(type)) else answer


def _renamed(
    op: Any, types: Sequence[Any], attrs: Mapping[str, Any], dims: Iterable[Dim]
) -> tuple[Any, tuple[Constraint, ...]]:
    """The answer by way of the one for symbols of standard names: programs differ in names, questions hardly."""
    names = dict.fromkeys(name for dim in dims for name in sorted(dim.symbols))
    env = {name: symbol(f"size{i}") for i, name in enumerate(names)}
    back = {str(stand_in): symbol(name) for name, stand_in in env.items()}
    attributes = {key: substitute(value, env) for key, value in attrs.items()}
    try:
        answer, constraints = _remembered(_Question(op, [substitute(thing, env) for thing in types], attributes))
    except Exception:
        _Probe(op, types, attrs).answer()  # raises the same in the program's own names
        raise
    return substitute(answer, back), tuple(Constraint(*substitute(tuple(c), back)) for c in constraints)


class _Question:
    """One call of a type rule, as a key of the memory of answers."""

    __slots__ = ("attrs", "key", "op", "types")

    def __init__(self, op: Any, types: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        self.op = op
        self.types = types
        self.attrs = attrs
        self.key = (op, tuple(types), _frozen(dict(attrs)))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self.key == other.key


def _frozen(thing: Any) -> Any:
    """A hashable stand-in that keeps 1, 1.0 and True apart."""
    kind = thing.__class__
    if kind is tuple or kind is list or kind is TensorShape:
        return (kind, *map(_frozen, thing))
    if kind is dict:
        return (kind, *((key, _frozen(value)) for key, value in thing.items()))
    if kind is slice:
        return (kind, _frozen(thing.start), _frozen(thing.stop), _frozen(thing.step))
    return (kind, thing if thing.__hash__ is not None else id(thing))


@lru_cache(maxsize=2048)
def _remembered(question: _Question) -> tuple[Any, tuple[Constraint, ...]]:
    return _Probe(question.op, question.types, question.attrs).answer()


_TINY = (1, 4)
_RANGES = ((31, 97), (501, 1499), _TINY)  # where sizes are taken from: the next when the rule finds these too small, too large
_SMALL = ((0, 0), (1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (2, 1), (7, 2), (8, 3), (3, 2), (6, 5))  # first size, step
_TRIES = 3000


class _Probe:
    """The questions put to one type rule, and the recognition of its answers."""

    def __init__(self, op: Any, types: Sequence[Any], attrs: Mapping[str, Any]) -> None:
        self.op = op
        self.types = tuple(types)
        self.attrs = dict(attrs)
        self.names = sorted(symbols_in((self.types, self.attrs)))
        self.ints = sorted(set(_ints((self.types, self.attrs))))
        self.solved: dict[str, Size] = {}  # symbols that equations give in terms of others
        self.replaced: dict[Size, Size] = {}  # whole sizes that equations give: max(n-1,0) = max(m-1,0) tells neither symbol
        self.range = _RANGES[0]
        self.distinct: list[Size] = []  # the sizes of the operands, those that equations make equal once
        self._assume(())

    # one run

    def env(self, sizes: Iterable[int]) -> dict[str, Size]:
        independent = [name for name in self.names if name not in self.solved]
        # strict=False: solved symbols take none, and `_helper` needs one even if all are solved
        env: dict[str, Size] = dict(zip(independent, sizes, strict=False))
        return env | {name: evaluate(size, env | _helper(sizes)) for name, size in self.solved.items()}

    def run(self, env: Env) -> Any:
        types = [substitute(with_sizes(thing, self.replaced), env) for thing in self.types]
        if any(size is not None and size < 0 for thing in types for size in _shape(thing)):
            raise _NoSizeError
        return self.op.infer(*types, **{key: substitute(value, env) for key, value in self.attrs.items()})

    def large(self, count: int) -> list[dict[str, Size]]:
        low, high = self.range
        if self.range is _TINY:  # each with each
            tiny = [self.env(sizes) for sizes in itertools.product(range(low, high), repeat=len(self.names))]
            return [env for env in tiny if min(self._sizes(env), default=0) >= 0] or tiny[:1]
        taken = {*self.ints, 0, 1}
        apart: list[dict[str, Size]] = []
        others: list[
            dict[str, Size]
        ] = []  # where sizes are equal by accident, or negative: n + m - k is no size of all n, m, k
        for j in range(count + 24):
            sizes: list[int] = []
            for i in range(len(self.names) + 1):
                # no two sizes, and no number of the question, are equal by accident: equal ones would look like a broadcast or
                # a match (not linear in i: n - m would be k - n)
                size = low + (17 * j * (i + 1) + 29 * i + 11 * j * j + 7 * i * i) % (high - low)
                while size in taken or size in sizes:
                    size += 1
                sizes.append(size)
            env = self.env(sizes)
            values = self._sizes(env)
            if len({*values} - taken) == len(values) and min(values, default=0) >= 0:
                apart.append(env)
                if len(apart) == count:
                    break
            else:
                others.append(env)
        return [*apart, *sorted(others, key=lambda env: min(self._sizes(env), default=0) < 0)][:count]

    def _sizes(self, env: Env) -> list[int]:
        """The different sizes of the operands."""
        return [int(evaluate(dim, env)) for dim in self.distinct]

    def works(self) -> bool:
        # two: one assignment may fit by chance, where a rule asks for divisibility
        return all(self._accepts(env) for env in self.large(2))

    def _accepts(self, env: Env) -> bool:
        try:
            self.run(env)
        except Exception:
            # rules refuse sizes in their own words (ValueError, NumPy's errors): if all are refused, `_raise` shows the error
            return False
        return True

    # the whole

    def answer(self) -> tuple[Any, tuple[Constraint, ...]]:
        constraints: tuple[Constraint, ...] = ()
        for choice in _RANGES if len(self.names) <= 4 else _RANGES[:2]:
            self.range = choice
            if self.works():
                break
        else:
            self.range = _RANGES[0]
            constraints = self._equations() or self._raise()
            self._assume(constraints)
        return self.recognised(), constraints

    def _raise(self) -> NoReturn:
        """The rule's own error, with the program's dimensions in the place of the probe's numbers."""
        self._assume(())
        env = self.large(1)[0]
        try:
            self.run(env)
        except _NoSizeError:
            raise StaticDimensionNeeded(f"{self.op.name}: a dimension of {self.types} would be negative") from None
        except Exception as error:
            # sizes of a probe are distinct (`large`), so a number in the message tells which dimension it was
            names = {str(dim.evaluate(env)): str(dim) for dim in dims_in((self.attrs, self.types))}
            error.args = (re.sub(r"\d+", lambda match: names.get(match[0], match[0]), str(error)), *error.args[1:])
            raise
        raise StaticDimensionNeeded(f"{self.op.name}: the type of the result depends on the sizes {', '.join(self.names)}")

    # equations between dimensions

    def _assume(self, constraints: Iterable[Constraint]) -> bool:
        self.solved, self.replaced = {}, {}
        for constraint in constraints:
            left, right = (evaluate(size, self.solved) for size in constraint)
            if left == right:
                continue
            solution = _solve(left, right)
            if solution is None and all(isinstance(size, Dim) for size in (*constraint, left - right)):  # n is never n + 1
                self.replaced[constraint.left] = constraint.right
                continue
            if solution is None:
                return False
            name, size = solution
            # kept solved: what earlier equations say in terms of this symbol no longer mentions it
            self.solved = {key: evaluate(value, {name: size}) for key, value in self.solved.items()} | {name: size}
        sizes = (evaluate(self.replaced.get(dim, dim), self.solved) for dim in dims_in(self.types))
        self.distinct = [size for size in dict.fromkeys(sizes) if isinstance(size, Dim)]
        return True

    def _satisfied(self, constraints: Sequence[Constraint]) -> bool:
        return self._assume(constraints) and self.works()

    def _equations(self) -> tuple[Constraint, ...] | None:
        shapes = [tuple(_shape(thing)) for thing in self.types]
        lone = list(dict.fromkeys(size for shape in shapes for size in shape if isinstance(size, Dim)))
        for first, second in itertools.combinations(lone[:8], 2):  # nothing but two unknown sizes that are the same
            if self._satisfied((Constraint(second, first),)):
                return (Constraint(second, first),)
        # most rules align shapes axis by axis (broadcasting, elementwise): tried before any search
        for aligned in (_from_right(shapes), _from_left(shapes)):
            if aligned and self._satisfied(aligned):
                return self._fewest(aligned)
        candidates = self._candidates(shapes)
        tries = 0
        for count in (1, 2, 3):
            for chosen in itertools.combinations(candidates, count):
                tries += 1
                # three equations out of many are a large search, and a rule that needs them is rare
                if tries > _TRIES:
                    return None
                if self._satisfied(chosen):
                    return chosen
        return None

    def _fewest(self, constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
        kept = list(constraints)
        for constraint in constraints:
            fewer = [c for c in kept if c is not constraint]
            # an equation too many would refuse programs at run time that the rule accepts
            if self._satisfied(fewer):
                kept = fewer
        return tuple(kept)

    def _candidates(self, shapes: Sequence[tuple[Size, ...]]) -> list[Constraint]:
        """Pairs of dimensions, of whole sizes, and divisibility; then equations with numbers, 1, the least likely, last."""
        named = [value for value in self.attrs.values() if value.__class__ is tuple and _is_shape(value)]
        totals = [math.prod(shape) for shape in (*shapes, *named) if None not in shape]
        single = list(dict.fromkeys(size for shape in (*shapes, *named) for size in shape if size is not None))
        pairs = [Constraint(a, b) for a, b in itertools.combinations(single, 2)]
        pairs += [Constraint(a, b) for a, b in itertools.combinations(dict.fromkeys(totals), 2)]
        for dim in dims_in((self.types, self.attrs)):
            for atom in dim.atoms:
                if isinstance(atom, Opaque) and atom.kind == "//" and isinstance(atom.right, int):
                    pairs.append(Constraint(atom.left % atom.right, 0))
        symbolic = [pair for pair in dict.fromkeys(pairs) if isinstance(pair.left, Dim) or isinstance(pair.right, Dim)]
        return sorted(symbolic, key=lambda pair: 2 if 1 in pair else any(isinstance(size, int) and size != 0 for size in pair))

    # recognising results

    def recognised(self) -> Any:
        # enough points that no wrong form agrees with all of them
        count = 8 + len(self.names) * 2
        first, *others = [(env, self.run(env)) for env in self.large(count) if self._accepts(env)]
        several = isinstance(first[1], tuple)
        answers = [(env, answer if several else (answer,)) for env, answer in (first, *others)]
        small = []
        for start, step in _SMALL:
            env = self.env(range(start, start + step * len(self.names) + step + 1, step) if step else [start] * len(self.names))
            try:
                answer = self.run(env)
            except Exception:  # noqa: S112 (the rule refuses this size: nothing to learn from it)
                continue
            small.append((env, answer if several else (answer,)))
        types = tuple(
            self._type([(e, a[i]) for e, a in answers], [(e, a[i]) for e, a in small]) for i in range(len(answers[0][1]))
        )
        return types if several else types[0]

    def _type(self, large: list[tuple[Env, Any]], small: list[tuple[Env, Any]]) -> Any:
        type = large[0][1]
        if isinstance(type, ListSpec):
            return ListSpec(self._type([(e, t.item) for e, t in large], [(e, t.item) for e, t in small]))
        if any(len(t.shape) != len(type.shape) for _, t in large):
            raise StaticDimensionNeeded(f"{self.op.name}: the rank of the result depends on the sizes {', '.join(self.names)}")
        small = [(e, t) for e, t in small if len(t.shape) == len(type.shape)]
        shape = [
            self._size([(e, t.shape[i]) for e, t in large], [(e, t.shape[i]) for e, t in small]) for i in range(len(type.shape))
        ]
        return TensorSpec(shape, type.dtype)

    def _size(self, large: list[tuple[Env, Any]], small: list[tuple[Env, Any]]) -> Size | None:
        if any(size is None for _, size in (*large, *small)):
            return None
        everywhere = [*large, *small]
        known = list(dict.fromkeys(dim for dim in dims_in((self.types, self.attrs))))
        fitted: list[Size] = []
        for forms in (_constant, _known, _linear, _product, _pair, _divided):
            for form in forms(known, self.ints, large):
                if _agrees(form, everywhere):
                    return form
                fitted.append(form)
        for form in itertools.chain(*(_clipped(form, known, self.ints) for form in fitted)):
            if _agrees(form, everywhere):
                return form
        return None


class _NoSizeError(Exception):
    """The numbers chosen make a dimension negative."""


_HELPER = "k "  # symbols of equations only: no identifier, so no program has them


def _helper(sizes: Iterable[int]) -> dict[str, Size]:
    return {_HELPER: next(iter(sizes), 1)}


def _shape(thing: Any) -> tuple[Size, ...]:
    while isinstance(thing, ListSpec):
        thing = thing.item
    return tuple(thing.shape)


def _is_shape(value: tuple[Any, ...]) -> bool:
    return bool(value) and all(isinstance(item, (int, Dim)) and not isinstance(item, bool) for item in value)


def _ints(thing: Any) -> Iterator[int]:
    kind = thing.__class__
    if kind is int:
        yield thing
    elif kind is TensorSpec or kind is ListSpec:
        yield from _ints(_shape(thing))
    elif kind is tuple or kind is list or kind is TensorShape:
        for item in thing:
            yield from _ints(item)
    elif kind is slice:
        yield from _ints((thing.start, thing.stop, thing.step))
    elif kind is dict:
        yield from _ints(tuple(thing.values()))


def _solve(left: Size, right: Size) -> tuple[str, Size] | None:
    """A symbol and what it must be for left = right."""
    difference = left - right
    if not isinstance(difference, Dim):
        return None
    for monomial, factor in difference.terms:
        if len(monomial) != 1:
            continue
        (atom,) = monomial
        if not isinstance(atom, str):
            if atom.kind == "%" and difference.terms == ((monomial, 1),) and isinstance(atom.left, Dim) and atom.left.name:
                return atom.left.name, atom.right * Dim((((_HELPER,), 1),))
            continue
        rest = difference - factor * Dim((((atom,), 1),))
        if isinstance(rest, Dim) and atom in rest.symbols:
            continue
        size = quotient(-rest, factor) if factor > 0 else quotient(rest, -factor)
        high = bounds(size)[1]
        if size * factor == -rest and (high is None or high >= 0):
            return atom, size
    return None


def _pairs(rows: Iterable[Sequence[Size]]) -> tuple[Constraint, ...]:
    """Each row equal throughout, whatever is 1 left out."""
    constraints = []
    for row in rows:
        distinct = [size for size in dict.fromkeys(row) if size is not None and size != 1]
        anchor = next((size for size in distinct if isinstance(size, int)), distinct[0] if distinct else 1)
        constraints += [Constraint(size, anchor) for size in distinct if size != anchor]
    return tuple(dict.fromkeys(constraints))


def _from_right(shapes: Sequence[tuple[Size, ...]]) -> tuple[Constraint, ...]:
    return _from_left([shape[::-1] for shape in shapes])


def _from_left(shapes: Sequence[tuple[Size, ...]]) -> tuple[Constraint, ...]:
    rank = max((len(shape) for shape in shapes), default=0)
    return _pairs([shape[i] for shape in shapes if i < len(shape)] for i in range(rank))


# --- forms a dimension may have: candidates that agree with the large sizes


def _agrees(form: Size, answers: Iterable[tuple[Env, int]]) -> bool:
    return all(evaluate(form, env) == size for env, size in answers)


def _constant(known: Sequence[Dim], ints: Sequence[int], answers: list[tuple[Env, int]]) -> Iterator[Size]:
    if len({size for _, size in answers}) == 1:
        yield int(answers[0][1])


def _known(known: Sequence[Dim], ints: Sequence[int], answers: list[tuple[Env, int]]) -> Iterator[Size]:
    return (dim for dim in known if _agrees(dim, answers))


def _product(known: Sequence[Dim], ints: Sequence[int], answers: list[tuple[Env, int]]) -> Iterator[Size]:
    """A whole number times two or three known dimensions."""
    for count in (2, 3):
        for chosen in itertools.combinations_with_replacement(known[:8], count):
            form = math.prod(chosen)
            env, size = answers[0]
            whole = evaluate(form, env)
            if whole and size % whole == 0 and _agrees(form * (size // whole), answers):
                yield form * (size // whole)


def _linear(known: Sequence[Dim], ints: Sequence[int], answers: list[tuple[Env, int]]) -> Iterator[Size]:
    """c₀ + Σ cᵢ·dᵢ over the known dimensions dᵢ, with whole cᵢ: exact elimination, checked on all answers."""
    from fractions import Fraction  # here: it takes as long to load as ten modules, and few programs need it

    for count in (1, 2, len(known)):
        for chosen in itertools.combinations(known, count) if count < 3 or len(known) > 2 else ():
            rows = [[Fraction(1), *(Fraction(int(evaluate(d, env))) for d in chosen), Fraction(size)] for env, size in answers]
            solution = _eliminate(rows, count + 1)
            if solution is not None and all(c.denominator == 1 for c in solution):
                form: Size = int(solution[0])
                for factor, dim in zip(solution[1:], chosen, strict=True):
                    form = form + int(factor) * dim
                yield form


def _eliminate(rows: list[list[Any]], unknowns: int) -> list[Any] | None:
    """The one solution of an overdetermined linear system, or None."""
    rows = [list(row) for row in rows]
    for column in range(unknowns):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [entry / rows[column][column] for entry in rows[column]]
        for r, row in enumerate(rows):
            if r != column and row[column]:
                rows[r] = [a - row[column] * b for a, b in zip(row, rows[column], strict=True)]
    return [row[-1] for row in rows[:unknowns]] if all(not row[-1] for row in rows[unknowns:]) else None


def _divided(known: Sequence[Dim], ints: Sequence[int], answers: list[tuple[Env, int]]) -> Iterator[Size]:
    """(d + c) // k and (c - d) // k with k among the numbers of the call (or small), c from where the answers allow it."""
    for k in dict.fromkeys((*(abs(i) for i in ints if 1 < abs(i) < 1000), 2, 3, 4)):
        for dim, sign in itertools.product(known, (1, -1)):
            low = max(k * size - sign * evaluate(dim, env) for env, size in answers)
            high = min(k * size + k - 1 - sign * evaluate(dim, env) for env, size in answers)
            for c in range(low, min(high, low + k) + 1):
                yield (sign * dim + c) // k


def _pair(known: Sequence[Dim], ints: Sequence[int], answers: list[tuple[Env, int]]) -> Iterator[Size]:
    """The smaller or larger of two known dimensions, or what one leaves of the other."""
    for a, b in itertools.combinations(known, 2):
        yield from (minimum(a, b), maximum(a, b), maximum(a - b, 0), maximum(b - a, 0))


def _clipped(form: Size, known: Sequence[Dim], ints: Sequence[int]) -> Iterator[Size]:
    """A form that held for large sizes, cut off for small ones, as slices do."""
    yield maximum(form, 0)
    for dim, stop in itertools.product(known, ints):
        yield minimum(dim, stop)
        if isinstance(form, int) and 0 <= form < stop:
            yield maximum(minimum(dim, stop) - (stop - form), 0)
        yield maximum(dim - abs(stop), 0)
        yield minimum(form, stop)
    for dim in known:
        yield minimum(form, dim)
        yield maximum(minimum(form, dim), 0)
    yield from (maximum(form, dim) for dim in known)
