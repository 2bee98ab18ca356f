"""One program for all batch sizes: the last smaller batch of `fit`, `evaluate` and `predict` is not traced again."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.config import settings
from tests.keras import keras_or_none
from tests.keras.cases import LAYERS

keras: Any = keras_or_none()
ROWS, BATCH = 5, 2


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The compiled steps of all trainers, in the order in which they are made."""
    made: list[Any] = []

    def kept(*args: Any, **kwargs: Any) -> Any:
        made.append(gt.function(*args, **kwargs))
        return made[-1]

    monkeypatch.setattr("gradtape.keras.trainer_base.function", kept)
    return made


def ended(x: Any, *layers: Any) -> Any:
    inputs = keras.Input(x.shape[1:], dtype=x.dtype.name)
    for layer in layers:
        x = layer(inputs if layer is layers[0] else x)
    flat = keras.layers.Flatten()(x) if len(x.shape) > 2 else x
    return keras.Model(inputs, keras.layers.Dense(1)(flat))


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=(ROWS, *shape)).astype("float32")


def words(*shape: int) -> Any:
    return np.random.default_rng(0).integers(0, 6, size=(ROWS, *shape)).astype("int32")


def multilayer() -> tuple[Any, Any]:
    layers, x = keras.layers, floats(4)
    return ended(x, layers.Dense(5, activation="relu"), layers.BatchNormalization()), x


def convolutions() -> tuple[Any, Any]:
    layers, x = keras.layers, floats(8, 8, 2)
    parts = [layers.Conv2D(3, 3, padding="same", activation="relu"), layers.BatchNormalization(), layers.MaxPooling2D(2)]
    parts += [layers.DepthwiseConv2D(2), layers.Conv2DTranspose(2, 2, strides=2), layers.AveragePooling2D(2)]
    return ended(x, *parts, layers.Resizing(5, 5), layers.UpSampling2D(2, interpolation="bilinear")), x


def recurrent() -> tuple[Any, Any]:
    layers, x = keras.layers, floats(4, 3)
    return ended(x, layers.LSTM(4, return_sequences=True), layers.Bidirectional(layers.GRU(3))), x


def attention() -> tuple[Any, Any]:
    layers, x = keras.layers, words(4)
    inputs = keras.Input((4,), dtype="int32")
    between = layers.Embedding(6, 4, mask_zero=True)(inputs)
    between += layers.MultiHeadAttention(2, 3, dropout=0.1)(between, between, use_causal_mask=True)
    between = layers.LayerNormalization()(between)
    pooled = layers.GlobalAveragePooling1D()(layers.Attention()([between, between]))
    return keras.Model(inputs, layers.Dense(1)(pooled)), x


