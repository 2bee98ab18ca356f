"""A traced function, ready to run: gather the inputs, run the compiled block, give back results and effects.

Each call reads the captures anew, runs, and then writes back what the function wrote: variables, tensors changed in place,
attributes, containers, globals. Results and written values are described by templates: structures whose leaves say which
output of the block goes there. An error while it runs changes nothing; the undecorated function is then run in its
place, so that state, message and traceback are those of eager code.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape import tree
from gradtape.core.conversion import typed
from gradtape.core.dispatch import apply, convert
from gradtape.core.opdef import Op
from gradtape.core.record import SCOPE
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.errors import InvalidArgumentError
from gradtape.functions.compiled import Compiled
from gradtape.functions.outside_arrays import NumpyContent, itself
from gradtape.functions.outside_containers import CHANGEABLE, AtStart, guard_start, only_longer, pairs, places_at_start
from gradtape.functions.stages import traced_program
from gradtape.functions.staging.absent import is_absent, whole
from gradtape.functions.staging.places import (
    MISSING,
    ArrayContent,
    Attribute,
    Cell,
    Content,
    Global,
    InnerCell,
    Lifted,
    Place,
    TensorVersion,
    VariableValue,
)
from gradtape.functions.staging.staged_values import Maybe, StagedItems, staged_items
from gradtape.ir.graph import Block
from gradtape.ir.printer import to_text
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.walk import walk
from gradtape.ops.lists import LIST_GET
from gradtape.ops.operators import rebind
from gradtape.ops.staged import ASSERT
from gradtape.ops.structured import CALL, CHECKPOINTED
from gradtape.trace.effects import active
from gradtape.trace.tracing import TRACE, TracedTensor, current_trace
from gradtape.trace.weak import WeakTensor, default_number
from gradtape.variables.indexed_slices import IndexedSlices
from gradtape.variables.leaf_versions import versions_now
from gradtape.variables.locking import Exclusive, exclusive
from gradtape.variables.variable import Variable


class Capture:
    """An input that is not an argument: how to read it now, and the type the program was made for."""

    __slots__ = ("kind", "label", "read", "spec", "target")

    def __init__(self, read: Callable[[], Any], spec: Any, label: str, kind: str, target: Any = None) -> None:
        self.read = read
        self.spec = spec
        self.label = label
        self.kind = kind  # "variable", "versions" (of a variable, given by the program), "tensor", "array", "number"
        self.target = target

    def tensor(self) -> Any:
        value = self.read()
        # (how many leaf versions a variable has is known at the call only)
        if self.kind == "versions":
            return versions_now(value, active())
        if self.kind == "number":
            return box(self.spec.dtype.as_numpy_dtype(value))
        return value if value.__class__ is Tensor else convert(value)

    def changed(self) -> str | None:
        """In words, if what is found now is not what the program was made for."""
        if self.kind == "number" and self.target is not None:
            return self._other_number()
        value: Any = self.read()
        if not isinstance(value, (Tensor, Readable, np.ndarray, np.generic)):
            return f"{self.label} was a tensor, now {type(value).__name__}"
        tensor: Any = value
        # by shape and dtype only: values are read anew at each call anyway
        if tuple(tensor.shape) != tuple(self.spec.shape):
            return f"{self.label} had shape {tuple(self.spec.shape)}, now {tuple(tensor.shape)}"
        dtype = tensor.dtype if isinstance(tensor, np.ndarray | np.generic) else tensor.dtype.as_numpy_dtype
        if np.dtype(dtype) != np.dtype(self.spec.dtype.as_numpy_dtype):
            return f"{self.label} had dtype {self.spec.dtype.name}, now {np.dtype(dtype).name}"
        return None

    def _other_number(self) -> str | None:
        try:
            kind = type(self.read())
        except LookupError:
            return f"{self.label} has lost an item"
        return None if kind is self.target else f"{self.label} was of type {self.target.__name__}, now {kind.__name__}"


class Output:
    """A leaf of a template: output number `index` of the block, as a tensor, a Python number or a list of tensors."""

    __slots__ = ("index", "number")

    def __init__(self, index: int, number: type | None = None) -> None:
        self.index = index
        self.number = number  # the Python type to convert to, for state that was a Python number


class Optional:
    """A leaf that is None where output `flag` is false."""

    __slots__ = ("flag", "inner")

    def __init__(self, flag: int, inner: Any) -> None:
        self.flag = flag
        self.inner = inner


class Slices(NamedTuple):
    """A leaf that is an `IndexedSlices` of two outputs."""

    values: Any
    indices: Any
    dense_shape: Any


class Program:
    """One traced signature of a function."""

    def __init__(
        self, block: Any, captures: list[Capture], guards: Any, constraints: Any, memory_limit: int | None, backend: str | None
    ) -> None:
        self.name = name = block.name
        self.block = block
        self.captures = captures
        self.guards = guards
        self.constraints = constraints
        self.compiled = Compiled(block, name, memory_limit, backend, block)
        self.result: Any = None  # template
        self.actions: list[Callable[[list[Any], Sequence[Any], Any], None]] = []
        self.notes: list[str] = []
        self.exclusive: Exclusive | None = None  # the variables it assigns

    def changed(self) -> str | None:
        """In words, what of the world the program was made for is no longer so; None if it still fits."""
        typed = (c for c in self.captures if c.kind in ("tensor", "array") or (c.kind == "number" and c.target is not None))
        reason: str | None = self.guards.changed()
        return reason or next((text for c in typed if (text := c.changed()) is not None), None)

    def __call__(self, tensors: Sequence[Any], caller: Any = None) -> Any:
        """Run on the tensors of one call.

        `caller.rerun(tensors)` runs the undecorated function instead, and `caller.containers` are the call's own lists and
        dicts, in the order of `rebuild.containers`: a program holds neither the function nor its arguments.
        """
        # inside another trace there are no values to run on
        if TRACE.get() is not None:
            return self.inside(tensors, caller)
        # who assigns variables holds their locks from the first read to the last write, or an update of another thread gets
        # lost
        return self._run(tensors, caller) if self.exclusive is None else self.exclusive.run(self._run, tensors, caller)

    def _run(self, tensors: Sequence[Any], caller: Any) -> Any:
        inputs = [*tensors, *(c.tensor() for c in self.captures)]
        scope = SCOPE.get()
        # batches and tangents have a rule for each operation, not for a whole program
        if (scope is not None and scope.level) or any(t.wraps for t in inputs):
            return self._eagerly(tensors, caller)
        # a forward accumulator wants the tangent of each operation as it happens
        if scope is not None and any(not r.key.holds for r in scope.recorders):
            return self._eagerly(tensors, caller)
        try:
            outs = self.compiled(inputs)
        except Exception as error:  # raised there, one way or the other
            return self._failed(error, tensors, caller)
        for action in self.actions:
            action(outs, tensors, caller)
        return filled(self.result, outs)

    def inside(self, tensors: Sequence[Any], caller: Any = None) -> Any:
        """Called while another function is traced: one call operation of that program."""
        trace = current_trace()
        # not read now: that would freeze today's values into the program around
        inputs = [*tensors, *(_captured(c) for c in self.captures)]
        operands = [trace.own(t) for t in inputs]
        attrs: dict[str, Any] = {"callee": self.block}
        if self.compiled.memory_limit is not None:
            attrs["memory_limit"] = self.compiled.memory_limit
        outs = trace.structured(CALL, {"inputs": operands}, {}, attrs)["outputs"]
        for action in self.actions:
            action(outs, tensors, caller)
        return filled(self.result, outs)

    def _eagerly(self, tensors: Sequence[Any], caller: Any) -> Any:
        if caller is None:
            raise InvalidArgumentError(f"{self.name} cannot run operation by operation here")
        return caller.rerun(tensors)

    def _failed(self, error: Exception, tensors: Sequence[Any], caller: Any) -> Any:
        """The same error from the undecorated function, with its state and traceback; the program's own if there is none."""
        # run again only if nobody sees that it ran twice; an assertion that fails has no other effect than the error
        if caller is not None and not self.has_effects():
            try:
                caller.rerun(tensors)
            except Exception as eager:
                raise eager from None
        raise error

    def has_effects(self) -> bool:
        return any(operation.op.effect and operation.op is not ASSERT for operation in walk(self.block))

    @property
    def output_specs(self) -> Any:
        """The structure of the result with types for tensors."""
        return filled(self.result, [v.type for v in self.block.results])

    def to_text(self) -> str:
        return to_text(self.compiled.optimized)

    def report(self) -> list[str]:
        """Lines for `explain`."""
        lines = [f"inputs: {len(self.block.params) - len(self.captures)} arguments, {len(self.captures)} captured"]
        lines += [f"  captured {c.kind} {c.label}: {c.spec.dtype.name}{list(c.spec.shape)}" for c in self.captures]
        lines.append(f"operations: {_count(self.block)} traced, {_count(self.compiled.optimized)} after passes")
        lines += _made(self.compiled)
        for (wanted, _), (half, forward, backward) in self.compiled._halves.items():
            again = _count(backward.block, CHECKPOINTED)
            limited = f"; {again} loops are run again in parts, within {self.compiled.memory_limit} bytes" if again else ""
            lines.append(f"backward for {len(wanted)} watched inputs: saves {len(half.saved)} values{limited}")
            lines += [*_made(forward), *_made(backward)]
        return [*lines, *self.notes]


