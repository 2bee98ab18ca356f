"""`python -m gradtape` and its small subcommands: doctor, cache, completion."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gradtape as gt
from gradtape.tools import cli, doctor
from tests.harness.process import PATIENCE


def test_the_package_is_the_command() -> None:
    command = [sys.executable, "-m", "gradtape", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert result.stdout.strip() == f"gradtape {gt.__version__}"


def test_without_a_subcommand_it_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    out = capsys.readouterr().out
    assert {"demo", "run", "launch", "doctor", "cache", "completion"} <= {*out.split()}


def test_doctor_reports_and_tests(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor"]) == 0
    out = capsys.readouterr().out
    for word in ("versions", "numpy", "llvmlite", "processor", "features", "folder", "kernels", "BLAS", "self-test"):
        assert word in out
    assert sum(line.endswith(" right") for line in out.splitlines()) == 3  # the word may be in the path of the project, too


def test_doctor_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> str | None:
        raise RuntimeError("no BLAS today")

    monkeypatch.setitem(doctor._CHECKS, "BLAS", broken)
    assert cli.main(["doctor"]) == 1
    assert "RuntimeError: no BLAS today" in capsys.readouterr().out


def test_cache_is_shown_and_emptied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = gt.config.native_cache_directory()
    try:
        gt.config.set_native_cache_directory(tmp_path)
        (tmp_path / "00").mkdir()
        (tmp_path / "00" / "program").write_bytes(b"x" * 1000)
        assert cli.main(["cache"]) == 0
        assert "1 files, 0.0 MB" in capsys.readouterr().out
        assert cli.main(["cache", "--clear"]) == 0
        assert "removed 1 files" in capsys.readouterr().out
        assert not (tmp_path / "00" / "program").exists()
        gt.config.set_native_cache_directory(None)
        assert cli.main(["cache"]) == 0
        assert "no cache" in capsys.readouterr().out
    finally:
        gt.config.set_native_cache_directory(before)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_subcommand(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("demo", "run", "doctor", "cache", "completion"))
    assert "clear" in text


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_completion_completes(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["completion", "bash"])
    text = capsys.readouterr().out + 'COMP_WORDS=(gradtape do) COMP_CWORD=1; _gradtape; echo "${COMPREPLY[@]}"\n'
    text += 'COMP_WORDS=(gradtape cache --c) COMP_CWORD=2; _gradtape; echo "${COMPREPLY[@]}"\n'
    result = subprocess.run(["bash", "-c", text], capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert result.stdout.split() == ["doctor", "--clear"]
