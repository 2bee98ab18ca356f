"""HIPS autograd: NumPy wrapped, gradients of functions."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.peers.autograd_objectives import OBJECTIVES
from benchmarks.workload import Step
from benchmarks.workloads import compiled, mlp, rnn, second_order, single_op
from benchmarks.workloads.compiled.making import split


def version() -> str:
    import importlib.metadata

    import autograd  # noqa: F401  (absent: ImportError)

    return importlib.metadata.version("autograd")


def set_threads(count: int) -> None:
    """Its arrays are NumPy's: set by the environment."""


def to_numpy(value: Any) -> Any:
    return value


def _op(op: str, x: Any, y: Any, m: Any) -> Step:
    import autograd.numpy as np
    from autograd import make_vjp

    def calls(arguments: Any) -> Any:
        x, y, m = arguments
        call = {
            "multiply": lambda: x * y,
            "add": lambda: x + y,
            "sin": lambda: np.sin(x),
            "tanh": lambda: np.tanh(x),
            "matmul": lambda: m @ m,
            "reduce_sum": lambda: np.sum(m, axis=1),
            "getitem": lambda: m[2],
        }[op]
        for _ in range(single_op.CALLS):
            z = call()
        return np.sum(z)

    trace = make_vjp(calls)  # runs the forward pass with its graph; the vjp is not called
    return lambda: (trace((x, y, m))[1], [])


def _stepped(function: Any, arguments: tuple[Any, ...]) -> Step:
    from autograd import value_and_grad

    both = value_and_grad(function)

    def step() -> tuple[Any, list[Any]]:
        value, gradients = both(arguments)
        return value, list(gradients)

    return step


def _scalar_loop(x: Any, y: Any, steps: int) -> Step:
    import autograd.numpy as np

    def loop(arguments: Any) -> Any:
        x, y = arguments
        for _ in range(steps):
            y = np.sin(y) * x + y * 0.5
        return y

    return _stepped(loop, (x, y))


def _vectors(x: Any, w: Any, b: Any, steps: int) -> Step:
    import autograd.numpy as np

    def chain(arguments: Any) -> Any:
        x, w, b = arguments
        for _ in range(steps):
            x = np.tanh(x * w + b) - x * 0.1
        return np.sum(x)

    return _stepped(chain, (x, w, b))


def _mlp(update: bool, x: Any, labels: Any, **p: Any) -> Step:
    import autograd.numpy as np
    from autograd import value_and_grad
    from autograd.scipy.special import logsumexp

    rows = np.arange(mlp.BATCH)

    def loss(parameters: Any) -> Any:
        w0, b0, w1, b1, w2, b2 = parameters
        h = np.maximum(np.dot(x, w0) + b0, 0.0)
        h = np.maximum(np.dot(h, w1) + b1, 0.0)
        logits = np.dot(h, w2) + b2
        return np.mean(logsumexp(logits, axis=1) - logits[rows, labels])

    both = value_and_grad(loss)
    parameters = [p[name].copy() for name in mlp.PARAMETERS]

    def step() -> tuple[Any, list[Any]]:
        value, gradients = both(parameters)
        if update:
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter -= mlp.RATE * gradient
        return value, gradients

    return step


def _rnn(x: Any, w: Any, u: Any, b: Any) -> Step:
    import autograd.numpy as np

    def loss(arguments: Any) -> Any:
        w, u, b = arguments
        h = np.zeros((rnn.BATCH, rnn.HIDDEN), np.float32)
        inputs = np.reshape(np.dot(np.reshape(x, (-1, rnn.FEATURES)), w) + b, (rnn.STEPS, rnn.BATCH, rnn.HIDDEN))
        for t in range(rnn.STEPS):
            h = np.tanh(inputs[t] + np.dot(h, u))
        return np.mean(h * h)

    return _stepped(loss, (w, u, b))


