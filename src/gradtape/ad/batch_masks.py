"""Branches and loops whose course differs between the examples of a batch: both sides run, under masks.

A side of a branch runs if some example takes it, on all of them; those that do not take it get the inputs of the first that
does, so that nothing is computed that no example asks for: no error, no endless loop, no infinity, also not in the derivative.
A loop goes on while some example goes on; the state of the others stays. Results are chosen example by example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.ad.replaying import replay
from gradtape.ad.sites import region, zeros_of_type
from gradtape.ad.tracing import current_trace, type_of
from gradtape.errors import InvalidArgumentError
from gradtape.ir.graph import Block
from gradtape.ir.types import ListSpec
from gradtape.ops.compare import logical_and, logical_not
from gradtape.ops.elementwise import cast
from gradtape.ops.index import gather
from gradtape.ops.reduce import reduce_any
from gradtape.ops.regions import COND, WHILE
from gradtape.ops.select import where
from gradtape.ops.shape import reshape
from gradtape.ops.sorting import argmax


def _is_list(tensor: Any) -> bool:
    return isinstance(type_of(tensor), ListSpec)


def refuse_lists(tensors: Sequence[Any], what: str) -> None:
    """Lists of the program have no rows to choose from."""
    if any(isinstance(t, ListSpec) for t in tensors):
        raise InvalidArgumentError(
            f"{what} differs between the examples of a batch (vectorized_map, or the rows of a Jacobian), and a list of the "
            "program is changed in it: use a tensor (t[i] = v), or map_fn, which runs example by example"
        )


def _lanes(mask: Any, like: Any) -> Any:
    """The mask with axes of length one for those of a value behind the first."""
    return mask if like.ndim == 1 else reshape(mask, (-1, *(1,) * (like.ndim - 1)))


def chosen(mask: Any, first: Any, second: Any) -> Any:
    """Per example: of the first where the mask holds, else of the second."""
    return where(_lanes(mask, first), first, second)


def _taken(mask: Any, values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """Inputs by example, those of examples outside the mask replaced by the first inside."""
    place = argmax(cast(mask, "int32"))
    return [
        chosen(mask, value, gather(value, place)) if flag and not _is_list(value) else value
        for value, flag in zip(values, flags, strict=True)
    ]


def side_of_branch(mask: Any, block: Block, flags: Sequence[bool], inputs: Sequence[Any]) -> list[Any]:
    """The outputs of one side (a block on batches) for all examples; what stands outside the mask counts nothing."""
    trace = current_trace()
    operands = [mask, *inputs]
    types = [type_of(t) for t in operands]
    results = [v.type for v in block.results]

    def run(own: Any, *given: Any) -> dict[str, Any]:
        return {"outputs": list(replay(block, _taken(own, given, flags)))}

    def skip(own: Any, *given: Any) -> dict[str, Any]:
        return {"outputs": [zeros_of_type(t) for t in results]}

    layout = {"inputs": len(operands)}
    regions = {"then": region(types, run, layout), "orelse": region(types, skip, layout)}
    found: list[Any] = trace.structured(COND, {"pred": [reduce_any(mask)], "inputs": operands}, regions, {})["outputs"]
    return found


def masked_branch(mask: Any, regions: dict[str, Block], flags: Sequence[bool], inputs: Sequence[Any]) -> list[Any]:
    """The outputs of a branch whose test is a mask; `regions` work on batches and give batches."""
    refuse_lists([v.type for v in regions["then"].results], "the test of a branch")
    first = side_of_branch(mask, regions["then"], flags, inputs)
    second = side_of_branch(logical_not(mask), regions["orelse"], flags, inputs)
    return [chosen(mask, a, b) for a, b in zip(first, second, strict=True)]


def masked_loop(
    regions: dict[str, Block], carried: Sequence[Any], consts: Sequence[Any], flags: Sequence[bool]
) -> dict[str, list[Any]]:
    """A `while` whose test is a mask: all carried values are batches, of the constants those with `flags`."""
    refuse_lists([type_of(t) for t in carried], "the test of a loop")
    trace = current_trace()
    count = len(carried)
    (going,) = replay(regions["test"], [*carried, *consts])
    state = [going, *carried]
    types = [type_of(t) for t in (*state, *consts)]
    every = [*(True for _ in carried), *flags]

    def test(own: Any, *given: Any) -> dict[str, Any]:
        return {"flag": [reduce_any(own)]}

    def body(index: Any, own: Any, *given: Any) -> dict[str, Any]:
        inside = _taken(own, given, every)
        after = replay(regions["body"], [index, *inside])[:count]
        merged = [chosen(own, new, old) for new, old in zip(after, given[:count], strict=True)]
        (more,) = replay(regions["test"], [*merged, *given[count:]])
        return {"carried": [logical_and(own, more), *merged], "ys": []}

    layout = {"carried": len(state), "consts": len(consts)}
    blocks = {
        "test": region(types, test, layout),
        "body": region([regions["body"].params[0].type, *types], body, {"index": 1, **layout}),
    }
    found = trace.structured(WHILE, {"carried": state, "consts": list(consts)}, blocks, {})
    return {"carried": list(found["carried"][1:]), "count": list(found["count"]), "ys": []}
