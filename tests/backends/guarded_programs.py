"""The programs that run between inaccessible pages, by name: each is a function of `make(block, name)`, which compiles a block.

Functions made with `gt.function` are compiled the same way, since `guarded.py` replaces what compiles them.
"""

from __future__ import annotations

import contextlib
import ctypes
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.ir.dims import symbol
from gradtape.ops.elementwise import SIN
from gradtape.ops.reduce import REDUCE_SUM
from tests.backends import edge_functions, edge_ops, edge_programs
from tests.backends.build import program, tensor
from tests.backends.native_calls import block_of
from tests.backends.random_arrays import random_program
from tests.zoo.checks import gradients, run
from tests.zoo.test_zoo import ENTRIES

SIZES = (0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 33, 64, 97, 257)
PROGRAMS: dict[str, Callable[[Any], None]] = {}
SIZED: set[str] = set()  # those that are compiled once for all sizes


def numbers(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    draw = np.random.default_rng(seed + 7 * len(shape) + sum(shape))
    if np.dtype(dtype).kind == "f":
        return draw.normal(size=shape).astype(dtype)
    if np.dtype(dtype).kind == "c":
        return (draw.normal(size=shape) + 1j * draw.normal(size=shape)).astype(dtype)
    return draw.integers(0, 2 if dtype == "bool" else 100, size=shape).astype(dtype)


def sized(*specs: tuple[Any, ...], sizes: Any = SIZES, gradient: bool = False) -> Any:
    """Register a function of arrays whose sizes are known at run time only; in the specs, None is the size."""

    def register(function: Any) -> Any:
        def check(make: Any) -> None:
            f = gt.function(function, input_signature=[gt.TensorSpec(list(s[:-1]), s[-1]) for s in specs])
            for n in sizes:
                arrays = [numbers(*[n if m is None else m for m in s[:-1]], dtype=s[-1]) for s in specs]
                tensors = [gt.constant(a) for a in arrays]
                f(*tensors)
                if gradient:
                    with gt.GradientTape() as tape:
                        tape.watch(tensors)
                        y = gt.reduce_sum(f(*tensors))
                    tape.gradient(y, tensors)

        PROGRAMS[function.__name__] = check
        SIZED.add(function.__name__)
        return function

    return register


def fixed(*cases: tuple[Any, ...]) -> Any:
    """Register a function that is compiled for the shapes of each case; a shape may end with a dtype."""

    def register(function: Any) -> Any:
        def check(make: Any) -> None:
            for shapes in cases:
                tensors = []
                for k, shape in enumerate(shapes):
                    dtype = shape[-1] if shape and isinstance(shape[-1], str) else "float32"
                    tensors.append(gt.constant(numbers(*[n for n in shape if not isinstance(n, str)], dtype=dtype, seed=k)))
                f = gt.function(function)
                watched = [t for t in tensors if t.dtype.is_floating]
                with gt.GradientTape() as tape:
                    tape.watch(watched)
                    found = gt.nest.flatten(f(*tensors))
                    y = sum(gt.reduce_sum(gt.cast(part, "float64")) for part in found)
                tape.gradient(y, watched)

        PROGRAMS[function.__name__] = check
        return function

    return register


# -- one program for all sizes ----------------------------------------------------------------------------------------------


@sized((None, "float32"), (None, "float32"))
def elementwise(x, y):
    return gt.exp(-x * y) + gt.sin(x), x > y, gt.where(x > 0.0, y, x * 2.0)


@sized((None, "float64"))
def functions(x):
    return gt.tanh(x) * gt.sigmoid(x), gt.math.log(gt.abs(x) + 1.0), gt.floor(x), gt.cast(x, "int32")


@sized((None, "int8"), (None, "uint8"), (None, "bool"))
def small_integers(x, y, flags):
    return x + x, gt.cast(y, "int32") - 1, gt.logical_not(flags), gt.reduce_any(flags), gt.where(flags, x, -x)


@sized((None, "float16"), sizes=(0, 1, 7, 17, 33))
def half_precision(x):
    return x * 2.0 + 1.0, gt.reduce_sum(x), gt.cast(x, "float32")


@sized((None, "complex64"), sizes=(0, 1, 3, 17, 33))
def complex_numbers(z):
    return z * z, gt.math.real(z), gt.abs(z)


@sized((None, 3, "float32"), gradient=True)
def rows(x):
    return gt.nn.softmax(x) + gt.reduce_mean(x, 1, keepdims=True)


@sized((3, None, "float32"), sizes=SIZES[1:], gradient=True)
def columns(x):
    return gt.reduce_max(x, 1) + gt.reduce_sum(gt.exp(x), 1), gt.cumsum(x, 1)[:, -1]


@sized((None, "float32"))
def folds(x):
    return gt.reduce_sum(x), gt.reduce_prod(x), gt.reduce_all(x > 0.0), gt.norm(x), gt.cumsum(x)


@sized((None, 5, "float32"))
def shapes(x):
    turned = gt.transpose(x)
    return turned[::-1], gt.concat([x, -x], 1), gt.pad(x, [[1, 0], [0, 2]]), x[1:, ::2], gt.reshape(x, [5, -1]), x[:, None, 1:4]


@sized((None, "float32"), sizes=SIZES[1:])
def slices_in_loops(x):
    n = gt.shape(x)[0]
    total = gt.zeros([])
    for i in gt.range(n):
        total = total + gt.reduce_sum(x[: i + 1]) * x[i] - gt.reduce_sum(x[i:])
    return total


@sized((None, "float32"), (None, "int32"), sizes=SIZES[1:])
def gathers(x, k):
    k = k % gt.shape(x)[0]
    return gt.gather(x, k), x[-k], gt.reduce_sum(gt.gather(x, k[::-1]))


@sized((None, "float32"), sizes=SIZES[1:])
def updates(x):
    y = gt.identity(x)
    for i in gt.range(gt.shape(x)[0]):
        y[i] = y[i] * 2.0 + y[-1]
    return y


@sized((None, 4, "float32"), (4, None, "float32"), gradient=True)
def outer_products(x, y):
    return gt.reduce_sum(gt.matmul(x, y))


@sized((None, None, "float32"), (None, None, "float32"), sizes=(0, 1, 2, 3, 5, 7, 9, 17, 31, 33, 65), gradient=True)
def square_products(x, y):
    return gt.matmul(x, y) + gt.matmul(x, y, transpose_a=True)


@sized((None, "float64"), sizes=(1, 2, 3, 7, 17, 33), gradient=True)
def lists(x):
    values = []
    for i in gt.range(gt.shape(x)[0]):
        values.append(gt.sin(x[i]) * x[: 1 + i % 2][0])
    return gt.stack(values)


@sized((None, "float32"), sizes=(1, 3, 17))
def lists_of_other_sizes(x):
    parts = []
    for i in gt.range(gt.shape(x)[0]):
        parts.append(x[: i + 1] * 2.0)
    return gt.concat(parts, 0)


# -- compiled for each size -------------------------------------------------------------------------------------------------


@fixed(((12, "float64"), (3, "float64")))
def items_beside_whole_lists(x, h):
    found = [h]
    for t in range(12):
        h = gt.sin(h) * x[t]
        found.append(h)
    return gt.stack(found), gt.concat(found, 0), found[5]


@fixed(((7, 5), (5, 3)), ((0, 5), (5, 3)), ((17, 33), (33, 19)), ((3, 0), (0, 2)))
def products(x, y):
    return gt.nn.relu(gt.matmul(x, y))


@fixed(((3, 7, 5), (3, 5, 2)), ((1, 1, 1), (1, 1, 1)), ((2, 9, 17), (2, 17, 9)))
def batches_of_products(x, y):
    return gt.matmul(x, y), gt.einsum("bij,bjk->bk", x, y)


@fixed(((1, 7, 5, 3), (3, 3, 3, 2)), ((1, 9, 8, 2), (3, 2, 2, 5)))
def convolutions(x, w):
    y = gt.nn.conv2d(x, w, strides=1, padding="SAME")
    return y, gt.nn.conv2d(x, w, strides=2, padding="VALID"), gt.nn.max_pool2d(y, 2, 2, "SAME")


@fixed(((1, 7, 5, 3), (3, 3, 3, 1)), ((2, 9, 8, 17), (3, 2, 17, 1)), ((1, 6, 4, 5), (2, 2, 5, 2)), ((1, 1, 1, 9), (3, 3, 9, 1)))
def convolutions_by_channels(x, w):
    with gt.GradientTape() as tape:
        tape.watch([x, w])
        y = gt.nn.depthwise_conv2d(x, w, [1, 1, 1, 1], "SAME")
        z = gt.nn.depthwise_conv2d(x, w, [1, 2, 2, 1], "SAME")
    return y, z, tape.gradient([y, z * z], [x, w])


@fixed(((65,),), ((5, 63),), ((1,),), ((0,),), ((2, 3, 70),))
def masks(x):
    return x[x > 0.5], x[(x < 0.2) & (x > 0.1)]


@fixed(((5, 7), (5, "int32")), ((1, 1), (1, "int32")), ((17, 3), (17, "int32")))
def scatters(x, k):
    k = k % 5
    return gt.math.unsorted_segment_sum(x, k, 5), gt.tensor_scatter_nd_add(gt.zeros((5, x.shape[1])), k[:, None], x)


@fixed(((13, 17),), ((3, 5),))
def stencils(x):
    x = gt.identity(x)
    for _ in gt.range(3):
        x[1:-1, 1:-1] = 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])
    for i in gt.range(1, x.shape[0] - 1):
        x[i] = x[i - 1] * 0.5 + x[i + 1][::-1]
    return x


