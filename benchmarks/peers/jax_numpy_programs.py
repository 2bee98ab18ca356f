"""JAX's versions of `workloads/compiled/numpy_programs.py`: the same functions on its arrays; `scan`, `fori_loop` for loops."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.compiled import numpy_programs as programs


def _same(function: Any) -> Any:
    def objective(**inputs: Any) -> Any:
        import jax.numpy as jnp

        return function(**inputs, np=jnp)

    return objective


def spmv(data: Any, x: Any, ends: Any, places: Any) -> Any:
    import jax
    import jax.numpy as jnp

    rows = jnp.repeat(jnp.arange(programs.ROWS), ends[1:] - ends[:-1], total_repeat_length=data.shape[0])
    y = jax.ops.segment_sum(data * x[places], rows, programs.ROWS, indices_are_sorted=True)
    return jnp.sum(y * y)


def lu(a: Any) -> Any:
    import jax
    import jax.numpy as jnp

    places = jnp.arange(programs.MATRIX)

    # column by column: what is left of the matrix changes at once
    def eliminated(k: Any, a: Any) -> Any:
        below = jnp.where(places > k, a[:, k] / a[k, k], 0.0)
        right = jnp.where(places > k, a[k], 0.0)
        a = a - below[:, None] * right[None, :]
        return a.at[:, k].set(jnp.where(places > k, below, a[:, k]))

    a = jax.lax.fori_loop(0, programs.MATRIX, eliminated, a)
    return jnp.sum(a * a)


def advection(u: Any, w: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def down(state: Any, level: Any) -> Any:
        c, d = state
        before, here, after, at, above = level
        below = -at
        pivot = 1.0 / (1.0 - below - above - below * c)
        new = (above * pivot, (here - below * (before - here) - above * (after - here) - below * d) * pivot)
        return new, new

    def up(after: Any, level: Any) -> Any:
        out = level[1] - level[0] * after
        return out, out

    n = programs.LEVELS
    first = (w[1] / (1.0 - w[1]), (u[0] - w[1] * (u[1] - u[0])) / (1.0 - w[1]))
    _, (c, d) = jax.lax.scan(down, first, (u[: n - 2], u[1 : n - 1], u[2:], w[1 : n - 1], w[2:n]))
    last, out = jax.lax.scan(up, u[n - 1], (c, d), reverse=True)
    top = first[1] - first[0] * last
    return jnp.sum(out * out) + jnp.sum(top * top) + jnp.sum(u[n - 1] ** 2)


def product_in_place(a: Any, b: Any) -> Any:
    import jax.numpy as jnp

    b = b + jnp.tril(a, -1).T @ b
    return jnp.sum(b * b)


# workload → (objective, by what it is differentiated)
OBJECTIVES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "softmax": (_same(programs.softmax), ("x",)),
    "chain": (_same(programs.chain), ("a", "b", "c", "d")),
    "kmeans": (_same(programs.kmeans), ("centres",)),
    "spmv": (spmv, ("data", "x")),
    "lu": (lu, ("a",)),
    "advection": (advection, ("u", "w")),
    "product_in_place": (product_in_place, ("a", "b")),
    "contour": (_same(programs.contour), ("h",)),
    "bundle": (_same(programs.bundle), ("cameras", "points", "weights")),
    "hand": (_same(programs.hand), ("pose",)),
}
