"""A block made executable and differentiable: run on eager tensors it is one operation, one record.

When an input is watched, the forward half of the block runs (it also gives the residuals) and the record keeps them; the
backward half runs when the tape asks. Both halves are `Compiled` themselves, so a recorded backward pass is recorded as one
operation again, and derivatives of any order follow. Residuals are outputs of the record like any other: a cotangent that
arrives at one of them (second order) is answered by running the block once more with what that needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradtape.ad.regions  # noqa: F401  (its rules answer for the records made here)
from gradtape.ad.budget import known_bytes, limited
from gradtape.ad.evaluation import evaluate
from gradtape.ad.reverse import Split, split
from gradtape.backends.numpy import compile_block
from gradtape.ir.graph import Block
from gradtape.ir.types import ListSpec
from gradtape.ops.dispatch import record_general, reparted
from gradtape.ops.opdef import Op
from gradtape.ops.record import SCOPE, Record
from gradtape.ops.tensor import Tensor, box


def _run_elsewhere(*inputs: Any, **attrs: Any) -> Any:
    raise TypeError("`function` is recorded by compiled functions, not called")


FUNCTION = Op("function", "region", ("*inputs",), _run_elsewhere, _run_elsewhere, outputs=0)

Optimize = Callable[[Block], Block]


class Compiled:
    """A block, its executable, and its halves for each set of watched inputs."""

    def __init__(self, block: Block, optimize: Optimize, name: str, memory_limit: int | None = None) -> None:
        self.memory_limit = memory_limit  # bytes to keep from the forward half for the backward half
        self.block = block
        self.optimize = optimize
        self.name = name
        self._executable: Any = None
        self._halves: dict[Any, tuple[Split, Compiled, Compiled]] = {}
        self._shown: Block | None = None

    @property
    def optimized(self) -> Block:
        if self._shown is None:
            self._shown = self.optimize(self.block)
        return self._shown

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """On bare arrays, unrecorded."""
        if self._executable is None:
            self._executable = compile_block(self.optimized, self.name)
        return self._executable(*arrays)

    def halves(self, wanted: frozenset[int], seeded: tuple[int, ...]) -> tuple[Split, Compiled, Compiled]:
        """The forward half and the backward half with respect to these inputs, for cotangents of these outputs."""
        key = (wanted, seeded)
        known = self._halves.get(key)
        if known is None:
            half = self._split(wanted, seeded)
            forward = Compiled(half.forward, self.optimize, f"{self.name}_forward", self.memory_limit)
            backward = Compiled(half.backward, self.optimize, f"{self.name}_backward", self.memory_limit)
            known = self._halves[key] = (half, forward, backward)
        return known

    def _split(self, wanted: frozenset[int], seeded: tuple[int, ...]) -> Split:
        half = split(self.block, wanted, seeded)
        if self.memory_limit is not None:
            size = known_bytes(half.forward.result_group("saved"))
            if size is None or size > self.memory_limit:
                with limited(self.memory_limit):
                    half = split(self.block, wanted, seeded)
        return half

    def differentiable_outputs(self) -> tuple[int, ...]:
        return tuple(i for i, v in enumerate(self.block.results) if v.type.dtype.is_differentiable)

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """On eager tensors, recorded on the tapes that watch one of them."""
        if any(t.wraps for t in tensors):
            return evaluate(self.block, tensors)
        scope = SCOPE.get()
        if scope is None:
            return [box(a) for a in self.run([t._data for t in tensors])]
        known = set(scope.keys)
        wanted = frozenset(
            i for i, t in enumerate(tensors)
            if t._node is not None and t.dtype.is_differentiable and not known.isdisjoint(t._node.keys)
        )  # fmt: skip
        if not wanted:
            return [box(a) for a in self.run([t._data for t in tensors])]
        if any(not r.key.holds and not known.isdisjoint((r.key,)) for r in scope.recorders):
            return evaluate(self.block, tensors)  # forward mode pushes tangents operation by operation
        seeded = self.differentiable_outputs()
        half, forward, _ = self.halves(wanted, seeded)
        outs = [box(a) for a in forward.run([t._data for t in tensors])]
        attrs = {"rule": self._rule(wanted, seeded), "inputs": tuple(t._data for t in tensors), "outs": len(self.block.results)}
        record_general(
            scope, FUNCTION, tuple(t._data for t in tensors), tuple(t._node for t in tensors), attrs, tuple(outs)
        )
        attrs["saved"] = tuple(t._data for t in outs[len(self.block.results) :])
        if len(scope.recorders) == 1 and not getattr(scope.recorders[0], "_persistent", True):
            attrs["inputs"] = None  # nobody can ask for a second derivative: the inputs need not be kept
        attrs["types"] = tuple((t._data.shape, t._data.dtype) for t in outs[: len(self.block.results)])
        return outs[: len(self.block.results)]

    def _rule(self, wanted: frozenset[int], seeded: tuple[int, ...]) -> Callable[..., list[Any]]:
        def rule(record: Record, cts: Sequence[Any], needed: tuple[bool, ...]) -> list[Any]:
            attrs: Any = record.attrs
            count = attrs["outs"]
            boxed = any(isinstance(ct, Tensor) for ct in cts)
            if any(ct is not None for ct in cts[count:]):
                return self._again(record, cts, needed)
            half, _, backward = self.halves(wanted, seeded)
            seeds = [cts[i] if cts[i] is not None else _zeros(*attrs["types"][i], boxed) for i in seeded]
            if not boxed:
                found: Sequence[Any] = backward.run([*attrs["saved"], *seeds])
            else:
                saved = [box(a, reparted(record, count + i, a)) for i, a in enumerate(attrs["saved"])]
                found = backward([*saved, *seeds])
            answers = dict(zip(half.answers, found, strict=True))
            return [answers.get(i) if want else None for i, want in enumerate(needed)]

        return rule

    def _again(self, record: Record, cts: Sequence[Any], needed: tuple[bool, ...]) -> list[Any]:
        """Cotangents of residuals: differentiate the forward half itself, run afresh."""
        attrs: Any = record.attrs
        wanted = frozenset(i for i, node in enumerate(record.nodes) if node is not None and self._differentiable(i))
        _, forward, _ = self.halves(wanted, self.differentiable_outputs())
        seeded = tuple(i for i, ct in enumerate(cts) if ct is not None)
        half, first, second = forward.halves(wanted, seeded)
        inputs = [box(a, node) for a, node in zip(attrs["inputs"], record.nodes, strict=True)]
        seeds = [ct if isinstance(ct, Tensor) else box(ct) for ct in (cts[i] for i in seeded)]
        boxed = any(isinstance(ct, Tensor) for ct in cts)
        outs = first(inputs)
        found = second([*outs[len(forward.block.results) :], *seeds])
        answers = dict(zip(half.answers, found, strict=True))
        return [
            None if not want or i not in answers else answers[i] if boxed else answers[i]._data for i, want in enumerate(needed)
        ]

    def _differentiable(self, index: int) -> bool:
        return bool(self.block.params[index].type.dtype.is_differentiable)

    def saved_types(self, wanted: frozenset[int]) -> list[Any]:
        """What a call keeps for its backward pass when these inputs are watched."""
        return self.halves(wanted, self.differentiable_outputs())[0].saved


def _zeros(shape: Any, dtype: Any, boxed: bool) -> Any:
    made: Any = np.zeros(tuple(shape), dtype)[()]
    return box(made) if boxed else made


def is_list(spec: Any) -> bool:
    return isinstance(spec, ListSpec)
