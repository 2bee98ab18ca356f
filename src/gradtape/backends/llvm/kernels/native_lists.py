"""Lists in native code: three words {address of the items, length, capacity}, and how items lie behind that address.

Items of one known shape lie one after the other. Items whose shapes differ are records {address, dims} with memory of their
own, items that are lists are their three words. A list owns its items: copying one copies them, freeing one frees them.
Capacity 0 means memory that is not this list's to free (an argument, a result's memory, an item of another list). Operations on
lists are in `list_ops.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning import size_checks as sizes
from gradtape.backends.llvm.planning.sharing import form
from gradtape.backends.llvm.planning.values import Array, Items, Lowered, MemorySlot, NativeList, Scalar
from gradtape.backends.llvm.runtime import allocator
from gradtape.backends.llvm.runtime.unsupported import UnsupportedError
from gradtape.backends.llvm.writing.element_types import MEMORY, bytes_of, name_of
from gradtape.backends.llvm.writing.ir_text import Index, ModuleText, Writer
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import ListSpec
from gradtape.ops.lists import LIST_CONCAT

WORDS = 24  # bytes of a list
SMALLEST = 16  # items a list that grows has room for


def items_of(scope: Scope, type: ListSpec) -> Items:
    """How the items of a list of a type lie here."""
    if isinstance(type.item, ListSpec):
        return Items(type.item.dtype, 0, None, items_of(scope, type.item))
    # "u": all items have one size, known before the list exists; they lie in a row, as in an array
    known = form(type, scope.program.fixed) == "u"
    dims = scope.program.dims(type.item.shape) if known else None
    return Items(type.item.dtype, len(type.item.shape), dims)


def stride(scope: Scope, items: Items) -> Index:
    """How many bytes apart items are."""
    if items.inner is not None:
        return WORDS
    if items.dims is None:
        return 8 + 8 * items.rank
    return scope.writer.product(strides(scope, items))


def strides(scope: Scope, items: Items) -> tuple[Index, ...]:
    """Factors of that number, which may be too large for one."""
    flat = items.inner is None and items.dims is not None
    return (*items.dims, bytes_of(items.dtype)) if flat else (stride(scope, items),)  # type: ignore[misc]


# -- the three words


def cell(scope: Scope, items: Items) -> NativeList:
    """Room for a list's words; it must be `put` something."""
    return NativeList(scope.writer.cell("i64", 3), items)


def put(scope: Scope, target: NativeList, address: str, length: Index, capacity: Index) -> None:
    w = scope.writer
    w.store("ptr", address, target.state)
    w.store("i64", length, w.at("i64", target.state, 1))
    w.store("i64", capacity, w.at("i64", target.state, 2))


def address(scope: Scope, source: NativeList) -> str:
    return scope.writer.load("ptr", source.state)


def length(scope: Scope, source: NativeList) -> str:
    return scope.writer.load("i64", scope.writer.at("i64", source.state, 1))


def capacity(scope: Scope, source: NativeList) -> str:
    return scope.writer.load("i64", scope.writer.at("i64", source.state, 2))


def set_length(scope: Scope, target: NativeList, count: Index) -> None:
    scope.writer.store("i64", count, scope.writer.at("i64", target.state, 1))


def new_list(scope: Scope, type: ListSpec) -> NativeList:
    """An empty list of a type."""
    empty = cell(scope, items_of(scope, type))
    put(scope, empty, "null", 0, 0)
    return empty


def move(scope: Scope, source: NativeList, target: NativeList) -> None:
    """The target becomes the source, which is empty afterwards."""
    put(scope, target, address(scope, source), length(scope, source), capacity(scope, source))
    # so that freeing it, which happens on every way out, frees nothing
    put(scope, source, "null", 0, 0)


# -- items


def spot(scope: Scope, base: str, items: Items, index: Index) -> str:
    """Where an item is, behind the address of the first."""
    w = scope.writer
    # typed, not in bytes: LLVM then sees an array of numbers, which it can vectorise
    if items.dims == () and items.inner is None:
        return w.at(MEMORY.get(name_of(items.dtype)) or f"[{bytes_of(items.dtype)} x i8]", base, index)
    offset = w.multiply(index, stride(scope, items))
    return w.at("i8", base, offset)


def item(scope: Scope, items: Items, place: str) -> Lowered:
    """The item at an address: a register, or memory that the list keeps."""
    w = scope.writer
    if items.inner is not None:
        return NativeList(place, items.inner)
    if items.dims is None:
        dims = tuple([w.load("i64", w.at("i64", place, 1 + k)) for k in range(items.rank)])
        return Array(w.load("ptr", place), dims, items.dtype)
    if items.dims or name_of(items.dtype) not in MEMORY:
        return Array(place, items.dims, items.dtype)
    return Scalar(scope.from_memory(w.load(MEMORY[name_of(items.dtype)], place), items.dtype), items.dtype)


