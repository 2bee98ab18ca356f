"""Python's builtins, containers and texts on staged values: what `len`, `max`, `print`, `a in b`, `d[i] = v`, f-strings and
`assert` mean when a tensor's value is known only later.

Each function is called by converted code when something it was given is staged; the meaning is that of eager code.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape.core.dispatch import convert
from gradtape.core.record import user_location
from gradtape.core.tensor import Readable, Tensor
from gradtape.errors import InvalidArgumentError, OperatorNotAllowedInGraphError
from gradtape.functions.staging import staged_lists
from gradtape.functions.staging.aliasing.object_parts import has_identity
from gradtape.functions.staging.branches import NO_STATE, State, is_staged, stage_if, stage_if_exp, truth, valued
from gradtape.functions.staging.iterables import (
    Enumerate,
    Mapped,
    Range,
    Reversed,
    StagedIterable,
    Zip,
    is_staged_iterable,
    staged_iterable,
)
from gradtape.functions.staging.joins import JoinError
from gradtape.functions.staging.loops import stage_for
from gradtape.functions.staging.python_kinds import is_equal
from gradtape.functions.staging.staged_values import Maybe, require, staged_items
from gradtape.ir.dims import Dim
from gradtape.ir.slots import Field, Slot
from gradtape.ops import elementwise, sorting, staged
from gradtape.ops.compare import equal, greater, less, logical_and, logical_or, not_equal
from gradtape.ops.elementwise import cast
from gradtape.ops.reduce import reduce_all, reduce_any, reduce_sum
from gradtape.ops.shape import stack, unstack
from gradtape.ops.stop import stop_gradient
from gradtape.trace.effects import active, refuse_in_trial, trying
from gradtape.trace.tracing import current_trace
from gradtape.trace.weak import WeakTensor, weak

MAX_CASES = 4  # of what is looked up in a loop that is tried


class StagedText:
    """A text with holes that are filled when the program runs: what an f-string of staged values becomes."""

    def __init__(self, pieces: Sequence[Any]) -> None:
        self.pieces = tuple(pieces)  # str, or (value, conversion, spec)

    def __add__(self, other: Any) -> StagedText:
        return StagedText([*self.pieces, *(other.pieces if isinstance(other, StagedText) else [str(other)])])

    def __radd__(self, other: Any) -> StagedText:
        return StagedText([str(other), *self.pieces])

    def __eq__(self, other: object) -> bool:
        return self is other or self._needed("compared")

    def __hash__(self) -> int:
        return self._needed("a key")

    def __len__(self) -> int:
        return self._needed("measured")

    def __getitem__(self, key: Any) -> Any:
        return self._needed("taken apart")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(str, name):
            raise AttributeError(f"'str' object has no attribute {name!r}", name=name, obj=self)
        return self._needed(f"asked for its .{name}")

    def __repr__(self) -> str:
        refuse_in_trial("a text that contains a number of the loop is shown")
        return "<text of a traced function>"

    def _needed(self, what: str) -> Any:
        refuse_in_trial(f"a text that contains a number of the loop is {what}")
        raise OperatorNotAllowedInGraphError(
            f"a text with a value that is known only when the function runs is {what}: here it can be printed and joined with "
            "others (+). Make the text outside the function"
        )


# -- texts -----------------------------------------------------------------------------------------------------------


def holds_staged(value: Any) -> bool:
    """Whether a value is known only when the program runs, or something in a list, tuple or dict is."""
    pending, seen = [value], set()
    while pending:
        value = pending.pop()
        if is_staged(value):
            return True
        if isinstance(value, (list, tuple, dict)) and id(value) not in seen:  # (one may contain itself)
            seen.add(id(value))
            pending += value.values() if isinstance(value, dict) else value
    return False


class Template:
    """Texts as attributes, their staged values as operands."""

    def __init__(self) -> None:
        self.values: list[Any] = []

    def slot(self, value: Any) -> Slot:
        self.values.append(value)
        return Slot(len(self.values) - 1)

    def part(self, value: Any) -> Any:
        """One argument of print, or a message."""
        if isinstance(value, StagedText):
            return self._joined(value.pieces)
        if staged_items(value) is not None:
            return self.slot(value[0].items)
        if isinstance(value, WeakTensor):
            return Field(self.slot(value.strong()), "number")
        if is_staged(value):
            return self.slot(convert(value))
        return self._sequence(value) if holds_staged(value) else str(value)

    def _joined(self, pieces: Sequence[Any]) -> tuple[Any, ...]:
        parts: list[Any] = []
        for piece in pieces:
            whole = not isinstance(piece, str) and not is_staged(piece[0]) and holds_staged(piece[0])
            parts += self._sequence(piece[0]) if whole else [piece if isinstance(piece, str) else self.field(*piece)]
        return tuple(parts)

    def field(self, value: Any, conversion: Any, spec: Any) -> Any:
        if not is_staged(value):
            return format(value, spec if isinstance(spec, str) else "")
        if staged_items(value) is not None:
            return Field(self.slot(value[0].items), "", "")
        kind = {ord("r"): "r", ord("s"): "s", ord("a"): "a"}.get(conversion, "")
        if isinstance(value, WeakTensor):
            return Field(self.slot(value.strong()), "number", spec if isinstance(spec, str) else "")
        return Field(self.slot(convert(value)), kind, spec if isinstance(spec, str) else "")

    def _sequence(self, value: Any) -> tuple[Any, ...]:
        """The text of a list, tuple or dict."""
        keyed = isinstance(value, dict)
        pieces: list[Any] = ["{" if keyed else "[" if isinstance(value, list) else "("]
        for i, (key, v) in enumerate(value.items() if keyed else enumerate(value)):
            pieces.append((", " if i else "") + (f"{key!r}: " if keyed else ""))
            if isinstance(v, (list, tuple, dict)) and staged_items(v) is None:
                pieces.extend(self._sequence(v))
            else:
                pieces.append(self.field(v, ord("r"), "") if is_staged(v) else repr(v))
        pieces.append("}" if keyed else "]" if isinstance(value, list) else ",)" if len(value) == 1 else ")")
        return tuple(pieces)


def print_(*args: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: bool = False) -> None:
    """`print` at each run of the program, in its place among the other effects."""
    template = Template()
    parts = tuple(template.part(arg) for arg in args)
    attrs = {"template": parts, "sep": " " if sep is None else sep, "end": "\n" if end is None else end, "file": file}
    current_trace().emit(staged.PRINT, template.values, attrs)


def assert_(test: Any, message: Callable[[], Any] | None, line: int = 0) -> None:
    """`assert test, message()` when the program runs."""
    template = Template()
    text = () if message is None else (template.part(message()),)
    attrs = {"template": text, "exception": AssertionError}
    current_trace().emit(staged.ASSERT, [truth(test), *template.values], attrs)


# -- containers ------------------------------------------------------------------------------------------------------


def item(target: Any, key: Any) -> Any:
    """`target[key]` of a list, tuple or dict where the key, or the list, is staged."""
    if staged_items(target) is not None:
        return staged_lists.get(target, key)
    if isinstance(target, np.ndarray):
        return array_item(target, key)
    target = active().given(target)
    if isinstance(target, dict):
        return _chosen(
            [(equal(key, k), v) for k, v in target.items() if isinstance(k, (int, float))], "a key of the dict", KeyError
        )
    if isinstance(key, slice):
        return convert(target)[key]
    # Python numbers of one type are one array: looked up, a number that gives way to other dtypes, as Python's own would
    if target and all(v.__class__ is target[0].__class__ for v in target) and target[0].__class__ in (bool, int, float):
        return numbers_at(target, key)
    if not all(isinstance(v, (Tensor, np.ndarray)) for v in target):
        refuse_in_trial("one of several Python things is looked up by a number of the loop")
    aliases = active().aliases
    numbers = all(isinstance(v, (Tensor, Readable, int, float, np.ndarray, np.generic)) for v in target)
    one_by_one = aliases.tracking and any(has_identity(v) for v in target)  # the object itself is wanted, not its value
    # one array and one lookup, where a chain of branches would have as many as there are items
    if numbers and _one_shape(target) and not one_by_one:
        value = convert(list(target))[key]
        # (a copy of an item where Python has the item itself: a change in place of either would go unseen)
        aliases.suspect(value, *target)
        return value
    count = len(target)
    return _chosen(
        [(logical_or(equal(key, i), equal(key, i - count)), v) for i, v in enumerate(target)], "an index", IndexError
    )


def array_item(array: Any, key: Any) -> Any:
    """`array[key]` of a NumPy array: a number of 64 bits is one to Python, too."""
    captured = active().array_input(array)
    value = (convert(array) if captured is None else captured)[key]
    return weak(value._data) if not value.ndim and value.dtype.name == "float64" else value


def numbers_at(numbers: Sequence[Any], index: Any) -> Any:
    """One of some Python numbers of one type: a Python number."""
    return weak(convert(np.asarray(numbers))[index]._data)


def always(value: Any) -> Callable[[], Any]:
    """A branch that is just a value."""
    return lambda: value


def _one_shape(values: Sequence[Any]) -> bool:
    return len({tuple(getattr(v, "shape", ())) for v in values}) == 1


def _chosen(pairs: Sequence[tuple[Any, Any]], what: str, exception: type[Exception]) -> Any:
    """The value of the pair whose flag holds."""
    if not pairs:
        raise exception(f"{what} known only at run time cannot be looked up in a container that has none of its kind")
    # tried on a Python loop, as many branches as items would cost more to compile than the loop traced turn by turn
    if len(pairs) > MAX_CASES or not all(isinstance(value, Tensor) for _, value in pairs):
        refuse_in_trial(f"one of {len(pairs)} things is looked up by a number of the loop")
    # the chain below has an answer for every key: without this check a wrong key would silently give the last item
    any_holds = functools.reduce(logical_or, [flag for flag, _ in pairs])
    require(truth(any_holds), exception, f"not {what} of the container")
    value = pairs[-1][1]
    for flag, other in reversed(pairs[:-1]):
        value = stage_if_exp(flag, always(other), always(value))
    return value


class Fixed(StagedIterable):
    """A Python sequence beside staged ones: its items must become one tensor to be found by a staged index."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values

    def length(self) -> int:
        return len(self.values)

    def item(self, index: Any) -> Any:
        if index.__class__ is int:
            return self.values[index]
        return item(self.values, index)  # what does not depend on the index is taken out of the loop again by `hoist`


