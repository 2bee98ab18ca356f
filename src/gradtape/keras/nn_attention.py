"""Keras's dot-product attention, written out: gradtape fuses its softmax; there is no flash kernel."""

from __future__ import annotations

import math

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.keras.core_ops import cast, convert_to_tensor
from gradtape.keras.numpy_types import promoted_floats
from gradtape.ops.activations import softmax
from gradtape.ops.compare import logical_and
from gradtape.ops.contract import einsum
from gradtape.ops.elementwise import tanh
from gradtape.ops.extending import repeat
from gradtape.ops.select import where


def dot_product_attention(
    query: TensorLike, key: TensorLike, value: TensorLike, bias: TensorLike | None = None, mask: TensorLike | None = None,
    scale: float | None = None, is_causal: bool = False, flash_attention: bool | None = None,
    attn_logits_soft_cap: float | None = None,
) -> Tensor:  # fmt: skip
    """softmax(q·kᵀ·scale + bias)·v over heads, for (batch, length, heads, size)."""
    if flash_attention:
        raise ValueError("Flash attention is not supported by the gradtape engine; leave flash_attention=None")
    q, k, v = promoted_floats(query, key, value)
    if q.ndim != 4:
        raise ValueError(
            "`dot_product_attention` only supports 4D inputs. "
            f"Received: query.shape={tuple(q.shape)}, key.shape={tuple(k.shape)}, value.shape={tuple(v.shape)}."
        )
    if q.shape[2] != k.shape[2]:  # several heads of the query share one of the keys
        k, v = (repeat(x, q.shape[2] // k.shape[2], 2) for x in (k, v))
    kept = v.dtype
    factor = 1.0 / math.sqrt(int(k.shape[-1])) if scale is None else scale
    logits = einsum("btnh,bsnh->bnts", q, k)
    if logits.dtype.name in ("float16", "bfloat16"):
        logits = cast(logits, "float32")
    logits = logits * cast(factor, logits.dtype)
    if attn_logits_soft_cap is not None:
        logits = attn_logits_soft_cap * tanh(logits / attn_logits_soft_cap)
    if bias is not None:
        logits = logits + cast(bias, logits.dtype)
    allowed = None if mask is None else cast(mask, "bool")
    if is_causal:
        past = convert_to_tensor(np.tri(int(logits.shape[2]), int(logits.shape[3]), dtype=bool))
        allowed = past if allowed is None else logical_and(allowed, past)
    if allowed is not None:
        lowest = -0.7 * (65500.0 if kept.name == "float16" else 3.38953e38)
        logits = where(allowed, logits, cast(lowest, logits.dtype))
    return einsum("bnts,bsnh->btnh", cast(softmax(logits, -1), kept), v)
