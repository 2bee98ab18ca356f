"""A program as LLVM IR, for whoever finds no machine code of it on disk: the function `main`, which takes and gives words in
memory, and the entry around it. Nothing here runs a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from gradtape import config
from gradtape.backends.llvm.entry import calling_convention, packing_code as packing
from gradtape.backends.llvm.kernels import native_lists as lists, rank_calls
from gradtape.backends.llvm.kernels.native_program import NativeProgram
from gradtape.backends.llvm.kernels.scope import ON_STACK, Scope
from gradtape.backends.llvm.kernels.table import TABLES
from gradtape.backends.llvm.planning.carried import in_register
from gradtape.backends.llvm.planning.column_loops import by_rows
from gradtape.backends.llvm.planning.complex_parts import with_parts
from gradtape.backends.llvm.planning.lowering import count_of
from gradtape.backends.llvm.planning.plan import fixed_sizes
from gradtape.backends.llvm.planning.sharing import form
from gradtape.backends.llvm.planning.values import Array, Lowered, NativeList, Scalar
from gradtape.backends.llvm.planning.writing_out import expanded
from gradtape.backends.llvm.runtime import callbacks, machine
from gradtape.backends.llvm.runtime.callbacks import NumpyCall
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.runtime.unsupported import UnsupportedError
from gradtape.backends.llvm.writing import parts
from gradtape.backends.llvm.writing.element_types import is_native
from gradtape.backends.llvm.writing.ir_text import ModuleText
from gradtape.core.hooks import HOOKS
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Block, Value
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ir.verify import fits, verify
from gradtape.ir.walk import blocks, has_effect
from gradtape.ops.structured import SCAN

LONG = 1 << 14  # elements: a program that computes more lets other threads run meanwhile
HEAVY = 1 << 18  # elements: a program that computes more is worth LLVM's more expensive passes
WIDE = 64  # elements: so is one that computes more at a time in a loop; loops of numbers gain nothing


class WrittenProgram(NamedTuple):
    """A program as LLVM IR, and what else running it takes."""

    source: str
    level: int  # of LLVM's passes
    notes: list[Note]
    calls: list[NumpyCall]
    takes: list[str]  # how each parameter is packed, if it is a list
    gives: list[str]  # how each result is
    frame: int  # bytes of values that are kept from call to call
    declared: dict[str, str]  # what it names of others
    constants: dict[str, bytes]  # those of them that are arrays of its own


def written(block: Block) -> WrittenProgram:
    """The LLVM IR of a prepared block."""
    callbacks.introduce()
    module = ModuleText()
    program = NativeProgram(module, "main", TABLES)
    params = [p.type for p in block.params]
    program.fixed = fixed = fixed_sizes(block)
    # asked of the block as it was traced: what is written out below may have other operations
    program.effects = any(has_effect(operation) for operation in block.operations)
    # ops that have no code of their own, in terms of those that have
    whole = by_rows(expanded(with_parts(block, TABLES.lowerings), TABLES.lowerings))
    if config.passes_debugged():
        verify(whole)
    returns = _write(program, whole, [value.type for value in block.results])
    loops, elements = any(n.kind == "loop" for n in program.notes), _elements(block)
    # a short program ends before another thread could begin: keeping the lock is quicker
    long = bool(program.calls) or loops or elements > LONG
    calling_convention.write_entry(module, [packing.carrier(t, fixed) for t in params], returns, program.frame.size, long)
    source = str(module)
    level = machine.level_of(len(source), elements > HEAVY or (loops and _has_wide_loops(block)))
    takes, gives = [form(t, fixed) for t in params], [form(value.type, fixed) for value in block.results]
    frame = program.frame.size
    return WrittenProgram(source, level, program.notes, program.calls, takes, gives, frame, module.declared, module.constants)


def _elements(block: Block) -> int:
    """How many elements a block computes, as far as known; what is not known counts as much."""
    values = [value for operation in block.operations for value in operation.results]
    return sum(count_of(getattr(value.type, "shape", ()), LONG) for value in values)


def _has_wide_loops(block: Block) -> bool:
    """Whether something inside a region has many elements, or sizes that are not known."""
    for region in blocks(block):
        for operation in region.operations if region is not block else ():
            for value in operation.results:
                shape = getattr(value.type, "shape", ())
                if not all(isinstance(n, int) for n in shape) or math.prod(shape) > WIDE:
                    return True
    return False


def _write(program: NativeProgram, block: Block, types: Sequence[Any]) -> list[calling_convention.Return]:
    """The function `main` of a block: arguments and results are words in memory, results of the types that the program says."""
    w = program.writer
    for value, type in zip(block.results, types, strict=True):
        if not fits(value.type, type):
            raise UnsupportedError(f"a result is {value.type} where the program says {type}", value.producer)
    w.cells.append("  %status = alloca i32")
    w.store("i32", 0, "%status")
    scope = Scope(program, block)
    arguments = _arguments(scope, block)
    returns = _returned(program, block)
    homes: dict[int, Array] = {}  # memory of results, by position
    place, first = 0, len(w.lines)
    for i, (value, spec) in enumerate(zip(block.results, returns, strict=True)):
        if spec.computed and spec.shape is not None:
            # the caller has made the array already, as its shape is known: the program computes into it, and nothing is copied
            homes[i] = Array(w.load("ptr", w.at("i64", "%results", place)), spec.shape, spec.item.dtype)
            if isinstance(spec.type, ListSpec):
                scope.homes.setdefault(value, homes[i])
        place += spec.words
    w.settle(first)
    wanted = {i: home for i, home in homes.items() if not isinstance(returns[i].type, ListSpec)}
    if HOOKS.world.natively is not None:
        rank_calls.begin(scope, block)
    lowered_results = scope.write(arguments, wanted, outermost=True)
    place = 0
    for i, (spec, lowered) in enumerate(zip(returns, lowered_results, strict=True)):
        w.seam()
        if not spec.computed:
            continue
        if spec.type is packing.PACKED:
            _tell(scope, packing.packed(scope, lowered), place)  # type: ignore[arg-type]
        elif spec.shape is None:
            _tell(scope, lowered, place)
        elif isinstance(lowered, NativeList):
            _list_home(scope, lowered, homes[i])
        else:
            scope.copied(lowered, homes[i])
        place += spec.words
    if program.exchanges is not None:
        rank_calls.end(scope)
    w.seam()
    w.go("leave")  # memory that is left is freed with the context
    w.start("leave")
    w.do(f"ret i32 {w.load('i32', '%status')}")
    parts.finish(w)
    return returns


def _returned(program: NativeProgram, block: Block) -> list[calling_convention.Return]:
    """How the results come back; what came in as it is, or stands there before, is not made again."""
    params = {value: i for i, value in enumerate(block.params)}
    first: dict[Value, int] = {}  # where a value stands among the results
    returns = []
    for i, value in enumerate(block.results):
        carrier = packing.carrier(value.type, program.fixed)
        # two results that are one value are one array, and one object in the caller's hands
        if first.setdefault(value, i) < i:
            returns.append(calling_convention.Return(carrier, None, twin=first[value]))
        elif value.producer is None and not in_register(value.type):
            returns.append(calling_convention.Return(carrier, None, param=params[value]))
        else:
            returns.append(calling_convention.Return(carrier, _known_shape(value, program.fixed)))
    return returns


def _arguments(scope: Scope, block: Block) -> list[Lowered]:
    """Parameters out of the words of a call."""
    w, program = scope.writer, scope.program
    place = 0

    def word(type: str) -> str:
        nonlocal place
        place += 1
        return w.load(type, w.at("i64", "%arguments", place - 1))

    lowered: dict[Any, Lowered] = {}
    first = len(w.lines)
    waiting: list[tuple[Any, str, list[str]]] = []  # lists: the sizes of their items are those of tensors
    for value in block.params:
        type, address = value.type, word("ptr")
        if type.dtype.dtype.kind == "O":
            raise UnsupportedError("text")
        if isinstance(type, ListSpec):
            rank = 1 if packing.carrier(type, program.fixed) is packing.PACKED else 1 + len(type.item.shape)
            waiting.append((value, address, [word("i64") for _ in range(rank)]))
            continue
        dims = tuple([word("i64") if isinstance(size, Dim) else size for size in type.shape])
        program.bind(type, dims)
        array = Array(address, dims, type.dtype)
        lowered[value] = Scalar(scope.load(array, ()), type.dtype) if not dims and is_native(type.dtype) else array
    w.settle(first)
    for value, address, told in waiting:
        # when all tensors have told their sizes: those of a list's items may be among them
        lowered[value] = packing.given(scope, value.type, address, told)
    return [lowered[value] for value in block.params]


def _known_shape(value: Any, fixed: frozenset[str]) -> tuple[int, ...] | None:
    """The shape of a result's memory if it is known now: of a list, when a loop of known length makes it."""
    type = value.type
    if isinstance(type, TensorSpec):
        return tuple(type.shape) if all(isinstance(n, int) for n in type.shape) else None
    if form(type, fixed) != "u":
        return None
    loop = value.producer
    length = None
    if loop is not None and loop.op is SCAN and value in loop.result_group("ys"):
        length = loop.attrs.get("length")
    if not isinstance(length, int) or not all(isinstance(n, int) for n in type.item.shape):
        return None
    return (max(length, 0), *type.item.shape)


