"""`Generator`: a random stream the program owns, apart from the global state.

Its state is a key word and a counter; each call takes the next counter value under a lock, so a generator may be shared
between threads. `split` makes independent generators for workers.
"""

from __future__ import annotations

from threading import Lock

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import Array, Integer, Integers, Shape, TensorLike
from gradtape.dtypes import DTypeLike, float32, int32, uint64
from gradtape.errors import InvalidArgumentError
from gradtape.ops import random as numbers
from gradtape.ops.random_state import entropy_word, next_key, stream_word

_MASK = 0xFFFFFFFFFFFFFFFF


class Generator:
    """A stream of random numbers.

    >>> a, b = gt.random.Generator.from_seed(1), gt.random.Generator.from_seed(1)
    >>> bool(gt.reduce_all(a.normal([3]) == b.normal([3])))
    True
    """

    def __init__(self, copy_from: Generator | None = None, state: TensorLike | None = None, alg: str | None = None) -> None:
        if (copy_from is None) == (state is None) or not isinstance(copy_from, Generator | None):
            raise InvalidArgumentError(
                "Generator: give either copy_from (a generator) or state; or use Generator.from_seed(seed)"
            )
        self._lock = Lock()
        self._key, self._counter = _parsed(copy_from.state if copy_from is not None else state)  # type: ignore[arg-type]

    @classmethod
    def from_seed(cls, seed: TensorLike, alg: str | None = None) -> Generator:
        """A generator that depends only on the seed: an integer or a sequence of them."""
        parts = np.atleast_1d(np.asarray(convert(seed)._data)).tolist()
        return cls.from_key_counter(stream_word(*(int(p) for p in parts)), 0)

    @classmethod
    def from_non_deterministic_state(cls, alg: str | None = None) -> Generator:
        """A generator seeded by the operating system."""
        return cls.from_key_counter(entropy_word(), 0)

    @classmethod
    def from_state(cls, state: TensorLike, alg: str | None = None) -> Generator:
        """A generator that continues from a saved `state`."""
        return cls(state=state)

    @classmethod
    def from_key_counter(cls, key: Integer, counter: Integers, alg: str | None = None) -> Generator:
        """A generator from its key word and its counter (one number, or two for the low and the high half)."""
        parts = np.atleast_1d(np.asarray(counter)).tolist()
        return cls(state=_packed(int(key), int(parts[0]) & _MASK))

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> Tensor:
        """The counter (two words) and the key, as an int64 tensor of three elements."""
        with self._lock:
            return box(_packed(self._key, self._counter))

    @property
    def key(self) -> Tensor:
        """The key word, as a uint64 scalar."""
        return box(np.uint64(self._key))

    @property
    def algorithm(self) -> int:
        """TensorFlow's number for Philox."""
        return 1

    def reset(self, state: TensorLike) -> None:
        """Continue from another state."""
        key, counter = _parsed(state)
        with self._lock:
            self._key, self._counter = key, counter

    def reset_from_seed(self, seed: TensorLike) -> None:
        """Continue as `from_seed(seed)` would start."""
        self.reset(Generator.from_seed(seed).state)

    def skip(self, delta: Integer) -> None:
        """Leave out the next `delta` calls."""
        with self._lock:
            self._counter = (self._counter + int(delta)) & _MASK

    def _next(self) -> Tensor:
        return next_key(self._take)

    def _take(self, count: int) -> tuple[int, int]:
        with self._lock:
            counter = self._counter
            self._counter = (counter + count) & _MASK
            return self._key, counter

    def make_seeds(self, count: int = 1) -> Tensor:
        """Seeds for the stateless functions: an int64 tensor of shape (2, count)."""
        return numbers.key_bits(self._next, (2, int(count)), "int64", "Generator.make_seeds")

    def split(self, count: int = 1) -> list[Generator]:
        """`count` independent generators."""
        words = np.asarray(numbers.key_bits(self._next, (int(count),), "uint64", "Generator.split")._data)
        return [Generator.from_key_counter(int(w), 0) for w in words]

    def __getstate__(self) -> tuple[int, int]:
        with self._lock:
            return self._key, self._counter

    def __setstate__(self, state: tuple[int, int]) -> None:
        self._lock = Lock()
        self._key, self._counter = state

    def __repr__(self) -> str:
        return f"<gt.random.Generator: key={self._key}, counter={self._counter}>"

    # -- numbers ---------------------------------------------------------------------------------------------------

    def uniform(
        self, shape: Shape, minval: TensorLike = 0, maxval: TensorLike | None = None, dtype: DTypeLike = float32,
        name: str | None = None,
    ) -> Tensor:  # fmt: skip
        """Uniform numbers in [minval, maxval); differentiable in both bounds."""
        return numbers.key_uniform(self._next, shape, minval, maxval, dtype, "Generator.uniform")

    def normal(
        self, shape: Shape, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, dtype: DTypeLike = float32,
        name: str | None = None,
    ) -> Tensor:  # fmt: skip
        """Normal numbers; differentiable in mean and stddev."""
        return numbers.key_normal(numbers.RANDOM_NORMAL, self._next, shape, mean, stddev, dtype, "Generator.normal")

    def truncated_normal(
        self, shape: Shape, mean: TensorLike = 0.0, stddev: TensorLike = 1.0, dtype: DTypeLike = float32,
        name: str | None = None,
    ) -> Tensor:  # fmt: skip
        """Normal numbers at most two standard deviations from the mean; differentiable in mean and stddev."""
        op = numbers.RANDOM_TRUNCATED_NORMAL
        return numbers.key_normal(op, self._next, shape, mean, stddev, dtype, "Generator.truncated_normal")

    def uniform_full_int(self, shape: Shape, dtype: DTypeLike = uint64, name: str | None = None) -> Tensor:
        """Integers over the whole range of their type."""
        return numbers.key_bits(self._next, shape, dtype, "Generator.uniform_full_int")

    def binomial(
        self, shape: Shape, counts: TensorLike, probs: TensorLike, dtype: DTypeLike = int32, name: str | None = None
    ) -> Tensor:
        """Binomial counts; counts and probs broadcast to `shape`."""
        return numbers.key_binomial(self._next, shape, counts, probs, dtype)


def _packed(key: int, counter: int) -> Array:
    return np.array([counter & _MASK, 0, key & _MASK], np.uint64).view(np.int64)


def _parsed(state: TensorLike) -> tuple[int, int]:
    words = np.asarray(convert(state)._data)
    if words.shape != (3,) or words.dtype.kind not in "iu":
        raise InvalidArgumentError(
            "Generator: a state has three integers (counter low, counter high, key), got "
            f"shape {words.shape}, dtype {words.dtype.name}"
        )
    return int(words[2]) & _MASK, int(words[0]) & _MASK


class GlobalGenerator:
    """Holder of the process-wide generator, made on first use."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._generator: Generator | None = None

    def get(self) -> Generator:
        with self._lock:
            if self._generator is None:
                self._generator = Generator.from_non_deterministic_state()
            return self._generator

    def set(self, generator: Generator) -> None:
        with self._lock:
            self._generator = generator


_GLOBAL = GlobalGenerator()


def get_global_generator() -> Generator:
    """The generator shared by the process.

    >>> gt.random.get_global_generator().normal([2]).shape
    TensorShape([2])
    """
    return _GLOBAL.get()


def set_global_generator(generator: Generator) -> None:
    """Replace the generator shared by the process.

    >>> gt.random.set_global_generator(gt.random.get_global_generator())
    """
    _GLOBAL.set(generator)
