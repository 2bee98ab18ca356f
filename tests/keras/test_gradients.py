"""Derivatives of all Keras's layers, losses and operations on gradtape, at order 1, against finite differences in float64."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.keras import cases, keras_or_none
from tests.keras.cases import COMPOSED, LAYERS, LOSSES, OPERATIONS, values

keras: Any = keras_or_none()
STEP = 1e-6


def slope_error(compute: Callable[[Any], Any], variables: list[Any], x: Any, state: list[Any]) -> float:
    """A directional derivative of a weighted sum of results, along all variables and the input, less the quotient.

    `state` is what a call may change (draws, moving means): it is put back before each one.
    """
    kept = [(variable, np.array(variable.numpy())) for variable in state]

    def called(point: Any) -> Any:
        for variable, start in kept:
            variable.assign(start)
        return compute(point)

    point = gt.constant(x)
    with gt.GradientTape() as tape:
        tape.watch(point)
        out = called(point)
        weights = np.random.default_rng(1).normal(size=tuple(out.shape))
        loss = gt.reduce_sum(out * gt.constant(weights))
    gradients = tape.gradient(loss, [point, *variables], unconnected_gradients="zero")
    starts = [x, *[np.array(v.numpy()) for v in variables]]
    directions = [np.random.default_rng(2).normal(size=np.shape(start)) for start in starts]

    def loss_at(step: float) -> float:
        for variable, start, direction in zip(variables, starts[1:], directions[1:], strict=True):
            variable.assign(start + step * direction)
        result = float(gt.reduce_sum(called(gt.constant(x + step * directions[0])) * gt.constant(weights)))
        for variable, start in zip(variables, starts[1:], strict=True):
            variable.assign(start)
        return result

    numeric = (loss_at(STEP) - loss_at(-STEP)) / (2 * STEP)
    exact = sum(float(np.sum(np.asarray(gt.convert_to_tensor(g)) * d)) for g, d in zip(gradients, directions, strict=True))
    assert numeric != 0.0, "this sample has no derivative: the test cannot fail"
    return abs(exact - numeric) / max(1.0, abs(numeric))


def layer_error(layer: Any, compute: Callable[[Any], Any], x: Any) -> float:
    """Of a layer with its weights moved away from zeros and ones."""
    compute(gt.constant(x))  # builds it
    rng = np.random.default_rng(7)
    for variable in layer.trainable_variables:
        variable.assign(variable.numpy() + 0.1 * rng.normal(size=variable.shape))
    trained = {id(variable) for variable in layer.trainable_variables}
    return slope_error(compute, layer.trainable_variables, x, [v for v in layer.variables if id(v) not in trained])


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    options, shape = LAYERS[name]
    if not hasattr(keras.layers, name):
        pytest.skip(f"this version of Keras has no {name}")
    keras.utils.set_random_seed(7)
    layer = getattr(keras.layers, name)(dtype="float64", **options)
    training = {"training": True} if "training" in inspect.signature(layer.call).parameters else {}
    assert layer_error(layer, lambda point: layer(point, **training), values(*shape)) < 1e-6


@pytest.mark.parametrize("name", COMPOSED)
def test_composed_layers(name: str) -> None:
    make, call, shape = COMPOSED[name]
    if not hasattr(keras.layers, name):
        pytest.skip(f"this version of Keras has no {name}")
    keras.utils.set_random_seed(7)
    layer = make(keras.layers)
    assert layer_error(layer, lambda point: call(layer, point), values(*shape)) < 1e-6


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    if not hasattr(keras.losses, name):
        pytest.skip(f"this version of Keras has no {name}")
    loss, target = getattr(keras.losses, name)(dtype="float64"), LOSSES[name]
    x = np.random.default_rng(4).dirichlet(np.ones(4) * 3, size=len(target)) * 0.9 + 0.03
    assert slope_error(lambda point: loss(target, point), [], x, []) < 1e-6


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    module, _, own = name.rpartition(".")
    if not hasattr(getattr(keras.ops, module) if module else keras.ops, own):
        pytest.skip(f"this version of Keras has no {name}")
    assert slope_error(lambda point: OPERATIONS[name](keras.ops, point), [], values(3, 4), []) < 1e-6


ACTIVATIONS = [name for name in dir(keras.activations) if name[0] != "_" and name not in ("deserialize", "get", "serialize")]


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    threshold = (0.5, 0.1) if name == "threshold" else ()
    assert slope_error(lambda point: getattr(keras.activations, name)(point, *threshold), [], values(3, 4), []) < 1e-6


def exported(module: Any, kind: Callable[[Any], bool], prefix: str = "") -> dict[str, Any]:
    return {prefix + name: value for name, value in vars(module).items() if name[0] != "_" and kind(value)}


def test_nothing_of_keras_is_left_out() -> None:
    """Each layer, loss and operation has a case above or a reason; another name of one with a case is that one."""
    functions = {**exported(keras.ops, callable), **exported(keras.ops.image, callable, "image.")}
    functions |= {
        **exported(keras.ops.linalg, callable),
        **exported(keras.ops.nn, callable),
        **exported(keras.ops.numpy, callable),
    }
    tables: list[tuple[dict[str, Any], set[str]]] = [
        (exported(keras.layers, inspect.isclass), {*LAYERS, *COMPOSED, *cases.LAYERS_WITHOUT}),
        (exported(keras.losses, inspect.isclass), {*LOSSES, *cases.LOSSES_WITHOUT}),
        (functions, {*OPERATIONS, *cases.OPERATIONS_WITHOUT}),
    ]
    for found, listed in tables:
        seen = {id(value) for name, value in found.items() if name in listed}
        assert sorted(name for name, value in found.items() if name not in listed and id(value) not in seen) == []
