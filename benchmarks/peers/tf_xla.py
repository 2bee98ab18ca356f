"""TensorFlow with `tf.function(jit_compile=True)`: XLA needs a bound for every loop that is differentiated."""

from __future__ import annotations

from benchmarks.peers.tensorflow import set_threads as set_threads, to_numpy as to_numpy, version as version
from benchmarks.peers.tf_function import steps

STEPS = steps(True)
