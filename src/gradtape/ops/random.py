"""Random numbers: primitives that are pure functions of an explicit key, and the functions users call.

A key is a uint64 tensor of two words for NumPy's counter-based Philox generator, so equal keys give equal numbers in every
thread, trace or replay. The stateful functions take a fresh key from `random_state.py`; the `stateless_*` functions use
the caller's seed. Location and scale are applied by ordinary ops on top, so gradients flow to mean, stddev, minval,
maxval and beta (the reparameterised form); gamma samples have their implicit derivative in alpha.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.core import batching
from gradtape.core.arguments import whole
from gradtape.core.dispatch import apply, convert, promote
from gradtape.core.opdef import Fails, Memory, Op, Rule, Sample, SampleMaker, elementwise, nondiff
from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, Dims, Integer, Shape, TensorLike
from gradtape.dtypes import DType, DTypeLike, as_dtype, float32, int32, int64, numpy_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorSpec
from gradtape.ops import sampling
from gradtape.ops.create import static_shape
from gradtape.ops.random_state import STATE

Draw = Callable[[], Any]  # gives the key; called only once all arguments are known to be good


class _Philox(threading.local):
    """A generator of this thread, set to each key in turn: making one takes ten times as long as a few numbers."""

    def __init__(self) -> None:
        self.bits = np.random.Philox(key=0)
        self.generator, self.start = np.random.Generator(self.bits), self.bits.state


_PHILOX = _Philox()


def _generator(key: Array) -> np.random.Generator:
    own = _PHILOX
    own.start["state"]["key"] = key
    own.bits.state = own.start
    return own.generator


def _finished(values: Array, dtype: DTypeLike) -> Array:
    out = np.asarray(values).astype(numpy_dtype(dtype), copy=False)
    return out if out.ndim else out[()]


# -- primitives --------------------------------------------------------------------------------------------------------


def _uniform_impl(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    target = as_dtype(dtype)
    if target.size >= 4:
        return _finished(_generator(key).random(shape, target.as_numpy_dtype), target)
    # as many steps in [0, 1) as the short format resolves: rounding a longer float could give 1
    steps = 2 ** (11 if target.name == "float16" else 8)
    return _finished(_generator(key).integers(0, steps, shape) / steps, target)


def _normal_impl(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    wide = np.float64 if as_dtype(dtype).size == 8 else np.float32
    return _finished(_generator(key).standard_normal(shape, wide), dtype)


def _truncated_impl(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    wide = np.float64 if as_dtype(dtype).size == 8 else np.float32
    generator = _generator(key)
    out = np.asarray(generator.standard_normal(shape, wide))
    far = np.abs(out) > 2.0
    while far.any():  # each round leaves 5 % of what it drew
        out[far] = generator.standard_normal(int(far.sum()), wide)
        far = np.abs(out) > 2.0
    return _finished(out, dtype)


def _integers_impl(key: Array, low: Array, high: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    return _finished(_generator(key).integers(low, high, shape, dtype=numpy_dtype(dtype)), dtype)


def _bits_impl(key: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    kind = numpy_dtype(dtype)
    unsigned = np.dtype(f"u{kind.itemsize}")
    return _finished(
        np.asarray(_generator(key).integers(0, np.iinfo(unsigned).max, shape, unsigned, endpoint=True)).view(kind), dtype
    )


def _gamma_impl(key: Array, alpha: Array, *, shape: tuple[int, ...]) -> Array:
    return _finished(_generator(key).standard_gamma(np.asarray(alpha, np.float64), (*shape, *np.shape(alpha))), alpha.dtype)


def _poisson_impl(key: Array, rate: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    return _finished(_generator(key).poisson(np.asarray(rate, np.float64), (*shape, *np.shape(rate))), dtype)


def _binomial_impl(key: Array, counts: Array, probs: Array, *, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
    return _finished(_generator(key).binomial(np.asarray(counts).astype(np.int64), np.asarray(probs, np.float64), shape), dtype)


def _categorical_impl(key: Array, logits: Array, *, count: int, dtype: DTypeLike) -> Array:
    # in double precision whatever the logits are: running sums of many small probabilities would lose the last classes
    rows = np.asarray(logits, np.float64)
    # (less the largest logit, so that no exponential overflows)
    weights = np.cumsum(np.exp(rows - rows.max(axis=-1, keepdims=True, initial=-np.inf)), axis=-1)
    drawn = _generator(key).random((*rows.shape[:-1], count)) * weights[..., -1:]
    # the class is the number of running sums not above the drawn value, found row by row in one sorted search:
    # row i is lifted into its own interval [i, i + 1)
    unit = weights / weights[..., -1:]
    base = np.arange(len(rows))[:, None]
    flat = np.searchsorted((unit + base).ravel(), (drawn / weights[..., -1:] + base).ravel(), side="right")
    classes = flat.reshape(drawn.shape) - base * rows.shape[-1]
    # (a number that rounds up to the last sum would be a class too many)
    return _finished(np.minimum(classes, rows.shape[-1] - 1), dtype)


def _permutation_impl(key: Array, *, count: int) -> Array:
    return _generator(key).permutation(count)


def _flat_spec(key: TensorSpec, *parameters: TensorSpec, shape: tuple[int, ...], dtype: DTypeLike) -> TensorSpec:
    return TensorSpec(shape, dtype)


def _sampler(
    name: str, args: str, impl: Rule, infer: Rule, samples: SampleMaker, reason: str = "random bits have no derivative"
) -> Op:
    fails = Fails.NEVER if impl is _categorical_impl or args == "key" else Fails.VALUES  # parameters may be out of range
    return nondiff(name, args, impl, infer=infer, reason=reason, batch=batching.looped, fails=fails, samples=samples)


def _keys(*parameters: Any, dtype: str = "float64", **attrs: Any) -> SampleMaker:
    def samples() -> list[Sample]:
        key = np.array([7, 11], np.uint64)
        return [Sample(key, *parameters, shape=shape, dtype=dtype, **attrs) for shape in ((3, 2), (), (0,))]

    return samples


_KEY = np.array([7, 11], np.uint64)
RANDOM_UNIFORM = _sampler("random_uniform", "key", _uniform_impl, _flat_spec, _keys())
RANDOM_NORMAL = _sampler("random_normal", "key", _normal_impl, _flat_spec, _keys(dtype="float32"))
RANDOM_TRUNCATED_NORMAL = _sampler("random_truncated_normal", "key", _truncated_impl, _flat_spec, _keys())
RANDOM_BITS = _sampler("random_bits", "key", _bits_impl, _flat_spec, _keys(dtype="int32"))
RANDOM_INTEGERS = _sampler(
    "random_integers", "key low high", _integers_impl, _flat_spec, _keys(np.int64(-2), np.int64(5), dtype="int32")
)
RANDOM_GAMMA = _sampler(
    "random_gamma", "key alpha", _gamma_impl,
    lambda key, alpha, *, shape: TensorSpec((*shape, *alpha.shape), alpha.dtype),
    lambda: [Sample(_KEY, sampling.positive(n), shape=(3,), fixed=(1,)) for n in (2, 0)],
    "samples are drawn by rejection; their derivative comes from reparameterized_gamma",
)  # fmt: skip
RANDOM_POISSON = _sampler(
    "random_poisson", "key rate", _poisson_impl,
    lambda key, rate, *, shape, dtype: TensorSpec((*shape, *rate.shape), dtype),
    lambda: [Sample(_KEY, sampling.positive(2), shape=(3,), dtype="int32", fixed=(1,))],
    "counts have no derivative",
)  # fmt: skip
RANDOM_BINOMIAL = _sampler(
    "random_binomial", "key counts probs", _binomial_impl,
    _flat_spec,
    lambda: [Sample(_KEY, np.array([3, 9]), np.array(0.3), shape=(4, 2), dtype="int32", fixed=(2,))],
    "counts have no derivative",
)  # fmt: skip
RANDOM_CATEGORICAL = _sampler(
    "random_categorical", "key logits", _categorical_impl,
    lambda key, logits, *, count, dtype: TensorSpec((*logits.shape[:-1], count), dtype),
    lambda: [Sample(_KEY, sampling.normal(2, 3), count=5, dtype="int64", fixed=(1,))],
    "class numbers have no derivative",
)  # fmt: skip
RANDOM_PERMUTATION = _sampler(
    "random_permutation", "key", _permutation_impl,
    lambda key, *, count: TensorSpec((count,), "int64"),
    lambda: [Sample(_KEY, count=5)],
    "positions have no derivative",
)  # fmt: skip


def gamma_sample_slope(alpha: Tensor, z: Tensor) -> Tensor:
    """dz/dα of a gamma sample at a fixed value of its distribution function: -(∂P/∂α)/(∂P/∂z).

    Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018).
    """
    return -igamma_da(alpha, z, 1) / gamma_density(alpha, z)


# the sample z as a function of alpha: the same value, with the implicit derivative
REPARAMETERIZED_GAMMA: Op = elementwise(
    "reparameterized_gamma", "alpha z",
    lambda alpha, z: z if alpha.shape == z.shape else np.broadcast_to(z, np.broadcast_shapes(alpha.shape, z.shape)),
    lambda alpha, out: gamma_sample_slope(alpha, out),
    None,
    call=lambda alpha, z: apply(REPARAMETERIZED_GAMMA, *promote(alpha, z)),
    memory=Memory.SHARED,
    samples=lambda: [
        Sample(sampling.positive(2), sampling.positive(3, 2), fixed=(1,), kinks=True),
        Sample(sampling.positive(), sampling.positive(), fixed=(1,), kinks=True),
    ],
)  # fmt: skip


def _gamma_samples(draw: Draw, alpha: Tensor, shape: Dims) -> Tensor:
    # drawn from alpha without a past: the derivative of a sample is the implicit one, not what rejection would make of it
    return apply(REPARAMETERIZED_GAMMA, alpha, apply(RANDOM_GAMMA, draw(), stop_gradient(alpha), shape=shape))


def _dims(shape: Shape) -> Dims:
    dims = static_shape(shape)
    if any(d < 0 for d in dims):
        raise InvalidArgumentError(f"random: dimensions must be non-negative, got shape {dims}")
    return dims


# -- distributions over a given key: shared by the stateful, the stateless and the Generator's functions ----------------


def _floating(dtype: DTypeLike, op: str) -> DType:
    target = as_dtype(dtype)
    if not target.is_floating:
        raise InvalidArgumentError(f"{op}: dtype must be floating, got {target.name}")
    return target


def key_uniform(draw: Draw, shape: Shape, minval: Any, maxval: TensorLike | None, dtype: DTypeLike, op: str) -> Tensor:
    """Uniform numbers in [minval, maxval) from a key."""
    target, dims = as_dtype(dtype), _dims(shape)
    if target.is_integer:
        if maxval is None:
            raise InvalidArgumentError(f"{op}: maxval must be given for the integer dtype {target.name}")
        low, high = (convert(v) for v in (minval, maxval))
        if not (low.dtype.is_integer and high.dtype.is_integer):
            raise InvalidArgumentError(f"{op}: minval and maxval must be integers for dtype {target.name}")
        if low.__class__ is Tensor and high.__class__ is Tensor and not np.all(low._data < high._data):
            raise InvalidArgumentError(f"{op}: need minval < maxval, got {low.tolist()} and {high.tolist()}")
        return apply(RANDOM_INTEGERS, draw(), low, high, shape=dims, dtype=target)
    target = _floating(target, op)
    out = apply(RANDOM_UNIFORM, draw(), shape=dims, dtype=target)
    if maxval is None:
        maxval = 1.0
    # the usual bounds cost no operations, of which tapes and programs would have two for each draw
    if _is(minval, 0.0) and _is(maxval, 1.0):
        return out
    low, high = (convert(v, hint=target) for v in (minval, maxval))
    return out * (high - low) + low


def key_normal(op: Op, draw: Draw, shape: Shape, mean: TensorLike, stddev: TensorLike, dtype: DTypeLike, name: str) -> Tensor:
    """(Truncated) normal numbers from a key."""
    target, dims = _floating(dtype, name), _dims(shape)
    out = apply(op, draw(), shape=dims, dtype=target)
    if not _is(stddev, 1.0):
        out = out * convert(stddev, hint=target)
    return out if _is(mean, 0.0) else out + convert(mean, hint=target)


def _is(value: object, number: float) -> bool:
    return isinstance(value, (int, float)) and value == number


def key_gamma(draw: Draw, shape: Shape, alpha: TensorLike, beta: TensorLike | None, dtype: DTypeLike, op: str) -> Tensor:
    """Gamma numbers of shape alpha and rate beta from a key: `shape` of them for each pair of parameters."""
    target = _floating(dtype, op)
    alpha = cast(convert(alpha, hint=target), target)
    dims = _dims(shape)
    if beta is None:
        return _gamma_samples(draw, alpha, dims)
    beta = cast(convert(beta, hint=target), target)
    together = np.broadcast_shapes(tuple(alpha.shape), tuple(beta.shape))
    return _gamma_samples(draw, broadcast_to(alpha, together), dims) / beta


def key_categorical(draw: Draw, logits: TensorLike, num_samples: Integer, dtype: DTypeLike | None, op: str) -> Tensor:
    """Class numbers from a key, with probabilities softmax(logits) in each row."""
    logits = convert(logits)
    if logits.ndim != 2 or not logits.dtype.is_floating or not logits.shape[-1]:
        raise InvalidArgumentError(
            f"{op}: logits must be a floating tensor of shape (batch, classes), got shape {tuple(logits.shape)}, "
            f"dtype {logits.dtype.name}"
        )
    target, (count,) = int64 if dtype is None else as_dtype(dtype), _dims(num_samples)
    return apply(RANDOM_CATEGORICAL, draw(), logits, count=count, dtype=target)


def key_poisson(draw: Draw, shape: Shape, lam: TensorLike, dtype: DTypeLike) -> Tensor:
    """Poisson counts from a key: `shape` of them for each rate."""
    lam, dims, target = convert(lam), _dims(shape), as_dtype(dtype)
    return apply(RANDOM_POISSON, draw(), lam, shape=dims, dtype=target)


def key_binomial(draw: Draw, shape: Shape, counts: TensorLike, probs: TensorLike, dtype: DTypeLike) -> Tensor:
    """Binomial counts from a key; counts and probs broadcast to `shape`."""
    counts, probs, dims, target = convert(counts), convert(probs), _dims(shape), as_dtype(dtype)
    return apply(RANDOM_BINOMIAL, draw(), counts, probs, shape=dims, dtype=target)


def key_bits(draw: Draw, shape: Shape, dtype: DTypeLike, op: str) -> Tensor:
    """Integers over the whole range of their type, from a key."""
    target = as_dtype(dtype)
    if target.name not in ("int32", "int64", "uint32", "uint64"):
        raise InvalidArgumentError(f"{op}: dtype must be int32, int64, uint32 or uint64, got {target.name}")
    dims = _dims(shape)
    return apply(RANDOM_BITS, draw(), shape=dims, dtype=target)


# -- stateful functions ------------------------------------------------------------------------------------------------


def set_seed(seed: int) -> None:
    """Start the global random state again: the same seed gives the same sequence of numbers.

    >>> gt.random.set_seed(5); a = gt.random.normal([2])
    >>> gt.random.set_seed(5); b = gt.random.normal([2])
    >>> bool(gt.reduce_all(a == b))
    True
    """
    STATE.reset(whole(seed, "seed", "random.set_seed"))


def uniform(
    shape: Shape, minval: TensorLike = 0, maxval: TensorLike | None = None, dtype: DTypeLike = float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Uniform numbers in [minval, maxval); for integer dtypes maxval must be given. Differentiable in both bounds.

    >>> gt.random.uniform([2, 3], maxval=4, dtype=gt.int32).shape
    TensorShape([2, 3])
    """
    return key_uniform(lambda: STATE.key(seed), shape, minval, maxval, dtype, "random.uniform")


