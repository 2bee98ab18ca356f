"""Threads of our own for large kernels: a pool of native threads that never touch Python.

`gt_parallel(function, data, chunks)` runs `function(data, first, end)` over chunks of work. Whoever is free takes the next
one, the caller too; chunks are cut by size alone and their results are combined in order, so results do not depend on how
many threads took part. Workers wait actively for a moment, then sleep. With one thread, inside another parallel kernel, or
after a fork (the child has no workers) the caller does it all. Where there are no POSIX threads, likewise.
"""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from typing import Any

from gradtape import config
from gradtape.backends.llvm import machine

SPINS = 4000  # turns of active waiting before a worker sleeps: some 50 µs
MOST = 64  # threads

_POOL = """
@gt_threads = global i32 1
@workers = internal global i32 0
@busy = internal global i32 0
@generation = internal global i64 0
@open = internal global i32 0
@active = internal global i32 0
@sleeping = internal global i32 0
@next = internal global i64 0, align 64
@total = internal global i64 0, align 64
@function = internal global ptr null
@data = internal global ptr null
@mutex = internal global [16 x i64] zeroinitializer, align 64
@wake = internal global [16 x i64] zeroinitializer, align 64

declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare i32 @sched_yield()

define internal void @pause() alwaysinline nounwind {{
  {pause}
  ret void
}}

define internal void @take() nounwind {{
start:
  %function = load ptr, ptr @function
  %data = load ptr, ptr @data
  %total = load i64, ptr @total
  br label %more
more:
  %chunk = atomicrmw add ptr @next, i64 1 seq_cst
  %some = icmp slt i64 %chunk, %total
  br i1 %some, label %run, label %done
run:
  %end = add i64 %chunk, 1
  call void %function(ptr %data, i64 %chunk, i64 %end)
  br label %more
done:
  ret void
}}

define internal ptr @worker(ptr %number) nounwind {{
start:
  %me = ptrtoint ptr %number to i64
  %mine = trunc i64 %me to i32
  %first = load atomic i64, ptr @generation seq_cst, align 8
  br label %wait
wait:
  %seen = phi i64 [ %first, %start ], [ %now, %finished ], [ %now, %idle ]
  br label %spin
spin:
  %turn = phi i32 [ 0, %wait ], [ %following, %again ]
  %current = load atomic i64, ptr @generation seq_cst, align 8
  %changed = icmp ne i64 %current, %seen
  br i1 %changed, label %work, label %again
again:
  call void @pause()
  %following = add i32 %turn, 1
  %tired = icmp sgt i32 %following, {spins}
  br i1 %tired, label %sleep, label %spin
sleep:
  call i32 @pthread_mutex_lock(ptr @mutex)
  atomicrmw add ptr @sleeping, i32 1 seq_cst
  br label %look
look:
  %later = load atomic i64, ptr @generation seq_cst, align 8
  %woken = icmp ne i64 %later, %seen
  br i1 %woken, label %up, label %down
down:
  call i32 @pthread_cond_wait(ptr @wake, ptr @mutex)
  br label %look
up:
  atomicrmw sub ptr @sleeping, i32 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %work
work:
  %now = phi i64 [ %current, %spin ], [ %later, %up ]
  %wanted = load atomic i32, ptr @gt_threads seq_cst, align 4
  %others = sub i32 %wanted, 1
  %needed = icmp slt i32 %mine, %others
  br i1 %needed, label %join, label %idle
idle:
  br label %wait
join:
  atomicrmw add ptr @active, i32 1 seq_cst
  %open = load atomic i32, ptr @open seq_cst, align 4
  %running = icmp ne i32 %open, 0
  br i1 %running, label %help, label %finished
help:
  call void @take()
  br label %finished
finished:
  atomicrmw sub ptr @active, i32 1 seq_cst
  br label %wait
}}

define void @gt_parallel(ptr %function, ptr %data, i64 %chunks) nounwind {{
start:
  %threads = load atomic i32, ptr @gt_threads seq_cst, align 4
  %several = icmp sgt i32 %threads, 1
  %many = icmp sgt i64 %chunks, 1
  %worth = and i1 %several, %many
  br i1 %worth, label %try, label %alone
try:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 seq_cst seq_cst
  %mine = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %mine, label %share, label %alone
alone:
  call void %function(ptr %data, i64 0, i64 %chunks)
  ret void
share:
  store ptr %function, ptr @function
  store ptr %data, ptr @data
  store i64 %chunks, ptr @total
  store i64 0, ptr @next
  store atomic i32 1, ptr @open seq_cst, align 4
  atomicrmw add ptr @generation, i64 1 seq_cst
  %asleep = load atomic i32, ptr @sleeping seq_cst, align 4
  %some = icmp sgt i32 %asleep, 0
  br i1 %some, label %call, label %do
call:
  call i32 @pthread_mutex_lock(ptr @mutex)
  call i32 @pthread_cond_broadcast(ptr @wake)
  call i32 @pthread_mutex_unlock(ptr @mutex)
  br label %do
do:
  call void @take()
  store atomic i32 0, ptr @open seq_cst, align 4
  br label %rest
rest:
  %turn = phi i32 [ 0, %do ], [ %following, %more ]
  %still = load atomic i32, ptr @active seq_cst, align 4
  %done = icmp eq i32 %still, 0
  br i1 %done, label %end, label %hold
hold:
  call void @pause()
  %following = add i32 %turn, 1
  %low = and i32 %following, 1023
  %long = icmp eq i32 %low, 0
  br i1 %long, label %yield, label %more
yield:
  call i32 @sched_yield()
  br label %more
more:
  br label %rest
end:
  store atomic i32 0, ptr @busy seq_cst, align 4
  ret void
}}

define i32 @gt_pool_start(i32 %wanted) nounwind {{
start:
  %thread = alloca i64
  %have = load i32, ptr @workers
  %fresh = icmp eq i32 %have, 0
  br i1 %fresh, label %first, label %loop
first:
  call i32 @pthread_mutex_init(ptr @mutex, ptr null)
  call i32 @pthread_cond_init(ptr @wake, ptr null)
  br label %loop
loop:
  %number = phi i32 [ %have, %start ], [ %have, %first ], [ %next, %made ]
  %more = icmp slt i32 %number, %wanted
  br i1 %more, label %make, label %done
make:
  %wide = zext i32 %number to i64
  %argument = inttoptr i64 %wide to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %argument)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %made, label %done
made:
  %id = load i64, ptr %thread
  call i32 @pthread_detach(i64 %id)
  %next = add i32 %number, 1
  store i32 %next, ptr @workers
  br label %loop
done:
  %total = load i32, ptr @workers
  ret i32 %total
}}
"""


