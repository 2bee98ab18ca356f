"""NumPy functions on tensors: the same values as NumPy, recorded, differentiated; the rest refused with the cure."""

import operator

import numpy as np
import pytest
import scipy.special

import gradtape as gt

# a piecewise linear function has no second derivative: its sources reach it through comparisons only
RNG = np.random.default_rng(7)
M = RNG.normal(size=(3, 4))
V = RNG.normal(size=4)
POS = RNG.uniform(0.5, 2.0, size=(3, 4))
UNIT = RNG.uniform(-0.8, 0.8, size=(3, 4))
SQ = RNG.normal(size=(3, 3)) + 3.0 * np.eye(3)
SPD = SQ @ SQ.T
CUBE = RNG.normal(size=(2, 3, 4))
OTHER = RNG.normal(size=(3, 4)) + 3.0
NANS = np.array([[1.0, np.nan, 2.0], [np.nan, 3.0, 5.0]])


def leaves(result):
    """The arrays inside a result."""
    if isinstance(result, (tuple, list)):
        return [leaf for part in result for leaf in leaves(part)]
    if isinstance(result, gt.Tensor):
        return [result]
    return [np.asarray(result)]


def check(function, *args, grad=True):
    """Values against NumPy; first and second derivative of a weighted sum against central differences."""
    expected = leaves(function(*args))
    tensors = [gt.constant(a) if isinstance(a, np.ndarray) else a for a in args]
    found = leaves(function(*tensors))
    assert len(found) == len(expected)
    for have, want in zip(found, expected, strict=True):
        assert isinstance(have, gt.Tensor)
        assert tuple(have.shape) == want.shape
        np.testing.assert_allclose(have.numpy(), want, rtol=1e-10, atol=1e-12)
    if not grad:
        return
    sources = [t for t in tensors if isinstance(t, gt.Tensor) and t.dtype.is_differentiable]
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=w.shape) for w in expected]
    directions = [rng.normal(size=tuple(s.shape)) for s in sources]
    places = [i for i, t in enumerate(tensors) if any(t is s for s in sources)]

    def scalar(*values):
        total = 0.0
        for part, weight in zip(leaves(function(*values)), weights, strict=True):
            if isinstance(part, gt.Tensor):
                if part.dtype.is_differentiable:
                    part = gt.abs(part) if part.dtype.is_complex else part
                    total = total + gt.reduce_sum(part * weight)
            elif part.dtype.kind in "fc":
                total = total + np.sum((np.abs(part) if part.dtype.kind == "c" else part) * weight)
        return total

    def moved(step):
        values = list(args)
        for place, direction in zip(places, directions, strict=True):
            values[place] = args[place] + step * direction
        return values

    def slope(values):
        xs = [gt.constant(v) if isinstance(v, np.ndarray) else v for v in values]
        watched = [xs[p] for p in places]
        with gt.GradientTape() as tape:
            tape.watch(watched)
            y = scalar(*xs)
        grads = tape.gradient(y, watched, unconnected_gradients="zero")
        return sum(float(np.sum(np.asarray(g) * d)) for g, d in zip(grads, directions, strict=True))

    h = 1e-6
    numeric = (scalar(*moved(h)) - scalar(*moved(-h))) / (2 * h)
    np.testing.assert_allclose(slope(args), numeric, rtol=1e-5, atol=1e-6)

    with gt.GradientTape() as outer:
        outer.watch(sources)
        with gt.GradientTape() as inner:
            inner.watch(sources)
            y = scalar(*tensors)
        grads = inner.gradient(y, sources, unconnected_gradients="zero")
        directional = sum(gt.reduce_sum(g * d) for g, d in zip(grads, directions, strict=True))
    seconds = outer.gradient(directional, sources, unconnected_gradients="zero")
    exact = sum(float(np.sum(np.asarray(g) * d)) for g, d in zip(seconds, directions, strict=True))
    numeric = (slope(moved(h)) - slope(moved(-h))) / (2 * h)
    np.testing.assert_allclose(exact, numeric, rtol=1e-4, atol=1e-4)