def _made(compiled: Compiled) -> list[str]:
    """What a backend made of a program, if it was compiled."""
    return [] if compiled._executable is None else list(compiled._executable.report())


def _captured(capture: Capture) -> Any:
    """What a called program captures, as an input of the program around it: read again at each call of that."""
    tracer = active()
    value = capture.read()
    if tracer is None or not (value.__class__ is Tensor or isinstance(value, np.ndarray)):
        return capture.tensor()
    if isinstance(value, np.ndarray):
        return tracer.array_input(tracer.arrays.met(value, capture.read))
    return tracer.stand_in(value, capture.read, capture.label)


def _count(block: Block, op: Op | None = None) -> int:
    return sum(1 for operation in walk(block) if op is None or operation.op is op)


# -- templates -------------------------------------------------------------------------------------------------------


def filled(template: Any, outs: Sequence[Any]) -> Any:
    """A template with its outputs put in."""
    kind = template.__class__
    if kind is Output:
        return _leaf(template, outs[template.index])
    if kind is Optional:
        flag = outs[template.flag]
        if isinstance(flag, TracedTensor):
            return Maybe(flag, filled(template.inner, outs), None)
        # asked for types, `flag` is a type: then the answer is the type that it may have
        return filled(template.inner, outs) if not isinstance(flag, Tensor) or bool(flag) else None
    if kind is list or kind is tuple:
        return kind([filled(t, outs) for t in template])
    if kind is dict:
        return {k: filled(v, outs) for k, v in template.items()}
    if kind is Slices:
        parts = filled(template.values, outs), filled(template.indices, outs)
        slices = Slices if isinstance(parts[0], TensorSpec) else IndexedSlices  # asked for types: there are no tensors
        return slices(*parts, template.dense_shape)
    if tree.is_nested(template):
        return tree.pack_sequence_as(template, [filled(t, outs) for t in tree.flatten(template)])
    return template


