"""`Dataset`: what feeds a training loop, with the names and the behaviour of TensorFlow's `tf.data`.

Each method gives a new dataset around one more stage; nothing runs until somebody iterates. The stages are in the files beside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gradtape.core.arguments import whole
from gradtape.core.dispatch import convert
from gradtape.core.hinting import Hinting
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import DTypeLike, Integer, TensorLike
from gradtape.data.batches import Batched, PaddedBatch, Unbatched, Window
from gradtape.data.channels import AUTOTUNE, Prefetched
from gradtape.data.data_iterators import DataIterator, NumpyIterator
from gradtape.data.elements import DatasetSpec, ElementStructure, bare, flat_values, mapped, of_types, shape_parts
from gradtape.data.file_cache import FileCached
from gradtape.data.mapping import ElementFunction, Filtered, MapStage, Scanned, folded
from gradtape.data.mixing import Chosen, DatasetFunction, Drawn, Interleaved
from gradtape.data.options import DatasetOptions
from gradtape.data.pulling import LoopSource
from gradtape.data.selecting import Cached, Chained, Counted, Repeated, Shard, Skipped, Taken, Zipped
from gradtape.data.shuffling import Seeds, Shuffled
from gradtape.data.sources import Generated, OneElement, RandomWords, SlicedTensors, WholeNumbers
from gradtape.data.streams import INFINITE, UNKNOWN, Stage
from gradtape.dtypes import numpy_dtype
from gradtape.errors import InvalidArgumentError, UnimplementedError
from gradtape.functions.staging.iterables import PulledIterable, Puller
from gradtape.ir.types import TensorShape, TensorSpec
from gradtape.trace.effects import active
from gradtape.tree import Structure

Function = Callable[..., Any]


def _count(value: Integer | None, argument: str, method: str, least: int | None = None) -> int:
    return whole(value, argument, f"Dataset.{method}", least)  # type: ignore[arg-type]


class Dataset(PulledIterable, Hinting):
    """A sequence of elements: tensors in tuples and dicts, made when they are asked for.

    >>> import gradtape as gt
    >>> ds = gt.data.Dataset.from_tensor_slices([1, 2, 3, 4, 5]).map(lambda x: x * x).batch(2)
    >>> [x.numpy().tolist() for x in ds]
    [[1, 4], [9, 16], [25]]
    """

    _ELSEWHERE: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("head", "limit", "first"), "use take(n)"), "split": "use take(n) and skip(n)", "drop": "use skip(n)",
        **dict.fromkeys(("to_list", "tolist", "numpy"), "use list(dataset.as_numpy_iterator())"),
        **dict.fromkeys(("shape", "dtype"), "use element_spec"), "size": "use len(dataset) or cardinality()",
        **dict.fromkeys(("ragged_batch", "bucket_by_sequence_length"), "tensors are not ragged; use padded_batch"),
        **dict.fromkeys(("save", "load"), "use cache(filename), or NumPy's files and from_tensor_slices"),
    }  # fmt: skip
    _INTERNAL = "get_next"  # of iterators

    def __init__(self, stage: Stage, options: DatasetOptions | None = None) -> None:
        if not isinstance(stage, Stage):
            raise TypeError("Dataset is made by its methods: Dataset.from_tensor_slices, Dataset.range, …")
        self._stage = stage
        self._options = options if options is not None else DatasetOptions()

    def _then(self, stage: Stage) -> Dataset:
        return Dataset(stage, self._options)

    # -- where elements come from --------------------------------------------------------------------------------------

    @staticmethod
    def from_tensor_slices(tensors: Structure, name: str | None = None) -> Dataset:
        """One element for each row of the tensors.

        >>> import gradtape as gt
        >>> ds = gt.data.Dataset.from_tensor_slices({"x": [[1, 2], [3, 4]], "y": [0, 1]})
        >>> [(e["x"].numpy().tolist(), int(e["y"])) for e in ds]
        [([1, 2], 0), ([3, 4], 1)]
        """
        return Dataset(SlicedTensors(tensors))

    @staticmethod
    def from_tensors(tensors: Structure, name: str | None = None) -> Dataset:
        """The tensors as a single element."""
        return Dataset(OneElement(tensors))

    @staticmethod
    def from_generator(
        generator: Callable[..., Iterable[Any]], output_types: Structure | None = None, output_shapes: Structure | None = None,
        args: Structure | None = None, output_signature: Structure | None = None, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """What a Python generator function gives; it is called again for each pass.

        >>> import gradtape as gt
        >>> def count(stop):
        ...     yield from range(stop)
        >>> ds = gt.data.Dataset.from_generator(count, args=(3,), output_signature=gt.TensorSpec((), gt.int64))
        >>> [int(x) for x in ds]
        [0, 1, 2]
        """
        if not callable(generator):
            raise TypeError(f"Dataset.from_generator: generator must be a function that gives an iterable, got {generator!r}")
        if (output_types is None) == (output_signature is None):
            raise TypeError("Dataset.from_generator: give output_signature, or output_types (and output_shapes), not both")
        if output_signature is not None and output_shapes is not None:
            raise TypeError("Dataset.from_generator: output_shapes belongs to output_types; output_signature has the shapes")
        if output_signature is None:
            template = of_types(output_types, output_shapes)
        else:
            template = output_signature
            for spec in flat_values(template):
                if not isinstance(spec, TensorSpec):
                    raise TypeError(f"Dataset.from_generator: output_signature must hold gt.TensorSpec, got {spec!r}")
        return Dataset(Generated(generator, args, template))

    @staticmethod
    def range(*args: Integer, output_type: DTypeLike = "int64", name: str | None = None) -> Dataset:
        """The numbers of Python's `range`, as int64."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Dataset.range takes stop, or start and stop, or start, stop and step; got {len(args)} arguments")
        names = ("stop",) if len(args) == 1 else ("start", "stop", "step")
        numbers = [_count(value, argument, "range") for value, argument in zip(args, names, strict=False)]
        if len(numbers) == 3 and numbers[2] == 0:
            raise InvalidArgumentError("Dataset.range: step must not be zero")
        return Dataset(WholeNumbers(range(*numbers), numpy_dtype(output_type)))

    @staticmethod
    def random(seed: int | None = None, rerandomize_each_iteration: bool | None = None, name: str | None = None) -> Dataset:
        """Random int64 numbers from [0, 2³²), without end."""
        return Dataset(RandomWords(Seeds(seed, bool(rerandomize_each_iteration))))

    @staticmethod
    def zip(*args: Structure, datasets: Structure | None = None, name: str | None = None) -> Dataset:
        """Corresponding elements of several datasets, in the structure in which these are given; as long as the shortest."""
        if datasets is not None and args:
            raise TypeError("Dataset.zip: give the datasets as arguments or as `datasets`, not both")
        structure: Any = datasets if datasets is not None else args[0] if len(args) == 1 else args
        parts = list(flat_values(structure))
        if isinstance(structure, list):
            raise TypeError("Dataset.zip: datasets must be in a tuple or dict, got a list; lists are no structure of elements")
        for part in parts:
            if not isinstance(part, Dataset):
                raise TypeError(f"Dataset.zip: {part!r} is no dataset")

        def packed(templates: list[Any]) -> Any:
            feed = iter(templates)
            return mapped(lambda _: next(feed), structure)

        return Dataset(Zipped([part._stage for part in parts], packed))

    @staticmethod
    def choose_from_datasets(
        datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = True
    ) -> Dataset:
        """Each element from the dataset whose number `choice_dataset` gives."""
        spec = choice_dataset.element_spec
        if not isinstance(spec, TensorSpec) or spec.dtype.name != "int64" or spec.shape.rank != 0:
            raise TypeError(f"choose_from_datasets: choice_dataset must have scalar int64 elements, it has {spec}")
        if not datasets:
            raise ValueError("choose_from_datasets: datasets is empty")
        stages = [dataset._stage for dataset in datasets]
        return Dataset(Chosen(choice_dataset._stage, stages, stop_on_empty_dataset, "choose_from_datasets"))

    @staticmethod
    def sample_from_datasets(
        datasets: Sequence[Dataset], weights: TensorLike | None = None, seed: int | None = None,
        stop_on_empty_dataset: bool = False, rerandomize_each_iteration: bool | None = None,
    ) -> Dataset:  # fmt: skip
        """Each element from a dataset drawn at random, by weights."""
        if not datasets:
            raise ValueError("sample_from_datasets: datasets is empty")
        if isinstance(weights, Dataset):
            raise UnimplementedError("sample_from_datasets: weights as a dataset are not supported; give numbers")
        shares = np.full(len(datasets), 1.0 / len(datasets)) if weights is None else np.asarray(convert(weights), np.float64)
        if shares.shape != (len(datasets),) or np.any(shares < 0) or not shares.sum():
            raise ValueError(
                f"sample_from_datasets: weights must be {len(datasets)} numbers that are not negative, got {weights}"
            )
        choices = Drawn(shares, Seeds(seed, rerandomize_each_iteration is not False))
        stages = [dataset._stage for dataset in datasets]
        return Dataset(Chosen(choices, stages, stop_on_empty_dataset, "sample_from_datasets"))

    # -- functions of elements -----------------------------------------------------------------------------------------

    def map(
        self, map_func: Function, num_parallel_calls: Integer | None = None, deterministic: bool | None = None,
        synchronous: bool | None = None, use_unbounded_threadpool: bool = False, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """The results of a function, traced like a `gt.function`; a tuple's parts are its arguments.

        `num_parallel_calls` worker threads (`gt.data.AUTOTUNE`: as many as the machine has cores) compute elements ahead; they
        keep their order unless `deterministic=False`.

        >>> import gradtape as gt
        >>> [int(x) for x in gt.data.Dataset.range(3).map(lambda x: x + 1, num_parallel_calls=2)]
        [1, 2, 3]
        """
        workers = 0 if num_parallel_calls is None else _workers(num_parallel_calls, "map")
        in_order = deterministic if deterministic is not None else self._options.deterministic is not False
        function = ElementFunction(map_func, self._stage, "Dataset.map", self._then)
        return self._then(MapStage(self._stage, function, workers, in_order))

    def filter(self, predicate: Function, name: str | None = None) -> Dataset:
        """The elements for which the predicate is true."""
        return self._then(Filtered(self._stage, ElementFunction(predicate, self._stage, "Dataset.filter", self._then)))

    def take_while(self, predicate: Function, name: str | None = None) -> Dataset:
        """The elements before the first for which the predicate is false."""
        function = ElementFunction(predicate, self._stage, "Dataset.take_while", self._then)
        return self._then(Filtered(self._stage, function, until=True))

    def flat_map(self, map_func: Function, name: str | None = None) -> Dataset:
        """The elements of the datasets that the function gives, one dataset after the other."""
        function = DatasetFunction(map_func, self._stage, "Dataset.flat_map", self._then)
        return self._then(Interleaved(self._stage, function, 1, 1))

    def interleave(
        self, map_func: Function, cycle_length: Integer | None = None, block_length: Integer | None = None,
        num_parallel_calls: Integer | None = None, deterministic: bool | None = None, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """The elements of the datasets that the function gives: `block_length` of each of `cycle_length` datasets in turn."""
        cycle = _workers(AUTOTUNE if cycle_length is None else cycle_length, "interleave", "cycle_length")
        block = 1 if block_length is None else _count(block_length, "block_length", "interleave", 1)
        function = DatasetFunction(map_func, self._stage, "Dataset.interleave", self._then)
        return self._then(Interleaved(self._stage, function, cycle, block))

    def scan(self, initial_state: Structure, scan_func: Function, name: str | None = None) -> Dataset:
        """The outputs of `scan_func(state, element) -> (new_state, output)`."""
        return self._then(Scanned(self._stage, initial_state, scan_func, self._then))

    def reduce(self, initial_state: Structure, reduce_func: Function, name: str | None = None) -> Any:
        """The state after `reduce_func(state, element) -> state` for all elements.

        >>> import gradtape as gt
        >>> int(gt.data.Dataset.range(5).reduce(gt.constant(0, gt.int64), lambda total, x: total + x))
        10
        """
        if active() is not None:
            raise UnimplementedError("Dataset.reduce inside a function: write the loop, `for x in dataset: state = …`")
        return folded(self._stage, initial_state, reduce_func, self._then)

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """`transformation_func(self)`."""
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise TypeError(f"Dataset.apply: the function must give a Dataset, got {dataset!r}")
        return dataset

    # -- several elements as one ---------------------------------------------------------------------------------------

    def batch(
        self, batch_size: Integer, drop_remainder: bool = False, num_parallel_calls: Integer | None = None,
        deterministic: bool | None = None, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """`batch_size` elements together, along a new first axis; the last batch may be smaller unless it is dropped."""
        return self._then(Batched(self._stage, _count(batch_size, "batch_size", "batch", 1), bool(drop_remainder)))

    def padded_batch(
        self, batch_size: Integer, padded_shapes: Structure | None = None, padding_values: Structure | None = None,
        drop_remainder: bool = False, name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """As `batch`, for elements of different shapes: filled up to the largest of the batch, or to `padded_shapes`."""
        size, structure = _count(batch_size, "batch_size", "padded_batch", 1), self._stage.structure
        template, specs = structure.template, structure.specs
        if padded_shapes is None:
            if any(spec.shape.rank is None for spec in specs):
                raise ValueError("Dataset.padded_batch: the elements' ranks are not known; give padded_shapes")
            shapes: list[Any] = [tuple(spec.shape) for spec in specs]
        else:
            given = [padded_shapes] if specs[0] is template else list(shape_parts(template, padded_shapes))
            shapes = [tuple(None if d in (-1, None) else int(d) for d in TensorShape(bare_shape(s))) for s in given]
        if padding_values is None:
            fillers: list[Any] = [b"" if spec.dtype.name == "string" else 0 for spec in specs]
        else:
            values = list(flat_values(padding_values))
            values *= len(specs) if len(values) == 1 else 1
            fillers = [_filler(v, spec, i) for i, (v, spec) in enumerate(zip(values, specs, strict=True))]
        return self._then(PaddedBatch(self._stage, size, shapes, fillers, bool(drop_remainder)))

    def unbatch(self, name: str | None = None) -> Dataset:
        """The rows of the elements as elements."""
        return self._then(Unbatched(self._stage))

    def window(
        self, size: Integer, shift: Integer | None = None, stride: Integer = 1, drop_remainder: bool = False,
        name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """Datasets of `size` elements that follow each other, each starting `shift` elements after the one before.

        >>> import gradtape as gt
        >>> ds = gt.data.Dataset.range(5).window(3, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(3))
        >>> [x.numpy().tolist() for x in ds]
        [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
        """
        length = _count(size, "size", "window", 1)
        step = length if shift is None else _count(shift, "shift", "window", 1)
        return self._then(Window(self._stage, length, step, _count(stride, "stride", "window", 1), bool(drop_remainder)))

    # -- which elements ------------------------------------------------------------------------------------------------

    def shuffle(
        self, buffer_size: Integer, seed: int | None = None, reshuffle_each_iteration: bool | None = None,
        name: str | None = None,
    ) -> Dataset:  # fmt: skip
        """Random order: each element is drawn from a buffer of the next `buffer_size`.

        With a seed, or after `gt.random.set_seed`, the order is the same in every run. Each pass has another order, unless
        `reshuffle_each_iteration=False`.
        """
        if _count(buffer_size, "buffer_size", "shuffle") < 1:
            raise InvalidArgumentError(f"Dataset.shuffle: buffer_size must be a positive number, got {buffer_size}")
        seeds = Seeds(None if seed is None else int(seed), reshuffle_each_iteration is not False)
        return self._then(Shuffled(self._stage, _count(buffer_size, "buffer_size", "shuffle"), seeds))

    def repeat(self, count: Integer | None = None, name: str | None = None) -> Dataset:
        """Pass after pass, `count` of them, or without end."""
        times = -1 if count is None else _count(count, "count", "repeat")
        return self._then(Repeated(self._stage, None if times < 0 else times))

    def take(self, count: Integer, name: str | None = None) -> Dataset:
        """The first `count` elements; all if it is negative."""
        return self._then(Taken(self._stage, _count(count, "count", "take")))

    def skip(self, count: Integer, name: str | None = None) -> Dataset:
        """Without the first `count` elements; none if it is negative."""
        return self._then(Skipped(self._stage, _count(count, "count", "skip")))

    def shard(self, num_shards: Integer, index: Integer, name: str | None = None) -> Dataset:
        """One of `num_shards` parts: the elements `index`, `index + num_shards`, …"""
        shards, place = _count(num_shards, "num_shards", "shard"), _count(index, "index", "shard")
        if shards < 1 or not 0 <= place < shards:
            raise InvalidArgumentError(f"Dataset.shard: index must be from 0 to num_shards - 1, got {place} of {shards}")
        return self._then(Shard(self._stage, shards, place))

    def concatenate(self, dataset: Dataset, name: str | None = None) -> Dataset:
        """The elements of this one, then those of another with elements of the same structure."""
        if not isinstance(dataset, Dataset):
            raise TypeError(f"Dataset.concatenate: {dataset!r} is no dataset")
        chained = Chained(self._stage, dataset._stage)
        _ = chained.structure  # refuses elements of another kind
        return self._then(chained)

    def enumerate(self, start: Integer = 0, name: str | None = None) -> Dataset:
        """Pairs of a number (int64) and an element."""
        return self._then(Counted(self._stage, _count(start, "start", "enumerate")))

    def cache(self, filename: TensorLike | os.PathLike[str] = "", name: str | None = None) -> Dataset:
        """Elements kept after the first whole pass, in memory or in a file: what leads to them is not computed again.

        A file is there when a pass has come to its end, and other processes read it instead of computing. A file with elements
        of other types, or of another number if that is known, is refused; one that the same pipeline wrote before one of its
        functions changed is not recognised: delete it then.

        >>> import os, tempfile
        >>> import gradtape as gt
        >>> path = os.path.join(tempfile.mkdtemp(), "squares")
        >>> ds = gt.data.Dataset.range(3).map(lambda x: x * x).cache(path)
        >>> [int(x) for x in ds], os.path.exists(path), [int(x) for x in ds]
        ([0, 1, 4], True, [0, 1, 4])
        """
        place = os.fspath(filename) if isinstance(filename, os.PathLike) else bare(filename)[()]
        if not isinstance(place, (str, bytes)):
            raise TypeError(f"Dataset.cache: filename must be a string or a path, got {filename!r}")
        return self._then(FileCached(self._stage, Path(os.fsdecode(place))) if place else Cached(self._stage))

    def prefetch(self, buffer_size: Integer, name: str | None = None) -> Dataset:
        """Read ahead by a thread, at most `buffer_size` elements (`gt.data.AUTOTUNE`: fewer of large ones)."""
        size = _count(buffer_size, "buffer_size", "prefetch")
        if size < 0 and size != AUTOTUNE:
            raise InvalidArgumentError(f"Dataset.prefetch: buffer_size must not be negative, got {size}")
        return self._then(Prefetched(self._stage, size))

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def element_spec(self) -> Any:
        """The type of an element: its structure, with a `gt.TensorSpec` for each tensor."""
        return self._stage.structure.template

    def cardinality(self, name: str | None = None) -> Tensor:
        """The number of elements (int64), `gt.data.INFINITE_CARDINALITY` or `gt.data.UNKNOWN_CARDINALITY`."""
        return box(np.int64(self._stage.cardinality()))

    def __len__(self) -> int:
        size = self._stage.cardinality()
        if size < 0:
            raise TypeError(f"the dataset's length is {'infinite' if size == INFINITE else 'unknown'}")
        return size

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"<gt.data.Dataset element_spec={self.element_spec}>"

    def with_options(self, options: DatasetOptions, name: str | None = None) -> Dataset:
        """With these options for what follows."""
        return Dataset(self._stage, self._options.merge(options))

    def options(self) -> DatasetOptions:
        """The options so far."""
        return self._options

    # -- passes --------------------------------------------------------------------------------------------------------

    def __iter__(self) -> DataIterator:
        if active() is not None:
            raise InvalidArgumentError(
                "a dataset can be iterated inside a function only by a `for` statement of converted code; this one would be "
                "read while the function is traced, and its elements would become constants"
            )
        return DataIterator(self._stage, self._then)

    def as_numpy_iterator(self) -> NumpyIterator:
        """Elements with NumPy arrays in place of tensors.

        >>> import gradtape as gt
        >>> list(gt.data.Dataset.range(3).as_numpy_iterator())
        [np.int64(0), np.int64(1), np.int64(2)]
        """
        return NumpyIterator(self._stage)

    def get_single_element(self, name: str | None = None) -> Any:
        """The only element; InvalidArgumentError if there is none, or another."""
        elements = list(self.take(2))
        if len(elements) != 1:
            raise InvalidArgumentError(
                f"get_single_element: the dataset has {'no' if not elements else 'more than one'} element"
            )
        return elements[0]

    def numbered(self, start: Integer) -> Dataset:
        """`enumerate(dataset, start)` in a function."""
        return self.enumerate(start)

    def zipped(self, *others: Dataset) -> Dataset:
        """`zip(dataset, …)` in a function."""
        return Dataset.zip((self, *others))

    def puller(self) -> Puller:
        """For a `for` statement of a function: elements are read when the program runs."""
        return LoopSource(self._stage, self._then)


def bare_shape(shape: Any) -> Any:
    """A padded shape as the user may write it: a tuple, a list, a TensorShape or a tensor."""
    return [int(d) for d in np.asarray(shape)] if isinstance(shape, (Tensor, np.ndarray)) else shape


def _filler(value: Any, spec: TensorSpec, component: int) -> Any:
    leaf = bare(value) if not isinstance(value, (int, float, bool)) else numpy_dtype(spec.dtype).type(value)
    if leaf.dtype != spec.dtype.dtype:
        raise TypeError(
            f"padded_batch: padding_values of component {component} must have dtype {spec.dtype.name}, got {leaf.dtype}"
        )
    return leaf[()]


def _workers(count: Integer, method: str, argument: str = "num_parallel_calls") -> int:
    number = _count(count, argument, method)
    if number == AUTOTUNE:
        return max(os.cpu_count() or 1, 1)
    if number < 1:
        raise InvalidArgumentError(f"Dataset.{method}: {argument} must be a positive number or gt.data.AUTOTUNE, got {number}")
    return number


__all__ = ["AUTOTUNE", "INFINITE", "UNKNOWN", "Dataset", "DatasetSpec", "ElementStructure"]
