"""Derivatives against finite differences: `gradcheck` for programs, `compute_gradient` as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import TensorLike
from gradtape.ops.create import convert_to_tensor
from gradtape.ops.elementwise import real
from gradtape.ops.reduce import reduce_sum
from gradtape.tape.functional import grad, jacobian
from gradtape.tape.gradient_tape import GradientTape


def compute_gradient(f: Callable[..., Any], x: Sequence[Any], delta: float | None = None) -> tuple[list[Any], list[Any]]:
    """The Jacobians of `f` (one output) in each of the tensors `x`: (by the tape, by finite differences).

    Each is a matrix of shape (elements of f, elements of x[i]).

    >>> exact, numeric = gt.test.compute_gradient(lambda x: x * x, [gt.constant([3.0])])
    >>> float(exact[0][0, 0]), round(float(numeric[0][0, 0]), 2)
    (6.0, 6.0)
    """
    if not isinstance(x, (list, tuple)):
        raise ValueError("compute_gradient: x must be a list of tensors")
    tensors = [convert_to_tensor(t) for t in x]
    exact, numeric = [], []
    for i, tensor in enumerate(tensors):
        step = delta if delta is not None else float(np.finfo(tensor.dtype.real_dtype.dtype).eps) ** (1 / 3)

        def one(value: TensorLike, i: int = i) -> Any:
            return f(*tensors[:i], value, *tensors[i + 1 :])

        out = convert(one(tensor))
        exact.append(np.reshape(jacobian(one)(tensor).numpy(), (out.size, tensor.size)))
        numeric.append(_numeric_jacobian(one, tensor, step))
    return exact, numeric


def _numeric_jacobian(f: Callable[[Any], Any], tensor: Tensor, step: float) -> Any:
    flat = np.array(tensor.numpy()).reshape(-1)
    columns = []
    for i in range(flat.size):
        ends = []
        for sign in (1.0, -1.0):
            moved = flat.copy()
            moved[i] += sign * step
            ends.append(np.asarray(convert(f(box(moved.reshape(tuple(tensor.shape))))).numpy(), np.float64).ravel())
        columns.append((ends[0] - ends[1]) / (2 * step))
    return np.stack(columns, axis=1) if columns else np.zeros((0, 0))


def gradcheck(
    f: Callable[..., Any], *args: Any, order: int = 2, rtol: float = 1e-6, atol: float = 1e-8, directions: int = 3,
    seed: int = 0,
) -> bool:  # fmt: skip
    """Check the derivatives of `f` at `args` along random directions, up to the given order, in float64.

    Returns True, or raises AssertionError saying which order and argument is off, and by how much.

    >>> gt.gradcheck(lambda x, y: gt.sin(x) * y, [1.0, 2.0], [3.0, 4.0])
    True
    """
    if order not in (1, 2):
        raise ValueError(f"gradcheck: order must be 1 or 2, got {order}")
    points = [_wide(a) for a in args]
    generator = np.random.default_rng(seed)
    weights = _weights(convert(f(*points)), generator)

    def scalar(*values: Any) -> Any:
        return real(reduce_sum(convert(f(*values)) * weights))

    places = [i for i, p in enumerate(points) if p.dtype.is_differentiable]
    for i in places:
        for _ in range(directions):
            _compare(scalar, points, i, generator, rtol, atol, 1)
            if order == 2:
                _compare(_along(scalar, points, i, generator), points, i, generator, rtol, atol, 2)
    return True


def _wide(value: TensorLike) -> Tensor:
    tensor = convert(np.array(value) if not isinstance(value, Tensor) else value)
    target = {"float32": np.float64, "float16": np.float64, "complex64": np.complex128}.get(tensor.dtype.name)
    return tensor if target is None else box(tensor._data.astype(target))


def _weights(out: Tensor, generator: np.random.Generator) -> Any:
    return box(generator.normal(size=tuple(out.shape))[()] if out.ndim else np.float64(generator.normal()))


def _direction(point: Tensor, generator: np.random.Generator) -> Any:
    step = generator.normal(size=tuple(point.shape))
    if point.dtype.is_complex:
        step = step + 1j * generator.normal(size=tuple(point.shape))
    return np.asarray(step).astype(point.dtype.dtype)


def _along(scalar: Callable[..., Any], points: list[Tensor], i: int, generator: np.random.Generator) -> Callable[..., Any]:
    """The derivative along a fixed direction: differentiating it again gives second order."""
    # With the direction conjugated, Σ g·v is the derivative along v for complex points too.
    fixed = box(np.conj(_direction(points[i], generator))[()])

    def first(*values: Any) -> Any:
        return real(reduce_sum(grad(scalar, i)(*values) * fixed))

    return first


def _compare(
    scalar: Callable[..., Any], points: list[Tensor], i: int, generator: np.random.Generator, rtol: float, atol: float,
    order: int,
) -> None:  # fmt: skip
    step = _direction(points[i], generator)
    with GradientTape() as tape:
        tape.watch(points[i])
        value = scalar(*points)
    gradient = tape.gradient(value, points[i], unconnected_gradients="zero")
    exact = float(np.real(np.sum(np.conj(np.asarray(gradient)) * step)))
    numeric = _central(lambda h: float(scalar(*points[:i], box((points[i].numpy() + h * step)[()]), *points[i + 1 :])))
    if not np.isclose(exact, numeric, rtol=rtol, atol=max(atol, rtol * abs(float(value)))):
        raise AssertionError(
            f"gradcheck: derivative of order {order} in argument {i} is {exact:.10g}, finite differences say {numeric:.10g}"
        )


def _central(f: Callable[[float], float], h: float = 1e-3) -> float:
    """Sixth-order central difference: the error is far below 1e-6 for smooth functions."""
    # f'(0) = (45 (f(h) - f(-h)) - 9 (f(2h) - f(-2h)) + (f(3h) - f(-3h))) / 60h + O(h⁶)
    pairs = ((1, 45.0), (2, -9.0), (3, 1.0))
    return sum(c * (f(k * h) - f(-k * h)) for k, c in pairs) / (60.0 * h)
