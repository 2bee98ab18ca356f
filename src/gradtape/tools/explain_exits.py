"""Whether a source reaches a target outside the tape: through a NumPy array or a Python number.

The tape cannot follow such a value, so this is a conclusion, not an observation. It is drawn only where nothing else connects
the two, something computed from the source did leave (`core/exits.py`), and the target uses something from outside that may be
younger. Lines that only look (print, log, assert) do not count.
"""

from __future__ import annotations

import dis
import linecache
import re
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from gradtape.core.exits import Exit
from gradtape.core.record import Record, Unwatched, VariableKey, location
from gradtape.ir.graph import Location
from gradtape.tape.gradient_tape import GradientTape
from gradtape.tools.explain_cuts import Cut
from gradtape.tools.explain_paths import inputs_of, lineage_of

_ARRAYS = (".numpy()", "np.asarray", "__dlpack__()", ".tolist()")
_LOOKING = re.compile(r"\s*(print|pprint|log\w*|\w*\.?(debug|info|warning)|assert|tqdm|raise)\b")


def exit_cut(
    tape: GradientTape, targets: list[Record | None], starts: Iterable[Record], variable: VariableKey | None
) -> Cut | None:
    """The line at which the source left the tape, if that may be how the target depends on it."""
    if not tape.key.exits:
        return None
    descended = _descendants(tape, starts, variable)
    order = {record: i for i, record in enumerate(tape.records)}
    latest = _latest_input_from_outside(targets, order)
    chosen = None
    for leaving in tape.key.exits.values():
        if not any(_before(last, latest, order) for origin, last in leaving.values if _descends(origin, descended)):
            continue
        # A branch decides what runs, not with which numbers: it is told only if nothing better is found.
        if leaving.how == "bool()" and _only_branches(leaving):
            chosen = chosen or leaving
            continue
        if not _LOOKING.match(linecache.getline(*location(leaving.code, leaving.lasti))):
            cause = "left_to_numpy" if leaving.how in _ARRAYS else "converted_to_python_number"
            return Cut(cause, "", Location(*location(leaving.code, leaving.lasti)), {"how": leaving.how})
    if chosen is None:
        return None
    return Cut("independent", "", Location(*location(chosen.code, chosen.lasti)), {"branch": True})


def _descendants(tape: GradientTape, starts: Iterable[Record], variable: VariableKey | None) -> set[Any]:
    """Everything the tape knows that was computed from the source, differentiably or not."""
    descendants: set[Any] = set(starts)
    if variable is not None:
        descendants.add(variable)
    for record in tape.records:
        if any(n in descendants for n in inputs_of(record)):
            descendants.add(record)
    return descendants


def _descends(origin: object, descended: set[Any]) -> bool:
    if isinstance(origin, weakref.ref):
        return origin() in descended
    if not isinstance(origin, Unwatched):
        return False
    return any(node in descended for node in lineage_of([origin]))


def _latest_input_from_outside(targets: list[Record | None], order: dict[Record, int]) -> float:
    """How far in the record a value from outside entered what the target was computed from."""
    latest = -1.0
    for target in targets:
        if target is None or target not in order:
            return float("inf")  # the target itself is from outside
    for node in lineage_of(targets):
        if not isinstance(node, Unwatched) and (None in node.nodes or isinstance(node.when, tuple)):
            latest = max(latest, order.get(node, -1))
    return latest


def _before(last: Callable[[], Record | None] | None, latest: float, order: dict[Record, int]) -> bool:
    """Whether a value that left when `last` was the tape's last record can have come back in time."""
    record = None if last is None else last()
    return record is None or order.get(record, -1) < latest


def _only_branches(leaving: Exit) -> bool:
    """Whether Python asked for the truth of a value to choose a branch, rather than the user for a number."""
    instructions = [i.opname for i in dis.get_instructions(leaving.code) if i.offset == leaving.lasti]
    return bool(instructions) and not instructions[0].startswith(("CALL", "PRECALL"))
