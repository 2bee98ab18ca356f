"""Names that NumPy programs need and tensors did not have: np.cov, np.histogram, np.select, np.gradient, np.partition,
np.einsum with lists of axes, np.linalg.eig. Values as NumPy has them; derivatives to order 2; eager, interpreted and native.

As machine code one call in some is differentiated twice, in `make test-all` each: compiling takes longest, and
`tests/backends/test_native_ops.py` has samples of every op."""

import linecache

import numpy as np
import pytest

import gradtape as gt
from tests.harness.seeds import in_sample

TWICE = 6  # of so many calls one is differentiated twice as machine code
RNG = np.random.default_rng(4)
M = RNG.normal(size=(3, 5))
S = RNG.normal(size=(3, 3))
W = RNG.uniform(0.5, 1.5, size=5)
GRID = np.array([0.0, 0.4, 1.0, 1.3, 2.0])
EDGES = np.array([-2.0, -0.5, 0.3, 2.5])

# a call, and the arguments x, y that are differentiated
CALLS = {
    "np.cov(x)": (M,), "np.cov(x[0])": (M,), "np.cov(x, rowvar=False)": (M,), "np.cov(x, bias=True)": (M,),
    "np.cov(x, ddof=2)": (M,), "np.cov(x, y)": (M, M[::-1] * 0.7), "np.cov(x[0], x[1])": (M,), "np.cov(x, aweights=y)": (M, W),
    "np.cov(x, fweights=COUNTS)": (M,), "np.cov(x, fweights=COUNTS, aweights=y)": (M, W),
    "np.cov(x, aweights=y, ddof=0)": (M, W), "np.corrcoef(x)": (M,), "np.corrcoef(x[0], x[1])": (M,),
    "np.histogram(x, bins=4)": (M,), "np.histogram(x, EDGES, weights=y)": (M, RNG.normal(size=(3, 5))),
    "np.histogram(x, 3, (-1.0, 1.0))": (M,), "np.histogram(x, bins=5, density=True)": (M,),
    "np.histogram(x, EDGES, weights=y, density=True)": (M, RNG.uniform(0.5, 1.0, size=(3, 5))),
    "np.select([x > 0.5, x > 0.0], [x**2, np.sin(x)], x * 3.0)": (M,), "np.select([x > 0.5], [x**2])": (M,),
    "np.select([MASK, ~MASK], [x, y])": (M, M * 2.0), "np.gradient(x)": (M,), "np.gradient(x[0])": (M,),
    "np.gradient(x, 0.5, axis=1)": (M,), "np.gradient(x, GRID, axis=-1)": (M,), "np.gradient(x, y, axis=1)": (M, GRID),
    "np.gradient(x, 2.0, GRID)": (M,), "np.gradient(x, edge_order=2)": (M,),
    "np.gradient(x, y, axis=1, edge_order=2)": (M, GRID),
    "np.sort(np.partition(x, 2))": (M,), "np.partition(x, 1, axis=0)[1]": (M,), "np.partition(x, 4, axis=None)[4]": (M,),
    "np.einsum(x, [0, 1], y, [2, 1], [0, 2])": (M, M[:2]), "np.einsum(x, [0, 1])": (M,), "np.einsum(x, [0, 0])": (S,),
    "np.einsum(x, [..., 0], y, [..., 0], [...])": (M, M * 0.5), "np.einsum(x, [0, 1], [1, 0])": (M,),
    "np.linspace(x[0], x[1], 4)": (M,), "np.interp(x[0], GRID, y[0])": (np.abs(M), M),
}  # fmt: skip
COUNTS = np.array([1, 2, 1, 3, 1])
MASK = M > 0.2


def call(text, count):
    """The call as a function of its arguments, results joined in one row."""
    line, file = f"lambda {', '.join('xy'[:count])}: {text}", f"<{text}>"
    linecache.cache[file] = (len(line), None, [line], file)  # AutoGraph reads it there
    return eval(compile(line, file, "eval"), {"np": np, "EDGES": EDGES, "GRID": GRID, "COUNTS": COUNTS, "MASK": MASK})


def parts(result):
    """The floating results and the others, each a list."""
    return list(result) if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("text", CALLS)
