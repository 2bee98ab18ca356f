"""Whether work that is repeated leaves memory behind: asked so that the answer does not depend on when it is asked.

What a process holds is no straight line: modules are loaded at the first use, caches fill up to a bound, allocators take
pages in steps, garbage waits for its collection. So everything of gradtape is loaded before anything is measured, and growth
is the *least* of several rounds: a leak grows in each of them, a coincidence does not.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import itertools
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradtape

SLACK = 2 << 20  # bytes that a process may grow by for reasons of its own

for _path in sorted(Path(gradtape.__path__[0]).rglob("*.py")):
    _parts = _path.relative_to(gradtape.__path__[0]).with_suffix("").parts
    if _parts[-1] != "__main__" and _parts[0] != "keras":  # the first would run, the second change Keras
        importlib.import_module(".".join(("gradtape", *_parts)).removesuffix(".__init__"))


def resident() -> int:
    """Bytes of this process in memory, after what nobody needs is gone."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _Heap(ctypes.Structure):
    """What glibc tells about its heap: `struct mallinfo2`."""

    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = [(name, ctypes.c_size_t) for name in _names]


def on_the_heap() -> int:
    """Bytes that the process has from `malloc`, also outside Python: exact where glibc counts them, else pages in memory."""
    gc.collect()
    count = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if count is None:
        return resident()
    count.restype = _Heap
    heap = count()
    return int(heap.uordblks + heap.hblkhd)


def stays_flat(work: Callable[[int], Any], count: int, rounds: int = 4) -> None:
    """`work(n)` does something n times: after a fifth of them, the rest takes no more memory."""
    work(count // 5)
    sizes = [resident()]
    for _ in range(rounds):
        work(count)
        sizes.append(resident())
        if sizes[-1] - sizes[-2] < SLACK:
            return
    raise AssertionError(f"{[b - a for a, b in itertools.pairwise(sizes)]} bytes more after each {count} calls")


@contextlib.contextmanager
def tracing() -> Iterator[None]:
    """Python's allocations are counted inside; nothing that waits for its collection counts."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def allocated() -> int:
    """Bytes that Python holds now, of those it allocated since `tracing` began."""
    return tracemalloc.get_traced_memory()[0]


def growth(step: Callable[[], Any], count: int, rounds: int = 4) -> int:
    """By how many bytes the most that is held during `count` steps grows from one round of them to the next."""
    for _ in range(count):  # what is kept up to a bound is there
        step()
    peaks = []
    with tracing():
        for _ in range(rounds):
            peak = 0
            for _ in range(count):
                step()
                peak = max(peak, allocated())
            gc.collect()
            peaks.append(peak)
    return min(b - a for a, b in itertools.pairwise(peaks))


def heap_growth(step: Callable[[], Any], count: int, rounds: int = 4, enough: int = 0) -> int:
    """How many bytes of the heap a step leaves behind: in the round of `count` steps that leaves the least.

    The rounds end early when one leaves no more than `enough`.
    """
    for _ in range(count):  # what is kept up to a bound is there
        step()
    least = None
    for _ in range(rounds):
        before = on_the_heap()
        for _ in range(count):
            step()
        grown = (on_the_heap() - before) // count
        least = grown if least is None else min(least, grown)
        if least <= enough:
            break
    assert least is not None
    return least
