"""What every module of the engine begins with: values into tensors by Keras's rules, shapes, casts.

NumPy's and Python's 64-bit numbers become 32-bit ones (floats: `keras.config.floatx()`), as on Keras's other engines;
tensors of gradtape keep the dtype they have.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from keras.src.backend import config
from keras.src.backend.common import KerasVariable
from keras.src.backend.common.keras_tensor import KerasTensor
from keras.src.backend.common.variables import standardize_dtype

from gradtape.core.conversion import contains_tensor, typed
from gradtape.core.dispatch import convert
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import DTypeLike, TensorLike
from gradtape.dtypes import as_dtype, numpy_dtype
from gradtape.ir.dims import Dim
from gradtape.ops.elementwise import cast as cast_tensor
from gradtape.ops.select import clip_by_value
from gradtape.ops.stop import stop_gradient as stop

SUPPORTS_SPARSE_TENSORS = False
SUPPORTS_RAGGED_TENSORS = False
SUPPORTS_COMPLEX_DTYPES = True
IS_THREAD_SAFE = True

_NARROWER = {"int64": "int32", "uint64": "uint32", "complex128": "complex64"}
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
_SHORT = frozenset({"int8", "uint8", "int16", "uint16"})


def is_float(dtype: str) -> bool:
    """Whether a dtype of this name carries derivatives of real numbers."""
    return dtype in _FLOATS


def known_dtype(dtype: DTypeLike) -> str:
    """The name of a dtype that tensors can have; float8 is refused in words."""
    name = standardize_dtype(dtype)
    if name.startswith("float8"):
        raise ValueError(f"gradtape has no {name}; quantize to 'int8', or train in 'float16' or 'bfloat16'")
    return str(name)


def convert_to_tensor(
    x: TensorLike, dtype: DTypeLike | None = None, sparse: bool | None = None, ragged: bool | None = None
) -> Tensor:
    """`x` as a tensor of gradtape, of `dtype` if one is given."""
    if sparse or ragged:
        kind = "sparse" if sparse else "ragged"
        raise ValueError(f"`{kind}=True` is not supported by the gradtape engine: its tensors are dense")
    if isinstance(x, (Tensor, Readable)):
        tensor = x.value if isinstance(x, KerasVariable) else convert(x)
        return tensor if dtype is None else _cast(tensor, known_dtype(dtype))
    if isinstance(x, KerasTensor):
        raise ValueError(f"a KerasTensor is a symbol without a value, it cannot become a tensor: {x}")
    if isinstance(x, Dim):  # a size that is known only when the program runs
        return _cast(convert(x), known_dtype(dtype or "int32"))
    if isinstance(x, (list, tuple)) and (contains_tensor(x) or any(isinstance(part, Dim) for part in x)):
        from gradtape.keras.numpy_types import promoted
        from gradtape.ops.shape import stack

        parts = [convert_to_tensor(part) if isinstance(part, (list, tuple)) else part for part in x]
        tensor = stack(promoted(*parts))
        return tensor if dtype is None else _cast(tensor, known_dtype(dtype))
    given = typed(x)
    array = np.asarray(given)
    own = isinstance(given, (np.ndarray, np.generic))
    if dtype is None:
        dtype = _default(array, own)
    name = known_dtype(dtype)
    if name == "string":
        return convert(given)
    if array.dtype.kind in "USO":
        raise ValueError(f"{x!r} holds text, which has no dtype {name}")
    wanted = numpy_dtype(as_dtype(name))
    tensor = convert(x) if own and array.dtype == wanted else None
    if tensor is None:
        tensor = convert(given if own else array)
        if tensor.dtype != name:
            tensor = _cast(tensor, name)
    return tensor


def _default(array: np.ndarray, own: bool) -> str:
    """The dtype of data that comes without one asked for."""
    if array.dtype.kind in "USO":
        return "string"
    name = as_dtype(array.dtype).name
    if name == "float64":
        return str(config.floatx())
    if not own and not array.size:
        return str(config.floatx())
    return _NARROWER.get(name, name)


def _cast(tensor: Tensor, name: str) -> Tensor:
    """Floats that a short integer cannot hold become its nearest, which Keras's quantizers count on; NumPy's wrap around."""
    own = tensor.dtype.name
    if name in _SHORT and own in _FLOATS:
        ends = np.iinfo(name)
        wide = tensor if own == "float64" else cast_tensor(tensor, "float32")  # half precision rounds the ends
        tensor = clip_by_value(wide, float(ends.min), float(ends.max))
    return tensor if own == name else cast_tensor(tensor, name)


def convert_to_numpy(x: TensorLike) -> np.ndarray:
    """The values as an array of the caller's own."""
    return np.array(
        x.numpy() if isinstance(x, (Tensor, KerasVariable)) else convert(x).numpy() if isinstance(x, Readable) else x
    )


def is_tensor(x: object) -> bool:
    """Whether `x` is a tensor of this engine."""
    return isinstance(x, Tensor)


def shape(x: Any) -> tuple[Any, ...]:
    """The sizes; inside a program those that only run time knows are symbols that compute."""
    return tuple(x.shape)


def cast(x: TensorLike, dtype: DTypeLike) -> Tensor:
    return convert_to_tensor(x, dtype=dtype)


def stop_gradient(variable: TensorLike) -> Tensor:
    return stop(convert_to_tensor(variable))


def random_seed_dtype() -> str:
    return "uint32"


@contextlib.contextmanager
def device_scope(device_name: str) -> Iterator[None]:
    """Everything runs on the CPU."""
    yield