def _leaf(leaf: Output, value: Any) -> Any:
    if isinstance(value, TracedTensor) or not isinstance(value, Tensor):
        if isinstance(value, TracedTensor) and isinstance(value._data.type, ListSpec):
            return [StagedItems(value)]  # type: ignore[arg-type]
        return value
    if leaf.number is not None:
        return leaf.number(value._data)
    if isinstance(value._data, list):
        return [apply(LIST_GET, value, np.int32(i)) for i in range(len(value._data))]
    return value


class _Collector:
    """Makes templates out of traced values, collecting the outputs of the block."""

    def __init__(self, tracer: Any) -> None:
        self.tracer = tracer
        self.outputs: list[Any] = []
        self.places: dict[Any, int] = {}

    def output(self, tensor: Any) -> int:
        value = self.tracer.trace.operand(tensor)
        # two names of one tensor are one output, and one object in the caller's hands
        # (found by the value of the program, not by the tensor object)
        if value not in self.places:
            self.places[value] = len(self.outputs)
            self.outputs.append(value)
        return self.places[value]

    def template(self, value: Any, label: str, number: type | None = None, numbers: bool = False) -> Any:
        value = itself(value)
        if is_absent(value):
            if not numbers:
                raise InvalidArgumentError(
                    f"{label} is set on some paths only and was not there before the call: set it before (None will do)"
                )
            return self.template(value.get(), label, number, numbers)
        if isinstance(value, Maybe):
            return Optional(self.output(value.flag), self.template(value.value, label, number, numbers))
        if isinstance(value, WeakTensor):
            if number is not None:  # a Python number it was, and only numbers went into it: a Python number it is
                return Output(self.output(value.strong()), _kind_of(value))
            value = default_number(value)
        if isinstance(value, TracedTensor):
            return Output(self.output(value))
        if staged_items(value) is not None:
            return Output(self.output(value[0].items))
        if isinstance(value, Tensor):
            return Output(self.output(value))
        if isinstance(value, Variable):
            return Output(self.output(value.read())) if numbers else value
        if isinstance(value, IndexedSlices):
            return Slices(self.template(value.values, label), self.template(value.indices, label), value.dense_shape)
        if isinstance(value, Mapping) and type(value) is dict:
            if numbers:
                whole(value)
            return {k: self.template(v, label, None, numbers) for k, v in value.items()}
        if type(value) in (list, tuple):
            return type(value)([self.template(v, label, None, numbers) for v in value])
        if tree.is_nested(value):
            return tree.pack_sequence_as(value, [self.template(v, label, None, numbers) for v in tree.flatten(value)])
        if numbers and isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
            return Output(self.output(self.tracer.trace.constant(convert(value)._data)))
        return value


