"""How variables start: objects that are called with a shape and give a tensor, under Keras's names and defaults.

Random ones draw from `gt.random`: with a `seed` an initializer gives the same numbers for the same shape each time it is
called, without one those that follow from `gt.random.set_seed`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape.dtypes import as_dtype, float32
from gradtape.errors import InvalidArgumentError
from gradtape.ops import create, random
from gradtape.ops.dispatch import convert
from gradtape.ops.elementwise import cast
from gradtape.ops.linalg_spectral import qr
from gradtape.ops.matrix import diag_part
from gradtape.ops.shape import reshape, transpose


def _floating(dtype: Any, owner: object) -> Any:
    kind = as_dtype(float32 if dtype is None else dtype)
    if not kind.is_floating:
        raise InvalidArgumentError(f"{type(owner).__name__}: the numbers are floating, got dtype {kind.name}")
    return kind


class Initializer:
    """Base class: `__call__(shape, dtype=None)` gives the tensor, `get_config()` the arguments of the constructor."""

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
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

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return create.zeros(shape, float32 if dtype is None else dtype)


class Ones(Initializer):
    """All ones."""

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return create.ones(shape, float32 if dtype is None else dtype)


class Constant(Initializer):
    """One value everywhere, or an array of as many elements as the shape has."""

    def __init__(self, value: Any = 0.0) -> None:
        self.value = value

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        sizes = create.static_shape(shape)
        content = np.asarray(self.value)
        if content.ndim and content.size != math.prod(sizes):
            raise InvalidArgumentError(f"Constant: {content.size} values do not fill the shape {tuple(sizes)}")
        values = np.broadcast_to(content, sizes) if not content.ndim else content.reshape(sizes)
        return cast(convert(np.array(values)), float32 if dtype is None else dtype)


class Identity(Initializer):
    """The identity matrix times `gain`."""

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        sizes = create.static_shape(shape)
        if len(sizes) != 2:
            raise InvalidArgumentError(f"Identity: needs a shape of two numbers, got {tuple(sizes)}")
        return create.eye(*sizes, dtype=_floating(dtype, self)) * self.gain


class _Drawn(Initializer):
    """Random numbers: with a seed from it alone, else from the global state."""

    seed: Any

    def _uniform(self, sizes: Any, low: float, high: float, dtype: Any) -> Any:
        if self.seed is None:
            return random.uniform(sizes, low, high, dtype)
        return random.stateless_uniform(sizes, [int(self.seed), 0], low, high, dtype)

    def _normal(self, sizes: Any, mean: float, deviation: float, dtype: Any, truncated: bool = False) -> Any:
        if self.seed is None:
            draw = random.truncated_normal if truncated else random.normal
            return draw(sizes, mean, deviation, dtype)
        stateless = random.stateless_truncated_normal if truncated else random.stateless_normal
        return stateless(sizes, [int(self.seed), 0], mean, deviation, dtype)


class RandomUniform(_Drawn):
    """Uniform numbers in [minval, maxval).

    >>> import gradtape as gt
    >>> start = gt.initializers.RandomUniform(-1.0, 1.0, seed=3)
    >>> bool(gt.reduce_all(start((2, 2)) == start((2, 2))))
    True
    """

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None) -> None:
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return self._uniform(shape, self.minval, self.maxval, _floating(dtype, self))


class RandomNormal(_Drawn):
    """Normal numbers."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return self._normal(shape, self.mean, self.stddev, _floating(dtype, self))


class TruncatedNormal(_Drawn):
    """Normal numbers at most two standard deviations from the mean."""

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        return self._normal(shape, self.mean, self.stddev, _floating(dtype, self), truncated=True)


def _fans(sizes: tuple[int, ...]) -> tuple[float, float]:
    """How many inputs and outputs a weight of this shape connects: of a convolution, each tap counts."""
    if not sizes:
        return 1.0, 1.0
    if len(sizes) == 1:
        return float(sizes[0]), float(sizes[0])
    field = math.prod(sizes[:-2])
    return float(sizes[-2] * field), float(sizes[-1] * field)


