"""What NumPy programs find, count, pick and write: values as NumPy has them, derivatives against differences, and the same in
a program, native and interpreted, where lengths that depend on values are known when it runs."""

import numpy as np
import pytest

import gradtape as gt
from tests.frontend.test_numpy_protocols import check, leaves

RNG = np.random.default_rng(11)
M = RNG.normal(size=(3, 5))
V = RNG.normal(size=6)
W = RNG.normal(size=4)
TALL = RNG.normal(size=(5, 3))
NANS = np.where(RNG.uniform(size=(3, 5)) < 0.3, np.nan, M)
INFINITE = np.array([[np.inf, np.inf, 1.0, np.nan], [-np.inf, -np.inf, -np.inf, 2.0], [np.inf, 3.0, np.inf, np.inf]])
LEVELS = np.array([[0.0, 0.1], [0.43, 1.0]])
PLACES = np.array([3, 1, 2, 1, 0, 3])
TIES = np.array([2.5, -1.0, 2.5, 0.5, -1.0, 7.0])
METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "linear",
    "median_unbiased", "normal_unbiased", "lower", "higher", "midpoint", "nearest",
)  # fmt: skip


def at(ufunc, where):
    def updated(x, values):
        y = np.copy(x)
        ufunc.at(y, where, values)
        return y

    return updated


def copied(x, y, mask):
    z = np.copy(x)
    np.copyto(z, y, where=mask)
    return z


def along(x, values):
    y = np.copy(x)
    np.put_along_axis(y, np.array([[1], [0], [4]]), values, 1)
    return y


