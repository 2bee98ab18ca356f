"""The run time of reads and writes: names, attributes, items, containers.

While a function is traced, the tracer (`trace/effects.py`) is told after each read and before each write; otherwise
each of these is the plain Python operation. Nothing here decides what a read or write means for the program.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from functools import partial
from sys import getrefcount
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from gradtape.core.record import UNSHARED, user_location
from gradtape.core.tensor import Readable, Tensor
from gradtape.errors import InvalidArgumentError, OperatorNotAllowedInGraphError
from gradtape.functions.autograph.bindings import GLOBAL, Bindings
from gradtape.functions.autograph.numpy_calls import joined
from gradtape.functions.autograph.raising import Suppressing
from gradtape.functions.foreign_calls import advancing, changing, reading_key, updating
from gradtape.functions.impure import refuse_advancing
from gradtape.functions.outside_containers import CHANGEABLE, calling, pairs
from gradtape.functions.special_methods import original
from gradtape.functions.staging import absent, staged_builtins as staging
from gradtape.functions.staging.branches import is_staged, valued
from gradtape.functions.staging.places import MISSING, Attribute, Cell, Global, InnerCell
from gradtape.functions.staging.staged_values import Maybe, Undefined, staged_items
from gradtape.functions.tokens import SCALARS
from gradtape.ops.operators import warn_lost
from gradtape.trace.effects import KEYS, LENGTH, active

_TEXTS = (str, bytes)
_UNBOUND = "cannot access free variable '{}' where it is not associated with a value in enclosing scope"


# -- names -----------------------------------------------------------------------------------------------------------


def ld(value: Any, name: str) -> Any:
    """A variable that may have no value."""
    if value.__class__ is Undefined:
        raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
    if value.__class__ is Maybe and isinstance(value.missing, Undefined):
        return value.get(name)
    return value


def ld_free(value: Any, name: str) -> Any:
    """A variable of a function around this one that may have no value."""
    if value.__class__ is Undefined:
        raise NameError(_UNBOUND.format(name))
    return ld(value, name)


def outer(scope: Bindings, name: str, value: Any) -> Any:
    """A global or a captured variable of the converted function."""
    tracer = active()
    if tracer is not None:
        value = tracer.outer(scope, name, value)
    return ld_free(value, name) if value.__class__ is Undefined or value.__class__ is Maybe else value


def _place(scope: Bindings, kind: str, name: str) -> Global | Cell:
    """Where a name that is no variable of the converted function lives."""
    return Global(scope.globals, name) if kind == GLOBAL else Cell(scope.cells[name], name)


def before_outer(scope: Bindings, kind: str, name: str) -> Global | Cell:
    """A global or captured variable is about to be written."""
    place = _place(scope, kind, name)
    if (tracer := active()) is not None:
        tracer.note(place)
    return place


def before_cells(reader: Any) -> None:
    """The variables that `reader` captures, of a converted function around this one, are about to be written."""
    # (only a branch or loop has to undo them)
    if (tracer := active()) is not None and len(tracer.logs) > 1:  # else nobody asks: they are this trace's own
        for cell, name in zip(reader.__closure__, reader.__code__.co_freevars, strict=True):
            tracer.note(InnerCell(cell, name))


def set_outer(scope: Bindings, kind: str, name: str, value: Any) -> Any:
    """`global name; name = value`, or the same with `nonlocal`."""
    before_outer(scope, kind, name).write(value)
    return value


def del_outer(scope: Bindings, kind: str, name: str) -> None:
    """`global name; del name`, or the same with `nonlocal`."""
    place = before_outer(scope, kind, name)
    if place.read() is MISSING:
        raise NameError(f"name '{name}' is not defined" if kind == GLOBAL else _UNBOUND.format(name))
    place.write(MISSING)


def forget_outer(scope: Bindings, kind: str, name: str) -> None:
    """The end of `except E as name` where the name is a global or captured."""
    before_outer(scope, kind, name).write(MISSING)


def class_defined(cls: Any) -> None:
    """A class statement was run."""
    if (tracer := active()) is not None and isinstance(cls, type):
        tracer.made_class(cls)


# -- attributes and items --------------------------------------------------------------------------------------------


def attr(target: Any, name: str) -> Any:
    """`target.name`; the getter of a user's property is converted like any function."""
    tracer = active()
    if tracer is None:
        return getattr(target, name)
    target = _owner(target, name)
    # modules have no properties of the user's, and are asked most often
    if target.__class__ is ModuleType:
        return tracer.attr(target, name, getattr(target, name))
    # looked up on the class, where Python finds properties and descriptors: their code is the user's
    getter = _accessor(target, name, "fget", "__get__")
    if getter is not None:
        return getter()
    if (made_up := own_method(target, "__getattr__")) is not None and not _is_there(target, name):
        return made_up(name)
    value = tracer.attr(target, name, getattr(target, name))
    return absent.attribute(target, name, value) if absent.is_absent(value) else value


