"""Symbolic dimensions: integer polynomials in symbols, with opaque terms for `//`, `%`, `max` and `min`.

A `Dim` is a value: immutable, hashable, equal to another exactly when their canonical forms are the same; whatever has a
constant value is a plain int instead. Symbols are named; two symbols are one if their names are, and every symbol is a
size, so at least 0. Python cannot have a Dim's value (`int`, `bool`, `range`): asking raises `StaticDimensionNeeded`.

>>> n = symbol("n")
>>> 2 * n + 1, (2 * n + 1) // 2, (n * n + n) // (n + 1), n - n, (n + 1) // 2
(2*n+1, n, n, 0, (n+1)//2)
>>> ((n + 1) // 2).evaluate({"n": 4})
2
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from gradtape.errors import StaticDimensionNeeded

Size: TypeAlias = "int | Dim"
Monomial = tuple["str | Opaque", ...]  # symbols and opaque terms multiplied, sorted; () is the constant term


class Opaque(NamedTuple):
    """A term that is no polynomial: left // right, left % right, max or min of both."""

    kind: str
    left: Size
    right: Size

    def __str__(self) -> str:
        if self.kind in ("max", "min"):
            return f"{self.kind}({self.left},{self.right})"
        return f"{_factor(self.left)}{self.kind}{_factor(self.right)}"

    @property
    def at_least_zero(self) -> bool:
        left, right = bounds(self.left)[0], bounds(self.right)[0]
        if self.kind == "max":
            return (left is not None and left >= 0) or (right is not None and right >= 0)
        # (Python's % has the sign of the divisor, and its // may be negative if one of the two is)
        if right is None or right < 0:
            return False
        return self.kind == "%" or (left is not None and left >= 0)


def _factor(size: Size) -> str:
    text = str(size)
    return text if text.isidentifier() or text.isdigit() else f"({text})"


def _positive(size: Size) -> bool:
    low = bounds(size)[0]
    return low is not None and low > 0


class Dim:
    """A dimension known only at run time. Made by `symbol`, `fresh_symbol` and arithmetic."""

    __slots__ = ("_hash", "_terms", "_text", "name")
    __array_ufunc__ = None  # NumPy's scalars leave the arithmetic to us

    def __init__(self, terms: tuple[tuple[Monomial, int], ...]) -> None:
        """For this module only: `terms` are canonical (sorted, no zero coefficient, not a constant)."""
        self._terms = terms
        # once: sizes are keys of most tables of a trace
        self._hash = hash(terms)
        self._text: str | None = None
        monomial, factor = terms[0]
        atom = monomial[0] if factor == 1 and len(monomial) == len(terms) == 1 else None
        self.name = atom if isinstance(atom, str) else None  # the symbol's name, if the dimension is just a symbol

    # --- what it is

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols it depends on."""
        symbols: set[str] = set()
        for atom in self.atoms:
            if isinstance(atom, str):
                symbols.add(atom)
            else:
                symbols.update(*(part.symbols for part in atom[1:] if isinstance(part, Dim)))
        return frozenset(symbols)

    @property
    def atoms(self) -> set[str | Opaque]:
        """The symbols and opaque terms of the polynomial itself."""
        return {atom for monomial, _ in self._terms for atom in monomial}

    @property
    def terms(self) -> tuple[tuple[Monomial, int], ...]:
        """(monomial, coefficient) pairs."""
        return self._terms

    def evaluate(self, env: Mapping[str, Size]) -> Size:
        """Its value where every symbol has the value `env` gives; with Dims in `env`, a substitution.

        A symbol that is not in `env` stays. Division by zero raises ZeroDivisionError.
        """
        # most are just a symbol
        if self.name is not None:
            return env.get(self.name, self)
        total: Size = 0
        for monomial, factor in self._terms:
            value: Size = factor
            for atom in monomial:
                value = value * _atom_value(atom, env)
            total = total + value
        return total

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dim) and self._hash == other._hash and self._terms == other._terms)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        if self._text is None:
            self._text = _text(self._terms)
        return self._text

    def __reduce__(self) -> tuple[Any, ...]:
        return Dim, (self._terms,)

    # --- arithmetic

    def __add__(self, other: Any) -> Any:
        other = _size(other)
        # (an array or tensor: its own arithmetic goes on from here)
        return NotImplemented if other is None else _sum(self, other)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return Dim(tuple((monomial, -factor) for monomial, factor in self._terms))

    def __pos__(self) -> Dim:
        return self

    def __sub__(self, other: Any) -> Any:
        other = _size(other)
        return NotImplemented if other is None else _sum(self, -other)

    def __rsub__(self, other: Any) -> Any:
        other = _size(other)
        return NotImplemented if other is None else _sum(-self, other)

    def __mul__(self, other: Any) -> Any:
        other = _size(other)
        return NotImplemented if other is None else _product(self, other)

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        if not isinstance(power, int) or power < 0:
            return NotImplemented
        return reduce(operator.mul, [self] * power, 1)

    def __floordiv__(self, other: Any) -> Any:
        other = _size(other)
        return NotImplemented if other is None else quotient(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        other = _size(other)
        return NotImplemented if other is None else quotient(other, self)

    def __mod__(self, other: Any) -> Any:
        other = _size(other)
        return NotImplemented if other is None else remainder(self, other)

    def __rmod__(self, other: Any) -> Any:
        other = _size(other)
        return NotImplemented if other is None else remainder(other, self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    # --- order, where it holds for all sizes

    def __lt__(self, other: Any) -> bool:
        return _decide(self, other, lambda low, high: (high is not None and high < 0, low is not None and low >= 0), "<")

    def __le__(self, other: Any) -> bool:
        return _decide(self, other, lambda low, high: (high is not None and high <= 0, low is not None and low > 0), "<=")

    def __gt__(self, other: Any) -> bool:
        return not _decide(self, other, lambda low, high: (high is not None and high <= 0, low is not None and low > 0), ">")

    def __ge__(self, other: Any) -> bool:
        return not _decide(self, other, lambda low, high: (high is not None and high < 0, low is not None and low >= 0), ">=")

    # --- what only a number can do

    def _needed(self, what: str) -> NoReturn:
        raise StaticDimensionNeeded(
            f"the dimension {self} is known only when the function runs, but Python needs its value now ({what}). "
            "Use gt.shape(x)[axis], a tensor, in its place, or give the size in input_signature."
        )

    def __index__(self) -> int:
        self._needed("as an index or size")

    def __int__(self) -> int:
        self._needed("int")

    def __float__(self) -> float:
        self._needed("float")

    def __bool__(self) -> bool:
        self._needed("bool")


def _atom_value(atom: str | Opaque, env: Mapping[str, Size]) -> Size:
    if isinstance(atom, str):
        value = env.get(atom)
        return Dim((((atom,), 1),)) if value is None else value
    return _OPAQUE[atom.kind](evaluate(atom.left, env), evaluate(atom.right, env))


def evaluate(size: Size, env: Mapping[str, Size]) -> Size:
    """A dimension's value under `env`; an int is itself."""
    return size.evaluate(env) if isinstance(size, Dim) else size


