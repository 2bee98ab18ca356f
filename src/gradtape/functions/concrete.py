"""`ConcreteFunction`: one trace of a function, with its types.

It takes the tensors it was traced for and no others; static arguments may be left out or must be what they were. When
Python state it read has changed, it is traced again: a result is never stale.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any

from gradtape import tree
from gradtape.core.dispatch import convert
from gradtape.core.hinting import Completing
from gradtape.errors import InvalidArgumentError
from gradtape.functions.cache import Traced
from gradtape.functions.engine import Caller, Engine, FunctionState
from gradtape.functions.signature import BoundCall, Numbered
from gradtape.ir.dims import fresh_symbol
from gradtape.ir.graph import Block
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import walk
from gradtape.trace.tracing import traced as stand_in

# -- graphs ----------------------------------------------------------------------------------------------------------
# What `ConcreteFunction.graph` shows: the program of a trace under the names of TensorFlow's graphs, to look at.


class GraphOperation:
    """One operation of a program: its number among those of its kind makes its name."""

    __slots__ = ("name", "type")

    def __init__(self, name: str, type: str) -> None:
        self.name = name
        self.type = type

    def __repr__(self) -> str:
        return f"<gt.Operation '{self.name}' type={self.type}>"


class GraphView:
    """The program of a concrete function: its inputs, outputs and operations, those inside loops and branches included."""

    def __init__(self, name: str, block: Any, inputs: Sequence[Any], outputs: Sequence[Any], variables: Sequence[Any]) -> None:
        self.name = name
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.variables = tuple(variables)
        self._block = block

    def get_operations(self) -> list[GraphOperation]:
        """All operations, in order."""
        counts: dict[str, int] = {}
        operations = []
        for operation in walk(self._block):
            kind = operation.op.name
            counts[kind] = counts.get(kind, -1) + 1
            operations.append(GraphOperation(f"{kind}_{counts[kind]}" if counts[kind] else kind, kind))
        return operations

    def __repr__(self) -> str:
        return f"<gt graph of {self.name}, {len(self.get_operations())} operations>"


# -- traces ----------------------------------------------------------------------------------------------------------


def with_stand_ins(args: Any) -> Any:
    """Arguments with a traced tensor for each `TensorSpec`: only its type will be asked for."""
    return tree.map_structure(_stand_in, args)


def _stand_in(leaf: Any) -> Any:
    if not isinstance(leaf, TensorSpec):
        return leaf
    if leaf.shape.rank is None:
        raise ValueError(f"get_concrete_function needs the rank of each tensor, got {leaf}")
    # each unknown size is one of its own: nothing says that two of them agree
    shape = [fresh_symbol("n") if d is None else d for d in leaf.shape]
    return stand_in(Block([TensorSpec(shape, leaf.dtype)]).params[0])


class ConcreteFunction(Completing):
    """One traced signature of a `gt.function`.

    >>> @gt.function
    ... def f(x, n):
    ...     return x * n
    >>> cf = f.get_concrete_function(gt.TensorSpec([None], gt.float32), 3)
    >>> cf(gt.constant([1.0, 2.0])).numpy()
    array([3., 6.], dtype=float32)
    """

    _INTERNAL = "program"

    def __init__(
        self, engine: Engine, target: Callable[..., Any], state: FunctionState, traced: Traced, call: BoundCall
    ) -> None:
        self._engine, self._target, self._state, self._traced = engine, target, state, traced
        self._args, self._kwargs = call.rebuild(engine.binder)([_open(spec) for spec in traced.specs])
        self._shapes = call.shapes
        self._family = call.family()

    @property
    def name(self) -> str:
        return self._engine.name

    @property
    def program(self) -> Any:
        """What runs."""
        return self._traced.program

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keyword arguments, with a `TensorSpec` for each tensor."""
        return self._args, self._kwargs

    @property
    def inputs(self) -> list[Any]:
        """The types of the tensors it takes, in order."""
        return [_open(spec) for spec in self._traced.specs]

    @property
    def structured_outputs(self) -> Any:
        """The result's structure with a `TensorSpec` for each tensor."""
        return tree.map_structure(_open, self._traced.program.output_specs)

    @property
    def outputs(self) -> list[Any]:
        """The types of the tensors it gives, in order."""
        return [spec for spec in tree.flatten(self.structured_outputs) if isinstance(spec, TensorSpec)]

    @property
    def output_shapes(self) -> Any:
        return tree.map_structure(lambda leaf: leaf.shape if isinstance(leaf, TensorSpec) else leaf, self.structured_outputs)

    @property
    def output_dtypes(self) -> Any:
        return tree.map_structure(lambda leaf: leaf.dtype if isinstance(leaf, TensorSpec) else leaf, self.structured_outputs)

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables it reads or assigns, in the order it met them."""
        # (held weakly: a program does not keep its variables alive)
        held = (capture.target() for capture in self._traced.program.captures if capture.kind == "variable")
        return tuple(variable for variable in held if variable is not None)

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of its variables that tapes watch."""
        return tuple(variable for variable in self.variables if variable.trainable)

    @property
    def captured_inputs(self) -> list[Any]:
        """What it reads besides its arguments, as it is now: variables, tensors, arrays and Python numbers."""
        # versions are a bookkeeping of gradients, no input the user knows
        captures = [capture for capture in self._traced.program.captures if capture.kind != "versions"]
        return [capture.target() if capture.kind == "variable" else capture.tensor() for capture in captures]

    @property
    def function_type(self) -> Signature:
        """Its parameters and result, with a `TensorSpec` for each tensor and the value of each static argument."""
        given = {self._engine.binder.name(i): value for i, value in enumerate(self._args)} | self._kwargs
        kind = Parameter.POSITIONAL_OR_KEYWORD
        parameters = [Parameter(name, kind, annotation=value) for name, value in given.items()]
        return Signature(parameters, return_annotation=self.structured_outputs)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """Its types as text, one argument per line (`verbose`) or all in one.

        >>> cf = gt.function(lambda x, n: x * n).get_concrete_function(gt.TensorSpec([2]), 3)
        >>> print(cf.pretty_printed_signature())
        <lambda>(x, n=3)
          x: TensorSpec(shape=(2,), dtype=gt.float32, name='x')
          returns: TensorSpec(shape=(2,), dtype=gt.float32, name=None)
        """
        parameters = self.function_type.parameters.values()
        shown = [p.name if _has_spec(p.annotation) else f"{p.name}={p.annotation!r}" for p in parameters]
        head = f"{self.name}({', '.join(shown)})"
        if not verbose:
            return head
        types = [f"  {p.name}: {p.annotation}" for p in parameters if _has_spec(p.annotation)]
        return "\n".join([head, *types, f"  returns: {self.structured_outputs}"])

    @property
    def graph(self) -> GraphView:
        """The program under the names of TensorFlow's graphs: inputs, outputs, variables, operations."""
        return GraphView(self.name, self._traced.program.block, self.inputs, self.outputs, self.variables)

    def to_text(self) -> str:
        """The program."""
        return self._traced.program.to_text()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = BoundCall(*self._filled(args, kwargs))
        self._check(call)
        traced = self._traced
        # what it captured has changed (a global, an attribute): the same types are traced anew
        if not ((traced.check is None or traced.check()) and traced.fits(call.tensors)):
            pattern = tuple(tuple(None if isinstance(d, Numbered) else d for d in shape) for shape in self._shapes)
            is_open = any(None in shape for shape in pattern)
            traced, _ = self._engine.traced(self._target, self._state, call, pattern if is_open else None)
        return traced.program(call.tensors, Caller(self._target, call, self._engine.binder))

    def _filled(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with static ones put where they were left out."""
        binder = self._engine.binder
        wanted = {binder.name(i): value for i, value in enumerate(self._args)} | self._kwargs
        # TensorFlow takes the tensors alone, or all arguments: both are told apart by how many there are
        if set(wanted) - set(kwargs) == set(list(wanted)[: len(args)]) and len(args) <= len(self._args):
            free = list(wanted)  # everything is given
        else:
            free = [name for name, value in wanted.items() if _has_spec(value) and name not in kwargs]
        if len(args) > len(free):
            raise TypeError(
                f"{self.name}: this trace takes {len(free)} tensor argument{'s' if len(free) != 1 else ''} "
                f"({', '.join(free)}), got {len(args)}"
            )
        unknown = [name for name in kwargs if name not in wanted]
        if unknown:
            raise TypeError(f"{self.name}: this trace has no argument `{unknown[0]}`")
        given = {**wanted, **dict(zip(free, args, strict=False)), **kwargs}
        missing = [n for n in wanted if _has_spec(wanted[n]) and n not in kwargs and n not in free[: len(args)]]
        if missing:
            raise TypeError(f"{self.name}: argument `{missing[0]}` is missing")
        values = [_converted(wanted[name], given[name]) for name in wanted]
        return tuple(values[: len(self._args)]), dict(zip(self._kwargs, values[len(self._args) :], strict=True))

    def _check(self, call: BoundCall) -> None:
        """A trace serves the types it was made for."""
        specs = self.inputs
        names = [leaf.name for leaf in self._traced.leaves if leaf.kind == "tensor"]
        if len(call.tensors) == len(specs):
            for name, spec, tensor in zip(names, specs, call.tensors, strict=True):
                if tensor.dtype != spec.dtype:
                    raise InvalidArgumentError(
                        f"{self.name}: argument `{name}` must have dtype {spec.dtype.name}, got {tensor.dtype.name}"
                    )
                if not spec.shape.is_compatible_with(tensor.shape):
                    raise InvalidArgumentError(
                        f"{self.name}: argument `{name}` must have shape {spec.shape}, got {tensor.shape}"
                    )
        # ranks, dtypes and static arguments must be the very ones; sizes were compared above
        if call.family() != self._family:
            leaves = call.rebuild(self._engine.binder).leaves
            for old, new in zip(self._traced.leaves, leaves, strict=False):
                if old.kind != "tensor" and old != new:
                    raise ValueError(f"{self.name}: argument `{old.name}` of this trace is {old.text}, got {new.text}")
            raise ValueError(f"{self.name}: the arguments have another structure than this trace was made for")

    def __repr__(self) -> str:
        return f"<gt.ConcreteFunction {self.name}({', '.join(map(str, self.inputs))})>"


def _open(spec: Any) -> Any:
    """A type as the user writes it: None for dimensions that are symbols."""
    if not isinstance(spec, TensorSpec) or spec.shape.rank is None:
        return spec
    return TensorSpec([d if isinstance(d, int) else None for d in spec.shape], spec.dtype, spec.name)


def _has_spec(value: Any) -> bool:
    return any(isinstance(leaf, TensorSpec) for leaf in tree.flatten(value))


def _converted(wanted: Any, given: Any) -> Any:
    """Python numbers given for a declared tensor become one."""
    if isinstance(wanted, TensorSpec) and isinstance(given, (bool, int, float, complex, list)):
        from gradtape.core.dispatch import convert

        return convert(given, hint=wanted.dtype)
    return given


# -- any rank --------------------------------------------------------------------------------------------------------
# `get_concrete_function` where the rank of a tensor is not given: one trace per rank, made when a call shows it.
# A program has tensors of known rank, so `TensorSpec(None, …)` stands for a family of traces. What depends on the rank, such as
# the types of the results, can be asked of the member for one rank: `for_ranks`.


def rankless(structure: Any) -> bool:
    """Whether some type among the arguments leaves the rank open."""
    return any(isinstance(leaf, TensorSpec) and leaf.shape.rank is None for leaf in tree.flatten(structure))


class AnyRank:
    """The traces of a `gt.function` for tensors of any rank.

    >>> total = gt.function(gt.reduce_sum).get_concrete_function(gt.TensorSpec(None, gt.float32))
    >>> float(total(gt.ones([3]))), float(total(gt.ones([2, 2])))
    (3.0, 4.0)
    """

    def __init__(self, get: Callable[..., ConcreteFunction], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._get, self.name, self._args, self._kwargs = get, name, args, kwargs
        self._members: dict[tuple[int, ...], ConcreteFunction] = {}

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keyword arguments as they were declared."""
        return self._args, self._kwargs

    @property
    def inputs(self) -> list[Any]:
        """The types of the tensors it takes, in order."""
        return [leaf for leaf in tree.flatten((self._args, self._kwargs)) if isinstance(leaf, TensorSpec)]

    def for_ranks(self, *ranks: int) -> ConcreteFunction:
        """The trace in which the tensors without a declared rank have these ranks, in order."""
        member = self._members.get(ranks)
        if member is None:
            feed = iter(ranks)
            args, kwargs = tree.map_structure(lambda leaf: _ranked(leaf, feed), (self._args, self._kwargs))
            member = self._members[ranks] = self._get(*args, **kwargs)
        return member

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        declared = [*self._args[: len(args)], *(self._kwargs.get(name) for name in kwargs)]
        ranks = [
            convert(given, hint=leaf.dtype).ndim
            for spec, value in zip(declared, (*args, *kwargs.values()), strict=False)
            for leaf, given in zip(tree.flatten(spec), tree.flatten(value), strict=False)
            if isinstance(leaf, TensorSpec) and leaf.shape.rank is None
        ]
        if len(ranks) != sum(1 for spec in self.inputs if spec.shape.rank is None):
            raise TypeError(f"{self.name}: give a tensor for each of {', '.join(map(str, self.inputs))}")
        return self.for_ranks(*ranks)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<gt.ConcreteFunction {self.name}({', '.join(map(str, self.inputs))}), traced per rank>"


def _ranked(leaf: Any, ranks: Any) -> Any:
    if not isinstance(leaf, TensorSpec) or leaf.shape.rank is not None:
        return leaf
    return TensorSpec([None] * next(ranks), leaf.dtype, leaf.name)
