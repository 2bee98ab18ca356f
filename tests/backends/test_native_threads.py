"""Threads: results do not depend on how many there are, and nothing goes wrong around forks, nesting and other threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradtape import config
from gradtape.backends.llvm import compile_block as native
from gradtape.backends.llvm.kernels import kernel_code
from gradtape.backends.llvm.planning import grouping
from gradtape.backends.llvm.runtime import threads
from gradtape.backends.llvm.writing.outline import type_of
from gradtape.backends.numpy import compile_block as reference
from gradtape.ir.dims import symbol
from gradtape.ops.activations import SOFTMAX
from gradtape.ops.conv import CONV, CONV_FILTER
from gradtape.ops.elementwise import ADD, EXP, MULTIPLY, SIN
from gradtape.ops.matmul import MATMUL
from gradtape.ops.normalization import NORMALIZE
from gradtape.ops.reduce import REDUCE_MAX, REDUCE_MEAN, REDUCE_SUM
from gradtape.ops.select import FLOORDIV
from gradtape.ops.shape import TRANSPOSE
from gradtape.passes import bufferize as bufferizing
from gradtape.passes.bufferize import bufferize
from gradtape.passes.pipeline import optimize
from tests.backends.build import program, tensor
from tests.backends.random_arrays import random_program
from tests.harness.process import PATIENCE

RNG = np.random.default_rng(3)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    config.set_threads(None)


def draw(*shape: int, dtype: str = "float32") -> Any:
    return RNG.normal(size=shape).astype(dtype)


def in_chunks(made: Any) -> bool:
    return any("threads" in note.detail for note in made.notes)


def several(block: Any, *arrays: Any) -> tuple[Any, list[Any]]:
    """What a program gives with 1, 2, 3 and 8 threads, some more often."""
    made, found = native(block), []
    for number in (1, 2, 3, 8, 2, 2, 2):
        config.set_threads(number)
        found.append(made(*arrays))
    return made, found


PROGRAMS = {
    "elementwise": (lambda b, x, y: b(EXP, b(MULTIPLY, x, b(SIN, y))), [(100_003,), (100_003,)]),
    "total": (lambda b, x: b(REDUCE_SUM, b(EXP, x), axis=(0,), keepdims=False), [(300_007,)]),
    "mean of a matrix": (lambda b, x: b(REDUCE_MEAN, x, axis=(0, 1), keepdims=True), [(1009, 503)]),
    "maximum": (lambda b, x: b(REDUCE_MAX, x, axis=(0,), keepdims=False), [(500_009,)]),
    "rows": (lambda b, x: b(REDUCE_SUM, b(EXP, x), axis=(1,), keepdims=False), [(1009, 211)]),
    "columns": (lambda b, x: b(REDUCE_SUM, b(EXP, x), axis=(0,), keepdims=False), [(2003, 101)]),
    "columns, mean": (lambda b, x: b(REDUCE_MEAN, b(EXP, x), axis=(0,), keepdims=True), [(2003, 101)]),
    "middle": (lambda b, x: b(REDUCE_SUM, b(EXP, x), axis=(1,), keepdims=False), [(101, 67, 41)]),
    "outer and inner": (lambda b, x: b(REDUCE_SUM, b(EXP, x), axis=(0, 2), keepdims=False), [(101, 67, 41)]),
    "softmax": (lambda b, x: b(SOFTMAX, x, axis=1), [(701, 257)]),
    "softmax of columns": (lambda b, x: b(SOFTMAX, x, axis=0), [(701, 257)]),
    "normalize": (lambda b, x: b(NORMALIZE, x, axis=(1, 2), epsilon=1e-3), [(101, 31, 43)]),
    "transposed": (lambda b, x, y: b(ADD, b(EXP, x), b(TRANSPOSE, y, perm=(1, 0))), [(401, 307), (307, 401)]),
    "product": (lambda b, x, y: b(MATMUL, x, y), [(131, 257), (257, 263)]),
    "large product": (lambda b, x, y: b(MATMUL, b(TRANSPOSE, x, perm=(1, 0)), y), [(257, 331), (257, 401)]),
    "tall product": (lambda b, x, y: b(MATMUL, x, y), [(5003, 31), (31, 17)]),
    "batch of products": (lambda b, x, y: b(MATMUL, x, y), [(37, 31, 43), (37, 43, 41)]),
    "matrix times vector": (lambda b, x, y: b(MATMUL, x, y), [(2003, 1009), (1009, 1)]),
    "several": (
        lambda b, x: [b(REDUCE_SUM, x, axis=(0, 1), keepdims=False), b(REDUCE_MAX, x, axis=(0,), keepdims=False), b(EXP, x)],
        [(1009, 307)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_do_not_depend_on_the_number_of_threads(name: str) -> None:
    make, shapes = PROGRAMS[name]
    block = program([tensor(*shape, dtype="float32") for shape in shapes], make)
    arrays = [draw(*shape) for shape in shapes]
    made, found = several(block, *arrays)
    if "product" not in name and "times" not in name:
        assert in_chunks(made)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(found[0], reference(block)(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5 * float(np.max(np.abs(b))))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_in_tiny_chunks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (kernel_code, "WORTH", 600), (kernel_code, "CHUNK", 200), (kernel_code, "BLOCK", 32), (kernel_code, "SHORT", 4),
        (kernel_code, "TILE", 4),
        (grouping, "ROW", 2), (grouping, "LARGE", 40), (bufferizing, "LARGE", 64),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)
    config.set_threads(2)
    block, arrays = random_program(seed)
    block = bufferize(optimize(block)) if seed % 2 else block
    made = native(block)
    with np.errstate(all="ignore"):
        want = reference(block)(*[np.array(a) if np.ndim(a) else a for a in arrays])
    for found in (made(*arrays), made(*arrays)):
        for a, b in zip(found, want, strict=True):
            limit = 1e-9 if np.asarray(b).dtype == np.float64 else 2e-3
            scale = float(np.max(np.abs(np.where(np.isfinite(b), b, 0)), initial=1.0))
            np.testing.assert_allclose(a, b, rtol=limit, atol=limit * scale)


def test_arrays_that_are_read_transposed() -> None:
    for shapes, perm in (
        ([(130, 75), (75, 130)], (1, 0)),
        ([(3, 70, 90), (90, 3, 70)], (1, 2, 0)),
        ([(70, 3, 90), (90, 70, 3)], (1, 2, 0)),
    ):
        block = program(
            [tensor(*shape, dtype="float32") for shape in shapes],
            lambda b, x, y, perm=perm: b(ADD, b(EXP, x), b(TRANSPOSE, y, perm=perm)),
        )
        arrays = [draw(*shape) for shape in shapes]
        want = reference(block)(*arrays)[0]
        np.testing.assert_allclose(native(block)(*arrays)[0], want, rtol=1e-6, atol=1e-7 * float(np.max(np.abs(want))))


@pytest.mark.parametrize("rows", [0, 1, 3, 1000, 5003])
def test_sizes_known_only_at_run_time(rows: int) -> None:
    def make(b: Any, x: Any) -> Any:
        return [
            b(REDUCE_SUM, b(EXP, x), axis=(0, 1), keepdims=False),
            b(SOFTMAX, x, axis=1),
            b(REDUCE_MAX, x, axis=(1,), keepdims=False),
        ]

    block = program([tensor(symbol("n"), 67, dtype="float32")], make)
    x = draw(rows, 67)
    made, found = several(block, x)
    assert in_chunks(made)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(found[0], reference(block)(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


@pytest.mark.parametrize("rows", [0, 1, 3, 40])
def test_products_in_batches_of_unknown_size(rows: int) -> None:
    """Threads share the windows of a convolution and the products of a stack; where there are few, one does it all."""
    options = {"strides": (1, 1), "padding": ((0, 0), (0, 0)), "dilations": (1, 1), "groups": 1}

    def make(b: Any, x: Any, w: Any, y: Any) -> Any:
        return [
            b(CONV, x, w, **options),
            b(CONV_FILTER, x, b(CONV, x, w, **options), kernel=(3, 3), **options),
            b(MATMUL, y, y),
        ]

    n = symbol("n")
    types = [tensor(n, 12, 12, 8, dtype="float32"), tensor(3, 3, 8, 16, dtype="float32"), tensor(n, 4, 24, 24, dtype="float32")]
    block = program(types, make)
    arrays = [draw(rows, 12, 12, 8), draw(3, 3, 8, 16), draw(rows, 4, 24, 24)]
    made, found = several(block, *arrays)
    assert str(made.source).count("gt_parallel(ptr @kernel") >= 3
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(found[0], reference(block)(*arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-2)


def test_small_kernels_are_not_cut() -> None:
    block = program([tensor(1000, dtype="float32")], lambda b, x: b(REDUCE_SUM, b(EXP, x), axis=(0,), keepdims=False))
    assert not in_chunks(native(block))


def test_long_sums_keep_their_digits() -> None:
    x = np.full(4_000_037, 0.1, "float32")
    block = program([tensor(len(x), dtype="float32")], lambda b, x: b(REDUCE_SUM, x, axis=(0,), keepdims=False))
    exact = float(np.sum(x.astype("float64")))
    assert abs(float(native(block)(x)[0]) - exact) < 1e-5 * exact


def test_a_kernel_that_may_fail_is_not_cut_and_fails_as_the_reference() -> None:
    block = program([tensor(200_000, dtype="int64"), tensor(200_000, dtype="int64")], lambda b, x, y: b(FLOORDIV, x, y))
    made = native(block)
    x, y = RNG.integers(-9, 9, 200_000), RNG.integers(1, 9, 200_000)
    config.set_threads(2)
    np.testing.assert_array_equal(made(x, y)[0], x // y)
    y[177_777] = 0
    with pytest.raises(Exception, match=r"(?i)zero"):
        made(x, y)


def test_kernels_in_loops() -> None:
    def make(b: Any, x: Any, w: Any) -> Any:
        def body(c: Any, i: Any, x: Any, w: Any) -> Any:
            return [c(SIN, c(ADD, c(MATMUL, x, w), x))], []

        return b.scan(4, [x], body, [w])[0]

    block = program([tensor(301, 211, dtype="float32"), tensor(211, 211, dtype="float32")], make)
    _, found = several(block, draw(301, 211), draw(211, 211) / 20)
    for other in found[1:]:
        np.testing.assert_array_equal(found[0][0], other[0])


def test_calls_from_several_python_threads_at_once() -> None:
    block = program(
        [tensor(200_003, dtype="float32")], lambda b, x: b(REDUCE_SUM, b(EXP, b(SIN, x)), axis=(0,), keepdims=False)
    )
    made, x = native(block), draw(200_003)
    config.set_threads(2)
    want, wrong = made(x)[0], []

    def run() -> None:
        for _ in range(20):
            if made(x)[0] != want:
                wrong.append(1)

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_the_number_of_threads_is_set_and_read() -> None:
    native(program([tensor(200_003)], lambda b, x: b(EXP, x)))
    config.set_threads(2)
    assert threads.pool().number == 2 == config.threads()
    config.set_threads(1)
    assert threads.pool().number == 1
    config.set_threads(10_000)
    assert threads.pool().number == threads.MOST
    with pytest.raises(ValueError, match="at least one"):
        config.set_threads(0)


SCRIPT = """
import os, sys
import numpy as np
from gradtape import config
from gradtape.backends.llvm import compile_block as native
from gradtape.backends.llvm.runtime import threads
from gradtape.ops.elementwise import EXP
from tests.backends.build import program, tensor

