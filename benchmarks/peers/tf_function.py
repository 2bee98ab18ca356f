"""TensorFlow with `tf.function`; `tf_xla` runs the same objectives with `jit_compile=True`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.peers.tensorflow import set_threads as set_threads, to_numpy as to_numpy, version as version
from benchmarks.peers.tf_objectives import LOOPED, OBJECTIVES
from benchmarks.workload import Step
from benchmarks.workloads.compiled.making import split
from benchmarks.workloads.second_order import LENGTH


def _function(xla: bool) -> Any:
    import tensorflow as tf

    return tf.function(jit_compile=True) if xla else tf.function


def gradient(xla: bool, objective: Any, wrt: tuple[str, ...], **inputs: Any) -> Step:
    import tensorflow as tf

    watched, arrays, fixed = split(inputs, wrt)
    names, count = (*watched, *arrays), len(watched)

    @_function(xla)
    def run(*given: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(given[:count])
            value = objective(**dict(zip(names, given, strict=True)), **fixed)
        return value, tape.gradient(value, given[:count])

    tensors = tuple(tf.constant(a) for a in (*watched.values(), *arrays.values()))
    return lambda: run(*tensors)  # type: ignore[no-any-return]


def trivial(xla: bool, x: Any) -> Step:
    import tensorflow as tf

    x = tf.constant(x)

    @_function(xla)
    def double(x: Any) -> Any:
        return x * 2.0

    return lambda: (double(x), [])


def hvp(xla: bool, x: Any, v: Any, w: Any) -> Step:
    import tensorflow as tf

    x, v, w = (tf.constant(a) for a in (x, v, w))

    @_function(xla)
    def run(x: Any, v: Any, w: Any) -> Any:
        with tf.autodiff.ForwardAccumulator(x, v) as forward:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(tf.tanh(tf.linalg.matvec(w, x, transpose_a=True)) ** 2)
            g = tape.gradient(y, x)
        return tf.reduce_sum(g * v), [forward.jvp(g)]

    return lambda: run(x, v, w)  # type: ignore[no-any-return]


def hessian(xla: bool, x: Any, v: Any) -> Step:
    import tensorflow as tf

    x = tf.constant(x)

    @_function(xla)
    def run(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                squares = x * x
                total = tf.reduce_sum(squares)
                y = tf.reduce_sum(tf.tanh(x) * tf.exp(squares * -0.25)) + total * total * (1.0 / LENGTH)
            g = inner.gradient(y, x)
        return g, [outer.jacobian(g, x)]

    return lambda: run(x)  # type: ignore[no-any-return]


def jacobian(xla: bool, x: Any, w: Any, b: Any, v: Any) -> Step:
    import tensorflow as tf

    x, w, b, v = (tf.constant(a) for a in (x, w, b, v))

    @_function(xla)
    def run(x: Any, w: Any, b: Any, v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            h = tf.tanh(tf.linalg.matvec(w, x, transpose_a=True) + b)
            y = tf.linalg.matvec(v, h, transpose_a=True)
        return y, [tape.jacobian(y, x)]

    return lambda: run(x, w, b, v)  # type: ignore[no-any-return]


def steps(xla: bool) -> dict[str, Callable[..., Step]]:
    """Every workload, compiled by XLA or not."""
    objectives = OBJECTIVES | (LOOPED if xla else {})
    found: dict[str, Callable[..., Step]] = {n: partial(gradient, xla, *about) for n, about in objectives.items()}
    found |= {
        n: partial(make, xla) for n, make in (("trivial", trivial), ("hvp", hvp), ("hessian", hessian), ("jacobian", jacobian))
    }
    return {f"compiled_{name}": make for name, make in found.items()}


STEPS = steps(False)
