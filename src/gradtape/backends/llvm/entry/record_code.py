"""The last half of a short form of dispatch as machine code: box the result, and record the operation.

It fills a `Tensor` and a `Record` as `core/dispatch.py` and `core/recorded.py` say it in Python, which stays the meaning; what
is recorded in an unusual way (a version that some recorder does not know, a complex value) goes to `record_mixed`. The first
half is `form_code.py`. A state is what a form knows of its op, a tuple: see `state_of`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.backends.llvm.runtime.support import Part
from gradtape.backends.llvm.runtime.symbols import DESCR, DIMS, RANK, TYPE, described, lasting, python, scalar_type
from gradtape.backends.llvm.writing.algebra import I8, I32, I64, Flag, Whole
from gradtape.backends.llvm.writing.builder import PTR, VOID, Builder, Member, Pointer
from gradtape.core.opdef import Op
from gradtape.core.record import INTERNAL, RULES, SCOPE, Record, RecordingScope, RecordList, past_of_pair
from gradtape.core.recorded import record_mixed
from gradtape.core.save_plan import save_plan
from gradtape.core.tensor import Tensor

FORMS = Part(__name__)

alloc = python("PyType_GenericAlloc", PTR, PTR, I64)
vectorcall = python("PyObject_Vectorcall", PTR, PTR, PTR, I64, PTR)
context_get = python("PyContextVar_Get", I32, PTR, PTR, PTR)
this_frame = python("PyEval_GetFrame", PTR)
frame_code = python("PyFrame_GetCode", PTR, PTR)
frame_back = python("PyFrame_GetBack", PTR, PTR)
frame_lasti = python("PyFrame_GetLasti", I32, PTR)
set_contains = python("PySet_Contains", I32, PTR, PTR)
error_clear = python("PyErr_Clear", VOID)
list_append = python("PyList_Append", I32, PTR, PTR)
tuple_new = python("PyTuple_New", PTR, I64)
dict_new = python("PyDict_New", PTR)
dict_size = python("PyDict_Size", I64, PTR)
long_from = python("PyLong_FromSsize_t", PTR, I64)
long_as = python("PyLong_AsSsize_t", I64, PTR)
call_method = python("PyObject_VectorcallMethod", PTR, PTR, PTR, I64, PTR)
incref = python("Py_IncRef", VOID, PTR)
decref = python("Py_DecRef", VOID, PTR)

COUNT = Member(16, I64)  # of the items of a tuple, list or bytes
ITEMS = Member(tuple.__basicsize__, PTR)  # the first item of a tuple
LISTED = Member(24, PTR)  # where a list has its items
BYTES = Member(bytes.__basicsize__ - 1, I8)
OP, IMPL, KEPT, SAVERS, FLAGS, FALLBACK = 0, 1, 2, 5, 8, 9  # places in a state
WEAK, MATRICES = 0, 1  # places in its flags
SAVER = 255  # in place of what is kept: ask the saver


def slot(owner: type, name: str) -> Member[Pointer[Any]]:
    """Where the instances of a class have an attribute that stands in its `__slots__`."""
    # CPython's `PyMemberDescrObject`: a pointer to its `PyMemberDef`, in which the offset stands third
    definition = ctypes.c_void_p.from_address(id(owner.__dict__[name]) + 40).value or 0
    return Member(ctypes.c_ssize_t.from_address(definition + 16).value, PTR)


def laid_out(thing: object, *names: str) -> bool:
    """Whether an object has these attributes where `slot` says: on a Python that nobody tried it might not."""
    places = [(id(thing) + slot(type(thing), name).offset, getattr(thing, name)) for name in names]
    # asked of a real object before any of this is used: where it does not hold, Python's own forms stay
    return all(ctypes.c_void_p.from_address(place).value == id(value) for place, value in places)


ARRAY, NODE = slot(Tensor, "_data"), slot(Tensor, "_node")
SCOPE_CODE, SCOPE_FAST = slot(RecordingScope, "code"), slot(RecordingScope, "fast")
SCOPE_KEYS, SCOPE_WHEN, SCOPE_SITE = slot(RecordingScope, "keys"), slot(RecordingScope, "when"), slot(RecordingScope, "site")
SCOPE_RECORDS, SCOPE_LISTS = slot(RecordingScope, "records"), slot(RecordingScope, "lists")
NODE_KEYS, BUDGET, FILE = slot(Record, "keys"), slot(RecordList, "budget"), slot(type(slot.__code__), "co_filename")


def state_of(op: Op, impl: Callable[..., Any] | None = None, fallback: Callable[..., Any] | None = None) -> tuple[Any, ...]:
    """What a form knows of an op: what runs on floats, `impl` or the op's own; for each pattern of watched inputs (1: the
    first, 2: the second, 3: both) what a record keeps, a byte for each value (0 nothing, 1 and 2 the inputs, 3 the output);
    whether Python numbers are taken, and nothing but matrices; Python's function for an operator."""
    plan = save_plan(op)
    kept: list[bytes] = []
    for mask in (1, 2, 3):
        watched = (bool(mask & 1), bool(mask & 2))[: len(op.args)]
        entries = list(zip(plan.kept(watched), plan.entries, strict=True)) if mask < 1 << len(op.args) else []
        # types, not values, are kept: what they are is Python's to say
        specs = any(keep and spec for keep, (_, spec) in entries)
        kept.append(
            bytes([SAVER] if specs else [0 if not keep else 3 if index < 0 else index + 1 for keep, (index, _) in entries])
        )
    savers = [plan.savers[mask] if mask < 1 << len(op.args) else None for mask in (1, 2, 3)]
    return (op, impl or op.impl, *kept, *savers, bytes([op.weak, impl is np.matmul]), fallback)


