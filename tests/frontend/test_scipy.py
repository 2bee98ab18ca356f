"""`gt.scipy`: SciPy's values for tensors; derivatives in the point and in every parameter, order 2, eager and compiled.

As machine code one call in some is differentiated twice, in `make test-all` each: compiling takes longest, and
`tests/backends/test_native_ops.py` has samples of every op."""

import linecache

import numpy as np
import pytest
import scipy.special
import scipy.stats

import gradtape as gt
from gradtape.scipy import special, stats
from tests.harness.seeds import in_sample

TWICE = 6  # of so many calls one is differentiated twice as machine code
RNG = np.random.default_rng(2)
A = RNG.normal(size=(3, 3))
COV = A @ A.T + np.eye(3)
P = RNG.uniform(0.2, 0.8, size=4)
Q = RNG.uniform(1.5, 3.0, size=(3, 1))
X = RNG.normal(size=(3, 4))
POINTS = RNG.normal(size=(5, 3))
SIGNS = np.array([[1.0], [-3.0], [0.5]])

# a call, written once for SciPy and for tensors, and the arguments x, y, z, w that are differentiated
CASES = {
    "special.expit(x)": (X,), "special.gammaln(x)": (Q,), "special.logsumexp(x)": (X,),
    "special.logsumexp(x, axis=1, keepdims=True)": (X,), "special.logsumexp(x, 1, y)": (X, P),
    "special.logsumexp(x, 0, b=SIGNS, return_sign=True)[0]": (X,), "special.softmax(x)": (X,),
    "special.softmax(x, axis=(0, 1))": (X,), "special.log_softmax(x, axis=1)": (X,), "special.betaln(x, y)": (Q, P),
    "special.multigammaln(x, 3)": (Q,), "special.entr(x)": (P,), "special.rel_entr(x, y)": (P, Q),
    "stats.norm.logpdf(x, y, z)": (X, P, Q), "stats.norm.logpdf(x)": (X,), "stats.norm.pdf(x, y, z)": (X, P, Q),
    "stats.norm.cdf(x, y, z)": (X, P, Q), "stats.norm.logpdf(x, scale=y)": (X, Q), "stats.norm(y, 2.0).logpdf(x)": (X, P),
    "stats.t.logpdf(x, y, z, w)": (X, Q, P, Q + 0.3), "stats.gamma.logpdf(x, y)": (Q, P + 1.0),
    "stats.gamma.logpdf(x, y, 0.1, z)": (Q, P, Q), "stats.gamma.cdf(x, 1.7)": (Q,),
    "stats.beta.logpdf(x, y, z)": (P, Q, P + 1.0), "stats.beta.logpdf(x, 2.0, 3.0, -0.1, y)": (P, Q),
    "stats.beta.cdf(x, 2.0, 3.0)": (P,), "stats.poisson.logpmf(np.arange(4), x)": (Q,), "stats.poisson.pmf(2, x)": (Q,),
    "stats.poisson.logpmf(5, x, loc=2)": (Q,), "stats.poisson.cdf(2, x)": (Q,),
    "stats.multivariate_normal.logpdf(x, y, (z + z.T) / 2)": (POINTS, P[:3], COV),
    "stats.multivariate_normal.logpdf(x, y, COV)": (P[:3], P[1:]),
    "stats.multivariate_normal.logpdf(x, np.zeros(3), COV)": (RNG.normal(size=(2, 4, 3)),),
    "stats.multivariate_normal.logpdf(x, np.zeros(3), y)": (POINTS, P[:3]),
    "stats.multivariate_normal.pdf(x, np.ones(3), 2.0)": (POINTS,), "stats.multivariate_normal.logpdf(x)": (P,),
    "stats.multivariate_normal(np.ones(3), COV).logpdf(x)": (POINTS,),
}  # fmt: skip


def call(text, count, **namespaces):
    """The call as a function of its arguments."""
    line, file = f"lambda {', '.join('xyzw'[:count])}: {text}", f"<{text}>"
    linecache.cache[file] = (len(line), None, [line], file)  # AutoGraph reads it there
    return eval(compile(line, file, "eval"), {"np": np, "COV": COV, "SIGNS": SIGNS, **namespaces})


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name):
    args = CASES[name]
    ours = call(name, len(args), special=special, stats=stats)
    theirs = call(name, len(args), special=scipy.special, stats=scipy.stats)
    expected = theirs(*args)
    rng = np.random.default_rng(list(name.encode()))  # its own: which tests ran before must not matter
    weights = rng.normal(size=np.shape(expected))
    directions = [rng.normal(size=a.shape) for a in args]
    h = 1e-5

    def moved(step):
        return float(np.sum(theirs(*(a + step * d for a, d in zip(args, directions, strict=True))) * weights))

    first = (moved(h) - moved(-h)) / (2 * h)
    far, near = moved(2e-3) + moved(-2e-3), moved(1e-3) + moved(-1e-3)
    second = (16 * near - far - 30 * moved(0.0)) / 12e-6  # of the fourth order
    native = gt.function(ours)
    for run in (ours, native, gt.function(ours, jit_compile=False)):
        found = run(*(gt.constant(a) for a in args))
        assert tuple(found.shape) == np.shape(expected)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        along = lambda s, run=run: gt.reduce_sum(run(*(a + s * d for a, d in zip(args, directions, strict=True))) * weights)  # noqa: E731
        slope = gt.grad(along)
        assert float(slope(gt.constant(0.0, gt.float64))) == pytest.approx(first, rel=1e-6, abs=1e-7)
        if run is not native or in_sample(name, TWICE):
            assert float(gt.grad(slope)(gt.constant(0.0, gt.float64))) == pytest.approx(second, rel=1e-4, abs=1e-4)


