"""The array API namespace on tensors: standard names, recorded, gradtape's defaults."""

import math

import numpy as np
import pytest

import gradtape as gt

xp = gt.constant(1.0).__array_namespace__()
M = np.random.default_rng(5).normal(size=(3, 4))
SQ = np.random.default_rng(6).normal(size=(3, 3)) + 3 * np.eye(3)


def test_namespace_is_found_the_standard_way():
    assert gt.Variable(1.0).__array_namespace__() is xp
    assert gt.constant(1.0).__array_namespace__(api_version="2022.12") is xp
    assert xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="1999"):
        gt.constant(1.0).__array_namespace__(api_version="1999.1")


def test_constants_and_dtypes():
    assert (xp.pi, xp.e, xp.inf, xp.newaxis) == (math.pi, math.e, math.inf, None)
    assert math.isnan(xp.nan)
    assert xp.float32 is gt.float32
    assert xp.bool is gt.bool
    assert xp.complex128 is gt.complex128
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["real floating"] is gt.float32
    assert "float64" in info.dtypes()
    assert info.devices() == [info.default_device()]
    assert info.capabilities()["boolean indexing"]


def test_creation():
    for have, want in (
        (xp.zeros((2, 3)), np.zeros((2, 3))), (xp.ones(2, dtype=xp.int64), np.ones(2)), (xp.full((2,), 3.0), [3.0, 3.0]),
        (xp.arange(3), [0, 1, 2]), (xp.arange(1, 7, 2), [1, 3, 5]), (xp.eye(2, 3, k=1), np.eye(2, 3, 1)),
        (xp.linspace(0.0, 1.0, 3), [0, 0.5, 1]), (xp.asarray([1, 2]), [1, 2]), (xp.zeros_like(xp.ones(2)), [0, 0]),
        (xp.full_like(xp.ones(2), 5.0), [5, 5]), (xp.asarray([1.5], dtype=xp.float64), [1.5]),
    ):  # fmt: skip
        assert isinstance(have, gt.Tensor)
        np.testing.assert_allclose(have.numpy(), want)
    assert xp.zeros(2).dtype == gt.float32
    assert xp.arange(3).dtype == gt.int32


def test_types():
    a, b = xp.ones(2, dtype=xp.float32), xp.ones(2, dtype=xp.int64)
    assert xp.result_type(a, b) == gt.float32
    assert xp.result_type(a, xp.float64) == gt.float64
    assert xp.result_type(a, 1.0) == gt.float32
    assert xp.astype(b, xp.float64).dtype == gt.float64
    assert xp.finfo(xp.float32).eps == np.finfo(np.float32).eps
    assert xp.iinfo(b).max == np.iinfo(np.int64).max
    assert xp.isdtype(xp.float32, "real floating")
    assert not xp.isdtype(xp.float32, xp.float64)
    assert xp.can_cast(xp.int8, xp.int32)


SAME_AS_NUMPY = [
    ("sum", {}), ("mean", {"axis": 0}), ("prod", {"axis": 1}), ("max", {"axis": 0, "keepdims": True}), ("min", {}),
    ("std", {"correction": 1}), ("var", {"axis": 1}), ("all", {}), ("any", {"axis": 0}), ("argmax", {"axis": 1}),
    ("argmin", {}), ("sort", {"axis": 0}), ("argsort", {}), ("flip", {"axis": 1}), ("roll", {"shift": 1, "axis": 0}),
    ("abs", {}), ("exp", {}), ("sin", {}), ("tanh", {}), ("square", {}), ("sign", {}), ("floor", {}), ("trunc", {}),
    ("round", {}), ("isfinite", {}), ("negative", {}), ("tril", {"k": 1}), ("triu", {}), ("matrix_transpose", {}),
    ("permute_dims", {"axes": (1, 0)}), ("reshape", {"shape": (4, 3)}), ("expand_dims", {"axis": 1}), ("diff", {}),
    ("repeat", {"repeats": 2, "axis": 0}), ("broadcast_to", {"shape": (2, 3, 4)}), ("cumulative_sum", {"axis": 1}),
    ("cumulative_prod", {"axis": 0, "include_initial": True}), ("cumulative_sum", {"axis": 0, "include_initial": True}),
    ("count_nonzero", {}), ("unstack", {"axis": 1}), ("nonzero", {}), ("unique_values", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), SAME_AS_NUMPY, ids=lambda v: v if isinstance(v, str) else "")
