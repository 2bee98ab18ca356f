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
from collections.abc import Callable
from typing import TypeVar

from gradtape import config
from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.runtime.float_flags import EVENTS, cleared, noted, tested
from gradtape.backends.llvm.runtime.support import Part
from gradtape.backends.llvm.writing.algebra import DOUBLE, I32, I64, SINGLE, Format, Whole
from gradtape.backends.llvm.writing.builder import PTR, VOID, Builder, Int32, Pointer, external

SPINS = 4000  # turns of active waiting before a worker sleeps: some 50 µs
PATIENCE = 1024  # turns after which a caller that waits for the last workers lets others run
MOST = 64  # threads

POOL = Part(__name__)

wanted_threads = POOL.variable("gt_threads", I32, 1)
workers = POOL.variable("workers", I32)  # that were started
busy = POOL.variable("busy", I32)  # whether a kernel has the pool
generation = POOL.variable("generation", I64)  # counts kernels: workers look for the next one
open_kernel = POOL.variable("open_kernel", I32)  # whether workers may still join in
active = POOL.variable("active", I32)  # workers that look for chunks
sleeping = POOL.variable("sleeping", I32)
next_chunk = POOL.variable("next_chunk", I64)
chunk_count = POOL.variable("chunk_count", I64)
kernel = POOL.variable("kernel", PTR)
kernel_data = POOL.variable("kernel_data", PTR)
worker_events = POOL.variable("worker_events", I32)  # of floating-point numbers, in workers
mutex = POOL.variable("mutex", I64, count=16)  # large enough for what POSIX calls a mutex and a condition
wake = POOL.variable("wake", I64, count=16)

pthread_create = external("pthread_create", I32, PTR, PTR, PTR, PTR)
pthread_detach = external("pthread_detach", I32, I64)
mutex_init = external("pthread_mutex_init", I32, PTR, PTR)
mutex_lock = external("pthread_mutex_lock", I32, PTR)
mutex_unlock = external("pthread_mutex_unlock", I32, PTR)
condition_init = external("pthread_cond_init", I32, PTR, PTR)
condition_wait = external("pthread_cond_wait", I32, PTR, PTR)
condition_broadcast = external("pthread_cond_broadcast", I32, PTR)
sched_yield = external("sched_yield", I32)


def pause(f: Builder) -> None:
    """Tell the processor that this thread waits actively."""
    if "x86" in machine.triple():
        f.writer.do("call void @llvm.x86.sse2.pause()")


def run(f: Builder, function: Pointer, data: Pointer, first: Whole | int, end: Whole) -> None:
    """Some chunks of a kernel."""
    f.call(function.register, VOID, [PTR, I64, I64], [data, first, end])


@POOL.routine
def take_chunks(f: Builder) -> None:
    """Run chunks as long as there are any."""
    function, data, count = kernel(f).value, kernel_data(f).value, chunk_count(f).value
    with f.forever() as chunks:
        chunk = next_chunk(f).fetch("add", 1)
        chunks.leave_if(chunk >= count)
        run(f, function, data, chunk, chunk + 1)


@POOL.routine
def sleep_while(f: Builder, seen: Whole) -> None:
    """Sleep until there is another generation."""
    mutex_lock(f, mutex(f))
    sleeping(f).fetch("add", 1)
    with f.forever() as waiting:
        waiting.leave_if(generation(f).atomic.differs(seen))
        condition_wait(f, wake(f), mutex(f))
    sleeping(f).fetch("sub", 1)
    mutex_unlock(f, mutex(f))


@POOL.routine
def worker(f: Builder, number: Pointer) -> Pointer:
    """What a thread of the pool does for ever; its number says whether it is one of those that are wanted."""
    mine = number.as_number().resized(I32)
    seen = f.variable(I64, generation(f).atomic)
    with f.forever():
        turn = f.variable(I64, 0)
        with f.forever() as spinning:
            spinning.leave_if(generation(f).atomic.differs(seen.value))
            pause(f)
            turn.value = turn.value + 1
            with f.if_(turn.value > SPINS):
                sleep_while(f, seen.value)
        seen.value = generation(f).atomic
        with f.if_(mine + 1 < wanted_threads(f).atomic):
            # counted first, then asked: whoever closes a kernel and sees nobody active has no worker in it
            active(f).fetch("add", 1)
            with f.if_(open_kernel(f).atomic.differs(0)):
                take_chunks(f)
                worker_events(f).fetch("or", tested(f, EVENTS))
                cleared(f, EVENTS)
            active(f).fetch("sub", 1)
    return f.null()


