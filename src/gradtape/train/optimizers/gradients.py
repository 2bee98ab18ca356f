"""Gradients on their way into an optimizer: which pairs count, in which form rules see them.

Rules see real numbers: a complex variable takes part as its real and imaginary parts along one more, last axis, each a
parameter of its own. Sparse gradients become `Rows`: distinct row numbers, repeated rows added.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.dtypes import as_dtype
from gradtape.errors import OutOfRangeError
from gradtape.ops.elementwise import cast
from gradtape.ops.shape import stack
from gradtape.tape.tape_messages import warn
from gradtape.variables.indexed_slices import IndexedSlices
from gradtape.variables.variable import Variable, unwrapped


@dataclass(frozen=True)
class Rows:
    """Rows `values[k]` for the distinct rows `indices[k]`."""

    indices: Any
    values: Any


def checked_pairs(grads_and_vars: Iterable[tuple[Any, Any]], optimizer: str) -> list[tuple[Any, Variable]]:
    """Pairs of a tensor or IndexedSlices and a variable it fits; None gradients left out with one warning."""
    kept: list[tuple[Any, Variable]] = []
    missing: list[str] = []
    for pair in grads_and_vars:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise ValueError(f"{optimizer}: {pair!r} is not a pair (gradient, variable); give zip(gradients, variables)")
        gradient, variable = pair[0], unwrapped(pair[1])
        if not isinstance(variable, Variable):
            cure = (
                "they are the other way around: zip(gradients, variables)"
                if isinstance(gradient, Variable)
                else "give pairs (gradient, variable)"
            )
            raise ValueError(f"{optimizer}: {variable!r} is not a Variable; {cure}")
        if gradient is None:
            missing.append(variable.name)
        else:
            kept.append((_fitting(gradient, variable, optimizer), variable))
            if HOOKS.check_gradient is not None:
                HOOKS.check_gradient(*kept[-1])
    if not kept:
        what = f"no gradient for any variable: {', '.join(missing)}" if missing else "no gradients given"
        raise ValueError(
            f"{optimizer}: {what}; is the loss computed from the variables, inside the tape's block? "
            "tape.explain(loss, variable) tells the cause"
        )
    if missing:
        warn(f"{optimizer}: gradients do not exist for variables {', '.join(missing)}; they are left unchanged")
    return kept


def _fitting(gradient: TensorLike | IndexedSlices, variable: Variable, optimizer: str) -> Any:
    if gradient.__class__ is Tensor and variable._tensor.__class__ is Tensor:
        have, want = gradient._data, variable._tensor._data
        if have.dtype is want.dtype and have.shape == want.shape and want.dtype.kind in "fc":
            return gradient  # what training gives, seen at a glance
    if not variable.dtype.is_differentiable:
        raise ValueError(f"{optimizer}: variable '{variable.name}' has dtype {variable.dtype.name}, which cannot be trained")
    if isinstance(gradient, IndexedSlices):
        value: Any = gradient
        shape = (len(variable), *gradient.values.shape[1:]) if variable.ndim else None
        if gradient.dense_shape is not None:
            shape = tuple(gradient.dense_shape)
        elif shape == tuple(variable.shape):
            value = IndexedSlices(gradient.values, gradient.indices, variable.shape)
    else:
        value = gradient if isinstance(gradient, Tensor) and not isinstance(gradient, Variable) else convert(gradient)
        shape = tuple(value.shape)
    if shape != tuple(variable.shape):
        raise ValueError(
            f"{optimizer}: variable '{variable.name}' has shape {tuple(variable.shape)} but its gradient has shape {shape}"
        )
    if value.dtype is not variable.dtype and (value.dtype.is_complex and not variable.dtype.is_complex):
        raise ValueError(
            f"{optimizer}: variable '{variable.name}' has dtype {variable.dtype.name} but its gradient is {value.dtype.name}"
        )
    return value


def plain_gradient(gradient: Tensor | IndexedSlices, variable: Variable, by_rows: bool) -> Any:
    """The bare array (of real parts) of a gradient in the variable's dtype, or its `Rows`."""
    dtype = variable._tensor._data.dtype
    if not isinstance(gradient, IndexedSlices):
        data = gradient._data
        return as_parts(data if data.dtype == dtype else data.astype(dtype))
    indices, values = gradient.indices._data, gradient.values._data.astype(dtype, copy=False)
    # A row that was gathered twice has two gradients, which are added before the rule sees them: rules are not linear.
    rows, places = np.unique(indices.reshape(-1), return_inverse=True)
    size = variable._tensor._data.shape[0]
    if rows.size and (rows[0] < 0 or rows[-1] >= size):
        raise OutOfRangeError(f"the gradient of variable '{variable.name}' has a row outside [0, {size})")
    values = values.reshape(-1, *variable._tensor._data.shape[1:])
    if by_rows:
        total = np.zeros((rows.size, *values.shape[1:]), dtype)
        np.add.at(total, places, values)
        return Rows(rows, as_parts(total))
    total = np.zeros(variable._tensor._data.shape, dtype)
    np.add.at(total, indices.reshape(-1), values)
    return as_parts(total)


def as_parts(array: Array) -> Any:
    """Real and imaginary parts along one more axis (a view where memory allows); real arrays as they are."""
    if array.dtype.kind != "c":
        return array
    array = np.ascontiguousarray(array) if array.ndim else np.asarray(array)
    return array[..., None].view(array.real.dtype)


def part_dtype(variable: Variable) -> tuple[tuple[int, ...], Any]:
    """Shape and NumPy dtype of the variable's real parts: what a slot looks like."""
    data = variable._tensor._data
    if as_dtype(data.dtype).is_complex:
        return (*data.shape, 2), as_dtype(data.dtype).real_dtype.dtype
    return tuple(data.shape), data.dtype


def from_parts(tensor: TensorLike, variable: Variable) -> Any:
    """The tensor form of `as_parts`, recorded, in the variable's dtype."""
    tensor = cast(convert(tensor), variable.dtype)
    if not variable.dtype.is_complex:
        return tensor
    from gradtape.ops.elementwise import imag, real

    return stack([real(tensor), imag(tensor)], axis=-1)
