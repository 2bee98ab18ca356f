"""From a call to a result: what every operation does, in this order.

* take     each input's array and version (`Tensor._data`, `Tensor._node`); wrappers (traced, batched) run it their own way;
* run      the op's `impl` on the arrays; what it raises is said in our words, and nothing is recorded or changed;
* box      the result is a new tensor;
* record   if somebody records and knows an input; else the result remembers its provenance, for `explain`.

`apply` is the protocol for any op. `core/forms.py` writes it out for one and two plain tensors, where it must be quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from time import perf_counter
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape.core.conversion import (
    convert as convert,
    created as created,
    plain as plain,
    snapshot as snapshot,
    twin as twin,
    typed,
)
from gradtape.core.hooks import HOOKS
from gradtape.core.inference import promote_dtypes
from gradtape.core.opdef import Op
from gradtape.core.record import SCOPE, TRACING, Record, Scope, past_of, scope_of
from gradtape.core.recorded import (
    PART as PART,
    record,
    record_general as record_general,
    record_mixed,
    reparted as reparted,
    stored as stored,
    unrecorded as unrecorded,
)
from gradtape.core.save_plan import PLANS
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import TensorLike
from gradtape.dtypes import as_dtype
from gradtape.errors import InvalidArgumentError, OpError, OutOfRangeError
from gradtape.ir.dims import symbols_in
from gradtape.ir.types import TensorSpec


def promote(*values: TensorLike) -> tuple[Tensor, ...]:
    """All values as tensors of one dtype; casts are recorded.

    Python values take the dtype of tensors and arrays; NumPy values that of tensors, unless theirs is of a richer kind.
    """
    given: tuple[Any, ...] = values
    if given and type(given[0]) in QUICK:
        dtype = given[0].dtype
        if all([type(v) in QUICK and v.dtype is dtype for v in given]):  # noqa: C419  (quicker than a generator)
            return given
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
    return tuple(t if t.dtype is dtype else apply(HOOKS.cast_op, t, dtype=dtype) for t in converted)


QUICK, WEAK = HOOKS.quick, HOOKS.weak


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
        return failed(op, inputs, datas, attrs, error)
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


def failed(op: Op, inputs: Any, datas: Any, attrs: dict[str, Any], error: Exception) -> Any:
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


def explained(op: Op, datas: Any, attrs: Mapping[str, Any], error: Exception) -> Exception:
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
    if isinstance(value, (np.ndarray, np.generic, TensorSpec)):
        return f"{as_dtype(value.dtype).name}{list(value.shape)}"
    return repr(value)
