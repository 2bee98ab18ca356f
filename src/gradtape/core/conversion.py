"""Values into tensors: `convert` for whatever a user may hand over, `plain` for what reads as a tensor, `twin` for another
object of the same version.

NumPy data, and arrays of other libraries (whatever has `__array__`, `__dlpack__` or a buffer), keep their dtype; Python numbers
and lists of them have none and take TensorFlow's defaults, or the dtype they meet. Values are copied: no tensor shares memory
with an array that somebody else can write to. Promotion of several values to one dtype is `promote` in `core/dispatch.py`.
"""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape.core.hooks import HOOKS
from gradtape.core.record import TRACING, VariableKey
from gradtape.core.strings import text
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.core.typing import DTypeLike, TensorLike
from gradtape.dtypes import as_dtype, numpy_dtype
from gradtape.errors import InvalidArgumentError, NumberDoesNotFitError
from gradtape.ir.polynomial import Dim


def convert(value: TensorLike, dtype: DTypeLike | None = None, hint: DTypeLike | None = None) -> Tensor:
    """`value` as a tensor: tensors pass, variables are read, NumPy data is copied, lists are packed.

    `dtype` is demanded (ValueError when a tensor has another); `hint` is taken where it loses nothing essential.
    """
    if value.__class__ is Tensor:
        tensor = value
    elif isinstance(value, Readable):
        tensor = value.read().__copy__()  # a snapshot: `t[i] = v` on it must not change the variable
    elif isinstance(value, Tensor):
        tensor = plain(value)
        wanted = hint if dtype is None else dtype
        if wanted is not None and tensor.__class__ in HOOKS.weak:  # a number of the program, which gives way
            given: Tensor = tensor.giving_way(as_dtype(wanted), dtype is not None)  # type: ignore[attr-defined]
            return given
    else:
        return _from_python(value, dtype, hint)
    if dtype is not None and tensor.dtype != dtype:
        raise ValueError(
            f"tensor conversion requested dtype {as_dtype(dtype).name} for a tensor with dtype {tensor.dtype.name}; "
            f"use gt.cast(t, gt.{as_dtype(dtype).name})"
        )
    return tensor


def plain(value: Any) -> Any:
    """Variables read, slices of variables as ordinary tensors, everything else unchanged."""
    if isinstance(value, Readable):
        return value.read()
    # `v[i]` of a variable is a tensor that can also assign; what is computed from it must not.
    if value.__class__ is not Tensor and isinstance(value, Tensor) and not value.wraps:
        return box(value._data, value._node)
    return value


def twin(x: Tensor) -> Tensor:
    """The same version as another tensor object: what an op returns when it has nothing to do, so that `t[i] = v` on the
    result leaves its argument alone. Rules on bare arrays do without it."""
    if isinstance(x, Tensor) and (node := x._node) is not None and node.keys:
        # A variable's own version (the leaf of its key, or an assignment) stands for all reads of the variable: as a source,
        # the tensor the user gets must be one read only.
        writer = node.op
        if writer.name == "assign" if writer is not None else node.nodes and node.nodes[0].__class__ is VariableKey:
            return snapshot(x)
    return box(x._data, x._node) if x.__class__ is Tensor else x


def snapshot(version: Tensor) -> Tensor:
    """A variable's version, read by the user, as a tensor of its own: as a source it does not count other reads of the
    variable."""
    node = version._node
    return version if node is None or not node.keys else HOOKS.identity(version)


def _from_python(value: Any, dtype: DTypeLike | None, hint: DTypeLike | None) -> Tensor:
    if value is None:
        raise ValueError("None cannot be converted to a tensor; did a function without `return` or a missing gradient give it?")
    if value.__class__ is Dim:
        return HOOKS.dimension(value, dtype or hint)
    if isinstance(value, (list, tuple)) and contains_tensor(value):
        numbers = HOOKS.numbers(value, dtype, hint)
        packed: Tensor = convert(HOOKS.stack(value), dtype, hint) if numbers is None else numbers
        return packed
    # (before anything is asked of the object: what users say about their classes counts first)
    for _, kinds, function in _REGISTERED:
        if isinstance(value, kinds) and (result := function(value, dtype, None, False)) is not NotImplemented:
            return convert(result, dtype)
    # Whoever captures arrays for a program knows the object that the user holds, not the view of it that `typed` may be.
    given, value = value, typed(value)
    if isinstance(value, (np.ndarray, np.generic)):
        trace = TRACING.get()
        captured = None if trace is None or trace.array is None else trace.array(given)
        if captured is not None:
            return _in_program(captured, dtype, hint)
        if value.__class__ is not ndarray and isinstance(value, np.ma.MaskedArray) and value.mask.any():
            raise InvalidArgumentError("a masked array has no values where it is masked; fill them first: a.filled(0.0)")
        array = np.array(value, value.dtype.newbyteorder("="))  # files and networks have other byte orders, tensors do not
        if array.dtype.kind in "USO":
            array = _bytes_of(array)
        if array.dtype.kind == "O" and not _only_text(array):
            raise InvalidArgumentError(
                "a NumPy array of dtype object has no numbers gradtape knows; convert it first: a.astype(np.float64)"
            )
        as_dtype(array.dtype)  # refuses dtypes gradtape does not have
        default = array.dtype
    else:
        array, default = _array_of(value)
    if dtype is not None:
        array = _cast_exact(array, numpy_dtype(dtype), value)
    elif hint is not None and _fits(default, wanted := numpy_dtype(hint)) and _holds(wanted, array, value):
        array = _cast_exact(array, wanted, value)
    elif hint is not None and value.__class__ is complex and (wanted := numpy_dtype(hint)).kind in "fV":
        array = array.astype(np.complex128 if wanted.itemsize == 8 else np.complex64)  # as precise as the tensor it meets
    else:
        array = array.astype(default, copy=False)
    tensor = box(array[()] if array.ndim == 0 and array.dtype != object else array)
    if HOOKS.array_kind is not None and _has_arrays(value):
        # ranks read their data from files of their own
        tensor._node = HOOKS.array_kind
    return created(tensor)


