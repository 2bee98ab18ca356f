"""From a call to a result: what every operation does, in this order.

* take     each input's array and version (`Tensor._data`, `Tensor._node`); wrappers (traced, batched) run it their own way;
* run      the op's `impl` on the arrays; what it raises is said in our words, and nothing is recorded or changed;
* box      the result is a new tensor;
* record   if somebody records and knows an input; else the result remembers its provenance, for `explain`.

`PROTOCOL` says so once, as the source of a Python function with blanks for what depends on the number and kind of inputs.
`apply` fills them for any op and any number of inputs; `core/forms.py` for one and two, where it must be quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import reduce
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
from gradtape.core.float_events import FORM_FILES, below_the_user, rerun
from gradtape.core.hooks import HOOKS
from gradtape.core.inference import promote_dtypes
from gradtape.core.opdef import Op
from gradtape.core.record import CLOCK, INTERNAL, SCOPE, TRACING, Keys, Nodes, Past, past_of, past_of_pair, scope_of  # noqa: F401
from gradtape.core.recorded import (
    PART as PART,
    record as record,
    record_general as record_general,
    record_mixed as record_mixed,
    reparted as reparted,
    stored as stored,
    unrecorded as unrecorded,
)
from gradtape.core.save_plan import save_plan as save_plan
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
    if len({t._data.dtype if t.__class__ is Tensor else t.__class__ for t in tensors}) == 1 and tensors[0].__class__ is Tensor:
        return tuple(tensors)
    for t in tensors:
        if t.__class__ in WEAK:
            return WEAK[t.__class__](tensors)
    known = [t.dtype for t in tensors if isinstance(t, Tensor)]
    # Tensors first: they decide, and Python's numbers and lists take what comes of them.
    hint = reduce(promote_dtypes, known) if known else None
    converted = [t if isinstance(t, Tensor) else convert(t, hint=hint) for t in tensors]
    dtype = reduce(promote_dtypes, [t.dtype for t in converted]) if converted else None
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


PROTOCOL = """
def form({settings}):
    def call({signature}):
{quick}
{take}  # gives arrays and versions, or returns what the general way gives
        try:
            result = watched_run(op, {arrays}, {attrs}) if WATCHERS else {run}
        except FAILURES as error:
            try:
                done, result = failed(op, {inputs}, {arrays}, {attrs}, error)
            except Exception as said:
                said.__traceback__ = None
                raise  # a bare one does not add this frame: the traceback ends at the user's line
            if done:
                return result
{several}
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
MISS: Any = object()  # what machine code gives that leaves a call to the form it stands before, see `core/forms.py`
# blanks of ops that may have attributes. The list of records is told of complex values by `record_mixed`; two frames above the
# form is who asked for it, behind a function of ours
ANY_OP = {"attrs": "attrs", "kept_attrs": "attrs or None", "several": "", "also": "result.dtype.kind != 'c'", "depth": "3"}


def form(name: str, **blanks: str) -> Callable[..., Callable[..., Any]]:
    """The function that makes calls of one form, given its settings. A form finds the rest in this module."""
    file = f"{__file__}<{name}>"
    INTERNAL.add(file)
    FORM_FILES.add(file)
    space: dict[str, Any] = {}
    exec(compile(PROTOCOL.format(**blanks), file, "exec"), globals(), space)  # noqa: S102  (our own template)
    maker: Callable[..., Callable[..., Any]] = space["form"]
    return maker


