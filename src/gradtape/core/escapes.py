"""Watched values that would leave their tape without a word: refused, with the line and the cure.

No tape can follow a NumPy array. Whoever writes `t.numpy()`, `np.asarray(t)` or `float(t)` leaves the tape on purpose. Storing
a tensor into an array (`r[i] = t`), making an array of a list of tensors, or handing a tensor to a method of an array
(`a.dot(t)`) and to functions of NumPy or SciPy that convert their arguments is not meant so, and its gradient would silently
be wrong. All these reach a tensor through the same few methods (`__array__`, `__float__`, …); which of them it was is read
from the instruction that the calling frame executes. Only values that an active recorder watches are refused, and only what is
recognised for certain: libraries that draw and print get the values.

What is left in doubt gets the values, and a warning once it is known that they went: `math.sin(t)` at once; the array that a
call which cannot be read asked for (`np.asarray(f(x))`: of one tensor, or of a list?) when it is dropped before that call is
over, as happens to the items of a list, and never to the array of one tensor.
"""

from __future__ import annotations

import array
import dis
import inspect
import linecache
import operator
import os
import weakref
from collections.abc import Callable, Iterator
from sys import _getframe
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np

from gradtape.core.exits import ARRAY_LIBRARIES, LIBRARIES, LOOKING_ONLY
from gradtape.core.record import INTERNAL, SCOPE, Record, warn_at
from gradtape.errors import GradientWarning

