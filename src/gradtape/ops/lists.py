"""Lists as values: what a Python list or TensorArray filled in a staged loop becomes, and what loops save for their backward.

An op on a list gives a new list and never changes the one it was given (`bufferize` reuses dead ones); items may be shared
between lists, so nobody writes into an item. Items have one type, lists among them; the length is known at run time only.
All rules are in these same ops: reading is the adjoint of adding at a place, stacking that of taking apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.core.dispatch import apply, convert
from gradtape.core.opdef import Cost, Fails, Memory, Sample, general, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Axis, Dims, Size, TensorLike
from gradtape.dtypes import int32
from gradtape.ir.types import ListSpec, Spec, TensorSpec
from gradtape.ops import list_values
from gradtape.ops.list_values import TensorList as TensorList, collapsed_spec, item_spec, joined_spec, spread_spec, zero_like
from gradtape.ops.sampling import normal

# -- the ops ---------------------------------------------------------------------------------------------------------


def or_zeros(t: Tensor | None, x: Tensor) -> Tensor:
    """A tangent, zeros like its value where there is none."""
    return apply(LIST_ZEROS_LIKE, x) if t is None else t


def place_of(index: int) -> Array:
    """A static place as an operand: an integer scalar, whatever the dtype of the items."""
    return np.array(index, np.intp)[()]


# The adjoint of making a list is reading each of its items.
LIST_NEW = general(
    "list_new", "*items", list_values.new,
    vjp=lambda ct, items_spec: tuple(apply(LIST_GET, ct, place_of(i)) for i in range(len(items_spec))),
    jvp=lambda tangents, items, item: apply(
        LIST_NEW, *(or_zeros(t, x) for t, x in zip(tangents, items, strict=True)), item=item
    ),
    infer=list_values.new_spec,
    batch=lambda op, flags, inputs, attrs: batches.new(op, flags, inputs, attrs),
    call=lambda *items: list_stack(list_new(items), 3),
    samples=lambda: [Sample(normal(2), normal(2), normal(2)), Sample(normal(), normal(), normal())],
)  # fmt: skip
# Taking a tensor apart into rows and stacking rows are one another's inverse, and adjoint.
LIST_FROM_TENSOR = general(
    "list_from_tensor", "x", list_values.rows_of,
    vjps=(lambda ct, x_spec: apply(LIST_STACK, ct, length=x_spec.shape[0], item_shape=tuple(x_spec.shape[1:])),),
    jvps=(lambda t: apply(LIST_FROM_TENSOR, t),),
    infer=lambda x: ListSpec(TensorSpec(x.shape[1:], x.dtype)),
    batch=lambda op, flags, inputs, attrs: apply(op, second_first(inputs[0])),
    call=lambda x: list_stack(list_from_tensor(x), len(x)),
    samples=lambda: [
        Sample(normal(3, 2)),
        Sample(normal(3)),
        Sample(normal(0, 2)),
        Sample(normal(2, 1) + 1j * normal(2, 1)),
        Sample(normal(), raises=(ValueError, "scalar")),
    ],
)  # fmt: skip
LIST_STACK = general(
    "list_stack", "values", list_values.stacked,
    vjps=(lambda ct: apply(LIST_FROM_TENSOR, ct),),
    jvps=(lambda t, length, item_shape: apply(LIST_STACK, t, length=length, item_shape=item_shape),),
    infer=list_values.stacked_spec,
    batch=lambda op, flags, inputs, attrs: batches.stack(op, flags, inputs, attrs),
    call=lambda x: list_stack(list_from_tensor(x)),
    samples=lambda: [Sample(normal(3, 2)), Sample(normal(3)), Sample(normal(0, 2))],
)  # fmt: skip


def taken_apart(ct: Tensor, values: TensorList, axis: int, length: Size | None, item_shape: tuple[int, ...] | None) -> Tensor:
    """The parts that were joined; a list of known length has items of one shape, so the parts have one size."""
    size = None if length is None or item_shape is None else item_shape[axis]
    return apply(LIST_SPLIT, ct, apply(LIST_LENGTHS, values, axis=axis), axis=axis, size=size)


def put_together(ct: Tensor, shape: tuple[Any, ...], axis: int, size: Size | None) -> Tensor:
    """Parts joined to an array of this shape."""
    if not size:
        return apply(LIST_CONCAT, ct, axis=axis, length=None, item_shape=shape)
    part = (*shape[:axis], size, *shape[axis + 1 :])
    return apply(LIST_CONCAT, ct, axis=axis, length=shape[axis] // size, item_shape=part)


LIST_CONCAT = general(
    "list_concat", "values", list_values.joined,
    vjps=(lambda ct, values, axis, length, item_shape: taken_apart(ct, values, axis, length, item_shape),),
    jvps=(lambda t, axis, length, item_shape: apply(LIST_CONCAT, t, axis=axis, length=length, item_shape=item_shape),),
    infer=list_values.joined_rows_spec,
    batch=lambda op, flags, inputs, attrs: batches.concat(op, flags, inputs, attrs),
    call=lambda *items: list_concat(list_new(items)),
    samples=lambda: [Sample(normal(3, 2), normal(1, 2), normal(0, 2)), Sample(normal(3))],
)  # fmt: skip
LIST_LENGTHS = nondiff(
    "list_lengths", "values", list_values.lengths_of,
    infer=lambda values, *, axis: TensorSpec((None,), int32),
    reason="the result depends on the shapes only",
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs, axis=attrs["axis"] + 1),
    alike=True,
    call=lambda *items: apply(LIST_LENGTHS, list_new(items), axis=0),
    samples=lambda: [Sample(normal(3, 2), normal(1, 2))],
)  # fmt: skip
LIST_SPLIT = general(
    "list_split", "x lengths", list_values.parted,
    vjps=(lambda ct, x_spec, axis, size: put_together(ct, tuple(x_spec.shape), axis, size), None),
    jvps=(lambda t, lengths, axis, size: apply(LIST_SPLIT, t, lengths, axis=axis, size=size), None),
    infer=list_values.parted_spec,
    batch=lambda op, flags, inputs, attrs: batches.split(op, flags, inputs, attrs),
    call=lambda x, lengths: list_concat(list_split(x, lengths)),
    samples=lambda: [Sample(normal(5, 2), np.array([2, 0, 3])), Sample(normal(0, 2), np.zeros(0, int))],
)  # fmt: skip
# (list, v) ↦ list + [v]: the cotangent of the list lacks the last item, which is that of the value.
LIST_PUSH = general(
    "list_push", "values value", list_values.on_copy(list_values.push),
    vjps=(lambda ct: apply(LIST_DROP, ct), lambda ct: apply(LIST_GET, ct, place_of(-1))),
    jvp=lambda tangents, values, value: apply(LIST_PUSH, or_zeros(tangents[0], values), or_zeros(tangents[1], value)),
    infer=lambda values, value: ListSpec(joined_spec(values.item, value)),
    batch=lambda op, flags, inputs, attrs: apply(op, *batches.all_batched(flags, inputs)),
    call=lambda x, v: list_stack(list_push(list_from_tensor(x), v)),
    overwrites=list_values.push,
    samples=lambda: [Sample(normal(3, 2), normal(2)), Sample(normal(3), normal()), Sample(normal(0, 2), normal(2))],
)  # fmt: skip
LIST_DROP = general(
    "list_drop", "values", list_values.on_copy(list_values.drop),
    vjps=(lambda ct, values: apply(LIST_PUSH, ct, apply(LIST_ZEROS_LIKE, apply(LIST_GET, values, place_of(-1)))),),
    jvps=(lambda t: apply(LIST_DROP, t),),
    infer=lambda values: values,
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs),
    call=lambda x: list_stack(list_pop(list_from_tensor(x))[0]),
    fails=Fails.VALUES,
    overwrites=list_values.drop,
    samples=lambda: [Sample(normal(3, 2)), Sample(normal(1))],
)  # fmt: skip
# Reading item i: the cotangent of the list is zero at all other items.
LIST_GET = general(
    "list_get", "values index", list_values.got,
    vjps=(lambda ct, values, index: apply(LIST_ADD_AT, apply(LIST_ZEROS_LIKE, values), index, ct), None),
    jvps=(lambda t, index: apply(LIST_GET, t, index), None),
    infer=lambda values, index: values.item,
    batch=lambda op, flags, inputs, attrs: batches.get(op, flags, inputs, attrs),
    call=lambda x, i: list_get(list_from_tensor(x), i),
    memory=Memory.ITEM,
    fails=Fails.VALUES,
    samples=lambda: [Sample(normal(3, 2), np.array(1)), Sample(normal(3), np.array(-1))],
)  # fmt: skip
# What was overwritten has no influence: its cotangent is cleared, and the new value's is what stands there.
LIST_SET = general(
    "list_set", "values index value", list_values.on_copy(list_values.put),
    vjps=(
        lambda ct, index: apply(LIST_SET, ct, index, apply(LIST_ZEROS_LIKE, apply(LIST_GET, ct, index))),
        None,
        lambda ct, index: apply(LIST_GET, ct, index),
    ),
    jvp=lambda tangents, values, index, value: apply(
        LIST_SET, or_zeros(tangents[0], values), index, or_zeros(tangents[2], value)
    ),
    infer=lambda values, index, value: ListSpec(joined_spec(values.item, value)),
    batch=lambda op, flags, inputs, attrs: batches.at(op, flags, inputs, attrs),
    call=lambda x, i, v: list_stack(apply(LIST_SET, list_from_tensor(x), convert(i), convert(v))),
    fails=Fails.VALUES,
    overwrites=list_values.put,
    samples=lambda: [Sample(normal(3, 2), np.array(1), normal(2)), Sample(normal(3), np.array(-1), normal())],
)  # fmt: skip


def measure(values: Any, index: Any, item: Any) -> Any:
    """What `list_replace` must know of the item in a place: the item; of a list with items of one type, how many they are."""
    old = apply(LIST_GET, values, index)
    return old if item is None else apply(LIST_LEN, old)


def replaced_vjp(ct: Any, index: Any, old: Any, item: Any) -> Any:
    """The cotangent of the list that was: zeros of the old item's sizes in its place."""
    if item is None:
        zeros = apply(LIST_ZEROS_LIKE, old)
    else:
        zeros = apply(LIST_RESIZE, apply(LIST_CUT, apply(LIST_GET, ct, index), place_of(0)), old, item=item)
    return apply(LIST_REPLACE, ct, index, zeros, measure(ct, index, item), item=item)


