"""JAX with `jit(value_and_grad(...))`, device arrays and `block_until_ready`; the loops are in `jax_loops.py`."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.peers.jax import set_threads as set_threads, to_numpy as to_numpy, version as version
from benchmarks.peers.jax_loops import OBJECTIVES as LOOPS
from benchmarks.peers.jax_numpy_programs import OBJECTIVES as PROGRAMS
from benchmarks.peers.jax_suites import OBJECTIVES as SUITES
from benchmarks.workload import Step
from benchmarks.workloads.compiled import attention, black_scholes, conv, gmm, least_squares, lstm, ode
from benchmarks.workloads.compiled.making import split
from benchmarks.workloads.mlp import PARAMETERS
from benchmarks.workloads.second_order import LENGTH


def _logsumexp(x: Any) -> Any:
    import jax

    return jax.nn.logsumexp(x)


def _least_squares(x: Any, a: Any, y: Any) -> Any:
    import jax.numpy as jnp

    residual = y - a @ x
    return jnp.sum(residual * residual) + least_squares.WEIGHT * jnp.sum(x * x)


def _black_scholes(spot: Any, strike: Any, time: Any) -> Any:
    import jax
    import jax.numpy as jnp

    rate, volatility = black_scholes.RATE, black_scholes.VOLATILITY
    spread = volatility * jnp.sqrt(time)
    d1 = (jnp.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    first, second = (0.5 + 0.5 * jax.lax.erf(d * 0.5**0.5) for d in (d1, d1 - spread))
    return jnp.mean(spot * first - strike * jnp.exp(-rate * time) * second)


def _gmm(alphas: Any, means: Any, diagonal: Any, lower: Any, points: Any, below: Any, unit: Any) -> Any:
    import jax
    import jax.numpy as jnp

    root = lower * below + jnp.exp(diagonal)[:, :, None] * unit
    flat = jnp.reshape(jnp.transpose(root, (2, 0, 1)), (gmm.D, gmm.K * gmm.D))
    moved = jnp.reshape(points @ flat, (gmm.N, gmm.K, gmm.D)) - jnp.sum(root * means[:, None, :], axis=2)
    terms = alphas + jnp.sum(diagonal, axis=1) - 0.5 * jnp.sum(moved * moved, axis=2)
    return jnp.sum(jax.nn.logsumexp(terms, axis=1)) / gmm.N - jax.nn.logsumexp(alphas)


def _ode(x: Any, y: Any) -> Any:
    import jax
    import jax.numpy as jnp

    h = ode.STEP

    def slope(y: Any) -> Any:
        return x * jnp.concatenate((y[:1], y[:-1]))

    def step(y: Any, _: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + (0.5 * h) * k1)
        k3 = slope(y + (0.5 * h) * k2)
        k4 = slope(y + h * k3)
        return y + (h / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None

    y, _ = jax.lax.scan(step, y, None, length=ode.STEPS)
    return jnp.mean(y * y)


def _cross_entropy(logits: Any, labels: Any) -> Any:
    import jax
    import jax.numpy as jnp

    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))


def _mlp(x: Any, labels: Any, w0: Any, b0: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    import jax

    h = jax.nn.relu(x @ w0 + b0)
    h = jax.nn.relu(h @ w1 + b1)
    return _cross_entropy(h @ w2 + b2, labels)


def _lstm(w: Any, u: Any, b: Any, xs: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def cell(state: Any, part: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(part + h @ u, 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

    zero = jnp.zeros((lstm.BATCH, lstm.HIDDEN))
    (h, _), _ = jax.lax.scan(cell, (zero, zero), xs @ w + b)
    return jnp.mean(h * h)


def _attention(qkv: Any, out: Any, up: Any, down: Any, x: Any) -> Any:
    import jax
    import jax.numpy as jnp

    shape = (attention.BATCH, attention.TOKENS, 3, attention.HEADS, attention.SIZE)

    def normed(x: Any) -> Any:
        centred = x - jnp.mean(x, axis=-1, keepdims=True)
        return centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    q, k, v = jnp.moveaxis(jnp.reshape(normed(x) @ qkv, shape), 2, 0)
    x = x + jnp.reshape(jax.nn.dot_product_attention(q, k, v), x.shape) @ out
    x = x + jax.nn.relu(normed(x) @ up) @ down
    return jnp.mean(x * x)


def _conv(k0: Any, k1: Any, w0: Any, w1: Any, w2: Any, x: Any, labels: Any) -> Any:
    import jax

    def convolved(x: Any, k: Any, padding: str) -> Any:
        return jax.lax.conv_general_dilated(x, k, (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def pooled(x: Any) -> Any:
        return jax.lax.reduce_window(x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") * 0.25

    h = pooled(jax.nn.relu(convolved(x, k0, "SAME")))
    h = pooled(jax.nn.relu(convolved(h, k1, "VALID"))).reshape(conv.BATCH, -1)
    h = jax.nn.relu(jax.nn.relu(h @ w0) @ w1)
    return _cross_entropy(h @ w2, labels)


def _vectors(x: Any, w: Any, b: Any, steps: int) -> Any:
    import jax.numpy as jnp

    for _ in range(steps):
        x = jnp.tanh(x * w + b) - x * 0.1
    return jnp.sum(x)


def _python_loop(x: Any, weights: Any, length: int) -> Any:
    import jax.numpy as jnp

    for i in range(length):
        x = x + 0.01 * jnp.sin(weights[i] * x)
    return x


OBJECTIVES: dict[str, tuple[Any, tuple[str, ...]]] = (
    LOOPS
    | SUITES
    | PROGRAMS
    | {
        "logsumexp": (_logsumexp, ("x",)),
        "least_squares": (_least_squares, ("x",)),
        "black_scholes": (_black_scholes, ("spot", "strike", "time")),
        "gmm": (_gmm, gmm.WRT),
        "ode": (_ode, ("x",)),
        "mlp": (_mlp, PARAMETERS),
        "lstm": (_lstm, ("w", "u", "b")),
        "attention": (_attention, attention.WRT),
        "conv": (_conv, conv.WRT),
        "vectors": (_vectors, ("x", "w", "b")),
        "python_loop": (_python_loop, ("x",)),
    }
)


def _gradient(objective: Any, wrt: tuple[str, ...], **inputs: Any) -> Step:
    import jax
    import jax.numpy as jnp

    watched, arrays, fixed = split(inputs, wrt)
    names, count = (*watched, *arrays), len(watched)

    def positional(*given: Any) -> Any:
        return objective(**dict(zip(names, given, strict=True)), **fixed)

    run = jax.jit(jax.value_and_grad(positional, argnums=tuple(range(count))))
    placed = tuple(jnp.asarray(a) for a in (*watched.values(), *arrays.values()))
    return lambda: jax.block_until_ready(run(*placed))  # type: ignore[no-any-return]


def _trivial(x: Any) -> Step:
    import jax
    import jax.numpy as jnp

    double, x = jax.jit(lambda x: x * 2.0), jnp.asarray(x)
    return lambda: (jax.block_until_ready(double(x)), [])


def _hvp(x: Any, v: Any, w: Any) -> Step:
    import jax
    import jax.numpy as jnp

    x, v, w = (jnp.asarray(a) for a in (x, v, w))

    @jax.jit
    def run(x: Any, v: Any, w: Any) -> Any:
        g, product = jax.jvp(jax.grad(lambda x: jnp.sum(jnp.tanh(x @ w) ** 2)), (x,), (v,))
        return jnp.sum(g * v), [product]

    return lambda: jax.block_until_ready(run(x, v, w))  # type: ignore[no-any-return]


def _hessian(x: Any, v: Any) -> Step:
    import jax
    import jax.numpy as jnp

    def objective(x: Any) -> Any:
        squares = x * x
        total = jnp.sum(squares)
        return jnp.sum(jnp.tanh(x) * jnp.exp(squares * -0.25)) + total * total * (1.0 / LENGTH)

    def twice(x: Any) -> Any:
        g = jax.grad(objective)(x)
        return g, g

    rows, x = jax.jit(jax.jacfwd(twice, has_aux=True)), jnp.asarray(x)

    def step() -> tuple[Any, list[Any]]:
        hessian, g = jax.block_until_ready(rows(x))
        return g, [hessian]

    return step


def _jacobian(x: Any, w: Any, b: Any, v: Any) -> Step:
    import jax
    import jax.numpy as jnp

    def twice(x: Any, w: Any, b: Any, v: Any) -> Any:
        y = jnp.tanh(x @ w + b) @ v
        return y, y

    x, w, b, v = (jnp.asarray(a) for a in (x, w, b, v))
    rows = jax.jit(jax.jacrev(twice, has_aux=True))

    def step() -> tuple[Any, list[Any]]:
        jacobian, y = jax.block_until_ready(rows(x, w, b, v))
        return y, [jacobian]

    return step


STEPS = {f"compiled_{name}": partial(_gradient, *about) for name, about in OBJECTIVES.items()} | {
    "compiled_trivial": _trivial,
    "compiled_hvp": _hvp,
    "compiled_hessian": _hessian,
    "compiled_jacobian": _jacobian,
}
