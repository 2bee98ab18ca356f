"""Ops that programs need and eager code does without: constants, placeholders, sizes of axes, effects, masked products, checks
of Python's integers.

Effects (`print`, `assert`, `draw_key`, `py_call`) have `effect=True`: they keep their order and are never removed, merged
or run twice. Ops without operands cannot find a trace through them, so they ask `TRACING`.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from dataclasses import replace
from math import isfinite
from typing import IO, Any, Unpack

import numpy as np

from gradtape.core import batching
from gradtape.core.dispatch import apply, convert
from gradtape.core.forms import binary
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Cost, Facts, Fails, Memory, Op, Rule, Sample, elementwise, linear, nondiff
from gradtape.core.record import LOCAL, TRACING
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.core.typing import Array, Integer, Number, Size, Value
from gradtape.dtypes import DTypeLike, as_dtype, int32, int64, numpy_dtype, uint64
from gradtape.errors import InvalidArgumentError, NumberDoesNotFitError, OpError
from gradtape.ir.graph import Operation
from gradtape.ir.polynomial import Dim
from gradtape.ir.slots import Field, Slot
from gradtape.ir.types import ListSpec, Spec, TensorSpec
from gradtape.ops.list_values import TensorList, item_spec
from gradtape.ops.sampling import normal


def nullary(op: Op, **attrs: Any) -> Tensor:
    """Run an op that has no operands: as part of the program that is being traced, or at once."""
    trace = TRACING.get()
    return apply(op, **attrs) if trace is None else trace.emit(op, (), attrs)


def _of_programs(name: str, args: str, impl: Rule, infer: Rule, reason: str, outputs: int = 1, **facts: Unpack[Facts]) -> Op:
    return Op(name, "nondiff", tuple(args.split()), impl, infer, batch=batching.looped, outputs=outputs, reason=reason, **facts)


def _effect(name: str, args: str, impl: Rule, infer: Rule, reason: str, outputs: int = 0, **facts: Unpack[Facts]) -> Op:
    return replace(_of_programs(name, args, impl, infer, reason, outputs, **facts), effect=True)


# -- values without operands -------------------------------------------------------------------------------------------


def _filled_impl(*, shape: tuple[int, ...], dtype: DTypeLike, value: Number) -> Array:
    kind = numpy_dtype(dtype)
    out = np.full(shape, value, kind) if value or kind.kind == "O" else np.zeros(shape, kind)
    return out if out.ndim or kind.kind == "O" else out[()]


# `own`: of several ranks that run the program, each may have a value of its own; False: it is the same on all of them
CONSTANT = _of_programs(
    "constant", "", lambda *, value, own=False: value, lambda *, value, own=False: item_spec(value),
    "constants have no derivative", cost=Cost.FREE, memory=Memory.SHARED,
)  # fmt: skip


def own_value(tensor: Tensor) -> dict[str, bool]:
    """What the constant that a concrete tensor becomes has besides its value."""
    node, kind_of = tensor._node, HOOKS.kind_of
    return {} if node is None or kind_of is None else {"own": kind_of(node) is LOCAL}


def _void_impl(*, type: Spec) -> Value:
    return TensorList((), type.item) if isinstance(type, ListSpec) else np.empty((0,) * type.ndim, type.dtype.dtype)


# stands where a value of some type is required and never read: as small as a value of that rank can be
VOID = _of_programs("void", "", _void_impl, lambda *, type: type, "it has no value", memory=Memory.SHARED)
DIM = _of_programs(
    "dim", "", lambda *, dim: np.int32(dim), lambda *, dim: TensorSpec((), int32), "the result depends on the shapes only",
    cost=Cost.FREE,
)  # fmt: skip
DIMS = _of_programs(
    "dims", "", lambda *, dims, dtype: np.array(dims, numpy_dtype(dtype)),
    lambda *, dims, dtype: TensorSpec((len(dims),), dtype),
    "the result depends on the shapes only",
    cost=Cost.FREE,
)  # fmt: skip
FILLED = _of_programs(
    "filled", "", _filled_impl, lambda *, shape, dtype, value: TensorSpec(shape, dtype), "constants have no derivative",
    cost=Cost.FREE,
)  # fmt: skip

# -- texts -----------------------------------------------------------------------------------------------------------


_CONVERSIONS: dict[str, Callable[[Any], str]] = {"r": repr, "s": str, "a": ascii}


def text_of(part: object, values: tuple[Any, ...]) -> str:
    """A part of a template as Python would show it; a tuple is an f-string, its pieces joined without a separator."""
    if isinstance(part, tuple):
        return "".join([text_of(piece, values) for piece in part])
    if isinstance(part, Slot):
        return str(_shown(values[part.index]))
    if not isinstance(part, Field):
        return str(part)
    value = _shown(values[part.slot.index])
    if part.conversion == "number":
        value = value.tolist()
    elif part.conversion:
        value = _CONVERSIONS[part.conversion](value)
    return format(value, part.spec)


def _shown(value: Value) -> Any:
    """Bare values as the eager values they stand for: tensors, and lists of tensors."""
    return [_shown(v) for v in value] if isinstance(value, TensorList) else box(value)


def _print_impl(*values: Any, template: tuple[Any, ...], sep: str, end: str, file: IO[str] | None) -> tuple[()]:
    text = sep.join([text_of(part, values) for part in template]) + end
    (sys.stdout if file is None else file).write(text)
    return ()


def _assert_impl(cond: Array, *values: Any, template: tuple[Any, ...], exception: type[Exception]) -> tuple[()]:
    if not bool(box(cond)):
        raise exception(*([text_of(template, values)] if template else []))
    return ()


# template: one part per argument of `print`, joined by `sep`; see `text_of`
PRINT = _effect("print", "*values", _print_impl, lambda *values, **attrs: (), "it has no result")
ASSERT = _effect(
    "assert", "cond *values", _assert_impl, lambda cond, *values, **attrs: (), "it has no result", fails=Fails.VALUES
)

# -- other effects -----------------------------------------------------------------------------------------------------


def _py_call_impl(*xs: Any, function: Callable[..., Any], types: tuple[Any, ...]) -> tuple[Any, ...]:
    result = function(*[_shown(x) for x in xs])
    values = tuple(result) if isinstance(result, (list, tuple)) else () if result is None and not types else (result,)
    if len(values) != len(types):
        raise InvalidArgumentError(f"the Python function returned {len(values)} values, {len(types)} were declared")
    return tuple([_declared(convert(v, hint=t.dtype)._data, t) for v, t in zip(values, types, strict=True)])


def _declared(data: Array, spec: TensorSpec) -> Array:
    """A result of a Python function in the dtype that was declared; its shape must fit."""
    if not spec.shape.is_compatible_with(data.shape):
        raise InvalidArgumentError(f"the Python function returned shape {data.shape}, {spec.shape} was declared")
    return data.astype(spec.dtype.dtype, copy=False)[()]


def _drawn(*examples: Any, source: Callable[[int], tuple[int, int]]) -> Any:
    counts = np.shape(examples[0]) if examples else ()
    total = math.prod(counts)
    word, first = source(total)
    keys = np.empty((*counts, 2), np.uint64)
    keys[..., 0] = word
    keys[..., 1] = (np.arange(total, dtype=np.uint64) + np.uint64(first & 0xFFFFFFFFFFFFFFFF)).reshape(counts)
    return keys


# a fresh key; a key of its own for each element of `examples`, whose values do not matter: what depends on the examples of a
# `vectorized_map` has them for an operand. `source(count)` reserves counters of a stream: (stream word, first counter)
DRAW_KEY = replace(
    _effect(
        "draw_key",
        "*examples",
        _drawn,
        lambda *examples, source: TensorSpec((*(examples[0].shape if examples else ()), 2), uint64),
        "random numbers have no derivative",
        outputs=1,
        memory=Memory.SHARED,
    ),
    batch=batching.leading,
)
PY_CALL = _effect(
    "py_call", "*xs", _py_call_impl,
    lambda *xs, function, types: tuple(types),
    "a Python function called when the program runs",
    memory=Memory.SHARED,
    fails=Fails.VALUES,
)  # fmt: skip

# -- on any value ------------------------------------------------------------------------------------------------------


def _copy_impl(x: Array) -> Array:
    if isinstance(x, TensorList):
        return TensorList([_copy_impl(v) for v in x], x.item)
    return np.array(x) if isinstance(x, np.ndarray) else x


COPY = linear(
    "copy", "x", _copy_impl,
    lambda ct: ct,
    infer=lambda x: x if isinstance(x, ListSpec) else TensorSpec(x.shape, x.dtype),
    batch=batching.elementwise,
    memory=Memory.FRESH,
    samples=lambda: [Sample(normal(2, 3)), Sample(normal())],
)  # fmt: skip


def _sized_impl(x: Array, *, shape: tuple[int, ...], caller: str | None, name: str | None = None) -> Array:
    if x.shape != tuple(shape):
        if caller is not None:
            raise InvalidArgumentError(f"{caller}: the value has shape {x.shape}, it must have shape {tuple(shape)}")
        if name is not None:
            raise InvalidArgumentError(
                f"{name} has shape {x.shape} before an iteration and met a value of shape {tuple(shape)} in it. Its size "
                "changes in the loop, so it is not known while the function is traced, counts as equal and is not broadcast: "
                "give it the shape it has after an iteration before the loop, with gt.broadcast_to"
            )
        raise InvalidArgumentError(
            f"a value of shape {x.shape} met one of shape {tuple(shape)}. Sizes that were not known while the function was "
            "traced count as equal, and are not broadcast: say what is meant with gt.broadcast_to or gt.reshape"
        )
    return x


# a value whose sizes, known at run time only, must be these: because it met another value, or because `caller` asks for them
SIZED = linear(
    "sized", "x", _sized_impl,
    lambda ct: ct,
    infer=lambda x, *, shape, caller, name=None: TensorSpec(shape, x.dtype),
    batch=lambda op, flags, inputs, attrs: apply(op, *inputs, **{**attrs, "shape": (inputs[0].shape[0], *attrs["shape"])}),
    call=lambda x, shape, caller=None: apply(SIZED, convert(x), shape=shape, caller=caller),
    memory=Memory.SHARED, fails=Fails.VALUES,
    samples=lambda: [
        Sample(normal(2, 3), (2, 3)),
        Sample(normal(0), (0,)),
        Sample(normal(1), (3,), raises=(ValueError, "not broadcast")),
        Sample(normal(2), (1,), "squeeze", raises=(ValueError, r"squeeze: the value has shape (2,)")),
    ],
)  # fmt: skip
DIM_VALUE = nondiff(
    "dim_value", "x",
    lambda x, *, axis: np.int32(x.shape[axis]),
    infer=lambda x, *, axis: TensorSpec((), int32),
    reason="the result depends on the shape only",
    batch=lambda op, flags, inputs, attrs: broadcast_to(apply(op, *inputs, axis=attrs["axis"] + 1), (inputs[0].shape[0],)),
    samples=lambda: [Sample(normal(2, 3), 1), Sample(normal(0), 0)],
)  # fmt: skip
# an array of `size` entries and (nearly) no bytes: its axis makes a dimension of an integer known at run time only
EXTENT = nondiff(
    "extent", "size",
    lambda size: np.broadcast_to(np.False_, (_checked_size(size),)),
    infer=lambda size: TensorSpec((None,), "bool"),
    reason="the result does not depend on values", batch=batching.looped,
    memory=Memory.SHARED, fails=Fails.VALUES,
    samples=lambda: [Sample(np.array(3)), Sample(np.array(-1), raises=(ValueError, "negative"))],
)  # fmt: skip


_MOST = 1 << 46  # items: no machine has memory for more


def counted(start: Array, limit: Array, delta: Array, *, dtype: DTypeLike, length: Size | None = None) -> Array:
    """start + i·delta for i below ⌈(limit − start) / delta⌉. Floats are counted in the dtype of the result, as TensorFlow does:
    0.3 / 0.1 is 3 in float32 and 2.9999999999999996 in float64, and neither rounding may decide for the other."""
    target = numpy_dtype(dtype)
    convert_bound: Any = int if target.kind in "iu" else lambda v: np.asarray(v).astype(target)[()]
    first, last, step = (convert_bound(v) for v in (start, limit, delta))
    if step == 0:
        raise InvalidArgumentError("range: delta must not be 0")
    if target.kind in "iu":
        count = max(-((first - last) // step), 0)
        if count > _MOST:  # NumPy's own count overflows
            raise InvalidArgumentError(f"range: from {first} to {last} in steps of {step} there are {count} items, too many")
        return np.arange(first, last, step, dtype=target) if count else np.zeros(0, target)
    with np.errstate(all="ignore"):
        count = np.ceil((last - first) / step)
    if not np.isfinite(count):
        raise InvalidArgumentError(f"range: from {first} to {last} in steps of {step} there is no finite number of steps")
    return (first + np.arange(max(int(count), 0)).astype(target) * step).astype(target, copy=False)


# start, start + delta, … below limit; `length` where the program knows it
RANGE = nondiff(
    "range", "start limit delta", counted,
    infer=lambda start, limit, delta, *, dtype, length: TensorSpec((length,), dtype),
    reason="steps have no derivative", batch=batching.looped,
    call=lambda start, limit, delta, dtype: apply(
        RANGE, convert(start), convert(limit), convert(delta), dtype=dtype, length=None
    ),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(np.array(0), np.array(4), np.array(1), "int32"),
        Sample(np.array(0), np.array(4), np.array(0), "int32", raises=(ValueError, "delta")),
    ],
)  # fmt: skip


def _checked_size(size: Array) -> int:
    count = int(size)
    if count < 0:
        raise InvalidArgumentError(f"dimensions must not be negative, got {count}")
    return count


def size_of(value: Integer) -> Any:
    """An entry of a shape: an int, or a dimension of the program that is being traced."""
    if value.__class__ is int or value.__class__ is Dim:
        return value
    if isinstance(value, Readable):
        value = value.read()
    if not isinstance(value, Tensor) or not value.wraps or TRACING.get() is None:
        return operator.index(value)
    if not value.dtype.is_integer or value.ndim:
        raise TypeError(f"a dimension is a scalar integer, got shape {tuple(value.shape)}, dtype {value.dtype.name}")
    known = known_size(value)
    return apply(EXTENT, value).shape[0] if known is None else known


def count_of(value: Integer, caller: str, name: str) -> Any:
    """A number of things, not negative: an int, or a dimension of the program that is being traced."""
    try:
        count = size_of(value)
    except OpError:
        raise
    except TypeError:
        raise InvalidArgumentError(f"{caller}: {name} must be an integer, got {value!r}") from None
    if count.__class__ is int and count < 0:
        raise InvalidArgumentError(f"{caller}: {name} must not be negative, got {count}")
    return count


def extent_of(dim: Size) -> Dim:
    """A dimension of the program that might be negative, as one that is checked when the program runs."""
    return apply(EXTENT, number_of(dim)).shape[0]


def is_traced(value: object) -> bool:
    """Whether a tensor or variable is a value of the program that is being traced."""
    if isinstance(value, Readable):
        value = value.read()
    return isinstance(value, Tensor) and value.wraps and TRACING.get() is not None


def signed(number: Tensor) -> Tensor:
    """A tensor of axes or sizes in a type that has numbers below zero; what is too large for it is its largest number."""
    if number.dtype != uint64:
        return number
    return apply(HOOKS.cast_op, minimum(number, np.uint64(2**63 - 1)), dtype=int64)


def sizes_of(vector: Tensor) -> tuple[Any, ...]:
    """The entries of a shape that is a tensor of the program that is being traced."""
    if vector.ndim != 1:
        raise TypeError(f"a shape is a vector of integers, got a tensor of shape {tuple(vector.shape)}")
    producer = getattr(vector._data, "producer", None)
    if producer is not None and producer.op is DIMS:
        return tuple(producer.attrs["dims"])
    return tuple([size_of(vector[i]) for i in range(vector.shape[0])])


def known_size(tensor: Tensor) -> Size | None:
    """The dimension a traced integer is known to be, from how it was computed; None where it is not."""
    return _known(getattr(tensor._data, "producer", None))


def _known(producer: Operation | None) -> Size | None:
    while producer is not None and producer.op.name in ("cast", "identity"):
        producer = producer.operands[0].producer
    if producer is None:
        return None
    if producer.op is DIM:
        return producer.attrs["dim"]
    if producer.op is CONSTANT:
        return int(producer.attrs["value"])
    if producer.op.name == "getitem":
        whole, key = producer.operands[0].producer, producer.attrs["key"]
        while whole is not None and whole.op.name in ("cast", "identity"):
            whole = whole.operands[0].producer
        if whole is None or len(key) != 1 or key[0].__class__ is not int:
            return None
        if whole.op is DIMS:
            return whole.attrs["dims"][key[0]]
        if whole.op.name == "stack" and not len(whole.operands[0].type.shape):
            return _known(whole.operands[key[0]].producer)
    return None


def filled_with(shape: tuple[Any, ...], dtype: DTypeLike, value: Number) -> Tensor:
    """A tensor of one number, of a shape that has dimensions of the program."""
    return nullary(FILLED, shape=shape, dtype=as_dtype(dtype), value=value)


def number_of(dim: Size, dtype: DTypeLike | None = None) -> Tensor:
    """A dimension of the program as a scalar, int32 unless a dtype is asked for."""
    scalar = nullary(DIM, dim=dim)
    return scalar if dtype is None or scalar.dtype == dtype else apply(HOOKS.cast_op, scalar, dtype=as_dtype(dtype))


HOOKS.dimension = number_of


# -- masked products -----------------------------------------------------------------------------------------------------


def _masked_multiply_impl(x: Array, y: Array) -> Array:
    out = x * y
    if out.__class__ is np.ndarray:
        flat = out.reshape(-1)
        total = np.dot(flat, flat) if out.dtype.char in "fdFD" else np.add.reduce(flat)  # BLAS: one quick pass
    else:
        total = out
    if isfinite(total.real) and isfinite(total.imag):
        return out
    return x * np.where((x == 0) & ~np.isfinite(y), np.zeros((), y.dtype), y)


# ct · p' with p' = where((ct == 0) & ~isfinite(p), 0, p): what `ops/masking.py` composes, as one op of a program
MASKED_MULTIPLY = elementwise(
    "masked_multiply", "x y", _masked_multiply_impl,
    lambda x, y: cleaned(x, y),
    lambda x: x,
    cost=Cost.CHEAP,
    samples=lambda: [
        Sample(normal(3, 2), normal(3, 2)),
        Sample(normal(2, 1, 3), normal(4, 1)),
        Sample(normal(), normal(3)),
        Sample(normal(0, 3), normal(3)),
        Sample(normal(2), normal(2) + 1j * normal(2)),
        Sample(normal(2), normal(3), raises=(ValueError, "broadcast")),
    ],
)  # fmt: skip
masked_multiply = binary(MASKED_MULTIPLY, "x · y, zero where x is zero and y is not finite.")

# -- Python's integers --------------------------------------------------------------------------------------------------------

# what may leave the 64 bits, by the name of the op that would do it without looking
EXACT_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "pow": operator.pow, "left_shift": operator.lshift,
}  # fmt: skip


def _narrow_impl(x: Array, *, dtype: DTypeLike) -> Array:
    target = numpy_dtype(dtype)
    limits = np.iinfo(target)
    outside = (x < limits.min) | (x > limits.max)
    if np.any(outside):
        number = np.asarray(x)[outside].flat[0]
        raise NumberDoesNotFitError(f"cannot convert {number} to dtype {target.name}: it does not fit; use a wider dtype")
    return np.asarray(x).astype(target)[()]


def _exact_impl(x: Array, y: Array, *, form: str) -> Array:
    compute = EXACT_ARITHMETIC[form]
    limits = np.iinfo(np.int64)
    numbers = [compute(int(a), int(b)) for a, b in np.broadcast(x, y)]
    for number in numbers:
        if not limits.min <= number <= limits.max:
            raise NumberDoesNotFitError(
                f"the Python number {number} has more than 64 bits: a number that a function computes has at most these. Use a "
                "float, or a tensor of the dtype that is meant"
            )
    return np.array(numbers, np.int64).reshape(np.broadcast_shapes(np.shape(x), np.shape(y)))[()]


# in the dtype of the tensors that they meet
NARROW = nondiff(
    "narrow", "x", _narrow_impl,
    infer=lambda x, *, dtype: TensorSpec(x.shape, dtype),
    reason="integers have no derivative", batch=batching.elementwise,
    call=lambda x, dtype: apply(NARROW, convert(x), dtype=as_dtype(dtype)),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(np.array(2**31 - 1), "int32"),
        Sample(np.array([-128, 127]), "int8"),
        Sample(np.array(2**31), "int32", raises=(TypeError, "cannot convert 2147483648 to dtype int32")),
        Sample(np.array([1, -1]), "uint64", raises=(TypeError, "cannot convert -1 to dtype uint64")),
    ],
)  # fmt: skip
EXACT = nondiff(
    "exact", "x y", _exact_impl,
    infer=lambda x, y, *, form: TensorSpec(np.broadcast_shapes(x.shape, y.shape), "int64"),
    reason="integers have no derivative", batch=batching.elementwise,
    call=lambda x, y, form: apply(EXACT, convert(x), convert(y), form=form),
    fails=Fails.VALUES,
    samples=lambda: [
        Sample(np.array(2**62), np.array(2**62 - 1), "add"),
        Sample(np.array([3, -3]), np.array([2**40, 7]), "multiply"),
        Sample(np.array(-(2**62)), np.array(2**62), "subtract"),
        Sample(np.array(3), np.array(39), "pow"),
        Sample(np.array(1), np.array(62), "left_shift"),
        *(Sample(np.array(2**62), np.array(b), form, raises=(TypeError, "more than 64 bits"))
          for b, form in ((2**62, "add"), (-(2**62), "subtract"), (2, "multiply"), (2, "pow"), (1, "left_shift"))),
    ],
)  # fmt: skip

OPS = (COPY, SIZED, DIM_VALUE, EXTENT, RANGE, MASKED_MULTIPLY, NARROW, EXACT)
PROGRAM_OPS = (CONSTANT, VOID, DIM, DIMS, FILLED, PRINT, ASSERT, DRAW_KEY, PY_CALL)

from gradtape.ops.select import cleaned, minimum
from gradtape.ops.shape import broadcast_to
