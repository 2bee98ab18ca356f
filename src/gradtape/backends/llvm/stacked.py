"""Lists as native code makes them: one array has all items, and Python sees items only when it looks."""

from __future__ import annotations

from typing import Any, SupportsIndex

from gradtape.ir.types import TensorSpec
from gradtape.ops.list_values import TensorList


class LazyList(TensorList):
    """A `TensorList` whose items are made when somebody looks at them: by `made`, once."""

    __slots__ = ("_items",)

    def __init__(self, values: Any = (), item: Any = None) -> None:
        super().__init__(values, item)
        self._items: Any = None

    def made(self) -> Any:
        """The items, as something that can be indexed."""
        raise NotImplementedError

    @property
    def values(self) -> Any:
        if self._items is None:
            self._items = self.made()
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

    __slots__ = ("rows",)

    def __init__(self, rows: Any, dtype: Any) -> None:
        super().__init__((), TensorSpec(rows.shape[1:], dtype))
        self.rows = rows

    def made(self) -> Any:
        return self.rows

    @property
    def dtype(self) -> Any:
        return self.rows.dtype

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes)

    @property
    def size(self) -> int:
        return int(self.rows.size)
