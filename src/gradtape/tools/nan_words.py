"""What a NaN report says: the `NanReport` object and its text. Searching is done elsewhere (`nan_report.py`)."""

from __future__ import annotations

import html
import linecache
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gradtape.ad.custom import CUSTOM
from gradtape.core.opdef import Op
from gradtape.core.record import Record
from gradtape.functions.compiled import FUNCTION
from gradtape.ir.graph import Location
from gradtape.ops.list_values import TensorList
from gradtape.tools.lanes import bad, lanewise
from gradtape.tools.nan_forward import Origin, RecordedRun, owner_of
from gradtape.tools.nan_texts import INFINITE, OVERFLOW, reason
from gradtape.tools.operands import UNKNOWN, program_of
from gradtape.tools.picture_sites import Sites
from gradtape.tools.rank_labels import labelled

SHOWN = 5  # indices and values
_NEXT = "tape.nan_report() says what comes of it, gt.debugging.enable_check_numerics() stops here"


@dataclass
class Finding:
    """What a search found: an origin in a run (of a program inside calls, perhaps)."""

    phase: str
    run: RecordedRun
    origin: Origin
    seed: bool = False  # the cotangent the user gave is non-finite itself
    calls: tuple[Record, ...] = ()
    names: dict[Any, Any] = field(default_factory=dict)
    derivative: bool = False  # the operation is part of a recorded backward pass


@dataclass(frozen=True)
class NanReport:
    """The first operation that made something non-finite. Printed, it is a few lines with the cure.

    `phase` is "forward" or "backward"; `op` the operation; `location` "file.py:12" in the user's code; `indices` are
    the first offending elements of its output (backward: of the gradient of its input); `inputs` the values there.
    """

    phase: str
    op: str
    location: str | None
    indices: tuple[tuple[int, ...], ...]
    inputs: dict[str, Any]
    cause: str  # "operation", "derivative", "input" (it came in non-finite) or "output_gradients"
    count: int  # offending elements ...
    shape: tuple[int, ...]  # ... of a value of this shape
    value: Any  # what came out at the first of them
    exact: bool  # False: at this operation or before it, where values were not kept
    calls: tuple[str, ...]  # the lines of the compiled (or recomputed) calls it happened in, outermost first
    message: str

    def __str__(self) -> str:
        return labelled(self.message)

    def __repr__(self) -> str:
        return f"NanReport(phase={self.phase!r}, op={self.op!r}, location={self.location!r}, indices={self.indices!r})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f'<pre class="gradtape-nan">{html.escape(self.message)}</pre>'


def worded(finding: Finding) -> NanReport:
    """The report of a finding."""
    origin, record = finding.origin, finding.origin.record
    lanes = np.atleast_1d(origin.lanes) if origin.lanes.ndim else origin.lanes
    places = tuple(tuple(int(i) for i in place) for place in np.argwhere(lanes)[:SHOWN]) if origin.lanes.ndim else ((),)
    came_in = finding.seed or (finding.phase == "forward" and origin.index is not None)
    cause = "output_gradients" if finding.seed else "input" if came_in else (
        "operation" if finding.phase == "forward" else "derivative"
    )  # fmt: skip
    inputs = {} if finding.seed else _inputs(finding, places, came_in)
    value = _at(origin.out if finding.phase == "forward" else None, places[0])
    report = NanReport(
        finding.phase, _op(record), place_of(record), places, inputs, cause, int(origin.lanes.sum()), origin.lanes.shape,
        value, not origin.gaps, tuple(p for call in finding.calls if (p := place_of(call)) is not None), "",
    )  # fmt: skip
    # the text is made of the other fields, so it comes last; the report is frozen for its users, not for its maker
    object.__setattr__(report, "message", _message(finding, report))
    return report


def place_of(record: Record) -> str | None:
    """ "file.py:12" of a record."""
    location = record.location
    return None if location is None else f"{location[0]}:{location[1]}"


def _op(record: Record) -> str:
    return "input" if record.op is None else str(record.op.name)


def _label(record: Record, run: RecordedRun) -> str:
    """The op as a reader knows it."""
    attrs = run.attrs(record)
    if record.op is FUNCTION and (program := program_of(attrs)) is not None:
        return f"function `{program.name}`"
    if record.op is CUSTOM and attrs and attrs["rule"].again is not None:
        return f"custom gradient `{attrs['rule'].again.name.split('.')[-1]}`"
    return _op(record)