_STANDARD = os.path.join(os.path.dirname(inspect.__file__), "")  # Python's own modules; other packages lie below, elsewhere
_DRAWING = {"matplotlib", "mpl_toolkits", "seaborn", "plotly", "bokeh", "altair", "PIL", "IPython", "tqdm", "rich"}
# NumPy's functions whose results carry no derivative
_COUNTING = {
    "all", "allclose", "any", "argmax", "argmin", "argsort", "array_equal", "array_equiv", "array_repr", "array_str",
    "array2string", "count_nonzero", "isclose", "ndim", "save", "savetxt", "savez", "shape", "size",
}  # fmt: skip
# functions of math and cmath that are constant in pieces, or ask
_PIECEWISE = {"ceil", "floor", "isclose", "isfinite", "isinf", "isnan", "isqrt", "trunc"}
_OPERATIONS = (
    "gradtape.ops.",
    "gradtape.core.arguments",
    "gradtape.train.optimizers.",
)  # where float(t) is no wish of the user's
_STORES = {"STORE_SUBSCR", "STORE_SLICE", "STORE_ATTR"}
_CALLS = {"CALL", "CALL_KW", "CALL_FUNCTION_EX", "PRECALL"}
_LOADS = {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_AND_CLEAR", "LOAD_DEREF", "LOAD_CLASSDEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_ASIDE = {"PUSH_NULL", "PRECALL", "KW_NAMES", "LOAD_CONST", "NOP", "EXTENDED_ARG"}  # in the text of a name, but no part of it
_LISTS = {"BUILD_LIST", "BUILD_TUPLE", "LIST_EXTEND", "LIST_TO_TUPLE"}
# functions that make an array of one tensor on purpose, and do nothing else
_CONVERTERS = (np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray)
_LAYOUTS = {"ascontiguousarray": "c_contiguous", "asfortranarray": "f_contiguous"}  # copied if it has another
# methods that arrays have in C and that convert their arguments: recognised by name where the array itself is not known
_METHODS = {"choose", "dot", "fill", "itemset", "put", "searchsorted", "setfield", "__setitem__"}
_DRAWS = {"beta", "choice", "dirichlet", "exponential", "gamma", "laplace", "lognormal", "multivariate_normal", "normal",
          "poisson", "uniform"}  # of random generators, the same  # fmt: skip
_CURES = {
    "dot": "np.dot(a, t) or a @ t", "fill": "gt.fill(shape, t)", "full": "gt.fill(shape, t) or np.full(shape, t, like=t)",
    "put": "a tensor: x[indices] = t", "array": "gt.stack([...])", "asarray": "gt.stack([...])",
    "normal": "loc + scale * rng.normal(size=...)", "uniform": "low + (high - low) * rng.uniform(size=...)",
    "r_": "np.concatenate, np.hstack or np.column_stack",
}  # fmt: skip


class EscapeSite(NamedTuple):
    """An instruction that a value may leave by: its kind, and of a call the names that lead to what is called and to its first
    argument (empty where they cannot be read), whether that is a list, and which of NumPy's keywords the call gives."""

    kind: str  # "store", "operator", "call", "comparison" or "other"
    callee: tuple[str, ...] = ()
    method: str = ""  # the attribute that is called, known even if the object is not
    argument: tuple[str, ...] = ()
    lists: bool = False
    keywords: frozenset[str] = frozenset()
    code: CodeType | None = None  # holds the code, so that its number stays its own


_SITES: dict[tuple[int, int], EscapeSite] = {}
_FOLLOWED: dict[int, weakref.ref[Any]] = {}  # arrays in doubt that are alive


class Doubt(NamedTuple):
    """An instruction that took an array of a tensor: on purpose if the array outlives it."""

    code: CodeType
    lasti: int
    line: int
    label: str  # of what was called
    layout: str  # the flag of an array that would be passed on as it is; empty for any

    def follow(self, taken: np.ndarray[Any, Any]) -> None:
        """Watch what becomes of the array that is handed out."""
        # NumPy copies it anyway, so that it lives no longer than the call: that it goes tells nothing
        if self.layout and not getattr(taken.flags, self.layout):
            return

        def dropped(reference: weakref.ref[Any]) -> None:
            _FOLLOWED.pop(id(reference), None)
            # Dropped while the same instruction still runs: the array was a step on the way to something else, of which the
            # user has no sign.
            frame = _getframe(0).f_back
            if frame is not None and frame.f_code is self.code and frame.f_lasti == self.lasti:
                _warn(
                    frame,
                    self.line,
                    f"gives {self.label} a list with a tensor that a tape watches, or the tensor to be copied",
                    _LIST_CURE,
                )

        reference = weakref.ref(taken, dropped)
        _FOLLOWED[id(reference)] = reference


def watched(node: Record | None) -> bool:
    """Whether somebody who records here and now watches this version."""
    scope = SCOPE.get()
    return scope is not None and node is not None and not set(scope.keys).isdisjoint(node.keys)


def refuse_escape(node: Record | None, how: str, copied: bool = False, depth: int = 2) -> Doubt | None:
    """Called by the method (`how`) with which somebody takes the value of a watched version: raises if that was not meant.
    Where that cannot be known yet, the answer is a `Doubt` that follows the array.

    `copied`: NumPy asked for a copy, which it does for an array of one object, not for the items of a list. `depth`: of the
    frame that asks, from here.
    """
    frame = _getframe(depth)
    verdict = _verdict(frame, how, copied)
    if verdict is None or not (node is None or _has_derivative(node)):
        return None
    if isinstance(verdict, Doubt):
        return verdict
    if isinstance(verdict, str):
        while frame.f_code.co_filename.startswith(_STANDARD) and frame.f_back is not None:  # statistics.fmean calls math.fsum
            frame = frame.f_back
        said = f"gives {verdict} a tensor that a tape watches, which becomes a number there"
        _warn(frame, frame.f_lineno, said, _number_cure(verdict))
        return None
    raise verdict


def _has_derivative(node: Record) -> bool:
    """Whether a version depends on a watched one by operations that have a derivative: not behind `stop_gradient`."""
    scope = SCOPE.get()
    recorders = [] if scope is None else [r for r in scope.recorders if r.key in node.keys]
    if recorders and not any(r.key.holds for r in recorders):  # accumulators keep tangents, not how they came about
        return any(r.carries(node) for r in recorders)
    # Back along the records until a leaf: one path of differentiable operations is enough.
    seen: set[Record] = set()
    stack = [node]
    while stack:
        record = stack.pop()
        if record.op is None or (record.op.differentiable and not record.nodes):
            return True
        if record not in seen and record.op.differentiable:
            seen.add(record)
            stack += [n for n in record.nodes if n is not None and n.keys]
    return False


def _verdict(frame: FrameType, how: str, copied: bool) -> TypeError | Doubt | str | None:
    """The error for what the frame does, None if it leaves the tape on purpose, what it calls if that only takes a number."""
    code = frame.f_code
    if code.co_filename in INTERNAL:
        return _inside_operation(frame) if how in ("__float__", "__complex__") else None
    if _is_drawing(frame):
        return None
    if code.co_filename.startswith(LIBRARIES):
        return _inside_library(frame)
    site = _site(frame)
    if site.kind == "store":
        return _lost(
            frame, "stores a tensor that a tape watches into a NumPy array",
            "make the array a tensor, which can be written to in the same way: gt.zeros(shape, dtype) or np.zeros_like(x) "
            "instead of np.zeros or np.empty",
        )  # fmt: skip
    if site.kind == "operator" and how == "__array__":
        return _of_list(frame, "an operator of NumPy")
    if site.kind == "call":
        return _by_call(frame, site, how, copied)
    return _doubt(frame, "what is called there") if site.kind == "other" and how == "__array__" else None


def _doubt(frame: FrameType, label: str, layout: str = "") -> Doubt:
    return Doubt(frame.f_code, frame.f_lasti, frame.f_lineno, label, layout)


def _inside_library(frame: FrameType) -> TypeError | None:
    """A function of NumPy, SciPy, pandas or their like that is written in Python converts its argument."""
    # Up to the outermost function of the library: the one that the user called, by the name that the message must say.
    inner: FrameType | None = frame
    function: Any = None
    while inner is not None and inner.f_code.co_filename.startswith(LIBRARIES):
        if inner.f_code.co_filename.startswith(LOOKING_ONLY):
            return None
        function = inner
        inner = inner.f_back
    if inner is None or inner.f_code.co_filename in INTERNAL or _is_drawing(inner):
        return None
    code = function.f_code
    module = str(function.f_globals.get("__name__", ""))
    if module.startswith("numpy") and code.co_name in _COUNTING:
        return None
    return (
        _by_other(inner, module, code) if module.startswith(ARRAY_LIBRARIES) else _by_function(inner, module, code.co_qualname)
    )


def _inside_operation(frame: FrameType) -> TypeError | None:
    """A function of our own that takes a number where it is given a tensor: `norm(x, ord=t)`."""
    module, called = str(frame.f_globals.get("__name__", "")), frame
    if not module.startswith(_OPERATIONS):
        return None
    while called.f_back is not None and called.f_back.f_code.co_filename in INTERNAL:
        called = called.f_back
    if called.f_back is None:
        return None
    name = called.f_code.co_name if called.f_code.co_name != "__init__" else type(called.f_locals.get("self")).__name__
    what = f"gives {name} a tensor that a tape watches where it takes a number, for which it has no derivative"
    return _lost(called.f_back, what, "give it a number, or gt.stop_gradient(t)")


def _by_other(frame: FrameType, module: str, code: CodeType) -> TypeError | None:
    """A library of arrays. Who makes a table of a tensor (`pd.Series(t)`) wants the values, as with `np.asarray(t)`."""
    home, kind = module.partition(".")[0], _site(frame).kind
    if kind == "comparison" or code.co_name in ("__init__", "__new__", "array", "asarray", "device_put"):
        return None
    cure = "compute with arrays, as in a.to_numpy() * t, which gives a tensor, or use a gradtape function"
    if kind == "store":
        return _lost(frame, f"stores a tensor that a tape watches into an object of {home}", cure)
    called = f"an operator of {home}" if kind == "operator" else f"{home}'s {code.co_name}"
    return _lost(frame, f"gives {called} a tensor that a tape watches, which becomes a NumPy array there", cure)


def _by_function(frame: FrameType, module: str, name: str) -> TypeError:
    """`module` and `name` are where the function is written, which is not always where its users find it."""
    parts = [part for i, part in enumerate(module.split(".")) if i == 0 or not part.startswith("_")]
    label = ".".join([*parts, name])
    if parts[0] == "numpy":
        label = f"np.{'random.' if parts[1:2] == ['random'] else ''}{name}"
    if name.startswith("AxisConcatenator"):
        label, name = "np.r_ or np.c_", "r_"
    if name.rpartition(".")[2] in _CURES:
        cure = f"use {_CURES[name.rpartition('.')[2]]}"
    elif parts[:2] in (["scipy", "stats"], ["scipy", "special"]):
        cure = (
            "gradtape.scipy has many of SciPy's densities, distribution functions and special functions for tensors: "
            f"gt.scipy.{'stats.norm.' if parts[1] == 'stats' else 'special.'}{name.rpartition('.')[2]}(t)"
        )
    elif parts[:2] in (["scipy", "integrate"], ["scipy", "optimize"]):
        cure = "write its steps as a loop on tensors, or give the solution a derivative with gt.custom_gradient"
    else:
        cure = "give it one tensor instead of a list (gt.stack([...]) or np.stack([...])), or use a gradtape function"
    return _lost(frame, f"gives {label} a tensor that a tape watches, which becomes a NumPy array there", cure)


def _is_drawing(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _DRAWING


def _by_call(frame: FrameType, site: EscapeSite, how: str, copied: bool) -> TypeError | Doubt | str | None:
    callee = _resolved(frame, site.callee)
    name = site.method or (site.callee[-1] if site.callee else "")
    if callee is None:
        if site.method in _METHODS:
            return _by_method(frame, site.method)
        if site.method in _DRAWS:
            return _by_function(frame, "numpy.random", site.method)
    elif any(callee is known for known in _CONVERTERS):
        return _by_converter(frame, site, how, copied, callee)
    elif isinstance(callee, type):
        # It takes numbers one by one, as `math` does: the values are wanted, but nobody may know that the gradient ends here.
        if callee is array.array:
            return "array.array"
        if issubclass(callee, (np.generic, int, float, complex)):  # float, np.float64: numbers, on purpose
            return None
    elif callee is operator.setitem or _belongs_to_arrays(callee):
        return _by_method(frame, name)
    elif isinstance(callee, np.ufunc):
        return _of_list(frame, f"np.{callee.__name__}")
    else:
        owner = getattr(callee, "__objclass__", None) or type(getattr(callee, "__self__", None))
        home = str(getattr(callee, "__module__", None) or owner.__module__)
        if home in ("math", "cmath"):
            return None if callee.__name__ in _PIECEWISE else f"{home}.{callee.__name__}"
        if home.partition(".")[0] == "numpy":
            return None if callee.__name__ in _COUNTING else _by_function(frame, home, callee.__name__)
    return _doubt(frame, name or "what is called there") if how == "__array__" else None


def _by_converter(
    frame: FrameType, site: EscapeSite, how: str, copied: bool, callee: Callable[..., Any]
) -> TypeError | Doubt | None:
    """One of NumPy's functions that make an array: of one tensor that is on purpose, of a list it is not."""
    argument = _resolved(frame, site.argument)
    label = f"np.{callee.__name__}"
    # (items of a list are asked for their numbers one by one, or for arrays without a copy)
    of_list = site.lists or isinstance(argument, (list, tuple)) or how != "__array__"
    if of_list or (callee is np.array and not copied and "copy" not in site.keywords):
        return _of_list(frame, label)
    if copied or hasattr(type(argument), "__array__") or site.keywords & {"order", "ndmin"}:
        return None
    return _doubt(frame, label, _LAYOUTS.get(callee.__name__, ""))


def _belongs_to_arrays(callee: object) -> bool:
    objects = (getattr(callee, "__objclass__", None), type(getattr(callee, "__self__", None)))
    return any(isinstance(cls, type) and issubclass(cls, (np.ndarray, np.flatiter)) for cls in objects)


def _by_method(frame: FrameType, name: str) -> TypeError:
    return _lost(
        frame, f"gives the method {name} of a NumPy array a tensor that a tape watches, which becomes an array there",
        f"use {_CURES.get(name, 'the function of NumPy or gradtape on tensors, or make the array a tensor: gt.constant(a)')}",
    )  # fmt: skip


def _of_list(frame: FrameType, what: str) -> TypeError:
    return _lost(
        frame, f"gives {what} a list with a tensor that a tape watches, which becomes a NumPy array", _LIST_CURE
    )  # fmt: skip


_LIST_CURE = "make one tensor of the list: gt.stack([...]) or np.stack([...]), gt.concat, np.array([...], like=t)"
_NUMBER_CURES = {
    "array": "gt.stack([...])", "dist": "gt.norm(p - q)", "erf": "gt.math.erf", "erfc": "gt.math.erfc", "fsum": "gt.add_n",
    "gamma": "gt.exp(gt.math.lgamma(t))", "lgamma": "gt.math.lgamma", "phase": "gt.math.angle", "pow": "t ** y",
    "rect": "gt.complex", "polar": "gt.abs and gt.math.angle", "sumprod": "np.dot",
}  # fmt: skip


def _number_cure(label: str) -> str:
    """The function for tensors that does what one of Python's does for numbers."""
    name = label.rpartition(".")[2]
    if name not in _NUMBER_CURES and not hasattr(np, name):
        return "use functions of gradtape or NumPy"
    return f"use {_NUMBER_CURES.get(name, f'np.{name}')}, which gives a tensor"


def _lost(frame: FrameType, what: str, cure: str) -> TypeError:
    return TypeError(
        f"{_shown(frame, frame.f_lineno)} {what}: no tape can follow it there, and its gradient would be lost; {cure}. "
        "To leave the tape on purpose write t.numpy()"
    )


def _warn(frame: FrameType, line: int, what: str, cure: str) -> None:
    said = f"{what}: no tape can follow it there, and what is computed from it has no gradient; {cure}"
    cure = "To leave the tape on purpose write t.numpy() or float(t)"
    warn_at(frame, line, f"{_shown(frame, line)} {said}. {cure}", GradientWarning)


def _shown(frame: FrameType, line: int) -> str:
    """The place in a message, with the text of the line."""
    file = frame.f_code.co_filename
    text = linecache.getline(file, line, frame.f_globals).strip()
    return f"{file}:{line}" + (f" ({text})" if text else "")


# -- reading the instruction -----------------------------------------------------------------------------------------


def _site(frame: FrameType) -> EscapeSite:
    """The instruction that a frame executes."""
    place = (id(frame.f_code), frame.f_lasti)
    # (read once for each instruction: taking a code object apart costs far more than the call)
    site = _SITES.get(place)
    if site is None:
        site = _SITES[place] = _read_site(frame.f_code, frame.f_lasti)
    return site


def _read_site(code: CodeType, lasti: int) -> EscapeSite:
    before: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        if instruction.offset == lasti:
            break
        before.append(instruction)
    else:
        return EscapeSite("other", code=code)
    name = instruction.opname
    if name in _STORES:
        return EscapeSite("store", code=code)
    if name == "BINARY_OP":
        return EscapeSite("operator", code=code)
    if name in _CALLS:
        return _read_call(code, instruction, before)
    if name in ("COMPARE_OP", "CONTAINS_OP"):  # a comparison has no derivative
        return EscapeSite("comparison", code=code)
    return EscapeSite("other", code=code)


def _span(instruction: dis.Instruction) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Where the text of an instruction begins and ends: ((line, column), (line, column))."""
    p = instruction.positions
    if p is None or p.lineno is None or p.col_offset is None or p.end_lineno is None or p.end_col_offset is None:
        return None
    return (p.lineno, p.col_offset), (p.end_lineno, p.end_col_offset)


def _read_call(code: CodeType, call: dis.Instruction, before: list[dis.Instruction]) -> EscapeSite:
    """What is called, and its first argument: the text of a call begins with what is called, and the arguments follow it."""
    whole = _span(call)
    if whole is None:
        return EscapeSite("other", code=code)
    # Since 3.11 each instruction knows the text it was compiled from: those inside the text of the call are its parts.
    spans = [(i, span) for i in before if (span := _span(i)) is not None and whole[0] <= span[0] and span[1] <= whole[1]]
    callee = [(i, span) for i, span in spans if span[0] == whole[0] and span[1] < whole[1]]
    if not callee:
        return EscapeSite("other", code=code)
    end = max(span[1] for _, span in callee)
    last = [i for i, span in callee if span[1] == end]
    method = next((str(i.argval) for i in reversed(last) if i.opname in _ATTRIBUTES), "")
    rest = [(i, span) for i, span in spans if span[0] >= end and (span[0], span[1]) != whole]
    argument: tuple[str, ...] = ()
    lists = False
    if rest:
        start = min(span[0] for _, span in rest)
        first = [(i, span) for i, span in rest if span[0] == start]
        widest = max(span[1] for _, span in first)
        roots = [i for i, span in first if span[1] == widest]
        lists = any(i.opname in _LISTS or _is_comprehension(i) for i in roots)
        argument = _chain([(i, span) for i, span in first if span[1] <= widest])
    keywords = frozenset(name for i in [*before[-2:], call] for name in _keywords(code, i))
    return EscapeSite("call", _chain(callee), method, argument, lists, keywords, code)


def _is_comprehension(instruction: dis.Instruction) -> bool:
    return isinstance(instruction.argval, CodeType) and instruction.argval.co_name == "<listcomp>"


def _keywords(code: CodeType, instruction: dis.Instruction) -> Iterator[str]:
    """The names of keyword arguments, which stand in a constant before or at the call."""
    value = instruction.argval
    if instruction.opname in ("KW_NAMES", "LOAD_CONST"):
        if instruction.opname == "KW_NAMES" and instruction.arg is not None:
            value = code.co_consts[instruction.arg]
        if isinstance(value, tuple):
            yield from (name for name in value if isinstance(name, str))


def _chain(spans: list[tuple[dis.Instruction, Any]]) -> tuple[str, ...]:
    """`a.b.c` as its names, if the instructions are a name and attributes and nothing else."""
    names: list[str] = []
    for instruction, _ in sorted(spans, key=lambda pair: pair[1][1]):
        if (instruction.opname in _LOADS and not names) or (instruction.opname in _ATTRIBUTES and names):
            names.append(str(instruction.argval))
        elif instruction.opname not in _ASIDE:
            return ()
    return tuple(names)


def _resolved(frame: FrameType, names: tuple[str, ...]) -> Any:
    """What `a.b.c` is in a frame, without running anybody's code; None if that is not known."""
    if not names:
        return None
    value: Any = None
    # Plain lookups and `getattr_static`: properties and `__getattr__` of the user's objects must not run for a message.
    for space in (frame.f_locals, frame.f_globals, frame.f_builtins):
        if names[0] in space:
            value = space[names[0]]
            break
    for name in names[1:]:
        value = None if value is None else inspect.getattr_static(value, name, None)
    return value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
