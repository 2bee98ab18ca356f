"""The methods of NumPy's arrays on tensors and variables: NumPy's values, differentiated to order 2, eager and compiled.

As machine code one call in some is differentiated twice, in `make test-all` each: compiling takes longest, and
`tests/backends/test_native_ops.py` has samples of every op."""

import inspect
import linecache
import warnings

import numpy as np
import pytest

import gradtape as gt
from tests.harness.seeds import in_sample

TWICE = 4  # of so many calls one is differentiated twice as machine code
RNG = np.random.default_rng(5)
M = RNG.normal(size=(3, 4))
S = RNG.normal(size=(3, 3))
CUBE = RNG.normal(size=(2, 3, 1))

# what a method is called with; the text is the call
CALLS = {
    "x.T": M, "x.mT": CUBE, "x.real": M, "x.reshape(4, 3)": M, "x.reshape((2, 6))": M, "x.reshape(-1)": M,
    "x.reshape([6, -1])": M, "x.ravel()": M, "x.flatten()": M, "x.transpose()": CUBE, "x.transpose(1, 0, 2)": CUBE,
    "x.transpose((2, 0, 1))": CUBE, "x.transpose(None)": CUBE, "x.swapaxes(0, -1)": CUBE, "x.squeeze()": CUBE,
    "x.squeeze(axis=2)": CUBE, "x.squeeze(-1)": CUBE, "x.repeat(2, axis=1)": M, "x.repeat(3)": M, "x.sum()": M, "x.sum(0)": M,
    "x.sum(axis=(0, 1))": CUBE, "x.sum(axis=-1, keepdims=True)": M, "x.sum(1, np.float64)": M, "x.sum(initial=2.0)": M,
    "x.prod(axis=0)": M, "x.prod()": S, "x.mean()": M, "x.mean(axis=1, keepdims=True)": M, "x.max()": M, "x.max(axis=0)": M,
    "x.min(1, keepdims=True)": M, "x.min()": M, "x.std()": M, "x.std(axis=0, ddof=1)": M,
    "x.var()": M, "x.var(axis=(0, 1), keepdims=True)": M, "x.var(0, ddof=1)": M, "x.cumsum()": M, "x.cumsum(axis=1)": M,
    "x.cumprod(0)": M, "x.trace()": S, "x.trace(1)": M, "x.trace(offset=-1, axis1=1, axis2=0)": M, "x.dot(x.T)": M,
    "x.dot(np.arange(4.0))": M, "x[0].dot(x[1])": M, "x.dot(2.0)": M, "x.clip(-0.5, 0.5)": M, "x.clip(min=0.0)": M,
    "x.clip(max=x[0])": M, "x.conj()": M, "x.conjugate()": M, "x.astype(np.float64) * x": M, "x.astype(float)": M,
    "x.astype('float64', copy=False)": M, "x.copy() * x": M, "x.take([0, 5, 5])": M, "x.take([[2], [0]], axis=1)": M,
    "x.compress([True, False, True], axis=0)": M, "x.diagonal()": S, "x.diagonal(1, 1, 0)": S, "x.round(1) + x": M,
    "x.T.reshape(2, -1).mean(0).std()": M,
}  # fmt: skip
PLACES = {
    "x.argmax()": M, "x.argmax(axis=1)": M, "x.argmax(0, keepdims=True)": M, "x.argmin()": M, "x.argmin(-1)": M,
    "x.argsort()": M, "x.argsort(axis=0)": M, "x.all()": M, "x.all(axis=0)": M > 0, "x.any(1)": M > 1, "(x > 0).any()": M,
    "x.nonzero()[1]": M > 0, "np.arange(5.0)[1:].cumsum().searchsorted(2.5) + x.size": M, "x.size": M, "x.nbytes": M,
    "x.itemsize": M, "x.ndim": M, "x.imag": M, "x.astype(int)": M, "x.astype(bool)": M, "x.sum(dtype=int)": M > 0,
    "x.tolist()": M, "x[0, 0].item()": M, "x.item(5)": M, "len(x)": M, "x.round()": M,
}  # fmt: skip


def call(text):
    """The call as a function."""
    file, line = f"<{text}>", f"lambda x: {text}"
    linecache.cache[file] = (len(line), None, [line], file)  # AutoGraph reads it there
    return eval(compile(line, file, "eval"), {"np": np})