def iterable(value: Any) -> StagedIterable:
    """A value as something a staged loop can go over; of a Python sequence, its items."""
    return staged_iterable(value) if is_staged_iterable(value) or isinstance(value, range) else Fixed(list(value))


def set_item(target: Any, key: Any, value: Any) -> None:
    """`target[key] = value` where the key, or the list, is staged."""
    if staged_items(target) is not None:
        staged_lists.put(target, key, value)
    elif isinstance(key, slice):
        raise InvalidArgumentError(
            "a slice with bounds known only at run time cannot be assigned in a Python list; use a tensor"
        )
    elif isinstance(target, dict):
        refuse_in_trial("a key of a dict is a number of the loop")
        keys = [k for k in target if isinstance(k, (int, float)) and not isinstance(k, bool)]
        # unrolled, the key may be a Python number, and a new one no problem
        if not keys or active().can_unroll:
            raise JoinError(
                "a dict gets a new key known only when the function runs; set all keys before the loop, or use a list, a "
                "TensorArray or a tensor"
            )
        text = "a dict got a key in a staged loop that it did not have before: set all keys before the loop"
        require(truth(functools.reduce(logical_or, [equal(key, k) for k in keys])), InvalidArgumentError, text)
        # which key is meant is known only at run time: every value may be the one that is replaced
        for k in keys:
            target[k] = stage_if_exp(equal(key, k), lambda: value, functools.partial(target.__getitem__, k))
    else:
        count = len(target)
        refuse_in_trial("an item of a Python list is set by a number of the loop")
        # Python counts from the end, too: -1 and count - 1 are one place
        flags = [logical_or(equal(key, i), equal(key, i - count)) for i in range(count)]
        text = "list assignment index out of range"
        if not flags:
            raise IndexError(text)
        require(truth(functools.reduce(logical_or, flags)), IndexError, text)
        for i, flag in enumerate(flags):
            target[i] = stage_if_exp(flag, lambda: value, functools.partial(target.__getitem__, i))


