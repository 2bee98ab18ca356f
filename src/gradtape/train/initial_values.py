"""How variables start: objects that are called with a shape and give a tensor, under Keras's names and defaults.

Random ones draw from `gt.random`: with a `seed` an initializer gives the same numbers for the same shape each time it is
called, without one those that follow from `gt.random.set_seed`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core.arguments import dtype_of, floating_dtype, numeric, option, real_number, whole
from gradtape.core.dispatch import convert
from gradtape.core.typing import Dims, DTypeLike, Integer, Shape, TensorLike
from gradtape.dtypes import float32
from gradtape.errors import InvalidArgumentError
from gradtape.ops import create, random
from gradtape.ops.create import sizes
from gradtape.ops.elementwise import cast
from gradtape.ops.linalg_spectral import qr
from gradtape.ops.matrix import diag_part
from gradtape.ops.shape import reshape, transpose


def _floating(dtype: DTypeLike | None, owner: object) -> Any:
    return floating_dtype(float32 if dtype is None else dtype, "dtype", type(owner).__name__)


def _shape(shape: Shape, owner: object) -> tuple[Any, ...]:
    numbers = sizes(shape, "shape", type(owner).__name__)
    if any(n < 0 for n in numbers if n.__class__ is int):
        raise InvalidArgumentError(f"{type(owner).__name__}: shape must not have negative dimensions, got {list(numbers)}")
    return numbers


class Initializer:
    """Base class: `__call__(shape, dtype=None)` gives the tensor, `get_config()` the arguments of the constructor."""

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __call__(shape, dtype=None)")

    def get_config(self) -> dict[str, Any]:
        """The arguments that make an equal one."""
        return {name.lstrip("_"): value for name, value in sorted(vars(self).items())}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        """One made of `get_config()`."""
        return cls(**config)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.get_config().items())
        return f"{type(self).__name__}({inside})"


class Zeros(Initializer):
    """All zeros."""

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        return create.zeros(_shape(shape, self), dtype_of(float32 if dtype is None else dtype, "dtype", "Zeros"))


class Ones(Initializer):
    """All ones."""

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        return create.ones(_shape(shape, self), dtype_of(float32 if dtype is None else dtype, "dtype", "Ones"))


class Constant(Initializer):
    """One value everywhere, or an array of as many elements as the shape has."""

    def __init__(self, value: TensorLike = 0.0) -> None:
        numeric(value, "value", "Constant")
        self.value = value

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        dims = _shape(shape, self)
        content = np.asarray(self.value)
        if content.ndim and content.size != math.prod(dims):
            raise InvalidArgumentError(f"Constant: value has {content.size} elements, which do not fill the shape {dims}")
        values = np.broadcast_to(content, dims) if not content.ndim else content.reshape(dims)
        return cast(convert(np.array(values)), dtype_of(float32 if dtype is None else dtype, "dtype", "Constant"))


class Identity(Initializer):
    """The identity matrix times `gain`."""

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = real_number(gain, "gain", "Identity")

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        dims = _shape(shape, self)
        if len(dims) != 2:
            raise InvalidArgumentError(f"Identity: needs a shape of two numbers, got {dims}")
        return create.eye(*dims, dtype=_floating(dtype, self)) * self.gain


class _Drawn(Initializer):
    """Random numbers: with a seed from it alone, else from the global state."""

    seed: Any

    def _seeded(self, seed: Integer | None) -> None:
        self.seed = None if seed is None else whole(seed, "seed", type(self).__name__)

    def _uniform(self, dims: Dims, low: float, high: float, dtype: DTypeLike) -> Any:
        if self.seed is None:
            return random.uniform(dims, low, high, dtype)
        return random.stateless_uniform(dims, [self.seed, 0], low, high, dtype)

    def _normal(self, dims: Dims, mean: float, deviation: float, dtype: DTypeLike, truncated: bool = False) -> Any:
        if self.seed is None:
            draw = random.truncated_normal if truncated else random.normal
            return draw(dims, mean, deviation, dtype)
        stateless = random.stateless_truncated_normal if truncated else random.stateless_normal
        return stateless(dims, [self.seed, 0], mean, deviation, dtype)


class RandomUniform(_Drawn):
    """Uniform numbers in [minval, maxval).

    >>> start = gt.initializers.RandomUniform(-1.0, 1.0, seed=3)
    >>> bool(gt.reduce_all(start((2, 2)) == start((2, 2))))
    True
    """

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None) -> None:
        self.minval, self.maxval = (real_number(v, n, "RandomUniform") for v, n in ((minval, "minval"), (maxval, "maxval")))
        self._seeded(seed)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        return self._uniform(_shape(shape, self), self.minval, self.maxval, _floating(dtype, self))


class RandomNormal(_Drawn):
    """Normal numbers."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        name = type(self).__name__
        self.mean, self.stddev = real_number(mean, "mean", name), real_number(stddev, "stddev", name)
        self._seeded(seed)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        return self._normal(_shape(shape, self), self.mean, self.stddev, _floating(dtype, self))


