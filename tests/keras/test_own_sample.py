"""A sample of Keras's own tests, in a process of its own; all of them are run by `make test-keras`."""

import subprocess
import sys

import pytest

from tests.keras.suite import SAMPLE, keras_tests, known_failures


def test_sample_of_keras_own_tests() -> None:
    if not list(keras_tests().rglob("*_test.py")):
        pytest.skip("this version of Keras ships no tests")
    result = subprocess.run([sys.executable, "-m", "tests.keras.suite", *SAMPLE], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert "passed" in result.stdout


def test_each_known_failure_has_a_reason() -> None:
    assert [name for name, reason in known_failures().items() if not reason] == []
    assert len(known_failures()) <= 36  # may only shrink
