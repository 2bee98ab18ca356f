"""What goes wrong in native code: the exceptions of eager code with the user's line, nothing half done or lost, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import traceback

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends.llvm.runtime.allocator import CALLBACK_FAILED
from tests.harness.memory import stays_flat
from tests.harness.process import PATIENCE


@pytest.fixture(autouse=True)
def natively():
    before = config.native_code_enabled()
    config.native_code(True)
    yield
    config.native_code(before)


C = gt.constant
THREE = [1.0, 2.0, 3.0]
TWELVE = list(np.arange(12.0))


# -- the same exceptions ----------------------------------------------------------------------------------------------------


def place(x, i):
    return x[i] * 2.0


def gathered(x, i):
    return gt.gather(x, i) + 1.0


def changed(x, i):
    y = gt.identity(x)
    y[i] = 5.0
    return y


def part(x, i):
    return gt.slice(x, [i], [2])


def part_of_size(x, i):
    return gt.slice(x, [1], [i]) * 2.0


def part_anywhere(x, i):
    return gt.slice(x, [i], [i]) * 2.0


def asserted(x, i):
    assert gt.reduce_sum(x) < gt.cast(i, x.dtype), f"the sum is {gt.reduce_sum(x)}"
    return x


def checked(x, i):
    return gt.debugging.check_numerics(gt.sqrt(x - gt.cast(i, x.dtype)), "a root") * 2.0


def quotients(x, i):
    return C([1, 2, 3]) // i


def remainders(x, i):
    return C([1, 2, 3]) % i


def popped(x, i):
    values = []
    for _ in gt.range(2):
        values.append(x * 2.0)
    for _ in gt.range(i):
        x = x + values.pop()
    return x


def listed(x, i):
    values = []
    for k in gt.range(3):
        values.append(x[k])
    return values[i]


def refined(x, i):
    return gt.reshape(x, [i, -1]) + 1.0


def resized(x, i):
    return gt.reshape(x, [i, i]) + 1.0


def widened(x, i):
    return gt.broadcast_to(x, [i, i]) + 1.0


def added(x, i):
    return x[:i] + x[:2]


def tiled(x, i):
    return gt.tile(x[:i], [2]) + gt.tile(x[: i - 1], [2])


def joined(x, i):
    return gt.concat([x[:i], x[:2]], 0) * gt.concat([x[:2], x[:2]], 0)


def multiplied(x, i):
    return gt.reshape(x[: 2 * i], [-1, 2]) @ gt.ones([i, 2])


def stacked(x, i):
    return gt.stack([x[:i], x[:2]])


def assigned(x, i):
    y = gt.identity(x)
    y[:i] = x[:2]
    return y


def masked(x, i):
    return gt.boolean_mask(x[:i], x > 1.0)


def made(x, i):
    return gt.zeros([i, 2]) + 1.0


def counted(x, i):
    return gt.reduce_sum(gt.range(0, 5, i))


def scattered(x, i):
    return gt.scatter_nd(gt.reshape(i, [1, 1]), x[:1], [3])


CASES = [
    (place, THREE, 2, 3), (place, THREE, -3, -4), (gathered, THREE, [0, 2], [0, 3]), (gathered, THREE, [1, 1], [0, -4]),
    (changed, THREE, 0, 3), (changed, THREE, [0, 1], [0, 9]), (part, THREE, 1, 2),
    (part_of_size, THREE, 2, 3), (part_anywhere, THREE, 1, 2), (asserted, THREE, 7, 6),
    (checked, THREE, 1, 2), (quotients, THREE, [1, 2, 3], [1, 0, 3]), (quotients, THREE, 2, 0),
    (remainders, THREE, [1, 2, 3], [1, 0, 3]), (popped, THREE, 2, 3), (listed, THREE, 2, 3), (listed, THREE, -3, -4),
    (refined, TWELVE, 3, 5), (refined, TWELVE, 12, 0), (refined, TWELVE, 1, 24), (resized, TWELVE[:4], 2, 3),
    (resized, TWELVE[:4], 2, 1), (widened, TWELVE, 12, 5), (added, TWELVE, 2, 5), (tiled, TWELVE[:1], 2, 1),
    (joined, TWELVE, 2, 5), (joined, TWELVE, 2, 3), (multiplied, TWELVE, 2, 3), (stacked, TWELVE, 2, 3),
    (assigned, TWELVE, 2, 5), (masked, THREE, 3, 2), (made, THREE, 4, -1), (counted, THREE, 2, 0), (scattered, THREE, 1, 3),
]  # fmt: skip


def outcome(call, *args):
    with np.errstate(all="ignore"):
        try:
            return gt.nest.map_structure(lambda t: t.numpy(), call(*args)), None
        except Exception as error:
            return None, error


def programs_of(f):
    return [traced.program.compiled for traced in f._state.cache.all()]


@pytest.mark.parametrize(("function", "x", "good", "bad"), CASES, ids=lambda value: getattr(value, "__name__", None))
def test_an_error_is_the_one_of_eager_code(function, x, good, bad):
    f = gt.function(function)
    x, good, bad = C(x), C(good), C(bad)
    f(x, good)
    found, error = outcome(f, x, bad)
    expected, eager = outcome(function, x, bad)
    assert eager is not None, expected
    assert error is not None, found
    assert (type(error), str(error)) == (type(eager), str(eager))
    first = function.__code__.co_firstlineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__]
    assert any(first <= line < first + 8 for line in lines), f"the user's line is not in {lines}"
    for program in programs_of(f):  # what failed was native, and still works
        assert type(program._executable).__module__ == "gradtape.backends.llvm.entry.native_executable"
    np.testing.assert_array_equal(f(x, good).numpy(), outcome(function, x, good)[0])


@pytest.mark.parametrize(("function", "x", "good", "bad"), CASES, ids=lambda value: getattr(value, "__name__", None))
def test_an_error_in_the_forward_half_is_the_same(function, x, good, bad):
    f = gt.function(function)
    x, bad = C(x), C(bad)

    def watched(g):
        with gt.GradientTape() as tape:
            tape.watch(x)
            return g(x, bad)

    _, error = outcome(watched, f)
    _, eager = outcome(watched, function)
    assert (type(error), str(error)) == (type(eager), str(eager))


def test_an_error_after_an_effect_is_raised_where_it_happens(capsys):
    @gt.function
    def f(x, i):
        gt.print("once")
        y = x[i]
        gt.print("never")
        return y

    f(C(THREE), C(1))
    capsys.readouterr()
    with pytest.raises(IndexError, match=r"index 7 is out of bounds .*test_native_errors.py:\d+"):
        f(C(THREE), C(7))
    printed = capsys.readouterr()
    assert (printed.out + printed.err).split() == ["once"]


def test_an_exception_of_a_python_function_comes_through():
    class OwnError(Exception):
        pass

    def odd(a):
        if a[0] > 2.0:
            raise OwnError("too large")
        return a * 2

    @gt.function
    def f(x):
        for _ in gt.range(5):
            x = gt.numpy_function(odd, [x], gt.TensorSpec([2], gt.float32))
        return x

    with pytest.raises(OwnError, match="too large") as found:
        f(C([1.0, 2.0]))
    assert "odd" in [frame.name for frame in traceback.extract_tb(found.value.__traceback__)]
    assert programs_of(f)[0]._executable.notes


def test_a_python_function_gives_the_shape_it_names():
    @gt.function
    def f(x):
        y = gt.numpy_function(lambda a: a[:2], [x], gt.TensorSpec([None], gt.float32))
        return y * 2.0, gt.numpy_function(lambda a: a[:2], [x], gt.TensorSpec([2], gt.float32))

    for found in f(C(THREE)):
        assert found.numpy()[0] in (1.0, 2.0)
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"returned the shape \(1,\), Tout says \(2,\)"):
        gt.function(f.python_function)(C([1.0]))


def test_a_python_function_that_names_no_shape_is_left_to_the_interpreter():
    @gt.function
    def f(x):
        return gt.numpy_function(lambda a: a * 2, [x], gt.float32) + 1.0

    np.testing.assert_array_equal(f(C([1.0, 2.0])).numpy(), [3.0, 5.0])
    assert "rank" in programs_of(f)[0]._executable.instead


# -- nothing half done ------------------------------------------------------------------------------------------------------


def _assign_then_fail(v, x, i):
    v.assign(x * 2.0)
    y = x[i]
    v.assign_add(x)
    return y


def _assign_in_a_loop(v, x, i):
    for k in gt.range(i):
        v.assign_add(gt.ones(3) * x[k])
    return v + 0.0


def _assign_then_assert(v, x, i):
    v.assign(x)
    assert gt.reduce_sum(x) < 0.0, "no"
    v.assign(x * 2.0)
    return x


@pytest.mark.parametrize("function", [_assign_then_fail, _assign_in_a_loop, _assign_then_assert])
def test_variables_after_an_error_are_those_of_eager_code(function):
    left = []
    for compile in (lambda f: f, lambda f: gt.function(f, jit_compile=False), lambda f: gt.function(f, jit_compile=True)):
        v = gt.Variable(np.zeros(3, np.float32))
        _, error = outcome(compile(function), v, C(THREE), C(5))
        assert error is not None
        left.append((type(error), str(error), v.numpy().tolist()))
    assert left[0] == left[1] == left[2]


def test_variables_after_an_error_in_a_program_with_effects_are_those_of_the_interpreter(capsys):
    def f(v, x, i):
        v.assign(x)
        gt.print("effect")
        return x[i]

    left = []
    for native in (False, True):
        v = gt.Variable(np.zeros(3, np.float32))
        _, error = outcome(gt.function(f, jit_compile=native), v, C(THREE), C(5))
        left.append((type(error), str(error), v.numpy().tolist()))
    assert left[0] == left[1]


def test_counting_to_a_negative_number_is_counting_nothing():
    def f(n):
        total = C(0)
        for i in gt.range(n):
            total = total + i + 1
        return total, gt.range(n), gt.zeros([gt.size(gt.range(n))])

    for native in (False, True):
        g = gt.function(f, jit_compile=native)
        for n in (3, 0, -2):
            for found, expected in zip(g(C(n)), f(C(n)), strict=True):
                np.testing.assert_array_equal(found.numpy(), expected.numpy())


# -- sizes that no memory holds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1 << 32, (1 << 31) + 1, 1 << 40])
def test_arrays_too_large_for_any_memory_are_an_error_of_eager_code(size):
    def table(n):
        return gt.reduce_sum(gt.sin(gt.cumsum(gt.zeros([n, n]) + 1.0)))

    def lazy(n):
        return gt.reduce_sum(gt.sin(gt.zeros([n, n]) + 1.0))

    def returned(n):
        return gt.zeros([n, n]) + 1.0

    for function in (table, lazy, returned):
        f = gt.function(function)
        np.testing.assert_allclose(f(C(3)).numpy(), function(C(3)).numpy(), rtol=1e-6)
        _, error = outcome(f, C(size))
        _, eager = outcome(function, C(size))
        assert (type(error), str(error)) == (type(eager), str(eager))
        assert isinstance(error, (ValueError, MemoryError))


def test_more_elements_than_a_32_bit_index_without_memory_for_them():
    n = (1 << 31) + 7

    @gt.function
    def f(x):
        return gt.reduce_sum(gt.broadcast_to(gt.cast(x, "int64"), [n]))

    assert f(C(np.int8(3))).numpy() == 3 * n


def test_a_huge_view_is_an_error_not_a_crash():
    @gt.function
    def f(x):
        return gt.reduce_max(x * 2.0)

    huge = np.broadcast_to(np.float64(1.0), (1 << 46,))
    with pytest.raises((MemoryError, ValueError)):
        f(gt.constant(huge))
    (made,) = [program._executable for program in programs_of(f)] or [None]
    assert made is None or made.rescued == 0


# -- tools ------------------------------------------------------------------------------------------------------------------


def test_tools_of_a_tape_look_into_native_functions():
    @gt.function
    def f(x):
        y = gt.math.log(x)
        return gt.reduce_sum(y * x)

    x = gt.Variable([1.0, 0.0, 2.0])
    with gt.GradientTape(persistent=True) as tape, pytest.warns(RuntimeWarning) as warned:
        y = f(x)
    assert ["log(0) is -inf" in str(warned[0].message), "0 * inf" in str(warned[1].message)] == [True, True]
    with np.errstate(all="ignore"):
        assert np.isnan(y.numpy())
        tape.gradient(y, x)
    report = tape.nan_report()
    assert (report.phase, report.op) == ("forward", "log")
    assert report.location.endswith(f"test_native_errors.py:{f.python_function.__code__.co_firstlineno + 2}")


def test_explain_says_the_same_of_native_functions():
    def f(x):
        return gt.reduce_sum(gt.stop_gradient(x) * 2.0)

    said = []
    for compile in (lambda f: f, lambda f: gt.function(f, jit_compile=False), lambda f: gt.function(f, jit_compile=True)):
        x = gt.Variable(THREE, name="v")
        with gt.GradientTape() as tape:
            y = compile(f)(x)
        found = tape.explain(y, x)
        said.append((found.cause, found.location))
    assert said[0] == said[1] == said[2]
    assert said[0][0] == "stop_gradient"


def test_a_nan_of_the_backward_half_is_found_natively():
    @gt.function
    def f(x):
        return gt.reduce_sum(gt.sqrt(x))

    x = gt.Variable([4.0, 0.0])
    with gt.GradientTape() as tape:
        y = f(x)
    with np.errstate(all="ignore"):
        assert np.isinf(tape.gradient(y, x).numpy()[1])
    report = tape.nan_report()
    assert (report.phase, report.op) == ("backward", "sqrt")


# -- memory on the failing path ---------------------------------------------------------------------------------------------


def test_calls_that_fail_leave_memory_flat():
    """Each has lists and blocks of memory when it fails: losing one of them is some 8 KB per call."""

    @gt.function
    def f(x, i):
        values, total = [], x
        while gt.reduce_sum(total) > 1.0:
            total = total * 0.5
            values.append(total[: gt.shape(x)[0] // 2])
        return values[i] + gt.reshape(total, [2, -1])[0]

    x = C(np.full(2000, 0.5, np.float32))
    f(x, C(0))
    compiled = programs_of(f)[0]._executable
    arguments = [x.numpy(), np.int32(1000)]

    def work(count):
        for _ in range(count):
            assert compiled._entry(*arguments).__class__ is int

    stays_flat(work, 5000)


def test_exceptions_of_callbacks_leave_memory_flat():
    def odd(a):
        raise ValueError("no")

    @gt.function
    def f(x):
        values = []
        while gt.reduce_sum(x) > 1.0:
            x = x * 0.5
            values.append(x)
        y = gt.numpy_function(odd, [gt.stack(values)], gt.TensorSpec([2000], gt.float32))
        return gt.reduce_sum(y)

    x = C(np.full(2000, 0.5, np.float32))

    def work(count):
        for _ in range(count):
            with pytest.raises(ValueError, match="no"):
                f(x)

    stays_flat(work, 1000)


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------------

ENDLESS = {
    "scalars": """
        def f(x):
            while x > 0.0:
                x = x + 1.0
                if x > 1e6:
                    x = x - 1e6
            return x
        start = gt.constant(1.0), gt.constant(-2.0)
    """,
    "counted": """
        def f(x):
            for i in gt.range(gt.cast(x, "int32")):
                x = x + 1.0
            return x
        start = gt.constant(2e9), gt.constant(-2.0)
    """,
    "products": """
        def f(x):
            while x[0, 0] > 0.0:
                x = gt.matmul(x, x) * 0.0 + 1.0
            return x
        start = gt.ones([64, 64]), -gt.ones([64, 64])
    """,
    "nested": """
        def f(x):
            while x > 0.0:
                for i in gt.range(50):
                    j = gt.constant(0)
                    while j < 100:
                        x = x * 0.9 + 1.0
                        j = j + 1
            return x
        start = gt.constant(1.0), gt.constant(-2.0)
    """,
    "callbacks": """
        def f(x):
            while x > 0.0:
                x = gt.numpy_function(lambda a: a, [x], gt.TensorSpec([], gt.float32))
            return x
        start = gt.constant(1.0), gt.constant(-2.0)
    """,
}

SCRIPT = """
import gradtape as gt
gt.config.native_code(True)
{program}
f = gt.function(f)
f(start[1])
try:
    print("running", flush=True)
    f(start[0])
