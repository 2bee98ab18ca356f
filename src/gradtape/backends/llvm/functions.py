"""The functions of `math.py` and `special.py` by name, as functions of a module.

A method that holds for ordinary arguments only (`LIMITED`) branches to the C library's function for the others. Loops with such
a branch still use vectors: the C function has forms on vectors under a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape.backends.llvm import machine, math, special
from gradtape.backends.llvm.algebra import DOUBLE, FORMATS, Flag, Format, Real
from gradtape.backends.llvm.text import Module, Writer

Method = Callable[..., Real]


def in_double(method: Method) -> Method:
    """A function of float32 computed in float64."""
    return lambda *xs: method(*[x.as_format(DOUBLE) for x in xs]).as_format(xs[0].format)


BOTH: dict[str, Method] = {
    "exp": math.exp, "expm1": math.expm1, "log": math.log, "log1p": math.log1p, "tanh": math.tanh, "sin": math.sin,
    "cos": math.cos, "asin": math.asin, "acos": math.acos, "atan": math.atan, "atan2": math.atan2, "fmod": math.fmod,
    "erf": special.erf, "erfc": special.erfc, "ndtr": special.ndtr,
}  # fmt: skip
WIDE: dict[str, Method] = {
    "sinh": math.sinh, "cosh": math.cosh, "asinh": math.asinh, "acosh": math.acosh, "atanh": math.atanh, "tan": math.tan,
    "lgamma": special.lgamma, "digamma": special.digamma, "erfinv": special.erfinv, "erfcinv": special.erfcinv,
    "ndtri": special.ndtri,
}  # fmt: skip
METHODS: dict[str, dict[str, Method]] = {
    "f64": {**BOTH, **WIDE, "pow": math.pow},
    "f32": {**BOTH, **{name: in_double(method) for name, method in WIDE.items()}, "pow": math.pow_single},
}
ARGUMENTS = {"pow": 2, "atan2": 2, "fmod": 2}  # others have one
# where a method does not hold: the C library's function of the same name does
LIMITED: dict[str, Callable[..., Flag]] = {
    "sin": math.too_far, "cos": math.too_far, "tan": math.too_far, "fmod": math.long_quotient,
}  # fmt: skip


# a single number: these of the C library take less time, since they look at it first and have tables
SINGLE_NUMBERS = frozenset({"sin", "cos", "tan", "exp", "log", "pow", "erf"})
PURE = "nounwind willreturn memory(none)"


def call(w: Writer, name: str, suffix: str, operands: Sequence[str], alone: bool) -> str:
    """A call of a function; `alone`: of a single number, not one of many that vectors could hold."""
    kind = FORMATS[suffix].type
    arguments = ", ".join(f"{kind} {a}" for a in operands)
    if alone and name in SINGLE_NUMBERS:
        found = w.module.declare(_c_name(name, suffix), f"{kind} ({', '.join([kind] * len(operands))})")
        return w.let(f"call {kind} {found}({arguments}) {PURE}")
    return w.let(f"call {kind} {function(w.module, name, suffix)}({arguments})")


def _c_name(name: str, suffix: str) -> str:
    return name + ("f" if suffix == "f32" else "")


def function(module: Module, name: str, suffix: str) -> str:
    """The function of a module that computes a method; always inlined."""

    def make() -> str:
        f, count = FORMATS[suffix], ARGUMENTS.get(name, 1)
        params = ", ".join(f"{f.type} %x{k}" for k in range(count))
        w = Writer(module, f"gt.{name}.{suffix}", params, f"internal {f.type}", "alwaysinline nounwind")
        xs = [Real(w, f, f"%x{k}") for k in range(count)]
        result = METHODS[suffix][name](*xs)
        if name in LIMITED:
            result = _with_branch(module, name, xs, result)
        w.do(f"ret {f.type} {result.register}")
        return "\n".join([w.head, *w.lines, "}"])

    return module.library(f"gt.{name}.{suffix}", make)


def _with_branch(module: Module, name: str, xs: Sequence[Real], quick: Real) -> Real:
    """The quick result, and the C library's for arguments beyond its limits."""
    w, f = xs[0].writer, xs[0].format
    c_name = _c_name(name, f.suffix)
    module.declare(c_name, f"{f.type} ({', '.join([f.type] * len(xs))})")
    variants = ",".join(_masked(module, c_name, f, len(xs), lanes) for lanes in machine.lanes())
    rare = w.let(f"call i1 @llvm.expect.i1(i1 {LIMITED[name](*xs).register}, i1 false)")
    before, slow, after = w.current, w.label("slow"), w.label("after")
    w.branch(rare, slow, after)
    w.start(slow)
    arguments = ", ".join(f"{f.type} {x.register}" for x in xs)
    attributes = f'{PURE} "vector-function-abi-variant"="{variants}"'
    exact = w.let(f"call {f.type} @{c_name}({arguments}) {attributes}")
    w.go(after)
    w.start(after)
    return Real(w, f, w.let(f"phi {f.type} [ {quick.register}, %{before} ], [ {exact}, %{slow} ]"))


def _masked(module: Module, c_name: str, f: Format, count: int, lanes: int) -> str:
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


def _far(module: Module, c_name: str, f: Format, count: int) -> str:
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
        return "\n".join([w.head, *w.lines, "}"])

    return module.library(name, make)
