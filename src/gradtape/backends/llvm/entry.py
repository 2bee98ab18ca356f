"""The door between Python and native code: a builtin function that takes arrays and gives a tuple of arrays.

It is machine code too: it compares types, shapes and layout with what the program was made for, reads addresses out of the
array objects, makes the arrays of the results, takes a frame, runs the program (without the GIL if that may take long), and
frees what is left. Whatever is not exactly as expected is none of its business: it gives None, and Python puts the arguments
in order (`executable.py`). A number instead of a tuple says which operation failed.

Offsets are those of the NumPy 2 and CPython ABI with the GIL; other builds are refused by `available`.
"""

from __future__ import annotations

import ctypes
import functools
import sysconfig
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.backends.llvm import machine, runtime
from gradtape.backends.llvm.scope import copy
from gradtape.backends.llvm.text import Module, Writer
from gradtape.backends.llvm.types import bytes_of
from gradtape.ir.dims import Dim
from gradtape.ir.types import ListSpec

TYPE, DATA, RANK, DIMS, DESCR, FLAGS = 8, 16, 24, 32, 56, 64  # offsets in an array object
SCALAR = 16  # offset of the value in a NumPy scalar
PLAIN = 0x101  # C-contiguous and aligned
EMPTY, SCALAR_OF = 184, 60  # places in NumPy's table of functions
FASTCALL = 0x80
PYTHON = (
    "PyTuple_New", "PyTuple_SetItem", "PyEval_SaveThread", "PyEval_RestoreThread", "Py_IncRef", "Py_DecRef", "PyLong_FromLong",
    "PyErr_CheckSignals", "PyErr_NoMemory", "PyGILState_Ensure", "PyGILState_Release",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Return:
    """How one result comes back: in memory of a shape known now, or from an address with dims that run time tells."""

    type: Any
    shape: tuple[int, ...] | None
    param: int | None = None  # the parameter that it is: the same object comes back
    twin: int | None = None  # the result before that it is

    @property
    def item(self) -> Any:
        return self.type.item if isinstance(self.type, ListSpec) else self.type

    @property
    def rank(self) -> int:
        """Of the array that carries it: a list is an array of its items."""
        return len(self.item.shape) + isinstance(self.type, ListSpec)

    @property
    def made(self) -> bool:
        """Whether the program makes it."""
        return self.param is None and self.twin is None

    @property
    def words(self) -> int:
        if not self.made:
            return 0
        return 1 if self.shape is not None else 1 + self.rank


def available() -> bool:
    """Whether this Python has the layout of objects that the entry reads."""
    return not sysconfig.get_config_var("Py_GIL_DISABLED") and ctypes.sizeof(ctypes.c_void_p) == 8


@functools.cache
def _known_symbols() -> None:
    """Tell LLVM where Python's and NumPy's functions and objects are."""
    for name in PYTHON:
        address = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        machine.symbol(name, address or 0)
    from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(get(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    machine.symbol("gt_array_empty", table[EMPTY] or 0)
    machine.symbol("gt_array_scalar", table[SCALAR_OF] or 0)
    machine.symbol("gt_ndarray", id(np.ndarray))
    machine.symbol("gt_none", id(None))


_KEPT: dict[str, Any] = {}


def _object(module: Module, name: str, thing: Any) -> str:
    """A Python object that lives for ever, by name."""
    _KEPT[name] = thing
    machine.symbol(name, id(thing))
    return module.outside(name)


def write_entry(module: Module, params: Sequence[Any], returns: Sequence[Return], frame: int, long: bool) -> None:
    """The code of `entry`, which calls `main`."""
    _known_symbols()
    runtime.cleanup(module)
    module.declare("gt_array_empty", "ptr (i32, ptr, ptr, i32)")
    module.declare("gt_array_scalar", "ptr (ptr, ptr, ptr)")
    for name, signature in (
        ("PyTuple_New", "ptr (i64)"), ("PyTuple_SetItem", "i32 (ptr, i64, ptr)"), ("PyEval_SaveThread", "ptr ()"),
        ("PyEval_RestoreThread", "void (ptr)"), ("Py_IncRef", "void (ptr)"), ("Py_DecRef", "void (ptr)"),
        ("PyLong_FromLong", "ptr (i64)"), ("PyErr_NoMemory", "ptr ()"), ("aligned_alloc", "ptr (i64, i64)"),
        ("free", "void (ptr)"),
    ):  # fmt: skip
        module.declare(name, signature)
    ndarray, none = module.outside("gt_ndarray"), module.outside("gt_none")
    w = Writer(module, "entry", "ptr %self, ptr %args, i64 %count", result="ptr")
    context = w.cell("i64", 8)
    given = w.cell("i64", 1 + sum(_words(type) for type in params))
    results = w.cell("i64", 1 + sum(r.words for r in returns))
    made = w.cell("ptr", max(1, len(returns)))
    w.store("i64", 0, context)
    w.store("ptr", "%self", w.at("i64", context, 1))
    w.store("i64", 0, w.at("i64", context, runtime.TABLE))

    def expect(flag: str) -> None:
        fine = w.label("fine")
        w.branch(flag, fine, "unusual")
        w.start(fine)

    expect(w.let(f"icmp eq i64 %count, {len(params)}"))
    place = 0

    def word(type: str, value: Any) -> None:
        nonlocal place
        w.store(type, value, w.at("i64", given, place))
        place += 1

    for k, type in enumerate(params):
        argument = w.load("ptr", w.at("ptr", "%args", k))
        listed = isinstance(type, ListSpec)
        item = type.item if listed else type
        kind = w.load("ptr", w.at("i8", argument, TYPE))
        name = np.dtype(item.dtype.dtype).name
        if not listed and not item.shape:
            expect(w.let(f"icmp eq ptr {kind}, {_object(module, f'gt_scalar_{name}', item.dtype.dtype.type)}"))
            word("ptr", w.at("i8", argument, SCALAR))
            continue
        expect(w.let(f"icmp eq ptr {kind}, {ndarray}"))
        descr = w.load("ptr", w.at("i8", argument, DESCR))
        expect(w.let(f"icmp eq ptr {descr}, {_object(module, f'gt_descr_{name}', np.dtype(item.dtype.dtype))}"))
        flags = w.let(f"and i32 {w.load('i32', w.at('i8', argument, FLAGS))}, {PLAIN}")
        expect(w.let(f"icmp eq i32 {flags}, {PLAIN}"))
        rank = w.load("i32", w.at("i8", argument, RANK))
        expect(w.let(f"icmp eq i32 {rank}, {len(item.shape) + listed}"))
        dims = w.load("ptr", w.at("i8", argument, DIMS))
        word("ptr", w.load("ptr", w.at("i8", argument, DATA)))
        for axis, size in enumerate([None, *item.shape] if listed else item.shape):
            found = w.load("i64", w.at("i64", dims, axis))
            if isinstance(size, int):
                fits = w.let(f"icmp eq i64 {found}, {size}")
                if listed:  # no items: whatever their dims
                    empty = w.let(f"icmp eq i64 {w.load('i64', dims)}, 0")
                    fits = w.let(f"or i1 {fits}, {empty}")
                expect(fits)
            if listed or isinstance(size, Dim):
                word("i64", found)
    _results(w, module, returns, results, made)
    held = _frame(w, module, frame, lambda: _drop(w, returns, made))
    thread = w.let("call ptr @PyEval_SaveThread()") if long else None
    status = w.let(f"call i32 @main(ptr {context}, ptr {given}, ptr {results}, ptr {held})")
    if thread is not None:
        w.do(f"call void @PyEval_RestoreThread(ptr {thread})")
    if frame:
        w.do(f"call void @gt_give_frame(ptr {held})")
    failed, done = w.label("failed"), w.label("succeeded")
    w.branch(w.let(f"icmp ne i32 {status}, 0"), failed, done)
    w.start(failed)
    w.do(f"call void @gt_cleanup(ptr {context})")
    _drop(w, returns, made)
    interrupted, told, poor, other = w.label("interrupted"), w.label("told"), w.label("poor"), w.label("other")
    w.branch(w.let(f"icmp eq i32 {status}, {runtime.NO_MEMORY}"), poor, other)
    w.start(poor)
    w.do(f"ret ptr {w.let('call ptr @PyErr_NoMemory()')}")
    w.start(other)
    w.branch(w.let(f"icmp eq i32 {status}, {runtime.INTERRUPTED}"), interrupted, told)
    w.start(interrupted)
    w.do("ret ptr null")
    w.start(told)
    wide = w.let(f"sext i32 {status} to i64")
    w.do(f"ret ptr {w.let(f'call ptr @PyLong_FromLong(i64 {wide})')}")
    w.start(done)
    _collect(w, module, returns, results, made, context)
    w.do(f"call void @gt_cleanup(ptr {context})")
    answer = w.let(f"call ptr @PyTuple_New(i64 {len(returns)})")
    _unless_null(w, answer, lambda: _drop_all(w, returns, made))
    for k in range(len(returns)):
        w.do(f"call i32 @PyTuple_SetItem(ptr {answer}, i64 {k}, ptr {w.load('ptr', w.at('ptr', made, k))})")
    w.do(f"ret ptr {answer}")
    w.start("unusual")
    w.do(f"call void @Py_IncRef(ptr {none})")
    w.do(f"ret ptr {none}")
    w.finish()


def _words(type: Any) -> int:
    if isinstance(type, ListSpec):
        return 2 + len(type.item.shape)
    return 1 + sum(isinstance(size, Dim) for size in type.shape)


def _descr(module: Module, item: Any) -> str:
    dtype = np.dtype(item.dtype.dtype)
    return _object(module, f"gt_descr_{dtype.name}", dtype)


def _empty(w: Writer, module: Module, rank: int, dims: str, item: Any) -> str:
    """A new array; memory that cannot be had ends the call with Python's own error."""
    descr = _descr(module, item)
    w.do(f"call void @Py_IncRef(ptr {descr})")  # which the call takes over
    return w.let(f"call ptr @gt_array_empty(i32 {rank}, ptr {dims}, ptr {descr}, i32 0)")


def _results(w: Writer, module: Module, returns: Sequence[Return], results: str, made: str) -> None:
    """Arrays for results of known shape, scalars' memory, and their addresses."""
    for k in range(len(returns)):
        w.store("ptr", "null", w.at("ptr", made, k))
    place = 0
    for k, spec in enumerate(returns):
        if spec.made and spec.shape is not None:
            if not spec.shape:
                w.store("ptr", w.cell("i8", 16, 16), w.at("i64", results, place))
            else:
                dims = w.cell("i64", len(spec.shape))
                for axis, size in enumerate(spec.shape):
                    w.store("i64", size, w.at("i64", dims, axis))
                array = _empty(w, module, len(spec.shape), dims, spec.item)
                _unless_null(w, array, lambda: _drop(w, returns, made))
                w.store("ptr", array, w.at("ptr", made, k))
                w.store("ptr", w.load("ptr", w.at("i8", array, DATA)), w.at("i64", results, place))
        place += spec.words


def _drop(w: Writer, returns: Sequence[Return], made: str) -> None:
    for k, spec in enumerate(returns):
        if spec.made and spec.shape:
            array = w.load("ptr", w.at("ptr", made, k))
            with w.when(w.let(f"icmp ne ptr {array}, null")):
                w.do(f"call void @Py_DecRef(ptr {array})")


def _drop_all(w: Writer, returns: Sequence[Return], made: str) -> None:
    for k in range(len(returns)):
        found = w.load("ptr", w.at("ptr", made, k))
        with w.when(w.let(f"icmp ne ptr {found}, null")):
            w.do(f"call void @Py_DecRef(ptr {found})")


def _unless_null(w: Writer, thing: str, drop: Callable[[], None]) -> None:
    """Go on if Python could make an object; else leave with the error it has set."""
    fine, none = w.label("fine"), w.label("none")
    w.branch(w.let(f"icmp eq ptr {thing}, null"), none, fine)
    w.start(none)
    drop()
    w.do("ret ptr null")
    w.start(fine)


def _collect(w: Writer, module: Module, returns: Sequence[Return], results: str, made: str, context: str) -> None:
    """Scalars, and arrays whose shape is known by now."""

    def drop() -> None:
        w.do(f"call void @gt_cleanup(ptr {context})")
        _drop_all(w, returns, made)

    place = 0
    for k, spec in enumerate(returns):
        if not spec.made:
            known = w.at("ptr", "%args", spec.param) if spec.param is not None else w.at("ptr", made, spec.twin or 0)
            found = w.load("ptr", known)
            w.do(f"call void @Py_IncRef(ptr {found})")
            w.store("ptr", found, w.at("ptr", made, k))
        elif spec.shape is not None and not spec.shape:
            address = w.load("ptr", w.at("i64", results, place))
            number = w.let(f"call ptr @gt_array_scalar(ptr {address}, ptr {_descr(module, spec.item)}, ptr null)")
            _unless_null(w, number, drop)
            w.store("ptr", number, w.at("ptr", made, k))
        elif spec.shape is None:
            array = _empty(w, module, spec.rank, w.at("i64", results, place + 1), spec.item)
            _unless_null(w, array, drop)
            sizes = [w.load("i64", w.at("i64", results, place + 1 + axis)) for axis in range(spec.rank)]
            count = w.multiply(w.product(sizes), bytes_of(spec.item.dtype))
            copy(w, w.load("ptr", w.at("i8", array, DATA)), w.load("ptr", w.at("i64", results, place)), count)
            w.store("ptr", array, w.at("ptr", made, k))
        place += spec.words


def _frame(w: Writer, module: Module, size: int, drop: Callable[[], None]) -> str:
    """Memory for the values in between: kept from call to call, a second one if two calls run at once."""
    if not size:
        return "null"
    module.globals.append("@gt_kept_frame = internal global ptr null")
    module.library(
        "gt_give_frame",
        lambda: (
            """define internal void @gt_give_frame(ptr %frame) nounwind {
  %other = atomicrmw xchg ptr @gt_kept_frame, ptr %frame seq_cst
  call void @free(ptr %other)
  ret void
}"""
        ),
    )
    module.library(
        "gt_drop_frame",
        lambda: (
            """define void @gt_drop_frame() nounwind {
  %other = atomicrmw xchg ptr @gt_kept_frame, ptr null seq_cst
  call void @free(ptr %other)
  ret void
}"""
        ),
    )
    kept = w.let("atomicrmw xchg ptr @gt_kept_frame, ptr null seq_cst")
    none, some = w.label("none"), w.label("some")
    before = w.current
    w.branch(w.let(f"icmp eq ptr {kept}, null"), none, some)
    w.start(none)
    fresh = w.let(f"call ptr @aligned_alloc(i64 64, i64 {size})")
    poor, rich = w.label("poor"), w.label("rich")
    w.branch(w.let(f"icmp eq ptr {fresh}, null"), poor, rich)
    w.start(poor)
    drop()
    w.do(f"ret ptr {w.let('call ptr @PyErr_NoMemory()')}")
    w.start(rich)
    w.go(some)
    w.start(some)
    return w.let(f"phi ptr [ {kept}, %{before} ], [ {fresh}, %{rich} ]")


class _Method(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def builtin(library: machine.Library, name: str, calls: Any) -> tuple[Any, Any]:
    """The entry as a Python function, and what must be kept as long as it is used; callbacks find `calls` in the context."""
    method = _Method(name.encode(), library.address("entry"), FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(method), calls, None), method