# list_set where the new item may have other sizes than `old`, the one it replaces (see `measure`)
LIST_REPLACE = general(
    "list_replace", "values index value old", list_values.on_copy(list_values.put),
    vjps=(replaced_vjp, None, lambda ct, index: apply(LIST_GET, ct, index), None),
    jvp=lambda tangents, values, index, value, old, item: apply(
        LIST_REPLACE, or_zeros(tangents[0], values), index, or_zeros(tangents[2], value), old, item=item
    ),
    infer=lambda values, index, value, old, *, item: ListSpec(joined_spec(values.item, value)),
    batch=lambda op, flags, inputs, attrs: batches.replace(op, flags, inputs, attrs),
    call=lambda x, i, v: list_stack(
        apply(LIST_REPLACE, list_from_tensor(x), convert(i), convert(v), list_get(list_from_tensor(x), i), item=None)
    ),
    fails=Fails.VALUES,
    expand=lambda values, index, value, old, *, item: apply(LIST_SET, values, index, value),
    overwrites=list_values.put,
    samples=lambda: [Sample(normal(3, 2), np.array(1), normal(2)), Sample(normal(3), np.array(-1), normal())],
)  # fmt: skip
LIST_ADD = general(
    "list_add", "a b", list_values.added,
    vjps=(lambda ct: ct, lambda ct: ct),
    jvp=lambda tangents, a, b: apply(LIST_ADD, or_zeros(tangents[0], a), or_zeros(tangents[1], b)),
    infer=lambda a, b: ListSpec(joined_spec(a.item, b.item)),
    batch=lambda op, flags, inputs, attrs: apply(op, *batches.all_batched(flags, inputs)),
    call=lambda x, y: list_stack(list_add(list_from_tensor(x), list_from_tensor(y))),
    fails=Fails.VALUES,  # lists of two lengths
    samples=lambda: [Sample(normal(3, 2), normal(3, 2))],
)  # fmt: skip
LIST_ADD_AT = general(
    "list_add_at", "values index value", list_values.on_copy(list_values.add_at),
    vjps=(lambda ct: ct, None, lambda ct, index: apply(LIST_GET, ct, index)),
    jvp=lambda tangents, values, index, value: apply(
        LIST_ADD_AT, or_zeros(tangents[0], values), index, or_zeros(tangents[2], value)
    ),
    infer=lambda values, index, value: ListSpec(joined_spec(values.item, value)),
    batch=lambda op, flags, inputs, attrs: batches.at(op, flags, inputs, attrs),
    call=lambda x, i, v: list_stack(list_add_at(list_from_tensor(x), i, v)),
    fails=Fails.VALUES,
    overwrites=list_values.add_at,
    samples=lambda: [Sample(normal(3, 2), np.array(1), normal(2)), Sample(normal(3), np.array(-1), normal())],
)  # fmt: skip
# Grown with zeros: their cotangent is cut off again. Cutting in turn is undone by zeros like those that were dropped.
LIST_RESIZE = general(
    "list_resize", "values length", list_values.on_copy(list_values.resize),
    vjps=(lambda ct, values: apply(LIST_CUT, ct, apply(LIST_LEN, values)), None),
    jvps=(lambda t, length, item: apply(LIST_RESIZE, t, length, item=item), None),
    infer=lambda values, length, *, item: ListSpec(joined_spec(values.item, item)),
    batch=lambda op, flags, inputs, attrs: batches.sized(op, flags, inputs, attrs),
    call=lambda x, n: list_stack(list_resize(list_from_tensor(x), n, TensorSpec(x.shape[1:], x.dtype))),
    overwrites=list_values.resize,
    samples=lambda: [Sample(normal(2, 2), np.array(4)), Sample(normal(2), np.array(1))],
)  # fmt: skip
LIST_CUT = general(
    "list_cut", "values length", list_values.on_copy(list_values.cut),
    vjps=(lambda ct, values: apply(LIST_FIT, ct, values), None),
    jvps=(lambda t, length: apply(LIST_CUT, t, length), None),
    infer=lambda values, length: values,
    batch=lambda op, flags, inputs, attrs: batches.sized(op, flags, inputs, attrs),
    call=lambda x, n: list_stack(apply(LIST_CUT, list_from_tensor(x), convert(n))),
    overwrites=list_values.cut,
    samples=lambda: [Sample(normal(4, 2), np.array(2)), Sample(normal(2), np.array(2))],
)  # fmt: skip
LIST_FIT = general(
    "list_fit", "values like", list_values.on_copy(list_values.fit),
    vjps=(lambda ct, values: apply(LIST_FIT, ct, values), None),
    jvps=(lambda t, like: apply(LIST_FIT, t, like), None),
    infer=lambda values, like: values,
    batch=lambda op, flags, inputs, attrs: apply(op, *batches.all_batched(flags, inputs)),
    call=lambda x, y: list_stack(apply(LIST_FIT, list_from_tensor(x), list_from_tensor(y))),
    overwrites=list_values.fit,
    samples=lambda: [Sample(normal(2, 2), normal(4, 2), fixed=(1,)), Sample(normal(3), normal(1), fixed=(1,))],
)  # fmt: skip
# every array of a list repeated along a new axis, and its adjoint: how an unbatched list meets batched values
LIST_SPREAD = general(
    "list_spread", "values", list_values.spread,
    vjps=(lambda ct, size, axis: apply(LIST_COLLAPSE, ct, size=size, axis=axis),),
    jvps=(lambda t, size, axis: apply(LIST_SPREAD, t, size=size, axis=axis),),
    infer=lambda values, *, size, axis: spread_spec(values, size, axis),
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs, size=attrs["size"], axis=attrs["axis"] + 1),
    call=lambda x, size, axis: list_stack(apply(LIST_SPREAD, list_from_tensor(x), size=size, axis=axis)),
    memory=Memory.SHARED,
    samples=lambda: [Sample(normal(3, 2), 4, 1), Sample(normal(3), 2, 0)],
)  # fmt: skip
LIST_COLLAPSE = general(
    "list_collapse", "values", list_values.collapsed,
    vjps=(lambda ct, size, axis: apply(LIST_SPREAD, ct, size=size, axis=axis),),
    jvps=(lambda t, size, axis: apply(LIST_COLLAPSE, t, size=size, axis=axis),),
    infer=lambda values, *, size, axis: collapsed_spec(values, axis),
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs, size=attrs["size"], axis=attrs["axis"] + 1),
    call=lambda x, size, axis: list_stack(apply(LIST_COLLAPSE, list_from_tensor(x), size=size, axis=axis)),
    memory=Memory.SHARED,
    samples=lambda: [Sample(normal(3, 2, 3), 3, 1), Sample(normal(3, 2), 2, 0)],
)  # fmt: skip
LIST_LEN = nondiff(
    "list_len", "values", lambda values: np.int32(len(values)),
    infer=lambda values: TensorSpec((), int32),
    reason="the result does not depend on the values",
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs),
    alike=True,
    call=lambda x: list_len(list_from_tensor(x)),
    cost=Cost.FREE,
    samples=lambda: [Sample(normal(3, 2)), Sample(normal(0))],
)  # fmt: skip
# on tensors too: rules do not know what kind of value an item is
LIST_ZEROS_LIKE = nondiff(
    "list_zeros_like", "values", lambda values: zero_like(values),
    infer=lambda values: values,
    reason="the result does not depend on the values",
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs),
    call=lambda x: list_stack(apply(LIST_ZEROS_LIKE, list_from_tensor(x))),
    samples=lambda: [Sample(normal(3, 2)), Sample(normal(3))],
)  # fmt: skip


