"""NumPy's protocols on tensors: `np.sin(t)`, `np.sum(t, axis=0)`, `array + t` are recorded like gradtape's own ops.
The array API namespace is attached here too.

A NumPy function with a rule runs that rule; one without raises and says where and how to leave the tape on purpose. It
never converts a tensor silently. `np.asarray(t)` and `np.array(t)` are that explicit way out. The tables load at first use.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert, twin
from gradtape.core.exits import asking_location
from gradtape.core.hooks import HOOKS
from gradtape.core.tensor import Readable, Tensor
from gradtape.core.typing import TensorLike
from gradtape.interop.array_namespace import array_namespace, from_dlpack as from_dlpack, to_device
from gradtape.ops import operators as operators  # binds Python's operators to tensors and variables
from gradtape.ops.elementwise import cast

# arguments that are harmless when they ask for what happens anyway
_HARMLESS: dict[str, tuple[Any, ...]] = {
    "out": (None,), "where": (True,), "casting": ("same_kind", "unsafe"), "order": ("K", "C"), "subok": (True,),
    "like": (None,),
}  # fmt: skip


@functools.cache
def numpy_rules() -> dict[Any, Any]:
    """What functions of NumPy that are written in Python are on tensors."""
    from gradtape.interop.numpy_creation import CREATION
    from gradtape.interop.numpy_functions import FUNCTIONS
    from gradtape.interop.numpy_linalg import LINALG
    from gradtape.interop.numpy_quantiles import QUANTILES
    from gradtape.interop.numpy_searching import SEARCHING
    from gradtape.interop.numpy_shapes import SHAPES
    from gradtape.interop.numpy_statistics import STATISTICS
    from gradtape.interop.numpy_updates import UPDATES

    return {**FUNCTIONS, **SHAPES, **UPDATES, **LINALG, **QUANTILES, **SEARCHING, **STATISTICS, **CREATION}


def scipy_rule(function: Any, first: Any) -> Callable[..., Any] | None:
    """What a function of SciPy that is written in Python is on tensors; of a method, `first` is its object, which is taken off.
    None if nothing is known."""
    from gradtape.interop import scipy_special, scipy_stats

    name, special, stats = function.__name__, sys.modules.get("scipy.special"), sys.modules.get("scipy.stats")
    if getattr(special, name, None) is function:
        return vars(scipy_special).get(name)
    for family in ("norm", "multivariate_normal", "t", "gamma", "beta", "poisson"):
        if stats is not None and getattr(stats, family) is first:
            return _without_first(getattr(getattr(scipy_stats, family), name, None))
    return None


def _without_first(rule: Callable[..., Any] | None) -> Callable[..., Any] | None:
    return None if rule is None else lambda _, *args, **kwargs: rule(*args, **kwargs)


HOOKS.scipy_rule = scipy_rule


def _label(function: Callable[..., Any]) -> str:
    home = {"numpy": "np", "numpy.linalg": "np.linalg", "numpy.fft": "np.fft"}.get(function.__module__, function.__module__)
    return f"{home}.{function.__name__}"


def _no_rule(label: str, detail: str = "") -> TypeError:
    return TypeError(
        f"{label} has no rule for gradtape tensors{detail}, called at {asking_location()}; it would detach the result from "
        f"every tape. Use a gradtape function, or leave the tape on purpose: {label}(t.numpy())"
    )


def _no_out(label: str) -> TypeError:
    return TypeError(
        f"{label}: a NumPy array cannot take the result of a computation with gradtape tensors, called at {asking_location()}; "
        "write y = a + t instead of a += t or out=a, make the array a tensor (gt.zeros(shape, dtype), np.zeros_like(x)), or "
        "leave the tape on purpose with t.numpy()"
    )


def _into(target: Tensor | Readable, result: TensorLike) -> Any:
    """`out=target`: the tensor gets the result as its new version, in its own dtype."""
    target[...] = result
    return target


def _numpys(value: object) -> Any:
    """Python's types mean to NumPy's functions what they mean to NumPy: `dtype=float` is float64."""
    return np.dtype(value) if value is float or value is int or value is complex or value is bool else value


def _harmless(name: str, value: object) -> bool:
    return any(value is known or (isinstance(value, str) and value == known) for known in _HARMLESS.get(name, ()))


def array_ufunc(self: Tensor | Readable, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """Tensor.__array_ufunc__: elementwise functions, and reductions, accumulations and outer products of them."""
    from gradtape.interop.numpy_ufuncs import ACCUMULATORS, REDUCERS, UFUNCS, outer
    from gradtape.interop.numpy_updates import MODES_AT, update_at

    label = f"np.{ufunc.__name__}"
    if method != "__call__":
        label += f".{method}"
    targets = tuple(options.pop("out", None) or ())
    if any(target is not None and not isinstance(target, (Tensor, Readable)) for target in targets):
        raise _no_out(label)
    rule = UFUNCS.get(ufunc)
    if rule is None and ufunc.__name__ == "clip":  # what the method clip of arrays calls; NumPy has no public name for it
        rule, label = numpy_rules()[np.clip], "np.clip"
    # A ufunc of another library that has the name of one of SciPy's is taken for it: SciPy is not imported to ask.
    if rule is None and np.__dict__.get(ufunc.__name__) is not ufunc:
        from gradtape.interop import scipy_special

        rule, label = vars(scipy_special).get(ufunc.__name__), ufunc.__name__
        if getattr(sys.modules.get("scipy.special"), label, None) is ufunc:
            label = f"scipy.special.{label}"
    dtype = _numpys(options.pop("dtype", None))
    if method == "reduce" and ufunc in REDUCERS:
        axis, keepdims = options.pop("axis", 0), options.pop("keepdims", False)
        rule = functools.partial(REDUCERS[ufunc], axis=axis, keepdims=keepdims)
        inputs = tuple(convert(x) for x in inputs)
    elif method == "accumulate" and ufunc in ACCUMULATORS:
        rule = functools.partial(ACCUMULATORS[ufunc], axis=options.pop("axis", 0))
    elif method == "outer" and rule is not None:
        rule = functools.partial(outer, rule)
    elif method == "at" and ufunc in MODES_AT and len(inputs) == 3:
        return update_at(ufunc, *inputs)
    elif method != "__call__":
        rule = None
    if rule is None:
        raise _no_rule(label)
    for name, value in options.items():
        if not _harmless(name, value):
            raise _no_rule(label, f" with {name}={value!r}")
    if dtype is not None:
        inputs = tuple(cast(x, dtype) for x in inputs)
    result = rule(*inputs)
    if not targets:
        return result
    results = result if isinstance(result, tuple) else (result,)
    written = tuple(r if t is None else _into(t, r) for r, t in zip(results, targets, strict=True))
    return written if isinstance(result, tuple) else written[0]


def array_function(
    self: Tensor | Readable, function: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Tensor.__array_function__: everything in NumPy that is not a ufunc."""
    if not all(issubclass(t, (Tensor, Readable, np.ndarray, np.generic)) for t in types):
        return NotImplemented
    label = _label(function)
    rule = numpy_rules().get(function)
    if rule is None:
        raise _no_rule(label)
    parameters = _parameters(rule)
    args = tuple(_numpys(value) for value in args)
    options = {}
    for name, value in kwargs.items():
        if name == "out":
            continue
        if name in parameters.parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.parameters.values()):
            options[name] = _numpys(value)
        elif not _harmless(name, value):
            raise _no_rule(label, f" with {name}={value!r}")
    try:
        bound = parameters.bind(*args, **options)
    except TypeError as error:
        raise TypeError(f"{label} on gradtape tensors, called at {asking_location()}: {error}") from None
    target = bound.arguments.pop("out", None)
    target = kwargs.get("out") if target is None else target
    if target is None:
        return _own(rule(*args, **options), args)
    if not isinstance(target, (Tensor, Readable)):
        raise _no_out(label)
    return _into(target, rule(*bound.args, **bound.kwargs))


def _own(result: Any, args: tuple[Any, ...]) -> Any:
    """The result as tensor objects of its own: a rule with nothing to do may give back its argument."""
    if result.__class__ in (list, tuple):
        return type(result)(_own(part, args) for part in result)
    # The caller may write into the result: it must not be the tensor that was given.
    given = (item for arg in args for item in (arg if isinstance(arg, (list, tuple)) else (arg,)))
    return twin(result) if any(result is item for item in given) else result


@functools.cache
def _parameters(rule: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(rule)


def attach(cls: Any) -> None:
    """Give a class NumPy's protocols."""
    cls.__array_ufunc__ = array_ufunc
    cls.__array_function__ = array_function
    cls.__array_namespace__ = array_namespace
    cls.to_device = to_device


attach(Tensor)
attach(Readable)
