"""`gt.data` datasets as input of `fit`, `evaluate` and `predict`: handed to Keras as one of its data adapters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from keras.src import tree
from keras.src.trainers.data_adapters.data_adapter import DataAdapter
from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights, unpack_x_y_sample_weight

from gradtape.core.tensor import Tensor


class DatasetAdapter(DataAdapter):
    """Batches of a `gt.data.Dataset`, each epoch anew; with weights of classes, every batch has the weights of its examples."""

    def __init__(self, dataset: Any, class_weight: Any = None) -> None:
        self.dataset, self.class_weight = dataset, class_weight

    def get_numpy_iterator(self) -> Iterator[Any]:
        for element in self.dataset:
            batch = tree.map_structure(lambda part: part.numpy() if isinstance(part, Tensor) else part, element)
            yield batch if self.class_weight is None else self._weighted(batch)

    def _weighted(self, batch: Any) -> Any:
        x, y, sample_weight = unpack_x_y_sample_weight(batch)
        if sample_weight is not None:
            raise ValueError("fit: the dataset has sample weights as third parts of its elements: give no `class_weight` then")
        if y is None or tree.is_nested(y):
            raise ValueError("fit: `class_weight` needs a dataset of (x, y) where y is one tensor of class numbers or codes")
        return x, y, class_weight_to_sample_weights(y, self.class_weight)

    @property
    def num_batches(self) -> int | None:
        count = int(self.dataset.cardinality())
        return None if count < 0 else count

    @property
    def batch_size(self) -> int | None:
        return None

    @property
    def has_partial_batch(self) -> bool | None:
        open_batch = any(not spec.shape.rank or spec.shape[0] is None for spec in self.dataset._stage.structure.specs)
        return None if self.num_batches is None and open_batch else self.partial_batch_size is not None

    @property
    def partial_batch_size(self) -> int | None:
        return self.dataset._stage.remainder() or None


def adapted(x: Any, y: Any, sample_weight: Any, class_weight: Any) -> Any:
    """What Keras is given for `x`: an adapter for a dataset of gradtape, anything else as it is."""
    data = sys.modules.get("gradtape.data")  # whoever has a dataset has imported it
    dataset = getattr(data, "Dataset", None)
    if not (isinstance(dataset, type) and isinstance(x, dataset)):
        return x
    if y is not None or sample_weight is not None:
        raise ValueError(
            f"`{'sample_weight' if y is None else 'y'}` was given beside a gt.data.Dataset, and nobody would read it: targets "
            "and weights are parts of the dataset's elements, (x, y) or (x, y, sample_weight)"
        )
    return DatasetAdapter(x, class_weight)
