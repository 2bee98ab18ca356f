"""Programs that run: `compile_block(block)` gives an `Executable`, a callable from arrays to a tuple of arrays and lists.

The source (`emit.py`) is compiled once and run under one floating-point error state. An error in an `impl` comes out as the
error eager code would raise, with the user's line: in its text, and as the attribute `gradtape_location`. Parameters are
never changed; results may be, or may be views of, parameters, as with any op.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from gradtape.backends.numpy.emit import ProgramSource, SourcePlace, emit
from gradtape.core.dispatch import FAILURES, explained
from gradtape.errors import OpError
from gradtape.ir.dims import substitute
from gradtape.ir.graph import Block, Location, Operation
from gradtape.passes.inplace import pure_op


class Executable:
    """A compiled program: call it with one array (or `TensorList`) per parameter. `source` shows what runs."""

    __slots__ = ("_program", "_run", "instead", "listener", "name")

    def __init__(self, program: ProgramSource, name: str) -> None:
        self.name = name
        self.instead: str | None = None  # why this runs here and not as native code, if that was wanted
        self.listener: Callable[..., None] | None = None
        self._program = program
        # the functions live in closures, not in the namespace: a program is freed at once, without the garbage collector
        program.namespace["__places__"] = program.places  # for who is called from there and names the user's line
        exec(compile(program.source, f"<gradtape {name}>", "exec"), program.namespace)  # noqa: S102  (our own source)
        self._run = program.namespace.pop("build")()

    @property
    def source(self) -> str:
        return self._program.source

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
                results: tuple[Any, ...] = self._run(arrays)
        except Exception as error:  # any impl's: the same, with the user's line
            located = self._located(error)
        else:
            if events and self.listener is not None:
                self.listener(results, *given)
            return results
        raise located  # out here: as its context the error of the impl would keep the frames with all their values

    def listen(self, listener: Callable[..., None]) -> list[int]:
        """Have `listener(results, *arrays)` called after all runs with floating-point events."""
        self.listener = listener
        return [0, 0, 0]

    def _located(self, error: Exception) -> Exception:
        """The error to raise: explained as in eager code, with the location of the operation that raised it."""
        known = self._place_of(error.__traceback__)
        if known is None or "gradtape_location" in error.__dict__:
            return error
        place, local = known
        sizes = {name.removeprefix("size_"): size for name, size in local.items() if name.startswith("size_")}
        values = [local[name] if name in local else self._program.namespace.get(name) for name in place.operands]
        return located(place.operation, values, sizes, error)

    def _place_of(self, traceback: TracebackType | None) -> tuple[SourcePlace, dict[str, Any]] | None:
        """The innermost operation of this program on the way to the error, and the names bound there."""
        # the deepest one: a callee's line is nearer to the cause than that of the call
        innermost = None
        while traceback is not None:
            frame = traceback.tb_frame
            if frame.f_globals is self._program.namespace and traceback.tb_lineno in self._program.places:
                innermost = self._program.places[traceback.tb_lineno], dict(frame.f_locals)
            traceback = traceback.tb_next
        return innermost

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
    return Executable(emit(block, name), name)
