"""What a function wrote while it was traced, as actions that repeat the writes at each call.

Each place of the tracer's log (`staging/places.py`) gets one action or none. Containers and tensors that were arguments are
the caller's own at each call: an action holds where they stand among the arguments, never the objects.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from gradtape import tree
from gradtape.core.tensor import Tensor, box
from gradtape.errors import InvalidArgumentError
from gradtape.functions.outside_arrays import NumpyContent
from gradtape.functions.outside_containers import AtStart, only_longer, pairs, places_at_start
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
from gradtape.functions.staging.staged_values import staged_items
from gradtape.functions.templates import VALUES, OutputCollector, filled
from gradtape.ops.operators import rebind
from gradtape.trace.effects import active
from gradtape.trace.tracing import TracedTensor
from gradtape.variables.variable import Variable

Action = Callable[[list[Any], Sequence[Any], Any], None]


def write_back(
    place: Place, old: Any, collector: OutputCollector, tracer: Any, stand_ins: Sequence[Any], rebuild: Any
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
        # What stood there when the function looked: the stand-ins, if its content became inputs.
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

    # (the closure must not hold the container of the call that was traced)
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
        if isinstance(leaf, (*VALUES, type(MISSING), type, type(len), type(_storable))) or id(leaf) in tracer.external:
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


def _rebinding(target: Any, now: Any, collector: OutputCollector, tracer: Any, stand_ins: Sequence[Any]) -> Action | None:
    """A tensor from outside got a new version: the caller's object gets it too."""
    # made by the function itself, or changed and changed back: nothing to tell the caller
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


def _restoring(place: Any, collector: OutputCollector) -> Action:
    template = collector.template(place.read(), place.label)
    return lambda outs, tensors, caller: place.write(filled(template, outs))


def _list_action(
    target: Holder, id_of: int, before: list[Any], old: list[Any], now: list[Any], collector: OutputCollector, label: str
) -> Action:  # fmt: skip
    """What a list or deque gets at each call: its new items at the end, or all of them if the others changed too."""
    # An addition is an addition to whatever the list holds then; anything else sets all items.
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
    target: Holder, id_of: int, before: dict[Any, Any], old: dict[Any, Any], now: dict[Any, Any], collector: OutputCollector,
    label: str,
) -> Action:  # fmt: skip
    # what was assigned is written even if it is the object that stood there: at the next call another one may
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
    target: Holder, id_of: int, before: frozenset[Any], old: frozenset[Any], now: frozenset[Any], collector: OutputCollector,
    label: str,
) -> Action:  # fmt: skip
    def act(outs: list[Any], tensors: Sequence[Any], caller: Any) -> None:
        items = target(caller)
        items -= old - now
        items |= now - old

    return act


def _numbers_action(
    target: Holder, id_of: int, before: Any, old: Any, now: Any, collector: OutputCollector, label: str
) -> Action:  # fmt: skip
    def act(outs: list[Any], tensors: Sequence[Any], caller: Any) -> None:
        target(caller)[:] = now

    return act


_CONTENT_ACTIONS: dict[str, Any] = {
    "list": _list_action, "deque": _list_action, "dict": _dict_action, "set": _set_action, "numbers": _numbers_action,
}  # fmt: skip


def _items_template(items: dict[Any, Any], old: Any, collector: OutputCollector, label: str) -> dict[Any, Any]:
    """How the items of a container are made at each call. A tensor from outside is the one that stands at its place then."""
    stood, at_start = dict(pairs(old)), places_at_start(old)
    for original, stand_in in collector.tracer.stand_ins.values():  # what was read from it, and put into it again
        # (one that was changed in place in between is another value: it is an output)
        if id(original) in at_start and stand_in._data is collector.tracer.starts.get(id(stand_in)):
            at_start[id(stand_in)] = at_start[id(original)]
    kinds = {k: type(v) if type(v) in (bool, int, float) else None for k, v in stood.items()}
    return {
        k: AtStart(at_start[id(v)]) if id(v) in at_start else collector.template(v, label, kinds.get(k))
        for k, v in items.items()
    }


def _items_filled(template: dict[Any, Any], items: Any, outs: list[Any]) -> dict[Any, Any]:
    return {k: items[t.key] if t.__class__ is AtStart else filled(t, outs) for k, t in template.items()}
