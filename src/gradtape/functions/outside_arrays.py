"""NumPy arrays from outside: who looks at what they hold, and who writes to them.

An array that goes into operations is an input of the program, read at each call. Python can look at its content as well
(`a[0]`, `a.sum()`, `np.linalg.norm(a)`); what comes of it is a constant of the trace, so the content is guarded. And Python can
write to it (`a[0] += 1`, `np.add(a, 1, out=a)`, `a.sort()`): the program then does so at each call, and holds for what the
array held when the call began. NumPy's objects tell nobody. So converted code gets, in place of such an array, an
`OutsideArray`: a view of the same memory that tells the trace first. What is computed from it is plain NumPy.
Invariant: what reaches the content of an array through its view has told the trace before. (Code that is not converted gets the
array itself; then it counts as looked at, and as written to if it holds something else afterwards.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradtape.core.record import user_location
from gradtape.core.tensor import Tensor
from gradtape.errors import InvalidArgumentError
from gradtape.functions.foreign_calls import CHANGING
from gradtape.functions.guards import same_bits
from gradtape.functions.staging.places import Content, Log
from gradtape.trace.effects import refuse_in_trial

# what an array says of itself that is part of its type: an input of another type needs another trace anyway
_TYPE = frozenset({"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "root", "notes", "__class__", "__dict__"})
_WRITING = CHANGING - {"setflags"}
_READING = ("__getitem__", "__iter__", "__contains__", "__float__", "__int__", "__index__", "__complex__", "__bool__")


class NumpyContent(Content):
    """The numbers of a NumPy array."""

    __slots__ = ()
    kind, name, kept = "numpy", "NumPy array", staticmethod(np.copy)

    def write(self, value: Any) -> None:
        self.target[...] = value


class OutsideArrays:
    """The arrays that one trace has met: how to read each at a call, and what became of it."""

    def __init__(self, logs: list[Log]) -> None:
        self.known: dict[int, tuple[Any, Callable[[], Any]]] = {}
        self.looked_at: set[int] = set()
        self.written: dict[int, Any] = {}
        self._views: dict[int, OutsideArray] = {}
        self._logs = logs
        self.over = False

    def met(self, array: Any, read: Callable[[], Any]) -> Any:
        """An array that converted code reads from outside, as it gets it."""
        # its content is no longer what the call began with, which is all that a guard or an input could read of it
        if id(array) not in self.known and self._overlapping(array, self.written.values()):
            self._refuse("is another view of one that the function has written to; read both before the first write")
        self.known.setdefault(id(array), (array, read))
        if array.__class__ is not np.ndarray:  # a masked array, a matrix: it may use its content in ways of its own
            self.looked_at.add(id(array))
            return array
        if id(array) not in self._views:
            view = self._views[id(array)] = array.view(OutsideArray)
            view.root, view.notes = array, self
        return self._views[id(array)]

    def as_input(self, array: Any) -> Any:
        """The array from outside that stands behind an operand, if the program is to read it at each call; else None."""
        if isinstance(array, OutsideArray):
            # a part of it is a value of Python's, which has looked at it
            array = array.root if self._views.get(id(array.root)) is array else None
        return None if id(array) not in self.known or id(array) in self.written else array

    def used(self, array: Any) -> None:
        """Python looks at what the array holds."""
        self.looked_at.add(id(array))

    def writing(self, array: Any) -> None:
        """The array is about to be changed in place."""
        refuse_in_trial("a NumPy array from outside is changed in place")
        if len(self._logs) > 1:
            self._refuse("cannot be changed in a loop or branch that a tensor decides; make it a tensor, gt.constant(a)")
        # a write through one view is a write to all that share its memory
        for other in self._overlapping(array, [known for known, _ in self.known.values()]):
            self.looked_at.add(id(other))
            self.written[id(other)] = other
            self._logs[0].note(NumpyContent(other))

    def guarded(self, inputs: Any) -> Iterator[tuple[Any, Callable[[], Any]]]:
        """The arrays whose content counts: those that Python looked at, and those that are no inputs."""
        return (known for key, known in self.known.items() if key in self.looked_at or key not in inputs)

    def given(self, values: Any) -> Any:
        """Arguments for code that is not converted: the arrays themselves."""
        return _replaced(values, self._itself)

    def calling(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that is not converted: arrays that it is given are looked at, and may be written to."""

        def called(*args: Any, **kwargs: Any) -> Any:
            arrays = {id(a.root): a.root for a in _arrays_in((args, kwargs))}
            if not arrays:
                return function(*args, **kwargs)
            # Nobody tells what this code does with an array: what it holds before and after does. The write is done once more
            # in our sight.
            before = [(array, array.copy()) for array in arrays.values()]
            result = function(*self.given(args), **self.given(kwargs))
            for array, old in before:
                self.used(array)
                if not same_bits(array, old):
                    now = array.copy()
                    array[...] = old
                    self.writing(array)
                    array[...] = now
            return result

        return called

    def clear(self) -> None:
        """The trace is over: views that somebody keeps are views like any other."""
        self.over = True
        for held in (self.known, self.written, self._views):
            held.clear()

    def _itself(self, view: Any) -> Any:
        root = view.root
        self.used(root)
        return root if self._views.get(id(root)) is view else view.view(np.ndarray)

    @staticmethod
    def _overlapping(array: Any, others: Any) -> list[Any]:
        return [other for other in others if isinstance(other, np.ndarray) and np.may_share_memory(array, other)]

    @staticmethod
    def _refuse(what: str) -> None:
        raise InvalidArgumentError(f"{user_location()}: in a gt.function, this NumPy array from outside {what}")


