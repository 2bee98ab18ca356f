"""Functions of the runtime, written as one reads them: typed pointers, variables, structured control flow, atomics, calls.

`algebra.py` has numbers with Python's operators; here are the other words that an allocator, a thread pool or a matrix product
is written in. A `Pointer` knows the type of what it points to and is read and written like a list; a `Member` is a part of a
structure. A `Builder` writes one function: `if_`, `if_else`, `switch`, `loop` and `forever` make the blocks and the branches.
What changes lives in variables on the stack, which LLVM's cheapest pass turns into registers and phis (`machine.py`, level 0).

A routine is a Python function of a builder and of its parameters. Its LLVM signature is read off the annotations, and calling
it from another routine writes a call:

    @MEMORY.routine
    def gt_release(f: Builder, context: Pointer, data: Pointer) -> None:
        f.leave_if(data.is_null())
        ...

One invariant: nothing is written to a block that has ended, by a return or by leaving a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import wraps
from types import CodeType
from typing import Annotated, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, get_args, get_type_hints, overload

from gradtape.backends.llvm.writing.algebra import I8, I32, I64, Flag, Integer, Kind, Register, Whole
from gradtape.backends.llvm.writing.ir_text import ModuleText, Writer

T = TypeVar("T")
U = TypeVar("U")
P = ParamSpec("P")

Number = Whole | int
Int32 = Annotated[Whole, I32]  # in annotations of routines, where a `Whole` has 64 bits


@dataclass(frozen=True, slots=True)
class Simple(Generic[T]):
    """A type whose registers know nothing but themselves."""

    type: str
    make: Callable[[Writer, str], T]
    align: int = 8

    def literal(self, value: float) -> str:
        return "null" if self.type == "ptr" else str(bool(value)).lower()

    def wrap(self, writer: Writer, register: str) -> T:
        return self.make(writer, register)


@dataclass(frozen=True, slots=True)
class Member(Generic[T]):
    """A part of a structure: how many bytes from its start, and the type."""

    offset: int
    kind: Kind[T]


@dataclass(slots=True)
class Pointer(Generic[T]):
    """An address and what lies there; bytes unless it says otherwise."""

    writer: Writer
    register: str
    kind: Kind[T] = I8  # type: ignore[assignment]  # a pointer to bytes, whatever the annotation says

    @property
    def type(self) -> str:
        return "ptr"

    def operand(self, other: Pointer[Any]) -> str:
        return other.register

    def like(self, register: str) -> Pointer[T]:
        return Pointer(self.writer, register, self.kind)

    def to(self, kind: Kind[U]) -> Pointer[U]:
        return Pointer(self.writer, self.register, kind)

    def at(self, index: Number) -> Pointer[T]:
        """Where an element is."""
        if isinstance(index, int) and index == 0:
            return self
        step = operand(I64, index)
        return self.like(self.writer.let(f"getelementptr inbounds {self.kind.type}, ptr {self.register}, i64 {step}"))

    def field(self, field: Member[U]) -> Pointer[U]:
        return self.to(I8).at(field.offset).to(field.kind)

    # --- reading and writing

    @overload
    def __getitem__(self, index: Number) -> T: ...
    @overload
    def __getitem__(self, index: Member[U]) -> U: ...
    def __getitem__(self, index: Number | Member[U]) -> T | U:
        return self.field(index).value if isinstance(index, Member) else self.at(index).value

    def __setitem__(self, index: Number | Member[Any], value: Register | float) -> None:
        place: Pointer[Any] = self.field(index) if isinstance(index, Member) else self.at(index)
        place.value = value

    def _load(self, word: str, order: str) -> T:
        text = f"{word} {self.kind.type}, ptr {self.register}{order}, align {self.kind.align}"
        return self.kind.wrap(self.writer, self.writer.let(text))

    def _store(self, word: str, value: T | float, order: str) -> None:
        text = f"{word} {self.kind.type} {operand(self.kind, value)}, ptr {self.register}{order}, align {self.kind.align}"
        self.writer.do(text)

    @property
    def value(self) -> T:
        return self._load("load", "")

    @value.setter
    def value(self, value: T | float) -> None:
        self._store("store", value, "")

    # --- atomics: all threads see them in one order

    @property
    def atomic(self) -> T:
        return self._load("load atomic", " seq_cst")

    @atomic.setter
    def atomic(self, value: T | float) -> None:
        self._store("store atomic", value, " seq_cst")

    def fetch(self, operation: str, value: T | float) -> T:
        """Change what is there by `add`, `sub`, `or` or `xchg`; gives what was there."""
        text = f"atomicrmw {operation} ptr {self.register}, {self.kind.type} {operand(self.kind, value)} seq_cst"
        return self.kind.wrap(self.writer, self.writer.let(text))

    def compare_exchange(self, old: T | float, new: T | float) -> Flag:
        """Put a new value where the old one is; whether it was there."""
        type = self.kind.type
        values = f"{type} {operand(self.kind, old)}, {type} {operand(self.kind, new)}"
        pair = self.writer.let(f"cmpxchg ptr {self.register}, {values} seq_cst seq_cst")
        return Flag(self.writer, self.writer.let(f"extractvalue {{ {type}, i1 }} {pair}, 1"))

    # --- the address itself, and memory behind it

    def equals(self, other: Pointer[Any]) -> Flag:
        return Flag(self.writer, self.writer.let(f"icmp eq ptr {self.register}, {other.register}"))

    def is_null(self) -> Flag:
        return Flag(self.writer, self.writer.let(f"icmp eq ptr {self.register}, null"))

    def as_number(self) -> Whole:
        return I64.wrap(self.writer, self.writer.let(f"ptrtoint ptr {self.register} to i64"))

    def fill(self, byte: int, count: Number) -> None:
        self.writer.do(f"call void @llvm.memset.p0.i64(ptr {self.register}, i8 {byte}, i64 {operand(I64, count)}, i1 false)")

    def copy_from(self, source: Pointer[Any], count: Number) -> None:
        pointers = f"ptr {self.register}, ptr {source.register}"
        self.writer.do(f"call void @llvm.memcpy.p0.p0.i64({pointers}, i64 {operand(I64, count)}, i1 false)")


PTR: Simple[Pointer[Any]] = Simple("ptr", Pointer)
FLAG: Simple[Flag] = Simple("i1", Flag, 1)
VOID: Simple[None] = Simple("void", lambda writer, register: None)


def operand(kind: Kind[Any], value: Any) -> str:
    """A register, or a Python number as a constant; None is the null pointer."""
    return kind.literal(value or 0) if value is None or isinstance(value, (int, float)) else value.register


# -- functions


class Repeat:
    """A loop whose body says when it ends."""

    def __init__(self, builder: Builder, after: str) -> None:
        self._builder = builder
        self._after = after

    def leave(self) -> None:
        self._builder.end(f"br label %{self._after}")

    def leave_if(self, flag: Flag) -> None:
        with self._builder.if_(flag):
            self.leave()


class Builder:
    """One function in the making."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.module = writer.module
        self._open = True  # whether the current block goes on

    # --- values

    def number(self, value: int, kind: Integer = I64) -> Whole:
        return kind.wrap(self.writer, str(value))

    def flag(self, value: bool) -> Flag:
        return Flag(self.writer, str(value).lower())

    def null(self) -> Pointer[Any]:
        return Pointer(self.writer, "null")

    def variable(self, kind: Kind[T], value: T | float) -> Pointer[T]:
        """A variable, which has its first value from here on; it becomes a register."""
        # memory, not a phi: LLVM's first pass makes registers of such cells, so no code here has to place phis
        place = self.array(kind, 1)
        place._store("store", value, "")
        return place

    def array(self, kind: Kind[T], count: int, align: int = 8) -> Pointer[T]:
        """Memory on the stack."""
        return Pointer(self.writer, self.writer.cell(kind.type, count, align), kind)

    def external(self, name: str) -> Pointer[Any]:
        """An object from outside."""
        return Pointer(self.writer, self.module.outside(name))

    # --- control flow

    def end(self, text: str) -> None:
        """The last instruction of the current block."""
        self.writer.do(text)
        self._open = False

    def leave(self, value: Register | None = None) -> None:
        """Return from here."""
        self.end("ret void" if value is None else f"ret {value.type} {value.register}")

    def leave_if(self, flag: Flag, value: Register | Callable[[Builder], Register] | None = None) -> None:
        """Return from here if the flag is set; a value that takes code to have is given by the function that writes it."""
        with self.if_(flag):
            self.leave(value(self) if callable(value) else value)

    def _start(self, label: str, before: str) -> None:
        """Go on at a label; the block so far goes to `before`, unless it has ended."""
        # a body that returned or left its loop has no way on: a second terminator would make the block invalid
        if self._open:
            self.writer.go(before)
        self.writer.start(label)
        self._open = True

    @contextmanager
    def if_(self, flag: Flag) -> Iterator[None]:
        then, after = self.writer.label("then"), self.writer.label("after")
        self.end(f"br i1 {flag.register}, label %{then}, label %{after}")
        self._start(then, then)
        yield
        self._start(after, after)

    @contextmanager
    def if_else(self, flag: Flag) -> Iterator[tuple[AbstractContextManager[None], AbstractContextManager[None]]]:
        """`with f.if_else(flag) as (then, otherwise):` gives two bodies, to be written in this order."""
        then, otherwise, after = (self.writer.label(stem) for stem in ("then", "else", "after"))

        @contextmanager
        def body(label: str) -> Iterator[None]:
            self._start(label, after)
            yield

        self.end(f"br i1 {flag.register}, label %{then}, label %{otherwise}")
        yield body(then), body(otherwise)
        self._start(after, after)

    def switch(self, value: Whole, cases: Mapping[int, Callable[[], None]]) -> None:
        """The case of a value; the last one if it is none of them."""
        labels = [self.writer.label("case") for _ in cases]
        after = self.writer.label("after")
        table = " ".join(f"{value.type} {number}, label %{label}" for number, label in zip(cases, labels, strict=True))
        # (callers list all cases: that the last one is also the default spares LLVM a comparison)
        self.end(f"switch {value.type} {value.register}, label %{labels[-1]} [ {table} ]")
        for label, write in zip(labels, cases.values(), strict=True):
            self._start(label, after)
            write()
        self._start(after, after)

    @contextmanager
    def loop(self, end: Number, start: Number = 0, step: int = 1) -> Iterator[Whole]:
        """Runs its body for start, start + step, … below `end`."""
        bounds = [number if isinstance(number, int) else number.register for number in (end, start)]
        with self.writer.loop(bounds[0], step, bounds[1]) as counter:
            yield I64.wrap(self.writer, counter)

    @contextmanager
    def forever(self) -> Iterator[Repeat]:
        """Runs its body again and again, until something in it leaves."""
        body, after = self.writer.label("forever"), self.writer.label("after")
        self._start(body, body)
        yield Repeat(self, after)
        self._start(after, body)

    # --- calls

    def call(self, name: str, result: Kind[T], kinds: Sequence[Kind[Any]], arguments: Sequence[Any]) -> T:
        listed = ", ".join(f"{kind.type} {operand(kind, value)}" for kind, value in zip(kinds, arguments, strict=True))
        text = f"call {result.type} {name}({listed})"
        if result.type != "void":
            return result.wrap(self.writer, self.writer.let(text))
        self.writer.do(text)
        return result.wrap(self.writer, "")


