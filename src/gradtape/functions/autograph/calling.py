"""The run time of calls: what a callee becomes before the user's frame calls it.

Functions are converted (`convert.py`), builtins with a staged meaning are replaced by one that looks at its arguments
(`builtin_calls.py`), methods that change a list, dict or set announce the write, everything else is called as it is.
"""

from __future__ import annotations

import builtins
import dataclasses
import functools
import inspect
import operator
import sys
import weakref
from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, MethodType, MethodWrapperType, WrapperDescriptorType
from typing import Any

import numpy as np

from gradtape.core.tensor import Tensor
from gradtape.dtypes import BY_NAME, DType, as_dtype
from gradtape.functions.at_run_time import at_run_time
from gradtape.functions.autograph.bindings import Bindings
from gradtape.functions.autograph.builtin_calls import OVERLOADS, container_method
from gradtape.functions.autograph.code_registry import ENTRIES
from gradtape.functions.autograph.convert import converted_function
from gradtape.functions.autograph.numpy_calls import numpy_call, scipy_call
from gradtape.functions.autograph.reading import attr, item, not_none, set_plain_attr
from gradtape.functions.foreign_calls import admitted, looking_at_arguments
from gradtape.functions.impure import tells, warn_frozen
from gradtape.functions.outside_containers import CHANGEABLE, calling
from gradtape.functions.special_methods import original
from gradtape.functions.staging.places import MISSING, Attribute
from gradtape.functions.staging.progress import bar_call
from gradtape.functions.staging.staged_values import Maybe, StagedItems, Undefined, staged_items
from gradtape.trace.effects import active, refuse_in_trial, trying
from gradtape.trace.weak import WeakTensor, default_number
from gradtape.tree import flatten

GIVEN = (list, tuple, dict, Maybe)
LIBRARY = "ag__library"  # where a function of gradtape keeps what is called instead
LIBRARIES = {"gradtape", "numpy", "scipy", *sys.stdlib_module_names}
OPENING = ("stack", "concat", "add_n")  # what takes all items of a list at once
STATIC = (list, dict, set, str, tuple)
UNBOUND = (MethodDescriptorType, WrapperDescriptorType)  # methods of C, as `list.append` and `object.__setattr__`


def _referred(reference: Any) -> Any:
    """What a weak reference leads to is from outside, as it is."""
    target = reference()
    return target if id(reference) not in active().external else active().known(target)


def _attributes(getter: Any, target: Any) -> Any:
    """`operator.attrgetter(...)(target)`."""
    values = [functools.reduce(attr, name.split("."), target) for name in getter.__reduce__()[1]]
    return values[0] if len(values) == 1 else tuple(values)


def _items_got(getter: Any, target: Any) -> Any:
    """`operator.itemgetter(...)(target)`."""
    values = [item(target, key) for key in getter.__reduce__()[1]]
    return values[0] if len(values) == 1 else tuple(values)


def _method_called(caller: Any, target: Any) -> Any:
    """`operator.methodcaller(...)(target)`."""
    factory, rest = caller.__reduce__()
    if isinstance(factory, partial):  # with keywords
        return method(target, factory.args[0])(*rest, **factory.keywords)
    return method(target, rest[0])(*rest[1:])


REACHING: dict[type, Any] = {
    weakref.ref: _referred, operator.attrgetter: _attributes, operator.itemgetter: _items_got,
    operator.methodcaller: _method_called,
}  # fmt: skip


