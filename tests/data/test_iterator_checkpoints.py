"""`Checkpoint(iterator=...)`: a pass goes on where it stood, in the same random order, in another iterator too."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt

Dataset = gt.data.Dataset
PIPELINES: dict[str, Callable[[], Any]] = {
    "range": lambda: Dataset.range(20),
    "shuffled without a seed": lambda: Dataset.range(20).shuffle(7).repeat(3).batch(4),
    "shuffled with a seed": lambda: Dataset.range(20).shuffle(30, seed=3).repeat(2),
    "buffered": lambda: Dataset.range(20).map(lambda x: x * 2).filter(lambda x: x % 3 > 0).shuffle(5).repeat(2).prefetch(3),
    "in parallel": lambda: Dataset.range(30).shuffle(30).map(lambda x: x + 1, num_parallel_calls=2).batch(3).prefetch(2),
    "two of them": lambda: Dataset.zip((Dataset.range(12).shuffle(12), Dataset.range(12).shuffle(5))).repeat(2),
    "drawn in a function": lambda: Dataset.range(9).map(lambda x: gt.random.uniform(()) + gt.cast(x, "float32")).repeat(2),
    "random numbers": lambda: Dataset.random().take(9),
    "of datasets": lambda: Dataset.sample_from_datasets([Dataset.range(9), Dataset.range(100, 109)], [0.5, 0.5]),
}


def rest(iterator: Any) -> list[Any]:
    return [gt.nest.map_structure(lambda part: part.numpy().tolist(), element) for element in iterator]


@pytest.mark.parametrize("taken", [0, 1, 5])
@pytest.mark.parametrize("name", PIPELINES)
def test_goes_on_where_it_stood(name: str, taken: int, tmp_path: Path) -> None:
    iterator = iter(PIPELINES[name]())
    for _ in range(taken):
        next(iterator)
    checkpoint = gt.train.Checkpoint(iterator=iterator, w=gt.Variable(1.0))
    path = checkpoint.save(tmp_path / "ckpt")
    wanted = rest(iterator)
    assert wanted
    checkpoint.restore(path)  # the same iterator, which has ended meanwhile
    assert rest(iterator) == wanted
    other = iter(PIPELINES[name]())  # one of another dataset of the same form
    next(other)
    gt.train.Checkpoint(iterator=other, w=gt.Variable(0.0)).restore(path).assert_consumed()
    assert rest(other) == wanted


def test_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    path = gt.train.Checkpoint(iterator=iter(Dataset.range(3).shuffle(3))).save(tmp_path / "ckpt")
    other = iter(Dataset.range(3))
    with pytest.raises(ValueError, match="iterator/state"):
        gt.train.Checkpoint(iterator=other).restore(path)
    assert rest(other) == [0, 1, 2]


def test_in_a_function_and_at_the_end(tmp_path: Path) -> None:
    iterator = iter(Dataset.range(4))
    step = gt.function(lambda: iterator.get_next() * 10, autograph=False)
    checkpoint = gt.train.Checkpoint(iterator=iterator)
    assert [int(step()), int(step())] == [0, 10]
    middle = checkpoint.save(tmp_path / "ckpt")
    assert rest(iterator) == [2, 3]
    end = checkpoint.save(tmp_path / "ckpt")
    checkpoint.restore(middle)
    assert int(step()) == 20
    checkpoint.restore(end)
    with pytest.raises(gt.errors.OutOfRangeError):
        step()


def test_in_another_process(tmp_path: Path) -> None:
    code = (
        "import gradtape as gt, sys\n"
        "it = iter(gt.data.Dataset.range(10).shuffle(10).repeat(2))\n"
        "checkpoint = gt.train.Checkpoint(it=it)\n"
        "if len(sys.argv) > 2: checkpoint.restore(sys.argv[2])\n"
        "else:\n    [next(it) for _ in range(3)]; checkpoint.write(sys.argv[1])\n"
        "print([int(x) for x in it])"
    )
    path = str(tmp_path / "state")
    command = [sys.executable, "-c", code, path]
    runs = [subprocess.run([*command, *more], capture_output=True, text=True, check=True).stdout for more in ([], [path])]
    assert runs[0] == runs[1]
    assert len(np.array(eval(runs[0]))) == 17
