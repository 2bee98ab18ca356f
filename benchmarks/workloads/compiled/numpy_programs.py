"""More programs of the kinds that public suites collect: NumPy's functions on whole arrays, and loops that write in place.

Where nothing is written, gradtape gets the very function that NumPy computes the value with. JAX's versions
(`peers/jax_numpy_programs.py`) share it, or are whole arrays and `scan` where a user of JAX would write them.
"""

from __future__ import annotations

import cmath
from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

CHAIN = (120, 140, 160, 180, 200)  # sides of four matrices
POINTS, CENTRES, COORDINATES = 2_000, 20, 8
ROWS, FILLED = 1_000, 10  # of a sparse matrix, and entries of a row on average
MATRIX = 64  # rows of a matrix that is factored
SIDE, LEVELS = 24, 40  # of the columns of an atmosphere
TRIANGLE = 96
POWERS, ORDER, INTEGRAND, RIGHT = 3, 40, 12, 20  # of a polynomial of matrices, points of its contour, right-hand sides
CAMERAS, SEEN, SIGHTS = 20, 400, 2_000  # cameras, points in space, and how often one sees another
BONES, SKIN = 20, 400  # of a hand, points of its skin
GOALS = (("jax_jit", 0.8),)


def same(function: Any, module: Any = np) -> Any:
    """The objective of gradtape that is NumPy's own function."""
    return lambda gt, **inputs: function(**inputs, np=module)


# -- softmax of attention's scores


def softmax_inputs() -> Inputs:
    return {"x": normal(generator("softmax"), 16, 8, 64, 64)}


def softmax(x: Any, np: Any = np) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return np.sum((e / np.sum(e, axis=-1, keepdims=True)) ** 2)


# -- a chain of matrix products


def chain_inputs() -> Inputs:
    rng = generator("chain")
    i, j, k, m, n = CHAIN
    shapes = {"a": (i, k), "b": (k, j), "c": (j, m), "d": (m, n)}
    return {name: normal(rng, *shape, scale=shape[0] ** -0.5) for name, shape in shapes.items()}


def chain(a: Any, b: Any, c: Any, d: Any, np: Any = np) -> Any:
    return np.sum(((a @ b) @ (c @ d)) ** 2)


# -- k-means: squared distances to the nearest centre


def kmeans_inputs() -> Inputs:
    rng = generator("kmeans")
    return {"centres": normal(rng, CENTRES, COORDINATES), "points": normal(rng, POINTS, COORDINATES)}


def kmeans(centres: Any, points: Any, np: Any = np) -> Any:
    return np.sum(np.min(np.sum((points[:, None, :] - centres[None, :, :]) ** 2, axis=2), axis=1))


# -- a sparse matrix times a vector, row by row


def spmv_inputs() -> Inputs:
    rng = generator("spmv")
    ends = np.concatenate([[0], np.cumsum(rng.integers(1, 2 * FILLED, ROWS))])
    places = rng.integers(0, ROWS, ends[-1])
    return {"data": normal(rng, int(ends[-1])), "x": normal(rng, ROWS), "ends": ends, "places": places}


def spmv_value(data: Any, x: Any, ends: Any, places: Any) -> Any:
    y = np.zeros(ROWS)
    for i in range(ROWS):
        row = slice(ends[i], ends[i + 1])
        y[i] = data[row] @ x[places[row]]
    return np.sum(y * y)


def spmv(gt: Any, data: Any, x: Any, ends: Any, places: Any) -> Any:
    y = gt.zeros((ROWS,))
    for i in gt.range(ROWS):
        row = slice(ends[i], ends[i + 1])
        y[i] = gt.reduce_sum(data[row] * gt.gather(x, places[row]))
    return gt.reduce_sum(y * y)


# -- L and U in place, element by element


def lu_inputs() -> Inputs:
    a = normal(generator("lu"), MATRIX, MATRIX)
    return {"a": (a / MATRIX**0.5 + 3.0 * np.eye(MATRIX)).astype(np.float32)}


def lu_value(a: Any) -> Any:
    a = a.copy()
    for i in range(MATRIX):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[:j, j]) / a[j, j]
        for j in range(i, MATRIX):
            a[i, j] -= a[i, :i] @ a[:i, j]
    return np.sum(a * a)


