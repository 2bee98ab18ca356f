"""TensorFlow, eager."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.workload import Step
from benchmarks.workloads import mlp, rnn, second_order, single_op


def version() -> str:
    import tensorflow as tf

    return tf.__version__


def set_threads(count: int) -> None:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(count)
    tf.config.threading.set_inter_op_parallelism_threads(count)


def to_numpy(value: Any) -> Any:
    return value.numpy()


def _op(op: str, x: Any, y: Any, m: Any) -> Step:
    import tensorflow as tf

    x, y, m = tf.constant(x), tf.constant(y), tf.constant(m)
    call = {
        "multiply": lambda: x * y,
        "add": lambda: x + y,
        "sin": lambda: tf.sin(x),
        "tanh": lambda: tf.tanh(x),
        "matmul": lambda: m @ m,
        "reduce_sum": lambda: tf.reduce_sum(m, axis=1),
        "getitem": lambda: m[2],
    }[op]

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            tape.watch([x, y, m])
            for _ in range(single_op.CALLS):
                z = call()
        return tf.reduce_sum(z), []

    return step


def _scalar_loop(x: Any, y: Any, steps: int) -> Step:
    import tensorflow as tf

    x, start = tf.constant(x), tf.constant(y)

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            tape.watch([x, start])
            y = start
            for _ in range(steps):
                y = tf.sin(y) * x + y * 0.5
        return y, tape.gradient(y, [x, start])

    return step


def _vectors(x: Any, w: Any, b: Any, steps: int) -> Step:
    import tensorflow as tf

    # plain tensors: reading a tf.Variable is one more op each time
    start, w, b = tf.constant(x), tf.constant(w), tf.constant(b)

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            tape.watch([start, w, b])
            x = start
            for _ in range(steps):
                x = tf.tanh(x * w + b) - x * 0.1
            total = tf.reduce_sum(x)
        return total, tape.gradient(total, [start, w, b])

    return step


def _mlp(update: bool, x: Any, labels: Any, **p: Any) -> Step:
    import tensorflow as tf

    x, labels = tf.constant(x), tf.constant(labels)
    variables = [tf.Variable(p[name]) for name in mlp.PARAMETERS]
    w0, b0, w1, b1, w2, b2 = variables

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            h = tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w0), b0))
            h = tf.nn.relu(tf.nn.bias_add(tf.matmul(h, w1), b1))
            logits = tf.nn.bias_add(tf.matmul(h, w2), b2)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        gradients = tape.gradient(loss, variables)
        if update:
            for variable, gradient in zip(variables, gradients, strict=True):
                variable.assign_sub(mlp.RATE * gradient)
        return loss, gradients

    return step


def _rnn(x: Any, w: Any, u: Any, b: Any) -> Step:
    import tensorflow as tf

    x, w, u, b = tf.constant(x), tf.constant(w), tf.constant(u), tf.constant(b)

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            tape.watch([w, u, b])
            h = tf.zeros((rnn.BATCH, rnn.HIDDEN))
            flat = tf.nn.bias_add(tf.matmul(tf.reshape(x, (-1, rnn.FEATURES)), w), b)
            for part in tf.unstack(tf.reshape(flat, (rnn.STEPS, rnn.BATCH, rnn.HIDDEN))):
                h = tf.tanh(part + tf.matmul(h, u))
            loss = tf.reduce_mean(h * h)
        return loss, tape.gradient(loss, [w, u, b])

    return step


def _penalty(x: Any, v: Any) -> Step:
    import tensorflow as tf

    x = tf.constant(x)

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = second_order.objective(tf, x)
            g = inner.gradient(y, x)
            s = tf.reduce_sum(g * g)
        return s, [outer.gradient(s, x)]

    return step


def _hvp(x: Any, v: Any) -> Step:
    import tensorflow as tf

    x, v = tf.constant(x), tf.constant(v)

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = second_order.objective(tf, x)
            s = tf.reduce_sum(inner.gradient(y, x) * v)
        return s, [outer.gradient(s, x)]

    return step


def _network(x: Any, w: Any, b: Any, v: Any) -> Any:
    import tensorflow as tf

    return tf.linalg.matvec(v, tf.tanh(tf.linalg.matvec(w, x, transpose_a=True) + b), transpose_a=True)


def _jacobian(x: Any, w: Any, b: Any, v: Any) -> Step:
    import tensorflow as tf

    x, w, b, v = tf.constant(x), tf.constant(w), tf.constant(b), tf.constant(v)

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = _network(x, w, b, v)
        return y, [tape.jacobian(y, x)]

    return step


def _jacobian_gradient(x: Any, w: Any, b: Any, v: Any) -> Step:
    import tensorflow as tf

    x, w, b, v = tf.constant(x), tf.constant(w), tf.constant(b), tf.constant(v)

    def step() -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(_network(x, w, b, v))
        return total, [tape.gradient(total, x)]

    return step


STEPS = {f"op_{op}": partial(_op, op) for op in single_op.NAMES} | {
    "scalar_loop": _scalar_loop, "vectors": _vectors, "mlp": partial(_mlp, False),
    "mlp_sgd": partial(_mlp, True), "rnn": _rnn, "penalty": _penalty, "hvp": _hvp,
    "jacobian": _jacobian, "jacobian_gradient": _jacobian_gradient,
}  # fmt: skip
