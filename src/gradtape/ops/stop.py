"""Identity and its one-way variant."""

from __future__ import annotations

from gradtape.core import batching, inference
from gradtape.core.dispatch import apply, convert
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Cost, Memory, Sample, linear, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import normal


def identity(input: TensorLike, name: str | None = None) -> Tensor:
    """The same values as a new tensor."""
    return apply(IDENTITY, convert(input))


def stop_gradient(input: TensorLike, name: str | None = None) -> Tensor:
    """The same values, seen as a constant by every derivative.

    >>> x = gt.Variable(3.0)
    >>> with gt.GradientTape() as tape:
    ...     y = gt.stop_gradient(x) * x
    >>> tape.gradient(y, x).numpy()
    np.float32(3.0)
    """
    return apply(STOP_GRADIENT, convert(input))


IDENTITY = linear(
    "identity", "x",
    lambda x: x,
    lambda ct: ct,
    infer=inference.same, batch=batching.elementwise, cost=Cost.FREE, memory=Memory.VIEW,
    samples=lambda: [Sample(normal(2, 3)), Sample(normal())],
)  # fmt: skip
STOP_GRADIENT = nondiff(
    "stop_gradient", "x",
    lambda x: x,
    infer=inference.same, reason="the program stopped the gradient here", batch=batching.elementwise,
    cost=Cost.FREE, memory=Memory.VIEW,
    samples=lambda: [Sample(normal(2, 3))],
)  # fmt: skip

# the write of a value into a variable: an identity that names the variable, so that a tape can cut or report it
ASSIGN = linear(
    "assign", "x",
    lambda x, *, variable: x,
    lambda ct: ct,
    infer=lambda x, *, variable: TensorSpec(x.shape, x.dtype),
    batch=batching.elementwise,
    call=lambda x: apply(ASSIGN, convert(x), variable=None),
    memory=Memory.VIEW,
    samples=lambda: [Sample(normal(2, 3))],
    skeleton=lambda attrs: attrs,
    assigns=True,
)  # fmt: skip
# the results of one `tape.gradient` call, expanded into the recorded backward pass only when differentiated again
GRADIENT = linear(
    "gradient", "*xs",
    lambda *xs: tuple(xs),
    lambda ct: ct,
    infer=lambda *xs: tuple(xs),
    batch=batching.leading,
    call=lambda xs: apply(GRADIENT, *(convert(x) for x in xs)),
    outputs=0, memory=Memory.VIEW,
    samples=lambda: [Sample([normal(2), normal(3)])],
)  # fmt: skip

HOOKS.identity = identity
OPS = (IDENTITY, STOP_GRADIENT, ASSIGN, GRADIENT)
