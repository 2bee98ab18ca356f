"""The names of the array API standard (2024.12) and their signatures, as its tables have them."""

import inspect
import math
from types import ModuleType

import pytest

import gradtape as gt
import gradtape.array_api as xp

UNARY = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log
    log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc"""
BINARY = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal
    floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum
    multiply nextafter not_equal pow remainder subtract"""
REDUCTIONS = "argmax argmin count_nonzero all any max min mean"
SIGNATURES = {
    **dict.fromkeys(UNARY.split(), "(x, /)"),
    **dict.fromkeys(BINARY.split(), "(x1, x2, /)"),
    "clip": "(x, /, min=None, max=None)",
    # creation
    "arange": "(start, /, stop=None, step=1, *, dtype=None, device=None)",
    "asarray": "(obj, /, *, dtype=None, device=None, copy=None)",
    **dict.fromkeys(("empty", "ones", "zeros"), "(shape, *, dtype=None, device=None)"),
    **dict.fromkeys(("empty_like", "ones_like", "zeros_like"), "(x, /, *, dtype=None, device=None)"),
    "eye": "(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)",
    "from_dlpack": "(x, /, *, device=None, copy=None)",
    "full": "(shape, fill_value, *, dtype=None, device=None)",
    "full_like": "(x, /, fill_value, *, dtype=None, device=None)",
    "linspace": "(start, stop, /, num, *, dtype=None, device=None, endpoint=True)",
    "meshgrid": "(*arrays, indexing='xy')",
    **dict.fromkeys(("tril", "triu"), "(x, /, *, k=0)"),
    # data types
    "astype": "(x, dtype, /, *, copy=True, device=None)",
    "can_cast": "(from_, to, /)",
    **dict.fromkeys(("finfo", "iinfo"), "(type, /)"),
    "isdtype": "(dtype, kind)",
    "result_type": "(*arrays_and_dtypes)",
    "__array_namespace_info__": "()",
    # manipulation and indexing
    "broadcast_arrays": "(*arrays)",
    "broadcast_to": "(x, /, shape)",
    **dict.fromkeys(("concat", "stack"), "(arrays, /, *, axis=0)"),
    **dict.fromkeys(("expand_dims", "squeeze"), "(x, /, axis)"),
    "flip": "(x, /, *, axis=None)",
    "moveaxis": "(x, source, destination, /)",
    "permute_dims": "(x, /, axes)",
    "repeat": "(x, repeats, /, *, axis=None)",
    "reshape": "(x, /, shape, *, copy=None)",
    "roll": "(x, /, shift, *, axis=None)",
    "tile": "(x, repetitions, /)",
    "unstack": "(x, /, *, axis=0)",
    "take": "(x, indices, /, *, axis=None)",
    "take_along_axis": "(x, indices, /, *, axis=-1)",
    # searching, sets, sorting
    **dict.fromkeys(REDUCTIONS.split(), "(x, /, *, axis=None, keepdims=False)"),
    **dict.fromkeys(("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"), "(x, /)"),
    "matrix_transpose": "(x, /)",
    "searchsorted": "(x1, x2, /, *, side='left', sorter=None)",
    "where": "(condition, x1, x2, /)",
    **dict.fromkeys(("argsort", "sort"), "(x, /, *, axis=-1, descending=False, stable=True)"),
    # statistics and differences
    **dict.fromkeys(("sum", "prod"), "(x, /, *, axis=None, dtype=None, keepdims=False)"),
    **dict.fromkeys(("std", "var"), "(x, /, *, axis=None, correction=0.0, keepdims=False)"),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), "(x, /, *, axis=None, dtype=None, include_initial=False)"),
    "diff": "(x, /, *, axis=-1, n=1, prepend=None, append=None)",
    "matmul": "(x1, x2, /)",
    "tensordot": "(x1, x2, /, *, axes=2)",
    "vecdot": "(x1, x2, /, *, axis=-1)",
}  # fmt: skip
LINALG = {
    **dict.fromkeys(("det", "eigh", "eigvalsh", "inv", "matrix_transpose", "slogdet", "svdvals"), "(x, /)"),
    **dict.fromkeys(("matmul", "outer", "solve"), "(x1, x2, /)"),
    **dict.fromkeys(("cross", "vecdot"), "(x1, x2, /, *, axis=-1)"),
    "cholesky": "(x, /, *, upper=False)",
    "diagonal": "(x, /, *, offset=0)",
    "matrix_norm": "(x, /, *, keepdims=False, ord='fro')",
    "matrix_power": "(x, n, /)",
    **dict.fromkeys(("matrix_rank", "pinv"), "(x, /, *, rtol=None)"),
    "qr": "(x, /, *, mode='reduced')",
    "svd": "(x, /, *, full_matrices=True)",
    "tensordot": "(x1, x2, /, *, axes=2)",
    "trace": "(x, /, *, offset=0, dtype=None)",
    "vector_norm": "(x, /, *, axis=None, keepdims=False, ord=2)",
}
FFT = {
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"), "(x, /, *, n=None, axis=-1, norm='backward')"),
    **dict.fromkeys(("fftn", "ifftn", "rfftn", "irfftn"), "(x, /, *, s=None, axes=None, norm='backward')"),
    **dict.fromkeys(("fftfreq", "rfftfreq"), "(n, /, *, d=1.0, dtype=None, device=None)"),
    **dict.fromkeys(("fftshift", "ifftshift"), "(x, /, *, axes=None)"),
}
METHODS = {
    "__array_namespace__": "(self, /, *, api_version=None)", "to_device": "(self, device, /, *, stream=None)",
}  # fmt: skip
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = ["bool", *INTEGERS, "float32", "float64", "complex64", "complex128"]
OPERATORS = """abs add and bool complex dlpack dlpack_device eq float floordiv ge getitem gt index int invert le lshift lt
    matmul mod mul ne neg or pos pow rshift setitem sub truediv xor radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul rand
    ror rxor rlshift rrshift"""


