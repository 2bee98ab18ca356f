"""The row group `fit`: one step of Keras's `fit` on each engine, the same script: `python -m benchmarks.fitting [model ...]`.

Every engine runs in a process of its own, one after the other, in rounds, so that a busy moment of the machine meets all of
them; of each the best round counts. `--root` is where the peers' environments are made, `--python jax=/path/to/python` names
one that is there; Keras itself is taken from this interpreter where a peer's has none. One thread unless `--threads` says
otherwise. The losses are printed beside: initial weights differ among engines, so they are alike, not equal.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments import prepared

ENGINES = ("gradtape", "jax", "tensorflow", "torch")
CLASSES = 10
# name: shape of an example, examples in a batch, batches in an epoch, epochs that are timed together
SIZES: dict[str, tuple[tuple[int, ...], int, int, int]] = {
    "mlp": ((64,), 64, 50, 8),
    "conv": ((28, 28, 1), 32, 20, 2),
    "lstm": ((32, 16), 32, 20, 3),
    "transformer": ((32, 64), 32, 20, 3),
    "mobilenet": ((96, 96, 3), 8, 3, 1),
}


def built(name: str, keras: Any) -> Any:
    """One of the models, whose last layer gives logits."""
    layers = keras.layers
    if name == "mobilenet":
        return keras.applications.MobileNetV2(SIZES[name][0], weights=None, classes=CLASSES, classifier_activation=None)
    inputs = x = keras.Input(SIZES[name][0])
    if name == "mlp":
        x = layers.Dense(128, "relu")(layers.Dense(128, "relu")(x))
    elif name == "conv":
        for filters in (16, 32):
            x = layers.MaxPooling2D()(layers.Conv2D(filters, 3, activation="relu")(x))
        x = layers.Flatten()(x)
    elif name == "lstm":
        x = layers.LSTM(64)(x)
    else:
        x = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(4, 16)(x, x)]))
        x = layers.LayerNormalization()(layers.Add()([x, layers.Dense(64)(layers.Dense(128, "relu")(x))]))
        x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, layers.Dense(CLASSES)(x))


def measured(name: str, keras: Any) -> dict[str, float]:
    """Seconds of the first step, milliseconds of a later one (the least of four), the last loss."""
    keras.utils.set_random_seed(0)
    shape, batch, count, epochs = SIZES[name]
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(batch * count, *shape)).astype("float32"), rng.integers(0, CLASSES, batch * count)
    model = built(name, keras)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="adam", loss=loss, metrics=["accuracy"])
    start = time.perf_counter()
    model.fit(x[:batch], y[:batch], batch_size=batch, verbose=0)
    first, times = time.perf_counter() - start, []
    for _ in range(4):
        start = time.perf_counter()
        history = model.fit(x, y, batch_size=batch, epochs=epochs, shuffle=False, verbose=0)
        times.append(time.perf_counter() - start)
    return {"first": first, "step": min(times) / (count * epochs) * 1e3, "loss": history.history["loss"][-1]}


def worker(engine: str, name: str, threads: int, place: str) -> dict[str, float]:
    """A measurement in this process, which has imported nothing of an engine yet."""
    if importlib.util.find_spec("keras") is None:
        sys.path.append(place)  # after the peer's own packages
    if engine == "gradtape":
        importlib.import_module("gradtape.keras")
    elif engine == "torch":
        importlib.import_module("torch").set_num_threads(threads)
    return measured(name, importlib.import_module("keras"))


def environment(engine: str, threads: int) -> dict[str, str]:
    """Variables that choose the engine and bound its threads."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
    chosen = {"TF_CPP_MIN_LOG_LEVEL": "3", **dict.fromkeys(names, str(threads))}
    if engine == "jax" and threads == 1:
        chosen["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    if engine != "gradtape":
        chosen["KERAS_BACKEND"] = engine
    return {**os.environ, **chosen}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(SIZES), help=f"of {', '.join(SIZES)}")
    parser.add_argument("--root", type=Path, default=Path(".benchmarks"), help="where the peers' environments are")
    parser.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH", help="an environment that is there")
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--worker", choices=ENGINES, help="measure one, in this interpreter")
    parser.add_argument("--keras", default="", help="for a worker: where Keras is")
    options = parser.parse_args()
    if options.worker is not None:
        print(json.dumps(worker(options.worker, options.models[0], options.threads, options.keras)))
        return
    pythons = {"gradtape": sys.executable, **dict(given.split("=", 1) for given in options.python)}
    keras = importlib.util.find_spec("keras")
    place = str(Path(str(keras.origin)).parent.parent) if keras is not None else ""
    for engine in options.engines:
        if engine not in pythons:
            python, problem = prepared(engine, options.root)
            print(f"{engine}: {problem}" if problem else f"{engine}: {python}", file=sys.stderr)
            pythons[engine] = python
    print(f"{'':14}{'engine':12}{'first step, s':>14}{'step, ms':>12}{'loss':>9}")
    for name in options.models:
        best: dict[str, dict[str, float]] = {}
        for _ in range(options.rounds):
            for engine in (each for each in options.engines if pythons[each]):
                command = [pythons[engine], "-m", "benchmarks.fitting", name, "--worker", engine, "--keras", place]
                command += ["--threads", str(options.threads)]
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True, env=environment(engine, options.threads)
                )
                result = json.loads(done.stdout.splitlines()[-1])
                best[engine] = min(result, best.get(engine, result), key=lambda each: each["step"])
        for engine, result in best.items():
            print(f"{name:14}{engine:12}{result['first']:14.2f}{result['step']:12.3f}{result['loss']:9.4f}", flush=True)


if __name__ == "__main__":
    main()
