"""Arrays put together from parts: each part is computed straight into its place.

A concatenation becomes a `piece` for each operand and one `joined`: pieces are element operations whose memory is a part of the
joined array's, so that what makes them writes it there, in one loop with its neighbours. A sum of parts padded with zeros, as
derivatives of slices are, is a concatenation where the parts cover everything once.
"""

from __future__ import annotations

import itertools
from typing import Any

from gradtape.backends.llvm.kernels.scope import Scope
from gradtape.backends.llvm.planning.layouts import is_one
from gradtape.backends.llvm.planning.lowering import Lowering, always
from gradtape.backends.llvm.planning.values import Array, Lowered, Place
from gradtape.backends.llvm.planning.writing_out import Maker, native_op
from gradtape.backends.llvm.writing.element_types import MEMORY, is_float, name_of
from gradtape.core.opdef import Op
from gradtape.ir.graph import Operation, Value
from gradtape.ir.types import TensorSpec
from gradtape.ops.composite import ADD_N
from gradtape.ops.elementwise import ADD
from gradtape.ops.padding import PAD
from gradtape.ops.shape import RESHAPE
from gradtape.passes.inplace import ARITHMETIC

_NUMBERS = itertools.count()
SUMS = (ADD, ARITHMETIC[ADD], ADD_N)


def _whole(*pieces: TensorSpec, axis: int) -> TensorSpec:
    first = pieces[0]
    total: Any = 0
    for piece in pieces:
        total = total + piece.shape[axis]
    return TensorSpec((*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype)


PIECE = native_op("piece", "x", infer=lambda x, **attrs: x)
JOINED = native_op("joined", "*pieces", infer=_whole)


def joined(make: Maker, parts: list[Value], axis: int) -> Value:
    """The parts behind one another along an axis."""
    starts: list[Any] = [0]
    for part in parts:
        starts.append(starts[-1] + part.type.shape[axis])
    # Pieces are written before the whole is looked at: its memory can be taken in advance only if its size is known.
    known = all(isinstance(n, int) for n in (*parts[0].type.shape, starts[-1]))
    pieces = [
        make(PIECE, part, axis=axis, start=start, number=next(_NUMBERS), known=known)
        for part, start in zip(parts, starts[:-1], strict=True)
    ]
    return make(JOINED, *pieces, axis=axis)


def concatenated(make: Maker, *xs: Value, axis: int) -> Value | None:
    others = {tuple(n for k, n in enumerate(x.type.shape) if k != axis) for x in xs}
    if any(x.type.dtype != xs[0].type.dtype for x in xs) or len(others) != 1:  # NumPy says what does not fit
        return None
    return joined(make, list(xs), axis)


def stacked(make: Maker, *xs: Value, axis: int) -> Value | None:
    if any(x.type.dtype != xs[0].type.dtype or tuple(x.type.shape) != tuple(xs[0].type.shape) for x in xs):
        return None
    shape = tuple(xs[0].type.shape)
    wide = (*shape[:axis], 1, *shape[axis:])
    return joined(make, [make(RESHAPE, x, shape=wide) for x in xs], axis)


def sum_of_paddings(make: Maker, *xs: Value, **attrs: Any) -> Value | None:
    """A sum of paddings that cover all of the result once."""
    terms: list[Operation] = []
    stack = list(xs)
    while stack:
        producer = stack.pop().producer
        if producer is None or len(terms) > 64:
            return None
        if producer.op in SUMS:
            stack += producer.operands
        elif producer.op is PAD:
            terms.append(producer)
        else:
            return None
    shape = tuple(xs[0].type.shape)
    if not terms or not is_float(xs[0].type.dtype) or any(tuple(x.type.shape) != shape for x in xs):
        return None
    # Parts that are padded along one axis, the same for all: then they lie behind one another, and it is enough that each
    # begins where the one before it ends.
    axes = [[k for k, pair in enumerate(term.attrs["paddings"]) if tuple(pair) != (0, 0)] for term in terms]
    if any(len(a) != 1 or a != axes[0] for a in axes):
        return None
    (axis,) = axes[0]
    if any(not isinstance(term.attrs["paddings"][axis][0], int) for term in terms):
        return None
    terms.sort(key=lambda term: int(term.attrs["paddings"][axis][0]))
    end: Any = 0
    for term in terms:
        if term.attrs["paddings"][axis][0] != end:
            return None
        end = end + term.operands[0].type.shape[axis]
    if end != shape[axis]:
        return None
    zero = make.number(0.0, xs[0])  # -0 + 0 = 0, as in the sum
    return joined(make, [make(ADD, term.operands[0], zero) for term in terms], axis)


# -- how they are written


def _element(scope: Scope, operation: Operation, place: Place) -> str:
    return scope.element(operation.operands[0], place)


def _stays(operation: Operation) -> bool:
    """Whether a piece must be computed where it stands: the size of the whole may not be known before."""
    return not operation.attrs["known"]


def is_dense(operation: Operation) -> bool:
    """Whether a piece is one stretch of the joined array's memory."""
    return all(is_one(n) for n in tuple(operation.result.type.shape)[: operation.attrs["axis"]])


def piece_home(scope: Scope, operation: Operation) -> Array:
    """The memory of a piece: indices into it go by the dims of the whole."""
    w = scope.writer
    # The first piece that is written takes the memory of the whole, the others find it there.
    whole = scope.plan.only_user(operation)
    home = scope.values.get(whole.result)
    if not isinstance(home, Array):
        home = scope.values[whole.result] = scope.room(whole.result)
    axis = operation.attrs["axis"]
    offset = w.multiply(scope.program.index(operation.attrs["start"]), w.product(home.dims[axis + 1 :]))
    return Array(w.at(MEMORY[name_of(home.dtype)], home.address, offset), home.dims, home.dtype)


def _joined(scope: Scope, operation: Operation) -> list[Lowered]:
    home = scope.values.get(operation.result)  # the first piece has taken it, if there is one
    return [scope.room(operation.result) if home is None else home]


LOWERINGS: dict[Op, Lowering] = {
    PIECE: Lowering(element=_element, cost=0, pointwise=always, fails=_stays, finds_sizes=True),
    JOINED: Lowering(memory=_joined, finds_sizes=True),
}