def _owner(target: Any, name: str) -> Any:
    """Whose attribute is meant: of a value that may be None, not that of what stands for it."""
    return not_none(target, AttributeError, f"has no attribute {name!r}")


def not_none(value: Any, exception: type[Exception], words: str) -> Any:
    """A value that is used; if it is None when the program runs, that is Python's error."""
    if value.__class__ is Maybe and value.missing is None:
        return value.need(exception, f"'NoneType' object {words}")
    return there(value)


def _is_there(target: Any, name: str) -> bool:
    """Whether an object has an attribute without asking its `__getattr__`."""
    try:
        object.__getattribute__(target, name)
    except AttributeError:
        return False
    return True


def set_attr(target: Any, name: str, value: Any) -> None:
    """`target.name = value`; the setter of a user's property is converted like any function."""
    if active() is None:
        setattr(target, name, value)
        return
    target = _owner(target, name)
    # dataclasses that are frozen, modules that register parameters: their own code decides what a write means
    if (own := own_method(target, "__setattr__")) is not None:
        own(name, value)
    else:
        set_plain_attr(target, name, value)


def set_plain_attr(target: Any, name: str, value: Any) -> None:
    """What `object.__setattr__` does."""
    setter = _accessor(target, name, "fset", "__set__")
    if setter is not None:
        setter(value)
        return
    place = _before_attr(target, name)
    if isinstance(target, np.ndarray):
        changing(target)
    place.write(value)


def _before_attr(target: Any, name: str) -> Attribute:
    place = Attribute(target, name)
    # attributes of tensors and variables are the library's, and no state of the user's
    if not isinstance(target, (Tensor, Readable)):
        active().note(place)
    return place


def _accessor(target: Any, name: str, of_property: str, of_descriptor: str) -> Any:
    """The function of the user's that reads, sets or deletes an attribute, converted; None for any other attribute."""
    # (of a class itself: its own attributes, not those of its metaclass)
    kinds = target.__mro__ if isinstance(target, type) else type(target).__mro__
    attribute = next((vars(kind)[name] for kind in kinds if name in vars(kind)), None)
    if attribute.__class__ is property:
        return None if isinstance(target, type) else _own(getattr(attribute, of_property), target)
    function = _own(getattr(type(attribute), of_descriptor, None), attribute)
    # every function is a descriptor: binding a method is nothing to convert
    if function is None or attribute.__class__ is FunctionType:
        return None
    if of_descriptor == "__get__":
        return partial(function, None, target) if isinstance(target, type) else partial(function, target, type(target))
    return None if isinstance(target, type) else partial(function, target)


def del_attr(target: Any, name: str) -> None:
    """`del target.name`."""
    if active() is not None:
        target = _owner(target, name)
        deleter = own_method(target, "__delattr__", name) or _accessor(target, name, "fdel", "__delete__")
        if deleter is not None:
            deleter()
            return
        _before_attr(target, name)
    delattr(target, name)


def staged_key(key: Any) -> bool:
    """Whether an index is, or contains, a staged value."""
    if key.__class__ is tuple:
        return any(staged_key(part) for part in key)
    if key.__class__ is slice:
        return is_staged(key.start) or is_staged(key.stop) or is_staged(key.step)
    return is_staged(key)


def item(target: Any, key: Any) -> Any:
    """`target[key]`."""
    tracer = active()
    if tracer is None:
        return target[key]
    target = there(target)
    if _staged_item(target, key):
        return staging.item(target, key)
    own = own_method(target, "__getitem__")
    if own is not None:
        return own(key)
    # np.r_[a, b] and np.c_[a, b] of tensors
    if (together := joined(target, key)) is not None:
        return together
    # (a defaultdict, or another dict with `__missing__`, changes as it is read)
    reading_key(target, key)
    if isinstance(target, dict) and target.__class__ is not dict and key not in target:
        return calling(tracer, target.__getitem__)(key)
    value = tracer.item(target, key, target[key])
    return absent.key(target, key) if absent.is_absent(value) and isinstance(target, dict) else value


def own_method(target: Any, name: str, *args: Any) -> Any:
    """A special method that the user's class defines, converted; None for any other object."""
    method = _own(getattr(type(target), name, None), target)
    return method if method is None or not args else partial(method, *args)


def _own(function: Any, target: Any) -> Any:
    if function.__class__ is not FunctionType:
        return None
    function = original(function)
    from gradtape.functions.autograph.convert import converted_function

    converted = converted_function(function, quiet=True)
    # what cannot be converted is called by Python as ever
    return None if converted is function else MethodType(converted, target)


