"""The door to native code: arguments in any form, errors, memory, threads, forks, Ctrl-C."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends.llvm.entry.stacked import StackedList
from gradtape.errors import InternalError
from gradtape.ops.list_values import TensorList
from tests.harness.memory import stays_flat
from tests.harness.process import PATIENCE


@pytest.fixture(autouse=True)
def natively():
    before = config.native_code_enabled()
    config.native_code(True)
    yield
    config.native_code(before)


def _compiled(function, *args):
    """The native executable of a function for these arguments."""
    f = gt.function(function)
    f(*args)
    (traced,) = f._state.cache.all()
    traced.program.compiled.prepare()
    made = traced.program.compiled._executable
    assert type(made).__module__ == "gradtape.backends.llvm.entry.native_executable"
    return made


def test_arguments_in_any_form():
    run = _compiled(lambda x: x * 2.0 + 1.0, gt.ones((3, 4)))
    x = np.arange(48, dtype=np.float32).reshape(6, 8)
    forms = [
        x[:3, :4], x[::2, ::2], x[2::-1, 3::-1], np.asfortranarray(x[:3, :4]), x[:3, :4].astype(np.float64),
        x[:3, :4].astype(">f4"), np.broadcast_to(x[:1, :4], (3, 4)), x[:3, :4].tolist(),
    ]  # fmt: skip
    unaligned = np.zeros(49, np.uint8)[1:].view(np.float32)
    unaligned[:] = np.arange(12)
    forms.append(unaligned.reshape(3, 4))
    for form in forms:
        (found,) = run(form)
        np.testing.assert_array_equal(found, np.asarray(form, np.float32) * 2.0 + 1.0)
        assert found.dtype == np.float32


def test_scalars_come_and_go_as_numpy_scalars():
    run = _compiled(lambda x: x * x, gt.constant(2.0))
    for form in (np.float32(3.0), np.array(3.0, np.float32), np.float64(3.0), 3.0):
        (found,) = run(form)
        assert type(found) is np.float32
        assert found == 9.0


def test_other_arguments_are_refused():
    run = _compiled(lambda x: x * 2.0, gt.ones(3))
    with pytest.raises(InternalError, match="made for other arguments"):
        run(np.ones(4, np.float32))
    with pytest.raises(ValueError, match=r"shorter|longer|argument"):
        run()


def test_the_same_array_twice_and_overlapping_ones():
    run = _compiled(lambda x, y: (x + y, x - y), gt.ones(4), gt.zeros(4))
    base = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(run(base[:4], base[:4])[0], 2 * base[:4])
    plus, minus = run(base[:4], base[2:])
    np.testing.assert_array_equal(plus, base[:4] + base[2:])
    np.testing.assert_array_equal(minus, base[:4] - base[2:])
    np.testing.assert_array_equal(base, np.arange(6, dtype=np.float32))


def test_results_that_are_arguments_come_back_as_they_are():
    run = _compiled(lambda x: (x, gt.identity(x), x + 1.0), gt.ones(4))
    x = np.arange(4, dtype=np.float32)
    *same, more = run(x)
    np.testing.assert_array_equal(more, x + 1)
    assert all(found is x for found in same)


def test_a_result_that_is_an_argument_does_not_change_with_the_users_array():
    @gt.function(jit_compile=True)
    def f(x):
        return x, x + 1.0

    x = np.arange(4, dtype=np.float32)
    for _ in range(3):
        same, _more = f(x)
        x[0] += 1.0
        assert same[0] == x[0] - 1.0


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 64, 97, 1000, 1021])
def test_one_program_for_all_sizes(size):
    @gt.function(input_signature=[gt.TensorSpec([None], gt.float64)])
    def f(x):
        return gt.sin(x) * x, gt.reduce_sum(x), x[::-1]

    x = np.linspace(-1, 1, size)
    a, b, c = f(gt.constant(x))
    np.testing.assert_allclose(a, np.sin(x) * x, rtol=1e-15, atol=1e-15)
    np.testing.assert_allclose(b, x.sum(), atol=1e-13)
    np.testing.assert_array_equal(c, x[::-1])


def test_an_error_is_the_one_of_eager_code_with_the_line():
    @gt.function
    def f(x, i):
        return x[i] * 2.0

    x = gt.constant([1.0, 2.0])
    assert f(x, gt.constant(1)).numpy() == 4.0
    with pytest.raises(IndexError) as native:
        f(x, gt.constant(7))
    with pytest.raises(IndexError) as eager:
        f.python_function(x, gt.constant(7))
    assert str(native.value) == str(eager.value)


def test_a_failed_assertion_in_a_loop():
    @gt.function
    def f(x):
        for i in gt.range(5):
            x = x - 1.0
            assert x > 0.0, f"fell to {x} in turn {i}"
        return x

    assert f(gt.constant(9.0)).numpy() == 4.0
    with pytest.raises(AssertionError, match="in turn 2"):
        f(gt.constant(3.0))


def test_gradients_of_a_loop_of_unknown_length_leave_memory_flat():
    @gt.function
    def f(x):
        values = []
        while gt.reduce_sum(x) > 1.0:
            x = x * 0.9
            values.append(x)
        return gt.reduce_sum(gt.stack(values))

    x = gt.constant(np.full(500, 0.1, np.float32))

    def work(count):
        for _ in range(count):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            tape.gradient(y, x)

    stays_flat(work, 2400)


def test_calls_leave_memory_flat():
    @gt.function(input_signature=[gt.TensorSpec([None], gt.float32), gt.TensorSpec([], gt.int32)])
    def f(x, n):
        parts = []
        for i in gt.range(n):
            parts.append(x[:3] * gt.cast(i, gt.float32))
        return gt.stack(parts), gt.sort(x), x[x > 0.0], x, gt.reduce_sum(x), gt.cumsum(x)[n:]

    inputs = [gt.constant(np.linspace(-1, 1, size, dtype=np.float32)) for size in (100, 101, 500)]
    counts = [gt.constant(n) for n in (1, 7, 20)]

    def work(count):
        for k in range(count):
            f(inputs[k % 3], counts[k % 2])

    stays_flat(work, 10_000)


def test_gradients_through_variables_leave_memory_flat():
    w = gt.Variable(np.full((20, 20), 0.1, np.float32))
    x = gt.constant(np.ones((5, 20), np.float32))

    @gt.function
    def loss(x):
        w.assign(w * 0.999)
        return gt.reduce_mean(gt.tanh(gt.matmul(x, w)) ** 2)

    def work(count):
        for _ in range(count):
            with gt.GradientTape() as outer, gt.GradientTape() as tape:
                y = loss(x)
            (g,) = tape.gradient(y, [w])
            outer.gradient(gt.reduce_sum(g), w)

    stays_flat(work, 1000)


def test_loading_programs_and_forgetting_them_leaves_memory_flat(tmp_path):
    before = config.native_cache_directory()
    config.set_native_cache_directory(tmp_path)

    def work(count):
        for k in range(count):
            f = gt.function(lambda x, k=k: gt.reduce_sum(gt.sin(x) * (k % 3)))
            f(gt.ones(1000))

    try:
        stays_flat(work, 160)
    finally:
        config.set_native_cache_directory(before)


def test_a_loop_of_a_million_iterations_is_differentiated():
    @gt.function
    def f(x, n):
        y = x
        for _ in gt.range(n):
            y = gt.sin(y) + x
        return y

    x = gt.constant(0.5, gt.float64)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = f(x, gt.constant(1_000_000))
    g = tape.gradient(y, x)
    expected_y, expected_g = 0.5, 1.0
    for _ in range(2000):  # long since at its fixed point
        expected_y, expected_g = np.sin(expected_y) + 0.5, np.cos(expected_y) * expected_g + 1.0
    np.testing.assert_allclose([y.numpy(), g.numpy()], [expected_y, expected_g], rtol=1e-12)
    (traced,) = f._state.cache.all()
    ((_, forward, backward),) = traced.program.compiled._halves.values()
    for half in (forward, backward):
        assert type(half._executable).__module__ == "gradtape.backends.llvm.entry.native_executable"


FORK = """
import multiprocessing, os, sys, threading
import numpy as np
import gradtape as gt

