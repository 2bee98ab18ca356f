"""Small parts of TensorFlow's surface that eager code mentions: devices, `print`, `Assert`, `group`.

There is one device, and operations run in program order; `init_scope` leaves the function that is being traced.
"""

from __future__ import annotations

import builtins
import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import numpy as np

from gradtape import tree
from gradtape.ad.batch import BatchedTensor
from gradtape.core.dispatch import convert
from gradtape.core.record import NOBODY, TRACING, scope_of
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.errors import InvalidArgumentError
from gradtape.functions.at_run_time import at_run_time
from gradtape.ops.stop import identity
from gradtape.trace.effects import TRACER


@contextlib.contextmanager
def device(device_name: object) -> Iterator[None]:
    """Accepted for programs written for several devices; gradtape computes on the CPU.

    >>> with gt.device("/CPU:0"):
    ...     y = gt.square(3.0)
    >>> float(y)
    9.0
    """
    yield


@contextlib.contextmanager
def control_dependencies(control_inputs: object) -> Iterator[None]:
    """Accepted: eager operations run in program order already.

    >>> with gt.control_dependencies([]):
    ...     y = gt.square(3.0)
    >>> float(y)
    9.0
    """
    yield


@contextlib.contextmanager
def init_scope() -> Iterator[None]:
    """Leave the function that is being traced, and every tape: the block runs at once, when (and only when) the function is
    traced, which may be more than once.

    >>> v = gt.Variable(1.0)
    >>> @gt.function
    ... def f(x):
    ...     with gt.init_scope():
    ...         v.assign(5.0)
    ...     return x * v
    >>> float(f(gt.constant(2.0)))
    10.0
    """
    # Both who is told of reads and writes, and where operations go.
    tokens = TRACER.set(None), TRACING.set(None)
    try:
        with scope_of(NOBODY):
            yield
    finally:
        TRACING.reset(tokens[1])
        TRACER.reset(tokens[0])


def executing_eagerly() -> bool:
    """Whether operations run at once (True) or are being traced into a function.

    >>> gt.executing_eagerly(), bool(gt.function(lambda: gt.executing_eagerly())())
    (True, False)
    """
    return TRACING.get() is None


def no_op(name: str | None = None) -> None:
    """Does nothing, as an operation.

    >>> gt.no_op()
    """


def group(*inputs: Any, name: str | None = None) -> None:
    """Accepted: the inputs have run already.

    >>> gt.group(gt.constant(1.0))
    """


def tuple(tensors: Iterable[TensorLike | None], control_inputs: object = None, name: str | None = None) -> list[Any]:
    """The tensors again, as a list; None entries stay None.

    >>> [t.numpy().item() for t in gt.tuple([gt.constant(1.0), gt.constant(2.0)])]
    [1.0, 2.0]
    """
    copies = [None if t is None else identity(t) for t in tensors]
    if all(t is None for t in copies):
        raise ValueError("tuple: at least one of the tensors must not be None")
    return copies


# -- printing ------------------------------------------------------------------------------------------------------


@at_run_time
def print(  # TensorFlow's name
    *inputs: Any,
    output_stream: str | TextIO | Callable[[str], object] | None = None,
    summarize: int = 3,
    sep: str = " ",
    end: str = os.linesep,
    name: str | None = None,
) -> None:
    """Write values to standard error: tensors with the first and last `summarize` entries of each axis.

    Args:
        inputs: tensors, variables, Python values, and structures of them.
        output_stream: a file object (default `sys.stderr`), a function that takes a string, or "file://path".
        summarize: how many entries to show at each end of an axis; -1 shows all.
        sep, end: as in Python's `print`.

    >>> import sys
    >>> gt.print("t =", gt.range(10), {"half": gt.constant(0.5)}, output_stream=sys.stdout)
    t = [0 1 2 ... 7 8 9] {'half': 0.5}
    """
    leaves = tree.flatten(inputs)
    if level := max((leaf.level for leaf in leaves if isinstance(leaf, BatchedTensor)), default=0):
        for row in _examples(leaves, level):  # of a map that was not seen to print
            print(*tree.pack_sequence_as(inputs, row), output_stream=output_stream, summarize=summarize, sep=sep, end=end)
        return
    text = sep.join(item if isinstance(item, str) else described(item, summarize) for item in inputs) + end
    if isinstance(output_stream, str):
        if not output_stream.startswith("file://"):
            raise ValueError(
                f"print: output_stream {output_stream!r} is not understood; give sys.stdout, a file object, a function "
                'that takes a string, or "file://" and a path'
            )
        with open(output_stream.removeprefix("file://"), "a", encoding="utf-8") as stream:
            stream.write(text)
    elif output_stream is None:
        sys.stderr.write(text)
    elif callable(output_stream):
        output_stream(text)
    else:
        output_stream.write(text)


