"""Number 23: loops inside loops are traced a number of times that grows with their depth, not with two to the power of it."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import gradtape as gt
from tests.harness.tolerances import IDENTITY, same_array

BODIES = {  # before the loops, in the innermost, after them; traces of a loop alone
    "tensor": ("", "x = x * 1.01", "return x"),
    "number": ("s = 0", "s = s + 1", "return x * s"),
    "name of the body": ("", "y = x * 2.0; x = x + y", "return x"),
    "variable": ("", "v.assign_add(x)", "return v + x"),
    "list": ("l = []", "l.append(x * len(l))", "return gt.stack(l)"),
    "item": ("r = gt.zeros([2], gt.float64)", "r[0] = r[0] + x", "return r"),
    "attribute": ("box.h = x", "box.h = box.h * 1.5", "return box.h"),
    "index": ("", "x = x + gt.cast(i0, gt.float64)", "return x"),
}


class Box:
    """Something with attributes."""


def _nested(kind: str, depth: int, iterated: str):
    before, body, after = BODIES[kind]
    loops = [f"{'    ' * (k + 1)}for i{k} in {iterated}:" for k in range(depth)]
    inside = "    " * (depth + 1)
    text = "\n".join(
        ["def f(x, n):", f"    {before or 'pass'}", *loops, f"{inside}tick()", f"{inside}{body}", f"    {after}", ""]
    )
    name = f"<nested {kind} {depth} {iterated}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    traces: list[None] = []
    tick = gt.autograph.experimental.do_not_convert(lambda: traces.append(None))
    space = {"gt": gt, "tick": tick, "box": Box(), "v": gt.Variable(np.float64(0.0))}
    exec(compile(text, name, "exec"), space)
    return space["f"], space["v"], traces


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("iterated", ["gt.range(n)", "gt.range(2)"])
def test_traces_grow_with_the_depth(kind, iterated):
    counts = []
    for depth in (1, 2, 3, 4, 5):
        function, variable, traces = _nested(kind, depth, iterated)
        x, n = gt.constant(np.float64(0.7)), gt.constant(2)
        expected = np.asarray(function(x, n))
        traces.clear()
        variable.assign(0.0)
        same_array(np.asarray(gt.function(function, jit_compile=False)(x, n)), expected, IDENTITY, f"{kind}, {depth} loops")
        counts.append(len(traces))
    steps = np.diff(counts)
    assert steps[-1] <= max(steps[0], 3), f"{counts} traces of the innermost body at depths 1 to 5"


def test_what_an_inner_loop_does_not_change_any_more_is_no_state():
    """A guess that the trace before suggests, and this one does not bear out, is taken back."""

    def f(x, n):
        k = 0
        held = [x]
        for i in gt.range(n):
            last = held[-1]
            for _ in gt.range(n):
                if k == 0:
                    last = last * 2.0
            held = [last, x]
            k = k + i
        return last, k

    for n in (1, 2, 3):
        eager = [np.asarray(v) for v in f(gt.constant(1.5), gt.constant(n))]
        compiled = [np.asarray(v) for v in gt.function(f, jit_compile=False)(gt.constant(1.5), gt.constant(n))]
        for a, b in zip(compiled, eager, strict=True):
            same_array(a, b.astype(a.dtype), IDENTITY, f"{n} turns")
