"""Products of matrices that are written as loops over their rows: found, and computed as products.

Reading: `x[:, i] @ y[:, i:]` in a loop over i is a part of row i of xᵀy; the product goes in front of the loop. Adding up:
`a[:, i:] += outer(x[:, i], g)` and `a[:, i] += y[:, i:] @ g`, which are its derivatives, put g into row i of a matrix G, zero
elsewhere; behind the loop a += x G and a += y Gᵀ. There zeros of G meet numbers that the loop never multiplies by anything: so
it is done only if all of these are finite, and else by a loop that adds as before.

Invariant: the same sums, in another order. So this is for programs that become machine code, where sums have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

from gradtape.ir.graph import Block, Operation, Value
from gradtape.ir.slots import Slot, filled, slots_in
from gradtape.ir.types import TensorSpec
from gradtape.ir.walk import Rebuild, flat, groups_of, insert_param, layout_of, program, rebuild, uses
from gradtape.ops.compare import IS_FINITE, LOGICAL_AND
from gradtape.ops.dynamic import ADD_AT, GETITEM_AT, UPDATE_AT, whole_key
from gradtape.ops.elementwise import ADD, CAST, MULTIPLY, SUBTRACT
from gradtape.ops.index import GETITEM, PUT_SLICE
from gradtape.ops.matmul import MATMUL
from gradtape.ops.reduce import REDUCE_SUM
from gradtape.ops.shape import RESHAPE, TRANSPOSE
from gradtape.ops.staged import CONSTANT, FILLED
from gradtape.ops.structured import COND, SCAN
from gradtape.passes.dce import dce
from gradtape.passes.facts import attr_key, constant_value, static_shape

LEAST = 16  # turns of a loop, and numbers of a sum in it: below, a product has nothing to gain
_ALL = slice(None)


def loop_products(block: Block) -> Block:
    """The program with the products in its loops; the block itself if there are none."""
    loops = (operation for operation in program(block) if operation.op is SCAN)
    if not any(inner.op is MATMUL for loop in loops for inner in loop.regions["body"].operations):
        return block
    changed: list[Value] = []

    def visit(scope: Rebuild, operation: Operation) -> None:
        new = scope.copy(operation)
        length = operation.attrs.get("length")
        if operation.op is SCAN and isinstance(length, int) and length >= LEAST:
            # taken out again: what is computed in front of the loop must stand there before it
            scope.new.operations.pop()
            loop = _RowLoop(scope, new)
            scope.replace(operation, loop.written())
            changed.extend(loop.products)

    new = rebuild(block, visit)
    return dce(new) if changed else block


class _Cut(NamedTuple):
    """A part of an axis: a slice whose slots are these operands."""

    part: slice
    operands: tuple[Value, ...]

    def key(self) -> Any:
        """What it is known by."""
        return attr_key(self.part), self.operands


class _Row(NamedTuple):
    """Column or row `turn` of a matrix."""

    matrix: Value
    axis: int
    turn: Value


class _Columns(NamedTuple):
    """A matrix of which one axis is cut."""

    matrix: Value
    axis: int
    cut: _Cut


class _Term(NamedTuple):
    """What a turn adds: row `turn` of G is `vector`, in the places of a cut. Behind the loop: matrix · G, or G · matrix."""

    add: Operation
    matrix: Value
    turned: bool  # the matrix is to be transposed
    first: bool  # and stands on the left
    vector: Value
    turn: Value
    cut: _Cut
    sides: tuple[int, int]  # of G
    flipped: bool  # G is to be transposed

    def buffer(self) -> Any:
        return self.vector, self.turn, self.cut.key(), self.sides


class _RowLoop:
    """One loop, whose body is new and is changed here."""

    def __init__(self, scope: Rebuild, loop: Operation) -> None:
        self.scope, self.loop, self.body = scope, loop, loop.regions["body"]
        (self.index,) = self.body.group("index")
        self.outer: dict[Value, Value] = dict(zip(self.body.group("consts"), loop.group("consts"), strict=True))
        self.products: list[Value] = []  # of the loop, that are computed elsewhere now
        arrays = [v.type.shape for v in (*loop.group("carried"), *loop.group("consts")) if isinstance(v.type, TensorSpec)]
        # No product may be larger than what the loop holds anyway: memory must not grow with what is saved in time.
        self.room = max((prod(shape) for shape in arrays if static_shape(shape)), default=0)

    def written(self) -> list[Value]:
        """The results of the loop, with what is computed in front of it and behind it."""
        self._reads()
        readers = uses(self.body)
        terms = {place: terms for place in range(self.loop.layout["carried"]) if (terms := self._terms(place, readers))}
        self.products += [term.add.operands[1] for each in terms.values() for term in each]
        if not terms:
            self.scope.new.operations.append(self.loop)
            return self.loop.results
        return self._split(terms)

    # --- what is read

    def _reads(self) -> None:
        """Rows of products that are computed in front of the loop, in the places of products of rows."""
        operations: list[Operation] = []
        instead: dict[Value, Value] = {}
        for operation in self.body.operations:
            for vector, matrix, position in _sides(operation) if operation.op is MATMUL else ():
                row, columns = self._row(vector), self._columns(matrix, position)
                if row is not None and columns is not None and self._fits(row, columns):
                    operations += (lines := self._line_of_product(operation, row, columns, position))
                    instead[operation.result] = lines[-1].result
                    break
            else:
                operations.append(operation)
        self.body.operations = operations
        _substitute(self.body, instead)
        self.products += instead

    def _fits(self, row: _Row, columns: _Columns) -> bool:
        x, y = row.matrix.type.shape, columns.matrix.type.shape
        rows, inner = x[row.axis], x[1 - row.axis]
        enough = (
            _is_real(row.matrix)
            and inner >= LEAST
            # (the product has all rows: if the loop reads only a few of them, most of it would be for nothing)
            and 2 * self.loop.attrs["length"] >= rows
            and rows * y[columns.axis] <= self.room
        )
        return enough and y[1 - columns.axis] == inner and row.matrix.type.dtype == columns.matrix.type.dtype

    def _line_of_product(self, operation: Operation, row: _Row, columns: _Columns, position: int) -> list[Operation]:
        x = _turned(self.scope.new, self.outer[row.matrix], row.axis == 1)
        y = _turned(self.scope.new, self.outer[columns.matrix], columns.axis == 0)
        result = operation.result.type
        whole = self._const(_emit(self.scope.new, MATMUL, [x, y], TensorSpec((x.shape[0], y.shape[1]), result.dtype)))
        part = Operation(
            GETITEM_AT, [whole, row.turn, *columns.cut.operands], [TensorSpec((result.shape[position],), result.dtype)],
            _place(columns.cut, result.shape[position]), loc=operation.loc,
        )  # fmt: skip
        key = (None, _ALL) if position else (_ALL, None)
        return [part, Operation(GETITEM, part.results, [result], {"key": key}, loc=operation.loc)]

    def _const(self, value: Value) -> Value:
        """A value from in front of the loop, in its body."""
        groups = groups_of(self.loop.operands, self.loop.layout)
        groups["consts"].append(value)
        self.loop.operands, self.loop.layout = flat(groups), layout_of(groups)
        inside = insert_param(self.body, "consts", value.type)
        self.outer[inside] = value
        return inside

    # --- what is added up

    def _terms(self, place: int, readers: dict[Value, list[Any]]) -> list[_Term]:
        """The terms that are products among those that a carried value is the sum of; none if it is something else, too."""
        start, value = self.body.group("carried")[place], self.body.result_group("carried")[place]
        if not isinstance(start.type, TensorSpec) or len(start.type.shape) != 2 or not static_shape(start.type.shape):
            return []
        adds = []
        while value is not start:
            producer = value.producer
            # a value between that somebody else reads is no mere sum: its order in the loop counts
            if producer is None or producer.op is not ADD_AT or len(readers[value]) != 1:
                return []
            adds.append(producer)
            value = producer.operands[0]
        if len(readers[start]) != 1:
            return []
        terms = [self._term(add) for add in reversed(adds)]
        return [term for term in terms if term is not None and self._is_worth(term)]

    def _is_worth(self, term: _Term) -> bool:
        rows, columns = term.sides
        shape, length = term.matrix.type.shape, self.loop.attrs["length"]
        dtypes = {v.type.dtype for v in (term.matrix, term.vector, term.add.result)}
        # neither broadcast to what it is added to nor converted
        plain = len(dtypes) == 1 and _is_real(term.matrix) and tuple(term.vector.type.shape) != (1,)
        # each turn has a row of its own: no more turns than rows
        return plain and min(shape) >= LEAST and length <= rows <= 2 * length and rows * columns <= self.room

    def _term(self, add: Operation) -> _Term | None:
        value, key = add.operands[1], whole_key(add.attrs["key"], 2)
        if len(key) != 2 or _ALL not in key:
            return None
        axis = 1 - key.index(_ALL)  # where it is cut, or one place of it is told
        if isinstance(key[axis], Slot):
            return self._line(add, value, add.operands[2 + key[axis].index], axis)
        return self._outer(add, value, self._cut(key[axis], add.operands[2:]), axis) if isinstance(key[axis], slice) else None

    def _outer(self, add: Operation, value: Value, cut: _Cut, axis: int) -> _Term | None:
        """a[:, cut] += x[:, i] g, or a[cut, :] += g x[i, :]."""
        product = value.producer
        if product is None or product.op is not MATMUL or product.operands[0].type.shape[1] != 1:
            return None
        left, right = product.operands
        row, vector = self._row(left if axis else right), _vector(right if axis else left)
        if row is None or vector is None:
            return None
        sides = (row.matrix.type.shape[row.axis], add.result.type.shape[axis])
        return _Term(add, row.matrix, row.axis != axis, bool(axis), vector, row.turn, cut, sides, not axis)

    def _line(self, add: Operation, value: Value, turn: Value, axis: int) -> _Term | None:
        """a[:, i] += y[:, cut] g, or a[i, :] += g y[cut, :]."""
        product = _stripped(value).producer
        if product is None or product.op is not MATMUL or not self._is_turn(turn):
            return None
        if tuple(value.type.shape) != (add.result.type.shape[1 - axis],):
            return None
        for line, matrix, position in _sides(product):
            # the sum goes over what is cut: the other side of the matrix than that of a product that is read
            columns, vector = self._columns(matrix, 1 - position), _vector(line)
            if columns is not None and vector is not None:
                sides = (add.result.type.shape[axis], columns.matrix.type.shape[columns.axis])
                return _Term(
                    add, columns.matrix, columns.axis != axis, bool(axis), vector, turn, columns.cut, sides, bool(axis)
                )
        return None

    def _split(self, terms: dict[int, list[_Term]]) -> list[Value]:
        """The loop without the terms, which gives their vectors; and the products of these behind it."""
        scope, loop, body = self.scope, self.loop, self.body
        every = [term for each in terms.values() for term in each]
        _substitute(body, {term.add.result: term.add.operands[0] for term in every})
        gone = {term.add for term in every}
        body.operations = [operation for operation in body.operations if operation not in gone]
        operands, results = groups_of(loop.operands, loop.layout), groups_of(body.results, body.result_layout)
        count, buffers = len(operands["carried"]), dict[Any, int]()
        for term in every:
            # one buffer for terms with the same vectors in the same places
            if term.buffer() in buffers:
                continue
            buffers[term.buffer()] = len(operands["carried"])
            type = TensorSpec(term.sides, term.vector.type.dtype)
            zeros = _emit(scope.new, FILLED, [], type, shape=term.sides, dtype=type.dtype, value=0)
            operands["carried"].append(zeros)
            written = Operation(UPDATE_AT, [insert_param(body, "carried", type), term.vector, term.turn, *term.cut.operands],
                                [type], {"key": (Slot(0), _shifted(term.cut.part))}, loc=loop.loc)  # fmt: skip
            results["carried"].append(body.append(written).result)
        body.give(**results)
        types = [v.type for v in loop.results]
        types[count:count] = [v.type for v in operands["carried"][count:]]
        layout = {**loop.result_layout, "carried": len(operands["carried"])}
        new = Operation(loop.op, flat(operands), types, loop.attrs, loop.regions, loop.loc, layout_of(operands), layout)
        scope.new.append(new)
        given = [*new.results[:count], *new.results[len(operands["carried"]) :]]
        for place, each in terms.items():
            given[place] = self._added(given[place], each, [new.results[buffers[term.buffer()]] for term in each])
        return given

    def _added(self, total: Value, terms: list[_Term], vectors: list[Value]) -> Value:
        """A total with the terms of all turns: by products where all numbers are finite, else by a loop."""
        new = self.scope.new
        matrices = list(dict.fromkeys(self.outer[term.matrix] for term in terms))
        inputs = list(dict.fromkeys([total, *matrices, *vectors]))
        # A turn multiplies what it reads; the product multiplies zeros too, and 0 · ∞ is NaN: only finite matrices may be
        # multiplied whole.
        tests = [_is_finite(new, matrix) for matrix in matrices]
        finite = tests[0]
        for test in tests[1:]:
            finite = _emit(new, LOGICAL_AND, [finite, test], finite.type)
        branches = {}
        for name, write in (("then", self._products), ("orelse", self._turn_by_turn)):
            branch = Block([v.type for v in inputs], layout={"inputs": len(inputs)})
            here = dict(zip(inputs, branch.params, strict=True))
            result = write(branch, here[total], terms, [here[self.outer[t.matrix]] for t in terms], [here[v] for v in vectors])
            branches[name] = branch.give(outputs=[result])
        cond = Operation(COND, [finite, *inputs], [total.type], {}, branches, self.loop.loc,
                         {"pred": 1, "inputs": len(inputs)}, {"outputs": 1})  # fmt: skip
        return new.append(cond).result

    def _products(
        self, block: Block, total: Value, terms: Sequence[_Term], matrices: Sequence[Value], vectors: Sequence[Value]
    ) -> Value:
        # x G + x Gᵀ = x (G + Gᵀ): one product for both
        sums: dict[Any, Value] = {}
        for term, matrix, rows in zip(terms, matrices, vectors, strict=True):
            key, side = (matrix, term.turned, term.first), _turned(block, rows, term.flipped)
            sums[key] = _emit(block, ADD, [sums[key], side], side.type) if key in sums else side
        for (matrix, turned, first), rows in sums.items():
            factors = [_turned(block, matrix, turned), rows] if first else [rows, _turned(block, matrix, turned)]
            total = _emit(block, ADD, [total, _emit(block, MATMUL, factors, total.type)], total.type)
        return total

    def _turn_by_turn(
        self, block: Block, total: Value, terms: Sequence[_Term], matrices: Sequence[Value], vectors: Sequence[Value]
    ) -> Value:
        consts = list(dict.fromkeys([*matrices, *vectors]))
        types = [self.index.type, total.type, *(value.type for value in consts)]
        body = Block(types, layout={"index": 1, "carried": 1, "consts": len(consts), "xs": 0})
        inside = dict(zip(consts, body.group("consts"), strict=True))
        # the places of a turn are computed again from its number: the loop that had them has ended
        copies: dict[Value, Value] = {self.index: body.params[0]}
        copies |= {term.matrix: inside[matrix] for term, matrix in zip(terms, matrices, strict=True)}
        result = body.params[1]
        for term, rows in zip(terms, vectors, strict=True):
            places = [_copied(body, v, copies) for v in (term.turn, *term.cut.operands)]
            if term.vector not in copies:
                type = term.vector.type
                copies[term.vector] = _emit(body, GETITEM_AT, [inside[rows], *places], type, **_place(term.cut, type.shape[0]))
            values = [_copied(body, v, copies) for v in term.add.operands[1:]]
            result = _emit(body, ADD_AT, [result, *values], result.type, **term.add.attrs)
        body.give(carried=[result], ys=[])
        layout = {"length": 0, "carried": 1, "consts": len(consts), "xs": 0}
        attrs = self.loop.attrs
        loop = Operation(
            SCAN, [total, *consts], [total.type], attrs, {"body": body}, self.loop.loc, layout, {"carried": 1, "ys": 0}
        )
        return block.append(loop).result

    # --- what values are

    def _is_turn(self, value: Value) -> bool:
        """Whether an integer is the number of the turn or its opposite, plus a constant: another one in each turn."""
        while value is not self.index:
            producer = value.producer
            # (shorter integers may come to the same number twice)
            if producer is None or producer.op not in (CAST, ADD, SUBTRACT) or value.type.dtype.name not in ("int32", "int64"):
                return False
            waiting = [v for v in producer.operands if constant_value(v) is None]
            if len(waiting) != 1 or any(len(v.type.shape) for v in producer.operands):
                return False
            (value,) = waiting
        return True

    def _matrix(self, read: Operation | None) -> tuple[Value, tuple[Any, ...]] | None:
        """The invariant matrix of which an operation reads a part, and its key."""
        if read is None or read.op is not GETITEM_AT or read.operands[0] not in self.outer:
            return None
        shape, key = read.operands[0].type.shape, read.attrs["key"]
        known = len(shape) == 2 and static_shape(shape) and all(isinstance(part, (slice, Slot)) for part in key)
        return (read.operands[0], whole_key(key, 2)) if known else None

    def _row(self, value: Value) -> _Row | None:
        read = _stripped(value).producer
        source = self._matrix(read)
        if source is None or read is None or _ALL not in source[1]:
            return None
        axis = 1 - source[1].index(_ALL)
        if not isinstance(source[1][axis], Slot):
            return None
        turn = read.operands[1 + source[1][axis].index]
        return None if not self._is_turn(turn) else _Row(source[0], axis, turn)

    def _columns(self, value: Value, position: int) -> _Columns | None:
        """An invariant matrix, of which axis `position` of the value is a part of one axis."""
        while value.producer is not None and value.producer.op is TRANSPOSE:
            value, position = value.producer.operands[0], 1 - position
        read = value.producer
        source = (value, (_ALL, _ALL)) if value in self.outer else self._matrix(read)
        if source is None or len(source[0].type.shape) != 2 or not static_shape(source[0].type.shape):
            return None
        matrix, key = source
        if key[1 - position] != _ALL or not isinstance(key[position], slice):
            return None
        return _Columns(matrix, position, self._cut(key[position], () if read is None else read.operands[1:]))

    def _cut(self, part: slice, operands: Sequence[Value]) -> _Cut:
        mine = list(dict.fromkeys(operands[slot.index] for slot in slots_in(part)))
        return _Cut(filled(part, [Slot(mine.index(v)) if v in mine else None for v in operands]), tuple(mine))


def _sides(product: Operation) -> Iterator[tuple[Value, Value, int]]:
    """A product of a vector and a matrix: the vector, the matrix, and which of its axes the result has."""
    left, right = product.operands
    if len(left.type.shape) == len(right.type.shape) == 2:
        if left.type.shape[0] == 1:
            yield left, right, 1
        if right.type.shape[1] == 1:
            yield right, left, 0


def _stripped(value: Value) -> Value:
    """The value that has the same elements in the same order."""
    while (producer := value.producer) is not None:
        if producer.op is TRANSPOSE:
            same = 1 in value.type.shape and len(value.type.shape) == 2
        elif producer.op in (GETITEM, PUT_SLICE):
            wide = value if producer.op is GETITEM else producer.operands[0]
            key = producer.attrs["key"]
            new = all(part is None or part is Ellipsis or part == _ALL for part in key)
            # (of an axis of length 1, its one place)
            one = producer.op is GETITEM and 0 in key and producer.operands[0].type.shape[0] == 1 and len(wide.type.shape) == 1
            same = new or one
        else:
            same = producer.op is RESHAPE and len([size for size in value.type.shape if size != 1]) == 1
        if not same:
            return value
        value = producer.operands[0]
    return value


def _vector(value: Value) -> Value | None:
    """The vector that a matrix of one row or column is."""
    value = _stripped(value)
    return value if len(value.type.shape) == 1 else None


def _is_real(value: Value) -> bool:
    return value.type.dtype.name in ("float32", "float64")


def _shifted(part: slice) -> slice:
    """The slice with slots behind the first one, which is the turn's."""
    shifted: slice = filled(part, [Slot(i + 1) for i in range(3)])
    return shifted


