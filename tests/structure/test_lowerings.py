"""The native backend knows every op: it has a lowering, or is on the one list of ops that call NumPy, with the reason."""

from __future__ import annotations

import pytest

from gradtape.backends.llvm.kernels.table import LOWERINGS
from gradtape.backends.llvm.planning.complex_parts import RULES
from gradtape.backends.llvm.planning.lowering import Lowering, Lowerings
from gradtape.ops import registry
from gradtape.ops.elementwise import ADD
from gradtape.passes.inplace import ARITHMETIC, COPY_OF, TWINS
from tests.backends.numpy_ops import CALL_NUMPY

EVERY = (*registry.OPS, *registry.PROGRAM_OPS)


def test_every_op_has_a_lowering_or_a_reason() -> None:
    missing = {op.name for op in EVERY if op not in LOWERINGS and op not in RULES and op.expand is None}
    assert not missing - CALL_NUMPY.keys(), f"call NumPy without a reason: {sorted(missing - CALL_NUMPY.keys())}"
    assert not CALL_NUMPY.keys() - missing, f"are native now, strike them out: {sorted(CALL_NUMPY.keys() - missing)}"


def test_every_lowering_is_of_an_op_that_programs_have() -> None:
    known = {*EVERY, *TWINS.values(), *ARITHMETIC.values(), *COPY_OF.values()}
    own = {op.name for op in LOWERINGS if op not in known}
    halves = {
        f"{name}_{half}" for name in ("all_sum", "swap_edges", "swap_with") for half in ("posted", "awaited")
    }  # by overlap
    native = {"piece", "joined", "in_range", "row_pick", "parts", "from_parts", "system", "turned"}  # by native code
    assert own == native | halves | {"pull_more", "pull_item"}  # of loops over datasets


@pytest.mark.parametrize("op", LOWERINGS, ids=lambda op: op.name)
def test_a_lowering_says_how(op: registry.Op) -> None:
    how = LOWERINGS[op]
    assert how.element or how.fold or how.memory or how.rewrite or how.alias
    assert not (how.fold and (how.element or how.memory))
    assert how.element or not (how.prepare or how.kinds or how.broadcasts or how.layout)


def test_an_op_is_written_in_one_place() -> None:
    with pytest.raises(TypeError, match="written in two places: add"):
        Lowerings({ADD: Lowering()}, {ADD: Lowering()})
