"""Which ops can work in place, and whose buffers results have: the facts `bufferize` decides by.

A twin (`update_into` for `update`) changes its first operand and returns it; twins stand only in programs that `bufferize`
made, and have no derivatives. The tables of aliases are conservative: an op in none of them may return anything it was given.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Any

import numpy as np

from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops import dynamic
from gradtape.ops.elementwise import ADD, MULTIPLY, SUBTRACT
from gradtape.ops.index import UPDATE
from gradtape.ops.list_values import TensorList, place_in, resized, zero_like
from gradtape.ops.lists import LIST_ADD_AT, LIST_CLEAR_AT, LIST_CUT, LIST_DROP, LIST_FIT, LIST_PUSH, LIST_RESIZE, LIST_SET
from gradtape.ops.opdef import Op
from gradtape.ops.registry import op_by_name
from gradtape.ops.scatter import EXTREME_ROWS, PUT_ROWS
from gradtape.ops.staged import COPY

# --- arrays


def _update_into(x: Any, value: Any, *, key: Any) -> Any:
    x[key] = value
    return x


def _put_rows_into(x: Any, indices: Any, values: Any) -> Any:
    x[indices] = values
    return x


def _extreme_rows_into(x: Any, indices: Any, values: Any, *, largest: bool) -> Any:
    (np.maximum if largest else np.minimum).at(x, indices, values)
    return x


# --- lists: the list changes, its items never do


def _push_into(values: Any, value: Any) -> Any:
    values.append(value)
    return values


def _drop_into(values: Any) -> Any:
    if not values:
        return LIST_DROP.impl(values)  # raises
    values.pop()
    return values


def _set_into(values: Any, index: Any, value: Any) -> Any:
    values[place_in(values, index)] = value
    return values


def _clear_at_into(values: Any, index: Any) -> Any:
    place = place_in(values, index)
    values[place] = zero_like(values[place])
    return values


def _add_at_into(values: Any, index: Any, value: Any) -> Any:
    place = place_in(values, index)
    values[place] = values[place] + value
    return values


def _resize_into(values: Any, length: Any, *, item: Any) -> Any:
    values.extend(resized(TensorList((), values.item), int(length) - len(values), item=item))
    return values


def _cut_into(values: Any, length: Any) -> Any:
    del values[int(length) :]
    return values


def _fit_into(values: Any, like: Any) -> Any:
    del values[len(like) :]
    values.extend(zero_like(TensorList(like[len(values) :])))
    return values


def _twin(op: Op, impl: Any) -> Op:
    return replace(op, name=f"{op.name}_into", impl=impl, call=None, samples=None)


TWINS: dict[Op, Op] = {
    op: _twin(op, impl)
    for op, impl in (
        (UPDATE, _update_into),
        (dynamic.UPDATE_AT, dynamic.update_into),
        (dynamic.ADD_AT, dynamic.add_into),
        (PUT_ROWS, _put_rows_into),
        (EXTREME_ROWS, _extreme_rows_into),
        (LIST_PUSH, _push_into),
        (LIST_DROP, _drop_into),
        (LIST_SET, _set_into),
        (LIST_CLEAR_AT, _clear_at_into),
        (LIST_ADD_AT, _add_at_into),
        (LIST_RESIZE, _resize_into),
        (LIST_CUT, _cut_into),
        (LIST_FIT, _fit_into),
    )
}
# worth it only where the buffer is large: a small one is allocated sooner than a flag is looked at
ARITHMETIC: dict[Op, Op] = {
    op: _twin(op, impl) for op, impl in ((ADD, operator.iadd), (SUBTRACT, operator.isub), (MULTIPLY, operator.imul))
}
_PURE = {twin: op for table in (TWINS, ARITHMETIC) for op, twin in table.items()}


def pure_op(op: Op) -> Op:
    """The op a twin stands for; any other op is itself."""
    return _PURE.get(op, op)


def _copy_list_impl(values: Any) -> Any:
    return None if values is None else TensorList(values, values.item)


# what a loop that works in place starts from; of a list the list alone, not its items
COPY_OF: dict[type, Op] = {
    TensorSpec: COPY,
    ListSpec: Op("list_copy", "nondiff", ("l",), _copy_list_impl, lambda values: values, reason="only made by bufferize"),
}

_NAMED = {op.name: op for op in (*_PURE, *COPY_OF.values())}


def op_named(name: str) -> Op:
    """The op of this name in any program, twins included: what the parser is to be given for the text of a prepared one."""
    return _NAMED[name] if name in _NAMED else op_by_name(name)


# --- aliases

# array results of these are new buffers that nobody else has, whatever the operands
FRESH = frozenset({
    "add", "subtract", "multiply", "divide", "negative", "power", "pow", "square", "sqrt", "rsqrt", "reciprocal",
    "exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
    "atanh", "atan2", "maximum", "minimum", "floordiv", "mod", "sigmoid", "softplus", "masked_multiply", "abs", "cast",
    "where", "zeros_like", "ones_like", "one_hot", "filled", "copy", "getitem", "put_slice", "take", "take_add", "index_add",
    "update", "getitem_at", "put_at", "update_at", "add_at", "reduce_sum", "reduce_mean",
    "put_rows", "extreme_rows", "concat", "stack", "list_stack", "matmul", "random_uniform", "random_normal",
})  # fmt: skip
# results of these are views of the first operand, in which each of its elements stands at most once
VIEWS = frozenset({"reshape", "transpose", "identity", "stop_gradient", "gradient", "assign"})
# lists these give are new ones; whatever they were given may be items of them
NEW_LISTS = frozenset({
    "list_new", "list_from_tensor", "list_split", "list_push", "list_drop", "list_set", "list_clear_at", "list_add",
    "list_add_at", "list_resize", "list_cut", "list_fit", "list_zeros_like", "list_ones_like", "list_copy",
})  # fmt: skip
# ... except the first operand, a list, of which they take the items only
KEEPS_LIST = NEW_LISTS - {"list_new", "list_from_tensor", "list_split"}
# results are items, or say how many there are: nothing of the list itself
READS_LIST = frozenset({"list_get", "list_len", "list_lengths", "list_concat"})
