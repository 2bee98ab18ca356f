"""Jacobians and Hessians of what a tape recorded, and `vectorized_map`: all through batched evaluation.

A Jacobian is a reverse walk whose cotangents are rows of the identity, hidden behind a batch axis, in chunks that keep
memory bounded. No function is called again and nothing is retraced.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape import tree
from gradtape.ad.batch import NoSingleValue, batched, next_level, unbatched
from gradtape.core.arguments import function_of
from gradtape.core.dispatch import convert
from gradtape.core.record import Examples, RecordingScope, current_scope, scope_of
from gradtape.core.tensor import Tensor, box
from gradtape.core.typing import Size
from gradtape.errors import InvalidArgumentError
from gradtape.functions.unknown_arguments import name_argument
from gradtape.ir.polynomial import Dim
from gradtape.ir.types import TensorSpec
from gradtape.ops.create import zeros
from gradtape.ops.shape import broadcast_to, concat, reshape, stack, transpose
from gradtape.tape.mapped_control import ONE_BY_ONE, branches, codes_of, mapped_by_tracing, prints
from gradtape.trace.effects import active, converted
from gradtape.tree import Structure
from gradtape.variables.variable import Variable

CHUNK_BYTES = 128_000_000


def chunk_length(rows: int, row_bytes: Size) -> int:
    """How many cotangents are carried at once: all of them where only the run of a program tells how large they are."""
    if row_bytes.__class__ is Dim:
        return rows
    return max(1, min(rows, CHUNK_BYTES // max(row_bytes, 1)))


def elements(shape: tuple[Any, ...]) -> int:
    """Elements of a record's output (several outputs: of all)."""
    if shape and isinstance(shape[0], tuple):
        return sum(math.prod(s) for s, _ in shape)
    return math.prod(shape)


def rows_through(
    rows: int, row_bytes: Size, differentiate: Callable[[Any], list[Any]], seed_rows: Callable[[int, int], Any]
) -> list[Any]:
    """`differentiate(seed)` for all rows, batched in chunks: per source a tensor with the rows first, or None."""
    chunks: list[list[Any]] = []
    start = 0
    step = chunk_length(rows, row_bytes)
    while start < rows:
        stop = min(rows, start + step)
        # A batch of cotangents is one cotangent with a hidden axis: the walk runs once for all rows of the chunk.
        level = next_level()
        seed = batched(seed_rows(start, stop), level)
        answers = differentiate(seed)
        chunks.append([None if a is None else unbatched(a, level, stop - start) for a in answers])
        start = stop
    return [None if column[0] is None else concat(list(column), 0) if len(column) > 1 else column[0]
            for column in zip(*chunks, strict=True)]  # fmt: skip


def identity_rows(target: Tensor) -> Callable[[int, int], Tensor]:
    """Rows start..stop of the identity over the elements of `target`, each shaped like it."""
    shape, size = tuple(target.shape), target.size

    def rows(start: int, stop: int) -> Tensor:
        flat = np.zeros((stop - start, size), target.dtype.dtype)
        flat[np.arange(stop - start), np.arange(start, stop)] = 1
        return box(flat.reshape((stop - start, *shape)))

    return rows


def per_example_rows(target: Tensor) -> Callable[[int, int], Tensor]:
    """The same unit vectors for every example of a batch (axis 0 of `target`)."""
    shape = tuple(target.shape)
    count = math.prod(shape[1:])

    def rows(start: int, stop: int) -> Tensor:
        flat = np.zeros((stop - start, 1, count), target.dtype.dtype)
        flat[np.arange(stop - start), 0, np.arange(start, stop)] = 1
        wide = np.broadcast_to(flat, (stop - start, shape[0], count))
        return box(wide.reshape((stop - start, *shape)))

    return rows


def jacobian_shape(answer: Tensor, target: Tensor, source: TensorSpec) -> Any:
    """Rows first → target.shape + source.shape."""
    return reshape(answer, (*tuple(target.shape), *tuple(source.shape)))


def empty_jacobian(target: Tensor | Variable, source: Tensor | Variable | TensorSpec) -> Any:
    """The Jacobian of a target without elements."""
    return zeros((*tuple(target.shape), *tuple(source.shape)), source.dtype)


def batch_first(answer: Tensor, target: Tensor, source: TensorSpec) -> Any:
    """(rows, batch, ...) → (batch, target.shape[1:], source.shape[1:])."""
    size = int(target.shape[0])
    order = (1, 0, *range(2, answer.ndim))
    return reshape(transpose(answer, order), (size, *tuple(target.shape)[1:], *tuple(source.shape)[1:]))


def vectorized_map(fn: Callable[[Any], Any], elems: Structure, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """`fn` for every element along axis 0 of `elems`, all at once.

    `fn` sees one example; each operation in it runs once, on the whole batch. Tapes opened inside give per-example
    gradients; random numbers drawn inside are independent for each example.

    >>> gt.vectorized_map(lambda x: gt.reduce_sum(x * x), gt.constant([[1.0, 2.0], [3.0, 4.0]])).numpy()
    array([ 5., 25.], dtype=float32)
    """
    function_of(fn, "fn", "vectorized_map")
    tensors = [convert(e) for e in tree.flatten(elems)]
    if not tensors:
        raise ValueError("vectorized_map: elems is empty; give at least one tensor")
    for tensor in tensors:
        if tensor.ndim == 0:
            raise InvalidArgumentError("vectorized_map: every element of elems needs an axis 0 to map over, got a scalar")
    sizes = {int(t.shape[0]) for t in tensors} - {1}
    if len(sizes) > 1:
        raise InvalidArgumentError(f"vectorized_map: leading dimensions differ: {sorted(sizes)}")
    size = sizes.pop() if sizes else 1
    # As in TensorFlow, an axis of length one goes with every example.
    full = [t if int(t.shape[0]) == size else broadcast_to(t, (size, *tuple(t.shape)[1:])) for t in tensors]
    scope = current_scope()
    level = scope.level + 1
    if active() is not None:
        from gradtape.tape.mapped import mapped_in_program

        mapped = mapped_in_program(converted(fn), elems, [batched(t, level) for t in full])
        if mapped is not None:
            result, one = mapped
            return tree.map_structure(lambda r: unbatched(r, level, size), result) if one else result
    reason = None
    codes = codes_of(fn) if active() is None and not scope.level else []
    # Texts of one example must come out before those of the next, so a function that prints runs for each by itself.
    if active() is None and (ONE_BY_ONE.get() or (size and prints(codes))):
        rows = [fn(tree.pack_sequence_as(elems, [t[i] for t in full])) for i in range(size)]
        return tree.map_structure(lambda *parts: stack(parts), *rows)
    if branches(codes):
        result, reason = mapped_by_tracing(vectorized_map, fn, elems)
        if result is not None:
            return result[0]
    with scope_of(RecordingScope(scope.recorders, (*scope.batches, Examples(size, batched)))):
        try:
            result = fn(tree.pack_sequence_as(elems, [batched(t, level) for t in full]))
        except (NoSingleValue, InvalidArgumentError) as error:
            name_argument(error)
            raise (error if reason is None else reason) from None
    return tree.map_structure(lambda r: unbatched(convert(r), level, size), result)


def block_hessian(rows: list[list[Any]], sources: Structure) -> Any:
    """Blocks d²f/dsᵢdsⱼ arranged like `sources` of `sources`; a single source gives a single block."""
    if not tree.is_nested(sources):
        return rows[0][0]
    return tree.pack_sequence_as(sources, [tree.pack_sequence_as(sources, row) for row in rows])
