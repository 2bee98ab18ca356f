"""Random sequences of operations between ranks, with branches in which ranks differ: none hangs, and all derivatives are right.

`mpiexec -n N python -m` this module FIRST COUNT. All ranks draw the same operations; what a rank does with a
result, it draws alone.
"""

import sys
from typing import Any

import numpy as np

import gradtape as gt

ranks = gt.distribute
N, ME = ranks.size(), ranks.rank()
STEP = 1e-6
OPERATIONS = (
    lambda x: ranks.all_reduce(x),
    lambda x: ranks.all_reduce(x, "mean"),
    lambda x: ranks.all_gather(x)[:4],
    lambda x: ranks.broadcast(x, root=N - 1),
    lambda x: ranks.reduce(x, root=0),
    lambda x: ranks.reduce_scatter(gt.concat([x] * N, 0)),
    lambda x: ranks.sendrecv(x, dest=(ME + 1) % N, source=(ME - 1) % N),
    lambda x: ranks.sendrecv(x, dest=ME - 1 if ME else None, source=ME + 1 if ME + 1 < N else None),
    lambda x: ranks.halo_exchange(x, periodic=True)[1:5],
    lambda x: ranks.halo_exchange(x)[:4],
    lambda x: ranks.scatter(gt.concat([x] * N, 0), root=0),
    lambda x: ranks.gather(x)[:4],
    lambda x: to_and_fro(x),
    lambda x: handed_on(x),
)


def to_and_fro(x: Any) -> Any:
    """From the first rank to the last, and back; in between another thing may happen to it."""
    if ME == 0:
        ranks.send(x, dest=N - 1, tag=1)
        return ranks.recv(x.shape, source=N - 1, dtype=x.dtype, tag=2)
    if ME == N - 1:
        came = ranks.recv(x.shape, source=0, dtype=x.dtype, tag=1)
        ranks.send(gt.sin(came) + x, dest=0, tag=2)
        return came
    return x


def handed_on(x: Any) -> Any:
    """From rank to rank, each adding its own."""
    x = x if ME == 0 else x + ranks.recv(x.shape, source=ME - 1, dtype=x.dtype, tag=3)
    if ME + 1 < N:
        ranks.send(x, dest=ME + 1, tag=3)
    return x


def sequence(seed: int) -> Any:
    """A function of a local and a replicated array, and whether what it gives is replicated."""
    common, own = np.random.default_rng(seed), np.random.default_rng((seed, ME + 1))
    choices = common.integers(0, len(OPERATIONS), common.integers(2, 7))
    turns = own.integers(0, 4, len(choices))
    replicated = bool(common.integers(0, 2))
    scale = own.normal(size=4)

    def loss(x: Any, w: Any) -> Any:
        values = [gt.sin(x) * scale, w * scale]
        for choice, turn in zip(choices, turns, strict=True):
            given = values[-1 - turn % 2]
            result = OPERATIONS[choice](given if turn < 3 else gt.zeros_like(given))
            if turn:  # some ranks use it, others go on without
                values.append(gt.tanh(result) * values[turn % len(values)])
        local = gt.reduce_sum(values[-1] * values[0]) + gt.reduce_sum(values[-1])
        return ranks.all_reduce(local) if replicated else local

    return loss, replicated


def check(seed: int) -> None:
    loss, replicated = sequence(seed)
    everybody = np.random.default_rng((seed, 0)).normal(size=(N + 1, 2, 4))
    (x, dx), (w, dw) = everybody[ME], everybody[N]

    def value(shift: float) -> float:
        result = loss(gt.constant(x + shift * dx), ranks.replicated(w + shift * dw))
        return float((result if replicated else ranks.all_reduce(result)).numpy())

    u, v = gt.constant(x), ranks.replicated(w)
    with gt.GradientTape() as tape:
        tape.watch([u, v])
        target = loss(u, v)
    gu, gv = tape.gradient(target, [u, v], unconnected_gradients="zero")
    slope = float(ranks.all_reduce(gt.constant(np.sum(gu.numpy() * dx))).numpy()) + float(np.sum(gv.numpy() * dw))
    expected = (value(STEP) - value(-STEP)) / (2 * STEP)
    assert abs(slope - expected) <= 1e-6 * max(1.0, abs(expected)), (seed, slope, expected)


if __name__ == "__main__":
    first, count = map(int, sys.argv[1:])
    for seed in range(first, first + count):
        check(seed)
    if ME == 0:
        print("checked", count, flush=True)