UNARY = [
    (np.negative, M), (np.positive, M), (np.absolute, M), (np.fabs, M), (np.sign, M), (np.square, M), (np.sqrt, POS),
    (np.cbrt, POS), (np.reciprocal, POS), (np.exp, M), (np.exp2, M), (np.expm1, M), (np.log, POS), (np.log2, POS),
    (np.log10, POS), (np.log1p, POS), (np.sin, M), (np.cos, M), (np.tan, UNIT), (np.arcsin, UNIT), (np.arccos, UNIT),
    (np.arctan, M), (np.sinh, M), (np.cosh, M), (np.tanh, M), (np.arcsinh, M), (np.arccosh, POS + 1), (np.arctanh, UNIT),
    (np.deg2rad, M), (np.rad2deg, M), (np.radians, M), (np.degrees, M), (np.floor, M), (np.ceil, M), (np.rint, M),
    (np.trunc, M), (np.modf, M), (np.conjugate, M),
]  # fmt: skip


@pytest.mark.parametrize(("ufunc", "x"), UNARY, ids=lambda v: getattr(v, "__name__", ""))
def test_unary_ufunc(ufunc, x):
    check(ufunc, x)


BINARY = [
    np.add, np.subtract, np.multiply, np.divide, np.true_divide, np.floor_divide, np.remainder, np.mod, np.fmod, np.divmod,
    np.arctan2, np.hypot, np.maximum, np.minimum, np.fmax, np.fmin, np.logaddexp, np.logaddexp2, np.heaviside, np.copysign,
]  # fmt: skip


# heaviside and copysign depend on one argument through a comparison only, and say so
@pytest.mark.filterwarnings("ignore:the source reaches the target only through:gradtape.errors.GradientWarning")
@pytest.mark.parametrize("ufunc", BINARY, ids=lambda u: u.__name__)
def test_binary_ufunc_broadcast_and_mixed(ufunc):
    check(ufunc, M, OTHER)
    check(ufunc, M, OTHER[0])
    check(lambda x: ufunc(x, OTHER), M)
    check(lambda x: ufunc(M, x), OTHER)


def test_powers():
    check(np.power, POS, OTHER)
    check(np.float_power, POS, OTHER)
    check(lambda x: np.power(x, 3), M)
    check(lambda x: np.power(2.0, x), M)


@pytest.mark.parametrize(
    "ufunc", [np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal], ids=lambda u: u.__name__
)
def test_comparisons(ufunc):
    x = np.array([1.0, 2.0, 3.0])
    y = np.array([2.0, 2.0, 2.0])
    found = ufunc(gt.constant(x), y)
    assert found.dtype == gt.bool
    np.testing.assert_array_equal(found.numpy(), ufunc(x, y))
    np.testing.assert_array_equal(ufunc(x, gt.constant(y)).numpy(), ufunc(x, y))


@pytest.mark.parametrize("ufunc", [np.logical_and, np.logical_or, np.logical_xor], ids=lambda u: u.__name__)
@pytest.mark.parametrize("dtype", [bool, int, float])
def test_logic_takes_numbers(ufunc, dtype):
    x, y = np.array([0, 0, 2, 1], dtype), np.array([0, 1, 0, 1], dtype)
    np.testing.assert_array_equal(ufunc(gt.constant(x), gt.constant(y)).numpy(), ufunc(x, y))
    np.testing.assert_array_equal(np.logical_not(gt.constant(x)).numpy(), np.logical_not(x))


@pytest.mark.parametrize("ufunc", [np.bitwise_and, np.bitwise_or, np.bitwise_xor], ids=lambda u: u.__name__)
@pytest.mark.parametrize("dtype", [bool, np.int32])
def test_bits(ufunc, dtype):
    x, y = np.array([0, 1, 1, 0], dtype), np.array([1, 1, 0, 0], dtype)
    np.testing.assert_array_equal(ufunc(gt.constant(x), gt.constant(y)).numpy(), ufunc(x, y))
    np.testing.assert_array_equal(np.invert(gt.constant(x)).numpy(), np.invert(x))


def test_special_values():
    x = np.array([0.0, np.nan, np.inf, -np.inf, -1.0])
    for ufunc in (np.isnan, np.isinf, np.isfinite, np.signbit):
        np.testing.assert_array_equal(ufunc(gt.constant(x)).numpy(), ufunc(x))


