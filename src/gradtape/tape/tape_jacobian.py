"""The Jacobian side of `GradientTape`: jacobian, batch_jacobian, hessian. How rows are batched is in `jacobian.py`.

Also what a persistent tape keeps of an answer it did not record: a pending record, and how to run that backward pass again,
recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from gradtape import tree
from gradtape.ad.backward import Step, gradients
from gradtape.core.dispatch import PART
from gradtape.core.observers import SESSION
from gradtape.core.record import Record, Recorder, current_scope, leaf, scope_of, user_frame
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops.create import ones_like, zeros
from gradtape.ops.stop import GRADIENT
from gradtape.tape import jacobian
from gradtape.tape.tape_messages import Mode, Source, UnconnectedGradients, check_source, one_target
from gradtape.tree import Structure
from gradtape.variables.indexed_slices import total_of
from gradtape.variables.variable import Variable

K = TypeVar("K")


def walk_again(pairs: list[tuple[Record, Any]], wanted: list[list[Record]], tape: JacobianMethods) -> list[Any]:
    """The reverse walk of an earlier call in the current scope: from pairs (version, cotangent) to each of `wanted`."""
    cotangents: dict[Record, Any] = {}
    for node, seed in pairs:
        cotangents[node] = cotangents[node] + seed if node in cotangents else seed
    reached = gradients(
        tuple(tape.records), cotangents, {n for versions in wanted for n in versions}, boxed=True,
        complex_values=tape.records.complex, cut=tape._through is False, visit=tape._visit(),
    )  # fmt: skip
    return [total_of(reached, versions, True) for versions in wanted]


class PendingDerivatives(Recorder):
    """Mixed into `GradientTape`: answers of a persistent tape that were not recorded, each a record that may be expanded."""

    __slots__ = ("_lazy",)  # whether there are any

    if TYPE_CHECKING:
        sites: set[tuple[Any, int]]

        def _node_of(self, tensor: Tensor) -> Record | None: ...

    def _leave_lazy(self, again: Callable[[Any], list[Any]], answers: list[Any], size: int) -> None:
        """One record for all results of this call; differentiated again, it becomes the recorded backward pass, which
        `again(tape)` runs: one result per answer."""
        places = [i for i, a in enumerate(answers) if isinstance(a, Tensor)]
        if not places:
            return
        shapes = tuple((answers[i]._data.shape, answers[i]._data.dtype) for i in places)
        frame = user_frame(1)
        owner = leaf((self.key,), shapes, (), GRADIENT, {"pending": (again, places)}, frame.f_code, frame.f_lasti)
        self.records.append(owner)
        for index, place in enumerate(places):
            # the pass has several results and a record stands for one version: each result is a part of the pass
            shape = answers[place]._data.shape
            part = leaf((self.key,), shape, (owner,), PART, {"index": index}, owner.code, owner.lasti)
            self.records.append(part)
            answers[place] = box(answers[place]._data, part)
            self.records.budget -= size + 600
        self._lazy = True
        if self.records.budget < 0:
            self.records.sweep()

    def _expand_reached(self, targets: set[Record]) -> None:
        """Replace every pending gradient record that the targets depend on by its recorded backward pass."""
        reached = set(targets)
        position = len(self.records) - 1
        while position >= 0:
            record = self.records[position]
            if record in reached:
                if record.op is GRADIENT and record.attrs and "pending" in record.attrs:
                    position += self._expand(record, position)
                reached.update(node for node in record.nodes if node is not None)
            position -= 1

    def _expand(self, owner: Record, position: int) -> int:
        """Record the backward pass of one earlier `gradient` call in place; returns how many records came before it."""
        again, places = owner.attrs.pop("pending")  # type: ignore[union-attr]
        frame = user_frame(1)
        self.sites.add((frame.f_code, frame.f_lasti))
        # The pass belongs where it ran: before everything that was computed from its results, as the walk goes from the newest
        # record to the oldest.
        tail = self.records[position:]
        del self.records[position:]
        with scope_of(current_scope().without(self).with_recorder(self)):
            results = again(self)
        owner.nodes = tuple(None if results[i] is None else self._node_of(results[i]) for i in places)
        owner.saved = ()
        added = len(self.records) - position
        self.records.extend(tail)
        return added


class JacobianMethods(PendingDerivatives):
    """Mixed into `GradientTape`, which gives the walk these methods run."""

    __slots__ = ()

    if TYPE_CHECKING:
        _persistent: bool
        _through: bool | None
        _told: tuple[weakref.ref[Source], ...]

        def _unspent(self, what: str) -> None: ...
        def _recording(self) -> bool: ...
        def _spend(self) -> None: ...
        def _read(self, target: object) -> Any: ...
        def _visit(self) -> tuple[Step, ...]: ...
        def _versions(self, source: Source) -> list[Record]: ...
        def _settled(self, source: Source, targets: list[Tensor], mode: UnconnectedGradients) -> Any: ...
        def _differentiate(
            self, targets: list[Tensor], seeds: list[Tensor], flat: list[Any], recorded: bool = False
        ) -> list[Any]: ...

    @overload
    def jacobian(
        self, target: Tensor | Variable, sources: Tensor | Readable, unconnected_gradients: Mode = ...,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Tensor: ...  # fmt: skip
    @overload
    def jacobian(
        self, target: Tensor | Variable, sources: Sequence[Tensor | Readable], unconnected_gradients: Mode = ...,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Sequence[Tensor]: ...  # fmt: skip
    @overload
    def jacobian(
        self, target: Tensor | Variable, sources: Mapping[K, Tensor | Readable], unconnected_gradients: Mode = ...,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> dict[K, Tensor]: ...  # fmt: skip
    @overload
    def jacobian(
        self, target: Tensor | Variable, sources: Structure, unconnected_gradients: Mode = ...,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Any: ...  # fmt: skip
    def jacobian(
        self, target: Tensor | Variable, sources: Structure,
        unconnected_gradients: Mode = UnconnectedGradients.NONE, parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """All derivatives of `target`: shape target.shape + source.shape for each source.

        >>> x = gt.Variable([1.0, 2.0])
        >>> with gt.GradientTape() as tape:
        ...     y = x * x
        >>> tape.jacobian(y, x).numpy()
        array([[2., 0.],
               [0., 4.]], dtype=float32)
        """
        mode = UnconnectedGradients(unconnected_gradients)
        self._unspent("jacobian")
        flat = [check_source(s, self._told) for s in tree.flatten(sources)]
        target = one_target(self._read(target), "jacobian", flat)
        shaped = self._rows(target, flat, target.size, jacobian.identity_rows(target), jacobian.jacobian_shape)
        return self._finished(shaped, flat, sources, target, mode, lambda s: jacobian.empty_jacobian(target, s))

    def batch_jacobian(
        self, target: Tensor | Variable, source: Tensor | Variable,
        unconnected_gradients: Mode = UnconnectedGradients.NONE, parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Tensor:  # fmt: skip
        """The Jacobian of each example: target[b] depends on source[b] only; shape (b, target.shape[1:], source.shape[1:])."""
        mode = UnconnectedGradients(unconnected_gradients)
        self._unspent("batch_jacobian")
        source = check_source(source, self._told)
        target = one_target(self._read(target), "batch_jacobian", [source])
        if not target.ndim or not source.ndim or target.shape[0] != source.shape[0]:
            raise InvalidArgumentError(
                f"batch_jacobian: target {tuple(target.shape)} and source {tuple(source.shape)} need the same first dimension"
            )
        count = target.size // max(int(target.shape[0]), 1) if target.size else 0
        shaped = self._rows(target, [source], count, jacobian.per_example_rows(target), jacobian.batch_first)

        def empty(s: Source) -> Any:
            return zeros((*tuple(target.shape), *tuple(s.shape)[1:]), s.dtype)

        return self._finished(shaped, [source], source, target, mode, empty)

    def hessian(self, target: Tensor | Variable, sources: Structure) -> Any:
        """Second derivatives of a scalar target: one block per pair of sources (a single tensor for a single source)."""
        self._unspent("hessian")
        flat = [check_source(s, self._told) for s in tree.flatten(sources)]
        target = one_target(self._read(target), "hessian", flat)
        if target.ndim:
            raise InvalidArgumentError(f"hessian: the target must be a scalar, got shape {tuple(target.shape)}; sum it first")
        # The innermost recorder, whether its block has ended or not: the second derivative needs the records of the first.
        with scope_of(current_scope().without(self).with_recorder(self)):
            firsts = self._differentiate([target], [ones_like(target)], flat, recorded=True)
        blocks = []
        for first, row in zip(firsts, flat, strict=True):
            answers: list[Any] = [None] * len(flat)
            if first is not None:
                answers = self._rows(first, flat, first.size, jacobian.identity_rows(first), jacobian.jacobian_shape)
            empty = [jacobian.empty_jacobian(row, s) for s in flat]
            blocks.append([e if a is None else a for a, e in zip(answers, empty, strict=True)])
        for observer in SESSION.observers:
            observer.asked(self, [target], flat, firsts)
        if not self._persistent:
            self._spend()
        return jacobian.block_hessian(blocks, sources)

    def _rows(
        self, target: Tensor, flat: list[Any], count: int, seed_rows: Callable[[int, int], Tensor],
        shaped: Callable[[Any, Tensor, TensorSpec], Tensor],
    ) -> list[Any]:  # fmt: skip
        """The reverse walk for `count` cotangents, batched in chunks, arranged by `shaped(rows, target, source)`. In its
        own block a persistent tape records it; after the block it keeps how to do that later."""
        if not count:
            return [None] * len(flat)
        recorded = self._persistent and self._recording()
        bytes_per_row = sum(jacobian.elements(r.shape) * 8 for r in self.records if r.op is not None) + target.nbytes
        specs = [TensorSpec(s.shape, s.dtype) for s in flat]

        def arranged(differentiate: Callable[[Tensor], list[Any]]) -> list[Any]:
            rows = jacobian.rows_through(count, bytes_per_row, differentiate, seed_rows)
            return [None if r is None else shaped(r, target, s) for r, s in zip(rows, specs, strict=True)]

        answers = arranged(lambda seed: self._differentiate([target], [seed], flat, recorded))
        node = self._node_of(target)
        # Nobody records now, but the answer may be differentiated later: then these rows are walked again, recorded.
        if self._persistent and node is not None and not current_scope().recorders and not current_scope().level:
            wanted = [self._versions(s) for s in flat]
            self._leave_lazy(
                lambda tape: arranged(lambda seed: walk_again([(node, seed)], wanted, tape)), answers, target.nbytes
            )
        return answers

    def _finished(
        self, answers: list[Any], flat: list[Any], sources: Structure, target: Tensor, mode: UnconnectedGradients,
        empty: Callable[[Source], Tensor],
    ) -> Any:  # fmt: skip
        for observer in SESSION.observers:
            observer.asked(self, [target], flat, answers)
        settled = []
        for answer, source in zip(answers, flat, strict=True):
            if answer is None and not target.size and self._versions(source):
                answer = empty(source)
            if answer is None:
                answer = self._settled(source, [target], mode)
                answer = empty(source) if answer is not None else None
            settled.append(answer)
        if not self._persistent:
            self._spend()
        return tree.pack_sequence_as(sources, settled)
