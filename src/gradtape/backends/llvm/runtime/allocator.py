"""Helpers that native code calls: memory of sizes that only run time knows, and whether Ctrl-C was pressed.

Blocks of memory are linked from the context, so that whatever way a call ends, all of it can be freed. A block has a header of
64 bytes. Small blocks are cut from chunks, which are blocks too; released ones wait in a list for each size.

Large blocks that are freed are kept for the next call, a few of them in the whole process: the system would take them back
and have them cleared page by page, which takes longer than to use them. Threads take and give them by atomic exchanges. The
data of large results is such a block too: NumPy gives it back when nobody has the array any more (its NEP 49).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any, ClassVar

from gradtape.backends.llvm.runtime import symbols as outside
from gradtape.backends.llvm.runtime.support import Part
from gradtape.backends.llvm.writing.algebra import I8, I32, I64, Flag, Whole, select
from gradtape.backends.llvm.writing.builder import PTR, VOID, Builder, Int32, Member, Pointer, external
from gradtape.backends.llvm.writing.ir_text import ModuleText

HEADER = ALIGN = 64
SMALL = 4096 + HEADER  # bytes of a block, with its header, that is cut from a chunk
HEADS = (SMALL // ALIGN + 1 + 7) // 8 * 64  # bytes of the table of released small blocks: a word for each size
CHUNK, LARGEST = 1 << 15, 1 << 20  # bytes of the first chunk and of the last ones
KEPT_BLOCKS = 16  # at most, which are freed and kept
KEPT_LEAST, KEPT_BYTES = 1 << 16, 1 << 26  # bytes of a block that is kept, at least; of all of them together, at most
INTERRUPTED = -2  # the status of a call that Ctrl-C ended; Python's exception is set
NO_MEMORY = -3
CALLBACK_FAILED = -1  # an exception was raised by Python code that native code called

# the context of a call
FIRST = Member(0, PTR)  # the newest block
CALLS = Member(8, PTR)  # Python's object behind the program, for callbacks
TABLE = Member(16, PTR)  # the released small blocks of each size; null before the first chunk
CHUNK_REST = Member(24, PTR)  # where the newest chunk goes on
CHUNK_LEFT = Member(32, I64)  # bytes left in it
NEXT_CHUNK = Member(40, I64)  # bytes of the one after it
OWNED = Member(48, PTR)  # a list of what callbacks left to the call, which lives as long as it does; or null
CONTEXT_WORDS = 8
# the header of a block
NEWER = Member(0, PTR)
OLDER = Member(8, PTR)  # or the next released block of the same size
SIZE_CLASS = Member(16, I64)  # the size of a small block in units of ALIGN; 0 for a block of its own
BYTES = Member(24, I64)  # of a block of its own, with its header

MEMORY = Part(__name__)
HELPERS = Part(__name__)

kept_blocks = MEMORY.variable("gt_kept", PTR, count=KEPT_BLOCKS + 1)  # and how many bytes they have
poisoned = MEMORY.variable("gt_poison", I8)
aligned_alloc = external("aligned_alloc", PTR, I64, I64)
free = external("free", VOID, PTR)
ensure_gil = outside.python("PyGILState_Ensure", I32)
release_gil = outside.python("PyGILState_Release", VOID, I32)
check_signals = outside.python("PyErr_CheckSignals", I32)


def kept_bytes(f: Builder) -> Pointer[Whole]:
    return kept_blocks(f).at(KEPT_BLOCKS).to(I64)


# -- blocks that are kept


@MEMORY.routine
def free_kept(f: Builder, block: Pointer) -> None:
    """Free what was taken from a place of kept blocks, if it is a block."""
    f.leave_if(block.is_null())
    kept_bytes(f).fetch("sub", block[BYTES])
    free(f, block)


@MEMORY.routine
def free_block(f: Builder, block: Pointer) -> None:
    """Keep a large block, free any other."""
    size = block[BYTES]
    with f.if_((size < KEPT_LEAST) | (size > KEPT_BYTES)):
        free(f, block)
        f.leave()
    kept_bytes(f).fetch("add", size)
    with f.loop(KEPT_BLOCKS) as i:
        place = kept_blocks(f).at(i)
        # while there are too many bytes, what others have kept goes, and this one looks for a place further on
        with f.if_else(kept_bytes(f).atomic > KEPT_BYTES) as (too_many, room):
            with too_many:
                free_kept(f, place.fetch("xchg", 0))
            with room, f.if_(place.compare_exchange(0, block)):
                f.leave()
    # all places are taken: one that its address chooses
    place = kept_blocks(f).at((block.as_number() >> 16) % KEPT_BLOCKS)
    free_kept(f, place.fetch("xchg", block))


@MEMORY.routine
def kept_block(f: Builder, bytes: Whole) -> Pointer:
    """A kept block of at least so many bytes and at most twice as many, or null."""
    f.leave_if(bytes < KEPT_LEAST, f.null())
    with f.loop(KEPT_BLOCKS) as i:
        place = kept_blocks(f).at(i)
        with f.if_(~place.atomic.is_null()):  # to look first is cheaper than to take
            block = place.fetch("xchg", 0)
            with f.if_(~block.is_null()):
                size = block[BYTES]
                kept_bytes(f).fetch("sub", size)
                f.leave_if((size >= bytes) & (size <= bytes << 1), block)
                free_block(f, block)
    return f.null()


def _block(f: Builder, size: Whole) -> Pointer:
    """A block that was kept, or a new one; without memory the routine that asks ends with null."""
    block = f.variable(PTR, kept_block(f, size))
    with f.if_(block.value.is_null()):
        block.value = aligned_alloc(f, ALIGN, size)
        f.leave_if(block.value.is_null(), f.null())
        block.value[BYTES] = size
    return block.value


# -- blocks of a call


@MEMORY.routine
def allocate_whole(f: Builder, context: Pointer, bytes: Whole) -> Pointer:
    """A block of its own, the first of the list; null if there is no memory."""
    new, first = _block(f, (bytes + (HEADER + 2 * ALIGN - 1)) & -ALIGN), context[FIRST]
    new[NEWER] = 0
    new[OLDER] = first
    new[SIZE_CLASS] = 0
    context[FIRST] = new
    with f.if_(~first.is_null()):
        first[NEWER] = new
    return new.at(HEADER)


@MEMORY.routine
def new_chunk(f: Builder, context: Pointer) -> Flag:
    """A chunk to cut small blocks from; the first one begins with the table. Whether there was memory."""
    is_first = context[TABLE].is_null()
    size = select(is_first, f.number(CHUNK), context[NEXT_CHUNK])
    chunk = allocate_whole(f, context, size)
    f.leave_if(chunk.is_null(), f.flag(False))
    context[NEXT_CHUNK] = (size << 1).at_most(LARGEST)
    with f.if_(is_first):
        chunk.fill(0, HEADS)
        context[TABLE] = chunk
    used = select(is_first, f.number(HEADS), 0)
    context[CHUNK_REST] = chunk.at(used)
    context[CHUNK_LEFT] = size - used
    return f.flag(True)


@MEMORY.routine
def gt_allocate(f: Builder, context: Pointer, bytes: Whole) -> Pointer:
    """Memory of a call: small blocks are cut from chunks, or are ones of that size that were released."""
    size = (bytes + (HEADER + ALIGN - 1)) & -ALIGN
    with f.if_(size > SMALL):
        f.leave(allocate_whole(f, context, bytes))
    size_class = size >> 6
    with f.forever():
        table = context[TABLE]
        with f.if_(~table.is_null()):
            released = table.to(PTR).at(size_class)
            block = released.value
            with f.if_(~block.is_null()):
                released.value = block[OLDER]
                f.leave(block.at(HEADER))
            left = context[CHUNK_LEFT]
            with f.if_(size <= left):
                cut = context[CHUNK_REST]
                context[CHUNK_REST] = cut.at(size)
                context[CHUNK_LEFT] = left - size
                cut[SIZE_CLASS] = size_class
                f.leave(cut.at(HEADER))
        f.leave_if(~new_chunk(f, context), f.null())
    return f.null()


@MEMORY.routine
def gt_release(f: Builder, context: Pointer, data: Pointer) -> None:
    """Give memory back before the call ends; null is allowed."""
    f.leave_if(data.is_null())
    block = data.at(-HEADER)
    size_class = block[SIZE_CLASS]
    with f.if_(size_class.differs(0)):
        with f.if_(poisoned(f).value.differs(0)):
            data.fill(-1, (size_class << 6) - HEADER)
        released = context[TABLE].to(PTR).at(size_class)
        block[OLDER] = released.value
        released.value = block
        f.leave()
    newer, older = block[NEWER], block[OLDER]
    with f.if_else(newer.is_null()) as (newest, among):
        with newest:
            context[FIRST] = older
        with among:
            newer[OLDER] = older
    with f.if_(~older.is_null()):
        older[NEWER] = newer
    free_block(f, block)


@MEMORY.routine
def gt_cleanup(f: Builder, context: Pointer) -> None:
    """Free all blocks of a call."""
    with f.forever() as blocks:
        block = context[FIRST]
        blocks.leave_if(block.is_null())
        context[FIRST] = block[OLDER]
        free_block(f, block)


# -- the data of results: NumPy's arrays own it, and ask here as they ask `malloc` and its like


@MEMORY.routine
def gt_data_new(f: Builder, ignored: Pointer, bytes: Whole) -> Pointer:
    """Memory for an array, that of an earlier one if some is kept; null if there is none."""
    return _block(f, (bytes + (HEADER + ALIGN - 1)) & -ALIGN).at(HEADER)


@MEMORY.routine
def gt_data_cleared(f: Builder, ignored: Pointer, count: Whole, item: Whole) -> Pointer:
    """The same, with zeros."""
    data = gt_data_new(f, ignored, count * item)
    with f.if_(~data.is_null()):
        data.fill(0, count * item)
    return data


@MEMORY.routine
def gt_data_free(f: Builder, ignored: Pointer, data: Pointer, bytes: Whole) -> None:
    """An array has no more use for its memory; null is allowed."""
    with f.if_(~data.is_null()):
        free_block(f, data.at(-HEADER))


@MEMORY.routine
def gt_data_resized(f: Builder, ignored: Pointer, data: Pointer, bytes: Whole) -> Pointer:
    """More or less memory with the same first bytes; null if there is none, and the old memory stays."""
    new = gt_data_new(f, ignored, bytes)
    with f.if_(~new.is_null() & ~data.is_null()):
        new.copy_from(data, (data.at(-HEADER)[BYTES] - HEADER).at_most(bytes))
        free_block(f, data.at(-HEADER))
    return new


@functools.cache
def data_handler() -> Any:
    """These four as NumPy takes them: a capsule around a name, a version and the functions."""

    class Handler(ctypes.Structure):
        _fields_: ClassVar = [("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("functions", ctypes.c_void_p * 5)]

    address = MEMORY.load().address
    names = ("gt_data_new", "gt_data_cleared", "gt_data_resized", "gt_data_free")
    handler = Handler(b"gradtape", 1, (None, *[address(name) for name in names]))
    _KEPT.append(handler)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(handler), b"mem_handler", None)


_KEPT: list[Any] = []  # what a capsule points to


# -- helpers: apart from the allocator, which tests replace by one that guards each block


@HELPERS.routine
def gt_grown(f: Builder, context: Pointer, old: Pointer, used: Whole, capacity: Whole, wanted: Whole) -> Pointer:
    """More memory with the same first bytes; the old is released if it is owned, which its capacity says."""
    new = gt_allocate(f, context, wanted)
    with f.if_(~new.is_null() & (used | capacity).differs(0)):
        new.copy_from(old, used)
        with f.if_(capacity > 0):
            gt_release(f, context, old)
    return new


@HELPERS.routine
def gt_poll(f: Builder) -> Int32:
    """Whether a signal handler raised; it is asked with the GIL."""
    state = ensure_gil(f)
    raised = check_signals(f)
    release_gil(f, state)
    return raised


def allocate(module: ModuleText) -> str:
    """ptr (context, bytes): see `gt_allocate`."""
    return MEMORY.use(module, "gt_allocate")


def release(module: ModuleText) -> str:
    """void (context, address): see `gt_release`."""
    return MEMORY.use(module, "gt_release")


def grown(module: ModuleText) -> str:
    """ptr (context, old, used bytes, capacity, wanted bytes): see `gt_grown`."""
    return HELPERS.use(module, "gt_grown")


def poll(module: ModuleText) -> str:
    """i32 (): see `gt_poll`."""
    return HELPERS.use(module, "gt_poll")


def poison(on: bool) -> None:
    """For tests: whether released small blocks are overwritten, so that reading them shows."""
    ctypes.c_int8.from_address(MEMORY.load().address("gt_poison")).value = on
