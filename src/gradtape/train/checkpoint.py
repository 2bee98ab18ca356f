"""`train.Checkpoint` and its manager: the state of live objects to a file, and back into them.

State is found by walking the given objects: variables, optimizers, modules and other objects by attribute, lists and
dicts by position and key, random generators by their state; numbers, strings and tensors count where they can be put back
(directly in the checkpoint, in lists and dicts). Each object is saved once, under the first path that leads to it; the file
also says which other paths lead there, so that objects which are shared in another order find their values.
Restoring checks every name, shape and dtype first, and only then assigns; what belongs to variables that are not made yet
waits for them (`late_restore.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from gradtape.core.tensor import Tensor
from gradtape.core.typing import Array, TensorLike
from gradtape.errors import DataLossError, NotFoundError
from gradtape.ops.generator import Generator
from gradtape.train.checkpoint_file import on_first_rank, read_file, remove_abandoned, replace_file, write_file
from gradtape.train.late_restore import LateRestore, saved_objects
from gradtape.train.optimizers.base import Optimizer
from gradtape.train.saving import array_of, attributes, boxed, child_name
from gradtape.variables.variable import Variable

_PLAIN = (bool, int, float, str, type(None))
_STATE_FILE = "checkpoint"


class Checkpoint:
    """Named objects whose state is saved and restored together.

    >>> import tempfile
    >>> w = gt.Variable([1.0, 2.0])
    >>> checkpoint = gt.train.Checkpoint(w=w, epoch=7)
    >>> path = checkpoint.save(tempfile.mkdtemp() + "/ckpt")
    >>> _ = w.assign([0.0, 0.0])
    >>> _ = checkpoint.restore(path)
    >>> w.numpy(), checkpoint.epoch, path[-6:]
    (array([1., 2.], dtype=float32), 7, 'ckpt-1')
    """

    save_counter: Variable

    def __init__(self, root: object = None, **kwargs: Any) -> None:
        for reserved in ("save", "restore", "read", "write", "save_counter"):
            if reserved in kwargs:
                raise ValueError(f"Checkpoint: '{reserved}' is the name of a method or attribute; choose another name")
        if root is not None:
            kwargs = {"root": root, **kwargs}
        for name, value in kwargs.items():
            setattr(self, name, value)
        self.save_counter = Variable(np.int64(0), trainable=False, name="save_counter")
        self._late: LateRestore | None = None

    def write(self, file_prefix: str | PathLike[str], options: object = None) -> str:
        """Write the state to exactly this path, without counting; gives the path."""
        path: str = os.fspath(file_prefix)
        write_file(path, *file_content(self))
        return path

    def save(self, file_prefix: str | PathLike[str], options: object = None) -> str:
        """Write to `file_prefix-1`, `-2`, … and note it as the latest of its directory; gives the path. Of several ranks all
        call it, and one writes."""
        prefix = os.fspath(file_prefix)
        # (taken back if writing fails: the next attempt has the same number)
        before = self.save_counter.value()
        self.save_counter.assign_add(np.int64(1))
        path = f"{prefix}-{int(self.save_counter)}"
        try:
            content = file_content(self)
            on_first_rank(lambda: self._write_noted(path, *content))
        except BaseException:
            self.save_counter.assign(before)
            raise
        return path

    def _write_noted(self, path: str, arrays: dict[str, Any], description: dict[str, Any]) -> None:
        directory = os.path.dirname(path)
        os.makedirs(os.path.abspath(directory), exist_ok=True)
        remove_abandoned(directory)
        noted = _known_paths(directory)
        try:
            # noted before it is there: a process that dies in between leaves no file that nobody knows of
            _note_paths(directory, [*(p for p in noted if p != path), path])
            write_file(path, arrays, description)
        except BaseException:
            _note_paths(directory, noted)
            raise

    def read(self, save_path: str | PathLike[str], options: object = None) -> RestoreStatus:
        """Restore from a file made by `write` or `save`."""
        return self.restore(save_path)

    def restore(self, save_path: str | PathLike[str] | None, options: object = None) -> RestoreStatus:
        """Put a file's state back into the objects; None does nothing.

        Values of variables that are not made yet, and the slots of an optimizer that has not made a step yet, are kept: a
        variable that is later found below the objects has its value from the file when it is first used.

        >>> import tempfile
        >>> class Model(gt.Module):
        ...     def build(self):
        ...         self.w = gt.Variable([0.0, 0.0])
        >>> trained, fresh = Model(), Model()
        >>> trained.w = gt.Variable([1.0, 2.0])
        >>> path = gt.train.Checkpoint(model=trained).save(tempfile.mkdtemp() + "/ckpt")
        >>> status = gt.train.Checkpoint(model=fresh).restore(path)
        >>> fresh.build()
        >>> fresh.w.numpy()
        array([1., 2.], dtype=float32)

        Raises:
            NotFoundError: the file does not exist, or lacks something the objects have.
            DataLossError: the file is damaged.
            ValueError: a shape or dtype differs. In every case nothing has changed.
        """
        if save_path is None:
            return RestoreStatus("nothing", {}, [])
        path = os.fspath(save_path)
        arrays, description = read_file(path)
        if description.get("kind") == "foreign":
            raise DataLossError(f"{path} is a safetensors file that gradtape did not write: read it with gt.load, and assign")
        if description.get("kind") != "checkpoint":
            raise DataLossError(f"{path} was written by gt.save: read it with gt.load")
        values: dict[str, Any] = description["values"]
        shared: dict[str, str] = description.get("shared", {})
        assignments: list[Callable[[], None]] = []
        used: set[str] = set()
        seen: dict[int, tuple[str, object]] = {}
        for place in self._places({}, seen):
            name = _saved_as(place.name, shared)
            if name in arrays:
                assignments.append(place.setter(arrays[name], path))
            elif name in values:
                assignments.append(place.setter(values[name], path))
            elif place.name == "save_counter":
                continue
            else:
                held = ", ".join(sorted([*arrays, *values])[:20])
                raise NotFoundError(f"restore: {path} has no '{place.name}'; it holds: {held}")
            used.add(name)
        # All checks have passed: from here on nothing fails, so a restore happens whole or not at all.
        left = {name: arrays[name] for name in sorted(arrays) if name not in used}
        for assign in assignments:
            assign()
        for prefix, optimizer in [(first, item) for first, item in seen.values() if isinstance(item, Optimizer)]:
            for name in list(left):
                if name.startswith(prefix + "/") and optimizer.checkpoint_defer(name[len(prefix) + 1 :], left[name], path):
                    del left[name]
        # what an earlier restore still had for variables to come is out of date now
        if self._late is not None:
            self._late.forget()
        self._late = LateRestore(self, saved_objects(self), left, _names_in(shared), _fitting(path))
        return RestoreStatus(path, left, [name for name in values if name not in used])

    def _places(self, shared: dict[str, str], seen: dict[int, tuple[str, object]]) -> Iterator[_Place]:
        """Where state is; `seen` learns the objects on the way with the first path to each, `shared` their other paths."""
        yield _Place("save_counter", self.save_counter, None)
        for name, item in saved_objects(self).items():
            yield from _walk(item, child_name("", name), _attribute_setter(self, name), seen, shared)


def file_content(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file of a checkpoint has: arrays by name, and a description of the rest."""
    arrays: dict[str, Any] = {}
    values: dict[str, Any] = {}
    shared: dict[str, str] = {}
    for place in checkpoint._places(shared, {}):
        content = place.get()
        if isinstance(content, _PLAIN):
            values[place.name] = content
        else:
            arrays[place.name] = array_of(content)
    return arrays, {"kind": "checkpoint", "values": values, "shared": shared}


