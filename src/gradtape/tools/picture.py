"""`tape.picture()`: the recorded graph as a page, a text, a DOT file or data.

A `Picture` is a snapshot: it keeps what it shows and nothing of the tape. What is shown is decided in `picture_model.py`.
"""

from __future__ import annotations

import functools
import json
from os import PathLike
from typing import Any

from gradtape import tree
from gradtape.core.tensor import Tensor
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools import picture_page
from gradtape.tools.picture_model import Model, models
from gradtape.tools.picture_text import dot, outline
from gradtape.tree import Structure
from gradtape.variables.variable import Variable


class Picture:
    """The graph of a tape at the moment it was asked. In a notebook it shows itself.

    Attributes:
        path: where the page was written, None if it was not.
    """

    def __init__(self, whole: Model, folded: Model) -> None:
        self._whole = whole
        self._folded = folded
        self.title = whole.title
        self.path: str | None = None

    @functools.cached_property
    def html(self) -> str:
        """The page: one self-contained HTML document."""
        return picture_page.picture_page(self._whole.data, self.text(), self.title)

    def save(self, path: str | PathLike[str]) -> Picture:
        """Write the page; the file appears whole or not at all.

        Raises:
            OSError: when the path cannot be written, with the reason.
        """
        self.path = picture_page.write(path, self.html)
        return self

    def text(self) -> str:
        """The graph as an indented list, one line per operation; loops once, with their count."""
        return outline(self._folded)

    def dot(self) -> str:
        """The graph in the DOT language of Graphviz; loops once, functions as clusters."""
        return dot(self._folded, self.title)

    def json(self) -> str:
        """The data of the picture: nodes, edges, groups and source lines (the format is in docs/howto/picture_and_run.md)."""
        return json.dumps(self._whole.data, ensure_ascii=False, allow_nan=False)

    @property
    def folded_data(self) -> dict[str, Any]:
        """The data of the folded graph: the same as `data` for a long tape, smaller for a short one."""
        return self._folded.data

    @property
    def data(self) -> dict[str, Any]:
        """The same as `json()`, as Python objects."""
        return self._whole.data

    def _repr_html_(self) -> str:
        return picture_page.notebook_frame(self.html, min(560, 160 + 70 * len(self._folded.data["nodes"])))  # small if few

    def __repr__(self) -> str:
        where = f", written to {self.path}" if self.path else ""
        return f"<picture of {self._whole.data['tape']['records']} operations{where}>"

    def __str__(self) -> str:
        return self.text()


def picture(tape: GradientTape, path: str | PathLike[str] | None = None, target: Structure = None) -> Picture:
    """See `GradientTape.picture`."""
    tape._usable("picture")
    if path is not None:
        picture_page.checked(path)  # before the work
    targets = [] if target is None else tree.flatten(target)
    for one in targets:
        if not isinstance(one, (Tensor, Variable)):
            raise TypeError(
                f"picture: the target must be a tensor, or a structure of tensors, got {one!r} of type {type(one).__name__}"
            )
    drawn = Picture(*models(tape, targets))
    return drawn if path is None else drawn.save(path)


def repr_html(tape: GradientTape) -> str:
    """What a notebook shows for a tape: its picture; of a closed tape, a sentence."""
    if tape._closed:
        return "<p>A closed GradientTape: it holds nothing any more.</p>"
    return picture(tape)._repr_html_()
