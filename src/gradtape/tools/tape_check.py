"""`tape.check(target, sources)`: the gradient of this very run against finite differences, and the rule that is off.

The record is repeated in float64 (`replay.py`). The rule of every operation on the way is compared with slopes of that
operation alone; the gradient this run gave, with slopes of the repeated run along a random direction of each source. At a kink
a derivative must lie between the slopes of both sides. Invariant: directions are drawn from a fixed seed, so the answer is the
same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gradtape import tree
from gradtape.ad.backward import binding, gradients, reverse_walk
from gradtape.ad.custom import CUSTOM
from gradtape.ad.sweep import SparseRows
from gradtape.core.dispatch import PART
from gradtape.core.record import NOBODY, Record, leaf, scope_of
from gradtape.core.save_plan import save_plan
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import Array
from gradtape.errors import FailedPreconditionError
from gradtape.ops.list_values import TensorList
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tape.tape_messages import check_source, check_target
from gradtape.tools.nan_forward import made_by
from gradtape.tools.nan_words import place_of
from gradtape.tools.operands import Kept, Operands, operands_of, version
from gradtape.tools.program_run import KeepingRecording
from gradtape.tools.rank_labels import on_one_rank
from gradtape.tools.replay import Replay, wide
from gradtape.tools.slopes import slope_of
from gradtape.tree import Structure
from gradtape.variables.variable import Variable

STEP = 1e-4  # of differences, relative to the size of the values
RULE = 1e-5  # relative error of a rule in float64 that is still none
RUN = {"float64": 1e-5, "complex128": 1e-5, "float16": 5e-2, "bfloat16": 2e-1}  # of the gradient of a run; float32: 2e-3
PER_LINE = 3  # records of one op at one line that are looked at


@dataclass(frozen=True)
class SourceCheck:
    """One source: the slope of the target along a direction, by the gradient and by differences. `error` is relative to the
    size of the gradient; `ok` is None where nothing could be compared, and `note` says why."""

    name: str
    gradient: float
    difference: float
    error: float
    ok: bool | None
    note: str = ""


@dataclass(frozen=True)
class RuleCheck:
    """The rule of one op at one line: its largest relative error over the records looked at. `ok` is None at kinks."""

    op: str
    location: str | None
    count: int
    error: float
    ok: bool | None


@dataclass(frozen=True)
class CheckResult:
    """What `tape.check` found. True in a condition if nothing is wrong; printed, it says what is."""

    ok: bool
    sources: tuple[SourceCheck, ...]
    rows: tuple[RuleCheck, ...]
    rounding: float  # how far the gradient of the run is from that of the same run in float64, relative to its size

    @property
    def error(self) -> float:
        """The largest error of the gradient, relative to its size."""
        return max((s.error for s in self.sources if s.ok is not None), default=0.0)

    @property
    def wrong(self) -> tuple[RuleCheck, ...]:
        """The rules that are off."""
        return tuple(row for row in self.rows if row.ok is False)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        compared = any(source.ok is not None for source in self.sources)
        agrees = "agrees with" if compared else "could not be compared with"
        lines = [f"check: the gradient {agrees if self.ok else 'differs from'} finite differences"]
        lines += [f"  {_source_text(source)}" for source in self.sources]
        lines += [
            f"  the derivative of {row.op} at {row.location} is off: relative error {row.error:.1e}" for row in self.wrong
        ]
        if not self.ok and not self.wrong:
            lines.append(
                f"  every rule is right in float64: rounding makes the difference ({self.rounding:.1e}); compute in float64"
                if self.rounding > self.error / 2
                else "  no single rule is off at these values; a kink or an ill-conditioned operation may be behind it"
            )
        kinks = [f"{row.op} at {row.location}" for row in self.rows if row.ok is None]
        if kinks:
            lines.append(f"  not compared, because not smooth here: {', '.join(kinks[:3])}{', ...' if kinks[3:] else ''}")
        looked, places = sum(row.count for row in self.rows), len(self.rows)
        lines.append(
            f"  the rules of {looked} operation{'s' * (looked != 1)} at {places} place{'s' * (places != 1)} were checked"
        )
        return "\n".join(lines)


def _source_text(source: SourceCheck) -> str:
    if source.ok is None:
        return f"{source.name}: {source.note}"
    return (
        f"{source.name}: slope {source.gradient:.8g}, by differences {source.difference:.8g}, "
        f"{'ok' if source.ok else 'OFF'} (error {source.error:.1e} of the gradient's size){source.note and '; ' + source.note}"
    )


@on_one_rank
def check(tape: GradientTape, target: Structure, sources: Structure) -> CheckResult:
    """Compare the gradient of what the tape recorded with finite differences."""
    operands = operands_of(tape)
    if operands is None:
        raise FailedPreconditionError(
            "check: this tape did not keep the operands of what it recorded; make it with gt.GradientTape(debug=True)"
        )
    tape._usable("check")
    targets = [check_target(tape._read(t)) for t in tree.flatten(target)]
    flat = [check_source(s) for s in tree.flatten(sources)]
    nodes = [tape._node_of(t) for t in targets]
    for tensor, node in zip(targets, nodes, strict=True):
        if node is None:
            raise ValueError(
                f"check: the target of shape {tuple(tensor.shape)} was not computed on this tape; tape.explain says why"
            )
    if tape._lazy and tape._spent_at is None:
        tape._expand_reached({node for node in nodes if node is not None})
    with scope_of(NOBODY), np.errstate(all="ignore"):
        return _Check(tape, operands, [n for n in nodes if n is not None], flat).result()


class _Check:
    """One check: the repeated run, and what is compared with it."""

    def __init__(self, tape: GradientTape, operands: Operands, targets: list[Record], flat: list[Any]) -> None:
        self.records = tuple(tape.records)
        self.kept = dict(operands.kept)
        self.targets = targets
        self.flat = flat
        self.cut = tape._through is False
        self.versions = [tape._versions(s) for s in flat]
        self.complex = tape.records.complex
        self.random = np.random.default_rng(0)
        leaves = {node for versions in self.versions for node in versions}
        # In double precision finite differences are exact enough to tell a wrong rule from rounding.
        operands_kept = {node: self._value(node) for node in leaves}
        self.values = {node: wide(value) for node, value in operands_kept.items() if value is not None}
        self.replay = Replay(self.records, self.kept, self.values, targets, self.cut)

    def _value(self, node: Record) -> Any:
        """The value of a source's version: an operand of some record."""
        own = self.kept.get(node)
        if own is not None and not isinstance(own.out, tuple):
            return own.out
        for record in self.records:
            kept = self.kept.get(record)
            if kept is not None and node in record.nodes:
                for value, source in zip(kept.inputs, record.nodes, strict=True):
                    if source is node and np.shape(value) == tuple(node.shape):
                        return value
        for variable in (s for s in self.flat if isinstance(s, Variable)):
            if variable._tensor._node is node:
                return variable._tensor._data
        return None  # nothing was computed from it

    def result(self) -> CheckResult:
        """Rules first, then sources."""
        rows, precise = self._rules()
        slopes = self._gradients()
        sources = tuple(
            self._source(i, source, versions, slopes)
            for i, (source, versions) in enumerate(zip(self.flat, self.versions, strict=True))
        )
        ok = all(s.ok is not False for s in sources) and all(row.ok is not False for row in rows)
        apart = [np.linalg.norm(np.ravel(slopes[n] - g)) / (np.linalg.norm(np.ravel(g)) or 1.0) for n, g in precise.items()]
        return CheckResult(ok, sources, rows, float(max(apart, default=0.0)))

    # -- the gradient of the run ---------------------------------------------------------------------------------

    def _gradients(self) -> dict[Record, Any]:
        """The cotangents of the sources' versions, by the walk this run's gradient takes, from the operands that were kept."""
        twins: dict[Record, Record] = {}
        for record in self.records:
            # The tape may be spent: its gradient is repeated on copies of its records that have their values back.
            twins[record] = _restored(record, self.kept.get(record), twins)
        seeds: dict[Record, Any] = {}
        for target in self.targets:
            node = twins.get(target, target)
            seed = _ones(self._target(target))
            seeds[node] = seeds[node] + seed if node in seeds else seed
        wanted = {twins.get(node, node) for versions in self.versions for node in versions}
        cotangents = gradients(
            tuple(twins.values()), seeds, wanted, boxed=False, complex_values=self.complex, cut=self.cut
        )  # fmt: skip
        back = {twins.get(node, node): node for versions in self.versions for node in versions}
        return {back[node]: g.dense() if isinstance(g, SparseRows) else g for node, g in cotangents.items()}

    def _target(self, node: Record) -> Any:
        if node in self.values and node.op is None:
            return self.values[node]
        owner: Any = node.nodes[0] if node.op is PART else node
        out = self.kept[owner].out
        return out[node.attrs["index"]] if node.op is PART else out  # type: ignore[index]

    def _source(self, place: int, source: Tensor | Variable, versions: list[Record], slopes: dict[Record, Any]) -> SourceCheck:
        name = f"variable '{source.name}'" if isinstance(source, Variable) else f"source {place}"
        versions = [node for node in versions if node in self.values]
        if not source.dtype.is_differentiable:
            return SourceCheck(name, 0.0, 0.0, 0.0, None, f"it has dtype {source.dtype.name}, which carries no gradient")
        if not any(node in slopes for node in versions):
            return SourceCheck(name, 0.0, 0.0, 0.0, None, "not connected to the target (tape.explain says why)")
        direction = _direction(self.values[versions[0]], self.random)
        exact = sum(_inner(slopes[node], direction) for node in versions if node in slopes)
        # A step in proportion to the values: large ones do not drown it, small ones are not overrun by it.
        size = max(float(np.max(np.abs(self.values[versions[0]]), initial=0.0)), 1e-3)

        if not np.isfinite(size):
            return SourceCheck(name, float(exact), 0.0, 0.0, None, "its value is not finite")

        def value(h: float) -> float:
            moved = {n: box(_plus(v, h * size, direction) if n in versions else v) for n, v in self.values.items()}
            values = self.replay.run(moved)
            return sum(float(np.sum(np.real(values[t]._data))) for t in self.targets if t in values)

        slope = slope_of(value, STEP)
        difference = slope.value / size
        # A slope may be near zero because the direction happens to be level: the error is measured against the whole gradient
        # too.
        norm = sum(float(np.linalg.norm(np.ravel(slopes[n]).astype(np.complex128))) for n in versions if n in slopes)
        scale = max(abs(exact), abs(difference), norm * float(np.linalg.norm(np.ravel(direction))) / 10)
        ok = slope.agrees(exact * size, RUN.get(source.dtype.name, 2e-3) * scale * size)
        error = abs(exact - difference) / scale if scale else 0.0
        if not slope.smooth:  # a kink: any slope between those of both sides is right
            note = "the target has a kink here" + ("" if ok else ", where nothing can be compared")
            return SourceCheck(name, float(exact), difference, 0.0, ok, note)
        return SourceCheck(name, float(exact), difference, error, ok)

    # -- rules ---------------------------------------------------------------------------------------------------

    def _rules(self) -> tuple[tuple[RuleCheck, ...], dict[Record, Any]]:
        """Each operation of the run in float64 against its own slopes; and the cotangents of the sources in that run."""
        recording = KeepingRecording()
        with recording.recording():
            leaves = {node: recording.watched(box(value)) for node, value in self.values.items()}
            ends = self.replay.run(leaves)
        outs = [ends[t] for t in self.targets if t in ends]
        cts = [box(_ones(t._data)) for t in outs]
        grads = recording.cotangents(outs, cts, [t._node for t in leaves.values()], boxed=False)  # type: ignore[misc]
        precise = {node: g._data for node, g in zip(leaves, grads, strict=True) if g is not None}
        known = {n: t._data for value in ends.values() for t in _several(value) if (n := version(t)) is not None}
        checks: dict[tuple[str, str | None], list[tuple[float, bool | None]]] = {}
        for record in recording.records:
            if record.op is None or record.op is PART or record.op.kind == "nondiff":
                continue
            key = (_label(record), place_of(record))
            looked = checks.setdefault(key, [])
            if len(looked) < PER_LINE:
                looked.append(self._rule(record, recording, known))
        rows = []
        for (op, place), looked in checks.items():
            states = [ok for _, ok in looked]
            state = False if False in states else True if True in states else None
            worst = max(error for error, ok in looked if ok is not None or state is None)
            rows.append(RuleCheck(op, place, len(looked), worst, state))
        return tuple(rows), precise

    def _rule(self, record: Record, recording: KeepingRecording, known: dict[Record, Any]) -> tuple[float, bool | None]:
        """The relative error of a record's rule, and whether that is none; None where it cannot be compared."""
        nodes, kept = record.nodes, recording.operands.kept[record]
        # what a function captured stands among its inputs by name only
        inputs = [
            x if n is None or np.shape(x) == tuple(n.shape) else known.get(n, x)
            for x, n in zip(kept.inputs, nodes, strict=True)
        ]
        outs = kept.out if isinstance(kept.out, tuple) else (kept.out,)
        places = [i for i, n in enumerate(nodes) if n is not None and isinstance(inputs[i], (np.ndarray, np.generic))]
        places = [i for i in places if inputs[i].dtype.kind in "fc"]
        if not places or any(isinstance(x, TensorList) for x in (*inputs, *outs)):
            return 0.0, None
        weights = [_direction(o, self.random) for o in outs]
        directions = {i: _direction(inputs[i], self.random) for i in places}
        size = max(1e-3, *(float(np.max(np.abs(inputs[i]), initial=0.0)) for i in places))
        if not np.isfinite(size):
            return 0.0, None
        ct: Any = weights[0] if not isinstance(kept.out, tuple) else list(weights)
        wanted = {nodes[i] for i in places}
        grads = reverse_walk((record,), {record: ct}, wanted, binding(careful=self.complex))  # type: ignore[arg-type]
        exact, seen = 0.0, set()
        for i in places:
            node = nodes[i]
            if node in grads and node not in seen:
                seen.add(node)
                total = sum(directions[j] for j in places if nodes[j] is node)
                grad = grads[node]
                exact += _inner(grad.dense() if isinstance(grad, SparseRows) else grad, total)
        outputs = _function(record, recording)
        # an input that stands at several places moves as one
        joint = {i: sum(directions[j] for j in places if nodes[j] is nodes[i]) for i in places}

        def value(h: float) -> float:
            moved = [_plus(x, h * size, joint[i]) if i in joint else x for i, x in enumerate(inputs)]
            return sum(_inner(w, o) for w, o in zip(weights, outputs(moved), strict=False))

        slope = slope_of(value, STEP)
        difference = slope.value / size
        scale = max(abs(exact), abs(difference), 1e-2 * float(sum(np.linalg.norm(np.ravel(o)) for o in outs)) / size)
        error = abs(exact - difference) / scale if scale else 0.0
        return (error if slope.smooth else 0.0), slope.agrees(exact * size, RULE * scale * size)


