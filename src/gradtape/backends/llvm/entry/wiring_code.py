"""Comparing the records of a walk with those of a lesson as machine code: `Wiring.matches` of `ad/straight.py`.

It reads records and compares pointers, and shapes as Python compares tuples; it changes nothing. Every pointer it reads is held
by the tuple of records that it was given.
"""

from __future__ import annotations

from collections.abc import Callable

from gradtape.ad.straight import LEAVES, NONE, OUTSIDE, Wiring
from gradtape.backends.llvm.entry.form_code import FAST, builtin_form
from gradtape.backends.llvm.entry.record_code import BYTES, COUNT, FORMS, ITEMS, error_clear, is_a, item, none, shared, slot
from gradtape.backends.llvm.runtime.symbols import lasting, python
from gradtape.backends.llvm.writing.algebra import I8, I32, I64, Flag, Whole
from gradtape.backends.llvm.writing.builder import PTR, Builder, Pointer
from gradtape.core.record import Record

compare = python("PyObject_RichCompareBool", I32, PTR, PTR, I32)
EQUAL = 2  # Py_EQ
OPS, SHAPES, CODES, TARGETS, WANTED, LEAF_SHAPES = range(6)  # places in a state
OP, NODES, SHAPE = slot(Record, "op"), slot(Record, "nodes"), slot(Record, "shape")


def integers(text: Pointer) -> Pointer[Whole]:
    return text.field(BYTES).to(I8).to(I32)


@FORMS.routine
def gt_is_leaf(f: Builder, leaves: Pointer, count: Whole, node: Pointer) -> Flag:
    """Whether a version is among the leaves that were met."""
    with f.loop(count) as i, f.if_(leaves.to(PTR)[i].equals(node)):
        f.leave(f.flag(True))
    return f.flag(False)


@FORMS.routine
def gt_same_versions(f: Builder, codes: Pointer, nodes: Pointer, records: Pointer, leaves: Pointer, count: Whole) -> Flag:
    """Whether targets, or what is wanted, stand where a lesson had them."""
    number = nodes[COUNT]
    f.leave_if((number * 4).differs(codes[COUNT]), f.flag(False))
    with f.loop(number) as i:
        code, node = integers(codes)[i].resized(I64, signed=True), nodes.field(ITEMS)[i]
        with f.if_(code >= 0), f.if_(~records.field(ITEMS)[code].equals(node)):
            f.leave(f.flag(False))
        with f.if_(code.equals(OUTSIDE)), f.if_(~node[OP].equals(none(f)) | gt_is_leaf(f, leaves, count, node)):
            f.leave(f.flag(False))
        with f.if_(code < OUTSIDE):
            place = code * -1 + (OUTSIDE - 1)
            f.leave_if(place >= count, f.flag(False))
            f.leave_if(~leaves.to(PTR)[place].equals(node), f.flag(False))
    return f.flag(True)


@FORMS.routine
def gt_same_wiring(f: Builder, state: Pointer, records: Pointer, targets: Pointer, wanted: Pointer) -> Flag:
    """`Wiring.matches`"""
    number = records[COUNT]
    f.leave_if(number.differs(item(state, OPS)[COUNT]), f.flag(False))
    leaves, count, position = f.array(PTR, LEAVES), f.variable(I64, 0), f.variable(I64, 0)
    codes, ops, shapes = integers(item(state, CODES)), item(state, OPS).field(ITEMS), item(state, SHAPES).field(ITEMS)
    with f.loop(number) as i:
        record = records.field(ITEMS)[i]
        f.leave_if(~record[OP].equals(ops[i]), f.flag(False))
        with f.if_(~record[SHAPE].equals(shapes[i])), f.if_(compare(f, record[SHAPE], shapes[i], EQUAL).differs(1)):
            error_clear(f)
            f.leave(f.flag(False))
        nodes = record[NODES]
        with f.loop(nodes[COUNT]) as k:
            node, code = nodes.field(ITEMS)[k], codes[position.value].resized(I64, signed=True)
            position.value = position.value + 1
            with f.if_(code >= 0), f.if_(~records.field(ITEMS)[code].equals(node)):
                f.leave(f.flag(False))
            with f.if_(code.equals(NONE)), f.if_(~node.equals(none(f))):
                f.leave(f.flag(False))
            f.leave_if(code.equals(OUTSIDE), f.flag(False))  # fewer inputs
            with f.if_(code < OUTSIDE):
                place = code * -1 + (OUTSIDE - 1)
                f.leave_if((place > count.value) | (place >= item(state, LEAF_SHAPES)[COUNT]), f.flag(False))
                with f.if_else(place.equals(count.value)) as (new, old):
                    with new:
                        f.leave_if(~is_a(f, node, "gt_class_record", Record), f.flag(False))
                        f.leave_if(~node[OP].equals(none(f)) | gt_is_leaf(f, leaves.to(I8), count.value, node), f.flag(False))
                        shape = item(state, LEAF_SHAPES).field(ITEMS)[place]
                        with f.if_(compare(f, node[SHAPE], shape, EQUAL).differs(1)):
                            error_clear(f)
                            f.leave(f.flag(False))
                        leaves[place] = node
                        count.value = count.value + 1
                    with old, f.if_(~leaves[place].equals(node)):
                        f.leave(f.flag(False))
        f.leave_if(codes[position.value].differs(OUTSIDE), f.flag(False))  # more inputs
        position.value = position.value + 1
    held, met = leaves.to(I8), count.value
    return gt_same_versions(f, item(state, TARGETS), targets, records, held, met) & gt_same_versions(
        f, item(state, WANTED), wanted, records, held, met
    )


@FORMS.routine
def gt_matches(f: Builder, state: Pointer, args: Pointer, count: Whole) -> Pointer:
    """matches(records, targets, wanted), all tuples"""
    given = args.to(PTR)
    with f.if_(gt_same_wiring(f, state, given[0], given[1], given[2])):
        f.leave(shared(f, lasting(f, "gt_true", True)))
    return shared(f, lasting(f, "gt_false", False))


def matcher(wiring: Wiring) -> Callable[..., bool]:
    """What compares with a wiring, as a builtin function."""
    state = (wiring.ops, wiring.shapes, wiring.codes, wiring.targets, wiring.wanted, wiring.leaf_shapes)
    return builtin_form("matches", state, ("gt_matches", FAST))
