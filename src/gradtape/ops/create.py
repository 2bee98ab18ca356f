"""Tensors from nothing: zeros, ones, ranges, identity matrices. No derivative, except through `fill` and `*_like`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape.core import batching, inference
from gradtape.core.arguments import integral
from gradtape.core.dispatch import apply, convert, created, promote, snapshot, twin
from gradtape.core.float_events import listen
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Sample, composite, nondiff
from gradtape.core.record import TRACING
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.core.typing import Array, Dims, Integer, Integers, Shape, TensorLike
from gradtape.dtypes import DType, DTypeLike, as_dtype, float32, numpy_dtype
from gradtape.errors import InvalidArgumentError, OpError
from gradtape.ir.polynomial import Dim, Size
from gradtape.ir.types import TensorSpec
from gradtape.ops.sampling import normal


def constant(value: TensorLike, dtype: DTypeLike | None = None, shape: Shape | None = None, name: str = "Const") -> Tensor:
    """A tensor of the given values (copied). Python floats become float32, ints int32; NumPy data keeps its dtype.

    >>> gt.constant([1, 2]).dtype, gt.constant(3.0, shape=[2]).numpy()
    (gt.int32, array([3., 3.], dtype=float32))
    """
    if isinstance(value, (Tensor, Readable)):
        # (a number of the program is one of Python's: it has to fit)
        tensor = convert(value, dtype if getattr(value, "weak", False) else None)
        if shape is not None:
            size = static_shape(shape)
            tensor = HOOKS.broadcast_to(HOOKS.reshape(tensor, ()), size) if tensor.size == 1 else HOOKS.reshape(tensor, size)
        return twin(tensor) if dtype is None else _cast(tensor, dtype)
    listen()  # whoever catches warnings, as pytest does for each test, forgets filters that came before
    tensor = convert(value, dtype=dtype)
    if shape is None:
        return tensor
    wanted = static_shape(shape)
    data = np.asarray(tensor._data)
    if data.size == 1:
        return _filled(np.broadcast_to(data.reshape(()), wanted).copy())
    if data.size != int(np.prod(wanted, dtype=int)):
        raise TypeError(f"constant: {data.size} values do not fill shape {wanted}")
    return _filled(data.reshape(wanted))


def convert_to_tensor(
    value: TensorLike, dtype: DTypeLike | None = None, dtype_hint: DTypeLike | None = None, name: str | None = None
) -> Tensor:
    """`value` as a tensor: tensors pass unchanged, variables are read, everything else is copied.

    >>> gt.convert_to_tensor([1.0, 2.0]).shape
    TensorShape([2])
    """
    tensor: Tensor = convert(value, dtype, dtype_hint)
    return snapshot(tensor) if isinstance(value, Readable) else tensor


def static_shape(shape: Shape) -> tuple[Any, ...]:
    """A shape argument (ints, list, tensor, TensorShape) as a tuple of ints, and dimensions of a program."""
    if isinstance(shape, Readable):
        shape = shape.read()
    if isinstance(shape, (Tensor, np.ndarray)):
        if isinstance(shape, Tensor) and shape.wraps and shape.ndim:
            return sizes_of(shape)
        shape = (shape,) if isinstance(shape, Tensor) and shape.wraps else shape.tolist()
    if isinstance(shape, (int, np.integer, Dim)):
        return (shape if shape.__class__ is Dim else int(shape),)
    dims: Any = shape
    try:
        return tuple([d if d.__class__ is int else size_of(d) for d in dims])
    except (AttributeError, TypeError) as error:
        if isinstance(error, OpError):
            raise
        raise TypeError(f"{shape!r} is not a shape; give a sequence of integers") from error


def entries(vector: Integers) -> tuple[Any, ...]:
    """The integers of a vector: Python ints, and scalars of the program that is being traced."""
    vector = vector.read() if isinstance(vector, Readable) else vector
    if isinstance(vector, Tensor) and vector.wraps:
        return tuple(vector[i] for i in range(vector.shape[0])) if vector.ndim else (vector,)
    if isinstance(vector, (list, tuple)):
        vector = tuple(v.read() if isinstance(v, Readable) else v for v in vector)
        if any(isinstance(v, Tensor) and v.wraps for v in vector):
            return vector
    return static_shape(vector)


def sizes(value: Shape, argument: str, op: str) -> tuple[Any, ...]:
    """A shape, strides, paddings: integers, or dimensions of a program."""
    try:
        return static_shape(value)
    except OpError:
        raise
    except TypeError:
        raise TypeError(f"{op}: {argument} must be one or several integers, got {value!r}") from None


def is_symbolic(shape: tuple[Any, ...]) -> bool:
    """Whether a shape has dimensions of a program."""
    return any(d.__class__ is Dim for d in shape)


def fits(a: Dims, b: Dims) -> bool:
    """Whether two shapes are the same, or may be when the program runs."""
    if a == b:
        return True
    pairs = zip(a, b, strict=False)
    return len(a) == len(b) and all(m == n or m.__class__ is Dim or n.__class__ is Dim for m, n in pairs)


def grid(size: Size, axis: int, rank: int) -> Tensor | Array:
    """0, 1, … along one of several axes."""
    shape = [-1 if i == axis else 1 for i in builtins.range(rank)]
    return np.arange(size).reshape(shape) if size.__class__ is int else reshape(range(size), shape)


def _filled(array: Array) -> Tensor:
    return created(box(array if array.ndim else array[()]))


def _cast(tensor: TensorLike, dtype: DTypeLike) -> Tensor:
    from gradtape.ops.elementwise import cast

    return cast(tensor, dtype)


def zeros(shape: Shape, dtype: DTypeLike = float32, name: str | None = None) -> Tensor:
    """All zeros (empty strings, false).

    >>> gt.zeros((2, 3)).shape
    TensorShape([2, 3])
    """
    dims = _checked(static_shape(shape))
    if is_symbolic(dims):
        return filled_with(dims, dtype, 0)
    array = np.zeros(dims, wanted := numpy_dtype(dtype))
    if wanted.kind == "O":
        array[...] = b""
    return _filled(array)


def ones(shape: Shape, dtype: DTypeLike = float32, name: str | None = None) -> Tensor:
    """All ones.

    >>> gt.ones((2, 2)).numpy()
    array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    dims = _checked(static_shape(shape))
    return filled_with(dims, dtype, 1) if is_symbolic(dims) else _filled(np.ones(dims, numpy_dtype(dtype)))