CROSS_OF_2 = {
    "cross of 2": (np.cross, M[:, :2], TALL[:3, :2]), "cross of 2 and 3": (np.cross, M[:, :2], TALL[0]),
    "cross of axis 0": (lambda a, b: np.cross(a, b, axis=0), M[:2], M[1:]),
}  # fmt: skip
SMOOTH = {
    **{f"{u.__name__}.at": (at(u, np.array([0, 3, 3, 1])), V, W)
       for u in (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum)},
    "add.at of two axes": (at(np.add, (np.array([0, 2, 0]), np.array([1, 1, 1]))), M, W[:3]),
    "add.at of rows": (at(np.add, np.array([1, 1])), M, M[:2]),
    "add.at of a mask": (at(np.add, np.arange(6) % 2 == 0), V, V[:3]),
    "add.at of a slice": (at(np.add, np.s_[1:, ::2]), M, W[:3]),
    "copyto": (lambda x, y: copied(x, y, np.arange(5) % 2 == 0), M, M * 2.0),
    "put_along_axis": (along, M, W[:3, None]),
    "bincount": (lambda w: np.bincount(PLACES, w, minlength=6), V),
    "correlate valid": (np.correlate, V, W), "correlate same": (lambda a, v: np.correlate(a, v, "same"), W, V),
    "correlate full": (lambda a, v: np.correlate(a, v, "full"), V, W),
    "diagflat": (np.diagflat, M), "diagflat off": (lambda x: np.diagflat(x, -2), V),
    "geomspace": (lambda a, b: np.geomspace(np.abs(a), np.abs(b), 5), V[:2], V[2:4]),
    "geomspace open": (lambda a, b: np.geomspace(-np.abs(a), -np.abs(b), 4, endpoint=False, axis=-1), V[:2], V[2:4]),
    "logspace": (lambda a, b: np.logspace(a, b, 4), V[:2], V[2:4]),
    "logspace base": (lambda a, b: np.logspace(a, b, 4, base=3.0, axis=1), V[:2], V[2:4]),
    "i0": (np.i0, V), "ldexp": (lambda x: np.ldexp(x, PLACES), V), "nextafter": (lambda x: np.nextafter(x, 9.0), V),
    "lstsq": (lambda a, b: np.linalg.lstsq(a, b)[:2], TALL, M[:, :5].T), "lstsq vector": (np.linalg.lstsq, TALL, M[0]),
    "lstsq wide": (lambda a, b: np.linalg.lstsq(a, b)[:2], M, W[:3]),
    "nancumsum": (np.nancumsum, M), "nancumprod": (lambda x: np.nancumprod(x, axis=1), M),
    "nanmedian": (lambda x: np.nanmedian(x, axis=1), M), "nanmedian all": (np.nanmedian, M),
    "nanquantile": (lambda x: np.nanquantile(x, LEVELS, axis=0, keepdims=True), M),
    "median": (lambda x: np.median(x, axis=(0, 1), keepdims=True), M), "percentile": (lambda x: np.percentile(x, 31), V),
    **{f"quantile {m}": (lambda x, m=m: np.quantile(x, LEVELS, axis=1, method=m), M) for m in METHODS},
    "select": (lambda x: np.select([x > 0.5, x > 0], [x**2, np.sin(x)], -x), V),
    "unique": (np.unique, M), "unique all": (lambda x: np.unique(x, True, True, True), V),
    "unique rows": (lambda x: np.unique(x, axis=0, return_inverse=True), TALL),
    "vander": (np.vander, V), "vander rising": (lambda x: np.vander(x, 3, increasing=True), V),
    **(CROSS_OF_2 if np.lib.NumpyVersion(np.__version__) < "2.5.0" else {}),  # NumPy has them no more: nothing to compare with
    "extract": (lambda x: np.extract(x > 0, x), M), "compress": (lambda x: np.compress(x[0] > 0, x, axis=1), M),
    "union1d": (np.union1d, V, W), "intersect1d": (lambda x: np.intersect1d(x, x[::-1]), V),
    "setdiff1d": (lambda x: np.setdiff1d(x, x[:2]), V),
}  # fmt: skip
# without a derivative
EXACT = {
    "bincount": (np.bincount, PLACES), "gcd": (lambda a, b: np.gcd(a, b), PLACES * 12 - 6, PLACES * 9),
    "lcm": (lambda a, b: np.lcm(a, b), PLACES * 12 - 12, PLACES * 9), "argpartition": (lambda x: np.argpartition(x, 2)[2], V),
    "isin": (np.isin, PLACES, np.array([1, 7, 0])), "isin not": (lambda x: np.isin(x, [], invert=True), M),
    "isin floats": (lambda x: np.isin(x, [2.5, np.nan]), TIES), "matrix_rank": (np.linalg.matrix_rank, M),
    "matrix_rank low": (np.linalg.matrix_rank, np.outer(W, V)), "matrix_rank vector": (np.linalg.matrix_rank, V * 0.0),
    "matrix_rank tol": (lambda a: np.linalg.matrix_rank(a, rtol=0.5), M),
    "unravel_index": (lambda i: np.unravel_index(i, (2, 3)), PLACES),
    "unravel_index F": (lambda i: np.unravel_index(i, (2, 3), "F"), PLACES),
    "ravel_multi_index": (lambda i: np.ravel_multi_index((i, i), (4, 2), mode=("raise", "wrap")), PLACES),
    "ravel_multi_index F": (lambda i: np.ravel_multi_index((i, i), (4, 3), mode="clip", order="F"), PLACES),
    "isclose": (lambda x: np.isclose(x, x * (1 + 1e-6 * np.arange(6)), rtol=3e-6), V),
    "isclose integers": (lambda a: np.isclose(a, a + 1), PLACES + 2**40),
    "allclose": (lambda x: np.allclose(x, x + 1e-9), V), "array_equal": (lambda x: np.array_equal(x, x * 1.0), V),
    "array_equal of shapes": (lambda x: np.array_equal(x, x[1:]), V),
    "array_equiv": (lambda x: np.array_equiv(x, x[None]), V), "count_nonzero": (lambda x: np.count_nonzero(x > 0, axis=1), M),
    "digitize": (lambda x: np.digitize(x, np.array([-1.0, 0.0, 0.4])), M),
    "digitize falling": (lambda x, b: np.digitize(x, b, right=True), TIES, np.array([7.0, 2.5, -1.0])),
    "digitize rising": (np.digitize, TIES, np.array([-1.0, 2.5, 7.0])),
    "searchsorted": (lambda a, v: np.searchsorted(a, v, "right"), np.sort(TIES), TIES),
    "isposinf": (np.isposinf, np.array([1.0, np.inf, -np.inf, np.nan])),
    "isneginf": (np.isneginf, np.array([1.0, np.inf, -np.inf])),
    "nonzero": (np.nonzero, PLACES), "where": (np.where, M > 0), "argwhere": (np.argwhere, M > 0),
    "flatnonzero": (np.flatnonzero, M > 0), "unique ties": (lambda x: np.unique(x, True, True, True), TIES),
    "unique rows": (lambda x: np.unique(x, axis=0, return_inverse=True), TIES.reshape(3, 2)[[0, 1, 0, 2]]),
    "unique columns": (lambda x: np.unique(x, axis=1, return_counts=True), TIES.reshape(3, 2)[:, [0, 1, 0]]),
    "intersect1d": (lambda x: np.intersect1d(x, TIES[:4]), TIES), "setdiff1d": (lambda x: np.setdiff1d(x, TIES[:2]), TIES),
    "unique": (np.unique, PLACES), "tril_indices_from": (lambda x: x[np.tril_indices_from(x, -1)], M),
    "nanquantile": (lambda x: np.nanquantile(x, [0.2, 0.5], axis=1), NANS),
    "nanpercentile": (lambda x: np.nanpercentile(x, 40), NANS),
    "nanmedian": (lambda x: np.nanmedian(x, axis=0), NANS), "quantile of NaN": (lambda x: np.quantile(x, 0.3, axis=1), NANS),
    "median of infinities": (lambda x: (np.median(x, axis=0), np.median(x, axis=1), np.median(x, axis=())), INFINITE),
    "nanmedian of infinities": (lambda x: (np.nanmedian(x), np.nanmedian(x, axis=1)), INFINITE[:, 1:]),
    "nancumsum": (lambda x: np.nancumsum(x, axis=1), NANS), "nancumprod": (np.nancumprod, NANS),
    "ldexp far": (lambda x: np.ldexp(x, 1060), np.array([2.0**-1040, -(2.0**-50)])), "vander of integers": (np.vander, PLACES),
    "matrix_rank hermitian": (lambda a: np.linalg.matrix_rank(a, hermitian=True), TALL.T @ TALL),
}  # fmt: skip


