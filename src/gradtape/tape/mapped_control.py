"""`vectorized_map` in eager code over a function with branches or loops: it is traced, so that they become masked ones.

Eager code has no way to take two courses at once; a program has (`ad/batch_masks.py`). Whether a function may branch is read
off its code and that of the functions it names, without running it. What cannot be traced runs on batched tensors as before.
"""

from __future__ import annotations

import dis
import sys
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import lru_cache
from inspect import getattr_static
from itertools import islice
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from gradtape import tree
from gradtape.errors import InvalidArgumentError
from gradtape.tree import Structure

CONTROL = frozenset({"case", "cond", "foldl", "foldr", "map_fn", "scan", "switch_case", "while_loop"})
TOOLS = frozenset({"nan_report", "picture"})  # of tapes: a program that is being traced has no values to show
# instructions whose jump never depends on a tensor's value, and what may stand between them and the jump
PYTHONS = frozenset({"CHECK_EXC_MATCH", "IS_OP", "WITH_EXCEPT_START"})
BETWEEN = frozenset({"EXTENDED_ARG", "TO_BOOL"})
LOADS = frozenset({"LOAD_ATTR", "LOAD_GLOBAL", "LOAD_METHOD", "LOAD_NAME"})
CONSTANTS = frozenset({"CACHE", "KW_NAMES", "LOAD_CONST", "LOAD_SMALL_INT", "PRECALL", "PUSH_NULL"})
ITEMS, OBJECTS = 100, 1000  # of a container, and in all, are looked at
ONE_BY_ONE: ContextVar[bool] = ContextVar("gradtape_map_one_by_one", default=False)
MAPPED: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # mapped function → it, for all examples


def branches(codes: list[CodeType]) -> bool:
    """Whether a function with these codes tests values or calls control flow; not one that looks at the values of a tape."""
    if any(TOOLS.intersection(code.co_names) for code in codes):
        return False
    return any(CONTROL.intersection(code.co_names) or _jumps(code) for code in codes)


def prints(codes: list[CodeType]) -> bool:
    """Whether a function with these codes prints: then it runs for one example after the other, in the order of a loop."""
    return any("print" in code.co_names for code in codes)


@lru_cache(maxsize=1024)
def _jumps(code: CodeType) -> bool:
    """Whether a value is tested: not how a `with` ends, which exception it is, or whether a name holds None. Or whether there
    is a loop, and a range whose length may be an example's."""
    before, loops, ranges = "", False, False
    instructions = list(dis.get_instructions(code))
    for place, (name, value) in enumerate((i.opname, i.argval) for i in instructions):
        if "JUMP" in name and "IF" in name and "NONE" not in name and before not in PYTHONS:
            return True
        before = before if name in BETWEEN else name
        loops = loops or name == "FOR_ITER"
        ranges = ranges or (value == "range" and name in LOADS and not _of_constants(instructions[place + 1 :]))
    return loops and ranges


def _of_constants(instructions: list[dis.Instruction]) -> bool:
    """Whether a call of what was just loaded has constants for arguments."""
    for name in (instruction.opname for instruction in instructions):
        if name.startswith("CALL"):
            return True
        if name not in CONSTANTS:
            return False
    return False


def codes_of(function: object) -> list[CodeType]:
    """The code of a function and of those it can reach by the names in it: globals, closures, and attributes and items of what
    these hold, `self` among them."""
    reached: list[Any] = [function]
    names, before = {"__call__"}, (0, 0)
    seen = {id(function)}
    codes: dict[CodeType, None] = {}
    while before != (len(reached), len(names)):  # a name of a function found late may be an attribute of an object found early
        before = (len(reached), len(names))
        for value in reached:  # grows while it is walked
            if isinstance(value, FunctionType) and _of_user(value):
                codes.update(dict.fromkeys(_nested(value.__code__)))
                names.update(name for code in _nested(value.__code__) for name in code.co_names)
            for part in _parts(value, names):
                if id(part) not in seen and len(seen) < OBJECTS:
                    seen.add(id(part))
                    reached.append(part)
    return list(codes)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _nested(const)


def _parts(value: Any, names: set[str]) -> Iterator[Any]:
    """What a value leads to by these names."""
    if isinstance(value, dict):
        yield from islice(value.values(), ITEMS)
    elif isinstance(value, (list, tuple)):
        yield from value[:ITEMS]
    elif isinstance(value, (MethodType, staticmethod, classmethod)):
        yield from (value.__func__, getattr(value, "__self__", None))
    elif isinstance(value, property):
        yield value.fget
    elif isinstance(value, FunctionType) and _of_user(value):
        yield from (cell.cell_contents for cell in value.__closure__ or () if cell != CellType())
        own = [name for code in _nested(value.__code__) for name in code.co_names]
        yield from (value.__globals__[name] for name in own if name in value.__globals__)
    elif any(isinstance(vars(base).get("python_function"), property) for base in type(value).__mro__):  # of `@function`
        yield value.python_function
    elif _of_user(value):
        yield from (part for name in names if (part := getattr_static(value, name, None)) is not None)


def _of_user(value: Any) -> bool:
    """Whether a value is a module, function, class or object of a class that the user wrote."""
    from gradtape.functions.autograph.policy import of_user  # AutoGraph is loaded when it is needed, not with gradtape

    if isinstance(value, FunctionType):
        return of_user(value.__code__.co_filename)
    if not isinstance(value, ModuleType):
        value = sys.modules.get((value if isinstance(value, type) else type(value)).__module__)
    return of_user(getattr(value, "__file__", None)) or getattr(value, "__name__", None) == "__main__"


def mapped_by_tracing(
    over: Callable[[Any, Any], Any], fn: Callable[..., Any], elems: Structure
) -> tuple[Any, Exception | None]:
    """The result of `over(fn, elems)` as a program of its own, in a tuple; None and the reason where it cannot be traced."""
    from gradtape.functions.function import function

    try:
        compiled = MAPPED.get(fn)
    except TypeError:
        compiled = None
    if compiled is None:
        # The compiled map lives as long as the function; if it held the function, neither would ever go.
        held = fn if not isinstance(fn, FunctionType) else None
        weak = None if held is not None else weakref.ref(fn)
        compiled = function(
            lambda given: over(held if weak is None else weak(), given), autograph=True, jit_compile=False, name=_name(fn)
        )
        if weak is not None:
            MAPPED[fn] = compiled
    token = ONE_BY_ONE.set(True)  # a program that fails is run again by Python, for the error of the example that fails
    try:
        return (compiled(tree.map_structure(lambda leaf: leaf, elems)),), None
    except (InvalidArgumentError, TypeError) as error:
        return None, error
    finally:
        ONE_BY_ONE.reset(token)


def _name(fn: Callable[..., Any]) -> str:
    return str(getattr(fn, "__name__", "mapped"))