@fixed(((11,),), ((1,),))
def loops_with_residuals(x):
    turns = gt.constant(0)
    while gt.reduce_sum(gt.abs(x)) > 0.5:
        if turns % 2 == 0:
            x = x * 0.7
        else:
            x = gt.sin(x)
            x = x * 0.9
        turns = turns + 1
    return x, turns


@fixed(((5, 3), (3, 12), (3, 12), (12,)))
def recurrent(xs, w, u, b):
    h, c = gt.zeros([1, 3]), gt.zeros([1, 3])
    for x in xs:
        i, f, g, o = gt.split(gt.matmul(x[None], w) + gt.matmul(h, u) + b, 4, 1)
        c = gt.sigmoid(f) * c + gt.sigmoid(i) * gt.tanh(g)
        h = gt.sigmoid(o) * gt.tanh(c)
    return h


@fixed(((7, 3), (7, 3)), ((33, 17), (33, 17)))
def reductions_of_all_kinds(x, y):
    return (
        gt.reduce_logsumexp(x, 1), gt.argmax(x, 0), gt.math.cumprod(x, 1), gt.reduce_min(x - y, (0, 1)),
        gt.nn.softmax(x, 0), gt.reduce_std(x), gt.reduce_sum(x[::-1] * y, 0), gt.sort(y, 1),
    )  # fmt: skip


