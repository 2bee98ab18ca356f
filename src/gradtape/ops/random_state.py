"""The global random state: where fresh keys come from. One object, one lock.

A stream is a word derived from the global seed (and the op's own seed, if it has one); its keys are (stream word, counter).
Keys therefore never repeat within a stream, whatever thread asks, and `reset` starts every stream again.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from gradtape.core.record import current_scope
from gradtape.ops.staged import DRAW_KEY, nullary

_DEFAULT_SEED = 87654321  # used with an op seed when no global seed was set, so that the op seed alone is reproducible


def entropy_word() -> int:
    """A 64-bit word from the operating system."""
    return int.from_bytes(os.urandom(8), "little")


def stream_word(*seeds: int) -> int:
    """A 64-bit word from any integers; different integers give unrelated words."""
    # all of one length, and the number of them: SeedSequence itself cannot tell (1,) from (1, 0)
    words = [len(seeds), *(half for s in seeds for half in (s & 0xFFFFFFFF, s >> 32 & 0xFFFFFFFF))]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


class Draw:
    """Where a draw takes its keys from: `draw()` gives a fresh one, or one for each of `counts` examples."""

    __slots__ = ("counts", "take")

    def __init__(self, take: Callable[[int], tuple[int, int]], counts: tuple[int, ...]) -> None:
        self.take = take
        self.counts = counts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Draw) and self.take == other.take and self.counts == other.counts

    def __hash__(self) -> int:
        return hash((self.take, self.counts))

    def draw(self) -> Any:
        """The keys, as an array."""
        total = math.prod(self.counts)
        word, first = self.take(total)
        keys = np.empty((*self.counts, 2), np.uint64)
        keys[..., 0] = word
        keys[..., 1] = (np.arange(total, dtype=np.uint64) + np.uint64(first & 0xFFFFFFFFFFFFFFFF)).reshape(self.counts)
        return keys


def next_key(take: Callable[[int], tuple[int, int]]) -> Any:
    """The key tensor of one draw; inside `vectorized_map` a key of its own for every example.

    `take(count)` reserves that many counters of a stream and answers (stream word, first counter).
    """
    batches = current_scope().batches
    counts = tuple([examples.count for examples in batches if examples is not None])
    shared = not counts or 0 in counts  # nobody sees the numbers of no example
    source = Draw(take, () if shared else counts)
    key = nullary(DRAW_KEY, source=source)
    if not shared:
        for level, examples in enumerate(batches, 1):
            if examples is not None:
                key = examples.hide(key, level)
    return key


@dataclass(frozen=True)
class _Stream:
    """Takes counters from the stream of an op seed; two that do the same are equal, so draws in a loop look alike."""

    state: RandomState
    op_seed: int | None

    def __call__(self, count: int) -> tuple[int, int]:
        return self.state._take(self.op_seed, count)


class RandomState:
    """The streams of the process; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seed: int | None = None
        self._streams: dict[int | None, list[int]] = {}  # op seed (None: none) → [stream word, next counter]

    def reset(self, seed: int) -> None:
        """Set the global seed and start all streams again."""
        with self._lock:
            self._seed = seed
            self._streams.clear()

    def key(self, op_seed: int | None = None) -> Any:
        """A key nobody got before from the stream of this op seed."""
        return next_key(_Stream(self, op_seed))

    def _take(self, op_seed: int | None, count: int) -> tuple[int, int]:
        with self._lock:
            stream = self._streams.get(op_seed)
            if stream is None:
                stream = self._streams[op_seed] = [self._word(op_seed), 0]
            counter = stream[1]
            stream[1] = counter + count
        return stream[0], counter

    def _word(self, op_seed: int | None) -> int:
        if op_seed is not None:
            return stream_word(_DEFAULT_SEED if self._seed is None else self._seed, 1, int(op_seed))
        return entropy_word() if self._seed is None else stream_word(self._seed, 0)


STATE = RandomState()
