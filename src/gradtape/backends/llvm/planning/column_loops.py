"""Arrays that a loop reads and writes by columns lie by columns while it runs.

`y[:, j] = x[:, j] - 0.4 * y[:, j - 1]` touches one number of each row: a line of the cache for every number, and no vectors. So
the arrays are transposed in front of the loop and back behind it; in between, `y[:, j]` is a row. Only for arrays that every
operation of the loop takes so, and where it takes more columns than
there are.

Invariant: elements are computed by the same operations. (What a loop sums over a column, it sums as it does over a row.)
"""

from __future__ import annotations

from math import prod
from typing import Any

from gradtape.backends.llvm.planning.writing_out import native_op, without_left_overs
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Slot
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import Rebuild, program, rebuild, uses
from gradtape.ops.dynamic import ADD_AT, GETITEM_AT, UPDATE_AT, whole_key
from gradtape.ops.index import GETITEM, UPDATE
from gradtape.ops.staged import COPY, FILLED
from gradtape.ops.structured import SCAN
from gradtape.passes.facts import static_shape
from gradtape.passes.inplace import pure_op

LEAST = 16  # numbers of a column, and turns of a loop
SMALL = 2048  # numbers of an array that is in the nearest cache anyway, whichever way it lies
# the last axis in front, or (`back`) the first one at the end again
TURNED = native_op("turned", "x", lambda x, back: TensorSpec(_turned_shape(x.shape, back), x.dtype))
_READS, _WRITES = (GETITEM, GETITEM_AT), (UPDATE, UPDATE_AT, ADD_AT)


def by_rows(block: Block) -> Block:
    """The program with loops over columns as loops over rows; the block itself if it has none."""
    if not any(_is_counted(operation) for operation in program(block)):
        return block
    changed: list[_ColumnArray] = []

    def visit(scope: Rebuild, operation: Operation) -> None:
        loop = scope.copy(operation)
        if not _is_counted(loop):
            return
        readers = uses(loop.regions["body"])
        places = {"carried": range(loop.layout["carried"]), "consts": range(loop.layout["consts"])}
        arrays = [_ColumnArray(loop, group, k, readers) for group, positions in places.items() for k in positions]
        turned = [array for array in arrays if array.is_turned(loop.attrs["length"])]
        changed.extend(turned)
        if turned:
            # `copy` has appended the loop; what turns its arrays around must stand in front of it.
            scope.new.operations.pop()
            _turn(scope, loop, turned)
            scope.new.operations.append(loop)
            backs = {array.place: array for array in turned if array.group == "carried"}
            scope.replace(operation, [
                _turned(scope, value, back=True) if k in backs else value
                for k, value in enumerate(loop.results)
            ])  # fmt: skip

    new = rebuild(block, visit)
    return rebuild(new, without_left_overs(frozenset({TURNED}))) if changed else block


def _is_counted(operation: Operation) -> bool:
    length = operation.attrs.get("length")
    return operation.op is SCAN and isinstance(length, int) and length >= LEAST


class _ColumnArray:
    """One array of a loop, and the operations of the body that take columns of it."""

    def __init__(self, loop: Operation, group: str, place: int, readers: dict[Value, list[Any]]) -> None:
        self.group, self.place = group, place
        body = loop.regions["body"]
        self.start = body.group(group)[place]
        self.last = body.result_group("carried")[place] if group == "carried" else None
        self.versions, self.takers = [self.start], list[Operation]()
        self.fits = isinstance(self.start.type, TensorSpec) and self._follow(readers)

    def _follow(self, readers: dict[Value, list[Any]]) -> bool:
        """Whether all that is done with the array, and with what becomes of it in an iteration, is done with columns."""
        shape = self.start.type.shape
        if len(shape) < 2 or not static_shape(shape) or self.start.type.dtype.name not in ("float32", "float64"):
            return False
        # Every version that an iteration makes of the array must be taken by columns too: one reader of whole rows, and all of
        # the versions keep the layout they have.
        for version in self.versions:  # grows on the way
            for user, k in readers[version]:
                if user is None:
                    # Given back in another place it would become another carried value, which may lie by rows.
                    if version is not self.last or k != self.place:
                        return False
                elif k or not self._takes(user):
                    return False
        return self.last is None or self.last in self.versions

    def _takes(self, user: Operation) -> bool:
        op = pure_op(user.op)
        if op is COPY:
            self.versions.append(user.result)
            return True
        # (`size`: a slice whose bounds only run time knows, which is more than one column)
        if op not in (*_READS, *_WRITES) or user.attrs.get("size") is not None:
            return False
        indices = user.operands[1 if op in _READS else 2 :]
        *whole, last = whole_key(user.attrs["key"], len(self.start.type.shape))
        if any(part.__class__ is not slice or part != slice(None) for part in whole):
            return False
        if last.__class__ is not int and not (isinstance(last, Slot) and not len(indices[last.index].type.shape)):
            return False
        self.takers.append(user)
        if op in _WRITES:
            self.versions.append(user.result)
        return True

    def is_turned(self, length: int) -> bool:
        """Whether the loop takes enough columns for what it costs to turn the array around: about one time through it."""
        if not self.fits:
            return False
        *sizes, columns = self.start.type.shape
        taken = length * sum(2 if pure_op(user.op) is ADD_AT else 1 for user in self.takers)  # (a sum is a read and a write)
        return prod(sizes) >= LEAST and prod(sizes) * columns >= SMALL and 3 * columns <= 2 * taken


def _turn(scope: Rebuild, loop: Operation, arrays: list[_ColumnArray]) -> None:
    """Arrays of a loop with their last axis in front, in the loop and where it starts."""
    # Operands of a loop are one list; a group begins where those before it end.
    first = {group: sum(list(loop.layout.values())[: list(loop.layout).index(group)]) for group in loop.layout}
    for array in arrays:
        place = first[array.group] + array.place
        given = loop.operands[place]
        loop.operands[place] = _turned(scope, given, back=False)
        type = loop.operands[place].type
        # The types are changed in place: the loop is this pass's own copy, and every reader was looked at by `_follow`.
        for version in array.versions:
            version.type = type
        for user in array.takers:
            user.attrs = {**user.attrs, "key": whole_key(user.attrs["key"], len(type.shape))[-1:]}
        if array.group == "carried":
            loop.results[array.place].type = type


def _turned(scope: Rebuild, value: Value, back: bool) -> Value:
    """A value with its last axis in front, or back in its place; what was turned just before is there as it was."""
    producer = value.producer
    # So two loops over the same array, one behind the other, turn it around once in front of both.
    if producer is not None and producer.op is TURNED and producer.attrs["back"] != back:
        return producer.operands[0]
    type = TensorSpec(_turned_shape(value.type.shape, back), value.type.dtype)
    if producer is not None and producer.op is FILLED:
        return scope.emit(FILLED, [], [type], {**producer.attrs, "shape": tuple(type.shape)}).result
    return scope.emit(TURNED, [value], [type], {"back": back}).result


def _turned_shape(shape: Any, back: bool) -> tuple[Any, ...]:
    return (*shape[1:], shape[0]) if back else (shape[-1], *shape[:-1])
