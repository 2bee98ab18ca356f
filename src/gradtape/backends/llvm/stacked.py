"""Lists as native code makes them: the items are rows of one array, and Python sees items only when it looks."""

from __future__ import annotations

from typing import Any, SupportsIndex

from gradtape.ir.types import TensorSpec
from gradtape.ops.list_values import TensorList


class StackedList(TensorList):
    """A `TensorList` whose items are the rows of `rows`."""

    __slots__ = ("rows",)

    def __init__(self, rows: Any, dtype: Any) -> None:
        super().__init__((), TensorSpec(rows.shape[1:], dtype))
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __bool__(self) -> bool:
        return len(self.rows) > 0

    def __iter__(self) -> Any:
        return iter(self.rows)

    def __reversed__(self) -> Any:
        return iter(self.rows[::-1])

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        return list(self.rows[index]) if isinstance(index, slice) else self.rows[index]

    def __reduce__(self) -> Any:
        return TensorList, (list(self.rows), self.item)

    def __repr__(self) -> str:
        return repr(list(self.rows))

    def __eq__(self, other: object) -> bool:
        return list(self) == other

    __hash__ = None  # type: ignore[assignment]  (as lists)

    @property
    def dtype(self) -> Any:
        return self.rows.dtype

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes)

    @property
    def size(self) -> int:
        return int(self.rows.size)