class RestoreStatus:
    """What `restore` gives: one may ask whether the whole file was used, by what exists now."""

    def __init__(self, path: str, waiting: dict[str, Any], unused: list[str]) -> None:
        self._path = path
        self._waiting = waiting  # the values that variables made later may still take
        self._unused = unused

    def assert_consumed(self) -> RestoreStatus:
        unused = [*self._waiting, *self._unused]
        if unused:
            raise AssertionError(f"{self._path} holds values that no object took: {', '.join(unused)}")
        return self

    def assert_existing_objects_matched(self) -> RestoreStatus:
        return self  # restore has raised otherwise

    def assert_nontrivial_match(self) -> RestoreStatus:
        return self

    def expect_partial(self) -> RestoreStatus:
        return self


Plain: TypeAlias = bool | int | float | str | None


class _Place:
    """A spot in the objects that holds one value: how to read it, and how to put another there."""

    def __init__(self, name: str, content: TensorLike | Plain, put: Callable[[Any], None] | None) -> None:
        self.name = name
        self._content = content
        self._put = put

    def get(self) -> Any:
        return self._content

    def setter(self, value: Array | Plain, path: str) -> Callable[[], None]:
        """Check that the value fits; the function given then puts it there."""
        content = self._content
        if isinstance(content, _PLAIN):
            if not isinstance(value, _PLAIN):
                raise ValueError(f"restore: '{self.name}' is a Python value here but a tensor in {path}")
            put = self._put
            return lambda: put(value)  # type: ignore[misc]  # plain values are only found where they can be put
        if isinstance(value, _PLAIN):
            raise ValueError(f"restore: '{self.name}' is a tensor here but the Python value {value!r} in {path}")
        label = f"variable '{content.name}' ('{self.name}')" if isinstance(content, Variable) else f"'{self.name}'"
        _check_fit(label, array_of(content), value, path)
        if isinstance(content, Variable):
            return lambda: _assign(content, value)
        put = self._put
        if isinstance(content, Tensor):
            return lambda: put(boxed(value))  # type: ignore[misc]
        return lambda: put(np.array(value))  # type: ignore[misc]


