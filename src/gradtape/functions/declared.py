"""`input_signature`: what a function accepts, said before any call.

Each spec belongs to one positional argument (nested specs to nested arguments). Arguments are converted to tensors of the
declared dtypes and checked against the declared shapes; None dimensions take any size and become symbols of the program.
Invariant: a call that passes has exactly the declared ranks and dtypes, so all calls share one trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradtape import tree
from gradtape.core.dispatch import convert
from gradtape.core.tensor import Readable, Tensor
from gradtape.functions.signature import Binder
from gradtape.ir.dims import Dim
from gradtape.ir.types import TensorSpec


def checked_signature(input_signature: Any) -> tuple[Any, ...] | None:
    """The `input_signature` argument of `gt.function`, as a tuple of (nested) specs."""
    if input_signature is None:
        return None
    if isinstance(input_signature, TensorSpec) or not isinstance(input_signature, (list, tuple)):
        raise TypeError(
            "input_signature must be a list or tuple with one gt.TensorSpec (or a nested structure of them) per argument, got "
            f"{type(input_signature).__name__}"
        )
    for leaf in tree.flatten(tuple(input_signature)):
        if not isinstance(leaf, TensorSpec):
            raise TypeError(
                f"input_signature must consist of gt.TensorSpec, got {leaf!r}; static arguments have no place in it"
            )
    return tuple(input_signature)


class Declared:
    """The declared types of one function's arguments."""

    def __init__(self, signature: tuple[Any, ...], binder: Binder, name: str) -> None:
        self.signature = signature
        self._binder = binder
        self._name = name
        # The entries go to the first parameters in order; whoever comes behind them is static, so it must be able to stay at
        # its default: a value given there would be part of the key, and the one trace that the signature promises would become
        # several.
        required = [
            p.name for p in binder.parameters[len(signature) :]
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
        ]  # fmt: skip
        if len(signature) > len(binder.positional) and binder.rest is None:
            raise TypeError(
                f"{name}: input_signature has {len(signature)} entries, but the function takes {len(binder.positional)} "
                f"positional argument{'s' if len(binder.positional) != 1 else ''}"
            )
        if required:
            raise TypeError(f"{name}: input_signature has no entry for argument `{required[0]}`, which has no default")

    def apply(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any], dict[int, tuple[Any, ...]]]:
        """The bound arguments as declared, and for each tensor (by identity) its declared shape."""
        self._only_declared(args, kwargs)
        # By identity: the same tensor may be given for two entries, and the program has one input for it. The arguments are
        # alive while this runs, so no id can come to mean another tensor.
        shapes: dict[int, tuple[Any, ...]] = {}
        converted = [
            self._converted(spec, value, self._binder.name(i), shapes)
            for i, (spec, value) in enumerate(zip(self.signature, args, strict=False))
        ]
        return (*converted, *args[len(converted) :]), kwargs, shapes

    def _only_declared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """What has no entry must have its default value."""
        count = len(self.signature)
        for place, value in enumerate(args):
            if place >= count and (
                place >= len(self._binder.positional) or value is not self._default(self._binder.name(place))
            ):
                raise TypeError(
                    f"{self._name} takes {count} argument{'s' if count != 1 else ''} by its input_signature; "
                    f"argument `{self._binder.name(place)}` has no entry there"
                )
        for name, value in kwargs.items():
            if value is not self._default(name):
                raise TypeError(
                    f"{self._name}: argument `{name}` has no entry in the input_signature; only its default can be used"
                )
        if len(args) < count:
            raise TypeError(f"{self._name} takes {count} arguments by its input_signature, got {len(args)}")

    def _default(self, name: str) -> Any:
        return next((p.default for p in self._binder.parameters if p.name == name), None)

    def _converted(self, spec: Any, value: Any, path: str, shapes: dict[int, tuple[Any, ...]]) -> Any:
        if isinstance(spec, TensorSpec):
            return self._tensor(spec, value, path, shapes)
        # A list may be given for a tuple and the other way round, as TensorFlow has it; only a mapping is something else.
        if not tree.is_nested(value) or isinstance(spec, Mapping) != isinstance(value, Mapping):
            raise TypeError(f"{self._name}: argument `{path}` must be {_outline(spec)}, got {_described(value)}")
        if isinstance(spec, Mapping):
            if set(spec) != set(value):
                raise TypeError(f"{self._name}: argument `{path}` must have the keys {list(spec)}, got {list(value)}")
            items = [self._converted(spec[key], value[key], f"{path}[{key!r}]", shapes) for key in value]
            return dict(zip(value, items, strict=True))
        if len(spec) != len(value):
            raise TypeError(f"{self._name}: argument `{path}` must have {len(spec)} items, got {len(value)}")
        items = [self._converted(s, v, f"{path}[{i}]", shapes) for i, (s, v) in enumerate(zip(spec, value, strict=True))]
        return tree.like(value, items)

    def _tensor(self, spec: TensorSpec, value: Any, path: str, shapes: dict[int, tuple[Any, ...]]) -> Any:
        if value.__class__ is not Tensor:
            try:
                # The hint is for Python numbers and lists, which have no dtype of their own. A tensor has one, and the check
                # below says what is wrong with it: converting it here would lose precision without a word.
                tensor_like = isinstance(value, (Tensor, Readable))
                value = convert(value) if tensor_like else convert(value, hint=spec.dtype)
            except (TypeError, ValueError):
                raise TypeError(
                    f"{self._name}: argument `{path}` must be a tensor of {_text(spec)}, got {_described(value)}"
                ) from None
        if value.dtype != spec.dtype:
            raise TypeError(
                f"{self._name}: argument `{path}` must have dtype {spec.dtype.name}, got {value.dtype.name}; "
                f"use gt.cast({path}, gt.{spec.dtype.name})"
            )
        given = tuple(value.shape)
        # An open rank is known as soon as a tensor is there: each rank is a trace of its own.
        declared = (None,) * len(given) if spec.shape.rank is None else tuple(spec.shape)
        if not _compatible(declared, given):
            raise TypeError(f"{self._name}: argument `{path}` must have shape {_dims(declared)}, got {_dims(given)}")
        known = shapes.get(id(value))
        if known is not None:  # the same tensor for two entries: both must hold
            declared = tuple(b if a is None else a for a, b in zip(known, declared, strict=True))
        shapes[id(value)] = declared
        return value


def _compatible(declared: tuple[Any, ...], given: tuple[Any, ...]) -> bool:
    return len(declared) == len(given) and all(a is None or a == b for a, b in zip(declared, given, strict=True))


def _dims(shape: Sequence[Any]) -> str:
    texts = [str(d) if isinstance(d, Dim) else repr(d) for d in shape]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _text(spec: TensorSpec) -> str:
    shape = "any shape" if spec.shape.rank is None else f"shape {_dims(tuple(spec.shape))}"
    return f"{shape}, dtype {spec.dtype.name}"


def _outline(spec: Any) -> str:
    if isinstance(spec, Mapping):
        return f"a dict with keys {list(spec)}"
    return f"a {type(spec).__name__} of {len(spec)} items"


def _described(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(value, (Tensor, Readable, np.ndarray)) and shape is not None:
        return f"a {type(value).__name__} of shape {tuple(shape)}"
    text = repr(value)
    return text if len(text) <= 60 else f"a {type(value).__name__} object"