class OutsideArray(np.ndarray[Any, Any]):
    """A view of an array from outside, or of a part of it, that tells the trace what is done with it."""

    root: Any = None
    notes: OutsideArrays | None = None

    def __array_finalize__(self, source: Any) -> None:
        if isinstance(source, OutsideArray) and source.notes is not None:
            _look(source)
            if np.may_share_memory(self, source.root):  # a part or a transpose; a copy is an array like any other
                self.root, self.notes = source.root, source.notes

    def __getattribute__(self, name: str) -> Any:
        if name not in _TYPE:
            (_write if name in _WRITING else _look)(self)
        return super().__getattribute__(name)

    def __setitem__(self, key: Any, value: Any) -> None:
        _write(self)
        super().__setitem__(_plain(key), _plain(value))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = (), **kwargs: Any) -> Any:
        if any(isinstance(value, Tensor) or hasattr(type(value), "read_value") for value in inputs):
            return NotImplemented  # the tensor knows
        for value in (*out, *(inputs[:1] if method == "at" else ())):
            if isinstance(value, OutsideArray):
                _write(value)
        if out:
            kwargs["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **{name: _plain(value) for name, value in kwargs.items()})
        return (out[0] if len(out) == 1 else out) if out and result is not None else result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not all(issubclass(kind, np.ndarray) for kind in types):
            return NotImplemented
        changed = args[:1] if function.__name__ in CHANGING else ()
        for value in (*changed, kwargs.get("out")):
            if isinstance(value, OutsideArray):
                _write(value)
        # NumPy's own code, which asks nobody again: an array may stand in a sequence of any kind
        return super().__array_function__(function, types, _plain(args), _plain(kwargs))


def _told(name: str) -> Callable[..., Any]:
    method = getattr(np.ndarray, name)

    def reading(self: Any, *args: Any) -> Any:
        _look(self)
        return method(self, *map(_plain, args))

    return reading


for _name in _READING:
    if hasattr(np.ndarray, _name):
        setattr(OutsideArray, _name, _told(_name))


def itself(value: Any) -> Any:
    """A value that leaves the trace: an array from outside is that array."""
    if not isinstance(value, OutsideArray):
        return value
    return value.root if value.shape == value.root.shape and value.base is value.root else value.view(np.ndarray)


def _look(array: OutsideArray) -> None:
    if array.notes is not None and not array.notes.over:
        array.notes.used(array.root)


def _write(array: OutsideArray) -> None:
    if array.notes is not None and not array.notes.over:
        array.notes.writing(array.root)


def _plain(value: Any) -> Any:
    def opened(array: OutsideArray) -> Any:
        _look(array)
        return array.view(np.ndarray)

    return _replaced(value, opened)


def _replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """A value, or a list, tuple or dict, with views replaced in it."""
    if isinstance(value, OutsideArray):
        return replace(value)
    if value.__class__ in (list, tuple) and any(True for _ in _arrays_in(value)):
        return type(value)([_replaced(part, replace) for part in value])
    if value.__class__ is dict:
        return {key: _replaced(part, replace) for key, part in value.items()}
    return value


def _arrays_in(value: Any) -> Iterator[OutsideArray]:
    if isinstance(value, OutsideArray):
        yield value
    elif value.__class__ in (list, tuple, dict):
        for part in value.values() if value.__class__ is dict else value:
            yield from _arrays_in(part)
