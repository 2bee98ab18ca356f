"""`Dataset.cache(filename)`: the same elements from the file, whole files or none, and refusals in words."""

import os
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import gradtape as gt
from gradtape.data import Dataset
from tests.data.pipelines import CASES, plain


def elements(dataset):
    return [plain(element) for element in dataset]


def test_pipelines_from_a_file(tmp_path):
    """What a file gives is what the pipeline gave: structures, dtypes, strings, ragged shapes, empty arrays."""
    ran = 0
    for name, pipeline in CASES.items():
        path = tmp_path / name
        try:
            dataset = pipeline(gt).take(30)
            cached = dataset.cache(path)
            first = elements(cached)
        except Exception:  # of the pipeline itself, which its own test is about, or a result that is no dataset
            assert not list(tmp_path.iterdir()), name
            continue
        ran += 1
        assert path.exists(), name
        assert elements(cached) == first, name
        assert cached.element_spec == dataset.element_spec
        path.unlink()
    assert ran > 60


def counting(calls, stop=5):
    def numbers():
        calls.append(1)
        yield from range(stop)

    return Dataset.from_generator(numbers, output_signature=gt.TensorSpec((), gt.int32))


def test_a_pass_that_is_left_or_fails_leaves_nothing(tmp_path):
    calls, path = [], tmp_path / "numbers"
    dataset = counting(calls).cache(path)
    iterator = iter(dataset)
    next(iterator)
    assert [part.suffix for part in tmp_path.iterdir()] == [".part"]
    del iterator
    assert not list(tmp_path.iterdir())

    def failing():
        yield 1
        raise KeyError("half-way")

    broken = Dataset.from_generator(failing, output_signature=gt.TensorSpec((), gt.int32)).cache(path)
    with pytest.raises(KeyError):
        list(broken)
    assert not list(tmp_path.iterdir())
    assert [[int(x) for x in dataset] for _ in range(3)] == [[0, 1, 2, 3, 4]] * 3
    assert len(calls) == 2
    assert [x.numpy().tolist() for x in dataset.batch(2).repeat(2)] == [[0, 1], [2, 3], [4]] * 2
    assert len(calls) == 2


def test_no_name_is_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    calls = []
    for name in ("", b"", gt.constant("")):
        dataset = counting(calls).cache(name)
        assert [len(list(dataset)) for _ in range(2)] == [5, 5]
    assert len(calls) == 3
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["text", b"bytes", gt.constant("tensor")])
def test_names(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    list(Dataset.range(3).cache(name))
    assert len(list(tmp_path.iterdir())) == 1


_CHILD = """
import os, signal, sys
import gradtape as gt

def numbers():
    for n in range(4):
        if sys.argv[2] == "killed" and n == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if sys.argv[2] == "reads":
            raise AssertionError("computed again")
        yield n

dataset = gt.data.Dataset.from_generator(numbers, output_signature=gt.TensorSpec((), gt.int64)).cache(sys.argv[1])
print([int(x) for x in dataset])
"""


def child(path, what):
    return subprocess.run([sys.executable, "-c", _CHILD, str(path), what], capture_output=True, text=True, check=False)


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
def test_killed_half_way_then_written_then_read_elsewhere(tmp_path):
    path = tmp_path / "numbers"
    assert child(path, "killed").returncode == -signal.SIGKILL
    assert [part.suffix for part in tmp_path.iterdir()] == [".part"]
    assert child(path, "writes").stdout.strip() == "[0, 1, 2, 3]"
    assert [part.name for part in tmp_path.iterdir()] == ["numbers"]  # what the killed one left is gone, too
    assert child(path, "reads").stdout.strip() == "[0, 1, 2, 3]"


def test_several_passes_write_at_once(tmp_path):
    dataset = Dataset.range(2000).map(lambda x: x * 2).cache(tmp_path / "numbers")
    found = []
    threads = [threading.Thread(target=lambda: found.append([int(x) for x in dataset])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(0, 4000, 2))] * 4
    assert [part.name for part in tmp_path.iterdir()] == ["numbers"]


def test_a_file_of_something_else(tmp_path):
    path = tmp_path / "numbers"
    list(Dataset.range(3).cache(path))
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"numbers' is of another dataset: .*int64.*int32"):
        list(Dataset.range(3, output_type="int32").cache(path))
    with pytest.raises(gt.errors.InvalidArgumentError, match=r"it has 3 elements, this one has 4\. Delete the file"):
        list(Dataset.range(4).cache(path))
    (tmp_path / "letter").write_text("dear reader")
    with pytest.raises(gt.errors.InvalidArgumentError, match="is no file of this kind"):
        list(Dataset.range(3).cache(tmp_path / "letter"))
    with pytest.raises(gt.errors.NotFoundError, match=r"there is no folder '.*missing' for the file 'numbers'"):
        list(Dataset.range(3).cache(tmp_path / "missing" / "numbers"))
    with pytest.raises(NotImplementedError, match="datasets inside elements"):
        Dataset.range(4).window(2).cache(path)
    with pytest.raises(TypeError, match="filename must be a string or a path, got 3"):
        Dataset.range(4).cache(3)


def test_no_damage_is_read_as_data(tmp_path):
    """Whatever byte differs, and wherever the file ends: an error in words, never other elements."""
    path = tmp_path / "pairs"
    dataset = Dataset.from_tensor_slices((np.arange(3.0), ["a", "bc", ""])).filter(lambda x, y: x >= 0.0).cache(path)
    whole = elements(dataset)
    data = path.read_bytes()
    damaged = [data[:end] for end in range(len(data))]
    damaged += [data[:i] + bytes([data[i] ^ (1 << (i % 8))]) + data[i + 1 :] for i in range(len(data))]
    for other in damaged:
        path.write_bytes(other)
        with pytest.raises((gt.errors.DataLossError, gt.errors.InvalidArgumentError), match=re.escape("Dataset.cache: ")):
            list(dataset)
    path.write_bytes(data)
    assert elements(dataset) == whole


def test_chunks(tmp_path, monkeypatch):
    """More elements than a chunk has, and shapes that change: batches go over the borders."""
    from gradtape.data import file_cache

    monkeypatch.setattr(file_cache, "_ELEMENTS", 4)
    numbers = Dataset.range(11).cache(tmp_path / "numbers")
    for _ in range(2):
        assert [x.numpy().tolist() for x in numbers.batch(3)] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10]]
    ragged = Dataset.range(6).map(lambda n: gt.range(n // 2)).cache(tmp_path / "ragged")
    for _ in range(2):
        assert [x.numpy().tolist() for x in ragged] == [[], [], [0], [0], [0, 1], [0, 1]]
