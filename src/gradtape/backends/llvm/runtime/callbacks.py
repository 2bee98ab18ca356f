"""Operations that native code leaves to NumPy: it calls back, and the op's `impl` runs on views of native memory.

The call passes an array of words: for each operand its address and dims (a list: the address of its words, and the dims of
items of one shape), then for each result the address to write to and its dims, which must be what the program says; then the
sizes that attributes need. A result whose size only the op knows is held by Python, which writes its dims; native code makes
room and fetches it with a second call. `run_callback` and `fetch` are the Python side.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.backends.llvm.kernels.native_program import Note
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.values import Array, Items, Lowered, NativeList, Scalar, UnsupportedError
from gradtape.backends.llvm.runtime import float_flags
from gradtape.backends.llvm.runtime.allocator import CALLBACK_FAILED
from gradtape.backends.llvm.writing.element_types import MEMORY, REGISTER, bytes_of, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.backends.numpy.executable import located
from gradtape.ir.dims import substitute, symbols_in
from gradtape.ir.graph import Operation, Value
from gradtape.ir.sizes import describes
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.list_values import TensorList
from gradtape.ops.python_calls import PULL_MORE, PY_FUNCTION
from gradtape.passes.inplace import pure_op

# The last argument of each call back is a cell: 0 before it, 1 if all went well. Ctrl-C may end a call back anywhere, even
# before its first line; ctypes then returns whatever the last call left there, so a returned status would be good.
SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int))
_HELD: dict[int, list[Any]] = {}  # by thread: results that wait for their room


class NumpyCall:
    """What Python must know to run an operation: which results it holds, how the items of lists lie.

    Where each operand and result stands among the words is known before: `readers` and `writers` are made once, for calls that
    come with every turn of a loop.
    """

    def __init__(self, operation: Operation, held: Sequence[bool], items: Sequence[Items | None]) -> None:
        self.operation, self.op = operation, pure_op(operation.op)
        # A user's function runs in the caller's error state, as in eager code: NumPy tells its events at the user's line.
        self.is_users = self.op is PY_FUNCTION or (self.op.kind == "nondiff" and self.op.effect)
        self.sizes = sorted(_sizes(operation))
        self.readers, self.writers, place = [], [], 0
        for value, layout in zip(operation.operands, items, strict=True):
            self.readers.append(_reader(value, layout, place))
            place += 1 + _rank(value, layout)
        for value, later in zip(operation.results, held, strict=True):
            self.writers.append(None if later else _writer(value, place))
            place += 1 + len(value.type.shape)
        self.places_of_results = [place - sum(1 + len(v.type.shape) for v in operation.results[k:]) for k in range(len(held))]
        self.after = place  # where the sizes stand


def _sizes(operation: Operation) -> frozenset[str]:
    """The symbols whose sizes an operation's attributes take; a type only describes."""
    return symbols_in([attr for attr in operation.attrs.values() if not describes(attr)])


def is_number(value: Value) -> bool:
    """Whether a value is held in a register."""
    return not len(value.type.shape) and name_of(value.type.dtype) in REGISTER


def write_callback(scope: Scope, operation: Operation) -> list[Lowered]:
    """The code of a call back into Python."""
    program = scope.program
    # NumPy has no loops of programs: refused here, the whole program is the reference's
    if operation.regions or operation.op.kind == "region":
        raise UnsupportedError(f"the structured op {operation.op.name}", operation)
    for value in (*operation.operands, *operation.results):
        if value.type.dtype.dtype.kind == "O":
            raise UnsupportedError("text", operation)
        if isinstance(value.type, TensorSpec) and value.type.shape.rank is None:
            raise UnsupportedError(f"the rank of what {operation.op.name} gives is not known", operation)
    words, items = _operands(scope, operation)
    # sizes that only the operation finds out: Python keeps the result until the program has asked for it and made room
    held = [_is_held(scope, value) for value in operation.results]
    homes: list[Array | None] = []
    places: list[int] = []
    for value, later in zip(operation.results, held, strict=True):
        if isinstance(value.type, ListSpec):
            raise UnsupportedError(f"the result of {operation.op.name} is a list", operation)
        home = None if later else home_of(scope, value)
        homes.append(home)
        places.append(len(words))
        dims: Sequence[Index] = [0] * len(value.type.shape) if home is None else home.dims
        words += [("ptr", "null" if home is None else home.address), *[("i64", size) for size in dims]]
    packed = _call(scope, operation, NumpyCall(operation, held, items), words)
    program.notes.append(Note("numpy", (operation.op.name,), operation.loc))
    results: list[Lowered] = []
    for value, home, place in zip(operation.results, homes, places, strict=True):
        if home is None:
            home = _fetched(scope, operation, value, packed, place, sum(held[: len(results)]))
        results.append(Scalar(scope.load(home, ()), value.type.dtype) if is_number(value) else home)
    return results


