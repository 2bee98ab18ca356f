"""Rules are closed: their globals are ops, helpers of `gradtape.ops`, builtins and static arithmetic, so that one source runs
on tensors and, rebuilt, on bare arrays. That no value leaves a rule is checked by running it: under `vectorized_map`
(tests/ops) tensors have no value to give."""

import builtins
import dis
import math
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from gradtape import dtypes
from gradtape.core import dispatch
from gradtape.core.forms import MISS, Shortcut
from gradtape.core.hooks import HOOKS
from gradtape.core.opdef import Op
from gradtape.core.save_plan import parameters, shape_of
from gradtape.core.tensor import box
from gradtape.ops import registry

# NumPy names a helper may use on static values: shapes, axes, index arrays and dtypes
STATIC_NUMPY = {
    "arange", "asarray", "broadcast_shapes", "dtype", "empty", "full", "intp", "integer", "nonzero", "ndarray", "prod",
    "bool_", "broadcast_to", "generic", "zeros", "ones", "eye", "array",
}  # fmt: skip
STATIC_BUILTINS = {
    "abs", "all", "any", "bool", "complex", "dict", "enumerate", "float", "int", "isinstance", "len", "list", "max", "min",
    "next", "range", "reversed", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip", "map", "divmod", "round",
    "Ellipsis", "NotImplemented", "ValueError", "TypeError", "AttributeError", "IndexError", "AssertionError",
}  # fmt: skip
STATIC_MODULES = (math, builtins, dtypes)
BASE = ("gradtape.dtypes", "gradtape.ir.types", "gradtape.ir.slots", "gradtape.ir.polynomial")
# the doors between values and ops; both bindings know them
DOORS = {
    dispatch.apply,
    dispatch.convert,
    dispatch.promote,
    dispatch.twin,
    dispatch.created,
    box,
}
# normalise what the USER writes (tensors as shapes, keys or indices); a rule hands them static values only
NORMALISERS = {"static_shape", "normal_axes", "normal_key", "check_range", "_whole", "entries", "_told", "_transposed_later"}
# find the program that is being traced, for values without operands and lists: nothing of it happens on arrays
PROGRAM_DOORS = {
    "is_traced", "filled_with", "size_of", "extent_of", "count_of", "number_of", "list_value", "stack_items", "concat_items",
    "_symbolic_eye", "grid",
}  # fmt: skip
FORBIDDEN_ATTRIBUTES = {"_data", "_node", "numpy", "item", "tolist", "__array__"}


def rules(op: Op) -> Iterator[FunctionType]:
    for table in (op.partials, op.products, op.vjps, op.jvps, (op.vjp, op.jvp, op.expand)):
        yield from (rule for rule in table if isinstance(rule, FunctionType))


def codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes(constant)


def uses(function: FunctionType) -> tuple[set[str], set[str], set[str], set[str]]:
    """(global names, names taken from `np`, attribute names, imported modules) of a function and those inside it."""
    names, numpy, attributes, imported = set(), set(), set(), set()
    for code in codes(function.__code__):
        previous = None
        for step in dis.get_instructions(code):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.add(step.argval)
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
                attributes.add(step.argval)
                if previous is not None and previous.argval == "np":
                    numpy.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                imported.add(step.argval)
            if step.opname not in ("CACHE", "PRECALL"):
                previous = step
    return names, numpy, attributes, imported


def complaints(rule: FunctionType) -> list[str]:
    found: list[str] = []
    seen: set[Any] = set()
    pending: list[tuple[FunctionType, bool]] = [(rule, True)]
    while pending:
        function, direct = pending.pop()
        if function in seen or function.__name__ in NORMALISERS | PROGRAM_DOORS:
            continue
        seen.add(function)
        label = f"{function.__module__}.{function.__qualname__}"
        if function.__closure__:
            found.append(f"{label} has free variables {function.__code__.co_freevars}")
            continue
        names, numpy, attributes, imported = uses(function)
        if direct and "np" in names:
            found.append(f"{label} uses NumPy itself")
        found += [f"{label} uses np.{name}" for name in sorted(numpy - STATIC_NUMPY)]
        found += [f"{label} reads .{name}" for name in sorted(attributes & FORBIDDEN_ATTRIBUTES)]
        found += [f"{label} imports {name} inside" for name in sorted(imported)]
        for name in sorted(names):
            if name in function.__globals__:
                value = function.__globals__[name]
                if isinstance(value, FunctionType) and not hasattr(value, "op") and value not in DOORS and _is_ours(value):
                    pending.append((value, False))
                elif not allowed(value):
                    found.append(f"{label} uses the global {name} = {value!r}")
            elif name not in STATIC_BUILTINS:
                found.append(f"{label} uses the builtin {name}" if hasattr(builtins, name) else f"{label}: no name {name}")
    return found


def _is_ours(value: FunctionType) -> bool:
    return value.__module__.startswith(("gradtape.ops", "gradtape.core"))


def allowed(value: Any) -> bool:
    """Ops, their functions, the base layer, classes, static constants and modules."""
    if isinstance(value, ModuleType):
        return value in STATIC_MODULES or value.__name__ in ("numpy", "gradtape.core.inference", "gradtape.core.batching")
    if isinstance(value, FunctionType):
        return hasattr(value, "op") or value in DOORS or value.__module__ in BASE
    if value is HOOKS or value is MISS or isinstance(value, Shortcut):  # filled at import; takes no bare arrays
        return True
    return isinstance(value, (Op, type, int, float, complex, str, tuple, dtypes.DType))


@pytest.mark.parametrize("op", [op for op in registry.OPS if any(rules(op))], ids=lambda op: op.name)
def test_rules_are_closed(op: Op) -> None:
    assert [complaint for rule in rules(op) for complaint in complaints(rule)] == []


@pytest.mark.parametrize("op", registry.OPS, ids=lambda op: op.name)
def test_a_rule_names_the_shape_of_its_own_input_only(op: Op) -> None:
    """The version of another input may not exist: a constant has none."""
    shapes = {
        i: {shape_of(p, op.args) for p in parameters(rule)} - {None} for i, rule in enumerate(op.vjps) if rule is not None
    }
    assert all(names <= {op.args[i]} for i, names in shapes.items())
    others = [rule for table in (op.partials, op.products, (op.vjp,)) for rule in table if isinstance(rule, FunctionType)]
    assert not any(shape_of(p, op.args) for rule in others for p in parameters(rule))


def test_the_check_is_able_to_complain() -> None:
    free = 2.0
    np = __import__("numpy")

    def outside(ct: Any) -> Any:
        return ct * free

    def global_numpy(ct: Any) -> Any:
        return _np_sum(ct._data)

    assert any("free variables" in c for c in complaints(outside))
    assert any("reads ._data" in c for c in complaints(global_numpy))
    assert np is not None


def _np_sum(x: Any) -> Any:
    return x
