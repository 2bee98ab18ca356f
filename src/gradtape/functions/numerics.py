"""`debugging.enable_check_numerics`: stop at the line where a value first becomes NaN or infinite.

While it is on, every operation that runs is looked at (a watcher of `core/dispatch.py`), compiled functions run operation by
operation, and a gradient that is not finite raises its NaN report. Off, nothing is looked at. The words are the tools'.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import _getframe
from typing import Any

import numpy as np

from gradtape.ad.backward import reverse_walk
from gradtape.ad.evaluation import LocatedEvaluation, Sizes
from gradtape.ad.forward import jvp_of
from gradtape.core import batching
from gradtape.core.dispatch import RUNNERS, WATCHERS
from gradtape.core.observers import TOOLS
from gradtape.core.opdef import Op
from gradtape.core.record import user_frame
from gradtape.errors import InvalidArgumentError
from gradtape.ir.graph import Location, Operation


def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Raise `InvalidArgumentError` at the operation that makes a NaN or an infinity out of finite values.

    It holds for the whole process, eager code and compiled functions, and for gradients, until `disable_check_numerics()`.
    Everything runs slower meanwhile. A lane that a later `where` would drop raises too: choose before computing.
    The two limits are TensorFlow's; tracebacks are Python's here.

    >>> gt.debugging.enable_check_numerics()
    >>> try:
    ...     gt.math.log(gt.constant([1.0, 0.0]))
    ... except gt.errors.InvalidArgumentError as error:
    ...     print(str(error).splitlines()[0])
    ... finally:
    ...     gt.debugging.disable_check_numerics()
    check_numerics: log gave a value that is not finite
    """
    if _look not in WATCHERS:
        WATCHERS.append(_look)
        WATCHERS.quiet = True
        RUNNERS.insert(0, _plainly)


def disable_check_numerics() -> None:
    """End what `enable_check_numerics` began; harmless when nothing was enabled.

    >>> gt.debugging.disable_check_numerics()
    """
    if _look in WATCHERS:
        WATCHERS.remove(_look)
        WATCHERS.quiet = False
        RUNNERS.remove(_plainly)


def _plainly(program: Any, arrays: Sequence[Any]) -> tuple[Any, ...]:
    """A runner that only keeps calls from taking a way where nobody looks."""
    results: tuple[Any, ...] = program._executable(*arrays)
    return results


def checking() -> bool:
    """Whether numbers are checked now."""
    return _look in WATCHERS


def _look(op: Op, inputs: Sequence[Any], attrs: dict[str, Any], result: Any, seconds: float) -> None:
    """Called by dispatch after each operation."""
    outs = result if result.__class__ is tuple else (result,)
    if all(finite(out) for out in outs):
        return
    numbers = [x for x in inputs if _kind(x) in "fcV"]
    if not numbers or not _new(op, numbers, outs) or _in_a_rule():
        return
    frame = user_frame(1)
    where = Location(frame.f_code.co_filename, frame.f_lineno)
    raise NonFiniteError(op, inputs, outs, where)


def _in_a_rule() -> bool:
    """Whether a derivative is being computed: an infinite partial on a masked lane is cleaned afterwards, and what a
    gradient gives in the end is looked at when it is there."""
    frame: Any = _getframe()
    while frame is not None:
        if frame.f_code in _RULES:
            return True
        frame = frame.f_back
    return False


_RULES = (reverse_walk.__code__, jvp_of.__code__)


class NonFiniteError(InvalidArgumentError):
    """An operation made a NaN or an infinity while numbers were checked."""

    def __init__(self, op: Op, inputs: Sequence[Any], outs: Sequence[Any], where: Location | None) -> None:
        self._facts = (op, tuple(inputs), tuple(outs))
        super().__init__(TOOLS["non_finite"](op, inputs, outs, where))

    def at(self, where: Location) -> NonFiniteError:
        """The same at another line."""
        return NonFiniteError(*self._facts, where)


def _kind(value: Any) -> str:
    return str(np.asarray(value).dtype.kind) if not isinstance(value, list) else "O"


def finite(value: Any) -> bool:
    """Whether all numbers of an array or list are finite."""
    if isinstance(value, list):
        return all(finite(item) for item in value)
    return _kind(value) not in "fcV" or bool(np.isfinite(value).all())


def _new(op: Op, numbers: Sequence[Any], outs: Sequence[Any]) -> bool:
    """Whether some element is non-finite that no non-finite input accounts for."""
    if all(finite(x) for x in numbers):
        return True
    if batching.rule_of(op) is not batching.elementwise:
        return False
    old = np.zeros(np.shape(outs[0]), bool)
    for x in numbers:
        if np.broadcast_shapes(np.shape(x), old.shape) != old.shape:
            return False
        old = old | ~np.isfinite(x)
    return bool((~np.isfinite(outs[0]) & ~old).any())


class CheckedEvaluation(LocatedEvaluation):
    """A program run operation by operation: what it makes non-finite is reported at the operation's own line."""

    def step(self, operation: Operation, operands: list[Any], sizes: Sizes) -> Sequence[Any]:
        """One operation."""
        try:
            return super().step(operation, operands, sizes)
        except NonFiniteError as error:
            if operation.loc is None or operation.op.kind == "region":
                raise
            located = error.at(operation.loc)
        raise located
