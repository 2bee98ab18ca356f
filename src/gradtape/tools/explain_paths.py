"""What a target has to do with a source: the ways between them in the skeleton of records, and what stands in each way.

Only who was computed from what is looked at, never values, so it works on a tape that freed its values. Everything the target
was computed from is visited once, inputs first, without recursion. Invariant: a way that the tape can differentiate wins over
one it cannot; otherwise the cut nearest to the source is the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gradtape.ad.activity import passes_derivative
from gradtape.ad.custom import CUSTOM, Answers
from gradtape.core.dispatch import PART
from gradtape.core.record import Blend, Past, Record, Unwatched, VariableKey
from gradtape.dtypes import as_dtype
from gradtape.functions.compiled import FUNCTION
from gradtape.ir.graph import Location
from gradtape.ops.elementwise import CAST
from gradtape.ops.stop import ASSIGN, GRADIENT
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools.explain_cuts import CONNECTED, UNSEEN, Cut, best, op_cut
from gradtape.tools.explain_program import operation_way, program_way


def ways(
    tape: GradientTape, lineage: Iterable[Any], known: set[Record], starts: Iterable[Record], variable: VariableKey | None
) -> dict[Any, Cut]:
    """The state of everything in the lineage of the targets that has to do with the source, whose versions are `starts`.
    `known` are the records of the tape."""
    states: dict[Any, Cut] = dict.fromkeys(starts, CONNECTED)
    if variable is not None:
        states[variable] = UNSEEN
    for node in lineage:
        state: Cut | None
        if node in states:
            continue
        # Inputs come before outputs, so the states of all it was computed from are known here.
        if isinstance(node, Unwatched):
            state = _unwatched(tape, node, states)
        elif node.op is None:
            state = next((states[n] for n in node.nodes if n in states), None)
        else:
            state = _recorded(tape, node, states, known)
        if state is not None:
            states[node] = state
    return states


def lineage_of(targets: Iterable[Record | None]) -> Iterator[Any]:
    """Everything the targets were computed from, inputs before outputs."""
    seen: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(target, False) for target in targets if target is not None]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
        elif node not in seen:
            seen.add(node)
            # A node is given out after its inputs: it waits on the stack, marked, below them. (Recursion would not survive a
            # long loop.)
            stack.append((node, True))
            stack.extend([(n, False) for n in inputs_of(node) if n not in seen])


def inputs_of(node: Record) -> list[Any]:
    """The versions that something was computed from, recorded or not."""
    if node.__class__ is Record and node.when.__class__ is int and node.op is not CUSTOM:  # nearly always
        return [n for n in node.nodes if n is not None]
    if isinstance(node, Past):
        origin = None if node.origin is None else node.origin()
        return [n for n in (origin or node.variable,) if n is not None]
    if isinstance(node, Blend):
        return list(node.parts)
    inputs = [n for n in node.nodes if n is not None]
    if isinstance(node.when, tuple):
        inputs.extend(node.when[1])
    if node.op is CUSTOM:
        inputs.extend(_made(node))
    return inputs


def _answers(record: Record) -> Answers:
    """What is known of the rule of a custom operation; nothing if its tape was closed."""
    attrs = record.attrs or {}
    answers: Any = attrs["rule"].answers if "rule" in attrs else attrs.get("answers")
    return Answers("") if answers is None else answers


def _made(record: Record) -> list[Record]:
    """The outputs of a custom operation as its function computed them, where they are still known."""
    return [node for ref in _answers(record).outputs if ref is not None and (node := ref()) is not None]


def line_of(node: Record) -> Location | None:
    """The user's line of a record or a past."""
    place = node.location
    return None if place is None else Location(*place)


# -- values nobody recorded ------------------------------------------------------------------------------------------


def _unwatched(tape: GradientTape, node: Unwatched, states: dict[Any, Cut]) -> Cut | None:
    known_states = [states[n] for n in inputs_of(node) if n in states]
    if not known_states:
        return None
    state = best(known_states)
    if isinstance(node, Past) and (state is CONNECTED or state is UNSEEN):
        return _untimely(tape, node, state)
    return state


def _untimely(tape: GradientTape, node: Record, state: Cut) -> Cut:
    """An operation on a value of the source that the tape did not record: because of the time at which it ran."""
    # What the tape did at the time at which the operation ran says why it was not recorded.
    when = node.when[0] if isinstance(node.when, tuple) else node.when
    did = tape.key.state_at(when)
    op = node.op.name
    if did == "paused":
        return Cut("recording_paused", op, line_of(node))
    if did == "left":
        return Cut("computed_after_the_tape", op, line_of(node))
    if did == "before":
        return Cut("computed_before_the_tape", op, line_of(node))
    if state is UNSEEN:  # used inside the block, computed before it
        return Cut("computed_before_the_tape", op, line_of(node), {"used": True})
    if isinstance(node, Past) and node.op is CUSTOM:  # a custom gradient whose function uses it without being given it
        return Cut("rule_returned_none", op, line_of(node))
    if isinstance(node, Past):
        return Cut("recording_paused", op, line_of(node), {"elsewhere": True})
    return Cut("not_watched", op, line_of(node), {"late": True})


