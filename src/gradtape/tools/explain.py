"""`tape.explain(target, source)`: why a gradient is None, or zero, or that it is there. One cause, the line, the cure.

The order of the questions: is the tape still there, can the source have a gradient at all, does the tape know it, which ways
lead from it to the target (`explain_paths.py`), did it leave the tape (`explain_exits.py`), what does a backward pass say
(`explain_values.py`). Sentences are in `explain_texts.py`. Invariant: asking changes no later answer of the tape.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

from gradtape import tree
from gradtape.ad.straight import standing
from gradtape.core.record import Past, Record, Unwatched, VariableKey, blended, location
from gradtape.core.tensor import Tensor
from gradtape.ir.graph import Location
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools.explain_cuts import CONNECTED, UNSEEN, Cut, best
from gradtape.tools.explain_exits import exit_cut
from gradtape.tools.explain_paths import line_of, lineage_of, ways
from gradtape.tools.explain_texts import is_slice, sentence, shown
from gradtape.tools.explain_values import gives_gradient, has_values, noted_zero, reason, zero_without_place
from gradtape.tools.rank_labels import labelled
from gradtape.tree import Structure
from gradtape.variables.indexed_slices import IndexedSlices
from gradtape.variables.variable import Variable, unwrapped


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a target and a source are connected, or not.

    `cause` is one word of a fixed list, "connected" if there is a gradient; `location` is the user's line ("file.py:12") where
    the connection was lost, None where there is no such line; `message` is a sentence with the cure in it; `computed` says
    what has taken the place of the walk through the tape, where something has. Printed, it shows the line itself too.
    """

    cause: str
    location: str | None
    message: str
    computed: str = ""

    def __str__(self) -> str:
        head = labelled(self.cause if self.location is None else f"{self.cause} at {self.location}")
        code = ""
        if self.location is not None:
            file, line = self.location.rsplit(":", 1)
            code = linecache.getline(file, int(line)).strip()
        last = f"\n  computed by {self.computed}" if self.computed else ""
        return head + (f"\n    {code}" if code else "") + f"\n  {self.message}{last}"


def explain(tape: GradientTape, target: Structure, source: Structure) -> Any:
    """One `Explanation` per source, arranged like `source`. Several targets are added up, as in `gradient`."""
    targets = [_target(t) for t in tree.flatten(target)]
    sources = [_source(s) for s in tree.flatten(source)]
    question = Question(tape, targets)
    cuts = question.verified(sources, [question.cut(s) for s in sources])
    by = standing(tape.records)
    answers = [
        Explanation(cut.cause, shown(cut.place), sentence(cut, s), by if cut.cause == CONNECTED.cause else "")
        for cut, s in zip(cuts, sources, strict=True)
    ]
    return tree.pack_sequence_as(source, answers)


def _target(target: object) -> Tensor:
    if isinstance(target, Variable):
        return target._tensor
    if isinstance(target, IndexedSlices):
        return target.values
    if isinstance(target, Tensor):
        return target
    if target is None:
        raise TypeError("explain: the target is None; did a function without `return` give it, or an earlier gradient?")
    raise TypeError(
        f"explain: the target must be a tensor computed inside the tape, got {type(target).__name__} {target!r}; a number or a "
        "NumPy array does not remember where it came from"
    )


def _source(given: object) -> Tensor | Variable:
    source = unwrapped(given)
    if isinstance(source, (Tensor, Variable)):
        return source
    if source is None:
        raise ValueError("explain: a source is None; give tensors or variables")
    raise ValueError(
        f"explain: a source must be a tensor or a variable, got {type(source).__name__} {source!r}; make it a gt.Variable, "
        "or a gt.constant watched with tape.watch"
    )


# -- what has the target to do with a source -----------------------------------------------------------------------------


