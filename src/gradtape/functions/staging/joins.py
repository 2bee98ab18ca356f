"""Phis: the values of one name where two paths of a program meet, the ends of two branches, or the start and the end of a
loop's body.

A `Phi` is made by `join(a, b)`. It knows the types of the program values it needs, turns a Python value into them
(`tensors`) and makes a Python value of them again (`value`). Python values that are the same on both sides stay Python
values; numbers that differ become tensors that give way to other dtypes; what is missing on one side becomes a `Maybe`; lists
of different lengths become lists of the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from gradtape.core.dispatch import apply, convert
from gradtape.core.inference import promote_dtypes
from gradtape.core.tensor import Readable, Tensor
from gradtape.dtypes import DType, bool_
from gradtape.errors import InvalidArgumentError
from gradtape.functions.staging.staged_values import Maybe, PendingSize, StagedItems, Undefined, staged_items
from gradtape.ir.dims import Dim, fresh_symbol
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops import staged
from gradtape.ops.elementwise import cast
from gradtape.ops.lists import LIST_NEW, LIST_RESIZE
from gradtape.trace.effects import active, refuse_in_trial
from gradtape.trace.tracing import TracedList, TracedTensor, current_trace
from gradtape.trace.weak import WeakTensor, met, weak
from gradtape.tree import like
from gradtape.variables.indexed_slices import IndexedSlices

FLAG = TensorSpec((), bool_)
DEAD = Undefined("a name that nobody reads any more")
ABSENT = Undefined("")  # a key that is not there; if it is known where that is decided, the name says the line
PYTHON_NUMBERS = (bool, int, float, complex, WeakTensor)
DEPENDING = (
    "which one depends on a tensor's value, known only when the function runs. Only tensors, numbers and structures of them "
    "can depend on it"
)
ORDINARY = frozenset([bool, int, float, complex, Tensor])  # kinds that follow from the dtype of a value
NUMBERS = (bool, int, float, complex, np.generic)


class JoinError(InvalidArgumentError):
    """Two values of one name that no single program value can stand for. `shapes` says it is their shapes that differ."""

    def __init__(self, message: str, shapes: bool = False) -> None:
        super().__init__(message)
        self.shapes = shapes


class Phi:
    """What of a value lives in the program where paths meet: its types there, and the way in and out of them."""

    def types(self) -> list[Any]:
        """The types of the program values, in order."""
        return []

    def tensors(self, value: Any) -> list[Any]:
        """A Python value as program values of `types`, converted in the current block."""
        return []

    def value(self, feed: Iterator[Any]) -> Any:
        """The Python value made of program values."""
        raise TypeError(f"{type(self).__name__} has no value")


@dataclass(eq=False)
class NoPhi(Phi):
    """No phi is needed: the value is the same on both sides."""

    kept: Any

    def value(self, feed: Iterator[Any]) -> Any:
        return self.kept

    def __eq__(self, other: object) -> bool:
        # by `same`, not by ==: an array among the values would compare element by element
        return isinstance(other, NoPhi) and same(self.kept, other.kept)


@dataclass
class TensorPhi(Phi):
    """One tensor; `weak` if it was a Python number on both sides; `kinds` is what it may be to Python."""

    spec: TensorSpec
    weak: bool
    kinds: frozenset[type] = field(default=frozenset(), compare=False)

    def types(self) -> list[Any]:
        return [self.spec]

    def tensors(self, value: Any) -> list[Any]:
        return [to_spec(value, self.spec)]

    def value(self, feed: Iterator[Any]) -> Any:
        tensor = next(feed)
        if not isinstance(tensor, TracedTensor):  # after a loop of Python's: the number itself
            return tensor
        keep_kinds(tensor, self.kinds)
        if not self.weak:
            return tensor
        number = weak(tensor._data)
        # a new object, but the version that a tape watches
        number._node = tensor._node
        return number


@dataclass
class MaybePhi(Phi):
    """A flag and a value that counts only where the flag holds; `sizes` are symbols that stand for several sizes."""

    inner: Phi
    missing: Any
    sizes: Collection[str] = ()

    def types(self) -> list[Any]:
        return [FLAG, *self.inner.types()]

    def tensors(self, value: Any) -> list[Any]:
        trace = current_trace()
        if is_missing(value):
            return [trace.constant(np.False_), *(placeholder(t, self.sizes) for t in self.inner.types())]
        if isinstance(value, Maybe):
            return [value.flag, *self.inner.tensors(value.value)]
        return [trace.constant(np.True_), *self.inner.tensors(value)]

    def value(self, feed: Iterator[Any]) -> Any:
        flag = next(feed)
        return Maybe(flag, self.inner.value(feed), self.missing)

    def __eq__(self, other: object) -> bool:
        # `sizes` is one set for the whole loop or branch, and grows: it says nothing about this phi
        return isinstance(other, MaybePhi) and self.inner == other.inner


@dataclass
class ListPhi(Phi):
    """A Python list whose items live in the program."""

    spec: ListSpec

    def types(self) -> list[Any]:
        return [self.spec]

    def tensors(self, value: Any) -> list[Any]:
        items = staged_items(value)
        if items is not None:
            return [items.items]
        return [list_of(value, self.spec)]

    def value(self, feed: Iterator[Any]) -> Any:
        return [StagedItems(next(feed))]


@dataclass
class ContainerPhi(Phi):
    """A container, item by item."""

    kind: Any  # the container to copy the type and keys of
    keys: tuple[Any, ...] | None
    phis: list[Phi]

    @classmethod
    def of(cls, value: Any, phi: Callable[[Any], Phi]) -> ContainerPhi:
        """A container whose items have the phis that `phi` gives."""
        keys = tuple(value) if isinstance(value, Mapping) else None
        return cls(value, keys, [phi(child) for child in (value if keys is None else value.values())])

    def types(self) -> list[Any]:
        return [t for phi in self.phis for t in phi.types()]

    def tensors(self, value: Any) -> list[Any]:
        # a key that this side has not: its phi is a MaybePhi, by `_join_containers`
        children = [value.get(k, ABSENT) for k in self.keys] if self.keys is not None else list(value)
        return [t for phi, child in zip(self.phis, children, strict=True) for t in phi.tensors(child)]

    def value(self, feed: Iterator[Any]) -> Any:
        return like(self.kind, [phi.value(feed) for phi in self.phis], self.keys)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ContainerPhi) and type(self.kind) is type(other.kind) and self.keys == other.keys
            and self.phis == other.phis
        )  # fmt: skip


@dataclass
class OneSidedPhi(Phi):
    """A value that only one side has: on the other nobody reads it any more, so anything of its types does."""

    inner: Phi
    sizes: Collection[str] = ()

    def types(self) -> list[Any]:
        return self.inner.types()

    def tensors(self, value: Any) -> list[Any]:
        return [placeholder(t, self.sizes) for t in self.types()] if value is DEAD else self.inner.tensors(value)

    def value(self, feed: Iterator[Any]) -> Any:
        return self.inner.value(feed)


@dataclass
class SlicesPhi(Phi):
    """An `IndexedSlices`, by its values and indices."""

    values: Phi
    indices: Phi
    dense_shape: Any

    def types(self) -> list[Any]:
        return [*self.values.types(), *self.indices.types()]

    def tensors(self, value: Any) -> list[Any]:
        return [*self.values.tensors(value.values), *self.indices.tensors(value.indices)]

    def value(self, feed: Iterator[Any]) -> Any:
        return IndexedSlices(self.values.value(feed), self.indices.value(feed), self.dense_shape)


# -- joining ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Widening:
    """What a join may do: tensors whose ids are in `carried` stay in the program in any case; sizes that differ become a
    symbol, one of `sizes` (to which new ones are added), or are an error if that is None."""

    carried: frozenset[int] = frozenset()
    sizes: set[str] | None = None
    line: int = 0  # of the loop or branch

    @property
    def open(self) -> Collection[str]:
        """The symbols that stand for several sizes."""
        return () if self.sizes is None else self.sizes

    def marking(self, ids: Iterable[int]) -> Widening:
        return Widening(self.carried | frozenset(ids), self.sizes, self.line)

    def size(self, m: Any, n: Any) -> Any:
        """The dimension that is one or the other; None if there is none. A symbol that stands for several sizes stays it."""
        if m == n:
            return m
        if self.sizes is None:
            return None
        # only the left one is asked: in a loop that is what the iteration started with, so a symbol that was widened once
        # stays, and the fixpoint ends
        if m.__class__ is Dim and m.name in self.sizes:
            return m
        symbol = fresh_symbol("n")
        self.sizes.update(symbol.symbols)
        return symbol

    def opened(self, spec: Any) -> Any:
        """A type on one path whose sizes, if only that path knows them, are symbols that stand for several."""
        # a plain number is known on both paths; a symbol may have been made on this path, and mean nothing on the other
        if self.sizes is None or isinstance(spec, ListSpec) or not any(d.__class__ is Dim for d in spec.shape):
            return spec
        return TensorSpec([self.size(d, None) if d.__class__ is Dim else d for d in spec.shape], spec.dtype)


STRICT = Widening()


def join(a: Any, b: Any, label: str, how: Widening = STRICT) -> Phi:
    """The phi for a value that is `a` or `b`."""
    # The order counts: what is one object needs no phi, what may be missing is wrapped before its kind is asked for, lists of
    # the program before Python's, and numbers before `same`, since equal numbers stay Python's.
    carried = how.carried
    # one and the same container may hold a tensor that a loop carries: then its items are joined one by one
    if a is b and (not carried or (_is_container(a) and not any(id(t) in carried for t in tensors_in(a)))):
        return NoPhi(a)
    if is_missing(a) and is_missing(b):
        # not an error in a branch, where either is "missing" to the program; but a Python loop can rather be traced turn by
        # turn
        _refuse_two_kinds({a is None, b is None}, label)
        return NoPhi(a)
    if _may_miss(a) or _may_miss(b):
        return _join_maybe(a, b, label, how)
    if staged_items(a) is not None or staged_items(b) is not None:
        return ListPhi(_list_spec(a, b, label, how))
    if _is_container(a) and _is_container(b):
        return _join_containers(a, b, label, how)
    if isinstance(a, IndexedSlices) and isinstance(b, IndexedSlices):
        if a is b and not any(id(t) in carried for t in tensors_in(a)):
            return NoPhi(a)
        if a.dense_shape == b.dense_shape:
            values = join(a.values, b.values, label, how)
            return SlicesPhi(values, join(a.indices, b.indices, label, how), a.dense_shape)
    if a is b and id(a) not in carried:
        return NoPhi(a)
    if is_tensor_like(a) and is_tensor_like(b):
        # x = 3 on both paths: Python's 3 still, which may be a shape or an index afterwards
        if isinstance(a, NUMBERS) and isinstance(b, NUMBERS) and same(a, b):
            return NoPhi(a)
        both_weak = is_weak(a) and is_weak(b)
        # a number on one path and a tensor on the other is a tensor, as it is when it is returned
        kinds = python_kinds(a) | python_kinds(b) if both_weak else frozenset([Tensor])
        return TensorPhi(_join_specs(a, b, label, how), both_weak, kinds)
    if same(a, b):
        return NoPhi(a)
    raise JoinError(f"{label} is {_shown(a)} on one path and {_shown(b)} on the other; {DEPENDING}")


def _may_miss(value: Any) -> bool:
    return isinstance(value, Maybe) or is_missing(value)


def _refuse_two_kinds(kinds: set[bool], label: str) -> None:
    """None on one path and no value at all on the other are one thing to the program, but not to Python."""
    if len(kinds) > 1:
        refuse_in_trial(f"{label} is None on one path and has no value on the other")


def _join_maybe(a: Any, b: Any, label: str, how: Widening) -> Phi:
    missing = next(x.missing if isinstance(x, Maybe) else x for x in (a, b) if isinstance(x, Maybe) or is_missing(x))
    _refuse_two_kinds({(x.missing if isinstance(x, Maybe) else x) is None for x in (a, b) if _may_miss(x)}, label)
    there = [x.value if isinstance(x, Maybe) else x for x in (a, b) if not is_missing(x)]
    if len(there) == 1:
        return MaybePhi(lifted(there[0], label, how), missing, how.open)
    # behind a flag the value has to be in the program even if both sides have the same one: the MaybePhi counts its types
    marked = how.marking(id(x) for x in there if isinstance(x, TracedTensor))
    return MaybePhi(join(there[0], there[1], label, marked), missing, how.open)


def lifted(value: Any, label: str, how: Widening) -> Phi:
    """The phi that takes every tensor and number of a value into the program; sizes it has only on this path are symbols."""
    if isinstance(value, Maybe):
        return MaybePhi(lifted(value.value, label, how), value.missing, how.open)
    if staged_items(value) is not None:
        return ListPhi(value[0].items.spec)
    if _is_container(value):
        return ContainerPhi.of(value, lambda child: lifted(child, label, how))
    if isinstance(value, IndexedSlices):
        return SlicesPhi(lifted(value.values, label, how), lifted(value.indices, label, how), value.dense_shape)
    if is_tensor_like(value):
        return TensorPhi(how.opened(spec_of(value)), is_weak(value), python_kinds(value))
    if isinstance(value, (int, float, complex)):
        raise JoinError(f"{label} is {_shown(value)}, a {type(value).__name__}, on one path only; {DEPENDING}")
    return NoPhi(value)


def weak_parts(phi: Phi, start: Any) -> Iterator[tuple[int, Any]]:
    """The Python numbers among the program values of a phi: their places, and what they are in `start` (None if that is not
    known)."""
    if isinstance(phi, TensorPhi) and phi.weak:
        yield 0, start if isinstance(start, (bool, int, float)) else None
    elif isinstance(phi, MaybePhi):
        for place, number in weak_parts(phi.inner, None if is_missing(start) or isinstance(start, Maybe) else start):
            yield place + 1, number
    elif isinstance(phi, ContainerPhi):
        children = (
            [None] * len(phi.phis) if start is None else list(start) if phi.keys is None else [start.get(k) for k in phi.keys]
        )
        first = 0
        for child, inner in zip(children, phi.phis, strict=True):
            for place, number in weak_parts(inner, child):
                yield first + place, number
            first += len(inner.types())


def one_sided(value: Any, label: str, reached: Callable[[Any], bool], how: Widening) -> Phi:
    """The phi for a value that the other side has not, nor needs: what it computed inside leaves through the program, all
    else (`reached`: tensors from before) stays as it is."""
    return NoPhi(value) if value is DEAD else OneSidedPhi(_leaving(value, label, reached, how), how.open)


def _leaving(value: Any, label: str, reached: Callable[[Any], bool], how: Widening) -> Phi:
    if all(reached(t) for t in tensors_in(value)):
        return NoPhi(value)
    if staged_items(value) is None and _is_container(value):
        return ContainerPhi.of(value, lambda child: _leaving(child, label, reached, how))
    return lifted(value, label, how)


def _join_containers(a: Any, b: Any, label: str, how: Widening) -> Phi:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        keys = tuple(dict.fromkeys((*a, *b)))
        # reading such a key later is an error that names the line of this branch or loop
        absent = Undefined(f"line {how.line}: ") if how.line else ABSENT
        phis = [join(a.get(k, absent), b.get(k, absent), f"{label}[{k!r}]", how) for k in keys]
        # another order of keys is another dict, though all items are the same
        return ContainerPhi(a, keys, phis) if any(not isinstance(p, NoPhi) for p in phis) or list(a) != list(b) else NoPhi(a)
    both_lists = a.__class__ is list and b.__class__ is list
    if both_lists and len(a) != len(b):
        return ListPhi(_list_spec(a, b, label, how))
    if isinstance(a, Mapping) or isinstance(b, Mapping) or len(a) != len(b):
        raise JoinError(f"{label} has another structure on each path: {_shown(a)} and {_shown(b)}")
    phis = [join(x, y, f"{label}[{i}]", how) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    return ContainerPhi(a, None, phis)


def _list_spec(a: Any, b: Any, label: str, how: Widening) -> ListSpec:
    spec: Any = None
    for side in (a, b):
        items = staged_items(side)
        if items is not None:
            specs = [items.items.spec.item]
        elif side.__class__ is list or isinstance(side, tuple):
            if any(is_weak(x) or _is_container(x) for x in side):
                refuse_in_trial(f"{label} is a list of Python values")
            # items still to come (`[None] * n`, a list of a pending size) have no type: the others say it
            specs = [spec_of(x) for x in side if not is_missing(x) and not isinstance(x, PendingSize)]
        else:
            raise JoinError(f"{label} is a list on one path and {_shown(side)} on the other")
        for item in specs:
            spec = item if spec is None else _join_item(spec, item, label, how)
    if spec is None:
        raise JoinError(f"{label} is an empty list on both paths")
    return ListSpec(spec)


def _join_item(a: Any, b: Any, label: str, how: Widening) -> Any:
    if isinstance(a, ListSpec) and isinstance(b, ListSpec):
        return ListSpec(_join_item(a.item, b.item, label, how))
    if a.__class__ is not b.__class__ or len(a.shape) != len(b.shape):
        raise JoinError(f"the items of {label} have different ranks: {a} and {b}")
    # items of one list may differ in size from each other: None, where a tensor would have one symbol
    dims = [m if m == n else None for m, n in zip(a.shape, b.shape, strict=True)]
    if None in dims and how.sizes is None:  # else each item has its own
        raise JoinError(f"the items of {label} have shapes {tuple(a.shape)} and {tuple(b.shape)}", shapes=True)
    return TensorSpec(dims, promote_dtypes(a.dtype, b.dtype))


def _join_specs(a: Any, b: Any, label: str, how: Widening) -> TensorSpec:
    x, y = spec_of(a), spec_of(b)
    if len(x.shape) != len(y.shape):
        raise JoinError(f"{label} has shape {tuple(x.shape)} on one path and shape {tuple(y.shape)} on the other", shapes=True)
    if isinstance(x, ListSpec) or isinstance(y, ListSpec):
        return x
    dims = [how.size(m, n) for m, n in zip(x.shape, y.shape, strict=True)]
    if None in dims:
        raise JoinError(f"{label} has shape {tuple(x.shape)} on one path and shape {tuple(y.shape)} on the other", shapes=True)
    if dims != list(x.shape):
        x = TensorSpec(dims, x.dtype)
    if x.dtype == y.dtype:
        return x
    if is_weak(a) and is_weak(b):
        refuse_in_trial(f"{label} is a number of another type on each path")
    # as in `number * tensor`: the number gives way
    if is_weak(a) != is_weak(b):
        number, strong = (x, y) if is_weak(a) else (y, x)
        return TensorSpec(x.shape, met(number.dtype, strong.dtype))
    return TensorSpec(x.shape, promote_dtypes(x.dtype, y.dtype))


# -- values ----------------------------------------------------------------------------------------------------------


def is_missing(value: Any) -> bool:
    """Whether a value is None or an unset name."""
    return value is None or isinstance(value, Undefined)


def _is_container(value: Any) -> bool:
    return isinstance(value, (list, dict)) or (isinstance(value, tuple) and not hasattr(value, "rank"))


def is_tensor_like(value: Any) -> bool:
    """Whether a value is one tensor for the program."""
    return isinstance(value, (Tensor, Readable, np.ndarray, np.generic)) or is_weak(value)


def is_weak(value: Any) -> bool:
    """Whether a value is a Python number, or one of the program.

    What a user derives from a number has operators and an identity of its own, and is none; members of an `IntEnum` compute as
    numbers do, and who they are follows from their number.
    """
    return value.__class__ in PYTHON_NUMBERS or (isinstance(value, IntEnum) and _computes_as_numbers(type(value)))


@functools.cache
def _computes_as_numbers(kind: type) -> bool:
    return all(
        getattr(kind, f"__{name}__") is getattr(int, f"__{name}__") for name in ("add", "sub", "mul", "eq", "lt", "bool")
    )


def python_kinds(value: Any) -> frozenset[type]:
    """What a tensor or number may be to Python: int, float, … or Tensor; one of them, unless paths differ in it."""
    if isinstance(value, TracedTensor) and (mixed := current_trace().mixed.get(id(value._data))) is not None:
        return mixed[1]
    return frozenset([value.python_type if isinstance(value, WeakTensor) else type(value) if is_weak(value) else Tensor])


def keep_kinds(tensor: TracedTensor, kinds: frozenset[type]) -> None:
    """What a value of the program may be to Python, where its dtype does not say it."""
    mixed = current_trace().mixed
    if len(kinds) > 1 or not kinds <= ORDINARY:
        mixed[id(tensor._data)] = tensor._data, kinds
    else:
        mixed.pop(id(tensor._data), None)


def spec_of(value: Any) -> Any:
    """The type of a value in the program."""
    if isinstance(value, Maybe):
        return spec_of(value.value)
    if isinstance(value, (list, tuple)) and staged_items(value) is None:
        inner = [spec_of(x) for x in value]
        if not inner:
            raise JoinError("an empty list among the items of a list that grows in a staged loop has no type yet")
        return ListSpec(inner[0])
    if staged_items(value) is not None:
        return value[0].items.spec
    if isinstance(value, TracedList):
        return value.spec
    if isinstance(value, TracedTensor):
        return value._data.type
    if isinstance(value, bool):
        return FLAG
    if isinstance(value, int):
        return TensorSpec((), np.int64)
    if isinstance(value, float):
        return TensorSpec((), np.float64)
    if isinstance(value, complex):
        return TensorSpec((), np.complex128)
    tensor = convert(value)
    return TensorSpec(tensor.shape, tensor.dtype)


def same(a: Any, b: Any) -> bool:
    """Whether two Python values are the same for a program: identical, or equal scalars of one type."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, (Tensor, Readable, np.ndarray)):
        return False
    if isinstance(a, float) and isinstance(b, float):
        # 0.0 and -0.0 differ, NaN equals itself
        return np.float64(a).tobytes() == np.float64(b).tobytes()
    if isinstance(a, (bool, int, str, bytes, complex, DType, slice, range, type(None), frozenset)):
        return bool(a == b)
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return isinstance(a, Undefined)