def write_failure(scope: Scope, operation: Operation) -> None:
    """Have Python raise what an operation that cannot be done raises, and leave the program."""
    words, items = _operands(scope, operation)
    words += [("i64", 0)] * sum(1 + len(value.type.shape) for value in operation.results)
    _call(scope, operation, NumpyCall(operation, [True] * len(operation.results), items), words)
    # (Python raises; should it not, this ends the program all the same)
    scope.program.fail_if("true", operation)


def _operands(scope: Scope, operation: Operation) -> tuple[list[tuple[str, Index]], list[Items | None]]:
    words: list[tuple[str, Index]] = []
    items: list[Items | None] = []
    for value in operation.operands:
        lowered = scope.find(value)
        if isinstance(lowered, NativeList):
            words += [("ptr", lowered.state), *[("i64", size) for size in _innermost(lowered.items).dims or ()]]
            items.append(lowered.items)
        else:
            array = scope.memory(value)
            words += [("ptr", array.address), *[("i64", size) for size in array.dims]]
            items.append(None)
    return words, items


def _is_held(scope: Scope, value: Value) -> bool:
    return any(name not in scope.program.sizes for name in symbols_in(value.type))


def home_of(scope: Scope, value: Value) -> Array:
    """Memory for a result."""
    if not is_number(value):
        return scope.room(value)
    return Array(scope.writer.cell(MEMORY[name_of(value.type.dtype)]), (), value.type.dtype)


def _call(scope: Scope, operation: Operation, call: NumpyCall, words: list[tuple[str, Index]]) -> str:
    """Pass the words and what attributes need; a call that fails ends the program."""
    w, program = scope.writer, scope.program
    words = [*words, *[("i64", program.index_of_symbol(name)) for name in call.sizes]]
    packed = w.cell("i64", max(len(words), 1))
    for k, (kind, word) in enumerate(words):
        w.store(kind, word, w.at("i64", packed, k))
    program.calls.append(call)
    call_python(scope, "gt_callback", "ptr %context", f"i32 {len(program.calls) - 1}", f"ptr {packed}")
    return packed


def call_python(scope: Scope, name: str, *arguments: str) -> None:
    """Call a function of Python; the program ends with the error that it raised, if it did."""
    w = scope.writer
    done = w.cell("i32")
    scope.program.module.declare(name, f"void ({', '.join(argument.split()[0] for argument in arguments)}, ptr)")
    w.store("i32", 0, done)
    w.do(f"call void @{name}({', '.join(arguments)}, ptr {done})")
    scope.program.leave_if(w.let(f"icmp eq i32 {w.load('i32', done)}, 0"), CALLBACK_FAILED)


def _fetched(scope: Scope, operation: Operation, value: Value, packed: str, place: int, number: int) -> Array:
    """Room for a result that Python holds, and the result in it."""
    w, program = scope.writer, scope.program
    dims = [w.load("i64", w.at("i64", packed, place + 1 + k)) for k in range(len(value.type.shape))]
    program.bind(value.type, dims)
    for size, dim in zip(value.type.shape, dims, strict=True):
        # a size that another value told before: both must say the same
        known = program.index(size)
        if known != dim:
            program.fail_if(w.let(f"icmp ne i64 {known}, {dim}"), operation)
    home = scope.room(value)
    bytes = w.multiply(w.product(home.dims), bytes_of(home.dtype))
    call_python(scope, "gt_fetch", f"i32 {number}", f"ptr {home.address}", f"i64 {bytes}")
    return home


# -- the Python side


def view(address: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Any:
    """An array on native memory."""
    count = math.prod(shape) * dtype.itemsize
    # ctypes refuses a buffer of no bytes, and its address may be null
    if not count:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * count).from_address(address)
    return np.frombuffer(memory, dtype).reshape(shape)  # type: ignore[call-overload]


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_int64 * count).from_address(address)) if count else []


def read_list(address: int, items: Items, dims: Sequence[int]) -> TensorList:
    """The list whose words are at an address; items are copies."""
    start, count, _ = _words(address, 3)
    kind = items.dtype.dtype
    if items.inner is not None:
        items_read = [read_list(start + 24 * i, items.inner, dims) for i in range(count)]
        return TensorList(items_read, items_read[0].item and ListSpec(items_read[0].item) if items_read else None)
    if items.dims is None:
        items_read = []
        for i in range(count):
            at, *shape = _words(start + 8 * (1 + items.rank) * i, 1 + items.rank)
            # copies: the program may change or free its memory after the call
            items_read.append(view(at, shape, kind).copy()[()])
        return TensorList(items_read, TensorSpec([None] * items.rank, items.dtype))
    rows = view(start, (count, *dims), kind)
    return TensorList([row.copy() if dims else row for row in rows], TensorSpec(dims, items.dtype))