def conv(callee: Any) -> Any:
    """What to call instead of `callee`."""
    kind = callee.__class__
    if kind is FunctionType:
        return _function(callee)
    if kind is MethodType:
        function = callee.__func__
        if (tracer := active()) is not None:
            if tells(callee, tracer.external):
                return at_run_time(callee)
            warn_frozen(callee, tracer.external)
        # (the same object where nothing was converted: `is` comparisons of the user's methods still hold)
        converted = conv(function)
        return callee if converted is function else MethodType(converted, callee.__self__)
    if kind is partial:
        converted = conv(callee.func)
        return callee if converted is callee.func else partial(converted, *callee.args, **callee.keywords)
    if (tracer := active()) is not None:
        if isinstance(callee, BuiltinFunctionType):
            return _builtin(callee, tracer)
        if kind is Maybe:
            return conv(not_none(callee, TypeError, "is not callable"))
        if kind is type or (isinstance(callee, type) and kind.__call__ is type.__call__):  # (an abstract base class, too)
            return bar_call(callee) or _in_place_of(callee, OVERLOADS.get(callee) or _constructor(callee), tracer)
        # `list.append(values, v)`: bound now, it is the method whose writes are announced
        if kind in UNBOUND:
            return lambda target, *args, **kwargs: conv(callee.__get__(target, type(target)))(*args, **kwargs)
        if kind is MethodWrapperType:
            return _method_wrapper(callee, tracer)
        if (reaching := REACHING.get(kind)) is not None:
            return partial(reaching, callee)
        if kind.__module__ == "numpy":
            return _in_place_of(callee, numpy_call(callee), tracer)
    # a callable object of the user's class: its `__call__`, not what stands in for it while the trace lasts
    function = original(getattr(kind, "__call__", None))  # noqa: B004  (it is called, not only asked for)
    if function.__class__ is FunctionType:
        converted = converted_function(function)
        if converted is not function:
            return MethodType(converted, callee)
    return _foreign(callee, tracer)


def _foreign(callee: Any, tracer: Any) -> Any:
    """What is called as it is. Arrays from outside that it is given may be looked at and changed."""
    if tracer is None:
        return callee
    callee = calling(tracer, callee, admitted(callee) if tracer.trials.depth else None)
    return tracer.arrays.calling(callee) if tracer.arrays.known else callee


def _function(callee: Any) -> Any:
    # `library` keeps what it makes on the function; a copy of the function (functools.wraps) has the same `__dict__`
    kept = callee.__dict__.get(LIBRARY)
    if kept is not None and kept.__closure__[0].cell_contents is callee and active() is not None:
        return kept
    converted = converted_function(callee)
    if converted is not callee or ENTRIES[id(callee.__code__)].converted or (tracer := active()) is None:
        return converted
    if (overload := OVERLOADS.get(callee)) is not None:
        return overload
    home = str(callee.__module__).partition(".")[0]
    if home == "gradtape":
        return library(callee)
    if home == "tqdm" and (bar := bar_call(callee)) is not None:
        return bar
    if tells(callee, tracer.external):
        return at_run_time(callee)
    warn_frozen(callee, tracer.external)
    if home in ("numpy", "scipy"):
        return _in_place_of(callee, numpy_call(callee) if home == "numpy" else scipy_call(callee), tracer)
    # what a program was traced with is guarded as far as it is seen; of this function nothing is, and `explain` says so
    if home not in LIBRARIES:
        tracer.guards.unguarded[f"what `{callee.__name__}` reads (it is not converted)"] = None
    return _foreign(converted, tracer)


def _builtin(callee: Any, tracer: Any) -> Any:
    if isinstance(callee.__self__, CHANGEABLE):
        method = container_method(tracer, callee)
        return looking_at_arguments(method) if tracer.trials.depth else method
    if tells(callee, tracer.external):
        return at_run_time(callee)
    warn_frozen(callee, tracer.external)
    return _in_place_of(callee, OVERLOADS.get(callee) or numpy_call(callee), tracer)


def _method_wrapper(callee: Any, tracer: Any) -> Any:
    if isinstance(callee.__self__, CHANGEABLE):
        return container_method(tracer, callee)
    if callee.__name__ == "__setattr__":
        return partial(set_plain_attr, callee.__self__)
    return _foreign(callee, tracer)