def _check_fit(label: str, have: Array, value: Array, path: str) -> None:
    if have.shape != value.shape or have.dtype != value.dtype:
        raise ValueError(
            f"restore: {label} has shape {have.shape} and dtype {have.dtype.name}, but {path} holds shape "
            f"{value.shape} and dtype {value.dtype.name}"
        )


def _fitting(path: str) -> Callable[[Variable, str, Any], Tensor]:
    def fitting(variable: Variable, name: str, value: Array) -> Tensor:
        # (the value itself: until it is restored, reading the variable asks for just this)
        have: Any = Variable.__dict__["_stored"].__get__(variable)
        _check_fit(f"variable '{variable.name}' ('{name}')", np.asarray(have._data), value, path)
        return boxed(value)

    return fitting


def _assign(variable: Variable, value: ArrayLike) -> None:
    variable.assign(boxed(value))


def _attribute_setter(owner: object, name: str) -> Callable[[Any], None]:
    return lambda value: setattr(owner, name, value)


def _item_setter(owner: dict[Any, Any] | list[Any], key: Any) -> Callable[[Any], None]:
    return lambda value: owner.__setitem__(key, value)


def _walk(
    item: object, path: str, put: Callable[[Any], None] | None, seen: dict[int, tuple[str, object]], shared: dict[str, str]
) -> Iterator[_Place]:
    """The places below an object. `put` is None where the value cannot be replaced: then only variables count."""
    if isinstance(item, (*_PLAIN, np.ndarray, np.generic, Tensor)):
        if put is not None:
            yield _Place(path, item, put)
        return
    # An object that two paths lead to is saved under the first and named under the other.
    if id(item) in seen:
        shared[path] = seen[id(item)][0]
        return
    seen[id(item)] = path, item
    if isinstance(item, Variable):
        yield _Place(path, item, None)
    elif isinstance(item, Optimizer):
        for name, variable in item.checkpoint_state().items():
            yield _Place(f"{path}/{name}", variable, None)
    elif (reset := item.reset if isinstance(item, Generator) else getattr(item, "checkpoint_reset", None)) is not None:
        yield _Place(f"{path}/state", item.state, reset)  # type: ignore[attr-defined]  # a generator's, or a dataset's iterator
    else:
        for key, part, setter in _parts(item):
            yield from _walk(part, child_name(path, key), setter, seen, shared)


def _saved_as(path: str, shared: dict[str, str]) -> str:
    """The name that a file uses for what is found at a path: shared objects are saved under one of theirs."""
    parts = path.split("/")
    # The longest prefix first: of an object inside a shared one, the inner sharing tells more.
    for length in range(len(parts), 0, -1):
        first = shared.get("/".join(parts[:length]))
        if first is not None:
            return _saved_as("/".join([first, *parts[length:]]), shared)
    return path


def _names_in(shared: dict[str, str]) -> Callable[[dict[str, Any], Variable], Iterator[str]]:
    return lambda objects, variable: (_saved_as(path, shared) for path in _paths_to(objects, variable))


def _paths_to(objects: dict[str, Any], variable: Variable) -> Iterator[str]:
    """All paths that lead from the objects to a variable: which one came first may differ from when it was saved."""
    waiting = [(child_name("", name), item, frozenset[int]()) for name, item in objects.items()]
    while waiting:
        path, item, above = waiting.pop()
        if item is variable:
            yield path
        elif isinstance(item, Optimizer):
            yield from (f"{path}/{name}" for name, slot in item.checkpoint_state().items() if slot is variable)
        # looked into on each way that leads to it, since all names count, but not inside of itself
        elif id(item) not in above and not isinstance(item, (*_PLAIN, np.ndarray, np.generic, Tensor, Variable, Generator)):
            within = above | {id(item)}
            waiting += [(child_name(path, key), part, within) for key, part, _ in _parts(item)]


