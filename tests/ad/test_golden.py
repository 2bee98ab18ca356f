"""The derivative of each structured op, as text: `texts/<case>.txt`. Update: `python -m tests.ad.golden --update`."""

from __future__ import annotations

import numpy as np
import pytest

from gradtape.backends.numpy import compile_block
from gradtape.ops.structured import REGION_OPS
from tests.ad.golden import Case, names
from tests.harness.numeric import derivative, inner_all
from tests.harness.tolerances import FINITE_DIFFERENCE, IDENTITY, same_number

EVERY = pytest.mark.parametrize("name", names())
RULES = ("custom_rule",)  # a derivative that is not the derivative


@EVERY
def test_text(name):
    case = Case(name)
    for part, text in case.texts().items():
        assert text == case.parts[part], f"{part} of {name}"


@EVERY
def test_what_the_texts_compute(name):
    """The halves, before and after passes, and forward mode, against finite differences of the program."""
    case = Case(name)
    generator = np.random.default_rng(0)
    program = compile_block(case.block())
    given = [_array(generator, p.type) for p in case.block().params]
    tangents = [generator.normal(size=np.shape(given[i])) for i in case.wanted]
    seeds = [generator.normal(size=tuple(case.block().results[i].type.shape)) for i in case.seeded]

    def moved(step):
        at = list(given)
        for i, t in zip(case.wanted, tangents, strict=True):
            at[i] = (at[i] + step * t)[()]
        return inner_all(seeds, [program(*at)[i] for i in case.seeded])

    slope = derivative(moved) if name not in RULES else None
    halves = case.halves()
    for passes in ("", " after passes"):
        outs = compile_block(case.made(f"forward{passes}"))(*given)
        saved = outs[len(case.block().results) :]
        grads = dict(zip(halves.answers, compile_block(case.made(f"backward{passes}"))(*saved, *seeds), strict=True))
        pairs = [(grads[i], t) for i, t in zip(case.wanted, tangents, strict=True) if i in grads]
        product = sum(inner_all([g], [t]) for g, t in pairs)
        if slope is not None:
            same_number(product, slope, FINITE_DIFFERENCE, 1.0, f"{name}{passes}")
        pushed = compile_block(case.made(f"jvp{passes}"))(*given, *tangents)[len(case.block().results) :]
        same_number(inner_all(seeds, pushed), product, IDENTITY, 1.0, f"forward mode of {name}{passes}")


def _array(generator, spec):
    if spec.dtype.name == "bool":
        return np.True_
    if spec.dtype.is_integer:
        return np.int32(3)
    return generator.uniform(0.2, 1.0, size=tuple(spec.shape))[()]


def test_every_structured_op_has_a_text():
    found = {operation.op.name for name in names() for operation in Case(name).block().operations}
    assert {op.name for op in REGION_OPS} - found <= {"checkpointed"}  # made by derivatives only, never by programs
