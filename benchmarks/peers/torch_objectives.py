"""PyTorch's objectives of the compiled table, for the peers `torch_eager` and `torch_compile`.

Loops are Python loops, vectorised over whatever is independent; arrays that change in place become lists of rows or
out-of-place updates, as autograd asks for.
"""

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


def scalar_loop(x: Any, y: Any, steps: int) -> Any:
    import torch

    for _ in range(steps):
        y = torch.sin(y) * x + y * 0.5
    return y


def nested_loops(a: Any, b: Any, c: Any, turns: int) -> Any:
    import torch

    s, total = torch.tensor(0.5), 0.0
    for _ in range(turns):
        for j in range(turns):
            u = a * s + c * (j * 0.02 - 1.0)
            s = torch.sin(u) if u > 0 else b * u
            total = total + s * s
    return total / turns**2


def newton_roots(a: Any) -> Any:
    import torch

    x, delta = torch.ones_like(a), torch.ones_like(a)
    while True:
        on = delta.abs() > newton.SMALL
        if not on.any():
            return (x * x).sum()
        e = torch.exp(x)
        step = (x * e - a) / (e * (x + 1.0))
        x, delta = torch.where(on, x - step, x), torch.where(on, step, delta)


def _cell(z: Any, c: Any) -> Any:
    import torch

    i, f, g, o = z.chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def lstm_tiny_loss(w: Any, u: Any, b: Any, xs: Any) -> Any:
    import torch

    h = c = torch.zeros(lstm_tiny.HIDDEN)
    states = []
    for row in torch.addmm(b, xs, w).unbind(0):
        h, c = _cell(row + h @ u, c)
        states.append(h)
    return torch.stack(states).square().sum() / lstm_tiny.STEPS


def jacobi(a: Any, steps: int) -> Any:
    def swept(a: Any) -> Any:
        new = a.clone()
        new[1:-1, 1:-1] = five_points(a)
        return new

    for _ in range(2 * steps):
        a = swept(a)
    return (a * a).sum()


def heat(a: Any, steps: int) -> Any:
    def swept(a: Any) -> Any:
        new = a.clone()
        new[1:-1, 1:-1, 1:-1] = heated(a)
        return new

    for _ in range(2 * steps):
        a = swept(a)
    return (a * a).sum()


def seidel(a: Any, steps: int) -> Any:
    import torch

    rows = list(a.unbind(0))
    for _ in range(steps):
        for i in range(1, len(rows) - 1):
            above, own, below = rows[i - 1], rows[i], rows[i + 1]
            rest = above[:-2] + above[1:-1] + above[2:] + own[1:-1] + own[2:] + below[:-2] + below[1:-1] + below[2:]
            left, new = own[0], [own[0]]
            for other in rest.unbind(0):
                left = (left + other) * (1.0 / 9.0)
                new.append(left)
            rows[i] = torch.stack([*new, own[-1]])
    return torch.stack(rows).square().sum()


def triangular(m: Any, b: Any) -> Any:
    import torch

    x: list[Any] = []
    for i, (row, target) in enumerate(zip(m.unbind(0), b.unbind(0), strict=True)):
        done = row[:i] @ torch.stack(x) if x else 0.0
        x.append((target - done) / row[i])
    return torch.stack(x).square().sum()


def durbin(r: Any) -> Any:
    import torch

    parts = r.unbind(0)
    alpha, beta = -parts[0], 1.0
    y = alpha[None]
    for k in range(1, len(parts)):
        beta = (1.0 - alpha * alpha) * beta
        alpha = -(parts[k] + r[:k].flip(0) @ y) / beta
        y = torch.cat((y + alpha * y.flip(0), alpha[None]))
    return (y * y).sum()


def nbody_size(p: Any, v: Any, mass: Any, steps: int) -> Any:
    import torch

    for _ in range(steps):
        d = p[None, :, :] - p[:, None, :]
        s = (d * d).sum(2) + nbody.SOFTENING
        v = v + nbody.STEP * (d * (mass / (s * torch.sqrt(s)))[:, :, None]).sum(1)
        p = p + nbody.STEP * v
    return (p * p).sum()


