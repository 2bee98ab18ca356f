"""The door between Python and native code: a builtin function that takes arrays and gives a tuple of arrays.

It is machine code too: it compares types, shapes and layout with what the program was made for, reads addresses out of the
array objects, makes the arrays of the results, takes a frame, runs the program (without the GIL if that may take long), and
frees what is left; what all entries do in the same way is in `door.py`. Whatever is not exactly as expected is none of its
business: it gives None, and Python puts the arguments in order (`executable.py`). A number instead of a tuple says which
operation failed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.backends.llvm import machine, outside, runtime
from gradtape.backends.llvm.door import ANY, DOOR
from gradtape.backends.llvm.text import Module, Writer
from gradtape.backends.llvm.types import bytes_of
from gradtape.ir.dims import Dim
from gradtape.ir.types import ListSpec

FASTCALL = 0x80


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


def write_entry(module: Module, params: Sequence[Any], returns: Sequence[Return], frame: int, long: bool) -> None:
    """The code of `entry`, which calls `main`."""
    w = Writer(module, "entry", "ptr %self, ptr %args, i64 %count", result="ptr")
    context = w.cell("i64", 8)
    given = w.cell("i64", 1 + sum(_words(type) for type in params))
    results = w.cell("i64", 1 + sum(r.words for r in returns))
    made = w.cell("ptr", max(1, len(returns)))
    mine = f"ptr {context}, ptr {made}, i64 {len(returns)}"
    w.store("i64", 0, context)
    w.store("ptr", "%self", w.at("i64", context, 1))
    w.store("i64", 0, w.at("i64", context, runtime.TABLE))
    for k in range(len(returns)):
        w.store("ptr", "null", w.at("ptr", made, k))
    _arguments(w, module, params, given)
    _places(w, module, returns, results, made)
    held = "null"
    if frame:
        module.globals.append(f"@{machine.FRAME} = dso_local global ptr null")
        held = w.let(f"call ptr {DOOR.use(module, 'gt_frame')}(ptr @{machine.FRAME}, i64 {frame})")
        _unless_null(w, held)
    thread = w.let(f"call ptr {module.declare('PyEval_SaveThread', 'ptr ()')}()") if long else None
    status = w.let(f"call i32 @main(ptr {context}, ptr {given}, ptr {results}, ptr {held})")
    if thread is not None:
        w.do(f"call void {module.declare('PyEval_RestoreThread', 'void (ptr)')}(ptr {thread})")
    if frame:
        w.do(f"call void {DOOR.use(module, 'gt_give_frame')}(ptr @{machine.FRAME}, ptr {held})")
    failed, done = w.label("failed"), w.label("succeeded")
    w.branch(w.let(f"icmp ne i32 {status}, 0"), failed, done)
    w.start(failed)
    _leave(w, "gt_failed", f"{mine}, i32 {status}")
    w.start(done)
    _collect(w, module, returns, results, made)
    _leave(w, "gt_answer", mine)
    w.start("unusual")
    none = module.outside("gt_none")
    w.do(f"call void {_increment(module)}(ptr {none})")
    w.do(f"ret ptr {none}")
    w.start("abandoned")
    _leave(w, "gt_abandon", mine)
    w.finish()


def _leave(w: Writer, name: str, arguments: str) -> None:
    """Return what a function of the door gives."""
    w.do(f"ret ptr {w.let(f'call ptr {DOOR.use(w.module, name)}({arguments})')}")


def _arguments(w: Writer, module: Module, params: Sequence[Any], given: str) -> None:
    """Addresses, and sizes that are not known before; arguments that are not as expected are left to Python."""

    def expect(flag: str) -> None:
        fine = w.label("fine")
        w.branch(flag, fine, "unusual")
        w.start(fine)

    expect(w.let(f"icmp eq i64 %count, {len(params)}"))
    place = 0
    for k, type in enumerate(params):
        argument = w.load("ptr", w.at("ptr", "%args", k))
        listed = isinstance(type, ListSpec)
        item = type.item if listed else type
        words = w.at("i64", given, place)
        if not listed and not item.shape:
            scalar = item.dtype.dtype.type
            kind = outside.lasting(module, f"gt_scalar_{np.dtype(scalar).name}", scalar)
            expect(w.let(f"icmp eq ptr {w.load('ptr', w.at('i8', argument, outside.TYPE))}, {kind}"))
            w.store("ptr", w.at("i8", argument, outside.SCALAR), words)
        else:
            sizes = [size if isinstance(size, int) else ANY for size in ([None, *item.shape] if listed else item.shape)]
            shape = f"i32 {len(sizes)}, ptr {_numbers(module, sizes)}"
            fits = f"call i1 {DOOR.use(module, 'gt_fits')}(ptr {argument}, ptr {_descr(module, item)}, {shape},"
            expect(w.let(f"{fits} i1 {str(listed).lower()}, ptr {words})"))
        place += _words(type)


def _words(type: Any) -> int:
    if isinstance(type, ListSpec):
        return 2 + len(type.item.shape)
    return 1 + sum(isinstance(size, Dim) for size in type.shape)


def _numbers(module: Module, numbers: Sequence[int]) -> str:
    """The address of integers that are known now."""
    text = ", ".join(f"i64 {number}" for number in numbers)
    return module.constant(("sizes", *numbers), f"[{len(numbers)} x i64]", f"[{text}]", 8)


def _descr(module: Module, item: Any) -> str:
    dtype = np.dtype(item.dtype.dtype)
    return outside.lasting(module, f"gt_descr_{dtype.name}", dtype)


def _increment(module: Module) -> str:
    return module.declare("Py_IncRef", "void (ptr)")


def _places(w: Writer, module: Module, returns: Sequence[Return], results: str, made: str) -> None:
    """Arrays for results of known shape, scalars' memory, and their addresses."""
    place = 0
    for k, spec in enumerate(returns):
        if spec.made and spec.shape is not None:
            if not spec.shape:
                w.store("ptr", w.cell("i8", 16, 16), w.at("i64", results, place))
            else:
                shape = f"i32 {len(spec.shape)}, ptr {_numbers(module, spec.shape)}"
                array = w.let(f"call ptr {DOOR.use(module, 'gt_make')}(ptr {_descr(module, spec.item)}, {shape})")
                _unless_null(w, array)
                w.store("ptr", array, w.at("ptr", made, k))
                w.store("ptr", w.load("ptr", w.at("i8", array, outside.DATA)), w.at("i64", results, place))
        place += spec.words


