"""Reading and replacing parts of tensors: slices, index arrays, updates.

Two linear pairs carry nearly everything: `getitem`/`put_slice` (ints, slices, newaxis) and `take`/`take_add` (one index array
along an axis); several index arrays are operands of a key (`ops/dynamic.py`). `update` is a pure replacement; duplicates in its
index arrays resolve as in NumPy, the last one wins, and only the winner gets a gradient.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from gradtape.core import batching
from gradtape.core.bfloat16 import rounded_once
from gradtape.core.dispatch import apply, convert, explained
from gradtape.core.forms import form_of
from gradtape.core.opdef import Cost, Fails, Memory, Op, Sample, composite, general, linear, multilinear, nondiff
from gradtape.core.strings import text
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Array, Axis, Index, Integer, Size, TensorLike
from gradtape.errors import InvalidArgumentError, InvalidIndexError, OutOfRangeError
from gradtape.ir.polynomial import Dim
from gradtape.ir.slots import slots
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import normal

Key = tuple[Any, ...]

# -- basic indexing --------------------------------------------------------------------------------------------------


def _getitem_impl(x: Array, *, key: Key) -> Array:
    out = x[key]
    if isinstance(out, np.ndarray):
        # a copy: a view would keep all of x alive, and `t[i] = v` writes into a buffer that nobody else sees
        return out.copy()
    return out if x.dtype.kind != "O" else text(out)  # one string


def _put_slice_impl(ct: Array, *, key: Key, shape: tuple[int, ...]) -> Array:
    out = np.zeros(shape, ct.dtype)
    out[key] = ct
    return out if shape else out[()]


def _add_slice(buffer: Array, ct: Array, key: Key) -> None:
    part = buffer[key]
    if part.__class__ is np.ndarray and part.base is (buffer if buffer.base is None else buffer.base):
        np.add(part, ct, part)  # a view: `+=` on the buffer would write the sum once more. (With True in a key it is a copy.)
    else:
        buffer[key] = part + ct


def _add_rows(buffer: Array, ct: Array, indices: Array, axis: int) -> None:
    place: Key = (slice(None),) * axis + (indices,)
    # (`buffer[place] += ct` would count an index that comes twice only once)
    np.add.at(buffer, place, ct)


def _clear_slice(ct: Array, key: Key) -> None:
    ct[key] = 0


GETITEM = linear(
    "getitem", "x", _getitem_impl,
    lambda ct, x_shape, key: put(ct, key=key, shape=tuple(x_shape)),
    infer=lambda x, *, key: TensorSpec(np.empty(tuple(x.shape), bool)[key].shape, x.dtype),
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs, key=(slice(None), *attrs["key"])),
    add_into=_add_slice,
    cost=Cost.FREE,
    memory=Memory.FRESH,
    samples=lambda: [
        Sample(normal(4, 3), (slice(1, 3), 0)),
        Sample(normal(4, 3), (slice(None, None, -2), None, slice(0, 2))),
        Sample(normal(4, 3), (Ellipsis, -1)),
        Sample(normal(4), (2,)),
        Sample(normal(4), (slice(3, 1),)),
        Sample(normal(), ()),
        Sample(normal(4), (7,), raises=(IndexError, "out of bounds")),
        Sample(normal(4), ("a",), raises=(TypeError, "index")),
    ],
)  # fmt: skip
taken = form_of(GETITEM)
PUT_SLICE = linear(
    "put_slice", "ct", _put_slice_impl,
    lambda ct, key: taken(ct, key=key),
    infer=lambda ct, *, key, shape: TensorSpec(shape, ct.dtype),
    batch=lambda op, flags, inputs, attrs: apply(
        op, *inputs, key=(slice(None), *attrs["key"]), shape=(inputs[0].shape[0], *attrs["shape"])
    ),
    call=lambda ct, key, shape: put(convert(ct), key=key, shape=shape),
    memory=Memory.FRESH,
    samples=lambda: [Sample(normal(2), (slice(1, 3), 0), (4, 3)), Sample(normal(), (2,), (4,))],
)  # fmt: skip
put = form_of(PUT_SLICE)

# -- one index array along an axis -----------------------------------------------------------------------------------


def _take_impl(x: Array, indices: Array, *, axis: int) -> Array:
    out = np.take(x, indices, axis=axis)
    return out if x.dtype.kind != "O" else text(out)  # one string is no array yet


@rounded_once
def _take_add_impl(ct: Array, indices: Array, *, axis: int, shape: tuple[int, ...]) -> Array:
    out = np.zeros(shape, ct.dtype)
    _add_rows(out, ct, indices, axis)
    return out


def _take_spec(x: TensorSpec, indices: TensorSpec, *, axis: int) -> TensorSpec:
    return TensorSpec((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)


def _batch_take(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    x, indices = inputs
    axis = attrs["axis"]
    if not flags[1]:
        return apply(op, x, indices, axis=axis + 1)
    if not flags[0]:  # the batch axis of the indices ends up at `axis`: bring it first
        return _axis_to_front(apply(op, x, indices, axis=axis), axis)
    rows = _axis_to_front(x, axis + 1)  # (n, batch, rest): index (entry, batch) pairs
    own = np.arange(x.shape[0]).reshape((-1, *([1] * (indices.ndim - 1))))
    out = read_places(rows, indices, own)  # (batch, indices..., rest)
    count = indices.ndim - 1
    order = list(range(out.ndim))
    moved = order[1 + count : 1 + count + axis]
    return transpose(out, [0, *moved, *order[1 : 1 + count], *order[1 + count + axis :]])


def _axis_to_front(x: Tensor, axis: int) -> Tensor:
    return transpose(x, (axis, *(i for i in range(x.ndim) if i != axis)))


TAKE = multilinear(
    "take", "x indices", _take_impl,
    lambda ct, x_shape, indices, axis: apply(TAKE_ADD, ct, indices, axis=axis, shape=tuple(x_shape)),
    None,
    infer=_take_spec,
    batch=_batch_take,
    add_into=_add_rows,
    sparse_rows=lambda ct, x_shape, indices, axis: ([ct], [indices], x_shape) if axis == 0 else None,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(4, 3), np.array([2, 0, 2]), 0),
        Sample(normal(2, 4, 3), np.array([[1, 1], [3, 0]]), 1),
        Sample(normal(4), np.array(1), 0),
        Sample(normal(4), np.zeros(0, int), 0),
        Sample(normal(4), np.array([9]), 0, raises=(IndexError, "out of bounds")),
    ],
)  # fmt: skip
TAKE_ADD = multilinear(
    "take_add", "ct indices", _take_add_impl,
    lambda ct, indices, axis: apply(TAKE, ct, indices, axis=axis),
    None,
    infer=lambda ct, indices, *, axis, shape: TensorSpec(shape, ct.dtype),
    batch=lambda op, flags, inputs, attrs: _batch_take_add(op, flags, inputs, attrs),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(3, 2), np.array([2, 0, 2]), 0, (4, 2)),
        Sample(normal(2, 2, 2), np.array([[1, 1], [3, 0]]), 1, (2, 4)),
        Sample(normal(2, 3, 2), np.array([1, 1, 3]), 1, (2, 4, 2)),
    ],
)  # fmt: skip


def _batch_take_add(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    axis, shape = attrs["axis"], attrs["shape"]
    size = batching.batch_size(flags, inputs)
    if not flags[1]:
        return apply(op, *inputs, axis=axis + 1, shape=(size, *shape))
    ct, indices = batching.all_batched(flags, inputs)
    count = indices.ndim - 1
    # (batch, before, indices, after) -> (batch, indices, before, after): add to (entry, place) pairs, and back
    order = list(range(ct.ndim))
    ct = transpose(ct, [0, *order[1 + axis : 1 + axis + count], *order[1 : 1 + axis], *order[1 + axis + count :]])
    own = np.arange(size).reshape((size, *([1] * count)))
    rest = (*shape[:axis], *shape[axis + 1 :])
    out = add_places(ct, own, indices, shape=(size, shape[axis], *rest))
    return transpose(out, [0, *range(2, 2 + axis), 1, *range(2 + axis, out.ndim)])


# -- replacement -----------------------------------------------------------------------------------------------------


def _update_into(x: Array, value: Array, *, key: Key) -> Array:
    x[key] = value
    return x


def winners(key: Key, shape: tuple[int, ...]) -> Array | None:
    """Which positions of the value survive when index arrays name a place twice; None when all do."""
    if not any(isinstance(k, np.ndarray) for k in key):
        return None
    # Each position writes its number to its place, as the update writes values: the number that is there afterwards is that of
    # the last, which won.
    places = np.arange(math.prod(shape)).reshape(shape)[key]
    last = np.full(math.prod(shape), -1)
    order = np.arange(places.size)
    last[places.ravel()] = order
    wins = (last[places.ravel()] == order).reshape(places.shape)
    return None if wins.all() else wins


def update_value_ct(ct: Tensor, value_spec: TensorSpec, key: Key) -> Tensor:
    """The cotangent of what was written: ct at the places it survived, summed over broadcasting."""
    part = part_of(ct, key)
    wins = winners_later(part, ct, key) if is_symbolic(ct.shape) else winners(key, tuple(ct.shape))
    if wins is not None:
        part = part * cast(wins, part.dtype)
    return unbroadcast(part, value_spec.shape)


def winners_later(part: Tensor, whole: Tensor, key: Key) -> Tensor | None:
    """As `winners`, where only run time knows which places -1 and the like are: numbers written there, and read again."""
    if not any(isinstance(k, np.ndarray) for k in key):
        return None
    order = reshape(grid(part.size, 0, 1), tuple(part.shape))
    return equal(part_of(apply(UPDATE, zeros(tuple(whole.shape), order.dtype), order, key=key), key), order)


def _batch_update(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    x, value = batching.all_batched(flags, inputs)
    key = attrs["key"]
    # (an empty array of one byte an element: only its shape is asked for)
    target = np.empty(tuple(x.shape)[1:], bool)[key].ndim
    if value.ndim - 1 < target:
        value = reshape(value, (value.shape[0], *([1] * (target - value.ndim + 1)), *tuple(value.shape)[1:]))
    if _splits(key):  # NumPy puts the axes of the index arrays first, ahead of the batch axis too
        count = np.broadcast_shapes(*(k.shape for k in key if isinstance(k, np.ndarray)))
        value = transpose(value, (*range(1, 1 + len(count)), 0, *range(1 + len(count), value.ndim)))
    return apply(op, x, value, key=(slice(None), *key))


def _splits(key: Key) -> bool:
    """Whether index arrays are separated by slices: NumPy then moves their axes to the front."""
    places = [i for i, k in enumerate(key) if isinstance(k, (np.ndarray, int, np.integer))]
    arrays = any(isinstance(k, np.ndarray) for k in key)
    return arrays and places[-1] - places[0] != len(places) - 1


UPDATE = general(
    "update", "x value", lambda x, value, *, key: _update_into(np.array(x), value, key=key)[()],
    overwrites=_update_into,
    vjps=(
        lambda ct, key: apply(UPDATE, ct, zeros_like(part_of(ct, key)), key=key),
        lambda ct, value_spec, key: update_value_ct(ct, value_spec, key),
    ),
    jvps=(
        lambda t, key: apply(UPDATE, t, zeros_like(part_of(t, key)), key=key),
        lambda t, out_spec, key: update_tangent(t, out_spec, key),
    ),
    infer=lambda x, value, *, key: TensorSpec(x.shape, x.dtype),
    batch=_batch_update,
    in_place=_clear_slice,
    call=lambda x, value, key: apply(UPDATE, convert(x), convert(value), key=key),  # of `updated` below, too
    samples=lambda: [
        Sample(normal(4, 4), normal(2, 2), (slice(0, 2), slice(0, 2))),
        Sample(normal(4), normal(), (2,)),
        Sample(normal(4, 3), normal(3), (slice(1, 3),)),
        Sample(normal(4, 3), normal(2, 3), (np.array([0, 0]),)),
        Sample(normal(5), normal(3), (np.array([4, 1, 2]),)),
        Sample(normal(3, 2, 3), normal(2, 2), (np.array([0, 2]), slice(None), np.array([1, 1]))),
        Sample(normal(4), normal(3), (slice(0, 2),), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip


def check_update(data: Array, value: Array, key: Key) -> None:
    """Raise as the update would, before anything is written."""
    try:
        # without memory: one byte that stands for the whole array
        target = np.broadcast_to(np.False_, data.shape)[key].shape
        np.broadcast_to(np.broadcast_to(np.False_, value.shape), target)
    except IndexError as error:
        raise explained(UPDATE, (data, value), {"key": key}, error) from None
    except ValueError:
        raise InvalidArgumentError(
            f"t[...] = value: a value of shape {value.shape} does not broadcast to {target}, the shape of what is replaced"
        ) from None


# the same op when the buffer was written in place already: only the record is new
UPDATED = replace(UPDATE, name="updated", impl=lambda x, value, *, key: x, overwrites=None, memory=Memory.SHARED)


def update_tangent(t: Tensor, out_spec: TensorSpec, key: Key) -> Tensor:
    """The tangent of the written value inside zeros."""
    return apply(UPDATE, zeros_of(out_spec), t, key=key)


def zeros_of(spec: TensorSpec) -> Tensor:
    """A tensor of zeros with the shape and dtype of a spec."""
    return zeros(spec.shape, spec.dtype)


# -- the index a user writes -----------------------------------------------------------------------------------------


def normal_key(key: Any, shape: tuple[int, ...]) -> Key:
    """The key as a tuple of ints, slices with Python ints, None, and integer arrays; masks become index arrays."""
    parts = key if isinstance(key, tuple) else (key,)
    out: list[Any] = []
    for part in parts:
        if isinstance(part, Readable):
            part = part.read()
        if isinstance(part, Tensor):
            part = part._data
        if isinstance(part, list):
            part = np.asarray(part) if part else np.zeros(0, np.intp)
            if part.dtype == object:
                part = np.array([int(p) for p in part])
        if isinstance(part, (bool, np.bool_)) or (isinstance(part, np.ndarray) and part.dtype == bool and not part.ndim):
            out.append(bool(part))  # a new axis of length one or zero
        elif isinstance(part, np.ndarray) and part.dtype == bool:
            out.extend(_mask_arrays(part, out, shape))
        elif isinstance(part, np.ndarray):
            if part.dtype.kind not in "iu":
                raise TypeError(f"index arrays must be integer or boolean, got dtype {part.dtype.name}")
            out.append(_reachable(part).astype(np.intp) if part.ndim else int(_reachable(part)))
        elif isinstance(part, slice):
            out.append(slice(*(None if v is None else _whole(v) for v in (part.start, part.stop, part.step))))
        elif part is None or part is Ellipsis:
            out.append(part)
        else:
            out.append(_reachable(_whole(part)))
    if any(k is True or k is False for k in out) and any(isinstance(k, np.ndarray) for k in out):
        raise InvalidArgumentError("an index with a single True or False together with index arrays is not supported")
    return tuple(out)


def _reachable(places: Any) -> Any:
    """Places that NumPy can look for; it would take uint64 ones beyond int64 for negative ones, or not say what is wrong."""
    if places.__class__ is int or getattr(places, "dtype", None) == np.uint64:
        high = places if places.__class__ is int else int(places.max(initial=0))
        if not -(2**63) <= high < 2**63:
            raise OutOfRangeError(f"index {high} is out of bounds: no axis is that long")
    return places


def _mask_arrays(mask: Array, before: list[Any], shape: tuple[int, ...]) -> list[Array]:
    if Ellipsis not in before:
        axis = sum(1 for b in before if b is not None)
        want = shape[axis : axis + mask.ndim]
        if tuple(mask.shape) != tuple(want):
            raise OutOfRangeError(f"boolean index of shape {mask.shape} does not match the indexed shape {want}")
    return [a.astype(np.intp) for a in np.nonzero(mask)]


def _whole(value: Integer) -> Size:
    if value.__class__ is Dim:
        return value
    if isinstance(value, Readable):
        value = value.read()
    try:
        return int(value.__index__())
    except (AttributeError, TypeError):
        raise TypeError(f"{value!r} is not a valid index; use integers, slices, None, ..., integer or boolean arrays") from None


static_index = _whole  # an integer, or a symbolic dimension, of an index


def _is_basic(parts: tuple[Any, ...]) -> bool:
    """Whether a key is normal as it is: nothing but Python's own integers, slices of them, None and `...`."""
    for part in parts:
        if part.__class__ is slice:
            for end in (part.start, part.stop, part.step):
                if end is not None and end.__class__ is not int:
                    return False
        elif part.__class__ is not int and part is not None and part is not Ellipsis:
            return False
    return True