def del_item(target: Any, key: Any) -> None:
    """`del target[key]` is refused."""
    raise InvalidArgumentError("`del` with an index known only when the function runs is not supported; use pop() or a tensor")


def inplace(operation: str, target: Any, value: Any) -> Any:
    """`target += value` on lists."""
    if operation != operator.iadd.__name__ or not isinstance(target, list):
        raise InvalidArgumentError(f"the operator for `{operation}` is not supported on a container of staged values")
    values = value if not isinstance(value, Tensor) else unstack(value)
    if staged_items(target) is not None:
        staged_lists.extend(target, values)
    elif staged_items(value) is not None:
        raise InvalidArgumentError("extending a list by a list that a staged loop filled is not supported; append in a loop")
    else:
        target.extend(values)
    return target


def joined(left: list[Any], right: list[Any]) -> list[Any]:
    """`left + right`: a new list, where one of them lives in the program."""
    # (a list of the program can be added to at its end only)
    if staged_items(right) is not None and left:
        raise JoinError(
            f"{user_location()}: a list that is filled in a staged loop can only come first in a sum of lists: `filled + [x]`; "
            "append its items in a loop"
        )
    if not left:
        return list_of(right)
    total: list[Any] = list_of(left)
    staged_lists.extend(total, right)
    return total


