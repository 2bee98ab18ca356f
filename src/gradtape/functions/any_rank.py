"""`get_concrete_function` where the rank of a tensor is not given: one trace per rank, made when a call shows it.

A program has tensors of known rank, so `TensorSpec(None, …)` stands for a family of traces. What depends on the rank, such as
the types of the results, can be asked of the member for one rank: `for_ranks`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape import tree
from gradtape.core.dispatch import convert
from gradtape.functions.concrete import ConcreteFunction
from gradtape.ir.types import TensorSpec


def rankless(structure: Any) -> bool:
    """Whether some type among the arguments leaves the rank open."""
    return any(isinstance(leaf, TensorSpec) and leaf.shape.rank is None for leaf in tree.flatten(structure))


class AnyRank:
    """The traces of a `gt.function` for tensors of any rank.

    >>> import gradtape as gt
    >>> total = gt.function(gt.reduce_sum).get_concrete_function(gt.TensorSpec(None, gt.float32))
    >>> float(total(gt.ones([3]))), float(total(gt.ones([2, 2])))
    (3.0, 4.0)
    """

    def __init__(self, get: Callable[..., ConcreteFunction], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._get, self.name, self._args, self._kwargs = get, name, args, kwargs
        self._members: dict[tuple[int, ...], ConcreteFunction] = {}

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arguments and keyword arguments as they were declared."""
        return self._args, self._kwargs

    @property
    def inputs(self) -> list[Any]:
        """The types of the tensors it takes, in order."""
        return [leaf for leaf in tree.flatten((self._args, self._kwargs)) if isinstance(leaf, TensorSpec)]

    def for_ranks(self, *ranks: int) -> ConcreteFunction:
        """The trace in which the tensors without a declared rank have these ranks, in order."""
        member = self._members.get(ranks)
        if member is None:
            feed = iter(ranks)
            args, kwargs = tree.map_structure(lambda leaf: _ranked(leaf, feed), (self._args, self._kwargs))
            member = self._members[ranks] = self._get(*args, **kwargs)
        return member

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        declared = [*self._args[: len(args)], *(self._kwargs.get(name) for name in kwargs)]
        ranks = [
            convert(given, hint=leaf.dtype).ndim
            for spec, value in zip(declared, (*args, *kwargs.values()), strict=False)
            for leaf, given in zip(tree.flatten(spec), tree.flatten(value), strict=False)
            if isinstance(leaf, TensorSpec) and leaf.shape.rank is None
        ]
        if len(ranks) != sum(1 for spec in self.inputs if spec.shape.rank is None):
            raise TypeError(f"{self.name}: give a tensor for each of {', '.join(map(str, self.inputs))}")
        return self.for_ranks(*ranks)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<gt.ConcreteFunction {self.name}({', '.join(map(str, self.inputs))}), traced per rank>"


def _ranked(leaf: Any, ranks: Any) -> Any:
    if not isinstance(leaf, TensorSpec) or leaf.shape.rank is not None:
        return leaf
    return TensorSpec([None] * next(ranks), leaf.dtype, leaf.name)
