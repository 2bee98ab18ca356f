"""The collector rests while programs are made, whoever nests and whatever is raised; discarded blocks are freed at once."""

from __future__ import annotations

import gc
import weakref

import pytest

import gradtape as gt
from gradtape.ir.garbage import discard, uncollected
from gradtape.passes.cse import cse


def test_nested_and_left_by_an_error():
    @uncollected()
    def fails():
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
        raise ZeroDivisionError

    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        fails()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


class Watched(dict):
    """Attributes that say when they are gone."""


def test_discarded_blocks_need_no_collector():
    program = gt.function(lambda x: gt.sin(x) * gt.cos(x)).get_concrete_function(gt.constant(1.0))._traced.program.block
    block = cse(program)
    block.operations[0].attrs = Watched()
    gone = weakref.ref(block.operations[0].attrs)
    with uncollected():
        discard(block)
        del block
        assert gone() is None
    assert len(program.operations[0].results) == 1  # what it was made from is whole