def test_matmul_all_ranks():
    check(np.matmul, M, M.T)
    check(np.matmul, M, V)
    check(np.matmul, V, M.T)
    check(np.matmul, V, V)
    check(np.matmul, CUBE, RNG.normal(size=(4, 2)))
    check(np.vecdot, M, OTHER)
    check(operator.matmul, CUBE, V)
    with pytest.raises(ValueError, match="scalars are not matrices"):
        np.matmul(gt.constant(2.0), gt.constant(M))


def test_reduce_accumulate_outer_of_ufuncs():
    check(np.add.reduce, M)
    check(lambda x: np.add.reduce(x, axis=1, keepdims=True), M)
    check(lambda x: np.add.reduce(x, axis=None), M)
    check(np.multiply.reduce, M)
    check(np.maximum.reduce, M)
    check(np.minimum.reduce, M)
    check(np.add.accumulate, M)
    check(np.multiply.accumulate, POS)
    check(np.multiply.outer, V, M)
    with pytest.raises(TypeError, match=r"np.power.at has no rule"):
        np.power.at(gt.constant(V), [0], 1.0)
    with pytest.raises(TypeError, match=r"np.divide.reduce has no rule"):
        np.divide.reduce(gt.constant(V))


def test_dtype_of_a_ufunc_is_honoured():
    t = gt.constant([1.0, 2.0])
    assert np.add(t, t, dtype=np.float64).dtype == gt.float64
    assert np.sum(t, dtype=np.float64).dtype == gt.float64


@pytest.mark.parametrize("name", ["erf", "erfc", "ndtr", "gammaln", "psi", "expit", "i0", "i1", "logit"])
def test_scipy_special_ufuncs(name):
    check(getattr(scipy.special, name), RNG.uniform(0.2, 0.8, size=5))


def test_scipy_ufunc_without_rule_is_refused():
    with pytest.raises(TypeError, match=r"scipy.special.airy has no rule"):
        scipy.special.airy(gt.constant(V))


REDUCTIONS = [np.sum, np.mean, np.prod, np.max, np.min, np.amax, np.amin, np.var, np.std, np.ptp, np.median]


@pytest.mark.parametrize("function", REDUCTIONS, ids=lambda f: f.__name__)
def test_reductions(function):
    check(function, M)
    check(lambda x: function(x, axis=0), M)
    check(lambda x: function(x, axis=(0, 2)), CUBE)
    check(lambda x: function(x, axis=-1, keepdims=True), M)


def test_reduction_details():
    check(lambda x: np.var(x, axis=0, ddof=1), M)
    check(lambda x: np.std(x, ddof=1), M)
    check(lambda x: np.sum(x, initial=3.0), M)
    check(lambda x: np.average(x, axis=0), M)
    check(lambda x, w: np.average(x, axis=1, weights=w), M, np.abs(V))
    check(lambda x, w: np.average(x, weights=w, returned=True), M, POS)
    check(lambda x: np.cumsum(x), M)
    check(lambda x: np.cumsum(x, axis=1), M)
    check(lambda x: np.cumprod(x, axis=0), POS)
    check(lambda x: np.quantile(x, [0.1, 0.5], axis=1), M)
    check(lambda x: np.percentile(x, 30.0), M)
    ints = np.array([[1, 2], [3, 4]], np.int32)
    assert np.sum(gt.constant(ints)).dtype == gt.int64
    assert np.sum(gt.constant([True, True])).numpy() == 2
    assert np.mean(gt.constant([1, 2])).numpy() == 1.5
    assert np.all(gt.constant([1.0, 2.0])).numpy()
    assert not np.any(gt.constant([0, 0])).numpy()


@pytest.mark.parametrize("function", [np.nansum, np.nanmean, np.nanmax, np.nanmin, np.nanprod, np.nanvar, np.nanstd])
def test_reductions_that_skip_nan(function):
    found = function(gt.constant(NANS), axis=1)
    np.testing.assert_allclose(found.numpy(), function(NANS, axis=1))
    x = gt.constant(NANS)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = np.nansum(x)
    assert np.isfinite(tape.gradient(y, x).numpy()).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy warns of lines that are all NaN
