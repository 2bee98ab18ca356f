"""`tape.nan_report()`: the operation that made the first non-finite value, with the user's line, indices and values.

The report is made when a gradient or its target turns out to be non-finite, before a one-shot tape frees its values
(`note_nan`; after a long run, when it is asked for), or from what the tape holds when nothing was asked yet. The search is in
`nan_forward.py` and `nan_backward.py`; this file sets it up, goes into compiled calls, and puts what was found into words.
Nothing is changed by looking.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gradtape.ad.custom import CUSTOM
from gradtape.core.dispatch import PART
from gradtape.core.observers import Later
from gradtape.core.record import NOBODY, TRACING, Record, forget, scope_of
from gradtape.core.tensor import Tensor
from gradtape.errors import InvalidArgumentError
from gradtape.functions.compiled import FUNCTION
from gradtape.functions.numerics import checking
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools.lanes import Mask, bad
from gradtape.tools.nan_backward import faults, origins
from gradtape.tools.nan_forward import Origin, RecordedRun, Values, ancestors, owner_of, picked, scan, trace
from gradtape.tools.nan_words import Finding, NanReport, worded
from gradtape.tools.operands import UNKNOWN, operands_of, program_of, version
from gradtape.tools.program_run import ProgramRun, run_again, run_program
from gradtape.tools.rank_labels import on_one_rank
from gradtape.variables.indexed_slices import IndexedSlices
from gradtape.variables.variable import Variable

Starts = dict[tuple[Record, int], Mask]
SOON = 5_000  # records: with more, the report waits until somebody asks for it, and the tape keeps its values until then


@on_one_rank
def nan_report(tape: GradientTape) -> NanReport | None:
    """Where the first NaN or infinity came from; None when what was asked for is finite."""
    if TRACING.get() is not None:
        raise RuntimeError(
            "nan_report: inside a gt.function the tape has no values yet; call it outside, or run the function as Python with "
            "gt.config.run_functions_eagerly(True)"
        )
    if isinstance(tape._nan, Later):
        tape._nan = tape._nan.make()
        if tape._spent_at is not None:
            forget(tape.records, skeleton=True)  # what the gradient call would have done
    if isinstance(tape._nan, Exception):
        raise tape._nan
    if tape._nan is not None or tape._asked:
        report: NanReport | None = tape._nan
        return report
    tape._usable("nan_report")
    run = _run_of(tape, {})
    # nobody said what the target is: every result that nothing was computed from may be it
    used = {owner_of(node)[0] for record in run.records for node in record.nodes if node is not None}
    ends = [record for record in run.records if record.op is not PART and record not in used]
    with scope_of(NOBODY):
        troubles = scan(run, ends)
        starts: Starts = {
            (end, place): mask for end in ends if end in troubles for place, mask in enumerate(troubles[end].masks)
        }
        return _report(tape, _forward(run, ends, starts))


def note_nan(
    tape: GradientTape, targets: Sequence[Any], seeds: Sequence[Any], wanted: Sequence[Record], answers: Sequence[Any]
) -> None:
    """Called by a tape when a target or an answer is not finite, while its values are there: find out why and keep it."""
    if tape._nan is not None and not checking():
        return
    tape_ref = weakref.ref(tape)  # what is kept for later must not keep the tape

    def make() -> NanReport | Exception | None:
        alive = tape_ref()
        return None if alive is None else _made(alive, targets, seeds, wanted, answers)

    if len(tape.records) > SOON and not checking():
        tape._nan = Later(make)
        return
    report = make()
    tape._nan = tape._nan or report
    if isinstance(report, NanReport) and report.cause in ("operation", "derivative") and checking():
        raise InvalidArgumentError(f"check_numerics: {report}")


@on_one_rank
def _made(
    tape: GradientTape, targets: Sequence[Tensor], seeds: Sequence[Tensor], wanted: Sequence[Record], answers: Sequence[Tensor]
) -> NanReport | Exception | None:
    rows = _rows(answers) or _rows(targets)
    try:
        with scope_of(NOBODY):
            return _report(tape, _search(_run_of(tape, rows), tape, targets, seeds, wanted, rows))
    except Exception as error:  # the gradient itself is right: `nan_report` raises this when it is asked
        return error.with_traceback(None)


def _search(
    run: RecordedRun, tape: GradientTape, targets: Sequence[Any], seeds: Sequence[Any], wanted: Sequence[Record],
    rows: dict[int, int],
) -> Finding | None:  # fmt: skip
    starts: Starts = {}
    ends: dict[Record, Any] = {}
    for target, seed in zip(targets, seeds, strict=True):
        node = target._node
        if node is None or tape.key not in node.keys or not target.dtype.is_differentiable:
            continue
        value, weight = picked(target, rows), picked(seed, rows)
        run.known[node] = value
        ends[node] = ends[node] + weight if node in ends else weight
        # (elements of weight zero are not asked for, whatever they are)
        mask = bad(value) & (np.asarray(weight) != 0)
        if mask.any():
            owner, place = owner_of(node)
            starts[owner or node, place] = mask
    spoilt = None if rows else next((node for node in wanted if node in run.known and _all_bad(run.known[node])), None)
    if spoilt is not None:  # training went on after a NaN: no need to look further, step after step
        for position, record in enumerate(run.records):
            if spoilt in record.nodes:
                value, index = run.known[spoilt], record.nodes.index(spoilt)
                return Finding("forward", run, Origin(position, record, bad(value), [value], value, index))
    if starts:
        return _forward(run, ends, starts)
    return _backward(run, ends, wanted)


def _all_bad(value: ArrayLike) -> bool:
    array = np.asarray(value)
    return bool(array.size) and array.dtype.kind in "fc" and not np.isfinite(array).any()


def _run_of(tape: GradientTape, rows: dict[int, int]) -> RecordedRun:
    operands = operands_of(tape)
    known: dict[Record, Any] = {}
    for variable, nodes in tape._variables.values():
        node = variable._tensor._node
        if node is not None and node in nodes:
            known[node] = variable._tensor._data
    for ref, node in tape._tensors.values():
        tensor = ref()
        if tensor is not None and tensor._node is node:
            known[node] = tensor if tensor.wraps else tensor._data
    prepare = None if tape._memory is None else tape._memory.prepare
    kept = {} if operands is None else dict(operands.kept)
    return RecordedRun(tuple(tape.records), kept, known, prepare, rows, tape._through is False)


def _rows(values: Sequence[Any]) -> dict[int, int]:
    """Of batched values (a Jacobian, `vectorized_map`): the first example with something non-finite, by level."""
    for value in values:
        if isinstance(value, IndexedSlices) or value is None:
            continue
        levels, data = [], value
        while isinstance(data, Tensor):
            if data.wraps:
                levels.append(data.level)  # type: ignore[attr-defined]
            data = data._data
        if levels and (mask := bad(data)).any():
            place = np.argwhere(mask)[0]
            return {level: int(place[i]) for i, level in enumerate(reversed(levels))}
    return {}


# -- searching -------------------------------------------------------------------------------------------------------


def _forward(run: RecordedRun, ends: Sequence[Record] | Mapping[Record, Any], starts: Starts) -> Finding | None:
    """The first operation of the forward pass that made what is found at the starts."""
    if not starts:
        return None
    nodes = {owner for owner, _ in starts}
    first = trace(run, scan(run, [*ends, *nodes]), starts)
    if not first:  # a leaf was asked for itself, or an operation of which nothing is known
        (node, _), mask = next(iter(starts.items()))
        index = 0 if node.op is None else None
        return Finding("forward", run, Origin(-1, node, mask, [UNKNOWN] * len(node.nodes), run.known.get(node), index))
    return _inside(Finding("forward", run, first[0]))


def _backward(run: RecordedRun, ends: Mapping[Record, Any], wanted: Sequence[Record]) -> Finding | None:
    """The first rule of the backward pass that made something non-finite, or the forward operation behind it."""
    seeds = {node: ct for node, ct in ends.items() if node in ancestors(run, ends)}
    steps, answers = faults(run, seeds, wanted)
    values = Values(run)

    def known(record: Record) -> tuple[list[Any], list[Any]]:
        out = values.output(record)
        inputs = [
            values.resolved(node) if x is UNKNOWN and node is not None else x
            for x, node in zip(values.inputs(record), record.nodes, strict=True)
        ]
        return inputs, list(out) if isinstance(out, tuple) else [out]

    # In this order: a value of the forward pass that was not finite explains what rules made of it; then what came in; a rule
    # is to blame only if nothing before it is.
    causes = origins(run, steps, answers, seeds, known)
    if causes.forward:
        finding = _forward(run, ends, causes.forward)
        if finding is not None:
            return finding
    for origin in (*causes.inputs, *causes.seeds[:1]):
        return Finding("backward" if origin in causes.seeds else "forward", run, origin, seed=origin in causes.seeds)
    if causes.rules:
        return _inside(Finding("backward", run, causes.rules[0]))
    return None


def _inside(finding: Finding) -> Finding:
    """If it is a compiled call (or a recomputed one): the operation inside it, found by running it once more, recorded."""
    origin, record = finding.origin, finding.origin.record
    again = _again(record, finding.run.attrs(record), origin.inputs)
    if again is None:
        return finding
    inner = RecordedRun(tuple(again.recording.records), dict(again.recording.operands.kept))
    starting = {node: t._data for t in again.inputs if (node := version(t)) is not None}
    inner.known.update(starting)
    outs = [(node, t._data) for t in again.outs if (node := version(t)) is not None]
    with scope_of(NOBODY):
        if finding.phase == "forward":
            starts: Starts = {}
            for node, value in outs:
                owner, place = owner_of(node)
                if (mask := bad(value)).any():
                    starts[owner or node, place] = mask
            deeper = _forward(inner, [node for node, _ in outs], starts)
        else:
            seeds: dict[Record, Any] = {}
            cts = origin.out if origin.out.__class__ is list else [origin.out]
            for tensor, ct in zip(again.outs, cts, strict=False):
                end = version(tensor)
                if end is not None and ct is not None:
                    seeds[end] = seeds[end] + ct if end in seeds else ct
            deeper = _backward(inner, seeds, list(starting))
    if deeper is None:
        return finding
    deeper.calls = (record, *deeper.calls)
    deeper.names = {t._node: name for t, name in zip(again.inputs, again.names, strict=True) if name}
    return deeper


def _again(record: Record, attrs: dict[str, Any] | None, inputs: Sequence[Any]) -> ProgramRun | None:
    if any(x is UNKNOWN for x in inputs):
        return None
    if record.op is FUNCTION:
        program = program_of(attrs)
        return None if program is None else run_program(program, inputs)
    if record.op is CUSTOM and attrs and attrs["rule"].again is not None:
        return run_again(attrs["rule"].again, inputs)
    return None


# -- words -----------------------------------------------------------------------------------------------------------


def _report(tape: GradientTape, finding: Finding | None) -> NanReport | None:
    if finding is None:
        return None
    for variable, nodes in tape._variables.values():
        finding.names.update((node, _named(variable)) for node in nodes)
    record = finding.origin.record
    finding.derivative = not finding.calls and (record.code, record.lasti) in tape.sites
    return worded(finding)


def _named(variable: Variable) -> str:
    return f"variable '{variable.name}'"
