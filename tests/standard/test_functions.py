"""Every function that is not elementwise, on every dtype it is defined for: values and shapes as NumPy's, dtypes as the
standard's rules say (which are not NumPy's: the default integer is int32)."""

import numpy as np
import pytest

import gradtape as gt
import gradtape.array_api as xp
from tests.standard.test_signatures import DTYPES

NUMERIC, REAL, FLOATS, FLOATING = DTYPES[1:], DTYPES[1:11], DTYPES[9:11], DTYPES[9:]
RULES = {
    "same": lambda d: d,
    "bool": lambda d: "bool",
    "index": lambda d: "int64",
    "sum": lambda d: {"int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32"}.get(d, d),
    "real": lambda d: {"complex64": "float32", "complex128": "float64"}.get(d, d),
    "complex": lambda d: {"float32": "complex64", "float64": "complex128"}.get(d, d),
    "float64": lambda d: "float64",
}
M, ROW, CUBE, EMPTY = (3, 4), (5,), (2, 3, 4), (0, 3)
AXES = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 1)}, {"axis": ()}]
ONE_AXIS = [{}, {"axis": 1}, {"axis": 0, "keepdims": True}, {"keepdims": True}]
ORDERS = [0, 1, 2, 3, 0.5, -1, np.inf, -np.inf]
MATRIX_ORDERS = [1, -1, 2, -2, np.inf, -np.inf, "nuc", "fro"]
TRANSFORM = [{}, {"n": 3}, {"n": 8, "axis": 0}, {"norm": "ortho"}, {"norm": "forward", "axis": 1}, {"n": 7}]
TRANSFORMS = [{}, {"s": (3, 4), "axes": (0, 1)}, {"axes": (1, 0)}, {"norm": "ortho"}, {"norm": "forward", "axes": (0,)}]
NORMED = [{}, {"axis": 1}, {"axis": (0, 2), "keepdims": True}, {"keepdims": True}]
PRODUCTS = [
    [(3, 4), (4, 2)], [(4,), (4, 2)], [(3, 4), (4,)], [(4,), (4,)], [(5, 3, 4), (4, 2)], [(5, 1, 3, 4), (2, 4, 2)]
]  # fmt: skip
# names, dtypes, rule of the result, shapes of the arguments, options; NumPy has a function of the same name
TABLE = [
    ("sum prod", NUMERIC, "sum", [M], AXES),
    ("sum prod", NUMERIC, "sum", [()], [{}]),
    ("sum prod", NUMERIC, "sum", [EMPTY], [{}, {"axis": 0}]),
    ("sum prod", REAL, "float64", [M], [{"dtype": "float64"}]),
    ("max min", REAL, "same", [M], AXES),
    ("mean", FLOATING, "same", [M], AXES),
    ("std var", FLOATS, "same", [M], [*AXES, {"correction": 1}, {"correction": 1.5, "axis": 1}]),
    ("all any", DTYPES, "bool", [M], AXES),
    ("count_nonzero", DTYPES, "index", [M], AXES),
    ("argmax argmin", REAL, "index", [M], ONE_AXIS),
    ("argmax argmin", REAL, "index", [()], [{}]),
    ("sort", REAL, "same", [M], [{}, {"axis": 0}]),
    ("argsort", FLOATS, "index", [M], [{}, {"axis": 0}]),
    ("cumulative_sum cumulative_prod", NUMERIC, "sum", [ROW], [{}, {"axis": -1, "include_initial": True}]),
    ("cumulative_sum cumulative_prod", REAL, "sum", [M], [{"axis": 0}, {"axis": 1, "include_initial": True}]),
    ("cumulative_sum cumulative_prod", FLOATS, "sum", [EMPTY], [{"axis": 0, "include_initial": True}, {"axis": 1}]),
    ("diff", NUMERIC, "same", [M], [{}, {"axis": 0}, {"n": 2}, {"n": 0}]),
    ("flip", DTYPES, "same", [M], [{}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1}]),
    (
        "roll",
        DTYPES,
        "same",
        [M],
        [{"shift": 1}, {"shift": -2, "axis": 1}, {"shift": (1, 2), "axis": (0, 1)}, {"shift": 1, "axis": (0, 1)}],
    ),
    ("permute_dims", DTYPES, "same", [CUBE], [{"axes": (2, 0, 1)}, {"axes": (-1, 0, 1)}]),
    ("reshape", DTYPES, "same", [M], [{"shape": (-1, 2)}, {"shape": (12,), "copy": True}]),
    ("reshape", DTYPES, "same", [()], [{"shape": (1, 1)}]),
    ("reshape", DTYPES, "same", [EMPTY], [{"shape": (3, 0)}]),
    ("expand_dims", DTYPES, "same", [M], [{"axis": axis} for axis in (0, 1, 2, -1, -3)]),
    ("squeeze", DTYPES, "same", [(1, 3, 1)], [{"axis": (0, 2)}, {"axis": 0}]),
    ("broadcast_to", DTYPES, "same", [(3, 1)], [{"shape": (2, 3, 4)}]),
    ("tril triu", DTYPES, "same", [M], [{"k": k} for k in (-1, 0, 2)]),
    ("tril triu", DTYPES, "same", [CUBE], [{}]),
    ("nonzero", DTYPES, "index", [M], [{}]),
    ("unstack", DTYPES, "same", [M], [{}, {"axis": 1}, {"axis": -1}]),
    *[("matmul linalg.matmul", NUMERIC, "same", shapes, [{}]) for shapes in PRODUCTS],
    ("vecdot linalg.vecdot", NUMERIC, "same", [(3, 4), (3, 4)], [{}, {"axis": -2}]),
    ("vecdot", NUMERIC, "same", [(3, 4), (4,)], [{}]),
    ("matrix_transpose linalg.matrix_transpose", NUMERIC, "same", [CUBE], [{}]),
    ("tensordot linalg.tensordot", NUMERIC, "same", [(2, 3, 4), (3, 4, 5)], [{}]),
    ("tensordot", NUMERIC, "same", [(2, 3, 4), (4, 2)], [{"axes": ((2, 0), (0, 1))}, {"axes": 0}, {"axes": ((-1,), (-2,))}]),
    ("linalg.cross", NUMERIC, "same", [(5, 3), (5, 3)], [{}]),
    ("linalg.cross", NUMERIC, "same", [(3, 5), (3, 1)], [{"axis": -2}]),
    ("linalg.diagonal", NUMERIC, "same", [CUBE], [{}, {"offset": 1}, {"offset": -2}]),
    ("linalg.trace", NUMERIC, "sum", [CUBE], [{}, {"offset": 1}]),
    ("linalg.outer", NUMERIC, "same", [(3,), (4,)], [{}]),
    ("linalg.vector_norm", FLOATING, "real", [CUBE], [{"ord": o, **options} for o in ORDERS for options in NORMED]),
    (
        "linalg.matrix_norm",
        FLOATING,
        "real",
        [(2, 4, 4)],
        [{"ord": o, "keepdims": k} for o in MATRIX_ORDERS for k in (False, True)],
    ),
    ("linalg.svdvals", FLOATING, "real", [(2, 3, 5)], [{}]),
    ("linalg.pinv", FLOATING, "same", [(2, 3, 5)], [{}, {"rtol": 0.3}]),
    ("linalg.matrix_rank", FLOATING, "index", [(2, 3, 5)], [{}, {"rtol": 0.9}]),
    ("fft.fft fft.ifft", FLOATING, "complex", [(4, 6)], TRANSFORM),
    ("fft.rfft fft.ihfft", FLOATS, "complex", [(4, 6)], TRANSFORM),
    ("fft.irfft fft.hfft", FLOATING, "real", [(4, 6)], TRANSFORM),
    ("fft.fftn fft.ifftn", FLOATING, "complex", [(4, 6)], TRANSFORMS),
    ("fft.rfftn", FLOATS, "complex", [(4, 6)], TRANSFORMS),
    ("fft.irfftn", FLOATING, "real", [(4, 6)], TRANSFORMS),
    ("fft.fftshift fft.ifftshift", FLOATING, "same", [(4, 5)], [{}, {"axes": 0}, {"axes": (0, 1)}]),
]
SQUARE = [  # of definite matrices
    ("cholesky", "same", [{}, {"upper": True}]), ("det", "same", [{}]), ("inv", "same", [{}]), ("eigvalsh", "real", [{}]),
    ("slogdet", ("same", "real"), [{}]), ("matrix_rank", "index", [{}]), ("pinv", "same", [{}]),
]  # fmt: skip


