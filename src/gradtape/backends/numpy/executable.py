"""Programs that run: `compile_block(block)` gives an `Executable`, a callable from arrays to a tuple of arrays and lists.

A program (`emit.py`) runs under one floating-point error state. An error in an `impl` comes out as the error eager code would
raise, with the user's line: in its text, and as the attribute `gradtape_location`. Parameters are never changed; results may
be, or may be views of, parameters, as with any op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape.backends.numpy.emit import ProgramSource, Told
from gradtape.core.dispatch import FAILURES, explained
from gradtape.errors import OpError
from gradtape.ir.dims import substitute
from gradtape.ir.graph import Block, Location, Operation
from gradtape.passes.inplace import pure_op


class Executable:
    """A program: call it with one array (or `TensorList`) per parameter."""

    __slots__ = ("_places", "_run", "instead", "listener", "name")

    def __init__(self, block: Block, name: str, told: Told | None = None) -> None:
        self.name = name
        self.instead: str | None = None  # why this runs here and not as native code, if that was wanted
        self.listener: Callable[..., None] | None = None
        program_source = ProgramSource(block, name, told)
        run = program_source.function(block)
        self._run: Callable[[list[Any]], Sequence[Any]] = lambda arrays: run(arrays, {})
        self._places = program_source.places

    def report(self) -> list[str]:
        """Lines for `explain`."""
        return [f"{self.name} runs on NumPy, operation by operation" + (f": {self.instead}" if self.instead else "")]

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        return self.run(list(arrays))

    def run(self, arrays: list[Any]) -> tuple[Any, ...]:
        """Run on the arrays in the list, and empty the list: who keeps no other reference lets the program free them."""
        events: list[int] = []
        given = list(arrays) if self.listener is not None else ()
        try:
            with np.errstate(all="call", under="ignore", call=lambda _, flag: events.append(flag)):
                results = tuple(self._run(arrays))
        except Exception as error:  # any impl's: the same, with the user's line
            told = self._located(error)
        else:
            if events and self.listener is not None:
                self.listener(results, *given)
            return results
        raise told  # out here: as its context the error of the impl would keep the frames with all their values

    def listen(self, listener: Callable[..., None]) -> list[int]:
        """Have `listener(results, *arrays)` called after all runs with floating-point events."""
        self.listener = listener
        return [0, 0, 0]

    def _located(self, error: Exception) -> Exception:
        """The error to raise: explained as in eager code, with the location of the innermost operation on the way to it."""
        innermost, traceback = None, error.__traceback__
        while traceback is not None:
            frame = traceback.tb_frame
            if (places := self._places.get(frame.f_code)) is not None and (place := places[traceback.tb_lineno - 1]):
                innermost = place, {**frame.f_globals, **frame.f_locals}
            traceback = traceback.tb_next
        if innermost is None or "gradtape_location" in error.__dict__:
            return error
        (operation, operands), names = innermost
        return located(operation, [names.get(name) for name in operands], names["sizes"], error)

    def __repr__(self) -> str:
        return f"<executable {self.name}>"


def located(operation: Operation, values: Sequence[Any], sizes: Mapping[str, Any], error: Exception) -> Exception:
    """What an operation raised on these values, as eager code would say it, with the user's line."""
    if operation.op.effect:  # the user's own words (print, assert, a Python function): not ours to change
        return _noted(error, operation.loc)
    if not isinstance(error, FAILURES) and not isinstance(error, OpError):
        return _noted(error, operation.loc)
    attrs = {key: substitute(attr, sizes) for key, attr in operation.attrs.items() if not isinstance(attr, Block)}
    said = explained(pure_op(operation.op), values, attrs, error)
    if operation.loc is not None:
        said.args = (f"{said}, at {operation.loc}", *said.args[1:])
    return _noted(said.with_traceback(None), operation.loc)


def _noted(error: Exception, loc: Location | None) -> Exception:
    error.gradtape_location = loc  # type: ignore[attr-defined]
    if loc is not None and str(loc) not in str(error):
        error.add_note(f"at {loc}")
    return error


def compile_block(block: Block, name: str = "f") -> Executable:
    """The program of a block: call it with its parameters in order, it gives its results in order.

    >>> from gradtape.ir.graph import Block, Operation
    >>> from gradtape.ir.types import TensorSpec
    >>> from gradtape.ops.elementwise import MULTIPLY
    >>> block = Block([TensorSpec((2,), "float64")], ["x"])
    >>> x, = block.params
    >>> square = block.append(Operation(MULTIPLY, [x, x], [x.type]))
    >>> program = compile_block(block.give(outputs=square.results))
    >>> program(np.array([1.0, 3.0]))
    (array([1., 9.]),)
    """
    return Executable(block, name)