# NumPy itself deprecates 2-vectors in cross; minimum.at and comparisons have no second derivative
@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:the source reaches the target only through:gradtape.errors.GradientWarning")
@pytest.mark.parametrize("name", SMOOTH)
def test_values_and_derivatives(name):
    function, *args = SMOOTH[name]
    check(function, *args)


@pytest.mark.parametrize("name", EXACT)
def test_exact_results(name):
    function, *args = EXACT[name]
    for have, want in zip(leaves(function(*map(gt.constant, args))), leaves(function(*args)), strict=True):
        assert np.asarray(have).dtype == want.dtype
        np.testing.assert_allclose(have, want, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Arrays of 2-dimensional vectors:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:the source reaches the target only through:gradtape.errors.GradientWarning")
@pytest.mark.parametrize("native", [True, False], ids=["native", "interpreted"])
@pytest.mark.parametrize("table", [SMOOTH, EXACT], ids=["smooth", "exact"])
@pytest.mark.parametrize("part", range(4))
def test_in_a_program(table, part, native):
    """Many calls in one program: their results as NumPy has them, the gradients of their sum as eager code has them."""
    cases = list(table.values())[part::4]
    functions = [case[0] for case in cases]
    args = [[gt.constant(a) for a in case[1:]] for case in cases]
    run = gt.function(lambda args: [f(*a) for f, a in zip(functions, args, strict=True)], jit_compile=native)
    for results, (function, *plain) in zip(run(args), cases, strict=True):
        for have, want in zip(leaves(results), leaves(function(*plain)), strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-9, atol=1e-12)
    if table is EXACT:
        return

    def total(answers):
        parts = [p for p in leaves(answers) if p.dtype.is_floating]
        return sum(gt.reduce_sum(gt.sin(p) * np.linspace(0.5, 1.5, int(p.size)).reshape(p.shape)) for p in parts)

    slopes = []
    for answers in (run, lambda args: [f(*a) for f, a in zip(functions, args, strict=True)]):
        with gt.GradientTape() as tape:
            tape.watch(args)
            y = total(answers(args))
        slopes.append(tape.gradient(y, [a for group in args for a in group], unconnected_gradients="zero"))
    for have, want in zip(*slopes, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-8, atol=1e-10)


def test_places_and_masks_of_a_program():
    """Indices, masks and levels that the program computes."""

    @gt.function
    def f(x, i, q):
        y = np.copy(x)
        np.add.at(y, i * 2, x[: gt.shape(i)[0]])
        z = np.copy(x)
        np.copyto(z, -x, where=x > 0)
        return y, z, np.quantile(x, q), np.bincount(i, minlength=3)

    x, i = np.arange(6.0) - 2.5, np.array([0, 1, 1])
    y = x.copy()
    np.add.at(y, i * 2, x[:3])
    for have, want in zip(f(x, i, 0.3), (y, -np.abs(x), np.quantile(x, 0.3), np.bincount(i, minlength=3)), strict=True):
        np.testing.assert_allclose(have, want)
    level = gt.constant(0.3, gt.float64)
    with gt.GradientTape() as tape:
        tape.watch(level)
        middle = np.quantile(gt.constant(x), level)
    assert float(tape.gradient(middle, level)) == pytest.approx(5.0)


def test_gradient_of_distinct_values_goes_to_their_first_places():
    x = gt.constant(TIES)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = np.sum(np.unique(x) * np.array([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(tape.gradient(y, x), [3.0, 1.0, 0.0, 2.0, 0.0, 4.0])


@pytest.mark.parametrize("mode", ["eager", "native", "interpreted"])
def test_mean_of_float16_does_not_overflow(mode):
    run = np.mean if mode == "eager" else gt.function(lambda x: np.mean(x), jit_compile=mode == "native")
    x = gt.constant(np.full(4000, 60.0, np.float16))
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = run(x)
    assert y.dtype == gt.float16
    assert float(y) == 60.0
    np.testing.assert_allclose(tape.gradient(y, x), np.full(4000, 1 / 4000), rtol=1e-3)
    assert float(gt.reduce_mean(x)) == 60.0


MISTAKES = {
    "norm of a vector": (lambda x: np.linalg.norm(x, "fro", -1), ValueError, "'fro' is not a norm of vectors"),
    "cross": (lambda x: np.cross(x, x), ValueError, "2 or 3 entries"),
    "linalg.cross": (lambda x: np.linalg.cross(x[:, :2], x[:, :2]), ValueError, "3 entries"),
    "at of an array": (lambda x: np.add.at(np.zeros(3), [0], x[0, 0]), TypeError, "a NumPy array cannot take"),
    "power.at": (lambda x: np.power.at(np.copy(x), 0, 2.0), TypeError, "np.power.at has no rule"),
    "geomspace": (lambda x: np.geomspace(gt.constant(0.0), 1.0), ValueError, "cannot include zero"),
    "level": (lambda x: np.quantile(x, 1.5), ValueError, r"range \[0, 1\]"),
    "percentile": (lambda x: np.percentile(x, -1), ValueError, r"range \[0, 100\]"),
    "method": (lambda x: np.quantile(x, 0.5, method="best"), ValueError, "method must be 'inverted_cdf'"),
    "bins": (lambda x: np.digitize(x, np.array([1.0, 3.0, 2.0])), ValueError, "bins must rise or fall"),
    "bincount": (lambda x: np.bincount(gt.constant([[1]])), ValueError, "row of integers"),
    "unravel_index": (lambda x: np.unravel_index(gt.constant([7]), (2, 3)), IndexError, r"index 7 is not in \[0, 6\)"),
    "ldexp": (lambda x: np.ldexp(x, 0.5), TypeError, "x2 must be integers"),
    "lstsq": (lambda x: np.linalg.lstsq(x, x[:2]), np.linalg.LinAlgError, "differ in rows"),
    "isposinf": (lambda x: np.isposinf(gt.constant(1j)), TypeError, "no sign"),
    "nonzero": (lambda x: np.nonzero(x[0, 0]), ValueError, "a scalar has no indices"),
    "vander": (lambda x: np.vander(x), ValueError, "rank 1"),
    "correlate": (lambda x: np.correlate(x, x), ValueError, "must be 1-d"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name):
    function, kind, words = MISTAKES[name]
    for run in (function, gt.function(function)):
        with pytest.raises(kind, match=words):
            run(gt.constant(M))
