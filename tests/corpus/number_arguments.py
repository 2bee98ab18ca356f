"""A call of every public function that takes an axis, a size or another number that is not differentiated.

`CALLS` has one set of arguments per function; `NUMBERS` are the names of parameters that are such numbers. A function with one
of these parameters that is missing here fails `test_28_numbers_of_every_kind.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

import gradtape as gt

SPACES = {
    "": gt, "math.": gt.math, "nn.": gt.nn, "linalg.": gt.linalg, "signal.": gt.signal, "random.": gt.random,
    "debugging.": gt.debugging,
}  # fmt: skip
NUMBERS = {
    "axis", "axes", "dim", "k", "num", "depth", "strides", "stride", "ksize", "shift", "perm", "repeats", "num_segments",
    "batch_dims", "fft_length", "shape", "multiples", "paddings", "crops", "block_shape", "block_size",
    "num_or_size_splits", "dilations", "output_shape", "num_rows", "num_columns", "num_cols", "batch_shape", "dims",
    "minlength", "maxlength", "maxlen", "num_lower", "num_upper", "num_classes", "frame_length", "frame_step",
    "window_length", "num_mel_bins", "num_spectrogram_bins", "n", "num_samples", "num_sampled", "num_true", "range_max",
    "size", "begin", "end", "noise_shape", "blank_index", "rank", "ranks", "begin_mask", "end_mask", "ellipsis_mask",
    "new_axis_mask", "shrink_axis_mask", "type", "argnum", "argnums", "order", "directions",
}  # fmt: skip
NO_NUMBERS = {  # parameters that share a name with a number
    "constant.shape", "accumulate_n.shape", "print.end", "nn.moments.shift", "ensure_shape.shape", "gradcheck.order",
    "nn.sufficient_statistics.shift", "nn.normalize_moments.shift", "bitcast.type",
}  # fmt: skip

M = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -0.4]])
V = np.array([0.3, -0.7, 1.1, 0.5, -0.2, 0.8])
C = M[:, :, None] * V[:4]
IDS = np.array([0, 0, 1, 1, 1, 3])
LINE = np.sin(np.arange(8.0)).reshape(1, 8, 1)
IMAGE = np.sin(np.arange(36.0)).reshape(1, 6, 6, 1)
BLOCK = np.sin(np.arange(64.0)).reshape(1, 4, 4, 4, 1)
SIGNAL = np.sin(np.arange(32.0))
SEED = (1, 2)


def _pool(x: Any, rank: int) -> dict[str, Any]:
    return {"input": x, "ksize": 2, "strides": [2] * rank, "padding": "VALID"}


def _conv(x: Any, rank: int) -> dict[str, Any]:
    filters = np.cos(np.arange(2.0**rank)).reshape(*[2] * rank, 1, 1)
    return {"input": x, "filters": filters, "strides": [1] * rank, "padding": "SAME", "dilations": [1] * rank}


def _back(x: Any, rank: int) -> dict[str, Any]:
    filters = np.cos(np.arange(2.0**rank)).reshape(*[2] * rank, 1, 1)
    size = [1, *(2 * n for n in x.shape[1:-1]), 1]
    return {"input": x, "filters": filters, "output_shape": size, "strides": [2] * rank, "padding": "SAME", "dilations": 1}


def _square(x: Any) -> Any:
    return gt.reduce_sum(gt.convert_to_tensor(x) ** 2)


SAMPLED = {
    "weights": np.cos(np.arange(12.0)).reshape(4, 3), "biases": np.zeros(4), "labels": [[1], [2]], "inputs": M,
    "num_sampled": 2, "num_classes": 4, "num_true": 1, "sampled_values": ([0, 3], [[0.5], [0.5]], [0.5, 0.5]),
}  # fmt: skip
CANDIDATES = {"true_classes": [[1], [2]], "num_true": 1, "num_sampled": 2, "unique": True, "range_max": 5, "seed": 3}

CALLS: dict[str, dict[str, Any]] = {
    **{name: {"input": M, "axis": 1} for name in ("argmax", "argmin", "math.count_nonzero")},
    **{name: {"values": M, "axis": 1} for name in ("argsort", "sort")},
    **{name: {"input_tensor": M, "axis": [1]} for name in (
        "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min", "reduce_prod", "reduce_std",
        "reduce_sum", "reduce_variance",
    )},
    **{name: {"input_tensor": M > 0, "axis": 1} for name in ("reduce_all", "reduce_any")},
    **{name: {"x": M, "axis": 1} for name in ("cumprod", "cumsum", "cumulative_logsumexp")},
    **{name: {"logits": M, "axis": 0} for name in ("math.softmax", "math.log_softmax")},
    "nn.softmax_cross_entropy_with_logits": {"labels": np.abs(M), "logits": M, "axis": 0},
    "nn.crelu": {"features": M, "axis": 0},
    "nn.layer_norm": {"x": M, "axis": [1]},
    "nn.moments": {"x": M, "axes": [1]},
    "norm": {"tensor": M, "axis": 1},
    "linalg.normalize": {"tensor": M, "axis": 1},
    "l2_normalize": {"x": M, "axis": 1, "dim": None},
    "clip_by_norm": {"t": M, "clip_norm": 1.0, "axes": [1]},
    "expand_dims": {"input": M, "axis": 1},
    "squeeze": {"input": M[:, None], "axis": [1]},
    "stack": {"values": [M, M], "axis": 1},
    "unstack": {"value": M, "num": 3, "axis": 1},
    "concat": {"values": [M, M], "axis": 1},
    "split": {"value": V, "num_or_size_splits": [1, 2, 3], "axis": 0, "num": 3},
    "reverse": {"tensor": M, "axis": [1]},
    "roll": {"input": M, "shift": [1, 2], "axis": [0, 1]},
    "repeat": {"input": M, "repeats": 2, "axis": 1},
    "tile": {"input": M, "multiples": [2, 1]},
    "transpose": {"a": C, "perm": [1, 2, 0]},
    "reshape": {"tensor": M, "shape": [3, 2]},
    "broadcast_to": {"input": M, "shape": [2, 2, 3]},
    "zeros": {"shape": [2, 3]},
    "ones": {"shape": [2, 3]},
    "fill": {"dims": [2, 3], "value": 2.0},
    "eye": {"num_rows": 2, "num_columns": 3, "batch_shape": [2]},
    "one_hot": {"indices": IDS, "depth": 4, "axis": 0},
    "linspace": {"start": M, "stop": M + 1.0, "num": 4, "axis": 1},
    "gather": {"params": C, "indices": [[0, 1], [1, 0]], "axis": 2, "batch_dims": 1},
    "gather_nd": {"params": C, "indices": [[[1]], [[0]]], "batch_dims": 1},
    "boolean_mask": {"tensor": M, "mask": [True, False, True], "axis": 1},
    "bincount": {"arr": IDS, "weights": V, "minlength": 3, "maxlength": 6, "axis": None},
    "sequence_mask": {"lengths": [1, 3], "maxlen": 4},
    "slice": {"input_": C, "begin": [0, 1, 1], "size": [2, 1, -1]},
    "strided_slice": {
        "input_": C, "begin": [0, 1, 1], "end": [2, 3, 4], "strides": [1, 1, 2], "begin_mask": 1, "end_mask": 2,
        "ellipsis_mask": 0, "new_axis_mask": 0, "shrink_axis_mask": 2,
    },
    "pad": {"tensor": M, "paddings": [[1, 0], [0, 2]]},
    "space_to_batch": {"input": IMAGE, "block_shape": [2, 2], "paddings": [[0, 0], [2, 0]]},
    "batch_to_space": {"input": np.concatenate([IMAGE] * 4), "block_shape": [2, 2], "crops": [[0, 1], [1, 0]]},
    "depth_to_space": {"input": np.concatenate([IMAGE] * 4, 3), "block_size": 2},
    "space_to_depth": {"input": IMAGE, "block_size": 2},
    "scatter_nd": {"indices": [[1], [3]], "updates": [1.0, 2.0], "shape": [5]},
    "tensordot": {"a": M, "b": M, "axes": [[0, 1], [0, 1]]},
    "top_k": {"input": V, "k": 2},
    "math.in_top_k": {"targets": [1], "predictions": M[:1].astype(np.float32), "k": 2},
    "math.confusion_matrix": {"labels": [0, 1], "predictions": [1, 1], "num_classes": 3},
    **{f"unsorted_segment_{name}": {"data": V, "segment_ids": IDS, "num_segments": 4}
       for name in ("max", "mean", "min", "prod", "sqrt_n", "sum")},
    "nn.avg_pool": _pool(IMAGE, 2), "nn.avg_pool1d": _pool(LINE, 1), "nn.avg_pool2d": _pool(IMAGE, 2),
    "nn.avg_pool3d": _pool(BLOCK, 3), "nn.max_pool": _pool(IMAGE, 2), "nn.max_pool1d": _pool(LINE, 1),
    "nn.max_pool2d": _pool(IMAGE, 2), "nn.max_pool3d": _pool(BLOCK, 3), "nn.max_pool_with_argmax": _pool(IMAGE, 2),
    "nn.conv1d": {"input": LINE, "filters": np.ones((2, 1, 1)), "stride": 2, "padding": "SAME", "dilations": 1},
    "nn.conv2d": _conv(IMAGE, 2), "nn.conv3d": _conv(BLOCK, 3), "nn.convolution": _conv(IMAGE, 2),
    "nn.conv1d_transpose": _back(LINE, 1), "nn.conv2d_transpose": _back(IMAGE, 2), "nn.conv3d_transpose": _back(BLOCK, 3),
    "nn.conv_transpose": _back(IMAGE, 2),
    "nn.atrous_conv2d_transpose": {
        "value": IMAGE, "filters": np.ones((2, 2, 1, 1)), "output_shape": [1, 7, 7, 1], "rate": 1, "padding": "VALID",
    },
    "nn.pool": {
        "input": IMAGE, "window_shape": [2, 2], "pooling_type": "MAX", "strides": [2, 2], "padding": "VALID", "dilations": None,
    },
    **{f"nn.{name}2d": {
        first: IMAGE, "filters": np.zeros((2, 2, 1)), "strides": [1, 1], "padding": "VALID", "data_format": "NHWC",
        "dilations": [1, 1],
    } for name, first in (("dilation", "input"), ("erosion", "value"))},
    "nn.weighted_moments": {"x": M, "axes": [1], "frequency_weights": np.abs(M)},
    "nn.sufficient_statistics": {"x": M, "axes": [1]},
    "unravel_index": {"indices": IDS, "dims": [2, 3]},
    "assert_rank": {"x": M, "rank": 2},
    "nn.depthwise_conv2d": {
        "input": IMAGE, "filter": np.ones((2, 2, 1, 1)), "strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 1],
    },
    "nn.separable_conv2d": {
        "input": IMAGE, "depthwise_filter": np.ones((2, 2, 1, 1)), "pointwise_filter": np.ones((1, 1, 1, 1)),
        "strides": [1, 1, 1, 1], "padding": "SAME", "dilations": [1, 1],
    },
    "nn.dropout": {"x": gt.constant(M), "rate": 0.0, "noise_shape": [2, 1], "seed": 3},
    "nn.ctc_loss": {
        "labels": [[1, 2]], "logits": np.sin(np.arange(9.0)).reshape(3, 1, 3), "label_length": [2], "logit_length": [3],
        "blank_index": 0,
    },
    "nn.nce_loss": SAMPLED, "nn.sampled_softmax_loss": SAMPLED,
    "linalg.band_part": {"input": M, "num_lower": 1, "num_upper": 0},
    "linalg.diag": {"diagonal": V[:2], "k": 1, "num_rows": 3, "num_cols": 3},
    "linalg.diag_part": {"input": M, "k": 1},
    "linalg.set_diag": {"input": M, "diagonal": V[:2], "k": 1},
    "signal.rfft": {"input_tensor": SIGNAL, "fft_length": [16]},
    "signal.rfft2d": {"input_tensor": SIGNAL.reshape(4, 8), "fft_length": [4, 8]},
    "signal.rfft3d": {"input_tensor": SIGNAL.reshape(2, 4, 4), "fft_length": [2, 4, 4]},
    "signal.irfft": {"input_tensor": SIGNAL + 0j, "fft_length": [16]},
    "signal.irfft2d": {"input_tensor": SIGNAL.reshape(4, 8) + 0j, "fft_length": [4, 8]},
    "signal.irfft3d": {"input_tensor": SIGNAL.reshape(2, 4, 4) + 0j, "fft_length": [2, 4, 4]},
    "signal.fftshift": {"x": M, "axes": [1]}, "signal.ifftshift": {"x": M, "axes": [1]},
    "signal.dct": {"input": SIGNAL, "type": 2, "n": 16, "axis": -1},
    "signal.idct": {"input": SIGNAL, "type": 2, "n": None, "axis": -1},
    "signal.frame": {"signal": SIGNAL, "frame_length": 8, "frame_step": 4, "axis": -1},
    "signal.overlap_and_add": {"signal": SIGNAL.reshape(4, 8), "frame_step": 4},
    "signal.stft": {"signals": SIGNAL, "frame_length": 8, "frame_step": 4, "fft_length": 8},
    "signal.inverse_stft": {"stfts": np.ones((3, 5)) + 0j, "frame_length": 8, "frame_step": 4, "fft_length": 8},
    "signal.inverse_stft_window_fn": {"frame_step": 4},
    **{f"signal.{name}_window": {"window_length": 8}
       for name in ("hamming", "hann", "kaiser", "kaiser_bessel_derived", "vorbis")},
    "signal.linear_to_mel_weight_matrix": {"num_mel_bins": 4, "num_spectrogram_bins": 9},
    "random.categorical": {"logits": M, "num_samples": 3, "seed": 3},
    "random.stateless_categorical": {"logits": M, "num_samples": 3, "seed": SEED},
    **{f"random.{name}": {"shape": [2, 3], "seed": 3} for name in ("normal", "uniform", "truncated_normal")},
    **{f"random.stateless_{name}": {"shape": [2, 3], "seed": SEED} for name in ("normal", "uniform", "truncated_normal")},
    "random.gamma": {"shape": [2], "alpha": 2.0, "seed": 3}, "random.poisson": {"shape": [2], "lam": 2.0, "seed": 3},
    "random.stateless_gamma": {"shape": [2], "seed": SEED, "alpha": 2.0},
    "random.stateless_poisson": {"shape": [2], "seed": SEED, "lam": 2.0},
    "random.stateless_binomial": {"shape": [2], "seed": SEED, "counts": 4.0, "probs": 0.5},
    "random.split": {"seed": SEED, "num": 3},
    "random.log_uniform_candidate_sampler": CANDIDATES, "random.uniform_candidate_sampler": CANDIDATES,
    "debugging.assert_rank_at_least": {"x": M, "rank": 2},
    "debugging.assert_rank_in": {"x": M, "ranks": [1, 2]},
    **{name: {"f": _square, "argnums": 0} for name in ("elementwise_grad", "grad", "hessian", "jacobian", "value_and_grad")},
    "hessian_vector_product": {"f": _square, "argnum": 0},
    "gradcheck": {"f": lambda: _square(M), "directions": 1},
}  # fmt: skip


def public_functions() -> Iterator[tuple[str, Any, list[str]]]:
    """Every public function that takes a number, by its first name, with the parameters that are numbers."""
    seen = set()
    for prefix, space in SPACES.items():
        for name, function in [(name, getattr(space, name)) for name in dir(space)]:  # some are loaded when asked for
            if name.startswith("_") or not callable(function) or inspect.isclass(function) or id(function) in seen:
                continue
            seen.add(id(function))
            numbers = [p for p in inspect.signature(function).parameters if p in NUMBERS]
            numbers = [p for p in numbers if f"{prefix}{name}.{p}" not in NO_NUMBERS]
            if numbers:
                yield prefix + name, function, numbers
