"""The short forms of `apply`: what one small operation costs is decided here.

`PROTOCOL` is the protocol of `core/dispatch.py` (take, run, box, record) for a fixed number of plain tensors, as the source of
one Python function. The four forms are that text with its blanks filled in: `unary` and `binary` are the public functions of
elementwise ops, `apply_one` and `apply_two` serve functions that the user calls. A form decides nothing that `apply` does
not: whatever it does not know (variables, arrays, traced and batched tensors, two dtypes), it hands to the general way.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from typing import Any

import numpy as np

from gradtape.core.conversion import convert, plain
from gradtape.core.dispatch import FAILURES, QUICK, WATCHERS, apply, apply_wrapped, explained, failed, promote, watched_run
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.core.record import CLOCK, INTERNAL, SCOPE, Past, past_of, past_of_pair
from gradtape.core.recorded import record, record_mixed
from gradtape.core.save_plan import PLANS, save_plan
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Binary, Unary
from gradtape.dtypes import as_dtype

PROTOCOL = """
def form({settings}):
    def call({signature}):
{take}  # gives arrays and versions, or returns what the general way gives
        try:
            result = watched_run(op, {arrays}, {attrs}) if WATCHERS else {run}
        except FAILURES as error:
            return failed(op, {inputs}, {arrays}, {attrs}, error)
        out = Tensor()
        out._data = result
        if {unwatched}:
            out._node = None
            return out
        scope = SCOPE.get()
        if scope is None:
            out._node = {past}
            return out
        fast, covers = scope.fast, scope.covers
        if {also} and {known}:  # to all who record
            return record(scope, op, {nodes}, {saved}, {kept_attrs}, out, result, {depth})
        out._node = None
        return record_mixed(scope, op, {arrays}, {nodes}, {attrs}, out, result)
    return call
"""
_ONE = {
    "arrays": "(a,)", "nodes": "(node_a,)", "inputs": "(x,)",
    "unwatched": "node_a is None",
    "past": "node_a if not node_a.keys and (node_a.__class__ is Past or not CLOCK.open) else past_of(op, (node_a,))",
    "known": "(node_a.keys is fast or node_a.keys in covers)",
}  # fmt: skip
_TWO = {
    "arrays": "(a, b)", "nodes": "(node_a, node_b)", "inputs": "(x, y)",
    "unwatched": "node_a is None and node_b is None",
    "past": "past_of_pair(op, node_a, node_b)",
    "known": "(node_a is None or node_a.keys is fast or node_a.keys in covers)"
    " and (node_b is None or node_b.keys is fast or node_b.keys in covers)",
}  # fmt: skip
# an elementwise op knows what it keeps when it is made, the others look it up; `fixed`: its save plan is (inputs, output)
_ELEMENTWISE = {"attrs": "{}", "kept_attrs": "None", "depth": "2", "also": "fixed"}
# the list of records is told of complex values by `record_mixed`; elementwise ops make them of complex values only
_ANY = {"depth": "3", "also": "result.dtype.kind != 'c'"}


def _form(name: str, **blanks: str) -> Callable[..., Any]:
    """The function that makes calls of one form, given its settings."""
    file = f"{__file__}<{name}>"
    INTERNAL.add(file)
    space: dict[str, Any] = {
        "__name__": __name__, "CLOCK": CLOCK, "FAILURES": FAILURES, "PLANS": PLANS, "Past": Past, "SCOPE": SCOPE,
        "Tensor": Tensor,
        "WATCHERS": WATCHERS, "apply": apply, "failed": failed, "past_of": past_of, "past_of_pair": past_of_pair,
        "record": record, "record_mixed": record_mixed, "watched_run": watched_run,
    }  # fmt: skip
    exec(compile(PROTOCOL.format(**blanks), file, "exec"), space)  # noqa: S102  (our own template)
    form: Callable[..., Any] = space["form"]
    return form


def _named(call: Callable[..., Any], op: Op, doc: str) -> Callable[..., Any]:
    """The call under the name and module of the family's file that makes it, where pickle looks for it."""
    call.op = op  # type: ignore[attr-defined]
    call.__module__ = _getframe(2).f_globals["__name__"]
    call.__name__ = call.__qualname__ = op.name
    call.__doc__ = doc or None
    return call


# -- for functions that the user calls -------------------------------------------------------------------------------

