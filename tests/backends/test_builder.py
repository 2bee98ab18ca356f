"""The typed writer that the native runtime is written in: what each of its words does, run as machine code."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.runtime.support import Part
from gradtape.backends.llvm.writing.algebra import DOUBLE, I8, I32, I64, SINGLE, Flag, Whole, select
from gradtape.backends.llvm.writing.builder import FLAG, PTR, VOID, Builder, Int32, Member, Pointer, Signature, define, external
from gradtape.backends.llvm.writing.ir_text import ModuleText


def compiled(body: Any, result: Any = ctypes.c_int64) -> Any:
    """A routine as a function of integers and addresses."""
    module = ModuleText()
    define(module, f"gt_test_{body.__name__}", body)
    library = machine.Library(str(module), level=0)
    kinds = {"i64": ctypes.c_int64, "i32": ctypes.c_int32, "i1": ctypes.c_bool, "ptr": ctypes.c_void_p}
    params = [kinds[kind.type] for kind in Signature.of(body).params.values()]
    function = ctypes.CFUNCTYPE(result, *params)(library.address(f"gt_test_{body.__name__}"))
    function.library = library
    return function


def test_a_signature_is_read_off_the_annotations() -> None:
    def body(f: Builder, a: Pointer, b: Whole, c: Int32, d: Flag, e: Pointer[Whole], g: Whole | int) -> Int32:
        return c

    assert str(Signature.of(body)) == "i32 (ptr, i64, i32, i1, ptr, i64)"

    def nothing(f: Builder) -> None:
        pass

    assert str(Signature.of(nothing)) == "void ()"


def test_integers_have_pythons_operators() -> None:
    def body(f: Builder, a: Whole, b: Whole, to: Pointer) -> None:
        values = [a + b, a - b, 7 - a, a * b, 3 * a, a // b, 100 // b, a % b, a & b, a | b, a ^ b, a << 3, a >> 2, a + 0, a * 1]
        values += [a.at_most(b), a.at_least(b), select(a < b, a, b), select(a.equals(b), a, 5), (a > b).count()]
        for k, value in enumerate(values):
            to.to(I64)[k] = value

    found = np.zeros(20, np.int64)
    compiled(body, None)(45, 6, found.ctypes.data)
    assert found.tolist() == [51, 39, -38, 270, 135, 7, 16, 3, 4, 47, 43, 360, 11, 45, 45, 6, 45, 6, 5, 1]


@pytest.mark.parametrize(("a", "b"), [(-1, 1), (3, 3), (5, -7)])
def test_integers_are_compared_with_their_signs(a: int, b: int) -> None:
    def body(f: Builder, a: Whole, b: Whole) -> Whole:
        flags = [a < b, a <= b, a > b, a >= b, a.equals(b), a.differs(b), ~(a < b), (a < b) ^ (a > b), (a < b) | a.equals(b)]
        total = f.variable(I64, 0)
        for k, flag in enumerate(flags):
            total.value = total.value + (flag.count() << k)
        return total.value

    wanted = [a < b, a <= b, a > b, a >= b, a == b, a != b, a >= b, a != b, a <= b]
    assert compiled(body)(a, b) == sum(flag << k for k, flag in enumerate(wanted))


def test_integers_change_their_size() -> None:
    def body(f: Builder, a: Whole) -> Whole:
        short = a.resized(I32)
        return short.resized(I64) - short.resized(I64, signed=True) + a.resized(I64)

    assert compiled(body)(-1) == 2**32 - 1
    assert compiled(body)(5) == 5


def test_fields_and_elements_are_read_and_written() -> None:
    first, second = Member(8, I32), Member(12, I8)

    def body(f: Builder, record: Pointer, words: Pointer) -> Whole:
        record[second] = record[first].resized(I8)
        record[first] = 7
        record.field(first).value = record[first] + 1
        numbers = words.to(I64)
        numbers[1] = numbers[0] + numbers.at(2).value
        words.to(PTR)[3] = words.at(8)
        words.to(PTR)[4] = 0
        return record[first].resized(I64)

    record, words = np.zeros(16, np.uint8), np.array([3, 0, 4, 0, 9])
    record[8] = 200
    assert compiled(body)(record.ctypes.data, words.ctypes.data) == 8
    assert record[8] == 8
    assert record[12] == 200
    assert words.tolist() == [3, 7, 4, words.ctypes.data + 8, 0]


def test_branches_and_early_returns() -> None:
    def body(f: Builder, a: Whole) -> Whole:
        with f.if_(a < 0):
            f.leave(f.number(-1))
        result = f.variable(I64, 0)
        with f.if_else(a < 10) as (small, large):
            with small:
                result.value = a * 2
                with f.if_(a.equals(5)):
                    f.leave(f.number(55))
            with large:
                result.value = a + 100
        return result.value

    function = compiled(body)
    assert [function(a) for a in (-3, 0, 4, 5, 9, 10)] == [-1, 0, 8, 55, 18, 110]


def test_cases() -> None:
    def body(f: Builder, a: Whole) -> Whole:
        result = f.variable(I64, 0)

        def put(number: int) -> None:
            result.value = f.number(number)

        def out() -> None:
            f.leave(f.number(-2))

        f.switch(a, {3: lambda: put(30), 4: out, 7: lambda: put(70)})
        return result.value

    function = compiled(body)
    assert [function(a) for a in (3, 4, 7, 8)] == [30, -2, 70, 70]  # the last one is for all others


def test_loops() -> None:
    def body(f: Builder, start: Whole, end: Whole) -> Whole:
        total = f.variable(I64, 0)
        with f.loop(end, start, step=3) as i, f.loop(i) as j, f.if_(j.equals(1)):
            total.value = total.value + i
        return total.value

    function = compiled(body)
    for start, end in ((0, 0), (5, 5), (0, 10), (2, 12)):
        assert function(start, end) == sum(i for i in range(start, end, 3) if i > 1)


def test_loops_that_say_when_they_end() -> None:
    def body(f: Builder, a: Whole) -> Whole:
        steps, now = f.variable(I64, 0), f.variable(I64, a)
        with f.forever() as collatz:
            collatz.leave_if(now.value.equals(1))
            with f.if_(steps.value > 1000):
                f.leave(f.number(-1))
            odd = (now.value & 1).equals(1)
            now.value = select(odd, now.value * 3 + 1, now.value >> 1)
            steps.value = steps.value + 1
        return steps.value

    function = compiled(body)
    assert [function(a) for a in (1, 6, 27, 0)] == [0, 8, 111, -1]


def test_atomics() -> None:
    def body(f: Builder, place: Pointer) -> Whole:
        number = place.to(I64)
        before = number.fetch("add", 5)
        swapped = number.compare_exchange(before + 5, 40)
        missed = number.compare_exchange(before, 50)
        last = number.fetch("xchg", 60)
        number.atomic = number.atomic + 1
        return last + swapped.count() * 100 + missed.count() * 1000 + before * 10000

    words = np.array([7])
    assert compiled(body)(words.ctypes.data) == 70140
    assert words[0] == 61


def test_pointers_are_compared_and_memory_is_copied() -> None:
    def body(f: Builder, a: Pointer, b: Pointer) -> Whole:
        b.copy_from(a, 16)
        a.fill(-1, 8)
        null = f.null()
        same = a.at(8).equals(a.to(I64).at(1))
        return same.count() + null.is_null().count() * 2 + a.is_null().count() * 4 + a.equals(b).count() * 8

    a, b = np.array([1, 2, 3]), np.zeros(3, np.int64)
    assert compiled(body)(a.ctypes.data, b.ctypes.data) == 3
    assert a.tolist() == [-1, 2, 3]
    assert b.tolist() == [1, 2, 0]


@pytest.mark.parametrize("format", [SINGLE, DOUBLE], ids=["float32", "float64"])
def test_vectors(format: Any) -> None:
    def body(f: Builder, a: Pointer, b: Pointer) -> None:
        numbers, vectors = a.to(format), a.to(format.vector(4))
        x, y = vectors.value, numbers.at(4).to(format.vector(4)).value
        out = b.to(format.vector(4))
        out[0] = x.fma(y, x.number(1.0))
        out[1] = x.shuffled(y, [0, 4, 1, 5])
        out[2] = numbers[1].spread(4) * 2.0
        b.to(format)[12] = y.total()

    a, b = np.arange(8, dtype=format.name), np.zeros(13, format.name)
    compiled(body, None)(a.ctypes.data, b.ctypes.data)
    assert b.tolist() == [1, 6, 13, 22, 0, 4, 1, 5, 2, 2, 2, 2, 22]


def test_functions_from_outside() -> None:
    seen: list[int] = []
    address = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_bool)(
        lambda a, b, c: seen.append((a, b, c)) or 2 * a
    )
    machine.symbol("gt_test_outside", ctypes.cast(address, ctypes.c_void_p).value or 0)
    call = external("gt_test_outside", I64, I64, PTR, FLAG)

    def body(f: Builder, a: Whole) -> Whole:
        return call(f, a, None, a > 3) + call(f, 9, None, True)

    assert compiled(body)(4) == 26
    assert seen == [(4, None, True), (9, None, True)]


def test_a_part_is_compiled_once_and_called_from_other_modules() -> None:
    part = Part(__name__)
    counter = part.variable("counter", I64, 5)
    table = part.variable("table", I64, count=3)

    @part.routine
    def twice(f: Builder, a: Whole) -> Whole:
        return a * 2

    @part.routine
    def gt_test_count(f: Builder, by: Whole) -> Whole:
        counter(f).value = counter(f).value + twice(f, by)
        table(f)[2] = table(f)[2] + 1
        return counter(f).value * 10 + table(f)[2]

    def body(f: Builder, a: Whole) -> Whole:
        return gt_test_count(f, a)

    first, second = compiled(body), compiled(body)
    assert part.load() is part.load()
    assert [first(1), second(2), first(3)] == [71, 112, 173]


def test_calls_through_pointers() -> None:
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_int64)

    def body(f: Builder, function: Pointer, a: Whole) -> None:
        f.call(function.register, VOID, [I64], [a + 1])

    seen: list[int] = []
    function = kernel(seen.append)
    compiled(body, None)(ctypes.cast(function, ctypes.c_void_p), 4)
    assert seen == [5]
