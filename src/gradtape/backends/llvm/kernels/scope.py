"""The code of one block: its operations in order, kernels where the plan puts them, memory from the frame.

A `Scope` is one block written out at one place (a callee or a region may be written several times); what the blocks of a
function share is in `native_program.py`. How single ops are written is said in their records (`lowering.py`).

One invariant: `values` holds every value of the block that was reached, and memory is given back only after its last use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gradtape.backends.llvm.kernels.native_program import NativeProgram
from gradtape.backends.llvm.planning import ranges, size_checks as sizes
from gradtape.backends.llvm.planning.static_arrays import constant_of
from gradtape.backends.llvm.planning.values import Array, Flat, Lazy, Lowered, MemorySlot, NativeList, Place, Scalar
from gradtape.backends.llvm.runtime import allocator
from gradtape.backends.llvm.runtime.unsupported import UnsupportedError
from gradtape.backends.llvm.writing.element_types import MEMORY, REGISTER, bytes_of, name_of
from gradtape.backends.llvm.writing.ir_text import Index
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import TensorSpec

ON_STACK = 1024  # bytes: smaller arrays of known size are on the stack, where LLVM can keep them in registers
STACK = 1 << 17  # bytes of the stack that one function may use
CHAIN = 4  # element operations above one another that are written call in call


class Scope:
    """One block, written out here."""

    def __init__(self, program: NativeProgram, block: Block, outer: Scope | None = None) -> None:
        self.program = program
        self.writer = program.writer
        self.block = block
        self.outer = outer  # whose recipes a region may be given
        self.plan = program.plan(block)
        self.values: dict[Value, Lowered] = {}
        self.prepared: dict[Operation, Any] = {}
        self.homes: dict[Value, Array] = {}  # where buffers are wanted
        self.settled: set[Value] = set()  # buffers that are where they are wanted
        self._owned: dict[Value, list[MemorySlot | NativeList]] = {}  # memory taken for a buffer (by its first value)
        self._seen: list[dict[Any, str]] = [{}]  # elements known here, by value and place; inner levels last
        self.access = ""  # metadata for loads of the kernel being written
        self.compared: set[tuple[Any, Any]] = set() if outer is None else set(outer.compared)  # sizes: see `sizes.compare`

    # --- the whole block

    def write(
        self, arguments: Sequence[Lowered], homes: Mapping[int, Array] | None = None, outermost: bool = False
    ) -> list[Lowered]:
        """All operations; gives the results, those in `homes` (by position) there. Between `outermost` ones there are seams."""
        for value, lowered in zip(self.block.params, arguments, strict=True):
            self.values[value] = lowered
            if isinstance(lowered, Array) and isinstance(value.type, TensorSpec):
                self.program.bind(value.type, lowered.dims)
        # before anything is written: whoever makes a result makes it in its place then, and nothing is copied at the end
        for k, home in (homes or {}).items():
            self.want(k, home)
        # memory goes back right after its last use, so that what follows can have it: the frame stays as small as what lives at
        # once
        ends: dict[int, list[Value]] = {}
        for value, place in self.plan.last.items():
            ends.setdefault(place, []).append(value)
        for i, operation in enumerate(self.block.operations):
            if outermost:
                self.writer.seam()
            self._operation(i, operation)
            for value in ends.get(i, ()):
                self._release(value)
        results: list[Lowered] = []
        for k, value in enumerate(self.block.results):
            if outermost:
                self.writer.seam()
            wanted = (homes or {}).get(k)
            # a result that is still a recipe is written now, and straight to where the block around wants it
            if wanted is None and isinstance(self.values[value], Lazy):
                wanted = self.homes.get(value)
                if wanted is not None:
                    self.settled.add(value)
            lowered = self.values[value] if wanted is None else self.placed(value, wanted)
            results.append(self.memory(value) if isinstance(lowered, Lazy) else lowered)
        return results

    def want(self, k: int, home: Array) -> None:
        """Have result k made at a place, if it is made in this block and nobody else's memory too."""
        buffers = self.plan.buffers(self.block.results[k]).difference(self.block.params)
        if len(buffers) == 1:
            (buffer,) = buffers
            if self.plan.results_in(buffer) == [k] and _is_whole(self.block.results[k].type, buffer.type):
                self.homes.setdefault(buffer, home)

    def finish(self) -> None:
        """Give back all memory that is still held."""
        for value in list(self._owned):
            self._release(value)

    def _operation(self, i: int, operation: Operation) -> None:
        tables, kind = self.program.tables, self.plan.kinds[operation]
        if kind == "element":
            sizes.compare(self, (operation,))
            self.prepare(operation)
        kernel = self.plan.kernels.get(i)
        if kernel is not None:
            sizes.check(self, kernel)
            tables.kernel(self, kernel)
        # written by its kernel, here or elsewhere in the block
        if operation in self.plan.roots:
            return
        if kind == "element":
            self.values[operation.result] = Lazy(operation)
        elif kind == "scalar":
            self.early(operation.result)
        elif kind == "alias":
            source = self.memory(operation.operands[0])
            self.values[operation.result] = Array(source.address, self.dims(operation.result), operation.result.type.dtype)
        elif kind != "absorbed":
            special = self.plan.special.get(operation)
            # what has no native form, or sizes that only its `impl` finds out, is done by Python
            write = special.write if special is not None else self.plan.lowering(operation).memory
            if write is None or operation in self.plan.unsized:
                write = tables.callback
            for value, lowered in zip(operation.results, write(self, operation), strict=True):
                self.values[value] = lowered
                if isinstance(lowered, Array) and isinstance(value.type, TensorSpec):
                    self.program.bind(value.type, lowered.dims)

    def prepare(self, operation: Operation) -> None:
        """Write what all elements of an operation share, if that was not done yet."""
        prepare = self.plan.lowering(operation).prepare
        if prepare is not None and operation not in self.prepared:
            self.prepared[operation] = prepare(self, operation)

    def prepare_parts(self, operation: Operation) -> None:
        """The same for all recipes that computing an operation takes, in the order of the block."""
        for part in sorted(self.plan.parts(operation), key=self.plan.at.__getitem__):
            self.prepare(part)

    def early(self, value: Value) -> None:
        """Compute a value of rank 0 now, if it is one that can be and was not yet; what it is made of before."""
        # not by recursion: a chain of numbers may be longer than Python's stack
        stack = [value]
        while stack:
            operation = stack[-1].producer
            if stack[-1] in self.values or operation is None or self.plan.kinds.get(operation) != "scalar":
                stack.pop()
                continue
            waiting = [leaf for leaf in self.plan.leaves(operation) if self._is_early(leaf)]
            if waiting:
                stack += reversed(waiting)
                continue
            value = stack.pop()
            self.prepare_parts(operation)
            register = self.computed_element(operation, ())
            self.values[value] = Scalar(register, value.type.dtype)
            ranges.follow(self, operation, register)

    def _is_early(self, value: Value) -> bool:
        """Whether a value of rank 0 can be computed before its place, and was not yet."""
        return value not in self.values and value.producer is not None and self.plan.kinds.get(value.producer) == "scalar"

    def fail_if(self, flag: str, operation: Operation) -> None:
        """Leave the program if the flag is set, for an error of an operation."""
        # Without effects, Python runs the call again and raises the error in its own words. What has printed or drawn must not
        # do so twice: there the operation's error is raised from here.
        if not self.program.effects:
            self.program.fail_if(flag, operation)
            return
        with self.writer.when(flag, f", !prof {self.program.unlikely()}"), self.aside():
            self.program.tables.failure(self, operation)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Code on a way that leaves the program: what is found out is not known elsewhere, what is taken is not given back."""
        owned, values = {key: list(slots) for key, slots in self._owned.items()}, dict(self.values)
        self.enter()
        yield
        self.leave()
        self._owned, self.values = owned, values

    def sized(self, operation: Operation, type: Any, dims: Sequence[Index]) -> tuple[Index, ...]:
        """The sizes that run time found for a result: of symbols that are new, or checked against what the program knows."""
        self.program.bind(type, dims)
        known = self.program.dims(type.shape)
        for size, dim in zip(known, dims, strict=True):
            if size != dim:
                self.fail_if(self.writer.let(f"icmp ne i64 {size}, {dim}"), operation)
        return known

    # --- memory

    def dims(self, value: Value) -> tuple[Index, ...]:
        return self.program.dims(value.type.shape)

    def room(self, value: Value) -> Array:
        """Memory for a value: where it is wanted, or a new part of the frame."""
        dims = self.dims(value)
        home = self.homes.get(value)
        if home is not None:
            self.settled.add(value)
            return Array(home.address, dims, value.type.dtype)
        slot = self.take(sizes.needed(self, value, dims))
        self.own(value, slot)
        return Array(slot.address, dims, value.type.dtype)

    def own(self, value: Value, slot: MemorySlot | NativeList) -> None:
        """Give memory back after the last use of a buffer."""
        self._owned.setdefault(value, []).append(slot)

    def disown(self, value: Value) -> list[MemorySlot | NativeList]:
        """What was to be given back is somebody else's now."""
        return self._owned.pop(value, [])

    def owned(self, value: Value) -> list[MemorySlot | NativeList]:
        return self._owned.get(value, [])

    def take(self, count: Index) -> MemorySlot:
        """Memory until it is given back."""
        w = self.writer
        # Sizes of the run are allocated; small arrays are on the stack; all others have a place in the frame, which is one
        # piece of memory for the whole call.
        if not isinstance(count, int):
            return MemorySlot(None, count, self.program.allocated(count))
        if count <= ON_STACK and self.program.stack + count <= STACK:
            self.program.stack += count
            return MemorySlot(-1, count, w.cell("i8", max(count, 1), 32))
        # (the address is computed once, at the start of the function: it never changes)
        offset = self.program.frame.take(count)
        return MemorySlot(offset, count, w.early(f"getelementptr inbounds i8, ptr %frame, i64 {offset}"))

    def give(self, slot: MemorySlot | NativeList | None) -> None:
        """Give memory back, if any was taken."""
        if isinstance(slot, NativeList):
            self.program.tables.free_list(self, slot)
        elif slot is None:
            return
        elif slot.offset is None:
            self.writer.do(f"call void {allocator.release(self.program.module)}(ptr %context, ptr {slot.address})")
        # (a place on the stack stays what it is)
        elif slot.offset >= 0:
            self.program.frame.give(slot.offset, slot.bytes)  # type: ignore[arg-type]

    def _release(self, value: Value) -> None:
        for slot in self._owned.pop(value, ()):
            self.give(slot)

    def memory(self, value: Value) -> Array:
        """A value as memory; a scalar or a constant is put there first."""
        lowered = self.find(value)
        if isinstance(lowered, Array):
            return lowered
        if isinstance(lowered, Scalar):
            kind = name_of(lowered.dtype)
            cell = self.writer.cell(MEMORY[kind])
            self.writer.store(MEMORY[kind], self.to_memory(lowered.register, lowered.dtype), cell)
            return Array(cell, (), lowered.dtype)
        if isinstance(lowered, Lazy):
            constant = constant_of(self.program.module, lowered.operation)
            return self.computed(value) if constant is None else constant
        raise UnsupportedError("a list where a tensor is needed")

    def computed(self, value: Value) -> Array:
        """A recipe written to new memory that lives as long as the block."""
        dims = self.dims(value)
        slot = self.take(sizes.needed(self, value, dims))
        self.own(value, slot)
        home = Array(slot.address, dims, value.type.dtype)
        self.program.tables.fill(self, value, home)
        self.values[value] = home
        return home

    def placed(self, value: Value, home: Array) -> Array:
        """A value in the memory where it is wanted."""
        lowered = self.find(value)
        if isinstance(lowered, Lazy):
            self.program.tables.fill(self, value, home)
            return home
        assert lowered is not None
        return self.copied(lowered, home)

    def copied(self, lowered: Lowered, home: Array) -> Array:
        """A value in the memory where it is wanted."""
        w = self.writer
        if isinstance(lowered, Scalar):
            w.store(MEMORY[name_of(lowered.dtype)], self.to_memory(lowered.register, lowered.dtype), home.address)
            return home
        if not isinstance(lowered, Array):
            raise UnsupportedError("a value that is not in memory")
        if lowered.address != home.address:
            w.copy(home.address, lowered.address, self.bytes_in(lowered))
        return Array(home.address, lowered.dims, lowered.dtype)

    def bytes_in(self, array: Array) -> Index:
        return self.writer.multiply(self.writer.product(array.dims), bytes_of(array.dtype))

    def clear(self, home: Array) -> None:
        """Zeros everywhere."""
        self.writer.clear(home.address, self.bytes_in(home))

    # --- elements

    def find(self, value: Value) -> Lowered | None:
        """What a value is here: of this block, or of one around it whose recipe is evaluated here."""
        scope: Scope | None = self
        while scope is not None:
            lowered = scope.values.get(value)
            if lowered is not None:
                return lowered
            if scope.plan.is_lazy(value):  # a kernel may run before the place of a recipe it uses
                return Lazy(value.producer)  # type: ignore[arg-type]
            scope = scope.outer
        return None

    def ready(self, operation: Operation) -> Any:
        """What `prepare` found for an operation, of this block or of one around it."""
        scope: Scope | None = self
        while scope is not None:
            if operation in scope.prepared:
                return scope.prepared[operation]
            scope = scope.outer
        raise UnsupportedError(f"{operation.op.name} is needed before its place", operation)

    def element(self, value: Value, place: Place) -> str:
        """The element of a value at an index, in a register."""
        lowered = self.find(value)
        if isinstance(lowered, Scalar):
            return lowered.register
        # with the class: a flat index and an index into an array of rank 1 look alike and mean different places
        key = (value, place.__class__, *place)
        # what an outer loop has computed holds in the loops inside of it
        for known in reversed(self._seen):
            if key in known:
                return known[key]
        if isinstance(lowered, Array):
            register = self.load(lowered, place)
        elif isinstance(lowered, Lazy):
            self._elements_beside(lowered.operation, place)
            register = self.computed_element(lowered.operation, place)
        else:
            raise UnsupportedError("an element of something that has none")
        self._seen[-1][key] = register
        return register

    def computed_element(self, operation: Operation, place: Place) -> str:
        """The element of a result, written out here."""
        element = self.plan.lowering(operation).element
        assert element is not None
        return element(self, operation, place)

    def _elements_beside(self, operation: Operation, place: Place) -> None:
        """Elements at the same index that an operation needs, those of long chains from their start on: not call in call."""
        stack = self._missing(operation, place)
        order: list[Value] = []
        seen = set(stack)
        while stack:
            value = stack.pop()
            order.append(value)
            for below in self._missing(value.producer, place):  # type: ignore[arg-type]
                if below not in seen:
                    seen.add(below)
                    stack.append(below)
        # few are written where they are used; of many, each would be one more call of Python's in the one before it
        if len(order) < CHAIN:
            return
        plan = self.plan
        for value in sorted(order, key=lambda value: plan.at[value.producer]):  # type: ignore[index]
            self.element(value, place)

    def _missing(self, operation: Operation, place: Place) -> list[Value]:
        """Operands that are recipes of this block, read at the index of the operation itself, and not known there."""
        if operation not in self.plan.at or self.plan.lowering(operation).shape_only:
            return []
        return [
            value
            for value in self.plan.beside(operation)
            if self.plan.is_lazy(value) and not isinstance(self.values.get(value), (Array, Scalar))
            if not any((value, place.__class__, *place) in known for known in self._seen)
        ]

    def know(self, value: Value, place: Place, register: str) -> None:
        """An element that was just computed."""
        self._seen[-1][(value, place.__class__, *place)] = register

    def enter(self) -> None:
        """A loop or branch begins: what it finds out is forgotten at its end."""
        self._seen.append({})

    def leave(self) -> None:
        self._seen.pop()

    def offset(self, dims: Sequence[Index], place: Place) -> Index:
        """Where an index is in row-major memory."""
        if isinstance(place, Flat):
            return place[0]
        w = self.writer
        total: Index = 0
        for size, index in zip(dims, place, strict=True):
            total = w.add(w.multiply(total, size), index)
        return total

    def load(self, array: Array, place: Place) -> str:
        kind = name_of(array.dtype)
        return self.from_memory(self.writer.load(MEMORY[kind], self.address(array, place), self.access), array.dtype)

    def address(self, array: Array, place: Place) -> str:
        """Where an element is."""
        if array.rows:
            assert not isinstance(place, Flat)
            offset = self.offset(array.dims[array.rows :], place[array.rows :])
        else:
            offset = self.offset(array.dims, place)
        return self.writer.at(MEMORY[name_of(array.dtype)], array.address, offset)

    def from_memory(self, register: str, dtype: Any) -> str:
        return self.writer.let(f"icmp ne i8 {register}, 0") if name_of(dtype) == "bool" else register

    def to_memory(self, register: str, dtype: Any) -> str:
        return self.writer.let(f"zext i1 {register} to i8") if name_of(dtype) == "bool" else register

    def store(self, register: str, array: Array, place: Place, extra: str = "") -> None:
        kind = MEMORY[name_of(array.dtype)]
        address = self.address(array, place)
        self.writer.store(kind, self.to_memory(register, array.dtype), address, extra)

    def scalar(self, value: Value) -> str:
        """The register of a value of rank 0."""
        return self.element(value, ())

    def integer(self, value: Value) -> Index:
        """A value of rank 0 as an index. What no int64 can be is as good as the largest: no array has so many elements."""
        register = self.scalar(value)
        kind = name_of(value.type.dtype)
        if kind == "int64":
            return register
        if kind == "uint64":
            return self.writer.let(f"call i64 @llvm.umin.i64(i64 {register}, i64 {2**63 - 1})")
        # the same number with 64 bits may be there already, from before it was cut to 32
        known = ranges.wide(self, value)
        if known is not None and register not in self.program.modular:
            return known
        how = "sext" if kind.startswith("int") else "zext"
        return self.writer.let(f"{how} {REGISTER[kind]} {register} to i64")


def _is_whole(result: Any, buffer: Any) -> bool:
    """Whether a result is all of the buffer it is in, not one item or part of it."""
    if not isinstance(buffer, TensorSpec) or result.dtype != buffer.dtype:
        return False
    a, b = tuple(result.shape), tuple(buffer.shape)
    return a == b or (all(isinstance(n, int) for n in (*a, *b)) and math.prod(a) == math.prod(b))
