"""Recorders that stand in for tapes while a function runs unrecorded: what it captures, and the values its variables had.

`recompute_grad` keeps nothing of a run but must know, to repeat it, which watched versions it read besides its arguments.
The records made here live only as long as the run. Invariant: a tape never lists a record a stand-in made for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradtape.core.record import Record, Recorder, RecordList, TapeKey
from gradtape.core.tensor import Tensor, box


class VariableValues(Recorder):
    """A recorder that records nothing: it notes each variable read and the value at its first reading."""

    __slots__ = ("first", "key", "level", "records", "slow")

    def __init__(self) -> None:
        self.key = TapeKey(holds=True)  # no version ever carries it
        self.records = RecordList()
        self.level = 0
        self.slow = True
        self.first: dict[int, tuple[Any, Tensor]] = {}

    def watches(self, variable: Any) -> bool:
        self.first.setdefault(id(variable), (variable, variable._tensor))
        return False

    def now_watched(self, variable: Any) -> None:
        """The first version got an identity: a rerun must read it under that identity."""
        if self.first[id(variable)][1]._data is variable._tensor._data:
            self.first[id(variable)] = (variable, variable._tensor)

    def finish(self, stand_ins: Sequence[StandInRecorder]) -> None:
        """What the run assigned becomes constants: its records are about to go."""
        own = {record for stand_in in stand_ins for record in stand_in.records}
        for variable, _ in self.first.values():
            if variable._tensor._node in own:
                variable._tensor = box(variable._tensor._data)

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Variables as they were at the first reading; whatever is assigned meanwhile is undone."""
        now = [(variable, variable._tensor) for variable, _ in self.first.values()]
        for variable, old in self.first.values():
            variable._tensor = old
        try:
            yield
        finally:
            for variable, tensor in now:
                variable._tensor = tensor


class StandInRecorder(Recorder):
    """Stands in for a tape: its versions are recognised, the records stay here."""

    __slots__ = ("key", "level", "records", "slow", "tape", "values")

    def __init__(self, tape: Any, values: VariableValues) -> None:
        self.tape = tape
        self.key = tape.key
        self.level = tape.level
        self.slow = False
        self.records = RecordList()
        self.values = values

    def watches(self, variable: Any) -> bool:
        self.values.watches(variable)
        return bool(self.tape.watches(variable))

    def add_version(self, variable: Any, node: Record) -> None:
        self.tape.add_version(variable, node)
        self.values.now_watched(variable)


def captured_versions(stand_ins: Sequence[StandInRecorder], inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Record]:
    """The versions that were read, or returned, but neither made by the run nor given to it."""
    own = {record for stand_in in stand_ins for record in stand_in.records}
    given = {node for x in inputs for node in _identities(x)}
    keys = {stand_in.key for stand_in in stand_ins}
    read = (node for stand_in in stand_ins for record in stand_in.records for node in record.nodes)
    returned = (node for output in outputs for node in _identities(output))
    return [
        node
        for node in dict.fromkeys((*read, *returned))
        if node is not None and node not in own and node not in given and not keys.isdisjoint(node.keys)
    ]


def _identities(value: Any) -> Iterator[Record]:
    """The records of a tensor and, for a wrapper, of what it wraps."""
    while isinstance(value, Tensor):
        if value._node is not None:
            yield value._node
        value = value._data
