"""The trampoline from Python to native code: a builtin function that takes arrays and gives a tuple of arrays.

It is machine code too: it compares types, shapes and layout with what the program was made for, reads addresses out of the
array objects, makes the arrays of the results, takes a frame, runs the program (without the GIL if that may take long), and
frees what is left; what all trampolines do in the same way is in `trampoline.py`. Whatever is not exactly as expected is none
of its business: it gives None, and Python puts the arguments in order (`native_executable.py`). A number instead of a tuple
says which operation failed.

A long program has hundreds of residuals, most of one type. Neighbours that are alike are handled by a loop, so that the code of
the trampoline grows with the kinds of arguments, not with their number.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, TypeVar

import numpy as np

from gradtape.backends.llvm.entry.trampoline import (
    ANY,
    HEARING,
    decref,
    gt_abandon,
    gt_answer,
    gt_failed,
    gt_fits,
    gt_frame,
    gt_give_frame,
    gt_heard,
    gt_listen,
    gt_make,
    gt_make_with,
    gt_tell,
    gt_unusual,
    incref,
)  # fmt: skip
from gradtape.backends.llvm.runtime import allocator, machine, symbols as outside
from gradtape.backends.llvm.runtime.allocator import CALLS, FIRST, OWNED, TABLE
from gradtape.backends.llvm.writing.algebra import I8, I32, I64, Flag, Whole
from gradtape.backends.llvm.writing.builder import PTR, VOID, Builder, Number, Pointer, define
from gradtape.backends.llvm.writing.element_types import bytes_of
from gradtape.backends.llvm.writing.ir_text import ModuleText
from gradtape.ir.dims import Dim
from gradtape.ir.types import ListSpec, TensorSpec

Spec = TensorSpec | ListSpec
T = TypeVar("T")

save_thread = outside.python("PyEval_SaveThread", PTR)
restore_thread = outside.python("PyEval_RestoreThread", VOID, PTR)
array_scalar = outside.python("gt_array_scalar", PTR, PTR, PTR, PTR)
FASTCALL = 0x80
LOOPED = 8  # neighbours that are alike from which on a loop handles them: fewer are quicker one by one
SCALAR_BYTES = 16  # of memory for a scalar result, which no dtype exceeds


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


def write_entry(
    module: ModuleText, params: Sequence[Spec], returns: Sequence[Return], frame: int, long: bool, owns: bool
) -> None:
    """The code of `gt_entry`, which calls `main`; `owns` says that callbacks leave objects to the call."""

    def gt_entry(f: Builder, self: Pointer, args: Pointer, count: Whole) -> Pointer:
        context = f.array(I64, allocator.CONTEXT_WORDS).to(I8)
        given = f.array(I64, 1 + sum(_words(type) for type in params))
        places = f.array(I64, 1 + sum(r.words for r in returns))
        results, number = f.array(PTR, max(1, len(returns))), f.number(len(returns))
        # on the stack: calls may nest and run in several threads
        context[FIRST], context[CALLS], context[TABLE] = f.null(), self, f.null()
        if owns:
            context[OWNED] = f.null()
        # so that leaving early can give back just those that were made
        results.fill(0, 8 * len(returns))

        def unless_null(thing: Pointer) -> Pointer:
            """Go on if there is an object; else leave with the error that Python has set."""
            with f.if_(thing.is_null()):
                f.leave(gt_abandon(f, context, results, number))
            return thing

        _arguments(f, params, args.to(PTR), count, given)
        _places(f, returns, places.to(PTR), results, unless_null)
        held = f.null()
        if frame:
            module.globals.append(f"@{machine.FRAME} = dso_local global ptr null")
            kept: Pointer = Pointer(f.writer, f"@{machine.FRAME}")
            held = unless_null(gt_frame(f, kept, f.number(frame)))
        module.globals.append(f"@{HEARING} = dso_local global [3 x i64] zeroinitializer")
        hearing: Pointer = Pointer(f.writer, f"@{HEARING}")
        # floating-point flags are sticky: cleared before, read after, which costs less than looking at results
        gt_listen(f, hearing)
        # giving the interpreter lock away and taking it back costs as much as a small program
        thread = save_thread(f) if long else None
        status = f.call("@main", I32, [PTR] * 4, [context, given, places, held])
        if thread is not None:
            restore_thread(f, thread)
        heard = gt_heard(f, hearing)
        if owns:
            with f.if_(~context[OWNED].is_null()):
                decref(f, context[OWNED])
        if frame:
            gt_give_frame(f, kept, held)
        with f.if_(status.differs(0)):
            f.leave(gt_failed(f, context, results, number, status))
        _collect(f, returns, args.to(PTR), places, results, unless_null)
        answer = gt_answer(f, context, results, number)
        with f.if_(heard & ~answer.is_null()):
            f.leave(gt_tell(f, hearing, answer, args, count, f.array(PTR, 1 + len(params)).to(I8)))
        return answer

    define(module, "gt_entry", gt_entry)


def _arguments(f: Builder, params: Sequence[Spec], args: Pointer[Pointer], count: Whole, given: Pointer[Whole]) -> None:
    """Addresses, and sizes that are not known before; arguments that are not as expected are left to Python."""

    def expect(flag: Flag) -> None:
        with f.if_(~flag):
            f.leave(gt_unusual(f))

    # Not an error: whatever is unusual is run by the slower way, which has the words for errors.
    expect(count.equals(len(params)))
    for run in _runs([(type, _words(type)) for type in params], _taken):
        item, (listed, _, sizes) = _item(run.spec), _taken(run.spec)
        for k, place in run.each(f):
            words, argument = given.at(place), args[k]
            if listed or sizes:
                rank = f.number(len(sizes), I32)
                expect(gt_fits(f, argument, _descr(f, item), rank, _numbers(f, sizes), f.flag(listed), words))
            else:
                expect(argument[outside.TYPE].equals(outside.lasting(f, *outside.scalar_type(item.dtype.dtype))))
                words.to(PTR).value = argument.field(outside.SCALAR)


@dataclass(frozen=True, slots=True)
class Neighbours(Generic[T]):
    """Arguments or results in a row that are alike: `count` of them from `first` on, each so many words, from `place` on."""

    spec: T
    first: int
    count: int
    place: int
    words: int

    def each(self, f: Builder) -> Iterator[tuple[Number, Number]]:
        """The position of each of them, and where its words are: numbers, or those of a loop that is being written."""
        # a program of a thousand parameters would else have an entry that takes longer to compile than the program
        if self.count < LOOPED:
            for i in range(self.count):
                yield self.first + i, self.place + i * self.words
        else:
            with f.loop(self.count) as k:
                yield k + self.first, k * self.words + self.place


def _runs(specs: Sequence[tuple[T, int]], key: Callable[[T], object]) -> Iterator[Neighbours[T]]:
    """What is said with how many words, as runs of what has the same key."""
    first = place = 0
    for _, like in groupby(specs, lambda pair: key(pair[0])):
        (spec, words), *others = like
        yield Neighbours(spec, first, 1 + len(others), place, words)
        first, place = first + 1 + len(others), place + words * (1 + len(others))


def _taken(type: Spec) -> tuple[bool, object, tuple[int, ...]]:
    """What the trampoline looks at in an argument: whether it is a list, its dtype, its sizes as far as they are known."""
    item, listed = _item(type), isinstance(type, ListSpec)
    sizes = [None, *item.shape] if listed else item.shape
    return listed, item.dtype, tuple([n if isinstance(n, int) else ANY for n in sizes])


def _item(type: Spec) -> TensorSpec:
    """Of a list, the type of its rows: what carries other lists is a tensor."""
    item = type.item if isinstance(type, ListSpec) else type
    assert isinstance(item, TensorSpec)
    return item


def _words(type: Spec) -> int:
    if isinstance(type, ListSpec):
        return 2 + len(type.item.shape)
    return 1 + sum(isinstance(size, Dim) for size in type.shape)


def _numbers(f: Builder, numbers: Sequence[int]) -> Pointer:
    """Integers that are known now, in memory."""
    text = ", ".join(f"i64 {number}" for number in numbers)
    return Pointer(f.writer, f.module.constant(("sizes", *numbers), f"[{len(numbers)} x i64]", f"[{text}]", 8))


def _descr(f: Builder, item: TensorSpec) -> Pointer:
    dtype = np.dtype(item.dtype.dtype)
    return outside.lasting(f, *outside.described(dtype))


def _given(spec: Return) -> object:
    """What the trampoline does about a result depends on this; what is there already is one by one."""
    # (by identity: such a result is never in a run with others)
    return (spec.item.dtype, spec.rank, spec.shape) if spec.computed else id(spec)


def _places(
    f: Builder, returns: Sequence[Return], places: Pointer[Pointer], results: Pointer[Pointer],
    unless_null: Callable[[Pointer], Pointer],
) -> None:  # fmt: skip
    """Arrays for results of known shape, scalars' memory, and their addresses."""
    for run in _runs([(spec, spec.words) for spec in returns], _given):
        shape = run.spec.shape if run.spec.computed else None
        scalars = f.array(I8, SCALAR_BYTES * run.count, SCALAR_BYTES) if shape == () else None
        for k, place in run.each(f) if shape is not None else ():
            if scalars is not None:
                # NumPy's scalars are made at the end, from a value: until then it needs memory only
                places[place] = scalars.at((k - run.first) * SCALAR_BYTES)
            else:
                rank = f.number(run.spec.rank, I32)
                results[k] = array = unless_null(gt_make(f, _descr(f, run.spec.item), rank, _numbers(f, shape or ())))
                places[place] = array[outside.DATA]


def _collect(
    f: Builder, returns: Sequence[Return], args: Pointer[Pointer], places: Pointer[Whole], results: Pointer[Pointer],
    unless_null: Callable[[Pointer], Pointer],
) -> None:  # fmt: skip
    """Scalars, arrays whose shape is known by now, and results that are there already."""
    for run in _runs([(spec, spec.words) for spec in returns], _given):
        spec = run.spec
        if not spec.computed:
            results[run.first] = known = args[spec.param] if spec.param is not None else results[spec.twin or 0]
            # the caller gets a reference of his own, also of what he gave
            incref(f, known)
        for k, place in run.each(f) if spec.computed and not spec.shape else ():
            data, descr = places.to(PTR)[place], _descr(f, spec.item)
            if spec.shape is not None:
                result = array_scalar(f, data, descr, None)
            else:
                dims, item = places.at(place + 1), f.number(bytes_of(spec.item.dtype))
                result = gt_make_with(f, descr, f.number(spec.rank, I32), dims, data, item)
            results[k] = unless_null(result)


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
