"""Programs of the kinds that public suites of numerical Python collect, each as a user writes it in NumPy's style.

Loops with in-place updates, slices that grow, boolean masks, recursive filters; the gradient is of a sum of squares. JAX's
versions (`peers/jax_suites.py`) are written as its users would: whole arrays where there is a formula, `scan` and
`fori_loop` elsewhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Inputs, generator
from benchmarks.workloads.compiled.making import compiled, normal

ROWS, COLUMNS = 260, 200  # of the data of a covariance
POINTS, RINGS = 40_000, 100  # of an image, and of rings around its middle
FIELD, LEVELS = 48, 40  # sides and levels of a field that diffuses
WAVES, WAVE_STEPS = 60, 20  # cells of an electromagnetic field, and steps
LINES, SAMPLES = 64, 256  # of signals that are filtered
MATRIX = 64  # rows of a matrix that is factored
GOALS = (("jax_jit", 0.8),)


# -- covariance: rows of a symmetric matrix, each a product with what is left of the data


def covariance_inputs() -> Inputs:
    return {"d": normal(generator("covariance"), ROWS, COLUMNS)}


def covariance_value(d: Any) -> Any:
    d = d - d.mean(axis=0)
    cov = np.zeros((COLUMNS, COLUMNS))
    for i in range(COLUMNS):
        cov[i, i:] = cov[i:, i] = d[:, i] @ d[:, i:] / (ROWS - 1)
    return np.sum(cov * cov)


def covariance(gt: Any, d: Any) -> Any:
    d = d - gt.reduce_mean(d, 0)
    cov = gt.zeros((COLUMNS, COLUMNS))
    for i in range(COLUMNS):
        row = d[:, i] @ d[:, i:] / (ROWS - 1)
        cov[i:, i] = row
        cov[i, i:] = row
    return gt.reduce_sum(cov * cov)


# -- azimuthal means: of the points whose radius lies in a ring


def rings_inputs() -> Inputs:
    rng = generator("rings")
    return {"d": normal(rng, POINTS), "r": rng.random(POINTS).astype(np.float32)}


def rings_value(d: Any, r: Any) -> Any:
    most = r.max()
    means = np.zeros(RINGS)
    for i in range(RINGS):
        means[i] = d[(r >= most * i / RINGS) & (r < most * (i + 1) / RINGS)].mean()
    return np.sum(means * means)


def rings(gt: Any, d: Any, r: Any) -> Any:
    most = gt.reduce_max(r)
    means = gt.zeros((RINGS,))
    for i in range(RINGS):
        means[i] = gt.reduce_mean(d[(r >= most * i / RINGS) & (r < most * (i + 1) / RINGS)])
    return gt.reduce_sum(means * means)


# -- horizontal diffusion: a Laplacian, limited fluxes in both directions


def diffusion_inputs() -> Inputs:
    rng = generator("diffusion")
    return {"a": normal(rng, FIELD + 4, FIELD + 4, LEVELS), "c": normal(rng, FIELD, FIELD, LEVELS)}


def diffused(where: Any, a: Any, c: Any) -> Any:
    lap = 4.0 * a[1:-1, 1:-1] - (a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2])
    flow = lap[1:, 1:-1] - lap[:-1, 1:-1]
    x = where(flow * (a[2:-1, 2:-2] - a[1:-2, 2:-2]) > 0, 0.0 * flow, flow)
    flow = lap[1:-1, 1:] - lap[1:-1, :-1]
    y = where(flow * (a[2:-2, 2:-1] - a[2:-2, 1:-2]) > 0, 0.0 * flow, flow)
    return a[2:-2, 2:-2] - c * (x[1:] - x[:-1] + y[:, 1:] - y[:, :-1])


def diffusion_value(a: Any, c: Any) -> Any:
    return np.sum(diffused(np.where, a, c) ** 2)


def diffusion(gt: Any, a: Any, c: Any) -> Any:
    return gt.reduce_sum(diffused(gt.where, a, c) ** 2)


# -- finite differences in the time domain: three fields that change one another in place


def waves_inputs() -> Inputs:
    rng = generator("waves")
    return {name: normal(rng, WAVES, WAVES) for name in ("ex", "ey", "hz")}


def waves_value(ex: Any, ey: Any, hz: Any) -> Any:
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for t in range(WAVE_STEPS):
        ey[0, :] = t / WAVE_STEPS
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return np.sum(hz * hz)


def waves(gt: Any, ex: Any, ey: Any, hz: Any) -> Any:
    ex, ey, hz = gt.identity(ex), gt.identity(ey), gt.identity(hz)
    for t in range(WAVE_STEPS):
        ey[0, :] = t / WAVE_STEPS
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return gt.reduce_sum(hz * hz)


# -- a recursive filter along the columns of an image, as Deriche's: each column from the two before it


def filter_inputs() -> Inputs:
    return {"x": normal(generator("recursive"), LINES, SAMPLES)}


def filter_value(x: Any) -> Any:
    y = np.zeros_like(x)
    y[:, 0] = x[:, 0]
    y[:, 1] = x[:, 1] + 0.8 * y[:, 0]
    for j in range(2, SAMPLES):
        y[:, j] = 0.3 * x[:, j] - 0.1 * x[:, j - 1] + 1.2 * y[:, j - 1] - 0.4 * y[:, j - 2]
    return np.sum(y * y)


def filtered(gt: Any, x: Any) -> Any:
    y = gt.zeros_like(x)
    y[:, 0] = x[:, 0]
    y[:, 1] = x[:, 1] + 0.8 * y[:, 0]
    for j in range(2, SAMPLES):
        y[:, j] = 0.3 * x[:, j] - 0.1 * x[:, j - 1] + 1.2 * y[:, j - 1] - 0.4 * y[:, j - 2]
    return gt.reduce_sum(y * y)


# -- Cholesky's factor, row by row


def cholesky_inputs() -> Inputs:
    a = normal(generator("cholesky"), MATRIX, MATRIX)
    return {"a": (a @ a.T / MATRIX + 2.0 * np.eye(MATRIX)).astype(np.float32)}


def cholesky_value(a: Any) -> Any:
    a = a.copy()
    for i in range(MATRIX):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ a[j, :j]) / a[j, j]
        a[i, i] = np.sqrt(a[i, i] - a[i, :i] @ a[i, :i])
    return np.sum(np.tril(a) ** 2 * np.arange(1.0, MATRIX + 1.0))


def cholesky(gt: Any, a: Any) -> Any:
    a = gt.identity(a)
    for i in gt.range(MATRIX):
        for j in gt.range(i):
            a[i, j] = (a[i, j] - gt.reduce_sum(a[i, :j] * a[j, :j])) / a[j, j]
        a[i, i] = gt.sqrt(a[i, i] - gt.reduce_sum(a[i, :i] * a[i, :i]))
    return gt.reduce_sum(gt.linalg.band_part(a, -1, 0) ** 2 * gt.range(1.0, MATRIX + 1.0))


WORKLOADS = (
    compiled("covariance", "covariance, a row at a time", covariance_inputs, covariance_value, covariance, ("d",), GOALS),
    compiled("rings", "means under 100 masks", rings_inputs, rings_value, rings, ("d",), GOALS),
    compiled("diffusion", "horizontal diffusion", diffusion_inputs, diffusion_value, diffusion, ("a", "c"), GOALS),
    compiled("waves", "electromagnetic field (FDTD), 20 steps", waves_inputs, waves_value, waves, ("ex", "ey", "hz"), GOALS),
    compiled("recursive", "recursive filter, 64 × 256", filter_inputs, filter_value, filtered, ("x",), GOALS),
    compiled("cholesky", "Cholesky as a loop, 64 × 64", cholesky_inputs, cholesky_value, cholesky, ("a",), GOALS),
)
