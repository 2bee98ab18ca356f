"""Which functions are converted: the user's. gradtape, NumPy, SciPy, the standard library and libraries that
`leave_alone` was told of run as they are."""

from __future__ import annotations

import collections
import contextlib
import os
import sysconfig
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE
from types import CodeType, FunctionType

import numpy as np

_NUMPY = os.path.dirname(os.path.abspath(np.__file__))
_GRADTAPE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PATHS = sysconfig.get_paths()
_INSTALLED = tuple(os.path.join(_PATHS[key], "") for key in ("purelib", "platlib"))
_LIBRARIES = tuple(os.path.join(folder, "") for folder in (_GRADTAPE, _NUMPY, os.path.join(os.path.dirname(_NUMPY), "scipy")))
_STANDARD = tuple(os.path.join(_PATHS[key], "") for key in ("stdlib", "platstdlib"))

SUSPENDS = CO_COROUTINE | CO_ASYNC_GENERATOR | CO_ITERABLE_COROUTINE
HIGHER_ORDER = frozenset({
    "case", "cond", "foldl", "foldr", "grad", "hessian", "hvp", "jacobian", "jvp", "map_fn", "recompute_grad", "scan",
    "switch_case", "value_and_grad", "vectorized_map", "vjp", "while_loop",
})  # fmt: skip

# What of the standard library only passes on what users give it: it is converted like their own code.
CONVERTED: dict[str, tuple[str, ...]] = {
    contextlib.__file__: (
        "contextmanager.", "ContextDecorator.__call__.", "_GeneratorContextManagerBase._",
    ),
    collections.__file__: ("ChainMap.", "Counter.", "UserDict.", "UserList."),
}  # fmt: skip

_TOLD: list[str] = []


def leave_alone(folder: str) -> None:
    """Functions of the library in this folder run as they are from now on."""
    _TOLD.append(os.path.join(os.path.abspath(folder), ""))


def left_alone(code: CodeType) -> bool:
    """Whether functions with this code always run as they are."""
    if bool(code.co_flags & SUSPENDS) or code.co_filename.startswith(tuple(_TOLD)):
        return True
    return of_libraries(code.co_filename) and not passes_on(code)


def passes_on(code: CodeType) -> bool:
    """Whether this is code of the standard library that is converted."""
    return code.co_qualname.startswith(CONVERTED.get(code.co_filename, ()))


def of_libraries(filename: str) -> bool:
    """Whether a file is of gradtape (or code that it made), NumPy, SciPy or the standard library."""
    if filename.startswith(("<frozen", "<gradtape", *_LIBRARIES)):
        return True
    return filename.startswith(_STANDARD) and not filename.startswith(_INSTALLED)


def of_user(filename: str | None) -> bool:
    """Whether a file is the user's own: not of an installed package, nor of the standard library."""
    return filename is not None and not filename.startswith(("<frozen", *_LIBRARIES, *_STANDARD, *_INSTALLED))


def calls_its_arguments(function: FunctionType) -> bool:
    """Whether this is a function of gradtape that calls the functions it is given."""
    return function.__name__ in HIGHER_ORDER and str(function.__module__).startswith(("gradtape.functions.", "gradtape.tape."))
