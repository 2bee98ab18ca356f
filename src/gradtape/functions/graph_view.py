"""What `ConcreteFunction.graph` shows: the program of a trace under the names of TensorFlow's graphs, to look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.ir.walk import walk


class GraphOperation:
    """One operation of a program: its number among those of its kind makes its name."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"<gt.Operation '{self.name}' type={self.type}>"


class GraphView:
    """The program of a concrete function: its inputs, outputs and operations, those inside loops and branches included."""

    def __init__(self, name: str, block: Any, inputs: Sequence[Any], outputs: Sequence[Any], variables: Sequence[Any]) -> None:
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.variables = tuple(variables)
        self._block = block

    def get_operations(self) -> list[GraphOperation]:
        """All operations, in order."""
        counts: dict[str, int] = {}
        operations = []
        for operation in walk(self._block):
            kind = operation.op.name
            counts[kind] = counts.get(kind, -1) + 1
            operations.append(GraphOperation(f"{kind}_{counts[kind]}" if counts[kind] else kind, kind))
        return operations

    def __repr__(self) -> str:
        return f"<gt graph of {self.name}, {len(self.get_operations())} operations>"