def data(dtype, shape):
    generator, kind = np.random.default_rng(sum(shape) + 7), np.dtype(dtype).kind
    if kind in "biu":
        return generator.integers(0, 2 if kind == "b" else 9, shape).astype(dtype)
    values = generator.normal(size=shape)
    return (values + 1j * generator.normal(size=shape) if kind == "c" else values).astype(dtype)


def compare(have, want, rule, dtype, what):
    if isinstance(want, (tuple, list)):
        assert len(have) == len(want), what
        rules = rule if isinstance(rule, tuple) else [rule] * len(want)
        for h, w, r in zip(have, want, rules, strict=True):
            compare(h, w, r, dtype, what)
        return
    assert isinstance(have, gt.Tensor), what
    assert have.dtype.name == RULES[rule](dtype), what
    assert tuple(have.shape) == np.shape(want), what
    np.testing.assert_allclose(have.numpy(), want, rtol=2e-4, atol=2e-5, err_msg=what)


def resolve(space, path):
    for part in path.split("."):
        space = getattr(space, part)
    return space


@pytest.mark.parametrize("dtype", DTYPES)
def test_same_as_numpy(dtype):
    for names, dtypes, rule, shapes, cases in TABLE:
        for name in names.split() if dtype in dtypes else ():
            arguments = [data(dtype, shape) for shape in shapes]
            for options in cases:
                want = resolve(np, name)(*arguments, **options)
                have = resolve(xp, name)(*(xp.asarray(a) for a in arguments), **options)
                compare(have, want, rule, dtype, f"{name} {shapes} {options}")


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("batch", [(), (2,), (0,)])
def test_square_matrices(dtype, batch):
    a = data(dtype, (*batch, 4, 4))
    a = (a @ np.conj(np.swapaxes(a, -1, -2)) + 4 * np.eye(4)).astype(dtype)
    x = xp.asarray(a)
    for name, rule, cases in SQUARE:
        for options in cases:
            compare(
                getattr(xp.linalg, name)(x, **options), getattr(np.linalg, name)(a, **options), rule, dtype, f"{name} {options}"
            )
    for n in (-2, -1, 0, 1, 3):
        compare(xp.linalg.matrix_power(x, n), np.linalg.matrix_power(a, n), "same", dtype, f"matrix_power {n}")
    for shape in ((4,), (4, 2)):
        b = data(dtype, shape)
        compare(xp.linalg.solve(x, xp.asarray(b)), np.linalg.solve(a, b), "same", dtype, f"solve {shape}")
    values, vectors = xp.linalg.eigh(x)
    assert values.dtype.name == RULES["real"](dtype)
    compare(vectors @ (xp.astype(values, x.dtype)[..., None] * xp.conj(vectors.mT)), a, "same", dtype, "eigh")


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize("shape", [(2, 3, 5), (5, 3)])
def test_factors_multiply_to_the_matrix(dtype, shape):
    a, k = data(dtype, shape), min(shape[-2:])
    rows, columns = shape[-2:]
    for full in (True, False):
        result = xp.linalg.svd(xp.asarray(a), full_matrices=full)
        assert result._fields == ("U", "S", "Vh")
        assert result.U.shape[-2:] == (rows, rows if full else k)
        assert result.Vh.shape[-2:] == (columns if full else k, columns)
        assert result.S.dtype.name == RULES["real"](dtype)
        middle = xp.astype(result.S, result.U.dtype)[..., None] * result.Vh[..., :k, :]
        compare(result.U[..., :k] @ middle, a, "same", dtype, "svd")
    for mode in ("reduced", "complete"):
        q, r = xp.linalg.qr(xp.asarray(a), mode=mode)
        assert q.shape[-1] == r.shape[-2] == (k if mode == "reduced" else rows)
        compare(q @ r, a, "same", dtype, f"qr {mode}")
    tolerances = np.full(shape[:-2], 0.4, RULES["real"](dtype))
    if shape[:-2]:
        compare(
            xp.linalg.pinv(xp.asarray(a), rtol=xp.asarray(tolerances)),
            np.linalg.pinv(a, rtol=tolerances),
            "same",
            dtype,
            "pinv",
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_joins_cuts_and_indices(dtype):
    a = np.arange(12).reshape(3, 4).astype(dtype)
    x, idx = xp.asarray(a), np.array([2, 0, 1, -1])
    for axis in (0, 1, -1):
        compare(xp.concat([x, x], axis=axis), np.concatenate([a, a], axis), "same", dtype, "concat")
        compare(xp.stack((x, x), axis=axis), np.stack([a, a], axis), "same", dtype, "stack")
        compare(xp.repeat(x, 3, axis=axis), np.repeat(a, 3, axis), "same", dtype, "repeat")
    compare(xp.concat([x, x], axis=None), np.concatenate([a, a], None), "same", dtype, "concat")
    compare(xp.repeat(x, 2), np.repeat(a, 2), "same", dtype, "repeat")
    for times in ([1, 0, 2], [2]):
        compare(xp.repeat(x, xp.asarray(times), axis=0), np.repeat(a, times, 0), "same", dtype, "repeat")
    for times in ((2,), (2, 1, 2), (0, 2)):
        compare(xp.tile(x, times), np.tile(a, times), "same", dtype, "tile")
    compare(xp.moveaxis(x, 0, -1), a.T, "same", dtype, "moveaxis")
    compare(xp.take(x, xp.asarray(idx), axis=1), a[:, idx], "same", dtype, "take")
    compare(xp.take(x[0], xp.asarray(idx.reshape(2, 2))), a[0][idx.reshape(2, 2)], "same", dtype, "take")
    along = np.array([[0, 1], [2, 3], [1, 1]])
    compare(xp.take_along_axis(x, xp.asarray(along)), np.take_along_axis(a, along, -1), "same", dtype, "take_along_axis")
    compare(xp.where(xp.asarray(a > a[1, 1]), x, xp.zeros(4, dtype=dtype)), np.where(a > a[1, 1], a, 0), "same", dtype, "where")
    pair = (np.ones((3, 1), dtype), np.ones(2, dtype))
    compare(xp.broadcast_arrays(*map(xp.asarray, pair)), np.broadcast_arrays(*pair), "same", dtype, "broadcast_arrays")
    for indexing in ("xy", "ij"):
        for n in (1, 2, 3):
            grids = [np.arange(i + 2).astype(dtype) if dtype != "bool" else np.ones(i + 2, bool) for i in range(n)]
            want = np.meshgrid(*grids, indexing=indexing)
            compare(xp.meshgrid(*map(xp.asarray, grids), indexing=indexing), want, "same", dtype, "meshgrid")


@pytest.mark.parametrize("dtype", REAL)
def test_order(dtype):
    steps = xp.asarray(np.array([1, 2, 2, 5], dtype))
    wanted = xp.asarray(np.array([[0, 2], [6, 1]], dtype))
    for side, places in (("left", [[0, 1], [4, 0]]), ("right", [[0, 3], [4, 1]])):
        compare(xp.searchsorted(steps, wanted, side=side), np.array(places), "index", dtype, side)
    mixed = xp.asarray(np.array([5, 1, 2, 2], dtype))
    compare(xp.searchsorted(mixed, wanted[0], sorter=xp.argsort(mixed)), np.array([0, 1]), "index", dtype, "sorter")
    ties = xp.asarray(np.array([1, 2, 1, 2, 0], dtype))
    compare(xp.sort(ties, descending=True), np.array([2, 2, 1, 1, 0]), "same", dtype, "sort")
    compare(xp.argsort(ties, descending=True), np.array([1, 3, 0, 2, 4]), "index", dtype, "argsort is stable")


@pytest.mark.parametrize("dtype", DTYPES)
def test_sets(dtype):
    a = data(dtype, M)
    x = xp.asarray(a)
    values, first, inverse, counts = np.unique(a, return_index=True, return_inverse=True, return_counts=True)
    everything = xp.unique_all(x)
    assert everything._fields == ("values", "indices", "inverse_indices", "counts")
    compare(everything, (values, first, inverse.reshape(M), counts), ("same", "index", "index", "index"), dtype, "unique_all")
    compare(xp.unique_counts(x), (values, counts), ("same", "index"), dtype, "unique_counts")
    compare(xp.unique_inverse(x), (values, inverse.reshape(M)), ("same", "index"), dtype, "unique_inverse")
    compare(xp.unique_values(x), values, "same", dtype, "unique_values")


def test_each_nan_is_unique():
    values, counts = xp.unique_counts(xp.asarray([np.nan, 1.0, np.nan, 1.0]))
    np.testing.assert_array_equal(values.numpy(), [1.0, np.nan, np.nan])
    assert counts.numpy().tolist() == [2, 1, 1]


@pytest.mark.parametrize("dtype", FLOATS)
def test_frequencies(dtype):
    for name in ("fftfreq", "rfftfreq"):
        for n in (6, 7):
            compare(getattr(xp.fft, name)(n, d=0.3, dtype=dtype), getattr(np.fft, name)(n, 0.3), "same", dtype, name)
        assert getattr(xp.fft, name)(4).dtype == xp.float32


REFUSALS = [
    (IndexError, "axis 3", lambda x: xp.expand_dims(x, 3)),
    (ValueError, "needs the axis", lambda x: xp.take(x, xp.asarray([0]))),
    (ValueError, "need an axis", xp.cumulative_sum),
    (ValueError, "indexing", lambda x: xp.meshgrid(x[0], indexing="yx")),
    (ValueError, "scalar has no indices", lambda x: xp.nonzero(x[0, 0])),
    (ValueError, "mode", lambda x: xp.linalg.qr(x, mode="r")),
    (ValueError, "norm", lambda x: xp.fft.hfft(x, norm="both")),
    (ValueError, "axis must be negative", lambda x: xp.vecdot(x, x, axis=0)),
    (ValueError, "vectors", lambda x: xp.linalg.outer(x, x)),
    (ValueError, "are not 1", lambda x: xp.squeeze(x, 0)),
    (TypeError, "not a floating-point dtype", lambda x: xp.finfo(xp.int8)),
    (TypeError, "not an integer", lambda x: xp.iinfo(x)),
    (ValueError, "step must not be 0", lambda x: xp.arange(0, 3, 0)),
    (ValueError, "at least one", lambda x: xp.result_type()),
]


@pytest.mark.parametrize(("kind", "text", "call"), REFUSALS, ids=[text for _, text, _ in REFUSALS])
def test_refusals(kind, text, call):
    with pytest.raises(kind, match=text):
        call(xp.ones((2, 3)))
