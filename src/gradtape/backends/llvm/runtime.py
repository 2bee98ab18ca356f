"""Helpers that native code calls: memory of sizes that only run time knows, and whether Ctrl-C was pressed.

Blocks of memory are linked from the context (its first word), so that whatever way a call ends, all of it can be freed.
A block has a header of 64 bytes: the block before, the block after, and 0 for a block of its own. Small blocks are parts of
chunks, which are such blocks, and have their size there; released ones wait in a list for each size.

Large blocks that are freed are kept for the next call, a few of them in the whole process: the system would take them back
and have them cleared page by page, which takes longer than to use them. Threads take and give them by atomic exchanges.
"""

from __future__ import annotations

import ctypes
from typing import Any

from gradtape.backends.llvm import outside
from gradtape.backends.llvm.support import Part

HEADER = ALIGN = 64
SMALL = 4096 + HEADER  # bytes of a block, with its header, that is cut from a chunk
HEADS = (SMALL // ALIGN + 1 + 7) // 8 * 64  # bytes of the table of released small blocks: a word for each size
CHUNK, LARGEST = 1 << 15, 1 << 20  # bytes of the first chunk and of the last ones
TABLE = 2  # words of the context: that table, where the chunk goes on, the bytes left in it, the size of the next one
KEPT_BLOCKS = 16  # at most, which are freed and kept
KEPT_LEAST, KEPT_BYTES = 1 << 16, 1 << 26  # bytes of a block that is kept, at least; of all of them together, at most
INTERRUPTED = -2  # the status of a call that Ctrl-C ended; Python's exception is set
NO_MEMORY = -3
CALLBACK_FAILED = -1  # an exception was raised by Python code that native code called

# gt_kept: addresses of kept blocks, or 0; then how many bytes they have
_MEMORY = f"""
@gt_kept = global [{KEPT_BLOCKS + 1} x i64] zeroinitializer, align 64
@gt_poison = global i8 0

declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

define internal void @gt_free_block(ptr %block) nounwind noinline {{
start:
  %mark = getelementptr i8, ptr %block, i64 24
  %size = load i64, ptr %mark
  %over = sub i64 %size, {KEPT_LEAST}
  %kind = icmp ule i64 %over, {KEPT_BYTES - KEPT_LEAST}
  br i1 %kind, label %keep, label %free
keep:
  %address = ptrtoint ptr %block to i64
  %total = getelementptr i64, ptr @gt_kept, i64 {KEPT_BLOCKS}
  %before = atomicrmw add ptr %total, i64 %size acq_rel
  br label %look
look:
  %i = phi i64 [ 0, %keep ], [ %next, %on ]
  %slot = getelementptr i64, ptr @gt_kept, i64 %i
  %now = load atomic i64, ptr %total monotonic, align 8
  %many = icmp ugt i64 %now, {KEPT_BYTES}
  br i1 %many, label %clear, label %put
clear:
  %old = atomicrmw xchg ptr %slot, i64 0 acq_rel
  call void @gt_free_kept(i64 %old)
  br label %on
put:
  %pair = cmpxchg ptr %slot, i64 0, i64 %address acq_rel acquire
  %done = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %done, label %end, label %on
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {KEPT_BLOCKS}
  br i1 %more, label %look, label %replace
replace:
  %mixed = lshr i64 %address, 16
  %chosen = urem i64 %mixed, {KEPT_BLOCKS}
  %place = getelementptr i64, ptr @gt_kept, i64 %chosen
  %other = atomicrmw xchg ptr %place, i64 %address acq_rel
  call void @gt_free_kept(i64 %other)
  br label %end
free:
  call void @free(ptr %block)
  br label %end
end:
  ret void
}}
define internal void @gt_free_kept(i64 %address) nounwind noinline {{
  %none = icmp eq i64 %address, 0
  br i1 %none, label %end, label %free
free:
  %block = inttoptr i64 %address to ptr
  %mark = getelementptr i8, ptr %block, i64 24
  %size = load i64, ptr %mark
  %total = getelementptr i64, ptr @gt_kept, i64 {KEPT_BLOCKS}
  %before = atomicrmw sub ptr %total, i64 %size acq_rel
  call void @free(ptr %block)
  br label %end
end:
  ret void
}}
define internal ptr @gt_kept_block(i64 %bytes) nounwind noinline {{
start:
  %large = icmp uge i64 %bytes, {KEPT_LEAST}
  br i1 %large, label %look, label %nothing
look:
  %i = phi i64 [ 0, %start ], [ %next, %on ]
  %slot = getelementptr i64, ptr @gt_kept, i64 %i
  %seen = load atomic i64, ptr %slot monotonic, align 8
  %empty = icmp eq i64 %seen, 0
  br i1 %empty, label %on, label %take
take:
  %found = atomicrmw xchg ptr %slot, i64 0 acq_rel
  %gone = icmp eq i64 %found, 0
  br i1 %gone, label %on, label %mine
mine:
  %block = inttoptr i64 %found to ptr
  %mark = getelementptr i8, ptr %block, i64 24
  %size = load i64, ptr %mark
  %total = getelementptr i64, ptr @gt_kept, i64 {KEPT_BLOCKS}
  %rest = atomicrmw sub ptr %total, i64 %size acq_rel
  %enough = icmp uge i64 %size, %bytes
  %twice = shl i64 %bytes, 1
  %near = icmp ule i64 %size, %twice
  %fits = and i1 %enough, %near
  br i1 %fits, label %good, label %back
good:
  ret ptr %block
back:
  call void @gt_free_block(ptr %block)
  br label %on
on:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {KEPT_BLOCKS}
  br i1 %more, label %look, label %nothing
nothing:
  ret ptr null
}}

define internal ptr @gt_allocate_whole(ptr %context, i64 %bytes) nounwind noinline {{
start:
  %whole = add i64 %bytes, 191
  %rounded = and i64 %whole, -64
  %kept = call ptr @gt_kept_block(i64 %rounded)
  %none.kept = icmp eq ptr %kept, null
  br i1 %none.kept, label %ask, label %fine
ask:
  %new = call ptr @aligned_alloc(i64 64, i64 %rounded)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %sized
nothing:
  ret ptr null
sized:
  %size = getelementptr i8, ptr %new, i64 24
  store i64 %rounded, ptr %size
  br label %fine
fine:
  %block = phi ptr [ %kept, %start ], [ %new, %sized ]
  %first = load ptr, ptr %context
  store ptr null, ptr %block
  %next = getelementptr i8, ptr %block, i64 8
  store ptr %first, ptr %next
  %mark = getelementptr i8, ptr %block, i64 16
  store i64 0, ptr %mark
  store ptr %block, ptr %context
  %none = icmp eq ptr %first, null
  br i1 %none, label %done, label %link
link:
  store ptr %block, ptr %first
  br label %done
done:
  %data = getelementptr i8, ptr %block, i64 64
  ret ptr %data
}}

define ptr @gt_allocate(ptr %context, i64 %bytes) nounwind noinline {{
  %more = add i64 %bytes, {HEADER + ALIGN - 1}
  %rounded = and i64 %more, -{ALIGN}
  %small = icmp ule i64 %rounded, {SMALL}
  br i1 %small, label %look, label %large
large:
  %alone = call ptr @gt_allocate_whole(ptr %context, i64 %bytes)
  ret ptr %alone
look:
  %kind = lshr i64 %rounded, 6
  %place = getelementptr i64, ptr %context, i64 {TABLE}
  %table = load ptr, ptr %place
  %none = icmp eq ptr %table, null
  br i1 %none, label %new, label %known
known:
  %slot = getelementptr i64, ptr %table, i64 %kind
  %free = load ptr, ptr %slot
  %empty = icmp eq ptr %free, null
  br i1 %empty, label %cut, label %again
again:
  %link = getelementptr i8, ptr %free, i64 8
  %next = load ptr, ptr %link
  store ptr %next, ptr %slot
  %old = getelementptr i8, ptr %free, i64 {HEADER}
  ret ptr %old
cut:
  %at.place = getelementptr i64, ptr %context, i64 {TABLE + 1}
  %at = load ptr, ptr %at.place
  %left.place = getelementptr i64, ptr %context, i64 {TABLE + 2}
  %left = load i64, ptr %left.place
  %fits = icmp ule i64 %rounded, %left
  br i1 %fits, label %take, label %new
take:
  %after = getelementptr i8, ptr %at, i64 %rounded
  store ptr %after, ptr %at.place
  %rest = sub i64 %left, %rounded
  store i64 %rest, ptr %left.place
  %mark = getelementptr i8, ptr %at, i64 16
  store i64 %kind, ptr %mark
  %data = getelementptr i8, ptr %at, i64 {HEADER}
  ret ptr %data
new:
  %done = call i1 @gt_new_chunk(ptr %context)
  br i1 %done, label %look, label %nothing
nothing:
  ret ptr null
}}
define internal i1 @gt_new_chunk(ptr %context) nounwind noinline {{
  %table.place = getelementptr i64, ptr %context, i64 {TABLE}
  %table = load ptr, ptr %table.place
  %first = icmp eq ptr %table, null
  %size.place = getelementptr i64, ptr %context, i64 {TABLE + 3}
  %known = load i64, ptr %size.place
  %size = select i1 %first, i64 {CHUNK}, i64 %known
  %chunk = call ptr @gt_allocate_whole(ptr %context, i64 %size)
  %failed = icmp eq ptr %chunk, null
  br i1 %failed, label %nothing, label %fine
nothing:
  ret i1 false
fine:
  %double = shl i64 %size, 1
  %bounded = call i64 @llvm.umin.i64(i64 %double, i64 {LARGEST})
  store i64 %bounded, ptr %size.place
  br i1 %first, label %begin, label %set
begin:
  call void @llvm.memset.p0.i64(ptr %chunk, i8 0, i64 {HEADS}, i1 false)
  store ptr %chunk, ptr %table.place
  br label %set
set:
  %used = select i1 %first, i64 {HEADS}, i64 0
  %at = getelementptr i8, ptr %chunk, i64 %used
  %at.place = getelementptr i64, ptr %context, i64 {TABLE + 1}
  store ptr %at, ptr %at.place
  %left = sub i64 %size, %used
  %left.place = getelementptr i64, ptr %context, i64 {TABLE + 2}
  store i64 %left, ptr %left.place
  ret i1 true
}}

define void @gt_release(ptr %context, ptr %data) nounwind noinline {{
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %done, label %some
some:
  %block = getelementptr i8, ptr %data, i64 -{HEADER}
  %mark = getelementptr i8, ptr %block, i64 16
  %kind = load i64, ptr %mark
  %place = getelementptr i8, ptr %block, i64 8
  %small = icmp ne i64 %kind, 0
  br i1 %small, label %keep, label %large
keep:
  %poison = load i8, ptr @gt_poison
  %poisoned = icmp ne i8 %poison, 0
  br i1 %poisoned, label %spoil, label %list
spoil:
  %all = shl i64 %kind, 6
  %own = sub i64 %all, {HEADER}
  call void @llvm.memset.p0.i64(ptr %data, i8 -1, i64 %own, i1 false)
  br label %list
list:
  %table.place = getelementptr i64, ptr %context, i64 {TABLE}
  %table = load ptr, ptr %table.place
  %head = getelementptr i64, ptr %table, i64 %kind
  %others = load ptr, ptr %head
  store ptr %others, ptr %place
  store ptr %block, ptr %head
  br label %done
large:
  %before = load ptr, ptr %block
  %after = load ptr, ptr %place
  %is_first = icmp eq ptr %before, null
  br i1 %is_first, label %head_of_all, label %middle
head_of_all:
  store ptr %after, ptr %context
  br label %back
middle:
  %slot = getelementptr i8, ptr %before, i64 8
  store ptr %after, ptr %slot
  br label %back
back:
  %is_last = icmp eq ptr %after, null
  br i1 %is_last, label %free, label %link
link:
  store ptr %before, ptr %after
  br label %free
free:
  call void @gt_free_block(ptr %block)
  br label %done
done:
  ret void
}}

define void @gt_cleanup(ptr %context) nounwind {{
  br label %loop
loop:
  %block = load ptr, ptr %context
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %next
next:
  %place = getelementptr i8, ptr %block, i64 8
  %after = load ptr, ptr %place
  store ptr %after, ptr %context
  call void @gt_free_block(ptr %block)
  br label %loop
done:
  ret void
}}
"""

_HELPERS = """
declare ptr @gt_allocate(ptr, i64)
declare void @gt_release(ptr, ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()

define ptr @gt_grown(ptr %context, ptr %old, i64 %used, i64 %capacity, i64 %wanted) nounwind noinline {
  %new = call ptr @gt_allocate(ptr %context, i64 %wanted)
  %failed = icmp eq ptr %new, null
  %had = or i64 %used, %capacity
  %empty = icmp eq i64 %had, 0
  %over = or i1 %failed, %empty
  br i1 %over, label %done, label %fine
fine:
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %used, i1 false)
  %own = icmp sgt i64 %capacity, 0
  br i1 %own, label %give, label %done
give:
  call void @gt_release(ptr %context, ptr %old)
  br label %done
done:
  ret ptr %new
}

define i32 @gt_poll() nounwind noinline cold {
  %state = call i32 @PyGILState_Ensure()
  %found = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  ret i32 %found
}
"""

MEMORY = Part(_MEMORY, {"gt_allocate": "ptr (ptr, i64)", "gt_release": "void (ptr, ptr)", "gt_cleanup": "void (ptr)"})


def _before_helpers() -> None:
    MEMORY.load()
    outside.symbols()


_OTHERS = Part(_HELPERS, {"gt_grown": "ptr (ptr, ptr, i64, i64, i64)", "gt_poll": "i32 ()"}, _before_helpers)


def allocate(module: Any) -> str:
    """ptr (context, bytes): small blocks are cut from chunks, or are ones of that size that were released."""
    return MEMORY.use(module, "gt_allocate")


def release(module: Any) -> str:
    """void (context, address); null is allowed"""
    return MEMORY.use(module, "gt_release")


def grown(module: Any) -> str:
    """ptr (context, old, used bytes, capacity, wanted bytes): more memory with the same items, the old freed if owned."""
    return _OTHERS.use(module, "gt_grown")


def poll(module: Any) -> str:
    """i32 (): whether a signal handler raised; it is asked with the GIL."""
    return _OTHERS.use(module, "gt_poll")


def poison(on: bool) -> None:
    """For tests: whether released small blocks are overwritten, so that reading them shows."""
    ctypes.c_int8.from_address(MEMORY.load().address("gt_poison")).value = on
