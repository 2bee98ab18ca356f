"""Matrix products by sizes, layouts and flags, called as native code calls them, against NumPy."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradtape.backends.llvm.products import gemm
from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.writing.ir_text import ModuleText, Writer
from tests.harness.process import PATIENCE

RNG = np.random.default_rng(3)
NUMBER, ADDRESS = ctypes.c_int64, ctypes.c_void_p
TOLERANCE = {"float32": 3e-5, "float64": 1e-12}


@pytest.fixture(scope="module", params=["float32", "float64"])
def product(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A product of two arrays with any steps, into an array or added to it."""
    dtype = request.param
    kind = {"float32": "float", "float64": "double"}[dtype]
    module = ModuleText()
    names = ["m", "n", "k", "a", "ra", "ca", "b", "rb", "cb", "c", "rc"]
    params = ", ".join(f"{'ptr' if name in 'abc' else 'i64'} %{name}" for name in names)
    w = Writer(module, "gt_test_product", f"{params}, i1 %add", "void")
    a, b, c = ("%a", "%ra", "%ca"), ("%b", "%rb", "%cb"), ("%c", "%rc")
    w.do(gemm.call(module, kind, ("%m", "%n", "%k"), a, b, c, "%add"))
    w.do("ret void")
    w.finish()
    library = machine.Library(str(module))
    kinds = [ADDRESS if name in "abc" else NUMBER for name in names]
    function = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_bool)(library.address("gt_test_product"))

    def run(x: Any, y: Any, out: Any, add: bool) -> None:
        steps = [size // x.itemsize for size in (*x.strides, *y.strides, out.strides[0])]
        sizes = (*x.shape, y.shape[1])
        where = [array.ctypes.data for array in (x, y, out)]
        m, k, n = sizes
        function(m, n, k, where[0], *steps[:2], where[1], *steps[2:4], where[2], steps[4], add)

    run.dtype, run.library = dtype, library  # type: ignore[attr-defined]
    return run


def laid_out(rows: int, columns: int, layout: str, dtype: str) -> Any:
    """A matrix that lies densely in rows, or in columns, or with gaps both ways."""
    if layout == "gaps":
        return RNG.normal(size=(rows, 3, columns, 2)).astype(dtype)[:, 1, :, 1]
    return RNG.normal(size=(rows, columns)).astype(dtype) if layout == "rows" else laid_out(columns, rows, "rows", dtype).T


SIZES = [
    (1, 1, 1), (1, 70, 33), (3, 70, 33), (33, 70, 1), (2, 5, 2), (6, 16, 8), (12, 300, 16), (13, 257, 17), (125, 20, 40),
    (20, 9, 700), (0, 3, 4), (3, 4, 0), (130, 129, 128), (13, 1000, 170), (600, 7, 600), (2000, 40, 30),
    (410, 405, 408),
]  # fmt: skip


@pytest.mark.parametrize("layouts", ["rows rows", "columns rows", "rows columns", "gaps gaps", "columns gaps"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_sizes_and_layouts(product: Any, sizes: tuple[int, int, int], layouts: str) -> None:
    m, k, n = sizes
    left, right = layouts.split()
    x, y = laid_out(m, k, left, product.dtype), laid_out(k, n, right, product.dtype)
    for add in (False, True):
        around = RNG.normal(size=(m + 2, n + 3)).astype(product.dtype)
        before, out = around.copy(), around[1 : m + 1, 1 : n + 1]
        want = x @ y + (out if add else 0)
        product(x, y, out, add)
        np.testing.assert_allclose(out, want, rtol=0, atol=TOLERANCE[product.dtype] * (1 + k) ** 0.5 * 10)
        before[1 : m + 1, 1 : n + 1] = out
        np.testing.assert_array_equal(around, before)  # nothing beside the result is written
        again = around.copy()
        again[1 : m + 1, 1 : n + 1] = before[1 : m + 1, 1 : n + 1] * 0
        product(x, y, again[1 : m + 1, 1 : n + 1], False)
        if not add:
            np.testing.assert_array_equal(again, around)  # to the last bit, every time


def test_large_products_are_blas_whether_sizes_are_known_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known now, they need no tiles: none are compiled. How large that is depends on the machine's vectors."""
    for vector, least in ((16, 128), (32, 128), (64, 407)):
        monkeypatch.setattr(gemm.machine, "vector_bytes", lambda vector=vector: vector)
        assert [gemm.for_blas(n, n, n) for n in (least - 1, least)] == [False, True]
    monkeypatch.undo()
    module = ModuleText()
    a, b = ("%a", 410, 1), ("%b", 1, 410)
    known = gemm.call(module, "double", (410, 410, 410), a, b, ("%c", 410), "false")
    assert "@gt_blas_double(i1 false, i1 true, i64 410" in known
    assert "@gt_mm_double" in gemm.call(module, "double", (410, 410, 410), ("%a", 820, 2), b, ("%c", 410), "false")
    assert "@gt_mm_double" in gemm.call(module, "double", ("%m", 410, 410), a, b, ("%c", 410), "false")
    assert "@gt_mm_double" in gemm.call(module, "double", (12, 2000, 2000), a, b, ("%c", 410), "false")


FORTRAN = """
import numpy as np
import gradtape as gt
from gradtape.backends.llvm.products import blas

blas._numpy = lambda: None  # as where NumPy has no OpenBLAS of its own
assert blas.source().fortran
for dtype in ("float32", "float64"):
    a, b = np.random.default_rng(0).normal(size=(2, 410, 410)).astype(dtype)
    product = gt.function(lambda x, y: (x @ y, gt.transpose(x) @ y, x @ gt.transpose(y)))
    for found, want in zip(product(gt.constant(a), gt.constant(b)), (a @ b, a.T @ b, a @ b.T), strict=True):
        np.testing.assert_allclose(found.numpy(), want, rtol=0, atol=1e-4 if dtype == "float32" else 1e-12)
"""


def test_scipys_blas_serves_too() -> None:
    done = subprocess.run([sys.executable, "-c", FORTRAN], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
