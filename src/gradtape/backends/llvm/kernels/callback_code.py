"""The code of operations that native code leaves to NumPy: it calls back into Python. `runtime/callbacks.py` is the other side,
and says what the words of a call are."""

from __future__ import annotations

from collections.abc import Sequence

from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.values import Array, Items, Lowered, NativeList, Scalar
from gradtape.backends.llvm.runtime.allocator import CALLBACK_FAILED
from gradtape.backends.llvm.runtime.callbacks import NumpyCall, innermost
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.runtime.unsupported import UnsupportedError
from gradtape.backends.llvm.writing.element_types import MEMORY, REGISTER, bytes_of, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec


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
            words += [("ptr", lowered.state), *[("i64", size) for size in innermost(lowered.items).dims or ()]]
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
