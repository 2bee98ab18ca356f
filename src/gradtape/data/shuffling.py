"""Random order: `shuffle` with a buffer, and the generators that the random stages draw from.

Elements leave a buffer of fixed size in random order, each replaced by the next one of the source. Where elements can be had by
their numbers, the buffer holds numbers and blocks are gathered. Given a seed, the order of each pass is always the same; passes
after the first have orders of their own unless that is turned off.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from threading import Lock

import numpy as np

from gradtape.core.typing import Array
from gradtape.data.elements import Leaves
from gradtape.data.sources import BlocksStream
from gradtape.data.streams import Stage, Step, StepStream, Stream
from gradtape.ops.random_state import STATE, stream_word

_AHEAD = 4096  # random numbers drawn at once


class Seeds:
    """Generators for the passes of one stage: with a seed always the same sequence of them; without one, from the global
    random state, when the stage is made."""

    def __init__(self, seed: int | None, every_pass: bool) -> None:
        self.word, self.counter = STATE.take(None, 1) if seed is None else (STATE.word(seed), 0)
        self.every_pass = every_pass
        self.passes, self.lock = 0, Lock()

    def seed(self) -> int:
        """That of the next pass."""
        with self.lock:
            number = self.passes
            self.passes += self.every_pass
        return stream_word(self.word, self.counter, number)

    @property
    def state(self) -> tuple[int, int, int]:
        """What the seeds of the passes to come follow from."""
        return self.word, self.counter, self.passes

    @state.setter
    def state(self, numbers: tuple[int, int, int]) -> None:
        self.word, self.counter, self.passes = numbers

    def __call__(self) -> np.random.Generator:
        return np.random.Generator(np.random.PCG64(self.seed()))


def seeds_of(stage: Stage) -> list[Seeds]:
    """Those of a stage, of its functions and of all that lead to it, in an order that follows from the pipeline alone."""
    parts = list(vars(stage).values())
    own = [getattr(part, "seeds", part) for part in parts]
    before = [*stage.parents, *[part for part in parts if isinstance(part, Stage) and part not in stage.parents]]
    return [part for part in own if isinstance(part, Seeds)] + [seeds for each in before for seeds in seeds_of(each)]


def _choices(generator: np.random.Generator, size: int) -> Iterator[int]:
    """Random places in a buffer of this size, drawn many at once."""
    while True:
        yield from generator.integers(0, size, _AHEAD).tolist()


class BufferedShuffleStream(StepStream):
    """Elements from a buffer of elements."""

    def __init__(self, source: Stream, size: int, generator: np.random.Generator) -> None:
        super().__init__(source)
        self.size, self.generator = size, generator
        self.buffer: list[Leaves] = []
        self.places = _choices(generator, size)
        self.filled = False

    def __next__(self) -> Leaves:
        if not self.filled:
            self.buffer, self.filled = list(itertools.islice(self.source, self.size)), True
        buffer = self.buffer
        # while the buffer is full, places are drawn many at once: one call of the generator for each would be most of the time
        if len(buffer) == self.size:
            place = next(self.places)
            element = buffer[place]
            try:
                buffer[place] = next(self.source)
            except StopIteration:
                buffer[place] = buffer[-1]
                buffer.pop()
            return element
        if not buffer:
            raise StopIteration
        place = int(self.generator.integers(0, len(buffer)))
        element, buffer[place] = buffer[place], buffer[-1]
        buffer.pop()
        return element

    def close(self) -> None:
        self.buffer = []
        super().close()


def _order(count: int, size: int, generator: np.random.Generator) -> Iterator[Array]:
    """The numbers below `count` in the order in which they leave a buffer of this size, in pieces."""
    # (the whole in the buffer: what leaves it is a random permutation)
    if size >= count:
        yield generator.permutation(count)
        return
    buffer = list(range(size))
    for start in range(size, count, _AHEAD):
        stop = min(start + _AHEAD, count)
        piece = []
        for number, place in zip(range(start, stop), generator.integers(0, size, stop - start).tolist(), strict=True):
            piece.append(buffer[place])
            buffer[place] = number
        yield np.array(piece, np.int64)
    # when nothing comes any more, what is left leaves in random order
    yield generator.permutation(np.array(buffer, np.int64))


class GatheredShuffleStream(BlocksStream):
    """Rows in random order."""

    def __init__(self, stage: Stage, order: Iterator[Array]) -> None:
        super().__init__()
        self.stage, self.order = stage, order
        self.piece = np.zeros(0, np.int64)

    def refill(self, count: int) -> None:
        while len(self.piece) < count:
            more = next(self.order, None)
            if more is None:
                break
            self.piece = np.concatenate([self.piece, more]) if len(self.piece) else more
        if not len(self.piece):
            raise StopIteration
        places, self.piece = self.piece[:count], self.piece[count:]
        self.let(self.stage.gather(places))


class Shuffled(Step):
    """Elements in random order."""

    rearranges = True

    def __init__(self, source: Stage, size: int, generator: Callable[[], np.random.Generator]) -> None:
        super().__init__(source)
        self.size, self.generator = size, generator

    def open(self) -> Stream:
        count = self.source.rows()
        if count is None or any(spec.dtype.name == "string" for spec in self.source.structure.specs):
            return BufferedShuffleStream(self.source.open(), self.size, self.generator())
        return GatheredShuffleStream(self.source, _order(count, self.size, self.generator()))
