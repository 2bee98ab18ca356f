"""Random programs of array operations: elementwise chains, reductions, shapes, products and rows, with several results.

`random_program` stays with floats and sizes above 0; `odd_program` mixes all dtypes, has axes of no elements, and indices.
`forms` gives inputs as they come from users: strided, reversed, transposed, broadcast, overlapping, the same one twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from gradtape.ops.activations import RELU, SIGMOID, SOFTMAX
from gradtape.ops.compare import GREATER
from gradtape.ops.cumulative import CUMSUM
from gradtape.ops.elementwise import ABS, ADD, CAST, EXP, MULTIPLY, NEGATIVE, SIN, SQUARE, SUBTRACT
from gradtape.ops.index import GETITEM, TAKE
from gradtape.ops.matmul import MATMUL
from gradtape.ops.normalization import NORMALIZE
from gradtape.ops.padding import PAD
from gradtape.ops.reduce import REDUCE_MAX, REDUCE_MEAN, REDUCE_SUM
from gradtape.ops.select import FLOORDIV, MAXIMUM, MINIMUM, MOD, WHERE
from gradtape.ops.shape import CONCAT, RESHAPE, REVERSE, SLICE_AXIS, TRANSPOSE
from tests.backends.build import program, tensor

SIZES = [1, 2, 3, 5, 7, 16, 17, 33]
MOST = 20_000  # elements of a value


def _elements(shape: Any) -> int:
    return int(np.prod(tuple(shape), dtype=int))


def _fits(a: Any, b: Any) -> bool:
    try:
        return _elements(np.broadcast_shapes(tuple(a), tuple(b))) <= MOST
    except ValueError:
        return False


class Maker:
    """Appends random operations to a block."""

    def __init__(self, draw: random.Random, build: Any, values: list[Any]) -> None:
        self.draw, self.build, self.values = draw, build, values

    def pick(self) -> Any:
        return self.draw.choice(self.values[-8:] if self.draw.random() < 0.7 else self.values)

    def step(self) -> None:
        x = self.pick()
        makers = [self.unary, self.binary, self.binary]
        if len(x.type.shape):
            makers += [self.fold, self.fold, self.reshaped, self.part, self.rows, self.joined, self.padded]
        if len(x.type.shape) > 1:
            makers += [self.transposed, self.product]
        made = self.draw.choice(makers)(x, tuple(x.type.shape))
        if _elements(made.type.shape) <= MOST:
            self.values.append(self.build(SIN, made) if self.draw.random() < 0.3 else made)

    def unary(self, x: Any, shape: Any) -> Any:
        return self.build(self.draw.choice([SIN, NEGATIVE, SIGMOID, RELU, SQUARE]), x)

    def binary(self, x: Any, shape: Any) -> Any:
        y = self.draw.choice([v for v in self.values if _fits(shape, v.type.shape)])
        return self.build(self.draw.choice([ADD, MULTIPLY, SUBTRACT, MAXIMUM]), x, y)

    def fold(self, x: Any, shape: Any) -> Any:
        axes = tuple(sorted(self.draw.sample(range(len(shape)), self.draw.randint(1, len(shape)))))
        op = self.draw.choice([REDUCE_SUM, REDUCE_MAX, REDUCE_MEAN])
        return self.build(op, x, axis=axes, keepdims=self.draw.random() < 0.6)

    def reshaped(self, x: Any, shape: Any) -> Any:
        count = _elements(shape)
        ways = [(count,), (1, count), (count, 1)]
        ways += [(shape[0], count // shape[0])] if shape[0] else []
        return self.build(RESHAPE, x, shape=self.draw.choice(ways))

    def part(self, x: Any, shape: Any) -> Any:
        axis = self.draw.randrange(len(shape))
        start = self.draw.randint(0, shape[axis])
        return self.build(SLICE_AXIS, x, axis=axis, start=start, size=self.draw.randint(0, shape[axis] - start))

    def rows(self, x: Any, shape: Any) -> Any:
        axis = self.draw.randrange(len(shape))
        if self.draw.random() < 0.5 or not shape[axis]:
            return self.build(SOFTMAX, x, axis=axis)
        return self.build(NORMALIZE, x, axis=(axis,), epsilon=0.1)

    def joined(self, x: Any, shape: Any) -> Any:
        return self.build(CONCAT, x, self.build(NEGATIVE, x), x, axis=self.draw.randrange(len(shape)))

    def padded(self, x: Any, shape: Any) -> Any:
        return self.build(PAD, x, paddings=tuple((self.draw.randint(0, 2), self.draw.randint(0, 2)) for _ in shape))

    def transposed(self, x: Any, shape: Any) -> Any:
        perm = list(range(len(shape)))
        self.draw.shuffle(perm)
        return self.build(TRANSPOSE, x, perm=tuple(perm))

    def product(self, x: Any, shape: Any) -> Any:
        others = [v for v in self.values if len(v.type.shape) == 2 and v.type.shape[0] == shape[-1]]
        rank = len(shape)
        y = self.draw.choice(others) if others else self.build(TRANSPOSE, x, perm=(*range(rank - 2), rank - 1, rank - 2))
        return self.build(SIN, self.build(MATMUL, x, y))


def random_program(seed: int) -> tuple[Any, list[Any]]:
    """A program and inputs for it."""
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    dtype = draw.choice(["float64", "float64", "float32"])
    base = [draw.choice(SIZES) for _ in range(3)]
    shapes = []
    for _ in range(draw.randint(1, 4)):
        rank = draw.randint(0, 3)
        shapes.append(tuple(1 if draw.random() < 0.15 else n for n in base[3 - rank :]))

    def make(build: Any, *params: Any) -> Any:
        maker = Maker(draw, build, list(params))
        for _ in range(draw.randint(4, 22)):
            maker.step()
        made = maker.values[len(params) :]
        return [v for v in made if draw.random() < 0.25][:6] or [maker.values[-1]]

    block = program([tensor(*shape, dtype=dtype) for shape in shapes], make)
    return block, [
        np.asarray(numbers.normal(size=shape).astype(dtype)) if shape else np.dtype(dtype).type(0.5) for shape in shapes
    ]


# -- odd ones ---------------------------------------------------------------------------------------------------------------

ODD_SIZES = [0, 1, 1, 2, 3, 5, 7, 8, 13, 17, 31, 64, 97]
DTYPES = ["float64", "float32", "float32", "int32", "int64", "int8", "uint8", "int16", "uint32", "bool"]
RARE = ["float16", "complex64", "complex128", "uint64"]  # which native code leaves to NumPy, at least in part


class OddMaker(Maker):
    """Appends operations on any dtype to a block."""

    def kind(self, x: Any) -> str:
        return str(np.dtype(x.type.dtype.dtype).kind)

    def cast(self, x: Any, dtype: str) -> Any:
        if x.type.dtype.name == dtype or (self.kind(x) == "c" and np.dtype(dtype).kind != "c"):
            return x
        if self.kind(x) == "f" and np.dtype(dtype).kind in "iu":  # what does not fit has no meaning
            x = self.build(MINIMUM, self.build(ABS, x), self.build.constant(np.array(90, x.type.dtype.dtype)))
        return self.build(CAST, x, dtype=dtype)

    def step(self) -> None:
        x = self.pick()
        shape = tuple(x.type.shape)
        makers = [self.unary, self.binary, self.binary, self.compared, self.converted]
        if shape:
            makers += [self.fold, self.reshaped, self.part, self.joined, self.padded, self.turned, self.strided, self.summed]
            makers += [self.gathered, self.rows] if min(shape) else []
        if len(shape) > 1:
            makers += [self.transposed, self.product]
        made = self.draw.choice(makers)(x, shape)
        if made is not None and _elements(made.type.shape) <= MOST:
            self.values.append(made)

    def unary(self, x: Any, shape: Any) -> Any:
        if self.kind(x) == "b":
            return self.build(CAST, x, dtype=self.draw.choice(["int8", "float32"]))
        return self.build(self.draw.choice([NEGATIVE, SQUARE, ABS, *([SIN, SIGMOID, EXP] if self.kind(x) == "f" else [])]), x)

    def binary(self, x: Any, shape: Any) -> Any:
        y = self.draw.choice([v for v in self.values if _fits(shape, v.type.shape)] or [x])
        if self.kind(x) == "b":
            return self.build(WHERE, x, y, self.build(NEGATIVE, y) if self.kind(y) not in "b" else y)
        y = self.cast(y, x.type.dtype.name)
        if y.type.dtype != x.type.dtype:
            return None
        if self.kind(x) in "iu" and self.draw.random() < 0.3:  # never by zero
            by = self.build(MAXIMUM, y, self.build.constant(np.array(1, y.type.dtype.dtype)))
            return self.build(self.draw.choice([FLOORDIV, MOD]), x, by)
        ops = [ADD, MULTIPLY, SUBTRACT, *([MAXIMUM, MINIMUM] if self.kind(x) != "c" else [])]
        return self.build(self.draw.choice(ops), x, y)

    def compared(self, x: Any, shape: Any) -> Any:
        if self.kind(x) in "cb":
            return None
        return self.build(GREATER, x, self.build.constant(np.array(1, x.type.dtype.dtype)))

    def converted(self, x: Any, shape: Any) -> Any:
        return self.cast(x, self.draw.choice(DTYPES if self.kind(x) != "c" else RARE[1:3]))

    def fold(self, x: Any, shape: Any) -> Any:
        axes = tuple(sorted(self.draw.sample(range(len(shape)), self.draw.randint(1, len(shape)))))
        if self.kind(x) == "b":
            x = self.build(CAST, x, dtype="int32")
        op = self.draw.choice([REDUCE_SUM, REDUCE_SUM, *([REDUCE_MAX] if self.kind(x) == "f" else [])])
        return self.build(op, x, axis=axes, keepdims=self.draw.random() < 0.6)

    def joined(self, x: Any, shape: Any) -> Any:
        return self.build(CONCAT, x, x, axis=self.draw.randrange(len(shape)))

    def turned(self, x: Any, shape: Any) -> Any:
        return self.build(REVERSE, x, axis=(self.draw.randrange(len(shape)),))

    def strided(self, x: Any, shape: Any) -> Any:
        return self.build(GETITEM, x, key=tuple(slice(None, None, self.draw.choice([1, 2, 3, -1, -2])) for _ in shape))

    def summed(self, x: Any, shape: Any) -> Any:
        if self.kind(x) not in "fi":
            return None
        axis = self.draw.randrange(len(shape))
        return self.build(CUMSUM, x, axis=axis, exclusive=self.draw.random() < 0.5, reverse=self.draw.random() < 0.5)

    def gathered(self, x: Any, shape: Any) -> Any:
        axis = self.draw.randrange(len(shape))
        places = [self.draw.randrange(shape[axis]) for _ in range(self.draw.choice([0, 1, 3, 7]))]
        return self.build(TAKE, x, self.build.constant(np.array(places, np.int32)), axis=axis)

    def rows(self, x: Any, shape: Any) -> Any:
        return super().rows(x, shape) if x.type.dtype.name in ("float32", "float64") else None

    def product(self, x: Any, shape: Any) -> Any:
        rank = len(shape)
        y = self.build(TRANSPOSE, x, perm=(*range(rank - 2), rank - 1, rank - 2))
        return self.build(MATMUL, x, y) if self.kind(x) in "fc" else None


def odd_program(seed: int) -> tuple[Any, list[Any]]:
    """A program of all dtypes and odd sizes, and inputs for it; two of them have one type, where there are two."""
    draw, numbers = random.Random(seed), np.random.default_rng(seed)
    base = [draw.choice(ODD_SIZES) for _ in range(3)]
    types = []
    for _ in range(draw.randint(1, 3)):
        shape = tuple(1 if draw.random() < 0.1 else n for n in base[3 - draw.randint(1, 3) :])
        types.append((shape, draw.choice(RARE if draw.random() < 0.1 else DTYPES)))
    types.append(types[0])

    def make(build: Any, *params: Any) -> Any:
        maker = OddMaker(draw, build, list(params))
        for _ in range(draw.randint(4, 18)):
            maker.step()
        made = maker.values[len(params) :]
        return [v for v in made if draw.random() < 0.3][:6] or [maker.values[-1]]

    block = program([tensor(*shape, dtype=dtype) for shape, dtype in types], make)
    arrays = []
    for shape, dtype in types:
        drawn = numbers.normal(size=shape) * 3
        arrays.append((np.abs(drawn) if dtype[0] == "u" else drawn).astype(dtype))
    return block, arrays


def forms(arrays: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Inputs of the same types, in other forms; the first and the last have one type."""
    yield "as they are", arrays
    yield "strided", [_spread(a)[tuple(slice(None, None, 2) for _ in a.shape)] for a in arrays]
    yield "reversed", [a[tuple(slice(None, None, -1) for _ in a.shape)] for a in arrays]
    yield "transposed", [np.ascontiguousarray(a.T).T for a in arrays]
    yield "one number", [np.broadcast_to(a.reshape(-1)[:1].reshape((1,) * a.ndim) if a.size else a, a.shape) for a in arrays]
    yield "the same twice", [*arrays[:-1], arrays[0]]
    long = np.concatenate([arrays[0].reshape(-1), arrays[0].reshape(-1)[:1]])
    first, last = (long[k : k + arrays[0].size].reshape(arrays[0].shape) for k in (0, long.size - arrays[0].size))
    yield "overlapping", [first, *arrays[1:-1], last]


def _spread(array: Any) -> Any:
    wide = np.zeros(tuple(2 * n for n in array.shape), array.dtype)
    wide[tuple(slice(None, None, 2) for _ in array.shape)] = array
    return wide
