"""What Python calls by itself while a function is traced, and what a trace leaves behind of that: nothing.

That reads and writes in special methods, generators and context managers count is asked by random programs
(`test_outside_state.py`); here are the rules around it.
"""

from __future__ import annotations

import abc
import io
import logging
import queue
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError, OperatorNotAllowedInGraphError


class Scale:
    def __init__(self, factor):
        self.factor = factor

    def __mul__(self, other):
        return other * self.factor

    def __float__(self):
        return float(self.factor)

    def __lt__(self, other):
        return self.factor < other.factor


def test_what_an_operator_reads_is_guarded_and_its_class_is_as_it_was():
    methods = {name: vars(Scale)[name] for name in ("__mul__", "__float__", "__lt__")}
    scale, seen = Scale(2.0), []

    @gt.function
    def f(x):
        seen.append(vars(Scale)["__mul__"] is methods["__mul__"])
        return scale * x + float(scale)

    assert float(f(gt.constant(1.0))) == 4.0
    scale.factor = 3.0
    assert float(f(gt.constant(1.0))) == 6.0
    assert {name: vars(Scale)[name] for name in methods} == methods


def test_classes_are_as_they_were_after_an_error_and_in_nested_traces():
    method, scale = vars(Scale)["__mul__"], Scale(2.0)
    inner = gt.function(lambda x: scale * x)

    @gt.function
    def outer(x):
        y = inner(x) + scale * x
        if scale.factor > 5:
            raise KeyError("no")
        return scale * y

    assert float(outer(gt.constant(1.0))) == 8.0
    scale.factor = 6.0
    with pytest.raises(KeyError):
        outer(gt.constant(1.0))
    assert vars(Scale)["__mul__"] is method


def test_other_threads_run_the_methods_as_they_are():
    scale, results = Scale(2.0), []

    @gt.function
    def f(x):
        y = scale * x
        worker = threading.Thread(target=lambda: results.append(scale * 10.0))
        worker.start()
        worker.join()
        return y

    assert float(f(gt.constant(1.0))) == 2.0
    assert results[:1] == [20.0]


def test_a_loop_with_them_is_one_loop_of_the_program():
    class Layer:
        def __init__(self):
            self.weight = gt.Variable(0.5)

        def __call__(self, x):
            return x * self.weight

        def __matmul__(self, x):
            return x + self.weight

    layer = Layer()

    @gt.function
    def f(x):
        for _ in range(100):
            x = layer @ layer(x)
        return x

    assert abs(float(f(gt.constant(1.0))) - 1.0) < 1e-6
    assert "turn by turn" not in str(f.explain())


def test_objects_made_inside_and_sorted_by_their_own_order():
    @gt.function
    def f(x, shift):
        scales = sorted([Scale(3 - shift), Scale(1 + shift), Scale(2)])
        return scales[0] * x + scales[-1].factor

    assert [float(f(gt.constant(10.0), n)) for n in (0, 1, 5)] == [13.0, 22.0, -14.0]


def test_a_conversion_may_give_a_value_of_the_program():
    @gt.function
    def f(x):
        return float(Scale(x)) + 1.0

    assert [float(f(gt.constant(v))) for v in (1.0, 2.0)] == [2.0, 3.0]


def test_abstract_classes_are_made_like_others():
    made = []

    class Base(abc.ABC):
        def __init__(self, value):
            made.append(1)
            self.value = value

        @abc.abstractmethod
        def get(self): ...

    class Twice(Base):
        def get(self):
            return self.value * 2.0

    f = gt.function(lambda x: Twice(x).get() + len(made))
    assert [float(f(gt.constant(1.0))) for _ in range(3)] == [3.0, 4.0, 5.0]


def test_an_end_that_a_tensor_decides_is_refused():
    class Until:
        def __init__(self, limit):
            self.n, self.limit = 0.0, limit

        def __iter__(self):
            return self

        def __next__(self):
            self.n += 1.0
            if self.limit < self.n:
                raise StopIteration
            return self.n

    @gt.function
    def f(x):
        total = x
        for v in Until(x):
            total = total + v
        return total

    with pytest.raises(OperatorNotAllowedInGraphError, match=r"test_special_methods.py:\d+: a tensor's value.*StopIteration"):
        f(gt.constant(3.0))


def test_a_number_of_the_program_is_no_key():
    @gt.function
    def f(x, n):
        for _ in gt.range(n):
            x = x * len({1.0, float(x)})
        return x

    with pytest.raises(OperatorNotAllowedInGraphError, match="is a key or a member of a set"):
        f(gt.constant(2.0), gt.constant(3))


