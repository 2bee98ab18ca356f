"""Programs whose first call is measured (`first_calls.py`), as users write them: loops of many turns, long straight code.

`over` is what a loop goes over: `range`, or `gt.range` for the same program as a loop of the program from the start. What the
loops mean, and that their traces do not grow with the number of turns, is tested in `tests/function/test_python_loops.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import gradtape as gt

Over = Callable[..., Any]  # `range` or `gt.range`


def scalar_loop(n: int, x: Any, over: Over = range) -> Any:
    for _ in over(n):
        x = x * 0.999 + 0.001 * gt.sin(x)
    return x


def nested_with_a_branch(n: int, x: Any, over: Over = range) -> Any:
    s = x * 0.0
    for i in over(n):
        for j in over(n):
            if (i + j) % 2 == 0:  # noqa: SIM108  (as users write it)
                s = s + x * 0.5
            else:
                s = s - x * x * 0.25
    return s


def lstm(n: int, x: Any, over: Over = range) -> Any:
    w = gt.fill((32, 4), 0.1) * x
    u = gt.fill((32, 8), 0.05)
    inputs = gt.ones((n, 4))
    h = c = gt.zeros((8,))
    outputs = []
    for t in over(n):
        z = gt.linalg.matvec(w, inputs[t]) + gt.linalg.matvec(u, h)
        i, f, o, g = gt.split(z, 4)
        c = gt.sigmoid(f) * c + gt.sigmoid(i) * gt.tanh(g)
        h = gt.sigmoid(o) * gt.tanh(c)
        outputs.append(h)
    return gt.reduce_sum(gt.stack(outputs))


def gauss_seidel(n: int, x: Any, over: Over = range) -> Any:
    a = gt.fill((n, n), 1.0) * x
    for _ in over(n):
        for i in over(1, n - 1):
            for j in over(1, n - 1):
                a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5.0
    return gt.reduce_sum(a)


def triangular_solve(n: int, x: Any, over: Over = range) -> Any:
    left = gt.fill((n, n), 0.1) + gt.eye(n) * x
    y = gt.zeros((n,))
    for i in over(n):
        y[i] = (1.0 - gt.reduce_sum(left[i, :i] * y[:i])) / left[i, i]
    return gt.reduce_sum(y)


def durbin(n: int, x: Any, over: Over = range) -> Any:
    r = gt.fill((n,), 0.01) * x
    y = gt.zeros((n,))
    alpha, beta = -r[0], 1.0
    y[0] = alpha
    for k in over(1, n):
        beta = beta * (1.0 - alpha * alpha)
        alpha = -(r[k] + gt.reduce_sum(r[:k][::-1] * y[:k])) / beta
        y[:k] = y[:k] + alpha * y[:k][::-1]
        y[k] = alpha
    return gt.reduce_sum(y)


def functional_while(n: int, x: Any, over: Over = range) -> Any:
    return gt.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y * 0.999), (0, x))[1]


def python_while(n: int, x: Any, over: Over = range) -> Any:
    i = 0
    while i < n:
        x = x * 0.999 + 0.5
        i += 2
    return x * i


def covariance(n: int, x: Any, over: Over = range) -> Any:
    d = gt.fill((5, n), 0.5) * x
    c = gt.zeros((n, n))
    for i in over(n):
        c[i, i:n] = gt.linalg.matvec(d[:, i:n], d[:, i], transpose_a=True)
    return gt.reduce_sum(c)


def stencil(n: int, x: Any, over: Over = range) -> Any:
    a = gt.fill((12,), 1.0) * x
    b = gt.identity(a)
    for _ in over(n):
        b[1:-1] = 0.33 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33 * (b[:-2] + b[1:-1] + b[2:])
    return gt.reduce_sum(a)


def irregular(n: int, x: Any, over: Over = range) -> Any:
    """A loop whose turns differ by what Python draws: it can only be traced turn by turn."""
    draw = random.Random(5)
    y = gt.fill((8,), 0.3) * x
    for _ in range(n):
        if draw.random() < 0.5:  # noqa: SIM108  (as users write it)
            y = gt.sin(y) * draw.choice([0.5, 0.9])
        else:
            y = y * x + draw.random()
    return gt.reduce_sum(y)


def triangular_gradient(n: int, x: Any, over: Over = range) -> Any:
    matrix = gt.fill((n, n), 0.1 / n) + gt.eye(n) * x
    return gt.reduce_sum(gt.linalg.triangular_solve(matrix, gt.ones((n, 1))))


def straight_line(n: int, x: Any, over: Over = range) -> Any:
    """About n operations one after the other, on a vector of eight numbers, in an order without a period."""
    draw = random.Random(5)
    past = [gt.fill((8,), 0.3) * x, gt.fill((8,), 0.2) * x]
    count = 0
    while count < n:
        kind, y = draw.randrange(5), past[draw.randrange(len(past))]
        if kind == 0:
            y, count = gt.sin(y) * 0.9, count + 2
        elif kind == 1:
            y, count = y * past[-1] + 0.1, count + 2
        elif kind == 2:
            y, count = gt.tanh(y) - past[-2], count + 2
        elif kind == 3:
            y, count = y / (1.0 + y * y), count + 3
        else:
            y, count = gt.exp(-y) + x, count + 3
        past = [*past[-5:], y]
    return gt.reduce_sum(past[-1])


TURNS = {
    scalar_loop: 1000, nested_with_a_branch: 100, lstm: 1024, gauss_seidel: 40, triangular_solve: 400, durbin: 200,
    functional_while: 4000, python_while: 8000, covariance: 50, stencil: 4000,
}  # fmt: skip
