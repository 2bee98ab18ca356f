"""What the trampolines of all programs do in the same way: look at arrays, make them, give answers, say what failed.

`results` is a trampoline's list of objects that it has made for its caller, null where it has not yet.
"""

from __future__ import annotations

import numpy as np

from gradtape.backends.llvm.entry.record_code import COUNT, ITEMS
from gradtape.backends.llvm.runtime import allocator, symbols
from gradtape.backends.llvm.runtime.allocator import aligned_alloc, free, gt_cleanup
from gradtape.backends.llvm.runtime.float_flags import EVENTS, cleared, tested
from gradtape.backends.llvm.runtime.support import Part
from gradtape.backends.llvm.runtime.symbols import DATA, DESCR, DIMS, FLAGS, PLAIN, RANK, SCALAR, TYPE, lasting, python
from gradtape.backends.llvm.writing.algebra import I8, I32, I64, Flag, Integer, Whole
from gradtape.backends.llvm.writing.builder import PTR, VOID, Builder, Int32, Member, Pointer

LARGE, HUGE = 1 << 14, 1 << 23  # elements of an array whose memory is worth keeping, at least and at most
ANY = -1  # a size that is not known before the call

# what a program knows of who listens to its floating-point events
HEARING = "gt_hearing"
LISTENER = Member(0, PTR)  # a callable, or null
WAITING = Member(8, I64)  # how many calls with events it does not want to hear of
DOUBTED = Member(16, I64)  # whether it wants to hear of calls only whose results are not finite

_EXPONENTS = ((np.dtype("float32"), I32, 0xFF << 23), (np.dtype("float64"), I64, 0x7FF << 52))

DOOR = Part()

array_empty = python("gt_array_empty", PTR, I32, PTR, PTR, I32)
set_handler = python("gt_set_handler", PTR, PTR)
tuple_new = python("PyTuple_New", PTR, I64)
tuple_set = python("PyTuple_SetItem", I32, PTR, I64, PTR)
long_from = python("PyLong_FromLong", PTR, I64)
no_memory = python("PyErr_NoMemory", PTR)
vectorcall = python("PyObject_Vectorcall", PTR, PTR, PTR, I64, PTR)
incref = python("Py_IncRef", VOID, PTR)
decref = python("Py_DecRef", VOID, PTR)


@DOOR.routine
def gt_fits(f: Builder, array: Pointer, descr: Pointer, rank: Int32, shape: Pointer, listed: Flag, words: Pointer) -> Flag:
    """Whether an argument is an array of this dtype and shape; writes its address, and the sizes that are not known, as words.

    An array that carries a list tells all its sizes, and may have any if the list is empty.
    """

    def unless(flag: Flag) -> None:
        with f.if_(~flag):
            f.leave(f.flag(False))

    unless(array[TYPE].equals(lasting(f, "gt_ndarray", np.ndarray)))  # first: the rest is only there in an array
    unless(array[DESCR].equals(descr) & array[RANK].equals(rank) & (array[FLAGS] & PLAIN).equals(PLAIN))
    words.to(PTR).value = array[DATA]
    with f.if_(rank.equals(0)):
        f.leave(f.flag(True))
    dims, sizes = array[DIMS].to(I64), shape.to(I64)
    empty = listed & dims[0].equals(0)
    word = f.variable(I64, 1)
    with f.loop(rank.resized(I64)) as axis:
        size, dim = sizes[axis], dims[axis]
        unknown = size.equals(ANY)
        unless(unknown | dim.equals(size) | empty)
        with f.if_(unknown | listed):
            words.to(I64)[word.value] = dim
            word.value = word.value + 1
    return f.flag(True)


@DOOR.routine
def gt_unusual(f: Builder) -> Pointer:
    """None: Python is to put the arguments in order."""
    none = lasting(f, "gt_none", None)
    incref(f, none)
    return none


@DOOR.routine
def gt_make(f: Builder, descr: Pointer, rank: Int32, dims: Pointer) -> Pointer:
    """A new array, or null with Python's error; the memory of a large one is the allocator's, which keeps some for the next."""
    incref(f, descr)  # which the call takes over
    count = f.variable(I64, 1)
    with f.loop(rank.resized(I64)) as axis:
        count.value = count.value * dims.to(I64)[axis]
    with f.if_((count.value < LARGE) | (count.value > HUGE)):
        f.leave(array_empty(f, rank, dims, descr, 0))
    # NumPy has one handler per context, which other arrays use too: it is put back at once
    before = set_handler(f, lasting(f, "gt_data_handler", allocator.data_handler()))
    with f.if_(before.is_null()):
        decref(f, descr)
        f.leave(f.null())
    array = array_empty(f, rank, dims, descr, 0)
    decref(f, set_handler(f, before))
    decref(f, before)
    return array


@DOOR.routine
def gt_make_with(f: Builder, descr: Pointer, rank: Int32, dims: Pointer, source: Pointer, item: Whole) -> Pointer:
    """A new array with that data, `item` bytes an element; or null with Python's error."""
    array = gt_make(f, descr, rank, dims)
    with f.if_(~array.is_null()):
        size = f.variable(I64, item)
        with f.loop(rank.resized(I64)) as axis:
            size.value = size.value * dims.to(I64)[axis]
        array[DATA].copy_from(source, size.value)
    return array


