"""The data of large results: taken from memory that earlier ones gave back, and in everything else an array's own."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy._core.multiarray import get_handler_name

import gradtape as gt
from tests.harness.process import PATIENCE

resource = pytest.importorskip("resource", reason="counts page faults, which this system does not tell")
LARGE = 1 << 18


@gt.function
def stepped(x: Any) -> Any:
    return x + 1.0, x * 2.0


def faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_no_pages_are_asked_of_the_system(kept: int) -> None:
    x = gt.ones((LARGE,), "float64")
    results: list[Any] = []
    for _ in range(6):
        results = [*results, stepped(x)][-kept:] if kept else []
        stepped(x)
    gc.collect()
    before = faults()
    for _ in range(20):
        results = [*results, stepped(x)][-kept:] if kept else []
        stepped(x)
    pages = 2 * LARGE * 8 // resource.getpagesize()
    assert (faults() - before) / 40 < 0.2 * pages


def test_results_are_ordinary_arrays() -> None:
    x = gt.constant(np.arange(float(LARGE)))
    y = stepped(x)[0]._data
    assert get_handler_name(y) == "gradtape"
    assert get_handler_name(np.empty(LARGE)) == "default_allocator"  # others' arrays are as they were
    own = np.array(y)
    np.testing.assert_array_equal(own, np.arange(float(LARGE)) + 1.0)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(y)), own)


def test_memory_that_is_given_back_is_not_in_use() -> None:
    x = gt.constant(np.arange(float(LARGE)))
    held = [stepped(x * float(k))[0] for k in range(12)]  # more than are kept at a time
    del held[::2]
    more = [stepped(x)[1] for _ in range(12)]
    for k, value in zip(range(1, 12, 2), held, strict=True):
        np.testing.assert_array_equal(value.numpy(), np.arange(float(LARGE)) * k + 1.0)
    for value in more:
        np.testing.assert_array_equal(value.numpy(), np.arange(float(LARGE)) * 2.0)


def test_arrays_change_their_size() -> None:
    y = stepped(gt.ones((LARGE,)))[0]._data
    assert y.flags.owndata
    for count in (2 * LARGE, 100, LARGE):
        y.resize(count, refcheck=False)
        assert (y[:100] == 2.0).all()


def test_a_result_may_outlive_everything() -> None:
    code = (
        "import gradtape as gt\n"
        "f = gt.function(lambda x: x + 1.0)\n"
        "import builtins\n"
        "builtins.kept = f(gt.ones((1 << 18,))).numpy()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)
