"""Operations between ranks in loops and branches under `vectorized_map`: all examples travel together, where all take one
course; where they may not, it is refused in the user's words."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt

ranks = gt.distribute
EXCHANGES: dict[str, Callable[[Any], Any]] = {
    "all_reduce": ranks.all_reduce,
    "max": lambda x: ranks.all_reduce(x, "max"),
    "all_gather": ranks.all_gather,
    "all_to_all": ranks.all_to_all,
    "broadcast": ranks.broadcast,
    "reduce": ranks.reduce,
    "gather": ranks.gather,
    "scatter": ranks.scatter,
    "reduce_scatter": ranks.reduce_scatter,
    "sendrecv": lambda x: ranks.sendrecv(x, dest=0, source=0),
    "halo_exchange": lambda x: ranks.halo_exchange(x)[1:-1],
}


def in_a_loop(exchange: Callable[[Any], Any], x: Any, n: Any) -> Any:
    for _ in gt.range(n):
        x = gt.sin(exchange(x * 0.5))
    return x


def in_a_while(exchange: Callable[[Any], Any], x: Any, n: Any) -> Any:
    while n > 0:
        x, n = gt.sin(exchange(x * 0.5)), n - 1
    return x


def in_a_branch(exchange: Callable[[Any], Any], x: Any, n: Any) -> Any:
    if n > 1:  # noqa: SIM108  (a branch of the program)
        x = gt.sin(exchange(x))
    else:
        x = x * 2.0
    return x


@pytest.mark.parametrize("construct", [in_a_loop, in_a_while, in_a_branch])
@pytest.mark.parametrize("name", EXCHANGES)
def test_all_examples_travel_together(name: str, construct: Callable[..., Any]) -> None:
    exchange, rows = EXCHANGES[name], gt.constant(np.arange(1.0, 7.0).reshape(2, 3))

    @gt.function
    def mapped(rows: Any, n: Any) -> Any:
        with gt.GradientTape() as tape:
            tape.watch(rows)
            values = gt.vectorized_map(lambda x: construct(exchange, x, n), rows)
        return values, tape.gradient(values, rows)

    with gt.GradientTape() as tape:
        tape.watch(rows)
        values = gt.stack([construct(exchange, rows[i], 3) for i in range(2)])
    for got, expected in zip(mapped(rows, gt.constant(3)), (values, tape.gradient(values, rows)), strict=True):
        np.testing.assert_allclose(got.numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("way", ["branch", "while", "length"])
def test_examples_that_take_different_courses_are_refused(way: str) -> None:
    def course(x: Any, k: Any) -> Any:
        if way == "branch":
            if gt.reduce_sum(x) > 7.0:
                x = ranks.all_reduce(x)
        elif way == "while":
            while gt.reduce_sum(x) < 100.0:
                x = ranks.all_reduce(x * 2.0)
        else:
            for _ in gt.range(k):
                x = ranks.all_reduce(x)
        return x

    mapped = gt.function(lambda rows, lengths: gt.vectorized_map(lambda pair: course(*pair), (rows, lengths)))
    words = (
        r"test_mapped_exchanges.py:\d+: the (branch|loop) of an operation between ranks \(all_sum\) differs between .* map_fn"
    )
    with pytest.raises(gt.errors.InvalidArgumentError, match=words):
        mapped(gt.constant(np.arange(1.0, 7.0).reshape(2, 3)), gt.constant([1, 2]))
