"""What a derivative means among several ranks, in one place: before the walk of a tape, and after it.

Each rank walks its own records, and the rules of operations between ranks (`ops/collective.py`) are exact for N programs that
exchange arrays. Two things are left, and both are done here:

* a replicated target is one value, though all N ranks hold it: each rank starts with its N-th part of the seed;
* a replicated source is one value, too: its cotangent is the sum of what the ranks found.

So the derivative of a replicated loss in a replicated variable is the whole derivative, equal on all ranks; in a local array it
is the part of this rank; and a local target stands for the sum over ranks.

The ranks agree before the walk on which operations between them take part: where they came to different conclusions (one took a
branch that the others did not) all do, with zeros. They also agree on the sums that begin during the walk
(`gradient_buckets.py`). Invariant: ranks post the same communication in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from gradtape.core.hooks import HOOKS
from gradtape.core.record import LOCAL, NOBODY, TRACING, Record, current_scope, scope_of
from gradtape.core.tensor import Tensor
from gradtape.distribute.gradient_buckets import FULL, GradientBuckets, can_take_part
from gradtape.distribute.rank_errors import RankError
from gradtape.distribute.rank_kinds import is_replicated, rank_kind
from gradtape.ops.collective import MESSAGES, all_sum
from gradtape.ops.create import zeros_like
from gradtape.ops.shape import concat, reshape, split
from gradtape.tape.gradient_tape import GradientTape
from gradtape.variables.indexed_slices import IndexedSlices


def among_ranks(tape: GradientTape, targets: list[Tensor], seeds: list[Tensor], flat: list[Any], recorded: bool) -> list[Any]:
    """The answers of a tape, one per source, where several ranks run."""
    shared = [is_replicated(source) for source in flat]
    # Σ seed · target is the function that is differentiated: it is as local as either of them
    once = [is_replicated(target) and rank_kind(seed) is not LOCAL for target, seed in zip(targets, seeds, strict=True)]
    # both ends of a message answer, always; all others agree: so a rank that talks to some need not know what the rest does
    partners = {record: zero for record, zero in _zeros(tape).items() if record.op in MESSAGES}
    together = len(partners) < len(tape._communications) or any(shared) or any(once)
    if not together and not partners:
        return tape._answers(targets, seeds, flat, recorded)
    staged = TRACING.get() is not None
    buckets = None
    if together and not staged:
        wrapped = any(tensor.wraps for tensor in (*targets, *seeds))
        plain = not (recorded or wrapped or tape._persistent or tape.level or tape._others() is not None)
        active, buckets = _agreed(tape, targets, flat, once, shared if plain else [])
        partners |= active
    if tape._persistent and not staged:  # what it gives may be differentiated again: all of it is recorded now
        scope = current_scope().without(tape).with_recorder(tape)
        recorded = True
    else:
        scope = current_scope() if recorded else tape._others() or NOBODY
    with scope_of(scope):
        # (dividing is recorded where the answer may be differentiated again)
        seeds = [seed / HOOKS.world.size if one else seed for seed, one in zip(seeds, once, strict=True)]
    with scope_of(scope) if recorded else scope_of(current_scope()):
        answers = tape._answers(targets, seeds, flat, recorded, partners, buckets.settled if buckets else None)
    with scope_of(scope):
        return _summed(answers, flat, shared, staged, buckets)


def rule_shares(inputs: Sequence[Tensor]) -> Callable[[list[Any]], list[Any]]:
    """What makes shares of this rank of the answers of a user's rule: one that is replicated, to a replicated argument, is the
    whole derivative, as a tape inside the rule gives it. It is one value, of which each rank has its N-th part."""
    # (the rule of a program is traced at once; of eager code nothing but the kinds of its arguments is to be kept)
    shared = [None if TRACING.get() is not None else is_replicated(tensor) for tensor in inputs]
    given = inputs if TRACING.get() is not None else [None] * len(shared)

    def shares(answers: list[Any]) -> list[Any]:
        rows = zip(answers, shared, given, strict=True)
        whole = [a is not None and is_replicated(a) and (s if g is None else is_replicated(g)) for a, s, g in rows]
        return [a / HOOKS.world.size if one else a for a, one in zip(answers, whole, strict=True)]

    return shares


# -- before the walk ----------------------------------------------------------------------------------------------------------


def _agreed(
    tape: GradientTape, targets: list[Tensor], flat: list[Any], once: list[bool], early: list[bool]
) -> tuple[dict[Record, Any], GradientBuckets | None]:
    """The operations whose rules run on all ranks: those between targets and sources, where all ranks have the same; else all
    of them. And the sums of sources that may begin during the walk (`early`), if they are the same, too. One short exchange."""
    places = {record: i for i, record in enumerate(r for r in tape._communications if r.op not in MESSAGES)}
    moved, behind = _between(tape, targets, flat)
    moving, reached = [i for r, i in places.items() if r in moved], [i for r, i in places.items() if r in behind]
    buckets = _buckets(tape, targets, flat, early, behind)
    # the values of replicated targets travel as a digest: that they differ is a mistake nobody else would notice
    values = [np.ascontiguousarray(t._data).tobytes() for t, one in zip(targets, once, strict=True) if one and not t.wraps]
    digests = [_digest(moving), _digest(reached), len(places), _digest(once), crc32(b"".join(values)), buckets.digest]
    own = np.array(digests, np.int64)
    # one exchange for the largest and the least of all numbers
    least, most = np.split(HOOKS.world.all_reduce(np.concatenate([-own, own]), "max"), 2)
    differs = -least != most
    if differs[2]:
        raise RankError(
            f"gradient: this tape has seen {own[2]} collective operations on rank {HOOKS.world.rank}, and from {-least[2]} to "
            f"{most[2]} on others; every rank must call the same ones inside the tape's block"
        )
    if differs[3]:
        raise RankError(
            f"gradient: on rank {HOOKS.world.rank} the targets are {_kinds(once)}, on another rank they are not; compute them "
            "from the same kinds of values on all ranks"
        )
    if differs[4]:
        raise RankError(
            f"gradient: on rank {HOOKS.world.rank} the target is {_shown(targets, once)}, on another rank it is "
            "not. It was computed from replicated values and numbers alone, so it must be the same on all ranks: a number that "
            "differs between ranks met it; make it an array with np.array(...), or sum over ranks with all_reduce"
        )
    zeros = _zeros(tape)
    common = None if differs[5] or not own[5] else buckets
    # some rank needs an operation that another does not: then all of them run on all ranks, with zeros where they are not
    # needed
    if differs[0] or differs[1]:
        return zeros, common
    active = {*moving} & {*reached}
    return {record: zeros[record] for record, i in places.items() if i in active}, common


def _buckets(
    tape: GradientTape, targets: list[Tensor], flat: list[Any], early: list[bool], behind: set[Record]
) -> GradientBuckets:
    """The sums that may begin during the walk: of sources that the targets depend on and are none themselves."""
    ends = {tape._node_of(target) for target in targets}
    versions = {i: tape._versions(flat[i]) for i, one in enumerate(early) if one and can_take_part(flat[i])}
    versions = {i: own for i, own in versions.items() if not behind.isdisjoint(own) and ends.isdisjoint(own)}
    return GradientBuckets(tape.records, versions, flat)


def _zeros(tape: GradientTape) -> dict[Record, Any]:
    return {record: np.zeros(record.shape, dtype.dtype)[()] for record, dtype in tape._communications.items()}


def _between(tape: GradientTape, targets: list[Tensor], flat: list[Any]) -> tuple[set[Record], set[Record]]:
    """What depends on the sources here, and what the targets depend on here: no less than a cotangent can reach. What messages
    bring may depend on sources of other ranks, and targets there on what they take away."""
    messages = [record for record in tape._communications if record.op in MESSAGES]
    moved = {*messages, *(node for source in flat for node in tape._versions(source))}
    for record in tape.records:
        if record.op.differentiable and any(node in moved for node in record.nodes):
            moved.add(record)
    behind = {*messages, *(node for target in targets if (node := tape._node_of(target)) is not None)}
    for record in reversed(tape.records):
        if record in behind and record.op.differentiable:
            behind.update(node for node in record.nodes if node is not None)
    return moved, behind


def _digest(numbers: Sequence[int]) -> int:
    return crc32(np.array(numbers, np.int64).tobytes())


def _kinds(once: list[bool]) -> str:
    return ", ".join("replicated" if one else "local" for one in once)


def _shown(targets: list[Tensor], once: list[bool]) -> Any:
    return next(target._data for target, one in zip(targets, once, strict=True) if one)


# -- after the walk -----------------------------------------------------------------------------------------------------------


def _summed(answers: list[Any], flat: list[Any], shared: list[bool], staged: bool, early: GradientBuckets | None) -> list[Any]:
    """The answers with those of replicated sources added up over the ranks, in buckets of one dtype: small ones together, and
    the last sources, whose derivatives are known first, ahead of the others. A program goes on meanwhile; eager code has begun
    with the `early` ones."""
    wanted = [i for i, one in enumerate(shared) if one]
    if not wanted:
        return answers
    answers = list(answers)
    flags = np.array([early is not None and not early.finish(), *(answers[i] is not None for i in wanted)], np.int32)
    if not staged:
        # a source that this rank did not use has a derivative if another rank did: all must take part in its sum
        flags = HOOKS.world.all_reduce(flags, "max")
    present = {i for i, some in zip(wanted, flags[1:], strict=True) if some}
    totals = {} if early is None else early.totals()
    if totals and not flags[0]:
        answers = [totals.get(i, answer) if i in present else answer for i, answer in enumerate(answers)]
        present -= totals.keys()
    buckets: list[list[int]] = []
    open_ones: dict[Any, tuple[list[int], int]] = {}  # dtype → the bucket that is not full, its bytes
    for i in sorted(present, reverse=True):
        answer = zeros_like(flat[i]) if answers[i] is None else answers[i]
        answers[i] = answer = answer.to_dense() if isinstance(answer, IndexedSlices) else answer
        size = answer.dtype.size * int(np.prod(answer.shape, dtype=np.int64))
        places, full = open_ones.get(answer.dtype, ([], FULL))
        if full + size > FULL:
            places, full = [], 0
            buckets.append(places)
        places.append(i)
        open_ones[answer.dtype] = places, full + size
    for places in buckets:
        for i, total in zip(places, _total([answers[i] for i in places]), strict=True):
            answers[i] = total
    return answers


def _total(parts: list[Any]) -> list[Any]:
    if len(parts) == 1:
        return [all_sum(parts[0])]
    sizes = [int(np.prod(part.shape, dtype=np.int64)) for part in parts]
    whole = all_sum(concat([reshape(part, (-1,)) for part in parts], 0))
    return [reshape(piece, tuple(part.shape)) for piece, part in zip(split(whole, sizes, 0), parts, strict=True)]
