"""Operations that native code leaves to NumPy: it calls back, and the op's `impl` runs on views of native memory.

The call passes an array of words: for each operand its address and dims (a list: the address of its words, and the dims of
items of one shape), then for each result the address to write to and its dims, which must be what the program says; then the
sizes that attributes need. A result whose size only the op knows is held by Python, which writes its dims; native code makes
room and fetches it with a second call. This is the Python side; the code that calls is `kernels/callback_code.py`.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.backends.llvm.planning.values import Items
from gradtape.backends.llvm.runtime import float_flags, machine
from gradtape.backends.llvm.runtime.allocator import OWNED
from gradtape.backends.numpy.executable import located
from gradtape.core.hooks import HOOKS
from gradtape.ir.dims import substitute, symbols_in
from gradtape.ir.graph import Operation, Value
from gradtape.ir.sizes import describes
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.list_values import TensorList
from gradtape.ops.python_calls import PULL_MORE, PULL_OPEN, PY_FUNCTION
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


def innermost(items: Items) -> Items:
    while items.inner is not None:
        items = items.inner
    return items


def _rank(value: Value, items: Items | None) -> int:
    return len(value.type.shape) if items is None else len(innermost(items).dims or ())


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


def _calls_of(context: int) -> Any:
    """The `Calls` of the entry (`native_executable.py`)."""
    calls: Any = ctypes.py_object.from_address(context + ctypes.sizeof(ctypes.c_void_p))  # the second word of the context
    return calls.value


def _leave(context: int, thing: object) -> None:
    """Leave an object to the call whose context this is: it lives until that has ended, whatever way it does."""
    place = ctypes.c_void_p.from_address(context + OWNED.offset)
    if place.value is None:
        owned: list[object] = []
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owned))
        place.value = id(owned)
    left: Any = ctypes.py_object.from_address(ctypes.addressof(place))
    left.value.append(thing)


def _callback(context: int, number: int, words: Any, done: Any) -> None:
    calls = _calls_of(context)
    call = calls.calls[number]
    try:
        results = run_callback(call, words)
        if call.op is PULL_OPEN:
            _leave(context, results)
    except BaseException as error:  # ctypes would drop it: the entry raises it when the machine code has come back
        calls.errors[threading.get_ident()] = (call.operation, error)
        return
    done[0] = 1


def _patience(context: int, number: int, words: Any, done: Any) -> None:
    """Wait for what an operation between ranks has posted, words[1] requests at words[0], with headers of a message at words[2]
    and words[3]; or compare the ranks' programs, when one begins (-1, or -3 if it may fail; its digest in words[0]) or ends
    (-2); or refuse what a header announces (-4); or note that a program of messages begins (-5)."""
    calls = _calls_of(context)
    operation = calls.calls[number].operation
    try:
        if words[1] > 0:
            HOOKS.world.natively.wait(words[0], words[1], operation, (words[2], words[3]))
        elif words[1] == -4:
            HOOKS.world.natively.refuse(words[0], operation)
        elif words[1] == -5:
            HOOKS.world.natively.notes(operation)
        elif words[1] == -2:
            HOOKS.world.natively.ends(operation.loc)
        else:
            HOOKS.world.natively.begins(words[0], operation.loc, words[1] == -3)
    except BaseException as error:  # as above
        calls.errors[threading.get_ident()] = (operation, error)
        return
    done[0] = 1


_CALLBACK, _PATIENCE = SIGNATURE(_callback), SIGNATURE(_patience)  # kept for ever: native code has their addresses


def introduce() -> None:
    """Tell LLVM where native code finds what Python does for it."""
    machine.symbol("gt_callback", ctypes.cast(_CALLBACK, ctypes.c_void_p).value or 0)
    machine.symbol("gt_mpi_patience", ctypes.cast(_PATIENCE, ctypes.c_void_p).value or 0)
    machine.symbol("gt_fetch", ctypes.cast(FETCH, ctypes.c_void_p).value or 0)