@pytest.mark.parametrize("values", [np.array([[np.nan, np.nan], [1.0, np.nan]]), np.array([[3, 1], [2, 5]], np.int32)])
@pytest.mark.parametrize("name", [name for name in dir(np) if name.startswith("nan") and callable(getattr(np, name))])
def test_nothing_but_nan_and_integers_are_as_in_numpy(name, values):
    """Every function that skips NaN, where there is nothing else, and where there can be none."""
    function = getattr(np, name)
    if name not in ("nanargmax", "nanargmin", "nan_to_num"):
        level = (0.5,) if name in ("nanquantile", "nanpercentile") else ()
        found, expected = function(gt.constant(values), *level, axis=1), function(values, *level, axis=1)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
        assert found.numpy().dtype.kind == expected.dtype.kind


SHAPES = {
    "reshape": lambda x: np.reshape(x, (4, 3)),
    "reshape_negative": lambda x: np.reshape(x, -1),
    "ravel": np.ravel,
    "transpose": np.transpose,
    "transpose_axes": lambda x: np.transpose(x, (1, 0)),
    "swapaxes": lambda x: np.swapaxes(x, 0, -1),
    "moveaxis": lambda x: np.moveaxis(x, 0, -1),
    "rollaxis": lambda x: np.rollaxis(x, 1),
    "expand_dims": lambda x: np.expand_dims(x, (0, 2)),
    "squeeze": lambda x: np.squeeze(x[None], axis=0),
    "atleast_3d": np.atleast_3d,
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 4)),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "concatenate_flat": lambda x: np.concatenate([x, x], axis=None),
    "stack": lambda x: np.stack([x, 2 * x], axis=-1),
    "vstack": lambda x: np.vstack([x, x[0]]),
    "hstack": lambda x: np.hstack([x, x]),
    "dstack": lambda x: np.dstack([x, x]),
    "column_stack": lambda x: np.column_stack([x[:, 0], x]),
    "append": lambda x: np.append(x, x, axis=0),
    "block": lambda x: np.block([[x, x], [x, 3 * x]]),
    "split": lambda x: np.split(x, 2, axis=1),
    "split_at": lambda x: np.split(x, [1, 3], axis=1),
    "array_split": lambda x: np.array_split(x, 3, axis=1),
    "hsplit": lambda x: np.hsplit(x, 2),
    "vsplit": lambda x: np.vsplit(x, 3),
    "tile": lambda x: np.tile(x, (2, 1, 2)),
    "repeat": lambda x: np.repeat(x, 2, axis=1),
    "repeat_flat": lambda x: np.repeat(x, 2),
    "flip": np.flip,
    "flip_axis": lambda x: np.flip(x, 1),
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "rot90": np.rot90,
    "rot90_three": lambda x: np.rot90(x, 3),
    "roll": lambda x: np.roll(x, 2),
    "roll_axes": lambda x: np.roll(x, (1, 2), axis=(0, 1)),
    "pad_constant": lambda x: np.pad(x, ((1, 0), (2, 1)), constant_values=2.0),
    "pad_reflect": lambda x: np.pad(x, 1, mode="reflect"),
    "pad_symmetric": lambda x: np.pad(x, (1, 2), mode="symmetric"),
    "pad_edge": lambda x: np.pad(x, 2, mode="edge"),
    "pad_wrap": lambda x: np.pad(x, 1, mode="wrap"),
    "take": lambda x: np.take(x, [0, -1, 0], axis=1),
    "take_flat": lambda x: np.take(x, [[3, 5]]),
    "take_clip": lambda x: np.take(x, [9], axis=1, mode="clip"),
    "take_along_axis": lambda x: np.take_along_axis(x, np.array([[0, 1], [2, 2], [3, 0]]), axis=1),
    "compress": lambda x: np.compress([True, False, True], x, axis=0),
    "delete": lambda x: np.delete(x, 1, axis=1),
    "unique": np.unique,
    "copy": np.copy,
    "diagonal": lambda x: np.diagonal(x, 1),
    "trace": np.trace,
    "diag_of_matrix": np.diag,
    "diag_of_vector": lambda x: np.diag(x[0], -1),
    "tril": lambda x: np.tril(x, 1),
    "triu": np.triu,
    "meshgrid": lambda x: np.meshgrid(x[0], x[:, 0]),
    "meshgrid_ij": lambda x: np.meshgrid(x[0], x[:, 0], indexing="ij", sparse=True),
    "sort": lambda x: np.sort(x, axis=0),
    "sort_flat": lambda x: np.sort(x, axis=None),
    "clip": lambda x: np.clip(x, -0.5, 0.5),
    "clip_low": lambda x: np.clip(x, 0.1, None),
    "round": lambda x: np.round(x, 1),
    "where": lambda x: np.where(x > 0, x, 2 * x),
    "diff": lambda x: np.diff(x, n=2),
    "diff_prepend": lambda x: np.diff(x, axis=0, prepend=0.0),
    "ediff1d": np.ediff1d,
    "trapezoid": np.trapezoid,
    "trapezoid_grid": lambda x: np.trapezoid(x, x=np.array([0.0, 1.0, 3.0, 4.0])),
    "polyval": lambda x: np.polyval(x[0], 1.5),
    "sinc": np.sinc,
    "convolve": lambda x: np.convolve(x[0], x[1], "same"),
    "convolve_full": lambda x: np.convolve(x[0], x[1, :2]),
    "linspace": lambda x: np.linspace(x[0], x[1], 3),
    "linspace_open": lambda x: np.linspace(x[0, 0], 2.0, 4, endpoint=False),
    "interp": lambda x: np.interp(np.array([0.3, 1.7, 2.9]), np.array([0.0, 1.0, 2.0, 3.0]), x[0]),
    "interp_points": lambda x: np.interp(x[0], np.linspace(-3.0, 3.0, 4), np.array([1.0, 4.0, 2.0, 0.0])),
    "angle": lambda x: np.angle(x + 5.0),
    "real": np.real,
    "nan_to_num": np.nan_to_num,
    "full_like": lambda x: np.full_like(x, 2.0) * x,
    "zeros_like": lambda x: np.zeros_like(x) + x,
    "ones_like": lambda x: np.ones_like(x) * x,
}


