"""The short forms of dispatch as machine code: take, run, box and record (`core/dispatch.py`) without the interpreter.

A form reads the array and the version out of its tensors, calls the op's `impl`, and fills a `Tensor` and a `Record`, as
`core/forms.py` and `core/recorded.py` say it in Python, which stays the meaning. It takes plain tensors, variables whose
version all recorders know, and Python numbers beside them. Whatever else it meets, it gives `MISS` before anything happened,
and Python goes its own way.

Boxing and recording is `record_code.py`. Invariant: objects are held while others' code runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.backends.llvm.entry.calling_convention import Method
from gradtape.backends.llvm.entry.record_code import (
    ARRAY,
    BYTES,
    COUNT,
    FALLBACK,
    FLAGS,
    FORMS,
    IMPL,
    ITEMS,
    MATRICES,
    NODE,
    NODE_KEYS,
    SCOPE_KEYS,
    WEAK,
    context_get,
    decref,
    dict_new,
    error_clear,
    gt_box,
    gt_drop,
    gt_float_dtype,
    incref,
    is_a,
    item,
    long_as,
    long_from,
    none,
    shared,
    slot,
    state_of,
    tuple_new,
    vectorcall,
)  # fmt: skip
from gradtape.backends.llvm.runtime.symbols import RANK, lasting, python
from gradtape.backends.llvm.writing.algebra import I32, I64, Flag, Whole
from gradtape.backends.llvm.writing.builder import PTR, Builder, Member, Pointer
from gradtape.core.dispatch import FAILURES, WATCHERS
from gradtape.core.forms import MISS
from gradtape.core.opdef import Op
from gradtape.core.record import SCOPE
from gradtape.core.tensor import Tensor
from gradtape.ops.reduce import REDUCE_SUM

vectorcall_dict = python("PyObject_VectorcallDict", PTR, PTR, PTR, I64, PTR)
error_matches = python("PyErr_ExceptionMatches", I32, PTR)
dict_set = python("PyDict_SetItem", I32, PTR, PTR, PTR)
get_item = python("PyObject_GetItem", PTR, PTR, PTR)
array_copy = python("gt_array_copy", PTR, PTR, I32)
SLICE = tuple(Member(16 + 8 * i, PTR) for i in range(3))  # start, stop, step

# -- take and run ----------------------------------------------------------------------------------------------------


@FORMS.routine
def gt_miss(f: Builder) -> Pointer:
    return shared(f, lasting(f, "gt_missing", MISS))


@FORMS.routine
def gt_failure(f: Builder) -> Pointer:
    """An `impl` raised. What it says of its inputs is said again by Python, in our words; anything else is passed on."""
    # run again in Python, which finds the same error and can take the time for words
    with f.if_(error_matches(f, lasting(f, "gt_failures", FAILURES)).differs(0)):
        error_clear(f)
        f.leave(gt_miss(f))
    return f.null()


class Readers:
    """The class besides `Tensor` that is read, whose instances have their tensor in `_stored`, and what has a `count` of the
    programs that are being traced: set before any code is loaded."""

    variable: type = Tensor
    tracing: object = None


@FORMS.routine
def gt_read(f: Builder, value: Pointer) -> Pointer:
    """A tensor, or that of a variable whose version all who record know; null for anything else."""
    f.leave_if(is_a(f, value, "gt_class_tensor", Tensor), value)
    f.leave_if(~is_a(f, value, "gt_class_variable", Readers.variable), f.null())
    # while a function is traced, somewhere, a variable may stand for a value of the program: only Python knows
    traces = lasting(f, "gt_traces", Readers.tracing)[slot(type(Readers.tracing), "count")]
    f.leave_if(~traces.equals(lasting(f, "gt_zero", 0)), f.null())
    tensor = value[slot(Readers.variable, "_stored")]
    f.leave_if(tensor.is_null(), f.null())
    f.leave_if(~is_a(f, tensor, "gt_class_tensor", Tensor), f.null())
    place = f.array(PTR, 1)
    place[0] = f.null()
    with f.if_(context_get(f, lasting(f, "gt_scope_variable", SCOPE), None, place) < 0):
        error_clear(f)
        f.leave(f.null())
    scope, node = place[0], tensor[NODE]
    known = f.variable(PTR, f.null())
    # the same tuple of keys: every recorder of this thread knows the version. Any other case has something to be noted.
    with f.if_(~node.equals(none(f)) & ~scope.equals(none(f))), f.if_(node[NODE_KEYS].equals(scope[SCOPE_KEYS])):
        known.value = tensor
    decref(f, scope)
    return known.value


def taken(f: Builder, value: Pointer[Any]) -> tuple[Pointer[Any], Pointer[Any]]:
    """Array and version of what `gt_read` reads; leaves the form where it reads nothing."""
    tensor = gt_read(f, value)
    f.leave_if(tensor.is_null(), gt_miss)
    return tensor[ARRAY], tensor[NODE]


def unwatched(f: Builder) -> None:
    """Leave where somebody wants to see every operation."""
    f.leave_if(lasting(f, "gt_watchers", WATCHERS)[COUNT].differs(0), gt_miss)


@FORMS.routine
def gt_run(
    f: Builder, state: Pointer, a: Pointer, b: Pointer, node_a: Pointer, node_b: Pointer, attrs: Pointer
) -> Pointer:  # fmt: skip
    """Run an op on arrays and box what it gives."""
    # an `impl` is Python code and may drop the last reference to what it was given, by an assignment in another thread, say
    held = (a, b, node_a, node_b)
    for thing in held:
        with f.if_(~thing.is_null()):
            incref(f, thing)
    arguments = f.array(PTR, 2)
    arguments[0], arguments[1] = a, b
    count = (~b.is_null()).count() + 1
    result = f.variable(PTR, f.null())
    with f.if_else(attrs.is_null()) as (bare, named):
        with bare:
            result.value = vectorcall(f, item(state, IMPL), arguments, count, None)
        with named:
            result.value = vectorcall_dict(f, item(state, IMPL), arguments, count, attrs)
    answer = f.variable(PTR, f.null())
    with f.if_else(result.value.is_null()) as (failed, ran):
        with failed:
            answer.value = gt_failure(f)
        with ran:
            answer.value = gt_box(f, state, a, b, node_a, node_b, attrs, result.value)
    for thing in held:
        gt_drop(f, thing)
    return answer.value


@FORMS.routine
def gt_pair(f: Builder, state: Pointer, x: Pointer, y: Pointer) -> Pointer:
    """An elementwise op, or a product, of two tensors of one dtype, or of one and a Python number."""
    unwatched(f)
    flags = item(state, FLAGS).field(BYTES)
    sides = []
    for value in (x, y):
        tensor, array, node = gt_read(f, value), f.variable(PTR, value), f.variable(PTR, none(f))
        with f.if_else(tensor.is_null()) as (other, plain):
            with other:
                number = is_a(f, value, "gt_class_float", float) | is_a(f, value, "gt_class_int", int)
                f.leave_if(~(number & flags[WEAK].differs(0)), gt_miss)
            with plain:
                array.value, node.value = tensor[ARRAY], tensor[NODE]
        sides.append((tensor.is_null(), array.value, node.value))
    (number_x, a, node_a), (number_y, b, node_b) = sides
    first, second = gt_float_dtype(f, a), gt_float_dtype(f, b)
    # a Python float has no dtype of its own; `np.float64` is a subclass of it, but not a number here
    f.leave_if((number_x & (number_y | second.is_null())) | (~number_x & first.is_null()), gt_miss)
    f.leave_if(~number_x & ~number_y & ~first.equals(second), gt_miss)
    with f.if_(flags[MATRICES].differs(0)):
        for value in (a, b):
            f.leave_if(~is_a(f, value, "gt_ndarray", np.ndarray), gt_miss)
            f.leave_if(value[RANK].differs(2), gt_miss)
    return gt_run(f, state, a, b, node_a, node_b, f.null())


@FORMS.routine
def gt_binary(f: Builder, state: Pointer, args: Pointer, count: Whole) -> Pointer:
    """form(x, y)"""
    return gt_pair(f, state, args.to(PTR)[0], args.to(PTR)[1])


@FORMS.routine
def gt_unary(f: Builder, state: Pointer, x: Pointer) -> Pointer:
    """form(x), elementwise"""
    unwatched(f)
    a, node = taken(f, x)
    f.leave_if(gt_float_dtype(f, a).is_null(), gt_miss)
    return gt_run(f, state, a, f.null(), node, f.null(), f.null())


@FORMS.routine
def gt_one(f: Builder, state: Pointer, args: Pointer, count: Whole) -> Pointer:
    """form(x, attrs)"""
    unwatched(f)
    a, node = taken(f, args.to(PTR)[0])
    return gt_run(f, state, a, f.null(), node, f.null(), args.to(PTR)[1])


@FORMS.routine
def gt_two(f: Builder, state: Pointer, args: Pointer, count: Whole) -> Pointer:
    """form(x, y, attrs)"""
    unwatched(f)
    a, node_a = taken(f, args.to(PTR)[0])
    b, node_b = taken(f, args.to(PTR)[1])
    return gt_run(f, state, a, b, node_a, node_b, args.to(PTR)[2])


# -- operators of `Tensor` -------------------------------------------------------------------------------------------


@FORMS.routine
def gt_or_python(f: Builder, state: Pointer, answer: Pointer, x: Pointer, y: Pointer) -> Pointer:
    """An answer; instead of `MISS`, that of Python's function for the operator. `y` is null if there is none."""
    f.leave_if(~answer.equals(lasting(f, "gt_missing", MISS)), answer)
    decref(f, answer)
    arguments = f.array(PTR, 2)
    arguments[0], arguments[1] = x, y
    return vectorcall(f, item(state, FALLBACK), arguments, (~y.is_null()).count() + 1, None)