@DOOR.routine
def gt_abandon(f: Builder, context: Pointer, results: Pointer, count: Whole) -> Pointer:
    """Drop everything; null."""
    gt_cleanup(f, context)
    with f.loop(count) as i:
        result = results.to(PTR)[i]
        with f.if_(~result.is_null()):
            decref(f, result)
    return f.null()


@DOOR.routine
def gt_failed(f: Builder, context: Pointer, results: Pointer, count: Whole, status: Int32) -> Pointer:
    """Drop everything; a number that names the operation, or Python's error."""
    gt_abandon(f, context, results, count)
    with f.if_(status.equals(allocator.NO_MEMORY)):
        f.leave(no_memory(f))
    with f.if_(status.equals(allocator.INTERRUPTED)):
        f.leave(f.null())
    return long_from(f, status.resized(I64, signed=True))


@DOOR.routine
def gt_answer(f: Builder, context: Pointer, results: Pointer, count: Whole) -> Pointer:
    """Free what is left; the tuple of the results, or null with Python's error."""
    gt_cleanup(f, context)
    answer = tuple_new(f, count)
    with f.if_(answer.is_null()):
        f.leave(gt_abandon(f, context, results, count))
    with f.loop(count) as i:
        tuple_set(f, answer, i, results.to(PTR)[i])
    return answer


@DOOR.routine
def gt_frame(f: Builder, kept: Pointer, bytes: Whole) -> Pointer:
    """The frame that is kept there, which is now ours alone, or a new one; or null with Python's error."""
    # exchanged, not read: two threads in one program must not have the same frame
    frame = kept.to(PTR).fetch("xchg", 0)
    with f.if_(~frame.is_null()):
        f.leave(frame)
    new = aligned_alloc(f, allocator.ALIGN, bytes)
    with f.if_(new.is_null()):
        f.leave(no_memory(f))
    return new


@DOOR.routine
def gt_give_frame(f: Builder, kept: Pointer, frame: Pointer) -> None:
    """Keep a frame, or null to free the one that is kept."""
    free(f, kept.to(PTR).fetch("xchg", frame))


@DOOR.routine
def gt_listen(f: Builder, hearing: Pointer) -> None:
    """Forget the floating-point events before a call, if somebody wants to hear of those in it."""
    with f.if_(~hearing[LISTENER].is_null()), f.if_(tested(f, EVENTS).differs(0)):
        cleared(f, EVENTS)


@DOOR.routine
def gt_heard(f: Builder, hearing: Pointer) -> Flag:
    """Whether somebody wants to hear of a call that is over."""
    return tested(f, EVENTS).differs(0) & ~hearing[LISTENER].is_null()


def _all_finite(f: Builder, data: Pointer, count: Whole, kind: Integer, exponent: int) -> None:
    """Go on if no element has the largest exponent."""
    ill = f.variable(I64, 0)
    with f.loop(count) as i:
        ill.value = ill.value | (data.to(kind)[i] & exponent).equals(exponent).count()
    with f.if_(ill.value.differs(0)):
        f.leave(f.flag(False))


@DOOR.routine
def gt_all_finite(f: Builder, answer: Pointer) -> Flag:
    """Whether all arrays and numbers of a tuple are finite, as far as their types are known here."""
    with f.loop(answer[COUNT]) as i:
        thing = answer.field(ITEMS)[i]
        for dtype, kind, exponent in _EXPONENTS:
            with f.if_(thing[TYPE].equals(lasting(f, *symbols.scalar_type(dtype)))):
                _all_finite(f, thing.field(SCALAR).to(I8), f.number(1), kind, exponent)
            with (
                f.if_(thing[TYPE].equals(lasting(f, "gt_ndarray", np.ndarray))),
                f.if_(thing[DESCR].equals(lasting(f, *symbols.described(dtype)))),
            ):
                size = f.variable(I64, 1)
                with f.loop(thing[RANK].resized(I64)) as axis:
                    size.value = size.value * thing[DIMS].to(I64)[axis]
                _all_finite(f, thing[DATA], size.value, kind, exponent)
    return f.flag(True)


@DOOR.routine
def gt_tell(f: Builder, hearing: Pointer, answer: Pointer, args: Pointer, count: Whole, words: Pointer) -> Pointer:
    """listener(answer, *args), which may raise; the answer, or null with Python's error."""
    # (an overflow on the way to a finite result, as in exp(-x) for large x, is nobody's trouble)
    with f.if_(hearing[DOUBTED].differs(0)), f.if_(gt_all_finite(f, answer)):
        f.leave(answer)
    waiting = hearing[WAITING]
    with f.if_(waiting > 0):
        hearing[WAITING] = waiting - 1
        f.leave(answer)
    words.to(PTR).value = answer
    with f.loop(count) as i:
        words.to(PTR)[i + 1] = args.to(PTR)[i]
    said = vectorcall(f, hearing[LISTENER], words, count + 1, None)
    with f.if_(said.is_null()):
        decref(f, answer)
        f.leave(f.null())
    decref(f, said)
    return answer