def _size(value: Any) -> Size | None:
    if isinstance(value, Dim):
        return value
    return int(value) if isinstance(value, (int, np.integer)) else None


def _terms_of(size: Size) -> tuple[tuple[Monomial, int], ...]:
    if isinstance(size, Dim):
        return size.terms
    return (((), size),) if size else ()


def _from_terms(terms: Mapping[Monomial, int]) -> Size:
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if not kept or kept.keys() == {()}:
        return kept.get((), 0)
    return Dim(tuple(sorted(kept.items(), key=lambda item: _rank(item[0]))))


def _rank(monomial: Monomial) -> tuple[Any, ...]:
    # by degree, then by name: one polynomial has one text, which is part of keys and of programs
    return -len(monomial), tuple(map(str, monomial))


def _sum(a: Size, b: Size) -> Size:
    total = dict(_terms_of(a))
    for monomial, factor in _terms_of(b):
        total[monomial] = total.get(monomial, 0) + factor
    return _from_terms(total)


def _product(a: Size, b: Size) -> Size:
    total: dict[Monomial, int] = {}
    for (m, x), (n, y) in itertools.product(_terms_of(a), _terms_of(b)):
        # n·m and m·n are one monomial
        monomial = tuple(sorted((*m, *n), key=str))
        total[monomial] = total.get(monomial, 0) + x * y
    return _from_terms(total)


