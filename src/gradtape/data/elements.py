"""What one element of a dataset is: tuples, named tuples and dicts around leaves, each a tensor or a dataset.

A pipeline passes elements as flat tuples of bare arrays; tensors are made where a user sees them. Lists are no structure, they
are packed into tensors, as TensorFlow has it. Nothing here runs a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from gradtape import tree
from gradtape.core.dispatch import convert
from gradtape.core.hooks import HOOKS
from gradtape.core.strings import Text
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.dtypes import as_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorShape, TensorSpec
from gradtape.tree import Structure

Leaves: TypeAlias = tuple[Any, ...]  # arrays, NumPy scalars, or stages of nested datasets


class NestedStage:
    """What a leaf is that is a dataset itself; `structure` is that of its elements."""

    structure: ElementStructure


class DatasetSpec:
    """The type of a leaf that is a dataset: the type of its elements.

    >>> import gradtape as gt
    >>> gt.data.Dataset.range(4).window(2).element_spec
    DatasetSpec(TensorSpec(shape=(), dtype=gt.int64, name=None))
    """

    def __init__(self, element_spec: Structure, dataset_shape: object = ()) -> None:
        self.element_spec = element_spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DatasetSpec) and self.element_spec == other.element_spec

    def __hash__(self) -> int:
        return hash((DatasetSpec, *tree.flatten(self.element_spec)))

    def __repr__(self) -> str:
        return f"DatasetSpec({self.element_spec!r})"


class ElementStructure:
    """A nested template whose leaves are specs: takes elements apart and puts them together."""

    __slots__ = ("_container", "specs", "template")

    def __init__(self, template: Structure) -> None:
        self.template = template
        self.specs = tuple(flat_values(template))
        # the usual structures have a short way
        plain = type(template) is tuple and not any(map(_opens, template))
        self._container = "leaf" if not _opens(template) else "tuple" if plain else "nested"

    @property
    def is_tuple(self) -> bool:
        """Whether functions get the parts of an element one by one."""
        return isinstance(self.template, tuple) and _opens(self.template)

    def pack(self, leaves: Leaves) -> Any:
        """Values arranged as an element."""
        if self._container == "leaf":
            return leaves[0]
        if self._container == "tuple":
            return tuple(leaves)
        return _rebuilt(self.template, iter(leaves))

    def boxed(self, leaves: Leaves, wrap: Callable[[Any], Any]) -> Any:
        """An element as users see it: tensors, and datasets made by `wrap`."""
        if self._container == "leaf":
            leaf = leaves[0]
            return wrap(leaf) if isinstance(leaf, NestedStage) else box(leaf, HOOKS.array_kind)
        shown = [wrap(leaf) if isinstance(leaf, NestedStage) else box(leaf, HOOKS.array_kind) for leaf in leaves]
        return tuple(shown) if self._container == "tuple" else _rebuilt(self.template, iter(shown))

    def arguments(self, leaves: Leaves, wrap: Callable[[Any], Any]) -> tuple[Any, ...]:
        """What a function of an element is called with: the parts of a tuple, or the element."""
        element = self.boxed(leaves, wrap)
        return tuple(element) if self.is_tuple else (element,)

    def flat(self, element: Structure, who: str) -> Leaves:
        """An element of this structure as bare leaves; another structure is refused."""
        if self._container == "leaf" and element.__class__ is Tensor:
            return (element._data,)
        parts = list(flat_values(element))
        if len(parts) != len(self.specs) or not _alike(self.template, element):
            raise InvalidArgumentError(f"{who}: every element must have the structure {self.template}, got {element!r}")
        return tuple(bare(part) for part in parts)


def _opens(value: object) -> bool:
    return isinstance(value, (tuple, Mapping)) and not isinstance(value, tree.LeafTuple)


def _parts(container: Any) -> list[Any]:
    return tree.children(container)


def flat_values(value: Structure) -> Iterator[Any]:
    """The leaves of a structure of tuples and dicts; lists are leaves."""
    if not _opens(value):
        yield value
        return
    for part in _parts(value):
        yield from flat_values(part)


def _rebuilt(template: Any, feed: Iterator[Any]) -> Any:
    if not _opens(template):
        return next(feed)
    if isinstance(template, Mapping):
        inner = {key: _rebuilt(part, feed) for key, part in zip(_keys(template), _parts(template), strict=True)}
        ordered = {key: inner[key] for key in template}
        return ordered if type(template) is dict else type(template)(ordered)  # type: ignore[call-arg]
    parts = [_rebuilt(part, feed) for part in template]
    return tuple(parts) if type(template) is tuple else type(template)(*parts)


def _keys(mapping: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError:
        return list(mapping)


def mapped(function: Callable[[Any], Any], template: Structure) -> Any:
    """A template with each leaf replaced."""
    return _rebuilt(template, iter([function(leaf) for leaf in flat_values(template)]))


def _alike(template: Any, element: Any) -> bool:
    """Whether an element opens where its template does, with the same keys."""
    if not _opens(template):
        return True
    if not _opens(element) or isinstance(template, Mapping) != isinstance(element, Mapping) or len(template) != len(element):
        return False
    if isinstance(template, Mapping) and set(template) != set(element):
        return False
    return all(_alike(a, b) for a, b in zip(_parts(template), _parts(element), strict=True))


def bare(value: Any) -> Any:
    """A leaf as the pipeline passes it."""
    if value.__class__ is Tensor:
        return value._data
    stage = getattr(value, "_stage", None)
    if isinstance(stage, NestedStage):
        return stage
    if isinstance(value, NestedStage):
        return value
    return convert(value)._data


def given(structure: Structure, argument: str, who: str) -> tuple[Any, Leaves]:
    """(template of specs, bare leaves) of values that a user gave; what cannot be a tensor is named."""
    leaves = []
    for place, value in named_leaves(structure, argument):
        try:
            if isinstance(value, list) and len({isinstance(part, (str, bytes)) for part in tree.flatten(value)}) > 1:
                raise ValueError("strings and numbers in one list")
            leaf = bare(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{who}: {place} cannot be made a tensor: {error}") from None
        if isinstance(value, (Tensor, Readable)) and convert(value).wraps:
            raise InvalidArgumentError(
                f"{who}: {place} is a tensor of a function that is being traced; a dataset holds values: make it outside of "
                "the function and loop over it inside"
            )
        leaves.append(leaf)
    return _rebuilt(structure, iter([spec_of(leaf) for leaf in leaves])), tuple(leaves)


def named_leaves(structure: Structure, name: str) -> Iterator[tuple[str, Any]]:
    """The leaves of a structure, each with the expression that names it."""
    if not _opens(structure):
        yield name, structure
    elif isinstance(structure, Mapping):
        for key in _keys(structure):
            yield from named_leaves(structure[key], f"{name}[{key!r}]")
    else:
        for i, part in enumerate(_parts(structure)):
            yield from named_leaves(part, f"{name}[{i}]")


def spec_of(leaf: Any) -> Any:
    """The type of a bare leaf."""
    if isinstance(leaf, NestedStage):
        return DatasetSpec(leaf.structure.template)
    return TensorSpec(leaf.shape, leaf.dtype)


def row_spec(spec: Any) -> Any:
    """The type of a row."""
    return spec if spec.shape.rank is None else TensorSpec(tuple(spec.shape)[1:], spec.dtype)


def rows_spec(spec: Any, count: int | None) -> Any:
    """The type of `count` rows together; None if that is not known."""
    if isinstance(spec, DatasetSpec):
        raise TypeError("datasets inside elements cannot be batched: flat_map the windows to batches first")
    return TensorSpec(None if spec.shape.rank is None else (count, *tuple(spec.shape)), spec.dtype)


def common_spec(a: Any, b: Any, who: str) -> Any:
    """The type that covers both: sizes that differ are unknown."""
    if isinstance(a, DatasetSpec) or isinstance(b, DatasetSpec):
        if a == b:
            return a
        raise TypeError(f"{who}: the datasets have elements of different types, {a} and {b}")
    if a.dtype != b.dtype:
        raise TypeError(f"{who}: the datasets have elements of different dtypes, {a.dtype.name} and {b.dtype.name}")
    if a.shape.rank is None or b.shape.rank is None or a.shape.rank != b.shape.rank:
        return TensorSpec(None, a.dtype)
    return TensorSpec([m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)], a.dtype)


def common(a: ElementStructure, b: ElementStructure, who: str) -> ElementStructure:
    """The structure of elements that come from either."""
    if not _alike(a.template, b.template) or len(a.specs) != len(b.specs):
        raise TypeError(f"{who}: the datasets have elements of different structures, {a.template} and {b.template}")
    specs = [common_spec(m, n, who) for m, n in zip(a.specs, b.specs, strict=True)]
    return ElementStructure(_rebuilt(a.template, iter(specs)))


def of_types(types: Structure, shapes: Structure | None) -> Any:
    """A template from `output_types` and `output_shapes`, as `from_generator` takes them."""
    dtypes = list(flat_values(types))
    if shapes is None:
        sizes: list[Any] = [None] * len(dtypes)
    elif len(dtypes) == 1:
        sizes = [shapes]
    else:
        sizes = list(shape_parts(types, shapes))
    return _rebuilt(types, iter([TensorSpec(_shape(size), as_dtype(dtype)) for dtype, size in zip(dtypes, sizes, strict=True)]))


def shape_parts(types: Any, shapes: Any) -> Iterator[Any]:
    """The shapes in a structure of them: tuples themselves, so how deep the structure goes, the types say."""
    if not _opens(types):
        yield shapes
        return
    for part, shape in zip(_parts(types), _parts(shapes) if _opens(shapes) else list(shapes), strict=True):
        yield from shape_parts(part, shape)


def _shape(size: Any) -> Any:
    return size if size is None or isinstance(size, TensorShape) else TensorShape(size)


def stacked(column: list[Any], who: str, component: int) -> Any:
    """Leaves of one component as the rows of one array."""
    first = column[0]
    if isinstance(first, NestedStage):
        raise TypeError(f"{who}: datasets inside elements cannot be batched: flat_map the windows to batches first")
    if first.dtype == object:
        whole = np.empty((len(column), *first.shape), object)
        for i, row in enumerate(column):
            whole[i] = row[()] if not row.ndim else row
        return whole.view(Text)
    try:
        return np.stack(column) if first.ndim else np.array(column, first.dtype)
    except ValueError:
        row = next(i for i, leaf in enumerate(column) if leaf.shape != first.shape)
        raise InvalidArgumentError(
            f"{who}: elements of one batch must have one shape; in component {component} the first has shape {first.shape}, "
            f"element {row} has {column[row].shape}. Use padded_batch, or reshape them in a map"
        ) from None
