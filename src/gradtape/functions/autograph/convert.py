"""From a function to its converted form, once per code object.

A converted function shares globals, closure cells, defaults and names with the original. What cannot be converted is
returned as it is; if that is because there is no source, it is said once. Invariant: converting twice changes nothing.
"""

from __future__ import annotations

import builtins
import functools
import warnings
from collections.abc import Callable
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from gradtape.errors import AutographWarning
from gradtape.functions.autograph import build, kept_conversions, policy
from gradtape.functions.autograph.bindings import Bindings
from gradtape.functions.autograph.code_registry import ENTRIES, Entry, note
from gradtape.functions.autograph.converted_code import converted_code
from gradtape.functions.autograph.source import find, text_of
from gradtape.trace.effects import active

KEPT = "ag__converted"
BUILTINS = frozenset(dir(builtins))


class Conversion:
    """The code that replaces a code object, and how to make functions of it."""

    __slots__ = ("builtins", "code", "free")

    def __init__(self, code: CodeType, original: CodeType) -> None:
        self.code = code
        places = {name: place for place, name in enumerate(original.co_freevars)}
        # for each free variable its place in the original's closure; -1 is the run time, -2 the bindings
        self.builtins = tuple(sorted(_names(code) & BUILTINS))  # read as they are: nobody is told at each read
        self.free = tuple({build.RUNTIME: -1, build.SCOPE: -2}.get(n, places.get(n, -1)) for n in code.co_freevars)

    def function(self, original: FunctionType) -> FunctionType:
        """The converted form of one function."""
        cells = original.__closure__ or ()
        scope = CellType(
            Bindings(original.__name__, original.__globals__, dict(zip(original.__code__.co_freevars, cells, strict=True)))
        )
        closure = tuple([cells[i] if i >= 0 else scope if i == -2 else _runtime() for i in self.free])
        converted = FunctionType(self.code, original.__globals__, original.__name__, original.__defaults__, closure)
        if original.__kwdefaults__:
            converted.__kwdefaults__ = original.__kwdefaults__
        return converted


@functools.cache
def _runtime() -> CellType:
    from gradtape.functions.autograph import ag

    return CellType(ag)


def converted_function(function: FunctionType, quiet: bool = False) -> Any:
    """The converted form of a plain function; the function itself if it is not to be converted."""
    code = function.__code__
    # `functools.wraps` copies the attributes of a function to another: the identity says whose form it is. New defaults need a
    # new one.
    kept = function.__dict__.get(KEPT)
    if kept is not None and kept[0] == id(function) and kept[1] is code and kept[2].__defaults__ is function.__defaults__:
        _note_builtins(function, kept[3])
        return kept[2]
    entry = ENTRIES.get(id(code))
    if entry is None:
        entry = _decide(function, quiet)
    if entry.conversion is not None:
        converted = entry.conversion.function(function)
        # kept with the function, so that it dies with it; the identity tells whose it is where attributes are copied
        function.__dict__[KEPT] = (id(function), code, converted, entry.conversion)
        _note_builtins(function, entry.conversion)
        return converted
    return _converting_arguments(function) if entry.higher_order else function


def _note_builtins(function: FunctionType, conversion: Conversion) -> None:
    """What a converted function means by the names of builtins is guarded like its other names; defaults are from outside."""
    tracer = active()
    if tracer is not None:
        tracer.guards.builtins(function.__globals__, conversion.builtins)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            # a mutable default is one object for all calls: what the function reads of it and writes to it is state from
            # outside
            if isinstance(default, (list, dict, set)):
                tracer.known(default)


def _names(code: CodeType) -> set[str]:
    """The names that a code object, and those inside it, may find in its module."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _decide(function: FunctionType, quiet: bool) -> Entry:
    code = function.__code__
    if policy.left_alone(code):
        return note(code, Entry(higher_order=policy.calls_its_arguments(function)))
    text = text_of(code, function.__globals__)
    key = kept_conversions.key_of(code, text, function.__globals__)
    module = kept_conversions.load(key)
    if module is None:
        # here, as it imports all passes over trees, which functions found on disk do without
        from gradtape.functions.autograph.transform import rewritten

        try:
            module = rewritten(code, text, function.__globals__)
        except RecursionError:
            _say(function, "it is nested too deeply to be rewritten")
            return note(code, Entry())
        if module is None:
            if not quiet:
                _say(function, "its source is not available (write it in a file, a notebook or IPython)")
            return note(code, Entry())
        kept_conversions.store(key, module)
    return note(code, Entry(Conversion(converted_code(module, code), code)))


def _say(function: FunctionType, reason: str) -> None:
    code = function.__code__
    warnings.warn_explicit(
        f"AutoGraph does not convert {function.__qualname__}: {reason}. It is traced as it is: its `if`, `while` and `for` "
        "cannot depend on tensors. Mark it with gt.autograph.experimental.do_not_convert to silence this warning",
        AutographWarning, code.co_filename, code.co_firstlineno,
    )  # fmt: skip


def _converting_arguments(function: Any) -> Any:
    """A function of gradtape that calls what it is given: it gets converted functions."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*(_within(arg) for arg in args), **{name: _within(arg) for name, arg in kwargs.items()})

    return call