@POOL.routine
def gt_parallel(f: Builder, function: Pointer, data: Pointer, chunks: Whole) -> None:
    """Run `function(data, first, end)` over all chunks, on the pool's threads and this one."""
    alone = (wanted_threads(f).atomic <= 1) | (chunks <= 1)
    with f.if_(alone):
        run(f, function, data, 0, chunks)
        f.leave()
    with f.if_(~busy(f).compare_exchange(0, 1)):  # another kernel has the pool, perhaps the one this is a part of
        run(f, function, data, 0, chunks)
        f.leave()
    kernel(f).value = function
    kernel_data(f).value = data
    chunk_count(f).value = chunks
    next_chunk(f).atomic = 0
    # All facts of the kernel are written before the generation changes, which is what workers look at.
    open_kernel(f).atomic = 1
    generation(f).fetch("add", 1)
    # under the lock, or a worker that has looked and is about to sleep would miss it
    with f.if_(sleeping(f).atomic > 0):
        mutex_lock(f, mutex(f))
        condition_broadcast(f, wake(f))
        mutex_unlock(f, mutex(f))
    take_chunks(f)
    open_kernel(f).atomic = 0
    # Closed before those inside are waited for: a worker that wakes up late finds nothing to join.
    turn = f.variable(I64, 0)
    with f.forever() as waiting:
        waiting.leave_if(active(f).atomic.equals(0))
        pause(f)
        turn.value = turn.value + 1
        with f.if_((turn.value % PATIENCE).equals(0)):
            sched_yield(f)
    # flags of floating-point events belong to a thread: the caller hears of those in its workers
    with f.if_(worker_events(f).value.differs(0)):
        noted(f, worker_events(f).fetch("xchg", 0))
    busy(f).atomic = 0


@POOL.routine
def gt_pool_start(f: Builder, wanted: Int32) -> Int32:
    """Start workers until there are so many, or no more are to be had; how many there are."""
    thread = f.array(I64, 1)
    with f.if_(workers(f).value.equals(0)):
        mutex_init(f, mutex(f), None)
        condition_init(f, wake(f), None)
    with f.forever() as starting:
        number = workers(f).value
        starting.leave_if(number >= wanted)
        argument: Pointer = Pointer(f.writer, f.writer.let(f"inttoptr i64 {number.resized(I64).register} to ptr"))
        failed = pthread_create(f, thread, None, Pointer(f.writer, "@worker"), argument)
        starting.leave_if(failed.differs(0))
        pthread_detach(f, thread.value)
        workers(f).value = number + 1
    return workers(f).value


class Pool:
    """The pool of this process; made when the first large kernel is compiled."""

    def __init__(self) -> None:
        library = POOL.load()
        self._wanted = ctypes.c_int32.from_address(library.address("gt_threads"))
        self._start = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(library.address("gt_pool_start"))
        self._forked = False
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
_POOLS: list[Pool] = []


def pool() -> Pool:
    """The pool; native code can call `gt_parallel` afterwards."""
    with _LOCK:
        if not _POOLS:
            _POOLS.append(Pool())
        return _POOLS[0]


T = TypeVar("T")


def by_format(make: Callable[[Format, int], T]) -> Callable[[str], T]:
    """Routines that use the pool, made for an element type (`float`, `double`) and the machine's vectors when first asked."""
    lock, libraries = threading.Lock(), dict[str, T]()
    machine.held_by_forks(lock.acquire, lock.release)

    def library(kind: str) -> T:
        with lock:
            if kind not in libraries:
                pool()
                libraries[kind] = make({"float": SINGLE, "double": DOUBLE}[kind], machine.vector_bytes())
            return libraries[kind]

    return library
