"""Work on other threads: a bounded channel that a thread fills, and elements mapped by several workers.

A thread holds the channel and what it reads, never the stream that a user holds: when that one ends, fails, is closed or is
forgotten, the channel is closed and the thread ends. At most `size` elements wait in a channel.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from typing import Any

from gradtape.data.elements import Leaves
from gradtape.data.streams import Step, StepStream, Stream

AUTOTUNE = -1
# with AUTOTUNE: the bytes of a small element, and how many wait at most of small and of large ones
_SMALL, _MANY, _FEW = 1 << 16, 128, 8


class Channel:
    """Elements from one thread to another, in order; ends or fails once, after the elements before."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.items: deque[Leaves] = deque()
        self.changed = threading.Condition()
        self.closed = False
        self.failure: BaseException | None = None  # StopIteration at the end

    def limit(self, element: Leaves) -> int:
        if self.size != AUTOTUNE:
            return self.size
        return _MANY if sum(getattr(leaf, "nbytes", 0) for leaf in element) < _SMALL else _FEW

    def put(self, element: Leaves) -> bool:
        """Wait for room; False if nobody reads any more."""
        limit = self.limit(element)
        with self.changed:
            while len(self.items) >= limit and not self.closed:
                self.changed.wait()
            if self.closed:
                return False
            self.items.append(element)
            # the reader waits only while there is nothing: it is not woken for each element that comes after
            if len(self.items) == 1:
                self.changed.notify_all()
        return True

    def end(self, failure: BaseException) -> None:
        with self.changed:
            self.failure = failure
            self.changed.notify_all()

    def take(self) -> Leaves:
        with self.changed:
            # what was put before the end or a failure is given first, as it would have been without a thread
            while not self.items:
                if self.failure is not None or self.closed:
                    failure = self.failure or StopIteration()
                    self.failure = StopIteration()  # told once
                    raise failure
                self.changed.wait()
            element = self.items.popleft()
            # The producer is woken when there is room for some, not for every single one: each time costs a switch of threads.
            if len(self.items) <= self.limit(element) // 2:
                self.changed.notify_all()
        return element

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.items.clear()
            self.changed.notify_all()


def _fill(channel: Channel, open_stream: Callable[[], Stream]) -> None:
    try:
        stream = open_stream()
        try:
            for element in stream:
                if not channel.put(element):
                    return
            channel.end(StopIteration())
        finally:
            stream.close()
    except BaseException as error:  # in a thread nobody looks at: raised by whoever takes the next element
        channel.end(error)


class PrefetchStream(Stream):
    """Elements that a thread of its own reads ahead."""

    def __init__(self, open_stream: Callable[[], Stream], size: int) -> None:
        self.channel = Channel(size)
        # The thread has the channel and not the stream: a stream that is forgotten is collected, which closes the channel.
        self.close_channel = weakref.finalize(self, self.channel.close)
        self.thread = threading.Thread(
            target=_fill, args=(self.channel, open_stream), name="gradtape-data-prefetch", daemon=True
        )
        self.thread.start()

    def __next__(self) -> Leaves:
        return self.channel.take()

    def close(self) -> None:
        self.close_channel()


class Prefetched(Step):
    """As its source, read ahead by a thread."""

    def __init__(self, source: Any, size: int) -> None:
        super().__init__(source)
        self.size = size

    def open(self) -> Stream:
        return self.source.open() if self.size == 0 else PrefetchStream(self.source.open, self.size)


# -- several workers ---------------------------------------------------------------------------------------------------


class Workers:
    """Threads that run tasks; they end when told to, and with the process."""

    def __init__(self, count: int) -> None:
        self.count, self.tasks = count, queue.SimpleQueue[Any]()
        for number in range(count):
            threading.Thread(target=_work, args=(self.tasks,), name=f"gradtape-data-map-{number}", daemon=True).start()

    def submit(self, run: Callable[..., Any], *args: Any) -> Future[Any]:
        """What the task will give."""
        task: Future[Any] = Future()
        self.tasks.put((task, run, args))
        return task

    def close(self) -> None:
        """What has not begun is not begun any more."""
        while not self.tasks.empty():
            with contextlib.suppress(queue.Empty):
                self.tasks.get_nowait()
        for _ in range(self.count):
            self.tasks.put(None)


def _work(tasks: queue.SimpleQueue[Any]) -> None:
    while (item := tasks.get()) is not None:
        task, run, args = item
        task.set_result(run(*args))
        del item, task, run, args  # a waiting thread holds nothing


_LEAST, _LONGEST = 2e-4, 64  # seconds a task should take to be worth a switch of threads; elements in a task at most


class ParallelStream(StepStream):
    """A function of each element, on worker threads; in order, or as they are done.

    A task is one element, or several if they are quick: as many as keep a worker busy for some time. The source is read by
    whoever reads this stream, so it needs no lock.
    """

    def __init__(self, source: Stream, function: Callable[[int, Leaves], Leaves], workers: int, in_order: bool) -> None:
        super().__init__(source)
        self.function, self.workers, self.in_order = function, workers, in_order
        self.pool = Workers(workers)
        self.stop = weakref.finalize(self, self.pool.close)
        self.tasks: deque[Future[Any]] = deque()
        self.done: deque[Any] = deque()
        self.chunk, self.number, self.ended = 1, 0, False

    def _submit(self) -> None:
        # one task more than workers: whoever is done finds the next one waiting while the reader is busy
        while not self.ended and len(self.tasks) < self.workers + 1:
            try:
                elements = list(islice(self.source, self.chunk))
            except BaseException as error:  # its turn comes after the elements that are on their way
                self.ended = True
                failed: Future[Any] = Future()
                failed.set_result(([], error, 0.0))
                self.tasks.append(failed)
                return
            if len(elements) < self.chunk:
                self.ended = True
            if elements:
                self.tasks.append(self.pool.submit(_task, self.function, self.number, elements))
                self.number += len(elements)

    def __next__(self) -> Leaves:
        while not self.done:
            self._submit()
            if not self.tasks:
                self.close()
                raise StopIteration
            results, error, seconds = self._finished().result()
            self.done.extend(results)
            if error is not None:
                self.done.append(error)
            # Doubled and halved by what tasks really take: neither switches of threads nor a long wait for the last task are to
            # prevail.
            elif seconds < _LEAST and self.chunk < _LONGEST:
                self.chunk *= 2
            elif seconds > 4 * _LEAST and self.chunk > 1:
                self.chunk //= 2
        element = self.done.popleft()
        if isinstance(element, BaseException):
            self.close()
            raise element
        return element

    def _finished(self) -> Future[Any]:
        if self.in_order:
            return self.tasks.popleft()
        wait(self.tasks, return_when=FIRST_COMPLETED)
        task = next(task for task in self.tasks if task.done())
        self.tasks.remove(task)
        return task

    def close(self) -> None:
        self.ended = True
        self.tasks.clear()
        self.done.clear()
        self.stop()
        super().close()


def _task(function: Callable[[int, Leaves], Leaves], number: int, elements: list[Leaves]) -> tuple[list[Leaves], Any, float]:
    """(results, what stopped it, seconds)."""
    results: list[Leaves] = []
    started = time.perf_counter()
    try:
        for i, element in enumerate(elements, number):
            results.append(function(i, element))
    except BaseException as error:  # raised by whoever takes that element, after those before it
        return results, error, 0.0
    return results, None, time.perf_counter() - started
