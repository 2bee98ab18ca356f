"""Operations written in simpler ones, so that the planner can fuse them with what stands around them.

An op's own `expand` says what it means; a record's `rewrite` what this backend rather has. Values are those of the ops' `impl`.
What two expansions have in common (the softmax and the cross entropy of the same logits) is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.ad.expansion import expansion
from gradtape.backends.llvm.planning.lowering import Lowerings
from gradtape.backends.llvm.runtime.unsupported import UnsupportedError
from gradtape.backends.llvm.writing.element_types import is_native
from gradtape.core.opdef import Op, Rule
from gradtape.ir.dims import infer_by_probing, symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.verify import fits
from gradtape.ir.walk import Rebuild, rebuild
from gradtape.ops.composite import ADD_N
from gradtape.ops.elementwise import ADD
from gradtape.ops.padding import PAD
from gradtape.ops.staged import CONSTANT
from gradtape.passes.facts import attrs_key
from gradtape.passes.inplace import ARITHMETIC

LEFT_OVER = frozenset({PAD, ADD, ARITHMETIC[ADD], ADD_N})  # nobody may need these any more


def _only_native(*arguments: Any, **attrs: Any) -> Any:
    raise AssertionError("only native code has it")


def native_op(name: str, args: str, infer: Rule, impl: Rule = _only_native) -> Op:
    """An op that stands in expanded programs only."""
    return Op(name, "nondiff", tuple(args.split()), impl, infer, reason="made by the native backend")


def expanded(block: Block, table: Lowerings) -> Block:
    """The program written out: by a record's `rewrite`, or by the op's `expand` where NumPy would be called otherwise."""
    inside: list[Operation] = []  # whose expansions are being written out

    def visit(scope: Rebuild, operation: Operation) -> None:
        operands, make = scope.operands(operation), Maker(scope)
        values = None
        if _is_native(operation) and has_known_sizes(operation):
            values = _rewritten(make, operation, operands, table)
            if values is None and operation.op.expand is not None and table.calls_numpy(operation):
                body = expansion(operation)
                if body is not None:
                    inside.append(operation)
                    values = scope.inline(body, operands, [value.type for value in operation.results])
                    inside.pop()
        # inside an expansion everything goes through the maker: what two of them have in common is one operation
        if values is None and inside:
            values = [make(operation.op, *operands, **operation.attrs)]
        if values is None:
            scope.copy(operation)
        else:
            scope.replace(operation, values)

    return rebuild(rebuild(block, visit), without_left_overs(LEFT_OVER))


def _rewritten(make: Maker, operation: Operation, operands: Sequence[Value], table: Lowerings) -> list[Value] | None:
    rewrite = table[operation.op].rewrite
    value = None if rewrite is None else rewrite(make, *operands, **operation.attrs)
    if value is not None and not fits(value.type, operation.result.type):  # what reads it counts on the type of the program
        raise UnsupportedError(f"{operation.op.name} written out is {value.type}, not {operation.result.type}", operation)
    return None if value is None else [value]


def _is_native(operation: Operation) -> bool:
    return all(is_native(value.type.dtype) for value in (*operation.operands, *operation.results))


def has_known_sizes(operation: Operation) -> bool:
    """Whether no size of the result is a new symbol, which others know it by."""
    return symbols_in([v.type for v in operation.results]) <= symbols_in([v.type for v in operation.operands])


def without_left_overs(ops: frozenset[Op]) -> Callable[[Rebuild, Operation], None]:
    """A pass that drops operations of these ops that expansions have left without use."""
    used: dict[Block, set[Value]] = {}

    def visit(scope: Rebuild, operation: Operation) -> None:
        if scope.old not in used:
            needed = used[scope.old] = set(scope.old.results)
            for o in reversed(scope.old.operations):
                if o.op not in ops or not needed.isdisjoint(o.results):
                    needed.update(o.operands)
        if operation.op not in ops or not used[scope.old].isdisjoint(operation.results):
            scope.copy(operation)

    return visit


class Maker:
    """Emits operations into a block, each form of one only once."""

    def __init__(self, scope: Rebuild) -> None:
        self.scope = scope

    def __call__(self, op: Op, *operands: Value, **attrs: Any) -> Value:
        """The result of an operation, of the type that the op's own rule gives: nobody tells it another one."""
        key = (op, *operands, attrs_key(attrs))
        if key not in self.scope.memory:
            type, _ = infer_by_probing(op, [value.type for value in operands], attrs)
            self.scope.memory[key] = self.scope.emit(op, operands, [type], attrs).result
        value: Value = self.scope.memory[key]
        return value

    def number(self, value: float, like: Value) -> Value:
        """A number of the dtype that another value has."""
        return self(CONSTANT, value=like.type.dtype.dtype.type(value))
