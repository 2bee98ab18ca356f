"""Traced Python loops become scans again: what is folded, into what, and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.backends.numpy import compile_block
from gradtape.ir.dims import fresh_symbol
from gradtape.ir.graph import Block, Operation
from gradtape.ir.printer import to_text
from gradtape.ir.types import TensorSpec
from gradtape.ir.verify import verify
from gradtape.ops.compare import LESS
from gradtape.ops.elementwise import MULTIPLY, SIN
from gradtape.ops.index import GETITEM
from gradtape.ops.staged import ASSERT, PRINT, PY_CALL
from gradtape.ops.structured import CALL, SCAN, result_types
from gradtape.passes.dce import dce
from gradtape.passes.reroll import reroll
from tests.passes.programs import say
from tests.passes.unrolled import folded, names, size, spec, trace, without_locations


def text_of(function: Callable[..., Any], *specs: TensorSpec) -> str:
    """The folded program of a function, without locations."""
    return to_text(folded(trace(function, *specs)), locations=False)


def golden(text: str) -> str:
    return textwrap.dedent(text).lstrip("\n")


# -- what the scans look like --------------------------------------------------------------------------------------------


def test_carried_value_and_weights() -> None:
    def rnn(x: Any, w: Any, u: Any, h: Any) -> Any:
        states = []
        for t in range(10):
            h = gt.tanh(x[t] @ w + h @ u)
            states.append(h)
        return gt.stack(states), h

    assert text_of(rnn, spec(10, 2, 3), spec(3, 4), spec(4, 4), spec(2, 4)) == golden("""
        func rnn inputs(%x: float64[10,2,3], %w: float64[3,4], %u: float64[4,4], %h: float64[2,4]) {
          carried(%0: float64[2,4]) ys(%1: list<float64[2,4]>) = scan length() carried(%h) consts(%x, %w, %u) xs() [length=10, reverse=False] {
            body:body index(%2: int32[]) carried(%3: float64[2,4]) consts(%x.1: float64[10,2,3], %w.1: float64[3,4], %u.1: float64[4,4]) xs() {
              %4: float64[2,3] = getitem_at(%x.1, %2, key=(slot(0),), size=None)
              %5: float64[2,4] = matmul(%4, %w.1)
              %6: float64[2,4] = matmul(%3, %u.1)
              %7: float64[2,4] = add(%5, %6)
              %8: float64[2,4] = tanh(%7)
              give carried(%8) ys(%8)
            }
          }
          %9: float64[10,2,4] = list_stack(%1, length=10, item_shape=(2, 4))
          give outputs(%9, %0)
        }
    """)  # noqa: E501


def test_constants_that_differ_are_scanned() -> None:
    def horner(x: Any, y: Any) -> Any:
        for c in (1.5, 2.5, -1.0, 3.0, 2.5, 7.0, 0.5, 9.0):
            y = y * x + c
        return y

    assert text_of(horner, spec(), spec()) == golden("""
        func horner inputs(%x: float64[], %y: float64[]) {
          %0: float64[8] = constant(value=float64[8]{1.5, 2.5, -1.0, 3.0, 2.5, 7.0, 0.5, 9.0})
          %1: list<float64[]> = list_from_tensor(%0)
          carried(%2: float64[]) ys() = scan length() carried(%y) consts(%x) xs(%1) [length=8, reverse=False] {
            body:body index(%3: int32[]) carried(%4: float64[]) consts(%x.1: float64[]) xs(%5: float64[]) {
              %6: float64[] = multiply(%4, %x.1)
              %7: float64[] = add(%6, %5)
              give carried(%7) ys()
            }
          }
          give outputs(%2)
        }
    """)


def test_nested_loops() -> None:
    def total(x: Any, s: Any) -> Any:
        for i in range(6):
            for j in range(12):
                s = gt.sin(s) + x[i, j]
        return s

    assert text_of(total, spec(6, 12), spec()) == golden("""
        func total inputs(%x: float64[6,12], %s: float64[]) {
          carried(%0: float64[]) ys() = scan length() carried(%s) consts(%x) xs() [length=6, reverse=False] {
            body:body index(%1: int32[]) carried(%2: float64[]) consts(%x.1: float64[6,12]) xs() {
              carried(%3: float64[]) ys() = scan length() carried(%2) consts(%x.1, %1) xs() [length=12, reverse=False] {
                body:body index(%4: int32[]) carried(%5: float64[]) consts(%x.2: float64[6,12], %6: int32[]) xs() {
                  %7: float64[] = sin(%5)
                  %8: float64[] = getitem_at(%x.2, %4, %6, key=(slot(1), slot(0)), size=None)
                  %9: float64[] = add(%7, %8)
                  give carried(%9) ys()
                }
              }
              give carried(%3) ys()
            }
          }
          give outputs(%0)
        }
    """)


def test_values_of_two_iterations_back() -> None:
    def fibonacci(a: Any, b: Any) -> Any:
        for _ in range(30):
            a, b = b, a + b
        return a, b

    assert text_of(fibonacci, spec(), spec()) == golden("""
        func fibonacci inputs(%a: float64[], %b: float64[]) {
          carried(%0: float64[], %1: float64[]) ys() = scan length() carried(%b, %a) consts() xs() [length=30, reverse=False] {
            body:body index(%2: int32[]) carried(%3: float64[], %4: float64[]) consts() xs() {
              %5: float64[] = add(%4, %3)
              give carried(%5, %3) ys()
            }
          }
          give outputs(%1, %0)
        }
    """)


def test_the_backward_loop_reads_the_forward_loop_from_the_end() -> None:
    def slope(x: Any) -> Any:
        y, kept = x, []
        for _ in range(9):
            kept.append(gt.cos(y))
            y = gt.sin(y)
        g = x * 0.5
        for k in reversed(range(9)):
            g = g * kept[k] + g
        return g

    new = folded(trace(slope, spec()))
    assert names(new) == ["scan", "multiply", "scan"]
    backward = new.operations[-1].regions["body"]
    assert names(backward) == ["subtract", "list_get", "multiply", "add"]


# -- what is folded, and how small it gets -------------------------------------------------------------------------------


def power_iteration(a: Any, v: Any) -> Any:
    for _ in range(20):
        v = gt.linalg.matvec(a, v)
        v = v / gt.sqrt(gt.reduce_sum(v * v))
    return v


def python_zero(x: Any) -> Any:
    total = 0
    for i in range(12):
        total = total + gt.sin(x[i])
    return total


def filled(x: Any) -> Any:
    y = gt.zeros((24,), gt.float64)
    for k in range(12):
        y[2 * k] = gt.sin(x[k])
    return y


def windows(x: Any) -> Any:
    s = x[0:3]
    for k in range(12):
        s = gt.sin(s) * x[2 * k : 2 * k + 3]
    return s


def any_order(x: Any, y: Any) -> Any:
    for i in (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8):
        y = gt.sin(y) + x[i]
    return y


def from_the_end(x: Any, y: Any) -> Any:
    for k in range(1, 13):
        y = gt.sin(y) + x[-k]
    return y


def three_weights(x: Any, a: Any, b: Any, c: Any) -> Any:
    for _ in range(10):
        for w in (a, b, c):
            x = x * w
    return x


def two_loops(x: Any, a: Any, b: Any) -> Any:
    for w in (a, b):
        for _ in range(12):
            x = gt.sin(x) * w
    return x


def rows(x: Any, h: Any) -> Any:
    found = []
    for row in gt.unstack(x, axis=1):
        h = gt.sin(h) + row
        found.append(h)
    return gt.stack(found, axis=1)


def started(x: Any, h: Any) -> Any:
    found = [h]
    for t in range(12):
        h = gt.sin(h) * x[t]
        found.append(h)
    return gt.stack(found), gt.concat(found, 0), found[5]


def triangle(x: Any, s: Any) -> Any:
    for i in range(30):
        for j in range(i):
            s = s + gt.sin(x[i, j])
    return s


def reset(x: Any, z: Any) -> Any:
    found = []
    for i in range(10):
        s = z
        for j in range(12):
            s = gt.sin(s) + x[i, j]
        found.append(s)
    return gt.stack(found)


def three_deep(x: Any, s: Any) -> Any:
    for i in range(8):
        for j in range(9):
            for k in range(10):
                s = gt.sin(s) + x[i, j, k]
    return s


def offsets(x: Any, s: Any) -> Any:
    for i in range(8):
        s = s * 0.5
        for j in range(12):
            s = gt.sin(s) + x[2 * i + j] * (0.25 * j)
        s = s + 1.0
    return s


def two_states(x: Any, p: Any, q: Any) -> Any:
    for t in range(15):
        p, q = p + 0.1 * q, q - 0.1 * p * x[t]
    return p, q


def integers(x: Any) -> Any:
    for t in range(15):
        x = x * gt.cast(gt.constant(3 * t + 2), gt.float64)
    return x


def last_only(x: Any) -> Any:
    for _ in range(15):
        kept = gt.cos(x)
        x = gt.sin(x) + kept
    return x, kept


def first_used(x: Any) -> Any:
    first = None
    for _ in range(15):
        x = gt.sin(x)
        first = x if first is None else first
        x = x + first
    return x


def gradient(x: Any, w: Any, h: Any) -> Any:
    with gt.GradientTape() as tape:
        for v in (x, w, h):
            tape.watch(v)
        y = h
        for t in range(12):
            y = gt.tanh(x[t] + y @ w)
        loss = gt.reduce_sum(y * y)
    return tape.gradient(loss, [x, w, h])


def curvature(x: Any, w: Any) -> Any:
    with gt.GradientTape() as outer:
        outer.watch(x)
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = x
            for _ in range(12):
                y = gt.sin(y) * w
        slope = inner.gradient(y, x)
    return outer.gradient(slope, x)


def training(w: Any, b: Any, x: Any) -> Any:
    losses = []
    for _ in range(10):
        with gt.GradientTape() as tape:
            tape.watch([w, b])
            h = x
            for layer in range(12):
                h = gt.tanh(h @ w[layer] + b[layer])
            losses.append(gt.reduce_mean(h * h))
        slopes = tape.gradient(losses[-1], [w, b])
        w, b = w - 0.1 * slopes[0], b - 0.1 * slopes[1]
    return w, b, gt.stack(losses)


CASES = [
    (power_iteration, (spec(3, 3), spec(3)), 10),
    (python_zero, (spec(12),), 8),
    (filled, (spec(12),), 10),
    (windows, (spec(30),), 10),
    (any_order, (spec(10), spec()), 8),
    (from_the_end, (spec(12), spec()), 8),
    (three_weights, (spec(), spec(), spec(), spec()), 5),
    (two_loops, (spec(), spec(), spec()), 8),
    (rows, (spec(2, 12), spec(2)), 10),
    (started, (spec(12), spec(3)), 14),
    (triangle, (spec(30, 30), spec()), 25),
    (reset, (spec(10, 12), spec()), 8),
    (three_deep, (spec(8, 9, 10), spec()), 8),
    (offsets, (spec(30), spec()), 20),
    (two_states, (spec(15), spec(), spec()), 16),
    (integers, (spec(),), 10),
    (last_only, (spec(),), 6),
    (first_used, (spec(),), 6),
    (gradient, (spec(12, 2), spec(2, 2), spec(2)), 70),
    (curvature, (spec(), spec()), 110),
    (training, (spec(12, 3, 3), spec(12, 3), spec(5, 3)), 100),
]


@pytest.mark.parametrize("located", [True, False])
@pytest.mark.parametrize(("function", "specs", "most"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_loops_are_found(function: Callable[..., Any], specs: Any, most: int, located: bool) -> None:
    block = dce(trace(function, *specs))
    new = folded(block if located else without_locations(block))
    assert size(new) <= most < size(block)
    assert reroll(new) is new, "nothing is left to fold"


@pytest.mark.parametrize("count", [100, 10_000])
def test_programs_do_not_grow_with_the_trip_count(count: int) -> None:
    block = Block([spec(), spec(count)], ["x", "c"])
    x, c = block.params
    for k in range(count):
        item = block.append(Operation(GETITEM, [c], [spec()], {"key": (k,)})).result
        for _ in range(4):
            x = block.append(Operation(SIN, [x], [spec()])).result
            x = block.append(Operation(MULTIPLY, [x, item], [spec()])).result
    new = verify(reroll(block.give(outputs=[x])))
    assert size(new) < 15
    values = np.random.default_rng(0).normal(size=count)
    expected = np.float64(0.5)
    for value in values:
        for _ in range(4):
            expected = np.sin(expected) * value
    assert compile_block(new)(np.float64(0.5), values) == (expected,)


def test_the_backward_pass_does_not_grow_either() -> None:
    def slope(x: Any, c: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch([x, c])
            y = x
            for k in range(400):
                y = gt.sin(y * c[k])
        return tape.gradient(y, [x, c])

    block = dce(trace(slope, spec(), spec(400)))
    assert size(block) > 2000
    assert size(folded(block)) < 60


def test_symbolic_dimensions() -> None:
    def masked(x: Any, y: Any) -> Any:
        for k in range(12):
            x = gt.sin(x) * y[k] + gt.zeros_like(x)
        z = gt.boolean_mask(x, x > 0)
        for k in range(12):
            z = gt.sin(z) + gt.ones_like(z) * float(k)
        return x, z

    n = fresh_symbol("n")
    block = trace(masked, TensorSpec((n,), "float64"), spec(12))
    rng = np.random.default_rng(0)
    new = folded(block, [rng.normal(size=7), rng.normal(size=12)])
    assert names(new).count("scan") == 2


def test_sizes_made_in_a_loop_stay_apart() -> None:
    def shrinking(x: Any) -> Any:
        for _ in range(12):
            x = gt.sin(gt.boolean_mask(x, x > -1))
        return x

    block = trace(shrinking, TensorSpec((fresh_symbol("n"),), "float64"))
    assert reroll(block) is block


# -- effects -------------------------------------------------------------------------------------------------------------


def effectful(op: Any, attrs: Callable[[int], dict[str, Any]], count: int = 12) -> Block:
    """A loop that does something with x in each iteration."""
    block = Block([spec(), spec()], ["x", "limit"])
    x, limit = block.params
    for k in range(count):
        x = block.append(Operation(SIN, [x], [spec()])).result
        operands = [x]
        if op is ASSERT:
            operands = [block.append(Operation(LESS, [x, limit], [TensorSpec((), "bool")])).result]
        block.append(Operation(op, operands, [], attrs(k)))
    return block.give(outputs=[x])


def test_python_calls_keep_their_order() -> None:
    block = effectful(PY_CALL, lambda k: {"function": say, "types": ()})
    assert names(folded(block)) == ["scan"]


def test_printed_numbers_are_scanned(capsys: Any) -> None:
    def attrs(k: int) -> dict[str, Any]:
        return {"template": ("step", k, ("twice ", 2 * k)), "sep": " ", "end": "\n", "file": None}

    block = effectful(PRINT, attrs)
    new = reroll(block)
    assert names(new) == ["scan"]
    texts = []
    for program in (block, new):
        compile_block(program)(np.float64(0.5), np.float64(2.0))
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    assert texts[0].splitlines()[3] == "step 3 twice 6"


def test_printed_texts_that_differ_block_the_fold() -> None:
    def attrs(k: int) -> dict[str, Any]:
        return {"template": (f"step {k}",), "sep": " ", "end": "\n", "file": None}

    block = effectful(PRINT, attrs)
    assert reroll(block) is block


def test_an_assertion_fails_in_the_same_iteration() -> None:
    block = effectful(ASSERT, lambda k: {"template": ("too large",), "exception": ValueError})
    assert names(folded(block, [np.float64(0.1), np.float64(2.0)])) == ["scan"]
    folded(block, [np.float64(0.9), np.float64(0.5)])


def test_random_numbers_are_drawn_in_order() -> None:
    def walk(x: Any) -> Any:
        for _ in range(12):
            x = x + gt.random.normal((2,), dtype=gt.float64)
        return x

    block = trace(walk, spec(2))
    new = reroll(block)
    assert names(new) == ["scan"]
    results = []
    for program in (block, new):
        gt.random.set_seed(7)
        results.append(compile_block(program)(np.zeros(2))[0])
    assert np.array_equal(*results)


# -- what is not folded --------------------------------------------------------------------------------------------------


def few(x: Any) -> Any:
    return gt.sin(gt.sin(gt.sin(gt.sin(x))))


def shrinking(x: Any) -> Any:
    for _ in range(12):
        x = gt.sin(x[1:])
    return x


def wired_differently(x: Any) -> Any:
    made = [x]
    rng = np.random.default_rng(0)
    for k in range(1, 15):
        made.append(made[rng.integers(k)] * made[rng.integers(k)])
    return made[-1]


def other_attributes(x: Any) -> Any:
    for k in range(12):
        x = gt.sin(x) ** (k + 2)
    return x


def all_results(x: Any) -> Any:
    found = []
    for _ in range(12):
        x = gt.sin(x)
        found.append(x)
    return found


@pytest.mark.parametrize("function", [few, shrinking, wired_differently, other_attributes, all_results])
def test_these_stay_as_they_are(function: Callable[..., Any]) -> None:
    block = trace(function, spec(20))
    assert reroll(block) is block


def test_regions_and_callees_are_folded_too() -> None:
    inner = Block(layout={"index": 0})
    inner.layout = {}
    inner.add_param(TensorSpec((), "int32"), group="index")
    x = inner.add_param(spec(), group="carried")
    inner.layout |= {"consts": 0, "xs": 0}
    start = x
    for _ in range(20):
        start = inner.append(Operation(SIN, [start], [spec()])).result
    inner.give(carried=[start], ys=[])
    callee = Block([spec()], name="g", layout={"inputs": 1})
    value = callee.params[0]
    for _ in range(20):
        value = callee.append(Operation(SIN, [value], [spec()])).result
    callee.give(outputs=[value])
    block = Block([spec()], ["x"])
    (value,) = block.params
    for _ in range(2):
        types, layout = result_types(CALL, {}, {"callee": callee})
        call = Operation(CALL, [value], types, {"callee": callee}, layout={"inputs": 1}, result_layout=layout)
        value = block.append(call).result
    types, layout = result_types(SCAN, {"body": inner}, {})
    groups = {"length": 0, "carried": 1, "consts": 0, "xs": 0}
    scan = Operation(SCAN, [value], types, {"length": 3, "reverse": False}, {"body": inner}, None, groups, layout)
    block.append(scan)
    new = folded(block.give(outputs=scan.results))
    first, second, loop = new.operations
    assert first.attrs["callee"] is second.attrs["callee"]
    assert names(first.attrs["callee"]) == ["scan"]
    assert names(loop.regions["body"]) == ["scan"]