@pytest.mark.parametrize("text", [*CALLS, *PLACES])
def test_values_and_dtypes_are_those_of_numpy(text):
    x = {**CALLS, **PLACES}[text]
    expected = np.asarray(call(text)(x))
    for tensor in (gt.constant(x), gt.Variable(x)):
        found = np.asarray(call(text)(tensor))
        assert found.shape == expected.shape
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def directional(function, x, v, order=2):
    """(d/dv, d²/dv²) of a scalar function at a tensor, by nested tapes; of order 1 the former alone."""
    with gt.GradientTape() as outer:
        outer.watch([x] if order > 1 else [])
        with gt.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        first = gt.reduce_sum(inner.gradient(y, x) * v)
    if order == 1:
        return (float(first),)
    second = outer.gradient(first, x, unconnected_gradients="zero")
    return float(first), float(gt.reduce_sum(second * v))


@pytest.mark.parametrize("text", CALLS)
def test_derivatives(text):
    x, method = CALLS[text], call(text)
    weights = RNG.normal(size=np.shape(method(x)))
    direction = RNG.normal(size=x.shape)
    plain = lambda a: float(np.sum(np.sin(method(a)) * weights))  # noqa: E731
    loss = lambda t: np.sum(np.sin(method(t)) * weights)  # noqa: E731
    h = 1e-5
    first = (plain(x + h * direction) - plain(x - h * direction)) / (2 * h)
    found = [directional(loss, gt.constant(x), direction)]
    found += [directional(gt.function(loss, jit_compile=False), gt.constant(x), direction)]
    found += [directional(gt.function(loss), gt.constant(x), direction, 2 if in_sample(text, TWICE) else 1)]
    for slope, *curvatures in found:
        assert slope == pytest.approx(first, rel=1e-6, abs=1e-8)
        for curvature in curvatures:
            assert curvature == pytest.approx(found[0][1], rel=1e-10, abs=1e-10)
    ahead, behind = (directional(loss, gt.constant(x + s * h * direction), direction)[0] for s in (1, -1))
    assert found[0][1] == pytest.approx((ahead - behind) / (2 * h), rel=1e-5, abs=1e-6)


UNKNOWN = [
    "x.T", "x.reshape(-1)", "x.reshape(-1, 2)", "x.ravel()", "x.transpose(1, 0)", "x.sum()", "x.sum(axis=0)", "x.mean(1)",
    "x.max()", "x.min(0)", "x.std()", "x.var(axis=0)", "x.std(axis=0, ddof=1)", "x.cumsum(0)", "x.dot(np.ones(4))",
    "x.clip(0.0, 1.0)", "x.copy()", "x.conj()", "x.prod(1)", "x.swapaxes(0, 1)", "x.repeat(2, axis=1)", "x.round(1)",
    "x.all()", "x.any(0)", "x.argmax(0)", "x.real",
]  # fmt: skip


@pytest.mark.parametrize("text", UNKNOWN)
def test_dimensions_that_only_run_time_knows(text):
    method = call(text)
    for jit in (True, False):
        f = gt.function(method, input_signature=[gt.TensorSpec((None, 4), gt.float64)], jit_compile=jit)
        for rows in (1, 3, 5):
            x = RNG.normal(size=(rows, 4))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # NumPy's, of one row without a degree of freedom
                expected = method(x)
            with np.errstate(all="ignore"):
                np.testing.assert_allclose(f(gt.constant(x)), expected, rtol=1e-12)


@pytest.mark.parametrize("text", ["x.sum()", "x.T.dot(x)", "x.reshape(-1)", "x.std(0)", "x.clip(0.0, 1.0).mean()"])
def test_one_example_of_a_batch(text):
    x = RNG.normal(size=(5, 3, 4))
    np.testing.assert_allclose(gt.vectorized_map(call(text), gt.constant(x)), [call(text)(row) for row in x])


def test_complex():
    z = M + 1j * np.roll(M, 1)
    for text in ("x.real", "x.imag", "x.conj()", "x.T.dot(x)", "x.sum()"):
        np.testing.assert_allclose(call(text)(gt.constant(z)), call(text)(z))


