"""Moving elements without changing them: reshape, transpose, concatenate, stack, reverse.

All linear; every attribute is normalised (non-negative axes, full shapes) in the public function, so the adjoint and the
batching rule can count on it. Results may be views of their inputs: tensors are immutable.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.conversion import opened
from gradtape.core.dispatch import apply, convert, promote, twin
from gradtape.core.forms import form_of
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Cost, Fails, Memory, Op, Sample, composite, linear
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Array, Axes, Axis, Dims, Integers, Shape, TensorLike
from gradtape.errors import InvalidArgumentError, OpError, StaticDimensionNeeded
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.create import static_shape
from gradtape.ops.sampling import normal


def normal_axis(axis: Axis, rank: int, op: str) -> int:
    """A non-negative axis, checked."""
    if axis.__class__ is not int:
        try:
            axis = axis.__index__()
        except OpError:  # it says itself why it has no value
            raise
        except (AttributeError, TypeError):
            raise InvalidArgumentError(f"{op}: axis must be an integer, got {axis!r}") from None
    if not -rank <= axis < rank:
        raise InvalidArgumentError(f"{op}: axis {axis} is out of range for a tensor of rank {rank}")
    return axis % rank if rank else 0


def listed_axes(axis: Integers) -> list[Any] | tuple[Any, ...]:
    """Axes one by one, however they are given: a number, a list, an array, a tensor or a variable."""
    if isinstance(axis, Readable):
        axis = axis.read()
    if isinstance(axis, (Tensor, np.ndarray)):
        axis = axis.tolist()
    return axis if isinstance(axis, (list, tuple)) else (axis,)


# -- reshape, broadcast, expand, squeeze ------------------------------------------------------------------------------


def reshape(tensor: TensorLike, shape: Shape, name: str | None = None) -> Tensor:
    """The same elements in another shape; one dimension may be -1.

    >>> gt.reshape(gt.range(6), [2, -1]).numpy()
    array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    if name is not None and name.__class__ is not str:
        raise TypeError(f"reshape: give the shape as one argument, gt.reshape(t, ({shape!r}, {name!r}))")
    tensor = convert(tensor)
    wanted = static_shape(shape if shape.__class__ is tuple or not is_traced(shape) else _told(tensor, shape))
    return reshaped(tensor, shape=full_shape(wanted, tuple(tensor.shape)))


def _told(tensor: Tensor, shape: Any) -> Any:
    """A shape that only run time knows, with its -1 replaced; as it is if it says where its -1 is, or that it has none."""
    vector = signed(convert(shape))
    if vector.ndim != 1 or is_symbolic(vector.shape):
        return shape
    known = [known_size(vector[i]) for i in range(vector.shape[0])]
    if -1 in known or None not in known:
        return shape
    # -1 takes what the others leave. Their product is made 1 at least: a size of 0 is an error of `reshape`, not of `//`.
    free = equal(vector, -1)
    rest = reduce_prod(where(free, ones_like(vector), vector))
    size = cast(convert(math.prod(tuple(tensor.shape))), vector.dtype)
    return where(free, floordiv(size, maximum(rest, 1)), vector)


def full_shape(wanted: tuple[Any, ...], have: tuple[Any, ...]) -> tuple[Any, ...]:
    """`wanted` with its -1 replaced, checked against the number of elements (of symbolic shapes when the program runs)."""
    size = math.prod(have)
    symbolic = is_symbolic((*wanted, size))
    if wanted.count(-1) == 1:
        # The product of all but the -1, which changes its sign.
        rest = -math.prod(wanted)
        if symbolic or (rest and size % rest == 0):
            wanted = tuple(size // rest if d == -1 else d for d in wanted)
    if -1 in wanted or (not symbolic and math.prod(wanted) != size):
        raise InvalidArgumentError(f"reshape: cannot reshape {have} ({size} elements) to {wanted}")
    return wanted


RESHAPE = linear(
    "reshape", "x", lambda x, *, shape: x.reshape(shape) if shape else x.reshape(())[()],
    lambda ct, x_shape: reshaped(ct, shape=tuple(x_shape)),
    infer=lambda x, *, shape: TensorSpec(shape, x.dtype),
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs, shape=(inputs[0].shape[0], *attrs["shape"])),
    cost=Cost.FREE,
    memory=Memory.VIEW,
    samples=lambda: [
        Sample(normal(2, 6), (3, 4)),
        Sample(normal(2, 3), (-1,)),
        Sample(normal(), (1, 1)),
        Sample(normal(1), ()),
        Sample(normal(0, 3), (3, 0)),
        Sample(normal(2, 3), (4, 2), raises=(ValueError, "cannot reshape")),
    ],
)  # fmt: skip
reshaped = form_of(RESHAPE)


