"""The one reverse walk: cotangents from targets back to the wanted versions.

It visits records newest first, without recursion, and only those that lie between the targets and what is wanted. Each op is
pulled by its rules in one `Binding` (`ad/binding.py`): on bare arrays (nobody records the pass) or on tensors (somebody does).
How cotangents add up is `ad/sweep.py`; no operation is named here.
"""

from __future__ import annotations

from cmath import isfinite
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape.ad.binding import BINDINGS, Binding
from gradtape.ad.straight import Pupil, Wanted, learnable, needed_records
from gradtape.ad.sweep import SparseRows, Sweep
from gradtape.core.float_events import unheard
from gradtape.core.record import INTERNAL, TRACING, Record
from gradtape.core.tensor import Tensor

INTERNAL.add(np.errstate.__call__.__code__.co_filename)  # its frame below is no user's
Step = Callable[[Record], Any]  # something to do with each record on the way
Settled = Callable[[Record, Any], None]  # told of a wanted version and its cotangent (None: nothing came) when it is complete


def reverse_walk(
    records: Iterable[Record],
    cotangents: dict[Record, Any],
    wanted: Wanted,
    pulls: Binding,
    *,
    sparse: bool = False,
    real: bool = False,
    visit: Sequence[Step] = (),
    settled: Settled | None = None,
) -> dict[Record, Any]:
    """Carry `cotangents` (of the targets) back; the answer holds those of the `wanted` records that were reached.

    `pulls` are the rules in the binding that fits the values (`binding`); `sparse` lets a gathered leaf keep `SparseRows`;
    `real` says that no record has complex values; `visit` are called with each record before its rules run, `settled` behind
    the last one that adds to a wanted version.
    """
    path, needed = needed_records(records, wanted, pulls)
    sweep = Sweep(cotangents, needed, wanted, sparse, real)
    last_uses = {} if settled is None else _last_uses(path, wanted)
    for record in reversed(path):
        # what nobody asks for is let go as soon as it was carried on
        ct = cotangents.get(record) if record in wanted else cotangents.pop(record, None)
        if ct is not None:
            for step in visit:
                step(record)
            pulls[record.op](sweep, record, ct)
        for node in last_uses.get(record, ()):
            settled(node, cotangents.get(node))  # type: ignore[misc]  # nobody else has last uses
    return {node: cotangents[node] for node in wanted if node in cotangents}


def _last_uses(path: Sequence[Record], wanted: Wanted) -> dict[Record, list[Record]]:
    """The wanted versions by the record that the walk comes to last of those that use them."""
    # Forward through the path: the first record that uses a version is the last one that the reverse walk comes to.
    waiting = set(wanted)
    uses: dict[Record, list[Record]] = {}
    for record in path:
        for node in record.nodes:
            if node in waiting:
                waiting.discard(node)
                uses.setdefault(record, []).append(node)
    return uses


def binding(*, boxed: bool = False, careful: bool = False, cut: bool = False) -> Binding:
    """The rules for one kind of walk: on tensors (`boxed`) or bare arrays, masking dead lanes (`careful`) or not, through
    assignments to variables or not (`cut`)."""
    return BINDINGS[boxed, careful, cut]


def all_finite(values: Iterable[Any], exactly: bool = False) -> bool:
    """Whether a sum over each array is finite: one cheap pass; an overflow only costs a second, careful walk. `exactly`
    looks at each element."""
    for data in values:
        if data.__class__ is not ndarray:
            data = data.values if data.__class__ is SparseRows else innermost(data)
        if data.__class__ is ndarray:
            if exactly:
                data = 0.0 if data.dtype.kind not in "fcV" or np.isfinite(data).all() else np.nan
            elif data.dtype.char in "fdFD" and data.flags.c_contiguous:
                flat = data if data.ndim == 1 else data.reshape(-1)
                data = flat.dot(flat)  # BLAS: less than half the time of a sum
            else:
                data = np.add.reduce(data, axis=None) if data.dtype.kind in "fcV" else 0.0  # V: bfloat16
        elif isinstance(data, list):  # of the program, or of rows
            data = 0.0 if all_finite(data, exactly) else np.nan
        if not isfinite(data):
            return False
    return True


def innermost(value: Any) -> Any:
    """The bare array inside a tensor or a wrapper of tensors."""
    while isinstance(value, Tensor):
        value = value._data
    return value


@np.errstate(all="ignore")  # quicker than a block with it
def _plain_walk(
    records: Sequence[Record], seeds: dict[Record, Any], wanted: Wanted, pulls: Binding, sparse: bool, real: bool,
    visit: Sequence[Step], settled: Settled | None,
) -> dict[Record, Any] | None:  # fmt: skip
    """The walk; or straight-line code in its place, if it is one that came often enough (`ad/straight.py`). None where
    something is not finite."""
    # Straight-line code runs no steps on the way and settles nothing early, so whoever asks for that gets the walk.
    learns = not visit and settled is None and wanted.__class__ is dict and learnable(records)
    pupil = Pupil(records, seeds, wanted, pulls, sparse, real) if learns else None  # type: ignore[arg-type]
    answers = None if pupil is None else pupil.answers()
    if answers is None:
        answers = reverse_walk(records, dict(seeds), wanted, pulls, sparse=sparse, real=real, visit=visit, settled=settled)
        if pupil is not None and pupil.due():
            pupil.learn(*needed_records(records, wanted, pulls))
    return answers if all_finite(answers.values()) else None


def gradients(
    records: Sequence[Record],
    seeds: dict[Record, Any],
    wanted: Wanted,
    *,
    boxed: bool,
    complex_values: bool = False,
    cut: bool = False,
    sparse: bool = False,
    visit: Sequence[Step] = (),
    settled: Settled | None = None,
    suspects: list[Any] | None = None,
    once: bool = False,
) -> dict[Record, Any]:
    """The reverse walk, run again with masked lanes when the plain one gave something non-finite (`settled` hears it twice).

    In a program nobody can look, and a walk that talks to other ranks must not be repeated by one of them (`once`): there the
    careful walk is the only one, one masked product per partial. `suspects` gets the answers that nobody has found finite.
    """
    # While a program is traced the cotangents have no values: nobody can say that all are finite, so the careful rules are
    # recorded.
    staged = boxed and TRACING.get() is not None
    if not staged and not once and (boxed or not complex_values):
        plain = _plain_walk(records, seeds, wanted, BINDINGS[boxed, False, cut], sparse, not complex_values, visit, settled)
        if plain is not None:
            return plain
    pulls = BINDINGS[boxed, True, cut]
    with np.errstate(all="ignore"), unheard() if staged else nullcontext():
        answers = reverse_walk(records, dict(seeds), wanted, pulls, sparse=sparse, visit=visit, settled=settled)
    if suspects is not None and not staged:
        suspects.extend(answers.values())
    return answers
