"""From a call to a result: convert the inputs, run the op's `impl`, keep one record if a tape is watching.

`apply` is the general way; `unary` and `binary` build the same thing for elementwise ops as closures with a short fast
path (exact `Tensor` inputs of one dtype, one plain tape), because what one small operation costs is decided here.
Nothing is recorded or changed when `impl` raises.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from sys import _getframe
from time import perf_counter
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape.dtypes import as_dtype
from gradtape.errors import InvalidArgumentError, OpError, OutOfRangeError
from gradtape.ir.dims import symbols_in
from gradtape.ops.conversion import (
    DIMENSION as DIMENSION,
    PACK as PACK,
    convert as convert,
    created as created,
    plain as plain,
    snapshot as snapshot,
    twin as twin,
    typed,
)
from gradtape.ops.inference import promote_dtypes
from gradtape.ops.opdef import Op
from gradtape.ops.plan import PLANS, save_plan
from gradtape.ops.record import CLOCK, SCOPE, TRACING, Past, Record, Scope, past_of, past_of_pair, scope_of
from gradtape.ops.recorded import (
    PART as PART,
    record,
    record_general as record_general,
    record_mixed,
    reparted as reparted,
    stored as stored,
    unrecorded as unrecorded,
)
from gradtape.ops.tensor import Tensor, TensorLike, box


def promote(*values: Any) -> tuple[Any, ...]:
    """All values as tensors of one dtype; casts are recorded.

    Python values take the dtype of tensors and arrays; NumPy values that of tensors, unless theirs is of a richer kind.
    """
    if values and type(values[0]) in QUICK:
        dtype = values[0].dtype
        if all([type(v) in QUICK and v.dtype is dtype for v in values]):  # noqa: C419  (quicker than a generator)
            return values
    tensors = [v if v.__class__ is Tensor else plain(v) for v in values]
    if not any([isinstance(t, Tensor) for t in tensors]):  # noqa: C419  (quicker than a generator)
        tensors = [convert(t) if isinstance(t := typed(v), (ndarray, np.generic)) else t for v in tensors]
    common = None
    for t in tensors:
        if t.__class__ is not Tensor or (common is not None and t._data.dtype is not common):
            break
        common = t._data.dtype
    else:
        return tuple(tensors)
    dtype = None
    for t in tensors:
        if t.__class__ in WEAK:
            return WEAK[t.__class__](tensors)
    for t in tensors:
        if isinstance(t, Tensor):
            dtype = t.dtype if dtype is None else promote_dtypes(dtype, t.dtype)
    converted = [t if isinstance(t, Tensor) else convert(t, hint=dtype) for t in tensors]
    for t in converted:
        dtype = t.dtype if dtype is None else promote_dtypes(dtype, t.dtype)
    return tuple(t if t.dtype is dtype else apply(CAST[0], t, dtype=dtype) for t in converted)


# classes of tensors that stand for Python numbers, and how values with some of them are promoted: set by ad/weak.py
WEAK: dict[type, Callable[[list[Any]], tuple[Any, ...]]] = {}
# classes of tensors with a shorter way for elementwise ops: quick(op, x[, y]), None where it is not open. Set by ad/quick.py
QUICK: dict[type, Callable[..., Any]] = {}
CAST: list[Op] = []  # set by ops/elementwise.py, which defines the op


class Watchers(list[Callable[[Op, Any, dict[str, Any], Any, float], None]]):
    """Who is told of every operation that runs, recorded or not: watcher(op, inputs, attrs, result, seconds). `quiet`: one of
    them says itself what NumPy would warn of."""

    quiet = False


WATCHERS = Watchers()  # nobody, ordinarily
# runner(program, arrays): who runs programs in the place of their executables, to look at them. Nobody, ordinarily
RUNNERS: list[Callable[[Any, Any], tuple[Any, ...]]] = []


def watched_run(op: Op, datas: Any, attrs: dict[str, Any]) -> Any:
    """Run an op for those who watch."""
    with np.errstate(all="ignore") if WATCHERS.quiet else nullcontext():
        start = perf_counter()
        result = op.impl(*datas, **attrs)
        seconds = perf_counter() - start
    for watcher in tuple(WATCHERS):
        watcher(op, datas, attrs, result, seconds)
    return result


# -- calling -------------------------------------------------------------------------------------------------------


def apply(op: Op, *inputs: Any, **attrs: Any) -> Any:
    """Run a primitive on tensors (or bare arrays and Python numbers, taken as constants)."""
    datas: list[Any] = []
    nodes: list[Record | None] = []
    watched = 0  # bit i: input i
    bit = 1
    for value in inputs:
        cls = value.__class__
        if cls is not Tensor:
            if cls in QUICK:
                return apply_wrapped(op, inputs, attrs)
            value = plain(value)
            cls = value.__class__
            if cls is not Tensor and isinstance(value, Tensor):
                return apply_wrapped(op, inputs, attrs)
        if cls is Tensor:
            datas.append(value._data)
            node = value._node
            nodes.append(node)
            if node is not None:
                watched += bit
        else:
            datas.append(value)
            nodes.append(None)
        bit += bit
    try:
        result = watched_run(op, datas, attrs) if WATCHERS else op.impl(*datas, **attrs)
    except FAILURES as error:
        return _failed(op, inputs, datas, attrs, error)
    if result.__class__ is tuple:
        out: Any = tuple(box(r) for r in result)
    else:
        out = Tensor()
        out._data = result
        out._node = None
    if not watched:
        return out
    scope = SCOPE.get()
    if scope is None:
        if out.__class__ is tuple:
            return unrecorded(op, nodes, out)
        out._node = past_of(op, nodes)
        return out
    return _recorded(scope, op, tuple(datas), tuple(nodes), watched, attrs, out, result)


FAILURES = (ValueError, TypeError, IndexError, np.linalg.LinAlgError, ZeroDivisionError)  # what an impl says of its inputs


def _failed(op: Op, inputs: Any, datas: Any, attrs: dict[str, Any], error: Exception) -> Any:
    """An impl that cannot run now may be part of a program; else its error is raised in our words."""
    if (trace := TRACING.get()) is not None and symbols_in(attrs):  # dimensions of the program that is being traced
        return trace.emit(op, inputs, attrs)
    raise explained(op, datas, attrs, error) from error


def _recorded(
    scope: Scope,
    op: Op,
    datas: tuple[Any, ...],
    nodes: tuple[Any, ...],
    watched: int,
    attrs: dict[str, Any],
    out: Any,
    result: Any,
) -> Any:
    """The result, with its record; two frames up is who called for it."""
    fast = scope.fast
    if fast is None or out.__class__ is tuple:
        return record_general(scope, op, datas, nodes, attrs, out)
    for node in nodes:
        if node is not None and node.keys is not fast and node.keys not in scope.covers:
            return record_mixed(scope, op, datas, nodes, attrs, out, result)
    if result.dtype.kind == "c":
        for records in scope.lists:
            records.complex = True
    return record(scope, op, nodes, PLANS[op].savers[watched](datas, result), attrs, out, result, 3)


def apply_one(op: Op, x: Any, attrs: dict[str, Any]) -> Any:
    """`apply` for one input and one result, called by a function that the user calls: the short way for plain tensors."""
    if x.__class__ is not Tensor or WATCHERS:
        return apply(op, x, **attrs)
    data = x._data
    try:
        result = op.impl(data, **attrs)
    except FAILURES as error:
        return _failed(op, (x,), (data,), attrs, error)
    out = Tensor()
    out._data = result
    node = x._node
    if node is None:
        out._node = None
        return out
    scope = SCOPE.get()
    if scope is None:
        out._node = past_of(op, (node,))
        return out
    keys = node.keys
    if (keys is scope.fast or keys in scope.covers) and result.dtype.kind != "c":
        return record(scope, op, (node,), PLANS[op].savers[1]((data,), result), attrs, out, result, 3)
    out._node = None
    return _recorded(scope, op, (data,), (node,), 1, attrs, out, result)


def apply_two(op: Op, x: Any, y: Any) -> Any:
    """Likewise for two inputs and no attributes."""
    if x.__class__ is not Tensor or y.__class__ is not Tensor or WATCHERS:
        return apply(op, x, y)
    datas = (x._data, y._data)
    try:
        result = op.impl(*datas)
    except FAILURES as error:
        return _failed(op, (x, y), datas, {}, error)
    out = Tensor()
    out._data = result
    one, two = nodes = (x._node, y._node)
    if one is None and two is None:
        out._node = None
        return out
    scope = SCOPE.get()
    if scope is None:
        out._node = past_of(op, nodes)
        return out
    fast = scope.fast
    watched = (one is not None) + 2 * (two is not None)
    if (
        (one is None or one.keys is fast or one.keys in scope.covers)
        and (two is None or two.keys is fast or two.keys in scope.covers)
        and result.dtype.kind != "c"
    ):
        return record(scope, op, nodes, PLANS[op].savers[watched](datas, result), {}, out, result, 3)
    out._node = None
    return _recorded(scope, op, datas, nodes, watched, {}, out, result)


def apply_wrapped(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Some input is a wrapper (batched or traced): its evaluator runs the op in the scope outside itself; recorders
    entered inside the evaluator keep a record of the wrapped call."""
    values = tuple([v if v.__class__ is Tensor or type(v) in QUICK else plain(v) for v in inputs])
    wrapper: Any = None
    for v in values:
        if v.__class__ is not Tensor and isinstance(v, Tensor) and v.wraps and (wrapper is None or v.level > wrapper.level):  # type: ignore[attr-defined]
            wrapper = v
    level = wrapper.level
    scope = SCOPE.get()
    if scope is None or (level == 1 and not scope.recorders):
        return wrapper.evaluate(op, values, attrs)
    with scope_of(scope.below(level)):
        out = wrapper.evaluate(op, values, attrs)
    nodes = tuple(v._node if isinstance(v, Tensor) else None for v in values)
    if any(n is not None for n in nodes):
        # a plain tensor is kept with its identity: recorders outside the evaluator know it, those inside do not
        kept = tuple([v.__copy__() if n is not None else stored(v) if isinstance(v, Tensor) else v
                      for v, n in zip(values, nodes, strict=True)])  # fmt: skip
        return record_general(scope.inside(level), op, kept, nodes, attrs, out)
    return out