def _has_arrays(value: object) -> bool:
    """Whether a value is an array, or a list with one somewhere."""
    return isinstance(value, (ndarray, np.generic)) or (isinstance(value, (list, tuple)) and any(map(_has_arrays, value)))


# what users said about classes of their own, the smallest priority first
_REGISTERED: list[tuple[int, type | tuple[type, ...], Callable[..., Any]]] = []


def register_tensor_conversion_function(
    base_type: type | tuple[type, ...], conversion_func: Callable[..., Any], priority: int = 100
) -> None:
    """Make objects of a class of one's own tensors wherever one is expected.

    >>> class Metres:
    ...     value = 2.5
    >>> gt.register_tensor_conversion_function(Metres, lambda m, dtype=None, name=None, as_ref=False: gt.constant(m.value))
    >>> float(gt.square(Metres()))
    6.25
    """
    if not callable(conversion_func):
        raise TypeError(f"register_tensor_conversion_function: conversion_func must be a function, got {conversion_func!r}")
    _REGISTERED.append((priority, base_type, conversion_func))
    _REGISTERED.sort(key=lambda entry: entry[0])


def _in_program(captured: Tensor, dtype: DTypeLike | None, hint: DTypeLike | None) -> Tensor:
    """An array from outside that is an input of a program: beside a floating tensor it takes its dtype, as outside one. (Where
    that depends on the values, as for integers, it keeps its own.)"""
    wanted = as_dtype(dtype) if dtype is not None else captured.dtype if hint is None else as_dtype(hint)
    if dtype is None and not (captured.dtype.is_floating and wanted.is_floating):
        wanted = captured.dtype
    return captured if captured.dtype == wanted else HOOKS.cast(captured, wanted)


def created(tensor: Tensor) -> Tensor:
    """A tensor just made of numbers, as the program that is being traced wants it: it may follow what is computed from it."""
    trace = TRACING.get()
    if trace is not None and trace.follows_constants and trace.lift is not None and tensor.dtype.is_differentiable:
        trace.lift(tensor)
    return tensor


_UNTYPED = (bool, int, float, complex, str, bytes, list, tuple)  # Python's own, which have no dtype to keep


def typed(value: Any) -> Any:
    """An array of another library (a pandas Series, a torch tensor, an `array.array`) as the NumPy array it stands for, dtype
    and all; anything else as it is."""
    if isinstance(value, (np.ndarray, np.generic, Tensor, Readable, *_UNTYPED)):
        return value
    kind = type(value)
    if any(getattr(kind, name, None) is not None for name in ("__array__", "__array_interface__", "__array_struct__")):
        return np.asarray(value)
    if getattr(kind, "__dlpack__", None) is not None:
        return np.from_dlpack(value)
    try:
        return np.asarray(memoryview(value))
    except TypeError:  # no buffer either
        return value


_SPEAKS: dict[type, bool] = {}  # which classes speak a protocol of arrays


def is_foreign_array(value: object) -> bool:
    """Whether a value is an array of numbers of another library: a pandas Series, a torch tensor, an `array.array`."""
    kind = type(value)
    speaks = _SPEAKS.get(kind)
    if speaks is None:
        # Asked of the class: instances of mocks and proxies answer to every name.
        named = any(getattr(kind, name, None) is not None for name in ("__array__", "__array_interface__", "__dlpack__"))
        own = issubclass(kind, (np.ndarray, np.generic, np.dtype, Tensor, Readable, type, *_UNTYPED))
        speaks = _SPEAKS[kind] = not own and (named or issubclass(kind, (array.array, memoryview)))
    if not speaks:
        return False
    try:
        return np.asarray(typed(value)).dtype.kind in "biufc"
    except (TypeError, ValueError, BufferError):  # no array after all: what it says is for those who convert it
        return False