def _exact(a: Size, b: Size) -> Size | None:
    """The polynomial q with q·b = a, if there is one: division by leading terms."""
    quotient: Size = 0
    # Terms stand in the order of their degrees: what the leading ones leave is smaller, so the division ends.
    lead, factor = _terms_of(b)[0]
    while a != 0:
        monomial, own = _terms_of(a)[0]
        rest = list(monomial)
        for atom in lead:
            if atom not in rest:
                return None
            rest.remove(atom)
        if own % factor:
            return None
        part = _from_terms({tuple(rest): own // factor})
        quotient, a = quotient + part, a - part * b
    return quotient


def quotient(a: Size, b: Size) -> Size:
    """Floor division; exact where the polynomials divide."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 0:
        raise ZeroDivisionError(f"{a} // 0")
    if a == 0:
        return 0
    whole, rest = _split(a, b)
    if isinstance(rest, int) and isinstance(b, int):  # 0 <= rest < b
        return whole
    if rest == 0:
        return whole
    return whole + _opaque("//", rest, b)


def remainder(a: Size, b: Size) -> Size:
    """What floor division leaves."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if b == 0:
        raise ZeroDivisionError(f"{a} % 0")
    if a == 0:
        return 0
    rest = _split(a, b)[1]
    return rest if isinstance(rest, int) and (rest == 0 or isinstance(b, int)) else _opaque("%", rest, b)


def _split(a: Size, b: Size) -> tuple[Size, Size]:
    """(q, r) with a = q·b + r: all of a if it divides exactly, else what divides term by term."""
    exact = _exact(a, b)
    if exact is not None:
        return exact, 0
    # (4n + 6m) // 4 = n + m + (2m) // 4: what divides comes out, so that equal sizes look equal
    if isinstance(b, int) and b > 0:
        terms = _terms_of(a)
        return _from_terms({m: f // b for m, f in terms}), _from_terms({m: f % b for m, f in terms})
    return 0, a


def _opaque(kind: str, a: Size, b: Size) -> Dim:
    return Dim((((Opaque(kind, a, b),), 1),))


def bounds(size: Size) -> tuple[int | None, int | None]:
    """What holds for all sizes of the symbols: (at least, at most), None where there is no such bound."""
    if not isinstance(size, Dim):
        return size, size
    # Symbols are sizes, so none is below 0: a sum of them with factors of one sign has its bound where all are 0.
    rest = [(monomial, factor) for monomial, factor in size.terms if monomial]
    constant = dict(size.terms).get((), 0)
    if not all(isinstance(atom, str) or atom.at_least_zero for monomial, _ in rest for atom in monomial):
        return None, None
    low = constant if all(factor > 0 for _, factor in rest) else None
    high = constant if all(factor < 0 for _, factor in rest) else None
    return low, high


def _decide(a: Dim, b: Any, rule: Callable[[Any, Any], tuple[bool, bool]], sign: str) -> bool:
    other = _size(b)
    if other is None:
        raise TypeError(f"{a} {sign} {b!r}: a dimension compares with ints and dimensions only")
    true, false = rule(*bounds(_sum(a, -other)))
    if not (true or false):
        a._needed(f"{a} {sign} {b}")
    return true


def may_exceed(a: Size, b: Size) -> bool:
    """Whether one dimension is larger than another for some sizes of the symbols."""
    high = bounds(a - b)[1]
    return high is None or high > 0


def maximum(a: Size, b: Size) -> Size:
    """The larger of two dimensions."""
    return _extreme("max", a, b)


def minimum(a: Size, b: Size) -> Size:
    """The smaller of two dimensions."""
    return _extreme("min", a, b)


def _extreme(kind: str, a: Size, b: Size) -> Size:
    low, high = bounds(a - b)
    if low is not None and low >= 0:
        return a if kind == "max" else b
    if high is not None and high <= 0:
        return b if kind == "max" else a
    # in one order, so that max(n, 3) and max(3, n) are the same size
    first, second = sorted((a, b), key=lambda size: (isinstance(size, int), str(size)))
    return _opaque(kind, first, second)


_OPAQUE: dict[str, Callable[[Size, Size], Size]] = {"//": quotient, "%": remainder, "max": maximum, "min": minimum}


# --- symbols and text


def symbol(name: str) -> Dim:
    """The symbol of this name."""
    if not name.isidentifier():
        raise ValueError(f"{name!r} cannot name a symbol: it must be a Python identifier")
    return Dim((((name,), 1),))


class _SymbolNames:
    """Counts the symbols made from each name."""

    def __init__(self) -> None:
        self.counters: dict[str, Any] = {}

    def fresh(self, name: str) -> str:
        counter = self.counters.setdefault(name, itertools.count())
        number = next(counter)
        return f"{name}_{number}" if number else name


_NAMES = _SymbolNames()


def fresh_symbol(name: str = "d") -> Dim:
    """A symbol no other call of this function has given or will give: `n`, then `n_1`, `n_2`, …"""
    base = "".join(c if c.isalnum() else "_" for c in name)
    return symbol(_NAMES.fresh(base.strip("_0123456789") or "d"))


def _text(terms: Iterable[tuple[Monomial, int]]) -> str:
    parts = []
    for monomial, factor in sorted(terms, key=lambda term: term[1] < 0):  # n-m, not -m+n
        bare = factor == 1 and len(monomial) == 1 and isinstance(monomial[0], Opaque)
        factors = [str(monomial[0])] if bare else [_atom_text(atom) for atom in monomial]
        if abs(factor) != 1 or not monomial:
            factors.insert(0, str(abs(factor)))
        parts.append(("-" if factor < 0 else "+") + "*".join(factors))
    return "".join(parts).removeprefix("+")


def _atom_text(atom: str | Opaque) -> str:
    return f"({atom})" if isinstance(atom, Opaque) and atom.kind in ("//", "%") else str(atom)
