"""Random programs that only move elements: joins, reshapes, gathers, transpositions, slices and the like, of one another.

Sizes are 0, 1 and a few more; ranks 0 to 3. Values are used again and again, in several joins and along several axes. Written
with the public functions, so that one program runs eagerly, on the reference backend and natively; `nested` puts several into
one function, whose compilation they share.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt

SIZES = [1, 1, 2, 3, 3, 4, 5]
MOST = 512  # elements of a value
FACTORS = (0, 1, 2, 3, 4, 5, 6)


class Maker:
    """Values of one program, and the ways to make another one of them."""

    def __init__(self, draw: random.Random, values: list[Any]) -> None:
        self.draw, self.values = draw, values

    def step(self) -> None:
        x = self.draw.choice(self.values[-4:] if self.draw.random() < 0.6 else self.values)
        ways: list[Callable[[Any, list[int]], Any]] = [self.stacked, self.stacked, self.reshaped, self.tiled]
        if len(x.shape):
            ways += [
                self.joined,
                self.joined,
                self.gathered,
                self.gathered,
                self.gathered_nd,
                self.part,
                self.strided,
                self.turned,
            ]
            ways += [self.padded, self.split, self.unstacked, self.rolled, self.transposed, self.repeated, self.picked]
        result = self.draw.choice(ways)(x, [int(n) for n in x.shape])
        for value in result if isinstance(result, list) else [result]:
            if math.prod(int(n) for n in value.shape) <= MOST and len(value.shape) <= 3:
                self.values.append(value)

    def alike(self, fits: Callable[[Any], bool]) -> list[Any]:
        choices = [v for v in self.values if fits(v)]
        return [self.draw.choice(choices) for _ in range(self.draw.choice([1, 2, 2, 3]))]

    def axis(self, shape: list[int]) -> int:
        return self.draw.randrange(-len(shape), len(shape))

    def stacked(self, x: Any, shape: list[int]) -> Any:
        parts = self.alike(lambda v: list(v.shape) == shape)
        parts.insert(self.draw.randrange(len(parts) + 1), x)
        return gt.stack(parts, axis=self.draw.randrange(-len(shape) - 1, len(shape) + 1))

    def joined(self, x: Any, shape: list[int]) -> Any:
        axis = self.axis(shape) % len(shape)
        rest = [n for k, n in enumerate(shape) if k != axis]
        parts = self.alike(lambda v: len(v.shape) == len(shape) and [n for k, n in enumerate(v.shape) if k != axis] == rest)
        parts.insert(self.draw.randrange(len(parts) + 1), x)
        return gt.concat(parts, axis=axis)

    def reshaped(self, x: Any, shape: list[int]) -> Any:
        count = math.prod(shape)
        ways = [[count], [1, count], [count, 1], [*shape, 1], [1, *shape], [n for n in shape if n != 1], shape[::-1]]
        ways += [[n, count // n] for n in FACTORS if n and count % n == 0]
        ways += [[n, m, count // n // m] for n in FACTORS for m in FACTORS if n and m and count % (n * m) == 0]
        ways += (
            [[0, self.draw.choice(FACTORS)], [self.draw.choice(FACTORS), 0]]
            if not count
            else [[count // shape[0], -1]]
            if shape
            else []
        )
        return gt.reshape(x, self.draw.choice(ways))

    def tiled(self, x: Any, shape: list[int]) -> Any:
        if not shape or self.draw.random() < 0.4:
            return gt.broadcast_to(x, [self.draw.choice([1, 2, 3]), *shape])
        return gt.tile(x, [self.draw.choice([0, 1, 1, 2, 3]) for _ in shape])

    def gathered(self, x: Any, shape: list[int]) -> Any:
        axis = self.axis(shape)
        places = np.array(
            [self.draw.randrange(shape[axis]) for _ in range(self.draw.choice([0, 1, 2, 3, 4]))] if shape[axis] else [],
            np.int32,
        )
        if places.size == 4 and self.draw.random() < 0.5:
            places = places.reshape(2, 2)
        return gt.gather(x, places, axis=axis)

    def gathered_nd(self, x: Any, shape: list[int]) -> Any:
        if not all(shape):
            return gt.identity(x)
        depth = self.draw.randint(1, len(shape))
        return gt.gather_nd(x, [[self.draw.randrange(n) for n in shape[:depth]] for _ in range(self.draw.choice([1, 2, 3]))])

    def part(self, x: Any, shape: list[int]) -> Any:
        begin = [self.draw.randint(0, n) for n in shape]
        return gt.slice(x, begin, [self.draw.randint(0, n - b) for n, b in zip(shape, begin, strict=True)])

    def strided(self, x: Any, shape: list[int]) -> Any:
        return x[tuple([slice(None, None, self.draw.choice([1, 1, 2, -1, -2])) for _ in shape])]

    def picked(self, x: Any, shape: list[int]) -> Any:
        axis = self.draw.randrange(len(shape))
        if not shape[axis]:
            return x[(slice(None),) * axis + (None,)]
        return x[(slice(None),) * axis + (self.draw.randrange(-shape[axis], shape[axis]),)]

    def turned(self, x: Any, shape: list[int]) -> Any:
        return gt.reverse(x, [self.axis(shape)])

    def rolled(self, x: Any, shape: list[int]) -> Any:
        return gt.roll(x, self.draw.randint(-3, 3), self.axis(shape))

    def repeated(self, x: Any, shape: list[int]) -> Any:
        return gt.repeat(x, self.draw.choice([1, 2, 3]), axis=self.axis(shape))

    def padded(self, x: Any, shape: list[int]) -> Any:
        return gt.pad(x, [[self.draw.choice([0, 0, 1, 2]), self.draw.choice([0, 0, 1])] for _ in shape])

    def split(self, x: Any, shape: list[int]) -> Any:
        axis = self.axis(shape)
        cut = self.draw.randint(0, shape[axis])
        return list(gt.split(x, [cut, shape[axis] - cut], axis=axis))

    def unstacked(self, x: Any, shape: list[int]) -> Any:
        axis = self.axis(shape)
        return list(gt.unstack(x, axis=axis)) or gt.identity(x)

    def transposed(self, x: Any, shape: list[int]) -> Any:
        perm = list(range(len(shape)))
        self.draw.shuffle(perm)
        return gt.transpose(x, perm)


def nested(seed: int, programs: int = 8) -> tuple[Callable[..., list[Any]], list[Any]]:
    """A function of several random programs, each with its own result, and arguments for it.

    All draws are made by the seed again whenever it runs: each run is the same program.
    """
    numbers = np.random.default_rng(seed)
    draw = random.Random(seed)
    shapes = []
    for _ in range(3):
        rank = draw.choice([0, 1, 1, 1, 2, 2, 3])
        shapes.append(tuple(0 if draw.random() < 0.05 else draw.choice(SIZES) for _ in range(rank)))
    arguments = [np.asarray(numbers.normal(size=shape)) for shape in shapes]
    state = draw.getrandbits(64)

    def run(*tensors: Any) -> list[Any]:
        again = random.Random(state)
        results = []
        for _ in range(programs):
            maker = Maker(again, list(tensors))
            for _ in range(again.randint(3, 9)):
                maker.step()
            scale = 1.5 if again.random() < 0.5 else maker.values[0] * 0.5
            last = maker.values[-1]
            joined = last * last if again.random() < 0.5 else last
            results.append(joined * scale if isinstance(scale, float) or not scale.shape else joined)
        return results

    return run, arguments