def broadcast_to(input: TensorLike, shape: Shape, name: str | None = None) -> Tensor:
    """`input` repeated along new or unit axes up to `shape`."""
    x = convert(input)
    target = static_shape(shape)
    return twin(x) if tuple(x.shape) == target else broadcasted(x, shape=target)


def unbroadcast(ct: Tensor, shape: Dims) -> Tensor:
    """Sum out what broadcasting repeated: the adjoint of `broadcast_to`."""
    have, want = tuple(ct.shape), tuple(shape)
    if have == want:
        return ct
    extra = len(have) - len(want)
    # New axes in front, and unit axes that were stretched; of one element there is no sum.
    axes = tuple(i for i, d in enumerate(have) if d != 1 and (i < extra or want[i - extra] == 1))
    part = summed(ct, axis=axes, keepdims=False) if axes else ct
    # a size that only run time knows may be 1 there
    doubtful = any(w.__class__ is not int and w != d for w, d in zip(want, have[extra:], strict=True))
    if not doubtful:
        return reshaped(part, shape=want)
    kept = tuple(1 if w == 1 else d for w, d in zip(want, have[extra:], strict=True))
    return apply(SUM_TO, reshaped(part, shape=kept), shape=want)


def _sum_to_impl(x: Array, *, shape: tuple[int, ...]) -> Array:
    axes = tuple(i for i, (have, want) in enumerate(zip(x.shape, shape, strict=True)) if want == 1 and have != 1)
    # (in the dtype of x: NumPy sums small integers in wider ones)
    out = np.add.reduce(x, axis=axes, keepdims=True, dtype=x.dtype) if axes else x
    if out.shape != tuple(shape):
        raise InvalidArgumentError(f"a value of shape {x.shape} is no sum over unit axes of shape {tuple(shape)}")
    return out


# sums over the axes that have the size 1 in `shape`: the adjoint of `broadcast_to` where run time knows which these are
SUM_TO: Op = linear(
    "sum_to", "x", _sum_to_impl,
    lambda ct, x_shape: broadcast_to(ct, tuple(x_shape)),
    infer=lambda x, *, shape: TensorSpec(shape, x.dtype),
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs, shape=(inputs[0].shape[0], *attrs["shape"])),
    memory=Memory.SHARED,
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(3, 4), (3, 1)),
        Sample(normal(3, 2), (1, 1)),
        Sample(normal(2, 3), (2, 3)),
        Sample(normal(0, 2), (1, 2)),
        Sample(normal(2, 3), (2, 2), raises=(ValueError, "unit axes")),
    ],
)  # fmt: skip


def _batch_broadcast(op: Op, flags: tuple[bool, ...], inputs: tuple[Tensor, ...], attrs: dict[str, Any]) -> Tensor:
    (x,) = inputs
    shape = attrs["shape"]
    padded = (x.shape[0], *([1] * (len(shape) - (x.ndim - 1))), *tuple(x.shape)[1:])
    return apply(op, reshaped(x, shape=padded), shape=(padded[0], *shape))


def _broadcast_impl(x: Array, *, shape: tuple[int, ...]) -> Array:
    if math.prod(shape) > 4096 or not shape:
        return np.broadcast_to(x, shape)
    out = np.empty(shape, x.dtype)  # small: filling is quicker than making the view
    out[...] = x
    return out


