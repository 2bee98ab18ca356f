"""Branches and loops whose course differs between the examples of a batch: both sides run, under masks.

A side of a branch runs if some example takes it, on all of them; those that do not take it get the inputs of the first that
does, so that nothing is computed that no example asks for: no error, no endless loop, no infinity, also not in the derivative.
A loop goes on while some example goes on; the state of the others stays. What its iterations give one by one (residuals) is one
list for all, as long as the longest course; each example has its own number of iterations, by which a later loop knows the
items that count. Results are chosen example by example; what only one side gives (a residual, for which the other has a
placeholder) is that side's for all. Sizes may differ where all examples go the same way: a batch has one shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradtape.ad.replaying import replay
from gradtape.ad.sites import region, zeros_of_type
from gradtape.core.dispatch import apply
from gradtape.errors import InvalidArgumentError
from gradtape.ir.dims import fresh_symbol, symbols_in
from gradtape.ir.graph import Block
from gradtape.ir.sizes import defined_sizes
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.compare import equal, less, logical_and, logical_not
from gradtape.ops.create import zeros_like
from gradtape.ops.elementwise import cast
from gradtape.ops.index import gather
from gradtape.ops.lists import LIST_LEN, LIST_NEW
from gradtape.ops.reduce import reduce_any, reduce_max
from gradtape.ops.select import where
from gradtape.ops.shape import reshape
from gradtape.ops.sorting import argmax
from gradtape.ops.staged import ASSERT, SIZED
from gradtape.ops.structured import COND, COUNT, SCAN, WHILE
from gradtape.trace.tracing import current_trace, type_of

Side = Callable[..., list[Any]]
ONE_SHAPE = "a branch or loop whose test differs between the examples of a batch, which take one course and have one shape"


def _is_list(tensor: Any) -> bool:
    return isinstance(type_of(tensor), ListSpec)


def refuse_lists(tensors: Sequence[Any], what: str) -> None:
    """A list of the program has one length for all examples."""
    if any(isinstance(t, ListSpec) for t in tensors):
        at = current_trace().loc
        raise InvalidArgumentError(("" if at is None else f"{at}: ") + _list_differs(what))


def _list_differs(what: str) -> str:
    return (
        f"{what} differs between the examples of a batch (vectorized_map, or the rows of a Jacobian), and a list of the "
        "program is changed in it, which has one length for all: use a tensor (t[i] = v), or map_fn, which runs example by "
        "example"
    )


def _lanes(mask: Any, like: Any) -> Any:
    """The mask with axes of length one for those of a value behind the first."""
    # -1 and not the batch's size: that may be a symbol, and `where` broadcasts the ones
    return mask if like.ndim == 1 else reshape(mask, (-1, *(1,) * (like.ndim - 1)))


def chosen(mask: Any, first: Any, second: Any) -> Any:
    """Per example: of the first where the mask holds, else of the second.

    If sizes that only run time knows differ between them, all examples must choose the same."""
    if _is_list(first):
        return _chosen_items(mask, first, second)
    one, other = type_of(first), type_of(second)
    if tuple(one.shape) == tuple(other.shape):
        return where(_lanes(mask, first), first, second)
    # neither side's size is that of the result: which one it is, only the run knows
    dims = [m if m == n else fresh_symbol("n") for m, n in zip(one.shape, other.shape, strict=True)]
    ends = [TensorSpec(dims, one.dtype)]

    def mixed(own: Any, a: Any, b: Any) -> list[Any]:
        # SIZED raises when the program runs and the sizes differ after all; the type checker of `where` is told that they do
        # not
        return [where(_lanes(own, a), a, apply(SIZED, b, shape=tuple(a.shape), caller=ONE_SHAPE))]

    return _unless_alike(mask, first, second, mixed, ends)


def _unless_alike(mask: Any, first: Any, second: Any, mixed: Side, ends: list[Any]) -> Any:
    """What `mixed` gives if the examples differ; if all choose the same, that as it is."""

    def alike(own: Any, a: Any, b: Any) -> list[Any]:
        # all alike: whether any chooses the first says what all of them choose
        return _either(reduce_any(own), [own, a, b], lambda own, a, b: [a], lambda own, a, b: [b], ends)

    # without this branch `SIZED` would refuse a batch of which all examples go the same way, which needs no common size
    differ = logical_and(reduce_any(mask), reduce_any(logical_not(mask)))
    return _either(differ, [mask, first, second], mixed, alike, ends)[0]


def _chosen_items(mask: Any, first: Any, second: Any) -> Any:
    """Lists item by item: they must be equally long, unless all examples choose the same."""
    ends = [type_of(first)]

    def mixed(own: Any, a: Any, b: Any) -> list[Any]:
        trace = current_trace()
        length = apply(LIST_LEN, a)
        text = _list_differs("the test of a branch")
        # the scan below takes its length from the first list alone
        trace.emit(ASSERT, (equal(length, apply(LIST_LEN, b)),), {"template": (text,), "exception": InvalidArgumentError})
        types = [COUNT, type_of(own), type_of(a).item, type_of(b).item]
        layout = {"index": 1, "carried": 0, "consts": 1, "xs": 2}
        body = region(types, lambda index, own, x, y: {"carried": [], "ys": [chosen(own, x, y)]}, layout)
        groups = {"length": [length], "carried": [], "consts": [own], "xs": [a, b]}
        return trace.structured(SCAN, groups, {"body": body}, {"length": None, "reverse": False})["ys"]

    return _unless_alike(mask, first, second, mixed, ends)


def _either(
    flag: Any, operands: Sequence[Any], then: Side, orelse: Side, ends: list[Any], inside: list[Any] | None = None
) -> list[Any]:
    """A branch of the program between two sides on the same operands, with results of the types `ends`; `inside` are the types
    of the operands in the first, if it knows more about their sizes."""
    types = [type_of(t) for t in operands]
    layout = {"inputs": len(types)}
    regions = {
        "then": region(inside or types, lambda *given: {"outputs": then(*given)}, layout),
        "orelse": region(types, lambda *given: {"outputs": orelse(*given)}, layout),
    }
    result = ends, {"outputs": len(ends)}
    return current_trace().structured(COND, {"pred": [flag], "inputs": list(operands)}, regions, {}, result)["outputs"]


def _anew(spec: Any, names: set[str]) -> Any:
    """The type with new symbols for the sizes in which these are."""
    # a symbol made inside a side has no meaning outside of it: the branch gives its result a name of its own
    if isinstance(spec, ListSpec) or names.isdisjoint(symbols_in(spec)):
        return spec
    return TensorSpec([d if names.isdisjoint(symbols_in(d)) else fresh_symbol("n") for d in spec.shape], spec.dtype)


def _taken(mask: Any, values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """Inputs by example, those of examples outside the mask replaced by the first inside."""
    # the first example inside: argmax gives the first of equal ones. Never asked with an empty mask: the side is skipped then
    place = argmax(cast(mask, "int32"))
    return [
        # what is the same for all examples needs no replacement, and a list has no lane to choose from (`refuse_lists`)
        where(_lanes(mask, value), value, gather(value, place)) if flag and not _is_list(value) else value
        for value, flag in zip(values, flags, strict=True)
    ]


def _blank(spec: Any, unknown: set[str]) -> Any:
    """Zeros of a type, none along sizes in which these are; no items."""
    if isinstance(spec, ListSpec):
        return current_trace().emit(LIST_NEW, (), {"item": spec.item})
    return zeros_of_type(TensorSpec([d if unknown.isdisjoint(symbols_in(d)) else 0 for d in spec.shape], spec.dtype))


def side_of_branch(mask: Any, block: Block, flags: Sequence[bool], inputs: Sequence[Any]) -> list[Any]:
    """The outputs of one side (a block on batches) for all examples; what stands outside the mask counts nothing.

    Sizes that only this side knows are 0 if no example takes it."""
    operands = [mask, *inputs]
    # these are known only if the side runs: outside, the results have them under new names
    own_sizes = defined_sizes(block) - symbols_in([type_of(t) for t in operands])
    results = [_anew(v.type, own_sizes) for v in block.results]

    def run(own: Any, *given: Any) -> list[Any]:
        return replay(block, _taken(own, given, flags))

    def skip(own: Any, *given: Any) -> list[Any]:
        return [_blank(v.type, own_sizes) for v in block.results]

    # the block was written for the types of its parameters, which may say more than those of the operands (n + 1 for m)
    inside = [type_of(mask), *(p.type for p in block.params)]
    return _either(reduce_any(mask), operands, run, skip, results, inside)


def masked_branch(
    mask: Any, regions: dict[str, Block], flags: Sequence[bool], inputs: Sequence[Any], only: Sequence[str | None]
) -> list[Any]:
    """The outputs of a branch whose test is a mask; `regions` work on batches and give batches. `only` tells of each output
    which side gives it, if the other has but a placeholder for it."""
    first = side_of_branch(mask, regions["then"], flags, inputs)
    second = side_of_branch(logical_not(mask), regions["orelse"], flags, inputs)
    return [
        chosen(mask, a, b) if side is None else a if side == "then" else b
        for a, b, side in zip(first, second, only, strict=True)
    ]


def masked_loop(
    regions: dict[str, Block], carried: Sequence[Any], consts: Sequence[Any], flags: Sequence[bool]
) -> dict[str, list[Any]]:
    """A `while` whose test is a mask. Carried values are batches, of the constants those with `flags`; so is the count."""
    refuse_lists([type_of(t) for t in carried], "the test of a loop")
    count = len(carried)
    # the test stands once before the loop and once at the end of each iteration: its answer is a carried value, `own`, by which
    # the next iteration is masked
    (going,) = replay(regions["test"], [*carried, *consts])
    state = [going, cast(zeros_like(going), COUNT.dtype), *carried]
    types = [type_of(t) for t in (*state, *consts)]
    every = [*(True for _ in carried), *flags]

    def test(own: Any, *given: Any) -> dict[str, Any]:
        return {"flag": [reduce_any(own)]}

    def body(index: Any, own: Any, done: Any, *given: Any) -> dict[str, Any]:
        after, ys = _iteration(own, regions["body"], index, given, every, count)
        (more,) = replay(regions["test"], [*after, *given[count:]])
        # `more` of an example that has ended is the test on a state that stays: one that draws a random number may say yes
        return {"carried": [logical_and(own, more), done + cast(own, COUNT.dtype), *after], "ys": ys}

    layout = {"carried": len(state), "consts": len(consts)}
    blocks = {"test": region(types, test, layout), "body": region([COUNT, *types], body, {"index": 1, **layout})}
    results = current_trace().structured(WHILE, {"carried": state, "consts": list(consts)}, blocks, {})
    _, done, *ends = results["carried"]
    return {"carried": ends, "count": [done], "ys": results["ys"]}


def masked_scan(
    block: Block, length: Any, groups: dict[str, list[Any]], flags: Mapping[str, Sequence[bool]], reverse: bool
) -> dict[str, list[Any]]:
    """A `scan` that is longer for some examples than for others (`length` has one number for each): the longest for all, each
    iteration under the mask of those that have so many. All carried values are batches."""
    refuse_lists([type_of(t) for t in groups["carried"]], "the length of a loop")
    count, consts = len(groups["carried"]), len(groups["consts"])
    items = [type_of(t).item for t in groups["xs"]]
    types = [type_of(t) for t in (*groups["carried"], *groups["consts"], length)]
    every = [*(True for _ in groups["carried"]), *flags["consts"], *flags["xs"]]

    def body(index: Any, *given: Any) -> dict[str, Any]:
        # the lengths are the last of the constants, so that the block's own parameters keep their order
        lengths = given[count + consts]
        rest = [*given[: count + consts], *given[count + consts + 1 :]]
        # also for a reversed scan: it begins at the largest index, which only the longest examples have
        after, ys = _iteration(less(index, lengths), block, index, rest, every, count)
        return {"carried": after, "ys": ys}

    layout = {"index": 1, "carried": count, "consts": consts + 1, "xs": len(items)}
    blocks = {"body": region([COUNT, *types, *items], body, layout)}
    longest = {"length": [reduce_max(length)], "carried": groups["carried"], "consts": [*groups["consts"], length]}
    return current_trace().structured(SCAN, {**longest, "xs": groups["xs"]}, blocks, {"length": None, "reverse": reverse})


def _iteration(
    own: Any, block: Block, index: Any, given: Sequence[Any], flags: Sequence[bool], count: int
) -> tuple[list[Any], list[Any]]:
    """One iteration of a loop for the examples in the mask: carried values (the first `count`) and items after it."""
    after = replay(block, [index, *_taken(own, given, flags)])
    # strict=False: behind the carried values `after` has the items and `given` the constants
    merged = [chosen(own, new, old) for new, old in zip(after, given[:count], strict=False)]
    # items of examples that have ended count nothing; zeros, so that they do not come from the example that stood in
    return merged, [y if _is_list(y) else where(_lanes(own, y), y, zeros_like(y)) for y in after[count:]]
