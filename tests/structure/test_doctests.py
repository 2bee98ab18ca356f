"""The examples in docstrings run."""

import doctest
import importlib
import importlib.util

import pytest

from tests.structure.modules import modules


@pytest.mark.parametrize("name", list(modules()))
def test_examples(name: str) -> None:
    if name.startswith("gradtape.keras") and importlib.util.find_spec("keras") is None:
        pytest.skip("Keras is not installed: pip install 'gradtape[keras]'")
    module = importlib.import_module(name)
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0, f"{result.failed} of {result.attempted} examples of {name} failed"
