"""Lists at the door: how a list is one array while it goes in and out.

A list whose items have one known shape is the array of its rows. Any other is a row of int64 words: for a list of arrays the
number of items, then of each the dims and the data (filled up to whole words); for a list of arrays of one shape the number,
the dims once, and all data; for a list of lists the number, and each list in turn. Native code reads such words where they
are, and Python sees items only when it looks (`PackedList`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.backends.llvm.entry.stacked import LazyList, StackedList
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.list_values import TensorList


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