def _kind_of(value: WeakTensor) -> type:
    return {"b": bool, "i": int, "f": float}.get(value.dtype.dtype.kind, complex)


def finished(tracer: Any, result: Any, stand_ins: Sequence[Any], function: Any, rebuild: Any) -> Program:
    """The program of a trace whose Python function has returned: outputs, templates and write-backs."""
    collector = _Collector(tracer)
    template = collector.template(_returnable(result, function), "the result", numbers=True)
    log = tracer.logs[0]
    pending = []
    for place, old in log.entries.values():
        if isinstance(place, Content) and isinstance(place.target, CHANGEABLE) and id(place.target) in tracer.external:
            guard_start(place, old, place.read(), tracer.installed.get(place.key), tracer.uses, tracer.guards)
    for place, old in log.entries.values():
        pending.append(_action(place, old, collector, tracer, stand_ins, rebuild))
    tracer.written = frozenset(log.entries)
    tracer.building.leave(log, tracer.created, tracer.from_outside)
    block = tracer.block
    # concrete tensors that somebody watched: ahead of everything that may use them
    block.operations[:0] = tracer.lifting.constants
    block.give(outputs=collector.outputs)
    block = traced_program(block)
    for array, read in tracer.arrays.guarded(tracer.stand_ins):
        tracer.guards.array(read, typed(array))
    tracer.guards.seal()
    constraints = tuple(tracer.trace.typing.constraints)
    program = Program(block, tracer.captures, tracer.guards, constraints, tracer.memory_limit, tracer.backend)
    program.result = template
    program.actions = [action for action in pending if action is not None]
    program.exclusive = exclusive([p.entry.variable for p, _ in log.entries.values() if isinstance(p, VariableValue)])
    return program


_VALUES = (
    Tensor, Readable, np.ndarray, np.generic, bool, int, float, complex, str, bytes, type(None), IndexedSlices, StagedItems,
)  # fmt: skip


def _returnable(result: Any, function: Any) -> Any:
    for leaf in tree.flatten(result):
        if not isinstance(leaf, _VALUES) and not hasattr(leaf, "snapshot"):
            raise TypeError(
                f"the function {getattr(function, '__name__', function)} returned {leaf!r} of type {type(leaf).__name__}; a "
                "gt.function returns tensors, numbers, None and structures of them"
            )
    return result


Action = Callable[[list[Any], Sequence[Any], Any], None]


