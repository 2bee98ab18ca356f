"""What the trampolines of all programs do: look at arguments, make arrays, run the program, give answers, say what failed.

A program is described by a table (`calling_convention.py` writes it), so this code is compiled once, and not with each program.
`results` is a call's list of objects that it has made for its caller, null where it has not yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from gradtape.backends.llvm.entry.record_code import COUNT, ITEMS
from gradtape.backends.llvm.runtime import allocator, symbols
from gradtape.backends.llvm.runtime.allocator import CALLS, FIRST, OWNED, TABLE, aligned_alloc, free, gt_cleanup
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

# The table of a program. Where something is in the memory of a call is said in bytes; its first words are the arguments'.
# (the addresses of the program, of the three words above, of its frame or null; whether other threads may run meanwhile; how
# many arguments, results and rows on either; where the rows on results begin, and the memory for each of the others)
PROGRAM, LISTENED, KEPT = (Member(8 * i, PTR) for i in range(3))
FRAME_BYTES, RELEASES, PARAMS, RESULTS, TAKES, GIVES = (Member(24 + 8 * i, I64) for i in range(6))
GIVEN, PLACES, OBJECTS, SCALARS, TOLD = (Member(72 + 8 * i, I64) for i in range(5))
TABLE_BYTES = 112
# A row on neighbours that are alike: dtype or type of a scalar, how many, words of each, axes, how they come or go, and bytes
# of an element or which argument or result it is; the sizes of the axes stand behind it.
KIND = Member(0, PTR)
COUNTED, WORDS, AXES, HOW, WHICH = (Member(8 + 8 * i, I64) for i in range(5))
ROW_BYTES = 48
NUMBER, ARRAY, ROWS_OF_LIST, TOLD_LATER, ARGUMENT, RESULT = range(6)  # `HOW` it comes or goes
SCALAR_BYTES = 16  # of memory for a scalar result, which no dtype exceeds

_EXPONENTS = ((np.dtype("float32"), I32, 0xFF << 23), (np.dtype("float64"), I64, 0x7FF << 52))

DOOR = Part(__name__)

save_thread = python("PyEval_SaveThread", PTR)
restore_thread = python("PyEval_RestoreThread", VOID, PTR)
array_scalar = python("gt_array_scalar", PTR, PTR, PTR, PTR)
array_empty = python("gt_array_empty", PTR, I32, PTR, PTR, I32)
set_handler = python("gt_set_handler", PTR, PTR)
tuple_new = python("PyTuple_New", PTR, I64)
tuple_set = python("PyTuple_SetItem", I32, PTR, I64, PTR)
long_from = python("PyLong_FromLong", PTR, I64)
no_memory = python("PyErr_NoMemory", PTR)
vectorcall = python("PyObject_Vectorcall", PTR, PTR, PTR, I64, PTR)
incref = python("Py_IncRef", VOID, PTR)
decref = python("Py_DecRef", VOID, PTR)


def _or_false(f: Builder, flag: Flag) -> None:
    """Go on, or leave with False."""
    f.leave_if(~flag, f.flag(False))


@DOOR.routine
def fits(f: Builder, array: Pointer, descr: Pointer, rank: Int32, shape: Pointer, listed: Flag, words: Pointer) -> Flag:
    """Whether an argument is an array of this dtype and shape; writes its address, and the sizes that are not known, as words.

    An array that carries a list tells all its sizes, and may have any if the list is empty.
    """

    unless = partial(_or_false, f)
    unless(array[TYPE].equals(lasting(f, "gt_ndarray", np.ndarray)))  # first: the rest is only there in an array
    unless(array[DESCR].equals(descr) & array[RANK].equals(rank) & (array[FLAGS] & PLAIN).equals(PLAIN))
    words.to(PTR).value = array[DATA]
    f.leave_if(rank.equals(0), f.flag(True))
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
def unusual(f: Builder) -> Pointer:
    """None: Python is to put the arguments in order."""
    none = lasting(f, "gt_none", None)
    incref(f, none)
    return none


@DOOR.routine
def new_array(f: Builder, descr: Pointer, rank: Int32, dims: Pointer) -> Pointer:
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
def new_array_with(f: Builder, descr: Pointer, rank: Int32, dims: Pointer, source: Pointer, item: Whole) -> Pointer:
    """A new array with that data, `item` bytes an element; or null with Python's error."""
    array = new_array(f, descr, rank, dims)
    with f.if_(~array.is_null()):
        size = f.variable(I64, item)
        with f.loop(rank.resized(I64)) as axis:
            size.value = size.value * dims.to(I64)[axis]
        array[DATA].copy_from(source, size.value)
    return array


