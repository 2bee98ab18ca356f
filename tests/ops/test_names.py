"""The last argument of an elementwise function is a name, as in TensorFlow: a number there was meant for something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as gt
from gradtape.core.forms import FORMS

FUNCTIONS = [(kind, call) for kind, _, call in FORMS if kind in ("unary", "binary")]


@pytest.mark.parametrize(("kind", "call"), FUNCTIONS, ids=lambda value: getattr(value, "__name__", value))
def test_another_operand_is_no_name(kind: str, call: Any) -> None:
    operands = [gt.constant([0.5, 0.25])] * (1 if kind == "unary" else 2)
    for extra in (operands[0], 1.0, (1, 2), np.zeros(2)):
        with pytest.raises(TypeError, match="is a name, got"):
            call(*operands, extra)