def read(scope: Scope, source: NativeList, index: Index) -> Lowered:
    return item(scope, source.items, spot(scope, address(scope, source), source.items, index))


def write_record(scope: Scope, place: str, array: Array) -> None:
    """The words of an item with memory of its own."""
    w = scope.writer
    w.store("ptr", array.address, place)
    for k, size in enumerate(array.dims):
        w.store("i64", size, w.at("i64", place, 1 + k))


def write_item(scope: Scope, items: Items, place: str, value: Value, last: bool = False) -> None:
    """A value as the item at an address where none is yet; at the end of the block (`last`) what it made for nothing else is
    taken over. Before, a result of the block is still to be given."""
    if items.inner is not None:
        inner = as_list(scope, value)
        mine = taken_over(scope, value) if last else None
        if isinstance(mine, NativeList) and mine.items.form == items.inner.form:
            move(scope, mine, NativeList(place, items.inner))
        else:
            copy_list(scope, converted(scope, inner, items.inner), NativeList(place, items.inner))
        return
    if items.dims is None:
        mine = taken_over(scope, value) if last else None
        source = scope.memory(value)
        write_record(scope, place, source if isinstance(mine, MemorySlot) else heap_copy(scope, source))
        return
    scope.placed(value, Array(place, items.dims, items.dtype))


def taken_over(scope: Scope, value: Value) -> MemorySlot | NativeList | None:
    """The memory of a value that ends with the block, if it can be given away: heap memory or a list of its own."""
    buffers = scope.plan.buffers(value)
    results = [result for result in scope.block.results if not buffers.isdisjoint(scope.plan.buffers(result))]
    # Two results with the same memory, or memory that a branch decides: nobody can say that it is given away once
    if len(buffers) != 1 or results != [value]:
        return None
    (buffer,) = buffers
    owned = scope.owned(buffer)
    if len(owned) != 1:
        return None
    (slot,) = owned
    if isinstance(slot, MemorySlot) and (
        # part of the frame, or another version of the value: not its own to give
        slot.offset is not None or slot.address != getattr(scope.values[value], "address", None)
    ):
        return None
    if isinstance(slot, NativeList) and slot.state != getattr(scope.values[value], "state", None):
        return None
    # or it would be freed at the end of the block
    scope.disown(buffer)
    return slot


def heap_copy(scope: Scope, source: Array) -> Array:
    """A copy in memory of its own; nothing takes no memory."""
    w = scope.writer
    count = scope.bytes_in(source)
    # (an allocation of no bytes would have to be freed all the same)
    if count == 0:
        return Array("null", source.dims, source.dtype)
    address = scope.program.allocated(count)
    w.copy(address, source.address, count)
    return Array(address, source.dims, source.dtype)


def as_list(scope: Scope, value: Value) -> NativeList:
    lowered = scope.find(value)
    if not isinstance(lowered, NativeList):
        raise UnsupportedError("something else where a list is needed")
    return lowered


# -- growing


def room_for(scope: Scope, target: NativeList, count: Index) -> str:
    """New memory for so many items; the list has them all, not yet written."""
    w = scope.writer
    most = w.larger(count, 1)  # never 0, which would mean memory of somebody else
    base = scope.program.allocated(sizes.together(scope, (most, *strides(scope, target.items))))
    put(scope, target, base, count, most)
    return base


def reserve(scope: Scope, target: NativeList) -> str:
    """Where the next item goes; `set_length` makes it one."""
    w = scope.writer
    count, room = length(scope, target), capacity(scope, target)
    full = w.let(f"icmp sge i64 {count}, {room}")
    # doubling: a loop of n appends moves items log n times
    with w.when(full, f", !prof {scope.program.unlikely()}"):
        wanted = w.larger(w.let(f"shl i64 {count}, 1"), SMALLEST)
        put(scope, target, grown(scope, target.items, address(scope, target), count, room, wanted), count, wanted)
    return spot(scope, address(scope, target), target.items, count)


def grown(scope: Scope, items: Items, old: str, count: Index, room: Index, wanted: Index) -> str:
    """New memory with the items that are there and room for as many as are wanted; the old is freed if `room` is not 0."""
    w, size = scope.writer, stride(scope, items)
    base = w.let(
        f"call ptr {allocator.grown(scope.program.module)}(ptr %context, ptr {old}, i64 {w.multiply(count, size)}, i64 {room},"
        f" i64 {sizes.together(scope, (wanted, *strides(scope, items)))})"
    )
    # out of memory is an error of the call, never a crash
    scope.program.no_memory_if(w.let(f"icmp eq ptr {base}, null"))
    return base


