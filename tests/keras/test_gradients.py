"""Derivatives of Keras's layers, losses and operations on gradtape, at order 1, against finite differences in float64."""

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from tests.keras import keras_or_none

keras: Any = keras_or_none()
RANDOM = np.random.default_rng(5)
STEP = 1e-6


def values(*shape: int) -> Any:
    """Points apart from each other and from kinks at simple fractions."""
    return RANDOM.permutation(np.linspace(-1.93, 2.11, int(np.prod(shape)))).reshape(shape) + 0.0137


def slope_error(compute: Any, variables: list[Any], x: Any) -> float:
    """A directional derivative of a weighted sum of results, along all variables and the input, less the quotient."""
    point = gt.constant(x)
    with gt.GradientTape() as tape:
        tape.watch(point)
        out = compute(point)
        weights = np.random.default_rng(1).normal(size=tuple(out.shape))
        loss = gt.reduce_sum(out * gt.constant(weights))
    gradients = tape.gradient(loss, [point, *variables], unconnected_gradients="zero")
    starts = [x, *[np.array(v.numpy()) for v in variables]]
    directions = [np.random.default_rng(2).normal(size=np.shape(start)) for start in starts]

    def loss_at(step: float) -> float:
        for variable, start, direction in zip(variables, starts[1:], directions[1:], strict=True):
            variable.assign(start + step * direction)
        result = float(gt.reduce_sum(compute(gt.constant(x + step * directions[0])) * gt.constant(weights)))
        for variable, start in zip(variables, starts[1:], strict=True):
            variable.assign(start)
        return result

    numeric = (loss_at(STEP) - loss_at(-STEP)) / (2 * STEP)
    exact = sum(float(np.sum(np.asarray(gt.convert_to_tensor(g)) * d)) for g, d in zip(gradients, directions, strict=True))
    return abs(exact - numeric) / max(1.0, abs(numeric))


