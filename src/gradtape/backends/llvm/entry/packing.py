"""Lists at the door: how a list is one array while it goes in and out.

A list whose items have one known shape is the array of its rows. Any other is a row of int64 words: for a list of arrays the
number of items, then of each the dims and the data (filled up to whole words); for a list of arrays of one shape the number,
the dims once, and all data; for a list of lists the number, and each list in turn. Native code reads such words where they
are, and Python sees items only when it looks (`PackedList`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.backends.llvm.entry.stacked import LazyList, StackedList
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
from gradtape.ops.list_values import TensorList

PACKED = TensorSpec([symbol("packed")], int64)  # what carries a list that is no array of rows


def carrier(type: Any, fixed: frozenset[str]) -> Any:
    """The type of what is passed for a value of a type."""
    # tensors, and lists of one shape, are arrays to Python already
    return PACKED if form(type, fixed) not in ("", "u") else type


# -- the native side


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


# -- the Python side


class PackedList(LazyList):
    """A list in words, which are read when Python looks at an item."""

    __slots__ = ("how", "type", "words")

    def __init__(self, words: Any, type: ListSpec, how: str) -> None:
        super().__init__()
        self.words = words
        self.type = type
        self.how = how

    def unpacked(self) -> list[Any]:
        items, _ = _read(self.words, 0, self.type, self.how)
        return list(items)

    def item_type(self) -> Any:
        return _plain(self.type.item)

    # What a record asks of every value that it keeps is said without reading the items: they are for the next program.

    def __len__(self) -> int:
        return int(self.words[0])

    @property
    def dtype(self) -> Any:
        item: Any = self.type.item
        while isinstance(item, ListSpec):
            item = item.item
        return item.dtype.dtype

    @property
    def nbytes(self) -> int:
        return int(self.words.nbytes)


def _plain(type: Any) -> Any:
    """A type without the symbols of a program."""
    if isinstance(type, ListSpec):
        return ListSpec(_plain(type.item))
    return TensorSpec([size if isinstance(size, int) else None for size in type.shape], type.dtype)


def _read(words: Any, at: int, type: ListSpec, how: str) -> tuple[TensorList, int]:
    """The list at a word, and the word behind it."""
    count = int(words[at])
    at += 1
    items: list[Any] = []
    if how[0] == "l":
        assert isinstance(type.item, ListSpec)
        for _ in range(count):
            inner, at = _read(words, at, type.item, how[1:])
            items.append(inner)
        return TensorList(items, _plain(type.item)), at
    kind, rank = type.item.dtype.dtype, len(type.item.shape)
    if how == "u":
        shape = (count, *[int(n) for n in words[at : at + rank]])
        rows, at = _array(words, at + rank, shape, kind)
        return TensorList(list(rows), TensorSpec(shape[1:], type.item.dtype)), at
    for _ in range(count):
        shape = tuple(int(n) for n in words[at : at + rank])
        array, at = _array(words, at + rank, shape, kind)
        items.append(array)
    return TensorList(items, _plain(type.item)), at


def _array(words: Any, at: int, shape: tuple[int, ...], kind: Any) -> tuple[Any, int]:
    size = int(np.prod(shape, dtype=np.int64))
    end = at + -(-size * kind.itemsize // 8)
    return words[at:end].view(kind)[:size].reshape(shape)[()], end


def pack(value: Any, type: ListSpec, how: str) -> Any:
    """The words of a list of arrays or lists."""
    # from one program to the next, never looked at: nothing is unpacked or packed
    if isinstance(value, PackedList) and value.how == how:
        return value.words
    parts: list[Any] = []
    _collect(value, type, how, parts)
    return np.concatenate(parts)


def _collect(value: Any, type: ListSpec, how: str, parts: list[Any]) -> None:
    parts.append(np.array([len(value)], np.int64))
    if how[0] == "l":
        assert isinstance(type.item, ListSpec)
        for inner in value:
            _collect(inner, type.item, how[1:], parts)
        return
    kind = type.item.dtype.dtype
    if how == "u":
        table = rows(value, type)
        parts += [np.array(table.shape[1:], np.int64), _words(table)]
        return
    for item in value:
        array = np.ascontiguousarray(item, kind)
        parts += [np.array(np.shape(item), np.int64), _words(array)]


def _words(array: Any) -> Any:
    raw = np.zeros(-(-array.nbytes // 8) * 8, np.uint8)
    raw[: array.nbytes] = array.reshape(-1).view(np.uint8)
    return raw.view(np.int64)


def rows(value: Any, type: ListSpec) -> Any:
    """The items of a list of one shape as one array; a placeholder, which is never read, may have any shape."""
    kind = type.item.dtype.dtype
    if isinstance(value, StackedList):
        return np.ascontiguousarray(value.rows)
    shapes = [np.shape(item) for item in value]
    wanted = max(shapes, key=lambda shape: int(np.prod(shape, dtype=np.int64)), default=None)
    if wanted is None:
        wanted = tuple(size if isinstance(size, int) else 0 for size in type.item.shape)
    table = np.zeros((len(shapes), *wanted), kind)
    for row, (item, shape) in enumerate(zip(value, shapes, strict=True)):
        if shape == wanted:
            table[row] = item
    return table