_NUMBERS = {  # how ctypes reads and writes a number of a type
    np.dtype(name): getattr(ctypes, kind)
    for name, kind in {
        "float32": "c_float", "float64": "c_double", "bool": "c_bool", "int8": "c_int8", "int16": "c_int16", "int32": "c_int32",
        "int64": "c_int64", "uint8": "c_uint8", "uint16": "c_uint16", "uint32": "c_uint32", "uint64": "c_uint64",
    }.items()
}  # fmt: skip


def _innermost(items: Items) -> Items:
    while items.inner is not None:
        items = items.inner
    return items


def _rank(value: Value, items: Items | None) -> int:
    return len(value.type.shape) if items is None else len(_innermost(items).dims or ())


def _reader(value: Value, items: Items | None, place: int) -> Callable[[Any], Any]:
    """Of the words, the operand whose address is at `place`."""
    end = place + 1 + _rank(value, items)
    if items is not None:
        return lambda words: read_list(words[place], items, words[place + 1 : end])
    dtype = value.type.dtype.dtype
    if end > place + 1:
        return lambda words: view(words[place], words[place + 1 : end], dtype)
    number, kind = _NUMBERS.get(dtype), dtype.type
    if number is None:
        return lambda words: view(words[place], (), dtype)[()]
    return lambda words: kind(number.from_address(words[place]).value)


def _writer(value: Value, place: int) -> Callable[[Any, Any], None]:
    """Puts a result where the words say."""
    dtype, end = value.type.dtype.dtype, place + 1 + len(value.type.shape)
    number, kind = (_NUMBERS.get(dtype), dtype.type) if end == place + 1 else (None, None)

    def write(words: Any, result: Any) -> None:
        # numbers in loops: making arrays for them would take most of the call's time
        if number is not None and type(result) is kind:
            number.from_address(words[place]).value = result.item()
            return
        home = view(words[place], words[place + 1 : end], dtype)
        if home.shape != np.shape(result):
            raise AssertionError(f"a result has the shape {np.shape(result)}, the program says {home.shape}")
        home[...] = result

    return write


def run_callback(call: NumpyCall, words: Any) -> Any:
    """Run an op's `impl` on native memory; what it gives. Twins that work in place do not: the result has a room of its own."""
    operation, op = call.operation, call.op
    if op is PULL_MORE:
        return _ask(operation, words)
    inputs = [read(words) for read in call.readers]
    attrs, sizes = operation.attrs, dict[str, int]()
    if call.sizes:
        sizes = {name: words[call.after + i] for i, name in enumerate(call.sizes)}
        attrs = {key: attr if describes(attr) else substitute(attr, sizes) for key, attr in attrs.items()}
    events = [float_flags.test(float_flags.EVENTS)]  # NumPy clears the flags
    try:
        if call.is_users:
            outputs = op.impl(*inputs, **attrs)
            float_flags.clear(float_flags.EVENTS)
        else:
            with np.errstate(all="call", under="ignore", call=lambda _, flag: events.append(flag)):
                outputs = op.impl(*inputs, **attrs)
    except Exception as error:
        raise located(operation, inputs, sizes, error) from None
    if any(events):
        float_flags.note(float_flags.EVENTS)
    held: list[Any] = []
    results = (outputs,) if op.outputs == 1 else outputs
    for value, result, write, place in zip(operation.results, results, call.writers, call.places_of_results, strict=True):
        if write is not None:
            write(words, result)
            continue
        held.append(np.ascontiguousarray(result, value.type.dtype.dtype))
        for axis, size in enumerate(np.shape(result)):
            words[place + 1 + axis] = size
    if held:
        _HELD[threading.get_ident()] = held
    return results


def _ask(operation: Operation, words: Any) -> None:
    """`pull_more`, which comes with every turn of a loop: numbers are read and written where they are."""
    handle, going = ctypes.c_int64.from_address(words[0]).value, ctypes.c_bool.from_address(words[1]).value
    events = float_flags.test(float_flags.EVENTS)
    try:
        (flag,) = operation.attrs["func"](handle, going)
    except Exception as error:
        raise located(operation, [handle, going], {}, error) from None
    float_flags.clear(float_flags.EVENTS)
    if events:
        float_flags.note(float_flags.EVENTS)
    ctypes.c_bool.from_address(words[2]).value = bool(flag)


def fetch(number: int, address: int, count: int, done: Any) -> None:
    """Put a result that waits into its room."""
    held = _HELD[threading.get_ident()]
    if count:
        ctypes.memmove(address, held[number].ctypes.data, count)
    held[number] = None
    done[0] = 1


# kept: native code has its address
FETCH = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_int))(fetch)

__all__ = ["FETCH", "SIGNATURE", "NumpyCall", "fetch", "run_callback", "view", "write_callback", "write_failure"]
