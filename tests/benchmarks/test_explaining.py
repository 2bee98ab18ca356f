"""The benchmark of explanations runs, and what it leaves out is exactly what explanations need."""

import pytest
from benchmarks import explaining

import gradtape as gt
from gradtape.core import dispatch, recorded


def test_it_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "CALLS", 20)
    monkeypatch.setattr(explaining, "answers", lambda: explaining_of_few())
    explaining.main(["--rounds", "2"])
    text = capsys.readouterr().out
    assert all(f"`{name}`" in text for name in explaining.OPERATIONS)
    assert "connected, after the gradient" in text


def explaining_of_few() -> dict[str, float]:
    found: dict[str, float] = ANSWERS(2000)
    return found


ANSWERS = explaining.answers


def test_without_explanations_gradients_are_the_same() -> None:
    x = gt.Variable(3.0)
    with explaining.without_explanations(), gt.GradientTape() as tape:
        y = gt.sin(x) * x
    assert dispatch.record is recorded.record
    with gt.GradientTape() as other:
        z = gt.sin(x) * x
    assert tape.gradient(y, x).numpy() == other.gradient(z, x).numpy()