# -- records ---------------------------------------------------------------------------------------------------------


def _recorded(tape: GradientTape, record: Record, states: dict[Any, Cut], known: set[Record]) -> Cut | None:
    op = record.op
    if op is PART:
        return _part(tape, record, states, known)
    ways = []
    for index, node in enumerate(record.nodes):
        state = states.get(node)
        if state is not None:
            ways.append(_step(tape, record, index, state, known))
    if isinstance(record.when, tuple):
        ways += [_unseen(tape, record, states[n]) for n in record.when[1] if n in states]
    if not ways and op is CUSTOM and any(node in states for node in _made(record)):
        return Cut("rule_returned_none", op.name, line_of(record), {"function": _answers(record).name})
    return best(ways) if ways else None


def _unseen(tape: GradientTape, record: Record, state: Cut) -> Cut:
    return _untimely(tape, record, state) if (state is CONNECTED or state is UNSEEN) else state


def _step(tape: GradientTape, record: Record, index: int, state: Cut, known: set[Record]) -> Cut:
    """How a state goes on through input `index` of an operation."""
    # Comparisons and indices are everywhere in derivatives; there they are not what the user did wrong.
    derived = bool(tape.sites) and (record.code, record.lasti) in tape.sites  # in a backward pass that the tape recorded
    if state is not CONNECTED and state is not UNSEEN:
        if derived and state.cause == "integer_or_bool_on_path":  # of a derivative that is constant between comparisons
            return Cut("independent", state.op, line_of(record), {"derivative": True})
        return state
    if state is UNSEEN or (record not in known and tape.key not in record.keys):
        if tape._former is not None and tape._former in record.keys:
            return Cut("tape_already_freed", record.op.name, line_of(record))
        return _untimely(tape, record, state)
    op = record.op
    attrs = record.attrs or {}
    if op is CAST:
        whole = "dtype" in attrs and not attrs["dtype"].is_differentiable
        return Cut("integer_or_bool_on_path", op.name, line_of(record)) if whole else CONNECTED
    if op is ASSIGN and tape._through is False:
        return Cut("through_assignment", op.name, line_of(record), {"variable": str(attrs.get("variable", ""))})
    if op is CUSTOM:
        answers = _answers(record)
        detail = {"function": answers.name, "argument": index, "rerun": answers.rerun}
        return Cut("rule_returned_none", op.name, line_of(record), detail) if index in answers.silent else CONNECTED
    if op.kind in ("region", "part") or op is GRADIENT or passes_derivative(op, index):
        return CONNECTED
    return op_cut(op, line_of(record), derived)


def _part(tape: GradientTape, part: Record, states: dict[Any, Cut], known: set[Record]) -> Cut | None:
    """One output of an operation with several: what it depends on may be less than what the operation does."""
    owner = part.nodes[0] if part.nodes else None
    if owner is None:
        return None
    index = (part.attrs or {}).get("index", 0)
    if owner.op is GRADIENT:
        node = owner.nodes[index] if index < len(owner.nodes) else None
        return states.get(node)
    if owner.op is FUNCTION or owner.op.kind == "region":
        return _output(tape, owner, index, states, known)
    state = states.get(owner)
    if state is CONNECTED and not as_dtype(owner.shape[index][1]).is_differentiable:
        return Cut("integer_or_bool_on_path", owner.op.name, line_of(owner))
    if state is not None and state.cause == "integer_or_bool_on_path" and not owner.op.differentiable:
        dtype = as_dtype(owner.shape[index][1])
        if dtype.is_differentiable and state.op == owner.op.name:
            return Cut("no_derivative", owner.op.name, line_of(owner), {"reason": owner.op.reason})
    return state


def _output(tape: GradientTape, owner: Record, index: int, states: dict[Any, Cut], known: set[Record]) -> Cut | None:
    """One result of a compiled function, or of a structured operation of a program that is being traced."""
    attrs = owner.attrs or {}
    ways = []
    for place, node in enumerate(owner.nodes):
        state = states.get(node)
        if state is None:
            continue
        state = _step(tape, owner, place, state, known)
        inside: Cut | None = CONNECTED
        if "program" in attrs:
            inside = program_way(attrs["program"].block, place, index, line_of(owner))
        elif "operation" in attrs:
            inside = operation_way(attrs["operation"], place, index)
        if inside is not None:
            ways.append(inside if state is CONNECTED else state)
    if isinstance(owner.when, tuple):
        ways += [_unseen(tape, owner, states[n]) for n in owner.when[1] if n in states]
    return best(ways) if ways else None
