"""Long programs: they are cut into parts, and what compiling them takes grows with their length, not faster.

Steps are counted, not seconds: lines of LLVM IR, and instructions of Python.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape import config
from gradtape.backends import llvm
from gradtape.backends.llvm.entry.native_executable import compile_block
from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.writing import parts
from gradtape.backends.numpy import compile_block as reference_block
from gradtape.ir.dims import symbol
from gradtape.ir.graph import Block
from gradtape.ops.elementwise import ADD, COS, MULTIPLY, SIN, SUBTRACT, TANH
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.ops.staged import MASKED_MULTIPLY
from tests.backends.agreement import compared
from tests.backends.build import program, tensor
from tests.zoo.checks import gradients
from tests.zoo.test_zoo import ENTRIES


@pytest.fixture(autouse=True)
def natively() -> Iterator[None]:
    before = config.native_code_enabled()
    config.native_code(True)
    yield
    config.native_code(before)


LINEAR = 4.6  # steps for 4n operations to those for n: a logarithm is in it
ROOM = str(Path(llvm.__file__).parent)


def straight(count: int, *shape: int) -> Block:
    """Operations of the last value and of one some steps before; every third value is a result, as residuals are."""

    def body(build: Any, x: Any, y: Any) -> list[Any]:
        values = [x, y]
        for k in range(count):
            a, b = values[-1], values[-1 - k * 7 % min(len(values), 9)]
            if k % 5 < 3:
                values.append(build((ADD, MULTIPLY, SUBTRACT, MASKED_MULTIPLY)[k % 4], a, b))
            else:
                values.append(build((SIN, COS, TANH)[k % 3], a))
        return values[2::3]

    return program([tensor(*shape), tensor(*shape)], body)


def reductions(count: int) -> Block:
    """Kernels that wait for one another, with registers between them."""

    def body(build: Any, x: Any, y: Any) -> list[Any]:
        results = []
        for k in range(count // 4):
            total = build(REDUCE_SUM, build(MULTIPLY, x, y), axis=(0,), keepdims=False)
            x = build(ADD, y, build(TANH, total)) if k % 2 else build(SUBTRACT, x, total)
            results.append(total)
        return results

    return program([tensor(40), tensor(40)], body)


def steps(block: Block) -> int:
    """Instructions of the native backend's own code that are run to compile a block."""
    count = 0

    def seen(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        if not frame.f_code.co_filename.startswith(ROOM):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return seen

    before = sys.gettrace()
    sys.settrace(seen)
    try:
        compile_block(block)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("make", [straight, lambda n: straight(n, 8), reductions], ids=["scalars", "vectors", "reductions"])
def test_steps_grow_with_the_length(make: Callable[[int], Block], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LONG", 0)
    compile_block(make(8))  # what all programs share is loaded once
    assert steps(make(480)) <= LINEAR * steps(make(120))


def functions(source: str) -> dict[str, int]:
    """Lines of each function of a module."""
    return {m.group(1): m.group(0).count("\n") for m in re.finditer(r"^define [^@]*@([\w.]+)\(.*?^}", source, re.M | re.S)}


def test_parts_have_a_bounded_size() -> None:
    short, long = (functions(compile_block(straight(count)).source) for count in (400, 1600))
    assert max(long.values()) <= max(short.values()) + 4 * len(long)  # main calls each part
    assert max(lines for name, lines in long.items() if name.startswith("main.")) < 2 * parts.PART
    assert 3 * len(short) < len(long) < 5 * len(short)


def test_a_long_program_computes_what_the_reference_does() -> None:
    block = straight(1500)
    given = [np.float64(0.3), np.float64(0.7)]
    native = compile_block(block)
    assert sum(name.startswith("main.") for name in functions(native.source)) > 3
    np.testing.assert_allclose(native(*given), reference_block(block)(*given), rtol=1e-12)


def test_the_trampoline_does_not_grow_with_like_arguments() -> None:
    def many(count: int) -> Block:
        specs = [*[tensor()] * count, *[tensor(3)] * count, *[tensor(symbol("n"))] * count]
        return program(specs, lambda build, *xs: [build(MULTIPLY, x, x) for x in xs])

    assert functions(compile_block(many(10)).source)["gt_entry"] == functions(compile_block(many(80)).source)["gt_entry"]
    native = compile_block(many(20))
    given = (
        [np.float64(k) for k in range(20)]
        + [np.full(3, k, float) for k in range(20)]
        + [np.full(4, k, float) for k in range(20)]
    )
    for result, argument in zip(native(*given), given, strict=True):
        assert type(result) is type(argument)
        np.testing.assert_array_equal(result, argument * argument)
    odd = list(given)
    odd[11], odd[33] = np.float32(2.0), np.asfortranarray([[5.0, 0.0]] * 3)[:, 0]  # Python puts them in order
    results = native(*odd)
    assert (results[11], type(results[11])) == (4.0, np.float64)
    np.testing.assert_array_equal(results[33], [25.0] * 3)


# -- programs with all that a seam must respect, cut after each operation


def looped(x: Any, w: Any) -> Any:
    total = gt.zeros_like(x)
    for i in gt.range(3):
        if gt.reduce_sum(total) > 2.0:
            total = total * w
        elif i < 2:
            total = total + x * gt.cast(i, x.dtype)
    return gt.reduce_sum(gt.tanh(total) @ w[:, None]) + total[1]


def listed(x: Any, w: Any) -> Any:
    rows = []
    for i in gt.range(4):
        rows.append(x[i % 3] * w)
    return gt.reduce_sum(gt.stack(rows) ** 2) + rows[0][0]


def changed(x: Any, w: Any) -> Any:
    y = x * 2.0
    y[1] = w[0]
    z = gt.sort(y) + w
    y[0] += z[2]
    return gt.reduce_sum(y * z)


@pytest.mark.parametrize("function", [looped, listed, changed])
def test_cut_after_each_operation(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    args = gt.constant([0.3, -0.4, 1.2]), gt.constant([0.5, 0.7, -0.2])

    def values(f: Callable[..., Any]) -> list[Any]:
        with gt.GradientTape() as tape:
            tape.watch(args)
            y = f(*args)
        return [y, *tape.gradient(y, args)]

    expected = values(function)
    monkeypatch.setattr(parts, "LONG", 0)
    monkeypatch.setattr(parts, "PART", 1)
    for a, b in zip(values(gt.function(function)), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_part_that_fails_ends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LONG", 0)
    monkeypatch.setattr(parts, "PART", 1)
    f = gt.function(lambda x, i: gt.sin(gt.cos(x)[i]))
    x = gt.constant([0.0, 1.0, 2.0, 3.0])
    for i in (2, 7, 3):
        if i < 4:
            np.testing.assert_allclose(f(x, gt.constant(i)), np.sin(np.cos(float(i))), rtol=1e-6)
        else:
            with pytest.raises(IndexError, match="index 7 is out of bounds"):
                f(x, gt.constant(i))


def two_loops(x: Any, w: Any, last: Any) -> Any:
    """Both loops check the places of their accesses ahead, with the same number."""
    s = gt.zeros_like(w)
    for i in gt.range(3):
        s = gt.tanh(s * w + x[last - i])
    for i in gt.range(3):
        s = gt.sin(s * w - x[last - i])
    return gt.reduce_sum(s)


CUT = [entry for entry in ENTRIES.values() if entry.order and zlib.crc32(entry.name.encode()) % 16 == 1]


@pytest.fixture
def cut_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program is cut wherever it can be."""
    monkeypatch.setattr(parts, "LONG", 0)
    monkeypatch.setattr(parts, "PART", 1)


@pytest.mark.usefixtures("cut_everywhere")
def test_parts_share_what_stands_before_a_loop() -> None:
    x, w = gt.constant(np.arange(6.0).reshape(3, 2)), gt.constant([0.3, 0.7], dtype=gt.float64)
    with compared(), gt.GradientTape() as tape:
        tape.watch([x, w])
        y = gt.function(two_loops)(x, w, gt.constant(2))
    with gt.GradientTape() as plain:
        plain.watch([x, w])
        z = two_loops(x, w, gt.constant(2))
    for a, b in zip(tape.gradient(y, [x, w]), plain.gradient(z, [x, w]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.usefixtures("cut_everywhere")
@pytest.mark.parametrize("entry", CUT, ids=str)
def test_programs_of_the_zoo_in_parts(entry: Any) -> None:
    with compared():
        gradients(entry, entry.inputs[0], gt.function)


def _branching(i: Any, x: Any, s: Any) -> Any:
    return gt.cond(i % 2 == 0, lambda: s + x * 0.5, lambda: s - x * x * 0.25)


INNERMOST = {
    "a branch": _branching,
    "scalars": lambda i, x, s: s * 0.5 + gt.sin(x + gt.cast(i, gt.float32)),
    "rows": lambda i, x, s: s + gt.reduce_sum(gt.tanh(gt.fill((6,), 0.25) * x + s)),
}


@pytest.mark.parametrize("turns", [(100, 100), (7, 300), (12, 90), (6, 6, 40)], ids=str)
@pytest.mark.parametrize("kind", INNERMOST)
def test_llvm_does_not_write_out_loops_around_loops(kind: str, turns: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of few turns around another is copied as often by LLVM, and a program into what calls it: for nothing."""

    @gt.function
    def nest(x: Any) -> Any:
        def level(depth: int, i: Any, s: Any) -> Any:
            if depth == len(turns):
                return INNERMOST[kind](i, x, s)
            for j in gt.range(turns[depth]):
                s = level(depth + 1, i + j, s)
            return s

        return level(0, gt.constant(0), x * 0.0)

    lengths = []
    optimized = machine.optimized

    def measured(text: str, *given: Any) -> Any:
        module, passes = optimized(text, *given)
        lengths.append((len(text.splitlines()), len(str(module).splitlines())))
        return module, passes

    monkeypatch.setattr(machine, "optimized", measured)
    monkeypatch.setattr(machine.object_cache, "load", lambda *key: None)
    x = gt.constant(0.75)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = nest(x)
    tape.gradient(y, x)
    assert len(lengths) >= 2
    assert max(after / before for before, after in lengths) < 4, lengths
