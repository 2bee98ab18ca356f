"""JAX without jit: eager, op by op, as its other peers run here."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from benchmarks.workload import Step
from benchmarks.workloads import mlp, rnn, second_order, single_op


def version() -> str:
    import jax

    jax.config.update("jax_platforms", "cpu")
    return jax.__version__


def set_threads(count: int) -> None:
    """XLA's CPU client makes one thread per processor the process may use: restrict those."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def to_numpy(value: Any) -> Any:
    import numpy as np

    return np.asarray(value)


def _ready(outcome: Any) -> Any:
    import jax

    return jax.block_until_ready(outcome)


def _op(op: str, x: Any, y: Any, m: Any) -> Step:
    import jax
    import jax.numpy as jnp

    def calls(x: Any, y: Any, m: Any) -> Any:
        call = {
            "multiply": lambda: x * y,
            "add": lambda: x + y,
            "sin": lambda: jnp.sin(x),
            "tanh": lambda: jnp.tanh(x),
            "matmul": lambda: m @ m,
            "reduce_sum": lambda: jnp.sum(m, axis=1),
            "getitem": lambda: m[2],
        }[op]
        for _ in range(single_op.CALLS):
            z = call()
        return jnp.sum(z)

    x, y, m = jnp.asarray(x), jnp.asarray(y), jnp.asarray(m)
    return lambda: (_ready(jax.vjp(calls, x, y, m)[0]), [])


def _stepped(function: Any, arguments: tuple[Any, ...]) -> Step:
    import jax
    import jax.numpy as jnp

    arguments = tuple(jnp.asarray(a) for a in arguments)
    both = jax.value_and_grad(function, argnums=tuple(range(len(arguments))))

    def step() -> tuple[Any, list[Any]]:
        value, gradients = _ready(both(*arguments))
        return value, list(gradients)

    return step


def _scalar_loop(x: Any, y: Any, steps: int) -> Step:
    import jax.numpy as jnp

    def loop(x: Any, y: Any) -> Any:
        for _ in range(steps):
            y = jnp.sin(y) * x + y * 0.5
        return y

    return _stepped(loop, (x, y))


def _vectors(x: Any, w: Any, b: Any, steps: int) -> Step:
    import jax.numpy as jnp

    def chain(x: Any, w: Any, b: Any) -> Any:
        for _ in range(steps):
            x = jnp.tanh(x * w + b) - x * 0.1
        return jnp.sum(x)

    return _stepped(chain, (x, w, b))


def _mlp(update: bool, x: Any, labels: Any, **p: Any) -> Step:
    import jax
    import jax.numpy as jnp

    x, labels = jnp.asarray(x), jnp.asarray(labels)

    def loss(parameters: Any) -> Any:
        w0, b0, w1, b1, w2, b2 = parameters
        h = jax.nn.relu(x @ w0 + b0)
        h = jax.nn.relu(h @ w1 + b1)
        logs = jax.nn.log_softmax(h @ w2 + b2)
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))

    both = jax.value_and_grad(loss)
    state = [jnp.asarray(p[name]) for name in mlp.PARAMETERS]

    def step() -> tuple[Any, list[Any]]:
        value, gradients = both(state)
        if update:
            state[:] = [q - mlp.RATE * g for q, g in zip(state, gradients, strict=True)]
        return _ready((value, gradients))

    return step


def _rnn(x: Any, w: Any, u: Any, b: Any) -> Step:
    import jax.numpy as jnp

    x = jnp.asarray(x)

    def loss(w: Any, u: Any, b: Any) -> Any:
        h = jnp.zeros((rnn.BATCH, rnn.HIDDEN))
        inputs = x @ w + b
        for t in range(rnn.STEPS):
            h = jnp.tanh(inputs[t] + h @ u)
        return jnp.mean(h * h)

    return _stepped(loss, (w, u, b))


def _objective(x: Any) -> Any:
    import jax.numpy as jnp

    squares = x * x
    total = jnp.sum(squares)
    return jnp.sum(jnp.tanh(x) * jnp.exp(squares * -0.25)) + total * total * (1.0 / second_order.LENGTH)


def _penalty(x: Any, v: Any) -> Step:
    import jax
    import jax.numpy as jnp

    inner = jax.grad(_objective)

    def penalty(x: Any) -> Any:
        g = inner(x)
        return jnp.sum(g * g)

    return _stepped(penalty, (x,))


def _hvp(x: Any, v: Any) -> Step:
    import jax
    import jax.numpy as jnp

    x, v = jnp.asarray(x), jnp.asarray(v)
    inner = jax.grad(_objective)

    def step() -> tuple[Any, list[Any]]:
        g, product = jax.jvp(inner, (x,), (v,))  # forward over reverse: the way its documentation recommends
        return _ready((jnp.sum(g * v), [product]))

    return step


def _jacobian(x: Any, w: Any, b: Any, v: Any) -> Step:
    import jax
    import jax.numpy as jnp

    x, w, b, v = (jnp.asarray(a) for a in (x, w, b, v))

    def twice(x: Any) -> Any:
        y = jnp.tanh(x @ w + b) @ v
        return y, y

    rows = jax.jacrev(twice, has_aux=True)

    def step() -> tuple[Any, list[Any]]:
        jacobian, y = _ready(rows(x))
        return y, [jacobian]

    return step


def _jacobian_gradient(x: Any, w: Any, b: Any, v: Any) -> Step:
    import jax.numpy as jnp

    w, b, v = (jnp.asarray(a) for a in (w, b, v))
    return _stepped(lambda x: jnp.sum(jnp.tanh(x @ w + b) @ v), (x,))


STEPS = {f"op_{op}": partial(_op, op) for op in single_op.NAMES} | {
    "scalar_loop": _scalar_loop, "vectors": _vectors, "mlp": partial(_mlp, False),
    "mlp_sgd": partial(_mlp, True), "rnn": _rnn, "penalty": _penalty, "hvp": _hvp,
    "jacobian": _jacobian, "jacobian_gradient": _jacobian_gradient,
}  # fmt: skip
