"""What users get wrong: each mistake gets the fitting exception, a message with the cure, and changes nothing."""

from __future__ import annotations

import math
import multiprocessing
import operator
import pickle
import re
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest

import gradtape as gt
from gradtape.surface import name_hints, uncaught
from tests.harness.process import PATIENCE
from tests.user import mistakes

X = gt.constant([1.0, 2.0, 3.0])
M = gt.constant(np.arange(6.0, dtype=np.float32).reshape(2, 3))
I = gt.constant([1, 2, 3])  # noqa: E741  (the integers)
V = gt.Variable([1.0, 2.0, 3.0], name="weights")


class Frame:
    """As pandas objects: not an array, but convertible."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)


def taped():
    with gt.GradientTape() as tape:
        y = V * V
    return tape, y


def weighted(weights):
    tape, y = taped()
    return tape.gradient(y, V, output_gradients=weights)


MISTAKES = {
    "sum": (lambda: gt.sum(X), AttributeError, "no attribute 'sum'; use gt.reduce_sum"),
    "tensor": (lambda: gt.tensor([1.0]), AttributeError, "no attribute 'tensor'; use gt.constant"),
    "relu": (lambda: gt.relu(X), AttributeError, "no attribute 'relu'; use gt.nn.relu"),
    "misspelt": (lambda: gt.reduce_sm(X), AttributeError, "no attribute 'reduce_sm'; did you mean gt.reduce_sum"),
    "nonsense": (lambda: gt.qqqq, AttributeError, "no attribute 'qqqq'$"),
    "session": (lambda: gt.Session(), AttributeError, "no attribute 'Session'; no TensorFlow 1 names"),
    "ragged names": (lambda: gt.ragged.constant([[1]]), AttributeError, "no attribute 'ragged'; not part of gradtape"),
    "no_grad": (lambda: gt.no_grad(), AttributeError, r"use tape.stop_recording\(\)"),
    "detach": (lambda: V.detach(), AttributeError, r"'Variable' object has no attribute 'detach'; use gt.stop_gradient\(t\)"),
    "backward of a variable": (lambda: V.backward(), AttributeError, r"use tape.gradient\(t, sources\) of a gt.GradientTape"),
    "shapes": (lambda: X + M[:, :2], ValueError, r"add\(float32\[3\].*broadcast"),
    "matmul": (lambda: M @ M, ValueError, r"matmul: inner dimensions differ: \(2, 3\) times \(2, 3\)"),
    "vectors": (lambda: gt.matmul(X, X), ValueError, "use gt.linalg.matvec"),
    "axis": (lambda: gt.reduce_sum(X, axis=3), ValueError, "reduce_sum: axis 3 is out of range .* rank 1"),
    "axis text": (lambda: gt.reduce_sum(X, axis="rows"), ValueError, "reduce_sum: axis must be an integer, got 'rows'"),
    "axis float": (lambda: gt.concat([X, X], axis=0.5), ValueError, "concat: axis must be an integer, got 0.5"),
    "shape float": (lambda: gt.reshape(X, (1.5, 2)), TypeError, r"\(1.5, 2\) is not a shape"),
    "shape text": (lambda: gt.random.normal("a"), TypeError, "'a' is not a shape"),
    "index": (lambda: X[5], IndexError, "index 5 is out of bounds for axis 0 with size 3"),
    "index text": (lambda: X["a"], TypeError, "'a' is not a valid index"),
    "index float": (lambda: X[1.0], TypeError, "1.0 is not a valid index"),
    "none": (lambda: gt.sin(None), ValueError, "missing gradient"),
    "object": (lambda: X + object(), TypeError, "of type object to a tensor; give a number"),
    "text": (lambda: X + "a", TypeError, "float32 and string do not mix"),
    "ragged": (lambda: gt.constant([[1.0], [2.0, 3.0]]), ValueError, "ragged"),
    "ragged tensors": (lambda: gt.stack([X, M]), ValueError, "stack: all shapes must be the same"),
    "object array": (lambda: gt.constant(np.array([1.0, 2], object)), ValueError, "astype"),
    "masked array": (lambda: gt.constant(np.ma.array([1.0, 2.0], mask=[0, 1])), ValueError, "filled"),
    "datetime": (lambda: gt.constant(np.array(["2020-01-01"], "M8[D]")), ValueError, "no dtype datetime64"),
    "huge integer": (lambda: gt.constant(2**70), TypeError, "at most 64 bits"),
    "text and numbers": (lambda: gt.constant([1.0, "a"]), TypeError, "text and numbers make no tensor together"),
    "large integer": (lambda: I * 2**40, TypeError, "1099511627776 to dtype int32: it does not fit"),
    "negative in unsigned": (lambda: gt.constant(-1, gt.uint8), TypeError, "-1 to dtype uint8"),
    "integer power": (lambda: I**-1, ValueError, "negative integer powers"),
    "integer division": (lambda: I // 0, ValueError, "division by zero"),
    "empty argmax": (lambda: gt.argmax(gt.zeros((0,))), ValueError, "argmax: axis 0 of shape .* is empty"),
    "dtype": (lambda: gt.cast(X, "float8"), TypeError, "'float8' is not a dtype; use one of"),
    "labels": (
        lambda: gt.nn.softmax_cross_entropy_with_logits(labels=[[1.0, 0.0, 0.0]], logits=[[1.0, 2.0]]), ValueError,
        "softmax_cross_entropy_with_logits: labels and logits",
    ),
    "cholesky": (lambda: gt.linalg.cholesky(-np.eye(2)), ValueError, "not positive definite"),
    "singular": (lambda: gt.linalg.inv(np.zeros((2, 2))), ValueError, "singular"),
    "one number": (lambda: float(X), TypeError, "one element"),
    "math.sin": (lambda: math.sin(X), TypeError, "one element"),
    "truth": (lambda: bool(X), ValueError, "gt.reduce_any"),
    "read-only": (lambda: X.numpy().__setitem__(0, 5.0), ValueError, "read-only"),
    "method axis": (lambda: X.sum(axis=3), ValueError, "axis 3 is out of range"),
    "backward": (lambda: X.backward(), AttributeError, "GradientTape"),
    "unknown method": (lambda: X.frobnicate, AttributeError, "no attribute 'frobnicate'$"),
    "assign shape": (lambda: V.assign([1.0, 2.0]), ValueError, "'weights:0' has shape .3,. but the value has shape .2,."),
    "assign text": (lambda: V.assign("abc"), ValueError, "'weights:0' has dtype float32"),
    "update complex": (lambda: X.__setitem__(0, 1j), TypeError, "complex64 does not fit a tensor of dtype float32"),
    "update integers": (lambda: I.__setitem__(0, 1.5), TypeError, "float32 does not fit a tensor of dtype int32"),
    "update shape": (lambda: X.__setitem__(slice(0, 2), [1.0, 2.0, 3.0]), ValueError, r"\(3,\) does not broadcast to \(2,\)"),
    "weights shape": (lambda: weighted([1.0, 2.0]), ValueError, r"output_gradients has shape \(2,\)"),
    "weights complex": (lambda: weighted(gt.constant([1j, 1, 1])), ValueError, "dtype complex128 .* real dtype float32"),
    "mode": (lambda: taped()[0].gradient(X, V, unconnected_gradients="foo"), ValueError, "'none', 'zero', 'raise'"),
    "source": (lambda: taped()[0].gradient(X, 3.0), ValueError, "tape.watch"),
    "target": (lambda: taped()[0].gradient(None, V), TypeError, "the target is None"),
    "learning rate": (lambda: gt.optimizers.SGD("fast"), ValueError, "SGD: learning_rate must be a number"),
    "pairs swapped": (lambda: gt.optimizers.SGD(0.1).apply_gradients([(V, X)]), ValueError, "the other way around"),
}  # fmt: skip


@pytest.mark.parametrize("name", list(MISTAKES))
def test_a_mistake_gets_a_clear_error_and_changes_nothing(name):
    function, kind, text = MISTAKES[name]
    before = [t.numpy().copy() for t in (X, M, I, V)]
    with gt.GradientTape(persistent=True) as tape:
        tape.watch([X, M, V])
        count = len(tape.records)
        with pytest.raises(kind, match=text):
            function()
        assert [r.op.name for r in tape.records[count:] if r.op.name not in ("multiply", "getitem")] == []
    for tensor, value in zip((X, M, I, V), before, strict=True):
        np.testing.assert_array_equal(tensor.numpy(), value)
    tape.close()


def test_an_exception_in_the_block_leaves_a_clean_state():
    tape = gt.GradientTape()
    with pytest.raises(ZeroDivisionError), tape:
        V / (1 // 0)
    with gt.GradientTape() as other:
        y = V * 3.0
    np.testing.assert_array_equal(other.gradient(y, V), [3.0, 3.0, 3.0])


def test_convertible_objects_and_array_subclasses_are_values():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        matrix = np.matrix([[1.0, 2.0, 3.0]])
    readonly = np.ones(3)
    readonly.flags.writeable = False
    for value in (Frame([1.0, 1.0, 1.0]), readonly, np.ma.ones(3), np.ones(6)[::-2]):
        with gt.GradientTape() as tape:
            y = gt.reduce_sum(V * value)
        np.testing.assert_array_equal(tape.gradient(y, V), [1.0, 1.0, 1.0])
    assert (matrix @ gt.constant([1.0, 1.0, 1.0])).numpy().tolist() == [6.0]


def test_nan_and_infinity_pass_through():
    x = gt.constant([np.nan, np.inf, -np.inf, 1.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(gt.where(gt.math.is_finite(x), x * x, 0.0))
    np.testing.assert_array_equal(tape.gradient(y, x), [0.0, 0.0, 0.0, 2.0])


def test_deleting_a_variable_while_recording():
    v = gt.Variable(3.0)
    with gt.GradientTape() as tape:
        y = v * v
        del v
    (watched,) = tape.watched_variables()
    assert float(tape.gradient(y, watched)) == 6.0


def _gradient_in_child(queue):
    with gt.GradientTape() as tape:
        y = gt.reduce_sum(V**2)
    queue.put(tape.gradient(y, V).numpy())


def test_a_child_process_starts_with_its_own_state():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    with gt.GradientTape():
        child = context.Process(target=_gradient_in_child, args=(queue,))
        child.start()
    np.testing.assert_array_equal(queue.get(timeout=PATIENCE), [2.0, 4.0, 6.0])
    child.join()


@pytest.mark.parametrize("space", [gt, gt.math, gt.nn, gt.linalg, gt.signal, gt.random, gt.bitwise], ids=lambda s: s.__name__)
def test_public_functions_pickle(space):
    """Models keep functions such as gt.tanh as attributes, and are sent to other processes."""
    for name in dir(space):
        value = getattr(space, name)
        if isinstance(value, FunctionType) and not name.startswith("_"):
            assert pickle.loads(pickle.dumps(value)) is value


def test_weights_of_another_dtype_do_not_change_the_dtype_of_the_gradient():
    for weights in (gt.constant([1, 1, 1]), np.ones(3, np.float64)):
        assert weighted(weights).dtype == gt.float32


@pytest.mark.parametrize(
    ("ask", "name"), [(lambda: gt.tensor, "tensor"), (lambda: gt.nn.relu7, "relu7"), (lambda: X.view, "view")]
)
def test_python_adds_no_guess_of_its_own_to_a_cure(ask, name):
    with pytest.raises(AttributeError) as caught:
        ask()
    assert (caught.value.name, caught.value.obj) == (name, None)


def test_a_tape_says_how_far_it_is():
    with gt.GradientTape() as tape:
        y = V * V
        assert repr(tape) == "<gt.GradientTape: 1 records, recording>"
    tape.gradient(y, V)
    assert repr(tape).endswith("used up>")


def test_integer_primals_warn():
    with pytest.warns(gt.GradientWarning, match="int32"):
        gt.autodiff.ForwardAccumulator(I, gt.ones_like(I))


SILENT = [
    np.asarray, np.array, lambda t: t.numpy(), lambda t: np.testing.assert_equal(t, t.numpy()),
]  # fmt: skip


@pytest.mark.parametrize("leave", SILENT)
def test_explicit_conversions_are_silent(leave):
    with gt.GradientTape() as tape:
        tape.watch(X)
        leave(X * 2.0)


DETACHING = {
    "sum": lambda t: np.sum([t, t]),
    "mean": lambda t: np.mean([t[0], t[1]]),
    "vectorize": lambda t: np.vectorize(lambda a: a)(t),
}


@pytest.mark.parametrize("name", list(DETACHING))
def test_numpy_functions_that_detach_are_refused_inside_a_tape(name):
    with gt.GradientTape() as tape:
        tape.watch(X)
        y = X * 2.0
        with pytest.raises(TypeError, match=rf"test_mistakes.py:\d+.*{name}.* a tensor that a tape watches"):
            DETACHING[name](y)
    DETACHING[name](y)  # nobody records: nothing is lost


def test_one_message_about_integers() -> None:
    """The target is of integers because the source is."""
    count = gt.Variable([1, 2])
    with gt.GradientTape() as tape:
        total = gt.reduce_sum(count * count)
    with pytest.warns(gt.errors.GradientWarning, match="the source '.*' has dtype int32") as caught:
        assert tape.gradient(total, count) is None
    assert len(caught) == 1


@pytest.mark.parametrize("source", [gt.constant([1, 2]), gt.Variable([1, 2])], ids=["tensor", "variable"])
@pytest.mark.parametrize("ask", ["gradient", "jacobian", "batch_jacobian"])
def test_one_message_about_integers_that_are_watched(source: gt.Tensor | gt.Variable, ask: str) -> None:
    """Watching them said it: asking does not say it again."""
    with gt.GradientTape(persistent=True) as tape:
        with pytest.warns(gt.errors.GradientWarning, match=r"watch: the source.* has dtype int32"):
            tape.watch(source)
        getattr(tape, ask)(source * source, source)  # (a warning here would be an error)


@pytest.mark.parametrize("cure", sorted(set(name_hints.ELSEWHERE.values())))
def test_hints_name_what_is_there(cure: str) -> None:
    for path in re.findall(r"gt((?:\.\w+)+)", cure):
        assert operator.attrgetter(path[1:])(gt) is not None


class _Fits:
    def fit(self) -> int:
        return 5


def test_hints_hide_nothing_and_cost_nothing() -> None:
    class Model(gt.Module, _Fits):
        pass

    assert Model().fit() == 5
    assert "fit" in dir(Model())
    x = gt.constant(1.0)
    for thing, name in ((x, "grad"), (gt.Variable(1.0), "grad"), (gt.GradientTape(), "backward"), (gt.Module(), "fit")):
        assert not hasattr(thing, name)
        assert name not in dir(thing)
        # with a `__getattr__` Python looks up every attribute the long way, `t._data` in each operation too
        assert not any("__getattr__" in vars(base) for base in type(thing).__mro__)


def test_every_name_of_tensorflow_is_there_or_answered_in_words() -> None:
    """`tensorflow_names.txt` are the public names of TensorFlow 2.21's top level."""
    names = Path(__file__).with_name("tensorflow_names.txt").read_text().split()
    assert len(names) > 250
    assert [name for name in names if name not in dir(gt) and name not in name_hints.ELSEWHERE] == []
    assert [name for name in names if name in dir(gt) and name in name_hints.ELSEWHERE] == []