OUTSIDE = {
    "gamma": (stats.gamma.logpdf, scipy.stats.gamma.logpdf, (np.array([-1.0, 0.0, 2.0]), 2.0)),
    "beta": (stats.beta.logpdf, scipy.stats.beta.logpdf, (np.array([-0.5, 0.0, 0.5, 1.0, 1.5]), 2.0, 3.0)),
    "poisson": (stats.poisson.logpmf, scipy.stats.poisson.logpmf, (np.array([-1.0, 0.0, 1.5, 2.0]), 2.0)),
    "scale": (stats.norm.logpdf, scipy.stats.norm.logpdf, (np.array([0.5]), 0.0, np.array([-1.0, 1.0]))),
    "shape": (stats.t.logpdf, scipy.stats.t.logpdf, (0.5, np.array([-1.0, 1.0]))),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_outside_the_support(name):
    ours, theirs, args = OUTSIDE[name]
    np.testing.assert_allclose(ours(*args), theirs(*args), rtol=1e-6)


def test_no_gradient_comes_from_outside_the_support():
    x = gt.constant(np.array([-1.0, 2.0]))
    a = gt.constant(2.0, gt.float64)
    with gt.GradientTape() as tape:
        tape.watch([x, a])
        y = stats.gamma.pdf(x, a)
    at_x, at_a = tape.gradient(y, [x, a])
    assert at_x.numpy()[0] == 0.0
    assert np.isfinite(at_a.numpy())


def test_mistakes_are_named():
    with pytest.raises(TypeError, match=r"gamma.logpdf.x, a, loc=0.0, scale=1.0.: missing a required argument: 'a'"):
        stats.gamma.logpdf(1.0)
    with pytest.raises(TypeError, match=r"norm.logpdf.*unexpected keyword argument 'sigma'"):
        stats.norm.logpdf(1.0, sigma=2.0)
    with pytest.raises(AttributeError, match=r"poisson has no logpdf; use poisson.logpmf"):
        stats.poisson.logpdf(1.0, 2.0)
    with pytest.raises(AttributeError, match="t has no cdf"):
        stats.t.cdf(1.0, 2.0)
    with pytest.raises(ValueError, match="x has shape"):
        stats.multivariate_normal.logpdf(np.ones(4), np.zeros(3), COV)
    with pytest.raises(ValueError, match="cov has shape"):
        stats.multivariate_normal.logpdf(np.ones(3), np.zeros(3), np.eye(2))
    with pytest.raises(ValueError, match="singular"):
        stats.multivariate_normal.logpdf(np.ones(3), np.zeros(3), COV, allow_singular=True)


def test_scipys_own_ufuncs_take_tensors_and_the_rest_names_the_cure():
    x = gt.constant(P)
    for name in ("expit", "gammaln", "erf", "psi"):
        slope = gt.grad(lambda t, f=getattr(scipy.special, name): gt.reduce_sum(f(t)))(x)
        np.testing.assert_allclose(slope, gt.grad(lambda t, f=getattr(special, name): gt.reduce_sum(f(t)))(x))
    for detour, cure in (
        (lambda t: scipy.stats.norm.logpdf(t), "stats.norm.logpdf"),
        (lambda t: scipy.special.logsumexp(t), "special.logsumexp"),
        (lambda t: scipy.stats.t.logpdf(0.1, t), "stats.norm.logpdf"),
    ):
        with gt.GradientTape() as tape:
            tape.watch(x)
            with pytest.raises(TypeError, match=rf"test_scipy.py:\d+.*gt\.scipy\.{cure}\(t\)"):
                detour(x)


def test_single_precision_stays():
    assert stats.norm.logpdf(gt.constant([1.0]), np.array([0.0]), 2.0).dtype == gt.float32
    assert special.logsumexp(gt.constant([1.0, 2.0])).dtype == gt.float32
