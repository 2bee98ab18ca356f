"""The global random state: where fresh keys come from. One object, one lock.

A stream is a word derived from the global seed (and the op's own seed, if it has one); its keys are (stream word, counter).
Keys therefore never repeat within a stream, whatever thread asks, and `reset` starts every stream again.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from gradtape.core.arguments import whole
from gradtape.core.dispatch import apply
from gradtape.core.hooks import HOOKS
from gradtape.core.record import TRACING, current_scope
from gradtape.dtypes import int8
from gradtape.ops.staged import DRAW_KEY, FILLED, nullary

_DEFAULT_SEED = 87654321  # used with an op seed when no global seed was set, so that the op seed alone is reproducible


def entropy_word() -> int:
    """A 64-bit word from the operating system."""
    return int.from_bytes(os.urandom(8), "little")


def stream_word(*seeds: int) -> int:
    """A 64-bit word from any integers; different integers give unrelated words."""
    # all of one length, and the number of them: SeedSequence itself cannot tell (1,) from (1, 0)
    words = [len(seeds), *(half for s in seeds for half in (s & 0xFFFFFFFF, s >> 32 & 0xFFFFFFFF))]
    return int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])


Source = Callable[[int], tuple[int, int]]  # reserves so many counters of a stream: (stream word, first counter)
# the trace of one example of a `vectorized_map`, and the tensor that stands in it for which example it is
EXAMPLE: ContextVar[tuple[Any, Any]] = ContextVar("gradtape_random_example", default=(None, None))


def of_example() -> bool:
    """Whether what is traced now is one example of a `vectorized_map`."""
    trace = EXAMPLE.get()[0]
    return trace is not None and trace is TRACING.get()


def next_key(source: Source) -> Any:
    """The key tensor of one draw; inside `vectorized_map` a key of its own for every example."""
    examples = example_tensor()
    key = nullary(DRAW_KEY, source=source) if examples is None else apply(DRAW_KEY, examples, source=source)
    if HOOKS.array_kind is not None and not key.wraps:
        key._node = HOOKS.array_kind  # of several ranks, each draws what it draws
    return key


def example_tensor(count: int | None = None) -> Any:
    """A tensor that differs between the examples of every `vectorized_map` around, or None outside of all; with `count`
    elements for as many more. Only what it depends on matters: all its elements are 0."""
    batches = current_scope().batches
    counts = [examples.count for examples in batches if examples is not None]
    if 0 in counts:  # nobody sees the numbers of no example
        counts, batches = [], ()
    shape = (*counts, *(() if count is None else (count,)))
    example = EXAMPLE.get()[1] if of_example() else None
    if not shape:
        return example
    tensor = nullary(FILLED, shape=shape, dtype=int8, value=0)
    if example is not None:
        tensor = tensor + example
    for level, examples in enumerate(batches, 1):
        if examples is not None:
            tensor = examples.hide(tensor, level)
    return tensor


@dataclass(frozen=True)
class KeyStream:
    """Takes counters from the stream of an op seed; two that do the same are equal, so draws in a loop look alike."""

    state: RandomState
    op_seed: int | None

    def __call__(self, count: int) -> tuple[int, int]:
        return (ELEMENT.get() or self.state).take(self.op_seed, count)


class RandomState:
    """The streams of the process; thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._seed: int | None = None
        self.replica = 0  # of several that run one program: each has streams of its own
        self._common: int | None = None  # what several processes that set no seed draw from
        # (op seed (None: none), replica) → [stream word, next counter]
        self._streams: dict[tuple[int | None, int], list[int]] = {}

    def reset(self, seed: int) -> None:
        """Set the global seed and start all streams again."""
        with self._lock:
            self._seed = seed
            self._streams.clear()

    def share(self, word: int) -> None:
        """From now on, while no seed is set, draw what other processes with the same word draw."""
        with self._lock:
            self._common = word
            self._streams.clear()

    def key(self, op_seed: int | None = None) -> Any:
        """A key nobody got before from the stream of this op seed."""
        return next_key(KeyStream(self, None if op_seed is None else whole(op_seed, "seed", "random")))

    def take(self, op_seed: int | None, count: int) -> tuple[int, int]:
        """So many counters of a stream: (its word, the first of them)."""
        with self._lock:
            stream = self._streams.get((op_seed, self.replica))
            if stream is None:
                stream = self._streams[op_seed, self.replica] = [self.word(op_seed), 0]
            counter = stream[1]
            stream[1] = counter + count
        return stream[0], counter

    def word(self, op_seed: int | None) -> int:
        """The word of a stream."""
        replica = (self.replica,) if self.replica else ()
        if op_seed is not None:
            return stream_word(_DEFAULT_SEED if self._seed is None else self._seed, 1, int(op_seed), *replica)
        seed = self._common if self._seed is None else self._seed
        return entropy_word() if seed is None else stream_word(seed, 0, *replica)


class ElementKeys:
    """What is drawn for one element of a pass through a dataset: its counters, in the streams of the pass."""

    def __init__(self, word: Callable[[int | None], int], number: int) -> None:
        self.word, self.first, self.taken = word, number << _DRAWS, dict[int | None, int]()

    def take(self, op_seed: int | None, count: int) -> tuple[int, int]:
        """As `RandomState.take`."""
        taken = self.taken.get(op_seed, 0)
        self.taken[op_seed] = taken + count
        return self.word(op_seed), self.first + taken


_DRAWS = 32  # bits of a counter for the draws of one element


def pass_streams(seed: int) -> Callable[[int | None], int]:
    """The words of the streams of one pass."""
    state = RandomState()
    state.reset(seed)
    return functools.cache(state.word)


def keys_of_elements(word: Callable[[int | None], int], op_seeds: Sequence[int | None], first: int, count: int) -> Any:
    """The keys of `count` elements of a pass that draw once from each of these streams, stream by stream."""
    keys = np.empty((len(op_seeds), count, 2), np.uint64)
    numbers = np.arange(first, first + count, dtype=np.uint64) << np.uint64(_DRAWS)
    for i, op_seed in enumerate(op_seeds):
        keys[i, :, 0] = word(op_seed)
        keys[i, :, 1] = numbers + np.uint64(op_seeds[:i].count(op_seed))
    return keys


STATE = RandomState()
# the state that draws of this context come from in place of STATE: what is drawn for an element of a dataset does not depend on
# which thread comes to it first
ELEMENT: ContextVar[ElementKeys | None] = ContextVar("gradtape_random_element", default=None)
