"""Code that every program may call, compiled once in a process: programs name its functions and stay small.

A part is a set of routines (`builder.py`) and of variables that they share. It is written, and compiled or read from the object
cache, when the first program that needs it is written or loaded. Its module and its digest stand in the declaration of each
function: object code kept on disk finds it, and never meets another version of it.
"""

from __future__ import annotations

import copy
import ctypes
import threading
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from gradtape.backends import object_cache
from gradtape.backends.llvm.runtime import machine, symbols
from gradtape.backends.llvm.writing.algebra import Kind
from gradtape.backends.llvm.writing.builder import Builder, Pointer, Signature, caller, define
from gradtape.backends.llvm.writing.ir_text import Index, ModuleText

_LOCK = threading.RLock()
machine.held_by_forks(_LOCK.acquire, _LOCK.release)
P = ParamSpec("P")
T = TypeVar("T")
KIND, CONSTANT = "p", "c"
LEVEL = 0  # of LLVM's passes: a part is written as it is to be
END = "\0"  # of each text in a file
PRODUCTS = "gradtape.backends.llvm.products"
LIBRARIES = {"gt_mm_": "gemm", "gt_windows_": "gemm", "gt_depthwise_": "depthwise"}  # parts that are made for each type


class Part:
    """Routines that are compiled together; those whose names begin with `gt_` can be called from anywhere."""

    all: ClassVar[list[Part]] = []

    def __init__(self, home: str, long: bool = False) -> None:
        """`home` is the module that makes it: a process that finds a program on disk imports what the program calls. A `long`
        text is not written where its machine code is on disk: it must follow from gradtape's source and the processor."""
        self.all.append(self)
        self._home = home
        self._long = long
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
        key = machine.key_of(f"{self._home} {sorted(self._bodies)}", object_cache.makers()) if self._long else ""
        text_key, library = (kept_code(key) if key else None) or self._written(key)
        self._digest = text_key[:16]
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(library))  # programs call it as long as the process lives
        for name in self._bodies:
            if name.startswith("gt_"):
                machine.symbol(name, library.address(name))
        return library

    def _written(self, key: str) -> tuple[str, machine.Library]:
        """The key of its text, and its machine code, which the next process finds by another key if there is one."""
        written: list[str] = []
        while len(written) < len(self._bodies):  # a body that is being written may ask for more
            for name in [name for name in self._bodies if name not in written]:
                define(self._module, name, self._bodies[name])
                written.append(name)
        text = str(self._module)
        library = machine.Library(text, LEVEL)
        if key:
            keep(key, text, LEVEL, self._module.declared, {})
        return machine.key_of(text, LEVEL), library


def kept_code(key: str) -> tuple[str, machine.Library] | None:
    """The machine code that was kept under a key, and the key of its text; None if it is not there, or was written for another
    world: if a name that it needs does not mean here what it meant there."""
    kept = object_cache.load(key, KIND)
    if kept is None:
        return None
    object_key, level, *texts = kept.decode().split(END)
    declared = [*zip(texts[::2], texts[1::2], strict=True)]
    data = [name for name, _ in declared if name.startswith(machine.DATA)]
    raws = [object_cache.load(name.removeprefix(machine.DATA), CONSTANT) for name in data]
    constants = {name: raw for name, raw in zip(data, raws, strict=True) if raw is not None}
    if len(constants) < len(data) or not all(_is_known(*named) for named in declared if named[0] not in constants):
        return None
    code = object_cache.load(object_key)
    return None if code is None else (object_key, machine.Library("", int(level), code, constants))


def _is_known(name: str, declaration: str) -> bool:
    """Whether a name means here what it meant there; what makes it known is done as if the program were written now."""
    _, _, part = declaration.partition(" ; ")
    if part:
        home, digest = part.split()
        module = import_module(home)
        if name == "gt_parallel":
            module.pool()
        for prefix, library in LIBRARIES.items():
            if name.startswith(prefix):
                import_module(f"{PRODUCTS}.{library}").library(name.rpartition("_")[2])
        return any(each.has(name, digest) for each in Part.all)
    if name.startswith("llvm."):
        return True
    if not machine.knows(name):
        symbols.introduce(name)
    return machine.knows(name)


def keep(key: str, source: str, level: int, declared: dict[str, str], constants: dict[str, bytes]) -> None:
    """Keep where machine code is, the names that it needs, and its long constants."""
    for name, raw in constants.items():
        object_cache.store(name.removeprefix(machine.DATA), raw, CONSTANT)
    texts = [text for named in declared.items() for text in named]
    object_cache.store(key, END.join([machine.key_of(source, level), str(level), *texts]).encode(), KIND)
