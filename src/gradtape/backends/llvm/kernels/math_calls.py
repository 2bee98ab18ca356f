"""The functions of `math.py` and `special.py` as functions of a module.

A method that holds for ordinary arguments only (`beyond`) branches to the C library's function for the others. Loops with such
a branch still use vectors: the C function has forms on vectors under a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradtape.backends.llvm.runtime import machine
from gradtape.backends.llvm.writing import math, special_math as special
from gradtape.backends.llvm.writing.algebra import DOUBLE, FORMATS, Flag, Format, Real
from gradtape.backends.llvm.writing.ir_text import ModuleText, Writer

Method = Callable[..., Real]


@dataclass(frozen=True, slots=True, eq=False)
class MathFunction:
    """A function of numbers, and the method that computes it."""

    method: Method
    arguments: int = 1
    widened: bool = False  # float32 is computed in float64
    single: Method | None = None  # the method of float32, if that is another one
    beyond: Callable[..., Flag] | None = None  # where the method does not hold: the C library's function of the same name does
    alone: bool = False  # of a single number, the C library's takes less time: it looks at the number first and has tables

    @property
    def name(self) -> str:
        return self.method.__name__

    def of(self, xs: Sequence[Real]) -> Real:
        """The function of some numbers of one format, written out."""
        f = xs[0].format
        if f is DOUBLE or not (self.widened or self.single):
            return self.method(*xs)
        return self.single(*xs) if self.single else self.method(*[x.as_format(DOUBLE) for x in xs]).as_format(f)


EXP, EXPM1 = MathFunction(math.exp, alone=True), MathFunction(math.expm1)
LOG, LOG1P = MathFunction(math.log, alone=True), MathFunction(math.log1p)
POW = MathFunction(math.pow, 2, single=math.pow_single, alone=True)
SIN, COS = (MathFunction(method, beyond=math.too_far, alone=True) for method in (math.sin, math.cos))
TAN = MathFunction(math.tan, widened=True, beyond=math.too_far, alone=True)
ASIN, ACOS, ATAN, ATAN2 = MathFunction(math.asin), MathFunction(math.acos), MathFunction(math.atan), MathFunction(math.atan2, 2)
SINH, COSH, TANH = MathFunction(math.sinh, widened=True), MathFunction(math.cosh, widened=True), MathFunction(math.tanh)
ASINH, ACOSH, ATANH = (MathFunction(method, widened=True) for method in (math.asinh, math.acosh, math.atanh))
FMOD = MathFunction(math.fmod, 2, beyond=math.long_quotient)
ERF, ERFC, NDTR = MathFunction(special.erf, alone=True), MathFunction(special.erfc), MathFunction(special.ndtr)
LGAMMA, DIGAMMA = MathFunction(special.lgamma, widened=True), MathFunction(special.digamma, widened=True)
ERFINV, ERFCINV, NDTRI = (MathFunction(method, widened=True) for method in (special.erfinv, special.erfcinv, special.ndtri))

PURE = "nounwind willreturn memory(none)"
# How many calls of one function are inlined. A long program of them would be many times longer, and hardly quicker.
INLINED, INLINED_IN_LOOPS = 16, 16


def call(w: Writer, function: MathFunction, suffix: str, operands: Sequence[str], alone: bool) -> str:
    """A call of a function; `alone`: of a single number, not one of many that vectors could hold."""
    kind = FORMATS[suffix].type
    arguments = ", ".join(f"{kind} {a}" for a in operands)
    if alone and function.alone:
        c_function = w.module.declare(_c_name(function, suffix), f"{kind} ({', '.join([kind] * len(operands))})")
        return w.let(f"call {kind} {c_function}({arguments}) {PURE}")
    name, limit = f"gt.{function.name}.{suffix}", INLINED if alone else INLINED_IN_LOOPS
    apart = w.module.uses(f"{name} alone" if alone else name) > limit
    callee = _own(w.module, function, suffix, apart)
    on_vectors = ""
    if apart and not alone:
        variants = ",".join(_of_lanes(w.module, callee, function, suffix, n) for n in machine.lanes())
        on_vectors = f' {PURE} "vector-function-abi-variant"="{variants}"'
    return w.let(f"call {kind} {callee}({arguments}){on_vectors}")


def _c_name(function: MathFunction, suffix: str) -> str:
    return function.name + ("f" if suffix == "f32" else "")


def _own(module: ModuleText, function: MathFunction, suffix: str, apart: bool) -> str:
    """The function of a module that computes a method: inlined, so that loops use vectors; `apart`, it is called."""
    name, attributes = f"gt.{function.name}.{suffix}", "alwaysinline nounwind"
    if apart:
        name, attributes = f"{name}.apart", "noinline nounwind"
    return module.library(name, lambda: _method(module, function, suffix, name, attributes))


def _of_lanes(module: ModuleText, callee: str, function: MathFunction, suffix: str, lanes: int) -> str:
    """The form of a function on vectors that is called, not inlined: a loop over the lanes, which becomes vectors itself."""
    f, name, count = FORMATS[suffix], f"{callee[1:]}.{lanes}", function.arguments
    vector = f"<{lanes} x {f.type}>"

    def make() -> str:
        params = ", ".join(f"{vector} %x{k}" for k in range(count))
        w = Writer(module, name, params, f"internal {vector}", "noinline nounwind")
        cells = [w.cell(vector, align=64) for _ in range(count)]
        for k, cell in enumerate(cells):
            w.store(vector, f"%x{k}", cell)
        with w.loop(lanes) as lane:
            numbers = ", ".join(f"{f.type} {w.load(f.type, w.at(f.type, cell, lane))}" for cell in cells)
            result = w.let(f"call {f.type} {_own(module, function, suffix, False)}({numbers})")
            w.store(f.type, result, w.at(f.type, cells[0], lane))
        w.do(f"ret {vector} {w.load(vector, cells[0])}")
        return "\n".join([w.head, "start:", *w.cells, "  br label %body", *w.lines, "}"])

    module.library(name, make)
    module.keep(name)
    return f"_ZGV_LLVM_N{lanes}{'v' * count}_{callee[1:]}({name})"


def _method(module: ModuleText, function: MathFunction, suffix: str, name: str, attributes: str) -> str:
    f, count = FORMATS[suffix], function.arguments
    params = ", ".join(f"{f.type} %x{k}" for k in range(count))
    w = Writer(module, name, params, f"internal {f.type}", attributes)
    xs = [Real(w, f, f"%x{k}") for k in range(count)]
    result = function.of(xs)
    if function.beyond is not None:
        result = _with_branch(module, function, function.beyond(*xs), xs, result)
    w.do(f"ret {f.type} {result.register}")
    return w.text


def _with_branch(module: ModuleText, function: MathFunction, beyond: Flag, xs: Sequence[Real], quick: Real) -> Real:
    """The quick result, and the C library's for arguments beyond its limits."""
    w, f = xs[0].writer, xs[0].format
    c_name = _c_name(function, f.suffix)
    module.declare(c_name, f"{f.type} ({', '.join([f.type] * len(xs))})")
    variants = ",".join(_masked(module, c_name, f, len(xs), lanes) for lanes in machine.lanes())
    rare = w.let(f"call i1 @llvm.expect.i1(i1 {beyond.register}, i1 false)")
    before, slow, after = w.current, w.label("slow"), w.label("after")
    w.branch(rare, slow, after)
    w.start(slow)
    arguments = ", ".join(f"{f.type} {x.register}" for x in xs)
    attributes = f'{PURE} "vector-function-abi-variant"="{variants}"'
    exact = w.let(f"call {f.type} @{c_name}({arguments}) {attributes}")
    w.go(after)
    w.start(after)
    return Real(w, f, w.let(f"phi {f.type} [ {quick.register}, %{before} ], [ {exact}, %{slow} ]"))


