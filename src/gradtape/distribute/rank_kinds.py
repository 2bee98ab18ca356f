"""Whether a value is *replicated* (the same on all ranks because of how it was computed) or *local* (it may differ).

Replicated are the results of `all_reduce`, `all_gather`, `broadcast` and `replicated`, mirrored variables, and what is computed
from these, Python numbers and constants alone. Local is what is watched without being one of these, what came from a NumPy
array, and what other operations between ranks give. Only targets and sources of derivatives are asked: see `rank_gradients.py`.

Of an eager value the records and pasts behind it are read, of a value of a program the operations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

from gradtape.ad.custom import CUSTOM as CUSTOM_RECORD
from gradtape.core.dispatch import PART
from gradtape.core.record import LOCAL, REPLICATED, Blend, Past, RankKind, Record, VariableKey
from gradtape.core.tensor import Tensor
from gradtape.functions.compiled import FUNCTION
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.walk import program
from gradtape.ops.collective import COMMUNICATIONS, REPLICATING
from gradtape.ops.structured import CALL, COND, CUSTOM, SCAN, WHILE, body_result
from gradtape.trace.effects import active
from gradtape.trace.tracing import TRACE
from gradtape.variables.variable import Variable

MIRRORED: WeakSet[VariableKey] = WeakSet()  # variables that strategies keep the same on all ranks


def is_replicated(value: Tensor | Variable, numbers: bool = False) -> bool:
    """Whether a tensor or variable is the same on all ranks because of how it was computed; if of `numbers` alone: as told."""
    if isinstance(value, Variable):
        return value._key in MIRRORED
    if value.wraps:
        inner: Any = value._data
        while isinstance(inner, Tensor):  # batched
            inner = inner._data
        if isinstance(inner, Value):
            return _in_program(inner)
    return numbers if value._node is None else _Reader().same(value._node)


def kind_of(node: Record) -> RankKind:
    """What to remember of a version when nobody watches it any more."""
    return REPLICATED if _Reader().same(node) else LOCAL


class _Reader:
    """Reads the pasts of versions, each once, without recursion."""

    def __init__(self) -> None:
        self._known: dict[Any, bool] = {}

    def same(self, node: Any) -> bool:
        stack = [node]
        while stack:
            top = stack[-1]
            if top in self._known:
                stack.pop()
                continue
            own, behind = _behind(top)
            # one local part is enough: the others need not be read
            if own is not None or any(self._known.get(n) is False for n in behind):
                self._known[top] = bool(own)
                stack.pop()
            elif waiting := [n for n in behind if n not in self._known]:
                stack.extend(waiting)
            else:
                self._known[top] = True
                stack.pop()
        return self._known[node]


def _behind(node: Any) -> tuple[bool | None, list[Any]]:
    """(what is known of a version by itself, None if that depends; the versions it depends on)."""
    if node is LOCAL or node is REPLICATED:
        return node is REPLICATED, []
    if isinstance(node, VariableKey):
        return node in MIRRORED, []
    if isinstance(node, Blend):
        return None, list(node.parts)
    if isinstance(node, Past):
        return node.kind is REPLICATED, []
    unseen = list(node.when[1]) if isinstance(node.when, tuple) else []
    if node.op is None:  # watched: local, unless it was replicated before
        return (None, list(node.nodes[:1])) if node.nodes else (False, [])
    if node.op in COMMUNICATIONS:
        return node.op in REPLICATING, []
    whole, index = (node.nodes[0], node.attrs["index"]) if node.op is PART and node.nodes[0] is not None else (node, 0)
    if whole.op is FUNCTION:
        return _of_call(whole, index)
    if whole.op is CUSTOM_RECORD and (kinds := _answers(whole).kinds):
        return kinds[index] is not LOCAL, []
    return None, [*(n for n in node.nodes if n is not None), *unseen]


def _answers(record: Record) -> Any:
    """What is known of a custom gradient, whose tape may have been freed."""
    attrs = record.attrs or {}
    return attrs["answers"] if "answers" in attrs else attrs["rule"].answers


def _of_call(record: Record, index: int) -> tuple[bool | None, list[Any]]:
    """Of a result of a compiled call: what its program does between the ranks, and the inputs that reach it otherwise."""
    attrs = record.attrs or {}
    program = attrs.get("program")
    if program is None or index >= len(program.block.results):
        unseen = list(record.when[1]) if isinstance(record.when, tuple) else []
        return None, [*(n for n in record.nodes if n is not None), *unseen]
    needed = _sources(program.block, [program.block.results[index]])
    # (what has no past is made of Python's numbers; an array that the function captured or was given remembers that it is one)
    kinds = attrs.get("kinds") or (None,) * len(record.nodes)
    if needed is None or any(kinds[i] is LOCAL for i in needed):
        return False, []
    return None, [record.nodes[i] for i in needed if record.nodes[i] is not None]


def result_kinds(block: Block) -> Callable[[Sequence[Any], Sequence[Tensor]], None] | None:
    """What marks the results of a call that nobody recorded, given the versions of its inputs; None if the program exchanges
    nothing: then what they were computed from says it."""
    if not any(operation.op in COMMUNICATIONS for operation in program(block)):
        return None
    needed = [_sources(block, [value]) for value in block.results]

    def tell(nodes: Sequence[Any], outs: Sequence[Tensor]) -> None:
        reader = _Reader()
        for out, places in zip(outs, needed, strict=True):
            same = places is not None and all(nodes[i] is None or reader.same(nodes[i]) for i in places)
            out._node = REPLICATED if same else LOCAL

    return tell


# -- values of programs -----------------------------------------------------------------------------------------------------


def _sources(block: Block, values: list[Value]) -> list[int] | None:
    """The parameters that values depend on otherwise than through operations that replicate; None if one is local anyway."""
    places = {param: i for i, param in enumerate(block.params)}
    needed = _parameters(values)
    return None if needed is None else [places[param] for param in needed if param in places]


def _parameters(values: list[Value]) -> list[Value] | None:
    """The same, whosever they are: a region that is being traced uses values of the blocks around it as they are."""
    needed: list[Value] = []
    seen: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        producer = value.producer
        if producer is None:
            needed.append(value)
        elif producer.op in COMMUNICATIONS:
            if producer.op not in REPLICATING:
                return None
        elif producer.op.effect or producer.attrs.get("own"):  # random keys, Python functions; arrays that the function made
            return None
        elif producer.regions or "callee" in producer.attrs:
            operands = _through(producer, value.index)
            if operands is None:
                return None
            stack.extend(operands)
        else:
            stack.extend(producer.operands)
    return needed


def _through(operation: Operation, place: int) -> list[Value] | None:
    """The operands that one result of a structured operation depends on; None if it is local anyway.

    As in eager code, which side of a branch and how many turns of a loop is not asked.
    """
    if operation.op in (SCAN, WHILE):
        return _through_loop(operation, place)
    if operation.op is CUSTOM:
        return [operation.group("values")[place]]
    if operation.op not in (COND, CALL):
        return list(operation.operands)
    regions = operation.regions.values() if operation.op is COND else [operation.attrs["callee"]]
    inputs = operation.group("inputs") if operation.op is COND else operation.operands
    wanted: set[int] = set()
    for region in regions:
        own = _sources(region, [region.results[place]])
        if own is None:
            return None
        wanted.update(own)
    return [inputs[i] for i in sorted(wanted)]


def _through_loop(operation: Operation, place: int) -> list[Value] | None:
    """The same of a loop: what a carried value is made of in one turn may be another that is carried."""
    body, first = operation.regions["body"], body_result(operation, place)
    inputs = operation.operands[operation.layout.get("length", 0) :]  # those of the body's parameters behind the index
    carried = operation.layout["carried"]
    wanted: set[int] = set()
    pending = [] if first is None else [first]
    if pending and pending[0] < carried and not operation.attrs.get("length"):  # if there is no turn, what it began with
        wanted.add(pending[0])
    seen: set[int] = set()
    while pending:
        if (k := pending.pop()) in seen:
            continue
        seen.add(k)
        own = _sources(body, [body.results[k]])
        if own is None:
            return None
        wanted.update(i - 1 for i in own if i)
        pending.extend(i - 1 for i in own if 0 < i <= carried)
    return [inputs[i] for i in sorted(wanted)]


def _in_program(value: Value) -> bool:
    """Of a value of the program that is being traced: arguments are local, captured variables may be mirrored."""
    needed = _parameters([value])
    return needed is not None and all(map(_replicated_input, needed))


def _replicated_input(param: Value) -> bool:
    trace, tracer = TRACE.get(), active()
    if trace is not None and param in trace.stand_for:
        return _in_program(trace.stand_for[param])
    if tracer is None or tracer.block is not param.owner or param.index < tracer.arguments:
        return False
    capture = tracer.captures[param.index - tracer.arguments]
    if capture.kind in ("variable", "versions"):
        variable = capture.target()
        return variable is not None and variable._key in MIRRORED
    if capture.kind == "number":  # a Python number
        return True
    # (one that wraps was lifted into the program, since a tape there watches it)
    return (
        capture.kind == "tensor"
        and isinstance(tensor := capture.read(), Tensor)
        and not tensor.wraps
        and is_replicated(tensor, True)
    )