gt.config.native_code(True)
gt.config.set_threads(2)

@gt.function
def f(x, w):
    y = gt.matmul(x, w)
    return gt.reduce_sum(gt.exp(gt.sin(y))), gt.tanh(y)

x, w = gt.constant(np.linspace(-1, 1, 600 * 500).reshape(600, 500)), gt.ones([500, 400], gt.float64)
expected = [t.numpy() for t in f(x, w)]

def same():
    return all(np.array_equal(a.numpy(), b) for a, b in zip(f(x, w), expected))

def child(k):
    g = gt.function(lambda x: gt.reduce_sum(x * (k + 1.0)))  # compiled in the child
    return same() and float(g(gt.ones(3))) == 3.0 * (k + 1)

stop = False
def busy():  # another thread runs and compiles while the process forks
    k = 0
    while not stop:
        k += 1
        gt.function(lambda x: gt.cos(x) * float(k))(gt.ones(50_000))
        f(x, w)

thread = threading.Thread(target=busy)
thread.start()
for k in range(4):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if child(k) else 1)
    assert os.waitpid(pid, 0)[1] == 0, k
stop = True
thread.join()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(child, range(4)) == [True] * 4
assert same()
print("fine")
"""


def test_native_functions_with_threads_after_a_fork(tmp_path):
    # OpenBLAS has one thread: with more, a fork while another thread multiplies hangs under NumPy alone as well. The script
    # is a file, where AutoGraph finds its source: a child hangs when it warns, if another thread was warning at the fork
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "1"}
    script = tmp_path / "forks.py"
    script.write_text(FORK)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(script)]  # from 3.12 on Python warns of such forks
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")


def test_programs_are_freed_with_their_function():
    import weakref

    f = gt.function(lambda x: gt.exp(x))
    f(gt.ones(3))
    (traced,) = f._state.cache.all()
    made = weakref.ref(traced.program.compiled)
    del f, traced
    assert made() is None


def test_an_entry_outlives_its_program():
    entry = _compiled(lambda x: gt.exp(x), gt.ones(3)).native
    gc.collect()
    np.testing.assert_allclose(entry(np.ones(3, np.float32))[0], np.exp(np.ones(3)), rtol=1e-6)


def test_programs_in_cycles_are_freed_in_any_order():
    from gradtape.backends.llvm.runtime import machine

    class Owner:
        pass

    gc.collect()
    before = len(machine._ENGINES)
    for k in range(8):
        owner = Owner()
        owner.f = gt.function(lambda x, k=k, owner=owner: gt.reduce_sum(gt.cumsum(x) * k))  # values in between: has a frame
        owner.f(gt.ones(2000))
    assert len(machine._ENGINES) > before
    del owner
    gc.collect()
    assert len(machine._ENGINES) == before


def test_two_threads_run_one_program_at_once():
    @gt.function
    def f(x):
        y = x
        for _ in gt.range(300):
            y = gt.sin(y) + x
        return y

    inputs = [gt.constant(np.linspace(0, k, 4001)) for k in range(4)]
    expected = [f(x).numpy() for x in inputs]
    wrong = []

    def work(k):
        wrong.extend(k for _ in range(5) if not np.array_equal(f(inputs[k]).numpy(), expected[k]))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# -- lists ------------------------------------------------------------------------------------------------------------------


def test_lists_look_like_lists():
    rows = np.arange(6.0).reshape(3, 2)
    made = StackedList(rows, gt.float64)
    assert len(made) == 3
    assert made
    assert not StackedList(rows[:0], gt.float64)
    assert isinstance(made, TensorList)
    assert made.nbytes == rows.nbytes
    assert made.dtype == rows.dtype
    np.testing.assert_array_equal(made[-1], rows[-1])
    np.testing.assert_array_equal(np.stack(made), rows)
    np.testing.assert_array_equal(np.array(TensorList(made, made.item)), rows)
    assert [r.tolist() for r in made] == rows.tolist()
    assert [r.tolist() for r in made[1:]] == rows[1:].tolist()