def mixed(*given: Any) -> Tensor:
    """`record_mixed`, which looks for the user's line one frame above its caller's: here is that frame."""
    return record_mixed(*given)


# -- small things ----------------------------------------------------------------------------------------------------


def none(f: Builder) -> Pointer[Any]:
    return lasting(f, "gt_none", None)


def item(sequence: Pointer[Any], index: int) -> Pointer[Any]:
    return sequence[Member(ITEMS.offset + 8 * index, PTR)]


def shared(f: Builder, thing: Pointer[Any]) -> Pointer[Any]:
    """One more reference."""
    incref(f, thing)
    return thing


def is_a(f: Builder, thing: Pointer[Any], name: str, kind: type) -> Flag:
    return thing[TYPE].equals(lasting(f, name, kind))


@FORMS.routine
def gt_drop(f: Builder, thing: Pointer) -> None:
    with f.if_(~thing.is_null()):
        decref(f, thing)


@FORMS.routine
def gt_float_dtype(f: Builder, value: Pointer) -> Pointer:
    """The dtype of an array or scalar of float32 or float64; null for any other value."""
    kinds: list[np.dtype[Any]] = [np.dtype(np.float32), np.dtype(np.float64)]
    with f.if_(is_a(f, value, "gt_ndarray", np.ndarray)):
        dtype = value[DESCR]
        f.leave_if(dtype.equals(lasting(f, *described(kinds[0]))) | dtype.equals(lasting(f, *described(kinds[1]))), dtype)
        f.leave(f.null())
    for kind in kinds:
        with f.if_(is_a(f, value, *scalar_type(kind))):  # type: ignore[arg-type]
            f.leave(lasting(f, *described(kind)))
    return f.null()