def _list_home(scope: Scope, source: NativeList, home: Array) -> None:
    """A list's items where the caller wants them, unless they are there already."""
    w = scope.writer
    address = lists.address(scope, source)
    with w.when(w.let(f"icmp ne ptr {address}, {home.address}")):
        w.copy(home.address, address, scope.bytes_in(home))


def _tell(scope: Scope, lowered: Lowered, place: int) -> None:
    """Tell the caller where a result is, and its dims."""
    w = scope.writer
    words: list[tuple[str, Any]]
    if isinstance(lowered, NativeList):
        words = [("ptr", lists.address(scope, lowered)), ("i64", lists.length(scope, lowered))]
        words += [("i64", size) for size in lowered.items.dims or ()]
    elif isinstance(lowered, Array):
        words = [("ptr", _lasting(scope, lowered)), *[("i64", size) for size in lowered.dims]]
    else:
        raise UnsupportedError("a result that is not in memory")
    for i, (kind, word) in enumerate(words):
        w.store(kind, word, w.at("i64", "%results", place + i))


def _lasting(scope: Scope, array: Array) -> str:
    """Where an array is when the function has returned: what may be on its stack is copied."""
    w = scope.writer
    count = scope.bytes_in(array)
    if isinstance(count, int) and count > ON_STACK:
        return array.address
    address = w.cell("ptr")
    w.store("ptr", array.address, address)
    with w.when("true" if isinstance(count, int) else w.let(f"icmp sle i64 {count}, {ON_STACK}")):
        lasting = scope.program.allocated(count)
        w.copy(lasting, array.address, count)
        w.store("ptr", lasting, address)
    return w.load("ptr", address)