def lu(gt: Any, a: Any) -> Any:
    a = gt.identity(a)
    for i in gt.range(MATRIX):
        for j in gt.range(i):
            a[i, j] = (a[i, j] - gt.reduce_sum(a[i, :j] * a[:j, j])) / a[j, j]
        for j in gt.range(i, MATRIX):
            a[i, j] -= gt.reduce_sum(a[i, :i] * a[:i, j])
    return gt.reduce_sum(a * a)


# -- vertical advection: a tridiagonal system for every column of air


def advection_inputs() -> Inputs:
    rng = generator("advection")
    return {"u": normal(rng, LEVELS, SIDE, SIDE), "w": normal(rng, LEVELS + 1, SIDE, SIDE, scale=0.1)}


def advection(space: Any, u: Any, w: Any) -> Any:
    c, d = space.zeros_like(u), space.zeros_like(u)
    c[0] = w[1] / (1.0 - w[1])
    d[0] = (u[0] - w[1] * (u[1] - u[0])) / (1.0 - w[1])
    for k in range(1, LEVELS - 1):
        below, above = -w[k], w[k + 1]
        pivot = 1.0 / (1.0 - below - above - below * c[k - 1])
        c[k] = above * pivot
        d[k] = (u[k] - below * (u[k - 1] - u[k]) - above * (u[k + 1] - u[k]) - below * d[k - 1]) * pivot
    out = space.zeros_like(u)
    out[LEVELS - 1] = u[LEVELS - 1]
    for k in range(LEVELS - 2, -1, -1):
        out[k] = d[k] - c[k] * out[k + 1]
    return (out * out).sum()


def advection_value(u: Any, w: Any) -> Any:
    return advection(np, u, w)


# -- a triangular matrix times another, in place


def product_inputs() -> Inputs:
    rng = generator("product_in_place")
    return {name: normal(rng, TRIANGLE, TRIANGLE, scale=0.1) for name in "ab"}


def product_value(a: Any, b: Any) -> Any:
    b = b.copy()
    for i in range(TRIANGLE - 1):
        b[i] += a[i + 1 :, i] @ b[i + 1 :]
    return np.sum(b * b)


def product_in_place(gt: Any, a: Any, b: Any) -> Any:
    b = gt.identity(b)
    for i in range(TRIANGLE - 1):
        b[i] += a[i + 1 :, i] @ b[i + 1 :]
    return gt.reduce_sum(b * b)


# -- a contour integral: solutions of a polynomial of matrices at points of a circle


def contour_inputs() -> Inputs:
    rng = generator("contour")
    return {"h": normal(rng, POWERS, ORDER, ORDER, scale=ORDER**-0.5), "y": normal(rng, ORDER, RIGHT)}


def contour(h: Any, y: Any, np: Any = np) -> Any:
    total = 0.0
    for n in range(INTEGRAND):
        z = 3.0 * cmath.exp(2j * cmath.pi * n / INTEGRAND)
        t = h[0] + z * h[1] + z * z * h[2]
        total = total + z * np.linalg.solve(t, y + 0j)
    return np.sum(np.real(total) ** 2 + np.imag(total) ** 2)


# -- bundle adjustment: where cameras should see points, and where they do


def bundle_inputs() -> Inputs:
    rng = generator("bundle")
    cameras = normal(rng, CAMERAS, 11, scale=0.1)
    cameras[:, 5] += 5.0  # in front of everything
    cameras[:, 6] += 1.0
    return {
        "cameras": cameras, "points": normal(rng, SEEN, 3), "weights": normal(rng, SIGHTS),
        "seen": normal(rng, SIGHTS, 2), "by": rng.integers(0, CAMERAS, SIGHTS), "what": rng.integers(0, SEEN, SIGHTS),
    }  # fmt: skip


