"""Tracing one signature of a Python function: what it reads from outside, what it writes, and what it returns.

While the function runs on stand-ins, this object answers for everything outside the program: tensors and arrays found
in globals, closures, attributes and containers become inputs (captures), variables are read and assigned as values of
the program, writes to Python objects are logged and undone, and what else was read is guarded (`functions/guards.py`).
The result is a `Program` (`functions/program.py`), which does all of it for real at each call.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradtape.ad import batch_regions as batch_regions  # fills HOOKS.over_batch
from gradtape.core.conversion import is_foreign_array, typed
from gradtape.core.hooks import HOOKS
from gradtape.core.record import LOCAL, user_location
from gradtape.core.tensor import Readable, Tensor
from gradtape.errors import InvalidArgumentError
from gradtape.functions.autograph.convert import convert, converted_function
from gradtape.functions.building import Build, Building, InitialValueError
from gradtape.functions.guards import Guards
from gradtape.functions.impure import consumable
from gradtape.functions.lifting import CONSTANTS, Lifting
from gradtape.functions.outside_arrays import OutsideArray, OutsideArrays
from gradtape.functions.outside_containers import CHANGEABLE, ContainerUses, is_array, pairs, places_at_start
from gradtape.functions.program import Capture
from gradtape.functions.readers import ItemReader, held, reader
from gradtape.functions.special_methods import MetClasses
from gradtape.functions.staging.absent import whole
from gradtape.functions.staging.aliasing.aliases import FIXED, TRACK, Aliases, Restart
from gradtape.functions.staging.aliasing.conditions import emitted
from gradtape.functions.staging.branches import choose
from gradtape.functions.staging.loop_memory import LoopMemory
from gradtape.functions.staging.places import (
    MISSING,
    Attribute,
    Cell,
    Content,
    DictContent,
    Global,
    ListContent,
    Log,
    Place,
    VariableValue,
    content_of,
)
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.functions.staging.trials import Trials
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block, Value
from gradtape.ir.types import TensorSpec
from gradtape.ops import staged
from gradtape.trace import fast_path as fast_path  # fills HOOKS.quick
from gradtape.trace.effects import KEYS, LENGTH, TRACER
from gradtape.trace.tracing import Trace, TracedTensor, traced
from gradtape.variables.leaf_versions import as_version
from gradtape.variables.variable import Variable

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (list, tuple, dict)
FIXED_KINDS = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, type)


def objects_of(function: Any) -> Iterator[Any]:
    """What a callable brings along: the object whose method it is, a callable object itself, the arguments of a partial."""
    if isinstance(function, types.MethodType):
        yield function.__self__
    elif isinstance(function, functools.partial):
        yield from objects_of(function.func)
        yield from function.args
        yield from function.keywords.values()
    elif not isinstance(function, FIXED_KINDS):
        yield function


class VariableEntry:
    """A variable inside the program: its current tensor there, and the capture through which it came in."""

    __slots__ = ("capture", "tensor", "variable", "versions")

    def __init__(self, variable: Variable, tensor: TracedTensor, capture: Capture) -> None:
        self.variable = variable
        self.tensor = tensor
        self.capture = capture
        self.versions: TracedTensor | None = None  # the input for its leaf versions: see `variables/leaf_versions.py`


class Tracer:
    """The world of one trace. The methods `outer`, `attr`, `item`, `note` and `before` are called by converted code."""

    def __init__(
        self, specs: Sequence[Any], names: Sequence[str], name: str, lifted: set[Any], building: Building, concrete_inputs: bool
    ) -> None:
        self.block = Block(specs, names, name)
        self.trace = Trace(self.block, self._outside)
        self.aliases = Aliases(self, choose, tracking=TRACK in lifted)
        self.trace.typing.asked = symbols_in(list(specs))
        self.trace.before_write = self.before
        self.trace.after_write = self.changed
        self.trace.tape_watches = self._watched
        self.trace.tape_asked = self.aliases.asked
        self.trace.array = self.array_input
        self.trace.is_input = self._is_input
        self.lifting = Lifting(self)
        self.trace.lift = self.lifting.lift
        self.trace.value_of = self.lifting.value_of
        self.trace.follows_constants = CONSTANTS in lifted
        self.guards = Guards()
        self.lifted = lifted  # places whose Python numbers are inputs
        self.concrete_inputs = concrete_inputs
        self.memory_limit: int | None = None  # of the program: see `compiled.py`
        self.backend: str | None = None
        self.arguments = len(self.block.params)
        self.call_tensors: Callable[[], Sequence[Any]] = tuple  # the tensors of the call it is traced for
        self.kinds: dict[int, Any] = {}  # among ranks, of arguments that the program depends on: what they are
        self.captures: list[Capture] = []
        self.stand_ins: dict[int, tuple[Any, TracedTensor]] = {}
        self.starts: dict[int, Any] = {}  # the value each stand-in began with
        self.variables: dict[int, VariableEntry] = {}
        self.building = building
        self.created: list[Variable] = []
        self.created_at = ""  # the line of the first
        self.written: frozenset[Any] = frozenset()  # places, at the end of the trace
        self._met: dict[int, tuple[Any, dict[Any, Callable[[], Any]]]] = {}  # tensors and arrays, and the places that hold them
        self.uses = ContainerUses()
        self.passes_numbers = False  # in and out: those that the function reads and writes
        self.numbers: dict[Any, Place] = {}  # places read as constants
        self._read_before: dict[tuple[int, str], tuple[Any, Any]] = {}  # names of modules and functions, and where they stand
        self.installed: dict[Any, Any] = {}  # places whose content became inputs, and what stands there instead
        self.logs: list[Log] = [Log()]
        self.arrays = OutsideArrays(self.logs)
        self.classes = MetClasses()
        self.told: set[int] = set()  # objects outside that are written to when the program runs: files, queues
        self.external: dict[int, Any] = {}  # objects from outside: reads of them are guarded
        self.own: dict[int, Any] = {}  # classes that the function made, and the variables of it that their methods see
        self.follows_changes = self.aliases.tracking
        self.can_unroll = 0  # staged loops around that could be unrolled instead
        self.trials = Trials(self, building)
        self.loops: LoopMemory | None = None  # of those inside the loop being traced
        self.parent = TRACER.get()

    # -- inputs ----------------------------------------------------------------------------------------------------

    def arguments_for(self, tensors: Sequence[Any]) -> list[TracedTensor]:
        """One stand-in per tensor argument."""
        stand_ins = [traced(v) for v in self.block.params[: self.arguments]]
        for tensor in stand_ins:
            self.starts[id(tensor)] = tensor._data
        return stand_ins

    def add_input(self, read: Callable[[], Any], spec: Any, label: str, kind: str, target: Any = None) -> TracedTensor:
        value = self.block.add_param(spec, label)
        self.captures.append(Capture(read, spec, label, kind, target))
        return traced(value)

    def stand_in(self, tensor: Tensor, read: Callable[[], Any], label: str) -> TracedTensor:
        """The program's input for a tensor object from outside; the same one each time it is met."""
        # two inputs for one object would be two values to Python's `is`, to tapes and to changes in place
        known = self.stand_ins.get(id(tensor))
        if known is not None:
            return known[1]
        spec = tensor._data.type if isinstance(tensor, TracedTensor) else TensorSpec(tensor.shape, tensor.dtype)
        stand_in = self.add_input(read, spec, label, "tensor")
        self.stand_ins[id(tensor)] = (tensor, stand_in)
        self.starts[id(stand_in)] = stand_in._data
        return stand_in

    def _watched(self, tape: Any, tensor: Any) -> None:
        """A tape watches a tensor of the program."""
        self.aliases.watched(tape, tensor)
        if HOOKS.rank_kind is not None and HOOKS.rank_kind(tensor) is None:
            self.trace.watched_numbers.add(tensor._data)
            if tensor._data.producer in self.lifting.constants:  # it has no other use: this holds outside of the program, too
                tensor._data.producer.attrs["own"] = True

    def rank_kind(self, param: Value) -> Any:
        """What an input is among several ranks, asked of the tensor it stands for now; the program is good for that kind."""
        if param.index < self.arguments:
            if param.index not in self.kinds:
                tensors = self.call_tensors()
                tensor = tensors[param.index] if param.index < len(tensors) else None
                self.kinds[param.index] = HOOKS.rank_kind(tensor) if isinstance(tensor, Tensor) else LOCAL
            return self.kinds[param.index]
        capture = self.captures[param.index - self.arguments]
        if capture.kind in ("array", "number"):
            return LOCAL if capture.kind == "array" else None
        value = capture.read() if capture.kind == "tensor" else capture.target()
        if not isinstance(value, Tensor):
            return LOCAL if value is None else HOOKS.rank_kind(value)
        if not value.wraps:
            return self.guards.rank_kind(capture.read, HOOKS.rank_kind(value), capture.label)
        # what was lifted into this program, since a tape there watches it, has its past still
        return HOOKS.rank_kind(value) if value._data is not param else value._node and HOOKS.kind_of(value._node)

    def _outside(self, trace: Trace, tensor: Tensor) -> TracedTensor:
        """A concrete tensor (or one of an enclosing trace) reaches an operation."""
        # what was made while the function was traced, and nobody watches, is a constant, which passes can compute with
        if isinstance(tensor, TracedTensor) or self._is_input(tensor):
            return self.stand_in(tensor, lambda: tensor, "a captured tensor")
        return trace.constant(tensor._data, **staged.own_value(tensor))

    def _is_input(self, tensor: Tensor) -> bool:
        node = tensor._node
        return (node is not None and bool(node.keys)) or self.concrete_inputs or id(tensor) in self.stand_ins

    def array_input(self, array: Any) -> TracedTensor | None:
        """An array that was read from outside reaches an operation: it is an input, converted at each call."""
        if (array := self.arrays.as_input(array)) is None:
            return None
        known_input = self.stand_ins.get(id(array))
        if known_input is not None:
            return known_input[1].__copy__()
        from gradtape.dtypes import as_dtype

        now = typed(array)
        stand_in = self.add_input(
            self.arrays.known[id(array)][1], TensorSpec(now.shape, as_dtype(now.dtype)), "an array", "array"
        )
        self.stand_ins[id(array)] = (array, stand_in)
        return stand_in.__copy__()

    def variable(self, variable: Variable) -> VariableEntry:
        entry = self.variables.get(id(variable))
        if entry is None:
            stored = variable._stored
            spec = TensorSpec(stored.shape, stored.dtype)
            tensor = self.add_input(reader(variable), spec, variable.name, "variable", weakref.ref(variable))
            entry = self.variables[id(variable)] = VariableEntry(variable, tensor, self.captures[-1])
        return entry

    def versions_of(self, variable: Variable) -> TracedTensor:
        """The input that stands for the versions which the program gives a variable out of values that nobody watches."""
        entry = self.variable(variable)
        if entry.versions is None:
            label = f"versions of {variable.name}"
            entry.versions = self.add_input(held(variable), entry.capture.spec, label, "versions", weakref.ref(variable))
        return entry.versions

    def version(self, variable: Variable, tensor: TracedTensor) -> TracedTensor:
        """What is assigned to a variable as its next version."""
        return as_version(self, variable, tensor)

    def initial(self, variable: Variable, start: Any) -> Any:
        """A variable is made while the function is traced: it is real, and its initial value must be known now."""
        # Under a condition that would be Python's if its number had not become an input: traced again with the number as it is.
        if len(self.logs) > 1 and not self.building.under_way and self.lifted - {TRACK}:
            raise Build
        self.trials.refuse("a variable is made in the loop")
        self.created_at = self.created_at or user_location()
        self.created.append(variable)
        if not isinstance(start, TracedTensor):
            return start
        if self.trace._home(start._data) is not self.block or len(self.trace.blocks) > 1:
            raise ValueError("a variable cannot be made inside a staged loop or branch; make it before")
        value = self.lifting.value_of(start, effects=True)
        if value is None:
            raise InitialValueError(
                f"{self.created_at}: the function makes a variable each time it is called, whose initial value depends on its "
                "inputs; make it outside, or once: `if self.v is None: self.v = gt.Variable(...)`"
            )
        return value

    def follow_constants(self) -> None:
        """Somebody differentiates what was computed from constants: if that is not known, trace again so that it is."""
        if not self.trace.follows_constants:
            raise Restart(CONSTANTS)

    # -- reads of converted code -----------------------------------------------------------------------------------

    def outer(self, scope: Any, name: str, value: Any) -> Any:
        """A global or closure variable."""
        cell = scope.cells.get(name)
        # (a variable of the function itself that a method of a class made in it sees)
        if cell is not None and id(cell) in self.own:
            return value
        if value.__class__ in FIXED_KINDS:  # only which one it is counts, and that was noted when it was read first
            holder = scope.globals if cell is None else cell
            known = self._read_before.get((id(holder), name))
            if known is not None and known[0] is value:
                return value
            self._read_before[(id(holder), name)] = value, holder
        place: Place = Cell(cell, name) if cell is not None else Global(scope.globals, name)
        return self._read(place, value, name, lambda: self.guards.name(scope.globals if cell is None else cell, name, value))

    def attr(self, target: Any, name: str, value: Any) -> Any:
        if isinstance(target, types.ModuleType):
            # (what libraries hold does not change from call to call: a guard for each `np.pi` would cost more than it tells)
            if not _user_module(target):
                return value
            return self._read(
                Global(target.__dict__, name), value, name, lambda: self.guards.name(target.__dict__, name, value)
            )
        if isinstance(target, (Tensor, Readable)) or id(target) not in self.external:
            return value
        # A bound method is a new object at each read: of a user's class which function it is counts, of others nothing does.
        if isinstance(value, (types.MethodType, types.BuiltinMethodType)) and (
            value.__self__ is target or isinstance(value.__self__, type)
        ):
            if isinstance(value, types.MethodType) and value.__self__ is target and _user_class(type(target)):
                self.guards.attribute(target, name, value)
            return value
        return self._read(Attribute(target, name), value, name, lambda: self.guards.attribute(target, name, value))

    def no_attr(self, target: Any, name: str) -> None:
        """An attribute was asked for and is not there."""
        if id(target) in self.external:
            self.guards.missing(target, name)

    def item(self, container: Any, key: Any, value: Any) -> Any:
        if id(container) not in self.external or isinstance(value, TracedTensor):
            return value
        content = content_of(container)
        if key is LENGTH or key is KEYS:
            if content is not None and self._written(content):
                return value  # who looks at what is changed depends on what it held at the start: see outside_containers.py
            if key is KEYS and isinstance(container, (dict, set, frozenset)):
                self.guards.keys(container)
            else:
                self.guards.length(container)
            return value
        # the container's numbers are inputs in this trace: they are put in their places before the first is read
        if content is not None and content.key in self.lifted and content.key not in self.installed:
            self._install(content)
            return container[key]
        if content is not None and self._written(content):
            return self._item_at_start(content, value)
        # a constant until somebody writes to that place: then the trace begins anew with the number as an input (`note`)
        if content is not None and type(value) in (int, float, bool):
            self.numbers[content.key] = content
        if isinstance(value, (Tensor, np.ndarray)) and not isinstance(value, TracedTensor) and not isinstance(key, Tensor):
            return self._tensor_or_array(value, lambda: container[key], f"an item [{key!r}]", (id(container), key))
        self._foreign(value, lambda: container[key])
        self.guards.item(container, key, value)
        return self.known(consumable(value, f"item [{key!r}]"))

    def known(self, value: Any) -> Any:
        """A value reached from outside: what it holds is from outside too."""
        if isinstance(value, Tensor) and not value.wraps:
            return self.stand_in(value, lambda: value, "a captured tensor")
        if not isinstance(value, (*_PLAIN, Tensor, Readable, types.ModuleType)) and id(value) not in self.own:
            self.external[id(value)] = value
            if isinstance(value, (types.MethodType, functools.partial)):  # somebody else's, handed on
                for brought in objects_of(value):
                    self.known(brought)
            self.classes.meet(value if isinstance(value, type) else value.__class__)
            if isinstance(value, CHANGEABLE):
                self.uses.used(value)
                content = content_of(value)
                if content.key in self.lifted and content.key not in self.installed:
                    self._install(content)  # before anybody looks into it
        return value

    def made_class(self, cls: type) -> None:
        """The function made a class: it, and what its methods see of the function, is not from outside."""
        self.own[id(cls)] = cls
        self.classes.meet(cls)
        for value in vars(cls).values():
            methods = (value.fget, value.fset, value.fdel) if isinstance(value, property) else (value,)
            for method in methods:
                for cell in getattr(getattr(method, "__func__", method), "__closure__", None) or ():
                    self.own[id(cell)] = cell

    def given(self, value: Any) -> Any:
        """A container handed to the library: a list of the program as it is, tensors from outside as inputs."""
        kind = value.__class__
        if kind is Maybe:
            return self.given(value.get()) if isinstance(value.value, _CONTAINERS) else value
        if kind is list and staged_items(value) is not None:
            return value  # ops find its items: see core/tensor.py
        if kind is list or kind is tuple:
            if id(value) in self.external:
                self.item(value, LENGTH, len(value))
                return kind([self.given(self.item(value, i, v)) for i, v in enumerate(value)])
            return kind([self.given(v) for v in value]) if any(v.__class__ in _CONTAINERS for v in value) else value
        if kind is dict:
            whole(value)
        if kind is dict and id(value) in self.external:
            self.item(value, KEYS, tuple(value))
            return {k: self.given(self.item(value, k, v)) for k, v in value.items()}
        return value

    def _written(self, content: Content) -> bool:
        return any(content.key in log.entries for log in self.logs)

    def _item_at_start(self, content: Content, value: Any) -> Any:
        """An item of a container that was changed: a tensor from outside is read where it stood when the call began."""
        # the outermost log that has it: what it held when the call began, not when the loop or branch did
        old = next(log.entries[content.key][1] for log in self.logs if content.key in log.entries)
        number = type(value) in (int, float, bool) and any(value is other for _, other in pairs(old))
        if number and isinstance(content, (ListContent, DictContent)) and content.key not in self.lifted and self._may_lift():
            raise Restart(content.key)
        if is_array(value):
            place = places_at_start(old).get(id(value), MISSING)
            if place is not MISSING:
                return self._tensor_or_array(value, ItemReader(content, place), f"an item [{place!r}]", (content.key, place))
        return self.known(value)

    def _read(self, place: Place, value: Any, label: str, guard: Callable[[], None]) -> Any:
        # what the function wrote itself is no read from outside: nothing to guard, nothing to capture
        if any(place.key in log.entries for log in self.logs):
            return self.known(value) if not isinstance(value, TracedTensor) else value  # written here: the program's own
        if isinstance(value, (Tensor, np.ndarray)):
            return (
                value
                if isinstance(value, TracedTensor) and self._mine(value)
                else self._tensor_or_array(value, place.read, label, place.key)
            )
        if place.key in self.lifted:
            self._install(place)
            return place.read()
        if type(value) in (int, float, bool):
            self.numbers[place.key] = place
        # before the guard: an array of another library is asked for its content at each call, not compared
        self._foreign(value, place.read)
        guard()
        return self.known(consumable(value, f"`{label}`"))

    def _foreign(self, value: Any, read: Callable[[], Any]) -> None:
        """An array of another library is an input like NumPy's, as soon as an operation takes it."""
        if is_foreign_array(value):
            self.arrays.known.setdefault(id(value), (value, lambda: typed(read())))

    def _mine(self, tensor: TracedTensor) -> bool:
        return self.trace._home(tensor._data) is not None

    def _tensor_or_array(self, value: Any, read: Callable[[], Any], label: str, key: Any) -> Any:
        readers = self._met.setdefault(id(value), (value, {}))[1]
        if key not in readers:
            if readers:  # one input for both, as long as both hold the same
                self.guards.same(next(iter(readers.values())), read, label)
            readers[key] = read
        if isinstance(value, np.ndarray):
            return self.arrays.met(value, read)
        return self.stand_in(value, read, label)

    def _install(self, place: Place) -> None:
        """State from outside that the function writes: its numbers and tensors become inputs, in their place."""
        # In the outermost log, so that the end of the trace writes back what stands there then, and undoing puts the user's own
        # back.
        self.logs[0].note(place)
        content = place.read()
        if isinstance(content, list):
            installed: Any = [self._installed(v, ItemReader(place, i), place.label) for i, v in enumerate(content)]
        elif isinstance(content, dict) and isinstance(place, DictContent):
            installed = {k: self._installed(v, ItemReader(place, k), place.label) for k, v in content.items()}
        else:
            installed = self._installed(content, place.read, place.label)
        self.installed[place.key] = installed
        place.write(installed)

    def opened(self, container: Any) -> None:
        """Somebody who notes no reads looks into a container: tensors from outside in it give way to their inputs, arrays count
        by what they hold."""
        if id(container) not in self.external or isinstance(container, Tensor) or (content := content_of(container)) is None:
            return
        old = next((log.entries[content.key][1] for log in self.logs if content.key in log.entries), None)
        now = content.read()
        old = now if old is None else old
        start = places_at_start(old)
        for value in [value for _, value in pairs(now) if id(value) in start and isinstance(value, np.ndarray)]:
            self.arrays.met(value, ItemReader(content, start[id(value)]))
            self.arrays.used(value)

        def inputs(items: Any) -> Any:
            fresh = {
                key: self.stand_in(value, ItemReader(content, start[id(value)]), f"an item [{start[id(value)]!r}]")
                if id(value) in start and isinstance(value, Tensor) and not isinstance(value, TracedTensor)
                else value
                for key, value in pairs(items)
            }
            return fresh if isinstance(items, dict) else list(fresh.values())

        if any(isinstance(value, Tensor) and not isinstance(value, TracedTensor) for _, value in pairs(now)):
            self.logs[0].note(content)
            self.installed.setdefault(content.key, inputs(old))
            content.write(inputs(now))

    def _installed(self, value: Any, read: Callable[[], Any], label: str) -> Any:
        from gradtape.trace.weak import weak

        if type(value) in (int, float, bool):
            self.passes_numbers = True
            kind = np.bool_ if type(value) is bool else np.int64 if type(value) is int else np.float64
            number = self.add_input(read, TensorSpec((), kind), label, "number", type(value))
            return weak(number._data)
        if isinstance(value, Tensor) and not isinstance(value, TracedTensor):
            return self.stand_in(value, read, label)
        return value

    def number_input(self, owner: Any, label: str, read: Callable[[], float]) -> Any:
        """A Python number the library asks for at each call, such as a learning rate."""
        from gradtape.trace.weak import weak

        key = ("number", id(owner), label)
        known = self.stand_ins.get(key)  # type: ignore[call-overload]
        if known is None:
            number = self.add_input(lambda: np.float64(read()), TensorSpec((), np.float64), label, "number")
            known = self.stand_ins[key] = (owner, number)  # type: ignore[index]
        return weak(known[1]._data)

    special = staticmethod(functools.partial(converted_function, quiet=True))  # of a method that Python calls
    converted = staticmethod(convert)  # of a function that the library calls for the user: like the user's own code

    # -- writes of converted code ----------------------------------------------------------------------------------

    def note(self, place: Place) -> None:
        """A write is about to happen."""
        log = self.logs[-1]
        if place.key in log.entries:
            return
        place.line = user_location()
        # the first write to a place that was there before the call
        if not any(place.key in other.entries for other in self.logs) and self.from_outside(place):
            if place.key in self.numbers and self._may_lift():
                raise Restart(place.key)
            if len(self.logs) > 1:  # on a path that may not be taken: what it was must be known to the program
                self._install(place)
        log.note(place)

    def _may_lift(self) -> bool:
        """Whether a number from outside can become an input: not if Python needs it, nor in a trace that will be made again."""
        plain = len(self.logs) == 1 and (self.building.under_way or self.created)
        return not plain and FIXED not in self.lifted

    def from_outside(self, place: Place) -> bool:
        """Whether what the place belongs to was there before the trace."""
        if isinstance(place, (Global, Cell)):
            return not isinstance(place, Cell) or id(place.target) not in self.own
        return isinstance(place, (Attribute, ListContent, DictContent)) and id(place.target) in self.external

    def before(self, target: Any) -> None:
        """A container or tensor is about to be changed in place; of other objects converted code notes no items."""
        if isinstance(target, np.flatiter) and isinstance(target.base, OutsideArray):
            self.arrays.writing(target.base.root)
        if (place := content_of(target)) is None:
            return
        if isinstance(target, deque) and id(target) in self.external and len(self.logs) > 1:
            raise InvalidArgumentError(
                f"{user_location()}: a deque from outside cannot be changed in a loop or branch of a gt.function: it is not "
                "known what it will hold afterwards. Use a list, or make the deque inside the function"
            )
        self.aliases.before(target)
        self.note(place)

    def same(self, a: Any, b: Any) -> Any:
        """`a is b`: known only when the program runs if the path decides which objects they are."""
        return emitted(self.aliases.same(a, b))

    def changed(self, target: Any) -> None:
        """A list, dict or tensor was written."""
        self.aliases.changed(target)

    def before_variable(self, variable: Variable) -> None:
        self.note(VariableValue(self.variable(variable)))

    def undo(self) -> None:
        """Everything as it was before the trace, the innermost construct first."""
        for log in reversed(self.logs):
            log.undo()

    def close(self) -> None:
        """The trace is over: let go of the objects it met, and of itself, so that nothing waits for the collector."""
        for met in (
            self.external, self.own, self.stand_ins, self.starts, self.variables, self.arrays, self.numbers, self.installed,
            self.logs, self._read_before, self._met, self.uses,
        ):  # fmt: skip
            met.clear()
        self.aliases.close()
        self.classes.close()
        self.trace.outside, self.trace.before_write, self.trace.array = Trace.constant_of, None, None
        self.trace.after_write = self.trace.tape_watches = self.trace.tape_asked = None
        self.trace.lift = self.trace.value_of = None

    # -- throwing parts of a trace away ----------------------------------------------------------------------------

    def checkpoint(self) -> Any:
        return len(self.trace.block.operations), len(self.trace.constants)

    def rollback(self, mark: Any) -> None:
        del self.trace.block.operations[mark[0] :]
        self.trace.constants[-1].clear()


def _user_class(kind: type) -> bool:
    return kind.__module__.partition(".")[0] not in ("gradtape", "numpy", "scipy", "builtins")


def _user_module(module: types.ModuleType) -> bool:
    name = module.__name__.partition(".")[0]
    return name not in ("gradtape", "numpy", "scipy", "math", "functools", "itertools", "operator", "builtins")
