"""Backward passes of eager code as machine code: what `ad/straight.py` wrote down and has run often is traced and compiled.

The program's parameters are the values that the records saved and the seeds, its results the cotangents; the rules are those
of the walk, so answers agree to rounding. Attributes, Python numbers and specs are constants of the program, compared before
each run; shapes and dtypes are looked at by its entry. Where something differs, the straight-line code runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType, NoneType
from typing import Any

import numpy as np

from gradtape import config
from gradtape.ad.backward import reverse_walk
from gradtape.ad.binding import BINDINGS, Binding
from gradtape.ad.reverse import trace_value
from gradtape.ad.straight import Unwritable, Wanted
from gradtape.core.record import TRACING, Record, leaf
from gradtape.core.save_plan import Like, expression, save_plan
from gradtape.dtypes import DType, as_dtype
from gradtape.functions.stages import executable, traced_program
from gradtape.ir.graph import Block
from gradtape.ir.types import TensorSpec
from gradtape.trace.tracing import Trace, params_of, tracing

PLAIN = (int, float, complex, str, NoneType, EllipsisType, np.dtype, DType, slice, type)
ARRAYS = (np.ndarray, np.float32, np.float64)
PATIENCE = 32  # runs in which a program could not answer, and that were not fewer than those in which it could
Read = Callable[[Sequence[Record]], tuple[Any, ...] | None]


class _ReadValues:
    """What a program is called with, as Python source that reads it off the records `R`; and what must be as it was."""

    def __init__(self) -> None:
        self.types: dict[str, TensorSpec] = {}  # of the parameters, by their source
        self.space: dict[str, Any] = {}  # the constants, by name
        self._guards: list[str] = []
        self._places: dict[tuple[Any, int], int] = {}  # by version and the array itself

    def constant(self, text: str, value: Any) -> None:
        """A value that the program is made for."""
        if not _is_plain(value):
            raise Unwritable
        self._guards.append(f"{text} == k{len(self._guards)}")
        self.space[f"k{len(self.space)}"] = value

    def saved(self, text: str, value: Any, version: Record | None) -> Any:
        """The number of an array among the parameters, as a list; anything else is a constant, itself."""
        if value.__class__ not in ARRAYS:
            self.constant(text, tuple(value) if value.__class__ is Like else value)
            return value
        key = (version or text, id(value))
        if key not in self._places:
            self._places[key] = len(self.types)
            self.types[text] = TensorSpec(value.shape, as_dtype(value.dtype))
        return [self._places[key]]

    def reader(self) -> Read:
        """records → the arrays; None where a constant is another."""
        values = "".join([f"{text}, " for text in self.types])
        read: Read = expression(f"lambda R: ({values}) if {' and '.join(self._guards) or True} else None", self.space)
        return read


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return all(map(_is_plain, value)) if isinstance(value, (tuple, list)) else isinstance(value, PLAIN)


class LearnedWalk:
    """One backward pass as a program."""

    __slots__ = ("_entry", "_program", "_read", "hits", "misses")

    def __init__(self, program: Any, read: Read) -> None:
        self._program, self._entry, self._read = program, program.native, read
        self.hits = self.misses = 0

    def answer(self, records: Sequence[Record], seeds: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What the straight-line code gives; None where something is not as it was."""
        values = self._read(records)
        answers = None if values is None else self._entry(*values, *seeds)
        if answers.__class__ is tuple:
            self.hits += 1
            return answers
        self.misses += 1
        return None

    def useless(self) -> bool:
        """Whether its records differ so often that nobody should ask it again."""
        return self.misses > PATIENCE and self.misses >= self.hits


def learned(
    records: Sequence[Record], seeds: Mapping[Record, Any], wanted: Wanted, path: Sequence[Record], pulls: Binding
) -> LearnedWalk | None:
    """The program of a walk along `path`; None where there is none."""
    if config.eager_records() is None or pulls.boxed or TRACING.get() is not None:
        return None
    values = _ReadValues()
    try:
        program = executable(traced_program(_traced(values, records, seeds, wanted, set(path), pulls)), "backward")
    except Unwritable:
        return None
    except Exception as error:
        # a defect of ours, which must be seen; but the straight-line code gives the same gradients, so the program goes on
        warnings.warn(f"a backward pass could not be compiled, please report it: {type(error).__name__}: {error}", stacklevel=2)
        return None
    return LearnedWalk(program, values.reader()) if getattr(program, "can_be_kept", False) else None


def _traced(
    values: _ReadValues, records: Sequence[Record], seeds: Mapping[Record, Any], wanted: Wanted, path: set[Record],
    pulls: Binding,
) -> Block:  # fmt: skip
    """The walk on traced tensors, through records that stand for those of the tape."""
    twins: dict[Record | None, Any] = {None: None}
    for place, record in enumerate(records):
        nodes = () if record.op is None else record.nodes
        for node in nodes:
            if node not in twins:  # none of these records made it: a leaf of the walk, whatever made it
                assert node is not None
                twins[node] = leaf((), node.shape)
        origin = tuple([twins[node] for node in nodes])
        twins[record] = twin = leaf((), record.shape, origin, record.op, record.attrs, record.code, record.lasti)
        if record in path:
            values.constant(f"R[{place}].attrs", record.attrs)
            versions = (*record.nodes, record)  # the output is entry -1
            twin.saved = tuple([
                values.saved(f"R[{place}].saved[{k}]", value, versions[save_plan(record.op).entries[k][0]])
                for k, value in enumerate(record.saved)
            ])  # fmt: skip
    for node in (*wanted, *seeds):
        twins.setdefault(node, leaf((), node.shape))
    block = Block(
        [*values.types.values(), *[TensorSpec(np.shape(s), as_dtype(s.dtype)) for s in seeds.values()]], name="backward"
    )
    trace = Trace(block)
    with tracing(trace):
        params = params_of(block)
        for record in path:
            twin = twins[record]
            twin.saved = tuple([params[value[0]] if value.__class__ is list else value for value in twin.saved])
        carried = {twins[node]: param for node, param in zip(seeds, params[len(values.types) :], strict=True)}
        sources = {twins[node]: None for node in wanted}
        answers = reverse_walk([twins[r] for r in records], carried, sources, BINDINGS[True, False, pulls.cut], real=True)
    return block.give(values=[trace_value(trace, answers[node]) for node in sources if node in answers])
