"""Names of `gt.data.experimental` that programs meet: the same things as in `gt.data`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import Integer, TensorLike
from gradtape.data.channels import AUTOTUNE as AUTOTUNE
from gradtape.data.data_iterators import OptionalElement as Optional
from gradtape.data.dataset import Dataset
from gradtape.data.selecting import Sized
from gradtape.data.streams import INFINITE as INFINITE_CARDINALITY, UNKNOWN as UNKNOWN_CARDINALITY

__all__ = [
    "AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "AutoShardPolicy", "Counter", "Optional",
    "assert_cardinality", "cardinality", "choose_from_datasets", "enumerate_dataset", "get_single_element",
    "sample_from_datasets", "take_while", "unbatch",
]  # fmt: skip


class AutoShardPolicy(enum.IntEnum):
    """How a distributed dataset is cut; accepted in `Options`.

    >>> import gradtape as gt
    >>> gt.data.experimental.AutoShardPolicy.DATA.name
    'DATA'
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


Transformation = Callable[[Dataset], Dataset]


def cardinality(dataset: Dataset) -> Tensor:
    """`dataset.cardinality()`.

    >>> import gradtape as gt
    >>> int(gt.data.experimental.cardinality(gt.data.Dataset.range(4)))
    4
    """
    return dataset.cardinality()


def assert_cardinality(expected_cardinality: Integer) -> Transformation:
    """For `Dataset.apply`: says how many elements there are, and refuses a pass that has another number of them.

    >>> import gradtape as gt
    >>> even = gt.data.Dataset.range(6).filter(lambda x: x % 2 == 0)
    >>> len(even.apply(gt.data.experimental.assert_cardinality(3)))
    3
    """
    return lambda dataset: Dataset(Sized(dataset._stage, int(expected_cardinality)), dataset.options())


def get_single_element(dataset: Dataset) -> Any:
    """`dataset.get_single_element()`.

    >>> import gradtape as gt
    >>> gt.data.experimental.get_single_element(gt.data.Dataset.range(3).batch(3)).numpy()
    array([0, 1, 2])
    """
    return dataset.get_single_element()


def unbatch() -> Transformation:
    """For `Dataset.apply`: `dataset.unbatch()`.

    >>> import gradtape as gt
    >>> [int(x) for x in gt.data.Dataset.range(3).batch(2).apply(gt.data.experimental.unbatch())]
    [0, 1, 2]
    """
    return lambda dataset: dataset.unbatch()


def take_while(predicate: Callable[..., Any]) -> Transformation:
    """For `Dataset.apply`: `dataset.take_while(predicate)`.

    >>> import gradtape as gt
    >>> [int(x) for x in gt.data.Dataset.range(5).apply(gt.data.experimental.take_while(lambda x: x < 2))]
    [0, 1]
    """
    return lambda dataset: dataset.take_while(predicate)


def enumerate_dataset(start: Integer = 0) -> Transformation:
    """For `Dataset.apply`: `dataset.enumerate(start)`.

    >>> import gradtape as gt
    >>> [int(i) for i, x in gt.data.Dataset.range(2).apply(gt.data.experimental.enumerate_dataset(5))]
    [5, 6]
    """
    return lambda dataset: dataset.enumerate(start)


def sample_from_datasets(
    datasets: Sequence[Dataset], weights: TensorLike | None = None, seed: int | None = None, stop_on_empty_dataset: bool = False
) -> Dataset:
    """`Dataset.sample_from_datasets`.

    >>> import gradtape as gt
    >>> both = [gt.data.Dataset.range(2), gt.data.Dataset.range(10, 12)]
    >>> sorted(int(x) for x in gt.data.experimental.sample_from_datasets(both, seed=1))
    [0, 1, 10, 11]
    """
    return Dataset.sample_from_datasets(datasets, weights, seed, stop_on_empty_dataset)


def choose_from_datasets(datasets: Sequence[Dataset], choice_dataset: Dataset, stop_on_empty_dataset: bool = False) -> Dataset:
    """`Dataset.choose_from_datasets`.

    >>> import gradtape as gt
    >>> both = [gt.data.Dataset.range(2), gt.data.Dataset.range(10, 12)]
    >>> [int(x) for x in gt.data.experimental.choose_from_datasets(both, gt.data.Dataset.range(2).repeat(2))]
    [0, 10, 1, 11]
    """
    return Dataset.choose_from_datasets(datasets, choice_dataset, stop_on_empty_dataset)


def Counter(start: Integer = 0, step: Integer = 1) -> Dataset:  # noqa: N802  (TensorFlow's name)
    """start, start + step, … without end.

    >>> import gradtape as gt
    >>> [int(x) for x in gt.data.experimental.Counter(3, 2).take(3)]
    [3, 5, 7]
    """
    first, stride = box(np.int64(start)), box(np.int64(step))
    return Dataset.from_tensors(np.int64(0)).repeat().enumerate().map(lambda i, _: first + i * stride)


def __dir__() -> list[str]:  # completion offers no more
    return __all__
