"""Python called from programs, by the user: `py_function` on tensors, `numpy_function` on arrays, `timestamp`.

What such a call is in a program is said in `ops/python_calls.py`. Invariant: nothing of it runs while a function is traced.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.core.dispatch import apply, convert
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.core.record import TRACING
from gradtape.core.tensor import Tensor
from gradtape.core.typing import TensorLike
from gradtape.dtypes import float64
from gradtape.ir.types import TensorSpec
from gradtape.ops.python_calls import NUMPY_FUNCTION, PY_FUNCTION, TypesOut, typed_outputs


def py_function(
    func: Callable[..., Any] | None = None, inp: Sequence[TensorLike] | None = None, Tout: TypesOut = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """`func(*inp)` on tensors; what it does with gradtape operations is recorded and differentiated.

    A compiled function calls it each time it runs: it may look at values, change Python objects, draw from `random`. Its
    derivative needs the tape around the compiled function, not inside.

    Without func it is a decorator: `@gt.py_function(Tout=gt.float32)`.

    >>> float(gt.py_function(lambda x: x * 2.0, [3.0], gt.float32))
    6.0
    """
    if func is None:
        return lambda f: functools.wraps(f)(lambda *args: py_function(f, args, Tout))
    values = tuple(convert(x) for x in (() if inp is None else inp))
    if TRACING.get() is None:
        return typed_outputs(func(*values), Tout)
    dtypes = () if Tout is None else tuple(Tout) if isinstance(Tout, (list, tuple)) else (Tout,)
    outputs = in_program(PY_FUNCTION, values, func, dtypes)
    return list(outputs) if Tout is None or isinstance(Tout, (list, tuple)) else outputs[0]


def in_program(op: Op, values: tuple[Any, ...], func: Callable[..., Any], dtypes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The operation of a program, if one is being traced: it runs with the program, not while tracing."""
    attrs = {"func": func, "dtypes": dtypes}
    if (trace := TRACING.get()) is not None and not any(x.wraps for x in values):
        return tuple(trace.emit(op, values, attrs))
    outputs = tuple(apply(op, *values, **attrs))
    for out in outputs if HOOKS.array_kind is not None else ():
        if not out.wraps:
            out._node = HOOKS.array_kind  # Python may give something else on each of several ranks
    return outputs


def numpy_function(
    func: Callable[..., Any] | None = None, inp: Sequence[TensorLike] | None = None, Tout: TypesOut = None,
    stateful: bool = True, name: str | None = None,
) -> Any:  # fmt: skip
    """`func` on NumPy arrays; it has no derivative (use `custom_gradient` around it to give it one).

    `Tout` names the dtype of the result, or several; with a `gt.TensorSpec` also the shape, which a compiled function needs to
    become machine code.

    >>> import numpy as np
    >>> gt.numpy_function(np.sort, [gt.constant([3.0, 1.0])], gt.TensorSpec([None], gt.float32)).numpy()
    array([1., 3.], dtype=float32)

    Without func it is a decorator: `@gt.numpy_function(Tout=gt.float32)`.
    """
    if func is None:
        return lambda f: functools.wraps(f)(lambda *args: numpy_function(f, args, Tout))
    several = isinstance(Tout, (list, tuple))
    dtypes = tuple(Tout) if isinstance(Tout, (list, tuple)) else (Tout,)
    values = tuple(convert(x) for x in (() if inp is None else inp))
    outputs = in_program(NUMPY_FUNCTION, values, func, dtypes)
    return list(outputs) if several else outputs[0]


def timestamp(name: str | None = None) -> Tensor:
    """The seconds since 1970, as float64; in a program when it runs.

    >>> float(gt.timestamp()) > 1.7e9
    True
    """
    seconds: Tensor = numpy_function(lambda: np.float64(time.time()), [], TensorSpec([], float64))
    return seconds
