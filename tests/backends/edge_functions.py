"""Every function that takes an index, a count, a label or a size from run time, with numbers around every edge: a table of
programs for `edge_programs.py`, which says with which numbers they run.

Numbers that are sizes are cut off above (`few`), since eager code would take the memory; below they are as they come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradtape as gt
from tests.backends.edge_programs import PROGRAMS


def few(a: Any, most: int = 6) -> Any:
    return gt.minimum(a, gt.cast(most, a.dtype))


def some(a: Any) -> Any:
    """Also not -1, which means the rest where a size is known while tracing, and is refused of one that is not."""
    return gt.where(gt.equal(a, -1), gt.cast(-2, a.dtype), few(a))


def little(a: Any) -> Any:
    return gt.maximum(few(a), gt.cast(-6, a.dtype))


def pair(a: Any, b: Any) -> Any:
    return gt.stack([a, b])


def rows(x: Any) -> Any:
    return gt.stack([x, -x])


def written(x: Any, a: Any, b: Any) -> Any:
    y = gt.identity(x)
    y[a:b] = 7.0
    return y


def written_by_steps(x: Any, a: Any, b: Any) -> Any:
    y = gt.identity(x)
    y[a:b:2] = 7.0
    y[b] = 1.0
    return y


def written_in_rows(x: Any, a: Any, b: Any) -> Any:
    y = gt.identity(rows(x))
    y[a, b] = 3.0
    y[a, b:] = 4.0
    y[a] = 5.0
    return y


def written_items(x: Any, a: Any, b: Any) -> Any:
    y = x * x
    y[pair(a, b)] = x[:2]
    return y


def slots(x: Any, a: Any, b: Any) -> Any:
    array = gt.TensorArray(gt.float64, 3, element_shape=[]).scatter(pair(a, b), gt.constant([1.0, 2.0], gt.float64))
    return array.gather(pair(b, a)), array.read(a)


def sized_slots(x: Any, a: Any, b: Any) -> Any:
    array = gt.TensorArray(gt.float64, few(a), element_shape=[], dynamic_size=True)
    return array.write(few(b), gt.constant(1.0, gt.float64)).size()


def unstacked(x: Any, a: Any, b: Any) -> Any:
    return gt.TensorArray(gt.float64, 0, dynamic_size=True, element_shape=[]).unstack(x).read(a)


def items(x: Any, a: Any, b: Any) -> Any:
    values = [x[0], x[0] + 1.0]
    for _ in gt.range(3):
        values.append(gt.constant(2.0, gt.float64))
    values[a] = values[b] + 1.0
    return values[0], values[b]


def cut(x: Any, a: Any, b: Any) -> Any:
    values = []
    for i in gt.range(5):
        values.append(gt.cast(i, gt.float64))
    return gt.convert_to_tensor(len(values[a:b])), gt.stack(values[: gt.maximum(b, 1)])


def items_of_loops(x: Any, a: Any, b: Any) -> Any:
    """Lists that are read and written in loops, so that their gradients are lists as well."""
    values = []
    for i in gt.range(4):
        values.append(x[0] * gt.cast(i, gt.float64))
    total = x[0]
    for _ in gt.range(3):
        values[a] = values[b] * total
        total = total + values[a] * values[b]
    return total


def slots_of_loops(x: Any, a: Any, b: Any) -> Any:
    array = gt.TensorArray(gt.float64, 4, element_shape=[], clear_after_read=False)
    for i in gt.range(2):
        array = array.write(a + gt.cast(i, a.dtype), x[0] * x[0])
    return array.read(b) + gt.reduce_sum(array.stack())


def strided_windows(x: Any, a: Any, b: Any) -> Any:
    return gt.nn.conv1d(gt.reshape(gt.range(5.0), [1, 5, 1]), gt.ones([1, 1, 1]), few(a), "VALID")


def slope(function: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(x: Any, a: Any, b: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = function(x, a, b)
        return tape.gradient(y, x)

    return gradient


def chosen(x: Any, a: Any, b: Any) -> Any:
    return gt.switch_case(a, [lambda: x + 1.0, lambda: x * 2.0], default=lambda: -x)


ONES = gt.ones([2], gt.float64)
LOGITS = gt.constant([[[0.1, 0.2, 0.3, 0.4]], [[0.4, 0.1, 0.2, 0.3]], [[0.3, 0.4, 0.1, 0.2]]], gt.float64)

# of the array x and two numbers
FUNCTIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "gather": lambda x, a, b: gt.gather(rows(x), pair(a, b), axis=1),
    "gather_of_rows": lambda x, a, b: gt.gather(rows(x), gt.reshape(pair(a, b), [2, 1]), batch_dims=1),
    "gather_nd": lambda x, a, b: gt.gather_nd(rows(x), [pair(a, b)]),
    "items_of_axes": lambda x, a, b: (rows(x)[a, b], rows(x)[a], rows(x)[:, b], rows(x)[..., a, gt.newaxis]),
    "index_arrays": lambda x, a, b: (rows(x)[:, pair(a, b)], x[pair(a, b)]),
    "take_along_axis": lambda x, a, b: gt.array_api.take_along_axis(rows(x), gt.reshape(pair(a, b), [2, 1]), axis=1),
    "strides": lambda x, a, b: x[a::b],
    "strides_back": lambda x, a, b: (x[a:b:-1], x[::a]),
    "slices_of_rows": lambda x, a, b: rows(x)[a:, :b],
    "slice": lambda x, a, b: gt.slice(x, [a], [b]),
    "slice_of_rows": lambda x, a, b: gt.slice(rows(x), [0, a], [1, b]),
    "roll": lambda x, a, b: (gt.roll(x, a, 0), gt.roll(rows(x), [a, b], [1, 0])),
    "split": lambda x, a, b: gt.split(x, [some(a), some(b)]),
    "pad": lambda x, a, b: gt.pad(x, [[few(a), few(b)]]),
    "mirror": lambda x, a, b: gt.pad(x, [[few(a), few(b)]], mode="REFLECT"),
    "tile": lambda x, a, b: gt.tile(rows(x), [few(a), few(b)]),
    "repeat": lambda x, a, b: gt.repeat(x, few(a)),
    "repeats": lambda x, a, b: gt.repeat(ONES, pair(few(a), few(b))),
    "reshape": lambda x, a, b: gt.reshape(x, [some(a), some(b)]),
    "reshape_rest": lambda x, a, b: gt.reshape(x, [gt.where(gt.equal(a, 0), gt.ones_like(a), some(a)), -1]),
    "broadcast_to": lambda x, a, b: gt.broadcast_to(x, [some(a), few(b, 8)]),
    "fill": lambda x, a, b: (gt.fill([few(a)], 1.0), gt.zeros([few(b)]), gt.ones([2, few(a)])),
    "one_hot": lambda x, a, b: gt.one_hot(pair(a, b), 3),
    "one_hot_depth": lambda x, a, b: gt.one_hot([0, 2], few(a)),
    "top_k": lambda x, a, b: gt.math.top_k(x, few(a, 8)),
    "bincount": lambda x, a, b: gt.math.bincount(pair(few(a), few(b))),
    "bincount_bounds": lambda x, a, b: gt.math.bincount([0, 2, 5], minlength=few(a), maxlength=few(b)),
    "labels": lambda x, a, b: gt.nn.sparse_softmax_cross_entropy_with_logits(pair(a, b), rows(x)),
    "in_top_k": lambda x, a, b: gt.math.in_top_k(pair(a, b), rows(x), 1),
    "embedding": lambda x, a, b: gt.nn.embedding_lookup(gt.reshape(x, [-1, 1]), pair(a, b)),
    "mask": lambda x, a, b: (x[x > gt.cast(a, x.dtype)], gt.boolean_mask(rows(x), rows(x) < gt.cast(b, x.dtype))),
    "sequence_mask": lambda x, a, b: (gt.sequence_mask(pair(a, b), 4), gt.sequence_mask(pair(few(a), few(b)))),
    "searchsorted": lambda x, a, b: gt.searchsorted(x, gt.cast(pair(a, b), x.dtype)),
    "invert_permutation": lambda x, a, b: gt.math.invert_permutation(pair(a, b)),
    "transpose": lambda x, a, b: gt.transpose(rows(x), pair(a, b)),
    "scatter_nd": lambda x, a, b: gt.scatter_nd(gt.reshape(pair(a, b), [2, 1]), ONES, [4]),
    "scatter_add": lambda x, a, b: gt.tensor_scatter_nd_add(x, gt.reshape(pair(a, b), [2, 1]), ONES),
    "scatter_update": lambda x, a, b: gt.tensor_scatter_nd_update(x, gt.reshape(pair(a, b), [2, 1]), ONES),
    "scatter_max": lambda x, a, b: gt.tensor_scatter_nd_max(x, gt.reshape(pair(a, b), [2, 1]), ONES),
    "scatter_of_rows": lambda x, a, b: gt.tensor_scatter_nd_update(rows(x), [pair(a, b)], ONES[:1]),
    "segment_sum": lambda x, a, b: gt.math.segment_sum(ONES, pair(few(a), few(b))),
    "segment_max": lambda x, a, b: gt.math.segment_max(ONES, pair(few(a), few(b))),
    "segment_mean": lambda x, a, b: gt.math.segment_mean(ONES, pair(few(a), few(b))),
    "unsorted_segment_sum": lambda x, a, b: gt.math.unsorted_segment_sum(ONES, pair(a, b), 4),
    "unsorted_segment_min": lambda x, a, b: gt.math.unsorted_segment_min(ONES, pair(a, b), 4),
    "unsorted_segment_prod": lambda x, a, b: gt.math.unsorted_segment_prod(ONES, pair(a, b), 4),
    "number_of_segments": lambda x, a, b: gt.math.unsorted_segment_sum(ONES, gt.constant([0, 2]), few(a)),
    "range": lambda x, a, b: gt.range(little(a), little(b)),
    "linspace": lambda x, a, b: gt.linspace(0.0, 1.0, few(a)),
    "ctc_labels": lambda x, a, b: gt.nn.ctc_loss(gt.reshape(pair(a, b), [1, 2]), LOGITS, [2], [3]),
    "ctc_lengths": lambda x, a, b: gt.nn.ctc_loss([[1, 2]], LOGITS, gt.reshape(a, [1]), gt.reshape(b, [1])),
    "strides_of_windows": strided_windows,
    "switch_case": chosen, "items_of_loops": items_of_loops, "slots_of_loops": slots_of_loops,
    "written": written, "written_by_steps": written_by_steps, "written_in_rows": written_in_rows, "slots": slots,
    "sized_slots": sized_slots, "unstacked": unstacked, "list_items": items, "list_cut": cut,
    "slope_of_item": slope(lambda x, a, b: x[a] * x[b]),
    "slope_of_gather": slope(lambda x, a, b: gt.gather(x, pair(a, b)) ** 2),
    "slope_of_slice": slope(lambda x, a, b: x[a:b] ** 2),
    "slope_of_strides": slope(lambda x, a, b: x[a::b] ** 2),
    "slope_of_written": slope(lambda x, a, b: written(x, a, b) ** 2),
    "slope_of_roll": slope(lambda x, a, b: gt.roll(x, a, 0) ** 2),
    "slope_of_segments": slope(lambda x, a, b: gt.math.unsorted_segment_sum(x[:2] ** 2, pair(a, b), 4)),
    "slope_of_scatter": slope(lambda x, a, b: gt.tensor_scatter_nd_update(x, gt.reshape(pair(a, b), [2, 1]), ONES) ** 2),
    "slope_of_labels": slope(lambda x, a, b: gt.nn.sparse_softmax_cross_entropy_with_logits(pair(a, b), rows(x))),
    "slope_of_index_arrays": slope(lambda x, a, b: rows(x)[gt.constant([0, 1]), pair(a, b)] ** 2),
    "slope_of_written_items": slope(written_items), "slope_of_list": slope(items_of_loops),
    "slope_of_slots": slope(slots_of_loops),
    "slope_of_max": slope(lambda x, a, b: gt.math.unsorted_segment_max(x[:2] ** 2, pair(a, b), 4)),
    "slope_of_repeat": slope(lambda x, a, b: gt.repeat(x, few(a)) ** 2),
}  # fmt: skip


def _of_two(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, a, b, n: function(x, a, b)


NAMES = frozenset(f"of_{name}" for name in FUNCTIONS)
PROGRAMS |= {f"of_{name}": (_of_two(function), 3) for name, function in FUNCTIONS.items()}
