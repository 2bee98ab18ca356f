"""What is known about integers inside a loop: which numbers they are apart from wrapping around, and between which bounds.

The index of a counted loop runs from 0 to its count, so i + 1 and the like run between bounds that are known before the
loop. An element access at such a place is checked there, once for all iterations: what is left in the loop is a load or a
store. A check that fails ends the call, and the reference says what is wrong (an iteration that never came to the access is
then no error there); so programs with effects, which cannot run twice, check where the access stands.

Invariant: bounds are bounds of the exact numbers, and are compared without wrapping around (`Sum` is computed with 128 bits).
Registers hold those numbers modulo 2⁶⁴, and registers of int32 modulo 2³²; a number inside an axis is inside both, so there the
register is the number. Where an int32 becomes an int64, the access that counts on it also checks that it did not wrap around.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradtape.backends.llvm.planning.values import Lazy
from gradtape.backends.llvm.writing.element_types import is_integer, name_of
from gradtape.backends.llvm.writing.ir_text import Index, Writer
from gradtape.core.opdef import Op
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ops.elementwise import ADD, CAST, MULTIPLY, SUBTRACT
from gradtape.ops.staged import CONSTANT, RANGE
from gradtape.ops.stop import IDENTITY


@dataclass(frozen=True, slots=True)
class Sum:
    """A whole number known before a loop: a constant and multiples of operands, so that n − (n − 1) is 1."""

    constant: int
    terms: tuple[tuple[str, int], ...] = ()

    @staticmethod
    def of(index: Index) -> Sum:
        return Sum(index) if isinstance(index, int) else Sum(0, ((index, 1),))

    def plus(self, other: Sum, times: int = 1) -> Sum:
        factors = dict(self.terms)
        for operand, factor in other.terms:
            factors[operand] = factors.get(operand, 0) + times * factor
        return Sum(self.constant + times * other.constant, tuple((k, v) for k, v in sorted(factors.items()) if v))

    def times(self, factor: int) -> Sum:
        return Sum(0).plus(self, factor)

    @property
    def fits(self) -> bool:
        """Whether 128 bits hold it, whatever the operands are."""
        return abs(self.constant) + sum(abs(factor) << 63 for _, factor in self.terms) < 1 << 126

    def write(self, w: Writer) -> str:
        """The number as an operand of 128 bits."""
        total = str(self.constant)
        for operand, factor in self.terms:
            # 128 bits: bounds of 64-bit numbers must not wrap around while they are compared
            part = w.let(f"mul i128 {w.let(f'sext i64 {operand} to i128')}, {factor}")
            total = w.let(f"add i128 {part}, {total}")
        return total


class Bounds(NamedTuple):
    """The bounds of a number; what they are worth depends on the numbers between each of `narrow` being int32s."""

    low: Sum
    high: Sum
    narrow: frozenset[tuple[Sum, Sum]] = frozenset()


INT32 = 1 << 31
FOLLOWED = (ADD, SUBTRACT, MULTIPLY, CAST, IDENTITY)  # ops whose integers follow from others
_WORDS = {ADD: "add", SUBTRACT: "sub", MULTIPLY: "mul"}
_NUMBER = re.compile(r"%[a-z]*(\d+)")
_LITERAL = re.compile(r"-?\d+")


# The code before a loop is known only when its body is written: two lines are left free there, one for the checks that accesses
# ask for, one for the branch that leaves if a check fails. `mark` is the newest register then; older ones, by their numbers,
# are values that the code before the loop may use.
class LoopFacts:
    """A counted loop while it is written: code for the place before it, and bounds of integers in it."""

    def __init__(self, program: Any, body: Block, count: Index) -> None:
        w: Writer = program.writer
        self.program = program
        self.block = body
        self.count = count
        before, self.begin = w.label("before"), w.label("begin")
        w.go(before)
        w.start(before)
        self.mark = w.mark()
        self.place = len(w.lines)
        w.lines += ["", ""]
        w.start(self.begin)
        self.lines: list[str] = []
        self.bad: str | None = None
        self.operation: Operation | None = None
        self.spans: dict[str, Bounds] = {}
        self.seen: set[Any] = set()

    @contextmanager
    def early(self) -> Iterator[Writer]:
        """Write before the loop."""
        w: Writer = self.program.writer
        lines, w.lines = w.lines, self.lines
        yield w
        w.lines = lines

    def knows(self, index: Index) -> bool:
        """Whether an operand is there before the loop."""
        if isinstance(index, int):
            return True
        number = _NUMBER.fullmatch(index)
        # registers are numbered in the order in which they are written
        return number is not None and int(number[1]) <= self.mark

    def span(self, index: Index) -> Bounds | None:
        """The bounds of a number in all iterations."""
        known = self.spans.get(index) if isinstance(index, str) else None
        if known is None and self.knows(index):
            return Bounds(Sum.of(index), Sum.of(index))
        return known

    def fail_if(self, flag: str, operation: Operation) -> None:
        """Write code, inside `early`, that ends the call before the loop if the flag is set and the loop runs at all."""
        w: Writer = self.program.writer
        self.bad = flag if self.bad is None else w.let(f"or i1 {self.bad}, {flag}")
        self.operation = self.operation or operation

    def close(self) -> None:
        """The loop is written: put the code before it."""
        w: Writer = self.program.writer
        end = f"  br label %{self.begin}"
        if self.bad is not None:
            with self.early():
                runs = w.let(f"icmp sgt i64 {self.count}, 0")
                # a loop that does not run has no access that could fail
                flag = w.let(f"and i1 {self.bad}, {runs}")
            number = self.program.check(self.operation)
            bad = w.label("bad")
            end = (
                f"  br i1 {flag}, label %{bad}, label %{self.begin}, !prof {self.program.unlikely()}\n"
                f"{bad}:\n  store i32 {number}, ptr %status\n  br label %leave"
            )
        w.lines[self.place] = "\n".join(self.lines)
        w.lines[self.place + 1] = end


def frame_of(scope: Any) -> LoopFacts | None:
    """The loop whose body is being written, if every iteration comes to this place."""
    loops = scope.program.loops
    # a failure is told before the first iteration: not if it would come after an effect, or perhaps not at all (in a branch)
    return loops[-1] if loops and loops[-1].block is scope.block and not scope.program.effects else None


def number(scope: Any, value: Value) -> tuple[Index, bool]:
    """A scalar integer as a 64-bit number, and whether it is that of an int32 only apart from wrapping around."""
    index = wide(scope, value)
    return (scope.integer(value), False) if index is None else (index, scope.scalar(value) in scope.program.modular)


def inside(scope: Any, operation: Operation, index: Index, size: Index, modular: bool = False) -> Index | None:
    """A place inside an axis that was checked before the loop; None where that cannot be."""
    frame = frame_of(scope)
    span = frame.span(index) if frame is not None and frame.knows(size) else None
    if frame is None or span is None:
        return None
    low, high, narrow = span
    # A place from -size on counts from the end, as in Python. Where the bounds say that none is negative, the register is the
    # place; else the checks are -size <= low and high < size, and the code chooses.
    counts_back = bool(low.terms) or low.constant < 0
    if modular and not (isinstance(size, int) and size <= INT32):  # a shorter axis has int32s only
        narrow = narrow | {(low, high)}
    with frame.early():
        if counts_back:
            _require_at_least(frame, operation, low.plus(Sum.of(size)), 0)
        _require_at_least(frame, operation, Sum.of(size).plus(high, -1), 1)
        for least, most in sorted(narrow, key=repr):
            _require_at_least(frame, operation, least, -INT32)
            _require_at_least(frame, operation, most.times(-1), 1 - INT32)
    return str(scope.writer.from_end(index, size)) if counts_back else index


def _require_at_least(frame: LoopFacts, operation: Operation, number: Sum, least: int) -> None:
    w: Writer = frame.program.writer
    # one check for all accesses at the same place
    if (number, least) in frame.seen:
        return
    frame.seen.add((number, least))
    if not number.terms:
        if number.constant < least:
            frame.fail_if("true", operation)
        return
    frame.fail_if(w.let(f"icmp slt i128 {number.write(w)}, {least}"), operation)


# -- integers that follow from others


def wide(scope: Any, value: Value) -> Index | None:
    """A scalar integer as a 64-bit number, if it is known as one or costs nothing to have as one. Of an int32 in
    `program.modular` it is the number before it wrapped around."""
    if len(value.type.shape) or not is_integer(value.type.dtype):
        return None
    register = scope.scalar(value)
    if _LITERAL.fullmatch(register):
        return int(register)
    if name_of(value.type.dtype) == "int64":
        return str(register)
    known: Index | None = scope.program.wide.get(register, scope.program.modular.get(register))
    frame = frame_of(scope)
    if known is None and frame is not None and frame.knows(register) and name_of(value.type.dtype) == "int32":
        with frame.early() as w:
            known = scope.program.wide[register] = w.let(f"sext i32 {register} to i64")
        frame.spans[known] = Bounds(Sum.of(known), Sum.of(known))
    return known


def follow(scope: Any, operation: Operation, register: str) -> None:
    """Note what a scalar that was just computed is, if it follows from integers of the loop."""
    frame, op = frame_of(scope), operation.op
    if frame is None or op not in FOLLOWED:
        return
    if name_of(operation.result.type.dtype) not in ("int32", "int64"):
        return
    known = [wide(scope, value) for value in operation.operands]
    if any(index is None for index in known):
        return
    spans = [frame.span(index) for index in known]  # type: ignore[arg-type]
    # What only needs values from before the loop is no number of the loop: `span` has it without this note.
    if any(span is None for span in spans) or all(frame.knows(index) for index in known):  # type: ignore[arg-type]
        return
    result = name_of(operation.result.type.dtype)
    moved = op in (CAST, IDENTITY)
    span = _converted(scope, operation, spans[0]) if moved else _combined(op, known, spans)
    if span is None or not (span.low.fits and span.high.fits):
        return
    if result == "int64":
        frame.spans[register] = span
        return
    if op is IDENTITY and scope.scalar(operation.operands[0]) in scope.program.wide:
        scope.program.wide[register] = known[0]
        return
    index = str(known[0]) if moved else _modulo(scope.writer, op, known)
    scope.program.modular[register] = index
    frame.spans[index] = span


def _converted(scope: Any, operation: Operation, span: Any) -> Bounds:
    """An int32 as an int64 is the number before it wrapped around only if it did not."""
    source = operation.operands[0]
    if name_of(operation.result.type.dtype) == "int64" and scope.scalar(source) in scope.program.modular:
        return Bounds(span.low, span.high, span.narrow | {(span.low, span.high)})
    return span


def _combined(op: Op, known: list[Any], spans: list[Any]) -> Bounds | None:
    (a, b), ((low, high, narrow), (least, most, others)) = known, spans
    narrow = narrow | others
    if op is ADD:
        return Bounds(low.plus(least), high.plus(most), narrow)
    if op is SUBTRACT:  # [low - most, high - least]
        return Bounds(low.plus(most, -1), high.plus(least, -1), narrow)
    # A product has bounds that are sums only if a factor is a literal; of a negative one the ends change places.
    if isinstance(a, int):
        a, b, low, high = b, a, least, most
    if not isinstance(b, int):
        return None
    ends = low.times(b), high.times(b)
    return Bounds(*(ends if b >= 0 else (ends[1], ends[0])), narrow)


def _modulo(w: Writer, op: Op, known: list[Any]) -> str:
    """The sum, difference or product of two 64-bit numbers, which may wrap around."""
    a, b = ((index + (1 << 63)) % (1 << 64) - (1 << 63) if isinstance(index, int) else index for index in known)
    return w.let(f"{_WORDS[op]} i64 {a}, {b}")


def counted(scope: Any, source: Value, index: Index) -> str | None:
    """Element `index` of an array that counts, as a register: of a range, or of a constant with equal steps."""
    lowered = scope.find(source)
    if not isinstance(lowered, Lazy) or name_of(source.type.dtype) not in ("int32", "int64"):
        return None
    producer, w = lowered.operation, scope.writer
    frame = frame_of(scope)
    if producer.op is CONSTANT:
        values = np.asarray(producer.attrs["value"])
        if values.ndim != 1 or values.size < 2 or len(steps := set(np.diff(values.astype(np.int64)).tolist())) != 1:
            return None
        start: Any = int(values[0])
        (step,) = steps
    elif producer.op is RANGE and frame is not None:
        start, step = (wide(scope, value) for value in (producer.operands[0], producer.operands[2]))
        if start is None or not isinstance(step, int) or not frame.knows(start):
            return None
        if scope.scalar(producer.operands[0]) in scope.program.modular:  # it begins where its start wrapped around to
            return None
    else:
        return None
    number: Index = index * step + start if isinstance(index, int) and isinstance(start, int) else ""
    if number == "":
        number = _modulo(w, ADD, [_modulo(w, MULTIPLY, [index, step]), start])
    register = str(number)
    if name_of(source.type.dtype) == "int32" and not isinstance(number, int):
        register = w.let(f"trunc i64 {number} to i32")
        scope.program.wide[register] = number
    span = frame.span(index) if frame is not None else None
    if frame is not None and span is not None and isinstance(number, str) and not frame.knows(number):
        low, high = (end.times(step).plus(Sum.of(start)) for end in span[:2])
        if low.fits and high.fits:
            frame.spans[number] = Bounds(*((low, high) if step >= 0 else (high, low)), span.narrow)
    return register
