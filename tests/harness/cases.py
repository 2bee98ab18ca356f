"""Samples of all ops and composites as test cases, and what can be asked of one: run it, list its arrays.

A case's *leaves* are the float and complex arrays among its arguments (also inside lists) that may be differentiated;
everything else is constant. Samples are drawn from a generator seeded by the op's name, so a new op changes no other's.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from gradtape import tree
from gradtape.core.dispatch import apply, convert
from gradtape.core.opdef import Composite, Op, Sample
from gradtape.core.tensor import Tensor, box
from gradtape.ops import registry, sampling

Path = tuple[int, ...]
_PRIMITIVES = {op.name for op in registry.OPS}


class Case:
    """One sample of one op or composite."""

    def __init__(self, owner: Op | Composite, index: int, sample: Sample) -> None:
        self.owner = owner
        # a public function may have the name of the primitive behind it
        self.name = f"gt.{owner.name}" if isinstance(owner, Composite) and owner.name in _PRIMITIVES else owner.name
        self.index = index
        self.sample = sample
        self.function = owner.function if isinstance(owner, Composite) else public_function(owner)
        self.paths = tuple(p for i, a in enumerate(sample.args) if i not in sample.fixed for p in _float_paths(a, (i,)))
        self.leaves = [_at(sample.args, p) for p in self.paths]

    @property
    def id(self) -> str:
        return f"{self.name}[{self.index}]"

    __repr__ = id.fget  # type: ignore[assignment]

    @property
    def fails(self) -> bool:
        return self.sample.raises is not None

    @property
    def differentiable(self) -> bool:
        return self.owner.differentiable and not self.fails and bool(self.paths)

    def generator(self) -> np.random.Generator:
        return np.random.default_rng(zlib.crc32(self.id.encode()))

    def call(self, leaves: Sequence[Any] | None = None, constants: Any = None) -> Any:
        """The function on these leaves (the sample's own by default); `constants` maps every other array."""
        values = dict(zip(self.paths, self.leaves if leaves is None else leaves, strict=True))
        args = tuple(_replaced(a, (i,), values, constants) for i, a in enumerate(self.sample.args))
        kwargs = {k: _replaced(v, (-1,), {}, constants) for k, v in self.sample.kwargs.items()}
        return self.function(*args, **kwargs)

    def outputs(self, leaves: Sequence[Any] | None = None, constants: Any = None) -> list[Tensor]:
        """The tensors the function returns, as a flat list."""
        return [t for t in tree.flatten(self.call(leaves, constants)) if isinstance(t, Tensor)]

    def doubles(self) -> list[Any]:
        """The leaves in double precision, in which derivatives are compared with finite differences."""
        return [in_precision(leaf, double=True) for leaf in self.leaves]


def _float_paths(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _float_paths(item, (*path, i))
    elif isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fc":
        yield path


def _at(value: Any, path: Path) -> Any:
    for i in path:
        value = value[i]
    return value


def _replaced(value: Any, path: Path, values: dict[Path, Any], constants: Any) -> Any:
    if path in values:
        return values[path]
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_replaced(v, (*path, i), values, constants) for i, v in enumerate(value))
    if constants is not None and isinstance(value, (np.ndarray, np.generic)):
        return constants(value)
    return value


def in_precision(value: Any, double: bool) -> Any:
    """A float or complex array in double or single precision; anything else unchanged."""
    if value.dtype.kind not in "fc":
        return value
    kinds = {"f": np.float64, "c": np.complex128} if double else {"f": np.float32, "c": np.complex64}
    return value.astype(kinds[value.dtype.kind])


def tensor(value: Any) -> Tensor:
    """A tensor around a read-only view: an op that writes to its input fails at once."""
    if isinstance(value, np.ndarray):
        if not value.ndim:
            return box(value[()])
        value = value.view()
        value.flags.writeable = False
    return box(value)


def public_function(op: Op) -> Any:
    """How a user calls an op: its `call`, the function of its name in its family, the fast closure made for it, or `apply`:
    inputs first, then attributes in the order in which the type rule has them."""
    if op.call is not None:
        return op.call
    family = next((vars(family) for family in registry.FAMILIES if op in vars(family).get("OPS", ())), dict[str, Any]())
    named = family.get(op.name)
    if callable(named) and not hasattr(named, "composite"):
        return named
    for value in family.values():
        if getattr(value, "op", None) is op:
            return value
    count = None if op.args[-1].startswith("*") else len(op.args)
    names = _keywords(op.infer) or _keywords(op.impl)

    def call(*args: Any, **attrs: Any) -> Any:
        rest = () if count is None else args[count:]
        return apply(op, *map(convert, args[:count]), **dict(zip(names, rest, strict=False)), **attrs)

    return call


def _keywords(rule: Any) -> list[str]:
    return [p.name for p in inspect.signature(rule).parameters.values() if p.kind is p.KEYWORD_ONLY]


def samples_of(owner: Op | Composite) -> list[Sample]:
    """The samples, drawn from a generator seeded by the name."""
    seeded = np.random.default_rng(zlib.crc32(owner.name.encode()))
    sampling._generator().bit_generator.state = seeded.bit_generator.state
    return list(owner.samples()) if owner.samples is not None else []


@cache
def all_cases() -> tuple[Case, ...]:
    """Every sample of every op, then of every composite, in the order of the registry."""
    owners = (*registry.OPS, *registry.COMPOSITES)
    return tuple(Case(owner, i, sample) for owner in owners for i, sample in enumerate(samples_of(owner)))
