"""`gt.types`: the types of arguments, to annotate programs with: `def loss(x: gt.types.TensorLike) -> gt.Tensor`."""

from gradtape.core.typing import DTypeLike as DTypeLike, Shape as Shape, TensorLike as TensorLike
