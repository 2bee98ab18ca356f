"""The Python numbers of a staged Python loop: what they are after it, and whether the program computes them as Python would.

A loop over a Python `range` that became one loop of the program computes its Python numbers (the counter, sums of it, tests
on it) there, in 64 bits. Python has no such bounds, divides by zero with an exception, and knows all these numbers before the
program runs. `turns_of` therefore runs the part of a loop's body that only numbers decide in Python itself: so names have
Python numbers after the loop, and the number of its turns is known. `check` bounds what every turn computes; for a loop that
might leave the 64 bits, divide by zero or change the type of a number both raise `NumberError`, and it is traced turn by turn.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradtape.core.opdef import Op
from gradtape.errors import InvalidArgumentError
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ir.types import TensorSpec
from gradtape.ops import compare
from gradtape.ops.dynamic import GETITEM_AT
from gradtape.ops.elementwise import ABS, ADD, CAST, DIVIDE, MULTIPLY, NEGATIVE, POW, POWER, SUBTRACT
from gradtape.ops.select import FLOORDIV, MOD
from gradtape.ops.staged import CONSTANT, EXACT, EXACT_ARITHMETIC, NARROW
from gradtape.ops.stop import IDENTITY, STOP_GRADIENT
from gradtape.ops.structured import COND, SCAN, WHILE
from gradtape.trace.weak import GROWING

LIMIT = 2**63
MAX_TURNS = 1_000_000  # that Python runs ahead for the numbers which each turn makes of those before
COUNT_LIMIT = 2**31


class NumberError(InvalidArgumentError):
    """A number that the program would not compute as Python does."""


KEPT = (STOP_GRADIENT, IDENTITY)
_GROWING = {op.name: op for op in GROWING}
PYTHON: dict[Op, Callable[..., Any]] = {
    ADD: operator.add, SUBTRACT: operator.sub, MULTIPLY: operator.mul, DIVIDE: operator.truediv, FLOORDIV: operator.floordiv,
    MOD: operator.mod, NEGATIVE: operator.neg, ABS: abs, POW: operator.pow, compare.EQUAL: operator.eq,
    compare.NOT_EQUAL: operator.ne, compare.LESS: operator.lt, compare.LESS_EQUAL: operator.le, compare.GREATER: operator.gt,
    compare.GREATER_EQUAL: operator.ge, compare.LOGICAL_AND: lambda a, b: bool(a & b), compare.LOGICAL_NOT: operator.not_,
    compare.LOGICAL_OR: lambda a, b: bool(a | b), **{op: lambda value: value for op in KEPT},
}  # fmt: skip
TYPES: dict[str, Any] = {"b": bool, "i": int, "f": float}
ARITHMETIC = (ADD, SUBTRACT, MULTIPLY, DIVIDE, FLOORDIV, MOD, NEGATIVE, ABS, POW, POWER)


def _kind(value: Value) -> str:
    """The kind of number ("b", "i" or "f") a value is; "" for a tensor, or a number that is no Python number."""
    spec = value.type
    if not isinstance(spec, TensorSpec) or len(spec.shape):
        return ""
    dtype = spec.dtype.dtype
    return dtype.kind if dtype.kind in "bi" or (dtype.kind == "f" and dtype.itemsize == 8) else ""


def function_of(operation: Operation) -> Callable[..., Any] | None:
    """What an operation on numbers does, in Python; None for all others."""
    op = operation.op
    # an operand that is no Python number (a tensor, a float32) has another arithmetic: its results are not Python's
    if operation.regions or len(operation.results) != 1 or not all(map(_kind, (*operation.results, *operation.operands))):
        return None
    kind = _kind(operation.results[0])
    if op is CONSTANT:
        number = TYPES[kind](operation.attrs["value"])
        return lambda: number
    if op in (CAST, NARROW):
        return TYPES[kind]
    if op is EXACT:
        return EXACT_ARITHMETIC[operation.attrs["form"]]
    if op is POWER:
        exponent = operation.attrs["exponent"]
        return lambda base: base**exponent
    return PYTHON.get(op)


class LoopNumbers:
    """The part of a loop's body that computes numbers from the index and from numbers: `params` may be used."""

    def __init__(self, block: Block, params: Sequence[Value]) -> None:
        self.params = dict.fromkeys(params)
        self.block = block
        self._known: dict[Value, tuple[Callable[..., Any] | None, list[Value]]] = {}

    def computable(self, value: Value) -> bool:
        """Whether a value follows from `params` and constants by steps that Python can do."""
        return self._order([value]) is not None

    def uses(self, value: Value) -> set[Value]:
        """The params that a computable value depends on."""
        steps = self._order([value]) or []
        return {v for _, _, operands, _ in steps for v in operands if v in self.params} | ({value} & self.params.keys())

    def _order(self, values: Sequence[Value]) -> list[tuple[Value, Callable[..., Any], list[Value], str]] | None:
        """The steps that lead to these values, each after those it needs; None if there are others."""
        steps: list[tuple[Value, Callable[..., Any], list[Value], str]] = []
        ready = set(self.params)
        # depth first, by a stack of its own: (value, whether its operands stand before it already)
        pending = [(value, False) for value in reversed(values)]
        while pending:
            value, expanded = pending.pop()
            if value in ready:
                continue
            producer = value.producer
            # a value of the program around the loop: known when the program runs, not now
            if producer is None or producer.home is not self.block:
                return None
            step = self._known.get(value)
            if step is None:
                step = self._known[value] = _step(producer, value.index)
            function, operands = step
            if function is None:
                return None
            if expanded:
                ready.add(value)
                steps.append((value, function, operands, _kind(value)))
            else:
                pending.append((value, True))
                pending += [(v, False) for v in operands if v not in ready]
        return steps

    def program(self, values: Sequence[Value]) -> Callable[..., tuple[Any, ...]]:
        """A function from the numbers that `params` are to those that the values are. It may run for a million turns."""
        steps = self._order(values)
        if steps is None:
            raise NumberError("these are not all numbers")
        names = {param: f"p{k}" for k, param in enumerate(self.params)}
        space: dict[str, Any] = {"checked": checked}
        lines = [f"def run({', '.join(names.values())}):"]
        for k, (value, function, operands, kind) in enumerate(steps):
            names[value] = f"v{k}"
            # what needs no operand is computed once and not in each turn
            space |= {f"f{k}": function} if operands else {f"v{k}": checked(function(), kind)}
            if operands:
                lines.append(f" v{k} = checked(f{k}({', '.join([names[v] for v in operands])}), {kind!r})")
        lines.append(f" return ({''.join([names[value] + ', ' for value in values])})")
        exec("\n".join(lines), space)  # noqa: S102  (our own template)
        run: Callable[..., tuple[Any, ...]] = space["run"]
        return run


