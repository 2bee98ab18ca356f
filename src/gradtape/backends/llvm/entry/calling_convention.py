"""The trampoline from Python to native code: a builtin function that takes arrays and gives a tuple of arrays.

It compares types, shapes and layout with what the program was made for, reads addresses out of the array objects, makes the
arrays of the results, takes a frame, runs the program (without the GIL if that may take long), and frees what is left. The code
that does so is machine code that all programs share (`trampoline.py`); of a program there is the table that tells it what to
do. Whatever is not exactly as expected is none of its business: it gives None, and Python puts the arguments in order
(`native_executable.py`). A number instead of a tuple says which operation failed.

A long program has hundreds of residuals, most of one type. Neighbours that are alike have one row of the table.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from gradtape.backends.llvm.entry import trampoline
from gradtape.backends.llvm.runtime import machine, symbols as outside
from gradtape.backends.llvm.writing.algebra import I8, I64, Whole
from gradtape.backends.llvm.writing.builder import Builder, Pointer, define
from gradtape.backends.llvm.writing.element_types import bytes_of
from gradtape.backends.llvm.writing.ir_text import ModuleText
from gradtape.ir.dims import Dim
from gradtape.ir.types import ListSpec, TensorSpec

Spec = TensorSpec | ListSpec
Word = int | str  # a number, or the name of what it is the address of
FASTCALL = 0x80


@dataclass(frozen=True, slots=True)
class Return:
    """How one result comes back: in memory of a shape known now, or from an address with dims that run time tells."""

    type: Spec
    shape: tuple[int, ...] | None
    param: int | None = None  # the parameter that it is: the same object comes back
    twin: int | None = None  # the result before that it is

    @property
    def item(self) -> TensorSpec:
        return _item(self.type)

    @property
    def rank(self) -> int:
        """Of the array that carries it: a list is an array of its items."""
        return len(self.item.shape) + isinstance(self.type, ListSpec)

    @property
    def computed(self) -> bool:
        """Whether the program makes it."""
        return self.param is None and self.twin is None

    @property
    def words(self) -> int:
        if not self.computed:
            return 0
        return 1 if self.shape is not None else 1 + self.rank


def write_entry(module: ModuleText, params: Sequence[Spec], returns: Sequence[Return], frame: int, long: bool) -> None:
    """The code of `gt_entry`, which has `main` called."""
    module.globals.append(f"@{trampoline.HEARING} = dso_local global [3 x i64] zeroinitializer")
    if frame:
        module.globals.append(f"@{machine.FRAME} = dso_local global ptr null")

    def gt_entry(f: Builder, self: Pointer, args: Pointer, count: Whole) -> Pointer:
        takes, gives = _rows([_taken(f, type) for type in params]), _rows([_given(f, result) for result in returns])
        counts = [sum(map(_words, params)), sum(result.words for result in returns), len(returns)]
        counts += [trampoline.SCALAR_BYTES // 8 * len(returns), 1 + len(params)]
        # an even number of words for each: memory of scalars begins at a multiple of 16 bytes
        starts = list(accumulate([8 * (count + count % 2) for count in counts], initial=0))
        rows = [word for row in (*takes, *gives) for word in row]
        given = trampoline.TABLE_BYTES + 8 * sum(map(len, takes))
        kept = machine.FRAME if frame else ""
        header: list[Word] = ["main", trampoline.HEARING, kept, frame, int(long), len(params), len(returns)]
        table = _table(f, [*header, len(takes), len(gives), given, *starts[1:-1], *rows])
        return trampoline.gt_call(f, self, args, count, table, f.array(I64, starts[-1] // 8, trampoline.SCALAR_BYTES).to(I8))

    define(module, "gt_entry", gt_entry)


Row = tuple[Word, int, tuple[int, int], tuple[int, ...]]  # what it is, words, how and which, sizes of axes


def _rows(rows: Sequence[Row]) -> list[list[Word]]:
    """Neighbours that are alike as one row."""
    return [[kind, len([*like]), words, len(axes), *how, *axes] for (kind, words, how, axes), like in groupby(rows)]


def _table(f: Builder, words: Sequence[Word]) -> Pointer:
    """Constant words in memory."""
    types = ", ".join("i64" if isinstance(word, int) else "ptr" for word in words)
    texts = [f"i64 {word}" if isinstance(word, int) else f"ptr @{word}" if word else "ptr null" for word in words]
    return Pointer(f.writer, f.module.constant("table", f"<{{ {types} }}>", f"<{{ {', '.join(texts)} }}>", 8))


def _taken(f: Builder, type: Spec) -> Row:
    """What the trampoline looks at in an argument: whether it is a list, its dtype, its sizes as far as they are known."""
    item, listed = _item(type), isinstance(type, ListSpec)
    sizes = tuple([n if isinstance(n, int) else trampoline.ANY for n in ([None, *item.shape] if listed else item.shape)])
    if not sizes:
        return outside.lasting(f, *outside.scalar_type(item.dtype.dtype)).register[1:], _words(type), (trampoline.NUMBER, 0), ()
    return _descr(f, item), _words(type), (trampoline.ROWS_OF_LIST if listed else trampoline.ARRAY, 0), sizes


def _item(type: Spec) -> TensorSpec:
    """Of a list, the type of its rows: what carries other lists is a tensor."""
    item = type.item if isinstance(type, ListSpec) else type
    assert isinstance(item, TensorSpec)
    return item


def _words(type: Spec) -> int:
    if isinstance(type, ListSpec):
        return 2 + len(type.item.shape)
    return 1 + sum(isinstance(size, Dim) for size in type.shape)


def _descr(f: Builder, item: TensorSpec) -> str:
    return outside.lasting(f, *outside.described(np.dtype(item.dtype.dtype))).register[1:]


def _given(f: Builder, result: Return) -> Row:
    """What the trampoline does about a result."""
    if not result.computed:
        return "", 0, (trampoline.RESULT, result.twin or 0) if result.param is None else (trampoline.ARGUMENT, result.param), ()
    descr = _descr(f, result.item)
    if result.shape is None:
        return descr, result.words, (trampoline.TOLD_LATER, bytes_of(result.item.dtype)), (trampoline.ANY,) * result.rank
    return descr, result.words, (trampoline.ARRAY if result.shape else trampoline.NUMBER, 0), result.shape


class Method(ctypes.Structure):
    """What Python knows of a builtin function: CPython's `PyMethodDef`."""

    _fields_ = (("name", ctypes.c_char_p), ("function", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


def builtin(library: machine.Library, name: str, calls: object) -> tuple[Callable[..., Any], object]:
    """The entry as a Python function, and what must be kept as long as it is used; callbacks find `calls` in the context."""
    method = Method(name.encode(), library.address("gt_entry"), FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    # CPython keeps a pointer to the method's record, not the record
    return make(ctypes.addressof(method), calls, None), method
