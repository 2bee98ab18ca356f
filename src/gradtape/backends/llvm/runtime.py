"""Helpers that native code calls, written once per module: memory of sizes that only run time knows.

Blocks of memory are linked from the context (its first word), so that whatever way a call ends, all of it can be freed.
A block has a header of 64 bytes: the block before, the block after, and 0 for a block of its own. Small blocks are parts of
chunks, which are such blocks, and have their size there; released ones wait in a list for each size.
"""

from __future__ import annotations

from typing import Any

HEADER = ALIGN = 64
SMALL = 4096 + HEADER  # bytes of a block, with its header, that is cut from a chunk
HEADS = (SMALL // ALIGN + 1 + 7) // 8 * 64  # bytes of the table of released small blocks: a word for each size
CHUNK, LARGEST = 1 << 15, 1 << 20  # bytes of the first chunk and of the last ones
TABLE = 2  # words of the context: that table, where the chunk goes on, the bytes left in it, the size of the next one
POISON = False  # for tests: released blocks are overwritten
INTERRUPTED = -2  # the status of a call that Ctrl-C ended; Python's exception is set
NO_MEMORY = -3
CALLBACK_FAILED = -1  # an exception was raised by Python code that native code called


def _module(program: Any) -> Any:
    return program.module if hasattr(program, "module") else program


def allocate(program: Any) -> str:
    """ptr (context, bytes): small blocks are cut from chunks, or are ones of that size that were released."""
    module = _module(program)
    _whole(module)
    return module.library(
        "gt.allocate",
        lambda: (
            f"""define internal ptr @gt.allocate(ptr %context, i64 %bytes) nounwind noinline {{
  %more = add i64 %bytes, {HEADER + ALIGN - 1}
  %rounded = and i64 %more, -{ALIGN}
  %small = icmp ule i64 %rounded, {SMALL}
  br i1 %small, label %look, label %large
large:
  %alone = call ptr @gt.allocate_whole(ptr %context, i64 %bytes)
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
  %done = call i1 @gt.new_chunk(ptr %context)
  br i1 %done, label %look, label %nothing
nothing:
  ret ptr null
}}
define internal i1 @gt.new_chunk(ptr %context) nounwind noinline {{
  %table.place = getelementptr i64, ptr %context, i64 {TABLE}
  %table = load ptr, ptr %table.place
  %first = icmp eq ptr %table, null
  %size.place = getelementptr i64, ptr %context, i64 {TABLE + 3}
  %known = load i64, ptr %size.place
  %size = select i1 %first, i64 {CHUNK}, i64 %known
  %chunk = call ptr @gt.allocate_whole(ptr %context, i64 %size)
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
}}"""
        ),
    )


def _whole(module: Any) -> None:
    """ptr (context, bytes): a block of its own from the system."""
    module.declare("aligned_alloc", "ptr (i64, i64)")
    module.library(
        "gt.allocate_whole",
        lambda: (
            """define internal ptr @gt.allocate_whole(ptr %context, i64 %bytes) nounwind noinline {
  %whole = add i64 %bytes, 191
  %rounded = and i64 %whole, -64
  %block = call ptr @aligned_alloc(i64 64, i64 %rounded)
  %failed = icmp eq ptr %block, null
  br i1 %failed, label %nothing, label %fine
nothing:
  ret ptr null
fine:
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
}"""
        ),
    )


def _poisoned() -> str:
    """What makes reading a released block show."""
    return f"""  %all = shl i64 %kind, 6
  %own = sub i64 %all, {HEADER}
  call void @llvm.memset.p0.i64(ptr %data, i8 -1, i64 %own, i1 false)
"""


def release(program: Any) -> str:
    """void (context, address); null is allowed"""
    module = _module(program)
    module.declare("free", "void (ptr)")
    return module.library(
        "gt.release",
        lambda: (
            f"""define internal void @gt.release(ptr %context, ptr %data) nounwind noinline {{
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
{_poisoned() if POISON else ""}  %table.place = getelementptr i64, ptr %context, i64 {TABLE}
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
  call void @free(ptr %block)
  br label %done
done:
  ret void
}}"""
        ),
    )


def cleanup(program: Any) -> str:
    """void (context): frees every block"""
    module = _module(program)
    module.declare("free", "void (ptr)")
    return module.library(
        "gt_cleanup",
        lambda: (
            """define void @gt_cleanup(ptr %context) nounwind {
  br label %loop
loop:
  %block = load ptr, ptr %context
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %next
next:
  %place = getelementptr i8, ptr %block, i64 8
  %after = load ptr, ptr %place
  store ptr %after, ptr %context
  call void @free(ptr %block)
  br label %loop
done:
  ret void
}"""
        ),
    )


def poll(program: Any) -> str:
    """i32 (): whether a signal handler raised; it is asked with the GIL."""
    module = _module(program)
    module.declare("PyGILState_Ensure", "i32 ()")
    module.declare("PyGILState_Release", "void (i32)")
    module.declare("PyErr_CheckSignals", "i32 ()")
    return module.library(
        "gt.poll",
        lambda: (
            """define internal i32 @gt.poll() nounwind noinline cold {
  %state = call i32 @PyGILState_Ensure()
  %found = call i32 @PyErr_CheckSignals()
  call void @PyGILState_Release(i32 %state)
  ret i32 %found
}"""
        ),
    )
