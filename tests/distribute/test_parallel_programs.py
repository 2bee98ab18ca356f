"""Training and simulations on several ranks compute what they compute on one; strategies under TensorFlow's names."""

import json
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.distribute.mpi_world import is_crowded
from tests.distribute.launching import needs_ranks, results, run
from tests.harness.seeds import everything

PROGRAMS = "tests.distribute.parallel_programs"
ZOO = "tests.distribute.zoo_program"
REFUSED = {"gradient_reads_a_tensor_array_of_the_same_iteration"}  # among ranks; it may only shrink


def answers(ranks: int, *options: str) -> dict[str, Any]:
    done = run(ranks, "-W", "error", "-m", PROGRAMS, *options)
    assert done.returncode == 0, done.stderr[-3000:]
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


@needs_ranks
def test_programs_on_ranks_equal_those_on_one(request: pytest.FixtureRequest) -> None:
    options = ("--long",) if request.config.getoption("programs") > 200 else ()
    alone, together = answers(1, *options), answers(4, *options)
    for name, expected in alone.items():
        for one, other in zip(expected, together[name], strict=True):  # items may have different shapes
            np.testing.assert_allclose(other, one, rtol=1e-9, atol=1e-9, err_msg=name)


@needs_ranks
def test_programs_of_the_zoo_in_data_parallelism(request: pytest.FixtureRequest) -> None:
    options = ("--all",) if everything() else ()
    alone, together = results(ZOO, 1, *options), results(ZOO, 3, *options)
    assert alone.keys() == together.keys()
    refused = {name for name, modes in together.items() if "refused" in modes}
    assert refused <= REFUSED
    differ = [
        f"{name}, {mode}: {one} on one rank, {other} on three"
        for name, modes in alone.items()
        if name not in refused
        for mode, expected in modes.items()
        for one, other in zip(expected, together[name][mode], strict=True)
        if not np.allclose(other, one, rtol=1e-9, atol=1e-9, equal_nan=True)
    ]
    assert differ == []
    assert sum(map(bool, alone.values())) > 0.9 * len(alone)  # the others draw random numbers


def test_ranks_bound_to_cores_of_their_own_are_not_crowded() -> None:
    assert not is_crowded([{0}, {1}])
    assert not is_crowded([{0, 1}, {0, 1}])
    assert is_crowded([{0, 1}] * 3)
    assert is_crowded([{0}, {0}])


def test_a_strategy_on_one_rank() -> None:
    strategy = gt.distribute.MirroredStrategy()
    assert gt.distribute.get_replica_context().num_replicas_in_sync == 1
    with strategy.scope():
        assert gt.distribute.get_strategy() is strategy
        assert gt.distribute.has_strategy()
        assert gt.distribute.in_cross_replica_context()
        w = gt.Variable([1.0, 2.0])

    def loss(x: Any) -> Any:
        context = gt.distribute.get_replica_context()
        assert context.replica_id_in_sync_group == 0
        return context.all_reduce("sum", gt.reduce_sum(w * x))

    assert strategy.run(loss, args=(gt.constant([3.0, 4.0]),)).numpy() == 11.0
    assert strategy.reduce("MEAN", gt.constant([1.0, 3.0]), axis=0).numpy() == 2.0
    assert strategy.gather(gt.constant([1.0, 3.0]), axis=0).numpy().tolist() == [1.0, 3.0]
    assert strategy.experimental_distribute_values_from_function(lambda c: c.replica_id_in_sync_group) == 0
    assert [b.tolist() for b in strategy.experimental_distribute_dataset([np.arange(3)])] == [[0, 1, 2]]
    with pytest.raises(ValueError, match="reduce_op is SUM or MEAN"):
        strategy.reduce("MAX", 1.0)
