"""Messages of all lengths, between eager and compiled code; `mpiexec -n 2 python -m` this module runs them, and prints JSON.

With two lengths, rank 0 sends arrays of the first and rank 1 waits for arrays of the second, in compiled programs.
"""

import json
import sys
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.ops.collective import INLINE

ranks = gt.distribute
ME = ranks.rank()
MOST = INLINE // 8  # numbers that travel with the header
SIZES = (0, 1, MOST - 1, MOST, MOST + 1, 40_000)


def to_and_fro(x: Any, turns: int = 3) -> Any:
    """What was sent comes back doubled; between, each sends to the other."""
    for turn in gt.range(turns):
        if ME == 0:
            ranks.send(x, dest=1, tag=2)
            x = ranks.recv(x.shape, source=1, dtype=x.dtype, tag=3)
        else:
            x = ranks.recv(x.shape, source=0, dtype=x.dtype, tag=2)
            ranks.send(x * 2.0, dest=0, tag=3)
        x = ranks.sendrecv(x + gt.cast(turn, x.dtype), dest=1 - ME, source=1 - ME)
        x = ranks.sendrecv(x, dest=1 if ME == 0 else None, source=0 if ME else None) * 0.5 + x
    return x


def numbers() -> dict[str, Any]:
    """What each way gives at each size, the last numbers of it; with the derivative, where both ranks' code is of one kind."""
    any_size = gt.function(to_and_fro, input_signature=[gt.TensorSpec([None], gt.float64)])
    ways = {
        "eager": (to_and_fro, SIZES),
        "compiled": (gt.function(to_and_fro), (MOST, MOST + 1)),
        "of any size": (any_size, SIZES),
        "eager to compiled": ((to_and_fro, any_size)[ME], SIZES),
        "compiled to eager": ((any_size, to_and_fro)[ME], SIZES),
    }
    answers: dict[str, Any] = {}
    for name, (way, sizes) in ways.items():
        for size in sizes:
            x = gt.constant(np.linspace(0.5, 1.5, size) + ME)
            if " to " in name:
                answers[f"{name}, {size}"] = [(way(x) ** 2).numpy()[-2:].tolist()]
                continue
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = way(x) ** 2
            slope = tape.gradient(y, x, unconnected_gradients="zero")
            answers[f"{name}, {size}"] = [y.numpy()[-2:].tolist(), slope.numpy()[-2:].tolist()]
    return answers


def unlike(sent: int, received: int) -> None:
    """In a loop that has sent what was meant before."""

    @gt.function
    def pass_on(x: Any, y: Any) -> Any:
        for i in gt.range(4):
            if ME == 0:
                ranks.send(x[:1] if i < 3 else x, dest=1)
            else:
                y = y + gt.reduce_sum(ranks.recv((1,) if i < 3 else (received,), source=0, dtype=x.dtype))
        return y

    print("numbers", pass_on(gt.constant(np.ones(sent)), gt.constant(0.0, gt.float64)).numpy())


if __name__ == "__main__":
    if lengths := [int(argument) for argument in sys.argv[1:] if argument.isdigit()]:
        unlike(*lengths)
    else:
        found = numbers()
        if ME == 0:
            print(json.dumps(found), flush=True)
