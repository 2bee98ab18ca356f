"""Keras's loop over time steps: one loop of the program while a function is traced, Python's otherwise.

LSTM and GRU have forms of their own: the product of all inputs with their kernel is one, ahead of the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src import tree

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.control_ops import scan
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.ops.compare import logical_not
from gradtape.ops.create import zeros_like
from gradtape.ops.matmul import matmul
from gradtape.ops.reduce import reduce_all
from gradtape.ops.select import where
from gradtape.ops.shape import expand_dims, reshape, reverse, second_first, split


def rnn(
    step_function: Callable[..., Any], inputs: Any, initial_states: Any, go_backwards: bool = False,
    mask: TensorLike | None = None, constants: Any = None, unroll: bool = False, input_length: Any = None,
    time_major: bool = False, zero_output_for_mask: bool = False, return_all_outputs: bool = True,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """`output, states = step_function(input, states)` along the time axis: the last output, all of them, the last states."""
    rows = tree.map_structure(convert_to_tensor, inputs)
    if not time_major:
        rows = tree.map_structure(second_first, rows)
    given = tuple(constants or ())
    states = tree.map_structure(convert_to_tensor, initial_states)
    steps = tree.flatten(rows)[0].shape[0]
    if unroll and not isinstance(steps, int):
        raise ValueError("Unrolling requires a fixed number of timesteps.")
    keep = None if mask is None else _time_mask(mask, time_major)

    def step(states: Any, row: Any) -> tuple[Any, Any]:
        current, kept = (row, None) if keep is None else row
        output, new = step_function(current, (*states, *given))
        if kept is None:
            return _like(states, new), output
        skipped = reduce_all(logical_not(kept), -1, True)
        before = zeros_like(output) if zero_output_for_mask else _previous(states)
        output = tree.map_structure(lambda old, now: _chosen(skipped, old, now), before, output)
        return tree.map_structure(lambda old, now: _chosen(skipped, old, now), states, _like(states, new)), output

    last, outputs = scan(step, states, rows if keep is None else (rows, keep), reverse=go_backwards, unroll=bool(unroll))
    if go_backwards:  # in the order in which they were computed
        outputs = tree.map_structure(lambda part: reverse(part, [0]), outputs)
    final = tree.map_structure(lambda part: part[-1], outputs)
    if not return_all_outputs:
        outputs = tree.map_structure(lambda part: part[-1:], outputs)
    return final, outputs if time_major else tree.map_structure(second_first, outputs), last


def _like(states: Any, new: Any) -> Any:
    """The new states in the structure and dtypes of the old ones: a loop carries one type."""
    flat = [cast(now, old.dtype) for old, now in zip(tree.flatten(states), tree.flatten(new), strict=True)]
    return tree.pack_sequence_as(states, flat)


def _time_mask(mask: TensorLike, time_major: bool) -> Tensor:
    kept = cast(mask, "bool")
    kept = expand_dims(kept, -1) if kept.ndim == 2 else kept
    return kept if time_major else second_first(kept)


def _previous(states: Any) -> Any:
    """What a skipped step repeats: the first state is the output before; of stacked cells that of the last one."""
    first = states[0]
    return states[-1][0] if tree.is_nested(first) else first


def _chosen(skipped: Tensor, old: Tensor, new: Tensor) -> Tensor:
    test = reshape(skipped, (*skipped.shape, *(1,) * (new.ndim - skipped.ndim))) if new.ndim > skipped.ndim else skipped
    return where(test, cast(old, new.dtype), new)


def lstm(
    inputs: TensorLike, initial_state_h: TensorLike, initial_state_c: TensorLike, mask: TensorLike | None, kernel: TensorLike,
    recurrent_kernel: TensorLike, bias: TensorLike | None, activation: Callable[..., Any],
    recurrent_activation: Callable[..., Any], return_sequences: bool = False, go_backwards: bool = False, unroll: bool = False,
) -> tuple[Any, Any, list[Any]]:  # fmt: skip
    """A layer of LSTM cells with its input products made at once."""
    if mask is not None:
        raise NotImplementedError("what a skipped step gives is the layer's to say: step by step")
    x, w, u = convert_to_tensor(inputs), convert_to_tensor(kernel), convert_to_tensor(recurrent_kernel)
    products = matmul(x, w) if bias is None else matmul(x, w) + convert_to_tensor(bias)

    def cell(row: Tensor, states: Any) -> tuple[Any, Any]:
        h, c = states
        i, f, g, o = split(row + matmul(h, u), 4, 1)
        c = recurrent_activation(f) * c + recurrent_activation(i) * activation(g)
        h = recurrent_activation(o) * activation(c)
        return h, [h, c]

    starts = [cast(initial_state_h, x.dtype), cast(initial_state_c, x.dtype)]
    return rnn(cell, products, starts, go_backwards, mask, unroll=unroll, return_all_outputs=return_sequences)


def gru(
    inputs: TensorLike, initial_state: TensorLike, mask: TensorLike | None, kernel: TensorLike, recurrent_kernel: TensorLike,
    bias: TensorLike | None, activation: Callable[..., Any], recurrent_activation: Callable[..., Any],
    return_sequences: bool = False, go_backwards: bool = False, unroll: bool = False, time_major: bool = False,
    reset_after: bool = True,
) -> tuple[Any, Any, list[Any]]:  # fmt: skip
    """A layer of GRU cells with its input products made at once."""
    x, w, u = convert_to_tensor(inputs), convert_to_tensor(kernel), convert_to_tensor(recurrent_kernel)
    if mask is not None or not reset_after:
        raise NotImplementedError("what a skipped step gives is the layer's to say, and another cell: step by step")
    biases = None if bias is None else convert_to_tensor(bias)
    products = matmul(x, w) if biases is None else matmul(x, w) + biases[0]

    def cell(row: Tensor, states: Any) -> tuple[Any, Any]:
        (h,) = states
        inner = matmul(h, u) if biases is None else matmul(h, u) + biases[1]
        x_z, x_r, x_h = split(row, 3, 1)
        h_z, h_r, h_h = split(inner, 3, 1)
        z, r = recurrent_activation(x_z + h_z), recurrent_activation(x_r + h_r)
        h = z * h + (1.0 - z) * activation(x_h + r * h_h)
        return h, [h]

    start = [cast(initial_state, x.dtype)]
    return rnn(
        cell, products, start, go_backwards, mask, unroll=unroll, time_major=time_major, return_all_outputs=return_sequences
    )


def bidirectional_lstm(*args: Any, **kwargs: Any) -> Any:
    """Two layers one after the other: Keras runs them when this says that it does not."""
    raise NotImplementedError("two passes")


bidirectional_gru = bidirectional_lstm


def cudnn_ok(*args: Any, **kwargs: Any) -> bool:
    return False
