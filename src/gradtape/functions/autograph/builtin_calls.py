"""Builtins inside converted code while a function is traced.

Each first asks whether anything it was given is staged; if not, it is the builtin. What a staged call means is decided by
`staging.call_builtin`. Functions given to higher-order builtins are converted.
"""

from __future__ import annotations

import builtins
import copy
import dataclasses
import functools
import operator
from collections import deque
from collections.abc import Callable, Iterator
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from gradtape.core.tensor import Readable, Tensor, is_tensor
from gradtape.functions.autograph.reading import attr, del_attr, iterate, own_method, set_attr, taken
from gradtape.functions.foreign_calls import own_iterator
from gradtape.functions.impure import refuse_advancing
from gradtape.functions.outside_containers import CHANGEABLE, calling, pairs
from gradtape.functions.staging import absent, math_numbers, python_kinds, staged_builtins as staging
from gradtape.functions.staging.branches import is_staged, stage_if_exp, valued
from gradtape.functions.staging.iterables import PulledIterable, StagedIterable
from gradtape.functions.staging.python_iterables import python_enumerate, python_reversed, python_zip
from gradtape.functions.staging.staged_values import Maybe, staged_items
from gradtape.ir.dims import Dim
from gradtape.trace.effects import KEYS, LENGTH, active, refuse_in_trial
from gradtape.trace.weak import WeakTensor

# -- copies ----------------------------------------------------------------------------------------------------------
# `copy` and `dataclasses`: the parts of an object from outside are read one by one, as converted code reads.
# Python's own copies look into objects by themselves: what they found would be a constant of the trace. Objects whose class
# says how they are copied are left to it.

_SAYING_HOW = ("__copy__", "__deepcopy__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__new__")


def _is_plain_object(value: Any) -> bool:
    """Whether an object is copied by copying its attributes."""
    kind: Any = type(value)
    if isinstance(value, (type, Tensor, Readable)) or not hasattr(value, "__dict__") or hasattr(kind, "__slots__"):
        return False
    return all(getattr(kind, name, None) is getattr(object, name, None) for name in _SAYING_HOW)


def _copy(value: Any) -> Any:
    if not _is_plain_object(value):
        return copy.copy(taken(value))
    twin = object.__new__(type(value))
    for name in vars(value):
        vars(twin)[name] = attr(value, name)
    return twin


def _deepcopy(value: Any, memo: Any = None) -> Any:
    memo = {} if memo is None else memo
    if id(value) in memo:
        return memo[id(value)]
    tracer, kind = active(), value.__class__
    if kind is list and staged_items(value) is None:
        items = memo[id(value)] = []
        items += [_deepcopy(tracer.item(value, i, item), memo) for i, item in pairs(value)]
        tracer.item(value, LENGTH, len(value))
        return items
    if kind is dict:
        entries: dict[Any, Any] = {}
        memo[id(value)] = entries
        entries |= {key: _deepcopy(tracer.item(value, key, item), memo) for key, item in pairs(value)}
        tracer.item(value, KEYS, tuple(value))
        return entries
    if kind is tuple:
        return tuple([_deepcopy(tracer.item(value, i, item), memo) for i, item in pairs(value)])
    if isinstance(value, Tensor) and value.wraps:
        return value.__copy__()
    if not _is_plain_object(value):
        return copy.deepcopy(value, memo)
    twin = memo[id(value)] = object.__new__(kind)
    for name in vars(value):
        vars(twin)[name] = _deepcopy(attr(value, name), memo)
    return twin


def _with_fields(function: Any) -> Any:
    """A function of `dataclasses` that reads the fields of what it is given."""

    def overload(value: Any, /, *args: Any, **kwargs: Any) -> Any:
        return function(_copy(value) if _is_plain_object(value) else value, *args, **kwargs)

    return overload


COPIES: dict[Any, Any] = {
    copy.copy: _copy, copy.deepcopy: _deepcopy,
    **{f: _with_fields(f) for f in (dataclasses.asdict, dataclasses.astuple, dataclasses.replace)},
}  # fmt: skip


