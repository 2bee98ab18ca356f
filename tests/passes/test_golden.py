"""Each pass, on small programs, as text: `texts/<pass>/<case>.txt`."""

from __future__ import annotations

import pytest

from gradtape.passes.pipeline import PASSES
from tests.passes.golden import case, cases, text_after

FUNCTIONS = {name: function for name, function, _ in PASSES}


@pytest.mark.parametrize(("name", "stem"), cases())
def test_pass_on_text(name: str, stem: str) -> None:
    before, after = case(name, stem)
    assert text_after(FUNCTIONS[name], before) == after


@pytest.mark.parametrize(("name", "stem"), cases())
def test_passes_have_nothing_more_to_do(name: str, stem: str) -> None:
    _, after = case(name, stem)
    assert text_after(FUNCTIONS[name], after) == after


def test_every_pass_has_texts() -> None:
    assert {name for name, _ in cases()} == set(FUNCTIONS)
