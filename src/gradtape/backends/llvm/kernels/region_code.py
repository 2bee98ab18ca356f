"""Loops, branches and calls as native control flow.

What a loop carries is in cells, which LLVM turns into registers: scalars in one each; arrays in two buffers that change places
after every iteration, unless the loop works on one in place (`sharing.py` says which); arrays that change their size and lists
by address. A branch writes its arrays to the memory of the result, or says that the result is one of its inputs. What a region
makes and gives away (heap memory, a list) is taken over, not copied. A callee is written where it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape.backends.llvm.kernels import native_lists as lists
from gradtape.backends.llvm.kernels.code import converted
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning import ranges
from gradtape.backends.llvm.planning.carried import (
    Carried,
    InRegister,
    InTwoBuffers,
    OnHeap,
    OwnList,
    in_register,
    register_of,
    take_list,
)
from gradtape.backends.llvm.planning.lowering import Lowering, count_of
from gradtape.backends.llvm.planning.nests import rolled
from gradtape.backends.llvm.planning.plan import fixed_sizes
from gradtape.backends.llvm.planning.sharing import changes_size, form
from gradtape.backends.llvm.planning.values import Array, Lazy, Lowered, MemorySlot, NativeList, Scalar
from gradtape.backends.llvm.runtime.allocator import INTERRUPTED, poll
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.writing.element_types import REGISTER, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.core.opdef import Op
from gradtape.dtypes import bool_ as boolean
from gradtape.ir.dims import Dim, symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.sizes import free_sizes
from gradtape.ir.types import ListSpec
from gradtape.ops.structured import CALL, COND, CUSTOM, SCAN, WHILE
from gradtape.passes.inplace import is_twin

Step = Callable[[], None]


def _arguments(scope: Scope, operation: Operation, group: str) -> list[Lowered]:
    """Operands as regions see them: in memory, in a register, or a recipe that the region evaluates."""
    arguments = []
    for i, value in enumerate(operation.group(group)):
        lowered = scope.find(value)
        # a recipe that the region reads once per iteration would be computed as often; one it reads element by element may stay
        if isinstance(lowered, Lazy) and any(
            scope.program.plan(block).wants_memory(block.group(group)[i])
            for block in operation.regions.values() if group in block.layout
        ):  # fmt: skip
            lowered = scope.memory(value)
        assert lowered is not None
        arguments.append(lowered)
    return arguments


def _held(scope: Scope, value: Value) -> Lowered:
    """An operand in memory or in a register."""
    lowered = scope.find(value)
    assert lowered is not None
    return scope.memory(value) if isinstance(lowered, Lazy) else lowered


def _carried(scope: Scope, operation: Operation) -> list[Carried]:
    sharing, body = scope.plan.sharing, operation.regions["body"]
    # each question leaves fewer: when all are asked there are arrays of one size, for which two buffers take turns
    carried: list[Carried] = []
    for k, value in enumerate(operation.group("carried")):
        start, param = _held(scope, value), body.group("carried")[k]
        if in_register(value.type):
            carried.append(InRegister(scope, start, value.type.dtype))
        elif sharing.in_place(operation, k):
            carried.append(Carried(scope, start))
        elif isinstance(start, NativeList):
            carried.append(OwnList(scope, start, param.type))
        elif changes_size(param.type, body.results[k].type):
            carried.append(OnHeap(scope, start))  # type: ignore[arg-type]
        else:
            carried.append(InTwoBuffers(scope, start, (operation, k) in sharing.taken))  # type: ignore[arg-type]
    return carried


# -- what a loop collects


class Collected:
    """One list of items, one for each iteration: with room for all where their number is known, else growing."""

    def __init__(self, scope: Scope, value: Value, count: Index | None) -> None:
        self.scope = scope
        self.list = lists.cell(scope, lists.items_of(scope, value.type))
        self.base = ""
        self.growing = scope.writer.cell("ptr") if count is None else ""  # where the items are, as long as they may move
        home = scope.homes.get(value)
        if count is None:
            scope.writer.store("ptr", "null", self.growing)
        # the caller's result: items are written where they are wanted in the end
        elif home is not None:
            self.base = home.address
            lists.put(scope, self.list, home.address, count, 0)
        else:
            self.base = lists.room_for(scope, self.list, count)
        scope.own(value, self.list)

    def spot(self, index: Index) -> str:
        """Where the item of this iteration goes."""
        base = self.scope.writer.load("ptr", self.growing) if self.growing else self.base
        return lists.spot(self.scope, base, self.list.items, index)

    def home(self, place: str) -> Array | None:
        items = self.list.items
        return None if items.dims is None or items.inner is not None else Array(place, items.dims, items.dtype)

    def take(self, inner: Scope, place: str, value: Value) -> None:
        lists.write_item(inner, self.list.items, place, value, last=True)


class Growth:
    """The lists of a loop whose number of iterations nobody knows: they grow together."""

    def __init__(self, scope: Scope, ys: Sequence[Collected]) -> None:
        self.scope, self.ys = scope, ys
        # one number for all: each iteration adds one item to every list, so they run full together
        self.room = scope.writer.cell("i64")
        if ys:
            scope.writer.store("i64", 0, self.room)

    def ensure(self, count: Index) -> None:
        """Room for one more item than so many."""
        if not self.ys:
            return
        w, program = self.scope.writer, self.scope.program
        room = w.load("i64", self.room)
        with w.when(w.let(f"icmp sge i64 {count}, {room}"), f", !prof {program.unlikely()}"):
            # doubled: so an item is moved about once on average, however many there are
            wanted = w.larger(w.let(f"shl i64 {count}, 1"), lists.SMALLEST)
            for y in self.ys:
                w.store("ptr", lists.grown(self.scope, y.list.items, w.load("ptr", y.growing), count, room, wanted), y.growing)
            w.store("i64", wanted, self.room)

    def close(self, count: Index) -> None:
        """The lists have all their items."""
        w = self.scope.writer
        for y in self.ys:
            lists.put(self.scope, y.list, w.load("ptr", y.growing), count, w.load("i64", self.room))


# -- loops


def _iteration(
    scope: Scope, operation: Operation, index: Index, carried: Sequence[Carried], consts: Sequence[Lowered],
    items: Sequence[Lowered], ys: Sequence[Collected],
) -> None:  # fmt: skip
    """One iteration: write the body, keep its items, hand over what it carries."""
    program, body = scope.program, operation.regions["body"]
    inner = Scope(program, body, scope)
    sizes = dict(program.sizes)
    groups: dict[str, Sequence[Lowered]] = {
        "index": [Scalar(_narrow(scope, index), body.group("index")[0].type.dtype)],
        "carried": [c.read() for c in carried],
        "consts": consts,
        "xs": items,
    }
    arguments = [lowered for name in body.layout for lowered in groups[name]]
    spots = [y.spot(index) for y in ys]
    for k, c in enumerate(carried):
        if c.home is not None:
            # said before the body is written, so that whoever computes the value computes it in its place
            inner.want(k, c.home)
    for k, (y, place) in enumerate(zip(ys, spots, strict=True)):
        home = y.home(place)
        if home is not None:
            inner.want(len(carried) + k, home)
    results = inner.write(arguments)
    for y, place, value in zip(ys, spots, body.results[len(carried) :], strict=True):
        # before anything is handed over: an item may be the carried value of this iteration
        y.take(inner, place, value)
    steps = [c.advance(inner, value, result) for c, value, result in zip(carried, body.results, results, strict=False)]
    for step in steps:
        # all at once, after everything was read: carried values may change places
        step()
    inner.finish()
    program.sizes = sizes


def _narrow(scope: Scope, index: Index) -> str:
    if isinstance(index, int):
        return str(index)
    register = scope.writer.let(f"trunc i64 {index} to i32")
    # places are computed with 64 bits: whoever uses the index for one finds it unshortened
    scope.program.wide[register] = index
    return register


def _while(scope: Scope, operation: Operation) -> list[Lowered]:
    w, program = scope.writer, scope.program
    test = operation.regions["test"]
    carried = _carried(scope, operation)
    consts = _arguments(scope, operation, "consts")
    ys = [Collected(scope, value, None) for value in operation.result_group("ys")]
    growth = Growth(scope, ys)
    counter = w.cell("i64")
    w.store("i64", 0, counter)
    again, inside, after = w.label("while"), w.label("do"), w.label("done")
    program.notes.append(Note("loop", (operation.op.name,), operation.loc))
    w.go(again)
    w.start(again)
    scope.enter()
    sizes = dict(program.sizes)
    check = Scope(program, test, scope)
    groups = {"carried": [c.read() for c in carried], "consts": consts}
    (flag,) = check.write([lowered for name in test.layout for lowered in groups[name]])
    register = register_of(check, flag)
    check.finish()
    program.sizes = sizes
    w.branch(register, inside, after)
    w.start(inside)
    index = w.load("i64", counter)
    growth.ensure(index)
    _iteration(scope, operation, index, carried, consts, (), ys)
    # a power of two, so that asking is an `and`
    every = _stretch(_work(operation.regions["body"]) + _work(test))
    due = w.let(f"icmp eq i64 {w.let(f'and i64 {index}, {every - 1}')}, {every - 1}")
    with w.when(due, f", !prof {program.unlikely()}"):
        _poll(scope)
    w.store("i64", w.add(index, 1), counter)
    w.go(again)
    scope.leave()
    w.start(after)
    (count,) = operation.result_group("count")
    length = w.load("i64", counter)
    growth.close(length)
    total = Scalar(w.let(f"trunc i64 {length} to i32"), count.type.dtype)
    return [*_ends(operation, carried), total, *[y.list for y in ys]]


def _scan(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    body = operation.regions["body"]
    reverse = bool(operation.attrs.get("reverse"))
    given = operation.group("length") if "length" in operation.layout else []
    count: Index = scope.integer(given[0]) if given else scope.program.index(operation.attrs["length"])
    # a negative length means no iterations, as in Python's range
    if count not in scope.program.sizes.values():  # sizes are never negative
        count = w.larger(count, 0)
    carried = _carried(scope, operation)
    consts = _arguments(scope, operation, "consts")
    xs = [lists.as_list(scope, value) for value in operation.group("xs")]
    for source in xs:  # an item for each iteration
        # once, before the loop: items are read below without a check
        scope.fail_if(w.let(f"icmp slt i64 {lists.length(scope, source)}, {count}"), operation)
    bases = [lists.address(scope, source) for source in xs]
    ys = [Collected(scope, value, count) for value in operation.result_group("ys")]
    scope.program.notes.append(
        Note("loop", (operation.op.name,), operation.loc, f"{count} iterations" if isinstance(count, int) else "")
    )
    frame = ranges.LoopFacts(scope.program, body, count)
    scope.program.loops.append(frame)

    def once(i: Index) -> None:
        scope.enter()
        at: Index = w.subtract(w.subtract(count, 1), i) if reverse else i
        items = [
            lists.item(scope, source.items, lists.spot(scope, base, source.items, at))
            for base, source in zip(bases, xs, strict=True)
        ]
        # so that x[i] in the body needs no check: i is known to be in 0 … count - 1
        frame.spans[str(at)] = ranges.Bounds(ranges.Sum(0), ranges.Sum.of(count).plus(ranges.Sum(1), -1))
        _iteration(scope, operation, at, carried, consts, items, ys)
        scope.leave()

    work = _work(body)
    every, whole = _stretch(work), rolled(scope, 1, work)
    if isinstance(count, int) and count <= every:
        with w.loop(count, extra=whole) as i:
            once(i)
    else:  # in stretches, between which Ctrl-C is looked for: what runs long is a plain loop
        with w.loop(count, step=every, extra=rolled(scope, count, every)) as base:
            end = w.add(base, every)
            with w.loop(w.smaller(end, count), start=base, extra=whole) as i:
                once(i)
            with w.when(w.let(f"icmp slt i64 {end}, {count}"), f", !prof {scope.program.unlikely()}"):
                _poll(scope)
    scope.program.loops.pop()
    frame.close()
    return [*_ends(operation, carried), *[y.list for y in ys]]


def _ends(operation: Operation, carried: Sequence[Carried]) -> list[Lowered]:
    return [c.end(value) for c, value in zip(carried, operation.result_group("carried"), strict=True)]


def _stretch(work: int) -> int:
    """How many iterations go by before Ctrl-C is looked for again; `work` is about what one does, in elements."""
    return 1 << max(0, 20 - max(work, 1).bit_length())


def _poll(scope: Scope) -> None:
    """Ask Python whether Ctrl-C was pressed."""
    pending = scope.writer.let(f"call i32 {poll(scope.program.module)}()")
    scope.program.leave_if(scope.writer.let(f"icmp ne i32 {pending}, 0"), INTERRUPTED)


def _work(block: Block) -> int:
    """Roughly how many elements a block computes: of an update in place only what it puts there."""
    total = 0
    for operation in block.operations:
        length = operation.attrs.get("length")
        # (64 stands for any length that nobody knows)
        turns = length if isinstance(length, int) else 1 if operation.op in (COND, CALL, CUSTOM) else 64
        total += turns * sum(_work(region) for region in operation.regions.values())
        changed = is_twin(operation.op)
        for value in operation.operands[1:2] if changed else operation.results:
            total += 1 if operation.regions else count_of(getattr(value.type, "shape", ()), 64)
    return total


# -- branches


class Joined:
    """One result of a cond, in the cells that the branches write."""

    def __init__(self, scope: Scope, operation: Operation, k: int) -> None:
        w = scope.writer
        self.scope, self.operation, self.k = scope, operation, k
        self.value = value = operation.results[k]
        self.home: Array | None = None
        self.list: NativeList | None = None
        # else both sides give memory of somebody else (an input), and only the address differs
        own = value in scope.plan.buffers(value)
        if isinstance(value.type, ListSpec):
            self.state = w.cell("ptr")
            if own:
                self.list = lists.cell(scope, lists.items_of(scope, value.type))
                scope.own(value, self.list)
            return
        if in_register(value.type):
            self.cell = w.cell(REGISTER[name_of(value.type.dtype)])
            return
        self.address = w.cell("ptr")
        # sizes that only a side finds out cannot have memory before it runs
        self.known = all(not isinstance(n, Dim) or symbols_in(n) <= set(scope.program.sizes) for n in value.type.shape)
        if self.known:
            self.home = scope.room(value) if own else None
        else:
            self.dims = [w.cell("i64") for _ in value.type.shape]
            self.mine = w.cell("ptr")

    def take(self, inner: Scope, lowered: Lowered) -> None:
        """At the end of a branch: what it gives."""
        w = self.scope.writer
        value = inner.block.results[self.k]
        if isinstance(lowered, NativeList):
            self.take_list(inner, value, lowered)
        elif in_register(self.value.type):
            w.store(REGISTER[name_of(self.value.type.dtype)], register_of(inner, lowered), self.cell)
        elif not self.known:
            self._take_any_size(inner, value, lowered)  # type: ignore[arg-type]
        else:
            own = inner.plan.buffers(value).difference(inner.block.params)
            # some of it may still be a recipe, or lie where the side frees it at its end
            if self.home is not None and not own <= inner.settled:
                lowered = inner.copied(lowered, self.home)
            w.store("ptr", lowered.address, self.address)  # type: ignore[union-attr]

    def _take_any_size(self, inner: Scope, value: Value, array: Array) -> None:
        w = self.scope.writer
        mine = "null"
        # `mine` is what has to be freed later: null where it is an input's memory
        if inner.plan.buffers(value).difference(inner.block.params):  # not the memory of an input
            taken = lists.taken_over(inner, value)
            array = array if isinstance(taken, MemorySlot) else lists.heap_copy(inner, array)
            mine = array.address
        w.store("ptr", array.address, self.address)
        w.store("ptr", mine, self.mine)
        for cell, size in zip(self.dims, array.dims, strict=True):
            w.store("i64", size, cell)

    def take_list(self, inner: Scope, value: Value, given: NativeList) -> None:
        if self.list is None:  # one of the inputs, whichever
            self.scope.writer.store("ptr", given.state, self.state)
            self.items = given.items
            self.only = given if getattr(self, "only", given) == given else None  # what all branches give, if it is one
            return
        sharing = inner.plan.sharing
        params, other = sharing.source(self.k)
        if not other and all(i in sharing.changed_params() for i in params) and given.items.form == self.list.items.form:
            lists.move(inner, given, self.list)  # an input that was changed in place: nobody else's any more
        else:
            take_list(inner, value, given, self.list)

    def end(self) -> Lowered:
        """The result, after both branches."""
        w, type = self.scope.writer, self.value.type
        if isinstance(type, ListSpec):
            if self.list is not None:
                return self.list
            return self.only or NativeList(w.load("ptr", self.state), self.items)
        if in_register(type):
            return Scalar(w.load(REGISTER[name_of(type.dtype)], self.cell), type.dtype)
        if self.known:
            return Array(w.load("ptr", self.address), self.scope.dims(self.value), type.dtype)
        if self.value in self.scope.plan.buffers(self.value):
            self.scope.own(self.value, MemorySlot(None, 0, w.load("ptr", self.mine)))
        return Array(w.load("ptr", self.address), tuple([w.load("i64", cell) for cell in self.dims]), type.dtype)


def _cond(scope: Scope, operation: Operation) -> list[Lowered]:
    w, program = scope.writer, scope.program
    (pred,) = operation.group("pred")
    # in Python's sense: a number is true unless it is 0
    flag = converted(w, scope.scalar(pred), pred.type.dtype, boolean)
    arguments = _arguments(scope, operation, "inputs")
    results = [Joined(scope, operation, k) for k in range(len(operation.results))]
    program.notes.append(Note("branch", (operation.op.name,), operation.loc))
    then, orelse, after = w.label("then"), w.label("else"), w.label("joined")
    w.branch(flag, then, orelse)
    for label, region in ((then, "then"), (orelse, "orelse")):
        w.start(label)
        scope.enter()
        sizes = dict(program.sizes)
        inner = Scope(program, operation.regions[region], scope)
        for k, result in enumerate(results):
            if result.home is not None:
                inner.want(k, result.home)
        given = inner.write(arguments)
        for result, lowered in zip(results, given, strict=True):
            result.take(inner, lowered)
        inner.finish()
        scope.leave()
        program.sizes = sizes
        w.go(after)
    w.start(after)
    return [result.end() for result in results]


# -- calls


def _call(scope: Scope, operation: Operation) -> list[Lowered]:
    program = scope.program
    callee = operation.attrs["callee"]
    arguments = [_held(scope, value) for value in operation.operands]
    room = {
        k: scope.room(value) for k, value in enumerate(operation.results)
        if not isinstance(value.type, ListSpec) and not in_register(value.type) and _is_known(scope, value)
    }  # fmt: skip
    sizes, fixed = program.sizes, program.fixed
    # A callee has symbols of its own, bound by its arguments: the same name may mean another size here.
    program.sizes, program.fixed = {}, fixed_sizes(callee)
    program.function(callee)
    inner = Scope(program, callee)
    for value, lowered in zip(callee.params, arguments, strict=True):
        if isinstance(lowered, Array):
            program.bind(value.type, lowered.dims)
    for name in free_sizes(callee.operations, program.sizes):  # which the caller knows
        program.sizes[name] = sizes[name]
    # the form of a list (items in a row, or one by one) follows from what is known of its sizes, which differs inside
    arguments = [_in_form(inner, lowered, value) for lowered, value in zip(arguments, callee.params, strict=True)]
    given = inner.write(arguments, room)
    results: list[Lowered] = []
    for k, (value, lowered) in enumerate(zip(operation.results, given, strict=True)):
        if isinstance(lowered, NativeList):
            if scope.plan.buffers(value) != {value}:
                results.append(lowered)
                continue
            target = lists.cell(scope, _items_in(scope, value, sizes, fixed))
            take_list(inner, callee.results[k], lowered, target)
            scope.own(value, target)
            results.append(target)
        elif isinstance(lowered, Array) and k not in room and not in_register(value.type):
            # the callee's memory is given back when its scope ends, unless it is taken over
            taken = isinstance(lists.taken_over(inner, callee.results[k]), MemorySlot)
            lowered = lowered if taken else lists.heap_copy(inner, lowered)
            scope.own(value, MemorySlot(None, 0, lowered.address))
            results.append(lowered)
        else:
            results.append(lowered)
    inner.finish()
    program.sizes, program.fixed = sizes, fixed
    return results


def _items_in(scope: Scope, value: Value, sizes: dict[str, Index], fixed: frozenset[str]) -> Any:
    """How the items of a list lie for the caller."""
    program = scope.program
    inside = program.sizes, program.fixed
    program.sizes, program.fixed = sizes, fixed
    items = lists.items_of(scope, value.type)
    program.sizes, program.fixed = inside
    return items


def _is_known(scope: Scope, value: Value) -> bool:
    return symbols_in(value.type) <= scope.program.sizes.keys()


def _in_form(scope: Scope, lowered: Lowered, param: Value) -> Lowered:
    """A list in the form that a parameter has."""
    if not isinstance(lowered, NativeList) or lowered.items.form == form(param.type, scope.program.fixed):
        return lowered
    listed = lists.converted(scope, lowered, lists.items_of(scope, param.type))
    scope.own(param, listed)
    return listed


def _custom(scope: Scope, operation: Operation) -> list[Lowered]:
    return [_held(scope, value) for value in operation.group("values")]


LOWERINGS: dict[Op, Lowering] = {
    WHILE: Lowering(memory=_while),
    SCAN: Lowering(memory=_scan),
    COND: Lowering(memory=_cond),
    CALL: Lowering(memory=_call, finds_sizes=True),
    CUSTOM: Lowering(memory=_custom, finds_sizes=True),
}
