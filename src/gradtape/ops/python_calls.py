"""Python that runs when a program runs: `py_function` on tensors, `numpy_function` on arrays.

In eager code these are plain calls. In a program each is an operation with an effect: it is called as often as the user's code
calls it, in the same order. What `py_function` does is recorded where operations are recorded one by one (a tape around a
compiled function makes that happen: `ad/evaluation.py`); in a program its derivative is refused, as nobody knows what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gradtape.core import batching
from gradtape.core.dispatch import convert
from gradtape.core.opdef import Op
from gradtape.core.tensor import box
from gradtape.core.typing import TensorLike
from gradtape.dtypes import DTypeLike, numpy_dtype
from gradtape.errors import InvalidArgumentError, UnimplementedError
from gradtape.ir.types import TensorSpec
from gradtape.ops.elementwise import cast

# the types of what a function of the user's returns: one, or a list of them
TypeOut: TypeAlias = TensorSpec | DTypeLike
TypesOut: TypeAlias = TypeOut | list[TypeOut] | tuple[TypeOut, ...] | None


def called_on_tensors(func: Callable[..., Any], tensors: Sequence[Any], dtypes: tuple[TypeOut, ...]) -> tuple[Any, ...]:
    """What a program's call of Python gives: recorded, like any code on eager tensors."""
    result = func(*tensors)
    return tuple(typed_outputs(result if isinstance(result, (list, tuple)) else [result], dtypes)) if dtypes else ()


def _python_impl(*xs: Any, func: Callable[..., Any], dtypes: tuple[TypeOut, ...]) -> tuple[Any, ...]:
    return tuple([out._data for out in called_on_tensors(func, [box(x) for x in xs], dtypes)])


def _refused(*args: Any, **attrs: Any) -> Any:
    raise UnimplementedError(
        "the derivative of gt.py_function inside a compiled function, by a tape inside it: the Python code runs with the "
        "program, and what it will do is not known. Take the tape out of the gt.function, call the code without py_function "
        "if it is made of gradtape operations, or give it a derivative with gt.custom_gradient"
    )


def typed_outputs(result: TensorLike | Sequence[TensorLike], Tout: TypesOut) -> Any:
    """What the user's function returned, as tensors of the types that were declared."""
    if Tout is None or (isinstance(Tout, (list, tuple)) and not Tout):
        return []
    if isinstance(Tout, (list, tuple)):
        values = result if isinstance(result, (list, tuple)) else [result]
        if len(values) != len(Tout):
            raise InvalidArgumentError(f"the function returned {len(values)} values, Tout names {len(Tout)}")
        return [_as_type(v, t) for v, t in zip(values, Tout, strict=True)]
    return _as_type(result, Tout)


def _as_type(value: TensorLike, wanted: TypeOut) -> Any:
    if not isinstance(wanted, TensorSpec):
        return cast(convert(value, hint=wanted), wanted)
    tensor = cast(convert(value, hint=wanted.dtype), wanted.dtype)
    _check_shape(tensor.shape, wanted)
    return tensor


def _check_shape(shape: Sequence[int], wanted: TensorSpec) -> None:
    if not wanted.shape.is_compatible_with(shape):
        raise InvalidArgumentError(f"the Python function returned the shape {tuple(shape)}, Tout says {wanted.shape}")


def _numpy_impl(*xs: Any, func: Callable[..., Any], dtypes: tuple[Any, ...]) -> Any:
    result = func(*[x if isinstance(x, np.generic) else np.array(x)[()] for x in xs])
    values = result if isinstance(result, (list, tuple)) else [result]
    if len(values) != len(dtypes):
        raise InvalidArgumentError(f"numpy_function: the function returned {len(values)} values, Tout names {len(dtypes)}")
    return tuple([_as_array(v, d) for v, d in zip(values, dtypes, strict=True)])


def _as_array(value: ArrayLike, wanted: TypeOut) -> Any:
    if not isinstance(wanted, TensorSpec):
        return np.asarray(value).astype(numpy_dtype(wanted))[()]
    shape, dtype = value.shape if isinstance(value, (np.ndarray, np.generic)) else np.shape(value), wanted.dtype.dtype
    same = tuple.__eq__(wanted.shape, shape) and wanted.shape.rank is not None
    if same and not shape and isinstance(value, np.generic) and value.dtype is dtype:
        return value
    if not same:
        _check_shape(shape, wanted)
    return np.asarray(value).astype(dtype)[()]


def _numpy_spec(*xs: TensorSpec, func: Callable[..., Any], dtypes: tuple[Any, ...]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(d.shape, d.dtype) if isinstance(d, TensorSpec) else TensorSpec(None, d) for d in dtypes)


# effect: a program calls it as often as the user does, and in the same order
NUMPY_FUNCTION = Op(
    "numpy_function", "nondiff", ("*xs",), _numpy_impl, _numpy_spec, batch=batching.looped, outputs=0, effect=True,
    reason="the function leaves the tape: it works on NumPy arrays",
)  # fmt: skip


def _pulled(*xs: Any, func: Callable[..., Any], dtypes: tuple[Any, ...]) -> Any:
    return func(*xs)


# A loop over what Python gives item by item. `pull_open` gives the address of words: the number of the current item in the
# block of items at hand, how many that block has, and for each leaf of an item the address of its rows. Machine code goes
# through a block by itself and asks `func` where it ends. The number that `pull_open` gives is an object that owns words and
# rows; machine code, which has the bare number, leaves the object to its call.
PULL_OPEN = Op(
    "pull_open", "nondiff", ("*xs",), _pulled, _numpy_spec, batch=batching.looped, outputs=0, effect=True,
    reason="it begins a pass through items that come from outside of the tape",
)  # fmt: skip
PULL_MORE = Op(
    "pull_more", "nondiff", ("*xs",), _pulled, _numpy_spec, batch=batching.looped, outputs=0, effect=True,
    reason="it says whether there is another item",
)  # fmt: skip
PULL_ITEM = Op(
    "pull_item", "nondiff", ("*xs",), _pulled, _numpy_spec, batch=batching.looped, outputs=0, effect=True,
    reason="items of a dataset come from outside of the tape",
)  # fmt: skip


PY_FUNCTION = Op(
    "py_function", "general", ("*xs",), _python_impl, _numpy_spec, batch=batching.looped, outputs=0, effect=True, vjp=_refused,
    jvp=_refused,
)  # fmt: skip
