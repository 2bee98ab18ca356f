"""Programs as machine code: `compile_block(block)` gives an `NativeExecutable` with the interface of the NumPy backend's.

An error found by native code (an index out of range, a failed assertion, an exception in an `impl`) is raised by running the
program again on the reference backend, which says what eager code would say, with the user's line; if the program has effects,
which must not happen twice, the failing operation itself is named.
"""

from __future__ import annotations

import ctypes
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape import config
from gradtape.backends.llvm.entry import calling_convention, kept_programs, native_report as report, packing
from gradtape.backends.llvm.entry.conformity import check_results
from gradtape.backends.llvm.entry.stacked import StackedList
from gradtape.backends.llvm.entry.trampoline import HEARING
from gradtape.backends.llvm.runtime import machine, symbols as outside
from gradtape.backends.llvm.runtime.allocator import CALLBACK_FAILED
from gradtape.backends.llvm.runtime.notes import Note
from gradtape.backends.llvm.runtime.unsupported import UnsupportedError
from gradtape.core.hooks import HOOKS
from gradtape.errors import InternalError
from gradtape.ir.graph import Block, Operation
from gradtape.ir.types import UNKNOWN, TensorSpec
from gradtape.ir.walk import has_effect

if TYPE_CHECKING:
    from gradtape.backends.llvm.entry.written_program import WrittenProgram
    from gradtape.backends.llvm.runtime.callbacks import NumpyCall


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
            # here, as it imports planning, kernels and products, which programs on disk do without
            from gradtape.backends.llvm.entry.written_program import written

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
            from gradtape.backends.numpy import compile_block as reference_block

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
