"""Low precision leaked, edges broke: products of bfloat16 came out as float32, uint8 / 255 as float64 (and what it met became
float64 too), remainders of float32 were all rounding, swish(-90) was 0, and standard deviations and Euclidean norms had NaN
gradients at zero. The table says what dtype each operation gives for each dtype, where TensorFlow 2.21 has an answer it is
TensorFlow's; eager code, the traced type, interpreted and native results agree."""

import numpy as np
import pytest

import gradtape as gt

FLOATS, COMPLEX = ["float16", "bfloat16", "float32", "float64"], ["complex64", "complex128"]
SMALL, LARGE = ["int8", "int16", "uint8", "uint16"], ["int32", "int64", "uint32", "uint64"]
NUMBERS = [*FLOATS, *SMALL, *LARGE, *COMPLEX]
RULES = {
    "same": lambda d: d,
    "float": lambda d: d if d in FLOATS + COMPLEX else "float32",  # TensorFlow refuses integers here
    "quotient": lambda d: d if d in FLOATS + COMPLEX else "float32" if d in SMALL else "float64",
    "real": lambda d: {"complex64": "float32", "complex128": "float64"}.get(d, d),
    # TensorFlow truncates the norms of integers and gives those of complex numbers a complex dtype
    "norm": lambda d: {"complex64": "float32", "complex128": "float64"}.get(d, d if d in FLOATS else "float32"),
    "bool": lambda d: "bool",
    "complex": lambda d: "complex128" if d == "float64" else "complex64",
}  # fmt: skip
REAL = [*FLOATS, *SMALL, *LARGE]
# operation: (rule, dtypes, function of two matrices)
TABLE = {
    "+": ("same", NUMBERS, lambda a, b: a + b),
    "-": ("same", NUMBERS, lambda a, b: a - b),
    "*": ("same", NUMBERS, lambda a, b: a * b),
    "/": ("quotient", NUMBERS, lambda a, b: a / b),
    "/ 100": ("quotient", NUMBERS, lambda a, b: a / 100),
    "/ 255": ("quotient", NUMBERS, lambda a, b: a / 255),
    "100 /": ("quotient", NUMBERS, lambda a, b: 100 / a),
    "//": ("same", REAL, lambda a, b: a // b),
    "%": ("same", REAL, lambda a, b: a % b),
    "** 2": ("same", NUMBERS, lambda a, b: a**2),
    "pow": ("same", NUMBERS, gt.pow),
    "truncatediv": ("same", REAL, gt.truncatediv),
    "truncatemod": ("same", REAL, gt.truncatemod),
    "maximum": ("same", REAL, gt.maximum),
    "complex": ("complex", FLOATS, gt.complex),
    "squared_difference": ("same", NUMBERS, gt.math.squared_difference),
    "divide_no_nan": ("quotient", NUMBERS, gt.math.divide_no_nan),
    "<": ("bool", REAL, lambda a, b: a < b),
    "where": ("same", NUMBERS, lambda a, b: gt.where(a == b, a, b)),
    "concat": ("same", NUMBERS, lambda a, b: gt.concat([a, b], 0)),
    "atan2": ("float", REAL, gt.atan2),
    "abs": ("real", NUMBERS, lambda a, b: abs(a)),
    "negative": ("same", NUMBERS, lambda a, b: -a),
    "square": ("same", NUMBERS, lambda a, b: gt.square(a)),
    "sign": ("same", NUMBERS, lambda a, b: gt.sign(a)),
    "floor": ("same", REAL, lambda a, b: gt.floor(a)),
    "round": ("same", REAL, lambda a, b: gt.round(a)),
    **{
        name: ("float", NUMBERS, lambda a, b, f=getattr(gt, name): f(a))
        for name in ("exp", "log", "sin", "tanh", "sqrt", "sigmoid")
    },
    "rsqrt": ("float", NUMBERS, lambda a, b: gt.math.rsqrt(a)),
    "reciprocal": ("float", NUMBERS, lambda a, b: gt.math.reciprocal(a)),
    "silu": ("float", REAL, lambda a, b: gt.nn.silu(a)),
    "softmax": ("float", REAL, lambda a, b: gt.nn.softmax(a)),
    "relu": ("same", REAL, lambda a, b: gt.nn.relu(a)),
    "sum": ("same", NUMBERS, lambda a, b: gt.reduce_sum(a, 0)),
    "mean": ("same", NUMBERS, lambda a, b: gt.reduce_mean(a, 0)),
    "prod": ("same", NUMBERS, lambda a, b: gt.reduce_prod(a, 0)),
    "max": ("same", REAL, lambda a, b: gt.reduce_max(a, 0)),
    "std": ("real", FLOATS + COMPLEX, lambda a, b: gt.math.reduce_std(a, 0)),
    "euclidean": ("norm", NUMBERS, lambda a, b: gt.math.reduce_euclidean_norm(a)),
    "cumsum": ("same", NUMBERS, lambda a, b: gt.cumsum(a)),
    "@": ("same", NUMBERS, lambda a, b: a @ b),
    "matmul": ("same", NUMBERS, gt.matmul),
    "batch": ("same", NUMBERS, lambda a, b: a[None] @ b),
    "einsum": ("same", NUMBERS, lambda a, b: gt.einsum("ij,kj->ki", a, b)),
    "3": ("same", NUMBERS, lambda a, b: gt.einsum("ij,jk,kl->l", a, b, a)),
    "tensordot": ("same", NUMBERS, lambda a, b: gt.tensordot(a, b, 2)),
    "outer": ("same", NUMBERS, lambda a, b: gt.tensordot(a, b, 0)),
    "matvec": ("same", NUMBERS, lambda a, b: gt.linalg.matvec(a, b[0])),
    "unsorted_segment_mean": ("quotient", NUMBERS, lambda a, b: gt.math.unsorted_segment_mean(a, [0, 0], 1)),
    "segment_mean": ("same", NUMBERS, lambda a, b: gt.math.segment_mean(a, [0, 0])),
    "linspace": ("quotient", REAL, lambda a, b: gt.linspace(a, b, 3)),
}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_eager_traced_interpreted_and_native_dtypes(dtype):
    rows = {name: (RULES[rule](dtype), run) for name, (rule, dtypes, run) in TABLE.items() if dtype in dtypes}
    a, b = (gt.cast(gt.constant(v), dtype) for v in ([[2.0, 1.0], [1.0, 3.0]], [[1.0, 2.0], [3.0, 4.0]]))
    traced = {}

    def program(a, b):
        results = {name: run(a, b) for name, (_, run) in rows.items()}
        traced.update({name: result.dtype.name for name, result in results.items()})
        return results

    want = {name: dtype for name, (dtype, _) in rows.items()}
    eager = program(a, b)
    assert traced == want
    for native in (False, True):
        traced.clear()
        results = gt.function(program, jit_compile=native)(a, b)
        assert traced == want
        assert {name: result.dtype.name for name, result in results.items()} == want
        assert {name: str(result.numpy().dtype) for name, result in results.items()} == want
        for name, result in results.items():
            np.testing.assert_allclose(
                np.asarray(result.numpy(), complex), np.asarray(eager[name].numpy(), complex), rtol=1e-2, err_msg=name
            )


def test_a_picture_stays_float32():
    picture = gt.constant([[0, 51, 255]], gt.uint8)
    weights = gt.ones([3, 2])
    for run in (lambda p: (p / 255) @ weights, gt.function(lambda p: (p / 255) @ weights)):
        assert run(picture).dtype == gt.float32
        np.testing.assert_allclose(run(picture), [[1.2, 1.2]], rtol=1e-6)
    np.testing.assert_array_equal((gt.constant([100, -100], gt.int8) / 1000).numpy(), np.float32([0.1, -0.1]))
    assert (gt.constant([1], gt.uint8) / gt.constant([3], gt.uint8)).numpy() == np.float32(1) / np.float32(3)


@pytest.mark.parametrize(
    "operate", [lambda x: x // x, lambda x: x % x, lambda x: x**x, lambda x: x**2, gt.nn.relu, gt.nn.relu6]
)
def test_booleans_are_refused_where_numpy_makes_small_integers_of_them(operate):
    for run in (operate, gt.function(operate), gt.function(operate, jit_compile=False)):
        with pytest.raises(TypeError, match="booleans are not numbers"):
            run(gt.constant([True, True]))


@pytest.mark.parametrize("function", [gt.linalg.inv, gt.linalg.det, gt.linalg.cholesky, gt.linalg.svd, gt.linalg.eigh])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_linear_algebra_refuses_half_precision(function, dtype):
    for run in (function, gt.function(function)):
        with pytest.raises(TypeError, match=rf"no {dtype}; use gt.cast\(x, gt.float32\)"):
            run(gt.eye(2, dtype=dtype))


def test_gradients_of_low_precision_products():
    for dtype in ("bfloat16", "float16"):
        x = gt.cast(gt.constant([[1.0, 2.0], [3.0, 4.0]]), dtype)
        for run in (
            lambda x: x @ x,
            lambda x: gt.einsum("ij,kj->ik", x, x),
            lambda x: gt.tensordot(x, x, 1) / 3,
            gt.reduce_mean,
        ):
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = gt.reduce_sum(run(x))
            assert (y.dtype, tape.gradient(y, x).dtype) == (dtype, dtype)


# -- values ----------------------------------------------------------------------------------------------------------


def modes(function):
    return function, gt.function(function, jit_compile=False), gt.function(function)


def test_remainders_are_exact():
    x = np.float32([5.3, -5.3, 1e8, 7.5, 0.3, -1e30, 5.0, -5.0, 3.0])
    y = np.float32([0.1, 0.1, 0.3, -2.0, 0.1, 3.0, np.inf, -np.inf, 0.0])
    for run in (*modes(gt.truncatemod), *modes(lambda x, y: np.fmod(x, y))):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(run(gt.constant(x), gt.constant(y)).numpy(), np.fmod(x, y))
    assert gt.truncatemod([7, -7, 7, -7], [3, 3, -3, -3]).numpy().tolist() == [1, -1, 1, -1]
    g = gt.grad(lambda v: gt.truncatemod(v[0], v[1]))
    for v, want in (([5.3, 2.0], [1, -2]), ([-5.3, 2.0], [1, 2]), ([5.3, -2.0], [1, 2]), ([0.0, 2.0], [1, 0])):
        assert g(gt.constant(v)).numpy().tolist() == want


def test_swish_far_out():
    x = np.float32([-80, -87, -88.5, -89, -90, -95, -100, -200, 100, 0])
    with np.errstate(under="ignore"):
        want = x.astype(np.float64) / (1 + np.exp(-x.astype(np.float64)))
        for run in modes(gt.nn.silu):
            np.testing.assert_allclose(run(gt.constant(x)).numpy(), want, rtol=1e-5, atol=1e-39)
        doubles = np.array([-700.0, -709.5, -712.0, -740.0])
        for run in modes(gt.nn.swish):
            np.testing.assert_allclose(run(gt.constant(doubles)).numpy(), doubles * np.exp(doubles), rtol=1e-10, atol=1e-320)
        for run in modes(gt.sigmoid):
            np.testing.assert_allclose(
                run(gt.constant([-89.0, -np.inf, np.inf])).numpy(), [np.exp(-89.0), 0, 1], rtol=1e-5, atol=1e-44
            )


ZERO_SPREAD = {
    "reduce_std": gt.math.reduce_std,
    "reduce_euclidean_norm": lambda x: gt.math.reduce_euclidean_norm(x - 2.0),
    "norm": lambda x: gt.norm(x - 2.0),
    "np.std": np.std,
    "np.linalg.norm": lambda x: np.linalg.norm(x - 2.0),
    "np.nanstd": np.nanstd,
    "global_norm": lambda x: gt.global_norm([x - 2.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", ZERO_SPREAD)
def test_gradients_at_zero_spread_are_zero(name):
    def loss(x):
        return ZERO_SPREAD[name](x) + gt.reduce_sum(x * x)

    x = gt.constant([2.0, 2.0, 2.0], gt.float64)
    for run in modes(loss):
        with gt.GradientTape() as outer:
            outer.watch(x)
            with gt.GradientTape() as tape:
                tape.watch(x)
                y = run(x)
            g = tape.gradient(y, x)
        np.testing.assert_array_equal(g.numpy(), [4.0, 4.0, 4.0])
        np.testing.assert_array_equal(outer.gradient(g, x).numpy(), [2.0, 2.0, 2.0])


def test_a_gradient_has_the_dtype_of_its_source_also_behind_masked_lanes():
    half, x = gt.Variable([1.0, 2.0], dtype=gt.bfloat16), gt.Variable([0.0, 1.0], dtype=gt.float64)
    with gt.GradientTape() as tape:
        root = gt.where(x > 0.1, gt.sqrt(x), 0.0)  # its slope is infinite where nobody takes it: the walk runs a second time
        loss = gt.reduce_sum(root) + gt.cast(gt.reduce_sum(half * 3), gt.float64)
    gradients = tape.gradient(loss, [half, x])
    assert [g.dtype for g in gradients] == [gt.bfloat16, gt.float64]
    assert np.asarray(gradients[0], np.float64).tolist() == [3.0, 3.0]