def test_same_values_as_numpy(name, options):
    have = getattr(xp, name)(gt.constant(M), **options)
    want = getattr(np, name)(M, **options)
    if isinstance(want, tuple):
        for h, w in zip(have, want, strict=True):
            np.testing.assert_allclose(h.numpy(), w)
    else:
        np.testing.assert_allclose(have.numpy(), want)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "atan2", "hypot", "less", "logaddexp"])
def test_binary(name):
    have = getattr(xp, name)(gt.constant(M), gt.constant(M[::-1].copy()))
    np.testing.assert_allclose(have.numpy(), getattr(np, name)(M, M[::-1]))


def test_joins_and_selection():
    a = gt.constant(M)
    assert xp.concat([a, a], axis=1).shape == (3, 8)
    assert xp.stack([a, a]).shape == (2, 3, 4)
    np.testing.assert_allclose(xp.where(a > 0, a, 0.0).numpy(), np.where(M > 0, M, 0))
    np.testing.assert_allclose(xp.take(a, xp.asarray([0, 2]), axis=0).numpy(), M[[0, 2]])
    np.testing.assert_allclose(xp.clip(a, min=-0.5, max=0.5).numpy(), np.clip(M, -0.5, 0.5))
    np.testing.assert_allclose(xp.clip(a, 0.0).numpy(), np.clip(M, 0, None))
    np.testing.assert_allclose(xp.tensordot(a, a, axes=2).numpy(), np.tensordot(M, M, 2))
    np.testing.assert_allclose(xp.vecdot(a, a).numpy(), (M * M).sum(-1))
    np.testing.assert_array_equal(xp.isin(xp.asarray([1, 2, 3]), xp.asarray([2])).numpy(), [False, True, False])
    assert [g.shape for g in xp.meshgrid(xp.arange(2), xp.arange(3), indexing="ij")] == [(2, 3), (2, 3)]


def test_linalg_and_fft():
    s = gt.constant(SQ)
    np.testing.assert_allclose(xp.linalg.inv(s).numpy(), np.linalg.inv(SQ))
    np.testing.assert_allclose(xp.linalg.det(s).numpy(), np.linalg.det(SQ))
    np.testing.assert_allclose(xp.linalg.vector_norm(s).numpy(), np.linalg.norm(SQ))
    np.testing.assert_allclose(xp.linalg.matrix_norm(s).numpy(), np.linalg.norm(SQ))
    np.testing.assert_allclose(xp.linalg.trace(s).numpy(), np.trace(SQ))
    np.testing.assert_allclose(xp.linalg.solve(s, s).numpy(), np.eye(3), atol=1e-12)
    np.testing.assert_allclose(xp.linalg.matmul(s, s).numpy(), SQ @ SQ)
    np.testing.assert_allclose(xp.linalg.slogdet(s).logabsdet.numpy(), np.linalg.slogdet(SQ).logabsdet)
    np.testing.assert_allclose(xp.fft.fft(gt.constant(M)).numpy(), np.fft.fft(M))


def softmax(x):
    """Library code that knows only the standard."""
    ns = x.__array_namespace__()
    shifted = ns.exp(x - ns.max(x, axis=-1, keepdims=True))
    return shifted / ns.sum(shifted, axis=-1, keepdims=True)


def test_code_for_the_standard_is_differentiated():
    x = gt.constant(M)
    w = np.random.default_rng(1).normal(size=M.shape)
    with gt.GradientTape() as tape:
        tape.watch(x)
        y = gt.reduce_sum(softmax(x) * w)
    p = softmax(M)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), p * (w - (p * w).sum(-1, keepdims=True)), atol=1e-12)


def test_from_dlpack():
    assert xp.from_dlpack(np.arange(3.0)).numpy().tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="copy=False"):
        gt.from_dlpack(np.arange(3.0), copy=False)
