"""TensorFlow's objectives of the compiled table. Loops are `tf.while_loop`s with a known bound, which XLA needs as well."""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.compiled import (
    attention,
    black_scholes,
    conv,
    gmm,
    least_squares,
    lstm,
    lstm_tiny,
    nbody,
    nested_ad,
    newton,
    ode,
)
from benchmarks.workloads.compiled.stencils import five_points, heated
from benchmarks.workloads.mlp import PARAMETERS


def _repeat(count: int, body: Any, *state: Any) -> Any:
    """body(i, *state) → state, `count` times."""
    import tensorflow as tf

    def turn(i: Any, *state: Any) -> Any:
        return (i + 1, *body(i, *state))

    return tf.while_loop(lambda i, *_: i < count, turn, (tf.constant(0), *state), maximum_iterations=count)[1:]


def scalar_loop(x: Any, y: Any, steps: int) -> Any:
    import tensorflow as tf

    return _repeat(steps, lambda _, y: (tf.sin(y) * x + y * 0.5,), y)[0]


def nested_loops(a: Any, b: Any, c: Any, turns: int) -> Any:
    import tensorflow as tf

    def inner(j: Any, s: Any, total: Any) -> Any:
        u = a * s + c * (tf.cast(j, tf.float32) * 0.02 - 1.0)
        s = tf.where(u > 0, tf.sin(u), b * u)
        return s, total + s * s

    _, total = _repeat(turns, lambda _, s, total: _repeat(turns, inner, s, total), tf.constant(0.5), tf.constant(0.0))
    return total / turns**2


def newton_roots(a: Any) -> Any:
    import tensorflow as tf

    def turn(_: Any, x: Any, delta: Any) -> Any:
        e = tf.exp(x)
        step = (x * e - a) / (e * (x + 1.0))
        on = tf.abs(delta) > newton.SMALL
        return tf.where(on, x - step, x), tf.where(on, step, delta)

    x, _ = _repeat(newton.MOST, turn, tf.ones_like(a), tf.ones_like(a))
    return tf.reduce_sum(x * x)


def _cell(z: Any, c: Any, axis: int) -> Any:
    import tensorflow as tf

    i, f, g, o = tf.split(z, 4, axis)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def lstm_tiny_loss(w: Any, u: Any, b: Any, xs: Any) -> Any:
    import tensorflow as tf

    rows = xs @ w + b

    def turn(t: Any, h: Any, c: Any, total: Any) -> Any:
        h, c = _cell(rows[t] + tf.linalg.matvec(u, h, transpose_a=True), c, 0)
        return h, c, total + tf.reduce_sum(h * h)

    zero = tf.zeros((lstm_tiny.HIDDEN,))
    return _repeat(lstm_tiny.STEPS, turn, zero, zero, tf.constant(0.0))[2] / lstm_tiny.STEPS


def jacobi(a: Any, steps: int) -> Any:
    import tensorflow as tf

    def swept(a: Any) -> Any:
        middle = tf.concat((a[1:-1, :1], five_points(a), a[1:-1, -1:]), 1)
        return tf.concat((a[:1], middle, a[-1:]), 0)

    a = _repeat(2 * steps, lambda _, a: (swept(a),), a)[0]
    return tf.reduce_sum(a * a)


def heat(a: Any, steps: int) -> Any:
    import tensorflow as tf

    inside = tf.pad(tf.ones([n - 2 for n in a.shape], tf.bool), [[1, 1]] * 3)

    def swept(a: Any) -> Any:
        return tf.where(inside, tf.pad(heated(a), [[1, 1]] * 3), a)

    a = _repeat(2 * steps, lambda _, a: (swept(a),), a)[0]
    return tf.reduce_sum(a * a)


def nbody_size(p: Any, v: Any, mass: Any, steps: int) -> Any:
    import tensorflow as tf

    def turn(_: Any, p: Any, v: Any) -> Any:
        d = p[None, :, :] - p[:, None, :]
        s = tf.reduce_sum(d * d, 2) + nbody.SOFTENING
        v = v + nbody.STEP * tf.reduce_sum(d * (mass / (s * tf.sqrt(s)))[:, :, None], 1)
        return p + nbody.STEP * v, v

    p, _ = _repeat(steps, turn, p, v)
    return tf.reduce_sum(p * p)


def triangular(m: Any, b: Any) -> Any:
    import tensorflow as tf

    n = b.shape[0]

    def turn(i: Any, x: Any) -> Any:
        # elements not computed yet are zero, so the whole row may be multiplied
        found = (b[i] - tf.reduce_sum(m[i] * x)) / m[i, i]
        return (x + found * tf.one_hot(i, n),)

    x = _repeat(n, turn, tf.zeros((n,)))[0]
    return tf.reduce_sum(x * x)