def test_a_hundred_mistakes_are_listed() -> None:
    assert len(set(mistakes.SOURCES)) >= 100
    assert [line for line in mistakes.TEXT.read_text().splitlines() if not line.startswith("    ")] == mistakes.SOURCES


@pytest.mark.parametrize("source", mistakes.SOURCES)
def test_the_exact_message(source: str) -> None:
    """`python -m tests.user.mistakes` writes the list anew."""
    listed = mistakes.TEXT.read_text()
    assert f"{source}\n{mistakes.outcome(source)}\n" in listed


UNCAUGHT = """
import gradtape as gt
x = gt.constant([1.0, 2.0])
def loss(x):
    return {}
loss(x)
"""


@pytest.mark.parametrize(
    ("expression", "last"),
    [
        ("x + gt.ones(3)", "InvalidArgumentError: add"), ("gt.reduce_sum(x, axis=3)", "InvalidArgumentError: reduce_sum"),
        ("gt.linalg.logdet(-gt.eye(2))", "InvalidArgumentError: cholesky"), ("x[7]", "OutOfRangeError"),
        ("gt.stack([x], dim=0)", "gt.stack has no argument `dim`; use axis="),
    ],
)  # fmt: skip
def test_one_traceback_that_ends_at_the_users_line(tmp_path, expression: str, last: str) -> None:
    (tmp_path / "script.py").write_text(UNCAUGHT.format(expression))
    text = subprocess.run([sys.executable, tmp_path / "script.py"], capture_output=True, text=True, check=False).stderr
    files = re.findall(r'File "([^"]+)", line (\d+)', text)
    assert [(file.rpartition("/")[2], int(line)) for file, line in files] == [("script.py", 6), ("script.py", 5)], text
    assert text.count("Traceback") == 1
    assert last in text.splitlines()[-1]


