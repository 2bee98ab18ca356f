"""A pass through a dataset as users hold it: `iter(dataset)`, `next`, `get_next`, and elements as NumPy arrays.

When it ends, fails or is forgotten, its threads end. A checkpoint keeps where it stands: how many elements were taken, and what
the random order of its pass follows from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import Array
from gradtape.data.elements import ElementStructure, Leaves, NestedStage, given
from gradtape.data.shuffling import seeds_of
from gradtape.data.streams import Stage, Stream
from gradtape.errors import InvalidArgumentError, OutOfRangeError, UnimplementedError
from gradtape.functions.staging.iterables import PulledIterable
from gradtape.ir.types import TensorSpec
from gradtape.tape.python_functions import numpy_function
from gradtape.trace.effects import active
from gradtape.tree import Structure


class OpenPass:
    """A pass that somebody reads: it is closed at its end, when it fails, and when it is forgotten."""

    _stream: Stream | None = None

    def _next_leaves(self) -> Leaves:
        stream = self._stream
        if stream is None:
            raise StopIteration
        try:
            return next(stream)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the pass and its threads."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.close()

    def __del__(self) -> None:
        if self._stream is not None:
            self.close()


class DataIterator(OpenPass, PulledIterable):
    """The elements of a dataset, one after the other.

    >>> import gradtape as gt
    >>> it = iter(gt.data.Dataset.range(2))
    >>> int(next(it)), int(it.get_next()), bool(it.get_next_as_optional().has_value())
    (0, 1, False)
    """

    _INTERNAL = "checkpoint_reset state"

    def __init__(self, stage: Stage, wrap: Callable[[Any], Any]) -> None:
        self._structure, self._wrap = stage.structure, wrap
        self._boxed = self._structure.boxed
        self._stage, self._taken_so_far = stage, 0
        self._starts = [seeds.state for seeds in seeds_of(stage)]
        self._stream = stage.open()

    @property
    def state(self) -> Array:
        """Where the pass stands, as a checkpoint keeps it."""
        return np.array([self._taken_so_far, *(number for start in self._starts for number in start)], np.uint64)

    def checkpoint_reset(self, state: Array) -> None:
        """Go to where another iterator of such a dataset stood: what it had taken is read once more and left out."""
        self.close()
        count, *numbers = (int(number) for number in state)
        self._starts = [(numbers[i], numbers[i + 1], numbers[i + 2]) for i in range(0, len(numbers), 3)]
        for seeds, start in zip(seeds_of(self._stage), self._starts, strict=True):
            seeds.state = start
        self._stream, self._taken_so_far = self._stage.open(), count
        for _ in islice(self._stream, count):
            pass

    def __iter__(self) -> DataIterator:
        return self

    def __next__(self) -> Any:
        leaves = self._next_leaves()
        self._taken_so_far += 1
        return self._boxed(leaves, self._wrap)

    def get_next(self) -> Any:
        """The next element; OutOfRangeError at the end. In a function, each run takes one."""
        if active() is None:
            return self._structure.boxed(self._taken(), self._wrap)
        specs = tensor_specs(self._structure)
        return self._structure.pack(tuple(numpy_function(self._taken, [], specs)))

    def _taken(self) -> Leaves:
        try:
            leaves = self._next_leaves()
        except StopIteration:
            raise OutOfRangeError("End of sequence: the dataset has no more elements") from None
        self._taken_so_far += 1
        return leaves

    def puller(self) -> IteratorPuller:
        """For a `for` statement of a function: each turn takes an element."""
        return IteratorPuller(self)

    def get_next_as_optional(self) -> OptionalElement:
        """The next element, or nothing at the end."""
        for element in self:
            return OptionalElement(element, self._structure)
        return OptionalElement(None, self._structure)

    @property
    def element_spec(self) -> Structure:
        """The type of an element."""
        return self._structure.template


class IteratorPuller:
    """One loop of a program over an iterator that is there already."""

    def __init__(self, iterator: DataIterator) -> None:
        self.iterator, self.current = iterator, list[Leaves]()

    def more(self, going: Any) -> Any:
        """Whether there is another element; it is the current one then."""
        return numpy_function(self._advance, [convert(going)], TensorSpec((), "bool"))

    def item(self) -> Any:
        """The current element."""
        structure = self.iterator._structure
        return structure.pack(tuple(numpy_function(self.current.pop, [], tensor_specs(structure))))

    def _advance(self, going: Any) -> Any:
        if going:
            try:
                self.current.append(self.iterator._taken())
                return np.True_
            except OutOfRangeError:
                pass
        return np.False_


def tensor_specs(structure: ElementStructure) -> list[Any]:
    """The types of the leaves, as a program needs them: tensors of known rank."""
    for spec in structure.specs:
        if not isinstance(spec, TensorSpec) or spec.shape.rank is None:
            raise UnimplementedError(
                f"a dataset that is read in a function needs elements of known rank, got {structure.template}; give "
                "from_generator an output_signature with shapes, or read it outside of the function"
            )
    return list(structure.specs)


class OptionalElement:
    """An element that may not be there, as `get_next_as_optional` gives it.

    >>> import gradtape as gt
    >>> gt.data.Optional.from_value(3).get_value().numpy()
    np.int32(3)
    """

    def __init__(self, element: Any, structure: ElementStructure | None) -> None:
        self._element, self._structure = element, structure

    @staticmethod
    def from_value(value: Any) -> OptionalElement:
        """One that is there."""
        template, leaves = given(value, "value", "Optional.from_value")
        structure = ElementStructure(template)
        return OptionalElement(structure.boxed(leaves, lambda stage: stage), structure)

    @staticmethod
    def empty(element_spec: Structure) -> OptionalElement:
        """One that is not there."""
        return OptionalElement(None, ElementStructure(element_spec))

    def has_value(self, name: str | None = None) -> Tensor:
        """Whether it is there."""
        return box(np.bool_(self._element is not None))

    def get_value(self, name: str | None = None) -> Any:
        """The element; InvalidArgumentError if there is none."""
        if self._element is None:
            raise InvalidArgumentError("Optional has no value: ask has_value() first")
        return self._element

    @property
    def element_spec(self) -> Structure:
        """The type of the element."""
        return None if self._structure is None else self._structure.template


class NumpyIterator(OpenPass):
    """As `DataIterator`, elements in NumPy's arrays and scalars."""

    def __init__(self, stage: Stage) -> None:
        self._structure = stage.structure
        self._stream = stage.open()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._structure.pack(_arrays(self._next_leaves()))


def _arrays(leaves: Leaves) -> Leaves:
    """Arrays that are the user's own: what the pipeline holds must not change with them."""
    return tuple([_plain(leaf) for leaf in leaves])


def _plain(leaf: Any) -> Any:
    if isinstance(leaf, NestedStage):
        assert isinstance(leaf, Stage)
        return NumpyIterator(leaf)
    if leaf.dtype == object:
        return np.asarray(leaf, object) if leaf.ndim else leaf[()]
    return leaf[()] if not leaf.ndim else leaf.copy() if leaf.base is not None else leaf
