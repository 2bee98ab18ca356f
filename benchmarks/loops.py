"""The first call of programs with Python loops of many turns, as a user writes them: value and gradient.

`python -m benchmarks.loops [NAME ...]` prints, for each, the seconds of processor time that the first call takes with Python's
`range` and with `gt.range`, and the seconds of a later call. What the loops mean, and that their traces do not grow with the
number of turns, is tested in `tests/function/test_python_loops.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter, process_time
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


TURNS = {
    scalar_loop: 1000, nested_with_a_branch: 100, lstm: 1024, gauss_seidel: 40, triangular_solve: 400, durbin: 200,
    functional_while: 4000, python_while: 8000, covariance: 50, stencil: 4000,
}  # fmt: skip


def first_and_later(program: Callable[..., Any], n: int, over: Over) -> tuple[float, float]:
    """Processor seconds of the first call, and the shortest time of five later ones."""
    traced = gt.function(lambda x: program(n, x, over))

    def call() -> Any:
        x = gt.constant(1.25)
        with gt.GradientTape() as tape:
            tape.watch(x)
            y = traced(x)
        return tape.gradient(y, x)

    start = process_time()
    call()
    first = process_time() - start
    later = []
    for _ in range(5):
        start = perf_counter()
        call()
        later.append(perf_counter() - start)
    return first, min(later)


def main(names: list[str]) -> None:
    first_and_later(scalar_loop, 20, gt.range)  # starts the compiler
    print(f"{'program':24} {'turns':>6} {'first call':>11} {'gt.range':>9} {'later call':>11} {'gt.range':>9}")
    for program, n in TURNS.items():
        if not names or program.__name__ in names:
            (first, later), (first_staged, later_staged) = (first_and_later(program, n, over) for over in (range, gt.range))
            print(f"{program.__name__:24} {n:6} {first:10.3f}s {first_staged:8.3f}s {later:10.6f}s {later_staged:8.6f}s")


if __name__ == "__main__":
    main(sys.argv[1:])