@DOOR.routine
def abandon(f: Builder, context: Pointer, results: Pointer, count: Whole) -> Pointer:
    """Drop everything; null."""
    gt_cleanup(f, context)
    with f.loop(count) as i:
        result = results.to(PTR)[i]
        with f.if_(~result.is_null()):
            decref(f, result)
    return f.null()


@DOOR.routine
def failed(f: Builder, context: Pointer, results: Pointer, count: Whole, status: Int32) -> Pointer:
    """Drop everything; a number that names the operation, or Python's error."""
    abandon(f, context, results, count)
    f.leave_if(status.equals(allocator.NO_MEMORY), no_memory)
    f.leave_if(status.equals(allocator.INTERRUPTED), f.null())
    return long_from(f, status.resized(I64, signed=True))


@DOOR.routine
def answered(f: Builder, context: Pointer, results: Pointer, count: Whole) -> Pointer:
    """Free what is left; the tuple of the results, or null with Python's error."""
    gt_cleanup(f, context)
    answer = tuple_new(f, count)
    with f.if_(answer.is_null()):
        f.leave(abandon(f, context, results, count))
    with f.loop(count) as i:
        tuple_set(f, answer, i, results.to(PTR)[i])
    return answer


@DOOR.routine
def own_frame(f: Builder, kept: Pointer, bytes: Whole) -> Pointer:
    """The frame that is kept there, which is now ours alone, or a new one; or null with Python's error."""
    # exchanged, not read: two threads in one program must not have the same frame
    frame = kept.to(PTR).fetch("xchg", 0)
    f.leave_if(~frame.is_null(), frame)
    new = aligned_alloc(f, allocator.ALIGN, bytes)
    f.leave_if(new.is_null(), no_memory)
    return new


@DOOR.routine
def gt_give_frame(f: Builder, kept: Pointer, frame: Pointer) -> None:
    """Keep a frame, or null to free the one that is kept."""
    free(f, kept.to(PTR).fetch("xchg", frame))


@DOOR.routine
def listen(f: Builder, hearing: Pointer) -> None:
    """Forget the floating-point events before a call, if somebody wants to hear of those in it."""
    with f.if_(~hearing[LISTENER].is_null()), f.if_(tested(f, EVENTS).differs(0)):
        cleared(f, EVENTS)


@DOOR.routine
def is_heard(f: Builder, hearing: Pointer) -> Flag:
    """Whether somebody wants to hear of a call that is over."""
    return tested(f, EVENTS).differs(0) & ~hearing[LISTENER].is_null()


def _all_finite(f: Builder, data: Pointer, count: Whole, kind: Integer, exponent: int) -> None:
    """Go on if no element has the largest exponent."""
    ill = f.variable(I64, 0)
    with f.loop(count) as i:
        ill.value = ill.value | (data.to(kind)[i] & exponent).equals(exponent).count()
    _or_false(f, ill.value.equals(0))


@DOOR.routine
def all_finite(f: Builder, answer: Pointer) -> Flag:
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
def tell(f: Builder, hearing: Pointer, answer: Pointer, args: Pointer, count: Whole, words: Pointer) -> Pointer:
    """listener(answer, *args), which may raise; the answer, or null with Python's error."""
    # (an overflow on the way to a finite result, as in exp(-x) for large x, is nobody's trouble)
    with f.if_(hearing[DOUBTED].differs(0)), f.if_(all_finite(f, answer)):
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


@contextmanager
def _each(f: Builder, row: Pointer, rows: Whole, words: Pointer, things: Pointer) -> Iterator[tuple[Pointer, Pointer, Pointer]]:
    """A body for each argument or result: its row, its words, its place in an array of objects."""
    row, words, things = f.variable(PTR, row), f.variable(PTR, words), f.variable(PTR, things)
    with f.loop(rows):
        like = row.value
        with f.loop(like[COUNTED]):
            word, thing = words.value, things.value
            yield like, word.to(PTR), thing.to(PTR)
            words.value, things.value = word.at(like[WORDS] * 8), thing.at(8)
        row.value = like.at(like[AXES] * 8 + ROW_BYTES)


@DOOR.routine
def take(f: Builder, table: Pointer, args: Pointer, words: Pointer) -> Flag:
    """Addresses of arguments, and sizes that are not known before; whether all are as expected."""

    with _each(f, table.at(TABLE_BYTES), table[TAKES], words, args) as (like, word, place):
        argument, how = place.value, like[HOW]
        with f.if_else(how.equals(NUMBER)) as (then, otherwise):
            with then:
                _or_false(f, argument[TYPE].equals(like[KIND]))
                word.value = argument.field(SCALAR)
            with otherwise:
                rank, listed = like[AXES].resized(I32), how.equals(ROWS_OF_LIST)
                _or_false(f, fits(f, argument, like[KIND], rank, like.at(ROW_BYTES), listed, word))
    return f.flag(True)


