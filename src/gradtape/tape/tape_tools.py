"""The questions a tape answers about itself: methods of `GradientTape` that call the tools (`core/observers.py` finds them)."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any, overload

from gradtape.core.hinting import shown_as
from gradtape.core.observers import TOOLS, TapeObserver
from gradtape.core.tensor import Readable, Tensor
from gradtape.tree import Structure

if TYPE_CHECKING:  # nothing needs it at run time
    from gradtape.tape.answers import CheckResultLike, ExplanationLike, NanReportLike, PictureLike, ProfileLike


@shown_as("GradientTape")
class ToolMethods:
    """Mixed into `GradientTape`: the questions a tape answers about itself."""

    __slots__ = ()
    if TYPE_CHECKING:
        _observers: list[TapeObserver]
        slow: bool

    @overload
    def explain(self, target: Structure, source: Tensor | Readable) -> ExplanationLike: ...
    @overload
    def explain(self, target: Structure, source: Structure) -> Any: ...
    def explain(self, target: Structure, source: Structure) -> Any:
        """Why the gradient of `target` with respect to `source` is what it is: one cause, the line, and the cure.

        The answer has `cause` ("connected" when there is a gradient), `location` ("file.py:12" or None) and `message`.
        For a structure of sources the answer has the same structure. It may be asked before or after `gradient`, also of a
        one-shot tape that was used up.

        >>> x = gt.constant(3.0)
        >>> with gt.GradientTape() as tape:
        ...     y = x * x
        >>> print(tape.gradient(y, x))
        None
        >>> tape.explain(y, x).cause
        'not_watched'
        """
        return TOOLS["explain"](self, target, source)

    def nan_report(self) -> NanReportLike | None:
        """Where the first NaN or infinity came from, forward or backward; None when what was asked for is finite.

        The answer has `phase` ("forward" or "backward"), `op`, `location` ("file.py:12"), `indices` and `inputs` (the values
        behind them); printed, it is a few lines with the cure. Lanes that a `where` masks are not to blame. It may be asked
        after `gradient`, also of a one-shot tape; before, it looks at everything the tape computed. Where a constant was not
        kept, it says so and names the operation at or after it; `GradientTape(debug=True)` keeps everything.

        >>> x = gt.Variable([4.0, 0.0])
        >>> with gt.GradientTape() as tape:
        ...     y = gt.reduce_sum(gt.sqrt(x))
        >>> tape.gradient(y, x).numpy()
        array([0.25,  inf], dtype=float32)
        >>> report = tape.nan_report()
        >>> report.phase, report.op, report.indices
        ('backward', 'sqrt', ((1,),))
        """
        return TOOLS["nan_report"](self)

    def profile(self) -> ProfileLike:
        """Time and saved bytes by line of the user's code, of a tape made with `GradientTape(profile=True)`.

        The answer prints as a table and shows as one in a notebook; `rows` has the same as data, the slowest first: location,
        op, count, forward and backward seconds, bytes kept for the backward pass, share. What no operation accounts for is a
        row of its own, so the rows add up.

        >>> x = gt.Variable([1.0, 2.0])
        >>> with gt.GradientTape(profile=True) as tape:
        ...     y = gt.reduce_sum(gt.sin(x) * x)
        >>> gradient = tape.gradient(y, x)
        >>> sorted((row.op, row.count) for row in tape.profile().rows)
        [('Python and the rest', 0), ('multiply', 1), ('reduce_sum', 1), ('sin', 1)]

        Raises:
            FailedPreconditionError: for a tape made without `profile=True`.
        """
        return TOOLS["profile"](self)

    def check(self, target: Structure, sources: Structure) -> CheckResultLike:
        """Compare the gradient of this very run with finite differences, on a tape made with `GradientTape(debug=True)`.

        The record is repeated in float64. The answer is true in a condition when nothing is wrong; printed, it names the
        operations whose derivative is off, with their lines. `rows` has one entry per operation and line, `sources` one for
        each source.

        >>> @gt.custom_gradient
        ... def cube(x):
        ...     return x * x * x, lambda upstream: upstream * 2.0 * x * x
        >>> x = gt.Variable(2.0)
        >>> with gt.GradientTape(debug=True) as tape:
        ...     y = gt.sin(cube(x))
        >>> result = tape.check(y, x)
        >>> result.ok, [row.op for row in result.wrong]
        (False, ['custom gradient `cube`'])

        Raises:
            FailedPreconditionError: for a tape made without `debug=True`, or when something cannot be repeated.
        """
        return TOOLS["check"](self, target, sources)

    def picture(self, path: str | PathLike[str] | None = None, target: Structure = None) -> PictureLike:
        """The recorded graph as one self-contained HTML page, written to `path` when one is given.

        The answer has `html`, `save(path)`, `text()`, `dot()` and `json()`; a notebook shows it. Loops are folded. A one-shot
        tape that was used up still has its structure; values and gradients are shown while the tape has them.

        >>> x = gt.Variable(3.0, name="x")
        >>> with gt.GradientTape() as tape:
        ...     y = gt.sin(x) * 2.0
        >>> print(tape.picture().text())
        tape: 2 operations, 1 variable, 4 B saved
        ├─ sin ()  ...  from x
        └─ multiply ()  ...  from sin, ·  ← target

        Args:
            path: where to write the page.
            target: the tensor (or structure) whose gradients are shown; by default the last value, if it is a scalar.

        Raises:
            OSError: when the page cannot be written there.
            RuntimeError: when the tape is closed.
        """
        return TOOLS["picture"](self, path, target)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return str(TOOLS["repr_html"](self))

    def add_observer(self, observer: TapeObserver) -> None:
        """Tell a `TapeObserver` what this tape does from now on; to be called before the block is entered."""
        self._observers.append(observer)
        self.slow = True  # type: ignore[misc]  # a slot of the tape's
