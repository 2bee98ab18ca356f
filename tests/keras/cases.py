"""A call of every layer, operation, loss and activation of Keras that has a derivative, and why the others have none.

No engine is imported: `tests/keras/test_gradients.py` takes derivatives on gradtape and holds them to finite differences,
`benchmarks/keras_parity.py` compares them with those of Keras on another engine. Whatever Keras exports is in one of the
tables, or a test says its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def values(*shape: int) -> Any:
    """Points apart from each other and from kinks at simple fractions."""
    return np.random.default_rng(5).permutation(np.linspace(-1.93, 2.11, int(np.prod(shape)))).reshape(shape) + 0.0137


# -- layers ----------------------------------------------------------------------------------------------------------------
# name: (arguments of the layer, shape of its input)

LAYERS: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "Activation": ({"activation": "tanh"}, (2, 4)),
    "ActivityRegularization": ({"l2": 0.1}, (2, 4)),
    "AdaptiveAveragePooling1D": ({"output_size": 2}, (2, 5, 3)),
    "AdaptiveAveragePooling2D": ({"output_size": 2}, (1, 5, 4, 2)),
    "AdaptiveAveragePooling3D": ({"output_size": 2}, (1, 3, 4, 3, 2)),
    "AdaptiveMaxPooling1D": ({"output_size": 2}, (2, 5, 3)),
    "AdaptiveMaxPooling2D": ({"output_size": 2}, (1, 5, 4, 2)),
    "AdaptiveMaxPooling3D": ({"output_size": 2}, (1, 3, 4, 3, 2)),
    "AlphaDropout": ({"rate": 0.3, "seed": 1}, (3, 4)),
    "AveragePooling1D": ({"pool_size": 2}, (2, 5, 3)),
    "AveragePooling2D": ({"pool_size": 3, "padding": "same", "strides": 2}, (2, 5, 5, 2)),
    "AveragePooling3D": ({"pool_size": 2}, (1, 3, 4, 3, 2)),
    "BatchNormalization": ({}, (4, 3)),
    "CenterCrop": ({"height": 2, "width": 3}, (1, 5, 4, 2)),
    "Conv1D": ({"filters": 3, "kernel_size": 3, "padding": "same", "strides": 2}, (2, 7, 2)),
    "Conv1DTranspose": ({"filters": 2, "kernel_size": 3, "strides": 2, "padding": "same"}, (2, 4, 3)),
    "Conv2D": ({"filters": 3, "kernel_size": 3, "dilation_rate": 2}, (2, 7, 6, 2)),
    "Conv2DTranspose": ({"filters": 2, "kernel_size": 3, "strides": 2, "output_padding": 1}, (1, 3, 3, 2)),
    "Conv3D": ({"filters": 2, "kernel_size": 2}, (1, 3, 3, 3, 2)),
    "Conv3DTranspose": ({"filters": 2, "kernel_size": 2, "strides": 2}, (1, 2, 2, 2, 2)),
    "ConvLSTM1D": ({"filters": 2, "kernel_size": 2}, (1, 3, 5, 2)),
    "ConvLSTM2D": ({"filters": 2, "kernel_size": 2}, (1, 3, 4, 4, 2)),
    "ConvLSTM3D": ({"filters": 1, "kernel_size": 2}, (1, 2, 3, 3, 3, 1)),
    "Cropping1D": ({"cropping": 1}, (1, 4, 2)),
    "Cropping2D": ({"cropping": 1}, (1, 4, 4, 2)),
    "Cropping3D": ({"cropping": 1}, (1, 3, 4, 3, 2)),
    "Dense": ({"units": 3, "activation": "tanh"}, (2, 4)),
    "DepthwiseConv1D": ({"kernel_size": 3, "depth_multiplier": 2}, (2, 5, 2)),
    "DepthwiseConv2D": ({"kernel_size": 3, "depth_multiplier": 2}, (2, 5, 5, 2)),
    "Dropout": ({"rate": 0.3, "seed": 1}, (3, 4)),
    "EinsumDense": ({"equation": "abc,cd->abd", "output_shape": (None, 3), "bias_axes": "d"}, (2, 3, 4)),
    "ELU": ({}, (2, 5)),
    "Flatten": ({}, (2, 3, 2)),
    "GaussianDropout": ({"rate": 0.3, "seed": 1}, (3, 4)),
    "GaussianNoise": ({"stddev": 0.3, "seed": 1}, (3, 4)),
    "GlobalAveragePooling1D": ({}, (2, 5, 3)),
    "GlobalAveragePooling2D": ({}, (2, 3, 3, 2)),
    "GlobalAveragePooling3D": ({}, (1, 2, 3, 3, 2)),
    "GlobalMaxPooling1D": ({}, (2, 5, 3)),
    "GlobalMaxPooling2D": ({}, (2, 3, 3, 2)),
    "GlobalMaxPooling3D": ({}, (1, 2, 3, 3, 2)),
    "GroupNormalization": ({"groups": 2}, (2, 3, 4)),
    "GRU": ({"units": 3, "go_backwards": True}, (2, 4, 3)),
    "Identity": ({}, (2, 3)),
    "LayerNormalization": ({}, (3, 5)),
    "LeakyReLU": ({}, (2, 5)),
    "LSTM": ({"units": 3, "return_sequences": True}, (2, 4, 3)),
    "Masking": ({"mask_value": 9.0}, (2, 3, 2)),
    "MaxPooling1D": ({"pool_size": 2}, (2, 5, 3)),
    "MaxPooling2D": ({"pool_size": 2}, (2, 4, 4, 2)),
    "MaxPooling3D": ({"pool_size": 2}, (1, 3, 4, 3, 2)),
    "MelSpectrogram": ({"fft_length": 8, "sequence_stride": 4, "num_mel_bins": 3, "sampling_rate": 40, "min_freq": 1.0}, (1,
    20)),
    "Normalization": ({"mean": 0.5, "variance": 2.0}, (2, 4)),
    "Permute": ({"dims": (2, 1)}, (2, 3, 4)),
    "PReLU": ({"alpha_initializer": "ones"}, (2, 3)),
    "RandomContrast": ({"factor": 0.5, "seed": 1, "value_range": (-99, 99)}, (1, 4, 4, 3)),
    "RandomCrop": ({"height": 2, "width": 3, "seed": 1}, (1, 4, 4, 3)),
    "RandomFlip": ({"seed": 1}, (1, 4, 4, 3)),
    "RandomRotation": ({"factor": 0.2, "seed": 1}, (1, 4, 4, 3)),
    "RandomTranslation": ({"height_factor": 0.3, "width_factor": 0.2, "seed": 1}, (1, 4, 4, 3)),
    "RandomZoom": ({"height_factor": 0.3, "seed": 1}, (1, 4, 4, 3)),
    "ReLU": ({"max_value": 1.5, "negative_slope": 0.1}, (2, 5)),
    "RepeatVector": ({"n": 3}, (2, 3)),
    "Rescaling": ({"scale": 0.3, "offset": 1.0}, (2, 3)),
    "Reshape": ({"target_shape": (3, 2)}, (2, 6)),
    "Resizing": ({"height": 3, "width": 5}, (1, 4, 4, 2)),
    "RMSNormalization": ({}, (3, 5)),
    "SeparableConv1D": ({"filters": 3, "kernel_size": 3, "padding": "same"}, (1, 5, 2)),
    "SeparableConv2D": ({"filters": 3, "kernel_size": 3, "padding": "same"}, (1, 5, 5, 2)),
    "SimpleRNN": ({"units": 3}, (2, 4, 3)),
    "Softmax": ({}, (3, 4)),
    "SpatialDropout1D": ({"rate": 0.3, "seed": 1}, (2, 3, 4)),
    "SpatialDropout2D": ({"rate": 0.3, "seed": 1}, (2, 2, 3, 4)),
    "SpatialDropout3D": ({"rate": 0.3, "seed": 1}, (2, 2, 2, 3, 4)),
    "STFTSpectrogram": ({"frame_length": 6, "frame_step": 3, "mode": "magnitude"}, (1, 20, 1)),
    "UnitNormalization": ({}, (3, 5)),
    "UpSampling1D": ({"size": 2}, (1, 3, 2)),
    "UpSampling2D": ({"size": 2, "interpolation": "bilinear"}, (1, 3, 3, 2)),
    "UpSampling3D": ({"size": 2}, (1, 2, 2, 2, 2)),
    "ZeroPadding1D": ({"padding": 1}, (1, 3, 2)),
    "ZeroPadding2D": ({"padding": 1}, (1, 3, 3, 2)),
    "ZeroPadding3D": ({"padding": 1}, (1, 2, 2, 2, 2)),
}  # fmt: skip
DOUBLE = {"dtype": "float64"}
# name: (a layer that is made of others, and what it is called with); shape of the input
COMPOSED: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any], tuple[int, ...]]] = {
    "Add": (lambda k: k.Add(**DOUBLE), lambda layer, x: layer([x, x * x]), (2, 3)),
    "Average": (lambda k: k.Average(**DOUBLE), lambda layer, x: layer([x, x * x]), (2, 3)),
    "Concatenate": (lambda k: k.Concatenate(**DOUBLE), lambda layer, x: layer([x, x * x]), (2, 3)),
    "Dot": (lambda k: k.Dot(axes=1, normalize=True, **DOUBLE), lambda layer, x: layer([x, x * x + 1.0]), (2, 3)),
    "Maximum": (lambda k: k.Maximum(**DOUBLE), lambda layer, x: layer([x, x * x]), (2, 3)),
    "Minimum": (lambda k: k.Minimum(**DOUBLE), lambda layer, x: layer([x, x * x]), (2, 3)),
    "Multiply": (lambda k: k.Multiply(**DOUBLE), lambda layer, x: layer([x, x * x]), (2, 3)),
    "Subtract": (lambda k: k.Subtract(**DOUBLE), lambda layer, x: layer([x, x * x]), (2, 3)),
    "AdditiveAttention": (lambda k: k.AdditiveAttention(**DOUBLE), lambda layer, x: layer([x, x * 0.5]), (2, 4, 3)),
    "Attention": (lambda k: k.Attention(use_scale=True, **DOUBLE), lambda layer, x: layer([x, x * 0.5]), (2, 4, 3)),
    "GroupQueryAttention": (lambda k: k.GroupQueryAttention(3, 4, 2, **DOUBLE), lambda layer, x: layer(x, x * 0.5), (2, 4, 3)),
    "MultiHeadAttention": (
        lambda k: k.MultiHeadAttention(2, 3, **DOUBLE),
        lambda layer, x: layer(x, x, use_causal_mask=True),
        (2, 4, 3),
    ),
    "Bidirectional": (lambda k: k.Bidirectional(k.LSTM(2, **DOUBLE), **DOUBLE), lambda layer, x: layer(x), (2, 4, 3)),
    "Embedding": (lambda k: k.Embedding(5, 3, **DOUBLE), lambda layer, x: layer(np.array([[0, 2, 2]])) * x, (1, 3, 3)),
    "GRUCell": (lambda k: k.GRUCell(3, **DOUBLE), lambda layer, x: layer(x, [x * 0.5])[0], (2, 3)),
    "Lambda": (lambda k: k.Lambda(lambda x: x * x, **DOUBLE), lambda layer, x: layer(x), (2, 3)),
    "LSTMCell": (lambda k: k.LSTMCell(3, **DOUBLE), lambda layer, x: layer(x, [x * 0.5, x * 0.2])[0], (2, 3)),
    "Pipeline": (
        lambda k: k.Pipeline([k.Rescaling(2.0, **DOUBLE), k.Rescaling(3.0, **DOUBLE)]),
        lambda layer, x: layer(x),
        (2, 3),
    ),
    "ReversibleEmbedding": (
        lambda k: k.ReversibleEmbedding(5, 3, **DOUBLE),
        lambda layer, x: layer(layer(np.array([[0, 2, 2]])) * x, reverse=True),
        (1, 3, 3),
    ),
    "RNN": (lambda k: k.RNN(k.SimpleRNNCell(3, **DOUBLE), **DOUBLE), lambda layer, x: layer(x), (2, 4, 3)),
    "SimpleRNNCell": (lambda k: k.SimpleRNNCell(3, **DOUBLE), lambda layer, x: layer(x, [x * 0.5])[0], (2, 3)),
    "SpectralNormalization": (
        lambda k: k.SpectralNormalization(k.Dense(3, **DOUBLE), **DOUBLE),
        lambda layer, x: layer(x, training=False),
        (2, 4),
    ),
    "StackedRNNCells": (
        lambda k: k.RNN(k.StackedRNNCells([k.GRUCell(3, **DOUBLE), k.LSTMCell(2, **DOUBLE)], **DOUBLE), **DOUBLE),
        lambda layer, x: layer(x),
        (2, 4, 3),
    ),
    "TimeDistributed": (lambda k: k.TimeDistributed(k.Dense(2, **DOUBLE), **DOUBLE), lambda layer, x: layer(x), (2, 4, 3)),
}  # fmt: skip
_ABSTRACT, _FOREIGN = "a base class or no layer", "of another engine"
_CODES, _PIXELS = "makes numbers of classes, codes or words", "augments pixels by random choices, steps and tables"
LAYERS_WITHOUT = {
    **dict.fromkeys(("InputLayer", "InputSpec", "Layer", "Wrapper"), _ABSTRACT),
    **dict.fromkeys(("FlaxLayer", "JaxLayer", "TFSMLayer", "TorchModuleWrapper"), _FOREIGN),
    **dict.fromkeys(
        ("CategoryEncoding", "Discretization", "HashedCrossing", "Hashing", "IntegerLookup", "StringLookup",
        "TextVectorization"),
        _CODES,
    ),
    **dict.fromkeys(
        ("AugMix", "AutoContrast", "ContrastLimitedAdaptiveHistogramEqualization", "CutMix", "Equalization",
        "MaxNumBoundingBoxes", "MixUp",
         "RandAugment", "RandomBrightness", "RandomColorDegeneration", "RandomColorJitter", "RandomElasticTransform",
         "RandomErasing",
         "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert", "RandomPerspective", "RandomPosterization",
         "RandomSaturation", "RandomSharpness", "RandomShear", "Solarization"),
        _PIXELS,
    ),
}  # fmt: skip

# -- losses ----------------------------------------------------------------------------------------------------------------

_SHARES = np.random.default_rng(3).dirichlet(np.ones(4), size=3)
_SIGNS = np.sign(np.random.default_rng(3).normal(size=(3, 4)))
_CLASSES = np.array([2, 0, 3])
LOSSES: dict[str, Any] = {
    **dict.fromkeys(
        ("MeanSquaredError", "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanSquaredLogarithmicError", "Huber",
        "LogCosh",
         "CosineSimilarity", "Poisson", "KLDivergence", "BinaryCrossentropy", "CategoricalCrossentropy",
         "BinaryFocalCrossentropy",
         "CategoricalFocalCrossentropy", "Dice", "Tversky"),
        _SHARES,
    ),
    "CategoricalGeneralizedCrossEntropy": _CLASSES,
    "CategoricalHinge": np.eye(4)[_CLASSES],
    "Hinge": _SIGNS,
    "SquaredHinge": _SIGNS,
    "SparseCategoricalCrossentropy": _CLASSES,
    "Circle": np.array([1, 1, 2, 2]),
}  # fmt: skip
LOSSES_WITHOUT = {"Loss": _ABSTRACT, "CTC": "the operation ctc_loss stands for it"}

# -- operations ------------------------------------------------------------------------------------------------------------
# Each is given the module `keras.ops` and points of shape (3, 4); most are named after what they call.

_UNARY = (
    "abs", "absolute", "arcsinh", "arctan", "cbrt", "celu", "conj", "conjugate", "copy", "cos", "cosh", "cumprod", "cumsum",
    "deg2rad", "diff",
    "elu", "erf", "erfc", "exp", "exp2", "expm1", "fabs", "flip", "fliplr", "flipud", "gelu", "glu", "hard_sigmoid",
    "hard_silu", "hard_swish",
    "hard_tanh", "i0", "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "max", "amax", "mean", "median", "min",
    "amin", "nan_to_num",
    "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanprod", "nanstd", "nansum", "nanvar",
    "negative", "norm",
    "normalize", "prod", "ptp", "rad2deg", "ravel", "real", "reciprocal", "relu", "relu6", "rot90", "selu", "sigmoid", "silu",
    "sin", "sinc", "sinh",
    "soft_shrink", "hard_shrink", "softmax", "softplus", "softsign", "sort", "sparse_plus", "sparse_sigmoid", "sparsemax",
    "square", "squareplus",
    "squeeze", "std", "sum", "swish", "tan", "tanh", "tanh_shrink", "transpose", "trapezoid", "tril", "triu", "var",
    "rms_normalization",
    "layer_normalization", "convert_to_tensor", "array", "diagonal", "trace", "linalg.norm", "nn.moments",
)  # fmt: skip
_POSITIVE = ("log", "log10", "log1p", "log2", "sqrt", "rsqrt")
_BINARY = (
    "add", "arctan2", "divide", "divide_no_nan", "fmax", "fmin", "hypot", "logaddexp", "logaddexp2", "maximum", "minimum",
    "multiply", "subtract",
    "true_divide", "inner", "outer", "vdot", "append", "kron", "cdist",
)  # fmt: skip
_ARGUMENTS = {
    "nn.moments": (0,),
    "diff": (1, -1),
    "trapezoid": (),
    "cumprod": (1,),
    "cumsum": (1,),
    "nancumprod": (1,),
    "nancumsum": (1,),
}


def _named(ops: Any, name: str) -> Any:
    for part in name.split("."):
        ops = getattr(ops, part)
    return ops


def _first(result: Any) -> Any:
    return result[0] if isinstance(result, (tuple, list)) else result


def _square(o: Any, x: Any) -> Any:
    """A symmetric matrix with eigenvalues apart and above zero."""
    return o.matmul(x, o.transpose(x)) + np.diag([1.0, 2.0, 3.5])


def _image(o: Any, x: Any) -> Any:
    return o.reshape(x, (1, 3, 4, 1))


def _coloured(o: Any, x: Any) -> Any:
    """Colours between 0 and 1, no two channels alike."""
    return o.reshape(o.sigmoid(x), (1, 2, 2, 3))


def _cut(o: Any, x: Any) -> tuple[Any, Any]:
    return o.reshape(x[:2], (1, 8, 1)), o.reshape(x[2], (2, 1, 2))


def _custom(o: Any, x: Any) -> Any:
    return o.custom_gradient(lambda y: (y * y, lambda *a, upstream=None: (a[0] if upstream is None else upstream) * 2.0 * y))(x)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: (lambda o, x, n=name: _first(_named(o, n)(x, *_ARGUMENTS.get(n, ())))) for name in _UNARY},
    **{name: (lambda o, x, n=name: _named(o, n)(x * x + 0.1)) for name in _POSITIVE},
    **{name: (lambda o, x, n=name: _named(o, n)(x, o.roll(x, 1, 0) * 1.1 + 0.05)) for name in _BINARY},
    **{name: (lambda o, x, n=name: _named(o, n)(x / 3.0)) for name in ("arccos", "arcsin", "arctanh", "erfinv")},
    "adaptive_average_pool": lambda o, x: o.adaptive_average_pool(o.reshape(x, (1, 12, 1)), 5),
    "adaptive_max_pool": lambda o, x: o.adaptive_max_pool(o.reshape(x, (1, 12, 1)), 5),
    "arccosh": lambda o, x: o.arccosh(x * x + 1.5),
    "array_split": lambda o, x: o.array_split(x, 3, 1)[0] ** 2,
    "associative_scan": lambda o, x: o.associative_scan(o.multiply, x),
    "average": lambda o, x: o.average(x, 1, weights=x * x),
    "average_pool": lambda o, x: o.average_pool(_image(o, x), 2, 1, "same"),
    "batch_normalization": lambda o, x: o.batch_normalization(x, o.mean(x, 0), o.var(x, 0), -1, x[0], x[1]),
    "binary_crossentropy": lambda o, x: o.binary_crossentropy(_SHARES, o.sigmoid(x)),
    "broadcast_to": lambda o, x: o.broadcast_to(x, (2, 3, 4)),
    "cast": lambda o, x: o.cast(x, "float64"),
    "categorical_crossentropy": lambda o, x: o.categorical_crossentropy(_SHARES, x, from_logits=True),
    "cholesky": lambda o, x: o.cholesky(_square(o, x)),
    "cholesky_inverse": lambda o, x: o.cholesky_inverse(o.cholesky(_square(o, x))),
    "clip": lambda o, x: o.clip(x, -1.0, 1.0),
    "concatenate": lambda o, x: o.concatenate([x, x * x], 0),
    "cond": lambda o, x: o.cond(o.sum(x) > 0, lambda: x * 2, lambda: x * x),
    "conv": lambda o, x: o.conv(*_cut(o, x)),
    "conv_transpose": lambda o, x: o.conv_transpose(o.reshape(x[:2], (1, 8, 1)), o.reshape(x[2], (2, 2, 1)), 2),
    "corrcoef": lambda o, x: o.corrcoef(x),
    "correlate": lambda o, x: o.correlate(x[0], x[1], "full"),
    "cross": lambda o, x: o.cross(x[:, :3], x[:, 1:]),
    "ctc_loss": lambda o, x: o.ctc_loss(
        np.array([[1, 2]]), o.reshape(x, (1, 4, 3)), np.array([2]), np.array([4])
    ),
    "custom_gradient": _custom,
    "depth_to_space": lambda o, x: o.depth_to_space(o.reshape(x, (1, 3, 1, 4)), 2),
    "depthwise_conv": lambda o, x: o.depthwise_conv(_image(o, x), o.reshape(x[0], (2, 2, 1, 1))),
    "det": lambda o, x: o.det(_square(o, x)),
    "diag": lambda o, x: o.diag(x[0]),
    "diagflat": lambda o, x: o.diagflat(x),
    "dot": lambda o, x: o.dot(x, o.transpose(x)),
    "dot_product_attention": lambda o, x: o.dot_product_attention(*[o.reshape(x * s, (1, 3, 2, 2)) for s in (1.0, 0.5, 2.0)]),
    "dsplit": lambda o, x: o.dsplit(o.reshape(x, (3, 2, 2)), 2)[1],
    "dstack": lambda o, x: o.dstack([x, x * x]),
    "eigh": lambda o, x: o.eigh(_square(o, x))[0],
    "einsum": lambda o, x: o.einsum("ij,kj->ik", x, x),
    "expand_dims": lambda o, x: o.expand_dims(x, 1),
    "extract_sequences": lambda o, x: o.extract_sequences(x, 2, 1),
    "fft": lambda o, x: o.fft((x, x * x))[0],
    "fft2": lambda o, x: o.fft2((x, x * x))[1],
    "fmod": lambda o, x: o.fmod(x, 1.3),
    "fold": lambda o, x: o.fold(o.reshape(x, (1, 4, 3)), (2, 4), 2),
    "fori_loop": lambda o, x: o.fori_loop(0, 3, lambda i, y: o.sin(y) + x, x),
    "get_item": lambda o, x: o.get_item(x, (slice(None), 1)),
    "hsplit": lambda o, x: o.hsplit(x, 2)[1],
    "hstack": lambda o, x: o.hstack([x, x * x]),
    "ifft2": lambda o, x: o.ifft2((x, x * x))[0],
    "imag": lambda o, x: o.imag(o.cast(x, "complex128") * (1 + 2j)),
    "inv": lambda o, x: o.inv(_square(o, x)),
    "irfft": lambda o, x: o.irfft((x, x * x)),
    "istft": lambda o, x: o.istft(o.stft(o.reshape(x, (1, 12)), 4, 2, 4), 4, 2, 4),
    "jvp": lambda o, x: o.jvp(o.sin, (x,), (x * x,))[1],
    "ldexp": lambda o, x: o.ldexp(x, np.array([[1], [2], [0]])),
    "linspace": lambda o, x: o.linspace(x[0], x[1], 5),
    "logspace": lambda o, x: o.logspace(x[0], x[1], 3),
    "logdet": lambda o, x: o.logdet(_square(o, x)),
    "lstsq": lambda o, x: o.lstsq(o.transpose(x), o.sum(x * x, 0)),
    "lu_factor": lambda o, x: o.lu_factor(_square(o, x))[0],
    "map": lambda o, x: o.map(lambda r: o.sum(r * r), x),
    "matmul": lambda o, x: o.matmul(x, o.transpose(x)),
    "max_pool": lambda o, x: o.max_pool(_image(o, x), 2, 1),
    "meshgrid": lambda o, x: o.meshgrid(x[0], x[1])[1],
    "mod": lambda o, x: o.mod(x, 1.3),
    "moments": lambda o, x: o.moments(x, 0)[1],
    "moveaxis": lambda o, x: o.moveaxis(x, 0, 1),
    "nanpercentile": lambda o, x: o.nanpercentile(x, 30, 1),
    "nanquantile": lambda o, x: o.nanquantile(x, 0.3, 1),
    "pad": lambda o, x: o.pad(x, ((1, 0), (0, 2)), "reflect"),
    "percentile": lambda o, x: o.percentile(x, 30, 1),
    "pinv": lambda o, x: o.pinv(x),
    "polar": lambda o, x: o.real(o.polar(x, x * x)),
    "power": lambda o, x: o.power(x * x + 0.1, x),
    "psnr": lambda o, x: o.psnr(x, x * x, 2.0),
    "qr": lambda o, x: o.qr(x)[1],
    "quantile": lambda o, x: o.quantile(x, 0.3, 1),
    "rearrange": lambda o, x: o.rearrange(x, "a (b c) -> c (a b)", b=2),
    "repeat": lambda o, x: o.repeat(x, 2, 1),
    "reshape": lambda o, x: o.reshape(x, (4, 3)),
    "rfft": lambda o, x: o.rfft(x)[1],
    "roll": lambda o, x: o.roll(x, 1, 1),
    "saturate_cast": lambda o, x: o.saturate_cast(x, "float64"),
    "scan": lambda o, x: o.scan(lambda c, r: (c * r, c + r), x[0], x)[1],
    "scatter": lambda o, x: o.scatter(np.array([[0], [2], [0]]), x, (3, 4)),
    "scatter_update": lambda o, x: o.scatter_update(x, np.array([[0, 0]]), x[1, 1:2] ** 2),
    "segment_max": lambda o, x: o.segment_max(x, np.array([0, 1, 0]), 2),
    "segment_min": lambda o, x: o.segment_min(x, np.array([0, 1, 0]), 2),
    "segment_prod": lambda o, x: o.segment_prod(x, np.array([0, 1, 0]), 2),
    "segment_sum": lambda o, x: o.segment_sum(x, np.array([0, 1, 0]), 2),
    "select": lambda o, x: o.select([x > 1.0, x > 0.0], [x * 2, x * x], 0.0),
    "separable_conv": lambda o, x: o.separable_conv(
        _image(o, x), o.reshape(x[0], (2, 2, 1, 1)), o.reshape(x[1, :2], (1, 1, 1, 2))
    ),
    "slice": lambda o, x: o.slice(x, (1, 0), (2, 3)),
    "slice_update": lambda o, x: o.slice_update(x, (1, 0), x[:1] ** 2),
    "slogdet": lambda o, x: o.slogdet(_square(o, x))[1],
    "solve": lambda o, x: o.solve(_square(o, x), x),
    "solve_triangular": lambda o, x: o.solve_triangular(_square(o, x), x, lower=True),
    "space_to_depth": lambda o, x: o.space_to_depth(o.reshape(x, (1, 2, 2, 3)), 2),
    "sparse_categorical_crossentropy": lambda o, x: o.sparse_categorical_crossentropy(_CLASSES, x, from_logits=True),
    "split": lambda o, x: o.split(x, 2, 1)[1],
    "stack": lambda o, x: o.stack([x, x * x], 1),
    "stft": lambda o, x: o.stft(x, 2, 1, 2)[0],
    "stop_gradient": lambda o, x: x * o.stop_gradient(np.ones((3, 4))),
    "svd": lambda o, x: o.svd(x, compute_uv=False),
    "swapaxes": lambda o, x: o.swapaxes(x, 0, 1),
    "switch": lambda o, x: o.switch(1, [lambda y: y, lambda y: y * y], x),
    "take": lambda o, x: o.take(x, np.array([1, 1, 3]), 1),
    "take_along_axis": lambda o, x: o.take_along_axis(x, np.array([[0], [1], [0]]), 1),
    "tensordot": lambda o, x: o.tensordot(x, x, [[0, 1], [0, 1]]),
    "threshold": lambda o, x: o.threshold(x, 0.5, 0.1),
    "tile": lambda o, x: o.tile(x, (2, 1)),
    "top_k": lambda o, x: o.top_k(x, 2)[0],
    "unfold": lambda o, x: o.unfold(o.reshape(x, (1, 1, 3, 4)), 2),
    "unstack": lambda o, x: o.unstack(x, 3)[1],
    "vander": lambda o, x: o.vander(x[0]),
    "vectorize": lambda o, x: o.vectorize(o.sin)(x),
    "vectorized_map": lambda o, x: o.vectorized_map(lambda r: o.sum(r * r), x),
    "view_as_real": lambda o, x: o.view_as_real(o.cast(x, "complex128") * (1 + 2j)),
    "vsplit": lambda o, x: o.vsplit(x, 3)[1],
    "vstack": lambda o, x: o.vstack([x, x * x]),
    "where": lambda o, x: o.where(x > 0, x, x * x),
    "while_loop": lambda o, x: o.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, o.sin(y)), (0, x))[1],
    "angle": lambda o, x: o.angle(o.polar(x * x + 0.1, x)),
    "image.affine_transform": lambda o, x: o.image.affine_transform(
        _image(o, x), np.array([1.1, 0.2, 0.3, 0.1, 0.9, 0.2, 0.0, 0.0])
    ),
    "image.crop_images": lambda o, x: o.image.crop_images(_image(o, x), 1, 1, target_height=2, target_width=2),
    "image.extract_patches": lambda o, x: o.image.extract_patches(_image(o, x), 2),
    "image.extract_patches_3d": lambda o, x: o.image.extract_patches_3d(o.reshape(x, (1, 3, 2, 2, 1)), 2),
    "image.gaussian_blur": lambda o, x: o.image.gaussian_blur(_image(o, x)),
    "image.hsv_to_rgb": lambda o, x: o.image.hsv_to_rgb(_coloured(o, x)),
    "image.map_coordinates": lambda o, x: o.image.map_coordinates(x, np.array([[0.3, 1.2], [1.7, 2.4]]) * 1.0, 1),
    "image.pad_images": lambda o, x: o.image.pad_images(_image(o, x), 1, 1, target_height=5, target_width=6),
    "image.perspective_transform": lambda o, x: o.image.perspective_transform(
        _image(o, x), np.array([[[0.0, 0], [3, 0], [0, 2], [3, 2]]]),
        np.array([[[0.2, 0.1], [2.8, 0.3], [0.1, 1.7], [2.6, 1.9]]])
    ),
    "image.resize": lambda o, x: o.image.resize(_image(o, x), (5, 3), "bicubic"),
    "image.rgb_to_grayscale": lambda o, x: o.image.rgb_to_grayscale(_coloured(o, x)),
    "image.rgb_to_hsv": lambda o, x: o.image.rgb_to_hsv(_coloured(o, x)),
    "image.scale_and_translate": lambda o, x: o.image.scale_and_translate(
        _image(o, x), (1, 5, 5, 1), np.array([1.3, 1.2]), np.array([0.2, 0.1]), (1, 2), "linear"
    ),
    "image.sobel_edges": lambda o, x: o.image.sobel_edges(_image(o, x)),
    "image.ssim": lambda o, x: o.image.ssim(_image(o, o.sigmoid(x)), _image(o, o.sigmoid(2 * x)), filter_size=3),
}  # fmt: skip
_WHOLE = "its results are truth values, integers or steps: its derivative is zero where there is one"
_NEW = "makes new arrays of sizes, not of values"
OPERATIONS_WITHOUT: dict[str, str] = {
    **dict.fromkeys(
        ("all", "allclose", "any", "argmax", "argmin", "argpartition", "argsort", "bincount", "bitwise_and", "bitwise_invert",
         "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "count_nonzero",
         "ctc_decode",
         "digitize", "equal", "floor", "floor_divide", "gcd", "greater", "greater_equal", "heaviside", "histogram",
         "in_top_k", "isclose",
         "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "lcm", "left_shift", "less", "less_equal",
         "logical_and",
         "logical_not", "logical_or", "logical_xor", "matrix_rank", "multi_hot", "nanargmax", "nanargmin", "nextafter",
         "nonzero",
         "not_equal", "one_hot", "right_shift", "round", "searchsorted", "sign", "signbit", "trunc", "unique", "unravel_index"),
        _WHOLE,
    ),
    **dict.fromkeys(
        ("arange", "bartlett", "blackman", "empty", "empty_like", "eye", "full", "full_like", "geomspace", "hamming",
        "hanning", "identity",
         "kaiser", "ones", "ones_like", "tri", "zeros", "zeros_like"),
        _NEW,
    ),
    **dict.fromkeys(("convert_to_numpy", "dtype", "is_tensor", "ndim", "shape", "size"), "asks about a tensor or takes it out"),
    **dict.fromkeys(("image", "linalg", "nn", "numpy"), "a module, whose functions are here under their own names"),
    "eig": "complex eigenvectors of general matrices: refused in words",
    "view_as_complex": "Keras itself makes complex64 of float64; `polar`, `imag` and `view_as_real` have the same derivatives",
    "view": "the same bits as another type",
    "image.elastic_transform": "draws; the operations it consists of are here",
}  # fmt: skip
