"""`assign_add` in a compiled function called from several threads lost updates: another thread assigned between the call's
reading of the variable and its assignment."""

from __future__ import annotations

import sys
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.variables import locking
from tests.harness.process import PATIENCE

THREADS, CALLS = 8, 300


@pytest.fixture(autouse=True)
def _threads_that_take_turns_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(*works, calls=CALLS):
    """Run each work many times, in a thread of its own."""
    errors = []
    start = threading.Barrier(len(works))

    def run(work):
        try:
            start.wait()
            for _ in range(calls):
                work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    assert not errors, errors


@pytest.mark.parametrize("native", [None, False, True], ids=["eager", "interpreted", "native"])
def test_no_update_is_lost(native):
    v, w = gt.Variable(0.0), gt.Variable(np.zeros(3, np.float32))

    def step(x):
        v.assign_add(x)
        w.assign(w + x * 2.0)
        return v * 1.0

    def eager(x):
        v.assign_add(x)
        w.assign_add(gt.fill([3], 2.0 * x))

    call = eager if native is None else gt.function(step, jit_compile=native)
    x = gt.constant(1.0)
    call(x)
    in_threads(*[lambda: call(x)] * THREADS)
    total = THREADS * CALLS + 1
    assert (v.numpy(), w.numpy().tolist()) == (total, [2.0 * total] * 3)


def test_eager_and_compiled_updates_of_all_kinds_together():
    v = gt.Variable(np.zeros(2, np.int32))
    at = gt.constant([[0]])
    works = [
        lambda: v.assign_add([1, 0]), lambda: v[0].assign_add(1), lambda: v.scatter_nd_add(at, gt.constant([1])),
        gt.function(lambda: v.assign_add([1, 0])), gt.function(lambda: v[0].assign_add(1), jit_compile=False),
        lambda: v.scatter_add(gt.IndexedSlices(gt.constant([1]), gt.constant([0]))),
    ]  # fmt: skip
    in_threads(*works, calls=100)
    assert v.numpy().tolist() == [600, 0]


def test_under_tapes():
    v = gt.Variable(0.0)

    @gt.function
    def step(x):
        v.assign_add(x)
        return v * x

    def work():
        with gt.GradientTape() as tape:
            x = gt.constant(1.0)
            tape.watch(x)
            y = step(x)
        tape.gradient(y, x)

    work()
    in_threads(*[work] * 4, calls=100)
    assert v.numpy() == 401.0


def test_two_variables_in_opposite_order_do_not_wait_for_each_other():
    a, b = gt.Variable(0.0), gt.Variable(0.0)

    @gt.function
    def forth(x):
        a.assign_add(x)
        b.assign_add(a * 0.0 + x)

    @gt.function
    def back(x):
        b.assign_add(x)
        a.assign_add(b * 0.0 + x)

    x = gt.constant(1.0)
    forth(x), back(x)
    in_threads(*[lambda: forth(x), lambda: back(x)] * 4, calls=200)
    assert (a.numpy(), b.numpy()) == (1602.0, 1602.0)


def test_python_code_that_a_program_calls_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(locking, "PATIENCE", 0.05)
    a, b = gt.Variable(0.0), gt.Variable(0.0)
    both = threading.Barrier(2)

    def crossing(mine, other):
        def cross():
            both.wait(PATIENCE)
            other.assign_add(1.0)

        @gt.function
        def call(x):
            mine.assign_add(x)
            gt.py_function(cross, [], [])

        return lambda: call(gt.constant(1.0))

    in_threads(crossing(a, b), crossing(b, a), calls=2)


def test_an_exception_lets_others_go_on():
    v = gt.Variable([1.0, 2.0])

    @gt.function
    def step(i):
        v.assign_add([1.0, 1.0])
        return gt.constant([1.0, 2.0])[i]

    step(gt.constant(0))
    with pytest.raises(IndexError):
        step(gt.constant(5))
    with pytest.raises(ValueError, match="shape"):
        v.assign_add([1.0])
    in_threads(lambda: step(gt.constant(1)), lambda: v.assign_add([1.0, 1.0]), calls=5)
    assert locking.HOLDING.count == 0