@pytest.mark.parametrize("name", SHAPES)
def test_array_functions(name):
    check(SHAPES[name], M)


PRODUCTS = {
    "dot": (np.dot, M, V),
    "dot_vectors": (np.dot, V, V),
    "dot_scalar": (lambda x: np.dot(2.0, x), V),
    "dot_deep": (np.dot, CUBE, CUBE.transpose(0, 2, 1)),
    "vdot": (np.vdot, M, OTHER),
    "inner": (np.inner, M, V),
    "outer": (np.outer, V, M[:, 0]),
    "tensordot": (lambda a, b: np.tensordot(a, b, axes=([1], [1])), M, OTHER),
    "einsum": (lambda a, b: np.einsum("ij,kj->ik", a, b), M, OTHER),
    "kron": (np.kron, M, V),
    "cross": (np.cross, SQ, SPD),
    "norm": (np.linalg.norm, M),
    "norm_axis": (lambda x: np.linalg.norm(x, axis=1, keepdims=True), M),
    "norm_1": (lambda x: np.linalg.norm(x, 1), M),
    "norm_inf": (lambda x: np.linalg.norm(x, np.inf), M),
    "norm_2": (lambda x: np.linalg.norm(x, 2), M),
    "norm_nuc": (lambda x: np.linalg.norm(x, "nuc"), M),
    "norm_3": (lambda x: np.linalg.norm(x, 3, axis=0), M),
    "norm_axes": (lambda x: np.linalg.norm(x, "fro", axis=(0, 2), keepdims=True), CUBE),
    "inv": (np.linalg.inv, SQ),
    "det": (np.linalg.det, SQ),
    "solve": (np.linalg.solve, SQ, SPD),
    "solve_vector": (np.linalg.solve, SQ, M[:, 0]),
    "slogdet": (np.linalg.slogdet, SQ),
    "matrix_power": (lambda x: np.linalg.matrix_power(x, 3), SQ),
    "matrix_power_negative": (lambda x: np.linalg.matrix_power(x, -2), SQ),
    "multi_dot": (lambda a, b: np.linalg.multi_dot([a, b, V]), SQ, M),
    "pinv": (np.linalg.pinv, M),
    "svdvals": (np.linalg.svdvals, M),
    "cholesky": (lambda x: np.linalg.cholesky((x + np.swapaxes(x, 0, 1)) / 2), SPD),
    "eigvalsh": (lambda x: np.linalg.eigvalsh((x + np.swapaxes(x, 0, 1)) / 2), SPD),
    "eigh_projector": (lambda x: _projector(np.linalg.eigh((x + np.swapaxes(x, 0, 1)) / 2)), SPD),
    "svd_rebuilt": (lambda x: _rebuilt(*np.linalg.svd(x, full_matrices=False)), M),
    "qr_r_gram": (lambda x: np.matmul(np.swapaxes(np.linalg.qr(x).R, 0, 1), np.linalg.qr(x).R), SQ),
    "linalg_outer": (np.linalg.outer, V, V),
    "linalg_trace": (np.linalg.trace, SQ),
    "linalg_vecdot": (np.linalg.vecdot, M, OTHER),
    "matrix_transpose": (np.matrix_transpose, CUBE),
}


