"""A compiled function warns of the floating-point events that the undecorated one warns of: same line, words, and number."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.functions import program_events
from tests.user.test_float_warnings import heard

WEIGHT = gt.Variable([-1.0, 2.0])
X = gt.constant([0.5, 2.0])


def straight(x: Any) -> Any:
    return gt.math.log(x - 1) / (x - 2.0)


def in_a_loop(x: Any) -> Any:
    total = x
    for i in gt.range(3):
        total = total + gt.sqrt(x * gt.cast(i - 1, gt.float32))
    return total  # fmt: skip


def in_a_branch(x: Any) -> Any:
    if gt.reduce_sum(x) > 0:
        return x / gt.zeros_like(x)
    return gt.math.log(-x)


def inner(x: Any) -> Any:
    return x**-1.5


def called(x: Any) -> Any:
    return inner(x - 0.5) + gt.sqrt(WEIGHT)


def unselected(x: Any) -> Any:
    return gt.where(x > 100, gt.math.log(x - 1), x)


def composite(x: Any) -> Any:
    return gt.math.log_sigmoid(x) + gt.nn.relu(gt.math.rsqrt(x - 0.5))


def python_loop(x: Any) -> Any:
    for _ in range(30):
        x = gt.exp(x)
    return x


def called_back(x: Any) -> Any:
    """Operations that machine code leaves to NumPy, between others."""
    return gt.math.log(x - 1) + gt.cast(gt.unique(gt.sqrt(x - 1))[1], gt.float32) * gt.math.log(x)


def gradient_inside(x: Any) -> Any:
    """A derivative that is infinite is no event of eager code."""
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.sqrt(x - 0.5)
    return tape.gradient(y, x)


def silenced(x: Any) -> Any:
    with np.errstate(all="ignore"):
        return gt.math.log(-x)


def harmless(x: Any) -> Any:
    return gt.nn.softmax(gt.exp(gt.minimum(x * 1000.0, 3.0))) + gt.where(x > 1, gt.math.log(gt.maximum(x, 1e-7)), 0.0)


PROGRAMS = [
    straight, in_a_loop, in_a_branch, called, composite, python_loop, called_back, gradient_inside, silenced, harmless,
]  # fmt: skip
SILENT = [gradient_inside, silenced, harmless]


def said(run: Callable[[], object], action: str = "default") -> list[tuple[str, int, str]]:
    vars(sys.modules[__name__]).pop("__warningregistry__", None)
    with heard(action) as caught:
        run()
    return [(w.filename, w.lineno, str(w.message)) for w in caught]


def taped(function: Any) -> None:
    with gt.GradientTape() as tape:
        tape.watch(X)
        out = function(X)
    tape.gradient(out, X)


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_eager_code(program: Any, backend: str) -> None:
    eager = said(lambda: program(X))
    assert bool(eager) is (program not in SILENT)
    assert all(file == __file__ for file, _, _ in eager)
    function = gt.function(program, backend=backend)
    assert said(lambda: [function(X) for _ in range(9)]) == eager
    recorded = gt.function(program, backend=backend)
    assert said(lambda: [taped(recorded) for _ in range(3)]) == eager


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_what_happens_where_nobody_looks(backend: str) -> None:
    """Lanes that `where` throws away: machine code may leave them out (without masks, a processor jumps over the logarithm),
    and then nothing happens there; what does is told as in eager code."""
    eager, function = said(lambda: unselected(X)), gt.function(unselected, backend=backend)
    assert len(eager) == 1
    for run in (function, taped):
        told = said(lambda run=run: [run(X if run is function else function) for _ in range(3)])  # type: ignore[misc]
        assert told == eager or (backend == "llvm" and told == [])


def test_a_value_that_is_bad_only_later() -> None:
    function = gt.function(straight)
    good, bad = gt.constant([1.5, 3.0]), gt.constant([0.5, 3.0])
    assert said(lambda: [function(good) for _ in range(5)]) == []
    ((_, _, text),) = said(lambda: function(bad))
    assert text.startswith("log in `gt.math.log(x - 1)` is not finite")


def test_flags_that_others_left_are_not_ours() -> None:
    function = gt.function(harmless)
    function(X)
    looks: list[object] = []
    before = program_events.HeardEvaluation.run
    program_events.HeardEvaluation.run = lambda self, *args: looks.append(args) or before(self, *args)  # type: ignore[method-assign, assignment]
    try:
        with np.errstate(all="ignore"):
            np.log(np.float32(-1.0) * np.ones(3, np.float32))
        function(X)
    finally:
        program_events.HeardEvaluation.run = before  # type: ignore[method-assign]
    assert not looks


def test_those_who_asked_for_something_else_get_it() -> None:
    function = gt.function(straight)
    with np.errstate(all="ignore"):
        assert said(lambda: function(X)) == []
    for _ in range(3):  # each time: nobody waits for the next look after an error
        with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
            function(X)
        with pytest.raises(RuntimeWarning, match=r"log in `gt\.math\.log"):  # warnings are errors in the tests
            function(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(np.isnan(function(X)), [True, True])


def test_how_often_a_program_is_looked_at() -> None:
    """The look takes longer than the call: after n calls there were about log2(n)."""
    function, looks = gt.function(straight), 0
    before = program_events.HeardEvaluation.run

    def counted(self: Any, *args: Any) -> Any:
        nonlocal looks
        looks += 1
        return before(self, *args)

    program_events.HeardEvaluation.run = counted  # type: ignore[method-assign]
    try:
        said(lambda: [function(X) for _ in range(1000)], "ignore")
    finally:
        program_events.HeardEvaluation.run = before  # type: ignore[method-assign]
    assert looks == 9


@pytest.mark.parametrize("place", [3, -3])
def test_events_in_the_threads_of_a_large_kernel(place: int) -> None:
    """In the first chunk or in the last: one of them is another thread's, nearly always."""
    values = np.ones(1 << 20, np.float32)
    values[place] = -1.0
    function = gt.function(lambda x: gt.sqrt(x) * 2.0 + gt.sin(x))
    gt.config.threading.set_intra_op_parallelism_threads(2)
    try:
        assert len(said(lambda: function(gt.constant(values)), "always")) == 1
    finally:
        gt.config.threading.set_intra_op_parallelism_threads(0)


