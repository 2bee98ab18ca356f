"""Loops over items that Python gives in blocks: machine code steps through a block and calls back where it ends.

The words it reads are those of `ops/python_calls.py`; whoever opened the pass keeps them and the block alive.
"""

from __future__ import annotations

from gradtape.backends.llvm.kernels.callback_code import is_number, write_callback
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.lowering import Lowering
from gradtape.backends.llvm.planning.values import Array, Lowered, Scalar
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import MEMORY, bytes_of, name_of
from gradtape.core.opdef import Op
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Operation
from gradtape.ops.python_calls import PULL_ITEM, PULL_MORE


def _more(scope: Scope, operation: Operation) -> list[Lowered]:
    handle, going = operation.operands
    w = scope.writer
    for value in operation.operands:
        scope.memory(value)  # for the call: not first in the branch, or what follows would look for it there
    words = w.let(f"inttoptr i64 {scope.scalar(handle)} to ptr")
    index = w.load("i64", words)
    following = w.let(f"add i64 {index}, 1")
    within = w.let(f"icmp slt i64 {following}, {w.load('i64', w.at('i64', words, 1))}")
    ready = w.let(f"and i1 {within}, {scope.scalar(going)}")
    w.store("i64", w.let(f"select i1 {ready}, i64 {following}, i64 {index}"), words)
    flag = w.cell("i1")
    w.store("i1", "true", flag)
    with w.when(w.let(f"xor i1 {ready}, true")):
        (answer,) = write_callback(scope, operation)
        assert isinstance(answer, Scalar)
        w.store("i1", answer.register, flag)
    return [Scalar(w.load("i1", flag), operation.result.type.dtype)]


def _item(scope: Scope, operation: Operation) -> list[Lowered]:
    if any(symbols_in(value.type) for value in operation.results):
        return write_callback(scope, operation)
    w = scope.writer
    words = w.let(f"inttoptr i64 {scope.scalar(operation.operands[0])} to ptr")
    index = w.load("i64", words)
    scope.program.notes.append(Note("kernel", (operation.op.name,), operation.loc))
    leaves: list[Lowered] = []
    for k, value in enumerate(operation.results):
        rows, dtype = w.load("ptr", w.at("i64", words, 2 + k)), value.type.dtype
        if is_number(value):
            place = w.at(MEMORY[name_of(dtype)], rows, index)
            leaves.append(Scalar(scope.load(Array(place, (), dtype), ()), dtype))
            continue
        home = scope.room(value)
        size = w.multiply(w.product(home.dims), bytes_of(dtype))
        w.copy(home.address, w.at("i8", rows, w.multiply(index, size)), size)
        leaves.append(home)
    return leaves


LOWERINGS: dict[Op, Lowering] = {PULL_MORE: Lowering(memory=_more), PULL_ITEM: Lowering(memory=_item)}
