"""Feeding data: `Dataset` and its names, as TensorFlow's `tf.data` has them."""

from gradtape.data import experimental_names as experimental
from gradtape.data.channels import AUTOTUNE as AUTOTUNE
from gradtape.data.data_iterators import DataIterator as Iterator, NumpyIterator as NumpyIterator, OptionalElement as Optional
from gradtape.data.dataset import Dataset as Dataset
from gradtape.data.elements import DatasetSpec as DatasetSpec
from gradtape.data.options import DatasetOptions as Options
from gradtape.data.streams import INFINITE as INFINITE_CARDINALITY, UNKNOWN as UNKNOWN_CARDINALITY
from gradtape.surface.name_hints import hint as _hint

__all__ = [
    "AUTOTUNE", "INFINITE_CARDINALITY", "UNKNOWN_CARDINALITY", "Dataset", "DatasetSpec", "Iterator", "NumpyIterator",
    "Optional", "Options", "experimental",
]  # fmt: skip
_hint(__name__)