@DOOR.routine
def prepare(f: Builder, table: Pointer, places: Pointer, results: Pointer, scalars: Pointer) -> Flag:
    """Arrays for results of known shape, scalars' memory, and their addresses; False with Python's error."""
    scalar = f.variable(PTR, scalars)
    with _each(f, table.at(table[GIVEN]), table[GIVES], places, results) as (like, place, result):
        how = like[HOW]
        result.value = f.null()
        with f.if_(how.equals(NUMBER)):
            # NumPy's scalars are made at the end, from a value: until then it needs memory only
            place.value = scalar.value
            scalar.value = scalar.value.at(SCALAR_BYTES)
        with f.if_(how.equals(ARRAY)):
            array = new_array(f, like[KIND], like[AXES].resized(I32), like.at(ROW_BYTES))
            with f.if_(array.is_null()):
                # whoever abandons the call gives back those that were made
                result.fill(0, results.at(table[RESULTS] * 8).as_number() - result.as_number())
                f.leave(f.flag(False))
            result.value, place.value = array, array[DATA]
    return f.flag(True)


@DOOR.routine
def collect(f: Builder, table: Pointer, args: Pointer, places: Pointer, results: Pointer) -> Flag:
    """Scalars, arrays whose shape is known by now, and results that are there already; False with Python's error."""
    with _each(f, table.at(table[GIVEN]), table[GIVES], places, results) as (like, place, result):
        how, which = like[HOW], like[WHICH]
        with f.if_(how.equals(NUMBER)):
            result.value = array_scalar(f, place.value, like[KIND], None)
        with f.if_(how.equals(TOLD_LATER)):
            result.value = new_array_with(f, like[KIND], like[AXES].resized(I32), place.at(1), place.value, which)
        for there, things in ((ARGUMENT, args), (RESULT, results)):
            with f.if_(how.equals(there)):
                result.value = known = things.to(PTR)[which]
                # the caller gets a reference of his own, also of what he gave
                incref(f, known)
        _or_false(f, ~result.value.is_null())
    return f.flag(True)


@DOOR.routine
def gt_call(f: Builder, self: Pointer, args: Pointer, count: Whole, table: Pointer, memory: Pointer) -> Pointer:
    """A call of a program: the tuple of its results; None where arguments are not as expected, a number where it failed."""
    # on the stack, as the memory is: calls may nest and run in several threads
    context = f.array(I64, allocator.CONTEXT_WORDS).to(I8)
    places, results, number = memory.at(table[PLACES]), memory.at(table[OBJECTS]), table[RESULTS]
    kept, hearing, held = table[KEPT], table[LISTENED], f.variable(PTR, f.null())
    context[FIRST], context[CALLS], context[TABLE], context[OWNED] = f.null(), self, f.null(), f.null()

    def expect(flag: Flag) -> None:
        """Go on, or leave with the error that Python has set."""
        with f.if_(~flag):
            f.leave(abandon(f, context, results, number))

    def unless_unusual(flag: Flag) -> None:
        # Not an error: whatever is unusual is run by the slower way, which has the words for errors.
        f.leave_if(~flag, unusual)

    unless_unusual(count.equals(table[PARAMS]))
    unless_unusual(take(f, table, args, memory))
    expect(prepare(f, table, places, results, memory.at(table[SCALARS])))
    with f.if_(~kept.is_null()):
        held.value = own_frame(f, kept, table[FRAME_BYTES])
        expect(~held.value.is_null())
    # floating-point flags are sticky: cleared before, read after, which costs less than looking at results
    listen(f, hearing)
    # giving the interpreter lock away and taking it back costs as much as a small program
    releases, thread = table[RELEASES].differs(0), f.variable(PTR, f.null())
    with f.if_(releases):
        thread.value = save_thread(f)
    status = f.call(table[PROGRAM].register, I32, [PTR] * 4, [context, memory, places, held.value])
    with f.if_(releases):
        restore_thread(f, thread.value)
    heard = is_heard(f, hearing)
    with f.if_(~context[OWNED].is_null()):  # what callbacks left to this call
        decref(f, context[OWNED])
    with f.if_(~kept.is_null()):
        gt_give_frame(f, kept, held.value)
    with f.if_(status.differs(0)):
        f.leave(failed(f, context, results, number, status))
    expect(collect(f, table, args, places, results))
    answer = answered(f, context, results, number)
    with f.if_(heard & ~answer.is_null()):
        f.leave(tell(f, hearing, answer, args, count, memory.at(table[TOLD])))
    return answer