def seidel(a: Any, steps: int) -> Any:
    import tensorflow as tf

    def row(above: Any, rows: Any) -> Any:
        own, below = rows
        rest = above[:-2] + above[1:-1] + above[2:] + own[1:-1] + own[2:] + below[:-2] + below[1:-1] + below[2:]
        new = tf.scan(lambda left, other: (left + other) * (1.0 / 9.0), rest, own[0])
        return tf.concat((own[:1], new, own[-1:]), 0)

    def sweep(_: Any, a: Any) -> Any:
        return (tf.concat((a[:1], tf.scan(row, (a[1:-1], a[2:]), a[0]), a[-1:]), 0),)

    a = _repeat(steps, sweep, a)[0]
    return tf.reduce_sum(a * a)


def durbin(r: Any) -> Any:
    import tensorflow as tf

    n = r.shape[0]
    backwards = r[::-1]

    def turn(i: Any, y: Any, alpha: Any, beta: Any) -> Any:
        k = i + 1
        beta = (1.0 - alpha * alpha) * beta
        # r[:k] and y[:k] backwards at the start; behind them y has zeros still
        alpha = -(r[k] + tf.reduce_sum(tf.roll(backwards, k, 0) * y)) / beta
        return y + alpha * (tf.roll(y[::-1], k, 0) + tf.one_hot(k, n)), alpha, beta

    y = _repeat(n - 1, turn, -r[0] * tf.one_hot(0, n), -r[0], tf.constant(1.0))[0]
    return tf.reduce_sum(y * y)


def nested_derivative(p: Any, w: Any) -> Any:
    import tensorflow as tf

    def turn(_: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            r = tf.linalg.matvec(w, x, transpose_a=True) - p
            y = tf.reduce_sum(r + tf.nn.softplus(-2.0 * r)) + 0.5 * tf.reduce_sum(x * x)
        g = tape.gradient(y, x)
        return (tf.where(tf.reduce_sum(g * g) > nested_ad.SMALL**2, x - nested_ad.RATE * g, x),)

    x = _repeat(nested_ad.MOST, turn, tf.zeros((nested_ad.UNKNOWNS,)))[0]
    return tf.reduce_sum(x * x)


def logsumexp(x: Any) -> Any:
    import tensorflow as tf

    return tf.reduce_logsumexp(x)


def least_squares_sum(x: Any, a: Any, y: Any) -> Any:
    import tensorflow as tf

    residual = y - tf.linalg.matvec(a, x)
    return tf.reduce_sum(residual * residual) + least_squares.WEIGHT * tf.reduce_sum(x * x)


def black_scholes_mean(spot: Any, strike: Any, time: Any) -> Any:
    import tensorflow as tf

    rate, volatility = black_scholes.RATE, black_scholes.VOLATILITY
    spread = volatility * tf.sqrt(time)
    d1 = (tf.math.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    first, second = (0.5 + 0.5 * tf.math.erf(d * 0.5**0.5) for d in (d1, d1 - spread))
    return tf.reduce_mean(spot * first - strike * tf.exp(-rate * time) * second)


def gmm_likelihood(alphas: Any, means: Any, diagonal: Any, lower: Any, points: Any, below: Any, unit: Any) -> Any:
    import tensorflow as tf

    root = lower * below + tf.exp(diagonal)[:, :, None] * unit
    flat = tf.reshape(tf.transpose(root, (2, 0, 1)), (gmm.D, gmm.K * gmm.D))
    moved = tf.reshape(points @ flat, (gmm.N, gmm.K, gmm.D)) - tf.reduce_sum(root * means[:, None, :], 2)
    terms = alphas + tf.reduce_sum(diagonal, 1) - 0.5 * tf.reduce_sum(moved * moved, 2)
    return tf.reduce_sum(tf.reduce_logsumexp(terms, 1)) / gmm.N - tf.reduce_logsumexp(alphas)


def ode_size(x: Any, y: Any) -> Any:
    import tensorflow as tf

    h = ode.STEP

    def slope(y: Any) -> Any:
        return x * tf.concat((y[:1], y[:-1]), 0)

    for _ in range(ode.STEPS):  # ten turns: unrolled
        k1 = slope(y)
        k2 = slope(y + (0.5 * h) * k1)
        k3 = slope(y + (0.5 * h) * k2)
        k4 = slope(y + h * k3)
        y = y + (h / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return tf.reduce_mean(y * y)


def ode_size_looped(x: Any, y: Any) -> Any:
    import tensorflow as tf

    h = ode.STEP

    def slope(y: Any) -> Any:
        return x * tf.concat((y[:1], y[:-1]), 0)

    def turn(_: Any, y: Any) -> Any:
        k1 = slope(y)
        k2 = slope(y + (0.5 * h) * k1)
        k3 = slope(y + (0.5 * h) * k2)
        k4 = slope(y + h * k3)
        return (y + (h / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4),)

    y = _repeat(ode.STEPS, turn, y)[0]
    return tf.reduce_mean(y * y)


def mlp(x: Any, labels: Any, w0: Any, b0: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    import tensorflow as tf

    h = tf.nn.relu(tf.nn.bias_add(x @ w0, b0))
    h = tf.nn.relu(tf.nn.bias_add(h @ w1, b1))
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, tf.nn.bias_add(h @ w2, b2)))


def lstm_loss(w: Any, u: Any, b: Any, xs: Any) -> Any:
    import tensorflow as tf

    flat = tf.nn.bias_add(tf.reshape(xs, (-1, lstm.FEATURES)) @ w, b)
    h = c = tf.zeros((lstm.BATCH, lstm.HIDDEN))
    for part in tf.unstack(tf.reshape(flat, (lstm.STEPS, lstm.BATCH, 4 * lstm.HIDDEN))):  # unrolled: faster than a loop
        h, c = _cell(part + h @ u, c, 1)
    return tf.reduce_mean(h * h)


def lstm_loss_looped(w: Any, u: Any, b: Any, xs: Any) -> Any:
    import tensorflow as tf

    flat = tf.nn.bias_add(tf.reshape(xs, (-1, lstm.FEATURES)) @ w, b)
    parts = tf.reshape(flat, (lstm.STEPS, lstm.BATCH, 4 * lstm.HIDDEN))
    zero = tf.zeros((lstm.BATCH, lstm.HIDDEN))
    h, _ = _repeat(lstm.STEPS, lambda t, h, c: _cell(parts[t] + h @ u, c, 1), zero, zero)
    return tf.reduce_mean(h * h)


def attention_block(qkv: Any, out: Any, up: Any, down: Any, x: Any) -> Any:
    import tensorflow as tf

    shape = (attention.BATCH, attention.TOKENS, 3, attention.HEADS, attention.SIZE)
    features = attention.FEATURES

    def times(x: Any, w: Any) -> Any:  # one large product instead of a batch of small ones
        return tf.reshape(tf.reshape(x, (-1, x.shape[-1])) @ w, (*x.shape[:-1], w.shape[-1]))

    def normed(x: Any) -> Any:
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        return centred * tf.math.rsqrt(tf.reduce_mean(centred * centred, -1, keepdims=True) + 1e-5)

    q, k, v = tf.unstack(tf.transpose(tf.reshape(times(normed(x), qkv), shape), (2, 0, 3, 1, 4)))
    mixed = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * attention.SIZE**-0.5) @ v
    x = x + times(tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), (attention.BATCH, attention.TOKENS, features)), out)
    x = x + times(tf.nn.relu(times(normed(x), up)), down)
    return tf.reduce_mean(x * x)


