"""`vectorized_map` while a function is traced: what is mapped is traced for one example and called for all at once.

So its loops and branches become loops and branches over batches, as in `ad/batch_regions.py`, and a tape opened in it sees one
example. Code that prints, or calls Python, runs for one example after the other: what is seen has an order. Random numbers are
drawn from keys that depend on an input of their own, which differs between the examples (`ops/random_state.py`). Of writes only
those that are the same for all examples are traced apart; other code runs on batched tensors, operation by operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape import tree
from gradtape.ad.batch import BatchedTensor, batched
from gradtape.core.dispatch import convert
from gradtape.errors import InvalidArgumentError
from gradtape.functions.staging.bodies import NO_STATE, TracedBody, reached
from gradtape.functions.staging.joins import STRICT, one_sided
from gradtape.functions.staging.staged_control import staged_map
from gradtape.functions.staging.staged_values import staged_items
from gradtape.ir.graph import Block, Operation
from gradtape.ir.walk import walk
from gradtape.ops.collective import COMMUNICATIONS, MESSAGES
from gradtape.ops.lists import list_get
from gradtape.ops.random_state import EXAMPLE, example_tensor
from gradtape.ops.staged import ASSERT, DRAW_KEY, PRINT, PY_CALL
from gradtape.ops.structured import CALL
from gradtape.passes.dce import dce
from gradtape.trace.effects import active
from gradtape.trace.tracing import current_trace, params_of, type_of
from gradtape.trace.weak import WeakTensor, default_number
from gradtape.tree import Structure

IN_ORDER = (PRINT, PY_CALL)  # effects of one example come before those of the next


def mapped_in_program(fn: Callable[[Any], Any], elems: Structure, batches: list[BatchedTensor]) -> tuple[Any, bool] | None:
    """The result of `fn` on the examples in these batches, structured like `elems`, and whether it is one example (of a batch);
    None where it cannot be had so."""
    trace = current_trace()
    level = batches[0].level
    examples = batched(example_tensor(int(batches[0]._data.shape[0])), level)
    given = [*batches, examples]
    block = Block([type_of(t) for t in given], layout={"inputs": len(given)})
    *params, example = params_of(block)
    token = EXAMPLE.set((trace, example))
    try:
        ran = TracedBody(block, NO_STATE, lambda: fn(tree.pack_sequence_as(elems, params)))
    finally:
        EXAMPLE.reset(token)
    if any(_acts(operation, IN_ORDER) for operation in walk(block)):
        return (staged_map(fn, tree.pack_sequence_as(elems, [t._data for t in batches])), False)
    if any(_acts(operation) for operation in walk(block)):
        return None
    with trace.region(block):
        result = _opened(ran.value)  # as it was at the end: the trace is undone
        values = [trace.operand(convert(leaf)) for leaf in tree.flatten(result)]
    ran.note_captures()
    places = [place for place, _ in ran.log.entries.values()]
    ends = [ran.places[key] for key in ran.log.entries]
    # What the function writes outside itself is state of the program: the call gives the values, and they are written after it.
    plans = [one_sided(end, place.label, reached, STRICT) for place, end in zip(places, ends, strict=True)]
    written = [ran.convert([pair]) for pair in zip(plans, ends, strict=True)]
    counts = [len(part) for part in written]
    block.give(outputs=[*values, *(value for part in written for value in part)])
    inputs: list[Any] = [*given, *trace.close([(block, ran.captures)], "inputs")]
    callee = dce(block)  # what nobody uses may have another size in each example: the tensor behind a loop over `gt.range`
    outs = trace.structured(CALL, {"inputs": inputs}, {}, {"callee": callee})["outputs"]
    feed = iter(outs[len(values) :])
    for place, plan, count in zip(places, plans, counts, strict=True):
        content = [next(feed) for _ in range(count)]
        if any(isinstance(t, BatchedTensor) for t in content):
            raise InvalidArgumentError(
                f"{place.label} is written with one value per example inside vectorized_map, and holds one for all; return the "
                "values, and write what they give together (their sum, say) after the map"
            )
        active().note(place)
        place.write(plan.value(iter(content)))
    return tree.pack_sequence_as(result, outs[: len(values)]), True


def _acts(operation: Operation, ops: tuple[Any, ...] = ()) -> bool:
    """Whether an operation does more than compute, or refuse, a value; if `ops` are given, whether it is one of them."""
    if "callee" in operation.attrs:
        return any(_acts(inner, ops) for inner in walk(operation.attrs["callee"]))
    if ops:
        return operation.op in ops
    drawn = operation.op is DRAW_KEY and operation.operands  # a nested function's draws are the same for all examples
    # all examples travel together, but for messages, which go one by one
    travels = operation.op in COMMUNICATIONS and operation.op not in MESSAGES
    return bool(operation.op.effect) and operation.op is not ASSERT and not drawn and not travels


def _opened(value: object) -> Any:
    """A result whose lists of the program, of known lengths, are lists of tensors."""
    items = staged_items(value)
    if items is not None:
        if items.length is None:
            raise InvalidArgumentError(
                "vectorized_map: the mapped function returns a list whose length is known only when the program runs; "
                "return gt.stack(list)"
            )
        return [list_get(items.items, i) for i in range(items.length)]
    if isinstance(value, WeakTensor):
        return default_number(value)
    if isinstance(value, dict):
        return type(value)((key, _opened(part)) for key, part in value.items())
    if value.__class__ in (list, tuple):
        return type(value)(_opened(part) for part in value)
    return value