@FORMS.routine
def gt_basic(f: Builder, part: Pointer) -> Flag:
    """Whether a part of an index is an int, None, an ellipsis or a slice of ints: `_is_basic` of `ops/index.py`."""
    simple = is_a(f, part, "gt_class_int", int) | part.equals(none(f)) | part.equals(lasting(f, "gt_ellipsis", Ellipsis))
    f.leave_if(simple, f.flag(True))
    f.leave_if(~is_a(f, part, "gt_class_slice", slice), f.flag(False))
    good = f.flag(True)
    for end in SLICE:
        good = good & (is_a(f, part[end], "gt_class_int", int) | part[end].equals(none(f)))
    return good


@FORMS.routine
def gt_getitem(f: Builder, state: Pointer, x: Pointer, key: Pointer) -> Pointer:
    """x[key] of a tensor of floats for basic keys."""
    unwatched(f)
    a, node = taken(f, x)
    f.leave_if(gt_float_dtype(f, a).is_null(), gt_miss)
    several = is_a(f, key, "gt_class_tuple", tuple)
    with f.if_else(several) as (tuples, single):
        with tuples, f.loop(key[COUNT]) as i, f.if_(~gt_basic(f, key.field(ITEMS)[i])):
            f.leave(gt_miss(f))
        with single, f.if_(~gt_basic(f, key)):
            f.leave(gt_miss(f))
    parts = f.variable(PTR, key)
    with f.if_else(several) as (tuples, single):
        with tuples:
            incref(f, key)
        with single:
            parts.value = tuple_new(f, f.number(1))
            f.leave_if(parts.value.is_null(), f.null())
            parts.value.field(ITEMS)[0] = shared(f, key)
    attrs = dict_new(f)
    f.leave_if(attrs.is_null(), f.null())
    dict_set(f, attrs, lasting(f, "gt_word_key", "key"), parts.value)
    for thing in (a, node):
        incref(f, thing)
    result, answer = f.variable(PTR, get_item(f, a, parts.value)), f.variable(PTR, f.null())
    with f.if_(~result.value.is_null()), f.if_(is_a(f, result.value, "gt_ndarray", np.ndarray)):
        view = result.value
        # a copy: a view would keep the whole array alive, and a later write to it in place would be seen through the part
        result.value = array_copy(f, view, 0)
        decref(f, view)
    with f.if_else(result.value.is_null()) as (failed, ran):
        with failed:
            answer.value = gt_failure(f)
        with ran:
            answer.value = gt_box(f, state, a, f.null(), node, f.null(), attrs, result.value)
    for thing in (a, node, parts.value, attrs):
        decref(f, thing)
    return answer.value


