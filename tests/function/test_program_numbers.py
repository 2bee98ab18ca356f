"""A Python number that the program decides is Python's number still: what eager code refuses, or gives, is the same.

Such a number is an int64 or a float64 while a function is traced. Beside a uint8 it wrapped (-7 was 249) where eager code says
that it does not fit. Each dtype meets each use of a number, after each construct that may decide it, natively and interpreted.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import NumberDoesNotFitError
from tests.corpus.modes import COMPILED, compiled
from tests.harness.seeds import in_sample

BINDINGS = {
    "branch": "k = 1\n    if s > 0.0:\n        k = {value}",
    "expression": "k = {value} if s > 0.0 else 2",
    "while": "k = 0\n    while s > 0.0:\n        k = k + {value}\n        s = s - 1.0",
    "for": "k = 1\n    for j in range({value}, {value} + 9):\n        if s > 0.0 and j == {value}:\n            k = j",
}
USES = (
    "t + k", "k - t", "t * k", "t // k", "t % k", "t ** k", "t & k", "t << k", "t == k", "t != k", "t < k", "k <= t",
    "t + [k, 1]", "gt.where(t > 1, t, k)", "gt.maximum(t, k)", "gt.clip_by_value(t, k, k)", "gt.add(t, k)",
    "gt.constant(k, t.dtype)", "gt.constant([k, 1], t.dtype)", "gt.convert_to_tensor(k, t.dtype)", "gt.constant(k, shape=[2])",
    "gt.constant(k + 0.5, t.dtype)", "gt.fill([2], gt.constant(k, t.dtype))", "gt.stack([t[0], k])", "gt.concat([t, [k]], 0)",
    "gt.cast(k, t.dtype)", "gt.pad(t, [[1, 1]], constant_values=k)", "gt.one_hot([0], 2, k, 0, dtype=t.dtype)",
    "gt.tensor_scatter_nd_update(t, [[0]], [k])", "changed(t, k)",
)  # fmt: skip
HEAD = "import gradtape as gt\nimport math\ndef changed(t, k):\n    t[0] = k\n    return t\n"
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def function_of(source: str, tmp_path):
    path = tmp_path / f"numbers_{len(list(tmp_path.iterdir()))}.py"  # one file each: its source is read once
    path.write_text(HEAD + source)
    space: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["f"]


def outcome(function, *args):
    """The result and its dtypes; of an error, its class and the line of the function that it names."""
    try:
        with np.errstate(all="ignore"):
            result = gt.nest.flatten(function(*args))
    except (ValueError, TypeError, OverflowError, ArithmeticError, LookupError) as error:
        entry, line = error.__traceback__, 0
        while entry is not None:
            line = entry.tb_lineno if "numbers_" in entry.tb_frame.f_code.co_filename else line
            entry = entry.tb_next
        noted = [int(note.rpartition(":")[2]) for note in getattr(error, "__notes__", ()) if "numbers_" in note]
        return type(error), line or noted[-1]
    return [(gt.convert_to_tensor(leaf).dtype.name, np.asarray(leaf).tolist()) for leaf in result]


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_number_of_the_program_fits_the_dtype_it_meets(dtype, tmp_path):
    limits = np.iinfo(dtype)
    numbers = [n for n in (3, -7, int(limits.max) + 1, int(limits.min) - 1) if -(2**62) < n < 2**62]
    for (number, binding), use in itertools.product(enumerate(BINDINGS), USES):
        if not in_sample(f"{dtype} {binding} {use}", 6):
            continue
        mode = tuple(COMPILED)[number % 2]
        for value in numbers:
            if abs(value) >= 2**31 and "dtype" not in use and "t" not in use.replace("gt.constant", ""):
                continue  # without a dtype or a tensor beside it, such a number is an int32 in a program: the test below
            source = f"def f(t, s):\n    t = gt.identity(t)\n    {BINDINGS[binding].format(value=value)}\n    return {use}\n"
            function = function_of(source, tmp_path)
            call = compiled(function, mode)
            for s in (1.0, -1.0):
                args = gt.constant([1, 2], dtype), gt.constant(s)
                assert outcome(call, *args) == outcome(function, *args), (mode, s, source)


@pytest.mark.parametrize("use", ["gt.constant(k)", "gt.fill([2], k)", "k", "(t, k)", "gt.constant([k, 1])", "gt.stack([k, k])"])
@pytest.mark.parametrize("binding", BINDINGS)
def test_a_number_beyond_int32_that_no_dtype_is_said_for_is_refused_with_its_line(binding, use, tmp_path):
    for value, mode in itertools.product((2**31 - 1, -(2**31), 2**31, -(2**31) - 1), COMPILED):
        source = f"def f(t, s):\n    {BINDINGS[binding].format(value=value)}\n    return {use}\n"
        call = compiled(function_of(source, tmp_path), mode)
        args = gt.constant([1, 2]), gt.constant(1.0)
        if -(2**31) <= value < 2**31:
            assert int(gt.reshape(gt.nest.flatten(call(*args))[-1], [-1])[0]) in (value, 1)
            continue
        with pytest.raises(TypeError, match=f"cannot convert {value} to dtype int32: it does not fit; use a wider dtype"):
            call(*args)


GROWN = (
    "k * k",
    "k + k",
    "k - -k",
    "-k - k",
    "k ** 3",
    "k ** 2 + k",
    "k << 40",
    "1 << (k % 64)",
    "k * k % 7",
    "(k * k + k) // 3",
)


@pytest.mark.parametrize("use", GROWN)
@pytest.mark.parametrize("binding", BINDINGS)
def test_what_leaves_64_bits_is_refused_and_never_wraps(binding, use, tmp_path):
    refused = 0
    for value, mode in itertools.product((3, -(2**21), 2**31 - 1, 2**40, -(2**62), 2**62), COMPILED):
        source = f"def f(t, s):\n    {BINDINGS[binding].format(value=value)}\n    return t * ({use})\n"
        function = function_of(source, tmp_path)
        args = gt.constant([1.0, 2.0], gt.float64), gt.constant(1.0)
        expected = function(*args)
        if abs(int(expected[0])) < 2**53 and "%" not in use and "//" not in use:  # exact in float64, and so are the steps to it
            assert np.array_equal(compiled(function, mode)(*args), expected), (mode, source)
            continue
        try:
            given = compiled(function, mode)(*args)
        except NumberDoesNotFitError as error:
            refused += "has more than 64 bits" in str(error)
        else:
            assert np.array_equal(given, expected), (mode, source)
    assert refused or "%" in use


# -- Python's own functions and comparisons ----------------------------------------------------------------------------

ASKED = (
    *(f"math.{name}(k)" for name in (
        "sqrt", "exp", "sin", "cos", "tan", "log1p", "asin", "acosh", "atanh", "sinh", "tanh", "fabs", "log", "log10", "erf",
        "degrees", "isqrt", "factorial", "isnan", "floor",
    )),
    "math.floor(k / 2)", "math.ceil(k * 0.3)", "math.trunc(k / 2)", "math.exp(k * 300)", "math.floor(math.log10(k * 1000))",
    "math.log(k + 9, 3)", "math.pow(k, 0.5)", "math.hypot(k, 3)", "math.gcd(k, 6)", "math.sin(math.inf * k)",
    "math.sqrt(k) * t", "math.floor(k * math.inf)", "math.isclose(k, 3)",
    "abs(k)", "round(k / 3)", "round(k / 3, 1)", "min(k, 2)", "max(k, 2.5)",
    "divmod(k, 2)", "pow(k, 2)", "int(k / 2)", "float(k)", "bool(k)",
)  # fmt: skip
COMPARED = (
    "(k, k) == (1, 1)", "(k, 1) != (3, 1)", "[k] == [3]", "[k, [k, 1]] == [3, [3, 1]]", "(k,) == (3, 3)", "(k, 1) == [k, 1]",
    "(k, 2) < (3, 1)", "(1, k) >= (1, 3)", "(k, (k, 1)) <= (3, (3, 0))", "[k, 1] > [k]", "(k, 'a') == (3, 'a')",
    "(k, None) == (3, None)", "(k, None) < (4, 1)",
    "k in (1, 3)", "(k, 1) in [(3, 1), 2]", "[k, k] in [[3, 3], 2]", "k in range(9)", "range(4, 9)[k]",
    "k not in range(1, 9, 2)", "len(range(k))", "'ab' in ['a' + 'b' * int(k > 0), k]", "(k, k + 1) == (3, 4) == (k, 4)",
    "(t[0], k) == (1.0, 3)", "(t, 1) == (t, 1)",
)  # fmt: skip
POINTS = [1.0, -1.0]


def gradients(function, s, inside=False):
    """What a function of (t, s) gives, and the gradient of the sum of squares, with the tape outside or inside."""
    t = gt.constant([1.0, 2.0], gt.float64)

    def step(t, s):
        with gt.GradientTape() as tape:
            tape.watch(t)
            y = t * function(t, s)
            loss = gt.reduce_sum(y * y)
        return y, tape.gradient(loss, t)

    return outcome(gt.function(step, jit_compile=False) if inside else step, t, gt.constant(s))


def agree(given, expected) -> bool:
    if not isinstance(given, list) or not isinstance(expected, list):
        return given == expected
    return [g[0] for g in given] == [e[0] for e in expected] and all(
        np.allclose(g[1], e[1], rtol=1e-14, atol=0.0, equal_nan=True) for g, e in zip(given, expected, strict=True)
    )


def compare_all(uses, values, tmp_path):
    for (number, binding), use, value in itertools.product(enumerate(BINDINGS), uses, values):
        if not in_sample(f"{binding} {use} {value}", 6):
            continue
        result = f"gt.cast({use}, gt.float64)"
        source = f"def f(t, s):\n    {BINDINGS[binding].format(value=value)}\n    return {result}\n"
        function = function_of(source, tmp_path)
        mode = tuple(COMPILED)[number % 2]
        call = compiled(function, mode)
        for s in POINTS:
            expected = gradients(function, s)
            assert agree(gradients(call, s), expected), (mode, s, source)
            assert agree(gradients(function, s, inside=True), expected), ("inside", s, source)


@pytest.mark.parametrize("value", [3, -2])
def test_functions_of_python_on_a_number_of_the_program(value, tmp_path):
    compare_all(ASKED, [value], tmp_path)


def test_lists_and_tuples_with_numbers_of_the_program_compare_as_python_does(tmp_path):
    compare_all(COMPARED, [3, 2], tmp_path)


def test_a_loop_that_asks_math_about_its_counter_stays_a_loop():
    @gt.function
    def f(x):
        for i in range(1, 200):
            x = x + math.sqrt(i) * math.sin(i) + math.floor(i / 3)
        return x

    expected = 1.0 + sum(math.sqrt(i) * math.sin(i) + math.floor(i / 3) for i in range(1, 200))
    assert np.isclose(float(f(gt.constant(1.0, gt.float64))), expected, rtol=1e-12)
    assert "turn by turn" not in f.explain()
