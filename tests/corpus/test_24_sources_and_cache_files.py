"""Source that is on the path but not installed could not compile a function, and exchanged cache files were a SystemError."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np

import gradtape as gt
from gradtape import config

ROOT = Path(__file__).resolve().parents[2]
UNINSTALLED = """
import importlib.metadata

def version(name):
    raise importlib.metadata.PackageNotFoundError(name)

importlib.metadata.version = importlib.metadata.distribution = version
import gradtape as gt
from gradtape.tools import cli, demo, report_page
print(float(gt.function(lambda x: gt.reduce_sum(x * x))(gt.constant([1.0, 2.0]))), gt.__version__)
"""


def test_source_on_the_path_need_not_be_installed() -> None:
    ran = subprocess.run([sys.executable, "-c", UNINSTALLED], capture_output=True, text=True, check=False, cwd=ROOT / "src")
    assert ran.stdout.split() == ["5.0", config.VERSION], ran.stderr


def test_the_version_is_that_of_the_package() -> None:
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]  # made from config.VERSION
    assert gt.__version__ == config.VERSION
    assert importlib.metadata.version("numpy")  # the real one is back


def test_exchanged_cache_files_are_not_used(tmp_path: Path) -> None:
    before = config.native_cache_directory()
    config.set_native_cache_directory(tmp_path)
    try:
        x = gt.constant([1.0, 2.0])
        for _ in range(2):
            gt.function(lambda x: x * 3.25)(x)
            gt.function(lambda x, y: gt.reduce_sum(x) + y)(x, x)
        files = sorted(tmp_path.glob("*/*.o"))
        assert len(files) >= 2
        contents = [file.read_bytes() for file in files]
        for file, content in zip(files, contents[1:] + contents[:1], strict=True):
            file.write_bytes(content)
        np.testing.assert_array_equal(gt.function(lambda x: x * 3.25)(x), [3.25, 6.5])
        np.testing.assert_array_equal(gt.function(lambda x, y: gt.reduce_sum(x) + y)(x, x), [4.0, 5.0])
    finally:
        config.set_native_cache_directory(before)
