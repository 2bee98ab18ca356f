"""The examples in docstrings run. As in TensorFlow's, `gt` is there without being imported in each of them."""

import doctest
import importlib
import importlib.util

import pytest

import gradtape
from tests.structure.modules import modules


@pytest.mark.parametrize("name", list(modules()))
def test_examples(name: str) -> None:
    if name.startswith("gradtape.keras") and importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed: pip install 'gradtape[keras]'")
    module = importlib.import_module(name)
    result = doctest.testmod(module, extraglobs={"gt": gradtape}, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples of {name} failed"
