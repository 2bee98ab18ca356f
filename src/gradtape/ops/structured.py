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

Layout names are those of `ir/graph.py`. Derivatives are in `ad/regions.py`, `ad/loop_rules.py` and `ad/dual.py`, the
meaning in `backends/`; the type rule here takes the types from the regions.
"""

from __future__ import annotations

from typing import Any

from gradtape.core.opdef import Op
from gradtape.dtypes import bool_, int32
from gradtape.ir.graph import Operation
from gradtape.ir.types import ListSpec, TensorSpec

BOOL = TensorSpec((), bool_)
COUNT = TensorSpec((), int32)


def _structured(*inputs: Any, **attrs: Any) -> Any:
    raise TypeError("a structured operation is run by a backend, not on arrays")


def _infer_structured(*specs: Any, **attrs: Any) -> Any:
    raise TypeError("the types of a structured operation come from its regions")


def _region(name: str, regions: tuple[str, ...], *signature: tuple[str, str, Any]) -> Op:
    """An op with regions; `signature` says what of them agrees with its operands (`in`), its results (`out`) and one another
    (`body.in`: the parameters of a region, `body.out`: its results). `ir/verify.py` reads it."""
    return Op(name, "region", ("*inputs",), _structured, _infer_structured, outputs=0, signature=(regions, *signature))


COND = _region(
    "cond", ("then", "orelse"),
    ("in.pred", "is", (True, BOOL)),
    ("in.inputs", "fits", "then.in.inputs"),
    ("in.inputs", "fits", "orelse.in.inputs"),
    ("then.out.outputs", "fits", "out.outputs"),
    ("orelse.out.outputs", "fits", "out.outputs"),
)  # fmt: skip
WHILE = _region(
    "while", ("test", "body"),
    ("in.carried", "fits", "test.in.carried"),
    ("in.consts", "fits", "test.in.consts"),
    ("test.out.flag", "is", (True, BOOL)),
    ("body.in.index", "is", (True, COUNT)),
    ("in.carried", "fits", "body.in.carried"),
    ("in.consts", "fits", "body.in.consts"),
    ("body.out.carried", "fits", "body.in.carried"),
    ("body.out.carried", "fits", "test.in.carried"),
    ("body.out.carried", "fits", "out.carried"),
    ("in.carried", "fits", "out.carried"),
    ("body.out.ys", "item of", "out.ys"),
    ("out.count", "is", (True, COUNT)),
)  # fmt: skip
SCAN = _region(
    "scan", ("body",),
    ("in.length", "is", (False, COUNT)),
    ("body.in.index", "is", (True, COUNT)),
    ("in.carried", "fits", "body.in.carried"),
    ("in.consts", "fits", "body.in.consts"),
    ("in.xs", "list of", "body.in.xs"),
    ("body.out.carried", "fits", "body.in.carried"),
    ("body.out.carried", "fits", "out.carried"),
    ("in.carried", "fits", "out.carried"),
    ("body.out.ys", "item of", "out.ys"),
)  # fmt: skip
CALL = _region("call", (), ("in.*", "fits", "callee.in.*"), ("callee.out.*", "fits", "out.*"))
CUSTOM = _region(
    "custom", ("vjp",),
    ("in.inputs", "any", None),
    ("in.values", "fits", "out.outputs"),
    ("in.values", "fits", "vjp.in.cts"),
    ("in.consts", "fits", "vjp.in.consts"),
)  # fmt: skip
CHECKPOINTED = _region(
    "checkpointed", ("advance", "backward"),
    ("in.length", "is", (False, COUNT)),
    *((f"{region}.in.{group}", "is", (True, COUNT)) for region in ("advance", "backward") for group in ("first", "count")),
    *((f"in.{group}", "fits", f"advance.in.{group}") for group in ("state", "consts", "xs")),
    *((f"in.{group}", "fits", f"backward.in.{group}") for group in ("state", "consts", "xs")),
    ("advance.out.state", "fits", "advance.in.state"),
    ("advance.out.state", "fits", "backward.in.state"),
    ("in.cts", "fits", "backward.in.cts"),
    ("in.seeds", "fits", "backward.in.seeds"),
    ("backward.out.cts", "fits", "backward.in.cts"),
    ("backward.out.cts", "fits", "out.cts"),
    ("in.cts", "fits", "out.cts"),
    ("backward.out.ys", "fits", "out.ys"),
)  # fmt: skip
UNDECIDED = "undecided"  # as LEAF: the value depends on what is watched in one run and not in another
LEAF = "leaf"  # of a `custom`: the derivative goes to its value, if that depends on what is asked for, else to its input

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
        backward = regions["backward"]
        return [v.type for v in backward.results], dict(backward.result_layout)
    body = regions["body"]
    carried = [v.type for v in body.group("carried")]
    ys: list[Any] = [ListSpec(v.type) for v in body.result_group("ys")]
    if op is WHILE:
        return [*carried, COUNT, *ys], {"carried": len(carried), "count": 1, "ys": len(ys)}
    return [*carried, *ys], {"carried": len(carried), "ys": len(ys)}


def body_result(operation: Operation, place: int) -> int | None:
    """Which result of the body a result of a loop (by position) comes from; None for the count."""
    carried = operation.layout["carried"]
    if place < carried or operation.op is SCAN:
        return place
    return None if place == carried else place - 1


def loop_result(operation: Operation, place: int) -> int:
    """The position among a loop's results of what its body gives at `place`."""
    return place + (operation.op is WHILE and place >= operation.layout["carried"])
