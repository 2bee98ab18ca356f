"""Programs as machine code: `compile_block(block)` gives an `Executable` with the interface of the NumPy backend's.

A call passes addresses: of arguments, of results of known size, of a frame for everything in between. An error found by
native code (an index out of range, a failed assertion) is raised by running the program on the reference backend, which says
what eager code would; programs with effects raise what the failing operation itself raises.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gradtape.backends.llvm import machine, runtime
from gradtape.backends.llvm.callbacks import SIGNATURE, run_callback, view
from gradtape.backends.llvm.lists import new_list, put
from gradtape.backends.llvm.scope import Program, Scope
from gradtape.backends.llvm.table import TABLES
from gradtape.backends.llvm.text import Module
from gradtape.backends.llvm.types import MEMORY, REGISTER, bytes_of, is_native, name_of
from gradtape.backends.llvm.values import Array, Lowered, NativeList, Scalar, UnsupportedError
from gradtape.backends.numpy import compile_block as reference_block
from gradtape.errors import InternalError
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Block
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.list_values import TensorList

_RUNNING: dict[int, Any] = {}  # by address of the context: the call that runs


def _callback(context: int, number: int, words: Any) -> int:
    call = _RUNNING[context]
    try:
        run_callback(call.executable.calls[number], words)
    except BaseException as error:
        call.error = error
        call.failed = call.executable.calls[number]
        return 1
    return 0


_CALLBACK = SIGNATURE(_callback)  # kept for ever: native code has its address


class StackedList(TensorList):
    """A list whose items are the rows of one array; Python sees items when it looks."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Any, item: Any) -> None:
        super().__init__((), item)
        self._rows = rows

    @property
    def rows(self) -> Any:
        return self._rows

    def __len__(self) -> int:
        return len(self._rows)

    def __bool__(self) -> bool:
        return len(self._rows) > 0

    def __iter__(self) -> Any:
        return iter(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [*self._rows[index]]
        return self._rows[index]

    @property
    def dtype(self) -> Any:
        return self._rows.dtype

    @property
    def nbytes(self) -> int:
        return int(self._rows.nbytes)

    @property
    def size(self) -> int:
        return int(self._rows.size)


class Call:
    """One run: what callbacks need."""

    def __init__(self, executable: Executable) -> None:
        self.executable = executable
        self.error: BaseException | None = None
        self.failed: Any = None


class Executable:
    """A compiled program: call it with one array (or list) per parameter."""

    def __init__(self, block: Block, name: str) -> None:
        self.name = name
        self.block = block
        self._reference: Any = None
        module = Module()
        program = Program(module, "main", TABLES)
        written = _write(program, block)
        runtime.cleanup(module)
        self.text = str(module)
        self.calls = program.calls
        self.checks = program.checks
        self.notes = program.notes
        self._returns = written
        machine.symbol("gt_callback", ctypes.cast(_CALLBACK, ctypes.c_void_p).value)
        self._library = machine.Library(self.text)
        self._main = self._library.function("main", ctypes.c_int, *[ctypes.c_void_p] * 4)
        self._cleanup = self._library.function("gt_cleanup", None, ctypes.c_void_p)
        self._frame_bytes = program.frame.size
        self._params = [p.type for p in block.params]

    @property
    def source(self) -> str:
        """The LLVM IR before optimisation."""
        return self.text

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        return self.run(list(arrays))

    def run(self, arrays: list[Any]) -> tuple[Any, ...]:
        words: list[int] = []
        kept: list[Any] = []
        for value, type in zip(arrays, self._params, strict=True):
            array, dims = _argument(value, type)
            kept.append(array)
            words += [array.ctypes.data, *dims]
        given = np.array(words, np.int64)
        results = np.zeros(max(1, sum(r.words for r in self._returns)), np.int64)
        homes: list[Any] = []
        k = 0
        for spec in self._returns:
            home = spec.home()
            if home is not None:
                results[k] = home.ctypes.data
            homes.append(home)
            k += spec.words
        frame = np.empty(self._frame_bytes + 64, np.uint8)
        base = frame.ctypes.data
        context = np.zeros(8, np.int64)
        call = Call(self)
        _RUNNING[context.ctypes.data] = call
        try:
            status = self._main(context.ctypes.data, given.ctypes.data, results.ctypes.data, base + (-base) % 64)
            found = None if status else self._collected(results, homes)
        finally:
            del _RUNNING[context.ctypes.data]
            self._cleanup(context.ctypes.data)
        if status:
            self._raise(status, call, arrays)
        return found  # type: ignore[return-value]

    def _collected(self, words: Any, homes: list[Any]) -> tuple[Any, ...]:
        found: list[Any] = []
        k = 0
        for spec, home in zip(self._returns, homes, strict=True):
            found.append(spec.collect(words[k : k + spec.words], home))
            k += spec.words
        return tuple(found)

    def _raise(self, status: int, call: Call, arrays: list[Any]) -> None:
        if call.error is not None and not isinstance(call.error, Exception):
            raise call.error
        if self._reference is None:
            self._reference = reference_block(self.block, self.name)
        if call.error is not None and call.failed.op.effect:
            raise call.error
        self._reference(*arrays)
        raise InternalError(
            f"{self.name}: native code failed (operation {status}) where the reference does not"
        ) from call.error

    def __repr__(self) -> str:
        return f"<native executable {self.name}>"


def _argument(value: Any, type: Any) -> tuple[Any, list[int]]:
    """The array whose address is passed, and the words after it."""
    if isinstance(type, ListSpec):
        kind = type.item.dtype.dtype
        rows = value.rows if isinstance(value, StackedList) else None
        if rows is None:
            if len(value):
                rows = np.stack([np.asarray(v) for v in value])
            else:
                rows = np.empty((0, *[0 if isinstance(n, Dim) or n is None else n for n in type.item.shape]), kind)
        rows = np.ascontiguousarray(rows)
        return rows, [len(rows), *rows.shape[1:]]
    array = np.ascontiguousarray(value)
    if array.ndim != len(type.shape):
        array = np.asarray(value).reshape(np.shape(value))
    return array, [array.shape[axis] for axis, size in enumerate(type.shape) if isinstance(size, Dim)]


class Return:
    """How one result comes back: memory of known size, or an address and dims."""

    def __init__(self, type: Any, static: bool, shape: tuple[int, ...] | None) -> None:
        self.type = type
        self.is_list = isinstance(type, ListSpec)
        item = type.item if self.is_list else type
        self.item = item
        self.rank = len(item.shape)
        self.dtype = item.dtype.dtype
        self.shape = shape  # of memory given by the caller
        self.words = 1 if shape is not None else 1 + self.rank + self.is_list

    def home(self) -> Any:
        return None if self.shape is None else np.empty(self.shape, self.dtype)

    def collect(self, words: Any, home: Any) -> Any:
        if home is None:
            dims = [int(n) for n in words[1:]]
            home = view(int(words[0]), dims, self.dtype).copy()
        if self.is_list:
            return StackedList(home, TensorSpec(home.shape[1:], self.item.dtype))
        return home if home.ndim else home[()]


def _write(program: Program, block: Block) -> list[Return]:
    """The main function of a block."""
    w = program.writer
    w.cells.append("  %status = alloca i32")
    scope = Scope(program, block)
    w.store("i32", 0, "%status")
    arguments: list[Lowered] = []
    k = 0

    def word(type: str) -> str:
        nonlocal k
        k += 1
        return w.load(type, w.at("i64", "%arguments", k - 1))

    for value in block.params:
        address = word("ptr")
        type = value.type
        if isinstance(type, ListSpec):
            if not isinstance(type.item, TensorSpec):
                raise UnsupportedError("a list of lists")
            length = word("i64")
            dims = []
            for size in type.item.shape:
                found = word("i64")
                dims.append(size if isinstance(size, int) else found)
            made = NativeList(w.cell("i64", 3), tuple(dims), type.item.dtype)
            put(scope, made, address, length, 0)
            program.bind(type.item, dims)
            arguments.append(made)
        else:
            dims = [word("i64") if isinstance(size, Dim) else size for size in type.shape]
            program.bind(type, dims)
            array = Array(address, tuple(dims), type.dtype)
            if not dims and is_native(type.dtype):
                arguments.append(Scalar(scope.load(array, ()), type.dtype))
            else:
                arguments.append(array)
    returns: list[Return] = []
    homes: dict[int, Array] = {}
    seen: set[Any] = set()
    k = 0
    for i, value in enumerate(block.results):
        shape = _known_shape(block, value)
        spec = Return(value.type, shape is not None, shape)
        returns.append(spec)
        if shape is not None:
            address = w.load("ptr", w.at("i64", "%results", k))
            item = spec.item
            if spec.is_list:
                if value not in seen:
                    scope.homes[value] = Array(address, tuple(shape), item.dtype)
            else:
                homes[i] = Array(address, tuple(shape), item.dtype)
            seen.add(value)
            spec_address = address
            spec.address = spec_address  # type: ignore[attr-defined]
        k += spec.words
    found = scope.write(arguments, {i: home for i, home in homes.items() if block.results.index(block.results[i]) == i})
    k = 0
    for i, (spec, lowered) in enumerate(zip(returns, found, strict=True)):
        if spec.shape is None:
            _give(scope, spec, lowered, k)
        elif spec.is_list:
            from gradtape.backends.llvm.lists import address as list_address
            from gradtape.backends.llvm.scope import copy

            source = list_address(scope, lowered)  # type: ignore[arg-type]
            same = w.let(f"icmp eq ptr {source}, {spec.address}")  # type: ignore[attr-defined]
            with w.when(w.let(f"xor i1 {same}, true")):
                copy(w, spec.address, source, int(np.prod(spec.shape)) * bytes_of(spec.item.dtype))  # type: ignore[attr-defined]
        else:
            scope.copied(lowered, homes[i])
        k += spec.words
    scope.finish()
    w.go("leave")
    w.start("leave")
    w.do(f"ret i32 {w.load('i32', '%status')}")
    w.finish()
    return returns


def _known_shape(block: Block, value: Any) -> tuple[int, ...] | None:
    """The shape of a result's memory if it is known now: of a list, when a loop of known length makes it."""
    type = value.type
    if isinstance(type, TensorSpec):
        return tuple(type.shape) if all(isinstance(n, int) for n in type.shape) else None
    producer = value.producer
    if producer is None or producer.op.name != "scan" or not isinstance(producer.attrs.get("length"), int):
        return None
    if not isinstance(type.item, TensorSpec) or not all(isinstance(n, int) for n in type.item.shape):
        return None
    return (producer.attrs["length"], *type.item.shape)


def _give(scope: Scope, spec: Return, lowered: Lowered, k: int) -> None:
    """Tell the caller where a result is."""
    from gradtape.backends.llvm import lists

    w = scope.writer
    if isinstance(lowered, NativeList):
        words: list[Any] = [("ptr", lists.address(scope, lowered)), ("i64", lists.length(scope, lowered))]
        words += [("i64", size) for size in lowered.dims]
    elif isinstance(lowered, Array):
        words = [("ptr", lowered.address), *[("i64", size) for size in lowered.dims]]
    else:
        raise UnsupportedError("a result that is not in memory")
    for i, (kind, word) in enumerate(words):
        w.store(kind, word, w.at("i64", "%results", k + i))


def compile_block(block: Block, name: str = "f") -> Executable:
    """The native program of a block; UnsupportedError if it cannot be one."""
    return Executable(block, name)


__all__ = ["MEMORY", "REGISTER", "Executable", "StackedList", "compile_block", "name_of", "new_list"]