def _name(record: Record, run: RecordedRun, index: int) -> str:
    """What input `index` of an operation is called."""
    if record.op is FUNCTION and (program := program_of(run.attrs(record))) is not None:
        name = program.block.params[index].name
        return name or f"inputs[{index}]"
    return _argument_names(record.op, len(record.nodes))[index]


def _argument_names(op: Op, count: int) -> list[str]:
    args = list(op.args)
    if not args or not args[-1].startswith("*"):
        return args
    return args[:-1] + [f"{args[-1][1:]}[{i}]" for i in range(count - len(args) + 1)]


def _inputs(finding: Finding, places: tuple[tuple[int, ...], ...], came_in: bool) -> dict[str, Any]:
    """The values that matter, by name: at the offending elements where the op is lane-wise, the largest ones otherwise."""
    origin, record = finding.origin, finding.origin.record
    if record.op is None:
        return {}
    shape = origin.lanes.shape
    if came_in:
        return {_name(record, finding.run, origin.index or 0): _values_at(origin.inputs[0], places, shape, True)}
    values = {
        _name(record, finding.run, i): _values_at(value, places, shape, lanewise(record.op))
        for i, value in enumerate(origin.inputs)
        if value is not UNKNOWN and not isinstance(value, TensorList)
    }
    if finding.phase == "backward" and origin.out.__class__ is not list:
        values["cotangent"] = _values_at(origin.out, places, shape, lanewise(record.op))
    return values


def _values_at(value: ArrayLike, places: tuple[tuple[int, ...], ...], shape: tuple[int, ...], by_lane: bool) -> Any:
    array = np.asarray(value)
    if by_lane:
        try:
            wide = np.broadcast_to(array, np.broadcast_shapes(array.shape, shape))
            return np.array([wide[place] for place in places])[()] if wide.shape == shape else array.ravel()[:SHOWN]
        except ValueError:
            pass
    flat = array.ravel()
    if flat.size <= 2 * SHOWN or flat.dtype.kind not in "fiuc":
        return flat[: 2 * SHOWN]
    # of an operation that mixes its elements no single one is to blame: the largest are the suspects
    order = np.argsort(-np.abs(flat), kind="stable")[:SHOWN]
    return flat[np.sort(order)]


def _at(value: ArrayLike | None, place: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, (TensorList, list)):
        return None
    array = np.asarray(value)
    return array[place] if len(place) == array.ndim else None


# -- text ------------------------------------------------------------------------------------------------------------


def _message(finding: Finding, report: NanReport) -> str:
    origin, record, run = finding.origin, finding.origin.record, finding.run
    rows: list[tuple[str, str]] = []
    if report.cause == "output_gradients":
        head = "the output_gradients given to the tape are not finite"
        why, cure = "", "look where they are computed; the recorded operations are not to blame"
    elif report.cause == "input":
        head = "a value was not finite when it came in"
        rows.append(("input", _input_label(finding)))
        why, cure = "", "look where it was loaded, computed or assigned before (an earlier step that diverged?)"
    else:
        head = (
            "the forward pass made a value that is not finite" if report.phase == "forward"
            else "the forward pass is finite, the backward pass is not"
        )  # fmt: skip
        label = _label(record, run)
        rows.append(("op", f"{label}{'' if report.phase == 'forward' else ' (its derivative)'}"))
        why, cure = reason(record.op, report.phase)
        if not report.exact:
            why, cure = "", "look at both lines, or ask again on a tape that keeps everything: gt.GradientTape(debug=True)"
    if report.location is not None:
        rows.append(("line", report.location))
        file, line = record.location or ("", 0)
        if text := linecache.getline(file, line).strip():
            rows.append(("code", text))
    rows += [("called", call) for call in reversed(report.calls)]
    rows.append(("where", _where(report)))
    if report.inputs:
        rows.append(("values", _listed(report.inputs, report.value if report.cause == "operation" else None)))
    if why:
        rows.append(("why", why))
    if finding.derivative:
        rows.append(("note", "the operation belongs to the backward pass that the gradient call at this line recorded"))
    if not report.exact:
        gaps = ", ".join(_gap(r, i, run) for r, i in origin.gaps)
        rows.append(("note", f"at this line or before it: not kept was {gaps}"))
    rows.append(("cure", cure))
    return "\n".join([f"NaN report: {head}", *(f"  {name:<6} {text}" for name, text in rows)])


