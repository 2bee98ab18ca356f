"""The short forms of `apply`: what one small operation costs is decided here.

Each is `PROTOCOL` of `core/dispatch.py` with its blanks filled in for one or two plain tensors: `unary` and `binary` are the
public functions of elementwise ops, `form_of(op)` is `apply` bound to one op, for functions that the user calls and for
rules. A form decides nothing that `apply` does not: whatever it does not know (variables, arrays, traced and batched tensors,
two dtypes), it hands to the general way.

In a process that has recorded much, machine code does the same (`backends/llvm/entry/form_code.py`): a form asks it first, if
`hasten` gave it some, and goes on by itself where the answer is `MISS`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from sys import _getframe
from types import FunctionType
from typing import Any

import numpy as np

from gradtape.core.conversion import convert, plain
from gradtape.core.dispatch import ANY_OP, MISS as MISS, QUICK, apply, apply_wrapped, explained, form, promote
from gradtape.core.float_events import OPERATORS
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op, Rule
from gradtape.core.save_plan import save_plan
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Binary, Unary
from gradtape.dtypes import as_dtype

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
# an elementwise op knows what it keeps when it is made; `fixed`: its save plan is (inputs, output). Complex results have
# complex inputs, which the list of records was told of. One frame above the form is the user, if anybody
_ELEMENTWISE = {"attrs": "{}", "kept_attrs": "None", "several": "", "depth": "2", "also": "fixed"}


# TensorFlow's last argument is a name: a third operand of `maximum` would be one, and be forgotten
_NAME = """
        if name is not None and name.__class__ is not str:
            raise TypeError(no_name(op.name, name))"""
_QUICK = """
        if quick is not None and (out := quick({})) is not MISS:
            return out"""


class Shortcut:
    """Where a public function, or an `impl`, asks machine code first that takes its arguments as they are."""

    __slots__ = ("quick",)

    def __init__(self) -> None:
        self.quick: Callable[..., Any] | None = None


def shortcut(kind: str, op: Op) -> Shortcut:
    """That of a public function of an op, which machine code serves in this way."""
    place = Shortcut()
    FORMS.append((kind, op, place))
    return place


HEAVY: dict[str, Shortcut] = {}  # the names of ops whose `impl` is declared to be heavy
Server = Callable[[str], Callable[..., Any] | None]
_SERVERS: list[Server] = [lambda name: None]  # who says what runs in the place of such an `impl`, if anything does


def heavy(name: str, unless: Callable[..., bool] | None = None) -> Callable[[Rule], Rule]:
    """Declare the `impl` of the op of this name to be one that loops in Python: where there is machine code, a program of the
    one op does it in its place (`functions/one_op.py`), `unless` the arrays and attributes are such that NumPy is quicker."""
    place = HEAVY[name] = Shortcut()
    place.quick = _SERVERS[0](name)  # families are imported when they are needed, perhaps after the first were served

    def declare(impl: Rule) -> Rule:
        @functools.wraps(impl)
        def run(*arrays: Any, **attrs: Any) -> Any:
            served = place.quick is not None and (unless is None or not unless(*arrays, **attrs))
            if served and (out := place.quick(arrays, attrs)) is not MISS:  # type: ignore[misc]
                return out
            return impl(*arrays, **attrs)

        return run

    return declare


def serve_heavy(server: Server) -> None:
    """Let what `server` gives for the name of an op run in the place of its `impl`, of ops that there are and that will be."""
    _SERVERS[0] = server
    for name, place in HEAVY.items():
        place.quick = server(name)


FORMS: list[
    tuple[str, Op, Callable[..., Any] | Shortcut]
] = []  # (how it is called, op, form): what machine code can stand before


def hasten(call: Callable[..., Any] | Shortcut, quick: Callable[..., Any] | None) -> None:
    """Let a form ask machine code first; None: no longer."""
    if isinstance(call, Shortcut):
        call.quick = quick
        return
    # The form is a closure made once; machine code comes later: the one variable that leads to it is changed in place.
    cells = dict(zip(call.__code__.co_freevars, call.__closure__ or (), strict=True))
    cells["quick"].cell_contents = quick


def _named(call: Callable[..., Any], op: Op, doc: str) -> Callable[..., Any]:
    """The call under the name and module of the family's file that makes it, where pickle looks for it."""
    call.op = op  # type: ignore[attr-defined]
    call.__module__ = _getframe(2).f_globals["__name__"]
    call.__name__ = call.__qualname__ = op.name
    call.__doc__ = doc or None
    return call


# -- any op of one or two inputs -------------------------------------------------------------------------------------

_one = form(
    "one", **_ONE | ANY_OP, settings="op, impl, savers, quick=None", quick=_QUICK.format("x, attrs"),
    signature="x, /, **attrs", run="impl(a, **attrs)",
    saved="savers[1]((a,), result)",
    take="""
        if x.__class__ is not Tensor:
            return apply(op, x, **attrs)
        a, node_a = x._data, x._node""",
)  # fmt: skip
_two = form(
    "two", **_TWO | ANY_OP, settings="op, impl, savers, quick=None", quick=_QUICK.format("x, y, attrs"),
    signature="x, y, /, **attrs", run="impl(a, b, **attrs)",
    saved="savers[(node_a is not None) + 2 * (node_b is not None)]((a, b), result)",
    take="""
        if x.__class__ is not Tensor or y.__class__ is not Tensor:
            return apply(op, x, y, **attrs)
        a, node_a = x._data, x._node
        b, node_b = y._data, y._node""",
)  # fmt: skip


def form_of(op: Op) -> Callable[..., Any]:
    """`apply` bound to an op of one or two inputs and one output: `form_of(op)(x, y, **attrs)`, attributes normal as the op
    wants them. Rules on bare arrays call the op's `impl` in its place."""
    kind, maker = {1: ("one", _one), 2: ("two", _two)}[len(op.args)]
    call = _named(maker(op, op.impl, save_plan(op).savers), op, "")
    FORMS.append((kind, op, call))
    return call


# -- elementwise ops -------------------------------------------------------------------------------------------------

_unary = form(
    "unary", **_ONE | _ELEMENTWISE, settings="op, impl, floating, fixed, keep_a, keep_out, general, quick=None",
    quick=_NAME + _QUICK.format("x"), signature="x, name=None",
    run="impl(a)", saved="(a if keep_a else None, result if keep_out else None)",
    take="""
        if x.__class__ is not Tensor:
            return general(x)
        a, node_a = x._data, x._node
        if floating and a.dtype.kind in "iub":
            return general(x)""",
)  # fmt: skip
_binary = form(
    "binary", **_TWO | _ELEMENTWISE, settings="op, impl, floating, fixed, keeps, general, weak, quick=None",
    quick=_NAME + _QUICK.format("x, y"), signature="x, y, name=None",
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
    if fixed:
        FORMS.append(("unary", op, call))
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

    fixed = op.kind == "elementwise"
    call = _binary(op, op.impl, op.floating, fixed, keeps, general, op.weak)
    if fixed:
        FORMS.append(("binary", op, call))
        OPERATORS.update([op.impl.__code__] if isinstance(op.impl, FunctionType) else [])
    return _named(call, op, doc)