def _within(value: Any) -> Any:
    if value.__class__ in (list, tuple):
        return type(value)(_within(part) for part in value)
    if value.__class__ is dict:
        return {key: _within(part) for key, part in value.items()}
    return convert(value) if value.__class__ in (FunctionType, MethodType, functools.partial) else value


def convert(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same meaning whose loops and branches can be staged.

    Methods, `functools.partial` objects and callable objects are converted too. Classes, builtins, generators and functions
    of libraries are returned as they are.

    >>> def sign(x):
    ...     return 1 if x > 0 else -1
    >>> convert(sign)(-3)
    -1
    """
    if isinstance(function, FunctionType):
        converted = converted_function(function)
        if converted.__class__ is FunctionType and converted is not function and converted.__code__ is not function.__code__:
            functools.update_wrapper(converted, function)
            for name in ("__wrapped__", KEPT):  # nothing is wrapped: it is the function, in another form
                converted.__dict__.pop(name, None)
        return converted
    if isinstance(function, MethodType):
        inner = convert(function.__func__)
        return function if inner is function.__func__ else MethodType(inner, function.__self__)
    if isinstance(function, functools.partial):
        inner = convert(function.func)
        return function if inner is function.func else functools.partial(inner, *function.args, **function.keywords)
    called = getattr(type(function), "__call__", None)  # noqa: B004  (it is called, not only asked for)
    if not isinstance(function, type) and isinstance(called, FunctionType):
        inner = convert(called)
        return function if inner is called else MethodType(inner, function)
    return function


def do_not_convert(func: Callable[..., Any] | None = None) -> Any:
    """Mark a function to be traced as it is: AutoGraph does not rewrite it.

    >>> @gt.autograph.experimental.do_not_convert
    ... def plain(x):
    ...     return x + 1
    >>> gt.autograph.to_code(plain)
    Traceback (most recent call last):
    ...
    ValueError: AutoGraph does not convert plain: it was marked with do_not_convert, or belongs to a library
    """
    if func is None:
        return do_not_convert
    plain = func.__func__ if isinstance(func, MethodType) else func
    if isinstance(plain, FunctionType):
        note(plain.__code__, Entry())
        plain.__dict__.pop(KEPT, None)
        return func

    @functools.wraps(func)
    def as_it_is(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return as_it_is


def to_graph(
    entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None
) -> Callable[..., Any]:
    """The converted function: inside a `gt.function` its loops and branches are staged, elsewhere it does what `entity` does.

    >>> def relu(x):
    ...     return x if x > 0 else 0.0 * x
    >>> converted = gt.autograph.to_graph(relu)
    >>> float(gt.function(converted, autograph=False)(gt.constant(-2.0)))
    -0.0
    """
    if not callable(entity) or isinstance(entity, type):
        raise TypeError(f"to_graph needs a Python function, got {entity!r}")
    converted: Callable[..., Any] = convert(entity)
    return converted


def to_code(entity: Callable[..., Any], recursive: bool = True, experimental_optional_features: Any = None) -> str:
    """The source of the converted form of a function, for reading.

    `recursive` and `experimental_optional_features` are TensorFlow's and change nothing: functions are converted when they
    are called.

    >>> def first(x):
    ...     return x[0]
    >>> print(gt.autograph.to_code(first))
    def first(x):
        return ag__.item(x, 0)
    """
    function = _plain_function(entity)
    if function is None:
        raise TypeError(f"to_code needs a Python function, got {entity!r}")
    code = function.__code__
    known = ENTRIES.get(id(code))
    source = find(code, text_of(code, function.__globals__))
    if source is None:
        raise ValueError(f"the source of {function.__qualname__} is not available")
    if policy.left_alone(code) or (known is not None and known.conversion is None):
        raise ValueError(
            f"AutoGraph does not convert {function.__name__}: it was marked with do_not_convert, or belongs to a library"
        )
    from gradtape.functions.autograph.transform import as_text

    return as_text(source, code, function.__globals__)


def _plain_function(entity: Any) -> FunctionType | None:
    """The function behind a method, partial, `gt.function` or callable object."""
    if isinstance(entity, FunctionType) or entity is None:
        return entity
    if isinstance(entity, MethodType):
        return _plain_function(entity.__func__)
    if isinstance(entity, functools.partial):
        return _plain_function(entity.func)
    if isinstance(entity, type):
        return None
    called = getattr(entity, "python_function", None) or getattr(type(entity), "__call__", None)  # noqa: B004
    return _plain_function(called) if isinstance(called, (FunctionType, MethodType, functools.partial)) else None