class TruncatedNormal(RandomNormal):
    """Normal numbers at most two standard deviations from the mean."""

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        return self._normal(_shape(shape, self), self.mean, self.stddev, _floating(dtype, self), truncated=True)


def _fans(dims: tuple[int, ...]) -> tuple[float, float]:
    """How many inputs and outputs a weight of this shape connects: of a convolution, each tap counts."""
    if not dims:
        return 1.0, 1.0
    if len(dims) == 1:
        return float(dims[0]), float(dims[0])
    # A kernel has the axes (…taps, inputs, outputs).
    field = math.prod(dims[:-2])
    return float(dims[-2] * field), float(dims[-1] * field)


# the standard deviation of a normal number that was cut off at two of its own
_CUT = 0.87962566103423978


class VarianceScaling(_Drawn):
    """Numbers whose variance is `scale` over the number of inputs, outputs, or their mean (Glorot & Bengio 2010)."""

    def __init__(
        self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal", seed: int | None = None
    ) -> None:
        name = type(self).__name__
        self.scale = real_number(scale, "scale", name)
        if self.scale <= 0.0:
            raise InvalidArgumentError(f"{name}: scale must be positive, got {scale}")
        self.mode = option(mode, "mode", name, ("fan_in", "fan_out", "fan_avg"))
        distribution = "truncated_normal" if distribution == "normal" else distribution
        known = ("uniform", "truncated_normal", "untruncated_normal")
        self.distribution = option(distribution, "distribution", name, known)
        self._seeded(seed)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        dims, kind = _shape(shape, self), _floating(dtype, self)
        inputs, outputs = _fans(dims)
        fan = {"fan_in": inputs, "fan_out": outputs, "fan_avg": 0.5 * (inputs + outputs)}[self.mode]
        variance = self.scale / max(1.0, fan)
        if self.distribution == "uniform":
            # Uniform numbers in ±a have the variance a²/3.
            limit = math.sqrt(3.0 * variance)
            return self._uniform(dims, -limit, limit, kind)
        if self.distribution == "truncated_normal":
            return self._normal(dims, 0.0, math.sqrt(variance) / _CUT, kind, truncated=True)
        return self._normal(dims, 0.0, math.sqrt(variance), kind)


class _Scaled(VarianceScaling):
    """One choice of scale, mode and distribution."""

    choice: tuple[float, str, str]

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(*self.choice, seed=seed)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed}


class GlorotUniform(_Scaled):
    """Uniform in ±√(6 / (inputs + outputs)): what Keras's layers start with.

    >>> w = gt.Variable(gt.initializers.GlorotUniform(seed=1)((100, 50)))
    >>> bool(gt.reduce_max(gt.abs(w)) <= 0.2)
    True
    """

    choice = (1.0, "fan_avg", "uniform")


