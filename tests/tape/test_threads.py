"""Each thread has its own tape stack; a tape may be handed to a worker."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.record import RecordList
from tests.tape.util import close, wide


def in_thread(work):
    result = []

    def run():
        try:
            result.append(work())
        except BaseException as error:  # handed to the caller
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def test_a_tape_does_not_see_other_threads():
    x = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = in_thread(lambda: x * x)
    assert tape.gradient(y, x) is None


def test_tapes_in_many_threads_at_once():
    barrier = threading.Barrier(8)

    def work(k):
        x = gt.Variable(float(k))
        barrier.wait()
        for _ in range(50):
            with gt.GradientTape() as outer:
                with gt.GradientTape() as inner:
                    y = x**3
                g = inner.gradient(y, x)
            h = outer.gradient(g, x)
        return float(g), float(h)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    for k, (g, h) in enumerate(results):
        close(g, 3.0 * k * k)
        close(h, 6.0 * k)


def test_one_variable_read_by_tapes_of_many_threads():
    v = gt.Variable(3.0)
    barrier = threading.Barrier(4)

    def work(k):
        barrier.wait()
        answers = []
        for _ in range(200):
            with gt.GradientTape() as tape:
                y = v ** (k + 1)
            answers.append(tape.gradient(y, v))
        return answers

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    for k, answers in enumerate(results):
        for g in answers:
            assert g is not None
            close(g, (k + 1) * 3.0**k, 1e-6)


def test_a_tape_handed_to_a_worker():
    x = gt.Variable(3.0)
    tape = gt.GradientTape()

    def work():
        with tape:
            return x * x

    with tape:
        a = x * 2.0
        b = in_thread(work)
        y = a * b
    close(tape.gradient(y, x), 6 * 9.0)


def test_a_gradient_asked_in_a_worker():
    x = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = x * x
    close(in_thread(lambda: tape.gradient(y, x)), 6.0)


def test_stop_recording_inside_a_thread_pool():
    x = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        a = x * x

        def work(k):
            with tape.stop_recording():
                return float(x * float(k))

        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(work, range(8))) == [3.0 * k for k in range(8)]
        y = a * x
    close(tape.gradient(y, x), 27.0)


def test_several_workers_record_on_one_tape_while_it_sweeps(monkeypatch):
    monkeypatch.setattr(RecordList, "FLOOR", 20_000)
    x = wide(np.linspace(0.1, 1.0, 8))
    tape = gt.GradientTape()
    with tape:
        tape.watch(x)

    def work(k):
        with tape:
            y = x[k]
            for _ in range(400):
                gt.exp(y)
                y = gt.sin(y) * 1.01
            return y

    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(work, range(8)))
    place = {record: i for i, record in enumerate(tape.records)}
    for record, i in place.items():
        assert all(place[node] < i for node in record.nodes if node in place)
    gradient = tape.gradient(parts, x).numpy()

    def alone(value):
        slope = 1.0
        for _ in range(400):
            slope, value = slope * 1.01 * np.cos(value), 1.01 * np.sin(value)
        return slope

    close(gradient, [alone(v) for v in x.numpy()])


def test_an_exception_in_a_worker_leaves_the_tape_usable():
    x = gt.Variable(3.0)
    tape = gt.GradientTape()

    def work():
        with tape:
            raise KeyError("stop")

    with tape:
        y = x * x
        with pytest.raises(KeyError):
            in_thread(work)
        z = y * x
    close(tape.gradient(z, x), 27.0)


def test_one_tensor_watched_by_tapes_of_many_threads(monkeypatch):
    import sys

    x = wide(3.0)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(k):
        answers = []
        for _ in range(150):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = x ** (k + 1)
            answers.append(tape.gradient(y, x))
        return answers

    try:
        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(work, range(4)))
    finally:
        sys.setswitchinterval(before)
    for k, answers in enumerate(results):
        for g in answers:
            assert g is not None
            close(g, (k + 1) * 3.0**k)
