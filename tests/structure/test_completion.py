"""Completion (`dir`) of public modules and objects offers what the reference has, and nothing else.

`completion.txt` is what objects offer, for a reader of the difference (`python -m tests.structure.test_completion`).
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt

LISTED = Path(__file__).with_name("completion.txt")


def spaces() -> Iterator[types.ModuleType]:
    """The public namespaces: what completion leads to from `gt`. (Keras offers its own names.)"""
    waiting, met = [gt], set()
    while waiting:
        space = waiting.pop()
        if space.__name__.startswith("keras") or space in met or space is gt.keras:
            continue
        met.add(space)
        yield space
        waiting += [v for name in offered(space) if isinstance(v := getattr(space, name), types.ModuleType)]


def objects() -> dict[str, Any]:
    """One of each kind of object that users hold."""
    x, v = gt.constant([1.0]), gt.Variable([1.0])
    with gt.GradientTape(persistent=True, profile=True, debug=True) as tape:
        y = v * v
    tape.gradient(y, v)
    with np.errstate(all="ignore"), gt.GradientTape() as broken:
        broken.watch(x)
        infinite = gt.log(x - 1.0)
    broken.gradient(infinite, x)
    function, dataset = gt.function(lambda a: a), gt.data.Dataset.range(3)
    schedules = gt.optimizers.schedules
    things = [
        x, v, tape, gt.autodiff.ForwardAccumulator(x, x), function, function.get_concrete_function(x), function.cache_info(),
        gt.Module(), gt.optimizers.Adam(), dataset, iter(dataset), dataset.as_numpy_iterator(), dataset.options(),
        gt.data.DatasetSpec(gt.TensorSpec((), gt.int64)), iter(dataset).get_next_as_optional(), tape.explain(y, v),
        tape.picture(target=y), tape.check(y, v), tape.profile(), broken.nan_report(), x.shape, x.dtype, gt.TensorSpec((1,)),
        gt.random.Generator.from_seed(1), gt.train.Checkpoint(), gt.TensorArray(gt.float32, 1), gt.IndexedSlices(x, [0]),
        gt.train.ExponentialMovingAverage(0.9), gt.name_scope("a"), gt.initializers.Orthogonal(), schedules.CosineDecay(0.1, 9),
        schedules.ExponentialDecay(0.1, 9, 0.5), gt.distribute.get_strategy(),
    ]  # fmt: skip
    return {type(thing).__name__: thing for thing in things}


def offered(thing: object) -> list[str]:
    return [name for name in dir(thing) if not name.startswith("_")]


@pytest.mark.parametrize("space", [*spaces()], ids=lambda space: space.__name__)
def test_namespaces_offer_their_own_names(space: types.ModuleType) -> None:
    """No files that they are made of, nothing that they import for themselves."""
    public = {*spaces(), gt.keras, gt.losses, gt.metrics}
    foreign = {
        name: value for name in offered(space)
        if (isinstance(value := getattr(space, name), types.ModuleType) and value not in public)
        or (inspect.isroutine(value) and not (value.__module__ or "").startswith(("gradtape", "keras")))
        or type(value).__module__ in ("typing", "__future__", "contextvars")
    }  # fmt: skip
    assert foreign == {}
    assert len(offered(space)) > 1


def test_rooms_of_the_source_are_not_offered() -> None:
    assert {"core", "functions", "ir", "ops", "surface", "tape", "tree", "variables"}.isdisjoint(dir(gt))
    assert {"nn", "math", "config", "errors", "dtypes", "nest", "float32", "GradientTape", "__version__"} <= {*dir(gt)}


def listing() -> str:
    return "".join(f"{name}: {' '.join(offered(thing))}\n" for name, thing in sorted(objects().items()))


def test_objects_offer_what_is_listed() -> None:
    """A new method is either for users (it has words, and is listed here) or for other rooms (`_INTERNAL` of its class)."""
    assert listing() == LISTED.read_text()


if __name__ == "__main__":
    LISTED.write_text(listing())