def checked(number: Any, kind: str) -> Any:
    """A number that the program has in the same type."""
    # 2 ** -1 is a float in Python where the program has an integer
    if number.__class__ is not TYPES[kind]:
        raise NumberError(f"a {type(number).__name__} would be of another type in the program")
    if kind == "i" and not -LIMIT <= number < LIMIT:
        raise NumberError("an integer grows beyond 64 bits")
    return number


def _step(operation: Operation, index: int) -> tuple[Callable[..., Any] | None, list[Value]]:
    """What Python does for one result of an operation, and with which operands; None if it cannot."""
    if operation.op is COND:
        return _chooser(operation, index)
    if operation.op is GETITEM_AT and (items := _constant_items(operation)) is not None:
        return items.__getitem__, operation.operands[1:]
    return function_of(operation), operation.operands


def _constant_items(operation: Operation) -> list[Any] | None:
    """The numbers of a constant of which an operation takes one."""
    items = operation.operands[0].producer
    if items is None or items.op is not CONSTANT or operation.attrs["key"] != (Slot(0),) or not _kind(operation.results[0]):
        return None
    values: list[Any] = items.attrs["value"].tolist()
    return values


def _chooser(operation: Operation, index: int) -> tuple[Callable[..., Any] | None, list[Value]]:
    """One result of a branch on a number, as a function of some of its operands; None if a side computes no number."""
    (flag,), inputs = operation.group("pred"), operation.group("inputs")
    sides: list[Any] = []
    needed: list[Value] = []
    for name in ("then", "orelse"):
        block = operation.regions[name]
        numbers = LoopNumbers(block, [p for p in block.params if _kind(p)])
        if not _kind(operation.results[index]) or not numbers.computable(block.results[index]):
            return None, []
        used = numbers.uses(block.results[index])
        places = [i for i, param in enumerate(block.params) if param in used]
        # a side that is not taken must not run: it may divide by zero
        run = LoopNumbers(block, [block.params[i] for i in places]).program([block.results[index]])
        sides.append((run, slice(len(needed), len(needed) + len(places))))
        needed += [inputs[i] for i in places]

    def choose(taken: bool, *values: Any) -> Any:
        run, given = sides[0 if taken else 1]
        return run(*values[given])[0]

    return choose, [flag, *needed]


# -- turns -----------------------------------------------------------------------------------------------------------


class CarriedNumber(NamedTuple):
    """A number of a loop's state: its parameter of the body, what the body makes of it, and what it is before the loop (None if
    Python does not know)."""

    param: Value
    end: Value
    start: Any