class Question:
    """One target, asked about any number of sources."""

    def __init__(self, tape: GradientTape, targets: list[Any]) -> None:
        self.tape = tape
        self.targets = targets
        self.nodes = [t._node for t in targets]
        # a pending derivative hides the way through it: its backward pass is recorded first, as a gradient would do
        if tape._lazy and tape._spent_at is None and not tape._closed:
            tape._expand_reached({n for n in self.nodes if n is not None and tape.key in n.keys})
        self.lineage = list(lineage_of(self.nodes))
        self.known = set(tape.records)

    def cut(self, source: Tensor | Variable) -> Cut:
        """What the skeleton says; CONNECTED if there is a way."""
        tape = self.tape
        if tape._closed:
            at = None if tape._spent_at is None else Location(*location(*tape._spent_at))
            return Cut("tape_already_freed", "", at, {"closed": True})
        if not source.dtype.is_differentiable:
            return Cut("integer_or_bool_on_path", "", None, {"dtype": source.dtype.name})
        starts = tape._versions(source)
        if not starts and (unknown := _unknown(tape, source)) is not None:
            return unknown
        state = self._state(self._ways(source, starts))
        if state is None:
            return self._elsewhere(source, starts)
        # unseen: no operation on the way to the target ran while a tape was open
        before = Cut("computed_before_the_tape", "", None, {} if tape.key.history else {"never": True})
        return before if state is UNSEEN or (state.cause == before.cause and before.detail) else state

    def verified(self, sources: list[Any], cuts: list[Cut]) -> list[Cut]:
        """Where there is a way: does a gradient come along it?"""
        versions = [self.tape._versions(s) if cut is CONNECTED else [] for s, cut in zip(sources, cuts, strict=True)]
        if not has_values(self.tape, self.targets):
            return [
                zero_without_place() if starts and noted_zero(self.tape, self.nodes, starts) else cut
                for cut, starts in zip(cuts, versions, strict=True)
            ]
        wanted = {node for starts in versions for node in starts}
        # a way in the records is not enough: rules may give zeros or nothing along it, which one backward pass for all sources
        # shows
        alive = gives_gradient(self.tape, self.targets, wanted) if wanted else set()
        return [
            self._reason(source, starts) if starts and alive.isdisjoint(starts) else cut
            for source, starts, cut in zip(sources, versions, cuts, strict=True)
        ]

    def _ways(self, source: Tensor | Variable, starts: list[Record]) -> dict[Any, Cut]:
        variable = source._key if isinstance(source, Variable) else None
        return ways(self.tape, self.lineage, self.known, starts, variable)

    def _state(self, states: dict[Any, Cut]) -> Cut | None:
        known = [states[n] for n in self.nodes if n in states]
        return best(known) if known else None

    def _reason(self, source: Tensor | Variable, starts: list[Record]) -> Cut:
        """There is a way, but the backward pass gives zeros or nothing. Rules that were asked know what they do not answer."""
        states = self._ways(source, starts)
        state = self._state(states)
        return state if state is not None and state is not CONNECTED else reason(self.tape, self.targets, states, starts)

    def _elsewhere(self, source: Tensor | Variable, starts: list[Record]) -> Cut:
        """No way through the tape: perhaps one that was freed, or one outside of it."""
        tape = self.tape
        for node in self.nodes:
            if node is not None and tape._former is not None and tape._former in node.keys and tape.key not in node.keys:
                return Cut("tape_already_freed", "" if node.op is None else node.op.name, line_of(node))
        variable = source._key if isinstance(source, Variable) else None
        left = exit_cut(tape, self.nodes, starts, variable)
        if left is not None:
            return left
        hint = ""
        if isinstance(source, Tensor) and not {*self.nodes, None}.isdisjoint(lineage_of([source._node])):
            hint = ", but the source from the target: tape.gradient(target, sources) takes them in this order"
        elif not starts:
            hint = "; it was not even read inside the block"
        elif isinstance(source, Tensor) and source._node is not None and source._node.op is None and not _used(tape, starts):
            hint = "; nothing was, after tape.watch: watch it before it is used"
        return Cut("independent", "", None, {"hint": hint})


def _used(tape: GradientTape, starts: list[Record]) -> bool:
    return any(node in starts for record in tape.records for node in record.nodes)


# -- sources the tape does not know -------------------------------------------------------------------------------------


def _unknown(tape: GradientTape, source: Tensor | Variable) -> Cut | None:
    """Why the tape has no version of a source; None if that alone does not say it (a variable it would have watched)."""
    if isinstance(source, Variable):
        if not source.trainable:
            return Cut("non_trainable_variable")
        return None if tape._watch_accessed else Cut("not_watched", "", None, {"variable": True})
    if (name := is_slice(source)) is not None:
        return Cut("not_watched", "", None, {"slice": name})
    node = source._node
    if isinstance(node, Unwatched):
        return _made_outside(tape, node)
    if node is not None and tape._former is not None and tape._former in node.keys:
        return Cut("tape_already_freed", "" if node.op is None else node.op.name, line_of(node))
    return Cut("not_watched")


def _made_outside(tape: GradientTape, node: Unwatched) -> Cut:
    """A tensor that was computed from something known, but not recorded."""
    for part in blended(node):
        if isinstance(part, VariableKey):
            return Cut("variable_replaced_by_tensor", "", None, {"variable": part.name})
        if not isinstance(part, Past):
            continue
        did = tape.key.state_at(part.when)
        if part.variable is not None and did in ("before", "recording"):
            return Cut("variable_replaced_by_tensor", "", line_of(part), {"variable": part.variable.name})
        if did in _STATES:
            return Cut("not_watched", "", line_of(part), {"made": _STATES[did]})
    return Cut("not_watched")


_STATES = {"paused": "while the tape was paused", "left": "after the tape's block had ended"}