def grown(target: Any) -> Any:
    """A container to whose end something is added; a look at what it holds does not depend on it."""
    if (tracer := active()) is not None and isinstance(target, CHANGEABLE):
        tracer.uses.added_to(target)
    return target


def keyed(target: Any) -> Any:
    """The same of `target[key] = value`: in a dict. (In a list it depends on the length which item that is.)"""
    return grown(target) if isinstance(target, dict) else target


def set_item(target: Any, key: Any, value: Any, held: int = 0) -> None:
    """`target[key] = value`, where so many names of converted code's own hold the target."""
    if getrefcount(target) == UNSHARED + held and isinstance(target, Tensor):
        warn_lost()
    if (tracer := active()) is not None:
        target = there(target)
        tracer.before(target)
        if _staged_item(target, key) and not isinstance(target, np.ndarray):
            staging.set_item(target, key, value)
            tracer.changed(target)
            return
        if isinstance(target, np.ndarray) and (is_staged(value) or staged_key(key)):
            raise InvalidArgumentError(
                "a NumPy array cannot hold a value that is known only when the function runs; make it a tensor: gt.constant(a) "
                "or gt.zeros(shape), and assign to that"
            )
        if (own := own_method(target, "__setitem__")) is not None:
            own(key, value)
            return
        changing(target)
        if isinstance(target, dict):
            tracer.uses.assigns(target, key)
    target[key] = value
    if tracer is not None and isinstance(target, (list, dict)):
        tracer.changed(target)


def _staged_item(target: Any, key: Any) -> bool:
    if isinstance(target, (list, tuple, dict)):
        # a variable is the key of a dict by what it is, the index of a list by what it holds
        return staged_key(key if isinstance(target, dict) else valued(key)) or staged_items(target) is not None
    return isinstance(target, np.ndarray if key.__class__ is slice else (np.ndarray, range)) and staged_key(key)


def there(value: Any) -> Any:
    """A value that is used: one that may be missing must be there when the program runs."""
    return value.get() if value.__class__ is Maybe else value


def del_item(target: Any, key: Any) -> None:
    """`del target[key]`."""
    if (tracer := active()) is not None:
        target = there(target)
        tracer.before(target)
        if _staged_item(target, key):
            staging.del_item(target, key)
            return
        if (own := own_method(target, "__delitem__")) is not None:
            own(key)
            return
        changing(target)
        if isinstance(target, dict) and absent.is_absent(target.get(key)):
            absent.key(target, key)
    del target[key]
    if tracer is not None:
        tracer.changed(target)


def inplace(operation: str, target: Any, value: Any) -> Any:
    """`target += value` and its kin: the new value. `operation` is the name of a function of `operator`, as "iadd"."""
    function = getattr(operator, operation)
    if (tracer := active()) is not None and isinstance(target := there(target), CHANGEABLE):
        tracer.before(target)
        if staged_items(target) is not None or staged_items(value) is not None or is_staged(value):
            result = staging.inplace(operation, target, value)
        else:
            result = function(target, value)
        tracer.changed(target)
        return result
    if tracer is not None and (own := own_method(target, f"__{operation}__")) is not None:
        result = own(value)
        # then Python tries `target + value`
        if result is not NotImplemented:
            return result
    updating(target, operation)
    return function(target, value)


def plus(left: Any, right: Any) -> Any:
    """`left + right`; a list whose items live in the program is not a Python list of them."""
    if left.__class__ is list and right.__class__ is list and (staged_items(left) or staged_items(right)) is not None:
        return staging.joined(left, right)
    return taken(left) + taken(right)


def times(left: Any, right: Any) -> Any:
    """`left * right`."""
    for value in (left, right):
        if value.__class__ is list and staged_items(value) is not None:
            return staging.repeated(value)
    if (left.__class__ in _TEXTS and is_staged(right)) or (right.__class__ in _TEXTS and is_staged(left)):
        raise OperatorNotAllowedInGraphError(
            f"{user_location()}: how often a text is repeated cannot depend on a tensor, whose value is known at run time"
        )
    return taken(left) * taken(right)


class _Managed:
    """A user's context manager, its methods converted."""

    __slots__ = ("enter", "exit")

    def __init__(self, enter: Any, exit: Any) -> None:
        self.enter = enter
        self.exit = exit

    def __enter__(self) -> Any:
        return self.enter()

    def __exit__(self, *error: object) -> Any:
        return self.exit(*error)


def managed(manager: Any) -> Any:
    """What `with manager` enters."""
    if active() is None:
        return manager
    if isinstance(manager, contextlib.suppress):
        return Suppressing(manager)
    enter, leave = own_method(manager, "__enter__"), own_method(manager, "__exit__")
    return manager if enter is None or leave is None else _Managed(enter, leave)


