"""Programs with operations written in simpler ones: which ones, inside regions, at sizes known only at run time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradtape.ad.expansion import expanded
from gradtape.core.opdef import Op
from gradtape.ir.graph import Block
from gradtape.ir.printer import to_text
from gradtape.ir.verify import verify
from gradtape.ir.walk import walk
from gradtape.ops.activations import LOG_SOFTMAX, SOFTMAX
from gradtape.ops.elementwise import EXP
from gradtape.ops.reduce import REDUCE_MAX, REDUCE_MEAN
from gradtape.ops.registry import op_by_name
from tests.harness.program_parser import parse

ROWS = """\
func rows(%x: float32[n, 3]) {
  %0: float32[n, 3] = log_softmax(%x, axis=1)
  %1: float32[n, 3] = softmax(%0, axis=1)
  give outputs(%1)
}
"""
MEANS = """\
func means(%x: float32[4], %i: int32[4]) {
  %0: float32[] = reduce_mean(%x, axis=(0,), keepdims=False)
  %1: int32[] = reduce_mean(%i, axis=(0,), keepdims=False)
  give outputs(%0, %1)
}
"""


def written(text: str, *ops: Op) -> Block:
    return verify(expanded(parse(text, op_by_name), lambda operation: operation.op in ops))


def names(block: Block) -> list[str]:
    return [operation.op.name for operation in walk(block)]


def test_only_the_chosen_ops_are_written_out() -> None:
    block = written(ROWS, SOFTMAX)
    assert names(block) == ["log_softmax", "reduce_max", "subtract", "exp", "reduce_sum", "exp", "divide"]
    assert block.results[0].type == parse(ROWS, op_by_name).results[0].type
    assert not {SOFTMAX, LOG_SOFTMAX} & {o.op for o in written(ROWS, SOFTMAX, LOG_SOFTMAX, EXP).operations}


def test_an_op_keeps_its_form_where_it_has_no_expansion() -> None:
    text = to_text(parse(ROWS, op_by_name))
    assert to_text(written(ROWS)) == text
    assert to_text(written(ROWS, REDUCE_MAX)) == text
    assert names(written(MEANS, REDUCE_MEAN)) == ["reduce_mean", "reduce_sum", "constant", "floordiv"]


def test_an_expansion_of_another_type_is_refused() -> None:
    wrong = replace(SOFTMAX, name="wrong", expand=lambda x, axis: x[0])
    text = ROWS.replace("= softmax", "= wrong")
    block = parse(text, lambda name: wrong if name == "wrong" else op_by_name(name))
    with pytest.raises(TypeError, match=r"wrong written out is .* not "):
        expanded(block, lambda operation: operation.op is wrong)