def _in_place_of(callee: Any, overload: Any, tracer: Any) -> Any:
    if overload is callee:
        if callee.__class__ is not type:
            return _foreign(callee, tracer)
        overload = calling(tracer, callee)
    if not tracer.trials.depth:
        return overload
    return looking_at_arguments(callee, overload) if callee in OVERLOADS else admitted(callee, overload)


def library(callee: Any) -> Any:
    """A function of gradtape: containers it is given are given as the program knows them."""
    name = callee.__name__
    # operations; not methods that know a dtype of their own (TensorArray.write), nor what takes the user's containers
    of_tensors = callee.__module__.startswith(("gradtape.ops.", "gradtape.core.")) and callee.__qualname__ == name

    def called(*args: Any, **kwargs: Any) -> Any:
        if name in OPENING and args and args[0].__class__ is list:
            args = (_opened(args[0]), *args[1:])
        for arg in args:
            if arg.__class__ in GIVEN:
                args = tuple([_given(a) if a.__class__ in GIVEN else a for a in args])
                break
        for arg in kwargs.values():
            if arg.__class__ in GIVEN:
                kwargs = {k: _given(a) if a.__class__ in GIVEN else a for k, a in kwargs.items()}
                break
        if of_tensors or trying():
            args, kwargs = numbers_given(name, args, kwargs)
        if trying():
            return looking_at_arguments(callee)(*args, **kwargs)
        return callee(*args, **kwargs)

    if getattr(sys.modules.get(callee.__module__), callee.__name__, None) is callee:  # it stays: so may this
        callee.__dict__[LIBRARY] = called
    return called


def _opened(values: list[Any]) -> list[Any]:
    """A list that a Python loop has filled, as the program has it."""
    tracer = active()
    items: Any = None if tracer is None else tracer.trials.whole(values)
    return values if items is None else [StagedItems(items, len(values))]


QUOTIENTS = frozenset({"divide", "truediv", "divide_no_nan"})
# the kinds of tensors, as NumPy has them, that a Python number takes the dtype of
DECIDING: dict[type, str] = {bool: "biufcV", int: "iufcV", float: "fcV", complex: "fcV"}