def nested_derivative(p: Any, w: Any) -> Any:
    import torch
    from torch.nn.functional import softplus

    x = torch.zeros(nested_ad.UNKNOWNS, requires_grad=True)
    while True:
        r = x @ w - p
        y = (r + softplus(-2.0 * r)).sum() + 0.5 * (x * x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        if g @ g <= nested_ad.SMALL**2:
            return (x * x).sum()
        x = x - nested_ad.RATE * g


def logsumexp(x: Any) -> Any:
    import torch

    return torch.logsumexp(x, 0)


def least_squares_sum(x: Any, a: Any, y: Any) -> Any:
    import torch

    return (y - torch.mv(a, x)).square().sum() + least_squares.WEIGHT * x.square().sum()


def black_scholes_mean(spot: Any, strike: Any, time: Any) -> Any:
    import torch

    rate, volatility = black_scholes.RATE, black_scholes.VOLATILITY
    spread = volatility * torch.sqrt(time)
    d1 = (torch.log(spot / strike) + (rate + 0.5 * volatility**2) * time) / spread
    first, second = (0.5 + 0.5 * torch.erf(d * 0.5**0.5) for d in (d1, d1 - spread))
    return (spot * first - strike * torch.exp(-rate * time) * second).mean()


def gmm_likelihood(alphas: Any, means: Any, diagonal: Any, lower: Any, points: Any, below: Any, unit: Any) -> Any:
    import torch

    root = lower * below + torch.exp(diagonal)[:, :, None] * unit
    moved = (points @ root.permute(2, 0, 1).reshape(gmm.D, gmm.K * gmm.D)).view(gmm.N, gmm.K, gmm.D)
    moved = moved - (root * means[:, None, :]).sum(2)
    terms = alphas + diagonal.sum(1) - 0.5 * moved.square().sum(2)
    return torch.logsumexp(terms, 1).sum() / gmm.N - torch.logsumexp(alphas, 0)


def ode_size(x: Any, y: Any) -> Any:
    import torch

    h = ode.STEP

    def slope(y: Any) -> Any:
        return x * torch.cat((y[:1], y[:-1]))

    for _ in range(ode.STEPS):
        k1 = slope(y)
        k2 = slope(y + (0.5 * h) * k1)
        k3 = slope(y + (0.5 * h) * k2)
        k4 = slope(y + h * k3)
        y = y + (h / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return (y * y).mean()


def mlp(x: Any, labels: Any, w0: Any, b0: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    import torch
    from torch.nn.functional import cross_entropy, relu

    h = relu(torch.addmm(b0, x, w0))
    h = relu(torch.addmm(b1, h, w1))
    return cross_entropy(torch.addmm(b2, h, w2), labels)


def lstm_loss(w: Any, u: Any, b: Any, xs: Any) -> Any:
    import torch

    h = c = torch.zeros(lstm.BATCH, lstm.HIDDEN)
    for part in torch.addmm(b, xs.view(-1, lstm.FEATURES), w).view(lstm.STEPS, lstm.BATCH, -1).unbind(0):
        h, c = _cell(torch.addmm(part, h, u), c)
    return (h * h).mean()


def attention_block(qkv: Any, out: Any, up: Any, down: Any, x: Any) -> Any:
    from torch.nn.functional import layer_norm, relu, scaled_dot_product_attention

    size = (attention.FEATURES,)
    parts = (layer_norm(x, size) @ qkv).view(attention.BATCH, attention.TOKENS, 3, attention.HEADS, attention.SIZE)
    q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
    x = x + scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape) @ out
    x = x + relu(layer_norm(x, size) @ up) @ down
    return (x * x).mean()


def conv_net(k0: Any, k1: Any, w0: Any, w1: Any, w2: Any, x: Any, labels: Any) -> Any:
    from torch.nn.functional import avg_pool2d, conv2d, cross_entropy, relu

    # channels first, its own layout; what comes and goes has channels last, as the others have it
    h = avg_pool2d(relu(conv2d(x.permute(0, 3, 1, 2), k0.permute(3, 2, 0, 1), padding=2)), 2)
    h = avg_pool2d(relu(conv2d(h, k1.permute(3, 2, 0, 1))), 2)
    h = relu(h.permute(0, 2, 3, 1).reshape(conv.BATCH, -1) @ w0)
    return cross_entropy(relu(h @ w1) @ w2, labels)


def vectors(x: Any, w: Any, b: Any, steps: int) -> Any:
    import torch

    for _ in range(steps):
        x = torch.tanh(x * w + b) - x * 0.1
    return x.sum()


def python_loop(x: Any, weights: Any, length: int) -> Any:
    import torch

    for i in range(length):
        x = x + 0.01 * torch.sin(weights[i] * x)
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
