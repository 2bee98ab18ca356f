"""Checkpoints: what is saved comes back; what does not fit, or is damaged, changes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.train import checkpoint_file

Checkpoint = gt.train.Checkpoint


class Layer(gt.Module):
    def __init__(self, n: int, m: int) -> None:
        super().__init__()
        self.w = gt.Variable(np.ones((n, m), np.float32), name="w")
        self.b = gt.Variable(np.zeros(m, np.float32), name="b")
        self.width = m  # no state of its own


class Net(gt.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [Layer(2, 3), Layer(3, 1)]
        self.tables = {"a": gt.Variable(1.0), "b/c": gt.Variable([1, 2])}
        self.first = self.layers[0]  # shared

    def loss(self) -> Any:
        x = gt.ones((4, 2))
        for layer in self.layers:
            x = gt.tanh(gt.matmul(x, layer.w) + layer.b)
        return gt.reduce_sum(x) * self.tables["a"]


def trained(steps: int) -> tuple[Net, Any]:
    net, optimizer = Net(), gt.optimizers.Adam(0.1)
    train(net, optimizer, steps)
    return net, optimizer


def train(net: Net, optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        optimizer.minimize(net.loss, net.trainable_variables)


def numbers(net: Net) -> list[Any]:
    return [v.numpy().tolist() for v in net.variables]


def test_training_goes_on_exactly_where_it_was(tmp_path: Path) -> None:
    net, optimizer = trained(3)
    path = Checkpoint(net=net, optimizer=optimizer).write(tmp_path / "state")
    train(net, optimizer, 3)
    fresh, other = Net(), gt.optimizers.Adam(0.5)  # not built: its slots wait for the first step
    Checkpoint(net=fresh, optimizer=other).restore(path).assert_consumed()
    assert int(other.iterations) == 3
    train(fresh, other, 3)
    assert numbers(fresh) == numbers(net)
    built = trained(1)
    Checkpoint(net=built[0], optimizer=built[1]).read(path).assert_consumed()
    train(*built, 3)
    assert numbers(built[0]) == numbers(net)


def test_names_are_paths(tmp_path: Path) -> None:
    path = Checkpoint(net=Net(), list=[gt.Variable(1.0), {"x": gt.Variable(2.0)}]).write(tmp_path / "state")
    arrays, _ = checkpoint_file.read_file(path)
    assert sorted(arrays) == [
        "list/0", "list/1/x", "net/first/b", "net/first/w", "net/layers/1/b", "net/layers/1/w", "net/tables/a",
        "net/tables/b\\/c", "save_counter",
    ]  # fmt: skip


def test_other_readers_can_read_it(tmp_path: Path) -> None:
    from safetensors.numpy import load_file

    path = Checkpoint(w=gt.Variable([1.0, 2.0])).write(tmp_path / "state")
    assert load_file(path)["w"].tolist() == [1.0, 2.0]


def test_plain_values_and_tensors(tmp_path: Path) -> None:
    checkpoint = Checkpoint(epoch=3, label="run", history=[1.0, 2.0], extra={"t": gt.constant([1, 2]), "a": np.ones(2)})
    path = checkpoint.write(tmp_path / "state")
    other = Checkpoint(epoch=0, label="", history=[0.0, 0.0], extra={"t": gt.constant([0, 0]), "a": np.zeros(2)})
    other.restore(path).assert_consumed()
    assert (other.epoch, other.label, other.history) == (3, "run", [1.0, 2.0])
    assert other.extra["t"].numpy().tolist() == [1, 2]
    assert other.extra["a"].tolist() == [1.0, 1.0]


def test_plain_objects_with_variables(tmp_path: Path) -> None:
    class Model:
        def __init__(self) -> None:
            self.w = gt.Variable(1.0)
            self.itself = self

        def __call__(self, x: Any) -> Any:
            return x * self.w

    model = Model()
    path = Checkpoint(model).write(tmp_path / "state")
    model.w.assign(5.0)
    Checkpoint(model).restore(path)
    assert float(model.w) == 1.0


@pytest.mark.parametrize(
    "dtype",
    [
        "float16",
        "bfloat16",
        "float32",
        "float64",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "bool",
        "complex64",
        "complex128",
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)], ids=str)
def test_dtypes(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    size = int(np.prod(shape))
    values = np.arange(size).reshape(shape).astype(gt.as_dtype(dtype).dtype)
    if dtype.startswith("complex"):
        values = (values * (1 + 2j)).astype(dtype)
    v, t = gt.Variable(values), gt.constant(values)
    path = Checkpoint(v=v).write(tmp_path / "state")
    v.assign(gt.zeros_like(v))
    Checkpoint(v=v).restore(path)
    np.testing.assert_array_equal(v.numpy(), values)
    loaded = gt.load(gt.save(tmp_path / "t", t))
    assert loaded.dtype.name == dtype
    np.testing.assert_array_equal(loaded.numpy(), values)


def test_saving_is_not_noticed_by_a_tape(tmp_path: Path) -> None:
    v = gt.Variable(1.0)
    with gt.GradientTape() as tape:
        Checkpoint(v=v).write(tmp_path / "state")
    assert tape.watched_variables() == ()


# -- numbered files ----------------------------------------------------------------------------------------------------


def test_save_numbers_its_files(tmp_path: Path) -> None:
    v = gt.Variable(1.0)
    checkpoint = Checkpoint(v=v)
    prefix = str(tmp_path / "deep" / "ckpt")
    assert [checkpoint.save(prefix) for _ in range(2)] == [prefix + "-1", prefix + "-2"]
    assert gt.train.latest_checkpoint(tmp_path / "deep") == prefix + "-2"
    assert gt.train.latest_checkpoint(tmp_path) is None
    other = Checkpoint(v=v)
    other.restore(prefix + "-2")
    assert other.save(prefix) == prefix + "-3"


def test_manager_keeps_the_newest(tmp_path: Path) -> None:
    v = gt.Variable(0)
    manager = gt.train.CheckpointManager(Checkpoint(v=v), tmp_path, max_to_keep=2)
    assert manager.latest_checkpoint is None
    assert manager.restore_or_initialize() is None
    for _ in range(4):
        v.assign_add(1)
        manager.save()
    assert [os.path.basename(p) for p in manager.checkpoints] == ["ckpt-3", "ckpt-4"]
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "ckpt-3", "ckpt-4"]
    v.assign(0)
    assert manager.restore_or_initialize() == str(tmp_path / "ckpt-4")
    assert int(v) == 4
    assert manager.save(checkpoint_number=10) == str(tmp_path / "ckpt-10")
    again = gt.train.CheckpointManager(Checkpoint(v=v), str(tmp_path), max_to_keep=None, checkpoint_name="ckpt")
    assert again.latest_checkpoint == str(tmp_path / "ckpt-10")
    with pytest.raises(ValueError, match="max_to_keep"):
        gt.train.CheckpointManager(Checkpoint(v=v), tmp_path, max_to_keep=0)


def test_manager_preserves_one_every_n_hours(tmp_path: Path) -> None:
    manager = gt.train.CheckpointManager(
        Checkpoint(v=gt.Variable(0)), tmp_path, max_to_keep=1, keep_checkpoint_every_n_hours=1.0
    )
    first = manager.save()
    later = os.path.getmtime(first) + 2 * 3600
    os.utime(first, (later, later))
    manager.save()
    manager.save()
    assert os.path.exists(first)
    assert [os.path.basename(p) for p in manager.checkpoints] == ["ckpt-3"]
    assert not os.path.exists(tmp_path / "ckpt-2")


def test_damaged_list_of_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "checkpoint").write_text("{nonsense")
    with pytest.raises(gt.errors.DataLossError, match="checkpoint is damaged"):
        gt.train.latest_checkpoint(tmp_path)


def test_restore_of_none_does_nothing() -> None:
    v = gt.Variable(1.0)
    Checkpoint(v=v).restore(None).expect_partial()
    assert float(v) == 1.0


# -- what does not fit changes nothing -----------------------------------------------------------------------------------


def refused(tmp_path: Path, error: type[Exception], text: str, saved: Any, into: dict[str, Any]) -> None:
    path = saved if isinstance(saved, str) else Checkpoint(**saved).write(tmp_path / "state")
    before = {name: v.numpy().copy() for name, v in into.items()}
    with pytest.raises(error, match=text) as caught:
        Checkpoint(**into).restore(path)
    assert path in str(caught.value)
    for name, v in into.items():
        np.testing.assert_array_equal(v.numpy(), before[name])


def test_missing_name(tmp_path: Path) -> None:
    refused(
        tmp_path, gt.errors.NotFoundError, "has no 'z'; it holds: a, save_counter", {"a": gt.Variable(5.0)},
        {"a": gt.Variable(1.0), "z": gt.Variable(2.0)},
    )  # fmt: skip


def test_shape_mismatch(tmp_path: Path) -> None:
    refused(
        tmp_path, ValueError, r"variable 'theta:0' \('z'\) has shape \(2,\) and dtype float32, but .* holds shape \(3,\)",
        {"a": gt.Variable(5.0), "z": gt.Variable([1.0, 2.0, 3.0])},
        {"a": gt.Variable(1.0), "z": gt.Variable([1.0, 2.0], name="theta")},
    )  # fmt: skip


def test_dtype_mismatch(tmp_path: Path) -> None:
    refused(
        tmp_path, ValueError, "dtype float32, but .* dtype float64",
        {"a": gt.Variable(5.0), "z": gt.Variable(np.ones(2))}, {"a": gt.Variable(1.0), "z": gt.Variable([1.0, 2.0])},
    )  # fmt: skip


def test_no_such_file(tmp_path: Path) -> None:
    refused(tmp_path, gt.errors.NotFoundError, "no checkpoint file", str(tmp_path / "none"), {"a": gt.Variable(1.0)})


def test_kind_of_value_mismatch(tmp_path: Path) -> None:
    path = Checkpoint(a=1).write(tmp_path / "state")
    with pytest.raises(ValueError, match="'a' is a tensor here but the Python value 1"):
        Checkpoint(a=gt.Variable(1.0)).restore(path)
    path = Checkpoint(a=gt.Variable(1.0)).write(tmp_path / "state")
    with pytest.raises(ValueError, match="'a' is a Python value here but a tensor"):
        Checkpoint(a=1).restore(path)


def test_slot_of_another_shape(tmp_path: Path) -> None:
    optimizer, w = gt.optimizers.SGD(0.1, momentum=0.5), gt.Variable([1.0, 2.0])
    optimizer.apply_gradients([([1.0, 1.0], w)])
    path = Checkpoint(optimizer=optimizer).write(tmp_path / "state")
    fresh, other = gt.optimizers.SGD(0.1, momentum=0.5), gt.Variable([1.0, 2.0, 3.0], name="other")
    Checkpoint(optimizer=fresh).restore(path)
    with pytest.raises(ValueError, match="slot 'momentum' of variable 'other:0'"):
        fresh.apply_gradients([([1.0, 1.0, 1.0], other)])
    assert other.numpy().tolist() == [1.0, 2.0, 3.0]


def test_unused_values_are_told(tmp_path: Path) -> None:
    path = Checkpoint(a=gt.Variable(1.0), b=gt.Variable(2.0), n=1).write(tmp_path / "state")
    status = Checkpoint(a=gt.Variable(0.0)).restore(path)
    with pytest.raises(AssertionError, match="no object took: b, n"):
        status.assert_consumed()


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    v = gt.Variable([1.0, 2.0], name="v")
    path = Checkpoint(v=v, n=1).write(tmp_path / "state")
    whole = Path(path).read_bytes()
    v.assign([5.0, 6.0])
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        Path(path).write_bytes(bytes(damaged))
        with pytest.raises((gt.errors.DataLossError, gt.errors.NotFoundError)):
            Checkpoint(v=v, n=1).restore(path)
        assert v.numpy().tolist() == [5.0, 6.0]


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = gt.save(tmp_path / "state", {"a": [1.0, gt.ones(3)]})
    whole = Path(path).read_bytes()
    for length in range(len(whole)):
        Path(path).write_bytes(whole[:length])
        with pytest.raises(gt.errors.DataLossError, match="damaged"):
            gt.load(path)


def test_foreign_file(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.ones(2)}, tmp_path / "foreign")
    assert gt.load(tmp_path / "foreign")["a"].numpy().tolist() == [1.0, 1.0]
    with pytest.raises(gt.errors.DataLossError, match="gradtape did not write"):
        Checkpoint(a=1).restore(tmp_path / "foreign")
    saved = gt.save(tmp_path / "structure", {"a": 1})
    with pytest.raises(gt.errors.DataLossError, match=r"read it with gt\.load"):
        Checkpoint(a=1).restore(saved)
    with pytest.raises(gt.errors.DataLossError, match="restore it there"):
        gt.load(Checkpoint(a=1).write(tmp_path / "checkpointed"))


def test_reserved_names() -> None:
    with pytest.raises(ValueError, match="'save' is the name"):
        Checkpoint(save=1)