class Turns(NamedTuple):
    """What Python knows of a loop before it runs: how many turns it has (None: a tensor decides), the numbers that parts of its
    state are after it, by parameter, and between which bounds they are."""

    number: int | None
    finals: dict[Value, Any]
    bounds: dict[Value, Bounds]


def turns_of(block: Block, index: Value, leaves: Sequence[CarriedNumber], count: int | None, test: Value | None) -> Turns:
    """Run the numbers of a loop ahead. Of a loop without a known `count`, `test` says after each turn whether it goes on."""
    state = {leaf.param: leaf for leaf in leaves if leaf.start is not None}
    numbers = LoopNumbers(block, [index, *state])
    # what depends on a number that only the program knows is known only there
    # each round may take away a number that another one is computed from
    while unknown := {param for param, leaf in state.items() if not numbers.computable(leaf.end)}:
        state = {param: leaf for param, leaf in state.items() if param not in unknown}
        numbers = LoopNumbers(block, [index, *state])
    # A number that follows from numbers alone, but by an operation that is not in PYTHON, would be one of the program after the
    # loop where Python has a number: refused. One that a tensor decides is rightly the program's.
    params = {leaf.param for leaf in leaves}
    for leaf in leaves:
        if not numbers.computable(leaf.end) and _only_numbers(leaf.end, block, {index, *params}):
            raise NumberError("Python computes a number in a way that the program cannot")
    decided = test is not None and numbers.computable(test)
    if count is None and not decided:
        return Turns(None, {}, dict.fromkeys(state, ANY))
    # Only what each turn makes of the turn before must be run turn by turn; the rest follows from the last index at once.
    moving = {param: leaf for param, leaf in state.items() if decided or numbers.uses(leaf.end) - {index}}
    bounds: dict[Value, Bounds] = {}
    now = {param: leaf.start for param, leaf in state.items()}
    if moving or decided:
        count, now, bounds = _run(numbers, moving, now, count, test if decided else None)
    finals = {param: now[param] for param in moving}
    others = [leaf for leaf in leaves if leaf.param not in moving and numbers.computable(leaf.end)]
    fixed = [leaf for leaf in others if not numbers.uses(leaf.end) - {index}]
    # what a turn gives from its index alone is, after the loop, what the last turn gave
    for leaf, number in zip(fixed, numbers.program([leaf.end for leaf in fixed])((count or 0) - 1, *now.values()), strict=True):
        finals[leaf.param] = number
    bounds.update((leaf.param, ANY) for leaf in leaves if leaf.param not in bounds)
    return Turns(count, finals, bounds)


def _run(
    numbers: LoopNumbers, moving: dict[Value, CarriedNumber], start: dict[Value, Any], count: int | None, test: Value | None
) -> tuple[int, dict[Value, Any], dict[Value, Bounds]]:
    """All turns, one after the other; `start` has all numbers but the index, in their order."""
    ends = [leaf.end for leaf in moving.values()]
    run = numbers.program(ends if test is None else [*ends, test])
    now = dict(start)
    lows, highs = ({param: start[param] for param in moving} for _ in range(2))
    turn, going = 0, True
    while going:
        # an endless loop of Python's would be endless here too, while the function is traced
        if turn >= MAX_TURNS:
            raise NumberError(f"after {MAX_TURNS} turns the loop is not at an end")
        results = run(turn, *now.values())
        for param, number in zip(moving, results, strict=False):
            now[param] = number
            lows[param], highs[param] = min(lows[param], number), max(highs[param], number)
        turn += 1
        going = results[-1] if test is not None else turn < count  # type: ignore[operator]
    return turn, now, {param: (lows[param], highs[param]) for param in moving}


def _only_numbers(value: Value, block: Block, params: set[Value]) -> bool:
    """Whether a value follows from the index, constants and the loop's numbers alone."""
    pending = [value]
    seen: set[Value] = set()
    while pending:
        value = pending.pop()
        if value in params or value in seen:
            continue
        seen.add(value)
        if value.producer is None or value.producer.home is not block:
            return False
        pending += value.producer.operands
    return True


# -- bounds ----------------------------------------------------------------------------------------------------------

Bounds = tuple[float, float]  # of a number over all turns; infinite where nothing is known
ANY: Bounds = (-math.inf, math.inf)


def check(block: Block, given: dict[Value, Bounds]) -> dict[Value, Bounds]:
    """The bounds of the numbers computed in this block; raises `NumberError` if one of them may be other than Python's."""
    known = dict(given)
    for operation in block.operations:
        if operation.regions:
            _check_regions(operation, known)
            continue
        if operation.op is GETITEM_AT and (items := _constant_items(operation)):
            known[operation.results[0]] = min(items), max(items)
            continue
        if function_of(operation) is None or not all(v in known for v in operation.operands):
            continue
        known[operation.results[0]] = bounds = _bounds(operation, [known[v] for v in operation.operands])
        if operation.op is EXACT and all(map(math.isfinite, bounds)):  # what is known to fit needs no check at run time
            operation.op, operation.attrs = _plain(operation), {}
    return known