def push(scope: Scope, target: NativeList, value: Value) -> None:
    place = reserve(scope, target)
    write_item(scope, target.items, place, value)
    set_length(scope, target, scope.writer.add(length(scope, target), 1))


# -- whole lists


def free_list(scope: Scope, target: NativeList) -> None:
    """Give back a list's memory, if it has any of its own."""
    w = scope.writer
    # a capacity of 0 means memory of somebody else: an argument's
    own = w.let(f"icmp sgt i64 {capacity(scope, target)}, 0")
    with w.when(own):
        if target.items.form == "u":
            w.do(f"call void {allocator.release(scope.program.module)}(ptr %context, ptr {address(scope, target)})")
        else:
            w.do(f"call void {_freeing(scope.program.module, target.items)}(ptr %context, ptr {target.state})")


def free_item(scope: Scope, items: Items, place: str) -> None:
    """Give back the memory of an item; that of flat ones stays."""
    w = scope.writer
    if items.inner is not None:
        free_list(scope, NativeList(place, items.inner))
    elif items.dims is None:
        w.do(f"call void {allocator.release(scope.program.module)}(ptr %context, ptr {w.load('ptr', place)})")


def copy_list(scope: Scope, source: NativeList, target: NativeList) -> None:
    """The target becomes a list of its own with the same items."""
    w = scope.writer
    if target.items.form == "u":
        count, size = length(scope, source), stride(scope, source.items)
        base = room_for(scope, target, count)
        w.copy(base, address(scope, source), w.multiply(count, size))
        return
    # (its size is told to the routine, which is one for all lists of this form)
    innermost = source.items
    while innermost.inner is not None:
        innermost = innermost.inner
    size = 0 if innermost.dims is None else stride(scope, innermost)
    done = w.let(
        f"call i1 {_copying(scope.program.module, source.items)}"
        f"(ptr %context, ptr {target.state}, ptr {source.state}, i64 {size})"
    )
    scope.program.no_memory_if(w.let(f"xor i1 {done}, true"))


def copied_list(scope: Scope, source: NativeList, type: ListSpec) -> NativeList:
    """A list of its own, in the form of a type."""
    target = cell(scope, items_of(scope, type))
    copy_list(scope, converted(scope, source, target.items), target)
    return target


def converted(scope: Scope, source: NativeList, items: Items) -> NativeList:
    """The same items in another form; the list itself if it has that form."""
    if source.items.form == items.form:
        return source
    w = scope.writer
    target = cell(scope, items)
    count = length(scope, source)
    base = room_for(scope, target, count)
    start = address(scope, source)
    with w.loop(count) as i:
        lowered = item(scope, source.items, spot(scope, start, source.items, i))
        _convert_item(scope, lowered, items, spot(scope, base, items, i))
    return target


def _convert_item(scope: Scope, lowered: Lowered, items: Items, place: str) -> None:
    w = scope.writer
    if isinstance(lowered, NativeList):
        assert items.inner is not None
        copy_list(scope, converted(scope, lowered, items.inner), NativeList(place, items.inner))
        return
    if isinstance(lowered, Scalar):
        lowered = scope.copied(lowered, Array(w.cell(MEMORY[name_of(lowered.dtype)]), (), lowered.dtype))
    assert isinstance(lowered, Array)
    if items.dims is None:
        write_record(scope, place, heap_copy(scope, lowered))
        return
    home = Array(place, items.dims, items.dtype)
    scope.clear(home)
    # a placeholder, which is never read, may be smaller than the type says
    fits = w.let(f"icmp eq i64 {scope.bytes_in(lowered)}, {scope.bytes_in(home)}")
    with w.when(fits):
        w.copy(place, lowered.address, scope.bytes_in(home))


# -- functions of the module, one for each form


def _code(items: Items) -> str:
    if items.inner is not None:
        return "l" + _code(items.inner)
    return "u" if items.dims is not None else f"r{items.rank}x{bytes_of(items.dtype)}"


def _function(module: ModuleText, name: str, result: str, params: str, write: Callable[[Writer], None]) -> str:
    """A helper function, written once per module."""
    known: set[str] = module.__dict__.setdefault("helpers", set())
    if name not in known:
        known.add(name)
        w = Writer(module, name, params, result=f"internal {result}", attributes="nounwind noinline")
        write(w)
        w.finish()
    return f"@{name}"