def _unless_null(w: Writer, thing: str) -> None:
    """Go on if there is an object; else leave with the error that Python has set."""
    fine = w.label("fine")
    w.branch(w.let(f"icmp eq ptr {thing}, null"), "abandoned", fine)
    w.start(fine)


def _collect(w: Writer, module: Module, returns: Sequence[Return], results: str, made: str) -> None:
    """Scalars, arrays whose shape is known by now, and results that are there already."""
    place = 0
    for k, spec in enumerate(returns):
        if not spec.made:
            known = w.at("ptr", "%args", spec.param) if spec.param is not None else w.at("ptr", made, spec.twin or 0)
            found = w.load("ptr", known)
            w.do(f"call void {_increment(module)}(ptr {found})")
            w.store("ptr", found, w.at("ptr", made, k))
        elif not spec.shape:
            address, descr = w.load("ptr", w.at("i64", results, place)), _descr(module, spec.item)
            if spec.shape is not None:
                scalar = module.declare("gt_array_scalar", "ptr (ptr, ptr, ptr)")
                found = w.let(f"call ptr {scalar}(ptr {address}, ptr {descr}, ptr null)")
            else:
                shape = f"i32 {spec.rank}, ptr {w.at('i64', results, place + 1)}"
                data = f"ptr {address}, i64 {bytes_of(spec.item.dtype)}"
                found = w.let(f"call ptr {DOOR.use(module, 'gt_make_with')}(ptr {descr}, {shape}, {data})")
            _unless_null(w, found)
            w.store("ptr", found, w.at("ptr", made, k))
        place += spec.words


class _Method(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def builtin(library: machine.Library, name: str, calls: Any) -> tuple[Any, Any]:
    """The entry as a Python function, and what must be kept as long as it is used; callbacks find `calls` in the context."""
    method = _Method(name.encode(), library.address("entry"), FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return make(ctypes.addressof(method), calls, None), method
