"""`fit` with steps of the user's own, and what feeds it: each source trains to the same losses, nothing is left unread."""

import contextlib
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.keras import keras_or_none
from tests.keras.test_engine import data, small

keras: Any = keras_or_none()


def own_step(model: Any, loss_of: Any) -> Any:
    """A model class with a `train_step` as Keras's guides write them; it has no `call`."""

    class Stepping(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model
            self.tracker = keras.metrics.Mean(name="loss")

        @property
        def metrics(self) -> list[Any]:
            return [self.tracker]

        def train_step(self, batch: Any) -> Any:
            with gt.GradientTape() as tape:
                loss = loss_of(self.inner, batch)
            weights = self.inner.trainable_weights
            self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            self.tracker.update_state(loss)
            return {"loss": self.tracker.result()}

    return Stepping()


def test_a_model_without_call_builds_itself_in_its_step() -> None:
    """As the autoencoders and GANs of Keras's guides: the step is all there is."""
    x, _ = data()
    model = own_step(
        keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(4)]), lambda net, x: gt.reduce_mean((net(x) - x) ** 2)
    )
    model.compile(keras.optimizers.Adam(0.05))
    losses = model.fit(x, batch_size=20, epochs=4, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def test_a_step_that_reads_parts_of_a_batch() -> None:
    x, y = data()

    def loss_of(net: Any, batch: Any) -> Any:
        return gt.reduce_mean((net(batch["near"]) - batch["target"]) ** 2)

    model = own_step(keras.Sequential([keras.layers.Dense(1)]), loss_of)
    model.compile(keras.optimizers.SGD(0.1))
    losses = model.fit({"near": x, "target": y}, batch_size=20, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]


def sources(x: Any, y: Any, size: int) -> dict[str, tuple[Any, ...]]:
    """What `fit` may be given for the same batches."""
    starts = range(0, len(x), size)

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return len(starts)

        def __getitem__(self, index: int) -> Any:
            return x[index * size : (index + 1) * size], y[index * size : (index + 1) * size]

    def endless() -> Any:
        while True:
            yield from ((x[start : start + size], y[start : start + size]) for start in starts)

    rows = gt.data.Dataset.from_tensor_slices((x, y))
    return {
        "tensors": (gt.constant(x), gt.constant(y)),
        "dataset": (rows.batch(size),),
        "dataset that repeats": (rows.batch(size).repeat(),),
        "prefetched": (rows.batch(size).prefetch(2),),
        "PyDataset": (Batches(),),
        "generator": (endless(),),
    }


@pytest.mark.parametrize("kind", ["tensors", "dataset", "dataset that repeats", "prefetched", "PyDataset", "generator"])
def test_every_source_trains_to_the_same_losses(kind: str) -> None:
    x, y = data()
    losses = []
    for source in ((x, y), sources(x, y, 20)[kind]):
        model = small()
        model.compile(keras.optimizers.SGD(0.05), "mse")
        whole = kind in ("generator", "dataset that repeats") and len(source) == 1
        options = {"steps_per_epoch": 3} if whole else {"batch_size": 20} if len(source) == 2 else {}
        losses.append(model.fit(*source, **options, epochs=2, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def labelled() -> tuple[Any, Any]:
    x, _ = data()
    return x, np.random.default_rng(2).integers(0, 3, len(x))


@pytest.mark.parametrize("codes", [False, True])
def test_class_weights_reach_the_batches_of_a_dataset(codes: bool) -> None:
    x, y = labelled()
    targets = np.eye(3, dtype="float32")[y] if codes else y
    loss = keras.losses.CategoricalCrossentropy if codes else keras.losses.SparseCategoricalCrossentropy
    losses = []
    for dataset in (False, True):
        model = small(units=3)
        model.compile(keras.optimizers.SGD(0.1), loss(from_logits=True))
        source = (gt.data.Dataset.from_tensor_slices((x, targets)).batch(20),) if dataset else (x, targets)
        options = {} if dataset else {"batch_size": 20}
        weights = {0: 0.5, 1: 3.0}
        losses.append(model.fit(*source, class_weight=weights, shuffle=False, verbose=0, epochs=2, **options).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_nothing_that_is_given_is_left_unread() -> None:
    x, y = labelled()
    model = small(units=3)
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    dataset = gt.data.Dataset.from_tensor_slices((x, y)).batch(20)
    with pytest.raises(ValueError, match=r"`y` was given beside a gt\.data.Dataset"):
        model.fit(dataset, y, verbose=0)
    with pytest.raises(ValueError, match=r"`sample_weight` was given beside a gt\.data.Dataset"):
        model.evaluate(dataset, sample_weight=np.ones(len(x)), verbose=0)
    weighted = gt.data.Dataset.from_tensor_slices((x, y, np.ones(len(x)))).batch(20)
    with pytest.raises(ValueError, match="give no `class_weight`"):
        model.fit(weighted, class_weight={0: 2.0}, verbose=0)
    with pytest.raises(ValueError, match="y is one tensor"):
        model.fit(dataset.map(lambda x, y: (x, (y, y))), class_weight={0: 2.0}, verbose=0)


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("label", [3, -1])
def test_a_label_outside_the_classes_is_refused(label: int, from_logits: bool) -> None:
    """A code of zeros for it would be a loss of zero: quietly a smaller loss."""
    scores = np.full((2, 3), 1 / 3, "float32")
    compute = lambda labels: keras.losses.sparse_categorical_crossentropy(labels, scores, from_logits)  # noqa: E731
    for run in (compute, gt.function(compute), gt.function(compute, jit_compile=False)):
        with pytest.raises(gt.errors.InvalidArgumentError, match=rf"label {label} is not in \[0, 3\)"):
            run(gt.constant([0, label]))


def test_a_function_of_gradtape_on_an_input_of_a_functional_model() -> None:
    with pytest.raises(ValueError, match=r"use `keras.ops` and layers: keras.ops.sum\(x\), or a Layer"):
        gt.reduce_sum(keras.Input((5,)), 1)


def test_a_model_of_a_strategy_is_not_trained_on_each_rank_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two ranks, whose variables would drift apart without a word; tried with `mpiexec -n 2`, here by what it asks."""
    from gradtape.keras import trainer_base

    class TwoRanks:
        size = 2

    model = keras.Sequential([keras.layers.Dense(2)])
    model.build((None, 3))
    model.compile("sgd", "mse")
    monkeypatch.setattr(trainer_base.HOOKS, "world", TwoRanks())
    model.make_train_function()
    monkeypatch.setattr(trainer_base, "MirroredVariable", gt.Variable)
    with pytest.raises(gt.errors.FailedPreconditionError, match=r"strategy of 2 ranks.* strategy\.run"):
        model.make_train_function(force=True)


@pytest.mark.parametrize("steps", [None, 4])
def test_the_end_of_data_of_unknown_length_is_no_interruption(steps: int | None) -> None:
    """Warnings are errors here. Where more was asked for than there is, it is one."""
    x = np.arange(12.0, dtype="float32").reshape(6, 2)
    dataset = gt.data.Dataset.from_tensor_slices((x, x[:, :1])).filter(lambda x, y: y[0] < 100.0).batch(2)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    told = pytest.warns(UserWarning, match="ran out of data") if steps else contextlib.nullcontext()
    with told:
        losses = model.fit(dataset, epochs=1 if steps else 3, steps_per_epoch=steps, verbose=0).history["loss"]
    assert len(losses) == (1 if steps else 3)
    model.evaluate(dataset, verbose=0)
    assert model.predict(dataset.map(lambda x, y: x), verbose=0).shape == (6, 1)