def numbers_given(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a library function: where no tensor decides the dtype of a Python number, it has the one that such numbers
    get as tensors."""
    values = [*args, *kwargs.values()]
    # most calls have no number of the loop among their arguments
    if not any(isinstance(v, WeakTensor) or v.__class__ in (list, tuple) for v in values):
        return args, kwargs
    # a dtype decides, and nothing is rounded before it does; but `cast` is given a tensor
    if name != "cast" and any(_is_dtype(value) for value in values):
        return args, kwargs
    parts = [part for value in values for part in (flatten(value) if value.__class__ in (list, tuple) else (value,))]
    if not any(isinstance(part, WeakTensor) for part in parts):
        return args, kwargs
    strong = [p.dtype for p in parts if isinstance(p, (Tensor, np.ndarray)) and not isinstance(p, WeakTensor)]
    kinds = {as_dtype(dtype).dtype.kind for dtype in strong}
    if kinds and name in QUOTIENTS:  # they convert the tensor, before it meets the number
        return args, kwargs

    def given(value: Any) -> Any:
        if isinstance(value, WeakTensor):
            if name == "cast" and value.python_type is int:  # what does not fit into 32 bits is converted to 64 in eager code
                return value.strong()
            return value if kinds & set(DECIDING[value.python_type]) else default_number(value)
        if (value.__class__ is list and staged_items(value) is None) or value.__class__ is tuple:
            return type(value)([given(v) for v in value])
        return value

    return tuple([given(a) for a in args]), {k: given(a) for k, a in kwargs.items()}


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (DType, np.dtype, type)) or (value.__class__ is str and value in BY_NAME)


def _given(container: Any) -> Any:
    tracer = active()
    return container if tracer is None else tracer.given(container)


def call(callee: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
    """Call something as converted code does."""
    return conv(callee)(*args, **(kwargs or {}))


def method(target: Any, name: str) -> Any:
    """What `target.name(...)` calls."""
    if target.__class__ in STATIC:
        return conv(getattr(target, name))
    return conv(attr(target, name))


def _constructor(cls: type) -> Any:
    """A user's class: its `__init__` is converted. Classes that are made in another way are called as they are."""
    if (tracer := active()) is not None:
        tracer.classes.meet(cls)
    init = cls.__init__  # type: ignore[misc]
    new: Any = cls.__new__
    # a named tuple, an enumeration, a class of C: its own way of making objects is not to be repeated here
    if new is not object.__new__ or init.__class__ is not FunctionType:
        return cls
    converted = converted_function(init, quiet=True)
    if converted is init:
        return partial(_dataclass, cls) if dataclasses.is_dataclass(cls) else cls

    def construct(*args: Any, **kwargs: Any) -> Any:
        # what `type.__call__` does, with the converted `__init__`: so attributes that are set in it are seen
        instance: Any = object.__new__(cls)
        result = converted(instance, *args, **kwargs)
        if result is not None:
            raise TypeError(f"__init__() should return None, not '{type(result).__name__}'")
        return instance

    return construct


def _dataclass(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """An object of a dataclass, whose `__init__` has no source: factories of its fields are called as converted code does."""
    try:
        given = inspect.signature(cls.__init__).bind_partial(None, *args, **kwargs).arguments
    except TypeError:
        return cls(*args, **kwargs)  # its own words
    for field in dataclasses.fields(cls):
        if field.init and field.default_factory is not dataclasses.MISSING and field.name not in given:
            kwargs[field.name] = conv(field.default_factory)()
    instance = cls(*args, **kwargs)
    # Its own `__init__`, made by Python from the fields, is no converted code, so nobody noted what it set: a branch that is
    # undone would leave the object with tensors that are the branch's.
    # (what is the library's is part of the program, and stays when the trace is undone)
    attributes = {} if cls.__module__.partition(".")[0] == "gradtape" else getattr(instance, "__dict__", {})
    for name, value in list(attributes.items()):
        place = Attribute(instance, name)
        place.write(MISSING)  # as it was before `__init__`, so that what sets it is seen
        active().note(place)
        place.write(value)
    return instance


def with_defaults(function: Any, defaults: tuple[Any, ...], keyword_defaults: dict[str, Any]) -> Any:
    """A lambda's function with the defaults its expression has now."""
    copied = FunctionType(function.__code__, function.__globals__, function.__name__, defaults or None, function.__closure__)
    copied.__kwdefaults__ = keyword_defaults or None
    copied.__qualname__ = function.__qualname__
    copied.__module__ = function.__module__
    return copied


# -- builtins that look at the frame of their caller -------------------------------------------------------------------


def super_(function: Any, cls: Any, instance: Any) -> Any:
    """`super()`, with what it would find in the frame."""
    return function(cls, instance) if function is builtins.super else function()


def globals_(function: Any, scope: Bindings) -> Any:
    """`globals()` of the user's module."""
    return scope.globals if function is builtins.globals else conv(function)()


def looking(function: Any, scope: Bindings, local: dict[str, Any], *args: Any) -> Any:
    """`locals()`, `vars()`, `dir()`, `eval(text)`, `exec(text)` in the user's function."""
    local = {name: value for name, value in local.items() if value.__class__ is not Undefined}
    if function is builtins.locals or function is builtins.vars:
        return local
    if function is builtins.dir:
        return sorted(local)
    if function in (builtins.eval, builtins.exec):
        refuse_in_trial(f"`{function.__name__}` may do something else in each turn")
        return function(*args, scope.globals, local)
    return conv(function)(*args)


def frame_locals() -> dict[str, Any]:
    """The variables of a frame whose control flow was left alone."""
    return {name: value for name, value in sys._getframe(1).f_locals.items() if not name.startswith("ag__")}


__all__ = ["call", "conv", "frame_locals", "globals_", "looking", "method", "super_", "with_defaults"]
