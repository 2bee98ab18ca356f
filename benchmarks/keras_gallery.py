"""Ten models of the kinds Keras's gallery has, trained on gradtape and on a peer from the same weights and data.

`python -m benchmarks.keras_gallery [model ...]` prints the losses of both and how far apart they ever are; it fails where that
is more than `APART`. The programs are written once, for `tf` being gradtape or TensorFlow; those that take derivatives
themselves (GAN, siamese, WGAN-GP) use its tape. Noise is part of the data, as engines draw differently. Models with embeddings
are compared with JAX: on TensorFlow the gradient of an embedding has a row for every use of a word, and Keras's Adam there
squares the rows one by one, not their sum.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments import prepared

APART = 1e-4  # relative difference of losses in float32, after at least 24 steps
Losses = list[float]


def started(*models: Any) -> None:
    """Weights that do not depend on the engine: matrices and kernels by one rule, biases and scales as they are."""
    rng = np.random.default_rng(0)
    for model in models:
        arrays = model.get_weights()
        model.set_weights([rng.normal(0, 1 / np.sqrt(np.prod(a.shape[:-1])), a.shape) if a.ndim > 1 else a for a in arrays])


def images(count: int, size: int = 12, channels: int = 1) -> Any:
    return np.random.default_rng(1).random((count, size, size, channels)).astype("float32")


def classes(count: int, number: int) -> Any:
    return np.random.default_rng(2).integers(0, number, count)


def fitted(keras: Any, model: Any, x: Any, y: Any, loss: Any, epochs: int = 4, rate: float = 3e-3) -> Losses:
    """Losses of the epochs of `fit`: seven batches each, the last a smaller one."""
    started(model)
    model.compile(keras.optimizers.Adam(rate), loss)
    return [float(v) for v in model.fit(x, y, batch_size=16, epochs=epochs, shuffle=False, verbose=0).history["loss"]]


def mlp(tf: Any, keras: Any) -> Losses:
    k, x = keras.layers, np.random.default_rng(1).normal(size=(100, 20)).astype("float32")
    model = keras.Sequential([keras.Input((20,)), k.Dense(32, "relu"), k.Dense(32, "gelu"), k.Dense(5)])
    return fitted(keras, model, x, classes(100, 5), keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def conv_net(tf: Any, keras: Any) -> Losses:
    k = keras.layers
    parts = [k.Conv2D(8, 3, activation="relu"), k.MaxPooling2D(), k.Conv2D(16, 3, activation="relu"), k.Flatten(), k.Dense(5)]
    model = keras.Sequential([keras.Input((12, 12, 1)), *parts])
    return fitted(keras, model, images(100), classes(100, 5), keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def residual_net(tf: Any, keras: Any) -> Losses:
    k = keras.layers
    inputs = keras.Input((12, 12, 3))
    x = k.Conv2D(8, 3, padding="same")(inputs)
    for filters, strides in ((8, 1), (16, 2)):
        y = k.ReLU()(k.BatchNormalization()(k.Conv2D(filters, 3, strides, "same", use_bias=False)(x)))
        y = k.BatchNormalization()(k.Conv2D(filters, 3, padding="same", use_bias=False)(y))
        short = x if strides == 1 else k.Conv2D(filters, 1, strides, use_bias=False)(x)
        x = k.ReLU()(k.Add()([short, y]))
    model = keras.Model(inputs, k.Dense(5)(k.GlobalAveragePooling2D()(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return fitted(keras, model, images(100, channels=3), classes(100, 5), loss)


def mobile_net(tf: Any, keras: Any) -> Losses:
    k = keras.layers
    inputs = keras.Input((12, 12, 3))
    x = k.Conv2D(8, 3, 2, "same", use_bias=False)(inputs)
    for filters, strides in ((8, 1), (12, 2)):
        y = k.ReLU(6.0)(k.BatchNormalization()(k.Conv2D(24, 1, use_bias=False)(x)))
        y = k.ReLU(6.0)(k.BatchNormalization()(k.DepthwiseConv2D(3, strides, "same", use_bias=False)(y)))
        y = k.BatchNormalization()(k.Conv2D(filters, 1, use_bias=False)(y))
        x = k.Add()([x, y]) if strides == 1 else y
    model = keras.Model(inputs, k.Dense(5)(k.GlobalAveragePooling2D()(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return fitted(keras, model, images(100, channels=3), classes(100, 5), loss)


def lstm_classifier(tf: Any, keras: Any) -> Losses:
    k = keras.layers
    words = np.random.default_rng(1).integers(1, 30, (100, 12))
    words[np.arange(12) >= np.random.default_rng(3).integers(3, 13, (100, 1))] = 0  # padding
    model = keras.Sequential([keras.Input((12,), dtype="int32"), k.Embedding(30, 8, mask_zero=True)])
    model.add(k.Bidirectional(k.LSTM(8)))
    model.add(k.Dense(1, "sigmoid"))
    return fitted(keras, model, words, classes(100, 2).astype("float32")[:, None], "binary_crossentropy", rate=1e-2)


def transformer(tf: Any, keras: Any) -> Losses:
    k = keras.layers

    class WordsAndPlaces(k.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = k.Embedding(30, 16), k.Embedding(10, 16)

        def build(self, shape: Any) -> None:
            self.words.build(shape)
            self.places.build((10,))

        def call(self, x: Any) -> Any:
            return self.words(x) + self.places(keras.ops.arange(10))

    inputs = keras.Input((10,), dtype="int32")
    x = WordsAndPlaces()(inputs)
    x = k.LayerNormalization(epsilon=1e-6)(x + k.MultiHeadAttention(2, 8)(x, x))
    x = k.LayerNormalization(epsilon=1e-6)(x + k.Dense(16)(k.Dense(32, "relu")(x)))
    model = keras.Model(inputs, k.Dense(5)(k.GlobalAveragePooling1D()(x)))
    words = np.random.default_rng(1).integers(0, 30, (100, 10))
    return fitted(keras, model, words, classes(100, 5), keras.losses.SparseCategoricalCrossentropy(from_logits=True))


def autoencoder(tf: Any, keras: Any) -> Losses:
    k = keras.layers
    parts = [k.Conv2D(8, 3, 2, "same", activation="relu"), k.Conv2D(4, 3, 2, "same", activation="relu")]
    parts += [k.Conv2DTranspose(8, 3, 2, "same", activation="relu"), k.Conv2DTranspose(8, 3, 2, "same", activation="relu")]
    model = keras.Sequential([keras.Input((12, 12, 1)), *parts, k.Conv2D(1, 3, padding="same", activation="sigmoid")])
    x = images(100)
    return fitted(keras, model, x, x, "binary_crossentropy")


def generator_and_critic(keras: Any) -> tuple[Any, Any]:
    k = keras.layers
    generator = keras.Sequential([keras.Input((6,)), k.Dense(36), k.LeakyReLU(0.2), k.Reshape((3, 3, 4))])
    for filters in (8, 1):
        generator.add(k.Conv2DTranspose(filters, 4, 2, "same", activation="tanh"))
    critic = keras.Sequential([keras.Input((12, 12, 1)), k.Conv2D(8, 3, 2, "same"), k.LeakyReLU(0.2), k.Flatten(), k.Dense(1)])
    started(generator, critic)
    return generator, critic


def gan(tf: Any, keras: Any) -> Losses:
    """A model whose `train_step` takes two tapes; it has no `call`."""
    generator, critic = generator_and_critic(keras)
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    class Game(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.generator, self.critic = generator, critic
            self.both = [keras.optimizers.Adam(1e-3), keras.optimizers.Adam(1e-3)]
            self.mean = keras.metrics.Mean(name="loss")

        def train_step(self, data: Any) -> Any:
            real, noise = data
            with tf.GradientTape() as tape:
                told, fooled = self.critic(real), self.critic(self.generator(noise))
                wrong = entropy(tf.ones_like(told), told) + entropy(tf.zeros_like(fooled), fooled)
            weights = self.critic.trainable_weights
            self.both[0].apply_gradients(zip(tape.gradient(wrong, weights), weights, strict=True))
            with tf.GradientTape() as tape:
                fooled = self.critic(self.generator(noise))
                seen = entropy(tf.ones_like(fooled), fooled)
            weights = self.generator.trainable_weights
            self.both[1].apply_gradients(zip(tape.gradient(seen, weights), weights, strict=True))
            self.mean.update_state(wrong + seen)
            return {"loss": self.mean.result()}

    game = Game()
    game.compile()
    noise = np.random.default_rng(4).normal(size=(100, 6)).astype("float32")
    batches = tf.data.Dataset.from_tensor_slices((images(100) * 2 - 1, noise)).batch(16)
    return [float(v) for v in game.fit(batches, epochs=4, verbose=0).history["loss"]]


def siamese(tf: Any, keras: Any) -> Losses:
    """Triplets and one encoder, a loop of one's own over a dataset."""
    k = keras.layers
    encoder = keras.Sequential([keras.Input((12, 12, 1)), k.Conv2D(8, 3, 2, activation="relu"), k.Flatten(), k.Dense(6)])
    started(encoder)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(encoder.trainable_variables)

    @tf.function
    def step(anchor: Any, near: Any, far: Any) -> Any:
        with tf.GradientTape() as tape:
            places = [tf.nn.l2_normalize(encoder(part, training=True), axis=1) for part in (anchor, near, far)]
            gap = tf.reduce_sum((places[0] - places[1]) ** 2, 1) - tf.reduce_sum((places[0] - places[2]) ** 2, 1)
            loss = tf.reduce_mean(tf.maximum(gap + 0.5, 0.0))
        weights = encoder.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    x = images(96)
    rows = tf.data.Dataset.from_tensor_slices((x, np.roll(x, 1, 1), x[::-1].copy())).batch(16)
    return [float(np.mean([float(step(*batch)) for batch in rows])) for _ in range(4)]