class GlorotNormal(_Scaled):
    """Truncated normal with variance 2 / (inputs + outputs)."""

    choice = (1.0, "fan_avg", "truncated_normal")


class HeUniform(_Scaled):
    """Uniform in ±√(6 / inputs): for relu (He et al. 2015)."""

    choice = (2.0, "fan_in", "uniform")


class HeNormal(_Scaled):
    """Truncated normal with variance 2 / inputs: for relu."""

    choice = (2.0, "fan_in", "truncated_normal")


class LecunUniform(_Scaled):
    """Uniform in ±√(3 / inputs)."""

    choice = (1.0, "fan_in", "uniform")


class LecunNormal(_Scaled):
    """Truncated normal with variance 1 / inputs."""

    choice = (1.0, "fan_in", "truncated_normal")


class Orthogonal(_Drawn):
    """A matrix with orthonormal rows or columns times `gain`; of more axes, all but the last are rows (Saxe et al. 2014)."""

    def __init__(self, gain: float = 1.0, seed: int | None = None) -> None:
        self.gain = real_number(gain, "gain", "Orthogonal")
        self._seeded(seed)

    def __call__(self, shape: Shape, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
        dims, kind = _shape(shape, self), _floating(dtype, self)
        if len(dims) < 2:
            raise InvalidArgumentError(f"Orthogonal: needs a shape of two or more numbers, got {dims}")
        rows, columns = math.prod(dims[:-1]), dims[-1]
        # The factor of a tall matrix has orthonormal columns; a wide result is its transpose.
        q, r = qr(self._normal((max(rows, columns), min(rows, columns)), 0.0, 1.0, kind))
        signs = diag_part(r)
        q = q * (signs / (signs * signs) ** 0.5)  # uniformly distributed: the signs of a factorisation are not random
        return reshape(q if rows >= columns else transpose(q), dims) * self.gain


_NAMED = {
    "zeros": Zeros, "ones": Ones, "constant": Constant, "identity": Identity, "random_uniform": RandomUniform,
    "random_normal": RandomNormal, "truncated_normal": TruncatedNormal, "variance_scaling": VarianceScaling,
    "glorot_uniform": GlorotUniform, "glorot_normal": GlorotNormal, "he_uniform": HeUniform, "he_normal": HeNormal,
    "lecun_uniform": LecunUniform, "lecun_normal": LecunNormal, "orthogonal": Orthogonal,
}  # fmt: skip


def get(identifier: str | type[Initializer] | Callable[..., Any] | None) -> Any:
    """An initializer by its name ("glorot_uniform"), its class, or itself; None gives None.

    >>> gt.initializers.get("he_normal")
    HeNormal(seed=None)
    """
    if identifier is None or (callable(identifier) and not isinstance(identifier, type)):
        return identifier
    if isinstance(identifier, type) and issubclass(identifier, Initializer):
        return identifier()
    kind = next((k for name, k in _NAMED.items() if identifier in (name, k.__name__)), None)
    if kind is None:
        raise ValueError(f"initializers.get: there is no initializer {identifier!r}; there are {', '.join(_NAMED)}")
    return kind()


# Keras's names of the same, as its functions were called
constant, identity, ones, orthogonal, zeros = Constant, Identity, Ones, Orthogonal, Zeros
glorot_normal, glorot_uniform, he_normal, he_uniform = GlorotNormal, GlorotUniform, HeNormal, HeUniform
lecun_normal, lecun_uniform, variance_scaling = LecunNormal, LecunUniform, VarianceScaling
random_normal, random_uniform, truncated_normal = RandomNormal, RandomUniform, TruncatedNormal

__all__ = [
    "Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "Identity", "Initializer", "LecunNormal",
    "LecunUniform", "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal", "VarianceScaling", "Zeros",
    "constant", "get", "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "identity", "lecun_normal",
    "lecun_uniform", "ones", "orthogonal", "random_normal", "random_uniform", "truncated_normal", "variance_scaling", "zeros",
]  # fmt: skip
