"""Pages, docstrings and comments are spelled right, as far as codespell knows; addresses outside are those listed here."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.process import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
PLACES = (
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "SUPPORT.md",
    "docs",
    "examples",
    "src",
)
# names and notation that are no misspellings
KNOWN = "fro,olt,notin,datas,nin"
ADDRESSES = {
    "https://semver.org",
    "https://data-apis.org/array-api",
    "https://github.com/huggingface/safetensors",
}  # outside: listed, not fetched


@pytest.mark.skipif(importlib.util.find_spec("codespell_lib") is None, reason="codespell is not installed (extra dev)")
def test_spelling() -> None:
    command = [
        sys.executable,
        "-m",
        "codespell_lib",
        "--ignore-words-list",
        KNOWN,
        "--skip",
        "*.svg,*.png,*.js,*/api/*,*/programs/*",
    ]
    result = subprocess.run([*command, *PLACES], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert result.returncode == 0, result.stdout


def test_outside_links_are_listed() -> None:
    pages = [ROOT / name for name in PLACES if name.endswith(".md")] + list((ROOT / "docs").rglob("*.md"))
    found = {
        link.rstrip("/") for page in pages for link in re.findall(r"\]\((https?://[^)\s]+)\)", page.read_text(encoding="utf-8"))
    }
    assert found <= ADDRESSES