def wgan_gp(tf: Any, keras: Any) -> Losses:
    """The critic's loss has the gradient of the critic in it, so its gradient is of second order."""
    generator, critic = generator_and_critic(keras)
    optimizers = [keras.optimizers.Adam(1e-3, beta_1=0.5), keras.optimizers.Adam(1e-3, beta_1=0.5)]
    for optimizer, model in zip(optimizers, (critic, generator), strict=True):
        optimizer.build(model.trainable_variables)

    @tf.function
    def step(real: Any, noise: Any, share: Any) -> Any:
        with tf.GradientTape() as tape:
            made = generator(noise, training=True)
            between = share * real + (1.0 - share) * made
            with tf.GradientTape() as inner:
                inner.watch(between)
                judged = critic(between, training=True)
            slopes = tf.sqrt(tf.reduce_sum(inner.gradient(judged, between) ** 2, axis=[1, 2, 3]) + 1e-12)
            cost = tf.reduce_mean(critic(made)) - tf.reduce_mean(critic(real)) + 10.0 * tf.reduce_mean((slopes - 1.0) ** 2)
        weights = critic.trainable_variables
        optimizers[0].apply_gradients(zip(tape.gradient(cost, weights), weights, strict=True))
        with tf.GradientTape() as tape:
            praised = -tf.reduce_mean(critic(generator(noise, training=True)))
        weights = generator.trainable_variables
        optimizers[1].apply_gradients(zip(tape.gradient(praised, weights), weights, strict=True))
        return cost + praised

    rng = np.random.default_rng(4)
    noise, share = rng.normal(size=(96, 6)).astype("float32"), rng.random((96, 1, 1, 1)).astype("float32")
    rows = tf.data.Dataset.from_tensor_slices((images(96) * 2 - 1, noise, share)).batch(16)
    return [float(np.mean([float(step(*batch)) for batch in rows])) for _ in range(4)]