def _parts(item: object) -> Iterator[tuple[Any, Any, Callable[[Any], None] | None]]:
    """Key, part, and a setter where the container allows one."""
    if isinstance(item, Mapping):
        for key in sorted(item, key=str):
            yield key, item[key], _item_setter(item, key) if isinstance(item, dict) else None
    elif isinstance(item, (list, tuple)):
        for index, part in enumerate(item):
            yield index, part, _item_setter(item, index) if isinstance(item, list) else None
    elif isinstance(item, Checkpoint):
        for key, part in saved_objects(item).items():
            yield key, part, _attribute_setter(item, key)
    else:
        for key, part in (attributes(item) or {}).items():
            yield key, part, None


# -- which checkpoints a directory holds -----------------------------------------------------------------------------


def _known_paths(directory: str) -> list[str]:
    """The checkpoints noted in a directory, oldest first, that still exist."""
    import json

    state = os.path.join(directory, _STATE_FILE)
    try:
        with open(state, encoding="utf-8") as file:
            names = json.load(file)["all"]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise DataLossError(f"{state} is damaged: {error}; delete it, and restore checkpoints by their own path") from error
    # (somebody may have deleted some by hand)
    return [path for path in (os.path.join(directory, name) for name in names) if os.path.exists(path)]


def _note_paths(directory: str, paths: list[str]) -> None:
    import json

    text = json.dumps({"all": [os.path.relpath(p, directory or ".") for p in paths]})
    replace_file(os.path.join(directory, _STATE_FILE), lambda file: file.write(text.encode()))


def latest_checkpoint(checkpoint_dir: str | PathLike[str], latest_filename: str | None = None) -> str | None:
    """The path of the newest checkpoint that `Checkpoint.save` made in a directory; None when there is none.

    >>> import tempfile
    >>> gt.train.latest_checkpoint(tempfile.mkdtemp()) is None
    True
    """
    paths = _known_paths(os.fspath(checkpoint_dir))
    return paths[-1] if paths else None


class CheckpointManager:
    """Saves numbered checkpoints in a directory and deletes old ones.

    >>> import tempfile
    >>> w = gt.Variable(0.0)
    >>> manager = gt.train.CheckpointManager(gt.train.Checkpoint(w=w), tempfile.mkdtemp(), max_to_keep=2)
    >>> for _ in range(3):
    ...     _ = manager.save()
    >>> [path[-6:] for path in manager.checkpoints]
    ['ckpt-2', 'ckpt-3']
    """

    def __init__(
        self, checkpoint: Checkpoint, directory: str | PathLike[str], max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None, checkpoint_name: str = "ckpt",
    ) -> None:  # fmt: skip
        if max_to_keep is not None and max_to_keep <= 0:
            raise ValueError(f"CheckpointManager: max_to_keep must be positive or None, got {max_to_keep}")
        self.checkpoint = checkpoint
        self.directory = os.fspath(directory)
        self._max_to_keep = max_to_keep
        self._keep_every = keep_checkpoint_every_n_hours
        self._prefix = os.path.join(self.directory, checkpoint_name)
        self._preserved_at = time.time()
        os.makedirs(self.directory, exist_ok=True)

    @property
    def checkpoints(self) -> list[str]:
        """The paths, oldest first."""
        return _known_paths(self.directory)

    @property
    def latest_checkpoint(self) -> str | None:
        return latest_checkpoint(self.directory)

    def save(self, checkpoint_number: int | None = None) -> str:
        """Save, then delete what exceeds `max_to_keep`; gives the path. Of several ranks all call it, and one writes."""
        if checkpoint_number is not None:
            self.checkpoint.save_counter.assign(np.int64(checkpoint_number - 1))
        path = self.checkpoint.save(self._prefix)
        on_first_rank(self._delete_surplus)
        return path

    def _delete_surplus(self) -> None:
        paths = self.checkpoints
        surplus = [] if self._max_to_keep is None else paths[: -self._max_to_keep]
        for old in surplus:  # deleted while still noted: if the process dies in between, the next save goes on with it
            if not self._preserved(old):
                os.unlink(old)
        _note_paths(self.directory, [p for p in paths if p not in surplus])

    def _preserved(self, path: str) -> bool:
        if self._keep_every is None or os.path.getmtime(path) - self._preserved_at < self._keep_every * 3600:
            return False
        self._preserved_at = os.path.getmtime(path)
        return True

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint if there is one; gives its path."""
        path = self.latest_checkpoint
        if path is not None:
            self.checkpoint.restore(path)
        return path