# the standard deviation of a normal number that was cut off at two of its own
_CUT = 0.87962566103423978


class VarianceScaling(_Drawn):
    """Numbers whose variance is `scale` over the number of inputs, outputs, or their mean (Glorot & Bengio 2010)."""

    def __init__(
        self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal", seed: int | None = None
    ) -> None:
        if scale <= 0.0:
            raise InvalidArgumentError(f"VarianceScaling: scale must be positive, got {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise InvalidArgumentError(f"VarianceScaling: mode must be fan_in, fan_out or fan_avg, got {mode!r}")
        distribution = "truncated_normal" if distribution == "normal" else distribution
        if distribution not in ("uniform", "truncated_normal", "untruncated_normal"):
            raise InvalidArgumentError(
                f"VarianceScaling: distribution must be uniform, truncated_normal or untruncated_normal, got {distribution!r}"
            )
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        sizes, kind = create.static_shape(shape), _floating(dtype, self)
        inputs, outputs = _fans(sizes)
        fan = {"fan_in": inputs, "fan_out": outputs, "fan_avg": 0.5 * (inputs + outputs)}[self.mode]
        variance = self.scale / max(1.0, fan)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return self._uniform(sizes, -limit, limit, kind)
        if self.distribution == "truncated_normal":
            return self._normal(sizes, 0.0, math.sqrt(variance) / _CUT, kind, truncated=True)
        return self._normal(sizes, 0.0, math.sqrt(variance), kind)


class _Scaled(VarianceScaling):
    """One choice of scale, mode and distribution."""

    choice: tuple[float, str, str]

    def __init__(self, seed: int | None = None) -> None:
        super().__init__(*self.choice, seed=seed)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed}


class GlorotUniform(_Scaled):
    """Uniform in ±√(6 / (inputs + outputs)): what Keras's layers start with.

    >>> import gradtape as gt
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
        self.gain, self.seed = gain, seed

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Any:
        sizes, kind = create.static_shape(shape), _floating(dtype, self)
        if len(sizes) < 2:
            raise InvalidArgumentError(f"Orthogonal: needs a shape of two or more numbers, got {tuple(sizes)}")
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        q, r = qr(self._normal((max(rows, columns), min(rows, columns)), 0.0, 1.0, kind))
        signs = diag_part(r)
        q = q * (signs / (signs * signs) ** 0.5)  # uniformly distributed: the signs of a factorisation are not random
        return reshape(q if rows >= columns else transpose(q), sizes) * self.gain


_NAMED = {
    "zeros": Zeros, "ones": Ones, "constant": Constant, "identity": Identity, "random_uniform": RandomUniform,
    "random_normal": RandomNormal, "truncated_normal": TruncatedNormal, "variance_scaling": VarianceScaling,
    "glorot_uniform": GlorotUniform, "glorot_normal": GlorotNormal, "he_uniform": HeUniform, "he_normal": HeNormal,
    "lecun_uniform": LecunUniform, "lecun_normal": LecunNormal, "orthogonal": Orthogonal,
}  # fmt: skip


def get(identifier: Any) -> Any:
    """An initializer by its name ("glorot_uniform"), its class, or itself; None gives None.

    >>> import gradtape as gt
    >>> gt.initializers.get("he_normal")
    HeNormal(seed=None)
    """
    if identifier is None or (callable(identifier) and not isinstance(identifier, type)):
        return identifier
    if isinstance(identifier, type) and issubclass(identifier, Initializer):
        return identifier()
    kind = _NAMED.get(identifier) or next((k for k in _NAMED.values() if k.__name__ == identifier), None)
    if kind is None:
        raise ValueError(f"initializers.get: there is no initializer {identifier!r}; there are {', '.join(_NAMED)}")
    return kind()