def _check_regions(operation: Operation, known: dict[Value, Bounds]) -> None:
    sides = []
    for block in operation.regions.values():
        inner: dict[Value, Bounds] = {}
        for group in block.layout or ({"inputs": len(block.params)} if operation.op is COND else {}):
            if group == "index":
                length = operation.attrs.get("length")
                inner[block.group("index")[0]] = (0, COUNT_LIMIT - 1 if length is None else max(length - 1, 0))
            elif group in operation.layout:
                for param, operand in zip(block.group(group), operation.group(group), strict=False):
                    if operand in known:
                        # what an inner loop carries changes from turn to turn: its start says nothing of it
                        inner[param] = known[operand] if group in ("inputs", "consts") else ANY
        bounds = check(block, inner)
        sides.append([bounds.get(value) for value in block.results])
    for place, result in enumerate(operation.results if operation.op in (COND, SCAN, WHILE) else ()):
        ends = [side[place] for side in sides] if operation.op is COND else [ANY]
        if _kind(result) and None not in ends:  # else a tensor decides it on one side
            known[result] = min(low for low, _ in ends), max(high for _, high in ends)  # type: ignore[misc]


def _plain(operation: Operation) -> Op:
    """The op of an operation; of one that checks its result, the op it checks."""
    return _GROWING[operation.attrs["form"]] if operation.op is EXACT else operation.op


def _bounds(operation: Operation, given: list[Bounds]) -> Bounds:
    op, kind = _plain(operation), _kind(operation.results[0])
    if op in ARITHMETIC and kind == "b":
        # True + True is 2, and in the program a truth value
        raise NumberError("the sum of two truth values is a number in Python")
    if kind == "b":
        return (0, 1)
    if op is CONSTANT:
        number = operation.attrs["value"]
        return (float(number), float(number)) if math.isfinite(number) else ANY
    lows, highs = _corners(operation, given)
    if kind == "i" and math.isfinite(lows) and math.isfinite(highs) and max(-lows, highs) >= LIMIT:
        raise NumberError("an integer may grow beyond 64 bits")
    return lows, highs


def _corners(operation: Operation, given: list[Bounds]) -> Bounds:
    op, exact = _plain(operation), _kind(operation.results[0]) == "i"
    if op in (CAST, NARROW, *KEPT):
        return given[0]
    if op is NEGATIVE:
        return -given[0][1], -given[0][0]
    if op is ABS:
        low, high = given[0]
        return (low, high) if low >= 0 else (0, max(-low, high))
    if op is POWER:
        return _powers(given[0], (operation.attrs["exponent"],) * 2, exact)
    (a, b), (c, d) = given
    if op is ADD:
        return a + c, b + d
    if op is SUBTRACT:
        return a - d, b - c
    if op in (DIVIDE, FLOORDIV, MOD) and c <= 0 <= d:
        raise NumberError("a division may be by zero, where Python raises an error")
    if op is MULTIPLY:
        products = [0.0 if 0 in (p, q) else p * q for p in (a, b) for q in (c, d)]
        if exact and not all(map(math.isfinite, products)):
            raise NumberError("a product of integers may grow beyond 64 bits")
        return min(products), max(products)
    if op in (DIVIDE, FLOORDIV):
        # monotone in both away from zero; rounding down (floordiv) and quotients by an infinite bound stay within 1
        quotients = [0.0 if math.isinf(q) else p / q for p in (a, b) for q in (c, d)]
        return min(quotients) - 1, max(quotients) + 1
    if op is MOD:
        return (0, d) if c > 0 else (c, 0)
    if op is POW:
        return _powers((a, b), (c, d), exact)
    return ANY


def _powers(base: Bounds, exponent: Bounds, exact: bool) -> Bounds:
    (a, b), (c, d) = base, exponent
    if (exact and c < 0) or (not exact and (a < 0 or (a <= 0 and c < 0)) and not (c == d and c >= 0 and float(c).is_integer())):
        raise NumberError("a power may be no number of the same type")
    # |x ** y| <= max(|x|, 1) ** max|y|, and for 0 < x < 1, y < 0 it is largest at the smallest x and y
    try:
        largest = max(abs(a), abs(b), 1.0) ** max(abs(c), abs(d))
    except OverflowError:
        largest = math.inf
    if a > 0:
        largest = max(largest, min(a, 1.0) ** min(c, 0.0)) if c < 0 else largest
    if not math.isfinite(largest):
        raise NumberError("a power may grow too large")
    return -largest, largest