def test_a_class_of_the_user_gets_no_hint_of_a_class_of_ours_with_its_name() -> None:
    class Dataset:
        def batch(self, size: int) -> None: ...

    Dataset.batch.__qualname__ = "Dataset.batch"
    for space in ({"Dataset": Dataset}, {"Dataset": type("Dataset", (), {})}):
        with pytest.raises(TypeError) as caught:
            exec("make().batch(batch=2)", {**space, "make": Dataset})
        uncaught.shown(caught.value, caught.value.__traceback__)
        assert not hasattr(caught.value, "__notes__")


def test_a_function_of_the_user_below_an_operation_stays_in_the_traceback() -> None:
    def function(array):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        gt.numpy_function(function, [X], gt.float32)
    chain = [caught.value, caught.value.__cause__]
    names = [entry.name for error in chain if error is not None for entry in traceback.extract_tb(error.__traceback__)]
    assert "function" in names


def test_a_program_given_on_the_command_line_has_its_source() -> None:
    program = """
import gradtape as gt
@gt.function
def f(x):
    for i in gt.range(3):
        x = x + 1.0 if x < 2.0 else x
    return x
print(float(f(gt.constant(0.0))))
exec("@gt.function\\ndef f(x):\\n    return x if x > 0 else -x")
try:
    f(gt.constant(1.0))
except gt.errors.OperatorNotAllowedInGraphError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.0", "refused"]


def test_tools_are_there_in_a_fresh_process() -> None:
    """A tool is loaded when it is first used, by whoever uses it first."""
    program = """
import gradtape as gt
w = gt.Variable(1.0)
with gt.GradientTape(persistent=True) as tape:
    y = w * w
print(tape.explain(y, w).cause, tape.nan_report(), len(tape.picture().text()) > 0)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["connected", "None", "True"]
