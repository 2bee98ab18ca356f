"""The native side of lists at the door: the code that reads and writes the words of `packing.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.backends.llvm.kernels import native_lists as lists
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.nests import rolled
from gradtape.backends.llvm.planning.sharing import form
from gradtape.backends.llvm.planning.values import Array, NativeList
from gradtape.backends.llvm.writing.element_types import bytes_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.dtypes import int64
from gradtape.ir.dims import symbol
from gradtape.ir.types import ListSpec, TensorSpec

PACKED = TensorSpec([symbol("packed")], int64)  # what carries a list that is no array of rows


def carrier(type: Any, fixed: frozenset[str]) -> Any:
    """The type of what is passed for a value of a type."""
    # tensors, and lists of one shape, are arrays to Python already
    return PACKED if form(type, fixed) not in ("", "u") else type


def given(scope: Scope, type: ListSpec, address: str, told: Sequence[str]) -> NativeList:
    """A list that was passed: rows with their dims, or words."""
    if carrier(type, scope.program.fixed) is PACKED:
        return unpacked(scope, type, address)
    w = scope.writer
    target = lists.cell(scope, lists.items_of(scope, type))
    count, *dims = told
    for size, dim, n in zip(type.item.shape, target.items.dims or (), dims, strict=True):
        if not isinstance(size, int):  # as the tensors say, unless there is no row
            wrong = w.let(f"and i1 {w.let(f'icmp ne i64 {dim}, {n}')}, {w.let(f'icmp ne i64 {count}, 0')}")
            scope.program.fail_if(wrong, None)
    # capacity 0: the memory is the caller's, and is not freed
    lists.put(scope, target, address, count, 0)
    return target


def unpacked(scope: Scope, type: ListSpec, address: str) -> NativeList:
    """The list in the words at an address; it keeps its items there."""
    w = scope.writer
    target = lists.cell(scope, lists.items_of(scope, type))
    cursor = w.cell("ptr")
    w.store("ptr", address, cursor)
    _unpack(scope, target, cursor)
    return target


def _next(scope: Scope, cursor: str, bytes: Index) -> str:
    """Where the cursor is; it goes on behind so many bytes, to the next word."""
    w = scope.writer
    now = w.load("ptr", cursor)
    w.store("ptr", w.at("i8", now, _whole(scope, bytes)), cursor)
    return now


def _whole(scope: Scope, bytes: Index) -> Index:
    """Filled up to whole words."""
    if isinstance(bytes, int):
        return -(-bytes // 8) * 8
    return scope.writer.let(f"and i64 {scope.writer.add(bytes, 7)}, -8")


def _unpack(scope: Scope, target: NativeList, cursor: str) -> None:
    w, items = scope.writer, target.items
    count = w.load("i64", _next(scope, cursor, 8))
    if items.form == "u":
        _next(scope, cursor, 8 * items.rank)
        lists.put(scope, target, _next(scope, cursor, w.multiply(count, lists.stride(scope, items))), count, 0)
        return
    # only the records of the items: what they hold stays where it was passed
    base = scope.program.allocated(w.multiply(count, lists.stride(scope, items)))
    lists.put(scope, target, base, count, 0)
    with w.loop(count, extra=rolled(scope, count, "")) as i:
        place = lists.spot(scope, base, items, i)
        if items.inner is not None:
            _unpack(scope, NativeList(place, items.inner), cursor)
        else:
            words = _next(scope, cursor, 8 * items.rank)
            dims = tuple([w.load("i64", w.at("i64", words, k)) for k in range(items.rank)])
            bytes = w.multiply(w.product(dims), bytes_of(items.dtype))
            lists.write_record(scope, place, Array(_next(scope, cursor, bytes), dims, items.dtype))


def packed(scope: Scope, source: NativeList) -> Array:
    """The words of a list."""
    w = scope.writer
    total, cursor = w.cell("i64"), w.cell("ptr")
    w.store("i64", 0, total)

    def measure(words: Sequence[Index], address: str, bytes: Index) -> None:
        w.store("i64", w.add(w.load("i64", total), w.add(8 * len(words), _whole(scope, bytes))), total)

    def write(words: Sequence[Index], address: str, bytes: Index) -> None:
        place = _next(scope, cursor, 8 * len(words))
        for k, word in enumerate(words):
            w.store("i64", word, w.at("i64", place, k))
        w.copy(_next(scope, cursor, bytes), address, bytes)

    # twice through the list, so that its words are one piece of memory, made once
    _pieces(scope, source, measure)
    count = w.load("i64", total)
    memory = scope.program.allocated(count)
    w.store("ptr", memory, cursor)
    _pieces(scope, source, write)
    return Array(memory, (w.quotient(count, 8),), int64)


def _pieces(scope: Scope, source: NativeList, take: Callable[[Sequence[Index], str, Index], None]) -> None:
    """`take(words, address, bytes)` for each piece of a list in order: its length, then its items, in a row or one by one."""
    w, items = scope.writer, source.items
    count = lists.length(scope, source)
    if items.form == "u":
        take((count, *(items.dims or ())), lists.address(scope, source), w.multiply(count, lists.stride(scope, items)))
        return
    take((count,), "null", 0)
    with w.loop(count, extra=rolled(scope, count, "")) as i:  # around another, LLVM would write it out
        item = lists.read(scope, source, i)
        if isinstance(item, NativeList):
            _pieces(scope, item, take)
        else:
            assert isinstance(item, Array)
            take(item.dims, item.address, scope.bytes_in(item))