def _place(cut: _Cut, size: Any) -> dict[str, Any]:
    """Attributes of reading a cut of a row; a length that the program counts on is checked."""
    return {"key": (Slot(0), _shifted(cut.part)), "size": (size,) if cut.operands and isinstance(size, int) else None}


def _emit(block: Block, op: Any, operands: Sequence[Value], type: Any, **attrs: Any) -> Value:
    return block.append(Operation(op, operands, [type], attrs)).result


def _turned(block: Block, value: Value, turned: bool) -> Value:
    if not turned:
        return value
    return _emit(block, TRANSPOSE, [value], TensorSpec(tuple(value.type.shape)[::-1], value.type.dtype), perm=(1, 0))


def _is_finite(block: Block, value: Value) -> Value:
    """Whether all numbers are finite: 0 · x is 0 then, and NaN otherwise."""
    dtype = value.type.dtype
    zero = _emit(block, CONSTANT, [], TensorSpec((), dtype), value=dtype.dtype.type(0))
    zeros = _emit(block, MULTIPLY, [value, zero], value.type)
    total = _emit(block, REDUCE_SUM, [zeros], TensorSpec((), dtype), axis=(0, 1), keepdims=False)
    return _emit(block, IS_FINITE, [total], TensorSpec((), "bool"))


def _substitute(block: Block, values: dict[Value, Value]) -> None:
    def last(value: Value) -> Value:
        while value in values:
            value = values[value]
        return value

    for operation in block.operations:
        operation.operands = [last(v) for v in operation.operands]
    block.results = [last(v) for v in block.results]


def _copied(block: Block, value: Value, copies: dict[Value, Value]) -> Value:
    """A value of a loop's body, computed again in another one."""
    if value not in copies:
        producer = value.producer
        assert producer is not None
        copy = block.append(producer.twin([_copied(block, v, copies) for v in producer.operands]))
        copies |= dict(zip(producer.results, copy.results, strict=True))
    return copies[value]
