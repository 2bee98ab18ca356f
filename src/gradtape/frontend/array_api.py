"""The Python array API standard on tensors: `t.__array_namespace__()` and `from_dlpack`.

The namespace has the standard's names bound to gradtape's recorded ops, so code written for any array library runs on
tensors and is differentiated. Defaults (float32, int32) are gradtape's. Names the standard has and gradtape has no op for
are absent, as the standard asks.
"""

# ruff: noqa: D103  (each function does what the array API standard documents under its name)

from __future__ import annotations

import functools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from gradtape import dtypes as d
from gradtape.ops import compare as c, create, elementwise as e, select as s
from gradtape.ops.dispatch import convert, twin
from gradtape.ops.inference import promote_dtypes
from gradtape.ops.operators import matmul_operator
from gradtape.ops.tensor import Tensor, TensorLike

API_VERSION = "2024.12"


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor with the values of an array of any library that speaks DLPack (copied).

    >>> import gradtape as gt, numpy as np
    >>> gt.from_dlpack(np.arange(3.0)).numpy()
    array([0., 1., 2.])
    """
    if copy is False:
        raise ValueError("from_dlpack: tensors own their values, so copy=False cannot be granted")
    return convert(np.from_dlpack(x))


def array_namespace(self: Any, /, *, api_version: str | None = None) -> Any:
    """Tensor.__array_namespace__: the namespace of the array API standard."""
    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", API_VERSION):
        raise ValueError(f"array API version {api_version!r} is not supported; the newest is {API_VERSION}")
    return _namespace()


# -- creation --------------------------------------------------------------------------------------------------------


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    tensor = convert(obj)
    return tensor if dtype is None or tensor.dtype == dtype else e.cast(tensor, dtype)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return create.zeros(shape, d.float32 if dtype is None else dtype)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return create.ones(shape, d.float32 if dtype is None else dtype)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    return create.fill(shape, asarray(fill_value, dtype=dtype))


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Any:
    return create.range(start, stop, step, dtype=dtype)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    return create.constant(np.eye(n_rows, n_cols, k), dtype=d.float32 if dtype is None else dtype)


def linspace(start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True) -> Any:
    from gradtape.frontend.numpy_functions import linspace as line

    return line(start, stop, num, endpoint, False, dtype)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return create.zeros_like(x, dtype)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    return create.ones_like(x, dtype)


# -- types -----------------------------------------------------------------------------------------------------------


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return e.cast(x, dtype)


def result_type(*arrays_and_dtypes: Any) -> d.DType:
    """The dtype an operation on these has; Python numbers do not decide unless alone."""
    found: d.DType | None = None
    for item in arrays_and_dtypes:
        if isinstance(item, (bool, int, float, complex)):
            continue
        dtype = _dtype_of(item)
        found = dtype if found is None else promote_dtypes(found, dtype)
    return _dtype_of(convert(arrays_and_dtypes[0])) if found is None else found


def _dtype_of(item: Any) -> d.DType:
    """The dtype of an array, or the dtype itself."""
    return d.as_dtype(convert(item).dtype if isinstance(item, (Tensor, TensorLike, np.ndarray)) else item)


def can_cast(from_: Any, to: Any, /) -> bool:
    return np.can_cast(_dtype_of(from_).dtype, d.numpy_dtype(to))


def isdtype(dtype: Any, kind: Any) -> bool:
    return np.isdtype(d.numpy_dtype(dtype), kind if isinstance(kind, (str, tuple)) else d.numpy_dtype(kind))


def finfo(type: Any, /) -> Any:
    return np.finfo(_dtype_of(type).dtype)


def iinfo(type: Any, /) -> Any:
    return np.iinfo(_dtype_of(type).dtype)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    x = twin(convert(x)) if min is None else s.maximum(x, min)
    return x if max is None else s.minimum(x, max)


def _info() -> Any:
    """`__array_namespace_info__` of the standard."""
    defaults = {"real floating": d.float32, "complex floating": d.complex64, "integral": d.int32, "indexing": d.int64}
    return SimpleNamespace(
        capabilities=lambda: {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64},
        default_device=lambda: "/CPU:0",
        default_dtypes=lambda *, device=None: defaults,
        devices=lambda: ["/CPU:0"],
        dtypes=lambda *, device=None, kind=None: {x.name: x for x in d.ALL if x.name not in ("string", "float16", "bfloat16")},
    )


@functools.cache
def _namespace() -> Any:
    from gradtape.frontend import numpy_functions as f, numpy_linalg as la, numpy_shapes as sh, numpy_ufuncs as u

    rules = {**f.FUNCTIONS, **sh.SHAPES, **la.LINALG}
    dtypes = {
        "bool": d.bool_, **{x.name: x for x in d.ALL if x.name not in ("bool", "string", "bfloat16", "float16")},
    }  # fmt: skip
    constants = {"e": math.e, "pi": math.pi, "inf": math.inf, "nan": math.nan, "newaxis": None}
    # names that NumPy shares with the standard, and the rules behind them
    elementwise = {
        name: u.UFUNCS[np.__dict__[name]]
        for name in (
            "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
            "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "conj", "copysign", "cos",
            "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot",
            "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp",
            "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply", "negative",
            "not_equal", "positive", "pow", "reciprocal", "remainder", "sign", "signbit", "sin", "sinh", "square",
            "sqrt", "subtract", "tan", "tanh", "trunc", "matmul",
        )
    }  # fmt: skip
    functions = {
        name: rules[np.__dict__[name]]
        for name in (
            "all", "any", "argmax", "argmin", "argsort", "broadcast_arrays", "broadcast_to", "concat", "count_nonzero",
            "diff", "expand_dims", "flip", "full_like", "imag", "matrix_transpose", "max", "mean", "meshgrid", "min",
            "moveaxis", "nonzero", "permute_dims", "prod", "real", "repeat", "reshape", "roll", "round", "searchsorted",
            "sort", "squeeze", "stack", "std", "sum", "take", "take_along_axis", "tensordot", "tile", "tril", "triu",
            "var", "where",
        )
    }  # fmt: skip
    own = {
        "__array_api_version__": API_VERSION, "__array_namespace_info__": _info, "arange": arange, "asarray": asarray,
        "astype": astype, "can_cast": can_cast, "clip": clip, "cumulative_prod": _cumulative(f.cumprod),
        "cumulative_sum": _cumulative(f.cumsum), "empty": zeros, "empty_like": zeros_like, "eye": eye, "finfo": finfo,
        "from_dlpack": from_dlpack, "full": full, "iinfo": iinfo, "isdtype": isdtype, "linspace": linspace,
        "ones": ones, "ones_like": ones_like, "result_type": result_type, "unstack": sh.unstack, "vecdot": la.linalg_vecdot,
        "zeros": zeros, "zeros_like": zeros_like, "unique_values": sh.unique, "isin": _isin,
    }  # fmt: skip
    linalg = SimpleNamespace(
        cholesky=la.cholesky, cross=la.linalg_cross, det=la.det, diagonal=la.linalg_diagonal, eigh=la.eigh,
        eigvalsh=la.eigvalsh, inv=la.inv, matmul=matmul_operator, matrix_norm=la.matrix_norm, matrix_power=la.matrix_power,
        matrix_transpose=la.matrix_transpose, outer=la.outer, pinv=la.pinv, qr=la.qr, slogdet=la.slogdet, solve=la.solve,
        svd=la.svd, svdvals=lambda x, /: la.svd(x, compute_uv=False), tensordot=la.tensordot, trace=la.linalg_trace,
        vecdot=la.linalg_vecdot, vector_norm=la.vector_norm,
    )  # fmt: skip
    fft = SimpleNamespace(
        fft=la.fft, ifft=la.ifft, rfft=la.rfft, irfft=la.irfft, fftn=la.fftn, ifftn=la.ifftn, rfftn=la.rfftn,
        irfftn=la.irfftn, fftshift=la.fftshift, ifftshift=la.ifftshift,
    )  # fmt: skip
    return SimpleNamespace(**dtypes, **constants, **elementwise, **functions, **own, linalg=linalg, fft=fft)


def _cumulative(rule: Any) -> Any:
    def cumulative(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
        x = convert(x)
        if axis is None and x.ndim != 1:
            raise ValueError("cumulative functions need an axis for a tensor that is not 1-d")
        place = 0 if axis is None else axis % x.ndim
        out = rule(x, place, dtype)
        if not include_initial:
            return out
        from gradtape.ops.shape import concat

        first = out[(*(slice(None),) * place, slice(0, 1))]
        start = rule(create.zeros_like(first) if rule.__name__ == "cumsum" else create.ones_like(first), place)
        return concat([start, out], place)

    return cumulative


def _isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Any:
    found = create.constant(np.isin(convert(x1).numpy(), convert(x2).numpy()))
    return c.logical_not(found) if invert else found
