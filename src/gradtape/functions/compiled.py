"""A block made executable and differentiable: run on eager tensors it is one operation, one record.

When an input is watched, the forward half of the block runs (it also gives the residuals) and the record keeps them; the
backward half runs when the tape asks. Both halves are `Compiled` themselves, so a recorded backward pass is recorded as one
operation again, and derivatives of any order follow. Residuals are outputs of the record like any other; when several tapes
record, the call also keeps what the derivative of the forward half needs, and so on, one level per tape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradtape.ad.regions  # noqa: F401  (its rules answer for the records made here)
from gradtape.ad.activity import useful, varied
from gradtape.ad.binding import OWN_PULLS, joint_pull
from gradtape.ad.budget import known_bytes, limited
from gradtape.ad.evaluation import evaluate
from gradtape.ad.reverse import Split, split
from gradtape.core.dispatch import RUNNERS as RUNNERS, WATCHERS, record_general, reparted, unrecorded
from gradtape.core.opdef import Op
from gradtape.core.record import SCOPE, Record
from gradtape.core.tensor import Tensor, box
from gradtape.errors import FailedPreconditionError, OpError, StaticDimensionNeeded
from gradtape.functions.numerics import CheckedEvaluation, checking
from gradtape.functions.stages import executable
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.walk import has_effect, inline_calls, renamed
from gradtape.ops.list_values import item_spec, zero_like


def _run_again(*inputs: Any, again: Any, **rest: Any) -> Any:
    """All outputs of a recorded call, with its residuals."""
    return again(inputs)


def _no_type(*inputs: Any, **attrs: Any) -> Any:
    raise TypeError("`function` is recorded by compiled functions, not called")


FUNCTION = Op(
    "function", "region", ("*inputs",), _run_again, _no_type, outputs=0,
    skeleton=lambda attrs: {"program": attrs["program"]},
)  # fmt: skip

OWN_PULLS[FUNCTION] = joint_pull(lambda record, cts, needed: record.attrs["rule"](record, cts, needed))  # type: ignore[index]

Optimize = Callable[[Block], Block]
MAX_SIZES = 32  # how many programs for given sizes are kept beside one for all


class Compiled:
    """A block, its executable, and its halves for each set of watched inputs."""

    def __init__(
        self, block: Block, optimize: Optimize, name: str, memory_limit: int | None = None, backend: str | None = None
    ) -> None:
        self.backend = backend  # "llvm", "numpy", or None for what is usual
        self.memory_limit = memory_limit  # bytes to keep from the forward half for the backward half
        self.block = block
        self.optimize = optimize
        self.name = name
        self._executable: Any = None
        self._first: dict[str, Any] = {}
        self._halves: dict[Any, tuple[Split, Compiled, Compiled]] = {}
        self._connected: dict[frozenset[int], set[int]] = {}
        self._moving: dict[frozenset[int], list[bool]] = {}
        self._for_sizes: dict[Any, Compiled] = {}
        self._refused: set[Any] = set()  # halves that cannot be made for all sizes at once
        self._shown: Block | None = None

    @property
    def optimized(self) -> Block:
        if self._shown is None:
            self._shown = self.optimize(self.block)
        return self._shown

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """On bare arrays, unrecorded."""
        self.prepare()
        if RUNNERS:
            return RUNNERS[-1](self, arrays)
        return self._executable(*arrays)

    def prepare(self) -> None:
        """Compile, unless that was done before."""
        if self._executable is None:
            made = executable(self.optimized, self.name, self.backend)
            # of two threads that compile at once the first wins: what is in use is never replaced
            self._executable = self._first.setdefault("made", made)

    def halves(self, wanted: frozenset[int], seeded: tuple[int, ...]) -> tuple[Split, Compiled, Compiled]:
        """The forward half and the backward half with respect to these inputs, for cotangents of these outputs."""
        key = (wanted, seeded)
        known = self._halves.get(key)
        if known is None:
            if key in self._refused:
                raise StaticDimensionNeeded(f"a derivative of {self.name} depends on sizes known only when it runs")
            try:
                half = self._split(wanted, seeded)
            except (OpError, ValueError, TypeError):
                if self._has_sizes:
                    self._refused.add(key)
                raise
            forward = Compiled(half.forward, self.optimize, f"{self.name}_forward", self.memory_limit, self.backend)
            backward = Compiled(half.backward, self.optimize, f"{self.name}_backward", self.memory_limit, self.backend)
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
        return self._outputs

    @functools.cached_property
    def _outputs(self) -> tuple[int, ...]:
        return tuple(i for i, v in enumerate(self.block.results) if v.type.dtype.is_differentiable)

    @functools.cached_property
    def _has_effects(self) -> bool:
        return any(has_effect(operation) for operation in self.block.operations)

    @functools.cached_property
    def _has_sizes(self) -> bool:
        """Whether inputs have sizes that only run time knows."""
        return any(symbols_in(param.type) for param in self.block.params)

    def __call__(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """On eager tensors, recorded on the tapes that watch one of them."""
        if any(t.wraps for t in tensors):
            return evaluate(self.block, tensors)
        if WATCHERS and checking():
            return CheckedEvaluation(self.name).run(self.block, tensors)
        scope = SCOPE.get()
        if scope is None:
            return self._unrecorded(tensors)
        known = set(scope.keys)
        wanted = frozenset(
            i for i, t in enumerate(tensors)
            if t._node is not None and t.dtype.is_differentiable and not known.isdisjoint(t._node.keys)
        )  # fmt: skip
        if not wanted:
            return self._unrecorded(tensors)
        if any(not r.key.holds and not known.isdisjoint((r.key,)) for r in scope.recorders):
            return evaluate(self.block, tensors)  # forward mode pushes tangents operation by operation
        depth = len(scope.recorders) + any(getattr(r, "_persistent", False) for r in scope.recorders)
        try:
            levels = self._levels(wanted, depth)
        except (OpError, ValueError, TypeError):
            return self.for_sizes([t._data for t in tensors])(tensors)
        outs = [box(a) for a in levels[-1].run([t._data for t in tensors])]
        count = len(self.block.results)
        rule = functools.partial(_backward, levels, wanted)
        attrs = {
            "rule": rule, "program": self,
            "again": None if self._has_effects else levels[-1].run,
            "inputs": None if self._has_effects else tuple(t._data for t in tensors),
            "saved": tuple(t._data for t in outs[count:]),
            # of lists the whole is kept: the zeros of a list have its length and the shapes of its items
            "types": tuple(t._data if isinstance(t._data, list) else (t._data.shape, t._data.dtype) for t in outs[:count]),
        }  # fmt: skip
        record_general(scope, FUNCTION, tuple(t._data for t in tensors), tuple(t._node for t in tensors), attrs, tuple(outs))
        return outs[:count]

    def _unrecorded(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        outs = [box(a) for a in self.run([t._data for t in tensors])]
        unrecorded(FUNCTION, [t._node for t in tensors], outs)
        return outs

    def for_sizes(self, inputs: Sequence[Any]) -> Compiled:
        """The program for the sizes of these inputs, to be used where a derivative depends on sizes that only run time knows.
        Raises the error at hand if it has no such sizes."""
        if not self._has_sizes:
            raise
        # items of a list may have several sizes: they stay what they are
        params = [param.type for param in self.block.params]
        types = [type if isinstance(type, ListSpec) else item_spec(a) for type, a in zip(params, inputs, strict=True)]
        key = tuple([type.shape for type in types if isinstance(type, TensorSpec)])
        known = self._for_sizes.pop(key, None)
        if known is None:
            block = renamed(inline_calls(self.block, lambda call: not call.attrs.get("recompute")), types, fresh=False)
            known = Compiled(block, self.optimize, self.name, self.memory_limit, self.backend)
            while len(self._for_sizes) >= MAX_SIZES:
                del self._for_sizes[next(iter(self._for_sizes))]
        self._for_sizes[key] = known  # the one used last stands last
        return known

    def _levels(self, wanted: frozenset[int], depth: int) -> list[Compiled]:
        """The block, its forward half, the forward half of that, ...: level k gives what a derivative of order k needs."""
        levels = [self]
        for _ in range(depth):
            levels.append(levels[-1].halves(wanted, levels[-1].differentiable_outputs())[1])
        return levels

    def _differentiable(self, index: int) -> bool:
        return bool(self.block.params[index].type.dtype.is_differentiable)

    def inputs_of(self, outputs: frozenset[int]) -> set[int]:
        """The inputs that these outputs depend on differentiably: others have no gradient, rather than zeros."""
        known = self._connected.get(outputs)
        if known is None:
            found = useful(self.block, [self.block.results[i] for i in outputs])
            known = self._connected[outputs] = {i for i, param in enumerate(self.block.params) if param in found}
        return known

    def moving(self, wanted: frozenset[int]) -> list[bool]:
        """Which outputs depend differentiably on these inputs: a residual that does not is a constant for derivatives."""
        known = self._moving.get(wanted)
        if known is None:
            found = varied(self.block, [self.block.params[i] for i in wanted])
            known = self._moving[wanted] = [value in found for value in self.block.results]
        return known

    def saved_types(self, wanted: frozenset[int]) -> list[Any]:
        """What a call keeps for its backward pass when these inputs are watched."""
        return self.halves(wanted, self.differentiable_outputs())[0].saved


def _backward(
    levels: list[Compiled], wanted: frozenset[int], record: Record, cts: Sequence[Any], needed: tuple[bool, ...]
) -> list[Any]:
    """The rule of a recorded call. Cotangents of residuals (a derivative of higher order) are answered by the level that has
    these residuals among its outputs."""
    attrs: Any = record.attrs
    counts = [len(level.block.results) for level in levels]
    boxed = any(isinstance(ct, Tensor) for ct in cts)
    last = max(i for i, ct in enumerate(cts) if ct is not None)
    order = next(k for k, count in enumerate(counts) if last < count)
    if order == len(levels) - 1:
        return _again(levels[-1], wanted, record, cts, needed, boxed)
    level = levels[order]
    seeded = level.differentiable_outputs()
    half, _, backward = level.halves(wanted, seeded)
    seeds = [cts[i] if cts[i] is not None else _zeros(record, i, counts[0], boxed) for i in seeded]
    saved = attrs["saved"][counts[order] - counts[0] : counts[order + 1] - counts[0]]
    if boxed:
        moves = levels[order + 1].moving(wanted)[counts[order] :]
        places = [box(a, reparted(record, counts[order] + i, a) if moves[i] else None) for i, a in enumerate(saved)]
        found: Sequence[Any] = backward([*places, *seeds])
    else:
        found = backward.run([*saved, *seeds])
    answers = dict(zip(half.answers, found, strict=True))
    connected = level.inputs_of(frozenset(i for i in seeded if cts[i] is not None))
    return [answers.get(i) if want and i in connected else None for i, want in enumerate(needed)]


def _again(
    level: Compiled, wanted: frozenset[int], record: Record, cts: Sequence[Any], needed: tuple[bool, ...], boxed: bool
) -> list[Any]:
    """An order nobody expected when the call ran (a persistent tape asked again and again): run it once more."""
    attrs: Any = record.attrs
    if attrs["again"] is None:
        raise FailedPreconditionError(
            f"a derivative of this order of the compiled function {level.name} was not foreseen when it ran; it has effects, "
            "so it cannot run again; nest as many tapes as derivatives around the call"
        )
    seeded = tuple(i for i, ct in enumerate(cts) if ct is not None)
    try:
        half, first, second = level.halves(wanted, seeded)
    except (OpError, ValueError, TypeError):
        level = level.for_sizes(attrs["inputs"])
        half, first, second = level.halves(wanted, seeded)
    inputs = [box(a, node) for a, node in zip(attrs["inputs"], record.nodes, strict=True)]
    seeds = [ct if isinstance(ct, Tensor) else box(ct) for ct in (cts[i] for i in seeded)]
    outs = first(inputs)
    found = second([*outs[len(level.block.results) :], *seeds])
    answers = dict(zip(half.answers, found, strict=True))
    return [
        None if not want or i not in answers else answers[i] if boxed else answers[i]._data for i, want in enumerate(needed)
    ]


def forget_call(record: Record) -> None:
    """The record of a call without its values: somebody else keeps them, or can have them again."""
    attrs: Any = record.attrs
    attrs["inputs"], attrs["saved"] = None, ()


def recall_call(record: Record, inputs: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
    """Give the record of a call its values back: its inputs, and from all its outputs the residuals."""
    attrs: Any = record.attrs
    attrs["inputs"], attrs["saved"] = inputs, tuple(outs[len(attrs["types"]) :])


def _zeros(record: Record, index: int, count: int, boxed: bool) -> Any:
    attrs: Any = record.attrs
    like = attrs["types"][index] if index < count else attrs["saved"][index - count]
    made: Any = np.zeros(like[0], like[1])[()] if isinstance(like, tuple) else zero_like(like)
    return box(made) if boxed else made
