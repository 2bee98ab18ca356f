"""Indexing with places known only at run time: `x[i]`, `x[i, 2:n]`, `x[mask]` and their updates, in programs and batches.

The attribute `key` is an index with slots (`ir/slots.py`) for the operands: a scalar is an element or the bound of a slice,
an array an index array. Reading and putting into zeros are adjoint; `add_at` is a sum with something that is zero elsewhere;
in `update_at` the last of several values for one place wins, and only the winner gets a gradient. Bounds of slices are cut
as in Python. Eager code with concrete indices does not come here (`ops/index.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradtape.core import batching
from gradtape.core.dispatch import apply, convert, explained
from gradtape.core.opdef import Fails, Op, Sample, general, nondiff
from gradtape.core.record import TRACING
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Array, Dims, Index, Integer, Size
from gradtape.errors import InvalidArgumentError, OutOfRangeError
from gradtape.ir.slots import Slot, filled, slots, slots_in
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import normal

Key = tuple[Any, ...]

# -- the axes of x[key] ------------------------------------------------------------------------------------------------


def is_open(part: object) -> bool:
    """Whether a part of a key is a slice with a bound that run time knows."""
    return isinstance(part, slice) and bool(slots_in(part))


def whole_key(key: Key, rank: int) -> Key:
    """The key with one part for every axis (and None for new ones)."""
    used = sum(1 for k in key if k is not None and k is not Ellipsis)
    if used > rank:
        raise OutOfRangeError(f"too many indices: {used} for a tensor of rank {rank}")
    # Without an ellipsis the missing axes are at the end.
    fill = (slice(None),) * (rank - used)
    for at, part in enumerate(key):
        if part is Ellipsis:
            return (*key[:at], *fill, *key[at + 1 :])
    return (*key, *fill)


def result_axes(key: Key, rank: int, ranks: tuple[int, ...]) -> list[Any]:
    """Where each axis of x[key] comes from: (axis of x, its slice), None for a new one, or the number of an axis of the
    index arrays. `ranks` are those of the operands. Index arrays apart from each other put their axes first, as in NumPy."""
    # All index arrays are broadcast together, so as many axes as the largest of them has take the place of those they index.
    count = max([ranks[part.index] for part in key if isinstance(part, Slot)], default=0)
    axes: list[Any] = []
    axis, start = 0, None
    for part in whole_key(key, rank):
        if part is None:
            axes.append(None)
            continue
        if isinstance(part, slice):
            axes.append((axis, part))
        elif start is None:
            start = len(axes)
        axis += 1
    # NumPy's rule: index arrays side by side leave their axes where they are. With a slice, a new axis or `...` between them,
    # even one of no axes, there is no such place, and the axes go to the front. Integers count among them.
    places = [place for place, part in enumerate(key) if not (part is None or part is Ellipsis or isinstance(part, slice))]
    apart = bool(places) and places[-1] - places[0] != len(places) - 1
    at = 0 if apart or start is None else start
    return [*axes[:at], *range(count), *axes[at:]]


def result_shape(shape: Dims, key: Key, arrays: tuple[Any, ...], size: tuple[int, ...] | None) -> tuple[Any, ...]:
    """The shape of x[key]; `size` has the lengths of open slices, None where unknown."""
    joint = np.broadcast_shapes(*(tuple(arrays[k.index].shape) for k in key if isinstance(k, Slot)))
    lengths = dict(zip(open_axes(key, len(shape)), size or (), strict=False))
    dims: list[Any] = []
    for source in result_axes(key, len(shape), ranks_of(arrays)):
        if source is None:
            dims.append(1)
        elif isinstance(source, int):
            dims.append(joint[source])
        elif is_open(source[1]):
            dims.append(lengths.get(source[0]))
        else:
            dims.append(len(range(*source[1].indices(shape[source[0]]))))
    return tuple(dims)


def open_axes(key: Key, rank: int) -> list[int]:
    """The axes of x that open slices cut, in order."""
    parts = [part for part in whole_key(key, rank) if part is not None]
    return [axis for axis, part in enumerate(parts) if is_open(part)]


def ranks_of(arrays: Iterable[Tensor | Array]) -> tuple[int, ...]:
    """The ranks of the operands of a key."""
    return tuple([len(a.shape) for a in arrays])


def lengths_of(shape: Dims, key: Key, rank: int, ranks: tuple[int, ...]) -> Any:
    """What the shape of a value for x[key] tells about the lengths of open slices; None where it may be broadcast."""
    if not any(is_open(part) for part in key):
        return None
    axes = result_axes(key, rank, ranks)
    # A size of 1 says nothing: the value may be broadcast along that axis.
    dims = [None] * (len(axes) - len(shape)) + [None if d.__class__ is int and d == 1 else d for d in shape]
    known = {source[0]: d for source, d in zip(axes, dims, strict=True) if isinstance(source, tuple)}
    return tuple([known[axis] for axis in open_axes(key, rank)])


# -- on arrays ---------------------------------------------------------------------------------------------------------


def _has_arrays(arrays: Iterable[Array]) -> bool:
    return any(a.ndim for a in arrays)


def _getitem_at_impl(x: Array, *indices: Array, key: Key, size: tuple[int, ...] | None) -> Array:
    place = filled(key, indices)
    try:
        out = x[place]
    except IndexError as error:
        raise explained(GETITEM, (x,), {"key": place}, error) from error
    if size is not None:
        _check_lengths(out, x, key, place, size, ranks_of(indices))
    if isinstance(out, np.ndarray):
        return out if out.base is None else out.copy()
    return out if x.dtype.kind != "O" else np.array(out, object)


def _check_lengths(out: Array, x: Array, key: Key, place: Key, size: tuple[int | None, ...], ranks: tuple[int, ...]) -> None:
    wanted = dict(zip(open_axes(key, x.ndim), size, strict=True))
    for have, source in zip(out.shape, result_axes(key, x.ndim, ranks), strict=True):
        if isinstance(source, tuple) and wanted.get(source[0]) not in (None, have):
            raise OutOfRangeError(
                f"x[{place}] of shape {x.shape} has only {have} of the {wanted[source[0]]} entries along axis {source[0]} that "
                "the traced function counts on: the slice is cut at the end of the axis"
            )


def _put_at_impl(part: Array, *indices: Array, key: Key, shape: tuple[int, ...]) -> Array:
    out = np.zeros(shape, part.dtype)
    if shape and not _has_arrays(indices) and not _has_arrays(k for k in key if isinstance(k, np.ndarray)):
        # every place once: -0.0 stays what it is, as in `put_slice`
        return update_into(out, part, *indices, key=key)
    return add_into(out, part, *indices, key=key) if shape else out[()] + part


def add_into(out: Array, value: Array, *indices: Array, key: Key) -> Array:
    """Add a value at the places, into `out` itself."""
    place = filled(key, indices)
    try:
        if _has_arrays(indices) or any(isinstance(k, np.ndarray) for k in key):
            np.add.at(out, place, value)
        else:
            out[place] += value
    except IndexError as error:
        raise explained(UPDATE, (out, value), {"key": place}, error) from error
    return out


def update_into(out: Array, value: Array, *indices: Array, key: Key) -> Array:
    """Replace what stands at the places, in `out` itself."""
    place = filled(key, indices)
    try:
        out[place] = value
    except IndexError as error:
        raise explained(UPDATE, (out, value), {"key": place}, error) from error
    return out


def _update_at_impl(x: Array, value: Array, *indices: Array, key: Key) -> Array:
    out = update_into(np.array(x), value, *indices, key=key)
    return out if out.ndim else out[()]


def _add_at_impl(x: Array, value: Array, *indices: Array, key: Key) -> Array:
    out = add_into(np.array(x), value, *indices, key=key)
    return out if out.ndim else out[()]


def _places_at_impl(*indices: Array, key: Key, shape: tuple[int, ...]) -> Array:
    return np.arange(math.prod(shape)).reshape(shape)[filled(key, indices)]


def _winners_at_impl(*indices: Array, key: Key, shape: tuple[int, ...]) -> Array | bool:
    place = tuple(k if not isinstance(k, np.generic) else int(k) for k in filled(key, indices))
    wins = winners(place, shape)
    return np.ones(np.broadcast_to(np.False_, shape)[place].shape, bool)[()] if wins is None else wins


def _mask_indices_impl(mask: Array, *, shape: tuple[int, ...]) -> tuple[Any, ...]:
    if mask.shape != tuple(shape):
        raise OutOfRangeError(f"boolean index of shape {mask.shape} does not match the indexed shape {tuple(shape)}")
    return np.nonzero(mask)


# -- batching ----------------------------------------------------------------------------------------------------------


def _batch(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    """Batched values go along an axis in front; batched places become positions in the flattened array."""
    count = 2 if op is UPDATE_AT or op is ADD_AT else 1
    key, indices = attrs["key"], inputs[count:]
    if any(flags[count:]):
        return _batch_places(op, flags, inputs, attrs, count)
    shape = attrs["shape"] if op is PUT_AT else tuple(inputs[0].shape)[1 if flags[0] else 0 :]
    # The same places in every example: the batch axis is a full slice in front of the key. Its axis of the result is then
    # wherever `result_axes` puts it, which need not be the front.
    wide, ranks = (slice(None), *key), ranks_of(indices)
    values = list(batching.all_batched(flags[:count], inputs[:count]))
    axes = result_axes(wide, len(shape) + 1, ranks)
    at = next(i for i, source in enumerate(axes) if isinstance(source, tuple) and source[0] == 0)
    if op is not GETITEM_AT:
        values[-1] = _axis_moved(_widened(values[-1], len(axes)), 0, at)
    if op is PUT_AT:
        return apply(op, *values, *indices, key=wide, shape=(values[0].shape[at], *shape))
    if op is not GETITEM_AT:
        return apply(op, *values, *indices, key=wide)
    return _axis_moved(apply(op, *values, *indices, key=wide, size=attrs["size"]), at, 0)


def _widened(value: Tensor, rank: int) -> Tensor:
    """Unit axes behind the batch axis up to a rank."""
    missing = rank - value.ndim
    return reshape(value, (value.shape[0], *([1] * missing), *tuple(value.shape)[1:])) if missing > 0 else value


def _axis_moved(x: Tensor, source: int, target: int) -> Tensor:
    order = [i for i in range(x.ndim) if i != source]
    order.insert(target, source)
    return x if source == target else transpose(x, tuple(order))


def _batch_places(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any], count: int) -> Tensor:
    key, indices = attrs["key"], inputs[count:]
    shape = attrs["shape"] if op is PUT_AT else tuple(inputs[0].shape)[1 if flags[0] else 0 :]
    length = batching.batch_size(flags, inputs)
    if all(isinstance(part, Slot) for part in key):
        return _batch_rows(op, flags, inputs, attrs, count)
    # Other places in each example: no key can say that. The positions in the flattened array can, so each example's are counted
    # out, and the op becomes one on (example, position) pairs.
    places = PLACES_AT.batch(PLACES_AT, flags[count:], indices, {"key": key, "shape": shape})  # type: ignore[misc]
    own = np.arange(length).reshape((length, *([1] * (places.ndim - 1))))
    total = math.prod(shape)
    if op is GETITEM_AT:
        (x,) = inputs[:1]
        if not flags[0]:
            return apply(TAKE, reshape(x, (total,)), places, axis=0)
        return read_places(reshape(x, (length, total)), own, places)
    values = batching.all_batched((*flags[:count], True), (*inputs[:count], places))[:-1]
    value = broadcast_to(_widened(values[-1], places.ndim), tuple(places.shape))
    if op is PUT_AT:
        return reshape(add_places(value, own, places, shape=(length, total)), (length, *shape))
    return reshape(apply(op, reshape(values[0], (length, total)), value, own, places, key=slots(2)), (length, *shape))


def _batch_rows(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any], count: int) -> Tensor:
    """Index arrays for the leading axes and nothing else: the number of the example is one more of them, in front."""
    named = [(inputs[count + part.index], flags[count + part.index]) for part in attrs["key"]]
    rank = max(a.ndim - flag for a, flag in named)
    size = batching.batch_size(flags, inputs)
    lined = [_widened(a, 1 + rank) if flag else a for a, flag in named]
    own = np.arange(size).reshape((size, *([1] * rank)))
    if op is GETITEM_AT:
        return read_places(inputs[0], *([own] if flags[0] else []), *lined)
    values = list(batching.all_batched((*flags[:count], True), (*inputs[:count], own)))[:-1]
    if op is PUT_AT:
        lead = np.broadcast_shapes(*(tuple(a.shape) for a in (own, *lined)))
        return add_places(reshape(values[0], (*lead, *values[0].shape[1 + rank :])), own, *lined, shape=(size, *attrs["shape"]))
    values[1] = _widened(values[1], values[0].ndim - len(named) + rank)
    return apply(op, *values, own, *lined, key=slots(1 + len(lined)))


# -- the ops -----------------------------------------------------------------------------------------------------------


def update_value_ct_at(ct: Tensor, value_spec: TensorSpec, indices: tuple[Tensor, ...], key: Key) -> Tensor:
    """The cotangent of what `update_at` wrote: ct at the places it survived, summed over broadcasting."""
    part = read_for(ct, value_spec, indices, key)
    if any(i.ndim for i in indices):
        wins = apply(WINNERS_AT, *indices, key=key, shape=tuple(ct.shape))
        part = part * cast(wins, part.dtype)
    return unbroadcast(part, value_spec.shape)


def read_for(x: Tensor, value_spec: TensorSpec, indices: tuple[Tensor, ...], key: Key) -> Tensor:
    """x[key], to be compared with a value that went there."""
    size = lengths_of(value_spec.shape, key, x.ndim, ranks_of(indices))
    return apply(GETITEM_AT, x, *indices, key=key, size=size)


def read_places(x: Tensor, *arrays: Tensor | Array) -> Tensor:
    """x[arrays]: index arrays for the leading axes."""
    return apply(GETITEM_AT, x, *arrays, key=slots(len(arrays)), size=None)


def add_places(part: Tensor, *arrays: Tensor | Array, shape: Dims) -> Tensor:
    """Zeros of a shape with a part added at [arrays]: the adjoint of `read_places`."""
    return apply(PUT_AT, part, *arrays, key=slots(len(arrays)), shape=shape)


def add_tangent(tangents: tuple[Any, ...], x: Tensor, indices: tuple[Tensor, ...], key: Key) -> Tensor:
    """The tangent of a sum at places."""
    if tangents[1] is None:
        return tangents[0]
    return apply(ADD_AT, zeros_like(x) if tangents[0] is None else tangents[0], tangents[1], *indices, key=key)


def update_tangent_at(tangents: tuple[Tensor | None, ...], x: Tensor, indices: tuple[Tensor, ...], key: Key) -> Tensor:
    """The tangent of a replacement: zeros where what went in, or what was there, does not move."""
    whole = zeros_like(x) if tangents[0] is None else tangents[0]
    return apply(UPDATE_AT, whole, zeros((), x.dtype) if tangents[1] is None else tangents[1], *indices, key=key)


_KEYS = (
    ((Slot(0),), (np.array(2),)),
    ((Slot(0), slice(None, None, 2)), (np.array(-1),)),
    ((slice(Slot(0), Slot(1)), None, Slot(2)), (np.array(1), np.array(4), np.array(0))),
    ((Ellipsis, Slot(0)), (np.array([1, 0, 1]),)),
    ((Slot(0), slice(1, None), Slot(1)), (np.array([0, 2]), np.array([1, 1]))),
    ((slice(Slot(0), None), Slot(1)), (np.array(2), np.array([[1], [0]]))),
)

GETITEM_AT = general(
    "getitem_at", "x *indices", _getitem_at_impl,
    vjps=(lambda ct, x_spec, indices, key: apply(PUT_AT, ct, *indices, key=key, shape=tuple(x_spec.shape)), None),
    jvp=lambda tangents, indices, key, size: apply(GETITEM_AT, tangents[0], *indices, key=key, size=size),
    infer=lambda x, *indices, key, size: TensorSpec(result_shape(x.shape, key, indices, size), x.dtype),
    batch=_batch,
    call=lambda x, key, indices, size=None: apply(GETITEM_AT, convert(x), *map(convert, indices), key=key, size=size),
    fails=Fails.VALUES,
    samples=lambda: [
        *(Sample(normal(4, 3, 2), key, indices) for key, indices in _KEYS),
        Sample(normal(4), (slice(Slot(0), Slot(1)),), (np.array(1), np.array(3)), (2,)),
        Sample(normal(4), (slice(Slot(0), Slot(1)),), (np.array(3), np.array(1))),
        Sample(normal(4), (Slot(0),), (np.array(4),), raises=(IndexError, "out of bounds")),
        Sample(normal(4), (slice(Slot(0), Slot(1)),), (np.array(3), np.array(6)), (3,), raises=(IndexError, "only 1")),
    ],
)  # fmt: skip
PUT_AT = general(
    "put_at", "part *indices", _put_at_impl,
    vjps=(lambda ct, part_spec, indices, key: read_for(ct, part_spec, indices, key), None),
    jvp=lambda tangents, indices, key, shape: apply(PUT_AT, tangents[0], *indices, key=key, shape=shape),
    infer=lambda part, *indices, key, shape: TensorSpec(shape, part.dtype),
    batch=_batch,
    call=lambda part, key, indices, shape: apply(PUT_AT, convert(part), *map(convert, indices), key=key, shape=shape),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(3, 2), *_KEYS[0], (4, 3, 2)),
        Sample(normal(3, 1, 2), *_KEYS[2], (4, 3, 2)),
        Sample(normal(4, 3, 3), *_KEYS[3], (4, 3, 3)),
        Sample(normal(2, 2), *_KEYS[4], (4, 3, 2)),
        Sample(normal(), (Slot(0),), (np.array(1),), (4,)),
    ],
)  # fmt: skip
UPDATE_AT = general(
    "update_at", "x value *indices", _update_at_impl,
    overwrites=update_into,
    vjps=(
        lambda ct, indices, key: apply(UPDATE_AT, ct, zeros((), ct.dtype), *indices, key=key),
        lambda ct, value_spec, indices, key: update_value_ct_at(ct, value_spec, indices, key),
        None,
    ),
    jvp=lambda tangents, x, indices, key: update_tangent_at(tangents, x, indices, key),
    infer=lambda x, value, *indices, key: TensorSpec(x.shape, x.dtype),
    batch=_batch,
    call=lambda x, value, key, indices: apply(UPDATE_AT, convert(x), convert(value), *map(convert, indices), key=key),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(4, 3, 2), normal(3, 2), *_KEYS[0]),
        Sample(normal(4, 3, 2), normal(), *_KEYS[1]),
        Sample(normal(4, 3, 2), normal(2), *_KEYS[2]),
        Sample(normal(4, 3, 3), normal(3, 3), *_KEYS[3]),
        Sample(normal(4, 3, 2), normal(2, 2), *_KEYS[4]),
        Sample(normal(4), normal(), (Slot(0),), (np.array(4),), raises=(IndexError, "out of bounds")),
        Sample(normal(4), normal(3), (slice(None, Slot(0)),), (np.array(2),), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip
ADD_AT = general(
    "add_at", "x value *indices", _add_at_impl,
    overwrites=add_into,
    vjps=(
        lambda ct: ct,
        lambda ct, value_spec, indices, key: unbroadcast(read_for(ct, value_spec, indices, key), value_spec.shape),
        None,
    ),
    jvp=lambda tangents, x, indices, key: add_tangent(tangents, x, indices, key),
    infer=lambda x, value, *indices, key: TensorSpec(x.shape, x.dtype),
    batch=_batch,
    call=lambda x, value, key, indices: apply(ADD_AT, convert(x), convert(value), *map(convert, indices), key=key),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(4, 3, 2), normal(3, 2), *_KEYS[0]),
        Sample(normal(4, 3, 2), normal(3, 1, 2), *_KEYS[2]),
        Sample(normal(4, 3, 3), normal(3), *_KEYS[3]),
        Sample(normal(4, 3, 2), normal(2, 2), *_KEYS[4]),
        Sample(normal(4, 3), normal(2), (slice(1, 3), 0), ()),
        Sample(normal(4), normal(), (Slot(0),), (np.array(-5),), raises=(IndexError, "out of bounds")),
    ],
)  # fmt: skip
# the positions of x[key] in the flattened x
PLACES_AT = nondiff(
    "places_at", "*indices", _places_at_impl,
    infer=lambda *indices, key, shape: TensorSpec(result_shape(shape, key, indices, None), "int64"),
    reason="indices have no derivative", batch=batching.looped,
    call=lambda key, indices, shape: apply(PLACES_AT, *map(convert, indices), key=key, shape=shape),
    fails=Fails.VALUES,
    samples=lambda: [Sample(*_KEYS[0], (4, 3, 2)), Sample(*_KEYS[4], (4, 3, 2))],
)  # fmt: skip
WINNERS_AT = nondiff(
    "winners_at", "*indices", _winners_at_impl,
    infer=lambda *indices, key, shape: TensorSpec(result_shape(shape, key, indices, None), "bool"),
    reason="indices have no derivative", batch=batching.looped,
    call=lambda key, indices, shape: apply(WINNERS_AT, *map(convert, indices), key=key, shape=shape),
    fails=Fails.VALUES,
    samples=lambda: [Sample(*_KEYS[3], (4, 3, 3)), Sample(*_KEYS[4], (4, 3, 2)), Sample(*_KEYS[0], (4,))],
)  # fmt: skip
# the places of True in a mask of this shape, one array per axis
MASK_INDICES = nondiff(
    "mask_indices", "mask", _mask_indices_impl,
    infer=lambda mask, *, shape: (TensorSpec((None,), "int64"),) * len(mask.shape),
    reason="a mask has no derivative", batch=batching.looped, outputs=0,
    call=lambda mask: apply(MASK_INDICES, convert(mask), shape=tuple(np.shape(mask))),
    samples=lambda: [Sample(np.array([True, False, True])), Sample(np.eye(2, dtype=bool))],
)  # fmt: skip

# -- the index a user writes ---------------------------------------------------------------------------------------------


def is_dynamic(x: Tensor, key: Index) -> bool:
    """Whether an index has places that are known only at run time (or for each example of a batch)."""
    trace = TRACING.get()
    # A captured tensor is concrete while the function is traced, but the next call may come with another value: an operand.
    captured = trace.is_input if trace is not None and isinstance(x, Tensor) and x.wraps else _never
    for part in key if isinstance(key, tuple) else (key,):
        if isinstance(part, slice):
            if any(_is_place(bound, captured) for bound in (part.start, part.stop, part.step)):
                return True
        elif _is_place(part, captured):
            return True
    return False


def _never(tensor: Tensor) -> bool:
    return False


def _is_place(part: object, captured: Callable[[Tensor], bool]) -> bool:
    if part is None or part.__class__ is int:
        return False
    if isinstance(part, Tensor):
        return part.wraps or captured(part)
    if isinstance(part, list):
        return any(_is_place(p, captured) for p in part)
    return isinstance(part, Readable) and TRACING.get() is not None


class _KeyTemplate:
    """A key under construction, and its operands."""

    def __init__(self, x: Tensor) -> None:
        self.x = x
        self.key: list[Any] = []
        self.indices: list[Any] = []

    def slot(self, value: Tensor | Array) -> Slot:
        """One more operand; the same tensor gets the same slot."""
        # `x[i:i + n]` names one tensor twice: as one operand, the two bounds can be seen to belong together.
        for number, known in enumerate(self.indices):
            if known is value:
                return Slot(number)
        self.indices.append(value)
        return Slot(len(self.indices) - 1)

    def part(self, part: Any) -> None:
        if isinstance(part, Readable):
            part = part.read()
        if isinstance(part, list):
            part = convert(part) if part else np.zeros(0, np.intp)
        if isinstance(part, (Tensor, np.ndarray)):
            self._array(part)
        elif isinstance(part, slice):
            self.key.append(slice(*(self._bound(b) for b in (part.start, part.stop, part.step))))
        else:
            self.key.append(part if part is None or part is Ellipsis else static_index(part))

    def _array(self, part: Tensor | Array) -> None:
        kind = part.dtype.kind
        if kind == "b":
            if not len(part.shape):
                raise InvalidArgumentError("an index with a single True or False must be a Python bool in a traced function")
            # A mask takes as many axes as it has: those from the first axis that no earlier part has taken.
            start = sum(1 for k in self.key if k is not None)
            target = tuple(self.x.shape)[start : start + len(part.shape)] if Ellipsis not in self.key else tuple(part.shape)
            self.key.extend(self.slot(places) for places in apply(MASK_INDICES, part, shape=target))
        elif kind not in "iu":
            raise TypeError(f"index arrays must be integer or boolean, got dtype {part.dtype.name}")
        else:
            self.key.append(self.slot(_signed(part)))

    def _bound(self, bound: Integer | None) -> Slot | Size | None:
        if isinstance(bound, Readable):
            bound = bound.read()
        if not isinstance(bound, Tensor):
            return None if bound is None else static_index(bound)
        if bound.dtype.kind not in "iu" or len(bound.shape):
            raise TypeError(
                f"only scalar integer tensors can be bounds of slices, got shape {tuple(bound.shape)}, dtype {bound.dtype.name}"
            )
        return self.slot(_signed(bound))

    def size(self) -> Any:
        """The lengths of open slices that follow from how their bounds were computed: 3 of x[i:i+3]."""
        opened = [k for k in self.key if is_open(k)]
        axes = open_axes(tuple(self.key), len(self.x.shape))
        lengths = tuple([self._length(k, self.x.shape[axis]) for k, axis in zip(opened, axes, strict=True)])
        return None if all(n is None for n in lengths) else lengths

    def _length(self, part: slice, size: Size) -> int | None:
        if part.step not in (None, 1) or not isinstance(part.start, Slot) or not isinstance(part.stop, Slot):
            return None
        from gradtape.ops.traced_numbers import bounds_of, offset_of  # of programs only: `import gradtape` need not load it

        first, start = offset_of(self.indices[part.start.index])
        last, stop = offset_of(self.indices[part.stop.index])
        if first is not last or stop < start:
            return None
        # in a turn that is known to come, it is cut at an end of the axis: shorter, as in Python
        low, high = bounds_of(first)
        cut = low + start < 0 or (size.__class__ is int and high + stop > size)
        return None if cut and low > -math.inf else stop - start


def _signed(part: Tensor | Array) -> Any:
    """An index of a type that cannot wrap around: of what is beyond int64, the largest is as far outside of every axis."""
    return cast(minimum(part, np.uint64(2**63 - 1)), "int64") if part.dtype == "uint64" else part


def _template(x: Tensor, key: Index) -> _KeyTemplate:
    template = _KeyTemplate(x)
    for part in key if isinstance(key, tuple) else (key,):
        template.part(part)
    return template


def getitem_at(x: Tensor, key: Index) -> Tensor:
    """x[key], where the key has tensors that are known only at run time."""
    template = _template(x, key)
    return apply(GETITEM_AT, x, *template.indices, key=tuple(template.key), size=template.size())


def update_at(x: Tensor, key: Index, value: Tensor) -> Tensor:
    """x with `value` at x[key], where the key has tensors that are known only at run time."""
    template = _template(x, key)
    return apply(UPDATE_AT, x, value, *template.indices, key=tuple(template.key))


OPS = (GETITEM_AT, PUT_AT, UPDATE_AT, ADD_AT, PLACES_AT, WINNERS_AT, MASK_INDICES)

from gradtape.ops.create import zeros, zeros_like
from gradtape.ops.elementwise import cast
from gradtape.ops.index import GETITEM, TAKE, UPDATE, static_index, winners
from gradtape.ops.select import minimum
from gradtape.ops.shape import broadcast_to, reshape, transpose, unbroadcast