# Run a primitive on tensors (or bare arrays and Python numbers, taken as constants).
apply: Callable[..., Any] = form(
    "apply", **ANY_OP | {"several": """
        if result.__class__ is tuple:
            return several(op, datas, nodes, watched, attrs, result)"""},
    settings="", quick="", signature="op, /, *inputs, **attrs", inputs="inputs", arrays="datas", nodes="nodes",
    run="op.impl(*datas, **attrs)", unwatched="not watched", past="past_of(op, nodes)",
    known="all([n is None or n.keys is fast or n.keys in covers for n in nodes])",
    saved="save_plan(op).savers[watched](datas, result)",
    take="""
        datas, nodes = [], []
        watched, bit = 0, 1  # bit i: input i
        for value in inputs:
            if value.__class__ is not Tensor:
                value = value if value.__class__ in QUICK else plain(value)
                if value.__class__ is not Tensor and isinstance(value, Tensor):
                    return apply_wrapped(op, inputs, attrs)
            node = None
            if value.__class__ is Tensor:
                node = value._node
                value = value._data
                if node is not None:
                    watched += bit
            datas.append(value)
            nodes.append(node)
            bit += bit
        nodes = tuple(nodes)""",
)()  # fmt: skip


def several(op: Op, datas: list[Any], nodes: Nodes, watched: int, attrs: dict[str, Any], results: tuple[Any, ...]) -> Any:
    """Box and record the results of an op that has more than one."""
    out = tuple([box(result) for result in results])
    if not watched:
        return out
    scope = SCOPE.get()
    return unrecorded(op, nodes, out) if scope is None else record_general(scope, op, tuple(datas), nodes, attrs, out)


# what an impl, or NumPy in it, says of its inputs
FAILURES = (ValueError, TypeError, IndexError, np.linalg.LinAlgError, ZeroDivisionError, RuntimeWarning)


def failed(op: Op, inputs: Any, datas: Any, attrs: dict[str, Any], error: Exception) -> tuple[bool, Any]:
    """An impl that cannot run now may be part of a program: (True, what stands for it). NumPy's warnings go to the user:
    (False, the result). Else the error is raised in our words."""
    if (trace := TRACING.get()) is not None and symbols_in(attrs):  # dimensions of the program that is being traced
        return True, trace.emit(op, inputs, attrs)
    if isinstance(error, RuntimeWarning):
        return False, rerun(op, datas, attrs, error)
    # Of what ran in an `impl` nobody but us is in the traceback: then it says nothing to the user, and goes.
    entry = error.__traceback__
    while entry is not None and below_the_user(entry.tb_frame):
        entry = entry.tb_next
    raise explained(op, datas, attrs, error) from (None if entry is None else error)  # whose function was called sees it


def apply_wrapped(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Some input is a wrapper (batched or traced): its evaluator runs the op in the scope outside itself; recorders
    entered inside the evaluator keep a record of the wrapped call."""
    values = tuple([v if v.__class__ is Tensor or type(v) in QUICK else plain(v) for v in inputs])
    wrapper: Any = None
    # the innermost evaluator comes first: it unwraps its own level, and what it calls is dispatched again for the next
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
    """The error of an impl, with the op's name, the shapes and dtypes; errors of our own that have the first pass unchanged."""
    if isinstance(error, OpError) and not str(error).startswith("shapes "):  # broadcasting does not know for whom
        return error
    if any(getattr(d, "dtype", None) is not None and d.dtype.kind in "SO" for d in datas):
        return TypeError(f"{op.name}: strings are opaque data, not numbers")
    described = ", ".join(_describe(d) for d in datas)
    extra = "".join(f", {key}={value!r}" for key, value in attrs.items() if value is not None)
    kind: type[Exception] = OutOfRangeError if isinstance(error, IndexError) else InvalidArgumentError
    return (TypeError if isinstance(error, TypeError) else kind)(f"{op.name}({described}{extra}): {error}")


def no_name(op: str, given: object) -> str:
    """What to say if the last argument, a name, is something else: it was meant for another."""
    return f"{op}: the argument after those it computes with is a name, got {given!r}; it takes no more of them"


def _describe(value: Any) -> str:
    if isinstance(value, (np.ndarray, np.generic, TensorSpec)):
        return f"{as_dtype(value.dtype).name}{list(value.shape)}"
    return repr(value)
