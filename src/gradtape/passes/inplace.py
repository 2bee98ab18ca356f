"""The twins that `bufferize` puts in the places of ops that can write over their first operand (`Op.overwrites`).

A twin (`update_into` for `update`) changes its first operand and returns it; twins stand only in programs that `bufferize`
made, and have no derivatives.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradtape.core.opdef import Op
from gradtape.ir.types import ListSpec, TensorSpec
from gradtape.ops.list_values import TensorList
from gradtape.ops.registry import OPS
from gradtape.ops.staged import COPY


def _twin(op: Op) -> Op:
    assert op.overwrites is not None
    return replace(op, name=f"{op.name}_into", impl=op.overwrites, overwrites=None, call=None, samples=None)


_TWINS = {op: _twin(op) for op in OPS if op.overwrites is not None}
TWINS: dict[Op, Op] = {op: twin for op, twin in _TWINS.items() if op.kind != "elementwise"}
# worth it only where the buffer is large: a small one is allocated sooner than a flag is looked at
ARITHMETIC: dict[Op, Op] = {op: twin for op, twin in _TWINS.items() if op.kind == "elementwise"}
_PURE = {twin: op for op, twin in _TWINS.items()}


def pure_op(op: Op) -> Op:
    """The op a twin stands for; any other op is itself."""
    return _PURE.get(op, op)


def is_twin(op: Op) -> bool:
    """Whether an op works in place."""
    return op in _PURE


def _copy_list_impl(values: Any) -> Any:
    return None if values is None else TensorList(values, values.item)


# what a loop that works in place starts from; of a list the list alone, not its items
COPY_OF: dict[type, Op] = {
    TensorSpec: COPY,
    ListSpec: Op("list_copy", "nondiff", ("l",), _copy_list_impl, lambda values: values, reason="only made by bufferize"),
}
