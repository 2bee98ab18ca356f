"""`GradientTape`: who records, what is watched, and how a gradient is asked for.

The tape owns the list of records and forgets everything when closed, spent or deleted. The mathematics is in
`ad/backward.py`; this file turns structures, variables, seeds and modes into one call of it and back.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, MappingProxyType
from typing import Any, ClassVar, TypeAlias, TypeVar, overload

from gradtape import tree
from gradtape.ad.backward import Settled, Step, all_finite, gradients
from gradtape.core.dispatch import PART, convert
from gradtape.core.hinting import Hinting
from gradtape.core.hooks import HOOKS
from gradtape.core.observers import SESSION, TOOLS, Later, TapeObserver
from gradtape.core.record import (
    SCOPE,
    TRACING,
    WATCHING,
    Record,
    RecordingScope,
    RecordList,
    TapeKey,
    current_scope,
    enter,
    enter_scope,
    forget,
    leaf,
    leave,
    location,
    past_of_leaf,
    scope_of,
    user_frame,
)
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.errors import FailedPreconditionError, UnconnectedGradientError
from gradtape.ops.create import zeros_like
from gradtape.ops.stop import ASSIGN
from gradtape.tape import tape_messages as messages
from gradtape.tape.native_forms import noticed
from gradtape.tape.one_call import gradient_of_call
from gradtape.tape.seeds import seeds_of
from gradtape.tape.tape_jacobian import JacobianMethods, walk_again
from gradtape.tape.tape_messages import Mode, Source, UnconnectedGradients
from gradtape.tape.tape_tools import ToolMethods
from gradtape.trace.tracing import lift
from gradtape.variables.indexed_slices import IndexedSlices, like_source, total_of
from gradtape.variables.variable import Variable, unwrapped

Answer: TypeAlias = Tensor | IndexedSlices | None
K = TypeVar("K")
Watched: TypeAlias = Tensor | Readable


class GradientTape(JacobianMethods, ToolMethods, Hinting):
    """Records operations, then differentiates them.

    Trainable variables are watched when they are read inside the block; other tensors with `watch`.

    >>> x = gt.Variable(3.0)
    >>> with gt.GradientTape() as tape:
    ...     y = x * x
    >>> tape.gradient(y, x).numpy()
    np.float32(6.0)

    Args:
        persistent: the tape may be asked several times, and a gradient it gave may be differentiated again.
        watch_accessed_variables: watch trainable variables when they are read.
        through_assignments: whether gradients flow through `Variable.assign` (None: yes, with a warning when a
            requested variable's own assignment was crossed; False: TensorFlow's rule).
        memory_limit: bound, in bytes, on saved values; what is cheapest to recompute is dropped.
        profile: keep the times that `profile()` shows.
        debug: keep every operand: `check()` needs them, `nan_report()` and pictures tell more.
    """

    __slots__ = (
        "__weakref__", "_active", "_asked", "_closed", "_communications", "_crossed", "_entered", "_former", "_kept",
        "_memory", "_nan", "_observers", "_persistent", "_spent_at", "_tensors", "_through", "_told", "_variables",
        "_watch_accessed", "_zeros", "key", "level", "records", "sites", "slow",
    )  # fmt: skip
    _ELSEWHERE: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("gradients", "grad", "grads", "derivative", "backward"), "use gradient(target, sources)"),
        "stop_gradient": "use gt.stop_gradient(t), or `with tape.stop_recording():`", "jvp": "use gt.jvp",
        **dict.fromkeys(("draw", "plot", "show", "graph"), "use picture()"), "hvp": "use gt.hvp, or a tape around this one",
    }  # fmt: skip

    def __init__(
        self,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        through_assignments: bool | None = None,
        memory_limit: int | None = None,
        profile: bool = False,
        debug: bool = False,
    ) -> None:
        self._persistent = persistent
        self._watch_accessed = watch_accessed_variables
        self._through = through_assignments
        self._told: tuple[weakref.ref[Source], ...] = ()  # integers to watch, of which the user has been warned
        self._active = 0
        self._entered = False
        self.level = 0  # batching evaluators around the block
        self._memory: Any = None
        if memory_limit is not None:
            from gradtape.tape.memory_limit import MemoryManager

            self._memory = MemoryManager(memory_limit)
        self.slow = memory_limit is not None
        self._observers: list[TapeObserver] = []
        self.key: Any = None  # a TapeKey, anew for each time
        self._fresh()
        self._closed = False
        if profile:
            TOOLS["observe_profile"](self)
        if debug:
            TOOLS["observe_debug"](self)
        for observer in SESSION.observers:
            observer.tape_made(self)

    def _fresh(self) -> None:
        self._former: TapeKey | None = self.key  # what values of the last time are known by
        self.key = TapeKey(holds=True)
        self.records = RecordList()
        self._variables: dict[int, tuple[Variable, list[Record]]] = {}
        self._crossed = False  # some watched value was assigned to a variable
        self._kept: list[Record] = []  # computed versions it watches without having recorded them
        self._tensors: dict[int, tuple[Any, Record]] = {}
        self._lazy = False
        self._asked = False  # for a derivative
        self._nan: Any = None  # the report on the first derivative that was not finite, or how to make it later
        self.sites: set[tuple[Any, int]] = set()  # where this tape recorded derivatives of others
        self._spent_at: tuple[CodeType, int] | None = None  # the user's call that used it up
        self._communications: dict[Record, Any] = {}  # operations between ranks, in their order, with their results' dtypes
        self._zeros: list[tuple[set[Record | None], list[Record]]] = []  # (targets, source) of answers that were all zeros
        for observer in self._observers:
            observer.fresh()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "used up" if self._spent_at else "recording" if self._active else "not recording"
        return f"<gt.GradientTape: {len(self.records)} records, {'persistent, ' * self._persistent}{state}>"

    # -- the block -----------------------------------------------------------------------------------------------

    def __enter__(self) -> GradientTape:
        self._usable("enter")
        if self._spent_at is not None:
            self._fresh()
        if self._active and self._recording():
            raise ValueError("this tape is already recording: a tape can be entered again only after its block has ended")
        self.level = enter(self)
        self._active += 1
        self._entered = True
        for observer in self._observers:
            observer.entered()
        return self

    def __exit__(self, *exc: object) -> None:
        for observer in self._observers:
            observer.left()
        leave(self)
        self._active -= 1
        # a process that records much gets the short forms of dispatch as machine code, from now on
        noticed(len(self.records))

    def _recording(self) -> bool:
        """Whether this tape records in this thread."""
        scope = SCOPE.get()
        return scope is not None and self in scope.recorders

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Pause this tape: what runs inside is not recorded on it."""
        if self._recording():
            before = current_scope()
            self.key.became("paused")
            enter_scope(before.without(self))
            try:
                yield
            finally:
                self.key.became("recording")
                # the same scope object goes on, unless the tape was spent, closed or reset, or others came or went meanwhile
                now = current_scope()
                if self.key in before.keys and self.key.open and now.recorders == before.without(self).recorders:
                    enter_scope(before)
                elif self.key.open and not any(r is self for r in now.recorders):
                    enter_scope(now.with_recorder(self))
        elif self._active:
            yield  # recording in another thread: nothing to pause here
        else:
            raise RuntimeError("stop_recording: this tape is not recording; use it inside the tape's `with` block")

    def reset(self) -> None:
        """Forget what was recorded and watched; recording goes on if it was on."""
        self._usable("reset")
        # out of the scope first: scopes hold the list of records and the key, and both are replaced
        recording = self._recording()
        enter_scope(current_scope().without(self))
        self._release()
        self._fresh()
        if recording:
            enter(self)

    def close(self) -> None:
        """Free everything the tape holds. Safe to call twice; also happens when the tape is deleted."""
        if self._closed:
            return
        frame = user_frame(1)
        self._spent_at = (frame.f_code, frame.f_lasti)
        self._close()

    def _close(self) -> None:
        self._closed = True
        if self._recording():
            enter_scope(current_scope().without(self))
        self._release()

    def __del__(self) -> None:
        # (one that could not be made has nothing to free; none that records is deleted: its scope holds it)
        if not getattr(self, "_closed", True):
            self._let_go()

    def _release(self) -> None:
        """Drop all records, and what else it knows."""
        self._let_go()
        self.records.clear()
        self._variables.clear()
        self._kept.clear()
        self._tensors.clear()
        self._communications.clear()
        self._memory = None

    def _let_go(self) -> None:
        """Empty all records; versions shared with another open tape keep their values."""
        for observer in SESSION.observers:
            observer.released(self)
        # closed before the records are forgotten: a record is kept for those whose keys are open
        self.key.close()
        forget(self.records, skeleton=False)

    def _usable(self, what: str) -> None:
        if self._closed:
            raise RuntimeError(f"{what}: this tape was closed; make a new GradientTape")

    def _unspent(self, what: str) -> None:
        if self._spent_at is not None:  # (so it is of a closed one)
            self._usable(what)
            file, line = location(*self._spent_at)
            raise RuntimeError(
                f"this tape was already used by the gradient call at {file}:{line} and freed its records; make it "
                "with GradientTape(persistent=True) to ask again, or take all gradients in one call: "
                "tape.gradient(target, [a, b])"
            )

    # -- watching ------------------------------------------------------------------------------------------------

    def watch(self, tensor: Any) -> None:
        """Follow a tensor (or structure of tensors) that is not a trainable variable.

        Raises:
            ValueError: for something that is not a tensor or variable.
        """
        if self._closed:
            self._usable("watch")
        if not self._entered:
            raise FailedPreconditionError("watch: this tape is not recording yet; call tape.watch(x) inside `with tape:`")
        # (a tensor of floats, as nearly all are, needs no further look)
        plain = tensor.__class__ is Tensor and tensor._data.dtype.kind in "fc"
        leaves = [tensor] if plain else self._watchable(tensor)
        if self._spent_at is not None:
            self._fresh()
        for item in leaves:
            # threads may watch one tensor at the same time: each must find the version that the other has made
            with WATCHING:
                if isinstance(item, Variable):
                    self._watch_variable(item)
                else:
                    self._watch_tensor(item)

    def _watchable(self, structure: Any) -> list[Source]:
        """What to watch of a structure. All are looked at first: a call that is refused has watched nothing."""
        leaves = [unwrapped(item) for item in tree.flatten(structure)]
        for item in leaves:
            if not isinstance(item, (Tensor, Variable)):
                raise ValueError(
                    f"watch: {item!r} of type {type(item).__name__} is not a tensor or variable; "
                    "convert it with gt.constant(...) and compute with the result"
                )
        for item in leaves:
            if not item.dtype.is_differentiable:
                messages.warn_not_differentiable("watch: the source", item)
                self._told = (*self._told, weakref.ref(item))
        return leaves

    def _watch_variable(self, variable: Variable) -> None:
        node = variable._tensor._node
        if node is None or self.key not in node.keys:
            variable.watched_by([self], SCOPE.get())

    def _watch_tensor(self, tensor: Tensor) -> None:
        lift(tensor)
        node = tensor._node
        scope = SCOPE.get()
        # What nobody follows becomes a leaf: of what came before it nothing is left to differentiate. A version that others
        # follow stays what it is, and has one more reader.
        if node is None or not any([key.open for key in node.keys]):  # noqa: C419  (quicker than a generator)
            keys = (self.key,) if scope is None else scope.subsets.get((self.key,), (self.key,))
            node = tensor._node = leaf(keys, tensor.shape if tensor.wraps else tensor._data.shape, past_of_leaf(node))
        elif self.key not in node.keys:
            node.keys = (*(key for key in node.keys if key.open), self.key)
            self._kept.append(node)  # every open key of a record accounts for one reference: see RecordList.sweep
        if scope is not None and node.keys is not scope.keys and set(node.keys) == set(scope.keys):
            node.keys = scope.keys  # the same tuple, so that dispatch recognises it at a glance
        # The version that was watched first is the source: `t[i] = v` gives the object another one later. (An id may be that of
        # an object that is gone: hence the weak reference.)
        if (known := self._tensors.get(id(tensor))) is None or known[0]() is not tensor:
            self._tensors[id(tensor)] = (weakref.ref(tensor), node)
        if tensor.dtype.is_complex if tensor.wraps else tensor._data.dtype.kind == "c":
            self.records.complex = True
        if tensor.wraps and (trace := TRACING.get()) is not None and trace.tape_watches is not None:
            trace.tape_watches(self, tensor)

    def watched_variables(self) -> tuple[Variable, ...]:
        """The variables this tape watches, in the order they were first used."""
        return tuple(variable for variable, _ in self._variables.values())

    def watches(self, variable: Variable) -> bool:
        """Called by variables when read: whether this tape wants to follow them."""
        return self._watch_accessed and variable._trainable and self.key.open

    def add_version(self, variable: Variable, node: Record) -> None:
        """Called by variables: one more leaf version of it to sum over."""
        self._variables.setdefault(id(variable), (variable, []))[1].append(node)
        if variable._dtype.is_complex:
            self.records.complex = True

    def add_assignment(self, variable: Variable, node: Record) -> None:
        """Called by variables: a watched value was assigned."""
        self._crossed = True

    def recorded_derivative(self, code: Any, lasti: int) -> None:
        """Called when this tape is about to record somebody else's derivative computation: the backward pass of a tape at
        this call of the user's, or (code None) tangents. What rules do there is not the user's doing."""
        self.sites.add((code, lasti))

    def recorded(self, record: Record, inputs: Sequence[Any], nodes: Sequence[Any], out: Any) -> None:
        """Called by dispatch after each record of a tape that wants to know more than the record itself."""
        if self._memory is not None:
            self._memory.recorded(self.key, record, inputs, out)
        for observer in self._observers:
            observer.recorded(record, inputs, nodes, out)

    def communicated(self, record: Record, dtype: Any) -> None:
        """Called after an operation between ranks: nobody may reach it here, and others need its part in the backward pass."""
        self._communications[record] = dtype

    # -- gradients -----------------------------------------------------------------------------------------------

    # fmt: off
    @overload
    def gradient(
        self, target: Any, sources: Watched, output_gradients: Any = None, unconnected_gradients: Mode = ...
    ) -> Tensor: ...
    @overload
    def gradient(
        self, target: Any, sources: tuple[Watched, ...], output_gradients: Any = None, unconnected_gradients: Mode = ...
    ) -> tuple[Tensor, ...]: ...
    @overload
    def gradient(
        self, target: Any, sources: Sequence[Watched], output_gradients: Any = None, unconnected_gradients: Mode = ...
    ) -> list[Tensor]: ...
    @overload
    def gradient(
        self, target: Any, sources: Mapping[K, Watched], output_gradients: Any = None, unconnected_gradients: Mode = ...
    ) -> dict[K, Tensor]: ...
    @overload
    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, unconnected_gradients: Mode = ...) -> Any: ...
    # fmt: on
    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None, unconnected_gradients: Mode = UnconnectedGradients.NONE
    ) -> Any:
        """Derivative of (the sum of) `target` with respect to each of `sources`, arranged like `sources`.

        Args:
            target: a tensor or structure of tensors; several are added up.
            sources: tensors or variables, any structure.
            output_gradients: weights of the targets, arranged like `target`; None entries mean ones.
            unconnected_gradients: NONE, ZERO or RAISE, for sources the target does not depend on. (For type checkers all
                answers are tensors: where one may be None, as NONE allows, the program knows it better than they do.)

        Raises:
            RuntimeError: when a one-shot tape was asked before, or the tape is closed.
        """
        mode = unconnected_gradients
        mode = mode if mode.__class__ is UnconnectedGradients else UnconnectedGradients(mode)
        if self._spent_at is not None:
            self._unspent("gradient")
        # (one plain tensor, as nearly always, needs no walk through a structure)
        if sources.__class__ is Tensor or sources.__class__ is Variable:
            flat = [messages.check_source(sources, self._told)]
        else:
            flat = [messages.check_source(s, self._told) for s in tree.flatten(sources)]
        plain = target.__class__ is Tensor and target._data.dtype.kind in "fc"
        targets = [target] if plain else [messages.check_target(self._read(t), flat) for t in tree.flatten(target)]
        is_output = plain and target._node is not None and target._node.op is PART and output_gradients is None
        answers = gradient_of_call(self, target, flat) if is_output else None
        if answers is None:
            answers = self._differentiate(targets, seeds_of(targets, target, output_gradients), flat)
        for observer in SESSION.observers:
            observer.asked(self, targets, flat, answers)
        missing = 0
        for i, answer in enumerate(answers):
            if answer is None:
                missing += 1
                answers[i] = self._settled(flat[i], targets, mode)
        if missing and missing == len(flat) and mode is UnconnectedGradients.NONE:
            messages.warn_none(self, flat[0], targets)
        if not self._persistent:
            self._note_zeros(targets, flat, answers)
            self._spend()
        return answers[0] if len(flat) == 1 and flat[0] is sources else tree.pack_sequence_as(sources, answers)

    def _read(self, target: Any) -> Any:
        """A variable as target is read now, in this tape's sight: it may be a source that was not read before."""
        if not isinstance(target, Variable):
            return target
        scope = current_scope()
        with scope_of(scope if self._recording() else scope.with_recorder(self)):
            return convert(target)

    def _note_zeros(self, targets: list[Tensor], flat: list[Source], answers: list[Answer]) -> None:
        """For `explain`, when the values are gone. Nearly always the first element says that an answer is not all zeros."""
        for source, answer in zip(flat, answers, strict=True):
            if answer.__class__ is Tensor and (data := answer._data).size and not data.item(0) and not data.any():
                self._zeros.append(({self._node_of(t) for t in targets}, self._versions(source)))

    def _differentiate(
        self, targets: list[Tensor], seeds: list[Tensor], flat: list[Source], recorded: bool = False
    ) -> list[Answer]:
        """One answer per source: a tensor, an IndexedSlices, or None. `recorded` records the pass on this tape itself."""
        if HOOKS.among_ranks is not None:
            return HOOKS.among_ranks(self, targets, seeds, flat, recorded)
        return self._answers(targets, seeds, flat, recorded)

    def _answers(
        self, targets: list[Tensor], seeds: list[Tensor], flat: list[Source], recorded: bool,
        partners: Mapping[Record, Any] = MappingProxyType({}), settled: Settled | None = None,
    ) -> list[Answer]:  # fmt: skip
        """The answers of this rank; `partners` are operations between ranks, each with a zero like its result, whose rules run
        whether or not this rank needs that; `settled` hears of cotangents of the sources as soon as they are complete."""
        trace = TRACING.get()
        if trace is not None and trace.tape_asked is not None:
            trace.tape_asked(self, flat)
        # Bare arrays are several times quicker than tensors, and do where nobody records what comes and nothing is batched or
        # traced.
        scope = SCOPE.get()
        if scope is not None and not recorded:
            scope = self._others()
        boxed = scope is not None or self.level > 0 or any([t.wraps for t in targets + seeds])  # noqa: C419  (quicker)
        versions = [self._versions(source) for source in flat]
        cotangents = self._cotangents(targets, seeds, boxed)
        # Another rank waits for this one in the backward pass of an operation between ranks: its rule runs here with a
        # cotangent of zeros even if this rank's answer does not need it.
        for record, zero in partners.items():
            cotangents.setdefault(record, box(zero) if boxed else zero)
        # what an earlier `gradient` of this tape gave is one pending record: if the target depends on it, that pass is recorded
        # now
        if self._lazy:
            self._expand_reached(set(cotangents))
        if scope is not None:  # what comes now is not the user's doing
            scope, site = scope.at(user_frame(1))
            for recorder in scope.recorders:
                recorder.recorded_derivative(*site)
        # who is reached matters only where an assignment among them is worth a warning
        reached: set[Record] | None = set() if self._crossed and self._through is None else None
        suspects: list[Any] = []
        also = {r.nodes[-1] for r in partners} if partners else set()
        answers = self._walk(scope, cotangents, versions, boxed, reached, suspects, also, settled)
        if not boxed:
            answers = [like_source(a, s) for a, s in zip(answers, flat, strict=True)]
        self._asked = True
        # twice: the first question is one sum for each value, and that may overflow where every element is finite
        if trace is None and not all_finite(suspects + targets) and not all_finite(suspects + targets, exactly=True):
            TOOLS["note_nan"](self, targets, seeds, set().union(*versions), answers)  # now, before values are freed
        if reached:
            self._report_assignments(flat, reached)
        # a persistent tape may be asked for the derivative of this answer; whether it will be, nobody knows: the pass is
        # recorded then
        if self._persistent and targets and not boxed and not recorded:
            pairs = [(node, s) for t, s in zip(targets, seeds, strict=True) if (node := self._node_of(t)) is not None]
            self._leave_lazy(functools.partial(walk_again, pairs, versions), answers, seeds[0].nbytes)
        return answers

    def _others(self) -> RecordingScope | None:
        """The scope in which the backward pass runs on tensors: everybody else who records now, and a persistent tape
        itself; None when nobody else does and no evaluator is active, so that it can run on bare arrays."""
        rest = current_scope().without(self)
        if not rest.recorders and not rest.level:
            return None
        return rest.with_recorder(self) if self._persistent else rest

    def _cotangents(self, targets: list[Tensor], seeds: list[Tensor], boxed: bool) -> dict[Record, Any]:
        """What the walk starts with: the seed of each target that this tape knows."""
        cotangents: dict[Record, Any] = {}
        for tensor, seed in zip(targets, seeds, strict=True):
            node = self._node_of(tensor)
            if node is not None and (tensor.dtype.is_differentiable if boxed else tensor._data.dtype.kind in "fcV"):
                value = seed if boxed else seed._data
                cotangents[node] = cotangents[node] + value if node in cotangents else value
        return cotangents

    def _walk(
        self, scope: RecordingScope | None, cotangents: dict[Record, Any], versions: list[list[Record]], boxed: bool,
        reached: set[Record] | None, suspects: list[Any], also: set[Any], settled: Settled | None,
    ) -> list[Answer]:  # fmt: skip
        """The reverse walk in `scope` and in the sight of the observers: for each source the sum over its versions. What
        depends on `also` is visited, too."""
        # (a dict keeps the order in which sources were given)
        wanted: Any = also.union(*versions) if also else dict.fromkeys([node for own in versions for node in own])
        before = SCOPE.get()
        if scope is not before:
            SCOPE.set(scope)
        for observer in self._observers:
            observer.asked(self.records)
        try:
            totals = gradients(
                tuple(self.records), cotangents, wanted, boxed=boxed, complex_values=self.records.complex,
                cut=self._through is False, sparse=not boxed and not self._persistent,
                visit=self._visit(reached) if self.slow or reached is not None else (),
                settled=settled, suspects=suspects, once=bool(also),
            )  # fmt: skip
            return [total_of(totals, own, boxed) for own in versions]
        finally:
            if scope is not before:
                SCOPE.set(before)
            for observer in self._observers:
                observer.answered()
            if self._memory is not None:
                self._memory.finish()

    def _visit(self, reached: set[Record] | None = None) -> tuple[Step, ...]:
        """What to call before a record's rules run: under a memory limit its values come back; observers are told."""
        memory = () if self._memory is None else (self._memory.prepare,)
        return (*memory, *(() if reached is None else (reached.add,)), *[o.prepare for o in self._observers])

    def _node_of(self, tensor: Tensor) -> Record | None:
        node = tensor._node
        return node if node is not None and self.key in node.keys else None

    def _versions(self, source: Any) -> list[Record]:
        """The versions whose cotangents add up to the gradient of a source."""
        if isinstance(source, Variable):
            versions = list(self._variables.get(id(source), (None, []))[1])
            # TensorFlow's rule: an assignment cuts, so the version it made counts as a leaf of the variable
            if self._through is False:
                versions += self._assigned(source)
            return versions
        first = self._tensors.get(id(source))
        # (its version when it was watched, not the one it has now: it may have been changed in place since)
        if first is not None and first[0]() is source:
            return [first[1]]
        node = self._node_of(source)
        return [] if node is None else [node]

    def _assigned(self, variable: Variable) -> list[Record]:
        """The recorded assignments to a variable. Found in the records, so that dead ones can be swept."""
        if not self._crossed:
            return []
        return [r for r in self.records if r.op is ASSIGN and r.attrs["variable"] is variable._key]  # type: ignore[index]

    def _report_assignments(self, flat: list[Any], reached: set[Record]) -> None:
        for source in flat:
            if isinstance(source, Variable):
                node = next((r for r in self._assigned(source) if r in reached), None)
                if node is not None:
                    messages.warn_assignment(source, node)

    def _settled(self, source: Source, targets: list[Tensor], mode: UnconnectedGradients) -> Tensor | None:
        """The answer for a source that is not connected, with warnings where an integer is to blame."""
        if TRACING.get() is None:  # in a program the course of loops and branches is not known: no conclusion to draw
            messages.warn_unconnected(self, source, targets, mode)
        if mode is UnconnectedGradients.RAISE:
            raise UnconnectedGradientError(messages.unconnected(self, source, targets))
        return zeros_like(source) if mode is UnconnectedGradients.ZERO else None

    def _spend(self) -> None:
        """A one-shot tape frees its values after its gradient; its skeleton stays until it is deleted."""
        frame = user_frame(2)
        self._spent_at = (frame.f_code, frame.f_lasti)
        if self._active:
            enter_scope(current_scope().without(self))
        self.key.close()
        # (a report that is made only when it is asked for still needs the values)
        if not isinstance(self._nan, Later):
            forget(self.records, skeleton=True)
