"""Where elements come from: values in memory, rows of them, numbers, random numbers and Python generators."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gradtape.core.strings import Text
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array
from gradtape.data.elements import ElementStructure, Leaves, bare, flat_values, given, mapped, named_leaves, row_spec
from gradtape.data.streams import INFINITE, UNKNOWN, Stage, Stream, joined_blocks, rows_in
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.tree import Structure

_AHEAD = 256  # rows of a block, where elements are asked for one by one


class RowsStream(Stream):
    """The rows of arrays, one after the other."""

    def __init__(self, arrays: Leaves, count: int) -> None:
        self.arrays, self.count, self.place = arrays, count, 0

    def __next__(self) -> Leaves:
        place = self.place
        if place >= self.count:
            raise StopIteration
        self.place = place + 1
        return tuple([array[place] for array in self.arrays])

    def block(self, count: int) -> Leaves:
        start, stop = self.place, min(self.place + count, self.count)
        if start >= stop:
            raise StopIteration
        self.place = stop
        # (views: a batch of rows that follow each other copies nothing)
        return tuple([array[start:stop] for array in self.arrays])


class BlocksStream(RowsStream):
    """The rows of blocks, which `refill` puts in their place one after the other."""

    def __init__(self) -> None:
        super().__init__((), 0)

    def refill(self, count: int) -> None:
        """The next block, of `count` rows if that can be; StopIteration at the end."""
        raise NotImplementedError

    def __next__(self) -> Leaves:
        if self.place >= self.count:
            self.refill(_AHEAD)
        return super().__next__()

    def let(self, block: Leaves) -> None:
        self.arrays, self.count, self.place = block, rows_in(block), 0

    def block(self, count: int) -> Leaves:
        return joined_blocks(self.collected(count, self._piece, rows_in))

    def _piece(self, count: int) -> Leaves:
        if self.place >= self.count:
            self.refill(count)
        return super().block(count)


class TextRowsStream(RowsStream):
    """Rows of which some are strings, which stay arrays without axes."""

    def __next__(self) -> Leaves:
        return tuple([row if isinstance(row, (np.ndarray, np.generic)) else _text(row) for row in super().__next__()])


def _text(value: Any) -> Any:
    whole = np.empty((), object)
    whole[()] = value
    return whole.view(Text)


class SlicedTensors(Stage):
    """The rows of tensors."""

    def __init__(self, tensors: Structure) -> None:
        who = "Dataset.from_tensor_slices"
        template, self.arrays = given(tensors, "tensors", who)
        if not self.arrays:
            raise ValueError(f"{who}: tensors is empty: a dataset needs at least one tensor")
        self.count = -1
        for (place, _), array in zip(named_leaves(tensors, "tensors"), self.arrays, strict=True):
            if not array.ndim:
                raise InvalidArgumentError(
                    f"{who}: {place} is a scalar and has no rows; use Dataset.from_tensors for one element"
                )
            if self.count not in (-1, array.shape[0]):
                raise InvalidArgumentError(
                    f"{who}: all tensors need the same number of rows; {place} has {array.shape[0]}, the first has {self.count}"
                )
            self.count = array.shape[0]
        self.template = mapped(row_spec, template)
        self.text = any(array.dtype == object for array in self.arrays)

    def element_structure(self) -> ElementStructure:
        return ElementStructure(self.template)

    def open(self) -> Stream:
        return (TextRowsStream if self.text else RowsStream)(self.arrays, self.count)

    def cardinality(self) -> int:
        return self.count

    def rows(self) -> int | None:
        return self.count

    def gather(self, places: Array) -> Leaves:
        return tuple([array.take(places, axis=0) for array in self.arrays])


class OneElement(Stage):
    """The tensors as a single element."""

    def __init__(self, tensors: Structure) -> None:
        self.template, self.leaves = given(tensors, "tensors", "Dataset.from_tensors")

    def element_structure(self) -> ElementStructure:
        return ElementStructure(self.template)

    def open(self) -> Stream:
        return ListedStream([self.leaves])

    def cardinality(self) -> int:
        return 1


class ListedStream(Stream):
    """Elements from a list."""

    def __init__(self, elements: Iterable[Leaves]) -> None:
        self.elements = iter(elements)

    def __next__(self) -> Leaves:
        return next(self.elements)


class Listed(Stage):
    """Elements that are there already, as bare leaves."""

    def __init__(self, elements: list[Leaves], structure: ElementStructure) -> None:
        self.elements, self.known = elements, structure

    def element_structure(self) -> ElementStructure:
        return self.known

    def open(self) -> Stream:
        return ListedStream(self.elements)

    def cardinality(self) -> int:
        return len(self.elements)


class NumbersStream(Stream):
    """Whole numbers in even steps."""

    def __init__(self, numbers: range, dtype: Any) -> None:
        self.numbers, self.dtype, self.place = numbers, dtype, 0

    def __next__(self) -> Leaves:
        place = self.place
        if place >= len(self.numbers):
            raise StopIteration
        self.place = place + 1
        return (self.dtype(self.numbers[place]),)

    def block(self, count: int) -> Leaves:
        numbers = self.numbers[self.place : self.place + count]
        if not numbers:
            raise StopIteration
        self.place += len(numbers)
        return (np.arange(numbers.start, numbers.stop, numbers.step, dtype=self.dtype),)


class WholeNumbers(Stage):
    """`range`, as int64 unless another dtype is asked for."""

    def __init__(self, numbers: range, dtype: np.dtype[Any]) -> None:
        self.numbers, self.dtype = numbers, dtype

    def element_structure(self) -> ElementStructure:
        return ElementStructure(TensorSpec((), self.dtype))

    def open(self) -> Stream:
        return NumbersStream(self.numbers, self.dtype.type)

    def cardinality(self) -> int:
        return len(self.numbers)

    def rows(self) -> int | None:
        return len(self.numbers)

    def gather(self, places: Array) -> Leaves:
        return ((self.numbers.start + places * self.numbers.step).astype(self.dtype),)


class RandomWordsStream(Stream):
    """Random whole numbers without end."""

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator

    def __next__(self) -> Leaves:
        return (self.generator.integers(0, 2**32, dtype=np.int64),)

    def block(self, count: int) -> Leaves:
        return (self.generator.integers(0, 2**32, count, dtype=np.int64),)


class RandomWords(Stage):
    """`Dataset.random`: int64 numbers from [0, 2³²)."""

    rearranges = True

    def __init__(self, generator: Callable[[], np.random.Generator]) -> None:
        self.generator = generator

    def element_structure(self) -> ElementStructure:
        return ElementStructure(TensorSpec((), "int64"))

    def open(self) -> Stream:
        return RandomWordsStream(self.generator())

    def cardinality(self) -> int:
        return INFINITE


class GeneratedStream(Stream):
    """What a generator gives, checked against the declared types."""

    def __init__(self, items: Iterator[Any], structure: ElementStructure) -> None:
        self.items, self.structure, self.count = items, structure, 0
        template = structure.template
        self.flat = type(template) is tuple and all(map(operator.is_, template, structure.specs))

    def __next__(self) -> Leaves:
        item = next(self.items)
        self.count += 1
        template: Any = self.structure.template
        specs = self.structure.specs
        if specs[0] is template:
            return (_fitted(item, template, self),)
        values = item if type(item) is tuple and len(item) == len(specs) and self.flat else list(_like(template, item, self))
        return tuple([_fitted(value, spec, self) for value, spec in zip(values, specs, strict=True)])

    def __str__(self) -> str:  # for messages: what is wrong with the element at hand
        return f"Dataset.from_generator: element {self.count - 1}"

    def close(self) -> None:
        close = getattr(self.items, "close", None)
        if close is not None:
            close()


def _like(template: Any, item: Any, who: object) -> Iterator[Any]:
    """The leaves of an item; a generator may give a list where a tuple is declared."""
    if not isinstance(template, (tuple, dict)):
        yield item
        return
    if isinstance(template, dict):
        if not isinstance(item, dict) or set(item) != set(template):
            raise InvalidArgumentError(f"{who} must have the keys {sorted(template)}, got {item!r}")
        for key in sorted(template):
            yield from _like(template[key], item[key], who)
        return
    if not isinstance(item, (tuple, list)) or len(item) != len(template):
        raise InvalidArgumentError(f"{who} must have the structure {template}, got {item!r}")
    for part, value in zip(template, item, strict=True):
        yield from _like(part, value, who)


def _fitted(value: Any, spec: TensorSpec, who: object) -> Any:
    """A value as an array of the declared dtype and shape."""
    kind = type(value)
    if (kind is np.ndarray or kind in _SCALARS) and value.dtype == spec.dtype.dtype and tuple.__eq__(spec.shape, value.shape):
        # copied if it is the generator's own array, which it may write to before the element is read
        return value.copy() if kind is np.ndarray else value
    if isinstance(value, Tensor):
        leaf = bare(value)
    else:
        try:
            leaf = np.asarray(value) if spec.dtype.name != "string" else bare(value)
            if leaf.dtype.kind not in "OSU":
                cast = leaf.astype(spec.dtype.dtype, copy=leaf is value or leaf.base is not None)
                if leaf.dtype.kind in "fc" and spec.dtype.is_integer:
                    raise TypeError(f"{leaf.dtype} would lose its fraction")
                leaf = cast
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"{who} cannot be converted to the declared dtype {spec.dtype.name}: {value!r} ({error})"
            ) from None
    if leaf.dtype != spec.dtype.dtype:
        raise InvalidArgumentError(f"{who} cannot be converted to the declared dtype {spec.dtype.name}: got dtype {leaf.dtype}")
    if not spec.shape.is_compatible_with(leaf.shape):
        raise InvalidArgumentError(f"{who} has shape {leaf.shape} where shape {spec.shape} was declared")
    return leaf


_SCALARS = frozenset(np.dtype(code).type for code in "?bhilqBHILQefdFD")


class Generated(Stage):
    """`from_generator`: the function is called anew for every pass."""

    def __init__(self, function: Callable[..., Iterable[Any]], args: Structure, template: Structure) -> None:
        self.function, self.template = function, template
        self.args = [bare(arg) for arg in (args if isinstance(args, tuple) else flat_values(args))] if args is not None else []

    def element_structure(self) -> ElementStructure:
        return ElementStructure(self.template)

    def open(self) -> Stream:
        return GeneratedStream(iter(self.function(*self.args)), self.structure)

    def cardinality(self) -> int:
        return UNKNOWN
