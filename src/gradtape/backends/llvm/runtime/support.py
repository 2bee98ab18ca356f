"""Code that every program may call, compiled once in a process: programs name its functions and stay small.

A part is a set of routines (`builder.py`) and of variables that they share. It is written, and compiled or read from the object
cache, when the first program that needs it is written or loaded. Its module and its digest stand in the declaration of each
function: object code kept on disk finds it, and never meets another version of it.
"""

from __future__ import annotations

import copy
import ctypes
import hashlib
import threading
from collections.abc import Callable
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.writing.algebra import Kind
from gradtape.backends.llvm.writing.builder import Builder, Pointer, Signature, caller, define
from gradtape.backends.llvm.writing.ir_text import Index, ModuleText

_LOCK = threading.RLock()
machine.held_by_forks(_LOCK.acquire, _LOCK.release)
P = ParamSpec("P")
T = TypeVar("T")


class Part:
    """Routines that are compiled together; those whose names begin with `gt_` can be called from anywhere."""

    all: ClassVar[list[Part]] = []

    def __init__(self, home: str) -> None:
        """`home` is the module that makes it: a process that finds a program on disk imports what the program calls."""
        self.all.append(self)
        self._home = home
        self._module = ModuleText()
        self._bodies: dict[str, Callable[..., Any]] = {}
        self._digest = ""
        self._library: machine.Library | None = None

    def routine(self, body: Callable[Concatenate[Builder, P], T]) -> Callable[Concatenate[Builder, P], T]:
        """A decorator: the Python function writes the body, its name is the name."""
        return self.add(body.__name__, body)

    def add(self, name: str, body: Callable[Concatenate[Builder, P], T]) -> Callable[Concatenate[Builder, P], T]:
        """A routine by another name: one that is made for each type, or only when another calls it."""
        self._bodies[name] = body
        return caller(name, body, lambda module: module is self._module or self.use(module, name))

    def variable(self, name: str, kind: Kind[T], initial: int = 0, count: int = 1) -> Callable[[Builder], Pointer[T]]:
        """Memory that all threads share, on cache lines of its own."""
        linkage = "" if name.startswith("gt_") else "internal "
        type, value = (kind.type, kind.literal(initial)) if count == 1 else (f"[{count} x {kind.type}]", "zeroinitializer")
        self._module.globals.append(f"@{name} = {linkage}global {type} {value}, align 64")
        return lambda f: Pointer(f.writer, f"@{name}", kind)

    def use(self, module: ModuleText, name: str) -> str:
        """Declare a function in a module; gives the name to call."""
        self.load()
        return module.declare(name, f"{Signature.of(self._bodies[name])} nounwind ; {self._home} {self._digest}")

    def call(self, module: ModuleText, name: str, *operands: Index | None) -> str:
        """A call as text, for code that is written as text."""
        kinds = Signature.of(self._bodies[name])
        listed = ", ".join(f"{kind.type} {value}" for kind, value in zip(kinds.params.values(), operands, strict=True))
        return f"call {kinds.result.type} {self.use(module, name)}({listed})"

    def has(self, name: str, digest: str) -> bool:
        """Whether a function of this name is here, in the version that declarations with this digest mean."""
        if name not in self._bodies:
            return False
        self.load()
        return self._digest == digest

    def load(self) -> machine.Library:
        """The part as machine code, whose functions all modules know from now on."""
        with _LOCK:
            if self._library is None:
                blank = copy.deepcopy(self._module.__dict__)
                try:
                    self._library = self._compiled()
                except BaseException:  # Ctrl-C, or a stack that was nearly full: the next program writes it from the start
                    self._module.__dict__.update(blank)
                    raise
            return self._library

    def _compiled(self) -> machine.Library:
        written: list[str] = []
        while len(written) < len(self._bodies):  # a body that is being written may ask for more
            for name in [name for name in self._bodies if name not in written]:
                define(self._module, name, self._bodies[name])
                written.append(name)
        text = str(self._module)
        self._digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        library = machine.Library(text, level=0)  # it is written as it is to be
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))  # programs call it as long as the process lives
        for name in self._bodies:
            if name.startswith("gt_"):
                machine.symbol(name, library.address(name))
        return library