def to_spec(value: Any, spec: Any) -> Any:
    """A tensor, number or array as a program value of this type."""
    trace = current_trace()
    if isinstance(spec, ListSpec):
        items = staged_items(value)
        return value if isinstance(value, TracedList) else items.items if items is not None else list_of(value, spec)
    if isinstance(value, (bool, int, float, complex)):
        return trace.constant(np.asarray(value, spec.dtype.as_numpy_dtype))
    tensor = value if isinstance(value, TracedTensor) else convert(value)
    if tensor.dtype != spec.dtype:
        tensor = cast(tensor, spec.dtype)
    return trace.own(tensor)


def list_of(values: Sequence[Any], spec: ListSpec) -> Any:
    """A Python list as a list of the program."""
    # a list that was made with a size of the program (TensorArray(size=n)): so many items, none of them written
    if len(values) == 1 and isinstance(values[0], PendingSize):
        empty = current_trace().emit(LIST_NEW, (), {"item": spec.item})
        return apply(LIST_RESIZE, empty, values[0].size, item=spec.item)
    # all items of a list of the program, unpacked and unchanged: that list itself, not a copy item by item
    if (whole := active().trials.whole(values)) is not None and whole._data.type == spec:
        return whole
    items = [placeholder(spec.item) if is_missing(v) else to_spec(v, spec.item) for v in values]
    if not items:
        return current_trace().emit(LIST_NEW, (), {"item": spec.item})
    return apply(LIST_NEW, *items, item=spec.item)