MOST = 8  # one more than the rank up to which reductions are known
REDUCED = FORMS.variable("gt_reduced", PTR, count=8 * MOST * MOST)  # axes and attributes of each kind: records share them


@FORMS.routine
def gt_reduction(f: Builder, state: Pointer, args: Pointer, count: Whole) -> Pointer:
    """form(x, axis, keepdims) over all axes or one, by the `reduce` of a ufunc."""
    unwatched(f)
    a, node = taken(f, args.to(PTR)[0])
    axis, keepdims = args.to(PTR)[1], args.to(PTR)[2]
    fits = is_a(f, a, "gt_ndarray", np.ndarray) & ~gt_float_dtype(f, a).is_null() & is_a(f, keepdims, "gt_class_bool", bool)
    f.leave_if(~fits, gt_miss)
    rank, first, number = a[RANK].resized(I64), f.variable(I64, 0), f.variable(I64, 1)
    with f.if_else(axis.equals(none(f))) as (total, one):
        with total:
            number.value = rank
        with one:
            f.leave_if(~is_a(f, axis, "gt_class_int", int), gt_miss)
            given = long_as(f, axis)
            first.value = given + (given < 0).count() * rank
            with f.if_((first.value < 0) | (first.value >= rank)):
                error_clear(f)  # of a number that is too long
                f.leave(gt_miss(f))
    f.leave_if(rank >= MOST, gt_miss)
    whole = axis.equals(none(f)).count()
    # attributes are made once for each rank, axis and keepdims, and shared by all records: two objects less to make and free
    # for each sum
    kept = REDUCED(f).at(
        (((rank * MOST + first.value) * 2 + whole) * 2 + keepdims.equals(lasting(f, "gt_true", True)).count()) * 2
    )
    with f.if_(kept[0].is_null()):
        axes, attrs = tuple_new(f, number.value), dict_new(f)
        f.leave_if(axes.is_null() | attrs.is_null(), f.null())
        with f.loop(number.value) as i:
            axes.field(ITEMS)[i] = long_from(f, first.value + i)
        dict_set(f, attrs, lasting(f, "gt_word_axis", "axis"), axes)
        dict_set(f, attrs, lasting(f, "gt_word_keepdims", "keepdims"), keepdims)
        kept[0], kept[1] = axes, attrs
    axes, attrs = kept[0], kept[1]
    for thing in (a, node):
        incref(f, thing)
    arguments = f.array(PTR, 5)
    for place, thing in enumerate((a, axes, none(f), none(f), keepdims)):  # no dtype, no array for the result
        arguments[place] = thing
    result, answer = vectorcall(f, item(state, IMPL), arguments, 5, None), f.variable(PTR, f.null())
    with f.if_else(result.is_null()) as (failed, ran):
        with failed:
            answer.value = gt_failure(f)
        with ran:
            answer.value = gt_box(f, state, a, f.null(), node, f.null(), attrs, result)
    for thing in (a, node):
        decref(f, thing)
    return answer.value


