"""Helpers that native code calls, written once per module: memory of sizes that only run time knows.

Blocks of memory are linked from the context (its first word), so that whatever way a call ends, all of it can be freed.
A block has a header of 64 bytes: the block before, the block after.
"""

from __future__ import annotations

from typing import Any

HEADER = 64
INTERRUPTED = -2  # the status of a call that Ctrl-C ended; Python's exception is set
NO_MEMORY = -3
CALLBACK_FAILED = -1  # an exception was raised by Python code that native code called


def _module(program: Any) -> Any:
    return program.module if hasattr(program, "module") else program


def allocate(program: Any) -> str:
    """ptr (context, bytes)"""
    module = _module(program)
    module.declare("aligned_alloc", "ptr (i64, i64)")
    return module.library(
        "gt.allocate",
        lambda: (
            """define internal ptr @gt.allocate(ptr %context, i64 %bytes) nounwind noinline {
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


def release(program: Any) -> str:
    """void (context, address); null is allowed"""
    module = _module(program)
    module.declare("free", "void (ptr)")
    return module.library(
        "gt.release",
        lambda: (
            """define internal void @gt.release(ptr %context, ptr %data) nounwind noinline {
  %nothing = icmp eq ptr %data, null
  br i1 %nothing, label %done, label %some
some:
  %block = getelementptr i8, ptr %data, i64 -64
  %before = load ptr, ptr %block
  %place = getelementptr i8, ptr %block, i64 8
  %after = load ptr, ptr %place
  %is_first = icmp eq ptr %before, null
  br i1 %is_first, label %head, label %middle
head:
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
}"""
        ),
    )


def grow(program: Any) -> str:
    """i1 (context, list, item bytes): room for one more item, false if there is none; a list is {address, length, capacity}"""
    module = _module(program)
    allocate(program)
    release(program)
    return module.library(
        "gt.grow",
        lambda: (
            """define internal i1 @gt.grow(ptr %context, ptr %list, i64 %item) nounwind noinline {
  %old = load ptr, ptr %list
  %place1 = getelementptr i8, ptr %list, i64 8
  %length = load i64, ptr %place1
  %place2 = getelementptr i8, ptr %list, i64 16
  %double = shl i64 %length, 1
  %wanted = call i64 @llvm.umax.i64(i64 %double, i64 16)
  %bytes = mul i64 %wanted, %item
  %new = call ptr @gt.allocate(ptr %context, i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %fine
nothing:
  ret i1 false
fine:
  %used = mul i64 %length, %item
  call void @llvm.memcpy.p0.p0.i64(ptr %new, ptr %old, i64 %used, i1 false)
  %capacity = load i64, ptr %place2
  %own = icmp sgt i64 %capacity, 0
  br i1 %own, label %give, label %done
give:
  call void @gt.release(ptr %context, ptr %old)
  br label %done
done:
  store ptr %new, ptr %list
  store i64 %wanted, ptr %place2
  ret i1 true
}"""
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