IN_PLACE = {
    "fill": lambda a, x: a.fill(2.0), "fill with a tensor": lambda a, x: a.fill(x[1, 1]), "sort": lambda a, x: a.sort(),
    "sort rows": lambda a, x: a.sort(axis=0), "put": lambda a, x: a.put([0, 5], x[0, :2] * 2.0),
    "put wrapped": lambda a, x: a.put([13], x[0, 0], mode="wrap"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
@pytest.mark.parametrize("mode", ["eager", "native", "interpreted"])
def test_changes_in_place_are_recorded(name, mode):
    change = IN_PLACE[name]

    def program(x):
        a = x.copy()
        change(a, x)
        return np.sum(a * a * M)

    run = program if mode == "eager" else gt.function(program, jit_compile=mode == "native")
    changed, tensor = M.copy(), gt.constant(M)
    assert change(changed, M) is None
    assert change(tensor, gt.constant(M)) is None
    np.testing.assert_array_equal(tensor, changed)
    h, direction = 1e-6, RNG.normal(size=M.shape)
    expected = (program(M + h * direction) - program(M - h * direction)) / (2 * h)
    x = gt.constant(M)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = run(x)
    assert np.sum(tape.gradient(y, x, unconnected_gradients="zero").numpy() * direction) == pytest.approx(expected, abs=1e-6)
    np.testing.assert_array_equal(x, M)


def test_a_variable_is_changed_in_place_too():
    v = gt.Variable([3.0, 1.0, 2.0])
    v.sort()
    np.testing.assert_array_equal(v, [1.0, 2.0, 3.0])
    v.fill(4.0)
    v.put([0], 1.0)
    np.testing.assert_array_equal(v, [1.0, 4.0, 4.0])
    assert v.tolist() == [1.0, 4.0, 4.0]
    assert v[0].item() == 1.0
    assert v.item(2) == 4.0


def test_out():
    x, r = gt.constant(M), gt.zeros(4, gt.float64)
    assert x.sum(0, out=r) is r
    np.testing.assert_array_equal(r, M.sum(0))
    with pytest.raises(TypeError, match="a NumPy array cannot take"):
        x.mean(0, out=np.zeros(4))


def test_results_are_tensors_of_their_own():
    x = gt.constant([[1.0, 2.0]])
    for other in (
        x.T,
        x.reshape(1, 2),
        x.ravel(),
        x.flatten(),
        x.copy(),
        x.squeeze(),
        x.astype(np.float32),
        x.real,
        x.clip(0.0, 9.0),
    ):
        other[...] = 0.0
    np.testing.assert_array_equal(x, [[1.0, 2.0]])


MISTAKES = {
    "x.sum(axis=5)": (ValueError, "axis 5"),
    "x.reshape(5, 5)": (ValueError, "reshape"),
    "x.reshape(3, 4, order='F')": (ValueError, "order='F'"),
    "x.transpose(0, 0)": (ValueError, "perm"),
    "x.dot(np.ones(7))": (ValueError, "tensordot|dot|shapes"),
    "x.take([99])": (IndexError, "99"),
    "x.astype('float8')": (TypeError, "float8"),
    "x.squeeze(0)": (ValueError, "squeeze"),
    "x.view()": (AttributeError, "gt.reshape"),
    "x.flat": (AttributeError, "reshape"),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_mistakes_are_named_eager_and_compiled(text):
    kind, words = MISTAKES[text]
    for run in (call(text), gt.function(call(text)), gt.function(call(text), jit_compile=False)):
        with pytest.raises(kind, match=words):
            run(gt.constant(M))


def test_arguments_are_named_as_in_numpy():
    """For each method, the names we take are names NumPy's function takes."""
    for name, method in vars(gt.Tensor.__mro__[2]).items():
        if inspect.isfunction(method) and name not in ("reshape", "transpose", "astype", "copy", "fill", "conj", "conjugate"):
            ours = set(inspect.signature(method).parameters) - {"self"}
            numpys = inspect.getdoc(getattr(np.ndarray, name)).split("\n")[0:3]
            function = getattr(np, name, None)
            theirs = set(inspect.signature(function).parameters) if function is not None else set()
            assert all(p in theirs or any(p in line for line in numpys) for p in ours), (name, ours, theirs)