def _typed_items(value: object) -> Any:
    return [_typed_items(item) for item in value] if isinstance(value, (list, tuple)) else typed(value)


def _array_of(value: object) -> tuple[ndarray[Any, Any], np.dtype[Any]]:
    """Python numbers and nested lists at full precision, with the dtype TensorFlow gives them by default: float32,
    int32 (int64 if needed), bool, complex128."""
    # A list of other libraries' arrays keeps their dtype; NumPy alone would walk through them element by element.
    if not isinstance(first_leaf(value), (np.generic, *_UNTYPED)):
        value = _typed_items(value)
    own = not isinstance(first_leaf(value), (np.ndarray, np.generic))  # Python's, whose dtype is ours to choose
    try:
        array = np.array(value)
    except ValueError as error:
        raise ValueError(f"cannot convert a ragged sequence to a tensor, pad its rows to one length: {error}") from None
    kind = array.dtype.kind
    if kind in "US" and own:  # NumPy writes numbers beside text as text, and takes zeros off the end of bytes
        array, kind = np.array(value, object), "O"
        if not _only_text(array):
            raise TypeError(f"text and numbers make no tensor together: {value!r}")
    if kind == "f" and own:
        return array, np.dtype(np.float32)
    if kind in "iu" and own:
        # int32 by default, as TensorFlow; wrapped values differ from what they were, so the comparison finds what does not fit.
        small = array.astype(np.int32)
        return array, np.dtype(np.int32) if (small == array).all() else array.dtype  # int64, uint64 beyond that
    if kind == "O" and not _only_text(array):
        raise TypeError(_not_a_tensor(value))
    if kind in "USO":
        return _bytes_of(array), np.dtype(object)
    return array, array.dtype.newbyteorder("=")


def _bytes_of(array: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Strings as opaque data: Python bytes, text in UTF-8."""
    items = array.astype(object)
    items[...] = np.vectorize(lambda item: item.encode() if isinstance(item, str) else item, otypes=[object])(items)
    return text(items)


def _only_text(array: ndarray[Any, Any]) -> bool:
    return all(isinstance(item, (str, bytes)) for item in array.ravel())


def _not_a_tensor(value: object) -> str:
    if isinstance(value, int):
        return f"cannot convert {value} to a tensor: integers have at most 64 bits; make it a float"
    if type(value).__module__.startswith("scipy.sparse."):
        return f"a {type(value).__name__} is no tensor: `a @ t` and `t @ a` multiply by it, a.toarray() is dense"
    return (
        f"cannot convert {value!r} of type {type(value).__name__} to a tensor; "
        "give a number, a (nested) list of numbers, a NumPy array or a tensor"
    )


def first_leaf(value: object) -> Any:
    """The first leaf of a nested sequence: what decides whether its dtype is kept."""
    while isinstance(value, (list, tuple)) and value:
        value = value[0]
    return value


def opened(values: object) -> tuple[Any, int | None] | None:
    """The list value behind a Python list whose items live in a program, and its length where that is known."""
    return HOOKS.opened(values) if values.__class__ is list and len(values) == 1 else None


def contains_tensor(value: Sequence[object]) -> bool:
    """Whether a sequence holds tensors, at any depth."""
    return opened(value) is not None or any(
        isinstance(item, (Tensor, Readable, Dim)) or (isinstance(item, (list, tuple)) and contains_tensor(item))
        for item in value
    )


def _cast_exact(array: ndarray[Any, Any], wanted: np.dtype[Any], value: object) -> ndarray[Any, Any]:
    if array.size and array.dtype.kind in "fc" and wanted.kind in "iu" and not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(f"cannot convert {value!r} to dtype {as_dtype(wanted).name} without losing its fraction")
    out = array.astype(wanted)
    whole = array.dtype.kind in "iu" and wanted.kind in "iu" and not isinstance(value, (np.ndarray, np.generic))
    if whole and not (out == array).all():
        raise NumberDoesNotFitError(
            f"cannot convert {value!r} to dtype {as_dtype(wanted).name}: it does not fit; use a wider dtype"
        )
    return out


def _fits(have: np.dtype[Any], want: np.dtype[Any]) -> bool:
    """Whether a value of another kind may silently take the tensor's dtype: never towards a poorer kind."""
    # bool < integer < floating < complex. A bool never becomes a number by itself: `t + True` is a mistake, mostly.
    order = "biufc"
    if have.kind not in order or want.kind not in order:
        return want.kind == "V" and have.kind in "biuf"  # bfloat16
    return order.index(have.kind) <= order.index(want.kind) and not (have.kind == "b" and want.kind != "b")


def _holds(wanted: np.dtype[Any], array: ndarray[Any, Any], value: object) -> bool:
    """NumPy integers do not take an integer dtype too small for their values."""
    if array.dtype.kind not in "iu" or not isinstance(value, (ndarray, np.generic)) or wanted.kind not in "iu":
        return True
    limits = np.iinfo(wanted)
    return not array.size or bool(limits.min <= array.min() and array.max() <= limits.max)