# -- as Python objects -----------------------------------------------------------------------------------------------

FAST, SINGLE = 0x80, 0x08  # how a builtin is called: METH_FASTCALL, METH_O
ROUTINES = {
    "unary": ("gt_unary", SINGLE), "binary": ("gt_binary", FAST), "one": ("gt_one", FAST), "two": ("gt_two", FAST),
    "reduction": ("gt_reduction", FAST),
}  # fmt: skip
IMPLS = {REDUCE_SUM: np.add.reduce}  # what runs on floats in the place of an op's `impl` where a form asks for it
_METHODS: list[Method] = []  # builtins read them as long as they live


def add_operator(name: str, state: tuple[Any, ...], reflected: bool) -> None:
    """Write the code of an operator of `Tensor`; to be called before any code is loaded."""
    pair = gt_getitem if name == "__getitem__" else gt_pair

    def body(f: Builder, own: Pointer, other: Pointer) -> Pointer:
        known = lasting(f, f"gt_state{name}", state)
        operands = (other, own) if reflected else (own, other)
        return gt_or_python(f, known, pair(f, known, *operands), own, other)

    FORMS.add(f"gt_operator{name}", body)


def operator(name: str) -> object:
    """An operator that `add_operator` wrote, to be set as an attribute of `Tensor`."""
    make = ctypes.pythonapi.PyDescr_NewMethod
    make.restype, make.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
    return make(Tensor, _method(name, f"gt_operator{name}", SINGLE))


def quick_form(kind: str, op: Op) -> Callable[..., Any]:
    """What `core/forms.py` asks first in a form of an op that is called in this way."""
    return builtin_form(op.name, state_of(op, IMPLS[op] if kind == "reduction" else None), ROUTINES[kind])


def builtin_form(name: str, state: tuple[Any, ...], routine: tuple[str, int]) -> Callable[..., Any]:
    """A routine and how it is called, as a builtin function with a state of its own."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    form: Callable[..., Any] = make(_method(name, *routine), state, None)
    return form


def _method(name: str, routine: str, flags: int) -> int:
    _METHODS.append(Method(name.encode(), FORMS.load().address(routine), flags, None))
    return ctypes.addressof(_METHODS[-1])