# -- whole containers ------------------------------------------------------------------------------------------------


def taken(value: Any) -> Any:
    """What a copy of a container is made of, or a builtin goes through: in the place of tensors and arrays from outside the
    inputs that stand for them, and objects known to be from outside. (A container of numbers and text is what it is.)"""
    kind, tracer = value.__class__, active()
    if (kind is not list and kind is not tuple and kind is not dict) or staged_items(value) is not None:
        if tracer is not None and isinstance(value, CHANGEABLE):
            tracer.opened(value)
        return value
    if tracer is None or id(value) not in tracer.external or all(v.__class__ in SCALARS for _, v in pairs(value)):
        return value
    return kind([(k, tracer.item(value, k, v)) for k, v in pairs(value)] if kind is dict else _items(tracer, value))


def iterate(tracer: Any, iterated: Any) -> Any:
    """What a Python loop goes over, the reads of lists, tuples and dicts noted as they happen."""
    if iterated.__class__ is list or iterated.__class__ is tuple:
        return _items(tracer, iterated)
    if isinstance(iterated, dict):
        absent.whole(iterated)
    if isinstance(iterated, (dict, set)):
        # a user's own `__iter__` says itself what is gone over
        if type(iterated).__iter__.__class__ is not FunctionType:
            tracer.item(iterated, KEYS, tuple(iterated))
    else:
        refuse_advancing(iterated, tracer.external)
        advancing(iterated)
        taken(iterated)
    return iterated


def _items(tracer: Any, sequence: Any) -> Iterator[Any]:
    place = 0
    while place < len(sequence):  # a list may change while a loop goes over it
        yield tracer.item(sequence, place, sequence[place])
        place += 1
    # noted at the end: a loop that is left early never asked how long the list is
    tracer.item(sequence, LENGTH, place)


def in_(value: Any, container: Any) -> Any:
    """`value in container`."""
    if (tracer := active()) is not None:
        if isinstance(container, (list, tuple)) and staged_items(container) is None:
            container = list(_items(tracer, container))  # numbers and tensors from outside: part of the program from here on
        if _staged_search(value, container):
            return staging.contains(container, value)
        if isinstance(container, list):
            return value in container
        if isinstance(container, (dict, set)):
            tracer.item(container, KEYS, tuple(container))
        if isinstance(container, dict) and absent.is_absent(container.get(value)):
            # whether the key is there depends on the path that was taken
            return container[value].flag
        taken(container)
        if (own := own_method(container, "__contains__")) is not None:
            from gradtape.functions.autograph.control_calls import not_

            # `in` gives a bool, whatever `__contains__` returns
            return not_(not_(own(value)))
        advancing(container)
    return value in container


def _staged_search(value: Any, container: Any) -> bool:
    """Whether only the program knows if a value is in a container; an object is found in a list by what it is first."""
    if is_staged(value) or is_staged(valued(container)) or staged_items(container) is not None:
        return True
    if container.__class__ not in (list, tuple):
        return False
    items = list(container)
    # Python compares by identity first: the very tensor in the list is found without asking for its value
    return not any(item is value for item in items) and any(staging.holds_staged(valued(part)) for part in (value, *items))


def not_in(value: Any, container: Any) -> Any:
    """`value not in container`."""
    from gradtape.functions.autograph.control_calls import not_

    return not_(in_(value, container))


def unpack(value: Any, count: int, star: int | None) -> Any:
    """What `a, *b = value` should unpack: the value itself, unless it is staged."""
    tracer = active()
    if tracer is None:
        return value
    value = there(value)
    if is_staged(value) or staged_items(value) is not None:
        return staging.unpack(value, count, star)
    advancing(value)
    return _items(tracer, value) if value.__class__ is list or value.__class__ is tuple else taken(value)


def append(target: list[Any], value: Any) -> None:
    """One more item of a list comprehension."""
    if (tracer := active()) is not None:
        tracer.before(target)
        if staged_items(target) is not None:
            staging.list_method(target, "append")(value)
            return
    target.append(value)


def add(target: set[Any], value: Any) -> None:
    """One more member of a set comprehension."""
    if (tracer := active()) is not None:
        tracer.before(target)
    target.add(value)


def put(target: dict[Any, Any], key: Any, value: Any) -> None:
    """One more entry of a dict comprehension."""
    set_item(target, key, value)


def new_set() -> set[Any]:
    """An empty set."""
    return set()


__all__ = [
    "add", "append", "attr", "before_cells", "before_outer", "class_defined", "del_attr", "del_item", "del_outer",
    "forget_outer", "grown", "in_", "inplace", "item", "keyed", "ld", "ld_free", "managed", "new_set", "not_in", "outer",
    "plus", "put", "set_attr", "set_item", "set_outer", "taken", "times", "unpack",
]  # fmt: skip