CHANGES = {
    "append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "__setitem__", "__delitem__", "__iadd__",
    "__imul__", "update", "setdefault", "popitem", "__ior__", "add", "discard", "difference_update", "intersection_update",
    "symmetric_difference_update", "__iand__", "__isub__", "__ixor__", "appendleft", "popleft", "extendleft", "rotate",
}  # fmt: skip
SHOWS = {"pop", "popleft", "popitem", "setdefault", "remove", "sort", "__iter__", "__reversed__"}  # what the items are
KNOWN = frozenset({*CHANGES, *dir(list), *dir(dict), *dir(set), *dir(deque)})
TAKES_KEY = {"pop", "insert", "get", "setdefault", "index", "count", "remove", "extend", "__getitem__", "__setitem__"}


def is_part_of_program(value: Any) -> bool:
    """Whether a builtin given this value must be staged."""
    return is_staged(value) or isinstance(value, StagedIterable) or staged_items(value) is not None


def _asked(value: Any) -> bool:
    """The same of a value whose number is asked for: a variable's is known only when the program runs."""
    return is_part_of_program(valued(value))


def _holds(value: Any) -> bool:
    """Whether a value is staged or a list or tuple of staged values."""
    if _asked(value):
        return True
    return value.__class__ in (list, tuple) and any(_asked(part) for part in value)


CALLED = (
    FunctionType, MethodType, BuiltinMethodType, functools.partial, operator.attrgetter, operator.itemgetter,
    operator.methodcaller,
)  # fmt: skip


def converted_argument(value: Any) -> Any:
    """A function given to something that will call it, converted."""
    if value.__class__ in CALLED:
        from gradtape.functions.autograph.calling import conv

        return conv(value)
    return value


def container_method(tracer: Any, method: Any) -> Any:
    """A method of a list, dict or set: changes are announced, reads of the whole are noted."""
    container, name = method.__self__, method.__name__
    if name not in KNOWN:  # of a class of its own, as `OrderedDict.move_to_end`
        return calling(tracer, method)
    if name in SHOWS:
        tracer.opened(container)
    if name in CHANGES:
        # (in another process it may be another one: hashes of strings differ)
        if name == "pop" and isinstance(container, set):
            refuse_in_trial("which member a set gives away is the set's own affair")
        tracer.before(container)
        return _changing(tracer, container, _container_method(tracer, method, container, name))
    return _container_method(tracer, method, container, name)


def _changing(tracer: Any, container: Any, method: Any) -> Any:
    """A method after which the container has changed."""
    # only a trace that tracks aliases asks: the others pay nothing
    if not tracer.follows_changes:
        return method

    def called(*args: Any, **kwargs: Any) -> Any:
        result = method(*args, **kwargs)
        tracer.changed(container)
        return result

    return called


def _container_method(tracer: Any, method: Any, container: Any, name: str) -> Any:
    if isinstance(container, dict) and any(map(absent.is_absent, container.values())):
        if name in absent.METHODS:
            return functools.partial(_of_absent, method, container, name)
        if name not in absent.KEYLESS:
            absent.whole(container)
    # the program depends on which keys there are, and on their values if it is given them: guards
    if name in ("keys", "items", "values"):
        tracer.item(container, KEYS, tuple(container))
        for key in container if name != "keys" else ():
            tracer.item(container, key, container[key])
        if (parts := taken(container)) is not container:
            return getattr(parts, name)
    if name == "copy":
        return getattr(taken(container), name)
    if staged_items(container) is not None:
        return staging.list_method(container, name)
    if name not in TAKES_KEY:
        if name == "sort":
            return lambda *args, **kwargs: _sort(container, args, kwargs)
        return method

    def checked(*args: Any, **kwargs: Any) -> Any:
        if any(is_part_of_program(arg) for arg in args[: 1 if name != "index" else None]):
            return staging.container_call(container, name, args, kwargs)
        value = method(*args, **kwargs)
        return tracer.item(container, args[0], value) if name in ("get", "__getitem__") and args[0] in container else value

    return checked


def _of_absent(method: Any, container: Any, name: str, key: Any, *default: Any) -> Any:
    """A method that asks a dict about a key which may not be there."""
    return absent.METHODS[name](container, key, *default) if absent.is_absent(container.get(key)) else method(key, *default)


