"""Keras is optional: without it these tests are skipped in words. gradtape takes its seat before anybody imports Keras."""

import warnings

import pytest

from tests.keras import keras_or_none


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if keras_or_none() is None:
        for item in items:
            if "tests/keras/" in str(item.path).replace("\\", "/"):
                item.add_marker(pytest.mark.skip(reason="Keras is not installed: pip install 'gradtape[keras]'"))


@pytest.fixture(autouse=True)
def quiet() -> None:
    """Keras warns of its own deprecations; they are not ours."""
    warnings.filterwarnings("ignore", category=DeprecationWarning, module="keras")