# name: (arguments of the layer, shape of its input)
LAYERS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "Dense": ({"units": 3, "activation": "tanh"}, (2, 4)),
    "EinsumDense": ({"equation": "abc,cd->abd", "output_shape": (None, 3), "bias_axes": "d"}, (2, 3, 4)),
    "Conv1D": ({"filters": 3, "kernel_size": 3, "padding": "same", "strides": 2}, (2, 7, 2)),
    "Conv2D": ({"filters": 3, "kernel_size": 3, "dilation_rate": 2}, (2, 7, 6, 2)),
    "Conv3D": ({"filters": 2, "kernel_size": 2}, (1, 3, 3, 3, 2)),
    "DepthwiseConv2D": ({"kernel_size": 3, "depth_multiplier": 2}, (2, 5, 5, 2)),
    "SeparableConv2D": ({"filters": 3, "kernel_size": 3, "padding": "same"}, (1, 5, 5, 2)),
    "Conv1DTranspose": ({"filters": 2, "kernel_size": 3, "strides": 2, "padding": "same"}, (2, 4, 3)),
    "Conv2DTranspose": ({"filters": 2, "kernel_size": 3, "strides": 2, "output_padding": 1}, (1, 3, 3, 2)),
    "MaxPooling2D": ({"pool_size": 2}, (2, 4, 4, 2)),
    "AveragePooling2D": ({"pool_size": 3, "padding": "same", "strides": 2}, (2, 5, 5, 2)),
    "GlobalAveragePooling1D": ({}, (2, 5, 3)),
    "GlobalMaxPooling2D": ({}, (2, 3, 3, 2)),
    "BatchNormalization": ({}, (4, 3)),
    "LayerNormalization": ({}, (3, 5)),
    "GroupNormalization": ({"groups": 2}, (2, 3, 4)),
    "RMSNormalization": ({}, (3, 5)),
    "UnitNormalization": ({}, (3, 5)),
    "SimpleRNN": ({"units": 3}, (2, 4, 3)),
    "LSTM": ({"units": 3, "return_sequences": True}, (2, 4, 3)),
    "GRU": ({"units": 3, "go_backwards": True}, (2, 4, 3)),
    "ConvLSTM1D": ({"filters": 2, "kernel_size": 2}, (1, 3, 5, 2)),
    "PReLU": ({"alpha_initializer": "ones"}, (2, 3)),
    "LeakyReLU": ({}, (2, 5)),
    "ELU": ({}, (2, 5)),
    "Softmax": ({}, (3, 4)),
    "UpSampling2D": ({"size": 2, "interpolation": "bilinear"}, (1, 3, 3, 2)),
    "Cropping2D": ({"cropping": 1}, (1, 4, 4, 2)),
    "ZeroPadding2D": ({"padding": 1}, (1, 3, 3, 2)),
    "Flatten": ({}, (2, 3, 2)),
    "Permute": ({"dims": (2, 1)}, (2, 3, 4)),
    "RepeatVector": ({"n": 3}, (2, 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name: str) -> None:
    options, shape = LAYERS[name]
    keras.utils.set_random_seed(7)
    if not hasattr(keras.layers, name):
        pytest.skip(f"this version of Keras has no {name}")
    layer = getattr(keras.layers, name)(dtype="float64", **options)
    x = values(*shape)
    layer.build(shape)
    for variable in layer.trainable_variables:  # away from zeros and ones
        variable.assign(variable.numpy() + 0.1 * RANDOM.normal(size=variable.shape))
    training = {"training": True} if name == "BatchNormalization" else {}
    assert slope_error(lambda point: layer(point, **training), layer.trainable_variables, x) < 1e-6


def test_attention_and_bidirectional() -> None:
    keras.utils.set_random_seed(8)
    attention = keras.layers.MultiHeadAttention(2, 3, dtype="float64")
    x = values(2, 4, 3)
    attention.build((2, 4, 3), (2, 4, 3))
    compute = lambda point: attention(point, point, use_causal_mask=True)  # noqa: E731
    assert slope_error(compute, attention.trainable_variables, x) < 1e-6
    both = keras.layers.Bidirectional(keras.layers.LSTM(2, dtype="float64"), dtype="float64")
    both.build((2, 4, 3))
    assert slope_error(both, both.trainable_variables, x) < 1e-6


LOSSES = (
    "MeanSquaredError", "MeanAbsoluteError", "MeanSquaredLogarithmicError", "Huber", "LogCosh", "CosineSimilarity", "Poisson",
    "KLDivergence", "BinaryCrossentropy", "CategoricalCrossentropy", "BinaryFocalCrossentropy", "CategoricalFocalCrossentropy",
    "Dice", "Tversky", "SquaredHinge",
)  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    loss = getattr(keras.losses, name)(dtype="float64")
    target = RANDOM.dirichlet(np.ones(4), size=3) if name not in ("SquaredHinge",) else np.sign(RANDOM.normal(size=(3, 4)))
    x = RANDOM.dirichlet(np.ones(4) * 3, size=3) * 0.9 + 0.03
    assert slope_error(lambda point: loss(target, point), [], x) < 1e-6


AFFINE = np.array([1.1, 0.2, 0.3, 0.1, 0.9, 0.2, 0.0, 0.0])
OPERATIONS = {
    "logsumexp": lambda o, x: o.logsumexp(x, 0),
    "cumsum": lambda o, x: o.cumsum(x, 1),
    "cumprod": lambda o, x: o.cumprod(x, 0),
    "median": lambda o, x: o.median(x, 1),
    "sort": lambda o, x: o.sort(x, 0),
    "top_k": lambda o, x: o.top_k(x, 2)[0],
    "segment_sum": lambda o, x: o.segment_sum(x, np.array([0, 1, 0]), 2),
    "segment_max": lambda o, x: o.segment_max(x, np.array([0, 1, 0]), 2),
    "norm": lambda o, x: o.norm(x, axis=1),
    "einsum": lambda o, x: o.einsum("ij,kj->ik", x, x),
    "qr": lambda o, x: o.qr(x)[1],
    "erfinv": lambda o, x: o.erfinv(x / 5),
    "gelu": lambda o, x: o.gelu(x, approximate=False),
    "glu": lambda o, x: o.glu(x, -1),
    "sparsemax": lambda o, x: o.sparsemax(x),
    "take_along_axis": lambda o, x: o.take_along_axis(x, np.array([[0], [1], [0]]), 1),
    "stft": lambda o, x: o.stft(x, 2, 1, 2)[0],
    "scatter_update": lambda o, x: o.scatter_update(x, np.array([[0, 0]]), x[1, 1:2] ** 2),
    "slice_update": lambda o, x: o.slice_update(x, (1, 0), x[:1] ** 2),
    "pad": lambda o, x: o.pad(x, ((1, 0), (0, 2)), "reflect"),
    "associative_scan": lambda o, x: o.associative_scan(o.multiply, x),
    "scan": lambda o, x: o.scan(lambda c, r: (c * r, c + r), x[0], x)[1],
    "while_loop": lambda o, x: o.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, o.sin(y)), (0, x))[1],
    "cond": lambda o, x: o.cond(o.sum(x) > 0, lambda: x * 2, lambda: x * x),
    "map": lambda o, x: o.map(lambda r: o.sum(r * r), x),
    "vectorized_map": lambda o, x: o.vectorized_map(lambda r: o.sum(r * r), x),
    "quantile": lambda o, x: o.quantile(x, 0.3, 1),
    "affine_transform": lambda o, x: o.image.affine_transform(o.reshape(x, (1, 3, 4, 1)), AFFINE),
    "resize": lambda o, x: o.image.resize(o.reshape(x, (1, 3, 4, 1)), (5, 3), "bicubic"),
    "gaussian_blur": lambda o, x: o.image.gaussian_blur(o.reshape(x, (1, 3, 4, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name: str) -> None:
    compute = OPERATIONS[name]
    assert slope_error(lambda point: compute(keras.ops, point), [], values(3, 4)) < 1e-6