def _action(
    place: Place, old: Any, collector: _Collector, tracer: Any, stand_ins: Sequence[Any], rebuild: Any
) -> Action | None:
    """What repeats one write at each call."""
    if isinstance(place, Lifted):
        return None
    now = place.read()
    if isinstance(place, VariableValue):
        return _assign(place.entry.variable, collector.output(now))
    if isinstance(place, TensorVersion):
        return _rebinding(place.target, now, collector, tracer, stand_ins)
    if isinstance(place, NumpyContent):
        return _filling(tracer.arrays.known[id(place.target)][1], now)
    if isinstance(place, ArrayContent):
        return None if id(place.target) not in tracer.external else _restoring(place, collector)
    if isinstance(place, (Content, Attribute)) and id(place.target) not in tracer.external:
        return None  # made by the function itself
    if isinstance(place, InnerCell) and (not isinstance(place, Cell) or id(place.target) in tracer.own):
        return None
    label = f"{place.label} (written at {place.line})"
    if isinstance(place, Content):
        before = tracer.installed.get(place.key, old)
        return _CONTENT_ACTIONS[place.kind](_held(place.target, rebuild), id(place.target), before, old, now, collector, label)
    _storable(now, label, tracer)
    kind = type(old) if type(old) in (bool, int, float) else None
    # what was passed in for this place is there again: nothing to write back
    if isinstance(now, TracedTensor) and now is tracer.installed.get(place.key):
        return None
    if now is MISSING or (isinstance(place, Attribute | Global | Cell) and now is old):
        return lambda outs, tensors, caller: place.write(now)  # the next call may find something else there
    template = collector.template(now, label, kind)
    return lambda outs, tensors, caller: _write(place, filled(template, outs))


Holder = Callable[[Any], Any]


def _held(container: Any, rebuild: Any) -> Holder:
    """How a run finds the list or dict that was written: the caller's own, if it was (part of) an argument."""
    places = [i for i, twin in enumerate(getattr(rebuild, "containers", ())) if twin is container]

    def find(caller: Any) -> Any:
        target = caller.containers[places[0]] if places else container
        tracer = active()
        if tracer is not None:  # another function is being traced: it is that trace's write too
            tracer.before(target)
        return target

    if places:
        container = None
    return find


def _write(place: Place, value: Any) -> None:
    """A write at run time; while another function is traced, it is that trace's write too."""
    tracer = active()
    if tracer is not None:
        tracer.note(place)
    place.write(value)


def _storable(value: Any, label: str, tracer: Any) -> None:
    for leaf in tree.flatten(value):
        if isinstance(leaf, (*_VALUES, type(MISSING), type, type(len), type(_storable))) or id(leaf) in tracer.external:
            continue
        raise InvalidArgumentError(
            f"{label}: a gt.function can store tensors, numbers, strings and structures of them; this is a new "
            f"{type(leaf).__name__}, made while the function was traced, and would be the same object after every call. Make "
            "it outside the function"
        )


def _assign(variable: Variable, index: int) -> Action:
    held = weakref.ref(variable)  # not to keep it: a variable that was an argument may go

    def act(outs: list[Any], tensors: Sequence[Any], caller: Any) -> None:
        target = held()
        if target is not None:
            target.take_version(outs[index])

    return act


def _rebinding(target: Any, now: Any, collector: _Collector, tracer: Any, stand_ins: Sequence[Any]) -> Action | None:
    """A tensor from outside got a new version: the caller's object gets it too."""
    if id(target) not in tracer.starts or now._data is tracer.starts[id(target)]:
        return None
    index = collector.output(now)
    for place, stand_in in enumerate(stand_ins):
        if stand_in is target:
            return lambda outs, tensors, caller: _rebind(tensors[place], outs[index])
    for original, stand_in in tracer.stand_ins.values():
        if stand_in is target and isinstance(original, Tensor):
            return lambda outs, tensors, caller: _rebind(original, outs[index])
    return None


def _rebind(target: Any, version: Any) -> None:
    if target.__class__ is not Tensor and not isinstance(target, TracedTensor):
        return
    tracer = active()
    if tracer is not None:
        tracer.before(target)
    rebind(target, version if version.wraps else box(version._data, version._node))
    _changed(target)


