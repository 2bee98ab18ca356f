"""`for i in gt.range(n): x[a + 2*i]` with numbers that overflow int64 read and wrote outside of the array: what an access in a
loop can come to was computed modulo 2⁶⁴ before the loop, and the check of it wrapped around too. So did the number of items of
a range, the bytes of a list, and an int32 that became an int64.

More programs, and random numbers around every edge, are in `tests/backends/edge_programs.py`, also run between
guard pages.
"""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as gt
from tests.backends.edge_programs import PROGRAMS, outcome

X = np.arange(8.0)
LONG = 2**63 - 1
FAR = [LONG, LONG - 2**31, 2**62, -LONG - 1, -LONG, -(2**62), 2**62 - 1]


@pytest.mark.parametrize("name", ["stepped", "stepped_back", "written", "cancelled"])
def test_what_overflows_is_outside(name):
    function, _ = PROGRAMS[name]
    call = gt.function(function)
    for a in FAR:
        for n in (0, 1, 3):
            values = (X, np.int64(a), np.int32(n))
            assert outcome(call, values) == outcome(function, values), values


def test_many_iterations_that_end_inside_again():
    """a + 2·(n − 1) wraps around to a negative number, with which the old check was content: the process ended."""
    function, _ = PROGRAMS["stepped"]
    for a, n in ((LONG - 1, 8), (LONG, 20), (LONG - 9, 60)):
        kind, words = outcome(gt.function(function), (X, np.int64(a), np.int32(n)))
        assert issubclass(kind, gt.errors.OutOfRangeError)
        assert "out of bounds" in words


def test_an_int32_that_wrapped_around_is_not_the_number_it_was():
    function, _ = PROGRAMS["widened"]
    for k in (-(2**32), 2**31, -(2**31), 0, 3):
        values = (X, np.int64(k), np.int32(5))
        assert outcome(gt.function(function), values) == outcome(function, values), values


@pytest.mark.parametrize("ends", [(-LONG - 1, LONG), (0, LONG), (-LONG, 2), (-LONG - 1, -LONG - 1 + 2**50)])
def test_a_range_with_more_items_than_memory_is_refused(ends):
    @gt.function
    def count(a, b):
        total = gt.constant(0)
        for _ in gt.range(a, b):
            total = total + 1
            if total > 3:
                break
        return gt.reduce_sum(gt.range(a, b))

    with pytest.raises(gt.errors.InvalidArgumentError, match=r"range: from -?\d+ to -?\d+ in steps of 1 there are \d+ items"):
        count(gt.constant(ends[0], gt.int64), gt.constant(ends[1], gt.int64))


@pytest.mark.parametrize("count", [2**61, 2**60 + 1, LONG])
def test_a_list_with_more_bytes_than_a_number_can_say(count):
    """count · 8 bytes is 0 modulo 2⁶⁴: memory for nothing, and a loop that writes to it."""

    @gt.function
    def collect(n):
        values = []
        for i in gt.range(n):
            values.append(gt.cast(i, gt.float64))
        return values[0]

    with pytest.raises(gt.errors.InvalidArgumentError, match=f"there are {count} items, too many"):
        collect(gt.constant(count, gt.int64))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_counts_wrap_around_as_their_type_does(dtype):
    def steps(n, k):
        total = gt.constant(0)
        for i in gt.range(n):
            for _ in gt.range(gt.cast(i, k.dtype) * k):
                total = total + 1
        return total, gt.constant(X)[: gt.cast(n, k.dtype) * k]

    f = gt.function(steps)
    k = 2**31 if dtype == "int32" else 2**63
    for n, factor in ((1, k - 1), (1, -k), (3, -k)):
        values = (np.int32(n), np.dtype(dtype).type(factor))
        assert outcome(f, values) == outcome(steps, values)
