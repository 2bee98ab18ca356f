"""PyTorch, eager, in the compiled table; `torch_compile` runs the same objectives compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.peers.torch import set_threads as set_threads, to_numpy as to_numpy, version as version
from benchmarks.peers.torch_objectives import OBJECTIVES
from benchmarks.workload import Step
from benchmarks.workloads.compiled.making import split
from benchmarks.workloads.second_order import LENGTH

Wrap = Callable[[Any], Any]


def gradient(wrap: Wrap, objective: Any, wrt: tuple[str, ...], **inputs: Any) -> Step:
    """Value and gradient of an objective, which is compiled or left as it is by `wrap`."""
    import torch

    watched, arrays, fixed = split(inputs, wrt)
    leaves = {name: torch.tensor(a, requires_grad=True) for name, a in watched.items()}
    others = {name: torch.tensor(a) for name, a in arrays.items()}
    run, by = wrap(lambda leaves, others: objective(**leaves, **others, **fixed)), tuple(leaves.values())

    def step() -> tuple[Any, list[Any]]:
        value = run(leaves, others)
        return value, list(torch.autograd.grad(value, by))

    return step


def trivial(wrap: Wrap, x: Any) -> Step:
    import torch

    double, x = wrap(lambda x: x * 2.0), torch.tensor(x)
    return lambda: (double(x), [])


def hvp(wrap: Wrap, x: Any, v: Any, w: Any) -> Step:
    import torch

    def run(x: Any, v: Any, w: Any) -> Any:
        slope = torch.func.grad(lambda x: (x @ w).tanh().square().sum())
        g, product = torch.func.jvp(slope, (x,), (v,))
        return (g * v).sum(), product

    call = wrap(run)
    x, v, w = (torch.from_numpy(a) for a in (x, v, w))

    def step() -> tuple[Any, list[Any]]:
        value, product = call(x, v, w)
        return value, [product]

    return step


def hessian(wrap: Wrap, x: Any, v: Any) -> Step:
    import torch

    def objective(x: Any) -> Any:
        squares = x * x
        total = squares.sum()
        return (torch.tanh(x) * torch.exp(squares * -0.25)).sum() + total * total * (1.0 / LENGTH)

    def twice(x: Any) -> Any:
        g = torch.func.grad(objective)(x)
        return g, g

    call, x = wrap(torch.func.jacfwd(twice, has_aux=True)), torch.from_numpy(x)

    def step() -> tuple[Any, list[Any]]:
        rows, g = call(x)
        return g, [rows]

    return step


def jacobian(wrap: Wrap, x: Any, w: Any, b: Any, v: Any) -> Step:
    import torch

    def twice(x: Any, w: Any, b: Any, v: Any) -> Any:
        y = (x @ w + b).tanh() @ v
        return y, y

    call = wrap(torch.func.jacrev(twice, has_aux=True))
    x, w, b, v = (torch.from_numpy(a) for a in (x, w, b, v))

    def step() -> tuple[Any, list[Any]]:
        rows, y = call(x, w, b, v)
        return y, [rows]

    return step


def steps(wrap: Wrap, left_out: tuple[str, ...] = ()) -> dict[str, Callable[..., Step]]:
    """Every workload with `wrap` around what is run."""
    found: dict[str, Callable[..., Step]] = {n: partial(gradient, wrap, *about) for n, about in OBJECTIVES.items()}
    found |= {
        n: partial(make, wrap) for n, make in (("trivial", trivial), ("hvp", hvp), ("hessian", hessian), ("jacobian", jacobian))
    }
    return {f"compiled_{name}": make for name, make in found.items() if name not in left_out}


# eager execution has no first call that compiles, so nothing to draw against the length of a Python loop
STEPS = steps(lambda function: function, left_out=("python_loop",))
