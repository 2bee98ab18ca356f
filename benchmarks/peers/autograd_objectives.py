"""HIPS autograd's objectives of the compiled table, where the reference cannot run on its arrays.

Nothing is updated in place: loops make new arrays, and are vectorised over whatever is independent. Where the reference in
NumPy is written that way already, `autograd.py` differentiates the reference itself.
"""

from __future__ import annotations

from typing import Any

from benchmarks.workloads.compiled import black_scholes, conv, nested_ad, newton
from benchmarks.workloads.compiled.stencils import five_points, heated


def newton_roots(a: Any) -> Any:
    import autograd.numpy as np

    x, delta = np.ones_like(a), np.ones_like(a)
    while True:
        on = np.abs(delta) > newton.SMALL
        if not np.any(on):
            return np.sum(x * x)
        e = np.exp(x)
        step = (x * e - a) / (e * (x + 1.0))
        x, delta = np.where(on, x - step, x), np.where(on, step, delta)


def jacobi(a: Any, steps: int) -> Any:
    import autograd.numpy as np

    for _ in range(2 * steps):
        middle = np.concatenate((a[1:-1, :1], five_points(a), a[1:-1, -1:]), 1)
        a = np.concatenate((a[:1], middle, a[-1:]), 0)
    return np.sum(a * a)


def heat(a: Any, steps: int) -> Any:
    import autograd.numpy as np

    inside = np.pad(np.ones([n - 2 for n in a.shape], bool), 1)
    for _ in range(2 * steps):
        a = np.where(inside, np.pad(heated(a), [(1, 1)] * 3, "constant"), a)
    return np.sum(a * a)


def seidel(a: Any, steps: int) -> Any:
    import autograd.numpy as np

    rows = [a[i] for i in range(len(a))]
    for _ in range(steps):
        for i in range(1, len(rows) - 1):
            above, own, below = rows[i - 1], rows[i], rows[i + 1]
            rest = above[:-2] + above[1:-1] + above[2:] + own[1:-1] + own[2:] + below[:-2] + below[1:-1] + below[2:]
            left, new = own[0], [own[0]]
            for j in range(len(rest)):
                left = (left + rest[j]) * (1.0 / 9.0)
                new.append(left)
            rows[i] = np.array([*new, own[-1]])
    return np.sum(np.array(rows) ** 2)


def triangular(m: Any, b: Any) -> Any:
    import autograd.numpy as np

    n = len(b)
    unit, x = np.eye(n, dtype=np.float32), np.zeros(n, np.float32)
    for i in range(n):
        row = m[i]
        # elements not computed yet are zero, so the whole row may be multiplied
        x = x + (b[i] - np.dot(row, x)) / row[i] * unit[i]
    return np.sum(x * x)


def durbin(r: Any) -> Any:
    import autograd.numpy as np

    alpha, beta = -r[0], 1.0
    y = np.reshape(alpha, (1,))
    for k in range(1, len(r)):
        beta = (1.0 - alpha * alpha) * beta
        alpha = -(r[k] + np.dot(r[:k][::-1], y)) / beta
        y = np.concatenate((y + alpha * y[::-1], np.reshape(alpha, (1,))))
    return np.sum(y * y)


def nested_derivative(p: Any, w: Any) -> Any:
    import autograd.numpy as np
    from autograd import grad

    def inner(x: Any) -> Any:
        r = np.dot(x, w) - p
        return np.sum(r + np.logaddexp(0.0, -2.0 * r)) + 0.5 * np.sum(x * x)

    slope, x = grad(inner), np.zeros(nested_ad.UNKNOWNS, np.float32)
    while True:
        g = slope(x)
        if np.sum(g * g) <= nested_ad.SMALL**2:
            return np.sum(x * x)
        x = x - nested_ad.RATE * g


def black_scholes_mean(spot: Any, strike: Any, time: Any) -> Any:
    import autograd.numpy as np
    from autograd.scipy.special import erf

    rate, volatility = black_scholes.RATE, black_scholes.VOLATILITY
    spread = volatility * np.sqrt(time)
    d1 = (np.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    first, second = (0.5 + 0.5 * erf(d * 0.5**0.5) for d in (d1, d1 - spread))
    return np.mean(spot * first - strike * np.exp(-rate * time) * second)


def conv_net(k0: Any, k1: Any, w0: Any, w1: Any, w2: Any, x: Any, labels: Any) -> Any:
    import autograd.numpy as np
    from autograd.scipy.special import logsumexp

    def convolved(x: Any, k: Any) -> Any:
        # its own `convolve` is much slower than shifted copies and one product
        height, width, channels, out = k.shape
        rows, columns = x.shape[1] - height + 1, x.shape[2] - width + 1
        shifted = [x[:, i : i + rows, j : j + columns] for i in range(height) for j in range(width)]
        return np.dot(np.concatenate(shifted, 3), np.reshape(k, (height * width * channels, out)))

    def pooled(x: Any) -> Any:
        b, h, w, c = x.shape
        return np.mean(np.reshape(x, (b, h // 2, 2, w // 2, 2, c)), axis=(2, 4))

    h = pooled(np.maximum(convolved(np.pad(x, ((0, 0), (2, 2), (2, 2), (0, 0))), k0), 0.0))
    h = np.reshape(pooled(np.maximum(convolved(h, k1), 0.0)), (conv.BATCH, -1))
    h = np.maximum(np.dot(np.maximum(np.dot(h, w0), 0.0), w1), 0.0)
    logits = np.dot(h, w2)
    return np.mean(logsumexp(logits, axis=1) - logits[np.arange(conv.BATCH), labels])


OBJECTIVES = {
    "newton": newton_roots,
    "jacobi": jacobi,
    "heat": heat,
    "seidel": seidel,
    "triangular": triangular,
    "durbin": durbin,
    "nested_ad": nested_derivative,
    "black_scholes": black_scholes_mean,
    "conv": conv_net,
}