# -- on tensors ------------------------------------------------------------------------------------------------------


def _place(index: TensorLike) -> Tensor | Array:
    return place_of(index) if isinstance(index, int) else convert(index)


def list_new(items: Sequence[Tensor] = (), item: Spec | None = None) -> Any:
    """A list of these items; `item` is their type, needed where there are none."""
    values = [convert(value) for value in items]
    if any(value.wraps for value in values):
        return apply(LIST_NEW, *values, item=item)
    if item is None and values:
        item = item_spec(values[0]._data)
    grown = nullary(LIST_NEW, item=item)
    if not grown.wraps:
        return apply(LIST_NEW, *values, item=item)
    for value in values:  # while a function is traced: a list of the program, filled with constants
        grown = list_push(grown, value)
    return grown


def list_from_tensor(x: TensorLike) -> Tensor:
    """The rows of a tensor."""
    return apply(LIST_FROM_TENSOR, convert(x))


def list_stack(values: Tensor, length: Size | None = None, item_shape: Dims | None = None) -> Tensor:
    """The items as rows of one tensor; `length` where it is known, `item_shape` for a list that may be empty."""
    return apply(LIST_STACK, values, length=length, item_shape=item_shape)


def list_concat(values: Tensor, length: Size | None = None, item_shape: Dims | None = None) -> Tensor:
    """The items joined along their first axis."""
    return apply(LIST_CONCAT, values, axis=0, length=length, item_shape=item_shape)


