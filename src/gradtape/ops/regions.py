"""Structured control flow: the closed set of ops whose meaning is given by regions (blocks of other operations).

* `cond`   pred(1) inputs            → outputs            regions then(inputs) → outputs, orelse(inputs) → outputs
* `while`  carried consts            → carried count ys   regions test(carried, consts) → flag,
                                                                  body(index, carried, consts) → carried, ys
* `scan`   length(0 or 1) carried consts xs → carried ys  region  body(index, carried, consts, xs) → carried, ys
* `call`   inputs                    → outputs            attribute `callee`: a block shared by all calls of it; with
                                                          `recompute=True` its backward pass runs it again and saves nothing
* `custom` inputs values consts      → outputs            region vjp(cts, consts) → grads: the outputs are the values, whose
                                                          derivative in the inputs at `places` the user gives
* `checkpointed` length(0 or 1) state consts xs cts seeds → cts ys    the backward pass of a loop within `limit` bytes; regions
                                                          advance(first, count, state, consts, xs) → state,
                                                          reverse(first, count, state, consts, xs, cts, seeds) → cts, ys

`carried` values go from one iteration to the next, `consts` are the same in all; `xs` are lists of which iteration i gets
item i, `ys` lists that collect one item per iteration. A scan has a static `length` attribute or a scalar int32 operand in
the group `length`; with `reverse=True` it runs from the last index to the first, reading and writing items at the index.
`count` is the number of iterations that ran.

`checkpointed` means `reverse` on all iterations (first = 0): from the state at the start of a loop and the cotangents at its
end, it gives those at the start, and one item of each of `ys` per iteration. `reverse` needs memory for every iteration it is
given, so a backend runs it on a few at a time, the last to run first, and has the states before them from `advance`. `first` is
the lowest index of `count` iterations; with `reverse=True` the loop runs them from the highest. `saved` are the types that
`reverse` keeps for an iteration, None if not known.

Layout names are those of `ir/graph.py`. Derivatives are in `ad/regions.py`, `ad/loops.py` and `ad/dual.py`, the
meaning in `backends/`; the type rule here takes the types from the regions.
"""

from __future__ import annotations

from typing import Any

from gradtape.dtypes import int32
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.opdef import Op

COUNT = TensorSpec((), int32)


def _structured(*inputs: Any, **attrs: Any) -> Any:
    raise TypeError("a structured operation is run by a backend, not on arrays")


def _infer_structured(*specs: Any, **attrs: Any) -> Any:
    raise TypeError("the types of a structured operation come from its regions")


def _region(name: str, args: str) -> Op:
    return Op(name, "region", (args,), _structured, _infer_structured, outputs=0)


COND = _region("cond", "*inputs")
WHILE = _region("while", "*inputs")
SCAN = _region("scan", "*inputs")
CALL = _region("call", "*inputs")
CUSTOM = _region("custom", "*inputs")
CHECKPOINTED = _region("checkpointed", "*inputs")

REGION_OPS = (COND, WHILE, SCAN, CALL, CUSTOM, CHECKPOINTED)


def result_types(op: Op, regions: dict[str, Any], attrs: dict[str, Any]) -> tuple[list[Any], dict[str, int]]:
    """The types and layout of a structured operation's results."""
    if op is COND:
        then = regions["then"]
        return [v.type for v in then.results], {"outputs": len(then.results)}
    if op is CALL:
        callee = attrs["callee"]
        return [v.type for v in callee.results], {"outputs": len(callee.results)}
    if op is CHECKPOINTED:
        reverse = regions["reverse"]
        return [v.type for v in reverse.results], dict(reverse.result_layout)
    body = regions["body"]
    carried = [v.type for v in body.group("carried")]
    ys: list[Any] = [ListSpec(v.type) for v in body.result_group("ys")]
    if op is WHILE:
        return [*carried, COUNT, *ys], {"carried": len(carried), "count": 1, "ys": len(ys)}
    return [*carried, *ys], {"carried": len(carried), "ys": len(ys)}


def body_result(operation: Any, place: int) -> int | None:
    """Which result of the body a result of a loop (by position) comes from; None for the count."""
    carried = operation.layout["carried"]
    if place < carried or operation.op is SCAN:
        return place
    return None if place == carried else place - 1


def loop_result(operation: Any, place: int) -> int:
    """The position among a loop's results of what its body gives at `place`."""
    return place + (operation.op is WHILE and place >= operation.layout["carried"])
