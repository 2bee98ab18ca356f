"""Lists in native code: items of one shape, one after the other, in a cell {address, length, capacity}.

A list value is never changed unless `bufferize` made the operation in place; others copy the items first. Capacity 0 means
memory that is not this list's to free (an argument, a result's memory).
"""

from __future__ import annotations

from typing import Any

from gradtape.backends.llvm.runtime import grow, release
from gradtape.backends.llvm.scope import Scope, copy
from gradtape.backends.llvm.text import Index
from gradtape.backends.llvm.types import MEMORY, bytes_of, literal, name_of
from gradtape.backends.llvm.values import Array, Lowered, NativeList, Scalar, UnsupportedError
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import TensorSpec


def item_type(value: Value) -> TensorSpec:
    item = value.type.item
    if not isinstance(item, TensorSpec):
        raise UnsupportedError("a list of lists")
    return item


def new_list(scope: Scope, value: Value) -> NativeList:
    """An empty list of a value's type."""
    item = item_type(value)
    cell = scope.writer.cell("i64", 3)
    made = NativeList(cell, scope.program.dims(item.shape), item.dtype)
    put(scope, made, "null", 0, 0)
    return made


def put(scope: Scope, target: NativeList, address: str, length: Index, capacity: Index) -> None:
    w = scope.writer
    w.store("ptr", address, target.state)
    w.store("i64", length, w.at("i64", target.state, 1))
    w.store("i64", capacity, w.at("i64", target.state, 2))


def address(scope: Scope, source: NativeList) -> str:
    return scope.writer.load("ptr", source.state)


def length(scope: Scope, source: NativeList) -> str:
    return scope.writer.load("i64", scope.writer.at("i64", source.state, 1))


def item_bytes(scope: Scope, source: NativeList) -> Index:
    return scope.writer.multiply(scope.writer.product(source.dims), bytes_of(source.dtype))


def item_address(scope: Scope, source: NativeList, index: Index) -> str:
    w = scope.writer
    if not source.dims:
        return w.at(MEMORY[name_of(source.dtype)] if name_of(source.dtype) in MEMORY else f"[{bytes_of(source.dtype)} x i8]",
                    address(scope, source), index)  # fmt: skip
    return w.let(f"getelementptr inbounds i8, ptr {address(scope, source)}, i64 {w.multiply(index, item_bytes(scope, source))}")


def read(scope: Scope, source: NativeList, index: Index) -> Lowered:
    """An item: a register, or memory that the list keeps."""
    place = item_address(scope, source, index)
    if source.dims:
        return Array(place, source.dims, source.dtype)
    if name_of(source.dtype) not in MEMORY:
        return Array(place, (), source.dtype)
    register = scope.writer.load(MEMORY[name_of(source.dtype)], place)
    return Scalar(scope.from_memory(register, source.dtype), source.dtype)


def write(scope: Scope, target: NativeList, index: Index, lowered: Lowered) -> None:
    scope.copied(lowered, Array(item_address(scope, target, index), target.dims, target.dtype))


def room_for(scope: Scope, target: NativeList, count: Index) -> None:
    """New memory for so many items; the list has them all, not yet written."""
    w = scope.writer
    capacity = w.larger(count, 1)  # never 0, which would mean memory of somebody else
    made = scope.program.allocated(w.multiply(capacity, item_bytes(scope, target)))
    put(scope, target, made, count, capacity)


def push(scope: Scope, target: NativeList, lowered: Lowered) -> None:
    w = scope.writer
    count = length(scope, target)
    capacity = w.load("i64", w.at("i64", target.state, 2))
    full = w.let(f"icmp sge i64 {count}, {capacity}")
    with w.when(full, f", !prof {scope.program.unlikely()}"):
        grown = w.let(f"call i1 {grow(scope.program)}(ptr %context, ptr {target.state}, i64 {item_bytes(scope, target)})")
        scope.program.need(grown)
    write(scope, target, count, lowered)
    w.store("i64", w.add(count, 1), w.at("i64", target.state, 1))


def copied_list(scope: Scope, source: NativeList, value: Value, extra: int = 0) -> NativeList:
    """A list of its own with the same items."""
    w = scope.writer
    made = new_list(scope, value)
    count = length(scope, source)
    room_for(scope, made, w.add(count, extra))
    copy(w, address(scope, made), address(scope, source), w.multiply(count, item_bytes(scope, source)))
    w.store("i64", count, w.at("i64", made.state, 1))
    return made


def free(scope: Scope, target: NativeList) -> None:
    w = scope.writer
    capacity = w.load("i64", w.at("i64", target.state, 2))
    own = w.let(f"icmp sgt i64 {capacity}, 0")
    with w.when(own):
        w.do(f"call void {release(scope.program)}(ptr %context, ptr {address(scope, target)})")


def _list(scope: Scope, value: Value) -> NativeList:
    found = scope.values[value]
    if not isinstance(found, NativeList):
        raise UnsupportedError("something else where a list is needed")
    return found


def place_in(scope: Scope, operation: Operation, source: NativeList, index: Value) -> Index:
    """An index, negative ones from the end, that is inside the list; else the call fails."""
    w = scope.writer
    count, at = length(scope, source), scope.integer(index)
    below = w.let(f"icmp slt i64 {at}, 0")
    moved = w.let(f"select i1 {below}, i64 {w.add(at, count)}, i64 {at}")
    bad = w.let(f"icmp uge i64 {moved}, {count}")
    scope.program.fail_if(bad, operation)
    return moved


def _get(scope: Scope, operation: Operation) -> list[Lowered]:
    source = _list(scope, operation.operands[0])
    found = read(scope, source, place_in(scope, operation, source, operation.operands[1]))
    if isinstance(found, Array):  # the list may be changed while the item lives on
        return [scope.copied(found, scope.room(operation.result))]
    return [found]


