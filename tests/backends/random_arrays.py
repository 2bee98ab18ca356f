"""Random programs of array operations: elementwise chains, reductions, shapes, products and rows, with several results."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from gradtape.ops.activations import RELU, SIGMOID, SOFTMAX
from gradtape.ops.elementwise import ADD, MULTIPLY, NEGATIVE, SIN, SQUARE, SUBTRACT
from gradtape.ops.matmul import MATMUL
from gradtape.ops.normalization import NORMALIZE
from gradtape.ops.reduce import REDUCE_MAX, REDUCE_MEAN, REDUCE_SUM
from gradtape.ops.select import MAXIMUM
from gradtape.ops.shape import CONCAT, PAD, RESHAPE, SLICE_AXIS, TRANSPOSE
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
