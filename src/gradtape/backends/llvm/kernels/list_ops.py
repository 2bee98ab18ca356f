"""Operations on lists: each gives a new list, unless `bufferize` made it in place.

An item that is read is the list's own memory where nothing changes the list afterwards (`sharing.py` says so), a copy
otherwise; so are the rows of an array as a list, and the items of a list as one array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.backends.llvm.kernels import native_lists as lists
from gradtape.backends.llvm.kernels.callback_code import write_callback
from gradtape.backends.llvm.kernels.code import plain_sum
from gradtape.backends.llvm.kernels.kernel_code import Access, loops
from gradtape.backends.llvm.kernels.keys import checked
from gradtape.backends.llvm.kernels.native_lists import as_list, new_list
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning import size_checks as sizes
from gradtape.backends.llvm.planning.lowering import Lowering, always, as_recipes, never
from gradtape.backends.llvm.planning.values import Array, Items, Lowered, NativeList, Scalar
from gradtape.backends.llvm.planning.writing_out import Maker
from gradtape.backends.llvm.runtime.unsupported import UnsupportedError
from gradtape.backends.llvm.writing.element_types import MEMORY, bytes_of, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops import lists as ops
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.passes.inplace import COPY_OF, TWINS, is_twin

Results = list[Lowered]


def place_in(scope: Scope, operation: Operation, source: NativeList, index: Value) -> Index:
    """An index, negative ones from the end, that is inside the list; else the call fails."""
    return checked(scope, operation, scope.integer(index), lists.length(scope, source))


def owned(scope: Scope, operation: Operation, new: NativeList) -> NativeList:
    """A list that an operation made: it is freed after its last use."""
    scope.own(operation.results[0], new)
    return new


def target_of(scope: Scope, operation: Operation) -> NativeList:
    """The list that an operation changes: its operand, or a copy of it."""
    source = as_list(scope, operation.operands[0])
    # nobody reads the old list any more (`bufferize`): so a loop that appends is linear, not quadratic
    if is_twin(operation.op):
        return source
    return owned(scope, operation, lists.copied_list(scope, source, operation.result.type))


# -- items


def _get(scope: Scope, operation: Operation) -> Results:
    source = as_list(scope, operation.operands[0])
    item = lists.read(scope, source, place_in(scope, operation, source, operation.operands[1]))
    # read where it lies: the plan knows that the list is not changed as long as the item is used
    if isinstance(item, Scalar) or operation in scope.plan.sharing.parts:
        return [item]
    if isinstance(item, NativeList):
        return [owned(scope, operation, lists.copied_list(scope, item, operation.result.type))]
    # items of one list may differ in size: this one's is known from here on
    scope.program.bind(operation.result.type, item.dims)  # type: ignore[union-attr]
    return [scope.copied(item, scope.room(operation.result))]


def _len(scope: Scope, operation: Operation) -> Results:
    count = lists.length(scope, as_list(scope, operation.operands[0]))
    return [Scalar(scope.writer.let(f"trunc i64 {count} to i32"), operation.result.type.dtype)]


def _new(scope: Scope, operation: Operation) -> Results:
    new = owned(scope, operation, new_list(scope, operation.result.type))
    count = len(operation.operands)
    if count:
        base = lists.room_for(scope, new, count)
        for i, value in enumerate(operation.operands):
            lists.write_item(scope, new.items, lists.spot(scope, base, new.items, i), value)
    return [new]


def _push(scope: Scope, operation: Operation) -> Results:
    target = target_of(scope, operation)
    lists.push(scope, target, operation.operands[1])
    return [target]


def _drop(scope: Scope, operation: Operation) -> Results:
    w = scope.writer
    source = as_list(scope, operation.operands[0])
    scope.fail_if(w.let(f"icmp eq i64 {lists.length(scope, source)}, 0"), operation)
    target = target_of(scope, operation)
    last = w.add(lists.length(scope, target), -1)
    # items that own memory (lists, arrays of any size) would be lost with the place
    lists.free_item(scope, target.items, lists.spot(scope, lists.address(scope, target), target.items, last))
    lists.set_length(scope, target, last)
    return [target]


def _set(scope: Scope, operation: Operation) -> Results:
    values, index, value = operation.operands
    at = place_in(scope, operation, as_list(scope, values), index)
    target = target_of(scope, operation)
    place = lists.spot(scope, lists.address(scope, target), target.items, at)
    lists.free_item(scope, target.items, place)
    lists.write_item(scope, target.items, place, value)
    return [target]


def _clear_item(scope: Scope, items: Items, place: str) -> None:
    """Zeros in the place of an item, of the same shape."""
    if items.inner is not None:
        _clear_all(scope, NativeList(place, items.inner))
    elif items.dims is None:
        scope.clear(lists.item(scope, items, place))  # type: ignore[arg-type]
    else:
        scope.clear(Array(place, items.dims, items.dtype))


def _clear_all(scope: Scope, target: NativeList) -> None:
    w, items = scope.writer, target.items
    count, base = lists.length(scope, target), lists.address(scope, target)
    if items.form == "u":
        w.clear(base, w.multiply(count, lists.stride(scope, items)))
        return
    with w.loop(count) as i:
        _clear_item(scope, items, lists.spot(scope, base, items, i))


# -- sums


def _can_add(items: Items, operation: Operation) -> None:
    while items.inner is not None:
        items = items.inner
    # refused while the code is written, so that the whole program falls back to the reference; not when it runs
    if name_of(items.dtype) not in MEMORY or name_of(items.dtype) == "bool":
        raise UnsupportedError(f"sums of lists of dtype {name_of(items.dtype)}", operation)


def _add_at(scope: Scope, operation: Operation) -> Results:
    values, index, value = operation.operands
    at = place_in(scope, operation, as_list(scope, values), index)
    target = target_of(scope, operation)
    _can_add(target.items, operation)
    place = lists.spot(scope, lists.address(scope, target), target.items, at)
    if target.items.inner is not None:
        _add_lists(scope, operation, NativeList(place, target.items.inner), as_list(scope, value))
    elif target.items.dims == ():
        kind = MEMORY[name_of(target.items.dtype)]
        scope.writer.store(
            kind, plain_sum(scope.writer, target.items.dtype, scope.writer.load(kind, place), scope.scalar(value)), place
        )
    else:
        home = lists.item(scope, target.items, place)
        assert isinstance(home, Array)
        # an item brings its own size: whether both fit is known at run time
        if target.items.dims is None:
            _same_size(scope, operation, home, scope.dims(value))
            home = Array(home.address, scope.dims(value), home.dtype)
        _accumulate(scope, home, lambda spot: scope.element(value, spot))
    return [target]


def _same_size(scope: Scope, operation: Operation, a: Array, dims: Sequence[Index]) -> None:
    w = scope.writer
    for m, n in zip(a.dims, dims, strict=True):
        if m != n:
            scope.fail_if(w.let(f"icmp ne i64 {m}, {n}"), operation)


def _accumulate(scope: Scope, home: Array, term: Callable[[Any], str]) -> None:
    """Add elements to memory."""
    w, kind = scope.writer, MEMORY[name_of(home.dtype)]
    with Access(scope) as access:

        def body(place: tuple[Index, ...]) -> None:
            spot = w.at(kind, home.address, scope.offset(home.dims, place))
            w.store(
                kind, plain_sum(scope.writer, home.dtype, w.load(kind, spot, access.writing), term(place)), spot, access.writing
            )

        loops(scope, list(home.dims), body, access)


def _add_lists(scope: Scope, operation: Operation, target: NativeList, other: NativeList) -> None:
    """Add items to items, in place."""
    w = scope.writer
    # one may have items in a row and the other one by one, if only one side knew their size
    other = lists.converted(scope, other, target.items)
    count = lists.length(scope, target)
    scope.fail_if(w.let(f"icmp ne i64 {count}, {lists.length(scope, other)}"), operation)
    base, more = lists.address(scope, target), lists.address(scope, other)
    if target.items.form == "u":
        total = w.multiply(count, w.product(target.items.dims or ()))
        whole, part = (Array(start, (total,), target.items.dtype) for start in (base, more))
        _accumulate(scope, whole, lambda spot: scope.load(part, spot))
        return
    with w.loop(count) as i:
        a, b = (lists.item(scope, target.items, lists.spot(scope, start, target.items, i)) for start in (base, more))
        if isinstance(a, NativeList):
            _add_lists(scope, operation, a, b)  # type: ignore[arg-type]
        else:
            assert isinstance(a, Array) and isinstance(b, Array)
            _same_size(scope, operation, a, b.dims)
            _accumulate(scope, a, lambda spot: scope.load(b, spot))


def _add(scope: Scope, operation: Operation) -> Results:
    target = owned(scope, operation, lists.copied_list(scope, as_list(scope, operation.operands[0]), operation.result.type))
    _can_add(target.items, operation)
    _add_lists(scope, operation, target, as_list(scope, operation.operands[1]))
    return [target]


# -- like another list


def zeros_like(scope: Scope, operation: Operation) -> Results:
    zeros = owned(scope, operation, lists.copied_list(scope, as_list(scope, operation.operands[0]), operation.result.type))
    _clear_all(scope, zeros)
    return [zeros]


def copied(scope: Scope, operation: Operation) -> Results:
    return [owned(scope, operation, lists.copied_list(scope, as_list(scope, operation.operands[0]), operation.result.type))]


def same(scope: Scope, operation: Operation) -> Results:
    return [as_list(scope, operation.operands[0])]


# -- other lengths


def _resize(scope: Scope, operation: Operation) -> Results:
    """Grown with zeros of a type to at least a length."""
    w = scope.writer
    target = target_of(scope, operation)
    wanted = scope.integer(operation.operands[1])
    item = operation.attrs["item"]
    with w.loop(wanted, start=lists.length(scope, target)):
        place = lists.reserve(scope, target)
        _write_zeros(scope, target.items, place, item)
        lists.set_length(scope, target, w.add(lists.length(scope, target), 1))
    return [target]


def _write_zeros(scope: Scope, items: Items, place: str, type: Any) -> None:
    if items.inner is not None:
        lists.put(scope, NativeList(place, items.inner), "null", 0, 0)
    elif items.dims is None:
        _write_zeros_of(scope, items, place, scope.program.dims(type.shape))
    else:
        scope.clear(Array(place, items.dims, items.dtype))


def _write_zeros_of(scope: Scope, items: Items, place: str, dims: Sequence[Index]) -> None:
    zeros = Array(scope.program.allocated(sizes.together(scope, (*dims, bytes_of(items.dtype)))), tuple(dims), items.dtype)
    scope.clear(zeros)
    lists.write_record(scope, place, zeros)


def _shorten(scope: Scope, target: NativeList, count: Index) -> None:
    """Drop what is behind the first `count` items, if there are more."""
    w = scope.writer
    have = lists.length(scope, target)
    # (in a row they own nothing)
    if target.items.form != "u":
        with w.loop(have, start=count) as i:
            lists.free_item(scope, target.items, lists.spot(scope, lists.address(scope, target), target.items, i))
    lists.set_length(scope, target, w.smaller(have, count))


def _cut(scope: Scope, operation: Operation) -> Results:
    w = scope.writer
    target = target_of(scope, operation)
    wanted = scope.integer(operation.operands[1])
    below = w.let(f"icmp slt i64 {wanted}, 0")  # counts from the end, as in Python
    from_end = w.larger(w.add(wanted, lists.length(scope, target)), 0)
    _shorten(scope, target, w.let(f"select i1 {below}, i64 {from_end}, i64 {wanted}"))
    return [target]


def _fit(scope: Scope, operation: Operation) -> Results:
    """Cut, or grown with zeros, to the length of another list."""
    w = scope.writer
    target, like = target_of(scope, operation), as_list(scope, operation.operands[1])
    # read item by item below, so it must lie as the target does
    like = lists.converted(scope, like, target.items)
    wanted = lists.length(scope, like)
    _shorten(scope, target, wanted)
    with w.loop(wanted, start=lists.length(scope, target)) as i:
        place = lists.reserve(scope, target)
        if target.items.form == "u":
            scope.clear(Array(place, target.items.dims, target.items.dtype))  # type: ignore[arg-type]
        else:
            model = lists.read(scope, like, i)
            if isinstance(model, NativeList):
                assert target.items.inner is not None
                zeros = NativeList(place, target.items.inner)
                lists.copy_list(scope, model, zeros)
                _clear_all(scope, zeros)
            else:
                _write_zeros_of(scope, target.items, place, model.dims)  # type: ignore[union-attr]
        lists.set_length(scope, target, w.add(i, 1))
    return [target]


# -- lists and arrays


def _from_tensor(scope: Scope, operation: Operation) -> Results:
    w = scope.writer
    source = scope.memory(operation.operands[0])
    items = lists.items_of(scope, operation.result.type)
    if operation in scope.plan.sharing.parts and items.form == "u":
        rows = lists.cell(scope, items)
        lists.put(scope, rows, source.address, source.dims[0], 0)
        return [rows]
    rows = owned(scope, operation, lists.cell(scope, items))
    base = lists.room_for(scope, rows, source.dims[0])
    if items.form == "u":
        w.copy(base, source.address, scope.bytes_in(source))
        return [rows]
    row = w.multiply(w.product(source.dims[1:]), bytes_of(source.dtype))
    with w.loop(source.dims[0]) as i:
        place = w.at("i8", source.address, w.multiply(i, row))
        part = Array(place, source.dims[1:], source.dtype)
        lists.write_record(scope, lists.spot(scope, base, items, i), lists.heap_copy(scope, part))
    return [rows]


def _stack(scope: Scope, operation: Operation) -> Results:
    w = scope.writer
    source = as_list(scope, operation.operands[0])
    count = lists.length(scope, source)
    result = operation.result
    dims = source.items.dims
    if dims is None:
        first = lists.first_dims(scope, operation, source)
        with w.loop(count) as i:
            _same_size(scope, operation, lists.read(scope, source, i), first)  # type: ignore[arg-type]
        dims = tuple(first)
    known = scope.sized(operation, result.type, (count, *dims))
    base = lists.address(scope, source)
    if source.items.form == "u":
        if operation in scope.plan.sharing.parts:
            return [Array(base, known, result.type.dtype)]
        home = scope.room(result)
        w.copy(home.address, base, scope.bytes_in(home))
        return [home]
    home = scope.room(result)
    row = w.multiply(w.product(dims), bytes_of(home.dtype))
    with w.loop(count) as i:
        item = lists.read(scope, source, i)
        place = w.at("i8", home.address, w.multiply(i, row))
        w.copy(place, item.address, row)  # type: ignore[union-attr]
    return [home]


def _concat(scope: Scope, operation: Operation) -> Results:
    """Items joined along an axis: each is rows of blocks, which go where the blocks of all items alternate."""
    w = scope.writer
    source = as_list(scope, operation.operands[0])
    axis = operation.attrs["axis"]
    dims = list(lists.first_dims(scope, operation, source) if source.items.dims is None else source.items.dims)
    count = lists.length(scope, source)
    total = w.cell("i64")
    w.store("i64", 0, total)
    with w.loop(count) as i:
        item = lists.read(scope, source, i)
        assert isinstance(item, Array)
        _same_size(scope, operation, item, [n if k != axis else item.dims[k] for k, n in enumerate(dims)])
        w.store("i64", w.add(w.load("i64", total), item.dims[axis]), total)
    dims[axis] = w.load("i64", total)
    scope.sized(operation, operation.result.type, dims)
    home = scope.room(operation.result)
    # bytes of what lies behind the axis; a row of the result is made of one block of each item
    inner = w.multiply(w.product(dims[axis + 1 :]), bytes_of(home.dtype))
    whole = w.multiply(dims[axis], inner)
    w.store("i64", 0, total)
    with w.loop(count) as i:
        item = lists.read(scope, source, i)
        assert isinstance(item, Array)
        part = w.multiply(item.dims[axis], inner)
        before = w.multiply(w.load("i64", total), inner)
        with w.loop(w.product(dims[:axis])) as row:
            to = w.at("i8", home.address, w.add(w.multiply(row, whole), before))
            w.copy(to, w.at("i8", item.address, w.multiply(row, part)), part)
        w.store("i64", w.add(w.load("i64", total), item.dims[axis]), total)
    return [home]


def _lengths(scope: Scope, operation: Operation) -> Results:
    w = scope.writer
    source = as_list(scope, operation.operands[0])
    count = lists.length(scope, source)
    scope.sized(operation, operation.result.type, (count,))
    home = scope.room(operation.result)
    with w.loop(count) as i:
        item = lists.read(scope, source, i)
        assert isinstance(item, Array)
        size = item.dims[operation.attrs["axis"]]
        w.store("i32", size if isinstance(size, int) else w.let(f"trunc i64 {size} to i32"), w.at("i32", home.address, i))
    return [home]


def _split(scope: Scope, operation: Operation) -> Results:
    """Parts of an array along an axis; the last one goes to its end."""
    w = scope.writer
    x, lengths = (scope.memory(value) for value in operation.operands)
    axis = operation.attrs["axis"]
    kind = MEMORY[name_of(lengths.dtype)]
    pieces = owned(scope, operation, lists.cell(scope, lists.items_of(scope, operation.result.type)))
    base = lists.room_for(scope, pieces, lengths.dims[0])
    size = x.dims[axis]
    inner = w.multiply(w.product(x.dims[axis + 1 :]), bytes_of(x.dtype))
    start = w.cell("i64")
    w.store("i64", 0, start)
    with w.loop(lengths.dims[0]) as i:
        wanted = w.load(kind, w.at(kind, lengths.address, i))
        wanted = wanted if kind == "i64" else w.let(f"sext {kind} {wanted} to i64")
        begin = w.load("i64", start)
        scope.fail_if(w.let(f"icmp slt i64 {wanted}, 0"), operation)
        # (cut to the size twice: a length near 2⁶³ would wrap around, and lengths may add up to more than there is)
        end = w.smaller(w.add(begin, w.smaller(wanted, size)), size)
        w.store("i64", end, start)
        last = w.let(f"icmp eq i64 {i}, {w.subtract(lengths.dims[0], 1)}")
        high = w.let(f"select i1 {last}, i64 {size}, i64 {end}")
        length = w.subtract(high, begin)
        dims = (*x.dims[:axis], length, *x.dims[axis + 1 :])
        place = lists.spot(scope, base, pieces.items, i)
        part = w.multiply(length, inner)
        bytes = w.multiply(w.product(x.dims[:axis]), part)
        if pieces.items.dims is None:
            piece = Array(scope.program.allocated(bytes), dims, x.dtype)
            lists.write_record(scope, place, piece)
        else:
            piece = Array(place, pieces.items.dims, x.dtype)
            _same_size(scope, operation, piece, dims)
        with w.loop(w.product(x.dims[:axis])) as row:
            offset = w.add(w.multiply(row, w.multiply(size, inner)), w.multiply(begin, inner))
            source = w.at("i8", x.address, offset)
            w.copy(w.at("i8", piece.address, w.multiply(row, part)), source, part)
    return [pieces]


# -- an axis more or less in every array


def _each(scope: Scope, source: NativeList, target: NativeList, one: Callable[[Array, Any], Array]) -> None:
    """Make the items of a list (also of lists in it) from those of another; `one` makes an array, given where it may be."""
    w = scope.writer
    count = lists.length(scope, source)
    base, start = lists.room_for(scope, target, count), lists.address(scope, source)
    with w.loop(count) as i:
        item = lists.item(scope, source.items, lists.spot(scope, start, source.items, i))
        place = lists.spot(scope, base, target.items, i)
        if isinstance(item, NativeList):
            assert target.items.inner is not None
            _each(scope, item, NativeList(place, target.items.inner), one)
        else:
            if isinstance(item, Scalar):
                item = scope.copied(item, Array(w.cell(MEMORY[name_of(item.dtype)]), (), item.dtype))
            assert isinstance(item, Array)
            dims = target.items.dims
            if dims is None:
                lists.write_record(scope, place, one(item, None))
            else:
                one(item, Array(place, dims, target.items.dtype))


def spread(scope: Scope, operation: Operation) -> Results:
    size, axis = scope.program.index(operation.attrs["size"]), operation.attrs["axis"]
    w = scope.writer

    def one(item: Array, home: Array | None) -> Array:
        dims = (*item.dims[:axis], size, *item.dims[axis:])
        copies = home or Array(scope.program.allocated(sizes.together(scope, (*dims, bytes_of(item.dtype)))), dims, item.dtype)
        inner = w.multiply(w.product(item.dims[axis:]), bytes_of(item.dtype))
        with w.loop(w.product(item.dims[:axis])) as row, w.loop(size) as k:
            to = w.multiply(w.add(w.multiply(row, size), k), inner)
            w.copy(w.at("i8", copies.address, to), w.at("i8", item.address, w.multiply(row, inner)), inner)
        return copies

    repeated = owned(scope, operation, lists.cell(scope, lists.items_of(scope, operation.result.type)))
    _each(scope, as_list(scope, operation.operands[0]), repeated, one)
    return [repeated]


def _collapsed(make: Maker, x: Value, size: Value, axis: int) -> Value | None:
    """Of an array, a sum over an axis."""
    return make(REDUCE_SUM, x, axis=(axis,), keepdims=False) if isinstance(x.type, TensorSpec) else None


def _collapse(scope: Scope, operation: Operation) -> Results:
    if isinstance(operation.result.type, TensorSpec):  # of a dtype that native code does not add up
        return write_callback(scope, operation)
    axis = operation.attrs["axis"]
    w = scope.writer
    sums = owned(scope, operation, lists.cell(scope, lists.items_of(scope, operation.result.type)))
    _can_add(sums.items, operation)

    def one(item: Array, home: Array | None) -> Array:
        dims = (*item.dims[:axis], *item.dims[axis + 1 :])
        total = home or Array(scope.program.allocated(sizes.together(scope, (*dims, bytes_of(item.dtype)))), dims, item.dtype)
        scope.clear(total)
        flat = Array(total.address, (w.product(dims[:axis]), w.product(dims[axis:])), item.dtype)
        kind = MEMORY[name_of(item.dtype)]
        whole = (flat.dims[0], item.dims[axis], flat.dims[1])
        # the summed axis in the middle: the innermost loop goes along memory, and terms come in NumPy's order
        with w.loop(whole[0]) as i, w.loop(whole[1]) as k, w.loop(whole[2]) as j:
            spot = w.at(kind, flat.address, scope.offset(flat.dims, (i, j)))
            term = w.load(kind, w.at(kind, item.address, scope.offset(whole, (i, k, j))))
            w.store(kind, plain_sum(scope.writer, item.dtype, w.load(kind, spot), term), spot)
        return total

    _each(scope, as_list(scope, operation.operands[0]), sums, one)
    return [sums]


def _sized(memory: Callable[[Scope, Operation], Results], **facts: Any) -> Lowering:
    return Lowering(memory=memory, finds_sizes=True, **facts)


# each changes a list, or a copy of it: the code, and the operands that may be recipes
_UPDATES: dict[Op, tuple[Callable[[Scope, Operation], Results], tuple[int, ...]]] = {
    ops.LIST_PUSH: (_push, (1,)),
    ops.LIST_SET: (_set, (2,)),
    ops.LIST_ADD_AT: (_add_at, (2,)),
    ops.LIST_DROP: (_drop, ()),
    ops.LIST_RESIZE: (_resize, ()),
    ops.LIST_CUT: (_cut, ()),
    ops.LIST_FIT: (_fit, ()),
}
# what is also an operation of arrays stands in `shapes.py`
LOWERINGS: dict[Op, Lowering] = {
    ops.LIST_GET: _sized(_get, part=True),
    ops.LIST_LEN: _sized(_len),
    ops.LIST_NEW: _sized(_new),
    COPY_OF[ListSpec]: _sized(copied),
    ops.LIST_FROM_TENSOR: _sized(_from_tensor, part=True),
    ops.LIST_STACK: _sized(_stack, part=True),
    ops.LIST_CONCAT: _sized(_concat),
    ops.LIST_LENGTHS: _sized(_lengths),
    ops.LIST_SPLIT: _sized(_split),
    ops.LIST_ADD: _sized(_add),
    ops.LIST_COLLAPSE: _sized(_collapse, rewrite=_collapsed),
    **{
        form: _sized(write, reads=as_recipes(*places) if places else None, changes=always if form is not op else never)
        for op, (write, places) in _UPDATES.items()
        for form in (op, TWINS[op])
    },
}