def test_values_and_derivatives(text):
    args = CALLS[text]
    function = call(text, len(args))
    expected = parts(function(*args))
    weights = [np.random.default_rng(6).normal(size=np.shape(e)) for e in expected]
    directions = [np.random.default_rng(7).normal(size=a.shape) for a in args]

    def total(results):
        return sum(
            np.sum(np.sin(p) * w) for p, w in zip(parts(results), weights, strict=True) if np.dtype(p.dtype.name).kind == "f"
        )

    def moved(step):
        return total(function(*(a + step * d for a, d in zip(args, directions, strict=True))))

    h = 1e-6
    first = (moved(h) - moved(-h)) / (2 * h)
    second = (moved(1e-4) - 2 * moved(0.0) + moved(-1e-4)) / 1e-8
    native = gt.function(function)
    for run in (function, native, gt.function(function, jit_compile=False)):
        found = parts(run(*(gt.constant(a) for a in args)))
        assert len(found) == len(expected)
        for have, want in zip(found, expected, strict=True):
            assert isinstance(have, gt.Tensor)
            assert have.dtype.name == want.dtype.name
            np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-12)
        along = lambda s, run=run: total(run(*(a + s * d for a, d in zip(args, directions, strict=True))))  # noqa: E731
        zero, slope = gt.constant(0.0, gt.float64), gt.grad(along)
        assert float(slope(zero)) == pytest.approx(first, rel=1e-6, abs=1e-6)
        if run is not native or in_sample(text, TWICE):
            assert float(gt.grad(slope)(zero)) == pytest.approx(second, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("mode", ["eager", "native", "interpreted"])
def test_eig(mode):
    def spread(a):
        values, vectors = np.linalg.eig(a)
        rebuilt = np.matmul(vectors * values, np.linalg.inv(vectors))
        return np.sum(np.real(rebuilt) ** 3) + np.sum(np.real(values**2)) + np.sum(np.imag(np.linalg.eigvals(a)) ** 2)

    run = spread if mode == "eager" else gt.function(spread, jit_compile=mode == "native")
    direction, h = RNG.normal(size=(3, 3)), 1e-6
    expected = (spread(S + h * direction) - spread(S - h * direction)) / (2 * h)
    slope = gt.grad(run)(gt.constant(S))
    assert np.sum(slope.numpy() * direction) == pytest.approx(expected, rel=1e-6)
    answer = np.linalg.eig(gt.constant(S))
    assert answer.eigenvalues.dtype == gt.complex128
    np.testing.assert_allclose(np.sort_complex(answer.eigenvalues.numpy()), np.sort_complex(np.linalg.eigvals(S)))


def test_counts_are_exact_at_the_edges():
    x = np.array([0.0, 0.1, 0.1, 0.2, 0.30000000000000004, 0.3, 1.0, 1.0, 0.7, np.nextafter(0.7, 1)])
    for bins in (1, 3, 7, 10, 50):
        for have, want in zip(np.histogram(gt.constant(x), bins), np.histogram(x, bins), strict=True):
            np.testing.assert_array_equal(have, want)
    for have, want in zip(np.histogram(gt.constant([3.0, 3.0]), 2), np.histogram([3.0, 3.0], 2), strict=True):
        np.testing.assert_array_equal(have, want)
    assert np.histogram(gt.constant(x), "auto")[0].numpy().sum() == x.size


MISTAKES = {
    "np.cov(x[None, None])": (ValueError, "1 or 2 axes"),
    "np.cov(x, ddof=0.5)": (ValueError, "ddof must be an integer"),
    "np.histogram(x, 0)": (ValueError, "bins must be a positive number"),
    "np.gradient(x, edge_order=3)": (ValueError, "edge_order must be 1 or 2"),
    "np.gradient(x, 1.0, 2.0, 3.0)": (TypeError, "3 spacings for 2 axes"),
    "np.gradient(x, np.ones(2), axis=1)": (ValueError, "coordinates of shape"),
    "np.select([x > 0], [x, x])": (ValueError, "1 conditions for 2 choices"),
    "np.select([x], [x])": (ValueError, "conditions must be bool"),
    "np.partition(x, 9)": (ValueError, "kth=9 is out of bounds"),
    "np.einsum(x, [0, 77])": (ValueError, "from 0 to 51"),
    "np.linalg.eig(x)": (ValueError, "square"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named(text):
    kind, words = MISTAKES[text]
    for run in (call(text, 1), gt.function(call(text, 1))):
        with pytest.raises(kind, match=words):
            run(gt.constant(M))