def _changed(target: Any) -> None:
    """A container or tensor was written at run time; another function may be being traced."""
    tracer = active()
    if tracer is not None:
        tracer.changed(target)


def _filling(read: Callable[[], Any], content: Any) -> Action:
    """What a NumPy array from outside holds after each call. (What it held before is guarded.)"""

    def act(outs: list[Any], tensors: Sequence[Any], caller: Any) -> None:
        array = read()
        if (tracer := active()) is not None:
            array = tracer.arrays.met(array, read)
        array[...] = content

    return act


def _restoring(place: Any, collector: _Collector) -> Action:
    template = collector.template(place.read(), place.label)
    return lambda outs, tensors, caller: place.write(filled(template, outs))


def _list_action(
    target: Holder, id_of: int, before: list[Any], old: list[Any], now: list[Any], collector: _Collector, label: str
) -> Action:  # fmt: skip
    """What a list or deque gets at each call: its new items at the end, or all of them if the others changed too."""
    grown = only_longer(before, now)
    part = now[len(before) :] if grown else now
    staged = grown or staged_items(part) is not None
    template = collector.template(part, label) if staged else _items_template(dict(enumerate(part)), old, collector, label)
    for value in part:
        _storable(value, label, collector.tracer)

    def act(outs: list[Any], tensors: Sequence[Any], caller: Any) -> None:
        items = target(caller)
        fresh = filled(template, outs) if staged else list(_items_filled(template, items, outs).values())
        if not grown:
            items.clear()
        items.extend(fresh)
        _changed(items)

    return act


def _dict_action(
    target: Holder, id_of: int, before: dict[Any, Any], old: dict[Any, Any], now: dict[Any, Any], collector: _Collector,
    label: str,
) -> Action:  # fmt: skip
    assigned = collector.tracer.uses.assigned.get(id_of, ())
    kept = {k: v for k, v in now.items() if k in old and old[k] is v and k not in assigned}
    moved = list(now)[: len(old)] != list(old)  # keys were taken out, or stand in another order
    changed = now if moved else {k: v for k, v in now.items() if k not in kept}
    for k, v in changed.items():
        if isinstance(k, TracedTensor):
            raise InvalidArgumentError(
                f"{label}: a tensor known only at run time cannot be the key of a dict that outlives the call"
            )
        _storable(v, label, collector.tracer)
    template = _items_template(changed, old, collector, label)

    def act(outs: list[Any], tensors: Sequence[Any], caller: Any) -> None:
        items = target(caller)
        fresh = _items_filled(template, items, outs)
        if moved:
            items.clear()
        for k, v in fresh.items():  # not `update`, which adds in a Counter
            items[k] = v
        _changed(items)

    return act


def _set_action(
    target: Holder, id_of: int, before: frozenset[Any], old: frozenset[Any], now: frozenset[Any], collector: _Collector,
    label: str,
) -> Action:  # fmt: skip
    def act(outs: list[Any], tensors: Sequence[Any], caller: Any) -> None:
        items = target(caller)
        items -= old - now
        items |= now - old

    return act


_CONTENT_ACTIONS: dict[str, Any] = {"list": _list_action, "deque": _list_action, "dict": _dict_action, "set": _set_action}


def _items_template(items: dict[Any, Any], old: Any, collector: _Collector, label: str) -> dict[Any, Any]:
    """How the items of a container are made at each call. A tensor from outside is the one that stands at its place then."""
    stood, at_start = dict(pairs(old)), places_at_start(old)
    for original, stand_in in collector.tracer.stand_ins.values():  # what was read from it, and put into it again
        if id(original) in at_start and stand_in._data is collector.tracer.starts.get(id(stand_in)):
            at_start[id(stand_in)] = at_start[id(original)]
    kinds = {k: type(v) if type(v) in (bool, int, float) else None for k, v in stood.items()}
    return {
        k: AtStart(at_start[id(v)]) if id(v) in at_start else collector.template(v, label, kinds.get(k))
        for k, v in items.items()
    }


def _items_filled(template: dict[Any, Any], items: Any, outs: list[Any]) -> dict[Any, Any]:
    return {k: items[t.key] if t.__class__ is AtStart else filled(t, outs) for k, t in template.items()}