def _masked(module: ModuleText, c_name: str, f: Format, count: int, lanes: int) -> str:
    """A form of a C function on vectors under a mask, as LLVM's vectoriser is told of it.

    If no lane is asked for, nothing is called: inlined into a loop (`machine.optimized` does that last), it is one branch that
    is never taken.
    """
    name, far, vector = f"gt.{c_name}{machine.MASKED}{lanes}", _far(module, c_name, f, count), f"<{lanes} x {f.type}>"
    params = ", ".join(f"{vector} %x{k}" for k in range(count))
    cells = "\n".join(f"  %a{k} = alloca {vector}" for k in range(count))
    stores = "\n".join(f"  store {vector} %x{k}, ptr %a{k}" for k in range(count))
    module.library(
        name,
        lambda: (
            f"""define internal {vector} @{name}({params}, <{lanes} x i1> %mask) alwaysinline nounwind {{
{cells}
  %some = call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> %mask)
  %rare = call i1 @llvm.expect.i1(i1 %some, i1 false)
  br i1 %rare, label %far, label %none
none:
  ret {vector} %x0
far:
{stores}
  call void {far}({", ".join(f"ptr %a{k}" for k in range(count))}, i64 {lanes})
  %found = load {vector}, ptr %a0
  ret {vector} %found
}}"""
        ),
    )
    module.keep(name)
    return f"_ZGV_LLVM_M{lanes}{'v' * count}_{c_name}({name})"


def _far(module: ModuleText, c_name: str, f: Format, count: int) -> str:
    """A C function of all numbers in memory, in place of the first arguments."""
    name = f"gt.{c_name}.far"

    def make() -> str:
        params = ", ".join(f"ptr %a{k}" for k in range(count))
        w = Writer(module, name, f"{params}, i64 %lanes", "internal void", "noinline cold nounwind")
        with w.loop("%lanes") as lane:
            places = [w.at(f.type, f"%a{k}", lane) for k in range(count)]
            arguments = ", ".join(f"{f.type} {w.load(f.type, place)}" for place in places)
            w.store(f.type, w.let(f"call {f.type} @{c_name}({arguments})"), places[0])
        w.do("ret void")
        return w.text

    return module.library(name, make)
