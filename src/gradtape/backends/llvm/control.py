"""Loops, branches and calls as native control flow.

What a loop carries is in cells: scalars in one each, arrays in two buffers that change places after every iteration (an
iteration reads one and writes the other), lists in their own cell. LLVM turns the cells into registers. A branch writes its
arrays to the memory of the result; a callee is written where it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape.backends.llvm import lists
from gradtape.backends.llvm.runtime import INTERRUPTED, poll
from gradtape.backends.llvm.scope import Note, Scope, copy
from gradtape.backends.llvm.text import Index
from gradtape.backends.llvm.types import MEMORY, REGISTER, bytes_of, name_of
from gradtape.backends.llvm.values import Array, Lazy, Lowered, NativeList, Scalar, Slot, UnsupportedError
from gradtape.ir.dims import symbols_in
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import ListSpec


def _argument(scope: Scope, value: Value) -> Lowered:
    """An operand as a region sees it: in memory or a register; constants stay recipes."""
    found = scope.values[value]
    if isinstance(found, Lazy):
        return found if scope.program.tables.facts.free(found.operation) else scope.memory(value)
    return found


def _held(scope: Scope, value: Value) -> Lowered:
    """As `_argument`, but recipes are computed."""
    found = scope.values[value]
    return scope.memory(value) if isinstance(found, Lazy) else found


class Carried:
    """One value that goes from iteration to iteration."""

    def __init__(self, scope: Scope, start: Lowered, type: Any) -> None:
        self.scope, self.type = scope, type
        w = scope.writer
        self.slots: list[Slot] = []
        self.list: NativeList | None = None
        self.native = True
        if isinstance(start, NativeList):
            self.list = start
        elif not isinstance(start, Array) or (not start.dims and name_of(type.dtype) in REGISTER):
            self.kind = REGISTER[name_of(type.dtype)]
            self.cell = w.cell(self.kind)
            register = start.register if isinstance(start, Scalar) else scope.load(start, ())  # type: ignore[arg-type]
            w.store(self.kind, register, self.cell)
        else:
            self.dims = start.dims
            self.bytes = w.multiply(w.product(start.dims), bytes_of(type.dtype))
            self.slots = [scope.take(self.bytes), scope.take(self.bytes)]
            copy(w, self.slots[0].address, start.address, self.bytes)
            self.cells = [w.cell("ptr"), w.cell("ptr")]
            for cell, slot in zip(self.cells, self.slots, strict=True):
                w.store("ptr", slot.address, cell)

    @property
    def in_memory(self) -> bool:
        return bool(self.slots)

    def read(self) -> Lowered:
        """The value at the start of an iteration."""
        w = self.scope.writer
        if self.list is not None:
            return self.list
        if not self.in_memory:
            return Scalar(w.load(self.kind, self.cell), self.type.dtype)
        return Array(w.load("ptr", self.cells[0]), self.dims, self.type.dtype)

    def other(self) -> Array:
        """Where an iteration can write the next value."""
        return Array(self.scope.writer.load("ptr", self.cells[1]), self.dims, self.type.dtype)

    def advance(self, found: Lowered, now: Lowered, other: Array | None) -> Any:
        """Take what an iteration gave; returns what to do once all have been taken."""
        w = self.scope.writer
        if self.list is not None:
            if not isinstance(found, NativeList):
                raise UnsupportedError("a carried list became something else")
            if found.state != self.list.state:
                return self._list_moves(found)
            return lambda: None
        if not self.in_memory:
            register = found.register if isinstance(found, Scalar) else self.scope.load(found, ())  # type: ignore[arg-type]
            return lambda: w.store(self.kind, register, self.cell)
        assert isinstance(found, Array) and isinstance(now, Array) and other is not None
        if found.address == now.address:
            return lambda: None
        if found.address != other.address:
            copy(w, other.address, found.address, self.bytes)

        def swap() -> None:
            w.store("ptr", other.address, self.cells[0])
            w.store("ptr", now.address, self.cells[1])

        return swap

    def _list_moves(self, found: NativeList) -> Any:
        """A new list takes the place of the carried one, by value: its items are copied to memory of its own."""
        w, scope = self.scope.writer, self.scope
        words = [w.load("ptr", found.state), *[w.load("i64", w.at("i64", found.state, k)) for k in (1, 2)]]
        mine = self.list
        assert mine is not None

        def move() -> None:
            lists.put(scope, mine, *words)

        return move

    def finish(self) -> Lowered:
        return self.read()


def _start_values(scope: Scope, operation: Operation) -> list[Carried]:
    found = []
    for value in operation.group("carried"):
        start = _held(scope, value)
        if isinstance(start, NativeList):  # the loop may change its own list, never the one it was given
            cell = NativeList(scope.writer.cell("i64", 3), start.dims, start.dtype)
            made = lists.copied_list(scope, start, value)
            lists.put(scope, cell, lists.address(scope, made), lists.length(scope, made),
                      scope.writer.load("i64", scope.writer.at("i64", made.state, 2)))  # fmt: skip
            start = cell
        found.append(Carried(scope, start, value.type))
    return found


def _body(
    scope: Scope,
    body: Block,
    index: str,
    carried: Sequence[Carried],
    consts: Sequence[Lowered],
    items: Sequence[Lowered],
    ys: Any,
) -> None:
    """One iteration: write the body, keep its items, hand over what it carries."""
    inner = Scope(scope.program, body)
    now = [c.read() for c in carried]
    others = [c.other() if c.in_memory else None for c in carried]
    arguments: list[Lowered] = []
    for name, count in body.layout.items():
        group: Sequence[Lowered]
        if name == "index":
            group = [Scalar(scope.writer.let(f"trunc i64 {index} to i32"), body.group("index")[0].type.dtype)]
        else:
            group = {"carried": now, "consts": consts, "xs": items}[name]
        assert len(group) == count
        arguments += group
    sizes = dict(scope.program.sizes)
    homes = {k: other for k, other in enumerate(others) if other is not None and _own(body, k)}
    results = inner.write(arguments, None) if not homes else _with_homes(inner, arguments, homes)
    ys(inner, results[len(carried) :])
    moves = [c.advance(result, n, o) for c, result, n, o in zip(carried, results, now, others, strict=False)]
    for move in moves:
        move()
    inner.finish()
    scope.program.sizes = sizes


def _own(body: Block, k: int) -> bool:
    """Whether result k is made in the body and is no other result's memory too."""
    value = body.results[k]
    return value.producer is not None and body.results.count(value) == 1


