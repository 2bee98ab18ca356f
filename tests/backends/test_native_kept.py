"""Large blocks of memory that native code frees are kept for the next call: few of them, the right ones, and by any thread."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.backends.llvm.runtime import allocator

resource = pytest.importorskip("resource")


def powers(length, steps):
    """The gradient of a loop that keeps an array of this length in each step."""

    @gt.function(jit_compile=True)
    def gradient(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in gt.range(steps):
                y = gt.exp(-y)
            total = gt.reduce_sum(y)
        return tape.gradient(total, x)

    def exact(x):
        y, slope = x, np.ones_like(x)
        for _ in range(steps):
            y = np.exp(-y)
            slope = -slope * y
        return slope

    return gradient, exact


def kept():
    """(how many blocks are kept, the bytes in them, the bytes that are said to be in them)."""
    words = (ctypes.c_int64 * (allocator.KEPT_BLOCKS + 1)).from_address(allocator.MEMORY.load().address("gt_kept"))
    found = [address for address in words[: allocator.KEPT_BLOCKS] if address]
    sizes = [ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))[3] for address in found]
    return len(found), sum(sizes), words[allocator.KEPT_BLOCKS]


def test_memory_of_lists_is_used_again():
    gradient, _ = powers(20_000, 30)
    x = gt.constant(np.linspace(0, 1, 20_000).astype(np.float32))
    for _ in range(3):
        gradient(x)

    def pages():
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(20):
            gradient(x)
        return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / 20

    # the least of several rounds: a busy machine takes pages away now and then
    new = min(pages() for _ in range(5))
    assert new < 60, f"{new} pages are new in each call, of some {30 * 20_000 * 4 // 4096}"


def test_not_too_much_is_kept():
    for length, steps in ((30_000, 40), (1 << 18, 33), (1 << 18, 70), (40_000, 20), (17_000, 21), (1 << 20, 20)):
        gradient, exact = powers(length, steps)
        x = np.linspace(0, 1, length).astype(np.float32)
        np.testing.assert_allclose(gradient(gt.constant(x)).numpy(), exact(x), rtol=1e-4, atol=1e-6)
        count, size, said = kept()
        assert size == said <= allocator.KEPT_BYTES
        assert 0 < count <= allocator.KEPT_BLOCKS


def test_threads_share_what_is_kept():
    work = [(powers(length, steps), length) for length, steps in ((20_000, 9), (33_000, 12), (50_000, 5))]
    errors = []

    def calls(k):
        (gradient, exact), length = work[k % len(work)]
        x = np.linspace(k, k + 1, length).astype(np.float32)
        expected = exact(x)
        for _ in range(40):
            found = gradient(gt.constant(x)).numpy()
            if not np.allclose(found, expected, rtol=1e-4, atol=1e-6):
                errors.append(k)

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    _, size, said = kept()
    assert size == said <= allocator.KEPT_BYTES
