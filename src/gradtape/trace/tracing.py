"""The tracing evaluator: operations on traced tensors become operations of a program.

`TracedTensor` stands for a value that exists only when the program runs; underneath it holds an `ir.graph.Value`. The same
op functions, composites and derivative rules run on it, so whatever computes can be traced and whatever differentiates can
be differentiated as a program. `Trace` is the program under construction: a stack of open blocks, the innermost first in
line for new operations. A value of an enclosing block used in an inner one is noted there as a capture; when the inner
block is closed the captures become its parameters, so blocks are isolated (`ir/graph.py`).

What a concrete tensor met on the way means (constant, or input of the program) is the trace's decision: see `Trace.outside`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from sys import _getframe
from typing import Any

import numpy as np

from gradtape.core.dispatch import apply, plain, record_general, stored
from gradtape.core.exits import asking_location
from gradtape.core.float_events import SILENT
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.core.record import INTERNAL, SCOPE, TRACING, RecordingScope, current_scope, scope_of
from gradtape.core.sparse_deferral import NO_ARRAY, asked_by_sparse_matrix
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.dtypes import DType
from gradtape.errors import InaccessibleTensorError, InvalidArgumentError, OperatorNotAllowedInGraphError
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Block, Instruction, Location, Operation, Value, simple
from gradtape.ir.types import UNKNOWN, UNKNOWN_TO_RULES, ListSpec, TensorShape, TensorSpec
from gradtape.ops import staged
from gradtape.ops.compare import equal
from gradtape.ops.elementwise import CAST
from gradtape.ops.list_values import TensorList, collapsed_spec, item_spec
from gradtape.ops.lists import LIST_ADD, LIST_ADD_AT, LIST_NEW, LIST_ZEROS_LIKE, concat_items, stack_items
from gradtape.ops.stop import IDENTITY
from gradtape.ops.structured import CALL, result_types
from gradtape.trace.sizing import Typing, knowing_its_sizes, renamed_types, witness

LEVEL = 1  # of traced tensors: batched tensors inside a trace are further in, tapes outside it further out


def _known(method: str) -> Any:
    """A method that needs the value."""

    def ask(self: TracedTensor, *args: Any, **kwargs: Any) -> Any:
        if method == "__array__" and asked_by_sparse_matrix():
            return NO_ARRAY
        if (known := known_value(self)) is not None:
            return getattr(known, method)(*args, **kwargs)
        raise _unknown(
            self,
            f"{asking_location()}: this tensor ({described(self)}) has no value while a gt.function is being traced: it gets "
            "one when the function runs. Keep to gradtape operations (gt.sin for math.sin, gt.stack([a, b]) for np.array([a, "
            "b])), move this code out of the function, or call NumPy code with gt.numpy_function",
        )

    return ask


def _unknown(tensor: TracedTensor, message: str) -> OperatorNotAllowedInGraphError:
    """The error for a tensor that was asked for a value it does not have yet."""
    error = OperatorNotAllowedInGraphError(message)
    error.tensor = tensor
    if (trace := TRACE.get()) is not None:
        # counted, since the user's code may catch the error: a loop under trial must still notice
        trace.unknown_asked += 1
    return error


def known_value(tensor: TracedTensor) -> Tensor | None:
    """What a tensor is in any case, if it follows from constants alone; None for all others."""
    trace = TRACE.get()
    return None if trace is None or trace.value_of is None else trace.value_of(tensor)


class TracedTensor(Tensor):
    """A tensor whose value is known only when the program runs; `_data` is the program's value."""

    __slots__ = ()
    wraps = True
    weak = False  # True for Python numbers of the program
    level: int
    _data: Any

    @property
    def shape(self) -> TensorShape:
        shape = self._data.type.shape
        return shape if shape is not UNKNOWN else UNKNOWN_TO_RULES  # rules that would take it for () are refused in words

    @property
    def dtype(self) -> DType:
        return self._data.type.dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Any:
        total: Any = 1
        for dim in self.shape:
            total = total * dim
        return total

    @property
    def nbytes(self) -> int:
        return 0

    def evaluate(self, op: Op, values: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        """One more operation of the program."""
        return current_trace(self).emit(op, values, attrs)

    numpy, item, tolist = _known("numpy"), _known("item"), _known("tolist")
    __int__, __float__, __complex__ = _known("__int__"), _known("__float__"), _known("__complex__")
    __index__, __array__, __dlpack__ = _known("__index__"), _known("__array__"), _known("__dlpack__")

    def __bool__(self) -> bool:
        known = known_value(self)
        if known is not None:
            return bool(known)
        raise _unknown(
            self,
            f"using a traced tensor ({described(self)}) as a Python bool is not allowed here: its value is known only when "
            "the function runs. Let AutoGraph convert this code (autograph=True, source available), or use gt.cond / gt.where",
        )

    def __copy__(self) -> TracedTensor:
        twin = traced(self._data)
        twin._node = self._node
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a traced tensor cannot be pickled: it has no value yet")

    def __repr__(self) -> str:
        return f"<gt.Tensor of a trace: {self._data.name or ''} shape={self.shape}, dtype={self.dtype.name}>".replace("  ", " ")

    __str__ = __repr__


class TracedList(TracedTensor):
    """A list whose length and items are known only when the program runs."""

    __slots__ = ()

    @property
    def spec(self) -> ListSpec:
        return self._data.type

    def stacked(self, length: int | None) -> Any:
        """The items as rows of a tensor."""
        return stack_items(self, length)

    def joined(self, axis: int, length: int | None) -> Any:
        """The items joined along an axis they have."""
        return concat_items(self, length, axis)

    def __add__(self, other: Any) -> Any:
        """How the reverse walk adds cotangents: one that is zero but for an item is added there."""
        for whole, part in ((self, other), (other, self)):
            item = _only_item(part)
            if item is not None:
                return apply(LIST_ADD_AT, whole, *item)
        return apply(LIST_ADD, self, other)

    def __iter__(self) -> Iterator[Tensor]:
        raise OperatorNotAllowedInGraphError(
            f"a list that a staged loop fills ({described(self)}) has no known length while the function is traced: loop over "
            "it in converted code, or make a tensor of it with gt.stack(list)"
        )


def _only_item(part: object) -> tuple[TracedTensor, TracedTensor] | None:
    """The index and item of a list that is zero elsewhere, made by reading one item; None for any other list."""
    if not isinstance(part, TracedList):
        return None
    producer = part._data.producer
    if producer is None or producer.op is not LIST_ADD_AT:
        return None
    zeros, node = producer.operands[0].producer, part._node
    if zeros is None or zeros.op is not LIST_ZEROS_LIKE or (node is not None and node.op is not LIST_ADD_AT):
        return None
    # Adding the item to the other list at this place costs O(1), adding two lists O(n): a loop that reads its list item by item
    # would otherwise be quadratic on its way back.
    item = traced(producer.operands[2])
    item._node = None if node is None else node.nodes[2]
    return traced(producer.operands[1]), item


def traced(value: Value) -> TracedTensor:
    """The tensor (or list) that stands for a value of the program."""
    tensor = TracedList() if value.type.__class__ is ListSpec else TracedTensor()
    tensor._data = value
    tensor._node = None
    tensor.level = LEVEL
    return tensor


def described(tensor: TracedTensor) -> str:
    """What a message says about a traced tensor: name, type and the line that made it."""
    value = tensor._data
    name = f"'{value.name}', " if value.name else ""
    where = f", made at {value.owner.loc}" if isinstance(value.owner, Operation) and value.owner.loc else ""
    if isinstance(value.type, ListSpec):
        return f"{name}a list of {value.type.item}{where}"
    return f"{name}shape {tuple(value.type.shape)}, dtype {value.type.dtype.name}{where}"


TRACE: ContextVar[Trace | None] = TRACING  # type: ignore[assignment]  # the same variable: here its class is known


def current_trace(tensor: TracedTensor | None = None) -> Trace:
    """The program under construction; a traced tensor used when there is none has leaked out of its function."""
    trace = TRACE.get()
    if trace is None:
        raise leaked(tensor)
    return trace


def leaked(tensor: TracedTensor | None) -> InaccessibleTensorError:
    """The error for a traced tensor that is used where its program is not being traced."""
    what = "a traced tensor" if tensor is None else f"a traced tensor ({described(tensor)})"
    return InaccessibleTensorError(
        f"{what} is used outside the function that made it: it stands for a value inside that function only. Return it from "
        "the function, or keep it in a gt.Variable or gt.TensorArray"
    )


class Trace:
    """A program under construction.

    `outside(tensor)` says what a concrete tensor is to the program; by default a constant. `parent` is the trace around this
    one (a function called by a function that is being traced).
    """

    def __init__(self, root: Block, outside: Callable[[Trace, Tensor], TracedTensor] | None = None) -> None:
        self.root = root
        self.parent = TRACE.get()
        self.outside = outside or Trace.constant_of
        self.blocks: list[Block] = [root]
        self.captures: list[dict[Value, TracedTensor]] = [{}]  # per open block: values of enclosing blocks it uses
        self.scopes: list[RecordingScope] = []  # who recorded where the inner blocks were opened
        self.loc: Location | None = None  # instead of the user's line, while operations are replayed
        self.types: list[Any] | None = None  # the result types of the next operation, while operations are replayed
        self.typing = Typing()
        self.constants: list[dict[Any, TracedTensor]] = [{}]
        self.stand_for: dict[Value, Value] = {}  # parameters of inner blocks that have one value: it, in the block around
        self.carried: dict[Value, Callable[[], Any]] = {}  # parameters of loops: what kind among ranks they start with
        self.watched_numbers: set[Value] = set()  # made of numbers alone, and watched by a tape: among ranks they are local
        self.before_write: Callable[[Tensor], None] | None = None  # told before `t[i] = v` gives a tensor another version
        self.after_write: Callable[[Tensor], None] | None = None  # and after it
        self.tape_watches: Callable[[Any, Tensor], None] | None = None  # told when a tape watches a tensor
        self.tape_asked: Callable[[Any, Any], None] | None = None  # and when it is asked for gradients with respect to some
        self.array: Callable[[Any], TracedTensor | None] | None = None  # asked what a NumPy array is to the program
        self.is_input: Callable[[Tensor], bool] = lambda tensor: False  # whether a concrete tensor is one, not a constant
        self.lift: Callable[[Tensor], None] | None = None  # makes a concrete tensor a value of the program, in place
        self.value_of: Callable[[TracedTensor], Tensor | None] | None = None  # what follows from constants has a value now
        self.follows_constants = False  # tensors made of numbers are lifted at once: `gt.gradients` asks what became of them
        self._locations: dict[tuple[int, int, bool], Instruction] = {}  # asking a frame for its line takes a while
        self._errors = np.geterr()
        self.memory: dict[Any, Any] = {}  # what derivatives were made of callees: all calls of one share them
        self.restored: dict[Value, Value] = {}  # arrays after a loop → before it, where a backward pass has put them back so
        self._last_captures: dict[Value, TracedTensor] = {}
        self.turns: dict[Value, int] = {}  # indices of loops whose number of turns is known
        # values that are of another kind to Python (int, float, …, Tensor) on each path, by id, and these kinds
        self.mixed: dict[int, tuple[Value, frozenset[type]]] = {}
        self.names: dict[Value, str] = {}  # what messages call the state of a loop inside it
        self.unknown_asked = 0  # how often something was asked for a value that it does not have yet

    @property
    def block(self) -> Block:
        return self.blocks[-1]

    # -- operations ------------------------------------------------------------------------------------------------

    def emit(self, op: Op, values: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
        """An ordinary operation on tensors, arrays and Python numbers; its result(s) as traced tensors."""
        block = self.blocks[-1]
        operands = []
        ordinary = True  # all of them are traced tensors, and none of these a Python number
        for v in values:
            if v.__class__ is TracedTensor:
                value = v._data
                owner = value.owner
                # written out here and not asked for: nearly every operand of every operation comes by
                if (owner.home if owner.__class__ is Operation else owner) is not block:
                    value = self.use(v)
            else:
                value = self.operand(v, values)
                ordinary = False
            operands.append(value)
        types = self.types
        if types is None:
            inferred = self.typing.of(op, [v.type for v in operands], attrs)
            if shapes := self.typing.equal_shapes([v.type for v in operands]):
                for i, shape in shapes.items():
                    # The rule counts on two sizes being the same that the types call by different names: the program checks it,
                    # and the value has the other name from here on.
                    told: dict[str, Any] = {"shape": shape, "caller": None}
                    if (name := self.names.get(operands[i])) is not None:
                        told["name"] = name
                    spec = TensorSpec(shape, operands[i].type.dtype)
                    # the value itself: a tensor without its record would enter a region as one that nobody watches
                    operands[i] = simple(staged.SIZED, [operands[i]], spec, self.location(), block, told)
                inferred = self.typing.of(op, [v.type for v in operands], attrs)
            several = inferred.__class__ is tuple
            types = list(inferred) if several else [self.typing.sliced(op, operands, attrs, inferred, block)]
        else:
            self.types = None
            several = op.outputs != 1
        if ordinary and not several:
            return traced(simple(op, operands, types[0], self.location(), block, dict(attrs)))
        operation = Operation(op, operands, types, attrs, loc=self.location())
        self._append(operation)
        outs = [traced(v) for v in operation.results]
        example = self._weak_operand(op, values)
        if example is not None:
            # a comparison of two numbers decides something: it is a tensor
            outs = [out if out.dtype.is_bool else example.like(out._data) for out in outs]
        return tuple(outs) if several else outs[0]

    @staticmethod
    def _weak_operand(op: Op, values: Sequence[Any]) -> Any:
        """One of the operands, if all of them are Python numbers (`trace/weak.py`): then so are the results."""
        example = None
        for v in values:
            if isinstance(v, TracedTensor) and v.weak:
                example = v
            elif isinstance(v, Tensor):
                return None
        # (who casts a number says that it is a tensor)
        return None if op is CAST else example

    def check_sizes(self, op: Op, results: Sequence[Any]) -> None:
        """Sizes that only run time knows are the same in all examples, or the program says so, even if nobody uses them."""
        first = results[0]
        for other in results[1:]:
            for axis, (a, b) in enumerate(zip(first.shape, other.shape, strict=True)):
                if a != b and (isinstance(a, Dim) or isinstance(b, Dim)):
                    flag = equal(*(apply(staged.DIM_VALUE, x, axis=axis) for x in (first, other)))
                    text = f"{op.name}: the size of axis {axis} differs between the examples of a batch, which have one shape"
                    self.emit(staged.ASSERT, (flag,), {"template": (text,), "exception": InvalidArgumentError})

    def structured(
        self, op: Op, groups: Mapping[str, Sequence[TracedTensor]], regions: Mapping[str, Block], attrs: Mapping[str, Any],
        result: tuple[list[Any], dict[str, int]] | None = None,
    ) -> dict[str, list[TracedTensor]]:  # fmt: skip
        """A structured operation (cond, while, scan, call): its results by group; recorded like any operation."""
        inputs = [self.own(t) for group in groups.values() for t in group]
        layout = {name: len(group) for name, group in groups.items()}
        # Some operand is one example of a batch: the batching evaluator says what the operation means for all of them.
        if not all([isinstance(t, TracedTensor) for t in inputs]):  # noqa: C419  (quicker)
            feed = iter(inputs)
            own = {name: [next(feed) for _ in group] for name, group in groups.items()}
            return HOOKS.over_batch(self, op, own, regions, attrs, (result or result_types(op, dict(regions), dict(attrs)))[1])
        if op is CALL:
            callee = attrs["callee"]
            closed, sizes = self.memory[callee] if callee in self.memory else knowing_its_sizes(callee)
            self.memory[callee] = closed, sizes
            # A callee that uses sizes which none of its parameters tells is given an empty array for each, whose shape tells
            # it.
            if sizes:
                attrs = {**attrs, "callee": closed}
                inputs += [self.emit(staged.FILLED, (), witness(name)[0]) for name in sizes]
                layout[next(reversed(layout))] += len(sizes)
        operands = [self.operand(t, inputs) for t in inputs]
        types, result_layout = result or result_types(op, dict(regions), dict(attrs))
        if result is None and op is CALL:
            types = renamed_types(attrs["callee"], [v.type for v in operands], types)
        operation = Operation(op, operands, types, attrs, regions, self.location(), layout, result_layout)
        self._append(operation)
        outs = tuple(traced(v) for v in operation.results)
        scope = SCOPE.get()
        if scope is not None and any(t._node is not None for t in inputs):
            # Recorders inside the function see one record: the rule of the operation differentiates its regions when it is
            # asked.
            kept = tuple(stored(t) for t in inputs)
            nodes = tuple(t._node for t in inputs)
            record_general(scope.inside(LEVEL), op, kept, nodes, {"operation": operation, "inputs": kept}, outs)
        results, start = {}, 0
        for name, count in result_layout.items():
            results[name] = list(outs[start : start + count])
            start += count
        return results

    def _append(self, operation: Operation) -> None:
        block = self.blocks[-1]
        operation.home = block
        block.operations.append(operation)

    def location(self) -> Location | None:
        if self.loc is not None:
            return self.loc
        frame = _getframe(1)
        code = frame.f_code
        while code.co_filename in INTERNAL and frame.f_back is not None:
            frame = frame.f_back
            code = frame.f_code
        at = (id(code), frame.f_lasti, silent := SILENT.get(False))
        known = self._locations.get(at)
        if known is None:  # the code object is kept, so that its id stays its own
            known = self._locations[at] = Instruction(code.co_filename, frame.f_lineno)
            known.code, known.lasti = code, frame.f_lasti
            known.silent = silent or np.geterr()["invalid"] == "ignore" != self._errors["invalid"]
        return known

    # -- operands --------------------------------------------------------------------------------------------------

    def operand(self, value: TensorLike | TensorList, others: Sequence[Any] = ()) -> Value:
        """The program's value for whatever an operation was given."""
        if isinstance(value, TracedTensor):
            return self.use(value)
        if value.__class__ is not Tensor:
            value = plain(value)
            if isinstance(value, TracedTensor):
                return self.use(value)
        if isinstance(value, Tensor):
            if value.wraps:
                raise TypeError("a batched tensor cannot be an operand of a traced operation at this level")
            return self.use(self.outside(self, value))
        if isinstance(value, Dim):
            return self.dim(value)._data
        if isinstance(value, (bool, int, float, complex)):
            # A Python number takes the dtype of what it meets, as in eager code.
            dtypes = [o.dtype for o in others if isinstance(o, (Tensor, np.ndarray, np.generic))]
            kind = np.result_type(*[d.as_numpy_dtype if isinstance(d, DType) else d for d in dtypes], value)
            return self.constant(np.asarray(value, kind)[()])._data
        return self.constant(value, **({} if HOOKS.array_kind is None else {"own": True}))._data

    def own(self, tensor: Tensor) -> Any:
        """A tensor as one of the program: what a concrete one is to it."""
        return tensor if tensor.wraps else self.outside(self, tensor)

    def use(self, tensor: TracedTensor) -> Value:
        """The value behind a traced tensor, noted as a capture where it comes from an enclosing block."""
        value: Value = tensor._data
        home = self._home(value)
        if home is self.blocks[-1]:
            return value
        if home is None:
            return self._from_parent(tensor)._data
        depth = next(i for i, block in enumerate(self.blocks) if block is home)
        inner = self.captures[depth + 1 :]
        # A value that is captured under two identities (watched by a tape here, by another there) must stay two values.
        known = inner[0].get(value)
        if known is not None and known._node is not tensor._node and self._differ(known, tensor, depth):
            tensor = self._apart(tensor, depth)
            value = tensor._data
        for captured in inner:
            if value not in captured:
                captured[value] = tensor.__copy__()
        return value

    def _differ(self, a: TracedTensor, b: TracedTensor, depth: int) -> bool:
        """Whether two tensors of one value are not the same to those who record around the blocks that capture them."""
        keys = {recorder.key for scope in self.scopes[depth:] for recorder in scope.recorders}
        watched = any(t._node is not None and not keys.isdisjoint(t._node.keys) for t in (a, b))
        return watched and not isinstance(a, TracedList)

    def _apart(self, tensor: TracedTensor, depth: int) -> TracedTensor:
        """A captured value under another identity than the one it was captured with: captures are told apart by their values,
        so it gets a value of its own, in the block that the first belongs to."""
        value, node = tensor._data, tensor._node
        for other in self.captures[depth + 1].values():
            producer = other._data.producer
            if other._node is node and producer is not None and producer.op is IDENTITY and producer.operands[0] is value:
                return other
        twin = traced(simple(IDENTITY, [value], value.type, self.location(), self.blocks[depth]))
        twin._node = node
        return twin

    def _home(self, value: Value) -> Block | None:
        """The open block that defines a value, None if it belongs to none of them."""
        owner = value.owner
        home = owner if isinstance(owner, Block) else owner.home
        if home is self.blocks[-1]:
            return home
        return home if any(home is block for block in self.blocks) else None

    def _from_parent(self, tensor: TracedTensor) -> TracedTensor:
        parent = self.parent
        # A function called by a function that is traced: what the outer one computed comes in as an input.
        while parent is not None:
            if parent._home(tensor._data) is not None:
                return self.outside(self, tensor)
            parent = parent.parent
        raise leaked(tensor)

    def constant(self, value: TensorLike | TensorList, **own: bool) -> TracedTensor:
        """A constant of the program; small equal ones are made once per block. `own`: see `staged.own_value`."""
        if isinstance(value, TensorList):
            return self.emit(LIST_NEW, [self.constant(item) for item in value], {"item": value.item})
        array = np.asarray(value)
        shared = array.size <= 16 and array.dtype.kind != "O" and not own
        key = (array.dtype.char, array.shape, array.tobytes()) if shared else None
        known = self.constants[-1].get(key) if key is not None else None
        if known is not None:
            return known.__copy__()
        kept = array[()] if array.ndim == 0 and array.dtype.kind != "O" else array
        out = self.emit(staged.CONSTANT, (), {"value": kept, **own})
        if key is not None:
            self.constants[-1][key] = out
        return out.__copy__() if key is not None else out

    def constant_of(self, tensor: Tensor) -> TracedTensor:
        """The default of `outside`: concrete tensors are constants."""
        return self.constant(tensor._data, **staged.own_value(tensor))

    def dim(self, dim: Dim) -> TracedTensor:
        """A symbolic dimension as an int32 scalar of the program."""
        return self.emit(staged.DIM, (), {"dim": dim})

    # -- regions ---------------------------------------------------------------------------------------------------

    @contextmanager
    def region(self, block: Block) -> Iterator[Block]:
        """Build an inner block: operations go there, nobody outside records them."""
        self.blocks.append(block)
        self.captures.append({})
        self.constants.append({})
        self.scopes.append(current_scope())
        try:
            with scope_of(RecordingScope((), (None,))):
                yield block
        finally:
            self.blocks.pop()
            self.constants.pop()
            self.scopes.pop()
            self._last_captures = self.captures.pop()

    def onlookers(self, tensor: TracedTensor) -> list[Any]:
        """The recorders around the inner blocks that a tensor of an enclosing block is used in, outermost first."""
        home = self._home(tensor._data)
        places = [i for i, block in enumerate(self.blocks) if block is home]
        return [recorder for scope in self.scopes[places[0] :] for recorder in scope.recorders] if places else []

    def close(self, blocks: Sequence[tuple[Block, dict[Value, TracedTensor]]], group: str) -> list[TracedTensor]:
        """Make the captures of regions parameters (the same, in the same order, for all of them); returns the tensors that
        the owning operation must be given for them."""
        # All regions of an operation get the same captures, used or not, so that one list of operands serves them all.
        captured: dict[Value, TracedTensor] = {}
        for _, captures in blocks:
            for value, tensor in captures.items():
                captured.setdefault(value, tensor)
        for block, _ in blocks:
            replace_free(block, {v: block.add_param(v.type, v.name, group) for v in captured})
            if group not in block.layout:
                block.layout[group] = 0
        return list(captured.values())

    def last_captures(self) -> dict[Value, TracedTensor]:
        """What the region closed last used from outside."""
        return self._last_captures


def lift(tensor: Tensor) -> None:
    """Called by whoever is about to watch a tensor: while a function is traced, it is a value of the program from now on.

    What is computed from it is then traced, never evaluated at once, so it is an operand of every region that uses it, with
    the identity by which it is watched. (Nobody records inside a region: a product of concrete tensors there would be a
    constant that has no past.)
    """
    trace = TRACE.get()
    if trace is not None and trace.lift is not None and not tensor.wraps:
        trace.lift(tensor)


def type_of(tensor: Tensor) -> Any:
    """The type of a tensor, traced or not, or that of one example of a batch."""
    if isinstance(tensor, TracedTensor):
        return tensor._data.type
    return collapsed_spec(type_of(tensor._data)) if tensor.wraps else item_spec(tensor._data)


def replace_free(block: Block, mapping: Mapping[Value, Value]) -> None:
    """Use other values in the operations and results of one block (its regions are isolated and do not see them)."""
    if not mapping:
        return
    for operation in block.operations:
        operation.operands = [mapping.get(v, v) for v in operation.operands]
    block.results = [mapping.get(v, v) for v in block.results]


@contextmanager
def tracing(trace: Trace) -> Iterator[Trace]:
    """Operations on traced tensors go to `trace`; nobody outside records."""
    token = TRACE.set(trace)
    try:
        with scope_of(RecordingScope((), (None,))):
            yield trace
    finally:
        TRACE.reset(token)


def params_of(block: Block) -> list[TracedTensor]:
    """The parameters of a block as traced tensors."""
    return [traced(v) for v in block.params]
