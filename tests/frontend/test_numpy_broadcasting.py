"""Every NumPy and SciPy ufunc with a rule, on operands that broadcast: values as NumPy has them, gradients of each operand's
shape and equal to central differences. Generated from the tables, so a new rule is tested by being there."""

import numpy as np
import pytest
import scipy.special

import gradtape as gt
from gradtape.interop import scipy_special
from gradtape.interop.numpy_ufuncs import UFUNCS

RNG = np.random.default_rng(11)
SHAPES = [((2, 1), (3,)), ((2, 3), (3,)), ((), (2, 2)), ((1, 3), (2, 1)), ((2, 2), ())]
# products of vectors and matrices do not broadcast element by element; these have tests of their own
PRODUCTS = {np.matmul, np.vecdot, *(np.__dict__[n] for n in ("matvec", "vecmat") if n in np.__dict__)}
# functions of integers and truth values
BITS = {
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.left_shift, np.right_shift, np.gcd, np.lcm, np.ldexp
}  # fmt: skip
SCIPY = {n: u for n, u in vars(scipy.special).items() if isinstance(u, np.ufunc) and n in vars(scipy_special)}
TWO = [u for u in UFUNCS if u.nin == 2 and u not in PRODUCTS | BITS] + [u for u in SCIPY.values() if u.nin == 2]
THREE = [u for u in SCIPY.values() if u.nin == 3]


def numbers(index, shape):
    """Away from kinks, poles and ties, inside every function's domain; different for each operand."""
    return RNG.uniform(0.15, 0.25, size=shape) + (0.6, 0.3, 0.4)[index]


def weighted(ufunc, arrays, weights):
    """A weighted sum of the floating results."""
    out = ufunc(*arrays)
    out = out if isinstance(out, tuple) else (out,)
    return sum(np.sum(o * w) for o, w in zip(out, weights, strict=True) if np.asarray(o).dtype.kind == "f")


@pytest.mark.filterwarnings("ignore:the source reaches the target only through:gradtape.errors.GradientWarning")
@pytest.mark.parametrize("ufunc", [*TWO, *THREE], ids=lambda u: u.__name__)
def test_broadcast_operands(ufunc):
    for shapes in SHAPES:
        arrays = [numbers(i, (*shapes, (1,))[i]) for i in range(ufunc.nin)]
        with np.errstate(all="ignore"):
            expected = ufunc(*arrays)
        expected = expected if isinstance(expected, tuple) else (expected,)
        sources = [gt.constant(a) for a in arrays]
        with gt.GradientTape() as tape:
            tape.watch(sources)
            found = ufunc(*sources)
            found = found if isinstance(found, tuple) else (found,)
            weights = [RNG.normal(size=np.shape(e)) for e in expected]
            smooth = [f for f in found if f.dtype.is_differentiable]
            y = gt.add_n([gt.reduce_sum(f * w) for f, w in zip(smooth, weights, strict=False)]) if smooth else None
        for have, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(have, want, rtol=1e-10, atol=1e-12)
        if y is None:
            continue
        slopes = tape.gradient(y, sources, unconnected_gradients="zero")
        for i, (array, slope) in enumerate(zip(arrays, slopes, strict=True)):
            assert tuple(slope.shape) == array.shape, (ufunc.__name__, shapes)
            direction, h = RNG.normal(size=array.shape), 1e-6

            ahead, behind = (
                weighted(ufunc, [array + s * h * direction if j == i else a for j, a in enumerate(arrays)], weights)
                for s in (1, -1)
            )
            numeric = (ahead - behind) / (2 * h)
            assert np.sum(slope.numpy() * direction) == pytest.approx(numeric, rel=1e-6, abs=1e-7), (ufunc.__name__, shapes, i)


ONE = [u for u in UFUNCS if u.nin == 1 and u not in BITS] + [u for u in SCIPY.values() if u.nin == 1]


@pytest.mark.parametrize("ufunc", ONE, ids=lambda u: u.__name__)
def test_ufuncs_of_one_operand(ufunc):
    """None is missing from the tests."""
    x = RNG.uniform(1.1, 1.4, size=(2, 3)) if ufunc is np.arccosh else RNG.uniform(0.15, 0.4, size=(2, 3))
    for have, want in zip(*(r if isinstance(r, tuple) else (r,) for r in (ufunc(gt.constant(x)), ufunc(x))), strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-10)
    if ufunc(gt.constant(x)).__class__ is tuple or not ufunc(gt.constant(x)).dtype.is_differentiable:
        return
    direction, h = RNG.normal(size=x.shape), 1e-6
    numeric = np.sum(ufunc(x + h * direction) - ufunc(x - h * direction)) / (2 * h)
    slope = gt.grad(lambda t: gt.reduce_sum(ufunc(t)))(gt.constant(x))
    assert np.sum(slope.numpy() * direction) == pytest.approx(numeric, rel=1e-6, abs=1e-7)