@FORMS.routine
def gt_site(f: Builder, scope: Pointer, lasti: Pointer) -> Pointer:
    """The user's code object that is running, and the offset of its instruction as a Python number: `record` says how it is
    found."""
    frame, held, code = f.variable(PTR, this_frame(f)), f.variable(PTR, f.null()), f.variable(PTR, f.null())
    with f.forever() as search:
        code.value = frame_code(f, frame.value)
        # mostly the code that was the user's at the last record: no set is asked
        search.leave_if(code.value.equals(scope[SCOPE_CODE]))
        file, site = code.value[FILE], scope[SCOPE_SITE]
        # inside a rule of a backward pass, the user's line is where he asked for the gradient
        with f.if_(~site.equals(none(f))), f.if_(set_contains(f, lasting(f, "gt_rules", RULES), file).equals(1)):
            decref(f, code.value)
            gt_drop(f, held.value)
            lasti.to(PTR).value = shared(f, item(site, 1))
            f.leave(shared(f, item(site, 0)))
        inside = set_contains(f, lasting(f, "gt_internal_files", INTERNAL), file).equals(1)
        back = f.variable(PTR, f.null())
        with f.if_(inside):
            back.value = frame_back(f, frame.value)
        with f.if_(back.value.is_null()):
            before = scope[SCOPE_CODE]
            scope[SCOPE_CODE] = shared(f, code.value)
            decref(f, before)
            search.leave()
        decref(f, code.value)
        gt_drop(f, held.value)
        held.value = back.value
        frame.value = back.value
    lasti.to(PTR).value = long_from(f, frame_lasti(f, frame.value).resized(I64, signed=True))
    gt_drop(f, held.value)
    return code.value


@FORMS.routine
def gt_shape(f: Builder, array: Pointer, bytes: Pointer) -> Pointer:
    """The shape of an array or scalar; multiplies the size of an element there to that of the whole."""
    rank = f.variable(I64, 0)
    with f.if_(is_a(f, array, "gt_ndarray", np.ndarray)):
        rank.value = array[RANK].resized(I64)
    shape = tuple_new(f, rank.value)
    with f.if_(shape.is_null() | rank.value.equals(0)):
        bytes.to(I64).value = f.number(0)
        f.leave(shape)
    dims, places, size = array[DIMS].to(I64), shape.field(ITEMS), bytes.to(I64)
    with f.loop(rank.value) as axis:
        size.value = size.value * dims[axis]
        places[axis] = long_from(f, dims[axis])
    return shape


@FORMS.routine
def gt_saved(f: Builder, state: Pointer, mask: Whole, a: Pointer, b: Pointer, result: Pointer) -> Pointer:
    """What a record keeps, by what its op's rules name."""
    places = state.field(ITEMS).at(mask)
    kept = places[KEPT - 1]
    codes, count = kept.field(BYTES), kept[COUNT]
    with f.if_(codes[0].equals(SAVER - 256)):
        inputs = f.variable(PTR, tuple_new(f, f.number(1) + (~b.is_null()).count()))
        f.leave_if(inputs.value.is_null(), f.null())
        inputs.value.field(ITEMS)[0] = shared(f, a)
        with f.if_(~b.is_null()):
            inputs.value.field(ITEMS)[1] = shared(f, b)
        arguments = f.array(PTR, 2)
        arguments[0], arguments[1] = inputs.value, result
        values = vectorcall(f, places[SAVERS - 1], arguments, 2, None)
        decref(f, inputs.value)
        f.leave(values)
    saved = tuple_new(f, count)
    with f.if_(~saved.is_null()), f.loop(count) as i:
        code, value = codes[i], f.variable(PTR, none(f))
        for number, thing in ((1, a), (2, b), (3, result)):
            with f.if_(code.equals(number)):
                value.value = thing
        saved.field(ITEMS)[i] = shared(f, value.value)
    return saved


@FORMS.routine
def gt_append(f: Builder, records: Pointer, entry: Pointer, size: Whole) -> Whole:
    """Append a record to a tape's list; gives what is left of the list's budget."""
    list_append(f, records, entry)
    before = records[BUDGET]
    left = long_as(f, before) - size
    records[BUDGET] = long_from(f, left)
    decref(f, before)
    return left