def list_split(x: TensorLike, lengths: TensorLike) -> Tensor:
    """Consecutive parts of x along the first axis, as many rows each as `lengths` says."""
    return apply(LIST_SPLIT, convert(x), convert(lengths), axis=0, size=None)


def list_push(values: Tensor, value: TensorLike) -> Any:
    """The list with one more item at the end."""
    return apply(LIST_PUSH, values, convert(value))


def list_pop(values: Tensor) -> tuple[Any, Any]:
    """The list without its last item, and that item."""
    last = list_get(values, -1)
    return apply(LIST_DROP, values), last


def list_get(values: Tensor, index: TensorLike) -> Any:
    """One item; a negative index counts from the end."""
    return apply(LIST_GET, values, _place(index))


def list_set(values: Tensor, index: TensorLike, value: TensorLike) -> Any:
    """The list with another item at a place, which may have other sizes than the one that was there."""
    value, place, spec = convert(value), _place(index), getattr(values, "spec", None)
    item = None
    if spec is not None or not values.wraps:  # else it is a list of a batch
        spec = batches.spec_of(values).item
        if is_closed(spec) and tuple(spec.shape) == tuple(value.shape):
            return apply(LIST_SET, values, place, value)
        item = spec.item if isinstance(spec, ListSpec) and is_closed(spec.item) else None
    return apply(LIST_REPLACE, values, place, value, measure(values, place, item), item=item)