def conv_net(k0: Any, k1: Any, w0: Any, w1: Any, w2: Any, x: Any, labels: Any) -> Any:
    import tensorflow as tf

    h = tf.nn.avg_pool2d(tf.nn.relu(tf.nn.conv2d(x, k0, 1, "SAME")), 2, 2, "VALID")
    h = tf.nn.avg_pool2d(tf.nn.relu(tf.nn.conv2d(h, k1, 1, "VALID")), 2, 2, "VALID")
    h = tf.nn.relu(tf.nn.relu(tf.reshape(h, (conv.BATCH, 400)) @ w0) @ w1)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, h @ w2))


def vectors(x: Any, w: Any, b: Any, steps: int) -> Any:
    import tensorflow as tf

    for _ in range(steps):
        x = tf.tanh(x * w + b) - x * 0.1
    return tf.reduce_sum(x)


def python_loop(x: Any, weights: Any, length: int) -> Any:
    import tensorflow as tf

    for i in range(length):
        x = x + 0.01 * tf.sin(weights[i] * x)
    return x


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
    "logsumexp": (logsumexp, ("x",)),
    "least_squares": (least_squares_sum, ("x",)),
    "black_scholes": (black_scholes_mean, ("spot", "strike", "time")),
    "gmm": (gmm_likelihood, gmm.WRT),
    "ode": (ode_size, ("x",)),
    "mlp": (mlp, PARAMETERS),
    "lstm": (lstm_loss, ("w", "u", "b")),
    "attention": (attention_block, attention.WRT),
    "conv": (conv_net, conv.WRT),
    "vectors": (vectors, ("x", "w", "b")),
    "python_loop": (python_loop, ("x",)),
}
# XLA takes minutes for unrolled loops
LOOPED = {"ode": (ode_size_looped, ("x",)), "lstm": (lstm_loss_looped, ("w", "u", "b"))}