@sized((None, "float64"), sizes=(1, 2, 3, 8, 17, 33), gradient=True)
def solver(x):
    y = gt.identity(x)
    for i in gt.range(1, gt.shape(x)[0]):
        y[i] = x[i] - gt.tanh(gt.reduce_sum(y[:i] * x[:i][::-1]))
        y[:i] = y[:i] + y[i] * y[:i][::-1] * 0.1
    return y * y


@fixed(((5, 3), (4, 3)), ((1, 1), (4, 1)), ((33, 2), (4, 2)))
def scattered_rows(x, values):
    last = x.shape[0] - 1
    places = gt.constant([[0], [last], [0], [last // 2]])
    replaced = gt.tensor_scatter_nd_update(x, places, gt.sin(values))
    return replaced, gt.tensor_scatter_nd_max(x, places, values), gt.tensor_scatter_nd_min(x, places, values)


@fixed(((2, 3, 5),), ((1, 1, 1),), ((4, 1),), ((7, 7),))
def diagonals(x):
    rows, columns = x.shape[-2:]
    band = gt.linalg.diag_part(x, k=(1 - rows, columns - 1))
    return gt.linalg.diag_part(x), band, gt.linalg.diag(band, k=(1 - rows, columns - 1), num_rows=rows, num_cols=columns)


def _random(seed: int) -> Callable[[Any], None]:
    def check(make: Any) -> None:
        block, arrays = random_program(seed)
        with np.errstate(all="ignore"):
            program = make(block, f"random {seed}")
            program(*arrays)

    return check


def _zoo(name: str) -> Callable[[Any], None]:
    def check(make: Any) -> None:
        entry = ENTRIES[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if entry.order:
                gradients(entry, entry.inputs[0], gt.function, order=1)
            else:
                run(entry, gt.function)

    return check


def _edges(name: str) -> Callable[[Any], None]:
    """Places around every edge: what the reference refuses is refused, and nothing else is touched."""

    def check(make: Any) -> None:
        call = edge_programs.compiled(name)
        for values in edge_programs.cases(name, seed=2, draws=2 if name in edge_functions.NAMES else 6):
            edge_programs.outcome(call, values)

    return check


def _op(name: str) -> Callable[[Any], None]:
    """One native op by itself, with integers around every edge."""

    def check(make: Any) -> None:
        for call in edge_ops.calls()[name]:
            if not edge_ops.alone(call):
                continue
            made = make(block_of([call]), name)
            for arrays in edge_ops.with_edges(call, seed=2):
                with contextlib.suppress(*REFUSALS):  # which `made` has found to be the reference's
                    made(*arrays)

    return check


REFUSALS = (ValueError, IndexError, TypeError)


def _beyond(before: bool) -> Callable[[Any], None]:
    """Native code that reads one element more than an array has: the process must end here."""

    def check(make: Any) -> None:
        block = program([tensor(symbol("n"))], lambda b, x: b(REDUCE_SUM, x, axis=(0,), keepdims=False))
        made = make(block, "beyond")
        made.guard.pages.before = before
        address = made.guard.pages.take(72) - (0 if before else 8)
        made.natively._entry(np.frombuffer((ctypes.c_char * 80).from_address(address)))

    return check


def _beside(before: bool) -> Callable[[Any], None]:
    """Somebody writes next to an array, on its page: the pattern there must not be as it was."""

    def check(make: Any) -> None:
        made = make(program([tensor(5)], lambda b, x: b(SIN, x)), "beside")
        pages = made.guard.pages
        pages.before = before
        address = pages.take(40)
        ctypes.memset(address - 1 if before else address + 40, 0, 1)
        pages.give(address)
        made(np.ones(5))

    return check


RANDOM = range(101, 109)
IN_ZOO = sorted(name for name in ENTRIES if zlib.crc32(name.encode()) % 64 == 5)
PROGRAMS |= {f"random_{seed}": _random(seed) for seed in RANDOM}
PROGRAMS |= {f"zoo_{name}": _zoo(name) for name in IN_ZOO}
PROGRAMS |= {f"edges_{name}": _edges(name) for name in edge_programs.PROGRAMS}
PROGRAMS |= {f"op_{name}": _op(name) for name in edge_ops.calls()}
WRONG = {
    "beyond_the_end": _beyond(True), "before_the_start": _beyond(False),
    "beside_the_start": _beside(True), "beside_the_end": _beside(False),
}  # fmt: skip
