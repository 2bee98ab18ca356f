"""Loops, branches, scans, scatters and slices: Keras's `core` operations, as loops of the program while one is traced.

In a symbolic scope, where only shapes are asked for, each body runs once. Eagerly Python decides and tapes see what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keras.src import tree
from keras.src.backend.common.symbolic_scope import in_symbolic_scope

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.functions.staging.staged_control import staged_scan
from gradtape.ir.polynomial import Dim
from gradtape.keras.core_ops import convert_to_tensor
from gradtape.ops.create import range as counting, zeros, zeros_like
from gradtape.ops.scatter import (
    slice as slice_tensor,
    tensor_scatter_nd_add,
    tensor_scatter_nd_max,
    tensor_scatter_nd_min,
    tensor_scatter_nd_update,
)
from gradtape.ops.select import clip_by_value
from gradtape.ops.shape import broadcast_to, concat, expand_dims, reshape, reverse as flipped, stack, unstack as unstack_tensor
from gradtape.tape import control_flow
from gradtape.tape.custom_gradient import custom_gradient as engine_custom_gradient, recompute_grad
from gradtape.tape.jacobian import vectorized_map as engine_vectorized_map
from gradtape.trace.effects import active
from gradtape.trace.tracing import TracedTensor

_tensors = convert_to_tensor


def _only_shapes() -> bool:
    """Whether a shape is asked for: no program is built, so nothing can be staged."""
    return bool(in_symbolic_scope()) and active() is None


def _staged(value: object) -> bool:
    return isinstance(value, (TracedTensor, Dim))


# -- branches ------------------------------------------------------------------------------------------------------------


def cond(pred: TensorLike, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    if _only_shapes() and _staged(pred):
        return true_fn()
    if isinstance(pred, bool):
        return true_fn() if pred else false_fn()
    return control_flow.cond(_tensors(pred, "bool"), true_fn, false_fn)


def switch(index: TensorLike, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    if _only_shapes() and _staged(index):
        return branches[0](*operands)
    place = clip_by_value(_tensors(index, "int32"), 0, len(branches) - 1)
    return control_flow.switch_case(place, [lambda branch=branch: branch(*operands) for branch in branches])


# -- loops ---------------------------------------------------------------------------------------------------------------


def while_loop(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, maximum_iterations: int | None = None
) -> Any:
    several = isinstance(loop_vars, (tuple, list))
    state = tuple(loop_vars) if several else (loop_vars,)
    state = tree.map_structure(_tensors, state)
    if _only_shapes():
        return state if several else state[0]

    def turn(*values: Any) -> tuple[Any, ...]:
        result = body(*values)
        return tuple(result) if isinstance(result, (list, tuple)) else (result,)

    test = lambda *values: _tensors(cond(*values), "bool")  # noqa: E731
    results = control_flow.while_loop(test, turn, state, maximum_iterations=maximum_iterations)
    return tuple(results) if several else results[0]


def fori_loop(lower: TensorLike, upper: TensorLike, body_fun: Callable[..., Any], init_val: Any) -> Any:
    if _only_shapes():
        return tree.map_structure(_tensors, init_val)
    if not _staged(lower) and not _staged(upper) and active() is None:
        value = init_val
        for i in range(int(_tensors(lower)), int(_tensors(upper))):
            value = body_fun(i, value)
        return value
    start = (_tensors(lower, "int32"), tree.map_structure(_tensors, init_val))
    end = _tensors(upper, "int32")
    _, value = control_flow.while_loop(lambda i, _: i < end, lambda i, value: (i + 1, body_fun(i, value)), start)
    return value


def map_(f: Callable[..., Any], xs: Any) -> Any:
    return scan(lambda carry, x: (carry, f(x)), (), xs)[1]


def scan(
    f: Callable[..., Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False, unroll: bool | int = 1
) -> Any:
    """`carry, y = f(carry, x)` for each row of `xs`; the last carry and the rows `y`, stacked."""
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    if not isinstance(unroll, bool) and (not isinstance(unroll, int) or unroll < 1):
        raise ValueError(f"`unroll` must be an positive integer or boolean. Received: unroll={unroll}")
    if xs is None and length is None:
        raise ValueError("Got no `xs` to scan over and `length` not provided.")
    rows = None if xs is None else tree.map_structure(_tensors, xs)
    count: Any = int(length) if length is not None else tree.flatten(rows)[0].shape[0]
    carry = tree.map_structure(_tensors, init)
    absent = zeros_like(tree.flatten(carry)[0]) if tree.flatten(carry) else zeros(())

    def step(carry: Any, row: Any) -> tuple[Any, Any]:
        carry, y = f(carry, row)
        return carry, absent if y is None else tree.map_structure(_tensors, y)

    def turn(carry: Any, i: Any) -> tuple[Any, Any]:
        return step(carry, None if rows is None else tree.map_structure(lambda x: x[i], rows))

    if _only_shapes():
        carry, y = turn(carry, 0)
        return carry, tree.map_structure(lambda part: broadcast_to(expand_dims(_tensors(part), 0), (count, *part.shape)), y)
    places = range(count) if isinstance(count, int) else None
    if places is not None and (active() is None or count < 2 or unroll is True):
        ys = []
        for i in reversed(places) if reverse else places:
            carry, y = turn(carry, i)
            ys.append(y)
        if not ys:
            return carry, None
        return carry, tree.map_structure(lambda *parts: stack(parts), *(ys[::-1] if reverse else ys))
    return _staged_scan(step, carry, rows, count, reverse)


def _staged_scan(f: Callable[..., Any], carry: Any, rows: Any, count: Any, backwards: bool) -> Any:
    """The loop as one of the program."""
    elems = counting(count) if rows is None else rows
    carry, ys = staged_scan(lambda carry, row: f(carry, None if rows is None else row), carry, elems, backwards)
    return carry, tree.map_structure(lambda part: flipped(part, [0]), ys) if backwards else ys


def associative_scan(f: Callable[..., Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes under an associative `f`, in log₂ n rounds (Hillis and Steele): round k adds the one 2ᵏ before."""
    if not callable(f):
        raise TypeError(f"`f` should be a callable. Received: f={f}")
    flat = [_tensors(x) for x in tree.flatten(elems)]
    count = int(flat[0].shape[axis])
    if any(int(x.shape[axis]) != count for x in flat):
        raise ValueError(
            f"Array inputs to associative_scan must have the same first dimension. (saw: {[tuple(x.shape) for x in flat]})"
        )
    places = [axis % x.ndim for x in flat]
    if reverse:
        flat = [flipped(x, [a]) for x, a in zip(flat, places, strict=True)]
    shift = 1
    while shift < count:
        before = [_cut(x, a, 0, count - shift) for x, a in zip(flat, places, strict=True)]
        after = [_cut(x, a, shift, count) for x, a in zip(flat, places, strict=True)]
        joined = tree.flatten(f(tree.pack_sequence_as(elems, before), tree.pack_sequence_as(elems, after)))
        flat = [
            concat([_cut(x, a, 0, shift), _tensors(new, x.dtype.name)], a)
            for x, new, a in zip(flat, joined, places, strict=True)
        ]
        shift *= 2
    if reverse:
        flat = [flipped(x, [a]) for x, a in zip(flat, places, strict=True)]
    return tree.pack_sequence_as(elems, flat)


