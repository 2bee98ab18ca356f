"""Keras on gradtape: it takes its seat, trains by `fit` and by tapes, and says what it cannot do."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.keras import keras_or_none

keras: Any = keras_or_none()


def data(rows: int = 50) -> tuple[Any, Any]:
    x = np.random.default_rng(0).normal(size=(rows, 4)).astype("float32")
    return x, x.sum(1, keepdims=True)


def small(units: int = 1) -> Any:
    keras.utils.set_random_seed(3)
    layers = keras.layers
    return keras.Sequential([keras.Input((4,)), layers.Dense(8, activation="relu"), layers.Dense(units)])


def run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return (result.stdout + result.stderr).strip()


def test_name_and_no_other_engine() -> None:
    others = ("jax", "torch", "tensorflow")
    code = f"import gradtape.keras, keras, sys; print(keras.backend.backend(), [m for m in {others} if m in sys.modules])"
    assert run(code) == "gradtape []"


def test_too_late_is_an_error_in_words() -> None:
    code = (
        "import types, sys; keras = types.ModuleType('keras'); keras.backend = types.SimpleNamespace(backend=lambda: 'jax')\n"
        "sys.modules['keras'] = keras\nimport gradtape.keras"
    )
    message = run(code).splitlines()[-1]
    assert "Keras was imported before gradtape.keras and runs on 'jax'; put `import gradtape.keras` above the first" in message


def test_another_version_is_an_error_in_words() -> None:
    code = (
        "import importlib.metadata as m; real = m.version\n"
        "m.version = lambda name: '3.99.0' if name == 'keras' else real(name)\nimport gradtape.keras"
    )
    assert "gradtape.keras runs Keras 3.10 to 3.15" in run(code).splitlines()[-1]


def test_fit_is_the_tape_loop() -> None:
    x, y = data()
    fitted, looped = small(), small()
    looped.set_weights(fitted.get_weights())
    fitted.compile(keras.optimizers.Adam(0.01), "mse")
    history = fitted.fit(x, y, batch_size=25, epochs=3, shuffle=False, verbose=0).history["loss"]
    optimizer, losses = keras.optimizers.Adam(0.01), []
    for _ in range(3):
        rows = []
        for start in (0, 25):
            with gt.GradientTape() as tape:
                loss = gt.reduce_mean(gt.square(y[start : start + 25] - looped(x[start : start + 25], training=True)))
            gradients = tape.gradient(loss, looped.trainable_variables)
            optimizer.apply_gradients(zip(gradients, looped.trainable_variables, strict=True))
            rows.append(float(loss))
        losses.append(np.mean(rows))
    np.testing.assert_allclose(history, losses, rtol=1e-5)
    np.testing.assert_allclose(fitted.predict(x, verbose=0), looped(x).numpy(), rtol=1e-4, atol=1e-5)


def test_optimizer_of_keras_in_a_function_and_of_gradtape_on_its_variables() -> None:
    x, y = data()
    model, other = small(), small()
    optimizer = keras.optimizers.SGD(0.1)

    @gt.function
    def step(x: Any, y: Any) -> Any:
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean(keras.losses.mean_squared_error(y, model(x, training=True)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True))
        return loss

    optimizer.build(model.trainable_variables)
    compiled = [float(step(x, y)) for _ in range(3)]
    assert step.experimental_get_tracing_count() == 1
    plain, losses = gt.optimizers.SGD(0.1), []
    for _ in range(3):
        with gt.GradientTape() as tape:
            loss = gt.reduce_mean(gt.square(other(x) - y))
        plain.apply_gradients(zip(tape.gradient(loss, other.trainable_variables), other.trainable_variables, strict=True))
        losses.append(float(loss))
    np.testing.assert_allclose(compiled, losses, rtol=1e-5)


def test_variables_are_sources_watched_and_explained() -> None:
    model = small()
    kernel = model.layers[0].kernel
    with gt.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(kernel)
        y = gt.reduce_sum(model(data()[0]))
    assert tape.gradient(y, kernel).shape == (4, 8)
    with gt.GradientTape() as tape:
        y = gt.constant(1.0) * 2.0
    assert tape.explain(y, kernel).cause != "connected"
    direction = gt.ones((4, 8))
    with gt.autodiff.ForwardAccumulator(kernel, direction) as accumulator:
        y = gt.reduce_sum(model(data()[0]))
    assert accumulator.jvp(y) is not None


def test_a_users_call_is_converted() -> None:
    class Doubling(keras.layers.Layer):
        def call(self, x: Any) -> Any:
            while gt.reduce_sum(x) < 100.0:
                x = x * 2.0
            if gt.reduce_sum(x) > 150.0:
                x = -x
            return x

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

    layer = Doubling()
    traced = gt.function(layer)
    for start in (1.0, 1.5):
        x = gt.fill((3,), start)
        np.testing.assert_allclose(traced(x), layer(x))


def test_fit_of_models_that_branch_and_loop_on_tensors() -> None:
    """Shapes are inferred before anything runs, from the same `call`."""

    class Shrinking(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x: Any, training: bool = False) -> Any:
            while gt.reduce_max(gt.abs(x)) > 0.5:
                x = x * 0.7
            if training:
                self.calls.assign_add(1.0)
            return x

    class Net(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.shrink, self.last = keras.layers.Dense(4), Shrinking(), keras.layers.Dense(1)

        def call(self, x: Any, training: bool = False) -> Any:
            h = self.shrink(self.first(x), training=training)
            if gt.reduce_mean(h) > 0.0:
                h = gt.tanh(h)
            for i in gt.range(3):
                h += 0.1 * gt.cast(i, gt.float32) * gt.sin(h)
            return self.last(h)

    assert Shrinking()(keras.Input((3, None))).shape == (None, 3, None)
    x, y = data()
    losses = []
    for eager in (False, True):
        keras.utils.set_random_seed(0)
        model = Net()
        model.compile("adam", "mse", metrics=["mae"], run_eagerly=eager)
        losses.append(model.fit(x, y, batch_size=5, epochs=2, shuffle=False, verbose=0).history["loss"])
        assert float(model.shrink.calls) == 2 * -(-len(x) // 5)  # inferring shapes counts as no call
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_saved_and_loaded(tmp_path: Any) -> None:
    model = small()
    x, y = data()
    model.compile("adam", "mse")
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))
    again.fit(x, y, verbose=0)


def test_export_is_refused_in_words(tmp_path: Any) -> None:
    with pytest.raises(Exception, match=r"backend"):
        small().export(tmp_path / "model")


def test_floats_saturate_in_short_integers() -> None:
    """Keras's quantizers write negative zero points to uint8 and count on 0."""
    x = np.array([-300.7, -3.7, 5.9, 300.5, np.inf, -np.inf, 4e4])
    for source, name in ((s, n) for s in ("float16", "bfloat16", "float32") for n in ("int8", "uint8", "int16", "uint16")):
        given = keras.ops.convert_to_tensor(x, source)
        ends = np.iinfo(name)
        wanted = np.trunc(np.clip(np.asarray(keras.ops.cast(given, "float32")), ends.min, ends.max))
        np.testing.assert_array_equal(keras.ops.cast(given, name), wanted, f"{source} to {name}")


def test_a_subclassed_model_is_built_by_its_shapes(tmp_path: Any) -> None:
    """Its layers are built inside of a shape that is asked for: traced tensors of one question are inputs of the next."""

    @keras.saving.register_keras_serializable(package="tests")
    class Two(keras.Model):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.first, self.second = keras.layers.Dense(3), keras.layers.Dense(1)

        def call(self, x: Any) -> Any:
            return self.second(self.first(x))

    x, y = data()
    model = Two()
    model.compile("sgd", "mse")
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "two.keras")
    again = keras.models.load_model(tmp_path / "two.keras")
    assert again.built
    np.testing.assert_array_equal(again.predict(x, verbose=0), model.predict(x, verbose=0))


def test_a_value_assigned_in_a_stateless_scope_is_read_there() -> None:
    with keras.StatelessScope() as scope:
        variable = keras.Variable(initializer="random_normal", shape=(2,))
        variable.assign([1.0, 2.0])
        variable.assign_add([1.0, 1.0])
    np.testing.assert_array_equal(scope.get_current_value(variable), [2.0, 3.0])