def _objective(x: Any) -> Any:
    import autograd.numpy as np

    squares = x * x
    total = np.sum(squares)
    return np.sum(np.tanh(x) * np.exp(squares * -0.25)) + total * total * (1.0 / second_order.LENGTH)


def _penalty(x: Any, v: Any) -> Step:
    import autograd.numpy as np
    from autograd import grad

    inner = grad(_objective)

    def penalty(arguments: Any) -> Any:
        g = inner(arguments[0])
        return np.sum(g * g)

    return _stepped(penalty, (x,))


def _hvp(x: Any, v: Any) -> Step:
    import autograd.numpy as np
    from autograd import grad

    inner = grad(_objective)
    return _stepped(lambda arguments: np.sum(inner(arguments[0]) * v), (x,))


def _jacobian(x: Any, w: Any, b: Any, v: Any) -> Step:
    import autograd.numpy as np
    from autograd import make_vjp

    trace = make_vjp(lambda x: np.dot(np.tanh(np.dot(x, w) + b), v))
    unit = np.eye(v.shape[1], dtype=np.float32)

    def step() -> tuple[Any, list[Any]]:
        vjp, y = trace(x)  # what autograd.jacobian does, which gives no value
        return y, [np.stack([vjp(row) for row in unit])]

    return step


def _jacobian_gradient(x: Any, w: Any, b: Any, v: Any) -> Step:
    import autograd.numpy as np

    return _stepped(lambda arguments: np.sum(np.dot(np.tanh(np.dot(arguments[0], w) + b), v)), (x,))


def _hessian(x: Any, v: Any) -> Step:
    import autograd.numpy as np
    from autograd import grad, make_vjp

    trace = make_vjp(grad(_objective))
    unit = np.eye(len(x), dtype=np.float32)

    def step() -> tuple[Any, list[Any]]:
        vjp, g = trace(x)  # what autograd.hessian does, which gives no gradient
        return g, [np.stack([vjp(row) for row in unit])]

    return step


def _network_hvp(x: Any, v: Any, w: Any) -> Step:
    import autograd.numpy as np
    from autograd import grad

    inner = grad(lambda x: np.sum(np.tanh(np.dot(x, w)) ** 2))
    return _stepped(lambda arguments: np.sum(inner(arguments[0]) * v), (x,))


def _compiled(workload: Any, **inputs: Any) -> Step:
    """A workload of the compiled table: its own objective, or its reference with this NumPy."""
    import autograd.numpy as np

    watched, arrays, fixed = split(inputs, workload.wrt)
    names, objective = tuple(watched), OBJECTIVES.get(workload.name.removeprefix("compiled_"))
    others = arrays | fixed | ({} if objective else {"np": np})
    objective = objective or workload.value
    return _stepped(lambda given: objective(**dict(zip(names, given, strict=True)), **others), tuple(watched.values()))


# where the reference is written without in-place updates
REFERENCE = (
    "scalar_loop",
    "nested_loops",
    "lstm_tiny",
    "nbody",
    "logsumexp",
    "least_squares",
    "gmm",
    "ode",
    "lstm",
    "attention",
)
STEPS = {f"op_{op}": partial(_op, op) for op in single_op.NAMES} | {
    "scalar_loop": _scalar_loop, "vectors": _vectors, "mlp": partial(_mlp, False),
    "mlp_sgd": partial(_mlp, True), "rnn": _rnn, "penalty": _penalty, "hvp": _hvp,
    "jacobian": _jacobian, "jacobian_gradient": _jacobian_gradient, "compiled_mlp": partial(_mlp, False),
    "compiled_hvp": _network_hvp, "compiled_hessian": _hessian, "compiled_jacobian": _jacobian,
    "compiled_vectors": _vectors,
} | {
    w.key: partial(_compiled, w) for w in compiled.WORKLOADS if w.name.removeprefix("compiled_") in (*REFERENCE, *OBJECTIVES)
}  # fmt: skip
