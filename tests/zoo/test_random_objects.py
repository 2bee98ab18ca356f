"""Random functions about objects and their names: what is changed under one name is changed under all, as in Python."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import gradtape as gt
from gradtape.errors import InvalidArgumentError
from tests.harness.tolerances import IDENTITY, same_array
from tests.zoo.checks import values
from tests.zoo.object_programs import program

pytestmark = pytest.mark.usefixtures("reference_backend")

HEAD = "import gradtape as gt\n\n\nclass Box:\n    pass\n\n\n"
INPUTS = [np.array([0.3, -0.5, 0.8]), np.array([1.3, 1.5, 0.7]), np.array([0.6, 1.1, -0.95])]
PARTS = 10
EACH = 12  # programs per part
REFUSAL = "an item of a list whose items live in the program"


def load(folder, number: int):
    path = folder / f"objects_{number}.py"
    path.write_text(HEAD + program(number))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


def numbers(result):
    return [np.asarray(v, np.float64) for v in gt.nest.flatten(values(result))]


@pytest.mark.parametrize("part", range(PARTS))
def test_random_objects(part, tmp_path):
    refused = 0
    for number in range(part * EACH, (part + 1) * EACH):
        plain = load(tmp_path, number)
        compiled = gt.function(plain)
        try:
            for x in INPUTS:
                for n in (0, 2):
                    given = gt.constant(x), gt.constant(n)
                    expected = numbers(plain(*given))
                    for place, (a, b) in enumerate(zip(numbers(compiled(gt.constant(x), given[1])), expected, strict=True)):
                        same_array(a, b, IDENTITY, f"program {number} at {x}, {n}: output {place}")
        except InvalidArgumentError as error:  # the one thing that may be refused
            assert REFUSAL in str(error), f"program {number}: {error}"  # noqa: PT017
            refused += 1
    assert refused <= EACH // 4, f"{refused} of {EACH} programs are refused"


def test_the_programs_are_about_all_of_it():
    text = "".join(program(number) for number in range(PARTS * EACH))
    for part in ("rows.append(t)", "a = b", "box.tensor = ", "held[1][1] = ", "break", "in gt.range(n)", "a, c = c, a"):
        assert part in text