def _examples(leaves: Sequence[Any], level: int) -> Iterator[list[Any]]:
    """The leaves of a structure for one example of a batch after the other."""
    batches = [isinstance(leaf, BatchedTensor) and leaf.level == level for leaf in leaves]
    for i in range(int(leaves[batches.index(True)]._data.shape[0])):
        yield [leaf._data[i] if flag else leaf for leaf, flag in zip(leaves, batches, strict=True)]


def described(value: object, summarize: int | None = 3) -> str:
    """A value as `gt.print` shows it."""
    if isinstance(value, (Tensor, Readable)):
        return _shown(np.asarray(convert(value).numpy()), -1 if summarize is None else summarize, 0)
    if isinstance(value, np.ndarray):
        return _shown(value, -1 if summarize is None else summarize, 0)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {described(item, summarize)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(described(item, summarize) for item in value) + "]"
    if isinstance(value, builtins.tuple):
        inner = ", ".join(described(item, summarize) for item in value)
        return f"({inner}{',' if len(value) == 1 else ''})"
    return repr(value)


def _shown(array: Array, summarize: int, depth: int) -> str:
    if isinstance(array, (str, bytes)) or array.ndim == 0:
        return _number(array if isinstance(array, (str, bytes)) else array[()])
    count = len(array)
    whole = summarize < 0 or count <= 2 * summarize
    head = range(count) if whole else range(summarize)
    tail = range(0) if whole else range(count - summarize, count)
    parts = [_shown(array[i], summarize, depth + 1) for i in head]
    if not whole:
        parts += ["...", *(_shown(array[i], summarize, depth + 1) for i in tail)]
    between = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " " * (depth + 1)
    return f"[{between.join(parts)}]"


def _number(value: str | bytes | np.generic | Array) -> str:
    if isinstance(value, (str, bytes)):
        return f'"{value.decode() if isinstance(value, bytes) else value}"'
    kind = value.dtype.kind
    if kind == "b":
        return str(int(value))
    if kind == "c":
        return f"({_number(value.real)},{_number(value.imag)})"
    if kind == "f":
        # the shortest of two widths that reads back as the same number
        digits, longest = {2: (4, 5), 4: (6, 9), 8: (15, 17)}[value.dtype.itemsize]
        short = f"{value:.{digits}g}"
        return short if value.dtype.type(short) == value or value != value else f"{value:.{longest}g}"
    return str(value)


def truth(condition: TensorLike, op: str) -> bool:
    """A Python bool, or a tensor or variable with one element and no axes, as a bool."""
    if isinstance(condition, (Tensor, Readable, np.ndarray)):
        tensor = convert(condition)
        if tensor.ndim:
            raise InvalidArgumentError(
                f"{op}: the predicate must be a scalar, got shape {list(tensor.shape)}; "
                "use gt.reduce_all(p) or gt.reduce_any(p)"
            )
        return bool(tensor)
    if callable(condition):
        raise TypeError(f"{op}: the predicate must be a value, not a function; call it: {op}(pred(), ...)")
    return bool(condition)


@at_run_time
def Assert(condition: TensorLike, data: Sequence[Any], summarize: int | None = None, name: str | None = None) -> None:  # noqa: N802  (TensorFlow's name)
    """Raise InvalidArgumentError with `data` in the message when the condition is False.

    >>> gt.Assert(gt.constant(3) > 2, [gt.constant(3)])
    """
    if not truth(condition, "Assert"):
        shown = "\n".join(described(item, 3 if summarize is None else summarize) for item in data)
        raise InvalidArgumentError(f"Assert: the condition is False. Data:\n{shown}")
