"""Programs of the zoo in data parallelism: `mpiexec -n N python -m` this module [--all] prints losses and gradients as JSON.

The tensors of a program are variables of a strategy; six examples scale them differently, so that replicas take different
branches, and each replica has its share of the examples. The loss is the sum over all of them. On any number of ranks the
numbers must be those of one rank, to rounding: eagerly, as a compiled function in a step that is not, and as a compiled step.
"""

import json
import sys
import warnings
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.ops.random_state import STATE
from tests.harness.seeds import Asked, in_sample
from tests.zoo.registry import Entry, arguments
from tests.zoo.test_zoo import ENTRIES

SCALES = 1.0 + 0.005 * np.random.default_rng(5).uniform(-1.0, 1.0, 6)  # loops that wait for a value still meet it
ONE_IN = 48


def is_parameter(leaf: Any) -> bool:
    """Whether a leaf of the arguments becomes a variable."""
    return isinstance(leaf, gt.Tensor) and leaf.dtype.is_floating


def total(result: Any) -> Any:
    """One number of whatever a program gives."""
    outs = [gt.cast(gt.math.real(out), gt.float64) for out in gt.nest.flatten(result) if isinstance(out, gt.Tensor)]
    return sum((gt.reduce_sum(out * 0.7) for out in outs if out.dtype.is_floating), gt.constant(0.0, gt.float64))


def answers(entry: Entry) -> dict[str, Any]:
    """Loss and gradients in each mode."""
    given = arguments(entry.inputs[0])
    strategy = gt.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        parameters = [gt.Variable(leaf) for leaf in gt.nest.flatten(given) if is_parameter(leaf)]
    (shares,) = strategy.experimental_distribute_dataset([SCALES])
    program = entry.make().step
    compiled = gt.function(program)

    def loss_of(run: Any, scale: Any) -> Any:
        scaled = iter([gt.cast(scale, v.dtype) * v for v in parameters])
        return total(run(*gt.nest.map_structure(lambda leaf: next(scaled) if is_parameter(leaf) else leaf, given)))

    def step(run: Any, scales: Any) -> Any:
        with gt.GradientTape() as tape:
            loss = gt.constant(0.0, gt.float64)
            for scale in gt.unstack(scales) if len(scales) else []:
                loss = loss + loss_of(run, scale)
        return loss, tape.gradient(loss, parameters, unconnected_gradients="zero")

    found: dict[str, Any] = {}
    for mode, take in {
        "eager": lambda: step(program, gt.constant(shares)),
        "compiled program": lambda: step(compiled, gt.constant(shares)),
        "compiled step": lambda: gt.function(lambda scales: step(program, scales))(gt.constant(shares)),
    }.items():
        drawn = len(STATE._streams)
        loss, gradients = strategy.run(take)
        if len(STATE._streams) > drawn:  # replicas draw numbers of their own: another loss for each number of ranks
            STATE._streams.clear()
            return {}
        found[mode] = [float(strategy.reduce("SUM", loss)), *(np.asarray(g).ravel().tolist() for g in gradients)]
    return found


def answers_or_refusal(entry: Entry) -> dict[str, Any]:
    """The same, or what all ranks are told alike: a derivative in a loop depends on state that becomes local there."""
    try:
        return answers(entry)
    except gt.errors.InvalidArgumentError as error:
        if "in the first turn and" not in str(error):
            raise
        return {"refused": []}


if __name__ == "__main__":
    warnings.simplefilter("ignore", gt.GradientWarning)  # programs without a gradient in some argument are among them
    Asked.programs = 10**6 if "--all" in sys.argv else 0
    chosen = [e for e in ENTRIES.values() if e.plain and e.order and in_sample(e.name, ONE_IN)]
    printed = {entry.name: answers_or_refusal(entry) for entry in chosen}
    if gt.distribute.rank() == 0:
        print(json.dumps(printed), flush=True)