def _len(scope: Scope, operation: Operation) -> list[Lowered]:
    count = length(scope, _list(scope, operation.operands[0]))
    return [Scalar(scope.writer.let(f"trunc i64 {count} to i32"), operation.result.type.dtype)]


def _new(scope: Scope, operation: Operation) -> list[Lowered]:
    made = new_list(scope, operation.result)
    for value in operation.operands:
        push(scope, made, _item(scope, value))
    return [made]


def _item(scope: Scope, value: Value) -> Lowered:
    return scope.memory(value) if len(value.type.shape) else Scalar(scope.scalar(value), value.type.dtype)


def _push(in_place: bool) -> Any:
    def write_push(scope: Scope, operation: Operation) -> list[Lowered]:
        source = _list(scope, operation.operands[0])
        target = source if in_place else copied_list(scope, source, operation.result, extra=1)
        push(scope, target, _item(scope, operation.operands[1]))
        return [target]

    return write_push


def _drop(in_place: bool) -> Any:
    def write_drop(scope: Scope, operation: Operation) -> list[Lowered]:
        w = scope.writer
        source = _list(scope, operation.operands[0])
        scope.program.fail_if(w.let(f"icmp eq i64 {length(scope, source)}, 0"), operation)
        target = source if in_place else copied_list(scope, source, operation.result)
        w.store("i64", w.add(length(scope, target), -1), w.at("i64", target.state, 1))
        return [target]

    return write_drop


def _set(in_place: bool) -> Any:
    def write_set(scope: Scope, operation: Operation) -> list[Lowered]:
        source = _list(scope, operation.operands[0])
        at = place_in(scope, operation, source, operation.operands[1])
        target = source if in_place else copied_list(scope, source, operation.result)
        write(scope, target, at, _item(scope, operation.operands[2]))
        return [target]

    return write_set


def _clear_at(in_place: bool) -> Any:
    def write_clear(scope: Scope, operation: Operation) -> list[Lowered]:
        w = scope.writer
        source = _list(scope, operation.operands[0])
        at = place_in(scope, operation, source, operation.operands[1])
        target = source if in_place else copied_list(scope, source, operation.result)
        w.do(
            f"call void @llvm.memset.p0.i64(ptr {item_address(scope, target, at)}, i8 0, i64 {item_bytes(scope, target)}, i1 false)"
        )
        return [target]

    return write_clear


def _add_at(in_place: bool) -> Any:
    def write_add(scope: Scope, operation: Operation) -> list[Lowered]:
        w = scope.writer
        source = _list(scope, operation.operands[0])
        at = place_in(scope, operation, source, operation.operands[1])
        target = source if in_place else copied_list(scope, source, operation.result)
        kind = MEMORY.get(name_of(target.dtype))
        if kind not in ("float", "double"):
            raise UnsupportedError(f"adding to list items of dtype {name_of(target.dtype)}", operation)
        place = item_address(scope, target, at)
        value = operation.operands[2]
        if not target.dims:
            total = w.let(f"fadd {kind} {w.load(kind, place)}, {scope.scalar(value)}")
            w.store(kind, total, place)
            return [target]
        more = scope.memory(value)
        with w.loop(w.product(target.dims)) as i:
            spot = w.at(kind, place, i)
            w.store(kind, w.let(f"fadd {kind} {w.load(kind, spot)}, {w.load(kind, w.at(kind, more.address, i))}"), spot)
        return [target]

    return write_add


def _zeros_like(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    source = _list(scope, operation.operands[0])
    made = new_list(scope, operation.result)
    count = length(scope, source)
    room_for(scope, made, count)
    w.do(
        f"call void @llvm.memset.p0.i64(ptr {address(scope, made)}, i8 0, i64 {w.multiply(count, item_bytes(scope, made))}, i1 false)"
    )
    return [made]


def _copy(scope: Scope, operation: Operation) -> list[Lowered]:
    return [copied_list(scope, _list(scope, operation.operands[0]), operation.result)]


def _from_tensor(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    source = scope.memory(operation.operands[0])
    made = new_list(scope, operation.result)
    room_for(scope, made, source.dims[0])
    copy(w, address(scope, made), source.address, w.multiply(w.product(source.dims), bytes_of(source.dtype)))
    return [made]


def _stack(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    source = _list(scope, operation.operands[0])
    count = length(scope, source)
    result = operation.result
    scope.program.bind(TensorSpec(result.type.shape[:1], result.type.dtype), (count,))
    known = scope.program.index(result.type.shape[0])
    if known is not count:
        scope.program.fail_if(w.let(f"icmp ne i64 {count}, {known}"), operation)
    home = scope.room(result)
    copy(w, home.address, address(scope, source), w.multiply(w.product(home.dims), bytes_of(home.dtype)))
    return [home]


MEMORY_OPS: dict[str, Any] = {
    "list_get": _get,
    "list_len": _len,
    "list_new": _new,
    "list_copy": _copy,
    "list_zeros_like": _zeros_like,
    "list_from_tensor": _from_tensor,
    "list_stack": _stack,
    "list_push": _push(False),
    "list_push_into": _push(True),
    "list_drop": _drop(False),
    "list_drop_into": _drop(True),
    "list_set": _set(False),
    "list_set_into": _set(True),
    "list_clear_at": _clear_at(False),
    "list_clear_at_into": _clear_at(True),
    "list_add_at": _add_at(False),
    "list_add_at_into": _add_at(True),
}

__all__ = ["MEMORY_OPS", "free", "length", "literal", "new_list", "push", "put", "read", "room_for", "write"]
