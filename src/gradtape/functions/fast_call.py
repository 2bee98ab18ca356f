"""The short way of a call: nothing but plain tensors, nobody records, a program that ran before as native code.

The native entry compares dtypes and shapes itself, so no key is made: what does not fit gives `MISS`, and the call goes the
long way (`engine.py`), which also raises whatever there is to raise. Programs with effects always go the long way: a call that
fails half-way must not print or draw twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.core.tensor import Tensor, box
from gradtape.functions.program import Output, filled
from gradtape.ir.types import ListSpec

MISS: Any = object()


class Quick:
    """How to run one program: `check` (None or whether its guards hold) and `run(args)`."""

    __slots__ = ("check", "run", "traced")

    def __init__(self, traced: Any, run: Callable[[tuple[Any, ...]], Any]) -> None:
        self.traced = traced
        self.check = traced.check
        self.run = run


def quick(traced: Any) -> Quick | None:
    """The short way of a traced program; None if it has none."""
    program = traced.program
    executable = program.compiled._executable
    if getattr(executable, "native", None) is None or traced.constraints or program.has_effects():
        return None
    entry, captures, result, actions = executable.native, program.captures, program.result, program.actions
    count = len(program.block.params) - len(captures)
    if count == 1 and not captures and not actions and result.__class__ is Output and result.number is None:
        return Quick(traced, _one(entry, result.index))

    build = builder(result, [isinstance(value.type, ListSpec) for value in program.block.results])

    def run(args: tuple[Any, ...]) -> Any:
        arrays = []
        for x in args:
            if x.__class__ is not Tensor:
                return MISS
            arrays.append(x._data)
        if len(args) != count or (count > 1 and len({*map(id, args)}) != count):
            return MISS
        for capture in captures:
            value = capture.tensor()
            if value.__class__ is not Tensor:
                return MISS
            arrays.append(value._data)
        found = entry(*arrays)
        if found.__class__ is not tuple:
            return MISS
        outs = [box(a) for a in found]
        for action in actions:
            action(outs, args, None)
        return build(outs)

    return Quick(traced, run if program.exclusive is None else program.exclusive.alone(run))


def builder(template: Any, lists: Sequence[bool]) -> Callable[[Sequence[Any]], Any]:
    """`filled` for one template, as a function without loops; `lists` says which outputs are lists."""
    space: dict[str, Any] = {"filled": filled}

    def text(part: Any) -> str:
        kind = part.__class__
        if kind is Output and part.number is None and not lists[part.index]:
            return f"outs[{part.index}]"
        if kind is list or kind is tuple:
            inside = "".join([text(item) + ", " for item in part])
            return f"[{inside}]" if kind is list else f"({inside})"
        name = f"part{len(space)}"
        space[name] = part
        return name if kind in (str, int, float, bool, type(None)) else f"filled({name}, outs)"

    made: Callable[[Sequence[Any]], Any] = eval(f"lambda outs: {text(template)}", space)  # noqa: S307  (names and numbers)
    return made


def _one(entry: Any, index: int) -> Callable[[tuple[Any, ...]], Any]:
    """One tensor in, one out: the commonest call, and the one whose overhead shows most."""

    def run(args: tuple[Any, ...]) -> Any:
        if len(args) != 1:
            return MISS
        x = args[0]
        if x.__class__ is not Tensor:
            return MISS
        found = entry(x._data)
        if found.__class__ is not tuple:
            return MISS
        tensor = Tensor()
        tensor._data = found[index]
        tensor._node = None
        return tensor

    return run