@dataclass(frozen=True, slots=True)
class Signature:
    """What a routine takes and gives."""

    result: Kind[Any]
    params: Mapping[str, Kind[Any]]

    @staticmethod
    def of(body: Callable[..., Any]) -> Signature:
        """That of a Python function whose first parameter is the builder."""
        key = body.__module__, body.__code__
        signature = _SIGNATURES.get(key)
        if signature is None:
            # the annotations of the Python function are the types of the native one: said once, and checked by mypy too
            hints = get_type_hints(body, include_extras=True)
            result = _kind(hints.pop("return"))
            signature = Signature(result, {name: _kind(hint) for name, hint in list(hints.items())[1:]})
            _SIGNATURES[key] = signature
        return signature

    def __str__(self) -> str:
        return f"{self.result.type} ({', '.join(kind.type for kind in self.params.values())})"


# Reading annotations takes 0.3 ms, and a program calls dozens of routines. By code: a closure is made anew for each program.
_SIGNATURES: dict[tuple[str, CodeType], Signature] = {}


def _kind(hint: Any) -> Kind[Any]:
    """The type that an annotation stands for; a parameter that may be a Python number is one of 64 bits."""
    if hint is type(None):
        return VOID
    if hint is Flag:
        return FLAG
    if hint is Pointer or getattr(hint, "__origin__", None) is Pointer:
        return PTR
    return next((part for part in get_args(hint) if isinstance(part, Integer)), I64)