def getitem(x: Tensor, key: Index) -> Tensor:
    """x[key] for everything NumPy's indexing accepts."""
    if key.__class__ is int:
        return taken(x, key=(key,))
    if x.__class__ is Tensor:
        parts = key if key.__class__ is tuple else (key,)
        if _is_basic(parts):
            return taken(x, key=parts)
    if is_dynamic(x, key):
        return getitem_at(x, key)
    return part_of(x, normal_key(key, tuple(x.shape)))


def part_of(x: Tensor, key: Key) -> Tensor:
    """x[key] for a normal key: index arrays are operands."""
    arrays = [k for k in key if isinstance(k, np.ndarray)]
    if not arrays:
        return taken(x, key=key)
    if len(arrays) == 1:
        whole = whole_key(key, x.ndim)
        if all(k is arrays[0] or (isinstance(k, slice) and k == slice(None)) for k in whole):
            axis = next(axis for axis, k in enumerate(whole) if k is arrays[0])
            return apply(TAKE, x, arrays[0], axis=axis)  # whose gradient may be a few rows
    places = list(slots(len(arrays)))
    template = tuple([places.pop(0) if isinstance(k, np.ndarray) else k for k in key])
    return apply(GETITEM_AT, x, *arrays, key=template, size=None)


# -- TensorFlow's names ----------------------------------------------------------------------------------------------