def _sort(container: list[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if "key" in kwargs:
        kwargs = {**kwargs, "key": converted_argument(kwargs["key"])}
    container.sort(*args, **kwargs)


def _next(iterator: Any, *default: Any) -> Any:
    """`next(iterator)`: what is from outside is not used up by a trace."""
    if (tracer := active()) is not None:
        if isinstance(iterator, PulledIterable):
            return iterator.get_next()
        refuse_advancing(iterator, tracer.external)
    return next(iterator, *default)


def _staged_if(any_of: Callable[[Any], bool], builtin: Any, called: str = "") -> Any:
    """A builtin that is staged if `any_of` holds for one of its arguments."""
    name = called or builtin.__name__

    def overload(*args: Any, **kwargs: Any) -> Any:
        for arg in args:
            if any_of(arg):
                return staging.call_builtin(name, args, kwargs)
        if args and (own := own_method(args[0], f"__{name}__")) is not None:  # what it gives may be staged
            return own(*args[1:], **kwargs)
        return builtin(*builtins.map(taken, args), **kwargs)

    overload.__name__ = name
    return overload


def _len(*args: Any, **kwargs: Any) -> Any:
    if len(args) == 1 and is_part_of_program(args[0]):
        return staging.call_builtin("len", args, kwargs)
    if len(args) == 1 and isinstance(args[0], dict):
        absent.whole(args[0])
    own = own_method(args[0], "__len__") if len(args) == 1 else None
    if own is not None:
        return own()
    count = len(*args, **kwargs)
    return active().item(args[0], LENGTH, count) if isinstance(args[0], (tuple, *CHANGEABLE)) else count


def _consume(builtin: Any) -> Any:
    """A builtin that goes through the whole of its one argument, or is given several values (max, min, sorted, sum)."""
    name = builtin.__name__

    def overload(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("key") is not None:
            kwargs = {**kwargs, "key": converted_argument(kwargs["key"])}
        if len(args) == 1 and isinstance(args[0], Iterator):
            # an iterator can be gone through once, and looking for staged items would use it up
            args = (builtins.list(args[0]),)
        if not any(_holds(arg) for arg in args):
            args = _noted(args)  # numbers and tensors from outside become part of the program when they are read
        if any(_holds(arg) for arg in args):
            return staging.call_builtin(name, args, kwargs)
        if kwargs.get("key") is not None and args:
            return _by_key(builtin, args, kwargs)
        return builtin(*args, **kwargs)

    overload.__name__ = name
    return overload


def _by_key(builtin: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`max`, `min` or `sorted` of Python values; their keys may be staged all the same."""
    values = args if len(args) > 1 else builtins.list(args[0])
    keys = [kwargs["key"](value) for value in values]
    # by identity: values need not be hashable
    key_of = builtins.dict(zip(builtins.map(id, values), keys, strict=True))
    kwargs = {**kwargs, "key": lambda value: key_of[id(value)]}  # each is asked once, as in Python
    if any(_asked(key) for key in keys):
        return staging.call_builtin(builtin.__name__, (values,), kwargs)
    return builtin(values, **kwargs)


_GONE_THROUGH: tuple[type, ...] = (list, deque, type({}.values()))


def _noted(args: tuple[Any, ...]) -> tuple[Any, ...]:
    tracer = active()
    return builtins.tuple([builtins.list(iterate(tracer, a)) if isinstance(a, _GONE_THROUGH) else a for a in args])


def _quantifier(builtin: Any) -> Any:
    """`any` and `all`: items are taken one by one, as Python does, until one is staged."""
    name, ends_with = builtin.__name__, builtin is builtins.any

    def overload(*args: Any) -> Any:
        if len(args) != 1:
            return builtin(*args)
        if _asked(args[0]):
            return staging.call_builtin(name, args, {})
        items = iter(iterate(active(), args[0]))
        for item in items:
            if _asked(item):
                # from here on only the program knows; what came before has not decided
                return staging.call_builtin(name, ([item, *items],), {})
            if bool(item) is ends_with:
                return ends_with
        return not ends_with

    overload.__name__ = name
    return overload


def _with_function(builtin: Any) -> Any:
    """`map` and `filter`."""
    name = builtin.__name__

    def overload(*args: Any, **kwargs: Any) -> Any:
        args = builtins.tuple([converted_argument(arg) for arg in args[:1]]) + args[1:]
        if any(_holds(arg) for arg in args[1:]):
            return staging.call_builtin(name, args, kwargs)
        return own_iterator(builtin(*builtins.map(taken, args), **kwargs))

    overload.__name__ = name
    return overload


def is_of(value: Any, kinds: Any) -> Any:
    """`isinstance(value, kinds)`."""
    return python_kinds.is_instance(value, kinds, (staging.StagedText, str))


def _isinstance(*args: Any) -> Any:
    return is_of(*args) if len(args) == 2 else isinstance(*args)


def _is_tensor(x: Any) -> Any:
    return is_of(x, (Tensor, Readable))


def _type(*args: Any, **kwargs: Any) -> Any:
    if len(args) != 1:
        return type(*args, **kwargs)
    kind = python_kinds.type_of(args[0])
    # the class of an object from outside is from outside too: what is read of it is guarded
    return active().known(kind) if id(args[0]) in active().external else kind


def _getattr(*args: Any) -> Any:
    if len(args) == 2 and isinstance(args[1], str):
        return attr(args[0], args[1])
    if len(args) != 3 or not isinstance(args[1], str):
        return getattr(*args)
    if absent.is_absent(attribute := _own(*args[:2])):
        return stage_if_exp(attribute.flag, lambda: attribute.value, lambda: args[2])
    return attr(args[0], args[1]) if _hasattr(*args[:2]) else args[2]


def _own(target: Any, name: str) -> Any:
    return getattr(target, "__dict__", {}).get(name)


def _hasattr(*args: Any) -> Any:
    if len(args) != 2 or not isinstance(args[1], str):
        return hasattr(*args)
    if absent.is_absent(attribute := _own(*args)):
        return attribute.flag
    if isinstance(args[0], (Maybe, WeakTensor)):
        return python_kinds.has_attribute(*args)
    try:
        attr(*args)  # noted: what is found may change, or go
    except AttributeError:
        # noted as well: should it appear later, the program no longer fits
        active().no_attr(*args)
        return False
    return True


def _vars(*args: Any) -> Any:
    return attr(args[0], "__dict__") if len(args) == 1 and hasattr(args[0], "__dict__") else vars(*args)


def _setattr(*args: Any) -> None:
    if len(args) == 3 and isinstance(args[1], str):
        set_attr(*args)
    else:
        setattr(*args)


def _delattr(*args: Any) -> None:
    if len(args) == 2 and isinstance(args[1], str):
        del_attr(*args)
    else:
        delattr(*args)


def _print(*args: Any, **kwargs: Any) -> None:
    """Printing is an effect of the program: it happens at each call of the function, not while it is traced."""
    staging.print_(*args, **kwargs)


def _copying(builtin: Any) -> Any:
    return lambda *args, **kwargs: builtin(*builtins.map(taken, args), **kwargs)


def _text(builtin: Any) -> Any:
    """The text of a value, which may be known only when the program runs."""

    def overload(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and staging.holds_staged(args[0]):
            return staging.StagedText([(args[0], ord("s" if builtin is str else builtin.__name__[0]), "")])
        return builtin(*args, **kwargs)

    return overload


def _of_numbers(function: Any) -> Any:
    """A function of `math`."""

    def overload(*args: Any, **kwargs: Any) -> Any:
        args = builtins.tuple([arg.get() if isinstance(arg, Maybe) else arg for arg in args])
        staged = any(isinstance(arg, (WeakTensor, Dim)) for arg in args)
        return math_numbers.call(function, args, kwargs) if staged else function(*args, **kwargs)

    return overload


def _reduce(*args: Any) -> Any:
    return functools.reduce(*(taken(converted_argument(arg)) for arg in args))


OVERLOADS: dict[Any, Any] = {
    builtins.len: _len, builtins.getattr: _getattr, builtins.hasattr: _hasattr, builtins.setattr: _setattr,
    builtins.delattr: _delattr, builtins.next: _next, builtins.isinstance: _isinstance, builtins.type: _type,
    builtins.print: _print, functools.reduce: _reduce, is_tensor: _is_tensor, builtins.vars: _vars,
    **{f: _staged_if(_asked, f) for f in (abs, round, int, float, bool, range)},
    builtins.zip: _staged_if(_asked, python_zip, "zip"), builtins.enumerate: _staged_if(_asked, python_enumerate, "enumerate"),
    builtins.reversed: _staged_if(_asked, python_reversed, "reversed"),
    **{f: _copying(f) for f in (iter, set, dict, frozenset)}, **{f: _text(f) for f in (str, repr, ascii)},
    **{f: _consume(f) for f in (max, min, sorted, sum, list, tuple)},
    **{f: _quantifier(f) for f in (any, all)},
    **{f: _with_function(f) for f in (map, filter)},
    **COPIES, **{f: _of_numbers(f) for f in math_numbers.FUNCTIONS},
}  # fmt: skip