def _projector(eigen):
    return eigen.eigenvectors[:, :1] @ np.swapaxes(eigen.eigenvectors[:, :1], 0, 1)


def _rebuilt(u, s, vh):
    return u @ (s[:, None] * vh)


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_and_linear_algebra(name):
    check(*PRODUCTS[name])


FFT = {
    "fft": np.fft.fft, "ifft": np.fft.ifft, "fft_n": lambda x: np.fft.fft(x, 6, axis=0),
    "fft_cut": lambda x: np.fft.fft(x, 2), "fft_ortho": lambda x: np.fft.fft(x, norm="ortho"),
    "fft_forward": lambda x: np.fft.ifft(x, norm="forward"), "rfft": np.fft.rfft,
    "irfft": lambda x: np.fft.irfft(x + 0j), "fft2": np.fft.fft2, "fftn": np.fft.fftn, "ifftn": np.fft.ifftn,
    "rfft2": np.fft.rfft2, "rfftn": np.fft.rfftn, "irfft2": lambda x: np.fft.irfft2(np.fft.rfft2(x)),
    "fftshift": np.fft.fftshift, "ifftshift": lambda x: np.fft.ifftshift(x, axes=1),
}  # fmt: skip


@pytest.mark.parametrize("name", FFT)
def test_fft(name):
    check(FFT[name], RNG.normal(size=(3, 4)))


def test_indices_and_truth_values():
    t = gt.constant(M)
    np.testing.assert_array_equal(np.argmax(t).numpy(), np.argmax(M))
    np.testing.assert_array_equal(np.argmin(t, axis=1).numpy(), np.argmin(M, axis=1))
    np.testing.assert_array_equal(np.argmax(t, axis=0, keepdims=True).numpy(), np.argmax(M, axis=0, keepdims=True))
    np.testing.assert_array_equal(np.argsort(t, axis=0).numpy(), np.argsort(M, axis=0))
    np.testing.assert_array_equal(np.count_nonzero(t > 0).numpy(), np.count_nonzero(M > 0))
    for have, want in zip(np.nonzero(t > 0), np.nonzero(M > 0), strict=True):
        np.testing.assert_array_equal(have.numpy(), want)
    assert np.allclose(t, M)
    assert np.array_equal(t, M)
    assert np.isclose(t, M).numpy().all()
    assert np.searchsorted(np.array([0.0, 1.0]), gt.constant(0.5)).numpy() == 1
    assert np.shape(t) == (3, 4)
    assert np.ndim(t) == 2
    assert np.size(t) == 12
    assert np.size(t, 0) == 3
    assert np.iscomplexobj(gt.constant(1j))
    assert np.result_type(t, np.float32) == np.float64


def test_both_orders_of_array_and_tensor_are_recorded():
    array = np.array([1.0, 2.0])
    x = gt.Variable(np.array([3.0, 4.0]))
    with gt.GradientTape() as tape:
        y = np.sum(array * x + x * array + array / x - array @ x)
    assert isinstance(y, gt.Tensor)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 2 * array - array / x.numpy() ** 2 - 2 * array)
    scalar = np.float64(2.0)
    with gt.GradientTape() as tape:
        y = scalar * x
    assert isinstance(y, gt.Tensor)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [2.0, 2.0])


def test_variables_and_indexed_slices_take_part():
    v = gt.Variable([1.0, 4.0])
    with gt.GradientTape() as tape:
        y = np.sqrt(v)
    np.testing.assert_allclose(tape.gradient(y, v).numpy(), [0.5, 0.25])
    rows = gt.IndexedSlices(gt.constant([[1.0], [2.0]]), gt.constant([0, 2]), (3, 1))
    np.testing.assert_allclose(np.sum(rows).numpy(), 3.0)
    np.testing.assert_allclose(np.linalg.norm(rows).numpy(), np.sqrt(5.0), rtol=1e-6)