def test_generators_read_and_write_like_any_code():
    state = {"n": 1}

    def rows(x):
        try:
            for i in range(2):
                state["n"] += 1
                yield x * state["n"] * i
        finally:
            state["n"] += 10

    f = gt.function(lambda x: sum(rows(x)))
    assert [float(f(gt.constant(1.0))) for _ in range(3)] == [3.0, 15.0, 27.0]
    assert state["n"] == 37


def test_a_part_of_an_array_and_the_whole():
    array = np.arange(4.0)

    @gt.function
    def f(x):
        return gt.reduce_sum(x * array) + x * array[1:3].sum()

    assert float(f(gt.constant(1.0))) == 9.0
    array[2] = 10.0
    assert float(f(gt.constant(1.0))) == 25.0
    array[0] = 1.0
    assert float(f(gt.constant(1.0))) == 26.0


def test_an_array_that_is_only_an_operand_needs_one_trace():
    array = np.arange(3.0)
    f = gt.function(lambda x: gt.reduce_sum(x * array) * array.shape[0])
    for n in range(3):
        array[0] = n
        assert float(f(gt.constant(1.0))) == 3.0 * (n + 3)
    assert f.experimental_get_tracing_count() == 1


def test_an_array_written_where_a_tensor_decides_is_refused():
    array = np.zeros(2)

    @gt.function
    def f(x):
        if x > 0:
            array[0] = 1.0
        return x

    with pytest.raises(
        InvalidArgumentError, match=r"test_special_methods.py:\d+: in a gt.function, this NumPy array from outside"
    ):
        f(gt.constant(1.0))
    assert array.tolist() == [0.0, 0.0]


def test_an_array_from_outside_that_is_returned_or_kept_is_that_array():
    array, kept = np.arange(3.0), {}

    @gt.function
    def f(x):
        kept["a"] = array
        return x * array[0]

    f(gt.constant(1.0))
    assert kept["a"] is array


def test_variables_whose_initial_value_follows_from_the_call():
    class Centred(gt.Module):
        def __init__(self):
            self.mean, self.calls = None, 0

        @gt.function
        def __call__(self, x):
            self.calls += 1
            if self.mean is None:
                self.mean = gt.Variable(gt.reduce_mean(x), trainable=False)
            return x - self.mean

    layer = Centred()
    np.testing.assert_array_equal(layer(gt.constant([1.0, 3.0])), [-1.0, 1.0])
    np.testing.assert_array_equal(layer(gt.constant([5.0, 9.0])), [3.0, 7.0])
    assert layer.calls == 2
    assert layer.__call__.experimental_get_tracing_count() == 1
    around = gt.function(lambda layer, x: layer(x) * 2.0)
    np.testing.assert_array_equal(around(Centred(), gt.constant([1.0, 3.0])), [-2.0, 2.0])
    with pytest.raises(ValueError, match="makes a variable each time it is called"):
        gt.function(lambda x: gt.Variable(x) * 2.0)(gt.constant(1.0))


def test_what_only_tells_somebody_something_happens_at_each_call(caplog):
    log, page, line, step = logging.getLogger("told"), io.StringIO(), queue.Queue(), [0]

    @gt.function
    def f(x):
        step[0] += 1
        log.warning("step %d: %s", step[0], x)
        page.write(f"{step[0]}:{x:.1f};")
        line.put(x)
        if x > 1.0:
            log.warning(f"large {x:.0f}")
        for i in gt.range(2):
            logging.warning("turn %d", i)
        own = io.StringIO()  # the function's own: part of its work
        own.write("abc")
        return x * len(own.getvalue())

    assert [float(f(gt.constant(v))) for v in (1.0, 2.0)] == [3.0, 6.0]
    assert [m.split(", shape")[0] for m in caplog.messages] == [
        "step 1: gt.Tensor(1.0", "turn 0", "turn 1", "step 2: gt.Tensor(2.0", "large 2", "turn 0", "turn 1",
    ]  # fmt: skip
    assert page.getvalue() == "1:1.0;2:2.0;"
    assert [float(line.get()) for _ in range(line.qsize())] == [1.0, 2.0]
    assert f.experimental_get_tracing_count() == 1


def test_what_the_program_writes_is_not_read_while_it_is_traced():
    page = io.StringIO()

    @gt.function
    def f(x):
        page.write("a")
        return x * len(page.getvalue())

    with pytest.raises(InvalidArgumentError, match="`getvalue` would read, while the function is traced, what it writes"):
        f(gt.constant(1.0))
    assert page.getvalue() == ""