def define(
    module: ModuleText, name: str, body: Callable[Concatenate[Builder, P], T], attributes: str = "nounwind"
) -> Callable[Concatenate[Builder, P], T]:
    """Write a function to a module; gives what writes calls of it. Names that begin with `gt_` are seen from other modules."""
    signature = Signature.of(body)
    params = ", ".join(f"{kind.type} %in.{param}" for param, kind in signature.params.items())
    linkage = "" if name.startswith("gt_") else "internal "
    writer = Writer(module, name, params, linkage + signature.result.type, attributes)
    f = Builder(writer)
    result = body(f, *[kind.wrap(writer, f"%in.{param}") for param, kind in signature.params.items()])  # type: ignore[call-arg]
    f.leave(cast("Register | None", result))
    writer.finish()
    return caller(name, body)


def caller(
    name: str,
    body: Callable[Concatenate[Builder, P], T],
    declare: Callable[[ModuleText], Any] = lambda module: None,
) -> Callable[Concatenate[Builder, P], T]:
    """What writes calls of a routine, after a word to the module that calls it."""

    @wraps(body)
    def call(f: Builder, *arguments: Any) -> Any:
        declare(f.module)
        signature = Signature.of(body)  # only now: most processes write no call of most routines
        return f.call(f"@{name}", signature.result, list(signature.params.values()), arguments)

    return cast("Callable[Concatenate[Builder, P], T]", call)


def external(name: str, result: Kind[T], *kinds: Kind[Any]) -> Callable[..., T]:
    """A function from outside, to be called like a routine."""

    def call(f: Builder, *arguments: Register | float | None) -> T:
        f.module.declare(name, f"{result.type} ({', '.join(kind.type for kind in kinds)})")
        return f.call(f"@{name}", result, kinds, arguments)

    return call