MODELS: dict[str, Callable[[Any, Any], Losses]] = {
    each.__name__: each
    for each in (
        mlp, conv_net, residual_net, mobile_net, lstm_classifier, transformer, autoencoder, gan, siamese, wgan_gp,
    )
}  # fmt: skip


PEERS = {name: "jax" if name in ("lstm_classifier", "transformer") else "tensorflow" for name in MODELS}


def worker(engine: str, names: list[str], place: str) -> dict[str, Losses]:
    """Losses in this process, which has imported nothing of an engine yet."""
    if importlib.util.find_spec("keras") is None:
        sys.path.append(place)  # after the peer's own packages
    tf = importlib.import_module(engine)
    keras = tf.keras if engine == "gradtape" else importlib.import_module("keras")
    return {name: MODELS[name](tf, keras) for name in names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--root", type=Path, default=Path(".benchmarks"), help="where the peers' environments are made")
    parser.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH", help="an environment that is there")
    parser.add_argument("--worker", choices=("gradtape", "jax", "tensorflow"), help="train with one, in this interpreter")
    parser.add_argument("--keras", default="", help="for a worker: where Keras is")
    options = parser.parse_args()
    if options.worker is not None:
        print(json.dumps(worker(options.worker, options.models, options.keras)))
        return 0
    ours = trained("gradtape", sys.executable, options.models)
    theirs: dict[str, Losses] = {}
    pythons = dict(given.split("=", 1) for given in options.python)
    for engine in sorted({PEERS[name] for name in options.models}):
        python, problem = (pythons[engine], "") if engine in pythons else prepared(engine, options.root)
        if problem:
            print(f"{engine}: {problem}", file=sys.stderr)
            return 1
        theirs |= trained(engine, python, [name for name in options.models if PEERS[name] == engine])
    return compared(ours, theirs)


def trained(engine: str, python: str, names: list[str]) -> dict[str, Losses]:
    """Losses of some models on an engine, in a process of its own."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    if engine != "gradtape":
        environment["KERAS_BACKEND"] = engine
    keras = importlib.util.find_spec("keras")
    place = str(Path(str(keras and keras.origin)).parent.parent)
    words = [python, "-m", "benchmarks.keras_gallery", "--worker", engine, "--keras", place, *names]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Losses] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(ours: dict[str, Losses], theirs: dict[str, Losses]) -> int:
    print(f"{'':16}{'first epoch':>12}{'last epoch':>12}{'peer':>12}{'apart':>10}  peer")
    worst = 0.0
    for name in ours:
        own, other = np.array(ours[name]), np.array(theirs[name])
        apart = float(np.max(np.abs(own - other) / np.abs(other)))
        worst = max(worst, apart)
        print(f"{name:16}{own[0]:12.6f}{own[-1]:12.6f}{other[-1]:12.6f}{apart:10.1e}  {PEERS[name]}")
    return 0 if worst < APART else 1


if __name__ == "__main__":
    sys.exit(main())
