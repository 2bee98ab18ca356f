"""Ways in which one rank parts from the others × places where that happens; `python -m` this module PLACE WAY on several ranks.

The last rank does something else in the fourth of six turns (in the first, where another computes for long), and prints
when. One source for eager and compiled code."""

import os
import signal
import sys
import time
from typing import Any

import numpy as np

import gradtape as gt

ranks = gt.distribute
ME, N = ranks.rank(), ranks.size()
PLACE, WAY = sys.argv[1:3]
TURNS, ODD = 6, 0 if WAY == "computes" else 3
PLACES = ("eager", "program", "loop", "backward", "messages", "message_loop")
WAYS = (
    "operation", "shape", "dtype", "skips", "returns", "raises", "caught", "exits", "leaves", "killed", "computes",
)  # fmt: skip
IN_PYTHON = WAYS[WAYS.index("raises") :]


def parts() -> None:
    print("parts", time.time(), flush=True)


def usual(x: Any, tag: int = 0) -> Any:
    if "message" not in PLACE:
        return ranks.all_reduce(x) * 0.5
    if ME == 0:  # to and fro between the first and the last rank
        ranks.send(x, dest=N - 1, tag=tag)
        x = ranks.recv(x.shape, source=N - 1, dtype=x.dtype, tag=tag)
    elif ME == N - 1:
        x = ranks.recv(x.shape, source=0, dtype=x.dtype, tag=tag)
        ranks.send(x * 0.5, dest=0, tag=tag)
    return x


def other(x: Any) -> Any:
    return usual(x, tag=5) if "message" in PLACE else ranks.broadcast(x)


def in_python(x: Any, odd: Any) -> Any:
    if WAY == "computes" and ME == 0:
        time.sleep(10)
    if odd:
        parts()
        if WAY in ("raises", "caught", "computes"):
            raise ValueError("rank one gives up")
        if WAY == "exits":
            sys.exit(3)
        if WAY == "leaves":
            os._exit(3)
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def noted(x: Any, odd: Any) -> Any:
    if odd:
        parts()
    return x


def turn(x: Any, odd: Any) -> Any:
    """One exchange, in which `odd` says whether this rank parts."""
    x = gt.numpy_function(in_python if WAY in IN_PYTHON else noted, [x, odd], gt.TensorSpec((3,), gt.float64))
    if WAY == "operation":
        x = other(x) if odd else usual(x)
    elif WAY == "shape":
        x = gt.concat([usual(x[:2]), x[:1]], 0) if odd else usual(x)
    elif WAY == "dtype":
        x = gt.cast(usual(gt.cast(x, gt.float32)), gt.float64) if odd else usual(x)
    elif WAY == "skips":
        if not odd:
            x = usual(x)
    else:
        x = usual(x)
    return x


def is_odd(i: Any) -> Any:
    return gt.logical_and(gt.equal(i, ODD), ME == N - 1)


def turns(x: Any) -> Any:
    for i in gt.range(TURNS):
        odd = is_odd(i)
        if WAY == "returns" and odd:
            break
        x = turn(x, odd)
    return x


def straight(x: Any) -> Any:
    step = gt.function(turn)
    for i in range(TURNS):
        if WAY == "returns" and i == ODD and ME == N - 1:
            break
        x = step(x, gt.constant(i == ODD and ME == N - 1))
    return x


def behind(x: Any) -> Any:
    @gt.custom_gradient
    def identity(y: Any, odd: Any) -> Any:
        return y * 1.0, lambda ct: (turn(ct, odd), None)

    with gt.GradientTape() as tape:
        tape.watch(x)
        y = x
        for i in range(TURNS):
            if not (WAY == "returns" and i == ODD and ME == N - 1):
                y = identity(y, gt.constant(i == ODD and ME == N - 1))
        y = gt.reduce_sum(y)
    return tape.gradient(y, x)


def main() -> None:
    compiled = PLACE in ("loop", "message_loop")
    way = {"program": straight, "backward": behind}.get(PLACE, gt.function(turns) if compiled else turns)
    x = gt.constant(np.ones(3))
    try:
        way(x)
    except ValueError:
        if WAY != "caught":
            raise
        print("caught")
        usual(gt.constant(np.ones(3)), tag=7)
    if WAY == "returns" and ME == N - 1:
        parts()
        return
    print("numbers")


main()
