"""Work on other threads: a bounded channel that a thread fills, and elements mapped by several workers.

A thread holds the channel and what it reads, never the stream that a user holds: when that one ends, fails, is closed or is
forgotten, the channel is closed and the thread ends. At most `size` elements wait in a channel, or two blocks of small ones.
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
from gradtape.data.sources import BlocksStream
from gradtape.data.streams import Pace, Step, StepStream, Stream, joined_rows, rows_in

AUTOTUNE = -1
# with AUTOTUNE: the bytes of a small element, and how many wait at most of small and of large ones
_SMALL, _MANY, _FEW = 1 << 16, 128, 8


class Channel:
    """Elements from one thread to another, in order; ends or fails once, after the elements before."""

    def __init__(self, size: int, blocks: bool) -> None:
        self.size, self.blocks = size, blocks
        self.items: deque[Leaves] = deque()
        self.changed = threading.Condition()
        self.closed = False
        self.failure: BaseException | None = None  # StopIteration at the end

    def limit(self, element: Leaves) -> int:
        if self.blocks:
            return max(2, (_MANY if self.size == AUTOTUNE else self.size) // rows_in(element))
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


def _fill(channel: Channel, open_stream: Callable[[], Stream], most: int) -> None:
    pace = Pace(most)
    try:
        stream = open_stream()
        try:
            while True:
                start = time.perf_counter()
                element = stream.block(pace.count) if channel.blocks else next(stream)
                pace.took(time.perf_counter() - start)
                if not channel.put(element):
                    return
        finally:
            stream.close()
    except BaseException as error:  # in a thread nobody looks at: raised by whoever takes the next element
        channel.end(error)


class PrefetchStream(BlocksStream):
    """Elements that a thread of its own reads ahead; in blocks of at most so many, where nobody can see it."""

    def __init__(self, open_stream: Callable[[], Stream], size: int, most: int) -> None:
        super().__init__()
        self.channel = Channel(size, most > 1)
        # The thread has the channel and not the stream: a stream that is forgotten is collected, which closes the channel.
        self.close_channel = weakref.finalize(self, self.channel.close)
        self.thread = threading.Thread(
            target=_fill, args=(self.channel, open_stream, most), name="gradtape-data-prefetch", daemon=True
        )
        self.thread.start()

    def __next__(self) -> Leaves:
        return super().__next__() if self.channel.blocks else self.channel.take()

    def block(self, count: int) -> Leaves:
        return super().block(count) if self.channel.blocks else Stream.block(self, count)

    def refill(self, count: int) -> None:
        self.let(self.channel.take())

    def close(self) -> None:
        self.close_channel()


class Prefetched(Step):
    """As its source, read ahead by a thread."""

    rearranges = True

    def __init__(self, source: Any, size: int) -> None:
        super().__init__(source)
        self.size = size

    def open(self) -> Stream:
        return self.source.open() if self.size == 0 else PrefetchStream(self.source.open, self.size, self.in_a_block())


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


_LONGEST = 64  # elements in a task at most
OfBlock = Callable[[int, Leaves], Leaves | None] | None  # of the number of the first element and a block


class ParallelStream(StepStream):
    """A function of each element, on worker threads; in order, or as they are done.

    A task is one element, or several if they are quick: as many as keep a worker busy for some time. The source is read by
    whoever reads this stream, so it needs no lock.
    """

    def __init__(
        self, source: Stream, function: Callable[[int, Leaves], Leaves], of_block: OfBlock, most: int, workers: int,
        in_order: bool,
    ) -> None:  # fmt: skip
        super().__init__(source)
        self.function, self.of_block, self.workers, self.in_order = function, of_block, workers, in_order
        self.pool = Workers(workers)
        self.stop = weakref.finalize(self, self.pool.close)
        self.tasks: deque[Future[Any]] = deque()
        self.done: deque[Any] = deque()
        self.pace = Pace(_LONGEST if of_block is None else most)
        self.number, self.ended = 0, False

    def _submit(self) -> None:
        # one task more than workers: whoever is done finds the next one waiting while the reader is busy
        chunk = self.pace.count
        while not self.ended and len(self.tasks) < self.workers + 1:
            try:
                elements = self._elements(chunk)
            except BaseException as error:  # its turn comes after the elements that are on their way
                self.ended = True
                failed: Future[Any] = Future()
                failed.set_result(([], error, 0.0))
                self.tasks.append(failed)
                return
            if elements:
                self.tasks.append(self.pool.submit(_task, self.function, self.of_block, self.number, elements))
                self.number += len(elements)

    def _elements(self, count: int) -> list[Leaves]:
        if self.of_block is not None:
            return list(zip(*self.source.block(count), strict=True))
        elements = list(islice(self.source, count))
        self.ended = len(elements) < count
        return elements

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
            else:
                self.pace.took(seconds)
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


def _task(
    function: Callable[[int, Leaves], Leaves], of_block: OfBlock, number: int, elements: list[Leaves]
) -> tuple[list[Leaves], Any, float]:
    """(results, what stopped it, seconds)."""
    results: list[Leaves] = []
    started = time.perf_counter()
    try:
        block = of_block(number, joined_rows(elements)) if of_block is not None else None
        if block is not None:
            return list(zip(*block, strict=True)), None, time.perf_counter() - started
        for i, element in enumerate(elements, number):
            results.append(function(i, element))
    except BaseException as error:  # raised by whoever takes that element, after those before it
        return results, error, 0.0
    return results, None, time.perf_counter() - started