def explained(op: Op, datas: Any, attrs: dict[str, Any], error: Exception) -> Exception:
    """The error of an impl, with the op's name, the shapes and dtypes; errors of our own pass unchanged."""
    if isinstance(error, OpError):
        return error
    described = ", ".join(_describe(d) for d in datas)
    extra = "".join(f", {key}={value!r}" for key, value in attrs.items() if value is not None)
    kind = OutOfRangeError if isinstance(error, IndexError) else InvalidArgumentError
    if isinstance(error, TypeError):
        return TypeError(f"{op.name}({described}{extra}): {error}")
    return kind(f"{op.name}({described}{extra}): {error}")


def _describe(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic)):
        return f"{as_dtype(value.dtype).name}{list(value.shape)}"
    return repr(value)


# -- fast closures for elementwise ops -----------------------------------------------------------------------------


def _named(call: Callable[..., Any], op: Op, doc: str) -> Callable[..., Any]:
    """The closure under the name and module of the family's file that makes it, where pickle looks for it."""
    call.op = op  # type: ignore[attr-defined]
    call.__module__ = _getframe(2).f_globals["__name__"]
    call.__name__ = call.__qualname__ = op.name
    call.__doc__ = doc or None
    return call


def unary(op: Op, doc: str = "") -> Callable[..., Any]:
    """The public function of a one-input elementwise op, with its docstring."""
    impl = op.impl
    plan = save_plan(op)
    keep_x, keep_out = plan.keeps((True,), 0), plan.keeps((True,), -1)
    fixed = op.kind == "elementwise"  # only their save plan is (x, out)
    floating = op.floating

    def call(x: Any, name: str | None = None) -> Any:
        if x.__class__ is not Tensor:
            if x.__class__ in QUICK and (made := QUICK[x.__class__](op, x)) is not None:
                return made
            x = convert(x)
            if x.__class__ is not Tensor:
                if floating and not x.dtype.is_differentiable:
                    x = apply(CAST[0], x, dtype=as_dtype(np.float32))
                return apply_wrapped(op, (x,), {})
        data = x._data
        if floating and data.dtype.kind in "iub":
            data = (x := apply(CAST[0], x, dtype=as_dtype(np.float32)))._data
        try:
            result = watched_run(op, (data,), {}) if WATCHERS else impl(data)
        except (ValueError, TypeError) as error:
            raise explained(op, (data,), {}, error) from error
        out = Tensor()
        out._data = result
        node = x._node
        if node is None:
            out._node = None
            return out
        keys = node.keys
        if not keys:
            out._node = node if node.__class__ is Past or not CLOCK.open else past_of(op, (node,))
            return out
        scope = SCOPE.get()
        if scope is None:
            out._node = past_of(op, (node,))
            return out
        if fixed and (keys is scope.fast or keys in scope.covers):
            saved = (data if keep_x else None, result if keep_out else None)
            return record(scope, op, (node,), saved, None, out, result)
        out._node = None
        return record_mixed(scope, op, (data,), (node,), {}, out, result)

    return _named(call, op, doc)


