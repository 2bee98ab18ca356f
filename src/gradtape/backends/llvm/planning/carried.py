"""What a loop carries from one iteration to the next: where a value is, and how the next one takes its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape.backends.llvm.kernels import native_lists as lists
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.values import Array, Lowered, MemorySlot, NativeList, Scalar
from gradtape.backends.llvm.runtime.allocator import release
from gradtape.backends.llvm.writing.element_types import REGISTER, name_of
from gradtape.ir.graph import Value
from gradtape.ir.types import ListSpec

Step = Callable[[], None]


def register_of(scope: Scope, lowered: Lowered) -> str:
    """A value of rank 0 in a register."""
    return lowered.register if isinstance(lowered, Scalar) else scope.load(lowered, ())  # type: ignore[arg-type]


def in_register(type: Any) -> bool:
    return not isinstance(type, ListSpec) and not len(type.shape) and name_of(type.dtype) in REGISTER


# -- what a loop carries


class Carried:
    """One value that goes from iteration to iteration; this one stays where it is."""

    home: Array | None = None  # where an iteration can write the next value

    def __init__(self, scope: Scope, start: Lowered) -> None:
        self.scope, self.writer = scope, scope.writer
        self.start = start

    def read(self) -> Lowered:
        """The value at the start of an iteration."""
        return self.start

    def advance(self, inner: Scope, result: Value, lowered: Lowered) -> Step:
        """Take what an iteration gave; returns what to do once all have been taken."""
        return lambda: None

    def end(self, value: Value) -> Lowered:
        """The value after the loop."""
        return self.read()


class InRegister(Carried):
    def __init__(self, scope: Scope, start: Lowered, dtype: Any) -> None:
        super().__init__(scope, start)
        self.dtype, self.kind = dtype, REGISTER[name_of(dtype)]
        self.cell = self.writer.cell(self.kind)
        self.writer.store(self.kind, register_of(scope, start), self.cell)

    def read(self) -> Lowered:
        return Scalar(self.writer.load(self.kind, self.cell), self.dtype)

    def advance(self, inner: Scope, result: Value, lowered: Lowered) -> Step:
        register = register_of(inner, lowered)
        return lambda: self.writer.store(self.kind, register, self.cell)


class InTwoBuffers(Carried):
    """An array of one size: an iteration reads one buffer and writes the other."""

    def __init__(self, scope: Scope, start: Array, taken: bool) -> None:
        super().__init__(scope, start)
        w = self.writer
        self.dims, self.dtype = start.dims, start.dtype
        self.bytes = scope.bytes_in(start)
        # `taken`: nobody needs the start afterwards, so its own memory is the first of the two
        self.slots = [scope.take(self.bytes) for _ in range(1 if taken else 2)]
        first = start.address if taken else self.slots[1].address
        if not taken:
            w.copy(first, start.address, self.bytes)
        self.cells = [w.cell("ptr"), w.cell("ptr")]
        for cell, address in zip(self.cells, (first, self.slots[0].address), strict=True):
            w.store("ptr", address, cell)

    def read(self) -> Lowered:
        self.now = self.writer.load("ptr", self.cells[0])
        self.home = Array(self.writer.load("ptr", self.cells[1]), self.dims, self.dtype)
        return Array(self.now, self.dims, self.dtype)

    def advance(self, inner: Scope, result: Value, lowered: Lowered) -> Step:
        w = self.writer
        assert isinstance(lowered, Array) and self.home is not None
        now, home = self.now, self.home.address
        # changed in place: it stands where the next iteration reads
        if lowered.address == now:
            return lambda: None
        # the memory is freed, or used again, at the end of the iteration
        if lowered.address != home and not self._in_one_of_both(inner, result):
            w.copy(home, lowered.address, self.bytes)
            lowered = self.home
        address = lowered.address
        # a branch may have left it in either: which of both is free then is known at run time only
        other = now if address == home else w.let(f"select i1 {w.let(f'icmp eq ptr {address}, {now}')}, ptr {home}, ptr {now}")

        def swap() -> None:
            w.store("ptr", address, self.cells[0])
            w.store("ptr", other, self.cells[1])

        return swap

    def _in_one_of_both(self, inner: Scope, result: Value) -> bool:
        """Whether run time decides between the memory it had and the memory that was offered."""
        own = inner.plan.buffers(result).difference(inner.block.params)
        given = inner.plan.buffers(result) - own
        mine = inner.block.group("carried")[inner.block.results.index(result)]
        return given <= {mine} and len(own) <= 1 and own <= inner.settled

    def end(self, value: Value) -> Lowered:
        # both buffers live on: which of them has the result is known only at run time
        for slot in self.slots:
            self.scope.own(value, slot)
        return self.read()


class OnHeap(Carried):
    """An array that may have another size after an iteration."""

    def __init__(self, scope: Scope, start: Array) -> None:
        super().__init__(scope, start)
        w = self.writer
        self.dtype = start.dtype
        self.address, self.mine = w.cell("ptr"), w.cell("ptr")
        self.dims = [w.cell("i64") for _ in start.dims]
        # the start belongs to somebody else: there is nothing to free when it is replaced
        self._put(start, "null")

    def _put(self, array: Array, mine: str) -> None:
        w = self.writer
        w.store("ptr", array.address, self.address)
        w.store("ptr", mine, self.mine)
        for cell, size in zip(self.dims, array.dims, strict=True):
            w.store("i64", size, cell)

    def read(self) -> Lowered:
        w = self.writer
        return Array(w.load("ptr", self.address), tuple([w.load("i64", cell) for cell in self.dims]), self.dtype)

    def advance(self, inner: Scope, result: Value, lowered: Lowered) -> Step:
        assert isinstance(lowered, Array)
        # given back as it came: it stays where it is, and stays owned by whom it was
        if inner.plan.buffers(result) == {inner.block.group("carried")[inner.block.results.index(result)]}:
            return lambda: None
        # what the iteration made for itself is taken over; anything else lives in memory that others will free
        array = lowered if isinstance(lists.taken_over(inner, result), MemorySlot) else lists.heap_copy(inner, lowered)

        def replace() -> None:
            w = self.writer
            w.do(f"call void {release(self.scope.program.module)}(ptr %context, ptr {w.load('ptr', self.mine)})")
            self._put(array, array.address)

        return replace

    def end(self, value: Value) -> Lowered:
        self.scope.own(value, MemorySlot(None, 0, self.writer.load("ptr", self.mine)))
        return self.read()


class OwnList(Carried):
    """A list that an iteration replaces by another."""

    def __init__(self, scope: Scope, start: NativeList, type: ListSpec) -> None:
        super().__init__(scope, start)
        # iterations change it in place, and the list before the loop may be read later
        self.list = lists.copied_list(scope, start, type)

    def read(self) -> Lowered:
        return self.list

    def advance(self, inner: Scope, result: Value, lowered: Lowered) -> Step:
        assert isinstance(lowered, NativeList)
        if lowered.state == self.list.state:
            return lambda: None
        # set aside: others of this iteration may still read items of the old list
        following = lists.cell(inner, self.list.items)
        take_list(inner, result, lowered, following)

        def replace() -> None:
            lists.free_list(self.scope, self.list)
            lists.move(self.scope, following, self.list)

        return replace

    def end(self, value: Value) -> Lowered:
        self.scope.own(value, self.list)
        return self.list


def take_list(inner: Scope, result: Value, source: NativeList, target: NativeList) -> None:
    """Move a list that a region made, or copy it."""
    mine = lists.taken_over(inner, result)
    if isinstance(mine, NativeList) and mine.items.form == target.items.form:
        lists.move(inner, mine, target)
    else:
        lists.copy_list(inner, lists.converted(inner, source, target.items), target)
