"""How tensors and variables look in a notebook: a line that says what they are, and their numbers as a table.

Only values that are there are shown: a tensor of a program or of a batch has its `repr`. Large ones are cut as NumPy cuts them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape.core.tensor import Readable, Tensor
from gradtape.variables.variable import Variable

_EDGE = 4  # rows and columns shown at each side of a large table


def view(self: Tensor | Readable) -> str:
    """`_repr_html_` of tensors and variables."""
    import html

    tensor = self._tensor if isinstance(self, Variable) else self
    if not isinstance(tensor, Tensor) or tensor.wraps:
        return f"<code>{html.escape(repr(self))}</code>"
    name = f" “{html.escape(self.name)}”" if isinstance(self, Variable) else ""
    head = f"<b>{type(self).__name__}</b>{name} {tuple(tensor.shape)} <i>{tensor.dtype.name}</i>"
    # The array itself: looking must not count as a read that a tape would record.
    data = np.asarray(tensor._data)
    if data.ndim not in (1, 2) or data.dtype.kind == "O":
        return f"<div>{head}<pre style='font-family:monospace'>{html.escape(np.array2string(data, threshold=60))}</pre></div>"
    return f"<div>{head}{_table(data if data.ndim == 2 else data[None])}</div>"


def _table(data: np.ndarray[Any, Any]) -> str:
    rows, columns = (_shown(size) for size in data.shape)
    lines, digits = [], ".5g" if data.dtype.kind in "fc" else ""
    for i in rows:
        cells = ("…" if i is None or j is None else format(data[i, j], digits) for j in columns)
        lines.append("<tr>" + "".join(f"<td style='text-align:right'>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table>{''.join(lines)}</table>"


def _shown(size: int) -> list[int | None]:
    """Positions along an axis; None stands for those that are left out."""
    if size <= 2 * _EDGE + 1:
        return list(range(size))
    return [*range(_EDGE), None, *range(size - _EDGE, size)]


for _cls in (Tensor, Readable):
    _cls._repr_html_ = view  # type: ignore[union-attr]
