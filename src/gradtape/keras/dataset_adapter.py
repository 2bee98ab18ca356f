"""`gt.data` datasets as input of `fit`, `evaluate` and `predict`: handed to Keras as one of its data adapters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from keras.src import tree
from keras.src.trainers.data_adapters.data_adapter import DataAdapter

from gradtape.core.tensor import Tensor


class DatasetAdapter(DataAdapter):
    """Batches of a `gt.data.Dataset`, each epoch anew."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def get_numpy_iterator(self) -> Iterator[Any]:
        for element in self.dataset:
            yield tree.map_structure(lambda part: part.numpy() if isinstance(part, Tensor) else part, element)

    @property
    def num_batches(self) -> int | None:
        count = int(self.dataset.cardinality())
        return None if count < 0 else count

    @property
    def batch_size(self) -> int | None:
        return None

    @property
    def has_partial_batch(self) -> bool | None:
        return None

    @property
    def partial_batch_size(self) -> int | None:
        return None


def adapted(x: Any) -> Any:
    """What Keras is given for `x`: an adapter for a dataset of gradtape, anything else as it is."""
    data = sys.modules.get("gradtape.data")  # whoever has a dataset has imported it
    dataset = getattr(data, "Dataset", None)
    return DatasetAdapter(x) if isinstance(dataset, type) and isinstance(x, dataset) else x
