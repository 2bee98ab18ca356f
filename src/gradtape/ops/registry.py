"""The closed list of all operations: explicit tuples, built once, found by name."""

from __future__ import annotations

from types import FunctionType, ModuleType

from gradtape.core.opdef import Composite, Op
from gradtape.ops import (
    activations,
    blocks,
    check_numerics as checks,
    clipping,
    collective,
    colours,
    compare,
    composite,
    contract,
    conv,
    conversions,
    create,
    cumulative,
    dynamic,
    elementwise,
    extending,
    fft,
    frames,
    image_measures,
    incomplete,
    index,
    linalg_banded,
    linalg_det,
    linalg_functions,
    linalg_solve,
    linalg_spectral,
    lists,
    losses,
    matmul,
    matrix,
    nn_functions,
    normalization,
    padding,
    partitions,
    permutations,
    pool,
    random,
    rank_functions,
    reduce,
    resizing,
    scatter,
    segment,
    select,
    sequence_losses,
    shape,
    sorting,
    special,
    staged,
    stop,
)
from gradtape.ops.structured import REGION_OPS

FAMILIES: tuple[ModuleType, ...] = (
    elementwise, compare, select, create, shape, padding, extending, index, reduce, cumulative, matmul, stop, checks,
    activations, losses, sequence_losses, normalization, conv, pool, fft, frames, random, contract, matrix, linalg_solve,
    linalg_banded, linalg_det, linalg_spectral, linalg_functions, composite, permutations, special, incomplete, sorting,
    segment, scatter, blocks, clipping, conversions, partitions, dynamic, lists, staged, collective, rank_functions,
    nn_functions, resizing, colours, image_measures,
)  # fmt: skip

OPS: tuple[Op, ...] = tuple(op for family in FAMILIES for op in vars(family).get("OPS", ()))
# what a family declares with `@composite`, in the order of its file; what it imports of others is theirs
COMPOSITES: tuple[Composite, ...] = tuple(
    dict.fromkeys(  # (a function may have two names)
        function.composite  # type: ignore[attr-defined]
        for family in FAMILIES
        for function in vars(family).values()
        if isinstance(function, FunctionType) and function.__module__ == family.__name__ and "composite" in vars(function)
    )
)
# parts of programs that have no sample: control flow, whose meaning is in its regions; constants, effects and messages
PROGRAM_OPS: tuple[Op, ...] = (*REGION_OPS, *staged.PROGRAM_OPS, *collective.MESSAGES)
_ALL = (*OPS, *PROGRAM_OPS)
_BY_NAME = {op.name: op for op in _ALL}
if len(_BY_NAME) != len(_ALL):
    raise TypeError("two ops share a name: " + ", ".join(sorted({o.name for o in _ALL if _BY_NAME[o.name] is not o})))


def op_by_name(name: str) -> Op:
    """The op registered under this name."""
    return _BY_NAME[name]