def test_no_rule_names_function_line_and_cure():
    t = gt.constant(V)
    with pytest.raises(TypeError, match=r"np\.apply_along_axis has no rule.*test_numpy_protocols\.py:\d+.*t\.numpy\(\)"):
        np.apply_along_axis(np.sum, 0, t)
    with pytest.raises(TypeError, match=r"np\.linalg\.cond has no rule"):
        np.linalg.cond(gt.constant(SQ))
    with pytest.raises(TypeError, match=r"np\.spacing has no rule.*test_numpy_protocols\.py:\d+"):
        np.spacing(t)


def test_unsupported_arguments_are_refused():
    t = gt.constant(V)
    with pytest.raises(TypeError, match="where"):
        np.sum(t, where=np.array([True, False, True, True]))
    with pytest.raises(TypeError, match="where"):
        np.add(t, t, where=np.array([True, False, True, True]))
    with pytest.raises(ValueError, match="order"):
        np.reshape(t, (2, 2), order="F")
    assert np.sum(t, where=True).numpy() == pytest.approx(V.sum())


def test_an_array_as_out_is_refused():
    t = gt.constant(V)
    with pytest.raises(TypeError, match="out="):
        np.add(t, t, out=np.zeros(4))
    with pytest.raises(TypeError, match="complex128 does not fit"):
        np.multiply(t, 1j, out=t)
    with pytest.raises(TypeError, match="out="):
        np.sum(t, out=np.zeros(()))
    with pytest.raises(TypeError, match="out="):
        np.sum(t, None, None, np.zeros(()))
    array = np.zeros(4)
    with pytest.raises(TypeError, match="out="):
        array += t
    np.testing.assert_array_equal(array, np.zeros(4))


def test_a_tensor_as_out_takes_the_result():
    t, single = gt.constant(np.zeros(4)), gt.zeros(4)
    assert np.add(V, V, out=t) is t
    np.testing.assert_array_equal(t, V + V)
    np.multiply(V, 2.0, out=single)
    assert single.dtype == gt.float32
    total = gt.constant(0.0, gt.float64)
    np.sum(t, None, None, total, False)
    assert total.numpy() == pytest.approx(2 * V.sum())
    whole, part = gt.zeros(4, gt.float64), gt.zeros(4, gt.float64)
    np.modf(t, out=(part, whole))
    np.testing.assert_array_equal(whole + part, t)


def test_explicit_conversion_stays_legal():
    t = gt.constant([1.0, 2.0])
    view = np.asarray(t)
    assert type(view) is np.ndarray
    copied = np.array(t)
    copied[0] = 9.0
    assert t.numpy()[0] == 1.0
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    assert np.array_repr(t) == "array([1., 2.], dtype=float32)"


def test_unknown_types_get_their_turn():
    class Other:
        def __array_function__(self, func, types, args, kwargs):
            return "other"

    assert np.concatenate([gt.constant(V), Other()]) == "other"


ARRANGEMENTS = [
    lambda x: np.expand_dims(x, (0, -1)), np.atleast_3d, lambda x: np.atleast_3d(x[0]), lambda x: np.atleast_2d(x[:, 0]),
    lambda x: np.tile(x, (2, 1, 2)), lambda x: np.roll(x, 1), lambda x: np.kron(x, x), lambda x: np.full_like(x, 2.0),
    lambda x: np.average(x, 0), lambda x: np.average(x, weights=x * x), lambda x: np.reshape(x, np.shape(x)[::-1]),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(ARRANGEMENTS)))
def test_sizes_that_only_run_time_knows(place: int) -> None:
    rule = ARRANGEMENTS[place]
    compiled = gt.function(rule, input_signature=[gt.TensorSpec((None, 3), gt.float64)], autograph=False)
    for rows in (2, 5, 1):
        x = np.arange(3.0 * rows).reshape(rows, 3) + 1.0
        np.testing.assert_allclose(compiled(x), rule(x))
    assert compiled.experimental_get_tracing_count() == 1
