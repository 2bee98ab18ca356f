"""The programs of `benchmarks/loop_programs.py` in JAX: loops as `lax.scan`, growing slices as masks of one length."""

from __future__ import annotations

import random
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def scalar_loop(n: int, x: Any) -> Any:
    return lax.scan(lambda x, _: (x * 0.999 + 0.001 * jnp.sin(x), None), x, None, length=n)[0]


def nested_with_a_branch(n: int, x: Any) -> Any:
    def inner(i: Any, s: Any, j: Any) -> Any:
        return lax.cond((i + j) % 2 == 0, lambda s: s + x * 0.5, lambda s: s - x * x * 0.25, s), None

    return lax.scan(lambda s, i: (lax.scan(partial(inner, i), s, jnp.arange(n))[0], None), x * 0.0, jnp.arange(n))[0]


def lstm(n: int, x: Any) -> Any:
    w, u = jnp.full((32, 4), 0.1) * x, jnp.full((32, 8), 0.05)

    def step(state: Any, row: Any) -> Any:
        h, c = state
        i, f, o, g = jnp.split(w @ row + u @ h, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return jnp.sum(lax.scan(step, (jnp.zeros(8), jnp.zeros(8)), jnp.ones((n, 4)))[1])


def gauss_seidel(n: int, x: Any) -> Any:
    inside = jnp.arange(1, n - 1)

    def point(i: Any, a: Any, j: Any) -> Any:
        return a.at[i, j].set((a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5.0), None

    def sweep(a: Any, _: Any) -> Any:
        return lax.scan(lambda a, i: (lax.scan(partial(point, i), a, inside)[0], None), a, inside)[0], None

    return jnp.sum(lax.scan(sweep, jnp.full((n, n), 1.0) * x, None, length=n)[0])


def triangular_solve(n: int, x: Any) -> Any:
    left = jnp.full((n, n), 0.1) + jnp.eye(n) * x

    def step(y: Any, i: Any) -> Any:
        known = jnp.where(jnp.arange(n) < i, left[i] * y, 0.0)
        return y.at[i].set((1.0 - jnp.sum(known)) / left[i, i]), None

    return jnp.sum(lax.scan(step, jnp.zeros(n), jnp.arange(n))[0])


def durbin(n: int, x: Any) -> Any:
    r = jnp.full(n, 0.01) * x

    def step(state: Any, k: Any) -> Any:
        y, alpha, beta = state
        inside = jnp.arange(n) < k
        beta = beta * (1.0 - alpha * alpha)
        alpha = -(r[k] + jnp.sum(jnp.where(inside, jnp.roll(r[::-1], k) * y, 0.0))) / beta
        y = jnp.where(inside, y + alpha * jnp.roll(y[::-1], k), y)
        return (y.at[k].set(alpha), alpha, beta), None

    first = -r[0]
    return jnp.sum(lax.scan(step, (jnp.zeros(n).at[0].set(first), first, 1.0), jnp.arange(1, n))[0][0])


def functional_while(n: int, x: Any) -> Any:
    return lax.scan(lambda y, _: (y * 0.999, None), x, None, length=n)[0]


def python_while(n: int, x: Any) -> Any:
    return lax.scan(lambda y, _: (y * 0.999 + 0.5, None), x, None, length=n // 2)[0] * n


def covariance(n: int, x: Any) -> Any:
    d = jnp.full((5, n), 0.5) * x

    def step(c: Any, i: Any) -> Any:
        return c.at[i].set(jnp.where(jnp.arange(n) >= i, d.T @ d[:, i], 0.0)), None

    return jnp.sum(lax.scan(step, jnp.zeros((n, n)), jnp.arange(n))[0])


def stencil(n: int, x: Any) -> Any:
    def step(state: Any, _: Any) -> Any:
        a, b = state
        b = b.at[1:-1].set(0.33 * (a[:-2] + a[1:-1] + a[2:]))
        return (a.at[1:-1].set(0.33 * (b[:-2] + b[1:-1] + b[2:])), b), None

    a = jnp.full(12, 1.0) * x
    return jnp.sum(lax.scan(step, (a, a), None, length=n)[0][0])


def irregular(n: int, x: Any) -> Any:
    draw = random.Random(5)
    y = jnp.full(8, 0.3) * x
    for _ in range(n):
        y = jnp.sin(y) * draw.choice([0.5, 0.9]) if draw.random() < 0.5 else y * x + draw.random()
    return jnp.sum(y)


def triangular_gradient(n: int, x: Any) -> Any:
    matrix = jnp.full((n, n), 0.1 / n) + jnp.eye(n) * x
    return jnp.sum(jax.scipy.linalg.solve_triangular(matrix, jnp.ones((n, 1)), lower=True))


def straight_line(n: int, x: Any) -> Any:
    draw = random.Random(5)
    past = [jnp.full(8, 0.3) * x, jnp.full(8, 0.2) * x]
    count = 0
    while count < n:
        kind, y = draw.randrange(5), past[draw.randrange(len(past))]
        if kind == 0:
            y, count = jnp.sin(y) * 0.9, count + 2
        elif kind == 1:
            y, count = y * past[-1] + 0.1, count + 2
        elif kind == 2:
            y, count = jnp.tanh(y) - past[-2], count + 2
        elif kind == 3:
            y, count = y / (1.0 + y * y), count + 3
        else:
            y, count = jnp.exp(-y) + x, count + 3
        past = [*past[-5:], y]
    return jnp.sum(past[-1])


def gradient(name: str, n: int) -> Any:
    """A compiled function that gives value and gradient, waiting for them."""
    compiled = jax.jit(jax.value_and_grad(partial(globals()[name], n)))
    return lambda x: jax.block_until_ready(compiled(x))