def _gap(record: Record, index: int, run: RecordedRun) -> str:
    """A value that was not kept: what an operation gave, or a constant it was given."""
    node = record.nodes[index]
    owner = None if node is None else owner_of(node)[0]
    if owner is not None and owner.op is not None:
        return f"what {_label(owner, run)} at {place_of(owner)} gave"
    return f"{_name(record, run, index)} of {_label(record, run)} at {place_of(record)}"


def _input_label(finding: Finding) -> str:
    origin, record = finding.origin, finding.origin.record
    if record.op is None:
        return str(finding.names.get(record) or "the target itself")
    node = record.nodes[origin.index or 0]
    name = finding.names.get(node) if node is not None else None
    kind = name or ("a constant" if node is None else "a watched tensor" if node.op is None else "a value of another tape")
    return f"{kind}, used as {_name(record, finding.run, origin.index or 0)} of {_label(record, finding.run)}"


def _where(report: NanReport) -> str:
    what = "its output" if report.cause == "operation" else (
        "it" if report.cause in ("input", "output_gradients") else "the gradient of its input"
    )  # fmt: skip
    if not report.shape:
        return f"{what}, a scalar" if report.cause != "input" else "a scalar"
    total = int(np.prod(report.shape))
    first = ", ".join(str(list(place)) for place in report.indices[:3]) + (", ..." if report.count > 3 else "")
    return f"{report.count} of {total} elements of {what}, shape {report.shape}: {first}"


def _listed(inputs: dict[str, Any], result: object) -> str:
    parts = []
    for name, values in inputs.items():
        flat = np.atleast_1d(values)
        shown = ", ".join(_number(v) for v in flat[:SHOWN]) + (", ..." if flat.size > SHOWN else "")
        parts.append(f"{name} = {shown}")
    return "; ".join(parts) + ("" if result is None else f" → {_number(result)}")


def _number(value: object) -> str:
    if np.asarray(value).dtype.kind != "f":
        return str(value)
    text = f"{value:.6g}"
    return text if set(text).intersection(".en") else f"{text}.0"


def non_finite(op: Op, inputs: Sequence[Any], outs: Sequence[Any], where: Location | None) -> str:
    """What `enable_check_numerics` says: the op, the line, how many, where, and the cure."""
    out = next(o for o in outs if bad(o).any())
    mask = bad(out)
    array = np.asarray(out) if not isinstance(out, list) else mask
    places = tuple(tuple(int(i) for i in place) for place in np.argwhere(mask)[:SHOWN]) if mask.ndim else ((),)
    values = {
        name: _values_at(x, places, mask.shape, lanewise(op))
        for name, x in zip(_argument_names(op, len(inputs)), inputs, strict=True)
        if not isinstance(x, list)
    }
    nans = int(np.isnan(array).sum()) if array.dtype.kind in "fcV" else int(mask.sum())
    why, cure = reason(op, "forward")
    first = "" if not mask.ndim else f", first at {list(places[0])}"
    infinite = int(mask.sum()) - nans
    counts = f"{nans} NaN and {infinite} infinite of {mask.size} elements, shape {mask.shape}, dtype {array.dtype.name}"
    rows = [("line", str(where))] if where is not None else []
    if where is not None and (text := linecache.getline(where.file, where.line).strip()):
        rows.append(("code", text))
    rows += [("where", counts + first), ("values", _listed(values, _at(out, places[0]))), ("why", why), ("cure", cure)]
    head = f"check_numerics: {op.name} gave a value that is not finite"
    return "\n".join([head, *(f"  {name:<6} {text}" for name, text in rows)])


def float_event(op: Op, result: Any, event: str, code: CodeType, lasti: int) -> str:
    """The warning for an operation that ran into something: what, in which expression, why, and what to do. The words are the
    same for other numbers: a line is told of once."""
    expression = " ".join(Sites().at(code, lasti).expression.split())
    what = f"{op.name} in `{expression}`" if expression else op.name
    if " encountered in " not in event or not any(
        bad(out).any() for out in (result if isinstance(result, tuple) else (result,))
    ):
        return f"{what}: {event.removesuffix('.')}"
    why = reason(op, "forward")
    if why is OVERFLOW and event.startswith("invalid"):  # not "overflow": what it was given had overflowed before
        why = INFINITE
    return f"{what} is not finite: {'; '.join(why)}. {_NEXT}"