def normal(
    shape: Shape, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, dtype: DTypeLike = float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Normal numbers; differentiable in mean and stddev.

    >>> gt.random.normal([2, 3]).shape
    TensorShape([2, 3])
    """
    return key_normal(RANDOM_NORMAL, lambda: STATE.key(seed), shape, mean, stddev, dtype, "random.normal")


def truncated_normal(
    shape: Shape, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, dtype: DTypeLike = float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Normal numbers at most two standard deviations from the mean; differentiable in mean and stddev.

    >>> bool(gt.reduce_max(abs(gt.random.truncated_normal([100]))) <= 2.0)
    True
    """
    return key_normal(RANDOM_TRUNCATED_NORMAL, lambda: STATE.key(seed), shape, mean, stddev, dtype, "random.truncated_normal")


def gamma(
    shape: Shape, alpha: TensorLike, beta: TensorLike | None = None, dtype: DTypeLike = float32, seed: int | None = None,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Gamma numbers of shape alpha and rate beta, `shape` of them for each parameter; differentiable in both.

    >>> gt.random.gamma([3], alpha=[0.5, 1.5], seed=1).shape
    TensorShape([3, 2])
    """
    return key_gamma(lambda: STATE.key(seed), shape, alpha, beta, dtype, "random.gamma")


def poisson(
    shape: Shape, lam: TensorLike, dtype: DTypeLike = float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Poisson counts, `shape` of them for each rate in lam.

    >>> gt.random.poisson([4], lam=2.0, seed=1).shape
    TensorShape([4])
    """
    return key_poisson(lambda: STATE.key(seed), shape, lam, dtype)


def categorical(
    logits: TensorLike, num_samples: Integer, dtype: DTypeLike | None = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Class numbers drawn with probabilities softmax(logits): (batch, classes) gives (batch, num_samples).

    >>> gt.random.categorical([[0.0, -1000.0]], 3).numpy()
    array([[0, 0, 0]])
    """
    return key_categorical(lambda: STATE.key(seed), logits, num_samples, dtype, "random.categorical")


def shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Tensor:
    """The slices along the first axis in random order; gradients follow the slices.

    >>> sorted(gt.random.shuffle([3.0, 1.0, 2.0]).numpy().tolist())
    [1.0, 2.0, 3.0]
    """
    return _shuffled(lambda: STATE.key(seed), value, "random.shuffle")


def _shuffled(draw: Draw, value: TensorLike, op: str) -> Tensor:
    value = convert(value)
    if not value.ndim:
        raise InvalidArgumentError(f"{op}: a scalar has no axis to shuffle")
    return gather(value, apply(RANDOM_PERMUTATION, draw(), count=int(value.shape[0])))


# -- stateless functions -----------------------------------------------------------------------------------------------


def seed_key(seed: TensorLike) -> Tensor:
    """The key of a seed given as two integers."""
    seed = convert(seed)
    if tuple(seed.shape) != (2,) or not seed.dtype.is_integer:
        raise InvalidArgumentError(f"seed must be two integers, got shape {tuple(seed.shape)}, dtype {seed.dtype.name}")
    return cast(seed, "uint64")


def stateless_uniform(
    shape: Shape, seed: TensorLike, minval: TensorLike | None = 0, maxval: TensorLike | None = None, dtype: DTypeLike = float32,
    name: str | None = None, alg: str = "auto_select",
) -> Tensor:  # fmt: skip
    """Uniform numbers that depend only on the seed (two integers) and the arguments.

    >>> a, b = gt.random.stateless_uniform([2], seed=[1, 2]), gt.random.stateless_uniform([2], seed=[1, 2])
    >>> bool(gt.reduce_all(a == b))
    True
    """
    if minval is None and maxval is None and as_dtype(dtype).is_integer:
        return key_bits(lambda: seed_key(seed), shape, dtype, "random.stateless_uniform")
    return key_uniform(lambda: seed_key(seed), shape, minval, maxval, dtype, "random.stateless_uniform")


def stateless_normal(
    shape: Shape, seed: TensorLike, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, dtype: DTypeLike = float32,
    name: str | None = None, alg: str = "auto_select",
) -> Tensor:  # fmt: skip
    """Normal numbers that depend only on the seed (two integers) and the arguments.

    >>> a, b = (gt.random.stateless_normal([3], seed=[1, 2]) for _ in range(2))
    >>> bool(gt.reduce_all(a == b))
    True
    """
    return key_normal(RANDOM_NORMAL, lambda: seed_key(seed), shape, mean, stddev, dtype, "random.stateless_normal")


def stateless_truncated_normal(
    shape: Shape, seed: TensorLike, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, dtype: DTypeLike = float32,
    name: str | None = None, alg: str = "auto_select",
) -> Tensor:  # fmt: skip
    """Truncated normal numbers that depend only on the seed (two integers) and the arguments.

    >>> bool(gt.reduce_all(abs(gt.random.stateless_truncated_normal([100], seed=[1, 2])) <= 2.0))
    True
    """
    return key_normal(
        RANDOM_TRUNCATED_NORMAL, lambda: seed_key(seed), shape, mean, stddev, dtype, "random.stateless_truncated_normal"
    )


def stateless_gamma(
    shape: Shape, seed: TensorLike, alpha: TensorLike, beta: TensorLike | None = None, dtype: DTypeLike = float32,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Gamma numbers that depend only on the seed; alpha and beta broadcast to `shape`.

    >>> gt.random.stateless_gamma([3], seed=[1, 2], alpha=2.0).shape
    TensorShape([3])
    """
    target, dims = _floating(dtype, "random.stateless_gamma"), _dims(shape)
    alpha = broadcast_to(cast(convert(alpha, hint=target), target), dims)
    out = _gamma_samples(lambda: seed_key(seed), alpha, ())
    return out if beta is None else out / cast(convert(beta, hint=target), target)


def stateless_poisson(
    shape: Shape, seed: TensorLike, lam: TensorLike, dtype: DTypeLike = int32, name: str | None = None
) -> Tensor:
    """Poisson counts that depend only on the seed; lam broadcasts to `shape`.

    >>> gt.random.stateless_poisson([3], seed=[1, 2], lam=4.0).shape
    TensorShape([3])
    """
    return key_poisson(lambda: seed_key(seed), (), broadcast_to(convert(lam), _dims(shape)), dtype)


def stateless_binomial(
    shape: Shape, seed: TensorLike, counts: TensorLike, probs: TensorLike, output_dtype: DTypeLike = int32,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Binomial counts that depend only on the seed; counts and probs broadcast to `shape`.

    >>> gt.random.stateless_binomial([3], seed=[1, 2], counts=10.0, probs=0.5).shape
    TensorShape([3])
    """
    return key_binomial(lambda: seed_key(seed), shape, counts, probs, output_dtype)


def stateless_categorical(
    logits: TensorLike, num_samples: Integer, seed: TensorLike, dtype: DTypeLike = int64, name: str | None = None
) -> Tensor:
    """Class numbers that depend only on the seed and the arguments.

    >>> gt.random.stateless_categorical([[0.0, 0.0]], 5, seed=[1, 2]).shape
    TensorShape([1, 5])
    """
    return key_categorical(lambda: seed_key(seed), logits, num_samples, dtype, "random.stateless_categorical")


def stateless_shuffle(value: TensorLike, seed: TensorLike, alg: str = "auto_select", name: str | None = None) -> Tensor:
    """The slices along the first axis in an order that depends only on the seed.

    >>> sorted(gt.random.stateless_shuffle([1, 2, 3], seed=[1, 2]).numpy().tolist())
    [1, 2, 3]
    """
    return _shuffled(lambda: seed_key(seed), value, "random.stateless_shuffle")


def split(seed: TensorLike, num: int = 2, alg: str = "auto_select") -> Tensor:
    """`num` independent seeds from one: a tensor of shape (num, 2).

    >>> gt.random.split([1, 2], num=3).shape
    TensorShape([3, 2])
    """
    seed = convert(seed)
    return apply(RANDOM_BITS, seed_key(seed), shape=(int(num), 2), dtype=seed.dtype)


def fold_in(seed: TensorLike, data: TensorLike, alg: str = "auto_select") -> Tensor:
    """A new seed from a seed and an integer (a step number, say).

    >>> gt.random.fold_in([1, 2], 3).shape
    TensorShape([2])
    """
    seed = convert(seed)
    first = apply(RANDOM_BITS, seed_key(seed), shape=(2,), dtype=seed.dtype)
    step = cast(convert(data), seed.dtype)
    return apply(RANDOM_BITS, seed_key(stack([first[0], step])), shape=(2,), dtype=seed.dtype)


OPS = (
    RANDOM_UNIFORM, RANDOM_NORMAL, RANDOM_TRUNCATED_NORMAL, RANDOM_INTEGERS, RANDOM_BITS, RANDOM_GAMMA, RANDOM_POISSON,
    RANDOM_BINOMIAL, RANDOM_CATEGORICAL, RANDOM_PERMUTATION, REPARAMETERIZED_GAMMA,
)  # fmt: skip

from gradtape.ops.elementwise import cast
from gradtape.ops.incomplete import gamma_density, igamma_da
from gradtape.ops.index import gather
from gradtape.ops.shape import broadcast_to, stack
from gradtape.ops.stop import stop_gradient

__all__ = [
    "categorical", "fold_in", "gamma", "normal", "poisson", "set_seed", "shuffle", "split", "stateless_binomial",
    "stateless_categorical", "stateless_gamma", "stateless_normal", "stateless_poisson", "stateless_shuffle",
    "stateless_truncated_normal", "stateless_uniform", "truncated_normal", "uniform",
]  # fmt: skip
