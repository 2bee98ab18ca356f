"""Mutable state: a `Variable` is a name for a sequence of immutable tensor versions.

Reading gives the current version as a tensor and lets every tape that watches accessed variables watch it; assigning
starts a new version. An assignment of a watched value is recorded, so gradients flow through it (see `tape/gradient_tape.py`
for what a variable means as a source).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from inspect import signature
from sys import getrefcount
from threading import RLock
from typing import Any, Self

import numpy as np

from gradtape.ad.batch import BatchedTensor
from gradtape.core.dispatch import apply, convert, snapshot
from gradtape.core.escapes import refuse_escape, watched
from gradtape.core.exits import left
from gradtape.core.float_events import listen
from gradtape.core.record import CLOCK, SCOPE, UNSHARED, WATCHING, Record, RecordingScope, Unwatched, VariableKey, leaf
from gradtape.core.sparse_deferral import NO_ARRAY, asked_by_sparse_matrix
from gradtape.core.tensor import Readable, Reference, Tensor, array_repr, box
from gradtape.core.typing import Array, DTypeLike, Index, Size, TensorLike
from gradtape.dtypes import DType
from gradtape.errors import InvalidArgumentError
from gradtape.ir.types import TensorShape
from gradtape.ops import index as indexing
from gradtape.ops.create import constant
from gradtape.ops.stop import ASSIGN
from gradtape.trace.effects import TRACING_VARIABLES, active
from gradtape.trace.tracing import TracedTensor, leaked, lift
from gradtape.variables.locking import acquired
from gradtape.variables.part_updates import PartUpdates
from gradtape.variables.variable_scopes import CREATORS, created, scoped_name

_counter = itertools.count()


# called with each new variable: restores of checkpoints that wait for variables to be made (`late_restore.py`)
NEWCOMERS: list[Callable[[Variable], None]] = []


class Variable(PartUpdates):
    """A tensor whose value can be replaced; tapes watch trainable variables when they are read.

    >>> v = gt.Variable([1.0, 2.0])
    >>> v.assign_add([1.0, 1.0]).numpy()
    array([2., 3.], dtype=float32)
    """

    __slots__ = ("__dict__", "__weakref__", "_constraint", "_dtype", "_key", "_lock", "_open", "_past", "_stored", "_trainable")

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # (without arguments: a copy, or what pickle makes)
        if not CREATORS.get() or not (args or kwargs):
            return object.__new__(cls)
        given = signature(cls.__init__).bind(None, *args, **kwargs).arguments
        return created(cls, {name: value for name, value in given.items() if name != "self"})

    def __init__(
        self, initial_value: TensorLike | Callable[[], TensorLike] | None = None, trainable: bool | None = None,
        validate_shape: bool = True, caching_device: object = None, name: str | None = None, variable_def: object = None,
        dtype: DTypeLike | None = None, import_scope: object = None, constraint: Callable[[Tensor], Any] | None = None,
        synchronization: object = None, aggregation: object = None, shape: Iterable[Size | None] | None = None,
    ) -> None:  # fmt: skip
        if hasattr(self, "_stored"):  # made by a creator: see variable_creator_scope
            return
        if initial_value is None:
            raise ValueError("a Variable needs an initial_value")
        if not (trainable is None or isinstance(trainable, (bool, np.bool_, int))):
            raise TypeError(f"Variable: trainable must be True or False, got {trainable!r}; give other arguments by name")
        value = initial_value() if callable(initial_value) else initial_value
        start = constant(value, dtype=dtype)
        declared = TensorShape(start.shape if shape is None else shape)
        declared.assert_is_compatible_with(start.shape)
        self._open = None if declared.is_fully_defined() else declared  # what `assign` may change the shape to
        tracer = active()
        if tracer is not None:
            # a variable that a function makes is made once, at its first trace; its first value must be a real one
            start = tracer.initial(self, start)
        # a tensor of its own: the one given may be changed in place by whoever has it
        self._stored = box(start._data, start._node)
        self._dtype = start.dtype
        self._trainable = start.dtype.is_differentiable if trainable is None else bool(trainable)
        self._key = VariableKey(scoped_name(f"{name if name is not None else f'Variable_{next(_counter)}'}:0"))
        self._constraint = constraint
        listen()
        self._lock = RLock()  # held while it is updated: see `variables/locking.py`
        self._past: Unwatched | None = None  # where its value came from, if that was not recorded: for `tape.explain`
        scope = SCOPE.get()
        if start._node is not None and scope is not None:  # computed from watched values: still a version to ask for
            for recorder in scope.recorders:
                if recorder.key in start._node.keys:
                    recorder.add_version(self, start._node)
        for welcome in NEWCOMERS:
            welcome(self)

    # -- what it is ----------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._key.name

    @property
    def trainable(self) -> bool:
        return self._trainable

    @property
    def constraint(self) -> Callable[[Tensor], Any] | None:
        return self._constraint

    @property
    def shape(self) -> TensorShape:
        return self._tensor.shape

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def ndim(self) -> int:
        return self._tensor.ndim

    @property
    def size(self) -> int:
        return self._tensor.size

    @property
    def device(self) -> str:
        return "/CPU:0"

    def get_shape(self) -> TensorShape:
        return self.shape

    @property
    def initializer(self) -> None:
        """The operation that would give a variable of TensorFlow's graphs its first value; here each has it from the start."""
        return None

    def is_initialized(self, name: str | None = None) -> bool:
        return True

    def ref(self) -> Reference:
        return Reference(self)

    # -- reading -------------------------------------------------------------------------------------------------

    @property
    def _tensor(self) -> Tensor:
        """The current version: the variable's own, or while a function is traced, its value in the program."""
        if TRACING_VARIABLES.count and (tracer := active()) is not None:
            return tracer.variable(self).tensor
        return self._stored

    @_tensor.setter
    def _tensor(self, tensor: Tensor) -> None:
        if TRACING_VARIABLES.count and (tracer := active()) is not None:
            tracer.before_variable(self)
            if tensor.dtype.is_differentiable and not tensor.wraps:  # may be read, so watched, where it has no other past
                tensor = tensor.__copy__()
                lift(tensor)
            if tensor.dtype.is_differentiable and isinstance(tensor, TracedTensor):
                tensor = tracer.version(self, tensor)
            tracer.variable(self).tensor = tensor
        else:
            self._stored = tensor

    @property
    def _shown(self) -> Tensor:
        """What Python gets of it: the current version, or what a kind of variable makes of the versions of several ranks."""
        return self._tensor

    def _identify(self, tensor: Tensor) -> None:
        """The same version under another identity: no assignment."""
        if TRACING_VARIABLES.count and (tracer := active()) is not None:
            tracer.variable(self).tensor = tensor
        else:
            self._stored = tensor

    def read(self) -> Tensor:
        """The current version as a tensor, watched by the tapes that watch accessed variables."""
        tensor = self._tensor if TRACING_VARIABLES.count else self._stored  # what `_tensor` does, without the call
        scope = SCOPE.get()
        node = tensor._node
        if scope is None:
            if node is None and not tensor.wraps:
                tensor._node = self._key  # what is computed from it keeps that in mind
            return tensor
        # Everybody who records here knows this version already, or nobody wants it: the common case of a training loop.
        if node is not None and (node.keys is scope.keys or (node is self._key and node in scope.passed)):
            return tensor
        return self._read_watched(scope)

    read_own = read  # what a program is given: it does itself what reading this kind of variable means

    def _read_watched(self, scope: RecordingScope) -> Tensor:
        tensor = self._tensor if TRACING_VARIABLES.count else self._stored
        node = tensor._node
        known = () if node is None else node.keys
        recorders = [*self._onlookers(tensor), *scope.recorders] if TRACING_VARIABLES.count else scope.recorders
        new = []
        for recorder in recorders:
            if recorder.key not in known and recorder.watches(self):
                new.append(recorder)
        if new:
            return self.watched_by(new, scope)
        # Nobody watches it; what is computed from it remembers the variable, so that `tape.explain` can name it.
        if not tensor.wraps and (node is None or not any(key.open for key in node.keys)):
            tensor._node = self._key
            scope.passed.add(self._key)
        return tensor

    def _onlookers(self, tensor: Tensor) -> list[Any]:
        """The tapes around the staged loops and branches in which a version from before them is read."""
        tracer = active()
        return tracer.trace.onlookers(tensor) if tracer is not None and isinstance(tensor, TracedTensor) else []

    def watched_by(self, new: list[Any], scope: RecordingScope | None) -> Tensor:
        """Make the current version known to more recorders: a fresh leaf, or one more reader of a computed version."""
        with WATCHING:  # tapes of several threads may meet here; each must get the tensor it was registered with
            traced = TRACING_VARIABLES.count
            tensor = self._tensor if traced else self._stored
            node = tensor._node
            holders = new
            if node is None or node.op is None or not node.keys:
                if not traced and scope is not None and new == [*scope.recorders]:  # nearly always
                    keys = scope.keys
                else:
                    # a new leaf replaces the old one for those who knew it, too: one version has one identity
                    recorders = [*(self._onlookers(tensor) if traced else ()), *(() if scope is None else scope.recorders)]
                    recorders += [r for r in new if r not in recorders]
                    known = () if node is None else node.keys
                    holders = [r for r in recorders if r.key in known or r in new]
                    keys = tuple([r.key for r in holders])
                    keys = keys if scope is None else scope.subsets.setdefault(keys, keys)
                shape = tensor.shape if tensor.wraps else tensor._data.shape
                origin: tuple[Unwatched, ...] = (self._key,) if self._past is None else (self._key, self._past)
                node = leaf(keys, shape, origin)
                tensor = tensor.__copy__()
                if traced:
                    lift(tensor)
                    self._identify(tensor)
                else:
                    self._stored = tensor
                tensor._node = node
            else:
                keys = tuple(k for k in node.keys if k.open) + tuple(r.key for r in new)
                # the scope's own tuple where it is the same: `read` compares by identity
                node.keys = scope.keys if scope is not None and set(keys) == set(scope.keys) else keys
            for recorder in holders:
                recorder.add_version(self, node)
            return tensor

    def value(self) -> Tensor:
        """The current value as a tensor: later assignments do not change it, nor does changing it change the variable."""
        return snapshot(convert(self))

    def read_value(self) -> Tensor:
        return snapshot(convert(self))

    def numpy(self) -> np.ndarray:
        """The current values: a read-only array, unaffected by later assignments."""
        if CLOCK.open:
            left(self._identity(), ".numpy()")
        return self._shown.numpy()

    def item(self, *index: int) -> Any:
        """One element as a Python number."""
        if CLOCK.open:
            left(self._identity(), ".item()")
        return self._shown.item(*index)

    def tolist(self) -> Any:
        """The values as (nested) lists of Python numbers."""
        if CLOCK.open:
            left(self._identity(), ".tolist()")
        return self._shown.tolist()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Any:
        if asked_by_sparse_matrix():
            return NO_ARRAY
        doubt = refuse_escape(None, "__array__", bool(copy)) if self._would_be_watched() else None
        if CLOCK.open:
            left(self._identity(), "np.asarray")
        taken = self._shown.__array__(dtype, copy)
        if doubt is not None:
            doubt.follow(taken)
        return taken

    def _would_be_watched(self) -> bool:
        """Whether somebody who records here watches it, or would if it were read as a tensor."""
        scope = SCOPE.get()
        return scope is not None and (watched(self._tensor._node) or any(r.watches(self) for r in scope.recorders))

    def _identity(self) -> Record:
        """What open tapes know its current version by, or the variable itself."""
        node = self._tensor._node
        return self._key if node is None or not any(key.open for key in node.keys) else node

    def __getitem__(self, key: Index) -> VariableSlice:
        value = self.read()[key]
        # A slice is a tensor that also knows where it was cut from, so that `v[i].assign(x)` finds the variable.
        part: Any = VariableSlice()
        if value.wraps:
            if not isinstance(value, TracedTensor):
                return value  # type: ignore[return-value]  # a batch of slices cannot be assigned to
            part = TracedSlice()
            part.level = value.level
        part._data, part._node = value._data, value._node
        part._variable, part._key = self, key
        return part

    def sparse_read(self, indices: TensorLike, name: str | None = None) -> Tensor:
        return indexing.gather(self.read(), indices)

    def gather_nd(self, indices: TensorLike, name: str | None = None) -> Tensor:
        from gradtape.ops.scatter import gather_nd

        return gather_nd(self.read(), indices)

    def __len__(self) -> int:
        return len(self._tensor)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.read())

    def __bool__(self) -> bool:
        if CLOCK.open:
            left(self._identity(), "bool()")
        return bool(self._shown)

    def __int__(self) -> int:
        number = int(self._shown)
        if self._would_be_watched():
            refuse_escape(None, "__int__")
        if CLOCK.open:
            left(self._identity(), "int()")
        return number

    def __float__(self) -> float:
        number = float(self._shown)
        if self._would_be_watched():
            refuse_escape(None, "__float__")
        if CLOCK.open:
            left(self._identity(), "float()")
        return number

    def __complex__(self) -> complex:
        number = complex(self._shown)
        if self._would_be_watched():
            refuse_escape(None, "__complex__")
        if CLOCK.open:
            left(self._identity(), "complex()")
        return number

    def __index__(self) -> int:
        if CLOCK.open:
            left(self._identity(), "an index")
        return self._shown.__index__()

    # -- assigning -----------------------------------------------------------------------------------------------

    def assign(
        self, value: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Self:
        """Replace the value; recorded when the new value is watched."""
        tensor = self._checked(value, "assign")
        node = tensor._node
        if node is not None and node.keys:
            tensor = apply(ASSIGN, tensor, variable=self._key)
        self._bind(tensor)
        return self

    def assign_add(
        self, delta: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Self:
        """Add to the value."""
        return self._step(delta, np.add, lambda a, b: a + b, "assign_add")

    def assign_sub(
        self, delta: TensorLike, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Self:
        """Subtract from the value."""
        return self._step(delta, np.subtract, lambda a, b: a - b, "assign_sub")

    def _step(self, delta: TensorLike, ufunc: np.ufunc, operate: Callable[[Tensor, Tensor], Tensor], method: str) -> Self:
        # Checked before the lock is taken: making an array of a user's object may take long.
        tensor = self._checked(delta, method)
        lock = self._lock
        held = lock.acquire(False) or acquired(lock)
        try:
            if SCOPE.get() is not None:
                return self.assign(operate(self.read(), tensor))
            data = self._tensor._data
            # nobody records and nobody else holds the buffer (local name, tensor slot): update in place
            if (
                data.__class__ is np.ndarray and data.base is None and getrefcount(data) == UNSHARED + 1
                and self._sole_version()
            ):  # fmt: skip
                ufunc(data, tensor._data, out=data)
            else:
                with_result = ufunc(data, tensor._data)
                self._tensor = box(with_result)
            return self
        finally:
            if held:
                lock.release()

    def _sole_version(self) -> bool:
        """No user holds the current version's tensor (attribute, argument: two references), and no tape its record."""
        return (getrefcount(self._tensor) == 2 and self._tensor._node is None) or self._forget_closed()

    def _forget_closed(self) -> bool:
        node = self._tensor._node
        if node is None or any(key.open for key in node.keys) or getrefcount(self._tensor) != 2:
            return False
        self._tensor._node = None
        return True

    def _checked(self, value: TensorLike, method: str) -> Tensor:
        # the common case of a training step, without asking for shapes and dtypes as objects
        if value.__class__ is Tensor and not TRACING_VARIABLES.count:
            data, own = value._data, self._stored._data
            if data.dtype is own.dtype and data.shape == own.shape:
                checked: Tensor = value
                return checked
        tensor = convert(value) if isinstance(value, (Tensor, Readable)) else convert(value, hint=self.dtype)
        if tensor.dtype != self.dtype:
            raise ValueError(
                f"{method}: variable '{self.name}' has dtype {self.dtype.name} but the value has dtype "
                f"{tensor.dtype.name}; use gt.cast(value, gt.{self.dtype.name})"
            )
        fits = self._open is not None and method == "assign" and self._open.is_compatible_with(tensor.shape)
        if isinstance(tensor, BatchedTensor):
            raise InvalidArgumentError(
                f"{method}: inside vectorized_map the value is one per example, and variable '{self.name}' holds one for all; "
                "return the values and assign what they give together (their sum, say) after the map"
            )
        if tensor._data.shape != self._tensor._data.shape and not fits:
            raise ValueError(
                f"{method}: variable '{self.name}' has shape {tuple(self.shape)} but the value has shape {tuple(tensor.shape)}"
            )
        return tensor

    def _bind(self, tensor: Tensor) -> None:
        node = tensor._node
        # where it came from is kept beside the version, which must be a leaf for tapes that watch it later
        self._past = None if node is None or node.keys else node  # type: ignore[assignment]
        node = node if self._past is None else None
        if isinstance(tensor, TracedTensor) and active() is None:
            raise leaked(tensor)
        # The variable holds an object of its own: `t[i] = v` on the tensor that was assigned must not change it.
        version = tensor.__copy__() if tensor.wraps else box(tensor._data, node)
        lock = self._lock
        held = lock.acquire(False) or acquired(lock)  # who updates it now, ends before
        self._tensor = version
        if held:
            lock.release()
        scope = SCOPE.get()
        if node is not None and node.op is ASSIGN and scope is not None:
            for recorder in scope.recorders:
                if recorder.key in node.keys:
                    recorder.add_assignment(self, node)

    def take_version(self, tensor: Tensor) -> None:
        """What a compiled function assigned: its call holds the lock, and has done what a kind of variable does with values."""
        data, own, node = tensor._data, self._stored._data, tensor._node
        unwatched = tensor.__class__ is Tensor and (node is None or not node.keys) and not TRACING_VARIABLES.count
        if unwatched and data.dtype is own.dtype and data.shape == own.shape:
            self._past = node  # type: ignore[assignment]
            self._stored = box(data)
        else:
            Variable.assign(self, tensor)

    # -- copies and printing -------------------------------------------------------------------------------------

    __hash__ = object.__hash__

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        # (the array is copied: updates in place must not reach the copy)
        twin = _restore(np.array(self._tensor._data), self.trainable, self.name, self._open)
        twin._constraint = self._constraint
        memo[id(self)] = twin
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._tensor._data, self.trainable, self.name, self._open)

    def __repr__(self) -> str:
        known = "" if self._tensor.wraps else f", numpy={array_repr(self.numpy())}"  # no values while it is traced
        return f"<gt.Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}{known}>"

    def __format__(self, spec: str) -> str:
        return format(self._shown, spec) if spec else str(self)


def _restore(data: Array, trainable: bool, name: str, shape: TensorShape | None = None) -> Variable:
    variable = Variable(data, trainable=trainable, shape=shape)
    variable._key = VariableKey(name)  # whole, with the scopes it was made in
    return variable


def unwrapped(item: Any) -> Any:
    """The variable behind what another library calls its variable (`Readable.variable`); anything else as it is."""
    return item.variable() if isinstance(item, Readable) and item.__class__ is not Variable else item


class _Assignable:
    """What a slice of a variable adds to a tensor."""

    __slots__ = ()
    _variable: Variable
    _key: Any

    def assign(self, value: TensorLike, name: str | None = None) -> Variable:
        return self._variable._replace(self._key, value)

    def assign_add(self, value: TensorLike, name: str | None = None) -> Variable:
        return self._variable._step_part(self._key, lambda part: part + value)

    def assign_sub(self, value: TensorLike, name: str | None = None) -> Variable:
        return self._variable._step_part(self._key, lambda part: part - value)


class VariableSlice(_Assignable, Tensor):
    """`v[key]`: the slice's value as a tensor, which can also be assigned to: `v[0].assign(1.0)`."""

    __slots__ = ("_key", "_variable")


class TracedSlice(_Assignable, TracedTensor):
    """`v[key]` while a function is traced."""

    __slots__ = ("_key", "_variable")