def bundle(cameras: Any, points: Any, weights: Any, seen: Any, by: Any, what: Any, np: Any = np) -> Any:
    camera, x = np.take(cameras, by, axis=0), np.take(points, what, axis=0)
    turn, place, focus, radial = camera[:, :3], camera[:, 3:6], camera[:, 6:7], camera[:, 9:11]
    angle = np.sqrt(np.sum(turn * turn, axis=1, keepdims=True))
    axis = turn / angle
    cross = np.stack(
        [
            axis[:, 1] * x[:, 2] - axis[:, 2] * x[:, 1],
            axis[:, 2] * x[:, 0] - axis[:, 0] * x[:, 2],
            axis[:, 0] * x[:, 1] - axis[:, 1] * x[:, 0],
        ],
        axis=1,
    )
    along = np.sum(axis * x, axis=1, keepdims=True)
    there = x * np.cos(angle) + cross * np.sin(angle) + axis * along * (1.0 - np.cos(angle)) + place
    flat = there[:, :2] / there[:, 2:3]
    square = np.sum(flat * flat, axis=1, keepdims=True)
    image = focus * flat * (1.0 + radial[:, :1] * square + radial[:, 1:] * square * square) + camera[:, 7:9]
    return np.sum((weights[:, None] * (image - seen)) ** 2) + np.sum((1.0 - weights * weights) ** 2)


# -- hand tracking: bones that turn one another, and skin that follows several of them


def hand_inputs() -> Inputs:
    rng = generator("hand")
    shares = np.abs(normal(rng, SKIN, BONES))
    return {
        "pose": normal(rng, BONES, 3, scale=0.3), "bones": normal(rng, BONES, 3), "skin": normal(rng, SKIN, 3),
        "shares": shares / shares.sum(1, keepdims=True), "seen": normal(rng, SKIN, 3),
    }  # fmt: skip


def turned(pose: Any, np: Any) -> Any:
    """Rotations about x, y and z, one after the other, for all bones: [bones, 3, 3]."""
    (a, b, c), (sa, sb, sc) = np.cos(pose).T, np.sin(pose).T
    rows = [
        [b * c, sa * sb * c - a * sc, a * sb * c + sa * sc],
        [b * sc, sa * sb * sc + a * c, a * sb * sc - sa * c],
        [-sb, sa * b, a * b],
    ]
    return np.stack([np.stack(row, axis=1) for row in rows], axis=1)


def hand(pose: Any, bones: Any, skin: Any, shares: Any, seen: Any, np: Any = np) -> Any:
    turns = turned(pose, np)
    turn, place = turns[0], bones[0]
    followed = shares[:, 0:1] * (skin @ turn.T + place)
    for i in range(1, BONES):  # five fingers of four bones: the first of each begins at the wrist
        if i % 4 == 0:
            turn, place = turns[0], bones[0]
        place = place + turn @ bones[i]
        turn = turn @ turns[i]
        followed = followed + shares[:, i : i + 1] * (skin @ turn.T + place)
    return np.sum((followed - seen) ** 2)


WORKLOADS = (
    compiled("softmax", "softmax of 16 × 8 × 64 × 64", softmax_inputs, softmax, same(softmax), ("x",), GOALS),
    compiled("chain", "chain of four matrices", chain_inputs, chain, same(chain), ("a", "b", "c", "d"), GOALS),
    compiled("kmeans", "k-means, 2,000 points, 20 centres", kmeans_inputs, kmeans, same(kmeans), ("centres",), GOALS),
    compiled("spmv", "sparse matrix times vector, row by row", spmv_inputs, spmv_value, spmv, ("data", "x"), GOALS),
    compiled("lu", "LU as loops, 64 × 64", lu_inputs, lu_value, lu, ("a",), GOALS),
    compiled("advection", "vertical advection, 24 × 24 × 40", advection_inputs, advection_value, advection, ("u", "w"), GOALS),
    compiled("product_in_place", "triangular product as a loop, 96 × 96", product_inputs, product_value, product_in_place,
             ("a", "b"), GOALS),
    compiled("contour", "contour integral, 12 solutions of 40 × 40", contour_inputs, contour, same(contour), ("h",), GOALS),
    compiled("bundle", "bundle adjustment, 2,000 sights", bundle_inputs, bundle, same(bundle),
             ("cameras", "points", "weights"), GOALS),
    compiled("hand", "hand tracking, 20 bones, 400 points", hand_inputs, hand, same(hand), ("pose",), GOALS),
)  # fmt: skip
