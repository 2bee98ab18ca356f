"""Lists as native code makes them: one array has all items, and Python sees items only when it looks."""

from __future__ import annotations

from typing import Any, SupportsIndex

from gradtape.ir.types import TensorSpec
from gradtape.ops.list_values import TensorList


class LazyList(TensorList):
    """A `TensorList` whose items, and their type, are made when somebody looks at them: by `made` and `item_type`, once."""

    __slots__ = ("_items", "_type")

    def __init__(self) -> None:
        self._items: Any = None
        self._type: Any = None

    def unpacked(self) -> Any:
        """The items, as something that can be indexed."""
        raise NotImplementedError

    def item_type(self) -> Any:
        """The type of the items."""
        raise NotImplementedError

    @property
    def item(self) -> Any:
        if self._type is None:
            self._type = self.item_type()
        return self._type

    @property
    def values(self) -> Any:
        if self._items is None:
            self._items = self.unpacked()
        return self._items

    def __len__(self) -> int:
        return len(self.values)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Any:
        return iter(self.values)

    def __reversed__(self) -> Any:
        return iter(self.values[::-1])

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        return list(self.values[index]) if isinstance(index, slice) else self.values[index]

    def __reduce__(self) -> Any:
        return TensorList, (list(self.values), self.item)

    def __repr__(self) -> str:
        return repr(list(self.values))

    def __eq__(self, other: object) -> bool:
        return list(self) == other

    __hash__ = None  # type: ignore[assignment]


class StackedList(LazyList):
    """A list whose items are the rows of one array."""

    __slots__ = ("_dtype", "rows")

    def __init__(self, rows: Any, dtype: Any) -> None:
        super().__init__()
        self.rows = rows
        self._dtype = dtype

    def unpacked(self) -> Any:
        return self.rows

    def item_type(self) -> Any:
        return TensorSpec(self.rows.shape[1:], self._dtype)

    @property
    def dtype(self) -> Any:
        return self.rows.dtype

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes)

    @property
    def size(self) -> int:
        return int(self.rows.size)