# -- pieces ------------------------------------------------------------------------------------------------------------


def _label(record: Record) -> str:
    if record.op is CUSTOM and record.attrs and record.attrs["rule"].again is not None:
        return f"custom gradient `{record.attrs['rule'].again.name.split('.')[-1]}`"
    return "custom gradient" if record.op is CUSTOM else str(record.op.name)


def _restored(record: Record, kept: Kept | None, twins: dict[Record, Record]) -> Record:
    """A record with its values back and its inputs among the twins."""
    nodes = tuple(None if node is None else twins.get(node, node) for node in record.nodes)
    attrs = record.attrs if kept is None else kept.attrs
    twin = leaf(record.keys, record.shape, nodes, record.op, attrs, record.code, record.lasti, record.when)
    twin.saved = record.saved
    if kept is not None and record.op is not None and record.op.kind != "region":
        twin.saved = save_plan(record.op).collect(kept.inputs, record.nodes, kept.out)
    return twin


def _ones(value: ArrayLike) -> Any:
    return np.ones(np.shape(value), np.asarray(value).dtype)[()]


def _direction(value: ArrayLike, random: np.random.Generator) -> Any:
    direction = random.normal(size=np.shape(value))
    if np.asarray(value).dtype.kind == "c":
        direction = direction + 1j * random.normal(size=np.shape(value))
    return np.asarray(direction)[()] if np.asarray(value).dtype.kind in "fc" else np.zeros(np.shape(value))


def _plus(value: Array, h: float, direction: Array) -> Any:
    return np.asarray(value + h * direction)[()]


def _inner(a: Array, b: Array) -> float:
    """Re⟨a, b⟩."""
    return float(np.real(np.sum(np.conj(a) * b)))


def _function(record: Record, recording: KeepingRecording) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """An operation as a function of its inputs."""
    kept = recording.operands.kept[record]
    if record.op is not CUSTOM:
        return lambda inputs: _several(record.op.impl(*inputs, **kept.attrs))
    again = kept.attrs["rule"].again
    if again is not None:
        return lambda inputs: [t._data for t in again.run([box(x) for x in inputs])]
    outputs = [node for node in made_by(record, kept.attrs) if node is not None]
    leaves = {node for node in record.nodes if node is not None}
    replay = Replay(tuple(recording.records), recording.operands.kept, leaves, outputs, False)

    def repeated(inputs: Sequence[Any]) -> list[Any]:
        values = replay.run({node: box(x) for node, x in zip(record.nodes, inputs, strict=True) if node is not None})
        return [values[node]._data if node in values else out for node, out in zip(outputs, kept.out, strict=True)]

    return repeated


def _several(out: object) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)