def _cut(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def vectorized_map(function: Callable[..., Any], elements: Any) -> Any:
    rows = tree.map_structure(_tensors, elements)
    return engine_vectorized_map(function, rows)


# -- slices and scatters ---------------------------------------------------------------------------------------------------


def scatter(indices: TensorLike, values: TensorLike, shape: Sequence[int]) -> Tensor:
    updates = _tensors(values)
    return tensor_scatter_nd_add(zeros(tuple(shape), updates.dtype), *_scattered(indices, updates, tuple(shape)))


def _scattered(indices: TensorLike, updates: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    places = _tensors(indices)
    depth = places.shape[-1]
    return reshape(places, (-1, depth)), reshape(updates, (-1, *shape[depth:]))


_REDUCTIONS = {"add": tensor_scatter_nd_add, "max": tensor_scatter_nd_max, "min": tensor_scatter_nd_min}


def scatter_update(inputs: TensorLike, indices: TensorLike, updates: TensorLike, reduction: str | None = None) -> Tensor:
    target = _tensors(inputs)
    places, values = _scattered(indices, _tensors(updates, target.dtype), tuple(target.shape))
    if reduction is None:
        return tensor_scatter_nd_update(target, places, values)
    if reduction == "mul":
        from gradtape.keras.math_ops import multiplied_at

        return multiplied_at(target, places, values)
    if reduction not in _REDUCTIONS:
        raise ValueError(f"Unsupported reduction: {reduction}")
    return _REDUCTIONS[reduction](target, places, values)


def _spans(starts: Any, sizes: Sequence[Any]) -> tuple[Any, ...]:
    spans = []
    for start, size in zip(_unpacked(starts), sizes, strict=True):
        begin = start if _staged(start) else int(start)
        spans.append(slice(begin, begin + size))
    return tuple(spans)


def _unpacked(starts: Any) -> list[Any]:
    return list(unstack_tensor(_tensors(starts))) if isinstance(starts, Tensor) else list(starts)


def slice_(inputs: TensorLike, start_indices: Any, shape: Sequence[int]) -> Tensor:
    if len(start_indices) != len(shape):
        raise ValueError(
            f"Length of `start_indices` must match length of `shape`. Received: start_indices={start_indices}, shape={shape}"
        )
    x = _tensors(inputs)
    starts = [s if _staged(s) else int(s) for s in _unpacked(start_indices)]
    if any(_staged(s) for s in starts):
        return slice_tensor(x, stack([_tensors(s, "int32") for s in starts]), tuple(shape))
    # a start too near the end is moved back, as on the other engines
    starts = [min(max(s, 0), n - size) if isinstance(n, int) else s for s, n, size in zip(starts, x.shape, shape, strict=True)]
    return x[tuple(slice(s, s + size) for s, size in zip(starts, shape, strict=True))]


def slice_update(inputs: TensorLike, start_indices: Any, updates: TensorLike) -> Tensor:
    x = _tensors(inputs)
    values = _tensors(updates, x.dtype)
    changed = x.__copy__()
    changed[_spans(start_indices, tuple(values.shape))] = values
    return changed


def unstack(x: TensorLike, num: int | None = None, axis: int = 0) -> list[Tensor]:
    return list(unstack_tensor(_tensors(x), num, axis))


# -- derivatives -----------------------------------------------------------------------------------------------------------


class custom_gradient:  # noqa: N801  (Keras's name)
    """`f(*args) -> result, grad`; Keras's rules are called with `upstream` by name, or the cotangent alone."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result of the function, with its own rule behind it."""

        def with_rule(*tensors: Any) -> Any:
            result, rule = self.fun(*tensors, **kwargs)

            def pull(*cotangents: Any, variables: Any = None) -> Any:
                try:
                    pulled = rule(*cotangents)
                except TypeError:
                    pulled = rule(upstream=cotangents[0] if len(cotangents) == 1 else cotangents)
                flat = tree.flatten(pulled)
                full = [*flat, *[None] * (len(tensors) - len(flat))]
                return full if len(full) > 1 else full[0]

            return result, pull

        return engine_custom_gradient(with_rule)(*[_tensors(x) for x in args])


def remat(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, computed again on the way back instead of kept."""
    return recompute_grad(f)
