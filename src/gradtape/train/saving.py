"""`save` and `load`: a structure of Python containers with tensors and plain values in it, to a file and back.

What comes back is data: dicts, lists, tuples, tensors, numbers, strings. Variables come back as tensors, modules and
optimizers as dicts of their variables. To fill existing objects again, use `train.Checkpoint`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gradtape.core.dispatch import convert
from gradtape.core.tensor import Readable, Tensor, box
from gradtape.core.typing import TensorLike
from gradtape.errors import DataLossError
from gradtape.ops.generator import Generator
from gradtape.train.checkpoint_file import read_file, write_file
from gradtape.train.optimizers.base import Optimizer
from gradtape.tree import Structure
from gradtape.variables.variable import Variable

_PLAIN = (bool, int, float, str, type(None))


def save(path: str | PathLike[str], structure: Structure) -> str:
    """Write a nested structure of dicts, lists, tuples, tensors, variables, modules, optimizers, NumPy arrays, numbers
    and strings to one file; gives the path.

    >>> import tempfile
    >>> path = gt.save(tempfile.mkdtemp() + "/run", {"w": gt.constant([1.0, 2.0]), "epoch": 3})
    >>> gt.load(path)["epoch"], gt.load(path)["w"].numpy()
    (3, array([1., 2.], dtype=float32))
    """
    if not isinstance(path, (str, PathLike)):
        raise TypeError(f"save: the path comes first, then what to save: gt.save(path, structure); got {type(path).__name__}")
    arrays: dict[str, Any] = {}
    outline = _outline(structure, "", arrays, set())
    target: str = os.fspath(path)
    write_file(target, arrays, {"kind": "structure", "outline": outline})
    return target


def load(path: str | PathLike[str]) -> Any:
    """The structure that `save` wrote; of a safetensors file of another program (PyTorch's, say), a dict of tensors by name.

    Loading can execute no code.

    Raises:
        NotFoundError: there is no such file.
        DataLossError: the file is damaged or something else.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "weights.safetensors")
    >>> _ = gt.save(path, {"w": gt.constant([1.0, 2.0])})
    >>> gt.load(path)["w"].numpy()
    array([1., 2.], dtype=float32)
    """
    arrays, description = read_file(os.fspath(path))
    if description.get("kind") == "foreign":
        return {name: box(array if array.ndim else array[()]) for name, array in arrays.items()}
    if description.get("kind") != "structure":
        raise DataLossError(f"{path} is a checkpoint of gt.train.Checkpoint: restore it there")
    return _rebuilt(description["outline"], arrays)


def child_name(path: str, key: object) -> str:
    """The name of a part: keys joined by '/', with '/' and '\\' inside a key escaped."""
    text = str(key).replace("\\", "\\\\").replace("/", "\\/")
    return f"{path}/{text}" if path else text


def attributes(item: Structure) -> dict[str, Any] | None:
    """What an object is made of, for saving: its attributes; None for something that is not a plain object.

    Modules and instances of the user's own classes have parts; functions, classes and gradtape's own machinery do not.
    """
    from gradtape.train.module import Module

    kind = type(item)
    inside = getattr(item, "__dict__", None)
    foreign = kind.__module__.partition(".")[0] not in ("builtins", "gradtape", "numpy") and not isinstance(item, type)
    if inside is not None and (foreign or isinstance(item, Module)):
        return dict(sorted(inside.items()))
    return None


def array_of(item: TensorLike) -> Any:
    """The bare values of a tensor, a variable (read without any tape noticing) or a NumPy array."""
    return np.asarray(item._shown._data if isinstance(item, Variable) else convert(item)._data)


def boxed(value: ArrayLike) -> Tensor:
    """A tensor of its own of such values."""
    array = np.array(value)
    return box(array if array.ndim else array[()])


def _outline(item: Structure, path: str, arrays: dict[str, Any], above: set[int]) -> Any:
    """A JSON-able picture of the structure; arrays are put aside under their path names."""
    if isinstance(item, _PLAIN) and not isinstance(item, np.generic):  # np.float64 is a float, and keeps its dtype
        return {"value": item}
    if isinstance(item, (Tensor, Readable, np.ndarray, np.generic)):
        arrays[path or "value"] = array_of(item)
        return {"tensor": path or "value"}
    if id(item) in above:
        raise ValueError(f"save: '{path}' contains itself")
    above = above | {id(item)}
    if isinstance(item, Generator):
        return _outline({"state": item.state}, path, arrays, above)
    if isinstance(item, Optimizer):
        return _outline(dict(item.checkpoint_state()), path, arrays, above)
    if isinstance(item, Mapping):
        for key in item:
            if not isinstance(key, (str, int, float, bool)):
                raise TypeError(f"save: the key {key!r} at '{path}' must be a string or a number")
        if len({str(key) for key in item}) != len(item):
            raise ValueError(f"save: two keys at '{path}' have the same text")
        return {"dict": [[key, _outline(item[key], child_name(path, key), arrays, above)] for key in item]}
    if isinstance(item, (list, tuple)):
        parts = [_outline(part, child_name(path, i), arrays, above) for i, part in enumerate(item)]
        return {"tuple" if isinstance(item, tuple) else "list": parts}
    parts_of_object = attributes(item)
    if parts_of_object is None:
        raise TypeError(
            f"save: cannot save '{path}' of type {type(item).__name__}: give tensors, variables, numbers or strings"
        )
    # An object also has settings and helpers; what must come back is where its variables are.
    state = {key: part for key, part in parts_of_object.items() if _holds_state(part, set())}
    return _outline(state, path, arrays, above)


def _holds_state(item: Structure, seen: set[int]) -> bool:
    """Whether a variable or a random generator is somewhere inside: of an object, only such attributes are its state."""
    if isinstance(item, (Variable, Optimizer, Generator)):
        return True
    if id(item) in seen or isinstance(item, (str, bytes, Tensor, np.ndarray)):
        return False
    seen.add(id(item))
    if isinstance(item, Mapping):
        return any(_holds_state(part, seen) for part in item.values())
    if isinstance(item, (list, tuple)):
        return any(_holds_state(part, seen) for part in item)
    parts = attributes(item)
    return parts is not None and any(_holds_state(part, seen) for part in parts.values())


def _rebuilt(node: dict[str, Any], arrays: dict[str, Any]) -> Any:
    ((kind, content),) = node.items()
    if kind == "value":
        return content
    if kind == "tensor":
        return boxed(arrays[content])
    if kind == "dict":
        return {key: _rebuilt(part, arrays) for key, part in content}
    parts = [_rebuilt(part, arrays) for part in content]
    return tuple(parts) if kind == "tuple" else parts
