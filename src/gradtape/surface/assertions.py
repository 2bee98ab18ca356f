"""Assertions about tensors (TensorFlow's `debugging`): each raises at once, with the values and what to look at.

Assertions of values raise InvalidArgumentError and return None; assertions of static facts (rank, type) raise ValueError
or TypeError. None of them is part of what is differentiated; `check_numerics` passes its tensor on with an identity rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gradtape import config
from gradtape.core.dispatch import convert, promote
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Array, DTypeLike, Integer, TensorLike
from gradtape.dtypes import as_dtype
from gradtape.errors import InvalidArgumentError
from gradtape.functions.at_run_time import at_run_time
from gradtape.ops.check_numerics import check_numerics as check_numerics
from gradtape.surface.misc import described

_SHOWN = 3
Symbols: TypeAlias = str | int | np.integer | Tensor | np.ndarray | Sequence[Any]  # sizes, letters for them, and Ellipsis


def _failed(op: str, message: str | None, text: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"{op}: {message + '. ' if message else ''}{text}")


@at_run_time
def _compare(
    op: str, relation: Callable[[Array, Array], Array], words: str, x: TensorLike, y: TensorLike, message: str | None,
    summarize: int | None,
) -> None:  # fmt: skip
    a, b = (np.asarray(t.numpy()) for t in promote(x, y))
    try:
        holds = relation(a, b)
    except ValueError:
        raise _failed(op, message, f"shapes {a.shape} and {b.shape} do not broadcast") from None
    if holds.all():
        return
    count = _SHOWN if summarize is None else summarize
    bad = np.argwhere(~np.atleast_1d(holds))
    first = tuple(int(i) for i in bad[0]) if holds.ndim else ()
    wide_a, wide_b = np.broadcast_arrays(a, b)
    raise _failed(
        op, message,
        f"condition x {words} y fails for {len(bad)} of {holds.size} elements, first at index {first}: "
        f"{wide_a[first]} against {wide_b[first]}. x = {_short(a, count)}, y = {_short(b, count)}",
    )  # fmt: skip


def _short(array: Array, count: int) -> str:
    return described(array.reshape(-1) if array.ndim > 1 else array, count)


def assert_equal(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless x == y for all elements (broadcast against each other).

    >>> gt.debugging.assert_equal(gt.constant([1, 2]), [1, 2])
    """
    _compare("assert_equal", np.equal, "==", x, y, message, summarize)


def assert_none_equal(
    x: TensorLike, y: TensorLike, summarize: int | None = None, message: str | None = None, name: str | None = None
) -> None:
    """Raise unless x != y for all elements.

    >>> gt.debugging.assert_none_equal([1.0], [2.0])
    """
    _compare("assert_none_equal", np.not_equal, "!=", x, y, message, summarize)