@pytest.mark.parametrize("make", [multilayer, convolutions, recurrent, attention])
def test_one_trace_for_a_smaller_last_batch(
    make: Callable[[], tuple[Any, Any]], steps: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if make is attention:  # it draws, so that only its traces are compared, which machine code has no part in
        monkeypatch.setitem(settings, "native", False)
    keras.utils.set_random_seed(1)
    model, x = make()
    keras.utils.set_random_seed(1)
    eager, _ = make()
    y = np.random.default_rng(1).normal(size=(ROWS, 1)).astype("float32")
    results = []
    for each in (model, eager):
        each.compile("sgd", "mse", metrics=["mae"], run_eagerly=each is eager)
        fitted = each.fit(x, y, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history["loss"]
        options = {"batch_size": BATCH, "verbose": 0}
        results.append([*fitted, *each.evaluate(x, y, **options), *each.predict(x, **options).ravel()])
    assert [step.experimental_get_tracing_count() for step in steps] == [1, 1, 1]
    if make is not attention:
        np.testing.assert_allclose(results[0], results[1], rtol=2e-4, atol=2e-5)


def test_sizes_that_nobody_announced(steps: list[Any]) -> None:
    """A generator does not say how large its batches will be: the second size opens the dimension, further ones fit."""
    model, x = multilayer()
    model.compile("sgd", "mse")
    sizes = (4, 3, 2, 4, 1, 5)
    batches = ((x[:rows], np.ones((rows, 1), "float32")) for rows in sizes)
    model.fit(batches, steps_per_epoch=len(sizes), shuffle=False, verbose=0)
    for rows in sizes:
        model.train_on_batch(x[:rows], np.ones((rows, 1), "float32"))
    assert steps[0].experimental_get_tracing_count() == 2


def ending(x: Any, size: int) -> dict[str, Any]:
    """What does not say how its batches end."""
    y, starts = np.ones((len(x), 1), "float32"), range(0, len(x), size)

    class Batches(keras.utils.PyDataset):
        def __len__(self) -> int:
            return len(starts)

        def __getitem__(self, index: int) -> Any:
            return x[starts[index] : starts[index] + size], y[starts[index] : starts[index] + size]

    rows = gt.data.Dataset.from_tensor_slices((x, y))
    return {
        "generator": ((x[i : i + size], y[i : i + size]) for i in starts),
        "PyDataset": Batches(),
        "filtered": rows.filter(lambda x, y: y[0] > 0.0).batch(size),
    }


@pytest.mark.parametrize("source", ["generator", "PyDataset", "filtered"])
def test_what_ends_by_itself_may_end_with_a_smaller_batch(source: str, steps: list[Any]) -> None:
    losses = []
    for eager in (False, True):
        keras.utils.set_random_seed(1)
        model, x = multilayer()
        model.compile("sgd", "mse", run_eagerly=eager)
        losses.append(model.fit(ending(x, BATCH)[source], shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert steps[0].experimental_get_tracing_count() == 1


def test_a_model_of_so_many_rows_is_told_their_number(steps: list[Any]) -> None:
    """The states of a layer that keeps them have as many rows as the model's input says."""
    model = keras.Sequential(
        [keras.Input(batch_shape=(BATCH, 3, 2)), keras.layers.GRU(2, stateful=True), keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    model.fit(ending(floats(3, 2)[: 2 * BATCH], BATCH)["generator"], shuffle=False, verbose=0)
    assert steps[0].experimental_get_tracing_count() == 1


@pytest.mark.parametrize("drop", [False, True])
def test_a_dataset_that_knows_its_last_batch_says_so(drop: bool, steps: list[Any]) -> None:
    model, x = multilayer()
    model.compile("sgd", "mse")
    data = gt.data.Dataset.from_tensor_slices((x, np.ones((ROWS, 1), "float32")))
    batches = data.shuffle(ROWS).batch(BATCH, drop_remainder=drop).map(lambda x, y: (x * 2.0, y)).prefetch(1)
    model.fit(batches, epochs=2, verbose=0)
    model.predict(batches, verbose=0)
    assert [step.experimental_get_tracing_count() for step in steps] == [1, 1]
    assert ("float32[2,4]" in steps[0].to_text().splitlines()[0]) == drop
    assert data.batch(BATCH).repeat(2)._stage.remainder() == ROWS % BATCH
    assert not data.batch(BATCH).take(2)._stage.remainder()
    assert not data.filter(lambda x, y: x[0] > 0.0).batch(BATCH)._stage.remainder()


def test_a_long_training_has_a_program_of_its_own_for_full_batches(steps: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    losses = []
    for long in (10**9, 3):
        monkeypatch.setattr("gradtape.keras.trainer_base._LONG", long)
        keras.utils.set_random_seed(1)
        model, x = multilayer()
        model.compile("adam", "mse")
        y = np.ones((ROWS, 1), "float32")
        losses.append(model.fit(x, y, batch_size=BATCH, epochs=8, shuffle=False, verbose=0).history["loss"])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    # the last batch has the open one in its first three epochs
    assert [step.experimental_get_tracing_count() for step in steps] == [1, 1, 2]


def test_a_size_of_its_own_keeps_its_program(steps: list[Any]) -> None:
    """Where all batches are of one size it is part of the program: that is faster."""
    model, x = multilayer()
    model.predict(x, batch_size=ROWS, verbose=0)
    assert "float32[5,4]" in steps[0].to_text().splitlines()[0]


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str, steps: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    options, (_, *shape) = LAYERS[name]
    if not hasattr(keras.layers, name):
        pytest.skip(f"this version of Keras has no {name}")
    x = floats(*shape)
    inputs = keras.Input(x.shape[1:])
    model = keras.Model(inputs, getattr(keras.layers, name)(**options)(inputs))
    monkeypatch.setitem(settings, "native", False)  # the question is what can be traced
    results = model.predict(x, batch_size=BATCH, verbose=0)
    assert steps[0].experimental_get_tracing_count() == 1
    np.testing.assert_allclose(results, model(x, training=False), rtol=1e-5, atol=1e-5)