def binary(op: Op, doc: str = "", common: Callable[..., tuple[Any, ...]] = promote) -> Callable[..., Any]:
    """The public function of a two-input elementwise op; also serves as the Python operator. `common` gives both operands one
    dtype."""
    impl = op.impl
    plan = save_plan(op)
    # which of (x, y, out) to keep, by which inputs are watched: bit 0 for x, bit 1 for y
    table = tuple(
        tuple(plan.keeps((bool(m & 1), bool(m & 2)), i) for i in (0, 1, -1)) for m in range(4)
    )  # fmt: skip
    fixed = op.kind == "elementwise"  # only their save plan is (x, y, out)
    weak, floating = op.weak, op.floating

    def call(x: Any, y: Any, name: str | None = None) -> Any:
        if x.__class__ is Tensor:
            a, node_a = x._data, x._node
            if y.__class__ is Tensor:
                b, node_b = y._data, y._node
                cls = a.__class__
                if cls is b.__class__:
                    if cls is ndarray and a.dtype is not b.dtype:
                        return general(x, y)
                elif a.dtype is not b.dtype:
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
            return general(x, y)
        try:
            result = watched_run(op, (a, b), {}) if WATCHERS else impl(a, b)
        except (ValueError, TypeError) as error:
            raise explained(op, (a, b), {}, error) from error
        out = Tensor()
        out._data = result
        if node_a is None:
            if node_b is None:
                out._node = None
                return out
            mask = 2
        else:
            mask = 1 if node_b is None else 3
        scope = SCOPE.get()
        if scope is None:
            if mask == 3 or CLOCK.open:
                out._node = past_of_pair(op, node_a, node_b)
            else:
                node: Any = node_a or node_b
                out._node = past_of(op, (node,)) if node.keys else node
            return out
        fast = scope.fast
        if (
            fixed
            and (node_a is None or node_a.keys is fast or node_a.keys in scope.covers)
            and (node_b is None or node_b.keys is fast or node_b.keys in scope.covers)
        ):
            keep_x, keep_y, keep_out = table[mask]
            saved = (a if keep_x else None, b if keep_y else None, result if keep_out else None)
            return record(scope, op, (node_a, node_b), saved, None, out, result)
        if mask == 3 and fixed:  # often one of two is a value that nobody watches: it has a past at most
            one: Any = node_a
            two: Any = node_b
            watched = 1 if one.keys is fast and not two.keys else 2 if two.keys is fast and not one.keys else 0
            if watched:
                keep_x, keep_y, keep_out = table[watched]
                saved = (a if keep_x else None, b if keep_y else None, result if keep_out else None)
                record(scope, op, (one, None) if watched == 1 else (None, two), saved, None, out, result)
                out._node.when = (scope.when, (two if watched == 1 else one,))  # type: ignore[union-attr]
                return out
        out._node = None
        return record_mixed(scope, op, (a, b), (node_a, node_b), {}, out, result)

    def general(x: Any, y: Any) -> Any:
        if isinstance(x, TensorLike) or isinstance(y, TensorLike):
            return call(plain(x), plain(y))  # variables, read: the short way may be open now
        cls = x.__class__ if x.__class__ in QUICK else y.__class__
        if cls in QUICK and (made := QUICK[cls](op, x, y)) is not None:
            return made
        if x.__class__ is Tensor and y.__class__ is Tensor and x._data.shape != y._data.shape:
            try:  # before a cast is recorded that would then serve for nothing
                np.broadcast_shapes(x._data.shape, y._data.shape)
            except ValueError as error:
                raise explained(op, (x._data, y._data), {}, error) from error
        x, y = common(x, y)
        if floating and x.dtype.dtype.kind in "iub":
            x, y = (apply(CAST[0], t, dtype=as_dtype(np.float32)) for t in (x, y))
        if x.__class__ is Tensor and y.__class__ is Tensor:
            return apply(op, x, y)
        return apply_wrapped(op, (x, y), {})

    return _named(call, op, doc)