def bare(function):
    signature = inspect.signature(function)
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


@pytest.mark.parametrize(
    ("space", "table"), [(xp, SIGNATURES), (xp.linalg, LINALG), (xp.fft, FFT), (gt.Tensor, METHODS)],
    ids=["main", "linalg", "fft", "methods"],
)  # fmt: skip
def test_signatures(space, table):
    assert {name: bare(getattr(space, name)) for name in table} == table


@pytest.mark.parametrize("space", [xp, xp.linalg, xp.fft])
def test_functions_know_their_names(space):
    table = {xp: SIGNATURES, xp.linalg: LINALG, xp.fft: FFT}[space]
    assert [name for name in table if getattr(space, name).__name__ != name] == []


def test_the_namespace_is_a_module():
    assert isinstance(xp, ModuleType)
    assert (xp.__name__, xp.__array_api_version__) == ("gradtape.array_api", "2024.12")
    assert {xp: 1}[xp] == 1
    assert gt.array_api is xp
    for x in (gt.constant(1.0), gt.Variable(1.0)):
        assert x.__array_namespace__() is xp
        for version in ("2021.12", "2022.12", "2023.12", "2024.12"):
            assert x.__array_namespace__(api_version=version) is xp
    with pytest.raises(ValueError, match=r"'1999.1' is not supported; the newest is 2024.12"):
        gt.constant(1.0).__array_namespace__(api_version="1999.1")


def test_constants_and_dtypes():
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(xp.nan)
    assert [getattr(xp, name).name for name in DTYPES] == DTYPES
    assert all(getattr(xp, a) != getattr(xp, b) for a in DTYPES for b in DTYPES if a != b)


def test_array_object():
    assert [name for name in OPERATORS.split() if not hasattr(gt.Tensor, f"__{name}__")] == []
    x = xp.zeros((2, 3, 4))
    assert (x.ndim, x.size, x.shape, x.dtype, x.device) == (3, 24, (2, 3, 4), xp.float32, "/CPU:0")
    assert isinstance(x.shape, tuple)
    assert (x.mT.shape, x[0].T.shape) == ((2, 4, 3), (4, 3))
    assert x.to_device(x.device) is x
    with pytest.raises(ValueError, match="device 'cuda' is not known"):
        x.to_device("cuda")


def test_info():
    info = xp.__array_namespace_info__()
    assert info.devices() == [info.default_device()] == [xp.ones(1).device]
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert info.default_dtypes() == {
        "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int32, "indexing": xp.int64,
    }  # fmt: skip
    assert set(info.dtypes()) == set(DTYPES)
    kinds = {
        "bool": ["bool"], "signed integer": DTYPES[1:5], "unsigned integer": DTYPES[5:9], "integral": DTYPES[1:9],
        "real floating": DTYPES[9:11], "complex floating": DTYPES[11:], "numeric": DTYPES[1:],
        ("bool", "real floating"): ["bool", "float32", "float64"],
    }  # fmt: skip
    for kind, names in kinds.items():
        assert set(info.dtypes(kind=kind)) == set(names)
        assert [name for name in DTYPES if xp.isdtype(getattr(xp, name), kind)] == [n for n in DTYPES if n in names]
    with pytest.raises(ValueError, match="kind must be one of bool, signed integer"):
        xp.isdtype(xp.int8, "integer")
