"""JAX's versions of the workloads with loops: `scan` and `fori_loop`, bounded and masked where reverse mode needs a bound."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.compiled import lstm_tiny, nbody, nested_ad, newton
from benchmarks.workloads.compiled.stencils import five_points, heated


def scalar_loop(x: Any, y: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.lax.fori_loop(0, steps, lambda _, y: jnp.sin(y) * x + y * 0.5, y)


def nested_loops(a: Any, b: Any, c: Any, turns: int) -> Any:
    import jax
    import jax.numpy as jnp

    drive = jnp.arange(turns, dtype=jnp.float32) * 0.02 - 1.0

    def inner(state: Any, d: Any) -> Any:
        s, total = state
        u = a * s + c * d
        s = jnp.where(u > 0, jnp.sin(u), b * u)  # for scalars, a select is faster here than `cond`
        return (s, total + s * s), None

    def outer(state: Any, _: Any) -> Any:
        return jax.lax.scan(inner, state, drive)

    (_, total), _ = jax.lax.scan(outer, (jnp.float32(0.5), jnp.float32(0.0)), None, length=turns)
    return total / turns**2


def newton_roots(a: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def turn(state: Any, _: Any) -> Any:
        x, delta = state
        e = jnp.exp(x)
        step = (x * e - a) / (e * (x + 1.0))
        on = jnp.abs(delta) > newton.SMALL
        return (jnp.where(on, x - step, x), jnp.where(on, step, delta)), None

    # reverse mode does not go through `while_loop`: as many turns as any problem may take, finished ones masked
    (x, _), _ = jax.lax.scan(turn, (jnp.ones_like(a), jnp.ones_like(a)), None, length=newton.MOST)
    return jnp.sum(x * x)


def lstm_tiny_loss(w: Any, u: Any, b: Any, xs: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def cell(state: Any, row: Any) -> Any:
        h, c, total = state
        i, f, g, o = jnp.split(row + h @ u, 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c, total + jnp.sum(h * h)), None

    zero = jnp.zeros(lstm_tiny.HIDDEN)
    (_, _, total), _ = jax.lax.scan(cell, (zero, zero, jnp.float32(0.0)), xs @ w + b)
    return total / lstm_tiny.STEPS


def jacobi(a: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    def sweeps(a: Any, _: Any) -> Any:
        b = a.at[1:-1, 1:-1].set(five_points(a))
        return a.at[1:-1, 1:-1].set(five_points(b)), None

    a, _ = jax.lax.scan(sweeps, a, None, length=steps)
    return jnp.sum(a * a)


def heat(a: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    def sweeps(a: Any, _: Any) -> Any:
        b = a.at[1:-1, 1:-1, 1:-1].set(heated(a))
        return a.at[1:-1, 1:-1, 1:-1].set(heated(b)), None

    a, _ = jax.lax.scan(sweeps, a, None, length=steps)
    return jnp.sum(a * a)


def seidel(a: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    def sweep(a: Any, _: Any) -> Any:
        def row(above: Any, rows: Any) -> Any:
            own, below = rows
            rest = above[:-2] + above[1:-1] + above[2:] + own[1:-1] + own[2:] + below[:-2] + below[1:-1] + below[2:]

            def element(left: Any, other: Any) -> Any:
                new = (left + other) * (1.0 / 9.0)
                return new, new

            _, new = jax.lax.scan(element, own[0], rest)
            new = jnp.concatenate((own[:1], new, own[-1:]))
            return new, new

        _, inside = jax.lax.scan(row, a[0], (a[1:-1], a[2:]))
        return jnp.concatenate((a[:1], inside, a[-1:])), None

    a, _ = jax.lax.scan(sweep, a, None, length=steps)
    return jnp.sum(a * a)


def triangular(m: Any, b: Any) -> Any:
    import jax
    import jax.numpy as jnp

    n = b.shape[0]

    def row(x: Any, given: Any) -> Any:
        i, own, target = given
        # elements not computed yet are zero, so the whole row may be multiplied
        return x.at[i].set((target - own @ x) / own[i]), None

    x, _ = jax.lax.scan(row, jnp.zeros(n), (jnp.arange(n), m, b))
    return jnp.sum(x * x)


def durbin(r: Any) -> Any:
    import jax
    import jax.numpy as jnp

    n = r.shape[0]
    # y[:k] backwards is a window of the whole vector backwards, with as many zeros before it
    backwards = r[::-1]
    zeros = jnp.zeros(n)

    def turn(state: Any, given: Any) -> Any:
        y, alpha, beta = state
        k, own = given
        beta = (1.0 - alpha * alpha) * beta
        window = jax.lax.dynamic_slice(jnp.concatenate((backwards, zeros)), (n - k,), (n,))
        alpha = -(own + window @ y) / beta
        turned = jax.lax.dynamic_slice(jnp.concatenate((y[::-1], zeros)), (n - k,), (n,))
        return ((y + alpha * turned).at[k].set(alpha), alpha, beta), None

    start = (zeros.at[0].set(-r[0]), -r[0], jnp.float32(1.0))
    (y, _, _), _ = jax.lax.scan(turn, start, (jnp.arange(1, n), r[1:]))
    return jnp.sum(y * y)


def nbody_size(p: Any, v: Any, mass: Any, steps: int) -> Any:
    import jax
    import jax.numpy as jnp

    def turn(state: Any, _: Any) -> Any:
        p, v = state
        d = p[None, :, :] - p[:, None, :]
        s = jnp.sum(d * d, axis=2) + nbody.SOFTENING
        v = v + nbody.STEP * jnp.sum(d * (mass / (s * jnp.sqrt(s)))[:, :, None], axis=1)
        return (p + nbody.STEP * v, v), None

    (p, _), _ = jax.lax.scan(turn, (p, v), None, length=steps)
    return jnp.sum(p * p)


def nested_derivative(p: Any, w: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def inner(x: Any) -> Any:
        r = x @ w - p
        return jnp.sum(r + jax.nn.softplus(-2.0 * r)) + 0.5 * jnp.sum(x * x)

    def turn(x: Any, _: Any) -> Any:
        g = jax.grad(inner)(x)
        return jnp.where(jnp.sum(g * g) > nested_ad.SMALL**2, x - nested_ad.RATE * g, x), None

    x, _ = jax.lax.scan(turn, jnp.zeros(nested_ad.UNKNOWNS), None, length=nested_ad.MOST)
    return jnp.sum(x * x)


# workload → (objective, by what it is differentiated)
OBJECTIVES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "scalar_loop": (scalar_loop, ("x", "y")),
    "nested_loops": (nested_loops, ("a", "b", "c")),
    "newton": (newton_roots, ("a",)),
    "lstm_tiny": (lstm_tiny_loss, ("w", "u", "b")),
    "jacobi": (jacobi, ("a",)),
    "heat": (heat, ("a",)),
    "seidel": (seidel, ("a",)),
    "triangular": (triangular, ("m", "b")),
    "durbin": (durbin, ("r",)),
    "nbody": (nbody_size, ("p",)),
    "nested_ad": (nested_derivative, ("p",)),
}
