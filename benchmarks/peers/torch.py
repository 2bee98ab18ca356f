"""PyTorch, eager, on the CPU."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.workload import Step
from benchmarks.workloads import mlp, rnn, second_order, single_op


def version() -> str:
    import torch

    return torch.__version__


def set_threads(count: int) -> None:
    import torch

    torch.set_num_threads(count)
    torch.set_num_interop_threads(count)


def to_numpy(value: Any) -> Any:
    return value.detach().numpy()


def _leaf(array: Any) -> Any:
    import torch

    return torch.tensor(array, requires_grad=True)


def _op(op: str, x: Any, y: Any, m: Any) -> Step:
    import torch

    x, y, m = _leaf(x), _leaf(y), _leaf(m)
    call = {
        "multiply": lambda: x * y,
        "add": lambda: x + y,
        "sin": lambda: torch.sin(x),
        "tanh": lambda: torch.tanh(x),
        "matmul": lambda: m @ m,
        "reduce_sum": lambda: m.sum(1),
        "getitem": lambda: m[2],
    }[op]

    def step() -> tuple[Any, list[Any]]:
        for _ in range(single_op.CALLS):
            z = call()
        return z.sum(), []

    return step


def _scalar_loop(x: Any, y: Any, steps: int) -> Step:
    import torch

    x, start = _leaf(x), _leaf(y)
    sin = torch.sin

    def step() -> tuple[Any, list[Any]]:
        y = start
        for _ in range(steps):
            y = sin(y) * x + y * 0.5
        return y, list(torch.autograd.grad(y, (x, start)))

    return step


def _vectors(x: Any, w: Any, b: Any, steps: int) -> Step:
    import torch

    start, w, b = _leaf(x), _leaf(w), _leaf(b)
    tanh = torch.tanh

    def step() -> tuple[Any, list[Any]]:
        x = start
        for _ in range(steps):
            x = tanh(x * w + b) - x * 0.1
        total = x.sum()
        return total, list(torch.autograd.grad(total, (start, w, b)))

    return step


def _mlp(update: bool, x: Any, labels: Any, **p: Any) -> Step:
    import torch
    from torch.nn.functional import cross_entropy, linear, relu

    x, labels = torch.from_numpy(x), torch.from_numpy(labels)
    # weights in the layout of nn.Linear, (out, in)
    parameters = [_leaf(p[n].T.copy() if n[0] == "w" else p[n]) for n in mlp.PARAMETERS]
    w0, b0, w1, b1, w2, b2 = parameters
    optimizer = torch.optim.SGD(parameters, lr=mlp.RATE)

    def step() -> tuple[Any, list[Any]]:
        h = relu(linear(x, w0, b0))
        h = relu(linear(h, w1, b1))
        loss = cross_entropy(linear(h, w2, b2), labels)
        if update:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss, [q.grad.T for q in parameters]
        return loss, [g.T for g in torch.autograd.grad(loss, parameters)]

    return step


def _lenet(x: Any, labels: Any, **p: Any) -> Step:
    import torch
    from torch.nn.functional import avg_pool2d, conv2d, cross_entropy, linear, relu

    # in its own layout: channels first, filters (out, in, y, x), weights (out, in); the picture that is laid out in a row has
    # channels first, too
    x, labels = torch.from_numpy(x.transpose(0, 3, 1, 2).copy()), torch.from_numpy(labels)
    filters = [_leaf(p[name].transpose(3, 2, 0, 1).copy()) for name in ("k0", "k1")]
    rows = p["w0"].reshape(5, 5, 16, -1).transpose(2, 0, 1, 3).reshape(p["w0"].shape)
    weights = [_leaf(w.T.copy()) for w in (rows, p["w1"], p["w2"])]

    def step() -> tuple[Any, list[Any]]:
        h = avg_pool2d(relu(conv2d(x, filters[0], padding=2)), 2)
        h = avg_pool2d(relu(conv2d(h, filters[1])), 2).flatten(1)
        h = relu(linear(relu(linear(h, weights[0])), weights[1]))
        loss = cross_entropy(linear(h, weights[2]), labels)
        k0, k1, w0, w1, w2 = torch.autograd.grad(loss, (*filters, *weights))
        w0 = w0.T.reshape(16, 5, 5, -1).permute(1, 2, 0, 3).reshape(w0.T.shape)
        return loss, [k0.permute(2, 3, 1, 0), k1.permute(2, 3, 1, 0), w0, w1.T, w2.T]

    return step


def _rnn(x: Any, w: Any, u: Any, b: Any) -> Step:
    import torch

    x, w, u, b = torch.from_numpy(x), _leaf(w), _leaf(u), _leaf(b)
    tanh, addmm = torch.tanh, torch.addmm

    def step() -> tuple[Any, list[Any]]:
        h = torch.zeros(rnn.BATCH, rnn.HIDDEN)
        # the input products of all steps at once, as every expert does
        inputs = addmm(b, x.view(-1, rnn.FEATURES), w).view(rnn.STEPS, rnn.BATCH, rnn.HIDDEN).unbind(0)
        for part in inputs:
            h = tanh(addmm(part, h, u))
        loss = (h * h).mean()
        return loss, list(torch.autograd.grad(loss, (w, u, b)))

    return step


def _objective(x: Any) -> Any:
    import torch

    squares = x * x
    total = squares.sum()
    return (torch.tanh(x) * torch.exp(squares * -0.25)).sum() + total * total * (1.0 / second_order.LENGTH)


def _penalty(x: Any, v: Any) -> Step:
    import torch

    x = _leaf(x)

    def step() -> tuple[Any, list[Any]]:
        (g,) = torch.autograd.grad(_objective(x), x, create_graph=True)
        s = (g * g).sum()
        return s, list(torch.autograd.grad(s, x))

    return step


def _hvp(x: Any, v: Any) -> Step:
    import torch

    x, v = _leaf(x), torch.from_numpy(v)

    def step() -> tuple[Any, list[Any]]:
        (g,) = torch.autograd.grad(_objective(x), x, create_graph=True)
        s = (g * v).sum()
        return s, list(torch.autograd.grad(s, x))

    return step


def _network(x: Any, w: Any, b: Any, v: Any) -> Any:
    return (x @ w + b).tanh() @ v


def _jacobian(x: Any, w: Any, b: Any, v: Any) -> Step:
    import torch

    x, w, b, v = (torch.from_numpy(a) for a in (x, w, b, v))

    def twice(x: Any) -> Any:
        y = _network(x, w, b, v)
        return y, y

    rows = torch.func.jacrev(twice, has_aux=True)

    def step() -> tuple[Any, list[Any]]:
        jacobian, y = rows(x)
        return y, [jacobian]

    return step


def _jacobian_gradient(x: Any, w: Any, b: Any, v: Any) -> Step:
    import torch

    x, w, b, v = _leaf(x), *(torch.from_numpy(a) for a in (w, b, v))

    def step() -> tuple[Any, list[Any]]:
        total = _network(x, w, b, v).sum()
        return total, list(torch.autograd.grad(total, x))

    return step


STEPS = {f"op_{op}": partial(_op, op) for op in single_op.NAMES} | {
    "scalar_loop": _scalar_loop, "vectors": _vectors, "mlp": partial(_mlp, False),
    "mlp_sgd": partial(_mlp, True), "lenet": _lenet, "rnn": _rnn, "penalty": _penalty, "hvp": _hvp,
    "jacobian": _jacobian, "jacobian_gradient": _jacobian_gradient,
}  # fmt: skip