def _step(items: Items) -> int:
    return WORDS if items.inner is not None else 8 + 8 * items.rank


def _freeing(module: ModuleText, items: Items) -> str:
    """void (context, list): frees the items and their memory, if the list owns it."""
    release = allocator.release(module)

    def write(w: Writer) -> None:
        base = w.load("ptr", "%list")
        with w.when(w.let(f"icmp sgt i64 {w.load('i64', w.at('i64', '%list', 2))}, 0")):
            if items.form != "u":
                with w.loop(w.load("i64", w.at("i64", "%list", 1))) as i:
                    place = w.at("i8", base, w.multiply(i, _step(items)))
                    if items.inner is not None:
                        w.do(f"call void {_freeing(module, items.inner)}(ptr %context, ptr {place})")
                    else:
                        w.do(f"call void {release}(ptr %context, ptr {w.load('ptr', place)})")
            w.do(f"call void {release}(ptr %context, ptr {base})")
        w.do("ret void")

    return _function(module, f"gt.list_free.{_code(items)}", "void", "ptr %context, ptr %list", write)


def _copying(module: ModuleText, items: Items) -> str:
    """i1 (context, to, from, bytes of a flat item): a copy with memory of its own; false if there is no memory."""
    allocate = allocator.allocate(module)

    def allocated(w: Writer, count: Index) -> str:
        memory = w.let(f"call ptr {allocate}(ptr %context, i64 {count})")
        with w.when(w.let(f"icmp eq ptr {memory}, null")):
            w.do("ret i1 false")
            w.start(w.label("never"))
        return memory

    def write(w: Writer) -> None:
        source, count = w.load("ptr", "%from"), w.load("i64", w.at("i64", "%from", 1))
        size: Index = "%bytes" if items.form == "u" else _step(items)
        most = w.larger(count, 1)
        base = allocated(w, w.multiply(most, size))
        if items.form == "u":
            w.copy(base, source, w.multiply(count, size))
        else:
            with w.loop(count) as i:
                offset = w.multiply(i, size)
                old, new = (w.at("i8", start, offset) for start in (source, base))
                if items.inner is not None:
                    done = w.let(f"call i1 {_copying(module, items.inner)}(ptr %context, ptr {new}, ptr {old}, i64 %bytes)")
                    with w.when(w.let(f"xor i1 {done}, true")):
                        w.do("ret i1 false")
                        w.start(w.label("never"))
                else:
                    dims = [w.load("i64", w.at("i64", old, 1 + k)) for k in range(items.rank)]
                    total = w.multiply(w.product(dims), bytes_of(items.dtype))
                    w.store("ptr", "null", new)
                    for k, n in enumerate(dims):
                        w.store("i64", n, w.at("i64", new, 1 + k))
                    with w.when(w.let(f"icmp ne i64 {total}, 0")):
                        memory = allocated(w, total)
                        w.copy(memory, w.load("ptr", old), total)
                        w.store("ptr", memory, new)
        w.store("ptr", base, "%to")
        w.store("i64", count, w.at("i64", "%to", 1))
        w.store("i64", most, w.at("i64", "%to", 2))
        w.do("ret i1 true")

    return _function(module, f"gt.list_copy.{_code(items)}", "i1", "ptr %context, ptr %to, ptr %from, i64 %bytes", write)


def first_dims(scope: Scope, operation: Operation, source: NativeList) -> list[Index]:
    """The dims of the first item; of no item those that the operation says, or the call fails."""
    w = scope.writer
    cells = [w.cell("i64") for _ in range(source.items.rank)]
    given = operation.attrs.get("item_shape")
    told = given if given is not None else operation.operands[0].type.item.shape
    empty = w.let(f"icmp eq i64 {length(scope, source)}, 0")
    none, some, after = w.label("none"), w.label("some"), w.label("after")
    w.branch(empty, none, some)
    w.start(none)
    free = operation.attrs.get("axis") if operation.op is LIST_CONCAT else None
    for axis, size in enumerate(told):
        if size is None or any(name not in scope.program.sizes for name in getattr(size, "symbols", ())):
            if axis != free:
                scope.fail_if("true", operation)
            w.store("i64", 0, cells[axis])
        else:
            w.store("i64", scope.program.index(size), cells[axis])
    w.go(after)
    w.start(some)
    first = read(scope, source, 0)
    assert isinstance(first, Array)
    for n, at in zip(first.dims, cells, strict=True):
        w.store("i64", n, at)
    w.go(after)
    w.start(after)
    return [w.load("i64", at) for at in cells]
