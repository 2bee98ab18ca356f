"""A tensor that had another size after an iteration, or on each path of a branch, was refused: `v = gt.concat([v, [i]], 0)`.
Its size is a symbol of the program now, forwards and backwards.

As machine code one program in some is differentiated twice, in `make test-all` each: compiling takes longest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError
from tests.harness.seeds import in_sample
from tests.harness.tolerances import same_array

X = np.array([0.3, -0.7, 1.1])
TWICE = 4  # of so many programs one is differentiated twice as machine code


def growing_from_nothing(x: Any, n: Any) -> Any:
    v = gt.zeros([0], gt.float64)
    for i in gt.range(n):
        v = gt.concat([v, [gt.sin(x[i % 3] * gt.cast(i + 1, gt.float64))]], 0)
    return gt.reduce_sum(v * v * v)


def growing_out_of_itself(x: Any, n: Any) -> Any:
    v = x
    for _ in gt.range(n):
        v = gt.concat([gt.sin(v), v[:1] * x[0]], 0)
    return gt.reduce_sum(v * v)


def shrinking(x: Any, n: Any) -> Any:
    v, s = x * 1.0, x[0] * 0.0
    while gt.shape(v)[0] > n:
        s = s + gt.reduce_sum(v * v * v)
        v = v[1:] * 0.9
    return s


def doubling(x: Any, n: Any) -> Any:
    v = x
    while gt.shape(v)[0] < 4 * n:
        v = gt.concat([v, v * x[0]], 0)
    return gt.reduce_sum(v * v)


def rows_and_columns(x: Any, n: Any) -> Any:
    m, w = gt.zeros([0, 3], gt.float64), gt.zeros([2, 0], gt.float64)
    for i in gt.range(n):
        m = gt.concat([m, [gt.sin(x * gt.cast(i, gt.float64))]], 0)
        w = gt.concat([w, gt.reshape(x[:2], [2, 1]) * x[2]], 1)
    return gt.reduce_sum(m * m) + gt.reduce_sum(w * w * w)


def both_axes(x: Any, n: Any) -> Any:
    m = gt.reshape(x[:1], [1, 1])
    for _ in gt.range(n):
        m = gt.concat([m, gt.reduce_sum(m * m, 0, keepdims=True)], 0)
        m = gt.concat([m, m[:, :1] * x[1]], 1)
    return gt.reduce_sum(m @ m)


def two_that_change_places(x: Any, n: Any) -> Any:
    u, v = x[:1], x[1:2]
    for _ in gt.range(n):
        u, v = gt.concat([v, u[:1] * x[2]], 0), gt.concat([u * v, [x[0]]], 0)
    return gt.reduce_sum(u * v)


def loops_in_loops(x: Any, n: Any) -> Any:
    v = x
    for i in gt.range(n):
        for _ in gt.range(i + 1):
            v = gt.concat([v, v[-1:] * x[0]], 0)
        v = v * 1.01
    return gt.reduce_sum(v * v)


def replaced_by_another(x: Any, n: Any) -> Any:
    v = x
    for i in gt.range(n):
        v = gt.sin(x[:i])
    return gt.reduce_sum(v * v)


def paths_of_different_sizes(x: Any, n: Any) -> Any:
    v = w = x
    if n > 1:
        v = gt.concat([v, v], 0)
        w = v[1:]
    elif n > 0:
        v = x[:1]
    return gt.reduce_sum(v * v) * gt.reduce_sum(w)


def a_conditional_expression(x: Any, n: Any) -> Any:
    v = x[:2] * x[0] if n > 1 else gt.concat([x, x], 0)
    w = gt.cond(n > 3, lambda: v * 2.0, lambda: v[1:])
    return gt.reduce_sum(v * v) + gt.reduce_sum(w) * w[0]


def growing_on_one_path(x: Any, n: Any) -> Any:
    v = x
    for i in gt.range(n):
        v = v * 1.1
        if x[i % 3] > 0.0:
            v = gt.concat([v, [v[0] * v[1]]], 0)
    return gt.reduce_sum(v * v)


def left_early(x: Any, n: Any) -> Any:
    v = x
    for i in gt.range(10):
        if i >= n:
            break
        v = gt.concat([v, v[:1] * v[1:2]], 0)
    return gt.reduce_sum(v * v)


def masks_again_and_again(x: Any, n: Any) -> Any:
    v = gt.concat([x, x * x, gt.sin(x)], 0)
    for _ in gt.range(n):
        v = gt.boolean_mask(v, v > -0.5) * 0.9 - 0.1
    return gt.reduce_sum(v * v * v)


def not_there_at_first(x: Any, n: Any) -> Any:
    v = None
    for i in gt.range(n + 1):
        v = gt.sin(x[:1]) if v is None else gt.concat([v, v[-1:] * x[0]], 0)
        w = gt.sin(x[:i])
    return gt.reduce_sum(v * v) + gt.reduce_sum(w)


def in_a_dict_and_a_list(x: Any, n: Any) -> Any:
    d, parts = {"v": x}, [x[:1], x[1:2]]
    for _ in gt.range(n):
        d["v"] = gt.concat([d["v"], [gt.reduce_sum(d["v"])]], 0)
        parts[0] = gt.concat([parts[0], parts[1] * x[2]], 0)
    return gt.reduce_sum(d["v"] * d["v"]) + gt.reduce_sum(parts[0] ** 2)


def parts_of_several_sizes(x: Any, n: Any) -> Any:
    parts = [x]
    for i in gt.range(n):
        parts.append(gt.sin(parts[-1][:i] * 1.1))
    total = gt.reduce_sum(gt.concat(parts, 0) ** 2)
    for part in parts:
        total = total + gt.reduce_sum(part) ** 3
    return total


def a_tape_inside(x: Any, n: Any) -> Any:
    v = x[:1]
    for _ in gt.range(n):
        with gt.GradientTape() as tape:
            tape.watch(v)
            y = gt.reduce_sum(v * v * v)
        v = gt.concat([v, tape.gradient(y, v)[:1] * x[1]], 0)
    return gt.reduce_sum(v * v)


def a_tape_around(x: Any, n: Any) -> Any:
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = growing_out_of_itself(x, n)
    return gt.reduce_sum(tape.gradient(y, x) * x)


def many_known_iterations(x: Any, n: Any) -> Any:
    v = x
    for _ in gt.range(70):
        v = gt.concat([v, v[-1:] * x[0]], 0)
    return gt.reduce_sum(v * v)


def written_where_it_grew(x: Any, n: Any) -> Any:
    v = x * 1.0
    for i in gt.range(n):
        v = gt.concat([v, v[:1]], 0)
        v[i] = v[i + 1] * x[1]
    return gt.reduce_sum(v * v)


PROGRAMS = [
    growing_from_nothing, growing_out_of_itself, shrinking, doubling, rows_and_columns, both_axes, two_that_change_places,
    loops_in_loops, replaced_by_another, paths_of_different_sizes, a_conditional_expression, growing_on_one_path, left_early,
    masks_again_and_again, not_there_at_first, in_a_dict_and_a_list, parts_of_several_sizes, a_tape_inside, a_tape_around,
    many_known_iterations, written_where_it_grew,
]  # fmt: skip


def derivatives(function: Any, n: int, order: int = 2) -> list[Any]:
    x, count = gt.constant(X), gt.constant(n)
    with gt.GradientTape() as outer:
        outer.watch([x] if order > 1 else [])
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = function(x, count)
        first = inner.gradient(y, x, unconnected_gradients="zero")
        if order == 1:
            return [y.numpy(), first.numpy()]
        s = gt.reduce_sum(first * np.array([0.4, -1.2, 0.9]))
    return [y.numpy(), first.numpy(), outer.gradient(s, x, unconnected_gradients="zero").numpy()]


@pytest.mark.parametrize("native", [False, True], ids=["interpreted", "native"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives(function: Any, native: bool) -> None:
    compiled = gt.function(function, jit_compile=native)
    order = 2 if not native or in_sample(function.__name__, TWICE) else 1
    for n in (2, 0, 1, 4):
        for a, b in zip(derivatives(compiled, n, order), derivatives(function, n, order), strict=True):
            same_array(a, b, 1e-10, f"{function.__name__} with n = {n}")
    assert compiled.experimental_get_tracing_count() == 1


def test_results_have_the_sizes_of_eager_code() -> None:
    def grown(x: Any, n: Any) -> Any:
        v = x
        for i in gt.range(n):
            v = gt.concat([v, [i]], 0)
        return v, gt.shape(v)

    compiled = gt.function(grown)
    for n in (0, 1, 5, 40):
        for a, b in zip(compiled(gt.constant([7]), gt.constant(n)), grown(gt.constant([7]), gt.constant(n)), strict=True):
            assert a.numpy().tolist() == b.numpy().tolist()


def test_within_a_memory_limit() -> None:
    compiled = gt.function(growing_out_of_itself, memory_limit=64)
    for a, b in zip(derivatives(compiled, 4), derivatives(growing_out_of_itself, 4), strict=True):
        same_array(a, b, 1e-10, "with a limit of 64 bytes")


def test_forward_mode() -> None:
    x = gt.constant(X)
    with gt.autodiff.ForwardAccumulator(x, gt.constant([1.0, 0.5, -2.0], gt.float64)) as forward:
        y = gt.function(growing_out_of_itself)(x, gt.constant(3))
    first = derivatives(growing_out_of_itself, 3)[1]
    same_array(forward.jvp(y).numpy(), first @ [1.0, 0.5, -2.0], 1e-12, "jvp")


def test_a_change_of_rank_is_refused_with_the_line() -> None:
    @gt.function
    def f(x: Any, n: Any) -> Any:
        for _ in gt.range(n):
            x = x[None]
        return x

    with pytest.raises(InvalidArgumentError, match=r"line \d+: `x` has shape \(3,\) before an iteration and shape \(1, 3\)"):
        f(gt.constant(X), gt.constant(2))
