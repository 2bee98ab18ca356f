"""Signatures of public operations say their types: none takes or returns `Any`, and the names for them work at run time."""

import inspect
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, get_args

import numpy as np
import pytest

import gradtape as gt

SPACES = {
    "": gt,
    "math": gt.math,
    "linalg": gt.linalg,
    "nn": gt.nn,
    "signal": gt.signal,
    "image": gt.image,
    "random": gt.random,
}


def operations(space: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions of a namespace that are written in the families; what `unary` and `binary` generate has no annotations."""
    for name in dir(space):
        value = getattr(space, name)
        if isinstance(value, FunctionType) and value.__module__.startswith("gradtape.ops.") and value.__annotations__:
            yield name, value


@pytest.mark.parametrize("namespace", list(SPACES), ids=lambda n: n or "gradtape")
def test_no_operation_takes_any(namespace: str) -> None:
    functions = dict(operations(SPACES[namespace]))
    assert len(functions) > 5
    vague = [
        f"{name}({parameter.name})"
        for name, function in functions.items()
        for parameter in inspect.signature(function).parameters.values()
        if parameter.annotation in ("Any", inspect.Parameter.empty)
    ]
    assert vague == []


@pytest.mark.parametrize("namespace", list(SPACES), ids=lambda n: n or "gradtape")
def test_operations_say_what_they_return(namespace: str) -> None:
    vague = [name for name, function in operations(SPACES[namespace]) if function.__annotations__.get("return", "Any") == "Any"]
    assert vague == (["svd"] if namespace == "linalg" else [])  # whose overloads say it


def test_names_of_types_can_be_used_where_annotations_are_evaluated() -> None:
    def scaled(x: gt.types.TensorLike | None, shape: gt.types.Shape, dtype: gt.types.DTypeLike | None = None) -> gt.Tensor:
        return gt.zeros(shape, dtype or gt.float32) if x is None else gt.reshape(x, shape)

    assert scaled([1.0, 2.0], (2, 1)).shape == (2, 1)
    assert gt.Tensor in get_args(gt.types.TensorLike)
    assert isinstance(gt.Variable(1.0), get_args(gt.types.TensorLike)[1])
    assert np.ndarray in get_args(gt.types.TensorLike)