def _with_homes(inner: Scope, arguments: Sequence[Lowered], homes: dict[int, Array]) -> list[Lowered]:
    """Write the body with homes for results that it makes itself; changes in place keep their memory."""
    for k, home in homes.items():
        buffer = inner.plan.buffer(inner.block.results[k])
        if buffer.producer is not None and buffer not in inner.homes:
            inner.homes[buffer] = home
    return inner.write(arguments)


def _while(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    test, body = operation.regions["test"], operation.regions["body"]
    carried = _start_values(scope, operation)
    consts = [_argument(scope, value) for value in operation.group("consts")]
    ys = [lists.new_list(scope, value) for value in operation.result_group("ys")]
    counter = w.cell("i64")
    w.store("i64", 0, counter)
    again, inside, after = w.label("while"), w.label("do"), w.label("done")
    scope.program.notes.append(Note("loop", ("while",), operation.loc))
    w.go(again)
    w.start(again)
    sizes = dict(scope.program.sizes)
    check = Scope(scope.program, test)
    arguments: list[Lowered] = []
    for name in test.layout:
        arguments += [c.read() for c in carried] if name == "carried" else consts
    (flag,) = check.write(arguments)
    register = flag.register if isinstance(flag, Scalar) else scope.load(flag, ())  # type: ignore[arg-type]
    check.finish()
    scope.program.sizes = dict(sizes)
    w.branch(register, inside, after)
    w.start(inside)
    index = w.load("i64", counter)

    def keep(inner: Scope, found: Sequence[Lowered]) -> None:
        for target, item in zip(ys, found, strict=True):
            lists.push(inner, target, item)

    scope.enter()
    _body(scope, body, index, carried, consts, (), keep)
    scope.leave()
    _poll(scope, index, _work(body) + _work(test))
    w.store("i64", w.add(index, 1), counter)
    w.go(again)
    w.start(after)
    scope.program.sizes = sizes
    (count,) = operation.result_group("count")
    total = Scalar(w.let(f"trunc i64 {w.load('i64', counter)} to i32"), count.type.dtype)
    return [*_finished(scope, operation, carried), total, *ys]


def _scan(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    body = operation.regions["body"]
    reverse = bool(operation.attrs.get("reverse"))
    given = operation.group("length") if "length" in operation.layout else []
    count: Index = scope.integer(given[0]) if given else scope.program.index(operation.attrs["length"])
    if not isinstance(count, int):
        count = w.larger(count, 0)
    carried = _start_values(scope, operation)
    consts = [_argument(scope, value) for value in operation.group("consts")]
    xs = [lists._list(scope, value) for value in operation.group("xs")]
    ys = []
    for value in operation.result_group("ys"):
        made = lists.new_list(scope, value)
        home = scope.homes.get(value)
        if home is not None:
            lists.put(scope, made, home.address, count, 0)
        else:
            lists.room_for(scope, made, count)
        ys.append(made)
    bases = [(lists.address(scope, source), source) for source in (*xs, *ys)]
    scope.program.notes.append(Note("loop", ("scan",), operation.loc, f"{count} iterations" if isinstance(count, int) else ""))

    def spot(k: int, index: Index) -> Array:
        base, source = bases[k]
        size = lists.item_bytes(scope, source)
        if not source.dims and name_of(source.dtype) in MEMORY:
            return Array(w.at(MEMORY[name_of(source.dtype)], base, index), (), source.dtype)
        return Array(w.let(f"getelementptr inbounds i8, ptr {base}, i64 {w.multiply(index, size)}"), source.dims, source.dtype)

    def keep(inner: Scope, found: Sequence[Lowered]) -> None:
        for k, item in enumerate(found):
            inner.copied(item, spot(len(xs) + k, at))

    with w.loop(count) as i:
        scope.enter()
        at: Index = w.subtract(w.subtract(count, 1), i) if reverse else i
        items: list[Lowered] = []
        for k, source in enumerate(xs):
            place = spot(k, at)
            if source.dims or name_of(source.dtype) not in MEMORY:
                items.append(place)
            else:
                register = w.load(MEMORY[name_of(source.dtype)], place.address)
                items.append(Scalar(scope.from_memory(register, source.dtype), source.dtype))
        _body(scope, body, str(at), carried, consts, items, keep)
        work = _work(body)
        if not isinstance(count, int) or count * work > 1 << 20:
            _poll(scope, i, work)
        scope.leave()
    return [*_finished(scope, operation, carried), *ys]


def _poll(scope: Scope, index: Index, work: int) -> None:
    """Now and then, ask Python whether Ctrl-C was pressed; `work` is about what an iteration does, in elements."""
    w = scope.writer
    every = 1 << max(0, 20 - max(work, 1).bit_length())
    due = w.let(f"icmp eq i64 {w.let(f'and i64 {index}, {every - 1}')}, {every - 1}")
    with w.when(due, f", !prof {scope.program.unlikely()}"):
        found = w.let(f"call i32 {poll(scope.program)}()")
        stop, on = w.label("stop"), w.label("on")
        w.branch(w.let(f"icmp ne i32 {found}, 0"), stop, on)
        w.start(stop)
        w.store("i32", INTERRUPTED, "%status")
        w.go("leave")
        w.start(on)


def _work(block: Block) -> int:
    """Roughly how many elements a block computes."""
    total = 0
    for operation in block.operations:
        for region in operation.regions.values():
            length = operation.attrs.get("length")
            total += _work(region) * (length if isinstance(length, int) else 64)
        for value in operation.results:
            size = 1
            for n in getattr(value.type, "shape", ()):
                size *= n if isinstance(n, int) else 64
            total += size
    return total


def _finished(scope: Scope, operation: Operation, carried: Sequence[Carried]) -> list[Lowered]:
    found = []
    for c, value in zip(carried, operation.result_group("carried"), strict=True):
        scope._owned.setdefault(value, []).extend(c.slots)
        found.append(c.finish())
    return found


def _cond(scope: Scope, operation: Operation) -> list[Lowered]:
    w = scope.writer
    (pred,) = operation.group("pred")
    flag = scope.scalar(pred)
    if name_of(pred.type.dtype) != "bool":
        from gradtape.backends.llvm.elementwise import converted
        from gradtape.dtypes import bool as boolean

        flag = converted(w, flag, pred.type.dtype, boolean)
    arguments = [_argument(scope, value) for value in operation.group("inputs")]
    homes: dict[int, Array] = {}
    cells: dict[int, str] = {}
    for k, value in enumerate(operation.results):
        if isinstance(value.type, ListSpec):
            cells[k] = w.cell("i64", 3)
        elif len(value.type.shape) or name_of(value.type.dtype) not in REGISTER:
            homes[k] = scope.room(value)
        else:
            cells[k] = w.cell(REGISTER[name_of(value.type.dtype)])
    scope.program.notes.append(Note("branch", ("cond",), operation.loc))
    then, orelse, after = w.label("then"), w.label("else"), w.label("joined")
    w.branch(flag, then, orelse)
    found: list[Lowered] = []
    for label, region in ((then, "then"), (orelse, "orelse")):
        w.start(label)
        scope.enter()
        sizes = dict(scope.program.sizes)
        block = operation.regions[region]
        inner = Scope(scope.program, block)
        own = {k: home for k, home in homes.items() if _own(block, k)}
        results = _with_homes(inner, arguments, own)
        found = []
        for k, (result, value) in enumerate(zip(results, operation.results, strict=True)):
            if k in homes:
                found.append(inner.copied(result, homes[k]))
            elif isinstance(result, NativeList):
                target = NativeList(cells[k], result.dims, result.dtype)
                # by value: branches may give a list of the caller's
                mine = result if block.results[k].producer is not None else lists.copied_list(inner, result, value)
                lists.put(
                    inner,
                    target,
                    lists.address(inner, mine),
                    lists.length(inner, mine),
                    w.load("i64", w.at("i64", mine.state, 2)),
                )
                found.append(target)
            else:
                kind = REGISTER[name_of(value.type.dtype)]
                register = result.register if isinstance(result, Scalar) else inner.load(result, ())  # type: ignore[arg-type]
                w.store(kind, register, cells[k])
                found.append(Scalar("", value.type.dtype))
        inner.finish()
        scope.leave()
        scope.program.sizes = sizes
        w.go(after)
    w.start(after)
    return [
        Scalar(w.load(REGISTER[name_of(value.type.dtype)], cells[k]), value.type.dtype)
        if isinstance(result, Scalar)
        else result
        for k, (value, result) in enumerate(zip(operation.results, found, strict=True))
    ]


def _call(scope: Scope, operation: Operation) -> list[Lowered]:
    callee = operation.attrs["callee"]
    inner = Scope(scope.program, callee)
    arguments = [_argument(scope, value) for value in operation.operands]
    room = {
        k: scope.room(value) for k, value in enumerate(operation.results)
        if not isinstance(value.type, ListSpec) and (len(value.type.shape) or name_of(value.type.dtype) not in REGISTER)
    }  # fmt: skip
    sizes = dict(scope.program.sizes)
    for value, lowered in zip(callee.params, arguments, strict=True):
        if isinstance(lowered, Array):
            for name in symbols_in(value.type):  # the callee's own: another call may have another size
                scope.program.sizes.pop(name, None)
    for value, lowered in zip(callee.params, arguments, strict=True):
        if isinstance(lowered, Array):
            scope.program.bind(value.type, lowered.dims)
    results = inner.write(arguments, room)
    inner.finish()
    scope.program.sizes = sizes
    return results


def _custom(scope: Scope, operation: Operation) -> list[Lowered]:
    return [_held(scope, value) for value in operation.group("values")]


MEMORY_OPS: dict[str, Any] = {"while": _while, "scan": _scan, "cond": _cond, "call": _call, "custom": _custom}
