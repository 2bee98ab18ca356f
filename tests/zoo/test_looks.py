"""The look at a compiled program with floating-point events (`functions/program_events.py`), forced on every call of the zoo.

A look runs the program operation by operation, and what it meets must not end a call that went well, so a defect of it would
only make messages worse, in silence. Here defects are raised, and each look gives what the call gave.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.backends.numpy.executable import Executable
from gradtape.functions.program_events import HeardEvaluation
from tests.harness.seeds import in_sample
from tests.harness.tolerances import IDENTITY, same_array
from tests.zoo import test_zoo
from tests.zoo.checks import gradients, run
from tests.zoo.registry import ENTRIES, Entry

pytestmark = pytest.mark.usefixtures("reference_backend")
SAMPLE = 4


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every run of a program that somebody listens to is looked at; the number of operations of each look."""
    counts: list[int] = []
    results: list[Sequence[Any]] = []
    before, evaluate = Executable.listen, HeardEvaluation.run

    def listen(self: Executable, listener: Any) -> list[int]:
        words = before(self, listener)
        run = self._run

        def looked(arrays: list[Any]) -> Any:
            given = list(arrays)
            results.append(run(arrays))
            listener(results[-1], *given)
            return results.pop()

        self._run = looked
        return words

    def compared(self: HeardEvaluation, block: Any, tensors: Any, outer: Any = None) -> Any:
        outs = evaluate(self, block, tensors, outer)
        if outer is None:
            counts.append(len(block.operations))
            for out, result in zip(outs, results[-1], strict=False):  # a forward half gives residuals, too
                if isinstance(result, np.ndarray):
                    same_array(out.numpy(), result, IDENTITY, "what a look sees")
        return outs

    monkeypatch.setattr(Executable, "listen", listen)
    monkeypatch.setattr(HeardEvaluation, "run", compared)
    gt.config.debug_passes(True)
    yield counts
    gt.config.debug_passes(False)


@pytest.mark.parametrize("entry", [e for e in ENTRIES.values() if in_sample(e.name, SAMPLE)], ids=str)
def test_a_look_sees_what_ran(entry: Entry, looks: list[int]) -> None:
    test_zoo.same(run(entry, gt.function), test_zoo.eager_run(entry.name), entry.name)
    if entry.order:
        gradients(entry, entry.inputs[0], gt.function)


def test_a_defect_of_a_look_is_raised(looks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    function = gt.function(lambda x: gt.sin(x) * 2.0)
    function(gt.constant(1.0))
    assert looks == [3]
    monkeypatch.setattr(HeardEvaluation, "step", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        function(gt.constant(1.0))
    gt.config.debug_passes(False)
    function(gt.constant(1.0))
