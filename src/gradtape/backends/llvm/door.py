"""What the entries of all programs do in the same way: look at arrays, make them, give answers, say what failed.

`made` is an entry's list of objects that it has made for its caller, null where it has not yet.
"""

from __future__ import annotations

from gradtape.backends.llvm import outside, runtime
from gradtape.backends.llvm.outside import DATA, DESCR, DIMS, FLAGS, PLAIN, RANK, TYPE
from gradtape.backends.llvm.support import Part

ANY = -1  # a size that is not known before the call

_TEXT = f"""
@gt_ndarray = external global i8
declare void @gt_cleanup(ptr)
declare ptr @gt_array_empty(i32, ptr, ptr, i32)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyErr_NoMemory()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)

define i1 @gt_fits(ptr %array, ptr %descr, i32 %rank, ptr %shape, i1 %listed, ptr %words) nounwind {{
start:
  %type.place = getelementptr i8, ptr %array, i64 {TYPE}
  %type = load ptr, ptr %type.place
  %is_array = icmp eq ptr %type, @gt_ndarray
  br i1 %is_array, label %known, label %no
known:
  %descr.place = getelementptr i8, ptr %array, i64 {DESCR}
  %found.descr = load ptr, ptr %descr.place
  %same.descr = icmp eq ptr %found.descr, %descr
  %rank.place = getelementptr i8, ptr %array, i64 {RANK}
  %found.rank = load i32, ptr %rank.place
  %same.rank = icmp eq i32 %found.rank, %rank
  %flags.place = getelementptr i8, ptr %array, i64 {FLAGS}
  %flags = load i32, ptr %flags.place
  %masked = and i32 %flags, {PLAIN}
  %plain = icmp eq i32 %masked, {PLAIN}
  %both = and i1 %same.descr, %same.rank
  %fine = and i1 %both, %plain
  br i1 %fine, label %open, label %no
open:
  %data.place = getelementptr i8, ptr %array, i64 {DATA}
  %data = load ptr, ptr %data.place
  store ptr %data, ptr %words
  %dims.place = getelementptr i8, ptr %array, i64 {DIMS}
  %dims = load ptr, ptr %dims.place
  %count = zext i32 %rank to i64
  %some = icmp ne i64 %count, 0
  br i1 %some, label %first, label %yes
first:
  %length = load i64, ptr %dims
  %none = icmp eq i64 %length, 0
  %empty = and i1 %none, %listed
  br label %axes
axes:
  %axis = phi i64 [ 0, %first ], [ %next, %on ]
  %word = phi i64 [ 1, %first ], [ %word.next, %on ]
  %dim.place = getelementptr i64, ptr %dims, i64 %axis
  %dim = load i64, ptr %dim.place
  %wanted.place = getelementptr i64, ptr %shape, i64 %axis
  %wanted = load i64, ptr %wanted.place
  %any = icmp eq i64 %wanted, {ANY}
  %equal = icmp eq i64 %dim, %wanted
  %either = or i1 %any, %equal
  %fits = or i1 %either, %empty
  br i1 %fits, label %keep, label %no
keep:
  %told = or i1 %any, %listed
  br i1 %told, label %tell, label %on
tell:
  %place = getelementptr i64, ptr %words, i64 %word
  store i64 %dim, ptr %place
  br label %on
on:
  %more.words = zext i1 %told to i64
  %word.next = add i64 %word, %more.words
  %next = add i64 %axis, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %axes, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}}

define ptr @gt_make(ptr %descr, i32 %rank, ptr %dims) nounwind {{
  call void @Py_IncRef(ptr %descr)  ; which the call takes over
  %array = call ptr @gt_array_empty(i32 %rank, ptr %dims, ptr %descr, i32 0)
  ret ptr %array
}}

define ptr @gt_make_with(ptr %descr, i32 %rank, ptr %dims, ptr %from, i64 %bytes) nounwind {{
start:
  %array = call ptr @gt_make(ptr %descr, i32 %rank, ptr %dims)
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %end, label %count
count:
  %axis = phi i64 [ 0, %start ], [ %next, %more ]
  %size = phi i64 [ %bytes, %start ], [ %product, %more ]
  %wide = zext i32 %rank to i64
  %done = icmp uge i64 %axis, %wide
  br i1 %done, label %copy, label %more
more:
  %place = getelementptr i64, ptr %dims, i64 %axis
  %dim = load i64, ptr %place
  %product = mul i64 %size, %dim
  %next = add i64 %axis, 1
  br label %count
copy:
  %data.place = getelementptr i8, ptr %array, i64 {DATA}
  %data = load ptr, ptr %data.place
  call void @llvm.memcpy.p0.p0.i64(ptr %data, ptr %from, i64 %size, i1 false)
  br label %end
end:
  ret ptr %array
}}

define ptr @gt_abandon(ptr %context, ptr %made, i64 %count) nounwind {{
start:
  call void @gt_cleanup(ptr %context)
  br label %look
look:
  %i = phi i64 [ 0, %start ], [ %next, %on ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %drop, label %end
drop:
  %place = getelementptr ptr, ptr %made, i64 %i
  %thing = load ptr, ptr %place
  %none = icmp eq ptr %thing, null
  br i1 %none, label %on, label %some
some:
  call void @Py_DecRef(ptr %thing)
  br label %on
on:
  %next = add i64 %i, 1
  br label %look
end:
  ret ptr null
}}

define ptr @gt_failed(ptr %context, ptr %made, i64 %count, i32 %status) nounwind {{
  %nothing = call ptr @gt_abandon(ptr %context, ptr %made, i64 %count)
  switch i32 %status, label %told [ i32 {runtime.NO_MEMORY}, label %poor i32 {runtime.INTERRUPTED}, label %interrupted ]
poor:
  %error = call ptr @PyErr_NoMemory()
  ret ptr %error
interrupted:
  ret ptr null
told:
  %wide = sext i32 %status to i64
  %number = call ptr @PyLong_FromLong(i64 %wide)
  ret ptr %number
}}

define ptr @gt_answer(ptr %context, ptr %made, i64 %count) nounwind {{
start:
  call void @gt_cleanup(ptr %context)
  %answer = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %none, label %look
none:
  %nothing = call ptr @gt_abandon(ptr %context, ptr %made, i64 %count)
  ret ptr null
look:
  %i = phi i64 [ 0, %start ], [ %next, %put ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %put, label %end
put:
  %place = getelementptr ptr, ptr %made, i64 %i
  %thing = load ptr, ptr %place
  %done = call i32 @PyTuple_SetItem(ptr %answer, i64 %i, ptr %thing)
  %next = add i64 %i, 1
  br label %look
end:
  ret ptr %answer
}}

define ptr @gt_frame(ptr %kept, i64 %bytes) nounwind {{
  %frame = atomicrmw xchg ptr %kept, ptr null seq_cst
  %none = icmp eq ptr %frame, null
  br i1 %none, label %ask, label %have
have:
  ret ptr %frame
ask:
  %fresh = call ptr @aligned_alloc(i64 64, i64 %bytes)
  %failed = icmp eq ptr %fresh, null
  br i1 %failed, label %poor, label %rich
poor:
  %error = call ptr @PyErr_NoMemory()
  ret ptr null
rich:
  ret ptr %fresh
}}

define void @gt_give_frame(ptr %kept, ptr %frame) nounwind {{
  %other = atomicrmw xchg ptr %kept, ptr %frame seq_cst
  call void @free(ptr %other)
  ret void
}}
"""


def _before() -> None:
    outside.symbols()
    runtime.MEMORY.load()


DOOR = Part(
    _TEXT,
    {
        # (array, dtype, rank, shape, whether it carries a list, words): its address, and the sizes that are not known, as words
        "gt_fits": "i1 (ptr, ptr, i32, ptr, i1, ptr)",
        "gt_make": "ptr (ptr, i32, ptr)",  # (dtype, rank, shape): a new array, or null with Python's error
        "gt_make_with": "ptr (ptr, i32, ptr, ptr, i64)",  # (dtype, rank, shape, data, bytes of an element): one with that data
        "gt_abandon": "ptr (ptr, ptr, i64)",  # (context, made, count): drops everything; null
        "gt_failed": "ptr (ptr, ptr, i64, i32)",  # (…, status): likewise; a number that names the operation, or an error
        "gt_answer": "ptr (ptr, ptr, i64)",  # (context, made, count): frees what is left; the tuple of what was made
        "gt_frame": "ptr (ptr, i64)",  # (where one is kept, bytes): a frame, or null with Python's error
        "gt_give_frame": "void (ptr, ptr)",  # (where one is kept, frame): keep it, or null to free the one that is kept
    },
    _before,
)