apply_one: Callable[[Op, Any, dict[str, Any]], Any] = _form(
    "apply_one", **_ONE | _ANY, settings="", signature="op, x, attrs", attrs="attrs", kept_attrs="attrs",
    run="op.impl(a, **attrs)", saved="PLANS[op].savers[1]((a,), result)",
    take="""
        if x.__class__ is not Tensor:
            return apply(op, x, **attrs)
        a, node_a = x._data, x._node""",
)()  # fmt: skip
apply_two: Callable[[Op, Any, Any], Any] = _form(
    "apply_two", **_TWO | _ANY, settings="", signature="op, x, y", attrs="{}", kept_attrs="{}", run="op.impl(a, b)",
    saved="PLANS[op].savers[(node_a is not None) + 2 * (node_b is not None)]((a, b), result)",
    take="""
        if x.__class__ is not Tensor or y.__class__ is not Tensor:
            return apply(op, x, y)
        a, node_a = x._data, x._node
        b, node_b = y._data, y._node""",
)()  # fmt: skip


# -- elementwise ops -------------------------------------------------------------------------------------------------

_unary = _form(
    "unary", **_ONE | _ELEMENTWISE, settings="op, impl, floating, fixed, keep_a, keep_out, general", signature="x, name=None",
    run="impl(a)", saved="(a if keep_a else None, result if keep_out else None)",
    take="""
        if x.__class__ is not Tensor:
            return general(x)
        a, node_a = x._data, x._node
        if floating and a.dtype.kind in "iub":
            return general(x)""",
)  # fmt: skip
_binary = _form(
    "binary", **_TWO | _ELEMENTWISE, settings="op, impl, floating, fixed, keeps, general, weak", signature="x, y, name=None",
    run="impl(a, b)",
    saved="(a if (keep := keeps[node_a is not None][node_b is not None])[0] else None, b if keep[1] else None, "
    "result if keep[2] else None)",
    take="""
        if x.__class__ is Tensor:
            a, node_a = x._data, x._node
            if y.__class__ is Tensor:
                b, node_b = y._data, y._node
                if a.dtype is not b.dtype:
                    return general(x, y)
            elif weak and (y.__class__ is float or y.__class__ is int) and a.dtype.kind in "fc":
                b, node_b = y, None
            else:
                return general(x, y)
        elif weak and (x.__class__ is float or x.__class__ is int) and y.__class__ is Tensor and y._data.dtype.kind in "fc":
            a, node_a = x, None
            b, node_b = y._data, y._node
        else:
            return general(x, y)
        if floating and a.dtype.kind in "iub":
            return general(x, y)""",
)  # fmt: skip


def unary(op: Op, doc: str = "") -> Unary:
    """The public function of a one-input elementwise op, with its docstring."""
    plan = save_plan(op)

    def general(x: Any) -> Any:
        if x.__class__ in QUICK and (out := QUICK[x.__class__](op, x)) is not None:
            return out
        x = convert(x)
        if op.floating and (x._data.dtype.kind in "iub" if x.__class__ is Tensor else not x.dtype.is_differentiable):
            x = apply(HOOKS.cast_op, x, dtype=as_dtype(np.float32))
        return call(x) if x.__class__ is Tensor else apply_wrapped(op, (x,), {})

    fixed = op.kind == "elementwise"
    call = _unary(op, op.impl, op.floating, fixed, plan.keeps((True,), 0), plan.keeps((True,), -1), general)
    return _named(call, op, doc)


def binary(op: Op, doc: str = "", common: Callable[..., tuple[Any, ...]] = promote) -> Binary:
    """The public function of a two-input elementwise op; also serves as the Python operator. `common` gives both operands one
    dtype."""
    plan = save_plan(op)
    # which of (x, y, out) to keep, by whether x and whether y is watched
    keeps = tuple(tuple(tuple(plan.keeps((x, y), i) for i in (0, 1, -1)) for y in (False, True)) for x in (False, True))

    def general(x: Any, y: Any) -> Any:
        if isinstance(x, Readable) or isinstance(y, Readable):
            return call(plain(x), plain(y))  # variables, read: the short way may be open now
        cls = x.__class__ if x.__class__ in QUICK else y.__class__
        if cls in QUICK and (out := QUICK[cls](op, x, y)) is not None:
            return out
        if x.__class__ is Tensor and y.__class__ is Tensor and x._data.shape != y._data.shape:
            try:  # before a cast is recorded that would then serve for nothing
                np.broadcast_shapes(x._data.shape, y._data.shape)
            except ValueError as error:
                raise explained(op, (x._data, y._data), {}, error) from error
        x, y = common(x, y)
        if op.floating and x.dtype.dtype.kind in "iub":
            x, y = (apply(HOOKS.cast_op, t, dtype=as_dtype(np.float32)) for t in (x, y))
        if x.__class__ is Tensor and y.__class__ is Tensor:
            return apply(op, x, y)
        return apply_wrapped(op, (x, y), {})

    call = _binary(op, op.impl, op.floating, op.kind == "elementwise", keeps, general, op.weak)
    return _named(call, op, doc)