def assert_less(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless x < y for all elements.

    >>> gt.debugging.assert_less([1.0], [2.0])
    """
    _compare("assert_less", np.less, "<", x, y, message, summarize)


def assert_less_equal(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless x <= y for all elements.

    >>> gt.debugging.assert_less_equal([1.0], [1.0])
    """
    _compare("assert_less_equal", np.less_equal, "<=", x, y, message, summarize)


def assert_greater(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless x > y for all elements.

    >>> gt.debugging.assert_greater([2.0], [1.0])
    """
    _compare("assert_greater", np.greater, ">", x, y, message, summarize)


def assert_greater_equal(
    x: TensorLike, y: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless x >= y for all elements.

    >>> gt.debugging.assert_greater_equal([2.0], [2.0])
    """
    _compare("assert_greater_equal", np.greater_equal, ">=", x, y, message, summarize)


def assert_positive(x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None) -> None:
    """Raise unless x > 0 for all elements.

    >>> gt.debugging.assert_positive([1.0])
    """
    _compare("assert_positive", np.greater, ">", x, 0, message, summarize)


def assert_negative(x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None) -> None:
    """Raise unless x < 0 for all elements.

    >>> gt.debugging.assert_negative([-1.0])
    """
    _compare("assert_negative", np.less, "<", x, 0, message, summarize)


def assert_non_negative(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless x >= 0 for all elements.

    >>> gt.debugging.assert_non_negative([0.0])
    """
    _compare("assert_non_negative", np.greater_equal, ">=", x, 0, message, summarize)


def assert_non_positive(
    x: TensorLike, message: str | None = None, summarize: int | None = None, name: str | None = None
) -> None:
    """Raise unless x <= 0 for all elements.

    >>> gt.debugging.assert_non_positive([0.0])
    """
    _compare("assert_non_positive", np.less_equal, "<=", x, 0, message, summarize)


@at_run_time
def assert_near(
    x: TensorLike, y: TensorLike, rtol: float | None = None, atol: float | None = None, message: str | None = None,
    summarize: int | None = None, name: str | None = None,
) -> None:  # fmt: skip
    """Raise unless |x - y| <= atol + rtol |y| for all elements; both default to ten times the dtype's epsilon.

    >>> gt.debugging.assert_near(gt.constant(1.0), 1.0 + 1e-7)
    """
    dtype = promote(x, y)[0].dtype
    if not dtype.is_differentiable:
        raise TypeError(f"assert_near: x must be floating point or complex, got dtype {dtype.name}")
    # NumPy knows no limits of bfloat16, which has 7 bits behind the point.
    epsilon = 10.0 * float(np.finfo(dtype.dtype).eps) if dtype.name != "bfloat16" else 10.0 * 2.0**-7
    relative = epsilon if rtol is None else float(rtol)
    absolute = epsilon if atol is None else float(atol)

    def near(a: Array, b: Array) -> Any:
        return np.abs(a - b) <= absolute + relative * np.abs(b)

    _compare("assert_near", near, f"~ (rtol {relative:g}, atol {absolute:g})", x, y, message, summarize)


def assert_all_finite(x: TensorLike, message: str, name: str | None = None) -> Any:
    """The tensor, if it has no NaN or infinity; otherwise InvalidArgumentError.

    >>> gt.debugging.assert_all_finite([1.0, 2.0], "the loss").numpy()
    array([1., 2.], dtype=float32)
    """
    return check_numerics(x, message)


def enable_strict_gradients() -> None:
    """From now on `tape.gradient` (and the Jacobians) warn whenever an answer is None, with the cause `tape.explain` gives.

    Sources asked with `unconnected_gradients="zero"` are meant to be unconnected and give no warning. It holds for the whole
    process, until `disable_strict_gradients()`; GRADTAPE_STRICT_GRADIENTS=1 in the environment switches it on from the start.

    >>> import warnings
    >>> gt.debugging.enable_strict_gradients()
    >>> x = gt.Variable(3.0, name="x")
    >>> with warnings.catch_warnings(record=True) as caught, gt.GradientTape() as tape:
    ...     warnings.simplefilter("always")
    ...     answer = tape.gradient(gt.stop_gradient(x) * 2.0, x)
    >>> print(answer, str(caught[0].message)[:58])
    None the gradient of variable 'x:0' is None (stop_gradient): gt
    >>> gt.debugging.disable_strict_gradients()
    """
    config.strict_gradients(True)


def disable_strict_gradients() -> None:
    """Back to silence: `None` without a warning, unless an integer is to blame.

    >>> gt.debugging.disable_strict_gradients()
    """
    config.strict_gradients(False)


# -- static facts ----------------------------------------------------------------------------------------------------


def _static_rank(value: Integer, op: str) -> int:
    rank = convert(value)
    if rank.ndim or not rank.dtype.is_integer:
        raise TypeError(f"{op}: the rank must be a scalar integer, got {value!r}")
    return int(rank)


def assert_rank(x: TensorLike, rank: Integer, message: str | None = None, name: str | None = None) -> None:
    """Raise ValueError unless x has exactly `rank` axes.

    >>> gt.debugging.assert_rank([[1.0]], 2)
    """
    tensor, wanted = convert(x), _static_rank(rank, "assert_rank")
    if tensor.ndim != wanted:
        raise _failed("assert_rank", message, f"expected rank {wanted}, got rank {tensor.ndim}, shape {tuple(tensor.shape)}")


def assert_rank_at_least(x: TensorLike, rank: Integer, message: str | None = None, name: str | None = None) -> None:
    """Raise ValueError unless x has `rank` axes or more.

    >>> gt.debugging.assert_rank_at_least([[1.0]], 1)
    """
    tensor, wanted = convert(x), _static_rank(rank, "assert_rank_at_least")
    if tensor.ndim < wanted:
        raise _failed(
            "assert_rank_at_least", message,
            f"expected at least rank {wanted}, got rank {tensor.ndim}, shape {tuple(tensor.shape)}",
        )  # fmt: skip


def assert_rank_in(x: TensorLike, ranks: Iterable[Integer], message: str | None = None, name: str | None = None) -> None:
    """Raise ValueError unless the number of axes of x is one of `ranks`.

    >>> gt.debugging.assert_rank_in([[1.0]], (1, 2))
    """
    tensor = convert(x)
    wanted = [_static_rank(r, "assert_rank_in") for r in ranks]
    if tensor.ndim not in wanted:
        raise _failed(
            "assert_rank_in", message, f"expected rank in {wanted}, got rank {tensor.ndim}, shape {tuple(tensor.shape)}"
        )


def assert_type(tensor: TensorLike, tf_type: DTypeLike, message: str | None = None, name: str | None = None) -> None:
    """Raise TypeError unless the tensor has this dtype.

    >>> gt.debugging.assert_type(gt.constant(1), gt.int32)
    """
    have, want = convert(tensor).dtype, as_dtype(tf_type)
    if have != want:
        raise TypeError(f"assert_type: {message + '. ' if message else ''}expected dtype {want.name}, got {have.name}")


def assert_integer(x: TensorLike, message: str | None = None, name: str | None = None) -> None:
    """Raise TypeError unless x has an integer dtype.

    >>> gt.debugging.assert_integer([1, 2])
    """
    have = convert(x).dtype
    if not have.is_integer:
        raise TypeError(f"assert_integer: {message + '. ' if message else ''}expected an integer dtype, got {have.name}")


def assert_scalar(tensor: TensorLike, message: str | None = None, name: str | None = None) -> Any:
    """The tensor, if it has no axes; otherwise ValueError.

    >>> gt.debugging.assert_scalar(1.0).shape
    TensorShape([])
    """
    value = convert(tensor)
    if value.ndim:
        raise _failed("assert_scalar", message, f"expected a scalar, got shape {tuple(value.shape)}")
    return value


def assert_same_float_dtype(tensors: Iterable[TensorLike] | None = None, dtype: DTypeLike | None = None) -> Any:
    """The one floating dtype that all tensors (and `dtype`, if given) have; otherwise ValueError.

    >>> gt.debugging.assert_same_float_dtype([gt.constant(1.0), gt.constant(2.0)])
    gt.float32
    """
    dtypes = [] if dtype is None else [as_dtype(dtype)]
    dtypes += [convert(t).dtype for t in tensors or ()]
    for candidate in dtypes:
        if candidate != dtypes[0]:
            raise ValueError(f"assert_same_float_dtype: {candidate.name} against {dtypes[0].name}")
    result = dtypes[0] if dtypes else as_dtype("float32")
    if not result.is_floating:
        raise ValueError(f"assert_same_float_dtype: expected a floating dtype, got {result.name}")
    return result


def is_numeric_tensor(tensor: object) -> bool:
    """Whether the argument is a tensor or variable of numbers (not strings, not bools).

    >>> gt.debugging.is_numeric_tensor(gt.constant(1)), gt.debugging.is_numeric_tensor(1)
    (True, False)
    """
    if not isinstance(tensor, (Tensor, Readable)):
        return False
    dtype = convert(tensor).dtype
    return bool(dtype.is_integer or dtype.is_differentiable)


def assert_shapes(
    shapes: Mapping[Any, Symbols] | Iterable[tuple[TensorLike, Symbols]], data: object = None, summarize: int | None = None,
    message: str | None = None, name: str | None = None,
) -> None:  # fmt: skip
    """Raise ValueError unless the tensors have the given shapes, with letters standing for equal sizes.

    A shape is a tuple (or a string, one letter per axis) of sizes, of symbols that must be the same size wherever they
    stand, and of "*" or None for any size; "..." in front or behind stands for any number of axes.

    >>> a, b = gt.zeros((2, 3)), gt.zeros((3, 5))
    >>> gt.debugging.assert_shapes([(a, "NM"), (b, ("M", 5))])
    """
    pairs = list(shapes.items()) if isinstance(shapes, dict) else list(shapes)
    sizes: dict[Any, tuple[int, int]] = {}
    for place, (value, wanted) in enumerate(pairs):
        have = tuple(convert(value).shape)
        for symbol, size in _matched(have, _symbols(wanted), place, message):
            if isinstance(symbol, int):
                if symbol != size:
                    raise _failed("assert_shapes", message, f"tensor {place} has shape {have}, expected {wanted}")
            elif symbol in sizes and sizes[symbol][0] != size:
                raise _failed(
                    "assert_shapes", message,
                    f"{symbol!r} is {size} in tensor {place} of shape {have} but {sizes[symbol][0]} in tensor "
                    f"{sizes[symbol][1]}",
                )  # fmt: skip
            else:
                sizes.setdefault(symbol, (size, place))


def _symbols(shape: Symbols) -> list[Any]:
    if isinstance(shape, str):
        parts: list[Any] = list(shape.replace("...", "\0"))
        return [int(p) if p.isdigit() else "..." if p == "\0" else p for p in parts]
    if isinstance(shape, (int, np.integer)):
        return [int(shape)]
    listed = shape.tolist() if isinstance(shape, (Tensor, np.ndarray)) else list(shape)
    return ["..." if part is Ellipsis else part for part in listed]


def _matched(have: tuple[int, ...], symbols: list[Any], place: int, message: str | None) -> list[tuple[Any, int]]:
    """Pairs of symbol and size, without the axes that may be anything."""
    open_ended = [i for i, s in enumerate(symbols) if s == "..."]
    if len(open_ended) > 1 or (open_ended and open_ended[0] not in (0, len(symbols) - 1)):
        raise ValueError(f'assert_shapes: "..." may stand once, in front or behind, got {symbols}')
    fixed = [s for s in symbols if s != "..."]
    if len(have) < len(fixed) or (len(have) > len(fixed) and not open_ended):
        raise _failed("assert_shapes", message, f"tensor {place} has rank {len(have)}, expected rank {len(fixed)}: {symbols}")
    sizes = have[len(have) - len(fixed) :] if open_ended and open_ended[0] == 0 else have[: len(fixed)]
    return [(s, d) for s, d in zip(fixed, sizes, strict=True) if s is not None and s != "*"]


__all__ = [
    "assert_all_finite", "assert_equal", "assert_greater", "assert_greater_equal", "assert_integer", "assert_less",
    "assert_less_equal", "assert_near", "assert_negative", "assert_non_negative", "assert_non_positive", "assert_none_equal",
    "assert_positive", "assert_rank", "assert_rank_at_least", "assert_rank_in", "assert_same_float_dtype", "assert_scalar",
    "assert_shapes", "assert_type", "check_numerics", "disable_strict_gradients", "enable_strict_gradients",
    "is_numeric_tensor",
]  # fmt: skip