def test_calls_in_threads() -> None:
    function = gt.function(straight)
    function(gt.constant([1.5, 3.0]))

    def run() -> None:
        thread = threading.Thread(target=lambda: function(X))
        thread.start()
        thread.join()

    assert said(run) == said(lambda: straight(X))


def test_what_must_not_run_twice_is_judged_by_its_results() -> None:
    times: list[Any] = []

    def counted(x: Any) -> Any:
        times.append(x)
        return x

    @gt.function
    def noisy(x: Any) -> Any:
        return gt.math.log(gt.numpy_function(counted, [x], gt.float32))

    assert said(lambda: noisy(gt.constant([1.0, 2.0]))) == []
    ((file, line, text),) = said(lambda: noisy(gt.constant([1.0, -2.0])))
    assert (file, line) == (__file__, noisy.python_function.__code__.co_firstlineno + 5)
    assert text.startswith("function `noisy` gave values that are not finite, from inputs that are")
    assert len(times) == 2
    assert said(lambda: noisy(gt.constant([1.0, np.nan]))) == []


def test_a_users_function_in_a_program_has_numpy_s_warning():
    """It runs in the caller's error state, as in eager code: NumPy's own words, at the line in the function."""
    f = gt.function(lambda x: gt.numpy_function(lambda v: np.log(v), [x], gt.TensorSpec((), gt.float64)) + 1.0)
    with pytest.warns(RuntimeWarning, match="^invalid value encountered in log$") as caught:
        f(gt.constant(-1.0, gt.float64))
    assert [warning.filename for warning in caught] == [__file__]
    with np.errstate(invalid="ignore"):
        f(gt.constant(-1.0, gt.float64))
