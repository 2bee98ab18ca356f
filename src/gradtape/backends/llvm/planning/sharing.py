"""Whose memory a value of a block may have: its own, that of a parameter, or that of a value before it.

A change in place, a reshape, a loop that works on its carried array and a branch that gives one of its inputs back are no
copies: their results are memory that was there before. `bufferize` has made sure that whatever is changed in place is dead
otherwise; what natively shares memory beyond that (an item of a list, the rows of an array as a list) does so only if nothing
in the block changes that memory afterwards. The form of a list (`form`) says how its items lie; a list that flows into
a type of another form is another list.

One invariant: two live values with a common buffer are never changed through one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradtape.backends.llvm.writing.element_types import is_native
from gradtape.ir.dims import Dim, symbols_in
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import ListSpec
from gradtape.ops.lists import LIST_GET
from gradtape.ops.structured import CALL, COND, CUSTOM, SCAN, WHILE

if TYPE_CHECKING:
    from gradtape.backends.llvm.planning.plan import BlockPlan

Buffers = frozenset[Value]
NONE: Buffers = frozenset()


def has_memory(type: Any) -> bool:
    """Whether a value of a type is in memory, not in a register."""
    return isinstance(type, ListSpec) or len(type.shape) > 0 or not is_native(type.dtype)


def form(type: Any, fixed: frozenset[str]) -> str:
    """How the items of a list lie: "u" one after the other, "r" each with dims and memory of its own, "l…" as lists."""
    if not isinstance(type, ListSpec):
        return ""
    if isinstance(type.item, ListSpec):
        return "l" + form(type.item, fixed)
    known = all(size is not None for size in type.item.shape) and symbols_in(type.item) <= fixed
    return "u" if known else "r"


def changes_size(param: Any, result: Any) -> bool:
    """Whether a carried array may have another shape after an iteration."""
    return any(isinstance(a, Dim) and a != b for a, b in zip(param.shape, result.shape, strict=True))


class Sharing:
    """The buffers of the values of one block. A buffer is named by the value that first has it."""

    def __init__(self, plan: BlockPlan) -> None:
        self._plan = plan
        self._buffers: dict[Value, Buffers] = {}
        self._holders: dict[Value, list[Value]] = {}  # buffer → the values that may have it
        self._changed: dict[Operation, Buffers] = {}
        self.taken: set[tuple[Operation, int]] = set()  # loops that may use the memory of a carried value's start
        self.parts = {operation for operation in plan.block.operations if self._may_be_part(operation)}
        # A fixpoint from above: all that may be parts are taken for parts, then those go whose memory is changed behind them.
        # Parts only ever go, so the loop ends.
        while True:
            self._trace()
            broken = self._changed_later()
            if not broken:
                break
            self.parts -= broken

    def _may_be_part(self, operation: Operation) -> bool:
        """Items of their own memory are no rows of an array."""
        if not self._plan.lowering(operation).part:
            return False
        if operation.op is LIST_GET:
            return True
        return "r" not in form(operation.operands[0].type, self._plan.fixed) + form(operation.result.type, self._plan.fixed)

    # --- questions

    def buffers(self, value: Value) -> Buffers:
        return self._buffers.get(value, NONE)

    def changed_by(self, operation: Operation) -> Buffers:
        """The memory an operation changes, inside its regions too."""
        return self._changed.get(operation, NONE)

    def changed_params(self) -> set[int]:
        """The parameters of the block whose memory it changes."""
        buffers = NONE.union(*self._changed.values())
        return {i for i, param in enumerate(self._plan.block.params) if param in buffers}

    def source(self, k: int) -> tuple[list[int], bool]:
        """The parameters whose memory result k may be, and whether it may be other memory."""
        mine = self.buffers(self._plan.block.results[k])
        params = [i for i, param in enumerate(self._plan.block.params) if param in mine]
        return params, len(mine) > len(params)

    def in_place(self, loop: Operation, k: int) -> bool:
        """Whether a loop has carried value k in one place from its start to its end."""
        body = loop.regions["body"]
        param, result = body.group("carried")[k], body.results[k]
        types = (loop.group("carried")[k].type, param.type, result.type, loop.results[k].type)
        fixed = self._plan.fixed
        return self._plan.nested(body).buffers(result) == {param} and len({form(type, fixed) for type in types}) == 1

    def _has_own(self, cond: Operation, k: int) -> bool:
        """Whether a branch may give other memory than that of inputs as result k."""
        fixed = self._plan.fixed
        wanted = form(cond.results[k].type, fixed)
        inputs = cond.group("inputs")
        for block in cond.regions.values():
            params, own = self._plan.nested(block).sharing.source(k)
            if own or any(form(inputs[i].type, fixed) != wanted for i in params):
                return True
        return False

    # --- the walk

    def _trace(self) -> None:
        plan = self._plan
        self._changed.clear()
        self.taken.clear()
        self._buffers.clear()
        self._holders.clear()
        for param in plan.block.params:
            self._give(param, _own(param))
        for operation in plan.block.operations:
            op = operation.op
            first = self._buffers[operation.operands[0]] if operation.operands else NONE
            if op is COND:
                self._cond(operation)
            elif op in (WHILE, SCAN):
                self._loop(operation)
            elif op is CALL:
                self._call(operation)
            elif op is CUSTOM:
                for value, given in zip(operation.results, operation.group("values"), strict=True):
                    self._give(value, self._buffers[given])
            elif (target := plan.changed(operation)) is not None:
                if plan.kinds[operation] != "absorbed":  # what absorbs it changes the memory, later
                    self._changed[operation] = self._buffers[target]
                self._give(operation.results[0], self._buffers[target])
            elif plan.kinds[operation] == "alias" or operation in self.parts:
                self._give(operation.results[0], first)
            else:
                for value in operation.results:
                    self._give(value, _own(value))

    def _give(self, value: Value, buffers: Buffers) -> None:
        self._buffers[value] = buffers
        for buffer in buffers:
            self._holders.setdefault(buffer, []).append(value)

    def _changed_later(self) -> set[Operation]:
        """Parts whose memory is changed behind them: they cannot share it."""
        at, last = self._plan.at, dict[Value, int]()  # buffer → the position of its last change
        for change, buffers in self._changed.items():
            last.update(dict.fromkeys(buffers, at[change]))  # changes are noted in their order
        return {
            part for part in self.parts if any(last.get(b, -1) > at[part] for b in self._buffers[part.results[0]])
        }  # fmt: skip

    def _cond(self, operation: Operation) -> None:
        inputs = operation.group("inputs")
        plans = [self._plan.nested(block) for block in operation.regions.values()]
        self._changed[operation] = self._union(
            [inputs[i] for plan in plans for i in plan.sharing.changed_params()]
        )  # fmt: skip
        for k, value in enumerate(operation.results):
            if not has_memory(value.type):
                self._give(value, NONE)
                continue
            given = self._union([inputs[i] for plan in plans for i in plan.sharing.source(k)[0]])
            own = self._has_own(operation, k)
            if isinstance(value.type, ListSpec):
                self._give(value, frozenset({value}) if own else given)
            else:
                self._give(value, given | {value} if own else given)

    def _loop(self, operation: Operation) -> None:
        body = operation.regions["body"]
        changed = self._plan.nested(body).sharing.changed_params()
        carried = operation.group("carried")
        first = body.layout["index"]
        changing = NONE
        for k, value in enumerate(operation.results):
            if k >= len(carried) or not has_memory(value.type):
                self._give(value, _own(value))
                continue
            # In order: the body works in place; a list moves from list to list; an array that changes its size leaves the
            # memory it started in when it does; two buffers take turns, one of them the start's if nobody needs that any more.
            start = self._buffers[carried[k]]
            if self.in_place(operation, k):
                self._give(value, start)
                changing |= start if first + k in changed else NONE
            elif isinstance(value.type, ListSpec):
                self._give(value, frozenset({value}))
            elif changes_size(body.params[first + k].type, body.results[k].type):
                self._give(value, start | {value})
            elif self._is_free(operation, k):
                self.taken.add((operation, k))
                self._give(value, start | {value})
                changing |= start
            else:
                self._give(value, frozenset({value}))
        self._changed[operation] = changing

    def _is_free(self, operation: Operation, k: int) -> bool:
        """Whether the memory a carried value starts in is made in this block and nobody's any more after the loop."""
        plan, place = self._plan, self._plan.at[operation]
        start = operation.group("carried")[k]
        mine = self._buffers[start]
        if len(mine) != 1 or start.producer is None:
            return False
        (buffer,) = mine
        producer = buffer.producer
        # A parameter's memory is the caller's, a constant's the module's; a value that is carried twice has one memory for two.
        if producer is None or plan.lowering(producer).free or operation.operands.count(start) > 1:
            return False
        for value in self._holders[buffer]:
            if plan.is_output(value) or any(plan.at[user] > place for user in plan.users(value)):
                return False
            if value is not start and value in operation.operands:
                return False
        return True

    def _call(self, operation: Operation) -> None:
        callee = self._plan.callee(operation.attrs["callee"])
        for k, value in enumerate(operation.results):
            self._give(value, _own(value))
            if isinstance(value.type, ListSpec) and (i := given_back(callee, k)) is not None:
                operand = operation.operands[i]
                if form(operand.type, self._plan.fixed) == form(callee.block.params[i].type, callee.fixed):
                    self._give(value, self._buffers[operand])

    def _union(self, values: Sequence[Value]) -> Buffers:
        return NONE.union(*(self._buffers[value] for value in values))


def _own(value: Value) -> Buffers:
    return frozenset({value}) if has_memory(value.type) else NONE


def given_back(plan: BlockPlan, k: int) -> int | None:
    """The parameter that result k of a block is, if it is always that one and lies as the type says."""
    params, own = plan.sharing.source(k)
    result = plan.block.results[k]
    if own or len(params) != 1:
        return None
    same = form(result.type, plan.fixed) == form(plan.block.params[params[0]].type, plan.fixed)
    return params[0] if same else None