def repeated(values: list[Any]) -> list[Any]:
    """`values * n` is refused."""
    raise JoinError(f"{user_location()}: a list that is filled in a staged loop cannot be repeated with `*`")


def list_method(target: list[Any], name: str) -> Callable[..., Any]:
    """A method of a list of the program."""
    return lambda *args, **kwargs: staged_lists.method(target, name, args, kwargs)


def container_call(container: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A method of a Python container given something staged."""
    if name == "extend" and isinstance(container, list):
        return inplace(operator.iadd.__name__, container, list_of(args[0]))
    if name == "__getitem__" or (name == "get" and len(args) == 1):
        return item(container, args[0])
    if name == "__setitem__":
        return set_item(container, *args)
    if name in ("index", "count", "remove", "pop", "insert", "get", "setdefault"):
        raise InvalidArgumentError(
            f"{type(container).__name__}.{name} with a value known only when the function runs is not supported; use a tensor"
        )
    return getattr(container, name)(*args, **kwargs)


def contains(container: Any, value: Any) -> Any:
    """`value in container`."""
    if staged_items(container) is not None:
        container = staged_lists.stacked(container)
    if isinstance(container, (Tensor, Readable)):
        return reduce_any(equal(container, value))
    flags = [flag for item in container if (flag := is_equal(item, value)) is not False]
    return any(flag is True for flag in flags) or (functools.reduce(logical_or, flags) if flags else False)


def unpack(value: Any, count: int, star: int | None) -> Any:
    """The parts of `a, b = value`."""
    if staged_items(value) is not None:
        if star is not None:
            raise InvalidArgumentError("a starred name cannot take the rest of a list whose length is known only at run time")
        return [staged_lists.get(value, i) for i in range(count)]
    if not value.ndim:
        raise TypeError("cannot iterate over a scalar tensor")
    have = value.shape[0]
    if not isinstance(have, int):
        if star is not None:
            raise InvalidArgumentError("a starred name cannot take the rest of a tensor whose length is known only at run time")
        # Python would raise for another number of rows: the program does, when it knows it
        same = equal(current_trace().dim(value.shape[0]), count)
        require(same, ValueError, f"a tensor of {count} rows was expected")
        return [value[i] for i in range(count)]
    if star is None and have != count:
        few = "not enough" if have < count else "too many"
        raise ValueError(f"{few} values to unpack (expected {count}{f', got {have}' if have < count else ''})")
    return [value[i] for i in range(have)]


# -- builtins --------------------------------------------------------------------------------------------------------


def _len(value: Any) -> Any:
    if staged_items(value) is not None:
        known = value[0].length
        return staged_lists.length(value) if known is None else known
    if isinstance(value, StagedIterable):
        return value.length()
    value = convert(value)
    if not value.ndim:
        raise TypeError("a scalar tensor has no len()")
    size = value.shape[0]
    return size if isinstance(size, int) else weak(cast(current_trace().dim(size), "int64")._data)


def _number(kind: str) -> Callable[[Any], Any]:
    def converted(value: Any = 0) -> Any:
        """As in eager code, a Python number is no longer connected to what it came from."""
        value = convert(value)
        if value.size != 1:
            raise TypeError(f"only a tensor of one element is a number; this one has shape {tuple(value.shape)}")
        from gradtape.ops.shape import reshape

        strong = value.strong() if isinstance(value, WeakTensor) else value
        return weak(stop_gradient(cast(reshape(strong, ()), kind))._data)

    return converted


def _round(value: Any, ndigits: Any = None) -> Any:
    rounded = round(convert(value), ndigits)
    return _number("int64")(rounded) if isinstance(value, WeakTensor) and ndigits is None else rounded


def _extreme(better: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def choose(*args: Any, key: Any = None, default: Any = None) -> Any:
        values = [valued(v) for v in (args if len(args) > 1 else _sequence(args[0]))]
        if not values:
            raise ValueError("max() or min() of an empty sequence")
        keys = [v if key is None else key(v) for v in values]
        best, best_key = values[0], keys[0]
        for v, k in zip(values[1:], keys[1:], strict=True):
            flag = better(k, best_key)
            best = _one_of(flag, v, best)
            best_key = best if key is None else _one_of(flag, k, best_key)
        return best

    return choose


def _one_of(flag: Any, a: Any, b: Any) -> Any:
    return stage_if_exp(flag, always(a), always(b)) if is_staged(flag) else a if flag else b


def _sequence(value: Any) -> list[Any]:
    """The items of something whose length is known."""
    if isinstance(value, (Tensor, Readable)):
        return list(unstack(convert(value)))
    if staged_items(value) is not None:
        value = staged_lists.stacked(value)
        items = list(unstack(value))
        active().aliases.items.lost(items)
        return items
    return list(value)


def _sum(values: Any, start: Any = 0) -> Any:
    if staged_items(values) is not None and trying():  # one after the other, as Python does
        values = staged_iterable(values)
    if staged_items(values) is not None:
        values = staged_lists.stacked(values)
    if isinstance(values, (Tensor, Readable)):
        return start + reduce_sum(values, 0)
    if isinstance(values, StagedIterable) and not isinstance(values.length(), int):
        # the sum is state of a loop whose length only the program knows
        total = [start]
        stage_for(values, None, lambda v: total.__setitem__(0, total[0] + v), _cell_state(total, "the sum"))
        return total[0]
    for value in values:
        start = start + value
    return start


def _cell_state(cell: list[Any], name: str) -> State:
    return State(lambda: (cell[0],), lambda values: cell.__setitem__(0, values[0]), (name,), 0)


def _sorted(values: Any, *, key: Any = None, reverse: bool = False) -> Any:
    given = values if isinstance(values, (list, tuple)) else ()
    copies = _sorted_copies(values, key, reverse)
    active().aliases.items.lost([*copies, *given] if given else ())  # objects on their own, where Python has the same ones
    return copies


def _sorted_copies(values: Any, key: Any, reverse: bool) -> list[Any]:
    if key is not None:
        keys = stack([convert(key(v)) for v in _sequence(values)])
        # (stable, as Python's sort is)
        order = sorting.argsort(keys, direction="DESCENDING" if reverse else "ASCENDING", stable=True)
        whole = stack(_sequence(values))
        return [whole[order[i]] for i in range(int(whole.shape[0]))]
    whole = convert(staged_lists.stacked(values) if staged_items(values) is not None else values)
    return list(unstack(sorting.sort(whole, direction="DESCENDING" if reverse else "ASCENDING")))


def _quantifier(whole: Callable[[Any], Any], pair: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def decide(values: Any) -> Any:
        if staged_items(values) is not None:
            values = staged_lists.stacked(values)
        if isinstance(values, (Tensor, Readable)):
            tensor = convert(values)
            return whole(tensor if tensor.dtype.is_bool else not_equal(tensor, 0))
        flags = [truth(v) if is_staged(v) else convert(bool(v)) for v in map(valued, values)]
        return functools.reduce(pair, flags)

    return decide


def list_of(values: Any) -> Any:
    """`list(values)`: a Python list where the length is known, else a list of the program."""
    if staged_items(values) is not None:
        # a new list object with the same value of the program: lists of the program are values, so nothing is copied
        twin = [values[0]]
        active().aliases.items.known_elsewhere(values, twin)
        return twin
    if isinstance(values, (Tensor, Readable)) and isinstance(convert(values).shape[0], int):
        return list(unstack(convert(values)))
    if not isinstance(values, (StagedIterable, Tensor, Readable)):
        return list(values)
    items = staged_iterable(values)
    count = items.length()
    if isinstance(count, int):
        return [items.item(i) for i in range(count)]
    collected: list[Any] = []
    stage_for(items, None, lambda v: append(collected, v), NO_STATE)
    return collected


def append(target: list[Any], value: Any) -> None:
    """`target.append(value)`."""
    active().before(target)
    if staged_items(target) is not None:
        staged_lists.append(target, value)
    else:
        target.append(value)


def _filter(function: Any, values: Any) -> list[Any]:
    kept: list[Any] = []

    def step(value: Any) -> None:
        keep = value if function is None else function(value)
        if is_staged(keep := valued(keep)):
            stage_if(keep, lambda: append(kept, value), lambda: None, NO_STATE)
        elif keep:
            append(kept, value)

    stage_for(iterable(values), None, step, NO_STATE)
    return kept


def _range(*args: Any) -> Range:
    start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1) if len(args) == 2 else args
    return Range(start, stop, step)


def _zip(*parts: Any, strict: bool = False) -> Zip:
    return Zip([iterable(p) for p in parts])


_BUILTINS: dict[str, Callable[..., Any]] = {
    "print": print_, "len": _len, "abs": elementwise.abs, "round": _round, "int": _number("int64"), "float": _number("float64"),
    "bool": truth, "range": _range, "enumerate": lambda x, start=0: Enumerate(iterable(x), start), "zip": _zip,
    "reversed": lambda x: Reversed(iterable(x)), "map": lambda f, *xs: Mapped(f, [iterable(x) for x in xs]),
    "filter": _filter, "list": lambda x=(): list_of(x), "tuple": lambda x=(): tuple(list_of(x)), "sum": _sum, "sorted": _sorted,
    "max": _extreme(greater), "min": _extreme(less), "any": _quantifier(reduce_any, logical_or),
    "all": _quantifier(reduce_all, logical_and),
}  # fmt: skip


def call_builtin(name: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Any:
    """A builtin of which an argument is staged."""
    # (a value that may be missing must be there to be used, and a size becomes a number of the program)
    values = tuple(a.get() if isinstance(a, Maybe) else current_trace().dim(a) if a.__class__ is Dim else a for a in args)
    return _BUILTINS[name](*values, **(kwargs or {}))