@FORMS.routine
def gt_sweep(f: Builder, records: Pointer) -> Flag:
    """The budget of a list is used up; whether sweeping went well."""
    arguments = f.array(PTR, 1)
    arguments[0] = records
    answer = call_method(f, lasting(f, "gt_word_sweep", "sweep"), arguments, 1, None)
    gt_drop(f, answer)
    return ~answer.is_null()


@FORMS.routine
def gt_known(f: Builder, scope: Pointer, node: Pointer) -> Flag:
    """Whether all who record know a version; a constant is no version."""
    f.leave_if(node.equals(none(f)), f.flag(True))
    keys, all_keys = node[NODE_KEYS], scope[SCOPE_FAST]
    # one tape: its versions share its tuple of keys, so a pointer tells
    f.leave_if(keys.equals(all_keys), f.flag(True))
    f.leave_if(
        keys.is_null() | all_keys.equals(none(f)), f.flag(False)
    )  # unwatched: they are its class's; or not only plain tapes record
    with f.loop(all_keys[COUNT]) as i:
        known = f.variable(I64, 0)
        with f.loop(keys[COUNT]) as k, f.if_(keys.field(ITEMS)[k].equals(all_keys.field(ITEMS)[i])):
            known.value = f.number(1)
        f.leave_if(known.value.equals(0), f.flag(False))
    return f.flag(True)


# -- box and record --------------------------------------------------------------------------------------------------


@FORMS.routine
def gt_recorded(
    f: Builder, scope: Pointer, state: Pointer, mask: Whole, a: Pointer, b: Pointer, nodes: Pointer, attrs: Pointer,
    out: Pointer,
) -> Flag:  # fmt: skip
    """The record of an operation whose inputs all recorders know; takes over `nodes`. Whether it went well."""
    result = out[ARRAY]
    size, lasti = f.variable(I64, 4), f.variable(PTR, f.null())
    with f.if_(gt_float_dtype(f, result).equals(lasting(f, *described(np.dtype(np.float64))))):
        size.value = f.number(8)
    parts = {
        "nodes": nodes,
        "saved": gt_saved(f, state, mask, a, b, result),
        "shape": gt_shape(f, result, size.to(I8)),
        "code": gt_site(f, scope, lasti.to(I8)),
    }
    parts["lasti"] = lasti.value
    entry = alloc(f, lasting(f, "gt_class_record", Record), 0)
    failed = entry.is_null()
    for part in parts.values():
        failed = failed | part.is_null()
    with f.if_(failed):
        # Python has set the error; nothing half made may stay
        for part in (entry, *parts.values()):
            gt_drop(f, part)
        f.leave(f.flag(False))
    for name, part in parts.items():
        entry[slot(Record, name)] = part
    kept = f.variable(PTR, none(f))
    with f.if_(~attrs.is_null()), f.if_(dict_size(f, attrs) > 0):
        kept.value = attrs
    given = {"op": item(state, OP), "attrs": kept.value, "keys": scope[SCOPE_KEYS], "when": scope[SCOPE_WHEN]}
    for name, part in given.items():
        entry[slot(Record, name)] = shared(f, part)
    # the tensor owns the record: the lists' references are their own
    out[NODE] = entry
    records, good = scope[SCOPE_RECORDS], f.variable(PTR, none(f))
    # (about what a record itself takes, beside its result)
    total = size.value + 200
    with f.if_else(records.equals(none(f))) as (several, one):
        with several:
            lists = scope[SCOPE_LISTS]
            with f.loop(lists[COUNT]) as i:
                gt_append(f, lists[LISTED].to(PTR)[i], entry, total)
            with f.loop(lists[COUNT]) as i:  # only now: a sweep counts on the record standing in all of them
                each = lists[LISTED].to(PTR)[i]
                with f.if_(long_as(f, each[BUDGET]) < 0), f.if_(~gt_sweep(f, each)):
                    good.value = f.null()
        with one, f.if_(gt_append(f, records, entry, total) < 0), f.if_(~gt_sweep(f, records)):
            good.value = f.null()
    return ~good.value.is_null()


