"""The product of a cotangent and a partial: conjugated for complex numbers, masked on dead lanes.

The unselected lane of a `where` has cotangent 0 and may have a non-finite partial (1/x at 0). The partial is cleaned,
not the product: p' = where((ct == 0) & ~isfinite(p), 0, p), so the result stays linear in ct wherever p is finite.
A non-finite cotangent is never masked.
"""

from __future__ import annotations

import math

from gradtape.core.tensor import Tensor
from gradtape.ops.elementwise import conj, is_complex
from gradtape.ops.select import cleaned
from gradtape.ops.staged import masked_multiply


def conjugated_product(ct: Tensor, partial: Tensor | float) -> Tensor:
    """ct · conj(partial)."""
    return ct * conj(partial) if is_complex(partial) else ct * partial


def masked_product(ct: Tensor, partial: Tensor | float) -> Tensor:
    """ct · conj(cleaned partial); in a program (and on a batch) one op."""
    # A program pays one select for it, always: whether a product was finite is not known when it is written.
    if getattr(ct, "wraps", False) or getattr(partial, "wraps", False):
        if isinstance(partial, (int, float)) and math.isfinite(partial):
            return ct * partial
        return masked_multiply(ct, conj(partial) if is_complex(partial) else partial)
    return conjugated_product(ct, cleaned(ct, partial))
