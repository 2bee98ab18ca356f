"""A traced function, ready to run: gather the inputs, run the compiled block, give back results and effects.

Each call reads the captures anew, runs, and then writes back what the function wrote: variables, tensors changed in place,
attributes, containers, globals. Results and written values are described by templates: structures whose leaves say which
output of the block goes there. An error while it runs changes nothing; the undecorated function is then run in its
place, so that state, message and traceback are those of eager code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape import tree
from gradtape.core.conversion import typed
from gradtape.core.dispatch import convert
from gradtape.core.opdef import Op
from gradtape.core.record import SCOPE
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.errors import InvalidArgumentError
from gradtape.functions.compiled import Compiled
from gradtape.functions.outside_containers import CHANGEABLE, guard_start
from gradtape.functions.stages import traced_program
from gradtape.functions.staging.places import Content, VariableValue
from gradtape.functions.templates import VALUES, OutputCollector, filled
from gradtape.functions.write_backs import Action, write_back
from gradtape.ir.graph import Block
from gradtape.ir.printer import to_text
from gradtape.ir.walk import walk
from gradtape.ops.staged import ASSERT
from gradtape.ops.structured import CALL, CHECKPOINTED
from gradtape.trace.effects import active
from gradtape.trace.tracing import TRACE, current_trace
from gradtape.variables.leaf_versions import versions_now
from gradtape.variables.locking import Exclusive, exclusive


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
        self.kinds: tuple[tuple[int, Any], ...] = ()  # arguments whose kind among ranks counted, and that kind
        self.result: Any = None  # template
        self.actions: list[Action] = []
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


def finished(tracer: Any, result: Any, stand_ins: Sequence[Any], function: Any, rebuild: Any) -> Program:
    """The program of a trace whose Python function has returned: outputs, templates and write-backs."""
    collector = OutputCollector(tracer)
    template = collector.template(_returnable(result, function), "the result", numbers=True)
    log = tracer.logs[0]
    pending = []
    for place, old in log.entries.values():
        if isinstance(place, Content) and isinstance(place.target, CHANGEABLE) and id(place.target) in tracer.external:
            guard_start(place, old, place.read(), tracer.installed.get(place.key), tracer.uses, tracer.guards)
    for place, old in log.entries.values():
        pending.append(write_back(place, old, collector, tracer, stand_ins, rebuild))
    tracer.written = frozenset(log.entries)
    tracer.building.leave(log, tracer.created, tracer.from_outside)
    block = tracer.block
    # concrete tensors that somebody watched: ahead of everything that may use them
    block.operations[:0] = tracer.lifting.constants
    block.give(outputs=collector.outputs)
    block = traced_program(block)
    # last: whether the content of an array counts is known only when all uses of it are
    for array, read in tracer.arrays.guarded(tracer.stand_ins):
        tracer.guards.array(read, typed(array))
    tracer.guards.seal()
    constraints = tuple(tracer.trace.typing.constraints)
    program = Program(block, tracer.captures, tracer.guards, constraints, tracer.memory_limit, tracer.backend)
    program.kinds = tuple(tracer.kinds.items())
    program.result = template
    program.actions = [action for action in pending if action is not None]
    program.exclusive = exclusive([p.entry.variable for p, _ in log.entries.values() if isinstance(p, VariableValue)])
    return program


def _returnable(result: Any, function: Any) -> Any:
    for leaf in tree.flatten(result):
        if not isinstance(leaf, VALUES) and not hasattr(leaf, "snapshot"):
            raise TypeError(
                f"the function {getattr(function, '__name__', function)} returned {leaf!r} of type {type(leaf).__name__}; a "
                "gt.function returns tensors, numbers, None and structures of them"
            )
    return result