@FORMS.routine
def gt_mix(
    f: Builder, scope: Pointer, state: Pointer, a: Pointer, b: Pointer, nodes: Pointer, attrs: Pointer, out: Pointer
) -> Flag:
    """Recorded by Python, which sees who knows what; takes over `nodes`. Whether it went well."""
    out[NODE] = shared(f, none(f))
    inputs, given = tuple_new(f, nodes[COUNT]), f.variable(PTR, attrs)
    with f.if_(attrs.is_null()):
        given.value = dict_new(f)
    with f.if_(~attrs.is_null()):
        incref(f, attrs)
    answer = f.variable(PTR, f.null())
    with f.if_(~inputs.is_null() & ~given.value.is_null()):
        inputs.field(ITEMS)[0] = shared(f, a)
        with f.if_(~b.is_null()):
            inputs.field(ITEMS)[1] = shared(f, b)
        arguments = f.array(PTR, 7)
        for i, thing in enumerate((scope, item(state, OP), inputs, nodes, given.value, out, out[ARRAY])):
            arguments[i] = thing
        answer.value = vectorcall(f, lasting(f, "gt_mixed", mixed), arguments, 7, None)
    for thing in (nodes, inputs, given.value, answer.value):
        gt_drop(f, thing)
    return ~answer.value.is_null()


@FORMS.routine
def gt_box(
    f: Builder, state: Pointer, a: Pointer, b: Pointer, node_a: Pointer, node_b: Pointer, attrs: Pointer, result: Pointer
) -> Pointer:  # fmt: skip
    """The tensor of a result, which it takes over, recorded if somebody records; or null with Python's error.

    `b` and `node_b` are null for an op of one input.
    """
    out = alloc(f, lasting(f, "gt_class_tensor", Tensor), 0)
    with f.if_(out.is_null()):
        decref(f, result)
        f.leave(f.null())
    out[ARRAY] = result
    mask = (~node_a.equals(none(f))).count() + (~node_b.is_null() & ~node_b.equals(none(f))).count() * 2
    with f.if_(mask.equals(0)):
        out[NODE] = shared(f, none(f))
        f.leave(out)
    place = f.array(PTR, 1)
    place[0] = f.null()
    with f.if_(context_get(f, lasting(f, "gt_scope_variable", SCOPE), None, place) < 0):
        out[NODE] = shared(f, none(f))
        decref(f, out)
        f.leave(f.null())
    scope = place[0]
    good = f.variable(I64, 0)
    with f.if_else(scope.equals(none(f))) as (nobody, somebody):
        with nobody:
            arguments, second = f.array(PTR, 3), f.variable(PTR, node_b)
            with f.if_(node_b.is_null()):
                second.value = none(f)
            arguments[0], arguments[1], arguments[2] = item(state, OP), node_a, second.value
            past = vectorcall(f, lasting(f, "gt_past_of_pair", past_of_pair), arguments, 3, None)
            out[NODE] = past
            good.value = (~past.is_null()).count()
        with somebody:
            two = ~node_b.is_null()
            nodes = tuple_new(f, two.count() + 1)
            with f.if_(~nodes.is_null()):
                nodes.field(ITEMS)[0] = shared(f, node_a)
                known = f.variable(I64, gt_known(f, scope, node_a).count())
                with f.if_(two):
                    nodes.field(ITEMS)[1] = shared(f, node_b)
                    known.value = known.value & gt_known(f, scope, node_b).count()
                real = (~gt_float_dtype(f, result).is_null()).count()
                with f.if_else((known.value & real).differs(0)) as (plain, unusual):
                    with plain:
                        good.value = gt_recorded(f, scope, state, mask, a, b, nodes, attrs, out).count()
                    with unusual:
                        good.value = gt_mix(f, scope, state, a, b, nodes, attrs, out).count()
    decref(f, scope)
    with f.if_(good.value.equals(0)):
        decref(f, out)
        f.leave(f.null())
    return out
