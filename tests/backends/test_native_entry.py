"""The door to native code: arguments in any form, errors, memory, threads, Ctrl-C, and the cache on disk."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends.llvm import object_cache
from gradtape.backends.llvm.stacked import StackedList
from gradtape.errors import InternalError
from gradtape.ops.list_values import TensorList


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
    assert type(made).__module__ == "gradtape.backends.llvm.executable"
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


def test_calls_leave_memory_flat():
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

    def resident():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    work(300)
    before = resident()
    work(2000)
    assert resident() - before < 2 << 20


def test_programs_are_freed_with_their_function():
    import weakref

    f = gt.function(lambda x: gt.exp(x))
    f(gt.ones(3))
    (traced,) = f._state.cache.all()
    made = weakref.ref(traced.program.compiled)
    del f, traced
    assert made() is None


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


def test_ctrl_c_interrupts_a_loop_that_never_ends(tmp_path):
    script = """
        import gradtape as gt
        gt.config.native_code(True)

        @gt.function
        def f(x):
            while x > 0.0:
                x = x + 1.0
                if x > 1e6:
                    x = x - 1e6
            return x

        f(gt.constant(-1.0))
        print("running", flush=True)
        try:
            f(gt.constant(1.0))
        except KeyboardInterrupt:
            print("interrupted", f(gt.constant(-2.0)).numpy())
    """
    file = tmp_path / "endless.py"
    file.write_text(textwrap.dedent(script))
    with subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n"
        threading.Timer(0.3, process.send_signal, [signal.SIGINT]).start()
        out, _ = process.communicate(timeout=60)
    assert out == "interrupted -2.0\n"


# -- the cache on disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path):
    before = config.native_cache_directory()
    config.set_native_cache_directory(tmp_path / "cache")
    yield tmp_path / "cache"
    config.set_native_cache_directory(before)


def _run_once(factor):
    return _compiled(lambda x: x * factor, gt.ones(3))


def test_object_code_is_found_again(directory):
    assert not _run_once(3.25).cached
    assert len(list(directory.glob("*/*.o"))) == 1
    again = _run_once(3.25)
    assert again.cached
    np.testing.assert_array_equal(again(np.ones(3, np.float32))[0], np.full(3, 3.25, np.float32))
    assert not _run_once(3.5).cached


def test_a_damaged_file_is_made_again(directory):
    _run_once(1.25)
    (file,) = directory.glob("*/*.o")
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(damaged)
        made = _run_once(1.25)
        assert not made.cached
        np.testing.assert_array_equal(made(np.ones(3, np.float32))[0], np.full(3, 1.25, np.float32))
        assert file.read_bytes() == whole


def test_the_cache_is_bounded(directory):
    for k in range(4):
        object_cache.store(f"{k}" * 64, bytes(1000))
        (file,) = directory.glob(f"*/{k}*.o")
        os.utime(file, (k, k))
    object_cache.trim(directory, 2500)
    assert sorted(file.name[0] for file in directory.glob("*/*.o")) == ["2", "3"]


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path):
    before = config.native_cache_directory()
    (tmp_path / "file").write_text("")
    config.set_native_cache_directory(tmp_path / "file" / "inside")
    try:
        assert not _run_once(5.25).cached
        config.set_native_cache_directory(None)
        assert not _run_once(5.25).cached
    finally:
        config.set_native_cache_directory(before)


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
