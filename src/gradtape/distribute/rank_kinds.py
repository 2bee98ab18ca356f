"""Whether a value is *replicated* (the same on all ranks because of how it was computed) or *local* (it may differ).

Replicated are the results of `all_reduce`, `all_gather`, `broadcast` and `replicated`, mirrored variables, and what is computed
from these, Python numbers and constants alone. Local is what is watched without being one of these, what came from a NumPy
array, and what other operations between ranks give. What is made of numbers alone is neither (None): it takes the kind of what
it meets, and is local once it is watched. Only targets and sources of derivatives are asked: see `rank_gradients.py`.

Of an eager value the records and pasts behind it are read, of a value of a program the operations. Invariant: a program is
used for inputs of the kinds that were asked for when it was traced (`Tracer.rank_kind`), so both give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakSet

from gradtape.ad.custom import CUSTOM as CUSTOM_RECORD
from gradtape.core.dispatch import PART
from gradtape.core.record import LOCAL, REPLICATED, Blend, Past, RankKind, Record, VariableKey, join_kinds
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


def rank_kind(value: Tensor | Variable) -> RankKind | None:
    """Whether a tensor or variable is the same on all ranks because of how it was computed; None if of numbers alone."""
    if isinstance(value, Variable):
        return REPLICATED if value._key in MIRRORED else LOCAL
    if value.wraps:
        inner: Any = value._data
        while isinstance(inner, Tensor):  # batched
            inner = inner._data
        if isinstance(inner, Value):
            return _in_program(inner)
    return None if value._node is None else kind_of(value._node)


def is_replicated(value: Tensor | Variable) -> bool:
    """Whether it is one value for all ranks."""
    return rank_kind(value) is REPLICATED


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
    if needed is None or any(kinds[i] is LOCAL for i in needed[0]):
        return False, []
    return None, [record.nodes[i] for i in needed[0] if record.nodes[i] is not None]


def result_kinds(block: Block) -> Callable[[Sequence[Any], Sequence[Tensor]], None] | None:
    """What marks the results of a call that nobody recorded, given the versions of its inputs; None if the program exchanges
    nothing: then what they were computed from says it."""
    if not any(operation.op in COMMUNICATIONS for operation in program(block)):
        return None
    needed = [_sources(block, [value]) for value in block.results]

    def tell(nodes: Sequence[Any], outs: Sequence[Tensor]) -> None:
        kinds = [None if node is None else kind_of(node) for node in nodes]
        for out, source in zip(outs, needed, strict=True):
            kind = LOCAL if source is None else join_kinds([source[1], *(kinds[i] for i in source[0])])
            out._node = out._node if kind is None else kind

    return tell


# -- values of programs -----------------------------------------------------------------------------------------------------


def _sources(block: Block, values: list[Value]) -> tuple[list[int], RankKind | None] | None:
    """The parameters that values depend on otherwise than through operations that replicate, and `REPLICATED` if they depend on
    such an operation; None if one is local anyway."""
    places = {param: i for i, param in enumerate(block.params)}
    needed = _parameters(values)
    return None if needed is None else ([places[param] for param in needed[0] if param in places], needed[1])


def _parameters(values: list[Value]) -> tuple[list[Value], RankKind | None] | None:
    """The same, whosever they are: a region that is being traced uses values of the blocks around it as they are."""
    needed: list[Value] = []
    kind: RankKind | None = None
    watched = {value for trace in _around(TRACE.get()) for value in trace.watched_numbers}
    seen: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        if value in seen:
            continue
        seen.add(value)
        producer = value.producer
        if value in watched:
            return None
        if producer is None:
            needed.append(value)
        elif producer.op in COMMUNICATIONS:
            if producer.op not in REPLICATING:
                return None
            kind = REPLICATED
        elif producer.attrs.get("own") is False:  # a constant that was replicated when it was made
            kind = REPLICATED
        elif producer.op.effect or producer.attrs.get("own"):  # random keys, Python functions; arrays that the function made
            return None
        elif producer.regions or "callee" in producer.attrs:
            through = _through(producer, value.index)
            if through is None:
                return None
            stack.extend(through[0])
            kind = kind or through[1]
        else:
            stack.extend(producer.operands)
    return needed, kind


def _around(one: Any) -> Iterator[Any]:
    """A trace, or tracer, and those around it."""
    while one is not None:
        yield one
        one = one.parent


def _through(operation: Operation, place: int) -> tuple[list[Value], RankKind | None] | None:
    """The operands that one result of a structured operation depends on, and what `_sources` says; None if it is local anyway.

    As in eager code, which side of a branch and how many turns of a loop is not asked.
    """
    if operation.op in (SCAN, WHILE):
        return _through_loop(operation, place)
    if operation.op is CUSTOM:
        return [operation.group("values")[place]], None
    if operation.op not in (COND, CALL):
        return list(operation.operands), None
    regions = operation.regions.values() if operation.op is COND else [operation.attrs["callee"]]
    inputs = operation.group("inputs") if operation.op is COND else operation.operands
    wanted: set[int] = set()
    kind: RankKind | None = None
    for region in regions:
        own = _sources(region, [region.results[place]])
        if own is None:
            return None
        wanted.update(own[0])
        kind = kind or own[1]
    return [inputs[i] for i in sorted(wanted)], kind


def _through_loop(operation: Operation, place: int) -> tuple[list[Value], RankKind | None] | None:
    """The same of a loop: what a carried value is made of in one turn may be another that is carried."""
    body, first = operation.regions["body"], body_result(operation, place)
    inputs = operation.operands[operation.layout.get("length", 0) :]  # those of the body's parameters behind the index
    carried = operation.layout["carried"]
    wanted: set[int] = set()
    pending = [] if first is None else [first]
    if pending and pending[0] < carried and not operation.attrs.get("length"):  # if there is no turn, what it began with
        wanted.add(pending[0])
    seen: set[int] = set()
    kind: RankKind | None = None
    while pending:
        if (k := pending.pop()) in seen:
            continue
        seen.add(k)
        own = _sources(body, [body.results[k]])
        if own is None:
            return None
        kind = kind or own[1]
        wanted.update(i - 1 for i in own[0] if i)
        pending.extend(i - 1 for i in own[0] if 0 < i <= carried)
    return [inputs[i] for i in sorted(wanted)], kind


# -- values of the program that is being traced ------------------------------------------------------------------------------


def _in_program(value: Value) -> RankKind | None:
    needed = _parameters([value])
    return LOCAL if needed is None else join_kinds([needed[1], *map(_kind_of_input, needed[0])])


def _kind_of_input(param: Value) -> RankKind | None:
    """Of a parameter of any block that is open; those of a rule are shares of cotangents, which are local."""
    for trace in _around(TRACE.get()):
        if param in trace.stand_for:
            return _in_program(trace.stand_for[param])
        if param in trace.carried:
            return trace.carried[param]()
    for tracer in _around(active()):
        if tracer.block is param.owner:
            return tracer.rank_kind(param)
    return LOCAL
