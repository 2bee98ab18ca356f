"""A block made executable and differentiable: run on eager tensors it is one operation, one record.

When an input is watched, the forward half of the block runs (it also gives the residuals) and the record keeps them; the
backward half runs when the tape asks. Both halves are `Compiled` themselves, so a recorded backward pass is recorded as one
operation again, and derivatives of any order follow. Residuals are outputs of the record like any other; when several tapes
record, the call also keeps what the derivative of the forward half needs, and so on, one level per tape.
"""

from __future__ import annotations

import functools
from cmath import isfinite
from collections.abc import Callable, Sequence
from sys import _getframe
from typing import Any

import numpy as np
from numpy import vdot

import gradtape.ad.regions  # noqa: F401  (its rules answer for the records made here)
from gradtape.ad.activity import useful, varied
from gradtape.ad.binding import OWN_PULLS
from gradtape.ad.budget import known_bytes, limited
from gradtape.ad.evaluation import evaluate
from gradtape.ad.leaves import undecided_leaves
from gradtape.ad.reverse import Split, split
from gradtape.ad.sweep import Sweep
from gradtape.core.dispatch import PART, RUNNERS as RUNNERS, WATCHERS, record_general, reparted, unrecorded
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.core.record import INTERNAL, SCOPE, Record, RecordingScope, TapeKey, leaf, user_frame
from gradtape.core.tensor import Tensor, box
from gradtape.errors import FailedPreconditionError, OpError, StaticDimensionNeeded
from gradtape.functions.numerics import CheckedEvaluation, checking
from gradtape.functions.program_events import listen
from gradtape.functions.stages import executable
from gradtape.functions.waiting import waiting
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.walk import has_effect, inline_calls, program, renamed
from gradtape.ops.list_values import item_spec, zero_like
from gradtape.ops.python_calls import PY_FUNCTION
from gradtape.ops.structured import LEAF


def _run_again(*inputs: Any, again: Any, **rest: Any) -> Any:
    """All outputs of a recorded call, with its residuals."""
    return again(inputs)


def _no_type(*inputs: Any, **attrs: Any) -> Any:
    raise TypeError("`function` is recorded by compiled functions, not called")


FUNCTION = Op(
    "function", "region", ("*inputs",), _run_again, _no_type, outputs=0,
    skeleton=lambda attrs: {"program": attrs["program"]},
)  # fmt: skip

MAX_SIZES = 32  # how many programs for given sizes are kept beside one for all


