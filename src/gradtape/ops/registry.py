"""The closed list of all operations: explicit tuples, built once, found by name."""

from __future__ import annotations

from types import ModuleType

from gradtape.ops import (
    activations,
    blocks,
    checks,
    clipping,
    compare,
    composite,
    contract,
    conv,
    create,
    cumulative,
    elementwise,
    fft,
    incomplete,
    index,
    linalg_det,
    linalg_functions,
    linalg_solve,
    linalg_spectral,
    losses,
    matmul,
    matrix,
    normalization,
    pool,
    random,
    reduce,
    scatter,
    segment,
    select,
    shape,
    sorting,
    special,
    stop,
)
from gradtape.ops.opdef import Composite, Op

FAMILIES: tuple[ModuleType, ...] = (
    elementwise,
    compare,
    select,
    create,
    shape,
    index,
    reduce,
    cumulative,
    matmul,
    stop,
    checks,
    activations,
    losses,
    normalization,
    conv,
    pool,
    fft,
    random,
    contract,
    matrix,
    linalg_solve,
    linalg_det,
    linalg_spectral,
    linalg_functions,
    composite,
    special,
    incomplete,
    sorting,
    segment,
    scatter,
    blocks,
    clipping,
)

OPS: tuple[Op, ...] = tuple(op for family in FAMILIES for op in family.OPS)
COMPOSITES: tuple[Composite, ...] = tuple(
    function.composite for family in FAMILIES for function in family.__dict__.get("COMPOSITES", ())
)
_BY_NAME = {op.name: op for op in OPS}
if len(_BY_NAME) != len(OPS):
    raise TypeError("two ops share a name: " + ", ".join(sorted({o.name for o in OPS if _BY_NAME[o.name] is not o})))


def op_by_name(name: str) -> Op:
    """The op registered under this name."""
    return _BY_NAME[name]
