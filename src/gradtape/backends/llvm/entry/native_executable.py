"""Programs as machine code: `compile_block(block)` gives an `NativeExecutable` with the interface of the NumPy backend's.

An error found by native code (an index out of range, a failed assertion, an exception in an `impl`) is raised by running the
program again on the reference backend, which says what eager code would say, with the user's line; if the program has effects,
which must not happen twice, the failing operation itself is named.
"""

from __future__ import annotations

import ctypes
import math
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape import config
from gradtape.backends.llvm.entry import calling_convention, kept_programs, native_report as report, packing
from gradtape.backends.llvm.entry.conformity import check_results
from gradtape.backends.llvm.entry.stacked import StackedList
from gradtape.backends.llvm.entry.trampoline import HEARING
from gradtape.backends.llvm.kernels import native_lists as lists, rank_calls
from gradtape.backends.llvm.kernels.native_program import NativeProgram, Note
from gradtape.backends.llvm.kernels.scope import ON_STACK, Scope
from gradtape.backends.llvm.kernels.table import TABLES
from gradtape.backends.llvm.planning.carried import in_register
from gradtape.backends.llvm.planning.column_loops import by_rows
from gradtape.backends.llvm.planning.complex_parts import with_parts
from gradtape.backends.llvm.planning.lowering import count_of
from gradtape.backends.llvm.planning.plan import fixed_sizes
from gradtape.backends.llvm.planning.sharing import form
from gradtape.backends.llvm.planning.values import Array, Lowered, NativeList, Scalar, UnsupportedError
from gradtape.backends.llvm.planning.writing_out import expanded
from gradtape.backends.llvm.runtime import machine, symbols as outside
from gradtape.backends.llvm.runtime.allocator import CALLBACK_FAILED, OWNED
from gradtape.backends.llvm.runtime.callbacks import FETCH, SIGNATURE, NumpyCall, run_callback
from gradtape.backends.llvm.writing import parts
from gradtape.backends.llvm.writing.element_types import is_native
from gradtape.backends.llvm.writing.ir_text import ModuleText
from gradtape.backends.numpy import compile_block as reference_block
from gradtape.core.hooks import HOOKS
from gradtape.errors import InternalError
from gradtape.ir.dims import Dim
from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.types import UNKNOWN, ListSpec, TensorSpec
from gradtape.ir.verify import fits, verify
from gradtape.ir.walk import blocks, has_effect
from gradtape.ops.python_calls import PULL_OPEN
from gradtape.ops.structured import SCAN

LONG = 1 << 14  # elements: a program that computes more lets other threads run meanwhile
HEAVY = 1 << 18  # elements: a program that computes more is worth LLVM's more expensive passes
WIDE = 64  # elements: so is one that computes more at a time in a loop; loops of numbers gain nothing


class Calls:
    """What native code needs of Python while it runs: the operations it leaves to NumPy, and the errors they raise.

    It is the `self` of the entry, so it lives as long as anybody may call that, and the machine code with it.
    """

    __slots__ = ("calls", "errors", "library", "listener", "method")

    def __init__(self, calls: list[NumpyCall], library: machine.Library) -> None:
        self.calls = calls
        self.errors: dict[int, tuple[Operation, BaseException]] = {}  # by thread
        self.library = library
        self.method: Any = None  # what the entry points to
        self.listener: Any = None  # to floating-point events

    def __del__(self) -> None:
        # the entry points into it, and holds this object: whoever could still call it keeps the code mapped
        self.library.close()


def _calls_of(context: int) -> Calls:
    calls: Any = ctypes.py_object.from_address(context + ctypes.sizeof(ctypes.c_void_p))  # the second word of the context
    return calls.value


def _leave(context: int, thing: object) -> None:
    """Leave an object to the call whose context this is: it lives until that has ended, whatever way it does."""
    place = ctypes.c_void_p.from_address(context + OWNED.offset)
    if place.value is None:
        owned: list[object] = []
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owned))
        place.value = id(owned)
    left: Any = ctypes.py_object.from_address(ctypes.addressof(place))
    left.value.append(thing)


def _callback(context: int, number: int, words: Any, done: Any) -> None:
    calls = _calls_of(context)
    call = calls.calls[number]
    try:
        results = run_callback(call, words)
        if call.op is PULL_OPEN:
            _leave(context, results)
    except BaseException as error:  # ctypes would drop it: the entry raises it when the machine code has come back
        calls.errors[threading.get_ident()] = (call.operation, error)
        return
    done[0] = 1


def _patience(context: int, number: int, words: Any, done: Any) -> None:
    """Wait for what an operation between ranks has posted, words[1] requests at words[0], with headers of a message at words[2]
    and words[3]; or compare the ranks' programs, when one begins (-1, or -3 if it may fail; its digest in words[0]) or ends
    (-2); or refuse what a header announces (-4); or note that a program of messages begins (-5)."""
    calls = _calls_of(context)
    operation = calls.calls[number].operation
    try:
        if words[1] > 0:
            HOOKS.world.natively.wait(words[0], words[1], operation, (words[2], words[3]))
        elif words[1] == -4:
            HOOKS.world.natively.refuse(words[0], operation)
        elif words[1] == -5:
            HOOKS.world.natively.notes(operation)
        elif words[1] == -2:
            HOOKS.world.natively.ends(operation.loc)
        else:
            HOOKS.world.natively.begins(words[0], operation.loc, words[1] == -3)
    except BaseException as error:  # as above
        calls.errors[threading.get_ident()] = (operation, error)
        return
    done[0] = 1


