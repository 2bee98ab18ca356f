"""Compiled functions beside TensorFlow's: the same programs in the same spelling, and what each library answers.

    python -m benchmarks.function_differences                      # gradtape
    python -m benchmarks.function_differences --python /path/to/tensorflow/bin/python

Each program returns numbers, None, or a text; an exception is answered by its name. The table is on the page
`docs/comefrom/differences.md`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import warnings
from typing import Any

from benchmarks.differences import _plain


def return_in_a_loop(tf: Any) -> Any:
    @tf.function
    def f(xs, limit):
        total = 0.0
        for x in xs:
            total += x
            if total > limit:
                return total
        return -1.0

    return [f(tf.constant([1.0, 2.0, 4.0]), tf.constant(limit)) for limit in (2.5, 50.0)]


def endless_loop_with_a_break(tf: Any) -> Any:
    @tf.function
    def f(x):
        while True:
            x = x / 2.0
            if x < 1.0:
                break
        return x

    return f(tf.constant(100.0))


def walrus_in_a_loop(tf: Any) -> Any:
    @tf.function
    def f(x):
        while (half := x / 2.0) > 1.0:
            x = half
        return x

    return f(tf.constant(100.0))


def zip_of_tensors(tf: Any) -> Any:
    @tf.function
    def f(a, b):
        total = 0.0
        for x, y in zip(a, b):  # noqa: B905  (as users write it)
            total += x * y
        return total

    return f(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))


def unpacking_a_tensor(tf: Any) -> Any:
    @tf.function
    def f(point):
        x, y = point
        return x * y

    return f(tf.constant([3.0, 4.0]))


def list_filled_in_a_loop(tf: Any) -> Any:
    @tf.function
    def f(xs):
        rows = []
        for x in xs:
            rows.append(x * x)
        return tf.stack(rows)

    return f(tf.constant([1.0, 2.0, 3.0]))


def array_filled_in_place(tf: Any) -> Any:
    @tf.function
    def f(xs):
        a = tf.zeros((3,))
        for i in tf.range(3):
            a[i] = xs[i] * 2.0
        return a

    return f(tf.constant([1.0, 2.0, 3.0]))


def number_that_meets_float64(tf: Any) -> Any:
    import numpy as np

    @tf.function
    def f(xs):
        total = 0.0
        for x in xs:
            total += x
        return total

    return f(tf.constant(np.array([0.1, 0.2])))


def branches_of_different_dtype(tf: Any) -> Any:
    @tf.function
    def f(x):
        if x > 0.0:  # noqa: SIM108
            y = 0
        else:
            y = x
        return y

    return f(tf.constant(-2.5))


def name_set_in_one_branch(tf: Any) -> Any:
    @tf.function
    def f(x):
        if x > 0.0:
            y = tf.sqrt(x)
        return y

    return f(tf.constant(4.0))


def changed_global(tf: Any) -> Any:
    scale = [1.0]

    @tf.function
    def f(x):
        return x * scale[0]

    f(tf.constant(2.0))
    scale[0] = 10.0
    return f(tf.constant(2.0))


def changed_captured_array(tf: Any) -> Any:
    import numpy as np

    data = np.array([1.0], np.float32)

    @tf.function
    def f(x):
        return x * data

    f(tf.constant(2.0))
    data[0] = 10.0
    return f(tf.constant(2.0))


def counter_attribute(tf: Any) -> Any:
    class Model:
        calls = 0

    model = Model()

    @tf.function
    def f(x):
        model.calls += 1
        return x

    for _ in range(3):
        f(tf.constant(1.0))
    return model.calls


def print_at_each_call(tf: Any) -> Any:
    @tf.function
    def f(x):
        print("x =", x.shape)
        return x

    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        for _ in range(3):
            f(tf.constant(1.0))
    return f"printed {shown.getvalue().count('x =')} times"


def gradient_through_assign(tf: Any) -> Any:
    v = tf.Variable(2.0)

    @tf.function
    def f(x):
        v.assign_add(x)
        return v * v

    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


PROGRAMS = (
    return_in_a_loop, endless_loop_with_a_break, walrus_in_a_loop, zip_of_tensors, unpacking_a_tensor, list_filled_in_a_loop,
    array_filled_in_place, number_that_meets_float64, branches_of_different_dtype, name_set_in_one_branch,
    changed_global, changed_captured_array, counter_attribute, print_at_each_call, gradient_through_assign,
)  # fmt: skip


def answers(library: str) -> dict[str, Any]:
    """What one library says to each program."""
    if library == "tensorflow":
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf
    else:
        import gradtape as tf
    found = {}
    for program in PROGRAMS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = program(tf)
                found[program.__name__] = result if isinstance(result, str) else _plain(result)
        except Exception as error:  # whatever it raises is the answer being shown
            found[program.__name__] = type(error).__name__
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="interpreter of an environment with TensorFlow")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library:
        print(json.dumps(answers(options.library)))
        return
    ours, theirs = answers("gradtape"), {}
    if options.python:
        command = [options.python, "-m", "benchmarks.function_differences", "--library", "tensorflow"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        theirs = json.loads(run.stdout.strip().splitlines()[-1]) if run.returncode == 0 else {}
    for name, answer in ours.items():
        print(f"{name:32s} {answer!s:24s} {theirs.get(name, '-')}")


if __name__ == "__main__":
    main()
