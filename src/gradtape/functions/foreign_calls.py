"""What a Python loop that is tried as one loop of the program may use of code that is not converted.

The body of such a loop is traced once for all its turns. Converted code notes what it writes, so that what a turn changes is
state of the loop. Code of C, of libraries and of generators is out of sight: it may draw a number, take an item, count, write.
So it is used only if it is known to change nothing and to give the same each time; the tables below say what is. Anything else
is refused, and the loop is traced turn by turn. Invariant: it is refused before it has run.
"""

from __future__ import annotations

import builtins
import collections
import operator
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from gradtape.core.tensor import Readable, Tensor
from gradtape.functions.impure import draws
from gradtape.trace.effects import active, refuse_in_trial, trying

# modules whose functions change nothing, but for those named below
STEADY = frozenset({
    "_bisect", "_collections_abc", "_functools", "_operator", "_struct", "abc", "binascii", "bisect", "builtins", "cmath",
    "collections", "copy", "dataclasses", "enum", "fractions", "functools", "inspect", "itertools", "keyword", "math",
    "numbers", "numpy", "operator", "posixpath", "re", "scipy", "statistics", "string", "struct", "textwrap", "types",
    "typing", "zlib",
})  # fmt: skip
INPLACE = tuple(name for name in dir(operator) if name[0] == "i" and hasattr(operator, name[1:]))
CHANGING = frozenset({
    *("__import__", "breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit"),
    *("setitem", "delitem", "__setitem__", "__delitem__", *INPLACE, *(f"__{name}__" for name in INPLACE), "pack_into"),
    *("insort", "insort_left", "insort_right"),
    *("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "seterr", "setbufsize", "save", "savetxt"),
    *("fill", "sort", "partition", "resize", "itemset", "setfield", "setflags", "byteswap", "tofile", "dump", "at"),
}) - {"sorted"}  # fmt: skip
DRAWING = ("numpy.random", "scipy.stats")
FIXED: tuple[type, ...] = (
    str, bytes, int, float, complex, tuple, frozenset, range, slice, np.generic, np.dtype, np.ndarray, np.ufunc, type(None),
    type({}.keys()), type({}.values()), type({}.items()),
)  # fmt: skip
READERS = (operator.itemgetter, operator.attrgetter)
NOTED = (list, dict, set, collections.deque)  # what converted code notes the changes of


def admitted(callee: Any, instead: Any = None) -> Any:
    """Something that is not converted, about to be called in a loop under trial, or what is called `instead`; as a function
    that looks at its arguments first."""
    name = getattr(callee, "__name__", type(callee).__name__)
    owner = getattr(callee, "__self__", None)
    if owner is not None and not isinstance(owner, ModuleType):
        known = _is_gradtapes(type(owner)) or _known_method(owner, name)
    elif isinstance(callee, type):
        known = not draws(callee)
    elif "." in getattr(callee, "__qualname__", ""):  # a method, or a function inside another
        known = _is_gradtapes(callee)
    else:
        module = str(getattr(callee, "__module__", None) or type(callee).__module__)
        known = isinstance(callee, (np.ufunc, *READERS)) or _is_gradtapes(type(callee))
        steady = module.partition(".")[0] in STEADY and not module.startswith(DRAWING)
        known = known or (steady and name not in CHANGING and not isinstance(callee, operator.methodcaller))
    if not known:
        refuse_in_trial(f"`{name}` is called, which may do and give something else in each turn")
    return _made_here(callee) if callee is builtins.iter else looking_at_arguments(callee, instead)


def _known_method(owner: Any, name: str) -> bool:
    if isinstance(owner, type):
        return owner.__module__ in ("builtins", "numpy")
    return isinstance(owner, (*FIXED, *NOTED)) and (isinstance(owner, NOTED) or name not in CHANGING)


def _is_gradtapes(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("gradtape.")


def looking_at_arguments(callee: Any, instead: Any = None) -> Callable[..., Any]:
    """A function that is not converted, given no iterator that other turns see too, and nothing to write to."""
    # (a ufunc takes what it writes to as further positional arguments, too)
    most = callee.nin if isinstance(callee, np.ufunc) else None

    def called(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            advancing(value)
        if kwargs.get("out") is not None or (most is not None and len(args) > most):
            refuse_in_trial(f"`{callee.__name__}` writes to what it is given as `out`")
        return (instead or callee)(*args, **kwargs)

    return called


def _made_here(callee: Any) -> Callable[..., Any]:
    """A function that gives an iterator of its own."""
    look = looking_at_arguments(callee)
    return lambda *args, **kwargs: own_iterator(look(*args, **kwargs))


# -- iterators -----------------------------------------------------------------------------------------------------------


def own_iterator(iterator: Any) -> Any:
    """An iterator that is made now: the turn that makes it may use it up."""
    if trying():
        trials = active().trials
        trials.iterators[id(iterator)] = trials.depth, iterator
    return iterator


def advancing(value: Any) -> None:
    """An iterator is about to be used; in a loop under trial, only one that the same turn has made."""
    if not trying() or not isinstance(value, Iterator) or isinstance(value, (Tensor, Readable)):
        return
    trials = active().trials
    depth, _ = trials.iterators.get(id(value), (0, None))
    if depth != trials.depth:
        refuse_in_trial(f"a {type(value).__name__} is used up from turn to turn")


# -- objects -------------------------------------------------------------------------------------------------------------


def changing(target: Any) -> None:
    """Something is about to be changed in place; in a loop under trial, only what converted code notes the changes of."""
    if trying() and not isinstance(target, (*NOTED, Tensor, Readable)) and not _is_gradtapes(type(target)):
        refuse_in_trial(f"a {type(target).__name__} is changed in place")


def updating(target: Any, operation: str) -> None:
    """`target += value` and its kin, of something that is no noted container: it may change the target."""
    if trying() and getattr(type(target), f"__{operation}__", None) is not None:
        changing(target)


def reading_key(target: Any, key: Any) -> None:
    """A dict of another class makes entries that are not there as it likes."""
    if target.__class__ is not dict and isinstance(target, dict) and hasattr(target, "__missing__") and key not in target:
        refuse_in_trial(f"a {type(target).__name__} gets a new entry as it is read")