@composite(
    samples=lambda: [
        Sample(normal(4, 3), np.array([2, 0, 2])),
        Sample(normal(2, 4), np.array([[1, 1], [3, 0]]), axis=1),
        Sample(normal(2, 4), np.array([[1, 1], [3, 0]]), axis=1, batch_dims=1),
        Sample(normal(2, 3, 4), np.array([[1, 3, 3], [0, 2, 1]]), axis=2, batch_dims=1),
        Sample(normal(2, 4), np.array(1)),
        Sample(normal(4), np.array([-1]), raises=(ValueError, "not in")),
        Sample(normal(4), np.array([0.5]), raises=(ValueError, "integers")),
    ]
)
def gather(
    params: TensorLike, indices: TensorLike, validate_indices: bool | None = None, axis: Axis | None = None,
    batch_dims: int = 0, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Slices of `params` along `axis` at the given indices; the gradient on axis 0 is an `IndexedSlices`.

    >>> gt.gather([10.0, 20.0, 30.0], [2, 0]).numpy()
    array([30., 10.], dtype=float32)
    """
    x, places = convert(params), convert(indices)
    batch = int(batch_dims) % (places.ndim + 1) if batch_dims else 0
    place = normal_axis(batch if axis is None else axis, x.ndim, "gather")
    if not places.dtype.is_integer:
        raise InvalidArgumentError(f"gather: indices must be integers, got dtype {places.dtype.name}")
    places = check_range(places, x.shape[place], "gather")
    if batch == 0:
        return apply(TAKE, x, places, axis=place)
    if place < batch:
        raise InvalidArgumentError(f"gather: axis {place} must not be smaller than batch_dims {batch}")
    lead = tuple(x.shape)[:batch]
    if place > batch:  # bring the gathered axis right behind the batch axes
        order = (*range(batch), place, *(i for i in range(batch, x.ndim) if i != place))
        x = transpose(x, order)
    count = places.ndim - batch
    grids = [grid(n, i, places.ndim) for i, n in enumerate(lead)]
    out = read_places(x, *grids, places)
    if place > batch:
        between = place - batch
        out = transpose(
            out,
            (*range(batch), *range(batch + count, batch + count + between), *range(batch, batch + count),
             *range(batch + count + between, out.ndim)),
        )  # fmt: skip
    return out


def check_range(indices: Tensor, size: Size | None, op: str, what: str = "index") -> Tensor:
    """The indices, refused outside [0, size): negative ones are usually a mistake in TensorFlow-style gathers. Without a
    size (None) only negative ones are refused: another check knows the end.

    In a program they are refused when it runs, in a batch when it is known."""
    if indices.__class__ is Tensor and (size is None or size.__class__ is int):
        _check_places(indices._data, size=size, caller=op, what=what)
        return indices
    return apply(CHECKED_INDICES, indices, size=size, caller=op, what=what)


def _check_places(indices: Array, *, size: int | None, caller: str, what: str) -> Array:
    if indices.size:
        low, high = indices.min(), indices.max()
        if size is None and low < 0:
            raise InvalidIndexError(f"{caller}: the {what} must not be negative, got {low}")
        if size is not None and (low < 0 or high >= size):
            raise InvalidIndexError(f"{caller}: {what} {low if low < 0 else high} is not in [0, {size})")
    return indices


CHECKED_INDICES = nondiff(
    "checked_indices", "indices", _check_places,
    infer=lambda indices, *, size, caller, what: indices,
    reason="indices have no derivative",
    batch=batching.elementwise,
    call=lambda indices, size: apply(CHECKED_INDICES, convert(indices), size=size, caller="gather", what="index"),
    memory=Memory.SHARED,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(np.array([2, 0, 2]), 3),
        Sample(np.array(1), 2),
        Sample(np.array(7), None),
        Sample(np.array([-1]), 2, raises=(ValueError, "not in")),
        Sample(np.array([-1]), None, raises=(ValueError, "must not be negative")),
    ],
)  # fmt: skip


OPS = (GETITEM, PUT_SLICE, TAKE, TAKE_ADD, UPDATE, UPDATED, CHECKED_INDICES)

from gradtape.ops.compare import equal
from gradtape.ops.create import grid, is_symbolic, zeros, zeros_like
from gradtape.ops.dynamic import GETITEM_AT, add_places, getitem_at, is_dynamic, read_places, whole_key
from gradtape.ops.elementwise import cast
from gradtape.ops.shape import normal_axis, reshape, transpose, unbroadcast