BROADCAST_TO = linear(
    "broadcast_to", "x", _broadcast_impl,
    lambda ct, x_shape: unbroadcast(ct, x_shape),
    infer=lambda x, *, shape: TensorSpec(shape, x.dtype),
    batch=_batch_broadcast,
    cost=Cost.FREE,
    memory=Memory.SHARED,
    samples=lambda: [
        Sample(normal(3, 1), (2, 3, 4)),
        Sample(normal(), (2,)),
        Sample(normal(1), (0,)),
        Sample(normal(3), (3, 3)),
        Sample(normal(3), (2,), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip
broadcasted = form_of(BROADCAST_TO)


@composite(samples=lambda: [Sample(normal(2, 3), 1), Sample(normal(2), -1), Sample(normal(), 0)])
def expand_dims(input: TensorLike, axis: Axis, name: str | None = None) -> Tensor:
    """A unit axis inserted at `axis`.

    >>> gt.expand_dims([1.0, 2.0], 0).shape
    TensorShape([1, 2])
    """
    x = convert(input)
    place = normal_axis(axis, x.ndim + 1, "expand_dims")
    dims = tuple(x.shape)
    return reshaped(x, shape=(*dims[:place], 1, *dims[place:]))


@composite(
    samples=lambda: [
        Sample(normal(1, 3, 1)),
        Sample(normal(1, 3, 1), 0),
        Sample(normal(1, 1), [0, 1]),
        Sample(normal(2, 1), 0, raises=(ValueError, "not 1")),
    ]
)
def squeeze(input: TensorLike, axis: Axes = None, name: str | None = None) -> Tensor:
    """`input` without its unit axes, or without the given ones.

    In a function, an axis whose size only run time knows must be named, and is checked then.
    """
    x = convert(input)
    dims = tuple(x.shape)
    if axis is None:
        if any(d.__class__ is not int for d in dims):
            raise StaticDimensionNeeded(
                f"squeeze: which axes of shape {dims} are 1, and so the rank of the result, is known only when the function "
                "runs: name the axes to remove, squeeze(x, axis=...)"
            )
        axes = tuple(i for i, d in enumerate(dims) if d == 1)
    else:
        axes = tuple(normal_axis(a, x.ndim, "squeeze") for a in listed_axes(axis))
    if any(dims[a].__class__ is int and dims[a] != 1 for a in axes):
        raise InvalidArgumentError(f"squeeze: axes {axes} of shape {dims} are not 1")
    if any(dims[a] != 1 for a in axes):
        x = apply(SIZED, x, shape=tuple(1 if i in axes else d for i, d in enumerate(dims)), caller="squeeze")
    return reshaped(x, shape=tuple(d for i, d in enumerate(dims) if i not in axes))


# -- transpose, reverse, roll ----------------------------------------------------------------------------------------


def transpose(a: TensorLike, perm: Integers | None = None, conjugate: bool = False, name: str = "transpose") -> Tensor:
    """Axes in another order (reversed by default).

    >>> gt.transpose([[1, 2], [3, 4]]).numpy()
    array([[1, 3],
           [2, 4]], dtype=int32)
    """
    x = convert(a)
    if perm is not None and (is_traced(perm) or (isinstance(perm, (list, tuple)) and any(map(is_traced, perm)))):
        out = _transposed_later(x, convert(perm))
        return conj(out) if conjugate else out
    try:
        given = tuple(reversed(range(x.ndim))) if perm is None else static_shape(perm)
        order = tuple(normal_axis(p, x.ndim, "transpose") for p in given)
    except (TypeError, InvalidArgumentError) as error:
        raise InvalidArgumentError(f"transpose: perm {perm!r} is not a permutation of {x.ndim} axes: {error}") from None
    if sorted(order) != list(range(x.ndim)):
        raise InvalidArgumentError(f"transpose: perm {order} is not a permutation of {x.ndim} axes")
    out = permuted(x, perm=order)
    return conj(out) if conjugate else out


def _transposed_later(x: Tensor, perm: Tensor) -> Tensor:
    """A transpose by a permutation that only run time knows: a gather of elements, by their places in memory."""
    if tuple(perm.shape) != (x.ndim,):
        raise InvalidArgumentError(f"transpose: perm of shape {tuple(perm.shape)} is not a permutation of {x.ndim} axes")
    perm = signed(perm)
    perm = where(perm < 0, perm + x.ndim, perm)
    perm = invert_permutation(invert_permutation(perm))  # which refuses what is none
    dims = [cast(convert(d), "int64") for d in tuple(x.shape)]
    strides: list[Any] = [convert(1, "int64")][: x.ndim]
    for size in reversed(dims[1:]):  # of elements in row-major order: each axis steps over all behind it
        strides.insert(0, strides[0] * size)
    places: Any = zeros((), "int64")
    for i in range(x.ndim):
        places = places + cast(grid(size_of(stack(dims)[perm[i]]), i, x.ndim), "int64") * stack(strides)[perm[i]]
    return reshape(x, (-1,))[places]


def second_first(x: Tensor) -> Tensor:
    """The first two axes exchanged."""
    return transpose(x, (1, 0, *range(2, x.ndim)))


def inverse_permutation(perm: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes `perm`."""
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


TRANSPOSE = linear(
    "transpose", "x", lambda x, *, perm: x.transpose(perm) if perm else x,
    lambda ct, perm: permuted(ct, perm=inverse_permutation(perm)),
    infer=lambda x, *, perm: TensorSpec(tuple(x.shape[p] for p in perm), x.dtype),
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs, perm=(0, *(p + 1 for p in attrs["perm"]))),
    cost=Cost.FREE,
    memory=Memory.VIEW,
    samples=lambda: [
        Sample(normal(2, 3, 4), (2, 0, 1)),
        Sample(normal(2, 3)),
        Sample(normal()),
        Sample(normal(0, 2)),
        Sample(normal(2, 3), (0, 0), raises=(ValueError, "permutation")),
        Sample(normal(2, 3), (0, 2), raises=(ValueError, "out of range")),
    ],
)  # fmt: skip
permuted = form_of(TRANSPOSE)


def reverse(tensor: TensorLike, axis: Integers, name: str | None = None) -> Tensor:
    """Elements in opposite order along the given axes."""
    x = convert(tensor)
    return apply(REVERSE, x, axis=tuple(normal_axis(a, x.ndim, "reverse") for a in listed_axes(axis)))


REVERSE = linear(
    "reverse", "x", lambda x, *, axis: np.flip(x, axis) if x.ndim else x,
    lambda ct, axis: apply(REVERSE, ct, axis=axis),
    infer=inference.same,
    batch=batching.shifted("axis"),
    memory=Memory.SHARED,
    samples=lambda: [
        Sample(normal(2, 3), [1]),
        Sample(normal(2, 3), [0, -1]),
        Sample(normal(0), [0]),
        Sample(normal(2), [1], raises=(ValueError, "out of range")),
    ],
)  # fmt: skip


def roll(input: TensorLike, shift: Integers, axis: Integers, name: str | None = None) -> Tensor:
    """Elements shifted cyclically along the given axes."""
    x = convert(input)
    axes = tuple(normal_axis(a, x.ndim, "roll") for a in listed_axes(axis))
    shifts = entries(shift)
    if len(shifts) != len(axes):
        raise InvalidArgumentError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    # a shift that only run time knows may be negative, sizes may not: as many steps the other way
    dims = [x.shape[a] for a in axes]
    steps = [
        s if s.__class__ is int else size_of(mod(t := convert(s), cast(convert(maximum(d, 1)), t.dtype)))
        for s, d in zip(shifts, dims, strict=True)
    ]
    return apply(ROLL, x, shift=tuple(steps), axis=axes)


ROLL = linear(
    "roll", "x", lambda x, *, shift, axis: np.roll(x, shift, axis),
    lambda ct, shift, axis: apply(ROLL, ct, shift=tuple(-s for s in shift), axis=axis),
    infer=inference.same,
    batch=batching.shifted("axis"),
    memory=Memory.FRESH,
    samples=lambda: [
        Sample(normal(5), 2, 0),
        Sample(normal(3, 4), [1, -2], [0, 1]),
        Sample(normal(0), 1, 0),
        Sample(normal(3), [1, 2], [0], raises=(ValueError, "shifts")),
    ],
)  # fmt: skip

# -- concatenate, split, stack ---------------------------------------------------------------------------------------


def concat(values: TensorLike, axis: Axis, name: str = "concat") -> Tensor:
    """Tensors joined along an existing axis.

    >>> gt.concat([[1.0], [2.0, 3.0]], 0).numpy()
    array([1., 2., 3.], dtype=float32)
    """
    if (listed := list_value(values)) is not None:
        items, length = listed
        return items.joined(axis, length)
    tensors = promote(*values) if isinstance(values, (list, tuple)) else (convert(values),)
    if not tensors:
        raise InvalidArgumentError("concat: needs at least one tensor")
    if tensors[0].ndim == 0:
        raise InvalidArgumentError("concat: cannot join scalars; use gt.stack")
    return apply(CONCAT, *tensors, axis=normal_axis(axis, tensors[0].ndim, "concat"))


def split_like(ct: Tensor, specs: tuple[TensorSpec, ...], axis: int) -> tuple[Tensor, ...]:
    """The pieces of `ct` that a concatenation of `specs` put together."""
    pieces, start = [], 0
    for spec in specs:
        size = spec.shape[axis]
        pieces.append(apply(SLICE_AXIS, ct, axis=axis, start=start, size=size))
        start += size
    return tuple(pieces)


def _concat_spec(*xs: TensorSpec, axis: int) -> TensorSpec:
    dims = list(xs[0].shape)
    dims[axis] = sum(x.shape[axis] for x in xs)
    return TensorSpec(dims, inference.elementwise(*(TensorSpec((), x.dtype) for x in xs)).dtype)


CONCAT = linear(
    "concat", "*xs", lambda *xs, axis: np.concatenate(xs, axis),
    lambda ct, xs_spec, axis: split_like(ct, xs_spec, axis),
    infer=_concat_spec,
    batch=batching.shifted("axis"),
    memory=Memory.FRESH,
    samples=lambda: [
        Sample([normal(2, 3), normal(2, 1)], 1),
        Sample([normal(2), normal(0), normal(3)], 0),
        Sample([normal(2, 2)], -1),
        Sample([normal(2, 2), normal(3, 3)], 0, raises=(ValueError, "concat")),
        Sample([normal()], 0, raises=(ValueError, "scalars")),
    ],
)  # fmt: skip


def _slice_axis_impl(x: Array, *, axis: int, start: int, size: int) -> Array:
    return x[(slice(None),) * axis + (slice(start, start + size),)]


def _add_axis(buffer: Array, ct: Array, axis: int, start: int, size: int) -> None:
    buffer[(slice(None),) * axis + (slice(start, start + size),)] += ct


def _pad_axis(ct: Tensor, x_spec: TensorSpec, axis: int, start: int, size: int) -> Tensor:
    total = x_spec.shape[axis]
    paddings = tuple((start, total - start - size) if i == axis else (0, 0) for i in range(x_spec.ndim))
    return apply(PAD, ct, paddings=paddings)


SLICE_AXIS = linear(
    "slice_axis", "x", _slice_axis_impl,
    _pad_axis,
    infer=lambda x, *, axis, start, size: TensorSpec((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype),
    batch=batching.shifted("axis"),
    add_into=_add_axis,
    cost=Cost.FREE,
    memory=Memory.SHARED,
    samples=lambda: [Sample(normal(2, 5), 1, 1, 3), Sample(normal(3), 0, 0, 0)],
)  # fmt: skip


@composite(
    samples=lambda: [
        Sample(normal(4, 2), 2),
        Sample(normal(2, 5), [2, -1, 1], 1),
        Sample(normal(3), [0, 3]),
        Sample(normal(5), 2, raises=(ValueError, "do not divide")),
        Sample(normal(5), [2, 2], raises=(ValueError, "do not add up")),
    ]
)
def split(
    value: TensorLike, num_or_size_splits: Integers, axis: Axis = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """`value` cut along an axis into equal parts (an int) or parts of the given sizes (one may be -1).

    >>> [p.numpy().tolist() for p in gt.split(gt.range(5), [2, -1])]
    [[0, 1], [2, 3, 4]]
    """
    x = convert(value)
    place = normal_axis(axis, x.ndim, "split")
    total = x.shape[place]
    if isinstance(num_or_size_splits, int) or getattr(num_or_size_splits, "ndim", None) == 0:
        count = int(num_or_size_splits)  # type: ignore[arg-type]  # a NumPy number or a tensor of rank 0
        if count <= 0 or total % count:
            raise InvalidArgumentError(f"split: {total} elements along axis {place} do not divide into {count} parts")
        sizes = (total // count,) * count
    else:
        sizes = static_shape(num_or_size_splits)
        if sizes.count(-1) == 1:
            rest = total - sum(sizes) - 1
            sizes = tuple((extent_of(rest) if is_symbolic(sizes) else rest) if s == -1 else s for s in sizes)
        if is_symbolic((*sizes, total)):
            x = apply(SIZED, x, shape=tuple(sum(sizes) if i == place else d for i, d in enumerate(x.shape)), caller="split")
        elif sum(sizes) != total or min(sizes, default=0) < 0:
            raise InvalidArgumentError(f"split: sizes {sizes} do not add up to {total} along axis {place}")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [apply(SLICE_AXIS, x, axis=place, start=s, size=n) for s, n in zip(starts, sizes, strict=True)]


def stack(values: TensorLike, axis: Axis = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape joined along a new axis.

    >>> gt.stack([1.0, 2.0]).numpy()
    array([1., 2.], dtype=float32)
    """
    if (listed := list_value(values)) is not None or isinstance(values, (Tensor, Readable)):
        rows = convert(values) if listed is None else listed[0].stacked(listed[1])  # the rows of a tensor are stacked already
        place = normal_axis(axis, rows.ndim, "stack")
        return twin(rows) if place == 0 else transpose(rows, (*range(1, place + 1), 0, *range(place + 1, rows.ndim)))
    items: Any = values
    tensors = promote(*items)
    if not tensors:
        raise InvalidArgumentError("stack: needs at least one tensor")
    if not all([fits(t.shape, tensors[0].shape) for t in tensors]):  # noqa: C419  (quicker than a generator)
        shapes = {tuple(t.shape) for t in tensors}
        raise InvalidArgumentError(f"stack: all shapes must be the same, got {sorted(shapes)}")
    return apply(STACK, *tensors, axis=normal_axis(axis, tensors[0].ndim + 1, "stack"))


def list_value(values: object) -> tuple[Any, int | None] | None:
    """The list of the program that `values` is or stands for, and its length where known; None for anything else."""
    if isinstance(values, Tensor):
        return (values, None) if isinstance(getattr(values, "spec", None), ListSpec) else None
    return opened(values)


HOOKS.stack, HOOKS.reshape, HOOKS.broadcast_to = stack, reshape, broadcast_to


@composite(
    samples=lambda: [
        Sample(normal(3, 2)),
        Sample(normal(2, 3), axis=-1),
        Sample(normal(2), 2),
        Sample(normal(2), 3, raises=(ValueError, "num=3")),
        Sample(normal(), raises=(ValueError, "scalar")),
    ]
)
def unstack(value: TensorLike, num: int | None = None, axis: Axis = 0, name: str = "unstack") -> list[Tensor]:
    """The slices of `value` along an axis, as a list."""
    x = convert(value)
    if x.ndim == 0:
        raise InvalidArgumentError("unstack: cannot unstack a scalar")
    place = normal_axis(axis, x.ndim, "unstack")
    count = x.shape[place]
    if num is not None and num != count:
        raise InvalidArgumentError(f"unstack: num={num} but axis {place} has {count} elements")
    return list(unstack_all(x, place, count))


def unstack_all(x: Tensor, axis: int, count: int) -> tuple[Tensor, ...]:
    """All slices along a (non-negative) axis."""
    rest = tuple(d for i, d in enumerate(tuple(x.shape)) if i != axis)
    return tuple(
        reshaped(apply(SLICE_AXIS, x, axis=axis, start=i, size=1), shape=rest) for i in range(count)
    )  # fmt: skip


STACK = linear(
    "stack", "*xs", lambda *xs, axis: np.stack(xs, axis),
    lambda ct, xs_spec, axis: unstack_all(ct, axis, len(xs_spec)),
    infer=lambda *xs, axis: TensorSpec((*xs[0].shape[:axis], len(xs), *xs[0].shape[axis:]), xs[0].dtype),
    batch=batching.shifted("axis"),
    memory=Memory.FRESH,
    samples=lambda: [
        Sample([normal(2, 3), normal(2, 3)], 1),
        Sample([normal(), normal()]),
        Sample([normal(0)], -1),
        Sample([normal(2), normal(3)], raises=(ValueError, "same")),
    ],
)  # fmt: skip


OPS = (RESHAPE, BROADCAST_TO, SUM_TO, TRANSPOSE, REVERSE, ROLL, CONCAT, SLICE_AXIS, STACK)

from gradtape.ops.compare import equal
from gradtape.ops.create import entries, fits, grid, is_symbolic, ones_like, zeros
from gradtape.ops.elementwise import cast, conj
from gradtape.ops.padding import PAD
from gradtape.ops.permutations import invert_permutation
from gradtape.ops.reduce import reduce_prod, summed
from gradtape.ops.select import floordiv, maximum, mod, where
from gradtape.ops.staged import SIZED, extent_of, is_traced, known_size, signed, size_of