except KeyboardInterrupt:
    print("interrupted", bool((f(start[1]).numpy() < 0.0).all()))
"""

BACKWARD = """
import gradtape as gt, numpy as np
gt.config.native_code(True)

@gt.function
def f(x, n):
    for i in gt.range(n):
        x = gt.sin(x) * 1.01 + x
    return gt.reduce_sum(x)

def gradient(n):
    x = gt.Variable(np.ones(500, np.float32))
    with gt.GradientTape(persistent=True) as tape:
        y = f(x, gt.constant(n))
    return tape, y, x

tape, y, x = gradient(10)
tape.gradient(y, x)
tape, y, x = gradient(20_000)
try:
    print("running", flush=True)
    while True:
        tape.gradient(y, x)
except KeyboardInterrupt:
    tape, y, x = gradient(10)
    print("interrupted", bool(np.isfinite(tape.gradient(y, x).numpy()).all()))
"""


def interrupted(tmp_path, script):
    file = tmp_path / "endless.py"
    listening = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"  # who runs the tests may ignore it
    file.write_text(listening + script)
    with subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "running\n"
        timer = threading.Timer(0.2, process.send_signal, [signal.SIGINT])
        timer.start()
        try:
            out, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    return out


@pytest.mark.parametrize("name", ENDLESS)
def test_ctrl_c_interrupts_loops(tmp_path, name):
    script = SCRIPT.format(program=textwrap.dedent(ENDLESS[name]))
    assert interrupted(tmp_path, script) == "interrupted True\n"


def test_ctrl_c_interrupts_the_backward_half(tmp_path):
    assert interrupted(tmp_path, BACKWARD) == "interrupted True\n"


def test_an_interrupt_before_the_first_line_of_a_call_back_is_not_lost():
    """Then no error is noted, and native code sees only that the call did not do its work."""
    f = gt.function(lambda x: gt.sort(x) * 2.0)
    f(C(THREE))
    (made,) = [program._executable for program in programs_of(f)]
    with pytest.raises(KeyboardInterrupt):
        made.failed(CALLBACK_FAILED, [np.ones(3, np.float32)])


def test_an_interrupt_that_ctypes_swallows_ends_the_loop(monkeypatch):
    """ctypes drops an exception that is raised before a call back's first line, and returns what the last call returned."""
    turns = []
    f = gt.function(
        lambda x: gt.while_loop(
            lambda x: x < 100.0,
            lambda x: gt.numpy_function(lambda a: turns.append(1) or a + np.float32(1.0), [x], gt.TensorSpec([], gt.float32)),
            [x],
        )
    )
    f(C(100.0))
    (made,) = [program._executable for program in programs_of(f)]
    calls = made._calls.calls

    class Interrupting(list):
        def __getitem__(self, number):
            if len(turns) == 3:
                turns.append(1)
                raise KeyboardInterrupt
            return list.__getitem__(self, number)

    monkeypatch.setattr(made._calls, "calls", Interrupting(calls))
    monkeypatch.setattr(sys, "unraisablehook", lambda event: None)
    with pytest.raises(KeyboardInterrupt):
        f(C(0.0))
    assert len(turns) == 4
