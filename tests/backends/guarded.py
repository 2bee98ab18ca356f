"""Native programs between inaccessible pages: whatever they read or write next to an array ends the process.

Run as `python -m tests.backends.guarded FRAME NAME…` by `test_native_guards.py`. Inputs, results, and memory that native code
takes while it runs lie directly before a page without access rights, and in a second run directly after one; what is left of
their own pages has a pattern that must not change, and memory that is given back is gone. With FRAME `apart`, what lies in
the frame or on the stack of a call lies between such pages too, each array by itself; with `whole`, the code is as it
always is. A line is printed before and after each program, so that whoever reads them knows which one ended the process.
"""

from __future__ import annotations

import ctypes
import faulthandler
import functools
import mmap
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradtape.backends.llvm import compile_block
from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.values import MemorySlot
from gradtape.backends.llvm.runtime import allocator, machine
from gradtape.backends.numpy import compile_block as reference_block
from gradtape.functions import compiled
from gradtape.ir.graph import Block
from gradtape.ir.walk import has_effect
from gradtape.passes.pipeline import prepared
from tests.backends.agreement import agree, copied, size_of

PAGE = mmap.PAGESIZE
PATTERN = 0xA5
SET_HANDLER = 304  # place in NumPy's table of functions

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Pages:
    """Memory between inaccessible pages, directly before one or directly after one (`before`)."""

    def __init__(self) -> None:
        self.before = True
        self.taken: dict[int, tuple[int, int, int, int]] = {}  # by address: (start, bytes, owner, bytes before it)
        self.spoilt: list[str] = []

    def take(self, count: int, owner: int = 0) -> int:
        room = -(-max(count, 1) // PAGE) * PAGE
        whole = room + 2 * PAGE
        start = _libc.mmap(None, whole, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if start in (None, ctypes.c_void_p(-1).value):
            return 0
        _libc.mprotect(start, PAGE, 0)
        _libc.mprotect(start + PAGE + room, PAGE, 0)
        ctypes.memset(start + PAGE, PATTERN, room)
        ahead = room - count if self.before else 0
        self.taken[start + PAGE + ahead] = (start, count, owner, ahead)
        return int(start + PAGE + ahead)

    def give(self, address: int) -> None:
        start, count, _, ahead = self.taken.pop(address)
        room = -(-max(count, 1) // PAGE) * PAGE
        rest = ctypes.string_at(start + PAGE + (0 if ahead else count), room - count)
        if rest != bytes([PATTERN]) * (room - count):
            self.spoilt.append(f"written next to {count} bytes")
        _libc.munmap(start, room + 2 * PAGE)

    def clear(self, owner: int) -> None:
        for address in [a for a, (_, _, who, _) in self.taken.items() if who == owner]:
            self.give(address)

    def array(self, value: Any) -> Any:
        """A copy of an array there."""
        address = self.take(value.nbytes)
        made = np.frombuffer((ctypes.c_char * value.nbytes).from_address(address), value.dtype).reshape(value.shape)
        made[...] = value
        return made


class _Handler(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 127), ("version", ctypes.c_uint8), ("ctx", ctypes.c_void_p), ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p), ("realloc", ctypes.c_void_p), ("free", ctypes.c_void_p),
    )  # fmt: skip


class Guard:
    """Everything that gives native code its memory, replaced."""

    def __init__(self) -> None:
        self.pages = pages = Pages()
        self._kept: list[Any] = []
        pointer, size = ctypes.c_void_p, ctypes.c_size_t

        def calloc(_: int, number: int, each: int) -> int:
            address = pages.take(number * each)
            ctypes.memset(address, 0, number * each)
            return address

        def realloc(_: int, old: int, count: int) -> int:
            address = pages.take(count)
            if old:
                ctypes.memmove(address, old, min(count, pages.taken[old][1]))
                pages.give(old)
            return address

        def free(address: int | None) -> None:
            if address:
                pages.give(address)

        handler = _Handler(
            b"guarded", 1, None,
            self._address(lambda _, count: pages.take(count), pointer, pointer, size),
            self._address(calloc, pointer, pointer, size, size),
            self._address(realloc, pointer, pointer, pointer, size),
            self._address(lambda _, address, count: free(address), None, pointer, pointer, size),
        )  # fmt: skip
        self._kept.append(handler)
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self._capsule = capsule(ctypes.addressof(handler), b"mem_handler", None)
        from numpy._core import _multiarray_umath  # type: ignore[attr-defined]

        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        table = ctypes.cast(get(_multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
        self._set = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(table[SET_HANDLER] or 0)
        allocator.MEMORY.load()  # whose functions are replaced for the code that is loaded from now on
        for name, address in (
            ("aligned_alloc", self._address(lambda _, count: pages.take(count), pointer, size, size)),
            ("free", self._address(free, None, pointer)),
            ("gt_allocate", self._address(lambda owner, count: pages.take(count, owner), pointer, pointer, size)),
            ("gt_release", self._address(lambda _, address: free(address), None, pointer, pointer)),
            ("gt_cleanup", self._address(pages.clear, None, pointer)),
        ):
            machine.symbol(name, address)

    def _address(self, function: Any, *signature: Any) -> int:
        made = ctypes.CFUNCTYPE(*signature)(function)
        self._kept.append(made)
        return ctypes.cast(made, ctypes.c_void_p).value or 0

    @contextmanager
    def results(self) -> Iterator[None]:
        """Arrays that are made now are guarded."""
        before = self._set(self._capsule)
        try:
            yield
        finally:
            self._set(before)


def keep_apart() -> None:
    """Code that is written from now on takes memory for each array by itself, not from its frame."""
    take = Scope.take

    def guarded_take(self: Any, count: Any) -> Any:
        if isinstance(count, int):
            return MemorySlot(None, count, self.program.allocated(count))
        return take(self, count)

    Scope.take = guarded_take  # type: ignore[method-assign]


class Guarded:
    """A program that runs between guards and agrees with the reference."""

    native = None
    instead = None

    def __init__(self, guard: Guard, block: Block, name: str) -> None:
        self.guard, self.name = guard, name
        self.natively, self.reference = compile_block(block, name), reference_block(block, name)
        self.effects = any(has_effect(operation) for operation in block.operations)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        expected: Any = None
        if not self.effects:
            try:
                expected = self.reference(*[copied(value) for value in arrays])
            except Exception as error:
                expected = error
        for before in (True,) if self.effects else (True, False):
            self.guard.pages.before = before
            found = self._agreeing(arrays, expected)
        return found

    def _agreeing(self, arrays: Sequence[Any], expected: Any) -> tuple[Any, ...]:
        where = f"{self.name}, {'before' if self.guard.pages.before else 'after'} a page"
        try:
            found = self.run_guarded(arrays)
        except Exception as error:
            if self.effects or (isinstance(expected, Exception) and str(error) == str(expected)):
                raise
            raise AssertionError(f"{where}, fails natively: {error}; expected: {expected}") from error
        if self.effects:
            return found
        assert not isinstance(expected, Exception), f"{where}, does not fail: {expected}"
        size = size_of([*arrays, *expected])
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            agree(a, b, f"{where}, result {i}", size)
        return found

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        return self(*arrays)

    def run_guarded(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Inputs and results between guards; the results are copied out of there."""
        made, pages = self.natively, self.guard.pages
        given = made._unlisted(arrays) if made._takes_lists else list(arrays)
        moved: list[Any] = []
        for value in given:
            guardable = isinstance(value, np.ndarray) and value.flags.c_contiguous and value.nbytes and value.dtype.kind != "O"
            twin = next((m for m, v in zip(moved, given, strict=False) if v is value), None)  # one array given twice stays one
            moved.append(value if not guardable else pages.array(value) if twin is None else twin)
        with self.guard.results():
            found = made._entry(*moved)
            if found.__class__ is tuple:
                results = made._listed(found) if made._has_lists else found
        if found.__class__ is not tuple:  # what NumPy raises gets lost where Python gives back its memory
            results = made._otherwise(found, moved, arrays)
        for before, after in zip(given, moved, strict=True):
            if isinstance(before, np.ndarray):
                np.testing.assert_array_equal(after, before, err_msg=f"{self.name}: an input was changed")
        answer = tuple([copied(value) for value in results])
        del found, results
        for address in {m.ctypes.data for m, v in zip(moved, given, strict=True) if m is not v}:
            pages.give(address)
        assert not pages.spoilt, f"{self.name}: {pages.spoilt}"
        return answer

    def listen(self, listener: Any) -> list[int]:
        """Nobody is told of floating-point events."""
        return [0, 0, 0]

    def report(self) -> list[str]:
        return self.natively.report()


def main(frame: str, names: Sequence[str]) -> None:
    from tests.backends.guarded_programs import PROGRAMS, WRONG

    faulthandler.enable()
    guard = Guard()
    if frame == "apart":
        keep_apart()
    make = functools.partial(Guarded, guard)
    compiled.executable = lambda block, name, backend=None: make(prepared(block), name)  # type: ignore[assignment]
    for name in names:
        print("run", name, flush=True)
        guard.pages.spoilt.clear()
        try:
            (PROGRAMS | WRONG)[name](make)
        except Exception:
            print("bad", name, repr("".join(traceback.format_exception(*sys.exc_info(), limit=-6))), flush=True)
        else:
            print("good", name, flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