block = program([tensor(200_003)], lambda b, x: b(EXP, x))
made, x = native(block), np.linspace(-1, 1, 200_003)
print(threads.pool().number)
before = made(x)[0]
child = os.fork()
if child == 0:
    good = np.array_equal(made(x)[0], before) and threads.pool().number == 1
    config.set_threads(2)  # no workers after a fork: still one thread, still right
    os._exit(0 if good and np.array_equal(made(x)[0], before) else 1)
_, status = os.waitpid(child, 0)
assert status == 0 and np.array_equal(made(x)[0], before)
"""


def test_a_child_of_a_fork_works_alone_and_the_process_ends_cleanly() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "2,1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["2"]


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("load float, ptr %v1", "float"), ("getelementptr inbounds i8, ptr %f, i64 64", "ptr"), ("add nsw i64 %a, 1", "i64"),
        ("fmul contract double %a, %b", "double"), ("icmp slt i64 %a, %b", "i1"), ("fcmp oeq float %a, %b", "i1"),
        ("select i1 %c, i64 %a, i64 %b", "i64"), ("sitofp i64 %a to float", "float"), ("call i64 @f(i64 %a, i64 %b)", "i64"),
        ("call reassoc <8 x float> @f(<8 x float> %a)", "<8 x float>"), ("phi ptr [ %a, %b ], [ %c, %d ]", "ptr"),
        ("alloca float, i64 3, align 8", "ptr"), ("fneg float %a", "float"), ("trunc i64 %i to i32", "i32"),
    ],
)  # fmt: skip
def test_types_of_captured_operands(text: str, type: str) -> None:
    assert type_of(text) == type
