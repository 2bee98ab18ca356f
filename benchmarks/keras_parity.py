"""Values and derivatives of Keras's layers, losses and operations on gradtape and on a peer (`-m benchmarks.keras_parity`).

The cases are those of `tests/keras/cases.py`, which the tests hold to finite differences; here the same calls run on Keras with
TensorFlow's tape, in float64, from the same weights. Layers that draw are left out: engines draw differently. It prints the
cases that differ by more than `APART` or that one of the two refuses, and fails if one differs that `KNOWN` does not explain.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.environments import prepared

APART = 1e-6
KNOWN = {  # differences that are TensorFlow's or Keras's, each looked at beside JAX
    "ops.sparsemax": "Keras adds up the sums of all ranks, so its shares do not add up to 1 on any engine; ours do",
    "ops.image.affine_transform": "TensorFlow's derivative is not that of its interpolation; JAX's and quotients are ours",
    "ops.image.perspective_transform": "as affine_transform",
    "ops.image.hsv_to_rgb": "TensorFlow's operation has no derivative; JAX's is ours",
    "ops.image.resize": "TensorFlow's bicubic weights come from a table of 1,024 steps; JAX's are ours",
    "ops.image.sobel_edges": "TensorFlow mirrors the border, JAX pads it as we do",
}
Case = tuple[str, Callable[[Any], Any], Any, Any]  # name, what is computed, the layer or None, the point


def every_case(keras: Any) -> Iterator[Case]:
    """All that this version of Keras has."""
    from tests.keras.cases import COMPOSED, LAYERS, LOSSES, OPERATIONS, values

    for name, (options, shape) in LAYERS.items():
        if hasattr(keras.layers, name) and "seed" not in options:
            layer = getattr(keras.layers, name)(dtype="float64", **options)
            trains = {"training": True} if "training" in inspect.signature(layer.call).parameters else {}
            yield f"layers.{name}", lambda x, layer=layer, trains=trains: layer(x, **trains), layer, values(*shape)
    for name, (make, call, shape) in COMPOSED.items():
        if hasattr(keras.layers, name):
            layer = make(keras.layers)
            yield f"layers.{name}", lambda x, layer=layer, call=call: call(layer, x), layer, values(*shape)
    for name, target in LOSSES.items():
        if hasattr(keras.losses, name):
            loss = getattr(keras.losses, name)(dtype="float64")
            x = np.random.default_rng(4).dirichlet(np.ones(4) * 3, size=len(target)) * 0.9 + 0.03
            yield f"losses.{name}", lambda x, loss=loss, target=target: loss(target, x), None, x
    for name, compute in OPERATIONS.items():
        yield f"ops.{name}", lambda x, compute=compute: compute(keras.ops, x), None, values(3, 4)


def answers(tf: Any, compute: Callable[[Any], Any], layer: Any, x: Any) -> list[Any]:
    """The value, and the derivatives of a weighted sum of it in the point and the weights, as lists."""
    point = tf.constant(x)
    if layer is not None:
        compute(point)  # builds it
        for number, variable in enumerate(layer.variables):
            if "float" in str(variable.dtype) and len(variable.shape):
                variable.assign(0.5 + 0.3 * np.random.default_rng(number).normal(size=tuple(variable.shape)))
    weights = [] if layer is None else list(layer.trainable_variables)
    sources = [getattr(weight, "value", weight) if tf.__name__ == "tensorflow" else weight for weight in weights]
    with tf.GradientTape() as tape:
        tape.watch(point)
        out = compute(point)
        loss = tf.reduce_sum(out * tf.constant(np.random.default_rng(1).normal(size=tuple(out.shape)), out.dtype))
    slopes = tape.gradient(loss, [point, *sources], unconnected_gradients="zero")
    return [np.asarray(tf.convert_to_tensor(part)).tolist() for part in (out, *slopes)]


def worker(engine: str, place: str) -> dict[str, Any]:
    """Answers in this process, or the words in which a case is refused."""
    if importlib.util.find_spec("keras") is None:
        sys.path.append(place)  # after the peer's own packages
    tf = importlib.import_module(engine)
    keras = tf.keras if engine == "gradtape" else importlib.import_module("keras")
    found: dict[str, Any] = {}
    for name, compute, layer, x in every_case(keras):
        try:
            found[name] = answers(tf, compute, layer, x)
        except Exception as error:  # an engine that cannot do it says so in the table
            found[name] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:90]}"
    return found


def apart(ours: list[Any], theirs: list[Any]) -> float:
    """The largest difference of two answers, relative to the largest number in each part."""
    worst = 0.0
    for own, other in zip(ours, theirs, strict=True):
        a, b = np.asarray(own), np.asarray(other)
        if a.shape != b.shape:
            return np.inf
        if a.size:
            worst = max(worst, float(np.max(np.abs(a - b)) / max(1.0, float(np.max(np.abs(b))))))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(".benchmarks"), help="where the peer's environment is made")
    parser.add_argument("--python", help="an interpreter with TensorFlow")
    parser.add_argument("--worker", choices=("gradtape", "tensorflow"), help="compute with one, in this interpreter")
    parser.add_argument("--keras", default="", help="for a worker: where Keras is")
    options = parser.parse_args()
    if options.worker is not None:
        print(json.dumps(worker(options.worker, options.keras)))
        return 0
    python, problem = (options.python, "") if options.python else prepared("tensorflow", options.root)
    if problem:
        print(problem, file=sys.stderr)
        return 1
    keras, found = importlib.util.find_spec("keras"), []
    for engine, command in (("gradtape", sys.executable), ("tensorflow", python)):
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"} | ({} if engine == "gradtape" else {"KERAS_BACKEND": engine})
        words = [command, "-m", "benchmarks.keras_parity", "--worker", engine]
        words += ["--keras", str(Path(str(keras and keras.origin)).parent.parent)]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, env=environment)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    ours, theirs = found
    equal = different = 0
    for name in ours:
        if isinstance(ours[name], str) or isinstance(theirs[name], str):
            print(f"{name:32} gradtape: {_told(ours[name])}; TensorFlow: {_told(theirs[name])}")
        elif (distance := apart(ours[name], theirs[name])) > APART:
            different += name not in KNOWN
            print(f"{name:32} {distance:.1e} apart: {KNOWN.get(name, 'not explained')}")
        else:
            equal += 1
    print(f"{equal} of {len(ours)} equal to {APART:g}, {different} differ without a reason")
    return 1 if different else 0


def _told(answer: Any) -> str:
    return answer if isinstance(answer, str) else "computed"


if __name__ == "__main__":
    sys.exit(main())
