"""The programs behind the table of differences in the documentation, run on gradtape and on the peers that are installed.

    python -m benchmarks.differences                      # this environment
    python -m benchmarks.differences --python /path/to/peers/bin/python

Each program returns what the library answers (a list of numbers, None, or the name of the exception it raised).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import warnings
from typing import Any


def _plain(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    array = value.detach().numpy() if hasattr(value, "detach") else value.numpy() if hasattr(value, "numpy") else value
    return [round(float(v), 4) for v in array.ravel()] if getattr(array, "ndim", 0) else round(float(array), 4)


def tape_programs(tf: Any) -> dict[str, Any]:
    """Programs in TensorFlow's spelling: gradtape and TensorFlow run the same text."""

    def tensor_array_after_block() -> Any:
        x = tf.constant([1.0, 2.0, 3.0])
        ta = tf.TensorArray(tf.float32, size=3)
        with tf.GradientTape() as tape:
            tape.watch(x)
            for i in range(3):
                ta = ta.write(i, x[i] * (4.0 + i))
        return tape.gradient(ta.stack(), x)

    def gradient_of_gradient_after_block() -> Any:
        x = tf.Variable(3.0)
        with tf.GradientTape(persistent=True) as tape:
            y = x**3
        first = tape.gradient(y, x)
        return [first, tape.gradient(first, x)]

    def through_assign() -> Any:
        x, v = tf.constant(3.0), tf.Variable(2.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            v.assign_add(x)
            y = v * v
        return tape.gradient(y, x)

    def in_place_update() -> Any:
        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            b = tf.zeros((3,))
            b[:2] = x
            y = tf.reduce_sum(b * b)
        return tape.gradient(y, x)

    def masked_lane() -> Any:
        x = tf.constant([-1.0, 0.0, 1.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.where(x > 0.0, x * tf.math.log(x), tf.zeros_like(x))
        return tape.gradient(y, x)

    def second_answer_of_one_shot_tape() -> Any:
        x = tf.Variable(3.0)
        with tf.GradientTape() as tape:
            y = x * x
        tape.gradient(y, x)
        try:
            tape.gradient(y, x)
        except RuntimeError as error:
            return "names the line" if "differences.py" in str(error) else "RuntimeError without a line"
        return "no error"

    def numpy_function_on_tensor() -> Any:
        import numpy as np

        x = tf.constant([1.0, 2.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(np.sin(x) * np.exp(x))
        return tape.gradient(y, x)

    def mixed_dtypes() -> Any:
        x = tf.Variable([1.0, 2.0])
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(x * tf.constant([2, 3]))
        return tape.gradient(y, x)

    def captured_variable_in_custom_gradient() -> Any:
        w = tf.Variable(2.0)

        @tf.custom_gradient
        def f(x: Any) -> Any:
            return x * w, lambda upstream: upstream * w

        x = tf.Variable(5.0)
        with tf.GradientTape() as tape:
            y = f(x)
        return tape.gradient(y, [x, w])

    return {name: function for name, function in locals().items() if callable(function) and name != "tf"}


def torch_programs(torch: Any) -> dict[str, Any]:
    def in_place_update() -> Any:
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        b = torch.zeros(3)
        b[:2] = x
        (b * b).sum().backward()
        return x.grad

    def through_assign() -> Any:
        x, v = torch.tensor(3.0, requires_grad=True), torch.tensor(2.0, requires_grad=True)
        v += x
        (v * v).backward()
        return x.grad

    def masked_lane() -> Any:
        x = torch.tensor([-1.0, 0.0, 1.0], requires_grad=True)
        torch.where(x > 0, x * torch.log(x), torch.zeros(())).sum().backward()
        return x.grad

    def overwritten_after_use() -> Any:
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        a = x * 1.0
        y = (a * a).sum()
        a[0] = 0.0
        y.backward()
        return x.grad

    def numpy_function_on_tensor() -> Any:
        import numpy as np

        x = torch.tensor([1.0, 2.0], requires_grad=True)
        y = np.sin(x) * np.exp(x)
        y.sum().backward()
        return x.grad

    return {name: function for name, function in locals().items() if callable(function) and name != "torch"}


def answers(library: str) -> dict[str, Any]:
    """What one library says to each of its programs."""
    if library == "torch":
        import torch

        programs = torch_programs(torch)
    elif library == "tensorflow":
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow

        programs = tape_programs(tensorflow)
    else:
        import gradtape

        programs = tape_programs(gradtape)
        programs["overwritten_after_use"] = lambda: _overwritten(gradtape)
    found = {}
    for name, program in programs.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = program()
                found[name] = result if isinstance(result, str) else _plain(result)
        except Exception as error:  # whatever it raises is the answer being shown
            found[name] = type(error).__name__
    return found


def _overwritten(gt: Any) -> Any:
    x = gt.constant([1.0, 2.0])
    with gt.GradientTape() as tape:
        tape.watch(x)
        a = x * 1.0
        y = gt.reduce_sum(a * a)
        a[0] = 0.0
    return tape.gradient(y, x)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the environment that has the peers")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        print(json.dumps(answers(options.library)))
        return
    table = {"gradtape": answers("gradtape")}
    for peer in ("tensorflow", "torch"):
        run = subprocess.run(
            [options.python, "-m", "benchmarks.differences", "--library", peer], capture_output=True, text=True, check=False
        )
        lines = run.stdout.strip().splitlines()
        table[peer] = json.loads(lines[-1]) if run.returncode == 0 and lines else {}
    print(f"{'program':42s} {'gradtape':24s} {'tensorflow':24s} torch")
    for name in table["gradtape"]:
        row = [str(table[library].get(name, "-")) for library in ("gradtape", "tensorflow", "torch")]
        print(f"{name:42s} {row[0]:24s} {row[1]:24s} {row[2]}")


if __name__ == "__main__":
    main()
