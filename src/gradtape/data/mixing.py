"""Elements of several datasets in one: flat_map, interleave, choose_from_datasets, sample_from_datasets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.data.elements import ElementStructure, Leaves, common
from gradtape.data.mapping import ElementFunction, first_structure
from gradtape.data.streams import INFINITE, UNKNOWN, Stage, Step, StepStream, Stream
from gradtape.errors import InvalidArgumentError


class DatasetFunction(ElementFunction):
    """A user's function that gives a dataset for each element; it runs in Python, as datasets are no tensors."""

    def _trace(self, ranks_known: bool) -> None:
        self.traced, self.random = False, True

    def stages(self) -> Callable[[int, Leaves], Stage]:
        run = self.runner(self.streams())

        def stage(number: int, leaves: Leaves) -> Stage:
            dataset = run(number, leaves)
            inner = getattr(dataset, "_stage", None)
            if not isinstance(inner, Stage):
                raise TypeError(f"{self.where()}: the function must give a Dataset, got {dataset!r}")
            return inner

        return stage


class InterleavedStream(StepStream):
    """So many datasets at a time, some elements from each in turn."""

    def __init__(self, source: Stream, stage: Interleaved) -> None:
        super().__init__(source)
        self.stages, self.block_length = stage.function.stages(), stage.block_length
        self.open_streams: list[Stream | None] = [None] * stage.cycle_length
        self.turn, self.left, self.number, self.ended = 0, stage.block_length, 0, False

    def __next__(self) -> Leaves:
        empty = 0  # places of the cycle that were found without a dataset since the last element
        while empty <= len(self.open_streams):
            stream = self.open_streams[self.turn]
            if stream is None and not self.ended:
                element = next(self.source, None)
                if element is None:
                    self.ended = True
                else:
                    stream = self.open_streams[self.turn] = self.stages(self.number, element).open()
                    self.number += 1
                    self.left = self.block_length
            if stream is None:
                empty += 1
                self._next_turn()
                continue
            if self.left:
                try:
                    result = next(stream)
                except StopIteration:
                    stream.close()
                    self.open_streams[self.turn] = None
                    self._next_turn()
                    empty = 0
                    continue
                self.left -= 1
                return result
            self._next_turn()
        raise StopIteration

    def _next_turn(self) -> None:
        self.turn = (self.turn + 1) % len(self.open_streams)
        self.left = self.block_length

    def close(self) -> None:
        for stream in self.open_streams:
            if stream is not None:
                stream.close()
        self.open_streams = [None] * len(self.open_streams)
        self.ended = True
        super().close()


class Interleaved(Step):
    """The elements of the datasets that a function gives; with a cycle of one, `flat_map`."""

    def __init__(self, source: Stage, function: DatasetFunction, cycle_length: int, block_length: int) -> None:
        super().__init__(source)
        self.function, self.cycle_length, self.block_length = function, cycle_length, block_length

    def element_structure(self) -> ElementStructure:
        stage: Stage = first_structure(self.source, self.function.stages(), self.function.where())
        return stage.structure

    def open(self) -> Stream:
        return InterleavedStream(self.source.open(), self)

    def cardinality(self) -> int:
        return 0 if self.source.cardinality() == 0 else UNKNOWN


class ChosenStream(Stream):
    """Each element from the dataset that a stream of numbers names."""

    def __init__(self, choices: Stream, sources: Sequence[Stream], stop_on_empty: bool) -> None:
        self.choices, self.sources, self.stop = choices, list[Stream | None](sources), stop_on_empty

    def __next__(self) -> Leaves:
        for (choice,) in self.choices:
            place = int(choice)
            if not 0 <= place < len(self.sources):
                raise InvalidArgumentError(
                    f"choose_from_datasets: choice_dataset gives {place}, there are datasets 0 to {len(self.sources) - 1}"
                )
            source = self.sources[place]
            if source is None:
                continue
            try:
                return next(source)
            except StopIteration:
                source.close()
                self.sources[place] = None
                if self.stop or not any(self.sources):
                    break
        raise StopIteration

    def close(self) -> None:
        self.choices.close()
        for source in self.sources:
            if source is not None:
                source.close()


class Chosen(Stage):
    """`choose_from_datasets`, and with choices drawn at random `sample_from_datasets`."""

    rearranges = True

    def __init__(self, choices: Stage, stages: Sequence[Stage], stop_on_empty: bool, who: str) -> None:
        self.choices, self.parents, self.stop, self.who = choices, tuple(stages), stop_on_empty, who

    def unseen(self) -> bool:
        return self.choices.unseen() and super().unseen()

    def element_structure(self) -> ElementStructure:
        structure = self.parents[0].structure
        for stage in self.parents[1:]:
            structure = common(structure, stage.structure, self.who)
        return structure

    def open(self) -> Stream:
        return ChosenStream(self.choices.open(), [stage.open() for stage in self.parents], self.stop)

    def cardinality(self) -> int:
        sizes = [stage.cardinality() for stage in self.parents]
        if self.choices.cardinality() == INFINITE and not self.stop and all(size >= 0 for size in sizes):
            return sum(sizes)
        return INFINITE if all(size == INFINITE for size in (*sizes, self.choices.cardinality())) else UNKNOWN


class DrawnStream(Stream):
    """Numbers drawn with given weights, without end."""

    def __init__(self, weights: np.ndarray[Any, Any], generator: np.random.Generator) -> None:
        self.weights, self.generator = weights, generator
        self.drawn: list[int] = []

    def __next__(self) -> Leaves:
        if not self.drawn:
            self.drawn = self.generator.choice(len(self.weights), 1024, p=self.weights).tolist()
        return (self.drawn.pop(),)


class Drawn(Stage):
    """Which dataset the next element comes from, by weights."""

    rearranges = True

    def __init__(self, weights: np.ndarray[Any, Any], generator: Callable[[], np.random.Generator]) -> None:
        self.weights, self.generator = weights / weights.sum(), generator

    def open(self) -> Stream:
        return DrawnStream(self.weights, self.generator())

    def cardinality(self) -> int:
        return INFINITE