def placeholder(spec: Any, sizes: Collection[str] = ()) -> Any:
    """A value of a type where none counts; dimensions in `sizes` may be anything, so they are 0."""
    trace = current_trace()
    if isinstance(spec, ListSpec):
        return trace.emit(LIST_NEW, (), {"item": spec.item})
    # a symbol that stands for several sizes has no value on this side; any will do, and 0 costs nothing
    shape = tuple(0 if d.__class__ is Dim and d.name in sizes else d for d in spec.shape)
    return trace.emit(staged.FILLED, (), {"shape": shape, "dtype": spec.dtype, "value": 0})


def tensors_in(value: Any) -> Iterator[Any]:
    """Every traced tensor inside a value."""
    if isinstance(value, Maybe):
        yield value.flag
        yield from tensors_in(value.value)
    elif staged_items(value) is not None:
        yield value[0].items
    elif isinstance(value, Mapping):
        for child in value.values():
            yield from tensors_in(child)
    elif isinstance(value, (list, tuple)):
        for child in value:
            yield from tensors_in(child)
    elif isinstance(value, IndexedSlices):
        yield from tensors_in((value.values, value.indices))
    elif isinstance(value, TracedTensor):
        yield value


def _shown(value: Any) -> str:
    if isinstance(value, TracedTensor):
        return f"a tensor of shape {tuple(value.shape)}"
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."