_CALLBACK, _PATIENCE = SIGNATURE(_callback), SIGNATURE(_patience)  # kept for ever: native code has their addresses


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


class NativeExecutable:
    """A compiled program: call it with one array (or list) per parameter.

    `notes` says what was made of it, `times` how long that took, `source` is its LLVM IR before optimisation. A program whose
    machine code was found by its digest was neither prepared nor written: that is done when somebody asks.
    """

    __slots__ = (
        "_calls", "_checked", "_entry", "_has_lists", "_params", "_prepare", "_prepared", "_reference", "_takes_lists",
        "_traced", "_weaker", "_written", "cached", "name", "rescued", "times",
    )  # fmt: skip

    def __init__(
        self, traced: Block, prepare: Callable[[Block], Block], name: str, library: machine.Library | None = None
    ) -> None:
        self.name = name
        self._traced = traced
        self._prepare = prepare
        self._prepared: Block | None = None
        self._written: WrittenProgram | None = None
        self._reference: Any = None
        self._checked = config.passes_debugged()
        started = time.perf_counter()
        calls: list[NumpyCall] = []
        takes: list[str] = []
        gives: list[str] = []
        prepared = started
        if library is None:
            self._prepared = prepare(traced)
            prepared = time.perf_counter()
            calls, takes, gives = self.program.calls, self.program.takes, self.program.gives
        done = time.perf_counter()
        _introduce()
        if library is None:
            library = self._compiled()
        self._weaker = library.weaker
        if library.weaker is not None and self._checked:
            self._tell(library.weaker)
        self._params = [p.type for p in traced.params]
        self._calls = Calls(calls, library)
        self._entry, self._calls.method = calling_convention.builtin(library, name, self._calls)
        self._takes_lists = any(takes)
        self._has_lists = any(gives)
        self.rescued = 0  # calls that native code gave up and the reference answered
        self.cached = library.cached
        self.times = {"passes": prepared - started, "written": done - prepared, "compiled": time.perf_counter() - done}

    @property
    def _block(self) -> Block:
        """The program as it is written."""
        if self._prepared is None:
            self._prepared = self._prepare(self._traced)
        return self._prepared

    @property
    def program(self) -> WrittenProgram:
        if self._written is None:
            self._written = written(self._block)
        return self._written

    @property
    def source(self) -> str:
        return self.program.source

    @property
    def notes(self) -> list[Note]:
        notes = list(self.program.notes)
        if self._weaker is not None:
            notes.insert(0, Note("LLVM broke the module", (), None, f"so it has fewer passes ({self._weaker})"))
        return notes

    @property
    def can_be_kept(self) -> bool:
        """Whether machine code is all that another process needs of it."""
        # calls back, and the forms of lists, are objects of this process, which machine code on disk does not have
        return not (self._checked or self._calls.calls or self._takes_lists or self._has_lists or self._weaker)

    def _compiled(self) -> machine.Library:
        program = self.program
        try:
            return machine.Library(program.source, program.level, constants=program.constants)
        except machine.CannotCompileError as error:
            where = self._kept_source()
            warnings.warn(
                f"{self.name} runs on the NumPy backend, which is slower: LLVM fails on this program ({error}). "
                f"The program is in {where}: please report it",
                RuntimeWarning,
                stacklevel=2,
            )
            raise UnsupportedError(f"a program that LLVM fails on ({error})") from error

    def _kept_source(self) -> str:
        with tempfile.NamedTemporaryFile("w", prefix=f"gradtape_{self.name}_", suffix=".ll", delete=False) as file:
            file.write(self.source)
        return file.name

    def _tell(self, weaker: machine.Passes) -> None:
        """In debug mode, have somebody tell LLVM's people about the program that their passes break."""
        warnings.warn(
            f"{self.name}: LLVM's passes fail on this program, so it is compiled with fewer ({weaker}). "
            f"Its results are right; it may be slower. The program is in {self._kept_source()}: please report it",
            RuntimeWarning,
            stacklevel=2,
        )

    @property
    def native(self) -> Any:
        """The bare entry, for who brings arrays and looks at what comes back; None if results need more."""
        return None if self._has_lists or self._takes_lists or self._checked else self._entry

    def listen(self, listener: Callable[..., None]) -> Any:
        """Have `listener(results, *arrays)` called after calls with floating-point events. Gives words that may be changed: how
        many of them are to pass unheard (1), whether those with finite results are (2)."""
        # (words of the machine code itself: a call without events asks nobody)
        words = (ctypes.c_int64 * 3).from_address(self._calls.library.address(HEARING))
        if not self._takes_lists:  # which have another form here
            self._calls.listener = listener
            words[0] = id(listener)
        return words

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        results = self._run(*arrays)
        if self._checked:
            check_results(self.name, self._block, arrays, results)
        return results

    def _run(self, *arrays: Any) -> tuple[Any, ...]:
        given = self._unlisted(arrays) if self._takes_lists else arrays
        # A tuple are the results; None says that an argument is not as the code wants it, a number which operation failed.
        answer = self._entry(*given)
        if answer.__class__ is not tuple:
            return self._otherwise(answer, list(given), arrays)
        return self._listed(answer) if self._has_lists else answer

    def run(self, arrays: list[Any]) -> tuple[Any, ...]:
        """As a call; the list is left as it is."""
        return self(*arrays)

    def report(self) -> list[str]:
        """Lines for `explain`."""
        return report.lines(self.name, self.notes, self.times, self.cached, len(self.source), self.program.frame)

    def _unlisted(self, arrays: Sequence[Any]) -> list[Any]:
        """Lists as the arrays that carry them."""
        return [
            value if not how else packing.rows(value, type) if how == "u" else packing.pack(value, type, how)
            for value, type, how in zip(arrays, self._params, self.program.takes, strict=True)
        ]

    def _listed(self, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([
            value if not how
            else StackedList(value, result.type.item.dtype) if how == "u"
            else packing.PackedList(value, result.type, how)
            for value, result, how in zip(arrays, self._block.results, self.program.gives, strict=True)
        ])  # fmt: skip

    def _otherwise(self, answer: Any, given: list[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Arguments that are not as the entry wants them, or a failure."""
        if answer is None:
            forms = self.program.takes if self._takes_lists else [""] * len(given)
            # put in order only after the entry has refused: nearly all calls bring what it wants, and looking costs more than
            # asking
            plain = [value if how else _plain(value, type) for value, type, how in zip(given, self._params, forms, strict=True)]
            answer = self._entry(*plain)
            if answer is None:
                raise InternalError(f"{self.name} was made for other arguments: {self._params}")
        if answer.__class__ is not tuple:
            return self.failed(answer, arrays)
        return self._listed(answer) if self._has_lists else answer

    def failed(self, status: int, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """What the reference raises; or gives, where a check of native code was too strict."""
        # (by thread: others may run the same program meanwhile, and have errors of their own)
        operation, error = self._calls.errors.pop(threading.get_ident(), (None, None))
        HOOKS.world.failed(self._traced, error or f"operation {status} failed")
        if error is None and status == CALLBACK_FAILED:  # nobody else can end a call back without an error of its own
            raise KeyboardInterrupt
        # Ctrl-C and the like are for nobody here to judge
        if error is not None and not isinstance(error, Exception):
            raise error
        if error is not None and (operation.op.effect or self._effects()):  # type: ignore[union-attr]
            raise error
        # what has been printed or drawn must not be done again
        if self._effects():
            raise InternalError(f"{self.name}: native code failed (operation {status})") from error
        if self._reference is None:
            self._reference = reference_block(self._block, self.name)
        # the reference runs it from the start: it raises in the words of eager code, or answers
        self.rescued += 1
        return self._reference(*arrays)

    def _effects(self) -> bool:
        return any(has_effect(operation) for operation in self._traced.operations)

    def __repr__(self) -> str:
        return f"<native executable {self.name}>"


def _plain(value: Any, type: Any) -> Any:
    """An argument as the entry wants it: contiguous and of the program's dtype, a scalar of rank 0."""
    array = np.asarray(value, type.dtype.dtype)
    if not array.ndim:
        return array[()]
    if not array.size and all(isinstance(n, int) for n in type.shape):  # a placeholder that is never read
        return np.zeros(tuple(type.shape), array.dtype)
    return array if array.flags.c_contiguous and array.flags.aligned else np.array(array, order="C")


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


def _introduce() -> None:
    """Tell LLVM where native code finds what Python does for it."""
    machine.symbol("gt_callback", ctypes.cast(_CALLBACK, ctypes.c_void_p).value or 0)
    machine.symbol("gt_mpi_patience", ctypes.cast(_PATIENCE, ctypes.c_void_p).value or 0)
    machine.symbol("gt_fetch", ctypes.cast(FETCH, ctypes.c_void_p).value or 0)


def compile_block(block: Block, name: str = "f", prepare: Callable[[Block], Block] | None = None) -> NativeExecutable:
    """The native program of a block, which `prepare` makes ready to be written; UnsupportedError if it cannot be one."""
    if not outside.available():
        raise UnsupportedError("this Python keeps its objects in another form")
    if any(isinstance(param.type, TensorSpec) and param.type.shape is UNKNOWN for param in block.params):
        raise UnsupportedError("the rank of an input is not known")
    if prepare is None:
        return NativeExecutable(block, lambda prepared: prepared, name)
    key = kept_programs.key_of(block)
    library = None if key is None else kept_programs.load(key)
    executable = NativeExecutable(block, prepare, name, library)
    if key is not None and library is None and executable.can_be_kept:
        program = executable.program
        kept_programs.store(key, program.source, program.level, program.declared, program.constants)
    return executable