def is_closed(spec: Any) -> bool:
    """Whether all values of a type have the same sizes."""
    return isinstance(spec, TensorSpec) and all(d.__class__ is int for d in spec.shape)


def list_add(a: Tensor, b: Tensor) -> Tensor:
    """Item by item."""
    return apply(LIST_ADD, a, b)


def list_add_at(values: Tensor, index: TensorLike, value: TensorLike) -> Tensor:
    """The list with a value added to one item."""
    return apply(LIST_ADD_AT, values, _place(index), convert(value))


def list_resize(values: Tensor, length: TensorLike, item: Spec) -> Tensor:
    """The list, grown with zeros of type `item` to at least this length."""
    return apply(LIST_RESIZE, values, _place(length), item=item)


def list_len(values: Tensor) -> Tensor:
    """The number of items, an int32 scalar."""
    return apply(LIST_LEN, values)


def stack_items(values: Any, length: Size | None) -> Tensor:
    """The items of a list of a program as rows."""
    return list_stack(values, length, _known_shape(values))


def concat_items(values: Any, length: Size | None, axis: Axis) -> Tensor:
    """The items of a list of a program joined along any axis."""
    place = normal_axis(axis, len(values.spec.item.shape), "concat")
    return apply(LIST_CONCAT, values, axis=place, length=length, item_shape=_known_shape(values))


def _known_shape(values: Any) -> Dims | None:
    item = values.spec.item
    return tuple(item.shape) if is_closed(item) else None


OPS = (
    LIST_NEW, LIST_FROM_TENSOR, LIST_STACK, LIST_CONCAT, LIST_LENGTHS, LIST_SPLIT, LIST_PUSH, LIST_DROP, LIST_GET, LIST_SET,
    LIST_REPLACE, LIST_ADD, LIST_ADD_AT, LIST_RESIZE, LIST_CUT, LIST_FIT, LIST_SPREAD, LIST_COLLAPSE, LIST_LEN,
    LIST_ZEROS_LIKE,
)  # fmt: skip

from gradtape.ops import list_batching as batches
from gradtape.ops.shape import normal_axis, second_first
from gradtape.ops.staged import nullary
