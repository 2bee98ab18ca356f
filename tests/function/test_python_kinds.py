"""Questions about a value's kind, where the program decides it, are answered as in eager code: `is True`, `isinstance`, ….

A number, a truth value or None that depends on a tensor is a stand-in while a function is traced. Python asked the stand-in:
`flag is True` was False for ever, `isinstance(best, gt.Tensor)` was False although a tensor was there. Each question is asked
here of each thing a value may be, on each path, natively and interpreted, with the tape outside and inside.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradtape as gt
from tests.corpus.modes import COMPILED, compiled
from tests.harness.seeds import in_sample

POINTS = [[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0], [-3.0, -2.0, -1.0]]

# what a value is on the one path and on the other, and after which construct it is asked
PAIRS = {
    "tensor_or_none": ("x * 2.0", "None"), "number_or_none": ("3", "None"), "float_or_none": ("0.5", "None"),
    "flag_or_none": ("True", "None"), "flags": ("True", "False"), "integers": ("3", "7"), "floats": ("3.5", "7.5"),
    "tensors": ("x * 2.0", "x + 1.0"), "lists": ("[x, None]", "[x, x]"),
}  # fmt: skip
BINDINGS = {
    "branch": "value = {second}\n    if gt.reduce_sum(x) > 0.0:\n        value = {first}",
    "expression": "value = {first} if gt.reduce_sum(x) > 0.0 else {second}",
    "loop": "value = {second}\n    for v in x:\n        if v > 1.5:\n            value = {first}",
    "call": "value = (lambda a: {first} if a > 0.0 else {second})(gt.reduce_sum(x))",
}
QUESTIONS = (
    "value is None", "value is not None", "value == None", "value != None", "value is True", "value is not False",
    "None in [value]", "value in (None, 3)", "isinstance(value, gt.Tensor)", "isinstance(value, int)",
    "isinstance(value, (bool, float))",
    "isinstance(value, int | float)", "isinstance(value, type(None))", "hasattr(value, 'shape')", "gt.is_tensor(value)",
    "value is None or not gt.is_tensor(value)",
)  # fmt: skip
MATCH = """match value:
        case None: y = x * 1.0
        case True: y = x * 2.0
        case 3 | 3.5: y = x * 3.0
        case int(k) if k > 5: y = x * k
        case float(): y = x * 5.0
        case gt.Tensor(dtype=gt.float32) as t: y = t * 6.0
        case [a, None]: y = a * 7.0
        case [a, b]: y = a * b
        case other: y = x * 8.0"""


def written(pair: str, binding: str, question: str) -> str:
    first, second = PAIRS[pair]
    ask = MATCH if question == "match" else f"y = x * 10.0 if ({question}) else x * x"
    return f"def f(x):\n    {BINDINGS[binding].format(first=first, second=second)}\n    {ask}\n    return y\n"


def function_of(source: str, tmp_path):
    path = tmp_path / f"asked_{len(list(tmp_path.iterdir()))}.py"  # one file each: its source is read once
    path.write_text("import gradtape as gt\n" + source)
    space: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["f"]


def answers(call, point):
    """Value and gradient; what is refused is refused in eager code too."""
    x = gt.constant(point)
    try:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = call(x)
            loss = gt.reduce_sum(y * y)
    except (ValueError, TypeError) as error:
        return ValueError if isinstance(error, ValueError) else TypeError
    return [y.numpy().tolist(), tape.gradient(loss, x).numpy().tolist()]


def inside(function):
    def step(x):
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            loss = gt.reduce_sum(y * y)
        return y, tape.gradient(loss, x)

    return step


@pytest.mark.parametrize("pair", PAIRS)
def test_a_question_is_answered_for_the_path_that_is_taken(pair, tmp_path):
    for (number, binding), question in itertools.product(enumerate(BINDINGS), (*QUESTIONS, "match")):
        if not in_sample(f"{pair} {binding} {question}", 4):
            continue
        source = written(pair, binding, question)
        function = function_of(source, tmp_path)
        mode = tuple(COMPILED)[number % 2]
        call, step = compiled(function, mode), gt.function(inside(function), jit_compile=False)
        eager = [answers(function, point) for point in POINTS]
        for point, expected in zip(POINTS, eager, strict=True):
            if ValueError in eager and answers(call, point) is ValueError:
                continue  # what has no meaning on one path (the truth of three numbers) is refused for all
            assert answers(call, point) == expected, (mode, point, source)
            if isinstance(expected, list):
                assert [t.numpy().tolist() for t in step(gt.constant(point))] == expected, ("inside", point, source)


def test_a_question_is_refused_if_the_program_does_not_keep_the_answer():
    @gt.function
    def f(x):
        k = 1
        if x[0] > 0.0:
            k = 2.5
        assert isinstance(k, int | float)  # whichever it is
        assert not isinstance(k, gt.Tensor)
        return x * k if isinstance(k, int) else x

    with pytest.raises(gt.errors.OperatorNotAllowedInGraphError, match=r"kinds.py:\d+: isinstance asks for .* float or int"):
        f(gt.constant(POINTS[0]))

    @gt.function
    def g(x):
        value = None
        if x[0] > 0.0:
            value = x
        return x if type(value) is gt.Tensor else -x

    with pytest.raises(gt.errors.OperatorNotAllowedInGraphError, match="ask `is None` or isinstance instead"):
        g(gt.constant(POINTS[0]))


# arithmetic of Python's numbers: `True + 1` was True where a branch had decided about it
NUMBERS = {"flags": (True, False), "integers": (3, 1), "negative": (-7, 2), "floats": (0.5, 2.0)}
FORMULAS = (
    "k == 3", "3 == k", "k != 3", "k + 1", "1 + k", "k * 2", "k - 1", "2 - k", "k / 2", "k // 2", "k % 2", "k ** 2", "k < 3",
    "k >= 1", "-k", "abs(k)", "+k", "int(k)", "float(k)", "bool(k)", "k + 0.5", "k == 1.0", "k < 0.5", "k * 2.5", "max(k, 2)",
    "min(k, 0)", "sum([k, k])", "k + k", "k * k - k", "round(k)", "divmod(k, 2)", "k == True", "k in (0, 5)", "k and 5",
    "k or 5", "not k", "k / 3 == 1 / 3", "k * 10 // 3", "k == '1'", "gt.constant([True, False]) * k", "gt.constant([1, 2]) + k",
)  # fmt: skip
OF_INTEGERS = ("~k", "k & 1", "k | 2", "k ^ 1", "k & k", "k << 2 if k > 0 else k", "5 >> k if k > 0 else k")


@pytest.mark.parametrize("kind", NUMBERS)
def test_a_number_that_a_branch_decides_computes_as_pythons_do(kind, tmp_path):
    first, second = NUMBERS[kind]
    formulas = [*FORMULAS, *(OF_INTEGERS if kind in ("integers", "negative") else ())]
    lines = ",\n        ".join(formulas)
    decided = f"k = {second}\n    if gt.reduce_sum(x) > 0.0:\n        k = {first}"
    function = function_of(f"def f(x):\n    {decided}\n    return [\n        {lines},\n    ]\n", tmp_path)
    for mode, point in itertools.product(COMPILED, POINTS):
        results = compiled(function, mode)(gt.constant(point))
        for formula, result, expected in zip(formulas, results, function(gt.constant(point)), strict=True):
            got, wanted = (np.asarray(gt.nest.flatten(value)) for value in (result, expected))
            assert np.array_equal(got, wanted) or np.allclose(got, wanted, rtol=1e-6, atol=0), (formula, got, wanted)
            if isinstance(expected, gt.Tensor):
                assert result.dtype == expected.dtype, formula


# what a number that a branch decides makes of tensors of each dtype: as one that Python knows
TENSORS = {
    "float16": "gt.cast(x, 'float16')", "float32": "x", "float64": "gt.cast(x, 'float64')", "int8": "gt.cast(x * 2.0, 'int8')",
    "uint8": "gt.cast(gt.abs(x) * 2.0, 'uint8')", "int32": "gt.cast(x * 2.0, 'int32')", "int64": "gt.cast(x * 2.0, 'int64')",
    "bool": "x > 0.0", "complex64": "gt.cast(x, 'complex64')",
}  # fmt: skip
MEETINGS = (
    "t + k", "k * t", "gt.maximum(t, k)", "gt.where(t == t, t, k)", "gt.add(t, k)", "gt.stack([t[0], k])",
    "gt.reduce_sum([t[0], k])", "gt.fill([2], k)", "gt.constant(k)", "gt.stack([k, k])", "gt.identity(k)", "np.add(t, k)",
    "t == k", "gt.concat([t, [k]], 0)", "gt.constant(k, gt.complex128)",
    "gt.cast(k, 'complex128')", "gt.reshape(k, [1])", "gt.zeros([2]) + gt.cast(k, 'float32')",
)  # fmt: skip
DIVISIONS = ("t / k", "gt.divide(t, k)", "gt.math.divide_no_nan(t, k)", "np.divide(t, k)")


@pytest.mark.parametrize("dtype", TENSORS)
@pytest.mark.parametrize("kind", [*NUMBERS, "complex"])
def test_a_number_that_a_branch_decides_takes_the_dtype_of_python_numbers(dtype, kind, tmp_path):
    first, second = NUMBERS.get(kind, (1j, 2.0 + 1j)) if (kind, dtype) != ("negative", "uint8") else (5, 2)
    meetings = [m for m in MEETINGS if kind != "complex" or not ("float32" in m or "concat" in m)]
    meetings += DIVISIONS if kind not in ("flags", "complex") else ()  # of numbers that are not 0
    decided = f"k = {second}\n    if x[0] > 0.0:\n        k = {first}"
    lines = ",\n        ".join(meetings)
    source = f"import numpy as np\ndef f(x):\n    t = {TENSORS[dtype]}\n    {decided}\n    return [\n        {lines},\n    ]\n"
    function = function_of(source, tmp_path)
    compiled_function = gt.function(function, jit_compile=False)
    for point in POINTS[:2]:
        results, wanted = compiled_function(gt.constant(point)), function(gt.constant(point))
        for meeting, result, expected in zip(meetings, results, wanted, strict=True):
            assert result.dtype == expected.dtype, meeting
            assert np.allclose(result.numpy(), expected.numpy(), rtol=1e-3 if dtype == "float16" else 1e-7), meeting


def test_a_number_here_and_a_tensor_there_is_a_tensor():
    @gt.function
    def f(x, n):
        total = 0.5
        for i in gt.range(n):
            total = total + x[i]
        return total * 2.0 if isinstance(total, gt.Tensor) and not isinstance(total, float) else x[0]

    assert [float(f(gt.constant(POINTS[0]), gt.constant(n))) for n in (0, 3)] == [1.0, 13.0]


def test_a_pattern_is_that_of_python():
    class Point:
        __match_args__ = ("a",)

        def __init__(self, a, b):
            self.a, self.b = a, b

    def f(x):
        results = []
        for value in [1, 2.5, "text", None, (1, 2), [3, 4, 5], {"a": x, "b": 2}, Point(x, 3.0), True, b"xy", [], {}, range(2)]:
            match value:
                case True:
                    results.append(x)
                case int():
                    results.append(x * 2.0)
                case float(n):
                    results.append(x * n)
                case str(s) | bytes(s):
                    results.append(x * len(s))
                case None:
                    results.append(x * 4.0)
                case [a, b] if a == 0:
                    results.append(x * 0.5)
                case (a, b):
                    results.append(x * (a + b))
                case [first, *middle, _]:
                    results.append(x * first * len(middle))
                case {"a": t, **others}:
                    results.append(t * len(others))
                case Point(a, b=b) if gt.reduce_sum(a) > 0.0:
                    results.append(a * b)
                case Point(missing=_):
                    results.append(x * 9.0)
                case _:
                    results.append(x * 100.0)
        return gt.stack(results)

    for point in POINTS:
        assert gt.function(f)(gt.constant(point)).numpy().tolist() == f(gt.constant(point)).numpy().tolist()
    with pytest.raises(TypeError, match=r"Point\(\) accepts 1 positional sub-pattern \(2 given\)"):
        gt.function(_too_many)(gt.constant(1.0), Point(1, 2))


def _too_many(x, point):
    Kind = type(point)
    match point:
        case Kind(a, b):
            return a * b
    return x