def _checked(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    if any(d < 0 for d in shape if d.__class__ is int):
        raise InvalidArgumentError(f"dimensions must be non-negative, got shape {shape}")
    return shape


def _like_spec(x: TensorSpec, *, dtype: DTypeLike | None) -> TensorSpec:
    return TensorSpec(x.shape, x.dtype if dtype is None else dtype)


def _zeros_like_impl(x: Array, *, dtype: DType | None) -> Array:
    out = np.zeros(x.shape, x.dtype if dtype is None else numpy_dtype(dtype))
    if out.dtype.kind == "O":
        out[...] = b""
        return out
    return out if out.ndim else out[()]


def _ones_like_impl(x: Array, *, dtype: DTypeLike | None) -> Array:
    out = np.ones(x.shape, x.dtype if dtype is None else numpy_dtype(dtype))
    return out if out.ndim else out[()]


def zeros_like(input: TensorLike, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """Zeros with the shape (and dtype) of `input`."""
    return apply(ZEROS_LIKE, convert(input), dtype=dtype)


def ones_like(input: TensorLike, dtype: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """Ones with the shape (and dtype) of `input`."""
    return apply(ONES_LIKE, convert(input), dtype=dtype)


ZEROS_LIKE = nondiff(
    "zeros_like", "x", _zeros_like_impl,
    infer=_like_spec,
    reason="the result does not depend on the values",
    batch=batching.elementwise,
    samples=lambda: [Sample(normal(2, 3)), Sample(normal(), "float32")],
)  # fmt: skip
ONES_LIKE = nondiff(
    "ones_like", "x", _ones_like_impl,
    infer=_like_spec,
    reason="the result does not depend on the values",
    batch=batching.elementwise,
    samples=lambda: [Sample(normal(2, 3)), Sample(normal(), "float32")],
)  # fmt: skip


@composite(samples=lambda: [Sample((2, 3), normal(), fixed=(0,)), Sample((), normal(), fixed=(0,))])
def fill(dims: Shape, value: TensorLike, name: str | None = None) -> Tensor:
    """A tensor of shape `dims`, every element `value`.

    >>> gt.fill([2], 7.0).numpy()
    array([7., 7.], dtype=float32)
    """
    value = convert(value)
    if value.ndim:
        raise InvalidArgumentError(f"fill: value must be a scalar, got shape {tuple(value.shape)}")
    return broadcast_to(value, static_shape(dims))


def eye(
    num_rows: Integer, num_columns: Integer | None = None, batch_shape: Shape | None = None, dtype: DTypeLike = float32,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """Identity matrix (or a batch of them).

    >>> gt.eye(2).numpy()
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    rows = count_of(num_rows, "eye", "num_rows")
    columns = rows if num_columns is None else count_of(num_columns, "eye", "num_columns")
    batch = () if batch_shape is None else static_shape(batch_shape)
    if is_symbolic((*batch, rows, columns)):
        return _symbolic_eye(rows, columns, batch, dtype)
    return created(box(np.broadcast_to(np.eye(rows, columns, dtype=numpy_dtype(dtype)), (*batch, rows, columns)).copy()))


def _symbolic_eye(rows: Size, columns: Size, batch: tuple[Any, ...], dtype: DTypeLike) -> Tensor:
    matrix = _cast(equal(range(rows)[:, None], range(columns)), dtype)
    return broadcast_to(matrix, (*batch, rows, columns)) if batch else matrix


def range(
    start: TensorLike, limit: TensorLike | None = None, delta: TensorLike = 1, dtype: DTypeLike | None = None,
    name: str = "range",
) -> Tensor:  # fmt: skip
    """start, start + delta, … below limit: ⌈(limit − start) / delta⌉ items, computed in the dtype of the result.

    >>> gt.range(3).numpy(), gt.range(1.0, 2.0, 0.5).numpy()
    (array([0, 1, 2], dtype=int32), array([1. , 1.5], dtype=float32))
    """
    if limit is None:
        start, limit = 0, start
    tensors = [_literal(t) for t in _bounds((start, limit, delta), dtype)]
    kind = as_dtype(dtype) if dtype is not None else _common(tensors)
    if any(t.wraps for t in tensors):
        known = start.__class__ is int and start == 0 and delta.__class__ is int and delta == 1 and tensors[1].dtype.is_integer
        length = _count_to(tensors[1]) if known and TRACING.get() is not None else None
        return apply(RANGE, *tensors, dtype=kind, length=length)
    return created(box(counted(*(t._data for t in tensors), dtype=kind)))


def _literal(bound: Tensor) -> Tensor:
    """A bound that is known while tracing as it is: then so is the length of the range."""
    trace = TRACING.get() if bound.wraps else None
    if trace is None or trace.value_of is None or not trace.follows_constants:
        return bound
    known = trace.value_of(bound)
    return bound if known is None else known


def _bounds(values: tuple[Any, ...], dtype: DTypeLike | None) -> list[Any]:
    """The bounds of a range as scalars. Python numbers are taken at full precision where a dtype is given, by name or by
    another bound that is a tensor."""
    # 0.1 as float32 is not the 0.1 that a float64 range means: what has no dtype takes that of the result before it is rounded.
    tensors = [v for v in values if isinstance(v, (Tensor, Readable, np.generic, np.ndarray))]
    hint = None if dtype is not None or not tensors else _common([convert(v) for v in tensors])
    bounds = [convert(v, hint=hint) if any(v is t for t in tensors) else convert(v, dtype, hint) for v in values]
    for bound in bounds:
        if bound.ndim:
            raise InvalidArgumentError(f"range: start, limit and delta must be scalars, got shape {tuple(bound.shape)}")
    return bounds


def _count_to(limit: Tensor) -> Any:
    """How many numbers there are from 0 to below a limit of the program: none if it is negative."""
    length = size_of(maximum(limit, 0) if known_size(limit) is None else limit)
    return max(length, 0) if length.__class__ is int else length


def _common(values: Sequence[Tensor]) -> DType:
    dtype = as_dtype(values[0].dtype)
    for value in values[1:]:
        dtype = inference.promote_dtypes(dtype, as_dtype(value.dtype))
    return dtype


@composite(samples=lambda: [Sample(normal(), normal(), 5, fixed=(2,)), Sample(normal(2), normal(2), 3, fixed=(2,))])
def linspace(start: TensorLike, stop: TensorLike, num: Integer, name: str | None = None, axis: int = 0) -> Tensor:
    """`num` evenly spaced values from start to stop (both included); differentiable in both ends. Between integers they are
    floats, as quotients are: float64, float32 for integers of up to 16 bits.

    >>> gt.linspace(0.0, 1.0, 3).numpy()
    array([0. , 0.5, 1. ], dtype=float32)
    """
    start, stop = promote(start, stop)
    if not start.dtype.is_differentiable:
        kind = quotient_dtype(start.dtype)
        start, stop = _cast(start, kind), _cast(stop, kind)
    count = count_of(num, "linspace", "num")
    place = axis % (start.ndim + 1)
    if count.__class__ is int:
        # A constant of the program; the ends enter by a product and a sum, through which they are differentiated.
        numbers = np.linspace(0.0, 1.0, count).astype(start.dtype.dtype)
        steps: Any = box(numbers.reshape([count if i == place else 1 for i in builtins.range(start.ndim + 1)]))
    else:
        steps = _cast(_unit_steps(count, place, start.ndim + 1), start.dtype)
    first = expand_dims(start, place)
    return first + (expand_dims(stop, place) - first) * steps


def _unit_steps(count: Size, axis: int, rank: int) -> Tensor:
    """As many numbers from 0 to 1 as run time says, along one of several axes."""
    place = _cast(grid(count, axis, rank), "float64")
    # The last step is 1 exactly, whatever (count - 1)·(1/(count - 1)) rounds to; a single number has the step 0.
    last = _cast(number_of(count), "float64") - 1.0
    return where(place == last, ones((), "float64") * _cast(last > 0.0, "float64"), place * (1.0 / maximum(last, 1.0)))


@composite(
    samples=lambda: [
        Sample(np.array([0, 2, 5]), 3, normal(), normal(), fixed=(0,)),
        Sample(np.array([[0], [1]]), 2, normal(), 0.0, 0, fixed=(0,)),
        Sample(np.array([1, -1]), 2, dtype="float64"),
    ]
)
def one_hot(
    indices: TensorLike, depth: Integer, on_value: TensorLike | None = None, off_value: TensorLike | None = None,
    axis: int | None = None, dtype: DTypeLike | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """Vectors that are on_value (1) at the index and off_value (0) elsewhere; indices outside [0, depth) are all off.

    >>> gt.one_hot([0, 2], 3).numpy()
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    given = on_value if on_value is not None else off_value
    target = dtype if dtype is not None else (float32 if given is None else convert(given).dtype)
    on = 1 if on_value is None else on_value
    off = 0 if off_value is None else off_value
    depth = count_of(depth, "one_hot", "depth")
    hot = apply(ONE_HOT, integral(indices, "indices", "one_hot"), depth=depth, axis=-1 if axis is None else int(axis))
    on, off = (convert(v, hint=target) for v in (on, off))
    if dtype is not None or on_value is None or off_value is None:
        on, off = _cast(on, target), _cast(off, target)
    return where(hot, on, off)


def _one_hot_impl(indices: Array, *, depth: int, axis: int) -> Array:
    hot = np.asarray(indices)[..., None] == np.arange(depth)
    return hot if axis == -1 else np.moveaxis(hot, -1, axis)


ONE_HOT = nondiff(
    "one_hot", "indices", _one_hot_impl,
    infer=lambda indices, *, depth, axis: TensorSpec(_one_hot_shape(indices.shape, depth, axis), "bool"),
    reason="indices have no derivative",
    batch=lambda op, flags, inputs, attrs: apply(
        op, *inputs, depth=attrs["depth"], axis=attrs["axis"] + 1 if attrs["axis"] >= 0 else attrs["axis"]
    ),
    samples=lambda: [Sample(np.array([0, 2, 5]), 3, -1), Sample(np.array([[0], [1]]), 2, 0)],
)  # fmt: skip


def _one_hot_shape(shape: Dims, depth: int, axis: int) -> Dims:
    dims = list(shape)
    dims.insert(len(dims) if axis == -1 else axis, depth)
    return tuple(dims)


def rank(input: TensorLike, name: str | None = None) -> Tensor:
    """Number of axes, as an int32 scalar.

    >>> int(gt.rank(gt.zeros((2, 3))))
    2
    """
    return box(np.int32(convert(input).ndim))


def shape(input: TensorLike, out_type: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """The shape as an integer tensor, int32 unless out_type says otherwise.

    >>> gt.shape(gt.zeros((2, 3))).numpy()
    array([2, 3], dtype=int32)
    """
    dims, kind = tuple(convert(input).shape), _count_dtype(out_type, "shape")
    return nullary(DIMS, dims=dims, dtype=kind) if is_symbolic(dims) else box(np.array(dims, kind.dtype))


def size(input: TensorLike, out_type: DTypeLike | None = None, name: str | None = None) -> Tensor:
    """Number of elements, as an integer scalar, int32 unless out_type says otherwise.

    >>> int(gt.size(gt.zeros((2, 3))))
    6
    """
    count: Size = convert(input).size
    kind = _count_dtype(out_type, "size")
    return number_of(count, kind) if isinstance(count, Dim) else box(numpy_dtype(kind).type(count))


def _count_dtype(out_type: DTypeLike | None, op: str) -> DType:
    try:
        kind = as_dtype("int32" if out_type is None else out_type)
    except TypeError as error:
        raise TypeError(f"{op}: out_type: {error}") from None
    if not kind.is_integer:
        raise InvalidArgumentError(f"{op}: out_type must be an integer type, got {kind.name}")
    return kind


OPS = (ZEROS_LIKE, ONES_LIKE, ONE_HOT)

from gradtape.ops.compare import equal
from gradtape.ops.elementwise import quotient_dtype
from gradtape.ops.select import maximum, where
from gradtape.ops.shape import broadcast_to, expand_dims, reshape
from gradtape.ops.staged import DIMS, RANGE, count_of, counted, filled_with, known_size, nullary, number_of, size_of, sizes_of
