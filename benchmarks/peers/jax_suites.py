"""JAX's versions of the programs of public suites: whole arrays where there is a formula, `fori_loop` and `scan` elsewhere."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.compiled import suites


def covariance(d: Any) -> Any:
    import jax.numpy as jnp

    d = d - jnp.mean(d, 0)
    cov = d.T @ d / (suites.ROWS - 1)
    return jnp.sum(cov * cov)


def rings(d: Any, r: Any) -> Any:
    import jax
    import jax.numpy as jnp

    most, count = jnp.max(r), suites.RINGS

    def ring(_: Any, i: Any) -> Any:
        return None, jnp.mean(d, where=(r >= most * i / count) & (r < most * (i + 1) / count))

    _, means = jax.lax.scan(ring, None, jnp.arange(count))
    return jnp.sum(means * means)


def diffusion(a: Any, c: Any) -> Any:
    import jax.numpy as jnp

    return jnp.sum(suites.diffused(jnp.where, a, c) ** 2)


def waves(ex: Any, ey: Any, hz: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def step(state: Any, t: Any) -> Any:
        ex, ey, hz = state
        ey = ey.at[0, :].set(t / suites.WAVE_STEPS)
        ey = ey.at[1:, :].add(-0.5 * (hz[1:, :] - hz[:-1, :]))
        ex = ex.at[:, 1:].add(-0.5 * (hz[:, 1:] - hz[:, :-1]))
        hz = hz.at[:-1, :-1].add(-0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1]))
        return (ex, ey, hz), None

    (_, _, hz), _ = jax.lax.scan(step, (ex, ey, hz), jnp.arange(suites.WAVE_STEPS))
    return jnp.sum(hz * hz)


def recursive(x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    first = x[:, 0]
    second = x[:, 1] + 0.8 * first

    def column(state: Any, now: Any) -> Any:
        before, last = state
        x0, x1 = now
        y = 0.3 * x0 - 0.1 * x1 + 1.2 * last - 0.4 * before
        return (last, y), y

    _, rest = jax.lax.scan(column, (first, second), (x.T[2:], x.T[1:-1]))
    return jnp.sum(first * first) + jnp.sum(second * second) + jnp.sum(rest * rest)


def cholesky(a: Any) -> Any:
    import jax
    import jax.numpy as jnp

    n = suites.MATRIX
    columns = jnp.arange(n)

    # sizes are fixed here: what is not yet known is masked
    def row(i: Any, a: Any) -> Any:
        def entry(j: Any, a: Any) -> Any:
            known = jnp.where(columns < j, a[i] * a[j], 0.0)
            return jnp.where(j < i, a.at[i, j].set((a[i, j] - jnp.sum(known)) / a[j, j]), a)

        a = jax.lax.fori_loop(0, n, entry, a)
        return a.at[i, i].set(jnp.sqrt(a[i, i] - jnp.sum(jnp.where(columns < i, a[i] * a[i], 0.0))))

    return jnp.sum(jnp.tril(jax.lax.fori_loop(0, n, row, a)) ** 2 * jnp.arange(1.0, n + 1.0))


# workload → (objective, by what it is differentiated)
OBJECTIVES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "covariance": (covariance, ("d",)),
    "rings": (rings, ("d",)),
    "diffusion": (diffusion, ("a", "c")),
    "waves": (waves, ("ex", "ey", "hz")),
    "recursive": (recursive, ("x",)),
    "cholesky": (cholesky, ("a",)),
}