class Compiled:
    """A block, its executable, and its halves for each set of watched inputs."""

    def __init__(
        self, block: Block, name: str, memory_limit: int | None = None, backend: str | None = None, heard: Block | None = None
    ) -> None:
        self.heard = heard  # the block whose floating-point events the user is told of: a derivative has none
        self.backend = backend  # "llvm", "numpy", or None for what is usual
        self.memory_limit = memory_limit  # bytes to keep from the forward half for the backward half
        self.block = block
        self.name = name
        self._executable: Any = None
        self._entry: Callable[..., Any] | None = None  # the shortest way to run it
        self._first: dict[str, Any] = {}
        self._halves: dict[Any, tuple[Split, Compiled, Compiled]] = {}
        self._levels: dict[tuple[frozenset[int], int], Levels] = {}
        self._connected: dict[frozenset[int], set[int]] = {}
        self._moving: dict[frozenset[int], list[bool]] = {}
        self._leaves_by_run: dict[frozenset[int], bool] = {}
        self._for_sizes: dict[Any, Compiled] = {}
        self._refused: set[Any] = set()  # halves that cannot be made for all sizes at once
        self._shown: Block | None = None

    @property
    def optimized(self) -> Block:
        if self._shown is None:
            from gradtape.passes.pipeline import prepared

            self._shown = prepared(self.block)
        return self._shown

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """On bare arrays, unrecorded."""
        entry = self._entry or self.prepare()
        # somebody wants to look at each operation (`debug`, `profile`): the machine code has none left to show
        if RUNNERS:
            return RUNNERS[-1](self, arrays)
        results: Any = entry(*arrays)
        # machine code says so where it wants other arguments or has failed; the executable knows what to do then
        return results if results.__class__ is tuple else self._executable(*arrays)

    def prepare(self) -> Callable[..., Any]:
        """Compile, unless that was done before; gives the shortest way to run it."""
        if self._executable is None:
            # of two threads that compile at once the first wins: what is in use is never replaced
            with waiting("compiling", self.name):
                compiled = executable(self.block, self.name, self.backend)
            self._executable = self._first.setdefault("executable", compiled)
            if self.heard is not None:
                listen(self.heard, self.name, self._executable)
        if self._entry is None:
            # effects must not happen twice, so only programs without them may be tried
            self._entry = (None if self._has_effects else self.native) or self._executable
        return self._entry

    @property
    def native(self) -> Callable[..., Any] | None:
        """The bare machine code on arrays, once there is some: it gives a tuple, or something else where it cannot serve."""
        return getattr(self._executable, "native", None)

    @property
    def attempt(self) -> Callable[..., Any] | None:
        """`native` that may be tried: what has run, with its effects, is not answered as if it had not."""
        native, executable = self.native, self._executable
        if native is None or not self._has_effects:
            return native

        def run(*arrays: Any) -> Any:
            results = native(*arrays)
            return results if results is None or results.__class__ is tuple else executable.failed(results, arrays)

        return run

    @property
    def is_native(self) -> bool:
        """Whether machine code was made of it, or of what runs under a tape."""
        return self.native is not None or any(levels.native is not None for levels in self._levels.values())

    def halves(self, wanted: frozenset[int], seeded: tuple[int, ...]) -> tuple[Split, Compiled, Compiled]:
        """The forward half and the backward half with respect to these inputs, for cotangents of these outputs."""
        key = (wanted, seeded)
        known = self._halves.get(key)
        if known is None:
            # tried once: splitting a large program takes long, and would fail again at every call
            if key in self._refused:
                raise StaticDimensionNeeded(f"a derivative of {self.name} depends on sizes known only when it runs")
            try:
                half = self._split(wanted, seeded)
            except (OpError, ValueError, TypeError):
                # with all sizes known the error is the user's, and is raised each time
                if self._has_sizes:
                    self._refused.add(key)
                raise
            forward = Compiled(half.forward, f"{self.name}_forward", self.memory_limit, self.backend, self.heard)
            backward = Compiled(half.backward, f"{self.name}_backward", self.memory_limit, self.backend)
            known = self._halves[key] = (half, forward, backward)
        return known

    def _split(self, wanted: frozenset[int], seeded: tuple[int, ...]) -> Split:
        half = split(self.block, wanted, seeded)
        if self.memory_limit is not None:
            size = known_bytes(half.forward.result_group("saved"))
            # the plain split first: as long as it fits, nothing is computed twice
            if size is None or size > self.memory_limit:
                with limited(self.memory_limit):
                    half = split(self.block, wanted, seeded)
        return half

    @functools.cached_property
    def differentiable_outputs(self) -> tuple[int, ...]:
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
        # by what is watched, not by what is a variable: each set of watched inputs has halves of its own
        wanted = frozenset(
            i for i, t in enumerate(tensors)
            if t._node is not None and t.dtype.is_differentiable and not known.isdisjoint(t._node.keys)
        )  # fmt: skip
        # a tape is open, but watches nothing that goes in
        if not wanted:
            return self._unrecorded(tensors)
        if any(not r.key.holds and not known.isdisjoint((r.key,)) for r in scope.recorders):
            return evaluate(self.block, tensors)  # forward mode pushes tangents operation by operation
        if self._calls_python or self._undecided(wanted):
            return evaluate(self.block, tensors)  # recorded one by one, each version shows whether it is a leaf
        try:
            levels = self.levels(wanted, orders(scope))
        except (OpError, ValueError, TypeError):
            return self.for_sizes([t._data for t in tensors])(tensors)
        arrays = tuple([t._data for t in tensors])
        # one run for all orders: its outputs are followed by what derivatives of each order need
        results = levels.run(arrays)
        outs = [box(a) for a in results]
        attrs = levels.attrs(self, arrays, results, input_kinds(tensors, known))
        # of lists the whole is kept: the zeros of a list have its length and the shapes of its items
        attrs["lists"] = {i: a for i, a in enumerate(results) if isinstance(a, list)}
        record_general(scope, FUNCTION, arrays, tuple([t._node for t in tensors]), attrs, tuple(outs))
        return outs[: levels.counts[0]]

    def _unrecorded(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        outs = [box(a) for a in self.run([t._data for t in tensors])]
        nodes = [t._node for t in tensors]
        unrecorded(FUNCTION, nodes, outs)
        if self.tell_kinds is not None:
            self.tell_kinds(nodes, outs)
        return outs

    @functools.cached_property
    def tell_kinds(self) -> Any:
        """Marks the results of a call among several ranks; None where there is one, or the program exchanges nothing."""
        return None if HOOKS.result_kinds is None else HOOKS.result_kinds(self.block)

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
            # callees have sizes of their own, which must become known as well; recomputed ones stay calls, or they would be
            # kept
            block = renamed(inline_calls(self.block, lambda call: not call.attrs.get("recompute")), types, fresh=False)
            known = Compiled(block, self.name, self.memory_limit, self.backend, None if self.heard is None else block)
            # the one that was not used for longest goes
            while len(self._for_sizes) >= MAX_SIZES:
                del self._for_sizes[next(iter(self._for_sizes))]
        self._for_sizes[key] = known  # the one used last stands last
        return known

    def _undecided(self, wanted: frozenset[int]) -> bool:
        """Whether only a run tells which versions of a variable are leaves, if these inputs are watched."""
        if not self._has_leaves:
            return False
        known = self._leaves_by_run.get(wanted)
        if known is None:
            known = self._leaves_by_run[wanted] = bool(undecided_leaves(self.block, wanted, wanted))
        return known

    @functools.cached_property
    def _calls_python(self) -> bool:
        return any(operation.op is PY_FUNCTION for operation in program(self.block))

    @functools.cached_property
    def _has_leaves(self) -> bool:
        return any(operation.attrs.get(LEAF) for operation in program(self.block))

    def known_levels(self, wanted: frozenset[int], depth: int) -> Levels | None:
        """`levels`, if some call asked for them before."""
        return self._levels.get((wanted, depth))

    def levels(self, wanted: frozenset[int], depth: int) -> Levels:
        """What a recorded call keeps and does when these inputs are watched, for derivatives up to an order."""
        known = self._levels.get((wanted, depth))
        if known is None:
            known = self._levels[wanted, depth] = Levels(self, wanted, depth)
        return known

    def inputs_of(self, outputs: frozenset[int]) -> set[int]:
        """The inputs that these outputs depend on differentiably: others have no gradient, rather than zeros."""
        known = self._connected.get(outputs)
        if known is None:
            used = useful(self.block, [self.block.results[i] for i in outputs])
            known = self._connected[outputs] = {i for i, param in enumerate(self.block.params) if param in used}
        return known

    def moving(self, wanted: frozenset[int]) -> list[bool]:
        """Which outputs depend differentiably on these inputs: a residual that does not is a constant for derivatives."""
        known = self._moving.get(wanted)
        if known is None:
            moved = varied(self.block, [self.block.params[i] for i in wanted])
            known = self._moving[wanted] = [value in moved for value in self.block.results]
        return known


def orders(scope: RecordingScope) -> int:
    """How many derivatives, one of the other, the recorders of a scope may be asked for: one each, and a persistent tape may be
    asked again for what it gave."""
    if not scope.orders:
        scope.orders = len(scope.recorders)
        for recorder in scope.recorders:
            if getattr(recorder, "_persistent", False):
                scope.orders = len(scope.recorders) + 1
    return scope.orders


def input_kinds(tensors: Sequence[Tensor], known: set[TapeKey]) -> tuple[Any, ...]:
    """Among several ranks: what the inputs are that no tape knows; None for the others, and for what has no past."""
    kind_of = HOOKS.kind_of
    if kind_of is None:
        return ()
    return tuple([kind_of(n) if (n := t._node) is not None and known.isdisjoint(n.keys) else None for t in tensors])


class Levels:
    """A program for calls that watch certain inputs: level 0 is the program, level k + 1 the forward half of level k, which
    gives what a derivative of order k + 1 needs besides the outputs of level k. The last level is what runs. The program keeps
    its levels, so they do not refer to it: the record of a call does."""

    __slots__ = (
        "_answers", "_connected", "_first", "_forward", "_is_complex", "_is_plain", "_parts", "_seeded", "_sizes", "_wanted",
        "again", "counts",
    )  # fmt: skip

    def __init__(self, program: Compiled, wanted: frozenset[int], depth: int) -> None:
        levels = [program]
        for _ in range(depth):
            # the forward half of a forward half: what order k + 1 needs of what order k needs
            levels.append(levels[-1].halves(wanted, levels[-1].differentiable_outputs)[1])
        self._forward = levels[1:]
        self._wanted = wanted
        self.counts = [len(level.block.results) for level in levels]
        self.again = None if program._has_effects else levels[-1].run
        self._parts = [{"index": i} for i in range(self.counts[0])]  # attributes of the records of outputs, never changed
        self._is_complex = any(value.type.dtype.is_complex for value in levels[-1].block.results)
        self._seeded = program.differentiable_outputs
        half, _, self._first = program.halves(wanted, self._seeded)
        self._answers = half.answers
        # the inputs that the first backward half answers for, by the outputs of which cotangents arrive
        self._connected: dict[tuple[int, ...], list[int | None]] = {}
        self._sizes: tuple[Any, int] | None = None
        types = [value.type for value in (*half.backward.results, *[program.block.params[i] for i in half.answers])]
        self._is_plain = all(type.dtype.name in ("float32", "float64") and isinstance(type, TensorSpec) for type in types)

    @property
    def native(self) -> Callable[..., Any] | None:
        """The bare machine code of what runs, once there is some."""
        return self._forward[-1].native

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """All outputs: those of the program, and the residuals of each level."""
        return self._forward[-1].run(arrays)

    # -- the record ----------------------------------------------------------------------------------------------------

    def attrs(self, program: Compiled, arrays: tuple[Any, ...], results: tuple[Any, ...], kinds: Any) -> dict[str, Any]:
        """What the record of a call keeps."""
        attrs = {
            "levels": self, "program": program, "again": self.again, "inputs": None if self.again is None else arrays,
            "saved": results[self.counts[0] :],
        }  # fmt: skip
        if HOOKS.kind_of is not None:
            attrs["kinds"] = kinds or (None,) * len(arrays)
        return attrs

    def taped(
        self, program: Compiled, native: Callable[..., Any], scope: RecordingScope, nodes: Sequence[Any],
        arrays: tuple[Any, ...], unknown: tuple[Any, ...] = (), kinds: tuple[Any, ...] = (),
    ) -> list[Tensor] | None:  # fmt: skip
        """The program's outputs, recorded by plain tapes that know all `nodes`: `record_general` for the commonest scope. None
        where machine code wants other arguments."""
        results = native(*arrays)
        if results.__class__ is not tuple:
            return None
        frame: Any = _getframe(3)
        if frame.f_code is not scope.code:  # often the code that called last, which was found to be the user's
            if frame.f_code.co_filename in INTERNAL:
                frame = user_frame(1)
            scope.code = frame.f_code
        code, lasti, when = frame.f_code, frame.f_lasti, (scope.when, unknown) if unknown else scope.when
        shapes, size = self._sizes or self._sizes_of(results)
        keys, attrs = scope.keys, self.attrs(program, arrays, results, kinds)
        entries = [leaf(keys, shapes, tuple(nodes), FUNCTION, attrs, code, lasti, when)]
        owner = (entries[0],)
        outs: list[Tensor] = []
        # residuals have no records of their own: whoever differentiates them makes some (`reparted`)
        for index, data, (shape, _) in zip(self._parts, results, shapes, strict=False):
            part = leaf(keys, shape, owner, PART, index, code, lasti, when)
            entries.append(part)
            outs.append(box(data, part))
        for records in scope.lists:
            records.extend(entries)
            records.budget -= size
            if self._is_complex:
                records.complex = True
        for records in scope.lists:  # only now: a sweep counts on the records standing in all of them
            if records.budget < 0:
                records.sweep()
        return outs

    def _sizes_of(self, results: tuple[Any, ...]) -> tuple[Any, int]:
        """Shape and dtype of each result, and the bytes that a record of them takes: asked once, if no run has others."""
        sizes = tuple([(a.shape, a.dtype) for a in results]), 200 * len(self._parts) + 200 + sum(a.nbytes for a in results)
        shapes = [value.type.shape for value in self._forward[-1].block.results]
        if all(shape.rank is not None and all(size.__class__ is int for size in shape) for shape in shapes):
            self._sizes = sizes
        return sizes

    # -- its derivative ------------------------------------------------------------------------------------------------

    def pull(self, sweep: Sweep, record: Record, cts: Sequence[Any]) -> None:
        """Add to the cotangents of the inputs. Cotangents of residuals (a derivative of higher order) are answered by the level
        that has these residuals among its outputs."""
        counts = self.counts
        last = len(cts) - 1
        while cts[last] is None:
            last -= 1
        nodes, needed = record.nodes, sweep.needed
        boxed = isinstance(cts[last], Tensor)
        if last < counts[0] and not boxed:
            places, arguments = self._arguments(record, cts)
            cotangents = sweep.cotangents
            for place, grad in zip(places, self._first.run(arguments), strict=True):
                if place is not None and (node := nodes[place]) in needed:
                    if node in cotangents:
                        sweep.add(node, grad)
                    else:
                        cotangents[node] = grad
            return
        order = next(k for k, count in enumerate(counts) if last < count)
        answer = self._again if order == len(counts) - 1 else functools.partial(self._backward, order)
        sweep.add_all(nodes, answer(record, cts, tuple([node in needed for node in nodes]), boxed))

    def _arguments(self, record: Record, cts: Sequence[Any]) -> tuple[list[int | None], list[Any]]:
        """Of the first backward half, for these cotangents of outputs; with the input that each of its results is for."""
        count, attrs = self.counts[0], record.attrs
        arguments = [*attrs["saved"][: self.counts[1] - count]]  # type: ignore[index]
        given: tuple[int, ...] = ()
        for i in self._seeded:
            if (ct := cts[i]) is not None:
                given += (i,)
            arguments.append(_zeros(record, i, count, False) if ct is None else ct)
        places = self._connected.get(given)
        if places is None:
            inputs = attrs["program"].inputs_of(frozenset(given))  # type: ignore[index]
            places = self._connected[given] = [i if i in inputs else None for i in self._answers]
        return places, arguments

    def cotangents(self, record: Record, cts: Sequence[Any]) -> dict[Record | None, Any] | None:
        """What `pull` adds on bare arrays, if machine code gives it, all of it finite and nothing to be added up."""
        first, nodes = self._first, record.nodes
        if not self._is_plain or first._entry is first._executable or RUNNERS:
            return None
        places, arguments = self._arguments(record, cts)
        grads: Any = first._entry(*arguments)  # type: ignore[misc]  # neither is it None: nothing is compiled then
        if grads.__class__ is not tuple:
            return None
        cotangents: dict[Record | None, Any] = {}
        for place, grad in zip(places, grads, strict=True):
            if place is not None:
                rank = grad.ndim
                size = grad.dot(grad) if rank == 1 else vdot(grad, grad) if rank else grad
                if not isfinite(size) or (node := nodes[place]) in cotangents:
                    return None
                cotangents[node] = grad
        return cotangents

    def _backward(self, order: int, record: Record, cts: Sequence[Any], needed: tuple[bool, ...], boxed: bool) -> Sequence[Any]:
        """The cotangents of the inputs by the backward half of one level."""
        counts = self.counts
        level = self._forward[order - 1] if order else record.attrs["program"]  # type: ignore[index]
        seeded = level.differentiable_outputs
        half, _, backward = level.halves(self._wanted, seeded)
        seeds = [cts[i] if cts[i] is not None else _zeros(record, i, counts[0], boxed) for i in seeded]
        saved = record.attrs["saved"][counts[order] - counts[0] : counts[order + 1] - counts[0]]  # type: ignore[index]
        grads: Sequence[Any]
        if boxed:
            moves = self._forward[order].moving(self._wanted)[counts[order] :]
            places = [box(a, reparted(record, counts[order] + i, a) if moves[i] else None) for i, a in enumerate(saved)]
            grads = backward([*places, *seeds])
        else:
            grads = backward.run([*saved, *seeds])
        answers = dict(zip(half.answers, grads, strict=True))
        connected = level.inputs_of(frozenset(i for i in seeded if cts[i] is not None))
        return [answers.get(i) if want and i in connected else None for i, want in enumerate(needed)]

    def _again(self, record: Record, cts: Sequence[Any], needed: tuple[bool, ...], boxed: bool) -> Sequence[Any]:
        """An order nobody expected when the call ran (a persistent tape asked again and again): run it once more."""
        attrs: Any = record.attrs
        level = self._forward[-1]
        if attrs["again"] is None:
            raise FailedPreconditionError(
                f"a derivative of this order of the compiled function {level.name} was not foreseen when it ran; it has "
                "effects, so it cannot run again; nest as many tapes as derivatives around the call"
            )
        seeded = tuple(i for i, ct in enumerate(cts) if ct is not None)
        try:
            half, first, second = level.halves(self._wanted, seeded)
        except (OpError, ValueError, TypeError):
            level = level.for_sizes(attrs["inputs"])
            half, first, second = level.halves(self._wanted, seeded)
        inputs = [box(a, node) for a, node in zip(attrs["inputs"], record.nodes, strict=True)]
        seeds = [ct if isinstance(ct, Tensor) else box(ct) for ct in (cts[i] for i in seeded)]
        outs = first(inputs)
        grads = second([*outs[len(level.block.results) :], *seeds])
        answers = dict(zip(half.answers, grads, strict=True))
        return [
            None if not want or i not in answers else answers[i] if boxed else answers[i]._data for i, want in enumerate(needed)
        ]


def _pull(sweep: Sweep, record: Record, cts: Any) -> None:
    record.attrs["levels"].pull(sweep, record, cts)  # type: ignore[index]


OWN_PULLS[FUNCTION] = _pull


def forget_call(record: Record) -> None:
    """The record of a call without its values: somebody else keeps them, or can have them again."""
    attrs: Any = record.attrs
    attrs["inputs"], attrs["saved"] = None, ()


def recall_call(record: Record, inputs: tuple[Any, ...], outs: tuple[Any, ...]) -> None:
    """Give the record of a call its values back: its inputs, and from all its outputs the residuals."""
    attrs: Any = record.attrs
    attrs["inputs"], attrs["saved"] = inputs, tuple(outs[attrs["levels"].counts[0] :])


def _zeros(record: Record, index: int, count: int, boxed: bool) -> Any:
    attrs: Any = record.attrs
    if index >= count:
        zeros: Any = zero_like(attrs["saved"][index - count])
    elif index in attrs.get("lists", ()):
        zeros = zero_like(attrs["lists"][index])
    else:
        zeros = np.zeros(*record.shape[index])[()]
    return box(zeros) if boxed else zeros
