"""Keras's `nn` functions for losses, normalisation and one-hot codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src import backend

from gradtape.core.tensor import Tensor
from gradtape.core.typing import DTypeLike, TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.nn_activations import log_softmax
from gradtape.keras.numpy_types import floating, promoted, result_type
from gradtape.ops.create import one_hot as engine_one_hot
from gradtape.ops.elementwise import log, rsqrt
from gradtape.ops.index import check_range
from gradtape.ops.losses import sigmoid_cross_entropy_with_logits
from gradtape.ops.reduce import reduce_max, reduce_mean, reduce_sum
from gradtape.ops.select import clip_by_value
from gradtape.ops.sequence_losses import ctc_loss as engine_ctc_loss
from gradtape.ops.shape import reshape, squeeze

# -- codes -----------------------------------------------------------------------------------------------------------------


def one_hot(x: TensorLike, num_classes: int, axis: int = -1, dtype: DTypeLike | None = None, sparse: bool = False) -> Tensor:
    if sparse:
        raise ValueError("Unsupported value `sparse=True`: the tensors of the gradtape engine are dense")
    return engine_one_hot(cast(x, "int32"), num_classes, axis=axis, dtype=dtype or "float32")


def multi_hot(x: TensorLike, num_classes: int, axis: int = -1, dtype: DTypeLike | None = None, sparse: bool = False) -> Tensor:
    codes = one_hot(x, num_classes, axis=axis, dtype=dtype, sparse=sparse)
    place = 1 if convert_to_tensor(x).ndim > 1 else 0
    if codes.dtype.is_bool:
        return cast(reduce_max(cast(codes, "int32"), place), "bool")
    return reduce_max(codes, place)


# -- cross-entropies -------------------------------------------------------------------------------------------------------


def _same_shapes(target: Tensor, output: Tensor) -> None:
    if len(target.shape) != len(output.shape) or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(target.shape, output.shape, strict=True)
    ):
        raise ValueError(
            "Arguments `target` and `output` must have the same shape. Received: "
            f"target.shape={tuple(target.shape)}, output.shape={tuple(output.shape)}"
        )


def _log_probabilities(output: Tensor, from_logits: bool, axis: int) -> Tensor:
    if from_logits:
        return log_softmax(output, axis)
    shares = output / reduce_sum(output, axis, True)
    return log(clip_by_value(shares, backend.epsilon(), 1.0 - backend.epsilon()))


def categorical_crossentropy(target: TensorLike, output: TensorLike, from_logits: bool = False, axis: int = -1) -> Tensor:
    labels, scores = convert_to_tensor(target), floating(output)
    _same_shapes(labels, scores)
    if not labels.ndim:
        raise ValueError(
            "Arguments `target` and `output` must be at least rank 1. Received: "
            f"target.shape={tuple(labels.shape)}, output.shape={tuple(scores.shape)}"
        )
    labels, logs = promoted(labels, _log_probabilities(scores, from_logits, axis))
    return -reduce_sum(labels * logs, axis)


def sparse_categorical_crossentropy(
    target: TensorLike, output: TensorLike, from_logits: bool = False, axis: int = -1
) -> Tensor:
    labels, scores = cast(target, "int32"), floating(output)
    if labels.ndim == scores.ndim and labels.shape[-1] == 1:
        labels = squeeze(labels, -1)
    if not scores.ndim:
        raise ValueError(f"Argument `output` must be at least rank 1. Received: output.shape={tuple(scores.shape)}")
    known = [
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(labels.shape, scores.shape[:-1], strict=False)
    ]
    if labels.ndim != scores.ndim - 1 or any(known):
        raise ValueError(
            "Arguments `target` and `output` must have the same shape up until the last dimension: "
            f"target.shape={tuple(labels.shape)}, output.shape={tuple(scores.shape)}"
        )
    logs = _log_probabilities(scores, from_logits, axis)
    labels = check_range(labels, scores.shape[axis], "sparse_categorical_crossentropy", "label")
    codes = engine_one_hot(labels, scores.shape[axis], axis=axis, dtype=logs.dtype)
    return -reduce_sum(codes * logs, axis)


def binary_crossentropy(target: TensorLike, output: TensorLike, from_logits: bool = False) -> Tensor:
    labels, scores = promoted(target, floating(output))
    _same_shapes(labels, scores)
    if from_logits:
        return sigmoid_cross_entropy_with_logits(labels, scores)
    shares = clip_by_value(scores, backend.epsilon(), 1.0 - backend.epsilon())
    return -(labels * log(shares) + (1.0 - labels) * log(1.0 - shares))


# -- normalisation ---------------------------------------------------------------------------------------------------------


def moments(x: TensorLike, axes: Any, keepdims: bool = False, synchronized: bool = False) -> tuple[Tensor, Tensor]:
    if synchronized:
        raise NotImplementedError("Argument synchronized=True is not supported: the gradtape engine runs in one process")
    tensor = floating(x)
    places = tuple(axes) if isinstance(axes, (list, tuple)) else axes
    narrow = tensor.dtype.name if tensor.dtype.name in ("float16", "bfloat16") else None
    wide = tensor if narrow is None else cast(tensor, "float32")
    mean = reduce_mean(wide, places, True)
    centred = wide - mean
    variance = reduce_mean(centred * centred, places, keepdims)
    mean = mean if keepdims else squeeze(mean, places)
    if narrow is None:
        return mean, variance
    if narrow == "float16":
        limit = float(np.finfo(np.float16).max)
        mean, variance = clip_by_value(mean, -limit, limit), clip_by_value(variance, -limit, limit)
    return cast(mean, narrow), cast(variance, narrow)


def batch_normalization(
    x: TensorLike, mean: TensorLike, variance: TensorLike, axis: int, offset: TensorLike | None = None,
    scale: TensorLike | None = None, epsilon: float = 1e-3,
) -> Tensor:  # fmt: skip
    tensor = convert_to_tensor(x)
    along = [1] * tensor.ndim
    along[axis] = -1
    centre, spread = (reshape(convert_to_tensor(v), along) for v in (mean, variance))
    factor = rsqrt(spread + epsilon)
    if scale is not None:
        factor = factor * reshape(cast(scale, factor.dtype), along)
    shift = -centre * factor
    if offset is not None:
        shift = shift + reshape(cast(offset, factor.dtype), along)
    tensor, factor, shift = promoted(tensor, factor, shift)
    return tensor * factor + shift


# -- sequences -------------------------------------------------------------------------------------------------------------


def ctc_loss(
    target: TensorLike, output: TensorLike, target_length: TensorLike, output_length: TensorLike, mask_index: int = 0
) -> Tensor:
    scores = convert_to_tensor(output)
    scores = cast(scores, result_type(scores.dtype.name, "float32"))
    return engine_ctc_loss(
        cast(target, "int32"), scores, cast(target_length, "int32"), cast(output_length, "int32"), logits_time_major=False,
        blank_index=mask_index,
    )  # fmt: skip


def ctc_decode(
    inputs: TensorLike, sequence_lengths: TensorLike, strategy: str = "greedy", beam_width: int = 100, top_paths: int = 1,
    merge_repeated: bool = True, mask_index: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    from gradtape.keras.ctc_decoding import beam_search, greedy

    scores = convert_to_tensor(inputs)
    scores = cast(scores, result_type(scores.dtype.name, "float32"))
    lengths = cast(sequence_lengths, "int32")
    if strategy == "greedy":
        return greedy(scores, lengths, merge_repeated, mask_index)
    if strategy == "beam_search":
        return beam_search(scores, lengths, beam_width, top_paths, mask_index)
    raise ValueError(f"Invalid strategy {strategy}. Supported values are 'greedy' and 'beam_search'.")