class Pool:
    """The pool of this process; made when the first large kernel is compiled."""

    def __init__(self) -> None:
        pause = "call void @llvm.x86.sse2.pause()" if "x86" in machine.triple() else ""
        text = _POOL.format(pause=pause, spins=SPINS)
        self._library = machine.Library(text)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._library))  # workers run its code as long as the process lives
        self._wanted = ctypes.c_int32.from_address(self._library.address("gt_threads"))
        self._start = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(self._library.address("gt_pool_start"))
        self._forked = False
        machine.symbol("gt_parallel", self._library.address("gt_parallel"))
        os.register_at_fork(after_in_child=self._after_fork)
        config.when_threads_change(self.set)
        self.set(config.threads())

    def set(self, number: int) -> None:
        """Use so many threads from now on, as far as they can be had."""
        number = max(1, min(int(number), MOST))
        if self._forked or not hasattr(signal, "pthread_sigmask"):
            number = 1
        if number > 1:
            # signals are for the threads that Python knows; a new thread has the mask of the one that makes it
            before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                number = 1 + min(number - 1, self._start(number - 1))
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._wanted.value = number

    @property
    def number(self) -> int:
        return self._wanted.value

    def _after_fork(self) -> None:
        self._forked = True
        self._wanted.value = 1


_LOCK = threading.Lock()
machine.held_by_forks(_LOCK.acquire, _LOCK.release)
_STATE: dict[str, Any] = {}


def pool() -> Pool:
    """The pool; native code can call `gt_parallel` afterwards."""
    with _LOCK:
        if "pool" not in _STATE:
            _STATE["pool"] = Pool()
        found: Pool = _STATE["pool"]
        return found
