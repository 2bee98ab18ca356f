"""Checks of batch rules: one call with a batch axis against a Python loop, for primitives and for whole functions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

import gradtape as gt
from gradtape.core import batching
from gradtape.core.opdef import Op
from gradtape.ops.list_values import TensorList
from tests.harness import lists
from tests.harness.cases import Case, tensor
from tests.harness.derivatives import asked, bare, differentiable, weights_of
from tests.harness.seeds import in_sample
from tests.harness.spy import Call, spied
from tests.harness.tolerances import IDENTITY, same_array

SIZE = 3
ALONE = 4  # of so many leaves one is batched alone in `vectorized_map`


def variants(value: Any) -> list[Any]:
    """Three values of one type: floats scaled a little (signs, symmetry and order stay), others shuffled or repeated."""
    if isinstance(value, TensorList):
        return [TensorList(row) for row in zip(*(variants(v) for v in value), strict=True)] if value else [value] * SIZE
    value = np.asarray(value)
    if value.dtype.kind in "fc":
        return [value, value * value.dtype.type(0.99), value * value.dtype.type(1.01)]
    return [value, value.ravel()[::-1].reshape(value.shape), value]


def flag_sets(count: int) -> Iterator[tuple[bool, ...]]:
    """Each input alone, and all together."""
    for i in range(count):
        yield tuple(j == i for j in range(count))
    if count > 1:
        yield (True,) * count


def check_batch_rule(case: Case) -> None:
    """The primitive's own batch rule, on the very inputs and attributes the public function gave it."""
    for call in own_calls(case):
        check_call_batched(call)


def own_calls(case: Case) -> list[Call]:
    """The calls of the case's primitive in a run of its sample, or of one with the same samples that stands in for it."""
    log = spied(case)[1]
    own = [call for call in log if call.op is case.owner]
    return own or [call._replace(op=case.owner) for call in log if call.op.samples is case.owner.samples]


def check_call_batched(call: Call) -> None:
    op, attrs = call.op, call.attrs
    for flags in flag_sets(len(call.inputs)):
        columns = [variants(x) if flag else [lists.bare(x)] * SIZE for x, flag in zip(call.inputs, flags, strict=True)]
        expected = _looped(op, columns, attrs)
        if expected is None:  # shuffled integers are no valid input of this op, or change the shape of its result
            columns = [[lists.bare(x)] * SIZE for x in call.inputs]
            expected = _looped(op, columns, attrs)
        assert expected is not None
        inputs = tuple(
            lists.tensor(lists.column(c) if flag else c[0]) for c, flag in zip(columns, flags, strict=True)
        )  # fmt: skip
        results = batching.rule_of(op)(op, flags, inputs, attrs)
        results = results if isinstance(results, tuple) else (results,)
        for whole, wanted in zip(results, expected, strict=True):
            for a, b in zip(lists.flat(whole._data), lists.flat(wanted), strict=True):
                a = np.broadcast_to(a, b.shape) if op.alike else a
                same_array(a, b, IDENTITY, f"batch rule of {op.name}, batched inputs {flags}, {attrs}")
                assert a.dtype == b.dtype


def _looped(op: Op, columns: list[list[Any]], attrs: dict[str, Any]) -> list[Any] | None:
    rows = []
    for row in zip(*columns, strict=True):
        try:
            out = op.impl(*(x if isinstance(x, TensorList) or x.ndim else x[()] for x in row), **attrs)
        except (ValueError, IndexError, TypeError):
            return None
        rows.append(out if isinstance(out, tuple) else (out,))
    if any(lists.shape_of(a) != lists.shape_of(b) for row in rows for a, b in zip(row, rows[0], strict=True)):
        return None
    return [lists.column(list(results)) for results in zip(*rows, strict=True)]


def check_vectorized_map(case: Case) -> None:
    """`vectorized_map` equals a loop, for results and for gradients taken inside, with all leaves batched, and some alone.

    In `make test-all` with each of them alone: `check_batch_rule` has that for every primitive on the way, always.
    """
    leaves = case.doubles()
    weights = weights_of(case, leaves) if case.differentiable else []
    for flags in flag_sets(len(leaves)):
        places = [i for i, flag in enumerate(flags) if flag]
        if not all(flags) and not in_sample(f"{case.id} {places}", ALONE):
            continue
        columns = [variants(leaves[i]) for i in places]

        def one(elements: Any, places: list[int] = places) -> Any:
            xs = [tensor(x) for x in leaves]
            for i, x in zip(places, elements, strict=True):
                xs[i] = x
            with gt.GradientTape() as tape:
                tape.watch(xs)
                results = case.outputs(xs)
            outputs = differentiable(results)
            if not weights or not outputs:
                return tuple(results)
            slopes = asked(tape, outputs, list(elements), [tensor(w) for w in weights])
            zeros = [bare(None, leaves[i]) for i in places]
            return (*results, *(gt.constant(z) if g is None else g for g, z in zip(slopes, zeros, strict=True)))

        found = gt.vectorized_map(one, [tensor(np.stack(c)) for c in columns])
        rows = [one([tensor(x) for x in row]) for row in zip(*columns, strict=True)]
        for k, (a, *b) in enumerate(itertools.zip_longest(found, *rows)):
            expected = np.stack([bare(x, None) for x in b])
            same_array(bare(a, None), expected, IDENTITY, f"{case.id}: vectorized_map over leaves {places}, result {k}")
