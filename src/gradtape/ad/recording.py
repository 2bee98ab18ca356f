"""A bare recorder for transforms inside the library: watches what it is told, keeps records, walks back.

`GradientTape` is the user's recorder with its modes and messages; this one has none. It is used to transpose rules, to
differentiate captured variables of custom gradients, and to rerun what was not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gradtape.ad.backward import Step, gradients
from gradtape.core.hooks import HOOKS
from gradtape.core.record import REPLICATED, Record, Recorder, RecordList, TapeKey, current_scope, leaf, past_of_leaf, scope_of
from gradtape.core.tensor import Tensor, box
from gradtape.ops.collective import MESSAGES
from gradtape.ops.create import zeros
from gradtape.trace.tracing import lift


class Recording(Recorder):
    """Records operations on the tensors given to `watched` and, if asked, on every variable that is read."""

    __slots__ = ("catch_variables", "kept", "key", "level", "records", "slow", "variables")

    def __init__(self, catch_variables: bool = False) -> None:
        self.key = TapeKey(holds=True)
        self.records = RecordList()
        self.slow = False
        self.level = 0
        self.catch_variables = catch_variables
        self.variables: dict[int, tuple[Any, list[Record]]] = {}
        self.kept: list[Record] = []  # versions it watches but did not record

    def close(self) -> None:
        """Forget everything; records shared with others no longer count on this recording."""
        self.key.open = False
        self.records.clear()
        self.kept.clear()

    def __del__(self) -> None:
        self.key.open = False

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record inside the block, together with whoever records already."""
        self.level = current_scope().level
        with scope_of(current_scope().with_recorder(self)):
            yield

    def watched(self, tensor: Tensor) -> Tensor:
        """A twin of `tensor` that this recording watches; other recorders know it as the original."""
        twin = tensor.__copy__()
        lift(twin)
        node = tensor._node
        if node is None or not any(key.open for key in node.keys):
            # (among ranks a value without a past is made of numbers: that it is watched here makes it no data of a rank)
            past = past_of_leaf(node) if node is not None or HOOKS.kind_of is None else (REPLICATED,)
            twin._node = leaf((self.key,), tensor.shape, past)
        else:
            self.know(node)
        if tensor.dtype.is_complex:
            self.records.complex = True
        return twin

    def know(self, node: Record) -> None:
        """Watch a version that others recorded."""
        if self.key not in node.keys:
            node.keys = (*(key for key in node.keys if key.open), self.key)
            self.kept.append(node)

    def cotangents(self, outputs: Sequence[Any], cts: Sequence[Any], wanted: Sequence[Record], boxed: bool) -> list[Any]:
        """The cotangents of `wanted` given those of `outputs`, as tensors; None where not connected."""
        seeds: dict[Record, Any] = {}
        for output, ct in zip(outputs, cts, strict=True):
            node = output._node
            if node is None or self.key not in node.keys or ct is None:
                continue
            value = ct if boxed else ct._data
            seeds[node] = seeds[node] + value if node in seeds else value
        for record in self.records if boxed else ():
            if record.op in MESSAGES and record not in seeds:
                attrs: Any = record.attrs
                seeds[record] = zeros(attrs.get("shape", ()), attrs.get("dtype", "float32"))
        answers = gradients(
            tuple(self.records), seeds, set(wanted), boxed=boxed, complex_values=self.records.complex, visit=self._prepare()
        )  # fmt: skip
        return [None if node not in answers else answers[node] if boxed else box(answers[node]) for node in wanted]

    def _prepare(self) -> tuple[Step, ...]:
        """What brings back the values of a record before its rule runs."""
        return ()

    # -- the protocol of recorders ---------------------------------------------------------------------------------

    def watches(self, variable: Any) -> bool:
        """Called by variables when read."""
        return self.catch_variables and bool(variable.trainable)

    def add_version(self, variable: Any, node: Record) -> None:
        """Called by variables: a version this recording watches."""
        self.variables.setdefault(id(variable), (variable, []))[1].append(node)
        if variable.dtype.is_complex:
            self.records.complex = True
